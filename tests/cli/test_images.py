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
        ["--method", "ebdb", "--gains", "1,1,1,1,0"],
        ["--method", "nosuch"],
        ["--memory", "lots"],
        ["--strength", "-3"],
        ["--strength", "strong"],
        ["--threads", "some"],
        ["--tile", "big"],
        ["--rgb-channels", "0,1"],
        ["--rgb-channels", "0,1", "--channel-axis", "0"],
        ["--defocus-map", "blur.tif"],
        ["--left", "left.png"],
        ["--unknown"],
    ],
)
def test_mistakes_in_the_call(photo, tmp_path, flags, capsys):
    target = tmp_path / "o.png"
    assert exit_code("deblur", photo, "-o", target, *flags) == 2
    said = capsys.readouterr().err
    assert flags[0].strip("-").split("-")[0] in said
    for name in ("_gains value", "read value"):  # of our functions
        assert name not in said
    assert not target.exists()


def exit_code(*arguments):
    try:
        return main([*map(str, arguments)])
    except SystemExit as stop:
        return stop.code


def test_gains_that_are_no_numbers_are_explained(photo, tmp_path, capsys):
    assert exit_code("deblur", photo, "-o", tmp_path / "o.png", "--gains", "a,b") == 2
    assert "gains='a,b': give numbers like 1,1,1,0.5,0" in capsys.readouterr().err


def test_an_unknown_ending_makes_no_folder(photo, tmp_path, capsys):
    target = tmp_path / "q.xyz"
    for command in ("deblur", "blur-map"):
        assert exit_code(command, photo, "-o", target) == 2
        said = capsys.readouterr().err
        assert "must end in one of .png, " in said
        assert ".tif" in said
        assert not target.exists()
    target.mkdir()
    assert exit_code("deblur", photo, "-o", target) == 0
    assert (target / "photo.png").exists()


def test_without_an_output_the_result_lies_beside_the_image(tmp_path, capsys, monkeypatch):
    from skimage import data

    image = tmp_path / "holiday.jpg"
    Image.fromarray(data.coffee()[:64, :80]).save(image)
    before = image.read_bytes()
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "holiday-deblurred.jpg"
    assert exit_code("deblur", "holiday.jpg") == 0
    assert "holiday.jpg -> holiday-deblurred.jpg" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {image.name, target.name}
    made = target.read_bytes()
    target.write_bytes(b"somebody's own")
    assert exit_code("deblur", "holiday.jpg") == 1
    assert "is there already" in capsys.readouterr().err
    assert target.read_bytes() == b"somebody's own"
    assert exit_code("deblur", "holiday.jpg", "--overwrite") == 0
    assert target.read_bytes() == made
    assert image.read_bytes() == before
    assert exit_code("deblur", "holiday.jpg", "--to", "png") == 0
    assert (tmp_path / "holiday-deblurred.png").exists()
    for several in (["holiday.jpg", target], [tmp_path]):
        assert exit_code("deblur", *several) == 2
        assert "need a folder for their results" in capsys.readouterr().err


def test_attention_does_no_more_than_it_must(photo, tmp_path, capsys, monkeypatch):
    from napari_kpac.engine.stages import Stages

    def refuse(*_):
        raise AssertionError("the decoder has nothing to do here")

    monkeypatch.setattr(Stages, "decode", refuse)
    maps = tmp_path / "maps"
    assert exit_code("attention", photo, "-o", maps, "--dry-run") == 0
    planned = capsys.readouterr().err
    assert f"{maps / 'photo-*alpha*.png'}" in planned
    assert exit_code("attention", photo, "-o", maps) == 0
    said = capsys.readouterr()
    assert len(list(maps.iterdir())) == 10
    assert f"{maps / 'photo-block1-alpha1.png'} and 9 more" in said.err
    for text in (planned, said.err, said.out):
        assert str(maps / "photo.png") not in text
    assert {*map(str, maps.iterdir())} == {*said.out.split()}


def test_attention_refuses_at_once_what_it_cannot_do(photo, tmp_path, capsys, monkeypatch):
    from napari_kpac.batch.deblur import AttentionAction

    monkeypatch.setattr(AttentionAction, "prepare", None)
    assert exit_code("attention", photo, "-o", tmp_path / "maps.png") == 2
    assert "maps.png: name a folder" in capsys.readouterr().err
    assert exit_code("attention", photo, "-o", tmp_path / "maps", "--method", "ebdb") == 2
    assert "'ebdb' has no attention" in capsys.readouterr().err
    assert not (tmp_path / "maps").exists()


def test_gains_that_do_not_fit_the_network_are_named(photo, tmp_path, capsys):
    assert main(["deblur", str(photo), "-o", str(tmp_path / "o.png"), "--gains", "1,2"]) == 2
    assert "2 block(s) of 5 dilations" in capsys.readouterr().err


def test_work_that_fails_says_why_and_writes_nothing(photo, tmp_path, capsys):
    bad, target = tmp_path / "bad.png", tmp_path / "o.png"
    bad.write_bytes(b"nothing")
    for arguments, code, word in (
        ([bad, "-o", target], 1, "bad.png"),
        ([tmp_path / "no.png", "-o", target], 1, "no such file"),
        ([photo, "-o", photo], 2, "over the input"),
        ([photo, photo, "-o", target], 2, "folder"),
        ([photo, "-o", target, "--left", photo], 2, "together"),
    ):
        assert exit_code("deblur", *arguments) == code
        assert word in capsys.readouterr().err
    assert not target.exists()


def test_an_image_of_nothing_but_nan_is_refused(tmp_path, capsys):
    image = tmp_path / "empty.tif"
    tifffile.imwrite(image, np.full((40, 56), np.nan, np.float32))
    for command in ("deblur", "attention", "blur-map"):
        target = tmp_path / ("maps" if command == "attention" else "o.tif")
        assert exit_code(command, image, "-o", target) == 1
        assert "empty.tif: the image has no finite value" in capsys.readouterr().err
    assert not (tmp_path / "o.tif").exists()
