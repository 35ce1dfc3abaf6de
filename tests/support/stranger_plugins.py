"""A stranger's package on PYTHONPATH, for tests that start processes: a dataset of milliseconds and
models with bad manners.
"""

from __future__ import annotations

import os
from multiprocessing import forkserver
from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n"
POINTS = """
[gsnobench.datasets]
heat = strange_heat
disc = strange_disc
[gsnobench.models]
plain = strange_plain
sleepy = strange_sleepy
hungry = strange_hungry
mortal = strange_mortal
broken = strange_broken
"""
DATASET = """
import gsnobench as gb
import toy_datasets
GSNOBENCH_API = 1
@gb.hookimpl
def gsnobench_dataset():
    return toy_datasets.{constant}
"""
MODEL = """
import os, signal, time
from pathlib import Path
import torch
import gsnobench as gb
GSNOBENCH_API = 1

class Params(gb.Params):
    scale: float = gb.knob(1.0, low=0.1, high=10.0, help="of the start")

class Net(torch.nn.Module):
    def __init__(self, task, params):
        super().__init__()
        self.last = torch.nn.Linear(task.in_channels, task.out_channels)
    def forward(self, batch):
        {body}
        return batch.frames(self.last(batch.features))

@gb.hookimpl
def gsnobench_model():
    presets = {{"default": gb.Preset(train={{"batch": 2}})}}
    capable = gb.Capability
    return gb.Model(
        "{name}",
        Params,
        Net,
        presets=presets,
        capabilities=frozenset((capable.STEADY, capable.UNSTEADY)),
        title="{name}",
        cites="nobody",
        revision=int(os.environ.get("STRANGE_REVISION", "1")),
    )
"""
BODIES = {
    "plain": 'time.sleep(float(os.environ.get("STRANGE_SLEEP", "0")))',
    "sleepy": "time.sleep(60)",
    "hungry": "self.held = torch.ones(600, 2**20); time.sleep(2)",  # 2.4 GB
    "mortal": """
        if "STRANGE_GRAVE" in os.environ and not Path(os.environ["STRANGE_GRAVE"]).exists():
            Path(os.environ["STRANGE_GRAVE"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)""",
    "broken": 'raise ZeroDivisionError("by design")',
}


def forget_workers() -> None:
    """End the process that workers are forked from: the next ones see the environment of today."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def make_strangers(folder: Path) -> dict[str, str]:
    """Write the package; the variables under which a process finds it."""
    info = folder / "strangers-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(POINTS)
    for name in ("heat", "disc"):
        (folder / f"strange_{name}.py").write_text(DATASET.format(constant=name.upper()))
    for name, body in BODIES.items():
        (folder / f"strange_{name}.py").write_text(MODEL.format(name=name, body=body))
    return {
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parent)]),
        "GSNOBENCH_TRACKING_URI": "none",
    }
