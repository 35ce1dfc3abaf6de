"""A fresh environment with this one's packages, in which strangers' packages are installed."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment with a home of its own for gsnobench."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Environment:
        """An empty environment; a .pth file adds the packages of this one, editable installs
        included.
        """
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        environment = cls(folder)
        answer = environment.python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (Path(answer.stdout.strip()) / "parent.pth").write_text(line)
        return environment

    def python(
        self, *arguments: str, expect: int = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the environment's interpreter and hold it to an exit code."""
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GSNOBENCH_", "PYTHON", "PYTEST_"))
        }
        variables |= {
            "GSNOBENCH_HOME": str(self.folder / "home"),
            "GSNOBENCH_TRACKING_URI": "none",  # a mirror would compute on after the test
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }
        command = [str(self.folder / "venv" / "bin" / "python"), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=cwd or self.folder,
            env=variables,
            timeout=500,
        )
        assert done.returncode == expect, (
            f"{arguments}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
        return done

    def gsnobench(self, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.python("-m", "gsnobench", *arguments, expect=expect)

    def install(self, *packages: Path) -> None:
        """Install package folders offline, without their dependencies."""
        offline = (
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "--disable-pip-version-check",
            "--quiet",
        )
        self.python("-m", "pip", "install", *offline, *(str(package) for package in packages))
