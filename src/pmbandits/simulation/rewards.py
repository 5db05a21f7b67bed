"""Rewards of a trial from counter-based random numbers, the same for every policy in the trial."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._random import OUTSIDE, PLAIN, POLICY, philox_random_words
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, arm_index, check_bandit
from pmbandits.changing import Changing
from pmbandits.simulation import _kernels as kernels
from pmbandits.state.linking import kernel_address
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution
from pmbandits.tables.own_distributions import quantile_kernel_of

GENERATOR = "philox4x64-10"
BLOCK_SIZE = 1024  # rewards drawn at once for distributions without compiled sampler; part of the generator
_COMPILED = {"uniform": kernels.UNIFORM, "norm": kernels.NORMAL, "expon": kernels.EXPONENTIAL, "beta": kernels.BETA}


class SamplerArrays(NamedTuple):
    """The arms as plain arrays, for the compiled sampler."""

    kinds: NDArray[np.int64]
    parameters: FloatArray
    starts: NDArray[np.int64]
    points: FloatArray
    levels: FloatArray


def sampler_arrays_of_bandit(bandit: Bandit) -> SamplerArrays:
    """Encode the distributions of the arms as arrays for the compiled sampler."""
    kinds, rows, starts = [], [], [0]
    points, levels = [np.zeros(0)], [np.zeros(0)]
    for distribution in bandit.distributions:
        kind, row, x, level = _sampler_of_distribution(distribution)
        kinds.append(kind)
        rows.append(row)
        points.append(x)
        levels.append(level)
        starts.append(starts[-1] + x.size)
    return SamplerArrays(
        np.array(kinds, dtype=np.int64),
        np.array(rows, dtype=np.float64),
        np.array(starts, dtype=np.int64),
        np.concatenate(points),
        np.concatenate(levels),
    )


def _sampler_of_distribution(distribution: Distribution) -> tuple[int, list[float], FloatArray, FloatArray]:
    """Return the kind of the sampler, its row of parameters, and points and levels of a discrete distribution."""
    ends = [distribution.lo, distribution.hi]
    if isinstance(distribution, Atoms):
        x, p = distribution.x, distribution.p
        if x.size == 2:
            return kernels.TWO_POINTS, [float(p[1]), 0.0, 0.0, 0.0, *ends], x, p
        return kernels.DISCRETE, [0.0, 0.0, 0.0, 0.0, *ends], x, np.cumsum(p)
    no_points, parsed = np.zeros(0), _compiled_sampler_parameters(distribution)
    own = quantile_kernel_of(distribution)
    if own is not None and isinstance(distribution, ScipyDistribution):
        where = float(kernel_address(own, kernels.OWN_QUANTILE_SIGNATURE))
        numbers = np.array(distribution.shapes)
        return kernels.OWN_QUANTILES, [distribution.loc, distribution.scale, where, 0.0, *ends], numbers, 0.0 * numbers
    if parsed is None:
        return kernels.PREDRAWN, [0.0, 0.0, 0.0, 0.0, *ends], no_points, no_points
    kind, shapes, loc, scale = parsed
    return kind, [loc, scale, *(*shapes, 0.0, 0.0)[:2], *ends], no_points, no_points


def _compiled_sampler_parameters(distribution: Any) -> tuple[int, tuple[float, ...], float, float] | None:
    import scipy.stats as st

    frozen: Any = getattr(distribution, "frozen", None)
    name = getattr(getattr(frozen, "dist", None), "name", None)
    if name not in _COMPILED or type(frozen.dist) is not type(getattr(st, name)):
        return None
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    return _COMPILED[name], tuple(float(s) for s in shapes), float(loc), float(scale)


def sample_block(distribution: Distribution, seed: int, trial: int, arm: int, number: int) -> FloatArray:
    """Sample a block of rewards of an arm whose distribution has no compiled sampler; each has its own generator."""
    bits = np.random.Philox(
        key=np.array([seed, trial], dtype=np.uint64), counter=np.array([0, arm, number, OUTSIDE], dtype=np.uint64)
    )
    made = distribution.sample(BLOCK_SIZE, np.random.Generator(bits))
    if not np.isfinite(made).all():
        raise ValueError(f"{distribution.describe()} pays rewards that are NaN or infinite; repair the distribution.")
    return np.clip(made, distribution.lo, distribution.hi)


class RewardStream:
    """State of the compiled reward sampler in one trial: counters, random words and pre-drawn blocks."""

    def __init__(self, bandit: Bandit, seed: int) -> None:
        self.bandit, self.seed, self.sampler_arrays = bandit, seed, sampler_arrays_of_bandit(bandit)
        k = bandit.n_arms
        self.key = np.zeros(2, dtype=np.uint64)
        self.used = np.zeros(k, dtype=np.int64)
        self.words = np.zeros((k, 4), dtype=np.uint64)
        self.blocks = np.zeros((k, 1))
        self.block_at = np.full(k, -1, dtype=np.int64)
        self._allocate_blocks_if_needed()

    def _allocate_blocks_if_needed(self) -> None:
        if self.blocks.shape[1] == 1 and (self.sampler_arrays.kinds == kernels.PREDRAWN).any():
            self.blocks = np.zeros((self.bandit.n_arms, BLOCK_SIZE))

    def switch_bandit(self, bandit: Bandit, made: SamplerArrays | None = None) -> None:
        """Switch to the distributions of another bandit; the n-th reward of an arm keeps its random numbers."""
        before = self.sampler_arrays.kinds
        self.bandit, self.sampler_arrays = bandit, sampler_arrays_of_bandit(bandit) if made is None else made
        self.block_at[:] = -1
        self._allocate_blocks_if_needed()
        for arm in np.flatnonzero(np.isin(before, (kernels.BETA, kernels.PREDRAWN)) & (self.used % 4 > 0)):
            place = (*self.key, np.uint64(self.used[arm] // 4), np.uint64(arm), np.uint64(0), np.uint64(PLAIN))
            self.words[arm] = philox_random_words(*place)

    def reset_to_trial(self, trial: int) -> None:
        """Reset to the first reward of a trial."""
        self.key[:] = (self.seed, trial)
        self.used[:] = 0
        self.block_at[:] = -1

    def refill_block(self, arm: int) -> None:
        """Draw the block that holds the arm's next reward."""
        distribution = self.bandit.distributions[arm]
        if self.sampler_arrays.kinds[arm] == kernels.OWN_QUANTILES:
            raise ValueError(f"the quantile_kernel of {distribution.describe()} returned NaN; correct it.")
        number = int(self.used[arm]) // BLOCK_SIZE
        self.blocks[arm] = sample_block(distribution, self.seed, int(self.key[1]), arm, number)
        self.block_at[arm] = number

    def next_rewards(self, arm: int, count: int) -> FloatArray:
        """Return the next rewards of an arm, and count them as used."""
        out, made = np.empty(count), 0
        while made < count:
            made += kernels.fill_next_rewards(arm, count - made, self.arrays_for_kernels, out, made)
            if made < count:
                self.refill_block(arm)
        return out

    @property
    def arrays_for_kernels(self) -> kernels.RewardArrays:
        """What the kernels take."""
        return kernels.RewardArrays(self.key, self.used, self.words, *self.sampler_arrays, self.blocks, self.block_at)


