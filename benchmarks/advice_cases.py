"""The data sets of ``python -m benchmarks advice``: fixed before it is run, with the number of rewards as the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import scipy.stats as st

import pmbandits as pmb

Draw = Callable[[np.random.Generator, int], list[np.ndarray]]
UNIT = pmb.Interval(0, 1)
TEN = [
    "mean", "gini", "lower_cvar(0.1)", "upper_cvar(0.9)", "wang_right_tail", "pht(0.5)", "mean_median_deviation",
    "dual_power(3)", "quadratic(0.5)", "wang_transform(-0.5)",
]  # fmt: skip


def ahead(one: np.ndarray, two: np.ndarray, sd: float = 1.0, lead: float = 2.5) -> list[np.ndarray]:
    """Two arms with this standard deviation, the second of them ahead by some standard errors."""
    return [one, two + lead * sd * sqrt(1 / one.size + 1 / two.size)]


def inflated(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Nine of ten rewards are 0, the others lognormal or exponential."""
    tail = rng.lognormal(1.0, 1.5, n) if kind == "lognormal" else rng.exponential(5.0, n)
    return np.where(rng.random(n) < 0.1, tail, 0.0)


def ratings(rng: np.random.Generator, n: int) -> np.ndarray:
    """Ratings from 1 to 5, of which 9.5 % are 1."""
    return rng.choice(np.arange(1.0, 6.0), n, p=[0.095, 0.05, 0.155, 0.3, 0.4])


@dataclass(frozen=True)
class Null:
    """Data in which "surely" is wrong: for every recommendation, or only for the arms in ``wrong``."""

    draw: Draw
    metric: Any
    support: pmb.Support | None
    sizes: tuple[int, ...]
    wrong: tuple[str, ...] = ()
    before: str = "–"
    hidden: bool = False  # nothing in the rewards shows what makes the verdict wrong


def with_outlier(rng: np.random.Generator, n: int) -> np.ndarray:
    """Normal rewards, one of which is 100."""
    return np.concatenate((rng.normal(0, 1, n - 1), [100.0]))


