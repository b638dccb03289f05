"""What the combo boxes offer: layers, models, devices.

Not for: what is done with the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magicgui.widgets import ComboBox
from napari.layers import Image, Labels, Layer
from napari.viewer import Viewer
from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]

from napari_kpac.core.errors import NotReadyError
from napari_kpac.core.estimators import EstimatorInfo
from napari_kpac.core.progress import catalogue
from napari_kpac.widgets import preferences
from napari_kpac.widgets.layers import METADATA, find_layer, is_ours, is_split
from napari_kpac.widgets.task import Task, single

if TYPE_CHECKING:
    from napari_kpac.weights.store import Config


def estimator_text(info: EstimatorInfo) -> str:
    """Return what a list shows for an estimator of defocus."""
    return f"{info.label} ({'its own model' if info.needs_model else 'no network'})"


NO_IMAGE = "there is no image layer: open an image first (File > Open)"


class LayerBox(ComboBox):
    """A combo box of the viewer's layers of some type; those that we made come last.

    ``optional`` is the text of a first entry that stands for no layer.
    """

    def __init__(
        self, viewer: Viewer, kind: type[Layer], label: str, tooltip: str, optional: str = ""
    ) -> None:
        self._viewer = viewer
        self._kind = kind
        self._optional = optional
        super().__init__(label=label, tooltip=tooltip, choices=self._offered, nullable=False)
        events = viewer.layers.events
        self._events = [events.inserted, events.removed, events.reordered, events.renamed]
        for event in self._events:
            event.connect(self._follow)
        self._follow()

    @property
    def layer(self) -> Any:
        """The chosen layer, None where there is none."""
        return self.value if isinstance(self.value, Layer) else None

    def chosen(self) -> Any:
        """Return the chosen layer; raises NotReadyError where there is none."""
        if self.layer is None:
            raise NotReadyError(NO_IMAGE)
        return self.layer

    def release(self) -> None:
        """Stop following the viewer."""
        for event in self._events:
            event.disconnect(self._follow)

    def _follow(self) -> None:
        """Offer the layers that there are by now; what is chosen stays so, else the first is."""
        before = self.value
        with self.changed.blocked():
            self.native.clear()  # else new layers would be offered last
            self.reset_choices()
            if before in self.choices and before != "":
                self.value = before
            elif self._optional:
                self.value = next(filter(self._is_meant, self.choices), "")
        if self.value is not before:
            self.changed.emit(self.value)

    def _is_meant(self, layer: Any) -> bool:
        """Return True if a layer says that it is what the box asks for, as a view of a sample."""
        return isinstance(layer, Layer) and layer.metadata.get(METADATA) == self.label

    def _offered(self, _: object = None) -> list[tuple[str, Any]]:
        layers = [
            layer
            for layer in self._viewer.layers
            if type(layer) is self._kind and not is_split(layer)
        ]
        found = [(layer.name, layer) for layer in sorted(layers, key=is_ours)]
        return [(self._optional, "")] * bool(self._optional) + found


class ImageBox(LayerBox):
    """A box for the image to work on: the active layer, until the user chooses here.

    Layers that we made can be chosen, but are not followed. When the chosen layer is removed, the
    box follows again.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.is_held = False
        """True while the box stays as it is, whatever is selected."""
        self._chosen_id: Any = None
        super().__init__(viewer, Image, "image", "The image layer to work on.")
        self.native.activated.connect(self._choose)
        active = viewer.layers.selection.events.active
        active.connect(self._follow)
        self._events.append(active)

    def _choose(self) -> None:
        self._chosen_id = None if self.layer is None else self.layer.unique_id

    def _follow(self) -> None:
        super()._follow()
        if self.is_held or find_layer(self._viewer, self._chosen_id) is not None:
            return
        active = self._viewer.layers.selection.active
        for layer in self.choices:  # napari hands its plugins a proxy of the active one
            if layer == active and not is_ours(layer):
                self.value = layer


def labels_box(viewer: Viewer) -> LayerBox:
    """Return a box for a labels layer that steers, or none."""
    tooltip = "A labels layer: each label can have its own gains."
    return LayerBox(viewer, Labels, "paint with", tooltip, "(no labels)")


