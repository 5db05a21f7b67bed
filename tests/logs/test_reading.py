"""Reading logs: every row is used or accounted for, whatever the format."""

from __future__ import annotations

import json
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import pmbandits as pmb
from pmbandits.logs import Log, ReadSettings, files, log, read_log, read_samples, summary


def same(one: Log, two: Log) -> None:
    """The same arms with the same rewards in the same random parts."""
    assert [(a.name, a.n, a.error) for a in one.arms] == [(a.name, a.n, a.error) for a in two.arms]
    for a, b in zip(one.arms, two.arms, strict=True):
        assert np.array_equal(a.x, b.x) and np.allclose(a.p, b.p, rtol=1e-12)
        assert np.array_equal(a.counts, b.counts)


def rows(n: int = 5000, seed: int = 0) -> tuple[list[str], list[float]]:
    rng = np.random.default_rng(seed)
    return [f"arm {k}" for k in rng.integers(0, 4, n)], np.round(rng.normal(size=n), 3).tolist()


def by_arm(arms: list[str], rewards: list[float]) -> dict[str, list[float]]:
    out: dict[str, list[float]] = {}
    for arm, reward in zip(arms, rewards, strict=True):
        out.setdefault(arm, []).append(reward)
    return out


def write(path: Path, arms: list[Any], rewards: list[Any]) -> Path:
    if path.suffix == ".csv":
        path.write_text("arm,reward\n" + "".join(f"{a},{r}\n" for a, r in zip(arms, rewards, strict=True)))
    elif path.suffix == ".tsv":
        path.write_text("x\treward\tarm\n" + "".join(f"0\t{r}\t{a}\n" for a, r in zip(arms, rewards, strict=True)))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"arm": arms, "reward": rewards}), path, row_group_size=700)
    else:
        lines = (json.dumps({"arm": a, "reward": r}) for a, r in zip(arms, rewards, strict=True))
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl", "pandas", "arrow"])
def test_every_format_in_small_pieces_gives_what_memory_gives(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 4096)
    monkeypatch.setattr(files, "_ROWS", 512)
    monkeypatch.setattr(summary, "_BUFFER", 300)
    arms, rewards = rows()
    data: Any
    if kind == "pandas":
        data = pd.DataFrame({"arm": arms, "reward": rewards})
    elif kind == "arrow":
        data = pa.table({"arm": arms, "reward": rewards})
    else:
        data = write(tmp_path / f"log.{kind}", arms, rewards)
    log = read_log(data, seed=3)
    assert log.rows == log.used == 5000 and log.n_malformed == 0 and log.unused_rows_sentence() == ""
    same(log, read_log(by_arm(arms, rewards), seed=3))


def test_summaries_are_the_same_in_pieces_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_BUFFER", 256), ("_MOST_EXACT", 100), ("_PIECE", 50), ("_SIZE", 64)):
        monkeypatch.setattr(summary, name, value)
    monkeypatch.setattr(files, "_BLOCK", 4096)
    arms, rewards = rows()
    log = read_log(write(tmp_path / "log.csv", arms, rewards))
    assert all(arm.error > 0.0 for arm in log.arms)
    for arm in log.arms:  # the stated error holds
        exact = np.sort(by_arm(arms, rewards)[arm.name])
        places = np.linspace(-3, 3, 101)
        kept = np.concatenate(([0.0], np.cumsum(arm.p)))[np.searchsorted(arm.x, places, side="right")]
        assert np.abs(kept - np.searchsorted(exact, places, side="right") / arm.n).max() <= arm.error