NULLS: dict[str, Null] = {
    "A .4 to .6, B 0 or 100 with 1 % (B is better)": Null(
        lambda r, n: [r.uniform(0.4, 0.6, n), 100.0 * (r.random(n) < 0.01)],
        "mean", pmb.Interval(0, 100), (50, 100, 200, 400), ("0",), "58, 34, 13, 5 %",
    ),
    "the same, B barely better (4 events expected at each n)": Null(
        lambda r, n: [(400 / 1.02 / n) * r.uniform(0.9, 1.1, n), 100.0 * (r.random(n) < 4 / n)],
        "mean", pmb.Interval(0, 100), (50, 200, 400), ("0",),
    ),
    "3 equal Beta(2, 5), one of them with 8 rewards": Null(
        lambda r, n: [r.beta(2, 5, n), r.beta(2, 5, n), r.beta(2, 5, 8)], "mean", UNIT, (50, 200)
    ),
    "2 identical Beta(2, 5), mean": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "mean", UNIT, (50, 200)),
    "4 identical Beta(2, 5), mean": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(4)], "mean", UNIT, (50, 200)),
    "2 identical Beta(2, 5), Gini": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "gini", UNIT, (50, 200)),
    "4 identical Beta(2, 5), Gini": Null(lambda r, n: [r.beta(2, 5, n) for _ in range(4)], "gini", UNIT, (50, 200)),
    "2 equal coins .5, Gini": Null(lambda r, n: [r.binomial(1, 0.5, n) for _ in range(2)], "gini", None, (50, 200)),
    "3 equal rare events .05, Wang": Null(
        lambda r, n: [r.binomial(1, 0.05, n) for _ in range(3)], "wang_right_tail", None, (60, 200)
    ),
    "10 preferences at once, 2 identical Beta(2, 5)": Null(
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], TEN, UNIT, (100,)
    ),
    "2 equal zero-inflated lognormal, mean": Null(
        lambda r, n: [inflated(r, n, "lognormal") for _ in range(2)], "mean", None, (50, 200, 1000)
    ),
    "2 equal zero-inflated exponential, mean": Null(
        lambda r, n: [inflated(r, n, "exponential") for _ in range(2)], "mean", None, (50, 200, 1000)
    ),
    "the same, cut at 60 and declared so": Null(
        lambda r, n: [np.minimum(inflated(r, n, "exponential"), 60.0) for _ in range(2)],
        "mean", pmb.Interval(0, 60), (50, 200, 1000),
    ),
    "lognormal, cut at 200 and declared so": Null(
        lambda r, n: [np.minimum(inflated(r, n, "lognormal"), 200.0) for _ in range(2)],
        "mean", pmb.Interval(0, 200), (50, 200, 1000),
    ),
    "2 equal Pareto 2.5, mean": Null(lambda r, n: [r.pareto(2.5, n) for _ in range(2)], "mean", None, (50, 200, 1000)),
    "2 equal Cauchy, mean": Null(lambda r, n: [r.standard_cauchy(n) for _ in range(2)], "mean", None, (50, 200, 1000)),
    "3 equal normal, one of them with an outlier": Null(
        lambda r, n: [r.normal(0, 1, n), r.normal(0, 1, n), with_outlier(r, n)], "mean", None, (50, 200)
    ),
    "the same, lower CVaR(.1)": Null(
        lambda r, n: [r.normal(0, 1, n), r.normal(0, 1, n), with_outlier(r, n)], "lower_cvar(0.1)", None, (50, 200)
    ),
    "2 equal exponential, n and 10 n rewards": Null(
        lambda r, n: [r.exponential(1, n), r.exponential(1, 10 * n)], "mean", None, (50, 200)
    ),
    "2 equal lognormal(0, 1), n and 10 n rewards": Null(
        lambda r, n: [r.lognormal(0, 1, n), r.lognormal(0, 1, 10 * n)], "mean", None, (50, 200)
    ),
    "2 equal zero-inflated exponential, n and 10 n rewards": Null(
        lambda r, n: [inflated(r, n, "exponential"), inflated(r, 10 * n, "exponential")], "mean", None, (50, 200)
    ),
    "3 equal normal, one of them with 3 rewards": Null(
        lambda r, n: [r.normal(0, 1, n), r.normal(0, 1, n), r.normal(0, 1, 3)], "mean", None, (50, 200)
    ),
    "2 equal Beta(2, 5), declared range 100 times the seen one": Null(
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "mean", pmb.Interval(-50, 50), (50, 200)
    ),
    "the same range, lower CVaR(.1)": Null(
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "lower_cvar(0.1)", pmb.Interval(-50, 50), (50, 200)
    ),
    "the same range, Gini": Null(
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "gini", pmb.Interval(-50, 50), (50, 200)
    ),
    "normal and zero-inflated exponential of equal mean": Null(
        lambda r, n: [r.normal(0.5, 1, n), inflated(r, n, "exponential")], "mean", None, (30, 50, 200)
    ),
    "the same, 10 n and n rewards": Null(
        lambda r, n: [r.normal(0.5, 1, 10 * n), inflated(r, n, "exponential")], "mean", None, (50,)
    ),
    "normal and exponential losses of equal lower CVaR(.1)": Null(
        lambda r, n: [r.normal(1.754983, 1, n), 3.302585 - r.exponential(1, n)], "lower_cvar(0.1)", None, (50, 100, 500)
    ),
    "normal and zero-inflated lognormal losses of equal lower CVaR(.1)": Null(
        lambda r, n: [r.normal(1.754983, 1, n), np.exp(2.125) - inflated(r, n, "lognormal")], "lower_cvar(0.1)", None,
        (50, 100, 500),
    ),
    "2 equal gamma(2) losses, lower CVaR(.1)": Null(
        lambda r, n: [-r.gamma(2, 3, n) for _ in range(2)], "lower_cvar(0.1)", None, (50, 200, 1000)
    ),
    "2 equal t(4), lower CVaR(.1)": Null(
        lambda r, n: [r.standard_t(4, n) for _ in range(2)], "lower_cvar(0.1)", None, (50, 200, 1000)
    ),
    "2 equal ratings 1 to 5, lower CVaR(.1)": Null(
        lambda r, n: [ratings(r, n) for _ in range(2)], "lower_cvar(0.1)", None, (50, 200, 1000)
    ),
    "2 equal rare losses .09, lower CVaR(.1), n and 10 n rewards": Null(
        lambda r, n: [-1.0 * (r.random(size) < 0.09) for size in (n, 10 * n)], "lower_cvar(0.1)", None, (50, 500)
    ),
    "5 equal normal, lower CVaR(.1)": Null(
        lambda r, n: [r.normal(0, 1, n) for _ in range(5)], "lower_cvar(0.1)", None, (50, 500)
    ),
    "2 equal normal, median": Null(
        lambda r, n: [r.normal(0, 1, n) for _ in range(2)], "var(0.5)", None, (50, 500)
    ),
    "2 equal ratings 1 to 5, median": Null(lambda r, n: [ratings(r, n) for _ in range(2)], "var(0.5)", None, (50, 500)),
    "A .4 to .6, B .3 to .5 or, with 1 %, 100 (B is better; 100 is often not seen)": Null(
        lambda r, n: [r.uniform(0.4, 0.6, n), np.where(r.random(n) < 0.01, 100.0, r.uniform(0.3, 0.5, n))],
        "mean", pmb.Interval(0, 100), (50, 100, 200, 400), ("0",), hidden=True,
    ),
}  # fmt: skip

