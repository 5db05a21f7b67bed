"""From what people write to limits: text, dictionaries, groups and budgets become one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.constraints.parser import Row, format_limit, parse_limits, quote_name
from pmbandits.constraints.polytope import FEASIBILITY_TOLERANCE, Polytope
from pmbandits.segments import Segments

# What people may write: text, {arm or group: (least, most)}, limits that were read before, or a list of these.
Shares = Any

_MAX_LIMITS = 2_000  # limits of one problem


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits on the shares of arms: ``matrix @ weights <= bound``, with equality where ``equal`` is true.

    It is made by :func:`pmbandits.constraints.limits`, which also makes sure that some mixture keeps the limits.

    Attributes
    ----------
    matrix, bound, equal : the limits as numbers, one row for each limit and one column for each arm.
    texts : the limits as text. ``"; ".join(texts)`` gives the same limits again.
    names : the names of the arms; with segments those of the columns, such as ``new: A``.
    segment_of_limit : with segments, the position of the segment that each limit is about; −1: the whole population.
    mentions : with segments, which columns each limit is on. (In ``matrix`` all columns of its segment have a number.)

    Examples
    --------
    >>> found = limits("A >= 10%; B <= 0.3", ["A", "B", "C"])
    >>> found.texts, found.keeps([0.8, 0.1, 0.1])
    (('A >= 10%', 'B <= 0.3'), True)
    """

    matrix: FloatArray = field(repr=False)
    bound: FloatArray = field(repr=False)
    equal: NDArray[np.bool_] = field(repr=False)
    texts: tuple[str, ...]
    names: tuple[str, ...]
    segment_of_limit: NDArray[np.int64] | None = field(default=None, repr=False)
    mentions: NDArray[np.bool_] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def __str__(self) -> str:
        return "; ".join(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limits) and (self.texts, self.names) == (other.texts, other.names)

    def __hash__(self) -> int:
        return hash((self.texts, self.names))

    @cached_property
    def polytope(self) -> Polytope:
        """The set of mixtures that keep the limits. Rows are scaled so that the largest coefficient of each is 1."""
        return Polytope(self.matrix / self.sizes[:, None], self.bound / self.sizes, self.equal)

    @cached_property
    def sizes(self) -> FloatArray:
        """The largest coefficient of each limit, as it was written."""
        return np.abs(self.matrix).max(axis=1, initial=0.0)

    def excess(self, weights: Any) -> FloatArray:
        """By how much a mixture is beyond each limit; 0 where it keeps the limit.

        The largest coefficient of each limit counts as 1.

        >>> limits("A >= 10%; B <= 0.3", ["A", "B"]).excess([0.5, 0.5])
        array([0. , 0.2])
        """
        return np.asarray(self.polytope.excess(_validation.check_weights(weights, len(self.names)))[0])

    def keeps(self, weights: Any) -> bool:
        """Whether a mixture keeps all limits, up to rounding.

        >>> limits("A >= 10%", ["A", "B"]).keeps([0.05, 0.95])
        False
        """
        return bool((self.excess(weights) <= FEASIBILITY_TOLERANCE).all())

    def among(self, names: Sequence[str]) -> Limits | None:
        """The limits for some of the arms, and for new arms that they say nothing about; ``None`` if no limit is left.

        Arms that are missing have no share. So lower limits on them are suspended, and so is an equality that one of
        them is part of. All other limits stay.

        >>> limits("A >= 10%; B + C <= 0.3", ["A", "B", "C"]).among(["B", "C", "D"])
        Limits(texts=('B + C <= 0.3',), names=('B', 'C', 'D'))
        """
        place = {name: at for at, name in enumerate(self.names)}
        mentions = self.matrix != 0.0 if self.mentions is None else self.mentions
        rows, on = np.zeros((len(self), len(names))), np.zeros((len(self), len(names)), dtype=bool)
        for to, name in enumerate(names):
            if name in place:
                rows[:, to], on[:, to] = self.matrix[:, place[name]], mentions[:, place[name]]
        staying = set(names)
        missing = [at for name, at in place.items() if name not in staying]
        touched = mentions[:, missing].any(axis=1)
        kept = on.any(axis=1) & ~(touched & self.equal)
        if not kept.any():
            return None
        some = self._some(kept)
        found = replace(some, matrix=rows[kept], names=tuple(names))
        if self.mentions is not None:
            found = replace(found, mentions=on[kept])
        if found.polytope.any_feasible_mixture() is None:
            raise ValueError(f"{', '.join(names[:5])} alone cannot keep the limits ({found}); change who plays.")
        return found

    def without(self, text: str) -> Limits:
        """All limits except the one with this text."""
        return self._some(np.array([t != text for t in self.texts], dtype=bool))

    def _some(self, kept: NDArray[np.bool_]) -> Limits:
        """The limits where ``kept`` is true."""
        within = None if self.segment_of_limit is None else self.segment_of_limit[kept]
        mentions = None if self.mentions is None else self.mentions[kept]
        texts = tuple(text for text, stays in zip(self.texts, kept, strict=True) if stays)
        return Limits(self.matrix[kept], self.bound[kept], self.equal[kept], texts, self.names, within, mentions)


