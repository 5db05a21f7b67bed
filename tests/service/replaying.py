"""The slow reference: what the log of an experiment says must have happened, worked out event by event.

It shares nothing with the service but the library's own ask and tell.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

import pmbandits as pmb
from pmbandits.engine.ticket_methods import propensity_of_chosen_arm
from pmbandits.simulation.policy_specs import policy_by_name
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
        wanted = f"SELECT id, spec, root FROM experiments WHERE name = {mark}"
        number, spec, root = connection.execute(wanted, (name,)).fetchone()
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE exp = {mark} AND seq > 0 ORDER BY seq", (number,)
        ).fetchall()
    finally:
        connection.close()
    return {**json.loads(spec), "root": root}, rows


def replayed(spec: dict[str, Any], rows: list[tuple[Any, ...]]) -> pmb.Policy:
    """The policy after all events; an assertion fails where the log makes no sense."""
    options = dict(spec["options"]) | {k: spec[k] for k in ("shares", "segments") if spec.get(k)}
    recipe = policy_by_name(spec["policy"], 1_000_000, options)
    support = Support.from_dict(spec["support"])
    policy = recipe.bind(spec["metric"], len(spec["arms"]), support, names=spec["arms"], seed=spec["seed"])
    asked: dict[int, tuple[int, dict[str, Any]]] = {}
    drawn: list[float] = []  # the probabilities of randomised play
    told: set[int] = set()
    for place, (seq, kind, ticket, arm, value, data) in enumerate(rows, 1):
        assert seq == place, "no gaps"
        who: dict[str, Any] = {}
        if policy.segments and arm is not None:
            who, arm = {"segment": policy.segments[arm // 16384]}, arm % 16384
        if kind == 0:
            among = None if data is None else json.loads(data)
            if isinstance(among, int):  # they stand in the first event of the request
                among = json.loads(rows[among - 1][5])
            if spec.get("play") == "randomised":
                got = _drawn(drawn, among, spec["root"], seq)
                some = range(len(drawn)) if among is None else among
                assert abs(value - drawn[got] / sum(drawn[k] for k in some)) < 1e-15, f"event {seq}: the propensity"
                policy.asked(got)
            else:
                got = policy.ask(**who) if among is None else policy.ask(among=[policy.names[k] for k in among], **who)
                column = int(policy._column_positions([got], who.get("segment"))[0])
                share = propensity_of_chosen_arm(policy, column)
                assert value == share, f"event {seq}: the share is that of a single ask"
            assert got == arm, f"event {seq}: the policy asks for {got}, {arm} was stored"
            asked[seq] = (arm, who)
        elif kind == 1:
            if ticket is not None:
                assert asked[ticket] == (arm, who), "a reward belongs to the arm of its ticket"
                assert ticket not in told, "no ticket is told twice"
                told.add(ticket)
            policy.tell(arm, value, **who)
        elif kind == 3:
            policy.asked(arm, **who)
            asked[seq] = (arm, who)
        elif kind == 11:
            drawn = json.loads(data)["probabilities"]
            assert abs(sum(drawn) - 1.0) < 1e-12
            assert [p > 0.0 for p in drawn] == [name in policy.playing for name in policy.names]
        else:
            _control(policy, kind, None if data is None else json.loads(data), arm, value, who)
    return policy


def _drawn(probabilities: list[float], among: list[int] | None, root: int, seq: int) -> int:
    """The arm of an ask: the first whose cumulative probability is above a number that follows from two others."""
    word = hashlib.blake2b(struct.pack("<QQ", root, seq), digest_size=8).digest()
    some = [k for k in (range(len(probabilities)) if among is None else among) if probabilities[k] > 0.0]
    ends = np.cumsum([probabilities[k] for k in some])
    at = int(np.searchsorted(ends, (struct.unpack("<Q", word)[0] >> 11) / 2.0**53 * ends[-1], side="right"))
    return some[min(at, len(some) - 1)]


def _control(policy: Any, kind: int, given: Any, arm: Any, value: Any, who: dict[str, Any]) -> None:
    if kind == 2:
        policy.retell(arm, given, value, **who)
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
    for who in [{"segment": name} for name in one.segments] or [{}]:
        assert one.ask(rounds, **who).tolist() == other.ask(rounds, **who).tolist()  # type: ignore[call-overload]
