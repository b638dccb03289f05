"""The terminal, as a person would use it: a real process for the main roads."""

import json
import subprocess
import sys

import pytest

from napari_kpac.cli import main
from tests import reference


def run(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "napari_kpac", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **kwargs,
    )


LAZY = ("batch", "datasets", "evaluation", "network", "reproduction", "training", "weights")


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, napari_kpac, napari_kpac.cli.entry; napari_kpac.cli.entry.parser();"
        f"from napari_kpac import {', '.join(LAZY)};"
        "heavy = {'torch', 'napari', 'qtpy', 'PyQt6', 'magicgui', 'skimage', 'matplotlib'};"
        "heavy = (heavy | {'jinja2'}) & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_command_is_a_mistake_in_the_call():
    done = run()
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_version():
    import napari_kpac

    assert napari_kpac.__version__ in run("--version").stdout


@pytest.mark.parametrize(
    "command",
    [
        "deblur",
        "attention",
        "blur-map",
        "demo",
        "evaluate",
        "models",
        "models list",
        "models show",
        "models import",
        "reproduce params",
        "reproduce inverse-kernels",
        "reproduce cost",
        "reproduce attention",
        "reproduce limits",
        "reproduce ablation",
        "reproduce all",
        "synthesise",
    ],
)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert "example:\n  napari-kpac " in capsys.readouterr().out


def test_wrong_option_exits_with_2():
    with pytest.raises(SystemExit) as stop:
        main(["models", "show"])
    assert stop.value.code == 2


def test_failed_work_exits_with_1_and_says_why(capsys):
    assert main(["models", "show", "nothing"]) == 1
    assert "no model is called 'nothing'" in capsys.readouterr().err


def test_models_list_and_show(capsys):
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert any(entry["default"] for entry in listed)
    assert main(["models", "show", "default", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["parameters"] == 2_057_893
    assert shown["config"]["dilations"] == [1, 2, 3, 4, 5]
    assert main(["models", "show", "default"]) == 0
    assert "2,057,893" in capsys.readouterr().out


def test_import_install_verify_remove(tmp_path, capsys):
    import napari_kpac as kpac

    config = kpac.KPACConfig(levels=2, channels=6, shape_hidden=3)
    reference.write_authors_file(tmp_path / "a.npz", reference.random_params(config), config)
    target = tmp_path / "mine.safetensors"
    assert main(["models", "import", str(tmp_path / "a.npz"), "-o", str(target)]) == 0
    assert main(["models", "install", str(target)]) == 0
    assert "installed as 'mine'" in capsys.readouterr().out
    assert main(["models", "verify", "mine", "default"]) == 0
    damaged = bytearray(target.read_bytes())
    damaged[-1] ^= 1
    target.write_bytes(bytes(damaged))
    assert main(["models", "verify", str(target)]) == 1
    assert main(["models", "remove", "mine"]) == 0
    assert main(["models", "show", "mine"]) == 1


def test_a_bad_import_writes_nothing(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    target = tmp_path / "out" / "mine.safetensors"
    assert main(["models", "import", str(tmp_path / "bad.npz"), "-o", str(target)]) == 1
    assert not target.parent.exists()


def test_reproduce_params_and_flops(capsys):
    assert main(["reproduce", "params"]) == 0
    text = capsys.readouterr().out
    for number in ("1,579,437", "2,059,053", "2,501,037", "2,259,843", "1,327,299", "2,642,775"):
        assert number in text
    assert main(["reproduce", "flops"]) == 0
    text = capsys.readouterr().out
    for number in ("196.4", "226.1", "383.3"):
        assert number in text
    assert main(["reproduce", "flops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_demo_without_a_display_writes_its_files(tmp_path):
    from skimage.io import imread

    done = run("demo", "--headless", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    alphas = {f"block{b}-alpha{i}.png" for b in (1, 2) for i in (1, 2, 3, 4, 5)}
    assert names == {"input.png", "deblurred.png", "blur-map.png"} | alphas
    shapes = {imread(tmp_path / "out" / name).shape[:2] for name in names}
    assert shapes == {(400, 600)}
    assert (
        imread(tmp_path / "out" / "deblurred.png") != imread(tmp_path / "out" / "input.png")
    ).any()
