"""Boards in a real MLflow store: complete, twice the same, mended after a kill, inert."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_results import made_result, made_spec, save, spread
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow_store import client_of, forget_outer_store
from toy_boards import tracks_of

from gsnobench.boards.publish import DIGEST, KIND, NAME, NOTE, OVERVIEW, StoredBoard, publish
from gsnobench.errors import RunError
from gsnobench.records import RunResult
from gsnobench.tracking.address import Address
from gsnobench.tracking.mirror import StoredRun

HOSTILE = "<script>alert(1)</script>\"'/..\\"
EXPERIMENT = "gsnobench/laptop/darcy"


@pytest.fixture(autouse=True)
def _no_outer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_outer_store(monkeypatch)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with empty tables: making those takes seconds, a copy of the file does not."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments(max_results=1)
    return path


@pytest.fixture
def home(tmp_path: Path, empty_store: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(empty_store.read_bytes())
    return folder


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Two models of three seeds, one that diverged, and a floor."""
    root = tmp_path / "results"
    for index, (model, mean) in enumerate((("gsno", 0.02), ("amg", 0.04))):
        for seed in range(3):
            save(root, made_result(model, errors=spread(mean, 10 * index + seed), seed=seed))
    save(root, made_result("mean", errors=spread(0.5, 99), preset="default", steps={"fit": 0}))
    save(root, RunResult(made_spec("coral"), "diverged", reason="the loss was nan"))
    return root


def put(evidence: Path, home: Path) -> list[StoredBoard]:
    address = Address.of(home)
    assert address is not None
    return publish(tracks_of(evidence), address)


def runs_of(home: Path, kind: str, experiment: str = EXPERIMENT) -> dict[str, Run]:
    client = client_of(home)
    stored = client.get_experiment_by_name(experiment)
    if stored is None:
        return {}
    runs = client.search_runs([stored.experiment_id], f"tags.`{KIND}` = '{kind}'")
    assert len({run.info.run_name for run in runs}) == len(runs)
    return {run.info.run_name: run for run in runs}


def everything(home: Path) -> list[object]:
    """All that a reader of the store can see."""
    runs = [run for kind in ("summary", "leaderboard") for run in runs_of(home, kind).values()]
    experiment = client_of(home).get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    return [experiment.tags, [run.to_dictionary() for run in runs]]


def test_the_overview_comes_first_and_leads_to_all_boards(evidence: Path, home: Path) -> None:
    told: list[StoredBoard] = []
    address = Address.of(home)
    assert address is not None
    (board,) = publish(tracks_of(evidence), address, told.append)
    assert [entry.experiment for entry in told] == ["gsnobench/overview", EXPERIMENT]
    (run,) = runs_of(home, "overview", "gsnobench/overview").values()
    folder = Path(client_of(home).download_artifacts(run.info.run_id, ""))
    page = (folder / "overview.html").read_text()
    assert "gsno@compact leads" in page and 'href="models' not in page
    note = client_of(home).get_experiment(told[0].experiment_id).tags[NOTE]
    assert f"/runs/{board.run_id}/artifacts/leaderboard.html" in note
    again: list[StoredBoard] = []
    publish(tracks_of(evidence), address, again.append)
    assert again[0].run_id == told[0].run_id and again[0].written == 0


