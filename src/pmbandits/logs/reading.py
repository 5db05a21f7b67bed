"""Logged rewards from a dict, a frame or a file; malformed rows are counted and shown, never silently dropped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits._extras import need
from pmbandits.logs.account import NO_REWARDS, Collector
from pmbandits.logs.cells import as_numbers, take_rows
from pmbandits.logs.columns import Reading, picked
from pmbandits.logs.files import Watch, read_file, take_batches
from pmbandits.logs.log import Log, PartsOfArms


def read(
    data: Any,
    *,
    arm: str = "arm",
    reward: str = "reward",
    how: Reading | None = None,
    strict: bool = False,
    loss: bool = False,
    seed: int = 0,
    watch: Watch | None = None,
) -> Log:
    """A summary of the rewards of each arm, from a dict of arms, a frame, or a file.

    Parameters
    ----------
    data, arm, reward, strict, loss, seed : as in :func:`pmbandits.advise`.
    watch : is told the name and the size of a file, and then how many bytes are read: for a progress bar.

    Examples
    --------
    >>> log = read({"a": [0, 1, 1], "b": [2, "?", 5]})
    >>> [(arm.name, arm.n) for arm in log.arms], log.account()
    ([('a', 3), ('b', 2)], '1 of 6 rows could not be used: 1 with a reward that is not a number.')
    """
    how = how or Reading(arm, reward)
    into = PartsOfArms(seed, loss, how.unit is not None, how.time is not None, how.per)
    source = _collect(into, data, how, watch)
    return into.log(source, strict=strict)


def read_samples(data: Any, *, arm: str = "arm", reward: str = "reward") -> dict[str, FloatArray]:
    """All rewards of each arm, in the order of their rows; a malformed row is an error that says where it is.

    >>> read_samples({"a": [0, 1, 1], "b": [2, 5]})
    {'a': array([0., 1., 1.]), 'b': array([2., 5.])}
    """
    into = _AllRewards()
    into.finish(_collect(into, data, Reading(arm, reward), None), strict=True)
    at, values = (np.concatenate([piece[k] for piece in into.pieces]) for k in (0, 1))
    order = np.argsort(at, kind="stable")
    cuts = np.flatnonzero(np.diff(at[order]))
    return dict(zip(into.places, np.split(values[order], cuts + 1), strict=True))


class _AllRewards(Collector):
    """Keeps every reward."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[NDArray[np.int64], FloatArray]] = []

    def new_arm(self) -> None:
        pass

    def keep(self, at: NDArray[np.int64], values: FloatArray) -> None:
        self.pieces.append((at, values))


def _collect(into: Collector, data: Any, how: Reading, watch: Watch | None) -> str:
    """Bring all rewards of the data to their arms; returns what the data are called in sentences."""
    if how.wide:
        into.word = "cells"
    if not isinstance(data, Mapping):
        need("pyarrow", "files and frames")
    if isinstance(data, (str, Path)):
        read_file(into, Path(data), how, watch)
        return Path(data).name
    if isinstance(data, Mapping):
        if how.keeps_rows or how.wide:
            raise ValueError(
                "a dict holds rewards by arm only; give a frame or a file for units, times or wide tables."
            )
        _mapping(into, data)
        return "the data"
    if type(data).__module__.partition(".")[0] != "pandas" and _batches(into, data, how):
        return "the table"
    if _columns(data) is not None:
        _frame(into, data, how)
        return "the frame"
    raise TypeError(
        "data must be a dict of rewards by arm, a frame with an arm and a reward column, the result of a query that "
        "speaks "
        f"Arrow, or the path of a file, got {type(data).__name__}."
    )


def _batches(into: Collector, data: Any, how: Reading) -> bool:
    """Whatever hands out its rows as Arrow: tables and readers of pyarrow, polars, results of DuckDB and of ADBC."""
    import pyarrow as pa

    if not isinstance(data, pa.RecordBatchReader):
        if hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "fetch_record_batch"):  # a result of DuckDB
            data = data.fetch_record_batch()
        else:
            return False
    known = list(data.schema.names)
    take_batches(into, data, known, picked(how, known, "the table"), how)
    return True


def _mapping(into: Collector, data: Mapping[Any, Any]) -> None:
    if not data:
        raise ValueError("the data hold no arms; give a dict such as {'a': [0, 1, 1], 'b': [2, 0, 5]}.")
    row = 0
    for name, rewards in data.items():
        if isinstance(rewards, (str, bytes)) or not _check.is_list(rewards) or getattr(rewards, "ndim", 1) != 1:
            raise TypeError(f"the rewards of arm {str(name)!r} must be a list of numbers, got {_check.short(rewards)}.")
        values, reasons = as_numbers(rewards)
        for at, reason in reasons.items():
            into.bad(row + at, f"arm {name}, position {at}", reason, str(np.asarray(rewards, dtype=object)[at]))
        good = np.isfinite(values)
        into.rows += values.size
        row += values.size
        if good.any():
            into.arm(str(name), values[good])
        elif not reasons:
            into.bad(row, f"arm {name}", NO_REWARDS, "")


def _columns(data: Any) -> list[Any] | None:
    """The columns of a frame of pandas, polars or pyarrow; ``None`` if it is no frame."""
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or not hasattr(data, "__getitem__"):
        return None
    return list(names)


def _frame(into: Collector, data: Any, how: Reading) -> None:
    names = _columns(data) or []
    columns = picked(how, [str(name) for name in names], "the frame")

    def column(at: int) -> Any:
        return np.asarray(data[names[at]])

    beside = columns.beside(column)
    for arm, at in columns.pairs:
        arms = arm if columns.arm is None else column(columns.arm)
        take_rows(into, arms, column(at), "row", 0, beside, how.number)
