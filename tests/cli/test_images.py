"""deblur, attention and blur-map on real files."""

import json

import numpy as np
import pytest
import tifffile
from PIL import Image

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import read_image, write_image


@pytest.fixture
def photo(tmp_path):
    from skimage import data

    path = tmp_path / "photo.png"
    Image.fromarray(data.coffee()[:120, :160]).save(path)
    return path


def pixels(path):
    return np.asarray(Image.open(path))


def test_deblur_writes_what_python_gives(photo, tmp_path):
    target = tmp_path / "sharp.png"
    assert main(["deblur", str(photo), "-o", str(target)]) == 0
    assert np.array_equal(pixels(target), kpac.deblur(pixels(photo)).image)
    recipe = json.loads(Image.open(target).text["Description"])
    assert recipe["model"]["name"] == "kpac-3level"


def test_recipe_round_trip(photo, tmp_path):
    first, second, recipe = tmp_path / "1.png", tmp_path / "2.png", tmp_path / "r.json"
    flags = ["--gains", "1,1,0,0,0;1,1,1,1,0.5", "--strength", "1.2", "--tile", "64"]
    saved = ["--save-recipe", str(recipe)]
    assert main(["deblur", str(photo), "-o", str(first), *flags, *saved]) == 0
    assert main(["deblur", str(photo), "-o", str(second), "--recipe", str(recipe)]) == 0
    assert first.read_bytes() == second.read_bytes()
    changed = json.loads(recipe.read_text())
    changed["model"]["sha256"] = "0" * 64
    recipe.write_text(json.dumps(changed))
    other = tmp_path / "3.png"
    assert main(["deblur", str(photo), "-o", str(other), "--recipe", str(recipe)]) == 1
    assert not other.exists()
    explicit = ["--recipe", str(recipe), "--model", "kpac-3level"]
    assert main(["deblur", str(photo), "-o", str(other), *explicit]) == 0


def test_a_folder_for_many_and_their_bit_depth(photo, tmp_path, capsys):
    deep = tmp_path / "deep.tif"
    tifffile.imwrite(deep, (pixels(photo)[..., 0].astype(np.uint16) * 16))
    real = tmp_path / "real.tiff"
    tifffile.imwrite(real, pixels(photo).astype(np.float32) / 255)
    out = tmp_path / "out"
    inputs = [str(photo), str(deep), str(real)]
    assert main(["deblur", *inputs, "-o", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert pixels(out / "photo.png").dtype == np.uint8
    assert tifffile.imread(out / "deep.tif").dtype == np.uint16
    assert tifffile.imread(out / "real.tiff").dtype == np.float32


def test_sixteen_bit_png_and_jpeg(photo, tmp_path):
    deep = tmp_path / "deep.png"
    colours = pixels(photo).astype(np.uint16) * 257 + 3
    write_image(deep, colours)
    assert np.array_equal(read_image(deep), colours)
    assert main(["deblur", str(deep), "-o", str(tmp_path / "d.png"), "--range", "dtype"]) == 0
    result = read_image(tmp_path / "d.png")
    assert result.dtype == np.uint16
    expected = kpac.deblur(pixels(photo)).image
    assert np.abs(result / 257 - expected).max() < 1.1
    assert "Description" in Image.open(tmp_path / "d.png").text
    jpeg = tmp_path / "photo.jpg"
    Image.fromarray(pixels(photo)).save(jpeg)
    assert main(["deblur", str(jpeg), "-o", str(tmp_path / "o.jpg")]) == 0
    assert pixels(tmp_path / "o.jpg").shape == (120, 160, 3)
    grey = tmp_path / "grey.png"
    Image.fromarray(pixels(photo)[..., 0].astype(np.uint16) * 257).save(grey)
    assert main(["deblur", str(grey), "-o", str(tmp_path / "g.png")]) == 0
    assert read_image(tmp_path / "g.png").dtype == np.uint16


def test_attention_and_blur_map(photo, tmp_path, capsys):
    maps = tmp_path / "maps"
    assert main(["attention", str(photo), "-o", str(maps), "--tiff"]) == 0
    assert len(list(maps.glob("photo-block*-alpha*.tif"))) == 10
    expected = kpac.deblur(pixels(photo)).alpha_at_image()
    np.testing.assert_allclose(
        tifffile.imread(maps / "photo-block2-alpha4.tif"), expected[1, 3], atol=1e-6
    )
    target = tmp_path / "blur.tif"
    assert main(["blur-map", str(photo), "-o", str(target), "--upsampling", "2"]) == 0
    np.testing.assert_allclose(
        tifffile.imread(target), kpac.blur_map(pixels(photo), upsampling=2), atol=1e-6
    )
    assert main(["blur-map", str(photo), "-o", str(maps)]) == 0
    assert pixels(maps / "photo-blur.png").shape == (120, 160)


@pytest.mark.parametrize(
    "flags",
    [
        ["--tile", "3"],
        ["--range", "9,1"],
        ["--range", "bright"],
        ["--gains", "a,b"],
        ["--memory", "x"],
        ["--precision", "double"],
        ["--gains", "1,2"],
        ["--unknown"],
    ],
)
def test_mistakes_in_the_call(photo, tmp_path, flags):
    target = tmp_path / "o.png"
    try:
        code = main(["deblur", str(photo), "-o", str(target), *flags])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert not target.exists()


def test_gains_that_do_not_fit_the_network_are_named(photo, tmp_path, capsys):
    assert main(["deblur", str(photo), "-o", str(tmp_path / "o.png"), "--gains", "1,2"]) == 2
    assert "2 block(s) of 5 dilations" in capsys.readouterr().err


def test_work_that_fails_says_why_and_writes_nothing(photo, tmp_path, capsys):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    for arguments, word in (
        ([str(bad), "-o", str(tmp_path / "o.png")], "bad.png"),
        ([str(tmp_path / "no.png"), "-o", str(tmp_path / "o.png")], "no such file"),
        ([str(photo), "-o", str(photo)], "over the input"),
        ([str(photo), str(photo), "-o", str(tmp_path / "o.png")], "folder"),
        ([str(photo), "-o", str(tmp_path / "o.png"), "--left", str(photo)], "together"),
    ):
        assert main(["deblur", *arguments]) == 1
        assert word in capsys.readouterr().err
    assert not (tmp_path / "o.png").exists()
