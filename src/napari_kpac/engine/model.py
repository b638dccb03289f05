"""Networks made ready to run: on a device, in the fast memory layout, loaded once.

Not for: weight files themselves (weights).
"""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from pathlib import Path

import torch

from napari_kpac.core.errors import ConfigError
from napari_kpac.network import KPACNet
from napari_kpac.weights import ModelCard, find, is_file_name, load, tensors_sha256

Model = str | os.PathLike[str] | KPACNet

_KEPT = 3
_cache: OrderedDict[tuple[str, int, str], KPACNet] = OrderedDict()
_lock = threading.Lock()


def prepare(model: Model, device: torch.device) -> KPACNet:
    """Return a network on a device; those that come from files are kept for the next time."""
    if isinstance(model, KPACNet):
        net = model
        if next(net.parameters()).device != device or net.training:
            net = copy.deepcopy(net).to(device).eval()
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"model={model!r}: give a name, a path, or a network from kpac.load")
    path = Path(model)
    if not is_file_name(str(model)):
        path = find(str(model)).path
    key = (str(path.absolute()), path.stat().st_mtime_ns if path.exists() else 0, str(device))
    with _lock:
        if key not in _cache:
            net = load(path).to(device)
            _cache[key] = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            while len(_cache) > _KEPT:
                _cache.popitem(last=False)
        _cache.move_to_end(key)
        return _cache[key]


def card_of(net: KPACNet) -> ModelCard:
    """Return the card of a network; one that never was in a file gets a minimal one."""
    if isinstance(net.card, ModelCard):
        return net.card
    return ModelCard(name="unsaved", sha256=tensors_sha256(net.state_dict()))
