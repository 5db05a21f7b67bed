"""One joint set for the chances of all arms that pay 0 or 1, and what a mixture can lose inside it; compiled.

For one arm with chance p, k ones and z zeros (n = k + z), each of these is a martingale that starts at 1 (see
``docs/bands.md``):

- the mixture of coins with the weight Beta(νp, ν(1 − p)) for their chances, for any ν > 0, which is
  Π_{s<k}(1 + s/(νp))·Π_{s<z}(1 + s/(ν(1 − p)))/Π_{s<n}(1 + s/ν);
- the number 1.

So is their weighted sum M, and so is the product of all arms' M, because a reward belongs to one arm. With probability
1 − δ the product stays below 1/δ: Σ ln M_i(p_i) < ln 1/δ. Each ln M_i is convex, so this set of chances is convex. An
arm about which nobody asks has M ≥ the weight of the number 1, and this is what it costs the others at most.

ln M is replaced by its tangents at ``TANGENTS`` places, which makes the set larger by next to nothing. In the set, the
least and the largest mean of a mixture are found by taking pieces of these functions in the order of what they cost.
The rival of a mixture has some survival s. It needs an arm with a chance of at least s, and one with at most s. So the
largest regret is looked for over s, in cells: in a cell, h(s) is at most its maximum there, and the mixture's own
utility is at least the least that h has over its means. Cells are halved until the bound is within 1 % of a regret that
is possible.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.metrics.encoding import h_max, h_min
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step

TANGENTS = 48
CELLS = 256  # of the survival of a rival, at most
MAX_MEMBERS = 6  # arms of a mixture up to which the rival and the mixture are bounded together
SLACK = 1e-6  # for rounding in ln M
SIZES = (4.0, 32.0, 256.0, 4096.0)  # ν: an arm with n rewards does best with about n/4
SIZE_WEIGHTS = (0.4, 0.38, 0.16, 0.06)  # of what the number 1 leaves
VALUE, SLOPE = 0, 1
BLOCK = 64  # arms, of which the one that is cheapest to move is remembered


@step("float -> float")
def digamma(x: float) -> float:
    """The derivative of ln Γ, for x > 0."""
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))


@step("int -> float")
def martingale_weight_of_one(arms: int) -> float:
    """The weight of the number 1 in each arm's martingale: for two or three arms that are unlike their rewards."""
    return max(0.1, 1.0 - 2.4 / arms) if arms > 1 else 0.0


@shared("float, int, int, float, floats -> none")
def fill_log_martingale_and_slope(p: float, ones: int, zeros: int, weight_of_one: float, out: FloatArray) -> None:
    """ln M at the chance p, and its slope, into ``out``."""
    base, base_slope = 0.0, 0.0
    if ones > 0:
        base -= ones * math.log(p)
        base_slope -= ones / p
    if zeros > 0:
        base -= zeros * math.log1p(-p)
        base_slope += zeros / (1.0 - p)
    n, others = ones + zeros, 1.0 - weight_of_one
    values, slopes = np.empty(len(SIZES) + 1), np.zeros(len(SIZES) + 1)
    values[0] = math.log(weight_of_one) if weight_of_one > 0.0 else -np.inf
    for j in range(len(SIZES)):
        size = SIZES[j]
        value = math.log(others * SIZE_WEIGHTS[j]) + base + math.lgamma(size) - math.lgamma(n + size)
        slope, x, y = base_slope, size * p, size * (1.0 - p)
        if ones > 0:
            value += math.lgamma(ones + x) - math.lgamma(x)
            slope += size * (digamma(ones + x) - digamma(x))
        if zeros > 0:
            value += math.lgamma(zeros + y) - math.lgamma(y)
            slope -= size * (digamma(zeros + y) - digamma(y))
        values[1 + j], slopes[1 + j] = value, slope
    top = values.max()
    total, tilt = 0.0, 0.0
    for j in range(values.size):
        share = math.exp(values[j] - top)
        total += share
        tilt += share * slopes[j]
    out[VALUE], out[SLOPE] = top + math.log(total), tilt / total


