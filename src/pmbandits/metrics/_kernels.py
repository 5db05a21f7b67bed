"""Old names of what is in :mod:`packed` and :mod:`normal`."""

from __future__ import annotations

from pmbandits.metrics.normal import normal_cdf, normal_quantile
from pmbandits.metrics.packed import _formula, h_max, h_min, h_value, pack
from pmbandits.state.compile import kernel


@kernel
def _one_term(code, a, b, u):
    return _formula(code, u, a, b)


__all__ = ["_one_term", "h_max", "h_min", "h_value", "normal_cdf", "normal_quantile", "pack"]
