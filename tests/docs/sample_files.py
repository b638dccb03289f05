"""The small files that the examples of the documentation use."""

from pathlib import Path

import numpy as np
from skimage import data

import napari_kpac as kpac
from napari_kpac.images import write_image
from napari_kpac.weights import save_network
from tests import dmenet_reference, reference


def write_sample_files(folder: Path) -> None:
    """Write images, pairs, stacks and models."""
    photo = np.ascontiguousarray(data.coffee()[100:164, 200:280])
    blurred = kpac.defocus(photo, 2.0, dual=True)
    for name in ("holiday.jpg", "photo.png", "image.png", "centre.png", "next.tif"):
        write_image(folder / name, blurred.image)
    for name in ("photos/1.jpg", "photos/2.png", "scans/a/1.tif"):
        write_image(folder / name, blurred.image)
    for name in ("left", "right"):
        view = getattr(blurred, name)
        write_image(folder / f"{name}.png", view)
        write_image(folder / name / "1.png", view)
    write_image(folder / "mask.png", np.repeat(np.uint8([[0, 255]]), 40, axis=1).repeat(64, axis=0))
    for i, image in enumerate((data.astronaut(), data.chelsea()[:, :448])):
        write_image(folder / "sharp-photos" / f"{i}.png", image[:300, :400])
    _write_pairs(folder, photo, blurred)
    _write_stacks(folder, blurred.image)
    _write_models(folder)


def _write_pairs(folder: Path, photo: np.ndarray, blurred: object) -> None:
    large, views = photo.repeat(3, axis=0).repeat(3, axis=1), ("c", "l", "r")
    for split in ("train", "test"):
        for view in views:
            write_image(folder / "DPDD" / f"{split}_{view}" / "source" / "1.png", large)
            write_image(folder / "DPDD" / f"{split}_{view}" / "target" / "1.png", large)
    for root in ("my-pairs", "."):
        write_image(folder / root / "blurred" / "1.png", blurred.image)
        write_image(folder / root / "sharp" / "1.png", photo)


def _write_stacks(folder: Path, image: np.ndarray) -> None:
    import zarr

    stack = np.stack([image[..., 0], image[..., 1]])
    zarr.save_array(folder / "stack.zarr", stack)
    group = zarr.open_group(folder / "cells.ome.zarr", mode="w", zarr_format=2)
    group.create_array("0", data=stack)
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    scale = [{"type": "scale", "scale": [2.0, 0.5, 0.5]}]
    group.attrs["multiscales"] = [
        {
            "version": "0.4",
            "axes": axes,
            "datasets": [{"path": "0", "coordinateTransformations": scale}],
        }
    ]


def _write_models(folder: Path) -> None:
    config = kpac.KPACConfig(shape_hidden=12)
    reference.write_authors_file(
        folder / "single_3level.npz", reference.random_params(config), config
    )
    dmenet_reference.write_named(folder / "DMENet.npz", dmenet_reference.random_layers())
    mine = kpac.build(kpac.KPACConfig(levels=2, blocks=1, channels=8), seed=0)
    save_network(mine, folder / "mine.safetensors", kpac.ModelCard("mine", summary="A small one"))
