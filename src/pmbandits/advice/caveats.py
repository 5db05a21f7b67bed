"""Caveats of an advice as sentences: what the decision rests on, and what was noticed about the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pmbandits.advice.checks import has_infinite_slope_at_ends, opposite_tail_metric
from pmbandits.advice.decision import Caveat
from pmbandits.advice.numbers import NumberFormat, plain_number
from pmbandits.advice.sentences import arm_list_text, min_sample_size_text, number_format, reward_range
from pmbandits.logs import Finding
from pmbandits.logs.row_report import PLACEHOLDER
from pmbandits.supports import Heavy, Real

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice


def caveat_findings(advice: Advice) -> Iterator[Finding]:
    """What a reader must know, in one list: what the decision rests on, then what was noticed about the table."""
    if advice.doubt is not None:
        yield advice.doubt
    for caveat in advice.decision.caveats:
        write = _CAVEATS.get(caveat.kind)
        names = arm_list_text(advice, caveat.arms)
        yield write(advice, caveat, names) if write else Finding(caveat.kind, f"{caveat.kind}: {names}.", "")
    unbounded = advice.support_assumed or isinstance(advice.support, (Real, Heavy))
    if unbounded and not advice.tails and has_infinite_slope_at_ends(advice.metric):
        seen = "By this preference the rarest rewards count most, so its value depends on rewards that nobody saw."
        yield Finding("rarest rewards", seen, "So there is no interval.", _DECLARE_RANGE)
    yield from (finding for finding in advice.log.findings if finding not in (advice.assumption, advice.doubt))
    placeholders = {PLACEHOLDER} if any(f.kind == "sentinels" for f in advice.log.findings) else set()
    if (report := advice.log.unused_rows_sentence()) and set(advice.log.malformed) != placeholders:
        yield Finding("rows", report, "")


_DECLARE_RANGE = "If you know where values can lie, say so: --support lo,hi (support=Interval(lo, hi) in Python)."


def _loss_assumed_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    seen, change = "Larger is taken as better.", "If smaller is better: --loss (loss=True in Python)."
    if not advice.loss:
        return Finding(caveat.kind, seen, "", change)
    seen = f"“{caveat.column}” sounds like something to keep small."
    return Finding(
        caveat.kind, seen, "So smaller is taken as better.", "If larger is better: --no-loss (loss=False in Python)."
    )


def _wrong_tail_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    seen = "The numbers are losses" if advice.loss else "The rewards are losses, written as negative numbers"
    other = opposite_tail_metric(advice.metric)
    return Finding(
        caveat.kind,
        f"{seen}, but this preference looks only at the best outcomes (the smallest losses), not at the worst.",
        "",
        f"If you mean the worst outcomes, ask for {other}." if other else "",
    )


def _drift_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    size = ""
    if caveat.numbers:
        written = NumberFormat.for_resolution([0.1 * (caveat.numbers["late"] - caveat.numbers["early"])])
        early, late = (written(caveat.numbers[which]) for which in ("early", "late"))
        size = f": {early} on average in the first third, {late} in the last"
    seen = f"The values of {names} changed over time{size}."
    return Finding(caveat.kind, seen, "The answer is about the whole time.", "For recent rows only: --since DATE.")


def _few_rewards_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    have = "have" if len(caveat.arms) > 1 else "has"
    left_out = all(advice.names.index(name) in advice.evidence.left_out for name in caveat.arms)
    done = "The answer is about the others." if left_out else ""
    return Finding(caveat.kind, f"{names} {have} fewer than {min_sample_size_text(advice)}: too few to compare.", done)


def _heavy_tail_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    seen = f"A few values of {names} are so far from the others that they decide the result."
    done = "So there is no interval and no verdict." if advice.tails else "The answer is about the others."
    return Finding(caveat.kind, seen, done, _DECLARE_RANGE)


def _outlier_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    reward = plain_number(caveat.numbers["reward"])
    without = number_format(advice)(caveat.numbers["without"])
    seen = f"One value of {names} ({reward}) decides how {names} compares; without it {names} is {without}."
    return Finding(caveat.kind, seen, "Is it right?")


def _deciding_unit_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    written = number_format(advice)
    average, without = (written(caveat.numbers[which]) for which in ("average", "without"))
    seen = (
        f"One unit of {names} (its average is {average}) decides how {names} compares; without it {names} is {without}."
    )
    return Finding(caveat.kind, seen, "Is it right?")


def _unknown_range_finding(advice: Advice, caveat: Caveat, names: str) -> Finding:
    ends = sorted(advice.shown(end) for end in reward_range(advice))
    low, high = (plain_number(float(f"{end:.4g}")) for end in ends)
    seen = f"All values are {low}" if low == high else f"Values were seen from {low} to {high}"
    return Finding(caveat.kind, f"{seen}; a rare one far outside would not be foreseen.", "", _DECLARE_RANGE)


_CAVEATS: dict[str, Callable[[Advice, Caveat, str], Finding]] = {
    "direction assumed": _loss_assumed_finding,
    "wrong end": _wrong_tail_finding,
    "drift": _drift_finding,
    "few rewards": _few_rewards_finding,
    "few units": _few_rewards_finding,
    "range not known": _unknown_range_finding,
    "unusable rows": lambda advice, caveat, names: Finding(
        caveat.kind,
        f"Most rows could not be used: {caveat.numbers['unusable']:,.0f} of {caveat.numbers['rows']:,.0f}.",
        "The answer may not be true of them.",
    ),
    "range matters": lambda advice, caveat, names: Finding(
        caveat.kind,
        "That is beyond chance if values go on as they were.",
        "It is not proved for every distribution that the declared range allows.",
    ),
    "moment bound broken": lambda advice, caveat, names: Finding(
        caveat.kind, f"The values speak against the declared {advice.support!r}.", ""
    ),
    "heavy tail": _heavy_tail_finding,
    "outlier": _outlier_finding,
    "deciding unit": _deciding_unit_finding,
    "apart in time": lambda advice, caveat, names: Finding(
        caveat.kind,
        f"{names} {'were' if len(caveat.arms) > 1 else 'was'} not tried at the same time as the others.",
        "If the world changed in between, that looks like a difference, so "
        f"{'nothing is concluded' if advice.inconclusive else 'the answer is about the others'}.",
    ),
    "serial": lambda advice, caveat, names: Finding(
        caveat.kind,
        "Values depend for long on those before them, so hardly any are independent.",
        "Nothing is concluded; a longer time would tell more than more rows in the same time.",
    ),
}
