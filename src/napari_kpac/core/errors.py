"""The errors that the package raises on purpose, with their section of the documentation.

Each class has a section of the troubleshooting page, whose anchor follows from its name; some
messages have a section of another page.

Not for: bugs. Those surface as ordinary Python exceptions.
"""

import re
from importlib import import_module
from typing import Any

PAGE = "docs/troubleshooting.md"
PLACES = {
    "do not agree pixel by pixel": "docs/howto/training.md#bad-input",
    "pair must agree pixel by pixel": "docs/howto/training.md#bad-input",
    "holds a run already": "docs/howto/training.md#the-folder-of-a-run",
    "no data to train on": "docs/howto/training.md#what-to-learn-from",
    "the loss is": "docs/howto/training.md#when-it-does-not-learn",
    "needs folders called": "docs/howto/evaluation.md#data",
    "views of a dual-pixel camera": "docs/howto/dual-pixel.md",
    "needs dual-pixel views": "docs/howto/dual-pixel.md",
}
"""What messages say for which another page helps more, and its section."""


class KpacError(Exception):
    """Parent of every error that napari-kpac raises on purpose.

    The message says what was wrong, with the value, and what to do about it. A traceback also
    shows the section of the troubleshooting page, as a note.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"See {self.place()}")

    @classmethod
    def section(cls) -> str:
        """Return the place in the documentation: ``WeightsError`` has the anchor ``#weights``."""
        if cls is KpacError:
            return PAGE
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))
        return f"{PAGE}#{'-'.join(words).lower()}"

    def place(self) -> str:
        """Return the section that helps with this message: its own, or that of its class."""
        text = str(self)
        return next((place for said, place in PLACES.items() if said in text), self.section())


class ConfigError(KpacError, ValueError):
    """An option or a network configuration has a value that makes no sense."""


class WeightsError(KpacError):
    """A weight file cannot be used: damaged, hostile, or made for another network."""


class ModelNotFoundError(KpacError, LookupError):
    """No bundled or installed model has the name that was asked for."""


class FileError(KpacError, OSError):
    """A file cannot be read or written."""


class RemoteError(FileError):
    """A URL cannot be read or written for now: no connection, or one that broke off."""


class ImageError(KpacError, ValueError):
    """An image has a type, shape or content that cannot be processed."""


class DeviceError(KpacError, ValueError):
    """A device does not exist here, or has too little memory."""


class RecipeError(KpacError, ValueError):
    """A recipe is damaged, or does not fit the image or the installed models."""


class TrainingError(KpacError):
    """Training cannot go on, for example because the loss is no longer a number."""


class CancelledError(KpacError):
    """Work was given up because something newer made it pointless."""


class MissingExtraError(KpacError, ImportError):
    """Something needs a package of an extra that is not installed."""


class ClusterError(KpacError, RuntimeError):
    """A cluster does not answer, or has nobody to work."""


class NotReadyError(KpacError, RuntimeError):
    """Something was asked for before the step that it needs."""


def for_people(error: BaseException) -> str:
    """Return the message of an error, with its section of the documentation.

    For terminals and windows, which show no traceback.
    """
    if isinstance(error, MemoryError):
        return "out of memory; close other programs, or take a smaller image"
    if not isinstance(error, KpacError):
        return ": ".join(filter(None, (type(error).__name__, str(error))))
    text = str(error)
    gap = "\n" if "\n" in text else " "
    return f"{text}{gap}(see {error.place()})"


def split_place(text: str) -> tuple[str, str]:
    """Return a message of :func:`for_people` without its section, and the section, if any."""
    found = re.search(r"\s\(see (docs/[\w/.-]+(?:#[\w-]+)?)\)$", text)
    return (text[: found.start()], found[1]) if found else (text, "")


def require(module: str, extra: str, what: str) -> Any:
    """Import a package of an extra, or raise an error that says what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs the extra {extra!r}: pip install "napari-kpac[{extra}]" ({error})'
        ) from error
