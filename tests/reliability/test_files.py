"""Files from elsewhere: damaged, lying about their size, or leading out of their folder."""

import ast
import json
import struct
import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.datasets.photographs import photos_of_split
from napari_kpac.engine import load_recipe
from napari_kpac.images import image_size, open_image, read_image
from napari_kpac.weights import ModelCard, install, save_network
from napari_kpac.weights.unpickle import read_array_list
from tests.engine.conftest import tiny_net
from tests.reliability.fuzzing import EVERY, GOOD, Watch, fuzz
from tests.reliability.readers import READERS, colours

SOURCE = Path(kpac.__file__).parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory ceiling needs Linux")


@linux
def test_damaged_files_of_every_kind_are_read_or_refused():
    figures = fuzz(EVERY, seed=3, cases=8 * len(READERS))
    assert figures.defects == []
    assert all(figures.of(reader) == 8 for reader in READERS)
    assert all(figures.of(outcome=outcome) > 0 for outcome in GOOD)


@linux
@pytest.mark.long
def test_thousands_of_damaged_files():
    figures = fuzz(EVERY, seed=1, cases=6000)
    assert figures.defects == []
    assert figures.of() == 6000


@pytest.fixture(scope="module")
def hook():
    return Watch()


@pytest.fixture
def watch(hook, tmp_path):
    """Note what is opened outside the folder ``home``, written, connected to, or started."""
    home = tmp_path / "home"
    home.mkdir()
    hook.seen.clear()
    hook.inside, hook.scratch = (str(home.resolve()),), str(tmp_path / "scratch")
    yield hook
    hook.inside = ()


@pytest.mark.parametrize("reader", READERS)
def test_reading_connects_to_nothing_and_starts_nothing(reader, tmp_path, hook, monkeypatch):
    kind = READERS[reader]
    samples = kind.make(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(out))
    for sample in samples:
        kind.read(sample, out)
    hook.seen.clear()
    hook.inside, hook.scratch = (str(tmp_path.resolve()),), str(out.resolve())
    try:
        for sample in samples:
            kind.read(sample, out)
    finally:
        hook.inside = ()
    assert hook.seen == []


def test_loading_the_default_model_connects_to_nothing(watch):
    watch.inside = (str(SOURCE),)
    kpac.load("default")
    assert [event for event in watch.seen if event[0] in ("network", "process", "wrote")] == []


# Paths


@pytest.fixture
def recipe(tmp_path, watch):
    model = tmp_path / "outside.safetensors"
    watch.inside = ()
    save_network(tiny_net(2, double=False), model, ModelCard(name="tiny"))
    path = tmp_path / "home" / "look.json"
    kpac.deblur(colours(), model).recipe.save(path)
    watch.inside = (str((tmp_path / "home").resolve()),)
    return path


@pytest.mark.parametrize(
    "model",
    ["../outside.safetensors", "/etc/hostname.npz", "\\\\host\\share\\x.npz", "//host/share/x.npz",
     "home/../outside.safetensors", "~/x.safetensors", None],
)  # fmt: skip
def test_a_recipe_opens_no_model_outside_its_folder(recipe, watch, model, monkeypatch):
    monkeypatch.chdir(recipe.parent.parent)
    content = json.loads(recipe.read_text())
    if model is not None:
        content["options"]["model"] = model
        recipe.write_text(json.dumps(content))
    watch.seen.clear()
    watch.scratch = str(recipe.parent)
    found = load_recipe(recipe)
    with pytest.raises(kpac.KpacError, match=r"explicitly|no such weight file"):
        kpac.replay(colours(), found)
    assert watch.seen == []


def test_a_model_beside_the_recipe_is_used(recipe, watch):
    watch.inside = ()
    inside = recipe.parent / "mine.safetensors"
    (recipe.parent.parent / "outside.safetensors").rename(inside)
    content = json.loads(recipe.read_text())
    content["options"]["model"] = str(inside)
    recipe.write_text(json.dumps(content))
    assert kpac.replay(colours(), load_recipe(recipe)).image.shape == colours().shape
    link = recipe.parent / "link.safetensors"
    link.symlink_to(inside.rename(recipe.parent.parent / "outside.safetensors"))
    content["options"]["model"] = str(link)
    recipe.write_text(json.dumps(content))
    with pytest.raises(kpac.KpacError, match="explicitly"):
        kpac.replay(colours(), load_recipe(recipe))


