"""Figure 8 (``fig:anytime_fixed_comparison``): the work it takes to reach a regret, CIRT and a fixed grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.metrics import GiniDeviation
from pmbandits.mixtures import grid_size
from pmbandits.paper import draw
from pmbandits.paper.fig7 import tracking_starts
from pmbandits.paper.instances import ANYTIME_ARMS
from pmbandits.paper.measure import Mean, every, mean, play, positive, rows
from pmbandits.paper.outcome import Claim, Context, Outcome, Shown
from pmbandits.policies.cirt import CIRT
from pmbandits.policies.fixed_grid import FixedGrid
from pmbandits.simulation import simulate

TITLE = "The work it takes to reach a regret"
EPSILON, BRANCHING = 0.06, 4
THRESHOLDS = {False: (1e-2, 1e-3, 1e-4, 1e-5, 1e-6), True: (1e-2, 1e-3, 1e-4)}
HORIZON = {False: 3_000_000, True: 150_000}
TRIALS = {False: 100, True: 40}
TIMED_TRIALS = {False: 20, True: 4}
ZOOM, FIXED = "CIRT", "fixed grid"
POLICIES = {
    ZOOM: CIRT(epsilon=EPSILON, branching=BRANCHING),
    FIXED: FixedGrid(epsilon=EPSILON, branching=BRANCHING),
}
# What the algorithms are defined to evaluate in a round. CIRT, until refinement ends: the utility of every mixture of
# the phase's grid (A + 1 at most, with two arms) to find the leader, and a bound for each to test the stopping rule;
# afterwards nothing. The fixed grid: an optimistic value for every mixture, in every round.
CIRT_EVALUATIONS = 2 * (BRANCHING + 1)
FIXED_EVALUATIONS = grid_size(2, EPSILON / BRANCHING, "ucb")


def run(context: Context) -> Outcome:
    """Find when each run first reaches a threshold; count evaluations up to there; time both side by side."""
    gini, horizon, thresholds = GiniDeviation(), HORIZON[context.quick], THRESHOLDS[context.quick]
    looks = np.unique(np.geomspace(2, horizon, 160).astype(np.int64))
    played = play(
        context, "main", ANYTIME_ARMS.bandit, gini, POLICIES, horizon, TRIALS[context.quick], checkpoints=looks
    )
    context.done(0.7)
    settled = tracking_starts(played, ZOOM, horizon)
    rounds: dict[tuple[str, float], FloatArray] = {}
    missed: dict[tuple[str, float], int] = {}
    for policy in POLICIES:
        t, regret = played.regret(policy)
        for level in thresholds:
            rounds[policy, level], missed[policy, level] = reached(t, regret, level)
    work = {(ZOOM, level): CIRT_EVALUATIONS * np.minimum(rounds[ZOOM, level], settled) for level in thresholds} | {
        (FIXED, level): FIXED_EVALUATIONS * rounds[FIXED, level] for level in thresholds
    }
    seconds = _time(context, rounds, thresholds)
    records = [
        {"policy": p, "threshold": level, "trial": trial, "rounds": int(rounds[p, level][trial]),
         "evaluations": int(work[p, level][trial])}
        for (p, level) in work for trial in range(TRIALS[context.quick])
    ]  # fmt: skip
    context.done(1.0)
    lines = [
        [f"{level:.0e}", *(f"{rounds[p, level].mean():,.0f}" for p in POLICIES),
         *(f"{work[p, level].mean():,.0f}" for p in POLICIES),
         f"{np.exp(ratio(work[FIXED, level], work[ZOOM, level]).value):.1f}",
         " / ".join(str(missed[p, level]) for p in POLICIES)]
        for level in thresholds
    ]  # fmt: skip
    shown = [
        Shown(
            f"Means over {TRIALS[context.quick]} trials",
            ["regret", "rounds, CIRT", "rounds, fixed grid", "evaluations, CIRT", "evaluations, fixed grid",
             "ratio", "runs that never reach it"],
            lines,
        )
    ]  # fmt: skip
    text = [
        f"ε = .06, A = 4, Gini deviation, Bernoulli arms {ANYTIME_ARMS}, as figure 7. A regret is reached at the "
        f"first of {looks.size} log-spaced looks from which on it is never above: in the first rounds shares are "
        "right by chance.",
        "Evaluations are counted from the algorithms' definitions, so no machine changes them: CIRT "
        f"{CIRT_EVALUATIONS} a round (A + 1 utilities, as many bounds) until refinement ends and none after; the "
        f"fixed grid {FIXED_EVALUATIONS} a round, always.",
        "Seconds were measured in one process, one worker, one algorithm after the other, for runs of the mean "
        "length that the threshold takes. They tell another story: this library looks at 0/1 rewards only when a "
        "decision can have changed, which saves most of these evaluations, and saves the fixed grid more than CIRT. "
        "Under the paper's constants neither learns (figure 7).",
    ]
    faster = sum(a < b for a, b in seconds.values())
    timings = {
        "caption": "Seconds for a run that reaches the regret, on the machine that made this page; CIRT is faster at "
        f"{faster} of {len(seconds)} regrets",
        "heads": ["regret", "CIRT", "fixed grid", "ratio"],
        "rows": [[f"{level:.0e}", f"{a:.2g}", f"{b:.2g}", f"{b / a:.2f}"] for level, (a, b) in seconds.items()],
    }
    return Outcome(
        "fig8",
        TITLE,
        text,
        _claims(work, thresholds),
        {"fig8": _draw(work, thresholds)},
        {"fig8": rows(records)},
        shown,
        {"timings": timings},
    )


def reached(t: NDArray[np.int64], regret: FloatArray, level: float) -> tuple[FloatArray, int]:
    """From which look on each run stays at or below the level (the last look if never), and how many never do.

    >>> reached(np.array([2, 5, 9]), np.array([[0.0, 0.5, 0.1], [0.3, 0.2, 0.2]]), 0.2)
    (array([9., 5.]), 0)
    """
    above = regret > level
    after = t.size - above[:, ::-1].argmax(axis=1)  # one past the last look above the level
    first = np.where(above.any(axis=1), after, 0)
    return t[np.minimum(first, t.size - 1)].astype(np.float64), int((first == t.size).sum())


def _time(
    context: Context, rounds: dict[tuple[str, float], FloatArray], thresholds: tuple[float, ...]
) -> dict[float, tuple[float, float]]:
    """Seconds a run, CIRT and fixed grid, for each threshold; the first of these runs warms up and is not counted."""
    out = {}
    for level in thresholds:
        pair = []
        for p, policy in POLICIES.items():
            length = max(2, int(np.ceil(rounds[p, level].mean())))
            timed = simulate(ANYTIME_ARMS.bandit, GiniDeviation(), {p: policy}, length, TIMED_TRIALS[context.quick] + 1,
                             context.seed, checkpoints=1, n_jobs=1, progress=False)  # fmt: skip
            pair.append(float(timed.seconds(p)[1:].mean()))
        out[level] = (pair[0], pair[1])
    return out


def ratio(above: FloatArray, below: FloatArray) -> Mean:
    """The logarithm of the ratio of two means over the same trials, with its standard error (jackknife)."""
    n = above.size
    left_out = np.log((above.sum() - above) / (below.sum() - below))
    error = float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    return Mean(float(np.log(above.mean() / below.mean())), error)


def _draw(work: dict[tuple[str, float], FloatArray], thresholds: tuple[float, ...]) -> Any:
    with draw.canvas(2, width=4.2, height=3.3) as (figure, axes):
        left, right = axes
        for ax in axes:
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.invert_xaxis()
            ax.set_xlabel("regret to reach")
        for p, look in zip(POLICIES, (draw.ZOOM, draw.FIXED), strict=True):
            draw.points(left, thresholds, [mean(work[p, level]) for level in thresholds], look, p)
        left.set_ylabel("evaluations of $U_h$")
        left.set_title("work to reach a regret")
        left.legend()
        logs = [ratio(work[FIXED, level], work[ZOOM, level]) for level in thresholds]
        middle, error = np.exp([m.value for m in logs]), np.array([m.error for m in logs])
        look = draw.LOOKS[0]
        right.errorbar(
            thresholds, middle, yerr=(middle - middle * np.exp(-error), middle * np.exp(error) - middle),
            color=look.colour, ls=look.dash, marker=look.mark, capsize=3, lw=1.5,
        )  # fmt: skip
        right.axhline(1.0, color=draw.GREY, lw=0.8)
        right.set_ylim(0.7 * min(1.0, float(middle.min())), 1.5 * max(20.0, float(middle.max())))
        draw.number_axis(right, (1, 2, 5, 10, 20, 50), "y")
        right.set_ylabel("fixed grid ÷ CIRT")
        right.set_title("ratio of the means")
    return figure


def _claims(work: dict[tuple[str, float], FloatArray], thresholds: tuple[float, ...]) -> list[Claim]:
    saved = {level: work[FIXED, level] - work[ZOOM, level] for level in thresholds}
    logs = {level: ratio(work[FIXED, level], work[ZOOM, level]) for level in thresholds}
    first, last = thresholds[0], thresholds[-1]
    more = mean(saved[last] - saved[first])
    gain = Mean(logs[last].value - logs[first].value, float(np.hypot(logs[last].error, logs[first].error)))
    ratios = ", ".join(f"{np.exp(m.value):.1f} at {level:.0e}" for level, m in logs.items())
    return [
        Claim(
            "less-work",
            "CIRT reaches every regret with less computation than the fixed grid, on average.",
            every(positive(mean(saved[level])) for level in thresholds),
            f"Evaluations of U_h, fixed grid ÷ CIRT, ratio of the means: {ratios}.",
            {f"ratio_{level:.0e}": float(np.exp(m.value)) for level, m in logs.items()}
            | {f"log_ratio_error_{level:.0e}": m.error for level, m in logs.items()},
        ),
        Claim(
            "saves-more",
            f"It saves more at a small regret than at a large one ({last:.0e} and {first:.0e}).",
            positive(more),
            "Evaluations saved, mean: "
            + ", ".join(f"{saved[level].mean():,.0f} at {level:.0e}" for level in thresholds)
            + ".",
            {f"saved_{level:.0e}": float(saved[level].mean()) for level in thresholds} | {"standard_error": more.error},
        ),
        Claim(
            "ratio-grows",
            f"Also as a ratio the advantage is larger at {last:.0e} than at {first:.0e} (our stricter reading).",
            positive(gain),
            f"Logarithm of the ratio at {last:.0e} minus that at {first:.0e}: {gain}.",
            {"log_ratio_gain": gain.value, "standard_error": gain.error},
        ),
    ]
