"""From plain statements of what you value to a metric."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import overload

from pmbandits import _html, _validation
from pmbandits._text_tables import aligned_columns
from pmbandits.metrics.distortion import Distortion, linear_combination
from pmbandits.metrics.families import GiniDeviation, Mean, VaR
from pmbandits.metrics.phrases import PhraseNumbers, catalogue_key, parse_phrase_numbers, split_weighted_phrase
from pmbandits.metrics.registry import metric

# fmt: off
# The entries: key, statement, metric and what it does. In braces: the share that tails speak about (default 10 %), in
# percent and as a number, the share that reaches a level, and the number of tries.
_ENTRIES = (
    ("average", "just the average", "mean",
     "the mean reward"),
    ("worst", "avoid the worst {percent:g} %", "lower_cvar({share!r})",
     "the average of the worst {percent:g} % of rewards; one arm is always best for it"),
    ("average and worst", "a good average without disasters", "0.7*mean + 0.3*lower_cvar({share!r})",
     "mostly the mean, partly the average of the worst {percent:g} %; one arm is always best for it"),
    ("best", "go for the best {percent:g} %", "upper_cvar({rest!r})",
     "the average of the best {percent:g} % of rewards"),
    ("average and best", "good average, with an eye on the best {percent:g} %", "0.7*mean + 0.3*upper_cvar({rest!r})",
     "mostly the mean, partly the top end; preferences add and scale as you like"),
    ("level", "a level reached in {often:g} % of the cases", "var({seldom!r})",
     "the {quantile:g} % quantile: rewards lie above it in {often:g} % of the cases"),
    ("median", "the median", "var(0.5)",
     "half of the rewards lie above it: no outlier moves it"),
    ("tries", "the best of a few tries", "dual_power({tries!r})",
     "the expected best of {number} independent rewards"),
    ("spread", "reward spread", "gini",
     "half the average distance between two rewards: the further apart the better"),
    ("robust spread", "spread that no outlier dominates", "mean_median_deviation",
     "the average distance from the median"),
    ("low spread", "spread with an eye on the low end", "tsallis_past_entropy(1)",
     "a spread of the rewards that counts the low ones more (an entropy of their distribution function)"),
    ("average and spread", "good average and some variety", "quadratic(0.5)",
     "the mean plus half a Gini spread"),
    ("steady", "steady rewards: avoid spread", "mean - gini",
     "the mean less the Gini spread, which is the average of the worse of two rewards; one arm is always best for it"),
    ("steady", "fairness or equality", "mean - gini",
     "the mean less the Gini spread: unequal rewards cost; one arm is always best for it"),
    ("gap", "a wide gap between good and bad outcomes", "inter_es_range(0.5)",
     "average of the better half minus average of the worse half"),
    ("rare gains", "overweight rare large gains", "pht(0.5)",
     "the mean with the tail of rare large rewards made fatter"),
    ("only rare", "only how much rare large gains stick out", "wang_right_tail",
     "the fatter tail less the mean: how far rare large rewards stick out, and nothing else"),
    ("people", "what people feel about rare events", "tversky_kahneman(0.61)",
     "prospect theory's weighting: rare wins and rare failures count too much"),
    ("both ends", "attention to both rare wins and rare failures", "inverted_s(0.5)",
     "both ends of the rewards are overweighted"),
)
# fmt: on
_REFUSALS = {
    "guess": "no preference over rewards makes choices hard to guess ({0!r}): a metric looks at how rewards are "
    "distributed, not at which arm comes next. Equal shares of all arms are hardest to guess; for rewards that lie far "
    "apart, say 'reward spread'.",
    "ratio": "no metric is a ratio such as {0!r}; the nearest are 'steady' (the average less the spread) and 'avoid "
    "the worst 10 %'.",
    "kind of mean": "no metric is the kind of average that {0!r} says; the nearest are 'just the average', 'the "
    "median' (which outliers do not move) and 'steady' (the average less the spread).",
}
_KEYS_WITH_SHARE = ("worst", "average and worst", "best", "average and best", "level")

_JUST_ABOVE = 1e-9  # less than the share of any one reward
MAX_STATEMENT = 1_000  # letters of a preference in words


@dataclass(frozen=True)
class Preference:
    """A statement, the metric that expresses it, and what that metric does.

    Attributes
    ----------
    statement : what is valued, in plain words.
    metric : the metric that expresses it.
    does : what the metric does with rewards, in one line.
    mixes : whether a mixture of arms can be best for it.
    loss : whether the words say that smaller numbers are better ("minimise cost"), or larger ones ("maximise profit");
        ``None`` if they say neither.
    about : what should be small or large then, in the user's words.
    """

    statement: str
    metric: Distortion
    does: str
    key: str = field(default="", repr=False)
    loss: bool | None = None
    about: str = ""

    def of_losses(self) -> Distortion:
        """The metric for losses that were negated: "p95" of a delay is the 5 % quantile of the negated delay.

        A formula is about the negated numbers already.

        Where a quantile lies between two numbers, the smaller one is taken; of negated numbers it is the larger one, so
        that the median of 1, 2, 3 and 4 is 2, whichever of them are better.
        """
        metric = as_written(self.metric)
        if not isinstance(metric, VaR) or not metric.c < 1.0 - _JUST_ABOVE:
            return metric
        level = 1.0 - metric.c if self.key == "quantile" else metric.c
        return VaR(round(level, 12) + _JUST_ABOVE)

    @property
    def mixes(self) -> bool:
        """Whether a mixture of arms can be better than every single arm."""
        return self.metric.shape in ("concave", "neither")

    def __str__(self) -> str:
        return f"{self.statement}: {self.metric!r}; {self.does}"

    def _repr_html_(self) -> str:
        return _html.html_titled_block(
            f"“{self.statement}”", self.metric._repr_html_(), _html.html_paragraphs([self.does])
        )


class Preferences(tuple[Preference, ...]):
    """A tuple of :class:`Preference` that prints as a table: the catalogue that :func:`preferences` returns."""

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The table, heads first."""
        head = ("I want to …", "metric", "what it does", "mixtures")
        return [head, *((p.statement, repr(p.metric), p.does, "can be best" if p.mixes else "never") for p in self)]

    def __repr__(self) -> str:
        return "\n".join(aligned_columns(self.rows()))

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        return _html.html_titled_block("What do you value?", _html.html_table(head, rows))


