"""Limits on the shares of a policy: its options ``shares``, ``cost`` and ``budget``, and what kernels need of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray, IntArray
from pmbandits.constraints import Limits, limits
from pmbandits.constraints.polytope import FEASIBILITY_TOLERANCE, Polytope
from pmbandits.mixtures._constraint_tracking import JOINT_LIMITS, SINGLE_ARM_LIMITS
from pmbandits.mixtures._constraints import fill_linear_maximiser_within_rows
from pmbandits.segments import Segments

OPTIONS = ("shares", "cost", "budget")
MAX_CORNERS = 512  # so many corners are listed at most, for metrics that are convex; among more goes a search
_SWEEPS = 2000  # passes of the projection of a grid onto the limits


class KernelConstraints(NamedTuple):
    """Limits on shares as kernels need them: sizes and contents of state fields, and a feasible start mixture."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]
    kind: int
    start: FloatArray


# ---- options -----------------------------------------------------------------------------------------------


def check_shares(name: str, value: Any) -> Any:
    """Limits as text, as a dictionary, as limits that were read before, or a list of these."""
    if not isinstance(value, (str, Mapping, Limits, list, tuple)):
        raise TypeError(
            f"{name} must be text like 'A >= 10%; B + C <= 0.3' or a dictionary like {{'A': (0.1, 1.0)}}, "
            f"got {_validation.short_repr(value)}."
        )
    return value


