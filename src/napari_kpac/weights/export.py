"""Models for other programs: as TorchScript, as ONNX, or in a bioimage.io package.

Not for: what a package says of its model (bioimageio.py), or our own files (store.py).
"""

from __future__ import annotations

import logging
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from napari_kpac.core.errors import ConfigError, require
from napari_kpac.core.files import replacing
from napari_kpac.core.options import ExportFormat
from napari_kpac.network import KPACConfig, KPACNet
from napari_kpac.network.layers import ColourHead
from napari_kpac.weights.catalogue import load
from napari_kpac.weights.store import ModelCard

SUFFIXES: dict[str, str] = {"bioimageio": ".zip", "onnx": ".onnx", "torchscript": ".pt"}
EXTRA = "export"
EXAMPLE_CELLS = (6, 8)
"""Size of the image that is traced, in cells of the bottleneck: not square, so that the two sides
stay apart."""
TILING_NOTE = (
    "Beta, one of the two attentions, is computed from the mean over the whole image. A program "
    "that cuts an image into tiles computes another beta for every tile: its result is not exact, "
    "whatever the overlap. Run the network on whole images, or tile with napari-kpac, which "
    "computes beta from the whole image."
)


class ExportNet(nn.Module):
    """A network that takes and returns plain tensors, for other programs.

    It is made from the fields of a :class:`KPACConfig`, so a description of a model can name this
    class and what to call it with.

    Takes one image, or the left and the right view of a dual-pixel pair: each (batch, 3, H, W) in
    -1..1, H and W multiples of the configuration's ``multiple``. Returns the deblurred image, not
    clipped, and the alphas of every block, each (batch, dilations, h, w) in 0..1.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.net = KPACNet(KPACConfig.from_dict(config))
        for module in self.net.modules():
            if isinstance(module, ColourHead):
                module.by_row = False

    @classmethod
    def of(cls, net: KPACNet) -> ExportNet:
        """Return the same network with these inputs and outputs, on the CPU, for inference."""
        made = cls(**net.config.to_dict())
        made.net.load_state_dict(net.state_dict())
        return made.requires_grad_(False).eval()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return ("image",) if self.net.config.views == 1 else ("left", "right")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        blocks = range(1, self.net.config.blocks + 1)
        return ("deblurred", *(f"alpha_block{block}" for block in blocks))

    def forward(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Deblur an image or a dual-pixel pair."""
        alphas: list[Tensor] = []

        def keep(_: int, alpha: Tensor) -> Tensor:
            alphas.append(alpha)
            return alpha

        image, pair = (views[0], None) if len(views) == 1 else (None, views)
        return (self.net(image, pair, keep), *alphas)


def export_model(
    model: str | os.PathLike[str] | KPACNet = "default",
    path: str | os.PathLike[str] | None = None,
    format: ExportFormat = "bioimageio",
    *,
    authors: tuple[str, ...] = (),
) -> Path:
    """Write a model in a format that other programs read.

    Parameters
    ----------
    model
        A name, a path, or a network from :func:`load`.
    path
        The file to write. None: the name of the model with the suffix of the format, in the
        current folder.
    format
        ``bioimageio``: a package by version 0.5 of the bioimage.io specification, with the weights
        as PyTorch state dict, TorchScript and ONNX. ``onnx`` and ``torchscript``: the network
        alone. Images may have any size that is a multiple of 8 (4 at 2 levels).
    authors
        Names of the people that a package is by; those of a bundled model are known.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    MissingExtraError
        If the packages of the extra ``export`` are not installed; TorchScript needs none.
    """
    if format not in get_args(ExportFormat):
        raise ConfigError(f"format={format!r}: must be one of {', '.join(SUFFIXES)}")
    suffix = SUFFIXES[format]
    if path is not None and Path(path).suffix != suffix:
        raise ConfigError(f"{path}: the name of a file in format {format!r} must end in {suffix}")
    net = model if isinstance(model, KPACNet) else load(model)
    card = net.card if isinstance(net.card, ModelCard) else ModelCard(name="unsaved")
    exported = ExportNet.of(net)
    target = Path(f"{card.name}{suffix}" if path is None else path)
    with replacing(target) as temporary:
        if format == "torchscript":
            write_torchscript(exported, temporary)
        elif format == "onnx":
            write_onnx(exported, temporary, card)
        else:
            from napari_kpac.weights.bioimageio import write_package

            write_package(exported, temporary, card, authors)
    return target


def write_torchscript(exported: ExportNet, path: Path) -> None:
    """Write a network as TorchScript: traced, and therefore without control flow."""
    with quietly(), _plain_operations():
        traced: Any = torch.jit.trace(exported, _examples(exported), check_trace=False)
        traced.save(path)
    # Beside the code there are the names of the source files on this machine.
    complete = path.with_name(f"{path.name}.complete")
    try:
        path.rename(complete)
        with zipfile.ZipFile(complete) as source, zipfile.ZipFile(path, "w") as target:
            for item in source.infolist():
                if not item.filename.endswith(".debug_pkl"):
                    target.writestr(zipfile.ZipInfo(item.filename), source.read(item))
    finally:
        complete.unlink(missing_ok=True)


def write_onnx(exported: ExportNet, path: Path, card: ModelCard) -> int:
    """Write a network as ONNX, for any number of images of any size; returns the opset."""
    for module in ("onnx", "onnxscript"):
        require(module, EXTRA, "the ONNX format")
    multiple = exported.net.config.multiple
    height, width = torch.export.Dim("height"), torch.export.Dim("width")
    sizes = {0: torch.export.Dim("batch"), 2: multiple * height, 3: multiple * width}
    with quietly(), _plain_operations():
        program: Any = torch.onnx.export(
            exported,
            _examples(exported),
            dynamo=True,
            dynamic_shapes={"views": (sizes,) * len(exported.inputs)},
            input_names=exported.inputs,
            output_names=exported.outputs,
            verbose=False,
        )
    model = program.model
    for node in model.graph:
        node.metadata_props.clear()  # the lines of our source, as paths on this machine
    model.metadata_props.update(
        {
            "model": f"{card.name} {card.version}",
            "licence": card.licence,
            "sha256": card.sha256,
            "values": "RGB images (batch, 3, height, width) with values in -1..1",
            "size": f"height and width must be multiples of {multiple}",
            "tiling": TILING_NOTE,
        }
    )
    program.save(path, external_data=False)
    return int(model.opset_imports[""])


def _examples(exported: ExportNet) -> tuple[Tensor, ...]:
    """Return inputs to trace: one image, or a pair. Two of a batch, since 1 would be a constant."""
    side = exported.net.config.multiple
    height, width = (side * cells for cells in EXAMPLE_CELLS)
    return tuple(torch.zeros(2, 3, height, width) for _ in exported.inputs)


@contextmanager
def _plain_operations() -> Iterator[None]:
    """Record a network without the operations of one kind of processor, and without gradients."""
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        yield


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress what libraries log and warn of their own packages and functions."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
