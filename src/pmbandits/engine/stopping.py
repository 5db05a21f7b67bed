"""When you can stop: whether the certified regret is small enough, and how many more rounds that will take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.confidence._bounds import mixture_utility_with_bounds
from pmbandits.engine.certainty import (
    CHANCES,
    FOR_ARRIVALS_SO_FAR,
    Certainty,
    CertaintyMethods,
    certified_utility_and_regret_bounds,
)
from pmbandits.engine.coarsen import coarse_distributions, memory_of_coarse_distributions, set_coarse_reward_counts
from pmbandits.mixtures._certifying import fill_certification_gains
from pmbandits.mixtures._continuous_search import update_best_mixture
from pmbandits.state.memory import Memory

STRIDE = 1.25  # a forecast looks at rounds that grow by this factor
MAX_ROUNDS = 1e12  # rounds; what would take longer counts as never
RESAMPLES = 24
CELLS = 192
# Rounds that chance in the policy's own path moves, beyond what resampling shows; measured, see docs/howto/stop.md.
SLACK = 0.12


class Goal(NamedTuple):
    """A regret to be certified: a number, or a share of the best utility."""

    size: float
    relative: bool

    def __str__(self) -> str:
        return f"{100 * self.size:.4g} % of the best utility" if self.relative else f"{self.size:.4g}"


def parse_goal(regret: float | str) -> Goal:
    """The goal that ``0.02`` or ``"2%"`` names."""
    if isinstance(regret, str):
        text = regret.strip()
        try:
            if not text.endswith("%"):
                raise ValueError
            share = float(text[:-1]) / 100.0
        except ValueError:
            raise ValueError(
                f"regret must be a number such as 0.02, or a share of the best utility such as '2%', got {regret!r}."
            ) from None
        return Goal(_validation.check_within("regret", share, 0.0, open_lo=True), True)
    return Goal(_validation.check_within("regret", regret, 0.0, open_lo=True), False)


def regret_over_goal(goal: Goal, regret: float, lower: float, rival: float) -> float:
    """The certified regret, as a multiple of the goal.

    The best utility lies between ``lower`` and ``rival``. So a share of it is at least that share of whichever end is
    nearer to 0; if 0 lies between them, nothing is known of shares.
    """
    if not goal.relative:
        return regret / goal.size
    least = lower if lower > 0.0 else -rival if rival < 0.0 else 0.0
    share = goal.size * least  # which rounding can make 0 where the utility is next to nothing
    return regret / share if share > 0.0 else np.inf


def is_goal_met(goal: Goal, sure: Certainty) -> bool:
    """Whether what is certain reaches the goal."""
    return regret_over_goal(goal, sure.regret, sure.lower, sure.rival) <= 1.0


class Forecast(NamedTuple):
    """How many more rounds it will take until a regret is certain: the result of :meth:`Policy.forecast`.

    This is a guess, not a promise. It assumes that the arms have the distributions which they seem to have now, and
    that the policy goes on as it does. It says nothing about how good the mixture is: only :meth:`Policy.done` decides
    when to stop. When printed, it is one sentence.

    Attributes
    ----------
    rounds : about how many more rounds. It is 0 if the regret is certain already, inf if it never will be, and nan
        while an arm has no reward.
    low, high : in simulated runs the true number lay between these about four times out of five.
    goal : what is to be certain, in words; with segments, for people who come as often as they did so far.
    """

    rounds: float
    low: float
    high: float
    goal: str

    def __str__(self) -> str:
        what = f"a regret of at most {self.goal}"
        if self.rounds == 0:
            return f"It is certain now that the mixture has {what}."
        if math.isnan(self.rounds):
            return f"There is no forecast of when {what} will be certain: some arm has not paid a reward yet."
        if not math.isfinite(self.rounds):
            return f"As things look now, {what} will never be certain with these confidence sets."
        high = f"{_to_two_significant_digits(self.high)}" if math.isfinite(self.high) else "any number"
        return (
            f"As things look now, {what} will be certain after about {_to_two_significant_digits(self.rounds)} more "
            f"rounds (probably between {_to_two_significant_digits(self.low)} and {high})."
        )


def _to_two_significant_digits(rounds: float) -> str:
    """A number of rounds as text, rounded to two significant digits."""
    size = 10 ** max(math.floor(math.log10(max(rounds, 1.0))) - 1, 0)
    return f"{round(rounds / size) * size:,}"


def _n_rounds_from_now_to(t: float, now: float) -> float:
    """How many rounds there are from now to t."""
    return max(math.ceil(t - now), 1) if math.isfinite(t) else t


class Extrapolation:
    """A policy's future with the distributions as they look now: pulls go on, and sets shrink with them."""

    def __init__(self, policy: Stopping, memory: Memory, goal: Goal) -> None:
        self.policy, self.first, self.goal = policy, memory, goal
        self.distributions = coarse_distributions(memory, CELLS)
        self.memory = memory_of_coarse_distributions(memory, self.distributions, policy._current_plan(memory))
        self.n_rewards = memory.n_rewards.astype(np.float64)
        self.late = np.maximum(memory.pulls - memory.n_rewards, 0).astype(np.float64)
        self.mix = memory.mix.copy()
        low, middle, _ = mixture_utility_with_bounds(self.memory, self.mix)
        best = self._recompute_best_mixture()
        best_middle = float(mixture_utility_with_bounds(self.memory, best)[1])
        # A policy that plays the best mixture of its estimates would play another one if they were others.
        self.tracks_best = best_middle - float(middle) <= 0.05 * max(float(middle) - float(low), 1e-12)
        self.path: list[tuple[float, FloatArray, float]] = []  # rounds, rewards of each arm, multiple of the goal

    def _recompute_best_mixture(self) -> FloatArray:
        self.memory.mix[:] = self.mix
        update_best_mixture(self.memory.address)
        return self.memory.mix.copy()

    def _regret_multiple(self, counts: FloatArray, n_rewards: FloatArray, mix: FloatArray | None) -> float:
        """The certified regret as a multiple of the goal, if the arms have so many rewards, spread like ``counts``."""
        set_coarse_reward_counts(self.memory, counts, np.maximum(np.rint(n_rewards), 1).astype(np.int64), self.first)
        mixture = self._recompute_best_mixture() if mix is None else mix
        low, _, _, rival, regret = certified_utility_and_regret_bounds(
            self.memory, mixture, self.policy._bounds_basis(), CELLS
        )
        return regret_over_goal(self.goal, regret, low, rival)

    def round_at_which_goal_is_met(self) -> float:
        """At which round the goal is met; infinite if never."""
        n_rewards, t = self.n_rewards.copy(), float(max(self.first.t, self.first.rewards))
        limit = self.policy.options.get("horizon") or MAX_ROUNDS
        while True:
            multiple = self._regret_multiple(self.distributions.counts, n_rewards, self.mix)
            self.path.append((t, n_rewards, multiple))
            if multiple <= 1.0:
                return self._round_where_path_meets_goal()
            if n_rewards.max() >= limit or t >= MAX_ROUNDS:
                return np.inf
            further = max(STRIDE * t, t + 1.0)
            n_rewards, t = self._n_rewards_after_rounds(n_rewards, t, further), further

    def _round_where_path_meets_goal(self) -> float:
        """Between the last two rounds of the path, where the multiple passes 1, as if it fell like a power of t."""
        if len(self.path) == 1:
            return self.path[0][0]
        (t, _, before), (further, _, after) = self.path[-2:]
        if not math.isfinite(before) or after >= before:
            return further
        return _round_of_crossing_one(t, before, further, max(after, 1e-12))

    def _n_rewards_after_rounds(self, n_rewards: FloatArray, t: float, further: float) -> FloatArray:
        """The rewards of each arm after t rounds: some for certifying, some for exploring, the rest for the mixture."""
        start, n_rewards = n_rewards, n_rewards + (self.late if t == self.path[0][0] else 0.0)
        share = float(self.first.certify)
        if share > 0.0:  # pulls go where gain/n^(3/2) is largest: so n grows in proportion to gain^(2/3)
            self.memory.mix[:] = self.mix
            gains = np.empty(n_rewards.size)
            fill_certification_gains(self.memory.address, gains)
            pulls = share * (further - t)
            spread = 0.0 if self.policy._bounds_basis().kind == CHANCES else 0.5 * pulls  # to the arms with the fewest
            n_rewards = _water_fill_counts(
                n_rewards, np.maximum(gains, 0.0) ** (2.0 / 3.0), n_rewards.sum() + pulls - spread
            )
            n_rewards = _water_fill_counts(n_rewards, np.ones(n_rewards.size), n_rewards.sum() + spread)
        rate = self.policy.options.get("exploration")
        least = n_rewards * (math.log(further) / math.log(max(t, 2.0)))  # as good rules do with arms that are left out
        if rate is not None:
            least = np.full(n_rewards.size, (further / n_rewards.size) ** (1.0 / (1.0 + rate)))
        n_rewards = np.maximum(n_rewards, np.minimum(least, start + further - t))
        return _water_fill_counts(n_rewards, self.mix, max(further, n_rewards.sum()))

    def resampled_round_of_goal(self, seed: int) -> float:
        """At which round the goal is met with bootstrapped rewards: each arm's are resampled from its own."""
        rng = np.random.default_rng(seed)
        counts = np.empty_like(self.distributions.counts)
        for i, row in enumerate(self.distributions.counts):
            counts[i] = rng.multinomial(int(self.n_rewards[i]), row / row.sum())
        mix = None if self.tracks_best else self.mix
        points = []
        for t, n_rewards, _ in self.path[-2:]:
            points.append((t, self._regret_multiple(counts, n_rewards, mix)))
        if len(points) == 1:
            return points[0][0]
        (t, before), (further, after) = points
        if not (0.0 < after < before) or not math.isfinite(before):
            return np.inf if not after <= 1.0 else further
        return _round_of_crossing_one(t, before, further, after)


