"""What is made into a frozen ``scipy.stats`` distribution: mixtures of two, and distributions of scipy's new kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats as st
from scipy.stats import rv_continuous

from pmbandits._validation import FloatArray
from pmbandits.tables.inversion import invert_increasing_function


class TwoComponentMixture(rv_continuous):
    """A reward comes from ``other`` with the chance ``share``, otherwise from ``one``; both are frozen distributions.

    >>> import scipy.stats as st
    >>> float(TwoComponentMixture(st.uniform(0, 1), st.uniform(1, 1), 0.25)().cdf(1.5))
    0.875
    """

    def __init__(self, one: Any, other: Any, share: float) -> None:
        ends = one.support(), other.support()
        super().__init__(a=min(lo for lo, _ in ends), b=max(hi for _, hi in ends), name="blend")
        self.one, self.other, self.share = one, other, share
        self.parts = [(frozen.dist, *frozen.dist._parse_args(*frozen.args, **frozen.kwds)) for frozen in (one, other)]

    def _updated_ctor_param(self) -> dict[str, Any]:  # scipy makes the distribution anew from these when frozen
        return {"one": self.one, "other": self.other, "share": self.share}

    def _pdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray((1.0 - self.share) * self.one.pdf(x) + self.share * self.other.pdf(x))

    def _cdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return self._sum_of_parts("_cdf", x, above=1.0)

    def _sf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return self._sum_of_parts("_sf", x, below=1.0)

    def _sum_of_parts(self, name: str, x: FloatArray, below: float = 0.0, above: float = 0.0) -> FloatArray:
        """Sum of the parts' formulas without scipy's checks of arguments, most of the time of searching a quantile."""
        out = np.zeros(np.shape(x))
        for (dist, shapes, loc, scale), weight in zip(self.parts, (1.0 - self.share, self.share), strict=True):
            z = (np.asarray(x, dtype=np.float64) - loc) / scale
            lo, hi = dist.support(*shapes)
            part = np.where(z >= hi, above, below)
            inside = (lo < z) & (z < hi)
            part[inside] = getattr(dist, name)(z[inside], *shapes)
            out += weight * part
        return out

    def _ppf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        lo, hi = self._bracket(p, self.one.ppf, self.other.ppf)
        return invert_increasing_function(self._cdf, np.asarray(p), lo, hi, self.xtol)

    def _isf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        hi, lo = self._bracket(p, lambda q: -self.one.isf(q), lambda q: -self.other.isf(q))
        return invert_increasing_function(lambda x: -self._sf(x), -np.asarray(p), -lo, -hi, self.xtol)

    def _bracket(self, p: FloatArray, one: Any, other: Any) -> tuple[FloatArray, FloatArray]:
        """Ends between which the quantile lies: those of the parts, and where one part alone reaches p."""
        ends = one(p), other(p)
        lo, hi = np.minimum(*ends), np.maximum(*ends)
        for quantile, weight in ((one, 1.0 - self.share), (other, self.share)):
            enough = p < weight
            hi[enough] = np.minimum(hi[enough], quantile(p[enough] / weight))
        return lo, hi

    def _rvs(self, *shapes: Any, size: Any = None, random_state: Any = None) -> FloatArray:
        from_other = random_state.random(size) < self.share
        first, second = (
            distribution.rvs(size=size, random_state=random_state) for distribution in (self.one, self.other)
        )
        return np.where(from_other, second, first)


class NewDistribution(rv_continuous):
    """A distribution of scipy's new kind (``st.Normal``, ``st.Mixture``, ``st.make_distribution``) as one of the old.

    >>> import scipy.stats as st
    >>> float(NewDistribution(st.Normal(mu=1.0))().ppf(0.5))
    1.0
    """

    def __init__(self, new: Any) -> None:
        lo, hi = (float(end) for end in new.support())
        super().__init__(a=lo, b=hi, name=" ".join(str(new).split()))
        self.new = new

    def _updated_ctor_param(self) -> dict[str, Any]:  # scipy makes the distribution anew from these when frozen
        return {"new": self.new}

    def _pdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray(self.new.pdf(x))

    def _cdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray(self.new.cdf(x))

    def _sf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray(self.new.ccdf(x))

    def _ppf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray(self.new.icdf(p))

    def _isf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray(self.new.iccdf(p))

    def _rvs(self, *shapes: Any, size: Any = None, random_state: Any = None) -> FloatArray:
        return np.asarray(self.new.sample(shape=size, rng=random_state))


def frozen_from_new_scipy_distribution(x: Any) -> Any:
    """The frozen distribution of the old kind that equals one of the new; the usual ones by their old names."""
    kind = type(x).__name__
    if np.ndim(x.support()[0]):
        raise ValueError(f"{x} is an array of distributions; give one distribution for each arm.")
    if kind in ("Normal", "StandardNormal"):
        return st.norm(float(x.mu), float(x.sigma))
    if kind == "Uniform":
        lo, hi = (float(end) for end in x.support())
        return st.uniform(lo, hi - lo)
    if callable(getattr(x, "pmf", None)) and type(x).__mro__[1].__name__ == "DiscreteDistribution":
        lo, hi = (float(end) for end in x.support())
        k = np.arange(lo, hi + 1.0)
        return st.rv_discrete(values=(k, np.asarray(x.pmf(k))))
    return NewDistribution(x)()
