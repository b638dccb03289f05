"""Models by name: those that come with the package and those in the user's folder.

Not for: the contents of weight files (store.py, authors.py).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path

from napari_kpac.core.errors import ModelNotFoundError, WeightsError
from napari_kpac.core.files import replacing
from napari_kpac.core.options import check_name
from napari_kpac.core.progress import catalogue
from napari_kpac.network import KPACConfig, KPACNet
from napari_kpac.weights.authors import read_authors
from napari_kpac.weights.store import (
    IMPORTED,
    SUFFIX,
    ModelCard,
    describe,
    read_network,
    save_network,
    tensors_sha256,
)

DEFAULT = "kpac-3level"
ALIASES = {"default": DEFAULT}
BUNDLED = Path(__file__).absolute().parent / "bundled"
SUMS = "SHA256SUMS"
"""File beside the bundled models, as sha256sum writes it."""


@dataclass(frozen=True)
class ModelEntry:
    """A model in the catalogue."""

    card: ModelCard
    config: KPACConfig
    path: Path
    origin: Literal["bundled", "installed"]

    @property
    def name(self) -> str:
        """The name that :func:`load` takes."""
        return self.card.name

    @property
    def is_default(self) -> bool:
        """Whether ``default`` means this model."""
        return self.name == DEFAULT


def user_folder() -> Path:
    """Return the folder of the user's models; ``NAPARI_KPAC_MODELS`` overrides it."""
    override = os.environ.get("NAPARI_KPAC_MODELS")
    return Path(override) if override else user_data_path("napari-kpac", False) / "models"


def models() -> list[ModelEntry]:
    """List all bundled and installed models; a file that cannot be read is passed over."""
    found: dict[str, ModelEntry] = {}
    origins: tuple[tuple[Path, Literal["bundled", "installed"]], ...] = (
        (BUNDLED, "bundled"),
        (user_folder(), "installed"),
    )
    for folder, origin in origins:
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ():
            try:
                config, card = describe(path)
                # The name in the catalogue is that of the file: two files cannot share it.
                card = replace(card, name=check_name(path.stem))
            except WeightsError:
                continue
            found.setdefault(card.name, ModelEntry(card, config, path, origin))
    return list(found.values())


def find(name: str) -> ModelEntry:
    """Look up a model by name or alias."""
    wanted = ALIASES.get(name, name)
    known = models()
    for entry in known:
        if entry.name == wanted:
            return entry
    raise ModelNotFoundError(
        f"no model is called {name!r}; there are {', '.join(entry.name for entry in known)} "
        "(and 'default'). A file is given by its path; 'napari-kpac models install FILE' "
        "adds one to the list"
    )


def load(model: str | os.PathLike[str] = "default") -> KPACNet:
    """Load a network, ready for inference on the CPU.

    Parameters
    ----------
    model
        A name from the catalogue (see :func:`models`), the path of a ``.safetensors``
        model, or the path of an authors' ``.npz`` file.

    Returns
    -------
    KPACNet
        In evaluation mode, with ``card`` set.
    """
    text = os.fspath(model)
    path = Path(text)
    if path.suffix == ".npz":
        return _imported(path, path.stem)
    if not is_file_name(text):
        path = find(text).path
    if path.absolute().parent == BUNDLED:
        check_bundled(path.name)
    return read_network(path)


def is_file_name(model: str) -> bool:
    """Return True if a model is given as a file, not by a name of the catalogue."""
    path = Path(model)
    return path.suffix in (SUFFIX, ".npz") or len(path.parts) > 1


def check_bundled(name: str) -> None:
    """Raise unless a bundled file is, byte by byte, the one that was released."""
    path, sums = BUNDLED / name, BUNDLED / SUMS
    try:
        lines = (line.split() for line in sums.read_text("ascii").splitlines())
        listed = {file_name: digest for digest, file_name in lines}
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: cannot be checked ({error}); install again") from error
    if listed.get(name) != found:
        raise WeightsError(
            f"{path}: not the file that came with the package ({SUMS} has another SHA-256 for "
            "it); install napari-kpac again"
        )


def import_weights(
    source: str | os.PathLike[str], target: str | os.PathLike[str], name: str | None = None
) -> ModelCard:
    """Convert an authors' ``.npz`` file into our format."""
    target = Path(target)
    if target.suffix != SUFFIX:
        raise WeightsError(f"{target}: the name of a model file must end in {SUFFIX}")
    net = _imported(Path(source), target.stem if name is None else check_name(name))
    return save_network(net, target, net.card)


def install(
    source: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
) -> ModelEntry:
    """Check a model file and copy it into the user's folder; ``.npz`` files are converted."""
    source = Path(source)
    net = load(source) if source.suffix == ".npz" else read_network(source)
    card = net.card if name is None else replace(net.card, name=check_name(name))
    if card.name in ALIASES or (BUNDLED / f"{card.name}{SUFFIX}").exists():
        raise WeightsError(f"{card.name!r} is the name of a bundled model; choose another name")
    target = user_folder() / f"{card.name}{SUFFIX}"
    if target.exists() and not overwrite:
        raise WeightsError(
            f"a model called {card.name!r} is installed already; remove it, choose another "
            "name, or overwrite it"
        )
    if card == net.card and source.suffix == SUFFIX:
        with replacing(target) as temporary:
            shutil.copyfile(source, temporary)
    else:
        card = save_network(net, target, card)
    catalogue.changed.emit()
    return ModelEntry(card, net.config, target, "installed")


def remove(name: str) -> Path:
    """Delete an installed model; bundled ones stay."""
    entry = find(name)
    if entry.origin == "bundled":
        raise WeightsError(f"{entry.name!r} came with the package and cannot be removed")
    entry.path.unlink()
    catalogue.changed.emit()
    return entry.path


def _imported(path: Path, name: str) -> KPACNet:
    net = read_authors(path)
    net.card = ModelCard(
        name=check_name(name),
        summary=f"Imported from {path.name}",
        licence="unknown; the authors' own files are AGPL-3.0",
        status=IMPORTED,
        training_data="see the source of the file",
        sha256=tensors_sha256(net.state_dict()),
    )
    return net