def _round_of_crossing_one(t: float, before: float, further: float, after: float) -> float:
    """Where a number that falls like a power of t passes 1, from its values at two times; infinite if never."""
    growth = math.log(further / t) * math.log(before) / math.log(before / after)
    return t * math.exp(growth) if growth < math.log(MAX_ROUNDS) else np.inf


def _water_fill_counts(n_rewards: FloatArray, weights: FloatArray, total: float) -> FloatArray:
    """Raise the given counts until they add up to ``total``; those that rise are in proportion to their weights."""
    if not weights.sum() > 0.0 or n_rewards.sum() >= total:
        return n_rewards
    weights = np.where(weights > 1e-12 * weights.max(), weights / weights.max(), 0.0)
    order: NDArray[Any] = np.argsort(np.where(weights > 0.0, n_rewards / np.maximum(weights, 1e-300), np.inf))
    rest, weight = total - n_rewards.sum(), 0.0
    chosen = np.zeros(n_rewards.size, dtype=bool)
    scale = 0.0
    for place, i in enumerate(order):
        if not weights[i] > 0.0:
            break
        chosen[i] = True
        rest, weight = rest + n_rewards[i], weight + weights[i]
        scale = rest / weight
        after = order[place + 1] if place + 1 < order.size else -1
        if after < 0 or not weights[after] > 0.0 or scale <= n_rewards[after] / weights[after]:
            break
    return np.where(chosen, np.maximum(scale * weights, n_rewards), n_rewards)


