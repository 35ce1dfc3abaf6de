"""The reproduction ledger: every printed number, and verdicts only where they are fair."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import typer
from fake_results import made_result, save
from toy_boards import tracks_of

from gsnobench.boards.board import BoardTrack
from gsnobench.boards.reproduction.commands import command
from gsnobench.boards.reproduction.counterparts import Counterpart
from gsnobench.boards.reproduction.ledger import (
    MEANING,
    REASONS,
    VERDICTS,
    Cause,
    Line,
    compare,
    compare_all,
    counts,
    ledger,
)
from gsnobench.boards.reproduction.paper import PaperNumber, read_paper
from gsnobench.boards.studies import StudyResult
from gsnobench.cli.app import make_app
from gsnobench.records import RunResult

AS_PRINTED = {"track": "workstation", "resolution": 1184}  # the paper's nodes of darcy
PAPER = read_paper()


def numbers(**wanted: object) -> list[PaperNumber]:
    """Printed numbers with these entries."""
    return [
        printed
        for printed in PAPER.numbers
        if all(getattr(printed, name) == value for name, value in wanted.items())
    ]


def number_of(model: str, metric: str) -> PaperNumber:
    """The first printed number of a model on darcy."""
    return numbers(dataset="darcy", model=model, metric=metric)[0]


def test_every_printed_number_is_in_the_ledger_with_a_verdict(evidence: Path) -> None:
    assert len(PAPER.numbers) == 1086
    lines = compare_all(PAPER, tracks_of(evidence))
    page = ledger(lines, PAPER)
    _, _, body = page.partition("## 1. ")
    rows = [
        line
        for line in body.splitlines()
        if line.startswith("| ") and not line.startswith(("| task", "| ---"))
    ]
    assert len(rows) == len(lines) == 1086
    assert [row.split(" | ")[4] for row in rows].count("not run") == sum(
        line.verdict == "not run" for line in lines
    )
    ours = sum(line.has_ours for line in lines)
    assert counts(lines) in page and f"Of 1086 printed numbers {ours} have ours" in page
    assert f"| **all** | 1086 | {ours} |" in page


def test_the_sentence_of_counts_says_what_became_of_our_numbers() -> None:
    printed = number_of("gnot", "rel_l2")
    lines = [Line(printed, "not run")]
    rest = "The other 1 has none yet, each with the command that would measure it."
    assert counts(lines).endswith(f"beside them. {rest}")
    ours = Counterpart("gnot@compact", "laptop", 600, 128, np.array([0.1]))
    lines += [Line(printed, name, ours=ours) for name in ("budget short", "worse", "worse")]
    said = "2 were worse than printed and 1 was trained for fewer epochs than in the paper."
    assert counts(lines) == f"Of 4 printed numbers 3 have ours beside them: {said} {rest}"
    lines[1:] = [Line(printed, "worse", ours=ours)] * 2
    assert "2 have ours beside them: all of them were worse than printed. The" in counts(lines)


def test_verdicts_and_reasons_are_from_closed_lists(evidence: Path) -> None:
    lines = compare_all(PAPER, tracks_of(evidence))
    assert set(MEANING) == set(VERDICTS) and set(REASONS) == set(get_args(Cause))
    for line in lines:
        assert line.verdict in VERDICTS
        is_judged = line.verdict in ("reproduced", "better", "worse", "budget short")
        assert (line.cause is None) == is_judged, line
        assert line.cause is None or line.cause in REASONS
        assert line.has_ours == (line.verdict != "not run")


def test_every_command_of_the_ledger_is_accepted_by_the_command_line() -> None:
    program: Any = typer.main.get_command(make_app())
    commands = sorted({command(printed) for printed in PAPER.numbers})
    assert len(commands) > 100
    for line in commands:
        group, (_, *words) = program, shlex.split(line)
        while words and words[0] in getattr(group, "commands", {}):
            group = group.commands[words.pop(0)]
        assert group is not program and not hasattr(group, "commands"), line
        options = {option for entry in group.params for option in entry.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_seconds_and_memory_of_another_machine_are_never_judged() -> None:
    entry = {"row": "gsno@paper", "task": "darcy", "nodes": 3421, "samples": 600}
    costs = {"inference_s_per_batch": 0.022, "train_mb": 1843.2, "inference_mb": 360.0}
    measured = {**entry, "track": "paper", "device": "cpu", "costs": costs}
    studies = [study("cost", numbers={"measured": [measured]})]
    printed = numbers(table="tab:darcy_runtime_mem_compact", model="gsno")
    lines = [compare(own, [], studies) for own in printed]
    assert [line.ours.value for line in lines if line.ours] == [own.value for own in printed]
    assert {(line.verdict, line.cause) for line in lines} == {("not comparable", "another machine")}


# ----------------------------------------------------------------------------------------- verdicts


def test_a_verdict_looks_at_the_interval_of_the_very_number(tmp_path: Path) -> None:
    """A printed RMSE inside the interval of the relative error is not reproduced by it."""
    printed = number_of("gsno", "rmse")
    spec = {**AS_PRINTED, "preset": "paper", "epochs": 1000}
    # made results have an RMSE of twice their relative error
    for seed, share in enumerate((0.9, 1.0, 1.1)):
        save(tmp_path, made_result("gsno", errors=share * printed.value, seed=seed, **spec))
    line = compare(printed, tracks_of(tmp_path))
    assert line.ours is not None
    assert line.verdict == "worse" and line.ours.value == pytest.approx(2 * printed.value, rel=0.01)
    assert line.interval is not None and line.interval[0] > printed.value
    assert "epochs" not in line.differences and "3 seeds" in line.differences


def test_absolute_errors_of_a_field_of_another_size_are_not_judged(tmp_path: Path) -> None:
    """Made fields have an rms of 2; the printed one follows from both printed errors."""
    save(tmp_path, made_result("gsno", preset="paper", epochs=1000, **AS_PRINTED))
    lines = compare_all(PAPER, tracks_of(tmp_path))
    by_metric = {
        line.printed.metric: (line.verdict, line.cause)
        for line in lines
        if line.printed.table == "tab:darcy_metrics" and line.printed.model == "gsno"
    }
    rms = number_of("gsno", "rmse").value / number_of("gsno", "rel_l2").value
    assert not 1 < rms < 4, "the made field is no longer of another size"
    assert by_metric["rel_l2"] == ("worse", None)
    assert by_metric["rmse"] == by_metric["mae"] == ("not comparable", "another scale")


@pytest.mark.parametrize(
    ("ours", "verdict", "short"),
    [
        (0.0083, "reproduced", "reproduced"),
        (0.004, "better", "better"),
        (0.02, "worse", "budget short"),
    ],
)
def test_a_verdict_needs_the_papers_nodes_and_budget(
    tmp_path: Path, ours: float, verdict: str, short: str
) -> None:
    printed = number_of("gsno", "rel_l2")
    assert printed.value == 0.0083
    shared = {"errors": ours, "preset": "paper"}
    save(tmp_path, made_result("gsno", **shared, epochs=1000, **AS_PRINTED))
    assert compare(printed, tracks_of(tmp_path)).verdict == verdict
    coarse = {**AS_PRINTED, "resolution": 600}
    save(tmp_path / "coarse", made_result("gsno", **shared, epochs=1000, **coarse))
    line = compare(printed, tracks_of(tmp_path / "coarse"))
    assert (line.verdict, line.cause) == ("not comparable", "another mesh")
    save(tmp_path / "short", made_result("gsno", **shared, epochs=187, **AS_PRINTED))
    line = compare(printed, tracks_of(tmp_path / "short"))
    assert line.verdict == short and "187 epochs, not 1000" in line.differences
    laptop = {**AS_PRINTED, "track": "laptop"}
    save(tmp_path / "laptop", made_result("gsno", **shared, epochs=1000, **laptop))
    line = compare(printed, tracks_of(tmp_path / "laptop"))
    assert (line.verdict, line.cause) == ("not comparable", "laptop")


def test_a_variant_is_no_counterpart_of_a_printed_number(tmp_path: Path) -> None:
    printed = number_of("gsno", "rel_l2")
    swept = {
        "changed": {"train.batch": 4},
        "train_params": {"batch": 4},
        "origin": "tuned, 9 trials",
    }
    spec = {"preset": "paper", "epochs": 1000, **AS_PRINTED}
    for seed in range(5):
        save(tmp_path, made_result("gsno", errors=printed.value, seed=seed, **swept, **spec))
    assert compare(printed, tracks_of(tmp_path)).verdict == "not run"
    save(tmp_path, made_result("gsno", errors=2 * printed.value, **spec))
    line = compare(printed, tracks_of(tmp_path))
    assert line.ours is not None and (line.verdict, line.ours.row) == ("worse", "gsno@paper")


def test_an_architecture_of_ours_has_no_printed_number(tmp_path: Path) -> None:
    rows = {"gsno@paper": False, "gsno@plus": True}
    for row in rows:
        save(tmp_path, made_result("gsno", preset=row.partition("@")[2], **AS_PRINTED))
    (track,) = tracks_of(tmp_path, our_rows=("gsno@plus",))
    assert {row.name: row.published is None for row in track.boards[0].rows} == rows


def test_a_row_with_computed_inputs_is_no_counterpart_of_a_printed_number(tmp_path: Path) -> None:
    printed = number_of("gnot", "rel_l2")
    better, worse = 0.9 * printed.value, 2 * printed.value
    save(tmp_path, made_result("gnot", errors=better, preset="compact+features", **AS_PRINTED))
    assert compare(printed, tracks_of(tmp_path)).verdict == "not run"
    save(tmp_path, made_result("gnot", errors=worse, preset="compact", **AS_PRINTED))
    line = compare(printed, tracks_of(tmp_path))
    assert line.ours is not None and line.ours.row == "gnot@compact"
    (board,) = tracks_of(tmp_path)[0].boards
    assert {row.name: row.published is None for row in board.rows} == {
        "gnot@compact": False,
        "gnot@compact+features": True,
    }


def test_a_declined_and_a_failed_row_are_not_run_for_a_reason(tmp_path: Path) -> None:
    spec = made_result("gnot").spec
    save(tmp_path, RunResult(spec, "declined", "no mesh"))
    assert compare(number_of("gnot", "rel_l2"), tracks_of(tmp_path)).cause == "declined"
    save(tmp_path, RunResult(replace(spec, model="amg"), "failed", "too large"))
    assert compare(number_of("amg", "rel_l2"), tracks_of(tmp_path)).cause == "no error"
    assert compare(number_of("coral", "rel_l2"), tracks_of(tmp_path)).cause == "no run"


# ------------------------------------------------------------------------------------------ studies


def study(name: str, runs: Sequence[dict[str, Any]] = (), **entries: Any) -> StudyResult:
    words = {"study": name, "subject": "made", "title": name, "sentence": "It is so."}
    more = {"question": "", "printed": "", "command": "", "budget": "", "numbers": {}}
    return StudyResult(**{**words, **more, **entries}, tables=(), runs=runs)


def run(point: dict[str, Any], task: str, error: float, **changes: Any) -> dict[str, Any]:
    """A run of a study as its result file has it."""
    scores = {"rel_l2_raw": error, "rmse": error, "mae": error}
    return {
        "point": point,
        "row": "gsno@paper",
        "task": task,
        "nodes": 450,
        "samples": 128,
        "track": "laptop",
        "epochs": 20.0,
        "state": "done",
        "changed": {},
        "scores": {field: scores for field in ("head", "vorticity", "velocity_magnitude")},
        "costs": {"train_cpu_s": 100.0, "parameters": 17377.0},
        **changes,
    }


def ablation(task: str) -> StudyResult:
    names = {"unchanged": "full", "R = I": "no_kernel", "W = 0": "no_local"}
    names |= {"MLP over time": "mlp_time", "kNN graph": "knn_graph", "random": "random_basis"}
    runs = [run({"task": task, "change": label}, task, 0.1) for label in names]
    return study("ablation", runs, numbers={"printed_as": names})


def sensitivity() -> StudyResult:
    points = [{"knob": "k_s", "k_s": value, "k_t": 8} for value in (4, 6, 8, 16, 32)]
    points += [{"knob": "k_t", "k_s": 8, "k_t": value} for value in (4, 6, 8, 12, 16)]
    return study("sensitivity", [run(point, "nse@5-46", 0.4) for point in points])


def test_numbers_of_the_papers_studies_are_compared_with_ours() -> None:
    studies = [ablation("darcy"), ablation("burgers2d@5-46"), sensitivity()]
    for table, count in (("gsno_ablation", 22), ("ks_sensitivity", 10), ("kt_sensitivity", 10)):
        lines = [compare(printed, [], studies) for printed in numbers(table=f"tab:{table}")]
        assert len(lines) == count and all(line.has_ours for line in lines), table
        assert {line.verdict for line in lines} == {"not comparable"}
    (printed,) = numbers(table="tab:ks_sensitivity", field="k_s=16", metric="train_s_per_epoch")
    line = compare(printed, [], studies)
    assert line.ours is not None and line.ours.row == "gsno@paper (k_s = 16)"
    assert line.ours.value == pytest.approx(5.0) and "study sensitivity" in line.differences


def test_a_study_with_other_settings_of_training_is_not_judged() -> None:
    (printed,) = numbers(table="tab:ks_sensitivity", field="k_s=8", metric="rel_l2")
    point = {"knob": "k_s", "k_s": 8, "k_t": 8}
    shared = {"track": "paper", "nodes": 1244, "epochs": 1000.0}
    own = study("sensitivity", [run(point, "nse@5-46", printed.value, **shared)])
    assert compare(printed, [], [own]).verdict == "reproduced"
    changed = {"changed": {"train.batch": 4, "model.k_s": 8}}
    other = study("sensitivity", [run(point, "nse@5-46", printed.value, **shared, **changed)])
    line = compare(printed, [], [other])
    assert (line.verdict, line.cause) == ("not comparable", "other settings")
    assert "batch 4" in line.differences


def test_windows_of_a_study_of_time_are_counterparts_and_other_data_are_not() -> None:
    (printed, *_) = numbers(dataset="nse", t_in=1, model="gsno", metric="rel_l2")
    window = run({"row": "gsno@paper", "t_in": 1}, "nse@1-50", 0.2)
    line = compare(printed, [], [study("time", [window])])
    assert line.ours is not None and line.ours.value == 0.2
    fewer = {**window, "point": {"row": "gsno@paper"}, "changed": {"data.samples": 16}}
    assert not compare(printed, [], [study("time", [fewer])]).has_ours
    assert not compare(printed, [], [study("data", [{**window, "state": "failed"}])]).has_ours


def test_a_strangers_study_cannot_stop_the_ledger() -> None:
    (printed, *_) = numbers(dataset="nse", t_in=1, model="gsno", metric="rel_l2")
    window = run({"row": "gsno@paper", "t_in": 1}, "nse@1-50", 0.2)
    broken = [{}, {**window, "nodes": "many"}, {**window, "point": 3}, {**window, "scores": []}]
    measured = [3, {"row": "gsno@paper"}, {**window, "costs": {"train_mb": "much"}}]
    studies = [study("time", broken, numbers={"measured": measured})]
    assert not compare(printed, [], studies).has_ours
    assert not any(line.has_ours for line in compare_all(PAPER, [], studies))


# --------------------------------------------------------------------------------- the whole matrix


def matrix(root: Path, *rows: str) -> list[BoardTrack]:
    """The laptop matrix as if every row had been run on every printed task."""
    errors = [own for own in PAPER.numbers if own.metric in ("rel_l2", "rmse", "mae")]
    fields: dict[str, set[str]] = {}
    for own in errors:
        if own.field and "=" not in own.field:
            fields.setdefault(own.task, set()).add(own.field)
    for task, names in fields.items():
        for row in rows:
            model, _, preset = row.partition("@")
            result = made_result(model, preset=preset, task=task)
            table = result.scores["test"]
            scores = {**table, **dict.fromkeys(names, table["head"])}
            save(root, replace(result, scores={**result.scores, "test": scores}))
    return tracks_of(root)


def costs() -> Iterator[dict[str, Any]]:
    """A study of costs that measured every printed pair."""
    names = ("train_s_per_epoch", "inference_s_per_batch", "train_mb", "inference_mb")
    eigen = ("geometries", "eigen_s_per_geometry", "eigen_batch", "eigen_total_s")
    values = dict.fromkeys([*names, *eigen, "eigen_overhead_percent"], 1.0)
    for own in numbers(field=""):
        entry = {"row": f"{own.model}@paper", "task": own.task, "nodes": own.nodes or 450}
        entry |= {"samples": 128}
        yield {**entry, "track": "laptop", "device": "cpu", "costs": values}


def test_a_full_laptop_matrix_with_all_studies_covers_every_printed_number(tmp_path: Path) -> None:
    models = sorted({own.model for own in PAPER.numbers if ":" not in own.model})
    tracks = matrix(tmp_path, *(f"{model}@compact" for model in models))
    covered = [sum(line.has_ours for line in lines_of(tracks, studies)) for studies in STEPS]
    print(f"covered by the matrix, then with each study: {covered}")
    # 900 errors, and 45 seconds per epoch that every run has
    assert covered == [945, 945 + 22, 945 + 42, 1080]
    with_printed = [*tracks, *matrix(tmp_path / "printed", "gsno@paper")]
    lines = compare_all(PAPER, with_printed, STEPS[-1])
    assert all(line.has_ours for line in lines)
    assert {line.verdict for line in lines} <= {"not comparable", "reproduced"}


def lines_of(tracks: Sequence[BoardTrack], studies: Sequence[StudyResult]) -> list[Line]:
    return compare_all(PAPER, tracks, studies)


ABLATIONS = [ablation("darcy"), ablation("burgers2d@5-46")]
COSTS = study("cost", numbers={"measured": list(costs())})
STEPS = ([], ABLATIONS, [*ABLATIONS, sensitivity()], [*ABLATIONS, sensitivity(), COSTS])


# ------------------------------------------------------------------------------------------ related


def test_related_numbers_state_their_arithmetic() -> None:
    page = ledger(compare_all(PAPER, []), PAPER)
    section = page.partition("## Numbers that are related to others")[2].partition("\n## ")[0]
    assert "18 of its 18 square\nroots are the printed RMSE" in section
    rows = re.findall(
        r"^\| (\w+) \| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| yes", section, re.M
    )
    assert len(rows) == 18
    for _, _, listed, root, printed in rows:
        assert float(root) ** 2 == pytest.approx(float(listed), rel=0.01)
        assert float(root) == pytest.approx(float(printed), rel=0.01)
    assert "github.com/AMBehroozi/GSNO_anonymous" in section and "2207.05209" in section
