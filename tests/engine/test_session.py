"""The Session: what is kept, what is restarted, and two threads at once."""

import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core.errors import CancelledError
from napari_kpac.engine import sampling
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.pixels import PlaneReader
from napari_kpac.engine.sampling import SampledBottleneck
from napari_kpac.engine.stages import Stages
from napari_kpac.network import KPACBlock
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)


@pytest.fixture
def image(rng):
    return rng.random((72, 96, 3)).astype(np.float32)


@pytest.fixture
def calls(monkeypatch):
    """Count what is computed: tiles encoded, branches, attentions, rectangles decoded."""
    counts = dict.fromkeys(("encode", "branch", "alpha", "decode"), 0)

    def count(owner, name, key):
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            counts[key] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    count(Stages, "_encode_tile", "encode")
    count(KPACBlock, "branch", "branch")
    count(KPACBlock, "alpha", "alpha")
    count(Stages, "decode", "decode")
    return counts


def test_a_change_restarts_only_what_depends_on_it(image, calls):
    session = kpac.Session(image, NET, "cpu")

    def spent(modulation):
        before = dict(calls)
        session.render(modulation)
        return {key: calls[key] - before[key] for key in calls}

    assert spent(None) == {"encode": 1, "branch": 6, "alpha": 2, "decode": 1}
    ones = [1, 1, 1]
    last = spent(kpac.Modulation(gains=[ones, [0, 1, 1]]))
    assert last == {"encode": 0, "branch": 0, "alpha": 0, "decode": 1}
    first = spent(kpac.Modulation(gains=[[0, 1, 1], ones]))
    assert first == {"encode": 0, "branch": 3, "alpha": 1, "decode": 1}
    nothing = dict.fromkeys(calls, 0)
    assert spent(kpac.Modulation(gains=[[0, 1, 1], ones], strength=0.3)) == nothing
    assert spent(kpac.Modulation(gains=[[0, 1, 1], ones])) == nothing


def test_a_stale_render_gives_way_to_a_newer_one(image, monkeypatch):
    session = kpac.Session(image, NET, "cpu")
    session.render()
    inside, go_on = threading.Event(), threading.Event()
    original = Bottleneck.attention

    def slow(self, index, x):
        inside.set()
        assert go_on.wait(20)
        return original(self, index, x)

    outcome = []

    def older():
        try:
            outcome.append(session.render(kpac.Modulation(gains=[0.5, 1, 1])))
        except CancelledError as error:
            outcome.append(error)

    monkeypatch.setattr(Bottleneck, "attention", slow)
    thread = threading.Thread(target=older)
    thread.start()
    assert inside.wait(20)
    monkeypatch.setattr(Bottleneck, "attention", original)
    newest = kpac.Modulation(gains=[1, 0, 1])
    results = []
    second = threading.Thread(target=lambda: results.append(session.render(newest)))
    second.start()
    while session._latest < 3:
        pass
    go_on.set()
    thread.join(20)
    second.join(20)
    assert isinstance(outcome[0], CancelledError)
    fresh = kpac.Session(image, NET, "cpu").render(newest).image
    np.testing.assert_allclose(results[0].image, fresh, atol=1e-5)


def test_cancel_and_close(image):
    session = kpac.Session(image, NET, "cpu")
    seen = []

    def progress(done, total):
        seen.append(done)
        session.cancel()

    with pytest.raises(CancelledError):
        session.encode(progress)
    assert seen == [0]  # within the first tile
    assert session.render().image.shape == image.shape
    session.close()
    for draft in (False, True):
        with pytest.raises(CancelledError, match="closed"):
            session.render(kpac.Modulation(gains=[0, 1, 1]), draft=draft)


def test_a_render_cancelled_anywhere_leaves_nothing_wrong_behind(image, monkeypatch):
    net = tiny_net(3)
    moves = [
        kpac.Modulation(gains=[[0, 1, 1], [1, 1, 1]]),
        kpac.Modulation(gains=[[0, 1, 1], [1, 0, 1]]),
        kpac.Modulation(gains=[1, 1, 0.5]),
    ]
    wanted = [kpac.deblur(image, net, "cpu", modulation=move).image for move in moves]
    session = kpac.Session(image, net, "cpu", tile=48)
    original = kpac.Session._check
    for stop_at in range(1, 120, 4):
        for move, region in zip(moves, (None, (5, 40, 5, 50), None), strict=True):
            count = iter(range(1, 1000))

            def check(self, ticket, count=count, stop_at=stop_at):
                if next(count) == stop_at:
                    raise CancelledError("stopped here")
                original(self, ticket)

            monkeypatch.setattr(kpac.Session, "_check", check)
            with suppress(CancelledError):
                session.render(move, region=region)
        monkeypatch.setattr(kpac.Session, "_check", original)
        for move, expected in zip(moves, wanted, strict=True):
            np.testing.assert_allclose(session.render(move).image, expected, atol=1e-6)


