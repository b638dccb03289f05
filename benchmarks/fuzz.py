"""Prints what becomes of damaged files, reader by reader; any defect is named with its seed.

    python benchmarks/fuzz.py --cases 6000 --seed 1

One case again: ``--reader "image: TIFF" --seed 1 --first 1242 --cases 1``. Exits with 1 where
a damaged file was neither read nor refused with an error of ours.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.reliability.fuzzing import EVERY, fuzz  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=6000, help="damaged files in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--reader", default=EVERY)
    given = parser.parse_args()
    figures = fuzz(given.reader, given.seed, given.cases, given.first)
    print(f"{'reader':<26}{'files':>7}{'read':>7}{'refused':>9}{'defects':>9}")
    for name in [*dict.fromkeys(reader for reader, _ in figures.counts), None]:
        whole, read, refused = (figures.of(name, end) for end in (None, "read", "refused"))
        row = f"{whole:>7}{read:>7}{refused:>9}{whole - read - refused:>9}"
        print(f"{name or 'all':<26}{row}")
    for line in figures.defects:
        print(line)
    return 1 if figures.defects else 0


if __name__ == "__main__":
    sys.exit(main())
