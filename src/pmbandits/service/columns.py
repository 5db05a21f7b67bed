"""What is shown of each arm; with segments, of each pair of a segment and an arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pmbandits.engine.policy import Policy
from pmbandits.engine.roster import PLAYS, RETIRED


class Column(NamedTuple):
    """An arm, in a segment if there are any.

    ``name`` is that of the arm, or of the pair, such as ``new: A``. ``played`` and ``wanted`` are shares of those who
    came in its segment, ``wanted_of_all`` of all who came. Without segments these are the same.
    """

    name: str
    segment: str | None
    arm: str
    plays: bool
    retired: bool
    pulls: int
    pending: int
    played: float | None
    wanted: float
    wanted_of_all: float


def columns_of_policy(policy: Policy) -> list[Column]:
    """The columns of a policy, in its order."""
    mixture, pulls, pending = policy.mixture, policy.pulls, policy.pending
    known, states, n = policy._segments, policy._arm_states(), len(policy._columns)
    where: tuple[np.ndarray, ...] = (np.arange(n),) if known is None else (known.segment_of, known.arm_of)
    came = np.full(n, policy.t) if known is None else pulls.sum(axis=1)[known.segment_of]
    arriving = np.ones(n) if known is None else came / max(policy.t, 1)
    return [
        Column(
            name,
            None if known is None else known.names[known.segment_of[at]],
            name if known is None else known.arms[known.arm_of[at]],
            states[at] == PLAYS,
            states[at] == RETIRED,
            pulled,
            waits,
            pulled / int(came[at]) if came[at] else None,
            share,
            share * float(arriving[at]),
        )
        for at, (name, pulled, waits, share) in enumerate(
            zip(policy._columns, pulls[where].tolist(), pending[where].tolist(), mixture[where].tolist(), strict=True)
        )
    ]


def format_wanted_shares(columns: Sequence[Column]) -> str:
    """The shares that a policy wants in a few words; with segments, those of each."""
    rows: dict[str | None, list[Column]] = {}
    for one in columns:
        rows.setdefault(one.segment, []).append(one)
    said = [
        ("" if segment is None else f"{segment}: ")
        + _format_shares([one.arm for one in mine], np.array([one.wanted for one in mine]))
        for segment, mine in list(rows.items())[:8]
    ]
    return "; ".join([*said, *([f"{len(rows) - 8} more segments"] if len(rows) > 8 else [])])


def _format_shares(names: Sequence[str], weights: np.ndarray) -> str:
    """Shares in a few words."""
    used = [k for k in np.argsort(-weights, kind="stable").tolist() if weights[k] >= 0.005]
    text = " + ".join(f"{100 * weights[k]:.0f} % {names[k]}" for k in used[:8])
    return text + (f" + {len(used) - 8} more" if len(used) > 8 else "") if used else "none"
