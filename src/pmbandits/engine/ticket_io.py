"""Tickets in files: those that are answered, and those that are open."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from pmbandits.engine.archive import DamagedFile
from pmbandits.engine.tickets import TicketRow, Tickets
from pmbandits.state.layout import MOST
from pmbandits.supports import Support

_PARTS = {
    "ticket_session": np.int64, "ticket_number": np.int64, "ticket_arm": np.int64, "ticket_round": np.int64,
    "ticket_share": np.float64, "ticket_at": np.float64, "ticket_reward": np.float64,
}  # fmt: skip
_PREFIX = re.compile("[0-9a-f]{8}")
_UNREADABLE = "its tickets cannot be read"


def tickets_to_json(tickets: Tickets | None) -> dict[str, Any] | None:
    """How many tickets were given out by whom, and of how many a row is kept, for the description in a file."""
    if tickets is None:
        return None
    return {"issued": [[prefix, n] for prefix, n in tickets.issued.items()], "rows": len(list(tickets.rows()))}


def ticket_array_names(found: Any) -> set[str]:
    """The parts that a file has for tickets."""
    return set(_PARTS) if isinstance(found, dict) and found.get("rows") else set()


def ticket_arrays(tickets: Tickets | None) -> dict[str, np.ndarray]:
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


def read_tickets(
    found: Any,
    part: Callable[[str, tuple[int, ...], Any], np.ndarray],
    *,
    n_arms: int,
    rounds: int,
    support: Support,
) -> Tickets | None:
    """The tickets of a file, checked; raises DamagedFile.

    ``found`` is their description, and ``part`` reads an array of a given shape and type. Arms, rounds and rewards must
    be those of a policy with ``n_arms`` arms, so many ``rounds`` and this support.
    """
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != {"issued", "rows"}:
        raise DamagedFile(_UNREADABLE)
    tickets, rows = Tickets(), found["rows"]
    tickets.issued = _read_issued(found["issued"])
    if not _is_count(rows):
        raise DamagedFile(_UNREADABLE)
    if rows == 0:
        return tickets
    columns = {name: part(name, (rows,), kind) for name, kind in _PARTS.items()}
    _check_identifiers(columns, np.array(list(tickets.issued.values()), dtype=np.int64))
    _check_asks(columns, n_arms, rounds, support)
    names = list(tickets.issued)
    for s, n, a, t, p, when, r in zip(*(column.tolist() for column in columns.values()), strict=True):
        into = tickets.open if np.isnan(r) else tickets.answered
        into[f"{names[s]}-{n}"] = TicketRow(a, p, t, when, None if np.isnan(r) else r)
    if len(tickets.open) + len(tickets.answered) != rows or set(tickets.open) & set(tickets.answered):
        raise DamagedFile(_UNREADABLE)
    return tickets


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= MOST


def _read_issued(pairs: Any) -> dict[str, int]:
    """How many tickets were given out with each prefix."""
    out: dict[str, int] = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _PREFIX.fullmatch(pair[0])):
            raise DamagedFile(_UNREADABLE)
        if not _is_count(pair[1]) or pair[1] == 0 or pair[0] in out:
            raise DamagedFile(_UNREADABLE)
        out[pair[0]] = pair[1]
    return out


def _check_identifiers(columns: dict[str, np.ndarray], issued: np.ndarray) -> None:
    """Refuse tickets that were never given out."""
    session, number = columns["ticket_session"], columns["ticket_number"]
    if session.min() < 0 or session.max() >= issued.size or (number < 0).any() or (number >= issued[session]).any():
        raise DamagedFile(_UNREADABLE)


def _check_asks(columns: dict[str, np.ndarray], n_arms: int, rounds: int, support: Support) -> None:
    """Refuse tickets with arms, rounds, shares, times or rewards that are not possible."""
    arm, round_, share = columns["ticket_arm"], columns["ticket_round"], columns["ticket_share"]
    rewards = columns["ticket_reward"][~np.isnan(columns["ticket_reward"])]
    possible = (
        arm.min() >= 0 and arm.max() < n_arms,
        round_.min() >= 1 and round_.max() <= rounds,
        ((share >= 0.0) & (share <= 1.0 + 1e-9)).all(),
        np.isfinite(columns["ticket_at"]).all(),
        bool(support.contains(rewards).all()),
    )
    if not all(possible):
        raise DamagedFile(_UNREADABLE)
