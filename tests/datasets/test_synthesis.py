"""Synthetic pairs on disk: layout, restart, determinism, and refusals."""

import json

import numpy as np
import pytest
import tifffile
from skimage import data
from skimage.io import imread, imsave

from napari_kpac import KpacError
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.datasets.pairs import read_radius, write_radius
from napari_kpac.images import read_image


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    sharp = data.coffee()
    for i in range(7):
        imsave(folder / f"p{i}.png", sharp[i * 30 : i * 30 + 48, 100:164], check_contrast=False)
    (folder / "notes.txt").write_text("no image")
    return folder


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def make(photos, output, **changes):
    return synthesise([photos], output, SynthesisOptions(**changes))


def test_the_layout_is_that_of_dpdd(photos, tmp_path):
    result = finish(make(photos, tmp_path / "pairs", dual=True))
    assert (result.made, result.kept, result.skipped) == (7, 0, {})
    folder = tmp_path / "pairs"
    assert {p.name for p in folder.iterdir()} == {"synthesis.json"} | {
        f"{split}_{view}" for split in ("train", "val", "test") for view in "clr"
    }
    counts = {
        s: len(list((folder / f"{s}_c" / "source").iterdir())) for s in ("train", "val", "test")
    }
    assert counts == {"train": 5, "val": 1, "test": 1}
    for split in counts:
        names = {p.stem for p in (folder / f"{split}_c" / "source").iterdir()}
        for view in "clr":
            for what in ("source", "target"):
                assert {p.stem for p in (folder / f"{split}_{view}" / what).iterdir()} == names
        for name in names:
            target = imread(folder / f"{split}_c" / "target" / f"{name}.png")
            np.testing.assert_array_equal(target, imread(photos / f"{name}.png"))
            source = imread(folder / f"{split}_c" / "source" / f"{name}.png")
            assert source.dtype == np.uint8
            assert source.shape == target.shape
            radius = read_radius(folder / f"{split}_c" / "radius" / f"{name}.tif")
            assert radius.shape == target.shape[:2]
            assert np.abs(radius).max() <= 8.5


def test_it_goes_on_where_it_stopped_and_repeats_itself(photos, tmp_path):
    steps = make(photos, tmp_path / "pairs")
    assert next(steps).total == 7
    next(steps)
    steps.close()
    folder = tmp_path / "pairs"
    assert len(list(folder.rglob("*.tif"))) == 2
    assert not [name for name in files(folder) if "/." in name]
    result = finish(make(photos, tmp_path / "pairs"))
    assert (result.made, result.kept) == (5, 2)
    finish(make(photos, tmp_path / "again"))
    assert files(folder) == files(tmp_path / "again")
    for name in files(folder):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_other_options_do_not_mix(photos, tmp_path):
    finish(make(photos, tmp_path / "pairs"))
    with pytest.raises(KpacError, match="other options"):
        finish(make(photos, tmp_path / "pairs", seed=1))
    (photos / "p6.png").unlink()
    with pytest.raises(KpacError, match="other photographs"):
        finish(make(photos, tmp_path / "pairs"))


def test_bad_photographs_are_named_and_left_out_only_when_asked(photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"not an image")
    imsave(photos / "tiny.png", np.zeros((1, 1, 3), np.uint8), check_contrast=False)
    with pytest.raises(KpacError, match=r"broken\.jpg"):
        finish(make(photos, tmp_path / "pairs"))
    result = finish(make(photos, tmp_path / "pairs", skip_bad=True))
    assert {name.rsplit("/", 1)[-1] for name in result.skipped} == {"broken.jpg", "tiny.png"}
    assert result.made + result.kept == 7


def test_several_pairs_of_a_photograph_stay_in_one_split(photos, tmp_path):
    finish(make(photos, tmp_path / "pairs", per_photo=3, size=40))
    splits = {}
    for path in (tmp_path / "pairs").rglob("source/*.png"):
        splits.setdefault(path.stem[:2], set()).add(path.parts[-3])
        assert max(imread(path).shape[:2]) == 40
    assert len(splits) == 7
    assert all(len(found) == 1 for found in splits.values())


