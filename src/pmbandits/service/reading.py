"""What an experiment looks like from outside: worked out on a copy of its policy, so that nobody waits for it."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import select

from pmbandits.engine.policy import Policy
from pmbandits.estimates import ArmEstimate
from pmbandits.service.columns import columns_of_policy
from pmbandits.service.events import ASK, ASKED, KINDS, SEGMENT_STEP
from pmbandits.service.schema import events
from pmbandits.service.store import ExperimentRecord, Store, iso_utc

CURVE_POINTS = 65  # points of an arm's curve
MAX_ARMS_VALUED = 50  # arms; of more, each alone is not valued
MAX_ARMS_FORECAST = 200  # arms; of more there is no forecast, which takes 8 ms for each
PIECE, GROUP = 2_000, 25  # events that are read at once, and pieces that stand together in a file
COLUMNS = ("seq", "time", "kind", "ticket", "segment", "arm", "share", "reward", "data")


def experiment_state(policy: Policy, regret: float | str | None = None) -> dict[str, Any]:
    """Shares wanted and played, estimates with bands, certainty, an explanation, and a forecast if one is wanted."""
    limits = policy.limits
    sure = None if policy.confidence is None else policy.certainty()
    out: dict[str, Any] = {
        "t": policy.t,
        "arms": [
            {
                "arm": column.arm,
                **({"segment": column.segment} if policy.segments else {}),
                "plays": column.plays,
                "pulls": column.pulls,
                "pending": column.pending,
                "played": column.played,
                "wanted": column.wanted,
                **_arm_estimate_to_dict(estimate),
            }
            for column, estimate in zip(columns_of_policy(policy), policy.estimates, strict=True)
        ],
        "segments": arrivals_by_segment(policy),
        "limits": None if limits is None else str(limits),
        "certainty": None if sure is None else {**sure._asdict(), "sentence": str(sure)},
        "explanation": policy._explanation_text(sure),
        "forecast": None,
    }
    for arm, found in zip(out["arms"], single_arm_utilities(policy), strict=False):
        if found is not None:
            arm["alone"] = found
    if regret is not None:
        if policy.n_arms > MAX_ARMS_FORECAST:
            raise ValueError(
                f"a forecast is worked out for at most {MAX_ARMS_FORECAST} arms, and this experiment has "
                f"{policy.n_arms:,}; leave out regret."
            )
        ahead = policy.forecast(regret)
        out["forecast"] = {**ahead._asdict(), "sentence": str(ahead)}
    return out


def arrivals_by_segment(policy: Policy) -> list[dict[str, Any]] | None:
    """How many people of each segment have come, and their share of all; None without segments."""
    if not policy.segments:
        return None
    return [
        {"segment": name, "arrivals": n, "share": n / policy.t if policy.t else None}
        for name, n in zip(policy.segments, policy.arrivals.tolist(), strict=True)
    ]


def single_arm_utilities(policy: Policy) -> list[dict[str, float] | None]:
    """The utility of each playing arm alone, with bounds; an empty list if there are many arms, which takes long."""
    if policy.confidence is None or policy.n_arms > MAX_ARMS_VALUED or policy.segments:
        return []  # with segments, an arm alone is no mixture of the whole population
    playing, out = policy.playing, []
    for name, weights in zip(policy.names, np.eye(policy.n_arms), strict=True):
        found = policy.utility_bounds(weights) if name in playing else None
        out.append(None if found is None else dict(zip(("lower", "utility", "upper"), found, strict=True)))
    return out


def _arm_estimate_to_dict(estimate: ArmEstimate) -> dict[str, Any]:
    """The curve of an arm at points that tell most of it, with its band."""
    found: dict[str, Any] = {"rewards": estimate.n, "mean": estimate.mean}
    if estimate.n:
        shown = np.unique(np.linspace(0, estimate.x.size - 1, CURVE_POINTS).round().astype(int))
        x = estimate.x[shown]
        low, high = estimate.band(x)
        found["curve"] = {
            "x": x.tolist(),
            "share": estimate.cdf(x).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }
    return found


class ArmNames(NamedTuple):
    """The names of arms and segments, by their positions."""

    arms: tuple[str, ...]
    segments: tuple[str, ...]


def event_dicts(
    store: Store, record: ExperimentRecord, names: ArmNames, upto: int, after: int, limit: int
) -> list[dict[str, Any]]:
    """Events after one, up to another, oldest first."""
    wanted = (
        select(*(events.c[name] for name in ("seq", "at", "kind", "ticket", "arm", "value", "data")))
        .where(events.c.exp == record.id, events.c.seq > after, events.c.seq <= upto)
        .order_by(events.c.seq)
        .limit(limit)
    )
    with store.engine.connect() as connection:
        return [_event_row_to_dict(row, names) for row in connection.execute(wanted)]


def _event_row_to_dict(row: Any, names: ArmNames) -> dict[str, Any]:
    seq, at, kind, ticket, arm, value, data = row
    segment, arm = divmod(arm, SEGMENT_STEP) if names.segments and arm is not None else (None, arm)
    asked = kind in (ASK, ASKED)
    return {
        "seq": seq,
        "time": at,
        "kind": KINDS[kind],
        "ticket": seq if asked else ticket,
        "segment": None if segment is None else names.segments[segment],
        "arm": None if arm is None else names.arms[arm],
        "share": value if asked else None,
        "reward": None if asked else value,
        "data": data,
    }


def _write_times_as_iso(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the times of events by text in UTC."""
    for event in found:
        event["time"] = iso_utc(event["time"])
    return found


