"""The oracle: the best mixture of known arms, found in the way that suits the metric and the arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.best.branch import MOST_ARMS, branch_and_bound
from pmbandits.best.concave import maximise_concave
from pmbandits.best.cuts import cutting_planes
from pmbandits.best.result import Best
from pmbandits.best.search import exchange, spread_out, starts_of_search
from pmbandits.best.values import Values, lay_arms, single_values
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.metrics.panels import N, TailDiverges
from pmbandits.metrics.pool import PanelPool, Pool, each
from pmbandits.metrics.smooth import Smooth
from pmbandits.metrics.value import value_of_mixture

# Two mixtures whose utilities differ by less than this share are called equally good.
TIE = 1e-9
_ACCURACY = 1e-11  # of the solver, relative to the utility
_STUCK, _FEW_ENOUGH = 1e-9, 50  # with a larger gap, cutting planes are tried, for up to so many arms
_MOST_ROUNDS = 6  # of laying the arms on finer panels around the solution
_MOST_STARTS = 16  # of the search
_MOST_ESCAPES = 6  # from a place that exchanges do not improve
_MANY = 12  # arms beyond which a search takes fewer steps
_FAR = 1e6  # a utility that is larger, or smaller than one over this, is worked out in another unit
_USELESS = 0.01  # a gap that is larger, relative to the utility, proves nothing worth the name


def oracle(metric: Distortion | str, bandit: Bandit) -> Best:
    """The maximiser of the utility over all mixtures of known arms (``eq:optimal alpha``).

    ====================  =====================================================================  ==============
    metric                how                                                                    ``gap``
    ====================  =====================================================================  ==============
    two-point rewards     h on the interval of reachable means, any h                            0
    convex or linear h    the best single arm                                                    0
    concave h             interior point method on shared panels or atoms                        duality gap
    any other h           search from many starts; up to four arms also branch and bound         bound, or NaN
    ====================  =====================================================================  ==============

    Continuous arms are integrated to about 1e-13; the gap includes the estimated error. A gap above 1 % of the utility
    is not called certified.

    Examples
    --------
    >>> import scipy.stats as st
    >>> import pmbandits as pmb
    >>> best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)]))
    >>> best.weights.round(6), round(best.value, 6), best.is_mixture
    (array([0.5, 0. , 0.5]), 1.282584, True)
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    laws = list(bandit.laws)
    laid = lay_arms(metric, laws)
    corners = single_values(metric, laws, laid)
    if not np.isfinite(corners).all():
        bad = int(np.argmin(np.isfinite(corners)))
        raise ValueError(
            f"{metric!r} of {bandit.names[bad]} ({laws[bad].describe()}) is too large for a number of 64 bits; "
            "measure rewards in a larger unit, or take a smaller factor in the metric."
        )
    arm = int(np.argmax(corners))
    spread = max(abs(float(corners.max())), abs(float(corners.min())))
    size = max(spread, abs(laid.value(metric, np.full(len(laws), 1.0 / len(laws)))))
    if size > 0.0 and not 1.0 / _FAR < size < _FAR:
        # Solvers have tolerances of their own. The metric in another unit has the same best mixture.
        power = -round(float(np.log2(min(size, 1e308))))
        if power + np.log2(max(abs(c) for c, _ in metric.terms)) > 1000.0:
            raise ValueError(
                f"{metric!r} of these arms is {size:.2g}, too small for a number of 64 bits; measure rewards in a "
                "smaller unit."
            )
        unit = 2.0 ** min(power, 1000)
        return oracle(unit * metric, bandit).in_unit(1.0 / unit)
    context = _Context(metric, laws, bandit.names, corners, arm, spread, laid)
    two = _two_points(laws)
    if two is not None:
        return _reachable_mean(context, *two)
    if len(laws) == 1 or metric.shape in ("convex", "linear"):
        return _best_corner(context)
    if metric.shape == "concave":
        return _concave(context)
    return _search(context)


