"""Containers of pixels: torch tensors, xarray with its coordinates, quantities with their units.

A plain function that is given one of them returns the same. None of these packages but torch is
needed or imported. Not for: which axes an array has (arrays.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def pixels_of(image: Any) -> Any:
    """Return the array inside a container, or the image itself if it is none; nothing is loaded.

    A tensor on a device is copied to the CPU, and bfloat16, which NumPy does not have, becomes
    float32.
    """
    if isinstance(image, torch.Tensor):
        tensor = image.detach().cpu()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if _is_xarray(image):
        return pixels_of(image.data)
    if _is_quantity(image):
        return pixels_of(image.magnitude)
    return image


def image_like(image: Any, pixels: Any) -> Any:
    """Return pixels in the container of the image that they were made from.

    A tensor has its device and dtype, an xarray its dimensions, coordinates, attributes and name,
    a quantity its units.
    """
    if isinstance(image, torch.Tensor):
        return torch.from_numpy(pixels).to(image.device, image.dtype)
    if _is_xarray(image):
        return image.copy(data=image_like(image.data, pixels))
    if _is_quantity(image):
        return type(image)(image_like(image.magnitude, pixels), image.units)
    return pixels


def map_like(image: Any, values: Any, name: str) -> Any:
    """Return a map of an image, one value per pixel, in the container of the image.

    The values are numbers without a unit, and nothing that the image says of its own values is
    said of them; an xarray gets a name instead. A map of other axes than the image's, without its
    colour, stays as it is.
    """
    if isinstance(image, torch.Tensor):
        return torch.from_numpy(values).to(image.device)
    if not _is_xarray(image):
        return values
    if values.shape == image.shape[:-1]:
        image = image.isel({image.dims[-1]: 0}, drop=True)
    if values.shape != image.shape:
        return values
    made = image.copy(data=values).rename(name)
    made.attrs = {}
    return made


def _is_xarray(image: Any) -> bool:
    return hasattr(image, "dims") and hasattr(image, "coords") and hasattr(image, "data")


def _is_quantity(image: Any) -> bool:
    """Return True for a quantity of pint, or what behaves like one."""
    return (
        hasattr(image, "magnitude")
        and hasattr(image, "units")
        and not isinstance(image, np.ndarray)
    )
