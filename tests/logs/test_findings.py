"""What is noticed about a table before any answer: what was seen, what was done, and how to change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb
from pmbandits.logs import Log, ReadSettings, read_log

ROWS = [("north", 3.5), ("south", 4.25), ("north", 1.5), ("south", 2.0)] * 6


def csv(tmp_path: Path, rows: list[Any], head: str = "arm,reward", name: str = "log.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def kinds(log: Log) -> list[str]:
    return [finding.kind for finding in log.findings]


def test_a_clean_table_has_no_findings(tmp_path: Path) -> None:
    assert read_log(csv(tmp_path, ROWS)).findings == ()
    assert read_log({"a": [0.0, 1.0, 2.0], "b": [1.0, 3.0, 0.5]}).findings == ()


def test_copies_of_rows_are_named_where_a_column_tells_rows_apart(tmp_path: Path) -> None:
    rows = [(k, *row) for k, row in enumerate(ROWS)]
    path = csv(tmp_path, [*rows, *rows[:5]], "visit,arm,reward")
    log = read_log(path)
    assert kinds(log) == ["duplicates"] and log.used == 29 and "5 of 29" in log.findings[0].seen
    assert "“visit”" in log.findings[0].seen and "--distinct" in log.findings[0].change
    once = read_log(path, settings=ReadSettings(distinct=True))
    assert once.used == 24 and once.findings == ()
    assert [(a.name, a.n) for a in once.arms] == [("north", 12), ("south", 12)]


def test_equal_rows_without_such_a_column_are_no_copies(tmp_path: Path) -> None:
    assert "duplicates" not in kinds(read_log(csv(tmp_path, ROWS)))


def test_nines_far_from_all_other_rewards_stand_for_not_known(tmp_path: Path) -> None:
    path = csv(tmp_path, [*ROWS, ("north", 999999), ("south", 999999)])
    log = read_log(path)
    assert (
        kinds(log) == ["sentinels"]
        and log.used == 24
        and "999999 stands 2 times, far away from" in log.findings[0].seen
    )
    assert read_log(path, settings=ReadSettings(missing=())).used == 26
    assert (
        read_log(path, settings=ReadSettings(missing=3.5)).used == 20
    )  # what the user says is taken, and nothing else
    assert read_log({"a": [1.0, 2.0, -999.0], "b": [0.5, -999.0, 3.0]}).used == 4
    assert read_log(path, loss=True).used == 24


def test_many_rewards_that_are_no_numbers_come_first(tmp_path: Path) -> None:
    rows = [("north", 1.5), ("south", 2.5), ("north", 0.5), ("south", 2.0)] * 100
    few = read_log(csv(tmp_path, [*rows, ("south", "late"), ("south", "lost")]))
    assert few.findings == () and few.n_malformed == 2
    found = read_log(csv(tmp_path, [*rows, *[("south", "late")] * 3])).findings[0]
    assert found.kind == "unreadable" and found.comes_first
    assert found.seen == (
        "3 of 403 rows have a result that is no number, such as “late”; most often south (1.5 % of its rows)."
    )
    advice = pmb.advise(csv(tmp_path, [*rows, *[("south", "late")] * 5]))
    assert str(advice).startswith("5 of 405 rows have a result that is no number, such as “late”")


def test_columns_that_sum_up_the_others_are_no_arms_of_a_wide_table(tmp_path: Path) -> None:
    rows = [(f"Jan {k}", k * 7 % 5, k * 3 % 7, k * 7 % 5 + k * 3 % 7) for k in range(30)]
    path = csv(tmp_path, rows, "month,North,South,Total")
    for settings in (ReadSettings(wide=True), ReadSettings()):
        log = read_log(path, settings=settings)
        assert [arm.name for arm in log.arms] == ["North", "South"] and log.n_malformed == 0
        assert log.findings[0].done == "Left out: month, Total (it sums up the others)."
        assert log.findings[0].comes_first == (settings.wide is False)
    named = read_log(path, settings=ReadSettings(wide=["North", "Total"]))
    assert [arm.name for arm in named.arms] == ["North", "Total"]
    path = csv(tmp_path, [(k, k * 7 % 50, k * k * k) for k in range(30)], "size,North,South")
    with pytest.raises(ValueError, match="If each column is one of the things to choose from: --wide"):
        read_log(path)


@pytest.mark.parametrize("rewards", [[1.0, 2.0, 999.0], [500.0, 2.0, 999.0, 999.0], [1.0, 2.0, 1000.0, 1000.0]])
def test_a_number_that_may_be_a_reward_is_kept(rewards: list[float]) -> None:
    log = read_log({"a": rewards, "b": [1.0, 2.0]})
    assert log.used == len(rewards) + 2 and log.findings == ()


def test_names_that_differ_in_capitals_spaces_or_signs_are_named(tmp_path: Path) -> None:
    path = csv(tmp_path, [("New York", 1), ("new york", 2), ("NEW_YORK", 3), ("Rome", 4)])
    log = read_log(path)
    assert kinds(log) == ["spelling"] and len(log.arms) == 4
    merged = read_log(path, settings=ReadSettings(same_names=True))
    assert [(a.name, a.n) for a in merged.arms] == [("New York", 3), ("Rome", 1)] and merged.findings == ()


def test_dates_and_ids_as_arms_are_named(tmp_path: Path) -> None:
    days = [(f"2026-03-{k:02d}", k) for k in range(1, 25) for _ in range(3)]
    assert kinds(read_log(csv(tmp_path, days))) == ["dates"]
    assert kinds(read_log(csv(tmp_path, [(f"user{k}", k % 7) for k in range(40)]))) == ["ids"]
    assert kinds(read_log(csv(tmp_path, [(f"shop{k % 15}", k % 7) for k in range(60)]))) == []


def test_rewards_that_never_vary_are_named() -> None:
    log = read_log({"a": [3.0] * 8, "b": [1.0, 2.0, 3.0]})
    assert kinds(log) == ["constant"] and "a (always 3)" in log.findings[0].seen
    log = read_log({"a": [5.0] * 8, "b": [5.0] * 6})
    assert log.findings[0].seen == "All 14 rewards are 5."
    assert kinds(read_log({"a": [3.0] * 4, "b": [1.0, 2.0]})) == []  # four times the same is no wonder


def test_an_arm_that_vanished_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [(k, "ab"[int(rng.integers(2))], rng.integers(9)) for k in range(60)]
    rows += [(k, "a", rng.integers(9)) for k in range(60, 140)]
    log = read_log(csv(tmp_path, rows, "day,arm,reward"), settings=ReadSettings(time="day"))
    assert kinds(log) == ["part of the time"] and "b (no rows in the last 5" in log.findings[0].seen
    late = [(139 - day, *rest) for day, *rest in rows]
    log = read_log(csv(tmp_path, late, "day,arm,reward"), settings=ReadSettings(time="day"))
    assert kinds(log) == ["part of the time"] and "b (no rows in the first 5" in log.findings[0].seen
    rare = [(k, "ab"[k % 25 == 3], rng.integers(9)) for k in range(200)]  # its last row is nearly the last of all
    assert kinds(read_log(csv(tmp_path, rare, "day,arm,reward"), settings=ReadSettings(time="day"))) == []


@pytest.mark.parametrize("above", [["Sales report"], ["Sales, March 2026", ""], ["Report,,", ",,", "made by Ann,,"]])
def test_titles_above_the_header_are_skipped(above: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*above, "day,arm,reward", *(f"{k},a,{k}" for k in range(5)), "7,b,oops"]) + "\n")
    log = read_log(path)
    assert kinds(log) == ["titles"] and log.used == 5 and f"{len(above)} line" in log.findings[0].seen
    assert log.examples[0].where == f"line {len(above) + 7}"


@pytest.mark.parametrize(
    "text", ["a,b,c\nx,1,2,3\ny,1,2,3\n", "arm\na\nb\n", "2019,2020\n1,2\n3,4\n", "arm,reward\na,1\nb\n"]
)
def test_a_header_is_not_taken_for_a_title(text: str, tmp_path: Path) -> None:
    from pmbandits.logs.files import read_header

    path = tmp_path / "log.csv"
    path.write_text(text)
    assert read_header(path)[::2] == (text.split("\n")[0].split(","), 0)


def test_other_sheets_of_a_workbook_are_named_and_can_be_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "About"
    book.active.append(["Made by Ann"])
    for title, shift in (("March", 0), ("April", 10)):
        sheet = book.create_sheet(title)
        sheet.append([f"Results of {title}"])
        sheet.append(["arm", "reward"])
        for name, value in ROWS:
            sheet.append([name, value + shift])
    book.save(tmp_path / "log.xlsx")
    log = read_log(tmp_path / "log.xlsx")
    assert sorted(kinds(log)) == ["sheets", "titles"] and float(log.arms[0].x[0]) == 1.5
    said = next(f for f in log.findings if f.kind == "sheets")
    assert "“March” was read" in said.done and "--sheet About" in said.change
    april = read_log(tmp_path / "log.xlsx", settings=ReadSettings(sheet="April"))
    assert float(april.arms[0].x[0]) == 11.5 and kinds(april) == ["titles"]
    with pytest.raises(ValueError, match="no sheet 'May'; it has: About, March, April"):
        read_log(tmp_path / "log.xlsx", settings=ReadSettings(sheet="May"))


def test_true_and_false_are_one_and_zero_in_every_kind_of_table(tmp_path: Path) -> None:
    path = csv(tmp_path, [("a", "True"), ("a", "FALSE"), ("b", "true"), ("b", "maybe")])
    log = read_log(path)
    assert [a.x.tolist() for a in log.arms] == [[0.0, 1.0], [1.0]] and log.n_malformed == 1
    assert [a.x.tolist() for a in read_log({"a": ["True", False], "b": [True]}).arms] == [[0.0, 1.0], [1.0]]


# ---- columns that were not named -------------------------------------------------------------------------


def test_units_that_repeat_and_dates_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [(f"2026-03-{1 + k % 28:02d}", f"u{k % 30}", "ab"[k % 2], rng.integers(9)) for k in range(120)]
    path = csv(tmp_path, rows, "date,user_id,arm,reward")
    log = read_log(path)
    assert kinds(log) == ["units", "times"]
    assert "“user_id” repeats (30 in 120 rows)" in log.findings[0].seen and "--unit user_id" in log.findings[0].change
    assert "--time date" in log.findings[1].change
    assert kinds(read_log(path, settings=ReadSettings(unit="user_id", time="date"))) == []
    pd = pytest.importorskip("pandas")
    assert kinds(read_log(pd.read_csv(path))) == ["units", "times"]
    once = [(f"2026-03-{1 + k % 28:02d}", f"u{k}", *rest) for k, (_, _, *rest) in enumerate(rows)]
    assert kinds(read_log(csv(tmp_path, once, "date,user_id,arm,reward"))) == ["times"]


def test_arms_that_were_tried_in_different_periods_are_named_also_without_a_time_column(tmp_path: Path) -> None:
    rows = [(f"20{year:02d}-0{month}-01", name, (year + month) % 5) for year in range(1, 11) for month in range(1, 10)
            for name in ("old", "new") if name == "old" or year > 5]  # fmt: skip
    found = read_log(csv(tmp_path, rows, "date,arm,reward")).findings
    assert [f.kind for f in found] == ["times", "part of the time"] and "new (no rows in the first" in found[1].seen


def test_files_that_are_too_large_to_look_for_copies_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pmbandits.logs import whole_table

    monkeypatch.setattr(whole_table, "_LARGEST_FILE", 100)
    assert kinds(read_log(csv(tmp_path, ROWS))) == ["copies not checked"]


@pytest.mark.parametrize("name", ["Total", "SUM", "Summe:", "Gesamt", "grand total"])
def test_a_row_for_the_sum_of_all_others_is_left_out(tmp_path: Path, name: str) -> None:
    total = sum(value for _, value in ROWS)
    log = read_log(csv(tmp_path, [*ROWS, (name, 1.1 * total)]))
    assert [arm.name for arm in log.arms] == ["north", "south"] and log.used == len(ROWS)
    assert kinds(log) == ["totals"] and f"“{name}”" in log.findings[0].seen
    timed = [(f"2026-08-{1 + k:02}", *row) for k, row in enumerate([*ROWS, (name, total)])]
    rows = read_log(csv(tmp_path, timed, "day,arm,reward"), settings=ReadSettings(time="day")).kept_rows
    assert rows is not None and rows.arm.max() == 1 and rows.reward.sum() == pytest.approx(total)


def test_other_arms_with_such_a_name_or_value_are_kept(tmp_path: Path) -> None:
    total = sum(value for _, value in ROWS)
    for more in ([("Total", 3.0)], [("Total", total)] * 2, [("Totalis", total)], [("Total", -total)]):
        assert len(read_log(csv(tmp_path, [*ROWS, *more])).arms) == 3


def test_a_row_has_one_number_also_where_copies_are_left_out(tmp_path: Path) -> None:
    rows = [(k, *row) for k, row in enumerate(ROWS)]
    texts = ["Sales 2026", "visit,arm,reward", *(",".join(map(str, row)) for row in [*rows, *rows[:5]])]
    texts.insert(4, "7,north")
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*texts, texts[-1], "77,south,?"]) + "\n")
    every, once = read_log(path), read_log(path, settings=ReadSettings(distinct=True))
    assert [e.where for e in every.examples] == ["line 5", f"line {len(texts) + 2}"]
    assert once.examples == every.examples and once.malformed == every.malformed
    assert (every.rows, once.rows, once.used) == (32, 26, 24)


def test_a_column_of_chances_is_named() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"arm": ["a", "b"] * 30, "reward": rng.normal(size=60), "p": rng.uniform(0.1, 0.9, 60)})
    found = [f for f in read_log(table).findings if f.kind == "propensities"]
    assert len(found) == 1 and "--propensity p" in found[0].change
    assert not [f for f in read_log(table.assign(p=5.0)).findings if f.kind == "propensities"]


@pytest.mark.parametrize(("correlation", "found"), [(-0.6, True), (0.6, False)])
def test_columns_that_move_against_each_other_are_not_independent(correlation: float, found: bool) -> None:
    rng = np.random.default_rng(4)
    values = rng.multivariate_normal([0, 3], [[1, correlation], [correlation, 1]], 80)
    table = pd.DataFrame({"week": np.arange(80), "A": values[:, 0], "B": values[:, 1]})
    log = read_log(table, settings=ReadSettings(wide=["A", "B"]))
    units = [finding for finding in log.findings if finding.kind == "units"]
    assert bool(units) is found
    if found:
        rho = pd.Series(values[:, 0]).corr(pd.Series(values[:, 1]), method="spearman")
        assert f"−{-rho:.2f}" in units[0].seen and "--unit week" in units[0].change
    assert not read_log(table, settings=ReadSettings(wide=["A", "B"], unit="week")).findings


def test_arms_of_different_times_are_seen_among_the_rows_that_conditions_leave() -> None:
    days = pd.date_range("2026-01-01", periods=300).astype(str)
    table = pd.DataFrame({"arm": np.repeat(["a", "b"], 300), "day": np.r_[days, days], "reward": np.arange(600) % 7})
    table["region"] = np.where((table["arm"] == "a") == (np.arange(600) % 300 < 150), "N", "S")
    assert "part of the time" not in kinds(read_log(table))
    for where, found in (("region == N", True), ("reward >= 1", False)):
        assert ("part of the time" in kinds(read_log(table, settings=ReadSettings(where=where)))) is found
