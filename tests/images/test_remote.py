"""Images by URL: a real S3 server, a web server, and what can go wrong with them."""

import functools
import http.server
import io
import json
import logging
import pickle
import sys
import threading

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

from napari_kpac.core.errors import ConfigError, FileError, MissingExtraError, RemoteError
from napari_kpac.images import (
    Metadata,
    RemotePath,
    description_of,
    location,
    open_image,
    read_image,
    start_image,
)
from napari_kpac.images.zarr_target import WholeChunks
from tests import s3 as server

STACK = np.random.default_rng(0).integers(0, 60000, (3, 70, 90)).astype(np.uint16)


@pytest.fixture(scope="module")
def address():
    with server.server() as found:
        yield found


@pytest.fixture
def s3(address, monkeypatch):
    """A bucket ``images``."""
    system = server.connect(monkeypatch, address)
    if not system.exists("images"):
        system.mkdir("images")
    yield system
    server.require_credentials(address, on=False)
    system = server.connect(monkeypatch, address)
    for name in system.find("images"):
        system.rm_file(name)


@pytest.fixture
def proxy(address):
    found = server.BreakingProxy(address)
    yield found
    found.close()


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def write(where, pixels=STACK, **about):
    target = start_image(location(where), pixels.shape, pixels.dtype, Metadata(axes="ZYX", **about))
    target.out[...] = pixels
    target.finish(json.dumps({"made": "here"}))


@pytest.mark.parametrize("where", ["memory://images/a.ome.zarr", "s3://images/x/a.ome.zarr"])
def test_ome_zarr_there_and_back(where, s3):
    write(where, scale={"X": 0.25, "Y": 0.25}, units={"X": "um", "Y": "um"})
    place = location(where)
    with open_image(place) as image:
        assert not isinstance(image.array, np.ndarray)
        assert np.array_equal(image.array[1, 10:20], STACK[1, 10:20])
        assert image.metadata.image_scale == ((0.25, 0.25), "um")
    assert np.array_equal(read_image(place), STACK)
    assert description_of(place) == {"made": "here"}
    assert place.modified() > 1e9
    if where.startswith("s3"):
        # Nothing of ours is left in it: others see an image like any other.
        assert not any(".napari-kpac" in name for name in s3.find("images"))
        store = zarr.storage.FsspecStore.from_url(where, read_only=True)
        assert np.array_equal(zarr.open(store, mode="r")["0"][:], STACK)


@pytest.mark.parametrize("version", [2, 3])
def test_what_others_wrote_is_read(s3, version):
    store = zarr.storage.FsspecStore.from_url("s3://images/plain.zarr")
    zarr.create_array(store, shape=STACK.shape, dtype=STACK.dtype, zarr_format=version)[:] = STACK
    assert np.array_equal(read_image(location("s3://images/plain.zarr")), STACK)


def test_an_image_appears_only_when_it_is_complete(s3):
    place = location("s3://images/late.zarr")
    target = start_image(place, STACK.shape, STACK.dtype, Metadata(axes="ZYX"))
    target.out[...] = STACK
    assert s3.find("images/late.zarr")
    assert not place.exists()
    with pytest.raises(FileError, match="no such file"):
        open_image(place)
    target.discard()
    assert s3.find("images/late.zarr") == []
    # What another program keeps there is not touched.
    s3.pipe_file("images/foreign.zarr/thesis.txt", b"years of work")
    with pytest.raises(FileError, match="choose another URL"):
        write("s3://images/foreign.zarr")
    assert s3.find("images/foreign.zarr") == ["images/foreign.zarr/thesis.txt"]


def test_single_files_of_every_kind(s3, tmp_path):
    s3.pipe_file("images/a.png", png(STACK[0]))
    tifffile.imwrite(tmp_path / "a.tif", STACK, photometric="minisblack", compression="zlib")
    s3.put_file(str(tmp_path / "a.tif"), "images/a b.tif")
    s3.pipe_file("images/broken.png", png(STACK[0])[:300])
    assert np.array_equal(read_image(location("s3://images/a.png")), STACK[0])
    assert np.array_equal(read_image(location("s3://images/a b.tif")), STACK)
    with pytest.raises(FileError, match=r"^s3://images/broken.png: .*cut off"):
        open_image(location("s3://images/broken.png"))


