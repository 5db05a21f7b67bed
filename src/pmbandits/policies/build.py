"""From the options of a policy to its memory: how large it is, and which constants it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._belts import LONG, side_of
from pmbandits.confidence._ends import COARSE_TABLE, coarse_counts
from pmbandits.confidence._kernels import SHAPES
from pmbandits.confidence.sets import KINDS
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES
from pmbandits.estimates.sketch import room as sketch_room
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, warped_grid
from pmbandits.metrics.packed import n_extrema, pack, single_peak
from pmbandits.mixtures._laws import KNOTS
from pmbandits.policies import limited
from pmbandits.policies.forgetting import (
    NOTED,
    Forgetting,
    alarms,
    begin_watching,
    forget,
    forgetting_of,
    joined,
    settle,
)
from pmbandits.policies.options import how_kept
from pmbandits.policies.sets import kept, rank_delta, rounding_of, tail_numbers
from pmbandits.state.layout import SIZES, places
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Heavy, Real, Support

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy

FIRST_ROOM = 256  # rewards and radii that a new policy has room for; doubled when full
_NO_LIMIT = 1 << 62
_PIECE = 1 << 16
LARGEST_REWARD = 1e150  # on a bounded support


@dataclass
class Setup:
    """What an algorithm needs in its state. It is worked out once metric, arms and support are known.

    Parameters
    ----------
    grid : the mixtures among which it chooses, one in each row. For each row there is space for one number in ``value``
        and in ``index``. Without a grid there is space for one number of each arm.
    epsilon : the spacing of the grid, if it has one.
    numbers : single numbers of the state, by name: the policy's own, and those of the library that it sets.
    confidence : the confidence sets that it keeps, if any.
    begin : a kernel that is run once on the new state.
    table : whether the arms' distributions are also laid out on a table of cells, and arms that are left out are
        tested.
    slopes : whether there is space for one slope of each arm, in ``slope``, and for its variance, in ``spread``.
    """

    grid: FloatArray | None = None
    epsilon: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    confidence: ConfidenceSet | None = None
    begin: Callable[[int], Any] | None = None
    table: bool = False
    slopes: bool = False

    @property
    def certifies(self) -> bool:
        """Whether a share of the pulls serves to be certain sooner."""
        return self.numbers.get("certify", 0.0) > 0.0


@dataclass(frozen=True)
class Plan:
    """What stays the same while a policy's memory grows: constants, and how rewards are kept."""

    setup: Setup
    arrays: Mapping[str, FloatArray]
    steady: bool  # whether rounding of a probability cannot move h by more than the policies' margins
    exact: bool  # whether all rewards are kept, so that the pool must grow
    live: bool  # whether the algorithm itself looks at its confidence sets; if not, radii are made for readers only
    forgetting: Forgetting | None = None  # which rewards are forgotten, and whether arms are watched

    @property
    def confidence(self) -> ConfidenceSet | None:
        """The confidence sets."""
        return self.setup.confidence


