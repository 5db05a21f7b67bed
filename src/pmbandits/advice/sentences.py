"""Advice in sentences: the decision, its size, how sure it is, and why.

All numbers are decided elsewhere. Sentences say losses in their own sign, and arms by the names that the user gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from pmbandits.advice.decision import Difference
from pmbandits.advice.inference import TIE_TOLERANCE
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.advice.numbers import NumberFormat, format_two_digits, plain_number, share_in_percent
from pmbandits.advice.problem import FEWEST_FOR_STANDARD_ERRORS, FEWEST_UNITS
from pmbandits.logs import is_time_without_direction

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice, ArmAdvice
    from pmbandits.logs import Finding
    from pmbandits.metrics.distortion import Distortion

MOST_ARMS_NAMED = 8  # arms in words
_COMMON_WORDS = {
    "all", "best", "both", "control", "current", "default", "first", "new", "none", "off", "old", "on", "other", "same",
    "standard",
}  # fmt: skip


# ---- the answer -----------------------------------------------------------------------------------------


def recommendation_sentence(advice: Advice) -> str:
    """The headline: one of three, as far as the evidence allows; for one arm, and for limits, with a word on that."""
    what = mixture_text(advice.mixture, advice.log.arm_column)
    limited = ", within your limits" if advice.limits is not None else ""
    column = advice.log.reward_column
    if advice.direction_assumed and not advice.loss and is_time_without_direction(column):
        limited += f", if more {column} is better"
    if len(advice.names) == 1:
        return f"There is only one {arm_noun(advice)}, {what}: nothing to choose from."
    if advice.decision.kind == "choose":
        return f"Choose {what}{limited}."
    if settled_but_for_arms_set_aside(advice):
        beaten, verb = arm_list_text(advice, advice.decision.beaten), "beats" if len(advice.mixture) == 1 else "beat"
        ahead = f"{what} {verb} {beaten}" if advice.decision.claim == "better" else f"{what} leads"
        return f"{ahead}{limited}; {_open_arms_text(advice, advice.decision.set_aside)}"
    if advice.decision.kind == "leads":
        leads = "leads" if len(advice.mixture) == 1 else "lead"
        return f"{what} {leads}{limited}, but the data do not settle it."
    return f"These data cannot tell which {arm_noun(advice)} is best{limited}."


def reason_sentences(advice: Advice) -> str:
    """The size of the difference with its interval, and how sure it is."""
    if len(advice.names) == 1:
        return f"Its {score_name(advice)} is {number_format(advice).text_with_unit(advice.value)}."
    if advice.tied:
        return _why_arms_are_tied_text(advice)
    found = advice.decision.difference
    if found is None or any(tail.may_lack_mean for tail in advice.tails):
        names = [advice.names[t.arm] for t in advice.tails if t.may_lack_mean] or list(advice.names)
        whose = arm_list_text(advice, list(dict.fromkeys(names)))
        return f"The values of {whose} have no stable {score_name(advice)}: a few are so large that they decide it."
    said = [_size_of_difference_text(advice, found)]
    if advice.decision.kind == "choose" or settled_but_for_arms_set_aside(advice):
        said.append(_certainty_text(advice))
    elif advice.inconclusive:
        said.append("When the rows came does not allow to compare them.")
    elif advice.tails:
        said.append("A few very large values decide that, and the next one of this size could change it.")
    else:
        said.append(_beaten_and_open_arms_text(advice))
    return " ".join(part for part in said if part)


def _size_of_difference_text(advice: Advice, found: Difference) -> str:
    """How much better the recommendation is than what stands next to it."""
    written = number_format(advice)
    rival, score = arm_label(found.rival, advice.log.arm_column), score_name(advice)
    what = mixture_text(advice.mixture, advice.log.arm_column) if len(advice.mixture) == 1 else "the mixture"
    between = f" (95 % interval: {written.interval_text(found.interval)})".replace("95", f"{100 * advice.level:g}", 1)
    settled = len(advice.mixture) == 1 or advice.decision.kind == "choose"  # else it was picked for its lead
    between = between if settled and all(map(isfinite, found.interval)) else ""
    values = [a.utility for a in advice.arms if a.name == found.rival]
    ours, alone = written(advice.score), " alone" if len(advice.mixture) > 1 else ""
    spread = float(advice.metric(1.0)) == 0.0
    smaller = f", and {'larger' if spread else 'smaller'} is better" if advice.loss else ""
    if abs(found.value) <= TIE_TOLERANCE * max(abs(advice.apparent), 1e-300):
        return f"By the {score}, {what} and {rival}{alone} are equal: {ours}."
    size = written.text_with_unit(found.value)
    size = f"{size.removesuffix('%')}percentage points" if written.unit == "%" else size
    more = f"{size} better than {rival}{alone}{between}"
    if advice.evidence.held_out and isfinite(advice.apparent_gain):
        whole = written(advice.apparent_gain)
        more += f" when checked on rows that were not used to choose ({whole} on all rows)"
    against = f"it has {written.text_with_unit(advice.score)}" if alone else f"{ours} against {written(values[0])}"
    matters = _does_difference_matter_text(advice, found, written)
    against += f"{smaller}{_percent_text(advice, found)}"
    return f"By the {score}, {what} is {more}: {against}.{_arms_left_out_text(advice, found)}{matters}"


def _percent_text(advice: Advice, found: Difference) -> str:
    """The difference in percent of the rival's score, where that has a sense."""
    theirs = next(a.utility for a in advice.arms if a.name == found.rival)
    spread = float(advice.metric(1.0)) == 0.0
    if min(theirs, advice.score) <= 0.0 or spread or advice.log.measured_in == "%" or len(advice.mixture) > 1:
        return ""
    if advice.decision.kind == "cannot tell":
        return ""
    if found.value > 10.0 * theirs:  # hardly more than nothing is no measure
        return ""
    return f" ({format_two_digits(100.0 * found.value / theirs)} % {'less' if advice.loss else 'more'})"


