"""The gate: limits are kept at all times, whatever a policy proposes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import pmbandits as pmb
from pmbandits.constraints import Limits, limits
from pmbandits.engine._calls import pull_within_constraints
from pmbandits.engine.share_constraints import single_arm_bounds, worst_case_excess
from pmbandits.mixtures._constraint_tracking import n_free_rounds_and_deadline, pull_deadline
from pmbandits.mixtures._tracking import most_behind, pull
from pmbandits.state.compile import kernel
from pmbandits.state.memory import Memory
from pmbandits.state.numba_types import unpack

NAMES = "ABCDEF"


@kernel
def play(memory, proposals, contrary, worst, rows, bounds):
    """Pull what is proposed (with ``contrary``, the arm that does most harm), and note how far each row is exceeded."""
    s = unpack(memory)
    for j in range(proposals.size):
        arm = proposals[j]
        if contrary:
            most = -1e300
            for i in range(s.n_arms):
                harm = 0.0
                for r in range(bounds.size):
                    over = -(s.t + 1) * bounds[r] + rows[r, i]
                    for k in range(s.n_arms):
                        over += rows[r, k] * s.pulls[k]
                    harm = max(harm, over)
                if harm > most:
                    arm, most = i, harm
        pull_within_constraints(s, pull(s, arm))
        for r in range(bounds.size):
            over = -s.t * bounds[r]
            for i in range(s.n_arms):
                over += rows[r, i] * s.pulls[i]
            worst[r] = max(worst[r], over)


@kernel
def track(memory, rounds):
    """Propose the arm that is furthest behind its share, round after round."""
    s = unpack(memory)
    for _ in range(rounds):
        pull_within_constraints(s, pull(s, most_behind(s)))


def memory_of(found: Limits) -> Memory:
    return pmb.Uniform("mean", names=list(found.names), support=pmb.Binary(), shares=found)._memory


def worst_of(found: Limits, proposals: np.ndarray, contrary: bool = False, memory: Memory | None = None) -> np.ndarray:
    """The largest excess of each limit (equalities: on either side) in a game."""
    rows, bounds = found.polytope.inequalities
    worst = np.full(bounds.size, -np.inf)
    memory = memory or memory_of(found)
    play(memory.address, proposals, contrary, worst, rows, bounds)
    n = len(found)
    out = worst[:n].copy()
    out[found.equal] = np.maximum(out[found.equal], worst[n:])
    return out


@st.composite
def box_limits(draw: Any) -> Limits:
    """Floors and caps of some arms, often as tight as can be."""
    k = draw(st.integers(2, 6))
    share = st.integers(0, 20)
    floors = np.array([draw(share) for _ in range(k)]) / 20.0
    if floors.sum() > 1.0 or draw(st.booleans()):
        floors *= draw(st.sampled_from([1.0, 0.9, 0.5])) / max(floors.sum(), 1.0)
    if floors.sum() > 0.999:  # all is given away: then every arm has some, or it could never be played
        floors = (floors + 0.01) / (floors + 0.01).sum()
    caps = np.minimum(floors + np.array([draw(share) for _ in range(k)]) / 20.0 + 0.01, 1.0)
    if caps.sum() < 1.0:
        caps[draw(st.integers(0, k - 1))] = 1.0
    return limits({NAMES[i]: (float(floors[i]), float(caps[i])) for i in range(k)}, NAMES[:k])


def proposals_for(draw: Any, k: int, rounds: int) -> tuple[np.ndarray, bool]:
    """What a policy might propose: always one arm, anything, long stretches; or the arm that does most harm."""
    kind = draw(st.sampled_from(["one", "any", "stretches", "harm"]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    if kind == "one":
        return np.full(rounds, rng.integers(k)), False
    if kind == "stretches":
        return np.repeat(rng.integers(k, size=rounds // 20 + 1), 20)[:rounds], False
    return rng.integers(k, size=rounds), kind == "harm"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_floors_and_caps_are_kept_within_one_pull_at_all_times(data: st.DataObject) -> None:
    found = data.draw(box_limits())
    proposals, contrary = proposals_for(data.draw, len(found.names), 400)
    if len(found):
        assert worst_of(found, proposals, contrary).max() <= 1.0 + 1e-8


@st.composite
def row_limits(draw: Any) -> Limits:
    """Groups, comparisons and budgets that some mixture keeps, together with floors."""
    k = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    inside = rng.dirichlet(np.ones(k))
    texts = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["group", "group floor", "compare", "budget", "equal", "floor"]))
        some = rng.random(k) < 0.5
        if not some.any() or some.all():
            some = np.arange(k) == rng.integers(k)
        names = [NAMES[i] for i in np.flatnonzero(some)]
        total = float(inside[some].sum())
        if kind == "group":
            texts.append(f"{' + '.join(names)} <= {total + 0.2 * rng.random():.6f}")
        elif kind == "group floor":
            texts.append(f"{' + '.join(names)} >= {total * rng.random():.6f}")
        elif kind == "floor":
            texts.append(f"{names[0]} >= {0.9 * inside[NAMES.index(names[0])]:.6f}")
        elif kind == "budget":
            cost = rng.integers(1, 5, size=k)
            paid = " + ".join(f"{c}*{n}" for c, n in zip(cost, NAMES, strict=False))
            texts.append(f"{paid} <= {float(cost @ inside) + 0.1:.6f}")
        else:
            a, b = rng.choice(k, 2, replace=False)
            ratio = float(inside[a] / inside[b])
            texts.append(f"{NAMES[a]} {'==' if kind == 'equal' else '<='} {ratio:.6f} * {NAMES[b]}")
    try:
        return limits("; ".join(texts), NAMES[:k])
    except ValueError:  # two of them meet in one point, which rounding to six digits has put out of reach
        reject()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_limits_on_several_arms_are_kept_as_closely_as_is_said(data: st.DataObject) -> None:
    try:
        found = data.draw(row_limits())
        memory = memory_of(found)
    except ValueError:  # an equality that rounding has made impossible, or an arm that could never be played
        return
    if not len(found):
        return
    proposals, contrary = proposals_for(data.draw, len(found.names), 400)
    worst = worst_of(found, proposals, contrary, memory)
    assert (worst <= worst_case_excess(found) + 1e-6).all()
    assert worst.max() <= 2.0  # in all our games; the promise above is for the worst


@given(row_limits(), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_proposals_that_track_a_mixture_within_the_limits_reach_it(found: Limits, seed: int) -> None:
    """Nobody is starved: the gate refuses a round, not an arm."""
    try:
        memory = memory_of(found)
    except ValueError:
        return
    corners = found.polytope.corners(4096)
    assert corners is not None
    rng = np.random.default_rng(seed)
    memory.mix[:] = rng.dirichlet(np.full(len(corners), 0.5)) @ corners
    track(memory.address, 1500)
    assert np.abs(memory.pulls - 1500 * memory.mix).max() <= 5.0


def test_every_game_of_three_arms_is_won() -> None:
    """All that a policy could propose, for all states that this can lead to; without what the gate remembers."""
    for text in ("A >= 0.4; B >= 0.35; C <= 0.3", "A >= 1/3; B >= 1/3; C >= 1/3", "0.2 <= A <= 0.25; B <= 0.45"):
        found = limits(text, "ABC")
        ends = single_arm_bounds(found)
        assert ends is not None
        memory = memory_of(found)
        states = {(0, 0, 0)}
        for t in range(1, 41):
            after = set()
            for state in states:
                for arm in range(3):
                    memory.pulls[:], memory.t, memory.next_limit_check_at[0] = state, t - 1, 0
                    pull_within_constraints(memory, pull(memory, arm))
                    after.add(tuple(int(n) for n in memory.pulls))
            for state in after:
                n = np.array(state)
                assert (n >= t * ends[0] - 1.0 - 1e-8).all(), (text, t, state)
                assert (n <= t * ends[1] + 1.0 + 1e-8).all(), (text, t, state)
            states = after


def slack(n: np.ndarray, t: int, floors: np.ndarray) -> float:
    """For how many rounds any arm may be pulled: by the definition, over many deadlines."""
    least = math.inf
    for d in range(t + 1, t + 2000):
        jobs = sum(max(math.ceil(d * f - 1e-9) - 1 - int(k), 0) for k, f in zip(n, floors, strict=True) if f > 0)
        if jobs > 0:
            least = min(least, d - t - jobs)
    return max(least, 0.0)


def test_the_rounds_that_are_free_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        k = int(rng.integers(2, 6))
        floors = rng.dirichlet(np.ones(k)) * rng.uniform(0.2, 0.97)
        memory = memory_of(limits({NAMES[i]: (float(floors[i]), 1.0) for i in range(k)}, NAMES[:k]))
        play(
            memory.address,
            rng.integers(k, size=rng.integers(1, 200)),
            False,
            np.zeros(0),
            np.zeros((0, k)),
            np.zeros(0),
        )
        free, due = n_free_rounds_and_deadline(memory)
        wanted = slack(memory.pulls, memory.t, floors)
        # It may look at 64 deadlines only, and then assumes the worst.
        assert free <= wanted
        assert free == wanted or free < 3
        if free == 0.0 and wanted == 0.0:
            assert min(pull_deadline(memory, i, memory.pulls[i] + 1.0) for i in range(k)) <= due


def test_without_limits_nothing_is_kept() -> None:
    memory = pmb.Track("gini", n_arms=4, support=pmb.Binary())._memory
    assert memory.constraint_kind == 0
    assert all(
        memory.field(name).size == 0
        for name in ("min_shares", "limit_rows", "corners", "limit_deficit", "next_limit_check_at")
    )


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_whoever_always_proposes_one_arm_gets_as_much_of_it_as_limits_allow(arm: int) -> None:
    policy = pmb.SolitaryArm("mean", names=list("ABC"), support=pmb.Binary(), arm=arm, shares="A <= 30%; B >= 20%")
    policy.ask(1000)
    most = (0.3, 1.0, 0.8)[arm]
    assert abs(policy.pulls[arm] - 1000 * most) <= 1.0 + 1e-9
    assert abs(policy.mixture[arm] - most) < 1e-9
