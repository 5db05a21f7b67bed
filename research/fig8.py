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
TIMED_TRIALS = {False: 40, True: 8}  # of these seconds are measured, too
WARM_UP_TRIAL = 0  # the number of a trial that is played first and not counted: it allocates the memory for the others
EARLY = 100  # rounds in which shares can be right by chance
FALLS, STAYS = "falls below", "stays below"  # when a regret counts as reached: the paper's words, and a stricter rule
REACHED = {
    FALLS: f"the regret falls below it, after round {EARLY}",
    STAYS: "the regret stays below it from then on",
}
EVALUATIONS, SECONDS = "evaluations", "seconds"
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
Missed = dict[tuple[str, float], float]  # policy and regret → the share of trials that never reach it


def run(context: Context) -> Outcome:
    """Find when each run reaches a threshold, and what that took: evaluations as defined, and seconds of our code."""
    gini, horizon, thresholds = GiniDeviation(), HORIZON[context.quick], THRESHOLDS[context.quick]
    trials, timed_trials = TRIALS[context.quick], TIMED_TRIALS[context.quick]
    looks = np.unique(np.geomspace(2, horizon, 160).astype(np.int64))
    numbers = range(WARM_UP_TRIAL + 1, WARM_UP_TRIAL + 1 + trials)
    played = play(context, "main", gini, ANYTIME_ARMS.bandit, POLICIES, horizon, numbers, checkpoints=looks)
    context.done(0.4)
    settled = {p: tracking_starts(played, p, horizon) for p in ZOOMS}
    rounds: dict[str, By] = {}
    missed: dict[str, Missed] = {}
    costs: dict[tuple[str, str], By] = {}  # when reached, and what is counted
    for k, how in enumerate(REACHED):
        found = {(p, level): reached(*played.regret(p), level, how) for p in POLICIES for level in thresholds}
        rounds[how] = {at: r for at, (r, _) in found.items()}
        missed[how] = {at: n / trials for at, (_, n) in found.items()}
        costs[how, EVALUATIONS] = {
            (p, level): FIXED_EVALUATIONS * r if p == FIXED else CIRT_EVALUATIONS * np.minimum(r, settled[p])
            for (p, level), r in rounds[how].items()
        }
        costs[how, SECONDS] = _time(context, {at: r[:timed_trials] for at, r in rounds[how].items()}, thresholds)
        context.done(0.4 + 0.3 * (k + 1))
    t, regret = played.regret(FIXED)
    by_chance = float((regret[:, t <= EARLY] <= thresholds[-1]).any(axis=1).mean())
    counted = [
        {"reached": how, "policy": p, "threshold": level, "trial": trial, "rounds": int(rounds[how][p, level][trial]),
         "evaluations": int(costs[how, EVALUATIONS][p, level][trial])}
        for how in REACHED for (p, level) in rounds[how] for trial in range(trials)
    ]  # fmt: skip
    timed = [
        {"reached": how, "policy": p, "threshold": level, "trial": trial,
         "seconds": float(costs[how, SECONDS][p, level][trial])}
        for how in REACHED for (p, level) in rounds[how] for trial in range(timed_trials)
    ]  # fmt: skip
    return Outcome(
        "fig8",
        TITLE,
        _text(rounds[STAYS], costs[STAYS, SECONDS], looks, by_chance, thresholds),
        _all_claims(costs, missed, thresholds),
        {"fig8": _draw(costs, thresholds)},
        {"fig8": rows(counted), "fig8-seconds": rows(timed)},
        _tables(rounds, costs, missed, thresholds),
    )


def reached(t: NDArray[np.int64], regret: FloatArray, level: float, how: str = STAYS) -> tuple[FloatArray, int]:
    """At which look each run reaches the level (the last look if never), and how many never do.

    It is reached at the first look after round ``EARLY`` at which the regret is at or below the level (``FALLS``), or
    from which on it is never above (``STAYS``).

    >>> t, regret = np.array([2, 105, 109]), np.array([[0.0, 0.5, 0.1], [0.3, 0.2, 0.4]])
    >>> reached(t, regret, 0.2, STAYS), reached(t, regret, 0.2, FALLS)
    ((array([109., 109.]), 1), (array([109., 105.]), 0))
    """
    above = regret > level
    if how == FALLS:
        below = ~above & (t > EARLY)
        first = np.where(below.any(axis=1), below.argmax(axis=1), t.size)
    else:
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


def faster(saved: FloatArray, missed: float, other_missed: float) -> Verdict:
    """Whether what is saved is positive; who does not get there, in more than half of the runs, is not faster.

    >>> one = np.array([1.0, 1.1, 0.9])
    >>> faster(one, 0.0, 0.0), faster(one, 0.7, 0.0), faster(-one, 0.0, 0.7), faster(one, 0.7, 0.7)
    ('holds', 'does not hold', 'holds', 'not decidable')
    """
    late, other_late = missed > 0.5, other_missed > 0.5
    if late and other_late:
        return "not decidable"
    if late or other_late:
        return "holds" if other_late else "does not hold"
    return positive(mean(saved))


