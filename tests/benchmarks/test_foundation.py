"""The benchmarks compare with what gives the same answers."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.tables.from_distributions import survival_table


def test_the_solver_that_the_benchmarks_compare_with_finds_the_oracles_value() -> None:
    foundation = pytest.importorskip("benchmarks.foundation")
    gini, bandit = pmb.GiniDeviation(), pmb.Bandit.from_samples([[0.0, 1.0, 2.0], [0.5, 3.0]])
    found = foundation.slsqp(gini, survival_table(gini, list(bandit.distributions), np.eye(2)), np.full(2, 0.5))
    assert -found.fun == pytest.approx(pmb.oracle(gini, bandit).value, rel=1e-6)
