"""Advice in words: sentences and cells of tables, all of them from numbers that are decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from pmbandits.advice.statistics import TIE, Resampled
from pmbandits.logs import Log
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Interval, Real, Support

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice

SHOWN = 8  # arms in words


def general_notes(log: Log, support: Support, assumed: bool, loss: bool) -> tuple[str, ...]:
    """Notes that do not depend on the metric."""
    notes = []
    if loss:
        notes.append("The numbers are losses: they were negated, so that larger is better.")
    if assumed and isinstance(support, Interval):
        notes.append(
            f"Rewards are taken to lie between {support.lo:g} and {support.hi:g}, the range seen; the valid intervals "
            "hold if none can fall outside: declare the support if you know it."
        )
    summarised = [arm for arm in log.arms if arm.error > 0.0]
    if summarised:
        worst = max(arm.error for arm in summarised)
        notes.append(
            f"{len(summarised)} of {len(log.arms)} arms have so many different rewards that they were summarised; "
            f"shares are off by at most {worst:.2g}, which the intervals include."
        )
    return tuple(notes)


def notes_on(metric: Distortion, log: Log, support: Support, bounded: bool, drawn: Resampled | None) -> list[str]:
    """Notes on the metric and on the resampling."""
    notes = []
    if isinstance(support, Real) and not bounded:
        notes.append(f"{metric!r} has no valid interval for rewards without limits: declare a range, Interval(lo, hi).")
    if metric.shape in ("convex", "linear") and len(log.arms) > 1:
        notes.append(f"h is {metric.shape}: for this preference no mixture can be better than the best single arm.")
    if metric.jumps:
        notes.append("h has jumps, where standard errors say little: only the bands can call a gain real.")
    if metric.shape == "neither":
        notes.append("h is neither convex nor concave: the best mixture was searched for, without a certificate.")
    if drawn is not None:
        notes.append(f"Resampling: {drawn.best.size} times within each arm; {drawn.how}.")
    return notes


def reason(advice: Advice) -> str:
    """Whether the recommendation is beyond chance."""
    surely = f"at {100 * advice.level:g} %"
    if len(advice.names) == 1:
        return "There is only one arm."
    if advice.verdict == "single arm":
        others = [a for a in advice.arms if a.share == 0.0]
        next_best = max(others, key=lambda a: a.utility)
        lead = f"{next_best.name} with {next_best.utility:.4g}"
        if advice.lead <= TIE * abs(advice.value):
            return f"A single arm is enough; {next_best.name} is worth the same in the data."
        if advice.proven:
            how = (
                "wherever the arms lie in their bands"
                if advice.lead_interval[0] > 0.0
                else "chosen on one half of the rewards, it was ahead on the other half by more than chance allows"
            )
            return f"A single arm is best, and surely ahead of every other ({surely}: {how}); next is {lead}."
        return f"A single arm is best in the data, but its lead over {lead} could be noise."
    gained = f"The gain of {advice.gain:.3g} over {advice.best_arm} alone ({advice.best_arm_value:.4g})"
    if advice.verdict == "could be noise":
        return (
            f"{gained} could be noise ({surely}): the arms' bands allow for none, and a mixture chosen on one half of "
            "the rewards is not surely ahead on the other half."
        )
    if advice.gain_interval[0] > 0.0:
        return f"{gained} is real: it is at least {advice.gain_interval[0]:.3g} wherever the arms lie in their bands."
    test = advice.held_out
    if test is not None and test.lower > 0.0:
        return (
            f"{gained} is real: a mixture chosen on one half of the rewards beat every single arm on the other half "
            f"by {test.gain:.3g}, and by at least {test.lower:.3g} beyond chance."
        )
    return f"{gained} is real ({surely})."


def verdict(advice: Advice) -> str:
    """The verdict, short enough for a table."""
    if advice.verdict == "single arm":
        return "one arm" if advice.proven or len(advice.names) == 1 else "one arm, close"
    return advice.verdict


def shares(mixture: dict[str, float]) -> str:
    """A mixture, such as ``60 % a + 40 % b``; a single arm by its name."""
    if len(mixture) == 1:
        return next(iter(mixture))
    ordered = sorted(mixture.items(), key=lambda pair: -pair[1])
    text = " + ".join(f"{percent(share)} {name}" for name, share in ordered[:SHOWN])
    return text + (f" + {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else "")


def percent(share: float) -> str:
    """A share in percent; a dash for none."""
    if share == 0.0:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def counts(more: dict[str, int]) -> str:
    """How many more rewards of which arms."""
    different = set(more.values())
    names = list(more)
    if len(different) == 1:
        count = different.pop()
        listed = " and ".join(names) if len(names) < 3 else f"{', '.join(names[:4])}{' …' if len(names) > 4 else ''}"
        return f"{count:,} more rewards of {'each of ' if len(names) > 1 else ''}{listed}"
    parts = [f"{count:,} of {name}" for name, count in list(more.items())[:4]]
    return f"{', '.join(parts)}{' …' if len(more) > 4 else ''} more rewards"


def span(interval: tuple[float, float]) -> str:
    """An interval with its two ends."""
    return f"{interval[0]:.4g} … {interval[1]:.4g}" if all(map(isfinite, interval)) else "no bounds"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of text, one column below the other."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
