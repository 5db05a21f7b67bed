"""Rewards on their way from a table to their arms, with an account of every row."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray, readable

SHOWN = 10  # malformed rows that are shown
NO_REWARDS = "no rewards"  # said of an arm of a dict that has none
NO_TIME = "a time that cannot be read"
NOT_A_NUMBER = "a reward that is not a number"
_SIGN = r"[+-]?\s*(?:[€$£¥₹]|[A-Z]{3})"
_LOOKS = {
    "amounts of money: say so with currency='€' (--currency €), and how thousands and decimals are written": (
        rf"(?:{_SIGN}\s*[+-]?[\d.,' ]+|[+-]?[\d.,' ]+\s*(?:[€$£¥₹]|[A-Z]{{3}}))"
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
class Malformed:
    """A row that could not be used: where it is, why, and what stands there."""

    where: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}{f' ({self.text})' if self.text else ''}"


@dataclass(frozen=True)
class Account:
    """What became of the rows of a table.

    Attributes
    ----------
    source : what was read.
    rows, used, empty : rows read, rows used, and rows with nothing in them.
    malformed : how many rows could not be used, by reason.
    examples : the first of them.
    word : what was counted: ``"rows"``, or ``"cells"`` of a wide table.
    """

    source: str
    rows: int
    used: int
    empty: int
    malformed: dict[str, int]
    examples: tuple[Malformed, ...]
    word: str

    @property
    def n_malformed(self) -> int:
        """How many rows could not be used."""
        return sum(self.malformed.values())

    def shown(self) -> list[str]:
        """The examples as text, and how many more there are."""
        left = self.n_malformed - len(self.examples)
        return [*map(str, self.examples), *([f"… and {left:,} more"] if self.examples and left > 0 else [])]

    def account(self) -> str:
        """One sentence on the rows that were not used; empty if there are none."""
        rows = {reason: count for reason, count in self.malformed.items() if reason != NO_REWARDS}
        text = ""
        if rows:
            parts = ", ".join(f"{count:,} with {reason}" for reason, count in rows.items())
            text = f"{sum(rows.values()):,} of {self.rows:,} {self.word} could not be used: {parts}."
        if NO_REWARDS in self.malformed:
            arms = self.malformed[NO_REWARDS]
            text += f"{' ' if text else ''}{arms:,} arm{'s have' if arms > 1 else ' has'} no rewards."
        if self.empty:
            one = self.empty == 1
            text += (
                f"{' ' if text else ''}{self.empty:,} row{' has' if one else 's have'} neither an arm nor a reward and "
                f"{'was' if one else 'were'} skipped."
            )
        if rows and self.hint:
            text += f" {self.hint}"
        return text

    @property
    def hint(self) -> str:
        """What the rewards that are no numbers look like; they are never guessed."""
        texts = [e.text.rpartition(", ")[2].strip() for e in self.examples if e.reason == NOT_A_NUMBER]
        for what, pattern in _LOOKS.items():
            found = [t for t in texts if re.fullmatch(pattern, t)]
            if found:
                return f"Rewards such as {found[0]!r} look like {what}."
        return ""

    def check(self, *, strict: bool) -> None:
        """An error if no row could be used; if ``strict``, also if some could not."""
        if self.used == 0:
            rows = (
                f"{self.n_malformed} {self.word} are" if self.n_malformed > 1 else f"1 {self.word.removesuffix('s')} is"
            )
            why = f"; {rows} malformed, the first: {self.examples[0]}" if self.examples else ""
            what = self.hint or "Give rows with an arm and a number."
            if NO_TIME in self.malformed:
                what = "Write times as 2026-08-31, as 31.8.2026 or as numbers."
            raise ValueError(f"{self.source} holds no usable rewards{why}. {what}")
        if strict and self.malformed:
            shown = "; ".join(map(str, self.examples))
            raise ValueError(
                f"{self.source} has malformed {self.word}: {self.account()} The first: {shown}. Repair or remove them."
            )


class Collector(ABC):
    """Sorts rewards into arms and keeps the account of the rows; what is kept of an arm is said by subclasses."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.word = "rows"
        self.rows = self.used = self.empty = 0
        self.malformed: dict[str, int] = {}
        self.examples: list[tuple[int, Malformed]] = []

    @abstractmethod
    def new_arm(self) -> None:
        """Make room for one more arm."""

    @abstractmethod
    def keep(self, at: NDArray[np.int64], values: FloatArray) -> None:
        """Rewards, each with the place of its arm, in the order of their rows."""

    def place(self, name: str) -> int:
        """The place of an arm that is given by its name; control characters in it are written out."""
        name = readable(name)
        if name not in self.places:
            self.places[name] = len(self.places)
            self.new_arm()
        return self.places[name]

    def arm(self, name: str, values: FloatArray) -> None:
        """Rewards of an arm that is given by its name."""
        self.keep(np.full(values.size, self.place(name), dtype=np.int64), values)
        self.used += values.size

    def codes(self, codes: NDArray[Any], names: list[str], values: FloatArray, beside: Any = None) -> None:
        """Rewards of several arms, given by codes into names; arms are numbered in the order of their first row."""
        if values.size == 0:
            return
        found, first = np.unique(codes, return_index=True)
        place = np.zeros(len(names), dtype=np.int64)
        for code in found[np.argsort(first, kind="stable")].tolist():
            place[code] = self.place(names[code])
        self.keep(place[codes], values)
        if beside is not None:
            self.keep_beside(beside)
        self.used += values.size

    def keep_beside(self, beside: Any) -> None:
        """Units and times of the rewards that were kept last; not asked for here."""
        return

    def bad(self, order: int, where: str, reason: str, text: str, count: int = 1) -> None:
        """A row that cannot be used. The first few, by ``order``, are kept as examples."""
        self.malformed[reason] = self.malformed.get(reason, 0) + count
        if self.wants_examples(order):
            text = readable(text if len(text) <= 40 else text[:39] + "…")
            self.examples.append((order, Malformed(readable(where), reason, text)))
            self.examples.sort(key=lambda pair: pair[0])
            del self.examples[SHOWN:]

    def wants_examples(self, order: int) -> bool:
        """Whether a malformed row at this place would be shown."""
        return len(self.examples) < SHOWN or order < self.examples[-1][0]

    def finish(self, source: str, *, strict: bool) -> Account:
        """The account of all rows; an error if they are no use."""
        shown = tuple(example for _, example in self.examples)
        account = Account(readable(source), self.rows, self.used, self.empty, dict(self.malformed), shown, self.word)
        account.check(strict=strict)
        return account
