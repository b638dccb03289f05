"""The bioimage.io package of a model: description, documentation, cover and test tensors.

Not for: the networks in it (export.py), or the choice of a format.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile
import torch
from PIL import Image
from torch import Tensor

from napari_kpac.core.errors import WeightsError, require
from napari_kpac.weights.catalogue import BUNDLED
from napari_kpac.weights.export import (
    EXTRA,
    TILING_NOTE,
    ExportNet,
    quietly,
    write_onnx,
    write_torchscript,
)
from napari_kpac.weights.store import SUFFIX, ModelCard

DEVELOPERS = ("napari-kpac developers",)
PAPER = (
    "Son, Lee, Cho and Lee: Single Image Defocus Deblurring Using Kernel-Sharing Parallel Atrous "
    "Convolutions. ICCV 2021"
)
PAPER_DOI = "10.48550/arXiv.2108.09108"
SIDE_PX = 256
"""Of the test image; two of them side by side make a cover of 2:1, as the specification asks."""
TOP_PX, LEFT_PX = 60, 210
DISPARITY_PX = 2
"""Between the test images that stand for the views of a dual-pixel camera."""
MIN_CELLS = 8
"""The smallest image that a package admits, in cells of the bottleneck."""
HALF_RANGE = 127.5
"""The network's value x in -1..1 is the grey level (x + 1) * 127.5."""


def write_package(
    exported: ExportNet, path: Path, card: ModelCard, authors: tuple[str, ...] = ()
) -> None:
    """Write a package and have the specification's own library check it; nothing is downloaded."""
    package = require("bioimageio.spec", EXTRA, "the bioimage.io format")
    with TemporaryDirectory(prefix="napari-kpac-") as name:
        folder = Path(name)
        # Addresses would be looked up: the description has none.
        context = package.ValidationContext(root=folder, log_warnings=False, progressbar=False)
        with quietly(), context:
            try:
                described = _description(exported, folder, card, authors)
                package.save_bioimageio_package(described, output_path=path)
            except ValueError as error:
                raise WeightsError(
                    f"{card.name}: no valid bioimage.io package can be made of this model ({error})"
                ) from error


