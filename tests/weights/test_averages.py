"""tools/average_models.py: the mean of weights, in a file that can be used."""

from dataclasses import replace

import pytest
import torch

import napari_kpac as kpac
from napari_kpac.weights import ModelCard, read_network, save_network
from tests.tools import load_tool

TINY = kpac.KPACConfig(levels=2, channels=4, shape_hidden=2)


@pytest.fixture(scope="module")
def tool():
    return load_tool("average_models")


@pytest.fixture
def files(tmp_path):
    paths = []
    for seed in range(2):
        torch.manual_seed(seed)
        net = kpac.KPACNet(TINY)
        paths.append(tmp_path / f"{seed}.safetensors")
        save_network(net, paths[-1], ModelCard(name=f"model-{seed}"))
    return paths


@pytest.mark.parametrize(
    ("share", "wanted"), [([], (0.5, 0.5)), (["--share", "0.75", "0.25"], (0.75, 0.25))]
)
def test_every_weight_is_the_mean(tool, files, tmp_path, share, wanted):
    target = tmp_path / "mean.safetensors"
    tool.main([*map(str, files), *share, "-o", str(target)])
    found = read_network(target)  # its card's fingerprint is that of its weights
    assert found.card.name == "model-0"
    one, other = (read_network(path).state_dict() for path in files)
    assert found.state_dict().keys() == one.keys()
    for name, tensor in found.state_dict().items():
        torch.testing.assert_close(tensor, wanted[0] * one[name] + wanted[1] * other[name])
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_what_does_not_fit_together_is_refused(tool, files, tmp_path, capsys):
    wider = tmp_path / "wider.safetensors"
    save_network(kpac.KPACNet(replace(TINY, channels=8)), wider, ModelCard(name="wider"))
    target = tmp_path / "mean.safetensors"
    for models, share, reason in (
        ([files[0], wider], [], "wider.safetensors: its layers are not those of"),
        (files, ["--share", "0.6", "0.6"], "--share needs one number for each model"),
        (files, ["--share", "1"], "--share needs one number for each model"),
        ([files[0], tmp_path / "none.safetensors"], [], "none.safetensors"),
    ):
        with pytest.raises(SystemExit):
            tool.main([*map(str, models), *share, "-o", str(target)])
        assert reason in capsys.readouterr().err
        assert not target.exists()
