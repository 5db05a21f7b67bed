"""What a policy that watches its arms has found, in words."""

from __future__ import annotations

import warnings

from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGES
from pmbandits.state.memory import Memory


class ChangeWarning(UserWarning):
    """The warning that an arm of a policy has changed, with ``detect="warn"``."""


def found(memory: Memory, names: tuple[str, ...], after: int = 0) -> tuple[Change, ...]:
    """The changes that a memory has noted, without the first ``after`` of all."""
    if memory.n_found_changes == 0:
        return ()
    total = n_changes(memory)
    rows = (
        memory.found_changes[j % memory.n_found_changes]
        for j in range(max(after, total - memory.n_found_changes), total)
    )
    return tuple(Change.from_numbers(row, names[int(row[0])]) for row in rows)


def n_changes(memory: Memory) -> int:
    """How many changes were ever found."""
    return int(memory.forgetting_counters[CHANGES]) if memory.n_found_changes else 0


def warn_of_changes(new_changes: tuple[Change, ...]) -> None:
    """Warn of changes."""
    for change in new_changes:
        warnings.warn(
            f"{change} The policy goes on with all rewards; with detect='restart' it would forget those of this arm.",
            ChangeWarning,
            stacklevel=4,
        )
