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

    def _updated_ctor_param(self) -> dict[str, Any]:  # scipy makes the distribution anew from these when frozen
        return {"one": self.one, "other": self.other, "share": self.share}

    def _pdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray((1.0 - self.share) * self.one.pdf(x) + self.share * self.other.pdf(x))

    def _cdf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray((1.0 - self.share) * self.one.cdf(x) + self.share * self.other.cdf(x))

    def _sf(self, x: FloatArray) -> FloatArray:  # type: ignore[override]
        return np.asarray((1.0 - self.share) * self.one.sf(x) + self.share * self.other.sf(x))

    def _ppf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        ends = self.one.ppf(p), self.other.ppf(p)  # the quantile lies between those of the parts
        return invert_increasing_function(self._cdf, np.asarray(p), np.minimum(*ends), np.maximum(*ends), self.xtol)

    def _isf(self, p: FloatArray) -> FloatArray:  # type: ignore[override]
        ends = self.one.isf(p), self.other.isf(p)
        return invert_increasing_function(
            lambda x: -self._sf(x), -np.asarray(p), np.minimum(*ends), np.maximum(*ends), self.xtol
        )

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
