"""Sharp photographs: finding and reading them, and training pairs that are made of them on the fly.

Not for: pairs that lie in files (folders), or how blur looks (optics).
"""

from __future__ import annotations

import io
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from skimage.transform import resize
from torch.nn.functional import interpolate

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.progress import Steps
from napari_kpac.datasets.matching import Measure, Problems, choose_split, sound_steps
from napari_kpac.datasets.options import DefocusOptions, SensorOptions
from napari_kpac.datasets.pairs import Floats, Pair, read_rgb
from napari_kpac.images import image_size, list_images
from napari_kpac.optics import radius_map, random_lens
from napari_kpac.optics.pixels import ToneCurve, from_unit, to_unit
from napari_kpac.optics.synthesis import Noise, defocus_batch

CACHE_BYTES = 2 * 10**9
"""Of decoded photographs that are kept."""
ENLARGED = (1.2, 8.0)
"""By how much soft crops are enlarged."""
TRIES = 6
"""Places that are looked at for a patch that is sharp in the photograph."""

Content = Literal["uniform", "scenes", "focused"]
"""Crops of one radius all over, of scenes with depth, and in focus."""


def find_photos(paths: Iterable[Path]) -> list[Path]:
    """List photographs, of which there must be some: files as given, of folders all images."""
    paths = list(paths)
    photos: list[Path] = []
    for path in paths:
        if path.is_dir():
            photos += list_images(path)
        elif path.exists():
            photos.append(path)
        else:
            raise FileError(f"there is no photograph or folder {path}")
    if not photos:
        places = ", ".join(map(str, paths)) or "nothing"
        raise ConfigError(f"no photographs in {places}; give images or folders with images")
    return photos


def read_photo(path: Path, size: int | None = None) -> npt.NDArray[np.float32]:
    """Read a photograph as RGB in 0..1, made smaller so that no side is longer than ``size``."""
    sharp = read_rgb(path)
    scale = 1.0 if size is None else size / max(sharp.shape[:2])
    if scale < 1:
        shape = [max(2, round(side * scale)) for side in sharp.shape[:2]]
        sharp = resize(sharp, shape, order=1, anti_aliasing=True).astype(np.float32)
    return sharp


def photos_of_split(root: Path, split: str) -> list[Path]:
    """List the photographs of one split of a folder; without a manifest, all of them."""
    return choose_split(find_photos([root]), root, split)


@dataclass(frozen=True)
class Blurring(DefocusOptions, SensorOptions):
    """How the crops are put out of focus, and what a camera makes of them.

    Radii are drawn log-uniformly, so that small ones are frequent; so are small sigmas of noise.
    """

    min_radius: float = 0.4
    """In pixels."""
    layers: int = 12
    """Layers of a radius map at most."""
    sharpness: float = 0.3
    """Patches less sharp than this (see :func:`sharpness`) are passed over."""
    tones: float = 0.6
    """Share with a random tone curve instead of that of sRGB."""
    colours: float = 0.15
    """Share whose channels are blurred by slightly different radii."""
    grey: float = 0.2
    """Share without colour; half of those are dark with bright structures."""
    soft: float = 0.2
    """Share that is enlarged before it is blurred: smooth by nature, as images of microscopes
    are, and not out of focus."""
    jpeg: float = 1 / 3
    """Share whose blurred image was compressed as JPEG."""
    dual: bool = False
    """Whether dual-pixel views are made as well."""


PLAIN = Blurring(noise_probability=0.0, tones=0.0, colours=0.0, grey=0.0, soft=0.0, jpeg=0.0)
"""Blur without what a camera adds, but for mild noise of its sensor."""


