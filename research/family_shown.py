"""Tables, text, data and the picture of the comparison of the family."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from research.draw import PAGE_STYLE
from research.family_plan import CLOSE_RATIO, JUDGED, LIMIT, OURS, VET
from research.family_scores import LEAST, Comparison, Scores, against
from research.measure import mean, rows
from research.outcome import FloatArray, Shown

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLOW = f"it would take more than {LIMIT:.0f} s a trial."
WORST = 100.0  # from this ratio on the colour is the darkest


def paragraphs(scores: Scores) -> list[str]:
    """The outcome in a few sentences."""
    out = [
        "Not in the paper: this library's own comparison. A number in the picture says how many times more regret a "
        "policy has than the best one on that instance; 1 is the best. The plan at the end was committed before "
        "anything was run."
    ]
    for t in scores.horizons:
        found = list(against(scores, t).values())
        if not found:
            continue
        counts = {v: sum(one.verdict == v for one in found) for v in ("better", "not told apart", "worse")}
        close = sum(one.ratio.value <= CLOSE_RATIO for one in found)
        largest = max(found, key=lambda one: one.ratio.value)
        out.append(
            f"After {t:,} rounds: on each instance we compare Vet with the best other policy. Of {len(found)} "
            f"instances Vet is better on {counts['better']} and worse on {counts['worse']}. On "
            f"{counts['not told apart']} the two cannot be told apart. On {close} instances the regret of Vet is at "
            f"most {CLOSE_RATIO:g} times that of the best other policy. The largest ratio is {largest.ratio.value:.3g} "
            f"(compared with {largest.other})."
        )
    return out


# ---- tables ----------------------------------------------------------------------------------------------


def tables(scores: Scores) -> list[Shown]:
    """Vet beside the best other, all regrets, and what was not played and why."""
    out = [_vet_against_best(scores, t) for t in scores.horizons if against(scores, t)]
    out += [_regret_table(scores, t) for t in scores.horizons]
    return [*out, _not_played_table(scores)]


def _vet_against_best(scores: Scores, t: int) -> Shown:
    lines = []
    found, published = against(scores, t), against(scores, t, OURS)
    for instance in scores.instances:
        if instance.key in found:
            one, regret = found[instance.key], scores.at(instance, t)
            beside = published.get(instance.key)
            lines.append(
                [instance.title, _number(regret[VET]), f"{np.quantile(regret[VET], 0.95):.1e}, {regret[VET].max():.1e}",
                 one.other, _number(regret[one.other]), ratio_text(one),
                 one.verdict, "–" if beside is None else f"{ratio_text(beside)} ({beside.other})"]
            )  # fmt: skip
    return Shown(
        f"Vet beside the best other policy, T = {t:,}: mean regret ± standard error (median). The ratio divides the "
        "mean regret of Vet by that of the other policy, on the trials that both played.",
        [
            "instance",
            VET,
            "95 % and worst of Vet",
            "best other",
            "its regret",
            "ratio",
            "Vet is",
            "ratio to the best published",
        ],
        lines,
    )


def ratio_text(one: Comparison) -> str:
    """A ratio with its standard error.

    >>> from research.measure import Mean
    >>> ratio_text(Comparison("Track", Mean(0.4567, 0.0321), Mean(-1.0, 0.1), 64))
    '0.46 ± 0.03'
    """
    if np.isnan(one.ratio.error):
        return f"{one.ratio.value:.2g}"
    return f"{one.ratio.value:.2f} ± {one.ratio.error:.2f}"


def _number(regret: FloatArray) -> str:
    found = mean(regret)
    error = "" if np.isnan(found.error) else f" ± {found.error:.0e}"
    return f"{found.value:.2e}{error} ({np.median(regret):.1e})"


def _regret_table(scores: Scores, t: int) -> Shown:
    lines = []
    for instance in scores.instances:
        regret = scores.at(instance, t)
        lines.append([instance.title, *(_number(regret[p]) if p in regret else "–" for p in scores.labels)])
    caption = f"All policies, T = {t:,}: mean regret ± standard error (median). “–”: not played, see below."
    return Shown(caption, ["instance", *scores.labels], lines)


def _not_played_table(scores: Scores) -> Shown:
    found: dict[tuple[str, str, int], list[str]] = {}
    for instance in scores.instances:
        for label in scores.labels:
            for t, why in scores.cells[instance.key, label].why.items():
                found.setdefault((label, why, t), []).append(instance.title)
    lines: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (label, why, t), where in found.items():
        lines.setdefault((label, why, tuple(dict.fromkeys(where))), []).append(f"{t:,}")
    ordered = sorted(lines.items(), key=lambda item: list(scores.labels).index(item[0][0]))
    return Shown(
        "What was not played, and why.",
        ["policy", "why", "at T =", "instances"],
        [[label, why, ", ".join(ts), "; ".join(where)] for (label, why, where), ts in ordered],
    )


def data(scores: Scores) -> dict[str, pa.Table]:
    """A row for each cell and horizon, one for each ratio, and one for each trial."""
    cells: list[dict[str, Any]] = []
    trials: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    title = {instance.key: instance.title for instance in scores.instances}
    for instance in scores.instances:
        for label in scores.labels:
            cell = scores.cells[instance.key, label]
            for t in scores.horizons:
                regret = cell.regret.get(t)
                row: dict[str, Any] = {"group": instance.group, "instance": instance.key, "title": instance.title,
                                       "policy": label, "t": t}  # fmt: skip
                if regret is None:
                    cells.append({**row, "trials": 0, "mean": None, "standard_error": None, "median": None,
                                  "why_not": cell.why[t]})  # fmt: skip
                    continue
                found = mean(regret)
                cells.append({**row, "trials": regret.size, "mean": found.value, "standard_error": found.error,
                              "median": float(np.median(regret)), "why_not": ""})  # fmt: skip
                trials += [{"instance": instance.key, "policy": label, "t": t, "trial": k, "regret": float(r)}
                           for k, r in enumerate(regret)]  # fmt: skip
    for others, without in (("all", (VET,)), ("published", OURS)):
        for t in scores.horizons:
            for key, one in against(scores, t, without).items():
                ratios.append({"instance": key, "title": title[key], "t": t, "others": others, "trials": one.trials,
                               **about_vet(scores.cells[key, VET].regret[t][: one.trials]), "best_other": one.other,
                               "other": float(scores.cells[key, one.other].regret[t][: one.trials].mean()),
                               "ratio": one.ratio.value, "ratio_error": one.ratio.error})  # fmt: skip
    out = {"family": rows(cells), "family-trials": rows(trials)}
    return {**out, "family-ratios": rows(ratios)} if ratios else out


def about_vet(regret: FloatArray) -> dict[str, float]:
    """Mean regret, what 95 % of the trials stay below, and the worst of them.

    >>> about_vet(np.array([1.0, 1.0, 4.0]))
    {'vet': 2.0, 'vet_95': 3.7, 'vet_worst': 4.0}
    """
    return {"vet": float(regret.mean()), "vet_95": round(float(np.quantile(regret, 0.95)), 15),
            "vet_worst": float(regret.max())}  # fmt: skip


# ---- the picture -----------------------------------------------------------------------------------------


def relative(scores: Scores, t: int) -> FloatArray:
    """Regret of each policy by that of the best one, one row an instance; NaN where it was not played."""
    out = np.full((len(scores.instances), len(scores.labels)), np.nan)
    for row, instance in enumerate(scores.instances):
        found = {label: max(float(r.mean()), LEAST) for label, r in scores.at(instance, t).items()}
        for label, regret in found.items():
            out[row, list(scores.labels).index(label)] = regret / min(found.values())
    return out


def picture(scores: Scores) -> Figure:
    """Instance by policy: how many times the regret of the best one, at the judged horizons."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    shown = [t for t in JUDGED if t in scores.horizons] or [max(scores.horizons)]
    groups = [(name, list(members)) for name, members in groupby(scores.instances, key=lambda one: one.group)]
    lines = len(scores.instances) + len(groups)
    columns = len(scores.labels)
    wide, high = 4.1 + len(shown) * (0.46 * columns + 0.12), 0.235 * lines + 1.7
    with mpl.rc_context({**PAGE_STYLE, "axes.grid": False}):
        figure = Figure(figsize=(wide, high))
        left, bottom, top = 4.0 / wide, 0.75 / high, 1.0 - 0.95 / high
        each = (1.0 - left - 0.08 / wide) / len(shown)
        for n, t in enumerate(shown):
            ax = figure.add_axes((left + n * each, bottom, each - 0.12 / wide, top - bottom))
            _panel(ax, scores, t, groups, named=n == 0)
        _legend(figure, wide, high)
    return figure


