"""A choice for each segment: the plan against brute force, what knowing gains, confounding, and how it is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.cli.app import app

Means = list[list[float]]
COLUMNS = {"arm": "page", "reward": "sold", "segment": "who"}
WHO = np.array(["new", "known", "guest", "staff"])


def table(
    rng: np.random.Generator, means: Means, n: int = 600, p: list[float] | None = None, chances: Means | None = None
) -> pd.DataFrame:
    """Rows of segments that come with frequencies p; in each, pages are chosen with the given chances."""
    s = rng.choice(len(means), n, p=p)
    k = len(means[0])
    pages = rng.integers(0, k, n)
    if chances is not None:
        pages = (rng.random(n)[:, None] > np.cumsum(np.array(chances)[s], axis=1)).sum(axis=1)
    sold = np.array(means)[s, pages] + rng.normal(0, 1, n)
    return pd.DataFrame({"page": np.array(list("ABC"))[pages], "sold": sold, "who": WHO[s]})


def test_the_plan_is_that_of_brute_force_and_of_files(tmp_path: Path) -> None:
    """Two pages, two segments, Gini: the plan is as good as the best on a grid of both shares."""
    rows = table(np.random.default_rng(0), [[0.0, 1.0], [0.5, -1.0]], 400, [0.7, 0.3])
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    found = pmb.advise(path, "gini", **COLUMNS)
    h, p = pmb.metric("gini"), found.frequencies
    counts = rows["who"].value_counts() / len(rows)
    assert p == pytest.approx(counts.to_dict())

    def value(shares: dict[str, dict[str, float]]) -> float:
        x, w = [], []
        for (who, page), part in rows.groupby(["who", "page"])["sold"]:
            x.append(part.to_numpy())
            w.append(np.full(len(part), p[who] * shares[who].get(page, 0.0) / len(part)))
        return float(h.value(np.concatenate(x), np.concatenate(w)))

    grid = np.linspace(0, 1, 51)
    brute = max(value({"new": {"A": a, "B": 1 - a}, "known": {"A": b, "B": 1 - b}}) for a in grid for b in grid)
    assert value(dict(found)) >= brute - 1e-3
    assert dict(found) == dict(pmb.advise(rows, "gini", **COLUMNS))
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in found.values())


def test_a_gain_is_found_and_said(tmp_path: Path) -> None:
    found = pmb.advise(table(np.random.default_rng(1), [[0.0, 0.6], [0.6, 0.0]], 800, [0.6, 0.4]), **COLUMNS)
    assert found["new"] == {"B": 1.0} and found["known"] == {"A": 1.0} and found.pays
    assert found.same_for_all == {"B": 1.0} and found.interval[0] < 0.24 < found.interval[1]  # .4 · .6 is gained
    assert found.headline == "Choose by who: new: B; known: A." or found.headline == "Choose by who: known: A; new: B."
    assert "better than B for all (95 % interval: 0." in found.comparison and "beyond chance" in found.comparison
    for name in ("r.md", "r.html"):
        text = found.save(tmp_path / name).read_text(encoding="utf-8")
        assert found.headline in text and "Without who" in text and text.index(found.headline) < text.index("Without")
    assert "segment='who'" in (tmp_path / "r.md").read_text(encoding="utf-8")
    written = json.loads((found.save(tmp_path / "r.json")).read_text(encoding="utf-8"))
    assert written["pays"] is True and written["plan"] == dict(found) and written["segment"] == "who"


def test_losses_gain_in_their_own_sign_and_what_matters_counts() -> None:
    rows = table(np.random.default_rng(1), [[0.0, 0.6], [0.6, 0.0]], 800, [0.6, 0.4])
    less = pmb.advise(rows.assign(sold=-rows["sold"]), loss=True, **COLUMNS)
    more = pmb.advise(rows, **COLUMNS)
    assert less.gain == pytest.approx(more.gain) and dict(less) == dict(more) and less.pays
    enough = pmb.advise(rows, matters=0.5, **COLUMNS)
    assert not enough.pays and "gains nothing" in enough.headline


NULLS: dict[str, tuple[str, Callable[[np.random.Generator], pd.DataFrame]]] = {
    "equal": ("mean", lambda rng: table(rng, [[0.0, 0.0]] * 3, 300)),
    "the better one is as good in one segment": (
        "mean", lambda rng: table(rng, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], 400, [0.4, 0.4, 0.2]),
    ),
    "small segments lack an arm": (
        "mean", lambda rng: table(rng, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], 200, [0.4, 0.3, 0.2, 0.1]),
    ),
    "Gini, segments alike": ("gini", lambda rng: table(rng, [[0.0, 1.0]] * 2, 300)),
    "worst 10 %": ("lower_cvar(0.1)", lambda rng: table(rng, [[0.0, 0.0], [0.0, 0.5]], 300)),
}  # fmt: skip
MANY_ROWS = ("the better one is as good in one segment", "Gini, segments alike", "worst 10 %")  # these take seconds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in MANY_ROWS else []) for name in NULLS]
)
def test_where_segments_do_not_matter_knowing_them_is_rarely_said_to_pay(name: str) -> None:
    metric, draw = NULLS[name]
    rng, times = np.random.default_rng(2), 40
    assert sum(pmb.advise(draw(rng), metric, **COLUMNS).pays for _ in range(times)) <= 0.1 * times


def test_arms_given_by_segment_are_named_and_compared_within_segments() -> None:
    """Simpson's paradox: B is better in both, but A was given where more is sold."""
    rows = table(np.random.default_rng(3), [[0.0, 0.5], [5.0, 5.5]], 1_000, None, [[0.1, 0.9], [0.9, 0.1]])
    found = pmb.advise(rows, **COLUMNS)
    assert found.whole.best_arm == "A" and found.same_for_all == {"B": 1.0} and not found.pays
    assert found.comparison == "By the average, B is best for each of them, in the data."
    assert {finding.kind for finding in found.findings} == {"confounded", "reversed"}
    assert "goes together with who" in str(found) and "Compared within each who, B is the best for all" in str(found)
    alike = pmb.advise(table(np.random.default_rng(3), [[0.0, 0.5], [5.0, 5.5]], 1_000), **COLUMNS)
    assert not alike.findings


