"""When one can stop: a rule that is wrong as rarely as it says, and forecasts of when it will say so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import pmbandits as pmb
from pmbandits.confidence._bounds import mixture_utility_with_bounds
from pmbandits.engine.certainty import initial_rival_mixture
from pmbandits.engine.coarsen import coarse_distributions, memory_of_coarse_distributions
from pmbandits.engine.stopping import _round_of_crossing_one, _water_fill_counts, parse_goal, regret_over_goal
from pmbandits.mixtures._optimistic_bound import upper_bound_of_any_mixture
from pmbandits.simulation.trial import Player
from tests.engine.test_certainty import METRICS, POLICIES, SHARE, WORLDS, Shrunk, best, values
from tests.helpers import one_sentence, taught

GINI = pmb.GiniDeviation()


# ---- stopping is wrong no more often than stated ---------------------------------------------------------
def stopped(name: str, support: str, shape: str, seed: int, size: float, **options: Any) -> float | None:
    """The true regret of the mixture when :meth:`done` first says so; None if it never does. Looks in every round."""
    make, given = POLICIES[name]
    world, metric, top = WORLDS[support], METRICS[shape], best(shape, support)
    rng = np.random.default_rng([seed, *name.encode(), *support.encode(), *shape.encode()])
    policy = make(metric, n_arms=3, support=world.support, **{**given, "delta": 0.9 * given["delta"], **options})
    levels, chance = np.cumsum(world.distributions, axis=1)[:, :-1], rng.random(80)
    for t in range(80):
        arm = policy.ask()
        policy.tell(arm, float(world.atoms[np.searchsorted(levels[arm], chance[t], side="right")]))
        if policy.done(size):
            return top - float(values(metric, world, policy.mixture)[0])
    return None


def wrong_and_all(name: str, seeds: range, **options: Any) -> tuple[int, int]:
    """How many stopped too early, of how many that stopped."""
    found = [
        (size, stopped(name, support, shape, seed, size, **options))
        for support in ("binary", "finite", "interval")
        for shape in METRICS
        for seed in seeds
        for size in (0.8 * best(shape, support),)
    ]
    ended = [(size, regret) for size, regret in found if regret is not None]
    return sum(regret > size + 1e-9 for size, regret in ended), len(ended)


@pytest.mark.parametrize("name", ["Track", "PMUCB"])
def test_who_stops_when_it_says_so_is_wrong_no_more_often_than_stated(name: str) -> None:
    wrong, ended = wrong_and_all(name, range(2))
    assert ended > 0 and wrong <= SHARE * 18


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_who_stops_when_it_says_so_is_wrong_no_more_often_than_stated_in_many_runs(name: str) -> None:
    wrong, ended = wrong_and_all(name, range(100, 130))
    assert (ended > 0 or name == "SolitaryUCB") and wrong <= SHARE * 9 * 30


class Early:
    """Intervals of no width, to be found out."""

    kind = "interval"
    failure = 0.01

    def radius(self, n: Any) -> Any:
        return 1e-6 / np.asarray(n)


def test_sets_that_are_too_small_make_it_stop_too_early_and_these_runs_show_it() -> None:
    """By the same loop: a regret that is certain by mistake is found out."""
    wrong = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), confidence=Early())
        for _ in range(60):
            arm = policy.ask()
            policy.tell(arm, float(rng.random() < (0.4, 0.9)[arm]))
            sure = policy.certainty()
            if sure.regret <= 0.01:
                break
        wrong += 0.25 - float(GINI(policy.mixture @ [0.4, 0.9])) > 0.01
    assert wrong > 0.3 * 20


# ---- goals -----------------------------------------------------------------------------------------------
def test_a_goal_is_a_number_or_a_share() -> None:
    assert (
        parse_goal(0.02) == (0.02, False)
        and parse_goal("2%") == (0.02, True)
        and parse_goal(" 0.5 % ") == (0.005, True)
    )
    assert str(parse_goal("2%")) == "2 % of the best utility" and str(parse_goal(0.02)) == "0.02"


@pytest.mark.parametrize("bad", [0, -0.1, "2", "two %", "%", "-1%", None, float("nan")])
def test_a_goal_that_is_none_is_refused(bad: Any) -> None:
    policy, _ = taught(GINI, "binary", 2, 50)
    for ask in (policy.done, policy.forecast, policy.explain):
        if bad is None and ask == policy.explain:
            continue
        with pytest.raises((TypeError, ValueError), match="regret") as caught:
            ask(bad)
        one_sentence(caught.value)


@given(some.floats(-5, 5), some.floats(0, 3), some.floats(0.001, 0.5), some.floats(0, 1))
def test_a_share_is_of_the_best_utility_wherever_that_lies(
    lower: float, wide: float, size: float, where: float
) -> None:
    rival = lower + wide
    if regret_over_goal(parse_goal(f"{100 * size}%"), wide, lower, rival) <= 1.0:
        truth = lower + where * wide  # the best utility
        assert wide <= size * abs(truth) * (1 + 1e-9) + 1e-12


def test_done_is_what_certainty_says() -> None:
    policy, _ = taught(GINI, "binary", 2, 3000)
    sure = policy.certainty()
    assert policy.done(1.001 * sure.regret) and not policy.done(0.999 * sure.regret)
    share = 100 * sure.regret / sure.lower
    assert policy.done(f"{1.001 * share}%") and not policy.done(f"{0.999 * share}%")


def test_sets_with_a_horizon_are_no_reason_to_stop_beyond_it() -> None:
    policy = pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=1000)
    policy.tell([0, 1] * 1000, [0, 1] * 500 + [1, 1] * 500)
    assert policy.done(0.1)
    policy.tell(0, 1.0)
    assert policy.certainty().regret <= 0.1 and not policy.done(0.1)
    assert math.isinf(policy.forecast(0.1).rounds)


@pytest.mark.parametrize("confidence", ["paper", Shrunk("ball", 1.0)], ids=["paper", "own"])
def test_where_nobody_says_how_often_sets_fail_they_are_no_reason_to_stop(confidence: Any) -> None:
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Interval(0, 1), confidence=confidence)
    for ask in (policy.done, policy.forecast):
        with pytest.raises(ValueError, match="probability") as caught:
            ask(0.1)
        assert "confidence='auto'" in one_sentence(caught.value)
    with pytest.raises(ValueError, match="may all fail"):
        pmb.SolitaryUCB(GINI, n_arms=3, support=pmb.Real(1), horizon=1000, delta=0.5).done(0.1)
    with pytest.raises(ValueError, match="keeps no confidence sets"):
        pmb.Uniform(GINI, n_arms=2, support=pmb.Binary()).done(0.1)


# ---- forecasts -------------------------------------------------------------------------------------------
def test_a_forecast_is_about_right_on_coins() -> None:
    bandit, at = pmb.Bandit.bernoulli([0.4, 0.9]), np.unique(np.rint(400 * 1.02 ** np.arange(250)).astype(np.int64))
    said: list[Any] = []

    def watch(policy: pmb.Policy) -> bool:
        if not said:
            said.append(policy.forecast("1%"))
        return policy.done("1%")

    outcome = Player(pmb.Track().bind(GINI, 2, pmb.Binary()), bandit, 1, at).play(0, watch)
    truth = int(outcome.pulls[-1].sum()) - 400
    assert 0 < said[0].low < said[0].rounds < said[0].high and 0.6 < truth / said[0].rounds < 1.6
    assert "certain after" in str(said[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Bernoulli (.4, .9)", "Beta (2,8), (5,5), (8,2)"])
def test_the_true_number_of_rounds_is_in_the_interval_most_of_the_time(name: str) -> None:
    from benchmarks.certainty import ARMS, one_forecast

    bandit, keep, _ = ARMS[name]
    rows = [
        row
        for trial in range(30)
        for row in one_forecast(pmb.Track(estimates=keep, certify=0.1), bandit, GINI, trial, 1000, 100_000)
    ]
    middle, low, high, truth = np.array(rows).T
    assert np.mean((low <= truth) & (truth <= high)) >= 0.6
    assert 0.7 < np.median(truth / middle) < 1.4


def test_what_is_certain_already_takes_no_more_rounds_and_what_cannot_be_takes_for_ever() -> None:
    policy, _ = taught(GINI, "binary", 2, 3000)
    now = policy.forecast(0.2)
    assert now[:3] == (0, 0, 0) and str(now).startswith("It is certain now that")
    coarse, _ = taught(GINI, "interval", 2, 3000, estimates="binned:8")
    never = coarse.forecast(1e-4)  # rounding alone is worth more
    assert math.isinf(never.rounds) and "will never be certain" in str(never)
    heavy = pmb.Track(GINI, n_arms=2, support=pmb.Heavy(order=2.5, bound=12.0), certify=0.1)
    heavy.tell([0, 1] * 50, np.random.default_rng(0).lognormal(0.0, 0.5, 100))
    assert len(set(heavy.ask(20).tolist())) == 2 and not heavy.done(0.01) and heavy.done(1e6)
    sure = heavy.certainty().regret
    ahead = heavy.forecast(0.5 * sure)
    assert 0 < ahead.low < ahead.rounds < ahead.high < math.inf and str(ahead) in heavy.explain(0.5 * sure)
    new = pmb.Track(GINI, n_arms=2, support=pmb.Binary()).forecast(0.01)
    assert math.isnan(new.rounds) and "has not paid" in str(new)


@pytest.mark.parametrize("estimates", ["exact", "binned", "sketch:64"])
@pytest.mark.parametrize("cls", [pmb.Track, pmb.Vet, pmb.CIRT])
def test_every_policy_with_sets_forecasts_and_smaller_regrets_take_longer(cls: Any, estimates: str) -> None:
    policy, _ = taught(GINI, "interval", 3, 3000, cls=cls, estimates=estimates)
    before = policy._memory.words.copy()
    now = policy.certainty().regret
    soon, later = policy.forecast(0.9 * now), policy.forecast(0.6 * now)
    assert 0 < soon.rounds < later.rounds
    assert (policy._memory.words == before).all()


def test_explain_says_what_is_certain_and_when_more_may_be() -> None:
    policy, _ = taught(GINI, "interval", 3, 500)
    assert str(policy.certainty()) in policy.explain()
    assert str(policy.forecast("20%")) in policy.explain("20%")
    assert "<script" not in policy.certainty()._repr_html_() and "at most" in policy.certainty()._repr_html_()


@settings(max_examples=200)
@given(some.lists(some.tuples(some.floats(0, 1e4), some.floats(0, 1)), min_size=1, max_size=6), some.floats(0, 1e5))
def test_pulls_are_filled_up_in_proportion(rows: list[tuple[float, float]], more: float) -> None:
    told, weights = (np.array(column) for column in zip(*rows, strict=True))
    weights[weights < 1e-9] = 0.0
    total = told.sum() + more
    out = _water_fill_counts(told, weights, total)
    assert (out >= told).all()
    if weights.sum() > 0.0 and more > 0.0:
        assert out.sum() == pytest.approx(total, rel=1e-9)
        risen = out > told * (1 + 1e-9) + 1e-9
        if risen.any():  # the same multiple of their weights, and the others have that already
            scale = (out[risen] / weights[risen]).max()
            assert out[risen] == pytest.approx(scale * weights[risen], rel=1e-6)
            assert (out[~risen] >= scale * weights[~risen] * (1 - 1e-6) - 1e-6).all()


# ---- what is worked out on few cells ---------------------------------------------------------------------
@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.UpperCVaR(0.9)], ids=repr)
@pytest.mark.parametrize("support", ["interval", "real"])
def test_on_few_cells_the_certified_regret_is_about_the_same(metric: Any, support: str) -> None:
    policy, _ = taught(metric, support, 3, 4000)
    sure = policy.certainty()
    _, memory, mix = policy._snapshot_with_mixture(None)
    mixture_utility_with_bounds(memory, mix)  # puts the pool in order
    few = memory_of_coarse_distributions(memory, coarse_distributions(memory, 192), policy._plan)
    low, _, high = mixture_utility_with_bounds(few, mix)
    rival = max(upper_bound_of_any_mixture(few.address, np.full(3, 1 / 3)), high)
    assert rival - low == pytest.approx(sure.rival - sure.lower, rel=0.05)


@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.UpperCVaR(0.9), pmb.MeanMedianDeviation()], ids=repr)
def test_the_rival_does_not_depend_on_where_the_search_begins(metric: Any) -> None:
    policy, _ = taught(metric, "interval", 4, 5000)
    _, memory, mix = policy._snapshot_with_mixture(None)
    mixture_utility_with_bounds(memory, mix)
    guess = initial_rival_mixture(memory, mix)
    assert guess.sum() == pytest.approx(1.0) and not np.allclose(guess, 0.25)
    found = [upper_bound_of_any_mixture(memory.address, start) for start in (guess, np.full(4, 0.25), np.eye(4)[0])]
    reach = metric.maximum().value - metric.minimum().value
    # Each is at most a hundredth of what chance does above the truth; with corners, some per cent of the regret.
    allowed = 0.05 * policy.certainty().regret if metric.kinks else 0.01 * reach / math.sqrt(5000)
    assert np.ptp(found) <= allowed + 1e-9
    rng = np.random.default_rng(0)
    for a in rng.dirichlet(np.full(4, 0.5), 20):
        assert policy.utility_bounds(a)[2] <= min(found) + 1e-9


def test_a_forecast_from_two_almost_equal_numbers_is_never_and_not_an_error() -> None:
    assert _round_of_crossing_one(1e3, 50.0, 1.25e3, 50.0 * (1 - 1e-12)) == math.inf
    assert _round_of_crossing_one(1e3, 2.0, 2e3, 1.0) == pytest.approx(2e3)
    assert _round_of_crossing_one(1e3, 4.0, 2e3, 2.0) == pytest.approx(4e3)
