"""The same input, model, settings, plan and threads give the same bytes: in every process."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.images import description_of, read_image, write_image
from napari_kpac.widgets.deblur import DeblurWidget

WAIT = 60_000
THREADS = (1, 2)


@pytest.fixture
def source(tmp_path, photo):
    write_image(tmp_path / "in" / "a.png", np.tile(photo, (2, 2, 1)))
    write_image(tmp_path / "in" / "deep.tif", photo[..., 0].astype(np.uint16) * 200)
    return tmp_path / "in"


def in_a_process(source, out, models, threads, *more, **environment):
    command = [sys.executable, "-m", "napari_kpac", "deblur", str(source), "-o", str(out),
               "--model", str(models[0]), "--threads", str(threads), "--device", "cpu",
               *more]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.mark.parametrize("tile", ["64", pytest.param("auto", marks=pytest.mark.long)])
def test_two_processes_write_the_same_bytes(source, models, tmp_path, tile):
    """Also where hashes are seeded otherwise."""
    runs = [
        in_a_process(source, tmp_path / str(seed), models, 1, "--tile", tile, PYTHONHASHSEED=seed)
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert set(runs[0]) == {"a.png", "deep.tif"}


def test_window_terminal_and_python_agree(
    make_napari_viewer, own_models, source, models, tmp_path, qtbot
):
    own_models.mkdir(exist_ok=True)
    (own_models / "tiny.safetensors").write_bytes(models[0].read_bytes())
    threads = torch.get_num_threads()
    in_a_process(source, tmp_path / "out", models, threads)
    viewer = make_napari_viewer(show=True)
    widget = DeblurWidget(viewer)
    viewer.window.add_dock_widget(widget, area="right")
    qtbot.waitUntil(lambda: "tiny" in widget._model.choices, timeout=WAIT)
    widget._model.value = "tiny"
    for name in ("a.png", "deep.tif"):
        pixels = read_image(source / name)
        widget._image.value = viewer.add_image(pixels, name=name)
        widget._panel.button.click()
        qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
        shown = viewer.layers[f"{name} (deblurred)"]
        written = read_image(tmp_path / "out" / name)
        here = kpac.deblur(pixels, models[0], device="cpu")
        assert shown.data.tobytes() == written.tobytes() == here.image.tobytes()
        plans = [
            record["environment"][key]
            for record in (
                shown.metadata["napari_kpac"],
                description_of(tmp_path / "out" / name),
                here.recipe.to_dict(),
            )
            for key in ("plan",)
        ]
        assert plans[0] == plans[1] == plans[2]
    widget.release()


def test_threads_and_tiles_are_recorded(source, models, tmp_path):
    """What may touch the last bits is written down, so that it can be had again."""
    images = {}
    for threads in THREADS:
        in_a_process(source, tmp_path / str(threads), models, threads, "--tile", "64")
        record = description_of(tmp_path / str(threads) / "a.png")["environment"]
        assert record["threads"] == threads
        assert record["plan"]["tile"] == 64
        images[threads] = read_image(tmp_path / str(threads) / "a.png").astype(int)
    assert np.abs(images[1] - images[2]).max() <= 1