# Two arms of which the second is ahead by 2.5 standard errors, beside others that are far behind; metric and support.
TAME: dict[str, tuple[Callable[[np.random.Generator, int], tuple[list[np.ndarray], list[np.ndarray]]], Any]] = {
    "normal": (lambda r, n: (ahead(r.normal(0, 1, n), r.normal(0, 1, n)), []), None),
    "normal, declared range -500 to 500": (
        lambda r, n: (ahead(r.normal(0, 1, n), r.normal(0, 1, n)), []), pmb.Interval(-500, 500),
    ),
    "Beta(2, 5), declared range 0 to 1.5": (
        lambda r, n: (ahead(r.beta(2, 5, n), r.beta(2, 5, n), 0.16), []), pmb.Interval(0, 1.5),
    ),
    "Beta(2, 5), declared range -50 to 50": (
        lambda r, n: (ahead(r.beta(2, 5, n), r.beta(2, 5, n), 0.16), []), pmb.Interval(-50, 50),
    ),
    "exponential": (lambda r, n: (ahead(r.exponential(1, n), r.exponential(1, n)), []), None),
    "normal, a third arm with an outlier": (
        lambda r, n: (ahead(r.normal(0, 1, n), r.normal(0, 1, n)), [with_outlier(r, n) - 3.0]), None,
    ),
    "normal, a third arm with 3 rewards": (
        lambda r, n: (ahead(r.normal(0, 1, n), r.normal(0, 1, n)), [r.normal(0, 1, 3)]), None,
    ),
    "normal, n and 10 n rewards": (lambda r, n: (ahead(r.normal(0, 1, n), r.normal(0, 1, 10 * n)), []), None),
}  # fmt: skip

# (arms, metric, support, percent called real by the version before, of 100 data sets with 50, 200 and 1,000 rewards)
GAINS: dict[str, tuple[Draw, str, pmb.Support | None, tuple[str, str, str]]] = {
    "coins .4, .9: Gini gains .01": (
        lambda r, n: [r.binomial(1, p, n) for p in (0.4, 0.9)], "gini", None, ("10", "16", "95"),
    ),
    "normal 1, 3, 5: Gini gains .72": (
        lambda r, n: [np.clip(r.normal(m, 1, n), -4, 10) for m in (1, 3, 5)],
        "gini", pmb.Interval(-4, 10), ("100", "100", "100"),
    ),
    "normal 0, 1: Gini gains .06": (
        lambda r, n: [np.clip(r.normal(m, 1, n), -5, 6) for m in (0, 1)], "gini", pmb.Interval(-5, 6), ("0", "6", "96"),
    ),
    "Beta(5, 5), (6, 5): mean .045 ahead": (
        lambda r, n: [r.beta(5, 5, n), r.beta(6, 5, n)], "mean", UNIT, ("10", "48", "100"),
    ),
    "4 Beta arms: lower CVaR(.1) .1 ahead": (
        lambda r, n: [r.beta(a, 5, n) for a in (2, 2, 3, 5)], "lower_cvar(0.1)", UNIT, ("0", "8", "100"),
    ),
}  # fmt: skip

