"""The catalogue of preferences: plain words lead to a metric, and what it says of a metric is true."""

from __future__ import annotations

import time

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.metrics import as_metric
from tests.metrics.phrases import PHRASES, TRIED_LATER


@pytest.mark.parametrize(
    ("said", "metric"),
    [
        ("worst 10 %", pmb.LowerCVaR(0.1)),
        ("avoid the worst 5%", pmb.LowerCVaR(0.05)),
        ("the top 20 percent", pmb.UpperCVaR(0.8)),
        ("just the average", pmb.Mean()),
        ("average", pmb.Mean()),
        ("variety", pmb.GiniDeviation()),
        ("reward spread", pmb.GiniDeviation()),
        ("overweight rare large gains", pmb.PHT(0.5)),
        ("fairness", pmb.Mean() - pmb.GiniDeviation()),
    ],
)
def test_plain_words_lead_to_a_metric(said: str, metric: pmb.Distortion) -> None:
    assert pmb.preferences(said).metric == metric


@pytest.mark.parametrize(("said", "meant"), [*PHRASES.items(), *TRIED_LATER.items()])
def test_negation_and_direction_are_understood_or_refused(said: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(ValueError, match=r"cannot tell|no preference|no metric is"):
            pmb.preferences(said)
    else:
        assert pmb.preferences(said).metric == pmb.metric(meant)


@pytest.mark.parametrize("said", ["avoid {}", "minimise {}", "less {}", "no {}", "low {}"])
@pytest.mark.parametrize(
    "thing", ["spread", "variance", "volatility", "variation", "surprises", "swings", "dispersion"]
)
def test_what_is_to_be_avoided_is_never_rewarded(said: str, thing: str) -> None:
    """A narrow and a wide arm of the same average: the narrow one must be worth more."""
    metric = pmb.preferences(said.format(thing)).metric
    assert metric.value([4.0, 6.0]) > metric.value([0.0, 10.0])
    wanted = pmb.preferences(f"more {thing}").metric
    assert wanted.value([4.0, 6.0]) < wanted.value([0.0, 10.0])


@pytest.mark.parametrize("word", ["variance", "std", "volatility", "median", "sharpe", "standard deviation"])
def test_names_that_look_like_another_metric_get_what_a_person_means(word: str) -> None:
    with pytest.raises(ValueError, match="there is no metric") as error:
        pmb.metric(word)
    assert "Did you mean" not in str(error.value)
    if word != "median":
        assert "mean - gini" in str(error.value)


def test_the_catalogue_is_a_list_whose_every_statement_finds_itself() -> None:
    catalogue = pmb.preferences()
    assert len(catalogue) == len(list(catalogue)) == len({p.statement for p in catalogue}) > 10
    for entry in catalogue:
        assert pmb.preferences(entry.statement).metric == entry.metric
        assert entry.statement in repr(catalogue) and repr(entry.metric) in str(entry)
        assert entry.mixes == (entry.metric.shape in ("concave", "neither"))
    assert catalogue[0].metric == pmb.Mean() and len(catalogue[1:3]) == 2


def test_what_the_catalogue_says_of_tails_is_what_the_metrics_do() -> None:
    x = np.arange(1000.0)
    assert pmb.preferences("worst 10 %").metric.value(x) == pytest.approx(x[:100].mean())
    assert pmb.preferences("best 10 %").metric.value(x) == pytest.approx(x[-100:].mean())
    level = pmb.preferences("a level reached in 90 % of the cases")
    reached = level.metric.value(x)
    assert (x > reached).mean() == pytest.approx(0.9, abs=0.01)


def test_statements_that_mean_nothing_here_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'zzz qqq' .*just the average; "):
        pmb.preferences("zzz qqq")
    with pytest.raises(TypeError, match="in words"):
        pmb.preferences("")
    with pytest.raises(ValueError, match="between 0 and 100"):
        pmb.preferences("the worst 300 %")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("80 % average and 20 % worst 5 %", "0.8*mean + 0.2*lower_cvar(0.05)"),
        ("half average, half worst 95 %", "0.5*mean + 0.5*lower_cvar(0.95)"),
        ("30 % best 10 %, 70 % the average", "0.7*mean + 0.3*upper_cvar(0.9)"),
        ("50% mean + 50% spread", "0.5*mean + 0.5*gini"),
        ("two wishes: 50 % mean", None),
        ("worst quarter", "lower_cvar(0.25)"),
        ("avoid the worst tenth", "lower_cvar(0.1)"),
        ("the worst half", "lower_cvar(0.5)"),
        ("the worst 1 in 20", "lower_cvar(0.05)"),
        ("the worst 2,5 %", "lower_cvar(0.025)"),
        ("the average of the worst 20 %", "lower_cvar(0.2)"),
        ("the best of 5 tries", "dual_power(5)"),
        ("the best of five tries", "dual_power(5)"),
        ("10 % worst and 10 % best", None),
        ("80 % average and 30 % worst 5 %", None),
        ("the average of 20 %", None),
        ("median 10 %", None),
        ("the worst 5 % of 100", None),
        ("worst 5", None),
        ("worst 5 % and best 5 %", None),
    ],
)
def test_every_number_in_a_phrase_counts_or_is_refused(said: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(ValueError, match="cannot tell what"):
            pmb.preferences(said)
    else:
        assert pmb.preferences(said).metric == pmb.metric(meant)


def test_long_texts_are_refused_at_once() -> None:
    began = time.process_time()
    for text in ("a" * 400_000, "mean + " * 60_000 + "mean", "1*" * 200_000):
        with pytest.raises(ValueError, match="10,000"):
            pmb.metric(text)
        with pytest.raises(ValueError, match="1,000"):
            pmb.preferences(text)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("words", "metric"),
    [
        ("p95", "var(0.95)"),
        ("the 5th percentile", "var(0.05)"),
        ("best of 3", "dual_power(3)"),
        ("the best of five", "dual_power(5)"),
        ("avoid the worst 10 %", "lower_cvar(0.1)"),
        ("I hate surprises", "mean - gini"),
        ("steady revenue", "mean - gini"),
        ("fair to everyone", "mean - gini"),
        ("steady", "mean - gini"),
        ("minimise cost", "mean"),
        ("maximise profit", "mean"),
        ("upper_cvar(0.9)", "upper_cvar(0.9)"),
    ],
)
def test_words_are_taken_wherever_a_metric_is(words: str, metric: str) -> None:
    assert as_metric(words) == pmb.metric(metric)
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    assert pmb.utility(words, bandit, [0.5, 0.5]) == pmb.utility(metric, bandit, [0.5, 0.5])


