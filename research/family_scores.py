"""Scores of the family: regret by instance, policy and horizon, Vet beside the best other, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research.family_arms import BETA, Instance
from research.family_plan import CLOSE_RATIO, CLOSE_SHARE, HALF_RATIO, JUDGED, OURS, VET, WORST_RATIO
from research.measure import ERRORS, Mean, mean
from research.outcome import Claim, FloatArray, Verdict

NOT_PLAYED = "Nothing was played to this horizon."
LEAST = 1e-12  # a regret below this is rounding


@dataclass(frozen=True)
class Cell:
    """One policy on one instance.

    Attributes
    ----------
    regret : by horizon, one number a trial, in the order of the trials.
    why : why there is no regret at a horizon.
    """

    regret: Mapping[int, FloatArray]
    why: Mapping[int, str]


@dataclass(frozen=True)
class Scores:
    """All cells: by instance (key) and policy."""

    instances: Sequence[Instance]
    labels: Sequence[str]
    horizons: Sequence[int]
    cells: Mapping[tuple[str, str], Cell]

    def at(self, instance: Instance, t: int) -> dict[str, FloatArray]:
        """Regret of all policies that were played on an instance to this horizon."""
        found = {label: self.cells[instance.key, label].regret.get(t) for label in self.labels}
        return {label: regret for label, regret in found.items() if regret is not None}


@dataclass(frozen=True)
class Comparison:
    """A policy beside another on the trials that both played: ratio of mean regrets, and the paired difference."""

    other: str
    ratio: Mean
    difference: Mean
    trials: int

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``not told apart``, by two standard errors of the difference."""
        if self.difference.value < -ERRORS * self.difference.error:
            return "better"
        return "worse" if self.difference.value > ERRORS * self.difference.error else "not told apart"


def compare(mine: FloatArray, other: FloatArray, label: str = "") -> Comparison:
    """One policy beside another, paired by trial; the error of the ratio is that of its linear part.

    >>> import numpy as np
    >>> found = compare(np.array([1.0, 2.0, 3.0, 2.0]), np.array([4.0, 4.0, 5.0, 3.0, 90.0]))
    >>> found.trials, str(found.difference), found.ratio.value, found.verdict
    (4, '-2 ± 0.4', 0.5, 'better')
    """
    n = min(mine.size, other.size)
    mine, other = mine[:n], other[:n]
    below = max(float(other.mean()), LEAST)
    ratio = max(float(mine.mean()), LEAST) / below
    return Comparison(label, Mean(ratio, mean(mine - ratio * other).error / below), mean(mine - other), n)


def best_of(scores: Scores, instance: Instance, t: int, without: Sequence[str]) -> str | None:
    """The policy with the least mean regret, some left out; nothing if none was played."""
    found = {label: float(r.mean()) for label, r in scores.at(instance, t).items() if label not in without}
    return min(found, key=lambda label: found[label]) if found else None


def against(scores: Scores, t: int, without: Sequence[str] = (VET,)) -> dict[str, Comparison]:
    """Vet beside the best of the others, by instance; instances that Vet or all others did not play are left out."""
    out = {}
    for instance in scores.instances:
        found, other = scores.at(instance, t), best_of(scores, instance, t, without)
        if VET in found and other is not None:
            out[instance.key] = compare(found[VET], found[other], other)
    return out


# ---- goals -----------------------------------------------------------------------------------------------


def goals(scores: Scores) -> list[Claim]:
    """What Vet was to reach, and whether it did. An instance that Vet did not play counts as missed."""
    out = []
    title = {instance.key: instance.title for instance in scores.instances}
    for t in JUDGED:
        found, absent = against(scores, t), _absent(scores, t, (VET,))
        ratios = {key: one.ratio.value for key, one in found.items()}
        count = len(ratios) + len(absent)
        close = sum(ratio <= CLOSE_RATIO for ratio in ratios.values())
        share = close / count if count else 0.0
        worst = max(ratios, key=lambda key: ratios[key], default=None)
        largest = "" if worst is None else (
            f"The largest ratio is {found[worst].ratio} ({title[worst]}, beside {found[worst].other})."
        )  # fmt: skip
        out += [
            Claim(
                f"close-{t}",
                f"T = {t:,}: Vet's regret is at most {CLOSE_RATIO:g} times that of the best other policy on at least "
                f"{100 * CLOSE_SHARE:.0f} % of all instances.",
                _verdict(ratios, share >= CLOSE_SHARE),
                f"On {close} of {count} instances ({100 * share:.0f} "
                f"%).{_left(absent)}{_doubtful(found, title, CLOSE_RATIO)}"
                if count
                else NOT_PLAYED,
                {"share": share, "instances": float(count)},
            ),
            Claim(
                f"far-{t}",
                f"T = {t:,}: Vet's regret is at most {WORST_RATIO:g} times that of the best other policy on every "
                f"instance.",
                _verdict(ratios, not absent and all(ratio <= WORST_RATIO for ratio in ratios.values())),
                f"{largest}{_left(absent)}{_doubtful(found, title, WORST_RATIO)}".strip() or NOT_PLAYED,
                {f"ratio {key}": ratio for key, ratio in ratios.items()},
            ),
        ]
    return [*out, _beta_goal(scores)]


def _beta_goal(scores: Scores) -> Claim:
    t = JUDGED[-1]
    wanted = [instance for instance in scores.instances if instance.distribution == BETA and instance.n_arms >= 10]
    title = {instance.key: instance.title for instance in wanted}
    found = {key: one for key, one in against(scores, t, OURS).items() if key in title}
    absent = [name for name in _absent(scores, t, OURS) if name in title.values()]
    missed = [f"{title[key]} ({one.ratio}, {one.other})" for key, one in found.items() if one.ratio.value > HALF_RATIO]
    return Claim(
        "beta-half",
        f"T = {t:,}: with ten or more Beta arms Vet's regret is at most {HALF_RATIO:g} times that of the best "
        f"published "
        "policy (all but Vet and Track).",
        _verdict(found, not missed and not absent),
        f"On {len(found) - len(missed)} of {len(found) + len(absent)} instances"
        f"{'; not on ' + '; '.join(missed) if missed else ''}.{_left(absent)}{_doubtful(found, title, HALF_RATIO)}"
        if found or absent
        else NOT_PLAYED,
        {f"ratio {key}": one.ratio.value for key, one in found.items()},
    )


def _absent(scores: Scores, t: int, without: Sequence[str]) -> list[str]:
    """Titles of instances that others played to this horizon, and Vet did not."""
    return [
        one.title
        for one in scores.instances
        if VET not in scores.at(one, t) and best_of(scores, one, t, without) is not None
    ]


def _left(absent: Sequence[str]) -> str:
    return f" Vet was not played on {'; '.join(absent)}." if absent else ""


def _verdict(found: Mapping[str, object], met: bool) -> Verdict:
    if not found:
        return "not decidable"
    return "holds" if met else "does not hold"


def _doubtful(found: Mapping[str, Comparison], title: Mapping[str, str], limit: float) -> str:
    """Ratios that two standard errors would carry over the limit."""
    near = [title[key] for key, one in found.items() if abs(one.ratio.value - limit) <= ERRORS * one.ratio.error]
    return f" Within two standard errors of the limit: {'; '.join(near)}." if near else ""
