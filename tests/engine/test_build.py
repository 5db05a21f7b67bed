"""What cannot work is refused when the policy is made, in one sentence that names the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0, 1)


def refusal(kind: type[Exception], make: Any) -> str:
    with pytest.raises(kind) as caught:
        make()
    text = str(caught.value)
    assert text.strip().endswith(".")
    assert "\n" not in text
    assert len(text) < 400
    return text


def ucb(metric: Any = GINI, **options: Any) -> Any:
    given = {"n_arms": 2, "support": pmb.Binary(), "horizon": 1000, "epsilon": 0.1, **options}
    return pmb.PMUCB(metric, **given)


def etc(metric: Any = GINI, **options: Any) -> Any:
    given = {"n_arms": 2, "support": pmb.Binary(), "horizon": 1000, "epsilon": 0.1, **options}
    return pmb.PMETC(metric, **given)


def cirt(metric: Any = GINI, **options: Any) -> Any:
    return pmb.CIRT(metric, **{"n_arms": 2, "support": pmb.Binary(), **options})


# ---- metrics ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", [pmb.VaR(0.9), pmb.InvertedS(0.5), pmb.InterQuantileRange(0.25, 0.75)], ids=repr)
@pytest.mark.parametrize("support", [pmb.Binary(), UNIT], ids=repr)
def test_ce_ucb_needs_a_holder_pair_and_names_pm_ucb(metric: Any, support: Any) -> None:
    text = refusal(ValueError, lambda: pmb.CEUCB(metric, n_arms=2, support=support, horizon=1000))
    assert "Hölder" in text
    assert "PMUCB" in text


@pytest.mark.parametrize("metric", [pmb.PHT(0.5), pmb.WangRightTail()], ids=repr)
@pytest.mark.parametrize("policy", ["PMUCB", "CEUCB", "CIRT", "FixedGrid"])
def test_metrics_that_need_a_bounded_support_are_refused_on_the_line(metric: Any, policy: str) -> None:
    options: dict[str, Any] = {"horizon": 1000} if policy in ("PMUCB", "CEUCB") else {}
    if policy != "CEUCB":  # belts have bounds for them
        options["confidence"] = "wasserstein"
    text = refusal(ValueError, lambda: getattr(pmb, policy)(metric, n_arms=2, support=pmb.Real(1), **options))
    assert "bounded" in text or "Interval" in text


def test_etc_refuses_them_on_the_line_too() -> None:
    text = refusal(ValueError, lambda: etc(pmb.WangRightTail(), support=pmb.Real(1), horizon=40))
    assert "Interval" in text


@pytest.mark.parametrize("make", [pmb.PMETC, pmb.CEUCB])
def test_metrics_that_need_a_bounded_support_are_refused_on_real_rewards(make: type) -> None:
    with pytest.raises(ValueError, match="Interval"):
        make(pmb.PHT(0.5), n_arms=2, support=pmb.Real(1), horizon=1000, epsilon=0.25)


def test_a_gap_without_a_holder_pair_is_refused() -> None:
    text = refusal(ValueError, lambda: etc(pmb.VaR(0.9), delta_12=0.1))
    assert "Hölder" in text


# ---- grids -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", ["PMUCB", "CEUCB"])
def test_a_grid_too_large_to_enumerate_says_how_large(policy: str) -> None:
    text = refusal(
        ValueError,
        lambda: getattr(pmb, policy)(
            GINI, n_arms=12, support=pmb.Binary(), horizon=10_000, epsilon=0.02, search="grid"
        ),
    )
    assert f"{pmb.grid_size(12, 0.02, 'ucb'):,}" in text
    assert "epsilon" in text
    assert "arms" in text


def test_an_etc_grid_too_large_to_enumerate_says_how_large() -> None:
    text = refusal(ValueError, lambda: etc(n_arms=12, epsilon=0.02, search="grid"))
    assert f"{pmb.grid_size(12, 0.02):,}" in text


def test_a_fixed_grid_too_large_to_enumerate_says_how_large() -> None:
    text = refusal(
        ValueError, lambda: pmb.FixedGrid(GINI, n_arms=12, support=pmb.Binary(), epsilon=0.06, search="grid")
    )
    assert f"{pmb.grid_size(12, 0.015, 'ucb'):,}" in text


def test_cirt_with_too_many_arms_says_how_many_mixtures() -> None:
    text = refusal(ValueError, lambda: cirt(n_arms=12, search="grid"))
    assert f"{5**11:,}" in text
    assert "fewer arms" in text


@pytest.mark.parametrize("policy", ["PMUCB", "CEUCB"])
@pytest.mark.parametrize(("n_arms", "epsilon"), [(3, 0.7), (5, 0.41), (10, 0.21)])
def test_an_epsilon_above_two_over_k_is_refused_with_the_limit(policy: str, n_arms: int, epsilon: float) -> None:
    text = refusal(
        ValueError,
        lambda: getattr(pmb, policy)(GINI, n_arms=n_arms, support=pmb.Binary(), horizon=10**4, epsilon=epsilon),
    )
    assert f"2/{n_arms}" in text


@pytest.mark.parametrize("epsilon", [0.0, -0.1, 1.5, float("nan")])
@pytest.mark.parametrize("make", [ucb, etc, cirt], ids=["ucb", "etc", "cirt"])
def test_an_epsilon_outside_the_unit_interval_is_refused(make: Any, epsilon: float) -> None:
    assert "epsilon" in refusal(ValueError, lambda: make(epsilon=epsilon))


# ---- hyperparameters -------------------------------------------------------------------------------------
@pytest.mark.parametrize("branching", [5, 7, 11])
def test_an_odd_branching_is_refused(branching: int) -> None:
    assert "even" in refusal(ValueError, lambda: cirt(branching=branching))


def test_a_branching_below_four_is_refused() -> None:
    assert "branching" in refusal(ValueError, lambda: cirt(branching=2))


def test_an_unknown_stopping_rule_is_refused_with_the_nearest() -> None:
    assert "'literal'" in refusal(ValueError, lambda: cirt(stopping="litteral"))


def test_a_negative_tolerance_or_exploration_is_refused() -> None:
    assert "tolerance" in refusal(ValueError, lambda: cirt(tolerance=-1e-3))
    assert "exploration" in refusal(ValueError, lambda: cirt(exploration=0.0))
    assert "exploration" in refusal(
        ValueError, lambda: pmb.FixedGrid(GINI, n_arms=2, support=pmb.Binary(), exploration=-1.0)
    )


def test_a_horizon_shorter_than_the_exploration_is_refused() -> None:
    assert "horizon of 10" in refusal(ValueError, lambda: etc(horizon=10, n_explore=11))
    assert "horizon of 3" in refusal(ValueError, lambda: etc(n_arms=4, horizon=3))
    assert "horizon of 3" in refusal(ValueError, lambda: ucb(n_arms=4, horizon=3))


@pytest.mark.parametrize("horizon", [0, 1, -5])
@pytest.mark.parametrize("make", [ucb, etc], ids=["ucb", "etc"])
def test_a_horizon_below_two_is_refused(make: Any, horizon: int) -> None:
    assert "horizon" in refusal(ValueError, lambda: make(horizon=horizon))


@pytest.mark.parametrize("make", [ucb, etc], ids=["ucb", "etc"])
def test_a_horizon_that_is_no_whole_number_is_refused(make: Any) -> None:
    assert "horizon" in refusal(TypeError, lambda: make(horizon=1e3 + 0.5))


@pytest.mark.parametrize(
    "given",
    [
        {"n_explore": 10, "delta_12": 0.1},
        {"n_explore": 10, "delta_13": 0.1},
        {"delta_12": 0.1, "delta_13": 0.1},
        {"n_explore": 10, "delta_12": 0.1, "delta_13": 0.1},
    ],
    ids=str,
)
def test_etc_takes_one_way_to_set_its_exploration(given: dict[str, Any]) -> None:
    text = refusal(ValueError, lambda: etc(**given))
    assert all(name in text for name in given)


def test_a_gap_of_zero_is_refused() -> None:
    assert "gap" in refusal(ValueError, lambda: etc(delta_12=0.0))


@pytest.mark.parametrize("rho", [0.0, -1.0, 1.5])
def test_a_rho_outside_the_unit_interval_is_refused(rho: float) -> None:
    assert "rho" in refusal(ValueError, lambda: ucb(rho=rho))


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5])
@pytest.mark.parametrize("make", [ucb, cirt], ids=["ucb", "cirt"])
def test_a_delta_that_is_no_probability_is_refused(make: Any, delta: float) -> None:
    assert "delta" in refusal(ValueError, lambda: make(delta=delta))


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5])
@pytest.mark.parametrize("make", [ucb, cirt], ids=["ucb", "cirt"])
def test_a_delta_that_is_no_probability_is_refused_with_the_papers_radius_too(make: Any, delta: float) -> None:
    assert "delta" in refusal(ValueError, lambda: make(delta=delta, confidence="paper"))


# ---- confidence ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [ucb, cirt], ids=["ucb", "cirt"])
def test_dkw_needs_a_bounded_support(make: Any) -> None:
    text = refusal(ValueError, lambda: make(support=pmb.Real(1), confidence="dkw"))
    assert "bounded" in text
    assert "wasserstein" in text


@pytest.mark.parametrize("make", [ucb, cirt], ids=["ucb", "cirt"])
def test_an_unknown_confidence_set_is_refused_with_the_nearest(make: Any) -> None:
    text = refusal(ValueError, lambda: make(confidence="waserstein"))
    assert "'wasserstein'" in text
    assert "kl" in text


class Band:
    kind = "band"

    def radius(self, n: Any) -> Any:
        return 1.0 / np.sqrt(n)


class Interval(Band):
    kind = "interval"


class Strange(Band):
    kind = "circle"


def test_a_confidence_set_of_ones_own_must_be_one() -> None:
    assert "radius(n)" in refusal(TypeError, lambda: ucb(confidence=3))
    assert "circle" in refusal(ValueError, lambda: ucb(confidence=Strange()))


def test_a_confidence_set_of_ones_own_must_suit_the_support() -> None:
    assert "Binary" in refusal(ValueError, lambda: ucb(support=UNIT, confidence=Interval()))
    assert "bounded" in refusal(ValueError, lambda: ucb(support=pmb.Real(1), confidence=Band()))


class Radius:
    kind = "band"

    def __init__(self, value: float) -> None:
        self.value = value

    def radius(self, n: np.ndarray) -> np.ndarray:
        return np.full(np.shape(n), self.value)


@pytest.mark.parametrize("given", [Radius(float("nan")), Radius(-0.1), Radius])
def test_a_confidence_set_of_ones_own_is_tried_before_it_is_used(given: object) -> None:
    with pytest.raises((ValueError, TypeError), match="radius"):
        pmb.CIRT(GINI, n_arms=2, support=pmb.Interval(0, 1), confidence=given)


# ---- metric, arms, support, seed -------------------------------------------------------------------------
@pytest.mark.parametrize("metric", [3, [1], pmb.GiniDeviation, lambda u: u])
@pytest.mark.parametrize("make", [ucb, etc, cirt], ids=["ucb", "etc", "cirt"])
def test_a_metric_of_the_wrong_type_is_refused(make: Any, metric: Any) -> None:
    assert "GiniDeviation()" in refusal(TypeError, lambda: make(metric))


@pytest.mark.parametrize("make", [ucb, etc, cirt], ids=["ucb", "etc", "cirt"])
def test_a_metric_can_be_given_by_name_or_text(make: Any) -> None:
    assert make("gini").metric == GINI
    assert make("0.7*mean + 0.3*upper_cvar(0.9)").metric == 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)
    assert "gini" in refusal(ValueError, lambda: make("ginni"))


@pytest.mark.parametrize("support", ["binary", (0, 1), pmb.Binary])
@pytest.mark.parametrize("make", [ucb, etc, cirt], ids=["ucb", "etc", "cirt"])
def test_a_support_of_the_wrong_type_is_refused(make: Any, support: Any) -> None:
    assert "Binary()" in refusal(TypeError, lambda: make(support=support))


@pytest.mark.parametrize("make", [ucb, etc, cirt], ids=["ucb", "etc", "cirt"])
def test_a_negative_or_fractional_seed_is_refused(make: Any) -> None:
    assert "seed" in refusal(ValueError, lambda: make(seed=-1))
    assert "seed" in refusal(TypeError, lambda: make(seed=1.5))
    assert "seed" in refusal(TypeError, lambda: make(seed="seven"))


@pytest.mark.parametrize("n_arms", [0, -2])
def test_a_number_of_arms_below_one_is_refused(n_arms: int) -> None:
    assert "n_arms" in refusal(ValueError, lambda: ucb(n_arms=n_arms))


def test_names_must_be_as_many_as_arms_and_different() -> None:
    refusal(ValueError, lambda: ucb(names=["a", "b", "c"]))
    refusal(ValueError, lambda: ucb(names=["a", "a"]))


def test_an_unknown_solitary_arm_is_refused() -> None:
    with pytest.raises((ValueError, IndexError), match=r"3"):
        pmb.SolitaryArm(GINI, n_arms=3, support=pmb.Binary(), arm=3)
    with pytest.raises(ValueError, match="left"):
        pmb.SolitaryArm(GINI, names=["right", "wrong"], support=pmb.Binary(), arm="left")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: pmb.CIRT(delta=2), "delta must lie in"),
        (lambda: pmb.CIRT(confidence="kll"), "Did you mean 'kl'"),
        (lambda: pmb.PMUCB(horizon=100, epsilon="x"), "epsilon must be a number"),
        (lambda: pmb.PMUCB(horizon=100, epsilon_constant=-1), "epsilon_constant must lie in"),
        (lambda: pmb.SolitaryArm(arm=None), "arm must be a whole number"),
        (lambda: pmb.PMETC(horizon=100, delta_12=0.0), "delta_12 must lie in"),
    ],
)
def test_a_recipe_refuses_bad_options_before_it_is_bound(make: object, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()  # type: ignore[operator]
