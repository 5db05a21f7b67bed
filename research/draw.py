"""Style of all figures of the page: series differ by colour, dash and mark, so that grey print will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: safe for colour-blind people, and from dark to light, for grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "0.45"
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
PAGE_STYLE: dict[Any, Any] = {
    **STYLE,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.fontsize": 8.5,
    "legend.handlelength": 3.0,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "savefig.bbox": "standard",  # the layout engine leaves no margin to cut off
    "svg.fonttype": "path",
    "svg.hashsalt": "pmbandits",
}


class Look(NamedTuple):
    """Colour, dash and mark of one series."""

    colour: str
    dash: Any
    mark: str


LOOKS = tuple(
    Look(*look)
    for look in zip(COLOURS, ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1))), "os^DvP", strict=True)
)
# An algorithm looks alike in all figures; where figures compare settings of one, they take the looks in order.
ETC, UCB, ZOOM, FIXED, PAPER, MEAN = LOOKS
TRACK = Look("black", "-", "*")
BASELINE = Look(GREY, (0, (1, 1)), "x")


@contextmanager
def canvas(columns: int = 1, rows: int = 1, *, width: float = 4.0, height: float = 3.2) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes (always a flat array), in the style of the page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(PAGE_STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        yield figure, axes


def points(ax: Axes, x: ArrayLike, y: Sequence[Any], look: Look, label: str, **more: Any) -> None:
    """Means (objects with ``value`` and ``error``) with bars of one standard error."""
    values = np.array([m.value for m in y])
    errors = np.nan_to_num(np.array([m.error for m in y]))
    below = errors if ax.get_yscale() == "linear" else np.minimum(errors, 0.9 * values.clip(min=0.0))
    ax.errorbar(
        x, values, yerr=np.stack((below, errors)), color=look.colour, ls=look.dash, marker=look.mark, ms=5, capsize=3,
        lw=1.5, label=label, **more,
    )  # fmt: skip


def band(ax: Axes, x: ArrayLike, values: np.ndarray[Any, Any], look: Look, label: str) -> None:
    """The mean over trials (rows) as a line, with a band of one standard error."""
    middle = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros_like(middle)
    middle = np.where(middle > 1e-15, middle, np.nan)
    ax.plot(x, middle, color=look.colour, ls=look.dash, lw=1.8, label=label)
    low = np.maximum(middle - error, 0.1 * middle) if ax.get_yscale() == "log" else middle - error
    ax.fill_between(x, low, middle + error, color=look.colour, alpha=0.2, lw=0.0)


def number_axis(ax: Axes, ticks: Sequence[float], axis: str = "x", *, unit: float = 1.0) -> None:
    """Plain numbers, in this unit, at these places of a log axis, and nothing between."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(FixedLocator(list(ticks)))
    which.set_major_formatter(FixedFormatter([f"{t / unit:,g}" for t in ticks]))
    which.set_minor_locator(NullLocator())
