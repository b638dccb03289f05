"""Cost, attention, modulation and limits, as the commands write them."""

import json

import numpy as np
import pytest
import torch
from skimage.io import imread, imsave

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.evaluation.plots import line_plot
from napari_kpac.network import count_parameters
from napari_kpac.reproduction import cost as costing
from napari_kpac.reproduction.figures import attention_figure, modulation_figure


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "own.png"
    pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    imsave(path, pixels, check_contrast=False)
    return path


def test_cost_is_measured_in_a_process_for_each_network(capsys):
    chosen = ["KPAC (3-level)", "DMENet", "EBDB", "JNB"]
    call = ["reproduce", "cost", "--size", "64x32", "--repeats", "1", "--json"]
    assert main([*call, *(part for label in chosen for part in ("--network", label))]) == 0
    rows = {row["label"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == chosen
    for row in rows.values():
        assert row["seconds"] > 0
        # What compiles an estimator takes more than a small image.
        assert 0 <= row["forward"] < row["peak"]
    assert rows["KPAC (3-level)"]["forward"] > 0
    assert rows["KPAC (3-level)"]["flops"] > rows["KPAC (3-level)"]["flops_paper_way"]
    assert rows["KPAC (3-level)"]["parameters"] == 2_059_053
    assert rows["KPAC (3-level)"]["paper_flops"] == 197
    assert rows["DMENet"]["parameters"] == 26_939_819
    assert rows["DMENet"]["paper_parameters"] == 26.94
    assert rows["JNB"]["parameters"] is rows["EBDB"]["flops"] is None
    table = costing.cost_table([costing.CostRow(**row) for row in rows.values()])
    assert [cells[0] for cells in table.rows] == chosen
    assert table.rows[3][1:6] == ("-",) * 5
    fastest = min(rows[label]["cpu_seconds"] for label in chosen[:2])
    assert table.rows[3][8] == f"{rows['JNB']['cpu_seconds'] / fastest:.2f}"


def test_everything_is_measured_unless_something_is_named(capsys):
    assert costing.MEASURED[-3:] == ("DMENet", "EBDB", "JNB")
    assert set(costing.MEASURED) >= {network.label for network in costing.NETWORKS}
    assert main(["reproduce", "cost", "--network", "UNet"]) == 2
    assert "'UNet': choose among KPAC (2-level)" in capsys.readouterr().err


def test_every_network_of_the_cost_table_runs():
    expected = {
        "KPAC (dual)": 2_062_653, "residual baseline": 2_259_843, "DMENet": 26_939_819,
    }  # fmt: skip
    for network in costing.NETWORKS:
        with torch.device("meta"):
            net = network.make().eval()
            made = net(torch.empty(network.shape((32, 48))))
        if network.label == "DMENet":  # a map of the defocus, not an image
            assert [tuple(each.shape) for each in made] == [(1, 1, 32, 48)]
        else:
            assert made.shape == (1, 3, 32, 48)
        if network.label in expected:
            assert count_parameters(net) == expected[network.label]


def test_dmenet_stands_beside_the_paper_s_figures():
    counted = {row.label: row for row in costing.parameter_tables()["comparison"]}
    assert counted["DMENet"].paper == 26.94
    assert f"{counted['DMENet'].ours / 1e6:.2f}" == "26.94"
    flops = {row.label: row for rows in costing.flops_tables().values() for row in rows}
    assert flops["DMENet"].paper is None
    assert flops["DMENet"].ours == flops["DMENet"].ours_paper_way == 2_264_865_177_600


def test_a_bad_size_is_refused(capsys):
    assert main(["reproduce", "cost", "--size", "100x64"]) == 2
    assert "multiples of 16" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "cost", "--size", "large"])
    assert stop.value.code == 2


def test_attention_shows_every_alpha(image, tiny_model, tmp_path, capsys):
    arguments = ["reproduce", "attention", str(image), "--model", "tiny", "-o", str(tmp_path)]
    assert main(arguments) == 0
    assert imread(tmp_path / "own-attention.png").shape[1] == 10 + 6 * 330
    means = json.loads((tmp_path / "own-attention.json").read_text())["mean alpha"]
    alpha = kpac.deblur(imread(image), "tiny").alpha_at_image()
    for block in (1, 2):
        expected = alpha[block - 1].mean(axis=(1, 2))
        np.testing.assert_allclose(means[f"block {block}"], expected, atol=1e-5)


def test_modulation_lets_each_dilation_play_alone(image, tiny_model):
    figure = modulation_figure(imread(image), "tiny")
    assert list(figure.numbers) == ["all dilations", *(f"only dilation {i}" for i in range(1, 6))]
    pixels = imread(image)
    alone = kpac.deblur(pixels, "tiny", modulation=kpac.Modulation([0, 0, 1, 0, 0])).image
    change = (alone.astype(float) - pixels) / 255
    expected = np.sqrt(np.mean(change**2))
    assert figure.numbers["only dilation 3"]["rms change"] == pytest.approx(expected, abs=1e-3)


def test_grey_images_have_figures_too(tiny_model):
    grey = np.random.default_rng(0).random((40, 48)).astype(np.float32)
    assert attention_figure(grey, "tiny").image.ndim == 3


def test_limits_show_every_case(tiny_model, tmp_path):
    assert main(["reproduce", "limits", "--model", "tiny", "-o", str(tmp_path)]) == 0
    numbers = json.loads((tmp_path / "limits.json").read_text())
    assert len(numbers) == 5
    assert (
        numbers["very large blur"]["psnr of the input"]
        < (numbers["ordinary blur, to compare"]["psnr of the input"])
    )
    assert numbers["no blur at all"]["psnr of the input"] is None


def test_a_line_plot_leaves_gaps_and_escapes():
    series = [("a<b $x$", [1.0, None, 2.0, float("inf")]), ("_flat", [1.0] * 4)]
    drawn = line_plot(series, list("wxyz"), x="x", y="y<")
    assert drawn == line_plot(series, list("wxyz"), x="x", y="y<")
    assert drawn.startswith("<svg")
    assert 'aria-label="y&lt; by x"' in drawn
    assert ">a&lt;b $x$<" in drawn
    assert ">_flat<" in drawn
    assert "nan" not in drawn.lower()
    assert "inf" not in drawn.lower()
    # A mark for each value that is known, and one for each line of the legend.
    assert drawn.count("<use ") == 2 + 4 + 2
    assert "url(" not in drawn
    assert line_plot([("nothing", [None])], ["x"], x="x", y="y").startswith("<svg")
    many = line_plot([("many", [1.0] * 30)], [""] * 30, x="x", y="y")
    assert many.count("<use ") == 0
