"""Devices: which there are, which to use, how much memory they have left.

The one place that knows of cuda, mps, xpu and cpu. Not for: moving data about.
"""

from __future__ import annotations

import errno
import mmap
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """Bytes that can still be allocated on a device."""
    if device.type in ("cuda", "xpu"):
        free, _ = getattr(torch, device.type).mem_get_info(device)
        return int(free)
    # Apple's GPUs share the memory of the CPU.
    return int(psutil.virtual_memory().available)


SHORTAGES = (MemoryError, RuntimeError, OSError)
"""Among these are the exceptions that mean that memory ran out."""
_SIGNS = (
    "out of memory", "can't allocate memory", "not enough memory", "can't start new thread",
    "bad_alloc",
)  # fmt: skip
_SIGNS_OF_ONEDNN = ("could not create a primitive", "could not create a memory")


def is_memory_error(error: BaseException) -> bool:
    """Tell whether an exception means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or has_given_up(error):
        return True
    return isinstance(error, RuntimeError) and _says(error, _SIGNS)


def has_given_up(error: BaseException) -> bool:
    """Tell whether convolutions do not work any more in the thread that raised this.

    When oneDNN gets no memory for the code of a convolution, it makes no other in the same
    thread, however much memory there is afterwards. In other threads it does.
    """
    return isinstance(error, RuntimeError) and _says(error, _SIGNS_OF_ONEDNN)


def _says(error: BaseException, signs: Sequence[str]) -> bool:
    text = str(error).lower()
    return any(sign in text for sign in signs)


_OWN = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""Makes a mapping count as memory of the process, where that is not so anyway."""


def make_sure(device: torch.device, size: int) -> None:
    """Raise where that many bytes cannot be had at the moment.

    Torch says so when it gets no memory. Libraries below it crash the process instead when
    they get none in the middle of a convolution, so it is asked for before. Not from the
    allocator, which would arrange its own memory around it.
    """
    if device.type == "cpu":
        mmap.mmap(-1, size, **_OWN).close()


def release(device: torch.device) -> None:
    """Give cached memory back to the system, as far as the device can."""
    if device.type in ("cuda", "mps", "xpu"):
        getattr(torch, device.type).empty_cache()


@contextmanager
def precision(device: torch.device, mixed: bool) -> Iterator[None]:
    """Compute in half precision where it is asked for and the device is a GPU."""
    if mixed and device.type != "cpu":
        with torch.autocast(device.type, dtype=torch.float16):
            yield
    else:
        yield
