"""Before and after in the canvas: a movable split, a key to peek at the input, a difference.

Not for: making either of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QCheckBox, QGridLayout, QLabel, QSlider, QWidget
from superqt.utils import qthrottled

from napari_kpac.widgets.form import button
from napari_kpac.widgets.layers import ResultLayers, full_resolution, moved, placement
from napari_kpac.widgets.task import Latest

PEEK_KEY = "Shift-I"
SPLIT = "split"
SLIDER_STEPS = 1000
GRAB_PX = 12
"""Screen pixels within which the split is grabbed by the mouse."""


class Comparison(QWidget):
    """Controls that compare two layers of the same size."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._results = ResultLayers(viewer)
        self._pair: tuple[Image, Image] | None = None
        """Input and result, while both are in the viewer."""
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

    def set_pair(self, before: Image, after: Image) -> None:
        """Compare these two from now on."""
        if self._pair == (before, after):
            if self._check.isChecked():
                self._show_split()
        else:
            has_split = self._check.isChecked()
            self._check.setChecked(False)
            self._pair = before, after
            self._check.setChecked(has_split and self._same_size())
        self._update_controls()

    def release(self) -> None:
        """Leave the viewer as it was found."""
        self._differences.cancel(forget=True)
        self._check.setChecked(False)
        self._viewer.layers.events.removed.disconnect(self._follow_removal)
        if self._drag in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.remove(self._drag)
        self._viewer.bind_key(PEEK_KEY, None, overwrite=True)

    def _same_size(self) -> bool:
        if self._pair is None:
            return False
        before, after = self._pair
        return bool(full_resolution(before).shape == after.data.shape)

    def _update_controls(self) -> None:
        self.setEnabled(self._pair is not None)
        for part in (self._check, self._slider, self._difference):
            part.setEnabled(self._same_size())

    def _toggle(self, on: bool) -> None:
        if on:
            self._show_split()
        else:
            self._results.remove(SPLIT)
            if self._pair is not None:
                self._pair[1].visible = True

    @qthrottled(timeout=40)
    def _move(self, value: int) -> None:
        del value
        if self._check.isChecked():
            self._show_split()

    def _column(self, width: int) -> int:
        return round(self._slider.value() / SLIDER_STEPS * (width - 1))

    def _show_split(self) -> None:
        """Show the right part of the result in a layer of its own, the result itself hidden."""
        if self._pair is None or not self._same_size():
            return
        after = self._pair[1]
        column = self._column(after.data.shape[-2 if after.rgb else -1])
        right = (slice(column, None), slice(None)) if after.rgb else (slice(column, None),)
        where = moved(after, (0,) * (after.ndim - 1) + (column,))
        self._results.put(SPLIT, after.data[(..., *right)], where, name=SPLIT, beside=after)
        after.visible = False

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
            return float(after.world_to_data(event.position)[-1])

        reach = GRAB_PX / viewer.scene.camera.zoom / float(after.scale[-1])
        if abs(column() - self._column(width)) > reach:
            return

        def follow() -> None:
            share = np.clip(column() / max(1, width - 1), 0, 1)
            self._slider.setValue(round(float(share) * SLIDER_STEPS))

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
        if self._pair is None:
            return
        split = self._results.find(SPLIT)
        layer = self._pair[1] if split is None else split
        layer.visible = False
        yield
        layer.visible = True

    def _ask_difference(self) -> None:
        if self._pair is not None and self._same_size():
            before, after = self._pair
            data, rgb = (full_resolution(before), after.data), after.rgb
            self._differences.ask(
                lambda: difference(*data, rgb=rgb), partial(self._show_difference, before)
            )

    def _show_difference(self, before: Image, found: tuple[Any, float]) -> None:
        if before not in self._viewer.layers:
            return
        values, limit = found
        key = ("difference", before.unique_id)
        self._results.remove(key)  # its contrast may be another one
        self._results.put(
            key,
            values,
            placement(before),
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
