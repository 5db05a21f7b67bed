"""How late rewards come: after a number of rounds, by chance, or as a function of the user says."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits._random import DELAY
from pmbandits.metrics.laws import is_distribution
from pmbandits.simulation._late import NEVER
from pmbandits.simulation.identity import code_hash

Delay = Any
"""A number of rounds, a frozen ``scipy.stats`` distribution, a function, or a mapping from arms to these."""

CHUNK = 4096  # rounds whose delays are drawn at once; part of the generator
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
    def of(cls, delay: Delay, names: tuple[str, ...]) -> Delays | None:
        """From what people write; ``None`` if no reward is late."""
        if isinstance(delay, Mapping):
            for name in delay:
                _check.choice("delay", name, names, kind="arm")
            given = tuple(_one(delay.get(name, 0), f"delay of {name}") for name in names)
        else:
            given = (_one(delay, "delay"),)
        return None if all(type(one) is int and one == 0 for one in given) else cls(given, names)

    @property
    def fixed(self) -> bool:
        """Whether nothing is drawn."""
        return all(type(one) is int for one in self.given)

    @property
    def spec(self) -> Any:
        """As JSON: part of what a run says of itself, and of a journal's identity."""
        said = [_described(one) for one in self.given]
        return said[0] if len(said) == 1 else dict(zip(self.names, said, strict=True))

    def table(self, seed: int, trial: int, number: int) -> NDArray[np.int64]:
        """The delays of the ``number``-th chunk of rounds: one row a round, one column for all arms or one for each.

        One row stands for all rounds if nothing is drawn.
        """
        rows = 1 if self.fixed else CHUNK
        out = np.empty((rows, len(self.given)), dtype=np.int64)
        for column, one in enumerate(self.given):
            if type(one) is int:
                out[:, column] = one
                continue
            bits = np.random.Philox(
                key=np.array([seed, trial], dtype=np.uint64),
                counter=np.array([0, column, number, DELAY], dtype=np.uint64),
            )
            out[:, column] = _drawn(one, np.random.Generator(bits))
        return out


class Coming:
    """Rewards on their way in a loop of plain Python; the compiled loop has its own."""

    def __init__(self, delays: Delays | None, batch: int, seed: int, trial: int) -> None:
        self.delays, self.batch, self.seed, self.trial = delays, batch, seed, trial
        self.waiting: list[tuple[int, int, int, float]] = []  # when it is told, when it was pulled, the arm, the reward
        self.number, self.waits = -1, np.zeros((1, 1), dtype=np.int64)

    def put(self, now: int, arm: int, seat: int, reward: float) -> None:
        """A reward of the round ``now``, counted from 1; ``seat`` is the arm's position in the bandit."""
        number = (now - 1) // CHUNK
        if self.delays is not None and number != self.number:
            self.waits, self.number = self.delays.table(self.seed, self.trial, number), number
        row, column = min((now - 1) % CHUNK, len(self.waits) - 1), min(seat, self.waits.shape[1] - 1)
        due = now + int(self.waits[row, column])
        heapq.heappush(self.waiting, (-(-due // self.batch) * self.batch, now, arm, reward))

    def due(self, now: int) -> Iterator[tuple[int, float]]:
        """The arms and rewards that are told after the round ``now``, in their order."""
        while self.waiting and self.waiting[0][0] <= now:
            yield heapq.heappop(self.waiting)[2:]


def _one(given: Any, name: str) -> Any:
    if _check.is_number(given):
        return _check.whole(name, given, 0, NEVER)
    if not (is_distribution(given) or callable(given)):
        raise TypeError(f"{name} must be {_HELP}; got {_check.short(given)}.")
    _drawn(given, np.random.default_rng(0), name)  # what cannot be is said before anything is played
    return given


def _drawn(one: Any, rng: np.random.Generator, name: str = "delay") -> NDArray[np.int64]:
    """The delays of one chunk, in whole rounds; rewards with an infinite delay never come."""
    made = one.rvs(size=CHUNK, random_state=rng) if is_distribution(one) else one(rng, CHUNK)
    try:
        values = np.asarray(made, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"the function of {name} must return numbers, got {_check.short(made)}.") from None
    if values.shape != (CHUNK,):
        raise ValueError(
            f"the function of {name} was asked for {CHUNK} delays and returned an array of shape {values.shape}; "
            "write lambda rng, n: rng.poisson(20, n), for example."
        )
    if np.isnan(values).any() or values.min() < 0.0:
        raise ValueError(f"{name} gave {'NaN' if np.isnan(values).any() else values.min()}; delays must be 0 or more.")
    return np.rint(np.minimum(values, NEVER)).astype(np.int64)


def _described(one: Any) -> Any:
    if type(one) is int:
        return one
    if not is_distribution(one):
        return {"function": _name(one), "code": code_hash(one)}
    values = np.asarray(one.ppf(np.linspace(0.001, 0.999, 999)), dtype=np.float64)
    named = getattr(getattr(one, "dist", one), "name", type(one).__name__)
    return {"distribution": str(named), "values": hashlib.sha256(values.tobytes()).hexdigest()}


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