def settled_but_for_arms_set_aside(advice: Advice) -> bool:
    """Whether the lead over all arms that could be compared is beyond chance, and only arms set aside are open."""
    other = advice.drift or advice.censored or advice.doubt
    return bool(advice.decision.set_aside) and advice.sure != "unclear" and not other


def _open_arms_text(advice: Advice, names: Sequence[str]) -> str:
    """That arms are open because a few of their values decide, and what one would score without its largest."""
    outliers = {caveat.arms[0]: caveat.numbers for caveat in advice.decision.caveats if caveat.kind == "outlier"}
    listed, are = arm_list_text(advice, names), "are" if len(names) > 1 else "is"
    if len(names) > 1 or names[0] not in outliers:
        return f"{listed} {are} open: a few values decide."
    value, without = outliers[names[0]]["reward"], number_format(advice)(outliers[names[0]]["without"])
    return f"{listed} is open: one value ({plain_number(value)}) decides. Without it {listed} is {without}."


def _arms_left_out_text(advice: Advice, found: Difference) -> str:
    """Which arms were left out, and why, if one of them scores more than the arm compared with."""
    evidence = advice.evidence
    least = evidence.arm_utilities[advice.names.index(found.rival)]
    ahead = {k for k in evidence.left_out if evidence.arm_utilities[k] > least}
    if not ahead or len(advice.mixture) > 1:
        return ""
    said, few = "", [k for k in advice.by_share() if k in evidence.few and k in evidence.left_out]
    if ahead & set(few):
        counts = sorted(n_rewards_or_units(advice, k) for k in few)
        what = min_sample_size_text(advice).partition(" ")[2]
        what = what.replace("units", "unit").replace("rows", "row") if counts[-1] == 1 else what
        number = f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,}–{counts[-1]:,}"
        have, are = ("have", "each and are") if len(few) > 1 else ("has", "and is")
        said = f" {arm_list_text(advice, [advice.names[k] for k in few])} {have} {number} {what} {are} left out."
    wild = [name for name in advice.decision.set_aside if advice.names.index(name) in ahead]
    if wild and not settled_but_for_arms_set_aside(advice):
        said += f" {_open_arms_text(advice, wild)}"
    return said


