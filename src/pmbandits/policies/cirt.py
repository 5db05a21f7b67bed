"""CIRT: refine intervals of the simplex, then track. Anytime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits.confidence._bounds import OPTIMISTIC, PESSIMISTIC, binary_bound, bound, refresh
from pmbandits.confidence._ends import BELT, tailed
from pmbandits.confidence._kernels import CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.packed import h_max, h_min
from pmbandits.mixtures._ahead import least_lead, may_look_ahead, settle_down, shares_within, surely_inside
from pmbandits.mixtures._continuous import best_within, rival_outside
from pmbandits.mixtures._grid import empirical_mixture, utilities
from pmbandits.mixtures._index import BOUND, SURE, TIE, UTILITY, dot, due, holder_change, ready, rest, take
from pmbandits.mixtures._lazy import (
    change_since,
    distance,
    evaluate,
    forget_values,
    lazy_choice,
    may_be_lazy,
    radius_unit,
    rounding_error,
)
from pmbandits.mixtures._sampling import explore_or_track, pull
from pmbandits.mixtures._within import narrow_box
from pmbandits.policies.build import Setup
from pmbandits.policies.choices import continuous_search, even, search_numbers, searched_within
from pmbandits.policies.options import (
    above,
    known_estimates,
    known_search,
    known_set,
    one_of,
    option,
    probability,
    within,
)
from pmbandits.policies.policy import Policy
from pmbandits.policies.sets import chosen_set
from pmbandits.state.arrays import copy_into
from pmbandits.state.compile import kernel
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory
from pmbandits.state.shared import shared, step
from pmbandits.state.views import state
from pmbandits.supports import Support

LARGEST_PHASE_GRID = 200_000
unpack = state(branching=int, phases=int, phase=int, tracking=int, literal=int, tolerance=float)


@step("int, int -> int")
def levels(branching: int, phase: int) -> int:
    """1/spacing of a phase: A^ℓ / 2^(ℓ−1), a whole number because A is even."""
    out = branching
    for _ in range(phase - 1):
        out *= branching // 2
    return out


@shared("state -> none", unpack)
def phase_grid(s: Any) -> None:
    """``eq:any_discrete_set``: multiples of the phase's spacing inside the box kept by the phase before."""
    k, half, phase, total = s.n_arms, s.branching // 2, s.phase, levels(s.branching, s.phase)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i], high[i] = 0, total
        if phase > 1:
            low[i] = max(0, s.kept[i] * half - half)
            high[i] = min(total, s.kept[i] * half + half)
        step[i] = low[i]
    used = 0
    while True:
        last = total
        for i in range(k - 1):
            last -= step[i]
        if low[k - 1] <= last <= high[k - 1]:
            step[k - 1] = last
            for i in range(k):
                s.steps[used, i] = step[i]
                s.grid[used, i] = step[i] / total
            used += 1
        if not next_steps(step, low, high):
            break
    new_grid(s, used)


@shared("state -> none", unpack)
def tracking_grid(s: Any) -> None:
    """``eq:any_discrete_set_tracking``: weights (n + ½)/N inside the box around the last kept mixture.

    Counted in halves of 1/N: odd numbers that add up to 2N. For odd K there are none, and as elsewhere in the paper
    the last weight takes the difference: a whole number of 1/N, positive, and inside the box too.
    """
    k, half, box = s.n_arms, s.branching // 2, levels(s.branching, s.phases)
    total = levels(s.branching, s.phases + 1)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i] = max(0, s.kept[i] * half - half)
        high[i] = max(low[i], min(total, s.kept[i] * half + half) - 1)
        step[i] = low[i]
    used = 0
    while True:
        last = 2 * total
        for i in range(k - 1):
            last -= 2 * step[i] + 1
        if last > 0 and abs(last - 2 * half * s.kept[k - 1]) <= 2 * half:
            for i in range(k - 1):
                s.grid[used, i] = (step[i] + 0.5) / total
            s.grid[used, k - 1] = 0.5 * last / total
            used += 1
        if not next_steps(step, low, high):
            break
    if used == 0:  # beside a vertex, with many arms: the nearest point with every weight positive
        rest, top = 1.0, 0
        for i in range(k):
            s.grid[0, i] = max(s.kept[i] / box, 0.5 / total)
            rest -= s.grid[0, i]
            top = i if s.kept[i] > s.kept[top] else top
        s.grid[0, top] += rest
        used = 1
    new_grid(s, used)


@step("ints, ints, ints -> bool")
def next_steps(step: Any, low: Any, high: Any) -> bool:
    """Go to the next vector in lexicographic order, the last entry left out; False after the last one."""
    i = step.size - 2
    while i >= 0 and step[i] >= high[i]:
        step[i] = low[i]
        i -= 1
    if i < 0:
        return False
    step[i] += 1
    return True


