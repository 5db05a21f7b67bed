"""How an answer was worked out, in sentences: the notes at its end."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from pmbandits.advice import checks
from pmbandits.advice.sentences import arm_list_text, arm_noun, number_format
from pmbandits.metrics.catalogue import as_written
from pmbandits.supports import Binary

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice


def method_notes(advice: Advice) -> Iterator[str]:
    """How the answer was worked out, one sentence each."""
    yield from general_notes(advice)
    metric, found, written = advice.metric, advice.evidence, number_format(advice)
    if metric.name != "mean":
        of = " of the negated numbers, of which larger ones are better" if advice.loss else ""
        yield f"What you value, as a formula: {as_written(metric)!r}{of}."
    lowest, highest = checks.score_limits_at_zero(advice.support, metric)
    if advice.support_assumed and (isfinite(lowest) or isfinite(highest)) and isfinite(advice.interval[0]):
        side = "below" if isfinite(lowest) else "above"
        yield f"No value {side} 0 was seen, so intervals of the score stop at 0."
    for cost in advice.costs.values():
        yield f"In the data, {cost}."
    if metric.shape == "neither" and len(advice.names) > 4:
        yield "The best mixture was searched for; it is not proved that there is no better one."
    if metric.jumps:
        yield "For this preference small changes of the values can change the score a lot; the bounds allow for that."
    if found.by_bands and not metric.jumps:
        yield f"Compared by confidence bands only: {arm_list_text(advice, [advice.names[j] for j in found.by_bands])}."
    if all(map(isfinite, advice.bounds)):
        ends = written.interval_text(advice.bounds)
        yield (
            f"With probability {100 * advice.level:g} % the recommendation truly scores {ends}, whatever the "
            "distributions are inside the declared range."
        )
    if len(advice.mixture) > 1:
        if found.divisions:
            yield f"The gain of mixing is held-out: some rows choose, the others measure, {found.divisions} times."
        noun = arm_noun(advice)
        yield (
            f"A mixture means that each time one {noun} is chosen, and that in the long run each gets its share. It "
            "does not mean to split an amount of money within one time."
        )
    yield from unchecked_assumptions(advice)


def is_weighted(advice: Advice) -> bool:
    """Whether rows have weights, or chances with which they were chosen."""
    return any(arm.squares is not None for arm in advice.log.arms)


def weights_text(advice: Advice) -> str:
    """How many rows there are, and to how many of equal weight they amount."""
    log, chances = advice.log, advice.log.by_propensity
    how = f"by the chance with which each {arm_noun(advice)} was chosen" if chances else "by their own column"
    worth = f"about {log.n_outcomes:,} rows {'chosen evenly' if chances else 'of equal weight'}"
    return f"{log.used:,} rows, weighted {how}; that is worth {worth}, which the table counts."


def unchecked_assumptions(advice: Advice) -> Iterator[str]:
    """What could not be checked, whatever the preference."""
    kept_rows, noticed = advice.log.kept_rows, {finding.kind for finding in advice.log.findings}
    if (kept_rows is None or kept_rows.time is None) and "times" not in noticed:
        yield "Not checked, because no time column was named (--time): whether values changed over time."
    if (kept_rows is None or kept_rows.unit is None) and "units" not in noticed:
        yield "Not checked, because no unit column was named (--unit): whether rows are of the same person or place."


def general_notes(advice: Advice) -> Iterator[str]:
    """Notes that do not depend on the metric."""
    log = advice.log
    if advice.loss:
        yield "The numbers are losses: smaller is better. Tables show them as they are in the data."
    if is_weighted(advice):
        yield weights_text(advice)
    if isinstance(advice.support, Binary) and advice.family == 1:
        yield "All values are 0 or 1."
    if log.per is not None:
        period = "value of the time column" if log.per == "time" else log.per
        yield (
            f"One reward is the average in one {period}: {log.used:,} rows became {log.n_outcomes:,} rewards. A "
            f"mixture means that in each {period} one {arm_noun(advice)} is chosen alone."
        )
    rows = log.kept_rows
    if rows is not None and rows.unit is not None:
        yield f"Rows belong to {np.unique(rows.unit).size:,} units; standard errors are between units."
    if rows is not None and rows.block is not None:
        blocks = np.unique(rows.block).size
        yield f"Standard errors are between {blocks} blocks of time, because values may depend on those before them."
    if rows is not None and rows.time is not None and not advice.drift:
        yield "Values did not change over time beyond chance."
    summarised = [arm for arm in log.arms if arm.error > 0.0]
    if summarised:
        worst = max(arm.error for arm in summarised)
        yield (
            f"{len(summarised)} of {len(log.arms)} arms have so many different rewards that they were summarised; "
            f"shares are off by at most {worst:.2g}, which is allowed for."
        )
    if advice.family > 1:
        yield f"{advice.family} preferences were tested at once, and the verdicts allow for that (Holm's rule)."
