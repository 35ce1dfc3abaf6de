"""Cells as tasks of a Ray cluster: an existing one by its address, or one of this machine's cores
for the time of the call.

A RunSpec travels out and the RunResult comes back as JSON, so nodes need gsnobench and its plugins,
but no shared disk: a node without the data makes them by their recipe. Ray decides what runs where;
inside a task the pool holds the cell to its limits.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import gsnobench as gb
from gsnobench.bench.executors import run_alone

GSNOBENCH_API = 1
# of a task whose node or process died; it goes on from its checkpoint where the disk is shared
RETRIES = 3
KNOCK_S = 5  # for an address to answer
# HTTP/2, RFC 9113: preface, empty SETTINGS frame
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
SETTINGS = {  # bounds of Ray's own patience, which is minutes
    "RAY_gcs_rpc_server_connect_timeout_s": "20",
    "RAY_gcs_server_request_timeout_seconds": "20",
}
# and of tries, a second each, at a cluster that answers but does not let us in
JOINING = {"RAY_NUM_REDIS_GET_RETRIES": "5"}


def check(limits: gb.Limits) -> None:
    """Connect once, and refuse what no node of the cluster could ever run: Ray would let it wait
    for ever.
    """
    with _connected(limits) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = _resources(limits)
        asked = {"CPU": wanted["num_cpus"], "GPU": wanted["num_gpus"], "memory": wanted["memory"]}
        for name, amount in asked.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if amount > most:
                raise gb.RunError(
                    f"executor ray: a cell asks for {amount:g} {name}, no node has more than "
                    f"{most:g}; ask for less"
                )


def run(specs: Sequence[gb.RunSpec], limits: gb.Limits) -> Iterator[gb.RunResult]:
    """All cells at once; Ray starts as many as its nodes have room for."""
    if not specs:
        return
    with _connected(limits) as ray:
        task = ray.remote(max_retries=RETRIES, **_resources(limits))(run_alone)
        waiting = {task.remote(json.dumps(spec.to_dict()), limits): spec for spec in specs}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield _result(ray, reference, waiting.pop(reference))


def _result(ray: Any, reference: Any, spec: gb.RunSpec) -> gb.RunResult:
    try:
        return gb.RunResult.from_json(ray.get(reference))
    except ray.exceptions.RayError as error:
        reason = (
            "memory" if isinstance(error, ray.exceptions.OutOfMemoryError) else type(error).__name__
        )
        return gb.RunResult(spec, "failed", f"ray: {reason}, {str(error).splitlines()[-1][:200]}")


def _resources(limits: gb.Limits) -> dict[str, Any]:
    return {
        "num_cpus": limits.threads,
        "num_gpus": limits.gpus,
        "memory": int(limits.memory_mb * 2**20),
    }


@contextmanager
def _connected(limits: gb.Limits) -> Iterator[Any]:
    """Ray, joined for the time of the block."""
    # read when Ray is imported
    for name, value in {**SETTINGS, **(JOINING if limits.address else {})}.items():
        os.environ.setdefault(name, value)
    if limits.address:
        _knock(limits.address)
    else:
        _own_token(limits)
    try:
        import ray
    except ImportError:
        raise gb.RunError(
            "executor ray: Ray is not installed; pip install 'gsnobench[ray]'"
        ) from None
    if limits.address:
        place: dict[str, Any] = {"address": limits.address}
    else:
        cores = os.cpu_count() or 1
        place = {
            "address": "local",
            "num_cpus": min(limits.jobs * limits.threads or cores, cores),
            "include_dashboard": False,
        }
    with _hushed() as murmur:
        try:
            ray.init(
                **place, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False
            )
        except Exception as error:  # Ray raises its own, the system's and gRPC's errors here
            raise gb.RunError(
                _refusal(limits.address or "this machine", str(error), murmur())
            ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _hushed() -> Iterator[Callable[[], str]]:
    """Ray's C++ side writes to stderr whatever it is told: keep that for who asks, so that a
    mistake is one line.
    """
    before = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)

        def murmur() -> str:
            kept.seek(0)
            return kept.read().decode(errors="replace")

        try:
            yield murmur
        finally:
            os.dup2(before, 2)
            os.close(before)


def _refusal(place: str, error: str, murmur: str) -> str:
    if "InvalidAuthToken" in error + murmur:
        return f"executor ray: {place} refuses our token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH as on its nodes"
    reason = " ".join(error.split())[:160] or "without a reason"
    return f"executor ray: no cluster at {place} ({reason}); check --address"


def _knock(address: str) -> None:
    """Refuse at once what nobody answers at, or somebody who does not speak Ray's protocol: Ray
    itself would try for minutes.
    """
    place = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port = place.hostname, place.port
    except ValueError as error:
        raise gb.RunError(
            f"executor ray: {address} is no address ({error}); expected host:port or "
            "ray://host:port"
        ) from error
    if host is None or port is None:
        return  # `auto` and its like: Ray knows where
    try:
        with socket.create_connection((host, port), timeout=KNOCK_S) as line:
            # behind TLS a plain greeting gets no answer
            is_ray = os.environ.get("RAY_USE_TLS", "0") != "0" or _greets(line)
    except OSError as error:
        reason = error.strerror or str(error)
        raise gb.RunError(
            f"executor ray: no cluster at {address} ({reason}); check --address"
        ) from error
    if not is_ray:
        raise gb.RunError(
            f"executor ray: no cluster at {address} (another service listens there); check "
            "--address"
        )


def _greets(line: socket.socket) -> bool:
    """Whether the other side answers as every gRPC server does, with a SETTINGS frame of its own:
    type 4 at byte 3.
    """
    line.sendall(GREETING)
    answer = b""
    while len(answer) < 4 and (more := line.recv(9)):
        answer += more
    return answer[3:4] == b"\x04"


def _own_token(limits: gb.Limits) -> None:
    """A cluster of our own lets in only who can read this file: whoever joins a cluster may run
    code in it.
    """
    if "RAY_AUTH_MODE" in os.environ:
        return
    path = limits.home / "ray-token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as handle:
            handle.write(secrets.token_hex(32))
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)})


@gb.hookimpl
def gsnobench_executor() -> gb.Executor:
    return gb.Executor(
        "ray", run, check, help="tasks of a Ray cluster: --address, or one of this machine's cores"
    )
