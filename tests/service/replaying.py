"""The slow reference: what the log of an experiment says must have happened, worked out event by event.

It shares nothing with the service but the library's own ask and tell.
"""

from __future__ import annotations

import json
from typing import Any

import pmbandits as pmb
from pmbandits.engine.ticket_methods import propensity
from pmbandits.simulation.policy_specs import by_name
from pmbandits.supports import Support

COLUMNS = "seq, kind, ticket, arm, value, data"


def rows_of(store: str, name: str) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """Description and events of an experiment, straight from the tables."""
    if store.startswith("sqlite"):
        import sqlite3

        connection: Any = sqlite3.connect(store.removeprefix("sqlite:///"))
        mark = "?"
    else:
        import psycopg

        connection = psycopg.connect(store)
        mark = "%s"
    try:
        number, spec = connection.execute(f"SELECT id, spec FROM experiments WHERE name = {mark}", (name,)).fetchone()
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE exp = {mark} AND seq > 0 ORDER BY seq", (number,)
        ).fetchall()
    finally:
        connection.close()
    return json.loads(spec), rows


def replayed(spec: dict[str, Any], rows: list[tuple[Any, ...]]) -> pmb.Policy:
    """The policy after all events; an assertion fails where the log makes no sense."""
    options = dict(spec["options"]) | ({"shares": spec["shares"]} if spec.get("shares") else {})
    recipe = by_name(spec["policy"], 1_000_000, options)
    support = Support.from_dict(spec["support"])
    policy = recipe.bind(spec["metric"], len(spec["arms"]), support, names=spec["arms"], seed=spec["seed"])
    asked: dict[int, int] = {}
    told: set[int] = set()
    for place, (seq, kind, ticket, arm, value, data) in enumerate(rows, 1):
        assert seq == place, "no gaps"
        if kind == 0:
            among = None if data is None else json.loads(data)
            if isinstance(among, int):  # they stand in the first event of the request
                among = json.loads(rows[among - 1][5])
            got = policy.ask() if among is None else policy.ask(among=[policy.names[k] for k in among])
            assert value == propensity(policy, got), f"event {seq}: the share is that of a single ask"
            assert got == arm, f"event {seq}: the policy asks for {got}, {arm} was stored"
            asked[seq] = arm
        elif kind == 1:
            if ticket is not None:
                assert asked[ticket] == arm, "a reward belongs to the arm of its ticket"
                assert ticket not in told, "no ticket is told twice"
                told.add(ticket)
            policy.tell(arm, value)
        elif kind == 3:
            policy.asked(arm)
            asked[seq] = arm
        else:
            _control(policy, kind, None if data is None else json.loads(data), arm, value)
    return policy


def _control(policy: Any, kind: int, given: Any, arm: Any, value: Any) -> None:
    if kind == 2:
        policy.retell(arm, given, value)
    elif kind == 4:
        policy.add_arm(given)
    elif kind == 5:
        policy.pause(given)
    elif kind == 6:
        policy.resume(given)
    elif kind == 7:
        policy.retire(given)
    elif kind == 8:
        policy.limit(given)
    else:
        assert kind == 9, kind  # the status, of which a policy knows nothing


def same(one: pmb.Policy, other: pmb.Policy, rounds: int = 30) -> None:
    """Two policies are in the same state: what they count, what they want, and what they ask for next."""
    import copy

    assert one.names == other.names
    assert one.pulls.tolist() == other.pulls.tolist()
    assert one.pending.tolist() == other.pending.tolist()
    assert one.mixture.tolist() == other.mixture.tolist()
    one, other = copy.copy(one), copy.copy(other)
    assert one.ask(rounds).tolist() == other.ask(rounds).tolist()
