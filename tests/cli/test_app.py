"""The command line: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import pmbandits as pmb
from pmbandits.cli import app as commands
from pmbandits.cli.app import app


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int | str | None
    out: str
    err: str


PNG = b"\x89PNG\r\n\x1a\n"
BERNOULLI = ["oracle", "--metric", "gini", "--arms", "bernoulli:0.4,0.9"]


def invoke(*arguments: str) -> Result:
    """A command in this process: fast, for what typer itself answers and for JSON."""
    return CliRunner().invoke(app, list(arguments))


def run(*arguments: str, cwd: Path | None = None, columns: int = 200) -> Done:
    """A command as a user runs it."""
    env = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-m", "pmbandits", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=env,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


Runner = Callable[..., Done]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Runner:
    """The same in this process, inside ``tmp_path``: an exception that nobody catches fails the test."""

    def command(*arguments: str) -> Done:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["pmbandits", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            commands.main()
        shown = capsys.readouterr()
        return Done(stopped.value.code, shown.out, shown.err)

    return command


# ---- answers --------------------------------------------------------------------------------------------


def test_module_and_version_option_print_the_version() -> None:
    done = run("--version")
    assert done.code == 0, done.err
    assert done.out.strip() == f"pmbandits {pmb.__version__}"


def test_help_lists_every_command() -> None:
    shown = invoke("--help")
    assert shown.exit_code == 0
    for command in ("demo", "metrics", "oracle"):
        assert command in shown.stdout


@pytest.mark.parametrize("columns", [80, 200])
def test_metrics_lists_every_metric_with_shape_and_meaning(columns: int) -> None:
    done = run("metrics", columns=columns)
    assert done.code == 0, done.err
    rows = json.loads(invoke("metrics", "--json").stdout)
    broken = [row["name"] for row in rows if row["name"] not in done.out]
    assert broken == [], "a name that is broken over lines cannot be copied"
    for shape in ("concave", "convex", "linear", "neither"):
        assert shape in done.out
    assert "gini = gini_deviation" in done.out


def test_metrics_json_describes_every_metric_that_can_be_built_by_name() -> None:
    rows = json.loads(invoke("metrics", "--json").stdout)
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names)) >= 17
    for expected in ("mean", "upper_cvar", "gini_deviation", "wang_right_tail", "inverted_s", "lower_cvar", "var"):
        assert expected in names
    for row in rows:
        assert row["h"] and row["meaning"] and row["use"], row
        if "–" in row["parameters"]:
            assert pmb.metric(row["name"]).to_dict() == {"name": row["name"]}


def test_oracle_prints_the_weights_the_value_and_the_gain() -> None:
    done = run(*BERNOULLI)
    assert done.code == 0, done.err
    assert "0.8000" in done.out and "0.2000" in done.out
    assert "0.25" in done.out
    assert "gains 0.01" in done.out


def test_oracle_json_holds_the_whole_answer() -> None:
    answer = json.loads(invoke(*BERNOULLI, "--json").stdout)
    assert answer["weights"] == pytest.approx([0.8, 0.2])
    assert answer["value"] == pytest.approx(0.25)
    assert answer["gap"] == 0.0 and answer["certified"] is True
    assert answer["is_mixture"] is True and answer["unique"] is True
    assert answer["best_arm"] == answer["arms"][0]
    assert answer["best_arm_value"] == pytest.approx(0.24)
    assert answer["gain"] == pytest.approx(0.01)
    assert answer["arm_values"] == pytest.approx([0.24, 0.09])
    assert pmb.Distortion.from_dict(answer["metric"]) == pmb.GiniDeviation()


FIVE = "norm(0,1);uniform(0,2);norm(1,2);uniform(0,1);norm(0.5,1)"  # up to four arms there is a certificate


def test_oracle_json_of_an_uncertified_metric_is_valid_json_without_nan() -> None:
    text = invoke("oracle", "-m", "inverted_s(0.5)", "-a", FIVE, "--json").stdout

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    answer = json.loads(text, parse_constant=refuse)
    assert answer["certified"] is False and answer["gap"] is None


def test_oracle_says_when_nothing_is_certified_and_when_others_are_as_good() -> None:
    assert "not certified" in invoke("oracle", "-m", "inverted_s(0.5)", "-a", FIVE).stdout
    tied = invoke("oracle", "-m", "gini", "-a", "bernoulli:0.2,0.5,0.8").stdout
    assert "best: arm 1" in tied
    assert "as good" in tied


def test_oracle_reads_scipy_distributions() -> None:
    answer = json.loads(invoke("oracle", "-m", "gini", "-a", "norm(1,1);norm(3,1);norm(5,1)", "--json").stdout)
    assert answer["arms"] == ["norm(1,1)", "norm(3,1)", "norm(5,1)"]
    assert answer["weights"] == pytest.approx([0.5, 0.0, 0.5], abs=1e-6)
    assert answer["value"] == pytest.approx(1.282584, abs=1e-6)


def test_oracle_reads_the_same_distribution_twice_under_two_names() -> None:
    answer = json.loads(invoke("oracle", "-m", "gini", "-a", "norm(1,1);norm(1,1)", "--json").stdout)
    assert len(set(answer["arms"])) == 2
    assert answer["unique"] is False


def test_oracle_reads_sums_of_metrics() -> None:
    answer = json.loads(
        invoke("oracle", "-m", "0.7*mean + 0.3*upper_cvar(0.9)", "-a", "bernoulli:0.4,0.9", "--json").stdout
    )
    assert pmb.Distortion.from_dict(answer["metric"]) == 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)
    assert answer["value"] == pytest.approx(0.7 * 0.9 + 0.3)


@pytest.mark.parametrize(
    "text",
    [
        "arm,reward\na,0\na,1\na,1\nb,2\nb,0\nb,5\n",
        "\ufeffArm, Reward \r\na,0\r\na,1\r\na,1\r\nb,2\r\nb,0\r\nb,5\r\n",
        "day,reward,arm\n1,0,a\n1,2,b\n2,1,a\n2,0,b\n3,1,a\n3,5,b\n",
    ],
    ids=["plain", "byte_order_mark_and_capitals", "other_columns_and_order"],
)
def test_oracle_reads_logged_rewards_from_a_csv_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rewards.csv"
    path.write_text(text, encoding="utf-8", newline="")
    answer = json.loads(invoke("oracle", "-m", "gini", "-a", f"samples:{path}", "--json").stdout)
    expected = pmb.Bandit.from_samples({"a": [0, 1, 1], "b": [2, 0, 5]})
    assert answer["arms"] == ["a", "b"]
    assert answer["arm_values"] == pytest.approx(
        [pmb.utility(pmb.GiniDeviation(), expected, row) for row in ([1, 0], [0, 1])]
    )
    assert answer["value"] == pytest.approx(pmb.utility(pmb.GiniDeviation(), expected, answer["weights"]))


def test_oracle_shows_arm_names_from_a_file_letter_by_letter(tmp_path: Path) -> None:
    path = tmp_path / "rewards.csv"
    path.write_text("arm,reward\n[red]one[/red],0\n[red]one[/red],4\n[/x]two,1\n", encoding="utf-8")
    done = run("oracle", "--metric", "gini", "--arms", f"samples:{path}")
    assert done.code == 0, done.err
    assert "[red]one[/red]" in done.out and "[/x]two" in done.out


def test_oracle_plot_writes_a_picture_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mixture.png"
    done = run(*BERNOULLI, "--plot", str(path))
    assert done.code == 0, done.err
    data = path.read_bytes()
    assert data.startswith(PNG) and len(data) > 5_000
    assert str(path) in done.out.replace("\n", "")


@pytest.mark.slow
def test_demo_prints_the_table_and_draws_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    done = run("demo", "--out", str(path), "--rounds", "1000")
    assert done.code == 0, done.err
    data = path.read_bytes()
    assert data.startswith(PNG) and len(data) > 20_000
    for text in (
        "best arm alone",
        "best mixture",
        "measured",
        "gain",
        "Gini",
        "Wang right-tail",
        "80 % coin A",
        "what Vet plays",
        "10,000",
    ):
        assert text in done.out
    assert str(path) in done.out.replace("\n", "")


def test_narrow_terminals_still_show_every_weight() -> None:
    done = run(*BERNOULLI, columns=60)
    assert done.code == 0
    assert "0.8000" in done.out and "0.2000" in done.out


# ---- refusals -------------------------------------------------------------------------------------------


def assert_refused(done: Done, *words: str) -> None:
    """Exit code 2 and one sentence on standard error that says what is wrong; no traceback."""
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    for word in words:
        assert word in done.err, done.err


def assert_one_sentence(done: Done, *words: str) -> None:
    assert_refused(done, *words)
    lines = done.err.strip().splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: ") and lines[0].endswith(".")


@pytest.mark.parametrize(
    ("metric", "arms", "words"),
    [
        ("ginny", "bernoulli:0.4,0.9", ("unknown metric 'ginny'", "Did you mean 'gini'?")),
        ("cvarr(0.9)", "bernoulli:0.4,0.9", ("no metric 'cvarr'", "upper_cvar(0.9)", "lower_cvar(0.1)")),
        ("upper_cvar(1.5)", "bernoulli:0.4,0.9", ("UpperCVaR c", "1.5")),
        ("upper_cvar", "bernoulli:0.4,0.9", ("upper_cvar", "'c'")),
        ("0.5*mean +* gini", "bernoulli:0.4,0.9", ("cannot read the metric",)),
        ("gini", "bernoulli:0.4,1.9", ("mean of Bernoulli arm 1", "[0, 1]", "1.9")),
        ("gini", "bernoulli:0.4,x", ("'x'", "is not a number")),
        ("gini", "bernoulli:0.4,nan", ("nan",)),
        ("gini", "bernoulli:", ("is not a number",)),
        ("gini", "norm 1 1", ("cannot read the arm 'norm 1 1'",)),
        ("gini", "norm(1,1);nrom(2,1)", ("scipy.stats has no distribution 'nrom'",)),
        ("gini", "norm(1,-1);norm(2,1)", ("invalid parameters",)),
        ("gini", "gamma();norm(2,1)", ("gamma()", "wrong parameters")),
        ("gini", "kstest(1);norm(2,1)", ("scipy.stats has no distribution 'kstest'",)),
        ("gini", ";", ("--arms is empty",)),
        ("gini", "samples:no-such-file.csv", ("no file 'no-such-file.csv'", "an arm and a reward column")),
        ("gini", "samples:[/none].csv", ("[/none].csv",)),
        ("gini", "samples:[red]none.csv", ("[red]none.csv",)),
        ("mean", "cauchy(0,1);norm(0,1)", ("diverges",)),
    ],
)
def test_bad_input_is_one_clear_sentence_with_exit_code_2(
    metric: str, arms: str, words: tuple[str, ...], here: Runner
) -> None:
    assert_one_sentence(here("oracle", "--metric", metric, "--arms", arms), *words)


def test_bad_input_to_the_real_command_ends_with_exit_code_2(tmp_path: Path) -> None:
    assert_one_sentence(run("oracle", "-m", "ginny", "-a", "bernoulli:0.4,0.9", cwd=tmp_path), "'gini'?")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n1,2\n", ("rewards.csv", "no column 'arm'", "x, y")),
        ("", ("rewards.csv", "is empty")),
        ("arm,reward\n", ("rewards.csv", "no usable rewards")),
        ("arm,reward\na,1\nb,oops\n", ("rewards.csv", "line 3", "not a number (b, oops)")),
        ("arm,reward\na,1\nb,\n", ("rewards.csv", "line 3: no reward")),
        ("arm,reward\na,1\nb\n", ("rewards.csv", "line 3", "1 columns instead of 2")),
        ("arm,reward\na,1\nb,nan\n", ("line 3: no reward (b, nan)",)),
        ("arm,reward\na,1\nb,inf\n", ("line 3: an infinite reward (b, inf)",)),
    ],
    ids=["no_columns", "empty", "only_a_header", "word", "missing", "short_line", "nan", "infinite"],
)
def test_a_bad_csv_file_is_refused_with_the_place(
    text: str, words: tuple[str, ...], tmp_path: Path, here: Runner
) -> None:
    (tmp_path / "rewards.csv").write_text(text, encoding="utf-8")
    assert_one_sentence(here("oracle", "--metric", "gini", "--arms", "samples:rewards.csv"), *words)


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path: Path, here: Runner) -> None:
    (tmp_path / "rewards.csv").write_bytes(b"arm,reward\n\xff\xfe\x00,1\n")
    assert_one_sentence(here("oracle", "--metric", "gini", "--arms", "samples:rewards.csv"), "rewards.csv")


def test_a_picture_in_an_unknown_format_is_refused(here: Runner) -> None:
    assert_refused(here(*BERNOULLI, "--plot", "picture.xyz"), "xyz")


def test_a_picture_in_the_place_of_a_folder_is_refused(tmp_path: Path, here: Runner) -> None:
    (tmp_path / "folder.png").mkdir()
    assert_refused(here(*BERNOULLI, "--plot", "folder.png"), "folder.png")


def test_a_picture_below_a_file_is_refused(tmp_path: Path, here: Runner) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(here(*BERNOULLI, "--plot", "file/mixture.png"), "file")


def test_a_picture_without_an_ending_is_written_where_the_command_says(tmp_path: Path, here: Runner) -> None:
    done = here(*BERNOULLI, "--plot", "mixture")
    assert done.code == 0
    said = done.out.replace("\n", "").rpartition("Picture: ")[2].strip()
    assert (tmp_path / said).is_file(), f"{said!r} was announced, {os.listdir(tmp_path)} was written"


@pytest.mark.parametrize(
    "arguments",
    [
        ["oracle", "--metric", "gini"],
        ["oracle", "--arms", "bernoulli:0.4,0.9"],
        ["orakel"],
        ["demo", "--rounds", "1"],
        ["demo", "--rounds", "many"],
        ["oracle", "--metric", "gini", "--arms", "bernoulli:0.4,0.9", "--colour"],
    ],
    ids=" ".join,
)
def test_wrong_use_of_options_exits_with_2_and_explains(arguments: list[str]) -> None:
    refused = invoke(*arguments)
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "Error" in refused.stderr


def test_oracle_keeps_limits_and_says_what_they_cost() -> None:
    arms = ["oracle", "-m", "gini", "-a", "norm(1,1);norm(3,1);norm(5,1)"]
    answer = json.loads(invoke(*arms, "--shares", "norm(3,1) >= 20%; norm(5,1) <= 0.3", "--json").stdout)
    assert answer["weights"] == pytest.approx([0.5, 0.2, 0.3], abs=1e-9)
    assert answer["limits"]["norm(5,1) <= 0.3"]["without"] > answer["value"]
    text = invoke(*arms, "--shares", "norm(5,1) <= 30%").stdout
    assert "(norm(5,1) <= 30%) the utility would" in " ".join(text.split())
    done = run(*arms, "--shares", "norm(5,1) >= 120%")
    assert done.code == 2 and "no mixture" in done.err


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in invoke("--help").output
