"""From the options of a policy to its memory: how large it is, and which constants it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.confidence._bernoulli_wasserstein import SHAPES
from pmbandits.confidence._envelopes import COARSE_TABLE_SIZE
from pmbandits.confidence._kl_bands import NO_HORIZON_LENGTH, n_exact_ends_for
from pmbandits.confidence.sets import KINDS, NAMES
from pmbandits.engine.capacity import INITIAL_CAPACITY, line_cells_for, recompute_derived, write_constants
from pmbandits.engine.confidence_choice import ConfidenceChoice, tail_numbers
from pmbandits.engine.forgetting import MAX_RECORDED_CHANGES, Forgetting, start_detector
from pmbandits.engine.options import parse_estimates
from pmbandits.engine.plan import Plan, Setup
from pmbandits.engine.share_constraints import KernelConstraints, kernel_constraints
from pmbandits.estimates import _sketch as sketching
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES
from pmbandits.estimates.sketch import max_items as sketch_capacity
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.encoding import encode, has_single_peak, n_extrema
from pmbandits.metrics.numeric import JUMP_TOLERANCE, graded_grid
from pmbandits.mixtures._survival_table import MAX_KNOTS
from pmbandits.state.layout import SIZES, places
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

    @property
    def confidence(self) -> ConfidenceSet | None:
        """The confidence sets, if there are any."""
        return self.setup.confidence

    @property
    def set_kind(self) -> str:
        """The kind of the confidence sets; balls if there are none."""
        return "ball" if self.confidence is None else self.confidence.kind

    @property
    def has_gaussian_bands(self) -> bool:
        """Whether there are KL bands for sub-Gaussian rewards."""
        return isinstance(self.support, Real) and self.confidence is not None and self.confidence.mean_failure > 0.0

    @property
    def has_unbounded_bands(self) -> bool:
        """Whether there are KL bands on an unbounded support."""
        return (isinstance(self.support, Heavy) and self.confidence is not None) or self.has_gaussian_bands

    @property
    def has_kl_bands(self) -> bool:
        """Whether the confidence sets are KL bands."""
        return self.confidence is not None and self.set_kind == "kl_band"

    @property
    def n_atoms(self) -> int:
        """Points at which rewards are counted; 0 if they are kept one by one."""
        return 0 if self.points is None else self.points.size

    @property
    def sketch_capacity(self) -> int:
        """Numbers that fit into a sketch; 0 without sketches."""
        return sketch_capacity(self.fineness) if self.storage == "sketch" else 0

    @property
    def bounds_grid_changes(self) -> bool:
        """Whether it is bounded how far the values of grid points can have changed (``mixtures/_lazy_argmax.py``)."""
        countable = isinstance(self.support, (Binary, Heavy))
        return self.confidence is not None and not countable and self.storage != "sketch"

    @property
    def uses_chords(self) -> bool:
        """Whether that is by chords: for concave h with at most one peak that is not Lipschitz, or with KL bands."""
        if not self.bounds_grid_changes or self.metric.shape not in ("concave", "linear"):
            return False
        if not np.isfinite(self.support.width):
            return False
        if self.holder.get("holder_q") == 1.0 and self.set_kind != "kl_band":
            return False
        return bool(has_single_peak(self.encoded) or n_extrema(self.encoded) == 0)

    @property
    def watches_arms(self) -> bool:
        """Whether each arm is watched for changes."""
        return self.forgetting is not None and self.forgetting.on_change != ""


class MemoryBuilding(ConfidenceChoice):
    """Makes the memory of a policy from its options."""

    def _build(self, metric: Distortion, n_arms: int, support: Support) -> tuple[Memory, Plan]:
        """New memory for a policy that has seen nothing."""
        basis = self._basis(metric, n_arms, support)
        _require_possible_sets(basis)
        arrays = _constant_arrays(basis)
        sizes = {**_reward_sizes(basis), **_set_sizes(basis), **_feature_sizes(basis)}
        sizes |= {"n_encoded": basis.encoded.size, "n_ball_grid": arrays["ball_grid"].size}
        drops = basis.forgetting is not None and basis.forgetting.drops
        sizes["n_earlier_pulls"] = n_arms if self._roster is not None or drops else 0
        self._check_memory_limit(sizes)
        memory = Memory.allocate(sizes, self._own)
        numbers = {
            **_support_numbers(basis),
            **_metric_numbers(basis),
            **_set_numbers(basis, self.options.get("horizon")),
            **_search_numbers(basis),
            "seed": self.seed,
            "rank_delta": self._rank_delta(n_arms),
            "mix_is_feasible": int(type(self).__module__.startswith("pmbandits.")),
            **basis.setup.numbers,
        }
        self._write_numbers(memory, numbers)
        memory.grid[:], memory.mix[:] = _grid(basis), 1.0 / n_arms
        if basis.constraints is not None:
            memory.mix[:] = basis.constraints.start
        for book, marks in zip(memory.sketch_header, memory.sketch_stats, strict=True):
            sketching.sketch_init(book, marks, basis.fineness)
        rounding_safe = not isinstance(support, Binary) or _is_stable_under_rounding(metric)
        keeps_all = not basis.n_atoms and basis.storage != "sketch"
        plan = Plan(basis.setup, arrays, rounding_safe, keeps_all, basis.decides_by_sets, basis.forgetting)
        write_constants(memory, plan)
        for arm in range(memory.n_detectors):
            assert basis.forgetting is not None
            start_detector(memory, basis.forgetting, arm)
        if basis.setup.begin is not None:
            basis.setup.begin(memory.address)
        memory.dirty = 1
        recompute_derived(memory)
        return memory, plan

    def _basis(self, metric: Distortion, n_arms: int, support: Support) -> _Basis:
        storage, fineness = self._reward_storage(support)
        forgetting = self._forgetting(n_arms, support)
        if np.isfinite(support.width) and max(abs(support.lo), abs(support.hi)) > LARGEST_REWARD:
            raise ValueError(
                f"rewards of {support!r} are too large for a policy, because their squares are no numbers of 64 bits; "
                f"measure them in a larger unit, so that none is larger than {LARGEST_REWARD:g}."
            )
        setup = self.setup(metric, n_arms, support)
        points = None
        if isinstance(support, (Binary, Finite)):
            points = support.atoms
        elif storage == "binned":
            points = np.linspace(support.lo, support.hi, fineness + 1)
        return _Basis(
            metric=metric,
            n_arms=n_arms,
            support=support,
            setup=setup,
            forgetting=forgetting,
            storage=storage,
            fineness=fineness,
            rounding=self._max_rounding(support),
            coarse_radii=parse_estimates(self.options.get("estimates", "exact"))[0] in ("binned", "sketch"),
            decides_by_sets=self._uses_sets or setup.certifies,
            encoded=encode(metric),
            points=points,
            holder=holder_numbers(metric, support),
            constraints=None if self.limits is None else kernel_constraints(self.limits),
        )

    def _write_numbers(self, memory: Memory, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            if not memory.has_scalar(name):
                raise ValueError(
                    f"{type(self).__name__} sets a number {name!r} that its state does not have; declare it, unpack = "
                    f"state({name}=float), and give the class that unpack: class ...(Policy, ..., unpack=unpack)."
                )
            setattr(memory, name, number)

    def _check_memory_limit(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes that would take more memory than the policy may have, before any memory is taken."""
        needed = 8 * places(*(int(sizes.get(name, 0)) for name in SIZES), own=self._own).end
        if self._max_bytes is not None and needed > self._max_bytes:
            raise MemoryLimitExceeded(f"{needed:,}")

    def _resized_for(self, memory: Memory, rewards: int, most: int) -> Memory:
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
        write_constants(larger, self._plan)
        return larger


