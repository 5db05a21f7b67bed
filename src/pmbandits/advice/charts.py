"""What the charts of a report need: places, texts and colours. The markup is in ``templates/charts.html``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.curves import AxisScale, RewardCurves
from pmbandits.advice.numbers import plain_number, share_in_percent
from pmbandits.advice.sentences import arm_label, number_format
from pmbandits.metrics.distortion import Distortion
from pmbandits.palette import COLOURS, arm_colour

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice

LEFT, WIDTH, HEIGHT = 40, 360, 150  # pixels: the margin with numbers, the whole width, and the height of the drawing
MOST_CURVES = 8
_EDGE = 0.03  # of the width: left free on both sides
_WIDEST_DRAWN = 8.0  # times the usual width of an interval, beyond which it is cut
_Ticks = tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]]  # numbers with their texts, of both axes


def share_bar_parts(advice: Advice) -> list[dict[str, Any]]:
    """The parts of a bar of the recommended shares, the largest first."""
    played = sorted(np.flatnonzero(advice.weights > 0.0).tolist(), key=lambda k: -advice.weights[k])
    return [
        {"name": advice.names[k], "share": share_in_percent(float(advice.weights[k])), "colour": arm_colour(k),
         "width": 100.0 * float(advice.weights[k])}
        for k in played
    ]  # fmt: skip


@dataclass(frozen=True)
class Dots:
    """Scores with their intervals, and numbers at the axis, as places in percent."""

    rows: list[dict[str, Any]]
    ticks: list[tuple[float, str]]
    note: str = ""


def score_dot_chart(advice: Advice, most: int) -> Dots:
    """The scores of the best arms, and that of the recommendation if it is a mixture."""
    written = number_format(advice)
    rows = [(advice.arms[k].name, advice.arms[k].utility, advice.arms[k].interval, k) for k in advice.by_share()[:most]]
    if len(advice.mixture) > 1:
        rows.insert(0, ("the mixture", advice.value, advice.interval, -1))
    shown = [(name, score, i if isfinite(i[0]) else (), k) for name, score, i, k in rows]
    widths = sorted(i[1] - i[0] for _, _, i, _ in shown if i)
    widest = _WIDEST_DRAWN * widths[len(widths) // 2] if widths else 0.0  # wider ones would squeeze all others
    ends = [v for _, u, i, _ in shown for v in (u, *(i if i and i[1] - i[0] <= widest else ())) if isfinite(v)] or [0.0]
    edge = _EDGE * (max(ends) - min(ends))  # what ends at the border looks cut
    low, high = min(ends) - edge, max(ends) + edge
    scale = AxisScale(low, high if high > low else low + 1.0)
    cut = [arm_label(name, advice.log.arm_column) for name, _, i, _ in shown if i and (i[0] < low or i[1] > scale.hi)]
    beyond = f"Arrows: the interval of {' and '.join(cut[:2])} goes on beyond the picture." if cut else ""
    left_is_better = "Smaller is better: left." if advice.shown_score(1.0) < 0.0 else ""
    return Dots(
        [
            {
                "name": name,
                "score": written(score),
                "at": 100.0 * scale.position_on_axis(score) if isfinite(score) else None,
                "from": 100.0 * scale.position_on_axis(between[0]) if between else None,
                "width": 100.0 * (scale.position_on_axis(between[1]) - scale.position_on_axis(between[0]))
                if between
                else None,
                "cut": [side for side, over in (("low", between[0] < low), ("high", between[1] > scale.hi)) if over]
                if between
                else [],
                "colour": arm_colour(k) if k >= 0 else "var(--ink)",
                "chosen": k < 0 or advice.weights[k] == 1.0,
            }
            for name, score, between, k in shown
        ],
        [(100.0 * scale.position_on_axis(v), plain_number(v)) for v in scale.ticks()],
        f"{left_is_better} {beyond}".strip(),
    )


@dataclass(frozen=True)
class LineChart:
    """Lines in a drawing: points in pixels, and texts at both axes."""

    lines: list[dict[str, str]]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def _make_line_chart(
    x: FloatArray, lines: Sequence[tuple[str, FloatArray, str]], scales: tuple[AxisScale, AxisScale], ticks: _Ticks
) -> LineChart:
    """A chart from data, the scales of both axes, and the texts at both axes."""

    def left(v: float) -> float:
        return LEFT + (WIDTH - LEFT - 6) * scales[0].position_on_axis(v)

    def top(v: float) -> float:
        return 6 + HEIGHT * (1.0 - scales[1].position_on_axis(v))

    drawn = [
        {
            "name": name,
            "colour": ink,
            "points": " ".join(f"{left(a):.1f},{top(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)),
        }
        for name, y, ink in lines
    ]
    return LineChart(drawn, [(left(v), text) for v, text in ticks[0]], [(top(v), text) for v, text in ticks[1]])


def survival_chart(advice: Advice) -> tuple[LineChart, str]:
    """The share of rewards above (losses: below) each number, of the arms with the best scores; and a note."""
    shown = sorted(advice.by_share()[:MOST_CURVES])
    curves = RewardCurves([advice.log.arms[k].whole_sample for k in shown], advice.loss)
    sign = -1.0 if advice.loss else 1.0  # losses grow to the right, too
    low, high = sorted((sign * float(curves.grid[0]), sign * float(curves.grid[-1])))
    scale = AxisScale(low, high, curves.linear_width)
    at = np.repeat(np.arange(curves.grid.size), 2)
    lines = [
        (advice.names[k], row[at[:-1]], arm_colour(k)) for k, row in zip(shown, curves.survival_of_arms, strict=True)
    ]  # steps: each share holds until the next reward
    ticks = [(v, plain_number(v)) for v in scale.ticks()]
    share_ticks = [(v, f"{100 * v:.0f} %") for v in (0.0, 0.5, 1.0)]
    chart = _make_line_chart(sign * curves.grid[at[1:]], lines, (scale, AxisScale(0.0, 1.0)), (ticks, share_ticks))
    squeezed = " The scale is squeezed away from 0, because few rewards are far out." if curves.linear_width else ""
    left_out = len(advice.names) - len(shown)
    more = f" {left_out:,} more are not drawn." if left_out else ""
    return chart, f"{curves.undrawn_rewards_sentence}{squeezed}{more}".strip()


def attention_chart(metric: Distortion) -> LineChart:
    """How much outcomes count by rank, from worst to best: the slope of h over hundredths, within -6 and 6."""
    h = np.asarray(metric(np.linspace(1.0, 0.0, 101)), dtype=np.float64)
    weight = (h[:-1] - h[1:]) * 100.0
    known = np.isfinite(weight)
    high = min(max(float(weight[known].max(initial=1.0)), 1.2), 6.0)
    low = max(min(float(weight[known].min(initial=0.0)), 0.0), -6.0)
    ranks = np.linspace(0.5, 99.5, 100)[known]
    line = ("weight", np.clip(weight[known], low, high), COLOURS[0])
    ticks = [(0.0, "worst"), (50.0, "middle"), (100.0, "best")], [(0.0, "0"), (1.0, "1")]
    return _make_line_chart(ranks, [line], (AxisScale(0.0, 100.0), AxisScale(low, high)), ticks)
