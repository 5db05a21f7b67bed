"""Policies that pull the arm with the largest index: an author writes the index of one arm, and the loops are here.

Every index gets two kernels. One decides in one memory. The other decides for many trials of a simulation side by side,
in lanes: arms are the outer loop and lanes the inner one, which the compiler turns into vector instructions. Both do
the same arithmetic for an arm, so they decide alike to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.mixtures._tracking import fewest, n_elapsed_rounds, play_alone, pull
from pmbandits.state.compile import kernel
from pmbandits.state.lanes import lane_state
from pmbandits.state.numba_types import unpack, without_refcount

LANES_SIGNATURE = "memory, int, table of ints, table, ints, floats, ints -> bool"

index: Any = None  # in a kernel: the author's
lane: Any = None


def pull_arm_with_largest_index(memory: int) -> int:
    """Every arm once; then the arm with the largest index, and of equal ones that with the fewest pulls.

    An arm that waits for its first reward has an infinite index.
    """
    s = unpack(memory)
    if n_elapsed_rounds(s) < s.n_arms:
        return pull(s, fewest(s))
    arm, best = 0, -np.inf
    for i in range(s.n_arms):
        value = index(s, i) if s.n_rewards[i] > 0 else np.inf
        if value > best or (value == best and s.pulls[i] < s.pulls[arm]):
            arm, best = i, value
    return pull(s, arm)


def choose_in_lanes(
    memory: int, t: int, pulls: IntArray, sums: FloatArray, arms: IntArray, best: FloatArray, least: IntArray
) -> bool:
    """Write the arm that every lane pulls after t rounds into ``arms``; return whether all indices are finite.

    ``pulls`` and ``sums`` have a row for each arm and a column for each lane; every arm has been pulled. ``best`` and
    ``least`` are working space. If an index is not finite, the result is of no use.
    """
    pulls, sums = without_refcount(pulls), without_refcount(sums)
    arms, best, least = without_refcount(arms), without_refcount(best), without_refcount(least)
    strange = 0
    for j in range(arms.size):
        arms[j], best[j], least[j] = 0, -np.inf, 0
    for i in range(pulls.shape[0]):
        for j in range(arms.size):
            value = index(lane(memory, t, pulls, sums, j), i)
            strange |= int(not abs(value) < np.inf)
            n = pulls[i, j]
            larger = (value > best[j]) | ((value == best[j]) & (n < least[j]))
            best[j] = value if larger else best[j]
            least[j] = n if larger else least[j]
            arms[j] = i if larger else arms[j]
    return strange == 0


@kernel
def set_mixture_to_largest_mean(memory: int) -> None:
    """The mixture is the arm with the largest mean so far."""
    s = unpack(memory)
    arm, best = 0, -np.inf
    for i in range(s.n_arms):
        if s.n_rewards[i] > 0 and s.sums[i] / s.n_rewards[i] > best:
            arm, best = i, s.sums[i] / s.n_rewards[i]
    play_alone(s, arm)


def kernels_of_index(given: Any, opens: Any) -> tuple[Any, Any]:
    """The two kernels of an index; ``opens`` is the policy's own ``unpack``, or ``None``."""
    opens = unpack if opens is None else opens
    alone = kernel(_with_globals(pull_arm_with_largest_index, given, index=given, unpack=opens))
    inside = kernel(given.py_func, python=False, force_inline=True, divides_by_0=True)
    lanes = _with_globals(choose_in_lanes, given, index=inside, lane=lane_state(opens.own))
    return alone, kernel(lanes, python=False, divides_by_0=True)


def _with_globals(template: Callable[..., Any], given: Any, **names: Any) -> Any:
    """A copy of a function in which these global names are others. It counts as part of the index's own file.

    So what is kept on disk for it is made anew when that file changes.
    """
    author = given.py_func
    name = f"{template.__name__}_of_{author.__qualname__}"
    code = template.__code__.replace(
        co_filename=author.__code__.co_filename, co_firstlineno=author.__code__.co_firstlineno, co_name=name
    )
    made: Any = FunctionType(code, {**template.__globals__, **names}, name)
    made.__qualname__, made.__module__ = name, author.__module__
    return made
