"""What is claimed about risk-sensitive bandits, and whether it holds."""

from __future__ import annotations

from research.measure import Mean, every, positive
from research.outcome import Claim
from research.risk_rates import Rate, exponent_text
from research.risk_series import OURS_BETA, OURS_ETC, OURS_UCB, Series, below_floor, beside, best_of

SLACK = 0.1  # of an exponent: what short horizons and the terms of lower order may take away
RULE = f"the fitted exponent must be above the claimed one less {SLACK:g}, by two standard errors over the trials"
SOURCE = "sec: risk_application, the paragraph on {}"


def rates(parts: list[Rate], what: str, topic: str) -> list[Claim]:
    """PM-ETC-M with ε = 1 and PM-UCB-M with β = 1 have the orders that the paper gives."""
    out = []
    for key, label, name, orders in (
        ("etc", OURS_ETC, "PM-ETC-M with ε = 1", [p.etc_order for p in parts]),
        ("ucb", OURS_BETA, "PM-UCB-M with β = 1", [p.ucb_order for p in parts]),
    ):
        found = [p.exponent(label) for p in parts]
        judged = [Mean(m.value - order + SLACK, m.error) for m, order in zip(found, orders, strict=True)]
        power = {"etc": "q", "ucb": "(qκ)"}[key]
        out.append(
            Claim(
                f"{topic}-{key}-rate",
                f"{what}: the regret of {name} is of the order (log T / T)^{power}.",
                every(positive(m) for m in judged),
                "Fitted exponents: "
                + "; ".join(
                    f"{p.series.title} {exponent_text(m)} where {order:.3g} is claimed ({positive(j)})"
                    for p, m, order, j in zip(parts, found, orders, judged, strict=True)
                )
                + ".",
                {f"exponent {p.series.title}": m.value for p, m in zip(parts, found, strict=True)}
                | {f"error {p.series.title}": m.error for p, m in zip(parts, found, strict=True)},
                source=SOURCE.format({"cvar": "CVaR", "drm": "DRMs"}[topic]),
                rule=RULE,
            )
        )
    return out


def better_than_w_ucb(parts: list[Rate]) -> list[Claim]:
    """For distortion risk measures the paper's algorithms improve on W-UCB."""
    horizon = int(parts[0].series.t[-1])
    out = []
    for key, label, source in (("etc", OURS_ETC, SOURCE.format("DRMs")), ("ucb", OURS_UCB, "")):
        gains = {p.series.title: beside(p.series, label, "W-UCB") for p in parts}
        ratios = {p.series.title: p.series.last(label)[0] / p.series.last("W-UCB")[0] for p in parts}
        out.append(
            Claim(
                f"drm-{key}-better-than-w-ucb",
                f"Distortion risk measures: {label}, has less regret than the risk-seeking baseline W-UCB.",
                every(positive(m) for m in gains.values()),
                f"Regret of W-UCB minus its own at T = {horizon:,}, in pairs: "
                + "; ".join(f"{title} {m}, {ratios[title]:.2g} times that of W-UCB" for title, m in gains.items())
                + ".",
                {f"gain {title}": m.value for title, m in gains.items()}
                | {f"ratio {title}": value for title, value in ratios.items()},
                source=source,
            )
        )
    return out


def matches_best_published(parts: list[Series]) -> Claim:
    """On solitary instances the paper's algorithms have less regret than the best published one."""
    found = {}
    for part in parts:
        mine, theirs = best_of(part, True), best_of(part, False)
        found[part.title] = (beside(part, mine, theirs), part.last(theirs)[0] / part.last(mine)[0], mine, theirs)
    verdicts = [positive(gain) for gain, _, _, _ in found.values()]
    return Claim(
        "level-with-the-best",
        "Where one arm is best, the best of the paper's algorithms has less regret than the best published one, not "
        "only the same order.",
        every(verdicts),
        f"It has less on {verdicts.count('holds')} of {len(found)} settings, more on "
        f"{verdicts.count('does not hold')}. Regret of the published one ÷ that of the paper's: "
        + "; ".join(f"{title} {share:.2g} ({theirs}, {mine})" for title, (_, share, mine, theirs) in found.items())
        + ".",
        {f"ratio {title}": share for title, (_, share, _, _) in found.items()},
    )


def beats_best_single_arm(parts: list[Series]) -> Claim:
    """The paper's algorithms go below the regret of the best single arm."""
    best = {p.title: best_of(p, True) for p in parts}
    gains = {}
    for part in parts:
        assert part.floor is not None
        mean, error = part.last(best[part.title])
        gains[part.title] = Mean(part.floor - mean, error)
    return Claim(
        "below-the-floor",
        "Where a mixture is best, the paper's algorithms have less regret than the best single arm.",
        every(positive(m) for m in gains.values()),
        "; ".join(f"{p.title}: {best[p.title]} is {below_floor(p):.1f} times below" for p in parts) + ".",
        {p.title: below_floor(p) for p in parts},
    )
