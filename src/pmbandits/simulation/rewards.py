"""The rewards of a trial, by counter: what every policy in it would be paid."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits._random import OUTSIDE, PLAIN, POLICY, philox
from pmbandits.arms import Bandit, arm_index, check_bandit
from pmbandits.changing import Changing
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.simulation import _kernels as kernels

GENERATOR = "philox4x64-10"
BLOCK_SIZE = 1024  # rewards that are made at once for laws without a compiled sampler; part of the generator
_COMPILED = {
    "uniform": kernels.UNIFORM,
    "norm": kernels.NORMAL,
    "expon": kernels.EXPONENTIAL,
    "beta": kernels.BETA,
}


class Source(NamedTuple):
    """The arms as plain arrays, for the compiled sampler."""

    kinds: NDArray[np.int64]
    parameters: FloatArray
    starts: NDArray[np.int64]
    points: FloatArray
    levels: FloatArray


def source(bandit: Bandit) -> Source:
    """How each arm's rewards are made."""
    kinds, rows, starts = [], [], [0]
    points, levels = [np.zeros(0)], [np.zeros(0)]
    for law in bandit.laws:
        kind, row, x, level = _describe(law)
        kinds.append(kind)
        rows.append(row)
        points.append(x)
        levels.append(level)
        starts.append(starts[-1] + x.size)
    return Source(
        np.array(kinds, dtype=np.int64),
        np.array(rows, dtype=np.float64),
        np.array(starts, dtype=np.int64),
        np.concatenate(points),
        np.concatenate(levels),
    )


def _describe(law: Law) -> tuple[int, list[float], FloatArray, FloatArray]:
    nothing = np.zeros(0)
    if isinstance(law, Atoms):
        if law.x.size == 2:
            return kernels.TWO, [float(law.p[1]), 0.0, 0.0, 0.0, law.lo, law.hi], law.x, law.p
        return kernels.ATOMS, [0.0, 0.0, 0.0, 0.0, law.lo, law.hi], law.x, np.cumsum(law.p)
    parsed = _scipy_parameters(law)
    if parsed is None:
        return kernels.BLOCK, [0.0, 0.0, 0.0, 0.0, law.lo, law.hi], nothing, nothing
    kind, shapes, loc, scale = parsed
    a, b = (*shapes, 0.0, 0.0)[:2]
    return kind, [loc, scale, a, b, law.lo, law.hi], nothing, nothing


def _scipy_parameters(law: Any) -> tuple[int, tuple[float, ...], float, float] | None:
    import scipy.stats as st

    frozen: Any = getattr(law, "frozen", None)
    name = getattr(getattr(frozen, "dist", None), "name", None)
    if name not in _COMPILED or type(frozen.dist) is not type(getattr(st, name)):
        return None
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    return _COMPILED[name], tuple(float(s) for s in shapes), float(loc), float(scale)


def block(law: Law, seed: int, trial: int, arm: int, number: int) -> FloatArray:
    """Ready-made rewards of an arm whose law has no compiled sampler: one generator for each block."""
    bits = np.random.Philox(
        key=np.array([seed, trial], dtype=np.uint64),
        counter=np.array([0, arm, number, OUTSIDE], dtype=np.uint64),
    )
    made = law.sample(BLOCK_SIZE, np.random.Generator(bits))
    if not np.isfinite(made).all():
        raise ValueError(f"{law.describe()} pays rewards that are NaN or infinite; repair the distribution.")
    return np.clip(made, law.lo, law.hi)


class Stream:
    """The arrays from which the compiled loop draws, and their refill."""

    def __init__(self, bandit: Bandit, seed: int) -> None:
        self.bandit, self.seed, self.source = bandit, seed, source(bandit)
        k = bandit.n_arms
        self.key = np.zeros(2, dtype=np.uint64)
        self.used = np.zeros(k, dtype=np.int64)
        self.words = np.zeros((k, 4), dtype=np.uint64)
        self.blocks = np.zeros((k, 1))
        self.block_at = np.full(k, -1, dtype=np.int64)
        self._room()

    def _room(self) -> None:
        if self.blocks.shape[1] == 1 and (self.source.kinds == kernels.BLOCK).any():
            self.blocks = np.zeros((self.bandit.n_arms, BLOCK_SIZE))

    def become(self, bandit: Bandit, made: Source | None = None) -> None:
        """From now on the rewards of other laws. The n-th reward of an arm has the same random numbers as before."""
        before = self.source.kinds
        self.bandit, self.source = bandit, source(bandit) if made is None else made
        self.block_at[:] = -1
        self._room()
        for arm in np.flatnonzero(np.isin(before, (kernels.BETA, kernels.BLOCK)) & (self.used % 4 > 0)):
            place = (*self.key, np.uint64(self.used[arm] // 4), np.uint64(arm), np.uint64(0), np.uint64(PLAIN))
            self.words[arm] = philox(*place)

    def start(self, trial: int) -> None:
        """Go to the first reward of a trial."""
        self.key[:] = (self.seed, trial)
        self.used[:] = 0
        self.block_at[:] = -1

    def refill(self, arm: int) -> None:
        """The block that holds the arm's next reward."""
        number = int(self.used[arm]) // BLOCK_SIZE
        self.blocks[arm] = block(self.bandit.laws[arm], self.seed, int(self.key[1]), arm, number)
        self.block_at[arm] = number

    def draw(self, arm: int) -> float:
        """The next reward of an arm."""
        out = np.empty(1)
        while kernels.rewards_of(arm, 1, *self.arrays, out, 0) == 0:  # type: ignore[call-arg]
            self.refill(arm)
        return float(out[0])

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernels take, in their order."""
        return (self.key, self.used, self.words, *self.source, self.blocks, self.block_at)


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
        self._stream = Stream(now, _check.whole("seed", seed, 0, 2**63 - 1))
        self._stream.start(_check.whole("trial", trial, 0, 2**63 - 1))

    @property
    def used(self) -> NDArray[np.int64]:
        """How many rewards of each arm were taken so far."""
        return self._stream.used.copy()

    def next(self, arm: int | str, count: int = 1, *, t: int = 0) -> FloatArray:
        """The next rewards of an arm. If arms change, they are those of the arm as it is after ``t`` rounds."""
        place, count = arm_index(arm, self.bandit.names), _check.whole("count", count, 0)
        if isinstance(self.bandit, Changing):
            now = self.bandit.at(t)
            if now is not self._stream.bandit:
                self._stream.become(now)
        out, made = np.empty(count), 0
        while made < count:
            made += int(kernels.rewards_of(place, count - made, *self._stream.arrays, out, made))  # type: ignore[call-arg]
            if made < count:
                self._stream.refill(place)
        return out

    def __repr__(self) -> str:
        return f"Rewards({self.bandit!r}, seed={self._stream.seed}, trial={int(self._stream.key[1])})"


def policy_seed(seed: int, trial: int, own: int = 0) -> int:
    """The seed of a policy's own choices in a trial; ``own`` is the seed it was made with.

    >>> policy_seed(0, 0) != policy_seed(0, 1)
    True
    """
    for name, value in (("seed", seed), ("trial", trial), ("own", own)):
        _check.whole(name, value, 0, 2**63 - 1)
    word = philox(*(np.uint64(n) for n in (seed, trial, own, 0, 0, POLICY)))[0]
    return int(word) >> 11
