"""`leaderboard build`: the same bytes every time, no work when nothing is new, nothing stale."""

from __future__ import annotations

from pathlib import Path

from fake_results import made_result, save
from toy_boards import tracks_of

from gsnobench.boards.build import Target, build, embedded, stale

ROOT = Path(__file__).resolve().parents[2]


def test_building_twice_gives_the_same_bytes_and_then_does_nothing(
    evidence: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    build([evidence], Target(first, tmp_path / "ledger.md"))
    build([evidence], Target(second))
    paths = [path for path in first.rglob("*") if path.is_file() and path.name != ".build.json"]
    names = [path.relative_to(first) for path in paths]
    assert len(names) > 6
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)
    assert build([evidence], Target(first, tmp_path / "ledger.md")).was_fresh


def test_a_new_result_is_noticed_and_what_is_no_longer_made_is_removed(
    evidence: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    extra = save(evidence, made_result("gsno", track="smoke"))[0]
    build([evidence], Target(out))
    assert (out / "smoke.md").exists() and not stale([evidence], Target(out))
    (out / "README.md").write_text("by hand\n")
    extra.unlink()
    assert out / "smoke.md" in stale([evidence], Target(out))
    built = build([evidence], Target(out))
    assert str(out / "smoke.md") in built.removed and not (out / "smoke.md").exists()
    assert (out / "README.md").read_text() == "by hand\n"
    (out / "laptop.md").write_text("edited\n")
    assert stale([evidence], Target(out)) == [out / "laptop.md"]


def test_committed_boards_are_up_to_date() -> None:
    """`make boards` renders them again."""
    target = Target(ROOT / "leaderboards", ROOT / "docs" / "reproduction.md", ROOT / "README.md")
    assert stale([ROOT / "leaderboards" / "results"], target) == []


def test_an_overview_is_brought_up_to_date_between_its_marks(evidence: Path) -> None:
    text = "before\n<!-- overview of laptop -->\nold\n<!-- end of overview -->\nafter\n"
    (track,) = tracks_of(evidence)
    once = embedded(text, [track], "boards")
    assert "[darcy](boards/laptop.md#darcy)" in once
    assert once.startswith("before\n") and once.endswith("after\n")
    assert "old" not in once and "gsno@compact" in once
    assert embedded(once, [track], "boards") == once
    assert embedded("no marks\n", [track], "") == "no marks\n"
