"""Compile all kernels that are usually needed, before they are needed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numba import types

import pmbandits.kit  # noqa: F401 - its kernels are in the list, whether or not somebody has imported it before
from pmbandits._random import philox_random_words
from pmbandits.confidence import _joint_bernoulli as joint_bernoulli
from pmbandits.confidence._bounds import (
    arm_set_radius,
    bernoulli_interval_lower,
    bernoulli_interval_upper,
    fill_arm_kl_band,
    mixture_utility_with_bounds,
)
from pmbandits.engine import _calls as steps
from pmbandits.engine.index_policy import LANES_SIGNATURE
from pmbandits.engine.registry import REGISTRY
from pmbandits.estimates import _change_detector as changing
from pmbandits.estimates import _forgetting as forgetting
from pmbandits.estimates import _sketch as sketching
from pmbandits.metrics import encoding
from pmbandits.mixtures import _joint_regret as joint_regret
from pmbandits.mixtures import _optimistic_bound as optimistic_bound
from pmbandits.mixtures._certifying import fill_certification_gains
from pmbandits.mixtures._continuous_search import update_best_mixture
from pmbandits.optimize import _barrier_problem as barrier
from pmbandits.optimize import _interior_point as interior_point
from pmbandits.policies import baselines
from pmbandits.policies.cirt import cirt
from pmbandits.policies.cirt._kernels import grid_steps_per_unit
from pmbandits.simulation import _kernels as simulation
from pmbandits.simulation import _lane_kernels as lanes
from pmbandits.simulation.progress import ProgressBar
from pmbandits.simulation.workers import resolve_n_jobs
from pmbandits.state import lock
from pmbandits.state.compile import cache_folder, silence_compile_hint
from pmbandits.state.linking import numba_argument_types
from pmbandits.state.precompile import CompileItem, as_compile_item, compile_items_in_order

PACKAGE = "pmbandits"
_POLICY_ORDER = ("vet", "track", "cirt", "pmucb", "ceucb", "pmetc")  # the default policy, and the paper's
_SKETCH = "ints, floats, floats"  # book, items, marks


def _numba_type_of_named_tuple(cls: Any, fields: str) -> Any:
    """numba's type of a named tuple whose fields have these types, in the words of ``shared``."""
    found = numba_argument_types(fields)
    assert len(found) == len(cls._fields), f"{cls.__name__} has {len(cls._fields)} fields, not {len(found)}"
    return types.NamedTuple(found, cls)  # type: ignore[no-untyped-call]


_REWARDS = _numba_type_of_named_tuple(
    simulation.RewardArrays, "words, ints, table of words, ints, table, ints, floats, floats, table, ints"
)
_POLICY = _numba_type_of_named_tuple(simulation.PolicyKernels, "int, int, memory, ints, int, ints, ints, floats, int")
_TRIAL = _numba_type_of_named_tuple(simulation.TrialRecord, "ints, ints, table of ints, table, ints")
_LANES = (
    _numba_type_of_named_tuple(lanes.LanePolicy, "int, int, memory, ints, ints, int"),
    _numba_type_of_named_tuple(lanes.LaneRewards, "int, words, int, ints, table, ints, floats, floats"),
    _numba_type_of_named_tuple(lanes.Lanes, "ints, ints, table of ints, table, table of words, ints, floats, ints"),
    *numba_argument_types("ints"),
    types.Array(types.int64, 3, "C"),
    types.Array(types.float64, 3, "C"),
    types.int64,
)


_WORK = _numba_type_of_named_tuple(
    barrier.Work, ", ".join("table" if field in barrier.TABLES else "floats" for field in barrier.Work._fields)
)


class Warmed(NamedTuple):
    """What :func:`warm` did. When printed, it is a sentence.

    Attributes
    ----------
    compiled : how many kernels it compiled.
    found : how many were compiled already.
    seconds : how long it took.
    folder : the folder in which they are kept.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pmbandits as pmb
    >>> print(pmb.Warmed(compiled=0, found=217, seconds=0.2, folder=Path("kernels")))
    Nothing to do: all 217 kernels are compiled. They are kept in kernels
    """

    compiled: int
    found: int
    seconds: float
    folder: Path

    def __str__(self) -> str:
        if self.compiled == 0:
            return f"Nothing to do: all {self.found} kernels are compiled. They are kept in {self.folder}"
        found = f"; {self.found} were there already" if self.found else ""
        return f"Compiled {self.compiled} kernels in {self.seconds:.0f} s{found}. They are kept in {self.folder}"


