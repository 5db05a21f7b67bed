"""Every judgement that was put anew can go both ways: made-up results decide it for and against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from research.measure import Mean
from research.outcome import Claim

from research import fig2, fig3, fig4, fig6, fig7, fig8, solitary

NOISE = np.sin(np.arange(40.0)) - np.sin(np.arange(40.0)).mean()
HORIZONS = (1_000, 2_000, 5_000)


def named(claims: list[Claim]) -> dict[str, Claim]:
    return {claim.name: claim for claim in claims}


@pytest.mark.parametrize(
    ("last", "rise", "verdict"),
    [(0.8, 0.1, "holds"), (0.69, 0.1, "does not hold"), (0.8, -0.1, "does not hold"), (0.7, 0.1, "not decidable")],
)
def test_under_the_mean_the_best_arm_must_be_tracked(last: float, rise: float, verdict: str) -> None:
    found = fig2._tracks(np.array([0.1, 0.85, 0.7]), Mean(last, 0.001), Mean(rise, 0.01), HORIZONS)
    assert found.verdict == verdict
    assert found.numbers["below_best"] == pytest.approx(0.85 - last)


def regrets(etc: list[float], ucb: list[float], horizons: tuple[int, ...], uniform: float = 1.0) -> Any:
    """Pairs × trials with these means, whose differences have a standard error of about 0.002."""
    shape = (40, 3)
    out = {(fig3.EQUAL, t): np.full(shape, uniform) for t in horizons}
    for label, means in ((fig3.ETC, etc), (fig3.UCB, ucb)):
        for k, (t, value) in enumerate(zip(horizons, means, strict=True)):
            out[label, t] = value + 0.01 * np.roll(NOISE, 7 * k)[:, None] * np.ones(shape)
    return out


def test_a_fall_over_a_wide_range_does_not_make_one_over_the_papers() -> None:
    horizons = (5_000, 20_000, 60_000, 200_000)
    found = named(
        fig3._claims(
            "gini", "Gini", regrets([0.9, 0.5, 0.5, 0.1], [0.9, 0.5, 0.4, 0.1], horizons), horizons, (20_000, 60_000)
        )
    )
    assert found["gini-falls"].verdict == "not decidable"  # PM-ETC-M stands still there
    assert found["gini-falls"].source
    assert found["gini-falls-wide"].verdict == "holds"
    assert not found["gini-falls-wide"].source
    found = named(
        fig3._claims(
            "gini", "Gini", regrets([0.1, 0.9, 0.5, 0.5], [0.1, 0.9, 0.4, 0.5], horizons), horizons, (20_000, 60_000)
        )
    )
    assert (found["gini-falls"].verdict, found["gini-falls-wide"].verdict) == ("holds", "does not hold")
    assert fig3.PAPER_RANGE[False] == (20_000, 60_000)


def test_figure_4_is_judged_at_the_constants_as_they_are_and_around_them_apart() -> None:
    def of(etc: list[float], ucb: list[float]) -> Any:
        rows = {(fig4.ETC, t): v + 0.001 * NOISE for t, v in zip(HORIZONS, etc, strict=True)}
        return rows | {(fig4.UCB, t): v - 0.001 * NOISE for t, v in zip(HORIZONS, ucb, strict=True)}

    rising, falling = [0.068, 0.054, 0.078], [0.09, 0.06, 0.03]
    sensitivity = {0.1: Mean(0.1, 0.01), 0.2: Mean(-0.1, 0.01)}
    found = named(fig4._claims("gini", "Gini", of(rising, falling), of(falling, rising), HORIZONS, sensitivity))
    assert found["gini-falls"].verdict == "does not hold" and "0.068 → 0.054 → 0.078" in found["gini-falls"].evidence
    assert found["gini-falls-around"].verdict == "does not hold"
    assert found["gini-order"].verdict == "does not hold" and found["gini-order"].source
    assert found["gini-order-around"].verdict == "holds" and not found["gini-order-around"].source
    assert found["gini-order-robust"].verdict == "does not hold"
    found = named(fig4._claims("mean", "mean", of(falling, falling), of(falling, falling), HORIZONS, {}))
    assert found["mean-falls"].verdict == found["mean-falls-around"].verdict == "holds"
    assert fig4.etc(1_000, 0.4).options["explore_cap"] is None


@pytest.mark.parametrize(
    ("rho", "verdict", "since"),
    [
        ([0.9, 0.9, 0.9], "holds", False),
        ([-0.9, 0.1, 0.9], "does not hold", True),
        ([0.9, -0.9, -0.9], "does not hold", False),
    ],
)
def test_a_bound_must_grow_at_every_horizon(rho: list[float], verdict: str, since: bool) -> None:
    ranks = {power: (value, 0.3 if abs(value) < 0.5 else 1e-6) for power, value in zip((12, 15, 18), rho, strict=True)}
    found = fig6._claim("PM-ETC-M", "paper", ranks)
    assert found.verdict == verdict and found.source
    assert ("It grows from T = 1e18 on" in found.evidence) == since
    assert not fig6._claim("PM-ETC-M", "auto", ranks).source


def test_figure_7_is_judged_by_the_papers_rule_and_by_ours_apart() -> None:
    horizon = 1_000
    late = {(fig7.LITERAL, p): np.full(40, float(horizon)) for p in fig7.LABELS}
    early = {(fig7.BOX, p): 100.0 * (k + 1) + NOISE for k, p in enumerate(fig7.LABELS)}
    reverse = {(fig7.LITERAL, p): 1e-6 * (k + 1) + 1e-8 * np.roll(NOISE, k) for k, p in enumerate(fig7.LABELS)}
    forward = {(fig7.BOX, p): 1e-6 * (3 - k) + 1e-8 * np.roll(NOISE, k) for k, p in enumerate(fig7.LABELS)}
    found = named(fig7._claims(late | early, reverse | forward, reverse | forward, horizon))
    assert {name: c.verdict for name, c in found.items()} == {
        "tracking-earlier": "does not hold",
        "regret-larger": "does not hold",
        "regret-larger-pairs": "does not hold",
        "tracking-earlier-box": "holds",
        "regret-larger-box": "holds",
        "regret-larger-box-pairs": "holds",
    }
    assert [name for name, c in found.items() if c.source] == ["tracking-earlier", "regret-larger"]
    assert {fig7.POLICIES[rule][p].options["stopping"] for rule in fig7.RULES for p in fig7.LABELS} == {
        "literal",
        "box",
    }


def test_figure_8_is_judged_by_seconds() -> None:
    levels = (1e-2, 1e-6)
    spread = 1.0 + 0.01 * NOISE
    never = {(p, level): 0 for p in fig8.POLICIES for level in levels}
    seconds = {(fig8.FIXED, level): spread for level in levels}
    seconds |= {(fig8.BOX, 1e-2): 0.9 * spread, (fig8.BOX, 1e-6): 0.1 * spread}
    seconds |= {(fig8.LITERAL, 1e-2): 0.5 * spread, (fig8.LITERAL, 1e-6): 0.4 * spread}
    box = fig8._claims(fig8.BOX, seconds, never, levels)
    assert [c.verdict for c in box] == ["holds", "holds"] and all(c.timed and not c.source for c in box)
    literal = fig8._claims(fig8.LITERAL, seconds, never, levels)
    assert [c.verdict for c in literal] == ["holds", "holds"] and all(c.source for c in literal)
    stuck = fig8._claims(fig8.LITERAL, seconds, never | {(fig8.LITERAL, 1e-6): 30}, levels)
    assert [c.verdict for c in stuck] == ["does not hold", "does not hold"]  # it does not get there
    slow = fig8._claims(fig8.BOX, {**seconds, (fig8.BOX, 1e-6): 2.0 * spread}, never, levels)
    assert [c.verdict for c in slow] == ["does not hold", "does not hold"]


@pytest.mark.parametrize(("before", "verdict"), [(0.1601, "holds"), (0.2, "does not hold"), (0.1685, "not decidable")])
def test_ucb1_must_have_settled(before: float, verdict: str) -> None:
    ends = {p: Mean(0.16, 0.0002) for p in solitary.LOOKS}
    earlier = {p: Mean(before, 0.0002) for p in solitary.LOOKS}
    found = named(solitary._claims("gini", "Gini", ends, earlier, Mean(0.0, 1.0), 1_000))
    assert found["gini-linear"].verdict == verdict
