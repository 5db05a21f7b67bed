"""What the theory promises, on simulated runs: identification, retention, tracking, and regret below the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import pmbandits as pmb
from pmbandits.simulation.trial import Player
from tests.reference import theory as paper

theory = pmb.theory
GINI, MEAN = pmb.GiniDeviation(), pmb.Mean()


# ---- PM-ETC-M picks the best mixture ---------------------------------------------------------------------
def picks_best(means: list[float], metric: pmb.Distortion, steps: int, each: int, trials: int, seed: int) -> float:
    """How often the empirical optimum of the grid is a true one, after ``each`` Bernoulli rewards of each arm."""
    grid = pmb.etc_grid(len(means), 1 / steps)
    true = metric(np.clip(grid @ np.array(means), 0, 1))
    rng = np.random.default_rng(seed)
    right = 0
    for _ in range(trials):
        seen = rng.binomial(each, means) / each
        chosen = int(np.argmax(metric(np.clip(grid @ seen, 0, 1))))
        right += bool(true[chosen] >= true.max() - 1e-12)
    return right / trials


@pytest.mark.parametrize("confidence", ["paper", "auto", "dkw", "wasserstein"])
@pytest.mark.parametrize(
    ("means", "metric", "steps"),
    [([0.1, 0.9], GINI, 2), ([0.3, 0.9], GINI, 5), ([0.2, 0.6, 0.7], MEAN, 4), ([0.05, 0.55], pmb.WangRightTail(), 4)],
)
@pytest.mark.parametrize("horizon", [2, 1000])
def test_etc_with_the_bounds_exploration_picks_the_discrete_optimum_as_often_as_promised(
    means: list[float], metric: pmb.Distortion, steps: int, confidence: str, horizon: int
) -> None:
    bandit = pmb.Bandit.bernoulli(means)
    rounds = theory.exploration_rounds(metric, bandit, horizon, 1 / steps, gap="distinct", confidence=confidence)
    each = math.ceil(rounds / len(means))
    share = picks_best(means, metric, steps, each, 2000, seed=6)
    assert share >= 1 - 1 / horizon**2 - 3 * math.sqrt(1 / horizon**2 / 2000)


def test_a_small_part_of_the_tight_exploration_picks_worse() -> None:
    # so the test above can fail
    bandit = pmb.Bandit.bernoulli([0.3, 0.9])
    rounds = theory.exploration_rounds(GINI, bandit, 1000, 0.2, gap="distinct", confidence="auto")
    assert picks_best([0.3, 0.9], GINI, 5, math.ceil(rounds / 2), 2000, seed=7) == 1.0
    assert picks_best([0.3, 0.9], GINI, 5, 100, 2000, seed=7) < 0.9


@pytest.mark.parametrize(
    ("metric", "means", "epsilon", "horizon"),
    [(GINI, [0.1, 0.9], 0.5, 100_000), (MEAN, [0.1, 0.9], 1.0, 20_000), (MEAN, [0.1, 0.5, 0.95], 1.0, 200_000)],
)
def test_etc_stays_below_its_bound(metric: pmb.Distortion, means: list[float], epsilon: float, horizon: int) -> None:
    bandit, trials = pmb.Bandit.bernoulli(means), 12
    bound = theory.etc_bound(metric, bandit, horizon, epsilon, confidence="auto").require()
    recipe = pmb.PMETC(horizon=horizon, epsilon=epsilon, n_explore=math.ceil(bound.exploration))
    found = [play(recipe, metric, bandit, horizon, trial) for trial in range(trials)]
    regrets = np.array([regret for regret, _ in found])
    best = pmb.gaps(metric, bandit, epsilon).best if epsilon < 1 else np.eye(len(means))[-1]
    assert all(np.allclose(policy.mixture, best) for _, policy in found)  # wrong with probability T⁻²
    assert regrets.mean() <= bound.sharper <= bound.value
    # eq: ETC commit 6
    for _, policy in found:
        assert np.abs(policy.pulls / horizon - best).max() <= 2 * bound.exploration / horizon


def play(recipe: pmb.Policy, metric: pmb.Distortion, bandit: pmb.Bandit, horizon: int, trial: int) -> tuple:
    player = Player(recipe.bind(metric, bandit.n_arms, bandit.support), bandit, 8, np.array([horizon]))
    player.play(trial)
    policy = player.policy
    best = pmb.oracle(metric, bandit).value
    return best - pmb.utility(metric, bandit, policy.pulls / horizon), policy


# ---- the UCB policies ------------------------------------------------------------------------------------
@pytest.mark.parametrize("cls", [pmb.PMUCB, pmb.CEUCB])
@pytest.mark.parametrize(
    ("metric", "means", "epsilon", "horizon"),
    [(MEAN, [0.05, 0.95], 0.5, 40_000), (pmb.MeanMedianDeviation(), [0.02, 0.62], 0.4, 400_000)],
)
def test_the_ucb_policies_stay_below_their_bound_and_track_their_mixture(
    cls: type, metric: pmb.Distortion, means: list[float], epsilon: float, horizon: int
) -> None:
    bandit = pmb.Bandit.bernoulli(means)
    make = theory.ucb_bound if cls is pmb.PMUCB else theory.ce_ucb_bound
    bound = make(metric, bandit, horizon, epsilon, rho=1.0, confidence="auto").require()
    grid = pmb.ucb_grid(2, epsilon)
    best = grid[int(np.argmax([pmb.utility(metric, bandit, a) for a in grid]))]
    recipe = cls(horizon=horizon, epsilon=epsilon, rho=1.0)
    found = [play(recipe, metric, bandit, horizon, trial) for trial in range(4)]
    assert np.mean([regret for regret, _ in found]) <= bound.sharper <= bound.value
    for _, policy in found:
        # lemma:undersampling at t = T > T(ε)
        assert (np.abs(policy.pulls / horizon - best) < 2 / horizon).all()


@settings(deadline=None, max_examples=60)
@given(s.data(), s.integers(2, 5), s.integers(2, 12))
def test_tracking_is_within_k_by_t_from_the_stated_time_on(data: s.DataObject, arms: int, extra: int) -> None:
    # lemma:undersampling: any pulls at T_0, then T(ε) = (2/ε)(T_0 − 1)
    epsilon = 1 / (arms / 2 + extra)
    grid = pmb.ucb_grid(arms, epsilon)
    weights = grid[data.draw(s.integers(0, grid.shape[0] - 1))]
    start = np.array(data.draw(s.lists(s.integers(0, 12), min_size=arms, max_size=arms)))
    start[0] += 1
    settled = 2 / epsilon * (int(start.sum()) - 1)
    for pulls in paper.track(start, weights, int(settled) + 60):
        t = int(pulls.sum())
        if t >= max(settled, start.sum()):
            assert (np.abs(pulls / t - weights) < arms / t + 1e-12).all()


# ---- CIRT ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stopping", ["box", "literal"])
@pytest.mark.parametrize("means", [[0.1, 0.9], [0.2, 0.7]])
def test_cirt_keeps_the_best_mixture_as_often_as_promised(means: list[float], stopping: str) -> None:
    bandit, epsilon, delta, trials, horizon = pmb.Bandit.bernoulli(means), 0.25, 0.05, 16, 120_000
    star = pmb.oracle(GINI, bandit).weights
    recipe = pmb.CIRT(epsilon=epsilon, delta=delta, stopping=stopping)
    phases = theory.refinement_phases(epsilon)
    kept, refined = 0, 0
    for trial in range(trials):
        _, policy = play(recipe, GINI, bandit, horizon, trial)
        if policy.phase != "track":
            continue
        refined += 1
        box = policy._memory.kept_mixture * 2.0 ** (phases - 1) / 4.0**phases
        kept += bool((np.abs(box - star) <= 2.0 ** (phases - 1) / 4.0**phases + 1e-12).all())
    assert refined >= trials / 2
    promised = theory.retention_probability(epsilon, delta)
    assert kept >= promised * refined - 3 * math.sqrt(promised * (1 - promised) * refined)


def test_cirt_stays_below_its_bound_and_tracks_from_the_stated_time_on() -> None:
    bandit, epsilon, horizon = pmb.Bandit.bernoulli([0.1, 0.9]), 0.25, 400_000
    below = tracked = 0
    for trial in range(10):
        regret, policy = play(pmb.CIRT(epsilon=epsilon), GINI, bandit, horizon, trial)
        bound = theory.cirt_bound(
            GINI, bandit, horizon, epsilon, confidence="auto", refined_after=policy.phase_ends[-1]
        ).require()
        below += bool(regret <= bound.sharper <= bound.value)
        tracked += bool(
            (np.abs(policy.pulls / horizon - policy.mixture) < 2 / horizon).all()
        )  # lemma:any_sampling_bound
        # lemma:any_explicit_exploration
        assert policy.pulls.min() >= theory.least_pulls(horizon, 2)
    assert below == tracked == 10


def test_the_proofs_time_for_refinement_is_longer_than_runs_take() -> None:
    bandit = pmb.Bandit.bernoulli([0.1, 0.9])
    _, policy = play(pmb.CIRT(epsilon=0.25), GINI, bandit, 100_000, 0)
    assert policy.phase_ends[-1] < theory.refinement_time(GINI, bandit, 0.25, confidence="auto")
