"""Options of batches, as every interface shows them.

Loads nothing heavy. Not for: what is done to each image (napari_kpac.core.options).
"""

from __future__ import annotations

from dataclasses import dataclass

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import option

MAX_WAIT_SECONDS = 10_000_000
ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".zarr")


def _ending(text: str) -> str:
    ending = text.lower() if text.startswith(".") else f".{text.lower()}"
    if ending not in ENDINGS:
        raise ConfigError(f"to={text!r}: must be one of {', '.join(ENDINGS)}")
    return ending


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is run."""

    to: str | None = option(
        None, "format of results in a folder: png, jpg, tif, zarr; default: the input's", _ending
    )
    overwrite: bool = option(
        False, "make results again that are there; otherwise what is done is skipped"
    )
    dry_run: bool = option(False, "only say what would be done")
    threads: int | None = option(None, "threads of the processor per image; default: all", int)
    overlap: bool = option(True, "read and write files while the network works")
    workers: int | None = option(
        None, "processes of a local cluster (needs the extra 'distributed')", int
    )
    scheduler: str | None = option(
        None, "address of a dask scheduler, for example tcp://10.0.0.5:8786"
    )
    wait: int = option(
        20, "seconds to wait for the scheduler, and for a worker where there is none", int
    )
    record: str | None = option(
        None, "on a cluster: file to which a line of JSON is added for every task that ended"
    )
    retries: int = option(2, "how often a cluster tries an image again that failed", int)

    def __post_init__(self) -> None:
        if self.to is not None:
            object.__setattr__(self, "to", _ending(self.to))
        for name, least in (("threads", 1), ("workers", 1), ("retries", 0), ("wait", 1)):
            value, most = getattr(self, name), MAX_WAIT_SECONDS if name == "wait" else 10_000
            if value is not None and (isinstance(value, bool) or not least <= value <= most):
                raise ConfigError(f"{name}={value!r}: must be a whole number of {least} or more")
        if self.workers and self.scheduler:
            raise ConfigError(
                "workers make a cluster here, scheduler names one elsewhere: not both"
            )

    @property
    def on_cluster(self) -> bool:
        """Whether the work is done by a cluster."""
        return bool(self.workers or self.scheduler)
