"""What notebooks show."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits import _html

GINI = pmb.GiniDeviation()
COINS = pmb.Bandit.bernoulli([0.4, 0.9], names=["<b>slow</b>", "fast & cheap"])


class Strict(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        assert all(name not in ("src", "href", "onclick") for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def parsed(thing: Any) -> Strict:
    reader = Strict()
    reader.feed(thing if isinstance(thing, str) else thing._repr_html_())
    reader.close()
    assert reader.open == []
    assert "script" not in reader.seen
    return reader


@pytest.mark.parametrize(
    "thing",
    [
        GINI,
        0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
        pmb.VaR(0.9),
        pmb.Distortion.from_function(lambda u: u**0.7 - u, name="<i>mine</i>"),
        pmb.Bandit([st.norm(1), st.cauchy(), [1.0, 2.0]]),
        pmb.Bandit([[3.0]]),
        pmb.Bandit.bernoulli(np.linspace(0, 1, 20)),
        pmb.oracle(GINI, COINS),
        pmb.oracle(pmb.Mean(), COINS),
        pmb.CIRT(),
        pmb.preferences(),
        pmb.preferences("reward spread"),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_a_notebook_shows_is_well_formed_loads_nothing_and_has_words(thing: Any) -> None:
    assert len(parsed(thing).text) > 20


def test_names_are_escaped_and_shown_as_they_are() -> None:
    shown = parsed(COINS)
    assert "<b>slow</b>" in shown.text and "fast & cheap" in shown.text
    assert "b" not in shown.seen
    assert "svg" in shown.seen


def test_a_policy_and_a_run_show_pulls_and_regret() -> None:
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), names=COINS.names)
    for _ in range(30):
        policy.tell(policy.ask(), 1.0)
    text = parsed(policy).text
    assert "round 30" in text and str(int(policy.pulls[0])) in text
    run = pmb.simulate(GINI, COINS, [pmb.CIRT(), pmb.Uniform()], 200, trials=2, progress=False)
    text = parsed(run).text
    assert "CIRT" in text and "Uniform" in text and "regret" in text
    assert parsed(run.summary()).text == text


def test_advice_shows_its_words() -> None:
    rng = np.random.default_rng(0)
    data = {"<a>": rng.normal(0, 1, 50), "b": rng.normal(3, 1, 50)}
    table = pmb.advise(data, ["gini", "mean"])
    assert "the spread (Gini)" in parsed(table).text
    text = parsed(table[0]).text
    assert table[0].recommendation in text and table[0].reason in text


def test_the_curve_is_the_distortions() -> None:
    u = np.linspace(0, 1, 201)
    text = GINI._repr_html_()
    points = text.split('points="')[1].split('"')[0].split()
    x, y = np.array([[float(v) for v in p.split(",")] for p in points]).T
    height = (y.max() - y) / (y.max() - y.min())
    assert height == pytest.approx(GINI(u) / 0.25, abs=0.01)
    assert np.diff(x) == pytest.approx(np.full(200, np.diff(x).mean()), abs=0.11)


def test_notebook_views_do_not_load_matplotlib() -> None:
    code = (
        "import sys, pmbandits as pmb; b = pmb.Bandit.bernoulli([.4, .9]); "
        "[x._repr_html_() for x in (pmb.GiniDeviation(), b, pmb.oracle(pmb.GiniDeviation(), b))]; "
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


def test_bars_and_tables_stay_short_and_escaped() -> None:
    many = parsed(_html.html_share_bars([f"a{k}" for k in range(30)], [1 / 30] * 30))
    assert "18 more" in many.text
    assert parsed(_html.html_table(("<x>",), [("<y>",)])).text.split() == ["<x>", "<y>"]