def _all_claims(
    costs: dict[tuple[str, str], By], missed: dict[str, Missed], thresholds: tuple[float, ...]
) -> list[Claim]:
    """The paper's: falls below, its stopping rule, evaluations as defined. All other combinations are ours."""
    source = "fig:anytime_fixed_comparison, and the paragraph before it"
    out = []
    for zoom, end in ((LITERAL, ""), (BOX, "-box")):
        for how, cost, more in ((FALLS, EVALUATIONS, ""), (STAYS, EVALUATIONS, "-stays"), (FALLS, SECONDS, "-seconds"),
                                (STAYS, SECONDS, "-stays-seconds")):  # fmt: skip
            papers = source if zoom == LITERAL and how == FALLS and cost == EVALUATIONS else ""
            found = costs[how, cost]
            out.append(_faster(f"faster{end}{more}", zoom, how, cost, found, missed[how], thresholds, papers))
            if papers or (zoom == BOX and how == FALLS and cost == EVALUATIONS):
                out.append(
                    _saves_more(f"saves-more{end}{more}", zoom, how, cost, found, missed[how], thresholds, papers)
                )
    return out


def _by(zoom: str, how: str) -> str:
    rule = "the paper's stopping rule" if zoom == LITERAL else "our box rule"
    return f"{rule}; reached when {REACHED[how]}"


_NAMES = {EVALUATIONS: "evaluations of U_h, as the algorithms are defined,", SECONDS: "seconds of our code"}


def _never(zoom: str, missed: Missed, thresholds: tuple[float, ...]) -> str:
    listed = ", ".join(f"{missed[zoom, level]:.0%} at {level:.0e}" for level in thresholds if missed[zoom, level])
    return f" Runs of CIRT that never reach it, and count up to T: {listed}." if listed else ""


def _judged(zoom: str, found: By, missed: Missed, level: float) -> Verdict:
    return faster(found[FIXED, level] - found[zoom, level], missed[zoom, level], missed[FIXED, level])


def _faster(
    name: str, zoom: str, how: str, cost: str, found: By, missed: Missed, thresholds: tuple[float, ...], source: str
) -> Claim:  # fmt: skip
    verdicts = {level: _judged(zoom, found, missed, level) for level in thresholds}
    logs = {level: ratio(found[FIXED, level], found[zoom, level]) for level in thresholds}
    ratios = ", ".join(f"{np.exp(m.value):.2f} at {level:.0e} ({verdicts[level]})" for level, m in logs.items())
    return Claim(
        name,
        f"CIRT reaches every regret with fewer {_NAMES[cost]} than the fixed grid, on average ({_by(zoom, how)}).",
        every(verdicts.values()),
        f"Fixed grid ÷ CIRT, ratio of the means: {ratios}.{_never(zoom, missed, thresholds)}",
        {f"ratio_{level:.0e}": float(np.exp(m.value)) for level, m in logs.items()}
        | {f"log_ratio_error_{level:.0e}": m.error for level, m in logs.items()},
        source=source,
        rule=RULE,
        timed=cost == SECONDS,
    )


def _saves_more(
    name: str, zoom: str, how: str, cost: str, found: By, missed: Missed, thresholds: tuple[float, ...], source: str
) -> Claim:  # fmt: skip
    saved = {level: found[FIXED, level] - found[zoom, level] for level in thresholds}
    first, last = thresholds[0], thresholds[-1]
    more = mean(saved[last] - saved[first])
    return Claim(
        name,
        f"It saves more of these at a small regret ({last:.0e}) than at a large one ({first:.0e}; {_by(zoom, how)}).",
        "does not hold" if _judged(zoom, found, missed, last) == "does not hold" else positive(more),
        "Saved, mean: "
        + ", ".join(f"{saved[level].mean():+,.3g} at {level:.0e}" for level in thresholds)
        + f"; the last minus the first: {more}.{_never(zoom, missed, thresholds)}",
        {f"saved_{level:.0e}": float(saved[level].mean()) for level in thresholds} | {"standard_error": more.error},
        source=source,
        rule=RULE,
        timed=cost == SECONDS,
    )


# ---- what readers see ------------------------------------------------------------------------------------


def _tables(
    rounds: dict[str, By], costs: dict[tuple[str, str], By], missed: dict[str, Missed], thresholds: tuple[float, ...]
) -> list[Shown]:
    def row(level: float, values: By, form: str) -> list[str]:
        cells = [format(values[p, level].mean(), form) for p in POLICIES]
        return [*cells, *(f"{np.exp(ratio(values[FIXED, level], values[p, level]).value):.2f}" for p in ZOOMS)]

    heads = ["reached when", "regret", *POLICIES, "fixed ÷ CIRT", "fixed ÷ CIRT, box rule"]
    trials = next(iter(rounds[STAYS].values())).size
    timed = next(iter(costs[STAYS, SECONDS].values())).size
    at = [(how, level) for how in REACHED for level in thresholds]
    return [
        Shown(
            f"Evaluations of U_h that the algorithms are defined to make, mean over {trials} trials, and runs that "
            "never "
            "reach the regret. Our code does not make most of them",
            [*heads, "never: " + " / ".join(POLICIES)],
            [
                [how, f"{level:.0e}", *row(level, costs[how, EVALUATIONS], ",.0f"),
                 " / ".join(f"{missed[how][p, level]:.0%}" for p in POLICIES)]
                for how, level in at
            ],
        ),
        Shown(
            f"Computing time of our code in seconds, mean over {timed} trials",
            heads,
            [[how, f"{level:.0e}", *row(level, costs[how, SECONDS], ".2g")] for how, level in at],
        ),
        Shown("Rounds", heads, [[how, f"{level:.0e}", *row(level, rounds[how], ",.0f")] for how, level in at]),
    ]  # fmt: skip


