"""Pictures, in one style: colour-blind safe, readable in grey, returned as matplotlib objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._intervals import mean_interval
from pmbandits._plot_style import STYLE as STYLE
from pmbandits._plot_style import axes_in_library_style
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit, cdf_grid
from pmbandits.constraints import Shares
from pmbandits.estimates import ArmEstimate
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.distortion_function import distortion_curve
from pmbandits.mixtures import etc_grid
from pmbandits.optimize import OracleResult, oracle, utilities
from pmbandits.palette import COLOURS as COLOURS
from pmbandits.palette import DASHES as DASHES
from pmbandits.palette import MARKS as MARKS
from pmbandits.palette import arm_colour as colour_of
from pmbandits.palette import arm_line_style as dash_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pmbandits.simulation.decomposition import Decomposition
    from pmbandits.simulation.run import Run


class HasEstimates(Protocol):
    """Anything with estimates of the arms: a policy or advice."""

    @property
    def estimates(self) -> tuple[ArmEstimate, ...]: ...


MAX_MARKED_CHANGES = 20  # changes that are marked in a picture
_TRIANGLE_VERTICES = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def plot_mixture(
    metric: Distortion | str,
    bandit: Bandit,
    ax: Axes | None = None,
    *,
    shares: Shares = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Draw the utility of mixtures of the arms: a line for two arms, a triangle for three, bars for more.

    Parameters
    ----------
    metric, bandit : what is valued, and the arms.
    ax : the axes to draw on; by default those of a new figure.
    shares : limits on the shares, as in :func:`oracle`. The mixtures that keep them are marked, and the best of them.
    title : the title; by default it names the metric.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> ax = pmb.plot_mixture(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]))
    >>> ax.get_ylabel()
    'utility'
    """
    metric = as_metric(metric)
    with axes_in_library_style(ax, (4.8, 3.6), path) as ax:
        best = oracle(metric, bandit, shares=shares)
        draw = {2: _draw_two_arms, 3: _draw_three_arms}.get(bandit.n_arms, _draw_many_arms)
        draw(metric, bandit, best, ax)
        ax.set_title(title if title is not None else f"{metric!r}", pad=16 if bandit.n_arms == 3 else 6)
    return ax


def plot_distortion(
    *metrics: Distortion | str, ax: Axes | None = None, title: str | None = None, path: str | Path | None = None
) -> Axes:
    """Draw the curves h(u) of metrics against the survival probability u.

    Where a curve is steeper than the diagonal, which is that of the mean, outcomes count for more.

    Parameters
    ----------
    metrics : one metric or several.
    ax : the axes to draw on; by default those of a new figure.
    title : the title; by default it names the metric, if there is only one.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> ax = pmb.plot_distortion(pmb.UpperCVaR(0.9), pmb.Mean())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['UpperCVaR(c=0.9)', 'Mean()']
    """
    if not metrics:
        raise ValueError("give at least one metric to draw, such as GiniDeviation().")
    drawn = [as_metric(metric) for metric in metrics]
    with axes_in_library_style(ax, (4.8, 3.6), path) as ax:
        line_styles = zip(cycle(COLOURS), cycle(DASHES), strict=False)
        for metric, (colour, dash) in zip(drawn, line_styles, strict=False):
            u, h = distortion_curve(metric)
            ax.plot(u, h, color=colour, ls=dash, lw=2.0, label=repr(metric))
        ax.axhline(0.0, color="0.6", lw=0.8, zorder=0)
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel("u: chance of a larger reward   (0: best outcomes, 1: worst)")
        ax.set_ylabel("h(u)")
        if len(drawn) > 1:
            ax.legend(fontsize=8.5, handlelength=3.2, loc="best")
        ax.set_title(title if title is not None else repr(drawn[0]) if len(drawn) == 1 else "distortions")
    return ax