def _catalogue_entries(share: float, tries: float = 3.0) -> list[Preference]:
    """The entries, with the share that tails speak about, and the number of tries."""
    often = round(max(share, 1.0 - share), 12)  # a level is reached often, or it is none
    numbers = {
        "share": share,
        "percent": 100 * share,
        "rest": round(1.0 - share, 12),
        "often": 100 * often,
        "seldom": round(1.0 - often, 12),
        "quantile": 100 - 100 * often,
        "tries": tries,
        "number": "three" if tries == 3.0 else f"{tries:g}",
    }
    return [
        Preference(statement.format(**numbers), metric(text.format(**numbers)), does.format(**numbers), key)
        for key, statement, text, does in _ENTRIES
    ]


def _require_all_numbers_used(statement: str, numbers: PhraseNumbers, entry: Preference) -> None:
    """Raise an error if a number in the statement has no meaning for the preference that was found."""
    unused = [*numbers.unused]
    if numbers.share is not None and entry.key not in _KEYS_WITH_SHARE:
        unused.append(f"{100 * numbers.share:g} %")
    if numbers.tries is not None and entry.key != "tries":
        unused.append(f"{numbers.tries:g}")
    if unused:
        raise ValueError(
            f"cannot tell what {unused[0]!r} means in {statement!r}, which else is '{entry.statement}'. Say one number "
            "for the worst or the best, such as 'the worst 5 %', or how much each of two wishes counts, such as "
            "'80 % average and 20 % worst 5 %'."
        )


