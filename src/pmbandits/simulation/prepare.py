"""What is to be played: all that a simulation was given, checked before anything is played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pmbandits import __version__, _check
from pmbandits.arms import Bandit, agree
from pmbandits.best import Best, oracle
from pmbandits.changing import Changing
from pmbandits.limits import Limits, Shares, limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies.limited import limited
from pmbandits.policies.policy import Policy
from pmbandits.simulation._kernels import BLOCK
from pmbandits.simulation.course import METHODS, Course, Moment
from pmbandits.simulation.delays import Delay
from pmbandits.simulation.plain import PlainPolicy
from pmbandits.simulation.recipes import Recipe, describe, metric_to_dict, recipes
from pmbandits.simulation.rewards import BLOCK_SIZE, GENERATOR, source

DEFAULT_CHECKPOINTS = 40
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """One policy at one horizon."""

    label: str
    policy: Policy | PlainPolicy = field(repr=False)
    horizon: int
    checkpoints: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Experiment:
    """A simulation that was checked and can be played."""

    course: Course
    metric: Distortion
    entries: tuple[Entry, ...]
    trials: tuple[int, ...]
    seed: int
    moments: tuple[Moment, ...]
    bests: tuple[Best, ...]  # the best mixture of each moment
    spec: dict[str, Any]

    @property
    def bandit(self) -> Bandit | Changing:
        """The arms."""
        return self.course.bandit

    @property
    def identity(self) -> str:
        """A hash of everything that results depend on, but which trials are wanted."""
        what = {k: v for k, v in self.spec.items() if k != "trials"}
        what |= {"library": __version__, "generator": GENERATOR, "block": BLOCK_SIZE}
        if any((source(b).kinds == BLOCK).any() for b in {id(m.bandit): m.bandit for m in self.moments}.values()) or (
            self.course.delays is not None and not self.course.delays.fixed
        ):  # these rewards, or delays, are scipy's and numpy's
            what |= {"scipy": scipy.__version__, "numpy": np.__version__}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def turns(self, horizon: int) -> NDArray[np.int64]:
        """The ends of the moments of so many rounds; none where nothing changes."""
        ends = [] if self.course.still else [min(m.end, horizon) for m in self.moments if m.start < horizon]
        return np.array(ends, dtype=np.int64)

    @property
    def rounds(self) -> int:
        """How many rounds there are to play in all."""
        return sum(entry.horizon for entry in self.entries) * len(self.trials)


def prepare(
    bandit: Bandit | Changing,
    metric: Distortion | str,
    policies: Recipe | Sequence[Recipe] | Mapping[str, Recipe],
    horizon: int | Sequence[int],
    trials: int | Sequence[int],
    seed: int,
    checkpoints: int | ArrayLike | None,
    delay: Delay = 0,
    batch: int = 1,
    schedule: Sequence[Sequence[Any]] = (),
    *,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
) -> Experiment:
    """Check everything before anything is played."""
    horizons = _horizons(horizon)
    course = Course.of(bandit, delay, batch, schedule, max(horizons))
    metric = as_metric(metric)
    numbers = _trials(trials)
    seed = _check.whole("seed", seed, 0, _LARGEST_SEED)
    known = recipes(policies, max(horizons))
    kept = limits(shares, bandit.names, cost=cost, budget=budget)
    _of_the_first(kept, course)
    moments = course.moments(max(horizons))
    bests = best_of_each(metric, moments, kept)  # also says so if a utility is infinite
    wanted = Checkpoints(checkpoints, horizons, [] if course.still else [moment.end for moment in moments])
    needed = sorted({METHODS[event.verb] for event in course.schedule})
    entries, described = [], []
    for label, recipe in known.items():
        mine = horizons if _needs_horizon(recipe) else [max(horizons)]
        for rounds in mine:
            policy: Policy | PlainPolicy
            if isinstance(recipe, PlainPolicy):
                policy = recipe.bind(metric, course.start, rounds, kept if len(kept) else None, needed)
            else:
                policy = _bound(label, recipe, course, metric, rounds, kept, several=len(horizons) > 1)
                _must_take(policy, label, course)
            entries.append(Entry(label, policy, rounds, wanted.up_to(rounds)))
        described.append({"label": label, **describe(recipe, metric), "horizons": mine})
    spec = {
        "bandit": bandit.to_dict() if isinstance(bandit, Bandit) else bandit.to_dict(max(horizons)),
        "metric": metric_to_dict(metric),
        "metric_text": repr(metric),
        "policies": described,
        "horizons": horizons,
        "trials": list(numbers),
        "seed": seed,
        "checkpoints": wanted.spec,
        **course.spec,
        **({"shares": str(kept)} if len(kept) else {}),
    }
    return Experiment(course, metric, tuple(entries), numbers, seed, tuple(moments), bests, spec)


def _of_the_first(kept: Limits, course: Course) -> None:
    """Refuse limits on arms that are added later: a policy's limits are those of the arms that it is made with."""
    for i, name in enumerate(course.bandit.names):
        if i not in course.first and len(kept) and kept.matrix[:, i].any():
            raise ValueError(
                f"the limits {kept} are on {name}, which is added later, but a policy knows only limits on the arms "
                "that it begins with; leave that limit out, or let the arm pause at first: (0, 'pause', ...)."
            )