def build(policy: Policy, metric: Distortion, n_arms: int, support: Support) -> tuple[Memory, Plan]:
    """New memory for a policy that has seen nothing."""
    how, fineness = kept(policy, support)
    forgetting = forgetting_of(policy, n_arms, support)
    if np.isfinite(support.width) and max(abs(support.lo), abs(support.hi)) > LARGEST_REWARD:
        raise ValueError(
            f"rewards of {support!r} are too large for a policy, because their squares are no numbers of 64 bits; "
            f"measure them in a larger unit, so that none is larger than {LARGEST_REWARD:g}."
        )
    setup = policy.setup(metric, n_arms, support)
    live = policy._uses_sets or setup.certifies
    grid = np.zeros((n_arms, n_arms)) if setup.grid is None else setup.grid
    kind = setup.confidence.kind if setup.confidence is not None else "ball"
    heavy = isinstance(support, Heavy) and setup.confidence is not None
    gauss = isinstance(support, Real) and setup.confidence is not None and setup.confidence.mean_failure > 0.0
    tailed = heavy or gauss  # belts on the line
    if setup.confidence is not None and kind in ("band", "belt") and not np.isfinite(support.width) and not tailed:
        raise ValueError(f"a {kind} of your own needs a bounded support; take confidence='auto'.")
    if heavy and kind != "belt":
        raise ValueError(f"for heavy tails ({support!r}) a set must be of kind 'belt', not {kind!r}; take 'auto'.")
    lipschitz, rounding, packed = _lipschitz(metric, support, setup), rounding_of(policy, support), pack(metric)
    offset = _worth_of_rounding(metric, support, rounding) if setup.confidence is not None and kind != "ball" else 0.0
    arrays = {"h": packed, "table": np.zeros(1)}
    if isinstance(support, (Binary, Finite)):
        arrays["points"] = support.atoms
    elif how == "binned":
        arrays["points"] = np.linspace(support.lo, support.hi, fineness + 1)
    if metric.shape == "neither" and kind == "ball":
        steps = [side for u, _ in metric.jumps for side in (u, u + 2.0 * JUMP_TOLERANCE)]
        arrays["table"] = np.unique(np.concatenate((warped_grid(4097), [*metric._critical(), *steps])))
    coarse = how_kept(policy.options.get("estimates", "exact"))[0] in ("binned", "sketch")
    buffer = sketch_room(fineness) if how == "sketch" else 0
    n_atoms = arrays["points"].size if "points" in arrays else 0
    watched = setup.confidence is not None and not isinstance(support, (Binary, Heavy)) and not buffer
    pair = holder_numbers(metric, support)
    chordal = watched and _needs_chords(metric, support, packed, pair, kind)
    belts = setup.confidence is not None and kind == "belt"
    gate = None if policy.limits is None else limited.gate(policy.limits)
    first = min(FIRST_ROOM, forgetting.most) if forgetting is not None and forgetting.kind else FIRST_ROOM
    sizes: dict[str, int] = {
        "n_arms": n_arms,
        "n_atoms": n_atoms,
        "n_grid": grid.shape[0],
        "room": 0 if n_atoms else n_arms * buffer or first,
        "n_radii": 0 if setup.confidence is None else COARSE_TABLE if coarse else FIRST_ROOM * live,
        "n_packed": packed.size,
        "n_table": arrays["table"].size,
        "n_watched": n_arms if watched else 0,
        "n_chords": n_arms if chordal or (belts and watched and not gauss and pair.get("holder_q") == 1.0) else 0,
        "n_sketches": n_arms if buffer else 0,
        "sketch_room": buffer,
        "n_mass": n_arms * buffer,
        "n_vetted": n_arms if setup.table else 0,
        "knot_room": (n_atoms or KNOTS) if setup.table else 0,
        "n_slopes": n_arms if setup.slopes else 0,
        "n_sure": n_arms if setup.certifies else 0,
        "n_belts": n_arms if belts else 0,
        "n_prices": 3 if tailed else 0,
        "n_line": line_room(n_arms) if gauss and live else 0,
        **({} if gate is None else gate.sizes),
        "n_past": n_arms if policy._bench is not None or (forgetting is not None and forgetting.drops) else 0,
        "n_recent": first if forgetting is not None and forgetting.kind == "window" else 0,
        "n_watched_arms": n_arms if forgetting is not None and forgetting.watches else 0,
        "n_tally": 3 if forgetting is not None else 0,
        "n_noted": NOTED if forgetting is not None and forgetting.watches else 0,
    }
    affordable(policy, sizes)
    memory = Memory.allocate(sizes, policy._own)
    numbers: dict[str, float] = {
        "seed": policy.seed,
        "mode": BINARY if isinstance(support, Binary) else FINITE if n_atoms else SAMPLES,
        "bounded": int(np.isfinite(support.width)),
        "sketch_size": fineness if buffer else 0,
        "low": support.lo,
        "high": support.hi,
        "rounding": rounding,
        "rank_delta": rank_delta(policy, n_arms),
        "metric_shape": SHAPES[metric.shape],
        "peak": metric.maximum().value,
        "lipschitz": lipschitz,
        **pair,
        **(tail_numbers(metric, support, setup.confidence) if tailed else {}),
        "set_kind": KINDS.index(kind),
        "watch_depth": np.log(n_arms / forgetting.level) if forgetting is not None and forgetting.watches else 0.0,
        "stretched": int(setup.confidence is not None and setup.confidence.stretched),
        "chordal": int(chordal),
        "belt_side": side_of(_deepest(setup.confidence, policy.options.get("horizon"))) if belts else 0,
        "coarse": int(coarse),
        "plain_bonus": int(setup.confidence is not None and setup.confidence.name == "paper"),
        "offset": offset,
        "used": grid.shape[0],
        "current": -1,
        "fineness": 0.01,
        "exploration": 1.0,
        "gate": 0 if gate is None else gate.kind,
        "mix_kept": int(type(policy).__module__.startswith("pmbandits.")),
        **setup.numbers,
    }
    for name, number in numbers.items():
        if not memory.has_number(name):
            raise ValueError(
                f"{type(policy).__name__} sets a number {name!r} that its state does not have; declare it, "
                f"unpack = state({name}=float), and give the class that unpack: class ...(Policy, ..., unpack=unpack)."
            )
        setattr(memory, name, number)
    memory.grid[:], memory.mix[:] = grid, 1.0 / n_arms
    if gate is not None:
        arrays.update(gate.arrays)
        memory.mix[:], memory.corner_shares[:] = gate.start, 1.0 / max(memory.n_corners, 1)
    for book, marks in zip(memory.sketch_book, memory.sketch_marks, strict=True):
        sketching.begin(book, marks, fineness)
    plan = Plan(
        setup,
        arrays,
        not isinstance(support, Binary) or _is_steady(metric),
        not n_atoms and not buffer,
        live,
        forgetting,
    )
    fill(memory, plan)
    for arm in range(memory.n_watched_arms):
        assert forgetting is not None
        begin_watching(memory, forgetting, arm)
    if setup.begin is not None:
        setup.begin(memory.address)
    memory.dirty = 1
    recall(memory)
    return memory, plan


