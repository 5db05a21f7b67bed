"""Logged rewards from a dict, a frame or a file; malformed rows are counted and shown, never silently dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._extras import import_optional
from pmbandits._validation import FloatArray
from pmbandits.logs.column_names import unit_in_name
from pmbandits.logs.columns import ReadSettings, select_columns
from pmbandits.logs.files import OpenProgress, collect_record_batches, read_file
from pmbandits.logs.findings import Finding, check_rewards, leave_out_total, likely_codes_for_missing
from pmbandits.logs.log import Log, RandomPartsCollector
from pmbandits.logs.parse import REASONS, Problem, collect_table_piece, parse_numbers
from pmbandits.logs.resolve import fill_in_settings
from pmbandits.logs.row_report import NO_REWARDS, RewardCollector
from pmbandits.logs.whole_table import check_whole_table, drop_duplicate_rows, read_whole_table


def read_log(
    data: Any,
    *,
    arm: str | None = None,
    reward: str | None = None,
    settings: ReadSettings | None = None,
    strict: bool = False,
    loss: bool = False,
    seed: int = 0,
    watch: OpenProgress | None = None,
) -> Log:
    """A summary of the rewards of each arm, from a dict of arms, a frame, or a file.

    Parameters
    ----------
    data, arm, reward, strict, loss : as in :func:`pmbandits.advise`.
    seed : of the random parts into which the rewards of each arm are divided.
    watch : called with the name and the size of a file; its context gets the bytes read so far, for a progress bar.

    Examples
    --------
    >>> log = read_log({"a": [0, 1, 1], "b": [2, "?", 5]})
    >>> [(arm.name, arm.n) for arm in log.arms], log.unused_rows_sentence()
    ([('a', 3), ('b', 2)], '1 of 6 rows could not be used: 1 with a reward that is not a number.')
    """
    if not isinstance(data, Mapping):
        import_optional("pyarrow", "files and frames")
    settings, assumed, dates = fill_in_settings(data, settings or ReadSettings(arm, reward))

    def read_once(settings: ReadSettings) -> Log:
        collector = RandomPartsCollector(seed, loss, settings)
        source = _collect_any_data(collector, data, settings, watch)
        if collector.left_out:
            collector.findings.append(_left_out_finding(collector, settings))
        return leave_out_total(collector.finished_log(source, strict=strict))

    log = read_once(settings)
    found = (
        likely_codes_for_missing(log, loss)
        if settings.missing is None and (hasattr(data, "__len__") or isinstance(data, Path))
        else []
    )
    if found:
        before, log = log, read_once(replace(settings, missing=found))
        assumed.append(_sentinel_finding(found, before.n_outcomes - log.n_outcomes))
    if not isinstance(data, Mapping) and not (isinstance(data, (str, Path)) and Path(data).is_dir()):
        assumed += check_whole_table(data, settings, dates)
    named = not settings.wide and not isinstance(data, Mapping)
    return replace(
        log,
        findings=(*assumed, *log.findings, *check_rewards(log)),
        arm_column=settings.arm or "arm" if named else "",
        reward_column=settings.reward or "reward" if named else "",
        measured_in=settings.measured_in or settings.currency or unit_in_name(settings.reward or ""),
    )


def _left_out_finding(collector: RewardCollector, settings: ReadSettings) -> Finding:
    total = collector.rows + collector.left_out
    said = "; ".join(map(str, settings.conditions))
    return Finding(
        "conditions",
        f"The answer is about the rows with {said}.",
        f"{collector.left_out:,} of {total:,} rows were left out.",
    )


def _sentinel_finding(numbers: list[float], count: int) -> Finding:
    listed = " and ".join(f"{number:.12g}" for number in numbers)
    return Finding(
        "sentinels",
        f"{listed} stands {count:,} times, far away from all other rewards.",
        "It was taken for “not known”, and these rows were left out.",
        "To count them: --missing none (missing=() in Python).",
    )


def read_samples(data: Any, *, arm: str = "arm", reward: str = "reward") -> dict[str, FloatArray]:
    """All rewards of each arm, in the order of their rows; a malformed row is an error that says where it is.

    >>> read_samples({"a": [0, 1, 1], "b": [2, 5]})
    {'a': array([0., 1., 1.]), 'b': array([2., 5.])}
    """
    collector = _AllRewardsCollector()
    collector.finish_row_report(_collect_any_data(collector, data, ReadSettings(arm, reward), None), strict=True)
    at, values = (np.concatenate([piece[k] for piece in collector.pieces]) for k in (0, 1))
    order = np.argsort(at, kind="stable")
    cuts = np.flatnonzero(np.diff(at[order]))
    return dict(zip(collector.arm_indices, np.split(values[order], cuts + 1), strict=True))


class _AllRewardsCollector(RewardCollector):
    """Keeps every reward."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[NDArray[np.int64], FloatArray]] = []

    def add_arm(self) -> None:
        pass

    def keep_rewards(self, at: NDArray[np.int64], values: FloatArray, units_and_times: object = None) -> None:
        self.pieces.append((at, values))