@shared("int, int, float, float, float, float -> float")
def last_chance_within_budget(
    ones: int, zeros: int, weight_of_one: float, budget: float, inside: float, end: float
) -> float:
    """A little beyond the last chance, from ``inside`` towards ``end``, where ln M is at most the budget."""
    out, near, far = np.empty(2), math.asin(math.sqrt(inside)), math.asin(math.sqrt(end))
    for _ in range(44):
        middle = 0.5 * (near + far)
        fill_log_martingale_and_slope(math.sin(middle) ** 2, ones, zeros, weight_of_one, out)
        if out[VALUE] <= budget:
            near = middle
        else:
            far = middle
    return math.sin(far) ** 2


@shared("int, int, float, float, floats, floats -> none")
def fill_log_martingale_tangents(
    ones: int, zeros: int, weight_of_one: float, budget: float, chances: FloatArray, costs: FloatArray
) -> None:
    """The corners of the largest of ln M's tangents, where ln M is at most the budget, and the values there."""
    inside = (ones + 0.5) / (ones + zeros + 1.0)
    least = last_chance_within_budget(ones, zeros, weight_of_one, budget, inside, 0.0) if ones > 0 else 0.0
    most = last_chance_within_budget(ones, zeros, weight_of_one, budget, inside, 1.0) if zeros > 0 else 1.0
    first, last = math.asin(math.sqrt(least)), math.asin(math.sqrt(most))
    out, before, value, slope = np.empty(2), least, 0.0, 0.0
    for t in range(TANGENTS):
        p = math.sin(first + (last - first) * (t + 0.5) / TANGENTS) ** 2
        fill_log_martingale_and_slope(p, ones, zeros, weight_of_one, out)
        here = out[VALUE] - SLACK
        if t == 0:
            chances[0], costs[0] = least, here + out[SLOPE] * (least - p)
        else:
            steeper = out[SLOPE] - slope
            x = (value - here + out[SLOPE] * p - slope * before) / steeper if steeper > 0.0 else 0.5 * (before + p)
            x = min(max(x, before), p)
            chances[t] = x
            costs[t] = max(value + slope * (x - before), here + out[SLOPE] * (x - p))
        before, value, slope = p, here, out[SLOPE]
    chances[TANGENTS], costs[TANGENTS] = most, value + slope * (most - before)


@step("floats, floats, float -> float")
def tangent_cost_at(chances: FloatArray, costs: FloatArray, p: float) -> float:
    """The value of the tangents at a chance between their ends."""
    j = min(max(int(np.searchsorted(chances, p)), 1), chances.size - 1)
    span = chances[j] - chances[j - 1]
    return costs[j - 1] + (costs[j] - costs[j - 1]) * (p - chances[j - 1]) / span if span > 0.0 else costs[j]


@step("floats, floats, table, table, ints, float, floats -> float")
def budget_left_at_likeliest(
    floor: FloatArray,
    top: FloatArray,
    chances: FloatArray,
    costs: FloatArray,
    likeliest: IntArray,
    budget: float,
    p: FloatArray,
) -> float:
    """The budget that is left when all arms have their likeliest chance within their limits, p; nan if none is."""
    for i in range(p.size):
        p[i] = min(max(chances[i, likeliest[i]], floor[i]), top[i])
        if p[i] < chances[i, 0] or p[i] > chances[i, TANGENTS]:
            return np.nan
        budget -= tangent_cost_at(chances[i], costs[i], p[i])
    return budget if budget >= 0.0 else np.nan