@step("state, int -> none")
def new_grid(s: Any, used: int) -> None:
    """The grid has changed: nothing is chosen, and nothing that is kept about its points is true."""
    s.used = used
    s.current = -1
    forget_values(s)


@shared("state -> none")
def lead(s: Any) -> None:
    """``eq:any_alpha``: the mixture of the phase's grid with the largest empirical utility; tied, stay."""
    if may_be_lazy(s, UTILITY):
        take(s, lazy_choice(s, UTILITY))
        return
    used, before = s.used, s.current
    utilities(s)
    top = -np.inf
    for g in range(used):
        top = max(top, s.value[g])
    slack = TIE * max(1.0, abs(top))
    chosen = before
    if before < 0 or s.value[before] < top - slack:
        chosen = 0
        while s.value[chosen] < top - slack:
            chosen += 1
    take(s, chosen)


@shared("state -> int", unpack)
def still_alive(s: Any) -> int:
    """A candidate that keeps the phase from ending, or −1: the phase is over.

    ``eq:stopping_rule``, or the box rule: all that may still be best lies in the box that would be kept. A candidate
    outside the box is also let go when it cannot be better than the leader by more than the tolerance.
    """
    leader, used, binary, literal = s.current, s.used, s.mode == BINARY, s.literal == 1
    lazy = may_be_lazy(s, BOUND)
    if lazy and surely_alive(s):
        return s.witness - 1
    first = max(s.witness - 1, 0) if lazy else 0  # whoever kept the phase open last time is asked first
    if binary:
        least = binary_bound(s.h, s.grid[leader], s.lower, s.upper, PESSIMISTIC)
    else:
        least = bound(s, s.grid[leader], PESSIMISTIC)
    for j in range(used):
        g = (first + j) % used
        if g == leader or (not literal and in_the_box(s.steps[g], s.steps[leader])):
            continue
        if binary:
            best = binary_bound(s.h, s.grid[g], s.lower, s.upper, OPTIMISTIC)
        else:
            evaluate(s, g, BOUND)
            best = s.index[g]
        if best >= least and (literal or best - least > s.tolerance):
            s.leader_floor, s.checked_leader, s.witness = least, leader + 1, g + 1
            for i in range(s.n_arms):
                s.leader_travel[i] = s.told[i] if s.set_kind == BELT else s.travel[i]
                s.leader_radius[i] = s.radius[i]
            return g
    return -1


@step("ints, ints -> bool")
def in_the_box(steps: Any, middle: Any) -> bool:
    """Whether a candidate lies in the box that would be kept around the leader."""
    inside = True
    for i in range(steps.size):
        if abs(steps[i] - middle[i]) > 1:
            inside = False
    return inside


@shared("state -> bool", unpack)
def surely_alive(s: Any) -> bool:
    """Whether the last witness still keeps the phase open, by how far its value and the leader's can have moved."""
    leader, witness = s.current, s.witness - 1
    if witness < 0 or s.checked_leader != leader + 1:
        return False
    off, each = rounding_error(s)
    low = s.index[witness] - change_since(s, witness, BOUND)[0]
    # The leader's pessimistic value: at most what Hölder allows, and not above its utility.
    high = np.inf
    if s.set_kind == BELT and s.holder_q == 1.0:
        # A belt's ends come nearer by at most θ (the share of new rewards), and by as much as its radius shrinks.
        moved = 0.0
        for i in range(s.n_arms):
            then = s.leader_radius[i]
            nearer = (1.0 - s.radius[i] / then) * min(1.0, 1.34 * math.sqrt(0.5 * then))
            moved += s.grid[leader, i] * (1.0 - s.leader_travel[i] / s.told[i] + nearer)
        high = s.leader_floor + s.holder_c * (s.high - s.low) * moved
    elif s.set_kind != BELT and s.holder_c > 0.0:
        gain = 0.0
        for i in range(s.n_arms):
            gain += s.grid[leader, i] * (s.leader_radius[i] - s.radius[i])
        moved = distance(s.grid[leader], s.travel, s.leader_travel)
        high = s.leader_floor + holder_change(s, moved) + holder_change(s, radius_unit(s) * gain)
    if s.value_at[leader] > 0.0:
        high = min(high, s.value[leader] + change_since(s, leader, UTILITY)[1])
    return low - high > s.tolerance + 2.0 * off + each * (abs(low) + abs(high))


@shared("state, int -> bool", unpack)
def stays(s: Any, witness: int) -> bool:
    """Whether leader and witness stay what they are for the next ``look_ahead`` rewards of each arm."""
    ahead, leader = s.look_ahead, s.current
    sure = SURE * max(1.0, abs(s.peak))
    mine, other = s.grid[leader], s.grid[witness]
    low, high = surely_inside(s, ahead)
    left, right = dot(mine, low), dot(mine, high)
    near, far = dot(other, low), dot(other, high)
    if left > right or near > far:
        return False
    if h_max(s.h, near, far) - h_min(s.h, left, right) <= s.tolerance + sure:
        return False
    low, high = shares_within(s, ahead)
    for g in range(s.used):
        if g != leader and not least_lead(s.h, s.metric_shape, mine, s.grid[g], low, high) > sure:
            return False
    return True


