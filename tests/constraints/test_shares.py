"""Limits on shares: what people write becomes rows of a matrix, or one sentence that says what is wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from pmbandits.constraints import Limits, limits
from pmbandits.segments import Segments

NAMES = ["A", "B", "C"]


def rows(text: Any, names: list[str] | None = None) -> list[tuple[list[float], float, bool]]:
    found = limits(text, names or NAMES)
    return [(r.tolist(), float(b), bool(e)) for r, b, e in zip(found.matrix, found.bound, found.equal, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A >= 10%", [([-1, 0, 0], -0.1, False)]),
        ("10% <= A", [([-1, 0, 0], -0.1, False)]),
        ("B + C <= 0.3", [([0, 1, 1], 0.3, False)]),
        ("A == 2 * B", [([1, -2, 0], 0.0, True)]),
        ("A = 2B", [([1, -2, 0], 0.0, True)]),
        ("0.1 <= A <= .3", [([-1, 0, 0], -0.1, False), ([1, 0, 0], 0.3, False)]),
        ("2 * (A + B) - C/4 ≤ 1.25", [([2, 2, -0.25], 1.25, False)]),
        ("A >= B", [([-1, 1, 0], 0.0, False)]),
        ("-A > -2e-1", [([1, 0, 0], 0.2, False)]),
        ("A - 0.1 >= B/2 + 5%", [([-1, 0.5, 0], -0.15, False)]),
        ("A >= .1; ;\n B<=.3,C <= 50 %", [([-1, 0, 0], -0.1, False), ([0, 1, 0], 0.3, False), ([0, 0, 1], 0.5, False)]),
        ("", []),
        ("A <= 1; B >= 0", []),  # every mixture keeps these
        ({"A": (0.1, 1.0), "B": (0, 0.3)}, [([-1, 0, 0], -0.1, False), ([0, 1, 0], 0.3, False)]),
        ({("B", "C"): (None, 0.3)}, [([0, 1, 1], 0.3, False)]),
        ({1: (0.25, 0.25)}, [([0, 1, 0], 0.25, True)]),
        (["A >= 10%", {"B": (0.2, None)}], [([-1, 0, 0], -0.1, False), ([0, -1, 0], -0.2, False)]),
        (None, []),
    ],
)
def test_what_is_written_is_what_is_meant(text: Any, expected: list[tuple[list[float], float, bool]]) -> None:
    found = rows(text)
    assert len(found) == len(expected)
    for (row, bound, equal), (row_, bound_, equal_) in zip(found, expected, strict=True):
        assert row == pytest.approx(row_) and bound == pytest.approx(bound_) and equal == equal_


def test_names_with_spaces_signs_and_digits() -> None:
    names = ["arm 0", "arm 01", "norm(1,1)", "2024", "it's", "2x"]
    text = "arm 0 >= 1%; arm 01 >= 2%; norm(1,1) >= 3%; '2024' >= 4%; 'it''s' >= 5%; 2x >= 6%"
    assert limits(text, names).matrix == pytest.approx(-np.eye(6))
    assert limits(text, names).bound == pytest.approx(-0.01 * np.arange(1, 7))


def test_a_budget_is_a_limit_like_others() -> None:
    found = limits("A >= 10%", NAMES, cost={"A": 2.0, "C": 0.5}, budget=1.5)
    assert found.texts == ("A >= 10%", "2 * A + 0.5 * C <= 1.5")
    assert limits(str(found), NAMES) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A >= 60%; B >= 50%", "the least shares add up to 1.1 .*lower one"),
        ("A <= .2; B <= .2; C <= .2", "the largest shares add up to 0.6 .*less than 1; raise one"),
        ("A >= 10", "did you mean 10%"),
        ("A + B == 1.2", "no mixture"),
        ("A >= 50%; B >= 2*A; C <= 30%", "keeps these limits together: A >= 50%; B >= 2\\*A; loosen"),
        ("D <= 0.5", "unknown arm 'D'"),
        ("A at least 10%", "'at' in 'A at least 10%' cannot be read; write limits like 'A >= 10%"),
        ("a <= 0.5", "unknown arm 'a'. Did you mean 'A'|unknown arm 'a'"),
        ("AB <= 0.5", "unknown arm 'AB'"),
        ("1 >= 0.5", "says nothing about the share of any arm"),
        ("A == A", "says nothing about the share of any arm"),
        ("A * B <= 1", "multiplies two shares"),
        ("A / B <= 1", "divides by something"),
        ("A / 0 <= 1", "divides by something"),
        ("A", "has no sign such as <= or >="),
        ("A <= 0,5", "decimals have a point"),
        ("A <=", "is missing"),
        ("A B <= 1", "does not belong there"),
        ("(A <= 1", "bracket is not closed"),
        ("A <= 1e999", "too large"),
        ("1e300*A*1e300 <= 1", "too large"),
        ("A <= $5", "cannot be read"),
        ("'A <= 1", "quotation mark is not closed"),
        ("__import__('os').system('true')", "unknown arm '__import__'"),
        ("(" * 5000 + "A" + ")" * 5000 + " <= 0.5", "too many brackets"),
        ("A" * 200_000, "at most 100,000 characters"),
        ({"A": 0.3}, "a pair like"),
        ({"A": (0.5, 0.1)}, "above its largest"),
        ({"D": (0, 1)}, "unknown arm 'D'"),
        ({"A": (0.1, float("nan"))}, "finite"),
    ],
)
def test_what_cannot_be_kept_or_read_is_one_sentence(text: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        limits(text, NAMES)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("given", [5, b"A <= 1", [("A", 0.1)], {"A": ("x", 1)}])
def test_other_things_are_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"limits are text like|must be a number"):
        limits(given, NAMES)


def test_cost_and_budget_go_together() -> None:
    with pytest.raises(ValueError, match="a budget needs both"):
        limits(None, NAMES, cost={"A": 1.0})
    with pytest.raises(ValueError, match="no mixture"):
        limits(None, NAMES, cost={"A": 2.0, "B": 2.0, "C": 2.0}, budget=1.0)


def test_limits_for_other_arms_are_refused() -> None:
    with pytest.raises(ValueError, match="made for the arms A, B, C"):
        limits(limits("A >= 10%", NAMES), ["A", "B"])


@settings(max_examples=200, deadline=None)
@given(s.text(alphabet="AB<>=+-*/%().;,'\" \n019e$_x∞", max_size=30))
def test_no_text_does_harm(text: str) -> None:
    try:
        found = limits(text, NAMES)
    except ValueError as error:
        assert str(error).endswith((".", "?")) and "\n" not in str(error)
    else:
        assert isinstance(found, Limits) and np.isfinite(found.matrix).all()


coefficient = s.floats(-3, 3).map(lambda x: round(x, 3))


@settings(max_examples=50, deadline=None)
@given(
    s.lists(s.tuples(s.lists(coefficient, min_size=3, max_size=3), s.sampled_from(["<=", ">=", "=="])), max_size=4),
    s.lists(s.floats(0.01, 1.0), min_size=3, max_size=3),
)
def test_limits_survive_being_written_and_read(rules: list[tuple[list[float], str]], raw: list[float]) -> None:
    point = np.array(raw) / sum(raw)
    names = ["A", "my arm", "2024"]
    pieces = []
    for row, sign in rules:
        if any(row):
            left = " + ".join(f"{c} * '{name}'" for c, name in zip(row, names, strict=True)).replace("+ -", "- ")
            pieces.append(f"{left} {sign} {float(np.array(row) @ point)!r}")
    found = limits("; ".join(pieces), names)
    assert found.keeps(point)
    again = limits(str(found), names)
    assert again == found
    assert again.matrix == pytest.approx(found.matrix, abs=1e-12)


def test_an_equality_is_suspended_only_while_one_of_its_arms_is_missing() -> None:
    made = limits("A + B = 0.5; C <= 0.6", ["A", "B", "C"])
    everybody, without_b = made.among(["A", "B", "C"]), made.among(["A", "C", "D"])
    assert everybody is not None and everybody.texts == made.texts
    assert without_b is not None and without_b.texts == ("C <= 0.6",)
    assert made.among(["A", "D"]) is None


# ---- segments --------------------------------------------------------------------------------------------
SEGMENTS = Segments.from_arguments({"new": ["A", "B"], "it's old": ["B", "C"]})


@pytest.mark.parametrize(
    ("written", "row", "bound", "segment"),
    [
        ("new: A >= 10%", [-0.9, 0.1, 0, 0], 0.0, 0),
        ("'it''s old' : B - C <= 0.2", [0, 0, 0.8, -1.2], 0.0, 1),
        ("B <= 30%", [0, 1, 1, 0], 0.3, -1),
        ({"new": {"A": (0.1, None)}}, [-0.9, 0.1, 0, 0], 0.0, 0),
        ({"it's old": {("B",): (None, 0.25)}}, [0, 0, 0.75, -0.25], 0.0, 1),
    ],
)
def test_limits_of_segments_are_about_columns(written: Any, row: list[float], bound: float, segment: int) -> None:
    found = limits(written, SEGMENTS.arms, segments=SEGMENTS)
    assert found.names == SEGMENTS.column_names and found.segment_of_limit is not None
    assert found.matrix[0] == pytest.approx(row) and found.bound[0] == pytest.approx(bound)
    assert found.segment_of_limit.tolist() == [segment]
    assert limits(str(found), SEGMENTS.arms, segments=SEGMENTS) == found


def test_a_chain_within_a_segment_keeps_its_segment() -> None:
    found = limits("new: 0.1 <= A <= 0.3; C <= .5", SEGMENTS.arms, segments=SEGMENTS)
    assert found.texts == ("new: 0.1 <= A", "new: A <= 0.3", "C <= .5")
    assert found.without("new: 0.1 <= A").segment_of_limit.tolist() == [0, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "frequencies", "words"),
    [
        ("nwe: A >= 10%", None, "unknown segment 'nwe'. Did you mean 'new'?"),
        ("new: C >= 10%", None, "the limit new: C >= 10% is on C, which the segment 'new' does not have"),
        ("new: A >= 60%; B <= 90%; new: B >= 60%", None, "together: new: A >= 60%; new: B >= 60%; loosen"),
        ("new: A >= 120%", None, "no mixture keeps the limit new: A >= 120%"),
        ("B <= 30%; new: A <= 20%", [0.6, 0.4], "together: B <= 30%; new: A <= 20%; loosen"),
        ({"old": {"B": (0.1, 0.2)}}, None, "unknown segment 'old'"),
    ],
)
def test_limits_of_segments_that_cannot_be(written: Any, frequencies: Any, words: str) -> None:
    often = None if frequencies is None else np.array(frequencies)
    with pytest.raises(ValueError, match=re.escape(words)):
        limits(written, SEGMENTS.arms, segments=SEGMENTS, frequencies=often)