def counted(steps):
    """Return the first step of every number."""
    before = (0, *(step.done for step in steps))
    return [step for step, last in zip(steps, before, strict=False) if step.done > last]


def test_a_render_can_be_left_at_every_tile_and_band(image):
    """In the window the button Cancel answers at the next step, so steps are many and short."""
    session = kpac.Session(image, NET, "cpu", tile=32)
    session._job.plan = session._stages.plan = replace(session._job.plan, band=2)
    every = list(session.render_steps())
    # Within a tile or a band the last count is told again.
    steps = counted(every)
    assert [step.done for step in steps] == list(range(1, len(steps) + 1))
    assert {step.total for step in every} == {len(steps)}
    seen = [step.stage for step in steps]
    bands, passes = 5, (1 + 3 + 1) * 2 + 1 + 2 + 1
    assert seen.count("encode") == seen.count("decode") == 9
    assert seen.count("blocks") == bands * passes
    for stop_at in range(1, len(every), 5):
        other = kpac.Session(image, NET, "cpu", tile=32)
        other._job.plan = other._stages.plan = session._job.plan
        steps = other.render_steps()
        for _ in range(stop_at):
            next(steps)
        other.cancel()
        with pytest.raises(CancelledError):
            next(steps)


def test_many_threads_get_consistent_images(image):
    session = kpac.Session(image, NET, "cpu")
    rows = [[1, 1, 1], [0, 1, 1], [1, 0, 2], [0.5, 0.5, 0.5]]
    expected = [kpac.deblur(image, NET, modulation=kpac.Modulation(gains=r)).image for r in rows]
    wrong = []

    def work(index):
        for _ in range(5):
            try:
                result = session.render(kpac.Modulation(gains=rows[index]))
            except CancelledError:
                continue
            if np.abs(result.image - expected[index]).max() > 1e-4:
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_a_draft_is_labelled_and_close(photograph):
    image = photograph[:256, :256]
    session = kpac.Session(image)
    draft = session.render(draft=True)
    assert draft.draft
    assert draft.image.shape == image.shape
    assert draft.image.dtype == image.dtype
    assert draft.alpha_at_image().shape == (2, 5, 256, 256)
    full = session.render()
    assert not full.draft
    assert np.abs(draft.image.astype(int) - full.image).mean() < 4
    part = session.render(draft=True, region=(10, 60, 20, 90))
    assert np.array_equal(part.image, draft.image[10:60, 20:90])


def test_a_region_with_a_sampled_beta_is_close_and_encodes_little(photograph, monkeypatch, calls):
    monkeypatch.setattr(sampling, "CROP_PX", 32)
    monkeypatch.setattr(sampling, "MARGIN_PX", 16)
    monkeypatch.setattr(sampling, "SAMPLE_PX", 12 * 32**2)
    image = np.tile(photograph, (3, 3, 1))
    region, gains = (300, 340, 500, 561), kpac.Modulation(gains=[[0.5, 1, 1], [1, 1, 0]])
    read = []
    original = PlaneReader.read
    monkeypatch.setattr(
        PlaneReader, "read", lambda self, rect: (read.append(rect), original(self, rect))[1]
    )
    session = kpac.Session(image, NET, "cpu")
    every = list(session.render_steps(gains, region, sampled=True))
    steps = counted(every)
    assert [step.done for step in steps] == list(range(1, len(steps) + 1))
    assert {step.total for step in every} == {len(steps)}
    assert sum(r.height * r.width for r in read) < image.shape[0] * image.shape[1]
    read.clear()
    near = session.render(gains, region, sampled=True)
    assert near.sampled
    assert max(r.height * r.width for r in read) < 0.3 * image.shape[0] * image.shape[1]
    assert calls["encode"] == 0  # the sample is kept
    exact = session.render(gains, region)
    assert not exact.sampled
    assert near.image.shape == exact.image.shape
    # Of random weights, whose residual is large; the documentation has figures of real ones.
    assert np.abs(near.image.astype(int) - exact.image).max() <= 4
    assert 0 < np.abs(near.beta - exact.beta).max() < 0.1
    # What is encoded already is used.
    assert not session.render(gains, region, sampled=True).sampled
    # With the true beta it is the exact result: only beta is estimated.
    other = kpac.Session(image.astype(np.float32) / 255, tiny_net(3), "cpu")
    sharp = other.render(gains, region)
    fresh = kpac.Session(image.astype(np.float32) / 255, tiny_net(3), "cpu")

    def known(self, mods):
        yield True
        return [torch.from_numpy(row)[None].double() for row in sharp.beta]

    monkeypatch.setattr(SampledBottleneck, "_estimate", known)
    part = fresh.render(gains, region, sampled=True)
    assert part.sampled
    np.testing.assert_allclose(part.image, sharp.image, atol=2e-6)
    np.testing.assert_allclose(part.alpha, sharp.alpha, atol=1e-6)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_a_draft_at_a_fraction_of_the_resolution(photograph, factor):
    image = photograph[:101, :75]
    session = kpac.Session(image, NET, "cpu")
    draft = session.render(draft=factor)
    assert draft.draft
    assert draft.image.shape == image.shape
    assert draft.scale == 8 * factor
    part = session.render(draft=factor, region=(10, 61, 20, 70))
    assert np.abs(part.image.astype(int) - draft.image[10:61, 20:70]).max() <= 1
    assert draft.alpha_at_image().shape[-2:] == (101, 75)