@shared("state -> none", unpack)
def refine(s: Any) -> None:
    """One look at the data: lead, and end the phase if the rule says so."""
    if not ready(s):
        return
    refresh(s)
    if tailed(s):
        rest(s)
    lead(s)
    witness = still_alive(s)
    if witness >= 0:
        if may_look_ahead(s):
            settle_down(s, stays(s, witness))
        return
    leader, phase = s.current, s.phase
    s.ends[phase - 1] = s.asked
    for i in range(s.n_arms):
        s.kept[i] = s.steps[leader, i]
    if phase < s.phases:
        s.phase = phase + 1
        phase_grid(s)
        lead(s)
    else:  # the tracking process: one mixture from now on
        s.tracking = 1
        tracking_grid(s)
        empirical_mixture(s)


@shared("state -> none", unpack)
def refine_all(s: Any) -> None:
    """The same over all mixtures of the box that was kept, without a grid; ``grid[0]`` is its middle.

    For convex h only arms alone are compared: when one is left all phases end.
    """
    if not ready(s):
        return
    refresh(s)
    s.look_at = s.rewards + 1 + int(s.fineness * s.rewards)
    s.dirty = 0
    k, branching, last = s.n_arms, s.branching, s.phases
    low, high = np.zeros(k), np.ones(k)
    while True:
        phase = s.phase
        if phase > 1:
            before = 1.0 / levels(branching, phase - 1)
            for i in range(k):
                low[i], high[i] = max(0.0, s.grid[0, i] - before), min(1.0, s.grid[0, i] + before)
        narrow_box(s, low, high)
        best_within(s, s.mix, low, high)
        witness = rival_outside(s, low, high, 1.0 / levels(branching, phase), s.tolerance, s.current + 1)
        if witness >= 0:
            s.current = witness - 1
            return
        s.ends[phase - 1] = s.asked
        copy_into(s.grid[0], s.mix)
        s.phase = phase + 1
        if phase == last:
            s.phase = last
            s.tracking = 1
            return
        if s.metric_shape != CONVEX:
            return


@step("state -> none", unpack)
def look(s: Any) -> None:
    """One look at the data, on the grid or over all mixtures."""
    if s.continuous == 1:
        refine_all(s)
    else:
        refine(s)


@kernel
def choose(memory: int) -> int:
    """Algorithm 4 (``algorithm:anytime``)."""
    s = unpack(memory)
    if s.tracking == 0 and due(s):
        look(s)
    return pull(s, explore_or_track(s))


@kernel
def update(memory: int) -> None:
    """Name the mixture with the newest rewards."""
    s = unpack(memory)
    if s.tracking == 0 and due(s):
        look(s)


@kernel
def begin(memory: int) -> None:
    """The first phase."""
    s = unpack(memory)
    s.phase = 1
    if s.continuous == 0:
        phase_grid(s)


@kernel
def lay_grid(memory: int) -> None:
    """The grid of the phase anew, from the mixture that was kept."""
    phase_grid(unpack(memory))


