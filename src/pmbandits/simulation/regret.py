"""Utility and regret of what was played, from the pulls.

With stationary arms the utility is that of the shares played so far, V(τ_t/t), and the regret is the utility of the
best mixture minus it.

Where arms change, or come and go, time falls into moments in which nothing changes. Utility is a matter of a
distribution, so each moment has one of its own: V_m of the shares that were played *in the moment*, with the arms of
the moment. Its regret is V*_m, the utility of the best mixture of the arms that play then, minus that. The regret
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

from pmbandits._validation import FloatArray
from pmbandits.optimize import utility_function
from pmbandits.simulation.prepare import Experiment


class TrialScores(NamedTuple):
    """At each checkpoint: utility, regret, and what the declared mixture falls short of (where things change)."""

    utility: FloatArray
    regret: FloatArray
    declared: FloatArray


class RegretScorer:
    """Computes utility and regret of the trials of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.is_stationary = experiment, experiment.timeline.is_stationary
        known = {}
        for moment in experiment.moments:
            key = id(moment.bandit), moment.playing
            if key not in known:
                known[key] = utility_function(experiment.metric, moment.arms)
        self.utility_of = [known[id(moment.bandit), moment.playing] for moment in experiment.moments]
        self.playing = [list(moment.playing) for moment in experiment.moments]
        self.best = np.array([best.value for best in experiment.best_mixtures])

    def scores(self, t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> TrialScores:
        """Score one trial. ``pulls`` has the rows of the checkpoints ``t``, then those of the ends of moments."""
        if self.is_stationary:
            utility = self.utility_of[0](pulls / t[:, None])
            return TrialScores(utility, self.best[0] - utility, np.zeros(0))
        ends = self.experiment.moment_ends(int(t[-1]))
        at_ends, pulls = pulls[t.size :], pulls[: t.size]
        starts, pulls_before = np.append(0, ends[:-1]), np.vstack((np.zeros_like(at_ends[:1]), at_ends[:-1]))
        moment_of_checkpoint = np.searchsorted(ends, t)  # the moment in which each checkpoint lies
        utility, declared, best_sum, utility_sum = np.empty(t.size), np.empty(t.size), 0.0, 0.0
        best_total = np.empty(t.size)
        for m in range(ends.size):
            rows = np.flatnonzero(moment_of_checkpoint == m)
            times = np.append(t[rows], ends[m]) - starts[m]
            played = np.vstack((pulls[rows], at_ends[m : m + 1])) - pulls_before[m]
            shares = np.vstack((played / times[:, None], mixture[rows]))[:, self.playing[m]]
            values = self.utility_of[m](shares)
            utility_in_moment = values[: times.size] * times
            utility[rows], declared[rows] = utility_sum + utility_in_moment[:-1], self.best[m] - values[times.size :]
            best_total[rows] = best_sum + self.best[m] * times[:-1]
            utility_sum, best_sum = utility_sum + utility_in_moment[-1], best_sum + self.best[m] * times[-1]
        return TrialScores(utility / t, (best_total - utility) / t, declared)
