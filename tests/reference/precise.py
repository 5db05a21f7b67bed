"""Utilities of mixtures of Beta arms with whole parameters to 30 digits: polynomials, and tanh-sinh quadrature.

Nothing here imports the package or numpy; everything is computed with decimals of 50 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from math import comb

DIGITS = 50


def survival(arms: Sequence[tuple[int, int]], weights: Sequence[float], x: Decimal) -> Decimal:
    """P(X > x): a Beta(a, b) number is above x if fewer than a of a + b − 1 uniform numbers lie below x."""
    total = Decimal(0)
    for (a, b), weight in zip(arms, weights, strict=True):
        n = a + b - 1
        total += Decimal(weight) * sum(comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a))
    return total


def integral(f: Callable[[Decimal], Decimal], lo: Decimal, hi: Decimal) -> Decimal:
    """Tanh-sinh quadrature: exact to about 30 digits also where f is vertical at an end."""
    step = Decimal(1) / 32
    half_pi = Decimal("1.5707963267948966192313216916397514420985846996876")
    total = Decimal(0)
    for k in range(-140, 141):
        t = step * k
        e = t.exp()
        s = half_pi * (e - 1 / e) / 2
        big = s.exp()
        share = big / (big + 1 / big)  # (1 + tanh s)/2
        density = half_pi * (e + 1 / e) / 2 * 2 / (big + 1 / big) ** 2
        total += density * f(lo + (hi - lo) * share)
    return total * step * (hi - lo) * Decimal(1)


def utility(name: str, arms: Sequence[tuple[int, int]], weights: Sequence[float], c: str = "0.9") -> float:
    """∫_0^1 h(P(X > x)) dx for h = u(1 − u), √u − u, or min(u/(1 − c), 1)."""
    with localcontext() as context:
        context.prec = DIGITS

        def above(x: Decimal) -> Decimal:
            return min(max(survival(arms, weights, x), Decimal(0)), Decimal(1))

        if name == "gini":
            return float(integral(lambda x: above(x) * (1 - above(x)), Decimal(0), Decimal(1)))
        if name == "wang":
            return float(integral(lambda x: above(x).sqrt() - above(x), Decimal(0), Decimal(1)))
        level = 1 - Decimal(c)
        lo, hi = Decimal(0), Decimal(1)
        for _ in range(160):  # where the survival falls below 1 − c
            middle = (lo + hi) / 2
            lo, hi = (middle, hi) if above(middle) > level else (lo, middle)
        return float(lo + integral(lambda x: above(x) / level, lo, Decimal(1)))