def best_of_each(metric: Distortion, moments: Sequence[Moment], kept: Limits) -> tuple[Best, ...]:
    """The best mixture of the arms that play that keeps the limits, for each moment.

    Moments with the same arms are worked out once.
    """
    known: dict[tuple[int, tuple[int, ...]], Best] = {}
    for moment in moments:
        key = id(moment.bandit), moment.playing
        if key not in known:
            arms = moment.arms
            mine = kept.among(arms.names) if len(kept) and arms.names != kept.names else kept
            known[key] = oracle(metric, arms, shares=mine if mine is not None and len(mine) else None)
    return tuple(known[id(moment.bandit), moment.playing] for moment in moments)


def _needs_horizon(recipe: Policy | PlainPolicy) -> bool:
    return "horizon" in (recipe.wanted if isinstance(recipe, PlainPolicy) else recipe.options)


def _bound(
    label: str, recipe: Policy, course: Course, metric: Distortion, rounds: int, kept: Limits, *, several: bool
) -> Policy:
    bandit = course.start
    support = recipe.support if recipe.support is not None else bandit.support
    if support is None:
        raise ValueError(
            f"the support of {bandit!r} is not known; say Bandit(..., support=Interval(lo, hi)), or Real(sigma)."
        )
    if recipe.names and recipe.n_arms != bandit.n_arms:
        raise ValueError(f"{label} was made for {recipe.n_arms} arms, but the bandit has {bandit.n_arms}.")
    if recipe.support is not None:
        for arms in {id(moment.bandit): moment.bandit for moment in course.moments(rounds)}.values():
            agree(recipe.support, arms.laws, arms.names)
    options = dict(recipe.options)
    if len(kept) and not limited(options):
        mine = kept if bandit.names == kept.names else kept.among(bandit.names)
        options |= {} if mine is None else {"shares": mine}
    if "horizon" in options:
        if several:
            options["horizon"] = rounds
        elif options["horizon"] < rounds:
            raise ValueError(
                f"{label} was made for {options['horizon']:,} rounds but is to play {rounds:,}; "
                f"give it horizon={rounds} or more."
            )
    try:
        policy: Policy = type(recipe)(
            recipe.metric if recipe.metric is not None else metric,
            n_arms=bandit.n_arms,
            support=support,
            names=bandit.names,
            seed=recipe.seed,
            **options,
        )
    except (ValueError, IndexError) as error:
        raise ValueError(f"{label} cannot play {rounds:,} rounds here: {error}") from None
    explored = policy.explore_rounds
    if explored > rounds:
        raise ValueError(
            f"{label} explores for {explored:,} rounds, more than the horizon of {rounds:,}; "
            "take a longer horizon, or less exploration."
        )
    return policy


def _must_take(policy: Policy, label: str, course: Course) -> None:
    """Let all arms of a schedule come and go, so that what a policy does not take is said before anything is played."""
    trial = policy._twin()
    for event in course.schedule:
        try:
            getattr(trial, METHODS[event.verb])(event.arm)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{label} does not take the schedule, after {event.after:,} rounds: {error}") from None


def _horizons(horizon: Any) -> list[int]:
    many = [horizon] if not _check.is_list(horizon) else list(horizon)
    if not many:
        raise ValueError("horizon is empty; give a number of rounds, or several.")
    return sorted({_check.whole("horizon", h, 1, 2**53) for h in many})


def _trials(trials: Any) -> tuple[int, ...]:
    if not _check.is_list(trials):
        return tuple(range(_check.whole("trials", trials, 1, 10_000_000)))
    numbers = tuple(sorted({_check.whole("trial", k, 0, _LARGEST_SEED) for k in trials}))
    if not numbers:
        raise ValueError("trials is empty; say how many, or which ones.")
    return numbers


def _listed(given: Any) -> list[Any]:
    """A list or an array as a list of Python's numbers."""
    return [t.item() if isinstance(t, np.generic) else t for t in given]


class Checkpoints:
    def __init__(self, given: Any, horizons: list[int], turns: list[int]) -> None:
        self.horizons, self.turns = horizons, turns  # and when moments end, if there are several
        self.times: list[int] | None = None
        self.count = DEFAULT_CHECKPOINTS
        if given is None:
            pass
        elif not _check.is_list(given):
            self.count = _check.whole("checkpoints", given, 1, 1_000_000)
        else:
            self.times = sorted({_check.whole("checkpoint", t, 1, max(horizons)) for t in _listed(given)})
            if not self.times:
                raise ValueError("checkpoints is empty; give rounds, or how many.")

    @property
    def spec(self) -> int | list[int]:
        """As it goes into the specification."""
        return self.count if self.times is None else self.times

    def up_to(self, rounds: int) -> NDArray[np.int64]:
        """The checkpoints of a run; its end is always one, and so are shorter horizons."""
        if self.times is None:
            spaced = np.linspace if self.turns else np.geomspace  # where things change, all times count alike
            times = np.unique(np.round(spaced(min(10, rounds), rounds, self.count)).astype(np.int64))
            if len(self.turns) <= self.count:
                times = np.union1d(times, [turn for turn in self.turns if turn <= rounds])
        else:
            times = np.array([t for t in self.times if t <= rounds], dtype=np.int64)
        ends = [h for h in self.horizons if h <= rounds]
        return np.union1d(times, np.array([*ends, rounds], dtype=np.int64)).astype(np.int64)
