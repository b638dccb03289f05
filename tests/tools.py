"""The scripts in tools/, as modules."""

import importlib.util
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tools"


def load_tool(name):
    """Import a script."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool
