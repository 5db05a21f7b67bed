"""Values of every kind given to public functions: an answer, or one sentence."""

from __future__ import annotations

import datetime
import decimal
import fractions
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats as distributions

import pmbandits as pmb
from pmbandits._validation import short_repr
from pmbandits.estimates import Sketch
from tests.fuzz import Failed, sentence
from tests.fuzz.policy_files import pick

SCALARS: tuple[Any, ...] = (
    0,
    1,
    2,
    3,
    -1,
    10,
    0.5,
    0.25,
    -0.5,
    1.0,
    2**31,
    2**53,
    2**63 - 1,
    2**64,
    10**400,
    -(10**400),
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    False,
    None,
    "",
    "0.5",
    "x",
    "gini",
    "track",
    b"1",
    "\x1b[2J",
    1 + 2j,
    decimal.Decimal("0.5"),
    decimal.Decimal("NaN"),
    fractions.Fraction(1, 3),
    datetime.date(2024, 1, 1),
    np.float32(0.5),
    np.int8(3),
    np.bool_(True),
    np.datetime64("2024"),
    np.timedelta64(5),
    np.complex128(1j),
    np.ma.masked,
    np.str_("0.5"),
    np.float64("nan"),
    object(),
    len,
    ...,
    np.array(0.5),
    np.array(["1"]),
    {},
    [],
    (),
    set(),
    10**5000,
)
LISTS: tuple[Any, ...] = (
    [0.1, 0.9],
    [0.4, 0.6],
    [0, 1],
    [1, 2, 3],
    ["0.5", "0.5"],
    [b"1"],
    [None, 1],
    [True, False],
    [[1, 2], [3]],
    [[1, 2], [3, 4]],
    np.array([0.5, 0.5]),
    np.array([1 + 1j, 2]),
    np.array([1, 2], dtype="M8[s]"),
    np.array([1, 2], dtype="m8[s]"),
    np.ma.array([0.5, 0.5], mask=[0, 1]),
    np.ma.array([0.5, 0.5], mask=[0, 0]),
    np.array(["a", "b"]),
    np.array([1, "a"], object),
    np.zeros((2, 2)),
    np.zeros(0),
    np.array([np.nan, 1.0]),
    np.array([np.inf, 1.0]),
    [10**400, 1],
    [1e308, -1e308],
    range(3),
    {"a": [1, 2], "b": [0, 1]},
    {"a": 1},
    {1: [1], "1": [2]},
    {"a\x1b": [0, 1], "b": [1, 1]},
    {"a": np.ma.array([1, 2], mask=[1, 0])},
    (0.5, 0.5),
    [decimal.Decimal(1), fractions.Fraction(1, 2)],
    [distributions.norm(), distributions.norm(1)],
    [distributions.norm([0, 1]), distributions.norm()],
    distributions.norm(),
    distributions.norm([0, 1]),
    distributions.multivariate_normal([0, 0]),
    distributions.bernoulli(0.3),
    distributions.norm,
    [distributions.norm],
    "ab",
    [np.ma.masked, 1],
)
GINI, COINS = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9])


def fresh(**options: Any) -> pmb.Policy:
    """A small policy."""
    return pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1), **options)


