"""A folder with every format and some broken files, through the terminal, as overnight."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import description_of, read_image
from tests.images.conftest import EXPOSURE, SRGB, photograph_exif, write_dng


@pytest.fixture
def folder(tmp_path, photo):
    """Every format, in folders, with files that are no images and files that are broken."""
    root = tmp_path / "in"
    inner = root / "session 2" / "day 10"
    inner.mkdir(parents=True)
    deep = photo.astype(np.uint16) * 200 + 5
    Image.fromarray(photo).save(root / "a.png", icc_profile=SRGB, dpi=(300, 300))
    Image.fromarray(photo[..., 0]).save(root / "grey.png")
    Image.fromarray(photo).save(
        root / "b.jpg", quality=97, exif=photograph_exif(6), icc_profile=SRGB, dpi=(72, 72)
    )
    rgba = np.dstack([photo, photo[..., :1]])
    Image.fromarray(rgba).save(root / "see-through.png")
    tifffile.imwrite(root / "deep.tif", deep, photometric="rgb", iccprofile=SRGB,
                     resolution=(118, 118), resolutionunit="centimeter")  # fmt: skip
    tifffile.imwrite(root / "tiled.tif", deep, photometric="rgb", tile=(32, 32), compression="zlib")
    tifffile.imwrite(root / "big.tif", photo, photometric="rgb", bigtiff=True)
    stack = np.stack([photo[..., 0], photo[..., 1], photo[..., 2]]).astype(np.float32) / 255
    tifffile.imwrite(inner / "pages.tif", stack, photometric="minisblack")
    about = {"axes": "ZYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm",
             "PhysicalSizeY": 0.25, "PhysicalSizeYUnit": "µm", "PhysicalSizeZ": 1.5}  # fmt: skip
    tifffile.imwrite(inner / "cells.ome.tif", (stack * 4000).astype(np.uint16), ome=True,
                     metadata=about)  # fmt: skip
    array = zarr.create_array(str(inner / "plain.zarr"), shape=stack.shape, dtype=stack.dtype)
    array[:] = stack
    group = zarr.create_group(str(inner / "image.ome.zarr"))
    group.create_array("full", shape=stack.shape, dtype=stack.dtype)[:] = stack
    scale = [{"type": "scale", "scale": [2.0, 0.5, 0.5]}]
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"],
                "datasets": [{"path": "full", "coordinateTransformations": scale}],
            }
        ],
    }
    write_dng(root / "camera.dng")
    (root / "notes.txt").write_text("no image")
    (root / ".hidden.png").write_bytes(b"no image either")
    (root / "broken.png").write_bytes((root / "a.png").read_bytes()[:300])
    (root / "broken.jpg").write_bytes(b"nothing")
    (inner / "broken.tif").write_bytes(b"II*\0nothing")
    (inner / "broken.zarr").mkdir()
    (inner / "broken.zarr" / "zarr.json").write_text("{")
    return root


BROKEN = {"broken.png", "broken.jpg", "broken.tif", "broken.zarr"}
WHOLE = {
    "a.png", "grey.png", "b.jpg", "see-through.png", "deep.tif", "tiled.tif", "big.tif",
    "pages.tif", "cells.ome.tif", "plain.zarr", "image.ome.zarr", "camera.dng",
}  # fmt: skip


def names(root):
    found = set()
    for path in root.rglob("*"):
        if not any(parent.suffix == ".zarr" for parent in path.parents):
            if path.is_file() or path.suffix == ".zarr":
                found.add(str(path.relative_to(root)))
    return found


def as_jpeg(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95, subsampling=0)
    return np.asarray(Image.open(buffer))


def test_every_format_and_some_broken_files(folder, models, tmp_path, capsys):
    out = tmp_path / "out"
    call = ["deblur", str(folder), "-o", str(out), "--model", str(models[0]), "--json"]
    assert main(call) == 1
    said = capsys.readouterr()
    outcomes = {os.path.basename(o["input"]): o for o in json.loads(said.out)}
    assert {name for name, o in outcomes.items() if o["state"] == "failed"} == BROKEN
    assert {name for name, o in outcomes.items() if o["state"] == "made"} == WHOLE
    assert "12 made, 4 failed" in said.err
    for name in BROKEN:
        assert f"{name}: cannot be read" in said.err
    below = os.path.join("session 2", "day 10")
    inner = {"pages.tif", "cells.ome.tif", "plain.zarr", "image.ome.zarr"}
    expected = (WHOLE - inner - {"camera.dng"}) | {"camera.tif"}
    assert names(out) == expected | {os.path.join(below, name) for name in inner}

    for name in WHOLE:
        path = next(folder.rglob(name))
        target = out / path.relative_to(folder).with_name(name.replace(".dng", ".tif"))
        source, result = read_image(path), read_image(target)
        made = kpac.deblur(source, models[0])
        assert result.dtype == source.dtype
        expected = as_jpeg(made.image) if name.endswith("jpg") else made.image
        assert np.array_equal(result, expected)
        assert description_of(target)["fingerprint"] == made.recipe.fingerprint

    with Image.open(out / "a.png") as image:
        assert image.info["icc_profile"] == SRGB
        assert tuple(map(round, image.info["dpi"])) == (300, 300)
    with Image.open(out / "b.jpg") as image:
        assert image.size == (64, 80)
        assert image.info["icc_profile"] == SRGB
        assert image.getexif().get(0x0112, 1) == 1
        assert float(image.getexif().get_ifd(0x8769)[EXPOSURE]) == pytest.approx(0.02)
    assert np.array_equal(
        read_image(out / "see-through.png")[..., 3], read_image(folder / "see-through.png")[..., 3]
    )
    with tifffile.TiffFile(out / "deep.tif") as file:
        page = file.pages.first
        assert page.tags["InterColorProfile"].value == SRGB
        assert (page.tags["XResolution"].value, page.resolutionunit) == ((118, 1), 3)
    with tifffile.TiffFile(out / "big.tif") as file:
        assert file.is_bigtiff
    with tifffile.TiffFile(out / below / "cells.ome.tif") as file:
        pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
        assert (pixels["PhysicalSizeX"], pixels["PhysicalSizeZ"]) == (0.25, 1.5)
    group = zarr.open(str(out / below / "image.ome.zarr"), mode="r")
    (image,) = group.attrs["ome"]["multiscales"]
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == [2.0, 0.5, 0.5]
    assert group.attrs["napari_kpac"]["format"] == "napari-kpac-recipe"
    assert not list(out.rglob(".*"))

    # What is done is skipped; what was broken is tried again.
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert main(call) == 1
    again = json.loads(capsys.readouterr().out)
    assert sorted(o["state"] for o in again) == ["failed"] * 4 + ["skipped"] * 12
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before


def test_maps_of_the_same_inputs(folder, models, tmp_path, capsys):
    for name in ("pages.tif", "cells.ome.tif", "plain.zarr"):
        next(folder.rglob(name)).rename(folder / f"x-{name}")
    out = tmp_path / "maps"
    flags = ["--model", str(models[0]), "--upsampling", "1", "--format", "tiff"]
    assert main(["blur-map", str(folder), "-o", str(out), *flags, "--json"]) == 1
    said = capsys.readouterr()
    assert "12 made, 4 failed" in said.err
    made = [o for o in json.loads(said.out) if o["state"] == "made"]
    assert len(made) == len(WHOLE)
    for outcome in made:
        source = read_image(Path(outcome["input"]))
        expected = kpac.blur_map(source, models[0], upsampling=1)
        np.testing.assert_allclose(tifffile.imread(outcome["output"][0]), expected, atol=1e-6)
    with tifffile.TiffFile(next(out.rglob("x-cells.ome-blur*.tif"))) as file:
        assert file.imagej_metadata["unit"] == "um"
        assert file.pages.first.tags["XResolution"].value == (4, 1)
    call = ["attention", str(folder), "-o", str(out / "alpha"), *flags[:2], "--tiff"]
    assert main(call) == 1
    assert len(list((out / "alpha").rglob("*-block2-alpha3.tif"))) == 8 + 4 * 3
    capsys.readouterr()
    assert main(call) == 1
    assert "12 done before, 4 failed" in capsys.readouterr().err
