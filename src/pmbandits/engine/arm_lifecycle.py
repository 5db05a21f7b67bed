"""Arms that come and go, and limits that change: add_arm, pause, resume, retire and limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits.arms import arm_index, check_arm_names
from pmbandits.constraints import Shares
from pmbandits.engine import share_constraints
from pmbandits.engine.build import MemoryBuilding
from pmbandits.engine.capacity import recompute_derived_fields
from pmbandits.engine.options import MAX_ARMS
from pmbandits.engine.roster import PAUSED, PLAYS, RETIRED, Roster, arm_count_doubled_until_enough
from pmbandits.engine.transfer import (
    add_pulls_and_rewards,
    count_all_pulls_as_current,
    new_memory_for_inactive_arms,
    restart_clock,
)
from pmbandits.state.memory import Memory

# All that a change replaces, at once.
_REPLACED = ("names", "_own_names", "options", "limits", "_all_limits", "_plan", "epsilon", "_now")


def _n_rewards_at_roster_place(memory: Memory, beside: Memory, at: int | None) -> int:
    """How many rewards there are of the arm at a place of the roster; an arm without a place is new."""
    return 0 if at is None else int(memory.n_rewards[at] if at >= 0 else beside.n_rewards[-1 - at])


def _copy_arm_records_into(into: Memory, memory: Memory, beside: Memory, places: list[int | None]) -> None:
    """Copy pulls and rewards of arms into one memory, from the main memory and from that of inactive arms."""
    add_pulls_and_rewards(into, memory, [(at, to) for to, at in enumerate(places) if at is not None and at >= 0])
    add_pulls_and_rewards(into, beside, [(-1 - at, to) for to, at in enumerate(places) if at is not None and at < 0])


class ArmLifecycle(MemoryBuilding):
    """The methods by which arms come and go, and limits change."""

    def add_arm(self, name: str | None = None) -> int:
        """Add an arm, and return its position. Nothing that was learned is lost.

        The new arm is tried at once. Until its first reward is told, it is asked for about √n times in n rounds, beside
        what the other arms do. So it is not forgotten if that reward is late, and it takes few rounds from the others
        if the reward never comes. With its first reward it takes part like every other arm. If you have rewards of it
        already, you may tell them.

        After a change of the arms that play, the policy keeps the shares of its mixture in the rounds that follow. The
        rounds before are counted in ``t`` and ``pulls``, but the policy does not make up for them. What was learned
        stays, and is not explored again. A policy with phases (CIRT, PMETC, PMUCB, CEUCB) begins them anew for the arms
        that play now, with what is known.

        Confidence sets stay valid: ``delta`` is shared between ``most_arms`` arms (by default as many as there were at
        the start). If more come, each doubling of that number costs half of what the one before did. All sets that were
        ever used hold together with probability 1 − 2δ at least.

        Parameters
        ----------
        name : the name of the new arm; by default ``"arm k"`` with the next number k.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary(), most_arms=10)
        >>> policy.add_arm("C")
        2
        >>> policy.ask(), policy.playing
        (2, ('A', 'B', 'C'))
        """
        self._require_changeable_arms()

        def change() -> int:
            k = len(self.names)
            if k >= MAX_ARMS:
                raise ValueError(f"a policy can have {MAX_ARMS:,} arms, those that are retired included.")
            new = f"arm {k}" if name is None else name
            if not isinstance(new, str):
                raise TypeError(f"the name of an arm is text, got {_validation.short_repr(new)}.")
            if new in self.names:
                what = {PLAYS: "", PAUSED: f" (it is paused: resume({new!r}))", RETIRED: " (it is retired)"}
                raise ValueError(f"there is an arm {new!r} already{what[self._arm_states()[self.names.index(new)]]}.")
            names = check_arm_names((*self.names, new), k + 1)
            own = self._own_names or new != f"arm {k}"
            joined_at = {**self._round_in_which_arms_joined(), k: self._n_pulls_in_all()}
            self.__dict__.update(
                {**self._state_rearranged_for_arms(names, (*self._arm_states(), PLAYS), joined_at), "_own_names": own}
            )
            return k

        return self._with_lock(change)

    def pause(self, arm: int | str) -> None:
        """Stop asking for an arm until :meth:`resume`. What is known of it stays, and late rewards of it count.

        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.pause("A"); policy.ask(3).tolist(), policy.mixture.tolist()
        ([1, 1, 1], [0.0, 1.0])
        >>> policy.resume("A"); policy.playing
        ('A', 'B')
        """
        self._set_arm_state(arm, PAUSED)

    def resume(self, arm: int | str) -> None:
        """Let a paused arm play again, with what is known of it. An arm without a reward is tried like a new one."""
        self._set_arm_state(arm, PLAYS)

    def retire(self, arm: int | str) -> None:
        """Never ask for an arm again. What is known of it can still be read, and late rewards of it count."""
        self._set_arm_state(arm, RETIRED)

    def limit(
        self, shares: Shares = None, *, cost: Mapping[str, float] | None = None, budget: float | None = None
    ) -> None:
        """Set new limits on the shares of arms, from now on. Without any, all limits are removed.

        The new limits replace all earlier ones, and are kept in the rounds that follow. The policy does not make up for
        the rounds before. As after a change of arms, what was learned stays, and a policy with phases begins them anew.
        If no mixture of the arms that play keeps the limits, you get an error, and nothing changes.

        Parameters
        ----------
        shares, cost, budget : as for :class:`Policy`.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary(), shares="A >= 10%")
        >>> policy.limit("A <= 30%"); policy.limits.texts
        ('A <= 30%',)
        >>> policy.limit(None); policy.limits is None
        True
        """
        self._require_changeable_arms()

        def change() -> None:
            options = {key: value for key, value in self.options.items() if key not in share_constraints.OPTIONS}
            if shares is not None:
                options["shares"] = share_constraints.check_shares("shares", shares)
            if cost is not None:
                options["cost"] = share_constraints.check_cost("cost", cost)
            if budget is not None:
                options["budget"] = share_constraints.check_budget("budget", budget)
            found = share_constraints.limits_from_options(options, self.names)
            changed = object.__new__(type(self))
            changed.__dict__.update({**self.__dict__, "options": options, "_all_limits": found})
            parts = changed._state_rearranged_for_arms(
                self.names, self._arm_states(), self._round_in_which_arms_joined(), anew=True
            )
            self.__dict__.update({**parts, "options": options, "_all_limits": found})

        self._with_lock(change)

    def _require_changeable_arms(self) -> None:
        self._require_bound_policy()
        if self._plan.forgetting is not None:
            raise ValueError(
                "arms and limits cannot change in a policy that forgets rewards or watches its arms for changes "
                "(estimates='window' or 'discount', detect=...); leave that option out."
            )

    def _set_arm_state(self, arm: int | str, state: str) -> None:
        self._require_changeable_arms()

        def change() -> None:
            at = arm_index(arm, self.names)
            states, name = list(self._arm_states()), self.names[at]
            if states[at] == RETIRED:
                raise ValueError(f"{name} is retired, and stays so; to play it again, add_arm(...) with a new name.")
            if states[at] == state:
                raise ValueError(f"{name} {'plays' if state == PLAYS else 'is paused'} already.")
            others = any(s == PLAYS for i, s in enumerate(states) if i != at)
            if state != PLAYS and not others:
                raise ValueError(f"{name} is the only arm that plays; let another one play first.")
            states[at] = state
            joined_at = {i: t for i, t in self._round_in_which_arms_joined().items() if i != at}
            if state == PLAYS:
                joined_at[at] = self._n_pulls_in_all()
            self.__dict__.update(self._state_rearranged_for_arms(self.names, tuple(states), joined_at))

        self._with_lock(change)

    def _arm_states(self) -> tuple[str, ...]:
        roster = self._roster
        return (PLAYS,) * len(self._columns) if roster is None else roster.states

    def _round_in_which_arms_joined(self) -> Mapping[int, int]:
        roster = self._roster
        return {} if roster is None else roster.joined_at

    @property
    def n_arms(self) -> int:
        """How many arms there are, including those that are paused or retired."""
        return len(self.names)

    @property
    def playing(self) -> tuple[str, ...]:
        """The names of the arms that play now, which are all that are neither paused nor retired."""
        return self._names_in_state(PLAYS)

    @property
    def retired(self) -> tuple[str, ...]:
        """The names of the arms that are retired, for good.

        >>> import pmbandits as pmb
        >>> policy = pmb.Vet("gini", names=["A", "B", "C"], support=pmb.Binary())
        >>> policy.retire("B"); policy.retired
        ('B',)
        """
        return self._names_in_state(RETIRED)

    def _names_in_state(self, wanted: str) -> tuple[str, ...]:
        states = self._arm_states()
        if self._segments is None:
            return tuple(name for name, state in zip(self.names, states, strict=True) if state == wanted)
        arms = {arm for arm, state in zip(self._segments.arm_list, states, strict=True) if state == wanted}
        return tuple(name for arm, name in enumerate(self.names) if arm in arms)

    def _field_of_all_arms(self, name: str) -> NDArray[Any]:
        """A number for each arm that there ever was, whether it plays or not; call it while alone with the policy."""
        _, _, memory, roster = self._now
        inside = memory.field(name) + (memory.earlier_pulls if name == "pulls" and memory.n_earlier_pulls else 0)
        if roster is None:
            return inside
        out = np.zeros(len(roster.states), dtype=inside.dtype)
        out[list(roster.active_arms)], out[list(roster.inactive_arms)] = inside, roster.inactive_memory.field(name)
        return out

    def _n_arrivals(self, segment: int) -> int:
        """How many people of a segment have come; call it while alone with the policy."""
        memory = self._memory
        return int(memory.earlier_arrivals[segment] + memory.pulls[memory.segment_of == segment].sum())

    def _segments_of(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The segment of each column; empty without segments."""
        return np.empty(0, dtype=np.int64) if self._segments is None else self._segments.segment_of[columns]

    def _playing_columns(self, segment: int | None) -> list[str]:
        """The names of the arms that play, in a segment if one is given."""
        if segment is None or self._segments is None:
            return list(self.playing)
        at, states = self._segments.column_at[segment], self._arm_states()
        return [self.names[k] for k, column in enumerate(at) if column >= 0 and states[column] == PLAYS]

    def _n_pulls_in_all(self) -> int:
        """How many pulls were asked for in all."""
        _, _, memory, roster = self._now
        return int(memory.t + memory.earlier_pulls.sum() + (0 if roster is None else roster.inactive_memory.t))

    def _expand_to_all_arms(self, inside: NDArray[Any]) -> NDArray[Any]:
        """Expand an array of the active arms to one of all arms that there ever were, with 0 for the others."""
        if self._roster is None:
            return inside
        out = np.zeros(len(self._columns), dtype=inside.dtype)
        out[list(self._roster.active_arms)] = inside
        return out

    def _with_waiting_arms_in_memory(self) -> Self:
        """The policy itself, after arms that wait for their first reward have come into the memory like all others."""
        if self._roster is not None and self._roster.waiting:
            states, joined_at = self._roster.states, self._roster.joined_at
            self.__dict__.update(
                self._state_rearranged_for_arms(self.names, states, joined_at, include_waiting_arms=True)
            )
        return self

    def _activate_arms_with_first_reward(self) -> None:
        """Activate arms whose first reward has come; call it while holding the policy's lock."""
        roster = self._roster
        if roster is not None and roster.waiting and roster.has_waiting_arm_first_reward():
            self.__dict__.update(self._state_rearranged_for_arms(self.names, roster.states, roster.joined_at))

    def _replace_by_clone(self, clone: Self) -> None:
        """Replace the state of a policy by that of its clone, in one step; call it while holding the lock."""
        clone._memory.lock_token = self._memory.lock_token  # it is still at work
        self.__dict__.update({key: clone.__dict__[key] for key in _REPLACED})

    def _state_rearranged_for_arms(
        self,
        names: tuple[str, ...],
        states: tuple[str, ...],
        joined_at: Mapping[int, int],
        include_waiting_arms: bool = False,
        anew: bool = False,
    ) -> dict[str, Any]:
        """The new state of a policy if these arms play. It is built separately: if anything fails, nothing changes.

        ``include_waiting_arms``: arms without a reward become active, too. ``anew``: always build new memory.
        """
        _, _, memory, roster = self._now
        if roster is None:
            k = len(self.names)
            none = new_memory_for_inactive_arms(memory, self._plan, 0, 0)
            roster = Roster((PLAYS,) * k, tuple(range(k)), none, (), {}, 0, k)
        place = (*roster.place, *([None] * (len(names) - len(roster.place))))
        plays = [arm for arm, state in enumerate(states) if state == PLAYS]

        def known(arm: int) -> bool:
            """Whether the arm is in the memory already, or has a reward with which to come there."""
            at = place[arm]
            return at is not None and (at >= 0 or roster.inactive_memory.n_rewards[-1 - at] > 0)

        active_arms = tuple(arm for arm in plays if include_waiting_arms or known(arm)) or tuple(plays)
        beside = tuple(arm for arm in range(len(names)) if arm not in set(active_arms))
        waits = {arm: joined_at[arm] for arm in beside if states[arm] == PLAYS}
        same = (
            not anew
            and active_arms == roster.active_arms
            and arm_count_doubled_until_enough(self._n_arms_that_share_delta(roster), len(names))
            == arm_count_doubled_until_enough(self._n_arms_that_share_delta(roster), len(self.names))
        )
        start = roster.clock_start if same else self._n_pulls_in_all()
        after = Roster(states, active_arms, roster.inactive_memory, (), waits, start, roster.n_initial_arms)
        draft = self._unbuilt_policy_with_arms(names, after)
        if waits and not include_waiting_arms:  # should they not all fit together, that is said now, not later
            self._unbuilt_policy_with_arms(
                names, replace(after, active_arms=tuple(plays))
            )._build_memory_for_active_arms()
        if same:
            new, plan = memory, self._plan
        else:
            new, plan = draft._build_memory_for_active_arms()
            draft._plan = plan
            places = [place[arm] for arm in active_arms]
            n_rewards = [_n_rewards_at_roster_place(memory, roster.inactive_memory, at) for at in places]
            new = draft._memory_resized_for(new, sum(n_rewards), max(n_rewards))
            _copy_arm_records_into(new, memory, roster.inactive_memory, places)
            restart_clock(new)
            recompute_derived_fields(new)
            new.dirty, new.rng_counter, new.lock_token = 1, memory.rng_counter, memory.lock_token
        rest = roster.inactive_memory
        if beside != roster.inactive_arms or not same:
            places = [place[arm] for arm in beside]
            n_rewards = [_n_rewards_at_roster_place(memory, roster.inactive_memory, at) for at in places]
            rest = new_memory_for_inactive_arms(new, plan, len(beside), sum(n_rewards))
            _copy_arm_records_into(rest, memory, roster.inactive_memory, places)
            count_all_pulls_as_current(rest)
            recompute_derived_fields(rest)
        after = replace(after, inactive_memory=rest, inactive_arms=beside)
        return {
            "names": names,
            "limits": draft.limits,
            "_plan": plan,
            "epsilon": plan.setup.epsilon,
            "_now": self._kernel_args(new, after),
        }

    def _n_arms_that_share_delta(self, roster: Roster) -> int:
        return max(roster.n_initial_arms, self.options.get("most_arms") or 0)

    def _unbuilt_policy_with_arms(self, names: tuple[str, ...], roster: Roster) -> Self:
        """A policy with these arms, to make a memory for."""
        draft = object.__new__(type(self))
        draft.__dict__.update({**self.__dict__, "names": names, "_now": (0, 0, self._memory, roster)})
        kept = self._all_limits
        draft.limits = None if kept is None else kept.among([names[arm] for arm in roster.active_arms])
        return draft

    def _build_memory_for_active_arms(self) -> tuple[Memory, Any]:
        assert self.metric is not None and self.support is not None
        return self._build(self.metric, len(self._active_arms), self.support)
