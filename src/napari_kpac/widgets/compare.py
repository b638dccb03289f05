"""Before and after in the canvas: a movable split, a key to peek at the input, a difference.

Not for: making either of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)
from superqt.utils import qthrottled

from napari_kpac.widgets.layers import find_layer, full_resolution, moved, placement
from napari_kpac.widgets.task import Latest

PEEK_KEY = "Shift-I"
STEPS = 1000
NEAR = 12
"""Screen pixels within which the split is grabbed by the mouse."""


class Comparison:
    """Compares two layers of the same size; shows its controls in ``control``."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._before: Any = None
        self._after: Any = None
        self._split: Image | None = None
        self.control = QWidget()
        self._check = QCheckBox("split")
        self._check.setToolTip("Left of the split: the input. Right of it: the result.")
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, STEPS)
        self._slider.setValue(STEPS // 2)
        self._slider.setToolTip("Move the split; or drag it in the image.")
        self._difference = QPushButton("Difference layer")
        self._difference.setToolTip("Add a layer that shows what changed: result minus input.")
        hint = QLabel(f"Hold {PEEK_KEY.replace('-', '+')} to see the input.")
        row = QHBoxLayout()
        row.addWidget(self._check)
        row.addWidget(self._slider, 1)
        column = QVBoxLayout(self.control)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self._difference)
        column.addWidget(hint)
        self._check.toggled.connect(self._toggle)
        self._slider.valueChanged.connect(self._move)
        self._differences = Latest(self.control)
        self._differences.answered.connect(self._add_difference)
        self._difference.clicked.connect(self._ask_difference)
        viewer.bind_key(PEEK_KEY, self._peek, overwrite=True)
        viewer.mouse_drag_callbacks.append(self._drag)
        viewer.layers.events.removed.connect(self._follow_removal)
        self._update()

    def set_pair(self, before: Image, after: Image) -> None:
        """Compare these two from now on."""
        self._before, self._after = before.unique_id, after.unique_id
        self._update()
        if self._split is not None:
            self._show_split()

    def release(self) -> None:
        """Leave the viewer as it was found."""
        self._differences.forget()
        self._hide_split()
        self._viewer.layers.events.removed.disconnect(self._follow_removal)
        if self._drag in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.remove(self._drag)
        self._viewer.bind_key(PEEK_KEY, None, overwrite=True)

    def _pair(self) -> tuple[Any, Any] | None:
        before = find_layer(self._viewer, self._before)
        after = find_layer(self._viewer, self._after)
        if before is None or after is None:
            return None
        return before, after

    def _same_size(self) -> bool:
        pair = self._pair()
        return pair is not None and full_resolution(pair[0]).shape == pair[1].data.shape

    def _update(self) -> None:
        self.control.setEnabled(self._pair() is not None)
        self._check.setEnabled(self._same_size())
        self._slider.setEnabled(self._same_size())
        self._difference.setEnabled(self._same_size())

    def _toggle(self, on: bool) -> None:
        if on:
            self._show_split()
        else:
            self._hide_split()

    @qthrottled(timeout=40)
    def _move(self, value: int) -> None:
        del value
        if self._split is not None:
            self._show_split()

    def _column(self, width: int) -> int:
        return round(self._slider.value() / STEPS * (width - 1))

    def _show_split(self) -> None:
        """Show the right part of the result in a layer of its own, the result itself hidden."""
        pair = self._pair()
        if pair is None or not self._same_size():
            return
        _, after = pair
        axis = -2 if after.rgb else -1
        column = self._column(after.data.shape[axis])
        part = after.data[
            (..., slice(column, None), slice(None)) if after.rgb else (..., slice(column, None))
        ]
        where = moved(after, (0,) * (after.ndim - 1) + (column,))
        split = self._split
        if split is not None and (split.rgb, split.ndim) != (after.rgb, after.ndim):
            # A layer cannot turn from colour to grey, or from an image into a stack.
            self._split = None
            self._viewer.layers.remove(split)
        if self._split is None:
            self._split = Image(part, name="split", rgb=after.rgb, colormap=after.colormap, **where)
            if not after.rgb:
                self._split.contrast_limits = after.contrast_limits
            after.visible = False
            self._viewer.layers.insert(self._viewer.layers.index(after) + 1, self._split)
        else:
            self._split.data = part
            self._split.translate = where["translate"]

    def _hide_split(self) -> None:
        split, self._split = self._split, None
        if split is not None and split in self._viewer.layers:
            self._viewer.layers.remove(split)
        pair = self._pair()
        if split is not None and pair is not None:
            pair[1].visible = True
        if self._check.isChecked():
            self._check.setChecked(False)

    def _follow_removal(self, event: Any) -> None:
        if event.value is self._split:
            self._split = None
            self._check.setChecked(False)
            if (pair := self._pair()) is not None:
                pair[1].visible = True
        elif self._pair() is None:
            self._hide_split()
        self._update()

    def _drag(self, viewer: Viewer, event: Any) -> Iterator[None]:
        """Drag the split with the mouse when it is grabbed close by."""
        pair = self._pair()
        if self._split is None or pair is None:
            return
        after = pair[1]
        width = after.data.shape[-2 if after.rgb else -1]

        def column() -> float:
            return float(after.world_to_data(event.position)[-1])

        reach = NEAR / viewer.scene.camera.zoom / float(after.scale[-1])
        if abs(column() - self._column(width)) > reach:
            return

        def follow() -> None:
            share = np.clip(column() / max(1, width - 1), 0, 1)
            self._slider.setValue(round(float(share) * STEPS))

        was, viewer.scene.camera.mouse_pan = viewer.scene.camera.mouse_pan, False
        yield
        was_moved = event.type == "mouse_move"
        while event.type == "mouse_move":
            follow()
            yield
        if was_moved:  # the canvas drops moves that come too fast, also the last one
            follow()
        viewer.scene.camera.mouse_pan = was

    def _peek(self, viewer: Viewer) -> Iterator[None]:
        """Hide the result while the key is held."""
        del viewer
        pair = self._pair()
        shown = [] if pair is None else [pair[1]] if self._split is None else [self._split]
        for layer in shown:
            layer.visible = False
        yield
        for layer in shown:
            layer.visible = True

    def _ask_difference(self) -> None:
        pair = self._pair()
        if pair is not None and self._same_size():
            before, after = pair
            data, rgb = (full_resolution(before), after.data), after.rgb
            self._differences.ask(lambda: (before, *difference(*data, rgb=rgb)))

    def _add_difference(self, found: tuple[Image, Any, float]) -> None:
        before, values, limit = found
        if before not in self._viewer.layers:
            return
        name = f"{before.name} (difference)"
        for layer in [known for known in self._viewer.layers if known.name == name]:
            self._viewer.layers.remove(layer)
        self._viewer.add_image(
            values, name=name, colormap="PiYG", contrast_limits=(-limit, limit),
            **placement(before),
        )  # fmt: skip


def difference(before: Any, after: Any, *, rgb: bool) -> tuple[npt.NDArray[np.float32], float]:
    """Return result minus input (the mean of the colours) and a limit for its contrast."""
    values = np.asarray(after, np.float32) - np.asarray(before, np.float32)
    if rgb:
        values = values[..., :3].mean(axis=-1)
    return values, float(np.nanpercentile(np.abs(values), 99.5)) or 1.0
