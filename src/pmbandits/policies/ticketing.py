"""Asking for tickets, answering them, correcting answers, and the table of all of them."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _check
from pmbandits._files import write_whole
from pmbandits.arms import arm_index
from pmbandits.estimates._rewards import OK, SAMPLES
from pmbandits.policies import lineup
from pmbandits.policies.build import recall, roomier
from pmbandits.policies.tickets import Doing, Row, Ticket, Tickets, key_of
from pmbandits.state.layout import FIELDS
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pmbandits.policies.policy import Policy


def ask_ticket(policy: Policy) -> Ticket:
    """The arm to pull now, with a ticket: its reward counts once, however often it is told.

    The program that asks and the one that tells may be two processes, and messages may be sent twice or be lost.
    ``tell`` with the ticket takes a reward in when it first comes. Rewards that never come can be replaced by
    :meth:`expire`. Open tickets are saved with the policy, and merged with it.

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
    policy._must_be_bound()

    def take() -> Ticket:
        _finish(policy)
        out = np.empty(1, dtype=np.int64)
        if policy._fill(out) != OK:
            policy._wrong_choice()
        arm = int(out[0])
        row = Row(arm, propensity(policy, arm), lineup.rounds(policy), time.time())
        key = _tickets(policy).issue(row)
        return Ticket(key, arm, row.share, policy.names[arm], row.round, row.at)

    return policy._alone(take)


def propensity(policy: Policy, arm: int) -> float:
    """The share with which an arm was just asked for; see :class:`Ticket`."""
    _, _, memory, bench = policy._now
    at = arm if bench is None else bench.place[arm]
    if at >= 0 and memory.mix[at] > 0.0:
        return float(memory.mix[at])
    if at >= 0:
        return float(memory.pulls[at] / max(memory.asked, 1))
    assert bench is not None
    return float(bench.shelf.pulls[-1 - at] / max(lineup.rounds(policy) - bench.came[arm], 1))


def _tickets(policy: Policy) -> Tickets:
    if policy._tickets is None:
        policy._tickets = Tickets()
    return policy._tickets


def _state(policy: Policy) -> tuple[Any, ...]:
    """An object that is replaced as soon as rewards were taken in."""
    _, _, memory, bench = policy._now
    return id(memory), memory.rewards, None if bench is None else bench.shelf.rewards


def _finish(policy: Policy) -> None:
    """If Ctrl-C came while answers were taken in, note those that were."""
    tickets = _tickets(policy)
    if tickets.doing is not None:
        if tickets.doing.before != _state(policy):
            tickets.answer(tickets.doing.answers)
        tickets.doing = None


def tell_tickets(policy: Policy, ticket: Any, reward: float | ArrayLike | None) -> None:
    """Take in the rewards of tickets: all of those that are new, or none."""
    policy._must_be_bound()
    if reward is None:
        raise TypeError("tell(ticket=...) needs the reward: give reward=...")
    many = _check.is_list(ticket) and not isinstance(ticket, Ticket)
    keys = [key_of(one) for one in (ticket if many else [ticket])]
    if _check.is_list(reward) != many:
        raise ValueError("give one ticket and one reward, or two lists of the same length.")
    rewards: Any = reward if many else [reward]
    if len(keys) != len(rewards):
        raise ValueError(f"{len(keys)} tickets were told with {len(rewards)} rewards; give one reward for each.")
    if keys:
        values = _checked(policy, rewards)
        policy._warn_of(policy._alone(lambda: _answer(policy, keys, values)))


def _checked(policy: Policy, rewards: Any) -> list[float]:
    from pmbandits.policies.asking import numbers

    assert policy.support is not None
    checked: list[float] = policy.support.check(numbers(rewards)).tolist()
    return checked


def _answer(policy: Policy, keys: list[str], values: list[float]) -> Any:
    """Take in the answers that are new, while alone with the policy."""
    _finish(policy)
    tickets = _tickets(policy)
    new = tickets.unanswered(keys, values)
    if not new:
        return ()
    arms = np.array([tickets.open[key].arm for key in new], dtype=np.int64)
    if policy._plan.forgetting is None:
        policy._memory = roomier(policy._memory, policy._plan, arms.size)
    tickets.doing = Doing(new, _state(policy))
    news = policy._take_in(arms, np.array(list(new.values())))
    tickets.answer(new)
    tickets.doing = None
    return news


