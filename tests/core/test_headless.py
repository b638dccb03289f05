"""Everything but the windows works where neither Qt nor napari is installed."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import napari_kpac
from napari_kpac.images import read_image, write_image

BLOCKED = (
    "napari", "qtpy", "PyQt5", "PyQt6", "PySide2", "PySide6", "magicgui", "superqt", "pyqtgraph",
    "vispy",
)  # fmt: skip

PREPARE = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"{{name}} is not installed here", name=name)
sys.meta_path.insert(0, Blocker())
"""


def modules():
    root = Path(napari_kpac.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if parts[-1] != "__main__" and parts[1] != "widgets":
            yield ".".join(parts).removesuffix(".__init__")


def run(code, cwd=None):
    command = [sys.executable, "-c", PREPARE + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_the_blocker_blocks():
    done = run("import napari_kpac.widgets.deblur")
    assert done.returncode == 1
    assert "is not installed here" in done.stderr


def test_every_module_outside_the_windows_is_imported():
    names = list(modules())
    assert len(names) > 60
    done = run(f"import importlib\nfor name in {names}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


COMMANDS = (
    ["models", "list"],
    ["deblur", "in.png", "-o", "out.png", "--device", "cpu"],
    ["blur-map", "in.png", "-o", "map.png", "--device", "cpu", "--upsampling", "1"],
)


def test_the_terminal_works(tmp_path):
    write_image(tmp_path / "in.png", np.tile(np.arange(0, 250, 5, dtype=np.uint8), (40, 1)))
    code = (
        "from napari_kpac.cli import main\n"
        f"sys.exit([main(each) for each in {COMMANDS}] != [0] * {len(COMMANDS)})"
    )
    done = run(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_image(tmp_path / "out.png").shape == (40, 50)
    assert (tmp_path / "map.png").is_file()