# ---- sizes -----------------------------------------------------------------------------------------------------


def _grid(basis: _Basis) -> FloatArray:
    """The mixtures of the grid; without one, space for one number of each arm."""
    return np.zeros((basis.n_arms, basis.n_arms)) if basis.setup.grid is None else basis.setup.grid


def _reward_sizes(basis: _Basis) -> dict[str, int]:
    """The sizes of what keeps rewards, forgets them and watches the arms."""
    k, forgetting, buffer = basis.n_arms, basis.forgetting, basis.sketch_capacity
    forgets = forgetting is not None and forgetting.kind != ""
    first = min(INITIAL_CAPACITY, forgetting.most) if forgetting is not None and forgets else INITIAL_CAPACITY
    return {
        "n_arms": k,
        "n_atoms": basis.n_atoms,
        "reward_capacity": 0 if basis.n_atoms else k * buffer or first,
        "n_sketches": k if buffer else 0,
        "sketch_capacity": buffer,
        "n_pool_weights": k * buffer,
        "window_capacity": first if forgetting is not None and forgetting.kind == "window" else 0,
        "n_detectors": k if basis.watches_arms else 0,
        "n_forgetting_counters": 3 if forgetting is not None else 0,
        "n_found_changes": MAX_RECORDED_CHANGES if basis.watches_arms else 0,
    }


