"""Cells as jobs of a SLURM cluster, through submitit.

The home folder must be on a disk that all nodes share. `--address` names the partition. `--address
local` uses submitit's stand-in for a cluster, processes of this machine, for a trial without SLURM.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import gsnobench as gb

GSNOBENCH_API = 1
POLL_S = 0.5
SPARE_MIN = 10  # of a job beyond its cell: for the start, and for data that are missing
LONGEST_MIN = 24 * 60  # of a cell without a limit
LOCAL = "local"


def check(limits: gb.Limits) -> None:
    """Refuse settings that the cluster does not accept."""
    _submitter(limits)


def run(specs: Sequence[gb.RunSpec], limits: gb.Limits) -> Iterator[gb.RunResult]:
    """One job per cell; the queue holds at most `jobs` of them, or all."""
    if not specs:
        return
    submitter, waiting = _submitter(limits), deque(specs)
    room = limits.jobs or (1 if limits.address == LOCAL else len(specs))
    jobs: dict[Any, gb.RunSpec] = {}
    while waiting or jobs:
        while waiting and len(jobs) < room:
            spec = waiting.popleft()
            jobs[submitter.submit(gb.run_alone, json.dumps(spec.to_dict()), limits)] = spec
        for job in [job for job in jobs if job.done()]:
            yield _result(job, jobs.pop(job))
        time.sleep(POLL_S)


def _result(job: Any, spec: gb.RunSpec) -> gb.RunResult:
    try:
        return gb.RunResult.from_json(job.result())
    except Exception as error:  # submitit wraps whatever ended the job
        reason = str(error).strip().splitlines()[0][:200]
        return gb.RunResult(spec, "failed", f"slurm: job {job.job_id} {reason}")


def _submitter(limits: gb.Limits) -> Any:
    try:
        import submitit
    except ImportError:
        raise gb.RunError(
            "executor slurm: submitit is not installed; pip install 'gsnobench[slurm]'"
        ) from None
    cluster = LOCAL if limits.address == LOCAL else "slurm"
    try:
        submitter = submitit.AutoExecutor(folder=limits.home / "slurm", cluster=cluster)
        submitter.update_parameters(**_parameters(limits))
    except Exception as error:
        raise gb.RunError(
            f"executor slurm: {str(error).splitlines()[0][:200]}; run on a login node, or "
            "--address local"
        ) from error
    return submitter


def _parameters(limits: gb.Limits) -> dict[str, Any]:
    """The limits as submitit names them."""
    minutes = math.ceil(limits.seconds / 60) + SPARE_MIN if limits.seconds else LONGEST_MIN
    parameters: dict[str, Any] = {
        "timeout_min": minutes,
        "cpus_per_task": limits.threads,
        "name": "gsnobench",
    }
    if limits.gpus:
        parameters["gpus_per_node"] = math.ceil(limits.gpus)
    if limits.memory_mb:
        parameters["mem_gb"] = math.ceil(limits.memory_mb / 1024) + 1
    if limits.address not in ("", LOCAL):
        parameters["slurm_partition"] = limits.address
    return parameters


@gb.hookimpl
def gsnobench_executor() -> gb.Executor:
    return gb.Executor(
        "slurm", run, check, help="jobs of a SLURM cluster, by submitit; --address is the partition"
    )
