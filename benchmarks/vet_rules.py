"""A change of Vet's rule beside the rule before, on random problems that are in no comparison of the documentation.

    python -m benchmarks.vet_rules play old.json        # with the rule before: mean regret of each problem
    python -m benchmarks.vet_rules play new.json        # with the new one
    python -m benchmarks.vet_rules compare old.json new.json

``play FILE 0 40`` plays the problems 0 to 39 only, and ``play FILE 0 400 coins`` only those of a kind. Problem k is
drawn from the generator with the seed (20261119, k), and its kind goes round:

* ``flat``: 2 to 6 coins, means uniform on .02 to .98; h with a flat top: upper CVaR, inter-ES range, or their sum.
* ``coins``: 2 to 6 coins; mean, Gini, Wang, dual power, PHT, Gini + mean, mean-median deviation.
* ``atoms``: 2 to 5 distributions on 3 to 15 equal steps, from a Dirichlet distribution; the same metrics, upper CVaR,
  and convex ones.
* ``rare``: 2 to 4 arms that pay mostly little, and rarely (.3 to 5 %) up to 1; PHT, Wang, upper CVaR, mean.
* ``bins``: 2 to 6 Beta or truncated normal arms on 100 equal cells; Gini, Wang, PHT, mean, upper CVaR.

``play FILE 1000 1240`` plays other kinds, all on 100 equal cells of [0, 1], which ask what is known about tails:

* ``neither``: Beta or truncated normal arms; h is neither concave nor convex.
* ``convex``: the same arms; lower CVaR, a Wang transform with a negative shift, mean less Gini.
* ``light``: normal arms of one width (.04 to .1); concave h.
* ``lottery``: narrow normal arms. Each but the first pays .9 to 1 in 1 to 10 % of the rounds, with a chance of ½.
* ``humps``: arms of 2 to 4 narrow humps; concave h.
* ``skewed``: Beta arms with one parameter of .3 to 1 and the other of 1 to 6; concave h.

``play FILE 2000 2240`` plays the last three with metrics of the other shapes: ``convex lottery`` (turned around, so
that the rare rewards are 0 to .1), ``convex humps``, and so on.

A rule earns its place if the geometric mean of the ratios of mean regrets, new ÷ old, over all problems is at most 1.
Regrets below 1e-7 of the range count as that, so that next to nothing divided by next to nothing is 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import scipy.stats as st

import pmbandits as pmb

SEED = 20261119
PROBLEMS = 400
HORIZONS = (1_000, 10_000)
KINDS = ("flat", "coins", "atoms", "rare", "bins")
TAIL_KINDS = ("neither", "convex", "light", "lottery", "humps", "skewed")
OTHER_TAIL_KINDS = tuple(f"{shape} {kind}" for shape in ("convex", "neither") for kind in TAIL_KINDS[3:])
ALL_KINDS = KINDS + TAIL_KINDS + OTHER_TAIL_KINDS
FIRST_OF_TAILS, FIRST_OF_OTHERS = 1_000, 2_000  # the numbers of the first problems of these kinds
TRIALS = {"flat": 200, "coins": 200, "atoms": 24, "rare": 48, "bins": 12} | dict.fromkeys(
    TAIL_KINDS + OTHER_TAIL_KINDS, 24
)
FLOOR = 1e-7


def kind_of(number: int) -> str:
    """The kind of the problem with this number."""
    kinds = KINDS if number < FIRST_OF_TAILS else TAIL_KINDS if number < FIRST_OF_OTHERS else OTHER_TAIL_KINDS
    return kinds[number % len(kinds)]


def metric_of(kind: str, rng: np.random.Generator) -> pmb.Distortion:
    """A metric at random for problems of a kind."""
    level, m = float(np.round(rng.uniform(0.1, 0.9), 3)), float(np.round(rng.uniform(0.1, 1.0), 3))
    smooth: list[pmb.Distortion] = [
        pmb.Mean(), pmb.GiniDeviation(), pmb.WangRightTail(), pmb.DualPower(1.0 + 2.0 * m), pmb.PHT(level),
        pmb.GiniDeviation() + m * pmb.Mean(), pmb.MeanMedianDeviation(),
    ]  # fmt: skip
    choices: dict[str, list[pmb.Distortion]] = {
        "flat": [pmb.UpperCVaR(level), pmb.InterESRange(level), pmb.UpperCVaR(level) + m * pmb.InterESRange(level)],
        "coins": smooth,
        "atoms": [*smooth, pmb.UpperCVaR(level), pmb.LowerCVaR(level), pmb.WangTransform(-level)],
        "rare": [pmb.PHT(0.5), pmb.PHT(level), pmb.WangRightTail(), pmb.UpperCVaR(level), pmb.Mean()],
        "bins": [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.PHT(0.5), pmb.Mean(), pmb.UpperCVaR(level)],
        "neither": [
            pmb.InvertedS(0.3 + 2.0 * level),
            pmb.InvertedS(0.3 + m) - m * pmb.Mean(),
            pmb.TverskyKahneman(0.35 + m / 2),
            pmb.InvertedS(0.3 + level) + m * pmb.GiniDeviation(),
        ],
        "convex": [pmb.LowerCVaR(level), pmb.WangTransform(-m), pmb.Mean() - level * pmb.GiniDeviation()],
    } | {key: [*smooth, pmb.UpperCVaR(level)] for key in ("light", "lottery", "humps", "skewed")}
    mine = choices[kind if kind not in OTHER_TAIL_KINDS else kind.split()[0]]
    return mine[int(rng.integers(len(mine)))]


def rare_arms(rng: np.random.Generator) -> pmb.Bandit:
    """Arms that pay little, and rarely much; on up to 12 values, or on 101."""
    fine, arms = rng.random() < 0.5, []
    grid = np.linspace(0.0, 1.0, 101 if fine else 11)
    for _ in range(int(rng.integers(2, 5))):
        chances = st.binom(grid.size - 1, rng.uniform(0.02, 0.5)).pmf(np.arange(grid.size))
        if rng.random() < 0.6:
            large = int(rng.integers(grid.size // 2, grid.size))
            chances *= 1.0 - (share := float(np.exp(rng.uniform(np.log(0.003), np.log(0.05)))))
            chances[large] += share
        arms.append(chances / chances.sum())
    return on_grid(grid, np.array(arms))


def rises_of_tails(kind: str, edges: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The distribution functions of the arms of a problem about tails, at the edges of the cells."""
    count, width = int(rng.integers(2, 6)), rng.uniform(0.04, 0.1)
    rises = []
    for i in range(count):
        centre = rng.uniform(0.2, 0.8)
        if kind == "light":
            rise = st.norm(centre, width).cdf(edges)
        elif kind == "lottery":
            rise = st.norm(0.5 * centre, 0.3 * width).cdf(edges)
            if i > 0 and rng.random() < 0.5:
                share = float(np.exp(rng.uniform(np.log(0.01), np.log(0.1))))
                rise = (1.0 - share) * rise + share * st.uniform(0.9, 0.1).cdf(edges)
        elif kind == "humps":
            size = int(rng.integers(2, 5))
            places, shares = rng.uniform(0.05, 0.95, size), rng.dirichlet(np.ones(size))
            rise = st.norm(places, 0.02).cdf(edges[:, None]) @ shares
        elif kind == "skewed":
            shape = rng.permutation([rng.uniform(0.3, 1.0), rng.uniform(1.0, 6.0)])
            rise = st.beta(*shape).cdf(edges)
        elif rng.random() < 0.5:
            rise = st.beta(*rng.uniform(0.5, 5.0, 2)).cdf(edges)
        else:
            rise = st.norm(centre, 0.08).cdf(edges)
        rises.append(np.asarray(rise))
    return rises


