"""Reads damaged files in child processes, and counts what became of them.

A child has a memory ceiling and an audit hook that notes what it must not do: write, connect,
start a process, or open a file outside the folder of the case. A child that dies or hangs is
seen by its parent, with the seed. Not for: the files (readers) or the damage (mutation).

usage (by the parent alone): python -m tests.reliability.fuzzing READER SEED FIRST LAST
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 120
"""A case that takes longer has hung."""
CEILING = 1 << 30
"""Bytes that reading a damaged file may take, on top of what the process has already."""
GOOD = ("read", "refused")
"""How reading a damaged file may end; everything else is a defect."""
EVERY = "every reader"
"""Stands for all readers in turn, in one child."""
START = 900
"""Seconds that a child has to get ready."""


@dataclass
class Figures:
    """Counts of the cases by how they ended."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By reader and outcome."""
    defects: list[str] = field(default_factory=list)
    """One line each, with the seed and the number of the case."""

    def add(self, reader: str, seed: int, case: int, outcome: str, detail: str) -> None:
        """Count a case."""
        self.counts[reader, outcome] += 1
        if outcome not in GOOD:
            self.defects.append(f"{reader}, seed {seed}, case {case}: {outcome}: {detail}")

    def of(self, reader: str | None = None, outcome: str | None = None) -> int:
        """Return how many cases there were of a reader, with an outcome; None: of any."""
        return sum(
            count
            for (name, end), count in self.counts.items()
            if reader in (None, name) and outcome in (None, end)
        )


def fuzz(reader: str, seed: int, cases: int, first: int = 0) -> Figures:
    """Read ``cases`` damaged files in a child; one that ends early is replaced by another.

    ``first`` is the number of the first case, to see a single one again.
    """
    figures = Figures()
    end = first + cases
    while first < end:
        last = first
        for case, name, outcome, detail in _child(reader, seed, first, end):
            figures.add(name, seed, case, outcome, detail)
            last = case
        first = last + 1
    return figures


def _child(reader: str, seed: int, first: int, cases: int) -> Iterator[tuple[int, str, str, str]]:
    """Run one child; yields the cases that it got done, the last of which may be its end."""
    call = [sys.executable, "-X", "faulthandler", "-m", "tests.reliability.fuzzing"]
    call += [reader, str(seed), str(first), str(cases)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    environment = {**os.environ, **threads, "PYTHONPATH": path}
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            call, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors
        )
        current, kind, name = first, "", reader
        try:
            for line in _lines(child):
                kind, current, name, outcome, detail = json.loads(line)
                if kind == "end":
                    yield current, name, outcome, detail
                    current += 1
            problem = "hang"
        except EOFError:
            problem = "crash"
            child.wait()
        finally:
            child.kill()
            code = child.wait()
        if current >= cases and problem == "crash":
            return
        errors.seek(0)
        last = errors.read()[-1500:].decode(errors="replace")
        if not kind:
            raise RuntimeError(f"the files that nobody damaged cannot be read: {last}")
        yield (
            current,
            name,
            problem,
            f"{'no answer' if problem == 'hang' else f'exit {code}'} {last}",
        )


