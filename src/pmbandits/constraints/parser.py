"""Limits written as text: ``"A >= 10%; B + C <= 0.3; A == 2 * B"``.

The text is cut into words and read by hand. Nothing is evaluated, so a text from a stranger can do no harm: it is read,
or it is refused with a sentence.

    text       limit, limit, …            between them ``;`` or ``,`` or a new line
    limit      sum <= sum                 also ``>=``, ``==``, ``≤``, ``≥``, ``=``; chains like ``0.1 <= A <= 0.3``
    sum        2 * A + B/4 - 10%          numbers, percentages, names of arms, brackets
    name       A, arm 0, 'my arm'         in quotes where a name looks like a number or has signs in it

With segments, a limit that begins with the name of one, as in ``"new: A >= 10%"``, is about the shares among its
people; all others are about the whole population.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.segments import Segments

_MAX_CHARACTERS = 100_000  # characters of a text
_MAX_DEPTH = 40  # brackets inside brackets
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SIGNS = {
    "<=": "<=", "=<": "<=", "≤": "<=", "<": "<=",
    ">=": ">=", "=>": ">=", "≥": ">=", ">": ">=",
    "==": "==", "=": "==",
    "+": "+", "-": "-", "−": "-", "*": "*", "·": "*", "×": "*", "/": "/", "(": "(", ")": ")", "%": "%",
    ";": ";", ",": ";", "\n": ";",
}  # fmt: skip
_SIGNS_BY_LENGTH = sorted(_SIGNS, key=len, reverse=True)
_COMPARISONS = ("<=", ">=", "==")
_SEGMENT = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|[^:;,\n<>=≤≥'"]+?)\s*:""")  # at the start of a limit
_PLAIN_NAME = re.compile(r"[^\W\d]\w*( \w+)*")
_ENGLISH_WORDS = {
    "at",
    "least",
    "most",
    "min",
    "max",
    "minimum",
    "maximum",
    "more",
    "less",
    "than",
    "between",
    "and",
    "is",
    "over",
    "under",
    "above",
    "below",
    "percent",
    "not",
    "no",
}
_EXAMPLE = "write limits like 'A >= 10%; B + C <= 0.3; A == 2 * B'"


@dataclass(frozen=True)
class Row:
    """One limit: Σ coefficient · share ≤ bound, or = bound where ``equal``; how it was written, and for which segment.

    Without a segment it is about the whole population.
    """

    coefficients: FloatArray
    bound: float
    equal: bool
    text: str
    segment: int | None = None


@dataclass(frozen=True)
class _Token:
    kind: str  # "number", "name", "segment", or a sign
    value: float  # the number, or the position of the arm or segment
    start: int
    end: int


@dataclass
class _LinearExpression:
    """Σ coefficient · share + constant."""

    coefficients: FloatArray
    constant: float

    def times(self, factor: float) -> _LinearExpression:
        with np.errstate(all="ignore"):  # what is too large is refused at the end
            return _LinearExpression(self.coefficients * factor, self.constant * factor)

    def plus(self, other: _LinearExpression, sign: float) -> _LinearExpression:
        with np.errstate(all="ignore"):
            return _LinearExpression(
                self.coefficients + sign * other.coefficients, self.constant + sign * other.constant
            )

    @property
    def is_number(self) -> bool:
        return not self.coefficients.any()


