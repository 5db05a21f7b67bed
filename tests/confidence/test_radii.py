"""The coarse table of radii."""

from __future__ import annotations

import numpy as np

import pmbandits as pmb
from pmbandits.confidence import confidence_set
from pmbandits.confidence._envelopes import ENTRIES_PER_DOUBLING, coarse_radius_table_index, n_of_coarse_radius_table

UNIT = pmb.Interval(0.0, 1.0)


def test_the_coarse_table_is_exact_at_first_and_then_a_little_wider() -> None:
    counts = n_of_coarse_radius_table()
    assert (np.diff(counts) > 0).all()
    assert [coarse_radius_table_index(n) for n in counts.tolist()] == list(range(counts.size))
    n = np.unique(np.concatenate((np.arange(1, 3000), np.logspace(3, 12, 400).astype(np.int64))))
    taken = counts[[coarse_radius_table_index(m) for m in n.tolist()]]
    assert (taken <= n).all()
    assert (taken[n < 2 * ENTRIES_PER_DOUBLING] == n[n < 2 * ENTRIES_PER_DOUBLING]).all()
    for support, horizon in ((pmb.Binary(), None), (UNIT, 10**6), (UNIT, None), (pmb.Real(2.0), None)):
        for name in ("auto", "paper", "wasserstein"):
            chosen = confidence_set(name, support, 3, horizon=horizon)
            ratio = chosen.radius(taken) / chosen.radius(n)
            assert (ratio >= 1.0 - 1e-12).all()
            # The ball on the line is made of pieces for longer and longer times, and falls where one begins.
            pieces = isinstance(support, pmb.Real) and name != "paper"
            assert (ratio <= 1.0 + (8.0 if pieces else 1.0) / ENTRIES_PER_DOUBLING).all()
            assert (ratio <= 1.0 + 1.0 / ENTRIES_PER_DOUBLING).mean() > 0.95
