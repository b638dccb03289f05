"""The connection to a cluster: made, watched, and closed; for cluster.py, which gives out tasks.

Not for: starting clusters of several machines (dask has tools for that).
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
import distributed

from napari_kpac.batch.options import BatchOptions
from napari_kpac.core.errors import ClusterError

TASKS_PER_THREAD = 2
"""Tasks that are given out at a time: one at work, one waiting."""
ASK_SECONDS = 2.0
"""Between questions to the scheduler how many threads there are."""
ANSWER_SECONDS = 60.0
"""So long the scheduler may take for an answer."""
START_SECONDS = 60.0
"""So long a worker of this machine may take to start, or to start again after it died."""
GO_ON = "what is done is kept: give the same command again to go on"


class TaskLimit:
    """How many tasks may be out at a time; asks the cluster now and then: workers come and go.

    Raises :class:`ClusterError` when none was there for too long. dask would wait for ever.
    """

    def __init__(self, client: Any, patience: float) -> None:
        self._client, self._patience = client, patience
        self._asked = -math.inf
        self._alive = time.monotonic()
        self._tasks = 0

    def now(self) -> int:
        """Return the limit."""
        if time.monotonic() - self._asked >= ASK_SECONDS:
            threads, problem = self._ask()
            self._asked = time.monotonic()
            if threads:
                self._alive = self._asked
            elif self._asked - self._alive >= self._patience:
                raise ClusterError(f"{problem} for {self._patience:.0f} s; {GO_ON}")
            self._tasks = TASKS_PER_THREAD * max(1, threads)
        return self._tasks

    def _ask(self) -> tuple[int, str]:
        """Return the number of threads, and what is wrong if there are none."""
        try:
            found = self._client.nthreads(callback_timeout=ANSWER_SECONDS)
        except Exception as error:  # of many kinds, by what dask was at when the connection broke
            return 0, f"the scheduler has not answered ({str(error) or type(error).__name__})"
        return int(sum(found.values())), "the cluster has had no workers"


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Start workers, and leave the environment of this process alone."""
    key = "distributed.nanny.pre-spawn-environ"
    wanted = dict(dask.config.get(key))
    changed = (*wanted, "PYTHONHASHSEED", "__DASK_PARENT_PID")
    before = {name: os.environ.get(name) for name in changed}
    try:
        with dask.config.set({key: wanted}):
            yield
    finally:
        # To hand its variables to the workers, dask sets them here as well.
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def patience_of(options: BatchOptions) -> float:
    """Return for how many seconds a cluster may be without workers."""
    return max(options.wait, START_SECONDS) if options.workers else float(options.wait)


@contextmanager
def open_client(options: BatchOptions) -> Iterator[Any]:
    """Connect to a scheduler, or start processes here for the length of the work."""
    with _remote_client(options) if options.scheduler else _local_client(options) as client:
        yield client


@contextmanager
def _remote_client(options: BatchOptions) -> Iterator[Any]:
    address, timeout = options.scheduler, float(options.wait)
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"{address}: no scheduler answers ({error})") from error
    with client:
        try:
            if not client.nthreads(callback_timeout=ANSWER_SECONDS):
                client.wait_for_workers(1, timeout=timeout)
        except TimeoutError as error:
            raise ClusterError(
                f"{address}: this cluster has no workers, after {options.wait} s; do their logs "
                "say why? If they take long to start, set wait to more seconds"
            ) from error
        yield client


@contextmanager
def _local_client(options: BatchOptions) -> Iterator[Any]:
    with ExitStack() as stack:
        stack.enter_context(_worker_environment())
        try:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=options.workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=None,
                    silence_logs=logging.ERROR,
                    death_timeout=patience_of(options),
                )
            )
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ClusterError(f"the workers cannot be started ({error})") from error
        yield client
