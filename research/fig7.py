"""Figure 7 (``fig:regret_vs_time_row``): CIRT over time, for three resolutions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pmbandits import CIRT, GiniDeviation
from pmbandits.simulation import Run
from research import draw
from research.instances import ANYTIME_ARMS, ANYTIME_FAMILY
from research.measure import every, finals, flat, mean, play, positive
from research.outcome import Claim, Context, FloatArray, Outcome, Shown

TITLE = "CIRT over time"
EPSILONS = (0.12, 0.06, 0.03)
HORIZON = {False: 3_000_000, True: 200_000}
TRIALS = {False: 100, True: 10}
FAMILY_TRIALS = {False: 5, True: 1}
BRANCHING, DELTA = 4, 0.05
LITERAL, BOX = "literal", "box"  # the paper's rule for the end of a phase, and ours
RULES = {LITERAL: "the paper's stopping rule", BOX: "our box rule"}
LABELS = tuple(f"ε = {e:g}" for e in EPSILONS)
POLICIES = {
    rule: {
        label: CIRT(epsilon=e, branching=BRANCHING, delta=DELTA, stopping=rule)
        for label, e in zip(LABELS, EPSILONS, strict=True)
    }
    for rule in RULES
}
INERT = "ε = 0.12, the paper's rule and constants"

Ends = dict[tuple[str, str], FloatArray]  # rule and label → one value for each pair of arms, or for each trial


def run(context: Context) -> Outcome:
    """The paper's 100 runs on one pair of arms by each rule, and a few on sixteen others for the final regret."""
    import pyarrow as pa

    gini, horizon, trials = GiniDeviation(), HORIZON[context.quick], TRIALS[context.quick]
    main = {}
    for k, rule in enumerate(RULES):
        main[rule] = play(context, f"main-{rule}", gini, ANYTIME_ARMS.bandit, POLICIES[rule], horizon, trials)
        context.done(0.25 * (k + 1))
    policy = {INERT: CIRT(epsilon=0.12, branching=BRANCHING, delta=DELTA, confidence="paper", stopping=LITERAL)}
    inert = play(context, "paper", gini, ANYTIME_ARMS.bandit, policy, horizon, max(2, trials // 10))
    tables: list[Any] = [flat(main[rule], rule=rule, pair=-1) for rule in RULES]
    tables.append(flat(inert, rule=LITERAL, pair=-1))
    starts = {(rule, p): tracking_starts(main[rule], p, horizon) for rule in RULES for p in LABELS}
    last = {(rule, p): finals(main[rule], p) for rule in RULES for p in LABELS}
    by_pair: dict[tuple[str, str], list[float]] = {at: [] for at in starts}
    for k, bandit in enumerate(ANYTIME_FAMILY.bandits):
        for rule in RULES:
            name = f"family-{rule}-{k:02d}"
            played = play(context, name, gini, bandit, POLICIES[rule], horizon, FAMILY_TRIALS[context.quick])
            tables.append(flat(played, rule=rule, pair=k))
            for p in LABELS:
                by_pair[rule, p].append(float(finals(played, p).mean()))
        context.done(0.5 + 0.5 * (k + 1) / len(ANYTIME_FAMILY.pairs))
    ends = {at: np.array(values) for at, values in by_pair.items()}
    lines = [
        [f"{p}, {RULES[rule]}", f"{np.mean(starts[rule, p] < horizon):.0%}", _median(starts[rule, p], horizon),
         str(mean(last[rule, p])), str(mean(ends[rule, p]))]
        for rule in RULES for p in LABELS
    ]  # fmt: skip
    never = tracking_starts(inert, INERT, horizon)
    lines.append([INERT, f"{np.mean(never < horizon):.0%}", _median(never, horizon), str(mean(finals(inert, INERT))),
                  "–"])  # fmt: skip
    heads = ["", "runs that reach tracking", "median start", "regret at T", f"regret at T, mean of {len(ends[BOX, p])} "
             "pairs"]  # fmt: skip
    return Outcome(
        "fig7",
        TITLE,
        _text(context, horizon, never, sum(len(found) for found in phase_ends(inert, INERT))),
        [*_claims(starts, last, ends, horizon)],
        {"fig7": _draw(main, inert, starts, ends, horizon)},
        {"fig7": pa.concat_tables(tables)},
        [Shown("When tracking starts, and where regret ends", heads, lines)],
    )


def _median(starts: FloatArray, horizon: int) -> str:
    middle = float(np.median(starts))
    return f"{middle:,.0f}" if middle < horizon else "not by T"


def _text(context: Context, horizon: int, never: FloatArray, ended: int) -> list[str]:
    return [
        f"T = {horizon:,}, A = 4, δ = .05, Gini deviation; {TRIALS[context.quick]} trials on Bernoulli arms "
        f"{ANYTIME_ARMS}. {ANYTIME_ARMS.why}",
        "The paper ends a phase when the leader's lower bound exceeds the upper bound of every other mixture of the "
        "grid. Neighbours on a fine grid differ by little, so that takes long. Our default, the box rule, also ends a "
        "phase when all that may still be best lies in the box that would be kept, or differs by less than the final "
        "resolution could see. The paper's claims are judged by its own rule; both use the same tight confidence sets. "
        "A run that does not reach tracking by T counts as starting at T.",
        f"Right: the regret at T, one mark for each of {len(ANYTIME_FAMILY.pairs)} other pairs "
        f"({FAMILY_TRIALS[context.quick]} trials each). {ANYTIME_FAMILY.why} Values below 1e-9 are drawn there.",
        f"With the paper's constants, too, nothing happens: in {int((never >= horizon).sum())} of {never.size} runs "
        f"tracking has not begun by T, and {ended} phases ended in all.",
    ]


def tracking_starts(run: Run, policy: str, horizon: int) -> FloatArray:
    """The round after which refinement ended, in each trial; the horizon where it did not end."""
    wanted = next(p for p in run.spec["policies"] if p["label"] == policy)["options"]
    phases = CIRT(GiniDeviation(), n_arms=2, support=ANYTIME_ARMS.bandit.support, epsilon=wanted["epsilon"],
                  branching=wanted["branching"]).phases  # fmt: skip
    found = phase_ends(run, policy)
    return np.array([ends[phases - 1] if len(ends) >= phases else horizon for ends in found], dtype=np.float64)


def phase_ends(run: Run, policy: str) -> list[list[int]]:
    """For each trial the rounds after which phases ended."""
    table = run.to_arrow().select(["policy", "trial", "phase_ends"]).to_pydict()
    mine = zip(table["policy"], table["trial"], table["phase_ends"], strict=True)
    last: dict[int, list[int]] = {trial: ends for label, trial, ends in mine if label == policy}
    return [last[trial] for trial in run.trials]


# ---- claims ----------------------------------------------------------------------------------------------


def _claims(starts: Ends, last: Ends, ends: Ends, horizon: int) -> list[Claim]:
    source = "fig:regret_vs_time_row, and the paragraph before it"
    pairs = f"mean over {next(iter(ends.values())).size} pairs of arms"
    return [
        _earlier("tracking-earlier", starts, LITERAL, horizon, source),
        _larger("regret-larger", last, LITERAL, "mean over the runs", source),
        _larger("regret-larger-pairs", ends, LITERAL, pairs, ""),
        _earlier("tracking-earlier-box", starts, BOX, horizon, ""),
        _larger("regret-larger-box", last, BOX, "mean over the runs", ""),
        _larger("regret-larger-box-pairs", ends, BOX, pairs, ""),
    ]


def _earlier(key: str, starts: Ends, rule: str, horizon: int, source: str) -> Claim:
    later = {f"{a} → {b}": mean(starts[rule, b] - starts[rule, a]) for a, b in pairwise(LABELS)}
    reach = ", ".join(f"{np.mean(starts[rule, p] < horizon):.0%} ({p})" for p in LABELS)
    return Claim(
        key,
        f"With a larger ε tracking starts earlier ({RULES[rule]}).",
        every(positive(m) for m in later.values()),
        f"Runs that reach tracking by T: {reach}; the others count as T. Median start: "
        + ", ".join(f"{_median(starts[rule, p], horizon)} ({p})" for p in LABELS)
        + "; in pairs, "
        + ", ".join(f"{k}: {m.value:,.0f} ± {m.error:,.0f} rounds later" for k, m in later.items())
        + ".",
        {f"later_{k}": m.value for k, m in later.items()} | {f"error_{k}": m.error for k, m in later.items()},
        source=source,
    )


def _larger(key: str, ends: Ends, rule: str, how: str, source: str) -> Claim:
    more = {f"{a} → {b}": mean(ends[rule, a] - ends[rule, b]) for a, b in pairwise(LABELS)}
    where = ", on other pairs of arms" if "pairs" in key else ""
    return Claim(
        key,
        f"With a larger ε the regret at T is larger ({RULES[rule]}{where}).",
        every(positive(m) for m in more.values()),
        f"Regret at T, {how}: "
        + ", ".join(f"{mean(ends[rule, p])} ({p})" for p in LABELS)
        + "; paired differences "
        + ", ".join(f"{k}: {m}" for k, m in more.items())
        + ".",
        {f"more_{k}": m.value for k, m in more.items()} | {f"error_{k}": m.error for k, m in more.items()},
        source=source,
    )


# ---- the picture -----------------------------------------------------------------------------------------


def _draw(main: dict[str, Run], inert: Run, starts: Ends, ends: Ends, horizon: int) -> Any:
    with draw.canvas(3, width=3.6, height=3.6) as (figure, axes):
        for ax, rule in zip(axes, RULES, strict=False):
            ax.set_xscale("log")
            ax.set_yscale("log")
            for p, look in zip(LABELS, draw.LOOKS, strict=False):
                t, regret = main[rule].regret(p)
                draw.band(ax, t, regret, look, p)
                start = float(np.median(starts[rule, p]))
                if start < horizon:
                    logs = np.log(np.maximum(regret.mean(axis=0), 1e-15))
                    height = float(np.exp(np.interp(np.log(start), np.log(t), logs)))
                    ax.plot(start, height, marker=look.mark, ms=8, mfc="white", mec=look.colour, mew=1.8, ls="",
                            zorder=4)  # fmt: skip
            if rule == LITERAL:
                t, regret = inert.regret(INERT)
                draw.band(ax, t, regret, draw.BASELINE, "paper's constants, too")
            ax.plot([], [], marker="o", ms=8, mfc="white", mec="0.3", mew=1.5, ls="", label="tracking starts (median)")
            ax.set_ylim(5e-8, 1.0)
            ax.set_xlabel("rounds t")
            ax.set_title(f"{RULES[rule]}, arms {ANYTIME_ARMS}", fontsize=10)
            ax.legend(loc="upper right")
        axes[0].set_ylabel("regret")
        _draw_pairs(axes[2], ends, horizon)
    return figure


def _draw_pairs(ax: Any, ends: Ends, horizon: int) -> None:
    ax.set_yscale("log")
    for x, (p, look) in enumerate(zip(LABELS, draw.LOOKS, strict=False)):
        for rule, side in ((LITERAL, -0.22), (BOX, 0.22)):
            values = ends[rule, p]
            spread = np.linspace(-0.12, 0.12, values.size)
            ax.plot(x + side + spread, np.maximum(values, 1e-9), ls="", marker=look.mark, ms=4.5, color=look.colour,
                    mfc="white" if rule == LITERAL else look.colour, alpha=0.75)  # fmt: skip
            m = mean(values)
            ax.errorbar([x + side], [m.value], yerr=[[min(m.error, 0.9 * m.value)], [m.error]], color="black",
                        marker="_", ms=14, capsize=3, zorder=4,
                        label="mean ± s.e." if (x, rule) == (0, LITERAL) else None)  # fmt: skip
    ax.plot([], [], ls="", marker="o", mfc="white", color="0.3", label="paper's stopping rule")
    ax.plot([], [], ls="", marker="o", color="0.3", label="our box rule")
    ax.set_xticks(range(len(LABELS)), LABELS)
    ax.set_xlim(-0.5, len(LABELS) - 0.5)
    ax.set_title(f"{len(ANYTIME_FAMILY.pairs)} other pairs", fontsize=10)
    ax.set_ylabel(f"regret at T = {horizon:,}")
    ax.legend(loc="lower left")
