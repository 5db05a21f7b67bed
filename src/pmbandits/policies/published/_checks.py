"""What the published algorithms assume, checked: each failure is one sentence with the way out."""

from __future__ import annotations

import math

import numpy as np

from pmbandits.engine.options import one_of, option, share
from pmbandits.engine.policy import Policy
from pmbandits.metrics import LowerCVaR
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies._draws import TIES
from pmbandits.policies.published._functionals import set_mixture_to_largest_cvar, unpack_tail
from pmbandits.supports import Support


def log_inverse_delta(horizon: int, delta: float | None) -> float:
    """ln(1/δ), with δ = 1/T² where it is not given."""
    return 2.0 * math.log(horizon) if delta is None else -math.log(delta)


def require_upper_end_of_support(policy: str, support: Support) -> None:
    """Refuse supports without an upper end."""
    if not np.isfinite(support.hi):
        raise ValueError(
            f"{policy} assumes rewards with a known upper bound, but the support is {support!r}; "
            "declare Interval(lo, hi), Finite(atoms) or Binary()."
        )


def require_continuous_distortion(policy: str, metric: Distortion) -> None:
    """Refuse distortions that jump."""
    if metric.jumps:
        raise ValueError(
            f"{policy} needs a metric without jumps, but the curve of {metric!r} jumps; "
            "take an average of quantiles such as UpperCVaR or LowerCVaR."
        )


def quadratic_metric_coefficients(policy: str, metric: Distortion) -> tuple[float, float]:
    """m and g ≥ 0 of h(u) = m·u + g·u(1 − u); any other h is refused."""
    u = np.linspace(0.0, 1.0, 129)
    h = np.asarray(metric(u), dtype=np.float64)
    mean, size = float(h[-1]), float(np.abs(h).max())
    gini = 4.0 * (float(h[64]) - 0.5 * mean)
    if gini < -1e-9 * size or not np.allclose(h, mean * u + gini * u * (1.0 - u), rtol=0.0, atol=1e-9 * size):
        raise ValueError(
            f"{policy} is for distortions m·u + g·u(1 − u) with g ≥ 0 (Mean, GiniDeviation, Quadratic, DualPower(2), "
            f"and sums of these), but the metric is {metric!r}; take UCFW or Track instead."
        )
    return mean, max(gini, 0.0)


class TailPolicy(Policy, update=set_mixture_to_largest_cvar, unpack=unpack_tail):
    """A policy for a lower-tail CVaR. α comes from the metric, or from an option; then the metric is not used."""

    alpha: float | None = option(default=None, check=share)
    ties: str = option(default="fewest", check=one_of(*TIES))

    def default_metric(self) -> Distortion | None:
        alpha = self.options["alpha"]
        return None if alpha is None else LowerCVaR(alpha)

    def tail_level(self, metric: Distortion) -> float:
        """α as an option, or that of the metric."""
        if self.options["alpha"] is not None:
            return float(self.options["alpha"])
        if isinstance(metric, LowerCVaR):
            return metric.alpha
        raise ValueError(
            f"{type(self).__name__} maximises a lower-tail CVaR and nothing else, but the metric is {metric!r}; take "
            "LowerCVaR(alpha), or give alpha=... to let it play for that tail."
        )