def test_parts_are_of_one_size_differ_with_the_seed_and_make_up_the_arm() -> None:
    data = {"a": list(range(101)), "b": list(range(40))}
    one, two = read_log(data, seed=1), read_log(data, seed=2)
    for arm in one.arms:
        sizes = arm.counts.sum(axis=0)
        assert sizes.sum() == arm.n and sizes.max() - sizes.min() <= 1
        some, rest = arm.select_parts([0, 3, 5]), arm.select_parts([1, 2, 4, 6, 7])
        assert np.array_equal(np.sort(np.concatenate((some.x, rest.x))), arm.x)
        assert some.p.sum() == pytest.approx(1.0) and some.n + rest.n == arm.n
    assert not np.array_equal(one.arms[0].counts, two.arms[0].counts)
    low = np.mean([read_log(data, seed=s).arms[0].select_parts([0, 1, 2, 3]).x.mean() for s in range(60)])
    assert low == pytest.approx(50, abs=4 * 29 / np.sqrt(51 * 60))  # no part gets the early rewards


MESSY = b"""\xef\xbb\xbfArm , Reward,note
a,1,z
b

c,2,3,4
"x,y",  4,1
,5,
a,,
a,nan,
a,foo,
a,-inf,
a,2.5,
"a ",1e1,

"""


def test_malformed_rows_of_a_csv_are_counted_by_reason_and_shown_by_line(tmp_path: Path) -> None:
    path = tmp_path / "messy.csv"
    path.write_bytes(MESSY)
    log = read_log(path)
    assert {a.name: a.n for a in log.arms} == {"a": 3, "x,y": 1}
    assert (log.rows, log.used, log.empty, log.n_malformed) == (13, 4, 2, 7)
    assert log.malformed == {
        "a wrong number of columns": 2,
        "no arm": 1,
        "no reward": 2,
        "a reward that is not a number": 1,
        "an infinite reward": 1,
    }
    lines = [line.split(b",")[0] for line in MESSY.split(b"\n")]
    assert [str(bad).split(":")[0] for bad in log.examples] == [f"line {k}" for k in (3, 5, 7, 8, 9, 10, 11)]
    assert lines[2] == b"b" and lines[4] == b"c"  # lines 3 and 5 of the file
    assert "7 of 13 rows" in log.unused_rows_sentence() and "2 rows" in log.unused_rows_sentence()
    with pytest.raises(ValueError, match=r" line 3: "):
        read_log(path, strict=True)
    assert "line 10" in str(pmb.advise(path))


def test_line_numbers_stay_right_across_pieces_and_only_the_first_ten_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 1000)
    bad = set(range(50, 3000, 37))
    text = ["arm,reward"]
    text += [
        "broken" if line in bad and line % 2 else "a,oops" if line in bad else f"a,{line}" for line in range(2, 3001)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(text) + "\n")
    log = read_log(path)
    assert log.n_malformed == len(bad) and log.used == 2999 - len(bad)
    assert [e.where for e in log.examples] == [f"line {line}" for line in sorted(bad)[:10]]