@dataclass(frozen=True)
class _Context:
    metric: Distortion
    laws: list[Law]
    names: tuple[str, ...]
    corners: FloatArray
    arm: int
    scale: float
    laid: Pool

    @property
    def proven(self) -> bool:
        """Whether slopes and peaks of h are known, not found by probing a user's function."""
        return all(d._knows_slope for _, d in self.metric.terms)

    def best(
        self,
        weights: FloatArray,
        value: float,
        gap: float,
        method: str,
        *,
        certified: bool = True,
        unique: bool | None = None,
        alternative: FloatArray | None = None,
    ) -> Best:
        certified = certified and self.proven
        if not gap <= _USELESS * max(abs(value), self.scale) and gap != 0.0:  # also if it is not a number
            certified = False
        if value <= self.corners[self.arm] and np.count_nonzero(weights) > 1:
            # Rounding, or a search that found nothing better: the best arm itself is a mixture too.
            if value == self.corners[self.arm]:
                unique, alternative = False, weights
            gap = max(gap - (self.corners[self.arm] - value), 0.0) if certified else gap
            weights, value = np.eye(len(self.laws))[self.arm], float(self.corners[self.arm])
        arm = self.arm
        single = int(np.argmax(weights))
        if weights[single] == 1.0 and self.corners[single] >= self.corners[arm] - TIE * max(self.scale, 1e-300):
            arm = single  # of equally good arms, name the one that is played
        return Best(
            weights=weights,
            value=value,
            gap=gap,
            certified=certified,
            best_arm=arm,
            best_arm_value=float(self.corners[arm]),
            unique=unique,
            alternative=alternative,
            method=method,
            names=self.names,
        )


def _two_points(laws: Sequence[Law]) -> tuple[float, float, FloatArray] | None:
    """(low, high, P(high) of each arm) if all arms pay only two rewards."""
    atoms = [law for law in laws if isinstance(law, Atoms)]
    if len(atoms) < len(laws):
        return None
    points = np.unique(np.concatenate([law.x for law in atoms]))
    if points.size != 2:
        return None
    high = np.array([law.p[law.x == points[1]].sum() for law in atoms])
    return float(points[0]), float(points[1]), high


def _reachable_mean(context: _Context, low: float, high: float, p: FloatArray) -> Best:
    """V = low·h(1) + (high − low)·h(⟨a, p⟩): maximise h over the probabilities that mixtures reach."""
    metric = context.metric
    lo, hi = float(p.min()), float(p.max())
    top = metric.maximum(lo, hi)
    single = np.flatnonzero(np.asarray(metric(p)) >= top.value - 1e-15 * max(1.0, abs(top.value)))
    below, above = int(np.argmin(p)), int(np.argmax(p))
    weights = np.zeros(p.size)
    if single.size:
        weights[single[0]] = 1.0
    else:
        share = (top.at - lo) / (hi - lo)
        weights[below], weights[above] = 1.0 - share, share
    value = low * float(metric(1.0)) + (high - low) * top.value
    if single.size:
        value = float(context.corners[single[0]])
    other = _another_mean(metric, p, weights, float(weights @ p), top.value)
    return context.best(weights, value, 0.0, "reachable mean", unique=other is None, alternative=other)


def _another_mean(metric: Distortion, p: FloatArray, weights: FloatArray, at: float, top: float) -> FloatArray | None:
    """A different mixture with the same utility: the same mean otherwise mixed, or another best mean."""
    lo, hi = float(p.min()), float(p.max())
    slack = 1e-13 * max(1.0, abs(top))
    places = [m for m in (*metric._critical(), at - 1e-3, at + 1e-3, lo, hi) if lo <= m <= hi]
    for mean in [at, *(m for m in places if abs(m - at) > 1e-12 and top - metric(m) <= slack)]:
        for i in range(p.size):
            for j in range(p.size):
                if p[i] <= mean <= p[j] and (p[i] < p[j] or i == j):
                    share = 0.0 if i == j else (mean - p[i]) / (p[j] - p[i])
                    other = np.zeros(p.size)
                    other[i] += 1.0 - share
                    other[j] += share
                    if np.abs(other - weights).max() > 1e-9:
                        return other
    return None


def _best_corner(context: _Context) -> Best:
    """Convex h: a mixture is never better than its best arm (``lemma:convex_solitary``)."""
    eye = np.eye(len(context.laws))
    tied = np.flatnonzero(context.corners >= context.corners[context.arm] - TIE * max(context.scale, 1e-300))
    others = tied[tied != context.arm]
    return context.best(
        eye[context.arm],
        float(context.corners[context.arm]),
        0.0,
        "best arm",
        unique=others.size == 0,
        alternative=eye[others[0]] if others.size else None,
    )


