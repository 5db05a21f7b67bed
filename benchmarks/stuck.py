"""A search for problems on which Vet is stuck: its regret does not fall between 1,000 and 100,000 rounds.

    python -m benchmarks.stuck                 # all problems
    python -m benchmarks.stuck 500 800         # the problems 500 to 799

The rule, written down before the run. Problem number k is drawn from the generator with the seed (20261118, k):

* Shape of h: concave, convex, or neither, with chances 1/4, 1/8 and 5/8, since the last is where Vet was stuck.
* Arms: 2 to 6 coins (half of the problems), with means that are uniform, near 0 or 1, or near each other; else 2 to 5
  distributions on 3 to 8 atoms, drawn from a Dirichlet distribution, whose parameter is 0.3 or 1.
* Trials: ``TRIALS`` of 100,000 rounds, and the mean regret after 1,000, 10,000 and 100,000.

A problem is a suspect if the mean regret after 100,000 rounds is not below that after 1,000, and is above ``FLOOR``
times the range of utilities: (largest − least reward)·(max h − min h). Below the floor no regret is called stuck. A
suspect is played again, ``AGAIN`` trials with other seeds, and is a failure if it is a suspect again. Where the oracle
has no certificate, the best utility that Vet played in any trial takes its place if it is larger.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats as st

import pmbandits as pmb

SEED = 20261118
PROBLEMS = 2400
HORIZONS = (1_000, 10_000, 100_000)
TRIALS, AGAIN = 4, 32
FLOOR = 1e-5


@dataclass(frozen=True)
class Problem:
    """A metric and arms."""

    metric: pmb.Distortion
    bandit: pmb.Bandit
    arms: str

    @property
    def scale(self) -> float:
        """The range of utilities: the range of rewards times that of h."""
        h = np.asarray(self.metric(np.linspace(0.0, 1.0, 2001)))
        return float(self.bandit.support.width * (h.max() - h.min()))


def metric(rng: np.random.Generator) -> Any:
    """A metric at random: concave, convex or neither."""
    kind, m = rng.random(), float(np.round(rng.uniform(0.05, 1.2), 3))
    level = float(np.round(rng.uniform(0.1, 0.9), 3))
    if kind < 0.25:
        concave = [
            pmb.GiniDeviation(), pmb.WangRightTail(), pmb.UpperCVaR(level), pmb.PHT(level), pmb.MeanMedianDeviation(),
            pmb.InterESRange(level), pmb.DualPower(1.0 + 3.0 * level), m * pmb.Mean() + pmb.GiniDeviation(),
            pmb.UpperCVaR(level) - 0.3 * m * pmb.Mean(), pmb.GiniDeviation() + m * pmb.UpperCVaR(level),
        ]  # fmt: skip
        return concave[rng.integers(len(concave))]
    if kind < 0.375:
        convex = [
            pmb.LowerCVaR(level), pmb.WangTransform(-level), pmb.Mean() - 0.8 * level * pmb.GiniDeviation(),
            m * pmb.LowerCVaR(level) - pmb.Mean(),
        ]  # fmt: skip
        return convex[rng.integers(len(convex))]
    beta = float(np.round(rng.uniform(0.3, 2.5), 4))
    gamma = float(np.round(rng.uniform(0.35, 0.9), 4))
    neither = [
        pmb.InvertedS(beta), pmb.InvertedS(beta) - m * pmb.Mean(), pmb.InvertedS(beta) + m * pmb.GiniDeviation(),
        pmb.InvertedS(beta) - m * pmb.GiniDeviation(), pmb.TverskyKahneman(gamma),
        pmb.TverskyKahneman(gamma) - m * pmb.Mean(), m * pmb.LowerCVaR(level) + pmb.UpperCVaR(level),
        pmb.LowerCVaR(level) - m * pmb.UpperCVaR(level), pmb.GiniDeviation() - m * pmb.WangRightTail(),
        pmb.UpperCVaR(level) - m * pmb.PHT(0.5),
    ]  # fmt: skip
    return neither[rng.integers(len(neither))]


def problem(number: int) -> Problem:
    """The problem with this number."""
    rng = np.random.default_rng([SEED, number])
    chosen = metric(rng)
    if rng.random() < 0.5:
        k, kind = int(rng.integers(2, 7)), rng.integers(3)
        means = rng.random(k)
        if kind == 1:
            means = rng.beta(0.3, 0.3, k)
        elif kind == 2:
            means = rng.uniform(0.1, 0.9) + rng.uniform(-0.1, 0.1, k)
        means = np.round(means, 4)
        return Problem(chosen, pmb.Bandit.bernoulli(means.tolist()), f"coins {means.tolist()}")
    k, size = int(rng.integers(2, 6)), int(rng.integers(3, 9))
    atoms = np.linspace(0.0, 1.0, size) if rng.random() < 0.5 else np.unique(np.round(rng.random(size), 3))
    size = atoms.size  # one less where two are equal
    chances = np.round(rng.dirichlet(np.full(size, 0.3 if rng.random() < 0.5 else 1.0), k), 4)
    chances /= chances.sum(axis=1, keepdims=True)
    arms = [st.rv_discrete(values=(atoms[p > 0], p[p > 0])) for p in chances]
    return Problem(chosen, pmb.Bandit(arms, support=pmb.Finite(atoms)), f"{k} arms on {size} atoms")


def regrets(one: Problem, trials: range) -> np.ndarray:
    """Regret by trial and horizon."""
    run = pmb.simulate(
        one.metric, one.bandit, [pmb.Vet()], HORIZONS[-1], list(trials), SEED, checkpoints=list(HORIZONS), n_jobs=1,
        progress=False,
    )  # fmt: skip
    _, regret = run.regret("Vet")
    return np.asarray(regret - min(float(regret.min()), 0.0))


def is_suspect(one: Problem, regret: np.ndarray) -> bool:
    """Whether the mean regret did not fall, and is not next to nothing."""
    mean = regret.mean(axis=0)
    return bool(mean[-1] >= mean[0] and mean[-1] > FLOOR * one.scale)


def main() -> None:
    first, last = (int(x) for x in sys.argv[1:3]) if len(sys.argv) > 2 else (0, PROBLEMS)
    suspects, failures, shapes = 0, 0, {"concave": 0, "convex": 0, "neither": 0}
    begin = time.process_time()
    for number in range(first, last):
        one = problem(number)
        shapes["concave" if one.metric.shape == "linear" else one.metric.shape] += 1
        regret = regrets(one, range(TRIALS))
        if is_suspect(one, regret):
            suspects += 1
            regret = regrets(one, range(1000, 1000 + AGAIN))
            failed = is_suspect(one, regret)
            failures += failed
            print(number, "FAILURE" if failed else "suspect", one.metric, one.arms, *regret.mean(axis=0), flush=True)
        if number % 100 == 99:
            print(
                f"{number + 1 - first} problems, {failures} failures, {time.process_time() - begin:.0f} s", flush=True
            )
    print(f"{last - first} problems {shapes}: {suspects} suspects, {failures} failures")


if __name__ == "__main__":
    main()
