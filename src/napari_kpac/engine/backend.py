"""The road to a device and back: transfers, memory, speed and precision, all in one place.

What is copied when, on a graphics card whose memory holds the image and the bottleneck:

- up: the image in network values, once per session or plane; gains, when they change;
- down: the residual of what was asked for, alpha and beta, each once per render. Only there does
  this process wait for the device.

With less memory the plan has smaller tiles and then a file for the bottleneck (``Plan.scratch``):
then tiles go up and down one by one. Everything stays channels-last on the device. Not for: which
devices there are (device.py), or plans (tiling.py).
"""

from __future__ import annotations

import mmap
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from napari_kpac.engine.device import free_memory
from napari_kpac.engine.memory import give_back
from napari_kpac.engine.precision import try_bfloat16

CPU_FLOPS = {"AVX512": 80e9, "AVX2": 50e9}
"""Per second and thread, by what torch says of the processor: about half of what this network was
measured to reach on such processors alone, for tiles are planned by it and they may be busy."""
OTHER_CPU_FLOPS = 20e9
GPU_FLOPS = 2e12

_OWN = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""Makes a mapping count as memory of the process, where that is not so anyway."""


class Backend:
    """A device, and how tensors get there and back.

    Parameters
    ----------
    device
        Where the network computes.
    mixed
        Whether half precision is wanted.

    Attributes
    ----------
    is_accelerator
        Whether tensors have to be copied to the device; large operations are better there, while
        a CPU is faster with bands that fit into its cache.
    half
        Type of mixed precision; None where it is not wanted or does not help.
    """

    def __init__(self, device: torch.device, *, mixed: bool = False) -> None:
        self.device = device
        self.is_accelerator = device.type != "cpu"
        self.half = self._half_type() if mixed else None

    def upload(self, x: Tensor) -> Tensor:
        """Copy a tensor to the device, without waiting for it."""
        if self.device.type == "cuda" and x.device.type == "cpu":
            x = x.pin_memory()
        return x.to(self.device, non_blocking=True)

    def download(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Copy a tensor to the memory of the CPU and wait for it: what is returned is complete.

        A copy is made on a CPU as well, for buffers are used again.
        """
        return x.to("cpu", dtype, copy=True)

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in half precision for the length of a block, where that is wanted."""
        if self.half is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.half)

    def free_memory(self) -> int:
        """Return the number of bytes that can still be allocated on the device."""
        return free_memory(self.device)

    def check_available(self, size: int) -> None:
        """Raise if that many bytes cannot be had at the moment.

        Torch says so when it gets no memory. Libraries below it crash the process instead when
        they get none on a CPU in the middle of a convolution, so it is asked for before. Not from
        the allocator, which would arrange its own memory around it.
        """
        if not self.is_accelerator:
            mmap.mmap(-1, size, **_OWN).close()

    def release(self) -> None:
        """Return freed memory to the system, of the device as well as of this process."""
        if self.device.type in ("cuda", "mps", "xpu"):
            getattr(torch, self.device.type).empty_cache()
        give_back()

    def flops_per_second(self) -> float:
        """Return the estimated rate of the device: the same in every run, so that plans are."""
        if self.is_accelerator:
            return GPU_FLOPS
        capability = torch.backends.cpu.get_cpu_capability()
        return torch.get_num_threads() * CPU_FLOPS.get(capability, OTHER_CPU_FLOPS)

    def _half_type(self) -> torch.dtype | None:
        if self.is_accelerator:
            return torch.float16
        return torch.bfloat16 if try_bfloat16("deblur").is_useful else None