def test_a_board_is_complete_in_an_empty_store(evidence: Path, home: Path) -> None:
    (stored,) = put(evidence, home)
    assert (stored.experiment, stored.written, stored.removed) == (EXPERIMENT, 5, 0)
    rows = runs_of(home, "summary")
    assert set(rows) == {"gsno@compact", "amg@compact", "mean@default", "coral@compact"}
    best = rows["gsno@compact"].data
    metrics, tags = best.metrics, best.tags
    assert metrics["board/error"] == pytest.approx(0.02, rel=0.05)
    assert metrics["test/headline/rel_l2"] == metrics["board/error"]
    assert metrics["test/headline/rel_l2_low"] < 0.02 * 1.05
    assert metrics["test/headline/rel_l2_high"] > 0.02 * 0.95
    assert metrics["board/place"] == 1
    assert metrics["board/error_percent"] == pytest.approx(100 * metrics["board/error"])
    assert "cost/parameters" in metrics
    assert (tags["model"], tags["preset"]) == ("gsno", "compact")
    assert (tags["floor"], tags["variant"]) == ("false", "false")
    assert (tags["place"], tags["ties"], tags["places"]) == ("1", "a", "1")
    assert any(name.startswith("model.") for name in best.params)
    assert rows["mean@default"].data.tags["floor"] == "true"
    lost = rows["coral@compact"]
    assert lost.info.status == "FAILED" and lost.data.tags["reason"] == "the loss was nan"
    assert "test/headline/rel_l2" not in lost.data.metrics

    (leader,) = runs_of(home, "leaderboard").values()
    assert (leader.info.run_id, leader.info.run_name) == (stored.run_id, NAME)
    # MLflow lists the newest run first
    assert leader.info.start_time > max(run.info.start_time for run in rows.values())
    link = f"#/experiments/{stored.experiment_id}/runs"
    for run in rows.values():
        assert f"({link}/{run.info.run_id})" in leader.data.tags[NOTE]
    experiment = client_of(home).get_experiment(stored.experiment_id)
    assert f"{link}/{stored.run_id}/artifacts/leaderboard.html" in experiment.tags[NOTE]
    folder = Path(client_of(home).download_artifacts(leader.info.run_id, ""))
    assert "gsno@compact" in (folder / "leaderboard.html").read_text()
    flat_rows = json.loads((folder / "leaderboard.json").read_text())
    assert flat_rows[0]["row"] == "gsno@compact"
    assert list((folder / "figures").glob("*.svg"))


def test_a_variant_is_published_as_a_variant_and_not_as_the_row(evidence: Path, home: Path) -> None:
    knobs = {"model_params": {"width": 8}, "changed": {"model.width": 8}}
    for seed in range(5):
        winner = made_result("gsno", errors=0.001, seed=seed, origin="tuned, 12 trials", **knobs)
        save(evidence, winner)
    put(evidence, home)
    rows = runs_of(home, "summary")
    row, variant = rows["gsno@compact"].data, rows["gsno@compact (tuned, 12 trials)"].data
    assert row.metrics["board/error"] == pytest.approx(0.02, rel=0.05)
    assert (row.metrics["board/place"], row.tags["variant"]) == (1, "false")
    assert (variant.tags["variant"], variant.tags["settings"]) == ("true", "width=8")
    assert "board/place" not in variant.metrics and variant.tags["place"] == "–"
    (leader,) = runs_of(home, "leaderboard").values()
    assert "tuned" not in leader.data.tags[NOTE]
    assert "In leaderboard.html: 1 variants, not ranked." in leader.data.tags[NOTE]


def test_publishing_twice_changes_nothing(evidence: Path, home: Path) -> None:
    put(evidence, home)
    before = everything(home)
    (again,) = put(evidence, home)
    assert (again.written, again.removed) == (0, 0)
    assert everything(home) == before


def test_a_changed_board_replaces_what_changed_and_rows_that_vanished_are_gone(
    evidence: Path, home: Path
) -> None:
    put(evidence, home)
    before = {name: run.info.run_id for name, run in runs_of(home, "summary").items()}
    for path in evidence.rglob("amg@compact/*.json"):
        path.unlink()
    # the last one: no rank above it changes
    save(evidence, made_result("gnot", errors=spread(0.9, 5)))
    (stored,) = put(evidence, home)
    after = {name: run.info.run_id for name, run in runs_of(home, "summary").items()}
    assert set(after) == {"gsno@compact", "gnot@compact", "mean@default", "coral@compact"}
    for row in ("gsno@compact", "coral@compact"):
        assert after[row] == before[row]
    client = client_of(home)
    (leader,) = runs_of(home, "leaderboard").values()
    page = Path(client.download_artifacts(leader.info.run_id, "leaderboard.html")).read_text()
    assert "gnot@compact" in page and "amg@compact" not in page
    assert after["gnot@compact"] in leader.data.tags[NOTE]
    assert leader.info.run_id in client.get_experiment(stored.experiment_id).tags[NOTE]


