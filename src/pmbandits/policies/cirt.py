"""CIRT: refine intervals of the simplex, then track. Anytime."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared
from pmbandits.confidence._kernels import CONVEX
from pmbandits.metrics._kernels import h_max, h_min
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import _search as search
from pmbandits.policies import _state as st
from pmbandits.policies._state import (
    ASKED,
    BINARY,
    BOUND,
    BRANCHING,
    CONTINUOUS,
    CURRENT,
    DIRTY,
    GRID_USED,
    GROW,
    HOLDER_C,
    LITERAL,
    LOOK_AT,
    MODE,
    OPTIMISTIC,
    PEAK,
    PESSIMISTIC,
    PHASE,
    PHASES,
    REWARDS,
    SHAPE,
    SHARE,
    SURE,
    TIE,
    TOLERANCE,
    TRACKING,
    UTILITY,
    XI,
)
from pmbandits.policies.base import (
    Policy,
    Setup,
    continuous_search,
    known_estimates,
    known_search,
    known_set,
    probability,
    search_knobs,
)
from pmbandits.supports import Real, Support

LARGEST_PHASE_GRID = 200_000


@kernel
def _levels(branching: int, phase: int) -> int:
    """1/spacing of a phase: A^ℓ / 2^(ℓ−1), a whole number because A is even."""
    out = branching
    for _ in range(phase - 1):
        out *= branching // 2
    return out


@kernel
def phase_grid(whole: Any) -> None:
    """``eq:any_discrete_set``: multiples of the phase's spacing inside the box kept by the phase before."""
    s = st.parts(whole)
    k, half = s.size[0], int(s.knobs[BRANCHING]) // 2
    phase = s.clock[PHASE]
    whole = _levels(int(s.knobs[BRANCHING]), phase)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i], high[i] = 0, whole
        if phase > 1:
            low[i] = max(0, s.kept[i] * half - half)
            high[i] = min(whole, s.kept[i] * half + half)
        step[i] = low[i]
    used = 0
    while True:
        last = whole
        for i in range(k - 1):
            last -= step[i]
        if low[k - 1] <= last <= high[k - 1]:
            step[k - 1] = last
            for i in range(k):
                s.steps[used, i] = step[i]
                s.grid[used, i] = step[i] / whole
            used += 1
        i = k - 2  # the next vector in lexicographic order
        while i >= 0 and step[i] >= high[i]:
            step[i] = low[i]
            i -= 1
        if i < 0:
            break
        step[i] += 1
    s.clock[GRID_USED] = used
    s.clock[CURRENT] = -1
    st.forget_values(s)


@kernel
def tracking_grid(whole: Any) -> None:
    """``eq:any_discrete_set_tracking``: odd half-steps around the last kept mixture, every weight positive.

    For odd K half-steps cannot add up to 1: the last weight takes the difference.
    """
    s = st.parts(whole)
    k, half = s.size[0], int(s.knobs[BRANCHING]) // 2
    phases = int(s.knobs[PHASES])
    box = _levels(int(s.knobs[BRANCHING]), phases)
    whole = _levels(int(s.knobs[BRANCHING]), phases + 1)
    step, low, high = np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(k):
        low[i] = max(0, s.kept[i] * half - half)
        high[i] = max(low[i], min(whole, s.kept[i] * half + half) - 1)
        step[i] = low[i]
    used = 0
    while True:
        last = 1.0
        for i in range(k - 1):
            last -= (step[i] + 0.5) / whole
        reach = 1.0 / box + 0.5 / whole + 1e-12
        if last > 1e-12 and abs(last - s.kept[k - 1] / box) <= reach:
            for i in range(k - 1):
                s.grid[used, i] = (step[i] + 0.5) / whole
            s.grid[used, k - 1] = last
            used += 1
        i = k - 2
        while i >= 0 and step[i] >= high[i]:
            step[i] = low[i]
            i -= 1
        if i < 0:
            break
        step[i] += 1
    if used == 0:  # beside a vertex, with many arms: the nearest point with every weight positive
        rest, top = 1.0, 0
        for i in range(k):
            s.grid[0, i] = max(s.kept[i] / box, 0.5 / whole)
            rest -= s.grid[0, i]
            top = i if s.kept[i] > s.kept[top] else top
        s.grid[0, top] += rest
        used = 1
    s.clock[GRID_USED] = used
    s.clock[CURRENT] = -1
    st.forget_values(s)


