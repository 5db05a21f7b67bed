"""Which direction is better, where words and the name of the column say different things."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb


def table(column: str) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"workshop": ["low", "high"] * 60, column: rng.normal([20.0, 30.0] * 60, 3.0).round(2)})


@pytest.mark.parametrize(
    ("column", "words", "best", "first"),
    [
        (
            "Repair cost",
            "maximise profit",
            "low",
            "“Repair cost” sounds like something to keep small, and not",
        ),
        ("revenue", "minimise cost", "high", "“revenue” sounds like something to keep large, and not"),
        ("Repair cost", "maximise costs", "high", None),  # the words name the column
        ("amount", "minimise cost", "low", None),  # its name says nothing
        ("Repair cost", "minimise cost", "low", None),
    ],
)
def test_the_column_decides_if_the_words_name_something_else(
    column: str, words: str, best: str, first: str | None
) -> None:
    advice = pmb.advise(table(column), words)
    assert advice.best_arm == best
    assert [f.kind for f in advice.before] == ([] if first is None else ["direction"])
    assert str(advice).startswith(first or "Choose")
    assert pmb.advise(table(column), words, loss=False).best_arm == "high"


def test_the_least_spread_does_not_count_the_average() -> None:
    rng = np.random.default_rng(0)
    arms = {"calm": rng.normal(50, 2, 300), "wild": rng.normal(90, 9, 300)}
    advice = pmb.advise(arms, "minimise variance")
    assert advice.recommendation == "Choose calm."
    assert advice.reason.startswith("By the negative of the spread (Gini), calm is ")
