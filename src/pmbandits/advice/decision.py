"""The decision that the evidence allows: what to do, how large the difference is, what comes next, and the caveats.

All of it is numbers and names. The sentences are in :mod:`pmbandits.advice.sentences`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pmbandits.advice import checks
from pmbandits.advice.inference import holm_rejections
from pmbandits.advice.sample_size import is_at_the_limit
from pmbandits.supports import Heavy

if TYPE_CHECKING:
    from pmbandits.advice.result import Advice

_LEADING_P_VALUE = 0.16  # one-sided, about one standard error: below it an arm "leads", above it one "cannot tell"
_MOST_UNUSABLE = 0.5  # a larger share of unusable rows is a caveat

Kind = Literal["choose", "leads", "cannot tell"]
Claim = Literal["better", "not worse", "equivalent"]
Step = Literal[
    "nothing", "more rewards", "more of some arms", "same time", "other preference", "recent rows", "survival analysis",
    "ask again", "not known",
]  # fmt: skip
CaveatKind = Literal[
    "direction assumed",  # nobody said whether larger or smaller is better
    "wrong end",  # the metric looks at the best outcomes of losses only
    "unusable rows",  # most rows could not be used
    "range not known",  # a rare reward far outside of what was seen could change the result
    "range matters",  # beyond chance as far as rewards go on as seen; not if any distribution in the range is possible
    "moment bound broken",  # the rewards speak against the declared bound
    "heavy tail",  # a few rewards decide the result
    "outlier",  # a single reward of an arm decides how it compares
    "deciding unit",  # a single unit of an arm decides how it compares
    "few rewards",  # an arm has too few rewards to be compared
    "few units",  # an arm has too few units (or blocks of time)
    "drift",  # rewards changed over time
    "apart in time",  # arms were not tried at the same time
    "serial",  # rewards depend on those before them for too long
]


@dataclass(frozen=True)
class Difference:
    """How much better the recommendation is than what stands next to it, in the unit of the rewards.

    Attributes
    ----------
    rival : the arm that it is compared with: the best other one, or the best single arm if a mixture is recommended.
    value, interval : by how much it is better, with an interval (NaN where none is known). Positive means better, for
        rewards as for losses. For a mixture they are held-out: from rewards that did not choose it.
    p_value : of the claim that the recommendation is better than every other arm.
    matters : whether the difference is as large as the smallest one that matters: ``True``, ``False``, or ``None`` if
        that is not settled, or if none was named.
    """

    rival: str
    value: float
    interval: tuple[float, float]
    p_value: float
    matters: bool | None = None


@dataclass(frozen=True)
class NextStep:
    """What would settle the question.

    Attributes
    ----------
    kind : ``"nothing"`` if it is settled. ``"more rewards"`` are needed of every arm in ``rewards``, or ``"more of some
        arms"`` of those in ``arms``. With ``"same time"`` rewards of all arms from one time are needed, with ``"other
        preference"`` this one cannot tell the arms apart. ``"recent rows"``: rewards changed over time. ``"survival
        analysis"``: some times were still going on. ``"ask again"``: something about the table, such as units that
        repeat, was noticed, but not allowed for. Otherwise ``"not known"``.
    rewards : how many more rewards of each arm may settle it; a rough number, because the true lead is not known.
    or_more : whether it may take still more: then ``rewards`` are about 20 times as many as there are.
    arms : the arms that are the problem.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.advise({"a": [1, 2, 3], "b": [2, 3, 4] * 20}).decision.next_step
    NextStep(kind='more of some arms', rewards={}, arms=('a',), or_more=False)
    """

    kind: Step
    rewards: dict[str, int] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    or_more: bool = False


@dataclass(frozen=True)
class Caveat:
    """Something that a reader must know: its kind, and the arms, numbers and column that it is about.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> pmb.advise({"a": [1, 2, 3], "b": [2, 3, 4] * 20}).decision.caveats[0]
    Caveat(kind='few rewards', arms=('a',), numbers={}, column='')
    """

    kind: CaveatKind
    arms: tuple[str, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    column: str = ""


@dataclass(frozen=True)
class Decision:
    """What the evidence allows to say.

    Attributes
    ----------
    kind : ``"choose"`` (beyond chance), ``"leads"`` (ahead, but not settled) or ``"cannot tell"``.
    claim : what was shown, if "choose". ``"better"``: the recommendation is better than every other arm. ``"not
        worse"``: no other arm is better by more than the smallest difference that matters. ``"equivalent"``: none is
        worse by more than that, either. ``None`` if nothing was shown.
    mixture : what to play, or what leads, by the names of the arms.
    beaten : the arms than which it is better beyond chance.
    open : the arms with which it could not be settled.
    set_aside : those of them that have enough rewards, but were not compared, because a few of their values decide.
    difference : the size of the difference; ``None`` if there is nothing to compare with.
    next_step : what would settle it.
    caveats : what a reader must know, most important first.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> decision = pmb.advise({"a": [1, 2, 3] * 20, "b": [2, 3, 4] * 20}).decision
    >>> decision.kind, decision.mixture, decision.beaten
    ('choose', {'b': 1.0}, ('a',))
    """

    kind: Kind
    claim: Claim | None
    mixture: dict[str, float]
    beaten: tuple[str, ...]
    open: tuple[str, ...]
    set_aside: tuple[str, ...]
    difference: Difference | None
    next_step: NextStep
    caveats: tuple[Caveat, ...]

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON."""
        out = asdict(self)
        if self.difference is not None:
            out["difference"]["interval"] = [x if isfinite(x) else None for x in self.difference.interval]
            if not isfinite(self.difference.value):
                out["difference"]["value"] = None
        return out


