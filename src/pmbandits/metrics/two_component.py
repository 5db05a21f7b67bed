"""The mixture of two continuous distributions, as a ``scipy.stats`` distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rv_continuous

from pmbandits._validation import FloatArray


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

    def _rvs(self, *shapes: Any, size: Any = None, random_state: Any = None) -> FloatArray:
        from_other = random_state.random(size) < self.share
        first, second = (
            distribution.rvs(size=size, random_state=random_state) for distribution in (self.one, self.other)
        )
        return np.where(from_other, second, first)