def ome_in_parts(path, name):
    """Write an OME-TIFF file whose second plane lies in another file."""
    stack = colours(1, np.uint8, (2, 12, 16))
    tifffile.imwrite(path.with_name("part.tif"), stack[1], metadata=None)
    described = (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas'
        '/OME/2016-06" UUID="urn:uuid:1"><Image ID="Image:0"><Pixels ID="Pixels:0" '
        'DimensionOrder="XYZCT" Type="uint8" SizeX="16" SizeY="12" SizeZ="2" SizeC="1" SizeT="1">'
        '<Channel ID="Channel:0:0" SamplesPerPixel="1"/>'
        '<TiffData FirstZ="0" IFD="0" PlaneCount="1"><UUID FileName="a.ome.tif">urn:uuid:1</UUID>'
        f'</TiffData><TiffData FirstZ="1" IFD="0" PlaneCount="1"><UUID FileName="{name}">'
        "urn:uuid:2</UUID></TiffData></Pixels></Image></OME>"
    )
    tifffile.imwrite(path, stack[0], description=described, metadata=None)
    return stack


def test_parts_of_an_image_lie_in_its_folder(tmp_path, watch):
    path = tmp_path / "home" / "a.ome.tif"
    watch.inside = ()
    stack = ome_in_parts(path, "part.tif")
    assert np.array_equal(read_image(path), stack)
    for name in ("../secret.tif", "/etc/hostname", "..\\secret.tif", "C:\\x.tif", ".."):
        watch.inside = ()
        ome_in_parts(path, name)
        watch.seen.clear()
        watch.inside = (str(path.parent.resolve()),)
        for read in (read_image, image_size):
            with pytest.raises(kpac.KpacError, match="same folder"):
                read(path)
        assert watch.seen == []


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "..\\outside"])
def test_a_zarr_image_lies_in_its_folder(tmp_path, watch, name):
    watch.inside = ()
    zarr.create_array(str(tmp_path / "outside"), shape=(4, 4), dtype="u1", chunks=(4, 4))
    path = tmp_path / "home" / "a.zarr"
    group = zarr.create_group(str(path))
    image = {"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": name}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    watch.inside = (str(path.resolve()),)
    with pytest.raises(kpac.KpacError, match=r"a\.zarr"):
        read_image(path)
    assert watch.seen == []


def test_pickled_zarr_values_are_refused(tmp_path):
    path = tmp_path / "a.zarr"
    path.mkdir()
    about = {"zarr_format": 2, "shape": [4, 4], "chunks": [4, 4], "dtype": "|O", "order": "C",
             "fill_value": 0, "compressor": None}  # fmt: skip
    for filters in ([{"id": "pickle"}], [{"id": "vlen-utf8"}, {"id": "pickle"}]):
        (path / ".zarray").write_text(json.dumps({**about, "filters": filters}))
        # What a pickle does that runs: it makes a file.
        (path / "0.0").write_bytes(
            b"cbuiltins\nopen\n(V" + str(tmp_path / "mark").encode() + b"\nVw\ntR."
        )
        with pytest.raises(kpac.KpacError):
            read_image(path)
        assert not (tmp_path / "mark").exists()


