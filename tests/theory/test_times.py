"""Constants and waiting times of the analysis, against literal copies of the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as s

import pmbandits as pmb
from pmbandits.confidence import confidence_set
from tests.reference import theory as paper

theory = pmb.theory
GINI = pmb.GiniDeviation()
TWO = pmb.Bandit.bernoulli([0.3, 0.9])
INSTANCES = {
    "gini": (GINI, TWO),
    "wang": (pmb.WangRightTail(), pmb.Bandit.bernoulli([0.1, 0.6])),
    "mean": (pmb.Mean(), pmb.Bandit.bernoulli([0.2, 0.5, 0.9])),
    "dual_power": (pmb.DualPower(3), pmb.Bandit([[0.0, 0.4, 1.0], [0.2, 0.3], [0.7, 0.9]])),
    "normal": (pmb.UpperCVaR(0.5), pmb.Bandit([st.norm(0, 1), st.norm(0.5, 0.8)])),
}
EPSILONS = {"gini": 0.4, "wang": 0.3, "mean": 0.25, "dual_power": 0.2, "normal": 0.4}
positive = s.floats(0.05, 4.0)
unit = s.floats(0.1, 1.0)


# ---- exponents -------------------------------------------------------------------------------------------
@given(unit, positive)
def test_exploration_and_estimation_shrink_alike_at_the_scheduled_epsilon(q: float, beta: float) -> None:
    # N(ε)/T = T^(γ−1) and ε^β-type error T^(−γq/2β) are balanced: that is how γ is chosen
    gamma = theory.exploration_exponent(q, beta)
    assert (1 - gamma) * q == pytest.approx(gamma * q**2 / (2 * beta), rel=1e-12)


@given(unit, positive)
def test_the_ucb_spacing_is_the_finest_for_which_the_waiting_time_stays_below_the_horizon(
    q: float, beta: float
) -> None:
    # T(ε) grows like (1/ε)·(1/ε)·ε^(−2β/q): at ε = T^−κ that is T itself
    kappa = theory.spacing_exponent(q, beta)
    assert kappa * (2 + 2 * beta / q) == pytest.approx(1.0, rel=1e-12)


@given(unit, positive)
def test_the_power_of_the_arms_is_that_of_the_appendix(q: float, beta: float) -> None:
    # written K^(q + q(q+1)/β) there
    assert theory.rate("etc", q, beta).arms == pytest.approx(q + q * (q + 1) / beta, rel=1e-9)
    assert theory.rate("ucb", q, beta).arms == pytest.approx(theory.arms_exponent_ucb(q, beta), rel=1e-9)


@pytest.mark.parametrize(("q", "beta"), [(0.0, 1.0), (1.1, 1.0), (1.0, 0.0), (0.5, -1.0)])
def test_exponents_outside_their_range_are_refused(q: float, beta: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        theory.exploration_exponent(q, beta)


def test_an_unknown_beta_is_explained_with_the_ways_to_know_it() -> None:
    with pytest.raises(ValueError, match=r"gap_exponent.*known_exponents.*epsilon"):
        theory.rate("etc", q=1.0)
    with pytest.raises(ValueError, match="beta is not known"):
        theory.etc_bound(GINI, TWO, 1000)


# ---- radii -----------------------------------------------------------------------------------------------
@given(s.integers(2, 10**8), s.integers(1, 10**9))
def test_one_radius_stands_behind_the_papers_three(horizon: int, n: int) -> None:
    ucb = confidence_set("paper", pmb.Binary(), 2, horizon=horizon).radius(n)
    assert theory.paper_radius(n, 2 / horizon**2) == pytest.approx(ucb, rel=1e-12)
    anytime = confidence_set("paper", pmb.Binary(), 3, delta=0.05).radius(n)
    assert theory.paper_radius(n, theory.arm_failure(0.05, 3)) == pytest.approx(anytime, rel=1e-12)


@given(s.floats(1e-9, 0.9), s.integers(1, 10**8))
def test_the_papers_radius_inverts_its_concentration_lemma(delta: float, n: int) -> None:
    assert theory.concentration(n, theory.paper_radius(n, delta)) == pytest.approx(delta, rel=1e-6)


def test_the_concentration_lemma_by_hand() -> None:
    # n = 2²⁰, y = 1: 512/√n = ½, n/(256e)·¼ = 1024/e
    assert theory.concentration(2**20, 1.0) == pytest.approx(2 * math.exp(-1024 / math.e), rel=1e-9)
    assert theory.concentration(2**20, 0.5) == 1.0


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_wasserstein_radii_of_bands_and_intervals(n: int) -> None:
    wide = pmb.Interval(-1, 3)
    band = confidence_set("dkw", wide, 2, horizon=500)
    assert theory.wasserstein_radius(band, wide)(n) == pytest.approx(4 * min(1.0, band.radius(n)))
    kl = confidence_set("kl", pmb.Binary(), 2, horizon=500)
    radius = theory.wasserstein_radius(kl, pmb.Binary())(n)
    # whatever p̂, all p with kl(p̂, p) ≤ c lie within the radius
    p = np.linspace(1e-6, 1 - 1e-6, 401)
    with np.errstate(divide="ignore", invalid="ignore"):
        for seen in (0.0, 0.1, 0.5, 0.83):
            first = 0.0 if seen == 0 else seen * np.log(seen / p)
            divergence = first + (1 - seen) * np.log((1 - seen) / (1 - p))
            assert np.abs(p - seen)[divergence <= kl.radius(n)].max(initial=0.0) <= radius + 1e-12


# ---- an instance -----------------------------------------------------------------------------------------
def test_facts_of_two_bernoulli_arms_by_hand() -> None:
    known = theory.facts(GINI, TWO)
    assert (known.n_arms, known.q, known.constant) == (2, 1.0, 1.0)
    assert known.distance == pytest.approx(0.3)  # half of |.9 − .3|
    assert known.largest_utility == pytest.approx(0.25) == known.largest_loss


def test_where_utilities_can_be_negative_the_largest_loss_is_not_the_largest_utility() -> None:
    bandit = pmb.Bandit([[-3.0, -2.0], [-1.0, 0.0]])
    known = theory.facts(pmb.Mean(), bandit)
    assert known.largest_utility == pytest.approx(-0.5)
    assert known.largest_loss == pytest.approx(2.0)  # W1 of the two arms
    assert known.largest_loss >= known.largest_utility - pmb.utility(pmb.Mean(), bandit, [1, 0]) - 1e-12


@pytest.mark.parametrize("metric", [GINI, pmb.Mean(), pmb.PHT(0.5), pmb.LowerCVaR(0.3), pmb.VaR(0.5)], ids=repr)
def test_no_law_on_a_support_is_worth_more_than_the_largest_utility(metric: pmb.Distortion) -> None:
    support = pmb.Interval(-1, 3)
    top = theory.largest_utility(metric, support)
    rng = np.random.default_rng(0)
    seen = [metric.value(rng.choice(np.linspace(-1, 3, 9), 5), weights=rng.dirichlet(np.ones(5))) for _ in range(300)]
    ends = [metric.value([-1.0, 3.0], weights=[1 - p, p]) for p in np.linspace(0, 1, 1001)]
    assert max(seen) <= top + 1e-12
    assert max(ends) == pytest.approx(top, abs=2e-3)


def test_the_largest_utility_on_the_line_is_refused() -> None:
    with pytest.raises(ValueError, match="give the bandit"):
        theory.largest_utility(GINI, pmb.Real(1))
    assert theory.largest_utility(GINI, TWO) == pytest.approx(0.25)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("epsilon", [0.5, 0.25, 0.1])
def test_the_estimation_regret_stays_below_its_limit(name: str, epsilon: float) -> None:
    metric, bandit = INSTANCES[name]
    known = theory.facts(metric, bandit)
    for rank in (1, 2):
        lost = known.grid_loss(rank, epsilon, "etc")
        assert 0.0 <= lost <= theory.estimation_limit(metric, bandit, epsilon, rank) + 1e-12


def test_w_of_arms_around_zero_is_below_its_limit_and_far_arms_exceed_it() -> None:
    near = pmb.Bandit([st.norm(0, 1), st.norm(0, 0.1), st.uniform(-1, 2)])
    assert theory.half_wasserstein_diameter(near) <= theory.distance_limit(1.0)
    assert theory.half_wasserstein_diameter(pmb.Bandit([st.norm(0), st.norm(9)])) > theory.distance_limit(1.0)


@settings(deadline=None, max_examples=30)
@given(s.floats(0.05, 0.45), s.floats(0.55, 0.95), s.integers(2, 60))
def test_gaps_of_two_bernoulli_arms_in_closed_form(low: float, high: float, steps: int) -> None:
    bandit = pmb.Bandit.bernoulli([low, high])
    # V = ¼ − (mean − ½)²: the best three are the three nearest to ½
    near = sorted((low + (high - low) * k / steps - 0.5) ** 2 for k in range(steps + 1))
    known = theory.facts(GINI, bandit)
    assert known.gap(1 / steps, "12") == pytest.approx(near[1] - near[0], abs=2e-12)
    assert known.gap(1 / steps, "13") == pytest.approx(near[2] - near[0], abs=2e-12)
    assert known.grid_loss(1, 1 / steps) == pytest.approx(near[0], abs=1e-12)
    plain = pmb.gaps(GINI, bandit, 1 / steps)
    assert known.gap(1 / steps, "12") == pytest.approx(plain.d12, abs=2e-12)


def test_the_distinct_gap_looks_past_ties() -> None:
    known = theory.facts(GINI, pmb.Bandit.bernoulli([0.2, 0.5, 0.8]))
    assert known.gap(0.25, "12") == known.gap(0.25, "13") == 0.0
    # means are .2 + .075k: next to ½ comes ½ ± .075
    assert known.gap(0.25, "distinct") == pytest.approx(0.075**2, rel=1e-9)


@given(unit, s.floats(1e-6, 1.0), s.integers(2, 8), s.floats(0.1, 10.0))
def test_within_the_tolerance_no_estimate_and_no_optimism_hides_the_gap(
    q: float, gap: float, arms: int, constant: float
) -> None:
    known = theory.Facts(
        metric=GINI, bandit=TWO, support=pmb.Binary(), n_arms=arms, q=q, constant=constant, distance=0.0,
        largest_utility=1.0, largest_loss=1.0, best=pmb.oracle(GINI, TWO), _grid_cache={},
    )  # fmt: skip
    radius = known.tolerance(gap)
    # PM-ETC-M: both mixtures are off by K𝓛r^q; PM-UCB-M: laws of a ball are 2r apart; CE-UCB-M: estimate and bonus
    assert 2 * arms * constant * radius**q == pytest.approx(gap, rel=1e-9)
    assert arms * constant * (2 * radius) ** q <= gap * (1 + 1e-9)


def test_a_gap_of_zero_is_explained_with_the_ways_out() -> None:
    bandit = pmb.Bandit.bernoulli([0.2, 0.5, 0.8])
    with pytest.raises(ValueError, match=r"delta_12 is 0 at epsilon = 0\.25.*distinct.*13"):
        theory.exploration_rounds(GINI, bandit, 1000, 0.25)
    with pytest.raises(ValueError, match="distinct") as caught:
        theory.separation_time(GINI, pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    assert "'13'" not in str(caught.value)  # the paper has δ_13 for PM-ETC-M only
    with pytest.raises(ValueError, match="equally good"):
        theory.exploration_rounds(GINI, pmb.Bandit.bernoulli([0.4, 0.4]), 1000, 0.25, gap="distinct")


def test_a_grid_too_coarse_for_the_gap_is_explained() -> None:
    with pytest.raises(ValueError, match="smaller epsilon"):
        theory.facts(GINI, TWO).gap(1.0, "13")
    assert theory.facts(GINI, TWO).gap(1.0, "12") == pytest.approx(0.3 * 0.7 - 0.9 * 0.1)


def test_an_unknown_support_is_explained() -> None:
    with pytest.raises(ValueError, match="support is not known"):
        theory.facts(GINI, pmb.Bandit([st.expon(), st.norm()]))


# ---- waiting times ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("gap", ["12", "13"])
@pytest.mark.parametrize("horizon", [10, 10**6])
def test_exploration_with_the_papers_radius_is_the_papers_formula(name: str, gap: str, horizon: int) -> None:
    metric, bandit = INSTANCES[name]
    epsilon = EPSILONS[name]
    known, found = theory.facts(metric, bandit), pmb.gaps(metric, bandit, epsilon)
    distance = found.d12 if gap == "12" else found.d13
    expected = paper.number_of_samples(horizon, bandit.n_arms, epsilon, distance, known.q, known.constant)
    rounds = theory.exploration_rounds(metric, bandit, horizon, epsilon, gap=gap)
    assert rounds == pytest.approx(expected, rel=1e-9)
    assert rounds == pytest.approx(
        theory.exploration(horizon, bandit.n_arms, epsilon, distance, known.q, known.constant), rel=1e-9
    )
    assert theory.exploration_scale(metric, bandit, horizon, epsilon, gap=gap) == pytest.approx(
        expected / math.log(horizon), rel=1e-9
    )


@pytest.mark.parametrize("name", ["gini", "wang", "mean", "dual_power"])
@pytest.mark.parametrize("confidence", ["auto", "dkw", "wasserstein"])
def test_exploration_with_another_set_is_the_least_that_its_radius_allows(name: str, confidence: str) -> None:
    metric, bandit = INSTANCES[name]
    known, epsilon, horizon = theory.facts(metric, bandit), EPSILONS[name], 1000
    gap = pmb.gaps(metric, bandit, epsilon).d12
    rounds = theory.exploration_rounds(metric, bandit, horizon, epsilon, confidence=confidence)
    share = 1 / (bandit.n_arms * horizon**2 * (epsilon ** -(bandit.n_arms - 1) + 1))
    once = "dkw" if confidence == "auto" else confidence  # at one n a band is narrower than a belt for all n
    chosen = confidence_set(once, known.support, bandit.n_arms, horizon=1, delta=share)
    radius = theory.wasserstein_radius(chosen, known.support)
    each = rounds / bandit.n_arms
    limit = (gap / (2 * bandit.n_arms * known.constant)) ** (1 / known.q)
    assert each == int(each)
    assert radius(each) <= limit < radius(each - 1)
    assert rounds < theory.exploration_rounds(metric, bandit, horizon, epsilon) / 1000


@pytest.mark.parametrize("rho", [0.1, 1.0])
@pytest.mark.parametrize("name", ["gini", "wang", "mean", "normal"])
def test_the_separation_time_is_the_first_from_which_the_papers_inequality_holds(name: str, rho: float) -> None:
    metric, bandit = INSTANCES[name]
    epsilon = {"gini": 0.4, "wang": 0.4, "mean": 0.3, "normal": 0.4}[name]
    known = theory.facts(metric, bandit)
    best, second = sorted(pmb.utility(metric, bandit, a) for a in pmb.ucb_grid(bandit.n_arms, epsilon))[-1:-3:-1]
    gap = best - second
    start = theory.separation_time(metric, bandit, epsilon, rho=rho)
    right = paper.t0_right(bandit.n_arms, gap, known.q, known.constant)
    assert paper.t0_left(start, epsilon, rho) <= right * (1 + 1e-12)
    assert paper.t0_left(start * (1 - 1e-9) - 1, epsilon, rho) > right * (1 - 1e-7)
    for later in np.geomspace(start, 1e6 * start, 50):
        assert paper.t0_left(float(later), epsilon, rho) <= right * (1 + 1e-12)
    assert theory.settling_time(metric, bandit, epsilon, rho=rho) == pytest.approx(2 / epsilon * (start - 1))
    # eq:m and eq:T_epsilon_actual: T_0 + (2/ε − 1)·T_0 − 2/ε
    assert theory.settling_time(metric, bandit, epsilon, rho=rho) == pytest.approx(
        start + (2 / epsilon - 1) * start - 2 / epsilon, rel=1e-12
    )


@pytest.mark.parametrize("confidence", ["auto", "dkw", "wasserstein"])
def test_the_separation_time_of_another_set_by_trying_every_horizon(confidence: str) -> None:
    metric, bandit, epsilon = pmb.Mean(), pmb.Bandit.bernoulli([0.05, 0.95]), 0.5
    start = theory.separation_time(metric, bandit, epsilon, rho=1.0, confidence=confidence)
    limit = 0.5 * 0.9 / (2 * 2)  # δ_12 = ½·.9 on the two points of the grid
    far = []
    for horizon in range(1, 2 * int(start)):
        chosen = confidence_set(confidence, pmb.Binary(), 2, horizon=horizon)
        if theory.wasserstein_radius(chosen, pmb.Binary())(horizon * epsilon / 4) > limit:
            far.append(horizon)
    assert start == far[-1] + 1


def test_the_separation_time_of_a_set_that_is_tight_from_the_start() -> None:
    class Certain:
        kind = "ball"

        def radius(self, n: np.ndarray) -> np.ndarray:
            return np.zeros_like(n)

    assert theory.separation_time(GINI, TWO, 0.4, confidence=Certain()) == 1.0
    assert theory.exploration_rounds(GINI, TWO, 100, 0.4, confidence=Certain()) == 2.0


def test_a_set_that_never_gets_tight_waits_for_ever() -> None:
    class Loose:
        kind = "ball"

        def radius(self, n: np.ndarray) -> np.ndarray:
            return np.ones_like(n)

    assert theory.exploration_rounds(GINI, TWO, 100, 0.4, confidence=Loose()) == math.inf
    assert not theory.etc_bound(GINI, TWO, 100, 0.4, confidence=Loose()).holds


def test_unknown_words_are_answered_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="Did you mean 'paper'"):
        theory.exploration_rounds(GINI, TWO, 100, 0.4, confidence="papr")
    with pytest.raises(ValueError, match="unknown gap"):
        theory.exploration_rounds(GINI, TWO, 100, 0.4, gap="14")  # type: ignore[arg-type]


# ---- CIRT ------------------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=50)
@given(s.floats(0.001, 0.99), s.sampled_from([4, 6, 8, 10]))
def test_the_number_of_phases_is_the_least_that_reaches_epsilon(epsilon: float, branching: int) -> None:
    assert theory.refinement_phases(epsilon, branching) == paper.phases(epsilon, branching)
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=epsilon, branching=branching)
    assert policy.phases == theory.refinement_phases(epsilon, branching)


def test_phases_and_their_probability_by_hand() -> None:
    assert [theory.refinement_phases(x) for x in (0.5, 0.25, 0.12, 0.06, 0.03)] == [1, 2, 4, 5, 6]
    assert theory.retention_probability(0.03, 0.05) == pytest.approx(0.7)
    assert theory.retention_probability(0.03, 0.5) == 0.0
    assert theory.arm_failure(0.05, 2) == pytest.approx(paper.delta_k(0.05, 2), rel=1e-15)


@pytest.mark.parametrize(("epsilon", "arms", "xi"), [(0.25, 2, 1.0), (0.06, 2, 1.0), (0.25, 3, 0.5)])
def test_exploration_yields_at_the_last_time_of_the_papers_inequality(epsilon: float, arms: int, xi: float) -> None:
    phases = paper.phases(epsilon, 4)
    right = 2 ** (phases - 1) / 4 ** (phases + 1)
    last = theory.exploration_yields(epsilon, arms, exploration=xi)

    def left(t: float) -> float:
        return t ** (-xi / (1 + xi)) * arms ** (-1 / (1 + xi)) + 1 / t

    assert left(last) > right >= left(last + 1)
    settled = theory.anytime_settling_time(10, epsilon, arms, exploration=xi)
    assert settled == pytest.approx((4 ** (phases + 1) / 2 ** (phases - 1)) * (last - 1))


def test_the_papers_own_cirt_runs_are_shorter_than_its_theorem_asks() -> None:
    # ε = .06, A = 4, ξ = 1, K = 2: τ^ε ≥ 8.5e6 whenever refinement ends; the paper plots T = 3e6
    assert theory.anytime_settling_time(1, 0.06, 2) == pytest.approx(8.52e6, rel=0.01)


def test_refinement_never_ends_in_the_proof_where_mixtures_tie() -> None:
    tied = pmb.Bandit.bernoulli([0.2, 0.5, 0.8])
    assert theory.refinement_time(GINI, tied, 0.25, confidence="auto") == math.inf
    assert theory.refinement_time(GINI, tied, 0.25, confidence="auto", gap="distinct") < math.inf


def test_every_public_name_of_theory_resolves() -> None:
    assert len(theory.__all__) == len(set(theory.__all__)) > 40
    for name in theory.__all__:
        assert getattr(theory, name) is not None
    assert "plan" in dir(theory)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        theory.nothing  # noqa: B018
