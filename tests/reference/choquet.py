"""Slow, obviously right references for distortions and their signed Choquet integrals.

Nothing here imports the package: formulas are typed again from the definitions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

from scipy.integrate import quad

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
DIGITS = 340  # so that 1 − v^20 keeps v = 1e-15


def choquet_loop(h: Callable[[float], float], xs: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Σ x·(h(P(X ≥ x)) − h(P(X > x))) over distinct values x with positive weight, one after the other."""
    n = len(xs)
    mass = [1.0 / n] * n if weights is None else list(weights)
    values = sorted({float(x) for x, w in zip(xs, mass, strict=True) if w > 0})
    total = []
    for k, value in enumerate(values):
        if weights is None:
            above = sum(1 for x in xs if x > value) / n
            at_least = sum(1 for x in xs if x >= value) / n
        else:
            above = math.fsum(w for x, w in zip(xs, mass, strict=True) if x > value)
            at_least = 1.0 if k == 0 else math.fsum(w for x, w in zip(xs, mass, strict=True) if x >= value)
        total.append(value * (h(at_least) - h(above)))
    return math.fsum(total)


def choquet_quad(
    h: Callable[[float, float], float],
    cdf: Callable[[float], float],
    sf: Callable[[float], float],
    edges: Sequence[float],
    tails: tuple[bool, bool],
) -> float:
    """∫_{−∞}^0 (h(S) − h(1)) dx + ∫_0^∞ h(S) dx with scipy's quad between the given edges.

    ``h(u, v)`` takes the survival probability u and v = 1 − u, so that no digit of a small v is lost.
    ``tails`` says whether to integrate on to −∞ and to +∞ beyond the outermost edges.
    """
    top = h(1.0, 0.0)
    points = sorted({*map(float, edges), 0.0})

    def part(a: float, b: float) -> float:
        shift = top if b <= 0.0 else 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = quad(lambda x: h(float(sf(x)), float(cdf(x))) - shift, a, b, epsabs=0.0, epsrel=1e-12, limit=200)
        return float(out[0])

    pieces = [part(a, b) for a, b in pairwise(points)]
    if tails[0]:
        pieces.append(part(-math.inf, points[0]))
    if tails[1]:
        pieces.append(part(points[-1], math.inf))
    return math.fsum(pieces)


def plain(name: str, p: dict[str, float]) -> Callable[[float, float], float]:
    """h(u, v) in floats for u = 1 − v, typed from the definition of each metric."""
    from statistics import NormalDist

    normal = NormalDist()

    def wang(u: float, v: float) -> float:
        if u <= 0.0 or v <= 0.0:
            return 0.0 if u <= 0.0 else 1.0
        # whichever tail is small gives the better quantile
        z = normal.inv_cdf(u) if u < 0.5 else -normal.inv_cdf(v)
        return 0.5 * math.erfc(-(z + p["shift"]) / math.sqrt(2.0))

    def inverted_s(u: float, v: float) -> float:
        if u <= 0.0:
            return 0.0
        depth = -math.log(u) if u < 0.5 else -math.log1p(-v)
        return math.exp(-(depth ** p["beta"]))

    def tsallis(u: float, v: float) -> float:
        a = p["alpha"]
        if v <= 0.0:
            return 0.0
        if a == 1.0:
            return -v * math.log(v)
        return (v - v**a) / (a - 1.0)

    def shortfall(u: float, v: float) -> float:
        w = min(u / (1.0 - p["p"]), 1.0)
        return w + 2.0 * p["loading"] * w * (1.0 - w)

    table: dict[str, Callable[[float, float], float]] = {
        "mean": lambda u, v: u,
        "dual_power": lambda u, v: 1.0 - v ** p["s"],
        "quadratic": lambda u, v: (1.0 + p["s"]) * u - p["s"] * u * u,
        "upper_cvar": lambda u, v: min(u / (1.0 - p["c"]), 1.0),
        "pht": lambda u, v: u ** p["s"],
        "mean_median_deviation": lambda u, v: min(u, v),
        "inter_es_range": lambda u, v: min(u / (1 - p["c"]), 1.0) - max(0.0, (u - p["c"]) / (1 - p["c"])),
        "wang_right_tail": lambda u, v: math.sqrt(u) - u,
        "gini_deviation": lambda u, v: u * v,
        "var": lambda u, v: 1.0 if u > 1.0 - p["c"] else 0.0,
        "lower_cvar": lambda u, v: max(0.0, (p["alpha"] - v) / p["alpha"]),
        "gini_shortfall": shortfall,
        "inter_quantile_range": lambda u, v: 1.0 if 1 - p["upper"] < u <= 1 - p["lower"] else 0.0,
        "inverted_s": inverted_s,
        "tsallis_past_entropy": tsallis,
        "wang_transform": wang,
        "tversky_kahneman": lambda u, v: u ** p["gamma"] / (u ** p["gamma"] + v ** p["gamma"]) ** (1.0 / p["gamma"]),
        "power_deviation": lambda u, v: u ** p["m"] - p["r"] * u ** (2 * p["m"]),
    }
    return table[name]