def _panel(ax: Axes, scores: Scores, t: int, groups: list[tuple[str, list[Any]]], *, named: bool) -> None:
    from matplotlib.patches import Rectangle

    values = relative(scores, t)
    columns = len(scores.labels)
    y, row = 0, 0
    for name, members in groups:
        if named:
            ax.text(-0.15, y + 0.62, name, ha="right", va="center", fontsize=9.5, fontweight="bold", clip_on=False)
        y += 1
        for instance in members:
            if named:
                ax.text(-0.15, y + 0.5, instance.title, ha="right", va="center", fontsize=8.8, clip_on=False)
            for column in range(columns):
                value = values[row, column]
                face, ink = colours(value)
                ax.add_patch(Rectangle((column, y), 1, 1, facecolor=face, edgecolor="white", lw=1.0))
                ax.text(column + 0.5, y + 0.53, times(value), ha="center", va="center", fontsize=8.3, color=ink)
            if not np.all(np.isnan(values[row])):
                best = int(np.nanargmin(values[row]))
                ax.add_patch(Rectangle((best + 0.04, y + 0.05), 0.92, 0.9, fill=False, edgecolor="black", lw=1.6))
            y, row = y + 1, row + 1
    ax.set_xlim(0, columns)
    ax.set_ylim(y, 0)
    ax.set_yticks([])
    ax.set_xticks(np.arange(columns) + 0.5, scores.labels, rotation=55, ha="left", fontsize=9, rotation_mode="anchor")
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xlabel(f"T = {t:,}", fontsize=11.5, fontweight="bold", labelpad=6)
    ax.xaxis.set_label_position("bottom")


