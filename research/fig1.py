"""Figure 1 (``fig:inverted_S``): survival functions before and after the inverted-S distortion."""

from __future__ import annotations

import numpy as np
import scipy.stats as st

from pmbandits import InvertedS
from research import draw
from research.measure import rows, yes
from research.outcome import EXACT, Claim, Context, Outcome

TITLE = "The inverted-S distortion of three survival functions"
DISTRIBUTIONS = {
    "Gaussian": (st.norm(), -3.0, 4.0),
    "exponential": (st.expon(), 0.0, 6.0),
    "lognormal": (st.lognorm(1.0), 0.0, 12.0),
}
BETAS = (0.5, 1.0, 2.0)
TAIL = np.exp(-1.0)  # where h(u) = u for every β
POINTS = 241


def run(context: Context) -> Outcome:
    """Draw the curves; compare them with the survival function where that is below 1/e."""
    records = []
    moved: dict[float, list[float]] = {beta: [] for beta in BETAS}
    with draw.canvas(3, width=3.4) as (figure, axes):
        for ax, (name, (distribution, low, high)) in zip(axes, DISTRIBUTIONS.items(), strict=True):
            x = np.linspace(low, high, POINTS)
            survival = distribution.sf(x)
            tail = (survival < TAIL * (1 - 1e-9)) & (survival > 0.0)
            for beta, look in zip(BETAS, draw.LOOKS, strict=False):
                distorted = InvertedS(beta)(survival)
                moved[beta].append(float(np.median(distorted[tail] / survival[tail])))
                moved[beta].append(float((distorted[tail] / survival[tail]).min()))
                moved[beta].append(float((distorted[tail] / survival[tail]).max()))
                label = f"β = {beta:g}" + (" (as it is)" if beta == 1.0 else "")
                ax.plot(x, distorted, color=look.colour, ls=look.dash, lw=1.8, label=label)
                records += [
                    {"distribution": name, "beta": beta, "x": float(a), "survival": float(b), "distorted": float(c)}
                    for a, b, c in zip(x, survival, distorted, strict=True)
                ]
            ax.axhline(TAIL, color=draw.GREY, lw=0.8, ls=":")
            ax.set_title(name)
            ax.set_xlabel("x")
        axes[0].set_ylabel("h(P(X > x))")
        axes[0].text(-2.9, TAIL + 0.015, "1/e", color=draw.GREY, fontsize=8.5)
        axes[-1].legend()
    context.done(1.0)
    lifted, lowered = min(moved[0.5][1::3]), max(moved[2.0][2::3])
    claims = [
        Claim(
            "lifts",
            "With β < 1 the distortion gives more weight to rare large outcomes.",
            yes(lifted > 1.0),
            f"β = .5: wherever P(X > x) < 1/e, h exceeds it, by a factor of {lifted:.3f} at least.",
            {"least_factor": lifted},
            source="the example before fig:inverted_S",
            rule=EXACT,
        ),
        Claim(
            "lowers",
            "With β > 1 it gives them less.",
            yes(lowered < 1.0),
            f"β = 2: wherever P(X > x) < 1/e, h is at most {lowered:.3f} times it.",
            {"largest_factor": lowered},
            source="the example before fig:inverted_S",
            rule=EXACT,
        ),
    ]
    text = [
        "h(u) = exp(−(−ln u)^β) leaves u = 1/e where it is, for every β. The tail is what lies below that; the paper "
        "draws light tails (Gaussian, exponential) and a heavy one (lognormal), without their parameters: standard "
        "ones are taken.",
    ]
    return Outcome("fig1", TITLE, text, claims, {"fig1": figure}, {"fig1": rows(records)})