def test_sixteen_bits_grey_alpha_and_equal_names(tmp_path):
    grey = data.camera()[:40, :48]
    for folder, image in (("a", grey), ("b", np.dstack([grey] * 3 + [grey]))):
        (tmp_path / folder).mkdir()
        imsave(tmp_path / folder / "x.png", image, check_contrast=False)
    given = [tmp_path / "a" / "x.png", tmp_path / "b"]
    finish(synthesise(given, tmp_path / "out", SynthesisOptions(bits=16, val=0, test=0)))
    sources = tmp_path / "out" / "train_c" / "source"
    assert {p.name for p in sources.iterdir()} == {"x.png", "x_2.png"}
    target = read_image(tmp_path / "out" / "train_c" / "target" / "x.png")
    np.testing.assert_array_equal(target[:, :, 0], grey.astype(np.uint16) * 257)
    source = read_image(sources / "x.png")
    assert (source % 257 != 0).any()


def test_radius_maps_keep_sign_and_scale(tmp_path):
    radius = np.linspace(-100, 100, 30, dtype=np.float32).reshape(5, 6)
    path = write_radius(tmp_path / "r.tif", radius)
    with tifffile.TiffFile(path) as file:
        assert file.asarray().dtype == np.uint16
        assert json.loads(file.pages[0].description)["unit"] == "px"
    np.testing.assert_allclose(read_radius(path), radius, atol=1 / 500)
    with pytest.raises(KpacError, match="do not fit"):
        write_radius(tmp_path / "r.tif", radius * 2)
    tifffile.imwrite(tmp_path / "plain.tif", np.zeros((3, 3), np.uint16))
    with pytest.raises(KpacError, match="no radius map"):
        read_radius(tmp_path / "plain.tif")
    with pytest.raises(KpacError, match="no radius map"):
        read_radius(tmp_path / "missing.tif")


@pytest.mark.parametrize(
    "changes",
    [
        {"per_photo": 0},
        {"val": 0.8, "test": 0.5},
        {"bits": 12},
        {"scene": "cave"},
        {"aperture": "square"},
        {"max_radius": -1.0},
        {"size": 3},
        {"layers": 0},
        {"shot": -1.0},
        {"highlights": 99.0},
        {"seed": -1},
        {"val": float("nan")},
    ],
)
def test_bad_options_are_refused(changes):
    with pytest.raises(KpacError):
        SynthesisOptions(**changes)


def test_nothing_to_do_is_an_error(tmp_path):
    with pytest.raises(KpacError, match="no photographs"):
        finish(make(tmp_path, tmp_path / "out"))
    with pytest.raises(KpacError, match="there is no"):
        finish(make(tmp_path / "x", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_bad_values_are_mistakes_in_the_call(photos, capsys):
    for wrong in (["--scene", "cave"], ["--bits", "12"], ["--largest", "-3"]):
        assert main(["synthesise", str(photos), "-o", str(photos / "out"), *wrong]) == 2
    assert "no scene is called 'cave'" in capsys.readouterr().err
    assert not (photos / "out").exists()


def test_the_command(photos, tmp_path, capsys):
    call = ["synthesise", str(photos), "-o", str(tmp_path / "out"), "--largest", "3", "--json"]
    assert main([*call, "--no-near", "--scene", "tilted"]) == 0
    assert json.loads(capsys.readouterr().out)["made"] == 7
    record = json.loads((tmp_path / "out" / "synthesis.json").read_text())
    assert record["options"]["near"] is False
    assert record["options"]["max_radius"] == 3
    assert main([*call[:-1], "--no-near", "--scene", "tilted"]) == 0
    assert "0 pairs made, 7 kept" in capsys.readouterr().out
    assert main(call) == 2
    assert "other options" in capsys.readouterr().err
    (photos / "broken.jpg").write_bytes(b"")
    assert main(["synthesise", str(photos), "-o", str(tmp_path / "o2"), "--skip-bad"]) == 0
    seen = capsys.readouterr()
    assert "1 photographs left out" in seen.out
    assert "broken.jpg" in seen.err


def test_folders_and_calls_of_before_say_largest(photos, tmp_path, capsys):
    """The option is max_radius today."""
    call = ["synthesise", str(photos), "-o", str(tmp_path / "out")]
    assert main([*call, "--largest", "3"]) == 0
    path = tmp_path / "out" / "synthesis.json"
    record = json.loads(path.read_text())
    record["options"]["largest"] = record["options"].pop("max_radius")
    path.write_text(json.dumps(record))
    assert main([*call, "--max-radius", "3"]) == 0
    assert "0 pairs made, 7 kept" in capsys.readouterr().out
    assert main([*call, "--max-radius", "4"]) == 2
    assert "other options" in capsys.readouterr().err
