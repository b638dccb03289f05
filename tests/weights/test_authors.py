"""The authors' file layout, in order and by name, and everything that may be wrong with it."""

import io
import os
import pickle
import subprocess
import zipfile

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from tests import reference

CONFIGS = {
    "2-level": kpac.KPACConfig(levels=2, channels=6, shape_hidden=3),
    "3-level": kpac.KPACConfig(levels=3, channels=6, shape_hidden=3),
    "dual": kpac.KPACConfig(levels=3, channels=6, shape_hidden=3, views=2),
    "one block": kpac.KPACConfig(levels=3, blocks=1, channels=6, shape_hidden=3),
}


@pytest.mark.parametrize("write", [reference.write_authors_file, reference.write_named_file])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_gives_the_network_of_the_independent_forward(tmp_path, name, write):
    config = CONFIGS[name]
    params = reference.random_params(config)
    write(tmp_path / "weights.npz", params, config)
    net = kpac.load(tmp_path / "weights.npz")
    assert net.config == config
    images = np.random.default_rng(0).uniform(-1, 1, (3, 16, 8, 3))
    tensors = [torch.from_numpy(np.moveaxis(i, -1, 0)[None].astype("f4")) for i in images]
    if config.views == 2:
        given = np.concatenate(images[1:], axis=-1)
        expected = reference.forward(params, config, images[0], given)["y"]
        actual = net(tensors[0], tensors[1:])
    else:
        expected = reference.forward(params, config, images[0])["y"]
        actual = net(tensors[0])
    np.testing.assert_allclose(np.moveaxis(actual[0].numpy(), 0, -1), expected, atol=1e-4)


def test_order_in_a_named_file_does_not_matter(tmp_path):
    config = CONFIGS["2-level"]
    params = reference.random_params(config)
    reference.write_authors_file(tmp_path / "a.npz", params, config)
    reference.write_named_file(tmp_path / "b.npz", dict(reversed(params.items())), config)
    a, b = kpac.load(tmp_path / "a.npz"), kpac.load(tmp_path / "b.npz")
    for key, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[key])


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_every_pickle_protocol(tmp_path, protocol):
    config = CONFIGS["2-level"]
    params = reference.random_params(config)
    reference.write_authors_file(tmp_path / "plain.npz", params, config)
    arrays = object_array(config, params)
    write_pickle(tmp_path / "other.npz", pickle.dumps(arrays, protocol), len(arrays))
    a, b = kpac.load(tmp_path / "plain.npz"), kpac.load(tmp_path / "other.npz")
    assert torch.equal(a.decoder.gather.weight, b.decoder.gather.weight)


def object_array(config=CONFIGS["2-level"], params=None):
    params = params or reference.random_params(config)
    arrays = np.empty(len(reference.authors_order(config)), dtype=object)
    for index, (short, _) in enumerate(reference.authors_order(config)):
        arrays[index] = params[short].astype(np.float32)
    return arrays


def write_pickle(path, data, count=58):
    """A .npz whose params.npy announces an object array and holds any pickle at all."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|O", "fortran_order": False, "shape": (count,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("params.npy", header.getvalue() + data)


class Hostile:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "payload",
    [
        lambda mark: Hostile(open, mark, "w"),
        lambda mark: Hostile(os.system, f"touch {mark}"),
        lambda mark: Hostile(subprocess.call, ["touch", mark]),
        lambda mark: Hostile(eval, f"open({mark!r}, 'w')"),
        lambda mark: Hostile(np.ndarray, (1 << 40,)),
        lambda mark: Hostile(getattr, 1, "real"),
        lambda mark: Hostile(np.fromfile, mark),
    ],
    ids=["open", "system", "subprocess", "eval", "ndarray", "getattr", "fromfile"],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("hidden", [False, True], ids=["bare", "inside an array"])
def test_a_hostile_pickle_runs_nothing_and_says_why(tmp_path, payload, protocol, hidden):
    mark = str(tmp_path / "mark")
    content = payload(mark)
    if hidden:
        arrays = object_array()
        arrays[7] = content
        content = arrays
    write_pickle(tmp_path / "bad.npz", pickle.dumps(content, protocol))
    with pytest.raises(kpac.KpacError) as error:
        kpac.load(tmp_path / "bad.npz")
    assert not os.path.exists(mark)
    assert "refused" in str(error.value) or "damaged" in str(error.value)
    assert "bad.npz" in str(error.value)


def changed(change):
    arrays = object_array()
    return change(arrays)


def with_item(index, value):
    def change(arrays):
        arrays[index] = value
        return arrays

    return change


MALFORMED = {
    "too few": lambda a: a[:-1],
    "too many": lambda a: np.append(a, [None]),
    "empty": lambda a: a[:0],
    "swapped": lambda a: np.concatenate([a[2:4], a[:2], a[4:]]),
    "wrong shape": with_item(4, np.zeros((3, 3, 6, 7), "f4")),
    "flat kernel": with_item(0, np.zeros(7, "f4")),
    "NaN": with_item(5, np.full(6, np.nan, "f4")),
    "infinite": with_item(5, np.full(6, np.inf, "f4")),
    "integers": with_item(5, np.zeros(6, "i4")),
    "strings": with_item(5, np.array(["a"] * 6)),
    "none": with_item(5, None),
    "nested": with_item(5, np.array([None, None])),
    "two axes": lambda a: a.reshape(2, -1),
    "not an array": lambda a: list(a),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_lists_are_clear_errors(tmp_path, name):
    content = MALFORMED[name](object_array())
    write_pickle(tmp_path / "bad.npz", pickle.dumps(content, 2))
    with pytest.raises(kpac.KpacError, match=r"bad\.npz"):
        kpac.load(tmp_path / "bad.npz")


def test_truncated_anywhere_is_a_clear_error(tmp_path):
    config = CONFIGS["2-level"]
    reference.write_authors_file(tmp_path / "good.npz", reference.random_params(config), config)
    whole = (tmp_path / "good.npz").read_bytes()
    for part in np.linspace(0, len(whole) - 1, 60).astype(int):
        (tmp_path / "bad.npz").write_bytes(whole[:part])
        with pytest.raises(kpac.KpacError):
            kpac.load(tmp_path / "bad.npz")


def test_a_pickle_cut_off_inside_the_archive(tmp_path):
    data = pickle.dumps(object_array(), 2)
    for part in (0, 1, 10, 200, len(data) // 2, len(data) - 1):
        write_pickle(tmp_path / "bad.npz", data[:part])
        with pytest.raises(kpac.KpacError):
            kpac.load(tmp_path / "bad.npz")


def test_a_header_that_claims_terabytes_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("deblur_net/deblur/c0/W_conv2d:0.npy", header.getvalue() + bytes(100))
    with pytest.raises(kpac.KpacError, match="bytes"):
        kpac.load(tmp_path / "bad.npz")


def test_a_zip_bomb_is_refused_unread(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("params.npy", "w", force_zip64=True) as member:
            for _ in range(600):
                member.write(bytes(1 << 20))
    with pytest.raises(kpac.KpacError, match="refused"):
        kpac.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", b"hello" * 100])
def test_not_an_archive(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(kpac.KpacError):
        kpac.load(tmp_path / "bad.npz")


def test_missing_name_is_named(tmp_path):
    config = CONFIGS["2-level"]
    params = reference.random_params(config)
    named = {full: params[short] for short, full in reference.authors_order(config)}
    named["deblur_net/other"] = named.pop("deblur_net/deblur/cm_1/b_conv2d:0")
    np.savez(tmp_path / "bad.npz", **named)
    with pytest.raises(kpac.KpacError, match="cm_1"):
        kpac.load(tmp_path / "bad.npz")


def test_no_such_file():
    with pytest.raises(kpac.KpacError, match="no such"):
        kpac.load("nowhere.npz")
