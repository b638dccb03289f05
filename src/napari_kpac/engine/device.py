"""Devices: which there are, their free memory, and networks made ready to run on them.

Not for: weight files themselves (weights), or what goes to a device and back (backend.py).
"""

from __future__ import annotations

import copy
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

import psutil
import torch

from napari_kpac.core.errors import ConfigError, DeviceError
from napari_kpac.network import DMENet, KPACNet
from napari_kpac.weights import (
    ModelCard,
    find,
    find_dmenet,
    is_file_name,
    load,
    load_dmenet,
    tensors_sha256,
)
from napari_kpac.weights.catalogue import ALIASES

Model = str | os.PathLike[str] | KPACNet | DMENet
Net = TypeVar("Net", KPACNet, DMENet)

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
    """Return a KPAC network on a device; those from files are kept for the next time."""
    if isinstance(model, DMENet):
        raise ConfigError(
            "model: this network is a DMENet, which estimates defocus; a KPAC model is needed here"
        )
    if isinstance(model, KPACNet):
        return _placed(model, device)
    return _from_file(load, _path_of(model), device)


def prepare_dmenet(model: Model, device: torch.device) -> DMENet:
    """Return a DMENet on a device; ``default`` is the one that is installed."""
    if isinstance(model, KPACNet):
        raise ConfigError("model: this network deblurs; 'dmenet' needs a DMENet model")
    if isinstance(model, DMENet):
        return _placed(model, device)
    path = find_dmenet().path if str(model) in ALIASES else _path_of(model)
    return _from_file(load_dmenet, path, device)


def _placed(net: Net, device: torch.device) -> Net:
    """Return a network of the caller's on a device; their own is left as it is."""
    if next(net.parameters()).device != device or net.training:
        net = copy.deepcopy(net).to(device).eval()
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _path_of(model: str | os.PathLike[str]) -> Path:
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"model={model!r}: give a name, a path, or a network from kpac.load")
    return Path(model) if is_file_name(str(model)) else find(str(model)).path


def _from_file(read: Callable[[Path], Net], path: Path, device: torch.device) -> Net:
    changed = path.stat().st_mtime_ns if path.exists() else 0
    with _loading:
        return cast("Net", _load(read, path.absolute(), changed, device))


@lru_cache(maxsize=MAX_CACHED_NETWORKS)
def _load(
    read: Callable[[Path], Net],
    path: Path,
    changed: int,  # noqa: ARG001 - a key
    device: torch.device,
) -> Net:
    net = read(path).to(device)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def card_of(net: KPACNet | DMENet) -> ModelCard:
    """Return the card of a network; one that never was in a file gets a minimal one."""
    if isinstance(net.card, ModelCard):
        return net.card
    return ModelCard(name="unsaved", sha256=tensors_sha256(net.state_dict()))


def model_name(model: Model) -> str:
    """Return what stands for a model in options: its name or path."""
    return card_of(model).name if isinstance(model, KPACNet | DMENet) else str(model)


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
