"""Regret bounds of the paper's four algorithms.

Each bound is a number with its terms, the equation that it comes from, and the conditions that it needs. A bound whose
conditions fail says nothing; :meth:`RegretBound.require` then raises an error that says what to do.

With the paper's constants most of these bounds say nothing unless the horizon is very large. For Bernoulli arms (.1,
.9), the Gini deviation and the coarsest grid, ε = ½, the bound of PM-ETC-M needs T > 5e8, and that of PM-UCB-M (arms
(.3, .9), ε = .4) needs T > 7e11. With ``confidence="auto"`` the same formulas need T > 2e4 and T > 2e7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import e, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.schedules import check_exponents, epsilon_etc, epsilon_ucb, refinement_phases
from pmbandits.supports import Binary
from pmbandits.theory.deviations import (
    Condition,
    deviation_valid_at_all_times,
    deviation_valid_at_fixed_n,
    deviation_valid_up_to_horizon,
)
from pmbandits.theory.instance import Gap, TiedMixturesError, facts
from pmbandits.theory.times import (
    anytime_settling_time,
    exploration_rounds,
    refinement_time,
    retention_probability,
    settling_time,
)


@dataclass(frozen=True)
class RegretBound:
    """A bound on the regret of a policy, with its terms and conditions.

    Attributes
    ----------
    policy : the policy whose regret is bounded.
    value : the bound, as the theorem states it.
    sharper : the sum in the proof before it is simplified. It is never above ``value`` where the conditions hold.
    terms : the parts of ``value``.
    conditions : what the bound needs, and whether that holds here.
    equation : where the bound stands in the paper.
    horizon, epsilon : T and ε.
    exploration : how many rounds explore, for all arms together.
    earliest : the horizon beyond which the bound holds: N(ε), max{e^K, T(ε)} or τ^ε.
    confidence : the confidence set whose radius is used.
    trivial : what any policy can lose at most. If ``value`` is larger than this, the bound says nothing.
    probability : the probability with which the regret is below the bound; ``None`` if the bound is on the expected
        regret.
    """

    policy: str
    value: float
    sharper: float
    terms: dict[str, float]
    conditions: tuple[Condition, ...]
    equation: str
    horizon: int
    epsilon: float
    exploration: float
    earliest: float
    confidence: str
    trivial: float
    probability: float | None = None

    @property
    def holds(self) -> bool:
        """Whether all conditions are met."""
        return all(c.holds for c in self.conditions)

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: its conditions fail, or any policy at all loses no more than that."""
        return not self.holds or not self.value < self.trivial

    def require(self) -> RegretBound:
        """The bound itself, or an error that says which condition fails and what to do."""
        for condition in self.conditions:
            if not condition.holds:
                out = f"; {condition.remedy}" if condition.remedy else ""
                raise ValueError(
                    f"the bound {self.equation!r} of {self.policy} needs that {condition.text}, "
                    f"which is not true here{out}."
                )
        return self

    def __repr__(self) -> str:
        state = "holds" if self.holds else "does not hold"
        if self.holds and self.vacuous:
            state = f"holds but says nothing: no policy loses more than {self.trivial:.3g}"
        sure = "" if self.probability is None else f", with probability ≥ {self.probability:.3g}"
        lines = [
            f"{self.policy}, T = {self.horizon:,}, ε = {self.epsilon:.4g}, confidence {self.confidence!r}:"
            f" regret ≤ {self.value:.4g}{sure} ({state}; {self.equation})"
        ]
        lines += [f"    {number:.4g}  {name}" for name, number in self.terms.items()]
        lines += [f"    {condition}" for condition in self.conditions]
        return "\n".join(lines)


