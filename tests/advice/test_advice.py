"""Advice on logged rewards: the numbers, the verdicts, and how sure they are."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats as st
from numpy.typing import NDArray

import pmbandits as pmb
from pmbandits.advice import statistics
from pmbandits.advice.reading import read
from pmbandits.advice.summary import Compactor, HalfArm, thin

Rng = np.random.Generator
METRICS = [
    pmb.GiniDeviation(),
    pmb.CVaR(0.9),
    pmb.WangRightTail(),
    pmb.InvertedS(0.5),
    pmb.VaR(0.7),
    pmb.LowerCVaR(0.2),
    pmb.Mean() - 0.5 * pmb.GiniDeviation(),
    pmb.InterESRange(0.5),
]


def apart(rng: Rng, n: int = 300) -> dict[str, NDArray[np.float64]]:
    return {"low": rng.normal(1, 1, n), "mid": rng.normal(3, 1, n), "high": rng.normal(5, 1, n)}


# ---- the recommendation ---------------------------------------------------------------------------------


def test_the_recommendation_is_the_oracles_on_the_empirical_arms() -> None:
    data = apart(np.random.default_rng(0))
    advice = pmb.advise(data, "gini", bootstrap=0)
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit.from_samples(data))
    assert advice.weights == pytest.approx(best.weights, abs=1e-6)
    assert advice.value == pytest.approx(best.value)
    assert advice.mixture == pytest.approx({"low": best.weights[0], "high": best.weights[2]}, abs=1e-6)
    assert advice.best_arm == best.names[best.best_arm]
    assert advice.gain == pytest.approx(best.gain)
    for arm in advice.arms:
        assert arm.utility == pytest.approx(pmb.GiniDeviation().value(data[arm.name]))
        assert arm.mean == pytest.approx(data[arm.name].mean())
        assert arm.interval[0] <= arm.utility <= arm.interval[1]


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_value_and_intervals_are_in_order_for_every_kind_of_metric(metric: pmb.Distortion) -> None:
    advice = pmb.advise(apart(np.random.default_rng(1), 60), metric, bootstrap=15)
    assert advice.interval[0] <= advice.value <= advice.interval[1]
    assert advice.lead_interval[0] <= advice.lead + 1e-12
    assert advice.lead <= advice.lead_interval[1] + 1e-12
    assert advice.bootstrap_interval[0] <= advice.bootstrap_interval[1]
    assert advice.weights.sum() == pytest.approx(1.0)
    if metric.shape in ("convex", "linear"):
        assert advice.verdict == "single arm" and any("no mixture can be better" in note for note in advice.notes)
    json.dumps(advice.to_dict(), allow_nan=False)
    assert advice.recommendation in str(advice)


def test_a_large_gain_is_called_real_and_a_single_best_arm_is_named() -> None:
    rng = np.random.default_rng(2)
    mixture = pmb.advise(apart(rng), "gini", bootstrap=20)
    assert mixture.verdict == "real" and mixture.proven and mixture.more == {}
    assert "is real" in str(mixture)
    alone = pmb.advise(apart(rng), "mean", bootstrap=20)
    assert alone.verdict == "single arm" and alone.proven and alone.mixture == {"high": 1.0}
    assert alone.gain == 0.0 and alone.lead > 0.0
    assert "ahead of every other" in str(alone)


def test_losses_are_negated_with_their_support_and_it_is_said() -> None:
    rng = np.random.default_rng(3)
    losses = {"cheap": rng.uniform(0, 1, 200), "dear": rng.uniform(1, 2, 200)}
    advice = pmb.advise(losses, "mean", loss=True, support=pmb.Interval(0, 2), bootstrap=0)
    assert advice.mixture == {"cheap": 1.0}
    assert advice.value == pytest.approx(-losses["cheap"].mean())
    assert advice.support == pmb.Interval(-2, 0)
    assert "losses" in str(advice)


def test_losses_are_reported_as_they_were_given() -> None:
    with pytest.raises(
        ValueError, match=r"losses from 1 to 40 do not lie within the declared Interval\(lo=0.0, hi=30.0\)"
    ):
        pmb.advise({"a": [1.0, 40.0], "b": [2.0, 3.0]}, "mean", loss=True, support=pmb.Interval(0, 30))


def test_several_metrics_give_a_table_that_reads_the_data_once() -> None:
    table = pmb.advise(apart(np.random.default_rng(4)), ["gini", "mean", pmb.CVaR(0.9)], bootstrap=0)
    assert isinstance(table, pmb.AdviceTable) and len(table) == 3
    assert [next(iter(a.mixture)) for a in table][1:] == ["high", "high"]
    assert len({id(a.log) for a in table}) == 1
    assert "Mean()" in str(table) and "50 % " in str(table)
    assert len(table.to_dict()) == 3


def test_the_same_seed_gives_the_same_advice() -> None:
    data = apart(np.random.default_rng(5), 100)
    one, two = (pmb.advise(data, "gini", bootstrap=20, seed=7).to_dict() for _ in range(2))
    assert one == two


def test_rewards_without_limits_have_intervals_only_where_the_metric_has() -> None:
    data = apart(np.random.default_rng(18), 50)
    gini = pmb.advise(data, "gini", support=pmb.Real(1.0), bootstrap=0)
    each = 1.0 - 0.95 ** (1 / 3)
    radius = (2.5125 + 2.0 * np.sqrt(np.log(1.0 / each))) / np.sqrt(50)  # of the Wasserstein ball; h has slope 1
    assert gini.interval == pytest.approx((gini.value - radius, gini.value + radius))
    assert gini.lead_interval == pytest.approx((gini.lead - 2 * radius, gini.lead + 2 * radius))
    tail = pmb.advise(data, "pht:s=0.5", support=pmb.Real(1.0), bootstrap=0)
    assert not np.isfinite(tail.interval).any() and any("no valid interval" in note for note in tail.notes)
    assert json.loads(json.dumps(tail.to_dict(), allow_nan=False))["interval"] == [None, None]


def test_many_arms_are_advised_on_like_few() -> None:
    rng = np.random.default_rng(19)
    data = {f"a{k}": rng.integers(0, 5, 40).astype(float) for k in range(30)}
    data |= {"low": rng.normal(-9, 1, 40), "high": rng.normal(9, 1, 40)}
    advice = pmb.advise(data, "gini", bootstrap=5)
    assert set(advice.mixture) == {"low", "high"} and advice.verdict == "real"
    assert "more arms" in str(advice) and any("among the" in note for note in advice.notes)


def test_one_arm_and_constant_rewards_are_no_trouble() -> None:
    assert "only one arm" in str(pmb.advise({"a": [1.0, 2.0]}, bootstrap=5))
    flat = pmb.advise({"a": [2.0] * 30, "b": [2.0] * 30}, bootstrap=5)
    assert flat.value == 0.0 and flat.verdict == "single arm" and not flat.proven


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"metric": "gnii"}, "Did you mean 'gini'"),
        ({"metric": []}, "empty list"),
        ({"metric": 3}, "metric must be"),
        ({"level": 1.5}, "level must lie"),
        ({"support": (0, 1)}, "support must be"),
        ({"support": pmb.Interval(0, 1)}, "wider support"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict[str, object], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        pmb.advise({"a": [1.0, 2.0], "b": [3.0]}, **arguments)  # type: ignore[call-overload]


# ---- bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_no_curve_inside_the_bands_leaves_the_bounds(metric: pmb.Distortion) -> None:
    rng = np.random.default_rng(6)
    arms = [(40, *np.unique(rng.integers(0, 8, 40).astype(float), return_counts=True)) for _ in range(3)]
    laid = statistics.lay([(n, x, c / n) for n, x, c in arms], pmb.Interval(0, 8), np.array([0.2, 0.15, 0.1]))
    weights = np.array([0.5, 0.3, 0.2])
    low, high = laid.value_bounds(metric, weights)
    sides = [laid.difference_bounds(metric, weights, j) for j in range(3)]
    base, seen = laid.base * metric(1.0), []
    for _ in range(300):
        share = rng.choice([rng.random(), 0.0, 1.0], size=(3, 1)) if rng.random() < 0.5 else rng.random((3, 8))
        curves = laid.low + share * (laid.high - laid.low)
        curves = np.minimum.accumulate(curves, axis=1)  # survival curves fall, and stay inside
        value = base + float(metric(weights @ curves) @ laid.widths)
        seen.append(value)
        assert low - 1e-12 <= value <= high + 1e-12
        for j in range(3):
            alone = base + float(metric(curves[j]) @ laid.widths)
            assert sides[j][0] - 1e-12 <= value - alone <= sides[j][1] + 1e-12
    if metric.shape == "concave" and metric.monotonicity == "increasing":  # attained by the ends of the bands
        assert min(seen) == pytest.approx(low) and max(seen) == pytest.approx(high)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_extremes_of_h_are_those_of_a_fine_grid(metric: pmb.Distortion) -> None:
    rng = np.random.default_rng(7)
    ends = np.sort(rng.random((40, 2)), axis=1)
    low, high = statistics.extremes(metric, ends[:, 0], ends[:, 1])
    for k, (a, b) in enumerate(ends):
        h = metric(np.linspace(a, b, 4001))
        assert low[k] <= h.min() + 1e-12 and high[k] >= h.max() - 1e-12
        assert low[k] == pytest.approx(h.min(), abs=2e-3) and high[k] == pytest.approx(h.max(), abs=2e-3)


def test_radii_are_massarts_and_clopper_and_pearsons() -> None:
    rng = np.random.default_rng(8)
    log = read({"a": rng.random(50), "b": rng.random(200)})
    each = 1.0 - np.sqrt(0.95)
    wanted = [np.sqrt(np.log(2.0 / each) / (2.0 * n)) for n in (50, 200)]
    assert statistics.radii(log.arms, pmb.Interval(0, 1), 0.95) == pytest.approx(wanted)
    hits = np.array([1] * 7 + [0] * 33)
    advice = pmb.advise({"a": hits, "b": 1 - hits}, "mean", bootstrap=0)
    exact = st.binomtest(7, 40).proportion_ci(np.sqrt(0.95), method="exact")
    assert advice.arms[0].interval == pytest.approx((exact.low, exact.high))


def test_the_valid_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(9)
    bandit = pmb.Bandit([st.uniform(0, 1), st.beta(2, 5)], names=["a", "b"])
    metric = pmb.GiniDeviation()
    covered, times = 0, 40
    for _ in range(times):
        data = {"a": rng.uniform(0, 1, 80), "b": rng.beta(2, 5, 80)}
        advice = pmb.advise(data, metric, support=pmb.Interval(0, 1), bootstrap=0)
        truth = pmb.utility(metric, bandit, advice.weights)
        covered += advice.interval[0] <= truth <= advice.interval[1]
    assert covered >= 0.95 * times


# ---- resampling -----------------------------------------------------------------------------------------


def test_resampling_agrees_with_a_plain_bootstrap_that_searches_a_grid() -> None:
    rng = np.random.default_rng(10)
    data = {"a": rng.exponential(1, 60), "b": rng.normal(3, 1, 60)}
    metric = pmb.GiniDeviation()
    advice = pmb.advise(data, metric, bootstrap=300)
    grid = np.linspace(0, 1, 26)

    def best(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        x = np.concatenate((a, b))
        return max(metric.value(x, np.repeat([s / a.size, (1 - s) / b.size], [a.size, b.size])) for s in grid)

    plain = np.array([best(rng.choice(data["a"], 60), rng.choice(data["b"], 60)) for _ in range(100)])
    middle = best(data["a"], data["b"])
    low, high = 2 * middle - np.quantile(plain, [0.975, 0.025])
    assert advice.optimism == pytest.approx(plain.mean() - middle, abs=4 * plain.std() / np.sqrt(100))
    assert advice.bootstrap_interval == pytest.approx((low, high), abs=1.0 * plain.std())


def test_two_valued_rewards_are_resampled_in_closed_form() -> None:
    rng = np.random.default_rng(11)
    log = read({"a": rng.binomial(1, 0.3, 50), "b": rng.binomial(1, 0.8, 70)})
    metric = pmb.GiniDeviation()
    drawn = statistics.resample(metric, log.arms, np.array([0.5, 0.5]), 200, np.random.default_rng(0))
    again = np.random.default_rng(0)
    shares = [again.multinomial(arm.n, arm.p, size=200)[:, 1] / arm.n for arm in log.arms]
    now = [arm.p[1] for arm in log.arms]
    reach = lambda p, q: 0.25 if min(p, q) <= 0.5 <= max(p, q) else max(p - p * p, q - q * q)  # noqa: E731
    wanted = [reach(p, q) - reach(*now) for p, q in zip(*shares, strict=True)]
    assert drawn.best == pytest.approx(np.array(wanted))


# ---- found by someone who used it for the first time -----------------------------------------------------
def test_a_resampling_interval_stays_where_the_metric_can_be() -> None:
    advice = pmb.advise({"a": [1.0, 0.0, 1.0]}, "gini")
    assert advice.bootstrap_interval[1] <= 0.25
    low, high = pmb.advise({"a": [5.0, 7.0, 7.0], "b": [6.0, 5.0, 5.0]}, "mean").bootstrap_interval
    assert 5.0 <= low <= high <= 7.0


# ---- the held-out half ----------------------------------------------------------------------------------


def test_the_standard_error_is_that_of_many_repetitions() -> None:
    rng = np.random.default_rng(12)
    metric, weights = pmb.GiniDeviation(), np.array([0.6, 0.4])
    found, errors = [], []
    for _ in range(150):
        half = []
        for sample in (rng.normal(0, 1, 400), rng.normal(2, 1.5, 400)):
            x = np.sort(sample)
            half.append((400, x, np.full(400, 1 / 400), 0.0))
        test = statistics.held_out(metric, weights, half, pmb.Interval(-9, 12), 0.975)
        assert test is not None
        x = np.concatenate([h[1] for h in half])
        plain = metric.value(x, np.repeat(weights / 400, 400)) - metric.value(half[1][1])
        assert test.gain == pytest.approx(plain) and test.rival == 1
        found.append(test.gain)
        errors.append(test.error)
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.25)
    assert np.mean(errors) >= np.std(found) * 0.95  # the made-up rewards err on the safe side


NULLS: dict[str, tuple[str, Callable[[Rng], list[NDArray[np.float64]]]]] = {
    "equal coins, where h is flat": ("gini", lambda r: [r.binomial(1, 0.5, 100) for _ in range(2)]),
    "equal rare events": ("wang_right_tail", lambda r: [r.binomial(1, 0.05, 60) for _ in range(3)]),
    "equal normal arms": ("gini", lambda r: [r.normal(0, 1, 60) for _ in range(3)]),
    "equal heavy tails": ("cvar:c=0.9", lambda r: [r.lognormal(0, 1.2, 50) for _ in range(2)]),
    "one arm on the peak of a tent": ("inter_es_range", lambda r: [r.binomial(1, p, 300) for p in (0.5, 0.4)]),
    "one arm clearly widest": ("gini", lambda r: [r.normal(0, s, 80) for s in (3, 1)]),
}


@pytest.mark.parametrize("case", NULLS)
def test_noise_is_called_a_real_gain_in_at_most_one_of_twenty_cases(case: str) -> None:
    metric, make = NULLS[case]
    rng = np.random.default_rng(13)
    times = 40
    wrong = 0
    for _ in range(times):
        data = {str(k): x for k, x in enumerate(make(rng))}
        wrong += pmb.advise(data, metric, bootstrap=0, seed=int(rng.integers(1000))).verdict == "real"
    assert wrong <= 0.05 * times


def test_more_data_is_estimated_such_that_it_settles_the_question() -> None:
    rng = np.random.default_rng(14)
    draw = lambda n: {"a": rng.binomial(1, 0.38, n), "b": rng.binomial(1, 0.9, n)}  # noqa: E731
    small = next(a for a in (pmb.advise(draw(150), "gini", bootstrap=100, seed=s) for s in range(20)) if a.more)
    assert small.verdict == "could be noise" and "would settle it" in small.outlook
    needed = max(small.more.values())
    assert 50 < needed < 100_000
    later = [pmb.advise(draw(150 + 2 * needed), "gini", bootstrap=0, seed=s).verdict for s in range(5)]
    assert later.count("real") >= 3


def test_what_more_data_would_settle_does_not_hang_on_how_often_was_resampled() -> None:
    rng = np.random.default_rng(3)
    data = {"a": rng.random(60).round(2), "b": (rng.random(60) ** 2).round(2)}
    few, none = (pmb.advise(data, "gini", bootstrap=n).more for n in (20, 0))
    assert few == none


# ---- summaries ------------------------------------------------------------------------------------------


def test_a_summary_keeps_every_rank_within_its_stated_error() -> None:
    rng = np.random.default_rng(15)
    values = rng.normal(size=700_000)
    summary = Compactor()
    for start in range(0, values.size, 30_000):
        summary.extend(values[start : start + 30_000])
    x, weights = summary.items()
    assert weights.sum() == values.size and x.size < 200_000
    places = np.linspace(-4, 4, 400)
    exact = np.searchsorted(np.sort(values), places, side="right")
    kept = np.concatenate(([0.0], np.cumsum(weights)))[np.searchsorted(x, places, side="right")]
    assert 0.0 < np.abs(kept - exact).max() / values.size <= summary.error < 1e-4
    thinned, mass, moved = thin(x, weights, 1000)
    assert thinned.size <= 1000 and mass.sum() == pytest.approx(values.size)
    rough = np.concatenate(([0.0], np.cumsum(mass)))[np.searchsorted(thinned, places, side="right")]
    assert np.abs(rough - kept).max() / values.size <= moved <= 2e-3


def test_half_an_arm_is_exact_while_few_rewards_differ_and_knows_its_ends_afterwards() -> None:
    rng = np.random.default_rng(16)
    few = HalfArm()
    dice = rng.integers(1, 7, 200_000).astype(float)
    few.extend(dice)
    x, counts, error = few.result()
    assert error == 0.0 and (x == np.arange(1, 7)).all()
    assert (counts == np.bincount(dice.astype(int))[1:]).all()
    many = HalfArm()
    values = rng.normal(size=150_000)
    many.extend(values)
    x, counts, error = many.result()
    assert 0.0 < error < 1e-3 and counts.sum() == pytest.approx(values.size)
    assert (x[0], x[-1]) == (values.min(), values.max())


def test_summarised_arms_say_so_and_widen_the_interval() -> None:
    rng = np.random.default_rng(17)
    data = {"a": rng.normal(0, 1, 140_000), "b": rng.normal(2, 1, 140_000)}
    advice = pmb.advise(data, "gini", bootstrap=0)
    exact = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit.from_samples({k: v[:20_000] for k, v in data.items()}))
    assert any("summarised" in note for note in advice.notes)
    assert advice.value == pytest.approx(exact.value, abs=0.02)
    error = advice.log.arms[0].error
    plain = np.sqrt(np.log(2 / (1 - np.sqrt(0.95))) / 280_000)
    assert advice.estimates[0].radius == pytest.approx(plain + error)
    assert advice.verdict == "real"
