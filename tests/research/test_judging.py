"""Every judgement that was put anew can go both ways: made-up results decide it for and against."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from research.measure import Mean
from research.outcome import Claim

from research import fig2, fig3, fig4, fig5, fig6, fig7, fig8, solitary, tables

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

    def judged(etc: list[float], ucb: list[float]) -> dict[str, Claim]:
        found = regrets(etc, ucb, horizons)
        return named(fig3._claims("gini", "Gini", {0.2: found}, found, horizons, (20_000, 60_000)))

    found = judged([0.9, 0.5, 0.5, 0.1], [0.9, 0.5, 0.4, 0.1])
    assert found["gini-falls"].verdict == "not decidable"  # PM-ETC-M stands still there
    assert found["gini-falls"].source
    assert found["gini-falls-wide"].verdict == "holds"
    assert not found["gini-falls-wide"].source
    found = judged([0.1, 0.9, 0.5, 0.5], [0.1, 0.9, 0.4, 0.5])
    assert (found["gini-falls"].verdict, found["gini-falls-wide"].verdict) == ("holds", "does not hold")
    assert fig3.PAPER_RANGE[False] == (20_000, 60_000)


def test_figure_3_is_judged_for_every_constant_of_the_schedules() -> None:
    horizons = (20_000, 60_000)
    falls, rises = (regrets(way, way, horizons, uniform) for way, uniform in (([0.5, 0.3], 1.0), ([0.3, 0.5], 1.0)))

    def verdict(by_constant: Any, main: Any) -> dict[str, str]:
        found = named(fig3._claims("gini", "Gini", by_constant, main, horizons, horizons))
        return {name: claim.verdict for name, claim in found.items()}

    assert verdict({0.1: falls, 0.2: falls}, falls)["gini-falls"] == "holds"
    mixed = verdict({0.1: falls, 0.2: rises}, rises)
    assert mixed["gini-falls"] == "depends on a choice"
    assert mixed["gini-below-uniform"] == "holds"
    assert verdict({0.1: rises, 0.2: rises}, rises)["gini-falls"] == "does not hold"
    assert 0.2 in fig3.SCHEDULE_CONSTANTS and len(fig3.SCHEDULE_CONSTANTS) == 6


def test_figure_4_is_judged_for_all_pairs_of_constants() -> None:
    assert len(fig4.PAIRS) == 72

    def swept(etc: Any, ucb: Any) -> Any:
        """Regrets as functions of the constant and of whether the horizon is the last one."""
        out = {}
        for key in fig4.CASES:
            for last, t in enumerate((HORIZONS[0], HORIZONS[-1])):
                out |= {(key, fig4.ETC, c, t): etc(key, c, last) + 1e-4 * NOISE for c in fig4.ETC_CONSTANTS}
                out |= {(key, fig4.UCB, c, t): ucb(key, c, last) - 1e-4 * NOISE for c in fig4.UCB_CONSTANTS}
        return out

    def judged(etc: Any, ucb: Any) -> dict[str, Claim]:
        found = swept(etc, ucb)
        pairs = {(key, kind): fig4.judge(found, key, kind, HORIZONS) for key in fig4.CASES for kind in fig4.KINDS}
        return named(fig4._claims(found, pairs, HORIZONS))

    def small_constants_win(key: str, constant: float, last: int) -> float:
        return constant * (0.5 if last else 1.0)

    found = judged(small_constants_win, small_constants_win)
    assert found["gini-falls"].verdict == found["mean-falls"].verdict == "holds"
    assert found["gini-order"].verdict == found["mean-order"].verdict == "depends on a choice"
    assert found["all-together"].verdict == "does not hold"  # each pair has one winner, but the paper wants two
    always = judged(lambda key, c, last: (0.1 if key == "gini" else 0.3) - 0.05 * last, lambda *at: 0.2 - 0.05 * at[2])
    assert {claim.verdict for claim in always.values()} == {"holds"}
    assert always["gini-order"].source and not always["all-together"].source
    rising = judged(lambda key, c, last: 0.1 + 0.05 * last, lambda key, c, last: 0.2 + 0.05 * last)
    assert rising["gini-falls"].verdict == "does not hold"
    assert fig4.etc(1_000, 2.0, 0.2).options["explore_cap"] is None


@pytest.mark.parametrize(
    ("rho", "verdict", "since"),
    [
        ([0.9, 0.9, 0.9], "holds", False),
        ([-0.9, 0.1, 0.9], "depends on a choice", True),
        ([0.1, 0.9, 0.9], "not decidable", False),
        ([-0.9, -0.9, -0.9], "does not hold", False),
    ],
)
def test_a_bound_is_judged_at_each_horizon(rho: list[float], verdict: str, since: bool) -> None:
    ranks = {power: (value, 0.3 if abs(value) < 0.5 else 1e-6) for power, value in zip((12, 15, 18), rho, strict=True)}
    found = fig6._claim("PM-ETC-M", "paper", ranks)
    assert found.verdict == verdict and found.source
    assert ("It grows from T = 1e18 on" in found.evidence) == since
    assert not fig6._claim("PM-ETC-M", "auto", ranks).source
    assert not fig6._claim("PM-ETC-M", "limit", ranks).source


def test_the_limit_on_the_grids_error_is_above_the_error() -> None:
    bandits = fig6.INNER_PAIRS.bandits[::7]
    true, limit = (fig6._bound("PM-ETC-M", bandits, 18, key)[0] for key in ("paper", "limit"))
    assert (limit >= true).all() and (limit > true).any()


def test_figure_7_looks_at_runs_that_track() -> None:
    horizon = 1_000
    early = {p: 100.0 * (k + 1) + NOISE for k, p in enumerate(fig7.LABELS)}
    late = {p: np.where(np.arange(40) % 2 == 0, early[p], horizon) for p in fig7.LABELS}
    never = {p: np.full(40, float(horizon)) for p in fig7.LABELS}
    forward = {p: 1e-6 * (3 - k) + 1e-8 * np.roll(NOISE, k) for k, p in enumerate(fig7.LABELS)}
    reverse = {p: 1e-6 * (k + 1) + 1e-8 * np.roll(NOISE, k) for k, p in enumerate(fig7.LABELS)}
    # what runs that do not track have at T says nothing: here it would turn the order round
    only_tracked = {p: np.where(np.arange(40) % 2 == 0, forward[p], 100 * reverse[p]) for p in fig7.LABELS}

    def of(starts: Any, last: Any) -> Claim:
        return fig7._larger("regret-larger", starts, last, horizon, "here")

    assert of(early, forward).verdict == of(late, only_tracked).verdict == "holds"
    assert of(early, reverse).verdict == "does not hold"
    assert of(never, forward).verdict == "not observed"
    assert fig7._larger_at_the_end("all", late, only_tracked, fig7.BESIDE, horizon).verdict == "does not hold"
    pairs = {(0.1, 0.6): (early, forward), (0.2, 0.6): (early, forward), (0.3, 0.6): (late, reverse)}
    found = fig7._on_lattice("lattice", pairs, fig7.LABELS, horizon)
    assert found.verdict == "holds" and found.numbers == {"pairs": 3.0, "track": 2.0, "ordered": 2.0}
    pairs[0.4, 0.6] = (early, reverse)
    assert fig7._on_lattice("lattice", pairs, fig7.LABELS, horizon).verdict == "does not hold"
    assert fig7._on_lattice("lattice", {(0.1, 0.6): (never, forward)}, fig7.LABELS, horizon).verdict == "not observed"
    assert len(fig7.LATTICE.pairs) == 81


def test_figure_7_judges_the_papers_rule_on_arms_that_track_and_all_else_apart() -> None:
    horizon = 1_000
    starts = {key: {p: 100.0 * (k + 1) + NOISE for k, p in enumerate(fig7.LABELS)} for key in fig7.PLAYED}
    last = {key: {p: 1e-6 * (3 - k) + 1e-8 * NOISE for k, p in enumerate(fig7.LABELS)} for key in fig7.PLAYED}
    lattice = {(0.1, 0.6): (starts[fig7.MAIN], last[fig7.MAIN])}
    found = named(fig7._claims(starts, last, lattice, horizon))
    assert [name for name, c in found.items() if c.source] == ["tracking-earlier", "regret-larger"]
    assert {c.verdict for c in found.values()} == {"holds"}
    assert fig7.PLAYED[fig7.MAIN] == (fig7.TRACKING_ARMS, "literal")


def test_figure_8_is_judged_by_the_papers_rule_and_cost_and_by_others_apart() -> None:
    levels = (1e-2, 1e-6)
    spread = 1.0 + 0.01 * NOISE
    none = {(p, level): 0.0 for p in fig8.POLICIES for level in levels}

    def costs(share: float) -> Any:
        return {(p, level): (1.0 if p == fig8.FIXED else share * (1.0 if level == 1e-2 else 0.5)) * spread
                for p in fig8.POLICIES for level in levels}  # fmt: skip

    of = {(how, cost): costs(0.5 if cost == fig8.EVALUATIONS else 4.0) for how in fig8.REACHED
          for cost in (fig8.EVALUATIONS, fig8.SECONDS)}  # fmt: skip
    missed = dict.fromkeys(fig8.REACHED, none)
    found = named(fig8._all_claims(of, missed, levels))
    assert [name for name, c in found.items() if c.source] == ["faster", "saves-more"]
    assert not any(c.timed for c in found.values() if c.source)
    assert found["faster"].verdict == found["saves-more"].verdict == found["faster-box-stays"].verdict == "holds"
    assert found["faster-seconds"].verdict == found["faster-box-stays-seconds"].verdict == "does not hold"
    stuck = {fig8.STAYS: none, fig8.FALLS: none | {(fig8.LITERAL, 1e-6): 0.7}}
    found = named(fig8._all_claims(of, stuck, levels))
    assert found["faster"].verdict == found["saves-more"].verdict == "does not hold"  # it does not get there
    assert found["faster-stays"].verdict == found["faster-box"].verdict == "holds"


def test_a_regret_is_reached_when_it_falls_below_or_when_it_stays_below() -> None:
    t = np.array([10, 200, 400, 800])
    regret = np.array([[0.0, 0.3, 0.05, 0.2], [0.0, 0.3, 0.3, 0.3], [0.0, 0.05, 0.05, 0.05]])
    falls, stays = (fig8.reached(t, regret, 0.1, how) for how in (fig8.FALLS, fig8.STAYS))
    assert falls[0].tolist() == [400, 800, 200] and falls[1] == 1  # what is right by chance at round 10 does not count
    assert stays[0].tolist() == [800, 800, 10] and stays[1] == 2


def test_third_best_values_on_a_lattice_are_those_of_a_plain_search() -> None:
    for metric, triple, n in ((fig5.METRICS["Gini"], (1, 4, 8), 12), (fig5.METRICS["inter-ES"], (2, 5, 9), 9)):
        means = {Fraction(a * triple[0] + b * triple[1] + (n - a - b) * triple[2], 10 * n)
                 for a in range(n + 1) for b in range(n + 1 - a)}  # fmt: skip
        values = sorted({round(float(metric(float(mean))), 12) for mean in means}, reverse=True)
        assert fig5._third_value_gap(metric, triple, n) == pytest.approx(values[0] - values[2], abs=1e-11)


@pytest.mark.parametrize(
    ("slopes", "verdict"),
    [((2.0, 2.0), "holds"), ((4.0, 4.0), "does not hold"), ((2.0, 4.0), "depends on a choice")],
)
def test_figure_5_reports_both_kinds_of_instances(slopes: tuple[float, float], verdict: str) -> None:
    on, off = slopes
    found = fig5._peaked({(3, "Gini"): (off, 0.01)}, {"Gini": {(1, 4, 8): (on, 0.01), (1, 5, 8): (on, 0.01)}})
    assert found.verdict == verdict
    assert "(0.137, 0.482, 0.911)" in found.evidence


def test_who_falls_faster_can_go_both_ways() -> None:
    etc = named(tables._who_is_faster({("PHT", 1): "ETC", ("PHT", 2): "ETC"}))
    assert etc["none-dominates"].verdict == etc["pht-ucb-better"].verdict == "does not hold"
    both = named(tables._who_is_faster({("PHT", 1): "ETC", ("PHT", 2): "UCB"}))
    assert both["none-dominates"].verdict == both["pht-ucb-better"].verdict == "holds"


@pytest.mark.parametrize(("before", "verdict"), [(0.1601, "holds"), (0.2, "does not hold"), (0.1685, "not decidable")])
def test_ucb1_must_have_settled(before: float, verdict: str) -> None:
    ends = {p: Mean(0.16, 0.0002) for p in solitary.LOOKS}
    earlier = {p: Mean(before, 0.0002) for p in solitary.LOOKS}
    found = named(solitary._claims("gini", "Gini", ends, earlier, Mean(0.0, 1.0), 1_000))
    assert found["gini-linear"].verdict == verdict
    assert found["gini-linear"].source and not found["gini-ours-vanishes"].source  # linear regret is the paper's claim