def _phi(x: Decimal) -> Decimal:
    """Standard normal CDF by its Taylor series; exact to the context's digits for |x| < 12."""
    term, total, k = x, x, 0
    while abs(term) > Decimal(10) ** (-DIGITS):
        k += 1
        term = -term * x * x / (2 * k)
        total += term / (2 * k + 1)
    return Decimal("0.5") + total / (2 * PI).sqrt()


def _phi_inverse(u: Decimal) -> Decimal:
    from statistics import NormalDist

    x = Decimal(NormalDist().inv_cdf(float(u)) if u < Decimal("0.5") else -NormalDist().inv_cdf(float(1 - u)))
    for _ in range(6):
        x -= (_phi(x) - u) * (2 * PI).sqrt() * (x * x / 2).exp()
    return x


def exact(name: str, p: dict[str, Any], u: Decimal) -> Decimal:
    """h(u) with at least 60 correct digits."""
    q = {k: Decimal(v) for k, v in p.items()}
    one, zero = Decimal(1), Decimal(0)
    if u <= 0:
        return zero
    v = one - u
    if name == "wang_transform":
        return one if v <= 0 else _phi(_phi_inverse(u) + q["shift"])
    if name == "inverted_s":
        depth = -u.ln()
        return one if depth == 0 else (-(depth ** q["beta"])).exp()
    if name == "tsallis_past_entropy":
        if v <= 0:
            return zero
        return -v * v.ln() if q["alpha"] == 1 else (v - v ** q["alpha"]) / (q["alpha"] - 1)
    if name == "tversky_kahneman":
        g = q["gamma"]
        low = zero if v <= 0 else v**g
        return u**g / (u**g + low) ** (1 / g)
    if name == "gini_shortfall":
        w = min(u / (1 - q["p"]), one)
        return w + 2 * q["loading"] * w * (1 - w)
    table: dict[str, Callable[[], Decimal]] = {
        "mean": lambda: u,
        "dual_power": lambda: 1 - (zero if v <= 0 else v ** q["s"]),
        "quadratic": lambda: (1 + q["s"]) * u - q["s"] * u * u,
        "upper_cvar": lambda: min(u / (1 - q["c"]), one),
        "pht": lambda: u ** q["s"],
        "power_deviation": lambda: u ** q["m"] - q["r"] * u ** (2 * q["m"]),
        "mean_median_deviation": lambda: min(u, v),
        "inter_es_range": lambda: min(u / (1 - q["c"]), one) - max(zero, (u - q["c"]) / (1 - q["c"])),
        "wang_right_tail": lambda: u.sqrt() - u,
        "gini_deviation": lambda: u * v,
        "var": lambda: one if u > 1 - q["c"] else zero,
        "lower_cvar": lambda: max(zero, (u - 1 + q["alpha"]) / q["alpha"]),
        "inter_quantile_range": lambda: one if 1 - q["upper"] < u <= 1 - q["lower"] else zero,
    }
    return table[name]()


def exact_h(name: str, p: dict[str, Any], u: float) -> float:
    """h(u), correctly rounded or nearly so."""
    with localcontext() as context:
        context.prec = DIGITS
        return float(exact(name, p, Decimal(u)))


def exact_co(name: str, p: dict[str, Any], v: float) -> float:
    """h(1 − v) − h(1), with all digits even for a tiny v."""
    with localcontext() as context:
        context.prec = DIGITS
        return float(exact(name, p, 1 - Decimal(v)) - exact(name, p, Decimal(1)))