class Photographs:
    """Sharp photographs, of which any number of different crops can be made into pairs.

    Attributes
    ----------
    skipped
        Files that could not be used, and why.
    """

    def __init__(self, photos: Sequence[Path], skipped: Problems | None = None) -> None:
        self._kept: OrderedDict[Path, npt.NDArray[np.uint8]] = OrderedDict()
        self.photos = list(photos)
        self.skipped = skipped or {}

    def crop(
        self,
        rng: np.random.Generator,
        size: int,
        how: Blurring | None = None,
        content: Content = "scenes",
    ) -> Pair:
        """Make a pair of ``size`` x ``size`` pixels; the generator alone decides which."""
        how = how or Blurring()
        largest = _draw_radius(rng, how, content)
        margin = _margin(largest)
        photo = self.photos[int(rng.integers(len(self.photos)))]
        grey, soft = rng.uniform(size=2) < (how.grey, how.soft)
        enlarged = math.exp(rng.uniform(*np.log(ENLARGED))) if soft else None
        sharp = self._patch(photo, size + 2 * margin, how, rng, enlarged)
        if grey:
            sharp = _grey(sharp, rng)
        radius = (
            radius_map((sharp.shape[1], sharp.shape[2]), rng, largest=largest)
            if content == "scenes"
            else np.full(sharp.shape[1:], largest * rng.choice((-1, 1)), np.float32)
        )
        curve = ToneCurve.draw(rng) if rng.uniform() < how.tones else None
        factors = np.clip(rng.normal(1, 0.04, 3), 0.9, 1.1)
        shot, read, stops = rng.uniform(0, 1, 3) * (how.shot, how.read, how.highlights)
        made = defocus_batch(
            (sharp if curve is None else curve.decode(sharp))[None],
            radius[None],
            [random_lens(rng)],
            layers=how.layers,
            noise=[Noise(shot, read)],
            highlights=[stops],
            colours=[factors.tolist()] if rng.uniform() < how.colours else None,
            dual=how.dual,
            linear=curve is not None,
            generator=torch.Generator().manual_seed(int(rng.integers(2**31))),
        )
        noisy, strength, grows, compressed = rng.uniform(size=4)
        quality = int(rng.integers(60, 99))
        inner = slice(margin, margin + size)

        def finished(batch: torch.Tensor) -> Floats:
            values = batch[0] if curve is None else curve.encode(batch[0])
            stored = _stored(
                values.permute(1, 2, 0).numpy(),
                rng,
                sigma=how.noise * strength**2 if noisy < how.noise_probability else 0.0,
                grows=grows < 0.5,
                quality=quality if compressed < how.jpeg else None,
            )
            return np.ascontiguousarray(stored[inner, inner])

        views = None
        if made.left is not None and made.right is not None:
            views = finished(made.left), finished(made.right)
        target = sharp[:, inner, inner].permute(1, 2, 0).contiguous().numpy()
        return Pair(
            photo.name, finished(made.image), target, views, made.radius[0, inner, inner].numpy()
        )

    def _patch(
        self,
        photo: Path,
        size: int,
        how: Blurring,
        rng: np.random.Generator,
        enlarged: float | None = None,
    ) -> torch.Tensor:
        """Cut a sharp patch (3, size, size), made smaller or enlarged, mirrored and turned."""
        pixels = self._read(photo)
        short = min(pixels.shape[:2])
        scale = max(enlarged or rng.uniform(how.shrink, 1), size / short)
        side = min(short, round(size / scale))
        best, found = -1.0, pixels[:side, :side]
        for _ in range(TRIES):
            y = int(rng.integers(pixels.shape[0] - side + 1))
            x = int(rng.integers(pixels.shape[1] - side + 1))
            patch = pixels[y : y + side, x : x + side]
            sharp = sharpness(patch)
            if sharp > best:
                best, found = sharp, patch
            if best >= how.sharpness:
                break
        turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
        if mirrored:
            found = found[:, ::-1]
        turned = np.ascontiguousarray(np.rot90(found, turns).transpose(2, 0, 1))
        patch_ = torch.from_numpy(turned).float()[None] / 255
        if side != size:
            patch_ = interpolate(patch_, size=(size, size), mode="bicubic", antialias=True)
        return patch_[0].clamp_(0, 1)

    def _read(self, photo: Path) -> npt.NDArray[np.uint8]:
        if photo in self._kept:
            self._kept.move_to_end(photo)
            return self._kept[photo]
        pixels = from_unit(read_photo(photo), np.uint8)
        self._kept[photo] = pixels
        while (
            sum(kept.nbytes for kept in self._kept.values()) > CACHE_BYTES and len(self._kept) > 1
        ):
            self._kept.popitem(last=False)
        return pixels


