"""The errors that the package raises on purpose.

Not for: bugs. Those surface as ordinary Python exceptions.
"""


class KpacError(Exception):
    """Parent of every error that napari-kpac raises on purpose.

    The message says what was wrong, with the value, and what to do about it.
    """


class ConfigError(KpacError, ValueError):
    """An option or a network configuration has a value that makes no sense."""


class WeightsError(KpacError):
    """A weight file cannot be used: damaged, hostile, or made for another network."""


class ModelNotFoundError(KpacError, LookupError):
    """No bundled or installed model has the name that was asked for."""


class FileError(KpacError, OSError):
    """A file cannot be read or written."""


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