# (arms, their laws, metric, support, bias before in percent)
WORTH: dict[str, tuple[Draw, list[Any], str, pmb.Support | None, int, str]] = {
    "mean, 4 equal Beta(2, 5), n = 50": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(4)], [st.beta(2, 5)] * 4, "mean", UNIT, 50, "+8.8 %",
    ),
    "lower CVaR(.1), 4 equal Beta(2, 5), n = 200": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(4)], [st.beta(2, 5)] * 4, "lower_cvar(0.1)", UNIT, 200, "+16.6 %",
    ),
    "mean, 4 equal zero-inflated exponential, n = 100": (
        lambda r, n: [inflated(r, n, "exponential") for _ in range(4)], [0.5] * 4, "mean", None, 100, "+46 %",
    ),
    "Gini, Beta(2, 6), (6, 3), (1.2, 1.1), n = 100": (
        lambda r, n: [r.beta(a, b, n) for a, b in ((2, 6), (6, 3), (1.2, 1.1))],
        [st.beta(2, 6), st.beta(6, 3), st.beta(1.2, 1.1)], "gini", UNIT, 100, "–",
    ),
    "Gini, coins .2 and .8, where the best mixture is at the top of h, n = 100": (
        lambda r, n: [(r.random(n) < p).astype(float) for p in (0.2, 0.8)],
        [st.bernoulli(0.2), st.bernoulli(0.8)], "gini", pmb.Binary(), 100, "–",
    ),
    "mean, Beta(2, 6), (6, 3), (1.2, 1.1), n = 100": (
        lambda r, n: [r.beta(a, b, n) for a, b in ((2, 6), (6, 3), (1.2, 1.1))],
        [st.beta(2, 6), st.beta(6, 3), st.beta(1.2, 1.1)], "mean", UNIT, 100, "–",
    ),
    "CVaR(.9), 3 equal Beta(2, 5), n = 200": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(3)], [st.beta(2, 5)] * 3, "upper_cvar(0.9)", UNIT, 200, "–",
    ),
    "mean, normal 0, 0, 0, 1 (sd 5), n = 100: 1.4 standard errors ahead": (
        lambda r, n: [r.normal(m, 5, n) for m in (0, 0, 0, 1)],
        [st.norm(0, 5), st.norm(0, 5), st.norm(0, 5), st.norm(1, 5)], "mean", None, 100, "–",
    ),
    "mean, exponential 1,027, 950, 940, 930, n = 300": (
        lambda r, n: [r.exponential(m, n) for m in (1027, 950, 940, 930)],
        [st.expon(scale=m) for m in (1027, 950, 940, 930)], "mean", None, 300, "–",
    ),
    "mean, exponential 1,027, 700, 650, 600, n = 300": (
        lambda r, n: [r.exponential(m, n) for m in (1027, 700, 650, 600)],
        [st.expon(scale=m) for m in (1027, 700, 650, 600)], "mean", None, 300, "–",
    ),
    "Wang, 2 Pareto 2.5, n = 500, no limits known": (
        lambda r, n: [r.pareto(2.5, n) for _ in range(2)], [st.lomax(2.5)] * 2, "wang_right_tail", None, 500, "–",
    ),
}  # fmt: skip

# Mixtures of arms for preferences that value both ends, and for Gini; the laws say what a mixture is truly worth.
MIXED: dict[str, tuple[Draw, list[Any], str, int]] = {
    "inverted_s(.5), normal 45 and 49 (sd 10)": (
        lambda r, n: [r.normal(m, 10, n) for m in (45, 49)], [st.norm(45, 10), st.norm(49, 10)], "inverted_s(0.5)", 100,
    ),
    "pht(.5), Beta(2, 5) and (3, 5)": (
        lambda r, n: [r.beta(a, 5, n) for a in (2, 3)], [st.beta(2, 5), st.beta(3, 5)], "pht(0.5)", 100,
    ),
    "Gini, Beta(2, 6), (6, 3), (1.2, 1.1)": (
        lambda r, n: [r.beta(a, b, n) for a, b in ((2, 6), (6, 3), (1.2, 1.1))],
        [st.beta(2, 6), st.beta(6, 3), st.beta(1.2, 1.1)], "gini", 100,
    ),
    "Gini, 2 equal Beta(2, 5)": (
        lambda r, n: [r.beta(2, 5, n) for _ in range(2)], [st.beta(2, 5)] * 2, "gini", 100,
    ),
}  # fmt: skip

MORE: dict[str, tuple[Draw, str, pmb.Support | None, int]] = {
    "2 normal, .2 apart, mean": (lambda r, n: [r.normal(m, 1, n) for m in (0, 0.2)], "mean", None, 100),
    "2 normal, .1 apart, mean": (lambda r, n: [r.normal(m, 1, n) for m in (0, 0.1)], "mean", None, 100),
    "the same, declared range -500 to 500": (
        lambda r, n: [r.normal(m, 1, n) for m in (0, 0.1)], "mean", pmb.Interval(-500, 500), 100,
    ),
    "4 Beta arms, mean": (lambda r, n: [r.beta(a, 5, n) for a in (4, 4.2, 4.4, 4.9)], "mean", UNIT, 100),
    "2 coins .40, .45, mean": (lambda r, n: [r.binomial(1, p, n) for p in (0.4, 0.45)], "mean", None, 300),
    "2 exponential, 1 and 1.2, mean": (lambda r, n: [r.exponential(m, n) for m in (1, 1.2)], "mean", None, 100),
    "2 Beta arms, lower CVaR(.1)": (lambda r, n: [r.beta(a, 5, n) for a in (4, 4.4)], "lower_cvar(0.1)", UNIT, 100),
    "coins .38, .9, Gini": (lambda r, n: [r.binomial(1, p, n) for p in (0.38, 0.9)], "gini", None, 150),
    "2 identical Beta(2, 5), mean": (lambda r, n: [r.beta(2, 5, n) for _ in range(2)], "mean", UNIT, 100),
}  # fmt: skip
