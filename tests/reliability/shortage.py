"""Allocators that fail on demand: hooks into torch's operations and into NumPy's memory.

Not a test.
"""

import ctypes
from contextlib import contextmanager

import numpy as np
import torch
from numpy._core import _multiarray_umath
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SAID = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1 bytes. Error code 12 (Cannot allocate memory)"
)


class Shortage:
    """Counts allocations; from number ``first`` on, ``failures`` of them fail."""

    def __init__(self, first, failures):
        self.first, self.failures = first, failures
        self.count = 0

    def fails(self):
        self.count += 1
        return self.first <= self.count < self.first + self.failures


LARGE = 4096
"""Bytes: smaller allocations are left alone, as a system that is short of memory does."""


class _Operations(TorchDispatchMode):
    """Makes operations of torch that allocate fail as its allocator does."""

    def __init__(self, shortage):
        super().__init__()
        self.shortage = shortage

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        if _storages(made) - _storages((args, kwargs)) and self.shortage.fails():
            raise RuntimeError(SAID)
        return made


def _storages(values):
    """Return where the large tensors among some values lie."""
    found = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    return {
        value.untyped_storage().data_ptr()
        for value in found
        if value.untyped_storage().nbytes() >= LARGE
    }


@contextmanager
def of_torch(first=0, failures=0):
    shortage = Shortage(first, failures)
    with _Operations(shortage):
        yield shortage


_MALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_REALLOC = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler (NEP 49)."""

    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
        ("malloc", _MALLOC), ("calloc", _CALLOC), ("realloc", _REALLOC), ("free", ctypes.c_void_p),
    )  # fmt: skip


_NAME = b"mem_handler"
"""Held: a capsule does not copy its name."""
_now = Shortage(0, 0)
_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _fails(size):
    return size >= LARGE and _now.fails()


def _function(number, kind):
    """Return a function of NumPy's table of C functions, which only ever grows."""
    table = _api.PyCapsule_GetPointer(_multiarray_umath._ARRAY_API, None)
    return kind(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[number])


_set = _function(304, ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object))
_get = _function(305, ctypes.PYFUNCTYPE(ctypes.py_object))
_usual = _Handler.from_address(_api.PyCapsule_GetPointer(_get(), b"mem_handler"))


def _malloc(context, size):
    return None if _fails(size) else _usual.malloc(context, size)


def _calloc(context, count, size):
    return None if _fails(count * size) else _usual.calloc(context, count, size)


def _realloc(context, place, size):
    return None if _fails(size) else _usual.realloc(context, place, size)


# Freeing stays NumPy's own: it happens while exceptions are on their way, which Python code
# would stumble over.
_handler = _Handler(
    b"failing", _usual.version, _usual.context,
    _MALLOC(_malloc), _CALLOC(_calloc), _REALLOC(_realloc), _usual.free,
)  # fmt: skip
"""Lives as long as the process: every array knows the handler that it came from."""
_capsule = _api.PyCapsule_New(ctypes.addressof(_handler), _NAME, None)


@contextmanager
def of_numpy(first=0, failures=0):
    global _now
    shortage = Shortage(first, failures)
    before = _set(_capsule)
    _now = shortage
    try:
        yield shortage
    finally:
        _now = Shortage(0, 0)
        _set(before)


def test_hook():
    """Check that the hook hooks: an allocation fails as NumPy's do."""
    with of_numpy(first=1, failures=1) as shortage:
        try:
            np.empty(LARGE, np.uint8)
        except MemoryError:
            return shortage.count == 1
    return False
