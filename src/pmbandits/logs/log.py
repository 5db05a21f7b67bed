"""Logged rewards as advice needs them: a summary of each arm, and of two random halves of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.logs.account import Account, Collector
from pmbandits.logs.summary import HalfArm, distinct


@dataclass(frozen=True)
class ArmLog:
    """What a log says of one arm.

    Attributes
    ----------
    name, n : the arm and how many rewards it has.
    x, p : distinct rewards and their shares.
    error : how far any of the summed-up shares can be off, because rewards were summarised; 0 when exact. It holds
        with probability 1 − 2e-9 over the coins of the two sketches.
    halves : the same of two random halves, ``(n, x, p, error)`` each.
    """

    name: str
    n: int
    x: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    error: float
    halves: tuple[tuple[int, FloatArray, FloatArray, float], ...] = field(repr=False)


@dataclass(frozen=True)
class Log(Account):
    """Logged rewards by arm, with an account of every row.

    Attributes
    ----------
    arms : the arms, in the order of their first row.
    """

    arms: tuple[ArmLog, ...]


class HalvesOfArms(Collector):
    """Of each two rewards of an arm in a row, one goes to each half of the arm, by chance."""

    def __init__(self, seed: int, loss: bool) -> None:
        super().__init__()
        self.sign = -1.0 if loss else 1.0
        self.seed = np.uint64(seed)
        self.halves: list[tuple[HalfArm, HalfArm]] = []

    def new_arm(self) -> None:
        self.halves.append((HalfArm(), HalfArm()))

    def keep(self, at: int, values: FloatArray) -> None:
        pair = self.halves[at]
        first = pair[0].n + pair[1].n
        k = np.arange(first, first + values.size, dtype=np.uint64)
        of_arm = _scramble(np.uint64(at) + (self.seed << np.uint64(20)))
        left = ((_scramble((k >> np.uint64(1)) + of_arm) ^ k) & np.uint64(1)) == 0
        values = self.sign * values
        pair[0].extend(values[left])
        pair[1].extend(values[~left])

    def log(self, source: str, *, strict: bool) -> Log:
        """All arms, and what became of the rows."""
        account = self.finish(source, strict=strict)
        arms = []
        for name, at in self.places.items():
            parts = [half.result() for half in self.halves[at]]
            counts = [half.n for half in self.halves[at]]
            n = sum(counts)
            x, mass = distinct(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))
            error = sum(c * p[2] for c, p in zip(counts, parts, strict=True)) / n
            halves = tuple((c, p[0], p[1] / max(p[1].sum(), 1.0), p[2]) for c, p in zip(counts, parts, strict=True))
            arms.append(ArmLog(name, n, x, mass / mass.sum(), error, halves))
        return Log(**vars(account), arms=tuple(arms))


def _scramble(z: Any) -> Any:
    """splitmix64's finaliser: a number that looks random from one that does not."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
