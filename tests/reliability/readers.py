"""Every reader of files: how to make small valid files for it, and how to read all of one.

Not for: damaging the files (mutation), or watching what becomes of them (fuzzing).
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.core.errors import FileError
from napari_kpac.datasets import open_cuhk, open_dpdd, open_folders
from napari_kpac.datasets.pairs import write_radius
from napari_kpac.datasets.photographs import photos_of_split
from napari_kpac.engine import load_recipe
from napari_kpac.images import Metadata, description_of, image_size, open_image, write_image
from napari_kpac.training.loop import read_trained
from napari_kpac.training.options import PRESETS, TrainOptions, preset, preset_values
from napari_kpac.training.run_folder import METRICS, OPTIONS, RunFolder
from napari_kpac.training.state import (
    AveragedWeights,
    Counters,
    load_state,
    make_optimiser,
    save_state,
    start_network,
)
from napari_kpac.weights import ModelCard, describe, save_network
from tests import reference
from tests.engine.conftest import tiny_net
from tests.images.conftest import SRGB, photograph_exif, write_dng

Read = Callable[[Path, Path], object]
SIZE = (12, 16)
NET = tiny_net(2, double=False)
RECIPE_MODEL = "tiny"
TINY = {"channels": 4, "crop_size": 16, "levels": 2, "steps": 4, "name": "tiny", "root": "photos"}


@dataclass(frozen=True)
class Reader:
    """A kind of files."""

    make: Callable[[Path], list[Path]]
    """Write valid samples into a folder, each in one of its own; returns them."""
    read: Read
    """Read a sample as far as it goes; a second folder is for what is written on the way."""


def colours(seed: int = 0, dtype: Any = np.uint8, shape: tuple[int, ...] = (*SIZE, 3)) -> Any:
    """Make pixels."""
    high = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    values = np.random.default_rng(seed).random(shape) * high
    return values.astype(dtype)


def _own(folder: Path, name: str) -> Path:
    path = folder / name.replace(".", "-") / name
    path.parent.mkdir(parents=True)
    return path


# Weights


def _models(folder: Path) -> list[Path]:
    path = _own(folder, "model.safetensors")
    save_network(NET, path, ModelCard(name="tiny", summary="a", figures={"psnr": 1.5}))
    return [path]


def _authors(folder: Path) -> list[Path]:
    config = kpac.KPACConfig(levels=2, blocks=1, channels=2, shape_hidden=1, dilations=(1, 2))
    params = reference.random_params(config)
    paths = [_own(folder, "listed.npz"), _own(folder, "named.npz")]
    reference.write_authors_file(paths[0], params, config)
    reference.write_named_file(paths[1], params, config)
    return paths


def _read_model(path: Path, out: Path) -> object:
    with contextlib.suppress(kpac.KpacError):
        describe(path)
    return kpac.load(path)


def _show_model(path: Path, out: Path) -> object:
    _run("models", "show", path)
    return _run("models", "verify", path)


def _run(*arguments: object) -> str:
    """Run a command as a person does; what it says must fit on a terminal."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([str(each) for each in arguments])
    text = said.getvalue()
    bad = [c for c in text if not c.isprintable() and c not in "\n\t"]
    if bad:
        raise AssertionError(f"sent {bad[:3]!r} to the terminal")
    if code:
        raise kpac.KpacError(text)
    return text


# Recipes


def _recipes(folder: Path) -> list[Path]:
    labels = np.zeros(SIZE, np.uint8)
    labels[2:6, 3:9] = 2
    modulation = kpac.Modulation(
        gains=[1, 0.5, 0.25],
        override={(1, 2): np.full(SIZE, 0.25), (2, 1): 0.5},
        labels=labels,
        label_gains={2: [0, 0, 2]},
        strength=1.25,
    )
    recipe = kpac.deblur(colours(), NET, "cpu", modulation=modulation).recipe
    path = _own(folder, "look.json")
    recipe.save(path)
    return [path]


def _results(folder: Path) -> list[Path]:
    made = kpac.deblur(colours(), NET, "cpu")
    said = json.dumps(made.recipe.to_dict())
    paths = [_own(folder, name) for name in ("a.png", "a.jpg", "a.tif", "a.ome.tif")]
    for path in paths:
        about = Metadata(axes="YXS", scale={"Y": 0.5, "X": 0.5}) if "ome" in path.name else None
        write_image(path, made.image, said, about)
    paths.append(_own(folder, "a.zarr"))
    stored = zarr.create_array(str(paths[-1]), shape=(4, 4), dtype="u1", chunks=(4, 4))
    stored.attrs["napari_kpac"] = made.recipe.to_dict()
    return paths


