"""Limits on shares: what a round costs with them, the regret within them, and how closely they are kept."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.stats as st
from rich.table import Table

import pmbandits as pmb
from pmbandits.constraints import Limits, limits
from pmbandits.engine.registry import REGISTRY
from pmbandits.engine.share_constraints import worst_case_excess

SEED, TRIALS, HORIZON = 20, 100, 20_000
NAMES = ["A", "B", "C", "D"]
COINS = pmb.Bandit.bernoulli([0.15, 0.5, 0.9, 0.7], NAMES)
BETAS = pmb.Bandit([st.beta(1, 4), st.beta(2, 3), st.beta(6, 2), st.beta(0.5, 0.5)], NAMES, support=pmb.Interval(0, 1))
PROBLEMS: list[tuple[str, pmb.Bandit, str]] = [("coins", COINS, "gini"), ("Beta arms", BETAS, "0.5*mean + gini")]
LIMITS = {
    "single arms": "A >= 10%; B >= 5%; C <= 30%; D <= 40%",
    "groups": "A + B >= 30%; C <= D; B + D <= 60%",
    "an equality": "A == 2 * B; C + D >= 20%",
}


def cost() -> Table:
    """CPU time of a round with limits, as a multiple of that without; the best of interleaved runs."""
    table = Table(title="Cost of a round with limits, without = 1 (limit: 1.2)")
    for head in ("policy", "arms", "ns without", *LIMITS):
        table.add_column(head, justify="left" if head in ("policy", "arms") else "right")
    for name, bandit, metric in PROBLEMS:
        for recipe in ("track", "vet", "ucfw"):
            best: dict[str, float] = {}
            for _ in range(5):
                for label, text in {"none": None, **LIMITS}.items():
                    policy = REGISTRY[recipe](shares=text).bind(metric, 4, bandit.support, names=NAMES)
                    seconds = _seconds(policy, bandit, metric)
                    best[label] = min(best.get(label, np.inf), seconds)
            ratios = (f"{best[label] / best['none']:.2f}" for label in LIMITS)
            table.add_row(recipe, name, f"{1e9 * best['none'] / HORIZON:.0f}", *ratios)
    return table


def _seconds(policy: Any, bandit: pmb.Bandit, metric: str) -> float:
    run = lambda: pmb.simulate(  # noqa: E731
        metric, bandit, {"it": policy}, HORIZON, trials=2, seed=SEED, n_jobs=1, checkpoints=[HORIZON]
    )
    if not _WARM.get((policy.name, repr(bandit), str(policy.limits))):
        run()
        _WARM[policy.name, repr(bandit), str(policy.limits)] = True
    return float(np.min(run().seconds("it")))


_WARM: dict[Any, bool] = {}


def regret() -> Table:
    """Regret within limits, against the best mixture within them, beside that without limits."""
    table = Table(title=f"Regret after {HORIZON:,} rounds, mean of {TRIALS} trials (± s.e.), in 1e-4")
    for head in ("arms", "limits", "Track", "Vet", "UCFW", "PM-UCB-M"):
        table.add_column(head, justify="left" if head in ("arms", "limits") else "right")
    for name, bandit, metric in PROBLEMS:
        for label, text in {"none": None, **LIMITS}.items():
            policies = [pmb.Track(), pmb.Vet(), pmb.UCFW(bonus="variance"), pmb.PMUCB(horizon=HORIZON, epsilon=1 / 12)]
            if bandit is BETAS:
                policies.pop()
            run = pmb.simulate(metric, bandit, policies, HORIZON, TRIALS, SEED, shares=text, checkpoints=[HORIZON])
            cells = []
            for policy in run.policies:
                values = 1e4 * run.regret(policy)[1][:, -1]
                cells.append(f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(values.size):.2f}")
            table.add_row(name, label, *cells, *([""] * (4 - len(cells))))
    return table


def games() -> Table:
    """How far limits are exceeded at most, at any time, whatever is proposed: random limits and proposals."""
    table = Table(title="Pulls beyond a limit at most, at any time, in 300 games of 2,000 rounds")
    for head in ("limits", "worst", "promised", "above one pull"):
        table.add_column(head, justify="left" if head == "limits" else "right")
    rng = np.random.default_rng(SEED)
    for kind in ("single arms", "several arms"):
        worst, promised = [], []
        while len(worst) < 300:
            found = _random_limits(rng, kind == "single arms")
            if found is None:
                continue
            policy = pmb.SolitaryArm("mean", names=list(found.names), support=pmb.Binary(), shares=found)
            worst.append(_game(policy, rng))
            promised.append(float(worst_case_excess(found).max()))
        above = np.mean(np.array(worst) > 1.0 + 1e-6)
        table.add_row(kind, f"{max(worst):.3f}", f"{max(promised):.2f}", f"{100 * above:.1f} %")
    return table


def _game(policy: Any, rng: np.random.Generator) -> float:
    """One game: the arm that is proposed changes at random times."""
    found = policy.limits.polytope
    t, worst = 0, 0.0
    pulls = np.zeros(policy.n_arms)
    while t < 2_000:
        policy._memory.arm = int(rng.integers(policy.n_arms))
        arms = policy.ask(int(rng.integers(1, 40)))
        steps = np.cumsum(np.eye(policy.n_arms)[arms], axis=0) + pulls
        over = steps @ found.matrix.T - (t + 1 + np.arange(arms.size))[:, None] * found.bound
        worst = max(worst, float(np.where(found.equal, np.abs(over), over).max()))
        pulls, t = steps[-1], t + arms.size
    return worst


def _random_limits(rng: np.random.Generator, single: bool) -> Limits | None:
    k = int(rng.integers(3, 7))
    names, inside = NAMES + ["E", "F"], rng.dirichlet(np.ones(k))
    texts = []
    for _ in range(int(rng.integers(1, 5))):
        some = rng.permutation(k)[: 1 if single else int(rng.integers(1, k))]
        total, left = float(inside[some].sum()), " + ".join(names[i] for i in some)
        sign, at = (">=", total * rng.uniform(0.5, 1)) if rng.random() < 0.5 else ("<=", total + 0.2 * rng.random())
        if not single and rng.random() < 0.3:
            a, b = rng.permutation(k)[:2]
            texts.append(f"{names[a]} {rng.choice(['==', '<='])} {inside[a] / inside[b]:.6f} * {names[b]}")
        else:
            texts.append(f"{left} {sign} {at:.6f}")
    try:
        found = limits("; ".join(texts), names[:k])
        pmb.Uniform("mean", names=list(found.names), support=pmb.Binary(), shares=found)
    except ValueError:
        return None
    return found if len(found) else None


def tables() -> list[Table]:
    """All tables, with the time that they took."""
    start = time.process_time()
    out = [cost(), regret(), games()]
    out[-1].caption = f"{time.process_time() - start:.0f} s of CPU"
    return out
