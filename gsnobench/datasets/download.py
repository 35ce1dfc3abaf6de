"""Public files from their authors' addresses: resumed, measured, never an error page.

A file grows under a hidden name beside its place and is moved there when it is whole. What is
known of the server's version (ETag or date, and length) is kept with it: a file that has changed
since is fetched from its start.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gsnobench.errors import DataError
from gsnobench.files import lock, write_text
from gsnobench.registry import PublicData, PublicFile

BLOCK = 1 << 18
ATTEMPTS = 5  # in a row without a new byte
STALL_S = 30.0  # without a byte
SPARE = 1.02  # of the bytes that are missing, on the disk
PAGE = (b"<!doctype html", b"<html", b"<?xml")
CONTACT = {"User-Agent": "gsnobench", "Accept-Encoding": "identity"}
Tell = Callable[[str], None]


class Answer(Protocol):
    """What urllib returns."""

    status: int
    headers: Any

    def read1(self, size: int) -> bytes: ...


@dataclass(frozen=True)
class Version:
    """What tells one version of a file on a server from another."""

    length: int  # in all; -1: the server does not say
    mark: str  # its ETag, else its date; may be empty

    @classmethod
    def of(cls, answer: Answer) -> Version:
        total = answer.headers.get("Content-Range", "").rpartition("/")[2]
        length = total if total.isdigit() else answer.headers.get("Content-Length", "-1")
        mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        return cls(int(length), "" if mark.startswith("W/") else mark)


def download(
    public: PublicData, folder: Path, *, tell: Tell, stall_s: float = STALL_S
) -> list[Path]:
    """All files of a public set into a folder; those that are whole already stay."""
    paths = [folder / file.name for file in public.files]
    with lock(folder / ".lock"):
        for file, path in zip(public.files, paths, strict=True):
            if path.exists():
                _check(path, path, file)
                tell(f"{path.name} is there")
            else:
                _Fetch(file, path, tell, stall_s).run()
    return paths


@dataclass
class _Fetch:
    """One file on its way."""

    file: PublicFile
    path: Path
    tell: Tell
    stall_s: float

    @property
    def part(self) -> Path:
        return self.path.with_name(f".{self.path.name}.part")

    @property
    def note(self) -> Path:
        return self.path.with_name(f".{self.path.name}.json")

    def run(self) -> None:
        """Fetch what is missing, in as many answers as it takes while each brings something."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        failures, most = 0, self._size()
        while True:
            try:
                if self._fetch():
                    break
                problem = "the connection ended early"
            except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
                problem = str(error) or type(error).__name__
            failures = 0 if self._size() > most else failures + 1
            most = max(most, self._size())
            if failures == ATTEMPTS:
                raise self._stopped(problem)
            time.sleep(0.1 * failures)
        _check(self.part, self.path, self.file)
        self.part.replace(self.path)
        self.note.unlink(missing_ok=True)

    def _fetch(self) -> bool:
        """One answer of the server, appended to what is there; whether the file is whole then."""
        start, known = self._size(), self._known()
        with self._answer(start, known) as answer:
            if answer is None:  # nothing is missing
                return True
            version = Version.of(answer)
            is_rest = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if start and (not is_rest or (known is not None and version != known)):
                self.tell(f"{self.path.name} changed on the server, or it cannot resume: from 0")
                self.part.unlink()
                if answer.status == 206:
                    return False
                start = 0
            self._refuse_pages(answer.headers.get("Content-Type", ""))
            self._refuse_full_disk(version.length - start)
            write_text(self.note, json.dumps(vars(version)))
            self.tell(f"{self.path.name}: {_size_text(start)} of {_size_text(version.length)}")
            with self.part.open("ab") as part:
                while block := answer.read1(BLOCK):  # what has come, even before a stall
                    if part.tell() == 0 and block.lstrip()[:20].lower().startswith(PAGE):
                        self._refuse_pages("text/html")
                    self._write(part, block)
        return version.length in (-1, self._size())

    @contextmanager
    def _answer(self, start: int, known: Version | None) -> Iterator[Answer | None]:
        headers = dict(CONTACT)
        if start:
            headers["Range"] = f"bytes={start}-"
            headers |= {"If-Range": known.mark} if known is not None and known.mark else {}
        try:
            request = urllib.request.Request(self.file.url, headers=headers)
            with urllib.request.urlopen(request, timeout=self.stall_s) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            is_whole = error.code == 416 and known is not None and known.length == start
            if not is_whole:
                if error.code == 416:
                    self.part.unlink()
                raise self._stopped(f"the server answers {error.code} {error.reason}") from error
            yield None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise TimeoutError(f"no answer for {self.stall_s:g} s") from error
            raise self._stopped(str(error.reason)) from error

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _known(self) -> Version | None:
        try:
            return Version(**json.loads(self.note.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _write(self, part: Any, block: bytes) -> None:
        try:
            part.write(block)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written ({error.strerror})") from error

    def _refuse_pages(self, kind: str) -> None:
        if kind.partition(";")[0].strip().lower() in ("text/html", "application/xhtml+xml"):
            self.part.unlink(missing_ok=True)
            self.note.unlink(missing_ok=True)
            raise DataError(
                f"{self.file.url}: answers with a web page instead of {self.path.name}; open it in "
                f"a browser, and put the file into {self.path.parent}"
            )

    def _refuse_full_disk(self, missing: int) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if missing * SPARE > free:
            raise DataError(
                f"{self.path}: needs {_size_text(missing)}, but {_size_text(free)} are free; free "
                "some space or choose another --to"
            )

    def _stopped(self, problem: str) -> DataError:
        return DataError(
            f"{self.file.url}: {problem}; {_size_text(self._size())} are kept, and the same "
            "command goes on from there"
        )


def _check(content: Path, path: Path, file: PublicFile) -> None:
    """Refuse a file of another size or checksum than the registry states."""
    size = content.stat().st_size
    if file.bytes and size != file.bytes:
        problem = f"has {size} bytes; expected {file.bytes}"
    elif file.sha256 and (found := digest_of(content)) != file.sha256:
        problem = f"has the SHA-256 {found[:12]}; expected {file.sha256[:12]}"
    else:
        return
    if content != path:
        content.unlink()
    raise DataError(f"{path}: {problem}; remove it and download it again")


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_text(count: int) -> str:
    if count < 0:
        return "an unknown size"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
