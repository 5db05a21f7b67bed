"""Functionals of weighted laws, for all arms at once: what the published risk-sensitive algorithms share; compiled.

Each is one pass over the counts, or over the pool of sorted rewards with their owners. The atoms of the arms' laws
carry weights that need not add up to 1: ones (the empirical law), or draws from a posterior (Dirichlet weights are
independent gamma variates by their sum). ``anchor`` holds each arm's weights at the upper and the lower end of the
support, ``total`` the sum of all its weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits._random import POSTERIOR, inner, log_gamma_variate, philox
from pmbandits.confidence._ends import cell_ends, lay_belts
from pmbandits.estimates._rewards import SAMPLES, tidy
from pmbandits.metrics.packed import h_max, h_value, is_one_family, n_extrema, one_family_value
from pmbandits.mixtures._sampling import play_alone
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared, step
from pmbandits.state.views import state, unpack

unpack_tail: Any = state(tail=float, scale=float)  # α of a lower-tail CVaR, and the factor of a bonus


@step("state -> floats")
def scratch(s):
    """Room for the weights: one for each reward in the pool, or for each arm and atom."""
    return s.curve if s.mode == SAMPLES else np.empty(s.n_arms * s.n_atoms)


@shared("state, floats, table, floats -> none")
def count_rewards(s, weight, anchor, total):
    """The empirical law: every reward alike."""
    k, m = s.n_arms, s.n_atoms
    for i in range(k):
        anchor[i, 0], anchor[i, 1] = 0.0, 0.0
        total[i] = s.told[i]
    if s.mode == SAMPLES:
        for j in range(s.rewards):
            weight[j] = 1.0
        return
    for i in range(k):
        for a in range(m):
            weight[i * m + a] = s.counts[i, a]


@step("state -> two words")
def next_key(s):
    """The key of this round's draws; no other round has it."""
    s.stream += 1
    return np.uint64(s.seed), np.uint64(s.stream)


@shared("state, float, float, float, floats, table, floats -> none")
def draw_atoms(s, prior, top, bottom, weight, anchor, total):
    """Dirichlet weights on the atoms: parameters are counts plus ``prior``, and more at the upper and lower end."""
    k, m = s.n_arms, s.n_atoms
    key = next_key(s)
    for i in range(k):
        anchor[i, 0], anchor[i, 1], total[i] = 0.0, 0.0, 0.0
        for a in range(m):
            shape = s.counts[i, a] + prior
            if a == m - 1:
                shape += top
            if a == 0:
                shape += bottom
            g = 0.0
            if shape > 0.0:
                g = math.exp(log_gamma_variate(key, a, i, shape, POSTERIOR))
            weight[i * m + a] = g
            total[i] += g


@shared("state, bool, floats, table, floats -> none")
def draw_rewards(s, both, weight, anchor, total):
    """Dirichlet(1, …, 1) weights on all rewards and the upper end of the support (or both): exponential variates.

    The weight of an arm's reward depends on its rank among that arm's, not on when it came. On a finite support equal
    rewards share one gamma variate: the same law for O(atoms) a round instead of O(rewards).
    """
    tidy(s)
    if s.mode != SAMPLES:
        draw_atoms(s, 0.0, 1.0, 1.0 if both else 0.0, weight, anchor, total)
        return
    k = s.n_arms
    k0, k1 = next_key(s)
    words, rank = np.empty((k, 4), dtype=np.uint64), np.full(k, 2, dtype=np.int64)  # ranks 0 and 1 are the ends
    zero, purpose = np.uint64(0), np.uint64(POSTERIOR)
    for i in range(k):
        w0, w1, w2, w3 = philox(k0, k1, zero, np.uint64(i), zero, purpose)
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = w0, w1, w2, w3
        anchor[i, 0] = -math.log(inner(w0))
        anchor[i, 1] = -math.log(inner(w1)) if both else 0.0
        total[i] = anchor[i, 0] + anchor[i, 1]
    owner = s.owner
    for j in range(s.rewards):
        i = owner[j]
        r = rank[i]
        if r & 3 == 0:
            w0, w1, w2, w3 = philox(k0, k1, np.uint64(r >> 2), np.uint64(i), zero, purpose)
            words[i, 0], words[i, 1], words[i, 2], words[i, 3] = w0, w1, w2, w3
        e = -math.log(inner(words[i, r & 3]))
        weight[j] = e
        total[i] += e
        rank[i] = r + 1


