"""Images with masks of their blur, in the folders of CUHK's blur detection dataset.

What a mask's white means must be said. Not for: scoring against the masks (detection).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import FileError, KpacError
from napari_kpac.datasets.matching import Faults, find_images, match_stems, same_size
from napari_kpac.datasets.options import BlurredAs, check_blurred_as
from napari_kpac.datasets.pairs import Floats, read_rgb
from napari_kpac.images import image_size, read_mask
from napari_kpac.optics.pixels import to_unit


class MaskedImage(NamedTuple):
    """An image and where it is blurred."""

    name: str
    image: Floats
    """(H, W, 3) in 0..1."""
    mask: npt.NDArray[np.bool_]
    """(H, W), True where it is blurred."""


@dataclass(frozen=True)
class MaskedImages:
    """Images and masks in files, read one at a time."""

    files: tuple[tuple[Path, Path], ...]
    blurred: BlurredAs
    skipped: dict[str, str]
    """Files that could not be used, and why."""

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        """Return what image ``index`` is called: its file, without the ending."""
        return self.files[index][0].stem

    def __getitem__(self, index: int) -> MaskedImage:
        file, mask = self.files[index]
        white = _white(mask)
        image = read_rgb(file)
        if image.shape[:2] != white.shape:
            raise FileError(f"{mask}: is not as large as its image; open the dataset again")
        return MaskedImage(file.stem, image, white if self.blurred == "white" else ~white)


def open_cuhk(
    root: Path,
    *,
    blurred: BlurredAs,
    images: str | Path = "image",
    masks: str | Path = "gt",
    prefix: str = "",
    skip_bad: bool = False,
) -> MaskedImages:
    """Open images and masks of equal names in two folders.

    Parameters
    ----------
    root
        Folder that holds both folders.
    blurred
        What the masks show blurred pixels as, ``white`` or ``black``.
    images, masks
        The two folders, below the root or anywhere.
    prefix
        Take only images and masks whose names begin so, for example ``out_of_focus``.
    skip_bad
        Go on without images that cannot be used; they are in ``skipped``.

    Raises
    ------
    FileError
        If a folder is missing or files cannot be used; all of them are named.
    """
    check_blurred_as(blurred)
    blurry, truths = (
        [path for path in find_images(folder) if path.name.startswith(prefix)]
        for folder in (root / images, root / masks)
    )
    if not blurry:
        raise FileError(f"no name in {root / images} begins with {prefix!r}")
    faults = Faults()
    matched = match_stems(blurry, truths, faults, root / masks)
    files = tuple(
        both for both in matched.items() if same_size(dict.fromkeys(both, image_size), faults)
    )
    return MaskedImages(files, blurred, faults.settle(skip_bad, left=len(files)))


def _white(path: Path) -> npt.NDArray[np.bool_]:
    """Read a mask, True where it is nearer to white than to black."""
    values = read_mask(path)
    if values.ndim == 3 and values.shape[2] <= 2:
        values = values[:, :, 0]
    if values.ndim != 2:
        raise FileError(f"{path}: a mask has one value a pixel, not shape {values.shape}")
    try:
        # Masks of 0 and 1 are common too, whatever their type could hold.
        white: npt.NDArray[np.bool_] = (values if values.max() <= 1 else to_unit(values)) > 0.5
    except KpacError as error:
        raise FileError(f"{path}: cannot be used as a mask ({error})") from error
    return white
