"""The sensitivity study: its cells are ordinary runs, made once; its sentence fits the numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import call_here, the_mistake
from made_studies import made_row

from gsnobench.cli.app import main
from gsnobench.studies import sensitivity

HEADER = (
    "knob,k_s,k_t,row,task,nodes,samples,seed,steps,test,valid,test_ood,parameters,train_cpu_s,"
    "state,key"
)
WORDS = "study sensitivity --dataset darcy --track smoke --seeds 0 --jobs 1 --train.steps 2"


def study(home: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["gsnobench", *WORDS.split(), "--home", str(home), *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


def test_a_study_is_run_once_and_ends_in_tables_and_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSNOBENCH_TRACKING_URI", "none")
    monkeypatch.setattr(sensitivity, "VALUES", ((4, 8), (4, 8)))
    study(tmp_path, monkeypatch)
    progress = capsys.readouterr().err
    # the centre of both tables is one run
    for cell in ("k_s 4, k_t 8", "k_s 8, k_t 8", "k_s 8, k_t 4"):
        assert progress.count(f"gsno@paper on darcy, {cell}, seed 0: done") == 1
    study(tmp_path, monkeypatch, "--json")
    again = capsys.readouterr()
    assert "done," not in again.err
    document = json.loads(again.out)
    folder = Path(document["folder"])
    errors = {name: [row["test"] for row in rows] for name, rows in document["numbers"].items()}
    assert errors["k_s"][1] == errors["k_t"][1]
    assert all(len(seeds) == 1 for rows in errors.values() for seeds in rows)
    with (folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == HEADER.split(",")
    knobs = [(row["knob"], row["k_s"], row["k_t"]) for row in rows]
    assert knobs == [("k_s", "4", "8"), ("k_s", "8", "8"), ("k_t", "8", "4"), ("k_t", "8", "8")]
    assert {row["state"] for row in rows} == {"done"}
    assert float(rows[0]["test"]) == pytest.approx(errors["k_s"][0][0])
    assert (folder / "figures" / "sensitivity.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "results").rglob("*.json"))) == 3


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((0.4, 0.2, 0.4), "k_s: a U-shape; least at k_s = 6"),
        ((0.4, 0.3, 0.2), "k_s: falling towards more modes, not a U-shape; least at k_s = 8"),
        ((0.2, 0.3, 0.4), "k_s: rising towards more modes, not a U-shape; least at k_s = 4"),
        ((0.300, 0.299, 0.301), "k_s: no dependence beyond the scatter of seeds"),
        ((0.3, 0.2), "k_s: too few values to see a shape."),
    ],
)
def test_the_sentence_names_a_shape_only_beyond_the_scatter_of_seeds(
    means: tuple[float, ...], verdict: str
) -> None:
    rows = [
        made_row({"knob": "k_s", "k_s": value}, (mean - 0.01, mean, mean + 0.01))
        for value, mean in zip((4, 6, 8), means, strict=False)
    ]
    assert sensitivity.conclude("toy", rows).sentence.startswith(verdict)


def test_one_seed_tells_no_shape() -> None:
    values = zip((4, 6, 8), (0.4, 0.2, 0.4), strict=True)
    rows = [made_row({"knob": "k_s", "k_s": value}, (error,)) for value, error in values]
    assert sensitivity.conclude("toy", rows).sentence == (
        "k_s: least at k_s = 6 (0.2; ends 0.4 and 0.4); one seed does not tell a shape from "
        "scatter."
    )


def test_printed_errors_stand_beside_those_of_the_same_model_and_task() -> None:
    def last_column(**changes: str) -> list[str]:
        rows = [
            made_row({"knob": "k_s", "k_s": value}, (0.3, 0.4), **changes) for value in (4, 5, 32)
        ]
        return [line[-1] for line in sensitivity.conclude("toy", rows).tables[0].rows]

    assert last_column(row="gsno@paper", task="nse@5-46") == ["0.0412", "-", "0.0275"]
    assert last_column(row="toy@paper", task="nse@5-46") == ["-", "-", "-"]
    assert last_column(row="gsno@paper", task="swe@5-46") == ["-", "-", "-"]


def test_a_model_without_two_central_knobs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"study sensitivity --model mean --dataset darcy --home {tmp_path}"
    line = the_mistake(call_here(capsys, *words.split()))
    assert "mean declares 0 central numbers" in line
