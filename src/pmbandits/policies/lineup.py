"""Arms that come and go, and limits that change: add_arm, pause, resume, retire and limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits.arms import arm_index, arm_names
from pmbandits.limits import Shares
from pmbandits.policies import limited
from pmbandits.policies.bench import PAUSED, PLAYS, RETIRED, Bench, sharing
from pmbandits.policies.build import build, recall, room_for
from pmbandits.policies.options import MOST_ARMS
from pmbandits.policies.records import absorb, shelf, start_clock, stop_clock
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    from pmbandits.policies.holding import Holding
    from pmbandits.policies.policy import Policy

# All that a change replaces, at once.
_REPLACED = ("names", "_own_names", "options", "limits", "_all_limits", "_plan", "epsilon", "_now")


def add_arm(policy: Policy, name: str | None = None) -> int:
    """Add an arm, and return its position. Nothing that was learned is lost.

    The new arm is tried at once. Until its first reward is told, it is asked for about √n times in n rounds, beside
    what the other arms do. So it is not forgotten if that reward is late, and it takes few rounds from the others if
    the reward never comes. With its first reward it takes part like every other arm. If you have rewards of it already,
    you may tell them.

    After a change of the arms that play, the policy keeps the shares of its mixture in the rounds that follow. The
    rounds before are counted in ``t`` and ``pulls``, but the policy does not make up for them. What was learned stays,
    and is not explored again. A policy with phases (CIRT, PMETC, PMUCB, CEUCB) begins them anew for the arms that play
    now, with what is known.

    Confidence sets stay valid: ``delta`` is shared between ``most_arms`` arms (by default as many as there were at the
    start). If more come, each doubling of that number costs half of what the one before did. All sets that were ever
    used hold together with probability 1 − 2δ at least.

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
    _can_change(policy)

    def change() -> int:
        k = len(policy.names)
        if k >= MOST_ARMS:
            raise ValueError(f"a policy can have {MOST_ARMS:,} arms, those that are retired included.")
        new = f"arm {k}" if name is None else name
        if not isinstance(new, str):
            raise TypeError(f"the name of an arm is text, got {_check.short(new)}.")
        if new in policy.names:
            what = {PLAYS: "", PAUSED: f" (it is paused: resume({new!r}))", RETIRED: " (it is retired)"}
            raise ValueError(f"there is an arm {new!r} already{what[_states(policy)[policy.names.index(new)]]}.")
        names = arm_names((*policy.names, new), k + 1)
        own = policy._own_names or new != f"arm {k}"
        came = {**_came(policy), k: rounds(policy)}
        _commit(policy, {**rearranged(policy, names, (*_states(policy), PLAYS), came), "_own_names": own})
        return k

    return policy._alone(change)


def pause(policy: Policy, arm: int | str) -> None:
    """Stop asking for an arm until :meth:`resume`. What is known of it stays, and late rewards of it count.

    >>> import pmbandits as pmb
    >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
    >>> policy.pause("A"); policy.ask(3).tolist(), policy.mixture.tolist()
    ([1, 1, 1], [0.0, 1.0])
    >>> policy.resume("A"); policy.playing
    ('A', 'B')
    """
    _set(policy, arm, PAUSED)


def resume(policy: Policy, arm: int | str) -> None:
    """Let a paused arm play again, with what is known of it. An arm without a reward is tried like a new one."""
    _set(policy, arm, PLAYS)


def retire(policy: Policy, arm: int | str) -> None:
    """Never ask for an arm again. What is known of it can still be read, and late rewards of it count."""
    _set(policy, arm, RETIRED)


