"""One answer for each group, and whether groups differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb


def table(rng: np.random.Generator, leads: dict[str, float], n: int = 150) -> pd.DataFrame:
    """Arms a and b in several countries; b is ahead by the given leads."""
    pieces = []
    for country, lead in leads.items():
        piece = pd.DataFrame({"country": country, "arm": ["a", "b"] * n})
        pieces.append(piece.assign(reward=rng.normal(10, 1, 2 * n) + np.tile([0.0, lead], n)))
    return pd.concat(pieces, ignore_index=True)


def test_each_group_has_its_answer_and_differences_are_found(tmp_path: Path) -> None:
    rows = table(np.random.default_rng(0), {"DE": 0.6, "FR": -0.6, "IT": 0.6})
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    for data in (rows, path):
        found = pmb.advise(data, "mean", by="country")
        assert {name: next(iter(a.mixture)) for name, a in found.items()} == {"DE": "b", "FR": "a", "IT": "b"}
        assert found.differ and found.p_value < 1e-6 and found.whole.log.used == 900 and found["FR"].log.used == 300
    assert "FR" in str(found) and found.to_dict()["differ"] is True
    only = rows[rows["country"] == "FR"].drop(columns="country")
    assert found["FR"].value == pytest.approx(pmb.advise(only, "mean").value)


@pytest.mark.slow
def test_groups_that_are_alike_are_rarely_said_to_differ() -> None:
    rng = np.random.default_rng(1)
    times = 60
    wrong = sum(pmb.advise(table(rng, {"x": 0.3, "y": 0.3}, 60), by="country").differ for _ in range(times))
    assert wrong <= 0.1 * times


def test_what_cannot_be_grouped_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="no column 'land'"):
        pmb.advise(table(np.random.default_rng(2), {"x": 0.0}), by="land")
    many = pd.DataFrame({"arm": ["a", "b"] * 60, "reward": np.arange(120.0), "id": np.arange(120)})
    with pytest.raises(ValueError, match="120 groups"):
        pmb.advise(many, by="id")
    with pytest.raises(ValueError, match="arm and a reward column"):
        pmb.advise({"a": [1.0, 2.0], "b": [2.0, 3.0]}, by="id")
    few = pd.DataFrame({"arm": ["a", "b"] * 12, "reward": np.arange(24.0), "shop": [f"s{k // 4}" for k in range(24)]})
    found = pmb.advise(few, by="shop")
    assert not found.differ and np.isnan(found.p_value) and "too few rewards" in found.comparison
    assert found.to_dict()["p_value"] is None


def test_a_best_arm_that_is_best_in_no_group_is_named() -> None:
    """Simpson's paradox: b is better in each group, but a was tried where rewards are high."""
    rng = np.random.default_rng(3)
    rows = [
        (group, arm, level + (arm == "b") + rng.normal())
        for group, level, counts in (("x", 0.0, {"a": 40, "b": 400}), ("y", 10.0, {"a": 400, "b": 40}))
        for arm, n in counts.items()
        for _ in range(n)
    ]
    found = pmb.advise(pd.DataFrame(rows, columns=["group", "arm", "reward"]), arm="arm", by="group")
    assert found.whole.best_arm == "a" and {a.best_arm for a in found.values()} == {"b"}
    assert "best in none of them" in found.comparison


def test_the_report_has_the_groups_and_how_to_repeat_it(tmp_path: Path) -> None:
    found = pmb.advise(table(np.random.default_rng(4), {"DE": 0.6, "FR": -0.6}), by="country")
    for name in ("r.md", "r.html"):
        text = found.save(tmp_path / name).read_text(encoding="utf-8")
        assert "In each country" in text and "below 0.001" in text and all(group in text for group in ("DE", "FR"))
    assert "by='country'" in (tmp_path / "r.md").read_text(encoding="utf-8")
