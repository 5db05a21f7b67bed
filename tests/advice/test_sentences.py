"""What advice says of arms that tie, of the cost of a preference, and of where the truth probably lies."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.advice import report


def _shop(seed: int) -> dict[str, list[float]]:
    """Four pages whose visitors mostly buy nothing, and one of which has a few huge orders."""
    rng = np.random.default_rng(seed)
    buys = rng.random((4, 1500)) < np.array([[0.085], [0.07], [0.06], [0.03]])
    spent = np.exp(rng.normal(3.2, np.array([[0.4], [0.5], [0.6], [1.9]]), (4, 1500)))
    return {name: row.tolist() for name, row in zip("ABCD", (buys * spent).round(2), strict=True)}


def test_arms_that_a_preference_cannot_tell_apart_are_not_recommended() -> None:
    advice = pmb.advise(_shop(1), "lower_cvar(0.1)")
    assert advice.tied and not advice.proven
    assert "Play" not in advice.recommendation and "No arm is better" in advice.recommendation
    least = min(np.mean(np.array(rewards) == 0.0) for rewards in _shop(1).values())
    assert f"{int(100 * least)} %" in advice.reason
    assert {row[-1] for row in advice.rows()} == {"any"} and not advice.outlook and not advice.price
    assert not pmb.advise(_shop(1), "lower_cvar(0.97)").tied
    same = pmb.advise({"a": [0, 1] * 50, "b": [1, 0] * 50}, "mean")  # half are 0, but the others count, too
    assert same.tied and "%" not in same.reason
    kept = pmb.advise(_shop(1), "lower_cvar(0.1)", shares="B >= 30%")
    assert not kept.tied and kept.mixture["B"] >= 0.3 - 1e-9 and "any" not in {row[-1] for row in kept.rows()}
    assert not pmb.advise({"a": [0, 1] * 50, "b": [1, 0] * 50}, "gini").proven  # tied, at the top of h


def test_what_a_preference_costs_by_the_plain_average_is_said() -> None:
    data = _shop(2)
    advice = pmb.advise(data, "lower_cvar(0.97)", support=pmb.Interval(0, 1e5))
    means = {name: float(np.mean(rewards)) for name, rewards in data.items()}
    given = sum(share * means[name] for name, share in advice.mixture.items())
    best = max(means, key=lambda name: means[name])
    assert given < means[best]
    assert f"gives {given:.4g} a round, {100 * (1 - given / means[best]):.0f} % less than {best}" in advice.price
    assert (
        advice.price in str(advice) and advice.price in report.html_page(advice) and not pmb.advise(data, "mean").price
    )


def test_only_preferences_that_tell_the_arms_apart_are_proposed() -> None:
    (warning,) = pmb.advise(_shop(1), "mean").warnings
    assert "safe with such rewards: lower_cvar(0.98)" in warning  # by the others every arm is worth 0


def test_several_preferences_say_what_each_choice_loses_by_the_others() -> None:
    data = _shop(2)
    table = pmb.advise(data, ["mean", "lower_cvar(0.97)"])
    lost = report.cross_metric_losses(list(table))
    means = {name: float(np.mean(rewards)) for name, rewards in data.items()}
    chosen = next(iter(table[1].mixture))
    assert lost[0] == ["–", f"{100 * (1 - means[chosen] / max(means.values())):.0f} %"] and lost[1][1] == "–"
    assert "What a choice loses" in report.html_page(table)


def test_intervals_of_rewards_that_are_never_negative_stop_at_zero() -> None:
    data = {"a": [0.0] * 40 + [50.0], "b": [0.0] * 60 + [9.0, 11.0]}
    advice = pmb.advise(data, "mean")
    assert all(a.interval[0] >= 0.0 for a in advice.arms)
    below = pmb.advise({"a": [0.0] * 40 + [50.0, -1.0], "b": [0.0] * 60 + [9.0, 11.0]}, "mean")
    assert any(a.interval[0] < 0.0 for a in below.arms)


@pytest.mark.slow
@pytest.mark.parametrize("chances", [(0.2, 0.8), (0.5, 0.5)])
def test_intervals_hold_at_the_top_of_h_where_first_order_says_that_nothing_can_move(
    chances: tuple[float, float],
) -> None:
    rng, times, covered, alone = np.random.default_rng(7), 40, 0, 0
    for seed in range(times):
        data = {name: (rng.random(200) < p).astype(float) for name, p in zip("AB", chances, strict=True)}
        advice = pmb.advise(data, "gini", seed=seed)
        heads = float(np.dot(advice.weights, chances))
        covered += advice.interval[0] <= heads * (1.0 - heads) <= advice.interval[1]
        alone += sum(a.interval[0] <= p * (1.0 - p) <= a.interval[1] for a, p in zip(advice.arms, chances, strict=True))
    assert covered >= 0.9 * times
    assert alone >= 0.9 * 2 * times
