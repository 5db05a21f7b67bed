"""``pmbandits advise`` and ``pmbandits metrics --by-wish``, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import pmbandits as pmb
from pmbandits.cli.advise import _parse_support
from pmbandits.cli.app import app

mpl.use("Agg")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [f"low,{x:.4f}" for x in rng.normal(1, 1, 200)] + [f"high,{x:.4f}" for x in rng.normal(5, 1, 200)]
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "\n".join([*rows[:100], "low,?", *rows[100:]]) + "\n")
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(app, [str(a) for a in arguments])


def plain(result: Result) -> str:
    return " ".join(result.output.split())


def test_it_says_what_to_play_whether_that_is_real_and_what_was_not_read(log: Path, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "advice.png"
    result = invoke("advise", log, "--metric", "gini", "--out", picture)
    assert result.exit_code == 0, result.output
    said = plain(result)
    advice = pmb.advise(log, "gini")
    for words in (advice.recommendation, advice.reason, "1 of 401 rows could not be used", "line 102"):
        assert " ".join(words.split()) in said
    assert picture.read_bytes().startswith(PNG)
    assert invoke("advise", log, "-m", "gini", "-o", tmp_path / "report").exit_code == 0
    assert "How to repeat it" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a report ends in .html" in str(invoke("advise", log, "-o", tmp_path / "report.docx").exception)


def test_limits_units_times_and_ways_to_write_numbers_are_options(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    rng = np.random.default_rng(1)
    rows = [f"u{k % 40};2024-01-{1 + k % 28:02};{a:.2f};{b:.2f}".replace(".", ",") for k, (a, b) in
            enumerate(zip(rng.normal(5, 1, 120), rng.normal(4, 1, 120), strict=True))]  # fmt: skip
    path.write_text("user;day;A;B\n" + "\n".join(rows) + "\n")
    options = ("--wide", "--decimal", ",", "--unit", "user", "--time", "day", "--shares", "B >= 25%", "-m", "mean")
    answer = json.loads(invoke("advise", path, *options, "--json").output)
    assert answer["mixture"] == pytest.approx({"A": 0.75, "B": 0.25}) and answer["rows"]["used"] == 240
    assert answer["costs_of_limits"]["B >= 25%"] == pytest.approx(0.25, abs=0.1)
    assert any("40 units" in note for note in answer["notes"])


def test_several_metrics_are_a_table_and_one_picture(log: Path, tmp_path: Path) -> None:
    picture = tmp_path / "table.png"
    result = invoke("advise", log, "-m", "gini", "-m", "upper_cvar:c=0.9", "-m", "mean", "-o", picture)
    assert result.exit_code == 0, result.output
    for words in ("10 %", "(Gini)", "settled", "better than"):
        assert words in plain(result)
    assert picture.read_bytes().startswith(PNG)


def test_json_is_what_python_gives(log: Path) -> None:
    result = invoke("advise", log, "-m", "gini", "--json", "--splits", 8)
    said, same = json.loads(result.output), json.loads(json.dumps(pmb.advise(log, "gini", splits=8).to_dict()))
    assert said == same and "'gini', splits=8)\n" in said["repeat"]
    several = json.loads(invoke("advise", log, "--json", "-m", "mean", "-m", "gini").output)
    assert [entry["metric"]["name"] for entry in several] == ["mean", "gini_deviation"]


def test_losses_and_supports_are_options(log: Path) -> None:
    result = invoke("advise", log, "-m", "mean", "--loss", "--support=-10,20", "--json")
    answer = json.loads(result.output)
    assert answer["mixture"] == {"low": 1.0} and answer["loss"] is True
    assert answer["support"] == {"kind": "interval", "lo": -10.0, "hi": 20.0}
    assert 0.0 < answer["interval"][0] < answer["value"] < answer["interval"][1] < 2.0  # in the sign of the file
    assert all(arm["mean"] == pytest.approx(arm["utility"]) and arm["mean"] > 0.0 for arm in answer["arms"])
    assert _parse_support("binary") == pmb.Binary()
    with pytest.raises(ValueError, match="'wide'"):
        _parse_support("wide")


def test_strict_and_unusable_input_are_refused(log: Path) -> None:
    assert "line 102" in str(invoke("advise", log, "--strict").exception)
    assert "no column 'gate'" in str(invoke("advise", log, "--arm", "gate").exception)
    assert "Did you mean 'gini'" in str(invoke("advise", log, "--metric", "ginni").exception)


def test_metrics_can_be_listed_by_wish() -> None:
    result = invoke("metrics", "--by-wish")
    assert result.exit_code == 0 and "reward spread" in result.output
    rows = json.loads(invoke("metrics", "--by-wish", "--json").output)
    assert {row["metric"] for row in rows} == {repr(p.metric) for p in pmb.preferences()}


def test_a_strange_file_gets_an_answer_with_one_command(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    rows = [f"{k};{'Lisbon' if k % 2 else 'Berlin'};{3 + k % 5 + 2 * (k % 2)},5" for k in range(80)]
    path.write_text("Calls of March\n\nid;centre;score\n" + "\n".join(rows) + "\n")
    result = invoke("advise", path)
    assert result.exit_code == 0 and "Lisbon" in result.output
    for words in (
        "2 lines stand above",
        "“centre” for what was chosen",
        "“score” for the result",
        "“,” as the decimal",
    ):
        assert words in plain(result)


def test_where_columns_are_not_clear_the_command_asks_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from pmbandits.cli import advise

    path = tmp_path / "barley.csv"
    rows = [f"{'xy'[k % 2]},{'AB'[k % 4 // 2]},{k % 7},{k % 5}" for k in range(40)]
    path.write_text("kind,site,yield,height\n" + "\n".join(rows) + "\n")
    first = plain(invoke("advise", path)).partition("To take other columns")[0]
    assert "“kind” for what was chosen (or is it site?)" in first and "“yield” for the result." in first
    monkeypatch.setattr(advise.sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(advise, "out", advise.Console(force_terminal=True, width=160))
    answers = ["site", "2"]
    monkeypatch.setattr(typer, "prompt", lambda said, default, type: answers.pop())
    for left in (1, 0):
        options = {"arm": None, "reward": None, "wide": False, "sheet": None}
        advise._ask_for_columns(path, options)
        assert options["arm"] == "site" and options["reward"] is None and len(answers) == left  # the result is clear


def test_groups_get_an_answer_each(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rng = np.random.default_rng(5)
    rows = [
        f"{c},{a},{rng.normal(5 + lead * (a == 'b'), 1.0):.3f}"
        for c, lead in (("DE", 1), ("FR", -1))
        for a in "ab" * 80
    ]
    path.write_text("country,arm,reward\n" + "\n".join(rows) + "\n")
    said = plain(invoke("advise", path, "--by", "country"))
    found = pmb.advise(path, by="country")
    assert found.comparison in said and found.differ and "Groups differ" in said
    assert [row[:3] for row in found.rows()[1:]] == [("DE", "160", "b"), ("FR", "160", "a")]
    answer = json.loads(invoke("advise", path, "--by", "country", "--json", "-o", tmp_path / "r.html").output)
    assert set(answer["groups"]) == {"DE", "FR"} and answer["by"] == "country" and answer["rows"]["used"] == 320
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "In each country" in page and found.comparison in page and "by=&#39;country&#39;" in page
    assert "compared itself" in str(invoke("advise", path, "--by", "arm").exception)


@pytest.mark.parametrize("option", ["--weight", "--propensity"])
def test_rows_can_be_weighted(tmp_path: Path, option: str) -> None:
    path = tmp_path / "log.csv"
    rng = np.random.default_rng(6)
    rows = [("a", 1.0, 0.5)] * 60 + [("b", float(x), p) for x, p in zip([0, 3] * 60, [0.25, 0.5] * 60, strict=True)]
    rng.shuffle(rows)
    path.write_text("arm,reward,w\n" + "\n".join(f"{a},{x},{w}" for a, x, w in rows) + "\n")
    answer = json.loads(invoke("advise", path, option, "w", "--json").output)
    means = {arm["name"]: arm["mean"] for arm in answer["arms"]}
    share = {"--weight": 0.5 / 0.75, "--propensity": 2.0 / 6.0}[option]  # of the threes, by their weights
    assert means == pytest.approx({"a": 1.0, "b": 3.0 * share})
    assert f"{option[2:]}='w'" in answer["repeat"]
