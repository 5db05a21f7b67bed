"""How many more rewards would settle a question, and of which arms."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite, sqrt

from scipy.special import ndtri

from pmbandits.advice.inference import Evidence
from pmbandits.advice.problem import N_CHOOSING_PARTS
from pmbandits.advice.standard_errors import Margin
from pmbandits.logs import N_PARTS

_POWER = 0.8  # the probability with which the question is settled then
_LARGEST_FACTOR = 100.0  # times as many rewards, beyond which more data is no advice


def n_more_rewards_needed(
    evidence: Evidence, sizes: Sequence[int], alpha: float, matters: float = 0.0
) -> dict[int, int]:
    """How many more rewards of which arms settle the question with probability 0.8, if arms differ as in the data.

    The sizes are those of the arms in rewards. It is empty if no reasonable number settles it. For a single arm and one
    that is not yet beaten, the rewards are divided so that their sum is smallest: more of an arm whose rewards vary
    more (Neyman 1934).
    """
    single = not evidence.is_mixture
    times = 2.0 if matters == 0.0 else max(2.0, float(len(evidence.margins)))
    open_margins = (
        [m for m in evidence.margins if times * m.p_value_of_lead_beyond(-matters) > alpha] if single else None
    )
    close = evidence.margins if open_margins is None else open_margins
    factors = {m.rival: growth_factor(m, alpha / times, matters, split=not single) for m in close}
    if not factors or not all(map(isfinite, factors.values())):
        return {}
    used = [k for k, weight in enumerate(evidence.weights.tolist()) if weight > 0.0]
    growth = dict.fromkeys(used, 1.0)
    for margin in close:
        j, factor = margin.rival, factors[margin.rival]
        pair = (factor, factor)
        if single:
            mine, theirs = (float(evidence.plain_errors[k]) ** 2 for k in (used[0], j))
            pair = _growth_factors_of_two_arms(mine, theirs, sizes[used[0]], sizes[j], factor)
        growth[j] = max(growth.get(j, 1.0), pair[1])
        for k in used:
            growth[k] = max(growth[k], pair[0])
    return {k: _round_up_to_two_digits(sizes[k] * (g - 1.0)) for k, g in sorted(growth.items()) if g > 1.0}


def growth_factor(margin: Margin, alpha: float, matters: float, *, split: bool) -> float:
    """By which factor the data must grow to settle one comparison; infinity if by no reasonable one.

    Of the variance, what was added for rewards that nobody saw falls with the square of the number of rewards, and so
    does what kinks of h add to the error. ``split`` says that only a part of the rewards measures.
    """
    critical_value = float(ndtri(1.0 - alpha)) * (sqrt(N_PARTS / (N_PARTS - N_CHOOSING_PARTS)) if split else 1.0)
    power_quantile = float(ndtri(_POWER))
    plain, added = margin.plain_error**2, max(margin.error**2 - margin.plain_error**2, 0.0)

    def settled(f: float) -> bool:
        error = critical_value * sqrt(plain / f + added / f**2) + power_quantile * sqrt(plain / f)
        return margin.gain + matters >= error + (margin.slack + margin.bias) / f

    low, high = 1.0, 2.0 * _LARGEST_FACTOR
    if not isfinite(plain + added) or not settled(high):
        return inf
    while high > 1.02 * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high if high <= _LARGEST_FACTOR else inf


def _growth_factors_of_two_arms(mine: float, theirs: float, n: int, m: int, factor: float) -> tuple[float, float]:
    """Factors by which two arms grow, with fewest rewards, so that the sum of two variances falls by a factor."""
    target = (mine + theirs) / factor
    if mine <= 0.0 or theirs <= 0.0 or target <= 0.0:
        return factor, factor
    both = sqrt(mine * n) + sqrt(theirs * m)
    a, b = sqrt(mine / n) * both / target, sqrt(theirs / m) * both / target
    if a < 1.0:
        return 1.0, theirs / (target - mine)
    if b < 1.0:
        return mine / (target - theirs), 1.0
    return a, b


def _round_up_to_two_digits(count: float) -> int:
    """A count rounded up to two significant digits, because it is an estimate."""
    if count < 10:
        return max(ceil(count), 1)
    size = 10 ** (len(str(int(count))) - 2)
    return ceil(count / size) * size
