"""The set-up of a run: data, preset, start model, name, folder, and everything else folded away.

Not for: checking it (the options do), or running it (widget.py).
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from magicgui.widgets import Label, LineEdit
from napari.viewer import Viewer
from platformdirs import user_documents_path
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QGroupBox, QVBoxLayout, QWidget

from napari_kpac.core.errors import ConfigError
from napari_kpac.training.options import CHOICES, LIMITS, TrainOptions, preset_values
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, Choices, DeviceBox, ModelBox
from napari_kpac.widgets.form import (
    Fold,
    Form,
    OptionControls,
    choice_box,
    folder_edit,
    read_folder,
)
from napari_kpac.widgets.train.data import LAYERS, ChosenData, DataSource

PRESET_CHOICES = (
    ("fine-tune: a trained model goes on learning", "finetune"),
    ("default: from scratch, on an ordinary computer", "default"),
    ("paper: the paper's training on DPDD", "paper"),
    ("smoke: a trial of seconds", "smoke"),
)
START = (("from scratch", ""), ("the default model", "default"))
OWN = ("kind", "root", "sharp", "pairs_root", "start", "name", "device", "phases")
"""Options with controls of their own."""
ELSEWHERE = ("nodes", "network", "width")
"""Options for the terminal: they start the program anew, or make nothing for the lists."""
OTHERS = "data and run"
SECTIONS = {
    "levels": "network",
    "batch_size": "learning",
    "radii": "crops",
    "validate_every": OTHERS,
}
"""Titles of what is folded away, by the first option of each section; what comes before the
first of them goes to the others."""


class Settings(QWidget):
    """Controls of all options of a run."""

    changed = Signal()
    """Something else is chosen."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._configs: dict[str, Any] = {}
        self._phases: tuple[Any, ...] = ()
        self.source = DataSource(viewer)
        self.preset = choice_box("preset", PRESET_CHOICES, "Fills in everything below.")
        self.phases = Label(
            label="phases", tooltip="Parts of the run, with their share of the steps. Each has "
            "data and a rate of its own, which go before what is set under Advanced.",
        )  # fmt: skip
        self.start = ModelBox("start from", "A model that goes on learning, or none.", START)
        self.name = LineEdit(
            label="model name", value="my-model", tooltip="What the model is called in the lists."
        )
        self.run = folder_edit(
            "run folder", "Where the run keeps everything: models, states, previews, metrics."
        )
        self.device = DeviceBox()
        sections = folded_options()
        names = ["steps", *(name for section in sections.values() for name in section)]
        self.fields = OptionControls(TrainOptions, names, limits=LIMITS, choices=CHOICES)
        advanced = QWidget()
        inside = QVBoxLayout(advanced)
        inside.setContentsMargins(0, 0, 0, 0)
        for title, section in sections.items():
            group = QGroupBox(title)
            QVBoxLayout(group).addWidget(Form([self.fields[name] for name in section]))
            inside.addWidget(group)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        chosen = [self.preset, self.phases, self.start, self.name, self.run, self.fields["steps"]]
        controls = [*self.source.controls, *chosen, self.device]
        layout.addWidget(Form(controls))
        layout.addWidget(Fold("Advanced", advanced))
        for control in {*controls, *self.fields.controls}:
            control.changed.connect(self._tell)
        self._suggested = ""
        self.preset.changed.connect(self._follow_preset)
        self.start.changed.connect(self._follow_start)
        self.name.changed.connect(self._suggest_folder)
        self._filler = ChoiceFiller(self.start, self.device, self)
        self._filler.filled.connect(self._learn_configs)
        self.source.follow_kind()
        self._follow_preset()
        self._suggest_folder()

    def _tell(self) -> None:
        self.changed.emit()

    def release(self) -> None:
        """Stop following the viewer and the list of models."""
        self.source.release()
        self._filler.release()

    def chosen(self) -> tuple[TrainOptions, Path, ChosenData]:
        """Return options, run folder and data; raises KpacError where they make no sense."""
        run = read_folder(self.run)
        if run is None:
            raise ConfigError("choose a run folder: everything that is learned is kept there")
        data = self.source.chosen()
        values = {
            **self.fields.values,
            **data.options,
            "name": self.name.value.strip(),
            "start": preferences.model(self.start.value),
            "device": preferences.device(self.device.value),
            "phases": self._phases,
        }
        return TrainOptions.from_dict(values), run, data

    def show_run(self, options: TrainOptions, run: Path) -> None:
        """Show what a run was begun with."""
        self.source.show_options(options)
        self._show_values(options.to_dict())
        self.name.value = options.name
        self.run.value = run

    def _show_values(self, values: dict[str, Any]) -> None:
        self._phases = tuple(values.get("phases", ()))
        self.phases.value = ", ".join(
            f"{phase.get('label', 'training')} {phase['part']:.0%}" for phase in self._phases
        )
        self.phases.visible = bool(self._phases)
        self.start.choose(values.get("start", ""))
        self.fields.show_values(values)

    def _follow_preset(self) -> None:
        values = preset_values(self.preset.value)
        if "kind" in values and self.source.kind.value != LAYERS:
            self.source.kind.value = values["kind"]
        self._show_values(values)
        self._follow_start()

    def _follow_start(self) -> None:
        """Train the network that the start model is: otherwise little of it could be used."""
        config = self._configs.get(preferences.model(self.start.value))
        if config is not None:
            self.fields["dual"].value = config.views == 2
            for item in fields(config):
                if item.name in self.fields:
                    self.fields[item.name].value = getattr(config, item.name)

    def _learn_configs(self, found: Choices) -> None:
        is_first, self._configs = not self._configs, dict(found.configs)
        if is_first:
            self._follow_start()

    def _suggest_folder(self) -> None:
        """Name the folder like the model, unless the user chose another."""
        if str(self.run.line_edit.value) in ("", ".", self._suggested):
            name = self.name.value.strip() or "my-model"
            self.run.value = user_documents_path() / "napari-kpac" / name
            self._suggested = str(self.run.line_edit.value)


def folded_options() -> dict[str, list[str]]:
    """Return the options of each section that is folded away, in the order of the record."""
    found: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    title = OTHERS
    for item in fields(TrainOptions):
        title = SECTIONS.get(item.name, title)
        if item.name not in (*OWN, *ELSEWHERE, "steps"):
            found[title].append(item.name)
    return found
