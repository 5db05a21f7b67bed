"""Distributions as the library integrates them: finite atoms, unbounded lattices, continuous ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.tables import inversion

# Probabilities of the quantiles between which integration starts; beyond the last the panels double.
_QUANTILES = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-13, 1e-16])
_LARGEST_LATTICE = 2**21
SMALLEST_TAIL = 1e-290  # probabilities below have lost their digits


@dataclass(frozen=True)
class Atoms:
    """A distribution on finitely many points, sorted and distinct, with positive probabilities."""

    x: FloatArray
    p: FloatArray

    @property
    def lo(self) -> float:
        return float(self.x[0])

    @property
    def hi(self) -> float:
        return float(self.x[-1])

    @property
    def median(self) -> float:
        return float(self.x[min(int(np.searchsorted(np.cumsum(self.p), 0.5)), self.x.size - 1)])

    def cdf(self, x: FloatArray) -> FloatArray:
        below = np.concatenate(([0.0], np.cumsum(self.p)))
        return np.minimum(below[np.searchsorted(self.x, x, side="right")], 1.0)

    def sf(self, x: FloatArray) -> FloatArray:
        above = np.concatenate((np.cumsum(self.p[::-1])[::-1], [0.0]))
        return np.minimum(above[np.searchsorted(self.x, x, side="right")], 1.0)

    def cdf_and_survival(self, anchor: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """CDF and survival at anchor + y."""
        place = np.searchsorted(self.x - anchor, y, side="right")
        below = np.concatenate(([0.0], np.cumsum(self.p)))
        above = np.concatenate((np.cumsum(self.p[::-1])[::-1], [0.0]))
        return np.minimum(below[place], 1.0), np.minimum(above[place], 1.0)

    def breakpoints(self) -> FloatArray:
        return self.x

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        if self.x.size == 2:  # the common Bernoulli arm: one comparison
            return np.where(rng.random(size) < self.p[1], self.x[1], self.x[0])
        place = np.searchsorted(np.cumsum(self.p), rng.random(size), side="right")
        return self.x[np.minimum(place, self.x.size - 1)]

    def describe(self) -> str:
        if self.x.size == 2 and self.lo == 0.0 and self.hi == 1.0:
            return f"bernoulli({self.p[1]:g})"
        return f"{self.x.size} atoms in [{self.lo:g}, {self.hi:g}]"


@dataclass(frozen=True)
class ScipyDistribution:
    """A frozen ``scipy.stats`` distribution: continuous, or discrete on a lattice without end."""

    frozen: Any
    lo: float
    hi: float
    lattice: bool

    @cached_property
    def _shapes_loc_scale(self) -> tuple[tuple[float, ...], float, float]:
        shapes, loc, scale = self.frozen.dist._parse_args(*self.frozen.args, **self.frozen.kwds)
        return tuple(float(s) for s in shapes), float(loc), float(scale)

    @property
    def shapes(self) -> tuple[float, ...]:
        """The shape parameters of the distribution: those beside location and scale."""
        return self._shapes_loc_scale[0]

    @property
    def loc(self) -> float:
        """The location parameter."""
        return self._shapes_loc_scale[1]

    @property
    def scale(self) -> float:
        """The scale parameter."""
        return self._shapes_loc_scale[2]

    @cached_property
    def family(self) -> object:
        """An identifier that is equal for distributions that differ in their parameters only."""
        import scipy.stats as st

        dist: Any = self.frozen.dist
        same = type(dist) is type(getattr(st, str(dist.name), None))
        return str(dist.name) if same else id(dist)

    @cached_property
    def standard_median(self) -> float:
        """The median of the standardised distribution, with location 0 and scale 1."""
        return float(inversion.quantiles(self.frozen.dist, np.array([0.5]), self.shapes)[0])

    @cached_property
    def median(self) -> float:
        return self.loc + self.scale * self.standard_median

    def end_distances_from(self, anchor: float) -> FloatArray:
        """The finite ends of the support, as distances from the anchor."""
        both = (self.loc - anchor) + self.scale * np.array(self.frozen.dist.support(*self.shapes), dtype=np.float64)
        return np.asarray(both[np.isfinite(both)])

    def quantile_distances_from(self, anchor: float, p: FloatArray) -> FloatArray:
        """Quantiles of p and 1 − p, as distances from the anchor."""
        if (z := self._standard_quantiles.get(p.tobytes())) is None:
            dist = self.frozen.dist
            with np.errstate(all="ignore"):
                z = np.concatenate([inversion.quantiles(dist, p, self.shapes, upper=upper) for upper in (False, True)])
            self._standard_quantiles[p.tobytes()] = z
        return np.asarray((self.loc - anchor) + self.scale * z, dtype=np.float64)

    @cached_property
    def _standard_quantiles(self) -> dict[bytes, FloatArray]:
        """Quantiles of p and 1 − p of the standardised distribution, by the p that were asked for.

        Each table of an arm begins with the same few, and where they are searched for they cost most of the table.
        """
        return {}

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.frozen.cdf(x), dtype=np.float64)

    def sf(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.frozen.sf(x), dtype=np.float64)

    def breakpoints(self) -> FloatArray:
        points = np.concatenate((self.quantile_distances_from(0.0, _QUANTILES), [self.lo, self.hi]))
        return np.unique(points[np.isfinite(points)])

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        if inversion.would_scipy_sample_by_search(self.frozen.dist):
            return self.loc + self.scale * inversion.quantiles(self.frozen.dist, rng.random(size), self.shapes)
        return np.asarray(self.frozen.rvs(size=size, random_state=rng), dtype=np.float64)

    def describe(self) -> str:
        if hasattr(self.frozen.dist, "new"):  # of scipy's new kind, which describes itself
            return str(self.frozen.dist.name)
        arguments = [f"{a:g}" for a in self.frozen.args]
        arguments += [f"{k}={v:g}" for k, v in self.frozen.kwds.items()]
        return f"{self.frozen.dist.name}({', '.join(arguments)})"

    def truncated(self, contribution: Callable[[FloatArray, bool], FloatArray], small: float) -> Atoms:
        """The lattice distribution cut to finitely many points; what is left out is below rounding for a metric.

        ``contribution`` maps tail probabilities (and whether they are the lower tail) to what they contribute; tails
        above ``small`` are never left out.
        """
        ends = []
        middle = np.floor(self.median - self._fractional_part_of_lattice) + self._fractional_part_of_lattice
        for lower in (True, False):
            bound = self.lo if lower else self.hi
            reach, total = 64, 0.0
            while True:
                steps = np.arange(reach // 2 if reach > 64 else 0, reach, dtype=np.float64)
                k = middle - 1.0 - steps if lower else middle + steps
                tail = self.lattice_tail_probabilities(k, lower)
                with np.errstate(all="ignore"):
                    block = np.abs(contribution(tail, lower)).sum()
                total += float(block)
                end = middle - reach if lower else middle + reach
                if (end <= bound if lower else end >= bound) or (tail[-1] < small and block <= 1e-17 * total):
                    ends.append(max(end, bound) if lower else min(end, bound))
                    break
                reach *= 2
                if reach > _LARGEST_LATTICE:
                    raise ValueError(
                        f"the {'lower' if lower else 'upper'} tail of {self.describe()} is too heavy for this metric "
                        "in a mixture; truncate the distribution first."
                    )
        x = np.arange(ends[0], ends[1] + 0.5)
        mass = np.asarray(self.frozen.pmf(x), dtype=np.float64)
        mass[0] += float(self.cdf(x[:1])[0]) - mass[0]  # the rest of each tail sits on its last point
        mass[-1] += float(self.sf(x[-1:])[0])
        keep = mass > 0.0
        return Atoms(x[keep], mass[keep] / mass.sum())

    def lattice_tail_probabilities(self, k: FloatArray, lower: bool) -> FloatArray:
        """P(X ≤ k) or P(X > k) for consecutive k that run outwards.

        One call of scipy's cdf or sf at the far end and sums of the pmf from there inwards: small tails keep
        their digits, and distributions whose sf scipy sums point by point (zipf) stay affordable.
        """
        outermost_tail = float((self.cdf if lower else self.sf)(k[-1:])[0])
        if not lower and self.frozen.dist.name == "zipf":  # scipy's 1 − cdf has no digits left out there
            from scipy.special import zeta

            a, loc = float(self.frozen.args[0]) if self.frozen.args else float(self.frozen.kwds["a"]), self.lo - 1.0
            outermost_tail = float(zeta(a, k[-1] - loc + 1.0) / zeta(a))
        mass = np.asarray(self.frozen.pmf(k[:-1] if lower else k[1:]), dtype=np.float64)
        return np.append(outermost_tail + np.cumsum(mass[::-1])[::-1], outermost_tail)

    @property
    def _fractional_part_of_lattice(self) -> float:
        anchor = self.lo if np.isfinite(self.lo) else (self.hi if np.isfinite(self.hi) else 0.0)
        return anchor - np.floor(anchor)


@dataclass(frozen=True)
class PiecewiseLinearCDF:
    """A distribution whose CDF rises along straight lines from 0 to 1 between grid points."""

    x: FloatArray
    level: FloatArray
    lattice: bool = False

    @property
    def lo(self) -> float:
        return float(self.x[0])

    @property
    def hi(self) -> float:
        return float(self.x[-1])

    @property
    def median(self) -> float:
        return float(np.interp(0.5, self.level, self.x))

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.interp(x, self.x, self.level)

    def sf(self, x: FloatArray) -> FloatArray:
        return np.interp(x, self.x, 1.0 - self.level)

    def cdf_and_survival(self, anchor: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """CDF and survival at anchor + y."""
        return np.interp(y, self.x - anchor, self.level), np.interp(y, self.x - anchor, 1.0 - self.level)

    def breakpoints(self) -> FloatArray:
        return self.x

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        return np.interp(rng.random(size), self.level, self.x)

    def describe(self) -> str:
        return f"a CDF on {self.x.size} points of [{self.lo:g}, {self.hi:g}]"


Distribution = Atoms | ScipyDistribution | PiecewiseLinearCDF


def cdfs_and_survivals_of_family(
    distributions: Sequence[ScipyDistribution], anchor: float, y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """CDFs and survivals at anchor + y of continuous distributions of one family, in one call.

    Left of its median a distribution's CDF is worked out and the survival follows, right of it the other way round.
    """
    dist = distributions[0].frozen.dist
    offset = np.array([anchor - distribution.loc for distribution in distributions])[:, None]
    scale = np.array([distribution.scale for distribution in distributions])[:, None]
    z = (offset + y) / scale
    shapes = [np.array(s)[:, None] for s in zip(*(distribution.shapes for distribution in distributions), strict=True)]
    left = z < np.array([distribution.standard_median for distribution in distributions])[:, None]
    small = np.empty_like(z)
    cdf, sf = _FAST_CDF_AND_SURVIVAL.get(distributions[0].family, (dist.cdf, dist.sf))
    with np.errstate(all="ignore"):
        for side, tail in ((left, cdf), (~left, sf)):
            small[side] = tail(z[side], *(np.broadcast_to(s, z.shape)[side] for s in shapes))
    small = np.clip(small, 0.0, 1.0)
    small[small < SMALLEST_TAIL] = 0.0  # these have lost their digits, and computing with them is slow
    other = 1.0 - small
    return np.where(left, small, other), np.where(left, other, small)


def _normal_cdf(z: FloatArray) -> FloatArray:
    from scipy.special import ndtr

    return np.asarray(ndtr(z), dtype=np.float64)


def _beta_cdf(z: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    from scipy.special import betainc

    return np.asarray(betainc(a, b, np.clip(z, 0.0, 1.0)), dtype=np.float64)


# What scipy.stats gives, without its checks; the survival of a Beta distribution is the CDF of the mirrored one.
_FAST_CDF_AND_SURVIVAL: dict[object, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "norm": (_normal_cdf, lambda z: _normal_cdf(-z)),
    "beta": (_beta_cdf, lambda z, a, b: _beta_cdf(1.0 - z, b, a)),
}


def atoms_of_sample(x: ArrayLike, weights: ArrayLike | None = None, *, name: str = "the sample") -> Atoms:
    """The empirical distribution of a sample; equal points are one atom."""
    points = _validation.check_number_array(name, x)
    _validation.check_finite_width(name, float(points.min()), float(points.max()))
    if weights is None:
        atoms, counts = np.unique(points, return_counts=True)
        return Atoms(atoms, counts / points.size)
    mass = _validation.check_weights(weights, points.size, of="points")
    atoms, place = np.unique(points, return_inverse=True)
    total = np.asarray(np.bincount(place, weights=mass, minlength=atoms.size), dtype=np.float64)
    return Atoms(atoms[total > 0.0], total[total > 0.0])


def bernoulli_atoms(mean: float) -> Atoms:
    """The Bernoulli distribution with this mean; both atoms are kept, also where one has probability 0."""
    return Atoms(np.array([0.0, 1.0]), np.array([1.0 - mean, mean]))


def is_distribution(x: Any) -> bool:
    """Whether x looks like a frozen scipy.stats distribution, old or new (or a discrete one given by values)."""
    return inversion.is_new_distribution(x) or (callable(getattr(x, "sf", None)) and callable(getattr(x, "cdf", None)))


def as_distribution(x: Any, *, name: str = "the distribution") -> Distribution:
    """Convert a frozen scipy.stats distribution to a :data:`Distribution`; finite discrete ones become atoms."""
    if isinstance(x, (Atoms, ScipyDistribution)):
        return x
    if inversion.is_new_distribution(x):
        from pmbandits.tables.scipy_distributions import frozen_from_new_scipy_distribution

        x = frozen_from_new_scipy_distribution(x)
    if hasattr(x, "xk") and hasattr(x, "pk"):  # rv_discrete(values=...) is usable as it is
        return atoms_of_sample(np.asarray(x.xk, dtype=np.float64), x.pk, name=name)
    dist = getattr(x, "dist", None)
    if dist is None or not is_distribution(x):
        raise TypeError(
            f"{name} must be a frozen scipy.stats distribution such as scipy.stats.norm(0, 1), got "
            f"{_validation.short_repr(x)}."
        )
    if hasattr(dist, "xk") and hasattr(dist, "pk"):
        loc = x.kwds.get("loc", x.args[0] if x.args else 0.0)
        return atoms_of_sample(np.asarray(dist.xk, dtype=np.float64) + loc, dist.pk, name=name)
    many = np.broadcast_shapes(*(np.shape(number) for number in (*x.args, *x.kwds.values())))
    if many:
        raise ValueError(
            f"{name} is an array of distributions, of shape {many}; give one distribution for each arm, with numbers "
            "as its parameters."
        )
    lo, hi = (float(end) for end in x.support())
    if np.isnan(lo) or np.isnan(hi) or np.isnan(float(x.cdf(0.0))):
        raise ValueError(f"{name} has invalid parameters: {ScipyDistribution(x, lo, hi, False).describe()}.")
    _validation.check_finite_width(name, lo, hi)
    lattice = hasattr(x, "pmf")
    if lattice and hi - lo < _LARGEST_LATTICE:
        k = np.arange(lo, hi + 0.5)
        mass = np.asarray(x.pmf(k), dtype=np.float64)
        if k.size == 2:
            return Atoms(k, mass)
        return Atoms(k[mass > 0.0], mass[mass > 0.0] / mass.sum())
    return ScipyDistribution(x, lo, hi, lattice)