def _weighted_preference(statement: str, weighted: list[tuple[float, str]]) -> Preference:
    """The weighted sum of several preferences, from pairs of a weight and a phrase."""
    total = sum(share for share, _ in weighted)
    if abs(total - 1.0) > 0.011:
        raise ValueError(
            f"cannot tell what {statement!r} means: {' and '.join(f'{100 * s:g} %' for s, _ in weighted)} add up to "
            f"{100 * total:g} %. Say shares that add up to 100 %, such as '80 % average and 20 % worst 5 %'."
        )
    entries = [(round(share / total, 12), preferences(wish)) for share, wish in weighted]
    entries.sort(key=lambda pair: pair[1].metric.shape != "linear")  # the average is said first
    terms = [(share * c, d) for share, entry in entries for c, d in entry.metric.terms]
    does = "; ".join(f"{100 * share:.3g} % {entry.does}" for share, entry in entries)
    stated = ", ".join(f"{100 * share:.3g} % {entry.statement}" for share, entry in entries)
    return Preference(stated, linear_combination(terms), does)


_QUANTILE = re.compile(r"(?:the )?(?:p\s?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)(?:st|nd|rd|th)? (?:percentile|% quantile))")
_SMALLER = r"minimi[sz]e|reduce|decrease|lower|cut|lowest|least|smallest|less|fewer|fewest"
_LARGER = r"maximi[sz]e|increase|raise|grow|highest|most|largest|more|higher"
_MEAN_OF = re.compile(
    rf"(?:i want )?(?:to )?(?:(?P<less>{_SMALLER})|{_LARGER})( (?:the|our|my|average|mean|total))* (\w+ ?\w*)"
)

_LEAST_OF = re.compile(
    r"(?:i want )?(?:to )?(?:minimi[sz]e|minimum|lowest|least|smallest)(?: the| our| my)? (\w+(?: \w+)?)"
    r"(?: (?:of|in) .*)?"
)


def _quantile_preference(statement: str) -> Preference | None:
    """The quantile that a statement such as "p95" or "the 95th percentile" means."""
    found = _QUANTILE.fullmatch(statement.strip().lower())
    percent = float(found[1] or found[2]) if found else 0.0
    if not 0.0 < percent < 100.0:
        return None
    words = f"{percent:g} % of the numbers lie below it"
    return Preference(f"the {percent:g} % quantile", VaR(round(percent / 100.0, 12)), words, "quantile")


def _mean_preference(statement: str) -> Preference | None:
    """The average of something that should be small or large, such as "minimise cost"."""
    found = _MEAN_OF.fullmatch(re.sub(r"\s+", " ", statement.strip().lower()))
    if not found:
        return None
    loss = found["less"] is not None
    wanted = f"the {'lowest' if loss else 'highest'} average {found[3]}"
    return Preference(wanted, Mean(), "the mean; smaller is better" if loss else "the mean", "average", loss, found[3])


def _least_spread_preference(statement: str) -> Preference | None:
    """The spread alone, to be kept small: for statements such as "minimise variance", which do not name the average."""
    found = _LEAST_OF.fullmatch(re.sub(r"\s+", " ", statement.strip().lower()))
    if not found or not any(catalogue_key(word) == "spread" for word in found[1].split()):
        return None
    does = "the negative of the Gini spread; the average does not count; one arm is always best for it"
    return Preference("the least spread, whatever the average", linear_combination([(-1.0, GiniDeviation())]), does)


def as_written(metric: Distortion) -> Distortion:
    """The metric as one writes it: a quantile of losses without the little by which its level is moved.

    >>> preferences("p95").of_losses(), as_written(preferences("p95").of_losses())
    (VaR(c=0.050000001), VaR(c=0.05))
    """
    if not isinstance(metric, VaR):
        return metric
    level = round(metric.c, 8)
    return VaR(level) if abs(metric.c - level - _JUST_ABOVE) < 1e-12 else metric