def _concave(context: _Context) -> Best:
    """Concave h: the solver with its certificate, on panels that are made finer around the solution."""
    metric, laws, laid = context.metric, context.laws, context.laid
    weights = np.full(len(laws), 1.0 / len(laws))
    if isinstance(laid, PanelPool):
        laid = laid.refined(metric, weights)
    gap = np.inf
    for _ in range(_MOST_ROUNDS):
        weights, gap = maximise_concave(metric, laid, weights, accuracy=_ACCURACY, scale=context.scale)
        if not isinstance(laid, PanelPool):
            break
        # The panels were not made for this mixture, and its slopes are what the gap is made of.
        finer = laid.refined(metric, weights)
        if finer.omega.size == laid.omega.size:
            break
        laid = finer
    value = laid.value(metric, weights)
    size = max(abs(value), context.scale, 1e-300)
    if gap > _STUCK * size and len(laws) <= _FEW_ENOUGH:
        found, bound = cutting_planes(metric, laid, weights, 0.1 * _STUCK * size)
        if bound < gap:
            weights, gap = found, bound
            value = laid.value(metric, weights)
    sparse = _without_crumbs(metric, laid, weights, value - _ACCURACY * size)
    sparse, other = _sparsest(context, laid, sparse, weights, value)
    exact = value_of_mixture(metric, laws, sparse)
    off = abs(exact - laid.value(metric, sparse))
    gap = max(gap + value - exact, 0.0) + off + laid.error
    beyond = float(np.abs(context.laid.remainder).sum()) if context.laid.remainder is not None else 0.0
    gap = _gap_with_tails(context, laid, weights, exact) if beyond > 1e-12 * size else gap + beyond
    return context.best(sparse, exact, gap, "interior point", unique=other is None, alternative=other)


def _gap_with_tails(context: _Context, laid: Pool, weights: FloatArray, exact: float) -> float:
    """The gap where tails matter so far out that probabilities have no digits: their rest is extrapolated."""
    metric = context.metric
    assert isinstance(laid, PanelPool)
    try:
        fresh = laid.laid_for(metric, weights)
    except TailDiverges:
        return float("inf")
    assert fresh.remainder is not None
    slopes = fresh.gradient(metric, fresh.curve(weights)) + fresh.remainder[1:]
    used = weights > 0.0
    upper = fresh.value(metric, weights) + fresh.remainder[0] + slopes.max() - float(slopes[used] @ weights[used])
    # What was extrapolated is not known to the last digit.
    return max(float(upper) - exact, 0.0) + fresh.error + 1e-9 * float(np.abs(fresh.remainder).max())


def _without_crumbs(metric: Distortion, laid: Pool, weights: FloatArray, enough: float) -> FloatArray:
    """The mixture without the smallest shares, if that costs nothing: they only served the certificate."""
    for crumb in (1e-6, 1e-8, 1e-10, 1e-12, 1e-15):
        trial = np.where(weights < crumb, 0.0, weights)
        trial = trial / trial.sum()
        if laid.value(metric, trial) >= enough:
            return trial
    return weights


def _sparsest(
    context: _Context, laid: Pool, weights: FloatArray, inside: FloatArray, value: float
) -> tuple[FloatArray, FloatArray | None]:
    """The sparsest of the best mixtures that we find, and another best one if there is any.

    Two mixtures are equally good when their curves agree wherever h bends. Among the arms that could take part
    (largest gradient) those mixtures form a polytope; its extreme points, found by linear programs, are sparse.
    ``inside`` is the same mixture with a share of every arm that matters, where slopes are finite.
    """
    from scipy.optimize import linprog

    metric = context.metric
    tolerance = TIE * max(abs(value), context.scale, 1e-300)
    curve = laid.curve(inside)
    gradient = laid.gradient(metric, curve)
    used = inside > 0.0
    level = float(gradient[used] @ inside[used])
    arms = np.flatnonzero((weights > 0.0) | (gradient >= level - 1e-6 * context.scale))
    if arms.size < 2 or arms.size > 60:
        return weights, None
    rows = np.where(curve.lower, *laid.rows([int(i) for i in arms]))
    smooth = Smooth(metric)
    bend = np.nan_to_num(each(smooth.bend_co, smooth.bend_h, curve), nan=0.0, posinf=0.0, neginf=-1e6)
    curved = np.abs(bend) > 1e-9
    for place, _ in metric.kinks:
        curved |= np.abs(curve.p - np.where(curve.lower, 1.0 - place, place)) <= 1e-6
    # Orthonormal directions in which the curve must not move.
    gram = (rows[:, curved] * laid.omega[curved]) @ rows[:, curved].T
    for place, _ in metric.kinks:  # a corner that is crossed inside a panel bends the utility at that point
        crossing = laid.crossing(curve, place)
        if crossing is not None:
            nodes = slice(int(crossing.panel[0]) * N, int(crossing.panel[0]) * N + N)
            there = laid.rows([int(i) for i in arms])[1][:, nodes] @ crossing.there[0]
            gram = gram + float(laid.omega.sum()) * 1e-3 * np.outer(there, there)
    size, vectors = np.linalg.eigh(np.nan_to_num(gram))
    kept = vectors[:, size > 1e-11 * max(float(size.max()), 1e-300)].T
    equal = np.vstack((kept, np.ones(arms.size)))
    if np.linalg.matrix_rank(equal, tol=1e-7) == arms.size:
        return weights, None
    target_values = np.append(kept @ weights[arms], 1.0)
    best, count, other = weights, int((weights > 0.0).sum()), None
    rng = np.random.default_rng(0)
    costs = [sign * row for row in np.eye(arms.size) for sign in (1.0, -1.0)]
    costs += [rng.normal(size=arms.size) for _ in range(8)]
    for cost in costs:
        found = linprog(cost, A_eq=equal, b_eq=target_values, bounds=(0.0, None), method="highs")
        if not found.success:
            continue
        candidate = np.zeros(weights.size)
        solution = np.asarray(found.x)
        candidate[arms] = np.where(solution > 1e-9, solution, 0.0)
        candidate /= candidate.sum()
        if np.abs(candidate - weights).max() <= 1e-5 or laid.value(metric, candidate) < value - tolerance:
            continue
        if int((candidate > 0.0).sum()) < count:
            best, other, count = candidate, best, int((candidate > 0.0).sum())
        elif other is None:
            other = candidate
    return best, other


