"""Every format there and back: pixels, bit depth, and what a file says of its pixels."""

import contextlib
import json
import threading
import time

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image, ImageOps
from PIL.TiffImagePlugin import IFDRational

import napari_kpac as kpac
from napari_kpac.images import (
    Metadata,
    description_of,
    open_image,
    read_image,
    start_image,
    write_image,
)
from napari_kpac.images.arrays import MappedArray
from tests.images.conftest import EXPOSURE, SRGB, photograph_exif, write_dng

RECIPE = json.dumps({"format": "napari-kpac-recipe", "text": 'a "quoted" <b>µ</b>'})


def copied(source, target, *, streamed=False):
    """Copy a file as the batch does: open, start, fill, finish."""
    with open_image(source) as image:
        array = image.array
        made = start_image(
            target, array.shape, np.dtype(array.dtype), image.metadata, streamed=streamed
        )
        made.out[...] = np.asarray(array[...])
        made.finish(RECIPE)
    assert description_of(target) == json.loads(RECIPE)
    assert [path.name for path in target.parent.iterdir() if path.name.startswith(".")] == []
    return target


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_keep_everything_and_stand_upright(photo, tmp_path, orientation):
    source = tmp_path / "a.jpg"
    exif = photograph_exif(orientation)
    Image.fromarray(photo).save(source, quality=95, icc_profile=SRGB, exif=exif, dpi=(300, 150))
    expected = np.asarray(ImageOps.exif_transpose(Image.open(source)))
    assert np.array_equal(read_image(source), expected)
    for name in ("b.jpg", "b.png", "b.tif"):
        target = copied(source, tmp_path / "out" / name)
        with Image.open(target) as image:
            close = 12 if name.endswith("jpg") else 0
            assert np.abs(np.asarray(image).astype(int) - expected).max() <= close
            assert image.info["icc_profile"] == SRGB
            assert tuple(map(round, image.info["dpi"])) == (300, 150)
            kept = image.getexif()
            assert kept.get(0x0112, 1) == 1
            assert kept[0x010F] == "Optics & Sons"
            assert float(kept.get_ifd(0x8769)[EXPOSURE]) == pytest.approx(0.02)
            assert kept.get_ifd(0x8825)[1] == "N"
        again = copied(target, tmp_path / "again" / name)
        assert Image.open(again).getexif()[0x0110] == "Model 7"
        assert Image.open(again).getexif().get_ifd(0x8769)[36867] == "2020:02:03 04:05:06"


def test_long_notes_of_a_maker_do_not_cost_the_image(photo, tmp_path):
    exif = photograph_exif()
    exif[0x8769] = {EXPOSURE: IFDRational(1, 50), 0x927C: bytes(range(256)) * 400}
    Image.fromarray(photo).save(tmp_path / "a.png", exif=exif)
    kept = Image.open(copied(tmp_path / "a.png", tmp_path / "b.png")).getexif()
    assert len(kept.get_ifd(0x8769)[0x927C]) == 256 * 400
    kept = Image.open(copied(tmp_path / "a.png", tmp_path / "b.jpg")).getexif()
    assert kept.get_ifd(0x8769).keys() == {EXPOSURE}
    assert kept[0x010F] == "Optics & Sons"


def test_deep_png_with_profile_orientation_and_transparency(photo, tmp_path):
    deep = np.dstack([photo.astype(np.uint16) * 257 + 3, photo[..., 0].astype(np.uint16) * 200])
    write_image(tmp_path / "a.png", deep)
    data = (tmp_path / "a.png").read_bytes()
    Image.fromarray(photo).save(tmp_path / "b.png", exif=photograph_exif(6), icc_profile=SRGB)
    other = (tmp_path / "b.png").read_bytes()
    # The chunks of the second file, profile and orientation, go into the first.
    header, start = 33, other.index(b"IDAT") - 4
    (tmp_path / "a.png").write_bytes(data[:header] + other[header:start] + data[header:])
    expected = np.rot90(deep, -1)
    assert np.array_equal(read_image(tmp_path / "a.png"), expected)
    target = copied(tmp_path / "a.png", tmp_path / "out.png")
    assert np.array_equal(read_image(target), expected)
    assert Image.open(target).info["icc_profile"] == SRGB


def test_a_profile_that_no_longer_fits_is_dropped(photo, tmp_path):
    Image.fromarray(photo).convert("CMYK").save(tmp_path / "a.jpg", icc_profile=SRGB[:16] + b"CMYK"
                                                + SRGB[20:])  # fmt: skip
    target = copied(tmp_path / "a.jpg", tmp_path / "b.png")
    assert "icc_profile" not in Image.open(target).info


