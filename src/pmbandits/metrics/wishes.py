"""What somebody wishes for, read from a phrase: which things are named, and whether they are wanted or to be avoided.

It is a fixed reader of a few hundred words, not a language model. It refuses what it does not understand, and phrases
that say two opposite things.
"""

from __future__ import annotations

import re

# Things that can be named, by how their words begin. A longer beginning wins.
_THINGS = {
    "average": "averag mean expect total sum overall usual",
    "spread": "spread varia variety divers volatil dispers deviat swing fluctuat surpris inequal unequal uneven "
    "noise mixed gini std",
    "steady": "steady stead stable stabil consisten reliab smooth constant fair equal equit even certain",
    "foreseen": "predict",
    "low": "worst loss losses disaster downside catastroph failure fail bad ruin crash drawdown safe safety "
    "cautious careful danger harm",
    "high": "best top upside hit hits upper peak discover winner bold gambl",
    "rare gain": "jackpot lotter moonshot",
    "rare": "rare seldom unlikely outlandish",
    "gain": "gain gains win wins",
    "risk": "risk risks risky",
    "tries": "tries try attempt retry retries",
    "level": "level reach quantile percentil guarante threshold service deadline",
    "median": "median",
    "people": "people human prospect psycholog behaviour feel kahneman",
    "gap": "gap contrast polaris polariz extreme",
    "outlier": "outlier robust",
    "stick": "stick",
    "low end": "lowend",
    "guess": "unpredictab guess foresee foreseen patrol random",
    "cost": "cost costs price expens spend",
}
_BEGINNINGS = sorted(
    ((word, thing) for thing, words in _THINGS.items() for word in words.split()), key=lambda pair: -len(pair[0])
)
_NOT = {"not", "no", "never", "without", "nobody", "none", "cannot", "nor", "nothing", "hardly", "barely"}
_DOWN = re.compile(
    r"^(avoid|minimi|reduc|less|low|lower|lowest|small|smaller|smallest|little|limit|prevent|against|dislike|hate|fewer|cut"
    r"|decreas|protect|least|averse|aversion|escape|free|ignor|tame|punish|penal|discourag|curb|damp|lessen|shrink|insure"
    r"|guard|shield|contain|control|tight|narrow)"
)
_UP = {
    "more",
    "high",
    "higher",
    "highest",
    "good",
    "increase",
    "maximise",
    "maximize",
    "much",
    "great",
    "greater",
    "some",
}
_LIKED = {"take", "taking", "love", "like", "seek", "seeking", "more", "want", "embrace"}
# Words without direction. A wish for spread or for the best, whose opposite is also wished for, may have no others.
_PLAIN = set(
    """a an the of in to and or for with my our i we you me it its is are be as at on by that this all any each one two
    three want wants wish need value prefer reward rewards result results outcome outcomes income return returns
    possible better large larger big bigger just only plain pure please case cases count counts matter matters care
    about go looking look over overweight weight eye lot lots from am days day how out percent do does will would should
    make makes end""".split()  # noqa: SIM905
)
_SHORT = {"top", "hit", "bad", "win", "try", "gap", "sum", "std", "even"}  # must match whole words, not beginnings


