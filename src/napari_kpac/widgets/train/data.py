"""What to train on: a folder, two folders, or the open layers, which become files.

Not for: reading files (datasets).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from napari.layers import Image
from napari.viewer import Viewer

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.layout import recognise
from napari_kpac.training.options import TrainKind, TrainOptions
from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.form import choice_box, folder_edit, read_folder
from napari_kpac.widgets.layers import METADATA, full_resolution

LAYERS = "layers"
KINDS = (
    ("sharp photographs (a folder)", "synthetic"),
    ("pairs (two folders)", "pairs"),
    ("DPDD (a folder)", "dpdd"),
    ("the open layers", LAYERS),
)
FOLDERS = {
    "synthetic": "Folder of sharp photographs; blur is made while training.",
    "pairs": "Folder of the blurred images; or, alone, one that holds “blurred” and “sharp”.",
    "dpdd": "Folder that holds train_c, val_c and so on.",
}


@dataclass(frozen=True)
class LayerData:
    """The data of one layer, to be written into files by a thread."""

    data: Any
    rgb: bool
    prefix: str
    """How the paths of the files begin, in the folder of the data."""


@dataclass(frozen=True)
class ChosenData:
    """What to train on."""

    options: dict[str, Any]
    """Options of training: the kind, and the folders unless it lies in layers."""
    layers: tuple[LayerData, ...] = ()
    """Of pairs, the blurred layer and the sharp one."""


class DataSource:
    """Controls that choose the data."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self.kind = choice_box("train on", KINDS, "Where data comes from.")
        self.root = folder_edit("folder", FOLDERS["synthetic"])
        self.sharp = folder_edit("sharp folder", "Folder of the sharp images of the same names.")
        self.pairs = folder_edit(
            "real pairs",
            "Optional: a folder that holds “blurred” and “sharp”. A share of the crops"
            " (paired) comes from there.",
        )
        self.blurred_layer = LayerBox(
            viewer, Image, label="blurred", optional="(none: blur is made)",
            tooltip="The same out of focus: same shape, same type.",
        )  # fmt: skip
        self.sharp_layer = LayerBox(
            viewer, Image, label="sharp", optional="(all images)",
            tooltip="A sharp image, or a stack of them.",
        )  # fmt: skip
        self.controls = [
            self.kind, self.root, self.sharp, self.pairs, self.blurred_layer, self.sharp_layer,
        ]  # fmt: skip
        self.kind.changed.connect(self.follow_kind)
        self.root.changed.connect(self._recognise)

    def release(self) -> None:
        """Stop following the viewer."""
        self.sharp_layer.release()
        self.blurred_layer.release()

    def chosen(self) -> ChosenData:
        """Return what is chosen; raises ConfigError where something is missing."""
        kind = self.kind.value
        if kind == LAYERS:
            return self._chosen_layers()
        root = read_folder(self.root)
        if root is None:
            raise ConfigError(f"no data to train on: choose a folder. {FOLDERS[kind]}")
        sharp = read_folder(self.sharp) if kind == "pairs" else None
        pairs = read_folder(self.pairs) if kind == "synthetic" else None
        return ChosenData(
            {
                "kind": kind,
                "root": [str(root)],
                "sharp": None if sharp is None else str(sharp),
                "pairs_root": [] if pairs is None else [str(pairs)],
            }
        )

    def _recognise(self) -> None:
        """Choose the kind of data that the folder holds, where its folders tell."""
        root = read_folder(self.root)
        found = None if root is None else recognise(root)
        if found in get_args(TrainKind):
            self.kind.value = found

    def show_options(self, options: TrainOptions) -> None:
        """Show what a run trains on; of several folders, the first."""
        for edit, folders in (
            (self.root, options.root),
            (self.sharp, (options.sharp or "",)),
            (self.pairs, options.pairs_root),
        ):
            edit.line_edit.value = next(iter(folders), "")
        self.kind.value = options.kind  # last: folders may be taken for another kind

    def _chosen_layers(self) -> ChosenData:
        blurred, sharp = self.blurred_layer.layer, self.sharp_layer.layer
        if blurred is None:
            images = [layer for layer in self._viewer.layers if type(layer) is Image]
            # Not what this plugin made.
            own = [layer for layer in images if METADATA not in layer.metadata]
            layers = [sharp] if sharp is not None else own
            if not layers:
                raise ConfigError("there is no image layer to train on: open sharp images first")
            named = {f"{number:02d}-": layer for number, layer in enumerate(layers)}
            return ChosenData({"kind": "synthetic"}, _layer_data(named))
        if sharp is None:
            raise ConfigError("choose the sharp layer that belongs to the blurred one")
        if sharp is blurred:
            raise ConfigError("the blurred and the sharp layer are the same: choose two")
        one, other = full_resolution(blurred), full_resolution(sharp)
        for what in ("shape", "dtype"):
            if getattr(one, what) != getattr(other, what):
                raise ConfigError(
                    f"the {what}s differ: {blurred.name} has {getattr(one, what)}, {sharp.name}"
                    f" {getattr(other, what)}; a pair must agree pixel by pixel"
                )
        return ChosenData({"kind": "pairs"}, _layer_data({"blurred/": blurred, "sharp/": sharp}))

    def follow_kind(self) -> None:
        """Show the controls that go with the kind of data."""
        kind = self.kind.value
        self.root.visible = kind != LAYERS
        self.sharp.visible = kind == "pairs"
        self.pairs.visible = kind == "synthetic"
        self.sharp_layer.visible = self.blurred_layer.visible = kind == LAYERS
        self.root.tooltip = FOLDERS.get(kind, "")


def _layer_data(layers: dict[str, Image]) -> tuple[LayerData, ...]:
    return tuple(
        LayerData(full_resolution(layer), bool(layer.rgb), prefix)
        for prefix, layer in layers.items()
    )


def write_layers(chosen: ChosenData, folder: Path, limit: int | None = None) -> Steps[None]:
    """Write every image of the chosen layers (or so many of each), as the network would see it.

    Photographs go into the folder, pairs into ``blurred`` and ``sharp`` below it. A run can
    then be resumed without the layers. Loads torch: for threads.
    """
    from napari_kpac.core.options import ImageOptions
    from napari_kpac.engine.arrays import as_array, layout_for, read_plane
    from napari_kpac.engine.pixels import PlaneReader, Rect, resolve_range
    from napari_kpac.images import write_image
    from napari_kpac.optics.pixels import from_unit

    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose another run folder for the layers")
    arrays = [as_array(layer.data) for layer in chosen.layers]
    layouts = [
        layout_for(array, ImageOptions(rgb=layer.rgb))
        for array, layer in zip(arrays, chosen.layers, strict=True)
    ]
    planes = [list(layout.planes())[:limit] for layout in layouts]
    done, total = 0, sum(map(len, planes))
    for index, array in enumerate(arrays):
        # Both of a pair have one range of values, that of the blurred one.
        measured = 0 if chosen.options["kind"] == "pairs" else index
        values = resolve_range("auto", layouts[measured], [arrays[measured]])
        depth = np.uint8 if array.dtype == np.uint8 else np.uint16
        for number, plane in enumerate(planes[index]):
            reader = PlaneReader(read_plane(array, plane), None, values, 1)
            seen = reader.read(Rect(0, reader.height, 0, reader.width))
            image = from_unit((seen[0].permute(1, 2, 0).numpy() + 1) / 2, depth)
            write_image(folder / f"{chosen.layers[index].prefix}{number:04d}.png", image)
            done += 1
            yield Progress(done, total, "writing the layers")
