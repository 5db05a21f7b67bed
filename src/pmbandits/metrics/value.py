"""U_h of samples, distributions, mixtures and tabulated CDFs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion_function import DistortionFunction
from pmbandits.tables.distributions import (
    Distribution,
    PiecewiseLinearCDF,
    ScipyDistribution,
    as_distribution,
    atoms_of_sample,
    is_distribution,
)
from pmbandits.tables.from_distributions import survival_table, tail_probability_beyond_kinks

_BLOCK = 8_192  # points at a time: work arrays stay in the cache, and products stay on one thread


def value(metric: DistortionFunction, x: Any, weights: ArrayLike | None = None) -> float:
    """The utility U_h of a sample, of a distribution, or of a mixture of distributions: :meth:`Distortion.value`."""
    if is_distribution(x):
        if weights is not None:
            raise TypeError("weights belong to a sample or to a list of distributions, not to one distribution.")
        return value_of_mixture(metric, [as_distribution(x)], np.ones(1))
    if isinstance(x, (list, tuple)) and x and is_distribution(x[0]):
        distributions = [as_distribution(d, name=f"distribution {k}") for k, d in enumerate(x)]
        if weights is None:
            raise TypeError("a list of distributions needs weights: one mixing weight each, adding up to 1.")
        return value_of_mixture(
            metric, distributions, _validation.check_weights(weights, len(distributions), of="distributions")
        )
    if weights is None:
        try:
            ordered = np.sort(_validation.to_float_array("the sample", x))
        except ValueError:
            ordered = np.zeros(0)
        # Sorting puts NaN last and infinities at the ends: two looks replace a pass over the data.
        if ordered.ndim != 1 or ordered.size == 0 or not np.isfinite(ordered[[0, -1]]).all():
            ordered = np.sort(_validation.check_number_array("the sample", x))  # says what is wrong
        _validation.check_finite_width("the sample", float(ordered[0]), float(ordered[-1]))
        return value_of_sorted(metric, ordered)
    return value_of_mixture(metric, [atoms_of_sample(x, weights)], np.ones(1))


def value_of_sorted(metric: DistortionFunction, x: FloatArray) -> float:
    """U_h of a sorted sample of equally likely points: x_1·h(1) + Σ (x_k − x_{k−1})·h(S_k)."""
    n = x.size
    total = float(x[0]) * float(metric(1.0))
    step = min(n, _BLOCK)
    countdown = np.arange(step, 0, -1, dtype=np.float64)
    with np.errstate(all="ignore"):
        for start in range(0, n - 1, _BLOCK):
            stop = min(start + _BLOCK, n - 1)
            above = (countdown[step - (stop - start) :] + (n - 1 - stop)) / n
            total += float(np.diff(x[start : stop + 1]) @ metric._h(above))
    return total


def value_of_mixture(metric: DistortionFunction, distributions: list[Distribution], weights: FloatArray) -> float:
    """U_h of the mixture Σ weight · distribution."""
    used = [k for k in range(len(distributions)) if weights[k] > 0.0]
    mix = weights[used]
    used_distributions = [distributions[k] for k in used]
    if (
        len(used_distributions) == 1
        and isinstance(used_distributions[0], ScipyDistribution)
        and used_distributions[0].lattice
    ):
        return _lattice_utility(metric, used_distributions[0])
    table = survival_table(metric, used_distributions, mix[None, :])
    rest = 0.0 if table.remainder is None else float(table.remainder[0])
    return table.value(metric, mix) + rest


def _lattice_utility(metric: DistortionFunction, distribution: ScipyDistribution) -> float:
    """U_h of an unbounded lattice distribution: blocks of doubling length, their limit accelerated (Wynn's epsilon)."""
    start = float(
        np.floor(distribution.median - distribution._fractional_part_of_lattice)
        + distribution._fractional_part_of_lattice
    )
    total = start * float(metric(1.0))
    small = tail_probability_beyond_kinks(metric)
    for lower in (True, False):
        bound = distribution.lo if lower else distribution.hi
        sums: list[float] = []
        blocks: list[float] = []
        done, length = 0, 256
        while True:
            k = np.arange(done, done + length, dtype=np.float64)
            k = start - 1.0 - k if lower else start + k
            inside = k >= bound if lower else k < bound
            with np.errstate(all="ignore"):
                tail = distribution.lattice_tail_probabilities(k[inside], lower) if inside.any() else np.zeros(0)
                part = float((metric._negative_dual_h(tail) if lower else metric._h(tail)).sum())
            blocks.append(abs(part))
            sums.append((sums[-1] if sums else 0.0) + part)
            settled = tail.size > 0 and tail[-1] < small and abs(part) <= 1e-17 * max(abs(sums[-1]), 1e-300)
            if not inside.all() or settled:
                total += sums[-1]
                break
            if length >= 2**17:
                ratios = [blocks[j] / blocks[j - 1] for j in (-3, -2, -1)]
                drift = ratios[-1] + (ratios[-1] - ratios[-2])
                if min(ratios[-1], drift) > 0.995:
                    side = "lower" if lower else "upper"
                    raise ValueError(
                        f"{metric!r} of {distribution.describe()} is infinite: its {side} tail diverges; "
                        "use a metric that looks less at that tail, or truncate the distribution."
                    )
                total += _wynn_epsilon(sums)
                break
            done += length
            length = done
    return total


def _wynn_epsilon(sums: list[float]) -> float:
    """Wynn's epsilon algorithm: the limit of a sequence whose error is a sum of geometric terms."""
    before = np.zeros(len(sums) + 1)
    now = np.array(sums)
    best = now[-1]
    step = abs(now[-1] - now[-2])
    while now.size >= 3:
        with np.errstate(all="ignore"):
            odd = before[1:-1] + 1.0 / np.diff(now)
            even = now[1:-1] + 1.0 / np.diff(odd)
        if even.size == 0 or not np.isfinite(even[-1]):
            break
        change = abs(even[-1] - (even[-2] if even.size > 1 else best))
        if change > step:
            break
        best, step = even[-1], change
        before, now = odd, even
    return float(best)


def value_of_cdf(metric: DistortionFunction, x: ArrayLike, cdf: ArrayLike, between: str) -> float:
    """The utility U_h of a distribution given by its CDF on a grid: :meth:`Distortion.value_of_cdf`."""
    _validation.check_choice("between", between, ["steps", "lines"])
    points = _validation.check_number_array("x", x, minimum=2)
    levels = _validation.check_number_array("cdf", cdf)
    if levels.size != points.size:
        raise ValueError(f"cdf has {levels.size} entries for {points.size} grid points; give one each.")
    if (np.diff(points) <= 0).any():
        raise ValueError("x must increase strictly; sort the grid and remove repeated points.")
    if levels[0] < 0.0 or (np.diff(levels) < 0).any() or abs(levels[-1] - 1.0) > _validation.WEIGHT_TOLERANCE:
        raise ValueError(f"cdf must rise from at least 0 to 1, but runs from {levels[0]:g} to {levels[-1]:g}.")
    if between == "steps":
        return value_of_mixture(
            metric, [atoms_of_sample(points, np.diff(levels, prepend=0.0) / levels[-1])], np.ones(1)
        )
    if levels[0] > 0.0:
        raise ValueError(f"with between='lines' the cdf must start at 0, got {levels[0]:g}; add a grid point below.")
    return value_of_mixture(metric, [PiecewiseLinearCDF(points, levels / levels[-1])], np.ones(1))
