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
from napari_kpac.network import DMENet, DMENetConfig, KPACNet
from napari_kpac.weights.authors import read_authors
from napari_kpac.weights.store import (
    IMPORTED,
    SUFFIX,
    Config,
    ModelCard,
    Network,
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
    config: Config
    path: Path
    origin: Literal["bundled", "installed"]

    @property
    def name(self) -> str:
        """The name that :func:`load` takes."""
        return self.card.name

    @property
    def kind(self) -> str:
        """``kpac`` for a network that deblurs, ``dmenet`` for one that estimates defocus."""
        return self.config.KIND

    @property
    def is_default(self) -> bool:
        """Whether ``default`` means this model."""
        return self.name == DEFAULT


def user_folder() -> Path:
    """Return the folder of the user's models; ``NAPARI_KPAC_MODELS`` overrides it."""
    override = os.environ.get("NAPARI_KPAC_MODELS")
    return Path(override) if override else user_data_path("napari-kpac", False) / "models"


def models(kind: str | None = None) -> list[ModelEntry]:
    """List all bundled and installed models; a file that cannot be read is passed over.

    Parameters
    ----------
    kind
        ``kpac`` or ``dmenet``: only networks of that kind; None: all.
    """
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
    return [entry for entry in found.values() if kind in (None, entry.kind)]


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

    Raises
    ------
    WeightsError
        If the file cannot be read, or holds a DMENet (see :func:`load_dmenet`).
    """
    net = load_network(model)
    if not isinstance(net, KPACNet):
        raise WeightsError(
            f"{os.fspath(model)} is a DMENet model: it estimates defocus and has no image to give. "
            "Choose a KPAC model here, or use this one with source or method 'dmenet'"
        )
    return net


def load_dmenet(model: str | os.PathLike[str] = "default") -> DMENet:
    """Load a DMENet, ready for inference on the CPU.

    Parameters
    ----------
    model
        As for :func:`load`. None comes with the package: ``default`` is the one that is
        installed, where there is exactly one.

    Raises
    ------
    WeightsError
        If the file cannot be read, or holds another network.
    """
    net = load_network(model if os.fspath(model) not in ALIASES else find_dmenet().path)
    if not isinstance(net, DMENet):
        raise WeightsError(
            f"{os.fspath(model)} is a KPAC model: it deblurs. 'dmenet' needs a DMENet model; "
            + _dmenet_advice()
        )
    return net


def find_dmenet() -> ModelEntry:
    """Return the only DMENet that is installed; raise where there is none, or a choice."""
    known = models(DMENetConfig.KIND)
    if len(known) != 1:
        raise ModelNotFoundError(f"'dmenet' needs a DMENet model; {_dmenet_advice()}")
    return known[0]


def _dmenet_advice() -> str:
    names = ", ".join(entry.name for entry in models(DMENetConfig.KIND))
    if names:
        return f"name it: {names}"
    return (
        "none is installed and none comes with napari-kpac. 'napari-kpac models install FILE.npz' "
        "takes the file of DMENet's authors, 'napari-kpac train --network dmenet' trains one"
    )


def kind_of(model: str | os.PathLike[str]) -> str:
    """Return the kind of a network by its name or file: ``kpac`` or ``dmenet``."""
    text = os.fspath(model)
    if Path(text).suffix == ".npz":
        return load_network(text).config.KIND
    return describe(text).config.KIND if is_file_name(text) else find(text).kind


def load_network(model: str | os.PathLike[str] = "default") -> Network:
    """Load a network of either kind; otherwise as :func:`load`."""
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
    """Convert an authors' ``.npz`` file, of KPAC or of DMENet, into our format."""
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
    net = load_network(source) if source.suffix == ".npz" else read_network(source)
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


def _imported(path: Path, name: str) -> Network:
    net = read_authors(path)
    licence = "the authors' own files are AGPL-3.0"
    if isinstance(net, DMENet):
        licence = "see the authors' terms"
    net.card = ModelCard(
        name=check_name(name),
        summary=f"Imported from {path.name}",
        licence=f"unknown; {licence}",
        status=IMPORTED,
        training_data="see the source of the file",
        sha256=tensors_sha256(net.state_dict()),
    )
    return net
