"""Everything that the package writes, each with a version of its content, for child processes.

Not a test: ``python -m tests.reliability.writers ACTION FOLDER`` does damage to itself.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

import napari_kpac as kpac
from napari_kpac.core.files import append, replacing, write_record
from napari_kpac.images import Metadata, start_image, write_image


def pixels(version, dtype=np.uint8, shape=(60, 80, 3)):
    return np.random.default_rng(version).integers(0, 250, shape).astype(dtype)


def streamed(path, version):
    """A result that is collected in a file, as large ones are."""
    target = start_image(path, (4, 60, 80), np.dtype(np.uint8), Metadata(), streamed=True)
    try:
        target.out[...] = pixels(version, shape=(4, 60, 80))
        target.finish("")
    finally:
        target.discard()


def zarr(path, version):
    target = start_image(path, (4, 60, 80), np.dtype(np.uint8), Metadata())
    try:
        target.out[...] = pixels(version, shape=(4, 60, 80))
        target.finish("{}")
    finally:
        target.discard()


def recipe(path, version):
    labels = pixels(version, shape=(200, 200)) % 3
    steered = kpac.Modulation(labels=labels, label_gains={1: [version] * 5})
    options = kpac.DeblurOptions(model="kpac-3level")
    kpac.Recipe(options, steered, "kpac-3level", f"{version:064d}").save(path)


def network(path, version):
    from napari_kpac.weights import ModelCard, save_network
    from tests.engine.conftest import tiny_net

    net = tiny_net(2, double=False)
    with_version = {name: value + version for name, value in net.state_dict().items()}
    net.load_state_dict(with_version)
    save_network(net, path, ModelCard(name="tiny"))


def state(path, version):
    from napari_kpac.training.options import TrainOptions
    from napari_kpac.training.state import AveragedWeights, Counters, make_optimiser, save_state
    from tests.engine.conftest import tiny_net

    net = tiny_net(2, double=False).requires_grad_(True)
    optimiser = make_optimiser(net, TrainOptions(root="."))
    for parameter in net.parameters():
        parameter.grad = parameter.detach().clone() + version
    optimiser.step()
    save_state(path, net, optimiser, AveragedWeights(net, 0.9), Counters(step=version))


def rows(path, version):
    """A table that grows: it may be longer afterwards, but never cut short."""
    from napari_kpac.evaluation.results import Results, Row

    results = Results(("psnr",), path)
    for number in range(200):
        results.add(Row(f"image {number}", "method", float(version), {"psnr": 1.0}))


def radius(path, version):
    from napari_kpac.datasets.pairs import write_radius

    write_radius(path, pixels(version, np.float32, (60, 80)) / 50)


def blur(path, version):
    from napari_kpac.detection.files import export

    export(path, pixels(version)[..., 0] / np.float32(255))


def columns(path, version):
    from napari_kpac.detection.files import export_table

    export_table(path, {"x": [version] * 9000})


WRITERS = {
    "a.png": lambda path, version: write_image(path, pixels(version)),
    "deep.png": lambda path, version: write_image(path, pixels(version, np.uint16)),
    "a.jpg": lambda path, version: write_image(path, pixels(version)),
    "a.tif": lambda path, version: write_image(path, pixels(version, np.float32)),
    "streamed.tif": streamed,
    "a.zarr": zarr,
    "recipe.json": recipe,
    "record.json": lambda path, version: write_record(path, {"x": [version] * 9000}),
    "net.safetensors": network,
    "state.safetensors": state,
    "radius.tif": radius,
    "map.npy": blur,
    "map.png": blur,
    "map.tif": blur,
    "table.csv": columns,
}  # fmt: skip


def content(folder):
    """Every file below a folder, hidden ones too, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def limit(folder, share):
    """Write everything anew while no file may grow beyond a share of what it needs."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = {}
    for name, write in WRITERS.items():
        home = folder / name.replace(".", "-")
        write(home / name, 0)
        before = content(home)
        write(folder / "whole" / name, 1)
        largest = max(map(len, content(folder / "whole").values()))
        shutil.rmtree(folder / "whole")
        allowed = min(int(share * largest), largest - 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, hard))
        try:
            write(home / name, 1)
            said = ""
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
            known = isinstance(error, kpac.KpacError)
        else:
            known = False
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        told[name] = {"said": said, "known": known, "intact": content(home) == before}
    print(json.dumps(told))


def table(folder):
    """Append rows until the limit; what stays is whole."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    try:
        rows(folder, 0)
    except kpac.KpacError as error:
        print(json.dumps({"said": str(error)}))


def hang(said):
    """Signal the parent that the moment has come, and wait to be killed."""
    print(said, flush=True)
    time.sleep(600)


def half_a_file(folder):
    with replacing(folder / "a.bin") as temporary:
        temporary.write_bytes(b"new" * 10)
        hang("half")


def half_a_folder(folder):
    target = start_image(folder / "a.zarr", (4, 60, 80), np.dtype(np.uint8), Metadata())
    target.out[:2] = 7
    hang("half")


def between_two_names(folder):
    """Stop when the old folder has stepped aside and the new one has no name yet."""
    original, calls = Path.rename, []

    def rename(self, target):
        calls.append(target)
        if len(calls) == 2:
            hang("between")
        return original(self, target)

    Path.rename = rename
    zarr(folder / "a.zarr", 1)


def half_a_row(folder):
    """Stop with half a row in the file: the second half is never written."""
    append(folder / "results.csv", b"")
    with (folder / "results.csv").open("ab", buffering=0) as file:
        file.write(b"image 7,method,0.")
        os.fsync(file.fileno())
        hang("half")


if __name__ == "__main__":
    action, place, *more = sys.argv[1:]
    globals()[action](Path(place), *map(float, more))
