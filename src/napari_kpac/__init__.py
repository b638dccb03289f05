"""Interactive defocus deblurring with KPAC: the public API.

Everything is loaded on first use; importing this module loads neither torch nor napari.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_kpac.batch import BatchOptions as BatchOptions
    from napari_kpac.batch import Report as Report
    from napari_kpac.batch import attention_files as attention_files
    from napari_kpac.batch import blur_map_files as blur_map_files
    from napari_kpac.batch import deblur_dask as deblur_dask
    from napari_kpac.batch import deblur_files as deblur_files
    from napari_kpac.detection import Detection as Detection
    from napari_kpac.detection import detect as detect
    from napari_kpac.detection import detect_steps as detect_steps
    from napari_kpac.engine import Modulation as Modulation
    from napari_kpac.engine import Recipe as Recipe
    from napari_kpac.engine import Result as Result
    from napari_kpac.engine import Session as Session
    from napari_kpac.engine import blur_map as blur_map
    from napari_kpac.engine import blur_map_steps as blur_map_steps
    from napari_kpac.engine import deblur as deblur
    from napari_kpac.engine import deblur_steps as deblur_steps
    from napari_kpac.engine import devices as devices
    from napari_kpac.engine import load_recipe as load_recipe
    from napari_kpac.engine import replay as replay
    from napari_kpac.errors import KpacError as KpacError
    from napari_kpac.evaluation import EvaluateOptions as EvaluateOptions
    from napari_kpac.evaluation import Evaluation as Evaluation
    from napari_kpac.evaluation import evaluate as evaluate
    from napari_kpac.network import KPACConfig as KPACConfig
    from napari_kpac.network import KPACNet as KPACNet
    from napari_kpac.network import build as build
    from napari_kpac.optics import Aperture as Aperture
    from napari_kpac.optics import defocus as defocus
    from napari_kpac.options import BlurMapOptions as BlurMapOptions
    from napari_kpac.options import DeblurOptions as DeblurOptions
    from napari_kpac.options import DetectionOptions as DetectionOptions
    from napari_kpac.progress import Progress as Progress
    from napari_kpac.training import TrainOptions as TrainOptions
    from napari_kpac.training import train as train
    from napari_kpac.weights import ModelCard as ModelCard
    from napari_kpac.weights import load as load
    from napari_kpac.weights import models as models

_HOMES = {
    "Aperture": "napari_kpac.optics",
    "BatchOptions": "napari_kpac.batch",
    "BlurMapOptions": "napari_kpac.options",
    "DeblurOptions": "napari_kpac.options",
    "Detection": "napari_kpac.detection",
    "DetectionOptions": "napari_kpac.options",
    "EvaluateOptions": "napari_kpac.evaluation",
    "Evaluation": "napari_kpac.evaluation",
    "KPACConfig": "napari_kpac.network",
    "KPACNet": "napari_kpac.network",
    "KpacError": "napari_kpac.errors",
    "ModelCard": "napari_kpac.weights",
    "Modulation": "napari_kpac.engine",
    "Progress": "napari_kpac.progress",
    "Recipe": "napari_kpac.engine",
    "Report": "napari_kpac.batch",
    "Result": "napari_kpac.engine",
    "Session": "napari_kpac.engine",
    "TrainOptions": "napari_kpac.training",
    "attention_files": "napari_kpac.batch",
    "blur_map": "napari_kpac.engine",
    "blur_map_files": "napari_kpac.batch",
    "blur_map_steps": "napari_kpac.engine",
    "build": "napari_kpac.network",
    "deblur": "napari_kpac.engine",
    "deblur_dask": "napari_kpac.batch",
    "deblur_files": "napari_kpac.batch",
    "deblur_steps": "napari_kpac.engine",
    "defocus": "napari_kpac.optics",
    "detect": "napari_kpac.detection",
    "detect_steps": "napari_kpac.detection",
    "devices": "napari_kpac.engine",
    "evaluate": "napari_kpac.evaluation",
    "load": "napari_kpac.weights",
    "load_recipe": "napari_kpac.engine",
    "models": "napari_kpac.weights",
    "replay": "napari_kpac.engine",
    "train": "napari_kpac.training",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("napari-kpac")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
