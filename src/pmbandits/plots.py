"""Pictures, in one style: colour-blind safe, readable in grey, returned as matplotlib objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.best import Best, oracle, utilities
from pmbandits.metrics.distortion import Distortion
from pmbandits.simplex import etc_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
