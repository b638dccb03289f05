"""The table "Where things live" of docs/contributing.md names files and what they define."""

import ast
import re

from tests.docs.pages import ROOT

PACKAGE = ROOT / "src" / "napari_kpac"


def rows():
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Where things live\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    return re.findall(r"^\| (.+\?) \| `(.+?)` \| `(\w+)` \|$", section, re.MULTILINE)


def defined(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_file_is_there_and_defines_what_is_named():
    for question, path, name in rows():
        assert (PACKAGE / path).is_file(), question
        assert name in defined(PACKAGE / path), question


def test_every_row_of_the_table_is_read():
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    section = page.partition("## Where things live")[2].partition("\n## ")[0]
    listed = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows()) == len(listed) >= 12
