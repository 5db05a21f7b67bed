"""The best mixture of known arms, with a certificate, and the gaps between mixtures on a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits._solver import maximise
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.metrics.pool import AtomPool, Pool, pool
from pmbandits.metrics.value import value_of_mixture
from pmbandits.mixtures import etc_grid, ucb_grid

# Two mixtures whose utilities differ by less than this share are called equally good.
TIE = 1e-9
_ACCURACY = 1e-11  # of the solver, relative to the utility
_MOST_ROUNDS = 6  # of laying the arms on finer panels around the solution


@dataclass(frozen=True)
class Best:
    """The best mixture of known arms, as :func:`oracle` found it.

    Attributes
    ----------
    weights : the mixing weights (the sparsest found, where several mixtures are best).
    value : their utility.
    gap : no mixture is better than ``value`` by more than this; 0 when exact, NaN when nothing is certified.
    certified : whether ``gap`` is a proof. For a metric made from a function without its derivative it is an
        estimate only.
    best_arm, best_arm_value : the best single arm and its utility.
    unique : whether no other mixture is as good; ``None`` when that was not decided.
    alternative : another mixture that is as good, if there is one.
    method : how it was found.
    """

    weights: FloatArray
    value: float
    gap: float
    certified: bool
    best_arm: int
    best_arm_value: float
    unique: bool | None
    alternative: FloatArray | None
    method: str
    names: tuple[str, ...] = field(repr=False)

    @property
    def gain(self) -> float:
        """How much the mixture is worth above the best single arm."""
        return self.value - self.best_arm_value

    @property
    def is_mixture(self) -> bool:
        """Whether the best policy plays more than one arm."""
        return int((self.weights > 0.0).sum()) > 1

    def _repr_html_(self) -> str:
        from pmbandits import _html

        used = np.flatnonzero(self.weights > 0.0)
        proof = f"no mixture is better by more than {self.gap:.2g}" if self.certified else "a search, not certified"
        rows = [
            ("utility", f"{self.value:.6g}"),
            ("best single arm", f"{self.names[self.best_arm]}, {self.best_arm_value:.6g}"),
            ("gain", f"{self.gain:.3g}"),
            ("certificate", proof),
        ]
        shares = _html.bars([self.names[i] for i in used], [float(self.weights[i]) for i in used])
        title = "The best mixture" if self.is_mixture else "One arm is best"
        return _html.block(title, _html.beside(shares, _html.table((), rows)))

    def __repr__(self) -> str:
        used = ", ".join(f"{self.names[i]}: {self.weights[i]:.6g}" for i in np.flatnonzero(self.weights > 0.0)[:8])
        proof = f"gap={self.gap:.2g}" if self.certified else "gap not certified"
        others = "" if self.unique is not False else ", others are as good"
        return (
            f"Best({{{used}}}, value={self.value:.9g}, {proof}, best arm {self.names[self.best_arm]} "
            f"{self.best_arm_value:.9g}, gain={self.gain:.3g}{others})"
        )


@dataclass(frozen=True)
class Gaps:
    """δ_ij(ε) of a grid (``eq:suboptimality_gaps``): differences between the best mixtures 0, 1, 2, 3.

    0 is the best of the whole simplex; 1, 2, 3 are the best three of the grid.
    """

    d01: float
    d02: float
    d03: float
    d12: float
    d13: float
    best: FloatArray = field(repr=False)
    size: int = 0


def oracle(metric: Distortion | str, bandit: Bandit) -> Best:
    """The maximiser of the utility over all mixtures of known arms (``eq:optimal alpha``).

    ====================  =====================================================================  ==============
    metric                how                                                                    ``gap``
    ====================  =====================================================================  ==============
    two-point rewards     h on the interval of reachable means, any h                            0
    convex or linear h    the best single arm                                                    0
    concave h             active-set Newton on the simplex; kinks by smoothing from above        duality gap
    any other h           grid, then local polish from many starts                               not certified
    ====================  =====================================================================  ==============

    The metric may be given by name or as text, such as ``"gini"`` or ``"0.7*mean + 0.3*cvar(0.9)"``.
    Continuous arms are integrated to about 1e-13; the gap includes the integration error.

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
    corners = np.array([value_of_mixture(metric, laws, row) for row in np.eye(len(laws))])
    arm = int(np.argmax(corners))
    spread = max(abs(float(corners.max())), abs(float(corners.min())))
    context = _Context(metric, laws, bandit.names, corners, arm, spread)
    two = _two_points(laws)
    if two is not None:
        return _reachable_mean(context, *two)
    if len(laws) == 1 or metric.shape in ("convex", "linear"):
        return _best_corner(context)
    if metric.shape == "concave":
        return _concave(context)
    return _search(context)


