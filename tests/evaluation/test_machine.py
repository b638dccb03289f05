"""What the bench says of the machine."""

import json

import pytest
import torch
from torch.nn import functional as F

from napari_kpac.cli import main
from napari_kpac.evaluation import speed
from napari_kpac.evaluation.machine import Ceilings, describe_machine, shares_of


def test_the_machine_is_named():
    machine = describe_machine()
    assert machine.processor
    assert machine.instructions == torch.backends.cpu.get_cpu_capability()
    assert machine.threads == torch.get_num_threads()
    assert str(machine).startswith(machine.processor)


def test_shares_are_of_the_whole_and_tell_convolutions_from_passes():
    x, weight = torch.rand(1, 32, 128, 128), torch.rand(32, 32, 3, 3)
    for job, larger in ((lambda: F.conv2d(x, weight), True), (lambda: [x + x] * 9, False)):
        shares = shares_of(job)
        assert shares.convolutions + shares.passes + shares.rest == pytest.approx(100, abs=1)
        assert (shares.convolutions > shares.passes) == larger


def test_the_ceilings_count_their_operations():
    assert Ceilings.multiply_flops == 2 * 2048**3
    assert Ceilings.convolve_flops == 2 * 9 * 48 * 48 * 720 * 1280


def test_a_device_can_be_measured_from_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr(speed, "SIZE", (64, 96))
    assert main(["bench", "--device", "cpu", "--repeats", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["unit"] == "s" and row["value"] > 0 for row in rows)
    assert {row["name"].split(" at ")[0] for row in rows} == {"deblurring", "a moved gain"}
    assert main(["bench", "--device", "nosuch"]) != 0
