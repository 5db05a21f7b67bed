"""``python -m research``: what it leaves, that it leaves the same every time, and how it refuses."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from research.__main__ import app
from research.afterwards import SEED
from research.outcome import TWO_ERRORS, Context
from research.page import render
from research.registry import entries
from research.store import open_folder, records
from typer.testing import CliRunner, Result

from research import fig2, fig8, instances, outcome

ROOT = Path(__file__).parents[2]
VERDICTS = set(outcome.VERDICTS)
# Differ from run to run, and are marked so.
SECONDS = {"timings.json", "index.html"}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refusal(*arguments: str) -> str:
    """What a command that must fail says, which is one sentence or two on a line."""
    done = invoke(*arguments)
    assert isinstance(done.exception, ValueError)
    assert "\n" not in str(done.exception)
    return str(done.exception)


# What `make test` plays; `make test-all` plays everything, too.
SOME = ("fig1", "fig2", "fig5", "fig8", "table1", "table2", "table3", "table4")


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiments with ``--quick`` once, as a user runs them, whichever worker of the test run comes first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    out, done = shared / f"paper-{request.param}", shared / f"paper-{request.param}.json"
    with (shared / f"paper-{request.param}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            names = SOME if request.param == "some" else ("all",)
            command = [sys.executable, "-m", "research", *names, "--quick", "--seed", "0", "--out", str(out)]
            env = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
            ran = subprocess.run(
                command, capture_output=True, text=True, encoding="utf-8", timeout=900, check=False, env=env, cwd=ROOT
            )
            done.write_text(json.dumps({"code": ran.returncode, "out": ran.stdout, "err": ran.stderr}))
    assert json.loads(done.read_text())["code"] == 0, json.loads(done.read_text())["err"]
    return out


@pytest.fixture
def played(folder: Path) -> set[str]:
    """The names of the experiments in the folder."""
    return set(SOME) if folder.name == "paper-some" else {e.name for e in entries().values() if not e.ours}


def judged(claims: dict[str, Any]) -> list[dict[str, Any]]:
    """The paper's claims and our questions."""
    return [*claims["paper"], *claims["ours"]]


@pytest.fixture(scope="module")
def claims(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "claims.json").read_text(encoding="utf-8")))


def test_every_figure_and_table_of_the_paper_is_there() -> None:
    known = set(entries())
    assert {f"fig{k}" for k in range(1, 9)} | {f"table{k}" for k in range(1, 5)} | {"solitary"} <= known


def test_every_claim_is_judged_with_its_evidence(claims: dict[str, Any], played: set[str]) -> None:
    assert claims["format"] == "pmbandits-claims"
    assert (claims["schema"], claims["seed"], claims["quick"]) == (2, 0, True)
    assert {claim["experiment"] for claim in judged(claims)} == played
    names = [(claim["experiment"], claim["name"]) for claim in judged(claims)]
    assert len(names) == len(set(names))
    for claim in judged(claims):
        assert claim["verdict"] in VERDICTS
        assert claim["says"]
        assert claim["evidence"]
        assert claim["indicative"] is True
        assert all(value is None or isinstance(value, float) for value in claim["numbers"].values())
        assert claim["rule"]


def test_the_claims_of_the_paper_and_our_questions_are_counted_apart(claims: dict[str, Any], played: set[str]) -> None:
    assert all(claim["source"] for claim in claims["paper"])
    assert not any(claim["source"] for claim in claims["ours"])
    assert {claim["experiment"] for claim in claims["paper"]} == played
    for kind in ("paper", "ours"):
        for verdict in VERDICTS:
            found = sum(claim["verdict"] == verdict for claim in claims[kind])
            assert claims["counts"][kind][verdict] == found


def test_what_the_paper_names_is_judged_before_our_reading_of_it(claims: dict[str, Any], played: set[str]) -> None:
    """Its own range, rule and constants in its claims; ours in questions of the same experiment."""
    paper = {(c["experiment"], c["name"]) for c in claims["paper"]}
    ours = {(c["experiment"], c["name"]) for c in claims["ours"]}
    for figure, name, end in [("fig3", "gini-falls", "-wide"), ("fig4", "gini-order", "-equal"),
                              ("fig6", "etc-grows", "-limit"), ("fig6", "etc-grows", "-tight"),
                              ("fig7", "tracking-earlier", "-box"), ("fig7", "regret-larger", "-lattice"),
                              ("fig8", "faster", "-box"), ("fig8", "faster", "-stays"), ("fig8", "faster", "-seconds"),
                              ("fig8", "saves-more", "-box")]:  # fmt: skip
        assert ((figure, name) in paper) == (figure in played)
        assert ((figure, name + end) in ours) == (figure in played)


