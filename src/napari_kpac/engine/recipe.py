"""Results and recipes: what came out, how it was made, and what it takes to make it again.

Not for: doing it (deblurring.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.nn import functional as F

from napari_kpac.core.errors import (
    ConfigError,
    DeviceError,
    FileError,
    KpacError,
    ModelNotFoundError,
    RecipeError,
)
from napari_kpac.core.estimators import find_estimator
from napari_kpac.core.files import read_text, replacing
from napari_kpac.core.options import DeblurOptions, ImageOptions
from napari_kpac.engine.arrays import Array, Layout, Maps, as_array
from napari_kpac.engine.device import resolve
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.pixels import resolve_range
from napari_kpac.engine.tiling import Plan
from napari_kpac.images import WRITABLE, description_of, read_image
from napari_kpac.weights import find, is_file_name, load, load_dmenet


@dataclass(frozen=True, eq=False)
class Result:
    """A deblurred image and what the network attended to."""

    image: Any
    """Of the input's shape and dtype."""
    alpha: Maps
    """(blocks, dilations, h, w) as used, at bottleneck resolution; leading axes of a stack
    come first."""
    beta: Maps
    """(blocks, channels), leading axes first."""
    recipe: Recipe
    size: tuple[int, int]
    """Height and width of an image in pixels."""
    scale: int
    """Pixels per cell of alpha, along both axes."""
    sigma: Maps | None = None
    """(H, W): the blur in pixels of sigma that was estimated or given, leading axes first; not with
    method ``kpac``."""
    origin: tuple[int, int] = (0, 0)
    """First pixel (row, column) of alpha's first cell, in pixels of ``image``."""
    draft: bool = False
    """Whether this is a quick look at half resolution."""
    sampled: bool = False
    """Whether beta is an estimate from a sample of the image (``Session.render``)."""
    region: tuple[int, int, int, int] | None = None
    """(top, bottom, left, right) of ``image`` in the image, where only a part was rendered."""

    @property
    def offset(self) -> tuple[float, float]:
        """Position of alpha's first cell in pixels: the centre of the pixels it stands for."""
        half = (self.scale - 1) / 2
        return self.origin[0] + half, self.origin[1] + half

    def alpha_at_image(self) -> Maps:
        """Return alpha interpolated to (blocks, dilations, H, W), leading axes first."""
        return upsample(self.alpha, self.scale, self.size, self.origin)


@dataclass(frozen=True, eq=False)
class PlaneResult:
    """What came out of one plane."""

    recipe: Recipe
    pixels: Array | None = None
    """An entry for each index of the plane; None where they were written elsewhere."""
    alpha: Maps | None = None
    """(blocks, dilations, h, w)."""
    beta: Maps | None = None
    """(blocks, channels)."""
    sigma: Maps | None = None
    """(H, W), of the classical method."""


def upsample(
    maps: Maps, scale: int, size: tuple[int, int], origin: tuple[int, int] = (0, 0)
) -> Maps:
    """Interpolate maps of cells (..., h, w), the first at ``origin``, to pixels (..., H, W)."""
    *leading, height, width = maps.shape
    flat = torch.from_numpy(np.ascontiguousarray(maps)).reshape(1, -1, height, width)
    larger = F.interpolate(flat, scale_factor=float(scale), mode="bilinear", align_corners=False)
    top, left = -origin[0], -origin[1]
    cropped = larger[0, :, top : top + size[0], left : left + size[1]]
    return cropped.reshape(*leading, *size).numpy()


