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
from pmbandits.arms import Bandit, agree, check_bandit
from pmbandits.best import Best, oracle
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies.policy import Policy
from pmbandits.simulation._kernels import BLOCK
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

    bandit: Bandit
    metric: Distortion
    entries: tuple[Entry, ...]
    trials: tuple[int, ...]
    seed: int
    best: Best
    spec: dict[str, Any]

    @property
    def identity(self) -> str:
        """A hash of everything that results depend on, but which trials are wanted."""
        what = {k: v for k, v in self.spec.items() if k != "trials"}
        what |= {"library": __version__, "generator": GENERATOR, "block": BLOCK_SIZE}
        if (source(self.bandit).kinds == BLOCK).any():  # these rewards are scipy's and numpy's
            what |= {"scipy": scipy.__version__, "numpy": np.__version__}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def rounds(self) -> int:
        """How many rounds there are to play in all."""
        return sum(entry.horizon for entry in self.entries) * len(self.trials)


def prepare(
    bandit: Bandit,
    metric: Distortion | str,
    policies: Recipe | Sequence[Recipe] | Mapping[str, Recipe],
    horizon: int | Sequence[int],
    trials: int | Sequence[int],
    seed: int,
    checkpoints: int | ArrayLike | None,
) -> Experiment:
    """Check everything before anything is played."""
    check_bandit(bandit)
    metric = as_metric(metric)
    horizons = _horizons(horizon)
    numbers = _trials(trials)
    seed = _check.whole("seed", seed, 0, _LARGEST_SEED)
    known = recipes(policies, max(horizons))
    best = oracle(metric, bandit)  # also says so if a utility is infinite
    wanted = Checkpoints(checkpoints, horizons)
    entries, described = [], []
    for label, recipe in known.items():
        mine = horizons if _needs_horizon(recipe) else [max(horizons)]
        for rounds in mine:
            policy: Policy | PlainPolicy
            if isinstance(recipe, PlainPolicy):
                policy = recipe.bind(metric, bandit, rounds)
            else:
                policy = _bound(label, recipe, bandit, metric, rounds, several=len(horizons) > 1)
            entries.append(Entry(label, policy, rounds, wanted.up_to(rounds)))
        described.append({"label": label, **describe(recipe, metric), "horizons": mine})
    spec = {
        "bandit": bandit.to_dict(),
        "metric": metric_to_dict(metric),
        "metric_text": repr(metric),
        "policies": described,
        "horizons": horizons,
        "trials": list(numbers),
        "seed": seed,
        "checkpoints": wanted.spec,
    }
    return Experiment(bandit, metric, tuple(entries), numbers, seed, best, spec)


def _needs_horizon(recipe: Policy | PlainPolicy) -> bool:
    return "horizon" in (recipe.wanted if isinstance(recipe, PlainPolicy) else recipe.options)


def _bound(label: str, recipe: Policy, bandit: Bandit, metric: Distortion, rounds: int, *, several: bool) -> Policy:
    support = recipe.support if recipe.support is not None else bandit.support
    if support is None:
        raise ValueError(
            f"the support of {bandit!r} is not known; say Bandit(..., support=Interval(lo, hi)), or Real(sigma)."
        )
    if recipe.names and recipe.n_arms != bandit.n_arms:
        raise ValueError(f"{label} was made for {recipe.n_arms} arms, but the bandit has {bandit.n_arms}.")
    if recipe.support is not None:
        agree(recipe.support, bandit.laws, bandit.names)
    options = dict(recipe.options)
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
    def __init__(self, given: Any, horizons: list[int]) -> None:
        self.horizons = horizons
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
            times = np.unique(np.round(np.geomspace(min(10, rounds), rounds, self.count)).astype(np.int64))
        else:
            times = np.array([t for t in self.times if t <= rounds], dtype=np.int64)
        ends = [h for h in self.horizons if h <= rounds]
        return np.union1d(times, np.array([*ends, rounds], dtype=np.int64)).astype(np.int64)