def test_boards_that_must_not_share_a_table_do_not_share_an_experiment(
    evidence: Path, home: Path
) -> None:
    save(evidence, made_result("gsno", errors=0.001, version=0))
    first, second = put(evidence, home)
    assert first.experiment == EXPERIMENT and second.experiment.startswith(f"{EXPERIMENT}-")
    assert len(runs_of(home, "summary")) == 4
    assert len(runs_of(home, "summary", second.experiment)) == 1


def test_a_run_of_training_is_left_alone(evidence: Path, home: Path) -> None:
    client = client_of(home)
    address = Address.of(home)
    assert address is not None
    artifacts = (address.artifacts / EXPERIMENT).as_uri()
    experiment = client.create_experiment(EXPERIMENT, artifact_location=artifacts)
    own = client.create_run(experiment, run_name="gsno@compact seed 0", tags={"model": "gsno"})
    (stored,) = put(evidence, home)
    assert stored.experiment_id == experiment and stored.removed == 0
    assert client.get_run(own.info.run_id).info.lifecycle_stage == "active"


@pytest.mark.parametrize(
    ("calls", "changes"),
    [(1, (5, 0)), (3, (4, 1)), (6, (1, 1))],  # runs of the board: written, removed
    ids=["within the overview", "within a row", "within the LEADERBOARD"],
)
def test_what_was_cut_in_the_middle_is_mended_by_publishing_again(
    evidence: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: int,
    changes: tuple[int, int],
) -> None:
    kept, states = StoredRun.set_state, []

    def cut(self: StoredRun, state: str, when: int, tags: Mapping[str, str] | None = None) -> None:
        states.append(state)
        if len(states) == calls:
            # nothing in our code catches it, so the store is as after a kill
            raise KeyboardInterrupt
        kept(self, state, when, tags)

    with monkeypatch.context() as patched:
        patched.setattr(StoredRun, "set_state", cut)
        with pytest.raises(KeyboardInterrupt):
            put(evidence, home)
    (stored,) = put(evidence, home)
    # the half-written run is replaced, the whole ones stay
    assert (stored.written, stored.removed) == changes
    assert len(runs_of(home, "summary")) == 4
    (leader,) = runs_of(home, "leaderboard").values()
    assert leader.info.status == "FINISHED" and DIGEST in leader.data.tags
    (overview,) = runs_of(home, "overview", OVERVIEW).values()
    assert overview.info.status == "FINISHED" and DIGEST in overview.data.tags


def test_hostile_names_are_inert(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "hostile"
    names = {"task": HOSTILE, "track": "../x", "model_params": {"a/../b|": HOSTILE}}
    (root / "flat").mkdir(parents=True)
    made_result(HOSTILE, errors=spread(0.1, 1), **names).save(root / "flat" / "result.json")
    (stored,) = put(root, home)
    experiment = stored.experiment
    assert "<" not in experiment and ".." not in experiment and experiment.count("/") == 2
    (row,) = runs_of(home, "summary", experiment).values()
    assert row.data.tags["model"] == HOSTILE, "the text itself is kept"
    (leader,) = runs_of(home, "leaderboard", experiment).values()
    description = client_of(home).get_experiment(stored.experiment_id).tags[NOTE]
    assert "<script" not in leader.data.tags[NOTE] + description
    written = list(tmp_path.rglob("leaderboard.html"))
    assert written and all(home / "mlartifacts" in path.parents for path in written)
    assert "<script>alert" not in written[0].read_text()


def test_a_dead_store_is_one_line(
    evidence: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    with pytest.raises(RunError, match="cannot take the leaderboards") as error:
        put(evidence, home)
    assert len(str(error.value).splitlines()) == 1 and "secret" not in str(error.value)


def test_a_bug_of_ours_is_not_taken_for_a_dead_store(
    evidence: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise KeyError("bug")

    monkeypatch.setattr("gsnobench.boards.publish.task_page", broken)
    with pytest.raises(KeyError):
        put(evidence, home)


def test_two_publishers_at_once_leave_one_board(evidence: Path, home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(put, [evidence, evidence], [home, home]))
    assert sorted(stored.written for (stored,) in both) == [0, 5]
    assert len(runs_of(home, "summary")) == 4 and len(runs_of(home, "leaderboard")) == 1