class Stopping(CertaintyMethods):
    """The methods that say whether to stop, and when that will be."""

    def _require_guarantee(self) -> None:
        """Raise an error in one sentence if it is not known with which probability the policy's sets hold."""
        chosen = self._require_confidence_sets()
        if not self._total_failure_probability() < 1.0:
            why = (
                "it is not known with which probability they hold"
                if math.isnan(chosen.failure)
                else "they may all fail"
            )
            raise ValueError(
                f"the sets of {type(self).__name__} (confidence {chosen.name!r}) do not say when to stop, because "
                f"{why}; take confidence='auto' and a smaller delta."
            )

    def _is_within_set_horizon(self) -> bool:
        """Whether the sets hold for as many rewards as there are; sets with a horizon do not hold beyond it."""
        horizon = self.options.get("horizon")
        return horizon is None or int(self._copy_of_arm_field("n_rewards").max()) <= horizon

    def done(self, regret: float | str) -> bool:
        """Whether you can stop: it is certain that the current mixture falls short of the best by at most ``regret``.

        With the probability that :meth:`certainty` states, this is never wrong, however often you look, and whenever
        you stop. It is for every policy that keeps confidence sets. If these have a horizon, and an arm has more
        rewards than that, the answer is always False. With segments it is about a population in which these come as
        often as they did so far.

        Parameters
        ----------
        regret : how much may be missing: in units of the utility, such as ``0.02``, or as a share of the best utility,
            such as ``"2%"``.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
        >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
        >>> policy.done(regret=0.02), policy.done(regret="1%")
        (True, False)
        """
        goal = parse_goal(regret)
        self._require_guarantee()
        return self._is_within_set_horizon() and is_goal_met(goal, self.certainty(None))

    def forecast(self, regret: float | str) -> Forecast:
        """About how many more rounds it will take until :meth:`done` says that you can stop.

        The certified regret is worked out as it would be after more rounds, with the distributions that the arms seem
        to have, and with pulls as the policy would make them. To see how sure that number is, this is repeated with
        rewards that are drawn again from those that came.

        Parameters
        ----------
        regret : as for :meth:`done`.

        Returns
        -------
        A :class:`~pmbandits.engine.stopping.Forecast`.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
        >>> policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
        >>> ahead = policy.forecast(regret="0.5%")
        >>> ahead.low < ahead.rounds < ahead.high
        True
        """
        goal = parse_goal(regret)
        said = str(goal) if self._segments is None else f"{goal} ({FOR_ARRIVALS_SO_FAR})"
        self._require_guarantee()
        if self._plan.forgetting is not None and self._plan.forgetting.kind:
            raise ValueError(
                f"a policy with estimates={self.options['estimates']!r} keeps no more than "
                f"{self._plan.forgetting.most:,} rewards, so there is no forecast of when more would be certain; "
                "done(...) says whether it is now."
            )
        if not self._is_within_set_horizon():
            return Forecast(np.inf, np.inf, np.inf, said)
        if is_goal_met(goal, self.certainty(None)):
            return Forecast(0, 0, 0, said)
        self, memory, _ = self._snapshot_with_mixture(None)
        if memory.n_rewards.min() == 0:
            return Forecast(np.nan, np.nan, np.nan, said)
        mixture_utility_with_bounds(memory, memory.mix.copy())  # this puts the pool in order
        ahead = Extrapolation(self, memory, goal)
        now = float(max(memory.t, memory.rewards))
        middle = ahead.round_at_which_goal_is_met()
        if not math.isfinite(middle):
            return Forecast(np.inf, np.inf, np.inf, said)
        spread = np.sort([ahead.resampled_round_of_goal(seed) for seed in range(RESAMPLES)])
        low, high = (float(np.quantile(spread, share, method="nearest")) for share in (0.1, 0.9))
        low, high = min(low, middle) / (1.0 + SLACK), max(high, middle) * (1.0 + SLACK)
        return Forecast(
            _n_rounds_from_now_to(middle, now),
            _n_rounds_from_now_to(low, now),
            _n_rounds_from_now_to(high, now),
            said,
        )


def require_guarantee(policy: Stopping) -> None:
    """Raise an error in one sentence if it is not known with which probability the policy's sets hold."""
    policy._require_guarantee()


def is_within_set_horizon(policy: Stopping) -> bool:
    """Whether the sets of a policy hold for as many rewards as there are."""
    return policy._is_within_set_horizon()
