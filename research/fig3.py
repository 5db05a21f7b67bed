"""Figure 3 (``fig:combined_gini_wang``): regret against the horizon, two Bernoulli arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pmbandits import PMETC, PMUCB, GiniDeviation, Uniform, WangRightTail
from pmbandits.theory import paper_radius
from research import draw
from research.instances import (
    GINI_PAIRS,
    SCHEDULE_CONSTANT,
    SCHEDULE_CONSTANTS,
    SCHEDULE_CONSTANTS_WHY,
    WANG_PAIRS,
    Family,
)
from research.measure import Mean, every, flat, mean, play, positive, whichever
from research.outcome import TWO_ERRORS, Claim, Context, FloatArray, Outcome, Shown, Verdict

TITLE = "Regret against the horizon, two Bernoulli arms"
CASES = {
    "gini": ("Gini deviation", GiniDeviation(), GINI_PAIRS),
    "wang": ("Wang's right-tail deviation", WangRightTail(), WANG_PAIRS),
}
HORIZONS = {False: (5_000, 20_000, 40_000, 60_000, 200_000), True: (2_000, 5_000, 20_000)}
TRIALS = {False: 20, True: 4}  # for each pair of arms
EACH = {False: 1, True: 4}  # every so many pairs of arms are taken
SWEEP_TRIALS = {False: 10, True: 2}  # with each of the other constants
PAPER_RANGE = {False: (20_000, 60_000), True: (5_000, 20_000)}
ETC, UCB, PAPER, EQUAL = "PM-ETC-M", "PM-UCB-M", "PM-UCB-M, paper's constants", "uniform"
POLICIES = {
    ETC: PMETC(horizon=2, explore_cap=None, epsilon_constant=SCHEDULE_CONSTANT),
    UCB: PMUCB(horizon=2, epsilon_constant=SCHEDULE_CONSTANT),
    PAPER: PMUCB(horizon=2, confidence="paper", epsilon_constant=SCHEDULE_CONSTANT),
    EQUAL: Uniform(),
}
LOOKS = {ETC: draw.ETC, UCB: draw.UCB, PAPER: draw.PAPER, EQUAL: draw.BASELINE}
RULE = f"{TWO_ERRORS}; judged for each constant of the schedules of ε"

Regret = dict[tuple[str, int], FloatArray]  # policy and horizon → pairs × trials


def run(context: Context) -> Outcome:
    """Play all pairs of arms; pairs are the independent units of every standard error here."""
    import pyarrow as pa

    horizons, trials = HORIZONS[context.quick], context.trials or TRIALS[context.quick]
    own = Family(context.arms, "The arms that were given.") if context.arms else None
    paper_range = PAPER_RANGE[context.quick]
    tables: list[Any] = []
    claims: list[Claim] = []
    lines, swept_lines = [], []
    with draw.canvas(3, 2, width=3.6, height=2.9) as (figure, axes):
        for row, (key, (name, metric, papers)) in enumerate(CASES.items()):
            family = own or replace(papers, pairs=papers.pairs[:: EACH[context.quick]])
            found: dict[tuple[str, int], list[FloatArray]] = {(p, t): [] for p in POLICIES for t in horizons}
            others = () if own else tuple(c for c in SCHEDULE_CONSTANTS if c != SCHEDULE_CONSTANT)
            swept: dict[tuple[float, str, int], list[FloatArray]] = {
                (c, p, t): [] for c in others for p in (ETC, UCB) for t in paper_range
            }
            for k, bandit in enumerate(family.bandits):
                played = play(
                    context, f"{key}-{k:02d}", metric, bandit, POLICIES, horizons, trials, checkpoints=horizons
                )
                about: dict[str, Any] = {"metric": key, "pair": k, "mean_0": family.pairs[k][0],
                                         "mean_1": family.pairs[k][1]}  # fmt: skip
                tables.append(flat(played, **about, constant=SCHEDULE_CONSTANT))
                for policy, t in found:
                    times, regret = played.regret(policy, None if policy == EQUAL else t)
                    found[policy, t].append(regret[:, np.flatnonzero(times == t)[0]])
                for c in others:
                    policies = {
                        ETC: PMETC(horizon=2, explore_cap=None, epsilon_constant=c),
                        UCB: PMUCB(horizon=2, epsilon_constant=c),
                    }
                    played = play(context, f"{key}-{k:02d}-{c:g}", metric, bandit, policies, paper_range,
                                  SWEEP_TRIALS[context.quick], checkpoints=1)  # fmt: skip
                    tables.append(flat(played, **about, constant=c))
                    for policy in policies:
                        for t in paper_range:
                            swept[c, policy, t].append(played.regret(policy, t)[1][:, -1])
                context.done((row * len(family.pairs) + k + 1) / (2 * len(family.pairs)))
            regrets: Regret = {at: np.stack(per_pair) for at, per_pair in found.items()}
            by_constant = {c: {(p, t): np.stack(swept[c, p, t]) for p in (ETC, UCB) for t in paper_range}
                           for c in others} | {SCHEDULE_CONSTANT: regrets}  # fmt: skip
            by_constant = {c: by_constant[c] for c in sorted(by_constant)}
            _draw(axes[3 * row : 3 * row + 3], name, regrets, horizons, by_constant, paper_range, last=row == 1)
            found_out = _claims(key, name, by_constant, regrets, horizons, paper_range)
            claims += [replace(claim, source="") for claim in found_out] if own else found_out  # not about the paper's
            for t in horizons:
                spread = [f"{regrets[p, t].std(axis=1, ddof=1).mean():.1e}" for p in (ETC, UCB)]
                lines.append([name, f"{t:,}", *(str(mean(regrets[p, t].mean(axis=1))) for p in POLICIES), *spread])
            swept_lines += [[name, f"{c:g}", *_swept_cells(by_constant[c], paper_range)] for c in by_constant]
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    heads = ["metric", "T", *POLICIES, "spread of ETC", "spread of UCB"]
    caption = "Regret, mean over the pairs of arms ± one standard error; spread: standard deviation over trials"
    first, last = paper_range
    swept_heads = ["metric", "constant", *(f"{p} at {t:,}" for p in (ETC, UCB) for t in paper_range),
                   *(f"fall of {p}" for p in (ETC, UCB))]  # fmt: skip
    return Outcome(
        "fig3",
        TITLE,
        _text(trials, context, own),
        claims,
        {"fig3": figure},
        {"fig3": pa.concat_tables(tables, promote_options="default")},
        [
            Shown(caption, heads, lines),
            Shown(f"What hangs on the constant of ε: regret, and its fall from T = {first:,} to {last:,}", swept_heads,
                  swept_lines),
        ],
    )  # fmt: skip


def _swept_cells(regrets: Regret, paper_range: tuple[int, int]) -> list[str]:
    first, last = paper_range
    falls = {p: _fall(regrets, p, first, last) for p in (ETC, UCB)}
    return [
        *(f"{regrets[p, t].mean():.2e}" for p in (ETC, UCB) for t in paper_range),
        *(f"{m} ({positive(m)})" for m in falls.values()),
    ]


def _fall(regrets: Regret, policy: str, first: int, last: int) -> Mean:
    return mean(regrets[policy, first].mean(axis=1) - regrets[policy, last].mean(axis=1))


def _draw(
    axes: Any, name: str, regrets: Regret, horizons: tuple[int, ...], by_constant: Mapping[float, Regret],
    paper_range: tuple[int, int], *, last: bool,
) -> None:  # fmt: skip
    for ax, policies in zip(axes[:2], ((ETC, UCB), tuple(POLICIES)), strict=True):
        alone = len(policies) == 2
        ax.set_yscale("linear" if alone else "log")
        for policy in policies:
            draw.points(ax, horizons, [mean(regrets[policy, t].mean(axis=1)) for t in horizons], LOOKS[policy], policy)
        ax.set_xscale("log")
        draw.number_axis(ax, horizons, unit=1e3)
        ax.set_title(name if alone else f"{name}, all", fontsize=9.5)
        ax.set_ylabel("regret")
        ax.margins(x=0.1)
        if alone:
            ax.set_ylim(bottom=0.0)
            ax.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
            ax.set_ylabel("regret × 10³")
        if last:
            ax.set_xlabel("horizon T, thousands")
    ax = axes[2]
    for policy in (ETC, UCB):
        falls = [_fall(r, policy, *paper_range) for r in by_constant.values()]
        share = [Mean(m.value / r[policy, paper_range[0]].mean(), m.error / r[policy, paper_range[0]].mean())
                 for m, r in zip(falls, by_constant.values(), strict=True)]  # fmt: skip
        draw.points(ax, [100 * c for c in by_constant], [Mean(100 * m.value, 100 * m.error) for m in share],
                    LOOKS[policy], policy)  # fmt: skip
    ax.axhline(0.0, color=draw.GREY, lw=0.8)
    ax.set_xscale("log")
    draw.number_axis(ax, [100 * c for c in by_constant], unit=100)
    ax.set_title(f"fall from T = {paper_range[0]:,} to {paper_range[1]:,}", fontsize=9.5)
    ax.set_ylabel("fall of regret (%)")
    if last:
        ax.set_xlabel("constant of the schedules of ε")


def _wide_fall(key: str, name: str, regrets: Regret, first: int, last: int) -> Claim:
    """From the shortest to the longest horizon, both algorithms, at the library's constant."""
    falls = {p: _fall(regrets, p, first, last) for p in (ETC, UCB)}
    ratio = {p: float(regrets[p, last].mean() / regrets[p, first].mean()) for p in (ETC, UCB)}
    return Claim(
        f"{key}-falls-wide",
        f"{name}: the regret of both algorithms falls with the horizon, over a wider range of horizons.",
        every(positive(m) for m in falls.values()),
        f"From T = {first:,} to {last:,}, constant {SCHEDULE_CONSTANT:g}: "
        + "; ".join(f"{p} by {m} ({positive(m)}), to {ratio[p]:.2f} of what it was" for p, m in falls.items())
        + ".",
        _numbers({f"fall_{p}": m for p, m in falls.items()}) | {f"ratio_{p}": r for p, r in ratio.items()},
    )