def _collect_any_data(collector: RewardCollector, data: Any, settings: ReadSettings, watch: OpenProgress | None) -> str:
    """Collect all rewards of the data; returns what the data are called in sentences."""
    if settings.wide:
        collector.row_word = "cells"
    if isinstance(data, (str, Path)):
        whole = read_whole_table(Path(data), settings.sheet, collector) if settings.distinct else None
        if whole is not None:
            header, table, row_word, number = whole
            columns = select_columns(settings, header, Path(data).name)
            distinct = drop_duplicate_rows(table)
            first = distinct.column("at_min").to_pylist()
            batches, names = distinct.to_batches(), table.column_names
            for _ in collect_record_batches(
                collector, batches, names, columns, settings, row_word, lambda row: number(first[row])
            ):
                pass
        elif settings.distinct:
            raise ValueError(
                f"{Path(data).name} is too large (or of a kind) to leave out copies of rows; do it in the file."
            )
        else:
            read_file(collector, Path(data), settings, watch)
        return Path(data).name
    if isinstance(data, Mapping):
        if settings.keeps_every_row or settings.wide:
            raise ValueError(
                "a dict holds rewards by arm only; give a frame or a file for units, times or wide tables."
            )
        _collect_mapping(collector, data, settings)
        return "the data"
    if type(data).__module__.partition(".")[0] != "pandas" and _collect_arrow(collector, data, settings):
        return "the table"
    if _column_names(data) is not None:
        _collect_frame(collector, data, settings)
        return "the frame"
    raise TypeError(
        "data must be a dict of rewards by arm, a frame with an arm and a reward column, the result of a query that "
        "speaks "
        f"Arrow, or the path of a file, got {type(data).__name__}."
    )


def _collect_arrow(collector: RewardCollector, data: Any, settings: ReadSettings) -> bool:
    """Collect Arrow data (pyarrow, polars, DuckDB, ADBC); returns False if the data do not speak Arrow."""
    import pyarrow as pa

    if not isinstance(data, pa.RecordBatchReader):
        if hasattr(data, "__arrow_c_stream__"):
            data = pa.RecordBatchReader.from_stream(data)
        elif hasattr(data, "fetch_record_batch"):  # a result of DuckDB
            data = data.fetch_record_batch()
        else:
            return False
    columns = select_columns(settings, data.schema.names, "the table")
    for _ in collect_record_batches(collector, data, data.schema.names, columns, settings):
        pass
    return True


def _collect_mapping(collector: RewardCollector, data: Mapping[Any, Any], settings: ReadSettings) -> None:
    if not data:
        raise ValueError("the data hold no arms; give a dict such as {'a': [0, 1, 1], 'b': [2, 0, 5]}.")
    row = 0
    for name, rewards in data.items():
        if isinstance(rewards, (str, bytes)) or not _validation.is_list(rewards) or getattr(rewards, "ndim", 1) != 1:
            raise TypeError(
                f"the rewards of arm {str(name)!r} must be a list of numbers, got {_validation.short_repr(rewards)}."
            )
        values, problems = parse_numbers(rewards, settings)
        for at in np.flatnonzero(problems).tolist():
            text = str(np.asarray(rewards, dtype=object)[at])
            collector.count_and_keep_malformed(row + at, f"arm {name}, position {at}", REASONS[problems[at]], text)
        if count := int((problems == Problem.NOT_A_NUMBER).sum()):
            collector.count_unreadable(str(name), count)
        collector.rows += values.size
        row += values.size
        good = values[problems == Problem.NONE]
        collector.add_rewards([str(name)], np.zeros(good.size, dtype=np.int64), good)
        if not values.size:
            collector.count_and_keep_malformed(row, f"arm {name}", NO_REWARDS, "")


def _column_names(data: Any) -> list[Any] | None:
    """The columns of a frame of pandas, polars or pyarrow; ``None`` if it is no frame."""
    names = getattr(data, "column_names", None)
    if names is None:
        names = getattr(data, "columns", None)
    if names is None or callable(names) or not hasattr(data, "__getitem__"):
        return None
    return list(names)


def _collect_frame(collector: RewardCollector, data: Any, settings: ReadSettings) -> None:
    names = _column_names(data) or []
    columns = select_columns(settings, [str(name) for name in names], "the frame")
    collect_table_piece(collector, columns, settings, lambda at: np.asarray(data[names[at]]), "row", int)