def decide(advice: Advice) -> Decision:
    """The decision on one metric, from its evidence."""
    rival = _arm_to_compare_with(advice)
    beaten = _arms_surely_worse(advice) if advice.limits is None else set()
    return Decision(
        kind=_decision_kind(advice),
        claim=_claim_shown(advice),
        mixture=advice.mixture,
        beaten=tuple(n for n in advice.names if n in beaten),
        open=tuple(n for n in advice.names if n not in beaten and advice.mixture.get(n, 0.0) < 1.0),
        set_aside=_arms_set_aside(advice),
        difference=None if rival is None else _lead_over_rival_with_interval(advice, rival),
        next_step=_next_step(advice),
        caveats=tuple(_caveats(advice)),
    )


def _decision_kind(advice: Advice) -> Kind:
    if advice.sure != "unclear":
        open_question = advice.drift or advice.censored or advice.doubt or _arms_set_aside(advice)
        return "leads" if open_question else "choose"
    closest = advice.evidence.closest_rival
    if advice.inconclusive or advice.tied or advice.tails or closest is None or closest.p_value > _LEADING_P_VALUE:
        return "cannot tell"
    return "leads"


def _claim_shown(advice: Advice) -> Claim | None:
    """Which claim is beyond chance, if one is."""
    found = advice.evidence
    if advice.sure == "unclear":
        return None
    worst = max((m.p_value for m in found.margins), default=0.0)
    if advice.matters == 0.0 or found.is_mixture or 2.0 * advice.family * worst <= 1.0 - advice.level:
        return "better"
    compared = all(m.interval(advice.level)[1] < advice.matters for m in found.margins)
    return "equivalent" if compared and not found.by_bands and not found.left_out else "not worse"


