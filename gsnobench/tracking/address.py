"""Where MLflow keeps runs: from the environment, else a SQLite file in the home; never MLflow's own
default.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

URI_VARIABLES = ("GSNOBENCH_TRACKING_URI", "MLFLOW_TRACKING_URI")
BOUNDS = {  # by default MLflow holds one call to a dead server for minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


@dataclass(frozen=True)
class Address:
    """One tracking store, always named explicitly: a stray ./mlruns would change MLflow's own
    choice.
    """

    home: Path
    uri: str
    is_default: bool

    @classmethod
    def of(cls, home: Path) -> Address | None:
        """The store of a home; None where tracking is turned off with the address `none`."""
        uri = next(
            (value for name in URI_VARIABLES if (value := os.environ.get(name, "").strip())), ""
        )
        if uri.lower() == "none":
            return None
        home = home.resolve()
        return cls(home, uri or f"sqlite:///{home / 'mlflow.db'}", not uri)

    @property
    def id(self) -> str:
        """Names the store in spools and locks without its password; the default one may move with
        its home.
        """
        return "default" if self.is_default else hashlib.sha256(self.uri.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The address without user and password."""
        return without_password(self.uri)

    def told(self, error: Exception) -> str:
        """What an error of the store says, on one line, without user and password: messages repeat
        the address.
        """
        secret, at, _ = urlsplit(self.uri).netloc.rpartition("@")
        text = str(error).replace(f"{secret}@", "") if at else str(error)
        return " ".join(text.split())[:200]

    @property
    def artifacts(self) -> Path:
        """Where artifacts go if no server decides it."""
        return self.home / "mlartifacts"

    @property
    def is_served(self) -> bool:
        """Whether a tracking server stands before the store."""
        return self.uri.startswith(("http://", "https://"))

    def environment(self) -> dict[str, str]:
        """For a process that works on this store; the address may hold a password, so it is not an
        argument.
        """
        return {**BOUNDS, **os.environ, URI_VARIABLES[0]: "" if self.is_default else self.uri}


def without_password(address: str) -> str:
    """An address without user and password, for messages."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "address"
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if parts.netloc else address


@contextmanager
def bounded_requests() -> Iterator[None]:
    """Within the block MLflow asks a silent server briefly, not for minutes, and leaves stdout
    alone; what the user set stays.
    """
    added = {name: value for name, value in BOUNDS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
