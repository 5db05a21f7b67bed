"""Compile all kernels that are usually needed, before they are needed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pmbandits._random import philox
from pmbandits.confidence._bounds import arm_radius, bounds, lower_end, upper_end
from pmbandits.estimates import _changes as changing
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._forgetting import forget_any, forget_arm, forget_oldest
from pmbandits.mixtures._certifying import gains_now
from pmbandits.mixtures._continuous import best_now
from pmbandits.mixtures._rivals import most_of_any, most_of_others, rival_mixture
from pmbandits.mixtures._together import climb_together, lay_cells, lay_mixture, rounding_of_slopes
from pmbandits.policies import _steps as steps
from pmbandits.policies import cirt, simple
from pmbandits.policies.policy import REGISTRY
from pmbandits.simulation import _kernels as simulation
from pmbandits.simulation.execute import workers
from pmbandits.simulation.progress import Bar
from pmbandits.state import guard
from pmbandits.state.ahead import Item, entry, in_order
from pmbandits.state.compile import cache_folder, no_hint

PACKAGE = "pmbandits"
_FIRST = ("vet", "track", "cirt", "pmucb", "ceucb", "pmetc")  # the default policy, and the paper's
_STREAM = "words, ints, table of words, ints, table, ints, floats, floats, table, ints"  # Stream.arrays
_SKETCH = "ints, floats, floats"  # book, items, marks


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
    start, jobs = time.perf_counter(), workers(n_jobs)
    no_hint()  # there is a bar
    items = usual()
    found = {at for at, item in enumerate(items) if item.on_disk()}
    with Bar(len(items), len(found), shown=progress, label="compile", unit="kernels") as bar:
        if jobs == 1:
            for at in range(len(items)):
                if at not in found:
                    items[at].make()
                    bar.advance(1)
        elif len(found) < len(items):
            _share_out(items, found, jobs, bar.advance)
    return Warmed(len(items) - len(found), len(found), time.perf_counter() - start, cache_folder())


@cache
def usual() -> list[Item]:
    """What is compiled, in this order; the same list in every process."""
    return in_order(_entries(), PACKAGE)


def _entries() -> Iterator[Item]:
    """What Python calls, and the kernels of each policy, with the types of their arguments."""
    yield entry(steps.ask_one, "int, memory")
    yield entry(steps.tell_one, "memory, int, float")
    policies = {name: cls for name, cls in REGISTRY.items() if cls.__module__.startswith(f"{PACKAGE}.")}
    for name in sorted(policies, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        cls = policies[name]
        yield entry(cls._choose, "memory")
        yield entry(cls._update, "memory")
        if name == _FIRST[0]:  # all that playing needs, before the next policy
            yield entry(guard.claim_memory, "memory, int")
            yield entry(guard.release_memory, "memory, int")
            yield entry(
                simulation.play,
                f"int, int, memory, ints, int, ints, {_STREAM}, ints, int, ints, ints, table of ints, table, ints",
            )
            yield entry(philox, "word, word, word, word, word, word")
            yield entry(steps.choose_many, "int, memory, ints")
            yield entry(steps.choose_among, "int, memory, ints, ints")
            yield entry(steps.tell_many, "memory, ints, floats")
            yield entry(steps.follow, "int, memory, ints, floats, bool, ints")
            yield entry(steps.tell_both, "memory, memory, ints, floats")
            yield entry(steps.count_pull, "memory, int")
    for kernel in (cirt.begin, simple.begin_one):
        yield entry(kernel, "memory")
    yield entry(cirt.levels, "int, int")
    # What readers of a policy call: ``explain``, ``utility_bounds``, ``estimates``, ``certainty``.
    for own in {
        tuple(cls._own.items()): cls._own for cls in policies.values() if "confidence" in cls._declared
    }.values():
        yield entry(bounds, "state, floats", own)
        yield entry(arm_radius, "state, int", own)
    yield entry(most_of_any, "memory, floats")
    yield entry(rival_mixture, "memory")
    yield entry(most_of_others, "memory, floats")
    yield entry(best_now, "memory")
    yield entry(gains_now, "memory, floats")
    yield entry(lay_cells, "memory, floats, table, table")
    yield entry(lay_mixture, "floats, floats, floats, table, table, int, floats, floats, floats")
    yield entry(
        climb_together, "floats, floats, floats, floats, floats, table, table, int, floats, floats, floats, float, int"
    )
    yield entry(rounding_of_slopes, "floats, float")
    yield entry(lower_end, "int, float, float")
    yield entry(upper_end, "int, float, float")
    yield entry(simulation.rewards_of, f"int, int, {_STREAM}, floats, int")
    # Sketches, from Python.
    yield entry(sketching.begin, "ints, floats, int")
    yield entry(sketching.total_capacity, "int, int")
    yield entry(sketching.put_all, f"{_SKETCH}, int, int, int, floats")
    yield entry(sketching.join, f"{_SKETCH}, int, int, int, {_SKETCH}")
    yield entry(sketching.spread, "ints, ints")
    # Forgetting, and watching for changes.
    for forgets in (forget_oldest, forget_any, forget_arm):
        yield entry(forgets, "memory, ints, table of ints, int")
    yield entry(changing.begin, "ints, floats, ints, floats, int")
    yield entry(changing.watch_all, "ints, floats, ints, float, floats, int, floats")


def _share_out(items: Sequence[Item], found: set[int], jobs: int, tick: Callable[[int], None]) -> None:
    """Compile in several processes: each takes the next one whose parts are there."""
    from joblib.externals.loky import ProcessPoolExecutor

    done, waiting = set(found), [at for at in range(len(items)) if at not in found]
    running: dict[Future[Any], int] = {}
    pool = ProcessPoolExecutor(max_workers=min(jobs, len(waiting)), initializer=_begin)
    try:
        while waiting or running:
            ready = [at for at in waiting if items[at].needs <= done]
            for at in ready[: jobs - len(running)]:
                running[pool.submit(_make, at)] = at
                waiting.remove(at)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                done.add(running.pop(future))
                tick(1)
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _begin() -> None:
    """In a worker: Ctrl-C is for the process that started it, which also says what is going on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_hint()


def _make(at: int) -> None:
    usual()[at].make()
