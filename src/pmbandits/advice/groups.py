"""One answer for each group of rows, and whether the groups differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite, nan
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.special import chdtrc

from pmbandits import _html
from pmbandits._text_tables import aligned_columns
from pmbandits.advice import sentences
from pmbandits.advice.result import Advice
from pmbandits.logs import Log, ReadSettings, read_log

_MOST_GROUPS = 50  # answers that somebody may want to read


Answer = TypeVar("Answer")


class AnswersByColumn(Mapping[str, Answer], ABC, Generic[Answer]):
    """An answer for each value of a column, beside the advice on all rows.

    Attributes
    ----------
    column : the column.
    whole : the advice on all rows.
    """

    def __init__(self, column: str, whole: Advice, answers: Mapping[str, Answer]) -> None:
        self.column, self.whole, self._answers = column, whole, dict(answers)

    def __getitem__(self, value: str) -> Answer:
        return self._answers[value]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def headline(self) -> str:
        """What stands before the advice on all rows; empty if that stands first."""
        return ""

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"In each {self.column}"

    @property
    @abstractmethod
    def comparison(self) -> str:
        """What the table shows, in sentences."""

    @abstractmethod
    def rows(self) -> list[tuple[str, ...]]:
        """The answers as a table; the first row has the names of the columns."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON."""

    def save(self, path: str | Path, *, title: str = "", author: str = "") -> Path:
        """Write a report on all rows with this table, or a picture, as :meth:`Advice.save` does."""
        from pmbandits.advice import report

        return report.save_report(self, path, title=title, author=author)

    def _repr_html_(self) -> str:
        from pmbandits.advice import report

        return _html.html_titled_block(repr(self.whole.metric), report.html_body(self))


class AdviceByGroup(AnswersByColumn[Advice]):
    """One :class:`Advice` for each group of rows: the result of :func:`advise` with ``by``.

    Attributes
    ----------
    column : the column that says to which group a row belongs.
    whole : the advice on all rows.
    p_value : of the differences between arms being the same in all groups (Cochran's Q, for each arm beside the one
        that is best on all rows or, if too few groups have it, that has most rewards; times their number). NaN if
        nothing can be compared.

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
        super().__init__(column, whole, groups)
        self.p_value = p_value_of_equal_differences_in_groups(whole, list(groups.values()))

    @property
    def differ(self) -> bool:
        """Whether arms compare differently in different groups, beyond chance."""
        return self.p_value <= 1.0 - self.whole.level

    @property
    def comparison(self) -> str:
        """Whether the groups differ, in a sentence; and if what is best on all rows is best in none of them."""
        if not isfinite(self.p_value):
            return "The groups have too few rewards to say whether they differ."
        said = "differ" if self.differ else "do not differ beyond chance"
        p_value = f"{self.p_value:.2g}" if self.p_value >= 0.001 else "below 0.001"
        best = sentences.mixture_text(self.whole.mixture, self.whole.log.arm_column)
        nowhere = all(advice.mixture != self.whole.mixture for advice in self.values())
        mind = f" Mind that {best}, the best on all rows, is the best in none of them." if nowhere else ""
        doubt = "" if self.whole.doubt is None else f" {sentences.doubt_text(self.whole.doubt)}"
        return f"Groups {said} in how the arms compare (p-value {p_value}).{doubt}{mind}"

    def rows(self) -> list[tuple[str, ...]]:
        """The groups as a table; the first row has the names of the columns."""
        out: list[tuple[str, ...]] = [(self.column, "rows", "best in the data", "better than", "by", "verdict")]
        for name, advice in self.items():
            out.append((name, f"{advice.log.n_outcomes:,}", *sentences.comparison_cells(advice)))
        return out

    def __str__(self) -> str:
        lines = [f"All rows: {self.whole.recommendation}", "", *aligned_columns(self.rows()), "", self.comparison]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON."""
        groups = {name: advice.to_dict() for name, advice in self.items()}
        p_value = self.p_value if isfinite(self.p_value) else None
        return {**self.whole.to_dict(), "by": self.column, "p_value": p_value, "differ": self.differ, "groups": groups}


def p_value_of_equal_differences_in_groups(whole: Advice, groups: list[Advice]) -> float:
    """The p-value of the arms' differences being the same in all groups; NaN if nothing can be compared."""
    by_size = sorted(whole.arms, key=lambda arm: -arm.n)
    for reference in dict.fromkeys((whole.best_arm, *(arm.name for arm in by_size))):
        p_values = []
        for rival in whole.names:
            found = [pair for one in groups if (pair := _difference_with_variance(one, reference, rival)) is not None]
            if rival == reference or len(found) < 2:
                continue
            away, variance = np.array(found).T
            centre = (away / variance).sum() / (1.0 / variance).sum()
            p_values.append(float(chdtrc(len(found) - 1, ((away - centre) ** 2 / variance).sum())))
        if p_values:
            return min(len(p_values) * min(p_values), 1.0)
    return nan


def _difference_with_variance(advice: Advice, one: str, two: str) -> tuple[float, float] | None:
    """The difference of two arms in a group with its variance; ``None`` if it is not known."""
    if one not in advice.names or two not in advice.names:
        return None
    a, b = advice.names.index(one), advice.names.index(two)
    variance = float(advice.evidence.errors[a] ** 2 + advice.evidence.errors[b] ** 2)
    if not 0.0 < variance < np.inf or {a, b} & set(advice.evidence.few):
        return None
    return float(advice.evidence.arm_utilities[a] - advice.evidence.arm_utilities[b]), variance


def read_groups(data: Any, by: str, whole: Advice, settings: ReadSettings) -> Log:
    """The rewards of each value of a column, in the order of their first row."""
    if not whole.log.reward_column:
        raise ValueError("groups need a table with an arm and a reward column; this one has none.")
    if by.strip().lower() in (whole.log.arm_column.lower(), whole.log.reward_column.lower()):
        raise ValueError(f"groups cannot be those of {by!r}, which is compared itself; give another column with by.")
    plain = replace(settings, arm=by, reward=whole.log.reward_column, missing=(), unit=None, per=None)
    log = read_log(data, settings=replace(plain, time=None, propensity=None))
    if len(log.arms) > _MOST_GROUPS:
        raise ValueError(f"the column {by!r} has {len(log.arms):,} groups; give one with up to {_MOST_GROUPS}.")
    return log
