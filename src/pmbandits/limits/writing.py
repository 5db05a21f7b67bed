"""Limits written as text: ``"A >= 10%; B + C <= 0.3; A == 2 * B"``.

The text is cut into words and read by hand. Nothing is evaluated, so a text from a stranger can do no harm: it is read,
or it is refused with a sentence.

    text       limit, limit, …            between them ``;`` or ``,`` or a new line
    limit      sum <= sum                 also ``>=``, ``==``, ``≤``, ``≥``, ``=``; chains like ``0.1 <= A <= 0.3``
    sum        2 * A + B/4 - 10%          numbers, percentages, names of arms, brackets
    name       A, arm 0, 'my arm'         in quotes where a name looks like a number or has signs in it
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray

_LONGEST = 100_000  # characters of a text
_DEEPEST = 40  # brackets inside brackets
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SIGNS = {
    "<=": "<=", "=<": "<=", "≤": "<=", "<": "<=",
    ">=": ">=", "=>": ">=", "≥": ">=", ">": ">=",
    "==": "==", "=": "==",
    "+": "+", "-": "-", "−": "-", "*": "*", "·": "*", "×": "*", "/": "/", "(": "(", ")": ")", "%": "%",
    ";": ";", ",": ";", "\n": ";",
}  # fmt: skip
_BY_LENGTH = sorted(_SIGNS, key=len, reverse=True)
_COMPARE = ("<=", ">=", "==")
_PLAIN = re.compile(r"[^\W\d]\w*( \w+)*")
_IN_WORDS = {"at", "least", "most", "min", "max", "minimum", "maximum", "more", "less", "than", "between", "and", "is",
             "over", "under", "above", "below", "percent", "not", "no"}  # fmt: skip
_EXAMPLE = "write limits like 'A >= 10%; B + C <= 0.3; A == 2 * B'"


@dataclass(frozen=True)
class Row:
    """One limit: Σ coefficient · share ≤ bound, or = bound where ``equal``; and how it was written."""

    coefficients: FloatArray
    bound: float
    equal: bool
    text: str


@dataclass(frozen=True)
class _Word:
    kind: str  # "number", "name", or a sign
    value: float  # the number, or the arm's position
    start: int
    end: int


@dataclass
class _Sum:
    """Σ coefficient · share + constant."""

    coefficients: FloatArray
    constant: float

    def times(self, factor: float) -> _Sum:
        with np.errstate(all="ignore"):  # what is too large is refused at the end
            return _Sum(self.coefficients * factor, self.constant * factor)

    def plus(self, other: _Sum, sign: float) -> _Sum:
        with np.errstate(all="ignore"):
            return _Sum(self.coefficients + sign * other.coefficients, self.constant + sign * other.constant)

    @property
    def is_number(self) -> bool:
        return not self.coefficients.any()


def read(text: str, names: Sequence[str]) -> list[Row]:
    """The limits of a text, one row each; a chain is as many limits as it has signs of comparison."""
    if len(text) > _LONGEST:
        raise ValueError(f"a text of limits has at most {_LONGEST:,} characters, this one has {len(text):,}.")
    rows: list[Row] = []
    words = _words(text, names)
    start = 0
    for k, word in enumerate([*words, _Word(";", 0.0, len(text), len(text))]):
        if word.kind == ";":
            if k > start:
                rows += _Reader(text, names, words[start:k]).chain()
            start = k + 1
    return rows


def quoted(name: str) -> str:
    """A name as it is written in a text."""
    return name if _PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def written(coefficients: FloatArray, sign: str, bound: float, names: Sequence[str]) -> str:
    """A limit as text that :func:`read` understands."""
    left = ""
    for c, name in zip(coefficients, names, strict=True):
        if c != 0.0:
            size = "" if abs(c) == 1.0 else f"{abs(c):.15g} * "
            plus = (" + " if c > 0.0 else " - ") if left else ("" if c > 0.0 else "-")
            left += plus + size + quoted(name)
    return f"{left or '0'} {sign} {bound:.15g}"


def _words(text: str, names: Sequence[str]) -> list[_Word]:
    known = sorted(enumerate(names), key=lambda pair: -len(pair[1]))
    out: list[_Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace() and text[at] != "\n":
            at += 1
            continue
        number = _NUMBER.match(text, at)
        digits = number.end() - at if number else 0
        arm = next((k for k, name in known if len(name) > digits and _stands_at(text, at, name)), None)
        if arm is not None:
            word = _Word("name", float(arm), at, at + len(names[arm]))
        elif number:
            word = _Word("number", _finite(number.group(), text), at, number.end())
        elif text[at] in "'\"":
            word = _in_quotes(text, at, names)
        else:
            sign = next((s for s in _BY_LENGTH if text.startswith(s, at)), None)
            if sign is None:
                raise ValueError(_stranger(text, at, names))
            word = _Word(_SIGNS[sign], 0.0, at, at + len(sign))
        out.append(word)
        at = word.end
    return out


def _stands_at(text: str, at: int, name: str) -> bool:
    """Whether a name stands there, and is not only the beginning of a longer word."""
    end = at + len(name)
    if not name.strip() or not text.startswith(name, at):
        return False
    return end == len(text) or not (_wordlike(text[end]) and _wordlike(name[-1]))


def _wordlike(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _in_quotes(text: str, at: int, names: Sequence[str]) -> _Word:
    mark, end, name = text[at], at + 1, ""
    while True:
        close = text.find(mark, end)
        if close < 0:
            raise ValueError(f"a quotation mark is not closed in {_check.short(text[at:])}; {_EXAMPLE}.")
        name += text[end:close]
        end = close + 1
        if text.startswith(mark, end):  # a doubled mark is one mark of the name
            name += mark
            end += 1
            continue
        break
    if name not in names:
        raise ValueError(_check.unknown("a limit names the unknown arm", name, names))
    return _Word("name", float(list(names).index(name)), at, end)


def _stranger(text: str, at: int, names: Sequence[str]) -> str:
    end = at
    while end < len(text) and _wordlike(text[end]):
        end += 1
    if text[at:end].lower() in _IN_WORDS:
        return f"{text[at:end]!r} in {_check.short(text)} cannot be read; {_EXAMPLE}."
    if end > at:
        return _check.unknown("a limit names the unknown arm", text[at : min(end, at + 60)], names)
    return f"the sign {text[at]!r} in {_check.short(text)} cannot be read; {_EXAMPLE}."


def _finite(digits: str, text: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {_check.short(digits)} in a limit is too large; {_EXAMPLE}.")
    return value


class _Reader:
    """Reads the words of one limit."""

    def __init__(self, text: str, names: Sequence[str], words: list[_Word]) -> None:
        self.names, self.words, self.at, self.depth = names, words, 0, 0
        self.text = text
        self.shown = " ".join(text[words[0].start : words[-1].end].split())

    def wrong(self, why: str) -> ValueError:
        return ValueError(f"the limit {_check.short(self.shown)} cannot be read: {why}; {_EXAMPLE}.")

    def next(self, *kinds: str) -> _Word | None:
        """The next word if it is of one of these kinds."""
        if self.at < len(self.words) and self.words[self.at].kind in kinds:
            self.at += 1
            return self.words[self.at - 1]
        return None

    def chain(self) -> list[Row]:
        sums, signs, ends = [self.sum()], [], [self.at]
        while (sign := self.next(*_COMPARE)) is not None:
            signs.append(sign.kind)
            sums.append(self.sum())
            ends.append(self.at)
        if self.at < len(self.words):
            word = self.words[self.at]
            raise self.wrong(f"{self.text[word.start : word.end]!r} does not belong there")
        if not signs:
            point = " (decimals have a point, not a comma)" if self.shown.isdigit() else ""
            raise self.wrong(f"it has no sign such as <= or >={point}")
        pieces = [0, *(end + 1 for end in ends)]
        out = []
        for k, (left, right) in enumerate(pairwise(sums)):
            here = self.words[pieces[k]].start, self.words[ends[k + 1] - 1].end
            out.append(self._row(left, signs[k], right, " ".join(self.text[here[0] : here[1]].split())))
        return out

    def _row(self, left: _Sum, sign: str, right: _Sum, text: str) -> Row:
        difference = left.plus(right, -1.0)
        if sign == ">=":
            difference = difference.times(-1.0)
        if not np.isfinite(difference.coefficients).all() or not math.isfinite(difference.constant):
            raise ValueError(f"the numbers of the limit {_check.short(text)} are too large; take smaller ones.")
        if difference.is_number:
            raise self.wrong("it says nothing about the share of any arm (put names that look like numbers in quotes)")
        return Row(difference.coefficients + 0.0, 0.0 - difference.constant, sign == "==", text)

    def sum(self) -> _Sum:
        sign = self.next("+", "-")
        total = self.product()
        if sign is not None and sign.kind == "-":
            total = total.times(-1.0)
        while (sign := self.next("+", "-")) is not None:
            total = total.plus(self.product(), 1.0 if sign.kind == "+" else -1.0)
        return total

    def product(self) -> _Sum:
        total = self.factor()
        while True:
            if self.next("*"):
                total = self._times(total, self.factor())
            elif self.next("/"):
                divisor = self.factor()
                if not divisor.is_number or divisor.constant == 0.0:
                    raise self.wrong("it divides by something that is not a number, or by 0")
                total = total.times(1.0 / divisor.constant)
            elif total.is_number and self.at < len(self.words) and self.words[self.at].kind in ("name", "("):
                total = self._times(total, self.factor())  # 2 A, 2 (A + B)
            else:
                return total

    def _times(self, a: _Sum, b: _Sum) -> _Sum:
        if not (a.is_number or b.is_number):
            raise self.wrong("it multiplies two shares, and only sums of shares can be limited")
        return b.times(a.constant) if a.is_number else a.times(b.constant)

    def factor(self) -> _Sum:
        nothing = np.zeros(len(self.names))
        if (word := self.next("number")) is not None:
            return _Sum(nothing, word.value / 100.0 if self.next("%") else word.value)
        if (word := self.next("name")) is not None:
            nothing[int(word.value)] = 1.0
            return _Sum(nothing, 0.0)
        if self.next("("):
            self.depth += 1
            if self.depth > _DEEPEST:
                raise self.wrong("it has too many brackets inside brackets")
            inside = self.sum()
            if not self.next(")"):
                raise self.wrong("a bracket is not closed")
            self.depth -= 1
            return inside
        raise self.wrong("a number or the name of an arm is missing")
