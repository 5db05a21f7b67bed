"""Two policies of one experiment become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pmbandits import _check
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import SAMPLES, STALE
from pmbandits.policies.build import forget_after_merge, recall, roomier, with_room
from pmbandits.policies.forgetting import side_by_side
from pmbandits.policies.holding import Holding
from pmbandits.policies.options import how_kept
from pmbandits.state.layout import FIELDS
from pmbandits.state.memory import Memory

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy


def merge(policy: Policy, other: Policy) -> None:
    """Take in what another policy of the same experiment did and saw; the other stays as it is.

    Two servers, one experiment: afterwards this policy knows the rewards of both, and the pulls of both count for
    the proportions, for exploration and for the time t, as if it had played alone. Exact for exact and binned
    estimates; sketches merge within their stated error. What was decided before stays: a mixture that PMETC has
    committed to, and phases of CIRT that are over. Take the same policy in once only: nothing tells rewards that
    were taken in before from new ones.

    Sets that hold for n ≤ horizon hold while the rewards of both together are as many; those of sketches, from the
    merge on. Of windows the last rewards of both side by side are kept, and their sets hold from the merge on, too. A
    policy that watches its arms goes on to watch those rewards that it is told itself. Metric, support, names of arms
    and ``estimates`` must be the same; the kind of policy need not be.

    >>> import pmbandits as pmb
    >>> here, there = (pmb.CIRT(pmb.Mean(), n_arms=2, support=pmb.Binary()) for _ in range(2))
    >>> here.tell([0, 1], [1, 0]); there.tell([0, 0], [1, 1])
    >>> here.merge(there)
    >>> [arm.n for arm in here.estimates]
    [3, 1]
    """
    must_match(policy, other)
    theirs = other._twin()._memory
    policy._alone(lambda: take_in(policy, theirs))


def take_in(policy: Policy, theirs: Memory) -> None:
    forgetting = policy._plan.forgetting
    if forgetting is not None and forgetting.kind:
        ours = with_room(policy._memory.copy(), policy._plan, theirs.rewards)
    else:
        ours = roomier(policy._memory.copy(), policy._plan, theirs.rewards)
    before, after = ours.rewards, ours.rewards + theirs.rewards
    if ours.sketch_size > 0:
        for arm in range(policy.n_arms):
            mine, his = ((m.sketch_book[arm], m.sketch_items[arm], m.sketch_marks[arm]) for m in (ours, theirs))
            sketching.join(*mine, ours.sketch_size, ours.seed, arm, *his)
        ours.ordered = STALE
    elif ours.mode == SAMPLES:
        ours.x[before:after] = theirs.x[: theirs.rewards]
        ours.owner[before:after] = theirs.owner[: theirs.rewards]
    if ours.n_recent > 0:
        side_by_side(ours, theirs)
    for field in FIELDS:
        if "added" in field.becomes:
            part, more = ours.field(field.name), theirs.field(field.name)
            if more.shape == part.shape:  # else only one of the two has it
                part += more
        elif "cleared" in field.becomes:  # the laws may have moved by any amount
            ours.field(field.name)[...] = 0
    recall(ours)
    if forgetting is not None:
        ours = forget_after_merge(ours, theirs, policy._plan)
    ours.dirty = 1
    ours.busy = policy._memory.busy  # it is still at work
    policy._memory = ours


def must_match(policy: Policy, other: Policy) -> None:
    if not isinstance(other, Holding):
        raise TypeError(f"a policy can take in another policy, got {_check.short(other)}.")
    policy._must_be_bound()
    other._must_be_bound()
    if other is policy:
        raise ValueError("a policy cannot take in itself: its rewards would count twice.")
    for what, mine, theirs in (
        ("metric", policy.metric, other.metric),
        ("support", policy.support, other.support),
        ("names of arms", policy.names, other.names),
        ("estimates", *(how_kept(p.options.get("estimates", "exact")) for p in (policy, other))),
    ):
        if not _same(mine, theirs):
            raise ValueError(f"policies must have the same {what} to be merged, but have {mine!r} and {theirs!r}.")


def _same(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(mine == theirs)
    except ValueError:  # a metric made from a function equals itself only
        return False
