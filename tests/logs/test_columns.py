"""Tables as people have them: wide, with other decimals, amounts of money, zipped, in folders, with units and times."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import pmbandits as pmb
from pmbandits.logs import Log, ReadSettings, read_log
from pmbandits.logs.log import N_PARTS


def rewards(log: Log) -> dict[str, list[float]]:
    return {arm.name: np.repeat(arm.x, np.round(arm.p * arm.n).astype(int)).tolist() for arm in log.arms}


WANTED = {"north": [1.5, 2.0, 1234.5], "south": [-3.0, 0.25]}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "arm;reward\nnorth;1,5\nnorth;2\nsouth;-3\nsouth;0,25\nnorth;1.234,5\n",
            ReadSettings(decimal=",", thousands="."),
        ),
        ("arm\treward\nnorth\t1.5\nnorth\t2\nsouth\t-3\nsouth\t.25\nnorth\t1,234.5\n", ReadSettings(thousands=",")),
        (
            'arm,reward\nnorth,"€ 1,50"\nnorth,2 €\nsouth,€-3\nsouth,"0,25 €"\nnorth,"€\u00a01.234,50"\n',
            ReadSettings(decimal=",", thousands=".", currency="€"),
        ),
        (
            "arm|reward\nnorth|$1.5\nnorth|$2\nsouth|$-3\nsouth|$0.25\nnorth|$1'234.5\n",
            ReadSettings(thousands="'", currency="$"),
        ),
        ("north,south\n1.5,-3\n2,\n1234.5,0.25\n", ReadSettings(wide=True)),
        (
            "day;north;south;note\n1;1,5;-3;x\n2;2;;y\n3;1234,5;0,25;\n",
            ReadSettings(wide=["north", "south"], decimal=","),
        ),
    ],
    ids=["semicolons", "tabs", "euros", "francs", "wide", "wide, some columns"],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_numbers_are_read_as_they_are_written(text: str, settings: ReadSettings, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / ("log.csv.gz" if zipped else "log.csv")
    raw = text.encode("utf-8")
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    log = read_log(path, settings=settings)
    assert rewards(log) == {name: sorted(values) for name, values in WANTED.items()}
    assert log.rows == log.used == 5 and log.unused_rows_sentence() == ""
    lines = text.strip().split("\n")
    mark = max(",;\t|", key=lines[0].count)
    import csv

    head, *rows = csv.reader(lines, delimiter=mark)
    frame = pd.DataFrame(rows, columns=head)
    assert rewards(read_log(frame, settings=settings)) == rewards(log)
    where = tmp_path / ("log.jsonl.gz" if zipped else "log.jsonl")
    texts = "".join(json.dumps(dict(zip(head, row, strict=True))) + "\n" for row in rows).encode()
    where.write_bytes(gzip.compress(texts) if zipped else texts)
    assert rewards(read_log(where, settings=settings)) == rewards(log)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1,5", "2,25"], r"'1,5' look like decimal commas: say so with decimal=','"),
        (["1.234,5", "2"], "decimal=',' and thousands='.'"),
        (["1,234"], "say which with decimal=',' or thousands=','"),
        (["12 USD"], "amounts of money"),
    ],
)
def test_other_ways_to_write_numbers_are_named_and_not_guessed_where_they_are_mixed(
    cells: list[str], words: str
) -> None:
    frame = pd.DataFrame({"arm": ["a"] * (len(cells) + 1), "reward": [*cells, 1.0]})
    log = read_log(frame)
    assert log.used == 2 - (cells != ["1.234,5", "2"]) and words.replace("\\", "") in log.unused_rows_sentence()
    with pytest.raises(ValueError, match="no usable rewards") as error:
        read_log(pd.DataFrame({"arm": ["a"], "reward": [cells[0]]}), settings=ReadSettings(decimal="."))
    assert words in str(error.value)


@pytest.mark.parametrize("as_frame", [True, False])
@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["(34)", "\u22125", "7-", "- 2", "8"], [-34.0, -5.0, -7.0, -2.0, 8.0], ""),
        (["1,49 %", "(0,5 %)", "\u22122,25%", "0", "3 %"], [1.49, -0.5, -2.25, 0.0, 3.0], "%"),
        (["($1,234.50)", "-$3.25", "$-4.00", "$5", "\u2212$6"], [-1234.5, -3.25, -4.0, 5.0, -6.0], "$"),
    ],
)
def test_negative_numbers_and_percentages_are_read_as_people_write_them(
    cells: list[str], numbers: list[float], unit: str, as_frame: bool, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"team": ["a"] * len(cells), "profit": cells})
    frame.to_csv(tmp_path / "log.csv", index=False)
    log = read_log(frame if as_frame else tmp_path / "log.csv")
    assert (rewards(log), log.measured_in, log.malformed) == ({"a": sorted(numbers)}, unit, {})


def test_a_percent_sign_that_some_numbers_lack_is_not_left_out() -> None:
    log = read_log(pd.DataFrame({"arm": ["a", "a"], "reward": ["12 %", "0.12"]}))
    assert log.used == 1 and "percentages: remove the sign" in log.unused_rows_sentence()


def test_decimal_commas_are_found_where_they_can_mean_nothing_else() -> None:
    log = read_log(pd.DataFrame({"arm": ["a", "b"], "reward": ["1,5", "2"]}))
    assert rewards(log) == {"a": [1.5], "b": [2.0]} and [f.kind for f in log.findings] == ["decimals"]
    assert read_log(pd.DataFrame({"arm": ["a", "b"], "reward": ["1,500", "2"]})).used == 1  # or fifteen hundred


def test_a_declared_way_to_write_numbers_accepts_no_other() -> None:
    settings = ReadSettings(decimal=",", thousands=".")
    frame = pd.DataFrame({"arm": ["a"] * 4, "reward": ["1.5", "1.234", "12.34,5", "1,5"]})
    log = read_log(frame, settings=settings)  # 1.5 is neither 1 1/2 nor 15 here
    assert rewards(log) == {"a": [1.5, 1234.0]} and log.n_malformed == 2
    for wrong in (
        {"decimal": ";"},
        {"thousands": "."},
        {"decimal": ",", "thousands": ","},
        {"currency": "1"},
        {"wide": []},
    ):
        with pytest.raises(ValueError, match="must be"):
            ReadSettings(**wrong)


def test_words_for_nothing_are_missing_rewards_in_every_kind_of_table(tmp_path: Path) -> None:
    cells = ["1", "NaN", "null", "n/a", "", " none "]
    frame = pd.DataFrame({"arm": ["a"] * 6, "reward": cells})
    csv = tmp_path / "log.csv"
    frame.to_csv(csv, index=False)
    lines = tmp_path / "log.jsonl"
    lines.write_text("".join(json.dumps({"arm": "a", "reward": c}) + "\n" for c in cells))
    for data in (frame, csv, lines, pa.table({"arm": ["a"] * 6, "reward": cells})):
        log = read_log(data)
        assert log.used == 1 and log.malformed == {"no reward": 5}


@pytest.mark.parametrize("empty", [False, True])
def test_any_word_is_an_arm_in_columns_of_text(tmp_path: Path, empty: bool) -> None:
    """An arm may be called none, whether or not some other row has no reward."""
    table = pa.table({"arm": ["none", "NA", "b", " "], "reward": [1.0, 2.0, None if empty else 3.0, 4.0]})
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text(f"arm,reward\nnone,1\nNA,2\nb,{'' if empty else 3}\n ,4\n")
    for data in (table, tmp_path / "log.parquet", tmp_path / "log.csv"):
        log = read_log(data)
        assert [arm.name for arm in log.arms] == ["none", "NA"] + (["b"] if not empty else [])
        assert log.malformed == ({"no reward": 1} if empty else {}) | {"no arm": 1}


def test_lists_among_cells_are_malformed_rewards() -> None:
    log = read_log(pa.table({"arm": ["a", "a"], "reward": pa.array([[1.0, 2.0], [3.0, 4.0]])}).append_column(
        "other", pa.array([1.0, 2.0])), settings=ReadSettings(wide=["reward", "other"]))  # fmt: skip
    assert log.used == 2 and log.malformed == {"a reward that is not a number": 2}


def test_rows_with_a_time_but_neither_arm_nor_reward_are_counted_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,arm,reward\n2024-01-01,a,1\n2024-01-02,,\n2024-01-03,,\n2024-01-04,,5\n")
    log = read_log(path)
    assert (log.used, log.empty, log.malformed) == (1, 2, {"no arm": 1})
    assert "2 rows" in log.unused_rows_sentence()


def test_folders_of_parquet_files_and_streams_of_arrow_are_read_like_one_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"arm": rng.choice(["x", "y"], 900), "reward": rng.normal(size=900).round(3)})
    wanted = rewards(read_log(table))
    folder = tmp_path / "lake"
    pads.write_dataset(table, folder, format="parquet", partitioning=["arm"], partitioning_flavor="hive")
    assert rewards(read_log(folder)) == {k: wanted[k] for k in ("x", "y")}
    plain = tmp_path / "plain"
    plain.mkdir()
    for k in range(3):
        pq.write_table(table.slice(300 * k, 300), plain / f"{k}.parquet")
    assert rewards(read_log(str(plain))) == wanted
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
    assert rewards(read_log(reader)) == wanted

    class Result:
        """What DuckDB, polars and ADBC hand out."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    class OlderResult:
        def fetch_record_batch(self) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

    assert rewards(read_log(Result())) == rewards(read_log(OlderResult())) == wanted
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="holds no Parquet files"):
        read_log(empty)


