"""What formulas of metrics use beside numpy: functions of arrays in Python, and of numbers in kernels.

:mod:`pmbandits.metrics.encoding` says what kernels do in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray

F = TypeVar("F", bound=Callable[..., Any])

FORMULA_HELPERS: list[Callable[..., Any]] = []
"""The functions that :func:`compile_with_formula` marks."""


def where(condition: NDArray[np.bool_], yes: FloatArray | float, no: FloatArray | float) -> FloatArray:
    """``yes`` where the condition holds, ``no`` elsewhere. (In kernels, numpy's makes an array of one number.)"""
    return np.where(condition, yes, no)


def norm_cdf(x: FloatArray) -> FloatArray:
    """The cumulative distribution function of the standard normal distribution."""
    from scipy.special import ndtr  # loaded here: who asks and tells may not need it

    return ndtr(x)


def norm_ppf(p: FloatArray) -> FloatArray:
    """The quantile function (percent point function) of the standard normal distribution."""
    from scipy.special import ndtri

    return ndtri(p)


def compile_with_formula(function: F) -> F:
    """Mark a function that a formula calls: it is compiled with the formula."""
    FORMULA_HELPERS.append(function)
    return function