@shared("state -> none")
def lead(whole: Any) -> None:
    """``eq:any_alpha``: the mixture of the phase's grid with the largest empirical utility; tied, stay."""
    s = st.parts(whole)
    if st.may_be_lazy(s, UTILITY):
        st.take(s, st.lazy_choice(s.whole, UTILITY))
        return
    used, before = s.clock[GRID_USED], s.clock[CURRENT]
    st.utilities(s.whole)
    top = -np.inf
    for g in range(used):
        top = max(top, s.value[g])
    slack = TIE * max(1.0, abs(top))
    chosen = before
    if before < 0 or s.value[before] < top - slack:
        chosen = 0
        while s.value[chosen] < top - slack:
            chosen += 1
    st.take(s, chosen)


@shared("state -> int")
def still_alive(whole: Any) -> int:
    """A candidate that keeps the phase from ending, or −1: the phase is over.

    ``eq:stopping_rule``, or the box rule: all that may still be best lies in the box that would be kept. A candidate
    outside the box is also let go when it cannot be better than the leader by more than the tolerance.
    """
    s = st.parts(whole)
    leader, k, used = s.clock[CURRENT], s.size[0], s.clock[GRID_USED]
    binary = s.size[MODE] == BINARY
    lazy = st.may_be_lazy(s, BOUND)
    if lazy and surely_alive(s.whole):
        return int(s.safe[2]) - 1
    first = max(int(s.safe[2]) - 1, 0) if lazy else 0  # whoever kept the phase open last time is asked first
    if binary:
        safe = st.binary_bound(s.h, s.grid[leader], s.lower, s.upper, PESSIMISTIC)
    else:
        safe = st.bound(s.whole, s.grid[leader], PESSIMISTIC)
    literal = s.knobs[LITERAL] == 1.0
    for j in range(used):
        g = (first + j) % used
        if g == leader or (not literal and in_the_box(s.steps[g], s.steps[leader])):
            continue
        if binary:
            best = st.binary_bound(s.h, s.grid[g], s.lower, s.upper, OPTIMISTIC)
        else:
            st.evaluate(s.whole, g, BOUND)
            best = s.index[g]
        if best >= safe and (literal or best - safe > s.knobs[TOLERANCE]):
            s.safe[0], s.safe[1], s.safe[2] = safe, leader + 1.0, g + 1.0
            for i in range(k):
                s.safe[3 + i] = s.path[i]
                s.safe[3 + k + i] = s.radius[i]
            return g
    return -1


@kernel
def in_the_box(steps: st.IntArray, middle: st.IntArray) -> bool:
    """Whether a candidate lies in the box that would be kept around the leader."""
    inside = True
    for i in range(steps.size):
        if abs(steps[i] - middle[i]) > 1:
            inside = False
    return inside


@kernel
def surely_alive(whole: Any) -> bool:
    """Whether the last witness still keeps the phase open, by how far its value and the leader's can have moved."""
    s = st.parts(whole)
    leader, witness, k = s.clock[CURRENT], int(s.safe[2]) - 1, s.size[0]
    if witness < 0 or s.safe[1] != leader + 1.0:
        return False
    off, each = st.rounding(s.whole)
    low = s.index[witness] - st.drift(s.whole, witness, BOUND)[0]
    # The leader's pessimistic value: at most what Hölder allows, and not above its utility.
    high = np.inf
    if s.knobs[HOLDER_C] > 0.0:
        gain = 0.0
        for i in range(k):
            gain += s.grid[leader, i] * (s.safe[3 + k + i] - s.radius[i])
        moved = st.way(s.grid[leader], s.path, s.safe[3:])
        high = s.safe[0] + st.holder_change(s.knobs, moved) + st.holder_change(s.knobs, st.radius_unit(s) * gain)
    if s.snap[leader, 0] > 0.0:
        high = min(high, s.value[leader] + st.drift(s.whole, leader, UTILITY)[1])
    return low - high > s.knobs[TOLERANCE] + 2.0 * off + each * (abs(low) + abs(high))


@shared("state, int -> bool")
def stays(whole: Any, witness: int) -> bool:
    """Whether leader and witness stay what they are while no arm pays more than ``nap`` times."""
    s = st.parts(whole)
    ahead, leader = s.nap[s.size[0]], s.clock[CURRENT]
    sure = SURE * max(1.0, abs(s.knobs[PEAK]))
    mine, other = s.grid[leader], s.grid[witness]
    low, high = st.surely_inside(s.whole, ahead)
    left, right = st.dot(mine, low), st.dot(mine, high)
    near, far = st.dot(other, low), st.dot(other, high)
    if left > right or near > far:
        return False
    if h_max(s.h, near, far) - h_min(s.h, left, right) <= s.knobs[TOLERANCE] + sure:
        return False
    low, high = st.shares_within(s.whole, ahead)
    for g in range(s.clock[GRID_USED]):
        if g != leader and not st.least_lead(s.h, s.size[SHAPE], mine, s.grid[g], low, high) > sure:
            return False
    return True