TIFFS = {
    "grey": ("YX", np.uint8, {}),
    "deep": ("YX", np.uint16, {}),
    "real": ("YXS", np.float32, {}),
    "double": ("YX", np.float64, {}),
    "pages": ("QYX", np.uint16, {}),
    "colour pages": ("QYXS", np.uint8, {}),
    "tiled": ("YXS", np.uint8, {"tile": (32, 32), "compression": "zlib"}),
    "strips": ("YX", np.uint16, {"rowsperstrip": 8, "compression": "lzw"}),
    "big": ("YXS", np.uint16, {"bigtiff": True}),
    "big endian": ("YX", np.uint16, {"byteorder": ">"}),
    "planar": ("SYX", np.uint8, {"planarconfig": "separate"}),
    "white is zero": ("YX", np.uint8, {"photometric": "miniswhite"}),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", TIFFS)
def test_tiff(photo, tmp_path, kind, streamed, monkeypatch):
    axes, dtype, how = TIFFS[kind]
    pixels = photo.astype(dtype) * (1 if dtype == np.uint8 else 3)
    pixels = pixels / 765 if np.dtype(dtype).kind == "f" else pixels
    pixels = pixels if "S" in axes else pixels[..., 0]
    stored = np.stack([pixels, pixels[::-1]]) if "Q" in axes else pixels
    stored = np.moveaxis(stored, -1, 0) if axes[0] == "S" else stored
    source = tmp_path / "a.tif"
    colour = {"photometric": "rgb" if "S" in axes else "minisblack", **how}
    tifffile.imwrite(
        source, stored.astype(dtype), resolution=(100, 50), resolutionunit="centimeter",
        iccprofile=SRGB if "S" in axes else None, **colour,
    )  # fmt: skip
    if streamed:
        monkeypatch.setattr("napari_kpac.images.tiff.WHOLE_UP_TO_BYTES", 0)
    expected = stored if axes[0] != "S" else np.moveaxis(stored, 0, -1)
    with open_image(source) as image:
        assert isinstance(image.array, np.ndarray) == (not streamed or kind == "planar")
        assert np.array_equal(np.asarray(image.array[...]), expected)
        assert image.array.dtype == dtype
        if streamed and kind in ("tiled", "big", "strips"):
            assert np.array_equal(image.array[20:30, 7:9], expected[20:30, 7:9])
    target = copied(source, tmp_path / "b.tif", streamed=streamed)
    with tifffile.TiffFile(target) as file:
        assert np.array_equal(file.asarray(), expected)
        assert file.asarray().dtype == dtype
        page = file.pages.first
        assert page.tags["XResolution"].value == (100, 1)
        assert page.tags["YResolution"].value == (50, 1)
        assert page.resolutionunit == 3
        assert file.is_bigtiff == (kind == "big")
        assert page.photometric.name.lower() == colour["photometric"]
        if "S" in axes:
            assert page.tags["InterColorProfile"].value == SRGB


@pytest.mark.parametrize("streamed", [False, True])
def test_ome_tiff(photo, tmp_path, streamed):
    stack = np.stack([photo[..., 0], photo[..., 1]] * 3).reshape(3, 2, *photo.shape[:2])
    about = {
        "axes": "ZCYX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeXUnit": "µm",
        "PhysicalSizeZ": 2.0, "PhysicalSizeYUnit": "µm", "Channel": {"Name": ["DAPI", "GFP"]},
    }  # fmt: skip
    source = tmp_path / "a.ome.tif"
    tifffile.imwrite(source, stack.astype(np.uint16), ome=True, metadata=about)
    for name in ("b.ome.tif", "b.zarr"):
        target = copied(source, tmp_path / name, streamed=streamed)
        with open_image(target) as image:
            assert np.array_equal(np.asarray(image.array[...]), stack)
            found = image.metadata
            assert found.axes == "ZCYX"
            assert {axis: found.scale[axis] for axis in "XYZ"} == {"X": 0.25, "Y": 0.5, "Z": 2.0}
            assert found.units["X"] == "um"
    with tifffile.TiffFile(tmp_path / "b.ome.tif") as file:
        assert file.is_ome
        pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
        assert [channel["Name"] for channel in pixels["Channel"]] == ["DAPI", "GFP"]


def test_imagej_tiff(photo, tmp_path):
    stack = np.stack([photo[..., 0]] * 4).astype(np.uint16)
    about = {"axes": "ZYX", "unit": "um", "spacing": 3.0, "min": 5.0, "max": 99.0}
    tifffile.imwrite(tmp_path / "a.tif", stack, imagej=True, resolution=(4, 2), metadata=about)
    target = copied(tmp_path / "a.tif", tmp_path / "b.tif", streamed=True)
    with tifffile.TiffFile(target) as file:
        found = file.imagej_metadata
        assert (found["unit"], found["spacing"], found["max"]) == ("um", 3.0, 99.0)
        assert file.pages.first.tags["XResolution"].value == (4, 1)
        assert np.array_equal(file.asarray(), stack)
    with open_image(target) as image:
        assert image.metadata.scale == {"X": 0.25, "Y": 0.5, "Z": 3.0}


def test_a_palette_becomes_colour(photo, tmp_path):
    Image.fromarray(photo).quantize(16).save(tmp_path / "a.tif")
    expected = np.asarray(Image.open(tmp_path / "a.tif").convert("RGB"))
    assert np.abs(read_image(tmp_path / "a.tif") / 257 - expected).max() < 1


def test_an_upright_tiff(photo, tmp_path):
    tifffile.imwrite(
        tmp_path / "a.tif", photo, photometric="rgb", metadata=None,
        extratags=[(274, 3, 1, 8, True)],
    )  # fmt: skip
    assert np.array_equal(read_image(tmp_path / "a.tif"), np.rot90(photo))
    target = copied(tmp_path / "a.tif", tmp_path / "b.tif")
    with tifffile.TiffFile(target) as file:
        assert 274 not in file.pages.first.tags


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_arrays(photo, tmp_path, version):
    stack = np.stack([photo[..., 0]] * 3).astype(np.float32)
    source = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=stack.shape, dtype=stack.dtype, zarr_format=version,
        chunks=(2, 32, 32),
    )  # fmt: skip
    source[:] = stack
    source.attrs["who"] = "me"
    target = zarr.open(str(copied(tmp_path / "a.zarr", tmp_path / "b.zarr")), mode="r")
    assert np.array_equal(target[:], stack)
    assert target.metadata.zarr_format == version
    assert target.attrs["who"] == "me"
    assert target.chunks[0] == 1