def limit(
    policy: Policy,
    shares: Shares = None,
    *,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
) -> None:
    """Set new limits on the shares of arms, from now on. Without any, all limits are removed.

    The new limits replace all earlier ones, and are kept in the rounds that follow. The policy does not make up for the
    rounds before. As after a change of arms, what was learned stays, and a policy with phases begins them anew. If no
    mixture of the arms that play keeps the limits, you get an error, and nothing changes.

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
    _can_change(policy)

    def change() -> None:
        options = {key: value for key, value in policy.options.items() if key not in limited.OPTIONS}
        for name, given in (("shares", shares), ("cost", cost), ("budget", budget)):
            if given is not None:
                options[name] = _LIMITS[name](name, given)
        found = limited.read_limits(options, policy.names)
        changed: Policy = object.__new__(type(policy))
        changed.__dict__.update({**policy.__dict__, "options": options, "_all_limits": found})
        parts = rearranged(changed, policy.names, _states(policy), _came(policy), anew=True)
        _commit(policy, {**parts, "options": options, "_all_limits": found})

    policy._alone(change)


_LIMITS: Mapping[str, Any] = {
    "shares": limited.known_shares,
    "cost": limited.known_cost,
    "budget": limited.known_budget,
}


def _can_change(policy: Policy) -> None:
    policy._must_be_bound()
    if policy._plan.forgetting is not None:
        raise ValueError(
            "arms and limits cannot change in a policy that forgets rewards or watches its arms for changes "
            "(estimates='window' or 'discount', detect=...); leave that option out."
        )


def _set(policy: Policy, arm: int | str, state: str) -> None:
    _can_change(policy)

    def change() -> None:
        at = arm_index(arm, policy.names)
        states, name = list(_states(policy)), policy.names[at]
        if states[at] == RETIRED:
            raise ValueError(f"{name} is retired, and stays so; to play it again, add_arm(...) with a new name.")
        if states[at] == state:
            raise ValueError(f"{name} {'plays' if state == PLAYS else 'is paused'} already.")
        others = any(s == PLAYS for i, s in enumerate(states) if i != at)
        if state != PLAYS and not others:
            raise ValueError(f"{name} is the only arm that plays; let another one play first.")
        states[at] = state
        came = {i: t for i, t in _came(policy).items() if i != at}
        if state == PLAYS:
            came[at] = rounds(policy)
        _commit(policy, rearranged(policy, policy.names, tuple(states), came))

    policy._alone(change)


# ---- reading -------------------------------------------------------------------------------------------------


def _states(policy: Policy) -> tuple[str, ...]:
    bench = policy._bench
    return (PLAYS,) * len(policy.names) if bench is None else bench.states


def _came(policy: Policy) -> Mapping[int, int]:
    bench = policy._bench
    return {} if bench is None else bench.came


def playing(policy: Policy) -> tuple[str, ...]:
    """The arms that play now."""
    return tuple(name for name, state in zip(policy.names, _states(policy), strict=True) if state == PLAYS)


def retired(policy: Policy) -> tuple[str, ...]:
    """The arms that left for good."""
    return tuple(name for name, state in zip(policy.names, _states(policy), strict=True) if state == RETIRED)


def of_each_arm(policy: Policy, name: str) -> NDArray[Any]:
    """A number for each arm that there ever was, whether it plays or not; call it while alone with the policy."""
    _, _, memory, bench = policy._now
    inside = memory.field(name) + (memory.earlier if name == "pulls" and memory.n_past else 0)
    if bench is None:
        return inside
    out = np.zeros(len(bench.states), dtype=inside.dtype)
    out[list(bench.seated)], out[list(bench.benched)] = inside, bench.shelf.field(name)
    return out


def rounds(policy: Holding) -> int:
    """How many pulls were asked for in all."""
    _, _, memory, bench = policy._now
    return int(memory.asked + memory.earlier.sum() + (0 if bench is None else bench.shelf.asked))


def spread(policy: Policy, inside: NDArray[Any]) -> NDArray[Any]:
    """Numbers of the arms in the memory, as an array for all arms that there ever were: 0 for the others."""
    if policy._bench is None:
        return inside
    out = np.zeros(len(policy.names), dtype=inside.dtype)
    out[list(policy._bench.seated)] = inside
    return out


def everybody(twin: Policy) -> Policy:
    """A copy of a policy, in which arms that wait for their first reward now are in the memory like all others."""
    if twin._bench is not None and twin._bench.waiting:
        _commit(twin, rearranged(twin, twin.names, twin._bench.states, twin._bench.came, everybody=True))
    return twin


# ---- changing ------------------------------------------------------------------------------------------------


def welcome(policy: Holding) -> None:
    """Let arms that waited for their first reward, and have it now, take part; call it while alone with the policy."""
    bench = policy._bench
    if bench is not None and bench.waiting and bench.arrived():
        _commit(policy, rearranged(cast("Policy", policy), policy.names, bench.states, bench.came))


def become(policy: Holding, twin: Holding) -> None:
    """Replace a policy by what a copy of it has become, in one step; call it while alone with the policy."""
    twin._memory.busy = policy._memory.busy  # it is still at work
    policy.__dict__.update({key: twin.__dict__[key] for key in _REPLACED})


def _commit(policy: Holding, parts: dict[str, Any]) -> None:
    policy.__dict__.update(parts)


def rearranged(
    policy: Policy,
    names: tuple[str, ...],
    states: tuple[str, ...],
    came: Mapping[int, int],
    everybody: bool = False,
    anew: bool = False,
) -> dict[str, Any]:
    """What becomes of a policy if these arms play. All of it is made aside: if anything fails, nothing changes.

    ``everybody``: arms without a reward are in the memory, too. ``anew``: the memory is made anew in any case.
    """
    _, _, memory, bench = policy._now
    if bench is None:
        k = len(policy.names)
        none = shelf(memory, policy._plan, 0, 0)
        bench = Bench((PLAYS,) * k, tuple(range(k)), none, (), {}, 0, k)
    place = (*bench.place, *([None] * (len(names) - len(bench.place))))
    plays = [arm for arm, state in enumerate(states) if state == PLAYS]

    def known(arm: int) -> bool:
        """Whether the arm is in the memory already, or has a reward with which to come there."""
        at = place[arm]
        return at is not None and (at >= 0 or bench.shelf.told[-1 - at] > 0)

    seated = tuple(arm for arm in plays if everybody or known(arm)) or tuple(plays)
    beside = tuple(arm for arm in range(len(names)) if arm not in set(seated))
    waits = {arm: came[arm] for arm in beside if states[arm] == PLAYS}
    same = (
        not anew
        and seated == bench.seated
        and sharing(_first(policy, bench), len(names)) == sharing(_first(policy, bench), len(policy.names))
    )
    after = Bench(states, seated, bench.shelf, (), waits, bench.began if same else rounds(policy), bench.first)
    draft = _draft(policy, names, after)
    if waits and not everybody:  # if they could not all play together, that is said now, and not when a reward comes
        _build(_draft(policy, names, replace(after, seated=tuple(plays))))
    if same:
        new, plan = memory, policy._plan
    else:
        new, plan = _build(draft)
        draft._plan = plan
        told = {arm: _told(memory, bench.shelf, at) for arm in seated if (at := place[arm]) is not None}
        new = room_for(draft, new, sum(told.values()), max(told.values(), default=0))
        _gather(new, memory, bench.shelf, [place[arm] for arm in seated])
        start_clock(new)
        recall(new)
        new.dirty, new.stream, new.busy = 1, memory.stream, memory.busy
    rest = bench.shelf
    if beside != bench.benched or not same:
        others = [place[arm] for arm in beside]
        rest = shelf(new, plan, len(beside), sum(_told(memory, bench.shelf, at) for at in others if at is not None))
        _gather(rest, memory, bench.shelf, others)
        stop_clock(rest)
        recall(rest)
    after = replace(after, shelf=rest, benched=beside)
    return {
        "names": names,
        "limits": draft.limits,
        "_plan": plan,
        "epsilon": plan.setup.epsilon,
        "_now": policy._moment(new, after),
    }


def _first(policy: Policy, bench: Bench) -> int:
    return max(bench.first, policy.options.get("most_arms") or 0)


def _told(memory: Memory, beside: Memory, at: int) -> int:
    return int(memory.told[at] if at >= 0 else beside.told[-1 - at])


def _gather(into: Memory, memory: Memory, beside: Memory, places: list[int | None]) -> None:
    """Bring the records of arms together, from the memory that plays and from the shelf."""
    absorb(into, memory, [(at, to) for to, at in enumerate(places) if at is not None and at >= 0])
    absorb(into, beside, [(-1 - at, to) for to, at in enumerate(places) if at is not None and at < 0])


def _draft(policy: Policy, names: tuple[str, ...], bench: Bench) -> Policy:
    """A policy with these arms, to make a memory for."""
    draft: Policy = object.__new__(type(policy))
    draft.__dict__.update({**policy.__dict__, "names": names, "_now": (0, 0, policy._memory, bench)})
    kept = policy._all_limits
    draft.limits = None if kept is None else kept.among([names[arm] for arm in bench.seated])
    return draft


def _build(draft: Policy) -> tuple[Memory, Any]:
    assert draft.metric is not None and draft.support is not None
    return build(draft, draft.metric, len(draft._seated), draft.support)
