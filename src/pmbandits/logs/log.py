"""Logged rewards as advice needs them: of each arm a summary of several random parts, from which halves are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.logs.blocks import time_blocks_and_whether_dependent
from pmbandits.logs.columns import ReadSettings, UnitsAndTimes
from pmbandits.logs.periods import mean_by_arm_and_period
from pmbandits.logs.row_report import RewardCollector, RowReport
from pmbandits.logs.summary import N_PARTS, RewardSummary

MOST_ARMS = 5_000  # of a log; advice compares them in pairs
_BUFFER_SIZE = 1 << 18  # rewards that are buffered before they are added to their arms
# Orders in which rewards go to the parts.
_PART_PERMUTATIONS = np.array(list(permutations(range(N_PARTS))), dtype=np.uint8)


@dataclass(frozen=True)
class Sample:
    """Rewards of an arm, or of some parts of it: how many, the distinct ones, their shares, and the ranks' error.

    ``squares`` is for rows with weights: the squares of the weights at each reward, over the square of their sum. With
    weights, ``n`` is to how many rewards of equal weight they amount (Kish 1965).
    """

    n: int
    x: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    error: float = 0.0
    squares: FloatArray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ArmLog:
    """What a log says of one arm.

    Attributes
    ----------
    name, n : the arm and how many rewards it has.
    x, p : distinct rewards and their shares.
    error : how far any of the summed-up shares can be off, because rewards were summarised; 0 when exact. It holds
        with probability 1 − 8e-9 over the coins of the sketches.
    counts, errors : how many rewards of each random part each of ``x`` stands for, and the error of each part.
    squares : as in :class:`Sample`, for rows with weights.
    total : the sum of the weights of its rows; their number, if they have none.
    """

    name: str
    n: int
    x: FloatArray = field(repr=False)
    p: FloatArray = field(repr=False)
    error: float
    counts: FloatArray = field(repr=False)
    errors: FloatArray = field(repr=False)
    squares: FloatArray | None = field(default=None, repr=False)
    total: float = 0.0

    def select_parts(self, parts: Sequence[int]) -> Sample:
        """The sample of the rewards in some of the random parts."""
        mass = self.counts[:, list(parts)].sum(axis=1)
        n = round(float(mass.sum()))
        seen = mass > 0.0
        error = 0.0
        if self.error > 0.0 and n:
            sizes = self.counts[:, list(parts)].sum(axis=0)
            error = float(sizes @ self.errors[list(parts)]) / n
        return Sample(n, self.x[seen], mass[seen] / max(float(mass.sum()), 1e-300), error)

    def negated(self) -> ArmLog:
        """The arm with all rewards negated."""
        squares = None if self.squares is None else self.squares[::-1]
        return replace(self, x=-self.x[::-1], p=self.p[::-1], counts=self.counts[::-1], squares=squares)

    @property
    def whole_sample(self) -> Sample:
        """All rewards."""
        return Sample(self.n, self.x, self.p, self.error, self.squares)


@dataclass(frozen=True)
class Rows:
    """Every usable row, kept where a column of units or of times was named.

    Attributes
    ----------
    arm, reward, part : of each row: the place of its arm, its reward, and its random part.
    unit : a number for each unit (a user, a shop), or ``None``.
    time : a number that grows with time, or ``None``.
    block : a number for each block of time, or ``None``: with units, or where there are too few times.
    serial : whether rewards depend on those before them for so long that no blocks are independent.
    """

    arm: NDArray[np.int64]
    reward: FloatArray
    part: NDArray[np.uint8]
    unit: NDArray[np.int64] | None
    time: FloatArray | None
    block: NDArray[np.int64] | None = None
    serial: bool = False

    @property
    def cluster_of_each_row(self) -> NDArray[np.int64] | None:
        """What is independent of the others: units, or else blocks of time. ``None``: every row."""
        return self.block if self.unit is None else self.unit

    def select_arms(self, arms: Sequence[int]) -> Rows:
        """The rows of some arms, which are renumbered in the given order."""
        place = np.full(int(self.arm.max(initial=0)) + 1, -1)
        place[list(arms)] = np.arange(len(arms))
        arm = place[self.arm]
        mine = arm >= 0
        unit, block = (None if x is None else x[mine] for x in (self.unit, self.block))
        time = None if self.time is None else self.time[mine]
        return Rows(arm[mine], self.reward[mine], self.part[mine], unit, time, block, self.serial)


@dataclass(frozen=True)
class Log(RowReport):
    """Logged rewards by arm, with a report on what became of every row.

    Attributes
    ----------
    arms : the arms, in the order of their first row.
    kept_rows : every row, where a column of units or of times was named.
    per : ``None`` where one outcome is one row; else the period over which the rewards of an arm were averaged.
    arm_column, reward_column : the names of these columns; empty where there are none (a dict, or a wide table).
    measured_in : the unit of the rewards, such as "minutes" or "€"; empty if it is not known.
    by_propensity : whether rows are weighted by the chance with which their arm was chosen.
    """

    arms: tuple[ArmLog, ...]
    kept_rows: Rows | None = field(default=None, repr=False)
    per: str | None = None
    arm_column: str = ""
    reward_column: str = ""
    measured_in: str = ""
    by_propensity: bool = False

    def negated(self) -> Log:
        """The log with all rewards negated, for losses."""
        arms = tuple(a.negated() for a in self.arms)
        rows = self.kept_rows
        return replace(self, arms=arms, kept_rows=None if rows is None else replace(rows, reward=-rows.reward))

    @property
    def n_outcomes(self) -> int:
        """How many outcomes there are: rows that were used, or periods of arms."""
        return sum(arm.n for arm in self.arms)

    def most_common_reward(self) -> tuple[float, float]:
        """The reward that is most common in the first arm, and its share in the arm that has it least often."""
        first = self.arms[0].whole_sample
        value = float(first.x[int(np.argmax(first.p))])
        return value, min(float(arm.whole_sample.p[arm.whole_sample.x == value].sum()) for arm in self.arms)


class RandomPartsCollector(RewardCollector):
    """Of each eight rewards of an arm in a row, one goes to each part of the arm, in an order that chance decides.

    With units, all rewards of a unit go to the same part.
    """

    def __init__(self, seed: int, loss: bool, settings: ReadSettings) -> None:
        super().__init__(settings.same_names)
        self.units, self.times, self.per = settings.unit is not None, settings.time is not None, settings.per
        self.weighted, self.by_propensity = settings.is_weighted, settings.propensity is not None
        self.sign = -1.0 if loss else 1.0
        self.seed = np.uint64(seed)
        self.summaries: list[RewardSummary] = []
        self.n_assigned: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._buffer: list[tuple[NDArray[np.int64], FloatArray]] = []
        self._n_buffered = 0
        self._units_and_times: list[UnitsAndTimes] = []

    def add_arm(self) -> None:
        if len(self.summaries) == MOST_ARMS:
            shown = " and ".join(repr(name) for name in islice(self.arm_indices, 2))
            raise ValueError(
                f"there are more than {MOST_ARMS:,} different arms, such as {shown[:100]}: that is probably a column "
                "of ids, such as order numbers. Name the column of what was chosen with --arm (arm= in Python)."
            )
        self.summaries.append(RewardSummary())

    def keep_rewards(
        self, at: NDArray[np.int64], values: FloatArray, units_and_times: UnitsAndTimes | None = None
    ) -> None:
        self._buffer.append((at, self.sign * values))
        self._n_buffered += values.size
        if units_and_times is not None:  # the parts are given when all units are known
            self._units_and_times.append(units_and_times)
        elif self._n_buffered >= _BUFFER_SIZE:
            self._add_to_arm_summaries(*self._pop_buffer())

    def _pop_buffer(self) -> tuple[NDArray[np.int64], FloatArray]:
        """The arms and the rewards in the buffer, which is empty then."""
        at, values = (np.concatenate([pair[k] for pair in self._buffer]) for k in (0, 1))
        self._buffer, self._n_buffered = [], 0
        return at, values

    def _make_rows_and_summaries(self) -> Rows:
        """Every row, with the part that it belongs to; also adds the rewards to the summaries of their arms."""
        at, values = self._pop_buffer()
        time = np.concatenate([b.time for b in self._units_and_times]) if self.times else None
        if self.per is not None:
            assert time is not None  # a period needs a column of times
            at, values, time = mean_by_arm_and_period(at, values, time)
        unit = block = part = None
        serial = False
        if self.units:
            labels = np.concatenate([b.unit for b in self._units_and_times])
            unit = np.unique(labels.astype(str), return_inverse=True)[1]
        elif time is not None:
            block, serial = time_blocks_and_whether_dependent(at, values, time)
        cluster = block if unit is None else unit
        if cluster is not None:  # all rows of a unit, or of a block, are in one part
            count = int(cluster.max()) + 1
            part = self._draw_random_parts(np.zeros(count, dtype=np.int64), np.arange(count))[cluster]
        return Rows(at, values, self._add_to_arm_summaries(at, values, part), unit, time, block, serial)

    def _add_to_arm_summaries(
        self, at: NDArray[np.int64], values: FloatArray, part: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Add rewards to the summaries of their arms, and return their parts: those given, or the next of each arm."""
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        arms, sizes = at[first], np.diff(first, append=at.size)
        if part is None:
            self.n_assigned = np.pad(self.n_assigned, (0, len(self.summaries) - self.n_assigned.size))
            sorted_part = self._draw_random_parts(
                at, np.arange(at.size) - np.repeat(first - self.n_assigned[arms], sizes)
            )
            self.n_assigned[arms] += sizes
            part = np.empty_like(sorted_part)
            part[order] = sorted_part
        else:
            sorted_part = part[order]
        for arm, start, size in zip(arms.tolist(), first.tolist(), sizes.tolist(), strict=True):
            self.summaries[arm].extend(values[start : start + size], sorted_part[start : start + size])
        return part

    def _draw_random_parts(self, stream: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Random parts of items: of each eight in a row one goes to each part, in random order."""
        k = index.astype(np.uint64)
        start = _splitmix64_hash(stream.astype(np.uint64) + (self.seed << np.uint64(20)))
        order = _splitmix64_hash((k >> np.uint64(3)) + start) % np.uint64(_PART_PERMUTATIONS.shape[0])
        return np.asarray(_PART_PERMUTATIONS[order.astype(np.intp), (k & np.uint64(N_PARTS - 1)).astype(np.intp)])

    def _weighted_arms(self) -> Iterator[ArmLog]:
        """The arms, from rows with weights: shares are in proportion to the weights."""
        at, values = self._pop_buffer()
        weights = np.concatenate([b.weight for b in self._units_and_times if b.weight is not None])
        parts = self._add_to_arm_summaries(at, values)
        for k, name in enumerate(self.arm_indices):
            mine = at == k
            w, total = weights[mine], float(weights[mine].sum())
            size = total**2 / float(w @ w)
            x, place = np.unique(values[mine], return_inverse=True)
            counts = np.zeros((x.size, N_PARTS))
            np.add.at(counts, (place, parts[mine]), w * (size / total))
            squares = np.bincount(place, weights=w**2) / total**2
            shares = np.bincount(place, weights=w) / total
            yield ArmLog(name, max(int(size), 1), x, shares, 0.0, counts, np.zeros(N_PARTS), squares, total)

    def finished_log(self, source: str, *, strict: bool) -> Log:
        """The finished log: all arms, and what became of the rows."""
        row_report = self.finish_row_report(source, strict=strict)
        if self.weighted:
            return Log(**vars(row_report), arms=tuple(self._weighted_arms()), by_propensity=self.by_propensity)
        kept_rows = self._make_rows_and_summaries() if self.units or self.times else None
        if self._buffer:
            self._add_to_arm_summaries(*self._pop_buffer())
        arms = []
        for name, summary in zip(self.arm_indices, self.summaries, strict=True):
            x, counts, errors = summary.points_counts_and_rank_errors()
            mass = counts.sum(axis=1)
            error = float(counts.sum(axis=0) @ errors) / summary.n
            arms.append(ArmLog(name, summary.n, x, mass / mass.sum(), error, counts, errors, total=float(summary.n)))
        return Log(**vars(row_report), arms=tuple(arms), kept_rows=kept_rows, per=self.per)


def _splitmix64_hash(z: Any) -> Any:
    """splitmix64's finaliser: a number that looks random from one that does not."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