def warm(n_jobs: int | None = None, *, progress: bool | None = None) -> Warmed:
    """Compile everything now, so that nothing has to be compiled later: every policy, support and metric.

    Without this, each part (a *kernel*) is compiled when it is first needed. Either way it is kept on disk, so this is
    done only once for each version of the library on a machine. If you stop it, what is compiled is kept. The
    recommended policy comes first, then those of the paper, then all others.

    Parameters
    ----------
    n_jobs : how many worker processes; by default one for each core.
    progress : whether to show a progress bar. By default it is shown on a terminal only.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> print(pmb.warm())  # doctest: +SKIP
    Compiled 217 kernels in 25 s. They are kept in /home/you/.cache/pmbandits/216a7016fe879d0e-py311-numba0.68.1
    """
    start, jobs = time.perf_counter(), resolve_n_jobs(n_jobs)
    silence_compile_hint()  # there is a bar
    items = kernels_to_compile()
    found = {at for at, item in enumerate(items) if item.is_on_disk()}
    with ProgressBar(len(items), len(found), shown=progress, label="compile", unit="kernels") as bar:
        if jobs == 1:
            for at in range(len(items)):
                if at not in found:
                    items[at].compile_or_load()
                    bar.advance(1)
        elif len(found) < len(items):
            _compile_in_parallel(items, found, jobs, bar.advance)
    return Warmed(len(items) - len(found), len(found), time.perf_counter() - start, cache_folder())


@cache
def kernels_to_compile() -> list[CompileItem]:
    """All kernels that :func:`warm` compiles, in this order; every process makes an equal list."""
    return compile_items_in_order(_kernel_entries(), PACKAGE)


