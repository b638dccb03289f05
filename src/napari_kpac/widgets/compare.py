"""Before and after in the canvas: a movable split, a key to peek at the input, a difference.

Not for: making either of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Layer
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QCheckBox, QGridLayout, QLabel, QSlider, QWidget
from superqt.utils import qthrottled

from napari_kpac.widgets.form import button
from napari_kpac.widgets.layers import (
    SPLIT,
    Part,
    ResultLayers,
    full_resolution,
    hides,
    is_ours,
    moved,
    part_shape,
    placement,
)
from napari_kpac.widgets.split import SplitLine
from napari_kpac.widgets.task import Latest, later

PEEK_KEY = "Shift-I"
PEEK_MS = 80
"""A key that is held is released and pressed again in less time, where the system repeats it."""
SLIDER_STEPS = 1000
GRAB_PX = 12
"""Screen pixels within which the split is grabbed by the mouse."""


class Comparison(QWidget):
    """Controls that compare an image with a result that covers it, or a part of it."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._results = ResultLayers(viewer)
        self._pair: tuple[Image, Image] | None = None
        """Input and result, while both are in the viewer."""
        self._part: Part = ()
        """Which part of the input the result covers."""
        self._peeked: Image | None = None
        """The layer that is hidden while the key is held."""
        self._covers: list[Layer] = []
        """Other results that would cover the input, hidden while it is to be seen."""
        self._peek_end = later(self, PEEK_MS, self._end_peek)
        self._line = SplitLine(viewer, self)
        self._line.dragged.connect(self._move_to)
        self._check = QCheckBox("split")
        self._check.setToolTip("Left of the split: the input. Right of it: the result.")
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, SLIDER_STEPS)
        self._slider.setValue(SLIDER_STEPS // 2)
        self._slider.setToolTip("Move the split; or drag it in the image.")
        self._difference = button(
            "Difference layer",
            "Add a layer that shows what changed: result minus input.",
            self._ask_difference,
        )
        hint = QLabel(f"Hold {PEEK_KEY.replace('-', '+')} to see the input.")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(1, 1)
        grid.addWidget(self._check, 0, 0)
        grid.addWidget(self._slider, 0, 1)
        grid.addWidget(self._difference, 1, 0, 1, 2)
        grid.addWidget(hint, 2, 0, 1, 2)
        self._differences = Latest(self)
        self._check.toggled.connect(self._toggle)
        self._slider.valueChanged.connect(self._move)
        viewer.bind_key(PEEK_KEY, self._peek, overwrite=True)
        viewer.mouse_drag_callbacks.append(self._drag)
        viewer.layers.events.removed.connect(self._follow_removal)
        self._update_controls()

    def set_pair(self, before: Image, after: Image, part: Part = ()) -> None:
        """Compare these two from now on; ``part`` is what the result covers of the input."""
        self._end_peek()
        self._part = part
        if self._pair == (before, after):
            if self._check.isChecked():
                self._show_split()
        else:
            has_split = self._check.isChecked()
            self._check.setChecked(False)
            self._pair = before, after
            self._check.setChecked(has_split and self._fits())
        self._update_controls()

    @property
    def result(self) -> Image | None:
        """The result that is compared, while it is in the viewer."""
        return None if self._pair is None else self._pair[1]

    def release(self) -> None:
        """Leave the viewer as it was found."""
        self._differences.cancel(forget=True)
        self._end_peek()
        self._check.setChecked(False)
        self._line.release()
        self._viewer.layers.events.removed.disconnect(self._follow_removal)
        if self._drag in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.remove(self._drag)
        self._viewer.bind_key(PEEK_KEY, None, overwrite=True)

    def _fits(self) -> bool:
        if self._pair is None:
            return False
        before, after = self._pair
        wanted = part_shape(full_resolution(before).shape, self._part)
        return wanted == tuple(after.data.shape)

    def _update_controls(self) -> None:
        self.setEnabled(self._pair is not None)
        for part in (self._check, self._slider, self._difference):
            part.setEnabled(self._fits())

    def _toggle(self, on: bool) -> None:
        if on:
            self._show_split()
        else:
            self._results.remove(SPLIT)
            self._line.hide()
            self._cover()
            if self._pair is not None:
                self._pair[1].visible = True

    def _uncover(self) -> None:
        """Hide results of ours that would cover the input."""
        if self._pair is None:
            return
        before, layers = self._pair[0], self._viewer.layers
        for layer in layers[layers.index(before) + 1 :]:
            if layer not in self._pair and is_ours(layer) and hides(layer):
                layer.visible = False
                self._covers.append(layer)

    def _cover(self) -> None:
        """Show again what was hidden, where it is still there."""
        for layer in self._covers:
            if layer in self._viewer.layers:
                layer.visible = True
        self._covers = []

    @qthrottled(timeout=40)
    def _move(self, value: int) -> None:
        del value
        if self._check.isChecked():
            self._show_split()

    def _column(self, width: int) -> int:
        return round(self._slider.value() / SLIDER_STEPS * (width - 1))

    def _show_split(self) -> None:
        """Show the right part of the result in a layer of its own, the result itself hidden."""
        if self._pair is None or not self._fits():
            return
        after = self._pair[1]
        column = self._column(after.data.shape[-2 if after.rgb else -1])
        right = (slice(column, None), slice(None)) if after.rgb else (slice(column, None),)
        where = moved(after, (0,) * (after.ndim - 1) + (column,))
        data = after.data[(..., *right)]
        is_new = self._results.find(SPLIT) is None
        if is_new:
            self._uncover()
        split = self._results.put(SPLIT, data, where, name=SPLIT, beside=after, record=SPLIT)
        if is_new:
            split.events.visible.connect(self._show_line)
        after.visible = False
        self._show_line()

    def _show_line(self, event: object = None) -> None:
        """Show the line where the split is shown."""
        del event
        split = self._results.find(SPLIT)
        if split is None or self._pair is None or not split.visible:
            self._line.hide()
            return
        after = self._pair[1]
        self._line.show(after, self._column(after.data.shape[-2 if after.rgb else -1]))

    def _follow_removal(self, event: Any) -> None:
        pair_ends = self._pair is not None and event.value in self._pair
        if pair_ends or self._results.find(SPLIT) is None:
            self._check.setChecked(False)
        if pair_ends:
            self._pair = None
        self._update_controls()

    def _drag(self, viewer: Viewer, event: Any) -> Iterator[None]:
        """Drag the split with the mouse when it is grabbed close by."""
        if self._pair is None or not self._check.isChecked():
            return
        after = self._pair[1]
        width = after.data.shape[-2 if after.rgb else -1]

        def column() -> float:
            return float(after.world_to_data(event.position)[-1] + 0.5)

        reach = GRAB_PX / viewer.scene.camera.zoom / float(after.scale[-1])
        if abs(column() - self._column(width)) > reach:
            return

        def follow() -> None:
            self._move_to(column())

        was, viewer.scene.camera.mouse_pan = viewer.scene.camera.mouse_pan, False
        yield
        was_moved = event.type == "mouse_move"
        while event.type == "mouse_move":
            follow()
            yield
        if was_moved:  # the canvas drops moves that come too fast, also the last one
            follow()
        viewer.scene.camera.mouse_pan = was

    def _move_to(self, column: float) -> None:
        """Move the split to a column of the result."""
        if self._pair is None:
            return
        after = self._pair[1]
        width = after.data.shape[-2 if after.rgb else -1]
        share = np.clip(column / max(1, width - 1), 0, 1)
        self._slider.setValue(round(float(share) * SLIDER_STEPS))

    def _peek(self, viewer: Viewer) -> Iterator[None]:
        """Hide the result while the key is held."""
        del viewer
        if self._pair is None:
            return
        self._peek_end.stop()
        split = self._results.find(SPLIT)
        layer = self._pair[1] if split is None else split
        if self._peeked is None and layer.visible:
            if split is None:
                self._uncover()
            self._peeked = layer
            layer.visible = False
        yield
        self._peek_end.start()

    def _end_peek(self) -> None:
        """Show the result again."""
        self._peek_end.stop()
        layer, self._peeked = self._peeked, None
        if not self._check.isChecked():
            self._cover()
        if layer is None or layer not in self._viewer.layers:
            return
        layer.visible = True
        if self._check.isChecked():
            self._show_split()

    def _ask_difference(self) -> None:
        if self._pair is not None and self._fits():
            before, after = self._pair
            source, part, made, rgb = full_resolution(before), self._part, after.data, after.rgb
            self._differences.ask(
                lambda: difference(source[part], made, rgb=rgb),
                partial(self._show_difference, before, placement(after)),
            )

    def _show_difference(
        self, before: Image, where: dict[str, Any], found: tuple[Any, float]
    ) -> None:
        if before not in self._viewer.layers:
            return
        values, limit = found
        key = ("difference", before.unique_id)
        self._results.remove(key)  # its contrast may be another one
        self._results.put(
            key,
            values,
            where,
            name=f"{before.name} (difference)",
            colormap="PiYG",
            contrast_limits=(-limit, limit),
        )


def difference(before: Any, after: Any, *, rgb: bool) -> tuple[npt.NDArray[np.float32], float]:
    """Return result minus input (the mean of the colours) and a limit for its contrast."""
    values = np.asarray(after, np.float32) - np.asarray(before, np.float32)
    if rgb:
        values = values[..., :3].mean(axis=-1)
    return values, float(np.nanpercentile(np.abs(values), 99.5)) or 1.0
