"""How many more rewards would settle a question, and of which arms.

*The lead that is planned for.* A lead that was seen, but not settled, is not the true one: small leads look larger than
they are, because the arm that happens to be ahead was picked, and a large one looks smaller, or it would be settled
already. So the lead is the one with which half of the unsettled data sets show less than what was seen (a
median-unbiased estimate, by the parametric bootstrap). Near the critical value this is unstable; the number of rewards
is at most halved by it.

*The standard error.* It is an estimate with few degrees of freedom where a few rewards decide, as for the worst 10 %.
The variance that is expected is then that of the data times df/(df − 2), the mean of its posterior distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, isfinite, sqrt

import numpy as np
from scipy.special import ndtri, stdtrit

from pmbandits._validation import FloatArray
from pmbandits.advice.inference import Evidence
from pmbandits.advice.problem import N_CHOOSING_PARTS
from pmbandits.advice.standard_errors import Margin
from pmbandits.logs import N_PARTS

_POWER = 0.8  # the probability with which the question is settled then
_SMALLEST_GROWTH = 0.1  # of an arm that needs more: fewer rewards would hardly change anything
_LARGEST_FACTOR = 20.0  # times as many rewards: where more would be needed, the number says "or more"
_DRAWS = 1_000  # of the bootstrap, and as many with the opposite sign
_MOST_RIVALS = 16  # arms that are drawn in the bootstrap beside the leading one


def n_more_rewards_needed(
    evidence: Evidence, sizes: Sequence[int], alpha: float, matters: float = 0.0
) -> dict[int, int]:
    """How many more rewards of which arms settle the question with probability 0.8; see the beginning of this module.

    The sizes are those of the arms in rewards. It is empty if nothing is known of the error. For a single arm and one
    that is not yet beaten, the rewards are divided so that their sum is smallest: more of an arm whose rewards vary
    more (Neyman 1934).
    """
    single = not evidence.is_mixture
    times = 2.0 if matters == 0.0 else max(2.0, float(len(evidence.margins)))
    expected = [_with_expected_variance(m) for m in evidence.margins]
    if single:
        shift = _lead_given_unsettled(evidence, expected, alpha / times, matters)
        expected = [
            replace(m, gain=m.gain + shift)
            for m, seen in zip(expected, evidence.margins, strict=True)
            if times * seen.p_value_of_lead_beyond(-matters) > alpha
        ]
    factors = {m.rival: growth_factor(m, alpha / times, matters, split=not single) for m in expected}
    if not factors or not all(isfinite(m.error) for m in expected):
        return {}
    used = [k for k, weight in enumerate(evidence.weights.tolist()) if weight > 0.0]
    growth = dict.fromkeys(used, 1.0)
    for j, factor in factors.items():
        pair = (factor, factor)
        if single:
            mine, theirs = (float(evidence.plain_errors[k]) ** 2 for k in (used[0], j))
            pair = _growth_factors_of_two_arms(mine, theirs, sizes[used[0]], sizes[j], factor)
        growth[j] = max(growth.get(j, 1.0), pair[1])
        for k in used:
            growth[k] = max(growth[k], pair[0])
    least = 1.0 + _SMALLEST_GROWTH
    return {k: round_up_to_two_digits(sizes[k] * (max(g, least) - 1.0)) for k, g in sorted(growth.items()) if g > 1.0}


def is_at_the_limit(more: int, n: int) -> bool:
    """Whether a number of further rewards, beside ``n``, is the largest that is named: it may take still more."""
    return more >= (_LARGEST_FACTOR - 1.0) * n


def _with_expected_variance(margin: Margin) -> Margin:
    """The margin with the variance that further rewards are expected to have, and without the bias of its gain."""
    df = max(margin.df, 4.0)
    added = margin.plain_error**2 * (2.0 / (df - 2.0) if isfinite(df) else 0.0)
    error, plain = (sqrt(old**2 + added) for old in (margin.error, margin.plain_error))
    return replace(margin, gain=margin.gain - margin.bias, bias=0.0, error=error, plain_error=plain)


def _lead_given_unsettled(evidence: Evidence, margins: Sequence[Margin], alpha: float, matters: float) -> float:
    """By how much the lead that is planned for is larger (+) or smaller (−) than the one that was seen."""
    close = sorted(margins, key=lambda m: m.gain)[:_MOST_RIVALS]
    if not close or not all(isfinite(m.error) and m.plain_error > 0.0 for m in close):
        return 0.0
    first, lead = close[0], max(close[0].gain, 0.0)
    arms = [int(np.argmax(evidence.weights)), *(m.rival for m in close)]
    errors = evidence.plain_errors[arms]
    if not np.isfinite(errors).all() or not errors[:2].any():
        errors = np.ones(len(arms))
    errors = errors * (first.plain_error / float(np.hypot(*errors[:2])))
    critical_value = float(stdtrit(first.df, 1.0 - alpha)) * first.error / first.plain_error
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(arms)))
    noise = np.concatenate((draws, -draws)) * errors
    rivals = first.gain - np.array([m.gain for m in close])  # beside the closest of them

    def median_of_seen_leads(true_lead: float) -> float:
        return _median_of_unsettled_leads(np.append(true_lead, rivals) + noise, errors, critical_value, matters)

    low, high = 0.0, sqrt(2.0) * lead + (sqrt(2.0) - 1.0) * matters  # the number is at most halved
    if median_of_seen_leads(high) <= lead:
        return high - first.gain
    if median_of_seen_leads(0.0) >= lead:
        return -first.gain
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if median_of_seen_leads(middle) < lead else (low, middle)
    return high - first.gain


def _median_of_unsettled_leads(
    utilities: FloatArray, errors: FloatArray, critical_value: float, matters: float
) -> float:
    """The median lead of the best arm over the next one, of those draws (rows) in which some arm is not beaten."""
    each, best = np.arange(utilities.shape[0]), utilities.argmax(axis=1)
    leads = utilities[each, best][:, None] - utilities
    leads[each, best] = inf
    unsettled = (leads + matters < critical_value * np.hypot(errors[best][:, None], errors)).any(axis=1)
    return float(np.median(leads.min(axis=1)[unsettled])) if unsettled.any() else inf


def growth_factor(margin: Margin, alpha: float, matters: float, *, split: bool) -> float:
    """By which factor the data must grow to settle one comparison, at most ``_LARGEST_FACTOR``.

    Of the variance, what was added for rewards that nobody saw falls with the square of the number of rewards, and so
    does what kinks of h add to the error. ``split`` says that only a part of the rewards measures.
    """
    critical_value = float(ndtri(1.0 - alpha)) * (sqrt(N_PARTS / (N_PARTS - N_CHOOSING_PARTS)) if split else 1.0)
    power_quantile = float(ndtri(_POWER))
    plain, added = margin.plain_error**2, max(margin.error**2 - margin.plain_error**2, 0.0)

    def settled(f: float) -> bool:
        error = critical_value * sqrt(plain / f + added / f**2) + power_quantile * sqrt(plain / f)
        return margin.gain + matters >= error + margin.slack / f

    low, high = 1.0, _LARGEST_FACTOR
    if not isfinite(plain + added) or not settled(high):
        return high
    while high > 1.02 * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high


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


def round_up_to_two_digits(count: float) -> int:
    """A count rounded up to two significant digits, because it is an estimate."""
    if count < 10:
        return max(ceil(count), 1)
    size = 10 ** (len(str(int(count))) - 2)
    return ceil(count / size) * size