def test_a_small_image_is_rendered_exactly_although_a_sample_was_asked_for(image):
    assert not kpac.Session(image, NET, "cpu").render(region=(5, 20, 5, 20), sampled=True).sampled


@pytest.mark.parametrize("region", [(10, 61, 21, 70), (0, 3, 0, 5), (90, 101, 60, 75)])
def test_a_draft_of_a_part_runs_only_there_and_is_the_same(photograph, region):
    image = photograph[:101, :75]
    gains = kpac.Modulation(gains=[0.5, 1, 1])
    top, bottom, left, right = region
    whole = kpac.Session(image, NET).render(gains, draft=True)
    part = kpac.Session(image, NET).render(gains, draft=True, region=region)
    assert part.draft
    assert part.region == region
    assert np.abs(whole.image[top:bottom, left:right].astype(int) - part.image).max() <= 1
    np.testing.assert_allclose(
        part.alpha_at_image(), whole.alpha_at_image()[:, :, top:bottom, left:right], atol=1e-5
    )


def test_painting_changes_only_the_neighbourhood(photograph):
    image = photograph[:384, :384]
    labels = np.zeros(image.shape[:2], int)
    labels[300:340, 300:340] = 1
    session = kpac.Session(image)
    plain = session.render().image.astype(int)
    gains = [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    painted = session.render(kpac.Modulation(labels=labels, label_gains={1: gains})).image
    changed = np.abs(painted - plain).max(axis=-1)
    assert changed[300:340, 300:340].max() > 0
    # Beyond the reach of the second block and the decoder only its global mean can matter.
    assert changed[:64, :64].max() <= 1


def test_a_session_takes_one_image(rng):
    with pytest.raises(kpac.KpacError, match="slice"):
        kpac.Session(rng.random((2, 16, 16)), NET)
    session = kpac.Session(rng.random((16, 16)), NET)
    for region in ((0, 0, 0, 4), (0, 17, 0, 4), (-1, 3, 0, 3), (3, 2, 0, 3)):
        with pytest.raises(kpac.KpacError, match="region"):
            session.render(region=region)


def test_alpha_placement(image):
    result = kpac.Session(image, NET, "cpu").render()
    assert result.alpha.shape == (2, 3, 9, 12)
    assert result.scale == 8
    assert result.offset == (3.5, 3.5)
    at_image = result.alpha_at_image()
    assert at_image.shape == (2, 3, 72, 96)
    # Pixel 11 lies half a pixel before the centre of cell 1, at 11.5.
    np.testing.assert_allclose(at_image[:, :, 3, 3], result.alpha[:, :, 0, 0], atol=1e-6)
    between = result.alpha[:, :, 0, 0] / 16 + result.alpha[:, :, 1, 0] * 15 / 16
    np.testing.assert_allclose(at_image[:, :, 11, 0], between, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 56), (40, 56, 3), (600, 64)])
def test_the_effect_of_muting_is_the_mean_change_in_levels(shape):
    image = np.random.default_rng(1).random(shape)
    net = tiny_net(3)
    session = kpac.Session(image, net, "cpu", range="unit")
    plain = session.render()
    gains = [[1, 1, 1], [1, 0, 1]]
    found = session.mute_effect(2, 2)
    muted = kpac.deblur(image, net, "cpu", range="unit", modulation=kpac.Modulation(gains=gains))
    change = 255 * np.abs(muted.image - plain.image)
    if shape[0] == 600:  # sampled: three parts of 192 rows
        change = np.concatenate([change[:192], change[204:396], change[408:]])
    assert found == pytest.approx(change.mean(), rel=1e-9)
    # It leaves what is shown alone.
    assert np.array_equal(session.render().image, plain.image)
    with pytest.raises(kpac.KpacError, match=r"blocks are 1\.\.2"):
        session.mute_effect(3, 1)
    with pytest.raises(CancelledError):
        session.mute_effect(1, 1, lambda: False)
    session.close()
