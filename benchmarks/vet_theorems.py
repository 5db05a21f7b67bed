"""The theorems of ``docs/vet-regret.md`` beside what is measured: two coins, mean regret, and the lower bound.

    python -m benchmarks theorems     # about 3 minutes of one core

Each row has random numbers of its own, so that the rows can be judged apart. The numbers of one row are of one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from rich.progress import track
from rich.table import Table

import pmbandits as pmb

HORIZONS = (1_000, 10_000, 100_000)
TRIALS = 4_000
GINI, WANG = pmb.GiniDeviation(), pmb.WangRightTail()
MIXTURES = (
    (GINI, (0.4, 0.9)),
    (GINI, (0.2, 0.7)),
    (WANG, (0.1, 0.6)),
    (GINI + 0.4 * pmb.Mean(), (0.5, 0.8)),
    (GINI, (0.45, 0.55)),
)
SINGLE = ((GINI, 0.6, 0.9), (pmb.Mean(), 0.6, 0.4), (pmb.Mean(), 0.9, 0.5))  # metric, best coin, other coin


def kl(p: float, q: float) -> float:
    """Relative entropy of two coins."""
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


def peak(metric: pmb.Distortion) -> float:
    """u*: where h is largest."""
    u = np.linspace(0.0, 1.0, 1_000_001)
    return float(u[np.argmax(np.asarray(metric(u)))])


def bends(metric: pmb.Distortion, low: float, high: float) -> np.ndarray:
    """−h'' between two means, by differences."""
    u, step = np.linspace(low, high, 2001), 1e-4
    return np.asarray(2.0 * metric(u) - metric(u - step) - metric(u + step)) / step**2


def noise(p: tuple[float, float], best: float) -> float:
    """σ²: the variance of a reward when the best mixture is played."""
    share = (p[1] - best) / (p[1] - p[0])
    return share * p[0] * (1.0 - p[0]) + (1.0 - share) * p[1] * (1.0 - p[1])


def shifted(p: float, theta: np.ndarray) -> np.ndarray:
    """The coin whose log-odds are larger by θ."""
    return 1.0 / (1.0 + (1.0 - p) / p * np.exp(-theta))


def lower_bound(p: tuple[float, float], best: float, bend: float, horizon: int, delta: float) -> float:
    """The right side of Theorem 3, where −h'' is at least ``bend``, by quadrature; 0 if δ is too large."""
    theta = np.linspace(-delta, delta, 2001)
    one, two = shifted(p[0], theta), shifted(p[1], theta)
    if not one.max() < best < two.min():
        return 0.0
    share = (two - best) / (two - one)
    variance = share * one * (1.0 - one) + (1.0 - share) * two * (1.0 - two)
    weight = np.cos(0.5 * np.pi * theta / delta) ** 2
    weight /= weight.sum()
    most = np.maximum(one * (1.0 - one), two * (1.0 - two)) @ weight
    slope = (variance / (two - one)) @ weight
    return float(0.5 * bend * (two - one).min() ** 2 * slope**2 / (horizon * most + (np.pi / delta) ** 2))


def with_errors(values: np.ndarray) -> list[str]:
    """The mean of each column with its standard error."""
    errors = values.std(axis=0) / math.sqrt(len(values))
    return [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(values.mean(axis=0), errors, strict=True)]


def mixtures() -> Table:
    """Where a mixture is best: T·regret ÷ c, which tends to a number between 1 and 1.01."""
    table = Table(title=f"Two coins, a mixture is best: T·(mean regret of Vet) ÷ c, {TRIALS:,} trials")
    for head in ("h, coins", "c", *(f"T = {t:,}" for t in HORIZONS), "slope", "bound", "locked out"):
        table.add_column(head, justify="right")
    for number, (metric, p) in enumerate(track(MIXTURES, description="mixtures")):
        best = peak(metric)
        limit = 0.5 * float(bends(metric, best, best)[0]) * noise(p, best)
        run = pmb.simulate(
            metric, pmb.Bandit.bernoulli(list(p)), pmb.Vet(), HORIZONS[-1], TRIALS, 1000 + number,
            checkpoints=list(HORIZONS), progress=False, n_jobs=1,
        )  # fmt: skip
        regret, pulls = run.regret("Vet")[1], run.column("pulls", "Vet")[1].min(axis=2)
        scaled = regret * np.array(HORIZONS) / limit
        slope = np.polyfit(np.log(HORIZONS), np.log(regret.mean(axis=0)), 1)[0]
        bound = max(
            HORIZONS[-1] * lower_bound(p, best, float(bends(metric, 2e-4, 1.0 - 2e-4).min()), HORIZONS[-1], delta)
            for delta in np.geomspace(0.005, 0.5, 40)
        )
        locked = (pulls < np.log(HORIZONS) ** 2).mean(axis=0)
        table.add_row(
            f"{metric}, {p}", f"{limit:.3f}", *with_errors(scaled), f"{slope:.2f}",
            f"{bound / limit:.2f}", " ".join(f"{x:.1e}" for x in locked),
        )  # fmt: skip
    return table


def single_coins() -> Table:
    """Where one coin is best: pulls of the other one ÷ (log T/kl), which tends to 1."""
    table = Table(title=f"Two coins, one is best: pulls of the other one ÷ (log T/kl), {TRIALS:,} trials")
    for head in ("h, best, other", *(f"T = {t:,}" for t in HORIZONS), "from the index"):
        table.add_column(head, justify="right")
    for number, (metric, good, bad) in enumerate(track(SINGLE, description="single coins")):
        run = pmb.simulate(
            metric, pmb.Bandit.bernoulli([good, bad]), pmb.Vet(), HORIZONS[-1], TRIALS, 2000 + number,
            checkpoints=list(HORIZONS), progress=False, n_jobs=1,
        )  # fmt: skip
        unit = np.log(HORIZONS) / kl(bad, good)
        pulls = run.column("pulls", "Vet")[1][:, :, 1] / unit
        expected = np.array([pulls_by_index(good, bad, t, TRIALS, seed=number).mean() for t in HORIZONS]) / unit
        table.add_row(f"{metric}, {good}, {bad}", *with_errors(pulls), " ".join(f"{x:.2f}" for x in expected))
    return table


def pulls_by_index(good: float, bad: float, horizon: int, trials: int, seed: int) -> np.ndarray:
    """The least n at which n·kl(estimate, good) + log n ≥ log(T/2), for coins with the chance ``bad``.

    So many pulls it would get if the best coin were known.
    """
    n = np.arange(1, int(20 * math.log(horizon) / kl(bad, good)) + 20)
    heads = (np.random.default_rng(seed).random((trials, n.size)) < bad).cumsum(axis=1)
    p = heads / n
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(p > 0, p * np.log(p / good), 0.0) + np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - good)), 0.0)
    far[(p - good) * (good - bad) >= 0.0] = 0.0  # it looks better than the best one
    over = n * far + np.log(n) >= math.log(horizon / 2)
    assert over.any(axis=1).all()
    return np.asarray(n[over.argmax(axis=1)])


def tables() -> Iterator[Table]:
    """Both tables."""
    yield mixtures()
    yield single_coins()
