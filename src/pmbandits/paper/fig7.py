"""Figure 7 (``fig:regret_vs_time_row``): CIRT over time, for three resolutions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.metrics import GiniDeviation
from pmbandits.paper import draw
from pmbandits.paper.instances import ANYTIME_ARMS, ANYTIME_FAMILY
from pmbandits.paper.measure import every, finals, flat, mean, play, positive
from pmbandits.paper.outcome import Claim, Context, Outcome, Shown
from pmbandits.policies.cirt import CIRT
from pmbandits.simulation import Run

TITLE = "CIRT over time"
EPSILONS = (0.12, 0.06, 0.03)
HORIZON = {False: 3_000_000, True: 200_000}
TRIALS = {False: 100, True: 10}
FAMILY_TRIALS = {False: 5, True: 3}
BRANCHING, DELTA = 4, 0.05
POLICIES = {_name: CIRT(epsilon=e, branching=BRANCHING, delta=DELTA) for e in EPSILONS for _name in [f"ε = {e:g}"]}


def run(context: Context) -> Outcome:
    """The paper's 100 runs on one pair of arms, and a few on sixteen others for the size of the final regret."""
    import pyarrow as pa

    gini, horizon, trials = GiniDeviation(), HORIZON[context.quick], TRIALS[context.quick]
    main = play(context, "main", ANYTIME_ARMS.bandit, gini, POLICIES, horizon, trials)
    context.done(0.5)
    literal = {"ε = 0.12, paper's constants": CIRT(epsilon=0.12, branching=4, delta=DELTA, confidence="paper",
                                                   stopping="literal")}  # fmt: skip
    inert = play(context, "paper", ANYTIME_ARMS.bandit, gini, literal, horizon, max(2, trials // 10))
    context.done(0.55)
    tables: list[Any] = [flat(main, pair=-1), flat(inert, pair=-1)]
    ends: dict[str, list[float]] = {p: [] for p in POLICIES}
    starts: dict[str, list[float]] = {p: [] for p in POLICIES}
    for k, bandit in enumerate(ANYTIME_FAMILY.bandits):
        played = play(context, f"family-{k:02d}", bandit, gini, POLICIES, horizon, FAMILY_TRIALS[context.quick])
        tables.append(flat(played, pair=k))
        for p in POLICIES:
            ends[p].append(float(finals(played, p).mean()))
            starts[p].append(float(tracking_starts(played, p, horizon).mean()))
        context.done(0.55 + 0.45 * (k + 1) / len(ANYTIME_FAMILY.pairs))
    figure = _draw(main, inert, ends, starts, horizon)
    lines = [
        [p, f"{np.mean(tracking_starts(main, p, horizon) < horizon):.0%}",
         f"{np.median(tracking_starts(main, p, horizon)):,.0f}", str(mean(finals(main, p))), str(mean(ends[p]))]
        for p in POLICIES
    ]  # fmt: skip
    label = next(iter(literal))
    never = int((tracking_starts(inert, label, horizon) >= horizon).sum())
    began = _phases(inert, label)
    lines.append([label, f"{1 - never / len(inert.trials):.0%}", "–", str(mean(finals(inert, label))), "–"])
    text = [
        f"T = {horizon:,}, A = 4, δ = .05, Gini deviation; {trials} trials on Bernoulli arms {ANYTIME_ARMS}. "
        f"{ANYTIME_ARMS.why}",
        f"Right: the regret at T, one mark for each of {len(ANYTIME_FAMILY.pairs)} other pairs "
        f"({FAMILY_TRIALS[context.quick]} trials each). {ANYTIME_FAMILY.why} The final regret is judged on these; "
        "values below 1e-9 are drawn there.",
        f"With the paper's constants and its literal stopping rule nothing happens: in {never} of {len(inert.trials)} "
        f"runs tracking has not begun by T, and {began} phases ended in all.",
    ]
    shown = [
        Shown(
            "When tracking starts, and where regret ends",
            [
                "",
                "runs that reach tracking",
                "median start",
                "regret at T",
                f"regret at T, mean of {len(ends['ε = 0.06'])} pairs",
            ],
            lines,
        )
    ]
    return Outcome(
        "fig7", TITLE, text, _claims(main, ends, horizon), {"fig7": figure}, {"fig7": pa.concat_tables(tables)}, shown
    )


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


def _phases(run: Run, policy: str) -> int:
    return sum(len(ends) for ends in phase_ends(run, policy))


def _draw(main: Run, inert: Run, ends: dict[str, list[float]], starts: dict[str, list[float]], horizon: int) -> Any:
    with draw.canvas(2, width=4.3, height=3.5) as (figure, axes):
        left, right = axes
        left.set_xscale("log")
        left.set_yscale("log")
        for p, look in zip(POLICIES, draw.LOOKS, strict=False):
            t, regret = main.regret(p)
            draw.band(left, t, regret, look, p)
            start = float(np.median(tracking_starts(main, p, horizon)))
            if start < horizon:
                height = float(np.interp(np.log(start), np.log(t), np.log(np.maximum(regret.mean(axis=0), 1e-15))))
                left.plot(start, np.exp(height), marker=look.mark, ms=8, mfc="white", mec=look.colour, mew=1.8, ls="",
                          zorder=4)  # fmt: skip
        label = inert.policies[0]
        t, regret = inert.regret(label)
        draw.band(left, t, regret, draw.BASELINE, "paper's constants")
        left.plot([], [], marker="o", ms=8, mfc="white", mec="0.3", mew=1.5, ls="", label="tracking starts (median)")
        left.set_xlabel("rounds t")
        left.set_ylabel("regret")
        left.set_title(f"arms {ANYTIME_ARMS}")
        left.legend()
        right.set_yscale("log")
        for x, (p, look) in enumerate(zip(POLICIES, draw.LOOKS, strict=False)):
            sides = np.linspace(-0.18, 0.18, len(ends[p]))
            right.plot(
                x + sides, np.maximum(ends[p], 1e-9), ls="", marker=look.mark, ms=4.5, color=look.colour, alpha=0.7
            )
            m = mean(ends[p])
            right.errorbar(
                [x + 0.3], [m.value], yerr=[[min(m.error, 0.9 * m.value)], [m.error]], color="black", marker="_", ms=12,
                capsize=3, label="mean ± s.e." if x == 0 else None,
            )  # fmt: skip
        right.set_xticks(range(len(POLICIES)), list(POLICIES))
        right.set_xlim(-0.5, len(POLICIES) - 0.4)
        right.set_title(f"{len(ANYTIME_FAMILY.pairs)} other pairs")
        right.set_ylabel(f"regret at T = {horizon:,}")
        right.legend(loc="lower left")
    return figure


def _claims(main: Run, ends: dict[str, list[float]], horizon: int) -> list[Claim]:
    starts = {p: tracking_starts(main, p, horizon) for p in POLICIES}
    earlier = {f"{a} → {b}": mean(starts[b] - starts[a]) for a, b in pairwise(POLICIES)}
    more = {f"{a} → {b}": mean(np.array(ends[a]) - np.array(ends[b])) for a, b in pairwise(POLICIES)}
    medians = ", ".join(f"{np.median(starts[p]):,.0f} ({p})" for p in POLICIES)
    reached = min(float(np.mean(starts[p] < horizon)) for p in POLICIES)
    return [
        Claim(
            "tracking-earlier",
            "With a larger ε tracking starts earlier.",
            every(positive(m) for m in earlier.values()),
            f"Median start: {medians}; in pairs, "
            + ", ".join(f"{k}: {m.value:,.0f} ± {m.error:,.0f} rounds later" for k, m in earlier.items())
            + f". At least {reached:.0%} of the runs reach tracking; the others count as T.",
            {f"later_{k}": m.value for k, m in earlier.items()} | {f"error_{k}": m.error for k, m in earlier.items()},
        ),
        Claim(
            "regret-larger",
            "With a larger ε the regret at T is larger.",
            every(positive(m) for m in more.values()),
            "Mean over the pairs: "
            + ", ".join(f"{mean(ends[p])} ({p})" for p in POLICIES)
            + "; paired differences "
            + ", ".join(f"{k}: {m}" for k, m in more.items())
            + ".",
            {f"more_{k}": m.value for k, m in more.items()} | {f"error_{k}": m.error for k, m in more.items()},
        ),
    ]
