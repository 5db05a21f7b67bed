"""Figure 8 (``fig:anytime_fixed_comparison``): the computing time to reach a regret, CIRT and a fixed grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import CIRT, FixedGrid, GiniDeviation, grid_size
from pmbandits.simulation import simulate
from research import draw
from research.fig7 import tracking_starts
from research.instances import ANYTIME_ARMS
from research.measure import Mean, every, mean, play, positive, rows
from research.outcome import TWO_ERRORS, Claim, Context, FloatArray, Outcome, Shown, Verdict

TITLE = "The computing time to reach a regret"
EPSILON, BRANCHING = 0.06, 4
THRESHOLDS = {False: (1e-2, 1e-3, 1e-4, 1e-5, 1e-6), True: (1e-2, 1e-3, 1e-4)}
HORIZON = {False: 3_000_000, True: 150_000}
TRIALS = {False: 100, True: 20}
WARM_UP_TRIAL = 0  # the number of a trial that is played first and not counted: it allocates the memory for the others
EARLY = 100  # rounds in which shares can be right by chance
LITERAL, BOX, FIXED = "CIRT", "CIRT, box rule", "fixed grid"
ZOOMS = (LITERAL, BOX)
POLICIES = {
    LITERAL: CIRT(epsilon=EPSILON, branching=BRANCHING, stopping="literal"),
    BOX: CIRT(epsilon=EPSILON, branching=BRANCHING),
    FIXED: FixedGrid(epsilon=EPSILON, branching=BRANCHING),
}
LOOKS = {LITERAL: draw.ZOOM, BOX: draw.LOOKS[0], FIXED: draw.FIXED}
RULE = f"{TWO_ERRORS}; an algorithm of whose runs more than half never reach a regret loses there"
# What the algorithms are defined to evaluate in a round. CIRT, until refinement ends: the utility of every mixture of
# the phase's grid (A + 1 at most, with two arms) to find the leader, and a bound for each to test the stopping rule;
# afterwards nothing. The fixed grid: an optimistic value for every mixture, in every round.
CIRT_EVALUATIONS = 2 * (BRANCHING + 1)
FIXED_EVALUATIONS = grid_size(2, EPSILON / BRANCHING, "ucb")

By = dict[tuple[str, float], FloatArray]  # policy and regret → one value for each trial


def run(context: Context) -> Outcome:
    """Find when each run first reaches a threshold, and take the computing time of a run of that length."""
    gini, horizon, thresholds = GiniDeviation(), HORIZON[context.quick], THRESHOLDS[context.quick]
    trials = TRIALS[context.quick]
    looks = np.unique(np.geomspace(2, horizon, 160).astype(np.int64))
    numbers = range(WARM_UP_TRIAL + 1, WARM_UP_TRIAL + 1 + trials)
    played = play(context, "main", gini, ANYTIME_ARMS.bandit, POLICIES, horizon, numbers, checkpoints=looks)
    context.done(0.5)
    rounds: By = {}
    missed: dict[tuple[str, float], int] = {}
    for policy in POLICIES:
        t, regret = played.regret(policy)
        for level in thresholds:
            rounds[policy, level], missed[policy, level] = reached(t, regret, level)
    work: By = {}
    for policy, level in rounds:
        if policy == FIXED:
            work[policy, level] = FIXED_EVALUATIONS * rounds[policy, level]
        else:
            settled = tracking_starts(played, policy, horizon)
            work[policy, level] = CIRT_EVALUATIONS * np.minimum(rounds[policy, level], settled)
    by_chance = {p: float((regret[:, t <= EARLY] <= thresholds[-1]).any(axis=1).mean())
                 for p in (FIXED,) for t, regret in [played.regret(p)]}[FIXED]  # fmt: skip
    seconds = _time(context, rounds, thresholds)
    counted = [
        {"policy": p, "threshold": level, "trial": trial, "rounds": int(rounds[p, level][trial]),
         "evaluations": int(work[p, level][trial])}
        for (p, level) in work for trial in range(trials)
    ]  # fmt: skip
    timed = [
        {"policy": p, "threshold": level, "trial": trial, "seconds": float(seconds[p, level][trial])}
        for (p, level) in seconds for trial in range(trials)
    ]  # fmt: skip
    context.done(1.0)
    return Outcome(
        "fig8",
        TITLE,
        _text(rounds, seconds, looks, by_chance, thresholds),
        [*_claims(LITERAL, seconds, missed, thresholds), *_claims(BOX, seconds, missed, thresholds)],
        {"fig8": _draw(seconds, work, thresholds)},
        {"fig8": rows(counted), "fig8-seconds": rows(timed)},
        _tables(rounds, work, missed, seconds, thresholds),
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


def _time(context: Context, rounds: By, thresholds: tuple[float, ...]) -> By:
    """Computing time of every trial up to the round at which it reaches a threshold: each is played again, so far."""
    out: By = {}
    for share, (p, policy) in enumerate(POLICIES.items()):
        lengths = np.stack([rounds[p, level] for level in thresholds]).astype(np.int64)  # levels × trials
        taken = np.zeros(lengths.shape)
        for length in np.unique(lengths):
            trials = np.flatnonzero((lengths == length).any(axis=0))
            timed = simulate(
                GiniDeviation(),
                ANYTIME_ARMS.bandit,
                {p: policy},
                int(length),
                [WARM_UP_TRIAL, *(WARM_UP_TRIAL + 1 + int(k) for k in trials)],
                context.seed,
                checkpoints=1,
                n_jobs=1,
                progress=False,
            ).seconds(p)[1:]
            for trial, value in zip(trials, timed, strict=True):
                taken[lengths[:, trial] == length, trial] = value
        out |= {(p, level): taken[k] for k, level in enumerate(thresholds)}
        context.done(0.5 + 0.5 * (share + 1) / len(POLICIES))
    return out


def ratio(above: FloatArray, below: FloatArray) -> Mean:
    """The logarithm of the ratio of two means over the same trials, with its standard error (jackknife)."""
    n = above.size
    left_out = np.log((above.sum() - above) / (below.sum() - below))
    error = float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    return Mean(float(np.log(above.mean() / below.mean())), error)


# ---- claims ----------------------------------------------------------------------------------------------


def faster(saved: FloatArray, missed: int, other_missed: int) -> Verdict:
    """Whether the seconds saved are positive; who does not get there, in most runs, is not faster.

    >>> one = np.array([1.0, 1.1, 0.9])
    >>> faster(one, 0, 0), faster(one, 2, 0), faster(-one, 0, 2), faster(one, 2, 2)
    ('holds', 'does not hold', 'holds', 'not decidable')
    """
    late, other_late = 2 * missed > saved.size, 2 * other_missed > saved.size
    if late and other_late:
        return "not decidable"
    if late or other_late:
        return "holds" if other_late else "does not hold"
    return positive(mean(saved))


def _claims(zoom: str, seconds: By, missed: dict[tuple[str, float], int], thresholds: tuple[float, ...]) -> list[Claim]:
    saved = {level: seconds[FIXED, level] - seconds[zoom, level] for level in thresholds}
    verdicts = {level: faster(saved[level], missed[zoom, level], missed[FIXED, level]) for level in thresholds}
    logs = {level: ratio(seconds[FIXED, level], seconds[zoom, level]) for level in thresholds}
    first, last = thresholds[0], thresholds[-1]
    more = mean(saved[last] - saved[first])
    literal = zoom == LITERAL
    source = "fig:anytime_fixed_comparison, and the paragraph before it" if literal else ""
    by, end = ("the paper's stopping rule", "") if literal else ("our box rule", "-box")
    ratios = ", ".join(f"{np.exp(m.value):.2f} at {level:.0e} ({verdicts[level]})" for level, m in logs.items())
    lost = {level: missed[zoom, level] for level in thresholds if missed[zoom, level]}
    never = (
        " Runs of CIRT that never reach it, and count with their time to T: "
        + ", ".join(f"{count} at {level:.0e}" for level, count in lost.items())
        + "."
        if lost
        else ""
    )
    return [
        Claim(
            f"faster{end}",
            f"CIRT reaches every regret in less computing time than the fixed grid, on average ({by}).",
            every(verdicts.values()),
            f"Seconds of the fixed grid ÷ seconds of CIRT, ratio of the means: {ratios}.{never}",
            {f"ratio_{level:.0e}": float(np.exp(m.value)) for level, m in logs.items()}
            | {f"log_ratio_error_{level:.0e}": m.error for level, m in logs.items()},
            source=source,
            rule=RULE,
            timed=True,
        ),
        Claim(
            f"saves-more{end}",
            f"It saves more time at a small regret ({last:.0e}) than at a large one ({first:.0e}; {by}).",
            "does not hold" if verdicts[last] == "does not hold" else positive(more),
            "Seconds saved, mean: "
            + ", ".join(f"{saved[level].mean():+.2g} at {level:.0e}" for level in thresholds)
            + f"; the last minus the first: {more}.{never}",
            {f"saved_{level:.0e}": float(saved[level].mean()) for level in thresholds} | {"standard_error": more.error},
            source=source,
            rule=RULE,
            timed=True,
        ),
    ]


# ---- what readers see ------------------------------------------------------------------------------------


def _tables(
    rounds: By, work: By, missed: dict[tuple[str, float], int], seconds: By, thresholds: tuple[float, ...]
) -> list[Shown]:
    def row(level: float, values: By, form: str) -> list[str]:
        cells = [format(values[p, level].mean(), form) for p in POLICIES]
        return [*cells, *(f"{np.exp(ratio(values[FIXED, level], values[p, level]).value):.2f}" for p in ZOOMS)]

    heads = [*POLICIES, "fixed ÷ CIRT", "fixed ÷ CIRT, box rule"]
    trials = next(iter(rounds.values())).size
    return [
        Shown(
            f"Computing time in seconds, mean over {trials} trials, and runs that never reach the regret",
            ["regret", *heads, "never: " + " / ".join(POLICIES)],
            [
                [f"{level:.0e}", *row(level, seconds, ".2g"), " / ".join(str(missed[p, level]) for p in POLICIES)]
                for level in thresholds
            ],
        ),
        Shown(
            "For comparison: evaluations of U_h that the algorithms are defined to make. Our code does not make most "
            "of them",
            ["regret", *heads],
            [[f"{level:.0e}", *row(level, work, ",.0f")] for level in thresholds],
        ),
        Shown("Rounds", ["regret", *heads], [[f"{level:.0e}", *row(level, rounds, ",.0f")] for level in thresholds]),
    ]


def _text(
    rounds: By, seconds: By, looks: NDArray[np.int64], by_chance: float, thresholds: tuple[float, ...]
) -> list[str]:
    last = thresholds[-1]
    each = {p: 1e9 * seconds[p, last].sum() / rounds[p, last].sum() for p in POLICIES}
    more = rounds[LITERAL, last].mean() / rounds[FIXED, last].mean()
    return [
        f"ε = .06, A = 4, Gini deviation, Bernoulli arms {ANYTIME_ARMS}, as figure 7. The paper's claim is about "
        "computing time, so time is judged: that of the processor, for each trial up to where it reaches the regret, "
        "played again by itself. CIRT stands for the paper's stopping rule; our box rule is shown beside it.",
        f"A regret is reached at the first of {looks.size} log-spaced looks from which on it is never above. The paper "
        "says: until the observed regret falls below. But in the first rounds shares are right by chance: in "
        f"{by_chance:.0%} of the fixed grid's runs the regret is {last:.0e} or less at some look before round {EARLY}.",
        "Why is CIRT not the faster one here? By the paper's stopping rule because its phases end late: it takes "
        f"{more:.1f} times as many rounds as the fixed grid to a regret of {last:.0e}, or has not reached it by T. By "
        "our box rule it needs about as many rounds, but one takes longer: our code looks at 0/1 rewards only when a "
        "decision can have changed, and that saves the fixed grid more. It stays with a mixture as long as its best "
        "possible value is h's maximum, which is certain for long stretches at a time. CIRT has to be sure that its "
        "leader leads and that the phase goes on; both are close calls near the end of a phase. Up to that regret a "
        "round takes "
        + ", ".join(f"{each[p]:.0f} ns ({p})" for p in POLICIES)
        + f". The fixed grid is defined to evaluate {FIXED_EVALUATIONS} mixtures in every round, and CIRT "
        f"{CIRT_EVALUATIONS} (A + 1 utilities, as many bounds) until refinement ends, none after. Where all of these "
        "evaluations are made, the second table is what counts.",
    ]


def _draw(seconds: By, work: By, thresholds: tuple[float, ...]) -> Any:
    with draw.canvas(3, width=3.5, height=3.3) as (figure, axes):
        for ax in axes:
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.invert_xaxis()
            ax.set_xlabel("regret to reach")
        left, middle, right = axes
        for p, look in LOOKS.items():
            draw.points(left, thresholds, [mean(seconds[p, level]) for level in thresholds], look, p)
            draw.points(right, thresholds, [mean(work[p, level]) for level in thresholds], look, p)
        left.set_ylabel("seconds")
        left.set_title("computing time")
        left.legend()
        for p in ZOOMS:
            logs = [ratio(seconds[FIXED, level], seconds[p, level]) for level in thresholds]
            values, error = np.exp([m.value for m in logs]), np.array([m.error for m in logs])
            middle.errorbar(
                thresholds, values, yerr=(values - values * np.exp(-error), values * np.exp(error) - values),
                color=LOOKS[p].colour, ls=LOOKS[p].dash, marker=LOOKS[p].mark, capsize=3, lw=1.5, label=p,
            )  # fmt: skip
        middle.axhline(1.0, color=draw.GREY, lw=0.8)
        middle.set_ylim(0.02, 20.0)
        draw.number_axis(middle, (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10), "y")
        middle.set_ylabel("time, fixed grid ÷ CIRT")
        middle.set_title("above 1: CIRT is faster")
        middle.legend()
        right.set_ylabel("evaluations of $U_h$")
        right.set_title("evaluations, as defined")
    return figure