def _text(
    rounds: By, seconds: By, looks: NDArray[np.int64], by_chance: float, thresholds: tuple[float, ...]
) -> list[str]:
    last, timed = thresholds[-1], next(iter(seconds.values())).size
    each = {p: 1e9 * seconds[p, last].sum() / rounds[p, last][:timed].sum() for p in POLICIES}
    more = rounds[LITERAL, last].mean() / rounds[FIXED, last].mean()
    return [
        f"ε = .06, A = 4, Gini deviation, Bernoulli arms {ANYTIME_ARMS}. {ANYTIME_ARMS.why} CIRT stands for the "
        "paper's "
        "stopping rule; our box rule is shown beside it. The paper explains its result by how many mixtures each "
        "algorithm goes through in a round, and so do we judge it: by the evaluations of U_h that the algorithms are "
        "defined to make. Our code leaves out most of these without changing a decision. What that takes in seconds of "
        "the processor (each trial played again by itself up to where it reaches the regret) is a question of our own.",
        f"A regret is looked at {looks.size} times, log-spaced. The paper says: until the observed regret falls "
        "below. In "
        f"the first rounds shares are right by chance: in {by_chance:.0%} of the fixed grid's runs the regret is "
        f"{last:.0e} or less at some look before round {EARLY}. So we count from round {EARLY} on. A stricter rule, of "
        "our own, is that the regret stays below from then on.",
        "Why is CIRT not always the one that needs less? By the paper's stopping rule because its phases end late: "
        "until "
        f"a regret of {last:.0e} is reached for good it takes {more:.1f} times as many rounds as the fixed grid, or "
        "has "
        "not reached it by T. By our box rule it needs about as many rounds, but one takes longer in our code, which "
        "looks at 0/1 rewards only when a decision can have changed, and that saves the fixed grid more. It stays "
        "with a "
        "mixture as long as its best possible value is h's maximum, which is certain for long stretches at a time. "
        "CIRT "
        "has to be sure that its leader leads and that the phase goes on; both are close calls near the end of a "
        "phase. "
        "Up to that regret a round takes "
        + ", ".join(f"{each[p]:.0f} ns ({p})" for p in POLICIES)
        + f". The fixed grid is defined to evaluate {FIXED_EVALUATIONS} mixtures in every round, and CIRT "
        f"{CIRT_EVALUATIONS} (A + 1 utilities, as many bounds) until refinement ends, none after.",
    ]


def _draw(costs: dict[tuple[str, str], By], thresholds: tuple[float, ...]) -> Any:
    with draw.canvas(4, width=3.0, height=3.3) as (figure, axes):
        for ax in axes:
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.invert_xaxis()
            ax.set_xlabel("regret to reach")
        for ax, cost in zip(axes, (EVALUATIONS, SECONDS), strict=False):
            for p, look in LOOKS.items():
                draw.points(ax, thresholds, [mean(costs[FALLS, cost][p, level]) for level in thresholds], look, p)
        axes[0].set_ylabel("evaluations of $U_h$, as defined")
        axes[0].set_title("falls below: evaluations", fontsize=10)
        axes[0].legend()
        axes[1].set_ylabel("seconds of our code")
        axes[1].set_title("falls below: seconds", fontsize=10)
        for ax, how in zip(axes[2:], REACHED, strict=True):
            for p in ZOOMS:
                for cost, dash in ((EVALUATIONS, "-"), (SECONDS, ":")):
                    found = costs[how, cost]
                    logs = [ratio(found[FIXED, level], found[p, level]) for level in thresholds]
                    values, error = np.exp([m.value for m in logs]), np.array([m.error for m in logs])
                    ax.errorbar(
                        thresholds, values, yerr=(values - values * np.exp(-error), values * np.exp(error) - values),
                        color=LOOKS[p].colour, ls=dash, marker=LOOKS[p].mark, capsize=3, lw=1.5, label=f"{p}: {cost}",
                    )  # fmt: skip
            ax.axhline(1.0, color=draw.GREY, lw=0.8)
            ax.set_ylim(0.02, 300.0)
            draw.number_axis(ax, (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10), "y")
            ax.set_title(f"{how}: fixed ÷ CIRT", fontsize=10)
        axes[2].set_ylabel("above 1: CIRT needs less")
        axes[3].legend(fontsize=7.5, loc="upper right")
    return figure