CALLS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("Real", lambda a, b: pmb.Real(a)),
    ("Interval", lambda a, b: pmb.Interval(a, b)),
    ("Finite", lambda a, b: pmb.Finite(a)),
    ("Support.from_dict", lambda a, b: pmb.Support.from_dict({"kind": a, "lo": b, "hi": 1})),
    ("Bandit", lambda a, b: pmb.Bandit([a, b])),
    ("Bandit names", lambda a, b: pmb.Bandit([[0, 1], [1, 2]], names=a)),
    ("Bandit.bernoulli", lambda a, b: pmb.Bandit.bernoulli(a)),
    ("Bandit.from_samples", lambda a, b: pmb.Bandit.from_samples(a)),
    ("Bandit.sample", lambda a, b: COINS.sample(a, size=3, rng=0)),
    ("metric", lambda a, b: pmb.metric(a)),
    ("metric by name", lambda a, b: pmb.metric("upper_cvar", c=a)),
    ("CVaR", lambda a, b: pmb.UpperCVaR(a)),
    ("from_dict", lambda a, b: pmb.Distortion.from_dict({"name": a, "c": b})),
    ("h", lambda a, b: GINI(a)),
    ("h'", lambda a, b: GINI.derivative(a)),
    ("value", lambda a, b: GINI.value(a)),
    ("value with weights", lambda a, b: GINI.value(a, weights=b)),
    ("utility", lambda a, b: pmb.utility(GINI, COINS, a)),
    ("oracle", lambda a, b: pmb.oracle(a, COINS)),
    ("oracle of", lambda a, b: pmb.oracle(GINI, a)),
    ("Track", lambda a, b: fresh(tolerance=a, exploration=b)),
    ("Track n_arms", lambda a, b: pmb.Track(GINI, n_arms=a, support=pmb.Binary(), seed=b)),
    ("Track support", lambda a, b: pmb.Track(a, n_arms=2, support=b)),
    ("Track estimates", lambda a, b: fresh(estimates=a, confidence=b)),
    ("CIRT", lambda a, b: pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=a, branching=b)),
    ("PMUCB", lambda a, b: pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=a, epsilon=b)),
    ("ask", lambda a, b: fresh().ask(a) if not (isinstance(a, int) and a > 10**5) else None),
    ("tell", lambda a, b: fresh().tell(a, b)),
    ("tell 0", lambda a, b: fresh().tell(0, a)),
    ("utility_bounds", lambda a, b: fresh().utility_bounds(a)),
    ("merge", lambda a, b: fresh().merge(a)),
    ("simulate", lambda a, b: pmb.simulate(GINI, COINS, a, 20, 2, n_jobs=1)),
    ("simulate horizon", lambda a, b: pmb.simulate(GINI, COINS, "uniform", small(a), 1, n_jobs=1)),
    ("simulate trials", lambda a, b: pmb.simulate(GINI, COINS, "uniform", 20, small(a), seed=b, n_jobs=1)),
    ("simulate checkpoints", lambda a, b: pmb.simulate(GINI, COINS, "uniform", 20, 1, checkpoints=a, n_jobs=1)),
    ("simulate labels", lambda a, b: pmb.simulate(GINI, COINS, {short_repr(a): "uniform"}, 20, 1, n_jobs=1)),
    ("advise", lambda a, b: pmb.advise(a, GINI)),
    ("advise arm", lambda a, b: pmb.advise({"a": a, "b": [0, 1, 1]}, GINI)),
    ("advise level", lambda a, b: pmb.advise({"a": [0, 1], "b": [1, 0]}, GINI, level=a, splits=b)),
    ("Sketch", lambda a, b: Sketch(a if not isinstance(a, int) or a < 10**4 else 8, b)),
    ("Sketch.extend", lambda a, b: Sketch().extend(a)),
    ("Sketch.from_arrays", lambda a, b: Sketch.from_arrays({"setup": a, "book": b, "items": [], "marks": []})),
    ("load", lambda a, b: pmb.load(a) if isinstance(a, str) else None),
)


def small(value: Any) -> Any:
    """The value, unless it would take hours."""
    return (
        20 if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 10**4 < value < 2**54 else value
    )


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One call."""
    del folder
    name, call = pick(rng, CALLS)
    both = [pick(rng, SCALARS if rng.random() < 0.6 else LISTS) for _ in range(2)]
    return answered(name, call, both)


def answered(name: str, call: Callable[[Any, Any], Any], both: list[Any]) -> str:
    """An answer that can be shown, or a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = call(*both)
            shown = repr(answer)
    except Exception as error:
        try:
            sentence(error)
        except Failed as failed:
            raise Failed(f"{name}({short_repr(both[0])}, {short_repr(both[1])}): {failed}") from error
        return "refused"
    if "\x1b" in shown:
        raise Failed(f"{name}: control characters reach the terminal")
    if isinstance(answer, float) and not np.isfinite(answer) and name not in ("h'",):
        raise Failed(f"{name}({short_repr(both[0])}, {short_repr(both[1])}) is {answer}")
    return "taken"
