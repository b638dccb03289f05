"""Model files: safetensors with the configuration of the network and its model card.

Not for: the authors' files (authors.py), or where models are kept (catalogue.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from napari_kpac.core.errors import ConfigError, FileError, WeightsError
from napari_kpac.core.files import replacing
from napari_kpac.core.options import check_name, is_number
from napari_kpac.network import DMENet, DMENetConfig, KPACConfig, KPACNet

Network = KPACNet | DMENet
Config = KPACConfig | DMENetConfig

CONFIGS: dict[str, type[Config]] = {config.KIND: config for config in (KPACConfig, DMENetConfig)}
"""Configurations by the kind of network, as a file names it; files that name none hold KPAC."""
FORMAT = "napari-kpac"
FORMAT_VERSION = 1
SUFFIX = ".safetensors"
UPSAMPLING = "blur map upsampling"
"""Setting of a card: by how much to enlarge images for a blur map."""
IMPORTED = "imported"
"""Status of the authors' own weights."""
_TABLES = ("figures", "sliders", "settings")
"""Fields of a card that are tables of numbers."""


@dataclass(frozen=True)
class ModelCard:
    """What a person should know before using a model."""

    name: str
    """Short name in the catalogue: letters, digits, dots, dashes, underscores."""
    version: str = "0"
    summary: str = ""
    licence: str = "unknown"
    status: str = ""
    """How far the model has come, for example ``early`` or ``released``."""
    training_data: str = ""
    training: str = ""
    limits: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Measured figures by name, for example ``psnr_gain_radius_3``."""
    sliders: Mapping[str, float] = field(default_factory=dict)
    """What the sliders were measured to do, by the names of ``evaluation.sliders``."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """What is best for this model where an option says ``auto``: `UPSAMPLING`."""
    sha256: str = ""
    """Of the tensors (see :func:`tensors_sha256`)."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _TABLES:
                fits = isinstance(value, Mapping) and all(
                    isinstance(key, str) and _is_text(key) and is_number(number)
                    for key, number in value.items()
                )
            else:
                fits = isinstance(value, str) and _is_text(value)
            if not fits:
                raise WeightsError(f"model card: field {item.name!r} has a bad value {value!r:.80}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), **{name: dict(getattr(self, name)) for name in _TABLES}}

    @classmethod
    def from_dict(cls, values: Any) -> ModelCard:
        """Make a card from what :meth:`to_dict` returns; unknown fields are ignored."""
        if not isinstance(values, Mapping) or "name" not in values:
            raise WeightsError("the model card is missing or has no name")
        known = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


class Description(NamedTuple):
    """What a weight file says of itself, read without its tensors."""

    config: Config
    card: ModelCard


def save_network(
    net: Network,
    path: str | os.PathLike[str],
    card: ModelCard,
    *,
    dtype: torch.dtype = torch.float32,
) -> ModelCard:
    """Write a network; returns the card as written, with the tensors' fingerprint.

    ``dtype`` is the type on disk (float16 halves the size); networks load as float32.
    """
    tensors = {
        name: tensor.detach().cpu().to(dtype).contiguous()
        for name, tensor in net.state_dict().items()
    }
    _check_finite(tensors, "the network to be written")
    card = replace(card, sha256=tensors_sha256(tensors))
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "network": net.config.KIND,
        "config": json.dumps(net.config.to_dict()),
        "card": json.dumps(card.to_dict()),
    }
    write_tensors(Path(path), tensors, metadata)
    return card


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            # The library's own word for a disk that is full, and the like.
            raise FileError(f"cannot write {path}: {error}") from error


def describe(path: str | os.PathLike[str]) -> Description:
    """Read configuration and card, not the tensors."""
    with _opened(path) as file:
        return _description(file, Path(path))


def read_network(path: str | os.PathLike[str], *, verify: bool = True) -> Network:
    """Load a network of either kind.

    Unless ``verify`` is off, the tensors must match the card's sha256.
    """
    path = Path(path)
    with _opened(path) as file:
        config, card = _description(file, path)
        net = empty_network(config)
        _check_layout(file, net.state_dict(), path)
        try:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise WeightsError(f"{path}: damaged weight file ({error})") from error
    _check_finite(tensors, str(path))
    if verify and tensors_sha256(tensors) != card.sha256:
        raise WeightsError(
            f"{path}: the weights do not match the fingerprint in their card; "
            "the file was changed or damaged, get it again"
        )
    net.load_state_dict({name: t.float() for name, t in tensors.items()}, assign=True)
    net.requires_grad_(False).eval()
    net.card = card
    return net


def empty_network(config: Config) -> Network:
    """Make the network of a configuration without memory for its weights."""
    with torch.device("meta"):
        return DMENet(config) if isinstance(config, DMENetConfig) else KPACNet(config)


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors: names, types, shapes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _opened(path: str | os.PathLike[str]) -> Any:
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"{path}: there is no such weight file")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{path}: not a readable safetensors file ({error})") from error


def _description(file: Any, path: Path) -> Description:
    metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise WeightsError(
            f"{path}: a safetensors file, but not a napari-kpac model (its metadata has no "
            f"format = {FORMAT}); the authors' files are imported as .npz"
        )
    version = metadata.get("format_version", "")
    if version != str(FORMAT_VERSION):
        raise WeightsError(
            f"{path}: format version {version[:20]!r}, this release reads {FORMAT_VERSION}; "
            "install a newer napari-kpac"
        )
    kind = metadata.get("network", KPACConfig.KIND)
    if kind not in CONFIGS:
        raise WeightsError(
            f"{path}: holds a network of kind {kind[:20]!r}, this release knows "
            f"{', '.join(CONFIGS)}; install a newer napari-kpac"
        )
    try:
        config = CONFIGS[kind].from_dict(json.loads(metadata.get("config", "null")))
        card = ModelCard.from_dict(json.loads(metadata.get("card", "null")))
    except (ConfigError, WeightsError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: {error}") from error
    return Description(config, card)


def _check_layout(file: Any, expected: dict[str, Tensor], path: Path) -> None:
    names = set(file.keys())
    missing, extra = sorted(set(expected) - names), sorted(names - set(expected))
    if missing or extra:
        raise WeightsError(
            f"{path}: the tensors do not fit the file's own configuration "
            f"({len(missing)} missing, {len(extra)} too many, first: {(missing + extra)[0]})"
        )
    for name, tensor in expected.items():
        item = file.get_slice(name)
        shape = tuple(item.get_shape())
        if shape != tuple(tensor.shape):
            raise WeightsError(f"{path}: {name} has shape {shape}, needs {tuple(tensor.shape)}")
        if item.get_dtype() not in ("F16", "BF16", "F32", "F64"):
            raise WeightsError(f"{path}: {name} holds {item.get_dtype()}, not floating point")


def _check_finite(tensors: dict[str, Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise WeightsError(f"{where}: {name} holds NaN or infinite values")


def _is_text(value: str) -> bool:
    """Return True if a text can be shown: on a terminal, control characters are commands."""
    return all(character.isprintable() or character in "\n\t" for character in value)