def test_excel_is_read_if_its_reader_is_installed(tmp_path: Path) -> None:
    path = tmp_path / "log.xlsx"
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        path.write_bytes(b"PK")
        with pytest.raises(ValueError, match=r"pmbandits\[tables\].*CSV"):
            read_log(path)
        return
    book = openpyxl.Workbook()
    for row in (("arm", "reward"), ("north", 1.5), ("north", 2), ("south", "x"), (None, None), ("south", -3)):
        book.active.append(row)
    book.save(path)
    log = read_log(path)
    assert rewards(log) == {"north": [1.5, 2.0], "south": [-3.0]}
    assert [str(e) for e in log.examples] == ["row 4: a reward that is not a number (south, x)"] and log.empty == 1
    path.write_bytes(b"no book")
    with pytest.raises(ValueError, match="Excel"):
        read_log(path)


def test_units_stay_together_and_missing_ones_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    unit = [f"u{k}" for k in rng.integers(0, 60, 600)]
    frame = pd.DataFrame({"arm": rng.choice(["a", "b"], 600), "reward": rng.normal(size=600), "user": unit})
    frame.loc[3, "user"] = None
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    for data in (frame, path):
        log = read_log(data, settings=ReadSettings(unit="user"))
        assert log.malformed == {"no unit": 1} and log.kept_rows is not None and log.kept_rows.unit is not None
        assert log.kept_rows.unit.size == log.used == 599
        for u in np.unique(log.kept_rows.unit):
            assert np.unique(log.kept_rows.part[log.kept_rows.unit == u]).size == 1
        assert np.unique(log.kept_rows.part).size == N_PARTS
        assert sum(arm.n for arm in log.arms) == 599
    with pytest.raises(ValueError, match="a dict holds"):
        read_log({"a": [1.0]}, settings=ReadSettings(unit="user"))
    with pytest.raises(ValueError, match="no column 'shop'"):
        read_log(frame, settings=ReadSettings(unit="shop"))