def _set_sizes(basis: _Basis) -> dict[str, int]:
    """The sizes of confidence sets, and of what bounds the changes of grid points by them."""
    k, n_radii = basis.n_arms, 0
    if basis.confidence is not None:
        n_radii = COARSE_TABLE_SIZE if basis.coarse_radii else INITIAL_CAPACITY * basis.decides_by_sets
    lipschitz_bands = (
        basis.has_kl_bands
        and basis.bounds_grid_changes
        and not basis.has_gaussian_bands
        and basis.holder.get("holder_q") == 1.0
    )
    return {
        "n_radii": n_radii,
        "n_lazy": k if basis.bounds_grid_changes else 0,
        "n_lazy_chords": k if basis.uses_chords or lipschitz_bands else 0,
        "n_kl_bands": k if basis.has_kl_bands else 0,
        "n_tail_multipliers": 3 if basis.has_unbounded_bands else 0,
        "line_capacity": line_cells_for(k) if basis.has_gaussian_bands and basis.decides_by_sets else 0,
    }


def _feature_sizes(basis: _Basis) -> dict[str, int]:
    """The sizes of what an algorithm asks for: grid, survival table, slopes, certifying and limits."""
    k, setup = basis.n_arms, basis.setup
    return {
        "n_grid": _grid(basis).shape[0],
        "n_vetted": k if setup.table else 0,
        "knot_capacity": (basis.n_atoms or MAX_KNOTS) if setup.table else 0,
        "n_slopes": k if setup.slopes else 0,
        "n_certifying": k if setup.certifies else 0,
        **({} if basis.constraints is None else basis.constraints.sizes),
    }


# ---- constants -------------------------------------------------------------------------------------------------


def _constant_arrays(basis: _Basis) -> dict[str, Any]:
    """The arrays of the state that follow from the options."""
    arrays: dict[str, Any] = {"h": basis.encoded, "ball_grid": np.zeros(1)}
    if basis.points is not None:
        arrays["points"] = basis.points
    metric = basis.metric
    if metric.shape == "neither" and basis.set_kind == "ball":
        steps = [side for u, _ in metric.jumps for side in (u, u + 2.0 * JUMP_TOLERANCE)]
        arrays["ball_grid"] = np.unique(np.concatenate((graded_grid(4097), [*metric._critical(), *steps])))
    return arrays if basis.constraints is None else {**arrays, **basis.constraints.arrays}


def _support_numbers(basis: _Basis) -> dict[str, float]:
    """Single numbers about rewards: how they are kept, and where they can lie."""
    forgetting, support = basis.forgetting, basis.support
    return {
        "storage_mode": BINARY if isinstance(support, Binary) else FINITE if basis.n_atoms else SAMPLES,
        "bounded": int(np.isfinite(support.width)),
        "sketch_size": basis.fineness if basis.storage == "sketch" else 0,
        "low": support.lo,
        "high": support.hi,
        "rounding": basis.rounding,
        "alarm_threshold": np.log(basis.n_arms / forgetting.level)
        if forgetting is not None and basis.watches_arms
        else 0.0,
    }


