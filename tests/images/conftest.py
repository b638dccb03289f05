"""Files of every kind, made by libraries that the package does not write with."""

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import IFDRational

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
EXPOSURE, LENS = 33434, 37386


@pytest.fixture(scope="session")
def photo():
    from skimage import data

    return np.ascontiguousarray(data.coffee()[100:164, 200:280])


def photograph_exif(orientation=1):
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Optics & Sons", "Model 7"
    exif[0x0112] = orientation
    exif[0x8769] = {
        EXPOSURE: IFDRational(1, 50),
        LENS: IFDRational(50),
        36867: "2020:02:03 04:05:06",
    }
    exif[0x8825] = {1: "N", 2: (52.0, 30.0, 15.0)}
    return exif


def write_dng(path, height=64, width=80):
    """A minimal camera RAW file: a Bayer mosaic of a gradient, as DNG."""
    rows, columns = np.mgrid[:height, :width]
    mosaic = (2000 + 400 * rows + 100 * columns).astype(np.uint16)
    matrix = np.array([3.2405, -1.5371, -0.4985, -0.9693, 1.876, 0.0416, 0.0556, -0.204, 1.0572])
    rational = [int(v) for value in matrix for v in (round(value * 10000), 10000)]
    tifffile.imwrite(
        path,
        mosaic,
        photometric="cfa",
        metadata=None,
        extratags=[
            (271, 2, 0, "Optics & Sons", True),
            (33421, 3, 2, (2, 2), True),
            (33422, 1, 4, bytes((0, 1, 1, 2)), True),
            (50706, 1, 4, bytes((1, 4, 0, 0)), True),
            (50708, 2, 0, "Model 7", True),
            (50714, 3, 1, 0, True),
            (50717, 3, 1, 65535, True),
            (50721, 10, 9, rational, True),
            (50728, 5, 3, (1, 1, 1, 1, 1, 1), True),
            (50778, 3, 1, 21, True),
        ],
    )
    return path
