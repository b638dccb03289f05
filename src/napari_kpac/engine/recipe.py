"""Recipes: everything that is needed to make a result again, as a small JSON file.

Label images and alpha maps lie beside it as PNG. Not for: running a recipe (deblurring.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from napari_kpac.core.errors import ConfigError, FileError, KpacError, RecipeError
from napari_kpac.core.files import read_text, replacing
from napari_kpac.core.options import DeblurOptions
from napari_kpac.engine.modulation import Modulation
from napari_kpac.images import WRITABLE, description_of, read_image

FORMAT = "napari-kpac-recipe"
VERSION = 1
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

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that decides about the pixels, images included; not of where it ran."""
        plain = self._settings()
        plain["model"] = self.model_sha256
        options = {key: v for key, v in plain["options"].items() if key not in _WHERE}
        found = hashlib.sha256(json.dumps({**plain, "options": options}, sort_keys=True).encode())
        if self.modulation.labels is not None:
            found.update(np.asarray(self.modulation.labels).astype(np.int32).tobytes())
        for where, value in sorted(self.modulation.override.items()):
            if np.ndim(value):
                # As exactly as a recipe file keeps it.
                levels = np.rint(np.asarray(value, np.float64) * 65535).astype(np.int32)
                found.update(repr(where).encode() + levels.tobytes())
        return found.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; images are left out and only mentioned."""
        return {
            "format": FORMAT,
            "version": VERSION,
            **self._settings(),
            "fingerprint": self.fingerprint,
            "environment": dict(self.environment),
        }

    def _settings(self) -> dict[str, Any]:
        modulation = self.modulation
        return {
            "model": {"name": self.model_name, "sha256": self.model_sha256},
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
            if labels.min(initial=0) < 0 or labels.max(initial=0) > 65535:
                raise RecipeError("labels must lie within 0..65535 to be saved in a recipe")
            images["labels"] = labels.astype(np.uint16)
        for (block, index), value in self.modulation.override.items():
            if np.ndim(value):
                if np.min(value) < 0 or np.max(value) > 1:
                    raise RecipeError("alpha maps must lie within 0..1 to be saved in a recipe")
                images[f"block{block}-alpha{index}"] = np.rint(
                    np.asarray(value, np.float64) * 65535
                ).astype(np.uint16)
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
    if values.get("version") != VERSION:
        raise RecipeError(f"recipe version {values.get('version')!r}; this release reads {VERSION}")
    plain = values["modulation"]
    override: dict[tuple[int, int], Any] = {}
    for item in plain["override"]:
        where = (_whole(item["block"]), _whole(item["alpha"]))
        override[where] = item["value"]
        if item["value"] is None:
            pixels = _read_image(_beside(path, f"block{where[0]}-alpha{where[1]}"))
            override[where] = pixels.astype(np.float32) / 65535
    modulation = Modulation(
        gains=plain["gains"],
        override=override,
        labels=_read_image(_beside(path, "labels")) if plain["labels"] else None,
        label_gains={int(label): gains for label, gains in plain["label_gains"].items()},
        strength=plain["strength"],
    )
    model = values["model"]
    if not isinstance(model["name"], str) or not isinstance(model["sha256"], str):
        raise RecipeError("the recipe names no model")
    environment = values["environment"]
    if not isinstance(environment, dict):
        raise RecipeError("the recipe does not say where it was made")
    options = DeblurOptions.from_dict(values["options"])
    if not isinstance(options.model, str) or not isinstance(options.device, str):
        raise RecipeError("the recipe names no model or no device")
    folder = path.absolute().parent
    return Recipe(options, modulation, model["name"], model["sha256"], environment, folder)


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


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{value!r} is not a whole number")
    return value


def _plain(gains: Any) -> Any:
    return None if gains is None else np.asarray(gains, np.float64).tolist()