def _arms_surely_worse(advice: Advice) -> set[str]:
    """The arms than which the recommendation is better beyond chance.

    If it is not ahead of all of them, those of which this can be said at once. The arm that leads was picked, so this
    allows for all pairs of arms (Holm's rule on two-sided p-values, of which only those of the leading arm are used).
    """
    found = advice.evidence
    rivals = {name for name in advice.names if advice.mixture.get(name, 0.0) < 1.0}
    rivals -= {advice.names[k] for k in found.left_out}
    if advice.doubt is not None:
        return set()
    if _claim_shown(advice) == "better":
        return rivals
    if advice.inconclusive or advice.tails or found.is_mixture:
        return set()
    others = len(rivals) * (len(rivals) - 1) // 2  # pairs without the leading arm
    p_values = [2.0 * advice.family * m.p_value for m in found.margins]
    beaten = holm_rejections([*p_values, *[1.0] * others], 1.0 - advice.level)
    return {advice.names[m.rival] for m, yes in zip(found.margins, beaten.tolist(), strict=False) if yes}


def _arm_to_compare_with(advice: Advice) -> str | None:
    """The arm that the recommendation is compared with."""
    if len(advice.mixture) > 1:
        return advice.best_arm
    left_out = {advice.names[k] for k in advice.evidence.left_out}
    others = [k for k, a in enumerate(advice.arms) if a.share == 0.0 and a.name not in left_out]
    return advice.names[max(others, key=lambda k: advice.evidence.arm_utilities[k])] if others else None


def _lead_over_rival_with_interval(advice: Advice, rival: str) -> Difference:
    """The lead over the rival, with Student's interval."""
    value = advice.gain if len(advice.mixture) > 1 else advice.lead
    interval, matters = (nan, nan), None
    margin = None
    if advice.limits is None and not advice.tails:
        margin = next((m for m in advice.evidence.margins if advice.names[m.rival] == rival), None)
    if margin is not None:
        ends = [m.interval(advice.level) for m in advice.evidence.held_out or (margin,)]
        low, high = np.median(ends, axis=0).tolist()
        shift = 0.0 if advice.evidence.held_out else value - margin.gain
        between = np.array([low, high]) + shift
        low, high = np.where(np.abs(between) <= 1e-8 * np.abs(between).max(), 0.0, between).tolist()  # rounding
        interval = low, high
        if advice.matters > 0.0 and isfinite(low):
            matters = True if interval[0] >= advice.matters else False if interval[1] < advice.matters else None
    return Difference(rival, value, interval, advice.evidence.p, matters)


def _next_step(advice: Advice) -> NextStep:
    few = tuple(advice.names[k] for k in advice.evidence.few)
    skipped = advice.evidence.left_out
    if advice.censored and len(advice.names) > 1:
        return NextStep("survival analysis")
    if advice.doubt is not None and advice.doubt.kind == "units":  # how many more rows it takes is not known before
        return NextStep("ask again")
    if advice.sure != "unclear" and advice.drift:
        return NextStep("recent rows")
    if advice.sure != "unclear" and advice.doubt:
        return NextStep("ask again")
    if advice.sure != "unclear" or len(advice.names) == 1:
        left_out = _arms_set_aside(advice) or tuple(name for name in few if advice.names.index(name) in skipped)
        return NextStep("more of some arms", arms=left_out) if left_out else NextStep("nothing")
    if wild := _better_arms_that_few_rewards_decide(advice):
        return NextStep("more of some arms", arms=wild)
    if advice.tied or advice.tails:
        return NextStep("other preference", arms=tuple(advice.names[t.arm] for t in advice.tails))
    if advice.inconclusive:
        return NextStep("same time", arms=tuple(advice.names[k] for k in advice.apart))
    if advice.more:
        sizes = {arm.name: arm.n for arm in advice.arms}
        or_more = any(is_at_the_limit(more, sizes[name]) for name, more in advice.more.items())
        return NextStep("more rewards", rewards=dict(advice.more), or_more=or_more)
    if few and not skipped:
        return NextStep("more of some arms", arms=few)
    return NextStep("not known")