def same_period_sentence(advice: Advice) -> str:
    """Which arm is best over the time that all of them have; empty if that is not known."""
    rows = advice.log.kept_rows
    if rows is None or rows.time is None or len(advice.mixture) > 1:
        return ""
    times = [rows.time[(rows.arm == k) & np.isfinite(rows.time)] for k in range(len(advice.names))]
    if not all(mine.size for mine in times):
        return ""
    start, end = max(mine.min() for mine in times), min(mine.max() for mine in times)
    inside = (rows.time >= start) & (rows.time <= end)
    values = [rows.reward[inside & (rows.arm == k)] for k in range(len(advice.names))]
    if min(mine.size for mine in values) < FEWEST_FOR_STANDARD_ERRORS:
        return ""
    scores = [advice.metric.value(mine, np.full(mine.size, 1.0 / mine.size)) for mine in values]
    best, ours = int(np.argmax(scores)), advice.names.index(next(iter(advice.mixture)))
    best_name, our_name = (arm_label(advice.names[k], advice.log.arm_column) for k in (best, ours))
    if best == ours:
        return f"Over the time that all of them have, {our_name} is the best in the data, too."
    theirs, mine_now = (number_format(advice)(advice.shown_score(scores[k])) for k in (best, ours))
    return f"Over the time that all of them have, {best_name} is better: {theirs} against {mine_now} of {our_name}."


def _does_difference_matter_text(advice: Advice, found: Difference, written: NumberFormat) -> str:
    """Whether the difference is as large as the smallest one that matters to the user."""
    if not advice.matters:
        return ""
    least = written.text_with_unit(advice.matters)
    if found.matters is None:
        return f" Whether it reaches the {least} that matter to you is not settled."
    return f" That is {'at least' if found.matters else 'less than'} the {least} that matter to you."


def doubt_text(doubt: Finding) -> str:
    """What keeps an answer from being settled, after a sentence on how large a difference is."""
    return f"But mind: {doubt.seen[:1].lower()}{doubt.seen[1:]}"


def _certainty_text(advice: Advice) -> str:
    left_out = {advice.names[k] for k in advice.evidence.left_out}
    others = [name for name in advice.names if name not in advice.mixture and name not in left_out]
    noun = arm_noun(advice)
    if advice.limits is not None:
        rivals = f"everything else that the limits allow ({advice.limits})"
    elif len(advice.mixture) > 1:
        rivals = f"every single {noun}"
    else:
        rivals = arm_label(others[0], advice.log.arm_column) if len(others) == 1 else f"every other {noun}"
    rivals += " that could be compared" if left_out and len(others) != 1 else ""
    if advice.decision.claim != "better":
        return _not_worse_text(advice, others)
    if advice.sure == "surely":
        wrong = _error_level_text(advice)
        return f"It is better than {rivals} beyond chance: such a verdict is wrong in at most {wrong} of cases."
    return f"It is better than {rivals} beyond chance, if values go on as they were."


def _not_worse_text(advice: Advice, others: Sequence[str]) -> str:
    """What is shown if an arm is chosen because no other is better by more than what matters."""
    least, noun = number_format(advice).text_with_unit(advice.matters), arm_noun(advice)
    rival = arm_label(others[0], advice.log.arm_column) if len(others) == 1 else f"no other {noun}"
    what = mixture_text(advice.mixture, advice.log.arm_column)
    if advice.decision.claim == "equivalent":
        alike = f"{what} and {rival} differ" if len(others) == 1 else f"{what} and the others differ"
        return f"{alike} by less than {least}, beyond chance. So it hardly matters which one is taken."
    is_not = "is not" if len(others) == 1 else "is"
    shown = f"{rival[0].upper()}{rival[1:]} {is_not} better by more than {least}, beyond chance."
    return f"{shown} Whether {what} itself is better is not settled."


def _beaten_and_open_arms_text(advice: Advice) -> str:
    """Which arms are beaten, and which could still be as good."""
    decision = advice.decision
    if advice.censored:
        return "But some of these times were still going on, so this comparison can mislead."
    if advice.sure != "unclear" and advice.drift:
        return "That is beyond chance over the whole time, but values changed over time."
    if advice.sure != "unclear" and advice.doubt:
        return f"That would be beyond chance. {doubt_text(advice.doubt)}"
    if advice.limits is not None:
        return f"Whether that is the best that the limits allow ({advice.limits}) could be chance."
    beaten, rivals = [name for name in decision.beaten if name not in decision.open], _arms_not_beaten_alone(advice)
    if others := [pair for pair in advice.told_apart if pair[1] not in decision.beaten]:
        chance = _chance_text(advice, rivals) if decision.kind == "cannot tell" else ""
        are = "are" if len(beaten) > 1 else "is"
        worse = f"{arm_list_text(advice, beaten)} {are} clearly worse." if beaten else ""
        return " ".join(part for part in (chance, worse, _pairs_told_apart_text(advice, others)) if part)
    ahead = f"It is better than {arm_list_text(advice, beaten)} beyond chance. " if beaten else ""
    if len(advice.mixture) > 1:
        return f"{ahead}That this mixture is better than one {arm_noun(advice)} alone could be chance."
    if decision.kind == "leads":
        return f"{ahead}But {arm_list_text(advice, rivals)} could still be as good."
    chance = _chance_text(advice, rivals)
    if not beaten:
        return chance
    are = "are" if len(beaten) > 1 else "is"
    return f"{chance} {arm_list_text(advice, beaten)} {are} clearly worse; among the others the data cannot tell."


