"""One answer for each group of rows, and whether the groups differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from pmbandits._text_tables import aligned_columns
from pmbandits.advice import sentences
from pmbandits.advice.result import Advice
from pmbandits.logs import ReadSettings, read_log

_MOST_GROUPS = 50  # answers that somebody may want to read


class AdviceByGroup(Mapping[str, Advice]):
    """One :class:`Advice` for each group of rows: the result of :func:`advise` with ``by``.

    Attributes
    ----------
    column : the column that says to which group a row belongs.
    whole : the advice on all rows.
    p_value : of the differences between arms being the same in all groups (Cochran's Q, for each arm beside the one
        that is best on all rows, times their number).

    Examples
    --------
    >>> import pandas as pd
    >>> import pmbandits as pmb
    >>> sold = [1, 1, 2, 2, 2, 2, 3, 3] * 15
    >>> sales = pd.DataFrame({"page": ["a", "a", "b", "b"] * 30, "sold": sold, "city": ["X", "Y"] * 60})
    >>> by_city = pmb.advise(sales, arm="page", reward="sold", by="city")
    >>> by_city["X"].decision.kind, by_city.differ
    ('choose', False)
    """

    def __init__(self, column: str, whole: Advice, groups: Mapping[str, Advice]) -> None:
        self.column, self.whole, self._groups = column, whole, dict(groups)
        self.p_value = p_value_of_equal_differences_in_groups(whole, list(self._groups.values()))

    def __getitem__(self, group: str) -> Advice:
        return self._groups[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def differ(self) -> bool:
        """Whether arms compare differently in different groups, beyond chance."""
        return self.p_value <= 1.0 - self.whole.level

    @property
    def comparison(self) -> str:
        """Whether the groups differ, in a sentence."""
        said = "differ" if self.differ else "do not differ beyond chance"
        return f"Groups {said} in how the arms compare (p-value {self.p_value:.2g})."

    def rows(self) -> list[tuple[str, ...]]:
        """The groups as a table; the first row has the names of the columns."""
        out: list[tuple[str, ...]] = [(self.column, "rewards", "best in the data", "better than", "by", "verdict")]
        for name, advice in self.items():
            found, written = advice.decision.difference, sentences.number_format(advice)
            rival, by = ("–", "–") if found is None or advice.tied else (found.rival, written(found.value))
            best = "all the same" if advice.tied else sentences.mixture_text(advice.mixture, advice.log.arm_column)
            out.append((name, f"{advice.log.n_outcomes:,}", best, rival, by, sentences.short_verdict(advice)))
        return out

    def __str__(self) -> str:
        lines = [f"All rows: {self.whole.recommendation}", "", *aligned_columns(self.rows()), "", self.comparison]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON."""
        groups = {name: advice.to_dict() for name, advice in self.items()}
        return {"by": self.column, "p_value": self.p_value, "differ": self.differ, "groups": groups}


def p_value_of_equal_differences_in_groups(whole: Advice, groups: list[Advice]) -> float:
    """The p-value of the arms' differences being the same in all groups."""
    best, smallest, compared = whole.best_arm, 1.0, 0
    for rival in whole.names:
        found = [pair for advice in groups if (pair := _difference_with_variance(advice, best, rival)) is not None]
        if rival == best or len(found) < 2:
            continue
        compared += 1
        away, variance = np.array(found).T
        centre = (away / variance).sum() / (1.0 / variance).sum()
        smallest = min(smallest, float(chdtrc(len(found) - 1, ((away - centre) ** 2 / variance).sum())))
    return min(compared * smallest, 1.0)


def _difference_with_variance(advice: Advice, one: str, two: str) -> tuple[float, float] | None:
    """The difference of two arms in a group with its variance; ``None`` if it is not known."""
    if one not in advice.names or two not in advice.names:
        return None
    a, b = advice.names.index(one), advice.names.index(two)
    variance = float(advice.evidence.errors[a] ** 2 + advice.evidence.errors[b] ** 2)
    if not 0.0 < variance < np.inf or {a, b} & set(advice.evidence.few):
        return None
    return float(advice.evidence.arm_utilities[a] - advice.evidence.arm_utilities[b]), variance


def group_names(data: Any, by: str, whole: Advice, settings: ReadSettings) -> list[str]:
    """The groups, in the order of their first row."""
    if not whole.log.reward_column:
        raise ValueError("groups need a table with an arm and a reward column; this one has none.")
    plain = replace(settings, arm=by, reward=whole.log.reward_column, missing=(), unit=None, per=None)
    log = read_log(data, settings=replace(plain, weight=None, propensity=None))
    names = [arm.name for arm in log.arms]
    if len(names) > _MOST_GROUPS:
        raise ValueError(f"the column {by!r} has {len(names):,} groups; give one with up to {_MOST_GROUPS}.")
    return names
