"""The layout of the state: compiled code and Python see the same fields."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.policies import _state
from pmbandits.state.compile import kernel

GINI = pmb.GiniDeviation()


@pytest.mark.parametrize("support", [pmb.Binary(), pmb.Finite([0, 1, 3]), pmb.Interval(0, 1), pmb.Real()])
def test_compiled_code_and_python_see_the_same_fields(support: pmb.Support) -> None:
    policy = pmb.PMUCB(GINI, n_arms=3, support=support, horizon=1000, epsilon=0.25)
    policy._ints[_state.HEAD :] = np.arange(policy._ints.size - _state.HEAD)
    policy._floats[:] = np.arange(policy._floats.size)
    letters = {letter: int(policy._ints[place]) for letter, place in _state.SIZES.items()}

    def number(size: object) -> int:
        return sum(n * math.prod(letters[letter] for letter in key) for key, n in size.terms.items())  # type: ignore

    for name, outside in _state.views(policy._ints, policy._floats).items():
        kind, start, shape = _state.LAYOUT[name]
        whole = policy._ints if kind == "i" else policy._floats
        begin = number(start)
        assert np.array_equal(whole[begin : begin + math.prod(map(number, shape))], outside), name
    assert _last_of_width((policy._ints, policy._floats)) == _state.views(policy._ints, policy._floats)["width"][-1]


@kernel
def _last_of_width(whole):  # type: ignore
    return _state.parts(whole).width[-1]
