"""What stands beside the package says the same as pyproject.toml."""

import re
import tomllib

import yaml

from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"torch": "pytorch"}


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == PROJECT["version"]
    wanted = {f"python {PROJECT['requires-python']}"}
    for requirement in PROJECT["dependencies"]:
        name, limits = re.fullmatch(r"([A-Za-z0-9_-]+)(.*)", requirement).groups()
        wanted.add(f"{CONDA_NAMES.get(name, name)} {limits}")
    assert set(recipe["requirements"]["run"]) == wanted
    (script,) = recipe["build"]["python"]["entry_points"]
    assert script == f"napari-kpac = {PROJECT['scripts']['napari-kpac']}"


def test_the_workflow_runs_all_but_windows_on_the_other_systems():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    headless = workflow["jobs"]["headless"]
    assert headless["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    (command,) = [step["run"] for step in headless["steps"] if "pytest" in step.get("run", "")]
    assert command == 'python -m pytest -m "not long and not window" --ignore=tests/gui'


def test_the_workflow_runs_the_test_command_on_every_python_that_is_promised():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    linux = workflow["jobs"]["linux"]
    assert "make PYTHON=python test" in [step.get("run") for step in linux["steps"]]
    promised = [
        line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)
    ]
    assert linux["strategy"]["matrix"]["python"] == promised
