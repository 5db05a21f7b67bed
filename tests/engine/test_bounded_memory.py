"""Policies in bounded memory: bins and sketches in place of all rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import pmbandits as pmb
from pmbandits.confidence._bounds import mixture_utility_with_bounds, wasserstein_radius
from pmbandits.confidence._envelopes import COARSE_TABLE_SIZE
from pmbandits.estimates import _sketch as sketching
from tests.helpers import play_rewards, sketch_of

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0.0, 1.0)
BOUNDED = ["binned:64", "sketch:16"]


def fed(data: list[np.ndarray], metric: Any = GINI, support: Any = UNIT, policy: Any = pmb.CIRT, **options: Any) -> Any:
    made = policy(metric, n_arms=len(data), support=support, **options)
    for arm, rewards in enumerate(data):
        made.tell(arm, rewards)
    return made


@pytest.mark.parametrize("estimates", ["binned:16", "sketch:8", "sketch:64"])
def test_the_utility_is_that_of_what_is_kept(estimates: str) -> None:
    rng = np.random.default_rng(3)
    data = [rng.beta(2, 5, 700), rng.beta(5, 2, 300)]
    policy = fed(data, estimates=estimates)
    kept = policy.estimates
    assert [arm.n for arm in kept] == [700, 300]
    assert all(abs(arm.p.sum() - 1.0) < 1e-12 for arm in kept)
    for weights in ([1.0, 0.0], [0.3, 0.7]):
        x = np.concatenate([arm.x for arm in kept])
        p = np.concatenate([w * arm.p for w, arm in zip(weights, kept, strict=True)])
        low, middle, high = policy.utility_bounds(weights)
        assert middle == pytest.approx(GINI.value(x, weights=p), abs=1e-12)
        assert low < middle < high
    arm = kept[0]
    wanted = rewards_kept(data[0], estimates)
    assert np.array_equal(np.repeat(arm.x, np.rint(arm.p * arm.n).astype(int)), np.sort(wanted))


def rewards_kept(data: np.ndarray, estimates: str) -> np.ndarray:
    name, size = estimates.split(":")
    if name == "binned":
        return np.array([min((j / int(size) for j in range(int(size) + 1)), key=lambda y: abs(x - y)) for x in data])
    sketch = sketch_of(data, int(size), 0)  # arm 0 draws the coins of stream 0
    return np.repeat(*sketch.items())


@pytest.mark.parametrize("confidence", ["dkw", "wasserstein"])
@pytest.mark.parametrize("metric", [pmb.Mean(), pmb.UpperCVaR(0.5), pmb.PHT(0.6)], ids=repr)
def test_bounds_hold_in_spite_of_rounding_and_would_not_without_widening(metric: Any, confidence: str) -> None:
    """All rewards lie just below the middle of a cell, so all are rounded down."""
    n, cells = 20_000, 8
    low = np.random.default_rng(0).integers(0, 3, n) / cells
    data = [low + 0.49 / cells, low + 0.49 / cells]
    policy = fed(data, metric, confidence=confidence, estimates=f"binned:{cells}")
    truth = metric.value(np.arange(3) / cells + 0.49 / cells)
    below, _, above = policy.utility_bounds([0.5, 0.5])
    assert below <= truth <= above
    policy._memory.rounding_utility_bound = policy._memory.rounding = 0.0
    if metric.holder(UNIT).q == 1.0:  # elsewhere the sets are wide by themselves
        assert policy.utility_bounds([0.5, 0.5])[2] < truth


@pytest.mark.parametrize("support", [UNIT, pmb.Real(0.3)], ids=repr)
def test_bounds_hold_in_spite_of_sketching_and_would_not_without_widening(support: Any) -> None:
    bounded = support is UNIT
    metric, truth = (pmb.VaR(0.5), 0.5) if bounded else (pmb.UpperCVaR(0.5), 0.75)  # of a uniform law
    inside, narrow, runs = 0, 0, 12
    for run in range(runs):
        data = np.random.default_rng(run).random(20_000)
        policy = fed([data], metric, support, delta=0.4, estimates="sketch:8", seed=run)
        low, _, high = policy.utility_bounds([1.0])
        inside += low <= truth <= high
        assert policy.estimates[0].radius > policy.confidence.radius(20_000)
        if bounded:  # σ-sub-Gaussian balls are wide by themselves
            policy._memory.sketch_stats[0, [sketching.SQUARES, sketching.SUM]] = 0.0  # as if nothing were compacted
            low, _, high = policy.utility_bounds([1.0])
            narrow += low <= truth <= high
    assert inside >= 0.6 * runs
    assert narrow < 0.6 * runs


def test_the_bonus_radius_covers_what_is_lost() -> None:
    data = np.random.default_rng(1).random(20_000)
    for estimates in ("binned:8", "sketch:8"):
        policy = fed([data], policy=pmb.CEUCB, horizon=10**5, epsilon=1.0, estimates=estimates)
        policy.utility_bounds([1.0])
        memory = policy._memory_with_radii()
        mixture_utility_with_bounds(memory, np.ones(1))
        kept = policy.estimates[0]
        far = wasserstein_distance(np.linspace(0, 1, 5001), kept.x, v_weights=kept.p)
        assert far <= wasserstein_radius(memory, 0)


def test_the_band_of_an_estimate_allows_for_rounding() -> None:
    data = np.full(5000, 0.49 / 8)
    arm = fed([data], estimates="binned:8").estimates[0]
    low, high = arm.band([0.06, 0.07])
    assert low[0] == 0.0 and high[1] == 1.0
    assert arm.rounding == 1 / 16


@pytest.mark.parametrize("policy", [pmb.PMUCB, pmb.CEUCB])
def test_bins_and_sketches_that_lose_nothing_decide_as_exact_estimates_do(policy: Any) -> None:
    rng = np.random.default_rng(5)
    rewards = np.stack([rng.binomial(64, 0.3, 240), rng.binomial(64, 0.6, 240)]) / 64
    # The sets of relative entropy are other ones for bins, and for sketches.
    common = {"n_arms": 2, "support": UNIT, "horizon": 240, "epsilon": 1 / 4, "confidence": "dkw"}
    exact = play_rewards(policy(GINI, **common, delta=0.1), rewards, 240)
    assert play_rewards(policy(GINI, **common, delta=0.1, estimates="binned:64"), rewards, 240) == exact
    # Half of δ is for the sketches.
    assert play_rewards(policy(GINI, **common, delta=0.2, estimates="sketch:256"), rewards, 240) == exact


def test_counted_rewards_stay_exact_and_only_the_radii_are_coarse() -> None:
    rewards = (np.random.default_rng(2).random((2, 3000)) < [[0.4], [0.9]]).astype(float)
    common = {"n_arms": 2, "support": pmb.Binary(), "epsilon": 0.25}
    exact, coarse = pmb.CIRT(GINI, **common), pmb.CIRT(GINI, **common, estimates="sketch")
    assert play_rewards(exact, rewards, 250) == play_rewards(coarse, rewards, 250)
    play_rewards(exact, rewards, 2500)
    play_rewards(coarse, rewards, 2500)
    ours, theirs = exact.utility_bounds([0.5, 0.5]), coarse.utility_bounds([0.5, 0.5])
    assert np.allclose(ours, theirs, atol=0.01)
    assert coarse._memory.n_radii == COARSE_TABLE_SIZE


@pytest.mark.parametrize("estimates", BOUNDED)
def test_the_state_does_not_grow(estimates: str) -> None:
    policy = pmb.PMUCB(GINI, n_arms=2, support=UNIT, horizon=10**6, epsilon=0.25, estimates=estimates)
    before = policy._memory.words.nbytes
    rewards = np.random.default_rng(0).random(30_000)
    policy.tell([0, 1] * 15_000, rewards)
    _ = policy.ask(), policy.mixture
    assert policy._memory.words.nbytes == before < 200_000
    assert policy.estimates[0].mean == pytest.approx(rewards[::2].mean(), abs=0.05)


# ---- what is refused --------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimates", ["coarse", "binned:", "binned:7", "binned:x", "exact:9", "sketch:9999999", None])
def test_unknown_estimates_are_refused(estimates: Any) -> None:
    with pytest.raises(ValueError, match="'exact', 'binned' or 'sketch'"):
        pmb.CIRT(estimates=estimates)


def test_estimates_that_no_bound_exists_for_are_refused() -> None:
    with pytest.raises(ValueError, match=r"bounded support.*sketch"):
        pmb.PMETC(GINI, n_arms=2, support=pmb.Real(1), horizon=100, estimates="binned")
    # Without a Hölder pair what rounding is worth follows from the total variation of h.
    binned = pmb.FixedGrid(pmb.VaR(0.5), n_arms=2, support=UNIT, estimates="binned:100")
    assert binned._memory.rounding_utility_bound == pytest.approx(0.005)
    pmb.FixedGrid(pmb.VaR(0.5), n_arms=2, support=UNIT, estimates="sketch")
    pmb.FixedGrid(pmb.VaR(0.5), n_arms=2, support=UNIT, estimates="binned", confidence="wasserstein")

    class Rising:
        kind = "band"

        def radius(self, n: Any) -> Any:
            return 1.0 - 1.0 / (1.0 + n)

    with pytest.raises(ValueError, match="do not fall"):
        pmb.FixedGrid(GINI, n_arms=2, support=UNIT, estimates="binned", confidence=Rising())
