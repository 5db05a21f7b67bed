"""Asking for tickets, answering them, correcting answers, and the table of all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._files import write_atomically
from pmbandits.engine.capacity import ensure_capacity, recompute_derived_fields
from pmbandits.engine.replay import Replaying
from pmbandits.engine.tickets import PendingAnswers, Ticket, TicketRow, ticket_id
from pmbandits.estimates._rewards import OK, SAMPLES
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def replace_reward_in_memory(memory: Memory, arm: int, old: float, new: float) -> None:
    if memory.sketch_size > 0:
        raise ValueError("rewards that are kept in sketches cannot be corrected; take estimates='exact' or 'binned'.")
    gone = ValueError(f"the reward {old:g} of this arm is not there to be corrected; it was forgotten, or never told.")
    if memory.storage_mode == SAMPLES:
        found = np.flatnonzero((memory.x[: memory.rewards] == old) & (memory.pool_arm[: memory.rewards] == arm))
        if not found.size:
            raise gone
        memory.x[found[0]], memory.n_sorted = new, 0
    else:
        a, b = (int(np.abs(memory.points - value).argmin()) for value in (old, new))
        if memory.counts[arm, a] == 0:
            raise gone
        memory.counts[arm, a] -= 1
        memory.counts[arm, b] += 1
        old, new = float(memory.points[a]), float(memory.points[b])
    memory.sums[arm] += new - old
    if memory.window_capacity:  # the newest of equal rewards is taken: the pool must have them in the window's order
        n = memory.rewards
        same = np.flatnonzero((memory.window_rewards[:n] == old) & (memory.window_arms[:n] == arm))
        memory.window_rewards[same[-1]] = new
        if memory.storage_mode == SAMPLES:
            memory.x[:n], memory.pool_arm[:n] = memory.window_rewards[:n], memory.window_arms[:n]


class TicketLog:
    """The tickets of a policy as a table, one row for each, by round: the result of :meth:`Policy.log`.

    The columns are ``round``, ``ticket``, ``arm`` (the name), ``action`` (its position), ``reward`` (nan while it is
    open), ``propensity`` and the same as ``pscore``, and ``at`` (seconds since 1970); with segments also ``segment``.
    ``advise`` reads this table, also from a file. ``action``, ``reward`` and ``pscore`` are named as in Open Bandit
    Pipeline (obp).
    """

    def __init__(self, columns: dict[str, NDArray[Any]], n_arms: int) -> None:
        self.columns, self.n_arms = columns, n_arms

    def __len__(self) -> int:
        return int(self.columns["round"].size)

    def __repr__(self) -> str:
        return f"TicketLog({len(self)} tickets: {', '.join(self.columns)})"

    def to_arrow(self) -> pa.Table:
        """The log as a pyarrow table."""
        import pyarrow as pa

        return pa.table(self.columns)

    def to_frame(self) -> pd.DataFrame:
        """The log as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def save(self, path: str | Path) -> None:
        """Write the table to a file, completely or not at all: as CSV, or as Parquet if the name ends in .parquet."""
        file = Path(path)
        if file.suffix not in (".csv", ".parquet"):
            raise ValueError(f"a log is saved as .csv or .parquet, got {file.name!r}.")
        if file.suffix == ".csv":
            from pyarrow.csv import write_csv as write
        else:
            from pyarrow.parquet import write_table as write
        table = self.to_arrow()
        write_atomically(file, lambda out: write(table, out))

    def feedback(self) -> dict[str, Any]:
        """The answered tickets as ``bandit_feedback``, the dictionary that Open Bandit Pipeline's estimators take."""
        done = ~np.isnan(self.columns["reward"])
        return {
            "n_rounds": int(done.sum()),
            "n_actions": self.n_arms,
            "context": np.zeros((int(done.sum()), 1)),
            "action": self.columns["action"][done],
            "position": None,
            "reward": self.columns["reward"][done],
            "pscore": self.columns["pscore"][done],
        }


