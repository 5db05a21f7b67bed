"""The answer of the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints import Limits
from pmbandits.optimize.shadow_prices import ShadowPrice


@dataclass(frozen=True)
class OracleResult:
    """The best mixture of known arms: the result of :func:`oracle`.

    Attributes
    ----------
    weights : the mixing weights. If several mixtures are best, it is the one with the fewest arms that was found.
    value : the utility of this mixture.
    gap : no mixture is better than ``value`` by more than this. It is 0 when the answer is exact, and NaN when nothing
        is certified.
    certified : whether ``gap`` is a useful proof, that is at most 1 % of the utility. For a metric made from a function
        this rests on its stated derivative, and its stated shape or Hölder pair; without them it is only an estimate.
    best_arm, best_arm_value : the best single arm, and its utility.
    unique : whether no other mixture is as good; ``None`` if that was not decided.
    alternative : another mixture that is as good, if there is one.
    method : how the mixture was found.
    limits : the limits that the mixture keeps, if there are any. Then ``gap`` is about mixtures that keep them. The
        best single arm may not be allowed, and is only there to compare with.
    multipliers : for each limit, how fast the utility rises when the limit is loosened a little (for an equality: when
        its right side rises). NaN where the metric is not concave, because there a small step says little.
    """

    weights: FloatArray
    value: float
    gap: float
    certified: bool
    best_arm: int
    best_arm_value: float
    unique: bool | None
    alternative: FloatArray | None
    method: str
    names: tuple[str, ...] = field(repr=False)
    limits: Limits | None = None
    multipliers: FloatArray | None = None
    compute_prices: Callable[[OracleResult], dict[str, ShadowPrice]] | None = field(
        default=None, repr=False, compare=False
    )

    @cached_property
    def prices(self) -> dict[str, ShadowPrice]:
        """What each limit costs, by its text: its multiplier, and what the utility would be without it.

        To find the second, the problem is solved again without the limit when you first ask.
        """
        return {} if self.compute_prices is None else self.compute_prices(self)

    @property
    def gain(self) -> float:
        """The utility of the mixture less that of the best single arm."""
        return self.value - self.best_arm_value

    @property
    def is_mixture(self) -> bool:
        """Whether the best mixture has more than one arm.

        Two coins with chances p and 1 − p and the Gini deviation are the paper's first example (``example utility``).
        It leaves out that for p = ½, where the coins are alike, a mixture is no better than a coin.
        """
        return int((self.weights > 0.0).sum()) > 1

    def rescaled(self, factor: float) -> OracleResult:
        """The result with utilities multiplied by a factor: for the metric times that factor."""
        value = self.value * factor
        return replace(
            self,
            value=value,
            gap=self.gap * factor + (0.0 if self.gap == 0.0 else float(np.spacing(abs(value)))),
            best_arm_value=self.best_arm_value * factor,
            multipliers=None if self.multipliers is None else self.multipliers * factor,
        )

    def _repr_html_(self) -> str:
        from pmbandits import _html

        used = np.flatnonzero(self.weights > 0.0)
        better = "no mixture is better" + (f" by more than {self.gap:.2g}" if self.gap else "")
        proof = better if self.certified else "none: it was found by a search"
        rows = [
            ("utility", f"{self.value:.6g}"),
            ("best single arm", f"{self.names[self.best_arm]}, {self.best_arm_value:.6g}"),
            ("gain", f"{self.gain:.3g}"),
            ("certificate", proof),
        ]
        if self.limits is not None:
            rows.append(("within the limits", str(self.limits)))
        shares = _html.html_share_bars(
            [self.names[i] for i in used], [float(self.weights[i]) for i in used], places=used.tolist()
        )
        title = "The best mixture" if self.is_mixture else "One arm is best"
        return _html.html_titled_block(title, _html.html_side_by_side(shares, _html.html_table((), rows)))

    def __repr__(self) -> str:
        used = ", ".join(f"{self.names[i]}: {self.weights[i]:.6g}" for i in np.flatnonzero(self.weights > 0.0)[:8])
        proof = f"gap={self.gap:.2g}" if self.certified else "gap not certified"
        others = "" if self.unique is not False else ", others are as good"
        others += f", within {self.limits}" if self.limits is not None and len(self.limits) else ""
        return (
            f"OracleResult({{{used}}}, value={self.value:.9g}, {proof}, best single arm {self.names[self.best_arm]!r} "
            f"with {self.best_arm_value:.9g}, gain={self.gain:.3g}{others})"
        )
