"""Recipes put to use again: the same model, the same plan, the same bits where possible.

Not for: the file (recipe.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from napari_kpac.core.errors import DeviceError, RecipeError
from napari_kpac.engine.device import resolve
from napari_kpac.engine.plan import Plan
from napari_kpac.engine.recipe import Recipe
from napari_kpac.weights import is_file_name, load


def check_model(recipe: Recipe, model: str) -> None:
    """Refuse to replay a recipe with other weights than it was made with.

    A model that the caller chose in place of the recipe's own is the caller's decision.
    """
    if model != recipe.options.model or recipe.options.method != "kpac":
        return
    if recipe.folder is not None and is_file_name(model) and not _is_below(recipe.folder, model):
        raise RecipeError(
            f"the recipe names the model file {model}, which is not in the recipe's folder; if you "
            f"trust both, name the model explicitly (--model {model})"
        )
    card = load(model).card
    if card.sha256 != recipe.model_sha256:
        raise RecipeError(
            f"the recipe was made with other weights of {recipe.model_name!r} than are installed "
            f"here ({recipe.model_sha256[:12]}..., not {card.sha256[:12]}...); install those, or "
            f"name a model explicitly (--model {model}) to use what there is"
        )


def _is_below(folder: Path, name: str) -> bool:
    """Tell whether a file lies in a folder; a name that leads elsewhere is not looked at."""
    path = Path(os.path.abspath(name))  # noqa: PTH100 - resolve() would touch the file
    return path.is_relative_to(folder) and path.resolve().is_relative_to(folder.resolve())


def recorded_plan(environment: Mapping[str, Any], own: Plan, multiple: int = 1) -> Plan:
    """Return the recorded plan where the picture has that size and it needs no more memory.

    Else the plan that the budget leads to; the result is then the same within rounding.
    Tiles must be multiples of ``multiple``.
    """
    values = environment.get("plan")
    names = {item.name for item in fields(Plan)} - {"budget"}
    if not isinstance(values, Mapping) or set(values) != names:
        return own
    try:
        plan = replace(own, **{**values, "kept_skips": tuple(map(int, values["kept_skips"]))})
        whole = all(type(each) is int for each in (plan.height, plan.width, plan.tile, plan.band))
        fits = whole and type(plan.scratch) is bool and plan.tile % multiple == 0
        return plan if fits and plan.needs_no_more_than(own) else own
    except (TypeError, ValueError):
        return own


def recorded_threads(environment: Mapping[str, Any]) -> int | None:
    """Return the recorded number of threads, if this machine has as many processors."""
    threads = environment.get("threads")
    if isinstance(threads, int) and 1 <= threads <= (os.cpu_count() or 1):
        return threads
    return None


def differences(recipe: Recipe, device: str = "auto", threads: int | None = None) -> list[str]:
    """Say what differs here from where a recipe was made; empty: the same bits can be expected.

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