def parse_limits(text: str, names: Sequence[str], segments: Segments | None = None) -> list[Row]:
    """The limits of a text, one row each; a chain is as many limits as it has signs of comparison."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"a text of limits has at most {_MAX_CHARACTERS:,} characters, this one has {len(text):,}.")
    rows: list[Row] = []
    tokens = _tokenise(text, names, segments)
    start = 0
    for k, word in enumerate([*tokens, _Token(";", 0.0, len(text), len(text))]):
        if word.kind == ";":
            if k > start:
                rows += _LimitParser(text, names, tokens[start:k]).parse_chain()
            start = k + 1
    return rows


def quote_name(name: str) -> str:
    """A name as it is written in a text."""
    return name if _PLAIN_NAME.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def format_limit(coefficients: FloatArray, sign: str, bound: float, names: Sequence[str]) -> str:
    """A limit as text that :func:`read` understands."""
    left = ""
    for c, name in zip(coefficients, names, strict=True):
        if c != 0.0:
            size = "" if abs(c) == 1.0 else f"{abs(c):.15g} * "
            plus = (" + " if c > 0.0 else " - ") if left else ("" if c > 0.0 else "-")
            left += plus + size + quote_name(name)
    return f"{left or '0'} {sign} {bound:.15g}"


def _tokenise(text: str, names: Sequence[str], segments: Segments | None) -> list[_Token]:
    known = {name: arm for arm, name in reversed(list(enumerate(names)))}
    lengths = sorted({len(name) for name in names}, reverse=True)
    out: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace() and text[at] != "\n":
            at += 1
            continue
        prefix = _SEGMENT.match(text, at) if segments is not None and (not out or out[-1].kind == ";") else None
        if prefix is not None and segments is not None:
            name = _unquote(prefix[1]) if prefix[1][0] in "'\"" else prefix[1]
            out.append(_Token("segment", float(segments.index(name)), at, prefix.end()))
            at = prefix.end()
            continue
        number = _NUMBER.match(text, at)
        digits = number.end() - at if number else 0
        stretches = (text[at : at + length] for length in lengths if length > digits)
        arm = next((known[name] for name in stretches if name in known and _is_name_at(text, at, name)), None)
        if arm is not None:
            word = _Token("name", float(arm), at, at + len(names[arm]))
        elif number:
            word = _Token("number", _parse_number(number.group(), text), at, number.end())
        elif text[at] in "'\"":
            word = _read_quoted_name_token(text, at, names)
        else:
            sign = next((s for s in _SIGNS_BY_LENGTH if text.startswith(s, at)), None)
            if sign is None:
                raise ValueError(_unexpected_text_message(text, at, names))
            word = _Token(_SIGNS[sign], 0.0, at, at + len(sign))
        out.append(word)
        at = word.end
    return out


def _unquote(text: str) -> str:
    """A name without the quotation marks around it; a doubled mark is one mark of the name."""
    return text[1:-1].replace(2 * text[0], text[0])


def _is_name_at(text: str, at: int, name: str) -> bool:
    """Whether a name stands there, and is not only the beginning of a longer word."""
    end = at + len(name)
    if not name.strip() or not text.startswith(name, at):
        return False
    return end == len(text) or not (_is_word_character(text[end]) and _is_word_character(name[-1]))


def _is_word_character(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _read_quoted_name_token(text: str, at: int, names: Sequence[str]) -> _Token:
    mark, end, name = text[at], at + 1, ""
    while True:
        close = text.find(mark, end)
        if close < 0:
            raise ValueError(f"a quotation mark is not closed in {_validation.short_repr(text[at:])}; {_EXAMPLE}.")
        name += text[end:close]
        end = close + 1
        if text.startswith(mark, end):  # a doubled mark is one mark of the name
            name += mark
            end += 1
            continue
        break
    if name not in names:
        raise ValueError(_validation.unknown_name_message("a limit names the unknown arm", name, names))
    return _Token("name", float(list(names).index(name)), at, end)


def _unexpected_text_message(text: str, at: int, names: Sequence[str]) -> str:
    end = at
    while end < len(text) and _is_word_character(text[end]):
        end += 1
    if text[at:end].lower() in _ENGLISH_WORDS:
        return f"{text[at:end]!r} in {_validation.short_repr(text)} cannot be read; {_EXAMPLE}."
    if end > at:
        return _validation.unknown_name_message("a limit names the unknown arm", text[at : min(end, at + 60)], names)
    return f"the sign {text[at]!r} in {_validation.short_repr(text)} cannot be read; {_EXAMPLE}."


def _parse_number(digits: str, text: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {_validation.short_repr(digits)} in a limit is too large; {_EXAMPLE}.")
    return value


class _LimitParser:
    """Reads the words of one limit."""

    def __init__(self, text: str, names: Sequence[str], tokens: list[_Token]) -> None:
        self.names, self.tokens, self.at, self.depth = names, tokens, 0, 0
        self.text = text
        self.limit_text = " ".join(text[tokens[0].start : tokens[-1].end].split())

    def make_parse_error(self, why: str) -> ValueError:
        return ValueError(f"the limit {_validation.short_repr(self.limit_text)} cannot be read: {why}; {_EXAMPLE}.")

    def next_token_of_kinds(self, *kinds: str) -> _Token | None:
        """The next word if it is of one of these kinds."""
        if self.at < len(self.tokens) and self.tokens[self.at].kind in kinds:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def parse_chain(self) -> list[Row]:
        prefix = self.next_token_of_kinds("segment")
        sums, signs, ends = [self.parse_sum()], [], [self.at]
        while (sign := self.next_token_of_kinds(*_COMPARISONS)) is not None:
            signs.append(sign.kind)
            sums.append(self.parse_sum())
            ends.append(self.at)
        if self.at < len(self.tokens):
            word = self.tokens[self.at]
            raise self.make_parse_error(f"{self.text[word.start : word.end]!r} does not belong there")
        if not signs:
            point = " (decimals have a point, not a comma)" if self.limit_text.isdigit() else ""
            raise self.make_parse_error(f"it has no sign such as <= or >={point}")
        pieces = [int(prefix is not None), *(end + 1 for end in ends)]
        before = "" if prefix is None else self.text[prefix.start : prefix.end] + " "
        out = []
        for k, (left, right) in enumerate(pairwise(sums)):
            here = self.tokens[pieces[k]].start, self.tokens[ends[k + 1] - 1].end
            text = " ".join((before + self.text[here[0] : here[1]]).split())
            row = self._limit_row_from_sides(left, signs[k], right, text)
            out.append(row if prefix is None else replace(row, segment=int(prefix.value)))
        return out

    def _limit_row_from_sides(self, left: _LinearExpression, sign: str, right: _LinearExpression, text: str) -> Row:
        difference = left.plus(right, -1.0)
        if sign == ">=":
            difference = difference.times(-1.0)
        if not np.isfinite(difference.coefficients).all() or not math.isfinite(difference.constant):
            raise ValueError(
                f"the numbers of the limit {_validation.short_repr(text)} are too large; take smaller ones."
            )
        if difference.is_number:
            raise self.make_parse_error(
                "it says nothing about the share of any arm (put names that look like numbers in quotes)"
            )
        return Row(difference.coefficients + 0.0, 0.0 - difference.constant, sign == "==", text)

    def parse_sum(self) -> _LinearExpression:
        sign = self.next_token_of_kinds("+", "-")
        total = self.parse_product()
        if sign is not None and sign.kind == "-":
            total = total.times(-1.0)
        while (sign := self.next_token_of_kinds("+", "-")) is not None:
            total = total.plus(self.parse_product(), 1.0 if sign.kind == "+" else -1.0)
        return total

    def parse_product(self) -> _LinearExpression:
        total = self.parse_factor()
        while True:
            if self.next_token_of_kinds("*"):
                total = self._multiply_expressions(total, self.parse_factor())
            elif self.next_token_of_kinds("/"):
                divisor = self.parse_factor()
                if not divisor.is_number or divisor.constant == 0.0:
                    raise self.make_parse_error("it divides by something that is not a number, or by 0")
                total = total.times(1.0 / divisor.constant)
            elif total.is_number and self.at < len(self.tokens) and self.tokens[self.at].kind in ("name", "("):
                total = self._multiply_expressions(total, self.parse_factor())  # 2 A, 2 (A + B)
            else:
                return total

    def _multiply_expressions(self, a: _LinearExpression, b: _LinearExpression) -> _LinearExpression:
        if not (a.is_number or b.is_number):
            raise self.make_parse_error("it multiplies two shares, and only sums of shares can be limited")
        return b.times(a.constant) if a.is_number else a.times(b.constant)

    def parse_factor(self) -> _LinearExpression:
        nothing = np.zeros(len(self.names))
        if (word := self.next_token_of_kinds("number")) is not None:
            return _LinearExpression(nothing, word.value / 100.0 if self.next_token_of_kinds("%") else word.value)
        if (word := self.next_token_of_kinds("name")) is not None:
            nothing[int(word.value)] = 1.0
            return _LinearExpression(nothing, 0.0)
        if self.next_token_of_kinds("("):
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise self.make_parse_error("it has too many brackets inside brackets")
            inside = self.parse_sum()
            if not self.next_token_of_kinds(")"):
                raise self.make_parse_error("a bracket is not closed")
            self.depth -= 1
            return inside
        raise self.make_parse_error("a number or the name of an arm is missing")
