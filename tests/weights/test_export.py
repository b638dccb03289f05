"""Models for other programs: what those programs compute is what we compute."""

import json
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.core.errors import ConfigError, MissingExtraError
from napari_kpac.weights import ExportNet, ModelCard, export_model, save_network
from tests.engine.conftest import tiny_net

SIZES = ((64, 96), (136, 72))
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def onnx_file(folder):
    return export_model("default", folder / "default.onnx", "onnx")


@pytest.fixture(scope="module")
def script_file(folder):
    return export_model("default", folder / "default.pt", "torchscript")


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.safetensors"
    card = ModelCard(name="tiny", version="1.2", summary="a tiny model", licence="MIT")
    save_network(tiny_net(2, double=False), path, card)
    return path


def unit_image(size, seed=0):
    return np.random.default_rng(seed).random((*size, 3), np.float32)


def network_input(image):
    return np.ascontiguousarray((2 * image - 1).transpose(2, 0, 1)[None])


def compare(outputs, image, model="default", **views):
    """Compare (deblurred, alphas of the blocks) with what the engine computes of an image."""
    ours = kpac.deblur(image, model, "cpu", range=(0, 1), **views)
    deblurred = (np.asarray(outputs[0])[0].transpose(1, 2, 0) + 1) / 2
    np.testing.assert_allclose(deblurred, ours.image, rtol=0, atol=TOLERANCE)
    for alpha, wanted in zip(outputs[1:], ours.alpha, strict=True):
        np.testing.assert_allclose(np.asarray(alpha)[0], wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
def test_onnxruntime_computes_the_same(onnx_file, size):
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_file)
    names = [each.name for each in session.get_outputs()]
    assert names == ["deblurred", "alpha_block1", "alpha_block2"]
    image = unit_image(size)
    compare(session.run(None, {"image": network_input(image)}), image)


def test_onnx_takes_several_images_and_says_what_it_is(onnx_file):
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_file)
    images = [unit_image((64, 64), seed) for seed in range(3)]
    batch = np.concatenate([network_input(image) for image in images])
    outputs = session.run(None, {"image": batch})
    compare([each[2:] for each in outputs], images[2])
    said = session.get_modelmeta().custom_metadata_map
    assert said["sha256"] == kpac.load("default").card.sha256
    assert "mean over the whole image" in said["tiling"]
    assert "multiples of 8" in said["size"]


@pytest.mark.parametrize("size", SIZES)
def test_torchscript_computes_the_same_without_us(script_file, tmp_path, size):
    image = unit_image(size)
    np.save(tmp_path / "in.npy", network_input(image))
    code = (
        "import sys, numpy, torch\n"
        "net = torch.jit.load(sys.argv[1])\n"
        "outputs = net(torch.from_numpy(numpy.load(sys.argv[2])))\n"
        "numpy.savez(sys.argv[3], *(each.numpy() for each in outputs))\n"
        "assert 'napari_kpac' not in sys.modules\n"
    )
    out = tmp_path / "out.npz"
    subprocess.run([sys.executable, "-c", code, script_file, tmp_path / "in.npy", out], check=True)
    with np.load(out) as found:
        compare([found[f"arr_{index}"] for index in range(3)], image)


@pytest.mark.parametrize("fields", [{"views": 2}, {"scale_attention": False}, {"blocks": 1}])
@pytest.mark.parametrize("format", ["onnx", "torchscript"])
def test_every_kind_of_network_can_be_exported(tmp_path, format, fields):
    net = tiny_net(3, double=False, **fields)
    path = export_model(net, tmp_path / f"net{'.onnx' if format == 'onnx' else '.pt'}", format)
    left, right = unit_image((48, 40), 1), unit_image((48, 40), 2)
    given = [network_input(each) for each in (left, right)][: net.config.views]
    if format == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        names = [each.name for each in session.get_inputs()]
        outputs = session.run(None, dict(zip(names, given, strict=True)))
    else:
        outputs = torch.jit.load(path)(*map(torch.from_numpy, given))
    if net.config.views == 2:
        compare(outputs, None, net, views=(left, right))
    else:
        compare(outputs, left, net)