@step("floats, bool, float -> float")
def height(h, alone, u):
    """h(u); a family by itself (``alone``, the common case) without the walk over a combination's terms."""
    if alone:
        return one_family_value(h, u)
    return h_value(h, u)


@shared("state, floats, table, floats, floats -> none")
def distorted(s, weight, anchor, total, out):
    """U_h of every arm, into ``out``: x₁·h(1) + Σ (x_k − x_{k−1})·h(S_k)."""
    tidy(s)
    k, m, h, samples = s.n_arms, s.n_atoms, s.h, s.mode == SAMPLES
    before, below = np.empty(k), np.zeros(k)
    top, one, alone = s.high, h_value(h, 1.0), is_one_family(h)
    for i in range(k):
        out[i] = 0.0
        if anchor[i, 1] > 0.0:
            out[i], before[i], below[i] = s.low * one, s.low, anchor[i, 1]
    if samples:
        for j in range(s.rewards):
            i, x = s.owner[j], s.x[j]
            if below[i] == 0.0:
                out[i] = x * one
            elif x > before[i]:
                out[i] += (x - before[i]) * height(h, alone, 1.0 - below[i] / total[i])
            before[i] = x
            below[i] += weight[j]
    else:
        for i in range(k):
            for a in range(m):
                w, x = weight[i * m + a], s.points[a]
                if w > 0.0:
                    if below[i] == 0.0:
                        out[i] = x * one
                    else:
                        out[i] += (x - before[i]) * height(h, alone, 1.0 - below[i] / total[i])
                    before[i] = x
                    below[i] += w
    for i in range(k):
        if anchor[i, 0] > 0.0:
            if below[i] == 0.0:
                out[i] = top * one
            elif top > before[i]:
                out[i] += (top - before[i]) * height(h, alone, anchor[i, 0] / total[i])


@shared("state, float, floats, floats, floats -> none")
def lower_cvar(s, alpha, weight, total, out):
    """The mean of every arm's worst α share, into ``out``: take atoms from below until α of the weight is taken.

    What is not taken then lies at the upper end. The same as q − (1/α)·Σ w(q − x)⁺, q the first atom whose cumulative
    weight reaches α.
    """
    tidy(s)
    k, m = s.n_arms, s.n_atoms
    wanted = np.empty(k)
    for i in range(k):
        out[i] = 0.0
        wanted[i] = alpha * total[i]
    if s.mode == SAMPLES:
        for j in range(s.rewards):
            i = s.owner[j]
            if wanted[i] > 0.0:
                take = min(weight[j], wanted[i])
                out[i] += take * s.x[j]
                wanted[i] -= take
    else:
        for i in range(k):
            for a in range(m):
                take = min(weight[i * m + a], wanted[i])
                out[i] += take * s.points[a]
                wanted[i] -= take
    for i in range(k):
        if wanted[i] > 0.0:
            out[i] += wanted[i] * s.high
        out[i] = out[i] / (alpha * total[i]) if total[i] > 0.0 else s.high


@shared("state, float, floats, floats -> none")
def shifted_cvar(s, alpha, shift, out):
    """The largest lower-tail CVaR of a law whose CDF is within ``shift`` of the arm's, into ``out``.

    B − (1/α)·Σ (x_(i+1) − x_(i))·clip(i/n − shift, 0, α), with B after the last reward.
    """
    tidy(s)
    k, m, top = s.n_arms, s.n_atoms, s.high
    before, count = np.empty(k), np.zeros(k)
    for i in range(k):
        out[i] = 0.0
    if s.mode == SAMPLES:
        for j in range(s.rewards):
            i, x = s.owner[j], s.x[j]
            if count[i] > 0.0:
                out[i] += (x - before[i]) * min(max(count[i] / s.told[i] - shift[i], 0.0), alpha)
            before[i] = x
            count[i] += 1.0
    else:
        for i in range(k):
            for a in range(m):
                if s.counts[i, a] > 0:
                    x = s.points[a]
                    if count[i] > 0.0:
                        out[i] += (x - before[i]) * min(max(count[i] / s.told[i] - shift[i], 0.0), alpha)
                    before[i] = x
                    count[i] += s.counts[i, a]
    for i in range(k):
        if count[i] > 0.0:
            out[i] += (top - before[i]) * min(max(1.0 - shift[i], 0.0), alpha)
        out[i] = top - out[i] / alpha


