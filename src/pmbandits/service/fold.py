"""The policy of an experiment: what its events make of its description. The only file that knows both.

A policy's decisions follow from the order of asks, tells and controls alone. So every process that takes in the same
events has the same policy, and a policy is never sent anywhere.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import __version__
from pmbandits.metrics.registry import metric as find_metric
from pmbandits.policies import load
from pmbandits.policies.named import by_name
from pmbandits.policies.policy import Policy
from pmbandits.policies.ticketing import propensity
from pmbandits.service.events import ADD, ASK, ASKED, LIMITS, PAUSE, RESUME, RETELL, RETIRE, STATUS, TELL, Old
from pmbandits.supports import Support

_REPLAYED = (ASK, TELL, ASKED)
_LONG = 1_000_000  # rounds, for policies that must know how many there will be and were not told


class Gap(RuntimeError):
    """An event is missing in the store, so nothing can be said of what comes after it."""


def made(spec: dict[str, Any]) -> Policy:
    """The policy of a description, before anything happened."""
    limits = {} if spec.get("shares") is None else {"shares": spec["shares"]}
    recipe = by_name(spec["policy"], _LONG, {**spec.get("options", {}), **limits})
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
        "imported": {"library": __version__, "round": policy.t},
    }


def packed(policy: Policy) -> bytes:
    """A policy as the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.pmb"
        policy.save(file)
        return file.read_bytes()


def unpacked(content: bytes, most: int | None = None) -> Policy:
    """The policy of such bytes; a sentence if it is none, or if it would take more than ``most`` bytes of memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "the file"
        file.write_bytes(content)
        return load(file, max_memory=most)


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
            return [int(arm) for arm in self.policy.ask(n, among=among)]
        return [self.policy.ask()] if n == 1 else [int(arm) for arm in self.policy.ask(n)]

    def share(self, arm: int) -> float:
        """The share with which an arm was just asked for, so that others can work out what another policy had done."""
        return propensity(self.policy, arm)

    def asked(self, arm: int) -> None:
        """A pull that somebody else chose."""
        self.policy.asked(arm)

    def tell(
        self, arms: Sequence[int], rewards: Sequence[float], again: Sequence[tuple[int, float, float]] = ()
    ) -> None:
        """Rewards, and others in place of some that were told (arm, before, after); all of them or none."""
        if again and len(arms) + len(again) > 1:  # the library takes rewards in whole, but no mixture of both
            trial = Fold(self.twin())
            trial.tell(arms, rewards)
            for one in again:
                trial.policy.retell(*one)
            self.policy = trial.policy
        elif again:
            self.policy.retell(*again[0])
        elif len(arms) == 1:
            self.policy.tell(arms[0], rewards[0])
        elif arms:
            self.policy.tell(list(arms), list(rewards))

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
    def apply(self, rows: Sequence[Old]) -> int:
        """Take in events from the store; how many runs of asks the policy would have answered otherwise.

        That is no mistake: another version of the library or another processor may have rounded otherwise. The stored
        arms count.
        """
        if not rows:
            return 0
        kinds = np.array([row[1] for row in rows])
        others = start = 0
        for alone in [*np.flatnonzero(~np.isin(kinds, _REPLAYED)).tolist(), len(rows)]:
            if alone > start:
                others += self._replay(rows[start:alone], kinds[start:alone])
            if alone < len(rows):
                self._one(rows[alone])
            start = alone + 1
        return others

    def _replay(self, rows: Sequence[Old], kinds: NDArray[np.int64]) -> int:
        """Asks and tells that come one after the other, with one call of compiled code."""
        self._in_order(rows)
        told = kinds == TELL
        arms = np.array([row[3] for row in rows], dtype=np.int64)
        rewards = np.where(told, np.array([row[4] for row in rows], dtype=np.float64), np.nan)
        given = np.array([row[5] is not None for row in rows])  # an ask with a choice of arms
        plain = not (kinds == ASKED).any() and not (given & ~told).any()
        differs = plain and self.policy.replay(arms, rewards, check=True) is not None
        if differs or not plain:
            self.policy.replay(arms, rewards)
        self.seen += len(rows)
        return int(differs)

    def _one(self, row: Old) -> None:
        seq, kind, _ticket, arm, value, data = row
        self._in_order([row])
        if kind == RETELL:
            assert arm is not None and value is not None and data is not None
            self.policy.retell(arm, json.loads(data), value)
        elif data is not None:
            self.control(kind, data)
        self.seen = seq

    def _in_order(self, rows: Sequence[Old]) -> None:
        first, last = rows[0][0], rows[-1][0]
        if first != self.seen + 1 or last != self.seen + len(rows):
            raise Gap(f"after event {self.seen} come {len(rows)} events from {first} to {last}: one is missing")
