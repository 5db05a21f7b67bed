"""Colours of arms: one palette for pictures, reports and pages, so that an arm looks the same everywhere.

An arm has its colour by its place in the list of all arms, whichever of them are drawn.
"""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette: safe for colour-blind people. The order also falls from dark to light, for grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Lines and marks that tell curves apart without colour.
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)))
MARKS = ("o", "s", "^", "D", "v", "P")
MIXTURE = "#404040"  # the mixture itself, which is no arm
_SHADES = (0.0, -0.38, 0.42)  # how much darker (below 0) or lighter (above) the colours are in each turn


def arm_colour(place: int) -> str:
    """The colour of the arm at a place: 18 that differ, then they begin anew.

    >>> arm_colour(0), arm_colour(6), arm_colour(18)
    ('#0072B2', '#00476E', '#0072B2')
    """
    turn = _SHADES[place // len(COLOURS) % len(_SHADES)]
    base = COLOURS[place % len(COLOURS)]
    if turn == 0.0:
        return base
    parts = [int(base[k : k + 2], 16) for k in (1, 3, 5)]
    shaded = [round(p * (1.0 + turn)) if turn < 0.0 else round(p + (255 - p) * turn) for p in parts]
    return "#" + "".join(f"{p:02X}" for p in shaded)


def arm_line_style(place: int) -> Any:
    """The line of the arm at a place, as matplotlib takes it: in another turn of the colours it is another one."""
    return DASHES[(place + place // len(COLOURS)) % len(DASHES)]
