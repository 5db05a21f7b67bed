"""What a policy that watches its arms has found, in words."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGES
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy


class ChangeWarning(UserWarning):
    """The warning that an arm of a policy has changed, with ``detect="warn"``."""


def changes(policy: Policy) -> tuple[Change, ...]:
    """The changes that were found, the oldest first."""
    return found(policy._twin()._memory, policy.names)


def found(memory: Memory, names: tuple[str, ...], after: int = 0) -> tuple[Change, ...]:
    """The changes that a memory has noted, without the first ``after`` of all."""
    if memory.n_noted == 0:
        return ()
    total = n_found(memory)
    rows = (memory.noted[j % memory.n_noted] for j in range(max(after, total - memory.n_noted), total))
    return tuple(Change.from_numbers(row, names[int(row[0])]) for row in rows)


def n_found(memory: Memory) -> int:
    """How many changes were ever found."""
    return int(memory.tally[CHANGES]) if memory.n_noted else 0


def warn_of(news: tuple[Change, ...]) -> None:
    """Warn of changes."""
    for change in news:
        warnings.warn(
            f"{change} The policy goes on with all rewards; with detect='restart' it would forget those of this arm.",
            ChangeWarning,
            stacklevel=4,
        )


def in_words(policy: Policy) -> str:
    """What was found, as sentences for :meth:`Policy.explain`; nothing if no change was found."""
    all_of_them = changes(policy)
    if not all_of_them:
        return ""
    last, count = all_of_them[-1], len(all_of_them)
    forgotten = policy._plan.forgetting is not None and policy._plan.forgetting.watches == "restart"
    text = f" {count} change{'s were' if count > 1 else ' was'} found, the last in round {last.round:,}: {last}"
    return text + (" Its rewards from before were forgotten." if forgotten else "")
