"""Asking for arms, telling rewards, and recording what was asked and told elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import arm_index
from pmbandits.estimates import Change
from pmbandits.estimates._rewards import CHANGED, NEEDS_ROOM, OK
from pmbandits.policies._steps import (
    WRONG,
    ask_one,
    choose_among,
    choose_many,
    follow,
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

_ask, _tell = ask_one, tell_one


class Asking(Holding):
    """What all policies share: ask and tell."""

    names: tuple[str, ...]
    support: Support | None

    @overload
    def ask(self, *, among: Iterable[int | str] | None = None) -> int: ...
    @overload
    def ask(self, n: int, *, among: Iterable[int | str] | None = None) -> NDArray[np.int64]: ...
    def ask(self, n: int | None = None, *, among: Iterable[int | str] | None = None) -> int | NDArray[np.int64]:
        """The arm to pull now (its position), or the next ``n`` arms.

        An ask counts as a pull at once, so nothing waits for rewards that are late or never come.

        Parameters
        ----------
        n : how many arms; without it, one.
        among : only these arms (names or positions) are available in this call; the others are paid back later, because
            they fall behind their shares. This comes before limits on shares, which are kept as far as these arms
            allow.

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
                where, address, _held = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            arm: int = _ask(where, address)
            if arm == WRONG:
                self._wrong_choice()
            return arm if arm != BUSY else int(self._ask_many(1)[0])
        return self._ask_many(_check.whole("n", n, 1))

    def _ask_many(self, n: int, barred: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The next arms, with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        out = np.empty(n, dtype=np.int64)

        def choose() -> int:
            if barred is None:
                return int(choose_many(*self._now[:2], out))
            return int(choose_among(*self._now[:2], barred, out))

        if self._alone(choose) == WRONG:
            self._wrong_choice()
        return out

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
        raise wrong_choice(type(self).__name__, len(self.names))

    def tell(self, arm: int | str | ArrayLike, reward: float | ArrayLike) -> None:
        """The reward of an arm, or arrays of arms and rewards; in any order, late, or not asked for.

        Rewards beyond what was asked (history, a warm start) inform the estimates but are not counted as pulls.
        If anything is wrong with the input nothing is taken in.
        """
        if not (type(arm) is int and type(reward) is float):  # rarely; the rest is quick
            if isinstance(arm, np.integer):
                arm = int(arm)
            if isinstance(reward, (float, np.floating, np.bool_)):
                reward = float(reward)
            elif isinstance(reward, (int, np.integer)) and not isinstance(reward, np.timedelta64):
                reward = float(reward) if -MOST < reward < MOST else reward
        if type(arm) is int and type(reward) is float and -MOST < arm < MOST:  # beyond there is no arm
            try:
                _, address, _held = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            code = _tell(address, arm, reward)
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

    def _tell_carefully(self, arms: Any, rewards: Any) -> None:
        """Check everything, make room, and take all in with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        assert self.support is not None
        where = self._places(arms)
        if where.size != len(rewards):
            raise ValueError(f"{where.size} arms were told with {len(rewards)} rewards; give one reward for each arm.")
        if not where.size:
            return
        values = self.support.check(_numbers(rewards))

        def take_in() -> tuple[Change, ...]:
            memory, plan, at = self._memory, self._plan, 0
            if plan.forgetting is None:
                self._memory = roomier(memory, plan, where.size)
                at = tell_many(self._now[1], where, values)
                assert at == where.size, at
                return ()
            memory = self._memory.copy()  # rewards may be forgotten: with the new ones, or not at all
            while at < where.size:
                memory = roomier(memory, plan, where.size - at)
                at += tell_many(memory.address, where[at:], values[at:])
            return self._put_in_place(memory, n_found(self._memory))

        self._warn_of(self._alone(take_in))

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
        """Record a pull that somebody else chose (or pulls, in this order), as if :meth:`ask` had answered it.

        For a second server that shares the experiment, for a policy that only watches, and for stored events. The
        policy does all that an ask does: it looks at its rewards if it is time to, and draws its random numbers. Only
        the pull is counted for the arm that is given. So where ``ask`` would have given the same arm, the policy is
        afterwards as if it had been asked, to the last bit; else it goes on from there.

        >>> import pmbandits as pmb
        >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
        >>> policy.asked("B"); policy.asked([1, 0])
        >>> policy.pulls.tolist(), policy.pending.tolist()
        ([1, 2], [1, 2])
        """
        arms: Any = arm if _check.is_list(arm) else [arm]
        places = self._places(arms)
        self._follow(places, np.full(places.size, np.nan), False)

    def replay(self, arms: ArrayLike, rewards: ArrayLike, *, check: bool = False) -> int | None:
        """Take in events that were stored: asks and tells, in the order in which they came; a million take seconds.

        Afterwards the policy is as if each event had been an :meth:`asked` or a :meth:`tell`. All of them are taken
        in, or none, if anything is wrong.

        Parameters
        ----------
        arms : the arm of each event, as positions or names.
        rewards : its reward if it was told; nan (or None) if it was asked for.
        check : whether to see that :meth:`ask` would have given the stored arms. At the first one that it would not
            have given, nothing is taken in, and the position of that event is returned. Otherwise ``None`` is.

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
        return self._follow(places, values, check)

    def _follow(self, places: NDArray[np.int64], values: FloatArray, check: bool) -> int | None:
        """Take in asks (nan) and tells with one call of compiled code, on a copy that then takes the memory's place."""
        self._must_be_bound()

        def take_in() -> tuple[int, int, tuple[Change, ...]]:
            memory, plan = self._memory.copy(), self._plan
            news: tuple[Change, ...] = ()
            code, at = np.zeros(1, dtype=np.int64), 0
            if plan.forgetting is None:
                memory = roomier(memory, plan, int((~np.isnan(values)).sum()))
            while True:
                at += int(follow(self._now[0], memory.address, places[at:], values[at:], check, code))
                if code[0] == CHANGED:
                    settled(memory, plan)
                elif code[0] == NEEDS_ROOM:
                    memory = roomier(memory, plan)
                else:
                    break
                code[0] = OK
            if at == places.size:
                news = self._put_in_place(memory, n_found(self._memory))
            return at, int(code[0]), news

        at, code, news = self._alone(take_in)
        if code == WRONG:
            self._wrong_choice()
        assert code == OK, code
        self._warn_of(news)
        return None if at == places.size else at

    def _places(self, arms: Any) -> NDArray[np.int64]:
        """Positions of arms that are given by position or name; an error for the first that there is not."""
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


def _numbers(rewards: Any) -> FloatArray:
    if isinstance(rewards, np.ndarray):
        return _check.numbers("rewards", rewards)
    rewards = [r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for r in rewards]
    for reward in rewards:
        if not (_check.is_number(reward) or isinstance(reward, (bool, np.bool_)) or np.ndim(reward)):
            raise TypeError(f"rewards must be numbers, got {_check.short(reward)}.")
    return _check.numbers("rewards", [float(r) if isinstance(r, (bool, np.bool_)) else r for r in rewards])