@pytest.mark.parametrize("version", [2, 3])
def test_ome_zarr(photo, tmp_path, version):
    stack = np.stack([photo[..., 0]] * 3)
    group = zarr.create_group(str(tmp_path / "a.ome.zarr"), zarr_format=version)
    for level in (0, 1):
        part = stack[:, :: 2**level, :: 2**level]
        array = group.create_array(str(level), shape=part.shape, dtype=part.dtype)
        array[:] = part
    transforms = [[{"type": "scale", "scale": [2.0, 0.5 * 2**k, 0.25 * 2**k]}] for k in (0, 1)]
    image = {
        "name": "cells",
        "axes": [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"],
        "datasets": [
            {"path": str(k), "coordinateTransformations": t} for k, t in enumerate(transforms)
        ],
    }
    omero = {"channels": [{"color": "00FF00"}]}
    if version == 2:
        group.attrs.update({"multiscales": [{**image, "version": "0.4"}], "omero": omero})
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [image], "omero": omero}
    target = copied(tmp_path / "a.ome.zarr", tmp_path / "b.ome.zarr")
    made = zarr.open(str(target), mode="r")
    assert np.array_equal(made["0"][:], stack)
    found = made.attrs["ome"] if version == 3 else made.attrs
    (kept,) = found["multiscales"]
    assert kept["name"] == "cells"
    assert [dataset["path"] for dataset in kept["datasets"]] == ["0"]
    assert kept["datasets"][0]["coordinateTransformations"] == transforms[0]
    assert found["omero"] == omero
    as_tiff = copied(tmp_path / "a.ome.zarr", tmp_path / "b.ome.tif")
    with open_image(as_tiff) as made_again:
        assert made_again.metadata.scale == {"Z": 2.0, "Y": 0.5, "X": 0.25}


def test_camera_raw(tmp_path):
    source = write_dng(tmp_path / "a.dng")
    pixels = read_image(source)
    assert pixels.dtype == np.uint16
    assert pixels.shape == (64, 80, 3)
    rising = pixels[8:-8, 8:-8, 1].astype(int)
    assert (np.diff(rising.mean(axis=1)) > 0).all()
    target = copied(source, tmp_path / "b.tif")
    assert np.array_equal(read_image(target), pixels)
    with tifffile.TiffFile(target) as file:
        assert file.pages.first.tags["Make"].value == "Optics & Sons"
        assert file.pages.first.tags["InterColorProfile"].value[16:20] == b"RGB "


def test_a_file_as_an_array(tmp_path):
    values = np.arange(2 * 200 * 30, dtype=np.uint16).reshape(2, 200, 30)
    path = tmp_path / "a.raw"
    path.write_bytes(b"12345678" + values.astype(">u2").tobytes())
    array = MappedArray(path, values.shape, ">u2", 8)
    assert array.dtype == np.uint16
    assert np.array_equal(array[1, 5:9, ::2], values[1, 5:9, ::2])
    assert array.chunks == (1, 64, 30)
    array[1, 3] = 7
    assert (np.asarray(array)[1, 3] == 7).all()
    assert np.array_equal(np.asarray(array)[0], values[0])


