"""What the comparison of the family plays, counts and asks: written down and committed before it was run.

Who plays is in ``players``, what is played in ``family_arms``, how often in ``trials`` (from seconds that a pilot with
another seed measured, ``family_costs.csv``). ``PLAN`` says the rest in words; the page of the documentation shows it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pmbandits as pmb
from pmbandits import CIRT, MCVTS, PMUCB, UCB1, Policy, RhoNPTS, Thompson, Track
from research.family_arms import SETS, Instance

HORIZONS = (1_000, 10_000, 100_000)
JUDGED = (10_000, 100_000)  # where the goals are judged
PILOT_SEED = 7
SEED = 20261116  # of the run that was planned; reproduce has another by default
VET, TRACK = "Vet", "Track"
OURS = (VET, TRACK)  # this library's own; all others are published

CLOSE_RATIO, WORST_RATIO, HALF_RATIO = 1.2, 3.0, 0.5  # limits of regret of Vet ÷ that of another
CLOSE_SHARE = 0.9  # of all instances must be close

LIMIT = 6.0  # seconds a trial: a policy that is slower at a horizon is not run to it
BUDGET = 5.0  # seconds for all trials of a policy on an instance, where the fewest trials do not take longer
TRIALS = (64, 32, 16, 8)
FIRST = 1_000  # the number of the first trial; quick runs begin with 0
QUICK_HORIZONS = (1_000,)
QUICK_TRIALS = 4
QUICK_ARMS = 3  # instances with more arms are left out of a quick run, and so are those drawn by rule
COSTS = Path(__file__).with_name("family_costs.csv")

PLAN = (
    "Score. The regret V(α*) − V(τ_T/T) of the shares that were played, exact, at T = 1,000, 10,000 and 100,000. "
    "A policy that needs its horizon (PM-UCB-M) plays each T as a run of its own; for all others the three are "
    "checkpoints of one run. Reported are the mean with its standard error over trials, and the median.",
    f"Trials. {', '.join(map(str, TRIALS[:-1]))} or {TRIALS[-1]}: the largest number that takes at most {BUDGET:g} "
    f"s of one core in all, by a pilot with another seed; at least {TRIALS[-1]}. An instance with drawn arms has "
    f"{SETS} sets of them, and trial r plays set r mod {SETS}, so every set is played equally often. A policy that "
    f"would take more than {LIMIT:g} s a trial at a horizon is not run to it. Where a policy refuses an instance, "
    "or is too slow, the cell is “–” and the reason is given.",
    f"Seeds. Those of “python -m research family --seed {SEED}”, trials {FIRST:,} and up: smaller numbers are those "
    "of quick runs, which were looked at while this was written. In a trial all policies are paid the same n-th "
    "reward of an arm, so they are compared in pairs, trial by trial, on the trials that both played.",
    "Comparison. The best other is the policy with the least mean regret at this T, Vet aside. The ratio is the "
    "mean regret of Vet ÷ that of the best other, on the trials that both played. Vet is better (worse) if the "
    "mean of the paired differences is below (above) 0 by more than two standard errors; else they are not told "
    "apart. The best other is chosen after the fact among up to eleven, which favours the others.",
    f"Goals. At T = 10,000 and at T = 100,000: the ratio is at most {CLOSE_RATIO:g} on at least "
    f"{100 * CLOSE_SHARE:.0f} % of "
    f"all instances, and at most {WORST_RATIO:g} on every one. On every instance with ten or more Beta arms, at T = "
    f"100,000, Vet's mean regret is at most {HALF_RATIO:g} times that of the best published policy, that is of all but "
    "Vet and Track. An instance that Vet refuses, or on which it is too slow, counts as missed. A goal is met or "
    "missed by the ratios as they are; ratios within two standard errors of the limit are named.",
    "The best mixture. Certified by the oracle for concave and convex metrics, and for Bernoulli arms: a policy "
    "that beats it by more than 1e-9 stops the experiment with an error. For the other metrics the oracle "
    "searches without a proof: if a policy finds more, that value takes the place of the oracle's for all "
    "policies, and the page says so.",
    "Looked at before. The instances of the notes, by whoever made Vet: its rule and its constants (the threshold, the "
    "caution of 1/3, when to look again) were chosen on them, with other seeds. The ten drawn ones, once, by whoever "
    "wrote this plan: in a pilot with another seed and T ≤ 10,000, which was deleted. No instance, score or goal was "
    "changed after it; the seconds allowed were cut, from 10 to 6 a trial and from 8 to 5 in all, so some cells have "
    "fewer trials. They are not in quick runs, so that they are not looked at in passing.",
    "Nothing is left out afterwards: all instances, policies and trials of the plan are in the table. B-CVTS with "
    "lower CVaR is ρ-NPTS, so it is not listed again. Thompson and UCB1 aim at the mean, whatever the metric.",
)  # fmt: skip


@dataclass(frozen=True)
class Player:
    """A policy of the comparison: its name in the table, how a recipe for a horizon is made, and what it is."""

    label: str
    make: Callable[[int], Policy]
    about: str


def _known(label: str, name: str, about: str, **options: Any) -> list[Player]:
    """A policy of this name, if the library has it."""
    found = getattr(pmb, name, None)
    return [] if found is None else [Player(label, lambda horizon: found(**options), about)]


@cache
def players() -> tuple[Player, ...]:
    """All policies that the library has, in the order of the columns.

    >>> [player.label for player in players()][-2:]
    ['Thompson', 'UCB1']
    """
    return (
        *_known(VET, "Vet", "estimate, track, and test the arms left out; ours"),
        Player(TRACK, lambda horizon: Track(), "estimate, track, and explore about √t times; ours"),
        *_known("UC-FW", "UCFW", "UC-Frank-Wolfe with its published bonus", bonus="published"),
        *_known("UC-FW var.", "UCFW", "UC-Frank-Wolfe with a bonus scaled by the variance", bonus="variance"),
        *_known("Mix-UCB OGD", "MixtureUCB", "Mixture-UCB-OGD, for quadratic metrics", form="ogd"),
        *_known("Mix-UCB CAB", "MixtureUCB", "Mixture-UCB-CAB, for quadratic metrics", form="cab"),
        Player("CIRT", lambda horizon: CIRT(), "the paper's anytime algorithm"),
        Player("PM-UCB-M", lambda horizon: PMUCB(horizon=horizon), "the paper's optimism over mixtures"),
        Player("ρ-NPTS", lambda horizon: RhoNPTS(), "Thompson sampling for any metric, one arm"),
        Player("M-CVTS", lambda horizon: MCVTS(), "Thompson sampling for lower CVaR, one arm"),
        Player("Thompson", lambda horizon: Thompson(), "Thompson sampling for the mean"),
        Player("UCB1", lambda horizon: UCB1(), "optimism for the mean"),
    )


def refusal(player: Player, instance: Instance, horizon: int) -> str | None:
    """The sentence with which a policy refuses an instance, or nothing."""
    recipe, arms = player.make(horizon), instance.arms(0)
    try:
        policy: Policy = type(recipe)(
            instance.metric, n_arms=arms.n_arms, support=arms.support, seed=recipe.seed, **recipe.options
        )
    except (ValueError, IndexError) as error:
        return str(error)
    if policy.explore_rounds > horizon:
        return f"it explores for {policy.explore_rounds:,} rounds, more than there are."
    return None


# ---- how often -------------------------------------------------------------------------------------------

Costs = Mapping[tuple[str, str], tuple[float, ...]]


def read_costs(path: Path = COSTS) -> dict[tuple[str, str], tuple[float, ...]]:
    """Seconds of one trial up to each horizon, by instance and policy, as the pilot measured them."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["instance"], row["policy"]): tuple(float(row[f"{t}"]) for t in HORIZONS)
                for row in csv.DictReader(file)}  # fmt: skip


def trials(seconds: float) -> int:
    """How many trials are played of a policy that takes so many seconds for one.

    >>> trials(0.001), trials(0.3), trials(10.0)
    (64, 16, 8)
    """
    return next((n for n in TRIALS if n * seconds <= BUDGET), TRIALS[-1])