def test_what_is_judged_by_another_rule_says_so(claims: dict[str, Any], played: set[str]) -> None:
    other = {(c["experiment"]) for c in judged(claims) if c["rule"] != TWO_ERRORS}
    assert other == (set(entries()) - {"fig2", "solitary", "family"}) & played
    assert {c["experiment"] for c in judged(claims) if c["timed"]} == {"fig8"}


def test_what_is_exact_holds_at_any_size(claims: dict[str, Any]) -> None:
    verdicts = {(c["experiment"], c["name"]): c["verdict"] for c in judged(claims)}
    for name in [("fig1", "lifts"), ("fig1", "lowers"), ("fig5", "two-arms"), ("table3", "exponents"),
                 ("table4", "holder"), ("table1", "ucb-column")]:  # fmt: skip
        assert verdicts[name] == "holds"
    for name in [("table1", "etc-column"), ("table1", "none-dominates"), ("table1", "pht-ucb-better"),
                 ("table2", "rates")]:  # fmt: skip
        assert verdicts[name] == "does not hold"
    assert verdicts["fig5", "three-arms-peaked"] == "depends on a choice"
    assert verdicts.get(("fig6", "etc-grows"), "depends on a choice") == "depends on a choice"


def test_large_effects_show_at_small_sizes(claims: dict[str, Any], played: set[str]) -> None:
    verdicts = {(c["experiment"], c["name"]): c["verdict"] for c in judged(claims)}
    for name in [("fig2", "gini"), ("fig2", "wang"), ("fig2", "mean"), ("fig3", "gini-below-uniform"),
                 ("fig3", "wang-below-uniform"), ("fig7", "tracking-earlier-box"), ("solitary", "gini-linear"),
                 ("risk", "drm-etc-better-than-w-ucb")]:  # fmt: skip
        assert verdicts.get(name) == ("holds" if name[0] in played else None)


