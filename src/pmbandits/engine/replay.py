"""Stored events, and pulls that somebody else chose: the methods asked and replay of all policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.engine._calls import INVALID_CHOICE, replay_events
from pmbandits.engine.ask_tell import AskTell
from pmbandits.engine.capacity import ensure_capacity, handle_detected_changes
from pmbandits.engine.forgetting import n_changes_ever_found, recorded_changes
from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGED, NEEDS_CAPACITY, OK


class Availability(NamedTuple):
    """Which arms were available in each of some asks: the row of ``masks`` (1: not available), or −1 for all arms."""

    mask_of: NDArray[np.int64] | None = None
    masks: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)

    @classmethod
    def from_available_arms(
        cls, among: Sequence[Iterable[int] | None], n_arms: int, arm_of: NDArray[np.int64] | None = None
    ) -> Availability:
        """Of the available arms of each event, by position; with segments, ``arm_of`` is the arm of each column."""
        rows: dict[tuple[int, ...] | None, int] = {None: -1}
        mask_of = [rows.setdefault(None if arms is None else tuple(arms), len(rows) - 1) for arms in among]
        masks = np.ones((len(rows) - 1, n_arms), dtype=np.int64)
        for arms, row in rows.items():
            if arms is not None:
                masks[row, list(arms)] = 0
        return cls(np.array(mask_of, dtype=np.int64), masks if arm_of is None else masks[:, arm_of])


class Replaying(AskTell):
    """The methods that take in pulls which somebody else chose, and stored events."""

    def asked(self, arm: int | str | ArrayLike, *, segment: str | Sequence[str] | None = None) -> None:
        """Record a pull that somebody else chose (or several, in this order), as if :meth:`ask` had answered it.

        This is for a second server that shares the experiment, for a policy that only watches, and for stored events.
        The policy does all that an ask does: it looks at its rewards if it is time to, and draws its random numbers.
        Only the pull is counted for the arm that is given. Where ``ask`` would have given the same arm, the policy is
        afterwards exactly as if it had been asked. Otherwise it goes on from there. A policy with segments also needs
        the ``segment`` of each, as in :meth:`tell`.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.asked("B"); policy.asked([1, 0])
        >>> policy.pulls.tolist(), policy.pending.tolist()
        ([1, 2], [1, 2])
        """
        arms: Any = arm if _validation.is_list(arm) else [arm]
        places = self._column_positions(arms, segment)
        if places.size == 0:
            return
        values, clone = np.full(places.size, np.nan), places.size > 1 and self._roster is not None
        replay: Any = self._replay_on_clone if clone else self._replay_while_locked
        self._with_lock(lambda: replay(places, values, Availability(), False))

    def replay(
        self,
        arms: ArrayLike,
        rewards: ArrayLike,
        *,
        segments: Sequence[str] | None = None,
        among: Sequence[Iterable[int] | None] | None = None,
        check: bool = False,
    ) -> int | None:
        """Take in stored events, that is asks and tells in the order in which they came. A million take seconds.

        Afterwards the policy is as if each event had been an :meth:`asked` or a :meth:`tell`. If anything is wrong,
        the policy counts none of the events.

        Parameters
        ----------
        arms : the arm of each event, as positions or names.
        rewards : the reward of each event that is a tell; nan (or None) for each event that is an ask.
        segments : the segment of each event, for a policy with segments.
        among : for each event that is an ask, the positions of the arms that were available in it, or None for all
            arms. Leave it out if all arms were available in all of them.
        check : whether to check that :meth:`ask` would have given the stored arms. If it would have given another one,
            nothing counts, and the position of the first such event is returned. Otherwise ``None`` is returned.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy, again = (pmb.Track("gini", n_arms=2, support=pmb.Binary()) for _ in range(2))
        >>> arms, rewards = [], []
        >>> for reward in (1.0, 0.0, 1.0):
        ...     arm = policy.ask(); policy.tell(arm, reward)
        ...     arms += [arm, arm]; rewards += [None, reward]
        >>> again.replay(arms, rewards, check=True)
        >>> again.ask() == policy.ask()
        True
        >>> again.replay([1 - policy.ask()], [None], check=True)
        0
        """
        self._require_bound_policy()
        assert self.support is not None
        places = self._column_positions(arms, segments)
        values = np.array(rewards, dtype=np.float64)
        if values.shape != places.shape:
            raise ValueError(f"{places.size} arms were given with {values.size} rewards; give one for each event.")
        is_tell = ~np.isnan(values)
        if is_tell.any():
            values[is_tell] = self.support.check(values[is_tell])
        available = Availability()
        if among is not None:
            arm_of = None if self._segments is None else self._segments.arm_of
            available = Availability.from_available_arms(among, len(self.names), arm_of)
        if available.mask_of is not None and available.mask_of.size != places.size:
            raise ValueError(
                f"{places.size} events were given with {available.mask_of.size} entries of among; give one for each."
            )
        first_mismatch, new_changes = self._with_lock(lambda: self._replay_on_clone(places, values, available, check))
        self._warn_of_changes(new_changes)
        return first_mismatch

    def _replay_on_clone(
        self, places: NDArray[np.int64], values: FloatArray, available: Availability, check: bool
    ) -> tuple[int | None, tuple[Change, ...]]:
        """Replay asks (nan) and tells on a clone, which replaces the policy if all of them were recorded."""
        clone, known = self._clone_unlocked(), n_changes_ever_found(self._memory)
        first_mismatch = clone._replay_while_locked(places, values, available, check)
        if first_mismatch is not None:
            return first_mismatch, ()
        self._replace_by_clone(clone)
        return None, recorded_changes(self._memory, self._columns, known)

    def _replay_while_locked(
        self, arms: NDArray[np.int64], values: FloatArray, available: Availability, check: bool
    ) -> int | None:
        """Replay asks (nan) and tells, while holding the lock; returns the first event that differs, or ``None``."""
        at, n, seen = 0, arms.size, None
        mask_of = np.full(n, -1, dtype=np.int64) if available.mask_of is None else available.mask_of
        while at < n:
            roster = self._roster
            if at == 0 or (roster is not None and roster.place != seen):  # an arm became active
                seen = None if roster is None else roster.place
                places = arms if roster is None else np.array(seen)[arms]
                beside = np.append(np.flatnonzero(places < 0), n)
                masks = available.masks
                if roster is not None and masks.size:
                    masks = masks[:, list(roster.active_arms)]
                flat = np.ascontiguousarray(masks).reshape(-1)
            end = int(beside[np.searchsorted(beside, at)])
            if check and roster is not None and roster.waiting:  # the next arm may be one that waits
                end = at
            if end > at:
                part = slice(at, end)
                at += self._replay_active(places[part], values[part], mask_of[part], flat, check)
                if at < end:
                    return at
                continue
            if not np.isnan(values[at]):
                self._record_rewards(arms[at : at + 1], values[at : at + 1])
            elif check:
                mine = np.empty(1, dtype=np.int64)
                mask = None if mask_of[at] < 0 else available.masks[mask_of[at]]
                if self._fill_with_next_arms(mine, mask, self._segments_of(arms[at : at + 1])) == INVALID_CHOICE:
                    self._raise_invalid_choice()
                if mine[0] != arms[at]:
                    return at
            else:
                self._count_pull_of_inactive_arm(int(arms[at]))
            at += 1
        return None

    def _replay_active(
        self,
        places: NDArray[np.int64],
        values: FloatArray,
        mask_of: NDArray[np.int64],
        masks: NDArray[np.int64],
        check: bool,
    ) -> int:
        """Replay events of active arms; returns how many were taken in, fewer if a choice differs from the stored."""
        plan, at, code = self._plan, 0, np.zeros(1, dtype=np.int64)
        n_tells = int((~np.isnan(values)).sum())
        if n_tells and plan.forgetting is None:
            self._memory = ensure_capacity(self._memory, plan, n_tells)
        while True:
            at += int(replay_events(*self._now[:2], places[at:], values[at:], mask_of[at:], masks, check, code))
            if code[0] == CHANGED:
                handle_detected_changes(self._memory, plan)
            elif code[0] == NEEDS_CAPACITY:
                self._memory = ensure_capacity(self._memory, plan)
            else:
                break
            code[0] = OK
        if code[0] == INVALID_CHOICE:
            self._raise_invalid_choice()
        assert code[0] == OK, code
        return at
