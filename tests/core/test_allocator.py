"""Freed memory: kept while a network learns, and given back afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from napari_kpac.core import allocator

SIZE = 200_000_000

pytestmark = pytest.mark.skipif(
    not allocator.allocator_environment(), reason="only glibc keeps memory when asked to"
)


def resident():
    return psutil.Process().memory_info().rss


def run_alone(code, **variables):
    """Run code in a process of its own: threads of other tests may take and free memory here."""
    done = subprocess.run(
        [sys.executable, "-c", START + code], env={**os.environ, **variables}, capture_output=True,
        text=True, check=False, timeout=300, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


START = """
import threading
import torch
from napari_kpac.core import allocator
from tests.core.test_allocator import SIZE, resident
before = resident()
"""
KEPT = """
with allocator.keeping_memory():
    with allocator.keeping_memory():
        torch.ones(SIZE, dtype=torch.uint8)
    assert allocator.is_keeping_memory()
    assert resident() - before > 0.9 * SIZE, resident() - before
assert not allocator.is_keeping_memory()
assert resident() - before < 0.1 * SIZE, resident() - before
"""
NOT_KEPT = """
torch.ones(SIZE, dtype=torch.uint8)
assert resident() - before < 0.1 * SIZE, resident() - before
"""
IN_A_THREAD = """
found = []
def work():
    torch.ones(SIZE, dtype=torch.uint8)
    found.append(resident() - before)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found[0] > 0.9 * SIZE, found
"""


def test_freed_memory_is_kept_until_the_work_is_done():
    run_alone(KEPT)


def test_outside_nothing_is_kept():
    run_alone(NOT_KEPT)


def test_a_process_can_keep_memory_in_all_its_threads():
    run_alone(IN_A_THREAD, **allocator.allocator_environment())


def test_who_tunes_the_allocator_from_outside_knows_better(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert allocator.allocator_environment() == {}
    with allocator.keeping_memory():
        assert not allocator.is_keeping_memory()
