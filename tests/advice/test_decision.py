"""The decision that the evidence allows: which of the three headlines, the difference, the next step, the caveats."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb

UNIT = pmb.Interval(0, 1)


def test_a_clear_lead_is_a_choice_with_the_size_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(10, 1, 300), "b": rng.normal(9, 1, 300)}
    found = pmb.advise(data, "mean").decision
    assert found.kind == "choose" and found.mixture == {"a": 1.0} and found.beaten == ("b",) and found.open == ()
    assert found.difference is not None and found.difference.rival == "b"
    assert found.difference.value == pytest.approx(data["a"].mean() - data["b"].mean())
    low, high = found.difference.interval
    assert 0.5 < low < found.difference.value < high < 1.5
    assert found.next_step.kind == "nothing" and [c.kind for c in found.caveats] == ["range not known"]
    json.dumps(found.to_dict(), allow_nan=False)


def test_noise_is_not_a_choice_and_the_next_step_is_named() -> None:
    rng = np.random.default_rng(1)
    equal = pmb.advise({"a": rng.beta(2, 5, 100), "b": rng.beta(2, 5, 100)}, "mean", support=UNIT).decision
    assert equal.kind in ("leads", "cannot tell") and equal.beaten == () and len(equal.open) == 1
    curve = st.beta(5, 5).ppf((np.arange(120) + 0.5) / 120)
    ahead = pmb.advise({"a": curve, "b": curve + 0.03}, "mean", support=UNIT).decision  # 1.6 standard errors
    assert ahead.kind == "leads" and ahead.mixture == {"b": 1.0}
    assert ahead.next_step.kind == "more rewards" and set(ahead.next_step.rewards) == {"a", "b"}
    tied = pmb.advise({"a": [2.0] * 30, "b": [2.0] * 30}, "mean").decision
    assert tied.kind == "cannot tell" and tied.next_step.kind == "other preference"


def test_losses_are_shown_as_they_were_given() -> None:
    rng = np.random.default_rng(2)
    said = pmb.advise({"a": rng.uniform(5, 6, 90), "b": rng.uniform(7, 8, 90)}, "mean", loss=True)
    assert said.decision.mixture == {"a": 1.0} and 5 < said.shown(said.value) < 6 and said.shown(0.0) == 0.0
    assert said.decision.difference is not None and said.decision.difference.value == pytest.approx(2.0, abs=0.2)
