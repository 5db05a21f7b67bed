"""What advice says of the data that its answer rests on."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.advice import report


def test_a_constant_is_not_said_to_have_been_seen_between_two_numbers() -> None:
    said = str(pmb.advise({"a": [5.0] * 30, "b": [5.0] * 30}, "mean"))
    assert "All values are 5" in said and "6" not in said.split("Mind:")[1].split("\n")[1]
    assert "not declared; seen 5 to 5" in report.markdown_report(pmb.advise({"a": [5.0] * 30, "b": [5.0] * 30}, "mean"))


def test_few_units_are_not_called_few_rewards() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    shops = {"a": ["s1", "s2", "s3", "s4", "s5", "s6"], "b": ["s7", "s8"]}
    rows = [(arm, shops[arm][k % len(shops[arm])], float(rng.random())) for arm in "ab" for k in range(5_000)]
    advice = pmb.advise(pd.DataFrame(rows, columns=["arm", "shop", "reward"]), "mean", unit="shop")
    few = [caveat for caveat in advice.caveats if caveat.kind.startswith("few")]
    assert few and all("fewer than 4 units" in caveat.seen for caveat in few) and "too few rewards" not in str(advice)
