"""Devices: which there are, their free memory, and networks made ready to run on them.

Not for: weight files themselves (weights), or what goes to a device and back (backend.py).
"""

from __future__ import annotations

import copy
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil
import torch

from napari_kpac.core.errors import ConfigError, DeviceError
from napari_kpac.network import KPACNet
from napari_kpac.weights import ModelCard, find, is_file_name, load, tensors_sha256

Model = str | os.PathLike[str] | KPACNet

AUTO = "auto"
MAX_CACHED_NETWORKS = 3

_loading = threading.Lock()
"""No network is loaded twice at the same time."""


@dataclass(frozen=True)
class Device:
    """A device that exists here."""

    name: str
    """What ``device=`` takes, for example ``cuda:0``."""
    label: str
    """What a person reads, for example the model of the card."""


def devices() -> list[Device]:
    """List the devices that exist here, the fastest kind first; the CPU always comes last."""
    found = [
        Device(f"cuda:{index}", torch.cuda.get_device_name(index))
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    ]
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple GPU"))
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        found += [
            Device(f"xpu:{index}", torch.xpu.get_device_name(index))
            for index in range(torch.xpu.device_count())
        ]
    return [*found, Device("cpu", platform.processor() or platform.machine())]


def resolve(name: str | torch.device = AUTO) -> torch.device:
    """Return the device of that name; ``auto`` takes the first of :func:`devices`."""
    known = [device.name for device in devices()]
    wanted = str(name)
    if wanted == AUTO:
        wanted = known[0]
    if wanted in ("cuda", "xpu"):
        wanted += ":0"
    if wanted not in known:
        raise DeviceError(
            f"there is no device {str(name)!r} here; there are {', '.join(known)} (and 'auto')"
        )
    return torch.device(wanted)


def free_memory(device: torch.device) -> int:
    """Return the number of bytes that can still be allocated on a device."""
    if device.type in ("cuda", "xpu"):
        free, _ = getattr(torch, device.type).mem_get_info(device)
        return int(free)
    # Apple's GPUs share the memory of the CPU.
    return int(psutil.virtual_memory().available)


def prepare_network(model: Model, device: torch.device) -> KPACNet:
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
    changed = path.stat().st_mtime_ns if path.exists() else 0
    with _loading:
        return _load(path.absolute(), changed, device)


@lru_cache(maxsize=MAX_CACHED_NETWORKS)
def _load(path: Path, changed: int, device: torch.device) -> KPACNet:  # noqa: ARG001 - a key
    net = load(path).to(device)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def card_of(net: KPACNet) -> ModelCard:
    """Return the card of a network; one that never was in a file gets a minimal one."""
    if isinstance(net.card, ModelCard):
        return net.card
    return ModelCard(name="unsaved", sha256=tensors_sha256(net.state_dict()))


def model_name(model: Model) -> str:
    """Return what stands for a model in options: its name or path."""
    return card_of(model).name if isinstance(model, KPACNet) else str(model)


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Use that many threads of the processor for the network; None: as it is."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(before)
