"""``pmbandits run``: a simulation from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import pmbandits as pmb
from pmbandits.cli.app import app
from pmbandits.simulation.spec import EXAMPLE, read_spec

SMALL = """
metric = "gini"
horizon = [60, 200]
trials = 4
seed = 3

[bandit]
bernoulli = [0.4, 0.9]
names = ["low", "high"]

[[policies]]
policy = "pmucb"
epsilon = 0.25

[[policies]]
policy = "cirt"
label = "ours"
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_it_writes_run_picture_and_summary_that_equal_simulate(spec: Path) -> None:
    code, text = call("run", spec, "--jobs", 1)
    assert code == 0 and "ours" in text
    folder = spec.with_suffix("")
    assert {p.name for p in folder.iterdir()} >= {"run.parquet", "regret.png", "regret.svg", "summary.txt", "spec.json"}
    recipes = {"PMUCB": pmb.PMUCB(horizon=200, epsilon=0.25), "ours": pmb.CIRT()}
    bandit = pmb.Bandit.bernoulli([0.4, 0.9], names=["low", "high"])
    direct = pmb.simulate(pmb.GiniDeviation(), bandit, recipes, [60, 200], 4, 3)
    assert pmb.Run.load(folder / "run.parquet").equals(direct)
    assert "PMUCB" in (folder / "summary.txt").read_text()
    for part in direct.summary().parts(narrow=True):  # every word fits into an ordinary terminal
        for row in part.rows:
            assert all(word in text for cell in row for word in cell.split()), row


@pytest.mark.slow
def test_called_again_it_gives_the_same_file(spec: Path, tmp_path: Path) -> None:
    call("run", spec, "--out", tmp_path / "a")
    first = (tmp_path / "a" / "run.parquet").read_bytes()
    call("run", spec, "--out", tmp_path / "a")
    call("run", spec, "--out", tmp_path / "b", "--jobs", 2)
    assert (tmp_path / "a" / "run.parquet").read_bytes() == first == (tmp_path / "b" / "run.parquet").read_bytes()


def test_a_folder_of_another_specification_is_left_alone(spec: Path) -> None:
    call("run", spec)
    before = {p: p.read_bytes() for p in spec.with_suffix("").iterdir() if p.name != ".lock"}
    spec.write_text(SMALL.replace("seed = 3", "seed = 4"))
    with pytest.raises(ValueError, match="another specification"):
        call("run", spec)
    assert all(p.read_bytes() == content for p, content in before.items())


def test_a_dry_run_says_the_cost_and_writes_nothing(spec: Path) -> None:
    code, text = call("run", spec, "--dry-run")
    assert code == 0 and "1,840" in text.replace("\n", "")  # (60 + 200 + 200) × 4 rounds in all
    assert "Nothing was written" in text and not spec.with_suffix("").exists()


def test_the_example_is_a_specification(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert call("run", "--example", path)[0] == 0
    assert path.read_text() == EXAMPLE
    arguments = read_spec(path)
    assert list(arguments["policies"]) == ["PMUCB", "CIRT, fine", "Uniform"]
    with pytest.raises(ValueError, match="exists"):
        call("run", "--example", path)


def test_arms_by_distribution_and_by_file(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(SMALL.replace("bernoulli = [0.4, 0.9]", 'arms = ["beta(2,3)", "uniform(0,1)"]'))
    assert read_spec(path)["bandit"].support == pmb.Interval(0, 1)
    (tmp_path / "r.csv").write_text("arm,reward\na,1\na,0\nb,3\n")
    path.write_text(SMALL.replace("bernoulli = [0.4, 0.9]", 'samples = "r.csv"'))
    assert read_spec(path)["bandit"].names == ("low", "high")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"gini"', '"ginny"', r"metric \(line 2\): unknown metric 'ginny'. Did you mean 'gini'"),
        ('metric = "gini"', "", "metric: this key is missing"),
        ("trials = 4", "trials = 0", r"trials \(line 4\): .*greater than or equal to 1; got 0"),
        ("trials = 4", "trails = 4", r"trails \(line 4\): this key is not known; known are metric, horizon, trials"),
        ("[60, 200]", '["x"]', r"horizon.0 \(line 3\): .*integer; got 'x'"),
        ("bernoulli = [0.4, 0.9]", "bernouli = [0.4]", r"bandit.*not known; known are bernoulli, arms|exactly one of"),
        ("bernoulli = [0.4, 0.9]", "bernoulli = [0.4, 1.9]", r"bandit \(line 7\): .*must lie in \[0, 1\]"),
        ("bernoulli = [0.4, 0.9]", 'arms = ["nrm(1)", "norm(2)"]', "no distribution 'nrm'"),
        ('"pmucb"', '"pmucbb"', r"policies\[0\] \(line 11\): unknown policy 'pmucbb'. Did you mean 'pmucb'"),
        ("epsilon = 0.25", "epsilonn = 0.25", "unknown option of pmucb 'epsilonn'. Did you mean 'epsilon'"),
        ("epsilon = 0.25", "epsilon = -1", r"policies\[0\] .*epsilon must lie in"),
        ('policy = "cirt"', "", r"policies\[1\]: it needs policy"),
        ('label = "ours"', 'label = "PMUCB"', "two policies are labelled 'PMUCB'"),
        ("seed = 3", "seed = ", "is not TOML: .*line 5"),
    ],
)
def test_mistakes_name_the_key_and_the_line(spec: Path, old: str, new: str, says: str) -> None:
    spec.write_text(SMALL.replace(old, new))
    with pytest.raises(ValueError, match=says):
        read_spec(spec)


def test_a_missing_file_shows_an_example(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"(?s)no file .*\[bandit\]"):
        read_spec(tmp_path / "none.toml")
