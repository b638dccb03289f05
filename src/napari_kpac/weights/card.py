"""The card of a model: what it is, where it comes from, what it can do.

Not for: the network's shape (network.KPACConfig), which stands beside the card in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from napari_kpac.core.errors import WeightsError
from napari_kpac.core.options import check_name, is_number


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
    sha256: str = ""
    """Of the tensors (see :func:`tensors_sha256`)."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "figures":
                fits = isinstance(value, Mapping) and all(
                    isinstance(key, str) and _is_text(key) and is_number(number)
                    for key, number in value.items()
                )
            else:
                fits = isinstance(value, str) and _is_text(value)
            if not fits:
                raise WeightsError(f"model card: field {item.name!r} has a bad value {value!r:.80}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "figures": dict(self.figures)}

    @classmethod
    def from_dict(cls, values: Any) -> ModelCard:
        """Inverse of :meth:`to_dict`; fields of later versions are passed over."""
        if not isinstance(values, Mapping) or "name" not in values:
            raise WeightsError("the model card is missing or has no name")
        known = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


def _is_text(value: str) -> bool:
    """Tell whether a text can be shown: on a terminal, control characters are commands."""
    return all(character.isprintable() or character in "\n\t" for character in value)


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Fingerprint of named tensors: names, types, shapes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