@shared("floats, floats, floats, table, table, float, float, floats, ints, table -> float")
def mean_after_spending(
    a: FloatArray,
    floor: FloatArray,
    top: FloatArray,
    chances: FloatArray,
    costs: FloatArray,
    left: float,
    sign: float,
    p: FloatArray,
    place: IntArray,
    scratch: FloatArray,
) -> float:
    """The largest (sign 1) or least (−1) mean of the mixture a that the budget ``left`` pays for, from chances p on.

    ``p`` becomes the chances where it is reached. Pieces are taken in the order of what they cost. ``place`` and the
    four rows of ``scratch`` are overwritten.
    """
    k, last = a.size, TANGENTS
    rates, slopes, ends, least_rates = scratch[0], scratch[1], scratch[2], scratch[3]  # the last one of blocks of arms
    blocks = (k - 1) // BLOCK + 1
    for i in range(k):
        place[i] = np.searchsorted(chances[i], p[i]) - (1 if sign < 0.0 else 0)
    first, until = 0, k  # the next pieces of all arms are priced first, later that of the arm that moved
    while True:
        for i in range(first, until):
            while 0 <= place[i] <= last and chances[i, place[i]] == p[i]:  # to the first corner beyond p
                place[i] += 1 if sign > 0.0 else -1
            rates[i], j = np.inf, place[i]
            if a[i] == 0.0 or j < 0 or j > last:
                continue
            ends[i] = min(chances[i, j], top[i]) if sign > 0.0 else max(chances[i, j], floor[i])
            if sign * (ends[i] - p[i]) > 0.0:
                inner = j - 1 if sign > 0.0 else j + 1
                slopes[i] = max((costs[i, j] - costs[i, inner]) / abs(chances[i, j] - chances[i, inner]), 0.0)
                rates[i] = slopes[i] / a[i]
        for block in range(first // BLOCK, (until - 1) // BLOCK + 1):
            least_rates[block] = rates[BLOCK * block]
            for i in range(BLOCK * block + 1, min(BLOCK * (block + 1), k)):
                least_rates[block] = min(least_rates[block], rates[i])
        block = 0
        for other in range(1, blocks):
            if least_rates[other] < least_rates[block]:
                block = other
        if least_rates[block] == np.inf:
            break
        arm = BLOCK * block
        while rates[arm] > least_rates[block]:
            arm += 1
        first, until = arm, arm + 1
        cost = slopes[arm] * abs(ends[arm] - p[arm])
        if cost > left:
            p[arm] += sign * left / slopes[arm]
            break
        left -= cost
        p[arm] = ends[arm]
    mean = 0.0
    for i in range(k):
        mean += a[i] * p[i]
    return mean


@shared("floats, floats, table, table, ints, float, float, float, float, floats -> float")
def largest_lead_over_mixture(
    h: FloatArray,
    a: FloatArray,
    chances: FloatArray,
    costs: FloatArray,
    likeliest: IntArray,
    budget: float,
    low: float,
    high: float,
    enough: float,
    worst: FloatArray,
) -> float:
    """Upper bound on how far a mixture with a mean between ``low`` and ``high`` can be ahead of the mixture a.

    One arm needs a chance of at least ``low``, and one a chance of at most ``high``. Of the arms outside of a, only the
    cheapest matters for each. ``worst`` gets the chances where the bound is reached. Below ``enough`` it is −∞.
    """
    k, last = a.size, TANGENTS
    most = h_max(h, low, high)
    cheapest_up, cheapest_down, up, down = -1, -1, np.inf, np.inf
    for i in range(k):
        if a[i] > 0.0:
            continue
        best = chances[i, likeliest[i]]
        if low <= chances[i, last]:
            cost = tangent_cost_at(chances[i], costs[i], max(best, low)) - costs[i, likeliest[i]]
            if cost < up:
                cheapest_up, up = i, cost
        if high >= chances[i, 0]:
            cost = tangent_cost_at(chances[i], costs[i], min(best, high)) - costs[i, likeliest[i]]
            if cost < down:
                cheapest_down, down = i, cost
    some, n = np.empty(k, np.int64), 0
    for i in range(k):  # all other arms have their likeliest chances
        if a[i] > 0.0 or i in (cheapest_up, cheapest_down):
            some[n] = i
            n += 1
        else:
            worst[i] = chances[i, likeliest[i]]
            budget -= tangent_cost_at(chances[i], costs[i], worst[i])
    share, corners, prices, best_corner = a, chances, costs, likeliest
    if n < k:
        some = some[:n]
        share, corners, prices, best_corner = a[some], chances[some], costs[some], likeliest[some]
    floor, top, p, scratch, found = np.zeros(n), np.ones(n), np.empty(n), np.empty((4, n)), -np.inf
    place = np.empty(n, np.int64)
    for i in range(n):
        if share[i] == 0.0 and some[i] != cheapest_up:
            continue
        floor[i] = low
        for j in range(n):
            if (share[j] == 0.0 and some[j] != cheapest_down) or (i == j and share[i] > 0.0):
                continue
            top[j] = high
            for sign in (-1.0, 1.0):
                left = budget_left_at_likeliest(floor, top, corners, prices, best_corner, budget, p)
                if math.isnan(left):
                    break
                mean = mean_after_spending(share, floor, top, corners, prices, left, sign, p, place, scratch)
                if sign < 0.0:
                    least = mean
                    lead = most - h_min(h, mean, mean)
                else:
                    lead = most - h_min(h, least, max(mean, least))
                if lead > max(found, enough):
                    found = lead
                    for arm in range(n):
                        worst[some[arm]] = p[arm]
            top[j] = 1.0
        floor[i] = 0.0
    return found


@kernel
def fill_tangents_of_all_arms(
    ones: IntArray, n_rewards: IntArray, weight_of_one: float, budget: float, chances: FloatArray, costs: FloatArray
) -> None:
    """The tangents of all arms: the chances at their corners, and what they cost there."""
    for i in range(ones.size):
        fill_log_martingale_tangents(ones[i], n_rewards[i] - ones[i], weight_of_one, budget, chances[i], costs[i])


@kernel
def joint_bernoulli_bounds(
    h: FloatArray, a: FloatArray, chances: FloatArray, costs: FloatArray, budget: float, worst: FloatArray
) -> tuple[float, float, float, float]:
    """Least and largest utility of the mixture a in the joint set, the largest of any mixture, and a's largest regret.

    ``worst`` gets chances in the set for which the regret is about that large.
    """
    k, members = a.size, 0
    likeliest, floor, top, p = np.empty(k, np.int64), np.zeros(k), np.ones(k), np.empty(k)
    for i in range(k):
        likeliest[i] = np.argmin(costs[i])
        members += a[i] > 0.0
    spare = budget_left_at_likeliest(floor, top, chances, costs, likeliest, budget, p)
    low, high, one, alone, scratch = 1.0, 0.0, np.ones(1), np.empty(1), np.empty((4, k))
    place = np.empty(k, np.int64)
    for i in range(k):
        here = slice(i, i + 1)
        for sign in (-1.0, 1.0):
            alone[0] = p[i]
            end = mean_after_spending(
                one, floor[here], top[here], chances[here], costs[here], spare, sign, alone, place, scratch
            )
            low, high = min(low, end), max(high, end)
    worst[:] = p
    least = mean_after_spending(a, floor, top, chances, costs, spare, -1.0, worst, place, scratch)
    largest = max(mean_after_spending(a, floor, top, chances, costs, spare, 1.0, p, place, scratch), least)
    lower, upper = h_min(h, least, largest), h_max(h, least, largest)
    rival = max(h_max(h, low, high), upper)
    if members > MAX_MEMBERS:
        return lower, upper, rival, rival - lower
    left, right, bound = np.empty(CELLS), np.empty(CELLS), np.empty(CELLS)
    left[0], right[0], bound[0], used, found = low, high, rival - lower, 1, 0.0
    while True:
        c = np.argmax(bound[:used])
        if bound[c] <= 1.01 * found + 1e-12 or used == CELLS:
            return lower, upper, rival, min(max(bound[c], found), rival - lower)
        middle = 0.5 * (left[c] + right[c])
        if h_max(h, middle, middle) - lower > found:
            lead = largest_lead_over_mixture(h, a, chances, costs, likeliest, budget, middle, middle, found, p)
            if lead > found:
                found = lead
                for i in range(k):
                    worst[i] = p[i]
        left[used], right[used], right[c] = middle, right[c], middle
        for cell in (c, used):
            bound[cell] = h_max(h, left[cell], right[cell]) - lower
            if bound[cell] > found:
                lead = largest_lead_over_mixture(
                    h, a, chances, costs, likeliest, budget, left[cell], right[cell], found, p
                )
                bound[cell] = max(lead, 0.0)
        used += 1
