"""What the published algorithms assume, checked: each failure is one sentence with the way out."""

from __future__ import annotations

from typing import Any

from pmbandits import _check
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.families import LowerCVaR
from pmbandits.supports import Real, Support


def tail_metric(metric: Distortion | None, alpha: Any) -> tuple[Distortion | None, float | None]:
    """The metric and α as given, checked; α alone is a lower-tail CVaR."""
    if alpha is None:
        return metric, None
    level = _check.within("alpha", alpha, 0.0, 1.0, open_lo=True)
    return LowerCVaR(level) if metric is None else metric, level


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
