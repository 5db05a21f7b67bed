"""Vet of today in the comparison of all policies, and on 40 more problems.

    python -m benchmarks.comparison known     # the 45 problems of docs/family.md, with the seeds and trials of its plan
    python -m benchmarks.comparison new       # 40 more, drawn by the rule below

Written down before the run. ``known`` plays Vet alone, up to 100,000 rounds, and compares its mean regret with the
means of all other policies in ``docs/_static/family.csv``: what they pull has not changed since, but for CIRT and
PM-UCB-M, whose confidence sets are narrower today.

``new`` draws problems as ``research.family_arms`` draws its last ten: each metric of its list once, each size and
each family of distributions twice, matched by permutations. Here the seed is 2027, 2028, 2029 and 2030 in place of
2026. Vet, Track, UC-FW with the variance bonus and ρ-NPTS play 8 trials of 10,000 rounds each, one on each set of
arms; ρ-NPTS only up to 10 arms, because it takes long.

The ratio is the mean regret of Vet divided by that of the best other policy. Goals: at most 1.2 on 85 % of all
problems, and at most 3 on every one that is not an exact tie between one arm and a mixture (``edge-on``).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from research.family_arms import Instance, instances, random_instances
from research.family_plan import FIRST, HORIZONS, SEED, read_costs, trials

import pmbandits as pmb

MEANS = Path(__file__).parents[1] / "docs" / "_static" / "family.csv"
NEW_SEEDS = (2027, 2028, 2029, 2030)
NEW_HORIZON, NEW_TRIALS = 10_000, 8
MOST_ARMS = 10  # of problems that ρ-NPTS plays
CLOSE, WORST = 1.2, 3.0


def regrets(instance: Instance, policy: pmb.Policy, horizons: tuple[int, ...], numbers: range) -> np.ndarray:
    """Regret by trial and horizon; trial r plays set r of the arms."""
    out = np.empty((len(numbers), len(horizons)))
    for number in range(instance.count):
        mine = [k for k in numbers if k % instance.count == number]
        if mine:
            run = pmb.simulate(
                instance.metric, instance.arms(number), {"it": policy}, horizons[-1], mine, SEED,
                checkpoints=list(horizons), n_jobs=1, progress=False,
            )  # fmt: skip
            out[[numbers.index(k) for k in mine]] = run.regret("it")[1]
    return out


def known() -> Iterator[tuple[str, int, np.ndarray, str, float]]:
    """Problem, horizon, Vet's regrets, the best other policy, and its mean regret."""
    with MEANS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mean"] and row["policy"] != "Vet"]
    costs = read_costs()
    for instance in instances():
        count = trials(costs[instance.key, "Vet"][-1])
        found = regrets(instance, pmb.Vet(), HORIZONS, range(FIRST, FIRST + count))
        for column, t in enumerate(HORIZONS):
            others = [
                (float(r["mean"]), r["policy"]) for r in rows if r["instance"] == instance.key and r["t"] == str(t)
            ]
            mean, name = min(others)
            yield instance.key, t, found[:, column], name, mean


def new() -> Iterator[tuple[str, int, np.ndarray, str, float]]:
    """The same for the 40 new problems."""
    for seed in NEW_SEEDS:
        for instance in random_instances(seed):
            policies = {"Track": pmb.Track(), "UC-FW var.": pmb.UCFW(bonus="variance")}
            if instance.n_arms <= MOST_ARMS:
                policies["ρ-NPTS"] = pmb.RhoNPTS()
            numbers = range(FIRST, FIRST + NEW_TRIALS)
            found = regrets(instance, pmb.Vet(), (NEW_HORIZON,), numbers)[:, 0]
            means = {name: regrets(instance, one, (NEW_HORIZON,), numbers).mean() for name, one in policies.items()}
            name = min(means, key=lambda key: float(means[key]))
            yield f"{seed} {instance.title}", NEW_HORIZON, found, name, float(means[name])


def main() -> None:
    ratios: dict[int, list[float]] = {}
    for key, t, found, name, mean in known() if sys.argv[1:] == ["known"] else new():
        ratio = float(found.mean()) / max(mean, 1e-12)
        ratios.setdefault(t, []).append(ratio)
        print(
            f"{key} | {t} | {len(found)} | {found.mean():.3e} | {np.quantile(found, 0.95):.2e} | {found.max():.2e} | "
            f"{name} | {mean:.3e} | {ratio:.2f}",
            flush=True,
        )
    for t, all_of_them in ratios.items():
        close = sum(r <= CLOSE for r in all_of_them)
        worse = sum(r > WORST for r in all_of_them)
        middle = float(np.median(all_of_them))
        print(f"T = {t:,}: {close} of {len(all_of_them)} at most {CLOSE}; {worse} above {WORST}; median {middle:.2f}")


if __name__ == "__main__":
    main()
