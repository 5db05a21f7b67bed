"""People of several segments in simulations: who comes in each round, and policies that know nothing of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits._validation import FloatArray
from pmbandits.simulation import _kernels as kernels


def arrival_levels(frequencies: ArrayLike) -> FloatArray:
    """How often segments come, added up: a uniform number below the s-th and not below the one before it means s."""
    return np.cumsum(np.asarray(frequencies, dtype=np.float64))


def draw_arrivals(frequencies: ArrayLike, count: int, seed: int, trial: int) -> NDArray[np.int64]:
    """The segments of the people of the first rounds of a trial, the same for every policy.

    >>> draw_arrivals([0.5, 0.5], 6, seed=0, trial=0).size
    6
    """
    out, key = np.empty(count, dtype=np.int64), np.array([seed, trial], dtype=np.uint64)
    kernels.fill_segments_of_rounds(key, 0, arrival_levels(frequencies), out)
    return out


@dataclass(frozen=True)
class PerSegment:
    """For :func:`simulate` with segments: one policy for each segment, which knows nothing of the others.

    It answers another question than a policy with segments: what is best for each segment by itself.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9]), "returning": pmb.Bandit.bernoulli([0.6, 0.1])}
    >>> policies = [pmb.Uniform(), pmb.simulation.PerSegment(pmb.Vet())]
    >>> pmb.simulate("gini", arms, policies, 200, trials=3, segments={"new": 0.5, "returning": 0.5})
    Run(Uniform, Vet per segment; 3 trials, up to 200 rounds, seed 0)
    """

    policy: Any
    words: ClassVar[str] = " per segment"


@dataclass(frozen=True)
class IgnoringSegments:
    """For :func:`simulate` with segments: one policy for everybody, which is not told who comes.

    Every arm must exist in every segment.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> arms = {"new": pmb.Bandit.bernoulli([0.4, 0.9]), "returning": pmb.Bandit.bernoulli([0.6, 0.1])}
    >>> policies = [pmb.Uniform(), pmb.simulation.IgnoringSegments("cirt")]
    >>> pmb.simulate("gini", arms, policies, 200, trials=3, segments={"new": 0.5, "returning": 0.5})
    Run(Uniform, CIRT ignoring segments; 3 trials, up to 200 rounds, seed 0)
    """

    policy: Any
    words: ClassVar[str] = " ignoring segments"
