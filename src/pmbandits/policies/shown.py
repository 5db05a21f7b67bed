"""What a policy shows of itself: what it knows of each arm, why the next arm is next, and a table for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits import _html
from pmbandits.confidence._bounds import arm_ends, arm_radius, lower_end, upper_end
from pmbandits.estimates import ArmEstimate
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import SAMPLES
from pmbandits.policies import watching
from pmbandits.policies.bench import PLAYS
from pmbandits.policies.build import with_radii
from pmbandits.policies.sets import plan_now

if TYPE_CHECKING:
    from pmbandits.policies.policy import Policy


def estimates(policy: Policy) -> tuple[ArmEstimate, ...]:
    """What is known of each arm: its empirical distribution and confidence band."""
    twin = policy._twin()
    _, _, memory, bench = twin._now
    plan = plan_now(twin, memory)
    memory, beside = with_radii(memory, plan), None if bench is None else with_radii(bench.shelf, plan)
    out = []
    for i, name in enumerate(twin.names):
        at = i if bench is None else bench.place[i]
        out.append(_estimate(name, memory, at, twin) if at >= 0 else _estimate(name, beside, -1 - at, twin))
    return tuple(out)


def _estimate(name: str, memory: Any, i: int, policy: Policy) -> ArmEstimate:
    """What a memory knows of one of its arms."""
    n = int(memory.told[i])
    if memory.sketch_size > 0:
        mass = np.empty(memory.sketch_items.shape[1], dtype=np.int64)
        used = sketching.spread(memory.sketch_book[i], mass)
        x, which = np.unique(memory.sketch_items[i, :used], return_inverse=True)
        counts = np.bincount(which, weights=mass[:used], minlength=x.size)
    elif memory.mode == SAMPLES:
        mine = memory.owner[: memory.rewards] == i
        x, counts = np.unique(memory.x[: memory.rewards][mine], return_counts=True)
    else:
        counts = memory.counts[i]
        x, counts = memory.points[counts > 0], counts[counts > 0]
    kind, radius, low, high = "none", float("nan"), float("nan"), float("nan")
    if policy.confidence is not None:
        kind = policy.confidence.kind
        radius = float(arm_radius(memory, i) if memory.coarse == 1 else policy.confidence.radius(n))
    if kind == "interval":
        mean = float(x @ counts) / n if n else 0.5
        low, high = (float(end(memory.set_kind, mean, radius)) for end in (lower_end, upper_end))
    ends = None
    if kind == "belt" and n:
        above = np.concatenate(([n], n - np.cumsum(counts))).astype(np.int64)
        ends = np.empty((2, above.size))
        arm_ends(memory, i, above, ends[0], ends[1])
    return ArmEstimate(name, n, x.copy(), counts / max(n, 1), radius, kind, low, high, memory.rounding, ends)


def explain(policy: Policy, regret: float | str | None = None) -> str:
    """Why the next arm is the next one, in a few sentences and numbers. This changes nothing."""
    twin = policy._twin()  # all that is said is of one moment, also if other threads go on
    mixture, pulls, t, waiting = twin.mixture, twin.pulls, twin.t, int(twin.pending.sum())
    shares = "; ".join(f"{n}: {100 * p / max(t, 1):.1f} % ({100 * m:.1f} %)"
                       for n, p, m in zip(policy.names[:6], pulls, mixture, strict=False))  # fmt: skip
    arm, reason = why(twin)
    text = f"Round {t + 1}: {arm} is next. Shares played so far (and wanted): {shares}. {reason}"
    if policy.confidence is not None:
        sure = twin.certainty(mixture)
        text += (
            f" The utility of the mixture is estimated at {sure.utility:.4g}, and it lies between {sure.lower:.4g} and "
            f"{sure.upper:.4g}. {sure}"
        )
    if regret is not None:
        text += f" {twin.forecast(regret)}"
    text += watching.in_words(twin)
    if waiting:
        text += f" {waiting:,} reward{'s have' if waiting > 1 else ' has'} not been told yet."
    return text


def why(policy: Policy) -> tuple[str, str]:
    """The next arm, and the reason alone: quick, also where it takes long to say what is certain. Changes nothing."""
    twin = policy._twin()
    mixture, pulls = twin.mixture, twin.pulls
    spent, since, wanted = int(twin._memory.sure_pulls.sum()), twin._memory.asked, mixture[list(twin._seated)]
    counted, known = twin._memory.pulls.copy(), np.maximum(twin._memory.pulls, twin._memory.told)
    arm = twin.ask()
    place = twin._seated.index(arm) if arm in twin._seated else -1
    behind = since * wanted - counted  # since the clock began: after a change of the arms that play it begins anew
    lag = float(behind[place]) if place >= 0 else 0.0
    own = twin._reason(place) if place >= 0 else ""
    if place < 0 and twin._bench is not None:
        text = f"It came in round {twin._bench.came[arm] + 1:,} and has no reward yet, so it is tried now and then."
    elif int(twin._memory.sure_pulls.sum()) > spent:
        share = 100 * twin._memory.certify
        text = f"This pull is for certifying, as {share:.3g} % of pulls are. " + (
            "A reward of this arm makes the certified regret smaller faster than a reward of any other arm."
            if spent % 2 == 0
            else "Every second pull of this kind is of the arm with the fewest pulls."
        )
    elif own:
        text = own
    elif known[place] == known.min() and lag < max(behind) - 1e-9:
        text = f"It has the fewest pulls ({int(pulls[arm])}), and is explored."
    elif lag >= 0.0 and not np.allclose(behind, 0.0, rtol=0.0, atol=1e-9):
        text = f"It is {round(lag, 1) + 0.0:.1f} pulls behind its share."
    else:
        text = f"This is what the rule of {type(policy).__name__} says."
    if policy.limits is not None:
        text += f" It keeps the limits {policy.limits}."
    return policy.names[arm], text


def html(policy: Policy) -> str:
    """A table of the arms, for notebooks."""
    given = ", ".join(f"{k}={v!r}" for k, v in policy.options.items() if v is not None)
    title = f"{type(policy).__name__}({given})"
    if "_now" not in policy.__dict__:
        known = repr(policy.metric) if policy.metric is not None else "not given"
        return _html.block(title, _html.table((), [("metric", known), ("state", "a recipe: not bound to arms yet")]))
    t, pulls, told, mixture = policy.t, policy.pulls, policy._copy_of("told"), policy.mixture
    shown = np.argsort(-mixture, kind="stable")[:12]
    states = (PLAYS,) * policy.n_arms if policy._bench is None else policy._bench.states
    labels = [n if state == PLAYS else f"{n} ({state})" for n, state in zip(policy.names, states, strict=True)]
    rows = [
        (labels[i], f"{pulls[i]:,}", f"{100 * pulls[i] / max(t, 1):.1f} %", f"{100 * mixture[i]:.1f} %",
         f"{told[i]:,}")
        for i in (np.sort(shown) if policy.n_arms <= 12 else shown)
    ]  # fmt: skip
    head = ("arm", "pulls", "played", "wanted", "rewards told")
    words = [f"{policy.metric!r}, round {t:,}", f"{policy.n_arms - 12} more arms" if policy.n_arms > 12 else ""]
    return _html.block(title, _html.paragraphs(words), _html.table(head, rows))