def _read_recipe(path: Path, out: Path) -> object:
    recipe = load_recipe(path)
    recipe.to_dict()
    with contextlib.suppress(kpac.KpacError):
        kpac.replay(colours(), recipe)
    return kpac.replay(colours(), recipe, model=NET)


# Training


def _presets(folder: Path) -> list[Path]:
    paths = []
    for name in PRESETS:
        paths.append(_own(folder, f"{name}.toml"))
        values = preset_values(name) | {"betas": [0.9, 0.99], "name": "mine"}
        phases = values.pop("phases", [])
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        for phase in phases:
            lines += ["[[phases]]", *(f"{key} = {json.dumps(v)}" for key, v in phase.items())]
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def _runs(folder: Path) -> list[Path]:
    path = folder / "run" / "run"
    path.mkdir(parents=True)
    options = TrainOptions(**TINY)
    (path / OPTIONS).write_text(json.dumps(options.to_dict()), encoding="utf-8")
    (path / METRICS).write_text("step,loss\n1,0.5\n2,0.25\n", encoding="utf-8")
    net = start_network(options)
    optimiser = make_optimiser(net, options)
    for parameter in net.parameters():
        optimiser.state[parameter] = {
            key: parameter.detach().clone() for key in ("exp_avg", "exp_avg_sq")
        }
    save_state(path / "state.safetensors", net, optimiser, AveragedWeights(net, 0.9), Counters(2))
    return [path]


def _read_run(path: Path, out: Path) -> object:
    run = RunFolder(path)
    run.metrics()
    options = run.options()
    if options.channels > 64 or options.blocks > 4:
        raise FileError("a larger network than a test should build")
    with contextlib.suppress(kpac.KpacError):
        read_trained(path)
    net = start_network(options)
    return load_state(run.state, net, make_optimiser(net, options), AveragedWeights(net, 0.9))


# Datasets


def _save(path: Path, pixels: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, pixels)


def _dpdd(folder: Path) -> list[Path]:
    root = folder / "dpdd" / "root"
    for number, name in enumerate(("a.png", "b.tif")):
        for side, kind in (("c", "source"), ("c", "target"), ("l", "source"), ("r", "source")):
            _save(root / f"test_{side}" / kind / name, colours(number, np.uint16))
        radius = np.linspace(-2, 2, 192, dtype=np.float32).reshape(SIZE)
        write_radius(root / "test_c" / "radius" / f"{name[0]}.tif", radius)
    return [root]


def _pairs(folder: Path) -> list[Path]:
    root = folder / "pairs" / "root"
    for name in ("a.png", "b.jpg"):
        for kind in ("blurred", "sharp"):
            _save(root / kind / name, colours(1))
    return [root]


