"""What formulas of metrics use beside numpy: functions of arrays in Python, and of numbers in kernels.

:mod:`pmbandits.metrics.packed` says what kernels do in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray

F = TypeVar("F", bound=Callable[..., Any])

PARTS: list[Callable[..., Any]] = []
"""The functions that :func:`part` marks."""


def where(condition: NDArray[np.bool_], yes: FloatArray | float, no: FloatArray | float) -> FloatArray:
    """``yes`` where the condition holds, ``no`` elsewhere. (In kernels, numpy's makes an array of one number.)"""
    return np.where(condition, yes, no)


def cdf(x: FloatArray) -> FloatArray:
    """The cumulative distribution function of the standard normal law."""
    from scipy.special import ndtr  # loaded here: who asks and tells may not need it

    return ndtr(x)


def quantile(p: FloatArray) -> FloatArray:
    """The quantile function of the standard normal law."""
    from scipy.special import ndtri

    return ndtri(p)


def part(function: F) -> F:
    """Mark a function that a formula calls: it is compiled with the formula."""
    PARTS.append(function)
    return function
