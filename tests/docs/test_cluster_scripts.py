"""The scripts of the page on clusters: SLURM, with stand-ins for its commands, and Kubernetes."""

import importlib.util
import os
import signal
import sys
from contextlib import suppress

import numpy as np
import pytest
import yaml
import zarr

from napari_kpac.cli.entry import parser
from tests.docs.pages import ROOT

HOWTO = ROOT / "docs" / "howto"
SBATCH = """#!/bin/sh
cp "$1" job.sh
chmod +x job.sh
setsid ./job.sh >> job.log 2>&1 &
echo $! >> jobs
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
kill -- "-$1"
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands that run a job here, at once."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "kpac" / "bin").mkdir(parents=True)
    (tmp_path / "kpac" / "bin" / "activate").write_text("touch activated\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    started = tmp_path / "jobs"
    for number in started.read_text().split() if started.exists() else ():
        with suppress(ProcessLookupError):
            os.killpg(int(number), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the commands are stood in for by sh scripts")
def test_the_slurm_script(slurm, capsys):
    found = importlib.util.spec_from_file_location("slurm_example", HOWTO / "slurm.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    assert (script.CORES, script.JOBS, script.WAIT) == (16, 20, 24 * 3600)
    script.CORES, script.JOBS, script.MEMORY, script.WAIT = 1, 1, "4GB", 60
    stack = np.random.default_rng(0).integers(0, 255, (3, 40, 48), dtype=np.uint8)
    zarr.create_array("in.zarr", shape=stack.shape, dtype=stack.dtype)[:] = stack
    assert script.main("in.zarr", "out.zarr") == 0
    assert "1 made" in capsys.readouterr().out
    assert zarr.open("out.zarr", mode="r").shape == stack.shape
    job = (slurm / "job.sh").read_text()
    for line in ("#SBATCH -p cpu", "#SBATCH -A imaging", "source $HOME/kpac/bin/activate"):
        assert line in job
    assert "--nthreads 1" in job
    assert (slurm / "activated").exists()
    assert len((slurm / "record.jsonl").read_text().splitlines()) == 4  # planes, and the file


def test_the_kubernetes_job():
    job = yaml.safe_load((HOWTO / "kubernetes.yaml").read_text("utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("kubernetes.dask.org/v1", "DaskJob")
    (runner,) = job["spec"]["job"]["spec"]["containers"]
    assert runner["args"][0] == "napari-kpac"
    given = parser().parse_args(runner["args"][1:])
    assert (given.wait, given.threads, given.scheduler) == (1800, 1, "$(DASK_SCHEDULER_ADDRESS)")
    cluster = job["spec"]["cluster"]["spec"]
    service = cluster["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == job["metadata"]["name"]
    (scheduler,) = cluster["scheduler"]["spec"]["containers"]
    names = {port["name"] for port in scheduler["ports"]}
    assert (
        {port["targetPort"] for port in service["ports"]} == names == {"tcp-comm", "http-dashboard"}
    )
    (worker,) = cluster["worker"]["spec"]["containers"]
    images = {each["image"] for each in (runner, scheduler, worker)}
    assert len(images) == 1  # the same versions everywhere
