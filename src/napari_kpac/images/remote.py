"""Images by URL, through fsspec (extra ``remote``): ``s3://``, ``gs://``, ``https://``, ``memory://``.

Only what the user wrote as a URL is connected to: nothing that a file says ever becomes one.
Credentials are fsspec's matter; what could hold some is left out of every message. Not for: the
formats (zarr_files.py, formats.py).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from napari_kpac.core.errors import ConfigError, FileError, KpacError, RemoteError, require
from napari_kpac.core.files import naming, replacing

PROTOCOLS = ("s3", "gs", "https", "http", "memory")
"""Others of fsspec could lead from one address to the next, or run programs."""
ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")
"""Files by which a Zarr image is known."""
_WEB = ("https", "http")
_URL = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL)
_COLLAPSED = re.compile(rf"({'|'.join(PROTOCOLS)}):[/\\][^/\\]")
"""What a ``Path`` makes of a URL."""


@dataclass(frozen=True, repr=False)
class RemotePath:
    """A file or a Zarr image at a URL; has those methods of a ``Path`` that images need."""

    url: str

    def __str__(self) -> str:
        """Return the URL without user, password and query, which may hold credentials."""
        return f"{self.protocol}://{self._place}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    @property
    def protocol(self) -> str:
        """What stands before ``://``."""
        return self.url.partition("://")[0]

    @property
    def _place(self) -> str:
        rest = self.url.partition("://")[2]
        if self.protocol not in _WEB:
            return rest
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
        host, slash, path = rest.partition("/")
        return host.rpartition("@")[2] + slash + path

    @property
    def has_query(self) -> bool:
        """Whether something follows the path."""
        return self.protocol in _WEB and bool(re.search(r"[?#]", self.url))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self._place).name

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self._place).stem

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return PurePosixPath(self._place).suffix

    def __truediv__(self, below: str | os.PathLike[str]) -> RemotePath:
        below = Path(below).as_posix() if isinstance(below, Path) else str(below)
        return RemotePath(f"{self.url.rstrip('/')}/{below}")

    def with_name(self, name: str) -> RemotePath:
        """Return the URL beside this one."""
        return RemotePath(f"{self.url.rstrip('/').rpartition('/')[0]}/{name}")

    def resolve(self) -> RemotePath:
        """Return the URL: it leads to no other."""
        return self

    absolute = resolve

    def is_dir(self) -> bool:
        """Return False: no folder of images is looked for at a URL."""
        return False

    def open_system(self) -> tuple[Any, str]:
        """Return fsspec's file system, and the path in it."""
        what = f"{self}: an image by URL"
        fsspec = require("fsspec", "remote", what)
        require({"s3": "s3fs", "gs": "gcsfs", "memory": "fsspec"}.get(self.protocol, "aiohttp"),
                "remote", what)  # fmt: skip
        with connecting(self):
            system, path = fsspec.core.url_to_fs(self.url)
        return system, path

    def marks(self) -> Iterator[str]:
        """Iterate over what is there of this file, or of the files that make a Zarr image."""
        system, path = self.open_system()
        names = [path]
        if self.suffix.lower() == ".zarr":
            names = [f"{path.rstrip('/')}/{mark}" for mark in ZARR_MARKS]
        for name in names:
            with connecting(self):
                system.invalidate_cache()
                found = _is_file(system, name)
            if found:
                yield name

    def exists(self) -> bool:
        """Return True if there is a file, or a complete Zarr image, of this name."""
        return next(self.marks(), None) is not None

    def modified(self) -> float | None:
        """Return the time of the last change in seconds, if the server says it."""
        system, _ = self.open_system()
        times = []
        for mark in self.marks():
            with suppress(Exception), connecting(self):
                times.append(system.modified(mark).timestamp())
        return max(times, default=None)

    def read_bytes(self) -> bytes:
        """Return the content of a small file."""
        system, path = self.open_system()
        with connecting(self):
            return bytes(system.cat_file(path))

    def write_bytes(self, content: bytes) -> None:
        """Write a small file, whole or not at all."""
        system, path = self.open_system()
        with connecting(self, "write"):
            system.pipe_file(path, content)

    def iterdir(self) -> Iterator[RemotePath]:
        """Iterate over what lies below; nothing where there is no such folder."""
        system, path = self.open_system()
        names: list[str] = []
        with connecting(self), suppress(FileNotFoundError):
            system.invalidate_cache()
            names = system.ls(path, detail=False)
        return (self / PurePosixPath(name).name for name in sorted(names))

    def remove(self) -> None:
        """Remove it with everything below it; what a reader looks for goes first."""
        system, path = self.open_system()
        for mark in self.marks():
            with connecting(self, "write"):
                system.rm_file(mark)
        with connecting(self, "write"), suppress(FileNotFoundError):
            system.invalidate_cache()
            system.rm(path, recursive=True)

    @contextmanager
    def local_copy(self) -> Iterator[Path]:
        """Copy the file into a folder of its own for as long as it is needed."""
        system, path = self.open_system()
        with tempfile.TemporaryDirectory(prefix="napari-kpac-") as folder:
            copy = Path(folder) / self.name
            with connecting(self):
                about = system.info(path)
                system.get_file(path, str(copy))
            size, arrived = about.get("size"), copy.stat().st_size
            if size is not None and size != arrived:
                raise RemoteError(
                    f"{self}: only {arrived:,} of {size:,} bytes arrived; the connection broke "
                    "off, try again"
                )
            yield copy


