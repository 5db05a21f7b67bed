"""From the options of a policy to its memory: how large it is, and which constants it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._bernoulli_wasserstein import SHAPES
from pmbandits.confidence._block_bounds import N_CURVES
from pmbandits.confidence._envelopes import COARSE_TABLE_SIZE
from pmbandits.confidence._kl_bands import NO_HORIZON_LENGTH, n_exact_kl_ends
from pmbandits.confidence.sets import KINDS, NAMES
from pmbandits.engine.capacity import (
    INITIAL_CAPACITY,
    n_sub_gaussian_cells,
    recompute_derived_fields,
    write_state_constants,
)
from pmbandits.engine.confidence_choice import ConfidenceChoice, tail_assumption_as_state_numbers
from pmbandits.engine.forgetting import MAX_RECORDED_CHANGES, Forgetting, start_detector
from pmbandits.engine.options import parse_estimates
from pmbandits.engine.plan import Plan, Setup
from pmbandits.engine.share_constraints import (
    KernelConstraints,
    constraints_for_kernels,
    constraints_of_segments,
)
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._reward_blocks import N_BLOCK_ENDS
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES
from pmbandits.estimates.sketch import max_sketch_items as sketch_capacity
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.encoding import encode_metric, has_single_peak, has_table, n_extrema
from pmbandits.metrics.numeric import JUMP_TOLERANCE, unit_grid_denser_at_ends
from pmbandits.mixtures._survival_table import MAX_KNOTS
from pmbandits.state.layout import MOST, OWN_PREFIX, SIZES, memory_layout_for
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Heavy, Real, Support

LARGEST_REWARD = 1e150  # on a bounded support


class MemoryLimitExceeded(ValueError):
    """A policy from a file would take more memory than it may."""


@dataclass(frozen=True)
class _Basis:
    """What is known of a policy when its memory is made: its problem, its algorithm's wishes, and its options."""

    metric: Distortion
    n_arms: int
    support: Support
    setup: Setup
    forgetting: Forgetting | None
    storage: str  # how rewards are kept: "exact", "binned" or "sketch"
    fineness: int  # bins, or k of the sketches
    rounding: float  # how far rounding to bins moves a reward at most
    coarse_radii: bool  # whether the table of radii has one entry for each range of n only
    decides_by_sets: bool
    encoded: FloatArray  # the metric, for kernels
    points: FloatArray | None  # atoms of the support, or points of bins
    holder: Mapping[str, float]  # the Hölder pair as numbers of the state; empty if there is none
    constraints: KernelConstraints | None
    grid: FloatArray  # the mixtures of the grid; without one, space for one number of each arm
    confidence: ConfidenceSet | None
    set_kind: str  # the kind of the confidence sets; balls if there are none
    has_kl_bands: bool  # whether the confidence sets are KL bands,
    has_gaussian_bands: bool  # those for sub-Gaussian rewards,
    has_unbounded_bands: bool  # or others on an unbounded support
    bounds_grid_changes: bool  # whether changes of the values of grid points are bounded (mixtures/_lazy_argmax.py)
    uses_chords: bool  # whether that is by chords

    @property
    def n_atoms(self) -> int:
        """Points at which rewards are counted; 0 if they are kept one by one."""
        return 0 if self.points is None else self.points.size