@shared("state -> none")
def refine(whole: Any) -> None:
    """One look at the data: lead, and end the phase if the rule says so."""
    s = st.parts(whole)
    if not st.ready(s):
        return
    st.refresh(s.whole)
    lead(s.whole)
    witness = still_alive(s.whole)
    if witness >= 0:
        if st.may_doze(s.whole):
            st.doze_off(s.whole, stays(s.whole, witness))
        return
    leader, phase = s.clock[CURRENT], s.clock[PHASE]
    s.ends[phase - 1] = s.clock[ASKED]
    for i in range(s.size[0]):
        s.kept[i] = s.steps[leader, i]
    if phase < int(s.knobs[PHASES]):
        s.clock[PHASE] = phase + 1
        phase_grid(s.whole)
        lead(s.whole)
    else:  # the tracking process: one mixture from now on
        s.clock[TRACKING] = 1
        tracking_grid(s.whole)
        st.empirical_mixture(s.whole)


@shared("state -> none")
def refine_all(whole: Any) -> None:
    """The same over all mixtures of the box that was kept, without a grid; ``grid[0]`` is its middle.

    For convex h only arms alone are compared: when one is left all phases end.
    """
    s = st.parts(whole)
    if not st.ready(s):
        return
    st.refresh(s.whole)
    s.clock[LOOK_AT] = s.clock[REWARDS] + 1 + int(s.knobs[SHARE] * s.clock[REWARDS])
    s.clock[DIRTY] = 0
    k, branching, last = s.size[0], int(s.knobs[BRANCHING]), int(s.knobs[PHASES])
    low, high = np.zeros(k), np.ones(k)
    while True:
        phase = s.clock[PHASE]
        if phase > 1:
            before = 1.0 / _levels(branching, phase - 1)
            for i in range(k):
                low[i], high[i] = max(0.0, s.grid[0, i] - before), min(1.0, s.grid[0, i] + before)
        search.best_within(whole, s.mix, low, high)
        witness = search.rival_outside(whole, low, high, 1.0 / _levels(branching, phase), s.clock[CURRENT] + 1)
        if witness >= 0:
            s.clock[CURRENT] = witness - 1
            return
        s.ends[phase - 1] = s.clock[ASKED]
        s.grid[0] = s.mix
        s.clock[PHASE] = phase + 1
        if phase == last:
            s.clock[PHASE] = last
            s.clock[TRACKING] = 1
            return
        if s.size[SHAPE] != CONVEX:
            return


@kernel
def look(whole: Any) -> None:
    if st.parts(whole).knobs[CONTINUOUS] == 1.0:
        refine_all(whole)
    else:
        refine(whole)


@kernel
def choose(ints: st.IntArray, floats: FloatArray) -> int:
    """Algorithm 4 (``algorithm:anytime``)."""
    s = st.unpack(ints, floats)
    if s.clock[TRACKING] == 0 and st.due(s):
        if st.short_table(s):
            return GROW
        look(s.whole)
    return st.pull(s, st.explore_or_track(s))


