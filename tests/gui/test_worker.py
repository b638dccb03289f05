"""A worker of the window, for measurements."""

import threading

import pytest

from napari_kpac.core.errors import KpacError
from napari_kpac.widgets.task import run_in_worker


def test_a_function_runs_in_a_thread_of_its_own(qapp):
    here = threading.get_ident()
    found = run_in_worker(threading.get_ident)
    assert found != here


def test_what_goes_wrong_there_is_raised_here(qapp):
    def fail():
        raise KpacError("no such thing")

    with pytest.raises(KpacError, match="no such thing"):
        run_in_worker(fail)