def test_figures_and_data_are_written_in_both_forms(folder: Path) -> None:
    for record in records(folder):
        for name in record["figures"]:
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert "<svg" in (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert record["data"]
        for name in record["data"]:
            columns = pq.read_table(folder / "data" / f"{name}.parquet")
            text = pc.read_csv(folder / "data" / f"{name}.csv")
            assert columns.column_names == text.column_names
            assert columns.num_rows == text.num_rows > 0


def test_every_figure_has_a_picture(folder: Path, played: set[str]) -> None:
    with_pictures = {record["name"] for record in records(folder) if record["figures"]}
    assert ({f"fig{k}" for k in range(1, 9)} | {"solitary"}) & played <= with_pictures


def test_the_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "@import" not in page
    assert all(source.startswith("data:image/svg+xml;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert not re.search(r"url\(", page)
    for link in re.findall(r'href="([^"]*)"', page):
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page
        else:
            assert (folder / link).is_file(), link


def test_the_page_shows_every_claim_and_says_that_quick_is_indicative(folder: Path, claims: dict[str, Any]) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "indicative only" in page
    assert page.count('class="claim is-') == len(judged(claims))
    for kind, name in (("paper", "claims of the paper"), ("ours", "questions of our own")):
        assert f"<strong>{len(claims[kind])} {name}:</strong>" in page
    assert all(name in page for name in ("Tatlı", "Mukherjee", "Prashanth L.A.", "Shanmugam", "Tajer", "2504.20877"))
    assert "not observed" in page
    assert "indicative only" not in render(folder, {**claims, "quick": False})


@pytest.mark.slow
def test_a_second_run_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    names = ["fig1", "fig2", "fig8", "table4"]
    of_seconds = {"figures/fig8.png", "figures/fig8.svg", "outcomes/fig8.json", "data/fig8-seconds.csv",
                  "data/fig8-seconds.parquet"}  # fmt: skip
    assert invoke(*names, "--quick", "--seed", "0", "--jobs", "1", "--out", str(tmp_path / "again")).exit_code == 0
    compared = 0
    for path in (tmp_path / "again").rglob("*"):
        place = path.relative_to(tmp_path / "again")
        if path.is_file() and place.parts[0] in ("figures", "data", "outcomes") and place.as_posix() not in of_seconds:
            assert path.read_bytes() == (folder / place).read_bytes(), place
            compared += 1
    assert compared == 3 + 2 * 2 + 4 * 2


def test_seconds_are_those_of_the_trial_up_to_where_it_reached_the_regret(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that tells policy, length and trial."""
    names = list(fig8.POLICIES)

    class Timed:
        def __init__(self, policy: str, length: int, trials: list[int]) -> None:
            self.told = np.array([1e6 * names.index(policy) + length + 1e-3 * k for k in sorted(trials)])

        def seconds(self, policy: str) -> Any:
            return self.told

    monkeypatch.setattr(
        fig8, "simulate", lambda metric, bandit, policies, length, trials, *a, **k: Timed(*policies, length, trials)
    )
    levels, rng = (1e-2, 1e-3), np.random.default_rng(0)
    rounds = {(p, level): rng.integers(2, 6, 30).astype(float) for p in names for level in levels}
    found = fig8._time(Context(Path(), quick=True), rounds, levels)
    for (p, level), lengths in rounds.items():
        want = 1e6 * names.index(p) + lengths + 1e-3 * (1 + np.arange(30))  # trial 0 only warms up
        assert found[p, level] == pytest.approx(want, abs=1e-6)


def test_another_seed_gives_other_data(folder: Path, tmp_path: Path) -> None:
    assert invoke("fig2", "--quick", "--seed", "1", "--out", str(tmp_path / "other")).exit_code == 0
    assert (tmp_path / "other/data/fig2.csv").read_bytes() != (folder / "data/fig2.csv").read_bytes()


def test_an_interrupted_run_goes_on(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    open_folder(out, seed=0, quick=True)

    def cut(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fig2.run(Context(out / "work" / "fig2", quick=True, progress=False, tick=cut))
    journal = out / "work" / "fig2" / "gini" / "journal.bin"
    size, stamp = journal.stat().st_size, journal.stat().st_mtime_ns
    assert size > 0
    assert invoke("fig2", "--quick", "--seed", "0", "--out", str(out)).exit_code == 0
    assert (journal.stat().st_size, journal.stat().st_mtime_ns) == (size, stamp)  # nothing was played again
    for place in ("data/fig2.parquet", "data/fig2.csv", "figures/fig2.svg", "outcomes/fig2.json"):
        assert (out / place).read_bytes() == (folder / place).read_bytes()


def test_experiments_gather_on_one_page(tmp_path: Path) -> None:
    out = tmp_path / "some"
    assert invoke("table3", "--quick", "--out", str(out)).exit_code == 0
    assert invoke("table2", "--quick", "--out", str(out)).exit_code == 0
    found = json.loads((out / "claims.json").read_text(encoding="utf-8"))["paper"]
    assert [claim["experiment"] for claim in found] == ["table2", "table3"]


def test_an_unknown_name_gets_a_suggestion(tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert "Did you mean 'fig3'?" in refusal("fig33", "--out", str(out))
    assert not out.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "Nothing was overwritten" in refusal("table2", "--out", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert "is a file" in refusal("table2", "--out", str(tmp_path / "thesis.txt"))


def test_another_reproduction_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "paper"
    assert invoke("table2", "--quick", "--out", str(out)).exit_code == 0
    before = (out / "claims.json").read_bytes()
    assert f"seed {SEED}, quick" in refusal("table2", "--quick", "--seed", "7", "--out", str(out))
    assert "full size" in refusal("table2", "--out", str(out))
    assert (out / "claims.json").read_bytes() == before
    (out / "reproduction.json").write_text("{")
    assert "unreadable" in refusal("table2", "--quick", "--out", str(out))


def test_every_open_instance_has_its_reason() -> None:
    for value in vars(instances).values():
        if isinstance(value, (instances.Arms, instances.Family)):
            assert value.why.endswith(".")
    for pair in (*instances.GINI_PAIRS.pairs, *instances.WANG_PAIRS.pairs, *instances.LATTICE.pairs):
        assert 0.0 < pair[0] < pair[1] < 1.0
    for low, high in instances.GINI_PAIRS.pairs:
        assert ((low + high) / 2 - 0.5) ** 2 == pytest.approx(0.0144)
        assert low < 0.5 < high
    for low, high in instances.WANG_PAIRS.pairs:
        assert low < 0.25 < high


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fig2", "--arms", "0.2,0.7"], "for fig3 alone"),
        (["fig3", "table1", "--trials", "5"], "for fig3 alone"),
        (["fig3", "--arms", "0.2"], "pairs of chances between 0 and 1"),
        (["fig3", "--arms", "0.2,1.7"], "pairs of chances between 0 and 1"),
        (["fig3", "--arms", "0.2,0.7; x,1"], "pairs of chances between 0 and 1"),
    ],
)
def test_arms_of_your_own_are_for_figure_three(arguments: list[str], says: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code != 0
    assert says in str(done.exception) + done.output


@pytest.mark.slow
def test_figure_three_can_be_repeated_with_arms_of_your_own(tmp_path: Path) -> None:
    own = ["--arms", "0.2,0.7; 0.3,0.8", "--trials", "3", "--quick", "-q", "--out", str(tmp_path)]
    done = invoke("fig3", *own)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "outcomes" / "fig3.json").read_text(encoding="utf-8"))
    assert "(0.2, 0.7); (0.3, 0.8)" in record["text"][0] and "3 trials" in record["text"][0]
    assert all(claim["source"] == "" for claim in record["claims"])  # they say nothing about the paper
    with (tmp_path / "data" / "fig3.csv").open(encoding="utf-8", newline="") as file:
        pairs = {(float(row["mean_0"]), float(row["mean_1"])) for row in csv.DictReader(file)}
    assert pairs == {(0.2, 0.7), (0.3, 0.8)}
