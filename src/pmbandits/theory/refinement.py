"""The refinement oracle (``eq:oracle_discrete_set``): what CIRT would keep, phase by phase, if it knew the arms."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import Mean, as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult, oracle
from pmbandits.optimize.utilities import utility_function
from pmbandits.schedules import refinement_phases
from pmbandits.supports import Binary

_MAX_GRID_POINTS = 500_000


@dataclass(frozen=True, eq=False)
class RefinedPhase:
    """One phase of the refinement oracle.

    Attributes
    ----------
    number : ℓ, the number of the phase, counted from 1.
    spacing : the spacing of its grid, 2^(ℓ−1)/A^ℓ.
    points : how many mixtures its grid has.
    weights, value : the best of these mixtures, and its utility.
    low, high : the box that is kept: the weights ± the spacing, inside [0, 1].
    keeps_best : whether the box contains a mixture that is best of all.
    """

    number: int
    spacing: float
    points: int
    weights: FloatArray
    value: float
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)
    keeps_best: bool


@dataclass(frozen=True, eq=False)
class Refinement:
    """What the refinement oracle kept, phase by phase: the result of :func:`refinement_oracle`."""

    metric: Distortion
    best: OracleResult
    phases: tuple[RefinedPhase, ...]

    @property
    def keeps_best(self) -> bool:
        """Whether a best mixture lies in the box of every phase. The paper's two lemmas say so for Bernoulli arms."""
        return all(phase.keeps_best for phase in self.phases)

    @property
    def weights(self) -> FloatArray:
        """The mixture around which the last box lies."""
        return self.phases[-1].weights

    def __str__(self) -> str:
        rows = [f"{self.metric!r}, best utility {self.best.value:.6g}"]
        for p in self.phases:
            mix = ", ".join(f"{w:.4g}" for w in p.weights)
            kept = "keeps the best" if p.keeps_best else "loses the best"
            rows.append(f"phase {p.number}: {p.points} mixtures, spacing {p.spacing:.4g}, ({mix}), {kept}")
        return "\n".join(rows)


def refinement_oracle(
    metric: Distortion | str, bandit: Bandit, epsilon: float = 0.06, branching: int = 4
) -> Refinement:
    """Zoom in on the best mixture as CIRT does, with the true distributions instead of estimates.

    In each phase it takes the best mixture of the grid inside the box of the phase before, and keeps the box of ± one
    spacing around it (``eq:oracle_discrete_set``). For Bernoulli arms the paper shows that a best mixture is never
    lost, if one arm is best (``lemma: best_alpha_Bernoulli_solitary``), and also if h is concave and a mixture is best
    (``lemma: best_alpha_Bernoulli_mixture``). For other arms it can be lost; ``keeps_best`` says whether it was.

    Parameters
    ----------
    metric, bandit : what is valued, and the known arms.
    epsilon : ε, how fine the weights are in the end.
    branching : A, an even number of at least 4: how many steps each side of the box is cut into.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> found = refinement_oracle(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9]), epsilon=0.25)
    >>> print(found)
    GiniDeviation(), best utility 0.25
    phase 1: 5 mixtures, spacing 0.25, (0.75, 0.25), keeps the best
    phase 2: 5 mixtures, spacing 0.125, (0.625, 0.375), keeps the best
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    branching = _validation.check_whole_number("branching", branching, 4)
    if branching % 2:
        raise ValueError(f"branching must be even, so that a kept mixture lies on the next grid; got {branching}.")
    count, last = bandit.n_arms, refinement_phases(epsilon, branching)
    if (branching + 1) ** (count - 1) > _MAX_GRID_POINTS:
        raise ValueError(
            f"the grids of {count} arms with branching {branching} have up to {(branching + 1) ** (count - 1):,} "
            f"points, more than {_MAX_GRID_POINTS:,}; take fewer arms or branching 4."
        )
    best, value, half = oracle(metric, bandit), utility_function(metric, bandit), branching // 2
    steps, phases = np.zeros(count, dtype=np.int64), []
    for number in range(1, last + 1):
        total = branching * half ** (number - 1)
        low = np.zeros(count, dtype=np.int64) if number == 1 else np.maximum(steps * half - half, 0)
        high = np.full(count, total) if number == 1 else np.minimum(steps * half + half, total)
        grid = _grid_in_box(low, high, total)
        values = value(grid / total)
        top = float(values.max())
        steps = grid[int(np.flatnonzero(values >= top - 1e-12 * max(1.0, abs(top)))[0])]
        box = np.maximum(steps - 1, 0) / total, np.minimum(steps + 1, total) / total
        phases.append(
            RefinedPhase(
                number, 1.0 / total, len(grid), steps / total, top, *box, _box_contains_best(bandit, metric, best, *box)
            )
        )
    return Refinement(metric, best, tuple(phases))


def _grid_in_box(low: NDArray[np.int64], high: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """All whole numbers between the limits that add up to ``total``, in lexicographic order."""
    heads = np.array(
        list(product(*(range(a, b + 1) for a, b in zip(low[:-1], high[:-1], strict=True)))), dtype=np.int64
    )
    heads = heads.reshape(-1, low.size - 1)
    last = total - heads.sum(axis=1)
    fits = (last >= low[-1]) & (last <= high[-1])
    return np.column_stack((heads[fits], last[fits]))


def _box_contains_best(
    bandit: Bandit, metric: Distortion, best: OracleResult, low: FloatArray, high: FloatArray
) -> bool:
    """Whether a best mixture lies in the box: for Bernoulli arms any with the best mean, otherwise the oracle's."""
    if bool(((best.weights >= low - 1e-9) & (best.weights <= high + 1e-9)).all()):
        return True
    if not isinstance(bandit.support, Binary):
        return False
    p = utility_function(Mean(), bandit)(np.eye(bandit.n_arms))
    ends = [_smallest_mean_in_box(p, low, high), -_smallest_mean_in_box(-p, low, high)]
    top = metric.maximum(min(ends), max(ends)).value
    return bool(top >= best.value - 1e-12 * max(1.0, abs(best.value)))


def _smallest_mean_in_box(p: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """The least mean of a mixture in the box: what is left above the lower limits goes to the smallest means first."""
    mix, left = low.copy(), 1.0 - float(low.sum())
    for i in np.argsort(p):
        more = min(left, float(high[i] - low[i]))
        mix[i] += more
        left -= more
    return float(mix @ p)