def as_preference(given: object) -> Preference:
    """Turn what a user gave into a preference: a metric, its name, words for it, or an entry of the catalogue.

    >>> as_preference("upper_cvar(0.9)").metric, as_preference("avoid the worst 5 %").metric
    (UpperCVaR(c=0.9), LowerCVaR(alpha=0.05))
    """
    if isinstance(given, Preference):
        return given
    if isinstance(given, Distortion):
        return Preference("", given, "")
    if hasattr(given, "names") and hasattr(given, "n_arms"):
        raise TypeError(
            f"the metric comes first and the arms second, as in oracle(metric, bandit), got "
            f"{_validation.short_repr(given)} as the metric."
        )
    if not isinstance(given, str):
        raise TypeError(
            f"metric must be a preference metric such as GiniDeviation(), its name, or words such as 'avoid the worst "
            f"10 %', got {_validation.short_repr(given)}."
        )
    try:
        return Preference("", metric(given), "")
    except ValueError:
        words = re.findall(r"[^\W_]+", given)
        if re.search(r"[*_()=]", given) or not words:  # a formula, or the name of a metric
            raise
        try:
            found = preferences(given)
        except ValueError:
            if len(words) > 1:
                raise
            found = None
        if found is None or (len(words) == 1 and "spread" in found.key):  # "variance": wanted, or to be avoided?
            raise
        return found


def as_metric(given: object) -> Distortion:
    """The metric that a user means: a metric, its name, words for it, or an entry of the catalogue.

    >>> from pmbandits.metrics import as_metric
    >>> as_metric("upper_cvar(0.9)"), as_metric("steady")
    (UpperCVaR(c=0.9), Mean() - GiniDeviation())
    """
    return as_preference(given).metric


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
        is. Without a statement you get the whole catalogue.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.preferences("avoid the worst 5 %").metric
    LowerCVaR(alpha=0.05)
    >>> pmb.preferences("reward spread").metric, pmb.preferences("avoid spread").metric
    (GiniDeviation(), Mean() - GiniDeviation())
    >>> pmb.preferences("p95").metric, pmb.preferences("minimise cost").loss
    (VaR(c=0.95), True)
    >>> len(pmb.preferences()) > 10
    True
    """
    if statement is None:
        return Preferences(_catalogue_entries(0.1))
    if not isinstance(statement, str) or not statement.strip():
        raise TypeError(f"say what you value in words, such as 'avoid the worst 10 %', got {statement!r}.")
    if len(statement) > MAX_STATEMENT:
        raise ValueError(f"a statement has up to {MAX_STATEMENT:,} letters, got {len(statement):,}; say it shorter.")
    if found := _quantile_preference(statement) or _least_spread_preference(statement):
        return found
    weighted = split_weighted_phrase(statement)
    if weighted:
        return _weighted_preference(statement, weighted)
    numbers = parse_phrase_numbers(statement)
    share = 0.1 if numbers.share is None else numbers.share
    if not 0.0 < share < 1.0:
        raise ValueError(f"the percentage in {statement!r} must lie between 0 and 100.")
    entries = _catalogue_entries(share, numbers.tries or 3.0)
    for entry in entries:
        if statement.strip().lower() == entry.statement:
            return entry
    tail = re.sub(r"\b(average|mean) of (the )?(?=worst|best|top)|\bbest (?=average|mean)", "", statement.lower())
    key = catalogue_key(tail if numbers.tries is None else f"{tail} tries")  # "best of 3" has no word for them
    if key in _REFUSALS:
        raise ValueError(_REFUSALS[key].format(statement))
    for entry in entries:
        if entry.key == key:
            _require_all_numbers_used(statement, numbers, entry)
            return (_mean_preference(statement) if key == "average" else None) or entry
    if found := _mean_preference(statement):
        return found
    nearest = difflib.get_close_matches(statement.lower(), [p.statement for p in entries], 3, 0.3)
    listed = "; ".join(dict.fromkeys((*nearest, *(p.statement for p in entries))))
    raise ValueError(f"cannot tell what {statement!r} means; say one of these, or in words like them: {listed}.")
