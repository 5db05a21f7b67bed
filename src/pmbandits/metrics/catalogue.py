"""From plain statements of what one values to a metric."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from pmbandits import _html
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import (
    PHT,
    CVaR,
    DualPower,
    GiniDeviation,
    InterESRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    TsallisPastEntropy,
    TverskyKahneman,
    VaR,
    WangRightTail,
)


@dataclass(frozen=True)
class Preference:
    """A statement, the metric that says it, and what it does.

    Attributes
    ----------
    statement : what one values, in plain words.
    metric : what says so.
    does : what the metric does with rewards, in one line.
    mixes : whether a mixture of arms can be best for it.
    """

    statement: str
    metric: Distortion
    does: str
    words: tuple[str, ...] = field(default=(), repr=False)

    @property
    def mixes(self) -> bool:
        """Whether a mixture of arms can be better than every single arm."""
        return self.metric.shape in ("concave", "neither")

    def __str__(self) -> str:
        return f"{self.statement}: {self.metric!r}; {self.does}"

    def _repr_html_(self) -> str:
        return _html.block(f"“{self.statement}”", self.metric._repr_html_(), _html.paragraphs([self.does]))


class Preferences(Sequence[Preference]):
    """The catalogue that :func:`preferences` returns: a list of :class:`Preference` that prints as a table."""

    def __init__(self, entries: Sequence[Preference]) -> None:
        self._entries = tuple(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Preference: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Preference]: ...
    def __getitem__(self, at: int | slice) -> Preference | Sequence[Preference]:
        return self._entries[at]

    def __iter__(self) -> Iterator[Preference]:
        return iter(self._entries)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The table, heads first."""
        head = ("I want to …", "metric", "what it does", "mixtures")
        return [head, *((p.statement, repr(p.metric), p.does, "can be best" if p.mixes else "never") for p in self)]

    def __repr__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[k]) for row in rows) for k in range(4)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        return _html.block("What do you value?", _html.table(head, rows))


def _catalogue(share: float) -> list[Preference]:
    """The entries, with the share that tails speak about."""
    percent = f"{100 * share:g} %"
    often = round(max(share, 1.0 - share), 12)  # a level is reached often, or it is none
    return [
        Preference("just the average", Mean(), "the mean reward", ("mean", "expected", "total", "sum", "usual")),
        Preference(
            f"avoid the worst {percent}",
            LowerCVaR(share),
            f"the average of the worst {percent} of rewards; one arm is always best for it",
            ("safe", "risk", "averse", "bad", "worst", "downside", "cautious", "tail", "lower", "cvar", "disaster"),
        ),
        Preference(
            f"go for the best {percent}",
            CVaR(round(1.0 - share, 12)),
            f"the average of the best {percent} of rewards",
            ("top", "best", "upside", "hits", "discoveries", "peak", "upper", "cvar"),
        ),
        Preference(
            f"good average, with an eye on the best {percent}",
            0.7 * Mean() + 0.3 * CVaR(round(1.0 - share, 12)),
            "mostly the mean, partly the top end; distortions add and scale as you like",
            ("balance", "compromise", "both", "average", "top", "blend"),
        ),
        Preference(
            f"a level reached in {100 * often:g} % of the cases",
            VaR(round(1.0 - often, 12)),
            f"the {100 - 100 * often:g} % quantile: rewards lie above it in {100 * often:g} % of the cases",
            ("guarantee", "quantile", "service", "level", "threshold", "percentile", "var", "deadline"),
        ),
        Preference(
            "the best of a few tries",
            DualPower(3.0),
            "the expected best of three independent rewards",
            ("tries", "attempts", "several", "maximum", "best", "three", "retry"),
        ),
        Preference(
            "reward spread",
            GiniDeviation(),
            "half the average distance between two rewards: more variety is better",
            ("variety", "diversity", "spread", "dispersion", "gini", "variance", "deviation", "mixed"),
        ),
        Preference(
            "spread that no outlier dominates",
            MeanMedianDeviation(),
            "the average distance from the median",
            ("spread", "robust", "outlier", "median", "deviation"),
        ),
        Preference(
            "good average and some variety",
            Quadratic(0.5),
            "the mean plus half a Gini spread",
            ("diversified", "variety", "average", "both", "premium", "exploration"),
        ),
        Preference(
            "fairness or equality",
            Mean() - 0.5 * GiniDeviation(),
            "the mean less half a Gini spread: unequal rewards cost; one arm is always best for it",
            ("fair", "equal", "equality", "inequality", "even", "steady", "consistent", "stable", "reliable"),
        ),
        Preference(
            "unpredictability",
            TsallisPastEntropy(1.0),
            "an entropy of the rewards: nobody can foresee what comes next",
            ("unpredictable", "surprise", "random", "entropy", "patrol", "audit", "uncertain", "information"),
        ),
        Preference(
            "a wide gap between good and bad outcomes",
            InterESRange(0.5),
            "average of the better half minus average of the worse half",
            ("gap", "contrast", "polarised", "extremes", "range"),
        ),
        Preference(
            "overweight rare large gains",
            PHT(0.5),
            "the mean with the tail of rare large rewards made fatter",
            ("rare", "large", "jackpot", "lottery", "overweight", "gains", "moonshot", "heavy"),
        ),
        Preference(
            "only how much rare large gains stick out",
            WangRightTail(),
            "the fatter tail less the mean: pure upside surprise",
            ("surprise", "upside", "rare", "stick", "outlier", "right"),
        ),
        Preference(
            "what people feel about rare events",
            TverskyKahneman(0.61),
            "prospect theory's weighting: rare wins and rare failures count too much",
            ("people", "human", "prospect", "psychology", "behavioural", "feel", "kahneman"),
        ),
        Preference(
            "attention to both rare wins and rare failures",
            InvertedS(0.5),
            "both ends of the rewards are overweighted",
            ("rare", "attention", "both", "ends", "failures", "wins", "delays"),
        ),
    ]


