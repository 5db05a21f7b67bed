"""The catalogue of preferences: plain words lead to a metric, and what it says of a metric is true."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb


@pytest.mark.parametrize(
    ("said", "metric"),
    [
        ("worst 10 %", pmb.LowerCVaR(0.1)),
        ("avoid the worst 5%", pmb.LowerCVaR(0.05)),
        ("the top 20 percent", pmb.CVaR(0.8)),
        ("just the average", pmb.Mean()),
        ("average", pmb.Mean()),
        ("variety", pmb.GiniDeviation()),
        ("reward spread", pmb.GiniDeviation()),
        ("overweight rare large gains", pmb.PHT(0.5)),
        ("fairness", pmb.Mean() - 0.5 * pmb.GiniDeviation()),
        ("nobody should predict where we patrol", pmb.TsallisPastEntropy(1.0)),
    ],
)
def test_plain_words_lead_to_a_metric(said: str, metric: pmb.Distortion) -> None:
    assert pmb.preferences(said).metric == metric


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
    with pytest.raises(ValueError, match="nothing in the catalogue is near 'zzz qqq'"):
        pmb.preferences("zzz qqq")
    with pytest.raises(TypeError, match="in words"):
        pmb.preferences("")
    with pytest.raises(ValueError, match="between 0 and 100"):
        pmb.preferences("the worst 300 %")
