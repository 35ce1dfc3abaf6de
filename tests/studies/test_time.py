"""Windows are compared as printed, and on the frames that all of them predict."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import call, command
from made_studies import made_row
from stranger_plugins import make_strangers

from gsnobench.datasets.store import open_file
from gsnobench.studies.time import conclude, growth

WORDS = "study time --dataset heat --models persistence,plain --track smoke --seeds 0 --t-in 1,3"


def test_common_frames_are_those_of_the_longest_window(tmp_path: Path) -> None:
    strangers = make_strangers(tmp_path / "strangers")
    options = ("--train.steps", "2", "--executor", "local", "--json")
    ended = call(*WORDS.split(), *options, home=tmp_path / "home", **strangers)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    printed, common = document["numbers"]["errors"], document["numbers"]["common"]
    for row in ("persistence@default", "plain@default"):
        assert common[row]["3"][0] == pytest.approx(printed[row]["3"]["0"], rel=1e-4)
        assert common[row]["1"][0] != pytest.approx(printed[row]["1"]["0"], rel=1e-4)
    assert common["persistence@default"]["1"][0] == pytest.approx(by_hand(tmp_path), rel=1e-4)
    frames = document["numbers"]["frames"]["persistence@default"]
    assert {window: len(errors) for window, errors in frames.items()} == {"1": 6, "3": 4}
    assert document["sentence"].startswith("On the common frames 4 to 7: persistence@default")
    assert Path(document["folder"], "figures", "time.png").exists()


def by_hand(folder: Path) -> float:
    """The first frame against frames 4 to 7, from the file of the data."""
    (path,) = (folder / "home" / "data").rglob("*.nc")
    with open_file(path) as opened:
        frames = np.asarray(opened.read("test").frames[:], dtype=float)
    gaps = np.sqrt(((frames[:, 3:] - frames[:, :1]) ** 2).sum((1, 2, 3)))
    return float(np.mean(gaps / np.sqrt((frames[:, 3:] ** 2).sum((1, 2, 3)))))


def test_growth_is_the_factor_per_frame() -> None:
    assert growth([0.1 * 1.05**frame for frame in range(9)]) == pytest.approx(1.05)


@pytest.mark.parametrize("dataset", ["darcy", "nse@5-46", "airfoil"])
def test_a_task_without_an_open_window_is_one_line(
    dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"study time --dataset {dataset} --models mean --home {tmp_path}"
    assert "has no open window" in command(capsys, *words.split()).mistake


def test_printed_errors_of_the_same_windows_have_a_table() -> None:
    def titles_and_lines(row: str) -> dict[str, list[list[str]]]:
        rows = [
            made_row(
                {"row": row, "t_in": t_in},
                (0.4, 0.5),
                row=row,
                task=f"nse@{t_in}-{51 - t_in}",
                extra={"common": 0.4, "frames": [0.4] * (51 - t_in)},
            )
            for t_in in (1, 2, 5)
        ]
        tables = conclude("nse", 5, 51, rows).tables
        return {table.title: [list(line) for line in table.rows] for table in tables}

    heading = "nse: printed in the paper, of raw fields"
    assert titles_and_lines("geofno@compact")[heading] == [["geofno", "0.206", "-", "0.161"]]
    assert heading not in titles_and_lines("ridge@default")
