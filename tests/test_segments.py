"""Segments and their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pmbandits.segments import Segments


def test_columns_go_by_segment_and_then_by_arm() -> None:
    made = Segments.from_arguments({"new": ["C", "A"], "old": ["B"]}, ["A", "B", "C"])
    assert made.column_names == ("new: A", "new: C", "old: B") and len(made) == 2
    assert made.segment_of.tolist() == [0, 0, 1] and made.arm_of.tolist() == [0, 2, 1]
    assert made.column_at.tolist() == [[0, -1, 1], [-1, 2, -1]]
    assert made.by_segment([0.25, 0.5, 0.25]).tolist() == [[0.25, 0.0, 0.5], [0.0, 0.25, 0.0]]
    assert made.totals([0.25, 0.5, 0.25]).tolist() == [0.75, 0.25]
    assert Segments.from_arguments(made.to_dict(), made.arms) == made


def test_a_list_of_segments_gives_all_arms_to_each() -> None:
    made = Segments.from_arguments(["new", "old"], ["A", "B"])
    assert made == Segments.from_arguments({"new": ["A", "B"], "old": ["A", "B"]})
    assert np.array_equal(made.column_at, [[0, 1], [2, 3]])


def test_names_of_columns_differ_also_where_names_have_colons() -> None:
    made = Segments.from_arguments({"a": ["b: c"], "a: b": ["c"]})
    assert len(set(made.column_names)) == 2


@pytest.mark.parametrize(
    ("segments", "arms", "words"),
    [
        ("new", ["A"], "segments must be a list of names"),
        ([], ["A"], "there is no segment"),
        (["new", "new"], ["A"], "'new' occurs twice"),
        (["new", 3], ["A"], "names of segments must be text, got 3"),
        ({"new": "AB"}, ["A", "B"], "the arms of a segment must be a list of names, got 'AB'"),
        ({"new": None}, ["A"], "the arms of a segment must be a list of names, got None"),
        ({"new": [0]}, ["A"], "names of arms must be text, got 0"),
        (["new"], None, "the arms of the segments are not known"),
        ({"new": ["A", "D"]}, ["A", "B"], "the segment 'new' has the arm 'D'"),
        ({"new": []}, ["A", "B"], "there is no arm"),
    ],
)
def test_bad_segments_are_refused_in_a_sentence(segments: Any, arms: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        Segments.from_arguments(segments, arms)


def test_an_unknown_segment_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown segment 'nwe'\. Did you mean 'new'\? Known: new, old\."):
        Segments.from_arguments(["new", "old"], ["A"]).index("nwe")
