"""Sums of distortions: what ``+``, ``-`` and ``*`` make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics.categories import category
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, Monotonicity, Shape, warped_grid
from pmbandits.metrics.numeric import numeric_critical, numeric_shape


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Distortion):
    """Σ coefficient · distortion, as made by ``+``, ``-`` and ``*``."""

    parts: tuple[tuple[float, Distortion], ...]

    name: ClassVar[str] = "sum"
    formula: ClassVar[str] = "Σ cᵢ·hᵢ(u)"
    meaning: ClassVar[str] = "a weighted sum of other preferences"
    use: ClassVar[str] = "to trade one preference against another"

    @property
    def terms(self) -> tuple[tuple[float, Distortion], ...]:
        return self.parts

    @property
    def parameters(self) -> dict[str, Any]:
        return {"terms": [{"weight": c, "metric": d.to_dict()} for c, d in self.parts]}

    def _sum(self, method: str, u: FloatArray) -> FloatArray:
        total = np.zeros_like(u)
        for c, d in self.parts:
            total += c * getattr(d, method)(u)
        return total

    def _h(self, u: FloatArray) -> FloatArray:
        return self._sum("_h", u)

    def _co(self, v: FloatArray) -> FloatArray:
        return self._sum("_co", v)

    def _dh(self, u: FloatArray) -> FloatArray:
        return self._sum("_dh", u)

    def _dco(self, v: FloatArray) -> FloatArray:
        return self._sum("_dco", v)

    def _d2h(self, u: FloatArray) -> FloatArray:
        return self._sum("_d2h", u)

    def _d2co(self, v: FloatArray) -> FloatArray:
        return self._sum("_d2co", v)

    @cached_property
    def _numeric(self) -> tuple[Shape, Monotonicity]:
        grid = warped_grid()
        with np.errstate(all="ignore"):
            size = sum(abs(c) * float(np.abs(d._h(grid)).max()) for c, d in self.parts)
        return numeric_shape(self._h, [u for u, _ in (*self.kinks, *self.jumps)], size)

    @cached_property
    def shape(self) -> Shape:
        if self.jumps:
            return "neither"
        flipped = {"concave": "convex", "convex": "concave"}
        kinds = {d.shape if c > 0 else flipped.get(d.shape, d.shape) for c, d in self.parts} - {"linear"}
        if not kinds:
            return "linear"
        if kinds == {"concave"}:
            return "concave"
        return "convex" if kinds == {"convex"} else self._numeric[0]

    @cached_property
    def monotonicity(self) -> Monotonicity:
        return self._numeric[1]

    @cached_property
    def _critical_points(self) -> list[float]:
        if len(self.parts) == 1:
            return list(self.parts[0][1]._critical())
        return numeric_critical(self)

    def _critical(self) -> Sequence[float]:
        return self._critical_points

    def _powers(self) -> dict[float, float] | None:
        out: dict[float, float] = {}
        for c, d in self.parts:
            powers = d._powers()
            if powers is None:
                return None
            for exponent, coefficient in powers.items():
                out[exponent] = out.get(exponent, 0.0) + c * coefficient
        size = sum(abs(c) for c, _ in self.parts)
        return {exponent: x for exponent, x in out.items() if abs(x) > 1e-12 * size}  # the rest cancelled

    @property
    def _straight(self) -> bool:
        return all(d._straight for _, d in self.parts)

    def _modulus(self) -> tuple[float, float] | str:
        whole = category(self)  # of the sum as a whole: its terms may cancel
        if whole is not None:
            return whole.modulus
        exponents, constants = [], []
        for c, d in self.parts:
            modulus = d._modulus()
            if isinstance(modulus, str):
                return f"of its term {d!r}: {modulus}"
            exponents.append(modulus[0])
            constants.append(abs(c) * modulus[1])
        # |u − v| ≤ 1, so every term also has the smallest exponent.
        return (min(exponents, default=1.0), sum(constants))

    def _merged(self, which: str) -> list[tuple[float, float]]:
        found: dict[float, float] = {}
        for c, d in self.parts:
            for place, size in getattr(d, which):
                key = next((p for p in found if abs(p - place) <= JUMP_TOLERANCE), place)
                found[key] = found.get(key, 0.0) + c * size
        return sorted((p, s) for p, s in found.items() if abs(s) > JUMP_TOLERANCE)

    @property
    def kinks(self) -> Sequence[tuple[float, float]]:
        return self._merged("kinks")

    @property
    def jumps(self) -> Sequence[tuple[float, float]]:
        return self._merged("jumps")

    def _key(self) -> Any:
        return tuple((c, d._key()) for c, d in self.parts)

    def __repr__(self) -> str:
        text = ""
        for k, (c, d) in enumerate(self.parts):
            sign = ("-" if c < 0 else "") if k == 0 else (" - " if c < 0 else " + ")
            text += sign + (f"{d!r}" if abs(c) == 1.0 else f"{abs(c):g}*{d!r}")
        return text or "0*Mean()"


def simplify(terms: Sequence[tuple[float, Distortion]]) -> Distortion:
    """A sum with equal terms merged and zero terms gone; a single term of weight 1 is that distortion itself."""
    merged: dict[Distortion, float] = {}
    for c, d in terms:
        total = merged.get(d, 0.0) + c
        if not np.isfinite(total):
            raise ValueError(
                f"the factor of {d!r} in a sum of distortions is too large for a number of 64 bits; take a smaller one."
            )
        if total == 0.0:  # gone, with its place: the order is that of adding one after the other
            merged.pop(d, None)
        else:
            merged[d] = total
    parts = tuple((c, d) for d, c in merged.items())
    return parts[0][1] if len(parts) == 1 and parts[0][0] == 1.0 else Combination(parts)
