"""Pictures and stacks as files, one module per family of formats.

Not for: what the pixels mean (engine).
"""

from napari_kpac.images.formats import (
    PLAIN,
    RAW,
    READABLE,
    SUFFIXES,
    TIFF,
    WRITABLE,
    ZARR,
    Picture,
    description_of,
    is_picture,
    open_picture,
    read_image,
    read_mask,
    write_image,
    write_map,
)
from napari_kpac.images.metadata import Metadata
from napari_kpac.images.sizes import list_pictures, picture_size
from napari_kpac.images.targets import Target, check_target, start_picture

__all__ = [
    "PLAIN",
    "RAW",
    "READABLE",
    "SUFFIXES",
    "TIFF",
    "WRITABLE",
    "ZARR",
    "Metadata",
    "Picture",
    "Target",
    "check_target",
    "description_of",
    "is_picture",
    "list_pictures",
    "open_picture",
    "picture_size",
    "read_image",
    "read_mask",
    "start_picture",
    "write_image",
    "write_map",
]
