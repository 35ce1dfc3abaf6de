"""One run far from the terminal: a RunSpec comes in as JSON, a RunResult goes out as JSON, and no
mistake is raised.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from gsnobench.errors import GsnobenchError
from gsnobench.home import open_home
from gsnobench.records import RunSpec
from gsnobench.runs.machine import Machine, choose_device
from gsnobench.runs.plan import plan_of_spec
from gsnobench.runs.run import record_failure, run_plan


def answer(spec_json: str, home: Path, device: str, threads: int) -> str:
    """The result of a spec, here and now; what `run` would refuse in one line is a failed run with
    that line as its reason.
    """
    torch.set_num_threads(threads)
    spec, place = RunSpec.from_dict(json.loads(spec_json)), open_home(home)
    try:
        return run_plan(
            plan_of_spec(spec), Machine(place, choose_device(device), jobs=threads)
        ).to_json()
    except GsnobenchError as error:
        return record_failure(spec, place, str(error)).to_json()