def test_what_was_hardly_tried_is_left_out_and_named() -> None:
    rng = np.random.default_rng(4)
    rows = table(rng, [[0.0, 0.6, 0.0], [0.6, 0.0, 0.0]], 900, None, [[0.49, 0.49, 0.02], [0.4, 0.4, 0.2]])
    few = table(rng, [[0.0, 0.0, 0.0]], 9).assign(who="guest")
    found = pmb.advise(pd.concat([rows, few]), **COLUMNS)
    said = str(found)
    assert set(found) == {"new", "known"} and "left out: too few rows" in said
    assert "guest (0.99 % of the rows) has fewer than 20 rows of something that others have." in said
    assert "C was hardly ever tried in some of them (fewer than 20 rows)." in said
    alone = pmb.advise(rows[(rows["who"] == "new") == (rows["page"] == "A")], **COLUMNS)
    assert alone.same_for_all is None and not alone.pays and "cannot be said" in alone.headline
    assert json.dumps(alone.to_dict(), allow_nan=False)


def test_weights_propensities_and_units_are_allowed_for() -> None:
    rng = np.random.default_rng(5)
    rows = table(rng, [[0.0, 0.6], [0.6, 0.0]], 800)
    heavy = pmb.advise(rows.assign(w=np.where(rows["who"] == "new", 3.0, 1.0)), weight="w", **COLUMNS)
    n = rows["who"].value_counts()
    assert heavy.frequencies["new"] == pytest.approx(3 * n["new"] / (3 * n["new"] + n["known"])) and heavy.pays
    logged = pmb.advise(rows.assign(p=np.where(rows["page"] == "A", 0.25, 0.75)), propensity="p", **COLUMNS)
    assert logged.frequencies["new"] == pytest.approx(n["new"] / 800) and not logged.findings
    people: NDArray[np.int64] = np.arange(800) // 40  # twenty people with forty rows each, who are alike
    own = np.random.default_rng(6).normal(0, 1, 20)[people]
    rows = rows.assign(sold=rows["sold"] + own * ((rows["page"] == "A") - 0.5), user=people)
    alone, shops = (pmb.advise(rows, unit=unit, **COLUMNS) for unit in (None, "user"))
    assert shops.interval[1] - shops.interval[0] > 1.3 * (alone.interval[1] - alone.interval[0])


def test_the_command_line_and_one_sentence_for_what_cannot_be(tmp_path: Path) -> None:
    rows = table(np.random.default_rng(1), [[0.0, 0.6], [0.6, 0.0]], 800, [0.6, 0.4])
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    command = ["advise", str(path), "--arm", "page", "--reward", "sold", "--segment"]
    runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})
    done = runner.invoke(app, [*command, "who"])
    assert done.exit_code == 0 and done.output.startswith("Choose by who: ") and "Without who:" in done.output
    assert json.loads(runner.invoke(app, [*command, "who", "--json"]).output)["pays"] is True
    for options, sentence in (
        ({"segment": "page"}, "cannot be those of 'page'"),
        ({"segment": "what"}, "no column 'what'"),
        ({"segment": "who", "shares": "A >= 10%"}, "cannot have limits"),
        ({"segment": "who", "by": "who"}, "cannot have limits on shares or groups"),
    ):
        with pytest.raises(ValueError, match=sentence):
            pmb.advise(rows, **{"arm": "page", "reward": "sold", **options})
    with pytest.raises(ValueError, match="one metric"):
        pmb.advise(rows, ["mean", "gini"], **COLUMNS)