class Wish:
    """Things that a phrase names: ``wanted`` and ``avoided``, and ``dropped`` ("not the average")."""

    def __init__(self, phrase: str) -> None:
        self.wanted: set[str] = set()
        self.avoided: set[str] = set()
        self.dropped: set[str] = set()
        self.uncared: set[str] = set()  # "I do not care about"
        self.strange = False  # whether there are words that are not known
        text = phrase.lower().replace("’", "'").replace("n't", " not").replace("low end", "lowend")
        liked = False
        for clause in re.split(r"[,;:]|\bbut\b|\brather\b|\binstead\b", text):
            self._read(clause, liked)

    def _read(self, clause: str, liked: bool) -> None:
        negated = turned = False  # by "not", by "avoid" and its like
        last, after = "", False  # the thing that was named last, and whether "low" or "not" came after it
        uncaring = bool(re.search(r"\b(not|never|hardly) (really )?care\b|\bis (fine|ok|okay)\b", clause))
        for word in re.findall(r"[a-z']+", clause):
            thing = _thing(word)
            if word in _NOT:
                negated = after = True
            elif _DOWN.match(word) and thing is None:
                turned = after = True
                if word.startswith("avers") and "risk" in self.wanted:
                    self.wanted.discard("risk")
                    self.avoided.add("risk")
            elif word in _UP and turned and not negated:
                turned = False
            if word in _LIKED and not negated:
                liked = True
            if thing is None:
                known = word in _PLAIN or word in _NOT or word in _UP or word in _LIKED or bool(_DOWN.match(word))
                self.strange = self.strange or not known
                continue
            last, after = thing, False
            if uncaring:
                self.uncared.add(thing)
            elif thing == "risk":
                (self.wanted if liked and not (negated or turned) else self.avoided).add(thing)
            elif negated and not turned:
                self.dropped.add(thing)
            elif turned and not negated:
                self.avoided.add(thing)
            else:
                self.wanted.add(thing)

        if after and last in self.wanted:  # "the spread should be low"
            self.wanted.discard(last)
            self.avoided.add(last)

    def entry(self) -> str | None:
        """The key of the entry that is meant; ``None`` if nothing is, or two things that do not go together."""
        named = self.wanted | self.avoided | self.dropped
        if "guess" in named or "foreseen" in self.dropped | self.avoided:
            return "guess"
        for thing, key in (("tries", "tries"), ("median", "median"), ("level", "level"), ("people", "people")):
            if thing in self.wanted and not (thing == "median" and "spread" in self.wanted):
                return key
        if "gap" in self.wanted:
            return "gap"
        if "rare" in named and "gain" in named and "low" in named:
            return "both ends"
        if "rare" in self.wanted and "gain" in self.wanted:
            return "only rare" if "stick" in named else "rare gains"
        if {"rare", "gain", "high", "rare gain"} & (self.avoided | self.dropped) and "low" not in named:
            return None
        if "gain" in named and "low" not in named:
            return None
        if "rare gain" in self.wanted:
            return "rare gains"
        for_spread = "spread" in self.wanted or "steady" in self.avoided
        against = {"steady", "foreseen"} & self.wanted or "spread" in self.avoided | self.dropped
        if for_spread and "outlier" in named and not against:
            return "robust spread"
        if for_spread and "low end" in named:
            return "low spread"
        low = "risk" in self.avoided or "low" in named
        average = "average" in self.wanted
        if "average" in self.avoided or ("cost" in self.avoided and "average" in named):
            average, low = ("cost" in named or "low" in named), False
        wishes = {
            name
            for name, wanted in {
                "average": average,
                "spread": for_spread,
                "steady": against,
                "worst": low,
                "best": "high" in self.wanted or "risk" in self.wanted,
            }.items()
            if wanted
        }
        if self.strange and wishes & {"spread", "best"}:
            return None
        return _MEANT.get(frozenset(wishes))


_MEANT = {
    frozenset({"average"}): "average",
    frozenset({"spread"}): "spread",
    frozenset({"steady"}): "steady",
    frozenset({"worst"}): "worst",
    frozenset({"best"}): "best",
    frozenset({"average", "spread"}): "average and spread",
    frozenset({"average", "steady"}): "steady",
    frozenset({"average", "worst"}): "average and worst",
    frozenset({"average", "best"}): "average and best",
    frozenset({"steady", "worst"}): "worst",
}


def _thing(word: str) -> str | None:
    for beginning, thing in _BEGINNINGS:
        if word == beginning or (word.startswith(beginning) and beginning not in _SHORT):
            return thing
    return None