def _masked(folder: Path) -> list[Path]:
    root = folder / "cuhk" / "root"
    for name in ("a", "b"):
        _save(root / "image" / f"{name}.jpg", colours(1))
        _save(root / "gt" / f"{name}.png", colours(2, shape=SIZE) // 128 * 255)
    return [root]


def _photographs(folder: Path) -> list[Path]:
    root = folder / "photos" / "root"
    for name in ("a.png", "b.png"):
        _save(root / name, colours(1))
    (root / "MANIFEST.csv").write_text("file,split\na.png,train\nb.png,test\n", encoding="utf-8")
    return [root]


def _each(dataset: Any) -> list[Any]:
    return [dataset[index] for index in range(len(dataset))]


def _read_dpdd(path: Path, out: Path) -> object:
    for skip in (True, False):
        _each(open_dpdd(path, "test", dual=True, bits=16, skip_bad=skip))
    return path


def _read_pairs(path: Path, out: Path) -> object:
    return _each(open_folders(path))


def _read_masked(path: Path, out: Path) -> object:
    return _each(open_cuhk(path, blurred="white"))


def _read_photographs(path: Path, out: Path) -> object:
    return [image_size(photo) for photo in photos_of_split(path, "train")]


# Images


def _plain(folder: Path) -> list[Path]:
    about = {"icc_profile": SRGB, "dpi": (300, 300), "exif": photograph_exif(6)}
    paths = [_own(folder, name) for name in ("a.png", "palette.png", "a.jpg", "deep.png", "g.png")]
    Image.fromarray(colours()).save(paths[0], **about)
    Image.fromarray(colours()).quantize(8).save(paths[1], transparency=0)
    Image.fromarray(colours()).save(paths[2], comment=b"hello", **about)
    deep = Metadata(icc=SRGB, exif=photograph_exif().tobytes().removeprefix(b"Exif\0\0"))
    write_image(paths[3], colours(3, np.uint16), "{}", deep)
    Image.fromarray(colours(shape=SIZE) > 127).save(paths[4])
    return paths


def _tiffs(folder: Path) -> list[Path]:
    stack = colours(4, np.uint16, (3, *SIZE))
    rgb = colours()
    paths: list[Path] = []

    def save(name: str, pixels: Any, **about: Any) -> None:
        paths.append(_own(folder, name))
        tifffile.imwrite(paths[-1], pixels, **about)

    save("plain.tif", rgb, resolution=(300, 300), extratags=[(274, 3, 1, 6, True)])
    save("deflate.tif", rgb, compression="zlib", predictor=True, rowsperstrip=5)
    save("lzw.tif", stack[0], compression="lzw")
    save("jpeg.tif", colours(shape=(32, 32, 3)), compression="jpeg", tile=(16, 16))
    save("zstd.tif", stack, compression="zstd", tile=(16, 16))
    save("packbits.tif", rgb, compression="packbits", planarconfig="contig")
    save("planar.tif", np.moveaxis(rgb, -1, 0), planarconfig="separate", photometric="rgb")
    save("big.tif", stack, bigtiff=True, photometric="minisblack")
    save("motorola.tif", stack.astype(">u2"), byteorder=">", photometric="minisblack")
    save("float.tif", colours(5, np.float32, SIZE), compression="lzma")
    palette = np.zeros((3, 256), np.uint16)
    save("palette.tif", rgb[..., 0], photometric="palette", colormap=palette)
    described = {"axes": "ZYX", "spacing": 2.0, "unit": "um", "Labels": ["a", "b", "c"]}
    save("imagej.tif", stack, imagej=True, metadata=described, resolution=(2.0, 2.0))
    about = {"axes": "ZYX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5, "Name": "n"}
    save("image.ome.tif", stack, ome=True, metadata=about)
    save("image2.ome.tif", stack, ome=True, metadata=about, compression="zlib", tile=(16, 16))
    return paths


def _zarrs(folder: Path) -> list[Path]:
    stack = colours(4, np.uint16, (3, *SIZE))
    paths = [_own(folder, name) for name in ("two.zarr", "three.zarr", "ome.zarr", "shard.zarr")]
    about = {"shape": stack.shape, "dtype": stack.dtype}
    zarr.create_array(str(paths[0]), chunks=(1, 8, 8), zarr_format=2, **about)[:] = stack
    zarr.create_array(str(paths[1]), chunks=(1, 8, 8), **about)[:] = stack
    group = zarr.create_group(str(paths[2]))
    group.create_array("0", chunks=(1, 12, 16), **about)[:] = stack
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    transform = [{"type": "scale", "scale": [2.0, 0.5, 0.5]}]
    datasets = [{"path": "0", "coordinateTransformations": transform}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    zarr.create_array(str(paths[3]), chunks=(1, 4, 4), shards=(1, 12, 16), **about)[:] = stack
    return paths


def _raws(folder: Path) -> list[Path]:
    return [write_dng(_own(folder, "a.dng"), 24, 32)]


def _read_image(path: Path, out: Path) -> object:
    """Read an image in every way, and write it again with what it says of itself."""
    description_of(path)
    with contextlib.suppress(kpac.KpacError):
        image_size(path)
    with open_image(path) as opened:
        first = (0,) * (opened.array.ndim - 2)
        corner = np.asarray(opened.array[(*first, slice(2), slice(2))])
        if corner.size == 0:
            raise FileError("an empty image")
    with open_image(path, whole=True) as opened:
        pixels, about = np.asarray(opened.array), opened.metadata
    # What was read can be kept: metadata from a strange file must not cost the result.
    target = out / f"again{'.tif' if path.suffix in ('.zarr', '.dng') else path.suffix}"
    write_image(target, pixels, "{}", about)
    with open_image(target, whole=True) as again:
        if again.array.shape != pixels.shape:
            raise AssertionError(f"{pixels.shape} came back as {again.array.shape}")
    return pixels


READERS: dict[str, Reader] = {
    "model (.safetensors)": Reader(_models, _read_model),
    "model card": Reader(_models, _show_model),
    "authors' weights (.npz)": Reader(_authors, _read_model),
    "recipe": Reader(_recipes, _read_recipe),
    "recipe in a result": Reader(_results, _read_recipe),
    "preset": Reader(_presets, lambda path, out: preset(path)),
    "training run": Reader(_runs, _read_run),
    "dataset: DPDD": Reader(_dpdd, _read_dpdd),
    "dataset: pairs": Reader(_pairs, _read_pairs),
    "dataset: masks": Reader(_masked, _read_masked),
    "dataset: manifest": Reader(_photographs, _read_photographs),
    "image: PNG, JPEG": Reader(_plain, _read_image),
    "image: TIFF": Reader(_tiffs, _read_image),
    "image: Zarr": Reader(_zarrs, _read_image),
    "image: camera RAW": Reader(_raws, _read_image),
}
"""All readers, by the name that the figures use."""
