"""Distributions of the user's own, subclasses of scipy's: whether they are any, and their compiled quantiles."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.tables.distributions import Distribution, ScipyDistribution


def check_has_formula(dist: Any, name: str) -> None:
    """Refuse a subclass of scipy's distributions that says nothing about its probabilities."""
    import scipy.stats as st

    for base, density in ((st.rv_continuous, "_pdf"), (st.rv_discrete, "_pmf")):
        own = isinstance(dist, base) and not hasattr(dist, "xk") and not hasattr(dist, "new")
        if own and all(getattr(type(dist), method) is getattr(base, method) for method in ("_cdf", density)):
            raise TypeError(
                f"{name} has neither _cdf nor {density}; write _cdf(self, x, ...), the probability of a reward of at "
                f"most x, in the class {type(dist).__name__}."
            )


def check_rises_from_0_to_1(distribution: ScipyDistribution, name: str) -> None:
    """Refuse a distribution of the user's own whose distribution function does not rise from 0 to 1, at 101 points."""
    lo, hi, reach = distribution.lo, distribution.hi, distribution.scale * np.geomspace(1e-3, 1e3, 101)
    if np.isfinite(lo) and np.isfinite(hi):
        x = np.linspace(lo, hi, 101)
    elif np.isfinite(lo) or np.isfinite(hi):
        x = np.sort(lo + reach if np.isfinite(lo) else hi - reach)
    else:
        x = np.sort(distribution.loc + np.concatenate((-reach[::2], reach[1::2])))
    try:
        with np.errstate(all="ignore"):
            p = distribution.cdf(x)
    except Exception as error:
        what = "It gets arrays: write np.where(...) instead of if." if "truth value" in str(error) else "Correct it."
        raise ValueError(f"the distribution function of {name} fails on an array ({error!r}). {what}") from error
    wrong = ~((p >= -1e-9) & (p <= 1.0 + 1e-9))
    wrong[1:] |= ~(np.diff(p) >= -1e-9)
    if wrong.any():
        at = int(np.argmax(wrong))
        before = f", after {p[at - 1]:.6g} at {x[at - 1]:.6g}" if at > 0 and 0.0 <= p[at] <= 1.0 else ""
        raise ValueError(
            f"the distribution function of {name} is {p[at]:.6g} at {x[at]:.6g}{before}; it must rise from 0 to 1: "
            f"correct _cdf or _pdf of {type(distribution.frozen.dist).__name__}."
        )


def quantile_kernel_of(distribution: Distribution) -> Any:
    """The attribute ``quantile_kernel`` of the class of a distribution: its compiled quantiles, or ``None``."""
    frozen = getattr(distribution, "frozen", None)
    return getattr(getattr(frozen, "dist", None), "quantile_kernel", None)


def compiled_quantiles(distribution: ScipyDistribution, levels: FloatArray) -> FloatArray:
    """The quantiles of these levels by the ``quantile_kernel`` of a distribution."""
    kernel, shapes = quantile_kernel_of(distribution), np.array(distribution.shapes)
    return distribution.loc + distribution.scale * np.array([float(kernel(float(u), shapes)) for u in levels])


def check_quantile_kernel(distribution: ScipyDistribution, name: str) -> None:
    """Refuse compiled quantiles of the user's own that are not those of the distribution function, at 99 levels."""
    kernel = quantile_kernel_of(distribution)
    if kernel is None:
        return
    if inspect.ismethod(kernel):
        raise TypeError(
            f"the quantile_kernel of {name} would be given the distribution itself; write in its class "
            f"quantile_kernel = staticmethod({kernel.__name__})."
        )
    if not hasattr(kernel, "py_func"):
        raise TypeError(
            f"the quantile_kernel of {name} is not compiled; write @kernel above its def, and in the class "
            "quantile_kernel = staticmethod(...)."
        )
    levels = np.linspace(0.01, 0.99, 99)
    x = compiled_quantiles(distribution, levels)
    off = np.abs(distribution.cdf(x) - levels)
    if not (off <= 1e-6).all():
        k = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        raise ValueError(
            f"the quantile_kernel of {name} is {x[k]:.6g} at {levels[k]:g}, where the distribution function is "
            f"{float(distribution.cdf(x[k : k + 1])[0]):.6g} and not {levels[k]:g}; correct one of the two."
        )
