"""Distortions from a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import warped_grid
from pmbandits.metrics.numeric import HINT, Numeric, check_values


class Custom(Numeric):
    """A user's function as a distortion; made by :meth:`Distortion.from_function`."""

    formula: ClassVar[str] = "given as a function"
    meaning: ClassVar[str] = "a preference of your own"
    use: ClassVar[str] = "when no named preference says what you mean"

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        derivative: Callable[[Any], Any] | None,
        holder: tuple[float, float] | None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"from_function needs a function of one number in [0, 1], got {_check.short(function)}.")
        self.function = function
        self.label = str(name)
        self._slope = derivative
        self._pair = None
        if holder is not None:
            q = _check.within("holder exponent q", holder[0], 0.0, 1.0, open_lo=True)
            self._pair = (q, _check.within("holder constant", holder[1], 0.0))
        self._vectorised = self._takes_arrays()
        grid = warped_grid()
        with np.errstate(all="ignore"):
            y = self._h(grid)
        check_values(self.label, grid, y)
        if self._pair is not None:
            q, constant = self._pair
            far = np.abs(y[:, None] - y[None, ::8]) - constant * np.abs(grid[:, None] - grid[None, ::8]) ** q
            if float(far.max()) > 1e-9 * max(1.0, constant):
                i, j = np.unravel_index(int(far.argmax()), far.shape)
                raise ValueError(
                    f"holder=({q:g}, {constant:g}) does not hold for {self.label!r}: between u = {grid[8 * j]:.3g} and "
                    f"{grid[i]:.3g} it changes by {abs(y[i] - y[8 * j]):.3g}; give a larger constant or a smaller q."
                )

    def _takes_arrays(self) -> bool:
        probe = np.array([0.25, 0.75])
        try:
            with np.errstate(all="ignore"):
                return bool(np.shape(self.function(probe)) == (2,))
        except Exception:
            return False

    def _call(self, function: Callable[[Any], Any], u: FloatArray, vectorised: bool) -> FloatArray:
        try:
            raw = function(u) if vectorised else [function(float(x)) for x in u.ravel()]
            out: FloatArray = np.asarray(raw, dtype=np.float64)
            if not vectorised:
                out = out.reshape(u.shape)
        except Exception as error:
            raise ValueError(f"the distortion {self.label!r} failed on [0, 1]: {error!r}; {HINT}.") from error
        if out.shape != u.shape:
            raise ValueError(f"the distortion {self.label!r} must return one number for each u; {HINT}.")
        return out

    def _h(self, u: FloatArray) -> FloatArray:
        return self._call(self.function, u, self._vectorised)

    def _dh(self, u: FloatArray) -> FloatArray:
        if self._slope is not None:
            slope = self._slope
            try:
                out = np.asarray(slope(u), dtype=np.float64)
                if out.shape == u.shape:
                    return out
            except (TypeError, ValueError):
                pass
            return self._call(slope, u, False)
        return super()._dh(u)

    @property
    def _knows_slope(self) -> bool:
        return self._slope is not None

    def _modulus(self) -> tuple[float, float] | str:
        if self._pair is None:
            return "it was given as a function without one; pass holder=(q, C) to Distortion.from_function"
        return self._pair

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        raise ValueError(
            f"the distortion {self.label!r} is a Python function and cannot be written as data; "
            "build it from named metrics, or give it again when you load."
        )

    def _key(self) -> Any:
        return (self.label, id(self.function))

    def __repr__(self) -> str:
        return f"Distortion.from_function(name={self.label!r})"