@given(
    cells=some.lists(
        some.tuples(
            some.sampled_from(["a", "b", "", " c "]), some.sampled_from(["1", "2.5", "-3e2", "", "x", "nan", "inf"])
        ),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=40, deadline=None)
def test_every_row_of_any_file_is_used_or_accounted_for(
    cells: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("arm,reward\n" + "".join(f"{a},{r}\n" for a, r in cells))
    good = [(a.strip(), float(r)) for a, r in cells if a.strip() and r in ("1", "2.5", "-3e2")]
    if not good:
        with pytest.raises(ValueError, match="no usable rewards"):
            read_log(path)
        return
    log = read_log(path)
    assert log.rows == len(cells) == log.used + log.empty + log.n_malformed
    assert log.used == len(good)
    for arm in log.arms:
        assert arm.x @ arm.p == pytest.approx(np.mean([r for a, r in good if a == arm.name]))


def test_malformed_rows_of_json_lines_parquet_frames_and_dicts_are_found_too(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"arm": "a", "reward": 1}\nnot json\n\n{"arm": null, "reward": 2}\n{"arm": "a", "reward": "x"}\n')
    log = read_log(path)
    assert [str(e).split(" (")[0] for e in log.examples] == [
        "line 2: no JSON object",
        "line 4: no arm",
        "line 5: a reward that is not a number",
    ]
    assert (log.rows, log.used, log.empty) == (5, 1, 1)
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table({"arm": ["a", None, "b", "b"], "reward": [1.0, 2.0, None, float("inf")]}), file)
    log = read_log(file)
    assert log.malformed == {"no arm": 1, "no reward": 1, "an infinite reward": 1} and log.used == 1
    frame = pd.DataFrame({"arm": ["a", "b", 3, None], "reward": [1, "2", "x", 4]})
    log = read_log(frame)
    assert {a.name: a.n for a in log.arms} == {"a": 1, "b": 1}
    assert [e.where for e in log.examples] == ["row 2", "row 3"]
    log = read_log({"a": [1.0, None, float("nan")], "b": [], "c": ["2"]})
    assert {a.name: a.n for a in log.arms} == {"a": 1, "c": 1}
    assert log.malformed == {"no reward": 2, "no rewards": 1}


def test_an_arm_without_rewards_is_no_malformed_row() -> None:
    said = pmb.advise({"a": [0.0, 1.0], "b": [1.0, 1.0], "e": []}, "gini").log.unused_rows_sentence()
    assert said == "1 arm has no rewards."


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log.xls", "arm,reward\n", "extension that is not known"),
        ("log.csv", "", "is empty"),
        ("log.csv", "arm,reward\n", "no usable rewards"),
        ("log.csv", "arm,reward\na,x\n", "1 row is malformed, .*line 2"),
        ("log.parquet", "no parquet", "log.parquet is damaged"),
        ("log.jsonl", '{"a": 1}\n', "None looks like it"),
    ],
)
def test_unusable_files_get_one_clear_sentence(name: str, text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_log(path)
    assert "\n" not in str(caught.value)


def test_the_likeliest_columns_are_taken_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("shop,town,reward\na,x,1\nb,x,2\na,y,0\nb,y,1\n")
    log = read_log(path)
    assert (log.arm_column, log.reward_column) == ("shop", "reward")
    assert [f.kind for f in log.findings] == ["columns assumed"] and "or is it town?" in log.findings[0].done
    assert read_log(path, arm="town").findings == ()


def test_a_file_in_windows_1252_is_read_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("Größe;reward\nklein;1\nKöln €;2\nKöln €;3\n".encode("cp1252"))
    log = read_log(path, arm="Größe")
    assert [arm.name for arm in log.arms] == ["klein", "Köln €"] and "encoding" in [f.kind for f in log.findings]
    path.write_text("Größe;reward\nklein;1\nKöln €;2\n", encoding="utf-8-sig")
    assert [arm.name for arm in read_log(path, arm="Größe").arms] == ["klein", "Köln €"]
    path.write_bytes(b"arm,reward\n\x81\xff,1\n")
    with pytest.raises(ValueError, match="UTF-8"):
        read_log(path)


def test_missing_files_and_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(TypeError, match="got int"):
        read_log(3)
    with pytest.raises(ValueError, match="no arms"):
        read_log({})
    with pytest.raises(TypeError, match="list of numbers"):
        read_log({"a": "text"})


def test_columns_are_found_by_option_and_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Gate;Delay;arm\nA;1,5;z\nA;2;z\n")
    log = read_log(path, settings=ReadSettings(arm="gate", reward="delay", decimal="."))
    assert log.arms[0].name == "A" and log.used == 1
    assert "1,5" in str(log.examples[0]) and (log.arm_column, log.reward_column) == ("Gate", "Delay")


# ---- all rewards, for the oracle and for simulations -----------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl", "dict"])
def test_samples_are_all_rewards_of_each_arm_in_their_order(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 4096)
    monkeypatch.setattr(files, "_ROWS", 512)
    arms, rewards = rows()
    wanted = by_arm(arms, rewards)
    found = read_samples(wanted if kind == "dict" else write(tmp_path / f"log.{kind}", arms, rewards))
    assert list(found) == list(wanted)
    for name, values in found.items():
        assert values.tolist() == wanted[name]


def test_samples_are_never_summarised(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=50_000)
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table({"arm": ["a"] * rewards.size, "reward": rewards}), file)
    assert np.array_equal(read_samples(file)["a"], rewards)