# ---- many events, piece by piece: a million take no more memory than a few, and whoever asks for arms goes first ----
Rows = Callable[[int, int], list[dict[str, Any]]]
RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]


async def _read_and_convert_in_chunks(
    rows: Rows, after: int, limit: int, run_in_thread: RunInThread, convert: Callable[[Any], Any]
) -> AsyncIterator[Any]:
    """Read events chunk by chunk, and yield each chunk converted."""

    def one() -> tuple[int, int, Any]:
        found = rows(after, min(limit, PIECE))
        return len(found), found[-1]["seq"] if found else after, convert(found)

    while limit > 0:
        n, after, piece = await run_in_thread(one)
        limit -= n
        if n:
            yield piece
        if n < PIECE:
            return


async def events_as_json(rows: Rows, after: int, limit: int, run_in_thread: RunInThread) -> AsyncIterator[bytes]:
    """Events as JSON."""
    before = b'{"events":['
    async for piece in _read_and_convert_in_chunks(
        rows, after, limit, run_in_thread, lambda found: msgspec.json.encode(_write_times_as_iso(found))[1:-1]
    ):
        yield before + piece
        before = b","
    yield b'{"events":[]}' if before != b"," else b"]}"


async def events_as_csv(rows: Rows, after: int, limit: int, run_in_thread: RunInThread) -> AsyncIterator[bytes]:
    """Events as CSV."""

    def written(found: list[dict[str, Any]]) -> bytes:
        text = io.StringIO()
        csv.DictWriter(text, COLUMNS).writerows(_write_times_as_iso(found))
        return text.getvalue().encode()

    yield (",".join(COLUMNS) + "\r\n").encode()
    async for piece in _read_and_convert_in_chunks(rows, after, limit, run_in_thread, written):
        yield piece


async def events_as_parquet(rows: Rows, after: int, limit: int, run_in_thread: RunInThread) -> AsyncIterator[bytes]:
    """Events as Parquet: its end says where everything is, so it is made whole first, in a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"seq": pa.int64(), "time": pa.timestamp("ms", "UTC"), "kind": pa.string(), "ticket": pa.int64(),
             "segment": pa.string(), "arm": pa.string(), "share": pa.float64(), "reward": pa.float64(),
             "data": pa.string()}  # fmt: skip
    schema = pa.schema(list(kinds.items()))
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            tables: list[Any] = []
            async for table in _read_and_convert_in_chunks(
                rows, after, limit, run_in_thread, partial(pa.Table.from_pylist, schema=schema)
            ):
                tables.append(table)
                if len(tables) == GROUP:
                    await run_in_thread(partial(writer.write_table, pa.concat_tables(tables)))
                    tables = []
            if tables:
                await run_in_thread(partial(writer.write_table, pa.concat_tables(tables)))
        file.seek(0)
        while part := file.read(1 << 20):
            yield part


LOG_FORMATS = {
    "json": ("application/json", events_as_json),
    "csv": ("text/csv", events_as_csv),
    "parquet": ("application/vnd.apache.parquet", events_as_parquet),
}
