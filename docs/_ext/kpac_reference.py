"""Reference pages from the program itself: the help of commands and options.

Not for: prose.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from napari_kpac.cli.entry import parser


class CommandReference(Directive):
    """``{commands}``: a section for every command, as its parser describes it."""

    def run(self) -> list[nodes.Node]:
        """Walk through the parsers."""
        return [self._section(command) for command in _subcommands(parser())]

    def _section(self, command: argparse.ArgumentParser) -> nodes.section:
        name = command.prog
        section = nodes.section(ids=[nodes.make_id(name)], names=[nodes.fully_normalize_name(name)])
        self.state.document.note_explicit_target(section)
        section += nodes.title(name, name)
        section += nodes.paragraph("", command.description or "")
        children = list(_subcommands(command))
        if not children:
            usage = re.sub(
                r"\n +", "\n    ", command.format_usage().removeprefix("usage: ").strip()
            )
            section += nodes.literal_block(usage, usage, language="text")
            section += [part for group in command._action_groups for part in _group(command, group)]
        if command.epilog and not children:
            example = command.epilog.removeprefix("example:\n").replace("\n  ", "\n").strip()
            section += nodes.rubric("", "example")
            section += nodes.literal_block(example, example, language="console")
        section += [self._section(child) for child in children]
        return section


def _subcommands(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _group(
    command: argparse.ArgumentParser, group: argparse._ArgumentGroup
) -> Iterator[nodes.Node]:
    shown = [
        action
        for action in group._group_actions
        if action.help is not argparse.SUPPRESS and "--help" not in action.option_strings
    ]
    if not shown:
        return
    yield nodes.rubric("", group.title or "")
    listed = nodes.definition_list()
    for action in shown:
        term = nodes.term("", "", nodes.literal("", _call(action)))
        text = command._get_formatter()._expand_help(action) if action.help else ""
        # Dashes of options stay dashes.
        said = nodes.paragraph("", text, support_smartquotes=False)
        listed += nodes.definition_list_item("", term, nodes.definition("", said))
    yield listed


def _call(action: argparse.Action) -> str:
    """Write an option as it is given."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = ""
    if action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
        value = f" {action.metavar or choices or action.dest.upper()}"
    return ", ".join(action.option_strings) + value


def _described(kind: Any) -> bool:
    """Return True if this is a class of options, whose fields have help texts."""
    return is_dataclass(kind) and any("help" in item.metadata for item in fields(kind))


def shorten_signature(
    _app: Sphinx, what: str, _name: str, object_: Any, _options: Any, *_: Any
) -> tuple[str, str] | None:
    """Shorten the signature of a class of options, which are listed below it."""
    return ("(**options)", "") if what == "class" and _described(object_) else None


def list_options(
    _app: Sphinx, what: str, _name: str, object_: Any, _options: Any, lines: list[str]
) -> None:
    """List the help texts of the options below their class."""
    if what != "class" or not _described(object_):
        return
    lines += ["", "Parameters", "----------"]
    for item in fields(object_):
        # An address in an example is no link.
        text = re.sub(r"\w+://\S+", r"``\g<0>``", item.metadata.get("help", ""))
        lines += [item.name, f"    {text} (default: ``{item.default!r}``)"]
    lines.append("")


def keep_to_attributes(
    _app: Sphinx, what: str, _name: str, object_: Any, _options: Any, lines: list[str]
) -> None:
    """Keep what is said of an attribute, and only that.

    Napoleon takes what stands before a colon for its type, and constants bring the docstring of
    their type along.
    """
    if what == "data" and object_.__doc__ == type(object_).__doc__:
        lines.clear()
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def find_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.reference | None:
    """Resolve references in docstrings that give only the last part of a name."""
    if node.get("refdomain") != "py":
        return None
    ending = "." + node["reftarget"]
    known = env.domains.python_domain.objects
    found = min((name for name in known if name.endswith(ending)), key=len, default=None)
    if found is None:
        return None
    place = known[found]
    return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, content, found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything."""
    app.add_directive("commands", CommandReference)
    app.connect("autodoc-process-signature", shorten_signature)
    # Before napoleon, which reads the section that is made here.
    app.connect("autodoc-process-docstring", list_options, priority=400)
    app.connect("autodoc-process-docstring", keep_to_attributes, priority=400)
    app.connect("missing-reference", find_short_name)
    return {"parallel_read_safe": True}
