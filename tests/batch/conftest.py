import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from napari_kpac.weights import ModelCard, save_network
from tests.engine.conftest import tiny_net


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Files of two tiny models: for one image, and for dual-pixel pairs."""
    folder = tmp_path_factory.mktemp("models")
    found = []
    for name, views in (("tiny", 1), ("tiny-dual", 2)):
        found.append(folder / f"{name}.safetensors")
        save_network(tiny_net(2, double=False, views=views), found[-1], ModelCard(name=name))
    return found


@pytest.fixture(scope="session")
def photo():
    from skimage import data

    return np.ascontiguousarray(data.coffee()[100:164, 200:280])


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def cluster(tmp_path):
    """Two workers without anybody to restart them; gives address, workers and scheduler."""
    file = tmp_path / "scheduler.json"
    host = ["--host", "127.0.0.1"]
    processes = [start("dask_scheduler", *host, "--port", "0", "--no-dashboard",
                       "--scheduler-file", str(file))]  # fmt: skip
    try:
        for n in (1, 2):
            processes.append(
                start("dask_worker", "--scheduler-file", str(file), *host, "--no-nanny",
                      "--nthreads", "1", "--no-dashboard", "--name", f"w{n}",
                      "--local-directory", str(tmp_path / f"w{n}"))
            )  # fmt: skip
        limit = time.monotonic() + 60
        while not (file.exists() and file.read_text().endswith("}")):
            assert time.monotonic() < limit
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"], processes[1:], processes[0]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
