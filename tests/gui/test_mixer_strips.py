"""Strips explain themselves: reach, measured effect, sentences, folded blocks."""

import threading

import numpy as np
import pytest
from qtpy.QtCore import QPointF, Qt
from qtpy.QtGui import QEnterEvent
from qtpy.QtWidgets import QApplication

import napari_kpac as kpac
from napari_kpac.core.errors import CancelledError
from napari_kpac.weights import ModelCard, save_network
from napari_kpac.widgets.form import wrapped
from napari_kpac.widgets.mixer import MixerWidget
from napari_kpac.widgets.mixer.renderer import LiveRenderer, Request
from napari_kpac.widgets.mixer.words import (
    StripFacts,
    gains_sentence,
    strip_sentence,
    summary,
)
from tests.engine.conftest import tiny_net
from tests.gui.conftest import WAIT, open_it

LEFT = Qt.MouseButton.LeftButton


def effects(widget):
    return [[strip.facts.effect for strip in strips] for strips in widget._controls.strips]


def wait_for_effects(widget, qtbot):
    def all_known():
        return not any(effect is None for row in effects(widget) for effect in row)

    qtbot.waitUntil(all_known, timeout=WAIT)


def point_at(widget):
    """Move the mouse over a widget."""
    place = QPointF(5, 5)
    there = widget.mapToGlobal(place)
    QApplication.sendEvent(widget, QEnterEvent(place, place, there))


def test_every_strip_says_what_it_does_to_this_image(viewer, mixer, image, qtbot):
    controls = mixer._controls
    wait_for_effects(mixer, qtbot)
    # Measured another way: whole images in numbers that are not rounded.
    unit = image.astype(np.float32) / 255
    plain = kpac.deblur(unit, "tiny", range="unit").image
    for block, index in ((0, 0), (0, 3), (1, 4)):
        gains = np.ones((2, 5))
        gains[block, index] = 0
        muted = kpac.deblur(unit, "tiny", range="unit", modulation=kpac.Modulation(gains=gains))
        wanted = 255 * np.abs(muted.image - plain).mean()
        strip = controls.strips[block][index]
        assert strip.facts.effect == pytest.approx(wanted, rel=1e-3)
        assert strip.effect.text() == f"effect {wanted:.1f}"
        dilation = index + 1
        point_at(strip)
        said = controls.explanation.text()
        assert f"dilation {dilation}" in said
        assert f"up to {16 * dilation} pixels around it" in said  # 2 cells of 8 pixels, dilated
        assert f"by {wanted:.1f} of 255 levels on average" in said
        assert strip.effect.toolTip() == wrapped(said)
    assert all(page.fold.is_open and page.fold.button.isHidden() for page in controls.pages)
    assert "0 to 1" in controls.pages[0].beta.toolTip()
    assert "place by place" in controls.strips[0][0].thumbnail.toolTip()
    assert "block 1 made" in controls.tabs.tabToolTip(1)
    # Measuring left the settings and the image alone.
    shown = viewer.layers["cup (mixer)"].data
    assert np.abs(shown - 255 * np.clip(plain, 0, 1)).max() <= 1
    # The keyboard explains, too.
    QApplication.setActiveWindow(viewer.window._qt_window)
    controls.strips[0][1].gain.slider.setFocus()
    qtbot.waitUntil(lambda: "dilation 2" in controls.explanation.text(), timeout=WAIT)


def test_blocks_that_change_nothing_are_folded(
    viewer, docked, own_models, tiny_model, image, qtbot
):
    net = tiny_net(3, double=False, dilations=(1, 2, 3, 4, 5))
    net.blocks[1].fusion.weight.data.zero_()
    save_network(net, own_models / "half.safetensors", ModelCard(name="half"))
    viewer.add_image(image, name="cup")
    widget = docked(MixerWidget)
    qtbot.waitUntil(lambda: "half" in widget._model.choices, timeout=WAIT)
    widget._model.value = "half"
    open_it(widget, qtbot)
    controls = widget._controls
    wait_for_effects(widget, qtbot)
    assert [page.fold.is_open for page in controls.pages] == [True, False]
    assert controls.tabs.tabText(1) == "block 2 (no effect)"
    assert "0.1 grey levels" in controls.pages[1].note.text()
    controls.tabs.setCurrentIndex(1)
    strip = controls.strips[1][0]
    assert strip.effect.text() == "effect <0.1"
    assert not strip.isVisible()
    qtbot.mouseClick(controls.pages[1].fold.button, LEFT)
    assert strip.isVisible()
    # Opened again, for example on another slice, it stays as the user wants it.
    qtbot.mouseClick(widget._open, LEFT)
    open_it(widget, qtbot)
    assert effects(widget)[0][0] is None
    wait_for_effects(widget, qtbot)
    assert strip.isVisible()
    widget.close_session("")


class Patient:
    """A session that measures until somebody wants something else."""

    config = kpac.KPACConfig(blocks=1, dilations=(1, 2))
    card = kpac.ModelCard("patient")
    note = ""
    size = (8, 8)

    def __init__(self):
        self.measuring = threading.Event()
        self.interrupted = 0
        self.is_slow = True

    def render(self, *_, **__):
        return kpac.deblur(np.zeros((8, 8), np.uint8), tiny_net(2, double=False))

    def mute_effect(self, block, index, wanted):
        self.measuring.set()
        while wanted() and self.is_slow:
            threading.Event().wait(0.005)
        if not wanted():
            self.interrupted += 1
            raise CancelledError("not wanted")
        return 0.25 * index

    def cancel(self):
        pass

    close = cancel


