"""Vet of today in the comparison of all policies, and on 40 more problems.

    python -m benchmarks.comparison known FOLDER   # the 45 problems of docs/family.md, with the seeds and trials there
    python -m benchmarks.comparison new            # 40 more, drawn by the rule below
    python -m benchmarks.comparison same FOLDER    # what others pull is what they pulled in the run of the plan

Written down before the run. ``known`` plays Vet up to 100,000 rounds. CIRT and PM-UCB-M have narrower confidence sets
than in the run of the plan: they are played again where their mean regret was less than ``NEAR`` times the least, after
10,000 or 100,000 rounds. All other policies pull what they pulled (``same`` checks this on some problems), so that the
means in ``docs/_static/family.csv`` are those of today. The data of the documentation are then written anew
(``python docs/family.py`` writes the page). FOLDER keeps what was played; if it is stopped, it goes on there.

``new`` draws problems as ``research.family_arms`` draws its last ten: each metric of its list once, each size and
each family of distributions twice, matched by permutations. Here the seed is 2027, 2028, 2029 and 2030 in place of
2026. Vet, Track, UC-FW with the variance bonus and ρ-NPTS play 48 trials of 10,000 rounds each, six on each set of
arms; ρ-NPTS only up to 10 arms, because it takes long. ``new 8`` plays so many trials: that many were played at first,
and a single trial decided three ratios. So 48 were fixed, for all 40 problems and policies, before they were played
together.

The ratio is the mean regret of Vet divided by that of the best other policy: on the first trials of Vet, as many as the
other has played, if they are not fewer. Goals: at most 1.2 on 85 % of all problems, and at most 3 on every one that is
not an exact tie between one arm and a mixture (``edge-on``).
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

import matplotlib as mpl
import numpy as np
from research.draw import PAGE_STYLE
from research.family_arms import Instance, instances, random_instances
from research.family_plan import FIRST, HORIZONS, JUDGED, OURS, SEED, VET, players
from research.family_scores import Cell, Scores
from research.family_shown import about_vet, picture

import pmbandits as pmb
from research import family

DOCS = Path(__file__).parents[1] / "docs"
MEANS, RATIOS = DOCS / "_static" / "family.csv", DOCS / "_static" / "family-ratios.csv"
BY_SETS, NEAR = ("CIRT", "PM-UCB-M"), 3.0
NEW_SEEDS = (2027, 2028, 2029, 2030)
NEW_HORIZON, NEW_TRIALS = 10_000, 48
MOST_ARMS = 10  # of problems that ρ-NPTS plays
CLOSE, WORST = 1.2, 3.0
SAME = (("Track", "drawn-2"), ("UC-FW", "coins-wang"), ("UC-FW var.", "three-pht"), ("Mix-UCB OGD", "beta10-gini"),
        ("Mix-UCB CAB", "coins-gini"), ("ρ-NPTS", "three-dual"), ("M-CVTS", "tenths-0.5"), ("Thompson", "ten-mean"),
        ("UCB1", "coins-mean"))  # fmt: skip

Row = dict[str, Any]


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


def stored_rows() -> list[Row]:
    """A row for each problem, policy and horizon: mean regret, its standard error, the median and how many trials."""
    with MEANS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def jobs() -> dict[tuple[str, str], family.Job]:
    """All cells of the plan."""
    return {(job.instance.key, job.player.label): job for job in family.plan_jobs(quick=False, seed=SEED)}


def played(key: str, label: str, folder: Path) -> dict[int, np.ndarray]:
    """Regret by horizon of a cell of the plan: from the folder, or played now."""
    job = jobs()[key, label]
    found = family.read_cell(job, folder) or family.play_cell(job, folder, Event())
    return {int(t): np.array(regret) for t, regret in found["regret"].items()}


def with_todays_cells(rows: list[Row], folder: Path) -> dict[tuple[str, int], np.ndarray]:
    """Put the regrets of today into the rows of Vet, and of those whose sets have changed. Returns Vet's regrets."""
    others = [r for r in rows if r["mean"] and r["policy"] != VET]
    least: dict[tuple[str, str], float] = {}
    for r in others:
        least[r["instance"], r["t"]] = min(least.get((r["instance"], r["t"]), np.inf), float(r["mean"]))
    again = {
        (r["instance"], r["policy"]) for r in others
        if r["policy"] in BY_SETS and int(r["t"]) in JUDGED
        and float(r["mean"]) < NEAR * least[r["instance"], r["t"]]
    } | {(one.key, VET) for one in instances()}  # fmt: skip
    mine = {}
    for key, label in sorted(again):
        for t, regret in played(key, label, folder).items():
            row = next(r for r in rows if (r["instance"], r["policy"], r["t"]) == (key, label, str(t)))
            row["mean"], row["median"], row["trials"] = regret.mean(), np.median(regret), regret.size
            row["standard_error"] = regret.std(ddof=1) / np.sqrt(regret.size)
            if label == VET:
                mine[key, t] = regret
        print(key, label, flush=True)
    return mine


