"""Evaluations end to end: in Python, in a terminal, killed and resumed, into a page."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from skimage.io import imread, imsave
from skimage.metrics import peak_signal_noise_ratio

import napari_kpac as kpac
from napari_kpac import KpacError
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.datasets import DataOptions, open_pairs
from napari_kpac.evaluation.report import best_and_worst
from napari_kpac.evaluation.results import Results, Row, summarise
from napari_kpac.evaluation.study import with_noise
from napari_kpac.evaluation.tables import tables_of
from napari_kpac.weights import ModelCard, save_network
from tests.engine.conftest import tiny_net

METHODS = ("ebdb", "jnb", "wiener", "richardson-lucy", "unsharp")


def options(root, **changes):
    return kpac.EvaluateOptions(
        **{"kind": "dpdd", "root": str(root), "model": ("tiny",), "lpips": False, **changes}
    )


def test_rows_are_what_the_parts_give(dpdd, tiny_model):
    found = finish(kpac.evaluate(options(dpdd, method=METHODS)))
    pairs = open_pairs(DataOptions(kind="dpdd", root=str(dpdd), split="val"))
    assert [line.method for line in found.lines] == ["input", "tiny", *METHODS]
    assert len(found.results.rows) == 4 * 7
    for index in range(4):
        pair = pairs[index]
        restored = np.clip(kpac.deblur(pair.blurred, "tiny", range="unit").image, 0, 1)
        for name, image in (("input", pair.blurred), ("tiny", restored)):
            expected = peak_signal_noise_ratio(pair.sharp, image, data_range=1)
            row = found.results.find((pair.name, name, 0.0))
            assert row.scores["psnr"] == pytest.approx(expected, abs=1e-3)
    for line in found.lines:
        rows = [row.scores["mae"] for row in found.results.rows if row.method == line.method]
        assert line.means["mae"] == pytest.approx(np.mean(rows), abs=1e-12)
    by_name = {line.method: line for line in found.lines}
    assert by_name["input"].gains["psnr"] == 0
    assert set(by_name["tiny"].separation) == {f"alpha{i}" for i in range(1, 6)}


def test_the_share_through_alpha_is_the_cost_of_muting_everything_over_the_gain():
    """By hand: two images, of which only the second has pixels of 4 to 8 px."""
    places = ("all", "0-1 px", "1-2 px", "2-4 px", "4-8 px")
    blurred = {"a": (20, 30, 20, 20, None), "b": (22, 30, 22, 24, 26)}
    gained = {"input": (0, 0, 0, 0, 0), "net": (2, -1, 1, 2, 3), "bad": (-1, -1, -1, -1, -1)}
    lost = {"net": (1.5, 0, 1, 1.5, 2), "bad": (1, 1, 1, 1, 1)}
    results = Results([])
    for image, values in blurred.items():
        for method, gains in gained.items():
            less = 0.5 if image == "b" and method != "input" else 0.0
            scores = {}
            for i, place in enumerate(places):
                if values[i] is None:
                    continue
                name = "" if place == "all" else f" {place}"
                scores[f"psnr{name}"] = values[i] + gains[i] - less
                if method in lost:
                    name = name and f" at{name}"
                    scores[f"cost of muting everything{name}"] = lost[method][i]
            results.add(Row(image, method, 0.0, scores))
    _, net, bad = summarise(results)
    gains = 1 - 0.25, 2 - 0.25, 3 - 0.5
    assert net.mean_gain == pytest.approx(sum(gains) / 3)
    assert net.share_through_alpha == {
        "all pixels": pytest.approx(1.5 / 1.75),
        "1-8 px": pytest.approx((1 + 1.5 + 2) / sum(gains)),
    }
    assert net.muted_gains["all pixels"] == pytest.approx(0.25)
    assert net.muted_gains["1-8 px"] == pytest.approx((sum(gains) - 4.5) / 3)
    assert net.worst_gain == pytest.approx(1.5)
    # Where nothing is gained there is nothing to share.
    assert bad.share_through_alpha == {}
    assert bad.worst_gain == pytest.approx(-1.5)


def test_muting_and_gains_are_shown_at_every_noise(dpdd, tiny_model, tmp_path, capsys):
    arguments = ["evaluate", "--dataset", "dpdd", "--root", str(dpdd), "--model", "tiny"]
    arguments += ["--noise", "0,1,3", "--limit", "2", "--no-lpips", "-o", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    lines = {(line["method"], line["noise"]): line for line in summary["lines"]}
    gains = printed.partition("PSNR above the input's by radius")[2].partition("\n\n")[0]
    through = printed.partition("the share that comes through alpha")[2].partition("\n\n")[0]
    costs = printed.partition("Cost of muting alphas by radius")[2].partition("\n\n")[0]
    page = (tmp_path / "report.html").read_text()
    for noise in (0, 1, 3):
        line, base = lines["tiny", noise], lines["input", noise]
        row = re.search(rf"^tiny +{noise} .*", gains, re.MULTILINE)[0].split()
        assert row[2:4] == [
            f"{line['means'][name] - base['means'][name]:.2f}"
            for name in ("psnr 0-1 px", "psnr 1-2 px")
        ]
        means = line["means"]
        shown = re.findall(rf"^tiny +{noise} +(everything|dilation \d)(.*)", costs, re.MULTILINE)
        assert [name for name, _ in shown] == [
            "everything",
            *(f"dilation {i}" for i in range(1, 6)),
        ]
        for name, cells in shown:
            assert cells.split()[0] == f"{means[f'cost of muting {name} at 0-1 px']:.2f}"
            assert cells.split()[-1] == f"{means[f'cost of muting {name}']:.2f}"
            assert f"<td>{name}</td><td>{cells.split()[0]}</td>" in page
        row = re.search(rf"^tiny +{noise} .*", through, re.MULTILINE)[0].split()
        assert row[2] == f"{line['worst_gain']:.2f}"
        assert row[4] == f"{line['muted_gains']['all pixels']:.2f}"
        expected = line["gains"]["psnr"] - means["cost of muting everything"]
        assert line["muted_gains"]["all pixels"] == pytest.approx(expected)
    noisy = [lines["tiny", noise]["means"] for noise in (0, 1, 3)]
    assert len({round(each["sharp kept"], 3) for each in noisy}) == 3
    assert len({round(each["cost of muting everything at 1-2 px"], 4) for each in noisy}) == 3


def test_a_fit_of_the_exposure_leaves_only_the_blur(folders, tiny_model, tmp_path):
    """The same pairs, the sharp images of which are darker by what a fit finds."""
    for what, gain, offset in (("source", 1.0, 0.0), ("target", 0.5, 20.0)):
        for path in (folders / what).iterdir():
            values = imread(path) * gain + offset
            (tmp_path / what).mkdir(exist_ok=True)
            imsave(tmp_path / what / path.name, values.round().astype(np.uint8))
    lines = {}
    for name, root, fit in (("same", folders, True), ("dark", tmp_path, True),
                            ("plain", tmp_path, False)):  # fmt: skip
        given = options(root, kind="pairs", method=("unsharp",), fit_exposure=fit)
        found = finish(kpac.evaluate(given))
        lines[name] = {line.method: line for line in found.lines}
        assert ("fitted to the truth" in tables_of(found)[0].note) is fit
    for method in ("input", "tiny", "unsharp"):
        same, dark, plain = (lines[name][method] for name in ("same", "dark", "plain"))
        # Half the contrast is half the error, but for clipping and rounding.
        half = 20 * np.log10(2)
        assert dark.means["psnr"] - same.means["psnr"] == pytest.approx(half, abs=0.1)
        assert dark.gains["psnr"] == pytest.approx(same.gains["psnr"], abs=0.1)
        assert plain.means["psnr"] < dark.means["psnr"] - 3
    same, dark = (lines[name]["tiny"] for name in ("same", "dark"))
    assert dark.muted_gains["all pixels"] == pytest.approx(same.muted_gains["all pixels"], abs=0.1)
    assert dark.worst_gain == pytest.approx(same.worst_gain, abs=0.1)


def test_a_image_that_is_opened_and_a_case_are_fitted_as_the_scores_are(folders, tiny_model):
    found = finish(kpac.evaluate(options(folders, kind="pairs", fit_exposure=True)))
    index = found.study.keys.index(("c0", "tiny", 0.0))
    shown = found.study.images(index)
    score = found.results.find(("c0", "tiny", 0.0)).scores["psnr"]
    expected = peak_signal_noise_ratio(shown["sharp"], shown["tiny"], data_range=1)
    assert score == pytest.approx(expected, abs=1e-3)
    for case in best_and_worst(found.study, found.results):
        row = found.results.find((case.image, "tiny", 0.0))
        assert case.crops[1][1] == f"tiny, {row.scores['psnr']:.2f} dB"


def test_pairs_are_of_the_split_that_the_manifest_says(folders, tiny_model, tmp_path):
    root = tmp_path / "pairs"
    shutil.copytree(folders, root)
    (root / "MANIFEST.csv").write_text("file,split\nc0.png,train\nc1.jpg,val\n")

    def images(**changes):
        given = options(root, kind="pairs", model=(), **changes)
        return {row.image for row in finish(kpac.evaluate(given)).results.rows}

    assert images() == {"c1"}
    assert images(split="train") == {"c0"}
    with pytest.raises(KpacError, match=r"split 'test'.*train, val"):
        images(split="test")
    (root / "MANIFEST.csv").unlink()
    assert images(split="test") == {"c0", "c1"}


def test_the_progress_counts_and_closing_cancels(dpdd, tiny_model, tmp_path):
    steps = kpac.evaluate(options(dpdd), tmp_path / "out")
    assert [next(steps).done for _ in range(3)] == [1, 2, 3]
    steps.close()
    assert len((tmp_path / "out" / "results.csv").read_text().splitlines()) == 1 + 3
    assert not (tmp_path / "out" / "report.html").exists()


def test_killed_halfway_and_resumed_it_ends_with_the_same_files(dpdd, tiny_model, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [
        sys.executable, "-m", "napari_kpac", "evaluate", "--dataset", "dpdd", "--root", str(dpdd),
        "--model", "tiny", "--method", "ebdb", "--noise", "0,3", "--no-lpips", "-o",
    ]  # fmt: skip
    done = subprocess.run([*command, str(whole)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = broken / "results.csv"
    process = subprocess.Popen([*command, str(broken)], stdout=subprocess.DEVNULL)
    while process.poll() is None and (
        not results.exists() or len(results.read_text().splitlines()) < 6
    ):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    rows = len(results.read_text().splitlines())
    assert 6 <= rows < 1 + 4 * 2 * 3
    # The kill may also have come in the middle of a line.
    with results.open("ab") as file:
        file.write(b"half a li")
    done = subprocess.run([*command, str(broken)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert results.read_bytes() == (whole / "results.csv").read_bytes()
    first, second = (json.loads((f / "summary.json").read_text()) for f in (whole, broken))
    assert first["lines"] == second["lines"]
    assert (whole / "report.html").read_text() == (broken / "report.html").read_text()


def test_a_folder_that_was_begun_when_images_were_called_pictures_is_taken_up(
    folders, tiny_model, tmp_path
):
    whole, old = tmp_path / "whole", tmp_path / "old"
    finish(kpac.evaluate(options(folders, kind="pairs"), whole))
    shutil.copytree(whole, old)
    header, first, *_ = (whole / "results.csv").read_text().splitlines(keepends=True)
    assert header.startswith("image,method,noise,")
    (old / "results.csv").write_text(header.replace("image,", "picture,") + first + "half a li")
    settings = (old / "settings.json").read_text()
    assert settings.count('"images"') == 1
    (old / "settings.json").write_text(settings.replace('"images"', '"pictures"'))
    lines = []
    for progress in kpac.evaluate(options(folders, kind="pairs"), old):
        assert progress.total == 4
        lines.append(len((old / "results.csv").read_text().splitlines()))
    # The row that was there is not measured again, and the rest is appended.
    assert lines[:4] == [2, 3, 4, 5]
    assert (old / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
    with pytest.raises(KpacError, match="other settings"):
        finish(kpac.evaluate(options(folders, kind="pairs", noise=(1,)), old))


def test_a_folder_of_another_evaluation_is_refused(dpdd, tiny_model, tmp_path, capsys):
    finish(kpac.evaluate(options(dpdd, limit=1), tmp_path))
    before = (tmp_path / "results.csv").read_bytes()
    with pytest.raises(KpacError, match="other settings"):
        finish(kpac.evaluate(options(dpdd, limit=1, noise=(1,)), tmp_path))
    assert (tmp_path / "results.csv").read_bytes() == before
    (tmp_path / "results.csv").write_bytes(before + b"a,b,c\n")
    with pytest.raises(KpacError, match="damaged"):
        finish(kpac.evaluate(options(dpdd, limit=1), tmp_path))


def test_plain_folders_have_no_bins(folders, tiny_model, capsys):
    arguments = ["evaluate", "--dataset", "pairs", "--root", str(folders), "--model", "tiny"]
    assert main([*arguments, "--method", "wiener", "--radius", "2.5", "--no-lpips"]) == 0
    printed = capsys.readouterr().out
    assert "by radius" not in printed
    assert re.search(r"DMENet +23\.92 +0\.808 +0\.410 +not measured", printed)
    assert "the paper's" in printed
    assert main([*arguments, "--limit", "1", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert [(line["method"], line["images"]) for line in lines] == [("input", 1), ("tiny", 1)]


def test_without_lpips_the_column_says_so(folders, tiny_model, monkeypatch):
    from napari_kpac.evaluation import metrics

    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    found = finish(kpac.evaluate(options(folders, kind="pairs", lpips=True)))
    table = tables_of(found)[0]
    assert "LPIPS not measured: install napari-kpac[metrics]" in table.note
    assert all(row[-1] == "-" for row in table.rows)


def test_lpips_gets_images_from_minus_one_to_one(folders, tiny_model, monkeypatch, tmp_path):
    """With a package in its place that measures the mean difference, and says what it sees."""
    (tmp_path / "lpips.py").write_text(
        "import torch\n"
        "class LPIPS(torch.nn.Module):\n"
        "    def __init__(self, net, verbose):\n"
        "        super().__init__()\n"
        "        assert net == 'alex'\n"
        "    def forward(self, a, b):\n"
        "        assert a.shape[:2] == (1, 3) and -1 <= a.min() < -0.5 < 0.5 < a.max() <= 1\n"
        "        return (a - b).abs().mean()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    kept = tmp_path / "hub" / "checkpoints" / "alexnet-owt-7be5be79.pth"
    found = finish(kpac.evaluate(options(folders, kind="pairs", lpips=True, limit=1)))
    assert f"put AlexNet's weights at {kept}" in tables_of(found)[0].note
    kept.parent.mkdir(parents=True)
    kept.touch()
    found = finish(kpac.evaluate(options(folders, kind="pairs", lpips=True, limit=1)))
    for row in found.results.rows:
        assert row.scores["lpips"] == pytest.approx(2 * row.scores["mae"], abs=1e-5)


def test_noise_is_seeded_and_not_clipped(dpdd):
    pair = open_pairs(DataOptions(kind="dpdd", root=str(dpdd), split="val", dual=True))[0]
    noisy, again, other = (with_noise(pair, 5, (0, i)) for i in (1, 1, 2))
    assert np.array_equal(noisy.blurred, again.blurred)
    assert not np.array_equal(noisy.blurred, other.blurred)
    assert (noisy.blurred - pair.blurred).std() == pytest.approx(0.05, rel=0.03)
    assert noisy.sharp is pair.sharp
    left, right = (a - b for a, b in zip(noisy.views, pair.views, strict=True))
    assert left.std() == pytest.approx(0.05, rel=0.03)
    assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 0.05
    assert with_noise(pair, 0, (0, 0)) is pair


def test_a_dual_model_gets_both_views(dpdd, own_models):
    save_network(tiny_net(2, double=False, views=2), own_models / "two.safetensors",
                 ModelCard(name="two"))  # fmt: skip
    with pytest.raises(KpacError, match="needs dual-pixel views"):
        finish(kpac.evaluate(options(dpdd, model=("two",), limit=1)))
    found = finish(kpac.evaluate(options(dpdd, model=("two",), limit=1, dual=True)))
    pair = open_pairs(DataOptions(kind="dpdd", root=str(dpdd), split="val", dual=True))[0]
    restored = kpac.deblur(pair.blurred, "two", views=pair.views, range="unit").image
    expected = peak_signal_noise_ratio(pair.sharp, np.clip(restored, 0, 1), data_range=1)
    row = found.results.find((pair.name, "two", 0.0))
    assert row.scores["psnr"] == pytest.approx(expected, abs=1e-3)
    assert "KPAC (dual)" in [r[0] for r in tables_of(found)[-1].rows if r[4] == "two"]


class Loads(HTMLParser):
    """Collects whatever a page would load from elsewhere."""

    def __init__(self):
        super().__init__()
        self.tags, self.images, self.loads = [], 0, []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action", "poster"):
                self.images += value.startswith("data:image/png;base64,")
                if not value.startswith("data:"):
                    self.loads.append(value)


def test_the_page_stands_alone_and_shows_its_cases(dpdd, tiny_model, tmp_path):
    found = finish(kpac.evaluate(options(dpdd, method=("unsharp",)), tmp_path))
    assert found.report == tmp_path / "report.html"
    text = found.report.read_text()
    page = Loads()
    page.feed(text)
    assert page.loads == []
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert page.images == 4 * 4  # two best, two worst: input, tiny, unsharp, sharp
    assert text.count("<svg") == 2
    for words in ("The best cases of tiny", "The worst cases of tiny", "Gain by radius",
                  "not measured", "Settings", "Environment", "threads"):  # fmt: skip
        assert words in text
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert {row["image"] for row in rows} == {"p0", "p1", "p2", "p3"}
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)


def test_matplotlib_waits_until_a_report_is_drawn():
    code = (
        "import sys, napari_kpac.evaluation.report, napari_kpac.reproduction.report;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_escaped_and_shown_as_they_are(folders, tmp_path, own_models):
    net = tiny_net(2, double=False)
    path = tmp_path / "a$b$<i>&.safetensors"
    save_network(net, path, ModelCard(name="odd"))
    given = options(folders, kind="pairs", model=(str(path),), limit=1)
    text = finish(kpac.evaluate(given, tmp_path / "out")).report.read_text()
    assert "<i>" not in text
    assert "<td>a$b$&lt;i&gt;&amp;.safetensors</td>" in text
    assert ">a$b$&lt;i&gt;&amp;.safetensors</text>" in text
    assert 'alt="a$b$&lt;i&gt;&amp;.safetensors, ' in text


def test_rows_survive_a_file_exactly(tmp_path):
    row = Row('a "name", of sorts', "m", 0.1, {"psnr": float("inf"), "ssim": 1 / 3})
    Results(["psnr", "ssim", "mae"], tmp_path).add(row)
    assert Results(["psnr", "ssim", "mae"], tmp_path).rows == [row]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"method": ("magic",)}, "magic"),
        ({"method": ("ebdb", "ebdb")}, "once"),
        ({"noise": (-1,)}, "noise"),
        ({"noise": ()}, "noise"),
        ({"ssim": "own"}, "ssim"),
        ({"limit": 0}, "limit"),
        ({"radius": -2}, "radius"),
        ({"seed": -1}, "seed"),
        ({"kind": "films"}, "films"),
        ({"kind": "cuhk"}, "white or black"),
        ({"kind": "cuhk", "blurred": "white", "fit_exposure": True}, "fit_exposure"),
    ],
)
def test_bad_options_are_refused_before_anything_is_read(changes, what):
    with pytest.raises(KpacError, match=what):
        options("nowhere", **changes)


def test_a_mistake_in_the_call_exits_with_2(capsys):
    assert main(["evaluate", "--dataset", "dpdd"]) == 2
    assert "root" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "--root", "x", "--method", "magic"])
    assert stop.value.code == 2
    assert main(["evaluate", "--dataset", "dpdd", "--root", "nowhere"]) == 1
