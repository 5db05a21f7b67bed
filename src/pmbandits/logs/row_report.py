"""Collects rewards of a table by arm, and reports what became of every row."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray, escape_control_characters
from pmbandits.logs.columns import UnitsAndTimes
from pmbandits.logs.findings import Finding, normalised_spelling

MOST_EXAMPLES = 10  # malformed rows that are shown
_FEW_ROWS = 10  # written in another way, up to which the other rows are answered from
NO_REWARDS = "no rewards"  # said of an arm of a dict that has none
NO_TIME = "a time that cannot be read"
NOT_A_NUMBER = "a reward that is not a number"
PLACEHOLDER = "a number that stands for no reward"
_CURRENCY_SIGN = r"[+-]?\s*(?:[€$£¥₹]|[A-Z]{3})"
_NUMBER_FORMAT_HINTS = {
    "amounts of money: say so with currency='€' (--currency €), and how thousands and decimals are written": (
        rf"(?:{_CURRENCY_SIGN}\s*[+-]?[\d.,' ]+|[+-]?[\d.,' ]+\s*(?:[€$£¥₹]|[A-Z]{{3}}))"
    ),
    "decimal commas, and points between thousands: say so with decimal=',' and thousands='.'": (
        r"[+-]?\d{1,3}(?:\.\d{3})+,\d+"
    ),
    "numbers with commas between thousands: say so with thousands=',' (--thousands ,)": (
        r"[+-]?\d{1,3}(?:,\d{3})+\.\d+|[+-]?\d{1,3}(?:,\d{3}){2,}"
    ),
    "decimal commas (or thousands): say which with decimal=',' or thousands=',' (--decimal , or --thousands ,)": (
        r"[+-]?\d{1,3}(?:,\d{3})"
    ),
    "decimal commas: say so with decimal=',' (--decimal ,)": r"[+-]?\d+,\d+",
    "percentages: remove the sign, or divide by 100": r"[+-]?[\d.,]+\s*%",
}


@dataclass(frozen=True)
class MalformedRow:
    """A row that could not be used: where it is, why, and what stands there."""

    where: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}{f' ({self.text})' if self.text else ''}"


@dataclass(frozen=True)
class RowReport:
    """What became of the rows of a table.

    Attributes
    ----------
    source : what was read.
    rows, used, empty : rows read, rows used, and rows with nothing in them.
    malformed : how many rows could not be used, by reason.
    examples : the first of them.
    row_word : what was counted: ``"rows"``, or ``"cells"`` of a wide table.
    findings : what was noticed about the table.
    unreadable : of each arm that has some, how many of its rewards are texts that are not a number.
    """

    source: str
    rows: int
    used: int
    empty: int
    malformed: dict[str, int]
    examples: tuple[MalformedRow, ...]
    row_word: str
    findings: tuple[Finding, ...]
    unreadable: dict[str, int]

    @property
    def n_malformed(self) -> int:
        """How many rows could not be used."""
        return sum(self.malformed.values())

    def example_lines(self) -> list[str]:
        """The examples as text, and how many more there are."""
        left = self.n_malformed - len(self.examples)
        return [*map(str, self.examples), *([f"… and {left:,} more"] if self.examples and left > 0 else [])]

    def unused_rows_sentence(self) -> str:
        """One sentence on the rows that were not used; empty if there are none."""
        rows = {reason: count for reason, count in self.malformed.items() if reason != NO_REWARDS}
        text = ""
        if rows:
            parts = ", ".join(f"{count:,} with {reason}" for reason, count in rows.items())
            text = f"{sum(rows.values()):,} of {self.rows:,} {self.row_word} could not be used: {parts}."
        if NO_REWARDS in self.malformed:
            arms = self.malformed[NO_REWARDS]
            text += f"{' ' if text else ''}{arms:,} arm{'s have' if arms > 1 else ' has'} no rewards."
        if self.empty:
            one = self.empty == 1
            text += (
                f"{' ' if text else ''}{self.empty:,} row{' has' if one else 's have'} neither an arm nor a reward and "
                f"{'was' if one else 'were'} skipped."
            )
        if rows and self.number_format_hint:
            text += f" {self.number_format_hint}"
        return text

    @property
    def unreadable_examples(self) -> list[str]:
        """The first rewards that are not a number."""
        return [e.text.rpartition(", ")[2].strip() for e in self.examples if e.reason == NOT_A_NUMBER]

    @property
    def number_format_hint(self) -> str:
        """A hint which number format the unreadable rewards seem to have; it is never applied by itself."""
        for what, pattern in _NUMBER_FORMAT_HINTS.items():
            found = [t for t in self.unreadable_examples if re.fullmatch(pattern, t)]
            if found:
                return f"Rewards such as {found[0]!r} look like {what}."
        return ""

    def raise_if_unusable(self, *, strict: bool) -> None:
        """Raise ``ValueError`` if no row could be used, or most are numbers written in another way.

        If ``strict``, also if some could not be used.
        """
        if self.used == 0:
            rows = (
                f"{self.n_malformed} {self.row_word} are"
                if self.n_malformed > 1
                else f"1 {self.row_word.removesuffix('s')} is"
            )
            why = f"; {rows} malformed, the first: {self.examples[0]}" if self.examples else ""
            what = self.number_format_hint or "Give rows with an arm and a number."
            if NO_TIME in self.malformed:
                what = "Write times as 2026-08-31, as 31.8.2026 or as numbers."
            raise ValueError(f"{self.source} holds no usable rewards{why}. {what}")
        if self.malformed.get(NOT_A_NUMBER, 0) > max(self.rows / 2, _FEW_ROWS) and self.number_format_hint:
            count = f"{self.malformed[NOT_A_NUMBER]:,} of {self.rows:,} {self.row_word}"
            raise ValueError(f"{self.source}: {count} have {NOT_A_NUMBER}. {self.number_format_hint}")
        if strict and self.malformed:
            shown = "; ".join(map(str, self.examples))
            raise ValueError(
                f"{self.source} has malformed {self.row_word}: {self.unused_rows_sentence()} The first: {shown}. "
                f"Repair or remove them."
            )


class RewardCollector(ABC):
    """Sorts rewards into arms and counts usable rows; subclasses decide what is kept of an arm."""

    def __init__(self, same_names: bool = False) -> None:
        self.same_names = same_names
        self._spellings: dict[str, str] = {}
        self.findings: list[Finding] = []
        self.left_out = 0  # rows that conditions leave out
        self.arm_indices: dict[str, int] = {}
        self.row_word = "rows"
        self.rows = self.used = self.empty = 0
        self.malformed: dict[str, int] = {}
        self.unreadable: dict[str, int] = {}
        self.examples: list[tuple[int, MalformedRow]] = []

    @abstractmethod
    def add_arm(self) -> None:
        """Add one more arm."""

    @abstractmethod
    def keep_rewards(
        self, at: NDArray[np.int64], values: FloatArray, units_and_times: UnitsAndTimes | None = None
    ) -> None:
        """Keep rewards, each with the index of its arm, in the order of their rows; and their units and times."""

    def arm_name(self, name: str) -> str:
        """The name of an arm with control characters escaped; that of the first spelling, if all are the same."""
        name = escape_control_characters(name)
        return self._spellings.setdefault(normalised_spelling(name), name) if self.same_names else name

    def arm_index(self, name: str) -> int:
        """The index of an arm by its name (added if new)."""
        name = self.arm_name(name)
        if name not in self.arm_indices:
            self.arm_indices[name] = len(self.arm_indices)
            self.add_arm()
        return self.arm_indices[name]

    def add_rewards(
        self,
        names: list[str],
        codes: NDArray[np.int64],
        values: FloatArray,
        units_and_times: UnitsAndTimes | None = None,
    ) -> None:
        """Add rewards of arms, given by codes into names; arms are numbered in the order of their first row."""
        if values.size == 0:
            return
        found, first = np.unique(codes, return_index=True)
        arm_index = np.zeros(len(names), dtype=np.int64)
        for code in found[np.argsort(first, kind="stable")].tolist():
            arm_index[code] = self.arm_index(names[code])
        self.keep_rewards(arm_index[codes], values, units_and_times)
        self.used += values.size

    def count_malformed(self, reason: str, count: int = 1) -> None:
        """Count rows that cannot be used."""
        self.malformed[reason] = self.malformed.get(reason, 0) + count

    def count_unreadable(self, name: str, count: int) -> None:
        """Count rewards of an arm that are texts, but neither numbers nor words for a missing reward."""
        self.unreadable[self.arm_name(name)] = self.unreadable.get(self.arm_name(name), 0) + count

    def keep_malformed_example(self, order: int, where: str, reason: str, text: str) -> None:
        """Keep a row that cannot be used as an example, if it is among the first few by ``order``."""
        if len(self.examples) < MOST_EXAMPLES or order < self.examples[-1][0]:
            text = escape_control_characters(text if len(text) <= 40 else text[:39] + "…")
            self.examples.append((order, MalformedRow(escape_control_characters(where), reason, text)))
            self.examples.sort(key=lambda pair: pair[0])
            del self.examples[MOST_EXAMPLES:]

    def count_and_keep_malformed(self, order: int, where: str, reason: str, text: str) -> None:
        """Count a row that cannot be used, and show it if it is among the first."""
        self.count_malformed(reason)
        self.keep_malformed_example(order, where, reason, text)

    def finish_row_report(self, source: str, *, strict: bool) -> RowReport:
        """The report on all rows; raises an error if none is usable."""
        shown = tuple(example for _, example in self.examples)
        row_report = RowReport(
            escape_control_characters(source),
            self.rows,
            self.used,
            self.empty,
            dict(self.malformed),
            shown,
            self.row_word,
            tuple(self.findings),
            dict(self.unreadable),
        )
        row_report.raise_if_unusable(strict=strict)
        return row_report
