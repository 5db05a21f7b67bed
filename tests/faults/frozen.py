"""A server that stands still, as when its machine swaps or is moved: the others go on, and it comes back right.

Also a PostgreSQL that stands still, or is away for a while.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Any

STILL = 20.0  # seconds
AWAY = 30.0


async def play(turn: Any, times: int) -> None:
    """Stop a server so often, and go on with it; for PostgreSQL also stop that, and take it away."""
    turn.served_meanwhile = []
    for number in range(times):
        await asyncio.sleep(2.0)
        pids = [turn.pids[turn.rng.choice(turn.ports)]]
        if turn.database is not None and number % 3 == 1:
            pids = turn.database.pids()
        elif turn.database is not None and number % 3 == 2:
            turn.crashes += 1
            await asyncio.to_thread(turn.database.kill, AWAY)
            continue
        turn.frozen += 1
        before, longest, last = answered(turn), 0.0, time.monotonic()
        until = last + STILL
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            seen = before
            while time.monotonic() < until:
                await asyncio.sleep(0.05)
                if answered(turn) > seen:
                    seen, last = answered(turn), time.monotonic()
                longest = max(longest, time.monotonic() - last)
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        turn.served_meanwhile.append((len(pids), answered(turn) - before, round(longest, 1)))
        print("stood still:", turn.served_meanwhile[-1], flush=True)
    await asyncio.sleep(2.0)


def answered(turn: Any) -> int:
    """How many asks were acknowledged until now."""
    return sum(map(len, turn.known.asked.values()))