def ratios_of(rows: list[Row], mine: dict[tuple[str, int], np.ndarray]) -> list[Row]:
    """Vet beside the best other policy, and beside the best published one."""
    out = []
    for one in instances():
        for t in HORIZONS:
            at = [r for r in rows if (r["instance"], r["t"]) == (one.key, str(t)) and r["mean"] != ""]
            vet = mine[one.key, t]
            for others, without in (("all", (VET,)), ("published", OURS)):
                best = min((r for r in at if r["policy"] not in without), key=lambda r: float(r["mean"]))
                used = vet[: int(best["trials"])]
                mean, other = max(float(used.mean()), 1e-12), max(float(best["mean"]), 1e-12)
                apart = np.hypot(used.std(ddof=1) / np.sqrt(used.size) / mean, float(best["standard_error"]) / other)
                out.append({
                    "instance": one.key, "title": one.title, "t": t, "others": others, "trials": used.size,
                    **about_vet(used), "best_other": best["policy"], "other": other, "ratio": mean / other,
                    "ratio_error": float(apart * mean / other),
                })  # fmt: skip
    return out


def known(folder: Path) -> None:
    """Play what is to be played, and write the numbers of the documentation anew."""
    rows = stored_rows()
    mine = with_todays_cells(rows, folder)
    ratios = ratios_of(rows, mine)
    for path, table in ((MEANS, rows), (RATIOS, ratios)):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
    cells = {}
    for one in instances():
        for player in players():
            means = {int(r["t"]): np.array([float(r["mean"])]) for r in rows
                     if (r["instance"], r["policy"]) == (one.key, player.label) and r["mean"] != ""}  # fmt: skip
            cells[one.key, player.label] = Cell(means, {})
    figure = picture(Scores(instances(), [player.label for player in players()], HORIZONS, cells))
    with mpl.rc_context(PAGE_STYLE):
        figure.savefig(DOCS / "_static" / "family.png", metadata={"Software": None})
    for t in HORIZONS:
        report(t, [float(r["ratio"]) for r in ratios if r["t"] == t and r["others"] == "all"])


def same(folder: Path) -> None:
    """Play one cell of each policy that was not played again, and compare its means with the stored ones."""
    rows = stored_rows()
    for label, key in SAME:
        for t, regret in played(key, label, folder).items():
            before = next(
                float(r["mean"]) for r in rows if (r["instance"], r["policy"], r["t"]) == (key, label, str(t))
            )
            assert abs(regret.mean() - before) <= 1e-9 * before + 1e-15, (label, key, t, regret.mean(), before)
        print(label, key, "the same", flush=True)


def new(count: int) -> None:
    """Vet and three others on the new problems; a line of a table for each."""
    ratios = []
    for seed in NEW_SEEDS:
        for instance in random_instances(seed):
            policies = {"Track": pmb.Track(), "UC-FW var.": pmb.UCFW(bonus="variance")}
            if instance.n_arms <= MOST_ARMS:
                policies["ρ-NPTS"] = pmb.RhoNPTS()
            numbers = range(FIRST, FIRST + count)
            found = regrets(instance, pmb.Vet(), (NEW_HORIZON,), numbers)[:, 0]
            means = {name: regrets(instance, one, (NEW_HORIZON,), numbers).mean() for name, one in policies.items()}
            name = min(means, key=lambda key: float(means[key]))
            ratios.append(float(found.mean()) / max(float(means[name]), 1e-12))
            print(
                f"| {seed} {instance.title} | {found.mean():.2e} | {np.quantile(found, 0.95):.1e}, {found.max():.1e} | "
                f"{name} | {means[name]:.2e} | {ratios[-1]:.2f} |",
                flush=True,
            )
    report(NEW_HORIZON, ratios)


def report(t: int, ratios: list[float]) -> None:
    """How many ratios are within the goals."""
    close, worse = sum(r <= CLOSE for r in ratios), sum(r > WORST for r in ratios)
    print(f"T = {t:,}: {close} of {len(ratios)} at most {CLOSE}; {worse} above {WORST}; median {np.median(ratios):.2f}")


def main() -> None:
    if sys.argv[1] == "new":
        new(int(sys.argv[2]) if len(sys.argv) > 2 else NEW_TRIALS)
    else:
        (known if sys.argv[1] == "known" else same)(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