class Rewards:
    """The rewards that ``simulate`` pays in one trial, to drive a policy by hand or to look at one trial alone.

    Parameters
    ----------
    bandit, seed, trial : as for :func:`simulate`.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> rewards = pmb.simulation.Rewards(pmb.Bandit.bernoulli([0.4, 0.9]), seed=0, trial=3)
    >>> first = rewards.next(1, 4)
    >>> first.size, rewards.used.tolist()
    (4, [0, 4])
    """

    def __init__(self, bandit: Bandit | Changing, *, seed: int = 0, trial: int = 0) -> None:
        if not isinstance(bandit, Changing):
            check_bandit(bandit)
        self.bandit = bandit
        now = bandit.at(0) if isinstance(bandit, Changing) else bandit
        self._stream = RewardStream(now, _validation.check_whole_number("seed", seed, 0, 2**63 - 1))
        self._stream.reset_to_trial(_validation.check_whole_number("trial", trial, 0, 2**63 - 1))

    @property
    def used(self) -> NDArray[np.int64]:
        """How many rewards of each arm were taken so far."""
        return self._stream.used.copy()

    def next(self, arm: int | str, count: int = 1, *, t: int = 0) -> FloatArray:
        """The next rewards of an arm. If arms change, they are those of the arm as it is after ``t`` rounds."""
        place, count = arm_index(arm, self.bandit.names), _validation.check_whole_number("count", count, 0)
        if isinstance(self.bandit, Changing):
            now = self.bandit.at(t)
            if now is not self._stream.bandit:
                self._stream.switch_bandit(now)
        return self._stream.next_rewards(place, count)

    def __repr__(self) -> str:
        return f"Rewards({self.bandit!r}, seed={self._stream.seed}, trial={int(self._stream.key[1])})"


def policy_seed(seed: int, trial: int, own: int = 0) -> int:
    """The seed of a policy's own choices in a trial; ``own`` is the seed it was made with.

    >>> policy_seed(0, 0) != policy_seed(0, 1)
    True
    """
    for name, value in (("seed", seed), ("trial", trial), ("own", own)):
        _validation.check_whole_number(name, value, 0, 2**63 - 1)
    word = philox_random_words(*(np.uint64(n) for n in (seed, trial, own, 0, 0, POLICY)))[0]
    return int(word) >> 11
