import numpy as np
import pytest
from scipy.ndimage import gaussian_filter


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def half_blurred():
    return half_blurred_scene()


def half_blurred_scene():
    """An image of fine texture whose right half is far out of focus, and that half."""
    rng = np.random.default_rng(1)
    texture = np.clip(0.5 + 0.3 * gaussian_filter(rng.normal(size=(96, 160)), 0.7) / 0.4, 0, 1)
    blurred = np.zeros(texture.shape, bool)
    blurred[:, 80:] = True
    image = np.where(blurred, gaussian_filter(texture, 6), texture)
    return image.astype(np.float32), blurred
