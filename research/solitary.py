"""What it costs to play a single arm where a mixture is best (``sec:introduction``: linear regret)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmbandits import CIRT, PMUCB, UCB1, GiniDeviation, InterESRange, SolitaryArm, Track, WangRightTail, oracle
from research import draw
from research.instances import SOLITARY
from research.measure import Mean, every, finals, flat, mean, play, positive
from research.outcome import Claim, Context, Outcome, Shown

TITLE = "What solitary algorithms cost"
CASES = {
    "gini": ("Gini deviation", GiniDeviation()),
    "wang": ("Wang's right-tail deviation", WangRightTail()),
    "inter_es": ("inter-ES range", InterESRange()),
}
HORIZON = {False: 300_000, True: 30_000}
TRIALS = {False: 100, True: 12}
OURS, OURS_T, ONE, MEAN, TRACK = "CIRT", "PM-UCB-M", "best single arm", "UCB1", "Track"
LOOKS = {OURS: draw.ZOOM, OURS_T: draw.UCB, ONE: draw.BASELINE, MEAN: draw.MEAN, TRACK: draw.TRACK}
FLAT = 0.05  # a per-round regret that changes by less over the last tenfold of rounds is flat: the total is linear


def run(context: Context) -> Outcome:
    """UCB1 and the best arm beside CIRT (anytime) and PM-UCB-M (made for this horizon)."""
    import pyarrow as pa

    horizon, trials = HORIZON[context.quick], TRIALS[context.quick]
    looks = np.unique(np.geomspace(100, horizon, 40).astype(np.int64))
    looks = np.unique(np.append(looks, [horizon // 10, horizon]))
    tables: list[Any] = []
    claims: list[Claim] = []
    lines = []
    with draw.canvas(3, width=3.5, height=3.4) as (figure, axes):
        for k, (key, (name, metric)) in enumerate(CASES.items()):
            arms = SOLITARY[key]
            best = oracle(metric, arms.bandit)
            policies = {
                MEAN: UCB1(),
                ONE: SolitaryArm(arm=best.best_arm),
                OURS_T: PMUCB(horizon=horizon),
                OURS: CIRT(),
                TRACK: Track(),
            }
            played = play(context, key, metric, arms.bandit, policies, horizon, trials, checkpoints=looks)
            tables.append(flat(played, metric=key))
            ax = axes[k]
            ax.set_xscale("log")
            ax.set_yscale("log")
            for policy in policies:
                t, regret = played.regret(policy)
                draw.band(ax, t, regret, LOOKS[policy], policy)
            ax.set_title(name)
            ax.set_xlabel("rounds t")
            ends = {p: mean(finals(played, p)) for p in policies}
            earlier = {p: mean(_at(played, p, horizon // 10)) for p in policies}
            lines.append([name, str(arms), *(str(ends[p]) for p in policies)])
            halved = mean(0.5 * _at(played, OURS, horizon // 10) - finals(played, OURS))
            claims += _claims(key, name, ends, earlier, halved, horizon)
            context.done((k + 1) / 3)
        axes[0].set_ylabel("regret per round")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
    text = [
        "The paper says in its introduction that algorithms made for a single best arm incur linear regret where a "
        "mixture "
        f"is best; it has no figure of that. {trials} trials of {horizon:,} rounds. UCB1 settles on the arm with the "
        "highest mean; the "
        "best single arm is the one that a solitary algorithm for the metric would find at best, played from the "
        "first round; it loses the same in every round by definition, and whoever settles on one arm ends no better. "
        "The algorithms of the paper learn the mixture. PM-UCB-M and CIRT stop at the resolution of their grids. Track "
        "is not one of the paper's policies (estimate the best mixture, without a grid, and keep to it); no claim is "
        "about it.",
    ]
    shown = [Shown(f"Regret at T = {horizon:,}", ["metric", "arms", *policies], lines)]
    return Outcome("solitary", TITLE, text, claims, {"solitary": figure}, {"solitary": pa.concat_tables(tables)}, shown)


def _at(played: Any, policy: str, t: int) -> Any:
    times, regret = played.regret(policy)
    return regret[:, np.flatnonzero(times == t)[0]]


def _claims(
    key: str, name: str, ends: dict[str, Mean], earlier: dict[str, Mean], halved: Mean, horizon: int
) -> list[Claim]:
    changes = {p: Mean(ends[p].value / earlier[p].value - 1.0, (ends[p].error + earlier[p].error) / earlier[p].value)
               for p in ends}  # fmt: skip
    stuck = positive(Mean(FLAT - abs(changes[MEAN].value), changes[MEAN].error))
    least = min(ends[ONE].value, ends[MEAN].value)
    below = positive(Mean(least / 10 - ends[OURS].value, ends[OURS].error))
    return [
        Claim(
            f"{key}-linear",
            f"{name}: UCB1 has settled, and loses the same in every round: over the last tenfold of rounds its regret "
            f"per round changes by less than {100 * FLAT:g} %, so its total loss is linear.",
            stuck,
            f"Regret per round at T = {horizon:,}: {ends[MEAN]}; change since T/10: {100 * changes[MEAN].value:+.2f} "
            f"± {100 * changes[MEAN].error:.1g} %. The best single arm, played from the first round, loses "
            f"{ends[ONE].value:.3g} in every round.",
            {"ucb1": ends[MEAN].value, "best_arm": ends[ONE].value, "ucb1_change": changes[MEAN].value},
            source="sec:introduction, on linear regret of algorithms for a single best arm",
        ),
        Claim(
            f"{key}-ours-vanishes",
            f"{name}: CIRT's goes to zero: it more than halves over the last tenfold of rounds and ends below a tenth "
            "of either.",
            every([positive(halved), below]),
            f"CIRT: {earlier[OURS]} at T/10, {ends[OURS]} at T = {horizon:,}; PM-UCB-M: {ends[OURS_T]}; "
            f"Track: {ends[TRACK]}.",
            {"cirt": ends[OURS].value, "cirt_error": ends[OURS].error, "cirt_before": earlier[OURS].value,
             "pmucb": ends[OURS_T].value, "track": ends[TRACK].value},
        ),
    ]  # fmt: skip
