"""Freed memory: kept while a job runs, and given back when there would be too much of it."""

import os
import subprocess
import sys

import psutil
import pytest
import torch

from napari_kpac.engine import memory

SIZE = 200_000_000

pytestmark = pytest.mark.skipif(
    not memory.allocator_environment(), reason="only glibc keeps memory when asked to"
)


def resident():
    return psutil.Process().memory_info().rss


def test_freed_memory_is_kept_until_there_is_too_much_or_the_job_is_done():
    before = resident()
    with memory.keeping_memory():
        torch.ones(SIZE, dtype=torch.uint8)
        assert resident() - before > 0.9 * SIZE
        memory.keep_below(10**15)
        assert resident() - before > 0.9 * SIZE
        memory.keep_below(0)
        assert resident() - before < 0.1 * SIZE
        torch.ones(SIZE, dtype=torch.uint8)
        assert resident() - before > 0.9 * SIZE
    assert resident() - before < 0.1 * SIZE


def test_outside_of_a_job_nothing_is_kept():
    before = resident()
    torch.ones(SIZE, dtype=torch.uint8)
    assert resident() - before < 0.1 * SIZE


IN_A_THREAD = """
import threading
import torch
from tests.engine.test_memory import SIZE, memory, resident
before, found = resident(), []
def work():
    torch.ones(SIZE, dtype=torch.uint8)
    found.append(resident() - before)
    memory.keep_below(0)
    found.append(resident() - before)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert found[0] > 0.9 * SIZE, found
assert found[1] < 0.1 * SIZE, found
"""


def test_a_process_can_keep_memory_in_all_its_threads_and_give_it_back():
    surroundings = {**os.environ, **memory.allocator_environment()}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_THREAD], env=surroundings, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