class TicketMethods(Replaying):
    """The methods that give out tickets, take their rewards, correct them, and list them."""

    def ask_ticket(self, *, segment: str | None = None) -> Ticket:
        """The arm to pull now, with a ticket: its reward counts once, however often it is told.

        The program that asks and the one that tells may be two processes, and messages may be sent twice or be lost.
        ``tell`` with the ticket takes a reward in when it first comes. Rewards that never come can be replaced by
        :meth:`expire`. Open tickets are saved with the policy, and merged with it. In a policy with segments, a ticket
        is for one ``segment``, and knows it.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> ticket = policy.ask_ticket()
        >>> ticket.name, ticket.share
        ('A', 0.5)
        >>> policy.tell(ticket=ticket.id, reward=1.0); policy.tell(ticket=ticket.id, reward=1.0)
        >>> policy.estimates[0].n
        1
        """
        self._require_bound_policy()
        arriving = self._segment_positions(segment, 1)

        def take() -> Ticket:
            self._mark_answers_of_interrupted_call()
            out = np.empty(1, dtype=np.int64)
            if self._fill_with_next_arms(out, None, arriving) != OK:
                self._raise_invalid_choice()
            column, segments = int(out[0]), self._segments
            arm, at = (column, 0) if segments is None else (segments.arm_list[column], int(arriving[0]))
            share, now = propensity_of_chosen_arm(self, column), time.time()
            row = TicketRow(arm, share, self._n_pulls_in_all(), now, segment=at)
            key = self._tickets.issue_ticket(row)
            return Ticket(
                key, arm, share, self.names[arm], row.round, now, self.segments[at] if self.segments else None
            )

        return self._with_lock(take)

    def _memory_version(self) -> tuple[Any, ...]:
        """A value that changes as soon as rewards are recorded."""
        _, _, memory, roster = self._now
        return id(memory), memory.rewards, None if roster is None else roster.inactive_memory.rewards

    def _mark_answers_of_interrupted_call(self) -> None:
        """Mark the answers that were recorded before Ctrl-C interrupted the last call as answered."""
        tickets = self._tickets
        if tickets.in_progress is not None:
            if tickets.in_progress.before != self._memory_version():
                tickets.mark_answered(tickets.in_progress.answers)
            tickets.in_progress = None

    def _tell_tickets(self, ticket: Any, reward: float | ArrayLike | None) -> None:
        """Take in the rewards of tickets: all of those that are new, or none."""
        self._require_bound_policy()
        if reward is None:
            raise TypeError("tell(ticket=...) needs the reward: give reward=...")
        many = _validation.is_list(ticket) and not isinstance(ticket, Ticket)
        keys = [ticket_id(one) for one in (ticket if many else [ticket])]
        if _validation.is_list(reward) != many:
            raise ValueError("give one ticket and one reward, or two lists of the same length.")
        rewards: Any = reward if many else [reward]
        if len(keys) != len(rewards):
            raise ValueError(f"{len(keys)} tickets were told with {len(rewards)} rewards; give one reward for each.")
        if keys:
            values = self._checked_reward_list(rewards)
            self._warn_of_changes(self._with_lock(lambda: self._record_new_answers(keys, values)))

    def _ticket_column(self, row: TicketRow) -> int:
        """The column of a ticket: its arm, in its segment if there are any."""
        return row.arm if self._segments is None else int(self._segments.column_at[row.segment, row.arm])

    def _checked_reward_list(self, rewards: Any) -> list[float]:
        assert self.support is not None
        checked: list[float] = self.support.check(_validation.check_reward_array(rewards)).tolist()
        return checked

    def _record_new_answers(self, keys: list[str], values: list[float]) -> Any:
        """Take in the answers that are new, while alone with the policy."""
        self._mark_answers_of_interrupted_call()
        tickets = self._tickets
        new = tickets.new_answers(keys, values)
        if not new:
            return ()
        arms = np.array([self._ticket_column(tickets.open[key]) for key in new], dtype=np.int64)
        if self._plan.forgetting is None:
            self._memory = ensure_capacity(self._memory, self._plan, arms.size)
        tickets.in_progress = PendingAnswers(new, self._memory_version())
        new_changes = self._record_rewards(arms, np.array(list(new.values())))
        tickets.mark_answered(new)
        tickets.in_progress = None
        return new_changes

    def expire(self, *, older_than: int | timedelta, reward: float) -> tuple[str, ...]:
        """Give a default reward to all tickets that have been open for too long, and return their ids.

        Parameters
        ----------
        older_than : how long is too long: a number of rounds since the ask, or a ``datetime.timedelta``.
        reward : the reward that they get, such as 0.0 for customers who never came back. If the true reward comes
            later, it is refused like any second reward; :meth:`retell` corrects it.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> lost = policy.ask_ticket()
        >>> for _ in range(100):
        ...     policy.tell(ticket=policy.ask_ticket().id, reward=1.0)
        >>> policy.expire(older_than=50, reward=0.0) == (lost.id,)
        True
        """
        self._require_bound_policy()
        since: float | None = None
        if isinstance(older_than, timedelta):
            since = time.time() - _validation.check_within("older_than", older_than.total_seconds(), 0.0)
        elif not isinstance(older_than, (int, np.integer)) or isinstance(older_than, bool):
            raise TypeError(
                f"older_than is a number of rounds or a timedelta, got {_validation.short_repr(older_than)}."
            )
        else:
            older_than = _validation.check_whole_number("older_than", older_than, 0)
        (value,) = self._checked_reward_list([reward])

        def expire_old() -> tuple[tuple[str, ...], Any]:
            self._mark_answers_of_interrupted_call()
            before = None if isinstance(older_than, timedelta) else self._n_pulls_in_all() - int(older_than)
            keys = self._tickets.open_tickets_before(before, since)
            return tuple(keys), self._record_new_answers(keys, [value] * len(keys))

        keys, new_changes = self._with_lock(expire_old)
        self._warn_of_changes(new_changes)
        return keys

    def retell(self, arm: int | str | None = None, before: float | None = None, reward: float | None = None, *,
        ticket: Any = None, segment: str | None = None,
    ) -> None:  # fmt: skip
        """Correct a reward that was told: the new one takes its place, as if it had been told at first.

        Decisions that were made in the meantime stay. Rewards that are kept in sketches cannot be corrected, and
        neither can rewards that were forgotten.

        Parameters
        ----------
        ticket : the ticket whose reward was wrong.
        arm, before : if there is no ticket: the arm, and the wrong reward that was told.
        segment : the segment of that reward, for a policy with segments.
        reward : the right reward.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Interval(0, 1))
        >>> ticket = policy.ask_ticket()
        >>> policy.tell(ticket=ticket.id, reward=0.7)
        >>> policy.retell(ticket=ticket.id, reward=0.2)
        >>> policy.estimates[0].mean
        0.2
        """
        self._require_bound_policy()
        if reward is None or (ticket is None) == (arm is None) or (arm is None) != (before is None):
            raise TypeError(
                "retell needs a ticket and its reward, or an arm, its reward before, and the right one: "
                "retell('A', 0.0, 1.0)."
            )
        (new,) = self._checked_reward_list([reward])
        old = None if before is None else self._checked_reward_list([before])[0]
        key = None if ticket is None else ticket_id(ticket)

        def correct() -> None:
            self._mark_answers_of_interrupted_call()
            tickets = self._tickets
            if key is None:
                assert arm is not None and old is not None
                self._replace_reward(int(self._column_positions([arm], segment)[0]), old, new)
                return
            if key in tickets.open:
                raise ValueError(f"ticket {key} has no reward yet; tell it: tell(ticket={key!r}, reward={new:g}).")
            row = tickets.answered.get(key)
            if row is None or row.reward is None:
                known = tickets.was_issued(key)
                why = "its reward is not remembered any more" if known else "this policy did not give it out"
                raise ValueError(
                    f"the reward of ticket {_validation.short_repr(key)} cannot be corrected, because {why}."
                )
            if row.reward != new:
                self._replace_reward(self._ticket_column(row), row.reward, new)
                tickets.answered[key] = row._replace(reward=new)

        self._with_lock(correct)

    def _replace_reward(self, arm: int, old: float, new: float) -> None:
        """Put one reward in the place of another, in a copy of the memory that then takes its place."""
        _, _, memory, roster = self._now
        at = arm if roster is None else roster.place[arm]
        part = (memory if at >= 0 or roster is None else roster.inactive_memory).copy()
        place = at if at >= 0 else -1 - at
        replace_reward_in_memory(part, place, old, new)
        for field in part.fields:
            if "cleared" in field.lifecycle:  # the distribution may have moved by any amount
                part.field(field.name)[...] = 0
        recompute_derived_fields(part)
        part.dirty = 1
        if at >= 0:
            part.lock_token = memory.lock_token  # it is still at work
            self._memory = part
        else:
            assert roster is not None
            self._now = self._kernel_args(memory, replace(roster, inactive_memory=part))

    def log(self, *, waiting: bool = False, drain: bool = False) -> TicketLog:
        """The tickets so far, with their rewards and propensities, as a table for other tools.

        A policy remembers the last 100,000 answered tickets. To keep all of them, save the log to files now and then,
        with ``drain=True``.

        Parameters
        ----------
        waiting : whether tickets without a reward are in the table, too. By default they are not.
        drain : whether to forget the answered tickets that are in this table. Their rewards still count once. But a
            second, different reward is then not noticed, and cannot be corrected.

        Examples
        --------
        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> for _ in range(3):
        ...     ticket = policy.ask_ticket()
        ...     policy.tell(ticket=ticket.id, reward=1.0)
        >>> table = policy.log()
        >>> table.columns["arm"].tolist(), table.columns["propensity"].tolist()
        (['A', 'B', 'A'], [0.5, 0.5, 0.5])
        """
        self._require_bound_policy()

        def take() -> TicketLog:
            self._mark_answers_of_interrupted_call()
            tickets = self._tickets
            rows = [(key, row) for key, row in tickets.rows_by_round() if waiting or row.reward is not None]
            shares = np.array([row.share for _, row in rows], dtype=np.float64)
            columns = {
                "round": np.array([row.round for _, row in rows], dtype=np.int64),
                "ticket": np.array([key for key, _ in rows], dtype=object),
                "arm": np.array([self.names[row.arm] for _, row in rows], dtype=object),
                "action": np.array([row.arm for _, row in rows], dtype=np.int64),
                "reward": np.array([np.nan if row.reward is None else row.reward for _, row in rows], dtype=np.float64),
                "propensity": shares,
                "pscore": shares.copy(),
                "at": np.array([row.at for _, row in rows], dtype=np.float64),
            }
            if self.segments:
                columns["segment"] = np.array([self.segments[row.segment] for _, row in rows], dtype=object)
            if drain:
                tickets.answered = {}
            return TicketLog(columns, len(self.names))

        return self._with_lock(take)