def _claims(
    key: str, name: str, by_constant: Mapping[float, Regret], regrets: Regret, horizons: tuple[int, ...],
    paper_range: tuple[int, int],
) -> list[Claim]:  # fmt: skip
    """The paper's claims for every constant of the schedules of ε, over the paper's horizons."""
    first, last = paper_range
    equal = {t: regrets[EQUAL, t].mean(axis=1) for t in paper_range}
    falls, below, wider = {}, {}, {}
    for c, found in by_constant.items():
        falls[c] = {p: _fall(found, p, first, last) for p in (ETC, UCB)}
        below[c] = {f"{p}, T = {t:,}": mean(equal[t] - found[p, t].mean(axis=1)) for p in (ETC, UCB)
                    for t in paper_range}  # fmt: skip
        spread = {p: np.mean([found[p, t].std(axis=1, ddof=1) for t in paper_range], axis=0) for p in (ETC, UCB)}
        wider[c] = {"PM-ETC-M minus PM-UCB-M": mean(spread[ETC] - spread[UCB])}
    horizon_text = f"From T = {first:,} to {last:,}"
    return [
        _over_constants(f"{key}-falls", f"{name}: the regret of both algorithms falls with the horizon, over the "
                        "paper's horizons.", falls, f"{horizon_text}, by", f"fig:{key}_2_dev"),
        _wide_fall(key, name, regrets, horizons[0], horizons[-1]),
        _over_constants(f"{key}-below-uniform", f"{name}: both stay below uniform sampling.", below,
                        "Uniform sampling minus the algorithm, the smallest:", f"fig:{key}_2_uni", least=True),
        _over_constants(f"{key}-spread", f"{name}: the regret of PM-ETC-M varies more from run to run than that of "
                        "PM-UCB-M.", wider, "Standard deviation over trials, mean over horizons and pairs:",
                        f"fig:{key}_2_dev, and the paragraph before it"),
    ]  # fmt: skip