@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-01", "2024-01-15", "2024-02-01", "later"],
        ["2024-03-01T10:00:00Z", "2024-01-15T10:00:00Z", "2024-02-01T00:00:00Z", ""],
        ["3", "1", "2", "x"],
        pd.to_datetime(pd.Series(["2024-03-01", "2024-01-15", "2024-02-01", None])),
    ],
    ids=["dates", "moments", "numbers", "pandas"],
)
def test_times_are_put_in_order_and_unreadable_ones_are_counted(times: Any) -> None:
    frame = pd.DataFrame({"arm": ["a"] * 4, "reward": [3.0, 1.0, 2.0, 9.0], "when": times})
    log = read_log(frame, settings=ReadSettings(time="when"))
    assert log.malformed == {"a time that cannot be read": 1} and log.examples[0].text == str(list(times)[3])
    assert log.kept_rows is not None and log.kept_rows.time is not None
    assert log.kept_rows.reward[np.argsort(log.kept_rows.time)].tolist() == [1.0, 2.0, 3.0]


def test_many_arms_are_read_whole() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"arm": rng.integers(0, 3000, 30_000).astype(str), "reward": rng.normal(size=30_000)})
    log = read_log(frame)
    assert len(log.arms) == frame["arm"].nunique() and sum(a.n for a in log.arms) == 30_000
    means = frame.groupby("arm")["reward"].mean()
    for arm in log.arms[::500]:
        assert arm.x @ arm.p == pytest.approx(means[arm.name])


def test_advice_takes_the_same_options() -> None:
    frame = pd.DataFrame({"A": ["1,5", "2,5", "3"] * 10, "B": ["1", "", "2"] * 10})
    advice = pmb.advise(frame, "mean", wide=True, decimal=",")
    assert advice.mixture == {"A": 1.0} and [a.n for a in advice.arms] == [30, 20]


def test_dates_with_the_day_first_are_read_where_they_are_written_with_points() -> None:
    from pmbandits.logs.periods import parse_times

    one = parse_times(["03.08.2026", "4.8.2026", "04.08.2026 13:30", "31.02.2026", "8/3/2026"])
    two = parse_times(["2026-08-03", "2026-08-04", "2026-08-04T13:30"])
    assert one[:3].tolist() == two.tolist() and np.isnan(one[3:]).all()


@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["1.216,92 €", "1.336,43 €", "986,50 €"], [986.5, 1216.92, 1336.43], "€"),
        (["1,234.5", "1.0"], [1.0, 1234.5], ""),
        (["€ 12", "€ 13"], [12.0, 13.0], "€"),
        (["0,5", "2"], [0.5, 2.0], ""),
    ],
)
def test_a_way_to_write_numbers_that_can_mean_nothing_else_is_found_and_said(
    tmp_path: Path, cells: list[str], numbers: list[float], unit: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm;reward\n" + "".join(f"a;{cell}\n" for cell in cells), encoding="utf-8")
    log = read_log(path)
    assert log.arms[0].x.tolist() == pytest.approx(numbers) and log.measured_in == unit
    assert [finding.kind for finding in log.findings] == ["decimals"]