def propensity_of_chosen_arm(policy: TicketMethods, arm: int) -> float:
    """The propensity of the arm that was just chosen; see :class:`Ticket`."""
    return PropensityReader()(policy, arm)


class PropensityReader:
    """Reads the propensities of arms that were just chosen, of one policy again and again.

    It keeps the views of the policy's memory, which take longer to make than to read.
    """

    def __init__(self) -> None:
        self._memory: Memory | None = None
        self._mix: NDArray[np.float64]
        self._pulls: NDArray[np.int64]

    def __call__(self, policy: TicketMethods, arm: int) -> float:
        """The propensity of the arm that was just chosen; see :class:`Ticket`."""
        _, _, memory, roster = policy._now
        if memory is not self._memory:
            self._memory, self._mix, self._pulls = memory, memory.mix, memory.pulls
        at = arm if roster is None else roster.place[arm]
        if at < 0:
            assert roster is not None
            t = policy._n_rounds_of(policy._segment_of(arm)) - roster.joined_at[arm]
            return float(roster.inactive_memory.pulls[-1 - at] / max(t, 1))
        mix, t = self._mix, memory.t
        if policy._segments is not None:  # the share within the segment
            mine = memory.segment_of == memory.segment_of[at]
            mix, t = mix / max(float(mix[mine].sum()), 1e-300), int(self._pulls[mine].sum())
        return float(mix[at] if mix[at] > 0.0 else self._pulls[at] / max(t, 1))