def test_a_manifest_chooses_among_the_images_of_its_folder(tmp_path, watch):
    home = tmp_path / "home"
    watch.inside = ()
    Image.fromarray(colours()).save(home / "a.png")
    Image.fromarray(colours()).save(tmp_path / "secret.png")
    rows = ["file,split", "a.png,train", "../secret.png,train", f"{tmp_path}/secret.png,train"]
    (home / "MANIFEST.csv").write_text("\n".join(rows))
    watch.inside = (str(home.resolve()),)
    assert photos_of_split(home, "train") == [home / "a.png"]
    assert watch.seen == []


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", "C:evil", "a\0b", ".hidden", "x" * 65])
def test_a_model_is_installed_in_the_folder_of_models_alone(tmp_path, own_models, name):
    good = tmp_path / "good.safetensors"
    save_network(tiny_net(2, double=False), good, ModelCard(name="good"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kpac.KpacError):
        install(good, name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_with_an_odd_name_does_not_hide_the_models(tmp_path, own_models):
    good = tmp_path / "good.safetensors"
    save_network(tiny_net(2, double=False), good, ModelCard(name="good"))
    install(good)
    for name in (".good-abc.safetensors", "my model.safetensors", "ä.safetensors"):
        (own_models / name).write_bytes(good.read_bytes())
    assert "good" in [entry.name for entry in kpac.models()]
    assert kpac.load("good").card.name == "good"


# What only calls itself an image


def test_what_pillow_would_hand_to_another_program_is_not_opened(tmp_path, watch):
    path = tmp_path / "home" / "a.png"
    watch.inside = ()
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    watch.inside = (str(path.parent.resolve()),)
    for read in (read_image, image_size):
        with pytest.raises(kpac.KpacError, match="cannot be read as an image"):
            read(path)
    assert watch.seen == []


# Claims


def png(width, height, depth=8, colour=2):
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels


@pytest.mark.parametrize("size", [(2**31 - 1, 2**31 - 1), (50_000, 50_000), (30_000, 29_000)])
@pytest.mark.parametrize("depth", [8, 16])
def test_a_png_that_claims_too_much_is_refused(tmp_path, size, depth):
    (tmp_path / "a.png").write_bytes(png(*size, depth))
    for read in (read_image, image_size):
        with pytest.raises(kpac.KpacError, match=r"a\.png"):
            read(tmp_path / "a.png")


def test_a_chunk_longer_than_its_file_is_refused(tmp_path):
    content = bytearray(png(8, 8))
    struct.pack_into(">I", content, 33, 2**32 - 1)
    (tmp_path / "a.png").write_bytes(bytes(content))
    for read in (read_image, image_size):
        with pytest.raises(kpac.KpacError, match="cut off"):
            read(tmp_path / "a.png")


@pytest.mark.parametrize("compression", [None, "zlib", "zstd"])
@pytest.mark.parametrize("tags", [{256: 2**31, 257: 2**31}, {256: 2**20, 257: 2**20, 278: 2**20}])
def test_a_tiff_that_claims_terabytes_is_refused(tmp_path, compression, tags):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, colours(), compression=compression, metadata=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        for number, value in tags.items():
            tag = file.pages.first.tags[number]
            tag.overwrite(value, dtype="I")
    for read in (read_image, image_size):
        with pytest.raises(kpac.KpacError, match=r"a\.tif"):
            read(path)


@pytest.mark.parametrize(
    "change",
    [('PlaneCount="3"', 'PlaneCount="999999999"'), ('SizeC="3"', 'SizeC="99999999999"'),
     ('IFD="0"', 'IFD="99999999"')],
)  # fmt: skip
def test_an_ome_description_that_claims_too_much_is_refused(tmp_path, change):
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, colours(1, np.uint8, (3, 12, 16)), ome=True, photometric="minisblack")
    described = tifffile.tiffcomment(path)
    assert change[0] in described
    tifffile.tiffcomment(path, described.replace(*change).encode())
    with pytest.raises(kpac.KpacError, match="damaged"):
        read_image(path)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("back", [0, 1, 2])
def test_pages_that_lead_in_a_circle_are_refused(tmp_path, big, back):
    path = tmp_path / "a.tif"
    stack = colours(1, np.uint8, (3, 12, 16))
    tifffile.imwrite(path, stack, bigtiff=big, metadata=None, photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        offsets = [page.offset for page in file.pages]
        kind = file.tiff
    content = bytearray(path.read_bytes())
    (count,) = struct.unpack_from(kind.tagnoformat, content, offsets[2])
    end = offsets[2] + kind.tagnosize + count * kind.tagsize
    assert content[end : end + kind.offsetsize] == bytes(kind.offsetsize)
    struct.pack_into(kind.offsetformat, content, end, offsets[back])
    path.write_bytes(bytes(content))
    for read in (read_image, image_size):
        with pytest.raises(kpac.KpacError, match="lead back"):
            read(path)


def test_a_zarr_that_claims_terabytes_is_not_loaded(tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(str(path), shape=(10**6, 10**6), dtype="f8", chunks=(1000, 1000))
    with open_image(path) as opened:
        assert not opened.array[:2, :2].any()
    with pytest.raises(kpac.KpacError, match=r"claims 8,000\.0 GB"):
        read_image(path)
    zarr.create_array(
        str(tmp_path / "b.zarr"), shape=(10**6, 10**6), dtype="f8", chunks=(10**6, 10**6)
    )
    with pytest.raises(kpac.KpacError, match=r"b\.zarr"):
        open_image(tmp_path / "b.zarr")


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr" + struct.pack("<I", 2**32 - 16) + b".",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
    ],
    ids=["memo", "bytes", "frame"],
)
def test_a_pickle_that_claims_terabytes_is_refused(data):
    with pytest.raises(kpac.KpacError, match=r"refused|damaged|not an array"):
        read_array_list(data)


def test_a_pickle_that_unfolds_is_refused():
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(K\x64tcnumpy\ndtype\n(U\x02f4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff"
        b"\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", 400) + bytes(400) + b"tb"
    )
    many = 1000
    whole = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(M" + struct.pack("<H", many) + b"tcnumpy\ndtype\n(U\x02O8K\x00K\x01tR"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3ftb\x89]("
        + array + b"q\x01" + b"h\x01" * (many - 1) + b"etb."
    )  # fmt: skip
    with pytest.raises(kpac.KpacError, match="unfolds"):
        read_array_list(whole)


def test_a_device_is_not_read_as_a_small_file():
    zero = Path("/dev/zero")
    if not zero.exists():
        pytest.skip("there is no /dev/zero here")
    with pytest.raises(kpac.KpacError, match="not a file"):
        load_recipe(zero)


# The source itself

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load",
                   "pickle.loads", "marshal.loads", "shelve.open", "yaml.load"}  # fmt: skip
FORBIDDEN_IMPORTS = {"socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "httpx",
                     "aiohttp", "marshal", "shelve", "dill", "cloudpickle", "joblib"}  # fmt: skip
STARTING = {
    "engine/precision.py", "evaluation/speed.py", "reproduction/cost.py", "training/processes.py",
}  # fmt: skip
"""They run this package again, in further processes: to measure or try it, or to learn on all
cores."""
PARSING = {"weights/unpickle.py", "training/losses.py"}
"""The parser of the authors' files; the name of an error."""


def test_nothing_in_the_source_runs_or_fetches_what_it_reads():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for what in forbidden(node):
                if what == "subprocess" and name in STARTING:
                    continue
                if what == "pickle" and name in PARSING:
                    continue
                found.append(f"{name}:{node.lineno}: {what}")
    assert found == []


def forbidden(node):
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        roots = {each.split(".")[0] for each in names}
        yield from roots & (FORBIDDEN_IMPORTS | {"pickle", "subprocess"})
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        keywords = {each.arg: ast.unparse(each.value) for each in node.keywords}
        if called in FORBIDDEN_CALLS:
            yield called
        if called == "torch.load" and keywords.get("weights_only") != "True":
            yield "torch.load without weights_only"
        if called in ("np.load", "numpy.load") and keywords.get("allow_pickle") != "False":
            yield "np.load without allow_pickle=False"
        if keywords.get("shell") == "True":
            yield "a shell"


def test_the_security_rules_are_on_for_the_package():
    project = SOURCE.parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("installed without its sources")
    lint = tomllib.loads(project.read_text("utf-8"))["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not [
        rule for rule in lint["ignore"] if rule.startswith("S") and not rule.startswith("SIM")
    ]
    assert not [place for place in lint["per-file-ignores"] if place.startswith("src")]
    ignored = set()
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            if "noqa: S" in line and "noqa: SIM" not in line:
                ignored.add(line.split("noqa: ")[1].split()[0])
    # Assertions for the type checker, and processes of our own.
    assert ignored <= {"S101", "S603"}
