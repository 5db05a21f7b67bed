"""Blocks of time: how many there are, and when rewards depend on each other for too long."""

from __future__ import annotations

import numpy as np

from pmbandits.logs.blocks import time_blocks_and_whether_dependent


def test_blocks_follow_time_and_keep_equal_times_together() -> None:
    rng = np.random.default_rng(2)
    time = rng.integers(0, 60, 400).astype(float)
    block, serial = time_blocks_and_whether_dependent(np.zeros(400, dtype=int), rng.normal(size=400), time)
    assert block is not None and not serial
    order = np.argsort(time, kind="stable")
    assert (np.diff(block[order]) >= 0).all() and set(np.unique(block)) == set(range(32))
    assert all(np.unique(block[time == t]).size == 1 for t in np.unique(time))
    assert time_blocks_and_whether_dependent(np.zeros(400, dtype=int), rng.normal(size=400), time % 2)[0] is None
    assert time_blocks_and_whether_dependent(np.zeros(20, dtype=int), rng.normal(size=20), np.arange(20.0))[0] is None


def test_the_longer_rewards_depend_on_each_other_the_fewer_blocks_there_are() -> None:
    sizes, stuck = {}, {}
    for depends in (0.0, 0.8, 0.995):
        found = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            x, noise = np.zeros(600), rng.normal(size=600)
            for t in range(1, 600):
                x[t] = depends * x[t - 1] + noise[t]
            found.append(time_blocks_and_whether_dependent(np.zeros(600, dtype=int), x, np.arange(600.0)))
        sizes[depends] = np.mean([np.unique(block).size for block, _ in found])
        stuck[depends] = sum(serial for _, serial in found)
    assert sizes[0.0] > sizes[0.8] > sizes[0.995] and sizes[0.0] > 28
    assert stuck[0.0] <= 1 and stuck[0.995] >= 15
