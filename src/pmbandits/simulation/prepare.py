"""Validate the arguments of ``simulate`` and build the experiment, before anything is played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pmbandits import __version__, _validation
from pmbandits.arms import Bandit, check_within_support
from pmbandits.changing import Changing
from pmbandits.constraints import Limits, Shares, limits
from pmbandits.engine.policy import Policy
from pmbandits.engine.share_constraints import do_options_have_limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult, oracle
from pmbandits.optimize.best_mixture import oracle_of_population
from pmbandits.population import Population
from pmbandits.segments import Segments
from pmbandits.simulation._kernels import PREDRAWN
from pmbandits.simulation.delays import Delay
from pmbandits.simulation.policy_specs import PolicySpec, Recipe, metric_to_dict, parse_policies, policy_to_dict
from pmbandits.simulation.python_policy import PythonPolicy
from pmbandits.simulation.rewards import BLOCK_SIZE, GENERATOR, sampler_arrays_of_bandit
from pmbandits.simulation.segments import IgnoringSegments, PerSegment
from pmbandits.simulation.timeline import POLICY_METHODS, StationaryPeriod, Timeline

DEFAULT_CHECKPOINTS = 40
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class PolicyAtHorizon:
    """One policy at one horizon; ``per_segment`` are policies that each play for one segment only."""

    label: str
    policy: Policy | PythonPolicy = field(repr=False)
    horizon: int
    checkpoints: NDArray[np.int64] = field(repr=False)
    per_segment: tuple[Policy, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Experiment:
    """A simulation that was checked and can be played."""

    timeline: Timeline
    metric: Distortion
    entries: tuple[PolicyAtHorizon, ...]
    trials: tuple[int, ...]
    seed: int
    periods: tuple[StationaryPeriod, ...]
    find_best_mixtures: Callable[[], tuple[OracleResult, ...]] = field(repr=False)
    spec: dict[str, Any]

    @cached_property
    def best_mixtures(self) -> tuple[OracleResult, ...]:
        """The best mixture of each period; to ask for them also says so if a utility is infinite."""
        return self.find_best_mixtures()

    @property
    def bandit(self) -> Bandit | Changing:
        """The arms."""
        return self.timeline.bandit

    @property
    def identity_hash(self) -> str:
        """SHA-256 of everything that results depend on, except the choice of trials."""
        what = {k: v for k, v in self.spec.items() if k != "trials"}
        what |= {"library": __version__, "generator": GENERATOR, "block": BLOCK_SIZE}
        bandits = {id(period.bandit): period.bandit for period in self.periods}.values()
        delays, predrawn = (
            self.timeline.delays,
            any((sampler_arrays_of_bandit(b).kinds == PREDRAWN).any() for b in bandits),
        )
        if predrawn or (delays is not None and not delays.is_deterministic):  # by scipy and numpy
            what |= {"scipy": scipy.__version__, "numpy": np.__version__}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def period_ends(self, horizon: int) -> NDArray[np.int64]:
        """Return the rounds after which periods end, up to a horizon; none if the arms are stationary."""
        ends = [] if self.timeline.is_stationary else [min(m.end, horizon) for m in self.periods if m.start < horizon]
        return np.array(ends, dtype=np.int64)

    @property
    def n_rounds_in_all(self) -> int:
        """How many rounds there are to play in all."""
        return sum(entry.horizon for entry in self.entries) * len(self.trials)


def prepare_experiment(
    metric: Distortion | str,
    bandit: Bandit | Changing | Mapping[str, Bandit],
    policies: PolicySpec | Sequence[PolicySpec] | Mapping[str, PolicySpec],
    horizon: float | Sequence[float],
    trials: float | Sequence[int],
    seed: int | None,
    checkpoints: int | ArrayLike | None,
    delay: Delay = 0,
    batch: int = 1,
    schedule: Sequence[Sequence[Any]] = (),
    *,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
    segments: Mapping[str, float] | None = None,
) -> Experiment:
    """Check the arguments of ``simulate`` and return the experiment. Best mixtures are found when first asked for."""
    if isinstance(metric, (Bandit, Changing)) or isinstance(policies, (Bandit, Changing)):
        raise TypeError(
            "the order is simulate(metric, bandit, policies, horizon): the metric comes first, as in "
            "oracle(metric, bandit)."
        )
    horizons = _parse_horizons(horizon)
    timeline = Timeline.from_arguments(bandit, delay, batch, schedule, max(horizons), segments)
    metric = as_metric(metric)
    numbers = _parse_trials(trials)
    seed = _validation.check_seed("seed", seed, LARGEST_SEED)
    known = parse_policies(policies, max(horizons))
    share_limits = _parse_limits(shares, cost, budget, timeline)
    periods = timeline.periods(max(horizons))
    best_mixtures = partial(best_mixtures_by_period, metric, periods, share_limits, timeline.population)
    wanted = Checkpoints(checkpoints, horizons, [] if timeline.is_stationary else [period.end for period in periods])
    needed = sorted({POLICY_METHODS[event.verb] for event in timeline.schedule})
    entries, described = [], []
    for label, recipe in known.items():
        mine = horizons if _needs_horizon(recipe) else [max(horizons)]
        for rounds in mine:
            policy: Policy | PythonPolicy
            per_segment: tuple[Policy, ...] = ()
            bind = partial(_bind_policy, label, metric=metric, rounds=rounds, several=len(horizons) > 1)
            if timeline.population is not None:
                policy, *rest = _bind_with_segments(label, recipe, timeline.population, share_limits, bind)
                per_segment = (policy, *rest) if isinstance(recipe, PerSegment) else ()
            elif isinstance(recipe, PythonPolicy):
                policy = recipe.bind(metric, timeline.initial_bandit, rounds, share_limits, needed)
            elif isinstance(recipe, Policy):
                bandits = [period.bandit for period in timeline.periods(rounds)]
                policy = bind(recipe, timeline.initial_bandit, bandits, share_limits)
                _rehearse_schedule(policy, label, timeline)
            else:
                raise ValueError(
                    f"{label} is for people of several segments; give segments={{…}}: how often each comes."
                )
            entries.append(PolicyAtHorizon(label, policy, rounds, wanted.checkpoints_of_run(rounds), per_segment))
        described.append({"label": label, **policy_to_dict(recipe, metric), "horizons": mine})
    arms = timeline.bandit
    spec = {
        "bandit": arms.to_dict() if isinstance(arms, Bandit) else arms.to_dict(max(horizons)),
        "metric": metric_to_dict(metric),
        "metric_text": repr(metric),
        "policies": described,
        "horizons": horizons,
        "trials": list(numbers),
        "seed": seed,
        "checkpoints": wanted.spec,
        **timeline.spec,
        **({} if share_limits is None else {"shares": str(share_limits)}),
    }
    return Experiment(timeline, metric, tuple(entries), numbers, seed, tuple(periods), best_mixtures, spec)


def _parse_limits(
    shares: Shares, cost: Mapping[str, float] | None, budget: float | None, timeline: Timeline
) -> Limits | None:
    """Return the limits on shares, or ``None`` if there are none.

    A policy's limits are those of the arms that it is made with, so limits on arms that are added later are refused.
    """
    if shares is None and cost is None and budget is None:
        return None
    if timeline.population is not None:
        known, often = timeline.population.segments, timeline.population.frequencies
        made = limits(shares, known.arms, cost=cost, budget=budget, segments=known, frequencies=often)
        return made if len(made) else None
    made = limits(shares, timeline.bandit.names, cost=cost, budget=budget)
    for i, name in enumerate(timeline.bandit.names):
        if i not in timeline.initial_arms and made.matrix[:, i].any():
            raise ValueError(
                f"the limits {made} are on {name}, which is added later, but a policy knows only limits on the arms "
                "that it begins with; leave that limit out, or let the arm pause at first: (0, 'pause', ...)."
            )
    return made if len(made) else None


def best_mixtures_by_period(
    metric: Distortion,
    periods: Sequence[StationaryPeriod],
    share_limits: Limits | None,
    population: Population | None = None,
) -> tuple[OracleResult, ...]:
    """Return, for each period, the best mixture of the active arms within the limits; or that of a population.

    Periods with the same arms are worked out once.
    """
    if population is not None:
        return (oracle_of_population(metric, population, share_limits).columns,)
    known: dict[tuple[int, tuple[int, ...]], OracleResult] = {}
    for period in periods:
        key = id(period.bandit), period.playing
        if key not in known:
            arms = period.bandit_of_playing_arms
            known[key] = oracle(metric, arms, shares=_limits_among(share_limits, arms))
    return tuple(known[id(period.bandit), period.playing] for period in periods)


def _limits_among(share_limits: Limits | None, arms: Bandit) -> Limits | None:
    """Return the limits for a bandit of only some of the arms; ``None`` if none of them is left."""
    if share_limits is None or arms.names == share_limits.names:
        return share_limits
    return share_limits.among(arms.names)


def _needs_horizon(recipe: Recipe) -> bool:
    if isinstance(recipe, (PerSegment, IgnoringSegments)):
        return _needs_horizon(recipe.policy)
    return "horizon" in (recipe.wanted if isinstance(recipe, PythonPolicy) else recipe.options)


def _bind_with_segments(
    label: str, recipe: Recipe, population: Population, share_limits: Limits | None, bind: Callable[..., Policy]
) -> list[Policy]:
    """The policy that plays for all segments, or those that play for one each."""
    segments, columns = population.segments, population.columns
    inner = recipe.policy if isinstance(recipe, (PerSegment, IgnoringSegments)) else recipe
    if not isinstance(inner, Policy):
        raise ValueError(f"{label} is plain Python, which cannot be played with segments; take a policy such as Vet().")
    if inner is not recipe and share_limits is not None:
        raise ValueError(f"{label} cannot keep limits ({share_limits}); leave them out, or take Vet() alone.")
    if isinstance(recipe, PerSegment):
        own = [np.flatnonzero(segments.segment_of == s) for s in range(len(segments))]
        bandits = [_bandit_of_columns(population, part) for part in own]
        return [bind(inner, bandit, [bandit], None) for bandit in bandits]
    if isinstance(recipe, IgnoringSegments):
        if segments.n_columns < len(segments) * len(segments.arms):
            raise ValueError(f"{label} needs all arms in all segments; take Vet(), or PerSegment(...).")
        first = _bandit_of_columns(population, np.arange(len(segments.arms)))
        return [bind(inner, first, [first], None)]
    if not inner.takes_segments:
        raise ValueError(
            f"{label} has no rule for segments; take Vet(), or simulation.PerSegment(...) or "
            "simulation.IgnoringSegments(...) of it."
        )
    return [bind(inner, columns, [columns], share_limits, segments=segments)]


def _bandit_of_columns(population: Population, columns: NDArray[np.intp]) -> Bandit:
    """The columns of one segment as a bandit, with the names of arms, and the support of all segments."""
    segments, all_columns = population.segments, population.columns
    names = [segments.arms[segments.arm_of[i]] for i in columns]
    return Bandit([all_columns.distributions[i] for i in columns], names, support=all_columns.support)


def _bind_policy(
    label: str,
    recipe: Policy,
    bandit: Bandit,
    bandits: Sequence[Bandit],
    share_limits: Limits | None,
    metric: Distortion,
    rounds: int,
    *,
    several: bool,
    segments: Segments | None = None,
) -> Policy:
    """Make the policy that plays: for the arms of a bandit, which are those of ``bandits`` in turn."""
    names = bandit.names if segments is None else segments.arms
    support = recipe.support if recipe.support is not None else bandit.support
    if support is None:
        raise ValueError(
            f"the support of {bandit!r} is not known; say Bandit(..., support=Interval(lo, hi)), or Real(sigma)."
        )
    if recipe.names and recipe.n_arms != len(names):
        raise ValueError(f"{label} was made for {recipe.n_arms} arms, but the bandit has {len(names)}.")
    if recipe.support is not None:
        for arms in {id(one): one for one in bandits}.values():
            check_within_support(recipe.support, arms.distributions, arms.names)
    options = dict(recipe.options)
    if segments is not None:
        options["segments"] = segments.to_argument()
    mine = _limits_among(share_limits, bandit)
    if mine is not None and not do_options_have_limits(options):
        options["shares"] = mine
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
            n_arms=len(names),
            support=support,
            names=names,
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


def _rehearse_schedule(policy: Policy, label: str, timeline: Timeline) -> None:
    """Let all arms of a schedule come and go, so that what a policy does not take is said before anything is played."""
    trial = policy._clone()
    for event in timeline.schedule:
        try:
            getattr(trial, POLICY_METHODS[event.verb])(event.arm)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{label} does not take the schedule, after {event.after:,} rounds: {error}") from None


def _parse_horizons(horizon: Any) -> list[int]:
    many = [horizon] if not _validation.is_list(horizon) else list(horizon)
    if not many:
        raise ValueError("horizon is empty; give a number of rounds, or several.")
    return sorted({_validation.check_whole_number("horizon", h, 1, 2**53) for h in many})


def _parse_trials(trials: Any) -> tuple[int, ...]:
    if not _validation.is_list(trials):
        return tuple(range(_validation.check_whole_number("trials", trials, 1, 10_000_000)))
    numbers = tuple(sorted({_validation.check_whole_number("trial", k, 0, LARGEST_SEED) for k in trials}))
    if not numbers:
        raise ValueError("trials is empty; say how many, or which ones.")
    return numbers


class Checkpoints:
    """The rounds at which results are recorded: those that were given, or so many in all.

    ``period_ends`` are the ends of periods, if there are several; then checkpoints are spaced evenly.
    """

    def __init__(self, given: Any, horizons: list[int], period_ends: list[int]) -> None:
        self.horizons, self.period_ends = horizons, period_ends
        self.times: list[int] | None = None
        self.count = DEFAULT_CHECKPOINTS
        if given is not None and not _validation.is_list(given):
            self.count = _validation.check_whole_number("checkpoints", given, 1, 1_000_000)
        elif given is not None:
            rounds = [t.item() if isinstance(t, np.generic) else t for t in given]
            self.times = sorted({_validation.check_whole_number("checkpoint", t, 1, max(horizons)) for t in rounds})
            if not self.times:
                raise ValueError("checkpoints is empty; give rounds, or how many.")

    @property
    def spec(self) -> int | list[int]:
        """The checkpoints as JSON for the specification: their number, or their rounds."""
        return self.count if self.times is None else self.times

    def checkpoints_of_run(self, rounds: int) -> NDArray[np.int64]:
        """The checkpoints of a run; its end is always one, and so are shorter horizons."""
        if self.times is None:
            spaced = np.linspace if self.period_ends else np.geomspace  # where things change, all times count alike
            times = np.unique(np.round(spaced(min(10, rounds), rounds, self.count)).astype(np.int64))
            if len(self.period_ends) <= self.count:
                times = np.union1d(times, [turn for turn in self.period_ends if turn <= rounds])
        else:
            times = np.array([t for t in self.times if t <= rounds], dtype=np.int64)
        ends = [h for h in self.horizons if h <= rounds]
        return np.union1d(times, np.array([*ends, rounds], dtype=np.int64)).astype(np.int64)