def gaps(metric: Distortion | str, bandit: Bandit, epsilon: float, kind: Literal["etc", "ucb"] = "etc") -> Gaps:
    """δ_01, δ_02, δ_03, δ_12 and δ_13 on the ETC or the UCB grid; refuses grids too large to enumerate.

    >>> import pmbandits as pmb
    >>> g = pmb.gaps("gini", pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    >>> round(g.d01, 12), round(g.d12, 6)
    (0.0, 0.0025)
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    _check.choice("grid kind", kind, ["etc", "ucb"])
    grid = etc_grid(bandit.n_arms, epsilon) if kind == "etc" else ucb_grid(bandit.n_arms, epsilon)
    if grid.shape[0] < 3:
        raise ValueError(f"the grid has {grid.shape[0]} points; the gaps need three: take a smaller epsilon.")
    values = utilities(metric, bandit, grid)
    order = np.argsort(-values, kind="stable")[:3]
    first, second, third = (float(values[k]) for k in order)
    top = max(oracle(metric, bandit).value, first)
    return Gaps(top - first, top - second, top - third, first - second, first - third, grid[order[0]], grid.shape[0])


def utilities(metric: Distortion, bandit: Bandit, grid: FloatArray) -> FloatArray:
    """V of many mixtures, one row of weights each."""
    return _utilities(metric, list(bandit.laws), grid)


def scorer(metric: Distortion, bandit: Bandit) -> Callable[[FloatArray], FloatArray]:
    """V of many mixtures, again and again: what does not depend on the mixtures is worked out once."""
    laws = list(bandit.laws)
    if _has_corners(metric, laws):
        return lambda grid: _utilities(metric, laws, grid)
    laid = _lay(metric, laws, [])
    matrix = np.concatenate(laid.rows(list(range(laid.n_arms))), axis=1)
    return lambda grid: _values_of_matrix(metric, laid, matrix, grid)


def _utilities(metric: Distortion, laws: list[Law], grid: FloatArray) -> FloatArray:
    if not _has_corners(metric, laws):
        return _values(metric, _lay(metric, laws, []), grid)
    # Corners of h lie elsewhere for every mixture: the panels are made for each few of them.
    blocks = [grid[start : start + 128] for start in range(0, grid.shape[0], 128)]
    return np.concatenate([_values(metric, _lay(metric, laws, list(block)), block) for block in blocks])


def _has_corners(metric: Distortion, laws: list[Law]) -> bool:
    """Whether fixed panels would miss kinks or jumps of h."""
    smooth = not metric.kinks and not metric.jumps
    return not smooth and not all(isinstance(law, Atoms) or law.lattice for law in laws)


# ---- the cases of the oracle ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context:
    metric: Distortion
    laws: list[Law]
    names: tuple[str, ...]
    corners: FloatArray
    arm: int
    scale: float

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
        if value < self.corners[self.arm]:
            # Rounding, or a search that found nothing better: the best arm itself is a mixture too.
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
    metric, laws = context.metric, context.laws
    weights = np.full(len(laws), 1.0 / len(laws))
    mixes: list[FloatArray] = []
    value, gap, off, laid = -np.inf, np.inf, np.inf, None
    for _ in range(_MOST_ROUNDS):
        laid = _lay(metric, laws, mixes)
        weights, gap = maximise(metric, laid, weights, accuracy=_ACCURACY, scale=context.scale)
        value = laid.value(metric, weights)
        if isinstance(laid, AtomPool):
            off = 0.0
            break
        # The panels were not made for this mixture: compare with an integral that is.
        off = abs(value_of_mixture(metric, laws, weights) - value)
        if off + gap <= 1e-10 * max(abs(value), context.scale):
            break
        mixes = [*mixes[-2:], weights]
    assert laid is not None
    weights = np.where(weights < 1e-10, 0.0, weights)  # shares that only serve the certificate
    weights, other = _sparsest(context, laid, weights / weights.sum(), value)
    exact = value_of_mixture(metric, laws, weights)
    gap = max(gap + off + laid.error + max(value - exact, 0.0), 0.0)
    return context.best(weights, exact, gap, "active-set Newton", unique=other is None, alternative=other)


def _sparsest(context: _Context, laid: Pool, weights: FloatArray, value: float) -> tuple[FloatArray, FloatArray | None]:
    """The sparsest of the best mixtures that we find, and another best one if there is any.

    Two mixtures are equally good when their curves agree wherever h bends. Among the arms that could take part
    (largest gradient) those mixtures form a polytope; its extreme points, found by linear programs, are sparse.
    """
    from scipy.optimize import linprog

    metric = context.metric
    tolerance = TIE * max(abs(value), context.scale, 1e-300)
    curve = laid.curve(weights)
    gradient = laid.gradient(metric, curve)
    arms = np.flatnonzero((weights > 0.0) | (gradient >= float(np.max(gradient)) - 1e-6 * context.scale))
    if arms.size < 2 or arms.size > 60:
        return weights, None
    rows = np.where(curve.lower, *laid.rows([int(i) for i in arms]))
    bend = np.nan_to_num(laid.bend(metric, curve), nan=0.0, posinf=0.0, neginf=-1e6)
    places = np.array([u for u, jump in metric.kinks])
    curved = np.abs(bend) > 1e-9
    for place in places:
        curved |= np.abs(curve.p - np.where(curve.lower, 1.0 - place, place)) <= 1e-6
    # Orthonormal directions in which the curve must not move.
    gram = (rows[:, curved] * laid.omega[curved]) @ rows[:, curved].T
    size, vectors = np.linalg.eigh(gram)
    kept = vectors[:, size > 1e-11 * max(float(size.max()), 1e-300)].T
    equal = np.vstack((kept, np.ones(arms.size)))
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
    """Neither convex nor concave: look everywhere that fits, then climb from the best places."""
    metric, laws = context.metric, context.laws
    count = len(laws)
    laid = _lay(metric, laws, [])
    matrix = np.concatenate(laid.rows(list(range(count))), axis=1)
    starts = _starts(count)
    values = _values_of_matrix(metric, laid, matrix, starts)
    chosen = _spread_out(starts, values, 10)
    climbed = [
        _climb(lambda rows: _values_of_matrix(metric, laid, matrix, rows), start, 0.05, 1e-11) for start in chosen
    ]
    weights = max(climbed, key=lambda pair: pair[1])[0]
    if _has_corners(metric, laws):
        weights, _ = _climb(lambda rows: _utilities(metric, laws, rows), weights, 0.02, 1e-6)
    weights = np.where(weights < 1e-9, 0.0, weights)
    weights /= weights.sum()
    exact = value_of_mixture(metric, laws, weights)
    enough = exact - TIE * context.scale
    tied = [w for w, v in climbed if v >= exact - 1e-3 * context.scale and np.abs(w - weights).max() > 1e-3]
    tied = [w for w in tied if value_of_mixture(metric, laws, w) >= enough]
    return context.best(
        weights,
        exact,
        float("nan"),
        f"grid of {len(starts)} points and polish",
        certified=False,
        unique=False if tied else None,
        alternative=tied[0] if tied else None,
    )


def _starts(count: int) -> FloatArray:
    steps = {2: 2000, 3: 80, 4: 28, 5: 16, 6: 11}.get(count, 0)
    if steps:
        return etc_grid(count, 1.0 / steps)
    eye = np.eye(count)
    i, j = np.triu_indices(count, 1)
    pairs = [share * eye[i] + (1.0 - share) * eye[j] for share in (0.25, 0.5, 0.75)]
    rng = np.random.default_rng(0)
    return np.vstack((eye, *pairs, rng.dirichlet(np.ones(count), 3000), rng.dirichlet(np.full(count, 0.2), 3000)))


def _spread_out(points: FloatArray, values: FloatArray, count: int) -> list[FloatArray]:
    """The best points that are not neighbours of a better one."""
    chosen: list[FloatArray] = []
    for k in np.argsort(-values, kind="stable"):
        if all(np.abs(points[k] - c).sum() > 0.1 for c in chosen):
            chosen.append(points[k])
            if len(chosen) == count:
                break
    return chosen


def _climb(
    value_of: Callable[[FloatArray], FloatArray], start: FloatArray, step: float, finest: float
) -> tuple[FloatArray, float]:
    """Move weight between pairs of arms while that helps, in steps that shrink: needs no derivative."""
    count = start.size
    i, j = np.nonzero(~np.eye(count, dtype=bool))
    moves = np.eye(count)[i] - np.eye(count)[j]
    best, value = start, float(value_of(start[None])[0])
    while step > finest:
        trial = best + np.minimum(step, best[j])[:, None] * moves
        values = value_of(trial)
        k = int(np.argmax(values))
        if values[k] > value + 1e-15 * abs(value):
            best, value = np.maximum(trial[k], 0.0), float(values[k])
        else:
            step *= 0.4
    return best / best.sum(), value


# ---- shared ---------------------------------------------------------------------------------------------


def _lay(metric: Distortion, laws: list[Law], mixes: Sequence[FloatArray]) -> Pool:
    """The arms on common cells, accurate for single arms, some mixtures, and the given ones."""
    count = len(laws)
    eye = np.eye(count)
    some = eye if count <= 24 else eye[np.linspace(0, count - 1, 24).astype(int)]
    even = np.full((1, count), 1.0 / count)
    return pool(metric, laws, np.vstack((even, some, *mixes)))


def _values(metric: Distortion, laid: Pool, grid: FloatArray) -> FloatArray:
    return _values_of_matrix(metric, laid, np.concatenate(laid.rows(list(range(laid.n_arms))), axis=1), grid)


def _values_of_matrix(metric: Distortion, laid: Pool, matrix: FloatArray, grid: FloatArray) -> FloatArray:
    """V of many mixtures; ``matrix`` holds the arms' CDFs and, behind them, their survivals."""
    out = np.empty(grid.shape[0])
    base, top, cells = laid.anchor * float(metric(1.0)), float(metric(1.0)), laid.omega.size
    left = np.arange(cells) < laid.split
    block = max(1, 4_000_000 // max(matrix.shape[1], 1))
    for start in range(0, grid.shape[0], block):
        both = np.minimum(grid[start : start + block] @ matrix, 1.0)
        below, above = both[:, :cells], both[:, cells:]
        lower = below < above
        f = np.empty_like(below)
        with np.errstate(all="ignore"):
            f[lower] = metric._co(below[lower])
            f[~lower] = metric._h(above[~lower])
        out[start : start + block] = base + (f + top * (lower.astype(np.float64) - left)) @ laid.omega
    return out