def _pairs_told_apart_text(advice: Advice, pairs: Sequence[tuple[str, str]]) -> str:
    """Which arms are worse than which others: those that are worse than most first."""
    better_than: dict[str, list[str]] = {}
    for better, worse in pairs:
        better_than.setdefault(worse, []).append(better)
    groups: dict[tuple[str, ...], list[str]] = {}
    for worse in sorted(better_than, key=lambda name: -len(better_than[name])):
        groups.setdefault(tuple(better_than[worse]), []).append(worse)
    said = [
        f"{arm_list_text(advice, worse)} {'are' if len(worse) > 1 else 'is'} worse than {arm_list_text(advice, better)}"
        for better, worse in list(groups.items())[:3]
    ]
    said = [", ".join(said[:-1]), said[-1]] if len(said) > 1 else said
    return f"Beyond chance, {', and '.join(said)}; among the others the data cannot tell."


def _arms_not_beaten_alone(advice: Advice) -> list[str]:
    """The arms beside which, if there were no others, the lead could be chance."""
    found, alpha = advice.evidence, 1.0 - advice.level
    close = [advice.names[m.rival] for m in found.margins if 2.0 * advice.family * m.p_value > alpha]
    left_out = {advice.names[k] for k in found.left_out}
    return [name for name in advice.decision.open if name in close] or [
        name for name in advice.decision.open if name not in left_out
    ]


def _chance_text(advice: Advice, rivals: Sequence[str]) -> str:
    """That the difference could be chance: that to the rival that was named, or to the one that is in the way."""
    named, closest = advice.decision.difference, advice.evidence.closest_rival
    if named is None or abs(named.value) <= TIE_TOLERANCE * max(abs(advice.apparent), 1e-300):
        return ""
    if closest is None or named.rival in rivals:
        return "A difference like this is often seen by chance alone."
    written, name = number_format(advice), arm_label(advice.names[closest.rival], advice.log.arm_column)
    size = f"{written.text_with_unit(closest.gain)} ({written.interval_text(closest.interval(advice.level))})"
    return f"But beside {name} the difference is {size}, which is often seen by chance alone."


def _why_arms_are_tied_text(advice: Advice) -> str:
    """Why a preference cannot tell the arms apart."""
    written, score = number_format(advice), score_name(advice)
    unit = f" {written.unit}" if written.unit else ""
    said = f"All have the same {score}: {float(f'{advice.apparent:.4g}'):,.10g}{unit}."
    value, share = advice.log.most_common_reward()
    value = advice.shown(value)
    alone = value * float(advice.metric(1.0))  # what an arm is worth that always pays this
    if share < 0.5 or abs(advice.apparent - alone) > TIE_TOLERANCE * max(abs(alone), abs(advice.apparent)):
        return said
    rows = "Every value is" if share == 1.0 else f"At least {floor(100 * share):d} % of the values of each are"
    looks = "" if share == 1.0 or advice.metric.shape == "linear" else ", and this preference looks at no others"
    return f"{said} {rows} {plain_number(value)}{looks}."


def price_sentence(advice: Advice) -> str:
    """What the recommendation costs by the plain average, in a sentence; empty if it costs nothing."""
    means = _averages_given_and_best(advice)
    if means is None:
        return ""
    (given, best), written = means, average_format(advice)
    percent = given > 0.0 and not advice.loss and advice.log.measured_in != "%"
    less = f" ({format_two_digits(100 * (1 - given / best.mean))} % less)" if percent else ""
    name = arm_label(best.name, advice.log.arm_column)
    ours, theirs = (written.text_with_unit(mean) for mean in (given, best.mean))
    return f"It costs something by the plain average: {ours} instead of {theirs} with {name}{less}."


