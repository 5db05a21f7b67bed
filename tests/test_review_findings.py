"""Behaviours that a review found broken once: each stays pinned down here."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.state.compile import kernel
from pmbandits.policies import _state

GINI = pmb.GiniDeviation()


def test_etc_waits_for_late_rewards_before_it_commits() -> None:
    policy = pmb.PMETC(GINI, n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=0.1)
    assert policy.mixture.tolist() == [0.5, 0.5]
    arms = policy.ask(300)
    rng = np.random.default_rng(0)
    policy.tell(arms, (rng.random(300) < np.array([0.4, 0.9])[arms]).astype(float))
    policy.ask(700)
    assert policy.pulls[0] / 1000 == pytest.approx(0.8, abs=0.11)


@pytest.mark.parametrize("n_arms", [2, 3, 7, 50, 100, 300])
@pytest.mark.parametrize("make", [pmb.PMUCB, pmb.CEUCB, pmb.PMETC])
def test_default_grids_have_something_to_choose_from_at_any_number_of_arms(make: type, n_arms: int) -> None:
    policy = make(GINI, n_arms=n_arms, support=pmb.Binary(), horizon=60_000, search="grid")
    assert n_arms <= policy._ints[_state.GRID] <= 50_000


def test_wasserstein_constant_does_not_depend_on_the_order_of_the_arms() -> None:
    for pair in ([st.t(1.5), st.norm()], [st.pareto(1.5), st.expon()], [st.lognorm(1), st.norm(3)]):
        forth, back = (pmb.wasserstein_constant(pmb.Bandit(arms)) for arms in (pair, pair[::-1]))
        assert forth == pytest.approx(back, rel=1e-9)
    for pair in ([st.cauchy(), st.norm()], [st.norm(), st.cauchy()]):
        with pytest.raises(ValueError, match="infinite"):
            pmb.wasserstein_constant(pmb.Bandit(pair))


def test_of_equal_arms_the_one_with_the_weight_is_named_best() -> None:
    best = pmb.oracle(GINI, pmb.Bandit([st.norm(), st.norm()]))
    if not best.is_mixture:
        assert best.weights[best.best_arm] == 1.0


def test_answers_for_a_probed_function_are_never_called_certified() -> None:
    spike = pmb.Distortion.from_function(lambda u: u * (1 - u) + 0.4 * np.exp(-(((u - 0.6283) / 1e-7) ** 2)))
    best = pmb.oracle(spike, pmb.Bandit.bernoulli([0.4, 0.9]))
    assert not best.certified


@pytest.mark.parametrize(
    "policy",
    [
        pmb.SolitaryArm(n_arms=2, support=pmb.Binary(), arm=np.int64(1)),
        pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=np.int64(100), epsilon=np.float32(0.125)),
        pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), delta=np.float32(0.1)),
        pmb.PMETC(GINI, n_arms=2, support=pmb.Binary(), horizon=100, epsilon=0.25, delta_12=np.float32(0.1)),
    ],
    ids=lambda policy: policy.name,
)
def test_options_given_as_numpy_numbers_can_be_saved(policy: pmb.Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy.pmb")
    assert pmb.load(tmp_path / "policy.pmb").ask() == policy.ask()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "policy.pmb").stat().st_mode) == 0o666 & ~mask


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
def test_a_recipe_refuses_nonsense_at_once(make: object, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()  # type: ignore[operator]


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


@pytest.mark.parametrize("make", [pmb.PMETC, pmb.PMUCB, pmb.CEUCB])
def test_metrics_that_need_a_bounded_support_are_refused_on_real_rewards(make: type) -> None:
    with pytest.raises(ValueError, match="Interval"):
        make(pmb.PHT(0.5), n_arms=2, support=pmb.Real(), horizon=1000, epsilon=0.25)


def test_what_is_no_metric_or_no_bandit_gets_a_sentence() -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    for call in (pmb.oracle, lambda m, b: pmb.utility(m, b, [0.5, 0.5]), lambda m, b: pmb.gaps(m, b, 0.1)):
        with pytest.raises(TypeError, match="metric must be a preference metric"):
            call(["gini"], bandit)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="bandit must be a Bandit"):
            call(GINI, [0.4, 0.9])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="freeze it"):
        pmb.Bandit([st.norm])


def test_rewards_as_text_are_refused_and_numpy_rewards_are_taken() -> None:
    policy = pmb.UCB1(n_arms=2, support=pmb.Binary())
    for bad in ("1", None):
        with pytest.raises(TypeError, match="must be numbers"):
            policy.tell(0, bad)
    for arm, reward in ((0, 1), (np.int64(0), np.float64(1)), (0, True), (0, np.float32(0)), (np.int32(0), np.int8(1))):
        policy.tell(arm, reward)
    assert policy.estimates[0].n == 5


def test_a_recipe_keeps_its_names_when_it_is_bound() -> None:
    recipe = pmb.SolitaryArm(names=["a", "b"], arm="b")
    assert recipe.bind(GINI, 2, pmb.Binary()).names == ("a", "b")
    assert recipe.bind(GINI, 2, pmb.Binary()).ask() == 1


@pytest.mark.parametrize("support", [pmb.Binary(), pmb.Finite([0, 1, 3]), pmb.Interval(0, 1), pmb.Real()])
def test_compiled_code_and_python_see_the_same_fields(support: pmb.Support) -> None:
    policy = pmb.PMUCB(GINI, n_arms=3, support=support, horizon=1000, epsilon=0.25)
    policy._ints[_state.HEAD :] = np.arange(policy._ints.size - _state.HEAD)
    policy._floats[:] = np.arange(policy._floats.size)
    letters = {letter: int(policy._ints[place]) for letter, place in _state.SIZES.items()}

    def number(size: object) -> int:
        return sum(n * math.prod(letters[letter] for letter in key) for key, n in size.terms.items())  # type: ignore

    for name, outside in _state.views(policy._ints, policy._floats).items():
        kind, start, shape = _state.LAYOUT[name]
        whole = policy._ints if kind == "i" else policy._floats
        begin = number(start)
        assert np.array_equal(whole[begin : begin + math.prod(map(number, shape))], outside), name
    assert _last_of_width((policy._ints, policy._floats)) == _state.views(policy._ints, policy._floats)["width"][-1]


@kernel
def _last_of_width(whole):  # type: ignore
    return _state.parts(whole).width[-1]


def test_benchmarks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    foundation = pytest.importorskip("benchmarks.foundation")
    from pmbandits.metrics.pool import pool

    bandit = pmb.Bandit.from_samples([[0.0, 1.0, 2.0], [0.5, 3.0]])
    laid = pool(GINI, list(bandit.laws), np.eye(2))
    found = foundation.slsqp(GINI, laid, np.full(2, 0.5))
    assert -found.fun == pytest.approx(pmb.oracle(GINI, bandit).value, rel=1e-6)


# ---- found by someone who used it for the first time -----------------------------------------------------
def test_a_resampling_interval_stays_where_the_metric_can_be() -> None:
    advice = pmb.advise({"a": [1.0, 0.0, 1.0]}, "gini")
    assert advice.bootstrap_interval[1] <= 0.25
    low, high = pmb.advise({"a": [5.0, 7.0, 7.0], "b": [6.0, 5.0, 5.0]}, "mean").bootstrap_interval
    assert 5.0 <= low <= high <= 7.0


def test_what_more_data_would_settle_does_not_hang_on_how_often_was_resampled() -> None:
    rng = np.random.default_rng(3)
    data = {"a": rng.random(60).round(2), "b": (rng.random(60) ** 2).round(2)}
    few, none = (pmb.advise(data, "gini", bootstrap=n).more for n in (20, 0))
    assert few == none


def test_another_metric_than_the_saved_one_is_called_that(tmp_path: Path) -> None:
    mine, other = (pmb.Distortion.from_function(f, name=n) for f, n in ((lambda u: u * u, "mine"), (np.sqrt, "other")))
    pmb.Track(mine, n_arms=2, support=pmb.Binary()).save(tmp_path / "m.pmb")
    with pytest.raises(ValueError, match=r"was saved with the metric .*mine.*, but .*other.* was given"):
        pmb.load(tmp_path / "m.pmb", metric=other)
    assert pmb.load(tmp_path / "m.pmb", metric=mine).n_arms == 2


def test_a_pair_that_does_not_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"holder=\(1, 1\) does not hold for 's'"):
        pmb.Distortion.from_function(np.sqrt, name="s", holder=(1, 1))
    assert pmb.Distortion.from_function(np.sqrt, name="s", holder=(0.5, 1)).holder(pmb.Binary()).q == 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cvar(0.9", "not closed"),
        ("cvar:d=0.9", "no parameter 'd'; its parameters are: c"),
        ("cvar", "missing a required"),
    ],
)
def test_what_is_wrong_with_a_metric_is_said(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pmb.metric(text)


def test_losses_are_reported_as_they_were_given() -> None:
    with pytest.raises(
        ValueError, match=r"losses from 1 to 40 do not lie within the declared Interval\(lo=0.0, hi=30.0\)"
    ):
        pmb.advise({"a": [1.0, 40.0], "b": [2.0, 3.0]}, "mean", loss=True, support=pmb.Interval(0, 30))


def test_an_arm_without_rewards_is_no_malformed_row() -> None:
    said = pmb.advise({"a": [0.0, 1.0], "b": [1.0, 1.0], "e": []}, "gini", bootstrap=0).log.account()
    assert said == "1 arm has no rewards."


def test_repr_without_options_and_a_reason_for_no_bounds() -> None:
    assert "(), ;" not in repr(pmb.Uniform(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary()))
    policy = pmb.Track(pmb.PHT(0.5), n_arms=2, support=pmb.Real(1.0))
    with pytest.raises(ValueError, match=r"no bound holds for PHT\(s=0.5\) on Real"):
        policy.certainty()
