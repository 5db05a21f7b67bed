"""Randomised play: arms are drawn with probabilities that follow the mixture, and the log says all of them.

A policy that tracks its mixture chooses its arms without chance, so nobody can work out from the log what other choices
would have brought. Here each arm that plays is drawn with a known probability above 0:

    p(i) = (1 − γ) · mixture(i) + γ / K,   γ = min(1, √(K / t)),

with t the rounds since one of the K arms came or went last. So every arm is drawn about 2·√(t/K) times at least, which
is as much as ``Track`` explores, and the shares that are played come to those of the mixture. The probabilities are an
event of their own, written again when a hundredth more arms were asked for, or other arms play. Each draw follows from
them, from the number of its event, and from a random number of the experiment: so it is the same in every process and
in every replay, and whoever has the log and that number can check it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits.engine.policy import Policy
from pmbandits.engine.ticket_methods import rounds_since_arms_changed_and_mixture
from pmbandits.service.events import ASK, StoredEvent

POLICY, RANDOMISED = "policy", "randomised"  # how the arm of an ask is found: as the policy says, or drawn
FEWEST_ROUNDS = 10  # between two looks at the mixture, at least


@dataclass(frozen=True)
class Draws:
    """The draws of an experiment: its random number, the probabilities now, and the round in which these were made."""

    root: int
    probabilities: tuple[float, ...] = ()
    t: int = 0

    def with_new_probabilities(self, data: str) -> Draws:
        """The draws after an event with new probabilities."""
        given = json.loads(data)
        return replace(self, probabilities=tuple(given["probabilities"]), t=given["round"])

    def are_new_probabilities_due(self, policy: Policy) -> bool:
        """Whether the probabilities must be worked out anew: often enough was asked, or other arms play."""
        playing = set(policy.playing)
        plays = [name in playing for name in policy.names]
        return plays != [p > 0.0 for p in self.probabilities] or policy.t - self.t >= max(FEWEST_ROUNDS, self.t // 100)

    def candidates(self, policy: Policy, among: Sequence[int] | None) -> list[int]:
        """The arms that can be drawn, by position; ValueError if there are none."""
        playing, names = set(policy.playing), policy.names
        found = [arm for arm in (range(len(names)) if among is None else among) if names[arm] in playing]
        if not found:
            known = [_validation.escape_control_characters(name) for name in policy.playing[:20]]
            raise ValueError(f"none of the arms in among plays now; name one that does: {', '.join(known)}.")
        return found

    def draw_arms(self, seqs: Iterable[int], candidates: Sequence[int]) -> list[tuple[int, float]]:
        """The arms of the asks with these event numbers, each with the probability of its draw among the candidates."""
        weights = np.array([self.probabilities[arm] for arm in candidates])
        upto = np.cumsum(weights)
        at = np.searchsorted(upto, [uniform_from_numbers(self.root, seq) * upto[-1] for seq in seqs], side="right")
        at = np.minimum(at, weights.size - 1)  # rounding
        return [(candidates[k], p) for k, p in zip(at.tolist(), (weights[at] / upto[-1]).tolist(), strict=True)]

    def explain(self, names: Sequence[str]) -> str:
        """How the next arm is found."""
        likely = sorted(
            ((p, name) for p, name in zip(self.probabilities, names, strict=False) if p > 0.0), reverse=True
        )
        shown = ", ".join(f"{100.0 * p:.3g} % {_validation.escape_control_characters(name)}" for p, name in likely[:8])
        return f"The next arm is drawn{f': {shown}' if shown else ''}{' …' if likely[8:] else ''}."

    def differs_from_logged_arms(self, rows: Sequence[StoredEvent], among: Sequence[Sequence[int] | None]) -> bool:
        """Whether an arm in the log is not the one that is drawn."""
        asks: dict[tuple[int, ...] | None, list[StoredEvent]] = {}  # by the arms that they are among
        for row, some in zip(rows, among, strict=True):
            if row[1] == ASK:
                asks.setdefault(None if some is None else tuple(some), []).append(row)
        for arms, of_these in asks.items():
            choice = range(len(self.probabilities)) if arms is None else arms
            drawn = self.draw_arms((row[0] for row in of_these), [k for k in choice if self.probabilities[k] > 0.0])
            if any(row[3] != arm for row, (arm, _) in zip(of_these, drawn, strict=True)):
                return True
        return False


def probabilities_event_data(policy: Policy) -> str:
    """The probabilities that follow from a policy now, as the data of an event."""
    since, mixture = rounds_since_arms_changed_and_mixture(policy)
    playing = set(policy.playing)
    plays = np.array([name in playing for name in policy.names])
    k, weights = int(plays.sum()), np.where(plays, mixture, 0.0)
    weights = weights / weights.sum() if weights.sum() > 0.0 else plays / k
    floor = min(1.0, math.sqrt(k / max(since, 1)))
    return json.dumps({"round": policy.t, "probabilities": ((1.0 - floor) * weights + floor * plays / k).tolist()})


def uniform_from_numbers(root: int, seq: int) -> float:
    """A number in [0, 1) with 53 bits, which follows from two whole numbers."""
    digest = hashlib.blake2b(root.to_bytes(8, "little") + seq.to_bytes(8, "little"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def initial_draws_of_spec(spec: dict[str, Any], root: int) -> Draws | None:
    """The draws of a new experiment; None if it plays what its policy asks for."""
    return Draws(root) if spec.get("play") == RANDOMISED else None
