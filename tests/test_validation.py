"""Input that was taken or misreported once: each gets one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats as distributions
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits import _validation
from pmbandits._validation import escape_control_characters
from pmbandits.cli import app as cli
from pmbandits.logs import read_log
from pmbandits.simulation.spec import EXAMPLE, read_spec
from tests.helpers import one_sentence

MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
COINS = pmb.Bandit.bernoulli([0.4, 0.9])
GINI = pmb.GiniDeviation()


@pytest.mark.parametrize(
    "given",
    [
        MASKED,
        np.array([1 + 2j, 3]),
        np.array([1, 2], "M8[s]"),
        np.array([1, 2], "m8[s]"),
        ["1", "2"],
        [b"1"],
        [10**400, 1],
    ],
    ids=["masked", "complex", "dates", "durations", "text", "bytes", "too large"],
)
@pytest.mark.parametrize(
    "take",
    [
        lambda x: pmb.Bandit([x, [0, 1]]),
        lambda x: GINI.value(x),
        lambda x: GINI(x),
        lambda x: pmb.Finite(x),
        lambda x: pmb.utility(GINI, COINS, x),
        lambda x: pmb.Bandit.bernoulli(x),
        lambda x: pmb.Track(GINI, n_arms=3, support=pmb.Real(1)).tell([0, 1, 2][: len(x)], x),
    ],
    ids=["Bandit", "value", "h", "Finite", "utility", "bernoulli", "tell"],
)
def test_what_is_no_array_of_numbers_is_refused_and_not_converted(take: Any, given: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        take(given)
    one_sentence(caught.value)


def test_a_mask_that_hides_nothing_does_no_harm() -> None:
    plain = np.ma.array([1.0, 2.0, 3.0], mask=[False, False, False])
    assert GINI.value(plain) == GINI.value([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "given", [b"1", "1", 10**400, 1j, np.datetime64("2024"), np.timedelta64(1), None, np.ma.masked]
)
def test_what_is_no_number_is_refused(given: Any) -> None:
    for take in (pmb.Real, lambda x: pmb.Interval(0, x), lambda x: pmb.UpperCVaR(x), lambda x: pmb.CIRT(epsilon=x)):
        with pytest.raises((TypeError, ValueError)) as caught:
            take(given)
        one_sentence(caught.value)


@pytest.mark.parametrize("given", ["0.5", b"0.5", 0.5j, 10**400, None])
def test_a_distortion_takes_numbers_only(given: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        GINI(given)
    one_sentence(caught.value)


def test_masked_rewards_of_logs_are_missing_ones() -> None:
    log = read_log({"a": MASKED, "b": [1.0, 2.0]})
    assert [(arm.name, arm.n) for arm in log.arms] == [("a", 2), ("b", 2)]
    assert "1 with no reward" in log.unused_rows_sentence()


@pytest.mark.parametrize("given", [2**63 - 1, 10**400, [1, [2]], ["a"], "track"])
def test_checkpoints_that_cannot_be(given: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        pmb.simulate(GINI, COINS, "uniform", 20, 1, checkpoints=given)
    one_sentence(caught.value)


def test_an_array_of_distributions_is_not_one_distribution() -> None:
    for make in (
        lambda: pmb.Bandit([distributions.norm([0, 1]), distributions.norm()]),
        lambda: GINI.value(distributions.norm(0, [1, 2])),
    ):
        with pytest.raises(ValueError, match="array of distributions"):
            make()


def test_a_policy_may_be_given_by_its_name_alone() -> None:
    assert pmb.simulate(GINI, COINS, "track", 20, 1, n_jobs=1).policies == ("Track",)


# ---- tables ----------------------------------------------------------------------------------------------
def table(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


GOOD = b'{"arm": "a", "reward": 1}\n{"arm": "b", "reward": 2}\n'


@pytest.mark.parametrize(
    "line",
    [b"[" * 200_000, b'{"a":' * 20_000, b'{"arm": "a", "reward": ' + b"9" * 5000 + b"}",
     b'{"arm": [1, 2], "reward": 1}', b'{"arm": {"a": 1}, "reward": 1}', b'{"arm": "a", "reward": [1]}',
     b'{"arm": "a", "reward": 1e999}'],
    ids=["deep", "deeper", "huge", "list as arm", "dict as arm", "list as reward", "infinite"],
)  # fmt: skip
def test_a_strange_line_of_json_is_counted(tmp_path: Path, line: bytes) -> None:
    log = read_log(table(tmp_path, "t.jsonl", GOOD + line + b"\n"))
    assert log.used == 2 and log.n_malformed == 1


def test_a_field_of_more_than_a_megabyte(tmp_path: Path) -> None:
    text = b'arm,reward,note\na,1,"' + b"x" * (3 << 20) + b'"\nb,2,\n'
    with pytest.raises(ValueError, match="more than 1,048,576 bytes") as caught:
        read_log(table(tmp_path, "t.csv", text))
    one_sentence(caught.value)
    with pytest.raises(ValueError, match="more than 1,048,576 bytes"):
        read_log(table(tmp_path, "u.csv", b"x" * (2 << 20)))


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"arm": ["a", "b"] * 500, "reward": np.arange(1000.0)}), path)
    raw = path.read_bytes()
    for at in range(4, len(raw), max(1, len(raw) // 60)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :])
        try:
            read_log(path)
        except ValueError as error:
            one_sentence(error)


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07"
    rows = "".join(f"a{evil},{k % 2}\nb,{k % 3}\n" for k in range(20)) + f"c,{evil}\n"
    path = table(tmp_path, "t.csv", f"arm,reward\n{rows}".encode())
    shown = CliRunner().invoke(cli.app, ["advise", str(path)], color=False)
    assert shown.exit_code == 0 and "\x1b]0" not in shown.output and "\x1b[2J" not in shown.output
    assert "a\\x1b[2J" in shown.output.replace("\n", "") or "a\\x1b" in shown.output
    for make in (
        lambda: pmb.Bandit([[0, 1], [1, 2]], names=["a", evil]),
        lambda: pmb.simulate(GINI, COINS, {evil: "uniform"}, 20, 1),
    ):
        with pytest.raises(ValueError, match="control characters") as caught:
            make()
        assert "\x1b" not in str(caught.value)
    assert escape_control_characters("é\tn") == "é\tn"


# ---- specifications --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "line", ['"" = 1', '"1" = 2', "a = [" + "[" * 5000, "x = " + "9" * 5000, "metric = []", "[[bandit]]"]
)
def test_strange_lines_of_a_specification(tmp_path: Path, line: str) -> None:
    lines = EXAMPLE.splitlines()
    for at in (0, 5, len(lines)):
        path = tmp_path / "spec.toml"
        path.write_text("\n".join([*lines[:at], line, *lines[at:]]))
        try:
            read_spec(path)
        except ValueError as error:
            assert str(error).rstrip().endswith((".", ".)"))


def test_an_open_end_does_not_belong_to_the_interval_and_a_closed_one_does() -> None:
    assert _validation.check_within("x", 1.0, 0.0, 1.0) == 1.0 and _validation.check_within("x", 0.0, 0.0, 1.0) == 0.0
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        _validation.check_within("x", 1.0, 0.0, 1.0, open_hi=True)
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        _validation.check_within("x", 0.0, 0.0, 1.0, open_lo=True)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        _validation.check_within("x", 1.5, 0.0, 1.0)


@pytest.mark.parametrize(("hi", "limit"), [(None, "at least 2"), (9, "between 2 and 9")])
def test_a_whole_number_out_of_range_is_told_its_range(hi: int | None, limit: str) -> None:
    with pytest.raises(ValueError, match=limit):
        _validation.check_whole_number("n", 1, 2, hi)
    assert _validation.check_whole_number("n", 2, 2, hi) == 2
