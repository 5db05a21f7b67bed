"""What a policy's algorithm needs in its memory, and what stays the same while that memory grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.engine.forgetting import Forgetting


@dataclass
class Setup:
    """What an algorithm needs in its state. It is worked out once metric, arms and support are known.

    Parameters
    ----------
    grid : the mixtures among which it chooses, one in each row. For each row there is space for one number in ``value``
        and in ``index``. Without a grid there is space for one number of each arm.
    epsilon : the spacing of the grid, if it has one.
    numbers : the first values of the policy's own numbers and arrays, by name; and numbers of the library that it sets.
    confidence : the confidence sets that it keeps, if any.
    begin : a kernel that is run once on the new state.
    table : whether the arms' distributions are also laid out on a table of cells, and arms that are left out are
        tested.
    slopes : whether there is space for one slope of each arm, in ``slope``, and for its variance, in ``spread``.
    blocks : whether rewards are also counted in blocks, where that can help to choose (two arms, concave metrics).
    """

    grid: FloatArray | None = None
    epsilon: float | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    confidence: ConfidenceSet | None = None
    begin: Callable[[int], Any] | None = None
    table: bool = False
    slopes: bool = False
    blocks: bool = False

    @property
    def certifies(self) -> bool:
        """Whether a share of the pulls serves to be certain sooner."""
        return self.numbers.get("certify", 0.0) > 0.0


@dataclass(frozen=True)
class Plan:
    """What stays the same while a policy's memory grows: constants, and how rewards are kept."""

    setup: Setup
    arrays: Mapping[str, FloatArray]
    rounding_safe: bool  # whether rounding of a probability cannot move h by more than the policies' margins
    keeps_all_rewards: bool  # whether all rewards are kept, so that the pool must grow
    # Whether the algorithm itself looks at its confidence sets; if not, radii are made for readers only.
    decides_by_sets: bool
    forgetting: Forgetting | None = None  # which rewards are forgotten, and whether arms are watched

    @property
    def confidence(self) -> ConfidenceSet | None:
        """The confidence sets."""
        return self.setup.confidence
