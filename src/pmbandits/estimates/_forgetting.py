"""Rewards on their way out of a policy's memory: the oldest, any, or those of one arm; compiled.

Whatever was worked out from rewards that are gone is cleared, as after a merge. Pulls go with their rewards: they are
taken off the clock, and counted in ``earlier``.
"""

from __future__ import annotations

import numpy as np

from pmbandits._random import FORGOTTEN, philox, unit
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import BINARY, SAMPLES, STALE, TIMES, nearest_atom, tidy
from pmbandits.state.arrays import stable_order
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.state.views import unpack


@kernel
def forget_oldest(memory, words, spans, count):
    """Forget the ``count`` rewards that came first."""
    s = unpack(memory)
    dropped = np.zeros(s.n_arms, np.int64)
    for j in range(count):
        dropped[s.recent_arm[j]] += 1
        if s.mode != SAMPLES:
            s.counts[s.recent_arm[j], nearest_atom(s, s.recent[j])] -= 1
    if s.mode == SAMPLES:  # equal rewards lie in the order in which they came, so the first of them go
        tidy(s)
        order = stable_order(s.recent[:count])
        kept, gone = 0, 0
        for j in range(s.rewards):
            if gone < count and s.x[j] == s.recent[order[gone]]:
                gone += 1
            else:
                s.x[kept], s.owner[kept] = s.x[j], s.owner[j]
                kept += 1
        s.ordered = kept
    for j in range(count, s.rewards):
        s.recent[j - count], s.recent_arm[j - count] = s.recent[j], s.recent_arm[j]
    forget_pulls(s, dropped, count)
    work_out_anew(s, words, spans)


@kernel
def forget_any(memory, words, spans, count):
    """Forget ``count`` rewards, each set of so many with the same probability. Drawn with the policy's seed."""
    s = unpack(memory)
    dropped = np.zeros(s.n_arms, np.int64)
    left, gone = s.rewards, 0
    while gone < count:
        s.stream += 1
        zero = np.uint64(0)
        word, _, _, _ = philox(np.uint64(s.seed), np.uint64(s.stream), zero, zero, zero, np.uint64(FORGOTTEN))
        if s.mode == SAMPLES:  # those that go are marked by a sign; one that was drawn before is drawn again
            at = int(unit(word) * s.rewards)
            if s.owner[at] >= 0:
                dropped[s.owner[at]] += 1
                s.owner[at] = -1 - s.owner[at]
                gone += 1
            continue
        nth, arm, atom = int(unit(word) * left), 0, 0
        while nth >= s.told[arm] - dropped[arm]:
            nth -= s.told[arm] - dropped[arm]
            arm += 1
        while nth >= s.counts[arm, atom]:
            nth -= s.counts[arm, atom]
            atom += 1
        s.counts[arm, atom] -= 1
        dropped[arm] += 1
        gone, left = gone + 1, left - 1
    if s.mode == SAMPLES:
        drop_marked(s)
    forget_pulls(s, dropped, count)
    work_out_anew(s, words, spans)


@kernel
def forget_arm(memory, words, spans, arm):
    """Forget all rewards of one arm, and begin a new clock: no pull so far counts for shares, but those that wait."""
    s = unpack(memory)
    if s.sketch_size > 0:
        sketching.begin(s.sketch_book[arm], s.sketch_marks[arm], s.sketch_size)
        s.ordered = STALE
    elif s.mode == SAMPLES:
        for j in range(s.rewards):
            if s.owner[j] == arm:
                s.owner[j] = -1 - arm
        drop_marked(s)
    for atom in range(s.n_atoms):
        s.counts[arm, atom] = 0
    kept = 0
    for j in range(s.rewards if s.n_recent > 0 else 0):
        if s.recent_arm[j] != arm:
            s.recent[kept], s.recent_arm[kept] = s.recent[j], s.recent_arm[j]
            kept += 1
    s.rewards -= s.told[arm]
    s.told[arm], s.sums[arm], s.squares[arm] = 0, 0.0, 0.0
    s.asked = 0
    for i in range(s.n_arms):
        s.earlier[i] += s.pulls[i] - s.pending[i]
        s.pulls[i] = s.pending[i]
        s.asked += s.pulls[i]
    s.tally[TIMES] += 1.0
    work_out_anew(s, words, spans)


@shared("state -> none")
def drop_marked(s):
    """Close the gaps in the pool where the owner is marked by a sign; what is sorted stays so."""
    kept, ordered = 0, s.ordered
    for j in range(s.rewards):
        if s.owner[j] >= 0:
            s.x[kept], s.owner[kept] = s.x[j], s.owner[j]
            kept += 1
        elif j < s.ordered:
            ordered -= 1
    s.ordered = ordered


@shared("state, ints, int -> none")
def forget_pulls(s, dropped, count):
    """Take rewards off the counts, and their pulls off the clock; of the pulls that wait, the same share."""
    for i in range(s.n_arms):
        waiting = s.pending[i] * count // s.rewards  # rewards that never come must not be waited for without end
        answered = min(dropped[i], s.pulls[i] - s.pending[i])  # those that were not asked for have no pull
        s.told[i] -= dropped[i]
        s.pending[i] -= waiting
        s.pulls[i] -= waiting + answered
        s.asked -= waiting + answered
        s.earlier[i] += waiting + answered
    s.rewards -= count
    s.tally[TIMES] += 1.0


@shared("state, ints, table of ints -> none")
def work_out_anew(s, words, spans):
    """Sums of the rewards that are kept; and clear whatever was worked out from others. ``spans`` says where it is."""
    if s.sketch_size == 0:
        for i in range(s.n_arms):
            s.sums[i], s.squares[i] = 0.0, 0.0
            for atom in range(s.n_atoms):
                x = s.points[atom]
                s.sums[i] += s.counts[i, atom] * x
                s.squares[i] += s.counts[i, atom] * x * x
    if s.sketch_size == 0 and s.mode == SAMPLES:
        s.largest = max(abs(s.low), abs(s.high)) if s.bounded == 1 else 0.0
        for j in range(s.rewards):
            x = s.x[j]
            s.sums[s.owner[j]] += x
            s.squares[s.owner[j]] += x * x
            s.largest = max(s.largest, abs(x))
    if s.mode == BINARY:  # as ``record`` keeps them
        for i in range(s.n_arms):
            s.squares[i] = 0.0
    for j in range(spans.shape[0]):
        for at in range(spans[j, 0], spans[j, 1]):
            words[at] = 0
    s.dirty = 1
