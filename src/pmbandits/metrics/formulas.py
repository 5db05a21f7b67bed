"""What formulas of metrics use beside numpy: functions of arrays in Python, and of numbers in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.extending import overload, register_jitable
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pmbandits._check import FloatArray
from pmbandits.metrics.normal import normal_cdf, normal_quantile

F = TypeVar("F", bound=Callable[..., Any])


def where(condition: NDArray[np.bool_], yes: FloatArray | float, no: FloatArray | float) -> FloatArray:
    """``yes`` where the condition holds, ``no`` elsewhere. (In kernels, numpy's makes an array of one number.)"""
    return np.where(condition, yes, no)


def cdf(x: FloatArray) -> FloatArray:
    """The cumulative distribution function of the standard normal law."""
    return ndtr(x)


def quantile(p: FloatArray) -> FloatArray:
    """The quantile function of the standard normal law."""
    return ndtri(p)


def part(function: F) -> F:
    """A plain function that formulas may call, as a part that several of them have in common."""
    return register_jitable(error_model="numpy")(function)


# What kernels do instead: numba asks the outer function for what is compiled.
overload(where)(lambda condition, yes, no: lambda condition, yes, no: yes if condition else no)
overload(cdf)(lambda x: lambda x: normal_cdf(x))
overload(quantile)(lambda p: lambda p: normal_quantile(p))
