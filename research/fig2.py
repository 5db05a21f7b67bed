"""Figure 2 (``fig:vs_arms_all``): what PM-UCB-M attains against each arm alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmbandits import PMUCB, GiniDeviation, WangRightTail, oracle, utility
from pmbandits import Mean as MeanMetric
from research import draw
from research.instances import THREE_ARMS
from research.measure import Mean, every, flat, mean, play, positive
from research.outcome import Claim, Context, FloatArray, Outcome, Shown

TITLE = "A mixture against each arm alone"
METRICS = {"gini": GiniDeviation(), "wang": WangRightTail(), "mean": MeanMetric()}
NAMES = {"gini": "Gini deviation", "wang": "Wang's right-tail deviation", "mean": "mean"}
HORIZONS = {False: (1_000, 3_000, 10_000, 30_000, 60_000), True: (500, 2_000, 8_000)}
TRIALS = {False: 100, True: 20}


def run(context: Context) -> Outcome:
    """Play PM-UCB-M for each metric and horizon, with the tight set and with the paper's constants."""
    import pyarrow as pa

    bandit, horizons, trials = THREE_ARMS.bandit, HORIZONS[context.quick], TRIALS[context.quick]
    policies = {"PM-UCB-M": PMUCB(horizon=2), "paper's constants": PMUCB(horizon=2, confidence="paper")}
    tables, claims, lines = [], [], []
    with draw.canvas(3, width=3.5, height=3.4) as (figure, axes):
        for k, (key, metric) in enumerate(METRICS.items()):
            found = play(context, key, metric, bandit, policies, horizons, trials, checkpoints=1)
            tables.append(flat(found, metric=key))
            alone, best = np.array([utility(metric, bandit, arm) for arm in np.eye(3)]), oracle(metric, bandit)
            ax = axes[k]
            ax.set_xscale("log")
            attained: dict[str, list[Mean]] = {}
            rise = Mean(0.0, 0.0)
            for label, look in zip(policies, (draw.UCB, draw.PAPER), strict=True):
                values = [found.column("utility", label, t)[1][:, -1] for t in horizons]
                attained[label] = [mean(v) for v in values]
                if label == "PM-UCB-M":
                    rise = mean(values[-1] - values[0])  # paired by trial
                draw.points(ax, horizons, attained[label], look, label)
            for i, value in enumerate(alone):
                ax.axhline(value, color=draw.GREY, lw=1.0, ls=("-", "--", ":")[i], label=f"arm {i} alone")
            ax.axhline(best.value, color=draw.LOOKS[2].colour, lw=1.0, ls="-.", label="best mixture")
            ax.set_title(NAMES[key])
            ax.set_xlabel("horizon T, thousands")
            draw.number_axis(ax, horizons, unit=1e3)
            last = attained["PM-UCB-M"][-1]
            lines.append([NAMES[key], *(f"{v:.4f}" for v in alone), str(last), str(attained["paper's constants"][-1]),
                          f"{best.value:.4f}"])  # fmt: skip
            claims.append(
                _tracks(alone, last, rise, horizons) if key == "mean" else _exceeds(key, alone, last, horizons)
            )
            context.done((k + 1) / 3)
        axes[0].set_ylabel("utility")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6)
    text = [
        f"Arms: Bernoulli {THREE_ARMS}. {THREE_ARMS.why} Utilities of single arms are exact; PM-UCB-M is the mean "
        f"over {trials} trials, bars are one standard error.",
        "That for the mean PM-UCB-M does not exceed the best arm is no finding: no mixture can. So what is asked of "
        "the mean is whether it tracks the best arm, as the paper says.",
    ]
    shown = [
        Shown(
            f"Utility at T = {horizons[-1]:,}",
            ["metric", "arm 0", "arm 1", "arm 2", "PM-UCB-M, tight set", "PM-UCB-M, paper's constants", "best mixture"],
            lines,
        )
    ]
    return Outcome("fig2", TITLE, text, claims, {"fig2": figure}, {"fig2": pa.concat_tables(tables)}, shown)


def _exceeds(key: str, alone: FloatArray, last: Mean, horizons: Sequence[int]) -> Claim:
    """Above every single arm at the last horizon."""
    arm = int(alone.argmax())
    gain = Mean(last.value - float(alone[arm]), last.error)
    return Claim(
        key,
        f"{NAMES[key]}: PM-UCB-M exceeds every single arm.",
        positive(gain),
        f"At T = {horizons[-1]:,} its utility minus that of arm {arm}, the best alone, is {gain}.",
        {"gain_over_best_arm": gain.value, "standard_error": gain.error, "best_arm": float(arm)},
        source=f"fig:vs_arms_{key}",
    )


def _tracks(alone: FloatArray, last: Mean, rise: Mean, horizons: Sequence[int]) -> Claim:
    """For the mean: ends above all arms but the best, and comes nearer to that one as the horizon grows."""
    second, best = (int(arm) for arm in np.argsort(alone)[-2:])
    above = Mean(last.value - float(alone[second]), last.error)
    return Claim(
        "mean",
        "Mean: PM-UCB-M tracks the best arm: it ends above every other arm, and the nearer to the best one the longer "
        "the horizon.",
        every([positive(above), positive(rise)]),
        f"At T = {horizons[-1]:,} its utility is {last}: {above} above arm {second}, the second best, and "
        f"{float(alone[best]) - last.value:.3g} below arm {best}. From T = {horizons[0]:,} on it rises by {rise}.",
        {"above_second": above.value, "above_second_error": above.error, "rise": rise.value,
         "rise_error": rise.error, "below_best": float(alone[best]) - last.value},
        source="fig:vs_arms_mean, and the sentence after it",
    )  # fmt: skip
