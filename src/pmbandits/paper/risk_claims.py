"""What is claimed about risk-sensitive bandits, and whether it holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pmbandits.paper.outcome import Claim
from pmbandits.paper.risk_series import OURS, OURS_ETC, OURS_UCB, TRACK, Series, below_floor, best_of

SETTLED = 0.97  # of all pulls on one arm


def solitary_is_cvar_ucb(parts: list[Series]) -> Claim:
    """PM-UCB-M over single arms is CVaR-UCB."""
    away = max(float(np.abs(p.regret[OURS_UCB] - p.regret["CVaR-UCB"]).max()) for p in parts)
    return Claim(
        "pm-ucb-is-cvar-ucb",
        "For CVaR the paper's framework matches the published confidence bounds: PM-UCB-M deciding for one arm does "
        "what CVaR-UCB does.",
        "holds" if away < 1e-3 else "does not hold",
        f"The largest difference of their regrets in any trial and at any checkpoint is {away:.1e}.",
        {"largest_difference": away},
    )


def thompson_wins(parts: list[Series]) -> Claim:
    """The paper's algorithms match the best known regret on solitary instances."""
    sampled = ("M-CVTS", "B-CVTS", "ρ-NPTS")
    found = {p.title: min(p.last(s)[0] for s in sampled if s in p.regret) / p.last(best_of(p, True))[0] for p in parts}
    lost = [title for title, ratio in found.items() if ratio >= 1.0]
    return Claim(
        "ours-match-the-best-known",
        "On solitary instances the paper's algorithms match the best known regret.",
        "does not hold" if len(lost) < len(found) else "holds",
        f"Thompson sampling (M-CVTS, B-CVTS, ρ-NPTS) has less regret than the best of ours on {len(found) - len(lost)} "
        f"of {len(found)} settings; its regret is {min(found.values()):.2f} to {max(found.values()):.2f} times ours.",
        {f"ratio {title}": ratio for title, ratio in found.items()},
    )


def drm(parts: list[Series]) -> list[Claim]:
    """The paper's algorithms improve on W-UCB for distortion risk measures."""
    claims = []
    for key, label, why in (
        ("etc", OURS_ETC, " It explores a tenth of the rounds whatever the instance, and that is what it pays for."),
        ("ucb", OURS_UCB, ""),
    ):
        ratios = {p.title: p.last(label)[0] / p.last("W-UCB")[0] for p in parts}
        better = sum(ratio < 1.0 for ratio in ratios.values())
        claims.append(
            Claim(
                f"drm-{key}-better-than-w-ucb",
                f"For distortion risk measures {label}, improves on the risk-seeking baseline W-UCB.",
                "holds" if better == len(ratios) else "does not hold",
                f"Its regret is {_span(ratios)} times that of W-UCB, less on {better} of {len(ratios)} measures.{why}",
                ratios,
            )
        )
    return claims


def _span(ratios: Mapping[str, float]) -> str:
    return f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}"


def floor(parts: list[Series]) -> Claim:
    """Who settles on one arm keeps the regret of the best arm."""
    numbers: dict[str, float] = {}
    broken: list[str] = []
    exploring: dict[str, float] = {}
    waiting = 0
    for part in parts:
        assert part.floor is not None
        for label, shares in part.shares.items():
            if label in OURS or label == TRACK:
                continue
            mean, error = part.last(label)
            numbers[f"{part.title}: {label}"] = mean / part.floor
            if shares.max() < SETTLED:
                exploring[label] = max(exploring.get(label, 0.0), float(shares.max()))
                waiting += 1
            elif mean + 2.0 * error < 0.8 * part.floor:
                broken.append(label)
    settled = len(numbers) - waiting
    names = ", ".join(f"{label} (at most {100 * share:.0f} % on one arm)" for label, share in exploring.items())
    return Claim(
        "solitary-floor",
        "On mixture-optimal instances every policy that settles on one arm keeps the regret V(α*) − max U_h(F_i).",
        "does not hold" if broken else "holds" if settled else "not decidable",
        f"{settled} of {len(numbers)} runs of published policies have settled ({100 * SETTLED:.0f} % of pulls on one "
        f"arm); their regret is at least 0.8 of the floor{'' if not broken else ' but for ' + ', '.join(broken)}. "
        f"The other {waiting} still explore and are no test of it: {names or 'none'}.",
        numbers,
    )


def below_the_floor(parts: list[Series]) -> Claim:
    """The paper's algorithms go below that regret."""
    numbers = {p.title: below_floor(p) for p in parts}
    best = {p.title: best_of(p, True) for p in parts}
    return Claim(
        "ours-below-the-floor",
        "The paper's algorithms go below the floor of every single arm.",
        "holds" if min(numbers.values()) > 1.0 else "does not hold",
        "; ".join(f"{title}: {best[title]} is {ratio:.1f} times below" for title, ratio in numbers.items()) + ".",
        numbers,
    )
