"""The mix of one slice, applied to all slices of its stack.

Not for: the slice that is being mixed (widget.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Steps
from napari_kpac.widgets.layers import find_layer, full_resolution
from napari_kpac.widgets.mixer.layers import ImageSlice, ResultLayer
from napari_kpac.widgets.run_panel import RunPanel


class StackPanel(RunPanel):
    """Deblurs a stack with the settings of the mixer; hidden where there is no stack."""

    def __init__(self, results: ResultLayer) -> None:
        super().__init__(
            "Apply to all slices",
            "Deblur every slice of the stack with these settings, as a new layer; again to cancel.",
            cancelled="Cancelled; no layer was changed.",
        )
        self._results = results
        self.task.ended.connect(self._show_bar)
        self.hide()
        self._show_bar()

    def apply(self, image: ImageSlice, mix: Callable[[], Any]) -> None:
        """Start with the stack of an image and what makes its modulation."""
        # The thread gets the data and not the layer: it must not hold on to one.
        make = partial(_steps, full_resolution(image.source), image.options, mix)
        self.start(make, "Looking at the stack ...", partial(self._show, image))
        self._show_bar()

    def _show_bar(self) -> None:
        self.bar.setVisible(self.task.is_running)

    def _show(self, image: ImageSlice, found: tuple[Any, Any]) -> None:
        if find_layer(image.viewer, image.source.unique_id) is None:
            self.message.setText("The image was removed, so its result was dropped.")
            return
        layer = self._results.show_stack(image, *found)
        note = f" Note: {self.note}." if self.note else ""
        self.message.setText(f"Done in {self.seconds:.1f} s: layer “{layer.name}”.{note}")


def _steps(data: Any, options: DeblurOptions, mix: Callable[[], Any]) -> Steps[tuple[Any, Any]]:
    """Deblur a stack; returns its pixels and their record."""
    from napari_kpac.engine import deblur_steps

    result = yield from deblur_steps(data, options, mix())
    return result.image, result.recipe.to_dict()