def colours(value: float) -> tuple[Any, str]:
    """The colour of a cell on a log scale, from light (best) to dark, and that of its number."""
    import matplotlib as mpl

    if np.isnan(value):
        return "0.96", "0.55"
    place = min(np.log10(max(value, 1.0)) / np.log10(WORST), 1.0)
    return mpl.colormaps["YlGnBu"](0.03 + 0.94 * place), "white" if place > 0.55 else "black"


def times(value: float) -> str:
    """A ratio in as few characters as will do.

    >>> times(1.0), times(1.234), times(12.7), times(5000.0), times(float("nan"))
    ('1', '1.2', '13', '>999', '–')
    """
    if np.isnan(value):
        return "–"
    if value >= 999.5:
        return ">999"
    if value >= 9.95:
        return f"{value:.0f}"
    return "1" if value == 1.0 else f"{value:.1f}" if value >= 1.05 else f"{value:.2f}"


def _legend(figure: Figure, wide: float, high: float) -> None:
    from matplotlib.patches import Rectangle

    x, y = 0.15, 0.22
    for value in (1.0, 2.0, 5.0, 10.0, 30.0, 100.0):
        face, ink = colours(value)
        box = Rectangle((x / wide, y / high), 0.42 / wide, 0.22 / high, facecolor=face, edgecolor="0.8", lw=0.5,
                        transform=figure.transFigure)  # fmt: skip
        figure.add_artist(box)
        figure.text((x + 0.21) / wide, (y + 0.11) / high, f"{value:.0f}", ha="center", va="center", fontsize=8.3,
                    color=ink)  # fmt: skip
        x += 0.42
    figure.text(
        (x + 0.12) / wide, (y + 0.11) / high,
        "times the mean regret of the best policy (framed)\n–  not played: it refuses, or is too slow",
        ha="left", va="center", fontsize=9.0,
    )  # fmt: skip