def open_photographs(
    photos: Sequence[Path], *, size: int = 1, max_radius: float = 0.0, skip_bad: bool = False
) -> Steps[Photographs]:
    """Open photographs, yielding after each.

    All must be readable, and have room for crops of ``size`` with a blur of ``max_radius``; with
    ``skip_bad`` the others are left out.
    """
    skipped: Problems = {}
    measures: dict[Path, dict[Path, Measure]] = {photo: {photo: image_size} for photo in photos}
    needed = size + 2 * _margin(max_radius)
    sound = yield from sound_steps(measures, skipped, needed, skip_bad=skip_bad)
    return Photographs(sound, skipped)


def _stored(
    values: Floats, rng: np.random.Generator, *, sigma: float, grows: bool, quality: int | None
) -> Floats:
    """Return values (H, W, 3) in 0..1 as they come out of a camera's 8-bit file.

    The noise may grow with the signal; without a quality the file is no JPEG, but lossless.
    """
    if sigma:
        width: Floats | np.float32 = np.float32(sigma)
        if grows:
            width = width * np.sqrt(0.2 + 1.6 * values)
        values = values + width * rng.standard_normal(values.shape, np.float32)
    stored = from_unit(values, np.uint8)
    if quality is not None:
        file = io.BytesIO()
        Image.fromarray(stored).save(file, "JPEG", quality=quality)
        stored = np.asarray(Image.open(file))
    return to_unit(stored)


def _draw_radius(rng: np.random.Generator, how: Blurring, content: Content) -> float:
    """Draw the radius of a crop, or the largest radius of a scene."""
    low, high = min(how.min_radius, how.max_radius), how.max_radius
    if content == "focused" or high == 0:
        return 0.0
    if content == "uniform" and how.radii:
        radius = rng.choice(how.radii) * math.exp(rng.uniform(-how.spread, how.spread))
        return float(min(radius, high))
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _grey(sharp: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Remove the colour; every other time make bright structures on a dark ground."""
    luma = sharp.mean(dim=0, keepdim=True)
    dark, inverted = rng.uniform(size=2) < 0.5
    power, white, ground = rng.uniform((1.5, 0.5, 0.0), (4.0, 1.0, 0.05))
    if dark:
        luma = (1 - luma if inverted else luma) ** power
        brightest = float(luma.flatten().kthvalue(max(1, int(0.995 * luma.numel()))).values)
        luma = (ground + (white - ground) * luma / max(brightest, 1e-3)).clamp_(0, 1)
    return luma.expand(3, -1, -1).contiguous()


def sharpness(pixels: npt.NDArray[np.uint8]) -> float:
    """Return how sharp the strongest edges of an RGB image are: 0 not at all, towards 1 very.

    The share of its gradient that the image loses to a little blur (1 2 1 both ways), over
    the tenth of the pixels with the strongest gradients. What is out of focus loses little;
    what has no edges counts as not sharp.
    """
    luma = pixels[:, :, 1].astype(np.float32)
    soft = luma[:, :-2] + 2 * luma[:, 1:-1] + luma[:, 2:]
    soft = (soft[:-2] + 2 * soft[1:-1] + soft[2:]) / 16
    before, after = _gradient(luma[1:-1, 1:-1]), _gradient(soft)
    strong = before >= np.partition(before.ravel(), -(before.size // 10))[-(before.size // 10)]
    total = float(before[strong].mean())
    return 1 - float(after[strong].mean()) / total if total > 4 else 0.0


def _margin(radius: float) -> int:
    """Return the room around a crop that its blur needs."""
    return math.ceil(radius) + 2


def _gradient(values: Floats) -> Floats:
    rise = values[1:, :-1] - values[:-1, :-1]
    run = values[:-1, 1:] - values[:-1, :-1]
    size: Floats = np.abs(rise) + np.abs(run)
    return size
