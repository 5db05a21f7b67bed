"""What an experiment looks like from outside: worked out on a copy of its policy, so that nobody waits for it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import select

from pmbandits.estimates import ArmEstimate
from pmbandits.policies.policy import Policy
from pmbandits.service.events import KINDS
from pmbandits.service.schema import events
from pmbandits.service.store import Record, Store

CURVE = 65  # points of an arm's curve
MANY = 50  # arms; of more, each alone is not valued
COLUMNS = ("seq", "at", "kind", "ticket", "arm", "value", "data")


def state(policy: Policy, regret: float | str | None = None) -> dict[str, Any]:
    """Shares wanted and played, estimates with bands, certainty, an explanation, and a forecast if one is wanted."""
    mixture, pulls, pending, t = policy.mixture, policy.pulls, policy.pending, policy.t
    playing, limits = policy.playing, policy.limits
    out: dict[str, Any] = {
        "t": t,
        "arms": [
            {
                "arm": name,
                "plays": name in playing,
                "pulls": int(pulls[i]),
                "pending": int(pending[i]),
                "played": float(pulls[i] / t) if t else None,
                "wanted": float(mixture[i]),
                **_estimate(estimate),
            }
            for i, (name, estimate) in enumerate(zip(policy.names, policy.estimates, strict=True))
        ],
        "limits": None if limits is None else str(limits),
        "certainty": _certainty(policy),
        "explanation": policy.explain(),
        "forecast": None,
    }
    for arm, found in zip(out["arms"], alone(policy), strict=False):
        if found is not None:
            arm["alone"] = found
    if regret is not None:
        ahead = policy.forecast(regret)
        out["forecast"] = {**ahead._asdict(), "sentence": str(ahead)}
    return out


def alone(policy: Policy) -> list[dict[str, float] | None]:
    """What each arm alone is worth, with bounds, if it plays; nothing of many arms, which would take long."""
    if policy.confidence is None or policy.n_arms > MANY:
        return []
    playing, out = policy.playing, []
    for name, weights in zip(policy.names, np.eye(policy.n_arms), strict=True):
        found = policy.utility_bounds(weights) if name in playing else None
        out.append(None if found is None else dict(zip(("lower", "utility", "upper"), found, strict=True)))
    return out


def _estimate(estimate: ArmEstimate) -> dict[str, Any]:
    """The curve of an arm at points that tell most of it, with its band."""
    found: dict[str, Any] = {"rewards": estimate.n, "mean": estimate.mean}
    if estimate.n:
        shown = np.unique(np.linspace(0, estimate.x.size - 1, CURVE).round().astype(int))
        x = estimate.x[shown]
        low, high = estimate.band(x)
        found["curve"] = {
            "x": x.tolist(),
            "share": estimate.cdf(x).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }
    return found


def _certainty(policy: Policy) -> dict[str, Any] | None:
    if policy.confidence is None:
        return None
    sure = policy.certainty()
    return {**sure._asdict(), "sentence": str(sure)}


def log(store: Store, record: Record, names: tuple[str, ...], after: int, limit: int) -> Iterator[dict[str, Any]]:
    """Events, oldest first."""
    wanted = (
        select(*(events.c[name] for name in COLUMNS))
        .where(events.c.exp == record.id, events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )
    with store.engine.connect() as connection:
        for row in connection.execute(wanted):
            found = dict(row._mapping)
            found["kind"] = KINDS[row.kind]
            found["arm"] = None if row.arm is None else names[row.arm]
            found["ticket"] = row.seq if found["kind"] in ("ask", "asked") else row.ticket
            yield found


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    """Events as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    """Events as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"seq": pa.int64(), "at": pa.timestamp("ms", "UTC"), "kind": pa.string(), "ticket": pa.int64(),
             "arm": pa.string(), "value": pa.float64(), "data": pa.string()}  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()
