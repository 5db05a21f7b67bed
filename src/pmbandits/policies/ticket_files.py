"""Tickets in files: those that are answered, and those that are open."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from pmbandits.policies.archive import Damaged
from pmbandits.policies.lineup import rounds
from pmbandits.policies.policy import Policy
from pmbandits.policies.tickets import Row, Tickets
from pmbandits.state.layout import MOST

_PARTS = {
    "ticket_session": np.int64, "ticket_number": np.int64, "ticket_arm": np.int64, "ticket_round": np.int64,
    "ticket_share": np.float64, "ticket_at": np.float64, "ticket_reward": np.float64,
}  # fmt: skip
_PREFIX = re.compile("[0-9a-f]{8}")
_NOT = "its tickets cannot be read"


def described_tickets(tickets: Tickets | None) -> dict[str, Any] | None:
    """How many tickets were given out by whom, and of how many a row is kept, for the description in a file."""
    if tickets is None:
        return None
    return {"issued": [[prefix, n] for prefix, n in tickets.issued.items()], "rows": len(list(tickets.rows()))}


def kept_names(found: Any) -> set[str]:
    """The parts that a file has for tickets."""
    return set(_PARTS) if isinstance(found, dict) and found.get("rows") else set()


def kept_tickets(tickets: Tickets | None) -> dict[str, np.ndarray]:
    """The rows of tickets, as parts of a file. Open ones come last; answered ones as they were answered."""
    if tickets is None or not (tickets.answered or tickets.open):
        return {}
    session = {prefix: at for at, prefix in enumerate(tickets.issued)}
    table = []
    for key, row in (*tickets.answered.items(), *tickets.open.items()):
        prefix, _, number = key.rpartition("-")
        reward = np.nan if row.reward is None else row.reward
        table.append((session[prefix], int(number), row.arm, row.round, row.share, row.at, reward))
    columns = zip(*table, strict=True)
    return {name: np.array(column, dtype=kind) for (name, kind), column in zip(_PARTS.items(), columns, strict=True)}


def read_tickets(policy: Policy, found: Any, part: Callable[[str, tuple[int, ...], Any], np.ndarray]) -> Tickets | None:
    """The tickets of a file, checked; or Damaged."""
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != {"issued", "rows"} or not isinstance(found["issued"], list):
        raise Damaged(_NOT)
    tickets, rows = Tickets(), found["rows"]
    for pair in found["issued"]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _PREFIX.fullmatch(pair[0])):
            raise Damaged(_NOT)
        if type(pair[1]) is not int or not 0 < pair[1] <= MOST or pair[0] in tickets.issued:
            raise Damaged(_NOT)
        tickets.issued[pair[0]] = pair[1]
    if type(rows) is not int or not 0 <= rows <= MOST:
        raise Damaged(_NOT)
    if rows == 0:
        return tickets
    session, number, arm, round_, share, at, reward = (part(name, (rows,), kind) for name, kind in _PARTS.items())
    issued = np.array(list(tickets.issued.values()), dtype=np.int64)
    told = reward[~np.isnan(reward)]
    assert policy.support is not None
    if (
        session.min() < 0
        or session.max() >= issued.size
        or (number < 0).any()
        or (number >= issued[session]).any()
        or arm.min() < 0
        or arm.max() >= policy.n_arms
        or round_.min() < 1
        or round_.max() > rounds(policy)
        or not ((share >= 0.0) & (share <= 1.0 + 1e-9)).all()
        or not np.isfinite(at).all()
        or not bool(policy.support.contains(told).all())
    ):
        raise Damaged(_NOT)
    names = list(tickets.issued)
    for s, n, a, t, p, when, r in zip(
        *(c.tolist() for c in (session, number, arm, round_, share, at, reward)), strict=True
    ):
        into = tickets.open if np.isnan(r) else tickets.answered
        into[f"{names[s]}-{n}"] = Row(a, p, t, when, None if np.isnan(r) else r)
    if len(tickets.open) + len(tickets.answered) != rows or set(tickets.open) & set(tickets.answered):
        raise Damaged(_NOT)
    return tickets