Location = Path | RemotePath
"""Where an image lies: a file or folder of this machine, or a URL."""


def location(name: str | os.PathLike[str] | RemotePath) -> Location:
    """Return the place that a name stands for; a name with ``://`` is a URL.

    Raises
    ------
    ConfigError
        If this is a URL of a kind that is not read.
    """
    if isinstance(name, RemotePath):
        return name
    text = os.fspath(name)
    if "::" in text and "://" in text:
        raise ConfigError(f"{text.partition('::')[0]}::...: {_kinds()}")
    found = _URL.fullmatch(text)
    if found is None:
        if _COLLAPSED.match(text) and not Path(text).exists():
            raise ConfigError(f"{text}: give a URL as text; a Path drops one of its slashes")
        return Path(name)
    protocol = found["protocol"].lower()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{protocol}://...: {_kinds()}")
    place = RemotePath(f"{protocol}://{found['rest']}")
    if place.has_query and place.suffix.lower() == ".zarr":
        raise ConfigError(f"{place}: a Zarr image is many files; its URL can have no query")
    return place


def _kinds() -> str:
    return f"images are read from files and from {', '.join(f'{each}://' for each in PROTOCOLS)}"


def local_file(place: Location | str | os.PathLike[str]) -> Path:
    """Return the file of this machine that a name stands for.

    Raises
    ------
    ConfigError
        If it is a URL.
    """
    place = location(place)
    if isinstance(place, RemotePath):
        raise ConfigError(f"{place}: this is written to files of this machine only")
    return place


def write_whole(place: Location, content: bytes) -> None:
    """Write a small file, whole or not at all."""
    if isinstance(place, RemotePath):
        place.write_bytes(content)
        return
    with replacing(place) as temporary:
        temporary.write_bytes(content)


@contextmanager
def writing(place: Location) -> Iterator[None]:
    """Turn what goes wrong while writing into an error that names the place."""
    with connecting(place, "write") if isinstance(place, RemotePath) else naming(place):
        yield


@contextmanager
def connecting(place: RemotePath, how: str = "read") -> Iterator[None]:
    """Turn what goes wrong with a connection into an error that names the URL.

    There is no end to the list of what the packages behind fsspec raise. Their own errors may
    have the whole URL in them: they are not shown.
    """
    try:
        yield
    except KpacError:
        raise
    except FileNotFoundError:
        raise FileError(f"{place}: there is no such file or bucket") from None
    except PermissionError as error:
        raise FileError(
            f"{place}: access is denied ({reason(place, error)}); credentials are given to fsspec: "
            "see docs/howto/cluster.md"
        ) from None
    except NotImplementedError:
        raise FileError(f"{place}: {place.protocol}:// can be read only") from None
    except MemoryError:
        raise
    except Exception as error:
        raise connection_error(place, error, how) from None


def connection_error(place: RemotePath, error: BaseException, how: str = "read") -> RemoteError:
    """Return the error for a connection that does not work, or no longer; to try again may help."""
    return RemoteError(
        f"{place}: cannot {how} it now ({reason(place, error)}); is the address right, and the "
        "server there?"
    )


def reason(place: RemotePath, error: BaseException) -> str:
    """Return the text of an error, without what may hold credentials."""
    text = (str(error) or type(error).__name__).replace(place.url, str(place))
    text = re.sub(r"//[^/@\s]+@", "//", text)
    return re.sub(r"\?[^\s'\")]*", "", text)[:300]


def _is_file(system: Any, path: str) -> bool:
    """Return True if there is a file; unlike fsspec's own, does not take every error for no."""
    try:
        return bool(system.info(path).get("type", "file") == "file")
    except FileNotFoundError:
        return False
