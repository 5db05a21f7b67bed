"""Arms that come and go, and limits that change: add_arm, pause, resume, retire and limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits.arms import arm_index, check_arm_names
from pmbandits.constraints import Shares
from pmbandits.engine import share_constraints
from pmbandits.engine.capacity import recompute_derived_fields
from pmbandits.engine.columns import ColumnLookup, count_earlier_arrivals
from pmbandits.engine.options import MAX_ARMS
from pmbandits.engine.roster import PAUSED, PLAYS, RETIRED, Roster, arm_count_doubled_until_enough
from pmbandits.engine.transfer import (
    add_pulls_and_rewards,
    count_all_pulls_as_current,
    new_memory_for_inactive_arms,
    restart_clock,
)
from pmbandits.segments import Segments
from pmbandits.state.memory import Memory

# All that a change replaces, at once.
_REPLACED = ("names", "_own_names", "_segments", "options", "limits", "_all_limits", "_plan", "epsilon", "_now")


def _n_rewards_at_roster_place(memory: Memory, beside: Memory, at: int | None) -> int:
    """How many rewards there are of the arm at a place of the roster; an arm without a place is new."""
    return 0 if at is None else int(memory.n_rewards[at] if at >= 0 else beside.n_rewards[-1 - at])


def _copy_arm_records_into(into: Memory, memory: Memory, beside: Memory, places: list[int | None]) -> None:
    """Copy pulls and rewards of arms into one memory, from the main memory and from that of inactive arms."""
    add_pulls_and_rewards(into, memory, [(at, to) for to, at in enumerate(places) if at is not None and at >= 0])
    add_pulls_and_rewards(into, beside, [(-1 - at, to) for to, at in enumerate(places) if at is not None and at < 0])


class ArmLifecycle(ColumnLookup):
    """The methods by which arms come and go, and limits change."""

    def add_arm(self, name: str | None = None, *, segments: Sequence[str] | None = None) -> int:
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
        segments : the segments that get the arm, for a policy with segments; by default all of them.

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
            known = self._segments
            if known is not None:
                known = known.with_arm(new, self.segments if segments is None else segments)
            elif segments is not None:
                self._segment_positions(segments, None)  # says that there are none
            self._take_in_new_columns(names, known, self._own_names or new != f"arm {k}")
            return k

        return self._with_lock(change)

    def add_segment(self, name: str, arms: Sequence[str] | None = None) -> int:
        """Add a segment to a policy with segments, and return its position. Nothing that was learned is lost.

        Its arms are new ones in the sense of :meth:`add_arm`: what is known of them in other segments says nothing
        about this one.

        Parameters
        ----------
        name : the name of the new segment.
        arms : the names of its arms; by default all arms that there are.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Uniform("gini", names=["A", "B"], support=pmb.Binary(), segments=["new", "returning"])
        >>> policy.add_segment("staff", ["B"])
        2
        >>> policy.ask(segment="staff"), policy.mixture[2].tolist()
        (1, [0.0, 1.0])
        """
        self._require_changeable_arms()

        def change() -> int:
            if self._segments is None:
                raise ValueError("this policy has no segments to add one to; make it with segments=[...].")
            after = self._segments.with_segment(name, self.names if arms is None else arms)
            self._take_in_new_columns(self.names, after, self._own_names)
            return len(after) - 1

        return self._with_lock(change)

    def _take_in_new_columns(self, names: tuple[str, ...], segments: Segments | None, own_names: bool) -> None:
        """Let arms or segments that are new take part; call it while holding the lock."""
        old = {column: at for at, column in enumerate(self._columns)}
        states, joined_at = self._arm_states(), self._round_in_which_arms_joined()
        after, joins = [], {}
        for at, column in enumerate(names if segments is None else segments.column_names):
            before = old.get(column)
            after.append(PLAYS if before is None else states[before])
            if before is None:
                segment = -1 if segments is None else int(segments.segment_of[at])
                joins[at] = self._n_rounds_of(segment) if segment < len(self.segments) else 0
            elif before in joined_at:
                joins[at] = joined_at[before]
        changed = self._state_rearranged_for_arms(tuple(after), joins, names=names, segments=segments)
        self.__dict__.update({**changed, "_own_names": own_names})

    def pause(self, arm: int | str, *, segment: str | None = None) -> None:
        """Stop asking for an arm until :meth:`resume`. What is known of it stays, and late rewards of it count.

        With segments, it is paused in all of them, or only in the ``segment`` that is given.

        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.pause("A"); policy.ask(3).tolist(), policy.mixture.tolist()
        ([1, 1, 1], [0.0, 1.0])
        >>> policy.resume("A"); policy.playing
        ('A', 'B')
        """
        self._set_arm_state(arm, PAUSED, segment)

    def resume(self, arm: int | str, *, segment: str | None = None) -> None:
        """Let a paused arm play again, with what is known of it. An arm without a reward is tried like a new one.

        With segments, it plays again in all of them, or only in the ``segment`` that is given.
        """
        self._set_arm_state(arm, PLAYS, segment)

    def retire(self, arm: int | str, *, segment: str | None = None) -> None:
        """Never ask for an arm again. What is known of it can still be read, and late rewards of it count.

        With segments, it is retired in all of them, or only in the ``segment`` that is given.
        """
        self._set_arm_state(arm, RETIRED, segment)

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
            found = share_constraints.limits_from_options(options, self.names, self._segments)
            changed = object.__new__(type(self))
            changed.__dict__.update({**self.__dict__, "options": options, "_all_limits": found})
            self.__dict__.update(
                changed._state_rearranged_for_arms(self._arm_states(), self._round_in_which_arms_joined(), anew=True)
            )

        self._with_lock(change)

    def _require_changeable_arms(self) -> None:
        self._require_bound_policy()
        if self._plan.forgetting is not None:
            raise ValueError(
                "arms and limits cannot change in a policy that forgets rewards or watches its arms for changes "
                "(estimates='window' or 'discount', detect=...); leave that option out."
            )

    def _set_arm_state(self, arm: int | str, state: str, segment: str | None) -> None:
        self._require_changeable_arms()

        def change() -> None:
            at = arm_index(arm, self.names)
            states, name = list(self._arm_states()), self.names[at]
            columns, where = self._columns_of_arm(at, segment)
            if all(states[column] == RETIRED for column in columns):
                raise ValueError(
                    f"{name} is retired{where}, and stays so; to play it again, add_arm(...) with a new name."
                )
            changing = [column for column in columns if states[column] not in (state, RETIRED)]
            if not changing:
                raise ValueError(f"{name} {'plays' if state == PLAYS else 'is paused'} already{where}.")
            joined_at = {i: t for i, t in self._round_in_which_arms_joined().items() if i not in changing}
            for column in changing:
                states[column], mine = state, self._columns_of_same_segment(column)
                if not any(states[i] == PLAYS for i in mine):
                    of = f" in {self.segments[self._segment_of(column)]}" if self.segments else ""
                    raise ValueError(f"{name} is the only arm that plays{of}; let another one play first.")
                if state == PLAYS:
                    joined_at[column] = self._n_rounds_of(self._segment_of(column))
            self.__dict__.update(self._state_rearranged_for_arms(tuple(states), joined_at))

        self._with_lock(change)

    def _round_in_which_arms_joined(self) -> Mapping[int, int]:
        roster = self._roster
        return {} if roster is None else roster.joined_at

    @property
    def n_arms(self) -> int:
        """How many arms there are, including those that are paused or retired."""
        return len(self.names)

    @property
    def playing(self) -> tuple[str, ...]:
        """The names of the arms that play now (in some segment), that is all that are neither paused nor retired."""
        return self._names_in_state(PLAYS)

    @property
    def retired(self) -> tuple[str, ...]:
        """The names of the arms that are retired, for good; with segments, in all segments that they were in.

        >>> import pmbandits as pmb
        >>> policy = pmb.Vet("gini", names=["A", "B", "C"], support=pmb.Binary())
        >>> policy.retire("B"); policy.retired
        ('B',)
        """
        return self._names_in_state(RETIRED)

    def _names_in_state(self, wanted: str) -> tuple[str, ...]:
        """The names of the arms that play in some segment, or that are retired in all of theirs."""
        states, every = self._arm_states(), any if wanted == PLAYS else all
        columns = (self._columns_of_arm(arm, None)[0] for arm in range(len(self.names)))
        return tuple(
            name for name, mine in zip(self.names, columns, strict=True) if every(states[i] == wanted for i in mine)
        )

    def _field_of_all_arms(self, name: str) -> NDArray[Any]:
        """A number for each arm that there ever was, whether it plays or not; call it while alone with the policy."""
        _, _, memory, roster = self._now
        inside = memory.field(name) + (memory.earlier_pulls if name == "pulls" and memory.n_earlier_pulls else 0)
        if roster is None:
            return inside
        out = np.zeros(len(roster.states), dtype=inside.dtype)
        out[list(roster.active_arms)], out[list(roster.inactive_arms)] = inside, roster.inactive_memory.field(name)
        return out

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
            self.__dict__.update(self._state_rearranged_for_arms(states, joined_at, include_waiting_arms=True))
        return self

    def _activate_arms_with_first_reward(self) -> None:
        """Activate arms whose first reward has come; call it while holding the policy's lock."""
        roster = self._roster
        if roster is not None and roster.waiting and roster.has_waiting_arm_first_reward():
            self.__dict__.update(self._state_rearranged_for_arms(roster.states, roster.joined_at))

    def _replace_by_clone(self, clone: Self) -> None:
        """Replace the state of a policy by that of its clone, in one step; call it while holding the lock."""
        clone._memory.lock_token = self._memory.lock_token  # it is still at work
        self.__dict__.update({key: clone.__dict__[key] for key in _REPLACED})

    def _state_rearranged_for_arms(
        self,
        states: tuple[str, ...],
        joined_at: Mapping[int, int],
        *,
        names: tuple[str, ...] | None = None,
        segments: Segments | None = None,
        include_waiting_arms: bool = False,
        anew: bool = False,
    ) -> dict[str, Any]:
        """The new state of a policy if these arms play. It is built separately: if anything fails, nothing changes.

        ``states`` and ``joined_at`` are those of the columns; ``names`` and ``segments`` are given if there are new
        ones. ``include_waiting_arms``: arms without a reward become active, too. ``anew``: always build new memory.
        """
        _, _, memory, roster = self._now
        if roster is None:
            k = len(self._columns)
            none = new_memory_for_inactive_arms(memory, self._plan, 0, 0)
            roster = Roster((PLAYS,) * k, tuple(range(k)), none, (), {}, 0, k)
        draft = self._unbuilt_policy_with_arms(self.names if names is None else names, segments or self._segments)
        old_place = dict(zip(self._columns, roster.place, strict=True))
        place = [old_place.get(column) for column in draft._columns]
        plays = [arm for arm, state in enumerate(states) if state == PLAYS]

        def known(arm: int) -> bool:
            """Whether the arm is in the memory already, or has a reward with which to come there."""
            at = place[arm]
            return at is not None and (at >= 0 or roster.inactive_memory.n_rewards[-1 - at] > 0)

        active_arms = tuple(arm for arm in plays if include_waiting_arms or known(arm)) or tuple(plays)
        inside = set(active_arms)
        beside = tuple(arm for arm in range(len(place)) if arm not in inside)
        waits = {arm: joined_at[arm] for arm in beside if states[arm] == PLAYS}
        same = (
            not anew
            and [place[arm] for arm in active_arms] == list(range(len(roster.active_arms)))
            and len(draft.segments) == len(self.segments)
            and arm_count_doubled_until_enough(self._n_arms_that_share_delta(roster), len(place))
            == arm_count_doubled_until_enough(self._n_arms_that_share_delta(roster), len(self._columns))
        )
        start = roster.clock_start if same else self._n_pulls_in_all()
        after = Roster(states, active_arms, roster.inactive_memory, (), waits, start, roster.n_initial_arms)
        if waits and not include_waiting_arms:  # should they not all fit together, that is said now, not later
            draft._build_memory_for_roster(replace(after, active_arms=tuple(plays)))
        if same:
            new, plan = memory, self._plan
            draft._limit_to_roster(after)
        else:
            new, plan = draft._build_memory_for_roster(after)
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
        count_earlier_arrivals(new, after, draft._segments)
        return {
            "names": draft.names,
            "_segments": draft._segments,
            "options": draft.options,
            "limits": draft.limits,
            "_all_limits": draft._all_limits,
            "_plan": plan,
            "epsilon": plan.setup.epsilon,
            "_now": self._kernel_args(new, after),
        }

    def _n_arms_that_share_delta(self, roster: Roster) -> int:
        return max(roster.n_initial_arms, self.options.get("most_arms") or 0)

    def _unbuilt_policy_with_arms(self, names: tuple[str, ...], segments: Segments | None) -> Self:
        """A policy with these arms and segments, to make a memory for."""
        draft = object.__new__(type(self))
        draft.__dict__.update({**self.__dict__, "names": names, "_segments": segments})
        if segments is not None and segments is not self._segments:
            draft.options = {**self.options, "segments": segments.to_argument()}
            draft._all_limits = share_constraints.limits_from_options(dict(self.options), names, segments)
        return draft

    def _limit_to_roster(self, roster: Roster) -> None:
        """Let an unbuilt policy have the arms that are active in this roster, and the limits on them."""
        self._now = 0, 0, self._memory, roster
        kept, columns = self._all_limits, self._columns
        self.limits = None if kept is None else kept.among([columns[arm] for arm in roster.active_arms])

    def _build_memory_for_roster(self, roster: Roster) -> tuple[Memory, Any]:
        assert self.metric is not None and self.support is not None
        self._limit_to_roster(roster)
        return self._build(self.metric, len(self._active_arms), self.support)
