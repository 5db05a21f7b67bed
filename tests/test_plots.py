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
    parts += [label.get_text() for label in ax.get_xticklabels()]
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
    assert "80 % slow + 20 % fast" in texts(ax)
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
    assert "50 % low + 50 % high" in texts(ax)
    bars = [other for other in ax.figure.axes if other is not ax]
    assert [bar.get_ylabel() for bar in bars] == ["utility"]
    star = ax.lines[-1].get_xydata()[0]
    assert star == pytest.approx([0.25, np.sqrt(0.75) / 2], abs=1e-6)  # halfway between the corners low and high


def test_more_arms_are_bars_and_the_mixture_is_the_highest() -> None:
    bandit = BANDITS[5]
    ax = pmb.plot_mixture(pmb.GiniDeviation(), bandit)
    heights = [bar.get_height() for bar in ax.patches]
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels[-1] == "best mixture"
    assert sorted(labels[:-1]) == sorted(bandit.names)
    assert heights[-1] == pytest.approx(pmb.oracle(pmb.GiniDeviation(), bandit).value)
    assert heights[-1] == max(heights)
    for name, height in zip(labels[:-1], heights[:-1], strict=True):
        alone = np.eye(5)[bandit.index(name)]
        assert height == pytest.approx(pmb.utility(pmb.GiniDeviation(), bandit, alone))
    assert ax.get_ylabel() == "utility"


@pytest.mark.parametrize("count", BANDITS)
def test_given_axes_are_drawn_on_and_returned(count: int) -> None:
    figure, ax = plt.subplots()
    assert pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[count], ax) is ax
    assert ax.figure is figure
    assert ax.has_data()


def test_one_arm_and_uncertified_metrics_can_be_drawn_too() -> None:
    alone = pmb.plot_mixture(pmb.GiniDeviation(), pmb.Bandit([[0.0, 1.0, 4.0]]))
    assert len(alone.patches) == 2
    ax = pmb.plot_mixture(pmb.InvertedS(0.5), BANDITS[5])
    assert "best mixture" in texts(ax)


def test_drawing_leaves_the_users_matplotlib_settings_alone() -> None:
    before = dict(mpl.rcParams)
    pmb.plot_mixture(pmb.GiniDeviation(), BANDITS[2])
    assert dict(mpl.rcParams) == before