FORMAT = "napari-kpac-recipe"
VERSION = 1
LABEL_STRENGTH_VERSION = 2
"""Of recipes with a strength per label: earlier releases would leave it out without a word."""
MAX_TIMES_TOO_WIDE, MAX_TIMES_TOO_NARROW = 64, 8
"""A recorded range is refused where all values lie in such a small part of it, or where the values
reach so many times further."""
MAX_LEVEL = 65535
"""Of the 16-bit images beside a recipe."""
_WHERE = ("model", "device", "tile", "memory")
"""Options that do not decide about the pixels (the model does, by its hash)."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a result was made."""

    options: DeblurOptions
    modulation: Modulation
    model_name: str
    model_sha256: str
    environment: Mapping[str, Any] = field(default_factory=dict)
    """What else may touch the last bits: device, threads, tile plan, versions."""
    folder: Path | None = None
    """Where the recipe was read; None for one that was not, or whose model the caller chose."""
    model_version: str = ""
    """Version in the card of the model; empty in recipes of early releases."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that decides about the pixels, images included; not of where it ran."""
        plain = self._settings()
        plain["model"] = self.model_sha256
        plain["options"] = {k: v for k, v in plain["options"].items() if k not in _WHERE}
        found = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
        if self.modulation.labels is not None:
            labels = as_array(self.modulation.labels)
            for index in np.ndindex(np.shape(labels)[:-2]):  # those of a stack one by one
                found.update(np.asarray(labels[index]).astype(np.int32).tobytes())
        for where, value in sorted(self.modulation.override.items()):
            if np.ndim(value):
                found.update(repr(where).encode() + _levels(value).astype(np.int32).tobytes())
        return found.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; images are left out and only mentioned."""
        return {
            "format": FORMAT,
            "version": LABEL_STRENGTH_VERSION if self.modulation.label_strength else VERSION,
            **self._settings(),
            "fingerprint": self.fingerprint,
            "environment": dict(self.environment),
        }

    def _settings(self) -> dict[str, Any]:
        modulation = self.modulation
        strengths = {str(k): float(v) for k, v in modulation.label_strength.items()}
        return {
            "model": {
                "name": self.model_name,
                "version": self.model_version,
                "sha256": self.model_sha256,
            },
            "options": self.options.to_dict(),
            "modulation": {
                "gains": _plain(modulation.gains),
                "strength": float(modulation.strength),
                "override": [
                    {"block": block, "alpha": index, "value": None if np.ndim(v) else float(v)}
                    for (block, index), v in modulation.override.items()
                ],
                "labels": modulation.labels is not None,
                "label_gains": {str(k): _plain(v) for k, v in modulation.label_gains.items()},
                # Only where there is one, so that the fingerprints of other recipes stay.
                **({"label_strength": strengths} if strengths else {}),
            },
        }

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the recipe and its images beside it; returns all files written."""
        path = Path(path)
        images = {_beside(path, name): pixels for name, pixels in self._images().items()}
        # All are written before any of them takes its place, the recipe last.
        with ExitStack() as files:
            temporary = files.enter_context(replacing(path))
            temporary.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")
            for target, pixels in images.items():
                temporary = files.enter_context(replacing(target))
                Image.fromarray(pixels).save(temporary, format="PNG")
        return [path, *images]

    def _images(self) -> dict[str, npt.NDArray[np.uint16]]:
        images = {}
        if self.modulation.labels is not None:
            labels = np.asarray(self.modulation.labels)
            if labels.ndim != 2:
                raise RecipeError(
                    f"labels of shape {labels.shape} belong to a stack, and a recipe keeps those "
                    "of one image: save it with the labels of one plane"
                )
            if labels.min(initial=0) < 0 or labels.max(initial=0) > MAX_LEVEL:
                raise RecipeError(f"labels must lie within 0..{MAX_LEVEL} to be saved in a recipe")
            images["labels"] = labels.astype(np.uint16)
        for (block, index), value in self.modulation.override.items():
            if np.ndim(value):
                if np.min(value) < 0 or np.max(value) > 1:
                    raise RecipeError("alpha maps must lie within 0..1 to be saved in a recipe")
                images[f"block{block}-alpha{index}"] = _levels(value).astype(np.uint16)
        return images


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe, or that of a result: every file that is made carries its own.

    Images of the recipe are looked for beside it, by name, and nowhere else.
    """
    path = Path(path)
    try:
        if path.suffix.lower() in WRITABLE:
            return _from_dict(description_of(path), path)
        return _from_dict(json.loads(read_text(path)), path)
    except KpacError as error:
        raise RecipeError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecipeError(f"{path}: not a valid recipe ({error!r})") from error


def _from_dict(values: dict[str, Any], path: Path) -> Recipe:
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise RecipeError("this is not a napari-kpac recipe")
    if values.get("version") not in (VERSION, LABEL_STRENGTH_VERSION):
        raise RecipeError(
            f"recipe version {values.get('version')!r}; this release reads {VERSION} and "
            f"{LABEL_STRENGTH_VERSION}"
        )
    plain, model, environment = values["modulation"], values["model"], values["environment"]
    override: dict[tuple[int, int], Any] = {}
    for item in plain["override"]:
        block, index, value = item["block"], item["alpha"], item["value"]
        if type(block) is not int or type(index) is not int:
            raise ConfigError(f"block {block!r}, alpha {index!r}: must be whole numbers")
        if value is None:
            pixels = _read_image(_beside(path, f"block{block}-alpha{index}"))
            value = pixels.astype(np.float32) / MAX_LEVEL
        override[block, index] = value
    modulation = Modulation(
        gains=plain["gains"],
        override=override,
        labels=_read_image(_beside(path, "labels")) if plain["labels"] else None,
        label_gains={int(label): gains for label, gains in plain["label_gains"].items()},
        strength=plain["strength"],
        label_strength={
            int(label): strength for label, strength in plain.get("label_strength", {}).items()
        },
    )
    version = model.get("version", "")
    if not all(isinstance(each, str) for each in (model["name"], version, model["sha256"])):
        raise RecipeError("the recipe names no model")
    if not isinstance(environment, dict):
        raise RecipeError("the recipe does not say where it was made")
    options = DeblurOptions.from_dict(values["options"])
    if not isinstance(options.model, str) or not isinstance(options.device, str):
        raise RecipeError("the recipe names no model or no device")
    folder = path.absolute().parent
    return Recipe(options, modulation, model["name"], model["sha256"], environment, folder, version)


def _read_image(path: Path) -> npt.NDArray[np.uint16]:
    try:
        pixels = read_image(path)
    except FileError as error:
        raise RecipeError(f"its image {path.name} is missing or damaged ({error})") from error
    if pixels.ndim != 2:
        raise RecipeError(f"its image {path.name} is not grey")
    return pixels.astype(np.uint16)


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}.png")


def _levels(alpha: Any) -> npt.NDArray[np.float64]:
    """Return an alpha map in 0..1 as exactly as a recipe file keeps it, in grey levels."""
    return np.rint(np.asarray(alpha, np.float64) * MAX_LEVEL)


def _plain(gains: Any) -> Any:
    return None if gains is None else np.asarray(gains, np.float64).tolist()


def check_model(recipe: Recipe, model: str) -> str:
    """Refuse to replay a recipe with other weights than it was made with.

    A bundled model may have changed with the package: then a sentence about that is returned,
    else an empty text. A model that the caller chose in place of the recipe's own is the caller's
    decision.
    """
    method = recipe.options.method
    estimator = find_estimator(method)
    has_model = method == "kpac" if estimator is None else estimator.needs_model
    if model != recipe.options.model or not has_model:
        return ""
    if recipe.folder is not None and is_file_name(model) and not _is_below(recipe.folder, model):
        raise RecipeError(
            f"the recipe names the model file {model}, which is not in the recipe's folder; if you "
            "trust both, name that model explicitly"
        )
    changed = changed_model(recipe)
    card = (load(model) if estimator is None else load_dmenet(model)).card
    if card.sha256 != recipe.model_sha256 and not changed:
        raise RecipeError(
            f"the recipe was made with other weights of {recipe.model_name!r} than are installed "
            f"here ({recipe.model_sha256[:12]}..., not {card.sha256[:12]}...); install those, or "
            f"name the model {model} explicitly to use what there is"
        )
    return changed


def changed_model(recipe: Recipe) -> str:
    """Return a sentence if a recipe names a bundled model that has changed since, else nothing."""
    if recipe.options.method != "kpac" or is_file_name(recipe.options.model):
        return ""
    try:
        entry = find(recipe.options.model)
    except ModelNotFoundError:
        return ""
    card = entry.card
    if entry.origin != "bundled" or card.sha256 == recipe.model_sha256:
        return ""
    if recipe.model_version == card.version:  # not a change of the package
        return ""
    made = f"version {recipe.model_version}" if recipe.model_version else "an early version"
    return (
        f"the recipe was made with {made} of the model {recipe.model_name!r}, this release has "
        f"version {card.version} of {card.name!r}: the result will differ. To make the same again, "
        f"give the file of the earlier model (fingerprint {recipe.model_sha256[:12]}...)"
    )


def _is_below(folder: Path, name: str) -> bool:
    """Return True if a file lies in a folder; a name that leads elsewhere is not looked at."""
    path = Path(os.path.abspath(name))  # noqa: PTH100 - resolve() would touch the file
    return path.is_relative_to(folder) and path.resolve().is_relative_to(folder.resolve())


def check_image(
    options: ImageOptions,
    environment: Mapping[str, Any],
    layout: Layout,
    arrays: Sequence[Any],
    plan: Plan | None = None,
) -> None:
    """Refuse to replay a recipe on an image whose values or axes it was not made for.

    A range that is not the recorded one is the caller's decision. ``plan`` is that of the image.
    """
    recorded = environment.get("plan")
    width = recorded.get("width") if isinstance(recorded, Mapping) else None
    other = plan is not None and isinstance(width, int) and width != plan.width
    if options.rgb is False and layout.could_be_colour and other:
        raise RecipeError(
            f"the recipe was made of grey images and would take the colours of this one, of shape "
            f"{layout.shape}, for pixels; say that its last axis is colour, or use another recipe"
        )
    found = environment.get("range")
    if isinstance(options.range, str):
        return
    low, high = options.range
    if isinstance(found, Mapping) and (found.get("low"), found.get("high")) != (low, high):
        return
    values = resolve_range("percentile", layout, arrays)
    if layout.dtype.kind == "f":
        kind = resolve_range("auto", layout, arrays)
        too_wide = kind.high <= low + (high - low) / MAX_TIMES_TOO_WIDE
    else:
        kind = resolve_range("dtype", layout, arrays)
        too_wide = high - low > 2 * (kind.high - kind.low)
    too_narrow = values.high - values.low > MAX_TIMES_TOO_NARROW * (high - low)
    if too_wide or too_narrow or values.low > high or values.high < low:
        own = kind if too_wide else values
        raise RecipeError(
            f"the recipe takes {low:g} for black and {high:g} for white, but this image has values "
            f"of {own.low:g}..{own.high:g} ({layout.dtype}); give a range that fits this image, "
            "for example auto"
        )


def recorded_plan(environment: Mapping[str, Any], own: Plan, multiple: int = 1) -> Plan:
    """Return the recorded plan where the image has that size and it needs no more memory.

    Else the plan that the budget leads to; the result is then the same within rounding.
    Tiles must be multiples of ``multiple``.
    """
    values = environment.get("plan")
    names = {item.name for item in fields(Plan)} - {"budget"}
    if not isinstance(values, Mapping) or set(values) != names:
        return own
    if any(type(values[name]) is not int for name in ("height", "width", "tile", "band")):
        return own
    try:
        plan = replace(own, **{**values, "kept_skips": tuple(map(int, values["kept_skips"]))})
    except (TypeError, ValueError):
        return own
    fits = type(plan.scratch) is bool and plan.tile % multiple == 0
    return plan if fits and plan.needs_no_more_than(own) else own


def recorded_threads(environment: Mapping[str, Any]) -> int | None:
    """Return the recorded number of threads, if this machine has as many processors."""
    threads = environment.get("threads")
    if isinstance(threads, int) and 1 <= threads <= (os.cpu_count() or 1):
        return threads
    return None


def differences(recipe: Recipe, device: str = "auto", threads: int | None = None) -> list[str]:
    """Return what differs here from where a recipe was made; nothing: expect the same bits.

    With differences, results agree within 1e-5 or one grey level.
    """
    try:
        name = str(resolve(device))
    except DeviceError:
        name = device
    here = {
        "device": name,
        "threads": threads or torch.get_num_threads(),
        "torch": torch.__version__,
    }
    return [
        f"{key} {value} instead of {recipe.environment[key]}"
        for key, value in here.items()
        if key in recipe.environment and recipe.environment[key] != value
    ]
