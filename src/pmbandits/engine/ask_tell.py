"""The methods ask and tell of all policies: choose arms, and record rewards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.engine._calls import (
    INVALID_CHOICE,
    ask_one_of_segment_or_busy,
    ask_one_or_busy,
    count_pull,
    division_by_0_error,
    fill_next_arms,
    fill_next_arms_among,
    invalid_choice_error,
    record_active_and_inactive_rewards,
    tell_all_or_refuse,
    tell_many,
    tell_one_of_segment_or_refuse,
    tell_one_or_refuse,
)
from pmbandits.engine.arm_lifecycle import ArmLifecycle
from pmbandits.engine.capacity import ensure_capacity, handle_detected_changes
from pmbandits.engine.columns import NO_SEGMENTS
from pmbandits.engine.forgetting import (
    arms_with_unhandled_change,
    n_changes_ever_found,
    recorded_changes,
    warn_of_changes,
)
from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGED, OK
from pmbandits.state.layout import MOST
from pmbandits.state.lock import BUSY
from pmbandits.state.memory import Memory

_NO_SHARES: FloatArray = np.empty(0)


class AskTell(ArmLifecycle):
    """The methods ``ask`` and ``tell``, which all policies share."""

    @overload
    def ask(self, *, among: Iterable[int | str] | None = None, segment: str | None = None) -> int: ...
    @overload
    def ask(
        self, n: int, *, among: Iterable[int | str] | None = None, segment: str | Sequence[str] | None = None
    ) -> NDArray[np.int64]: ...
    @overload
    def ask(
        self, *, among: Iterable[int | str] | None = None, segment: list[str] | tuple[str, ...]
    ) -> NDArray[np.int64]: ...
    def ask(
        self, n: int | None = None, *, among: Iterable[int | str] | None = None,
        segment: str | Sequence[str] | None = None,
    ) -> int | NDArray[np.int64]:  # fmt: skip
        """The position of the arm to pull now, or an array of the next ``n`` arms.

        An ask counts as a pull at once. So nothing waits for rewards that are late or never come.

        Parameters
        ----------
        n : how many arms to ask for. Without it, the answer is one arm.
        among : the arms (names or positions) that are available in this call, if not all are. The others are pulled
            more often later, because they fall behind their shares. ``among`` comes before limits on shares: these are
            kept as far as the available arms allow.
        segment : for a policy with segments, the segment of the person in front of you. A list of names is several
            people, one after the other, and the answer is an array.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B", "C"], support=pmb.Binary())
        >>> policy.ask(4, among=["A", "C"]).tolist(), policy.ask()
        ([0, 2, 0, 2], 1)
        """
        if among is not None or segment is not None:
            return self._ask_among_or_in_segment(n, among, segment)
        if n is None:
            try:
                where, address, memory, roster = self._now
                arm: int = BUSY if roster is not None and roster.waiting else ask_one_or_busy(where, address)
            except AttributeError:
                self._require_bound_policy()
                raise
            except ZeroDivisionError:
                raise division_by_0_error(type(self).__name__, "choose", memory) from None
            if arm == INVALID_CHOICE:
                self._raise_invalid_choice()
            if arm == BUSY:
                return int(self._ask_many(1)[0])
            return arm if roster is None else roster.active_arms[arm]
        return self._ask_many(_validation.check_whole_number("n", n, 1))

    def _ask_among_or_in_segment(self, n: int | None, among: Any, segment: Any) -> int | NDArray[np.int64]:
        """What ``ask`` does for a segment, or if only some arms are available."""
        segments = self._segments
        if segments is not None and n is None and among is None and type(segment) is str and "_now" in self.__dict__:
            where, address, _memory_ref, roster = self._now
            at = segments.positions.get(segment)
            if at is not None and (roster is None or not roster.waiting):
                column: int = ask_one_of_segment_or_busy(where, address, at)
                if column == INVALID_CHOICE:
                    self._raise_invalid_choice()
                if column != BUSY:
                    return segments.arm_list[column if roster is None else roster.active_arms[column]]
        count = 1 if n is None else _validation.check_whole_number("n", n, 1)
        arriving = self._segment_positions(segment, None if _validation.is_list(segment) and n is None else count)
        unavailable = None if among is None else self._unavailable_mask(among)
        found = self._ask_many(arriving.size or count, unavailable, arriving)
        return int(found[0]) if n is None and not _validation.is_list(segment) else found

    def _ask_many(
        self, n: int, unavailable: NDArray[np.int64] | None = None, arriving: NDArray[np.int64] = NO_SEGMENTS
    ) -> NDArray[np.int64]:
        """The next arms, with one call of compiled code, which Ctrl-C cannot cut."""
        self._require_bound_policy()
        out = np.empty(n, dtype=np.int64)
        if self._segments is not None and not arriving.size:
            arriving = self._segment_positions(None, n)  # says that it is missing
        try:
            if self._with_lock(lambda: self._fill_with_next_arms(out, unavailable, arriving)) == INVALID_CHOICE:
                self._raise_invalid_choice()
        except ZeroDivisionError:
            raise division_by_0_error(type(self).__name__, "choose", self._memory) from None
        return out if self._segments is None else self._segments.arm_of[out]

    def _fill_with_next_arms(
        self,
        out: NDArray[np.int64],
        unavailable: NDArray[np.int64] | None = None,
        arriving: NDArray[np.int64] = NO_SEGMENTS,
    ) -> int:
        """Fill ``out`` with the next arms (columns), while holding the lock; returns OK or INVALID_CHOICE.

        ``arriving`` has the segment of each round; it is empty without segments.
        """
        self._activate_arms_with_first_reward()
        roster, barred = self._roster, self._columns_barred(unavailable, arriving)
        new = None if roster is None or not roster.waiting else roster.next_waiting_arm_to_try(barred)
        if roster is None or (new is None and arriving.size <= 1):
            return self._fill_with_next_active_arms(out, unavailable, arriving)
        t = self._n_rounds_of(int(arriving[0]) if arriving.size else -1)
        alone = barred is not None and bool(barred[list(roster.active_arms)].all())
        if out.size == 1:  # one kernel
            assert new is not None
            arm, due = new
            if due > t and not alone:
                return self._fill_with_next_active_arms(out, unavailable, arriving)
            self._count_pull_of_inactive_arm(arm)
            out[0] = arm
            return OK
        if not roster.waiting:
            return self._fill_with_next_active_arms(out, unavailable, arriving)
        clone, at = self._clone_unlocked(), 0  # several kernel calls: on a clone that then replaces the policy
        while at < out.size:
            assert clone._roster is not None
            _, due = clone._roster.next_waiting_arm_to_try(barred) or (0, t)
            more = 1 if due <= t or alone or arriving.size else min(due - t, out.size - at)
            part, segment = out[at : at + more], arriving[at : at + more]
            code = (
                clone._fill_with_next_arms(part, unavailable, segment)
                if more == 1
                else clone._fill_with_next_active_arms(part, unavailable, segment)
            )
            if code != OK:
                return code
            at, t = at + more, t + more
        self._replace_by_clone(clone)
        return OK

    def _count_pull_of_inactive_arm(self, arm: int) -> None:
        """Count a pull of an arm outside of the main memory, which learns of the arrival if there are segments."""
        _, address, _memory_ref, roster = self._now
        assert roster is not None
        count_pull(roster.inactive_memory.address, -1 - roster.place[arm], address, self._segment_of(arm))

    def _fill_with_next_active_arms(
        self,
        out: NDArray[np.int64],
        unavailable: NDArray[np.int64] | None,
        arriving: NDArray[np.int64] = NO_SEGMENTS,
        shares: FloatArray = _NO_SHARES,
    ) -> int:
        """Fill ``out`` with the next arms, chosen among the active ones; returns OK or INVALID_CHOICE.

        ``shares``, if it has as many places, is filled with the propensity of each when it was chosen.
        """
        where, address, _, roster = self._now
        if unavailable is None:
            code = int(fill_next_arms(where, address, arriving, out, shares))
        else:
            inside = unavailable if roster is None else unavailable[list(roster.active_arms)]
            for segment in np.unique(arriving).tolist() or [-1]:
                mine = inside if segment < 0 else inside[self._memory.segment_of == segment]
                if mine.all():
                    known = _validation.escape_control_characters(", ".join(self._playing_arms(segment)[:20]))
                    raise ValueError(f"none of the arms in among plays now; name one that does: {known}.")
            code = int(fill_next_arms_among(where, address, arriving, inside, out, shares))
        if roster is not None and code == OK:
            out[:] = np.array(roster.active_arms)[out]
        return code

    def _unavailable_mask(self, among: Any) -> NDArray[np.int64]:
        """An array with 1 for every arm that is not available in this call, and 0 for the others."""
        self._require_bound_policy()
        if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a list of arms, such as ['A', 'C'], got {_validation.short_repr(among)}.")
        places = self._arm_positions(list(among))
        if not places.size:
            raise ValueError("among is empty; name at least one arm that is available.")
        out = np.ones(len(self.names), dtype=np.int64)
        out[places] = 0
        return out if self._segments is None else out[self._segments.arm_of]

    def _raise_invalid_choice(self) -> NoReturn:
        raise invalid_choice_error(type(self).__name__, self._memory)

    def tell(
        self, arm: int | str | ArrayLike | None = None, reward: float | ArrayLike | None = None, *, ticket: Any = None,
        segment: str | Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Tell the reward of an arm, or arrays of arms and rewards.

        Rewards may come in any order, late, or for pulls that were not asked for.

        Or tell the reward of a ticket (:meth:`ask_ticket`), or lists of tickets and rewards. The reward of a ticket
        counts once, however often it is told. A second reward that differs from the first is refused.

        A policy with segments also needs the ``segment`` of the person that the reward came from: one name for all
        rewards, or a list with one for each. A ticket knows it.

        Rewards beyond what was asked for (older data, for example) inform the estimates, but are not counted as pulls.
        Rewards of arms that are paused or retired count, too. If anything is wrong with the input, nothing of it
        counts.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.tell("A", 1.0)
        >>> policy.tell(["A", "B", "B"], [0.0, 1.0, 1.0])
        >>> [arm.n for arm in policy.estimates]
        [2, 2]
        """
        if segment is not None:
            self._tell_in_segment(arm, reward, ticket, segment)
            return
        if not (type(arm) is int and type(reward) is float and ticket is None):  # rarely; the rest is quick
            if ticket is not None or arm is None or reward is None:
                self._tell_by_ticket_or_arm(arm, reward, ticket)
                return
            if type(arm) is np.ndarray and type(reward) is np.ndarray and self._has_told_arrays(arm, reward):
                return
            if isinstance(arm, np.integer):
                arm = int(arm)
            if isinstance(reward, (float, np.floating, np.bool_)):
                reward = float(reward)
            elif isinstance(reward, (int, np.integer)) and not isinstance(reward, np.timedelta64):
                reward = float(reward) if -MOST < reward < MOST else reward
        if type(arm) is int and type(reward) is float and -MOST < arm < MOST:  # no arm has a larger number
            try:
                _, address, _memory_ref, roster = self._now
            except AttributeError:
                self._require_bound_policy()
                raise
            place = arm if roster is None else roster.place[arm] if 0 <= arm < len(roster.place) else -1
            code = tell_one_or_refuse(address, place, reward)
            if code == CHANGED:
                self._handle_detected_change()
            elif code != OK:
                self._check_and_record_rewards([arm], [reward])
            return
        self._tell_arms_and_rewards(arm, reward)

    def _tell_in_segment(self, arm: Any, reward: Any, ticket: Any, segment: Any) -> None:
        """What ``tell`` does if it is given a segment."""
        if ticket is not None:
            raise TypeError("a ticket knows its segment: give tell(ticket=..., reward=...) without one.")
        if arm is None or reward is None:
            self._tell_by_ticket_or_arm(arm, reward, None)
        if self._segments is not None and type(arm) is int and type(reward) is float and type(segment) is str:
            _, address, _memory_ref, roster = self._now
            column = self._segments.column_by_name.get((segment, arm), -1)
            place = column if roster is None or column < 0 else roster.place[column]
            code = tell_one_of_segment_or_refuse(address, place, reward)
            if code == CHANGED:
                self._handle_detected_change()
            if code in (OK, CHANGED):
                return
        self._tell_arms_and_rewards(arm, reward, segment)

    def _tell_arms_and_rewards(self, arm: Any, reward: Any, segment: Any = None) -> None:
        """Record the reward of an arm, rewards of one arm, or rewards of several."""
        one = not _validation.is_list(reward)
        arms: Any = [arm] if one else arm
        rewards: Any = [reward] if one else reward
        if not one and not _validation.is_list(arms):
            arms = [arms] * len(rewards)  # several rewards of one arm
        self._check_and_record_rewards(arms, rewards, segment)

    def _has_told_arrays(self, arms: NDArray[Any], rewards: NDArray[Any]) -> bool:
        """Record arrays of whole numbers and floats at once, if that needs neither other memory nor an error."""
        if not (arms.dtype == np.int64 and rewards.dtype == np.float64 and arms.ndim == rewards.ndim == 1):
            return False
        if "_now" not in self.__dict__ or not (arms.flags.carray and rewards.flags.carray):
            return False
        _, address, _memory_ref, roster = self._now
        return bool(roster is None and tell_all_or_refuse(address, arms, rewards) == OK)

    def _tell_by_ticket_or_arm(self, arm: Any, reward: Any, ticket: Any) -> None:
        """What ``tell`` does if it is not given both an arm and a reward."""
        if ticket is None and arm is not None:
            raise TypeError(f"rewards must be numbers, got {_validation.short_repr(reward)}.")
        if ticket is None:
            raise TypeError("tell needs an arm and its reward, or ticket=... and reward=...")
        if arm is not None:
            raise TypeError("a ticket knows its arm: give tell(ticket=..., reward=...) without an arm.")
        self._tell_tickets(ticket, reward)

    @abstractmethod
    def _tell_tickets(self, ticket: Any, reward: float | ArrayLike | None) -> None:
        """Take in the rewards of tickets: all of those that are new, or none."""

    def _check_and_record_rewards(self, arms: Any, rewards: Any, segment: Any = None) -> None:
        """Check all input, grow memory, and record all rewards in one compiled call, which Ctrl-C cannot cut."""
        self._require_bound_policy()
        assert self.support is not None
        where = self._column_positions(arms, segment)
        if where.size != len(rewards):
            raise ValueError(f"{where.size} arms were told with {len(rewards)} rewards; give one reward for each arm.")
        if not where.size:
            return
        values = self.support.check(_validation.check_reward_array(rewards))
        self._warn_of_changes(self._with_lock(lambda: self._record_rewards(where, values)))

    def _record_rewards(self, where: NDArray[np.int64], values: FloatArray) -> tuple[Change, ...]:
        """Record checked rewards, while holding the lock; returns the changes of arms that they revealed."""
        plan, at = self._plan, 0
        if plan.forgetting is not None:  # then all arms play
            memory = self._memory.copy()  # rewards may be forgotten: with the new ones, or not at all
            while at < where.size:
                memory = ensure_capacity(memory, plan, where.size - at)
                at += tell_many(memory.address, where[at:], values[at:])
            return self._handle_changes_on_copy(memory, n_changes_ever_found(self._memory))
        self._memory = ensure_capacity(self._memory, plan, where.size)
        _, address, memory, roster = self._now
        if roster is None:
            at = tell_many(address, where, values)
        else:
            places = np.array(roster.place)[where]
            if places.min() < 0:
                roster = replace(roster, inactive_memory=ensure_capacity(roster.inactive_memory, plan, where.size))
                self._now = self._kernel_args(memory, roster)
            at = record_active_and_inactive_rewards(address, roster.inactive_memory.address, places, values)
            self._activate_arms_with_first_reward()
        assert at == where.size, at
        return ()

    def _handle_detected_change(self) -> None:
        """Handle a change of an arm that was detected by the reward recorded last."""

        def while_locked() -> tuple[Change, ...]:
            if not arms_with_unhandled_change(self._memory).size:  # another thread has dealt with it
                return ()
            return self._handle_changes_on_copy(self._memory.copy(), n_changes_ever_found(self._memory) - 1)

        self._warn_of_changes(self._with_lock(while_locked))

    def _handle_changes_on_copy(self, memory: Memory, known: int) -> tuple[Change, ...]:
        """Handle changes in a copy of the memory, replace the memory by it, and return the new changes."""
        handle_detected_changes(memory, self._plan)
        new_changes = recorded_changes(memory, self._columns, known)
        memory.lock_token = self._memory.lock_token  # it is still at work
        self._memory = memory
        return new_changes

    def _warn_of_changes(self, new_changes: tuple[Change, ...]) -> None:
        if new_changes and self._plan.forgetting is not None and self._plan.forgetting.on_change == "warn":
            warn_of_changes(new_changes)