def _better_arms_that_few_rewards_decide(advice: Advice) -> tuple[str, ...]:
    """Arms that were left out because a few rewards decide, and that may be ahead of what the answer is about."""
    found, rival = advice.evidence, _arm_to_compare_with(advice)
    least = nan if rival is None else found.arm_utilities[advice.names.index(rival)]
    return tuple(n for n in _arms_set_aside(advice) if found.arm_utilities[advice.names.index(n)] > least)


def _arms_set_aside(advice: Advice) -> tuple[str, ...]:
    """Arms with enough rewards that were not compared because a few of their rewards decide."""
    skipped = {*advice.evidence.few, *advice.apart}
    return tuple(advice.names[k] for k in advice.evidence.left_out if k not in skipped)


def _score_without(advice: Advice, k: int, reward: float) -> float:
    """What an arm scores without one reward, in the sign of the data."""
    sample = advice.log.arms[k].whole_sample
    p = np.where(sample.x == reward, np.maximum(sample.p - 1.0 / sample.n, 0.0), sample.p)
    return advice.shown_score(advice.metric.value(sample.x, p / p.sum()))


def _caveats(advice: Advice) -> list[Caveat]:
    out: list[Caveat] = []
    log, support = advice.log, advice.support
    direction = [Caveat("direction assumed", column=log.reward_column)] if advice.direction_assumed else []
    if advice.loss:
        out += direction
    if log.n_malformed > _MOST_UNUSABLE * log.rows:
        out.append(Caveat("unusable rows", numbers={"unusable": log.n_malformed, "rows": log.rows, "used": log.used}))
    negative = not advice.loss and max(float(arm.x[-1]) for arm in log.arms) <= 0.0
    if checks.wrong_tail_warning(advice.metric, advice.loss, negative):
        out.append(Caveat("wrong end"))
    tails = (*advice.tails, *advice.tails_left_out)
    if tails:
        out.append(Caveat("heavy tail", tuple(dict.fromkeys(advice.names[t.arm] for t in tails))))
    if advice.apart:
        out.append(Caveat("apart in time", tuple(advice.names[k] for k in advice.apart)))
    if advice.serial:
        out.append(Caveat("serial"))
    if advice.drift:
        early, late = (advice.shown(end) for end in (advice.drift[0].early, advice.drift[0].late))
        numbers = {"early": early, "late": late} if len(advice.drift) == 1 else {}
        out.append(Caveat("drift", tuple(advice.names[d.arm] for d in advice.drift), numbers))
    few = tuple(advice.names[k] for k in advice.evidence.few)
    if few:
        clustered = log.kept_rows is not None and log.kept_rows.cluster_of_each_row is not None
        out.append(Caveat("few units" if clustered else "few rewards", few))
    if isinstance(support, Heavy) and checks.violates_moment_bound(support, [arm.whole_sample for arm in log.arms]):
        out.append(Caveat("moment bound broken"))
    out += [
        Caveat("deciding unit", (name,), {"average": advice.shown(unit[0]), "without": advice.shown_score(unit[1])})
        for k, name in enumerate(advice.names)
        if k not in advice.evidence.few and (unit := checks.deciding_unit(advice.metric, log.kept_rows, k)) is not None
    ]
    out += [
        Caveat("outlier", (name,), {"reward": advice.shown(reward), "without": _score_without(advice, k, reward)})
        for k, (name, arm) in enumerate(zip(advice.names, log.arms, strict=True))
        if k not in advice.evidence.few
        and (reward := checks.deciding_reward(advice.metric, arm.whole_sample)) is not None
    ]
    if advice.support_assumed and not advice.tails and len(advice.names) > 1:
        out.append(Caveat("range not known", numbers={"low": support.lo, "high": support.hi}))
    guarded = advice.evidence.guarded_p * advice.family <= 1.0 - advice.level
    if advice.sure == "looks" and not advice.support_assumed and not guarded:
        out.append(Caveat("range matters"))
    return out if advice.loss else out + direction
