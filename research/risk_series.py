"""Regret of risk-sensitive policies on one setting, and who is ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.measure import ERRORS, Mean, mean
from research.outcome import FloatArray

OURS_UCB, OURS_CE, OURS_ETC = "PM-UCB-M, ε = 1", "CE-UCB-M, ε = 1", "PM-ETC-M, ε = 1"
OURS_BETA = "PM-UCB-M, β = 1"  # on its grid, with the schedule for instances on which one arm is best
PRASHANTH_BHAT = "Prashanth–Bhat"  # the risk-averse index of 2022, turned round
OURS = (OURS_UCB, OURS_CE, OURS_ETC, OURS_BETA, "PM-ETC-M", "PM-UCB-M", "CE-UCB-M", "CIRT")  # the paper's
TRACK = "Track"  # not one of the paper's: shown where a mixture is best, not judged


@dataclass(frozen=True)
class Series:
    """Regret of the policies on one setting: rows are trials (or instances), columns checkpoints."""

    title: str
    t: NDArray[np.int64]
    regret: Mapping[str, FloatArray]
    shares: Mapping[str, FloatArray]
    floor: float | None = None

    def last(self, label: str) -> tuple[float, float]:
        """Mean and standard error at the end."""
        return mean_error(self.regret[label][:, -1])

    def ranking(self) -> list[str]:
        """From the least regret to the most."""
        return sorted(self.regret, key=lambda label: self.last(label)[0])

    def tied(self) -> list[str]:
        """The winner, and whoever is within two standard errors of it on the same rewards."""
        leader = self.ranking()[0]
        out = []
        for label in self.ranking():
            gap = beside(self, leader, label)
            if gap.value <= ERRORS * gap.error or label == leader:
                out.append(label)
        return out


def mean_error(values: FloatArray) -> tuple[float, float]:
    """Mean and standard error of independent values; the error of a single value is 0."""
    n = values.shape[0]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def best_of(part: Series, ours: bool) -> str:
    """The best of the paper's policies, or the best of the published ones."""
    return next(label for label in part.ranking() if label != TRACK and (label in OURS) == ours)


def below_floor(part: Series) -> float:
    """How many times smaller the best regret of the paper's policies is than that of the best single arm."""
    assert part.floor is not None
    return part.floor / part.last(best_of(part, True))[0]


def beside(part: Series, label: str, other: str) -> Mean:
    """Regret of the other minus that of the first at the end, in pairs: on the same rewards, as far as both played."""
    mine, theirs = part.regret[label][:, -1], part.regret[other][:, -1]
    both = min(mine.size, theirs.size)
    return mean(theirs[:both] - mine[:both])
