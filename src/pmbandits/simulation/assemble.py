"""Put finished trials together to a :class:`Run`. Regret is computed here, from the pulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits import __version__
from pmbandits.simulation.files import FORMAT, SCHEMA, run_schema
from pmbandits.simulation.journal import TrialResult
from pmbandits.simulation.prepare import Experiment
from pmbandits.simulation.regret import RegretScorer
from pmbandits.simulation.rewards import GENERATOR
from pmbandits.simulation.run import Run

Results = dict[tuple[int, int], TrialResult]  # by entry and trial


def assemble(experiment: Experiment, results: Results) -> Run:
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
            scores = scorer.scores(t, pulls, mixture.reshape(t.size, k))
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
        "best": _best_mixture_record(experiment),
    }
    return Run(table, provenance, np.array(seconds))


def _best_mixture_record(experiment: Experiment) -> dict[str, Any]:
    """Return the best mixture as JSON; where arms change, its average over rounds and that of each moment."""
    gaps = [best.gap if best.certified else None for best in experiment.best_mixtures]
    if experiment.timeline.is_stationary:
        best = experiment.best_mixtures[0]
        return {"value": best.value, "weights": best.weights.tolist(), "gap": gaps[0]}
    moments, k = [], experiment.bandit.n_arms
    for moment, best in zip(experiment.moments, experiment.best_mixtures, strict=True):
        weights = np.zeros(k)
        weights[list(moment.playing)] = best.weights
        moments.append({"start": moment.start, "value": best.value, "weights": weights.tolist()})
    rounds = np.array([moment.end - moment.start for moment in experiment.moments]) / experiment.moments[-1].end
    return {
        "value": float(rounds @ [moment["value"] for moment in moments]),
        "weights": (rounds @ np.array([moment["weights"] for moment in moments])).tolist(),
        "gap": None if None in gaps else max(gap for gap in gaps if gap is not None),
        "moments": moments,
    }
