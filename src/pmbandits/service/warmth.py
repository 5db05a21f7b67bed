"""Compiled code in memory before the first request needs it."""

from __future__ import annotations

from contextlib import suppress

from pmbandits.policies.policy import Policy


def warm(twin: Policy) -> None:
    """Let a copy of a policy do once what requests will want."""
    with suppress(ValueError, RuntimeError):
        arm = twin.ask()
        support = twin.support
        assert support is not None
        reward = 0.0 if support.lo <= 0.0 <= support.hi else float(support.lo)
        with suppress(ValueError):
            twin.tell(arm, reward)
        twin.ask(2)
        twin.tell([0], [reward])
