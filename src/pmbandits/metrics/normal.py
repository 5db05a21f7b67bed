"""CDF and quantiles of the standard normal distribution, for kernels."""

from __future__ import annotations

import math

from pmbandits.state.compile import kernel


@kernel
def normal_cdf(x: float) -> float:
    """The probability that a standard normal number is at most x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


# fmt: off
@kernel
def _polynomial(
    r: float, c7: float, c6: float, c5: float, c4: float, c3: float, c2: float, c1: float, c0: float
) -> float:
    """c7·r⁷ + … + c1·r + c0, by Horner's rule."""
    return ((((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2) * r + c1) * r + c0


@kernel
def normal_quantile(p: float) -> float:
    """The x that a standard normal number exceeds with probability 1 − p: Wichura's AS241 (PPND16), to 1e-16."""
    if p <= 0.0:
        return -math.inf
    if p >= 1.0:
        return math.inf
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        num = _polynomial(
            r, 2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
            13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
        )
        den = _polynomial(
            r, 5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
            5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
        )
        return q * num / den
    r = p if q < 0.0 else 1.0 - p
    r = math.sqrt(-math.log(r))
    if r <= 5.0:
        r -= 1.6
        num = _polynomial(
            r, 7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
            3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
        )
        den = _polynomial(
            r, 1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
            0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0,
        )
    else:
        r -= 5.0
        num = _polynomial(
            r, 2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
            0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772,
        )
        den = _polynomial(
            r, 2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
            0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0,
        )
    return -num / den if q < 0.0 else num / den
# fmt: on