def test_every_action_interrupts_the_measuring_and_rest_resumes_it(qtbot):
    session = Patient()
    renderer = LiveRenderer(lambda: session)
    found = []
    renderer.measured.connect(lambda *values: found.append(values))
    try:
        qtbot.waitUntil(session.measuring.is_set, timeout=WAIT)
        with qtbot.waitSignal(renderer.rendered, timeout=WAIT):  # a slider is moved
            renderer.request(Request(kpac.Modulation))
        assert session.interrupted == 1
        session.measuring.clear()
        qtbot.waitUntil(session.measuring.is_set, timeout=WAIT)
        renderer.interrupt()  # the canvas is moved
        qtbot.waitUntil(lambda: session.interrupted == 2, timeout=WAIT)
        assert found == []
        session.is_slow = False
        qtbot.waitUntil(lambda: found == [(0, 0, 0.25), (0, 1, 0.5)], timeout=WAIT)
    finally:
        renderer.close()
        renderer.join(10)


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_request_that_comes_early_waits_until_the_image_is_open(qtbot, interrupted):
    """It may come before the first render begins, or cancel it."""
    ready, asked = threading.Event(), threading.Event()

    class Session(Patient):
        def render(self, *setting, **how):
            if interrupted and not asked.is_set():
                ready.set()
                asked.wait(10)
                raise CancelledError("by a newer request")
            return super().render(*setting, **how)

    def make():
        if not interrupted:
            ready.set()
            asked.wait(10)
        return Session()

    renderer = LiveRenderer(make)
    heard = []
    renderer.opened.connect(lambda *_: heard.append("opened"))
    renderer.rendered.connect(lambda *_: heard.append("rendered"))
    try:
        qtbot.waitUntil(ready.is_set, timeout=WAIT)
        renderer.request(Request(kpac.Modulation))
        asked.set()
        qtbot.waitUntil(lambda: heard == ["opened", "rendered"], timeout=WAIT)
    finally:
        renderer.close()
        renderer.join(10)


def test_panning_interrupts_the_measuring(viewer, mixer, monkeypatch, qtbot):
    calls = []
    monkeypatch.setattr(mixer._renderer, "interrupt", lambda: calls.append(1))
    viewer.scene.camera.zoom *= 1.5
    assert calls


def test_sentences():
    facts = StripFacts.of(kpac.KPACConfig(levels=2, kernel_size=3, dilations=(1, 6)), {})
    assert [each.reach for each in facts] == [4, 24]
    assert "not measured yet" in strip_sentence(facts[1])
    said = {
        effect: strip_sentence(StripFacts(0, 1, 16, effect)).rpartition(": ")[2]
        for effect in (0.0, 0.2, 1.0, 3.0)
    }
    assert len(set(said.values())) == 4
    assert "less than 0.1 of 255 levels" in strip_sentence(StripFacts(0, 1, 16, 0.04))
    assert "α₂ of block 1 does most" in summary({(0, 0): 0.2, (0, 1): 0.9}, facts)
    assert "No strip changes" in summary({(0, 0): 0.02}, facts)


SLIDERS = {
    "change by muting dilation 1 at 1-2 px": 3.0,
    "change by muting dilation 1 at 2-4 px": 2.0,
    "change by muting dilation 2 at 1-2 px": 0.2,
    "change by muting dilation 2 at 8-12 px": 4.0,
    **{f"won with sliders at {gain}": won for gain, won in ((1, 2.0), (1.25, 1.95), (1.5, 1.2))},
    **{f"overshoot with sliders at {gain}": each for gain, each in ((1, 1), (1.25, 1.1), (1.5, 3))},
}


def test_sentences_follow_from_what_was_measured():
    one, two, six = StripFacts.of(kpac.KPACConfig(dilations=(1, 2, 6)), SLIDERS)
    assert "radius of 1 to 2 pixels" in strip_sentence(one)
    assert "radius of 8 to 12 pixels" in strip_sentence(two)
    assert "radius" not in strip_sentence(six)  # not measured
    warning = gains_sentence(SLIDERS)
    assert (
        "all gains at 1.5, test images had 3.0 % of values with halos instead of 1.0 %" in warning
    )
    assert "lost 0.8 dB" in warning
    halos = SLIDERS | {"overshoot with sliders at 1.25": 1.3}
    assert "all gains at 1.25" in gains_sentence(halos)
    fine = SLIDERS | {"won with sliders at 1.5": 2.1, "overshoot with sliders at 1.5": 1.2}
    assert "no artefacts up to 1.5" in gains_sentence(fine)
    assert gains_sentence({}).endswith("beyond what the network found.")


def test_a_gain_above_one_is_warned_about_with_the_models_figures(
    viewer, docked, tiny_model, image, own_models, qtbot
):
    save_network(tiny_model, own_models / "tiny.safetensors", ModelCard("tiny", sliders=SLIDERS))
    viewer.add_image(image, name="cup")
    widget = docked(MixerWidget)
    open_it(widget, qtbot)
    controls = widget._controls
    strip = controls.strips[0][0]
    point_at(strip)
    assert "radius of 1 to 2 pixels" in controls.explanation.text()
    assert "⚠" not in controls.explanation.text()
    strip.gain.slider.setValue(140)
    assert "halos instead of 1.0 %" in controls.explanation.text()
    strip.gain.slider.setValue(100)
    assert "⚠" not in controls.explanation.text()
    widget.close_session("")