def rounds_since_arms_changed_and_mixture(policy: TicketMethods) -> tuple[int, NDArray[np.float64]]:
    """The rounds since an arm came or went last, and the mixture that was played last, over all arms that ever were."""
    _, _, memory, roster = policy._now
    if roster is None:
        return policy._n_pulls_in_all(), memory.mix.copy()
    mixture = np.zeros(len(roster.states))
    mixture[list(roster.active_arms)] = memory.mix
    return policy._n_pulls_in_all() - max([roster.clock_start, *roster.joined_at.values()]), mixture


def ask_with_propensities(
    policy: TicketMethods, n: int, among: Iterable[int] | None, read: PropensityReader, segment: str | None = None
) -> list[tuple[int, float]]:
    """The next arms, each with the propensity that it had when it was chosen, as in single asks.

    With segments, all of them are for people of one ``segment``, and propensities are shares within it.
    """
    if among is None and n == 1 and segment is None:
        arm = policy.ask()
        return [(arm, read(policy, arm))]
    unavailable = None if among is None else policy._unavailable_mask(among)
    arriving = policy._segment_positions(segment, n)
    arm_of = range(policy.n_arms) if policy._segments is None else policy._segments.arm_list

    def take() -> list[tuple[int, float]]:
        policy._activate_arms_with_first_reward()
        roster = policy._roster
        barred = policy._columns_barred(unavailable, arriving)
        if roster is None or roster.next_waiting_arm_to_try(barred) is None:
            arms, shares = np.empty(n, dtype=np.int64), np.empty(n)
            if policy._fill_with_next_active_arms(arms, unavailable, arriving, shares) != OK:
                policy._raise_invalid_choice()
            return [(arm_of[arm], share) for arm, share in zip(arms.tolist(), shares.tolist(), strict=True)]
        out, found = np.empty(1, dtype=np.int64), []
        for _ in range(n):
            if policy._fill_with_next_arms(out, unavailable, arriving[:1]) != OK:
                policy._raise_invalid_choice()
            arm = int(out[0])
            found.append((arm_of[arm], read(policy, arm)))
        return found

    return policy._with_lock(take)
