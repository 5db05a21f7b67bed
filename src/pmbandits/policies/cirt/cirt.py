"""CIRT: refine intervals of the simplex, then track. Anytime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits.engine.grid_choice import (
    check_even_number,
    search_option_within_limits,
    search_options_as_state_numbers,
    use_continuous_search,
)
from pmbandits.engine.options import (
    above,
    check_confidence,
    check_search,
    known_estimates,
    one_of,
    option,
    probability,
    within,
)
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._tracking import explore_or_track, pull
from pmbandits.policies.cirt._kernels import fill_phase_grid, grid_steps_per_unit, refine_if_due, unpack
from pmbandits.state.compile import kernel
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory
from pmbandits.supports import Support

LARGEST_PHASE_GRID = 200_000


@kernel
def choose(memory: int) -> int:
    """Algorithm 4 (``algorithm:anytime``)."""
    s = unpack(memory)
    refine_if_due(s)
    return pull(s, explore_or_track(s))


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    refine_if_due(unpack(memory))


@kernel
def start_first_phase(memory: int) -> None:
    """The first phase."""
    s = unpack(memory)
    s.phase = 1
    if s.continuous == 0:
        fill_phase_grid(s)


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
    branching: int = option(default=4, check=check_even_number)
    delta: float = option(default=0.05, check=probability)
    exploration: float = option(default=1.0, check=above(0.0))
    sets: Any = option(default="auto", alias="confidence", check=check_confidence)
    stopping: str = option(default="box", check=one_of("box", "literal"))
    tolerance: float | None = option(default=None, check=within(0.0))
    search: str = option(default="auto", check=check_search)
    keep: str = option(default="exact", alias="estimates", check=known_estimates)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        o, chosen = self.options, self.choose_confidence_set(support, n_arms)
        max_grid_size, literal = (o["branching"] + 1) ** (n_arms - 1), o["stopping"] == "literal"
        if literal and o["search"] == "continuous":
            raise ValueError("stopping='literal' compares the mixtures of a grid; use search='grid' or stopping='box'.")
        search = search_option_within_limits(self.limits, "grid" if literal else o["search"], metric)
        continuous = use_continuous_search(search, max_grid_size, metric, support, chosen, self.limits)
        if not continuous and max_grid_size > LARGEST_PHASE_GRID:
            raise ValueError(
                f"CIRT with {n_arms} arms and branching {o['branching']} looks at up to {max_grid_size:,} mixtures a "
                f"round, more than {LARGEST_PHASE_GRID:,}; use search='continuous', Track, fewer arms, or branching 4."
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
            h_range = metric.maximum().value - metric.minimum().value
            tolerance = 0.5 / grid_steps_per_unit(o["branching"], max(1, phases)) ** 2 * h_range * span
        return Setup(
            grid=np.zeros((1 if continuous else max_grid_size, n_arms)),
            epsilon=o["epsilon"],
            numbers={
                "exploration": o["exploration"],
                "branching": o["branching"],
                "phases": max(1, phases),
                "tolerance": tolerance,
                "literal": int(literal),
                **search_options_as_state_numbers(continuous, 0.0),
            },
            confidence=chosen,
            begin=start_first_phase,
        )

    def holds_together(self, memory: Memory) -> bool:
        m, done = memory, memory.phase - 1 + memory.tracking
        if not (1 <= m.phase <= m.phases and 0 <= m.tracking <= 1) or (m.tracking and m.phase < m.phases):
            return False
        if m.phase_ends[done:].any() or (np.diff(m.phase_ends[:done]) < 0).any():
            return False
        if m.continuous == 1:
            on_grid = m.grid_steps.any() or m.kept_mixture.any()
            return not on_grid and (done == 0 or abs(float(m.grid[0].sum()) - 1.0) < 1e-6)
        total = grid_steps_per_unit(m.branching, done) if done else 0
        if m.kept_mixture.max() > total or m.kept_mixture.sum() != total:
            return False
        if m.tracking:  # one mixture from now on, so nobody looks at the others of the grid
            return True
        anew = m.copy()
        fill_phase_grid(anew)  # from the mixture that was kept
        same = anew.n_grid_used == m.n_grid_used and np.array_equal(
            anew.grid_steps[: m.n_grid_used], m.grid_steps[: m.n_grid_used]
        )
        return bool(same and np.allclose(anew.grid[: m.n_grid_used], m.grid[: m.n_grid_used], rtol=0.0, atol=1e-12))

    @property
    def phase(self) -> int | str:
        """The phase of refinement, counted from 1, or ``"track"``."""
        memory = self._memory_of_updated_clone()
        return "track" if memory.tracking else memory.phase

    @property
    def phases(self) -> int:
        """How many phases of refinement there are in all."""
        self._require_bound_policy()
        return self._memory.phases

    @property
    def phase_ends(self) -> tuple[int, ...]:
        """After how many rounds each phase so far ended. Phases begin anew when the arms that play change."""
        return tuple(self._clock_start_round + int(t) for t in self._memory_of_updated_clone().phase_ends if t > 0)
