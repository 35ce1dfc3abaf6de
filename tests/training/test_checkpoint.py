"""What a resumed run needs: written whole, read back, and averaged weights that leave again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from problems import steady
from torch import nn
from training_jobs import make_job

import gsnobench as gb
from gsnobench.home import RunFolder
from gsnobench.training.checkpoint import (
    Checkpoint,
    load_state,
    read_checkpoint,
)
from gsnobench.training.fit import Job, fit

CPU = torch.device("cpu")


def test_buffers_take_the_size_they_have_in_the_file() -> None:
    small, large = nn.Module(), nn.Module()
    small.register_buffer("basis", torch.empty(0))
    large.register_buffer("basis", torch.ones(3, 2))
    load_state(small, large.state_dict())
    torch.testing.assert_close(small.basis, torch.ones(3, 2))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    module, state = nn.Linear(2, 1), Checkpoint()
    assert read_checkpoint(tmp_path, module, CPU).progress.step == 0
    state.progress.step, state.progress.best = 7, 0.5
    state.progress.curve.append({"phase": "fit", "epoch": 1, "step": 7, "valid": 0.5})
    state.progress.clock.train_cpu_s = 1.5
    state.follow(module, decay=0.9, step=3)
    state.write(tmp_path, module)
    other = nn.Linear(2, 1)
    read = read_checkpoint(tmp_path, other, CPU)
    assert read.progress == state.progress
    assert torch.equal(other.weight, module.weight)
    assert read.average is not None and torch.equal(read.average["bias"], module.bias)


def test_an_unreadable_checkpoint_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"torn")
    with pytest.raises(gb.DataError, match="--force begins the run again"):
        read_checkpoint(tmp_path, nn.Linear(2, 1), CPU)


def test_no_flipped_bit_of_a_checkpoint_is_resumed_from(tmp_path: Path) -> None:
    Checkpoint().write(tmp_path, nn.Linear(2, 1))
    path = RunFolder(tmp_path).checkpoint
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        with pytest.raises(gb.DataError, match="checksum does not match"):
            read_checkpoint(tmp_path, nn.Linear(2, 1), CPU)


def test_averaged_weights_are_in_the_module_inside_the_block_alone() -> None:
    module, state = nn.Linear(2, 1), Checkpoint()
    state.follow(module, decay=0.9, step=0)
    averaged = module.weight.detach().clone()
    with torch.no_grad():
        module.weight.add_(1.0)
    with state.averaged(module):
        assert torch.equal(module.weight, averaged)
    assert torch.equal(module.weight, averaged + 1.0)


def test_an_exception_in_the_block_leaves_the_trained_weights_in_the_module() -> None:
    module, state = nn.Linear(2, 1), Checkpoint()
    state.follow(module, decay=0.9, step=0)
    with torch.no_grad():
        module.weight.add_(1.0)
    trained = module.weight.detach().clone()
    with pytest.raises(RuntimeError), state.averaged(module):
        raise RuntimeError("validation failed")
    assert torch.equal(module.weight, trained)


def test_without_an_average_the_module_keeps_its_weights() -> None:
    module = nn.Linear(2, 1)
    before = module.weight.detach().clone()
    with Checkpoint().averaged(module):
        assert torch.equal(module.weight, before)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_resumed_run_has_the_weights_of_one_without_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average: float
) -> None:
    class Killed(Exception):
        pass

    def kill(step: int, total: int, best: float) -> None:
        if step == 12:
            raise Killed

    def job_in(name: str) -> Job:
        return make_job(steady(), tmp_path / name, steps=20, average=average, batch=12)

    monkeypatch.setenv("GSNOBENCH_CHECKPOINT_S", "0")
    whole = job_in("whole")
    whole.folder.mkdir()
    fit(whole)
    cut = job_in("cut")
    cut.folder.mkdir()
    with pytest.raises(Killed):
        fit(replace(cut, on_step=kill))
    assert RunFolder(cut.folder).checkpoint.exists()
    resumed = job_in("cut")
    fit(resumed)
    state = resumed.module.state_dict()
    assert all(torch.equal(state[name], v) for name, v in whole.module.state_dict().items())
