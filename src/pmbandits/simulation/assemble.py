"""From the finished trials to a run: regret is worked out here, from the pulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits import __version__
from pmbandits.best import scorer
from pmbandits.simulation.files import FORMAT, SCHEMA, schema
from pmbandits.simulation.prepare import Experiment
from pmbandits.simulation.rewards import GENERATOR
from pmbandits.simulation.run import Run

Results = dict[tuple[int, int], dict[str, Any]]  # by entry and trial


def assemble(experiment: Experiment, results: Results) -> Run:
    """The table of all results, in the order of policies, horizons, trials and checkpoints.

    Regret is worked out here, trial by trial, from the pulls: the same numbers wherever the pulls came from.
    """
    import pyarrow as pa

    score, k = scorer(experiment.metric, experiment.bandit), experiment.bandit.n_arms
    parts: dict[str, list[Any]] = {name: [] for name in ("t", "regret", "utility", "pulls", "mixture")}
    ends: list[list[int]] = []
    seconds = []
    for e, entry in enumerate(experiment.entries):
        t = entry.checkpoints
        for trial in experiment.trials:
            found = results[e, trial]
            pulls = np.asarray(found["pulls"], dtype=np.int64).reshape(t.size, k)
            utility = score(pulls / t[:, None])
            parts["t"].append(t)
            parts["utility"].append(utility)
            parts["regret"].append(experiment.best.value - utility)
            parts["pulls"].append(pulls.ravel())
            parts["mixture"].append(np.asarray(found["mixture"], dtype=np.float64))
            ends += [[int(x) for x in found["ends"] if x <= now] for now in t]
            seconds.append(found["seconds"])
    flat = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    rows = [(e.label, e.horizon, trial, e.checkpoints.size) for e in experiment.entries for trial in experiment.trials]
    counts = [size for *_, size in rows]
    table = pa.table(
        {
            "policy": pa.array(np.repeat([label for label, *_ in rows], counts), pa.string()),
            "horizon": pa.array(np.repeat([horizon for _, horizon, *_ in rows], counts), pa.int64()),
            "trial": pa.array(np.repeat([trial for *_, trial, _ in rows], counts), pa.int64()),
            "t": pa.array(flat["t"], pa.int64()),
            "regret": pa.array(flat["regret"], pa.float64()),
            "utility": pa.array(flat["utility"], pa.float64()),
            "pulls": pa.FixedSizeListArray.from_arrays(pa.array(flat["pulls"], pa.int64()), k),
            "mixture": pa.FixedSizeListArray.from_arrays(pa.array(flat["mixture"], pa.float64()), k),
            "phase_ends": pa.array(ends, pa.list_(pa.int64())),
        },
        schema=schema(k),
    )
    provenance = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": __version__,
        "generator": GENERATOR,
        "spec": experiment.spec,
        "best": {
            "value": experiment.best.value,
            "weights": experiment.best.weights.tolist(),
            "gap": experiment.best.gap if experiment.best.certified else None,
        },
    }
    return Run(table, provenance, np.array(seconds))
