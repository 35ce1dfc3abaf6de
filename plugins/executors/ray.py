"""Cells as tasks of a Ray cluster: an existing one by its address, or one made for the call.

A RunSpec is sent and its RunResult returned as JSON, so nodes need gsnobench and its plugins, but
no shared disk: a node without the data makes them by their recipe. Ray decides which node runs a
cell; inside the task the pool enforces the cell's limits.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import gsnobench as gb

GSNOBENCH_API = 1
# of a task whose node or process died; it goes on from its checkpoint where the disk is shared
RETRIES = 3
KNOCK_S = 5  # for an address to accept a connection
# HTTP/2, RFC 9113: preface, empty SETTINGS frame
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
SETTINGS = {  # Ray's own timeouts are minutes
    "RAY_gcs_rpc_server_connect_timeout_s": "20",
    "RAY_gcs_server_request_timeout_seconds": "20",
}
# attempts, a second each, to join a cluster that responds but refuses us
JOINING = {"RAY_NUM_REDIS_GET_RETRIES": "5"}
QUIET: dict[str, Any] = {
    "log_to_driver": False,
    "logging_level": logging.ERROR,
    "configure_logging": False,
}


def check(limits: gb.Limits) -> None:
    """Connect once, and refuse what no node could ever run: Ray would let it wait for ever."""
    needed = _resources(limits)
    amounts = {"CPU": needed["num_cpus"], "GPU": needed["num_gpus"], "memory": needed["memory"]}
    with _connected(limits) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for name, amount in amounts.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if amount > most:
            raise gb.RunError(
                f"executor ray: a cell needs {amount:g} {name}, no node has more than {most:g}; "
                "request less"
            )


def run(specs: Sequence[gb.RunSpec], limits: gb.Limits) -> Iterator[gb.RunResult]:
    """All cells at once; Ray starts as many as its nodes have room for."""
    if not specs:
        return
    with _connected(limits) as ray:
        task = ray.remote(max_retries=RETRIES, **_resources(limits))(gb.run_alone)
        waiting = {task.remote(json.dumps(spec.to_dict()), limits): spec for spec in specs}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield _result(ray, reference, waiting.pop(reference))


def _result(ray: Any, reference: Any, spec: gb.RunSpec) -> gb.RunResult:
    try:
        return gb.RunResult.from_json(ray.get(reference))
    except ray.exceptions.RayError as error:
        is_memory = isinstance(error, ray.exceptions.OutOfMemoryError)
        kind = "memory" if is_memory else type(error).__name__
        return gb.RunResult(spec, "failed", f"ray: {kind}, {str(error).splitlines()[-1][:200]}")


def _resources(limits: gb.Limits) -> dict[str, Any]:
    return {
        "num_cpus": limits.threads,
        "num_gpus": limits.gpus,
        "memory": int(limits.memory_mb * 2**20),
    }


@contextmanager
def _connected(limits: gb.Limits) -> Iterator[Any]:
    """Ray, joined for the time of the block."""
    # Ray reads these when it is imported
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
    with _captured_errors() as captured:
        try:
            ray.init(**_cluster(limits), **QUIET)
        except Exception as error:  # Ray raises its own, the system's and gRPC's errors here
            address = limits.address or "this machine"
            raise gb.RunError(_refusal(address, str(error), captured())) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _cluster(limits: gb.Limits) -> dict[str, Any]:
    """The cluster to join, or to make of this machine's cores."""
    if limits.address:
        return {"address": limits.address}
    cores = os.cpu_count() or 1
    used = min(limits.jobs * limits.threads or cores, cores)
    return {"address": "local", "num_cpus": used, "include_dashboard": False}


@contextmanager
def _captured_errors() -> Iterator[Callable[[], str]]:
    """Capture stderr, since Ray's C++ side cannot be silenced; a mistake shall be one line."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def captured() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            yield captured
        finally:
            os.dup2(before, 2)
            os.close(before)


def _refusal(address: str, error: str, captured: str) -> str:
    if "InvalidAuthToken" in error + captured:
        return (
            f"executor ray: {address} refuses our token; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH as on its nodes"
        )
    return _no_cluster(address, " ".join(error.split())[:160] or "without a reason")


def _no_cluster(address: str, reason: str) -> str:
    return f"executor ray: no cluster at {address} ({reason}); check --address"


def _knock(address: str) -> None:
    """Refuse at once an address where nothing speaks Ray's protocol: Ray would try for minutes."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise gb.RunError(
            f"executor ray: {address} is no address ({error}); expected host:port or "
            "ray://host:port"
        ) from error
    if host is None or port is None:
        return  # `auto` and the like: Ray itself knows the address
    try:
        with socket.create_connection((host, port), timeout=KNOCK_S) as connection:
            # behind TLS a plain greeting gets no reply
            is_ray = os.environ.get("RAY_USE_TLS", "0") != "0" or _greets(connection)
    except OSError as error:
        raise gb.RunError(_no_cluster(address, error.strerror or str(error))) from error
    if not is_ray:
        raise gb.RunError(_no_cluster(address, "another service listens there"))


def _greets(connection: socket.socket) -> bool:
    """Whether the reply is that of every gRPC server, a SETTINGS frame: type 4 at byte 3."""
    connection.sendall(GREETING)
    reply = b""
    while len(reply) < 4 and (more := connection.recv(9)):
        reply += more
    return reply[3:4] == b"\x04"


def _own_token(limits: gb.Limits) -> None:
    """A cluster of our own needs a token that only we can read: who joins it may run code in it."""
    if "RAY_AUTH_MODE" in os.environ:
        return
    path = limits.home / "ray-token"
    gb.private_token(path)
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)})


@gb.hookimpl
def gsnobench_executor() -> gb.Executor:
    return gb.Executor(
        "ray", run, check, help="tasks of a Ray cluster: --address, or one of this machine's cores"
    )
