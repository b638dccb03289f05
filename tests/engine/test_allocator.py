"""Freed memory: kept while a job runs, and given back when there would be too much of it."""

import psutil
import pytest
import torch

from napari_kpac.engine import allocator

SIZE = 200_000_000

pytestmark = pytest.mark.skipif(
    not allocator.environment(), reason="only glibc keeps memory when asked to"
)


def resident():
    return psutil.Process().memory_info().rss


def test_freed_memory_is_kept_until_there_is_too_much_or_the_job_is_done():
    before = resident()
    with allocator.keeping_memory():
        torch.ones(SIZE, dtype=torch.uint8)
        assert resident() - before > 0.9 * SIZE
        allocator.keep_below(10**15)
        assert resident() - before > 0.9 * SIZE
        allocator.keep_below(0)
        assert resident() - before < 0.1 * SIZE
        torch.ones(SIZE, dtype=torch.uint8)
        assert resident() - before > 0.9 * SIZE
    assert resident() - before < 0.1 * SIZE


def test_outside_of_a_job_nothing_is_kept():
    before = resident()
    torch.ones(SIZE, dtype=torch.uint8)
    assert resident() - before < 0.1 * SIZE
