"""Pictures, in one style: colour-blind safe, readable in grey, returned as matplotlib objects."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.best import Best, oracle, utilities
from pmbandits.metrics.distortion import Distortion
from pmbandits.simplex import etc_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pmbandits.simulation.run import Run

# Okabe and Ito's palette; the order also falls from dark to light, for grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
}
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def plot_mixture(metric: Distortion, bandit: Bandit, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """The utility of mixtures of the arms: a line for two arms, a triangle for three, bars beyond.

    Parameters
    ----------
    metric, bandit : what is valued and what can be played.
    ax : where to draw; default a new figure (``ax.figure.savefig("mixture.png")`` writes it).
    title : default names the metric.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> ax = pmb.plot_mixture(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]))
    >>> ax.get_ylabel()
    'utility'
    """
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        if ax is None:
            _, ax = plt.subplots(figsize=(4.8, 3.6))
        best = oracle(metric, bandit)
        draw = {2: _line, 3: _triangle}.get(bandit.n_arms, _bars)
        draw(metric, bandit, best, ax)
        ax.set_title(title if title is not None else f"{metric!r}", pad=16 if bandit.n_arms == 3 else 6)
    return ax


_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)))
_MARKS = ("o", "s", "^", "D", "v", "P")


def plot_regret(run: Run, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Regret of every policy against rounds, on log axes: the mean, with a band of one standard error.

    A policy that was run for several horizons is drawn as points with error bars, one for each horizon.

    Parameters
    ----------
    run : what :func:`simulate` returned.
    ax : where to draw; default a new figure.
    title : default names the metric and the arms.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> run = pmb.simulate(pmb.Bandit.bernoulli([0.4, 0.9]), pmb.GiniDeviation(), pmb.CIRT(), 500, trials=5)
    >>> pmb.plot_regret(run).get_xscale()
    'log'
    """
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        if ax is None:
            _, ax = plt.subplots(figsize=(5.6, 3.8))
        looks = zip(cycle(COLOURS), cycle(_DASHES), cycle(_MARKS), strict=False)
        lowest = np.inf
        for label, (colour, dash, mark) in zip(run.policies, looks, strict=False):
            horizons = run.horizons(label)
            if len(horizons) > 1:
                t = np.array(horizons)
                ends = [run.regret(label, h)[1][:, -1] for h in horizons]
                mean, error = (np.array(x) for x in zip(*(_mean_and_error(e[:, None]) for e in ends), strict=True))
                mean, error = mean[:, 0], error[:, 0]
                bars = np.stack((np.minimum(error, mean * (1.0 - 1e-3)), error)).clip(min=0.0)
                ax.errorbar(t, _positive(mean), yerr=bars, color=colour, ls=dash, marker=mark, ms=5, capsize=3,
                            lw=1.4, label=label)  # fmt: skip
            else:
                t, regret = run.regret(label)
                mean, error = _mean_and_error(regret)
                ax.plot(t, _positive(mean), color=colour, ls=dash, lw=1.8, label=label)
                low = np.maximum(mean - error, mean * 1e-1)
                ax.fill_between(t, _positive(low), _positive(mean + error), color=colour, alpha=0.2, lw=0.0)
            lowest = min(lowest, float(np.nanmin(_positive(mean), initial=np.inf)))
        ax.set_xscale("log")
        if np.isfinite(lowest):
            ax.set_yscale("log")
        else:  # no regret at all
            ax.set_xlim(1.0, max(max(run.horizons(label)) for label in run.policies))
            ax.set_ylim(0.0, 1.0)
        ax.set_xlabel("rounds")
        ax.set_ylabel("regret per round")
        ax.grid(which="major", color="0.9", lw=0.6)
        ax.set_axisbelow(True)
        drawn = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        handles = [drawn[label] for label in run.policies]
        ax.legend(handles, run.policies, fontsize=8.5, handlelength=3.2, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        trials = len(run.trials)
        ax.set_title(title if title is not None else f"{run.spec['metric_text']}, {trials} trials")
    return ax


def save(ax: Axes, path: Path) -> None:
    """Write the figure to a file, in the library's style."""
    import matplotlib.pyplot as plt

    figure = ax.get_figure(root=True)
    assert figure is not None
    path = path if path.suffix else path.with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure.savefig(path)


def _mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    n = values.shape[0]
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1])
    return values.mean(axis=0), error


def _positive(values: FloatArray) -> FloatArray:
    """Log axes show only what is above 0 (and above rounding)."""
    return np.where(values > 1e-15, values, np.nan)


def _share(best: Best) -> str:
    parts = [f"{100 * best.weights[i]:.0f} % {best.names[i]}" for i in np.flatnonzero(best.weights > 0.0)[:3]]
    return " + ".join(parts)


def _line(metric: Distortion, bandit: Bandit, best: Best, ax: Axes) -> None:
    share = np.linspace(0.0, 1.0, 401)
    values = utilities(metric, bandit, np.column_stack((1.0 - share, share)))
    ax.plot(100 * share, values, color=COLOURS[0], lw=2.0, label="mixtures")
    ax.plot([0, 100], values[[0, -1]], "s", color=COLOURS[1], ms=7, label="single arms", clip_on=False, zorder=3)
    label = f"best: {_share(best)}"
    ax.plot(100 * best.weights[1], best.value, "*", color=COLOURS[2], ms=15, label=label, clip_on=False, zorder=4)
    ax.set_xlabel(f"share of pulls given to {bandit.names[1]} (%)")
    ax.set_ylabel("utility")
    ax.margins(y=0.12)
    ax.legend(loc="best", fontsize=9)


def _triangle(metric: Distortion, bandit: Bandit, best: Best, ax: Axes) -> None:
    grid = etc_grid(3, 1 / 60)
    values = utilities(metric, bandit, grid)
    place = grid @ _CORNERS
    drawn = ax.tricontourf(place[:, 0], place[:, 1], values, levels=24, cmap="cividis")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.8, label="utility")
    ax.plot(*np.vstack((_CORNERS, _CORNERS[:1])).T, color="0.25", lw=1.0)
    ax.plot(_CORNERS[:, 0], _CORNERS[:, 1], "s", color=COLOURS[1], ms=7, clip_on=False, label="single arms")
    star: FloatArray = best.weights @ _CORNERS
    label = f"best: {_share(best)}"
    ax.plot(*star, "*", color="white", mec="black", ms=16, clip_on=False, label=label)
    for corner, name, shift in zip(_CORNERS, bandit.names, ((0, -14), (0, -14), (0, 8)), strict=True):
        ax.annotate(name, corner, xytext=shift, textcoords="offset points", ha="center", va="center")
    ax.set_aspect("equal")
    ax.axis("off")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), fontsize=9, ncols=2)


def _bars(metric: Distortion, bandit: Bandit, best: Best, ax: Axes) -> None:
    singles = utilities(metric, bandit, np.eye(bandit.n_arms))
    shown = np.argsort(-singles, kind="stable")[:12]
    names = [*(bandit.names[i] for i in shown), "best mixture"]
    colours = [COLOURS[0]] * shown.size + [COLOURS[2]]
    ax.bar(names, [*singles[shown], best.value], color=colours)
    ax.axhline(best.value, color=COLOURS[2], lw=1.0, ls="--")
    ax.tick_params(axis="x", rotation=60)
    ax.set_ylabel("utility")
