"""DMENet's files: read in order, checked layer by layer, and told apart from KPAC's."""

import json
import pickle

import numpy as np
import pytest
import torch
from skimage import io

import napari_kpac as kpac
from napari_kpac import weights
from napari_kpac.cli import main
from napari_kpac.core.errors import ModelNotFoundError, WeightsError
from napari_kpac.network import DMENet, DMENetConfig
from tests import dmenet_reference as reference
from tests.weights.test_authors import Hostile, write_pickle


@pytest.mark.parametrize("write", [reference.write_named, reference.write_listed])
@pytest.mark.parametrize("heads", [True, False])
def test_a_file_gives_the_network_of_the_independent_forward(tmp_path, write, heads):
    layers = reference.random_layers(heads=heads)
    write(tmp_path / "dmenet.npz", layers)
    net = weights.load_dmenet(tmp_path / "dmenet.npz")
    assert net.config == DMENetConfig(width=4, auxiliary=heads)
    image = np.random.default_rng(0).uniform(0, 1, (48, 32, 3))
    expected = reference.forward(layers, image)
    assert expected.std() > 0.01
    tensor = torch.from_numpy(np.moveaxis(image, -1, 0)[None].astype("f4"))
    np.testing.assert_allclose(net(tensor)[0][0, 0].numpy(), expected, atol=1e-4)


def test_heads_and_shortcuts_may_come_at_other_places(tmp_path):
    layers = reference.random_layers()
    heads = [name for name in layers if name.startswith("aux/")]
    order = [name for name in layers if name not in heads] + heads
    shortcuts = [name for name in order if name.endswith("/s")]
    for name in shortcuts:
        order.remove(name)
        order.insert(order.index(name.replace("/s", "/c2")) + 1, name)
    reference.write_named(tmp_path / "a.npz", layers)
    reference.write_named(tmp_path / "b.npz", layers, order)
    one, other = (weights.load_dmenet(tmp_path / name) for name in ("a.npz", "b.npz"))
    assert one.state_dict().keys() == other.state_dict().keys()
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items())


def test_arrays_of_other_networks_in_the_file_are_passed_over(tmp_path):
    layers = reference.random_layers()
    reference.write_named(tmp_path / "a.npz", layers)
    with np.load(tmp_path / "a.npz") as file:
        arrays = {"discriminator/c1/kernel:0": np.zeros((3, 3, 1, 1), "f4"), **file}
    np.savez(tmp_path / "b.npz", **arrays)
    assert weights.load_dmenet(tmp_path / "b.npz").config.width == 4


def _spoil(layers, how):
    if how == "a layer is missing":
        del layers["encoder/conv4_3"]
    elif how == "the end is missing":
        del layers["decoder/o3"]
    elif how == "a head is missing":
        del layers["aux/u1/c1"], layers["aux/u1/c2"]
    elif how == "a shape is wrong":
        layers["decoder/u2/c1_2"]["kernel"] = layers["decoder/u2/c1_2"]["kernel"][:, :, :-1]
    elif how == "a norm is missing":
        del layers["decoder/o2"]["beta"]
    elif how == "a bias is missing":
        del layers["encoder/conv1_2"]["bias"]
    elif how == "not finite":
        layers["decoder/r3/c1"]["bias"][0] = np.nan
    elif how == "gamma":
        layers["decoder/o1"]["gamma"] = layers["decoder/o1"]["beta"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "a layer is missing",
            "u3/c1_1.*should be encoder.4.convs.3.*has 49 layers.*has 50",
        ),
        ("the end is missing", "1 layers of the network are missing.* output"),
        ("a head is missing", r"aux/u0/c2.*heads|layers of the auxiliary heads are missing"),
        ("a shape is wrong", r"decoder/u2/c1_2.*decoder\.1\.refine\.0\.conv.*\(3, 3, 8, 8\)"),
        ("a norm is missing", "decoder/o2.*no beta"),
        ("a bias is missing", "encoder/conv1_2.*no bias"),
        ("not finite", "decoder/r3/c1/bias.*NaN"),
        ("gamma", "decoder/o1/gamma.*'gamma'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, how, said):
    layers = reference.random_layers()
    _spoil(layers, how)
    reference.write_named(tmp_path / "bad.npz", layers)
    with pytest.raises(WeightsError, match=said) as error:
        weights.load_network(tmp_path / "bad.npz")
    assert "bad.npz" in str(error.value)


def test_a_hostile_pickle_runs_nothing(tmp_path):
    mark = tmp_path / "mark"
    write_pickle(tmp_path / "bad.npz", pickle.dumps(Hostile(open, str(mark), "w"), 2))
    with pytest.raises(WeightsError, match="refused"):
        weights.load_network(tmp_path / "bad.npz")
    assert not mark.exists()


@pytest.fixture
def authors_file(tmp_path):
    path = tmp_path / "DMENet_BDCS.npz"
    reference.write_named(path, reference.random_layers())
    return path


def test_the_catalogue_lists_it_and_each_kind_has_its_place(authors_file):
    with pytest.raises(ModelNotFoundError, match=r"none is installed.*models install"):
        weights.load_dmenet()
    entry = weights.install(authors_file, "defocus")
    assert entry.kind == "dmenet"
    assert [each.name for each in weights.models("dmenet")] == ["defocus"]
    assert "defocus" not in [each.name for each in weights.models("kpac")]
    assert "defocus" in [each.name for each in kpac.models()]
    # The only one there is stands for the default.
    assert isinstance(weights.load_dmenet(), DMENet)
    assert weights.load_dmenet("defocus").card.sha256 == entry.card.sha256
    with pytest.raises(WeightsError, match=r"defocus is a DMENet model.*KPAC"):
        kpac.load("defocus")
    with pytest.raises(WeightsError, match=r"kpac-3level is a KPAC model.*defocus"):
        weights.load_dmenet("kpac-3level")
    weights.install(authors_file, "second")
    with pytest.raises(ModelNotFoundError, match="name it: defocus, second"):
        weights.load_dmenet()


def test_the_terminal_imports_installs_shows_and_refuses(authors_file, tmp_path, capsys):
    target = tmp_path / "defocus.safetensors"
    assert main(["models", "import", str(authors_file), "-o", str(target)]) == 0
    assert main(["models", "install", str(target)]) == 0
    assert main(["models", "verify", "defocus"]) == 0
    capsys.readouterr()
    assert main(["models", "list"]) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if "defocus" in each)
    assert "dmenet" in line
    assert main(["models", "show", "defocus", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["network"] == "dmenet"
    assert shown["config"] == {"width": 4, "auxiliary": True}
    image = tmp_path / "image.png"
    io.imsave(image, np.zeros((32, 32, 3), np.uint8), check_contrast=False)
    assert main(["deblur", str(image), "-o", str(tmp_path / "o.png"), "--model", "defocus"]) == 1
    assert "is a DMENet model" in capsys.readouterr().err


def test_a_network_of_a_later_release_is_refused(tmp_path):
    net = kpac.build(kpac.KPACConfig(channels=4))
    path = tmp_path / "later.safetensors"
    weights.save_network(net, path, weights.ModelCard("later"))
    data = path.read_bytes().replace(b'"network":"kpac"', b'"network":"next"')
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"'next'.*newer"):
        weights.describe(path)
