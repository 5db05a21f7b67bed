"""Delays of rewards: a fixed number of rounds, a distribution, or a function of the user."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._random import DELAY
from pmbandits.simulation.code_hash import code_hash
from pmbandits.tables.distributions import is_distribution
from pmbandits.tables.inversion import is_new_distribution

Delay = Any
"""A number of rounds, a frozen ``scipy.stats`` distribution, a function, or a mapping from arms to these."""

NEVER = 2**53  # later than any round
DELAY_CHUNK = 4096  # rounds whose delays are drawn at once; part of the generator
_HELP = (
    "a number of rounds such as 50, a frozen scipy.stats distribution such as scipy.stats.poisson(20), a function of a "
    "numpy Generator and a count that returns that many delays, or a mapping from each arm to one of these"
)


@dataclass(frozen=True)
class Delays:
    """The delays of all rounds: of each arm, or of all alike.

    The delay of a round depends on (seed, trial, round, arm) alone, so all policies of a trial wait alike.
    """

    given: tuple[Any, ...]  # one for all arms, or one for each
    names: tuple[str, ...]

    @classmethod
    def from_arguments(cls, delay: Delay, names: tuple[str, ...]) -> Delays | None:
        """Parse the ``delay`` argument of :func:`simulate`; ``None`` if no reward is delayed."""
        if isinstance(delay, Mapping):
            for name in delay:
                _validation.check_choice("delay", name, names, kind="arm")
            given = tuple(_parse_delay(delay.get(name, 0), f"delay of {name}") for name in names)
        else:
            given = (_parse_delay(delay, "delay"),)
        return None if all(type(one) is int and one == 0 for one in given) else cls(given, names)

    @property
    def is_deterministic(self) -> bool:
        """Whether all delays are constants, so that none is drawn at random."""
        return all(type(delay_of_arm) is int for delay_of_arm in self.given)

    @property
    def spec(self) -> Any:
        """The delays as JSON, for the specification of a run and the identity of a journal."""
        descriptions = [_delay_to_json(delay_of_arm) for delay_of_arm in self.given]
        return descriptions[0] if len(descriptions) == 1 else dict(zip(self.names, descriptions, strict=True))

    def delays_of_chunk(self, seed: int, trial: int, number: int) -> NDArray[np.int64]:
        """The delays of the ``number``-th chunk of rounds: one row a round, one column for all arms or one for each.

        One row stands for all rounds if nothing is drawn.
        """
        rows = 1 if self.is_deterministic else DELAY_CHUNK
        out = np.empty((rows, len(self.given)), dtype=np.int64)
        for column, delay_of_arm in enumerate(self.given):
            if type(delay_of_arm) is int:
                out[:, column] = delay_of_arm
                continue
            bits = np.random.Philox(
                key=np.array([seed, trial], dtype=np.uint64),
                counter=np.array([0, column, number, DELAY], dtype=np.uint64),
            )
            out[:, column] = _sample_delays(delay_of_arm, np.random.Generator(bits))
        return out


class DelayTable:
    """The delays of the rounds of one trial, drawn chunk by chunk.

    Attributes
    ----------
    table : by round and arm, after how many rounds a reward comes. One row holds for all rounds, and one column for all
        arms.
    first_round : how many rounds come before the first row.
    """

    def __init__(self, delays: Delays | None, batch: int, seed: int, trial: int) -> None:
        self.delays, self.batch, self.seed, self.trial = delays, batch, seed, trial
        self.table, self.first_round = np.zeros((1, 1), dtype=np.int64), 0
        self._drawn = delays is not None and not delays.is_deterministic
        self._chunk = -1
        if delays is not None and not self._drawn:
            self.table = delays.delays_of_chunk(seed, trial, 0)

    def draw_chunk_of_next_round(self, now: int) -> int:
        """Draw the delays of the chunk in which the next round lies, and return the last round of this chunk."""
        if not self._drawn:
            return NEVER
        chunk = now // DELAY_CHUNK
        if chunk != self._chunk:
            assert self.delays is not None
            self.table, self.first_round = (
                self.delays.delays_of_chunk(self.seed, self.trial, chunk),
                chunk * DELAY_CHUNK,
            )
            self._chunk = chunk
        return self.first_round + DELAY_CHUNK

    def round_in_which_reward_comes(self, now: int, bandit_arm: int) -> int:
        """Return the round after which the reward of the round ``now``, counted from 1, comes: the end of a batch."""
        self.draw_chunk_of_next_round(now - 1)
        rows, columns = self.table.shape
        delay = int(self.table[min(now - 1 - self.first_round, rows - 1), min(bandit_arm, columns - 1)])
        return -(-(now + delay) // self.batch) * self.batch


def _parse_delay(given: Any, name: str) -> Any:
    if _validation.is_number(given):
        return _validation.check_whole_number(name, given, 0, NEVER)
    if is_new_distribution(given):
        from pmbandits.tables.scipy_distributions import frozen_from_new_scipy_distribution

        given = frozen_from_new_scipy_distribution(given)
    if not (is_distribution(given) or callable(given)):
        raise TypeError(f"{name} must be {_HELP}; got {_validation.short_repr(given)}.")
    _sample_delays(given, np.random.default_rng(0), name)  # an invalid delay raises an error before anything is played
    return given


def _sample_delays(delay_of_arm: Any, rng: np.random.Generator, name: str = "delay") -> NDArray[np.int64]:
    """Sample the delays of one chunk, in whole rounds; rewards with an infinite delay never come."""
    drawn = is_distribution(delay_of_arm)
    made = delay_of_arm.rvs(size=DELAY_CHUNK, random_state=rng) if drawn else delay_of_arm(rng, DELAY_CHUNK)
    try:
        values = np.asarray(made, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"the function of {name} must return numbers, got {_validation.short_repr(made)}.") from None
    if values.shape != (DELAY_CHUNK,):
        raise ValueError(
            f"the function of {name} was asked for {DELAY_CHUNK} delays and returned an array of shape {values.shape}; "
            "write lambda rng, n: rng.poisson(20, n), for example."
        )
    if np.isnan(values).any() or values.min() < 0.0:
        raise ValueError(f"{name} gave {'NaN' if np.isnan(values).any() else values.min()}; delays must be 0 or more.")
    return np.rint(np.minimum(values, NEVER)).astype(np.int64)


def _delay_to_json(delay_of_arm: Any) -> Any:
    if type(delay_of_arm) is int:
        return delay_of_arm
    if not is_distribution(delay_of_arm):
        name = getattr(delay_of_arm, "__qualname__", type(delay_of_arm).__qualname__)
        return {"function": str(name), "code": code_hash(delay_of_arm)}
    values = np.asarray(delay_of_arm.ppf(np.linspace(0.001, 0.999, 999)), dtype=np.float64)
    named = getattr(getattr(delay_of_arm, "dist", delay_of_arm), "name", type(delay_of_arm).__name__)
    return {"distribution": str(named), "values": hashlib.sha256(values.tobytes()).hexdigest()}