def on_grid(grid: np.ndarray, chances: np.ndarray) -> pmb.Bandit:
    """Arms with these chances, one row an arm, on points that the policy knows."""
    chances = np.where(chances < 1e-12, 0.0, chances)
    chances /= chances.sum(axis=1, keepdims=True)
    arms = [st.rv_discrete(values=(grid[p > 0], p[p > 0] / p.sum())) for p in chances]
    return pmb.Bandit(arms, support=pmb.Finite(grid))


def problem(number: int) -> tuple[str, pmb.Distortion, pmb.Bandit]:
    """The kind, the metric and the arms of the problem with this number."""
    kind, rng = kind_of(number), np.random.default_rng([SEED, number])
    metric = metric_of(kind, rng)
    if kind in ("flat", "coins"):
        return kind, metric, pmb.Bandit.bernoulli(np.round(rng.uniform(0.02, 0.98, int(rng.integers(2, 7))), 4))
    if kind == "atoms":
        k, size = int(rng.integers(2, 6)), int(rng.integers(3, 16))
        return kind, metric, on_grid(np.linspace(0.0, 1.0, size), rng.dirichlet(np.full(size, 0.7), k))
    if kind == "rare":
        return kind, metric, rare_arms(rng)
    edges, rows = np.linspace(0.0, 1.0, 101), []
    if kind in TAIL_KINDS + OTHER_TAIL_KINDS:
        rows = [np.diff(rise) for rise in rises_of_tails(kind.split()[-1], edges, rng)]
        if kind == "convex lottery":
            rows = [row[::-1] for row in rows]
        return kind, metric, on_grid(0.5 * (edges[1:] + edges[:-1]), np.array(rows))
    for _ in range(int(rng.integers(2, 7))):
        shape = st.beta(*rng.uniform(0.5, 5.0, 2)) if rng.random() < 0.5 else st.norm(rng.uniform(0.2, 0.8), 0.08)
        rows.append(np.diff(shape.cdf(edges)))
    return kind, metric, on_grid(0.5 * (edges[1:] + edges[:-1]), np.array(rows))