class TooLarge(ValueError):
    """A policy from a file would take more memory than it may."""


def affordable(policy: Policy, sizes: Mapping[str, int]) -> None:
    """Refuse sizes that would take more memory than the policy may have, before any memory is taken."""
    needed = 8 * places(*(int(sizes.get(name, 0)) for name in SIZES)).end
    if policy._most_bytes is not None and needed > policy._most_bytes:
        raise TooLarge(f"{needed:,}")


def _deepest(chosen: ConfidenceSet | None, horizon: int | None) -> float:
    """The depth n·radius(n) of a belt at the most rewards that it is made for."""
    n = LONG if horizon is None else max(horizon, 2)
    return n * float(chosen.radius(n)) if chosen is not None else 0.0


def fill(memory: Memory, plan: Plan) -> None:
    """Write the constants that follow from the options and the sizes."""
    for name, content in plan.arrays.items():
        part = memory.field(name)
        if part.size:  # a shelf of arms that do not play has no limits to keep
            part[:] = content
    limit_rewards(memory, plan)
    memory.most_told = _NO_LIMIT
    if plan.confidence is None or memory.n_radii == 0:
        return
    radii, falling = memory.radii, True
    if memory.coarse == 1:
        radii[:] = plan.confidence.radius(coarse_counts())
        falling = bool(np.all(radii[2:] <= radii[1:-1]))
        if not falling:
            raise ValueError(
                f"the radii of {plan.confidence.name} do not fall with n, so a table of bounded size cannot "
                "hold them; take estimates='exact'."
            )
    else:
        memory.most_told = radii.size - 1 if plan.live else _NO_LIMIT
        for at in range(0, radii.size, _PIECE):  # in pieces: the table can be long, and its temporaries longer
            piece = plan.confidence.radius(np.arange(at, min(at + _PIECE, radii.size)))
            radii[at : at + _PIECE] = piece
            before = radii[max(at, 2) - 1 : at + piece.size - 1]
            falling &= bool(np.all(radii[max(at, 2) : at + piece.size] <= before))
    # With sketches radii do not fall: a compaction can widen a set.
    memory.radii_fall = int(plan.steady and falling and memory.sketch_size == 0)


