"""Figure 3 (``fig:combined_gini_wang``): regret against the horizon, two Bernoulli arms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pmbandits import PMETC, PMUCB, GiniDeviation, Uniform, WangRightTail
from pmbandits.theory import paper_radius
from research import draw
from research.instances import GINI_PAIRS, REGRET_HORIZONS_WHY, WANG_PAIRS, Family
from research.measure import Mean, every, flat, mean, play, positive
from research.outcome import Claim, Context, FloatArray, Outcome, Shown

TITLE = "Regret against the horizon, two Bernoulli arms"
CASES = {
    "gini": ("Gini deviation", GiniDeviation(), GINI_PAIRS),
    "wang": ("Wang's right-tail deviation", WangRightTail(), WANG_PAIRS),
}
HORIZONS = {False: (5_000, 20_000, 40_000, 60_000, 200_000), True: (2_000, 5_000, 20_000)}
TRIALS = {False: 30, True: 4}  # for each pair of arms
PAPER_RANGE = {False: (20_000, 60_000), True: (5_000, 20_000)}  # read off its figure
ETC, UCB, PAPER, EQUAL = "PM-ETC-M", "PM-UCB-M", "PM-UCB-M, paper's constants", "uniform"
POLICIES = {
    ETC: PMETC(horizon=2, explore_cap=None),
    UCB: PMUCB(horizon=2),
    PAPER: PMUCB(horizon=2, confidence="paper"),
    EQUAL: Uniform(),
}
LOOKS = {ETC: draw.ETC, UCB: draw.UCB, PAPER: draw.PAPER, EQUAL: draw.BASELINE}

Regret = dict[tuple[str, int], FloatArray]  # policy and horizon → pairs × trials


def run(context: Context) -> Outcome:
    """Play all pairs of arms; pairs are the independent units of every standard error here."""
    import pyarrow as pa

    horizons, trials = HORIZONS[context.quick], context.trials or TRIALS[context.quick]
    own = Family(context.arms, "The arms that were given.") if context.arms else None
    tables: list[Any] = []
    claims: list[Claim] = []
    lines = []
    with draw.canvas(2, 2, width=4.2, height=2.9) as (figure, axes):
        for row, (key, (name, metric, papers)) in enumerate(CASES.items()):
            family = own or papers
            found: dict[tuple[str, int], list[FloatArray]] = {(p, t): [] for p in POLICIES for t in horizons}
            for k, bandit in enumerate(family.bandits):
                played = play(
                    context, f"{key}-{k:02d}", metric, bandit, POLICIES, horizons, trials, checkpoints=horizons
                )
                tables.append(flat(played, metric=key, pair=k, mean_0=family.pairs[k][0], mean_1=family.pairs[k][1]))
                for policy, t in found:
                    times, regret = played.regret(policy, None if policy == EQUAL else t)
                    found[policy, t].append(regret[:, np.flatnonzero(times == t)[0]])
                context.done((row * len(family.pairs) + k + 1) / (2 * len(family.pairs)))
            regrets: Regret = {at: np.stack(per_pair) for at, per_pair in found.items()}
            _draw(axes[2 * row : 2 * row + 2], name, regrets, horizons, last=row == 1)
            found_out = _claims(key, name, regrets, horizons, PAPER_RANGE[context.quick])
            claims += [replace(claim, source="") for claim in found_out] if own else found_out  # not about the paper's
            for t in horizons:
                spread = [f"{regrets[p, t].std(axis=1, ddof=1).mean():.1e}" for p in (ETC, UCB)]
                lines.append([name, f"{t:,}", *(str(mean(regrets[p, t].mean(axis=1))) for p in POLICIES), *spread])
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    heads = ["metric", "T", *POLICIES, "spread of ETC", "spread of UCB"]
    caption = "Regret, mean over the pairs of arms ± one standard error; spread: standard deviation over trials"
    return Outcome(
        "fig3",
        TITLE,
        _text(trials, horizons, own),
        claims,
        {"fig3": figure},
        {"fig3": pa.concat_tables(tables)},
        [Shown(caption, heads, lines)],
    )


def _draw(axes: Any, name: str, regrets: Regret, horizons: tuple[int, ...], *, last: bool) -> None:
    for ax, policies in zip(axes, ((ETC, UCB), tuple(POLICIES)), strict=True):
        alone = len(policies) == 2
        ax.set_yscale("linear" if alone else "log")
        for policy in policies:
            draw.points(ax, horizons, [mean(regrets[policy, t].mean(axis=1)) for t in horizons], LOOKS[policy], policy)
        ax.set_xscale("log")
        draw.number_axis(ax, horizons, unit=1e3)
        ax.set_title(name if alone else f"{name}, all")
        ax.set_ylabel("regret")
        ax.margins(x=0.1)
        if alone:
            ax.set_ylim(bottom=0.0)
            ax.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
            ax.set_ylabel("regret × 10³")
        if last:
            ax.set_xlabel("horizon T, thousands")


def _falls(key: str, name: str, per_pair: Regret, first: int, last: int, source: str) -> Claim:
    """From one horizon to another, both algorithms."""
    falls = {p: mean(per_pair[p, first] - per_pair[p, last]) for p in (ETC, UCB)}
    ratio = {p: float(per_pair[p, last].mean() / per_pair[p, first].mean()) for p in (ETC, UCB)}
    where = "over the paper's horizons" if source else "over a wider range of horizons"
    return Claim(
        key,
        f"{name}: the regret of both algorithms falls with the horizon, {where}.",
        every(positive(m) for m in falls.values()),
        f"From T = {first:,} to {last:,}: "
        + "; ".join(f"{p} by {m} ({positive(m)}), to {ratio[p]:.2f} of what it was" for p, m in falls.items())
        + ".",
        _numbers({f"fall_{p}": m for p, m in falls.items()}) | {f"ratio_{p}": r for p, r in ratio.items()},
        source=source,
    )


def _claims(
    key: str, name: str, regrets: Regret, horizons: tuple[int, ...], paper_range: tuple[int, int]
) -> list[Claim]:
    per_pair = {at: r.mean(axis=1) for at, r in regrets.items()}
    below = {(p, t): mean(per_pair[EQUAL, t] - per_pair[p, t]) for p in (ETC, UCB) for t in horizons}
    worst = max(float((per_pair[p, t] / per_pair[EQUAL, t]).max()) for p, t in below)
    spread = {p: np.mean([regrets[p, t].std(axis=1, ddof=1) for t in horizons], axis=0) for p in (ETC, UCB)}
    wider = mean(spread[ETC] - spread[UCB])
    share = float(np.mean(spread[ETC] > spread[UCB]))
    return [
        _falls(f"{key}-falls", name, per_pair, *paper_range, f"fig:{key}_2_dev"),
        _falls(f"{key}-falls-wide", name, per_pair, horizons[0], horizons[-1], ""),
        Claim(
            f"{key}-below-uniform",
            f"{name}: both stay below uniform sampling.",
            every(positive(m) for m in below.values()),
            "Uniform sampling minus the algorithm, smallest over both and all horizons: "
            f"{min(below.values(), key=lambda m: m.value)}; on no pair does either exceed {100 * worst:.2g} % of the "
            "regret of uniform sampling.",
            _numbers({f"uniform_minus_{p}_{t}": m for (p, t), m in below.items()}) | {"worst_share": worst},
            source=f"fig:{key}_2_uni",
        ),
        Claim(
            f"{key}-spread",
            f"{name}: the regret of PM-ETC-M varies more from run to run than that of PM-UCB-M.",
            positive(wider),
            f"Standard deviation over trials, PM-ETC-M minus PM-UCB-M, mean over horizons and pairs: {wider}; larger "
            f"on {100 * share:.0f} % of the pairs.",
            _numbers({"difference": wider}) | {"share_larger": share},
            source=f"fig:{key}_2_dev, and the paragraph before it",
        ),
    ]


def _numbers(found: dict[str, Mean]) -> dict[str, float]:
    return {k: v for name, m in found.items() for k, v in ((name, m.value), (f"{name}_error", m.error))}


def _text(trials: int, horizons: tuple[int, ...], own: Family | None) -> list[str]:
    about = (
        f"{trials} trials for each of {len(GINI_PAIRS.pairs)} pairs of arms. {REGRET_HORIZONS_WHY} Gini: "
        f"{GINI_PAIRS.why} Right-tail: {WANG_PAIRS.why}"
    )
    if own:
        given = "; ".join(f"({a:g}, {b:g})" for a, b in own.pairs)
        about = f"{trials} trials for each pair of arms that was given: {given}. These are not the arms of the paper."
    radius = paper_radius(horizons[-1], delta=2 / horizons[-1] ** 2)
    return [
        about,
        "ε and the exploration follow the paper: its schedules (with the library's constant .2), and ½KεT rounds of "
        "exploration for PM-ETC-M because N(ε) exceeds T/2. On the left the paper's own comparison; on the right, on "
        "a log axis, with uniform sampling and with PM-UCB-M under the paper's constants.",
        f"Those constants are inert: the radius of an arm that got all {horizons[-1]:,} pulls would still be "
        f"{radius:.2f} where rewards span 1, so every confidence set is everything and every mixture ties for the "
        "lead in every round. What is played is then decided by how ties are broken: by the estimates at the end of "
        "the exploration, once.",
    ]
