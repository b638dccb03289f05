"""Reading and writing of image files: plain formats, TIFF, Zarr, RAW, and their metadata.

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
    ImageFile,
    description_of,
    is_image_file,
    open_image,
    read_image,
    read_mask,
    write_image,
    write_map,
)
from napari_kpac.images.metadata import Metadata
from napari_kpac.images.sizes import image_size, list_images
from napari_kpac.images.targets import Target, check_target, start_image

__all__ = [
    "PLAIN",
    "RAW",
    "READABLE",
    "SUFFIXES",
    "TIFF",
    "WRITABLE",
    "ZARR",
    "ImageFile",
    "Metadata",
    "Target",
    "check_target",
    "description_of",
    "image_size",
    "is_image_file",
    "list_images",
    "open_image",
    "read_image",
    "read_mask",
    "start_image",
    "write_image",
    "write_map",
]
