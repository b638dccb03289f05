"""Help in a real window: a button in every dock, a link in every message, pages without network."""

import os
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
import yaml
from qtpy.QtCore import QPoint, Qt, QUrl
from qtpy.QtGui import QDesktopServices, QTextDocument
from qtpy.QtWidgets import QPushButton

import napari_kpac
from napari_kpac.core import errors
from napari_kpac.widgets import help as help_
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.help import HelpWindow, Page, anchors_of, dock_place, folder
from napari_kpac.widgets.run_panel import Message
from tests.core.test_errors import families
from tests.tools import load_tool

ROOT = Path(__file__).parents[2]
MANIFEST = yaml.safe_load((Path(napari_kpac.__file__).parent / "napari.yaml").read_text())
COMMANDS = {each["id"]: each["python_name"] for each in MANIFEST["contributions"]["commands"]}
DOCKS = {
    each["display_name"]: COMMANDS[each["command"]].partition(":")[2]
    for each in MANIFEST["contributions"]["widgets"]
}


def exists(place):
    name, _, section = place.partition("#")
    page = folder() / name.removeprefix("docs/")
    return page.is_file() and (not section or section in anchors_of(page))


@pytest.fixture
def ship_docs(monkeypatch):
    """The build hook; hatchling itself is only there while a wheel is built."""
    stub = types.ModuleType("interface")
    stub.BuildHookInterface = object
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", stub)
    return load_tool("ship_docs")


@pytest.mark.parametrize("name", DOCKS)
def test_every_dock_has_a_button_that_shows_its_section(viewer, tiny_model, qtbot, name):
    _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", name)
    (button,) = (each for each in widget.findChildren(QPushButton) if each.text() == "Help")
    qtbot.waitUntil(button.isVisible)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    (shown,) = viewer.window._qt_window.findChildren(HelpWindow)
    assert shown.isVisible()
    assert shown.page.place == dock_place(DOCKS[name])
    assert exists(shown.page.place)
    # The heading of the section is on top of what is shown.
    qtbot.waitUntil(lambda: help_.anchor(top_line(shown.page)) == shown.page.section)
    widget.release()


def top_line(page):
    return page.cursorForPosition(QPoint(5, 24)).block().text()


def test_a_message_has_a_link_that_helps(viewer, docked, tiny_model, qtbot):
    widget = docked(DeblurWidget)
    qtbot.mouseClick(widget._panel.button, Qt.MouseButton.LeftButton)
    message = widget._message
    assert "there is no image layer" in message.text()
    assert "docs/" not in shown_text(message)  # no path that a person would have to look for
    qtbot.waitUntil(lambda: message.height() > 0)
    click_link(message, qtbot)
    (shown,) = viewer.window._qt_window.findChildren(HelpWindow)
    assert shown.page.place == "docs/troubleshooting.md#not-ready"
    # Another link shows its page in the same window; Back returns.
    message.show_error("broken <b> & all (see docs/howto/training.md#bad-input)")
    assert "broken <b> & all" in shown_text(message)
    click_link(message, qtbot)
    assert viewer.window._qt_window.findChildren(HelpWindow) == [shown]
    assert shown.page.place == "docs/howto/training.md#bad-input"
    shown.page.go_back()
    assert shown.page.place == "docs/troubleshooting.md#not-ready"


def shown_text(message):
    document = QTextDocument()
    document.setHtml(super(Message, message).text())
    return document.toPlainText()


def click_link(message, qtbot):
    """Click from right to left on the last line, where the link is, until it answers."""
    heard = []
    message.linkActivated.connect(heard.append)
    for x in range(message.width() - 2, 0, -4):
        for y in range(message.height() - 4, 0, -8):
            place = QPoint(x, y)
            qtbot.mouseMove(message, place)
            if message.cursor().shape() == Qt.CursorShape.PointingHandCursor:
                qtbot.mouseClick(message, Qt.MouseButton.LeftButton, pos=place)
                if heard:
                    return
    raise AssertionError("no link was found")


def test_every_error_leads_to_a_section_that_exists():
    places = {*errors.PLACES.values(), *(family.section() for family in families())}
    assert {place for place in places if not exists(place)} == set()
    texts = " ".join(
        re.sub(r'"\s*f?"', "", path.read_text(encoding="utf-8"))
        for path in Path(napari_kpac.__file__).parent.rglob("*.py")
        if path.name != "errors.py"
    )
    assert {said for said in errors.PLACES if said not in texts} == set()


def test_a_message_has_the_section_of_its_own():
    error = errors.FileError("3 pairs do not agree pixel by pixel; align them")
    assert error.place() == "docs/howto/training.md#bad-input"
    text = errors.for_people(error)
    assert errors.split_place(text) == (str(error), error.place())
    assert errors.split_place("plain (see docs)") == ("plain (see docs)", "")


@pytest.mark.parametrize("page", sorted(folder().rglob("*.md")), ids=lambda page: page.stem)
def test_pages_show_no_markup_of_the_site_and_all_their_links_work(qtbot, page, monkeypatch):
    shown = Page()
    qtbot.addWidget(shown)
    shown.resize(700, 500)
    shown.show_place(f"docs/{page.relative_to(folder()).as_posix()}")
    text = shown.toPlainText()
    assert len(text) > 40
    assert not re.search(r"\{(doc|py:\w+|eval-rst|toctree)\}", text)
    outside = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: outside.append(url.toString()))
    block = shown.document().begin()
    links = set()
    while block.isValid():
        links |= {form.format.anchorHref() for form in block.textFormats()} - {""}
        block = block.next()
    for link in links:
        shown._follow(QUrl(link))
        if outside:
            assert outside.pop().startswith(("http:", "https:"))
        else:
            assert exists(shown.place), link
            shown.go_back()


def test_what_is_not_in_the_package_is_said(qtbot):
    shown = Page()
    qtbot.addWidget(shown)
    shown.show_place("docs/nowhere.md#else")
    assert "not in the installed package: docs/nowhere.md#else" in shown.toPlainText()


def test_images_fit_the_page(qtbot):
    shown = Page()
    qtbot.addWidget(shown)
    shown.resize(500, 400)
    shown.show_place("docs/reference/window.md")
    kind = QTextDocument.ResourceType.ImageResource.value
    image = shown.loadResource(kind, QUrl("../images/deblur-dark.png"))
    assert 200 < image.width() <= 500


def test_a_wheel_is_given_every_page_that_help_can_show(ship_docs, monkeypatch):
    hook, data = ship_docs.ShipDocs(), {"force_include": {}}
    hook.root = str(ROOT)
    hook.initialize("editable", data)
    assert data["force_include"] == {}
    hook.initialize("standard", data)
    inside = set(data["force_include"].values())
    assert all(Path(path).is_file() for path in data["force_include"])
    places = [*errors.PLACES.values(), errors.PAGE, help_.DOCKS, help_.FIRST]
    for place in places:
        assert f"napari_kpac/{place.partition('#')[0]}" in inside
    assert "napari_kpac/docs/images/train-dark.png" in inside


@pytest.mark.long
def test_an_installed_wheel_shows_its_own_pages(tmp_path):
    pytest.importorskip("hatchling", reason="builds a wheel without a network")
    call = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*call, "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "from napari_kpac.widgets.help import folder, anchors_of as a;"
    code += "print(folder()); print(a(folder() / 'troubleshooting.md'))"
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=variables
    ).stdout
    assert str(tmp_path / "site" / "napari_kpac" / "docs") in told
    assert "'config'" in told
