"""The methods ask, tell, asked and replay of all policies: choose arms, record rewards, replay stored events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import arm_index
from pmbandits.engine._calls import (
    INVALID_CHOICE,
    ask_one_or_busy,
    count_pull,
    division_by_0_error,
    fill_next_arms,
    fill_next_arms_among,
    invalid_choice_error,
    record_active_and_inactive_rewards,
    replay_events,
    tell_all_or_refuse,
    tell_many,
    tell_one_or_refuse,
)
from pmbandits.engine.arm_lifecycle import ArmLifecycle
from pmbandits.engine.capacity import ensure_capacity, handle_detected_changes
from pmbandits.engine.forgetting import (
    arms_with_unhandled_change,
    n_changes_ever_found,
    recorded_changes,
    warn_of_changes,
)
from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGED, NEEDS_CAPACITY, OK
from pmbandits.state.layout import MOST
from pmbandits.state.lock import BUSY
from pmbandits.state.memory import Memory

_NO_SHARES: FloatArray = np.empty(0)


class Availability(NamedTuple):
    """Which arms were available in each of some asks: the row of ``masks`` (1: not available), or −1 for all arms."""

    mask_of: NDArray[np.int64] | None = None
    masks: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)

    @classmethod
    def from_available_arms(cls, among: Sequence[Iterable[int] | None], n_arms: int) -> Availability:
        """Of the available arms of each event, by position."""
        rows: dict[tuple[int, ...] | None, int] = {None: -1}
        mask_of = [rows.setdefault(None if arms is None else tuple(arms), len(rows) - 1) for arms in among]
        masks = np.ones((len(rows) - 1, n_arms), dtype=np.int64)
        for arms, row in rows.items():
            if arms is not None:
                masks[row, list(arms)] = 0
        return cls(np.array(mask_of, dtype=np.int64), masks)


class AskTell(ArmLifecycle):
    """The methods ``ask`` and ``tell``, which all policies share."""

    @overload
    def ask(self, *, among: Iterable[int | str] | None = None) -> int: ...
    @overload
    def ask(self, n: int, *, among: Iterable[int | str] | None = None) -> NDArray[np.int64]: ...
    def ask(self, n: int | None = None, *, among: Iterable[int | str] | None = None) -> int | NDArray[np.int64]:
        """The position of the arm to pull now, or an array of the next ``n`` arms.

        An ask counts as a pull at once. So nothing waits for rewards that are late or never come.

        Parameters
        ----------
        n : how many arms to ask for. Without it, the answer is one arm.
        among : the arms (names or positions) that are available in this call, if not all are. The others are pulled
            more often later, because they fall behind their shares. ``among`` comes before limits on shares: these are
            kept as far as the available arms allow.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B", "C"], support=pmb.Binary())
        >>> policy.ask(4, among=["A", "C"]).tolist(), policy.ask()
        ([0, 2, 0, 2], 1)
        """
        if among is not None:
            found = self._ask_many(
                1 if n is None else _validation.check_whole_number("n", n, 1), self._unavailable_mask(among)
            )
            return int(found[0]) if n is None else found
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

    def _ask_many(self, n: int, unavailable: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The next arms, with one call of compiled code, which Ctrl-C cannot cut."""
        self._require_bound_policy()
        out = np.empty(n, dtype=np.int64)
        try:
            if self._with_lock(lambda: self._fill_with_next_arms(out, unavailable)) == INVALID_CHOICE:
                self._raise_invalid_choice()
        except ZeroDivisionError:
            raise division_by_0_error(type(self).__name__, "choose", self._memory) from None
        return out

    def _fill_with_next_arms(self, out: NDArray[np.int64], unavailable: NDArray[np.int64] | None = None) -> int:
        """Fill ``out`` with the next arms, while holding the lock; returns OK or INVALID_CHOICE."""
        self._activate_arms_with_first_reward()
        roster = self._roster
        new = None if roster is None else roster.next_waiting_arm_to_try(unavailable)
        if roster is None or new is None:
            return self._fill_with_next_active_arms(out, unavailable)
        t = self._n_pulls_in_all()
        alone = unavailable is not None and bool(unavailable[list(roster.active_arms)].all())
        if out.size == 1:  # one kernel
            arm, due = new
            if due > t and not alone:
                return self._fill_with_next_active_arms(out, unavailable)
            count_pull(roster.inactive_memory.address, -1 - roster.place[arm])
            out[0] = arm
            return OK
        clone, at = self._clone_unlocked(), 0  # several kernel calls: on a clone that then replaces the policy
        while at < out.size:
            assert clone._roster is not None
            _, due = clone._roster.next_waiting_arm_to_try(unavailable) or (0, t)
            more = 1 if due <= t or alone else min(due - t, out.size - at)
            part = out[at : at + more]
            code = (
                clone._fill_with_next_arms(part, unavailable)
                if more == 1
                else clone._fill_with_next_active_arms(part, unavailable)
            )
            if code != OK:
                return code
            at, t = at + more, t + more
        self._replace_by_clone(clone)
        return OK

    def _fill_with_next_active_arms(
        self, out: NDArray[np.int64], unavailable: NDArray[np.int64] | None, shares: FloatArray = _NO_SHARES
    ) -> int:
        """Fill ``out`` with the next arms, chosen among the active ones; returns OK or INVALID_CHOICE.

        ``shares``, if it has as many places, is filled with the propensity of each when it was chosen.
        """
        where, address, _, roster = self._now
        if unavailable is None:
            code = int(fill_next_arms(where, address, out, shares))
        else:
            inside = unavailable if roster is None else unavailable[list(roster.active_arms)]
            if inside.all():
                known = [_validation.escape_control_characters(name) for name in self.playing[:20]]
                raise ValueError(f"none of the arms in among plays now; name one that does: {', '.join(known)}.")
            code = int(fill_next_arms_among(where, address, inside, out, shares))
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
        return out

    def _raise_invalid_choice(self) -> NoReturn:
        raise invalid_choice_error(type(self).__name__, self._memory)

    def tell(
        self, arm: int | str | ArrayLike | None = None, reward: float | ArrayLike | None = None, *, ticket: Any = None
    ) -> None:
        """Tell the reward of an arm, or arrays of arms and rewards.

        Rewards may come in any order, late, or for pulls that were not asked for.

        Or tell the reward of a ticket (:meth:`ask_ticket`), or lists of tickets and rewards. The reward of a ticket
        counts once, however often it is told. A second reward that differs from the first is refused.

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
        one = not _validation.is_list(reward)
        arms: Any = [arm] if one else arm
        rewards: Any = [reward] if one else reward
        if not one and not _validation.is_list(arms):
            arms = [arms] * len(rewards)  # several rewards of one arm
        self._check_and_record_rewards(arms, rewards)

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

    def _check_and_record_rewards(self, arms: Any, rewards: Any) -> None:
        """Check all input, grow memory, and record all rewards in one compiled call, which Ctrl-C cannot cut."""
        self._require_bound_policy()
        assert self.support is not None
        where = self._arm_positions(arms)
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
        new_changes = recorded_changes(memory, self.names, known)
        memory.lock_token = self._memory.lock_token  # it is still at work
        self._memory = memory
        return new_changes

    def _warn_of_changes(self, new_changes: tuple[Change, ...]) -> None:
        if new_changes and self._plan.forgetting is not None and self._plan.forgetting.on_change == "warn":
            warn_of_changes(new_changes)

    def asked(self, arm: int | str | ArrayLike) -> None:
        """Record a pull that somebody else chose (or several, in this order), as if :meth:`ask` had answered it.

        This is for a second server that shares the experiment, for a policy that only watches, and for stored events.
        The policy does all that an ask does: it looks at its rewards if it is time to, and draws its random numbers.
        Only the pull is counted for the arm that is given. Where ``ask`` would have given the same arm, the policy is
        afterwards exactly as if it had been asked. Otherwise it goes on from there.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.asked("B"); policy.asked([1, 0])
        >>> policy.pulls.tolist(), policy.pending.tolist()
        ([1, 2], [1, 2])
        """
        arms: Any = arm if _validation.is_list(arm) else [arm]
        places = self._arm_positions(arms)
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
        places = self._arm_positions(arms)
        values = np.array(rewards, dtype=np.float64)
        if values.shape != places.shape:
            raise ValueError(f"{places.size} arms were given with {values.size} rewards; give one for each event.")
        is_tell = ~np.isnan(values)
        if is_tell.any():
            values[is_tell] = self.support.check(values[is_tell])
        available = Availability() if among is None else Availability.from_available_arms(among, len(self.names))
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
        return None, recorded_changes(self._memory, self.names, known)

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
                if self._fill_with_next_arms(mine, mask) == INVALID_CHOICE:
                    self._raise_invalid_choice()
                if mine[0] != arms[at]:
                    return at
            else:
                assert roster is not None
                count_pull(roster.inactive_memory.address, -1 - int(places[at]))
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

    def _arm_positions(self, arms: Any) -> NDArray[np.int64]:
        """The positions of arms that are given by position or name; an error names the first that does not exist."""
        self._require_bound_policy()
        given = arms if isinstance(arms, np.ndarray) else np.asarray(arms, dtype=object)
        if given.ndim == 1 and given.dtype.kind in "iu" and given.size:
            where = given.astype(np.int64)
            if where.min() >= 0 and where.max() < len(self.names):
                return where
        table = {name: place for place, name in enumerate(self.names)}
        plain = (arm.item() if isinstance(arm, np.generic) else arm for arm in arms)
        out = [table[arm] if type(arm) is str and arm in table else arm_index(arm, self.names) for arm in plain]
        return np.array(out, dtype=np.int64)
