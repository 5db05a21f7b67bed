"""Which rows of a table are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from pmbandits.logs import ReadSettings, read_log


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    lines = [f"2026-03-{k:02d},{'DE' if k % 2 else 'FR'},{k},{'ab'[k % 3 == 0]},{k}" for k in range(1, 21)]
    path.write_text("\n".join(["day,country,age,arm,reward", *lines, "2026-03-21,DE,x,b,oops"]) + "\n")
    return path


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("country == de", [k for k in range(1, 21) if k % 2]),
        ("country != 'DE'", [k for k in range(1, 21) if not k % 2]),
        ("age >= 18", [18, 19, 20]),
        (["age < 10", "country = FR"], [2, 4, 6, 8]),
        ("age > 3; age <= 5", [4, 5]),
        ("day >= 2026-03-15", list(range(15, 21))),
        ("arm == b", [3, 6, 9, 12, 15, 18]),
    ],
)
def test_rows_for_which_a_condition_does_not_hold_are_left_out(
    table: Path, where: str | list[str], kept: list[int]
) -> None:
    log = read_log(table, settings=ReadSettings(where=where))
    assert sorted(x for arm in log.arms for x in arm.x.tolist()) == kept
    assert [f.kind for f in log.findings] == ["times", "conditions"]  # the table has dates
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(table)
    again = read_log(frame, settings=ReadSettings(where=where))
    assert sorted(x for arm in again.arms for x in arm.x.tolist()) == kept


def test_since_needs_a_column_that_says_when(table: Path, tmp_path: Path) -> None:
    log = read_log(table, settings=ReadSettings(since="2026-03-19"))
    assert sorted(x for arm in log.arms for x in arm.x.tolist()) == [19, 20] and log.kept_rows is None
    assert log.examples[0].where == "line 22"
    other = tmp_path / "other.csv"
    other.write_text("arm,reward\na,1\nb,2\n")
    with pytest.raises(ValueError, match="--time NAME; no column has dates"):
        read_log(other, settings=ReadSettings(since="2026-03-19"))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("country", "column == value"),
        ("country > DE", "neither a number nor a date"),
        ("town == X", "no column 'town'"),
    ],
)
def test_a_condition_that_cannot_be_read_gets_one_sentence(table: Path, where: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_log(table, settings=ReadSettings(where=where))