def test_an_image_whose_parts_are_elsewhere_is_refused(s3, tmp_path):
    parts = "".join(
        f'<TiffData FirstZ="{n}" IFD="0" PlaneCount="1"><UUID FileName="{name}.ome.tif">'
        f"urn:uuid:{n}</UUID></TiffData>"
        for n, name in enumerate("ab")
    )
    text = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:0"><Image '
        'ID="Image:0"><Pixels ID="P:0" DimensionOrder="XYZCT" Type="uint8" SizeX="4" SizeY="4" '
        f'SizeZ="2" SizeC="1" SizeT="1">{parts}</Pixels></Image></OME>'
    )
    # Without a second description of tifffile's own, which would count more.
    tifffile.imwrite(
        tmp_path / "a.ome.tif", np.ones((4, 4), np.uint8), description=text, metadata=None
    )
    s3.put_file(str(tmp_path / "a.ome.tif"), "images/a.ome.tif")
    with pytest.raises(FileError, match=r"^s3://images/a.ome.tif: parts of this image"):
        open_image(location("s3://images/a.ome.tif"))


def test_large_files_stay_open_in_their_copy(s3, tmp_path, monkeypatch):
    monkeypatch.setattr("napari_kpac.images.tiff.WHOLE_UP_TO_BYTES", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tifffile.imwrite(tmp_path / "a.tif", STACK, photometric="minisblack")
    s3.put_file(str(tmp_path / "a.tif"), "images/a.tif")
    with open_image(location("s3://images/a.tif")) as image:
        assert list(tmp_path.glob("napari-kpac-*/a.tif"))
        assert np.array_equal(image.array[2], STACK[2])
    assert not list(tmp_path.glob("napari-kpac-*"))


def test_what_is_not_there(s3):
    for where in ("s3://images/none.png", "s3://images/none.zarr", "s3://no-such-bucket/a.zarr"):
        with pytest.raises(FileError, match=f"^{where}: there is no such file"):
            open_image(location(where))
    with pytest.raises(FileError, match=r"^s3://no-such-bucket/a.zarr.*bucket"):
        write("s3://no-such-bucket/a.zarr")


def test_wrong_credentials(s3, address, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    write("s3://images/a.zarr")
    s3.pipe_file("images/a.png", png(STACK[0]))
    server.require_credentials(address)
    for where in ("s3://images/a.zarr", "s3://images/a.png"):
        with pytest.raises(FileError, match=f"^{where}: access is denied") as found:
            open_image(location(where))
        assert not isinstance(found.value, RemoteError)  # to try again would not help
    with pytest.raises(FileError, match="access is denied"):
        write("s3://images/b.zarr")
    said = caplog.text + str(found.value) + repr(found.value)
    assert not any(key in said for key in server.KEYS.values())


def test_a_connection_that_breaks_once_is_made_again(s3, proxy, monkeypatch):
    write("s3://images/a.zarr")
    s3.pipe_file("images/a.png", png(STACK[0]))
    server.connect(monkeypatch, proxy.address)
    for where, part, expected in (("a.zarr", b"/0/c/1", STACK), ("a.png", b"a.png", STACK[0])):
        proxy.marked, proxy.breaks, proxy.broken = part, 1, 0
        assert np.array_equal(read_image(location(f"s3://images/{where}")), expected)
        assert proxy.broken == 1


def test_a_connection_that_breaks_for_good_is_an_error_that_may_pass(s3, proxy, monkeypatch):
    write("s3://images/a.zarr")
    s3.pipe_file("images/a.png", png(STACK[0]))
    server.connect(monkeypatch, proxy.address)
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 2)
    for where, part in (("a.zarr", b"/0/c/1"), ("a.png", b"a.png")):
        proxy.marked, proxy.breaks, proxy.broken = part, 10_000, 0
        with pytest.raises(RemoteError, match=f"^s3://images/{where}: "):
            read_image(location(f"s3://images/{where}"))
        assert proxy.broken >= 1
        proxy.breaks = 0
        read_image(location(f"s3://images/{where}"))


def test_nobody_answers(monkeypatch):
    server.connect(monkeypatch, ("127.0.0.1", 9))
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(RemoteError, match=r"^s3://images/a.png: cannot read it now"):
        open_image(location("s3://images/a.png"))


# The web


@pytest.fixture
def web(tmp_path):
    """A web server for a folder; gives its address and the folder."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if "short" not in self.path:
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"0" * 300)
            return None

    folder = tmp_path / "web"
    folder.mkdir()
    handler = functools.partial(Handler, directory=str(folder))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", folder
    running.shutdown()
    running.server_close()


def test_the_web(web):
    url, folder = web
    (folder / "a.png").write_bytes(png(STACK[0]))
    zarr.create_array(str(folder / "a.zarr"), shape=STACK.shape, dtype=STACK.dtype)[:] = STACK
    assert np.array_equal(read_image(location(f"{url}/a.png?token=hidden")), STACK[0])
    assert np.array_equal(read_image(location(f"{url}/a.zarr")), STACK)
    with pytest.raises(FileError, match="no such file"):
        open_image(location(f"{url}/none.zarr"))
    with pytest.raises(FileError) as found:
        open_image(location(f"{url}/none.png?token=hidden"))
    assert "hidden" not in str(found.value)


def test_a_web_server_that_breaks_off(web, caplog):
    caplog.set_level(logging.DEBUG, "napari_kpac")
    with pytest.raises(RemoteError) as found:
        open_image(location(web[0].replace("//", "//me:password@") + "/short.png?token=hidden"))
    assert "short.png" in str(found.value)
    assert not any(word in str(found.value) + caplog.text for word in ("password", "hidden"))
    assert found.value.__suppress_context__  # a traceback does not show them either


# Names


def test_names():
    place = location("https://me:password@host.org/a/b.ome.zarr")
    assert str(place) == "https://host.org/a/b.ome.zarr"
    assert "password" not in repr(place)
    assert (place.name, place.stem, place.suffix) == ("b.ome.zarr", "b.ome", ".zarr")
    assert pickle.loads(pickle.dumps(place)) == place
    assert (RemotePath("s3://b/out/") / "x" / "y.zarr").url == "s3://b/out/x/y.zarr"
    assert RemotePath("s3://b/out/y.zarr").with_name("z.zarr").url == "s3://b/out/z.zarr"
    assert not isinstance(location("folder/a.png"), RemotePath)
    from pathlib import Path

    with pytest.raises(ConfigError, match="as text"):
        location(Path("s3://images/a.zarr"))
    with pytest.raises(ConfigError, match="no query"):
        location("https://host.org/a.zarr?token=hidden")


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "reference://x.zarr", "ssh://host/a.tif", "simplecache::s3://b/a.zarr",
     "zip://a.tif::https://host/x.zip", "github://a:b@/x.tif"],
)  # fmt: skip
def test_other_kinds_of_urls_are_refused(url):
    with pytest.raises(ConfigError, match="s3://, gs://, https://"):
        location(url)


@pytest.mark.parametrize(
    ("url", "module"),
    [("s3://b/a.zarr", "fsspec"), ("s3://b/a.png", "s3fs"), ("gs://b/a.zarr", "gcsfs"),
     ("https://h/a.tif", "aiohttp")],
)  # fmt: skip
def test_a_missing_extra_is_named(url, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"napari-kpac\[remote\]"):
        open_image(location(url))


# What a file says is never connected to


class Connected(Exception):
    pass


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise Connected

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(f"socket.socket.{name}", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    monkeypatch.setattr("zarr.storage.FsspecStore.from_url", refuse)


@pytest.mark.parametrize("path", ["https://host.org/a.zarr", "s3://bucket/a", "../s3://b/a"])
def test_an_ome_zarr_that_names_a_url_is_not_followed(path, tmp_path, offline):
    group = zarr.create_group(str(tmp_path / "a.zarr"))
    axes = [{"name": name, "type": "space"} for name in "yx"]
    image = {"axes": axes, "datasets": [{"path": path, "coordinateTransformations": []}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    with pytest.raises(FileError):
        open_image(tmp_path / "a.zarr")


@pytest.mark.parametrize("name", ["https://host.org/b.tif", "s3://bucket/b.tif"])
def test_a_tiff_that_names_a_url_is_not_followed(name, tmp_path, offline):
    text = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">'
        '<Pixels ID="P:0" DimensionOrder="XYZCT" Type="uint8" SizeX="4" SizeY="4" SizeZ="2" '
        f'SizeC="1" SizeT="1"><TiffData FirstZ="1"><UUID FileName="{name}">urn:uuid:1</UUID>'
        "</TiffData></Pixels></Image></OME>"
    )
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((4, 4), np.uint8), description=text)
    with pytest.raises(FileError):
        open_image(tmp_path / "a.ome.tif")


# Chunks


def test_every_chunk_is_written_once_and_whole(tmp_path):
    target = start_image(tmp_path / "a.zarr", (2, 1100, 700, 3), np.dtype(np.uint8))
    pixels = np.random.default_rng(1).integers(1, 255, target.out.shape).astype(np.uint8)
    writes = []

    class Noted:
        shape, dtype, chunks = target.out.shape, target.out.dtype, target.out.chunks

        def __setitem__(self, place, part):
            writes.append(tuple(each.start for each in place))
            target.out[place] = part

    out = WholeChunks(Noted())
    for plane in range(2):
        for top in range(0, 1100, 384):
            for left in range(0, 700, 384):
                place = (plane, slice(top, top + 384), slice(left, left + 384))
                out[place] = pixels[place]
    assert len(writes) == len(set(writes)) == 2 * 3 * 2
    assert np.array_equal(target.out[...], pixels)
    out[(1, ...)] = pixels[1]
    assert len(writes) == 3 * 2 * 3
    target.discard()