# ---- with ε given ----------------------------------------------------------------------------------------
def etc_bound(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float | None = None,
    *,
    gap: Gap = "12",
    confidence: Any = "paper",
    beta: float | None = None,
) -> RegretBound:
    """The regret bound of PM-ETC-M (``theorem: ETC upper bound``), which holds for T > N(ε).

    It is (𝓛K + W^−q)(3W·N(ε)/T)^q + δ_01(ε). The theorem hides the probability T⁻² of choosing a wrong mixture in
    W^−q(…)^q. ``sharper`` shows it: B_h/T² + 𝓛K(2W·N(ε)/T)^q + δ_01(ε).

    Parameters
    ----------
    metric, bandit : the problem: what is valued, and the arms.
    horizon, epsilon : T and the spacing of the grid. Without ε, it is the paper's schedule for ``beta``.
    gap : the gap of which the bound is made. ``"12"`` is δ_12(ε). ``"13"`` takes N_13(ε) and δ_02(ε), as in
        ``theorem:PM-ETC-M_beta13``. ``"distinct"`` takes the gap to the next different value, for which the proof holds
        as well.
    confidence : the confidence set whose radius is used: ``"paper"``, ``"auto"`` or any other.
    beta : β, which is needed only to choose ε.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> bound = etc_bound(gini, bandit, 10**7, 0.5, confidence="auto")
    >>> bound.holds, round(bound.value, 4), round(bound.sharper, 4)
    (True, 0.0117, 0.0035)
    >>> etc_bound(gini, bandit, 10**7, 0.5).require()
    Traceback (most recent call last):
        ...
    ValueError: the bound 'theorem: ETC upper bound' of PM-ETC-M needs that T > N(ε) = 5.57e+08, which is not ...
    """
    known, horizon = facts(metric, bandit), _validation.check_whole_number("horizon", horizon, 2)
    if epsilon is None:
        q, beta = check_exponents(known.q, beta)
        epsilon = min(1.0, epsilon_etc(horizon, known.n_arms, q, beta))
    rounds = exploration_rounds(metric, bandit, horizon, epsilon, gap=gap, confidence=confidence)
    share = rounds / horizon
    lost = known.grid_loss(2 if gap == "13" else 1, epsilon, "etc")
    exploration_term = known.constant * known.n_arms * (3.0 * known.distance * share) ** known.q
    wrong_mixture_term = (3.0 * share) ** known.q
    wrong = known.largest_loss / float(horizon) ** 2
    sharper = wrong + known.constant * known.n_arms * (2.0 * known.distance * share) ** known.q + lost
    deviation = deviation_valid_at_fixed_n(confidence, known.support, known.n_arms, 1.0 / float(horizon) ** 2)
    name = "N_13(ε)" if gap == "13" else "N(ε)"
    conditions = (
        Condition(
            f"T > {name} = {rounds:.3g}",
            horizon > rounds,
            f"take a horizon beyond {rounds:.3g}, a larger epsilon, or a tighter confidence set such as 'auto'",
        ),
        Condition("B_h/T² is at most (3N(ε)/T)^q", wrong <= wrong_mixture_term, "take a longer horizon"),
        deviation.condition,
    )
    return RegretBound(
        policy="PM-ETC-M",
        value=exploration_term + wrong_mixture_term + lost,
        sharper=sharper,
        terms={
            "shares that exploration leaves to make up for, 𝓛K(3W·N/T)^q": exploration_term,
            "a wrong mixture, (3N/T)^q": wrong_mixture_term,
            f"the grid, δ_0{2 if gap == '13' else 1}(ε)": lost,
        },
        conditions=conditions,
        equation="theorem:PM-ETC-M_beta13" if gap == "13" else "theorem: ETC upper bound",
        horizon=horizon,
        epsilon=epsilon,
        exploration=rounds,
        earliest=rounds,
        confidence=deviation.name,
        trivial=known.largest_loss,
    )


def ucb_bound(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float | None = None,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
    beta: float | None = None,
) -> RegretBound:
    """The regret bound of PM-UCB-M (``theorem:UCB upper bound``), which holds for T > max{e^K, T(ε)}.

    It is (B_h + 2𝓛K(W^q + 1))·(2r(ρTε/4))^q + δ_01(ε). With the paper's radius 2r(ρTε/4) = 64(√(2e·log T) + 32)/√(ρεT).
    ``sharper`` is the sum in the appendix (``eq:Discretized_regret``, with the √ε that its first display lost), which
    still shows separately what is lost when confidence sets fail.

    Parameters
    ----------
    metric, bandit, horizon, epsilon, confidence, beta : as for :func:`etc_bound`; the grid is the UCB grid.
    rho : ρ. Each arm is explored ρTε/4 times.
    gap : ``"12"``, or ``"distinct"`` where the best mixtures of the grid tie.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> bound = ucb_bound(gini, bandit, 10**9, 0.4, confidence="auto")
    >>> bound.holds, round(bound.value, 4), round(bound.sharper, 4)
    (True, 0.0148, 0.0065)
    >>> ucb_bound(gini, bandit, 10**9, 0.4).holds
    False
    """
    return _regret_bound_of_ucb_policies("PM-UCB-M", metric, bandit, horizon, epsilon, rho, gap, confidence, beta)


def ce_ucb_bound(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float | None = None,
    *,
    rho: float = 0.1,
    gap: Gap = "12",
    confidence: Any = "paper",
    beta: float | None = None,
) -> RegretBound:
    """The regret bound of CE-UCB-M, by the theorem of :func:`ucb_bound` and with its parameters.

    The appendix reaches half of that width, (…)·r(ρTε/4)^q, before it weakens it to the bound of PM-UCB-M
    (``eq:theorem_lastline_CE``). ``sharper`` is the sum ``eq:discrete_error_CE``.

    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.3, 0.9])
    >>> ce_ucb_bound(gini, bandit, 10**9, 0.4, confidence="auto").holds
    True
    """
    return _regret_bound_of_ucb_policies("CE-UCB-M", metric, bandit, horizon, epsilon, rho, gap, confidence, beta)


