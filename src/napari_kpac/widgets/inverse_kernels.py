"""The Inverse kernels widget: the paper's observation, live on the image.

A blur kernel, its inverse, the inverse enlarged and the inverse dilated; and what each of
them makes of the layer, with how close the results are. Not for: the optics (optics).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from magicgui.widgets import FloatSpinBox, SpinBox
from napari.layers import Image
from napari.viewer import Viewer
from qtpy.QtCore import QSize, Qt
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget
from superqt.utils import qdebounced

from napari_kpac.widgets.choices import ImageBox
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.form import Form, button, choice_box
from napari_kpac.widgets.layers import (
    ResultLayers,
    current_index,
    find_layer,
    full_resolution,
    moved,
)
from napari_kpac.widgets.run_panel import Message
from napari_kpac.widgets.task import Latest

APERTURES = (("disc", "disc"), ("gaussian", "gaussian"), ("hexagon", "polygon"))
KERNELS = ("kernel k", "its inverse", "inverse, enlarged", "inverse, dilated")
PANEL = QSize(150, 150)
MAX_PIXELS = 1_000_000
"""A larger image is looked at in its middle, so that it stays live."""


class InverseKernelsWidget(DockedWidget):
    """Chooses a kernel and shows what its inverses do."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._results = ResultLayers(napari_viewer)
        self._with_image = False
        """Whether the layer is blurred and deblurred, too."""
        self._image = self.kept(ImageBox(napari_viewer))
        self._aperture = choice_box("aperture", APERTURES, "Shape of the blur kernel.")
        self._radius = FloatSpinBox(
            label="radius", value=2, min=0.5, max=6, step=0.5,
            tooltip="Circle of confusion of the small kernel, in pixels.",
        )  # fmt: skip
        self._scale = SpinBox(
            label="scale", value=3, min=2, max=6, tooltip="How much larger the blur is."
        )
        self._epsilon = FloatSpinBox(
            label="epsilon", value=0.01, min=0.001, max=0.5, step=0.005,
            tooltip="Wiener regularisation: larger is smoother and less exact.",
        )  # fmt: skip
        self._button = button(
            "Blur and deblur the layer",
            "Blur the slice on display with the enlarged kernel, then undo it three ways.",
            self._deblur,
        )
        self._message = Message()
        self._panels = {name: _Panel(name) for name in KERNELS}
        self._computing = Latest(self)
        self._build()
        self._computing.failed.connect(self._message.show_error)
        for control in (self._aperture, self._radius, self._scale, self._epsilon):
            control.changed.connect(self._recompute)
        self._compute()

    def _build(self) -> None:
        form = Form([self._image, self._aperture, self._radius, self._scale, self._epsilon])
        grid = QGridLayout()
        for place, panel in enumerate(self._panels.values()):
            grid.addWidget(panel, place // 2, place % 2)
        self.fill_scrolling(form, grid, self._button, self._message)

    def _deblur(self) -> None:
        with self._message.showing_errors():
            self._image.chosen()  # raises where there is none
            self._with_image = True
            self._compute()

    @qdebounced(timeout=150)
    def _recompute(self) -> None:
        self._compute()

    def _compute(self) -> None:
        settings = (
            self._aperture.value, float(self._radius.value), int(self._scale.value),
            float(self._epsilon.value),
        )  # fmt: skip
        layer = self._image.layer if self._with_image else None
        self._message.setText("Computing the inverses ...")
        if layer is None:
            self._computing.ask(partial(compute, *settings, None), self._show_kernels)
            return
        index = current_index(self._viewer, layer)
        pixels, corner = middle(np.asarray(full_resolution(layer)[index]), rgb=layer.rgb)
        show = partial(self._show_results, layer, (*index, *corner))
        self._computing.ask(partial(compute, *settings, pixels), show)

    def _show_kernels(self, found: tuple[Any, Any, Any]) -> None:
        kernel, kernels, _ = found
        shown = (kernel, kernels.inverse, kernels.upsampled, kernels.dilated)
        for panel, values in zip(self._panels.values(), shown, strict=True):
            panel.show_kernel(values)
        self._message.setText(
            "The inverse of a larger blur is the small inverse, enlarged (or dilated)."
        )

    def _show_results(
        self, source: Image, place: tuple[int, ...], found: tuple[Any, Any, Any]
    ) -> None:
        """Show blurred and deblurred images side by side in one layer, beside the image."""
        self._show_kernels(found)
        blurred, compared = found[2]
        self._message.setText(
            "PSNR between the results: inverse of the enlarged kernel against the enlarged "
            f"inverse {compared.direct_to_upsampled:.1f} dB; enlarged against dilated "
            f"{compared.upsampled_to_dilated:.1f} dB."
        )
        if find_layer(self._viewer, source.unique_id) is None:
            return
        results = (blurred, compared.by_direct, compared.by_upsampled, compared.by_dilated)
        side_by_side = np.clip(np.concatenate(results, axis=1), 0, 1).astype(np.float32)
        self._results.put(
            "results",
            side_by_side[(np.newaxis,) * (len(place) - 2)],
            moved(source, place),
            name="blurred | direct | enlarged | dilated",
            record="inverse kernels",
            rgb=blurred.ndim == 3,
            contrast_limits=(0, 1),
        )


class _Panel(QWidget):
    """A kernel as a small image: grey is zero, bright positive, dark negative."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._image = QLabel()
        self._image.setFixedSize(PANEL)
        caption = QLabel(title)
        caption.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.addWidget(self._image)
        layout.addWidget(caption)
        self.shown: npt.NDArray[Any] = np.zeros((0, 0))

    def show_kernel(self, values: npt.NDArray[Any]) -> None:
        """Show the middle of a kernel."""
        self.shown = values
        size = min(values.shape[0], 61)
        start = (values.shape[0] - size) // 2
        middle = values[start : start + size, start : start + size]
        strong = np.sign(middle) * np.sqrt(np.abs(middle) / max(np.abs(middle).max(), 1e-12))
        pixels = np.rint((strong + 1) / 2 * 255).astype(np.uint8).tobytes()
        image = QImage(pixels, size, size, size, QImage.Format.Format_Grayscale8)
        self._image.setPixmap(
            QPixmap.fromImage(image).scaled(PANEL, Qt.AspectRatioMode.KeepAspectRatio)
        )


def compute(
    aperture: str,
    radius: float,
    scale: int,
    epsilon: float,
    image: npt.NDArray[np.float64] | None,
) -> tuple[Any, Any, Any]:
    """Make the kernels; and, given an image, blur it and deblur it with each inverse."""
    from napari_kpac.optics import (
        apply_kernel,
        compare_inverses,
        find_aperture,
        inverse_kernels,
        psf,
        upsample,
    )

    kernel = psf(find_aperture(aperture), radius)
    kernels = inverse_kernels(kernel, scale, epsilon)
    if image is None:
        return kernel, kernels, None
    large = upsample(kernel, scale)
    blurred = apply_kernel(image, large / large.sum())
    return kernel, kernels, (blurred, compare_inverses(blurred, kernels))


def middle(
    plane: npt.NDArray[Any], *, rgb: bool
) -> tuple[npt.NDArray[np.float64], tuple[int, int]]:
    """Return the middle of an image, or all of it, in 0..1, and (row, column) of its corner."""
    is_byte = plane.dtype == np.uint8
    plane = plane[..., :3].astype(np.float64) if rgb else plane.astype(np.float64)
    low, high = (0.0, 255.0) if is_byte else (float(np.nanmin(plane)), float(np.nanmax(plane)))
    height, width = plane.shape[:2]
    share = min(1.0, (MAX_PIXELS / (height * width)) ** 0.5)
    rows, columns = int(height * share), int(width * share)
    top, left = (height - rows) // 2, (width - columns) // 2
    part = plane[top : top + rows, left : left + columns]
    return np.clip((np.nan_to_num(part) - low) / max(high - low, 1e-12), 0, 1), (top, left)
