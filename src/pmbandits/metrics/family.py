"""A named metric: one class that states its name, its parameters and the formula of h, and is then known everywhere.

The formula is written once, with functions that take a number as well as an array: those of numpy, and those of
:mod:`pmbandits.metrics.formulas`. Python calls it on arrays; kernels call the same formula, compiled for numbers
(see :mod:`pmbandits.metrics.encoding`).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.names import register_metric_class
from pmbandits.metrics.numeric import check_distortion_values, unit_grid_denser_at_ends

_BUILT_IN_PREFIX = "pmbandits.metrics.families."
_LIMITS = ("lo", "hi", "open_lo", "open_hi")


def parameter(
    lo: float = -np.inf,
    hi: float = np.inf,
    *,
    open_lo: bool = False,
    open_hi: bool = False,
    default: Any = MISSING,
    example: float | None = None,
) -> Any:
    """Declare a parameter of a named metric: the interval in which it lies, its default, and an ordinary value."""
    limits = dict(zip(_LIMITS, (lo, hi, open_lo, open_hi), strict=True))
    return field(default=default, metadata={"limits": limits, "example": example})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(parameter,))
class Family(Distortion):
    """A metric with a name. A subclass is registered when it is defined.

    It states ``name``, its parameters, and ``h``: a static method of u and the parameters, in their order. It may also
    state what else it knows (shape, direction, slope, extrema, Hölder modulus). Whatever it does not state is found
    from values of h. The docstring of a metric of this package also gets its ``meaning`` and its ``use``.

    Examples
    --------
    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> from pmbandits.metrics.family import Family, parameter
    >>> class Capped(Family):
    ...     name = "capped"
    ...     top: float = parameter(0.0, 1.0, open_lo=True)
    ...
    ...     @staticmethod
    ...     def h(u, top):
    ...         return np.minimum(u, top)
    >>> pmb.metric("capped(0.5)").value([0.0, 1.0, 4.0]), Capped(0.5).shape
    (1.5, 'concave')
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    formula: ClassVar[str] = "given as code"
    meaning: ClassVar[str] = "a preference of your own"
    use: ClassVar[str] = "when no other named preference says what you mean"
    h: ClassVar[Callable[..., Any]]
    parameter_names: ClassVar[tuple[str, ...]] = ()  # in their order; found in the definition

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.parameter_names = tuple(f.name for f in fields(cls))  # type: ignore[arg-type]
        if "name" in vars(cls):  # a class without a name of its own is there for others to inherit from
            register_metric_class(cls)
            if cls.__doc__ and cls.is_built_in():
                summary, _, rest = inspect.cleandoc(cls.__doc__).partition("\n\n")
                said = f"**In one sentence:** {cls.meaning}.", f"**Use it** {cls.use}."
                cls.__doc__ = "\n\n".join((summary, *said, rest)) + "\n"

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            label, limits = f"{type(self).__name__} {f.name}", f.metadata.get("limits", {})
            # The dataclass is frozen: only here is a value replaced, by the same value as a float.
            object.__setattr__(self, f.name, _validation.check_within(label, getattr(self, f.name), **limits))
        if not self.is_built_in():
            grid = unit_grid_denser_at_ends()
            with np.errstate(all="ignore"):
                check_distortion_values(self.name, grid, self._h(grid))

    @classmethod
    def is_built_in(cls) -> bool:
        """Whether the metric is one of this package, whose formula kernels know."""
        return cls.__module__.startswith(_BUILT_IN_PREFIX)

    @classmethod
    def example(cls) -> Self:
        """The metric with ordinary values of its parameters."""
        given = {f.name: f.metadata.get("example") for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in given.items() if value is not None})

    @cached_property
    def parameter_values(self) -> tuple[float, ...]:
        """The values of the parameters, in their order."""
        return tuple(getattr(self, name) for name in self.parameter_names)

    def _h(self, u: FloatArray) -> FloatArray:
        return self.h(u, *self.parameter_values)

    def _critical_points(self) -> Sequence[float]:
        return super()._critical_points() if self.monotonicity == "neither" else ()


class PiecewiseLinear(Family):
    """A metric with a name whose h is made of straight pieces: its slopes follow from the first one and its corners."""

    @property
    @abstractmethod
    def first_slope(self) -> float:
        """The slope of h from 0 to its first corner."""

    def _dh(self, u: FloatArray) -> FloatArray:
        slope = np.full_like(u, self.first_slope)
        for place, bend in self.kinks:
            slope = slope + bend * (u > place)
        return slope

    def _d2h(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _holder_modulus_or_reason(self) -> tuple[float, float]:
        slopes = self.first_slope + np.cumsum([0.0, *(bend for _, bend in sorted(self.kinks))])
        return (1.0, float(np.abs(slopes).max()))

    @property
    def _is_piecewise_linear(self) -> bool:
        return True
