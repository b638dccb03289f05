"""One strip of the mixer: a dilation's attention map, gain, mute and solo.

Not for: what the numbers do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import ensure_colormap
from qtpy.QtCore import QSize, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import (
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QSlider,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from superqt.utils import signals_blocked

from napari_kpac.widgets.mixer.state import MOST_GAIN

TICKS = 100
"""Slider positions per unit of gain."""
THUMBNAIL = QSize(56, 44)
COLOURS = "viridis"


class Thumbnail(QToolButton):
    """A small image of an attention map, always on the scale 0..1; a click opens it."""

    def __init__(self, tooltip: str) -> None:
        super().__init__()
        self.setToolTip(tooltip)
        self.setIconSize(THUMBNAIL)
        self.setFixedSize(THUMBNAIL + QSize(6, 6))
        self.setAutoRaise(True)

    def show_map(self, values: npt.NDArray[np.float32]) -> None:
        """Show a map (h, w) in 0..1."""
        # Colours only for as many pixels as can be seen: maps of large images are large.
        step = max(
            1, min(values.shape[0] // THUMBNAIL.height(), values.shape[1] // THUMBNAIL.width())
        )
        values = values[::step, ::step]
        colours = ensure_colormap(COLOURS).map(np.clip(values, 0, 1).ravel())
        pixels = np.rint(colours[:, :3] * 255).astype(np.uint8).reshape(*values.shape, 3)
        height, width = values.shape
        image = QImage(pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888)
        scaled = QPixmap.fromImage(image).scaled(
            THUMBNAIL,
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        self.setIcon(_icon(scaled))


def _icon(pixmap: QPixmap) -> Any:
    from qtpy.QtGui import QIcon

    return QIcon(pixmap)


class Strip(QWidget):
    """A dilation of a block; signals are in the past tense and carry the new value."""

    gain_moved = Signal(float)
    gain_settled = Signal(float)
    mute_toggled = Signal(bool)
    solo_toggled = Signal(bool)
    map_clicked = Signal()

    def __init__(self, index: int, dilation: int) -> None:
        super().__init__()
        name = f"α{_subscript(index + 1)}"
        title = QLabel(f"<b>{name}</b>")
        title.setToolTip(f"Attention of the branch with dilation {dilation}.")
        subtitle = QLabel(f"dil. {dilation}")
        self.thumbnail = Thumbnail(
            f"Where {name} is active: bright = 1, dark = 0. Click to add it as a layer."
        )
        self.slider = QSlider(Qt.Orientation.Vertical)
        self.slider.setRange(0, round(MOST_GAIN * TICKS))
        self.slider.setPageStep(TICKS // 4)
        self.slider.setTickPosition(QSlider.TickPosition.TicksRight)
        self.slider.setTickInterval(TICKS // 2)
        self.slider.setMinimumHeight(110)
        self.slider.setToolTip(f"Gain of {name}: 0 switches the branch off, 1 leaves it alone.")
        self.number = QDoubleSpinBox()
        self.number.setRange(0, MOST_GAIN)
        self.number.setSingleStep(0.05)
        self.number.setDecimals(2)
        self.number.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        self.number.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.number.setKeyboardTracking(False)
        self.number.setStyleSheet(f"min-width: 0px; max-width: {THUMBNAIL.width() - 8}px;")
        self.number.setToolTip("The gain as a number.")
        self.mute = _flag("M", f"Mute {name}: as if its gain were 0.")
        self.solo = _flag("S", f"Solo {name}: mute all others of this block.")
        self.reset = _button("1", "Set the gain back to 1.")
        buttons = QHBoxLayout()
        buttons.setSpacing(2)
        for button in (self.mute, self.solo, self.reset):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 2, 1, 2)
        layout.setSpacing(3)
        centre = Qt.AlignmentFlag.AlignHCenter
        for widget in (title, subtitle, self.thumbnail, self.slider, self.number):
            layout.addWidget(widget, 1 if widget is self.slider else 0, centre)
        layout.addLayout(buttons)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(f"{name}, dilation {dilation}")
        self.show_gain(1.0)
        self.slider.valueChanged.connect(self._slide)
        self.slider.sliderReleased.connect(lambda: self.gain_settled.emit(self.gain))
        self.number.valueChanged.connect(self._type)
        self.mute.toggled.connect(self.mute_toggled)
        self.solo.toggled.connect(self.solo_toggled)
        self.reset.clicked.connect(lambda: self.number.setValue(1.0))
        self.thumbnail.clicked.connect(self.map_clicked)

    @property
    def gain(self) -> float:
        """The gain as shown."""
        return self.slider.value() / TICKS

    def show_gain(self, value: float) -> None:
        """Show a gain without saying that it moved."""
        with signals_blocked(self.slider):
            self.slider.setValue(round(value * TICKS))
        with signals_blocked(self.number):
            self.number.setValue(value)

    def show_flags(self, muted: bool, soloed: bool) -> None:
        """Show mute and solo without saying that they changed."""
        for button, on in ((self.mute, muted), (self.solo, soloed)):
            with signals_blocked(button):
                button.setChecked(on)

    def _slide(self, position: int) -> None:
        self.show_gain(position / TICKS)
        self.gain_moved.emit(self.gain)
        if not self.slider.isSliderDown():
            self.gain_settled.emit(self.gain)

    def _type(self, value: float) -> None:
        self.show_gain(value)
        self.gain_moved.emit(value)
        self.gain_settled.emit(value)


def _button(text: str, tooltip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tooltip)
    button.setAccessibleName(tooltip)
    button.setFixedWidth(19)
    button.setStyleSheet("min-width: 0px; padding: 2px 0px;")
    return button


def _flag(text: str, tooltip: str) -> QPushButton:
    button = _button(text, tooltip)
    button.setCheckable(True)
    return button


def _subscript(number: int) -> str:
    return "".join(chr(0x2080 + int(digit)) for digit in str(number))