def _description(
    exported: ExportNet, folder: Path, card: ModelCard, authors: tuple[str, ...]
) -> Any:
    """Write all files of a package and return its description, checked."""
    spec = require("bioimageio.spec.model.v0_5", EXTRA, "the bioimage.io format")
    weights = _weights(spec, exported, folder, card)
    inputs = _test_images(len(exported.inputs))
    with torch.no_grad():
        outputs = exported(*(_network_values(image) for image in inputs))
    grey_levels = np.clip((outputs[0].numpy() + 1) * HALF_RANGE, 0, 255)
    arrays = {
        **dict(zip(exported.inputs, inputs, strict=True)),
        **{n: alpha.numpy() for n, alpha in zip(exported.outputs[1:], outputs[1:], strict=True)},
        exported.outputs[0]: grey_levels.astype(np.float32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        _save_sample(_sample(exported, name, folder), array[0])
    pair = np.concatenate((inputs[0][0], np.rint(grey_levels[0]).astype(np.uint8)), axis=2)
    Image.fromarray(pair.transpose(1, 2, 0)).save(folder / "cover.png")
    (folder / "README.md").write_text(documentation(exported, card), encoding="utf-8")
    bundled = (BUNDLED / f"{card.name}{SUFFIX}").exists()
    return spec.ModelDescr(
        name=_allowed_name(card.name),
        description=card.summary[:1024] or "KPAC, a network for defocus deblurring",
        version=card.version if re.fullmatch(r"\d+(\.\d+)*", card.version) else None,
        authors=[spec.Author(name=name) for name in authors or DEVELOPERS * bundled],
        license=_licence(spec, card.licence),
        cite=[spec.CiteEntry(text=PAPER, doi=PAPER_DOI)],
        tags=["deblurring", "defocus", "image-restoration", "2d", "pytorch", "napari"],
        documentation=spec.FileDescr(source=folder / "README.md"),
        covers=[spec.FileDescr(source=folder / "cover.png")],
        inputs=[_input(spec, exported, name, folder) for name in exported.inputs],
        outputs=[_output(spec, exported, name, folder) for name in exported.outputs],
        weights=weights,
    )


def _weights(spec: Any, exported: ExportNet, folder: Path, card: ModelCard) -> Any:
    """Write the weights in all formats and describe them."""
    state, script, graph = (folder / f"weights{each}" for each in (".pth", ".pt", ".onnx"))
    torch.save(exported.state_dict(), state)
    write_torchscript(exported, script)
    opset = write_onnx(exported, graph, card)
    torch_version = torch.__version__.split("+")[0]
    environment = folder / "environment.yaml"
    environment.write_text(
        "channels:\n  - conda-forge\n  - nodefaults\ndependencies:\n  - python>=3.11\n"
        f"  - pytorch>={torch_version}\n  - pip\n  - pip:\n"
        f"      - napari-kpac=={version('napari-kpac')}\n",
        encoding="utf-8",
    )
    original = "pytorch_state_dict"
    return spec.WeightsDescr(
        pytorch_state_dict=spec.PytorchStateDictWeightsDescr(
            source=state,
            architecture=spec.ArchitectureFromLibraryDescr(
                import_from=ExportNet.__module__,
                callable=ExportNet.__name__,
                kwargs=exported.net.config.to_dict(),
            ),
            pytorch_version=torch_version,
            dependencies=spec.FileDescr(source=environment),
        ),
        torchscript=spec.TorchscriptWeightsDescr(
            source=script, pytorch_version=torch_version, parent=original
        ),
        onnx=spec.OnnxWeightsDescr(source=graph, opset_version=opset, parent=original),
    )


def _input(spec: Any, exported: ExportNet, name: str, folder: Path) -> Any:
    """Describe an input: an 8-bit RGB image, or one of the views of a dual-pixel pair."""
    step = exported.net.config.multiple
    first = exported.inputs[0]
    size = spec.ParameterizedSize(min=MIN_CELLS * step, step=step)
    floating = spec.EnsureDtypeDescr(kwargs=spec.EnsureDtypeKwargs(dtype="float32"))
    to_network_values = spec.ScaleLinearDescr(
        kwargs=spec.ScaleLinearKwargs(gain=1 / HALF_RANGE, offset=-1.0)
    )
    text = "image" if len(exported.inputs) == 1 else f"{name} view of a dual-pixel camera"
    return spec.InputTensorDescr(
        id=name,
        description=f"RGB {text}, as a camera or screen has it (sRGB)",
        axes=[
            spec.BatchAxis(),
            spec.ChannelAxis(channel_names=["red", "green", "blue"]),
            *(
                spec.SpaceInputAxis(
                    id=axis,
                    size=size
                    if name == first
                    else spec.SizeReference(tensor_id=first, axis_id=axis),
                )
                for axis in ("y", "x")
            ),
        ],
        data=spec.IntervalOrRatioDataDescr(type="uint8", range=(0, 255), unit="arbitrary unit"),
        # Without the last one, programs would convert back to the type of the image.
        preprocessing=[floating, to_network_values, floating],
        test_tensor=spec.FileDescr(source=folder / f"{name}.npy"),
        sample_tensor=spec.FileDescr(source=_sample(exported, name, folder)),
    )


def _output(spec: Any, exported: ExportNet, name: str, folder: Path) -> Any:
    """Describe an output: the deblurred image, or the alphas of a block."""
    config, first = exported.net.config, exported.inputs[0]
    is_image = name == exported.outputs[0]
    channels = (
        ["red", "green", "blue"] if is_image else [f"dilation_{each}" for each in config.dilations]
    )
    processing = [
        spec.ScaleLinearDescr(kwargs=spec.ScaleLinearKwargs(gain=HALF_RANGE, offset=HALF_RANGE)),
        spec.ClipDescr(kwargs=spec.ClipKwargs(min=0, max=255)),
    ]
    return spec.OutputTensorDescr(
        id=name,
        description="The deblurred image"
        if is_image
        else "Scale attention of a block: the weight of the branch of each dilation, per cell of "
        f"{config.multiple} x {config.multiple} pixels",
        axes=[
            spec.BatchAxis(),
            spec.ChannelAxis(channel_names=channels),
            *(
                spec.SpaceOutputAxis(
                    id=axis,
                    size=spec.SizeReference(tensor_id=first, axis_id=axis),
                    scale=1.0 if is_image else float(config.multiple),
                )
                for axis in ("y", "x")
            ),
        ],
        data=spec.IntervalOrRatioDataDescr(
            type="float32", range=(0, 255) if is_image else (0, 1), unit="arbitrary unit"
        ),
        postprocessing=processing if is_image else [],
        test_tensor=spec.FileDescr(source=folder / f"{name}.npy"),
        sample_tensor=spec.FileDescr(source=_sample(exported, name, folder)),
    )


def documentation(exported: ExportNet, card: ModelCard) -> str:
    """Return the documentation of a package, as Markdown."""
    config = exported.net.config
    figures = "\n".join(f"| {name} | {value:g} |" for name, value in card.figures.items())
    sections = {
        "Whole images only": TILING_NOTE,
        "Use": (
            "8-bit RGB images, sRGB. Grey images: repeat the channel three times and take the mean "
            f"of the result. Both sides must be multiples of {config.multiple}; napari-kpac "
            "reflects the image at its edges up to that size and crops the result. Outputs: the "
            "deblurred "
            "image (0 to 255, floating point) and, for each block of the network, alpha: how much "
            f"every dilation ({', '.join(map(str, config.dilations))}) contributes to each cell of "
            f"{config.multiple} x {config.multiple} pixels. The PyTorch weights need the Python "
            "package napari-kpac; ONNX and TorchScript need nothing of it."
        ),
        "Training": f"{card.training}\n\nData: {card.training_data or 'not recorded'}",
        "Validation": (
            f"| figure of the model card | value |\n|---|---|\n{figures}\n\n"
            "`napari-kpac evaluate` measures a model against pairs of blurred and sharp images."
            if figures
            else "The model card has no figures. `napari-kpac evaluate` measures a model against "
            "pairs of blurred and sharp images."
        ),
        "Limits": card.limits or "Not recorded.",
        "Licence": (
            f"Weights: {card.licence}. The test image is part of scikit-image's photograph "
            "`coffee` (Rachel Michetti, CC0)."
        ),
        "Reference": f"{PAPER}, doi:{PAPER_DOI}. SHA-256 of the tensors: {card.sha256}",
    }
    text = "\n\n".join(f"## {title}\n\n{content.strip()}" for title, content in sections.items())
    return f"# {card.name}, version {card.version}\n\n{card.summary}\n\n{text}\n"


def _test_images(count: int) -> list[npt.NDArray[np.uint8]]:
    """Return the test inputs (1, 3, H, W): a photograph, or two parts of it side by side."""
    from skimage import data

    photograph = data.coffee()[TOP_PX : TOP_PX + SIDE_PX].transpose(2, 0, 1)[None]
    starts = (LEFT_PX + DISPARITY_PX * index for index in range(count))
    return [np.ascontiguousarray(photograph[..., start : start + SIDE_PX]) for start in starts]


def _sample(exported: ExportNet, name: str, folder: Path) -> Path:
    """Return the file of a tensor that people look at: images as PNG, alphas as TIFF."""
    return folder / f"{name}-sample{'.tif' if name in exported.outputs[1:] else '.png'}"


def _save_sample(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array (channels, H, W) for people to look at."""
    if path.suffix == ".png":
        Image.fromarray(np.rint(array).astype(np.uint8).transpose(1, 2, 0)).save(path)
    else:
        tifffile.imwrite(path, array)


def _network_values(image: npt.NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(image).float() / HALF_RANGE - 1


def _allowed_name(name: str) -> str:
    """Return a name for people, of the characters that the specification admits."""
    return f"KPAC defocus deblurring ({re.sub('[^A-Za-z0-9_+ ()-]', '-', name)})"


def _licence(spec: Any, text: str) -> Any:
    """Return a licence by its SPDX identifier; any other text stays in the documentation alone."""
    try:
        return spec.LicenseId(text)
    except ValueError:
        return None
