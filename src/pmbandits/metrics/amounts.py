"""Numbers in a phrase: "the worst 5 %", "the worst quarter", "80 % average and 20 % worst 5 %", "the best of 5 tries".

A number that is said must count: one whose meaning is not clear is an error, and is never passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRACTIONS = {
    "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4, "quartile": 1 / 4, "fifth": 1 / 5, "tenth": 1 / 10,
    "decile": 1 / 10,
    "twentieth": 1 / 20, "hundredth": 1 / 100,
}  # fmt: skip
_WORDS = {word: k for k, word in enumerate("two three four five six seven eight nine ten".split(), 2)}  # noqa: SIM905
_NUMBER = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
_PERCENT = rf"{_NUMBER}\s*(?:%|percent|per cent)"
_SHARE = rf"(?:{_PERCENT}|(?:a |an |one |the )?(?:{'|'.join(_FRACTIONS)}))(?!\w)"
_ONE_IN = r"\b(?:1|one)\s+(?:in|of|out of)\s+(\d+)"
_LEADING = re.compile(rf"({_SHARE})\s*(?:of |on |for |from )?(?:the )?(.*)", re.DOTALL)
_TRIES = re.compile(
    rf"\bof\s+(?:my |our )?({_NUMBER}|{'|'.join(_WORDS)})\s+(?:\w+\s+)?(?:tries|attempts|times|retries)"
)


@dataclass(frozen=True)
class Amounts:
    """What the numbers in a phrase say.

    Attributes
    ----------
    share : the share that a tail or a level speaks about, or ``None``.
    tries : how many tries, or ``None``.
    left : numbers in the phrase that say neither.
    """

    share: float | None
    tries: float | None
    left: tuple[str, ...]


def amounts(phrase: str) -> Amounts:
    """Read the numbers of a phrase.

    >>> amounts("avoid the worst quarter").share, amounts("the best of five tries").tries
    (0.25, 5.0)
    >>> amounts("the worst 5 % of 100").left
    ('100',)
    """
    text = phrase.lower()
    tries, share = _TRIES.search(text), None
    number = None
    if tries:
        number = float(_WORDS.get(tries[1], 0)) or _value(tries[1])
        text = text.replace(tries[0], " of tries ")
    one_in = re.search(_ONE_IN, text)
    if one_in and int(one_in[1]) > 1:
        share, text = 1.0 / int(one_in[1]), text.replace(one_in[0], " ")
    else:
        found = re.search(_PERCENT, text) or re.search(rf"\b(?:{'|'.join(_FRACTIONS)})(?!\w)", text)
        if found:
            share, text = _share(found[0]), text[: found.start()] + " " + text[found.end() :]
    return Amounts(share, number, tuple(re.findall(rf"{_PERCENT}|{_NUMBER}|\b(?:{'|'.join(_FRACTIONS)})(?!\w)", text)))


def parts(phrase: str) -> list[tuple[float, str]]:
    """The parts of a phrase that says how much each of several wishes counts; empty if it is no such phrase.

    >>> parts("80 % average and 20 % worst 5 %")
    [(0.8, 'average'), (0.2, 'worst 5 %')]
    >>> parts("the worst 5 %"), parts("half of the days")
    ([], [])
    """
    clauses = [
        clause.strip() for clause in re.split(r",(?!\d)|;|\+|\band\b|\bplus\b", phrase.lower()) if clause.strip()
    ]
    found = [_LEADING.fullmatch(clause) for clause in clauses]
    if len(clauses) < 2 or not all(found):
        return []
    return [(_share(match[1]), match[2].strip()) for match in found if match]


def _share(text: str) -> float:
    text = re.sub(r"^(?:a|an|one|the) ", "", text.strip())
    return _FRACTIONS[text] if text in _FRACTIONS else _value(re.match(_NUMBER, text)[0]) / 100.0  # type: ignore[index]


def _value(text: str) -> float:
    return float(text.replace(",", "."))
