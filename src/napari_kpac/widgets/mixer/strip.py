"""One strip of the mixer (attention map, effect, gain, mute, solo), and the plot of beta.

Not for: what the numbers do, or the sentences about them (words.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import ensure_colormap
from qtpy.QtCore import QEvent, QObject, QSize, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QIcon, QImage, QPainter, QPixmap
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

from napari_kpac.widgets.form import wrapped
from napari_kpac.widgets.mixer.state import MAX_GAIN
from napari_kpac.widgets.mixer.words import (
    BETA,
    StripFacts,
    alpha_sentence,
    short_levels,
    strip_sentence,
)

TICKS = 100
"""Slider positions per unit."""
THUMBNAIL = QSize(56, 44)
ALPHA_COLORMAP = "viridis"


class NumberSlider(QObject):
    """A slider and a box of the same number, for a layout to place."""

    moved = Signal(float)
    """The user set another number; still moving perhaps."""
    settled = Signal()
    """The move before this is complete."""

    def __init__(self, parent: QWidget, orientation: Qt.Orientation, maximum: float) -> None:
        super().__init__(parent)
        self.slider = QSlider(orientation)
        self.slider.setRange(0, round(maximum * TICKS))
        self.number = QDoubleSpinBox()
        self.number.setRange(0, maximum)
        self.number.setSingleStep(0.05)
        self.number.setKeyboardTracking(False)
        self.slider.valueChanged.connect(lambda position: self._move(position / TICKS))
        self.slider.sliderReleased.connect(self.settled)
        self.number.valueChanged.connect(self._move)

    @property
    def value(self) -> float:
        """The number as shown."""
        return self.slider.value() / TICKS

    def show_value(self, value: float) -> None:
        """Show a number; emits nothing."""
        with signals_blocked(self.slider), signals_blocked(self.number):
            self.slider.setValue(round(value * TICKS))
            self.number.setValue(value)

    def _move(self, value: float) -> None:
        self.show_value(value)
        self.moved.emit(value)
        if not self.slider.isSliderDown():
            self.settled.emit()


class Thumbnail(QToolButton):
    """A small image of an attention map, always on the scale 0..1; a click opens it."""

    def __init__(self, tooltip: str) -> None:
        super().__init__()
        self.setToolTip(wrapped(tooltip))
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
        colours = ensure_colormap(ALPHA_COLORMAP).map(np.clip(values, 0, 1).ravel())
        pixels = np.rint(colours[:, :3] * 255).astype(np.uint8)
        height, width = values.shape
        image = QImage(pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888)
        scaled = QPixmap.fromImage(image).scaled(
            THUMBNAIL,
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        self.setIcon(QIcon(scaled))


class Strip(QWidget):
    """The controls of one dilation of a block."""

    pointed = Signal()
    """The mouse came over the strip, or one of its controls got the keyboard."""
    set_back = Signal()
    """The dilation is wanted as the network has it."""

    def __init__(self, facts: StripFacts) -> None:
        super().__init__()
        self.facts = facts
        name = facts.name
        self._title = QLabel(f"<b>{name}</b> dil. {facts.dilation}")
        self._reach = QLabel(f"±{facts.reach} px")
        self.effect = QLabel()
        self.effect.setStyleSheet("font-size: 10px;")
        self.thumbnail = Thumbnail(alpha_sentence(facts))
        self.gain = NumberSlider(self, Qt.Orientation.Vertical, MAX_GAIN)
        slider, number = self.gain.slider, self.gain.number
        slider.setPageStep(TICKS // 4)
        slider.setTickPosition(QSlider.TickPosition.TicksRight)
        slider.setTickInterval(TICKS // 2)
        slider.setMinimumHeight(88)
        slider.setToolTip(f"Gain of {name}: 0 switches the branch off, 1 leaves it alone.")
        number.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        number.setAlignment(Qt.AlignmentFlag.AlignCenter)
        number.setStyleSheet(f"min-width: 0px; max-width: {THUMBNAIL.width() - 8}px;")
        number.setToolTip("The gain as a number.")
        self.mute = _button("M", f"Mute {name}: as if its gain were 0.")
        self.solo = _button("S", f"Solo {name}: mute all others of this block.")
        self.mute.setCheckable(True)
        self.solo.setCheckable(True)
        reset = _button("1", f"Set {name} back: gain 1, neither muted nor soloed.")
        reset.clicked.connect(self.set_back)
        buttons = QHBoxLayout()
        buttons.setSpacing(2)
        for button in (self.mute, self.solo, reset):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 2, 1, 2)
        layout.setSpacing(3)
        centre = Qt.AlignmentFlag.AlignHCenter
        parts = (self._title, self._reach, self.thumbnail, self.effect, slider, number)
        for widget in parts:
            layout.addWidget(widget, 1 if widget is slider else 0, centre)
        layout.addLayout(buttons)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(f"{name}, dilation {facts.dilation}")
        for control in (slider, number, self.mute, self.solo, reset):
            control.installEventFilter(self)
        self.gain.show_value(1.0)
        self.show_effect(None)

    def show_effect(self, effect: float | None) -> None:
        """Show what muting the strip changes in this image, None while it is not known."""
        self.facts = replace(self.facts, effect=effect)
        self.effect.setText("effect …" if effect is None else short_levels(effect))
        sentence = strip_sentence(self.facts)
        for part in (self._title, self._reach, self.effect):
            part.setToolTip(wrapped(sentence))
        self.setAccessibleDescription(sentence)

    def enterEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Tell that the mouse came."""
        super().enterEvent(event)
        self.pointed.emit()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Tell that a control got the keyboard."""
        if event is not None and event.type() == QEvent.Type.FocusIn:
            self.pointed.emit()
        return super().eventFilter(watched, event)

    def show_values(self, gain: float, muted: bool, soloed: bool) -> None:
        """Show gain, mute and solo; emits nothing."""
        self.gain.show_value(gain)
        for button, on in ((self.mute, muted), (self.solo, soloed)):
            with signals_blocked(button):
                button.setChecked(on)


def _button(text: str, tooltip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tooltip)
    button.setAccessibleName(tooltip)
    button.setFixedWidth(19)
    button.setStyleSheet("min-width: 0px; padding: 2px 0px;")
    return button


class BetaPlot(QWidget):
    """Draws one bar in 0..1 for every channel of a block, in the colours of the theme."""

    def __init__(self) -> None:
        super().__init__()
        self.values: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        self.setFixedHeight(30)
        self.setToolTip(BETA)

    def show_values(self, values: npt.NDArray[np.float32]) -> None:
        """Show these bars."""
        self.values = values
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw the bars."""
        del event
        painter = QPainter(self)
        palette = self.palette()
        painter.fillRect(self.rect(), palette.base())
        step = self.width() / max(1, len(self.values))
        for index, value in enumerate(self.values):
            height = float(np.clip(value, 0, 1)) * (self.height() - 2)
            left, top = int(index * step), int(self.height() - height)
            painter.fillRect(left, top, max(1, int(step) - 1), int(height), palette.highlight())
        painter.end()