def check_cost(name: str, value: Any) -> Any:
    """What a pull of each arm costs."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dictionary like {{'A': 2.0}}, got {_validation.short_repr(value)}.")
    return dict(value)


def check_budget(name: str, value: Any) -> float:
    """What a round may cost on average."""
    return _validation.check_number(name, value)


def do_options_have_limits(options: Mapping[str, Any]) -> bool:
    """Whether the options of a policy have limits among them."""
    return any(key in options for key in OPTIONS)


def limits_from_options(
    options: dict[str, Any], names: Sequence[str], segments: Segments | None = None
) -> Limits | None:
    """The limits among the options of a policy, which become one text there; ``None`` without limits.

    A recipe that does not know its arms yet keeps what it was given. It is read when the recipe is bound.
    """
    given = {key: options.pop(key) for key in OPTIONS if key in options}
    given = {key: value for key, value in given.items() if value is not None}
    if ("cost" in given) != ("budget" in given):
        limits(None, ("A",), cost=given.get("cost"), budget=given.get("budget"))  # says what is missing
    if not given or not names:
        options.update(given)
        return None
    found = limits(given.get("shares"), names, cost=given.get("cost"), budget=given.get("budget"), segments=segments)
    if not len(found):
        return None
    options["shares"] = str(found)
    return found


# ---- what compiled code needs --------------------------------------------------------------------------------


def single_arm_bounds(found: Limits) -> tuple[FloatArray, FloatArray] | None:
    """The least and the largest share of each arm, if no limit is on several arms."""
    least, most = np.zeros(len(found.names)), np.ones(len(found.names))
    for row, bound, equal in zip(found.matrix, found.bound, found.equal, strict=True):
        at = np.flatnonzero(row)
        if at.size != 1:
            return None
        i = int(at[0])
        share = float(bound / row[i])
        if equal or row[i] < 0.0:
            least[i] = max(least[i], share)
        if equal or row[i] > 0.0:
            most[i] = min(most[i], share)
    return least, np.maximum(most, least)


def constraints_for_kernels(found: Limits) -> KernelConstraints:
    """What compiled code needs to keep these limits; refuses limits that leave an arm no share at all."""
    count, ends = len(found.names), single_arm_bounds(found)
    polytope = found.polytope
    sizes = {"n_limited": count, "has_share_limits": 1}
    if ends is not None:
        least, most = ends
        _require_all_arms_playable(found, np.minimum(most, 1.0 - (least.sum() - least)))
        corners = polytope.corners(MAX_CORNERS)
        start = np.full(count, 1.0 / count)
        if (start < least).any() or (start > most).any():  # the even mixture, as far as the limits allow
            start = _nearest_even_mixture(least, most)
        arrays: dict[str, Any] = {"min_shares": least, "max_shares": most}
        if corners is not None:
            sizes["n_corners"] = corners.shape[0]
            arrays["corners"] = corners
        return KernelConstraints(sizes, arrays, SINGLE_ARM_LIMITS, start)
    rows, bounds = polytope.inequalities
    corners = polytope.corners(MAX_CORNERS)
    if corners is not None:
        fullest, emptiest = corners[corners.argmax(axis=0)], corners[corners.argmin(axis=0)]
        sizes["n_corners"] = corners.shape[0]
    else:
        fullest, emptiest = (_extreme_mixtures(rows, bounds, sign) for sign in (1.0, -1.0))
    _require_all_arms_playable(found, fullest.diagonal())
    sizes |= {"n_limit_rows": rows.shape[0]}
    arrays = {
        "min_shares": emptiest.diagonal(),
        "max_shares": fullest.diagonal(),
        "limit_rows": rows,
        "limit_bounds": bounds,
        "fullest_mixtures": fullest,
        "lag_bounds": np.append(_bounds_on_joint_lag_of_arms(count), 0.0) + 1e-9,
    }
    if corners is not None:
        arrays["corners"] = corners
    even = np.full((1, count), 1.0 / count)
    return KernelConstraints(sizes, arrays, JOINT_LIMITS, project_grid(found, even)[0])


def constraints_of_segments(found: Limits, segment_of: IntArray, n_segments: int) -> KernelConstraints:
    """What compiled code needs to keep these limits on the columns of a policy with segments."""
    if n_segments == 1:  # limits within it and over everybody are the same
        return constraints_for_kernels(found)
    count, polytope = len(found.names), found.polytope
    assert found.segment_of_limit is not None
    rows, bounds = polytope.inequalities
    _require_all_arms_playable(found, _extreme_mixtures(rows, bounds, 1.0).diagonal())
    start, fullest, lags = np.zeros(count), np.zeros((count, count)), np.zeros(count)
    for segment in range(n_segments):
        mine = np.flatnonzero(segment_of == segment)
        if not mine.size:
            continue
        own = np.flatnonzero(found.segment_of_limit == segment)
        within = Polytope(polytope.matrix[own][:, mine], polytope.bound[own], polytope.equal[own])
        if within.any_feasible_mixture() is None:
            playing = ", ".join(found.names[i] for i in mine[:5])
            raise ValueError(f"{playing} alone cannot keep the limits ({found}); change who plays.")
        fullest[np.ix_(mine, mine)] = _extreme_mixtures(*within.inequalities, 1.0)
        even = np.full((1, mine.size), 1.0 / mine.size)
        start[mine] = (_project_onto_polytope(within, even)[0] if own.size else even[0]) / n_segments
        if mine.size > 1:
            lags[mine[:-1]] = _bounds_on_joint_lag_of_arms(mine.size) + 1e-9
    present = np.unique(segment_of).size == n_segments
    if present and (found.segment_of_limit < 0).any():  # limits over everybody, where segments are equally frequent
        everybody = polytope.with_segments(segment_of)
        if everybody.any_feasible_mixture() is not None:
            start = _project_onto_polytope(everybody, start[None, :])[0]
    sizes = {"n_limited": count, "has_share_limits": 1, "n_limit_rows": rows.shape[0]}
    arrays = {
        "min_shares": np.zeros(count),
        "max_shares": np.ones(count),
        "limit_rows": rows,
        "limit_bounds": bounds,
        "fullest_mixtures": fullest,
        "lag_bounds": lags,
    }
    return KernelConstraints(sizes, arrays, JOINT_LIMITS, start / start.sum())


def _extreme_mixtures(rows: FloatArray, bounds: FloatArray, sign: float) -> FloatArray:
    """For each arm the mixture within the limits in which it has the largest share; the least one if sign is −1."""
    count = rows.shape[1]
    out, scratch = np.empty((count, count)), np.empty(count)
    for arm, slopes in enumerate(np.eye(count)):
        fill_linear_maximiser_within_rows(rows, bounds, sign * slopes, out[arm], scratch)
    return out


def _nearest_even_mixture(least: FloatArray, most: FloatArray) -> FloatArray:
    """The mixture of a box that is nearest to the even one: each share is the same number, or at a limit."""
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if np.clip(middle, least, most).sum() < 1.0:
            low = middle
        else:
            high = middle
    found = np.clip(high, least, most)
    inside = (found > least) & (found < most)
    if inside.any():
        found[inside] += (1.0 - found.sum()) / inside.sum()
    return np.asarray(found)


def _require_all_arms_playable(found: Limits, most: FloatArray) -> None:
    never = [name for name, share in zip(found.names, most, strict=True) if share <= FEASIBILITY_TOLERANCE]
    if never:
        raise ValueError(
            f"no mixture within the limits plays {', '.join(never[:5])} ({found}): leave the arm out, or "
            "raise its limit."
        )


def worst_case_excess(found: Limits) -> FloatArray:
    """By how many pulls each limit is exceeded at most, at any time, whatever a policy proposes.

    In units of its largest coefficient. One pull where all limits are on single arms. Otherwise it follows from the
    lags of ``mixtures/_constraint_tracking.py``: an arm is ahead by at most 1, the j arms furthest behind by at most
    j·(H_K − H_j) + j/(K·(K − 1)) together. These are the worst cases.

    >>> worst_case_excess(limits("A >= 10%; B <= 0.3", ["A", "B", "C"]))
    array([1., 1.])
    >>> worst_case_excess(limits("B + C <= 0.3", ["A", "B", "C"])).round(2)
    array([1.])
    """
    if single_arm_bounds(found) is not None:
        return np.ones(len(found))
    steps = np.append(np.diff(_bounds_on_joint_lag_of_arms(len(found.names)), prepend=0.0), 0.0)
    out = []
    for row, equal in zip(found.polytope.matrix, found.equal, strict=True):
        sides = (row, -row) if equal else (row,)
        out.append(max(_largest_row_excess(side, steps) for side in sides))
    return np.array(out)


def _bounds_on_joint_lag_of_arms(count: int) -> FloatArray:
    """The most pulls by which the 1, 2, … K − 1 arms furthest behind their shares can be behind together."""
    harmonic = np.cumsum(1.0 / np.arange(1, count + 1))
    return np.asarray(np.arange(1, count) * (harmonic[-1] - harmonic[:-1] + 1.0 / (count * (count - 1))))


def _largest_row_excess(row: FloatArray, steps: FloatArray) -> float:
    """The largest Σ row·(pulls − X), where pulls − X adds up to 0: any number may be added to the row."""
    found = []
    for shift in np.unique(row):
        moved = row - shift
        behind = np.sort(np.maximum(-moved, 0.0))[::-1]
        found.append(float(np.maximum(moved, 0.0).sum() + behind @ np.maximum(steps, 0.0)))
    return min(found)


def feasible_share_floor(found: Limits | None, floor: float) -> float:
    """The smallest share of every arm in a continuous search; smaller where the limits do not allow it."""
    ends = None if found is None else single_arm_bounds(found)
    if ends is None:
        return floor
    least, most = ends
    return max(0.0, min(floor, float(most.min()), (1.0 - float(least.sum())) / least.size))


# ---- grids -----------------------------------------------------------------------------------------------------


def project_grid(found: Limits | None, grid: FloatArray) -> FloatArray:
    """A grid within the limits that is as fine as the given one: every point moves to the nearest mixture there.

    The nearest points of two mixtures are not further apart than the two are. So every mixture that keeps the limits
    has a point as near as before; and points that kept the limits stay where they are.
    """
    if found is None:
        return grid
    polytope = found.polytope
    outside = polytope.excess(grid).max(axis=1, initial=0.0) > 1e-12
    moved = grid.copy()
    moved[outside] = _project_onto_polytope(polytope, grid[outside])
    _, first = np.unique(np.round(moved, 9), axis=0, return_index=True)
    return np.ascontiguousarray(moved[np.sort(first)])


def _project_onto_polytope(polytope: Polytope, points: FloatArray) -> FloatArray:
    """The nearest mixture within the limits of each point: Hildreth's method, one multiplier at a time."""
    count = polytope.n_arms
    rows, bounds = polytope.inequalities
    rows = np.vstack((rows, -np.eye(count)))
    bounds = np.append(bounds, np.zeros(count))
    mean = rows.mean(axis=1)
    rows, bounds = rows - mean[:, None], bounds - mean  # Σ a = 1, so a constant may go; then steps keep the sum
    sizes = (rows**2).sum(axis=1)
    kept = sizes > 1e-18
    rows, bounds, sizes = rows[kept], bounds[kept], sizes[kept]
    at = points.copy()
    multipliers = np.zeros((points.shape[0], rows.shape[0]))
    for _ in range(_SWEEPS):
        before = at.copy()
        for r in range(rows.shape[0]):
            step = np.maximum((at @ rows[r] - bounds[r]) / sizes[r], -multipliers[:, r])
            multipliers[:, r] += step
            at -= step[:, None] * rows[r]
        if np.abs(at - before).max(initial=0.0) < 1e-13:
            break
    inside = polytope.mixture_in_the_middle()
    assert inside is not None
    at = np.maximum(at, 0.0)
    at /= at.sum(axis=1, keepdims=True)
    for _ in range(40):  # what is left of rounding: a little towards the middle
        violating = polytope.excess(at).max(axis=1, initial=0.0) > 1e-10
        if not violating.any():
            break
        at[violating] += 1e-3 * (inside - at[violating])
    return at
