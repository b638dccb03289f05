import os

import pytest

from napari_kpac import KpacError
from napari_kpac.core.files import replacing


def test_the_file_appears_whole(tmp_path):
    target = tmp_path / "new" / "a.txt"
    with replacing(target) as temporary:
        temporary.write_text("done")
        assert not target.exists()
    assert target.read_text() == "done"
    assert os.listdir(target.parent) == ["a.txt"]


def test_failure_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write():
        with replacing(target) as temporary:
            temporary.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_parent_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KpacError, match="cannot write"), replacing(tmp_path / "file" / "a.txt"):
        pass
