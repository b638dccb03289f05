"""Controls from the fields of an options record: one for each, with its words.

Not for: which options there are, or what they may be (the record checks them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from magicgui.widgets import CheckBox, ComboBox, LineEdit, SpinBox

from napari_kpac.core.errors import ConfigError

LARGEST = 2**31 - 1
"""Largest number of a spin box."""


class OptionControls:
    """Controls for some fields of an options record."""

    def __init__(
        self,
        record: type[Any],
        names: Iterable[str],
        *,
        limits: Mapping[str, tuple[float, float]] | None = None,
        choices: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> None:
        """Make the controls.

        Parameters
        ----------
        record
            The options, a dataclass whose fields were made by ``core.options.option``.
        names
            The fields to show.
        limits
            Smallest and largest value of numbers.
        choices
            All values of fields that have only a few.
        """
        hints = get_type_hints(record)
        known = {item.name: item for item in fields(record)}
        self._items = {name: known[name] for name in names}
        self._controls = {
            name: _control(item, hints[name], (limits or {}).get(name), (choices or {}).get(name))
            for name, item in self._items.items()
        }

    def __getitem__(self, name: str) -> Any:
        """Return the control of a field."""
        return self._controls[name]

    def __contains__(self, name: object) -> bool:
        return name in self._controls

    @property
    def controls(self) -> list[Any]:
        """All controls, in order."""
        return list(self._controls.values())

    @property
    def values(self) -> dict[str, Any]:
        """What is chosen, by field; raises ConfigError where a text cannot be read."""
        return {name: self._read(name) for name in self._controls}

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show these values; where there is none, the default."""
        for name, control in self._controls.items():
            value = values.get(name, self._items[name].default)
            control.value = _text(value) if isinstance(control, LineEdit) else value

    def _read(self, name: str) -> Any:
        control, item = self._controls[name], self._items[name]
        if not isinstance(control, LineEdit):
            return control.value
        text = str(control.value).strip()
        if not text and (item.default == () or isinstance(item.default, str | None)):
            return item.default
        try:
            return item.metadata["parse"](text)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"{item.name.replace('_', ' ')}: {text!r} is not a value for it"
                f" ({item.metadata['help']})"
            ) from error


def _control(item: Any, kind: Any, limits: Any, choices: Any) -> Any:
    told = item.metadata["help"]
    words = {
        "name": item.name,
        "label": item.name.replace("_", " "),
        "tooltip": told[:1].upper() + told[1:],
    }
    if get_origin(kind) is Literal:
        choices = get_args(kind)
    if choices is not None:
        pairs = [(str(value), value) for value in choices]
        return ComboBox(choices=pairs, value=item.default, **words)
    if kind is bool:
        box = CheckBox(value=item.default, **words)
        box.native.setText("")  # its label stands beside it
        return box
    if kind is int:
        low, high = limits or (-LARGEST, LARGEST)
        return SpinBox(value=item.default, min=int(low), max=int(min(high, LARGEST)), **words)
    return LineEdit(value=_text(item.default), **words)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ",".join(f"{each:g}" for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
