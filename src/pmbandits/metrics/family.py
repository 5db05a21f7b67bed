"""A named metric: one class that states its name, its parameters and the formula of h, and is then known everywhere.

The formula is written once, with functions that take a number as well as an array: those of numpy, and those of
:mod:`pmbandits.metrics.formulas`. Python calls it on arrays; kernels call the same formula, compiled for numbers
(see :mod:`pmbandits.metrics.packed`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.metrics.distortion import warped_grid
from pmbandits.metrics.numeric import Numeric, check_values

REGISTRY: dict[str, type[Family]] = {}
"""Every named metric by its name, in the order in which they were defined."""
ALIASES: dict[str, str] = {}
"""Other names, and the name that each stands for."""

_BUILT_IN = "pmbandits.metrics.families."
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
class Family(Numeric):
    """A metric with a name. A subclass is registered when it is defined.

    It states ``name``, its parameters, and ``h``: a static method of u and the parameters, in their order. It may also
    state what else it knows (shape, direction, slope, extrema, Hölder modulus). Whatever it does not state is found
    from values of h.

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
            _register(cls)

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            label, limits = f"{type(self).__name__} {f.name}", f.metadata.get("limits", {})
            # The dataclass is frozen: only here is a value replaced, by the same value as a float.
            object.__setattr__(self, f.name, _check.within(label, getattr(self, f.name), **limits))
        if not self.built_in():
            grid = warped_grid()
            with np.errstate(all="ignore"):
                check_values(self.name, grid, self._h(grid))

    @classmethod
    def built_in(cls) -> bool:
        """Whether the metric is one of this package, whose formula kernels know."""
        return cls.__module__.startswith(_BUILT_IN)

    @classmethod
    def example(cls) -> Self:
        """The metric with ordinary values of its parameters."""
        given = {f.name: f.metadata.get("example") for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in given.items() if value is not None})

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The values of the parameters, in their order."""
        return tuple(getattr(self, name) for name in self.parameter_names)

    def _h(self, u: FloatArray) -> FloatArray:
        return self.h(u, *self.numbers)

    def _critical(self) -> Sequence[float]:
        return super()._critical() if self.monotonicity == "neither" else ()


def _register(cls: type[Family]) -> None:
    """Check a definition, and make its names known."""
    if not callable(getattr(cls, "h", None)):
        raise TypeError(f"the metric {cls.name!r} has no formula: define a static method h(u, ...).")
    takes = list(inspect.signature(cls.h).parameters)
    wanted = ["u", *cls.parameter_names]
    if takes != wanted:
        raise TypeError(
            f"the formula of the metric {cls.name!r} must be h({', '.join(wanted)}), u and its parameters in their "
            f"order, but it is h({', '.join(takes)})."
        )
    for name in (cls.name, *cls.aliases):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "sum":
            raise ValueError(f"a metric cannot be named {name!r}; take small letters, digits and _, and not 'sum'.")
        other = REGISTRY.get(ALIASES.get(name, name))
        # A class may be defined again, as in a notebook.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"the name {name!r} belongs to the metric {other.__name__}; choose another.")
    REGISTRY[cls.name] = cls
    ALIASES.update(dict.fromkeys(cls.aliases, cls.name))
