"""From plain statements of what you value to a metric."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from pmbandits import _html
from pmbandits._tables import columns
from pmbandits.metrics.amounts import Amounts, amounts, parts
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
from pmbandits.metrics.wishes import Wish


@dataclass(frozen=True)
class Preference:
    """A statement, the metric that expresses it, and what that metric does.

    Attributes
    ----------
    statement : what is valued, in plain words.
    metric : the metric that expresses it.
    does : what the metric does with rewards, in one line.
    mixes : whether a mixture of arms can be best for it.
    """

    statement: str
    metric: Distortion
    does: str
    key: str = field(default="", repr=False)

    @property
    def mixes(self) -> bool:
        """Whether a mixture of arms can be better than every single arm."""
        return self.metric.shape in ("concave", "neither")

    def __str__(self) -> str:
        return f"{self.statement}: {self.metric!r}; {self.does}"

    def _repr_html_(self) -> str:
        return _html.block(f"“{self.statement}”", self.metric._repr_html_(), _html.paragraphs([self.does]))


class Preferences(Sequence[Preference]):
    """A list of :class:`Preference` that prints as a table: the catalogue that :func:`preferences` returns."""

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
        return "\n".join(columns(self.rows()))

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        return _html.block("What do you value?", _html.table(head, rows))


_WITH_SHARE = ("worst", "average and worst", "best", "average and best", "level")  # entries that speak about a share


def _catalogue(share: float, tries: float = 3.0) -> list[Preference]:
    """The entries, with the share that tails speak about, and the number of tries."""
    percent = f"{100 * share:g} %"
    often = round(max(share, 1.0 - share), 12)  # a level is reached often, or it is none
    top = CVaR(round(1.0 - share, 12))
    number = "three" if tries == 3.0 else f"{tries:g}"
    steady = Mean() - 0.5 * GiniDeviation()
    return [
        Preference("just the average", Mean(), "the mean reward", "average"),
        Preference(
            f"avoid the worst {percent}",
            LowerCVaR(share),
            f"the average of the worst {percent} of rewards; one arm is always best for it",
            "worst",
        ),
        Preference(
            "a good average without disasters",
            0.7 * Mean() + 0.3 * LowerCVaR(share),
            f"mostly the mean, partly the average of the worst {percent}; one arm is always best for it",
            "average and worst",
        ),
        Preference(f"go for the best {percent}", top, f"the average of the best {percent} of rewards", "best"),
        Preference(
            f"good average, with an eye on the best {percent}",
            0.7 * Mean() + 0.3 * top,
            "mostly the mean, partly the top end; preferences add and scale as you like",
            "average and best",
        ),
        Preference(
            f"a level reached in {100 * often:g} % of the cases",
            VaR(round(1.0 - often, 12)),
            f"the {100 - 100 * often:g} % quantile: rewards lie above it in {100 * often:g} % of the cases",
            "level",
        ),
        Preference("the median", VaR(0.5), "half of the rewards lie above it: no outlier moves it", "median"),
        Preference(
            "the best of a few tries", DualPower(tries), f"the expected best of {number} independent rewards", "tries"
        ),
        Preference(
            "reward spread",
            GiniDeviation(),
            "half the average distance between two rewards: the further apart the better",
            "spread",
        ),
        Preference(
            "spread that no outlier dominates",
            MeanMedianDeviation(),
            "the average distance from the median",
            "robust spread",
        ),
        Preference(
            "spread with an eye on the low end",
            TsallisPastEntropy(1.0),
            "a spread of the rewards that counts the low ones more (an entropy of their distribution function)",
            "low spread",
        ),
        Preference(
            "good average and some variety", Quadratic(0.5), "the mean plus half a Gini spread", "average and spread"
        ),
        Preference(
            "steady rewards: avoid spread",
            steady,
            "the mean less half a Gini spread: swings cost; one arm is always best for it",
            "steady",
        ),
        Preference(
            "fairness or equality",
            steady,
            "the mean less half a Gini spread: unequal rewards cost; one arm is always best for it",
            "steady",
        ),
        Preference(
            "a wide gap between good and bad outcomes",
            InterESRange(0.5),
            "average of the better half minus average of the worse half",
            "gap",
        ),
        Preference(
            "overweight rare large gains",
            PHT(0.5),
            "the mean with the tail of rare large rewards made fatter",
            "rare gains",
        ),
        Preference(
            "only how much rare large gains stick out",
            WangRightTail(),
            "the fatter tail less the mean: how far rare large rewards stick out, and nothing else",
            "only rare",
        ),
        Preference(
            "what people feel about rare events",
            TverskyKahneman(0.61),
            "prospect theory's weighting: rare wins and rare failures count too much",
            "people",
        ),
        Preference(
            "attention to both rare wins and rare failures",
            InvertedS(0.5),
            "both ends of the rewards are overweighted",
            "both ends",
        ),
    ]


def _all_said(statement: str, said: Amounts, entry: Preference) -> None:
    """An error if a number in the statement says nothing about the preference that was found."""
    left = [*said.left]
    if said.share is not None and entry.key not in _WITH_SHARE:
        left.append(f"{100 * said.share:g} %")
    if said.tries is not None and entry.key != "tries":
        left.append(f"{said.tries:g}")
    if left:
        raise ValueError(
            f"cannot tell what {left[0]!r} means in {statement!r}, which else is '{entry.statement}'. Say one number "
            "for the worst or the best, such as 'the worst 5 %', or how much each of two wishes counts, such as "
            "'80 % average and 20 % worst 5 %'."
        )


def _weighed(statement: str, weighed: list[tuple[float, str]]) -> Preference:
    """Several wishes, with how much each of them counts."""
    total = sum(share for share, _ in weighed)
    if abs(total - 1.0) > 0.011:
        raise ValueError(
            f"cannot tell what {statement!r} means: {' and '.join(f'{100 * s:g} %' for s, _ in weighed)} add up to "
            f"{100 * total:g} %. Say shares that add up to 100 %, such as '80 % average and 20 % worst 5 %'."
        )
    entries = [(round(share / total, 12), preferences(wish)) for share, wish in weighed]
    entries.sort(key=lambda pair: pair[1].metric.shape != "linear")  # the average is said first
    metric: Distortion = sum(
        (share * entry.metric for share, entry in entries[1:]), entries[0][0] * entries[0][1].metric
    )
    does = "; ".join(f"{100 * share:.3g} % {entry.does}" for share, entry in entries)
    return Preference(", ".join(f"{100 * share:.3g} % {entry.statement}" for share, entry in entries), metric, does)


@overload
def preferences() -> Preferences: ...
@overload
def preferences(statement: str) -> Preference: ...
def preferences(statement: str | None = None) -> Preferences | Preference:
    """Find the metric for what you value: the whole catalogue of plain statements, or the entry that yours means.

    Parameters
    ----------
    statement : what you value, in your words. A percentage in it says how large a tail is meant, and
        shares before wishes say how much each of them counts ("80 % average and 20 % worst 5 %"). Words such as
        "avoid", "less" and "no" are understood. A statement that is not understood is refused, with the list of what
        is. Without
        a statement you get the whole catalogue.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.preferences("avoid the worst 5 %").metric
    LowerCVaR(alpha=0.05)
    >>> pmb.preferences("reward spread").metric, pmb.preferences("avoid spread").metric
    (GiniDeviation(), Mean() - 0.5*GiniDeviation())
    >>> len(pmb.preferences()) > 10
    True
    """
    if statement is None:
        return Preferences(_catalogue(0.1))
    if not isinstance(statement, str) or not statement.strip():
        raise TypeError(f"say what you value in words, such as 'avoid the worst 10 %', got {statement!r}.")
    weighed = parts(statement)
    if weighed:
        return _weighed(statement, weighed)
    said = amounts(statement)
    share = 0.1 if said.share is None else said.share
    if not 0.0 < share < 1.0:
        raise ValueError(f"the percentage in {statement!r} must lie between 0 and 100.")
    entries = _catalogue(share, said.tries or 3.0)
    for entry in entries:
        if statement.strip().lower() == entry.statement:
            return entry
    tail = re.sub(r"\b(average|mean) of (the )?(?=worst|best|top)", "", statement.lower())
    meant = Wish(tail).entry()
    if meant == "guess":
        raise ValueError(
            f"no preference over rewards makes choices hard to guess ({statement!r}): a metric looks at how rewards "
            f"are "
            "distributed, not at which arm comes next. Equal shares of all arms are hardest to guess; for "
            "rewards that lie far apart, say 'reward spread'."
        )
    for entry in entries:
        if entry.key == meant:
            _all_said(statement, said, entry)
            return entry
    listed = "; ".join(p.statement for p in entries)
    raise ValueError(f"cannot tell what {statement!r} means; say one of these, or in words like them: {listed}.")
