"""Prints what becomes of damaged files, reader by reader; any defect is named with its seed.

    python benchmarks/fuzz.py --cases 6000 --seed 1

Exits with 1 where a damaged file was neither read nor refused with an error of ours.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.reliability.fuzzing import fuzz  # noqa: E402
from tests.reliability.readers import READERS  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=6000, help="damaged files over all readers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers whose name contains this")
    given = parser.parse_args()
    names = [name for name in READERS if given.only in name]
    each = -(-given.cases // len(names))
    total, read, refused = 0, 0, 0
    defects: list[str] = []
    print(f"{'reader':<26}{'files':>7}{'read':>7}{'refused':>9}{'defects':>9}", flush=True)
    for name in names:
        figures = fuzz(name, given.seed, each)
        counts = figures.counts
        total, read = total + counts.total(), read + counts["read"]
        refused, defects = refused + counts["refused"], defects + figures.defects
        row = (counts.total(), counts["read"], counts["refused"], len(figures.defects))
        for line in figures.defects:
            print(line, file=sys.stderr)
        print(f"{name:<26}{row[0]:>7}{row[1]:>7}{row[2]:>9}{row[3]:>9}", flush=True)
    print(f"{'all':<26}{total:>7}{read:>7}{refused:>9}{len(defects):>9}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