def expire(policy: Policy, *, older_than: int | timedelta, reward: float) -> tuple[str, ...]:
    """Give a default reward to all tickets that have been open for too long, and return their ids.

    Parameters
    ----------
    older_than : how long is too long: a number of rounds since the ask, or a ``datetime.timedelta``.
    reward : the reward that they get, such as 0.0 for customers who never came back. If the true reward comes later, it
        is refused like any second reward; :meth:`retell` corrects it.

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
    policy._must_be_bound()
    since: float | None = None
    if isinstance(older_than, timedelta):
        since = time.time() - _check.within("older_than", older_than.total_seconds(), 0.0)
    elif not isinstance(older_than, (int, np.integer)) or isinstance(older_than, bool):
        raise TypeError(f"older_than is a number of rounds or a timedelta, got {_check.short(older_than)}.")
    else:
        older_than = _check.whole("older_than", older_than, 0)
    (value,) = _checked(policy, [reward])

    def give_up() -> tuple[tuple[str, ...], Any]:
        _finish(policy)
        before = None if isinstance(older_than, timedelta) else lineup.rounds(policy) - int(older_than)
        keys = _tickets(policy).older(before, since)
        return tuple(keys), _answer(policy, keys, [value] * len(keys))

    keys, news = policy._alone(give_up)
    policy._warn_of(news)
    return keys


def retell(
    policy: Policy, arm: int | str | None = None, before: float | None = None, reward: float | None = None, *,
    ticket: Any = None,
) -> None:  # fmt: skip
    """Correct a reward that was told: the new one takes its place, as if it had been told at first.

    Decisions that were made in the meantime stay. Rewards that are kept in sketches cannot be corrected, and neither
    can rewards that were forgotten.

    Parameters
    ----------
    ticket : the ticket whose reward was wrong.
    arm, before : if there is no ticket: the arm, and the wrong reward that was told.
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
    policy._must_be_bound()
    if reward is None or (ticket is None) == (arm is None) or (arm is None) != (before is None):
        raise TypeError(
            "retell needs a ticket and its reward, or an arm, its reward before, and the right one: "
            "retell('A', 0.0, 1.0)."
        )
    (new,) = _checked(policy, [reward])
    old = None if before is None else _checked(policy, [before])[0]
    key = None if ticket is None else key_of(ticket)

    def correct() -> None:
        _finish(policy)
        tickets = _tickets(policy)
        if key is None:
            assert arm is not None and old is not None
            _replace(policy, arm_index(arm, policy.names), old, new)
            return
        if key in tickets.open:
            raise ValueError(f"ticket {key} has no reward yet; tell it: tell(ticket={key!r}, reward={new:g}).")
        row = tickets.answered.get(key)
        if row is None or row.reward is None:
            why = "its reward is not remembered any more" if tickets.known(key) else "this policy did not give it out"
            raise ValueError(f"the reward of ticket {_check.short(key)} cannot be corrected, because {why}.")
        if row.reward != new:
            _replace(policy, row.arm, row.reward, new)
            tickets.answered[key] = row._replace(reward=new)

    policy._alone(correct)


def _replace(policy: Policy, arm: int, old: float, new: float) -> None:
    """Put one reward in the place of another, in a copy of the memory that then takes its place."""
    _, _, memory, bench = policy._now
    at = arm if bench is None else bench.place[arm]
    part = (memory if at >= 0 or bench is None else bench.shelf).copy()
    place = at if at >= 0 else -1 - at
    _exchange(part, place, old, new)
    for field in FIELDS:
        if "cleared" in field.becomes:  # the law may have moved by any amount
            part.field(field.name)[...] = 0
    recall(part)
    part.dirty = 1
    if at >= 0:
        part.busy = memory.busy  # it is still at work
        policy._memory = part
    else:
        assert bench is not None
        policy._now = policy._moment(memory, replace(bench, shelf=part))


