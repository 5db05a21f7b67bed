"""Two policies of one experiment become one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pmbandits import _check
from pmbandits.policies.build import forget_after_merge, recall, roomier, with_room
from pmbandits.policies.forgetting import side_by_side
from pmbandits.policies.holding import Holding
from pmbandits.policies.lineup import welcome
from pmbandits.policies.options import how_kept
from pmbandits.policies.records import absorb, start_clock, stop_clock
from pmbandits.policies.tickets import Tickets
from pmbandits.state.layout import FIELDS

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy


def merge(policy: Policy, other: Policy) -> None:
    """Take in what another policy of the same experiment did and saw. The other policy does not change.

    This is for two servers with one experiment. Afterwards this policy knows the rewards of both. The pulls of both
    count for the proportions, for exploration and for the time t, as if one policy had played alone. This is exact for
    exact and binned estimates; sketches merge within their stated error. What was decided before stays: a mixture that
    PMETC has chosen, and phases of CIRT that are over. Merge the same policy only once: the policy cannot tell rewards
    that it knows already from new ones.

    Metric, support, names of arms and ``estimates`` must be the same; the kind of policy may differ. Where arms came
    and went, two arms with the same name are taken to be the same arm, and this policy must have all arms of the other.
    Which of them play stays as it is here.

    For confidence sets this means:

    - Sets with a horizon hold as long as an arm has no more rewards than that in both policies together.
    - The sets of sketches hold from the merge on.
    - Of two windows the last rewards of both are kept, side by side, and their sets hold from the merge on.
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
    must_match(policy, other)
    theirs = other._twin()
    policy._alone(lambda: take_in(policy, theirs))


def take_in(policy: Policy, theirs: Policy) -> None:
    """Add what another policy did and saw, on copies that then replace the originals.

    Call it while alone with the policy.

    Pulls of arms that play in both count for the shares. Pulls of other arms, and those from before the clock began, do
    not.
    """
    _, _, memory, bench = policy._now
    _, _, other, others = theirs._now
    ours, forgetting = memory.copy(), policy._plan.forgetting
    beside = None if bench is None else bench.shelf.copy()
    for source, arms in [(other, theirs._seated)] + ([] if others is None else [(others.shelf, others.benched)]):
        where = [policy.names.index(theirs.names[arm]) for arm in arms]
        places = where if bench is None else [bench.place[arm] for arm in where]
        if source is not other:  # nobody plays those arms there now
            start_clock(source)
        if source.n_past > 0 and ours.n_past == 0:  # here all pulls count
            stop_clock(source)
        windowed = forgetting is not None and forgetting.kind
        ours = (with_room if windowed else roomier)(ours, policy._plan, source.rewards)
        before = ours.rewards
        absorb(ours, source, [(a, b) for a, b in enumerate(places) if b >= 0])
        if ours.n_recent > 0:
            ours.rewards = before
            side_by_side(ours, source)
            ours.rewards = before + source.rewards
        if beside is not None:
            beside = roomier(beside, policy._plan, source.rewards)
            absorb(beside, source, [(a, -1 - b) for a, b in enumerate(places) if b < 0])
            stop_clock(beside)
            recall(beside)
    for field in FIELDS:
        if "cleared" in field.becomes:  # the laws may have moved by any amount
            ours.field(field.name)[...] = 0
    recall(ours)
    if forgetting is not None:
        ours = forget_after_merge(ours, other, policy._plan)
    ours.dirty = 1
    ours.busy = memory.busy  # it is still at work
    if theirs._tickets is not None:
        tickets = Tickets() if policy._tickets is None else policy._tickets.copy()
        tickets.prefix = None if policy._tickets is None else policy._tickets.prefix
        tickets.join(theirs._tickets, [policy.names.index(name) for name in theirs.names])
        policy._tickets = tickets
    policy._now = policy._moment(ours, None if bench is None or beside is None else replace(bench, shelf=beside))
    welcome(policy)


def must_match(policy: Policy, other: Policy) -> None:
    if not isinstance(other, Holding):
        raise TypeError(f"merge needs another policy, got {_check.short(other)}.")
    policy._must_be_bound()
    other._must_be_bound()
    if other is policy:
        raise ValueError("a policy cannot take in itself: its rewards would count twice.")
    for what, mine, theirs in (
        ("metric", policy.metric, other.metric),
        ("support", policy.support, other.support),
        ("estimates", *(how_kept(p.options.get("estimates", "exact")) for p in (policy, other))),
        ("detect", *(_restarts(p) for p in (policy, other))),
    ):
        if not _same(mine, theirs):
            raise ValueError(f"policies must have the same {what} to be merged, but have {mine!r} and {theirs!r}.")
    strange = [name for name in other.names if name not in policy.names]
    apart = (policy._bench is None and other._bench is None) and policy.names != other.names
    if strange or apart:
        hint = f"; add_arm({strange[0]!r}) first" if strange and not apart else ""
        raise ValueError(
            f"policies must have the same names of arms to be merged, but have {policy.names!r} and "
            f"{other.names!r}{hint}."
        )


def _restarts(policy: Policy) -> str:
    """Whether rewards of arms that changed are forgotten; to be warned of changes is each policy's own affair."""
    forgetting = policy._plan.forgetting
    return "restart" if forgetting is not None and forgetting.watches == "restart" else "no restart"


def _same(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(mine == theirs)
    except ValueError:  # a metric made from a function equals itself only
        return False
