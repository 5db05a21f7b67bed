"""Arms that change with time: a bandit as a function of the round."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pmbandits import _validation
from pmbandits.arms import Bandit, check_bandit, check_within_support, scipy_parameters
from pmbandits.supports import Binary, Finite, Interval, Real, Support
from pmbandits.tables.distributions import Atoms, Distribution, ScipyDistribution, as_distribution

DEFAULT_PIECES = 100  # pieces into which a drift or a season is cut by default
_MAX_ROUND = 2**53
_PARAMETER_NAMES = {
    "steps": ("starts", "repeat"),
    "drift": ("start", "end", "every", "by"),
    "season": ("period", "every", "by"),
}  # the numbers in a description of each kind


class Piece(NamedTuple):
    """A time in which the arms do not change: from when ``start`` rounds were played until ``end`` were."""

    start: int
    end: int
    bandit: Bandit


class Changing:
    """Arms that change with time, for :func:`simulate` and for tests of your own.

    Time is the number of rounds that were played before: ``at(0)`` has the arms of the first round. Time is cut into
    pieces, and within a piece the arms do not change. Steps are pieces by themselves. A drift, a season or a function
    is cut into pieces of ``every`` rounds, and the arms of a piece are those in its middle. Both playing and measuring
    use these pieces, so neither is an approximation of the other.

    It is made by :meth:`steps`, :meth:`drift`, :meth:`season` or :meth:`function`. All bandits in it must have the same
    names of arms.

    Attributes
    ----------
    names, n_arms : the names of the arms, and how many there are.
    support : where the rewards of all times lie; ``None`` if that is not known.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> world = pmb.Changing.steps([(0, pmb.Bandit.bernoulli([0.4, 0.9])), (5000, pmb.Bandit.bernoulli([0.9, 0.4]))])
    >>> world.at(4999)
    Bandit(arm 0: bernoulli(0.4), arm 1: bernoulli(0.9); support Binary())
    >>> world.at(5000)
    Bandit(arm 0: bernoulli(0.9), arm 1: bernoulli(0.4); support Binary())
    """

    def __init__(
        self,
        kind: str,
        bandits: Sequence[Bandit],
        numbers: Mapping[str, Any],
        locate: Callable[[int], tuple[int, int, float]],
        make: Callable[[Any], Bandit],
        when: str,
        support: Support | None = None,
    ) -> None:
        """``locate`` gives start, end and key of the piece at a time; ``make`` its arms from its key."""
        first = bandits[0]
        for bandit in bandits:
            _check_same_arms(first, bandit)
            if support is not None:
                check_within_support(support, bandit.distributions, bandit.names)
        self.kind, self.bandits, self.numbers = kind, tuple(bandits), dict(numbers)
        self.names, self.n_arms = first.names, first.n_arms
        self.support = support if support is not None else _common_support([bandit.support for bandit in bandits])
        self._locate, self._make, self._when, self._bandit_cache = locate, make, when, dict[float, Bandit]()

    # ---- making ----------------------------------------------------------------------------------------
    @classmethod
    def steps(
        cls, pieces: Sequence[tuple[int, Bandit]], *, repeat: int | None = None, support: Support | None = None
    ) -> Changing:
        """Make arms that change suddenly, at given rounds.

        Parameters
        ----------
        pieces : pairs of a number of rounds and the arms that play after that many. The first pair begins at 0.
        repeat : after how many rounds it starts over, again and again. By default it never does.
        support : where all rewards lie; by default what all bandits have in common.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> day, night = pmb.Bandit.bernoulli([0.4, 0.9]), pmb.Bandit.bernoulli([0.3, 0.2])
        >>> pmb.Changing.steps([(0, day), (600, night)], repeat=1000)
        Changing(2 arms; 2 steps, at 0 and 600, every 1,000 rounds again; support Binary())
        """
        if not _validation.is_list(pieces) or len(pieces) == 0:
            raise ValueError("steps needs pairs of a round and a Bandit, such as [(0, bandit), (5000, other)].")
        starts, bandits = [], []
        for piece in pieces:
            if not _validation.is_list(piece) or len(piece) != 2:
                raise ValueError(f"a step is a pair of a round and a Bandit, such as (5000, bandit), got {piece!r}.")
            starts.append(_validation.check_whole_number("the round of a step", piece[0], 0, _MAX_ROUND))
            check_bandit(piece[1])
            bandits.append(piece[1])
        if starts[0] != 0:
            raise ValueError(f"the first step must begin at 0, not at {starts[0]:,}: there must always be arms.")
        if any(b <= a for a, b in itertools.pairwise(starts)):
            raise ValueError(f"steps must come one after the other, but begin at {', '.join(map(str, starts))}.")
        if repeat is not None:
            repeat = _validation.check_whole_number("repeat", repeat, starts[-1] + 1, _MAX_ROUND)
        ends = [*starts[1:], _MAX_ROUND if repeat is None else repeat]

        def locate(t: int) -> tuple[int, int, int]:
            base = 0 if repeat is None else t // repeat * repeat
            number = bisect_right(starts, t - base) - 1
            return base + starts[number], min(base + ends[number], _MAX_ROUND), number

        listed = [f"{start:,}" for start in starts]
        shown = listed if len(listed) <= 5 else [*listed[:4], "…", listed[-1]]
        places = f"{', '.join(shown[:-1])}{' and ' if len(shown) > 1 else ''}{shown[-1]}"
        when = f"{len(starts)} step{'s' if len(starts) > 1 else ''}, at {places}"
        when += "" if repeat is None else f", every {repeat:,} rounds again"
        return cls("steps", bandits, {"starts": starts, "repeat": repeat}, locate, bandits.__getitem__, when, support)

    @classmethod
    def drift(
        cls,
        first: Bandit,
        last: Bandit,
        start: int,
        end: int,
        *,
        every: int | None = None,
        by: str = "parameters",
        support: Support | None = None,
    ) -> Changing:
        """Make arms that move evenly from one bandit to another.

        Parameters
        ----------
        first, last : the arms until ``start`` rounds were played, and from ``end`` rounds on.
        start, end : when the move begins and ends, in rounds.
        every : the length of a piece, in rounds; by default a hundredth of the way.
        by : how the arms move. ``"parameters"`` moves the numbers of each distribution in straight lines (means of
            normal arms, probabilities of atoms); both ends of an arm must be of one family. ``"mixture"`` draws the
            reward from the last distribution with a chance that rises from 0 to 1, and otherwise from the first. For
            Bernoulli arms both are the same.
        support : where all rewards lie; by default what both bandits have in common.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> a, b = pmb.Bandit.bernoulli([0.2, 0.9]), pmb.Bandit.bernoulli([0.8, 0.9])
        >>> pmb.Changing.drift(a, b, 1000, 2000).at(1500).to_dict()["arms"][0]
        {'bernoulli': 0.5024}
        """
        check_bandit(first)
        check_bandit(last)
        start = _validation.check_whole_number("start", start, 0, _MAX_ROUND)
        end = _validation.check_whole_number("end", end, start + 1, _MAX_ROUND)
        every = _piece_length_or_default(every, end - start)
        between = _make_bandit_interpolator(first, last, by)

        def locate(t: int) -> tuple[int, int, float]:
            if not start <= t < end:
                return (0, start, -math.inf) if t < start else (end, _MAX_ROUND, math.inf)
            begins, ends, middle = _equal_piece_at(t, start, every, end)
            return begins, ends, (middle - start) / (end - start)

        def make(share: float) -> Bandit:
            return between(share) if math.isfinite(share) else first if share < 0.0 else last

        numbers = {"start": start, "end": end, "every": every, "by": by}
        when = f"a drift of {by} from {start:,} to {end:,}, in pieces of {every:,}"
        return cls("drift", [first, last], numbers, locate, make, when, support)

    @classmethod
    def season(
        cls,
        first: Bandit,
        other: Bandit,
        period: int,
        *,
        every: int | None = None,
        by: str = "parameters",
        support: Support | None = None,
    ) -> Changing:
        """Make arms that swing from one bandit to another and back like a cosine, again and again.

        Parameters
        ----------
        first, other : the arms at the start, and those half a period later.
        period : after how many rounds it starts over.
        every, by, support : as for :meth:`drift`; ``every`` is by default a hundredth of the period.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> a, b = pmb.Bandit.bernoulli([0.2, 0.9]), pmb.Bandit.bernoulli([0.8, 0.9])
        >>> year = pmb.Changing.season(a, b, 365, every=1)
        >>> round(year.at(91).to_dict()["arms"][0]["bernoulli"], 3), year.at(0).names == year.at(365).names
        (0.499, True)
        """
        check_bandit(first)
        check_bandit(other)
        period = _validation.check_whole_number("period", period, 2, _MAX_ROUND)
        every = _piece_length_or_default(every, period)
        between = _make_bandit_interpolator(first, other, by)

        def locate(t: int) -> tuple[int, int, float]:
            base = t // period * period
            begins, ends, middle = _equal_piece_at(t - base, 0, every, period)
            return base + begins, base + ends, 0.5 - 0.5 * math.cos(2.0 * math.pi * middle / period)

        when = f"a season of {period:,} rounds, by {by}, in pieces of {every:,}"
        return cls(
            "season", [first, other], {"period": period, "every": every, "by": by}, locate, between, when, support
        )

    @classmethod
    def function(cls, bandit_at: Callable[[int], Bandit], every: int, *, support: Support | None = None) -> Changing:
        """Make arms that follow a function of your own.

        Parameters
        ----------
        bandit_at : a function that is given a number of rounds and returns the arms after that many. The same number
            must always give the same arms. It is called once for each piece, with the middle of the piece.
        every : the length of a piece, in rounds.
        support : where all rewards lie; by default that of the first piece. Arms that pay other rewards are refused.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> world = pmb.Changing.function(lambda t: pmb.Bandit.bernoulli([0.4, 0.9 / (1 + t / 1000)]), every=100)
        >>> [round(piece.bandit.to_dict()["arms"][1]["bernoulli"], 3) for piece in world.pieces(250)]
        [0.858, 0.783, 0.721]
        """
        if not callable(bandit_at):
            raise TypeError(f"function needs a function of the round that returns a Bandit, got {bandit_at!r}.")
        every = _validation.check_whole_number("every", every, 1, _MAX_ROUND)

        def locate(t: int) -> tuple[int, int, int]:
            return _equal_piece_at(t, 0, every, _MAX_ROUND)

        def make(middle: int) -> Bandit:
            made = bandit_at(middle)
            if not isinstance(made, Bandit):
                raise TypeError(
                    f"the function must return a Bandit, but returned {_validation.short_repr(made)} for {middle:,}."
                )
            return made

        when = f"a function, in pieces of {every:,}"
        return cls("function", [make(locate(0)[2])], {"every": every}, locate, make, when, support)

    # ---- reading ---------------------------------------------------------------------------------------
    def at(self, t: int) -> Bandit:
        """The arms of the round that is played after ``t`` rounds. Use ``world.at(policy.t)`` before an ask."""
        return self._piece_at(_validation.check_whole_number("t", t, 0, _MAX_ROUND)).bandit

    def pieces(self, horizon: int, *, most: int | None = None) -> list[Piece]:
        """The pieces of the first ``horizon`` rounds, in their order; an error if there are more than ``most``.

        >>> import pmbandits as pmb
        >>> a, b = pmb.Bandit.bernoulli([0.2]), pmb.Bandit.bernoulli([0.8])
        >>> [(piece.start, piece.end) for piece in pmb.Changing.steps([(0, a), (30, b)], repeat=50).pieces(90)]
        [(0, 30), (30, 50), (50, 80), (80, 90)]
        """
        horizon, found = _validation.check_whole_number("horizon", horizon, 1, _MAX_ROUND), list[Piece]()
        while not found or found[-1].end < horizon:
            if most is not None and len(found) >= most:
                raise ValueError(f"{self!r} has more than {most:,} pieces in {horizon:,} rounds; take longer pieces.")
            found.append(self._piece_at(found[-1].end if found else 0))
        return [*found[:-1], found[-1]._replace(end=horizon)]

    def _piece_at(self, t: int) -> Piece:
        """The piece in which this time lies."""
        start, end, key = self._locate(t)
        if key not in self._bandit_cache:
            made = self._make(key)
            _check_same_arms(self.bandits[0], made)
            if self.kind == "function" and self.support is not None:
                check_within_support(self.support, made.distributions, made.names)
            self._bandit_cache[key] = made
        return Piece(start, end, self._bandit_cache[key])

    def to_dict(self, horizon: int | None = None) -> dict[str, Any]:
        """A description that can be written as JSON.

        A function of your own cannot be written. Its description has a hash of the arms that it gives in the first
        ``horizon`` rounds.

        >>> import pmbandits as pmb
        >>> pmb.Changing.steps([(0, pmb.Bandit.bernoulli([0.4]))]).to_dict()["changing"]
        'steps'
        """
        support = None if self.support is None else self.support.to_dict()
        out = {"changing": self.kind, "names": list(self.names), "support": support, **self.numbers}
        if self.kind != "function":
            return out | {"bandits": [bandit.to_dict() for bandit in self.bandits]}
        pieces = [piece.bandit.to_dict() for piece in self.pieces(horizon or 1)]
        return out | {"values": hashlib.sha256(json.dumps(pieces, sort_keys=True).encode()).hexdigest()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Changing:
        """Make the changing arms that :meth:`to_dict` described."""
        kind = _validation.check_choice("changing", data.get("changing"), ["steps", "drift", "season", "function"])
        if kind == "function":
            raise ValueError("the arms came from a function of yours; code is never stored, so make them again.")
        declared = data.get("support")
        if declared is not None and not isinstance(declared, Mapping):
            raise ValueError(
                f"support is described by a table such as {{'kind': 'binary'}}, got {_validation.short_repr(declared)}."
            )
        support = None if declared is None else Support.from_dict(declared)
        for name in ("bandits", *_PARAMETER_NAMES[kind]):
            if name not in data:
                raise ValueError(f"the description of a world by {kind} has no {name!r}; it cannot be made again.")
        bandits = data["bandits"]
        if not _validation.is_list(bandits) or not all(isinstance(b, Mapping) and "arms" in b for b in bandits):
            raise ValueError(f"bandits must be a list of descriptions of arms, got {_validation.short_repr(bandits)}.")
        return cls._rebuild(kind, [Bandit.from_dict(bandit) for bandit in bandits], data, support)

    @classmethod
    def _rebuild(
        cls, kind: str, bandits: Sequence[Bandit], numbers: Mapping[str, Any], support: Support | None
    ) -> Changing:
        """Make the ``Changing`` of a kind from its bandits and its numbers, as they were described or pickled."""
        if kind == "steps":
            if not _validation.is_list(numbers["starts"]) or len(numbers["starts"]) != len(bandits):
                raise ValueError(
                    f"there must be one start for each of the {len(bandits)} bandits, got "
                    f"{_validation.short_repr(numbers['starts'])}."
                )
            pieces = list(zip(numbers["starts"], bandits, strict=True))
            return cls.steps(pieces, repeat=numbers["repeat"], support=support)
        if len(bandits) != 2:
            raise ValueError(f"a {kind} goes between two bandits, but {len(bandits)} are given.")
        (first, last), every, by = bandits, numbers["every"], numbers["by"]
        if kind == "drift":
            return cls.drift(first, last, numbers["start"], numbers["end"], every=every, by=by, support=support)
        return cls.season(first, last, numbers["period"], every=every, by=by, support=support)

    def __getstate__(self) -> dict[str, Any]:
        """Worlds are made again where they arrive; a function of yours travels as it is."""
        if self.kind == "function":
            return dict(self.__dict__)
        return {name: self.__dict__[name] for name in ("kind", "bandits", "numbers", "support")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state if "_make" in state else Changing._rebuild(**state).__dict__)

    def __repr__(self) -> str:
        known = f"support {self.support!r}" if self.support is not None else "support unknown"
        return f"Changing({self.n_arms} arm{'s' if self.n_arms > 1 else ''}; {self._when}; {known})"


def _piece_length_or_default(every: int | None, length: int) -> int:
    return (
        max(1, round(length / DEFAULT_PIECES))
        if every is None
        else _validation.check_whole_number("every", every, 1, _MAX_ROUND)
    )


def _equal_piece_at(t: int, start: int, every: int, end: int) -> tuple[int, int, int]:
    """Start, end and middle of the piece at a time, if time from ``start`` to ``end`` is cut into equal pieces."""
    begins = start + (t - start) // every * every
    ends = min(begins + every, end)
    return begins, ends, (begins + ends - 1) // 2


def _check_same_arms(first: Bandit, other: Bandit) -> None:
    if first.names != other.names:
        raise ValueError(
            f"all bandits of a world must have the same arms, but one has {', '.join(first.names)} and another "
            f"{', '.join(other.names)}; to let an arm come or go, give simulate a schedule."
        )


def _common_support(supports: Sequence[Support | None]) -> Support | None:
    """The smallest support that contains all of these, if there is one that is surely right."""
    known = [support for support in supports if support is not None]
    if len(known) < len(supports):
        return None
    if all(support == known[0] for support in known):
        return known[0]
    if all(isinstance(support, (Binary, Finite)) for support in known):
        return Finite(np.unique(np.concatenate([np.asarray(support.atoms) for support in known])))  # type: ignore[attr-defined]
    if all(np.isfinite(support.width) for support in known):
        return Interval(min(support.lo for support in known), max(support.hi for support in known))
    if all(isinstance(support, Real) or np.isfinite(support.width) for support in known):  # Hoeffding's lemma
        return Real(max(s.sigma if isinstance(s, Real) else 0.5 * s.width for s in known))
    return None


# ---- between two distributions -------------------------------------------------------------------------------


def _make_bandit_interpolator(first: Bandit, last: Bandit, by: str) -> Callable[[float], Bandit]:
    """The arms on the way from one bandit to another, as a function of how far the way is gone."""
    _validation.check_choice("by", by, ["parameters", "mixture"])
    _check_same_arms(first, last)
    interpolate = _interpolate_parameters if by == "parameters" else _mix_distributions
    for one, other, name in zip(first.distributions, last.distributions, first.names, strict=True):
        interpolate(one, other, 0.5, name)  # says at once what cannot be
    support = _common_support([first.support, last.support])

    def between(share: float) -> Bandit:
        arms = [
            interpolate(a, b, share, n)
            for a, b, n in zip(first.distributions, last.distributions, first.names, strict=True)
        ]
        return Bandit(arms, first.names, support=support)

    return between


def _interpolate_parameters(one: Distribution, other: Distribution, share: float, name: str) -> Distribution:
    """The distribution whose parameters are interpolated linearly between those of two of one family."""
    if isinstance(one, Atoms) and isinstance(other, Atoms) and np.array_equal(one.x, other.x):
        return Atoms(one.x, (1.0 - share) * one.p + share * other.p)
    if isinstance(one, ScipyDistribution) and isinstance(other, ScipyDistribution) and one.family == other.family:
        ends = zip(scipy_parameters(one), scipy_parameters(other), strict=True)
        numbers = [(1.0 - share) * a + share * b for a, b in ends]
        return as_distribution(one.frozen.dist(*numbers), name=name)
    raise ValueError(
        f"{name} is {one.describe()} at one end and {other.describe()} at the other; parameters can move within one "
        "family only: take by='mixture'."
    )


def _mix_distributions(one: Distribution, other: Distribution, share: float, name: str) -> Distribution:
    """The mixture that pays from ``other`` with probability ``share``, otherwise from ``one``."""
    if isinstance(one, Atoms) and isinstance(other, Atoms):
        x = np.unique(np.concatenate((one.x, other.x)))
        p = np.zeros(x.size)
        for distribution, part in ((one, 1.0 - share), (other, share)):
            p[np.searchsorted(x, distribution.x)] += part * distribution.p
        return Atoms(x[p > 0.0], p[p > 0.0]) if share in (0.0, 1.0) and x.size > 2 else Atoms(x, p)
    ends = [d for d in (one, other) if isinstance(d, ScipyDistribution) and not d.lattice]
    if len(ends) == 2:
        if share in (0.0, 1.0):
            return other if share else one
        from pmbandits.tables.scipy_distributions import TwoComponentMixture

        return as_distribution(TwoComponentMixture(ends[0].frozen, ends[1].frozen, share)(), name=name)
    raise ValueError(
        f"{name} is {one.describe()} at one end and {other.describe()} at the other; such a mixture has both atoms and "
        "a density, which no arm here can have."
    )
