"""The documentation in a window of its own: it comes with the package and needs no network.

A place is written as errors write it, ``docs/howto/training.md#bad-input``. Not for: which message
belongs to which place (core.errors).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt, QUrl
from qtpy.QtGui import QDesktopServices, QFont, QImage, QTextCursor, QTextDocument
from qtpy.QtWidgets import QHBoxLayout, QTextBrowser, QVBoxLayout, QWidget

from napari_kpac.core.errors import PAGE
from napari_kpac.widgets.form import button
from napari_kpac.widgets.task import later

DOCKS = "docs/reference/window.md"
FIRST = "docs/index.md"
NAMES = {"mixer": "attention-mixer"}
"""Sections of docks that are called otherwise than their widget."""
ON_SITE = "*(not in the installed package: {})*"
LINK = "#3f8fd2"
"""Readable on dark and on light, as Qt's blue is not."""
WIDTH_PX, HEIGHT_PX = 760, 620
MARGIN_PX = 24

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_DIRECTIVE = re.compile(r"^```\{[\w-]+\}.*?^```\n?", re.DOTALL | re.MULTILINE)
_DOCUMENT = re.compile(r"\{doc\}`([^`]+)`")
_ROLE = re.compile(r"\{[\w:]+\}(`[^`]+`)")
_LINK_COLOUR = re.compile(r'(<a href="[^"]*"><span style="[^"]*color:)#\w+')
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def folder() -> Path:
    """Return where the documentation lies: in the installed package, or beside its source."""
    package = Path(__file__).parents[1]
    inside = package / "docs"
    return inside if inside.is_dir() else package.parents[1] / "docs"


def dock_place(widget: str) -> str:
    """Return the place that describes a dock, by the name of its class: ``BlurMapWidget``."""
    words = re.findall("[A-Z][a-z]*", widget.removesuffix("Widget"))
    name = "-".join(words).lower()
    return f"{DOCKS}#{NAMES.get(name, name)}"


def anchor(title: str) -> str:
    """Return the anchor of a heading, as the site and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def title_of(page: Path) -> str:
    """Return the first heading of a page; its name where it is not here."""
    found = re.search(r"^# (.+)$", _read(page), re.MULTILINE)
    return found[1] if found else page.stem.replace("-", " ")


def anchors_of(page: Path) -> list[str]:
    """Return the anchors of all headings of a page."""
    return [anchor(each) for each in _HEADING.findall(_FENCE.sub("", _read(page)))]


def plain_markdown(page: Path) -> str:
    """Return a page in the Markdown that Qt shows: no roles and no directives of the site."""

    def link(found: re.Match[str]) -> str:
        name = found[1]
        target = (folder() if name[0] == "/" else page.parent) / f"{name.lstrip('/')}.md"
        return f"[{title_of(target)}]({QUrl.fromLocalFile(str(target)).toString()})"

    text = _DIRECTIVE.sub("", _COMMENT.sub("", _read(page)))
    return _ROLE.sub(r"\1", _DOCUMENT.sub(link, text))


def _html(markdown: str, font: QFont) -> str:
    """Return a page with links in a colour that both themes can show: Qt takes the system's."""
    document = QTextDocument()
    document.setDefaultFont(font)
    document.setMarkdown(markdown, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
    return _LINK_COLOUR.sub(rf"\1{LINK}", document.toHtml())


@cache
def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except OSError:
        return ""


class Page(QTextBrowser):
    """Shows one page of the documentation, and follows its links to others."""

    def __init__(self) -> None:
        super().__init__()
        self._document = QTextDocument(self)
        self.setDocument(self._document)
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._follow)
        self.section = ""
        """The anchor of the section on top."""
        self.page = Path()
        # A page that was just filled, or a window that was just shown, is laid out after this.
        self._settled = later(self, 0, self._scroll)
        self._before: list[str] = []
        """Places that were shown earlier."""

    @property
    def place(self) -> str:
        """What is shown, as a place of the documentation."""
        name = self.page.relative_to(folder()).as_posix()
        return f"docs/{name}" + (f"#{self.section}" if self.section else "")

    def show_place(self, place: str) -> None:
        """Show a place; what was shown can be gone back to."""
        if self.page != Path():
            self._before.append(self.place)
        self._load(place)

    def go_back(self) -> None:
        """Show what was shown before."""
        if self._before:
            self._load(self._before.pop())

    def _load(self, place: str) -> None:
        name, _, self.section = place.partition("#")
        page = folder() / name.removeprefix("docs/")
        if page != self.page:
            self.page = page
            text = plain_markdown(page) or ON_SITE.format(place)
            self._document.setBaseUrl(QUrl.fromLocalFile(str(page)))
            self._document.setHtml(_html(text, self.font()))
        self._scroll()
        self._settled.start()

    def _scroll(self) -> None:
        """Bring the section to the top."""
        self._document.pageCount()  # lays all of it out, which Qt would do little by little
        cursor = QTextCursor(self._document)
        block = self._document.begin()
        while self.section and block.isValid():
            if block.blockFormat().headingLevel() and anchor(block.text()) == self.section:
                cursor = QTextCursor(block)
                break
            block = block.next()
        bar = self.verticalScrollBar()
        if bar is not None:
            self.setTextCursor(cursor)
            bar.setValue(bar.value() + self.cursorRect(cursor).top() - MARGIN_PX // 2)

    def loadResource(self, kind: int, name: QUrl) -> Any:  # noqa: N802 - Qt's name
        """Show images as wide as the page at most."""
        if kind != QTextDocument.ResourceType.ImageResource.value:
            return super().loadResource(kind, name)
        path = self._document.baseUrl().resolved(name).toLocalFile()
        image = QImage(path)
        width = max(200, self.width() - 2 * MARGIN_PX)
        if image.width() > width:
            image = image.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)
        return image

    def _follow(self, link: QUrl) -> None:
        """Show another page, or hand an address of the web to the browser."""
        target = self._document.baseUrl().resolved(link)
        if not target.isLocalFile():
            QDesktopServices.openUrl(target)
            return
        path = Path(target.toLocalFile())
        name = path.relative_to(folder()) if path.is_relative_to(folder()) else Path(path.name)
        section = f"#{target.fragment()}" if target.fragment() else ""
        self.show_place(f"docs/{name.as_posix()}{section}")


class HelpWindow(QWidget):
    """The documentation, with buttons to go back and to its first page."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle("KPAC defocus deblurring: documentation")
        self.resize(WIDTH_PX, HEIGHT_PX)
        self.page = Page()
        bar = QHBoxLayout()
        for text, action in (
            ("Back", self.page.go_back),
            ("Contents", lambda: self.page.show_place(FIRST)),
            ("The docks", lambda: self.page.show_place(DOCKS)),
            ("Troubleshooting", lambda: self.page.show_place(PAGE)),
        ):
            bar.addWidget(button(text, "", action))
        bar.addStretch(1)
        layout = QVBoxLayout(self)
        layout.addLayout(bar)
        layout.addWidget(self.page)


def show_help(asking: QWidget, place: str) -> HelpWindow:
    """Show a place of the documentation, in the one help window of a napari window."""
    window = asking.window()
    assert window is not None  # noqa: S101 - every widget has one
    shown = next(iter(window.findChildren(HelpWindow)), None) or HelpWindow(window)
    shown.show()
    shown.page.show_place(place)
    shown.raise_()
    shown.activateWindow()
    return shown
