"""Specifications beside a journal: best mixtures are found once, and a refused folder says what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import prepare
from tests.helpers import one_sentence

PROBLEMS = {"coins": pmb.Bandit.bernoulli([0.4, 0.9]), "betas": pmb.Bandit([st.beta(2, 5), st.beta(5, 2)])}
METRICS = {"spread": "gini", "average": pmb.Mean()}
GIVEN: dict[str, Any] = {"policies": ["track"], "horizon": 40, "trials": 2, "seed": 4, "n_jobs": 1}


class Solved:
    """Counts the calls of the oracle; the call with number ``fail_at`` raises an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.fail_at, self.error, self.real = 0, 0, ValueError("the utility is infinite."), pmb.oracle
        monkeypatch.setattr(prepare, "oracle", self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self.fail_at:
            raise self.error
        return self.real(*given, **named)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> Solved:
    return Solved(monkeypatch)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".parquet")}


def test_best_mixtures_are_found_once_for_a_folder(tmp_path: Path, solved: Solved) -> None:
    solved.fail_at, solved.error = 3, KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path / "a")
    again = pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path / "a")
    assert solved.calls == 3 + 2  # of four problems, two were found before it was stopped
    whole = pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path / "b")
    assert solved.calls == 9 and content(tmp_path / "a") == content(tmp_path / "b")
    assert all(again[key].equals(whole[key]) for key in whole)
    found = pmb.simulate(METRICS, PROBLEMS, **{**GIVEN, "trials": 3}, out=tmp_path / "b")
    assert solved.calls == 9 and found["betas", "spread"].best.gap == whole["betas", "spread"].best.gap


@pytest.mark.parametrize("damage", ["{", '{"best": [1]}', "no numbers", "weights"])
def test_a_damaged_file_is_made_again(tmp_path: Path, solved: Solved, damage: str) -> None:
    pmb.simulate("gini", PROBLEMS["betas"], **GIVEN, out=tmp_path)
    path, before = tmp_path / "spec.json", content(tmp_path)
    known = json.loads(path.read_bytes())
    known["best"] = [{}] if damage == "no numbers" else [{**known["best"][0], "weights": [float("nan")] * 2}]
    path.write_text(json.dumps(known) if damage in ("no numbers", "weights") else damage)
    pmb.simulate("gini", PROBLEMS["betas"], **GIVEN, out=tmp_path)
    assert solved.calls == 2 and content(tmp_path) == before


def test_a_folder_in_which_nothing_was_finished_takes_another_specification(tmp_path: Path, solved: Solved) -> None:
    solved.fail_at = 2
    with pytest.raises(ValueError, match="problem 'coins', metric 'average': the utility is infinite"):
        pmb.simulate(METRICS, PROBLEMS, **GIVEN, out=tmp_path)
    found = pmb.simulate(METRICS, PROBLEMS, **{**GIVEN, "seed": 5}, out=tmp_path)
    assert found["coins", "average"].seed == 5


HELPER = "first"


class Own:
    def __init__(self, n_arms: int) -> None:
        self.mixture = [1.0 / n_arms] * n_arms

    def ask(self) -> int:
        return len(HELPER) % 2

    def tell(self, arm: int, reward: float) -> None:
        pass


def refused(folder: Path, *given: Any, **named: Any) -> str:
    with pytest.raises(ValueError, match="another specification") as caught:
        pmb.simulate(*given, **{**GIVEN, **named}, out=folder)
    text = str(caught.value)
    assert one_sentence(text.removesuffix(" Nothing was overwritten.")) and str(folder) in text
    return text


def test_a_refused_folder_says_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = {"own": Own, "grid": pmb.PMUCB(horizon=40, epsilon=0.25)}
    pmb.simulate(METRICS, PROBLEMS, **{**GIVEN, "policies": policies}, out=tmp_path)
    named = {"policies": policies}
    assert "seed was 4 and is now 5)" in refused(tmp_path, METRICS, PROBLEMS, **named, seed=5)
    other = {**policies, "grid": pmb.PMUCB(horizon=40, epsilon=0.5)}
    assert "policies[grid].options.epsilon was 0.25 and is now 0.5)" in refused(
        tmp_path, METRICS, PROBLEMS, policies=other
    )
    text = refused(tmp_path, {"spread": "gini", "mean": pmb.Mean()}, PROBLEMS, **named)
    assert "name_of_metric was 'average' and is now 'mean'" in text
    assert "and 1 more" in refused(tmp_path, METRICS, PROBLEMS, **named, horizon=30, seed=5)
    monkeypatch.setitem(globals(), "HELPER", "second")
    assert "the code of own, or something of yours that it uses, has changed)" in refused(
        tmp_path, METRICS, PROBLEMS, **named
    )
