"""Devices: which there are, which to use, how much memory they have left.

Not for: what is done when memory runs short (memory.py).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

import psutil
import torch

from napari_kpac.core.errors import DeviceError

AUTO = "auto"


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
