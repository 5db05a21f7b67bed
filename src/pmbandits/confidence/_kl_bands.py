"""KL bands: at each x the survival lies in {q : kl(k/n, q) ≤ radius}, where k of n rewards lie above x; compiled.

For its ends relative entropy must be inverted, which costs logarithms. A pass over the rewards cannot afford
that. So few ends are worked out exactly, for at most ``n_exact`` rewards above or below, once for each number n of an
arm's rewards; between them stands a formula with one square root, on the safe side, cut off by the tangents where the
exact ends begin. The page "Bands" of the documentation has the proofs.

The upper end is concave in k/n and the lower end convex, and both are monotone. ``mixtures/_lazy_argmax.py``
relies on that.
"""

from __future__ import annotations

import math

from pmbandits._validation import FloatArray
from pmbandits.state.fields import MAX_EXACT_ENDS as MAX_EXACT
from pmbandits.state.linking import shared, step

NO_HORIZON_LENGTH = 1 << 20  # rewards for which ``n_exact`` is chosen, if there is no horizon


def n_exact_kl_ends(deepest: float) -> int:
    """For how many rewards above or below ends are computed exactly, given the largest n·radius; 24 to 64."""
    return min(MAX_EXACT, max(24, int(1.6 * deepest) + 1))


# The row that is kept of an arm: the upper ends for 0, …, 64 rewards above, then those for 0, …, 64 rewards below.
UPPER_ENDS, UPPER_ENDS_BELOW = 0, MAX_EXACT + 1
N_EXACT = 2 * MAX_EXACT + 2  # up to how many rewards above or below there are exact ends
TANGENTS = N_EXACT + 1  # the two tangents: value at 0, and slope
SHIFT, PRODUCT, SCALE = TANGENTS + 4, TANGENTS + 5, TANGENTS + 6  # of the formula: 2r/3, 2r·(1 + 8r/9), 1/(1 + 8r/9)
WIDENED = TANGENTS + 7  # 1 if ends far from k/n are moved further out
THRESHOLD = TANGENTS + 8  # n times the radius


@step("float, float -> float")
def kl_upper_outer_bound(p: float, level: float) -> float:
    """A number above the largest q with kl(p, q) ≤ level: (q − p)² = 2·level·t(1 − t), t = (p + 2q)/3."""
    scale, shift = 1.0 / (1.0 + 8.0 * level / 9.0), 2.0 * level / 3.0 * (1.0 - 2.0 * p)
    return p + (shift + math.sqrt(shift * shift + 2.0 * level * p * (1.0 - p) / scale)) * scale


@shared("int, int, float, bool -> float")
def exact_kl_upper(k: int, n: int, threshold: float, stretched: bool) -> float:
    """The upper end at k of n rewards above: n·kl(k/n, q) = threshold, by Newton's method in ln(1 − q) from the right.

    Stretched: where 1 − q falls below a quarter of 1 − k/n, β + ½ln(ratio/4)/(1 − 1/(2β)) in place of the threshold β.
    """
    if k >= n:
        return 1.0
    p, below, rest = k / n, float(n - k), (n - k) / n
    gained = k * math.log(p) if k > 0 else 0.0
    one_minus_q = max(
        1.0 - kl_upper_outer_bound(p, threshold / n), rest * math.exp((gained - threshold) / below)
    )  # 1 − q
    for _ in range(40):
        q = 1.0 - one_minus_q
        gap = below * math.log(rest / one_minus_q) - threshold
        if k > 0:
            gap += k * math.log(p / q)
        move = gap * q / (n * (q - p))
        if not move > 1e-14:
            break
        one_minus_q = min(one_minus_q * math.exp(move), rest)
    if stretched and one_minus_q < 0.25 * rest:
        half = 0.5 / (1.0 - 0.5 / threshold)
        one_minus_q = rest * math.exp(-(threshold - gained - half * math.log(4.0)) / (below - half))
        for _ in range(60):
            q = 1.0 - one_minus_q
            gap = below * math.log(rest / one_minus_q) - threshold - half * math.log(0.25 * rest / one_minus_q)
            if k > 0:
                gap += k * math.log(p / q)
            move = gap / (n * (q - p) / q - half)
            if not move > 1e-14:
                break
            one_minus_q = min(one_minus_q * math.exp(move), rest)
    return 1.0 - one_minus_q


@shared("int, float, bool, int, floats -> none")
def fill_kl_band(n: int, level: float, stretched: bool, n_exact: int, row: FloatArray) -> None:
    """Compute the KL band of n rewards, with exact ends for ``n_exact`` rewards on each side, into ``row``."""
    fill_kl_band_without_exact_ends(n, level, stretched, n_exact, row)
    for k in range(min(n_exact, n) + 1):
        row[UPPER_ENDS + k] = exact_kl_upper(k, n, row[THRESHOLD], stretched)
        row[UPPER_ENDS_BELOW + k] = exact_kl_upper(n - k, n, row[THRESHOLD], stretched)


