"""Steps of the change detector on plain arrays; compiled. See :mod:`pmbandits.estimates.change_detector`.

Those who watch many streams (a policy, one for each arm) keep their arrays and call these.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.state.compile import kernel
from pmbandits.state.fields import CHANGE_ROW, DETECTOR_COUNTS, DETECTOR_HEADER, DETECTOR_THRESHOLDS
from pmbandits.state.linking import shared, step

# header: whole numbers of a detector
SEEN, THRESHOLDS, COUNTED, USED, STARTS, ALARM = range(6)
N_FIRST = DETECTOR_THRESHOLDS  # the first rewards give the thresholds, where these are not known
MAX_THRESHOLDS = 16
# After the thresholds, values keep the smallest and the largest rank that each has among the first rewards.
SMALLEST, LARGEST = MAX_THRESHOLDS, 2 * MAX_THRESHOLDS
EARLY_LEVEL_SHARE = 0.1  # the share of the level for comparing the first rewards with all that come after them
_ODDS_FACTORS = (4.0, 64.0)  # times the odds: how much more often rewards lie beyond a threshold, if they changed early
_CELLS = 2 * MAX_THRESHOLDS + 1  # below the first threshold, at it, between it and the next, …
ROW = _CELLS + 1  # counts in each cell, and the number of the start
_MOST_ROWS = DETECTOR_COUNTS // ROW
LOOK_EVERY = 8  # a start, and a look, comes after every so many rewards
_THINNING_GAP = 0.25  # a start is dropped if the two beside it are no further apart than this share of their age
# The order statistics of the first rewards that are the thresholds: near both ends they lie closer.
_RANKS = (0, 1, 3, 7, 12, 18, 25, 31, 38, 45, 51, 56, 60, 62, 63)
ABOVE, FROM, OUTSIDE = range(3)  # of which set the share has changed: {X > v}, {X ≥ v}, or outside of an interval
# what is kept of a change, after arm and round
BEFORE, AFTER, EVIDENCE, KIND, LOW, HIGH, SHARE, NOW = range(2, CHANGE_ROW)
assert _MOST_ROWS * ROW == DETECTOR_COUNTS and len(_RANKS) <= MAX_THRESHOLDS and STARTS < DETECTOR_HEADER


@kernel
def init_change_detector(header: IntArray, values: FloatArray, rows: IntArray, known: FloatArray, count: int) -> None:
    """Watch from now on: with thresholds that are known, or, with a ``count`` of 0, those of the first rewards."""
    for j in range(header.size):
        header[j] = 0
    for j in range(values.size):
        values[j] = known[j] if j < count else 0.0
    for j in range(_CELLS):
        rows[j] = 0
    header[THRESHOLDS] = count


@step("ints, floats -> none")
def set_detector_thresholds(header: IntArray, values: FloatArray) -> None:
    """Make the first rewards into thresholds; they are sorted, and of equal ones one is taken."""
    for i in range(1, N_FIRST):
        x, at = values[i], i
        while at > 0 and values[at - 1] > x:
            values[at] = values[at - 1]
            at -= 1
        values[at] = x
    ranks = np.zeros(3 * MAX_THRESHOLDS)
    used = 0
    for rank in _RANKS:
        if used == 0 or values[rank] > ranks[used - 1]:
            low = high = rank
            while low > 0 and values[low - 1] == values[rank]:
                low -= 1
            while high < N_FIRST - 1 and values[high + 1] == values[rank]:
                high += 1
            ranks[used], ranks[SMALLEST + used], ranks[LARGEST + used] = values[rank], low + 1.0, high + 1.0
            used += 1
    for j in range(ranks.size):
        values[j] = ranks[j]
    header[THRESHOLDS] = used


@step("floats, int, float -> int")
def threshold_cell_of(values: FloatArray, count: int, x: float) -> int:
    """The cell of a reward: 2j + 1 at threshold j, 2j below it."""
    lo, hi = 0, count
    while lo < hi:
        middle = (lo + hi) // 2
        if values[middle] < x:
            lo = middle + 1
        else:
            hi = middle
    return 2 * lo + 1 if lo < count and values[lo] == x else 2 * lo


@step("int, int, int, int, float -> float")
def change_evidence_above_bar(k: int, n: int, more: int, other: int, bar: float) -> float:
    """The evidence that two shares differ, k of n and ``more`` of ``other``, minus ``bar`` (−1 if below the bar).

    n·kl(k/n, p) + m·kl(more/m, p), m others, with p the share of all. The χ² of the same table is larger, and cheap.
    """
    both, total = k + more, n + other
    if both == 0 or both == total:
        return -1.0
    cross_difference, cross = float(k) * other - float(more) * n, float(n) * other
    if cross_difference * cross_difference * total < bar * cross * (float(both) * (total - both)):
        return -1.0
    p = both / total
    ratio = 0.0
    if k > 0:
        ratio += k * math.log(k / (n * p))
    if k < n:
        ratio += (n - k) * math.log((n - k) / (n * (1.0 - p)))
    if more > 0:
        ratio += more * math.log(more / (other * p))
    if more < other:
        ratio += (other - more) * math.log((other - more) / (other * (1.0 - p)))
    return ratio - bar


@step("int -> float")
def change_point_log_weight(j: int) -> float:
    """−ln of the weight of the start number j = 1, 2, …: 1/((u + 1)(u + 2)2^u) for j from 2^u on. They add up to 1."""
    u = int(math.log2(j))
    return math.log((u + 1.0) * (u + 2.0)) + u * math.log(2.0)


@step("float, float, int, int -> float")
def log_evidence_of_early_change(a: float, b: float, k: int, n: int) -> float:
    """The logarithm of the evidence that more rewards lie beyond a threshold than its rank allows: k of n do.

    By the rank alone, k of n has the probability of Pólya's urn with a and b. With a change it is that of an urn in
    which a is larger.
    """
    if k * (a + b) <= n * a:
        return -1.0
    best = -1.0
    for times in _ODDS_FACTORS:
        more = times * a
        urn = math.lgamma(more + k) - math.lgamma(a + k) - math.lgamma(more) + math.lgamma(a)
        urn += math.lgamma(more + b) - math.lgamma(a + b) - math.lgamma(more + b + n) + math.lgamma(a + b + n)
        best = max(best, urn)
    return best - math.log(2.0)


@shared("ints, floats, ints, float, floats -> bool")
def detect_early_change(
    header: IntArray, values: FloatArray, rows: IntArray, log_inverse_level: float, found: FloatArray
) -> bool:
    """Whether the distribution changed among the first rewards, which gave the thresholds, or soon after them."""
    n, m, best, below = header[COUNTED], header[THRESHOLDS], -1.0, 0
    age, wait = n // LOOK_EVERY, 1
    while 16 * wait <= age:  # eight looks while the number of rewards doubles
        wait *= 2
    if header[SEEN] != n + N_FIRST or age % wait != 0:
        return False
    log_penalty = math.log(2.0 * N_FIRST) - math.log(EARLY_LEVEL_SHARE)
    for i in range(m):
        smallest, largest = values[SMALLEST + i], values[LARGEST + i]
        if not 1.0 <= smallest <= largest <= N_FIRST:
            continue
        below += rows[2 * i]
        above = n - below - rows[2 * i + 1]
        value = log_evidence_of_early_change(smallest, N_FIRST + 1.0 - smallest, below, n) - log_penalty
        if value >= log_inverse_level and value > best:
            best = value
            found[KIND], found[SHARE], found[NOW] = FROM, 1.0 - (smallest - 1.0) / N_FIRST, (n - below) / n
            found[LOW], found[HIGH] = values[i], values[i]
        value = log_evidence_of_early_change(N_FIRST + 1.0 - largest, largest, above, n) - log_penalty
        if value >= log_inverse_level and value > best:
            best = value
            found[KIND], found[SHARE], found[NOW] = ABOVE, 1.0 - largest / N_FIRST, above / n
            found[LOW], found[HIGH] = values[i], values[i]
        below += rows[2 * i + 1]
    if best < 0.0:
        return False
    found[BEFORE], found[AFTER], found[EVIDENCE] = N_FIRST, n, best
    return True


@shared("ints, floats, ints, float, floats -> bool")
def detect_change(
    header: IntArray, values: FloatArray, rows: IntArray, log_inverse_level: float, found: FloatArray
) -> bool:
    """Whether the distribution has changed at one of the kept moments; writes the change into ``found``."""
    m, best = header[THRESHOLDS], -1.0
    last = 2 * m  # the uppermost cell
    for r in range(1, header[USED] + 1):
        row = rows[r * ROW : (r + 1) * ROW]
        j = row[_CELLS]
        n = LOOK_EVERY * j
        other = header[COUNTED] - n
        age = header[STARTS] + 1 - j
        wait = 1
        while 16 * wait <= age:  # eight looks while the age doubles
            wait *= 2
        if age % wait != 0:
            continue
        log_penalty = change_point_log_weight(j) - math.log(1.0 - EARLY_LEVEL_SHARE) + math.log(3.0 * m)
        log_penalty += 0.5 * math.log(float(n) * float(other)) + math.log(4.0)
        k, more = 0, 0
        for c in range(last, 0, -1):
            k, more = k + row[c], more + rows[c] - row[c]
            value = change_evidence_above_bar(k, n, more, other, log_inverse_level + log_penalty)
            if value >= 0.0 and value > best:
                best = value
                found[KIND], found[LOW] = (ABOVE, values[c // 2 - 1]) if c % 2 == 0 else (FROM, values[c // 2])
                found[HIGH] = found[LOW]
                found[BEFORE], found[AFTER], found[SHARE], found[NOW] = n, other, k / n, more / other
                found[EVIDENCE] = value + log_inverse_level
        k, more = 0, 0
        for c in range(m):
            k, more = k + row[c] + row[last - c], more + rows[c] - row[c] + rows[last - c] - row[last - c]
            value = change_evidence_above_bar(k, n, more, other, log_inverse_level + log_penalty)
            if value >= 0.0 and value > best:
                best = value
                found[KIND], found[LOW], found[HIGH] = OUTSIDE, values[c // 2], values[m - 1 - c // 2]
                found[BEFORE], found[AFTER], found[SHARE], found[NOW] = n, other, k / n, more / other
                found[EVIDENCE] = value + log_inverse_level
    return best >= 0.0


@shared("ints, ints -> none")
def thin_change_points(header: IntArray, rows: IntArray) -> None:
    """Drop starts where they lie close together for their age."""
    used, newest = header[USED], header[STARTS]
    kept, newer = 1, rows[used * ROW + _CELLS]
    for r in range(used - 1, 0, -1):  # those that go are marked by a sign
        j = rows[r * ROW + _CELLS]
        older = rows[(r - 1) * ROW + _CELLS] if r > 1 else 0
        if newer - older <= _THINNING_GAP * (newest - newer) or kept == _MOST_ROWS - 2:
            rows[r * ROW + _CELLS] = -j
        else:
            kept, newer = kept + 1, j
    at = 1
    for r in range(1, used + 1):
        if rows[r * ROW + _CELLS] > 0:
            for c in range(ROW):
                rows[at * ROW + c] = rows[r * ROW + c]
            at += 1
    for r in range(at, used + 1):
        rows[r * ROW + _CELLS] = 0
    header[USED] = at - 1


@shared("ints, floats, ints, float, float, floats -> bool")
def update_change_detector(
    header: IntArray, values: FloatArray, rows: IntArray, log_inverse_level: float, x: float, found: FloatArray
) -> bool:
    """Take one reward in; returns whether a change is found. ``log_inverse_level`` is ln(1/level)."""
    header[SEEN] += 1
    if header[THRESHOLDS] == 0:
        values[header[SEEN] - 1] = x
        if header[SEEN] == N_FIRST:
            set_detector_thresholds(header, values)
        return False
    rows[threshold_cell_of(values, header[THRESHOLDS], x)] += 1
    header[COUNTED] += 1
    if header[COUNTED] % LOOK_EVERY != 0:
        return False
    if detect_change(header, values, rows, log_inverse_level, found) or detect_early_change(
        header, values, rows, log_inverse_level, found
    ):
        header[ALARM] = 1
        return True
    if header[USED] == _MOST_ROWS - 1 or header[STARTS] % 32 == 0:
        thin_change_points(header, rows)
    header[STARTS] += 1
    header[USED] += 1
    at = header[USED] * ROW
    for c in range(_CELLS):
        rows[at + c] = rows[c]
    rows[at + _CELLS] = header[STARTS]
    return False


@kernel
def detector_update_until_alarm(
    header: IntArray,
    values: FloatArray,
    rows: IntArray,
    log_inverse_level: float,
    x: FloatArray,
    start: int,
    found: FloatArray,
) -> int:
    """Take rewards in from ``start`` on, up to the first alarm; returns how many were taken in by then."""
    for j in range(start, x.size):
        if update_change_detector(header, values, rows, log_inverse_level, x[j], found):
            return j + 1
    return x.size
