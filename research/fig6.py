"""Figure 6 (``fig:gini_comparison``): the regret bounds against the grid's spacing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.stats as st

from pmbandits import Bandit, GiniDeviation, etc_grid, oracle, ucb_grid, utility
from pmbandits.theory import curve, estimation_limit, etc_bound, ucb_bound
from research import draw
from research.instances import INNER_PAIRS
from research.measure import every, rows, whichever
from research.outcome import Claim, Context, FloatArray, Outcome, Shown, Verdict

TITLE = "The regret bounds against ε"
BOUNDS: dict[str, Any] = {"PM-UCB-M": ucb_bound, "PM-ETC-M": etc_bound}
SOURCES = {"PM-UCB-M": "fig:Gini_emp_epsilon", "PM-ETC-M": "fig:Gini_emp_epsilon_ETC"}
SETS = {
    "paper": "the paper's constants",
    "limit": "the paper's constants, and its limit on δ₀₁(ε) in place of δ₀₁(ε)",
    "auto": "tight sets",
}
GRIDS: dict[str, Any] = {"PM-UCB-M": ucb_grid, "PM-ETC-M": etc_grid}
EPSILONS = tuple(float(e) for e in np.geomspace(0.03, 0.45, 25))
POWERS = {False: tuple(range(10, 21)), True: (12, 15, 18, 20)}  # of ten: horizons; the paper names none
EACH = {False: 1, True: 5}  # every so many pairs of arms are taken
DRAWN = (12, 15, 18, 20)
LEAST = 5  # this many spacings must comply for a curve to be judged
SIGNIFICANCE = 0.05
RULE = (
    f"judged at each power of ten at which {LEAST} spacings or more comply: whether the rank correlation of bound and "
    "ε is "
    f"positive or negative, with p < {SIGNIFICANCE:g}; nothing is random"
)

Ranks = dict[int, tuple[float, float]]  # power of ten of the horizon → Spearman's ρ, and its p


def run(context: Context) -> Outcome:
    """The median of each bound over the pairs, at every ε at which it holds for most of them; no randomness."""
    records: list[dict[str, Any]] = []
    claims, lines = [], []
    powers, bandits = POWERS[context.quick], INNER_PAIRS.bandits[:: EACH[context.quick]]
    with draw.canvas(2, width=4.2, height=3.3) as (figure, axes):
        for place, (ax, policy) in enumerate(zip(axes, BOUNDS, strict=True)):
            found = {power: {key: _bound(policy, bandits, power, key) for key in SETS} for power in powers}
            ranks: dict[str, Ranks] = {key: {} for key in SETS}
            for power, by_sets in found.items():
                cells = []
                for key, (values, holds) in by_sets.items():
                    records += [
                        {"policy": policy, "horizon": 10.0**power, "confidence": key, "epsilon": e,
                         "bound": float(v), "holds": bool(h)}
                        for e, v, h in zip(EPSILONS, values, holds, strict=True)
                    ]  # fmt: skip
                    if holds.sum() >= LEAST:
                        ranks[key][power] = _rank(np.array(EPSILONS)[holds], values[holds])
                    rank = f"{ranks[key][power][0]:+.2f}" if power in ranks[key] else "–"
                    cells += [f"{holds.sum()} of {len(EPSILONS)}", rank]
                lines.append([policy, f"1e{power}", *cells])
            for look, power in zip(draw.LOOKS, DRAWN, strict=False):
                values, holds = found[power]["paper"]
                if holds.any():
                    ax.plot(np.array(EPSILONS)[holds], values[holds], color=look.colour, ls=look.dash,
                            marker=look.mark, ms=4, lw=1.4, label=f"T = 1e{power}")  # fmt: skip
            ax.set_xscale("log")
            ax.set_yscale("log")
            draw.number_axis(ax, (0.03, 0.06, 0.12, 0.25, 0.45))
            ax.set_xlabel("ε")
            ax.set_title(f"{policy}, paper's constants")
            claims += [_claim(policy, key, ranks[key]) for key in SETS]
            context.done((place + 1) / 2)
        axes[0].set_ylabel("bound on the regret")
        handles, labels = axes[1].get_legend_handles_labels()  # there every horizon has spacings that comply
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    text = [
        f"Gini deviation, Bernoulli arms. {INNER_PAIRS.why} Drawn with the paper's constants, where the theorem's "
        "conditions are met: T > T(ε) for PM-UCB-M, T > N(ε) for PM-ETC-M. The paper names no T. How many spacings "
        f"comply depends on it, from none to all {len(EPSILONS)} (table), so powers of ten from 1e{powers[0]} to "
        f"1e{powers[-1]} are taken; with tight confidence sets in the same formulas far shorter horizons comply.",
        "The bound has two parts: what estimation and steering cost, which falls with ε, and the grid's own error "
        "δ₀₁(ε), which grows. For PM-ETC-M the first is the larger at all horizons just beyond the condition; only at "
        "far "
        "longer ones the second. So whether the bound grows with ε depends on the T that the paper does not name. It "
        "may "
        "also have drawn the limit of lemma:Delta_error on δ₀₁(ε), which is larger: with it the bound grows from "
        "shorter horizons on.",
    ]
    heads = [
        f"{said}: {what}" for said in ("paper's constants", "limit on δ₀₁", "tight sets") for what in ("comply", "ρ")
    ]
    caption = "At how many of the spacings the conditions are met, and Spearman's ρ of bound and ε there"
    shown = [Shown(caption, ["policy", "T", *heads], lines)]
    return Outcome("fig6", TITLE, text, claims, {"fig6": figure}, {"fig6": rows(records)}, shown)


def _bound(policy: str, bandits: list[Bandit], power: int, confidence: str) -> tuple[FloatArray, Any]:
    """The median of the bound over the pairs of arms, and where most of them comply."""
    gini, sets = GiniDeviation(), "paper" if confidence == "limit" else confidence
    curves = [
        curve(BOUNDS[policy], "epsilon", EPSILONS, gini, bandit, horizon=10**power, gap="distinct", confidence=sets)
        for bandit in bandits
    ]
    values = np.array([c.values for c in curves])
    if confidence == "limit":
        for k, bandit in enumerate(bandits):
            values[k] += [estimation_limit(gini, bandit, e) - _grid_loss(policy, bandit, e) for e in EPSILONS]
    return np.nanmedian(values, axis=0), np.mean([c.holds for c in curves], axis=0) > 0.5


def _grid_loss(policy: str, bandit: Bandit, epsilon: float) -> float:
    """δ₀₁(ε): what the best mixture of the grid loses to the best of all."""
    gini = GiniDeviation()
    return oracle(gini, bandit).value - max(utility(gini, bandit, a) for a in GRIDS[policy](2, epsilon))


def _rank(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    found = st.spearmanr(x, y)
    return float(found.statistic), float(found.pvalue)


def _claim(policy: str, sets: str, ranks: Mapping[int, tuple[float, float]]) -> Claim:
    found: dict[int, Verdict] = {
        power: "not decidable" if p >= SIGNIFICANCE else "holds" if rho > 0.0 else "does not hold"
        for power, (rho, p) in ranks.items()
    }
    late = next((power for power in found if all(found[p] == "holds" for p in found if p >= power)), None)
    fails = "does not hold" in found.values()
    since = f" It grows from T = 1e{late} on, and not below." if late is not None and fails else ""
    key = policy.split("-")[1].lower()
    end = {
        "paper": ".",
        "limit": ", with lemma:Delta_error's limit in place of δ₀₁(ε).",
        "auto": ", also with tight confidence sets in place of the paper's constants.",
    }
    return Claim(
        f"{key}-grows" + {"paper": "", "limit": "-limit", "auto": "-tight"}[sets],
        f"{policy}: where the theorem's conditions are met, its bound grows with ε{end[sets]}",
        whichever(found.values()) if fails else every(found.values()),
        f"With {SETS[sets]}, Spearman's ρ between bound and ε: "
        + ", ".join(f"{rho:+.2f} at T = 1e{power}" for power, (rho, _) in ranks.items())
        + f".{since}",
        {f"spearman_T_1e{power}": rho for power, (rho, _) in ranks.items()},
        source=SOURCES[policy] if sets == "paper" else "",
        rule=RULE,
    )