def limits(
    shares: Shares,
    names: Sequence[str],
    *,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
    segments: Segments | None = None,
    frequencies: FloatArray | None = None,
) -> Limits:
    """Read limits on shares from text or a dictionary, and a budget. Limits that no mixture can keep are refused.

    With segments the limits are about the weights of columns: the share of an arm among a segment's people, times how
    often such people come. A limit within a segment, ``Σ c·w ≤ b``, is ``Σ (c − b)·weight ≤ 0``; so the limits hold for
    all frequencies.

    Parameters
    ----------
    shares : text like ``"A >= 10%; B + C <= 0.3; A == 2 * B"``. Or a dictionary with the smallest and the largest share
        of an arm, ``{"A": (0.1, 1.0)}``, or of a group, ``{("B", "C"): (0.0, 0.3)}``. Or a list of these. An end that
        is ``None`` is not limited.
    names : the names of all arms.
    cost, budget : what a pull of each arm costs (0 for arms that are not named), and what a round may cost on average.
    segments : the segments, whose limits are written as ``"new: A >= 10%"`` or ``{"new": {"A": (0.1, 1.0)}}``.
    frequencies : how often each segment comes, if that is known.

    Examples
    --------
    >>> found = limits("A >= 10%; B + C <= 0.3", ["A", "B", "C"])
    >>> found.matrix, found.bound, found.texts
    (array([[-1.,  0.,  0.],
           [ 0.,  1.,  1.]]), array([-0.1,  0.3]), ('A >= 10%', 'B + C <= 0.3'))
    >>> limits({"A": (0.6, 1.0), "B": (0.6, None)}, ["A", "B"])
    Traceback (most recent call last):
    ValueError: the least shares add up to 1.2 (A >= 0.6; B >= 0.6), which is more than 1; lower one of them.
    """
    known = tuple(str(name) for name in names)
    if isinstance(shares, Limits) and cost is None and budget is None:
        columns = known if segments is None else segments.column_names
        if shares.names != columns:
            raise ValueError(
                f"the limits were made for the arms {', '.join(shares.names)}, not for {', '.join(columns)}; "
                "make them anew."
            )
        return shares
    rows = [*_parse_limit_rows(shares, known, segments), *_limit_rows_from_budget(cost, budget, known)]
    single = {row.text: row for row in reversed(rows)}  # what is said twice counts once
    said = [(row, row if segments is None else _row_over_columns(row, segments)) for row in reversed(single.values())]
    said = [(row, over) for row, over in said if not _is_vacuous_limit(over)]
    kept = [over for _, over in said]
    if len(kept) > _MAX_LIMITS:
        raise ValueError(f"there are {len(kept):,} limits; at most {_MAX_LIMITS:,} can be used.")
    columns = known if segments is None else segments.column_names
    within = np.array([-1 if row.segment is None else row.segment for row in kept], dtype=np.int64)
    made = Limits(
        np.array([row.coefficients for row in kept]).reshape(len(kept), len(columns)),
        np.array([row.bound for row in kept]),
        np.array([row.equal for row in kept], dtype=bool),
        tuple(row.text for row in kept),
        columns,
        None if segments is None else within,
        None if segments is None else np.array([_columns_of_limit(row, segments) for row, _ in said], dtype=bool),
    )
    tried = [(made, made.polytope)]
    if segments is not None and frequencies is not None:
        tried = [(made, made.polytope.with_segments(segments.segment_of, frequencies))]
    elif segments is not None:  # whoever comes, each segment's own limits; and all of them for some frequencies
        own = made._some(within >= 0)
        tried.append((own, own.polytope.with_segments(segments.segment_of)))
    for some, polytope in tried:
        if polytope.any_feasible_mixture() is None:
            raise ValueError(_explain_infeasible(some, polytope))
    return made