def _regret_bound_of_ucb_policies(
    policy: str,
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float | None,
    rho: float,
    gap: Gap,
    confidence: Any,
    beta: float | None,
) -> RegretBound:
    known, horizon = facts(metric, bandit), _validation.check_whole_number("horizon", horizon, 2)
    _reject_gap_13(gap, policy)
    rho = _validation.check_within("rho", rho, 0.0, 1.0, open_lo=True)
    k, q = known.n_arms, known.q
    if epsilon is None:
        q, beta = check_exponents(known.q, beta)
        epsilon = min(2.0 / k, epsilon_ucb(horizon, k, q, beta))
    deviation = deviation_valid_up_to_horizon(confidence, known.support, k, horizon)
    radius = deviation.radius(rho * horizon * epsilon / 4.0)
    lost = known.grid_loss(1, epsilon, "ucb")
    width = (2.0 * radius) ** q
    failure_term, tracking_term = known.largest_loss * width, 2.0 * known.constant * k * known.distance**q * width
    estimation_term = 2.0 * known.constant * k * width
    # eq:Discretized_regret and eq:discrete_error_CE
    wide = known.constant * k * width if policy == "PM-UCB-M" else 2.0 * known.constant * k * radius**q
    tracked = 2.0 * known.constant * k * known.distance**q * (deviation.failure_ever + (k / horizon) ** q)
    sharper = known.largest_loss * deviation.failure_at_once + wide + tracked + lost
    settled = settling_time(metric, bandit, epsilon, rho=rho, gap=gap, confidence=confidence)
    conditions = (
        Condition(
            f"T > T(ε) = {settled:.3g}",
            horizon > settled,
            f"take a horizon beyond {settled:.3g}, a larger epsilon, or a tighter confidence set such as 'auto'",
        ),
        Condition(f"T > e^K = {e**k:.3g}", horizon > e**k, "take a longer horizon"),
        Condition(
            "the theorem's short form is not below the sum that it shortens",
            sharper <= failure_term + tracking_term + estimation_term + lost,
            "take a longer horizon",
        ),
        deviation.condition,
    )
    return RegretBound(
        policy=policy,
        value=failure_term + tracking_term + estimation_term + lost,
        sharper=sharper,
        terms={
            "confidence sets that fail, B_h(2r)^q": failure_term,
            "shares not yet reached, 2𝓛K·W^q(2r)^q": tracking_term,
            "estimates that are off, 2𝓛K(2r)^q": estimation_term,
            "the grid, δ_01(ε)": lost,
        },
        conditions=conditions,
        equation="theorem:UCB upper bound",
        horizon=horizon,
        epsilon=epsilon,
        exploration=k * float(np.ceil(rho * horizon * epsilon / 4.0)),
        earliest=max(e**k, settled),
        confidence=deviation.name,
        trivial=known.largest_loss,
    )