@shared("int, int, floats -> none")
def fill_exact_ends_at(k: int, n: int, row: FloatArray) -> None:
    """Compute the exact ends at k − 1, k and k + 1 of n rewards above, into ``row``; for supports with few atoms."""
    n_exact, threshold, stretched = int(row[N_EXACT]), row[THRESHOLD], row[WIDENED] == 1.0
    for j in range(max(k - 1, 0), min(k + 1, n) + 1):
        if j <= n_exact:
            row[UPPER_ENDS + j] = exact_kl_upper(j, n, threshold, stretched)
            row[UPPER_ENDS_BELOW + j] = exact_kl_upper(n - j, n, threshold, stretched)
        if n - j <= n_exact:
            row[UPPER_ENDS + n - j] = exact_kl_upper(n - j, n, threshold, stretched)
            row[UPPER_ENDS_BELOW + n - j] = exact_kl_upper(j, n, threshold, stretched)


@shared("int, float, bool, int, floats -> none")
def fill_kl_band_without_exact_ends(n: int, level: float, stretched: bool, n_exact: int, row: FloatArray) -> None:
    """Compute all of a KL band but its exact ends (the closed-form ends and the tangents), into ``row``."""
    row[THRESHOLD], row[N_EXACT] = n * level, n_exact
    row[WIDENED] = 1.0 if stretched else 0.0
    scale = 1.0 / (1.0 + 8.0 * level / 9.0)
    row[SHIFT], row[PRODUCT], row[SCALE] = 2.0 * level / 3.0, 2.0 * level / scale, scale
    if n > 2 * n_exact:
        for j in range(2):
            p = (n_exact if j == 0 else n - n_exact) / n
            q = exact_kl_upper(n_exact if j == 0 else n - n_exact, n, row[THRESHOLD], stretched)
            slope = q * (1.0 - q) * math.log(q * (1.0 - p) / (p * (1.0 - q))) / (q - p)
            row[TANGENTS + 2 * j], row[TANGENTS + 2 * j + 1] = q - slope * p, slope


@step("int, int, floats -> two floats")
def kl_band_ends(k: int, n: int, row: FloatArray) -> tuple[float, float]:
    """The lower and the upper end of the KL band where k of n rewards lie above."""
    n_exact = int(row[N_EXACT])
    if k <= n_exact:
        return 1.0 - (row[UPPER_ENDS + n - k] if n - k <= n_exact else row[UPPER_ENDS_BELOW + k]), row[UPPER_ENDS + k]
    if n - k <= n_exact:
        return 1.0 - row[UPPER_ENDS + n - k], row[UPPER_ENDS_BELOW + n - k]
    p = k / n
    shift = row[SHIFT] * (1.0 - 2.0 * p)
    root = math.sqrt(shift * shift + row[PRODUCT] * (p * (1.0 - p)))
    upper = p + (shift + root) * row[SCALE]
    lower = p + (shift - root) * row[SCALE]
    upper = min(upper, min(row[TANGENTS] + row[TANGENTS + 1] * p, row[TANGENTS + 2] + row[TANGENTS + 3] * p))
    line = min(row[TANGENTS] + row[TANGENTS + 1] * (1.0 - p), row[TANGENTS + 2] + row[TANGENTS + 3] * (1.0 - p))
    lower = max(lower, 1.0 - line)
    if row[WIDENED] == 1.0:  # happens only for a depth above side/1.6
        upper = upper if 1.0 - upper >= 0.25 * (1.0 - p) else 1.0
        lower = lower if lower >= 0.25 * p else 0.0
    return lower, upper


@step("float, float, floats -> two floats")
def kl_band_ends_with_error(p: float, share_error: float, row: FloatArray) -> tuple[float, float]:
    """The lower and the upper end of the KL band where the share above is known only up to ``share_error``."""
    out_lower, out_upper = 0.0, 1.0
    high, low = p + share_error, p - share_error
    if high < 1.0:
        shift = row[SHIFT] * (1.0 - 2.0 * high)
        upper = high + (shift + math.sqrt(shift * shift + row[PRODUCT] * (high * (1.0 - high)))) * row[SCALE]
        if row[WIDENED] == 0.0 or 1.0 - upper >= 0.25 * (1.0 - high):
            out_upper = min(upper, 1.0)
    if low > 0.0:
        shift = row[SHIFT] * (1.0 - 2.0 * low)
        lower = low + (shift - math.sqrt(shift * shift + row[PRODUCT] * (low * (1.0 - low)))) * row[SCALE]
        if row[WIDENED] == 0.0 or lower >= 0.25 * low:
            out_lower = max(lower, 0.0)
    return out_lower, out_upper


@step("int, int, floats -> two floats")
def max_kl_band_end_slopes(k: int, n: int, row: FloatArray) -> tuple[float, float]:
    """By how much the upper end rises at most, and the lower end falls, for each unit that k/n rises, or falls."""
    up = (n + 1.0) * (kl_band_ends(1, n, row)[1] - kl_band_ends(0, n, row)[1])
    if k > 0:
        up = n * (kl_band_ends(k, n, row)[1] - kl_band_ends(k - 1, n, row)[1])
    down = (n + 1.0) * (kl_band_ends(n, n, row)[0] - kl_band_ends(n - 1, n, row)[0])
    if k < n:
        down = n * (kl_band_ends(k + 1, n, row)[0] - kl_band_ends(k, n, row)[0])
    return up, down
