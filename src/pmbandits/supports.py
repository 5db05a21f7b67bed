"""Supports: where rewards can lie. A support is a promise, and decides which confidence sets are valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray

# A reward this close to an atom, relative to the width, is that atom: 0.1 + 0.2 is 0.3.
ATOM_TOLERANCE = 1e-9
LARGEST_SIGMA = 1e140  # squares of rewards must be numbers of 64 bits


class Support:
    """Where rewards can lie: the base class of the five supports. ``lo``, ``hi`` and ``width`` limit the rewards."""

    lo: float
    hi: float

    @property
    def width(self) -> float:
        """The width hi − lo."""
        return self.hi - self.lo

    @property
    def scale(self) -> float:
        """σ, if every distribution on this support is σ-sub-Gaussian around its mean.

        On a bounded support it is half the width, by Hoeffding's lemma.

        >>> Interval(0, 1000).scale, Real(sigma=2).scale
        (500.0, 2.0)
        """
        return 0.5 * self.width

    @property
    def typical(self) -> float:
        """How far rewards typically lie from their middle, as an order of magnitude."""
        return self.scale

    def contains(self, rewards: ArrayLike) -> Any:
        """Whether each of these rewards may occur."""
        x = _validation.to_float_array("rewards", rewards)
        return np.isfinite(x) & (x >= self.lo) & (x <= self.hi)

    def check(self, rewards: ArrayLike) -> FloatArray:
        """Return the rewards as an array, or raise an error that names the first one outside.

        >>> Interval(0, 1).check([0.5, 1.5])
        Traceback (most recent call last):
            ...
        ValueError: reward 1.5 lies outside the declared support Interval(lo=0.0, hi=1.0); ...
        """
        x = _validation.check_number_array("rewards", rewards)
        inside = self.contains(x)
        if not inside.all():
            bad = float(x[int(np.argmin(inside))])
            raise ValueError(
                f"reward {bad:g} lies outside the declared support {self!r}; "
                "declare a wider support, or rescale the rewards."
            )
        return x

    def to_dict(self) -> dict[str, Any]:
        """A description of the support that can be written as JSON or TOML."""
        return {"kind": type(self).__name__.lower(), **{f.name: getattr(self, f.name) for f in fields(self)}}  # type: ignore[arg-type]

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Support:
        """Make the support that :meth:`to_dict` described.

        >>> Support.from_dict({"kind": "interval", "lo": 0, "hi": 2})
        Interval(lo=0.0, hi=2.0)
        """
        kinds = {"binary": Binary, "finite": Finite, "interval": Interval, "real": Real, "heavy": Heavy}
        rest = {k: v for k, v in data.items() if k != "kind"}
        if "kind" not in data:
            raise ValueError(
                f"a support must say its kind, one of {', '.join(kinds)}, such as {_EXAMPLE}; got "
                f"{_validation.short_repr(data)}."
            )
        kind = _validation.check_choice("support", data["kind"], kinds)
        try:
            return kinds[kind](**rest)
        except TypeError as error:
            raise ValueError(f"support {kind!r}: {error}; write it like {_EXAMPLE}.") from None


_EXAMPLE = '{"kind": "interval", "lo": 0, "hi": 1}'


@dataclass(frozen=True)
class Binary(Support):
    """Rewards are 0 or 1, such as failure and success.

    >>> Binary().width
    1.0
    """

    lo: ClassVar[float] = 0.0  # type: ignore[misc]
    hi: ClassVar[float] = 1.0  # type: ignore[misc]

    @property
    def atoms(self) -> FloatArray:
        """The two possible rewards."""
        return np.array([self.lo, self.hi])

    def contains(self, rewards: ArrayLike) -> Any:
        x = _validation.to_float_array("rewards", rewards)
        return (x == 0.0) | (x == 1.0)


@dataclass(frozen=True, init=False, eq=False)
class Finite(Support):
    """Rewards are among finitely many known numbers, such as the stars of a rating.

    >>> Finite([0, 0.5, 2]).width
    2.0
    """

    atoms: FloatArray

    def __init__(self, atoms: ArrayLike) -> None:
        points = np.unique(_validation.check_number_array("atoms of a Finite support", atoms, minimum=2))
        if points.size < 2:
            raise ValueError("a Finite support needs at least two different atoms.")
        _validation.check_finite_width("the Finite support", float(points[0]), float(points[-1]))
        near = int(np.argmin(np.diff(points)))
        if points[near + 1] - points[near] <= ATOM_TOLERANCE * (points[-1] - points[0]):
            raise ValueError(
                f"the atoms {points[near]:.17g} and {points[near + 1]:.17g} of a Finite support are closer than "
                f"{ATOM_TOLERANCE:g} of its width, so their rewards could not be told apart; leave one of them out, or "
                f"declare Interval({points[0]:g}, {points[-1]:g})."
            )
        for name, value in (("atoms", points), ("lo", float(points[0])), ("hi", float(points[-1]))):
            object.__setattr__(self, name, value)

    def contains(self, rewards: ArrayLike) -> Any:
        x = _validation.to_float_array("rewards", rewards)
        after = np.clip(np.searchsorted(self.atoms, x), 1, self.atoms.size - 1)
        distance = np.minimum(np.abs(x - self.atoms[after]), np.abs(x - self.atoms[after - 1]))
        return np.isfinite(x) & (distance <= ATOM_TOLERANCE * self.width)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "finite", "atoms": self.atoms.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Finite) and np.array_equal(self.atoms, other.atoms)

    def __hash__(self) -> int:
        return hash(self.atoms.tobytes())

    def __repr__(self) -> str:
        shown = ", ".join(f"{a:g}" for a in self.atoms[:6])
        return f"Finite([{shown}{', …' if self.atoms.size > 6 else ''}])"


@dataclass(frozen=True)
class Interval(Support):
    """Rewards lie between two known numbers ``lo`` and ``hi``.

    >>> Interval(0, 1).contains([0.5, 2.0])
    array([ True, False])
    """

    lo: float
    hi: float

    def __post_init__(self) -> None:
        lo, hi = _validation.check_number("lo", self.lo), _validation.check_number("hi", self.hi)
        if lo >= hi:
            raise ValueError(f"Interval needs lo < hi, got lo={lo:g} and hi={hi:g}.")
        _validation.check_finite_width("the interval", lo, hi)
        object.__setattr__(self, "lo", lo)
        object.__setattr__(self, "hi", hi)


@dataclass(frozen=True)
class Real(Support):
    """Rewards can be any number, but large ones are rare: each arm is σ-sub-Gaussian around its own mean.

    That is, deviations from the mean are at most as likely as those of a normal distribution with standard deviation
    ``sigma``. You must give it, because it is a promise: what the library says about certainty is wrong if it is too
    small.

    >>> Real(sigma=2).width
    inf
    """

    sigma: float = None  # type: ignore[assignment]  # must be given: see __post_init__
    lo: ClassVar[float] = -np.inf  # type: ignore[misc]
    hi: ClassVar[float] = np.inf  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.sigma is None:
            raise TypeError(
                "Real needs sigma, the promise that each arm is sigma-sub-Gaussian around its mean; for normal rewards "
                "it is the largest standard deviation, as in Real(sigma=1.0)."
            )
        object.__setattr__(
            self, "sigma", _validation.check_within("sigma", self.sigma, 0.0, LARGEST_SIGMA, open_lo=True)
        )

    @property
    def scale(self) -> float:
        """The σ that was declared."""
        return self.sigma


@dataclass(frozen=True)
class Heavy(Support):
    """Rewards can be any number, and may have heavy tails. Only a moment is promised: E|X|^order ≤ bound.

    This is for delays, claims or incomes, with distributions such as lognormal, Pareto or Student's t. The moment is
    about 0. So if typical rewards are far from 0, subtract a known number from all of them. Then ``bound`` is small,
    and the library can say more.

    Parameters
    ----------
    order : p, above 1: the largest order for which you know a bound. 2 means a bound on the mean square.
    bound : a number that E|X|^p does not exceed, for every arm.
    lo : no reward is smaller than this. Give it if you know it (0 for delays), because bounds are tighter then.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track("gini", n_arms=2, support=pmb.Heavy(order=2, bound=12))
    >>> policy.tell([0, 1, 0, 1], [0.3, 4.1, 1.2, 0.8])
    >>> policy.support
    Heavy(order=2.0, bound=12.0, lo=-inf)
    """

    order: float
    bound: float
    lo: float = -np.inf
    hi: ClassVar[float] = np.inf  # type: ignore[misc]

    def __post_init__(self) -> None:
        hint = "Otherwise not even the mean of the rewards need exist."
        object.__setattr__(self, "order", _validation.check_within("order", self.order, 1.0, open_lo=True, hint=hint))
        object.__setattr__(self, "bound", _validation.check_within("bound", self.bound, 0.0, open_lo=True))
        lo = self.lo if isinstance(self.lo, float) and self.lo == -np.inf else _validation.check_number("lo", self.lo)
        object.__setattr__(self, "lo", lo)
        if lo > self.typical:
            raise ValueError(
                f"rewards of at least lo={lo:g} have E|X|^{self.order:g} ≥ {lo**self.order:g}, more than the "
                f"bound={self.bound:g}; give a larger bound."
            )

    @property
    def scale(self) -> float:
        raise ValueError(
            f"rewards of {self!r} are not sub-Gaussian, as this needs; take Vet, Track, PMUCB or CIRT, or declare "
            "Interval(lo, hi)."
        )

    @property
    def typical(self) -> float:
        """How far rewards typically lie from 0: bound^(1/order)."""
        return float(self.bound ** (1.0 / self.order))

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if value != -np.inf}