def _metric_numbers(basis: _Basis) -> dict[str, float]:
    """Single numbers about the metric: its shape, and how far utilities can differ."""
    return {
        "metric_shape": SHAPES[basis.metric.shape],
        "max_h": basis.metric.maximum().value,
        "max_abs_h": max(abs(basis.metric.maximum().value), abs(basis.metric.minimum().value)),
        "lipschitz": _lipschitz(basis.metric, basis.support, basis.setup),
        **basis.holder,
    }


def _set_numbers(basis: _Basis, horizon: int | None) -> dict[str, float]:
    """Single numbers about confidence sets."""
    chosen = basis.confidence
    offset = 0.0
    if chosen is not None and basis.set_kind != "ball":
        offset = _utility_error_of_rounding(basis.metric, basis.support, basis.rounding)
    plain = chosen is not None and chosen.kind == "ball" and (chosen.name == "paper" or chosen.name not in NAMES)
    return {
        **(tail_numbers(basis.metric, basis.support, chosen) if basis.has_unbounded_bands else {}),
        "set_kind": KINDS.index(basis.set_kind),
        "stretched": int(chosen is not None and chosen.stretched),
        "uses_chords": int(basis.uses_chords),
        "n_exact_ends": n_exact_ends_for(_largest_band_depth(chosen, horizon)) if basis.has_kl_bands else 0,
        "coarse_radii": int(basis.coarse_radii),
        "paper_bonus": int(plain),
        "rounding_utility_bound": offset,
    }


def _search_numbers(basis: _Basis) -> dict[str, float]:
    """Single numbers about the search for a mixture, before the algorithm sets its own."""
    return {
        "n_grid_used": _grid(basis).shape[0],
        "current_point": -1,
        "search_tolerance": 0.01,
        "exploration": 1.0,
        "constraint_kind": 0 if basis.constraints is None else basis.constraints.kind,
    }


def _require_possible_sets(basis: _Basis) -> None:
    """Refuse confidence sets of the user's own that there are no bounds for on this support."""
    if basis.confidence is None:
        return
    kind, support = basis.set_kind, basis.support
    bounded_only = kind in ("band", "kl_band") and not basis.has_unbounded_bands
    if bounded_only and not np.isfinite(support.width):
        raise ValueError(f"a {kind} of your own needs a bounded support; take confidence='auto'.")
    if isinstance(support, Heavy) and kind != "kl_band":
        raise ValueError(f"for heavy tails ({support!r}) a set must be of kind 'kl_band', not {kind!r}; take 'auto'.")


def _largest_band_depth(chosen: ConfidenceSet | None, horizon: int | None) -> float:
    """The largest n·radius(n) of a KL band, at the most rewards that it is made for."""
    n = NO_HORIZON_LENGTH if horizon is None else max(horizon, 2)
    return n * float(chosen.radius(n)) if chosen is not None else 0.0


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


def _utility_error_of_rounding(metric: Distortion, support: Support, rounding: float) -> float:
    """The most by which rounding all rewards can move U_h: rounding times the total variation of h.

    Where the bound by the Hölder pair is smaller, that one.
    """
    if rounding == 0.0:
        return 0.0
    places = np.unique([0.0, *metric._critical(), *(side for u, _ in metric.jumps for side in (u, u + 2e-12)), 1.0])
    utility_error = rounding * float(np.abs(np.diff(metric(places))).sum())
    try:
        pair = metric.holder(support)
    except ValueError:
        return utility_error
    return min(utility_error, pair.constant * rounding**pair.q)


def _is_stable_under_rounding(metric: Distortion) -> bool:
    modulus = metric._modulus()
    return not isinstance(modulus, str) and modulus[0] >= 0.5
