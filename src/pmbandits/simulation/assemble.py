"""Put finished trials together to a :class:`Run`. Utility and regret are computed here, from the pulls.

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

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits import __version__
from pmbandits._validation import FloatArray, short_repr
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult, oracle, utility_function
from pmbandits.simulation.files import FORMAT, SCHEMA, run_schema
from pmbandits.simulation.journal import TrialResult
from pmbandits.simulation.policy_specs import metric_to_dict
from pmbandits.simulation.prepare import Experiment
from pmbandits.simulation.rewards import GENERATOR
from pmbandits.simulation.run import Run

Results = dict[tuple[int, int], TrialResult]  # by entry and trial


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
                known[key] = utility_function(experiment.metric, moment.bandit_of_playing_arms)
        self.utility_of = [known[id(moment.bandit), moment.playing] for moment in experiment.moments]
        self.playing = [list(moment.playing) for moment in experiment.moments]
        self.best = np.array([best.value for best in experiment.best_mixtures])

    def score_trial(self, t: NDArray[np.int64], pulls: NDArray[np.int64], mixture: FloatArray) -> TrialScores:
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


def assemble_run(experiment: Experiment, results: Results) -> Run:
    """Return the run: a table of all results, ordered by policy, horizon, trial and checkpoint.

    Regret is worked out here, trial by trial, from the pulls: the same numbers wherever the pulls came from.
    """
    import pyarrow as pa

    scorer, k = RegretScorer(experiment), experiment.bandit.n_arms
    parts: dict[str, list[Any]] = {name: [] for name in ("t", "regret", "utility", "declared", "pulls", "mixture")}
    ends: list[list[int]] = []
    seconds = []
    for e, entry in enumerate(experiment.entries):
        t = entry.checkpoints
        for trial in experiment.trials:
            found = results[e, trial]
            pulls = np.asarray(found["pulls"], dtype=np.int64).reshape(-1, k)
            mixture = np.asarray(found["mixture"], dtype=np.float64)
            scores = scorer.score_trial(t, pulls, mixture.reshape(t.size, k))
            parts["t"].append(t)
            parts["utility"].append(scores.utility)
            parts["regret"].append(scores.regret)
            parts["declared"].append(scores.declared)
            parts["pulls"].append(pulls[: t.size].ravel())
            parts["mixture"].append(mixture)
            ends += [[int(x) for x in found["ends"] if x <= now] for now in t]
            seconds.append(found["seconds"])
    flat = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    rows = [(e.label, e.horizon, trial, e.checkpoints.size) for e in experiment.entries for trial in experiment.trials]
    counts = [size for *_, size in rows]
    is_stationary = experiment.timeline.is_stationary
    columns = {
        "policy": pa.array(np.repeat([label for label, *_ in rows], counts), pa.string()),
        "horizon": pa.array(np.repeat([horizon for _, horizon, *_ in rows], counts), pa.int64()),
        "trial": pa.array(np.repeat([trial for *_, trial, _ in rows], counts), pa.int64()),
        "t": pa.array(flat["t"], pa.int64()),
        "regret": pa.array(flat["regret"], pa.float64()),
        "utility": pa.array(flat["utility"], pa.float64()),
        "pulls": pa.FixedSizeListArray.from_arrays(pa.array(flat["pulls"], pa.int64()), k),
        "mixture": pa.FixedSizeListArray.from_arrays(pa.array(flat["mixture"], pa.float64()), k),
        "phase_ends": pa.array(ends, pa.list_(pa.int64())),
    }
    if not is_stationary:
        columns["declared"] = pa.array(flat["declared"], pa.float64())
    table = pa.table(columns, schema=run_schema(k, is_stationary=is_stationary))
    provenance = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": __version__,
        "generator": GENERATOR,
        "spec": experiment.spec,
        "best": _best_mixture_record(experiment, scorer),
    }
    return Run(table, provenance, np.array(seconds))


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
    utility_of, best = utility_function(metric, arms), oracle(metric, arms, shares=run.shares)
    utility = utility_of(pulls / table["t"].to_numpy()[:, None])
    for name, values in (("utility", utility), ("regret", best.value - utility)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.float64()))
    spec = {**run.spec, "metric": metric_to_dict(metric), "metric_text": repr(metric)}
    played = run.spec["metric"]
    spec["policies"] = [p if p.get("metric", played) is not None else {**p, "metric": played} for p in spec["policies"]]
    return Run(
        table,
        {**run.provenance, "spec": spec, "best": _best_mixture_record_of_stationary_arms(best, utility_of)},
        run._seconds,
    )


def _best_mixture_record(experiment: Experiment, scorer: RegretScorer) -> dict[str, Any]:
    """Return the best mixture as JSON; where arms change, its average over rounds and that of each moment."""
    gaps = [best.gap if best.certified else None for best in experiment.best_mixtures]
    if experiment.timeline.is_stationary:
        return _best_mixture_record_of_stationary_arms(experiment.best_mixtures[0], scorer.utility_of[0])
    moments, k = [], experiment.bandit.n_arms
    for moment, best in zip(experiment.moments, experiment.best_mixtures, strict=True):
        weights = np.zeros(k)
        weights[list(moment.playing)] = best.weights
        moments.append({"start": moment.start, "value": best.value, "weights": weights.tolist()})
    alone = np.full((len(moments), k), np.nan)
    for m, playing in enumerate(scorer.playing):
        alone[m, playing] = scorer.utility_of[m](np.eye(len(playing)))
    plays = np.isfinite(alone).sum(axis=0)
    rounds = np.array([moment.end - moment.start for moment in experiment.moments]) / experiment.moments[-1].end
    return {
        "value": float(rounds @ [moment["value"] for moment in moments]),
        "weights": (rounds @ np.array([moment["weights"] for moment in moments])).tolist(),
        "gap": None if None in gaps else max(gap for gap in gaps if gap is not None),
        "arms": np.where(plays > 0, np.nansum(alone, axis=0) / np.maximum(plays, 1), np.nanmin(alone)).tolist(),
        "moments": moments,
    }
