"""Freed memory: kept while a network learns, and given back afterwards."""

import os
import subprocess
import sys

import psutil
import pytest
import torch

from napari_kpac.core import allocator

SIZE = 200_000_000

pytestmark = pytest.mark.skipif(
    not allocator.allocator_environment(), reason="only glibc keeps memory when asked to"
)


def resident():
    return psutil.Process().memory_info().rss


def test_freed_memory_is_kept_until_the_work_is_done():
    before = resident()
    with allocator.keeping_memory():
        with allocator.keeping_memory():
            torch.ones(SIZE, dtype=torch.uint8)
        assert allocator.is_keeping_memory()
        assert resident() - before > 0.9 * SIZE
    assert not allocator.is_keeping_memory()
    assert resident() - before < 0.1 * SIZE


def test_outside_nothing_is_kept():
    before = resident()
    torch.ones(SIZE, dtype=torch.uint8)
    assert resident() - before < 0.1 * SIZE


def test_who_tunes_the_allocator_from_outside_knows_better(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert allocator.allocator_environment() == {}
    with allocator.keeping_memory():
        assert not allocator.is_keeping_memory()


IN_A_THREAD = """
import threading
import torch
from tests.core.test_allocator import SIZE, resident
before, found = resident(), []
def work():
    torch.ones(SIZE, dtype=torch.uint8)
    found.append(resident() - before)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found[0] > 0.9 * SIZE, found
"""


def test_a_process_can_keep_memory_in_all_its_threads():
    surroundings = {**os.environ, **allocator.allocator_environment()}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_THREAD], env=surroundings, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
