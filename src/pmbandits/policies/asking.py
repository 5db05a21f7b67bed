"""Asking for arms, telling rewards, and recording what was asked and told elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import arm_index
from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGED, NEEDS_ROOM, OK
from pmbandits.policies import lineup
from pmbandits.policies._steps import (
    WRONG,
    ask_one,
    choose_among,
    choose_many,
    count_pull,
    follow,
    tell_both,
    tell_many,
    tell_one,
    wrong_choice,
)
from pmbandits.policies.build import roomier, settled
from pmbandits.policies.forgetting import alarms
from pmbandits.policies.holding import Holding
from pmbandits.policies.watching import found, n_found, warn_of
from pmbandits.state.guard import BUSY
from pmbandits.state.layout import MOST
from pmbandits.state.memory import Memory
from pmbandits.supports import Support

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy

_ask, _tell = ask_one, tell_one


class Asking(Holding):
    """The methods ``ask`` and ``tell``, which all policies share."""

    support: Support | None

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
            found = self._ask_many(1 if n is None else _check.whole("n", n, 1), self._barred(among))
            return int(found[0]) if n is None else found
        if n is None:
            try:
                where, address, _held, bench = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            arm: int = BUSY if bench is not None and bench.waiting else _ask(where, address)
            if arm == WRONG:
                self._wrong_choice()
            if arm == BUSY:
                return int(self._ask_many(1)[0])
            return arm if bench is None else bench.seated[arm]
        return self._ask_many(_check.whole("n", n, 1))

    def _ask_many(self, n: int, barred: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The next arms, with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        out = np.empty(n, dtype=np.int64)
        if self._alone(lambda: self._fill(out, barred)) == WRONG:
            self._wrong_choice()
        return out

    def _fill(self, out: NDArray[np.int64], barred: NDArray[np.int64] | None = None) -> int:
        """Ask for as many arms as ``out`` has room for, while alone with the policy; answers OK or WRONG."""
        lineup.welcome(self)
        bench = self._bench
        new = None if bench is None else bench.next_due(barred)
        if bench is None or new is None:
            return self._choose_seated(out, barred)
        t, alone = lineup.rounds(self), barred is not None and bool(barred[list(bench.seated)].all())
        if out.size == 1:  # one kernel
            arm, due = new
            if due > t and not alone:
                return self._choose_seated(out, barred)
            count_pull(bench.shelf.address, -1 - bench.place[arm])
            out[0] = arm
            return OK
        twin, at = self._replica(), 0  # several kernels: on a copy that then takes the place of the policy
        while at < out.size:
            assert twin._bench is not None
            _, due = twin._bench.next_due(barred) or (0, t)
            more = 1 if due <= t or alone else min(due - t, out.size - at)
            part = out[at : at + more]
            code = twin._fill(part, barred) if more == 1 else twin._choose_seated(part, barred)
            if code != OK:
                return code
            at, t = at + more, t + more
        lineup.become(self, twin)
        return OK

    def _choose_seated(self, out: NDArray[np.int64], barred: NDArray[np.int64] | None) -> int:
        """Ask for as many arms as ``out`` has room for, of those that are in the memory."""
        where, address, _, bench = self._now
        if barred is None:
            code = int(choose_many(where, address, out))
        else:
            inside = barred if bench is None else barred[list(bench.seated)]
            if inside.all():
                known = [_check.readable(name) for name in lineup.playing(cast("Policy", self))[:20]]
                raise ValueError(f"none of the arms in among plays now; name one that does: {', '.join(known)}.")
            code = int(choose_among(where, address, inside, out))
        if bench is not None and code == OK:
            out[:] = np.array(bench.seated)[out]
        return code

    def _barred(self, among: Any) -> NDArray[np.int64]:
        """1 for every arm that is not among these."""
        self._must_be_bound()
        if isinstance(among, (str, bytes)) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a list of arms, such as ['A', 'C'], got {_check.short(among)}.")
        places = self._places(list(among))
        if not places.size:
            raise ValueError("among is empty; name at least one arm that is available.")
        out = np.ones(len(self.names), dtype=np.int64)
        out[places] = 0
        return out

    def _wrong_choice(self) -> NoReturn:
        raise wrong_choice(type(self).__name__, self._memory.n_arms)

    def tell(
        self, arm: int | str | ArrayLike | None = None, reward: float | ArrayLike | None = None, *, ticket: Any = None
    ) -> None:
        """Tell the reward of an arm, or arrays of arms and rewards.

        Rewards may come in any order, late, or for pulls that were not asked for.

        Or tell the reward of a ticket (:meth:`ask_ticket`), or lists of tickets and rewards. The reward of a ticket
        counts once, however often it is told. A second reward that differs from the first is refused.

        Rewards beyond what was asked for (older data, for example) inform the estimates, but are not counted as pulls.
        Rewards of arms that are paused or retired are taken in, too. If anything is wrong with the input, none of it is
        taken in.

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
                self._tell_ticket(arm, reward, ticket)
                return
            if isinstance(arm, np.integer):
                arm = int(arm)
            if isinstance(reward, (float, np.floating, np.bool_)):
                reward = float(reward)
            elif isinstance(reward, (int, np.integer)) and not isinstance(reward, np.timedelta64):
                reward = float(reward) if -MOST < reward < MOST else reward
        if type(arm) is int and type(reward) is float and -MOST < arm < MOST:  # no arm has a larger number
            try:
                _, address, _held, bench = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            place = arm if bench is None else bench.place[arm] if 0 <= arm < len(bench.place) else -1
            code = _tell(address, place, reward)
            if code == CHANGED:
                self._deal_with_change()
            elif code != OK:
                self._tell_carefully([arm], [reward])
            return
        one = not _check.is_list(reward)
        arms: Any = [arm] if one else arm
        rewards: Any = [reward] if one else reward
        if not one and not _check.is_list(arms):
            arms = [arms] * len(rewards)  # several rewards of one arm
        self._tell_carefully(arms, rewards)

    def _tell_ticket(self, arm: Any, reward: Any, ticket: Any) -> None:
        """What ``tell`` does if it is not given both an arm and a reward."""
        from pmbandits.policies.ticketing import tell_tickets

        if ticket is None and arm is not None:
            raise TypeError(f"rewards must be numbers, got {_check.short(reward)}.")
        if ticket is None:
            raise TypeError("tell needs an arm and its reward, or ticket=... and reward=...")
        if arm is not None:
            raise TypeError("a ticket knows its arm: give tell(ticket=..., reward=...) without an arm.")
        tell_tickets(cast("Policy", self), ticket, reward)

    def _tell_carefully(self, arms: Any, rewards: Any) -> None:
        """Check everything, make room, and take all in with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        assert self.support is not None
        where = self._places(arms)
        if where.size != len(rewards):
            raise ValueError(f"{where.size} arms were told with {len(rewards)} rewards; give one reward for each arm.")
        if not where.size:
            return
        values = self.support.check(numbers(rewards))
        self._warn_of(self._alone(lambda: self._take_in(where, values)))

    def _take_in(self, where: NDArray[np.int64], values: FloatArray) -> tuple[Change, ...]:
        """Take in rewards that were checked, while alone with the policy; the changes that they showed."""
        plan, at = self._plan, 0
        if plan.forgetting is not None:  # then all arms play
            memory = self._memory.copy()  # rewards may be forgotten: with the new ones, or not at all
            while at < where.size:
                memory = roomier(memory, plan, where.size - at)
                at += tell_many(memory.address, where[at:], values[at:])
            return self._put_in_place(memory, n_found(self._memory))
        self._memory = roomier(self._memory, plan, where.size)
        _, address, memory, bench = self._now
        if bench is None:
            at = tell_many(address, where, values)
        else:
            places = np.array(bench.place)[where]
            if places.min() < 0:
                bench = replace(bench, shelf=roomier(bench.shelf, plan, where.size))
                self._now = self._moment(memory, bench)
            at = tell_both(address, bench.shelf.address, places, values)
            lineup.welcome(self)
        assert at == where.size, at
        return ()

    def _deal_with_change(self) -> None:
        """An arm has changed, and the reward that shows it was taken in."""

        def take_in() -> tuple[Change, ...]:
            if not alarms(self._memory).size:  # another thread has dealt with it
                return ()
            return self._put_in_place(self._memory.copy(), n_found(self._memory) - 1)

        self._warn_of(self._alone(take_in))

    def _put_in_place(self, memory: Memory, known: int) -> tuple[Change, ...]:
        """Deal with changes in a copy of the memory, and put it in the memory's place; returns those not yet known."""
        settled(memory, self._plan)
        news = found(memory, self.names, known)
        memory.busy = self._memory.busy  # it is still at work
        self._memory = memory
        return news

    def _warn_of(self, news: tuple[Change, ...]) -> None:
        if news and self._plan.forgetting is not None and self._plan.forgetting.watches == "warn":
            warn_of(news)

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
        arms: Any = arm if _check.is_list(arm) else [arm]
        places = self._places(arms)
        if places.size == 0:
            return
        values, twin = np.full(places.size, np.nan), places.size > 1 and self._bench is not None

        def take_in() -> None:
            if twin:
                self._follow(places, values, False)
            else:
                self._follow_here(places, values, False)

        self._alone(take_in)

    def replay(self, arms: ArrayLike, rewards: ArrayLike, *, check: bool = False) -> int | None:
        """Take in stored events, that is asks and tells in the order in which they came. A million take seconds.

        Afterwards the policy is as if each event had been an :meth:`asked` or a :meth:`tell`. If anything is wrong,
        none of the events is taken in.

        Parameters
        ----------
        arms : the arm of each event, as positions or names.
        rewards : the reward of each event that is a tell; nan (or None) for each event that is an ask.
        check : whether to check that :meth:`ask` would have given the stored arms. If it would have given another one,
            nothing is taken in, and the position of the first such event is returned. Otherwise ``None`` is returned.

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
        self._must_be_bound()
        assert self.support is not None
        places = self._places(arms)
        values = np.array(rewards, dtype=np.float64)
        if values.shape != places.shape:
            raise ValueError(f"{places.size} arms were given with {values.size} rewards; give one for each event.")
        told = ~np.isnan(values)
        if told.any():
            values[told] = self.support.check(values[told])
        differs, news = self._alone(lambda: self._follow(places, values, check))
        self._warn_of(news)
        return differs

    def _follow(
        self, places: NDArray[np.int64], values: FloatArray, check: bool
    ) -> tuple[int | None, tuple[Change, ...]]:
        """Take in asks (nan) and tells on a copy, which takes the place of the policy if it took in all of them."""
        twin, known = self._replica(), n_found(self._memory)
        differs = twin._follow_here(places, values, check)
        if differs is not None:
            return differs, ()
        lineup.become(self, twin)
        return None, found(self._memory, self.names, known)

    def _follow_here(self, arms: NDArray[np.int64], values: FloatArray, check: bool) -> int | None:
        """Take in asks (nan) and tells, while alone; the position of the first that differs, or ``None``."""
        at, n, seen = 0, arms.size, None
        code = np.zeros(1, dtype=np.int64)
        while at < n:
            plan, bench = self._plan, self._bench
            if at == 0 or (bench is not None and bench.place != seen):  # somebody came
                seen = None if bench is None else bench.place
                places = arms if bench is None else np.array(seen)[arms]
                beside = np.append(np.flatnonzero(places < 0), n)
            end = int(beside[np.searchsorted(beside, at)])
            if check and bench is not None and bench.waiting:  # the next arm may be one that waits
                end = at
            if end > at:
                told = int((~np.isnan(values[at:end])).sum())
                if told and plan.forgetting is None:
                    self._memory = roomier(self._memory, plan, told)
                while True:
                    at += int(follow(*self._now[:2], places[at:end], values[at:end], check, code))
                    if code[0] == CHANGED:
                        settled(self._memory, plan)
                    elif code[0] == NEEDS_ROOM:
                        self._memory = roomier(self._memory, plan)
                    else:
                        break
                    code[0] = OK
                if code[0] == WRONG:
                    self._wrong_choice()
                assert code[0] == OK, code
                if at < end:
                    return at
                continue
            if not np.isnan(values[at]):
                self._take_in(arms[at : at + 1], values[at : at + 1])
            elif check:
                mine = np.empty(1, dtype=np.int64)
                if self._fill(mine) == WRONG:
                    self._wrong_choice()
                if mine[0] != arms[at]:
                    return at
            else:
                assert bench is not None
                count_pull(bench.shelf.address, -1 - int(places[at]))
            at += 1
        return None

    def _places(self, arms: Any) -> NDArray[np.int64]:
        """The positions of arms that are given by position or name; an error names the first that does not exist."""
        self._must_be_bound()
        given = arms if isinstance(arms, np.ndarray) else np.asarray(arms, dtype=object)
        if given.ndim == 1 and given.dtype.kind in "iu" and given.size:
            where = given.astype(np.int64)
            if where.min() >= 0 and where.max() < len(self.names):
                return where
        table = {name: place for place, name in enumerate(self.names)}
        out = [table[arm] if type(arm) is str and arm in table else arm_index(_plain(arm), self.names) for arm in arms]
        return np.array(out, dtype=np.int64)


def _plain(arm: Any) -> Any:
    return arm.item() if isinstance(arm, np.generic) else arm


def numbers(rewards: Any) -> FloatArray:
    if isinstance(rewards, np.ndarray):
        return _check.numbers("rewards", rewards)
    rewards = [r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for r in rewards]
    for reward in rewards:
        if not (_check.is_number(reward) or isinstance(reward, (bool, np.bool_)) or np.ndim(reward)):
            raise TypeError(f"rewards must be numbers, got {_check.short(reward)}.")
    return _check.numbers("rewards", [float(r) if isinstance(r, (bool, np.bool_)) else r for r in rewards])
