"""The policy of an experiment: what its events make of its description. The only file that knows both.

A policy's decisions follow from the order of asks, tells and controls alone. So every process that takes in the same
events has the same policy, and a policy is never sent anywhere.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pmbandits import __version__
from pmbandits.metrics.registry import metric as find_metric
from pmbandits.policies import load
from pmbandits.policies.policy import Policy
from pmbandits.service.events import ADD, ASK, ASKED, LIMITS, PAUSE, RESUME, RETELL, RETIRE, STATUS, TELL, Old
from pmbandits.simulation.recipes import by_name
from pmbandits.supports import Support

_LONG = 1_000_000  # rounds, for policies that must know how many there will be and were not told


class Gap(RuntimeError):
    """An event is missing in the store, so nothing can be said of what comes after it."""


class Disagrees(Exception):
    """The policy would have asked for another arm than the stored one: another version, or another processor."""


def made(spec: dict[str, Any]) -> Policy:
    """The policy of a description, before anything happened."""
    recipe = by_name(spec["policy"], _LONG, spec.get("options"))
    arms = spec["arms"]
    return recipe.bind(
        find_metric(spec["metric"]), len(arms), Support.from_dict(spec["support"]), names=arms, seed=spec.get("seed", 0)
    )


def described(policy: Policy) -> dict[str, Any]:
    """What an imported policy says of itself."""
    assert policy.support is not None
    return {
        "metric": str(policy.metric),
        "arms": list(policy.names),
        "support": policy.support.to_dict(),
        "policy": policy.name,
        "options": {name: value for name, value in policy.options.items() if value is not None},
        "seed": policy.seed,
        "imported": __version__,
    }


def packed(policy: Policy) -> bytes:
    """A policy as the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.pmb"
        policy.save(file)
        return file.read_bytes()


def unpacked(content: bytes) -> Policy:
    """The policy of such bytes; a sentence if it is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "the file"
        file.write_bytes(content)
        return load(file)


class Fold:
    """A policy and the number of the last event that is in it."""

    def __init__(self, policy: Policy, seen: int = 0) -> None:
        self.policy, self.seen = policy, seen
        self.places = {name: place for place, name in enumerate(policy.names)}

    def twin(self) -> Policy:
        """A copy of the policy, to read from while this one goes on."""
        return copy.copy(self.policy)

    # ---- what requests do; each raises ValueError, TypeError or IndexError with nothing changed ----------
    def ask(self, n: int, among: Sequence[int] | None) -> list[int]:
        """The next arms."""
        if among is not None:
            names = [self.policy.names[place] for place in among]
            return [int(self.policy.ask(among=names)) for _ in range(n)]  # type: ignore[call-overload]
        return [self.policy.ask()] if n == 1 else [int(arm) for arm in self.policy.ask(n)]

    def asked(self, arm: int) -> None:
        """A pull that somebody else chose."""
        self.policy.asked(arm)  # type: ignore[attr-defined]

    def tell(self, arms: Sequence[int], rewards: Sequence[float]) -> None:
        """Rewards, all of them or none."""
        if len(arms) == 1:
            self.policy.tell(arms[0], rewards[0])
        elif arms:
            self.policy.tell(list(arms), list(rewards))

    def retell(self, arm: int, before: float, after: float) -> None:
        """Another reward in place of one that was told."""
        self.policy.retell(arm, before, after)  # type: ignore[attr-defined]

    def control(self, kind: int, data: str) -> None:
        """Arms that come and go, and limits; ``data`` is JSON."""
        policy: Any = self.policy
        given = json.loads(data)
        if kind == ADD:
            policy.add_arm(given)
            self.places = {name: place for place, name in enumerate(policy.names)}
        elif kind == PAUSE:
            policy.pause(given)
        elif kind == RESUME:
            policy.resume(given)
        elif kind == RETIRE:
            policy.retire(given)
        elif kind == LIMITS:
            policy.limit(given)
        elif kind != STATUS:
            raise Gap(f"an event of kind {kind} is not known to pmbandits {__version__}")

    # ---- what others did --------------------------------------------------------------------------------
    def apply(self, rows: Iterable[Old], *, forced: bool = False) -> None:
        """Take in events from the store. With ``forced``, asks are taken as stored, whatever the policy would say."""
        ask, tell, seen = self.policy.ask, self.policy.tell, self.seen
        for seq, kind, ticket, arm, value, data in rows:
            if seq != seen + 1:
                raise Gap(f"event {seen + 1} is missing: the next one is {seq}")
            if kind == TELL:
                tell(arm, value)  # type: ignore[arg-type]
            elif kind == ASKED or (kind == ASK and forced):
                assert arm is not None
                self.asked(arm)
            elif kind == ASK:
                got = ask() if data is None else self.ask(1, json.loads(data))[0]
                if got != arm:
                    raise Disagrees(f"event {seq}: {got} instead of {arm}")
            elif kind == RETELL:
                assert arm is not None and value is not None and data is not None
                self.retell(arm, json.loads(data), value)
            elif kind != STATUS:
                assert data is not None
                self.control(kind, data)
            seen += 1
            self.seen = seen
            del ticket
