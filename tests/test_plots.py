"""Pictures of mixtures: what is drawn, and that it can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats as st
from matplotlib.axes import Axes

import pmbandits as pmb

BANDITS = {
    2: pmb.Bandit.bernoulli([0.4, 0.9], names=["slow", "fast"]),
    3: pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)], names=["low", "mid", "high"]),
    5: pmb.Bandit([[0, 1], [0, 3], [1, 2], [5, 6], [2, 9]], names=["a", "b", "c", "d", "e"]),
}


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def texts(ax: Axes) -> str:
    """All text of a picture."""
    parts = [ax.get_title(loc="left"), ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
    parts += [text.get_text() for text in ax.texts]
    parts += [label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    legend = ax.get_legend()
    parts += [text.get_text() for text in legend.get_texts()] if legend is not None else []
    return " | ".join(parts)


@pytest.mark.parametrize("count", BANDITS)
def test_a_picture_is_returned_as_axes_and_saved_as_png(count: int, tmp_path: Path) -> None:
    ax = pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[count])
    assert isinstance(ax, Axes)
    path = tmp_path / "mixture.png"
    ax.figure.savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    image = plt.imread(path)
    assert min(image.shape[:2]) > 200
    assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > 20  # not a blank sheet


@pytest.mark.parametrize("count", BANDITS)
def test_the_metric_is_named_in_the_title_unless_a_title_is_given(count: int) -> None:
    assert "GiniDeviation" in texts(pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[count]))
    titled = texts(pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[count], title="variety"))
    assert "variety" in titled and "GiniDeviation" not in titled


def test_two_arms_are_a_labelled_line_whose_star_is_the_best_mixture() -> None:
    ax = pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[2])
    assert "fast" in ax.get_xlabel()
    assert ax.get_ylabel() == "utility"
    assert "slow 80 %, fast 20 %" in texts(ax)
    mixtures, singles, star = ax.lines
    assert star.get_xydata() == pytest.approx(np.array([[20.0, 0.25]]))
    assert singles.get_ydata() == pytest.approx([0.24, 0.09])
    assert np.max(mixtures.get_ydata()) <= 0.25 + 1e-12
    share = np.asarray(mixtures.get_xdata()) / 100
    mean = 0.4 + 0.5 * share
    assert mixtures.get_ydata() == pytest.approx(mean * (1 - mean))


def test_three_arms_are_a_triangle_with_a_name_at_each_corner_and_a_colour_bar() -> None:
    ax = pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[3])
    assert [text.get_text() for text in ax.texts] == ["low", "mid", "high"]
    assert "low 50 %, high 50 %" in texts(ax)
    bars = [other for other in ax.figure.axes if other is not ax]
    assert [bar.get_ylabel() for bar in bars] == ["utility"]
    star = ax.lines[-1].get_xydata()[0]
    assert star == pytest.approx([0.25, np.sqrt(0.75) / 2], abs=1e-6)  # halfway between the corners low and high


def test_more_arms_are_bars_and_the_mixture_is_the_highest() -> None:
    bandit = BANDITS[5]
    ax = pmb.plot_mixture(pmb.GiniDeviation(), bandit)
    heights = [bar.get_width() for bar in ax.patches]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-1] == "best mixture"
    assert sorted(labels[:-1]) == sorted(bandit.names)
    assert heights[-1] == pytest.approx(pmb.oracle(pmb.GiniDeviation(), bandit).value)
    assert heights[-1] == max(heights)
    for name, height in zip(labels[:-1], heights[:-1], strict=True):
        alone = np.eye(5)[bandit.index(name)]
        assert height == pytest.approx(pmb.utility(pmb.GiniDeviation(), bandit, alone))
    assert ax.get_xlabel() == "utility"


@pytest.mark.parametrize("count", BANDITS)
def test_given_axes_are_drawn_on_and_returned(count: int) -> None:
    figure, ax = plt.subplots()
    assert pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[count], ax) is ax
    assert ax.figure is figure
    assert ax.has_data()


def test_a_figure_in_the_place_of_axes_is_refused() -> None:
    figure = plt.figure()
    with pytest.raises(TypeError, match=r"ax must be axes of matplotlib, got .*ax=figure.gca\(\)"):
        pmb.plot_arms(pmb.Bandit.bernoulli([0.2, 0.8]), figure)  # type: ignore[arg-type]


def test_one_arm_and_uncertified_metrics_can_be_drawn_too() -> None:
    alone = pmb.plot_mixture(pmb.GiniDeviation(), pmb.Bandit([[0.0, 1.0, 4.0]]))
    assert len(alone.patches) == 2
    ax = pmb.plot_mixture(pmb.InvertedS(0.5), BANDITS[5])
    assert "best mixture" in texts(ax)


def test_drawing_leaves_the_users_matplotlib_settings_alone() -> None:
    before = dict(mpl.rcParams)
    pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[2])
    assert dict(mpl.rcParams) == before


# ---- distortions, arms, lives, advice -------------------------------------------------------------------


def test_distortions_are_drawn_as_they_are_and_jumps_are_gaps(tmp_path: Path) -> None:
    path = tmp_path / "h.png"
    metrics = [pmb.GiniDeviation(), pmb.UpperCVaR(0.9), pmb.PHT(0.5)]
    ax = pmb.plot_distortion(*metrics, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    for metric, line in zip(metrics, ax.lines, strict=False):
        assert line.get_label() == repr(metric)
        assert line.get_ydata() == pytest.approx(metric(np.asarray(line.get_xdata())))
    jump = pmb.plot_distortion(pmb.VaR(0.9)).lines[0]
    x, y = np.asarray(jump.get_xdata()), np.asarray(jump.get_ydata())
    gap = int(np.flatnonzero(np.isnan(y))[0])
    assert x[gap] == pytest.approx(0.1) and (y[gap - 1], y[gap + 1]) == (0.0, 1.0)
    with pytest.raises(ValueError, match="at least one metric"):
        pmb.plot_distortion()
    for metric in (3, [1], pmb.GiniDeviation):
        with pytest.raises(TypeError, match="metric must be"):
            pmb.plot_distortion(metric)  # type: ignore[arg-type]
    assert pmb.plot_distortion("gini").lines[0].get_label() == repr(pmb.GiniDeviation())


def test_arms_are_drawn_by_their_cdfs_and_estimates_with_their_bands() -> None:
    ax = pmb.plot_arms(BANDITS[3])
    for line, mean in zip(ax.lines, (1, 3, 5), strict=True):
        assert line.get_ydata() == pytest.approx(st.norm(mean).cdf(np.asarray(line.get_xdata())))
    coin = pmb.plot_arms(BANDITS[2]).lines[0]
    assert set(np.round(np.asarray(coin.get_ydata()), 12)) == {0.0, 0.6, 1.0}
    rng = np.random.default_rng(0)
    data = {"a": rng.random(50), "b": rng.random(80)}
    advice = pmb.advise(data)
    ax = pmb.plot_arms(advice)
    assert [line.get_label() for line in ax.lines] == ["a (50)", "b (80)"]
    x = np.asarray(ax.lines[0].get_xdata())
    assert ax.lines[0].get_ydata() == pytest.approx(st.ecdf(data["a"]).cdf.evaluate(x))
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.0, 1.0) and len(ax.collections) == 2


def test_a_life_shows_what_was_played_and_what_was_wanted() -> None:
    notes = [(10, [4, 6], [0.5, 0.5]), (100, [70, 30], [0.75, 0.25])]
    ax = pmb.plot_life(notes, names=["slow", "fast"])
    assert ax.lines[0].get_ydata() == pytest.approx([40.0, 70.0])
    assert ax.lines[1].get_ydata() == pytest.approx([50.0, 75.0])
    assert "slow" in texts(ax) and "mixture" in texts(ax)
    with pytest.raises(ValueError, match="notes are empty"):
        pmb.plot_life([])


def test_the_life_of_a_run_is_one_trial_with_its_phases() -> None:
    run = pmb.simulate(pmb.GiniDeviation(), BANDITS[2], [pmb.CIRT(), pmb.Uniform()], 3000, trials=2, progress=False)
    ax = pmb.plot_life(run, trial=1)
    t, pulls = run.column("pulls", "CIRT")
    assert ax.lines[0].get_ydata() == pytest.approx(100 * pulls[1, :, 0] / t)
    ends = run.phase_ends("CIRT", 1)
    marks = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2 and line.get_ls() == "--"]
    assert marks == pytest.approx(list(ends)) and ("a phase ends" in texts(ax)) == bool(ends)
    assert "Uniform" in texts(pmb.plot_life(run, policy="Uniform"))
    with pytest.raises(ValueError, match="no trial 7"):
        pmb.plot_life(run, trial=7)
    with pytest.raises(ValueError, match="Known: CIRT, Uniform"):
        pmb.plot_life(run, policy="CIRTT")


def test_advice_is_drawn_with_what_the_metric_makes_of_the_arms(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = {"low": rng.normal(0, 1, 60), "high": rng.normal(4, 1, 60)}
    advice = pmb.advise(data, "gini")
    left, middle, right = advice.plot(path=tmp_path / "advice.png")
    low, _, mixed = middle.lines[:3]
    x = np.asarray(low.get_xdata())
    above = np.array([(data["low"] > v).mean() for v in x])
    assert low.get_ydata() == pytest.approx(above * (1 - above))
    area = float(np.asarray(mixed.get_ydata())[:-1] @ np.diff(x))
    assert area == pytest.approx(advice.apparent)  # the area below the curve is the utility
    assert [bar.get_height() for bar in right.patches][-1] == pytest.approx(advice.value)
    assert (tmp_path / "advice.png").stat().st_size > 10_000 and left.get_xlabel() == "reward x"
    table = pmb.advise(data, ["gini", "mean"])
    bars = table.plot().patches
    assert sum(bar.get_width() for bar in bars) == pytest.approx(200.0)


def test_nothing_is_cut_off_when_a_picture_is_saved_as_it_is() -> None:
    names = [f"a rather long name of arm {k}" for k in range(14)]
    ax = pmb.plot_mixture(pmb.GiniDeviation(), pmb.Bandit.bernoulli(np.linspace(0.1, 0.9, 14), names=names))
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.canvas.draw()
    for label in (*ax.get_yticklabels(), ax.xaxis.label):
        box = label.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
