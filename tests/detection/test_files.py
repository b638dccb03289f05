"""Every kind of file is read back, by us and by others."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image
from skimage.color import deltaE_ciede2000, rgb2lab

from napari_kpac.core.errors import ConfigError, FileError, ImageError, KpacError
from napari_kpac.core.options import DetectionOptions, ImageOptions
from napari_kpac.detection import files as module
from napari_kpac.detection.files import (
    colour_table,
    export,
    export_table,
    settings_name,
    slice_names,
)
from napari_kpac.images import read_image, write_image

NOTE = json.dumps({"model": "tiny", "unit": "µm"})


@pytest.fixture
def values(rng):
    return rng.random((12, 17)).astype(np.float32)


@pytest.mark.parametrize(("kind", "most"), [("png8", 255), ("png16", 65535)])
def test_png(values, tmp_path, kind, most):
    values[0, :3] = 0, 1, np.nan
    path = tmp_path / "map.png"
    assert export(path, values, kind, description=NOTE) == [path]
    pixels = read_image(path)
    assert pixels.max() == most
    assert pixels[0, :3].tolist() == [0, most, 0]
    np.testing.assert_allclose(pixels / most, np.nan_to_num(values), atol=0.501 / most)
    assert Image.open(path).text["Description"] == NOTE


def test_tiff_keeps_values_scale_and_note(values, tmp_path):
    path = tmp_path / "map.tif"
    export(path, values, scale=(0.25, 0.1), units="micrometer", description=NOTE)
    with tifffile.TiffFile(path) as file:
        assert np.array_equal(file.asarray(), values)
        assert file.asarray().dtype == np.float32
        about = file.imagej_metadata
        assert about["unit"] == "um"
        assert about["Info"] == NOTE
        assert (about["min"], about["max"]) == (0, 1)
        tags = file.pages[0].tags
        across, down = (tags[f"{axis}Resolution"].value for axis in "XY")
        assert across[0] / across[1] == pytest.approx(10)
        assert down[0] / down[1] == pytest.approx(4)


def test_tiff_stacks(values, tmp_path):
    path = tmp_path / "map.tif"
    stack = np.stack([values, values / 2, values / 4])
    export(path, stack, scale=(2.5, 1, 1), units=("um", "um", "um"))
    with tifffile.TiffFile(path) as file:
        assert np.array_equal(file.asarray(), stack)
        assert file.series[0].axes == "ZYX"
        assert file.imagej_metadata["spacing"] == 2.5
    export(path, stack, scale=(500, 1, 1), units=("millisecond", "um", "um"))
    with tifffile.TiffFile(path) as file:
        assert file.series[0].axes == "TYX"
        assert file.imagej_metadata["finterval"] == 0.5
    export(path, np.stack([stack, stack]), scale=(1, 3, 1, 1))
    with tifffile.TiffFile(path) as file:
        assert file.series[0].axes == "TZYX"
        assert file.asarray().shape == (2, 3, *values.shape)
        assert file.imagej_metadata["spacing"] == 3


def test_numpy(values, tmp_path):
    path = tmp_path / "map.npy"
    written = export(path, values, scale=(2, 3), units="mm", description=NOTE)
    assert written == [path, tmp_path / "map.npy.json"]
    assert np.array_equal(np.load(path), values)
    about = json.loads(written[1].read_text())
    assert about == {"description": NOTE, "scale": [2, 3], "units": ["mm", "mm"]}


def test_masks(values, tmp_path):
    mask = values > 0.5
    for name in ("mask.png", "mask.tif", "mask.npy"):
        export(tmp_path / name, mask)
    assert np.array_equal(read_image(tmp_path / "mask.png"), mask * np.uint8(255))
    assert np.array_equal(tifffile.imread(tmp_path / "mask.tif"), mask * np.uint8(255))
    assert np.array_equal(np.load(tmp_path / "mask.npy"), mask)


def test_overlays(values, tmp_path):
    path = tmp_path / "over.png"
    image = np.full((*values.shape, 3), 100, np.uint8)
    export(path, values, "overlay", image, opacity=0)
    assert (read_image(path) == 100).all()
    export(path, values, "overlay", image, opacity=1, description=NOTE)
    colours = np.rint(colour_table()[np.rint(values * 255).astype(int)] * 255)
    assert np.array_equal(read_image(path), colours)
    assert Image.open(path).text["Description"] == NOTE
    export(path, values, "overlay", image)
    assert np.abs(read_image(path) - (100 + colours) / 2).max() <= 1


def test_overlays_of_stacks_and_other_ranges(values, tmp_path):
    stack, images = np.stack([values, values / 2]), np.zeros((2, *values.shape), np.uint16)
    images[1] = 4000
    reading = ImageOptions(range=(0, 4000))
    written = export(tmp_path / "o.png", stack, "overlay", images, opacity=0, reading=reading)
    assert [path.name for path in written] == ["o-0.png", "o-1.png"]
    assert [read_image(path).mean() for path in written] == [0, 255]


def test_stacks_as_png_have_a_file_a_slice(values, tmp_path):
    stack = np.stack([values] * 11)
    written = export(tmp_path / "m.png", stack)
    assert [path.name for path in written] == [f"m-{n:02}.png" for n in range(11)]
    assert all(path.is_file() for path in written)
    one = export(tmp_path / "one.png", stack[3])
    assert np.array_equal(read_image(one[0]), read_image(written[3]))
    names = slice_names(tmp_path / "m.png", (2, 2))
    assert [path.name for path in names] == ["m-0-0.png", "m-0-1.png", "m-1-0.png", "m-1-1.png"]


def test_nothing_half_written_stays_behind(values, tmp_path, monkeypatch):
    count = iter(range(100))

    def fail_at_the_second(path, image, description):
        if next(count) == 1:
            raise FileError("the disk is full")
        return write_image(path, image, description)

    existing = tmp_path / "m-0.png"
    existing.write_bytes(b"before")
    monkeypatch.setattr(module, "write_image", fail_at_the_second)
    with pytest.raises(FileError, match="full"):
        export(tmp_path / "m.png", np.stack([values] * 3))
    assert [path.name for path in tmp_path.iterdir()] == ["m-0.png"]
    assert existing.read_bytes() == b"before"


@pytest.mark.parametrize(
    ("name", "kind", "options", "error"),
    [
        ("m.png", "jpeg", {}, ConfigError),
        ("m.tif", "png8", {}, FileError),
        ("m.jpg", None, {}, FileError),
        ("m.png", "overlay", {}, ImageError),
        ("m.png", "overlay", {"image": np.zeros((3, 4))}, ImageError),
        ("m.png", "overlay", {"image": np.zeros((12, 17)), "opacity": 2}, ConfigError),
        ("m.tif", None, {"scale": (1, -1)}, ImageError),
        ("m.tif", None, {"units": ("um", "mm")}, FileError),
        ("m.tif", None, {"units": "км"}, FileError),
        ("file/m.tif", None, {}, FileError),
    ],
)
def test_bad_calls_write_nothing(values, tmp_path, name, kind, options, error):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(error) as caught:
        export(tmp_path / name, values, kind, **options)
    assert isinstance(caught.value, KpacError)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("array", [np.zeros(5), np.zeros((4, 4), np.uint8), np.zeros((0, 4))])
def test_what_is_no_map(array, tmp_path):
    with pytest.raises(ImageError):
        export(tmp_path / "m.png", array)


def test_too_many_axes_for_tiff(tmp_path):
    with pytest.raises(FileError, match=r"\.npy"):
        export(tmp_path / "m.tif", np.zeros((1, 1, 1, 1, 4, 4), np.float32))
    assert not list(tmp_path.iterdir())


def test_tables(tmp_path):
    path = export_table(tmp_path / "t.csv", {"index": [1, 2], "area_unit": ["um^2", "um^2"]})
    assert path.read_text().splitlines() == ["index,area_unit", "1,um^2", "2,um^2"]


def test_names_say_what_is_not_usual():
    assert settings_name(DetectionOptions()) == "blur"
    assert settings_name(DetectionOptions(source="variance", smoothing=2)) == "blur-variance-s2"
    options = DetectionOptions(source="alpha2", model="own/net.safetensors", upsampling=2)
    assert settings_name(options) == "blur-alpha2-net-x2"


def test_the_colours_are_perceptually_uniform():
    lab = rgb2lab(colour_table())
    steps = deltaE_ciede2000(lab[:-1], lab[1:])
    assert steps.std() < 0.05 * steps.mean()
    assert (np.diff(lab[:, 0]) > 0).all()
    assert lab[-1, 0] - lab[0, 0] > 85
