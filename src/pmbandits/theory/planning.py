"""Horizon needed for a target regret: by the paper's bound, by that bound with a tight set, and by simulation."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits._text_tables import aligned_columns
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures import grid_size
from pmbandits.optimize import oracle, utility
from pmbandits.policies import CEUCB, CIRT, PMETC, PMUCB, Policy
from pmbandits.simulation import simulate
from pmbandits.supports import Binary, Finite, Real, Support
from pmbandits.tables.distributions import Atoms
from pmbandits.theory.bounds import BOUNDS, RegretBound, cirt_bound
from pmbandits.theory.deviations import deviation_valid_at_all_times, deviation_valid_up_to_horizon
from pmbandits.theory.instance import Grid, facts, support_of_bandit

_POLICIES = {"pmetc": PMETC, "pmucb": PMUCB, "ceucb": CEUCB, "cirt": CIRT}
_MAX_GRID_POINTS = 20_000  # mixtures of the finest grid that a plan looks at
_MAX_HORIZON = 10**60  # a horizon beyond this is called out of reach
_HARDNESS_FACTOR = 3.0  # the hard instance punishes playing all arms equally by this many targets


@dataclass(frozen=True)
class PlanColumn:
    """One answer of a plan: the horizon, ε and exploration that it takes, and the regret that then follows.

    ``horizon`` is infinite where the target is out of reach; ``note`` says why.
    """

    by: str
    horizon: float
    epsilon: float
    exploration: float
    regret: float
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """What it takes to reach a target regret, answered in three ways side by side.

    Attributes
    ----------
    policy, metric, bandit, target : the question. The bandit is the one that was given, or the hard one that was made
        up.
    by_bound : the answer of the theorem with the paper's constants.
    by_tight_set : the answer of the same theorem with the tight confidence set of the support.
    by_simulation : the answer from simulations of the policy, at longer and longer horizons.
    """

    policy: str
    metric: Distortion
    bandit: Bandit
    target: float
    by_bound: PlanColumn
    by_tight_set: PlanColumn
    by_simulation: PlanColumn

    @property
    def columns(self) -> tuple[PlanColumn, PlanColumn, PlanColumn]:
        """The three answers."""
        return (self.by_bound, self.by_tight_set, self.by_simulation)

    def text(self) -> str:
        """The answers as a table."""
        head = ("", *(c.by for c in self.columns))
        names = ("horizon", "epsilon", "exploration", "regret")
        rows = [head, *((name, *(_format_number(getattr(c, name)) for c in self.columns)) for name in names)]
        lines = [f"{self.policy}, {self.metric!r}, regret ≤ {self.target:g}", f"arms: {self.bandit!r}"]
        lines += aligned_columns(rows, right=range(4))
        lines += [f"{c.by}: {c.note}" for c in self.columns if c.note]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()


def plan(
    metric: Distortion | str,
    where: Bandit | Support,
    n_arms: int | None = None,
    target_regret: float = 0.01,
    policy: str = "pmetc",
    *,
    trials: int = 20,
    longest: int | None = None,
    seed: int = 0,
) -> Plan:
    """How long to play, with which ε and how much exploration, so that the regret is below a target.

    Parameters
    ----------
    metric : what you value.
    where : the arms, if you know them. If not, the support of the rewards, for which hard arms are made up.
    n_arms : how many arms there are; needed with a support only.
    target_regret : how much utility may be lost, on average over runs.
    policy : ``"pmetc"``, ``"pmucb"``, ``"ceucb"`` or ``"cirt"``.
    trials : how many runs are simulated at each horizon.
    longest : the longest horizon that is simulated. The default is a million on finite supports. On continuous ones,
        where a round costs more the longer the run, it is 50,000 for PM-ETC-M and 2,000 for the others.
    seed : the seed of the simulation.

    The arms that are made up lie on the ends of the support (normal arms on ``Real``). They are evenly spaced, and
    placed such that playing all arms equally loses about three times the target: enough to matter, but hard to see. If
    that is possible with a mixture as the best choice, such arms are taken.

    The bounds use the gap to the next different value of the grid (``gap="distinct"``), and the ε that needs the
    shortest horizon. The simulated horizon is the first power of 2 (or ``longest``) at which the mean regret, plus two
    standard errors, is below the target.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> found = pmb.theory.plan(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), target_regret=0.01)
    >>> f"{found.by_bound.horizon:.0e} {found.by_tight_set.horizon:.0e}", found.by_simulation.horizon < 10_000
    ('8e+13 3e+09', True)
    """
    metric = as_metric(metric)
    target = _validation.check_within("target_regret", target_regret, 0.0, open_lo=True)
    _validation.check_choice("policy", policy, _POLICIES)
    trials = _validation.check_whole_number("trials", trials, 2)
    if isinstance(where, Bandit):
        if n_arms is not None and n_arms != where.n_arms:
            raise ValueError(f"the bandit has {where.n_arms} arms, but n_arms = {n_arms}; leave n_arms out.")
        bandit = where
    elif isinstance(where, Support):
        if n_arms is None:
            raise ValueError("with a support, say how many arms there are: n_arms=3.")
        bandit = hard_instance(metric, where, n_arms, target)
    else:
        raise TypeError(f"give a Bandit or a support such as Binary(), got {where!r}.")
    support = support_of_bandit(bandit)
    if longest is None:
        counts = isinstance(support, (Binary, Finite))
        longest = 1_000_000 if counts else 50_000 if policy == "pmetc" else 2_000
    longest = _validation.check_whole_number("longest", longest, 128)
    return Plan(
        policy=policy,
        metric=metric,
        bandit=bandit,
        target=target,
        by_bound=_plan_by_bound("the paper's bound", metric, bandit, target, policy, "paper"),
        by_tight_set=_plan_by_bound("the bound, tight set", metric, bandit, target, policy, "auto"),
        by_simulation=_plan_by_simulation(metric, bandit, target, policy, trials, longest, seed),
    )


def hard_instance(metric: Distortion, support: Support, n_arms: int, target: float) -> Bandit:
    """Arms for which playing all of them equally loses about three times the target, or as much as is possible.

    >>> import pmbandits as pmb
    >>> hard_instance(pmb.GiniDeviation(), pmb.Binary(), 2, 0.01)
    Bandit(arm 0: bernoulli(0.05), arm 1: bernoulli(0.55); support Binary())
    """
    n_arms = _validation.check_whole_number("n_arms", n_arms, 2)
    positions = np.arange(n_arms) / (n_arms - 1) - 0.5
    wanted_loss = _HARDNESS_FACTOR * target
    ranked: list[tuple[tuple[float, ...], Bandit]] = []
    for bandit in _bandits_of_growing_spread(support, positions):
        best = oracle(metric, bandit)
        loss = best.value - utility(metric, bandit, np.full(n_arms, 1.0 / n_arms))
        # Enough to lose, then as little as possible, and rather where a mixture is best: that takes the grid.
        rank = (0.0, float(not best.is_mixture), loss) if loss >= wanted_loss else (1.0, 0.0, -loss)
        ranked.append((rank, bandit))
    return min(ranked, key=lambda item: item[0])[1]


def _bandits_of_growing_spread(support: Support, positions: FloatArray) -> list[Bandit]:
    if isinstance(support, Real):
        import scipy.stats as st

        spreads = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
        return [
            Bandit([st.norm(support.sigma * s * x, support.sigma) for x in positions], support=support) for s in spreads
        ]
    found = []
    for centre in np.linspace(0.1, 0.9, 17):
        for spread in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
            means = np.round(centre + spread * positions, 6)
            if means[0] < 0.02 or means[-1] > 0.98:
                continue
            if isinstance(support, Binary):
                found.append(Bandit.bernoulli(means))
            else:
                ends = np.array([support.lo, support.hi])
                found.append(Bandit([Atoms(ends, np.array([1.0 - p, p])) for p in means], support=support))
    return found


# ---- by the bounds ---------------------------------------------------------------------------------------
def _plan_by_bound(
    by: str, metric: Distortion, bandit: Bandit, target: float, policy: str, confidence: str
) -> PlanColumn:
    try:
        known = facts(metric, bandit)
    except ValueError as error:
        return PlanColumn(by, inf, np.nan, np.nan, np.nan, f"no bound: {error}")
    if policy == "cirt":
        return _plan_by_cirt_bound(by, metric, bandit, target, confidence)
    needs = deviation_valid_up_to_horizon(confidence, known.support, known.n_arms, 10).condition
    if not needs.holds:
        return PlanColumn(by, inf, np.nan, np.nan, np.nan, f"it needs that {needs.text}; {needs.remedy}")
    grid: Grid = "etc" if policy == "pmetc" else "ucb"
    best: RegretBound | None = None
    offset = 0.0 if grid == "etc" else known.n_arms / 2.0
    steps, worse = 1, 0
    while worse < 3 and grid_size(known.n_arms, 1.0 / (steps + offset), grid) <= _MAX_GRID_POINTS:
        epsilon = 1.0 / (steps + offset)
        if known.grid_loss(1, epsilon, grid) < target and known.gap(epsilon, "distinct", grid) > 0.0:
            limit = _MAX_HORIZON if best is None else best.horizon
            found = _shortest_horizon_bound(BOUNDS[policy], metric, bandit, epsilon, confidence, target, limit)
            if found is not None and (best is None or found.horizon < best.horizon):
                best, worse = found, 0
            elif best is not None:
                worse += 1
        steps = steps + 1 if steps < 8 else ceil(1.25 * steps)
    if best is None:
        return PlanColumn(by, inf, np.nan, np.nan, np.nan, f"no grid and no horizon below {_MAX_HORIZON:.0e} reach it")
    return PlanColumn(by, float(best.horizon), best.epsilon, best.exploration, best.value)


def _shortest_horizon_bound(
    make: Any, metric: Distortion, bandit: Bandit, epsilon: float, confidence: str, target: float, limit: int
) -> RegretBound | None:
    """The bound at the least horizon, to 1 %, at which it holds and is below the target."""

    def at(horizon: int) -> RegretBound | None:
        bound: RegretBound = make(metric, bandit, horizon, epsilon, gap="distinct", confidence=confidence)
        return bound if bound.holds and bound.value <= target else None

    low, high = 2, 4
    found = at(high)
    while found is None:
        low, high = high, 4 * high
        if low > limit:
            return None
        found = at(high)
    while high > 1.01 * low + 1:
        middle = (low + high) // 2 if high < 4 * low else 2 * low
        trial = at(middle)
        if trial is None:
            low = middle
        else:
            high, found = middle, trial
    return found


def _plan_by_cirt_bound(by: str, metric: Distortion, bandit: Bandit, target: float, confidence: str) -> PlanColumn:
    known = facts(metric, bandit)
    scale = known.anytime_scale
    epsilon = min(0.5, (0.9 * target / scale) ** (1.0 / known.q))  # a tenth of the target is left for tracking
    try:
        bound = cirt_bound(metric, bandit, 10, epsilon, gap="distinct", confidence=confidence)
    except ValueError as error:
        return PlanColumn(by, inf, epsilon, np.nan, np.nan, f"no bound: {error}")
    settled = bound.earliest
    if not isfinite(settled):
        why = "the best mixtures of some grid tie, so the proof's time is infinite"
        return PlanColumn(by, inf, epsilon, np.nan, np.nan, why)
    horizon = max(settled + 1.0, (0.1 * target / scale) ** (-1.0 / known.q))
    final = scale * (epsilon**known.q + horizon**-known.q)
    note = f"with probability ≥ {bound.probability:.3g}"
    validity = deviation_valid_at_all_times(confidence, known.support, known.n_arms, 0.05).condition
    if not validity.holds:
        note += f"; but its sets are not valid: it needs that {validity.text}"
    return PlanColumn(by, horizon, epsilon, bound.exploration, final, note)


# ---- by simulation -------------------------------------------------------------------------------------------
def _plan_by_simulation(
    metric: Distortion, bandit: Bandit, target: float, policy: str, trials: int, longest: int, seed: int
) -> PlanColumn:
    horizon, last = 128, False
    while True:
        try:
            policy_spec: Policy = _POLICIES[policy](**({} if policy == "cirt" else {"horizon": horizon}))
            bound_policy = policy_spec.bind(metric, bandit.n_arms, bandit.support)  # type: ignore[arg-type]
        except ValueError as error:
            return PlanColumn("simulation", inf, np.nan, np.nan, np.nan, f"{policy} cannot be run: {error}")
        regrets = _simulated_final_regrets(bandit, metric, policy_spec, horizon, trials, seed)
        mean, standard_error = float(regrets.mean()), float(regrets.std(ddof=1) / np.sqrt(trials))
        if mean + 2.0 * standard_error <= target or last:
            break
        horizon = min(2 * horizon, longest)
        last = horizon == longest
    explored = bound_policy.explore_rounds if policy != "cirt" else np.nan
    note = f"{trials} runs at each horizon, default options, standard error {standard_error:.1g}"
    if mean + 2.0 * standard_error > target:
        note = (
            f"not reached by T = {longest:,}, where regret was {mean:.3g} ± {standard_error:.1g}; take a larger longest"
        )
        return PlanColumn("simulation", inf, float(bound_policy.epsilon or np.nan), explored, mean, note)
    return PlanColumn("simulation", float(horizon), float(bound_policy.epsilon or np.nan), explored, mean, note)


def _simulated_final_regrets(
    bandit: Bandit, metric: Distortion, policy_spec: Policy, horizon: int, trials: int, seed: int
) -> FloatArray:
    """Simulate a policy and return its final regret V(α*) − V(τ_T/T) in each trial."""
    run = simulate(metric, bandit, policy_spec, horizon, trials, seed, checkpoints=1, progress=False)
    return run.regret(run.policies[0])[1][:, -1]


def _format_number(number: float) -> str:
    if np.isnan(number):
        return "–"
    if not isfinite(number):
        return "out of reach"
    return f"{number:,.0f}" if 1000 <= number < 1e7 else f"{number:.3g}"
