"""Renders in a thread of its own: the newest setting only, what is visible first.

The rules of the thread: it owns the Session, touches no layer and no widget, and reports
through signals. A request replaces the one before it; the Session stops a render that has
become pointless between stages. Pixels of painted labels and of maps are read here, too, when a
request is served. While nothing is asked for, the thread measures what each strip does.

Not for: showing what was rendered.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any

from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]

from napari_kpac.core.errors import CancelledError, KpacError, for_people
from napari_kpac.core.options import DeblurOptions
from napari_kpac.widgets.layers import Region
from napari_kpac.widgets.task import give_way


@dataclass(frozen=True)
class Request:
    """What to render."""

    mix: Callable[[], Any]
    """Returns the modulation; called in the thread, for it may read from disk."""
    region: Region | None = None
    """What is on screen, to be rendered first; None: all at once."""
    number: int = 0
    draft: bool = False
    """Begin with a quick look at what is on screen."""
    exact: bool = True
    """Render the exact image; not while the setting is still moving."""


def open_session(data: Any, index: tuple[int, ...], options: DeblurOptions) -> Any:
    """Open a Session on one slice of an image, seen in the range of the whole stack."""
    from napari_kpac.engine import Session
    from napari_kpac.engine.arrays import as_array, layout_for
    from napari_kpac.engine.pixels import check_finite, resolve_range

    array = as_array(data)
    layout = layout_for(array, options)
    check_finite(layout_for(array[index], options), (array[index],))
    found = resolve_range(options.range, layout, (array,))
    return Session(array[index], options=options, pixel_range=found)


IDLE_S = 0.5
"""Without a request or another action of the user for this long, strips are measured."""
FIRST_LOOK_PX = 1_000_000
"""About what a screen shows of an image: so many pixels are rendered first."""
MAX_WAIT_S = 30.0
"""How long the end of the program waits for a thread."""


def first_look(session: Any, visible: Region | None) -> Any:
    """Render what is on screen at about the resolution of a screen.

    A large part is rendered at a fraction of its resolution; a small one at its own, without
    the rest of the image.
    """
    height, width = session.size
    top, bottom, left, right = visible or (0, height, 0, width)
    pixels = (bottom - top) * (right - left)
    if pixels > FIRST_LOOK_PX:
        return session.render(region=visible, draft=max(2, ceil(sqrt(pixels / FIRST_LOOK_PX))))
    return session.render(region=visible, sampled=True)


class LiveRenderer(QObject):
    """One Session in one thread."""

    opened = Signal(object, object, object)
    """The session is ready: its first result, the configuration of its network, and its card."""
    rendered = Signal(object, int)
    """A result (whole, or of a region; perhaps a draft), and the number of the request."""
    measured = Signal(int, int, float)
    """Block, index (from 0) and what muting that strip changes, in grey levels of 255."""
    failed = Signal(str)
    """What went wrong, as a text for the user; the renderer goes on if it can."""
    noted = Signal(str)
    """A note of the session, for example that memory ran short."""

    def __init__(self, make_session: Callable[[], Any], visible: Region | None = None) -> None:
        super().__init__()
        self._make = make_session
        self._visible = visible
        self._session: Any = None
        self._waiting: Request | None = None
        self._latest: Request | None = None
        self._unmeasured: list[tuple[int, int]] = []
        """Blocks and indices, counted from 1, whose effects are to be measured."""
        self._actions = 0
        """Of the user, so far: each of them interrupts the measuring."""
        self._changed = threading.Condition()
        self._closing = False
        self._note = ""
        self._thread = threading.Thread(target=self._run, name="napari-kpac mixer", daemon=True)
        # A Qt object must not end in another thread, as it would if that had the last hold.
        _running.difference_update({each for each in _running if not each.is_alive})
        _running.add(self)
        self._thread.start()

    def request(self, request: Request) -> None:
        """Render this as soon as possible; what was asked for before is dropped."""
        with self._changed:
            # Under the lock: what is cancelled is surely older than this request.
            if self._session is not None:
                self._session.cancel()
            self._waiting = self._latest = request
            self._actions += 1
            self._changed.notify()

    def interrupt(self) -> None:
        """Stop measuring until the user rests again; a render goes on."""
        with self._changed:
            self._actions += 1
            self._changed.notify()

    def complete(self) -> None:
        """Render exactly what was asked for last, after the draft that may be under way."""
        with self._changed:
            if self._waiting is not None:
                self._waiting = replace(self._waiting, exact=True)
            elif self._latest is not None:
                self._waiting = replace(self._latest, draft=False, exact=True)
            self._changed.notify()

    def close(self) -> None:
        """Stop, release the Session, and emit nothing any more."""
        self.stop()
        for signal in (self.opened, self.rendered, self.measured, self.failed, self.noted):
            with suppress(TypeError, RuntimeError):  # nothing is connected any more
                signal.disconnect()

    def stop(self) -> None:
        """Ask the thread to end, also when Qt's part of this object is gone."""
        with self._changed:
            self._closing = True
            self._waiting = self._latest = None
            if self._session is not None:
                self._session.cancel()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, so many seconds at most."""
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        give_way()
        try:
            self._session = self._make()
            del self._make  # it holds on to the image
            if not self._closing:
                self._open()
            if self._waiting is None and not self._closing:
                # Make the first draft before anybody waits for it.
                with suppress(KpacError):  # it comes again when a slider is moved
                    self._session.render(draft=True)
            while not self._closing:
                request = self._next()
                if request is None:
                    self._measure()
                else:
                    self._serve(request)
        except Exception as error:
            self._fail(error)
        finally:
            with self._changed:
                session, self._session = self._session, None
            if session is not None:
                session.close()

    def _open(self) -> None:
        """Render for the first time; of a large image first a look at what is on screen."""
        session, config, card = self._session, self._session.config, self._session.card
        height, width = session.size
        is_open = height * width > FIRST_LOOK_PX
        if is_open:
            self._emit(self.opened, first_look(session, self._visible), config, card)
        # A request that comes meanwhile cancels this render, and is served once the image is open.
        while not self._closing and not (is_open and self._waiting is not None):
            with suppress(CancelledError):
                self._emit(self.opened, self._render(), config, card)
                break
        self._unmeasured = [
            (block, index)
            for block in range(1, config.blocks + 1)
            for index in range(1, len(config.dilations) + 1)
        ]

    def _next(self) -> Request | None:
        """Wait for a request; None where there is time to measure, and when closed."""
        with self._changed:
            while self._waiting is None and not self._closing:
                if not self._changed.wait(IDLE_S if self._unmeasured else None):
                    break
            request, self._waiting = self._waiting, None
            return None if self._closing else request

    def _measure(self) -> None:
        """Measure strips until all are done or the user does something."""
        begun = self._actions

        def wanted() -> bool:
            return self._actions == begun and self._waiting is None and not self._closing

        try:
            while self._unmeasured and wanted():
                block, index = self._unmeasured[0]
                effect = self._session.mute_effect(block, index, wanted)
                del self._unmeasured[0]
                self._emit(self.measured, block - 1, index - 1, effect)
        except CancelledError:
            pass  # it goes on when the user rests
        except Exception:
            # Nobody asked for it: what goes wrong is told when it concerns an image.
            self._unmeasured = []

    def _serve(self, request: Request) -> None:
        """Render a request part by part, as long as no newer one waits."""
        render, region = self._render, request.region
        try:
            modulation = request.mix()
            if request.draft:
                self._emit(self.rendered, render(modulation, region, draft=True), request.number)
            if not request.exact or self._waiting is not None:
                return
            if region is not None:
                self._emit(self.rendered, render(modulation, region), request.number)
            if self._waiting is None:
                self._emit(self.rendered, render(modulation), request.number)
        except Exception as error:
            self._fail(error)

    def _render(self, *setting: Any, draft: bool = False) -> Any:
        """Render, and hash the recipe here: labels of a large image take a while."""
        result = self._session.render(*setting, draft=draft)
        if not draft:
            result.recipe.fingerprint  # noqa: B018 - it is kept
        return result

    def _emit(self, signal: Any, *values: Any) -> None:
        """Emit a signal, and the session's note if it is a new one; nothing once closed."""
        if self._closing:
            return
        signal.emit(*values)
        if self._session.note != self._note:
            self._note = self._session.note
            self.noted.emit(self._note)

    def _fail(self, error: Exception) -> None:
        if not self._closing and not isinstance(error, CancelledError):
            self.failed.emit(for_people(error))


_running: set[LiveRenderer] = set()
"""Renderers whose threads may be at work."""


@atexit.register
def _end_threads() -> None:
    """End all threads before Python does: it would tear them out of torch, and abort."""
    for renderer in list(_running):
        renderer.stop()
    for renderer in list(_running):
        renderer.join(MAX_WAIT_S)
