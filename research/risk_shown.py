"""Tables, text, data and pictures of the risk-sensitive bandits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from research.draw import COLOURS, STYLE
from research.outcome import Shown
from research.risk_rates import EXPLORATIONS, Rate, exponent_text
from research.risk_series import (
    OURS,
    OURS_BETA,
    OURS_CE,
    OURS_ETC,
    OURS_UCB,
    PRASHANTH_BHAT,
    TRACK,
    Series,
    below_floor,
    best_of,
    mean_error,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One look for each policy in all figures: colour, dash, mark. The paper's are blue and drawn thicker.
LOOKS: dict[str, tuple[str, Any, str]] = {
    "UCB1": ("0.55", ":", "x"),
    "Thompson": ("0.55", "-", "+"),
    "CVaR-UCB": (COLOURS[4], "--", "s"),
    "Brown-UCB": (COLOURS[3], ":", "v"),
    "U-UCB": (COLOURS[3], "--", "D"),
    "W-UCB": (COLOURS[2], "--", "P"),
    PRASHANTH_BHAT: (COLOURS[3], "-", "P"),
    "M-CVTS": (COLOURS[2], "-", "^"),
    "B-CVTS": (COLOURS[1], "-", "o"),
    "ρ-NPTS": (COLOURS[1], "-", "o"),
    OURS_UCB: (COLOURS[0], "-", "*"),
    OURS_CE: (COLOURS[0], "--", "h"),
    OURS_ETC: (COLOURS[0], ":", "d"),
    OURS_BETA: (COLOURS[0], (0, (4, 1, 1, 1)), "X"),
    "PM-ETC-M": (COLOURS[0], ":", "d"),
    "PM-UCB-M": (COLOURS[0], "-", "*"),
    "CE-UCB-M": (COLOURS[0], "--", "h"),
    "CIRT": (COLOURS[5], "-", "<"),
    TRACK: ("black", "-", "p"),
}


def table(caption: str, parts: list[Series]) -> Shown:
    """Regret at the end, one row a policy and one column a setting."""
    labels = sorted(parts[0].regret, key=lambda label: float(np.mean([p.ranking().index(label) for p in parts])))
    rows = []
    for label in labels:
        cells = []
        for part in parts:
            mean, error = part.last(label)
            mark = " ←" if label in part.tied() else ""
            cells.append(f"{mean:.2e} ± {error:.0e}{mark}")
        rows.append([label, *cells])
    if parts[0].floor is not None:
        rows.append(["floor of any single arm", *(f"{part.floor:.2e}" for part in parts)])
    caption += " ← marks the least, and what cannot be told from it."
    return Shown(caption, ["policy", *(p.title for p in parts)], rows)


def winners(parts: list[Series]) -> Shown:
    """Who has the least regret in each setting."""
    rows = []
    for part in parts:
        mine, theirs = best_of(part, True), best_of(part, False)
        a, b = part.last(mine)[0], part.last(theirs)[0]
        rows.append([part.title, f"{theirs} {b:.2e}", f"{mine} {a:.2e}", _factor(a, b)])
    return Shown("Who wins where.", ["setting", "best published", "best of the paper's", "outcome"], rows)


def exponents(parts: list[Rate]) -> Shown:
    """The fitted exponents of log T / T, beside what the paper says."""
    labels = parts[0].series.regret
    orders = [
        [f"{OURS_ETC}: the paper", *(f"{part.etc_order:.3g}" for part in parts)],
        [f"{OURS_BETA}: the paper", *(f"{part.ucb_order:.3g}" for part in parts)],
        ["W-UCB: the paper", *(f"{part.q / 2:.3g}" for part in parts)],
    ]
    horizons = parts[0].series.t
    return Shown(
        f"Part 3: exponent p of regret ~ (log T / T)^p, fitted from T = {horizons[0]:,} to {horizons[-1]:,} ± one "
        "standard error over the trials, and the orders that the paper gives.",
        ["policy", *(part.series.title for part in parts)],
        [*([label, *(exponent_text(part.exponent(label)) for part in parts)] for label in labels), *orders],
    )


def sweep(parts: list[Rate]) -> Shown:
    """What hangs on the exploration of PM-ETC-M."""
    rows = []
    for c in EXPLORATIONS:
        found = [mean_error(part.swept[c][:, -1]) for part in parts]
        rows.append([f"{c:g}", *(f"{mean:.2e} ± {error:.0e}" for mean, error in found)])
    return Shown(
        "Part 3: PM-ETC-M with ε = 1 and c·log T pulls of each arm to explore, regret at T = "
        f"{parts[0].series.t[-1]:,}. Elsewhere c is one step above what is best on the other half of the trials, as if "
        "the gap were known.",
        ["c", *(part.series.title for part in parts)],
        rows,
    )


def _factor(ours: float, theirs: float) -> str:
    if min(ours, theirs) <= 0.0:
        return "equal" if ours == theirs else "published" if theirs < ours else "the paper's"
    ratio = ours / theirs
    return (
        f"published, {ratio:.1f} times less regret"
        if ratio > 1.0
        else f"the paper's, {1 / ratio:.1f} times less regret"
    )


def paragraphs(cvar: list[Series], many: Series, rates: list[Rate], mixed: list[Series]) -> list[str]:
    """What the comparison says."""

    def ratios(parts: list[Series]) -> str:
        found = [part.last(best_of(part, True))[0] / part.last(best_of(part, False))[0] for part in parts]
        return f"{min(found):.1f}" if len(found) == 1 else f"{min(found):.1f}–{max(found):.1f}"

    best = " and ".join(dict.fromkeys(best_of(p, False) for p in cvar))
    return [
        "The paper compares regret orders with CVaR and distortion-risk bandits; here the algorithms play. "
        "All published ones settle on one arm. The paper's are run so that they decide for one arm too. PM-ETC-M takes "
        "ε = 1 as it stands. With the ½KεT rounds of the paper's experiments it would only explore; its theorem asks "
        "for an exploration of the order log T, with a constant for which one must know the gap. So c·log T pulls of "
        "each arm are tried for several c, and the one above the best on the other half of the runs is taken. PM-UCB-M "
        "is played on its grid with the schedule for β = 1, as the paper has it; that grid keeps a share ε/2 for every "
        "arm. Beside it stand the indices of PM-UCB-M and CE-UCB-M over the K single arms (“ε = 1”, SolitaryUCB).",
        f"Parts 1 and 2, lower-tail CVaR: {best} is best among the published; the best of the paper's has "
        f"{ratios(cvar)} times its regret on random arms, {ratios([many])} times with 30 arms. PM-UCB-M over single "
        "arms with a DKW band is CVaR-UCB by construction: that they agree is no finding. ρ-NPTS with this metric is "
        "B-CVTS, so it is not listed again; W-UCB is U-UCB with a larger constant.",
        "Part 3, rates: the paper's CVaR is the mean of the best 1 − c, its measures seek risk, and its claims are "
        "about orders in T. Arms of which one dominates the others are played over several horizons, and the exponent "
        "of log T / T is fitted. The shortest horizons still count exploration at its full price, which makes fitted "
        "exponents of optimistic policies smaller than they will become.",
        "Part 3b: the paper generalises CVaR, dual power and quadratic measures from bounded to sub-Gaussian rewards, "
        "and "
        "names Prashanth and Bhat (2022) as the study that has these. So the same is played on normal arms. Their "
        "index "
        "(the empirical value plus what the Hölder pair allows within the radius of their concentration inequality, "
        "here "
        "turned round to seek large values) is SolitaryUCB(index='additive', confidence='paper').",
        "Part 4: where a mixture is best, a policy that settles on one arm keeps the regret of the best arm for ever; "
        f"the paper's algorithms go below it, by a factor of "
        f"{min(below_floor(p) for p in mixed):.0f}–{max(below_floor(p) for p in mixed):.0f} at the end. "
        "A solitary policy below the floor is one that is still exploring, and mixes by accident: a bonus with Hölder "
        "exponent ½ (Wang right-tail) hardly ever lets it settle. PM-ETC-M plays its shares arm after arm and meets "
        "them at T only.",
        "What would close the gap on solitary instances: optimism pays for the whole band at every arm. The Thompson "
        "policies sample from the arm's own rewards and so explore at the rate of the lower bound (K_inf). Either a "
        "K_inf index in place of the band, or Dirichlet weights on the arms' rewards with the *mixture* that is best "
        "for the draw (the same draw as ρ-NPTS, then the oracle's solver, then tracking) would carry that over to "
        "mixtures; so would estimating and tracking without optimism.",
        "Cost: B-CVTS and ρ-NPTS draw a weight for every reward, O(n) a round and O(T²) a run, for all arms in one "
        "pass; on a finite support equal rewards share one gamma variate and a round costs O(K × atoms).",
    ]


def data(parts: Mapping[str, list[Series]]) -> pa.Table:
    """All curves as a table."""
    import pyarrow as pa

    rows: dict[str, list[Any]] = {name: [] for name in ("part", "setting", "policy", "t", "regret", "standard_error")}
    for name, many in parts.items():
        for part in many:
            for label, regret in part.regret.items():
                for c, t in enumerate(part.t):
                    mean, error = mean_error(regret[:, c])
                    values = (name, part.title, label, int(t), mean, error)
                    for key, value in zip(rows, values, strict=True):
                        rows[key].append(value)
    return pa.table(rows)


def figure_of(parts: list[Series], title: str) -> Figure:
    """Curves of regret, one panel a setting."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(len(parts), 2 if len(parts) == 4 else 3)
    rows = -(-len(parts) // columns)
    with mpl.rc_context(STYLE):
        width = 5.0 if len(parts) == 1 else 3.6 * columns
        figure = Figure(figsize=(width, 3.3 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for part, ax in zip(parts, axes.flat, strict=False):
            _draw(part, ax)
        for ax in axes.flat[len(parts) :]:
            ax.set_axis_off()
        for ax in axes.flat[max(0, len(parts) - columns) : len(parts)]:
            ax.set_xlabel("rounds")
        for ax in axes[:, 0]:
            ax.set_ylabel("regret per round")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", fontsize=8.5, handlelength=3.2)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11.5)
    return figure


def _draw(part: Series, ax: Axes) -> None:
    order: Callable[[str], int] = list(LOOKS).index
    start = int(np.searchsorted(part.t, 30))
    for label in sorted(part.regret, key=order):
        colour, dash, mark = LOOKS[label]
        t, regret = part.t[start:], part.regret[label][:, start:]
        mean = regret.mean(axis=0)
        error = regret.std(axis=0, ddof=1) / np.sqrt(regret.shape[0]) if regret.shape[0] > 1 else 0.0 * mean
        shown = np.where(mean > 1e-9, mean, np.nan)
        bars = np.stack((np.minimum(error, 0.9 * mean), error)).clip(min=0.0)
        ax.errorbar(t, shown, yerr=bars, color=colour, ls=dash, marker=mark, ms=4, capsize=2,
                    lw=1.9 if label in (*OURS, TRACK) else 1.2, elinewidth=0.8, label=label)  # fmt: skip
    if part.floor is not None:
        ax.axhline(part.floor, color="0.2", lw=0.9, ls=(0, (1, 2)), label="floor of single arms")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(which="major", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_title(part.title, fontsize=10)
