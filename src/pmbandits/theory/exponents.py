"""β and β̄: how fast the gaps δ_12(ε) and δ_13(ε) shrink with the spacing ε (``eq:beta_def``, ``eq:beta_new_def``).

They decide how fine a grid the algorithms can afford. :func:`known_exponents` gives what the paper proves for a metric,
and :func:`gap_exponent` measures them for a metric and a bandit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import comb

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Interval
from pmbandits.tables.distributions import Atoms
from pmbandits.theory.instance import Facts, Gap, Grid, facts

_MAX_GRID_POINTS = 30_000  # points of the finest grid that is measured by default
_MAX_SLOPE_ERROR = 0.1  # largest error of the slope with which the points are said to lie on a line


# ---- what the paper proves -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Range:
    """The values that an exponent can have: a single one, or an interval."""

    low: float
    high: float

    @property
    def exact(self) -> bool:
        """Whether it is a single value."""
        return self.low == self.high

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}" if self.exact else f"[{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class Exponents:
    """β and β̄ of a metric for Bernoulli arms, as the paper has them.

    Attributes
    ----------
    q : the Hölder exponent.
    beta, beta_bar : their values or ranges; ``None`` where the paper has none.
    one_arm : whether a single arm is always best for Bernoulli arms (because h is monotone).
    why : the argument, in a sentence.
    proviso : what must hold in addition, if anything.
    """

    metric: Distortion
    q: float
    beta: Range | None
    beta_bar: Range | None
    one_arm: bool
    why: str
    proviso: str = ""


def known_exponents(metric: Distortion | str) -> Exponents:
    """β and β̄ for Bernoulli arms, derived from concavity and peak of h as in the paper's appendix.

    They follow from h: whether it is concave, whether it is monotone (then a single arm is best,
    ``lemma:beta_lemma_monotone``), whether its peak is a corner or smooth, and its Hölder exponent.

    Two of the paper's claims hold for two arms but not for more. ``lemma:f_G_epsilon`` assumes that the means of
    neighbouring mixtures differ by Θ(ε). With three arms whose means have no common measure, the means on the grid lie
    Θ(ε²) apart; with a common measure, many of them are equal. So where h peaks inside (0, 1), δ_13 is 0 or shrinks
    about twice as fast as the ranges say. With means (.137, .482, .911) the fit for the Gini deviation is 4.05 ± .17
    instead of [1, 2], and for the mean-median deviation 2.01 ± .11 instead of 1. The range of CVaR needs means below 1
    − c for β̄ as well; otherwise δ_13 is 0.

    >>> import pmbandits as pmb
    >>> gini = known_exponents(pmb.GiniDeviation())
    >>> gini.beta, str(gini.beta_bar)
    (None, '[1, 2]')
    >>> str(known_exponents(pmb.PHT(0.5)).beta)
    '[0.5, 1]'
    """
    metric = as_metric(metric)
    q = metric.holder(Interval(0.0, 1.0)).q
    if metric.shape not in ("concave", "linear"):
        return Exponents(metric, q, None, None, False, f"the paper has no exponents for a {metric.shape} distortion")
    peak = metric.maximum().at
    if metric.monotonicity in ("increasing", "decreasing"):
        both = Range(q, 1.0)
        flat = metric.monotonicity == "increasing" and peak < 1.0
        return Exponents(
            metric,
            q,
            both,
            both,
            True,
            "h is concave and monotone, so one arm is best and its neighbours on the grid are worse by ε",
            f"for beta all means must lie below {peak:.6g}, where h stops rising" if flat else "",
        )
    if metric.monotonicity == "constant":
        return Exponents(metric, q, None, None, True, "h is constant: all mixtures are equally good")
    corner = any(abs(place - peak) < 1e-9 for place, _ in metric.kinks)
    if not corner and not float(metric._d2h(np.array([peak]))[0]) < 0.0:
        return Exponents(metric, q, None, None, False, "h is flat at its peak, which the paper does not treat")
    return Exponents(
        metric,
        q,
        None,
        Range(q, 1.0 if corner else 2.0),
        False,
        "h peaks at a corner, so values fall linearly" if corner else "h peaks smoothly, so values fall by squares",
    )


# ---- what is measured ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GapExponent:
    """A fit of log δ(ε) against log ε: the result of :func:`gap_exponent`.

    Attributes
    ----------
    gap : which gap: ``"12"`` (for β), ``"13"`` (for β̄) or ``"distinct"``.
    slope, intercept : of the line log δ = intercept + slope·log ε. The slope estimates the exponent.
    error : the standard error of the slope.
    r2, residual : the share of the variance that the line explains, and the largest distance of a point from the line.
    epsilons, gaps : the data. Gaps of 0 are listed, but are not in the fit.
    ratios : log δ/log ε (as in the paper's figure 5). It tends to the exponent slowly: its error falls like 1/log ε.
    degenerate : whether the exponent does not exist, as far as can be seen.
    why : the reason, or what the fit looks like.
    """

    gap: str
    slope: float
    intercept: float
    error: float
    r2: float
    residual: float
    degenerate: bool
    why: str
    epsilons: FloatArray = field(repr=False)
    gaps: FloatArray = field(repr=False)
    ratios: FloatArray = field(repr=False)

    @property
    def exponent(self) -> float:
        """The slope, or an error if the exponent does not exist."""
        if self.degenerate:
            raise ValueError(
                f"the exponent of delta_{self.gap} does not exist here: {self.why}; take gap='13' or "
                "gap='distinct', or give epsilon and the exploration yourself."
            )
        return self.slope

    def __str__(self) -> str:
        head = "degenerate" if self.degenerate else f"{self.slope:.3f} ± {self.error:.3f}"
        rows = [f"exponent of delta_{self.gap}: {head} (R² = {self.r2:.4f}; {self.why})"]
        rows += [
            f"    ε = {x:<10.5g} δ = {y:<12.5g} log δ/log ε = {r:.3f}"
            for x, y, r in zip(self.epsilons, self.gaps, self.ratios, strict=True)
        ]
        return "\n".join(rows)


def gap_exponent(
    metric: Distortion | str,
    bandit: Bandit,
    epsilons: Iterable[float] | None = None,
    *,
    gap: Gap = "12",
    grid: Grid = "etc",
) -> GapExponent:
    """Measure β (``gap="12"``) or β̄ (``gap="13"``) of a metric and a bandit, by regression over ε.

    Parameters
    ----------
    metric, bandit : any metric, and known arms.
    epsilons : the spacings at which gaps are measured. By default about ten, in geometric steps, down to grids of
        30,000 points.
    gap, grid : which gap, and on which grid: ``"etc"`` or ``"ucb"``.

    The exponent is called degenerate where gaps are 0 (mixtures tie). For δ_12 it is also called so where rewards take
    fewer values than there are arms. This is the paper's degenerate case: if h peaks between the means of K ≥ 3
    Bernoulli arms, gaps can be arbitrarily small.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> found = gap_exponent(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), gap="13")
    >>> round(found.exponent, 1), found.degenerate
    (2.0, False)
    >>> gap_exponent(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.2, 0.5, 0.8])).degenerate
    True
    """
    metric = as_metric(metric)
    check_bandit(bandit)
    known = facts(metric, bandit)
    spacings = np.array(
        sorted(_default_grid_spacings(known, grid) if epsilons is None else epsilons, reverse=True), dtype=np.float64
    )
    if spacings.size < 3:
        raise ValueError(f"a fit needs at least three epsilons, got {spacings.size}.")
    for spacing in spacings:
        _validation.check_within("each epsilon", float(spacing), 0.0, 1.0, open_lo=True, open_hi=True)
    found = np.array([known.gap(float(spacing), gap, grid) for spacing in spacings])
    with np.errstate(divide="ignore"):
        ratios = np.log(found) / np.log(spacings)
    use = found > 0.0
    slope, intercept, error, r2, residual = _fit_line_with_errors(np.log(spacings[use]), np.log(found[use]))
    degenerate, why = _is_degenerate_and_reason(known, gap, found, slope, error)
    return GapExponent(
        gap=gap,
        slope=slope,
        intercept=intercept,
        error=error,
        r2=r2,
        residual=residual,
        degenerate=degenerate,
        why=why,
        epsilons=spacings,
        gaps=found,
        ratios=ratios,
    )


def _default_grid_spacings(known: Facts, grid: Grid) -> list[float]:
    offset = 0.0 if grid == "etc" else known.n_arms / 2.0
    steps = 8.0
    out: list[float] = []
    while len(out) < 14 and comb(round(steps) + known.n_arms - 1, known.n_arms - 1) <= _MAX_GRID_POINTS:
        out.append(1.0 / (round(steps) + offset))
        steps *= 1.7 if known.n_arms == 2 else 1.3
    if len(out) < 3:
        raise ValueError(
            f"the grids of {known.n_arms} arms are too large to measure an exponent on; give epsilons, or fewer arms."
        )
    return out


def _fit_line_with_errors(x: FloatArray, y: FloatArray) -> tuple[float, float, float, float, float]:
    if x.size < 3:
        return (np.nan, np.nan, np.inf, np.nan, np.nan)
    centred = x - x.mean()
    slope = float(centred @ (y - y.mean()) / (centred @ centred))
    intercept = float(y.mean() - slope * x.mean())
    residuals = y - intercept - slope * x
    spread = float(((y - y.mean()) ** 2).sum())
    error = float(np.sqrt(residuals @ residuals / (x.size - 2) / (centred @ centred)))
    r2 = 1.0 - float(residuals @ residuals) / spread if spread > 0.0 else 1.0
    return slope, intercept, error, r2, float(np.abs(residuals).max())


def _is_degenerate_and_reason(
    known: Facts, gap: Gap, found: FloatArray, slope: float, error: float
) -> tuple[bool, str]:
    """Return whether the exponent is degenerate (does not exist), and the reason."""
    n_ties = int((found <= 0.0).sum())
    atoms = [d.x for d in known.bandit.distributions if isinstance(d, Atoms)]
    n_values = np.unique(np.concatenate(atoms)).size if len(atoms) == known.n_arms else np.inf
    has_few_values = n_values < known.n_arms
    if gap == "12" and has_few_values and not known.best.unique:
        return True, (
            f"rewards take {n_values} values but there are {known.n_arms} arms, and more than one mixture is best: "
            "the gap of the best two can be arbitrarily small (the paper's degenerate case)"
        )
    if n_ties:
        rest = f"; at the others it shrinks like ε^{slope:.2f}" if np.isfinite(slope) else ""
        return True, f"the best mixtures tie at {n_ties} of {found.size} epsilons, where the gap is 0{rest}"
    if has_few_values and not known.best.unique:
        return False, (
            f"rewards take {n_values} values but there are {known.n_arms} arms: utilities of the grid lie closer "
            "than ε apart, so the gap shrinks faster than the paper's range and the points scatter"
        )
    if not error < _MAX_SLOPE_ERROR * max(1.0, abs(slope)):
        return False, "the points scatter around the line: the gap depends on where the optimum falls between points"
    return False, "the points lie on a line"
