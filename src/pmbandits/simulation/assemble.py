"""Put finished trials together to a :class:`Run`. Utility and regret are computed here, from the pulls.

With stationary arms the utility is that of the shares played so far, V(τ_t/t), and the regret is the utility of the
best mixture minus it.

Where arms change, or come and go, time falls into periods in which nothing changes. Utility is a matter of a
distribution, so each period has one of its own: V_m of the shares that were played *in the period*, with the arms of
the period. Its regret is V*_m, the utility of the best mixture of the arms that play then, minus that. The regret
after t rounds is the mean over the rounds: the sum over periods of n_m (V*_m − V_m(shares in m)) / t, where n_m rounds
of the period lie within the first t. With a single period this is the regret above.

Why shares played, and not the mixture that the policy declares: only they pay for exploring, and for shares that were
played before a change and are made up for after it. Why in the period, and not since the start: rewards of the past
came from other arms. What the declared mixture falls short of at a checkpoint, V*_m − V_m(mixture), is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits import __version__
from pmbandits._validation import FloatArray, short_repr
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult, oracle, utility_function
from pmbandits.optimize.best_mixture import oracle_of_population
from pmbandits.simulation.files import FORMAT, SCHEMA, run_schema
from pmbandits.simulation.journal import FinishedTrials, join_trials
from pmbandits.simulation.policy_specs import metric_to_dict
from pmbandits.simulation.prepare import Experiment
from pmbandits.simulation.rewards import GENERATOR
from pmbandits.simulation.run import Run


class Results:
    """Finished trials of all policies; each policy at one horizon has a number."""

    def __init__(self) -> None:
        self._parts: dict[int, list[FinishedTrials]] = {}

    def add(self, finished: FinishedTrials) -> None:
        """Add finished trials of one policy."""
        self._parts.setdefault(finished.entry, []).append(finished)

    @property
    def n_trials(self) -> int:
        """How many trials there are, of all policies."""
        return sum(part.size for parts in self._parts.values() for part in parts)

    def trials_of(self, entry: int) -> set[int]:
        """The trials of a policy that are finished."""
        return {trial for part in self._parts.get(entry, ()) for trial in part.trials.tolist()}

    def in_order(self, entry: int, trials: Sequence[int]) -> FinishedTrials:
        """The given trials of a policy, in this order."""
        found = join_trials(self._parts[entry])
        if np.array_equal(found.trials, trials):
            return found
        place = {trial: row for row, trial in enumerate(found.trials.tolist())}
        return found.rows([place[trial] for trial in trials])


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
        for period in experiment.periods:
            key = id(period.bandit), period.playing
            if key not in known:
                known[key] = utility_function(experiment.metric, period.bandit_of_playing_arms)
        self.utility_of = [known[id(period.bandit), period.playing] for period in experiment.periods]
        self.playing = [list(period.playing) for period in experiment.periods]
        self.best = np.array([best.value for best in experiment.best_mixtures])

    def score_trials(self, t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> TrialScores:
        """Score trials, the first axis. ``pulls`` has the rows of the checkpoints ``t``, then those of ends of periods.

        Every trial has the numbers that it would have alone, to the last bit.
        """
        if self.is_stationary:
            population = self.experiment.timeline.population
            shares = pulls / t[:, None] if population is None else population.with_true_frequencies(pulls)
            utility = self.utility_of[0](shares)
            return TrialScores(utility, self.best[0] - utility, np.zeros(0))
        scores = [self._score_with_moments(t, *trial) for trial in zip(pulls, mixture, strict=True)]
        return TrialScores(*(np.stack(column) for column in zip(*scores, strict=True)))

    def _score_with_moments(self, t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> TrialScores:
        ends = self.experiment.period_ends(int(t[-1]))
        at_ends, pulls = pulls[t.size :], pulls[: t.size]
        starts, pulls_before = np.append(0, ends[:-1]), np.vstack((np.zeros_like(at_ends[:1]), at_ends[:-1]))
        period_of_checkpoint = np.searchsorted(ends, t)  # the period in which each checkpoint lies
        utility, declared, best_sum, utility_sum = np.empty(t.size), np.empty(t.size), 0.0, 0.0
        best_total = np.empty(t.size)
        for m in range(ends.size):
            rows = np.flatnonzero(period_of_checkpoint == m)
            times = np.append(t[rows], ends[m]) - starts[m]
            played = np.vstack((pulls[rows], at_ends[m : m + 1])) - pulls_before[m]
            shares = np.vstack((played / times[:, None], mixture[rows]))[:, self.playing[m]]
            values = self.utility_of[m](shares)
            utility_in_moment = values[: times.size] * times
            utility[rows], declared[rows] = utility_sum + utility_in_moment[:-1], self.best[m] - values[times.size :]
            best_total[rows] = best_sum + self.best[m] * times[:-1]
            utility_sum, best_sum = utility_sum + utility_in_moment[-1], best_sum + self.best[m] * times[-1]
        return TrialScores(utility / t, (best_total - utility) / t, declared)


def assemble_run(experiment: Experiment, results: Results, first: int = 0) -> Run:
    """Return the run: a table of all results, ordered by policy, horizon, trial and checkpoint.

    Regret is worked out here from the pulls, for each trial by itself: the same numbers wherever the pulls came from.
    ``first`` is the number of the experiment's first policy in the results.
    """
    import pyarrow as pa

    scorer, k, n = RegretScorer(experiment), experiment.bandit.n_arms, len(experiment.trials)
    is_stationary = experiment.timeline.is_stationary
    schema, tables, seconds = run_schema(k, is_stationary=is_stationary), [], []
    for e, entry in enumerate(experiment.entries, start=first):
        t, found = entry.checkpoints, results.in_order(e, experiment.trials)
        pulls, mixture = found.pulls.reshape(n, -1, k), found.mixture.reshape(n, t.size, k)
        scores = scorer.score_trials(t, pulls, mixture)
        columns = {
            "policy": pa.repeat(entry.label, n * t.size),
            "horizon": pa.repeat(entry.horizon, n * t.size),
            "trial": np.repeat(found.trials, t.size),
            "t": np.tile(t, n),
            "regret": scores.regret.ravel(),
            "utility": scores.utility.ravel(),
            "pulls": pa.FixedSizeListArray.from_arrays(pulls[:, : t.size].ravel(), k),
            "mixture": pa.FixedSizeListArray.from_arrays(mixture.ravel(), k),
            "phase_ends": _phase_ends_column(t, found.ends),
        }
        if not is_stationary:
            columns["declared"] = scores.declared.ravel()
        tables.append(pa.table(columns, schema=schema))
        seconds.append(found.seconds)
    table = pa.concat_tables(tables).combine_chunks()
    provenance = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": __version__,
        "generator": GENERATOR,
        "spec": experiment.spec,
        "best": _best_mixture_record(experiment, scorer),
    }
    return Run(table, provenance, np.concatenate(seconds), metric=experiment.metric, bandit=experiment.bandit)


def _phase_ends_column(t: NDArray[np.int64], ends: NDArray[np.int64]) -> Any:
    """The ends of phases up to each checkpoint of each trial, as a column of lists."""
    import pyarrow as pa

    ended = (ends > 0)[:, None] & (ends[:, None] <= t[:, None])  # by trial, checkpoint and phase
    counts = ended.sum(axis=2).ravel()
    values = np.broadcast_to(ends[:, None], ended.shape)[ended]
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(counts)).astype(np.int32), values)


def _best_mixture_record_of_stationary_arms(
    best: OracleResult, utility: Callable[[FloatArray], FloatArray]
) -> dict[str, Any]:
    gap = best.gap if best.certified else None
    alone = utility(np.eye(best.weights.size)).tolist()
    return {"value": best.value, "weights": best.weights.tolist(), "gap": gap, "arms": alone}


def _arm_text(arm: Mapping[str, Any]) -> str:
    """An arm of a specification in short."""
    return short_repr(arm.get("own") or {key: value for key, value in arm.items() if key != "values"})


def rescored_run(run: Run, metric: Distortion, bandit: Bandit | None) -> Run:
    """Score the pulls of a run by another metric, as :meth:`Run.rescore` documents."""
    import pyarrow as pa

    if not run.is_stationary:
        raise ValueError("in this run arms change, or come and go; only a run whose arms stay can be scored again.")
    arms = run.bandit if bandit is None else bandit
    if not isinstance(arms, Bandit) or arms.names != run.names:
        raise ValueError(f"the bandit must have the arms of the run, {', '.join(run.names)}.")
    for name, given, played in zip(run.names, arms.to_dict()["arms"], run.spec["bandit"]["arms"], strict=True):
        if {**given, "values": None} != {**played, "values": None}:
            raise ValueError(
                f"{name} is {_arm_text(given)}, but in the run it was {_arm_text(played)}; give the arms of the run."
            )
    table = run.to_arrow().replace_schema_metadata(None)
    pulls = table["pulls"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, run.n_arms)
    utility_of, population = utility_function(metric, arms), run.population
    if population is None:
        best, shares = oracle(metric, arms, shares=run.shares), pulls / table["t"].to_numpy()[:, None]
    else:
        population = replace(population, columns=arms)
        best = oracle_of_population(metric, population, run.shares).columns
        shares = population.with_true_frequencies(pulls)
    utility = utility_of(shares)
    for name, values in (("utility", utility), ("regret", best.value - utility)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.float64()))
    spec = {**run.spec, "metric": metric_to_dict(metric), "metric_text": repr(metric)}
    played = run.spec["metric"]
    spec["policies"] = [p if p.get("metric", played) is not None else {**p, "metric": played} for p in spec["policies"]]
    return Run(
        table,
        {**run.provenance, "spec": spec, "best": _best_mixture_record_of_stationary_arms(best, utility_of)},
        run._seconds,
        metric=metric,
        bandit=arms,
    )


def _best_mixture_record(experiment: Experiment, scorer: RegretScorer) -> dict[str, Any]:
    """Return the best mixture as JSON; where arms change, its average over rounds and that of each period."""
    gaps = [best.gap if best.certified else None for best in experiment.best_mixtures]
    if experiment.timeline.is_stationary:
        return _best_mixture_record_of_stationary_arms(experiment.best_mixtures[0], scorer.utility_of[0])
    periods, k = [], experiment.bandit.n_arms
    for period, best in zip(experiment.periods, experiment.best_mixtures, strict=True):
        weights = np.zeros(k)
        weights[list(period.playing)] = best.weights
        periods.append({"start": period.start, "value": best.value, "weights": weights.tolist()})
    alone = np.full((len(periods), k), np.nan)
    for m, playing in enumerate(scorer.playing):
        alone[m, playing] = scorer.utility_of[m](np.eye(len(playing)))
    plays = np.isfinite(alone).sum(axis=0)
    rounds = np.array([period.end - period.start for period in experiment.periods]) / experiment.periods[-1].end
    return {
        "value": float(rounds @ [period["value"] for period in periods]),
        "weights": (rounds @ np.array([period["weights"] for period in periods])).tolist(),
        "gap": None if None in gaps else max(gap for gap in gaps if gap is not None),
        "arms": np.where(plays > 0, np.nansum(alone, axis=0) / np.maximum(plays, 1), np.nanmin(alone)).tolist(),
        "periods": periods,
    }
