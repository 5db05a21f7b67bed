"""Golden section, beside closed forms and scipy's bounded search."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize as opt

import pmbandits as pmb
from pmbandits.confidence._golden_section import (
    HI,
    LO,
    argmax_tilted_h,
    golden_section_best,
    golden_section_next_point,
    golden_section_start,
    golden_section_tell,
)
from pmbandits.metrics.encoding import encode_metric


@pytest.mark.parametrize("peak", [-1.0, -0.3, 0.0, 0.77, 2.0])
def test_it_closes_in_on_the_peak(peak: float) -> None:
    search, steps = golden_section_start(-1.0, 2.0), 30
    for _ in range(2 + steps):
        x = golden_section_next_point(search)
        assert -1.0 <= x <= 2.0
        golden_section_tell(search, -abs(x - peak))
    width = 3.0 * (0.5 * (math.sqrt(5.0) - 1.0)) ** steps
    where, value = golden_section_best(search)
    assert search[HI] - search[LO] == pytest.approx(width, rel=1e-6)
    assert search[LO] - 1e-12 <= peak <= search[HI] + 1e-12
    assert abs(where - peak) <= width and value == -abs(where - peak)


@pytest.mark.parametrize(
    "metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.PHT(0.5), pmb.UpperCVaR(0.9)], ids=repr
)
@pytest.mark.parametrize("tilt", [-2.0, -0.3, 0.0, 0.4, 3.0])
def test_the_tilted_h_is_largest_where_scipy_finds_it(metric: pmb.Distortion, tilt: float) -> None:
    found = argmax_tilted_h(encode_metric(metric), 1.0, tilt, 70)

    def lost(u: float) -> float:
        return tilt * u - float(metric(u))

    grid = np.linspace(0.0, 1.0, 2001)
    start = grid[np.argmin([lost(u) for u in grid])]
    best = opt.minimize_scalar(lost, bounds=(max(start - 1e-3, 0.0), min(start + 1e-3, 1.0)), method="bounded")
    least = min(float(best.fun), lost(0.0), lost(1.0))
    assert lost(found) <= least + 1e-9
