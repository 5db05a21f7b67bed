"""Cells of a log as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pmbandits.logs.parse import Problem, parse_numbers


@pytest.mark.parametrize(
    ("cells", "bad"),
    [
        ([1.0, np.ma.masked, 3.0], Problem.BLANK),  # a masked cell alone
        ([1.0, [2.0, 2.5], 3.0], Problem.NOT_A_NUMBER),  # a list alone
        ((1.0, None, 3.0), Problem.BLANK),
        (["1", "two", "3"], Problem.NOT_A_NUMBER),
        ([1.0, np.inf, 3.0], Problem.INFINITE),
    ],
)
def test_a_cell_that_is_no_number_is_named_and_the_others_are_read(cells: Any, bad: Problem) -> None:
    numbers, problems = parse_numbers(cells)
    assert numbers[[0, 2]].tolist() == [1.0, 3.0] and np.isnan(numbers[1])
    assert problems.tolist() == [Problem.NONE, bad, Problem.NONE]