class CIRT(Policy, name="cirt", choose=choose, update=update, unpack=unpack):
    """CIRT (Algorithm 4): zoom in on the best mixture phase by phase, then keep its proportions.

    It is anytime: the number of rounds need not be known. Each phase looks at mixtures inside a box, keeps a smaller
    box around the best one, and goes on with finer steps.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    epsilon : how fine the weights are in the end, by default 0.06. A smaller one ends with less regret, and starts
        tracking later: each halving of ε takes roughly four times as many rounds.
    branching : A, an even number ≥ 4 (the default): how many steps each side of the box is cut into. A larger one needs
        fewer phases, with (A+1)^(K−1) mixtures of K arms to look at in each round.
    delta : the probability that some arm's confidence set ever fails, by default 5 %.
    exploration : ξ, above 0. Every arm is pulled about (t/K)^(1/(1+ξ)) times at least. Near 0 exploration is nearly
        linear and costs regret; the default 1 is the square root.
    confidence : as for :class:`PMUCB`, in its anytime form.
    stopping : when a phase ends. ``"literal"`` is the paper's rule. ``"box"`` (the default) also ends it when all that
        may still be best lies in the box to be kept, or differs by less than ``tolerance``. This is needed where
        mixtures tie (symmetric arms, three 0/1 arms).
    tolerance : how much utility the box rule may give away in a phase. Default: what the last phase could not see
        anyway, ½s² of the metric's range on the support (of 4σ on ``Real``), with s its spacing. A larger one starts
        tracking earlier and ends with more regret.
    search : ``"grid"`` is the paper's. ``"continuous"`` looks at all mixtures of the box whenever 1 % more rewards are
        in (for concave metrics by 2K certified programs, for convex ones at the arms alone). ``"auto"`` (the default)
        takes that when a phase's grid would have more than 20,000 points.

    The paper's guarantee is for 0/1 rewards; on others refinement is a sound heuristic for concave metrics. A round
    works out only what may have changed, with the exceptions that :class:`PMUCB` names.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.CIRT(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> arm = policy.ask()
    >>> policy.tell(arm, reward=1.0)
    >>> policy.phase, policy.phase_ends
    (1, ())
    """

    resolution: float = option(default=0.06, alias="epsilon", check=probability)
    branching: int = option(default=4, check=even)
    delta: float = option(default=0.05, check=probability)
    exploration: float = option(default=1.0, check=above(0.0))
    sets: Any = option(default="auto", alias="confidence", check=known_set)
    stopping: str = option(default="box", check=one_of("box", "literal"))
    tolerance: float | None = option(default=None, check=within(0.0))
    search: str = option(default="auto", check=known_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o, chosen = self.options, chosen_set(self, support, n_arms)
        room, literal = (o["branching"] + 1) ** (n_arms - 1), o["stopping"] == "literal"
        if literal and o["search"] == "continuous":
            raise ValueError("stopping='literal' compares the mixtures of a grid; use search='grid' or stopping='box'.")
        search = searched_within(self.limits, "grid" if literal else o["search"], metric)
        continuous = continuous_search(search, room, metric, support, chosen, self.limits)
        if not continuous and room > LARGEST_PHASE_GRID:
            raise ValueError(
                f"CIRT with {n_arms} arms and branching {o['branching']} looks at up to {room:,} mixtures a round, "
                f"more than {LARGEST_PHASE_GRID:,}; use search='continuous', Track, fewer arms, or branching 4."
            )
        phases = math.ceil(math.log(1.0 / o["epsilon"]) / math.log(o["branching"] / 2) - 1e-9)
        if o["branching"] * (o["branching"] // 2) ** max(1, phases) > MOST:
            raise ValueError(
                f"the steps of CIRT with epsilon {o['epsilon']:g} and branching {o['branching']} are too fine for "
                "whole numbers of 64 bits; take a larger epsilon, or a smaller branching."
            )
        tolerance = o["tolerance"]
        if literal:
            tolerance = 0.0  # the literal rule gives nothing away
        elif tolerance is None:
            span = support.width if np.isfinite(support.width) else 4.0 * support.typical
            reach = metric.maximum().value - metric.minimum().value
            tolerance = 0.5 / levels(o["branching"], max(1, phases)) ** 2 * reach * span
        return Setup(
            grid=np.zeros((1 if continuous else room, n_arms)),
            epsilon=o["epsilon"],
            numbers={
                "exploration": o["exploration"],
                "branching": o["branching"],
                "phases": max(1, phases),
                "tolerance": tolerance,
                "literal": int(literal),
                **search_numbers(continuous, 0.0),
            },
            confidence=chosen,
            begin=begin,
        )

    def holds_together(self, memory: Memory) -> bool:
        m, done = memory, memory.phase - 1 + memory.tracking
        if not (1 <= m.phase <= m.phases and 0 <= m.tracking <= 1) or (m.tracking and m.phase < m.phases):
            return False
        if m.ends[done:].any() or (np.diff(m.ends[:done]) < 0).any():
            return False
        if m.continuous == 1:
            on_grid = m.steps.any() or m.kept.any()
            return not on_grid and (done == 0 or abs(float(m.grid[0].sum()) - 1.0) < 1e-6)
        total = levels(m.branching, done) if done else 0
        if m.kept.max() > total or m.kept.sum() != total:
            return False
        if m.tracking:  # one mixture from now on, so nobody looks at the others of the grid
            return True
        anew = m.copy()
        lay_grid(anew.address)
        same = anew.used == m.used and np.array_equal(anew.steps[: m.used], m.steps[: m.used])
        return bool(same and np.allclose(anew.grid[: m.used], m.grid[: m.used], rtol=0.0, atol=1e-12))

    @property
    def phase(self) -> int | str:
        """The phase of refinement, counted from 1, or ``"track"``."""
        memory = self._look()
        return "track" if memory.tracking else memory.phase

    @property
    def phases(self) -> int:
        """How many phases of refinement there are in all."""
        self._must_be_bound()
        return self._memory.phases

    @property
    def phase_ends(self) -> tuple[int, ...]:
        """After how many rounds each phase so far ended. Phases begin anew when the arms that play change."""
        return tuple(self._began + int(t) for t in self._look().ends if t > 0)