def _kernel_entries() -> Iterator[CompileItem]:
    """What Python calls, and the kernels of each policy, with the types of their arguments."""
    yield as_compile_item(steps.ask_one_or_busy, "int, memory")
    yield as_compile_item(steps.tell_one_or_refuse, "memory, int, float")
    yield as_compile_item(steps.ask_one_of_segment_or_busy, "int, memory, int")
    yield as_compile_item(steps.tell_one_of_segment_or_refuse, "memory, int, float")
    policies = {name: cls for name, cls in REGISTRY.items() if cls.__module__.startswith(f"{PACKAGE}.")}
    for name in sorted(
        policies, key=lambda name: _POLICY_ORDER.index(name) if name in _POLICY_ORDER else len(_POLICY_ORDER)
    ):
        cls = policies[name]
        yield as_compile_item(cls._choose, "memory")
        yield as_compile_item(cls._update, "memory")
        if cls._choose_certifying is not cls._choose:
            yield as_compile_item(cls._choose_certifying, "memory")
        if cls._choose_in_lanes is not None:
            yield as_compile_item(cls._choose_in_lanes, LANES_SIGNATURE.partition(" -> ")[0])
        if name == _POLICY_ORDER[0]:  # all that playing needs, before the next policy
            yield as_compile_item(lock.try_lock_memory, "memory, int")
            yield as_compile_item(lock.unlock_memory, "memory, int")
            yield CompileItem(simulation.play_until_stopped, (_POLICY, _REWARDS, _TRIAL, types.int64))
            yield as_compile_item(philox_random_words, "word, word, word, word, word, word")
            yield as_compile_item(steps.fill_next_arms, "int, memory, ints, ints, floats")
            yield as_compile_item(steps.fill_next_arms_among, "int, memory, ints, ints, ints, floats")
            yield as_compile_item(steps.tell_many, "memory, ints, floats")
            yield as_compile_item(steps.replay_events, "int, memory, ints, floats, ints, ints, bool, ints")
            yield as_compile_item(steps.record_active_and_inactive_rewards, "memory, memory, ints, floats")
            yield as_compile_item(steps.count_pull, "memory, int, memory, int")
    yield CompileItem(lanes.play_lanes, _LANES)
    for kernel in (cirt.start_first_phase, baselines.set_mixture_to_fixed_arm):
        yield as_compile_item(kernel, "memory")
    yield as_compile_item(grid_steps_per_unit, "int, int")
    # What readers of a policy call: ``explain``, ``utility_bounds``, ``estimates``, ``certainty``.
    for own in dict.fromkeys(cls._own for cls in policies.values() if "confidence" in cls._declared):
        yield as_compile_item(mixture_utility_with_bounds, "state, floats", own)
        yield as_compile_item(arm_set_radius, "state, int", own)
        yield as_compile_item(fill_arm_kl_band, "state, int, ints, floats, floats", own)
    for asked in (encoding.has_single_peak, encoding.n_extrema, encoding.has_monotone_curvature):
        yield as_compile_item(asked, "floats")
    yield as_compile_item(encoding.h_value, "floats, float")
    yield as_compile_item(optimistic_bound.upper_bound_of_any_mixture, "memory, floats")
    yield as_compile_item(optimistic_bound.set_mix_to_most_optimistic, "memory")
    yield as_compile_item(optimistic_bound.max_lead_of_other_arms, "memory, floats")
    yield as_compile_item(update_best_mixture, "memory")
    yield as_compile_item(fill_certification_gains, "memory, floats")
    yield as_compile_item(joint_regret.fill_survival_bounds_by_cell, "memory, floats, table, table")
    yield as_compile_item(
        joint_regret.fill_mixture_survival_bounds, "floats, floats, floats, table, table, int, floats, floats, floats"
    )
    yield as_compile_item(
        joint_regret.maximise_joint_lead_in_place,
        "floats, floats, floats, floats, floats, table, table, int, floats, floats, floats, floats, floats, ints, "
        "float, int",
    )
    yield as_compile_item(joint_regret.joint_slope_step_error, "floats, float")
    yield as_compile_item(joint_bernoulli.fill_tangents_of_all_arms, "ints, ints, float, float, table, table")
    yield as_compile_item(joint_bernoulli.joint_bernoulli_bounds, "floats, floats, table, table, float, floats")
    yield as_compile_item(bernoulli_interval_lower, "int, float, float")
    yield as_compile_item(bernoulli_interval_upper, "int, float, float")
    count, numbers = numba_argument_types("int, floats")
    yield CompileItem(simulation.fill_next_rewards, (count, count, _REWARDS, numbers, count))
    # The oracle.
    yield CompileItem(barrier.fill_mixture_curve, (_WORK, numbers, numbers))
    yield CompileItem(interior_point.start_interior_point, (_WORK,))
    yield CompileItem(interior_point.advance_interior_point, (_WORK, numba_argument_types("bool")[0]))
    # Sketches, from Python.
    yield as_compile_item(sketching.sketch_init, "ints, floats, int")
    yield as_compile_item(sketching.sketch_total_capacity, "int, int")
    yield as_compile_item(sketching.sketch_add_many, f"{_SKETCH}, int, int, int, floats")
    yield as_compile_item(sketching.merge_sketch_into, f"{_SKETCH}, int, int, int, {_SKETCH}")
    yield as_compile_item(sketching.fill_sketch_item_weights, "ints, ints")
    # Forgetting, and watching for changes.
    for forgets in (forgetting.forget_oldest, forgetting.forget_random, forgetting.forget_arm):
        yield as_compile_item(forgets, "memory, ints, table of ints, int")
    yield as_compile_item(changing.init_change_detector, "ints, floats, ints, floats, int")
    yield as_compile_item(changing.detector_update_until_alarm, "ints, floats, ints, float, floats, int, floats")


def _compile_in_parallel(items: Sequence[CompileItem], found: set[int], jobs: int, tick: Callable[[int], None]) -> None:
    """Compile in several processes: each takes the next one whose parts are there."""
    from joblib.externals.loky import ProcessPoolExecutor

    done, waiting = set(found), [at for at in range(len(items)) if at not in found]
    running: dict[Future[Any], int] = {}
    pool = ProcessPoolExecutor(max_workers=min(jobs, len(waiting)), initializer=_init_compile_worker)
    try:
        while waiting or running:
            ready = [at for at in waiting if items[at].needs <= done]
            for at in ready[: jobs - len(running)]:
                running[pool.submit(_compile_item_at, at)] = at
                waiting.remove(at)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                done.add(running.pop(future))
                tick(1)
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _init_compile_worker() -> None:
    """In a worker: Ctrl-C is for the process that started it, which also says what is going on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence_compile_hint()


def _compile_item_at(at: int) -> None:
    kernels_to_compile()[at].compile_or_load()