def play(path: Path, first: int, last: int, kinds: tuple[str, ...]) -> None:
    """Mean regrets after both horizons, of all problems that the file does not have yet."""
    found = json.loads(path.read_text()) if path.is_file() else {}
    for number in range(first, last):
        if kind_of(number) not in kinds or str(number) in found:
            continue
        kind, metric, bandit = problem(number)
        run = pmb.simulate(
            metric, bandit, {"it": pmb.Vet()}, HORIZONS[-1], TRIALS[kind], SEED, checkpoints=list(HORIZONS), n_jobs=1,
            progress=False,
        )  # fmt: skip
        found[str(number)] = np.maximum(run.regret("it")[1], 0.0).mean(axis=0).tolist()
        path.write_text(json.dumps(found))


def compare(old: Path, new: Path) -> None:
    """Geometric mean, least and largest ratio, new ÷ old, by kind and horizon."""
    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    both = sorted(set(before) & set(after), key=int)
    for kind in (*ALL_KINDS, "all"):
        mine = [k for k in both if kind in ("all", kind_of(int(k)))]
        if not mine:
            continue
        ratio = np.array([np.add(after[k], FLOOR) / np.add(before[k], FLOOR) for k in mine])
        for column, t in enumerate(HORIZONS):
            one = ratio[:, column]
            middle, worst = np.exp(np.log(one).mean()), mine[int(one.argmax())]
            print(
                f"{kind:15} T = {t:6,}: {len(mine):3} problems, {int((one != 1.0).sum())} differ, geometric mean "
                f"{middle:.3f}, least {one.min():.2f}, largest {one.max():.2f} on problem {worst}"
            )


def main() -> None:
    if sys.argv[1] == "compare":
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    first, last = (int(x) for x in sys.argv[3:5]) if len(sys.argv) > 4 else (0, PROBLEMS)
    play(Path(sys.argv[2]), first, last, tuple(sys.argv[5:]) or ALL_KINDS)


if __name__ == "__main__":
    main()