def limit_rewards(memory: Memory, plan: Plan) -> None:
    """At how many rewards memory must grow, or some must be forgotten; at none while a change is to be dealt with."""
    memory.most_rewards = memory.room if plan.exact else _NO_LIMIT
    if plan.forgetting is None:
        return
    if plan.forgetting.kind:
        memory.most_rewards = min(memory.most_rewards, memory.n_recent or _NO_LIMIT, plan.forgetting.most)
    if alarms(memory).size:
        memory.most_rewards = 0


def settled(memory: Memory, plan: Plan) -> Forgetting | None:
    """Deal with changes of arms that were found, so that there is room again; returns the plan's forgetting."""
    if plan.forgetting is not None and alarms(memory).size:
        settle(memory, plan.forgetting)
        limit_rewards(memory, plan)
    return plan.forgetting


def room_for(policy: Policy, memory: Memory, rewards: int, most: int) -> Memory:
    """New memory of a policy with room for so many rewards in all, and so many of one arm, if it may take so much."""
    sizes = memory.sizes
    if policy._plan.exact:
        sizes["room"] = max(sizes["room"], rewards)
    if sizes["n_recent"]:
        sizes["n_recent"] = max(sizes["n_recent"], rewards)
    if policy.confidence is not None and memory.coarse == 0:
        # Policies that do not look at their sets need the table as soon as somebody asks for them.
        affordable(policy, {**sizes, "n_radii": max(sizes["n_radii"], most + 2)})
        if policy._plan.live:
            sizes["n_radii"] = max(sizes["n_radii"], most + 2)
    affordable(policy, sizes)
    if sizes == memory.sizes:
        return memory
    larger = memory.resized(**{name: sizes[name] for name in ("room", "n_radii", "n_recent")})
    fill(larger, policy._plan)
    return larger