@overload
def preferences() -> Preferences: ...
@overload
def preferences(statement: str) -> Preference: ...
def preferences(statement: str | None = None) -> Preferences | Preference:
    """A catalogue from plain statements to metrics, or the entry nearest to a statement.

    Parameters
    ----------
    statement : what you value, in your words; a percentage in it sets the tail. Without it the whole catalogue.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.preferences("avoid the worst 5 %").metric
    LowerCVaR(alpha=0.05)
    >>> pmb.preferences("reward spread").metric
    GiniDeviation()
    >>> len(pmb.preferences()) > 10
    True
    """
    if statement is None:
        return Preferences(_catalogue(0.1))
    if not isinstance(statement, str) or not statement.strip():
        raise TypeError(f"say what you value in words, such as 'avoid the worst 10 %', got {statement!r}.")
    found = re.search(r"(\d+(?:\.\d+)?)\s*(?:%|percent)", statement.lower())
    share = float(found[1]) / 100.0 if found else 0.1
    if not 0.0 < share < 1.0:
        raise ValueError(f"the percentage in {statement!r} must lie between 0 and 100.")
    said = _stems(statement)
    entries = _catalogue(share)
    scores = [_nearness(said, statement, entry) for entry in entries]
    best = max(range(len(entries)), key=scores.__getitem__)
    if scores[best] < _NEAR:
        raise ValueError(
            f"nothing in the catalogue is near {statement!r}; say for instance "
            f"{', '.join(repr(p.statement) for p in entries[:3])}, or look at preferences()."
        )
    return entries[best]


_NEAR = 0.5  # one word in common is enough, likeness of the letters alone is not
_PLAIN = frozenset(
    re.findall(r"\w+", "the a an of in to and or for with my i want like it is what on at be me just some")
)


def _stems(text: str) -> set[str]:
    return {word[:5] for word in re.findall(r"[a-z]{2,}", text.lower()) if word not in _PLAIN and word != "percent"}


def _nearness(said: set[str], statement: str, entry: Preference) -> float:
    """Words shared with the statement or its keywords, the first of them most; likeness of the letters breaks ties."""
    own, keys = _stems(entry.statement), [word[:5] for word in entry.words]
    worth = {**dict.fromkeys(keys, 0.9), **dict.fromkeys(own, 0.8 + 0.2 / max(len(own), 1)), keys[0]: 1.0}
    alike = difflib.SequenceMatcher(None, statement.lower(), entry.statement.lower()).ratio()
    return sum(worth.get(word, 0.0) for word in said) + 0.4 * alike