def cirt_bound(
    metric: Distortion | str,
    bandit: Bandit,
    horizon: int,
    epsilon: float = 0.06,
    *,
    delta: float = 0.05,
    branching: int = 4,
    exploration: float = 1.0,
    gap: Gap = "12",
    confidence: Any = "paper",
    refined_after: int | None = None,
) -> RegretBound:
    """The regret bound of CIRT (``theorem:any_regret``), which holds with probability ≥ 1 − Lδ for T > τ^ε.

    It is 𝓛W^q·K^(q+1)·(ε^q + T^−q), where L is the number of phases. The time τ^ε also waits until exploration takes no
    more than tracking would (T_ξ). With K = 2, ε = .06, A = 4 and ξ = 1 that is 8.5e6, however soon refinement ends. So
    the theorem says nothing about the paper's own runs of T = 3e6, which do reach tracking.

    Parameters
    ----------
    metric, bandit : the problem. The theorem is for Bernoulli arms.
    horizon, epsilon : T, and ε, the resolution at which CIRT stops refining.
    delta, branching, exploration : δ, A and ξ of CIRT.
    gap, confidence : what the length of the phases is computed from. Where mixtures tie, the paper's stopping rule
        never ends. ``"distinct"`` is then for the rule that keeps tied neighbours together (``stopping="box"``).
    refined_after : the round in which refinement ended in a run (the last of ``policy.phase_ends``). The theorem's τ^ε
        is random, and the paper gives no formula. Without this number, a time is computed by which refinement must have
        ended; it is far longer than what runs show.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9])
    >>> bound = cirt_bound(gini, bandit, 10**7, delta=0.01, confidence="auto", refined_after=10_000)
    >>> bound.holds, round(bound.value, 4), round(bound.probability, 4)
    (True, 0.06, 0.95)
    """
    known, horizon = facts(metric, bandit), _validation.check_whole_number("horizon", horizon, 1)
    _reject_gap_13(gap, "CIRT")
    phases = refinement_phases(epsilon, branching)
    sure = retention_probability(epsilon, delta, branching)
    k, q = known.n_arms, known.q
    if refined_after is None:
        ended = refinement_time(
            metric, bandit, epsilon, delta=delta, branching=branching, exploration=exploration, gap=gap,
            confidence=confidence,
        )  # fmt: skip
    else:
        ended = float(_validation.check_whole_number("refined_after", refined_after, 0))
    start = anytime_settling_time(ended, epsilon, k, branching=branching, exploration=exploration)
    deviation = deviation_valid_at_all_times(confidence, known.support, k, delta)
    scale = known.anytime_scale
    grid, tracking = scale * epsilon**q, scale * float(horizon) ** -q
    conditions = (
        Condition("the arms are Bernoulli", isinstance(known.support, Binary), "read it as a guide only"),
        Condition(
            f"T > τ^ε = {start:.3g}",
            horizon > start,
            "take a longer horizon or a larger epsilon" if isfinite(start) else
            "take gap='distinct', or give refined_after from a run: some grids tie, and the proof's time is infinite",
        ),
        Condition(f"Lδ = {phases * delta:.3g} is below 1", phases * delta < 1.0, "take a smaller delta"),
        deviation.condition,
    )  # fmt: skip
    return RegretBound(
        policy="CIRT",
        value=grid + tracking,
        sharper=known.constant * (k * known.distance * epsilon) ** q + tracking,
        terms={
            "the last box, 𝓛W^q·K^(q+1)·ε^q": grid,
            "tracking, 𝓛W^q·K^(q+1)·T^−q": tracking,
        },
        conditions=conditions,
        equation="theorem:any_regret",
        horizon=horizon,
        epsilon=epsilon,
        exploration=ended,
        earliest=start,
        confidence=deviation.name,
        trivial=known.largest_loss,
        probability=sure,
    )


BOUNDS: dict[str, Callable[..., RegretBound]] = {
    "pmetc": etc_bound,
    "pmucb": ucb_bound,
    "ceucb": ce_ucb_bound,
    "cirt": cirt_bound,
}


def _reject_gap_13(gap: str, policy: str) -> None:
    if gap == "13":
        raise ValueError(f"the paper has delta_13 for PM-ETC-M only; for {policy} take gap='12' or gap='distinct'.")


# ---- curves ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class BoundCurve:
    """A bound for several ε or T: arrays to plot, and the bounds themselves.

    Attributes
    ----------
    over : what varies: ``"epsilon"`` or ``"horizon"``.
    x, values, sharper : the values of that, and the bounds there.
    holds : where the conditions are met.
    bounds : each bound with its terms; ``None`` where the gap is 0, so that there is no bound.
    """

    over: str
    x: FloatArray
    values: FloatArray
    sharper: FloatArray
    holds: NDArray[np.bool_]
    bounds: tuple[RegretBound | None, ...] = field(repr=False)


def curve(
    bound: Callable[..., RegretBound], over: str, values: Iterable[float], *given: Any, **fixed: Any
) -> BoundCurve:
    """A bound as a curve over ``"epsilon"`` or ``"horizon"``, for plots such as the paper's figure 6.

    Parameters
    ----------
    bound : the function of the bound, such as :func:`etc_bound`.
    over, values : what varies, and the values that it takes.
    given, fixed : all other arguments of that function.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> gini, bandit = pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.9])
    >>> line = curve(etc_bound, "horizon", [10**4, 10**6, 10**8], gini, bandit, epsilon=0.5, confidence="auto")
    >>> line.values.round(3).tolist(), line.holds.tolist()
    ([7.056, 0.102, 0.001], [False, True, True])
    """
    _validation.check_choice("over", over, ["epsilon", "horizon"])
    points = [int(v) if over == "horizon" else float(v) for v in values]
    bounds: list[RegretBound | None] = []
    for point in points:
        try:
            bounds.append(bound(*given, **fixed, **{over: point}))
        except TiedMixturesError:
            bounds.append(None)
    return BoundCurve(
        over=over,
        x=np.array(points, dtype=np.float64),
        values=np.array([np.nan if b is None else b.value for b in bounds]),
        sharper=np.array([np.nan if b is None else b.sharper for b in bounds]),
        holds=np.array([b is not None and b.holds for b in bounds]),
        bounds=tuple(bounds),
    )