@shared("state, floats -> none")
def banded(s, out):
    """The largest U_h of a law that is in the arm's band or belt, into ``out``."""
    tidy(s)
    k, m, h, kind = s.n_arms, s.n_atoms, s.h, s.set_kind
    told, radius, blurs, belt = s.told, s.radius, lay_belts(s), s.belt
    before, left = np.full(k, s.low), told.copy()
    start, alone = s.low * h_value(h, 1.0), is_one_family(h)
    rises = n_extrema(h) == 0 and h_value(h, 1.0) >= h_value(h, 0.0)  # no extremum inside: the largest is at the end
    for i in range(k):
        out[i] = start
    if s.mode == SAMPLES:
        for j in range(s.rewards):
            i, x = s.owner[j], s.x[j]
            if x > before[i]:
                lower, upper = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
                out[i] += (x - before[i]) * (height(h, alone, upper) if rises else h_max(h, lower, upper))
                before[i] = x
            left[i] -= 1
    else:
        for i in range(k):
            for a in range(m):
                if s.counts[i, a] > 0:
                    x = s.points[a]
                    lower, upper = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
                    out[i] += (x - before[i]) * (height(h, alone, upper) if rises else h_max(h, lower, upper))
                    before[i] = x
                    left[i] -= s.counts[i, a]
    for i in range(k):
        lower, upper = cell_ends(kind, 0, told[i], radius[i], blurs[i], belt, i)
        out[i] += (s.high - before[i]) * h_max(h, lower, upper)


@shared("state, float, floats -> none")
def mean_variance(s, rho, out):
    """Variance − ρ·mean of every arm's rewards (of those it has), into ``out``."""
    tidy(s)
    k, m = s.n_arms, s.n_atoms
    mean = np.zeros(k)
    for i in range(k):
        out[i] = 0.0
        if s.told[i] > 0:
            mean[i] = s.sums[i] / s.told[i]
    if s.mode == SAMPLES:
        for j in range(s.rewards):
            i = s.owner[j]
            out[i] += (s.x[j] - mean[i]) ** 2
    else:
        for i in range(k):
            for a in range(m):
                out[i] += s.counts[i, a] * (s.points[a] - mean[i]) ** 2
    for i in range(k):
        if s.told[i] > 0:
            out[i] = out[i] / s.told[i] - rho * mean[i]


@step("state -> none")
def call_best(s):
    """The mixture: the arm with the largest ``value`` of those that have paid (the first of equals)."""
    arm = -1
    for i in range(s.n_arms):
        if s.told[i] > 0 and (arm < 0 or s.value[i] > s.value[arm]):
            arm = i
    play_alone(s, max(arm, 0))


@shared("state, floats -> none")
def empirical_utilities(s, out):
    """U_h of every arm's rewards, into ``out``."""
    weight, anchor, total = scratch(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    count_rewards(s, weight, anchor, total)
    distorted(s, weight, anchor, total, out)


@shared("state, float, floats -> none")
def empirical_cvars(s, tail, out):
    """Lower-tail CVaR of every arm's rewards, into ``out``."""
    weight, anchor, total = scratch(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    count_rewards(s, weight, anchor, total)
    lower_cvar(s, tail, weight, total, out)


@kernel
def update_utility(memory):
    """Call that arm best whose rewards have the largest U_h."""
    s = unpack(memory)
    empirical_utilities(s, s.value)
    call_best(s)


@kernel
def update_cvar(memory):
    """Call that arm best whose rewards have the largest lower-tail CVaR."""
    s = unpack_tail(memory)
    empirical_cvars(s, s.tail, s.value)
    call_best(s)
