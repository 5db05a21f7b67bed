"""Risk measures on sub-Gaussian arms, to which the paper generalises known results (``sec: risk_application``).

The baseline is the index of Prashanth and Bhat (2022, *A Wasserstein distance approach for concentration of empirical
risk estimates*, JMLR), turned round to seek large values as the paper does: the empirical value of an arm plus what its
Hölder pair allows within the radius of their own concentration inequality (``lemma: concentration``). We know it from
the paper only; it has log T where a version without a horizon has log t.
"""

from __future__ import annotations

import numpy as np
import scipy.stats as st

from pmbandits import Bandit, Distortion, DualPower, Policy, Quadratic, SolitaryUCB, UpperCVaR
from research.measure import Mean, every, play, positive
from research.outcome import Claim, Context, FloatArray, Shown
from research.risk_rates import EXPLORATIONS, Rate, explorer, explorers, exponent_text, take_tuned
from research.risk_series import OURS_CE, OURS_ETC, PRASHANTH_BHAT, Series, beside, mean_error

METRICS: tuple[Distortion, ...] = (UpperCVaR(0.5), DualPower(2.0), Quadratic(0.5))
MEANS = (0.0, 0.5, 1.0)
SLACK = 0.1
RULE = f"the fitted exponent must be above the claimed one less {SLACK:g}, by two standard errors over the trials"
SOURCE = "sec: risk_application, on sub-Gaussian distributions"


def arms() -> Bandit:
    """Three normal arms of variance 1; each dominates the one before, so every increasing measure agrees."""
    return Bandit([st.norm(m) for m in MEANS], names=[f"N({m:g}, 1)" for m in MEANS])


def rate(context: Context, metric: Distortion, horizons: tuple[int, ...], trials: int) -> Rate:
    """Play one measure over several horizons."""
    columns: dict[str, list[FloatArray]] = {}
    for horizon in horizons:
        policies: dict[str, Policy] = {
            OURS_CE: SolitaryUCB(horizon=horizon, index="additive"),
            PRASHANTH_BHAT: SolitaryUCB(horizon=horizon, index="additive", confidence="paper"),
            **explorers(horizon, len(MEANS)),
        }
        run = play(context, f"gaussian-{metric}/{horizon}", metric, arms(), policies, horizon, trials, checkpoints=1)
        for label in policies:
            columns.setdefault(label, []).append(run.regret(label)[1][:, -1])
    regret = {label: np.stack(found, axis=1) for label, found in columns.items()}
    swept = {c: regret[explorer(c)] for c in EXPLORATIONS}
    return Rate(metric, Series(f"{metric!r}, normal arms", np.array(horizons), take_tuned(regret), {}), swept)


def claims(parts: list[Rate]) -> list[Claim]:
    """The order of PM-ETC-M on sub-Gaussian arms, and whether it improves on the baseline."""
    found = [part.exponent(OURS_ETC) for part in parts]
    judged = [Mean(m.value - part.etc_order + SLACK, m.error) for m, part in zip(found, parts, strict=True)]
    gains = {part.series.title: beside(part.series, OURS_ETC, PRASHANTH_BHAT) for part in parts}
    return [
        Claim(
            "gaussian-etc-rate",
            "Sub-Gaussian arms (CVaR, dual power, quadratic): the regret of PM-ETC-M with ε = 1 is of the order "
            "(log T / T)^q.",
            every(positive(m) for m in judged),
            "Fitted exponents: "
            + "; ".join(
                f"{part.series.title} {exponent_text(m)} where {part.etc_order:.3g} is claimed ({positive(j)})"
                for part, m, j in zip(parts, found, judged, strict=True)
            )
            + ".",
            {f"exponent {part.series.title}": m.value for part, m in zip(parts, found, strict=True)},
            source=SOURCE,
            rule=RULE,
        ),
        Claim(
            "gaussian-better-than-prashanth-bhat",
            "Sub-Gaussian arms: PM-ETC-M, ε = 1, has less regret than the index of Prashanth and Bhat.",
            every(positive(m) for m in gains.values()),
            f"Regret of that index minus its own at T = {int(parts[0].series.t[-1]):,}, in pairs: "
            + "; ".join(f"{title} {m}" for title, m in gains.items())
            + ". With its constants, which are the paper's, the baseline has not begun to choose; CE-UCB-M over "
            "single arms "
            "is the same index with a tight radius.",
            {f"gain {title}": m.value for title, m in gains.items()},
            source=SOURCE,
        ),
    ]


def table(parts: list[Rate], trials: int) -> Shown:
    """Regret at the end, and the fitted exponent of log T / T."""
    rows = []
    for label in parts[0].series.regret:
        cells = []
        for part in parts:
            middle, error = mean_error(part.series.regret[label][:, -1])
            cells.append(f"{middle:.2e} ± {error:.0e}; p = {exponent_text(part.exponent(label))}")
        rows.append([label, *cells])
    horizons = parts[0].series.t
    return Shown(
        f"Part 3b: normal arms with means {', '.join(f'{m:g}' for m in MEANS)} and variance 1, which are sub-Gaussian "
        "and "
        f"not bounded: regret at T = {horizons[-1]:,} over {trials} trials, and the exponent p of (log T / T)^p fitted "
        f"from T = {horizons[0]:,} on.",
        ["policy", *(part.series.title for part in parts)],
        rows,
    )
