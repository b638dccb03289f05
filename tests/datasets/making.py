"""Small real files for the tests of datasets."""

import imagecodecs
import numpy as np


def image(seed, height=24, width=36, channels=3, dtype=np.uint16):
    rng = np.random.default_rng(seed)
    shape = (height, width, channels) if channels else (height, width)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(imagecodecs.png_encode(pixels))
    return path


def cut_off(path):
    """Leave the first half of a file, as a broken download does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
