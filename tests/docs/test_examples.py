"""Every block of Python and of shell in the README and the documentation runs as it stands.

Blocks of one page run in their order, in one folder and one namespace. A block that cannot run
here is marked, just above it, with ``<!-- not run: why -->``.
"""

import shlex
import shutil

import pytest

from napari_kpac.cli import main
from tests.docs.pages import PAGES, blocks, name_of
from tests.docs.sample_files import write_sample_files

RUN = ("python", "sh")
SHOWN = (
    "text", "toml", "{literalinclude} slurm.py", "{literalinclude} kubernetes.yaml", "{eval-rst}",
    "{toctree}", "{commands}", "{include} ../CHANGELOG.md",
)  # fmt: skip
MAX_NOT_RUN = 18
"""A limit, so that marking a block stays an exception."""

ALL = [block for page in PAGES for block in blocks(page)]
RUNNABLE = [page for page in PAGES if any(b.kind in RUN and b.reason is None for b in blocks(page))]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    write_sample_files(folder)
    return folder


@pytest.fixture
def page_folder(samples, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(samples, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NAPARI_KPAC_MODELS", str(folder / "models"))
    return folder


def opens_window(page):
    return any("napari.Viewer(" in block.text for block in blocks(page))


def marked(page):
    marks = [pytest.mark.window] if opens_window(page) else []
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.usefixtures("page_folder")
@pytest.mark.parametrize("page", [marked(page) for page in RUNNABLE])
def test_the_page_runs(page, monkeypatch, request):
    names = {"__name__": "__main__"}
    if opens_window(page):
        # A window of napari's own fixture, which closes it and sees to it that nothing is left.
        monkeypatch.setattr("napari.Viewer", request.getfixturevalue("make_napari_viewer"))
    for block in blocks(page):
        if block.kind not in RUN or block.reason is not None:
            continue
        if block.kind == "sh":
            run_shell(block)
        else:
            # Lines are those of the page, so that a failure points to it.
            exec(compile("\n" * block.line + block.text, name_of(page), "exec"), names)
    names.clear()


def run_shell(block):
    """Run the lines of a block in this process; the command is the same function."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "napari-kpac", f"{block}: only napari-kpac is run here: {line}"
        try:
            code = main(words[1:])
        except SystemExit as stop:
            code = stop.code
        assert not code, f"{block}: {line} ended with {code}"


def test_what_is_not_run_says_why():
    marked = [block for block in ALL if block.reason is not None]
    for block in marked:
        print(f"{block}: {block.reason}")  # pytest -s shows it
    assert all(block.kind in RUN for block in marked), "only code can be marked"
    assert len(marked) <= MAX_NOT_RUN


def test_code_is_called_by_its_name():
    """A block of another kind would be left out without a word."""
    odd = [f"{block}: {block.kind!r}" for block in ALL if block.kind not in (*RUN, *SHOWN)]
    assert not odd
