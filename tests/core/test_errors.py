"""Errors say where the documentation speaks of them, and it does."""

import ast
import pickle
import re
import traceback
from pathlib import Path

import pytest

from napari_kpac.cli import main
from napari_kpac.core import errors

ROOT = Path(__file__).parents[2]


def families(parent=errors.KpacError):
    for child in parent.__subclasses__():
        yield child
        yield from families(child)


@pytest.mark.parametrize("family", sorted(families(), key=lambda kind: kind.__name__))
def test_every_family_has_its_section(family):
    page, _, anchor = family.section().partition("#")
    _, *parts = re.split(r"^## (.+)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.M)
    found = {
        title.lower().replace(" ", "-"): text
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    assert anchor in found
    assert f"`{family.__name__}`" in found[anchor]


def test_the_anchor_follows_from_the_name():
    assert errors.MissingExtraError.section() == "docs/troubleshooting.md#missing-extra"
    assert errors.KpacError.section() == "docs/troubleshooting.md"


def test_a_traceback_shows_it_and_the_message_stays_plain():
    error = errors.FileError("a.png: cut off")
    assert str(error) == "a.png: cut off"
    shown = "".join(traceback.format_exception(error))
    assert shown.count("docs/troubleshooting.md#file") == 1
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.__notes__ == error.__notes__


def test_what_people_read():
    assert errors.for_people(errors.WeightsError("bad")) == (
        "bad (see docs/troubleshooting.md#weights)"
    )
    assert errors.for_people(errors.FileError("two:\na\nb")).splitlines()[-1] == (
        "(see docs/troubleshooting.md#file)"
    )
    assert errors.for_people(KeyError()) == "KeyError"
    assert errors.for_people(RuntimeError("torn")) == "RuntimeError: torn"


def test_the_terminal_names_it(tmp_path, capsys):
    assert main(["models", "show", "nothing"]) == 1
    assert "docs/troubleshooting.md#model-not-found" in capsys.readouterr().err
    assert main(["evaluate", "--ssim", "odd"]) == 2
    assert "docs/troubleshooting.md#config" in capsys.readouterr().err
    (tmp_path / "bad.png").write_bytes(b"no image")
    assert main(["deblur", str(tmp_path / "bad.png"), "-o", str(tmp_path / "out.png")]) == 1
    assert "docs/troubleshooting.md#file" in capsys.readouterr().err


def raised_texts(path):
    """Yield the texts of all exceptions that a module raises."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_only_the_terminal_speaks_of_its_flags():
    """The window and notebooks show the same messages."""
    package = ROOT / "src" / "napari_kpac"
    flag = re.compile(r"(^|[\s(`'])--?[a-z][a-z-]*")
    modules = [path for path in package.rglob("*.py") if path.parent.name != "cli"]
    texts = [text for path in modules for text in raised_texts(path)]
    assert len(texts) > 300
    assert [text for text in texts if flag.search(text)] == []
