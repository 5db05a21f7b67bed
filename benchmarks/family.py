"""The pilot of ``python -m research family``: how long a trial takes, by instance, policy and horizon.

    python -m benchmarks.family            # adds the cells that research/family_costs.csv does not have
    python -m benchmarks.family again      # measures all of them anew

Played with another seed than the comparison, for the seconds alone; no regret is worked out or shown. Seconds are those
of the processor. A horizon is predicted from the shorter ones, and not played, where that is over ``PREDICTED``.
"""

from __future__ import annotations

import csv
import sys
import time

import numpy as np
from research.family_arms import Instance, instances

from pmbandits._files import write_atomically
from pmbandits.simulation.prepare import PolicyAtHorizon
from pmbandits.simulation.workers import make_trial_player as plays
from research import family_plan as plan

PREDICTED = {1: 60.0, 2: 12.0}  # seconds, by how many shorter horizons are known


def measured(player: plan.Player, instance: Instance) -> tuple[float, ...] | None:
    """Seconds of a trial up to each horizon; nothing where the policy refuses all of them."""
    out: list[float] = []
    arms = instance.arms(0)
    for t in plan.HORIZONS:
        if plan.refusal(player, instance, t) is not None:
            out.append(0.0)
            continue
        known = [(h, s) for h, s in zip(plan.HORIZONS, out, strict=False) if s > 0.0]
        if known:
            growth = 1.0
            if len(known) > 1:
                growth = float(np.clip(np.log10(known[-1][1] / known[-2][1]), 0.3, 2.2))
            expected = known[-1][1] * (t / known[-1][0]) ** growth
            if expected > PREDICTED[len(known)]:
                out.append(expected)
                continue
        recipe = player.make(t)
        policy = type(recipe)(instance.metric, n_arms=arms.n_arms, support=arms.support, **recipe.options)
        times = np.array([t], dtype=np.int64)
        trial = plays(PolicyAtHorizon(player.label, policy, t, times), arms, plan.PILOT_SEED, times)
        if not known:
            trial.play(0)  # compiles
        begin = time.thread_time()
        trial.play(1)
        out.append(time.thread_time() - begin)
    return tuple(out) if any(out) else None


def main() -> None:
    costs = plan.read_costs() if plan.COSTS.is_file() and "again" not in sys.argv else {}
    labels = [player.label for player in plan.players()]
    for instance in instances():
        for player in plan.players():
            key = (instance.key, player.label)
            if key in costs or (found := measured(player, instance)) is None:
                continue
            costs[key] = found
            print(f"{instance.key:16} {player.label:12}", *(f"{s:9.4f}" for s in found), flush=True)
        save(costs, labels)
    total = 0.0
    for seconds in costs.values():
        played = [s for s in seconds if s <= plan.LIMIT]
        total += plan.trials(played[-1]) * played[-1] if played else 0.0
    print(f"{len(costs)} cells; all trials take about {total / 60:.1f} minutes of one core.")


def save(costs: dict[tuple[str, str], tuple[float, ...]], labels: list[str]) -> None:
    """Instances and policies in the order of the table; unknown ones at the end."""
    keys = [instance.key for instance in instances()]

    def order(cell: tuple[str, str]) -> tuple[int, int]:
        return keys.index(cell[0]), labels.index(cell[1]) if cell[1] in labels else len(labels)

    rows = [("instance", "policy", *plan.HORIZONS)]
    rows += [(*cell, *(f"{s:.3g}" for s in costs[cell])) for cell in sorted(costs, key=order)]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    assert len(list(csv.reader(text.splitlines()))) == len(rows)
    write_atomically(plan.COSTS, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
