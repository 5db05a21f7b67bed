"""Read a phrase for what somebody values: topics that are wanted or to be avoided, and numbers.

It is a fixed reader of a few hundred words, not a language model. It refuses what it does not understand, phrases that
say two opposite things, and numbers whose meaning is not clear.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# ---- words ------------------------------------------------------------------------------------------------

# Topics, by how their words begin. A longer beginning wins; a word after = must be the whole word.
_TOPIC_STEMS = {
    "average": "averag mean expect total =sum overall usual",
    "spread": "spread varia variety divers volatil dispers deviat swing fluctuat surpris inequal unequal uneven noise "
    "mixed gini =std",
    "steady": "steady stead stable stabil consisten reliab smooth constant fair equal equit =even certain",
    "foreseen": "predict",
    "low": "worst loss losses disaster downside catastroph failure fail =bad ruin crash drawdown safe safety cautious "
    "careful danger harm",
    "high": "best =top upside =hit hits upper peak discover winner bold gambl",
    "jackpot": "jackpot lotter moonshot",
    "rare": "rare seldom unlikely outlandish",
    "gain": "gain gains =win wins",
    "risk": "risk risks risky",
    "tries": "tries =try attempt retry retries",
    "level": "level reach quantile percentil guarante threshold service deadline",
    "median": "median",
    "people": "people human prospect psycholog behaviour feel kahneman",
    "gap": "=gap contrast polaris polariz extreme",
    "outlier": "outlier robust",
    "stick": "stick",
    "lowend": "lowend",
    "guess": "unpredictab guess foresee foreseen patrol random",
    "cost": "cost costs price expens spend",
}
_STEMS = sorted(
    ((stem, topic) for topic, stems in _TOPIC_STEMS.items() for stem in stems.split()),
    key=lambda pair: -len(pair[0].lstrip("=")),
)
_DECREASING = re.compile(
    r"avoid|minimi|reduc|less|low|small|little|limit|prevent|against|dislike|hate|fewer|cut|decreas|protect|least|averse"
    r"|aversion|escape|free|ignor|tame|punish|penal|discourag|curb|damp|shrink|insure|guard|shield|contain|control"
    r"|tight|narrow"
)
_NEGATIONS = frozenset("not no never without nobody none cannot nor nothing hardly barely".split())  # noqa: SIM905
_INCREASING = frozenset(
    """more high higher highest good increase maximise maximize much great greater some raise grow improve boost most
    largest""".split()  # noqa: SIM905
)
_LIKING = frozenset("take taking love like seek seeking more want embrace".split())  # noqa: SIM905
# Words without direction. A wish for spread or for the best, whose opposite is also wished for, may have no others.
_NEUTRAL = frozenset(
    """a an the of in to and or for with my our i we you me it its is are be as at on by that this all any each one two
    three want wants wish need value prefer reward rewards result results outcome outcomes income return returns
    possible better large larger big bigger just only plain pure please case cases count counts matter matters care
    about go looking look over overweight weight eye lot lots from am days day how out percent do does will would should
    make makes end but rather instead arithmetic simple long-run""".split()  # noqa: SIM905
)
# Words of finance, and what they say of rewards: a tail, or a level.
_TAIL_TERMS = re.compile(
    r"\b(?:(?:conditional|average|tail) value[ -]at[ -]risk|expected (?:shortfall|tail loss)|cvar(?=.*\d)|(?<=% )cvar)"
    r"\b"
)
_LEVEL_TERMS = re.compile(r"\b(?:value[ -]at[ -]risk|var(?=.*\d)|(?<=% )var)\b")
_RATIO = re.compile(
    r"\bper\b[\w ]*\b(?:risk|volatil|varia|spread|deviat)|\badjusted\b|\bratio\b|\b(?:sharpe|sortino|calmar)\b"
)
_KIND_OF_MEAN = re.compile(r"([a-z'-]+) (?:mean|average)\b")
_INDIFFERENT = re.compile(r"\b(not|never|hardly) (really )?care\b|\bis (fine|ok|okay)\b")

# ---- from topics to an entry of the catalogue -------------------------------------------------------------

# Marks of a topic: + it is wanted, - to be avoided, ! not wanted ("not the average"), < one of the last two; without a
# mark, it is named at all. The first rule counts whose marks are all there, and none of those after "unless".
_RULES = (
    ("guess", "guess"),
    ("<foreseen", "guess"),
    ("+tries", "tries"),
    ("+median unless +spread", "median"),
    ("+level", "level"),
    ("+people", "people"),
    ("+gap", "gap"),
    ("rare gain low", "both ends"),
    ("+rare +gain stick", "only rare"),
    ("+rare +gain", "rare gains"),
    ("<rare unless low", None),
    ("<high unless low", None),
    ("<jackpot unless low", None),
    ("gain unless low", None),
    ("+jackpot", "rare gains"),
    ("=spread outlier unless =steady", "robust spread"),
    ("=spread lowend", "low spread"),
    ("+rare unless low", None),
    ("outlier average", "kind of mean"),
)
# The wishes that marks amount to. Rules call them by their names after =.
_IMPLIED = {
    "+average": "average",
    "+spread": "spread",
    "-steady": "spread",
    "<spread": "steady",
    "+steady": "steady",
    "+foreseen": "steady",
    "-risk": "worst",
    "low": "worst",
    "+risk": "best",
    "+high": "best",
}
_SYNONYMS = {"average and steady": "steady", "steady and worst": "worst"}


def catalogue_key(phrase: str) -> str | None:
    """The key of the catalogue entry that a phrase means; ``None``, or a key that no entry has, if it means none.

    >>> catalogue_key("a good average with low variance"), catalogue_key("more variety and less variety")
    ('steady', 'spread and steady')
    """
    key: str | None
    text = phrase.lower().replace("’", "'").replace("n't", " not").replace("low end", "lowend")
    text = _LEVEL_TERMS.sub("level", _TAIL_TERMS.sub("worst", text))
    if _RATIO.search(text):
        return "ratio"
    if any(not _is_known_word(word) for word in _KIND_OF_MEAN.findall(text)):
        return "kind of mean"
    marked: set[str] = set()
    for clause in re.split(r"[,;:]|\bbut\b|\brather\b|\binstead\b", text):
        marked |= _topics_of_clause(clause)
    marks = marked | {mark[1:] for mark in marked} | {f"<{mark[1:]}" for mark in marked if mark[0] in "-!"}
    wishes = {wish for mark, wish in _IMPLIED.items() if mark in marks}
    seen = marks | {f"={wish}" for wish in wishes}
    for rule, key in _RULES:
        needed, _, barred = rule.partition(" unless ")
        if seen.issuperset(needed.split()) and seen.isdisjoint(barred.split()):
            return key
    if "-average" in marks or marks >= {"-cost", "average"}:  # a low average of costs is a high one of rewards
        wishes -= {"worst", "average"}
        wishes |= {"average"} if marks & {"cost", "low"} else set()
    if wishes & {"spread", "best"} and not all(map(_is_known_word, re.findall(r"[a-z']+", text))):
        return None
    key = " and ".join(sorted(wishes))
    return _SYNONYMS.get(key, key)


def _topics_of_clause(clause: str) -> set[str]:
    """The topics that a clause names, each with its mark before it."""
    marked: set[str] = set()
    negated = decreased = liked = False  # by "not", by "avoid" and its like, by "love" and its like
    last, reversed_after = "", False  # the topic that was named last, and whether "low" or "not" came after it
    for word in re.findall(r"[a-z']+", clause):
        topic = _topic_of_word(word)
        if word in _NEGATIONS:
            negated = reversed_after = True
        elif topic is None and _DECREASING.match(word):
            decreased = reversed_after = True
        elif word in _INCREASING and not negated:
            decreased = False
        liked = liked or (word in _LIKING and not negated)
        if topic is None:
            continue
        if topic == "risk":  # to be avoided, if nothing is said of it
            mark = "+" if liked and not (negated or decreased) else "-"
        else:
            mark = "+" if negated == decreased else "!" if negated else "-"
        marked.add(mark + topic)
        last, reversed_after = topic, False
    if reversed_after and f"+{last}" in marked:  # "the spread should be low"
        marked = marked - {f"+{last}"} | {f"-{last}"}
    return set() if _INDIFFERENT.search(clause) else marked


def _topic_of_word(word: str) -> str | None:
    for stem, topic in _STEMS:
        if word == stem[1:] if stem[0] == "=" else word.startswith(stem):
            return topic
    return None


def _is_known_word(word: str) -> bool:
    plain = word in _NEUTRAL | _NEGATIONS | _INCREASING | _LIKING
    return plain or _topic_of_word(word) is not None or _DECREASING.match(word) is not None


# ---- numbers ----------------------------------------------------------------------------------------------

_FRACTIONS = {"half": 2, "third": 3, "quarter": 4, "quartile": 4, "fifth": 5, "tenth": 10, "decile": 10}
_FRACTIONS |= {"twentieth": 20, "hundredth": 100}
_NUMBER_WORDS = {word: k for k, word in enumerate("two three four five six seven eight nine ten".split(), 2)}  # noqa: SIM905
_NUMBER = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
_PERCENT = rf"{_NUMBER}\s*(?:%|percent|per cent)"
_FRACTION = rf"\b(?:{'|'.join(_FRACTIONS)})(?!\w)"
_ONE_IN = r"\b(?:1|one)\s+(?:in|of|out of)\s+(?:[2-9]|[1-9]\d+)\b"
_SHARE = re.compile(rf"{_ONE_IN}|{_PERCENT}|{_FRACTION}")
_ANY_NUMBER = re.compile(rf"{_PERCENT}|{_NUMBER}|{_FRACTION}")
_TRIES = re.compile(
    rf"\bof\s+(?:my |our )?({_NUMBER}|{'|'.join(_NUMBER_WORDS)})\s+(?:\w+\s+)?(?:tries|attempts|times|retries)"
    rf"|\bbest of ({_NUMBER}|{'|'.join(_NUMBER_WORDS)})$"
)
_WEIGHTED_CLAUSE = re.compile(
    rf"({_PERCENT}(?!\w)|(?:a |an |one |the )?{_FRACTION})\s*(?:of |on |for |from )?(?:the )?(.*)", re.DOTALL
)


class PhraseNumbers(NamedTuple):
    """What the numbers in a phrase say: the share of a tail or a level, the number of tries, and those unused."""

    share: float | None
    tries: float | None
    unused: list[str]


def parse_phrase_numbers(phrase: str) -> PhraseNumbers:
    """Read the numbers of a phrase.

    >>> parse_phrase_numbers("avoid the worst quarter").share, parse_phrase_numbers("the best of five tries").tries
    (0.25, 5.0)
    >>> parse_phrase_numbers("the worst 5 % of 100").unused, parse_phrase_numbers("expected shortfall 95 %").share
    (['100'], 0.05)
    """
    text, share, tries = phrase.lower(), None, None
    of_tail = _TAIL_TERMS.search(text) is not None
    if found := _TRIES.search(text):
        said = found[1] or found[2]
        tries = float(_NUMBER_WORDS.get(said, 0)) or _parse_decimal(said)
        text = text.replace(found[0], " ")
    if found := _SHARE.search(text):
        share, text = _parse_share(found[0]), text[: found.start()] + " " + text[found.end() :]
        share = round(min(share, 1.0 - share), 12) if of_tail else share  # of 95 % it is about the other 5 %
    return PhraseNumbers(share, tries, _ANY_NUMBER.findall(text))


def split_weighted_phrase(phrase: str) -> list[tuple[float, str]]:
    """Weights and clauses of a phrase such as "80 % average and 20 % worst 5 %"; empty for other phrases.

    >>> split_weighted_phrase("80 % average and 20 % worst 5 %")
    [(0.8, 'average'), (0.2, 'worst 5 %')]
    >>> split_weighted_phrase("the worst 5 %"), split_weighted_phrase("half of the days")
    ([], [])
    """
    clauses = [part.strip() for part in re.split(r",(?!\d)|;|\+|\band\b|\bplus\b", phrase.lower()) if part.strip()]
    found = [match for clause in clauses if (match := _WEIGHTED_CLAUSE.fullmatch(clause))]
    if len(found) < 2 or len(found) < len(clauses):
        return []
    return [(_parse_share(match[1]), match[2].strip()) for match in found]


def _parse_share(text: str) -> float:
    word = text.split()[-1]
    if word in _FRACTIONS:
        return 1.0 / _FRACTIONS[word]
    if re.fullmatch(_ONE_IN, text):
        return 1.0 / int(word)
    return _parse_decimal(re.findall(_NUMBER, text)[0]) / 100.0


def _parse_decimal(text: str) -> float:
    return float(text.replace(",", "."))