def broken(tmp_path):
    (tmp_path / "a.png").write_bytes(b"nothing")
    (tmp_path / "a.tif").write_bytes(b"II*\0nothing at all")
    (tmp_path / "a.dng").write_bytes(b"II*\0nothing at all")
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((64, 64), np.uint8), compression="zlib")
    whole = (tmp_path / "b.tif").read_bytes()
    (tmp_path / "b.tif").write_bytes(whole[: len(whole) // 4])
    tifffile.imwrite(tmp_path / "two.tif", np.zeros((9, 9, 2), np.uint8), planarconfig="contig",
                     photometric="minisblack")  # fmt: skip
    with tifffile.TiffWriter(tmp_path / "sizes.tif") as writer:
        for side in (20, 30):
            writer.write(np.zeros((side, side), np.uint8))
    (tmp_path / "empty.zarr").mkdir()
    group = zarr.create_group(str(tmp_path / "plate.zarr"))
    group.attrs["ome"] = {"plate": {}}
    group = zarr.create_group(str(tmp_path / "image.zarr"))
    group.attrs["ome"] = {"multiscales": [{"axes": [], "datasets": []}]}
    return sorted(path for path in tmp_path.iterdir() if path.name != "own-models")


def test_what_cannot_be_read_is_named(tmp_path):
    for path in broken(tmp_path):
        with pytest.raises(kpac.KpacError, match=path.name.replace(".", r"\.")):
            read_image(path)
    with pytest.raises(kpac.KpacError, match="no such file"):
        open_image(tmp_path / "none.zarr")


@pytest.mark.parametrize(("name", "module"), [("a.dng", "rawpy"), ("a.zarr", "zarr")])
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, module):
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(kpac.KpacError, match=r"napari-kpac\[formats\]"):
        open_image(tmp_path / name)


def test_an_unfinished_result_leaves_nothing(tmp_path):
    for name in ("a.tif", "a.zarr"):
        made = start_image(tmp_path / name, (4, 5), np.dtype(np.uint8), streamed=True)
        made.out[1] = 3
        made.discard()
    assert [path.name for path in tmp_path.iterdir() if path.name != "own-models"] == []


def test_a_folder_that_is_still_written_to_is_removed(tmp_path):
    """Other chunks may be under way in zarr's threads when one has failed."""
    target = start_image(tmp_path / "a.zarr", (40, 60), np.dtype(np.uint8), Metadata())
    (folder,) = tmp_path.iterdir()
    last = time.monotonic() + 0.3

    def write_chunks():
        while time.monotonic() < last:
            with contextlib.suppress(OSError):
                (folder / "c").mkdir(parents=True, exist_ok=True)
                (folder / "c" / "0").write_bytes(b"chunk")

    thread = threading.Thread(target=write_chunks)
    thread.start()
    target.discard()
    thread.join()
    assert list(tmp_path.iterdir()) == []


def test_two_images_of_a_stereo_camera_are_a_jpeg_file(tmp_path):
    """MPO: the first image is taken. What is no image at all is said to be none."""
    first = Image.fromarray(np.full((16, 24, 3), 90, np.uint8))
    first.save(tmp_path / "pair.jpg", format="MPO", save_all=True, append_images=[first])
    assert read_image(tmp_path / "pair.jpg").shape == (16, 24, 3)
    (tmp_path / "letter.jpg").write_text("Dear Sir or Madam")
    with pytest.raises(kpac.KpacError, match=r"letter.jpg: .*\(it is none, or of a kind"):
        read_image(tmp_path / "letter.jpg")


def test_colour_in_zarr_keeps_the_size_of_its_pixels(tmp_path):
    """OME-Zarr has no place for colour as the last axis."""
    about = Metadata(axes="YXS", scale={"Y": 0.5, "X": 0.25}, units={"Y": "um", "X": "um"})
    made = start_image(tmp_path / "cup.zarr", (16, 24, 3), np.dtype(np.uint8), about)
    made.out[...] = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    made.finish(RECIPE)
    copied(tmp_path / "cup.zarr", tmp_path / "again.zarr")
    for name in ("cup.zarr", "again.zarr"):
        with open_image(tmp_path / name) as found:
            assert found.metadata.scale == about.scale
            assert found.metadata.units == about.units
            assert found.metadata.axes == "YXS"
    attributes = zarr.open(str(tmp_path / "again.zarr"), mode="r+").attrs
    for damaged in ("sizes", {"scale": [1, 2]}, {"scale": {"Y": "wide"}, "units": 7}):
        attributes["napari_kpac_sizes"] = damaged
        with open_image(tmp_path / "again.zarr") as found:
            assert found.metadata.scale == {}