def roomier(memory: Memory, plan: Plan, more: int = 1, limit: int | None = None) -> Memory:
    """The memory, or a larger copy of it in which so many more rewards fit, whichever arms they are from.

    The copy is at least twice as large where it must grow, but not larger than ``limit`` rewards need. Where rewards
    are forgotten, that makes room in the memory itself: for one more reward at least, not for all.
    """
    forgetting = settled(memory, plan)
    if forgetting is not None and forgetting.kind:
        if memory.rewards >= forgetting.most:
            forget(memory, forgetting)
        more = min(more, forgetting.most - memory.rewards)
        limit = forgetting.most if limit is None else min(limit, forgetting.most)

    def enough(needed: int, doubled: int) -> int:
        return max(needed, doubled if limit is None else min(doubled, limit))

    sizes = {}
    rewards, most = memory.rewards + more, int(memory.told.max(initial=0)) + more
    if rewards > memory.most_rewards:
        for name in ("room", "n_recent"):
            if memory.sizes[name]:
                sizes[name] = enough(rewards, 2 * memory.sizes[name])
    if most > memory.most_told:
        sizes["n_radii"] = enough(most, 2 * max(most, FIRST_ROOM // 2)) + 2
    if not sizes:
        return memory
    larger = memory.resized(**sizes)
    fill(larger, plan)
    return larger


def with_room(memory: Memory, plan: Plan, more: int) -> Memory:
    """A copy with room for this many more rewards, even if some of them must be forgotten then."""
    sizes = {name: memory.rewards + more for name in ("room", "n_recent") if memory.sizes[name]}
    larger = memory.resized(**sizes) if sizes else memory
    fill(larger, plan)
    return larger


def forget_after_merge(memory: Memory, other: Memory, plan: Plan) -> Memory:
    """What two policies that forget keep together, in memory as large as that of one."""
    forgetting = plan.forgetting
    assert forgetting is not None
    if forgetting.drops:
        joined(memory, other, forgetting)
        forgetting.after(memory)
    if forgetting.kind and memory.rewards > forgetting.keep:
        forget(memory, forgetting)
        sizes = {name: forgetting.most for name in ("room", "n_recent") if memory.sizes[name]}
        memory = memory.resized(**sizes) if sizes else memory
        fill(memory, plan)
    return memory


def with_radii(memory: Memory, plan: Plan) -> Memory:
    """The memory, or a copy of it, in which the table has the radii with which to work out the confidence sets now."""
    most = int(memory.told.max(initial=0))
    lacks_line = memory.tail_sigma > 0.0 and memory.n_line == 0
    has_radii = memory.coarse == 1 or most < memory.n_radii
    if plan.confidence is None or (has_radii and not lacks_line):
        return memory
    larger = memory.resized(
        n_radii=memory.n_radii if has_radii else most + 1,
        n_line=line_room(memory.n_arms) if lacks_line else memory.n_line,
    )
    larger.line_at = 0
    if not has_radii:
        larger.radii[memory.told] = plan.confidence.radius(memory.told)  # no others are looked at
    return larger


def line_room(n_arms: int) -> int:
    """In how many cells belts on the line are laid out (``confidence/_line.py``): fewer for many arms."""
    return min(max((1 << 19) // n_arms, 512), 4096)


def recall(memory: Memory) -> None:
    """Work out again what bounds the changes of values and is not saved: sums of squares, and the largest reward."""
    if memory.sketch_size > 0 or memory.mode == BINARY:
        return
    with np.errstate(over="ignore"):
        if memory.mode == SAMPLES:
            x, owner = memory.x[: memory.rewards], memory.owner[: memory.rewards]
            memory.squares[:] = np.bincount(owner, weights=x**2, minlength=memory.n_arms)
        else:
            x = memory.points
            memory.squares[:] = memory.counts @ x**2
    ends = np.array([memory.low, memory.high])
    memory.largest = np.abs(np.append(x, ends[np.isfinite(ends)])).max(initial=0.0)


def holder_numbers(metric: Distortion, support: Support) -> dict[str, float]:
    """The Hölder pair as numbers of the state; none if there is none."""
    try:
        pair = metric.holder(support)
    except ValueError:
        return {}
    return {"holder_q": pair.q, "holder_c": pair.constant}


def _lipschitz(metric: Distortion, support: Support, setup: Setup) -> float:
    if setup.confidence is None or not isinstance(support, Real) or setup.confidence.kind != "ball":
        return 0.0
    try:
        return metric.holder(support).constant
    except ValueError as error:
        raise ValueError(f"{error} Confidence bounds on Real rewards need it: declare Interval(lo, hi).") from None


def _worth_of_rounding(metric: Distortion, support: Support, rounding: float) -> float:
    """By how much rounding all rewards can move U_h: quantiles move by that much, and h's total variation weighs them.

    Or, where that is less, by the Hölder pair.
    """
    if rounding == 0.0:
        return 0.0
    places = np.unique([0.0, *metric._critical(), *(side for u, _ in metric.jumps for side in (u, u + 2e-12)), 1.0])
    worth = rounding * float(np.abs(np.diff(metric(places))).sum())
    try:
        pair = metric.holder(support)
    except ValueError:
        return worth
    return min(worth, pair.constant * rounding**pair.q)


def _needs_chords(metric: Distortion, support: Support, packed: FloatArray, pair: dict[str, float], kind: str) -> bool:
    """Whether changes are bounded by chords: for concave h with at most one peak that is not Lipschitz; or in belts."""
    if metric.shape not in ("concave", "linear") or not np.isfinite(support.width):
        return False
    if pair.get("holder_q") == 1.0 and kind != "belt":
        return False
    return bool(single_peak(packed) or n_extrema(packed) == 0)


def _is_steady(metric: Distortion) -> bool:
    modulus = metric._modulus()
    return not isinstance(modulus, str) and modulus[0] >= 0.5
