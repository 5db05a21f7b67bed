"""A population with segments: arms whose distributions are known for each segment, and how often each one comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, check_bandit
from pmbandits.segments import Segments


@dataclass(frozen=True)
class Population:
    """The segments, how often each comes, and a bandit whose arms are the columns: pairs of a segment and an arm."""

    segments: Segments
    frequencies: FloatArray
    columns: Bandit

    @classmethod
    def from_arguments(cls, bandits: Any, segments: Any) -> Population:
        """Make it from ``{"new": bandit, …}`` and ``{"new": 0.6, …}``, checked."""
        if not isinstance(bandits, Mapping) or not isinstance(segments, Mapping):
            wrong = bandits if not isinstance(bandits, Mapping) else segments
            raise TypeError(
                "with segments, give a bandit for each, {'new': bandit, 'returning': bandit}, and how often each "
                f"comes, segments={{'new': 0.6, 'returning': 0.4}}; got {_validation.short_repr(wrong)}."
            )
        for bandit in bandits.values():
            check_bandit(bandit)
        made = Segments.from_arguments({name: bandit.names for name, bandit in bandits.items()})
        if set(segments) != set(made.names):
            one = next(iter(set(segments) ^ set(made.names)))
            lacks = "frequency in segments" if one in made.names else "bandit"
            raise ValueError(f"the segment {_validation.short_repr(one)} has no {lacks}; give it one, or leave it out.")
        frequencies = _validation.check_weights(
            [_validation.check_number(f"the frequency of {name}", segments[name]) for name in made.names],
            len(made),
            name="the frequencies of segments",
            of="segments",
        )
        if not frequencies.all():
            never = made.names[int(np.argmin(frequencies))]
            raise ValueError(f"the segment {never!r} never comes; leave it out, or give it a frequency above 0.")
        return cls(made, frequencies, _bandit_of_columns(made, [bandits[name] for name in made.names]))

    def weights_of_columns(self, weights: ArrayLike) -> FloatArray:
        """The weights of columns, which add up to 1, from the shares of arms within each segment (one row each)."""
        table, shape = np.asarray(weights, dtype=np.float64), self.segments.column_at.shape
        if table.shape != shape:
            raise ValueError(
                f"weights must have a row for each of the {shape[0]} segments and an entry for each of the {shape[1]} "
                f"arms, but the shape is {table.shape}."
            )
        missing = (self.segments.column_at < 0) & (table != 0.0)
        if missing.any():
            s, k = np.argwhere(missing)[0]
            raise ValueError(
                f"the segment {self.segments.names[s]!r} does not have {self.segments.arms[k]}, so its weight is 0; "
                f"got {table[s, k]:g}."
            )
        rows = [
            _validation.check_weights(row, shape[1], name=f"the weights of {name!r}")
            for name, row in zip(self.segments.names, table, strict=True)
        ]
        joint = self.frequencies[:, None] * np.array(rows)
        return np.asarray(joint[self.segments.segment_of, self.segments.arm_of])

    def shares_within(self, columns: ArrayLike) -> FloatArray:
        """The shares of arms within each segment (one row each) from weights or counts of columns."""
        return self.segments.shares_within(columns, range(self.segments.n_columns))

    def with_true_frequencies(self, columns: ArrayLike) -> FloatArray:
        """The weights of columns if segments had come as often as they do: shares within them, times their frequencies.

        The last axis has weights or counts of columns. A segment that has not come yet has even shares.
        """
        counts, segment_of = np.asarray(columns, dtype=np.float64), self.segments.segment_of
        starts = np.searchsorted(segment_of, np.arange(len(self.segments)))
        totals = np.add.reduceat(counts, starts, axis=-1)[..., segment_of]
        even = 1.0 / np.bincount(segment_of)[segment_of]
        shares = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), even)
        return np.asarray(self.frequencies[segment_of] * shares)

    def to_dict(self) -> dict[str, Any]:
        """The segments as data that can be written as JSON; the arms are described by ``columns``."""
        often = dict(zip(self.segments.names, self.frequencies.tolist(), strict=True))
        return {"names": list(self.segments.arms), "arms": self.segments.to_dict(), "frequencies": often}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], columns: Bandit) -> Population:
        """Make the population that :meth:`to_dict` described, with the arms of its columns."""
        made = Segments.from_arguments(data["arms"], data["names"])
        return cls(made, np.array([data["frequencies"][name] for name in made.names]), columns)


def _bandit_of_columns(segments: Segments, bandits: list[Bandit]) -> Bandit:
    """All columns as the arms of one bandit; its support is that of all segments if it is the same in each."""
    arms = [
        bandits[s].distributions[bandits[s].names.index(segments.arms[k])]
        for s, k in zip(segments.segment_of, segments.arm_of, strict=True)
    ]
    supports = {bandit.support for bandit in bandits}
    return Bandit(arms, segments.column_names, support=supports.pop() if len(supports) == 1 else None)
