"""What the published algorithms assume, checked: each failure is one sentence with the way out."""

from __future__ import annotations

import math

from pmbandits.metrics import LowerCVaR
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Real, Support


def tail_metric(alpha: float | None) -> Distortion | None:
    """The metric where none is given: α alone is a lower-tail CVaR."""
    return None if alpha is None else LowerCVaR(alpha)


def depth(horizon: int, delta: float | None) -> float:
    """ln(1/δ), with δ = 1/T² where it is not given."""
    return 2.0 * math.log(horizon) if delta is None else -math.log(delta)


def tail_level(policy: str, metric: Distortion, alpha: float | None) -> float:
    """α as an option, or that of the metric."""
    if alpha is not None:
        return alpha
    if isinstance(metric, LowerCVaR):
        return metric.alpha
    raise ValueError(
        f"{policy} maximises a lower-tail CVaR and nothing else, but the metric is {metric!r}; take LowerCVaR(alpha), "
        "or give alpha=... to let it play for that tail."
    )


def bounded(policy: str, support: Support) -> None:
    """Refuse supports without an upper end."""
    if isinstance(support, Real):
        raise ValueError(
            f"{policy} assumes rewards with a known upper bound, but the support is {support!r}; "
            "declare Interval(lo, hi), Finite(atoms) or Binary()."
        )