class MemoryBuilding(ConfidenceChoice):
    """Makes the memory of a policy from its options."""

    def _build(self, metric: Distortion, n_arms: int, support: Support) -> tuple[Memory, Plan]:
        """New memory for a policy that has seen nothing."""
        basis = self._memory_basis_from_options(metric, n_arms, support)
        _require_sets_with_bounds(basis)
        arrays = _state_arrays_from_options(basis)
        if self._segments is not None:
            arrays["segment_of"] = self._segments.segment_of[list(self._active_arms)]
        drops = basis.forgetting is not None and basis.forgetting.forgets_rewards
        sizes = _array_sizes_by_name(basis) | {
            "n_ball_grid": arrays["ball_grid"].size,
            "n_earlier_pulls": n_arms if self._roster is not None or drops else 0,
            "n_segments": len(self.segments),
            "n_segmented": n_arms if self.segments else 0,
        }
        self._check_memory_limit(sizes)
        memory = Memory.allocate(sizes, self._own)
        numbers = {
            **_state_numbers_from_options(basis, self.options.get("horizon")),
            "seed": self.seed,
            "rank_delta": self._sketch_failure_probability(n_arms),
            "mix_is_feasible": int(type(self).__module__.startswith("pmbandits.")),
            **basis.setup.numbers,
        }
        self._set_state_numbers(memory, numbers)
        memory.grid[:], memory.mix[:] = basis.grid, 1.0 / n_arms
        if basis.constraints is not None:
            memory.mix[:] = basis.constraints.start
        for book, marks in zip(memory.sketch_header, memory.sketch_stats, strict=True):
            sketching.sketch_init(book, marks, basis.fineness)
        rounding_safe = not isinstance(support, Binary) or _is_stable_under_rounding(metric)
        keeps_all = not basis.n_atoms and basis.storage != "sketch"
        plan = Plan(basis.setup, arrays, rounding_safe, keeps_all, basis.decides_by_sets, basis.forgetting)
        write_state_constants(memory, plan)
        for arm in range(memory.n_detectors):
            assert basis.forgetting is not None
            start_detector(memory, basis.forgetting, arm)
        if basis.setup.begin is not None:
            basis.setup.begin(memory.address)
        memory.dirty = 1
        recompute_derived_fields(memory)
        return memory, plan

    def _memory_basis_from_options(self, metric: Distortion, n_arms: int, support: Support) -> _Basis:
        storage, fineness = self._reward_storage_and_size(support)
        forgetting = self._forgetting(n_arms, support)
        if np.isfinite(support.width) and max(abs(support.lo), abs(support.hi)) > LARGEST_REWARD:
            raise ValueError(
                f"rewards of {support!r} are too large for a policy, because their squares are no numbers of 64 bits; "
                f"measure them in a larger unit, so that none is larger than {LARGEST_REWARD:g}."
            )
        setup = self.setup(metric, n_arms, support)
        if not isinstance(setup, Setup):
            raise TypeError(
                f"setup of {type(self).__name__} must end with return Setup(...), but it returned "
                f"{_validation.short_repr(setup)}."
            )
        points = None
        if isinstance(support, (Binary, Finite)):
            points = support.atoms
        elif storage == "binned":
            points = np.linspace(support.lo, support.hi, fineness + 1)
        chosen = setup.confidence
        kind = "ball" if chosen is None else chosen.kind
        gaussian = isinstance(support, Real) and chosen is not None and chosen.mean_failure > 0.0
        encoded, holder = encode_metric(metric), holder_pair_as_state_numbers(metric, support)
        bounds_changes = chosen is not None and not isinstance(support, (Binary, Heavy)) and storage != "sketch"
        uses_chords = (  # for concave h with at most one peak that is not Lipschitz, or with KL bands
            bounds_changes
            and metric.shape in ("concave", "linear")
            and np.isfinite(support.width)
            and (holder.get("holder_q") != 1.0 or kind == "kl_band")
            and (has_single_peak(encoded) or n_extrema(encoded) == 0)
        )
        return _Basis(
            metric=metric,
            n_arms=n_arms,
            support=support,
            setup=setup,
            forgetting=forgetting,
            storage=storage,
            fineness=fineness,
            rounding=self._max_rounding_error(support),
            coarse_radii=parse_estimates(self.options.get("estimates", "exact"))[0] in ("binned", "sketch"),
            decides_by_sets=self._uses_sets or setup.certifies,
            encoded=encoded,
            points=points,
            holder=holder,
            constraints=self._constraints_for_kernels(),
            grid=np.zeros((n_arms, n_arms)) if setup.grid is None else setup.grid,
            confidence=chosen,
            set_kind=kind,
            has_kl_bands=chosen is not None and kind == "kl_band",
            has_gaussian_bands=gaussian,
            has_unbounded_bands=gaussian or (isinstance(support, Heavy) and chosen is not None),
            bounds_grid_changes=bounds_changes,
            uses_chords=bool(uses_chords),
        )

    def _constraints_for_kernels(self) -> KernelConstraints | None:
        if self.limits is None:
            return None
        if self._segments is None:
            return constraints_for_kernels(self.limits)
        mine = self._segments.segment_of[list(self._active_arms)]
        return constraints_of_segments(self.limits, mine, len(self._segments))

    def _set_state_numbers(self, memory: Memory, numbers: Mapping[str, Any]) -> None:
        own = {field.name for field in self._own}
        for given, number in numbers.items():
            name = OWN_PREFIX + given if OWN_PREFIX + given in own else given
            if name.startswith(OWN_PREFIX):
                memory.field(name)[...] = self._checked_own_numbers(given, number, memory, name)
                continue
            if name in own and name in memory.places.arrays:
                memory.field(name)[...] = number
                continue
            if not memory.has_scalar(name):
                raise ValueError(
                    f"{type(self).__name__} sets a number {name!r} that its state does not have; declare it, unpack = "
                    f"state({name}=float), and give the class that unpack: class ...(Policy, ..., unpack=unpack)."
                )
            setattr(memory, name, number)

    def _checked_own_numbers(self, given: str, number: Any, memory: Memory, name: str) -> FloatArray:
        """The first values of what a user's policy keeps of its own, or an error that says what was declared."""
        place, single = memory.field(name), name in memory.places.scalars
        what = f"the number {given!r} of {type(self).__name__}"
        values = _validation.to_float_array(what, number, what="a number, or an array of numbers")
        if values.ndim > 0 and (single or values.shape != place.shape):
            wanted = "it is declared as one number" if single else f"it is declared with the shape {place.shape}"
            raise ValueError(
                f"{what} begins with an array of shape {values.shape}, but {wanted}; give that, "
                f"or one number{'' if single else ' for all places'}."
            )
        is_whole = np.isfinite(values) & (np.abs(values) <= MOST) & (np.floor(values) == values)
        if place.dtype == np.int64 and not is_whole.all():
            raise ValueError(
                f"{what} begins with {_validation.short_repr(number)}, but it is declared as int; give whole numbers, "
                "or declare it as float."
            )
        return values

    def _check_memory_limit(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes that would take more memory than the policy may have, before any memory is taken."""
        needed = 8 * memory_layout_for(*(int(sizes.get(name, 0)) for name in SIZES), own=self._own).end
        if self._max_bytes is not None and needed > self._max_bytes:
            raise MemoryLimitExceeded(f"{needed:,}")

    def _memory_resized_for(self, memory: Memory, rewards: int, most: int) -> Memory:
        """Memory of a policy resized for so many rewards in all and of one arm; raises if that takes too much."""
        sizes = memory.sizes
        if self._plan.keeps_all_rewards:
            sizes["reward_capacity"] = max(sizes["reward_capacity"], rewards)
        if sizes["window_capacity"]:
            sizes["window_capacity"] = max(sizes["window_capacity"], rewards)
        if self.confidence is not None and memory.coarse_radii == 0:
            # Policies that do not look at their sets need the table as soon as somebody asks for them.
            self._check_memory_limit({**sizes, "n_radii": max(sizes["n_radii"], most + 2)})
            if self._plan.decides_by_sets:
                sizes["n_radii"] = max(sizes["n_radii"], most + 2)
        self._check_memory_limit(sizes)
        if sizes == memory.sizes:
            return memory
        larger = memory.resized(**{name: sizes[name] for name in ("reward_capacity", "n_radii", "window_capacity")})
        write_state_constants(larger, self._plan)
        return larger


def _array_sizes_by_name(basis: _Basis) -> dict[str, int]:
    """The sizes on which the shapes of all arrays depend; those that are not named are 0."""
    k, forgetting, setup, chosen = basis.n_arms, basis.forgetting, basis.setup, basis.confidence
    buffer = sketch_capacity(basis.fineness) if basis.storage == "sketch" else 0
    first = min(INITIAL_CAPACITY, forgetting.most) if forgetting is not None and forgetting.kind else INITIAL_CAPACITY
    watches_arms = forgetting is not None and forgetting.on_change != ""
    n_radii = COARSE_TABLE_SIZE if basis.coarse_radii else INITIAL_CAPACITY * basis.decides_by_sets
    lipschitz_bands = (
        basis.has_kl_bands
        and basis.bounds_grid_changes
        and not basis.has_gaussian_bands
        and basis.holder.get("holder_q") == 1.0
    )
    return {
        "n_arms": k,
        "n_encoded": basis.encoded.size,
        # what keeps rewards, forgets them and watches the arms
        "n_atoms": basis.n_atoms,
        "reward_capacity": 0 if basis.n_atoms else k * buffer or first,
        "n_sketches": k if buffer else 0,
        "sketch_capacity": buffer,
        "n_pool_weights": k * buffer,
        "window_capacity": first if forgetting is not None and forgetting.kind == "window" else 0,
        "n_detectors": k if watches_arms else 0,
        "n_forgetting_counters": 3 if forgetting is not None else 0,
        "n_found_changes": MAX_RECORDED_CHANGES if watches_arms else 0,
        # confidence sets, and what bounds the changes of grid points by them
        "n_radii": 0 if chosen is None else n_radii,
        "n_lazy": k if basis.bounds_grid_changes else 0,
        "n_lazy_chords": k if basis.uses_chords or lipschitz_bands else 0,
        "n_block_curves": k * N_CURVES if _n_block_ends(basis) else 0,
        "n_block_ends": _n_block_ends(basis),
        "n_kl_bands": k if basis.has_kl_bands else 0,
        "n_tail_multipliers": 3 if basis.has_unbounded_bands else 0,
        "line_capacity": n_sub_gaussian_cells(k) if basis.has_gaussian_bands and basis.decides_by_sets else 0,
        # what an algorithm asks for: grid, survival table, slopes, certifying and limits
        "n_grid": basis.grid.shape[0],
        "n_vetted": k if setup.table else 0,
        "knot_capacity": (basis.n_atoms or MAX_KNOTS) if setup.table else 0,
        "n_slopes": k if setup.slopes else 0,
        "n_certifying": k if setup.certifies else 0,
        **({} if basis.constraints is None else basis.constraints.sizes),
    }


def _n_block_ends(basis: _Basis) -> int:
    """How many ends of blocks of rewards to keep: for grids of two arms, exact rewards, concave h, at most one peak."""
    useful = (
        basis.setup.blocks
        and basis.bounds_grid_changes
        and basis.storage == "exact"
        and basis.n_atoms == 0
        and basis.n_arms == 2
        and basis.grid.shape[0] > 0
        and basis.metric.shape in ("concave", "linear")
        and not has_table(basis.encoded)
        and (has_single_peak(basis.encoded) or n_extrema(basis.encoded) == 0)
    )
    return N_BLOCK_ENDS if useful else 0


def _state_arrays_from_options(basis: _Basis) -> dict[str, Any]:
    """The arrays of the state that follow from the options."""
    arrays: dict[str, Any] = {"h": basis.encoded, "ball_grid": np.zeros(1)}
    if basis.points is not None:
        arrays["points"] = basis.points
    metric = basis.metric
    if metric.shape == "neither" and basis.set_kind == "ball":
        steps = [side for u, _ in metric.jumps for side in (u, u + 2.0 * JUMP_TOLERANCE)]
        arrays["ball_grid"] = np.unique(
            np.concatenate((unit_grid_denser_at_ends(4097), [*metric._critical_points(), *steps]))
        )
    return arrays if basis.constraints is None else {**arrays, **basis.constraints.arrays}


def _state_numbers_from_options(basis: _Basis, horizon: int | None) -> dict[str, float]:
    """The single numbers of the state that follow from the options, before the algorithm sets its own."""
    forgetting, support, metric, chosen = basis.forgetting, basis.support, basis.metric, basis.confidence
    offset = 0.0
    if chosen is not None and basis.set_kind != "ball":
        offset = _utility_error_of_rounding(metric, support, basis.rounding)
    plain = chosen is not None and chosen.kind == "ball" and (chosen.name == "paper" or chosen.name not in NAMES)
    return {
        # how rewards are kept, and where they can lie
        "storage_mode": BINARY if isinstance(support, Binary) else FINITE if basis.n_atoms else SAMPLES,
        "bounded": int(np.isfinite(support.width)),
        "sketch_size": basis.fineness if basis.storage == "sketch" else 0,
        "low": support.lo,
        "high": support.hi,
        "rounding": basis.rounding,
        "alarm_threshold": np.log(basis.n_arms / forgetting.level) if forgetting and forgetting.on_change else 0.0,
        # the metric: its shape, and how far utilities can differ
        "metric_shape": SHAPES[metric.shape],
        "max_h": metric.maximum().value,
        "max_abs_h": max(abs(metric.maximum().value), abs(metric.minimum().value)),
        "lipschitz": _ball_holder_constant(metric, support, chosen),
        **basis.holder,
        # confidence sets
        **(tail_assumption_as_state_numbers(metric, support, chosen) if basis.has_unbounded_bands else {}),
        "set_kind": KINDS.index(basis.set_kind),
        "stretched": int(chosen is not None and chosen.stretched),
        "uses_chords": int(basis.uses_chords),
        "n_exact_ends": n_exact_kl_ends(_largest_n_times_kl_radius(chosen, horizon)) if basis.has_kl_bands else 0,
        "coarse_radii": int(basis.coarse_radii),
        "paper_bonus": int(plain),
        "rounding_utility_bound": offset,
        # the search for a mixture
        "n_grid_used": basis.grid.shape[0],
        "current_point": -1,
        "search_tolerance": 0.01,
        "exploration": 1.0,
        "constraint_kind": 0 if basis.constraints is None else basis.constraints.kind,
    }


def _require_sets_with_bounds(basis: _Basis) -> None:
    """Refuse confidence sets of the user's own that there are no bounds for on this support."""
    if basis.confidence is None:
        return
    kind, support = basis.set_kind, basis.support
    bounded_only = kind in ("band", "kl_band") and not basis.has_unbounded_bands
    if bounded_only and not np.isfinite(support.width):
        raise ValueError(f"a {kind} of your own needs a bounded support; take confidence='auto'.")
    if isinstance(support, Heavy) and kind != "kl_band":
        raise ValueError(f"for heavy tails ({support!r}) a set must be of kind 'kl_band', not {kind!r}; take 'auto'.")


def _largest_n_times_kl_radius(chosen: ConfidenceSet | None, horizon: int | None) -> float:
    """The largest n·radius(n) of a KL band, at the most rewards that it is made for."""
    n = NO_HORIZON_LENGTH if horizon is None else max(horizon, 2)
    return n * float(chosen.radius(n)) if chosen is not None else 0.0


def holder_pair_as_state_numbers(metric: Distortion, support: Support) -> dict[str, float]:
    """The Hölder pair as numbers of the state; none if there is none."""
    try:
        pair = metric.holder(support)
    except ValueError:
        return {}
    return {"holder_q": pair.q, "holder_c": pair.constant}


def _ball_holder_constant(metric: Distortion, support: Support, confidence: ConfidenceSet | None) -> float:
    """The constant of the metric's Hölder pair where bounds need it: for balls on ``Real``; 0 elsewhere."""
    if confidence is None or not isinstance(support, Real) or confidence.kind != "ball":
        return 0.0
    try:
        return metric.holder(support).constant
    except ValueError as error:
        raise ValueError(f"{error} Confidence bounds on Real rewards need it: declare Interval(lo, hi).") from None


def _utility_error_of_rounding(metric: Distortion, support: Support, rounding: float) -> float:
    """The most by which rounding all rewards can move U_h: rounding times the total variation of h.

    Where the bound by the Hölder pair is smaller, that one.
    """
    if rounding == 0.0:
        return 0.0
    places = np.unique(
        [0.0, *metric._critical_points(), *(side for u, _ in metric.jumps for side in (u, u + 2e-12)), 1.0]
    )
    utility_error = rounding * float(np.abs(np.diff(metric(places))).sum())
    try:
        pair = metric.holder(support)
    except ValueError:
        return utility_error
    return min(utility_error, pair.constant * rounding**pair.q)


def _is_stable_under_rounding(metric: Distortion) -> bool:
    modulus = metric._holder_modulus_or_reason()
    return not isinstance(modulus, str) and modulus[0] >= 0.5
