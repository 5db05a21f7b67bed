"""Matplotlib figures of advice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._plot_style import axes_in_library_style, pyplot_in_library_style, save_figure
from pmbandits.advice.curves import quantile
from pmbandits.advice.sentences import short_verdict
from pmbandits.palette import COLOURS, MIXTURE, arm_colour, arm_line_style
from pmbandits.plots import plot_arms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pmbandits.advice.result import Advice


def plot_advice(
    advice: Advice, axes: Sequence[Axes] | None = None, *, path: str | Path | None = None
) -> tuple[Axes, Axes, Axes]:
    """Draw distributions, distorted survival curves and utilities of the arms side by side (:meth:`Advice.plot`)."""
    chosen = sorted(advice.by_share()[:6])
    with pyplot_in_library_style() as plt:
        if axes is None:
            axes = plt.subplots(1, 3, figsize=(13.0, 3.9), layout="constrained")[1]
        if np.size(np.asarray(axes, dtype=object)) != 3:
            raise ValueError("axes must be three axes of matplotlib, such as those of plt.subplots(1, 3).")
        left, middle, right = axes
        figure: Any = left.get_figure(root=True)
        plot_arms([advice.estimates[k] for k in chosen], left, places=chosen)
        points = np.unique(np.concatenate([advice.estimates[k].x for k in chosen]))
        if points.size == 1:
            points = np.append(points, points[0] + 1.0)
        with np.errstate(all="ignore"):
            for k in chosen:
                distorted = np.asarray(advice.metric(1.0 - advice.estimates[k].cdf(points)))
                label = f"{advice.names[k]}: {advice.arms[k].utility:.3g}"
                middle.step(
                    points, distorted, where="post", color=arm_colour(k), ls=arm_line_style(k), lw=1.8, label=label
                )
            if len(advice.mixture) > 1:
                above = sum(w * (1.0 - e.cdf(points)) for w, e in zip(advice.weights, advice.estimates, strict=True))
                distorted, label = (
                    np.asarray(advice.metric(np.clip(above, 0.0, 1.0))),
                    f"mixture: {advice.apparent:.3g}",
                )
                middle.step(points, distorted, where="post", color=MIXTURE, lw=2.4, label=label, zorder=3)
        middle.axhline(0.0, color="0.6", lw=0.8, zorder=0)
        middle.set_xlabel("reward x")
        middle.set_ylabel(f"how much it counts that {'losses are below' if advice.loss else 'rewards are above'} x")
        low, high = middle.get_ylim()
        middle.set_ylim(low, high + 0.35 * (high - low))  # space for the legend
        legend = "score" if advice.loss else "utility: area below"
        middle.legend(fontsize=8.5, handlelength=3.2, loc="upper right", title=legend, ncols=2,
                      title_fontsize=8.5)  # fmt: skip
        middle.set_title(f"what {advice.metric!r} makes of them")
        labels = [advice.arms[k].name for k in chosen]
        values = [advice.arms[k].utility for k in chosen]
        spans = [advice.arms[k].interval for k in chosen]
        colours = [arm_colour(k) for k in chosen]
        if len(advice.mixture) > 1:
            labels, values, spans = [*labels, "mixture"], [*values, advice.value], [*spans, advice.interval]
            colours.append(MIXTURE)
        places = np.arange(len(labels))
        error_bars = np.abs(np.array(spans).T - np.array(values))
        known = np.isfinite(error_bars).all(axis=0)
        right.bar(places, values, color=colours, width=0.6)
        if known.any():
            spots, heights = places[known], np.array(values)[known]
            right.errorbar(spots, heights, yerr=error_bars[:, known], fmt="none", ecolor="0.2", capsize=4, lw=1.2)
        right.set_xticks(places, labels, rotation=30 if len(labels) > 4 else 0)
        right.set_ylabel("score")
        right.axhline(0.0, color="0.6", lw=0.8)
        right.set_title(f"score{', with intervals' if known.any() else ''}: {short_verdict(advice)}")
        left_out = len(advice.arms) - len(chosen)
        if left_out:
            figure.text(0.5, -0.02, f"{left_out:,} more arms, that score less, are not drawn", ha="center", fontsize=9)
        _crop_axes_to_readable_rewards(advice, chosen, (left, middle))
        for ax in (left, middle) if advice.loss else ():  # rewards are drawn; the axis says losses
            ax.xaxis.set_major_formatter(lambda x, _: f"{0.0 - x:g}".replace("-", "−"))
            ax.set_xlabel("loss x (smaller to the right)")
    save_figure(figure, path)
    return left, middle, right


def _crop_axes_to_readable_rewards(advice: Advice, chosen: Sequence[int], axes: Sequence[Axes]) -> None:
    """Cut off the furthest rewards where they would squeeze all others into a line, and say so."""
    cuts = [quantile(advice.log.arms[k].whole_sample, (0.05, 0.25, 0.5, 0.75, 0.95)) for k in chosen]
    ends = min(float(q[0]) for q in cuts), max(float(q[-1]) for q in cuts)
    middle = max(float(q[3] - q[1]) for q in cuts)
    reward_range = (
        min(float(advice.log.arms[k].x[0]) for k in chosen),
        max(float(advice.log.arms[k].x[-1]) for k in chosen),
    )
    if middle > 0.0 and reward_range[1] - reward_range[0] > 25.0 * middle:
        pad = 0.05 * (ends[1] - ends[0])
        for ax in axes:
            ax.set_xlim(ends[0] - pad, ends[1] + pad)
            ax.set_xlabel(f"reward x (drawn: 5 to 95 %; seen: {reward_range[0]:.3g} to {reward_range[1]:.3g})")


def plot_advice_table(advice: Sequence[Advice], ax: Axes | None = None, *, path: str | Path | None = None) -> Axes:
    """Draw the recommended shares of each metric as stacked bars (:meth:`AdviceTable.plot`)."""
    played = sorted({name for a in advice for name in a.mixture}, key=list(advice[0].names).index)
    with axes_in_library_style(ax, (7.0, 0.9 + 0.5 * len(advice)), path) as ax:
        rows = np.arange(len(advice))
        start = np.zeros(len(advice))
        for name in played:
            k = advice[0].names.index(name)
            share = np.array([100 * a.mixture.get(name, 0.0) for a in advice])
            hatch = "" if k < len(COLOURS) else "//"
            ax.barh(rows, share, left=start, color=arm_colour(k), hatch=hatch, height=0.62, label=name)
            start += share
        ax.set_yticks(rows, [f"{a.metric!r}" for a in advice])
        ax.invert_yaxis()
        ax.set_xlabel("recommended share (%)")
        ax.set_title("what to play, by what you value")
        ax.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax
