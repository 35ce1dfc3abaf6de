"""The address of the MLflow store: from the environment, else a SQLite file in the home."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gsnobench.home import ARTIFACTS

DATABASE = "mlflow.db"  # in the home, without an address
URI_VARIABLES = ("GSNOBENCH_TRACKING_URI", "MLFLOW_TRACKING_URI")
BOUNDS = {  # by default MLflow holds one call to a dead server for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# user:password of an address whose @HOST was forgotten: what stands after a host's colon is digits
NO_PORT = re.compile(r"(\w+:/{1,3})[^\s/:\[]*:(?!\d+([/\s,;)'\"]|$))[^\s/]+")


@dataclass(frozen=True)
class Address:
    """One tracking store, always named: MLflow's own default depends on a stray ./mlruns."""

    home: Path
    uri: str
    is_default: bool

    @classmethod
    def of(cls, home: Path) -> Address | None:
        """The store of a home; None where tracking is turned off with the address `none`."""
        values = [os.environ.get(name, "").strip() for name in URI_VARIABLES]
        uri = next(filter(None, values), "")
        if uri.lower() == "none":
            return None
        home = home.resolve()
        return cls(home, uri or f"sqlite:///{home / DATABASE}", not uri)

    @property
    def id(self) -> str:
        """Names the store in spools and locks without its password."""
        if self.is_default:
            return "default"  # it may move with its home
        return hashlib.sha256(self.uri.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The address without user and password."""
        return without_password(self.uri)

    def error_line(self, error: Exception) -> str:
        """The message of a store's error on one line, without the user and password in it."""
        text = str(error).replace(self.uri, self.label)
        return " ".join(without_secrets(text).split())[:200]

    @property
    def artifacts(self) -> Path:
        """The folder of artifacts if no server decides it."""
        return self.home / ARTIFACTS

    @property
    def is_served(self) -> bool:
        """Whether the store is reached through a tracking server."""
        return self.uri.startswith(("http://", "https://"))

    def environment(self) -> dict[str, str]:
        """For a process that works on this store.

        The address may hold a password, so it is not an argument of the command.
        """
        return {**BOUNDS, **os.environ, URI_VARIABLES[0]: "" if self.is_default else self.uri}


def without_password(address: str) -> str:
    """An address without user, password and query, for messages; a mistyped one too."""
    bare = address.partition("?")[0].partition("#")[0]
    if bare.startswith(("sqlite:", "file:")):
        return bare
    scheme, colon, rest = bare.partition(":")
    if not colon:
        return bare
    return re.sub(NO_PORT, r"\1...", f"{scheme}://{rest.rpartition('@')[2].lstrip('/')}")


def without_secrets(text: str) -> str:
    """A message without what could be a user, a password or a token in an address."""
    text = re.sub(r"(\w+:/{1,3})[^\s/@]*@", r"\1", text)
    text = re.sub(NO_PORT, r"\1...", text)
    return re.sub(r"(?i)\b(user|password|passwd|pwd|token)=[^&\s;,)]+", r"\1=...", text)


@contextmanager
def bounded_requests() -> Iterator[None]:
    """Within the block MLflow waits seconds for a silent server, not minutes, and prints nothing.

    What the user has set stays.
    """
    added = {name: value for name, value in BOUNDS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