@kernel
def update(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    if s.clock[TRACKING] == 0 and st.due(s):
        look(s.whole)


@kernel
def begin(ints: st.IntArray, floats: FloatArray) -> None:
    s = st.unpack(ints, floats)
    s.clock[PHASE] = 1
    if s.knobs[CONTINUOUS] == 0.0:
        phase_grid(s.whole)


class CIRT(Policy):
    """CIRT (Algorithm 4): zoom in on the best mixture phase by phase, then keep its proportions. Anytime.

    Parameters
    ----------
    metric, n_arms, support, names, seed, estimates : see :class:`Policy`.
    epsilon : final resolution of the weights. Smaller ends with less regret, and starts tracking later: each
        halving of ε takes roughly four times as many rounds.
    branching : A, an even number ≥ 4: how many steps each side of the box is cut into. Larger needs fewer phases,
        with (A+1)^(K−1) mixtures to look at each round.
    delta : probability that some arm's confidence set ever fails.
    exploration : ξ; every arm is pulled about (t/K)^(1/(1+ξ)) times at least. Near 0 exploration is nearly linear
        and costs regret; the default 1 is the square root.
    confidence : as for :class:`PMUCB`, in its anytime form.
    stopping : ``"box"`` also ends a phase when all that may still be best lies in the box to be kept, or differs by
        less than ``tolerance``: needed where mixtures tie (symmetric arms, three Bernoulli arms). ``"literal"`` is
        the paper's rule.
    tolerance : utility that the box rule gives away at most in a phase: what the final resolution could not see
        anyway. Default ½s² of the metric's range on the support (of 4σ on ``Real``), with s the spacing of the last
        phase. Larger starts tracking earlier and ends with more regret.
    search : ``"grid"`` is the paper's; ``"continuous"`` leads and tests over all mixtures of the box (for concave
        metrics 2K certified programs, for convex ones the arms alone), whenever 1 % more rewards are in; ``"auto"``
        takes that when a phase's grid would pass 20,000 points.

    The paper's guarantee is for Bernoulli arms; on others refinement is a sound heuristic for concave metrics.
    A round works out only what may have changed, with the exceptions of :class:`PMUCB`.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.CIRT(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> arm = policy.ask()
    >>> policy.tell(arm, reward=1.0)
    >>> policy.phase, policy.phase_ends
    (1, ())
    """

    name: ClassVar[str] = "cirt"
    _choose = staticmethod(choose)
    _update = staticmethod(update)

    def __init__(
        self,
        metric: Distortion | None = None,
        *,
        n_arms: int | None = None,
        support: Support | None = None,
        epsilon: float = 0.06,
        branching: int = 4,
        delta: float = 0.05,
        exploration: float = 1.0,
        confidence: Any = "auto",
        stopping: str = "box",
        tolerance: float | None = None,
        search: str = "auto",
        estimates: str = "exact",
        names: Any = None,
        seed: int = 0,
    ) -> None:
        branching = _check.whole("branching", branching, 4)
        if branching % 2:
            raise ValueError(f"branching must be even, so that a kept mixture lies on the next grid; got {branching}.")
        if tolerance is not None:
            tolerance = _check.within("tolerance", tolerance, 0.0)
        self._start(
            metric,
            n_arms,
            support,
            names,
            seed,
            epsilon=_check.within("epsilon", epsilon, 0.0, 1.0, open_lo=True, open_hi=True),
            branching=branching,
            delta=probability(delta),
            exploration=_check.within("exploration", exploration, 0.0, open_lo=True),
            confidence=known_set(confidence),
            stopping=_check.choice("stopping", stopping, ["box", "literal"]),
            tolerance=tolerance,
            search=known_search(search),
            estimates=known_estimates(estimates),
        )

    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o = self.options
        room = (o["branching"] + 1) ** (n_arms - 1)
        chosen = self._confidence_set(support, n_arms)
        literal = o["stopping"] == "literal"
        if literal and o["search"] == "continuous":
            raise ValueError("stopping='literal' compares the mixtures of a grid; use search='grid' or stopping='box'.")
        continuous = continuous_search("grid" if literal else o["search"], room, metric, support, chosen)
        if not continuous and room > LARGEST_PHASE_GRID:
            raise ValueError(
                f"CIRT with {n_arms} arms and branching {o['branching']} looks at up to {room:,} mixtures a round, "
                f"more than {LARGEST_PHASE_GRID:,}; use search='continuous', Track, fewer arms, or branching 4."
            )
        phases = math.ceil(math.log(1.0 / o["epsilon"]) / math.log(o["branching"] / 2) - 1e-9)
        tolerance = o["tolerance"]
        if tolerance is None:
            span = 4.0 * support.sigma if isinstance(support, Real) else support.width
            reach = metric.maximum().value - metric.minimum().value
            spacing = 1.0 / _levels(o["branching"], max(1, phases))
            tolerance = 0.5 * spacing**2 * reach * span
        return Setup(
            grid=np.zeros((1 if continuous else room, n_arms)),
            epsilon=o["epsilon"],
            knobs={
                XI: o["exploration"],
                BRANCHING: o["branching"],
                PHASES: max(1, phases),
                TOLERANCE: tolerance,
                LITERAL: float(literal),
                **search_knobs(continuous, 0.0),
            },
            confidence=chosen,
            begin=begin,
        )

    @property
    def phase(self) -> int | str:
        """The phase of refinement, counted from 1, or ``"track"``."""
        clock = self._peek()["clock"]
        return "track" if clock[TRACKING] else int(clock[PHASE])

    @property
    def phases(self) -> int:
        """How many phases of refinement there are in all."""
        return int(self._view("knobs")[PHASES])

    @property
    def phase_ends(self) -> tuple[int, ...]:
        """After how many rounds each phase so far ended."""
        ends = self._peek()["ends"]
        return tuple(int(t) for t in ends[ends > 0])
