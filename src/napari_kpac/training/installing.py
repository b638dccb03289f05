"""The model of a run into the catalogue.

Not for: model files in general (weights).
"""

from __future__ import annotations

from pathlib import Path

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import replacing
from napari_kpac.training.run_folder import BEST
from napari_kpac.weights import ModelEntry, install, models

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