def test_a_malformed_row_of_samples_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "messy.csv"
    path.write_bytes(MESSY)
    with pytest.raises(ValueError, match=r"messy\.csv .* line 3: "):
        read_samples(path)


def test_an_excel_file_with_a_cell_far_away_is_refused_at_once(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["arm", "reward"])
    for row in range(2, 3000):
        sheet.cell(row, 1, "a"), sheet.cell(row, 2, 1.0), sheet.cell(row, 16_000, 1.0)
    book.save(tmp_path / "wide.xlsx")
    began = time.process_time()
    with pytest.raises(ValueError, match="cells"):
        read_log(tmp_path / "wide.xlsx")
    assert time.process_time() - began < 10.0


def test_an_excel_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (20 << 20))
    with pytest.raises(ValueError, match="unpacks"):
        read_log(tmp_path / "bomb.xlsx")


def test_decimal_commas_are_read_where_they_can_mean_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{1000 + k};{'ab'[k % 2]};{k % 7},{k % 10}" for k in range(60)]
    path.write_text("\n".join(["Order No;Supplier;Delivery days", *rows, "1060;a;n/a", "1061;b;999"]))
    for said in (ReadSettings(reward="Delivery days"), ReadSettings(decimal=","), ReadSettings()):
        log = read_log(path, settings=said)
        assert (log.reward_column, log.used, log.malformed) == ("Delivery days", 61, {"no reward": 1})
        assert (said.decimal is None) == any("“,” as the decimal sign" in f.seen for f in log.findings)


def test_no_answer_from_a_few_rows_if_most_numbers_are_written_in_another_way(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arm;reward\n" + "a;1,500\nb;2,250\na;999\n" * 9)
    with pytest.raises(ValueError, match=r"18 of 27 rows have .* '1,500' look like decimal commas \(or thousands\)"):
        read_log(path)
    assert read_log(path, settings=ReadSettings(thousands=",")).used == 27


@pytest.mark.parametrize("kind", ["cell", "cell after some lines", "open quote"])
def test_a_csv_with_an_endless_row_costs_little_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 1 << 12)
    size, file = 1 << 22, tmp_path / "endless.csv"
    texts = {
        "cell": "arm,reward\n" + "a" * size + ",1\n",
        "cell after some lines": "arm,reward\n" + "a,1\n" * 50 + "a" * size + ",1\n",
        "open quote": 'arm,reward\n"' + "x\n" * (size // 2),
    }
    file.write_text("arm,reward\na,1\n")
    read_log(file)  # imports
    file.write_text(texts[kind])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="row of more than"):
            read_log(file)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < size / 2


def test_a_table_with_too_many_arms_or_columns_is_refused_in_a_sentence_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_ARMS", 20)
    monkeypatch.setattr(files, "MOST_COLUMNS", 20)
    ids, wide, good = (tmp_path / f"{name}.csv" for name in ("ids", "wide", "good"))
    ids.write_text("arm,reward\n" + "".join(f"a{k},1\n" for k in range(21)))
    with pytest.raises(ValueError, match=r"more than 20 different arms, such as 'a0' and 'a1'.*ids.*--arm"):
        read_log(ids)
    good.write_text("arm,reward\n" + "".join(f"a{k},1\n" for k in range(20)))
    assert len(read_log(good).arms) == 20
    wide.write_text(",".join(f"c{k}" for k in range(21)) + "\n" + ",".join("1" * 21) + "\n")
    with pytest.raises(ValueError, match="21 columns, more than the 20"):
        read_log(wide)


def test_a_header_that_is_longer_than_a_cell_may_be_is_read(tmp_path: Path) -> None:
    file = tmp_path / "wide.csv"
    names = [f"column {k:0100d}" for k in range(2000)]  # 216 kB, which no other sign divides into cells
    file.write_text("arm,reward," + ",".join(names) + "\n" + ("a,1," + ",".join("7" * 2000) + "\n") * 3)
    assert files.read_header(file)[0][:2] == ["arm", "reward"]
