"""β from the slopes at the best mixture (``lemma:beta12``): how fast the gap of the two best grid points shrinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import oracle
from pmbandits.optimize.utilities import utility_function

_SLOPE_STEP, _CURVATURE_STEP = 1e-4, 1e-3  # finite-difference steps for slopes, and for curvature
_ZERO_SLOPE = 1e-5  # a slope below this share of the range of utilities is none
_ZERO_EIGENVALUE = 1e-4  # an eigenvalue below this share of the largest is none


@dataclass(frozen=True, eq=False)
class GradientExponent:
    """β, read off the slopes and the curvature of V at the best mixture: the result of :func:`gradient_exponent`.

    Attributes
    ----------
    beta : 1 or 2, or ``None`` where neither follows.
    case : which case of ``lemma:beta12`` it is: 1 if some slope is not 0 at the best mixture, 2 if all are 0.
    why : the argument, in a sentence.
    weights : the best mixture.
    slopes : the slope of V from the best mixture towards each arm; none is positive.
    curvature : the eigenvalues of the second derivative among the arms whose slope is 0; all are negative if β = 2.
    """

    beta: float | None
    case: int
    why: str
    weights: FloatArray
    slopes: FloatArray
    curvature: FloatArray

    def __str__(self) -> str:
        return f"beta = {'–' if self.beta is None else f'{self.beta:g}'} (case {self.case} of lemma:beta12): {self.why}"


def gradient_exponent(metric: Distortion | str, bandit: Bandit) -> GradientExponent:
    """β of a metric and known arms, from the gradient at the best mixture (``lemma:beta12``).

    If every way from the best mixture loses at once, the next grid point is worse by about ε, and β = 1. Then one arm
    alone is best, or h has a corner there. If some way is level at first and then bends down, the next grid point is
    worse by about ε², and β = 2.

    The lemma's case 1 says β = 1 as soon as the gradient is not 0, that is, whenever some arm has no share. That is
    right only if one arm alone is best. If two arms share, moving between them costs only ε², whatever a third arm
    would lose. For example, take normal arms with means 1, 3 and 5 and the Gini deviation. The best mixture is (½, 0,
    ½), the lemma says 1, but the gap shrinks like ε². So ``beta`` is 2 here, and ``case`` says what the lemma says.

    Policies do not know the arms: their ``beta="auto"`` looks at the metric and the support only.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> print(gradient_exponent(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9])))
    beta = 2 (case 2 of lemma:beta12): V is level at the best mixture and bends down
    >>> print(gradient_exponent(pmb.Mean(), pmb.Bandit.bernoulli([0.4, 0.9])))
    beta = 1 (case 1 of lemma:beta12): one arm alone is best, and every other arm loses at once
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    count = bandit.n_arms
    if count < 2:
        raise ValueError("beta compares mixtures: give a bandit of at least two arms.")
    best = oracle(metric, bandit)
    at, value = best.weights, utility_function(metric, bandit)
    corners = np.eye(count)
    nearby_values = value(np.vstack((at, at + _SLOPE_STEP * (corners - at), at + 2.0 * _SLOPE_STEP * (corners - at))))
    top, once, twice = nearby_values[0], nearby_values[1 : count + 1], nearby_values[count + 1 :]
    slopes = (4.0 * once - twice - 3.0 * top) / (2.0 * _SLOPE_STEP)
    span = float(np.max(top - value(corners)))
    differ = span > 1e-12 * max(1.0, abs(float(top)))
    flat_arms = np.flatnonzero(slopes > -_ZERO_SLOPE * span)
    case = 1 if differ and flat_arms.size < count else 2
    beta, curvatures = None, np.zeros(0)
    if not differ:
        why = "all mixtures are equally good"
    elif best.unique is False and metric.shape in ("concave", "linear"):
        why = "more than one mixture is best, and the gap can be arbitrarily small"
    elif int((at > 0.0).sum()) == 1 and flat_arms.size == 1:
        beta, why = 1.0, "one arm alone is best, and every other arm loses at once"
    elif (metric.kinks or metric.jumps) and count == 2 and flat_arms.size == 0:
        beta, why = 1.0, "h has a corner at the best mixture, so both ways lose at once"
    elif metric.kinks or metric.jumps:
        why = "h has corners, which the lemma does not treat: measure it with gap_exponent"
    else:
        curvatures = _curvature_towards_flat_arms(value, at, flat_arms.tolist())
        least = _ZERO_EIGENVALUE * max(float(np.abs(curvatures).max(initial=0.0)), _ZERO_SLOPE * span)
        if curvatures.size == 0 or not curvatures.max() < -least:
            why = "V is level at the best mixture, and some way it does not bend down: the lemma does not say"
        else:
            beta, why = 2.0, "V is level at the best mixture and bends down"
            if case == 1:
                why = "V is level between the arms that share and bends down there; the lemma's case 1 would say 1"
    return GradientExponent(beta, case, why, at, slopes, curvatures)


def _curvature_towards_flat_arms(
    value: Callable[[FloatArray], FloatArray], at: FloatArray, flat_arms: list[int]
) -> FloatArray:
    """Eigenvalues of the second derivative along directions from the largest share to each other flat arm."""
    first = int(np.argmax(at))
    others = [i for i in flat_arms if i != first]
    directions = np.zeros((len(others), at.size))
    for row, i in enumerate(others):
        directions[row, i], directions[row, first] = 1.0, -1.0
    if not others:
        return np.zeros(0)
    points = [at, *(at + _CURVATURE_STEP * direction for direction in directions)]
    points += [at + _CURVATURE_STEP * (one + other) for one in directions for other in directions]
    found = value(np.array(points))
    single, double = found[1 : len(others) + 1], found[len(others) + 1 :].reshape(len(others), len(others))
    second = (double - single[:, None] - single[None, :] + found[0]) / _CURVATURE_STEP**2
    return np.asarray(np.linalg.eigvalsh(0.5 * (second + second.T)))
