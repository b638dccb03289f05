"""Interactive defocus deblurring with KPAC: the public API.

Everything is loaded on first use; importing this module loads neither torch nor napari.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.batch import BatchOptions as BatchOptions
    from napari_kpac.batch import Report as Report
    from napari_kpac.batch import attention_files as attention_files
    from napari_kpac.batch import blur_map_files as blur_map_files
    from napari_kpac.batch import deblur_dask as deblur_dask
    from napari_kpac.batch import deblur_files as deblur_files
    from napari_kpac.core.errors import KpacError as KpacError
    from napari_kpac.core.options import BlurMapOptions as BlurMapOptions
    from napari_kpac.core.options import DeblurOptions as DeblurOptions
    from napari_kpac.core.options import DetectionOptions as DetectionOptions
    from napari_kpac.core.progress import Progress as Progress
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
    from napari_kpac.evaluation import EvaluateOptions as EvaluateOptions
    from napari_kpac.evaluation import Evaluation as Evaluation
    from napari_kpac.evaluation import evaluate as evaluate
    from napari_kpac.network import KPACConfig as KPACConfig
    from napari_kpac.network import KPACNet as KPACNet
    from napari_kpac.network import build as build
    from napari_kpac.optics import Aperture as Aperture
    from napari_kpac.optics import defocus as defocus
    from napari_kpac.training import TrainOptions as TrainOptions
    from napari_kpac.training import train as train
    from napari_kpac.weights import ModelCard as ModelCard
    from napari_kpac.weights import load as load
    from napari_kpac.weights import models as models

_HOMES = {
    "Aperture": "optics",
    "BatchOptions": "batch",
    "BlurMapOptions": "core.options",
    "DeblurOptions": "core.options",
    "Detection": "detection",
    "DetectionOptions": "core.options",
    "EvaluateOptions": "evaluation",
    "Evaluation": "evaluation",
    "KPACConfig": "network",
    "KPACNet": "network",
    "KpacError": "core.errors",
    "ModelCard": "weights",
    "Modulation": "engine",
    "Progress": "core.progress",
    "Recipe": "engine",
    "Report": "batch",
    "Result": "engine",
    "Session": "engine",
    "TrainOptions": "training",
    "attention_files": "batch",
    "blur_map": "engine",
    "blur_map_files": "batch",
    "blur_map_steps": "engine",
    "build": "network",
    "deblur": "engine",
    "deblur_dask": "batch",
    "deblur_files": "batch",
    "deblur_steps": "engine",
    "defocus": "optics",
    "detect": "detection",
    "detect_steps": "detection",
    "devices": "engine",
    "evaluate": "evaluation",
    "load": "weights",
    "load_recipe": "engine",
    "models": "weights",
    "replay": "engine",
    "train": "training",
}

__all__ = [*sorted(_HOMES), "__version__"]


_find = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("napari-kpac")
    return _find(name)


def __dir__() -> list[str]:
    return list(__all__)
