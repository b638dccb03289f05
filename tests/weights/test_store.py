"""Our own files: what is written comes back, and nothing else is accepted."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

import napari_kpac as kpac
from napari_kpac.weights import ModelCard, describe, read_network, save_network

TINY = kpac.KPACConfig(levels=2, channels=4, shape_hidden=2)
CARD = ModelCard(name="tiny", licence="BSD-3-Clause", figures={"psnr": 1.5})


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "tiny.safetensors"
    save_network(kpac.build(TINY, seed=0), path, CARD)
    return path


def test_round_trip(saved):
    net = kpac.load(saved)
    assert net.config == TINY
    assert net.card.figures == {"psnr": 1.5}
    assert len(net.card.sha256) == 64
    assert not net.training
    original = kpac.build(TINY, seed=0).state_dict()
    for key, value in net.state_dict().items():
        assert torch.equal(value, original[key])
    assert describe(saved) == (TINY, net.card)


def test_half_precision_on_disk_is_float32_in_memory(tmp_path):
    path = tmp_path / "half.safetensors"
    save_network(kpac.build(TINY, seed=0), path, CARD, dtype=torch.float16)
    assert read_network(path).decoder.gather.weight.dtype == torch.float32
    assert load_file(path)["decoder.gather.weight"].dtype == torch.float16


def rewrite(path, *, tensors=None, metadata=None, drop=()):
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        meta = dict(file.metadata())
    content = load_file(path) | (tensors or {})
    meta |= metadata or {}
    for key in drop:
        content.pop(key, None)
        meta.pop(key, None)
    save_file(content, path, meta)


def config_json(**changes):
    return json.dumps({**TINY.to_dict(), **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"drop": ["format"]},
        {"drop": ["config"]},
        {"drop": ["card"]},
        {"drop": ["decoder.gather.bias"]},
        {"metadata": {"format_version": "99"}},
        {"metadata": {"config": "{"}},
        {"metadata": {"config": "[]"}},
        {"metadata": {"config": "[" * 100_000}},
        {"metadata": {"config": config_json(levels=3)}},
        {"metadata": {"config": config_json(levels=9)}},
        {"metadata": {"config": config_json(channels=10**12)}},
        {"metadata": {"config": config_json(unknown=1)}},
        {"metadata": {"card": "null"}},
        {"metadata": {"card": json.dumps({"name": "../../etc"})}},
        {"metadata": {"card": json.dumps({"name": "a", "figures": [1]})}},
        {"tensors": {"decoder.gather.bias": torch.zeros(9)}},
        {"tensors": {"decoder.gather.bias": torch.zeros(8, dtype=torch.int32)}},
        {"tensors": {"decoder.gather.bias": torch.full((8,), float("nan"))}},
        {"tensors": {"extra": torch.zeros(1)}},
        {"tensors": {"decoder.gather.bias": torch.ones(8)}},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_file_that_does_not_fit_is_refused(saved, change):
    rewrite(saved, **change)
    with pytest.raises(kpac.KpacError, match=r"tiny\.safetensors"):
        kpac.load(saved)


def test_truncated_or_garbled(saved):
    whole = saved.read_bytes()
    for content in (
        b"",
        whole[:7],
        whole[:100],
        whole[:-1],
        whole + b"x",
        struct.pack("<Q", 1 << 50) + whole[8:],
        bytes(len(whole)),
    ):
        saved.write_bytes(content)
        with pytest.raises(kpac.KpacError):
            kpac.load(saved)


def test_a_flipped_bit_is_noticed(saved):
    whole = bytearray(saved.read_bytes())
    whole[-3] ^= 1
    saved.write_bytes(bytes(whole))
    with pytest.raises(kpac.KpacError, match="fingerprint"):
        kpac.load(saved)


def test_nothing_is_written_for_a_broken_network(tmp_path):
    net = kpac.build(TINY, seed=0)
    with torch.no_grad():
        net.decoder.gather.bias[0] = float("nan")
    with pytest.raises(kpac.KpacError, match="NaN"):
        save_network(net, tmp_path / "bad.safetensors", CARD)
    assert list(tmp_path.glob("*.safetensors")) == []


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("napari_kpac.weights.store.save_file", fail)
    with pytest.raises(kpac.KpacError, match="No space left"):
        save_network(kpac.build(TINY, seed=1), saved, CARD)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir() if path.is_file()] == [saved.name]
