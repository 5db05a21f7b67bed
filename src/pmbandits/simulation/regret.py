"""Utility and regret of what was played, from the pulls.

Where nothing changes, the utility is that of the shares played so far, V(τ_t/t), and the regret what the best mixture
is worth above it.

Where arms change, or come and go, time falls into moments in which nothing changes. Utility is a matter of a
distribution, so each moment has one of its own: V_m of the shares that were played *in the moment*, with the arms of
the moment. Its regret is what the best mixture of the arms that play then, worth V*_m, is worth above that. The regret
after t rounds is the mean over the rounds: the sum over moments of n_m (V*_m − V_m(shares in m)) / t, where n_m rounds
of the moment lie within the first t. With a single moment this is the regret above.

Why shares played, and not the mixture that the policy declares: only they pay for exploring, and for shares that were
played before a change and are made up for after it. Why in the moment, and not since the start: rewards of the past
came from other arms. What the declared mixture falls short of at a checkpoint, V*_m − V_m(mixture), is kept beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.best import scorer
from pmbandits.simulation.prepare import Experiment


class Scores(NamedTuple):
    """At each checkpoint: utility, regret, and what the declared mixture falls short of (where things change)."""

    utility: FloatArray
    regret: FloatArray
    declared: FloatArray


class Judge:
    """Scores the trials of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.still = experiment, experiment.course.still
        known = {}
        for moment in experiment.moments:
            key = id(moment.bandit), moment.playing
            if key not in known:
                known[key] = scorer(experiment.metric, moment.arms)
        self.score = [known[id(moment.bandit), moment.playing] for moment in experiment.moments]
        self.playing = [list(moment.playing) for moment in experiment.moments]
        self.best = np.array([best.value for best in experiment.bests])

    def scores(self, t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> Scores:
        """Of one trial. ``pulls`` are those at the checkpoints ``t``, and below them those at the ends of moments."""
        if self.still:
            utility = self.score[0](pulls / t[:, None])
            return Scores(utility, self.best[0] - utility, np.zeros(0))
        ends = self.experiment.turns(int(t[-1]))
        at_ends, pulls = pulls[t.size :], pulls[: t.size]
        starts, before = np.append(0, ends[:-1]), np.vstack((np.zeros_like(at_ends[:1]), at_ends[:-1]))
        where = np.searchsorted(ends, t)  # the moment in which each checkpoint lies
        utility, declared, gone, whole = np.empty(t.size), np.empty(t.size), 0.0, 0.0
        ideal = np.empty(t.size)
        for m in range(ends.size):
            rows = np.flatnonzero(where == m)
            times = np.append(t[rows], ends[m]) - starts[m]
            played = np.vstack((pulls[rows], at_ends[m : m + 1])) - before[m]
            shares = np.vstack((played / times[:, None], mixture[rows]))[:, self.playing[m]]
            values = self.score[m](shares)
            there = values[: times.size] * times
            utility[rows], declared[rows] = whole + there[:-1], self.best[m] - values[times.size :]
            ideal[rows] = gone + self.best[m] * times[:-1]
            whole, gone = whole + there[-1], gone + self.best[m] * times[-1]
        return Scores(utility / t, (ideal - utility) / t, declared)