def _over_constants(
    key: str, says: str, found: Mapping[float, Mapping[str, Mean]], lead: str, source: str, *, least: bool = False
) -> Claim:
    """All differences of a constant must be positive; and the claim is judged for each constant."""
    verdicts: dict[float, Verdict] = {c: every(positive(m) for m in of.values()) for c, of in found.items()}
    parts = []
    for c, of in found.items():
        shown = [min(of.items(), key=lambda item: item[1].value)] if least else list(of.items())
        parts.append(f"constant {c:g}: " + ", ".join(f"{m} ({p})" for p, m in shown) + f": {verdicts[c]}")
    numbers = {f"constant {c:g}, {p}": m for c, of in found.items() for p, m in of.items()}
    return Claim(key, says, whichever(verdicts.values()), f"{lead} " + "; ".join(parts) + ".", _numbers(numbers),
                 source=source, rule=RULE)  # fmt: skip


def _numbers(found: Mapping[str, Mean]) -> dict[str, float]:
    return {k: v for name, m in found.items() for k, v in ((name, m.value), (f"{name}_error", m.error))}


def _text(trials: int, context: Context, own: Family | None) -> list[str]:
    horizons, (first, last) = HORIZONS[context.quick], PAPER_RANGE[context.quick]
    which = "" if context.quick else ", which notes on its printed figure name"
    about = (
        f"{trials} trials for each of {len(GINI_PAIRS.pairs[:: EACH[context.quick]])} pairs of arms. The paper's "
        "claims are judged on T = "
        f"{first:,} to {last:,}{which}. Over this range ε shrinks by a fifth only, so T = {horizons[0]:,} and "
        f"{horizons[-1]:,} are played as well, and whether regret falls over that range is a question of ours. "
        f"{SCHEDULE_CONSTANTS_WHY} (With the others {SWEEP_TRIALS[context.quick]} trials of each pair.) Gini: "
        f"{GINI_PAIRS.why} Right-tail: {WANG_PAIRS.why}"
    )
    if own:
        given = "; ".join(f"({a:g}, {b:g})" for a, b in own.pairs)
        about = f"{trials} trials for each pair of arms that was given: {given}. These are not the arms of the paper."
    radius = paper_radius(horizons[-1], delta=2 / horizons[-1] ** 2)
    return [
        about,
        "ε and the exploration follow the paper: its schedules, and ½KεT rounds of exploration for PM-ETC-M because "
        "N(ε) exceeds T/2. On the left the paper's own comparison; in the middle, on a log axis, with uniform sampling "
        "and with PM-UCB-M under the paper's constants; on the right how much of its regret each algorithm loses from "
        "the first to the last of the paper's horizons, for each constant. Whether regret falls over so short a range "
        "is mostly a matter of where the two grids happen to lie.",
        f"The constants of the paper's confidence sets are inert: the radius of an arm that got all {horizons[-1]:,} "
        f"pulls would still be {radius:.2f} where rewards span 1, so every confidence set is everything and every "
        "mixture ties for the lead in every round. What is played is then decided by how ties are broken: by the "
        "estimates at the end of the exploration, once.",
    ]
