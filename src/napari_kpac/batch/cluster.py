"""Runs a batch on dask.distributed (extra ``distributed``): one task per unit.

Workers read the files themselves, so every machine must see them under the same names; what
they make comes back, and this process writes it. A worker that dies loses nothing: its tasks
go to another. Not for: starting clusters of several machines (dask has tools for that).
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from napari_kpac.batch.actions import Action, Frame
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Outcome, Report, Tally
from napari_kpac.batch.running import using_threads
from napari_kpac.batch.writing import Failure, Settled, Writer, Written, explain, settled
from napari_kpac.core.errors import ClusterError, KpacError
from napari_kpac.core.packages import require
from napari_kpac.core.progress import Steps, finish
from napari_kpac.engine.memory import allocator_environment

TASKS_PER_THREAD = 2
"""Tasks that are given out at a time: one at work, one waiting."""
PATIENCE = "20s"
"""How long to wait for a scheduler."""


def cluster_steps(items: Sequence[Item], action: Action, options: BatchOptions) -> Steps[Report]:
    """Do an action to all items on a cluster; the same as in one process otherwise."""
    distributed = require("distributed", "distributed", "work on a cluster")
    with _client(distributed, options) as client:
        threads = options.threads
        if threads is None and options.workers:
            threads = max(1, (os.cpu_count() or 1) // options.workers)
        shared = action.sharing(options.workers) if options.workers else action
        remote = Remote(uuid.uuid4().hex, shared, threads)
        return (yield from _run(items, action, remote, client, options.retries))


def _run(
    items: Sequence[Item],
    action: Action,
    remote: Remote,
    client: Any,
    retries: int,
) -> Steps[Report]:
    distributed = require("distributed", "distributed", "work on a cluster")
    tally = Tally(len(items))
    writer = Writer(action)
    running = distributed.as_completed(loop=client.loop, with_results=True, raise_errors=False)
    about: dict[str, tuple[int, Item, int]] = {}
    source = _units(items, action)
    exhausted = False
    try:
        while about or not exhausted:
            while not exhausted and len(about) < _window(client):
                unit = next(source, None)
                if unit is None:
                    exhausted = True
                elif isinstance(unit, Settled | Failure):
                    for number, outcome in writer.accept(unit):
                        yield tally.end(number, outcome)
                elif not writer.has_failed(unit[0]):
                    number, item, index, units, known = unit
                    future = client.submit(
                        remote.run, item, index, known, retries=retries, pure=False
                    )
                    about[future.key] = (number, item, units)
                    running.add(future)
            if not about:
                continue
            future, result = next(running)
            number, item, units = about.pop(future.key)
            made = _received(number, item, units, future.status, result)
            future.release()
            del future, result
            counted = writer.count(number) + 1
            for ended in writer.accept(made):
                yield tally.end(*ended)
            if not writer.has_failed(number) and counted < units:
                yield tally.advance(number, counted / units, item.first.name)
    finally:
        running.clear()
        writer.close()
    return tally.report


def _units(items: Sequence[Item], action: Action) -> Iterator[Any]:
    """List what is to be done: (number, item, unit, units, what is known), one after another."""
    for number, item in enumerate(items):
        outcome: Outcome | None = settled(item, action)
        if outcome is not None:
            yield Settled(number, outcome)
            continue
        if action.has_one_unit(item):
            # Not even opened here: the worker will see what is in it.
            yield number, item, 0, 1, None
            continue
        try:
            opened = action.open(item)
            units, known = opened.units, opened.known
            opened.close()
        except Exception as error:
            yield Failure(number, item, explain(item, error))
            continue
        for unit in range(units):
            yield number, item, unit, units, known


def _received(number: int, item: Item, units: int, status: str, result: Any) -> Written | Failure:
    if status != "finished":
        error = result[1] if isinstance(result, tuple) and len(result) > 1 else result
        return Failure(number, item, explain(item, error))
    if isinstance(result, str):
        return Failure(number, item, result)
    frame, made = result
    return Written(number, item, frame, units, made)


def _window(client: Any) -> int:
    threads = int(sum(client.nthreads().values()))
    return TASKS_PER_THREAD * max(1, threads)


_lock = threading.Lock()
_last: dict[str, Any] = {}
"""What this worker opened last: the planes of a stack come one after the other."""


@dataclass(frozen=True, eq=False)
class Remote:
    """An action on its way to a worker."""

    batch: str
    """Tells batches apart."""
    action: Action
    threads: int | None

    def run(self, item: Item, unit: int, known: Any) -> tuple[Frame, Any] | str:
        """Work a unit off in a worker; what is wrong with the file comes back as a text."""
        try:
            with _lock:
                opened = self._open(item, known)
                loaded = self.action.load(opened, unit)
            with using_threads(self.threads):
                return opened.frame, finish(self.action.steps(opened, unit, loaded))
        except KpacError as error:
            # To try again would not help.
            return explain(item, error)

    def _open(self, item: Item, known: Any) -> Any:
        key = (self.batch, item)
        if _last.get("key") != key:
            # Not closed here: another thread may still be at work on the one before.
            _last.clear()
            _last.update(key=key, opened=self.action.open(item, known))
        return _last["opened"]


@contextmanager
def _surroundings() -> Iterator[None]:
    """Start workers that keep freed memory, and leave the environment of this process alone."""
    import dask

    key = "distributed.nanny.pre-spawn-environ"
    wanted = {**dask.config.get(key), **allocator_environment()}
    before = {name: os.environ.get(name) for name in (*wanted, "PYTHONHASHSEED")}
    try:
        with dask.config.set({key: wanted}):
            yield
    finally:
        # To hand its variables to the workers, dask sets them here as well.
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _client(distributed: Any, options: BatchOptions) -> Iterator[Any]:
    """Connect to a scheduler, or start processes here for the length of the work."""
    if options.scheduler:
        try:
            client = distributed.Client(options.scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"{options.scheduler}: no scheduler answers ({error})") from error
        try:
            if not client.nthreads():
                client.wait_for_workers(1, timeout=PATIENCE)
            yield client
        except TimeoutError as error:
            raise ClusterError(f"{options.scheduler}: this cluster has no workers") from error
        finally:
            client.close()
        return
    with (
        _surroundings(),
        distributed.LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
