"""Advice in sentences and table cells; all numbers are decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, isfinite
from typing import TYPE_CHECKING

import numpy as np

from pmbandits.advice.checks import TAIL_ROBUST_METRICS, has_infinite_slope_at_ends, wrong_tail_warning
from pmbandits.advice.inference import TIE_TOLERANCE, utilities_of_arms
from pmbandits.advice.problem import FEWEST_FOR_STANDARD_ERRORS, FEWEST_UNITS
from pmbandits.metrics.registry import metric as find_metric
from pmbandits.supports import Binary, Heavy, Interval, Real, Support

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice
    from pmbandits.metrics.distortion import Distortion

ARMS_HEAD = ("arm", "rewards", "average", "worth", "probably between", "share")  # the table of arms
MOST_ARMS_NAMED = 8  # arms in words
_LARGE_OPTIMISM = 0.1  # relative optimism of the apparent utility from which on it is mentioned
_MOST_UNUSABLE = 0.5  # a larger share of unusable rows is the headline


def recommendation(advice: Advice) -> str:
    """What to play, in a sentence."""
    if advice.tied:
        value = format_number(advice.apparent, advice)
        return f"No arm is better than another by {advice.metric!r}: each of them is worth {value} in the data."
    if len(advice.mixture) == 1:
        text = f"Play {next(iter(advice.mixture))} alone"
    else:
        text = f"Play {mixture_text(advice.mixture)}"
    if any(tail.may_lack_mean for tail in advice.tails):
        return f"{text}. What it is worth by {advice.metric!r} cannot be said: the rewards have no stable average."
    value = f": worth about {format_number(advice.value, advice)} by {advice.metric!r}"
    if not all(map(isfinite, advice.interval)):
        return f"{text}{value}."
    low, high = (format_number(end, advice) for end in advice.interval)
    hopeful = ""
    if advice.apparent - advice.value > _LARGE_OPTIMISM * abs(advice.value):
        hopeful = (
            f" On the rewards that chose it, it looks worth {format_number(advice.apparent, advice)}: that "
            f"is too hopeful."
        )
    return f"{text}{value}, probably between {low} and {high}.{hopeful}"


def price(advice: Advice) -> str:
    """What the recommendation gives, and what it costs, by the plain average; in a sentence or two."""
    if advice.tied or advice.metric.shape == "linear" or any(tail.may_lack_mean for tail in advice.tails):
        return ""
    given = sum(a.share * a.mean for a in advice.arms)
    best = max(advice.arms, key=lambda a: a.mean)
    text = f"By the plain average it gives {format_number(given, advice)} a round"
    if best.mean - given <= TIE_TOLERANCE * max(abs(best.mean), abs(given)):
        return f"{text}, and no arm gives more."
    less = (
        f", {two_digits(100 * (1 - given / best.mean))} % less than" if given > 0.0 else ". The best average is that of"
    )
    return f"{text}{less} {best.name} with {format_number(best.mean, advice)}."


def reason(advice: Advice) -> str:
    """Whether the recommendation is beyond chance."""
    wrong = f"such a verdict is wrong with probability at most {100 * (1 - advice.level):.3g} %"
    if len(advice.names) == 1:
        return "There is only one arm."
    if advice.tails:
        return (
            f"Whether that is better than {_rivals_text(advice)} cannot be said: a few rewards are so large that they "
            "decide the result, and the next one of this size could change it."
        )
    if advice.inconclusive:
        return f"Whether that is better than {_rivals_text(advice)} cannot be concluded from these rewards."
    if advice.limits is not None:
        return _reason_within_limits(advice, wrong)
    if advice.tied:
        return _why_tied(advice)
    return _reason_single_arm(advice, wrong) if advice.verdict == "single arm" else _reason_mixture(advice, wrong)


def _reason_single_arm(advice: Advice, wrong: str) -> str:
    alone = next(iter(advice.mixture))
    others = [a for a in advice.arms if a.share == 0.0]
    next_best = max(others, key=lambda a: a.utility)
    lead = f"{next_best.name} with {format_number(next_best.utility, advice)}"
    if advice.lead <= TIE_TOLERANCE * abs(advice.apparent):
        same = [a.name for a in others if a.utility == next_best.utility]
        are = "is" if len(same) == 1 else "are"
        return f"A single arm is enough. {_join_names(same)} {are} worth the same in the data."
    if advice.sure == "surely":
        return f"{alone} is surely better than {_rivals_text(advice)} ({wrong}); next is {lead}."
    if advice.sure == "looks":
        return f"{alone} looks better than {_rivals_text(advice)}; next is {lead}. {_why_not_surely(advice)}"
    closest_rival = advice.evidence.closest_rival
    if closest_rival is not None and closest_rival.rival != advice.names.index(next_best.name):
        lead += f" or over {advice.names[closest_rival.rival]}"
    return f"{alone} is best in the data, but its lead over {lead} could be noise."


def _reason_mixture(advice: Advice, wrong: str) -> str:
    gained = f"The gain of about {format_number(advice.gain, advice, 3)} over {advice.best_arm} alone"
    if advice.gain <= 0.0:  # on other rewards nothing was gained
        gained = f"The gain over {advice.best_arm} alone"
    if advice.sure == "unclear":
        return (
            f"{gained} could be noise: mixtures that were chosen on some of the rewards were not far enough ahead of "
            "every single arm on the others."
        )
    how = "mixtures that were chosen on some of the rewards beat every single arm on the others, beyond chance"
    if len(advice.evidence.by_bands) == len(advice.names):
        how = "whatever the arms' distributions are, as far as the rewards allow, the mixture is ahead"
    if advice.sure == "surely":
        return f"{gained} is real: {how} ({wrong})."
    return f"{gained} looks real: {how}. {_why_not_surely(advice)}"


def _fewest_text(advice: Advice) -> str:
    """How many rewards, units or blocks of time standard errors need."""
    rows = advice.log.kept_rows
    if rows is None or rows.cluster is None:
        return f"{FEWEST_FOR_STANDARD_ERRORS} rewards"
    return f"{FEWEST_UNITS} {'units' if rows.unit is not None else 'blocks of time'}"


def _why_tied(advice: Advice) -> str:
    """Why a preference cannot tell the arms apart, and what to do."""
    value, share = advice.log.most_common_reward()
    alone = value * float(advice.metric(1.0))  # what an arm is worth that always pays this
    if share < 0.5 or abs(advice.apparent - alone) > TIE_TOLERANCE * max(abs(alone), abs(advice.apparent)):
        return "This preference sees no difference between them. Another preference may."
    return (
        f"At least {floor(100 * share):d} % of the rewards of every arm are {value:.4g}, and this preference looks at "
        "no others. Choose one that looks at more of the rewards."
    )


def _reason_within_limits(advice: Advice, wrong: str) -> str:
    others = "the other extreme choices that the limits allow"
    if advice.sure == "surely":
        return f"Within the limits ({advice.limits}) that is surely better than {others} ({wrong})."
    if advice.sure == "looks":
        return f"Within the limits ({advice.limits}) that looks better than {others}. {_why_not_surely(advice)}"
    if not advice.evidence.margins:
        return f"It keeps the limits ({advice.limits}); whether it is surely best within them was not tested."
    return f"It keeps the limits ({advice.limits}); its lead over {others} could be noise."


def _why_not_surely(advice: Advice) -> str:
    if advice.drift:
        return "It is not sure, because rewards changed over time."
    if isinstance(advice.support, Heavy) and not has_infinite_slope_at_ends(advice.metric):
        return f"It is not sure, because the rewards speak against the declared {advice.support!r}."
    return (
        "It is not sure, because it is not known where rewards can lie: a rare reward far outside of what was seen "
        "could change the result. If you know the range, declare it: support=Interval(lo, hi) in Python, --support "
        "lo,hi in a command, “Where can rewards lie at all?” in the studio."
    )


def _rivals_text(advice: Advice) -> str:
    others = [name for name in advice.names if name not in advice.mixture]
    if len(advice.mixture) > 1:
        return "every single arm"
    return others[0] if len(others) == 1 else "every other arm"


def outlook(advice: Advice) -> str:
    """What more data would settle, in a sentence."""
    few = [advice.names[k] for k in advice.evidence.few]
    if advice.evidence.left_out and few and advice.sure != "unclear":
        return (
            f"To compare {_join_names(few)} as well, it takes more of {_join_names(few)}: {_fewest_text(advice)} each."
        )
    if advice.sure != "unclear" or len(advice.names) == 1 or advice.tails or advice.tied:
        return ""
    if advice.apart:
        return "Rewards of all arms from the same time would tell."
    if not advice.more:
        if advice.metric.jumps:
            return "How many more rewards would settle it is not known for this preference."
        if few:
            return f"First of all it needs more of {_join_names(few)}: at least {_fewest_text(advice)} of each arm."
        return (
            "The rewards vary so much beside this difference that it is not known who is ahead. How many more rewards "
            "would settle it cannot be said from these data."
        )
    kind = "as many rewards" if len(set(advice.more.values())) > 1 else ""
    return (
        f"{more_rewards_text(advice.more)} would settle it in about 8 of 10 cases, if the arms differ about as "
        f"much as it looks"
        f"{': every arm must be compared, so every arm needs them' if len(advice.more) > 2 and not kind else ''}. "
        "If you can choose which arm to pull next, the policy Vet collects them while it plays well."
    )


def warnings(advice: Advice) -> Iterator[str]:
    """Warnings that come before everything else, one sentence or two each."""
    log = advice.log
    negative = not advice.loss and max(float(arm.x[-1]) for arm in log.arms) <= 0.0
    trap = wrong_tail_warning(advice.metric, advice.loss, negative)
    if trap:
        yield trap
    if log.n_malformed > _MOST_UNUSABLE * log.rows:
        yield (
            f"Most rows could not be used: {log.n_malformed:,} of {log.rows:,}. What follows is about the other "
            f"{log.used:,} rows, and may not be true of the rest."
        )
    if advice.tails:
        both = any(t.upper for t in advice.tails), any(not t.upper for t in advice.tails)
        names = list(dict.fromkeys(advice.names[t.arm] for t in advice.tails))
        which = {(True, False): "largest", (False, True): "smallest", (True, True): "largest and smallest"}[both]
        yield (
            f"The {which} rewards of {_join_names(names)} are so far from the others that {advice.metric!r} does not "
            f"settle on a number: there is no interval, and no verdict. "
            f"{_tail_robust_alternatives(advice, TAIL_ROBUST_METRICS[both])}Or declare where "
            "rewards can lie, if that is known."
        )
    elif (advice.support_assumed or isinstance(advice.support, (Real, Heavy))) and has_infinite_slope_at_ends(
        advice.metric
    ):
        yield (
            f"By {advice.metric!r} the rarest rewards count most, so its value depends on rewards that nobody has seen "
            "yet. Without knowing where rewards can lie, the value is a guess that is likely too low, and there is no "
            "interval for it."
        )
    if advice.apart:
        yield (
            f"{_join_names([advice.names[k] for k in advice.apart])} {'were' if len(advice.apart) > 1 else 'was'} not "
            "tried at the same time as the others. If the world changed in between, this looks like a difference "
            "between the arms, and the rewards cannot tell the two apart. So nothing can be concluded."
        )
    if advice.serial:
        yield (
            "Rewards depend on those before them for so long that there are hardly any that are independent. So "
            "nothing can be concluded; a longer time would tell more than more rewards in the same time."
        )
    for change in advice.drift[:3]:
        yield (
            f"The rewards of {advice.names[change.arm]} changed over time: on average {change.early:.4g} in the "
            f"first third, {change.late:.4g} in the last. The advice is about the whole time, and that may not be what "
            "you will meet next; advice on recent rows alone would tell more."
        )
    if len(advice.drift) > 3:
        yield f"{len(advice.drift) - 3} more arms changed over time."
    few = [a for a in advice.arms if a.n < 5]
    if few:
        yield (
            f"{_join_names([a.name for a in few])} {'have' if len(few) > 1 else 'has'} fewer than five rewards: "
            "no interval can be given."
        )


def _tail_robust_alternatives(advice: Advice, safe: Sequence[str]) -> str:
    """A sentence on metrics that ignore the heavy tails and can tell these arms apart."""
    samples = [arm.all for arm in advice.log.arms]
    fit = []
    for text in safe:
        utilities = utilities_of_arms(find_metric(text), samples)
        if float(np.ptp(utilities)) > TIE_TOLERANCE * float(np.abs(utilities).max(initial=0.0)):
            fit.append(text)
    return f"Preferences that are safe with such rewards: {', '.join(fit[:3])}. " if fit else ""


def notes(advice: Advice) -> Iterator[str]:
    """Further notes for the reader, one sentence each."""
    yield from general_notes(advice)
    metric = advice.metric
    if interval_stops_at_zero(advice.support_assumed, advice.support, metric) and isfinite(advice.interval[0]):
        yield "No reward was below 0, and intervals stop there."
    units = advice.log.kept_rows is not None and advice.log.kept_rows.unit is not None
    if isinstance(advice.support, Real) and not units and not all(map(isfinite, advice.bounds)):
        yield f"{metric!r} has no bounds that always hold for rewards without limits: declare Interval(lo, hi)."
    for price in advice.costs.values():
        cost = str(price)
        yield f"In the data, {cost}."
    if metric.shape in ("convex", "linear") and len(advice.names) > 1 and advice.limits is None:
        yield "For this preference no mixture can be better than the best single arm."
    if metric.shape == "neither" and len(advice.names) > 4:
        yield "The best mixture was searched for; it is not proved that there is no better one."
    if metric.jumps:
        yield "For this preference small changes of the rewards can change the value a lot; the bounds allow for that."
    few = [advice.names[k] for k in advice.evidence.few]
    if few and not metric.jumps:
        rest = " The other arms were compared as usual." if len(few) < len(advice.names) else ""
        yield (
            f"{_join_names(few)} {'have' if len(few) > 1 else 'has'} fewer than {_fewest_text(advice)}. That is too "
            f"few for standard errors, so they were compared by bands.{rest}"
        )
    if all(map(isfinite, advice.bounds)):
        low, high = (format_number(end, advice) for end in advice.bounds)
        yield (
            f"With probability {100 * advice.level:g} % the recommendation is truly worth between {low} and {high}, "
            "whatever the distributions of the arms are inside the declared range."
        )
    if advice.evidence.divisions:
        yield (
            "Worth and gain were measured fairly (cross-fitted): one part of the rewards chose the mixture and another "
            f"part measured it, {advice.evidence.divisions} times. On the same rewards that chose it, it looks worth "
            f"{format_number(advice.apparent, advice)}."
        )
    else:
        yield (
            "There are too few rewards to choose with one part of them and to measure with another, so the worth that "
            "is given is likely too high."
        )
    if len(advice.mixture) > 1:
        yield (
            "A mixture means that one arm is played in each round, and that in the long run each arm gets its share. "
            "It does not mean to split an amount of money between the arms within one round."
        )


def checks(advice: Advice) -> Iterator[str]:
    """What was checked, and what could not be."""
    found = advice.evidence
    tested = len(found.margins)
    if tested and advice.limits is None:
        arms = f"{tested:,} arm{'s' if tested > 1 else ''}"
        if len(advice.mixture) > 1:
            times = f"{found.divisions} divisions"
            yield f"Checked: mixtures chosen on some rewards, against {arms}, on the others ({times})."
        else:
            yield f"Checked: the lead over {arms}, against chance, on all rewards."
    if found.by_bands and not advice.metric.jumps:
        yield f"Checked by bounds only: {_join_names([advice.names[j] for j in found.by_bands])}."
    if advice.support_assumed and not advice.tails:
        yield "Checked: no arm has tails that are too heavy for this preference, as far as the rewards show."
    yield from general_checks(advice)


def general_checks(advice: Advice) -> Iterator[str]:
    """What could not be checked, whatever the preference."""
    kept_rows = advice.log.kept_rows
    if kept_rows is None or kept_rows.time is None:
        yield "Not checked: whether rewards changed over time (no time column was given)."
    if kept_rows is None or kept_rows.unit is None:
        yield "Not checked: whether several rewards belong to one person or place (no unit column was given)."


def general_notes(advice: Advice) -> Iterator[str]:
    """Notes that do not depend on the metric."""
    if advice.loss:
        yield "The numbers are losses: they were negated, so that larger is better."
    if advice.support_assumed and isinstance(advice.support, Interval):
        seen = f"between {advice.support.lo:g} and {advice.support.hi:g}"
        yield f"Rewards were seen {seen}; where they can lie is not known."
    if isinstance(advice.support, Binary) and advice.family == 1:
        yield "All rewards are 0 or 1."
    log = advice.log
    if log.per is not None:
        period = "value of the time column" if log.per == "time" else log.per
        yield (
            f"One reward is the average of an arm's rewards in one {period}: {log.used:,} rows became "
            f"{log.outcomes:,} rewards. A mixture means that in each {period} one arm is played: averages of a "
            f"{period} in which two arms take turns would be distributed in another way."
        )
    if log.kept_rows is not None and log.kept_rows.unit is not None:
        yield f"Rewards belong to {np.unique(log.kept_rows.unit).size:,} units; errors are worked out between units."
    if log.kept_rows is not None and log.kept_rows.block is not None:
        blocks = np.unique(log.kept_rows.block).size
        yield f"Errors are worked out between {blocks} blocks of time, because rewards may depend on those before them."
    if log.kept_rows is not None and log.kept_rows.time is not None and not advice.drift:
        yield "No arm's rewards changed over time beyond chance."
    summarised = [arm for arm in log.arms if arm.error > 0.0]
    if summarised:
        worst = max(arm.error for arm in summarised)
        yield (
            f"{len(summarised)} of {len(log.arms)} arms have so many different rewards that they were summarised; "
            f"shares are off by at most {worst:.2g}, which is allowed for."
        )
    if advice.family > 1:
        chance = f"{100 * (1 - advice.level):.3g} %"
        said = f": that one or more of them is wrongly called sure has probability at most {chance}"
        yield (
            f"{advice.family} preferences were tested at once, and the verdicts allow for that (Holm's rule)"
            f"{'' if advice.support_assumed else said}."
        )


def interval_stops_at_zero(assumed: bool, support: Support, metric: Distortion) -> bool:
    """Whether intervals end at 0: no reward was below, and by this preference more is never worse."""
    return assumed and isinstance(support, Interval) and support.lo >= 0.0 and metric.monotonicity == "increasing"


def verdict(advice: Advice) -> str:
    """The verdict, short enough for a table."""
    if advice.tied:
        return "all the same"
    if advice.tails:
        return "no verdict"
    if advice.verdict == "single arm":
        if len(advice.names) == 1:
            return "one arm"
        return {"surely": "one arm, surely", "looks": "one arm, it seems", "unclear": "one arm, could be noise"}[
            advice.sure
        ]
    return advice.verdict


def mixture_text(mixture: dict[str, float]) -> str:
    """A mixture, such as ``60 % a + 40 % b``; a single arm by its name."""
    if len(mixture) == 1:
        return next(iter(mixture))
    ordered = sorted(mixture.items(), key=lambda pair: -pair[1])
    text = " + ".join(f"{format_share(share)} {quote_numeric_name(name)}" for name, share in ordered[:MOST_ARMS_NAMED])
    return text + (f" + {len(ordered) - MOST_ARMS_NAMED} more" if len(ordered) > MOST_ARMS_NAMED else "")


def quote_numeric_name(name: str) -> str:
    """An arm's name to stand beside a number: a name that begins with a digit is put in quotation marks.

    >>> quote_numeric_name("A"), quote_numeric_name("20 % coin")
    ('A', '“20 % coin”')
    """
    return f"“{name}”" if name[:1].isdigit() else name


def format_share(share: float) -> str:
    """A share in percent; a dash for none."""
    if share == 0.0:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def format_number(value: float, advice: Advice, digits: int = 4) -> str:
    """A number of the size of the rewards: what is left of rounding errors is 0."""
    size = max((abs(a.utility) for a in advice.arms), default=0.0)
    size = max(size, max((abs(a.mean) for a in advice.arms), default=0.0))
    return "0" if abs(value) < 1e-9 * size else f"{value:.{digits}g}"


def two_digits(value: float) -> str:
    """A number with two significant digits.

    >>> two_digits(34.4), two_digits(0.6174), two_digits(100.0)
    ('34', '0.62', '100')
    """
    return f"{value:.0f}" if abs(value) >= 10.0 else f"{value:.2g}"


def more_rewards_text(more: dict[str, int]) -> str:
    """How many more rewards of which arms."""
    different = set(more.values())
    names = list(more)
    if len(different) == 1:
        return f"About {different.pop():,} more rewards of {'each of ' if len(names) > 1 else ''}{_join_names(names)}"
    parts = [f"{count:,} of {name}" for name, count in list(more.items())[:4]]
    rest = f", and so on for all {len(more)} arms" if len(more) > 4 else ""
    return f"More rewards (about {', '.join(parts)}{rest})"


def _join_names(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return " and ".join(names)
    if len(names) <= 4:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[:3])} and {len(names) - 3} more arms"


def interval_text(interval: tuple[float, float]) -> str:
    """An interval with its two ends."""
    return f"{interval[0]:.4g} … {interval[1]:.4g}" if all(map(isfinite, interval)) else "not known"