def _averages_given_and_best(advice: Advice) -> tuple[float, ArmAdvice] | None:
    """The average that the recommendation gives, and the arm with the best one; ``None`` if nothing is given up."""
    if advice.tied or advice.metric.shape == "linear" or any(tail.may_lack_mean for tail in advice.tails):
        return None
    compared = [a for k, a in enumerate(advice.arms) if k not in {*advice.evidence.left_out, *advice.evidence.few}]
    best = max(compared or advice.arms, key=lambda a: advice.shown(a.mean))
    given = sum(a.share * a.mean for a in advice.arms)
    if advice.shown(best.mean - given) <= _standard_error_of_cost(advice, best.name):  # it could be nothing
        return None
    return given, best


def _standard_error_of_cost(advice: Advice, best: str) -> float:
    """The standard error of the difference between the average of an arm and that of the recommendation."""
    variance = 0.0
    for arm, log in zip(advice.arms, advice.log.arms, strict=True):
        share, sample = arm.share - (arm.name == best), log.whole_sample
        variance += share**2 * float(sample.p @ (sample.x - sample.x @ sample.p) ** 2) / sample.n
    return sqrt(variance)


def average_format(advice: Advice) -> NumberFormat:
    """How plain averages are written: fine enough for what the recommendation costs by them, if it costs something."""
    means, written = _averages_given_and_best(advice), number_format(advice)
    if means is None:
        return written
    return NumberFormat.for_resolution([0.1 * (means[1].mean - means[0])], advice.log.measured_in)


# ---- words and numbers ----------------------------------------------------------------------------------


def number_format(advice: Advice) -> NumberFormat:
    """How the numbers of an answer are written: two digits of how far the difference (or else an arm) may be off."""
    found = advice.decision.difference
    known = found is not None and isfinite(found.interval[0]) and found.interval[1] > found.interval[0]
    ends = [found.interval] if found is not None and known else [a.interval for a in advice.arms]
    sizes = [0.5 * (high - low) for low, high in ends]
    if found is not None and known and found.value:  # one digit more than that if the difference would become 0
        sizes = [max(min(sizes[0], 10.0 * abs(found.value)), 0.1 * sizes[0])]
    if not any(isfinite(size) and size > 0.0 for size in sizes):
        sizes = [0.1 * found.value] if found is not None and found.value else [0.01 * a.utility for a in advice.arms]
    written = NumberFormat.for_resolution(sizes, advice.log.measured_in)
    others = [a.utility for a in advice.arms if found is not None and a.name == found.rival]
    if found is not None and others and len(advice.mixture) == 1 and isfinite(advice.score):
        ours, theirs, lead = (round(x, written.decimals) for x in (advice.score, others[0], found.value))
        if abs(abs(ours - theirs) - lead) > 0.1 * lead:  # 3 better, but 74 against 76
            written = replace(written, decimals=written.decimals + 1)
    return written


def score_name(advice: Advice) -> str:
    """What the score is called: the metric in words, without an article."""
    title = metric_title(advice.metric, advice.loss).removeprefix("the ").replace("plain average", "average")
    return f"weighted sum ({title})" if title[:1].isdigit() else title


def metric_title(metric: Distortion, loss: bool = False) -> str:
    """The metric in a few words, for a table or a title."""
    return describe_metric(metric, loss).partition(":")[0]


def arm_noun(advice: Advice) -> str:
    """What an arm is called: the column that says it, if that consists of plain words."""
    column = advice.log.arm_column.replace("_", " ")
    return column if column.replace(" ", "").isalpha() and len(column) <= 20 else "arm"


def arm_label(name: str, column: str = "") -> str:
    """An arm's name in a sentence: a number, or a word such as yes, gets the name of its column, or quotation marks.

    >>> arm_label("DL", "carrier"), arm_label("1", "group"), arm_label("yes", "coupon"), arm_label("20 % coin")
    ('DL', 'group 1', 'coupon yes', '“20 % coin”')
    >>> arm_label("new", "therapy")
    '“new”'
    """
    if name in _COMMON_WORDS:
        return f"“{name}”"
    if not name[:1].isdigit() and name.lower() not in ("yes", "no", "true", "false", "ja", "nein"):
        return name
    return f"{column} {name}" if column and column != "arm" else f"“{name}”"


