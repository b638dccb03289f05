"""What to train on: a folder, two folders, or the open layers.

Not for: reading any of it (datasets), or writing layers into files (layer_files.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from magicgui.types import FileDialogMode
from magicgui.widgets import ComboBox, FileEdit
from napari.layers import Image
from napari.viewer import Viewer

from napari_kpac.core.errors import ConfigError
from napari_kpac.training.options import TrainOptions
from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.placement import METADATA, full_resolution

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

    name: str
    data: Any
    rgb: bool


@dataclass(frozen=True)
class ChosenData:
    """What to train on."""

    options: dict[str, Any]
    """Options of training: kind, and root and sharp where they are folders."""
    sharp: tuple[LayerData, ...] = ()
    blurred: LayerData | None = None

    @property
    def is_open(self) -> bool:
        """Whether it lies in layers, and not in files."""
        return bool(self.sharp)


class DataSource:
    """Controls that choose the data."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self.kind = ComboBox(
            label="train on", choices=list(KINDS), tooltip="Where data comes from."
        )
        self.root = folder_edit("folder", FOLDERS["synthetic"])
        self.sharp = folder_edit("sharp folder", "Folder of the sharp images of the same names.")
        self.pairs = folder_edit(
            "real pairs",
            "Optional: a folder that holds “blurred” and “sharp”. A share of the crops"
            " (paired) comes from there.",
        )
        self.sharp_layer = LayerBox(
            viewer, Image, label="sharp", optional="(all images)",
            tooltip="A sharp image, or a stack of them.",
        )  # fmt: skip
        self.blurred_layer = LayerBox(
            viewer, Image, label="blurred", optional="(none: blur is made)",
            tooltip="The same out of focus: same shape, same type.",
        )  # fmt: skip
        self.controls = [
            self.kind, self.root, self.sharp, self.pairs, self.blurred_layer, self.sharp_layer,
        ]  # fmt: skip
        self.kind.changed.connect(self.follow_kind)

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

    def show_options(self, options: TrainOptions) -> None:
        """Show what a run trains on; of several folders, the first."""
        self.kind.value = options.kind
        for edit, folders in (
            (self.root, options.root),
            (self.sharp, (options.sharp or "",)),
            (self.pairs, options.pairs_root),
        ):
            edit.line_edit.value = next(iter(folders), "")

    def _chosen_layers(self) -> ChosenData:
        blurred, sharp = self.blurred_layer.layer, self.sharp_layer.layer
        if blurred is None:
            layers = [sharp] if sharp is not None else self._own_images()
            if not layers:
                raise ConfigError("there is no image layer to train on: open sharp images first")
            return ChosenData({"kind": "synthetic"}, tuple(map(_layer_data, layers)))
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
        return ChosenData({"kind": "pairs"}, (_layer_data(sharp),), _layer_data(blurred))

    def _own_images(self) -> list[Image]:
        """Return the images that were not made by this plugin."""
        layers = (layer for layer in self._viewer.layers if type(layer) is Image)
        return [layer for layer in layers if METADATA not in layer.metadata]

    def follow_kind(self) -> None:
        """Show the controls that go with the kind of data."""
        kind = self.kind.value
        self.root.visible = kind != LAYERS
        self.sharp.visible = kind == "pairs"
        self.pairs.visible = kind == "synthetic"
        self.sharp_layer.visible = self.blurred_layer.visible = kind == LAYERS
        self.root.tooltip = FOLDERS.get(kind, "")


def folder_edit(label: str, tooltip: str) -> FileEdit:
    """Return a control for a folder, narrow enough for a dock."""
    edit = FileEdit(label=label, tooltip=tooltip, mode=FileDialogMode.EXISTING_DIRECTORY)
    edit.choose_btn.text = "..."
    edit.choose_btn.max_width = 32
    return edit


def read_folder(edit: FileEdit) -> Path | None:
    """Return the folder that is written in a control; None where there is none."""
    text = str(edit.line_edit.value).strip()
    return Path(text).expanduser().absolute() if text not in ("", ".") else None


def _layer_data(layer: Image) -> LayerData:
    return LayerData(layer.name, full_resolution(layer), bool(layer.rgb))
