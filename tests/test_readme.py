"""What the README shows runs as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_every_command_it_names_exists():
    from napari_kpac.cli.entry import parser

    named = set(re.findall(r"^napari-kpac ([a-z-]+)", README.read_text(encoding="utf-8"), re.M))
    known = parser()._subparsers._group_actions[0].choices
    assert named
    assert named <= set(known)


def test_the_files_it_links_to_exist():
    for target in re.findall(r"\]\(((?!http)[^)#]+)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target
