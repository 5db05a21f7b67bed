"""Rounds until a regret is certain, beside what any rule must take: ``python -m benchmarks.factors``.

Instances, seeds and trials were fixed before the first run. Alternatives to the true arms are those for which the best
mixture loses more than the goal. A rule that is wrong with probability δ at most must see
Σ n_i·KL(arm i, alternative i) ≥ kl(δ, 1 − δ) on average, for every alternative. So its rounds are at least
kl(δ, 1 − δ)/max_w min_alternative Σ w_i·KL_i (Garivier and Kaufmann 2016). This is for rules that answer with the best
mixture. Others are good enough, too, and one of them may be easier to prove: "any answer" takes the smallest bound of
all answers on a grid (Degenne and Koolen 2019). Alternatives and w lie on grids.

Of Beta arms only the rounds are counted: a third of the rounds is a third of the factor.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import scipy.stats as st

import pmbandits as pmb
from benchmarks.certainty import certified, marks, until

SHARES, DELTA, TRIALS = (0.1, 0.05, 0.01), 0.05, 20
NEEDED = (1 - 2 * DELTA) * np.log((1 - DELTA) / DELTA)  # kl(δ, 1 − δ)
METRICS = {
    "Gini": pmb.GiniDeviation(),
    "Wang": pmb.WangRightTail(),
    "quadratic": pmb.Quadratic(0.5),
    "CVaR(.9)": pmb.UpperCVaR(0.9),
}
COINS = [(0.4, 0.9), (0.2, 0.5, 0.7)]
_random = np.random.default_rng(34)  # and six that nobody chose
COINS += [tuple(float(p) for p in _random.uniform(0.05, 0.95, 2 + k % 2).round(2)) for k in range(6)]
BETAS = [(2, 8), (5, 5), (8, 2)]
CERTIFY = (0.0, 0.1, 0.5, 0.95)
LAST = 300_000


def weights_on_simplex(k: int, steps: int) -> np.ndarray:
    """All weights that are multiples of 1/steps."""
    axes = np.meshgrid(*[np.arange(steps + 1)] * (k - 1), indexing="ij")
    first = np.stack([axis.ravel() for axis in axes], axis=1)
    first = first[first.sum(axis=1) <= steps]
    return np.column_stack((first, steps - first.sum(axis=1))) / steps


def kl(p: float, q: np.ndarray) -> np.ndarray:
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def coin_bound(metric: pmb.Distortion, p: tuple[float, ...], goal: float, answers: np.ndarray) -> float:
    """What any rule must take, for coins, if it gives one of these answers."""
    k, points = len(p), 401 if len(p) == 2 else 81
    # chances that are closer together near the true one
    grids = [np.unique(np.clip(x + np.linspace(-1, 1, points) ** 3 * 0.9, 0.002, 0.998)) for x in p]
    chances = np.stack([g.ravel() for g in np.meshgrid(*grids, indexing="ij")], axis=1)
    fine = np.linspace(0, 1, 2001)
    h = np.asarray(metric(fine))
    low = np.floor(chances.min(axis=1) * 2000).astype(int)
    high = np.ceil(chances.max(axis=1) * 2000).astype(int)
    peak = int(np.argmax(h))  # all metrics here rise to one peak, if they fall at all
    best = np.where(high < peak, h[high], np.where(low > peak, h[low], h[peak]))
    truly = h[np.ceil(min(p) * 2000).astype(int) : int(max(p) * 2000) + 1].max()
    info = np.stack([kl(x, chances[:, i]) for i, x in enumerate(p)], axis=1)
    pulls = weights_on_simplex(k, 50 if k == 2 else 20)
    least = np.inf
    for a in answers:
        if truly - float(metric(float(a @ np.array(p)))) > goal:
            continue
        wrong = info[best - np.asarray(metric(chances @ a)) > goal]
        largest = max(float((wrong @ w).min()) for w in pulls)
        least = min(least, NEEDED / largest)
    return least


def problems() -> list[tuple[str, pmb.Bandit, pmb.Distortion, str]]:
    out = [(f"coins {p}", pmb.Bandit.bernoulli(list(p)), name) for p in COINS for name in ("Gini", "Wang", "quadratic")]
    betas = pmb.Bandit([st.beta(*shape) for shape in BETAS], support=pmb.Interval(0, 1))
    out += [("Beta (2,8), (5,5), (8,2)", betas, name) for name in METRICS]
    return [(arms, bandit, METRICS[name], name) for arms, bandit, name in out]


def main() -> None:
    out = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "out/factors.json"))
    kept = json.loads(out.read_text()) if out.exists() else {}
    for arms, bandit, metric, name in problems():
        value = pmb.oracle(metric, bandit).value
        key, coins = f"{arms}, {name}", next((p for p in COINS if arms == f"coins {p}"), None)
        row = kept.setdefault(key, {})
        if "bound" not in row:
            goals = [share * value for share in SHARES]
            best = np.asarray(pmb.oracle(metric, bandit).weights)[None]
            row["bound"] = row["any answer"] = [float("nan")] * 3
            if coins is not None:
                every = np.concatenate((best, weights_on_simplex(len(coins), 40 if len(coins) == 2 else 12)))
                row["bound"] = [coin_bound(metric, coins, g, best) for g in goals]
                row["any answer"] = [coin_bound(metric, coins, g, every) for g in goals]
        at = marks(10, LAST, 1.03 if coins else 1.06)
        for share in CERTIFY:
            if f"{share}" in row:
                continue
            recipe, rows = pmb.Track(certify=share, estimates="exact" if coins else "binned:8192"), []
            for trial in range(TRIALS if coins else 5):
                found, _ = certified(recipe, bandit, metric, SHARES[-1] * value, at, trial)
                rows.append([until(found, at, part * value) for part in SHARES])
            row[f"{share}"] = [float(np.median(column)) for column in zip(*rows, strict=True)]
            factors = [round(t / b, 1) for t, b in zip(row[f"{share}"], row["bound"], strict=True)]
            print(key, [round(b, 1) for b in row["bound"]], share, row[f"{share}"], factors, flush=True)
            out.parent.mkdir(exist_ok=True)
            out.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