def _exchange(memory: Memory, arm: int, old: float, new: float) -> None:
    if memory.sketch_size > 0:
        raise ValueError("rewards that are kept in sketches cannot be corrected; take estimates='exact' or 'binned'.")
    gone = ValueError(f"the reward {old:g} of this arm is not there to be corrected; it was forgotten, or never told.")
    if memory.mode == SAMPLES:
        found = np.flatnonzero((memory.x[: memory.rewards] == old) & (memory.owner[: memory.rewards] == arm))
        if not found.size:
            raise gone
        memory.x[found[0]], memory.ordered = new, 0
    else:
        a, b = (int(np.abs(memory.points - value).argmin()) for value in (old, new))
        if memory.counts[arm, a] == 0:
            raise gone
        memory.counts[arm, a] -= 1
        memory.counts[arm, b] += 1
        old, new = float(memory.points[a]), float(memory.points[b])
    memory.sums[arm] += new - old
    if memory.n_recent:  # the newest of equal rewards is taken, so the pool must have them in the order of the window
        n = memory.rewards
        same = np.flatnonzero((memory.recent[:n] == old) & (memory.recent_arm[:n] == arm))
        memory.recent[same[-1]] = new
        if memory.mode == SAMPLES:
            memory.x[:n], memory.owner[:n] = memory.recent[:n], memory.recent_arm[:n]


class TicketLog:
    """The tickets of a policy as a table, one row for each, by round: the result of :meth:`Policy.log`.

    The columns are ``round``, ``ticket``, ``arm`` (the name), ``action`` (its position), ``reward`` (nan while it is
    open), ``propensity`` and the same as ``pscore``, and ``at`` (seconds since 1970). ``advise`` reads this table, also
    from a file. ``action``, ``reward`` and ``pscore`` are named as in Open Bandit Pipeline (obp).
    """

    def __init__(self, columns: dict[str, NDArray[Any]], n_arms: int) -> None:
        self.columns, self.n_arms = columns, n_arms

    def __len__(self) -> int:
        return int(self.columns["round"].size)

    def __repr__(self) -> str:
        return f"TicketLog({len(self)} tickets: {', '.join(self.columns)})"

    def to_arrow(self) -> pa.Table:
        """The same as a pyarrow table."""
        import pyarrow as pa

        return pa.table(self.columns)

    def to_frame(self) -> pd.DataFrame:
        """The same as a pandas data frame."""
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
        write_whole(file, lambda out: write(table, out))

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


def log(policy: Policy, *, waiting: bool = False, drain: bool = False) -> TicketLog:
    """The tickets so far, with their rewards and propensities, as a table for other tools.

    A policy remembers the last 100,000 answered tickets. To keep all of them, save the log to files now and then, with
    ``drain=True``.

    Parameters
    ----------
    waiting : whether tickets without a reward are in the table, too. By default they are not.
    drain : whether to forget the answered tickets that are in this table. Their rewards still count once. But a second,
        different reward is then not noticed, and cannot be corrected.

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
    policy._must_be_bound()

    def take() -> TicketLog:
        _finish(policy)
        tickets = _tickets(policy)
        rows = [(key, row) for key, row in tickets.rows() if waiting or row.reward is not None]
        shares = np.array([row.share for _, row in rows], dtype=np.float64)
        columns = {
            "round": np.array([row.round for _, row in rows], dtype=np.int64),
            "ticket": np.array([key for key, _ in rows], dtype=object),
            "arm": np.array([policy.names[row.arm] for _, row in rows], dtype=object),
            "action": np.array([row.arm for _, row in rows], dtype=np.int64),
            "reward": np.array([np.nan if row.reward is None else row.reward for _, row in rows], dtype=np.float64),
            "propensity": shares,
            "pscore": shares.copy(),
            "at": np.array([row.at for _, row in rows], dtype=np.float64),
        }
        if drain:
            tickets.answered = {}
        return TicketLog(columns, len(policy.names))

    return policy._alone(take)