def _columns_of_limit(row: Row, segments: Segments) -> NDArray[np.bool_]:
    """Which columns a limit on shares of arms is on."""
    on = row.coefficients[segments.arm_of] != 0.0
    return on if row.segment is None else on & (segments.segment_of == row.segment)


def _row_over_columns(row: Row, segments: Segments) -> Row:
    """A limit on shares of arms as one on the weights of columns."""
    coefficients = row.coefficients[segments.arm_of]
    if row.segment is None:
        return replace(row, coefficients=coefficients)
    mine, offered = segments.segment_of == row.segment, segments.column_at[row.segment] >= 0
    missing = np.flatnonzero((row.coefficients != 0.0) & ~offered)
    if missing.size:
        name, arm = segments.names[row.segment], segments.arms[missing[0]]
        raise ValueError(f"the limit {row.text} is on {arm}, which the segment {name!r} does not have; leave it out.")
    return replace(row, coefficients=np.where(mine, coefficients - row.bound, 0.0), bound=0.0)


def _parse_limit_rows(shares: Shares, names: tuple[str, ...], segments: Segments | None) -> list[Row]:
    if shares is None:
        return []
    if isinstance(shares, Limits):
        return _parse_limit_rows(str(limits(shares, names, segments=segments)), names, segments)
    if isinstance(shares, str):
        return parse_limits(shares, names, segments)
    if isinstance(shares, Mapping):
        rows = []
        for who, ends in shares.items():
            if segments is not None and isinstance(ends, Mapping):
                place, before = segments.index(who), quote_name(who)
                own = (row for arm, pair in ends.items() for row in _limit_rows_from_share_range(arm, pair, names))
                rows += [replace(row, text=f"{before}: {row.text}", segment=place) for row in own]
            else:
                rows += _limit_rows_from_share_range(who, ends, names)
        return rows
    if isinstance(shares, Iterable) and not isinstance(shares, bytes):
        return [row for one in shares for row in _parse_limit_rows(_require_text_or_mapping(one), names, segments)]
    raise TypeError(_unreadable_message(shares))


def _require_text_or_mapping(one: Any) -> Any:
    if not isinstance(one, (str, Mapping, Limits)):
        raise TypeError(_unreadable_message(one))
    return one


def _unreadable_message(given: Any) -> str:
    return (
        f"limits are text like 'A >= 10%; B + C <= 0.3' or a dictionary like {{'A': (0.1, 1.0)}}, "
        f"got {_validation.short_repr(given)}."
    )


