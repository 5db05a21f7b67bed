"""What was noticed about a table before any answer: what was seen, what was done about it, and how to change that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.logs.periods import are_times_written_as_numbers, parse_times

if TYPE_CHECKING:
    from pmbandits.logs.log import Log

_FEWEST_CONSTANT = 5  # rewards of an arm, from which on it is strange that all are the same
_FEWEST_NAMES = 10  # arms, from which on their names are looked at as dates or numbers of people
_SENTINEL_DISTANCE = 10.0  # times the size of all other rewards
_EXPECTED_OUTSIDE = 20.0  # rows of an arm to be expected before its first or after its last, to say that there are none
_MOST_NAMED = 4
_MUCH_UNREADABLE, _FEWEST_UNREADABLE = 0.01, 3  # texts in place of rewards, of an arm or of all: their share, how many
_TOTAL = re.compile(r"(grand |sub)?totals?|sum|summe|gesamt(summe)?|insgesamt", re.IGNORECASE)
_NOTES = frozenset(
    ("columns", "conditions", "copies not checked", "decimals", "encoding", "range not known", "rows", "sentinels",
     "sheets", "times", "titles", "totals")
)  # fmt: skip

_FIRST = frozenset(("columns assumed", "unreadable", "direction"))


@dataclass(frozen=True)
class Finding:
    """Something noticed about a table.

    Attributes
    ----------
    kind : one word for programs, such as ``"duplicates"``.
    seen, done, change : one sentence each: what is there, what was done about it, and how to change that.
    """

    kind: str
    seen: str
    done: str
    change: str = ""

    @property
    def is_note(self) -> bool:
        """Whether it only says how the table was read: for who works with it, not for who decides."""
        return self.kind in _NOTES

    @property
    def comes_first(self) -> bool:
        """Whether the answer may be about something else than what was asked, so that it is said before the answer."""
        return self.kind in _FIRST

    def __str__(self) -> str:
        return " ".join(part for part in (self.seen, self.done, self.change) if part)


def likely_codes_for_missing(log: Log, loss: bool) -> list[float]:
    """Numbers such as 999999 or -999 that seem to stand for "not known": nines only, repeated, and far from the rest.

    They are at an end of all rewards, occur at least twice, and are ten times as large as any other reward.
    """
    out = []
    for end in (0, -1):
        value = (min if end == 0 else max)(float(arm.x[end]) for arm in log.arms)
        count = sum(arm.n * float(arm.p[arm.x == value].sum()) for arm in log.arms)
        rest = [float(np.abs(arm.x[arm.x != value]).max(initial=0.0)) for arm in log.arms]
        if (
            re.fullmatch(r"9{3,}(\.9+)?", f"{abs(value):.12g}")
            and count >= 1.5
            and sum(arm.x.size for arm in log.arms) > 2
            and abs(value) >= _SENTINEL_DISTANCE * max(rest)
        ):
            out.append(-value if loss else value)
    return out


def leave_out_total(log: Log) -> Log:
    """The log without an arm that is a row for the sum of all others: its name says so, and so does its only value."""
    for k, arm in enumerate(log.arms):
        others = (*log.arms[:k], *log.arms[k + 1 :])
        if arm.n != 1 or len(others) < 2 or not _TOTAL.fullmatch(arm.name.strip(" :=*")):
            continue
        value, total = float(arm.x[0]), sum(other.n * float(other.x @ other.p) for other in others)
        if not abs(total) <= 2.0 * abs(value) <= 4.0 * abs(total) or value * total <= 0.0:
            continue
        seen = f"“{arm.name}” has one row, {abs(value):,.12g}; the sum of all others is {abs(total):,.6g}."
        change = "To count it, give it another name."
        finding = Finding("totals", seen, "It was taken for a total, and left out.", change)
        rows = log.kept_rows
        kept = None if rows is None else rows.select_arms([j for j in range(len(log.arms)) if j != k])
        return replace(log, arms=others, kept_rows=kept, used=log.used - 1, findings=(*log.findings, finding))
    return log


def check_rewards(log: Log) -> Iterator[Finding]:
    """What is strange about the arms and rewards of a log."""
    yield from _check_unreadable(log)
    yield from _check_similar_names([arm.name for arm in log.arms], log.n_outcomes)
    yield from _check_constant_arms(log)
    yield from _check_arms_in_part_of_the_time(log)


def _check_unreadable(log: Log) -> Iterator[Finding]:
    """A finding if many rewards are texts, of all arms or of one: such rows are seldom like the others."""
    sizes = {arm.name: arm.n for arm in log.arms}
    shares = {name: count / (count + sizes.get(name, 0)) for name, count in log.unreadable.items()}
    often = [name for name in shares if shares[name] > _MUCH_UNREADABLE and log.unreadable[name] >= _FEWEST_UNREADABLE]
    total = sum(log.unreadable.values())
    if total < _FEWEST_UNREADABLE or (not often and total <= _MUCH_UNREADABLE * log.rows):
        return
    such_as = f", such as “{log.unreadable_examples[0]}”" if log.unreadable_examples else ""
    worst = max(shares, key=lambda name: (shares[name], log.unreadable[name]))
    yield Finding(
        "unreadable",
        f"{total:,} of {log.rows:,} {log.row_word} have a result that is no number{such_as}; most often "
        f"{worst} ({100.0 * shares[worst]:.2g} % of its {log.row_word}).",
        "They were left out; if they are not like the others, the answer is wrong.",
        log.number_format_hint,
    )


def _check_similar_names(names: Sequence[str], rewards: int) -> Iterator[Finding]:
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(normalised_spelling(name), []).append(name)
    alike = [group for group in spellings.values() if len(group) > 1]
    if alike:
        listed = "; ".join(" and ".join(f"“{name}”" for name in group) for group in alike[:_MOST_NAMED])
        yield Finding(
            "spelling",
            f"Some names differ only in capital letters, spaces or signs: {listed}.",
            "They were counted as different.",
            "To count them as one: --same-names (same_names=True in Python).",
        )
    if len(names) < _FEWEST_NAMES:
        return
    other = "Name another column with --arm (arm= in Python) if they are not what you choose between."
    if not are_times_written_as_numbers(names) and np.isfinite(parse_times(list(names))).all():
        yield Finding("dates", f"The {len(names):,} names are dates, such as {names[0]}.", "They were compared.", other)
    elif 2 * len(names) > rewards:
        seen = f"There are {len(names):,} names for {rewards:,} rewards, such as {names[0]}: they look like ids."
        yield Finding("ids", seen, "They were compared.", other)


def normalised_spelling(name: str) -> str:
    """What two spellings of one name have in common.

    >>> normalised_spelling("New  York") == normalised_spelling("new_york")
    True
    """
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _check_constant_arms(log: Log) -> Iterator[Finding]:
    constant = [arm for arm in log.arms if arm.x.size == 1 and arm.n >= _FEWEST_CONSTANT]
    kept = "They were compared as they are."
    if len(constant) == len(log.arms) and len({float(arm.x[0]) for arm in constant}) == 1:
        value = f"{abs(float(constant[0].x[0])):g}"
        change = "Is it the right column? --reward NAME (reward= in Python) takes another one."
        yield Finding("constant", f"All {log.n_outcomes:,} rewards are {value}.", kept, change)
    elif constant and len(log.arms) > 1:
        listed = ", ".join(f"{arm.name} (always {float(arm.x[0]) + 0.0:g})" for arm in constant[:_MOST_NAMED])
        more = f" and {len(constant) - _MOST_NAMED} more" if len(constant) > _MOST_NAMED else ""
        yield Finding(
            "constant",
            f"The values never vary in {listed}{more}.",
            kept,
            "If these are placeholders, leave them out: --where 'COLUMN != NAME'.",
        )


def _check_arms_in_part_of_the_time(log: Log) -> Iterator[Finding]:
    rows = log.kept_rows
    if rows is not None and rows.time is not None:
        yield from check_time_spans([arm.name for arm in log.arms], rows.arm, rows.time)


def check_time_spans(names: Sequence[str], arm: NDArray[Any], time: FloatArray) -> Iterator[Finding]:
    """A finding if arms begin later than others, or end earlier, beyond chance; arms are given by their places."""
    known = np.isfinite(time)
    arm, time = arm[known], time[known]
    shorter = []
    for k, name in enumerate(names):
        mine = time[arm == k]
        if not mine.size:
            continue
        for outside, share in ((time < mine.min(), "first"), (time > mine.max(), "last")):
            if mine.size / int((~outside).sum()) * int(outside.sum()) >= _EXPECTED_OUTSIDE:
                shorter.append(f"{name} (no rows in the {share} {100.0 * outside.mean():.0f} % of all)")
    if shorter and len(names) > 1:
        yield Finding(
            "part of the time",
            f"Not tried the whole time: {', '.join(shorter[:_MOST_NAMED])}.",
            "So a change of the times can look like a difference.",
            "To compare the same time only: --since or --where (since=, where= in Python).",
        )
