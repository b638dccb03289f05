"""Many images: files, folders and stacks through the engine, here or on a cluster.

Loads nothing heavy before it is used. Not for: formats (images), or what is done to a
image (engine, detection).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.batch.attention import AttentionFiles as AttentionFiles
    from napari_kpac.batch.blur_maps import BlurMapFiles as BlurMapFiles
    from napari_kpac.batch.deblurring import DeblurFiles as DeblurFiles
    from napari_kpac.batch.inputs import Item as Item
    from napari_kpac.batch.inputs import find_images as find_images
    from napari_kpac.batch.inputs import plan_items as plan_items
    from napari_kpac.batch.lazy import deblur_dask as deblur_dask
    from napari_kpac.batch.options import BatchOptions as BatchOptions
    from napari_kpac.batch.report import Outcome as Outcome
    from napari_kpac.batch.report import Report as Report
    from napari_kpac.batch.running import run_steps as run_steps
    from napari_kpac.batch.whole import attention_files as attention_files
    from napari_kpac.batch.whole import blur_map_files as blur_map_files
    from napari_kpac.batch.whole import deblur_files as deblur_files

_HOMES = {
    "AttentionFiles": "attention",
    "BatchOptions": "options",
    "BlurMapFiles": "blur_maps",
    "DeblurFiles": "deblurring",
    "Item": "inputs",
    "Outcome": "report",
    "Report": "report",
    "attention_files": "whole",
    "blur_map_files": "whole",
    "deblur_dask": "lazy",
    "deblur_files": "whole",
    "find_images": "inputs",
    "plan_items": "inputs",
    "run_steps": "running",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
