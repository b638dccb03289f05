"""Pairs that lie in files: checked by their headers when opened, read when asked for.

Not for: where a dataset keeps its files (one module for each kind of dataset).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.datasets.faults import Faults, same_size
from napari_kpac.datasets.pair import Pair
from napari_kpac.datasets.radius_files import radius_size, read_radius
from napari_kpac.datasets.reading import read_rgb
from napari_kpac.images import picture_size
from napari_kpac.optics.pixels import SMALLEST


@dataclass(frozen=True)
class PairFiles:
    """The files of one pair."""

    blurred: Path
    sharp: Path
    views: tuple[Path, Path] | None = None
    radius: Path | None = None

    def sound(self, faults: Faults, smallest: int = SMALLEST) -> bool:
        """Return True if all files can be read and have one size; note those that do not."""
        pictures = (self.blurred, self.sharp, *(self.views or ()))
        measures = dict.fromkeys(pictures, picture_size)
        if self.radius is not None:
            measures[self.radius] = radius_size
        return same_size(measures, faults, smallest)

    def read(self, bits: int) -> Pair:
        """Read the pair."""
        pair = Pair(
            self.blurred.stem,
            read_rgb(self.blurred, bits),
            read_rgb(self.sharp, bits),
            self.views and (read_rgb(self.views[0], bits), read_rgb(self.views[1], bits)),
            None if self.radius is None else read_radius(self.radius),
        )
        maps = [pair.blurred, pair.sharp, *(pair.views or ())]
        maps += [] if pair.radius is None else [pair.radius]
        if len({values.shape[:2] for values in maps}) > 1:
            raise FileError(f"{self.blurred}: the sizes within the pair differ; open it again")
        return pair


class FilePairs:
    """Pairs in files, read one at a time.

    Attributes
    ----------
    skipped
        Files that could not be used, and why.
    """

    def __init__(
        self,
        files: Sequence[PairFiles],
        faults: Faults,
        *,
        dual: bool = False,
        bits: int = 8,
        skip_bad: bool = False,
        smallest: int = SMALLEST,
    ) -> None:
        if bits not in (8, 16):
            raise ConfigError(f"pictures are read with 8 or 16 bits, not {bits}")
        self.dual = dual
        self.bits = bits
        self._files = [pair for pair in files if pair.sound(faults, smallest)]
        self.skipped = faults.settle(skip_bad, left=len(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def name(self, index: int) -> str:
        """Return what pair ``index`` is called: its blurred file, without the ending."""
        return self._files[index].blurred.stem

    def __getitem__(self, index: int) -> Pair:
        return self._files[index].read(self.bits)
