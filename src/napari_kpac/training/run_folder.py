"""The folder of a run: options, metrics, states, models and previews; its model in the catalogue.

Not for: what is written into a state (state) or a model (weights).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import append, read_text, replacing, write_record
from napari_kpac.images import write_image
from napari_kpac.training.objectives import AnyScores
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.state import Counters
from napari_kpac.weights import ModelCard, ModelEntry, install, models

OPTIONS, METRICS, STATE = "options.json", "metrics.csv", "state.safetensors"
LAST, BEST, EMA = "last.safetensors", "best.safetensors", "ema.safetensors"
INSTALLED = "installed.txt"
"""Holds which weights of the run are in the catalogue."""


class RunFolder:
    """Where a run keeps everything."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def state(self) -> Path:
        """File of the state."""
        return self.path / STATE

    @property
    def is_free(self) -> bool:
        """Whether a run can begin here: the folder holds none."""
        return not (self.path / OPTIONS).exists()

    def check_free(self) -> None:
        """Raise if the folder holds a run."""
        if not self.is_free:
            raise ConfigError(
                f"{self.path} holds a run already; resume it, or choose another folder"
            )

    def begin(self, options: TrainOptions) -> None:
        """Begin a run in an empty place."""
        self.check_free()
        write_record(self.path / OPTIONS, options.to_dict())

    def clear(self) -> None:
        """Make room for another run, unless this one has learned something."""
        if not self.state.exists():
            (self.path / OPTIONS).unlink(missing_ok=True)

    def options(self) -> TrainOptions:
        """Read the options that the run was begun with."""
        path = self.path / OPTIONS
        try:
            if not path.exists():
                raise FileError(f"{self.path} holds no run (it has no {OPTIONS})")
            values = json.loads(read_text(path))
        except FileError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(f"cannot read {path}: {error}") from error
        if not isinstance(values, dict):
            raise FileError(f"{path} holds no options of training")
        return TrainOptions.from_dict(values)

    def metrics(self) -> list[dict[str, float]]:
        """Read the table of the run's steps; what a step did not have is left out."""
        found = []
        for row in _rows(self.path / METRICS):
            with suppress(ValueError):  # cut off in the middle of a number
                found.append({name: float(value) for name, value in row.items() if value})
        return found

    def preview(self, step: int, scores: AnyScores) -> None:
        """Write the preview of a validation."""
        write_image(self.path / "previews" / f"{step:07d}.png", scores.preview)


class Metrics:
    """A table with one row for every step that is reported."""

    def __init__(self, folder: Path, columns: list[str], upto: int) -> None:
        """Open the table; rows after step ``upto`` are of work that will be done again."""
        self._path = folder / METRICS
        self._columns = columns
        rows = [row for row in _rows(self._path) if set(row) == set(columns)]
        with replacing(self._path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(row for row in rows if int(row["step"]) <= upto)
        self._events: Any = None
        with suppress(ImportError):  # TensorBoard is not installed
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(str(folder / "events"), purge_step=upto + 1)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the row of a step."""
        line = io.StringIO()
        row = {"step": str(step), **{k: f"{v:.6g}" for k, v in values.items()}}
        csv.DictWriter(line, self._columns).writerow(row)
        append(self._path, line.getvalue().encode())
        if self._events is not None:
            try:
                for name, value in values.items():
                    self._events.add_scalar(name, value, step)
            except OSError as error:
                raise FileError(f"cannot write TensorBoard's events: {error}") from error

    def close(self) -> None:
        """Finish the event file, if there is one."""
        if self._events is not None:
            self._events.close()


def _rows(path: Path) -> list[dict[str, str]]:
    """Read the complete rows; a row that was cut off is left out."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, csv.Error, UnicodeDecodeError):
        return []
    return [
        row
        for row in rows
        if (row.get("step") or "").isdigit() and None not in row and None not in row.values()
    ]


def card_of_run(
    options: TrainOptions, counters: Counters, data: str, scores: AnyScores | None
) -> ModelCard:
    """Fill in a card with what the run knows."""
    kind = "dual-pixel, " if options.dual else ""
    hours, size = counters.seconds / 3600, options.crop_size
    figures = {"steps": float(counters.step), "hours": round(hours, 2)}
    if scores is not None:
        figures |= {f"validation {k}": round(v, 5) for k, v in scores.figures().items()}
    what = f"KPAC, {kind}{options.levels} levels, {options.blocks} blocks"
    how = (
        f"attention modules x {options.attention_learning_rate:g}, attention loss"
        f" {options.attention_loss:g}, frequency loss {options.frequency_loss:g}, PSNR loss"
        f" {options.psnr_loss:g} (in focus x {options.focus_weight:g}), steering"
        f" {options.steering:g}; "
    )
    if options.network == "dmenet":
        what = f"DMENet, width {options.width}: estimates the radius of the blur"
        how = f"encoder from {Path(options.vgg).name}; " if options.vgg else ""
    start = f"started from {options.start}" if options.start else "from scratch"
    phases = ""
    if options.phases:
        lengths = (f"{each.label} {each.end - each.begin}" for each in options.schedule())
        phases = f" phases: {', '.join(lengths)};"
    return ModelCard(
        name=options.name,
        version="1",
        summary=what,
        licence="that of whoever trained it; mind the licences of the data",
        status="in training" if counters.step < options.total else "trained",
        training_data=data,
        training=(
            f"{counters.step} steps of {options.batch_size} crops of {size}x{size}, {start};"
            f" rate {options.learning_rate:g}, {how}seed {options.seed};{phases} {hours:.1f} hours"
        ),
        limits=(
            "trained on synthetic defocus; blur in real photographs may differ"
            if options.kind == "synthetic"
            else "trained on the data named here; other cameras may need training of their own"
        ),
        figures=figures,
    )


def check_free(name: str, run: str | Path) -> None:
    """Raise if the catalogue has a model of that name already that is not of this run."""
    taken = {entry.name: entry.card.sha256 for entry in models()}
    own = "nothing"
    with suppress(OSError, UnicodeDecodeError):
        own = (Path(run) / INSTALLED).read_text("utf-8").strip()
    if name in (*taken, "default") and taken.get(name) != own:
        raise ConfigError(
            f"a model called {name!r} is in the list already; choose another name, or remove that"
            " model first"
        )


def install_best(run: str | Path, name: str) -> ModelEntry:
    """Install the best model of a run; what the run has installed before is replaced.

    Raises
    ------
    ConfigError
        If another model has the name.
    FileError
        If there is no model yet.
    """
    run = Path(run)
    if not (run / BEST).is_file():
        raise FileError(f"{run} has no model yet: the first is written by the first validation")
    check_free(name, run)
    entry = install(run / BEST, name, overwrite=True)
    with replacing(run / INSTALLED) as temporary:
        temporary.write_text(entry.card.sha256 + "\n")
    return entry