class ModelBox(ComboBox):
    """A combo box of models of one kind; ``default`` until the list has been read.

    ``first`` are choices that always stand before the models; ``single`` leaves out those that
    take the two views of a dual-pixel camera.
    """

    def __init__(
        self,
        label: str = "model",
        tooltip: str = "The trained network to use.",
        first: Sequence[tuple[str, str]] = (),
        *,
        single: bool = False,
    ) -> None:
        self._single = single
        self._kind = "kpac"
        self._found: Choices | None = None
        self._first = list(first)
        self._models: list[tuple[str, str]] = []
        super().__init__(
            label=label, tooltip=tooltip, choices=self._first or [("default", "default")]
        )

    def offer(self, found: Choices) -> None:
        """Offer the models that were found; what is chosen stays chosen, if it can."""
        self._found = found
        preferred = preferences.model("default")
        models = sorted(found.models, key=lambda model: model[1] != preferred)
        self._models = [each for each in models if self._fits(found.configs.get(each[1]))]
        if self._kind == "kpac" and preferred not in found.configs:
            self._models.insert(0, (preferred, preferred))  # to run it says that it is not there
        if not self._models:
            self._models = [("(none installed)", "default")]
        self._refill()

    def show_kind(self, kind: str) -> None:
        """Offer the networks of a kind: ``kpac``, which deblur, or ``dmenet``."""
        if kind != self._kind:
            self._kind = kind
            if self._found is not None:
                self.offer(self._found)

    def _fits(self, config: Config | None) -> bool:
        if config is None:
            return True
        return self._kind == config.KIND and not (self._single and config.views == 2)

    def choose(self, model: str) -> None:
        """Choose a model, also one that is in no list."""
        if model not in self.choices:
            self._first.append((model, model))
            self._refill()
        self.value = model

    def _refill(self) -> None:
        _offer(self, self._first + self._models)


class DeviceBox(ComboBox):
    """A combo box of devices; ``auto`` until they have been looked for."""

    def __init__(self) -> None:
        super().__init__(
            label="device",
            tooltip="Where to compute: automatic takes a graphics card where there is one.",
            choices=[("automatic", "auto")],
        )


class ChoiceFiller(QObject):
    """Finds models and devices in a thread (that loads torch) and fills the boxes.

    It looks again whenever a model is installed or removed by this program.
    """

    filled = Signal(object)
    """The boxes are filled: with these Choices."""
    _outdated = Signal()

    def __init__(self, models: ModelBox | None, devices: DeviceBox | None, parent: QObject) -> None:
        super().__init__(parent)
        self._models = models
        self._devices = devices
        self._task = Task(self)
        self._outdated.connect(self.refresh)
        catalogue.changed.connect(self._hear)
        self.refresh()

    def refresh(self) -> None:
        """Find models and devices again."""
        self._task.start(single(find_choices), self._fill)

    def release(self) -> None:
        """Stop following the list of models."""
        catalogue.changed.disconnect(self._hear, missing_ok=True)
        self._task.cancel(forget=True)

    def _hear(self) -> None:
        # In any thread: a signal takes it to ours.
        with suppress(RuntimeError):  # the window is gone
            self._outdated.emit()

    def _fill(self, found: Choices) -> None:
        if self._models is not None:
            self._models.offer(found)
        if self._devices is not None:
            _offer(self._devices, found.devices)
        self.filled.emit(found)


@dataclass(frozen=True)
class Choices:
    """What can be chosen here, as (label, value); the preferred ones come first."""

    models: list[tuple[str, str]]
    devices: list[tuple[str, str]]
    configs: dict[str, Config] = field(default_factory=dict)
    """Networks of the models, also of ``default``."""


def find_choices() -> Choices:
    """Return the models and devices that there are."""
    from napari_kpac.engine import devices
    from napari_kpac.weights import DEFAULT, models

    found = models()
    offered = [
        (f"{entry.name}{_suffix(entry.card.status, entry.config)}", entry.name)
        for entry in sorted(found, key=lambda entry: not entry.is_default)
    ]
    places = [(f"{device.name} ({device.label})", device.name) for device in devices()]
    configs = {entry.name: entry.config for entry in found}
    if DEFAULT in configs:
        configs["default"] = configs[DEFAULT]
    return Choices(offered, [("automatic", "auto"), *places], configs)


def _suffix(status: str, config: Config) -> str:
    views = "dual" if config.views == 2 else ""
    kind = "DMENet" if config.KIND == "dmenet" else ""
    notes = [note for note in (kind, status, views) if note]
    return f" ({', '.join(notes)})" if notes else ""


def _offer(box: ComboBox, choices: list[tuple[str, str]]) -> None:
    chosen = box.value
    box.choices = choices
    if chosen in [value for _, value in choices]:
        box.value = chosen
