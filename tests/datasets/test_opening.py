"""Datasets from their options, and options that load nothing heavy."""

import argparse
import subprocess
import sys

import numpy as np
import pytest

from napari_kpac import KpacError
from napari_kpac.cli.common import add_options, given_options
from napari_kpac.datasets import DataOptions, open_masked, open_pairs
from tests.datasets.making import image, save


def test_dpdd(tmp_path):
    for view in "clr":
        for what in ("source", "target"):
            save(tmp_path / f"val_{view}/{what}/a.png", image(ord(view)))
    options = DataOptions(kind="dpdd", root=tmp_path, split="val", dual=True, bits=16)
    assert options.root == str(tmp_path)
    pairs = open_pairs(options)
    assert (len(pairs), pairs.dual) == (1, True)
    np.testing.assert_allclose(pairs[0].views[0], image(ord("l")) / 65535, atol=1e-7)


def test_folders(tmp_path):
    save(tmp_path / "b/a.png", image(0))
    save(tmp_path / "s/a.png", image(1))
    (tmp_path / "s/z.png").write_bytes(b"")
    asked = {"kind": "pairs", "root": tmp_path / "b", "sharp": tmp_path / "s"}
    with pytest.raises(KpacError, match=r"z\.png"):
        open_pairs(DataOptions(**asked))
    pairs = open_pairs(DataOptions(**asked, skip_bad=True))
    assert (len(pairs), pairs.name(0)) == (1, "a")


def test_masks(tmp_path):
    save(tmp_path / "image/a.png", image(0))
    save(tmp_path / "gt/a.png", np.full((24, 36), 255, np.uint8))
    options = DataOptions(kind="cuhk", root=tmp_path, blurred="black")
    assert not open_masked(options)[0].mask.any()
    with pytest.raises(KpacError, match="cuhk dataset has no pairs"):
        open_pairs(options)
    with pytest.raises(KpacError, match="pairs dataset has no masks"):
        open_masked(DataOptions(kind="pairs", root=tmp_path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "imagenet"}, "must be one of synthetic, dpdd, pairs, cuhk"),
        ({"root": ""}, "name the folder"),
        ({"split": "all"}, "must be one of train"),
        ({"bits": 12}, "bits=12: must be one of 8, 16"),
        ({"kind": "cuhk"}, "white or black"),
        ({"kind": "cuhk", "blurred": "grey"}, "white or black"),
        ({"kind": "dpdd", "blurred": "white"}, "blurred goes with kind cuhk"),
        ({"kind": "pairs", "dual": True}, "dual goes with kind synthetic or dpdd"),
        ({"kind": "dpdd", "sharp": "x"}, "sharp goes with kind pairs"),
    ],
)
def test_options_without_sense_are_refused(changes, words):
    with pytest.raises(KpacError, match=words):
        DataOptions(**{"kind": "dpdd", "root": "x"} | changes)


def test_flags_are_made_of_the_options():
    parser = argparse.ArgumentParser()
    add_options(parser, DataOptions)
    call = ["--kind", "cuhk", "--root", "x", "--blurred", "white", "--skip-bad"]
    options = DataOptions(**given_options(parser.parse_args(call), DataOptions))
    assert options == DataOptions(kind="cuhk", root="x", blurred="white", skip_bad=True)


def test_options_load_nothing_heavy():
    heavy = "{'torch', 'napari', 'skimage', 'scipy', 'tifffile', 'PIL'}"
    code = (
        "import sys; from napari_kpac.datasets import Augmentation, DataOptions; "
        "DataOptions(kind='dpdd', root='x'); Augmentation(); "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
