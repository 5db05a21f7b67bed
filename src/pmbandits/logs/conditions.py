"""Which rows of a table are meant: conditions such as ``country == DE`` or ``day >= 2026-03-01``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits.logs.periods import parse_times

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A column, a comparison, and a value; rows for which it does not hold are left out."""

    column: str
    comparison: str
    value: str

    def mask_of_rows_that_fulfil(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """For which texts of the column it holds: compared as numbers or dates if the value is one, else as texts."""
        texts, at = np.unique(labels.astype(str), return_inverse=True)
        compare = _COMPARISONS[self.comparison]
        limit = _number_or_date_as_float(self.value)
        if limit is None:
            return np.asarray(compare(np.char.lower(texts), self.value.lower()))[at]
        return np.asarray(compare(parse_times(texts), limit))[at]

    def __str__(self) -> str:
        return f"{self.column} {self.comparison} {self.value}"


def parse_condition(text: str) -> Condition:
    """A condition from text.

    >>> parse_condition("country != 'DE'")
    Condition(column='country', comparison='!=', value='DE')
    """
    found = re.fullmatch(r"\s*(.+?)\s*(==|!=|>=|<=|=|>|<)\s*(.+?)\s*", text)
    if found is None:
        raise ValueError(f"a condition reads 'column == value' (or !=, >=, <=, >, <), got {text!r}.")
    column, comparison, value = found.groups()
    column, value = (re.sub(r"^(['\"])(.*)\1$", r"\2", part) for part in (column, value))
    if comparison not in ("==", "=", "!=") and _number_or_date_as_float(value) is None:
        raise ValueError(f"{text!r} compares with {value!r}, which is neither a number nor a date such as 2026-03-01.")
    return Condition(column, comparison, value)


def _number_or_date_as_float(text: str) -> float | None:
    """A number or a date as a number that grows; ``None`` if it is neither."""
    found = float(parse_times([text])[0])
    return found if np.isfinite(found) else None
