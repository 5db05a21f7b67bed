"""One outcome is a day, a week or a month: the averages are those of pandas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb
from pmbandits.logs import Log, ReadSettings, read_log
from pmbandits.logs.periods import parse_times

RULES = {"day": "D", "week": "W-SUN", "month": "M"}  # pandas names a week by the day on which it ends


def _table(rows: int = 3_000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    when = pd.Timestamp("2025-12-20") + pd.to_timedelta(rng.integers(0, 150 * 86_400, rows), unit="s")
    paid = np.where(rng.random(rows) < 0.1, rng.lognormal(3, 1, rows), 0.0).round(2)
    return pd.DataFrame({"variant": rng.choice(["a", "b", "c"], rows), "when": when, "paid": paid})


def _averages(log: Log) -> dict[str, list[float]]:
    return {arm.name: np.repeat(arm.x, np.rint(arm.p * arm.n).astype(int)).tolist() for arm in log.arms}


@pytest.mark.parametrize("per", RULES)
@pytest.mark.parametrize("kind", ["csv", "frame", "parquet", "jsonl"])
def test_averages_of_periods_are_those_of_pandas(tmp_path: Path, per: str, kind: str) -> None:
    table = _table()
    data: object = table
    if kind == "csv":
        table.to_csv(data := tmp_path / "t.csv", index=False)
    elif kind == "parquet":
        table.to_parquet(data := tmp_path / "t.parquet")
    elif kind == "jsonl":
        table.assign(when=table.when.astype(str)).to_json(data := tmp_path / "t.jsonl", orient="records", lines=True)
    log = read_log(data, settings=ReadSettings(arm="variant", reward="paid", time="when", per=per))
    expected = table.groupby(["variant", table.when.dt.to_period(RULES[per])]).paid.mean()
    found = _averages(log)
    for name in "abc":
        np.testing.assert_allclose(sorted(found[name]), np.sort(expected[name].to_numpy()), atol=1e-12)
    assert log.used == len(table) and log.n_outcomes == len(expected) and log.per == per


def test_numbers_are_periods_of_their_own() -> None:
    table = pd.DataFrame({"arm": ["a", "b", "a", "a"], "reward": [1.0, 5.0, 3.0, 8.0], "week": [31, 31, 31, 32]})
    log = read_log(table, settings=ReadSettings(time="week", per="time"))
    assert _averages(log) == {"a": [2.0, 8.0], "b": [5.0]}
    with pytest.raises(ValueError, match=r"per='time'"):
        read_log(table, settings=ReadSettings(time="week", per="week"))


def test_mistakes_get_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"'day', 'week', 'month', 'time', got 'year'"):
        ReadSettings(time="when", per="year")
    with pytest.raises(ValueError, match=r"per='week' needs .* time="):
        ReadSettings(per="week")
    with pytest.raises(ValueError, match="unit or per"):
        ReadSettings(per="week", time="when", unit="who")


def test_advice_is_that_on_a_table_of_averages(tmp_path: Path) -> None:
    table = _table()
    weekly = table.groupby(["variant", table.when.dt.to_period("W-SUN")]).paid.mean().reset_index()
    found = pmb.advise(table, "lower_cvar(0.2)", arm="variant", reward="paid", time="when", per="week")
    expected = pmb.advise({name: weekly[weekly.variant == name].paid for name in "abc"}, "lower_cvar(0.2)")
    assert found.apparent == pytest.approx(expected.apparent) and found.best_arm == expected.best_arm
    assert found.log.per == "week" and any("one week" in note for note in found.notes)
    assert "per='week'" in found.repeat


def test_a_declared_range_of_rows_is_one_of_averages() -> None:
    table = _table().assign(paid=lambda t: (t.paid > 0).astype(int))
    found = pmb.advise(table, "mean", arm="variant", reward="paid", time="when", per="week", support=pmb.Binary())
    assert found.support == pmb.Interval(0, 1)


def test_some_columns_of_a_wide_table_are_arms_and_cells_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"week": [32, 33, 34], "red": [1, 2, "?"], "blue, dark": [3, 4, 5]})
    log = read_log(table, settings=ReadSettings(wide=["red", "blue, dark"]))
    assert [arm.name for arm in log.arms] == ["red", "blue, dark"]
    assert log.unused_rows_sentence() == "1 of 6 cells could not be used: 1 with a reward that is not a number."


def test_the_command_knows_periods_and_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from pmbandits.cli.app import app

    _table().to_csv(tmp_path / "t.csv", index=False)
    words = ["advise", str(tmp_path / "t.csv"), "--arm", "variant", "--reward", "paid", "--time", "when", "--json"]
    app([*words, "--metric", "mean", "--per", "week"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert found["rows"]["used"] == 3_000 and sum(arm["rewards"] for arm in found["arms"]) < 80
    (tmp_path / "w.csv").write_text("week,red,'blue'\n" + "".join(f"{k},{k % 3},{k % 2}\n" for k in range(40)))
    command = ["advise", str(tmp_path / "w.csv"), "--column", "red", "--column", "'blue'", "--metric", "mean", "--json"]
    app(command, standalone_mode=False)
    assert set(json.loads(capsys.readouterr().out)["mixture"]) == {"red"}


def test_a_month_and_a_year_are_a_time() -> None:
    months = parse_times(["12/2015", "01/2016", "2/2016", "13/2016"]) / 86_400_000_000
    assert np.diff(months[:3]).tolist() == [31.0, 31.0] and np.isnan(months[3])
