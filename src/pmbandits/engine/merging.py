"""Two policies of one experiment become one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pmbandits import _validation
from pmbandits.engine.capacity import ensure_capacity, forget_after_merge, memory_grown_by, recompute_derived_fields
from pmbandits.engine.columns import count_earlier_arrivals
from pmbandits.engine.forgetting import interleave_windows_in_place
from pmbandits.engine.options import parse_estimates
from pmbandits.engine.ticket_methods import TicketMethods
from pmbandits.engine.transfer import add_pulls_and_rewards, count_all_pulls_as_current, restart_clock


def _are_equal(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(mine == theirs)
    except ValueError:  # a metric made from a function equals itself only
        return False


class Merging(TicketMethods):
    """The method that takes in another policy."""

    def merge(self, other: Merging) -> None:
        """Take in what another policy of the same experiment did and saw. The other policy does not change.

        This is for two servers with one experiment. Afterwards this policy knows the rewards of both. The pulls of both
        count for the proportions, for exploration and for the time t, as if one policy had played alone. This is exact
        for exact and binned estimates; sketches merge within their stated error. What was decided before stays: a
        mixture that PMETC has chosen, and phases of CIRT that are over. Merge the same policy only once: the policy
        cannot tell rewards that it knows already from new ones.

        Metric, support, names of arms and ``estimates`` must be the same; the kind of policy may differ. Where arms
        came and went, two arms with the same name are taken to be the same arm, and this policy must have all arms of
        the other. Which of them play stays as it is here.

        For confidence sets this means:

        - Sets with a horizon hold as long as an arm has no more rewards than that in both policies together.
        - The sets of sketches hold from the merge on.
        - Of two windows the last rewards of both are kept, side by side, and their sets hold from the merge on.
        - What a policy said before a merge, and what it says afterwards, rest on different sets: the rewards came in
          another order. Each of the two holds with the stated probability. That all statements before *and* after hold
          together is certain only with twice the probability of failure. For anytime statements across merges, give
          δ/(number of merges + 1) as ``delta``.
        - A policy that watches its arms for changes goes on with the rewards that it is told itself.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> here, there = (pmb.CIRT(pmb.Mean(), n_arms=2, support=pmb.Binary()) for _ in range(2))
        >>> here.tell([0, 1], [1, 0]); there.tell([0, 0], [1, 1])
        >>> here.merge(there)
        >>> [arm.n for arm in here.estimates]
        [3, 1]
        """
        self._require_mergeable(other)
        theirs = other._clone()
        self._with_lock(lambda: self._merge_unlocked(theirs))

    def _merge_unlocked(self, theirs: Merging) -> None:
        """Merge pulls, rewards and tickets of another policy, on copies that then replace the originals.

        Call it while alone with the policy.

        Pulls of arms that play in both count for the shares. Pulls of other arms, and those from before the clock
        began, do not.
        """
        _, _, memory, roster = self._now
        _, _, other, others = theirs._now
        ours, forgetting = memory.copy(), self._plan.forgetting
        here = {column: at for at, column in enumerate(self._columns)}
        beside = None if roster is None else roster.inactive_memory.copy()
        for source, arms in [(other, theirs._active_arms)] + (
            [] if others is None else [(others.inactive_memory, others.inactive_arms)]
        ):
            where = [here[theirs._columns[arm]] for arm in arms]
            places = where if roster is None else [roster.place[arm] for arm in where]
            if source is not other:  # nobody plays those arms there now
                restart_clock(source)
            if source.n_earlier_pulls > 0 and ours.n_earlier_pulls == 0:  # here all pulls count
                count_all_pulls_as_current(source)
            windowed = forgetting is not None and forgetting.kind
            ours = (memory_grown_by if windowed else ensure_capacity)(ours, self._plan, source.rewards)
            before = ours.rewards
            add_pulls_and_rewards(ours, source, [(a, b) for a, b in enumerate(places) if b >= 0])
            if ours.window_capacity > 0:
                ours.rewards = before
                interleave_windows_in_place(ours, source)
                ours.rewards = before + source.rewards
            if beside is not None:
                beside = ensure_capacity(beside, self._plan, source.rewards)
                add_pulls_and_rewards(beside, source, [(a, -1 - b) for a, b in enumerate(places) if b < 0])
                count_all_pulls_as_current(beside)
                recompute_derived_fields(beside)
        for field in ours.fields:
            if "cleared" in field.lifecycle:  # the distributions may have moved by any amount
                ours.field(field.name)[...] = 0
        recompute_derived_fields(ours)
        if forgetting is not None:
            ours = forget_after_merge(ours, other, self._plan)
        ours.dirty = 1
        ours.lock_token = memory.lock_token  # it is still at work
        tickets, tickets.prefix = self._tickets.copy(), self._tickets.prefix
        arm_places = [self.names.index(name) for name in theirs.names]
        tickets.merge_tickets_of(theirs._tickets, arm_places, [self.segments.index(name) for name in theirs.segments])
        after = None if roster is None or beside is None else replace(roster, inactive_memory=beside)
        count_earlier_arrivals(ours, after, self._segments)
        self._tickets = tickets
        self._now = self._kernel_args(ours, after)
        self._activate_arms_with_first_reward()

    def _require_mergeable(self, other: Merging) -> None:
        if not isinstance(other, Merging):
            raise TypeError(f"merge needs another policy, got {_validation.short_repr(other)}.")
        self._require_bound_policy()
        other._require_bound_policy()
        if other is self:
            raise ValueError("a policy cannot take in itself: its rewards would count twice.")
        for what, mine, theirs in (
            ("metric", self.metric, other.metric),
            ("support", self.support, other.support),
            ("estimates", *(parse_estimates(p.options.get("estimates", "exact")) for p in (self, other))),
            ("detect", *(p._detect_option_if_restart() for p in (self, other))),
        ):
            if not _are_equal(mine, theirs):
                raise ValueError(f"policies must have the same {what} to be merged, but have {mine!r} and {theirs!r}.")
        if (self._segments is None) != (other._segments is None):
            raise ValueError("a policy with segments and one without cannot be merged; give both the same segments.")
        known = set(self._columns)
        if self._segments is not None:
            unknown = [column for column in other._columns if column not in known]
            if unknown or ((self._roster is None and other._roster is None) and self._segments != other._segments):
                raise ValueError(
                    f"policies must have the same arms in the same segments to be merged, but have "
                    f"{self.options['segments']!r} and {other.options['segments']!r}."
                )
            return
        unknown_arms = [name for name in other.names if name not in known]
        names_differ = (self._roster is None and other._roster is None) and self.names != other.names
        if unknown_arms or names_differ:
            hint = f"; add_arm({unknown_arms[0]!r}) first" if unknown_arms and not names_differ else ""
            raise ValueError(
                f"policies must have the same names of arms to be merged, but have {self.names!r} and "
                f"{other.names!r}{hint}."
            )

    def _detect_option_if_restart(self) -> str:
        """Whether rewards of arms that changed are forgotten; to be warned of changes is each policy's own affair."""
        forgetting = self._plan.forgetting
        return "restart" if forgetting is not None and forgetting.on_change == "restart" else "no restart"
