"""The one style of all pictures, and how it is put on and taken off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmbandits._extras import import_optional
from pmbandits._validation import short_repr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


@contextmanager
def pyplot_in_library_style(settings: Mapping[Any, Any] = STYLE) -> Iterator[Any]:
    """Draw in this style: gives ``matplotlib.pyplot``, and puts back afterwards exactly the settings that it changed.

    matplotlib's own ``rc_context`` puts back *all* settings. The first figure of a notebook chooses how figures are
    shown (``interactive`` and others); ``rc_context`` would undo that, and no later figure would appear.
    """
    plt = import_optional("matplotlib.pyplot", "pictures")
    current = plt.rcParams
    before = {key: current[key] for key in settings}
    current.update(settings)
    try:
        yield plt
    finally:
        current.update(before)


def save_figure(figure: Figure, path: str | Path | None) -> None:
    """Write the figure to a file in the library's style, if there is a file to write to."""
    if path is not None:
        file = Path(path)
        file = file if file.suffix else file.with_suffix(".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        with pyplot_in_library_style():
            figure.savefig(file)


@contextmanager
def axes_in_library_style(ax: Axes | None, size: tuple[float, float], path: str | Path | None) -> Iterator[Axes]:
    """Axes to draw on in the library's style: the given ones, or those of a new figure; afterwards they are saved."""
    with pyplot_in_library_style() as plt:
        if isinstance(ax, (str, Path)):
            raise TypeError(
                f"ax must be axes of matplotlib, got {str(ax)!r}; to save the picture, give path={str(ax)!r}."
            )
        if ax is not None and not hasattr(ax, "plot"):
            raise TypeError(f"ax must be axes of matplotlib, got {short_repr(ax)}; of a figure give ax=figure.gca().")
        axes: Axes = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
        yield axes
    if path is not None:
        figure = axes.get_figure(root=True)
        assert figure is not None
        save_figure(figure, path)