def plot_arms(
    arms: Bandit | Sequence[ArmEstimate] | HasEstimates,
    ax: Axes | None = None,
    *,
    places: Sequence[int] | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Draw the distribution functions of the arms; for estimates with their confidence bands.

    At most six arms are drawn: the first ones, or those with most rewards.

    Parameters
    ----------
    arms : a bandit, whose true distribution functions are drawn; or a policy, advice or a list of estimates, whose
        empirical ones are drawn, with bands.
    ax : the axes to draw on; by default those of a new figure.
    places : for a list of some estimates: their places among all arms, which decide their colours. By default their
        order.
    title : the title; by default it says what the bands are.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import scipy.stats as st
    >>> import pmbandits as pmb
    >>> ax = pmb.plot_arms(pmb.Bandit([st.norm(1), st.norm(3)], names=["low", "high"]))
    >>> ax.get_ylabel()
    'share of rewards up to x'
    """
    with axes_in_library_style(ax, (4.8, 3.6), path) as ax:
        banded = False
        if isinstance(arms, Bandit):
            x = cdf_grid(arms.distributions[:6])
            for k, (name, distribution) in enumerate(zip(arms.names[:6], arms.distributions, strict=False)):
                ax.step(x, distribution.cdf(x), where="post", color=colour_of(k), ls=dash_of(k), lw=1.8, label=name)
        else:
            estimates = list(arms.estimates if hasattr(arms, "estimates") else arms)
            shown = sorted(sorted(range(len(estimates)), key=lambda k: -estimates[k].n)[:6])
            shown = [k for k in shown if estimates[k].n]
            seen = [estimates[k] for k in shown]
            if not seen:
                raise ValueError("no arm has a reward yet; there is nothing to draw.")
            points = np.unique(np.concatenate([e.x for e in seen]))
            pad = 0.04 * float(points[-1] - points[0]) or 0.5
            x = np.concatenate(([points[0] - pad], points, [points[-1] + pad]))
            for k, estimate in zip(shown, seen, strict=True):
                place = k if places is None else places[k]
                colour, label = colour_of(place), f"{estimate.name} ({estimate.n:,})"
                ax.step(x, estimate.cdf(x), where="post", color=colour, ls=dash_of(place), lw=1.8, label=label)
                if estimate.kind in ("band", "kl_band", "interval") and np.isfinite(estimate.radius):
                    low, high = estimate.band(x)
                    ax.fill_between(x, low, high, step="post", color=colour, alpha=0.15, lw=0.0)
                    banded = True
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("reward x")
        ax.set_ylabel("share of rewards up to x")
        ax.legend(fontsize=8.5, handlelength=3.2, loc="best")
        ax.set_title(title if title is not None else "the arms, with confidence bands" if banded else "the arms")
    return ax


Snapshot = tuple[int, ArrayLike, ArrayLike]


def plot_life(
    life: Run | Sequence[Snapshot],
    ax: Axes | None = None,
    *,
    policy: str | None = None,
    trial: int | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Draw how a policy played: the share of pulls that each arm got (lines), and the share that it should get (dots).

    Vertical lines mark the ends of a policy's phases. At most six arms are drawn, those that were played most.

    Parameters
    ----------
    life : what :func:`simulate` returned, or notes ``[(policy.t, policy.pulls, policy.mixture), …]`` that you took
        while asking and telling.
    ax : the axes to draw on; by default those of a new figure.
    policy, trial : for a run: which policy and which trial. By default the first.
    names : the names of the arms, for your own notes.
    title : the title; by default it names the policy.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> run = pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), pmb.CIRT(), 500, trials=2)
    >>> pmb.plot_life(run).get_ylabel()
    'share (%)'
    """
    t: Any
    ends: FloatArray = np.zeros(0)
    if hasattr(life, "column"):
        life = cast("Run", life)
        label = _validation.check_choice("policy", policy if policy is not None else life.policies[0], life.policies)
        trial = life.trials[0] if trial is None else trial
        if trial not in life.trials:
            raise ValueError(f"there is no trial {trial}; trials are {life.trials[0]} to {life.trials[-1]}.")
        row = life.trials.index(trial)
        t, pulls = life.column("pulls", label)
        mixture = life.column("mixture", label)[1][row]
        played, names = pulls[row] / t[:, None], life.spec["bandit"]["names"]
        ends = np.asarray(life.phase_ends(label, trial), dtype=np.float64)
    else:
        snapshots = life
        if not snapshots:
            raise ValueError("the notes are empty; take at least one: (policy.t, policy.pulls, policy.mixture).")
        t, played, mixture = (np.array([np.asarray(one[k]) for one in snapshots], dtype=np.float64) for k in range(3))
        played /= np.maximum(t, 1.0)[:, None]
        label = "a policy's life"
        names = [f"arm {k}" for k in range(mixture.shape[1])] if names is None else list(names)
    with axes_in_library_style(ax, (5.6, 3.8), path) as ax:
        drawn = np.sort(np.argsort(-played[-1], kind="stable")[:6])
        for k, colour in ((int(k), colour_of(int(k))) for k in drawn):
            ax.plot(t, 100 * played[:, k], color=colour, lw=1.8, label=names[k])
            ax.plot(t, 100 * mixture[:, k], color=colour, ls=":", marker=".", ms=5, lw=1.0)
        for end in ends:
            ax.axvline(end, color="0.5", lw=0.9, ls="--", zorder=0)
        ax.set_xscale("log")
        ax.set_ylim(-3.0, 103.0)
        ax.set_xlabel("rounds")
        ax.set_ylabel("share (%)")
        handles, labels = ax.get_legend_handles_labels()
        (played_mark,) = ax.plot([], [], color="0.3", lw=1.8)
        (wanted_mark,) = ax.plot([], [], color="0.3", ls=":", marker=".", lw=1.0)
        handles, labels = [*handles, played_mark, wanted_mark], [*labels, "played", "mixture"]
        if ends.size:
            handles.append(ax.plot([], [], color="0.5", lw=0.9, ls="--")[0])
            labels.append("a phase ends")
        ax.legend(handles, labels, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        named = label if trial is None else f"{label}, trial {trial}"
        ax.set_title(title if title is not None else named)
    return ax


def plot_regret(
    run: Run,
    ax: Axes | None = None,
    *,
    column: str = "regret",
    policies: Sequence[str] | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> Axes:
    """Draw the mean regret of every policy against rounds on logarithmic axes, with bands for its 95 % interval.

    A policy that was run for several horizons is drawn as points with such intervals, one for each horizon. Where arms
    change, or come and go, the axis of rounds is not logarithmic, and thin lines mark up to 20 changes. Logarithmic
    axes do not show a regret of 0: the legend says whose regret is 0, always or at some of the rounds.

    Parameters
    ----------
    run : what :func:`simulate` returned.
    ax : the axes to draw on; by default those of a new figure.
    column : ``"regret"``, or ``"arm_regret"``: the cumulative regret to the best single arm, as papers on CVaR bandits
        report it.
    policies : the policies to draw, in this order; by default all. Each has the same colour in every choice.
    title : the title; by default it names the metric and the arms.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> run = pmb.simulate(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), pmb.CIRT(), 500, trials=5)
    >>> pmb.plot_regret(run).get_xscale()
    'log'
    """
    _validation.check_choice("column", column, ("regret", "arm_regret"))
    wanted = run.policies if policies is None else [policies] if isinstance(policies, str) else policies
    shown = [_validation.check_choice("policy", p, run.policies) for p in wanted]
    with axes_in_library_style(ax, (5.6, 3.8), path) as ax:
        line_styles = zip(cycle(COLOURS), cycle(DASHES), cycle(MARKS), strict=False)
        style_of = dict(zip(run.policies, line_styles, strict=False))
        lowest, labels = np.inf, {}
        for label in shown:
            colour, dash, mark = style_of[label]
            horizons = run.horizons(label)
            if len(horizons) > 1:
                t = np.array(horizons)
                ends = [run.column(column, label, h)[1][:, -1] for h in horizons]
                mean, low, high = _mean_and_interval(np.stack(ends, axis=1))
                bars = np.stack((mean - np.maximum(low, mean * 1e-3), high - mean)).clip(min=0.0)
                ax.errorbar(t, _positive_or_nan(mean), yerr=bars, color=colour, ls=dash, marker=mark, ms=5, capsize=3,
                            lw=1.4, label=label)  # fmt: skip
            else:
                mean = _draw_mean_regret(ax, *run.column(column, label), color=colour, ls=dash, label=label)
            shows = np.isfinite(_positive_or_nan(mean))
            lowest = min(lowest, float(np.min(mean[shows], initial=np.inf)))
            labels[label] = label if shows.all() else f"{label} (0 in gaps)" if shows.any() else f"{label} (regret 0)"
        if run.is_stationary:
            ax.set_xscale("log")
        else:
            ax.locator_params(axis="x", nbins=4)
            ax.xaxis.set_major_formatter("{x:,.0f}")
        for change in run.changes if len(run.changes) <= MAX_MARKED_CHANGES else ():
            ax.axvline(change, color="0.6", lw=0.8, ls=":", zorder=0)
        if np.isfinite(lowest):
            ax.set_yscale("log")
        else:  # no regret at all
            ax.set_xlim(1.0, max(max(run.horizons(label)) for label in run.policies))
            ax.set_ylim(0.0, 1.0)
            ax.axhline(0.0, color=COLOURS[0], lw=3.0)
            ax.text(0.5, 0.5, "the regret of all policies is 0", transform=ax.transAxes, ha="center")
        _label_regret_axes(ax, "" if run.is_stationary else ", against\nthe best mixture of each period")
        if column == "arm_regret":
            ax.set_ylabel("cumulative regret to the best arm")
        drawn = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        handles = [drawn[label] for label in shown]
        ax.legend(
            handles,
            [labels[label] for label in shown],
            fontsize=8.5,
            handlelength=3.2,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
        )
        trials = len(run.trials)
        ax.set_title(title if title is not None else f"{run.spec['metric_text']}, {trials} trials")
    return ax


def plot_decomposition(parts: Decomposition, ax: Axes | None = None, *, path: str | Path | None = None) -> Axes:
    """Draw the regret of a run against rounds, with what the policy's grid costs and what its choices cost.

    Parameters
    ----------
    parts : what :meth:`Run.decomposition` returned.
    ax : the axes to draw on; by default those of a new figure.
    path : a file to which the picture is also written.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import pmbandits as pmb
    >>> arms, etc = pmb.Bandit.bernoulli([0.4, 0.85]), pmb.PMETC(horizon=500, epsilon=0.25)
    >>> run = pmb.simulate(pmb.GiniDeviation(), arms, etc, 500, trials=5)
    >>> pmb.plot_decomposition(run.decomposition("PMETC")).get_xscale()
    'log'
    """
    with axes_in_library_style(ax, (5.6, 3.8), path) as ax:
        mean = _draw_mean_regret(ax, parts.t, parts.regret, color=COLOURS[0], label="regret")
        chosen = mean - parts.estimation
        if parts.estimation > 0.0:
            ax.axhline(parts.estimation, color=COLOURS[1], ls="--", lw=1.4, label="estimation (the grid)")
        negative = bool((chosen <= 0.0).any())
        label = "arm selection" + (", where positive" if negative else "")
        ax.plot(parts.t, np.where(chosen > 0.0, chosen, np.nan), color=COLOURS[2], ls=":", lw=1.8, label=label)
        ax.set_xscale("log")
        if np.isfinite(_positive_or_nan(mean)).any():
            ax.set_yscale("log")
        _label_regret_axes(ax)
        ax.legend(fontsize=8.5)
        ax.set_title(f"{parts.policy}: regret in two parts")
    return ax


def _label_regret_axes(ax: Axes, against: str = "") -> None:
    ax.set_xlabel("rounds")
    ax.set_ylabel(f"regret per round{against}")
    ax.grid(which="major", color="0.9", lw=0.6)
    ax.set_axisbelow(True)


def _draw_mean_regret(ax: Axes, t: ArrayLike, regret: FloatArray, **line: Any) -> FloatArray:
    """Draw the mean over trials (rows) as a line, with a band for its interval; returns the mean."""
    mean, low, high = _mean_and_interval(regret)
    ax.plot(t, _positive_or_nan(mean), lw=1.8, **line)
    low, high = _positive_or_nan(np.maximum(low, mean * 1e-1)), _positive_or_nan(high)
    ax.fill_between(t, low, high, color=line["color"], alpha=0.2, lw=0.0)
    return mean


def _mean_and_interval(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mean over trials (rows) and its interval; of one trial there is no interval, only a line."""
    mean, low, high = mean_interval(values)
    return (mean, low, high) if values.shape[0] > 1 else (mean, mean, mean)


def _positive_or_nan(values: FloatArray) -> FloatArray:
    """Log axes show only what is above 0 (and above rounding)."""
    return np.where(values > 1e-15, values, np.nan)


def _mixture_text(best: OracleResult) -> str:
    used = np.flatnonzero(best.weights > 0.0)
    parts = [f"{best.names[i]} {100 * best.weights[i]:.0f} %" for i in used[:3]]
    return ", ".join(parts) + (f" and {used.size - 3} more" if used.size > 3 else "")


def _draw_two_arms(metric: Distortion, bandit: Bandit, best: OracleResult, ax: Axes) -> None:
    share = np.linspace(0.0, 1.0, 401)
    values = utilities(metric, bandit, np.column_stack((1.0 - share, share)))
    corners = _corners_within_limits(best)
    inside = [0.0, 1.0] if corners is None else [corners[:, 1].min(), corners[:, 1].max()]
    ax.plot(100 * share, values, color=COLOURS[0], lw=2.0, label="mixtures")
    if corners is not None:
        ax.axvspan(100 * inside[0], 100 * inside[1], color="0.88", zorder=0, label="within the limits")
    ax.plot([0, 100], values[[0, -1]], "s", color=COLOURS[1], ms=7, label="single arms", clip_on=False, zorder=3)
    label = f"best: {_mixture_text(best)}"
    ax.plot(100 * best.weights[1], best.value, "*", color=COLOURS[2], ms=15, label=label, clip_on=False, zorder=4)
    ax.set_xlabel(f"share of pulls given to {bandit.names[1]} (%)")
    ax.set_ylabel("utility")
    ax.margins(y=0.12)
    ax.legend(loc="best", fontsize=9)


def _draw_three_arms(metric: Distortion, bandit: Bandit, best: OracleResult, ax: Axes) -> None:
    grid = etc_grid(3, 1 / 60)
    values = utilities(metric, bandit, grid)
    place = grid @ _TRIANGLE_VERTICES
    drawn = ax.tricontourf(place[:, 0], place[:, 1], values, levels=24, cmap="cividis")
    ax.figure.colorbar(drawn, ax=ax, shrink=0.8, label="utility")
    ax.plot(*np.vstack((_TRIANGLE_VERTICES, _TRIANGLE_VERTICES[:1])).T, color="0.25", lw=1.0)
    ax.plot(*_TRIANGLE_VERTICES.T, "s", color=COLOURS[1], ms=7, clip_on=False, label="single arms")
    corners = _corners_within_limits(best)
    if corners is not None:
        around = corners @ _TRIANGLE_VERTICES
        turn = np.arctan2(*(around - around.mean(axis=0)).T[::-1])
        around = around[np.argsort(turn)]
        ax.plot(*np.vstack((around, around[:1])).T, color="white", lw=4.0)
        ax.plot(*np.vstack((around, around[:1])).T, color="black", lw=1.8, label="within the limits")
    star: FloatArray = best.weights @ _TRIANGLE_VERTICES
    label = f"best: {_mixture_text(best)}"
    ax.plot(*star, "*", color="white", mec="black", ms=16, clip_on=False, label=label)
    for corner, name, shift in zip(_TRIANGLE_VERTICES, bandit.names, ((0, -14), (0, -14), (0, 13)), strict=True):
        ax.annotate(name, corner, xytext=shift, textcoords="offset points", ha="center", va="center")
    ax.set_aspect("equal")
    ax.axis("off")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), fontsize=9, ncols=2)


def _corners_within_limits(best: OracleResult) -> FloatArray | None:
    """The corners of the mixtures that keep the limits, if there are limits."""
    return None if best.limits is None else best.limits.polytope.corners(100)


def _draw_many_arms(metric: Distortion, bandit: Bandit, best: OracleResult, ax: Axes) -> None:
    singles = utilities(metric, bandit, np.eye(bandit.n_arms))
    shown = np.argsort(-singles, kind="stable")[:12]
    names = [*(bandit.names[i] for i in shown), "best mixture" if best.limits is None else "best within limits"]
    colours = [COLOURS[0]] * shown.size + [COLOURS[2]]
    ax.barh(np.arange(len(names)), [*singles[shown], best.value], color=colours, tick_label=names)
    ax.axvline(best.value, color=COLOURS[2], lw=1.0, ls="--")
    ax.invert_yaxis()
    ax.set_xlabel("utility")
