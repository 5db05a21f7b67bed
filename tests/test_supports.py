"""Supports: what may occur, what is refused, and that they survive JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.supports import Binary, Finite, Interval, Real, Support
from tests.helpers import one_sentence

SUPPORTS = [Binary(), Finite([0, 0.5, 2]), Finite([-1.5, 3]), Interval(-1, 2.5), Real(1), Real(sigma=0.3)]


@pytest.mark.parametrize("support", SUPPORTS, ids=repr)
def test_a_support_survives_json(support):
    again = Support.from_dict(json.loads(json.dumps(support.to_dict())))
    assert again == support
    assert type(again) is type(support)
    assert hash(again) == hash(support)


@pytest.mark.parametrize(
    ("support", "inside", "outside"),
    [
        (Binary(), [0, 1, 1.0], [0.5, -1, 2, np.nan, np.inf]),
        (Finite([0, 0.5, 2]), [0, 0.5, 2], [0.25, 3, -0.5, np.nan]),
        (Interval(-1, 2.5), [-1, 0, 2.5], [-1.01, 2.51, np.inf, np.nan]),
        (Real(1), [-1e300, 0, 1e300], [np.inf, -np.inf, np.nan]),
    ],
    ids=repr,
)
def test_contains_and_check_agree_on_what_may_occur(support, inside, outside):
    assert support.contains(inside).tolist() == [True] * len(inside)
    assert support.contains(outside).tolist() == [False] * len(outside)
    assert support.check(inside).tolist() == inside
    for bad in outside:
        with pytest.raises(ValueError, match=r"outside the declared support|must be finite"):
            support.check([inside[0], bad])


def test_check_names_the_first_reward_outside():
    with pytest.raises(ValueError, match=r"1\.5 .* Interval\(lo=0\.0, hi=1\.0\)"):
        Interval(0, 1).check([0.5, 1.5, -7])


@pytest.mark.parametrize(
    ("support", "lo", "hi", "width"),
    [
        (Binary(), 0, 1, 1),
        (Finite([2, 0, 0.5]), 0, 2, 2),
        (Interval(-1, 2), -1, 2, 3),
        (Real(2), -np.inf, np.inf, np.inf),
    ],
    ids=repr,
)
def test_bounds_and_width(support, lo, hi, width):
    assert (support.lo, support.hi, support.width) == (lo, hi, width)


def test_finite_atoms_are_sorted_and_distinct():
    assert Finite([3, 1, 3, 2]).atoms.tolist() == [1, 2, 3]
    assert Finite([1, 2]) == Finite([2, 1, 1])
    assert Finite([1, 2]) != Finite([1, 3])
    assert Finite([0, 1]) != Binary()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Interval(1, 1), ValueError, "lo < hi"),
        (lambda: Interval(2, 1), ValueError, "lo < hi"),
        (lambda: Interval(0, np.inf), ValueError, "hi must be a finite number"),
        (lambda: Interval(np.nan, 1), ValueError, "lo must be a finite number"),
        (lambda: Interval("0", 1), TypeError, "lo must be a number"),
        (lambda: Finite([]), ValueError, "is empty"),
        (lambda: Finite([1]), ValueError, "at least 2"),
        (lambda: Finite([1, 1]), ValueError, "two different atoms"),
        (lambda: Finite([0, np.nan]), ValueError, "must be finite"),
        (lambda: Real(0), ValueError, "sigma must lie in"),
        (lambda: Real(-1), ValueError, "sigma must lie in"),
        (lambda: Real(np.inf), ValueError, "sigma must be a finite number"),
        (lambda: Support.from_dict({"kind": "intervall"}), ValueError, "Did you mean 'interval'"),
        (lambda: Support.from_dict({}), ValueError, "must say its kind, one of binary"),
        (lambda: Support.from_dict({"kind": "interval", "lo": 0}), ValueError, "support 'interval'.*hi"),
        (lambda: Support.from_dict({"kind": "real", "scale": 1}), ValueError, "support 'real'.*scale"),
    ],
)
def test_bad_supports_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


# ---- the nearest atom ------------------------------------------------------------------------------------
def test_atoms_that_could_not_be_told_apart_are_refused() -> None:
    for atoms in ([0, 1, 2e9], [0.3, 0.1 + 0.2, 5.0], [-1.0, -1.0 + 1e-10, 0.0]):
        with pytest.raises(ValueError, match=r"closer than .* Interval"):
            pmb.Finite(atoms)


@pytest.mark.parametrize("atoms", [[0.0, 1.0, 0.9e9], [0.1, 0.2, 0.3, 1e6], [-5.0, 0.0, 1e-3, 1e-3 + 2e-8, 10.0]])
def test_a_reward_is_kept_as_the_nearest_atom(atoms: list[float]) -> None:
    support = pmb.Finite(atoms)
    close = 1e-9 * support.width
    for k, atom in enumerate(support.atoms):
        for away in (0.0, 0.4 * close, -0.4 * close):
            reward = atom + away
            assert support.contains(reward)
            policy = pmb.Uniform(n_arms=1, support=support)
            policy.tell(0, reward)
            nearest = int(np.argmin(np.abs(support.atoms - reward)))
            assert policy._memory.counts[0, nearest] == 1
            assert nearest == k or away != 0.0


def test_samples_with_atoms_that_are_too_close_are_taken_as_an_interval() -> None:
    bandit = pmb.Bandit.from_samples({"a": [0.0, 1.0], "b": [2e9, 1.0]})
    assert bandit.support == pmb.Interval(0.0, 2e9)


def test_real_without_sigma_says_what_it_promises():
    with pytest.raises(TypeError, match="Real needs sigma") as said:
        Real()
    one_sentence(said.value)
