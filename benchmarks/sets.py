"""Confidence sets: how wide they are beside the old ones, how much wider than needed, what they cost, and the regret.

Seconds are those of the processor; all ratios are within one run. ``QUICK=1`` plays fewer runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.stats as st
from rich.table import Table

import pmbandits as pmb
from pmbandits.confidence import berk_jones, confidence_set
from pmbandits.confidence._bounds import mixture_utility_with_bounds

QUICK = bool(os.environ.get("QUICK"))
UNIT = pmb.Interval(0, 1)
METRICS = ("gini", "wang_right_tail", "upper_cvar(0.9)", "lower_cvar(0.1)", "mean")
DELTA = 0.05


def tables() -> Iterator[Table]:
    yield widths()
    yield once()
    yield factors()
    yield values()
    yield cost()
    yield regret()


def told(metric: str, support: Any, rewards: np.ndarray, confidence: str, arms: int = 1) -> Any:
    policy = pmb.Track(metric, n_arms=arms, support=support, confidence=confidence, delta=DELTA)
    policy.tell(np.arange(rewards.size) % arms, rewards)
    return policy


def widths() -> Table:
    table = Table(title="Upper − lower bound of U_h of one arm, kl ÷ dkw, at all times")
    for column in ("law", "n", *METRICS):
        table.add_column(column, justify="left" if column == "law" else "right")
    for distribution in ((2, 5), (5, 5), (0.1, 0.1)):
        for n in (1000, 10_000) if QUICK else (1000, 10_000, 100_000):
            x = np.random.default_rng(1).beta(*distribution, n)
            row = []
            for metric in METRICS:
                found = [told(metric, UNIT, x, name).utility_bounds([1.0]) for name in ("kl", "dkw")]
                row.append(f"{(found[0][2] - found[0][0]) / (found[1][2] - found[1][0]):.2f}")
            table.add_row(f"Beta{distribution}", f"{n:,}", *row)
    return table


def once() -> Table:
    table = Table(title="Berk and Jones ÷ Dvoretzky, Kiefer and Wolfowitz, Beta(2, 5), looked at once")
    for column in ("n", "gini", "wang_right_tail", "upper_cvar(0.9)"):
        table.add_column(column, justify="right")
    for n in (200, 1000):
        x = np.sort(np.random.default_rng(1).beta(2, 5, n))
        cells, k = np.diff(np.concatenate(([0.0], x, [1.0]))), np.arange(n, -1, -1)
        even = np.sqrt(np.log(2 / DELTA) / (2 * n))
        ends = [
            berk_jones(n, 1 - DELTA),
            (np.maximum(np.arange(n + 1) / n - even, 0), np.minimum(np.arange(n + 1) / n + even, 1)),
        ]
        row = []
        for name in ("gini", "wang_right_tail", "upper_cvar(0.9)"):
            h = pmb.metric(name)
            spread = []
            for lo, hi in ends:
                inside = ((w, a, b) for w, a, b in zip(cells, lo[k], hi[k], strict=True) if w > 0)
                spread.append(sum(w * (h.maximum(a, b).value - h.minimum(a, b).value) for w, a, b in inside))
            row.append(f"{spread[0] / spread[1]:.2f}")
        table.add_row(f"{n:,}", *row)
    return table


# ---- how much wider than what would just give δ, at all times ----------------------------------------------

LOOKS = np.unique(np.geomspace(1, 5000, 70).astype(int))


def entropy(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(p > 0, p * np.log(p / q), 0.0)
        return one + np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)


def continuous(rng: np.random.Generator, radius: np.ndarray, shape: str) -> float:
    """The largest share of its radius that a set needs, over all looks, for a continuous law."""
    ranks, most = rng.random(LOOKS[-1]), 0.0
    for n, r in zip(LOOKS.tolist(), radius, strict=True):
        u = np.sort(ranks[:n])
        for p in (np.arange(n) / n, np.arange(1, n + 1) / n):
            most = max(most, float((entropy(p, u) if shape == "kl_band" else np.abs(p - u)).max()) / r)
    return most


def coin(rng: np.random.Generator, p: float, radius: np.ndarray, shape: str) -> float:
    """The same for a coin, at all n up to the last look."""
    n = np.arange(1, LOOKS[-1] + 1)
    share = np.cumsum(rng.random(n.size) < p) / n
    return float(((entropy(share, np.full(n.size, p)) if shape != "band" else np.abs(share - p)) / radius).max())


def normal(rng: np.random.Generator, radius: np.ndarray) -> float:
    """The same for the Wasserstein distance of a normal sample from its law."""
    rewards, most = rng.standard_normal(LOOKS[-1]), 0.0

    def area(x: np.ndarray) -> np.ndarray:  # ∫ Φ
        return x * st.norm.cdf(x) + st.norm.pdf(x)

    for n, r in zip(LOOKS.tolist(), radius, strict=True):
        x = np.sort(rewards[:n])
        level = np.arange(1, n) / n
        middle = np.clip(st.norm.ppf(level), x[:-1], x[1:])
        inside = level * (2 * middle - x[:-1] - x[1:]) - 2 * area(middle) + area(x[:-1]) + area(x[1:])
        ends = area(x[:1])[0] + area(-x[-1:])[0]
        most = max(most, float(inside.sum() + ends) / r)
    return most


# Sub-Gaussian laws with their smallest σ: Kearns and Saul's for a coin, Marchal and Arbel's bound for Beta(1, 9).
LINE: dict[str, tuple[Any, float]] = {
    "N(0, 1)": (st.norm(), 1.0),
    "±1": (0.5, 1.0),  # a coin: chance, and σ for rewards of 0 and 1 times 2
    "skewed coin": (0.1, float(np.sqrt(0.8 / (2 * np.log(9))))),
    "Beta(1, 9)": (st.beta(1, 9), float(np.sqrt(1 / 44))),
}


def on_the_line(rng: np.random.Generator, name: str) -> float:
    """The largest share of their radii that the belt and the interval of the mean need, over all n up to the last."""
    distribution, sigma = LINE[name]
    chosen = confidence_set("kl", pmb.Real(sigma), 1, delta=DELTA)
    every = np.arange(1, LOOKS[-1] + 1)
    of_mean = sigma * np.sqrt((every + 1) * np.log((every + 1) / chosen.mean_failure**2)) / every
    if isinstance(distribution, float):
        x, level = (rng.random(every.size) < distribution).astype(float), distribution
        scale = 2.0 if name == "±1" else 1.0
        need = np.sqrt(entropy(np.cumsum(x) / every, np.full(every.size, level)) / chosen.radius(every)).max()
        return max(float(need), float((scale * np.abs(np.cumsum(x) / every - level) / of_mean).max()))
    x = distribution.rvs(size=every.size, random_state=rng)
    need = float((np.abs(np.cumsum(x) / every - distribution.mean()) / of_mean).max())
    ranks = distribution.cdf(x)
    for n, r in zip(LOOKS.tolist(), chosen.radius(LOOKS), strict=True):
        u = np.sort(ranks[:n])
        for p in (np.arange(n) / n, np.arange(1, n + 1) / n):
            need = max(need, float(np.sqrt(entropy(p, u).max() / r)))
    return need


def values() -> Table:
    """The same of what the sets say about utilities, which is wider: they must hold for all metrics at once."""
    runs, looks = (40 if QUICK else 200), np.unique(np.geomspace(1, 5000, 24).astype(int))
    table = Table(
        title=f"Limits of U_h ÷ what would just fail with probability {DELTA} for this metric, N(0, 1), {runs} runs"
    )
    for column in ("metric", "kl", "wasserstein", "width kl / wasserstein, n = 10, 100, 1,000, 5,000"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for metric in ("gini", "upper_cvar(0.9)", "mean", "quadratic(0.5)", "wang_right_tail"):
        truth = float(pmb.metric(metric).value(st.norm()))
        needed: dict[str, list[float]] = {"kl": [], "wasserstein": []}
        widths: dict[str, list[float]] = {"kl": [], "wasserstein": []}
        for name in needed:
            if pmb.Track(metric, n_arms=1, support=pmb.Real(1), confidence=name).confidence is None:
                continue
            for run in range(runs):
                x = np.random.default_rng([run, 6]).standard_normal(looks[-1])
                policy = pmb.Track(metric, n_arms=1, support=pmb.Real(1), confidence=name, delta=DELTA)
                most, before = 0.0, 0
                for n in looks.tolist():
                    policy.tell(0, x[before:n])
                    before = n
                    low, middle, high = policy.utility_bounds([1.0])
                    most = max(most, (truth - middle) / (high - middle), (middle - truth) / (middle - low))
                needed[name].append(most)
            for n in (10, 100, 1000, 5000):
                x = np.random.default_rng(7).standard_normal(n)
                low, _, high = told(metric, pmb.Real(1), x, name).utility_bounds([1.0])
                widths[name].append(high - low)
        factor = {name: f"{1 / np.quantile(row, 1 - DELTA):.2f}" if row else "no bound" for name, row in needed.items()}
        ratio = ", ".join(f"{a / b:.2f}" for a, b in zip(widths["kl"], widths["wasserstein"], strict=False))
        table.add_row(metric, factor["kl"], factor["wasserstein"], ratio or "–")
    return table


def factors() -> Table:
    runs = 200 if QUICK else 1000
    table = Table(
        title=f"Width ÷ what would just fail with probability {DELTA}, at all times, {runs} runs (goals 1.3, 1.5, 2)"
    )
    for column in ("law", "set", "failures", "factor"):
        table.add_column(column, justify="left" if column in ("law", "set") else "right")
    every = np.arange(1, LOOKS[-1] + 1)

    def add(distribution: str, name: str, needed: np.ndarray, squared: bool) -> None:
        just = np.quantile(needed, 1 - DELTA)
        table.add_row(distribution, name, f"{(needed > 1).mean():.4f}", f"{(just**-0.5 if squared else 1 / just):.2f}")

    for name, shape in (("kl", "kl_band"), ("dkw", "band")):
        radius = confidence_set(name, UNIT, 1, delta=DELTA).radius(LOOKS)
        needed = np.array([continuous(np.random.default_rng([k, 1]), radius, shape) for k in range(runs)])
        add("continuous", name, needed, shape == "kl_band")
    for p in (0.5, 0.1, 0.01, 0.001):
        for name, support in (("kl", pmb.Binary()), ("kl", UNIT), ("dkw", UNIT)):
            shape = "band" if name == "dkw" else "kl_band"
            radius = confidence_set(name, support, 1, delta=DELTA).radius(every)
            needed = np.array([coin(np.random.default_rng([k, 2]), p, radius, shape) for k in range(runs)])
            add(f"Bernoulli({p})", f"{name}, {type(support).__name__}", needed, shape == "kl_band")
    stitched = confidence_set("wasserstein", pmb.Real(1), 1, delta=DELTA).radius(every)
    for distribution in LINE:
        needed = np.array([on_the_line(np.random.default_rng([k, 3]), distribution) for k in range(runs)])
        add(distribution, "kl, Real", needed, False)
    few = [normal(np.random.default_rng([k, 3]), stitched[LOOKS - 1]) for k in range(runs // 4)]
    add("N(0, 1)", "wasserstein, Real", np.array(few), False)
    needed = np.array([2 * coin(np.random.default_rng([k, 4]), 0.5, stitched, "band") for k in range(runs)])
    add("±1", "wasserstein, Real", needed, False)
    return table


# ---- what it costs, and what it gives ------------------------------------------------------------------------


def cost() -> Table:
    table = Table(title="Nanoseconds a reward of utility_bounds (three passes, three arms)")
    for column in ("metric", "n", "dkw", "kl", "kl / dkw"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for metric in ("gini", "wang_right_tail", "upper_cvar(0.9)"):
        for n in (1000, 10_000, 100_000):
            spent = []
            for name in ("dkw", "kl"):
                memory = told(metric, UNIT, np.random.default_rng(3).beta(2, 5, n), name, 3)._memory_with_radii()
                a, repeat = np.array([0.3, 0.3, 0.4]), max(3, 300_000 // n)
                mixture_utility_with_bounds(memory, a)
                start = time.process_time()
                for _ in range(repeat):
                    mixture_utility_with_bounds(memory, a)
                spent.append((time.process_time() - start) / repeat / n * 1e9)
            table.add_row(metric, f"{n:,}", *(f"{ns:.1f}" for ns in spent), f"{spent[1] / spent[0]:.2f}")
    return table


def regret() -> Table:
    horizon, trials = (1000, 4) if QUICK else (5000, 20)
    table = Table(
        title=f"Regret after {horizon:,} rounds, Beta(2,8), (5,5), (8,2), {trials} trials, the same rewards; µs a round"
    )
    for column in ("policy", "metric", "dkw ± s.e.", "kl ± s.e.", "µs dkw", "µs kl"):
        table.add_column(column, justify="left" if column in ("policy", "metric") else "right")
    bandit = pmb.Bandit([st.beta(2, 8), st.beta(5, 5), st.beta(8, 2)], support=UNIT)
    makes: dict[str, Any] = {
        "PM-UCB-M": lambda name: pmb.PMUCB(horizon=horizon, epsilon=1 / 8, confidence=name),
        "CE-UCB-M": lambda name: pmb.CEUCB(horizon=horizon, epsilon=1 / 8, confidence=name),
        "CIRT": lambda name: pmb.CIRT(confidence=name),
    }
    for policy, make in makes.items():
        for metric in ("gini", "wang_right_tail", "upper_cvar(0.9)"):
            found, spent = [], []
            for name in ("dkw", "kl"):
                start = time.process_time()
                run = pmb.simulate(
                    metric, bandit, {"it": make(name)}, horizon, trials, seed=5, n_jobs=1, progress=False
                )
                spent.append((time.process_time() - start) / (trials * horizon) * 1e6)
                last = run.column("regret", "it")[1][:, -1]
                found.append(f"{last.mean():.5f} ± {last.std(ddof=1) / np.sqrt(trials):.5f}")
            table.add_row(policy, metric, *found, *(f"{us:.0f}" for us in spent))
    return table
