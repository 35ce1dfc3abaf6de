"""Cells as jobs of a SLURM cluster, through submitit. The home folder must be on a disk that all
nodes share.

`--address` names the partition. `--address local` takes submitit's stand-in for a cluster,
processes of this machine, to try a set-up where there is no SLURM.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import gsnobench as gb
from gsnobench.bench.executors import run_alone

GSNOBENCH_API = 1
POLL_S = 0.5
SPARE_MIN = 10  # a job may take longer than its cell: the start, and the data if they are missing
LONGEST_MIN = 24 * 60  # of a cell without a limit
LOCAL = "local"


def check(limits: gb.Limits) -> None:
    """The cluster answers and its settings are accepted."""
    _submitter(limits)


def run(specs: Sequence[gb.RunSpec], limits: gb.Limits) -> Iterator[gb.RunResult]:
    """A job a cell; the queue holds at most `jobs` of them, or all."""
    if not specs:
        return
    submitter, waiting = _submitter(limits), deque(specs)
    room = limits.jobs or (1 if limits.address == LOCAL else len(specs))
    jobs: dict[Any, gb.RunSpec] = {}
    while waiting or jobs:
        while waiting and len(jobs) < room:
            spec = waiting.popleft()
            jobs[submitter.submit(run_alone, json.dumps(spec.to_dict()), limits)] = spec
        for job in [job for job in jobs if job.done()]:
            yield _result(job, jobs.pop(job))
        time.sleep(POLL_S)


def _result(job: Any, spec: gb.RunSpec) -> gb.RunResult:
    try:
        return gb.RunResult.from_json(job.result())
    except Exception as error:  # submitit wraps whatever ended the job
        return gb.RunResult(
            spec, "failed", f"slurm: job {job.job_id} {str(error).strip().splitlines()[0][:200]}"
        )


def _submitter(limits: gb.Limits) -> Any:
    try:
        import submitit
    except ImportError:
        raise gb.RunError(
            "executor slurm: submitit is not installed; pip install 'gsnobench[slurm]'"
        ) from None
    folder = limits.home / "slurm"
    try:
        submitter = submitit.AutoExecutor(
            folder=folder, cluster=LOCAL if limits.address == LOCAL else "slurm"
        )
        minutes = math.ceil(limits.seconds / 60) + SPARE_MIN if limits.seconds else LONGEST_MIN
        submitter.update_parameters(
            timeout_min=minutes, cpus_per_task=limits.threads, name="gsnobench"
        )
        submitter.update_parameters(gpus_per_node=math.ceil(limits.gpus)) if limits.gpus else None
        submitter.update_parameters(
            mem_gb=math.ceil(limits.memory_mb / 1024) + 1
        ) if limits.memory_mb else None
        submitter.update_parameters(slurm_partition=limits.address) if limits.address not in (
            "",
            LOCAL,
        ) else None
    except Exception as error:
        raise gb.RunError(
            f"executor slurm: {str(error).splitlines()[0][:200]}; run on a login node, or "
            "--address local"
        ) from error
    return submitter


@gb.hookimpl
def gsnobench_executor() -> gb.Executor:
    return gb.Executor(
        "slurm", run, check, help="jobs of a SLURM cluster, by submitit; --address is the partition"
    )
