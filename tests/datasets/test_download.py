"""Downloads from a server on this machine that cuts, stalls, changes its file or sends a page."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import command
from toy_samples import one_line

import gsnobench as gb
from gsnobench.datasets import download as module
from gsnobench.datasets.download import download
from gsnobench.registry import PublicData, PublicFile, read_registry, registry_path

FIRST = bytes(range(256)) * 4000  # a megabyte
SECOND = FIRST[::-1] + b"more"


class Server:
    """What the server does next: one entry per answer, the last one for all further ones."""

    def __init__(self) -> None:
        self.content, self.etag = FIRST, '"1"'
        self.behaviour = ["serve"]
        self.ranges: list[str | None] = []
        self.honours_if_range = True
        self.go_on = threading.Event()

    def next(self) -> str:
        return self.behaviour.pop(0) if len(self.behaviour) > 1 else self.behaviour[0]


class Handler(BaseHTTPRequestHandler):
    """Serves one file under every path."""

    def log_message(self, *words: object) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        state: Server = self.server.state  # type: ignore[attr-defined]
        asked = self.headers["Range"]
        state.ranges.append(asked)
        what = state.next()
        if what in ("503", "page", "sneaky"):
            body = b"<!DOCTYPE html><html>sorry</html>"
            self.send_response(503 if what == "503" else 200)
            self.send_header("Content-Type", "x/data" if what == "sneaky" else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if state.honours_if_range and self.headers["If-Range"] not in (None, state.etag):
            start = 0
        if asked and start == len(state.content):
            self.send_response(416, "Range Not Satisfiable")
            self.end_headers()
            return
        if what == "restless":
            state.etag = f'"{len(state.ranges)}"'
        if what == "shifted" and start:
            start -= 1
        body = state.content[start:]
        self.send_response(206 if start else 200)
        if start:
            span = f"bytes {start}-{len(state.content) - 1}/{len(state.content)}"
            self.send_header("Content-Range", span)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", state.etag)
        self.end_headers()
        self.wfile.write(body if what in ("serve", "shifted") else body[: len(body) // 2])
        self.wfile.flush()
        if what == "stall":
            state.go_on.wait(20)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.state = Server()  # type: ignore[attr-defined]
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield http
    http.state.go_on.set()  # type: ignore[attr-defined]
    http.shutdown()
    http.server_close()


def public(server: ThreadingHTTPServer, **stated: object) -> PublicData:
    url = f"http://127.0.0.1:{server.server_port}/x.bin"
    file = PublicFile("x.bin", url, **stated)  # type: ignore[arg-type]
    return PublicData(licence="CC0-1.0", tried=True, files=(file,))


def fetch(server: ThreadingHTTPServer, folder: Path, **stated: object) -> bytes:
    (path,) = download(public(server, **stated), folder, tell=lambda text: None, stall_s=0.5)
    return path.read_bytes()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_whole_file_is_fetched_once(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    digest = hashlib.sha256(FIRST).hexdigest()
    assert fetch(server, tmp_path, bytes=len(FIRST), sha256=digest) == FIRST
    assert fetch(server, tmp_path, bytes=len(FIRST), sha256=digest) == FIRST
    assert server.state.ranges == [None]  # type: ignore[attr-defined]
    assert left(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("trouble", ["cut", "stall"])
def test_a_cut_or_stalled_answer_is_resumed(
    server: ThreadingHTTPServer, tmp_path: Path, trouble: str
) -> None:
    server.state.behaviour = [trouble, trouble, "serve"]  # type: ignore[attr-defined]
    assert fetch(server, tmp_path) == FIRST
    half, quarters = len(FIRST) // 2, len(FIRST) * 3 // 4
    assert server.state.ranges == [  # type: ignore[attr-defined]
        *(None, f"bytes={half}-", f"bytes={quarters}-")
    ]
    assert left(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("honours", [True, False])
def test_a_file_that_changed_starts_again(
    server: ThreadingHTTPServer, tmp_path: Path, honours: bool
) -> None:
    state = server.state  # type: ignore[attr-defined]
    state.behaviour, state.honours_if_range = ["cut", "503"], honours
    with pytest.raises(gb.DataError):
        fetch(server, tmp_path)
    state.content, state.etag, state.behaviour = SECOND, '"2"', ["serve"]
    assert fetch(server, tmp_path) == SECOND
    assert left(tmp_path) == ["x.bin"]


def test_another_part_than_asked_for_is_never_joined(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    server.state.behaviour = ["cut", "shifted", "serve"]  # type: ignore[attr-defined]
    assert fetch(server, tmp_path) == FIRST


def test_a_file_that_changes_with_every_answer_ends_in_one_line(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    server.state.behaviour = ["restless"]  # type: ignore[attr-defined]
    with pytest.raises(gb.DataError) as error:
        fetch(server, tmp_path)
    one_line(error, "the connection ended early")
    assert "x.bin" not in left(tmp_path)


def test_a_busy_server_is_one_line_and_keeps_what_is_there(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    state = server.state  # type: ignore[attr-defined]
    state.behaviour = ["cut", "503"]
    with pytest.raises(gb.DataError) as caught:
        fetch(server, tmp_path)
    one_line(caught, "503", "512 kB are kept", "goes on from there")
    assert not (tmp_path / "x.bin").exists()
    state.behaviour = ["serve"]
    assert fetch(server, tmp_path) == FIRST
    assert state.ranges[-1] == f"bytes={len(FIRST) // 2}-"


@pytest.mark.parametrize("kind", ["page", "sneaky"])
def test_a_page_is_never_taken_for_data(
    server: ThreadingHTTPServer, tmp_path: Path, kind: str
) -> None:
    server.state.behaviour = [kind]  # type: ignore[attr-defined]
    with pytest.raises(gb.DataError) as caught:
        fetch(server, tmp_path)
    one_line(caught, "a web page instead of x.bin")
    assert left(tmp_path) == []


def test_a_server_that_sends_nothing_ends_in_one_line(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 2)
    server.state.content = b"x"  # type: ignore[attr-defined]
    server.state.behaviour = ["stall"]  # type: ignore[attr-defined]
    with pytest.raises(gb.DataError) as caught:
        fetch(server, tmp_path)
    one_line(caught, "timed out", "0 bytes are kept")


@pytest.mark.parametrize("stated", [{"bytes": 7}, {"sha256": "0" * 64}])
def test_another_size_or_checksum_is_refused(
    server: ThreadingHTTPServer, tmp_path: Path, stated: dict[str, object]
) -> None:
    with pytest.raises(gb.DataError) as caught:
        fetch(server, tmp_path, **stated)
    one_line(caught, "expected", "download it again")
    assert not list(tmp_path.glob("*.bin")) and not list(tmp_path.glob(".*.part"))


def test_a_full_disk_is_seen_before_the_first_byte(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = module.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(gb.DataError) as caught:
        fetch(server, tmp_path)
    one_line(caught, "needs 1.02 MB, but 1 kB are free")
    assert left(tmp_path) == []


def test_a_killed_process_that_had_everything_only_moves_the_file(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    (tmp_path / ".x.bin.part").write_bytes(FIRST)
    (tmp_path / ".x.bin.json").write_text(f'{{"length": {len(FIRST)}, "mark": "\\"1\\""}}')
    assert fetch(server, tmp_path) == FIRST
    assert left(tmp_path) == ["x.bin"]


def test_the_command_fetches_or_says_where_to_click(
    server: ThreadingHTTPServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://127.0.0.1:{server.server_port}/x.bin"
    file = f'{{ name = "x.bin", url = "{url}" }}'
    entry = f'[public.toy]\nlicence = "CC0"\ntried = true\nfiles = [{file}]'
    own = tmp_path / "registry.toml"
    own.write_text(f"{registry_path().read_text()}\n{entry}\n")
    monkeypatch.setattr("gsnobench.registry.registry_path", lambda: own)
    home = ("--home", tmp_path / "home")
    ended = command(capsys, "data", "download", "toy", *home, "--json")
    assert ended.json["files"] == {"x.bin": hashlib.sha256(FIRST).hexdigest()}
    folder = Path(ended.json["folder"])
    assert (folder / "x.bin").read_bytes() == FIRST
    clicked = command(capsys, "data", "download", "pipe_official", *home)
    assert clicked.code == 0 and "drive.google.com" in clicked.out and "Pipe_Q.npy" in clicked.out
    unknown = command(capsys, "data", "download", "pipe_oficial", *home)
    assert "did you mean 'pipe_official'?" in unknown.mistake


def test_every_importer_has_an_address_with_its_licence() -> None:
    from gsnobench.plugins import listed, load

    known = read_registry().public
    assert set(known) == {entry.name for entry in listed("importer")}
    for name, entry in known.items():
        assert entry.licence == load("importer", name).licence
        assert bool(entry.files) != bool(entry.page)
        assert not entry.tried, "say so only after a download"
