"""The first rows of a table, and the guess which columns are meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pmbandits.logs import sniff


@pytest.mark.parametrize(
    ("header", "rows", "arm", "reward", "wide"),
    [
        ("arm,reward", ["a,1", "b,2"], "arm", "reward", False),
        ("user,variant,revenue", ["1,A,0.5", "2,B,3"], "variant", "revenue", False),
        ("day;shop;sold", ["1;north;3", "2;south;4", "3;north;5", "4;south;1"], "shop", "sold", False),
        ("red,green,blue", ["1,2,3", "2,3,4"], None, None, True),
        ("id,group,clicks,note", ["1,x,0,hello", "2,y,1,well", "3,x,1,oh"], "group", "clicks", False),
    ],
)
def test_columns_are_guessed(
    tmp_path: Path, header: str, rows: list[str], arm: str | None, reward: str | None, wide: bool
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join([header, *rows]))
    found = sniff(file)
    assert (found.arm, found.reward, found.wide) == (arm, reward, wide)
    assert found.sure


@pytest.mark.parametrize("header", ["user,day,clicks", "x,y,id"])
def test_where_several_columns_could_be_meant_nothing_is_sure(tmp_path: Path, header: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"{header}\n1,2,3\n4,5,6\n")
    assert not sniff(file).sure


def test_all_kinds_of_files_are_looked_at_alike(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {"arm": ["a", "b", "a"], "reward": [1.5, 2.0, None]}
    (tmp_path / "t.csv").write_text("arm,reward\na,1.5\nb,2.0\na,\n")
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    (tmp_path / "many").mkdir()
    pq.write_table(pa.table(table), tmp_path / "many" / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet", "many"):
        found = sniff(tmp_path / name)
        assert found.columns == ("arm", "reward")
        assert found.rows == (("a", "1.5"), ("b", "2.0"), ("a", ""))


def test_a_damaged_file_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueError, match="damaged"):
        sniff(tmp_path / "t.parquet")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        sniff(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "arms", "dates", "sure", "decimal"),
    [
        ("week,red,blue\n" + "".join(f"{k},{k % 3}.5,{k % 2}\n" for k in range(32, 42)), "red blue", "", True, "."),
        ("when,red,blue\n2026-08-03,1,2\n2026-08-10,2,4\n", "red blue", "when", True, "."),
        ("no,red,blue\n" + "".join(f"{k},{k % 3},{k % 2}\n" for k in range(9)), "red blue", "", True, "."),
        ("user,red,blue\n" + "".join(f"{k},{k % 3},{k % 2}\n" for k in range(9)), "red blue", "", False, "."),
        ("red;blue\n1,5;2\n0;3,25\n", "red blue", "", True, ","),
        ("when;red;blue\n03.08.2026;1,5;2\n10.08.2026;0;3,25\n", "red blue", "when", True, ","),
        ("red;blue\n1,500;2\n0;3\n", "red blue", "", True, "."),  # one and a half, or fifteen hundred
        ("red;blue\n1.5;2,5\n", "red blue", "", True, "."),
    ],
)
def test_in_a_wide_table_dates_and_counters_are_no_arms(
    tmp_path: Path, text: str, arms: str, dates: str, sure: bool, decimal: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    found = sniff(file)
    assert found.wide and (" ".join(found.arms), found.sure, found.decimal) == (arms, sure, decimal)
    assert " ".join(name for name, is_date in zip(found.columns, found.dates, strict=True) if is_date) == dates


FUNDS = [(k * 7919 % 101 - 50, k * 104729 % 97 - 40) for k in range(40)]


@pytest.mark.parametrize("label", [lambda k: f"{1 + k % 12:02}/{2016 + k // 12}", lambda k: f"month {k}"])
def test_measured_numbers_are_no_names_and_columns_beside_months_are_arms(
    tmp_path: Path, label: Callable[[int], str]
) -> None:
    file = tmp_path / "t.csv"
    rows = [f"{label(k)},{a / 10},{b / 10},{(a + b) / 10:.1f}" for k, (a, b) in enumerate(FUNDS)]
    file.write_text("\n".join(["when,Bond fund,Stock fund,Total", *rows]))
    found = sniff(file)
    assert (found.arm, found.wide, found.sure) == (None, True, True)
    assert (found.arms, found.totals) == (("Bond fund", "Stock fund"), ("Total",))


@pytest.mark.parametrize("header", ["a,b", "when,revenue,visitors", "when,cost,profit"])
def test_columns_of_different_quantities_are_not_taken_as_arms(tmp_path: Path, header: str) -> None:
    file = tmp_path / "t.csv"
    rows = [
        f"2026-01-{1 + k % 28:02},{50 + a / 10},{b * 20 if 'vis' in header else b / 5}"
        for k, (a, b) in enumerate(FUNDS)
    ]
    file.write_text("\n".join([header, *(row.partition(",")[2] if header == "a,b" else row for row in rows)]))
    assert sniff(file).wide and not sniff(file).sure


@pytest.mark.parametrize(
    ("header", "reward", "sure"),
    [
        ("baseline_score,pain_score_week8", "pain_score_week8", False),
        ("score_before,score_after", "score_after", False),
        ("pre,post", "post", False),
        ("revenue,revenue_last_year", "revenue", False),
        ("order_id,order_value", "order_value", True),
    ],
)
def test_what_was_before_is_not_the_result(tmp_path: Path, header: str, reward: str, sure: bool) -> None:
    file = tmp_path / "t.csv"
    rows = [f"{'xy'[k % 2]},{k if 'id' in header else a / 10},{b / 10}" for k, (a, b) in enumerate(FUNDS)]
    file.write_text("\n".join([f"treatment,{header}", *rows]))
    assert (sniff(file).reward, sniff(file).reward_sure) == (reward, sure)


@pytest.mark.parametrize(
    ("header", "row", "arm", "reward"),
    [
        ("subject,drug,visit,seizures", lambda k: (k // 4, "ab"[k // 8 % 2], 1 + k % 4, k * k % 7), "drug", "seizures"),
        ("subject,drug,visit", lambda k: (k // 4, "ab"[k // 8 % 2], 1 + k % 4), "drug", None),
        ("horTh,size,time,cens", lambda k: ("yn"[k % 2], k * 7 % 11, k * k % 97, k % 3 % 2), "horTh", "time"),
        ("inst,time,status,sex", lambda k: (k * 5 % 18, k * k % 97, 1 + k % 5 % 2, 1 + k % 2), "sex", "time"),
    ],
)  # fmt: skip
def test_ids_and_visits_are_never_the_result_and_survival_data_are_seen(
    tmp_path: Path, header: str, row: Callable[[int], tuple[object, ...]], arm: str, reward: str | None
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join([header, *(",".join(map(str, row(k))) for k in range(96))]))
    found = sniff(file)
    assert (found.arm, found.reward) == (arm, reward)
    assert not {"subject", "visit"} & set(found.reward_candidates)


DAYS = [f"{3 + k * 7 % 5}.{k % 10}" for k in range(60)]


@pytest.mark.parametrize("word", ["n/a", "NA", "N/A", "?", "tbd", "-", "null", "none", "#N/A", "nan"])
def test_a_few_other_cells_do_not_hide_a_column_of_numbers_or_dates(tmp_path: Path, word: str) -> None:
    rows = [f"{'ab'[k % 2]},{1 + k % 28:02}.07.2026,{days}" for k, days in enumerate(DAYS)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["supplier,ordered,result", f"a,{word},4.5", *rows, f"b,01.08.2026,{word}"]))
    found = sniff(file)
    assert (found.reward, found.numeric, found.dates) == ("result", (False, False, True), (False, True, False))


def test_a_column_with_many_texts_is_none_of_numbers(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["supplier,size", *(f"{'ab'[k % 2]},{'large' if k % 8 == 0 else k}" for k in range(60))]))
    assert sniff(file).reward is None


@pytest.mark.parametrize(
    "number", [lambda k: 10_000 + k + k // 9, lambda k: 500 + 37 * k, lambda k: 900 - k, lambda k: 1000 + k * 7 % 60]
)
def test_numbers_that_only_say_which_row_it_is_are_never_the_result(
    tmp_path: Path, number: Callable[[int], int]
) -> None:
    file = tmp_path / "t.csv"
    rows = [(number(k), "ab"[k % 2], days) for k, days in enumerate(DAYS)]
    file.write_text("\n".join(["Order;Supplier;Comment", *(f"{n};{arm};well" for n, arm, _ in rows)]))
    assert sniff(file).reward is None
    file.write_text("\n".join(["Ref;Supplier;Quality", *(f"{n};{arm};{days}" for n, arm, days in rows)]))
    found = sniff(file)
    assert found.reward == "Quality" and found.sure


def test_how_numbers_are_written_is_seen_in_the_column_that_was_named(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("supplier;revenue;days\n" + "a;1.5;3,4\nb;2.5;?\n" * 9)
    assert (sniff(file).decimal, sniff(file, reward="Days").decimal) == (".", ",")