def test_the_colour_head_in_one_piece_is_the_same():
    net = tiny_net(3)
    image = torch.rand(1, 3, 48, 40, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        found, *_ = ExportNet.of(net).double()(image)
        assert torch.allclose(found, net(image), rtol=0, atol=1e-12)


def test_no_file_tells_where_it_was_made(onnx_file, script_file):
    here = [str(Path(module.__file__).parent).encode() for module in (kpac, torch)]
    with zipfile.ZipFile(script_file) as archive:
        parts = [archive.read(name) for name in archive.namelist()]
    for content in (onnx_file.read_bytes(), *parts):
        assert not any(path in content for path in here)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_):
        raise AssertionError("this connects to something")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_package_is_valid_and_says_what_it_must(tiny, tmp_path, offline):
    import bioimageio.spec

    path = export_model(tiny, tmp_path / "tiny.zip", authors=("A. Person",))
    model = bioimageio.spec.load_description(path)
    assert isinstance(model, bioimageio.spec.ModelDescr), model.validation_summary
    assert model.validation_summary.status == "valid-format"
    assert model.format_version.startswith("0.5.")
    assert [each.id for each in model.inputs] == ["image"]
    assert [each.id for each in model.outputs] == ["deblurred", "alpha_block1", "alpha_block2"]
    assert [each.name for each in model.authors] == ["A. Person"]
    assert str(model.license) == "MIT"
    assert str(model.version) == "1.2"
    assert {name for name, each in model.weights if each is not None} == {
        "pytorch_state_dict",
        "torchscript",
        "onnx",
    }
    with zipfile.ZipFile(path) as archive:
        text = archive.read("README.md").decode()
        state = torch.load(archive.open("weights.pth"), weights_only=True)
        with archive.open("cover.png") as cover:
            assert cover.read(4) == b"\x89PNG"
    assert "mean over the whole image" in text
    assert re.search("^## Validation", text, re.MULTILINE)

    # The architecture that the description names takes the state dict and the kwargs.
    architecture = model.weights.pytorch_state_dict.architecture
    assert architecture.import_from == ExportNet.__module__
    net = ExportNet(**architecture.kwargs)
    net.load_state_dict(state)

    # The test tensors are what we compute.
    (given,) = model.get_input_test_arrays()
    deblurred, *alphas = model.get_output_test_arrays()
    ours = kpac.deblur(given[0].transpose(1, 2, 0), tiny, "cpu")
    assert np.abs(np.rint(deblurred[0].transpose(1, 2, 0)) - ours.image.astype(float)).max() <= 1
    for alpha, wanted in zip(alphas, ours.alpha, strict=True):
        np.testing.assert_allclose(alpha[0], wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("module", "format"),
    [("onnxscript", "onnx"), ("onnx", "bioimageio"), ("bioimageio.spec", "bioimageio")],
)
def test_a_missing_package_is_named_and_nothing_is_written(
    tiny, tmp_path, monkeypatch, module, format
):
    monkeypatch.setitem(sys.modules, module, None)
    target = tmp_path / "out" / f"tiny{'.onnx' if format == 'onnx' else '.zip'}"
    with pytest.raises(MissingExtraError, match=r'pip install "napari-kpac\[export\]"'):
        export_model(tiny, target, format)
    assert list(target.parent.iterdir()) == []


def test_a_failure_leaves_the_old_file(tiny, tmp_path, monkeypatch):
    target = tmp_path / "out" / "tiny.pt"
    target.parent.mkdir()
    target.write_bytes(b"before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("napari_kpac.weights.export.zipfile.ZipFile", fail)
    with pytest.raises(kpac.KpacError, match="No space left"):
        export_model(tiny, target, "torchscript")
    assert target.read_bytes() == b"before"
    assert [path.name for path in target.parent.iterdir()] == ["tiny.pt"]


def test_mistakes_in_the_call(tiny, tmp_path, capsys):
    with pytest.raises(ConfigError, match="one of bioimageio, onnx, torchscript"):
        export_model(tiny, format="keras")
    with pytest.raises(ConfigError, match=r"must end in \.onnx"):
        export_model(tiny, tmp_path / "tiny.pt", "onnx")
    call = ["models", "export", str(tiny), "--format", "torchscript", "-o"]
    assert main([*call, str(tmp_path / "tiny.onnx")]) == 2
    assert not (tmp_path / "tiny.onnx").exists()
    capsys.readouterr()
    assert main([*call, str(tmp_path / "tiny.pt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "tiny.pt")


def test_without_a_name_the_file_is_called_like_the_model(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export_model(tiny, format="torchscript") == Path("tiny.pt")
    assert (tmp_path / "tiny.pt").is_file()


@pytest.mark.long
@pytest.mark.parametrize("model", ["default", "kpac-2level", "kpac-dual"])
def test_bioimageio_core_runs_the_package(tmp_path, model):
    core = pytest.importorskip("bioimageio.core")
    path = export_model(model, tmp_path / "model.zip")
    for weights in ("pytorch_state_dict", "torchscript", "onnx"):
        summary = core.test_model(path, weight_format=weights)
        assert summary.status == "passed", summary.format()