def _limit_rows_from_share_range(who: Any, ends: Any, names: tuple[str, ...]) -> list[Row]:
    """Rows for the least and the largest share of an arm or a group."""
    coefficients = np.zeros(len(names))
    for arm in who if isinstance(who, (tuple, frozenset)) else (who,):
        coefficients[_arm_index(arm, names)] = 1.0
    label = " + ".join(quote_name(name) for name, c in zip(names, coefficients, strict=True) if c)
    if isinstance(ends, (str, bytes)) or not isinstance(ends, Sequence) or len(ends) != 2:
        raise ValueError(
            f"the limits of {label} must be a pair like (0.1, 0.5), the least and the largest share, "
            f"got {_validation.short_repr(ends)}."
        )
    least, most = (None if end is None else _validation.check_number(f"a limit of {label}", end) for end in ends)
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"the least share of {label} ({least:g}) is above its largest ({most:g}); give (least, largest)."
        )
    out = []
    if least is not None and least == most:
        return [Row(coefficients, least, True, format_limit(coefficients, "==", least, names))]
    if least is not None:
        out.append(Row(0.0 - coefficients, -least, False, format_limit(coefficients, ">=", least, names)))
    if most is not None:
        out.append(Row(coefficients, most, False, format_limit(coefficients, "<=", most, names)))
    return out


def _arm_index(arm: Any, names: tuple[str, ...]) -> int:
    if isinstance(arm, (int, np.integer)) and not isinstance(arm, bool) and 0 <= arm < len(names):
        return int(arm)
    if arm not in names:
        raise ValueError(_validation.unknown_name_message("a limit names the unknown arm", arm, names))
    return names.index(arm)


def _limit_rows_from_budget(cost: Any, budget: Any, names: tuple[str, ...]) -> list[Row]:
    if cost is None and budget is None:
        return []
    if cost is None or budget is None:
        raise ValueError(
            "a budget needs both cost, what a pull of each arm costs, such as {'A': 2.0}, and budget, what a round may "
            "cost on average, such as 1.5."
        )
    if not isinstance(cost, Mapping):
        raise TypeError(f"cost must be a dictionary like {{'A': 2.0}}, got {_validation.short_repr(cost)}.")
    most = _validation.check_number("budget", budget)
    coefficients = np.zeros(len(names))
    for arm, each in cost.items():
        coefficients[_arm_index(arm, names)] = _validation.check_number(f"the cost of {arm}", each)
    if not coefficients.any():
        return []
    return [Row(coefficients, most, False, format_limit(coefficients, "<=", most, names))]


def _is_vacuous_limit(row: Row) -> bool:
    """Whether every mixture keeps a limit: shares lie between 0 and 1 and add up to 1."""
    return not row.equal and float(row.coefficients.max()) <= row.bound


def _explain_infeasible(made: Limits, polytope: Polytope) -> str:
    """Why no mixture keeps the limits: one sentence with as few of them as possible."""
    rows = [row for row in polytope.irreducible_infeasible_rows(len(made)) if row < len(made)]
    texts = "; ".join(made.texts[k] for k in rows)
    matrix, bound = made.matrix[rows], made.bound[rows]
    single = (matrix != 0.0).sum(axis=1) == 1
    if len(rows) == 1:
        hint = ""
        if single[0]:
            share = float(bound[0] / matrix[0][matrix[0] != 0.0][0])
            hint = f"; did you mean {share:g}%?" if 1.0 < share <= 100.0 else "."
        return f"no mixture keeps the limit {texts}: shares lie between 0 and 1 and add up to 1{hint or '.'}"
    values = bound / np.where(single, matrix.sum(axis=1), 1.0)
    if single.all() and (matrix < 0.0).sum() == len(rows):
        return f"the least shares add up to {values.sum():.6g} ({texts}), which is more than 1; lower one of them."
    if single.all() and (matrix > 0.0).sum() == len(rows) == len(made.names):
        return f"the largest shares add up to {values.sum():.6g} ({texts}), which is less than 1; raise one of them."
    return f"no mixture keeps these limits together: {texts}; loosen or remove one of them."
