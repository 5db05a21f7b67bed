"""Whether everything that was acknowledged is there, once, and whether all processes agree with the log."""

from __future__ import annotations

import collections
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import pmbandits as pmb
from pmbandits.service.check import check_store
from pmbandits.service.experiment import EXPIRED
from pmbandits.service.store import Store
from tests.faults.clients import Known
from tests.faults.experiments import EXPERIMENTS
from tests.service.replaying import replayed, rows_of, same


def verdict(store: str, ports: list[int], known: Known) -> dict[str, Any]:
    """Numbers of a round; an assertion fails if anything is lost, doubled or different."""
    counts: dict[str, Any] = collections.Counter()
    for name in EXPERIMENTS:
        spec, rows = rows_of(store, name)
        alone = replayed(spec, rows)  # no gaps, no ticket told twice, every stored arm is the policy's
        asks = {row[0]: alone.names[row[3]] for row in rows if row[1] in (0, 3)}
        tells = {row[2]: row[4] for row in rows if row[1] in (1, 2)}  # corrections come later
        for ticket, arm, _key in known.asked[name]:
            assert asks.get(ticket) == arm, (
                f"{name}: the ask {ticket} of {arm} was acknowledged and is {asks.get(ticket)}"
            )
        tickets = [ticket for ticket, _, _ in known.asked[name]]
        assert len(set(tickets)) == len(tickets), f"{name}: a ticket was given to two clients"
        assert len(asks) == len(tickets), f"{name}: {len(asks)} asks are stored, {len(tickets)} were acknowledged"
        for ticket, reward in known.told[name]:
            assert tells.get(ticket) == reward, (
                f"{name}: {reward} of {ticket} was acknowledged and is {tells.get(ticket)}"
            )
        for ticket, reward in known.refused[name]:
            assert tells[ticket] != reward, f"{name}: {reward} of {ticket} was refused and is stored"
        expired = {row[2] for row in rows if row[1] == 1 and row[5] == EXPIRED}
        assert set(known.expired[name]) <= expired, f"{name}: tickets were said to be expired, and are not"
        assert set(tells) == {t for t, _ in known.told[name]} | expired, f"{name}: rewards that nobody was told of"
        for port in ports:
            same(_exported(port, name), alone)
            counts["compared"] += 1
        counts["events"] += len(rows)
        counts["asks"] += len(asks)
        counts["tells"] += len(tells)
        counts["corrections"] += sum(row[1] == 2 for row in rows)
        counts["expired"] += len(expired)
        counts["administration"] += sum(row[1] >= 4 for row in rows)
        counts["races"] += len(known.refused[name])
    opened = Store(store)
    assert len(list(check_store(opened))) == len(EXPERIMENTS), "the chain of events is whole"
    opened.close()
    return dict(counts, again=known.again)


def _exported(port: int, name: str) -> pmb.Policy:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/experiments/{name}/export", timeout=30) as answer:
                content = answer.read()
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.pmb"
        file.write_bytes(content)
        return pmb.load(file)