def test_entries_of_the_catalogue_are_taken_and_names_of_metrics_are_never_guessed() -> None:
    assert as_metric(pmb.preferences("steady")) == pmb.metric("mean - gini")
    assert pmb.preferences("minimise cost").loss is True and pmb.preferences("maximise profit").loss is False
    assert pmb.preferences("minimise total cost").loss is True and pmb.preferences("the median").loss is None
    for text, said in (
        ("variance", "against spread"),
        ("gnii", "Did you mean 'gini'"),
        ("mean_median_devation", "Did you mean"),
        ("lcvar(0.1)", r"lower_cvar\(0\.1\)"),
        ("0.7*mean + 0.3*lcvar(0.1)", r"lower_cvar\(0\.1\)"),
        ("blue and green", "cannot tell what 'blue and green' means"),
    ):
        with pytest.raises(ValueError, match=said):
            as_metric(text)
    with pytest.raises(TypeError, match="metric must be"):
        as_metric(3)


@pytest.mark.parametrize(
    ("words", "level"), [("p95", 95.0), ("median", 50.0), ("p5", 5.0), ("service level 90 %", 90.0)]
)
def test_a_quantile_is_the_same_number_whether_small_or_large_numbers_are_better(words: str, level: float) -> None:
    numbers, wish = np.arange(1.0, 101.0), pmb.preferences(words)
    assert -wish.of_losses().value(-numbers) == level
    assert wish.metric.value(numbers) == (10.0 if "service" in words else level)  # reached in 90 %, or not exceeded


@pytest.mark.parametrize(
    ("words", "nearest"),
    [("trimmed mean", "the median"), ("geometric mean", "steady"), ("Sharpe ratio", "steady")],
)
def test_what_no_metric_is_gets_the_nearest(words: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no metric is .*the nearest are .*'{nearest}'"):
        as_metric(words)


def test_steady_wishes_choose_the_arm_with_less_spread() -> None:
    rng = np.random.default_rng(0)
    arms = {"calm": rng.normal(50, 2, 300), "wild": rng.normal(56, 25, 300)}
    for wish in ("I hate surprises", "steady revenue", "fair to everyone"):
        assert pmb.advise(arms, wish).mixture == {"calm": 1.0}


def test_the_arms_in_place_of_the_metric_are_answered_with_the_order() -> None:
    coins = pmb.Bandit.bernoulli([0.2, 0.9])
    for call in (lambda: pmb.oracle(coins, "gini"), lambda: pmb.utility(coins, "gini", [0.5, 0.5])):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"oracle\(metric, bandit\)"):
            call()


@pytest.mark.parametrize("text", ["", "2", "_"])
def test_text_without_a_name_is_answered_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"upper_cvar\(0\.9\)"):
        pmb.metric(text)
