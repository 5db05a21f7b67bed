"""What to do next, in sentences: how many more rows, of what, or which other question to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pmbandits.advice.checks import TAIL_ROBUST_METRICS
from pmbandits.advice.inference import TIE_TOLERANCE, utilities_of_arms
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.advice.numbers import plain_number
from pmbandits.advice.sample_size import round_up_to_two_digits
from pmbandits.advice.sentences import arm_label, arm_list_text, min_sample_size_text, n_rewards_or_units
from pmbandits.metrics.registry import metric as find_metric

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice


def next_step_sentences(advice: Advice) -> str:
    """What to do next, in a sentence or two."""
    step = advice.decision.next_step
    if len(advice.names) == 1:
        return "Collect rows of something else to compare it with."
    few = [advice.names[k] for k in advice.evidence.few]
    if few and advice.decision.kind == "choose":
        each = " of each" if len(few) > 1 else ""
        return (
            f"To compare {arm_list_text(advice, few)} as well, collect at least {min_sample_size_text(advice)}{each}."
        )
    if step.kind == "survival analysis":
        return "Compare these times by survival analysis (Kaplan–Meier, log-rank test). This tool does not do that."
    if step.kind == "recent rows":
        return "Ask again with recent rows only (--since DATE; since= in Python): does it still lead?"
    if step.kind == "ask again" and advice.doubt is not None:
        if advice.doubt.kind == "units":
            say = advice.doubt.change.removeprefix("To allow for that: ").removesuffix(".")
            return (
                f"First ask again: {say}. Until then all values count as independent, so intervals may be too narrow."
            )
        return f"Ask again before you decide. {advice.doubt.change}"
    if step.kind == "nothing":
        return "No more data are needed to decide this."
    if step.kind == "more rewards":
        more = _more_rows_or_units_text(advice, step.rewards)
        if step.or_more:
            return f"With a difference this small you would need about {more}, or still more."
        rough = "the true difference is not known, so this is rough. Ask again then, not after every few rows"
        return f"About {more} may settle it; {rough}."
    if step.kind == "more of some arms" and not set(step.arms) & set(few):
        names = arm_list_text(advice, step.arms)
        outliers = [c for c in advice.decision.caveats if c.kind == "outlier" and c.arms == step.arms]
        if outliers:
            value = plain_number(outliers[0].numbers["reward"])
            return f"Is {value} right? If not, ask again without it; if so, more values of {names} are needed."
        return f"More values of {names} are needed: a few decide how {names} compare{'s' * (len(step.arms) == 1)}."
    if step.kind == "more of some arms":
        counts = ", ".join(
            f"{arm_label(n, advice.log.arm_column)} has {n_rewards_or_units(advice, advice.names.index(n)):,}"
            for n in step.arms[:4]
        )
        each = "each" if len(step.arms) > 1 else arm_label(step.arms[0], advice.log.arm_column)
        return f"First collect at least {min_sample_size_text(advice)} of {each}: {counts}."
    if step.kind == "same time":
        return "Collect rows of all of them in the same period, and over a longer one."
    if step.kind == "other preference":
        offers = ", ".join(text for text, _ in preferences_without_heavy_tails(advice))
        return f"Ask another question of these data{f', such as {offers}' if offers else ''}."
    return "How much more data would settle it cannot be said from these data."


def _more_rows_or_units_text(advice: Advice, more: dict[str, int]) -> str:
    rows, what = advice.log.kept_rows, "more rows"
    if rows is not None and rows.unit is not None:
        what = "new units"
        sizes = {a.name: a.n / max(n_rewards_or_units(advice, k), 1) for k, a in enumerate(advice.arms)}
        more = {name: round_up_to_two_digits(count / sizes[name]) for name, count in more.items()}
    counts, names = set(more.values()), list(more)
    if len(counts) == 1:
        return f"{counts.pop():,} {what} of {'each of ' if len(names) > 1 else ''}{arm_list_text(advice, names)}"
    if len(more) > 4:
        return f"{min(counts):,} to {max(counts):,} {what} of each of the {len(more)} that are closest"
    parts = [f"{count:,} {what} of {arm_label(name, advice.log.arm_column)}" for name, count in more.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def preferences_without_heavy_tails(advice: Advice) -> list[tuple[str, str]]:
    """Preferences that ignore heavy tails and can tell these arms apart, in words and as text; at most three."""
    if not advice.tails:
        return [] if advice.metric.shape == "linear" else [(describe_metric(find_metric("mean")), "mean")]
    both = any(t.upper for t in advice.tails), any(not t.upper for t in advice.tails)
    samples = [arm.whole_sample for arm in advice.log.arms]
    fit = []
    for text in TAIL_ROBUST_METRICS[both]:
        utilities = utilities_of_arms(find_metric(text), samples)
        if float(np.ptp(utilities)) > TIE_TOLERANCE * float(np.abs(utilities).max(initial=0.0)):
            fit.append((describe_metric(find_metric(text)), text))
    return fit[:3]