def mixture_text(mixture: dict[str, float], column: str = "") -> str:
    """A mixture, such as ``60 % a + 40 % b``; a single arm by its name."""
    if len(mixture) == 1:
        return arm_label(next(iter(mixture)), column)
    ordered = sorted(mixture.items(), key=lambda pair: -pair[1])
    text = " + ".join(
        f"{share_in_percent(share)} {arm_label(name, column)}" for name, share in ordered[:MOST_ARMS_NAMED]
    )
    return text + (f" + {len(ordered) - MOST_ARMS_NAMED} more" if len(ordered) > MOST_ARMS_NAMED else "")


def short_verdict(advice: Advice) -> str:
    """The verdict, short enough for a table or a badge."""
    if len(advice.names) == 1:
        return "only one"
    return {"choose": "settled", "leads": "not settled", "cannot tell": "cannot tell"}[advice.decision.kind]


def comparison_cells(advice: Advice) -> tuple[str, str, str, str]:
    """A row of a table of several answers: what is best, than what, by how much, and the verdict."""
    found = advice.decision.difference
    if found is None or advice.tied:
        best = "all the same" if advice.tied else mixture_text(advice.mixture, advice.log.arm_column)
        return best, "–", "–", short_verdict(advice)
    best = mixture_text(advice.mixture, advice.log.arm_column)
    return best, found.rival, number_format(advice)(found.value), short_verdict(advice)


def arm_table_header(advice: Advice) -> tuple[str, ...]:
    """The names of the columns of the table of arms."""
    unit = f" ({advice.log.measured_in})" if advice.log.measured_in else ""
    level = f"{100 * advice.level:g} % interval"
    last = "share" if len(advice.mixture) > 1 or advice.tied else ""
    score = [] if advice.metric.name == "mean" else [f"{score_name(advice)}{unit}"]
    return arm_noun(advice), rows_head(advice), f"average{unit}", *score, level, last


def rows_head(advice: Advice) -> str:
    """The head of the column of :func:`n_rows_text`."""
    rows = advice.log.kept_rows
    return "rows (units)" if rows is not None and rows.unit is not None else "rows"


def n_rows_text(advice: Advice, name: str) -> str:
    """How many rows an arm has and, where units were named, how many units."""
    k = advice.names.index(name)
    units = f" ({n_rewards_or_units(advice, k):,})" if rows_head(advice) != "rows" else ""
    return f"{advice.arms[k].n:,}{units}"


def share_text(advice: Advice, share: float) -> str:
    """The share of an arm in the table of arms; a word if a single arm is best."""
    if advice.tied:
        return "any"
    if len(advice.mixture) > 1 or share == 0.0:
        return share_in_percent(share) if len(advice.mixture) > 1 else ""
    return {"choose": "choose", "leads": "leads", "cannot tell": "best so far"}[advice.decision.kind]


def reward_range(advice: Advice) -> tuple[float, float]:
    """The least and the largest reward that were seen."""
    return min(float(arm.x[0]) for arm in advice.log.arms), max(float(arm.x[-1]) for arm in advice.log.arms)


def _error_level_text(advice: Advice) -> str:
    return f"{100 * (1 - advice.level):.3g} %"


def n_rewards_or_units(advice: Advice, k: int) -> int:
    """How many rewards an arm has, or units, or blocks of time, if there are any."""
    rows = advice.log.kept_rows
    if rows is None or rows.cluster_of_each_row is None:
        return advice.arms[k].n
    return int(np.unique(rows.cluster_of_each_row[rows.arm == k]).size)


def min_sample_size_text(advice: Advice) -> str:
    """How many rewards, units or blocks of time standard errors need."""
    rows = advice.log.kept_rows
    if rows is None or rows.cluster_of_each_row is None:
        return f"{FEWEST_FOR_STANDARD_ERRORS} rows"
    return f"{FEWEST_UNITS} {'units' if rows.unit is not None else 'blocks of time'}"


def arm_list_text(advice: Advice, names: Sequence[str]) -> str:
    """Arms as they stand in a sentence: at most four by name."""
    labels = [arm_label(name, advice.log.arm_column) for name in names]
    if len(labels) <= 2:
        return " and ".join(labels)
    if len(labels) <= 4:
        return f"{', '.join(labels[:-1])} and {labels[-1]}"
    return f"{', '.join(labels[:3])} and {len(labels) - 3} more"
