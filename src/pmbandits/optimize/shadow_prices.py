"""What each limit on the shares costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pmbandits.arms import Bandit
    from pmbandits.constraints import Limits
    from pmbandits.metrics.distortion import Distortion
    from pmbandits.optimize.result import OracleResult

_NOTHING = 1e-9  # a gain that is smaller, relative to the utility, is rounding


@dataclass(frozen=True)
class ShadowPrice:
    """What one limit on the shares costs. When printed, it is one sentence.

    Attributes
    ----------
    text : the limit.
    multiplier : how fast the utility rises when the limit is loosened a little (for an equality: when its right side
        rises). NaN where the metric is not concave, because there a small step says little, and where limits
        leave so few mixtures that it was not found.
    value, without : the utility with all limits, and without this one.
    arm : the arm that it limits, if it is only one.
    """

    text: str
    multiplier: float
    value: float
    without: float
    arm: str | None = None

    @property
    def gain(self) -> float:
        """How much higher the utility would be without the limit."""
        return self.without - self.value

    def __str__(self) -> str:
        limit = f"the limit {self.text}" if self.arm is None else f"the limit on {self.arm} ({self.text})"
        if self.gain <= _NOTHING * max(abs(self.value), abs(self.without)):
            return f"{limit} costs nothing"
        share = 100.0 * self.gain / abs(self.value) if self.value != 0.0 else np.inf
        amount = f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %" if share < 1000.0 else f"{self.gain:.3g}"
        return f"without {limit} the utility would be {amount} higher"


def compute_shadow_prices(
    metric: Distortion, bandit: Bandit, limits: Limits, oracle: Callable[..., OracleResult], best: OracleResult
) -> dict[str, ShadowPrice]:
    """The shadow price of each limit, by its text: solve again without each limit that costs something."""
    out = {}
    multipliers = best.multipliers if best.multipliers is not None else np.full(len(limits), np.nan)
    size = max(abs(best.value), abs(best.best_arm_value))
    slacks = limits.polytope.bound - limits.polytope.matrix @ best.weights
    for row, text, multiplier, slack in zip(limits.matrix, limits.texts, multipliers, slacks, strict=True):
        used = np.flatnonzero(row)
        without = best.value
        # Concave: V without a limit is at most V + multiplier · (how far a mixture can be beyond it). Where limits
        # leave one mixture, or shut an arm out, the multipliers of limits that are met exactly can be wrong.
        max_excess = float(np.abs(row).sum()) * 2.0
        is_small = abs(multiplier) * max_excess <= _NOTHING * size
        if not is_small or slack < _NOTHING:
            without = max(oracle(metric, bandit, shares=limits.without(text)).value, best.value)
            if is_small and without - best.value > 10 * _NOTHING * size:
                multiplier = np.nan
        arm = limits.names[int(used[0])] if used.size == 1 else None
        out[text] = ShadowPrice(text, float(multiplier), best.value, without, arm)
    return out