def _lines(child: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield lines as they come; stops after a silence, raises EOFError at the end."""
    pipe = child.stdout
    if pipe is None:
        raise EOFError
    rest, patience = b"", START
    while select.select([pipe], [], [], patience)[0]:
        got = os.read(pipe.fileno(), 1 << 16)
        if not got:
            raise EOFError
        *lines, rest = (rest + got).split(b"\n")
        patience = SECONDS
        yield from lines


class Watch:
    """Notes what a process does that reading a file is no reason for."""

    WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    CHANGING = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink",
                "os.truncate", "os.chmod", "os.chown", "shutil.copyfile", "shutil.move",
                "shutil.rmtree")  # fmt: skip
    STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork",
                "os.spawn", "os.startfile", "pty.spawn", "webbrowser.open")  # fmt: skip

    CONNECTING = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
                  "socket.sendto", "socket.sendmsg", "urllib.Request", "http.client.connect",
                  "ftplib.connect", "smtplib.connect")  # fmt: skip

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.inside: tuple[str, ...] = ()
        """Folders that may be read; empty: nobody looks."""
        self.scratch = ""
        """The folder that may be written to."""
        self.own = tuple(
            os.path.realpath(path)
            for path in {sys.prefix, sys.base_prefix, str(ROOT), "/usr", "/proc", "/sys", "/lib"}
        )
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.inside:
            return
        if event == "open":
            self._opened(*arguments)
        elif event in self.CONNECTING:
            self.seen.append(("network", event))
        elif event in self.STARTING:
            self.seen.append(("process", f"{event} {arguments!r}"[:200]))
        elif event in self.CHANGING and not self._is_in(arguments[0], (self.scratch,)):
            self.seen.append(("wrote", f"{event} {arguments!r}"[:200]))

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        writes = bool(flags & self.WRITING) if isinstance(flags, int) else False
        writes = writes or (isinstance(mode, str) and bool(set(mode) & set("wax+")))
        if writes and os.fspath(path) not in ("/dev/null", b"/dev/null"):
            if not self._is_in(path, (self.scratch,)):
                self.seen.append(("wrote", str(path)))
        elif not self._is_in(path, (*self.inside, *self.own, "/dev")):
            self.seen.append(("outside", str(path)))

    @staticmethod
    def _is_in(path: Any, folders: tuple[str, ...]) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        return any(real == folder or real.startswith(folder + os.sep) for folder in folders)


def ceiling(extra: int = CEILING) -> None:
    """Limit the memory of this process to what it has, and so much."""
    import resource

    status = Path("/proc/self/status").read_text(encoding="ascii")
    now = int(status.split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (now + extra, now + extra))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judge(read: Callable[[], object]) -> tuple[str, str]:
    """Return how reading ended: ``read``, ``refused``, ``memory`` or ``error``, and with what."""
    from napari_kpac.core.errors import KpacError

    try:
        read()
    except Exception as error:
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(cause)
        if any(isinstance(each, MemoryError) for each in chain):
            return "memory", "".join(traceback.format_exception(error))[-3000:]
        if isinstance(error, KpacError):
            return ("refused", str(error)) if str(error).strip() else ("error", "no message")
        return "error", "".join(traceback.format_exception(error))[-3000:]
    return "read", ""


def main(reader: str, seed: int, first: int, last: int) -> None:
    """Be a child: read the damaged files in turn, tell of each before and after."""
    import logging
    import warnings

    import torch

    from tests.reliability.mutation import list_files, scramble
    from tests.reliability.readers import READERS

    torch.set_num_threads(1)
    logging.disable()
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(*words: Any) -> None:
        print(json.dumps(words), file=answers, flush=True)

    kinds = READERS if reader == EVERY else {reader: READERS[reader]}
    names = list(kinds)
    with tempfile.TemporaryDirectory() as given:
        home = Path(os.path.realpath(given))
        os.environ["NAPARI_KPAC_MODELS"] = str(home / "models")
        place, out = home / "case", home / "out"
        out.mkdir()
        tempfile.tempdir = str(out)
        samples = {name: kinds[name].make(home / name) for name in names}
        # Valid files come first: they must be read, and load all that is loaded late.
        for name in names:
            for sample in samples[name]:
                kinds[name].read(sample, out)
        watch = Watch()
        ceiling()
        for case in range(first, last):
            name = names[case % len(names)]
            tell("begin", case, name, "", "")
            rng = random.Random(f"{name} {seed} {case}")
            sample = rng.choice(samples[name])
            for folder in (place, out):
                shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(sample.parent, place)
            out.mkdir(exist_ok=True)
            scramble(place / sample.name, rng)
            before = list_files(place)
            watch.seen.clear()
            watch.inside, watch.scratch = (str(place), str(out), str(home / "models")), str(out)
            outcome, detail = judge(
                lambda kind=kinds[name], target=place / sample.name: kind.read(target, out)
            )
            watch.inside = ()
            if list_files(place) != before:
                watch.seen.append(("wrote", str(list_files(place) ^ before)))
            if watch.seen:
                outcome, detail = watch.seen[0]
            tell("end", case, name, outcome, detail)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
