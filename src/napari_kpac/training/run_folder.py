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
from napari_kpac.core.files import append, read_text, replacing
from napari_kpac.images import write_image
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.state import Counters
from napari_kpac.training.validation import Scores
from napari_kpac.weights import ModelCard, ModelEntry, install, models

OPTIONS, METRICS, STATE = "options.json", "metrics.csv", "state.safetensors"
LAST, BEST, EMA = "last.safetensors", "best.safetensors", "ema.safetensors"


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
        """Whether a run can begin here."""
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
        with replacing(self.path / OPTIONS) as temporary:
            temporary.write_text(json.dumps(options.to_dict(), indent=2) + "\n")

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
        """Read what the run has told of its steps; what a step did not have is left out."""
        found = []
        for row in _rows(self.path / METRICS):
            with suppress(ValueError):  # cut off in the middle of a number
                found.append({name: float(value) for name, value in row.items() if value})
        return found

    def preview(self, step: int, scores: Scores) -> None:
        """Keep the image of a validation."""
        write_image(self.path / "previews" / f"{step:07d}.png", scores.preview)


class Metrics:
    """A table with one row for every step that is told of."""

    def __init__(self, folder: Path, columns: list[str], upto: int) -> None:
        """Open the table; rows after step ``upto`` are of work that will be done again."""
        self._path = folder / METRICS
        self._columns = columns
        kept = [
            row
            for row in _rows(self._path)
            if set(row) == set(columns) and int(row["step"]) <= upto
        ]
        with replacing(self._path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(kept)
        self._board = _board(folder, upto)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the row of a step."""
        line = io.StringIO()
        row = {"step": str(step), **{k: f"{v:.6g}" for k, v in values.items()}}
        csv.DictWriter(line, self._columns).writerow(row)
        append(self._path, line.getvalue().encode())
        if self._board is not None:
            try:
                for name, value in values.items():
                    self._board.add_scalar(name, value, step)
            except OSError as error:
                raise FileError(f"cannot write TensorBoard's events: {error}") from error

    def close(self) -> None:
        """Finish the event file, if there is one."""
        if self._board is not None:
            self._board.close()


def _rows(path: Path) -> list[dict[str, str]]:
    """Read the whole rows that are there; a row that was cut off is left out."""
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


def _board(folder: Path, upto: int) -> Any:
    """Open an event file for TensorBoard, where that is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "events"), purge_step=upto + 1)


def card_of_run(
    options: TrainOptions, counters: Counters, data: str, scores: Scores | None
) -> ModelCard:
    """Fill in a card with what the run knows."""
    kind = "dual-pixel, " if options.dual else ""
    figures = {"steps": float(counters.step), "hours": round(counters.seconds / 3600, 2)}
    if scores is not None:
        figures |= {f"validation {k}": round(v, 5) for k, v in scores.figures().items()}
    start = f"started from {options.start}" if options.start else "from scratch"
    return ModelCard(
        name=options.name,
        version="1",
        summary=f"KPAC, {kind}{options.levels} levels, {options.blocks} blocks",
        licence="that of whoever trained it; mind the licences of the data",
        status="in training" if counters.step < options.total else "trained",
        training_data=data,
        training=(
            f"{counters.step} steps of {options.batch} crops of {options.crop}x{options.crop},"
            f" {start}; rate {options.rate:g}, attention modules x {options.attention_rate:g},"
            f" attention loss {options.attention_loss:g}, steering {options.steering:g};"
            f" seed {options.seed};{_phases(options)}"
            f" {counters.seconds / 3600:.1f} hours"
        ),
        limits=(
            "trained on synthetic defocus; blur in real photographs may differ"
            if options.kind == "synthetic"
            else "trained on the data named here; other cameras may need training of their own"
        ),
        figures=figures,
    )


def _phases(options: TrainOptions) -> str:
    """List the phases of a run that has any."""
    if not options.phases:
        return ""
    phases = options.schedule()
    return " phases: " + ", ".join(f"{each.label} {each.end - each.begin}" for each in phases) + ";"


INSTALLED = "installed.txt"
"""File of a run that says which weights it has put into the catalogue."""


def check_free(name: str, run: str | Path) -> None:
    """Raise if the catalogue has a model of that name already that is not of this run."""
    taken = {entry.name: entry.card.sha256 for entry in models()}
    if name in (*taken, "default") and taken.get(name) != _installed(Path(run)):
        raise ConfigError(
            f"a model called {name!r} is in the list already; choose another name, or remove it:"
            f" napari-kpac models remove {name}"
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


def _installed(run: Path) -> str:
    try:
        return (run / INSTALLED).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "nothing"