def _search(context: _Context) -> Best:
    """Neither convex nor concave: look everywhere that fits, then improve the best places by exchanges.

    With few arms branch and bound says how far from the best that can be.
    """
    metric, laws = context.metric, context.laws
    count = len(laws)
    values_at = Values(metric, context.laid)
    starts = starts_of_search(count)
    values = values_at(starts)
    chosen = spread_out(starts, values, _MOST_STARTS)
    if count <= _MANY:
        improved = [exchange(values_at, start, 1e-11) for start in chosen]
    else:  # the most promising ones to the end
        rough = sorted((exchange(values_at, start, 1e-2) for start in chosen), key=lambda pair: -pair[1])
        improved = [exchange(values_at, start, 1e-9) for start, _ in rough[:3]] + rough[3:]
    weights, value = max(improved, key=lambda pair: pair[1])
    rng = np.random.default_rng(0)
    for _ in range(_MOST_ESCAPES):  # is there something better around, or anywhere?
        near = 0.7 * weights + 0.3 * rng.dirichlet(np.full(count, 0.3), 300)
        trial = np.vstack((near, rng.dirichlet(np.full(count, 0.5), 300)))
        found = values_at(trial)
        better = np.argsort(-found, kind="stable")[:2]
        again = [exchange(values_at, trial[k], 1e-9) for k in better] if count <= _MANY else []
        again += [(trial[k], float(found[k])) for k in better]
        top = max(again, key=lambda pair: pair[1])
        if top[1] <= value + 1e-12 * abs(value):
            break
        weights, value = top
    upper = np.nan
    method = f"search from {len(starts)} places"
    if count <= MOST_ARMS:
        goal = 1e-9 * max(abs(value), context.scale)
        other, bounded, upper = branch_and_bound(metric, context.laid, values_at, weights, goal)
        if bounded > value + 1e-13 * abs(value):
            weights, value = exchange(values_at, other, 1e-11)
        method = "branch and bound"
    crumbs = np.where(weights < 1e-9, 0.0, weights)
    crumbs /= crumbs.sum()
    if values_at(crumbs[None])[0] >= value - 1e-12 * abs(value):
        weights = crumbs
    if context.corners[context.arm] >= value - 1e-12 * context.scale:
        weights = np.eye(count)[context.arm]
    exact = value_of_mixture(metric, laws, weights)
    gap = max(upper - exact, 0.0) + context.laid.error if np.isfinite(upper) else float("nan")
    if gap <= TIE * context.scale:
        gap += abs(exact - value)
    enough = exact - TIE * context.scale
    tied = [w for w, v in improved if v >= exact - 1e-3 * context.scale and np.abs(w - weights).max() > 1e-3]
    tied = [w for w in tied if value_of_mixture(metric, laws, w) >= enough]
    return context.best(
        weights,
        exact,
        gap,
        method,
        certified=bool(np.isfinite(gap)),
        unique=False if tied else None,
        alternative=tied[0] if tied else None,
    )
