"""The paper's figures on inverse kernels, as the command writes them."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from skimage.io import imread

from napari_kpac.cli import main
from napari_kpac.evaluation.plots import rasterise, sheet
from napari_kpac.reproduction.inverse_kernels import kernel_image

FIGURES = (
    "kernel_example",
    "deblur_example",
    "dilated_kernels",
    "scale_triples",
    "gaussian_upsampling",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    assert main(["reproduce", "inverse-kernels", "-o", str(folder)]) == 0
    return folder


def test_every_figure_and_the_numbers_are_written(written):
    assert {path.name for path in written.iterdir()} == {
        "numbers.json",
        *(f"{name}.png" for name in FIGURES),
    }
    for name in FIGURES:
        image = imread(written / f"{name}.png")
        assert image.shape[2] == 3
        assert image.shape[1] >= 800


def test_the_numbers_bear_the_paper_out(written):
    numbers = json.loads((written / "numbers.json").read_text())
    for row in numbers["kernel_example"]:
        assert row["psnr_between"] > 40
        assert row["paper"]["psnr_between"] == 51.09
    assert {(row["kernel"], row["scale"]) for row in numbers["dilated_kernels"]} == {
        (kernel, scale) for kernel in ("disc", "gaussian") for scale in (3, 4, 5)
    }
    for row in numbers["dilated_kernels"]:
        assert row["psnr_between"] > 40
        assert row["psnr_dilated"] > row["psnr_blurred"]
    blends = [numbers["deblur_example"][0]]
    assert len(numbers["scale_triples"]) == 5
    for row in numbers["scale_triples"]:
        blends += [row["upsampled"], row["dilated"]]
    for ours in blends:
        assert ours["equal"] > 0.85
        assert ours["nnls"] >= ours["equal"]
        assert 0 <= ours["left_out"] < 0.2
        assert min(ours["weights"]) >= 0
    assert numbers["gaussian_upsampling"][0]["largest_difference_share_of_peak"] < 0.02


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "much"])
def test_a_bad_epsilon_is_a_mistake_in_the_call(tmp_path, capsys, epsilon):
    target = tmp_path / "out"
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "inverse-kernels", "-o", str(target), f"--epsilon={epsilon}"])
    assert stop.value.code == 2
    assert "epsilon" in capsys.readouterr().err
    assert not target.exists()


def test_sheets_and_plots():
    cells = [(np.zeros((300, 200)), "one"), (np.ones((9, 9, 3)), "two\nlines")]
    made = sheet("title", [cells, cells[:1]], side=100)
    assert made.dtype == np.uint8
    assert made.shape[1] == 10 + 2 * 110
    assert made[60, 20].max() == 0
    shown = kernel_image(np.array([[0, 1, 0], [0, -1, 0], [0, 0.25, 0]]), 5)
    np.testing.assert_allclose(shown[:, 1], [1, 0, 0.75])
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot(np.arange(-5.0, 6.0) ** 2, color=(0, 0, 1), linewidth=3)
    drawn = rasterise(figure)
    assert drawn.dtype == np.uint8
    assert drawn.shape == (200, 300, 3)
    assert (drawn == (0, 0, 255)).all(axis=2).any()
