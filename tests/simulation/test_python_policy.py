"""Policies in plain Python are simulated like all others: same rewards, same journal, same table."""

from __future__ import annotations

import functools
import json
import math
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import PolicyError, Rewards, policy_seed, workers
from pmbandits.simulation.journal import Journal, decode_trials

BANDIT = pmb.Bandit.bernoulli([0.3, 0.5, 0.6])
FULL = (1 << 64) - 1


# ---- policies that a user may write ----------------------------------------------------------------------
class UCB1:
    """UCB1 as in a textbook: the same arithmetic as ``pmb.UCB1``."""

    def __init__(self, n_arms: int, support: pmb.Support) -> None:
        self.scale = support.sigma if isinstance(support, pmb.Real) else 0.5 * support.width
        self.told, self.sums = [0] * n_arms, [0.0] * n_arms

    def ask(self) -> int:
        t = sum(self.told)
        if t < len(self.told):
            return t
        level = 8.0 * math.log(t)
        index = [s / n + self.scale * math.sqrt(level / n) for s, n in zip(self.sums, self.told, strict=True)]
        best = max(index)
        return min((i for i, value in enumerate(index) if value == best), key=lambda i: (self.told[i], i))

    def tell(self, arm: int, reward: float) -> None:
        self.told[arm] += 1
        self.sums[arm] += reward

    @property
    def mixture(self) -> list[float]:
        means = [s / n if n else -math.inf for s, n in zip(self.sums, self.told, strict=True)]
        return [float(i == means.index(max(means))) for i in range(len(means))]


class Uniform:
    """Every arm equally often, in the random order of ``pmb.Uniform``: splitmix64 of the seed and a counter."""

    def __init__(self, n_arms: int, seed: int) -> None:
        self.pulls, self.drawn, self.seed = np.zeros(n_arms, dtype=np.int64), 0, seed
        self.mixture = np.full(n_arms, 1.0 / n_arms)

    def below(self, count: int) -> int:
        self.drawn += 1
        z = (self.seed + 0x9E3779B97F4A7C15 * self.drawn) & FULL
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & FULL
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & FULL
        z ^= z >> 31
        return int((z >> 11) * (1.0 / 9007199254740992.0) * count)

    def ask(self) -> np.int64:
        tied = np.flatnonzero(self.pulls == self.pulls.min())
        arm = tied[self.below(tied.size)]
        self.pulls[arm] += 1
        return arm  # a whole number of numpy will do

    def tell(self, arm: int, reward: float) -> None:
        assert type(arm) is int
        assert type(reward) is float


class InTurn:
    """One arm after the other; goes wrong as it is told to."""

    def __init__(self, n_arms: int, seed: int = 0, wrong: str = "", at: int = 25) -> None:
        self.n_arms, self.seed, self.wrong, self.at, self.t = n_arms, seed, wrong, at, 0

    def ask(self) -> Any:
        self.t += 1
        if self.t == self.at:
            if self.wrong == "ask":
                raise ZeroDivisionError("division by zero")
            if self.wrong.startswith("arm "):
                return eval(self.wrong.removeprefix("arm "), {"np": np})
        return (self.t + self.seed) % self.n_arms

    def tell(self, arm: int, reward: float) -> None:
        if self.t == self.at and self.wrong == "tell":
            raise ValueError("no such\nkey")

    @property
    def mixture(self) -> Any:
        if self.t >= self.at and self.wrong == "mixture":
            raise IndexError("list index out of range")
        if self.t >= self.at and self.wrong.startswith("mixture "):
            return eval(self.wrong.removeprefix("mixture "), {"np": np})
        return [1.0 / self.n_arms] * self.n_arms


def play(policies: Any, horizon: Any = 100, trials: Any = 4, **given: Any) -> pmb.Run:
    return pmb.simulate("gini", given.pop("bandit", BANDIT), policies, horizon, trials, **given)


def same(run: pmb.Run, one: str, other: str) -> bool:
    return all((run.column(name, one)[1] == run.column(name, other)[1]).all() for name in ("pulls", "mixture"))


# ---- the right numbers -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "bandit",
    [BANDIT, pmb.Bandit([st.beta(2, 3), st.beta(3, 3)]), pmb.Bandit([st.norm(0, 1), st.norm(0.4, 1)]),
     pmb.Bandit([st.truncnorm(-1, 1, 0.5, 0.5), st.uniform()])],
    ids=["bernoulli", "beta", "normal", "without a compiled sampler"],
)  # fmt: skip
def test_ucb1_in_plain_python_makes_the_pulls_of_the_compiled_one(bandit: pmb.Bandit) -> None:
    run = play({"plain": UCB1, "compiled": pmb.UCB1()}, 2000, 5, bandit=bandit, seed=3)
    assert same(run, "plain", "compiled")
    assert (run.regret("plain")[1] == run.regret("compiled")[1]).all()
    assert run.difference("plain", "compiled").mean == 0.0


def test_the_seed_of_a_plain_policy_is_that_of_a_compiled_one() -> None:
    run = play({"plain": Uniform, "compiled": "uniform"}, 500, 5, seed=9)
    assert same(run, "plain", "compiled")
    seeds: list[int] = []

    def make(n_arms: int, seed: int) -> Uniform:
        seeds.append(seed)
        return Uniform(n_arms, seed)

    play(make, 10, [0, 7], seed=9, n_jobs=1)
    assert seeds[1:] == [policy_seed(9, 0), policy_seed(9, 7)]  # the first object is only looked at


def test_each_pull_is_paid_the_next_reward_of_its_arm() -> None:
    told: list[tuple[int, float]] = []

    class Listens(InTurn):
        def tell(self, arm: int, reward: float) -> None:
            told.append((arm, reward))

    bandit = pmb.Bandit([st.norm(0, 1), st.norm(1, 1), st.norm(2, 1)])
    play(Listens, 2000, [3], bandit=bandit, seed=4)
    rewards = Rewards(bandit, seed=4, trial=3)
    assert len(told) == 2000
    for arm in range(3):
        got = [reward for place, reward in told if place == arm]
        assert got == rewards.next(arm, len(got)).tolist()


def test_the_table_the_figure_and_the_file_have_it_like_all_others(tmp_path: Path) -> None:
    run = play({"mine": InTurn, "cirt": pmb.CIRT()}, checkpoints=[1, 2, 50], seed=1)
    assert run.policies == ("mine", "cirt")
    t, pulls = run.column("pulls", "mine")
    assert t.tolist() == [1, 2, 50, 100]
    assert (pulls.sum(axis=2) == t).all()
    assert run.phase_ends("mine", 0) == ()
    assert len(run.plot(path=tmp_path / "regret.png").get_lines()) >= 2
    run.save(tmp_path / "run.parquet")
    assert pmb.Run.load(tmp_path / "run.parquet").equals(run)
    described = run.spec["policies"][0]
    assert described["policy"] == "plain Python"
    assert described["class"].endswith("test_python_policy.InTurn")


def test_the_summary_says_how_many_rounds_a_second_were_played() -> None:
    summary = play({"mine": InTurn, "uniform": "uniform"}, 1000).summary()
    for row in summary.rows:
        assert row["rounds_per_second"] == pytest.approx(1000 / row["seconds"])
    assert "rounds/s" in str(summary)
    assert "rounds/s" in summary._repr_html_()


def test_the_progress_bar_says_that_plain_python_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    play(InTurn, progress=True)
    assert "plain Python" in (shown := capsys.readouterr().err)
    assert "rounds/s" in shown
    play("uniform", progress=True)
    assert "plain Python" not in capsys.readouterr().err


# ---- what makes one --------------------------------------------------------------------------------------
def test_what_is_asked_for_by_name_is_given() -> None:
    seen: list[dict[str, Any]] = []

    def everything(n_arms: int, seed: int, metric: Any, names: Any, support: Any, horizon: int, limits: Any) -> InTurn:
        given = {"n_arms": n_arms, "metric": metric, "names": names, "support": support, "horizon": horizon}
        seen.append(given | {"limits": limits})
        return InTurn(n_arms)

    def open_to_all(**given: Any) -> InTurn:
        assert given.pop("seed") >= 0
        seen.append(given)
        return InTurn(given["n_arms"])

    run = play({"a": everything, "b": open_to_all}, [50, 100], [0], n_jobs=1)
    expected = {"n_arms": 3, "metric": pmb.GiniDeviation(), "names": BANDIT.names, "support": BANDIT.support}
    expected |= {"limits": None}
    assert seen == [expected | {"horizon": h} for h in (50, 100, 50, 100, 100, 100, 50, 50)]
    assert run.horizons("a") == run.horizons("b") == (50, 100)


def test_who_asks_for_no_horizon_plays_one_run() -> None:
    assert play(InTurn, [50, 100]).horizons("InTurn") == (100,)


def test_what_the_user_has_fixed_stays_fixed() -> None:
    run = play({"fixed": functools.partial(InTurn, seed=1), "free": InTurn}, checkpoints=[1])
    assert (run.column("pulls", "fixed")[1][:, 0] == [0, 0, 1]).all()
    assert not (run.column("pulls", "free")[1][:, 0] == [0, 0, 1]).all()


class Maker:
    """An object that makes policies."""

    def __call__(self, n_arms: int) -> InTurn:
        return InTurn(n_arms)

    def method(self, n_arms: int) -> InTurn:
        return InTurn(n_arms)


def test_labels_are_the_names_of_what_makes_them() -> None:
    made = [InTurn, InTurn, lambda n_arms: InTurn(n_arms), functools.partial(InTurn, at=3), Maker(), Maker().method]
    labels = ("InTurn", "InTurn #2", "lambda", "InTurn #3", "Maker", "method", "Uniform")
    assert play([*made, "uniform"], 10, 1).policies == labels
    with pytest.raises(PolicyError, match=r"^InTurn #2 failed in trial 0"):
        play([InTurn, functools.partial(InTurn, wrong="ask")], n_jobs=1)


def test_a_policy_of_the_library_can_be_made_by_a_function() -> None:
    def cirt(n_arms: int, seed: int, metric: Any, support: Any) -> pmb.Policy:
        return pmb.CIRT(metric, n_arms=n_arms, support=support, seed=seed, epsilon=0.25)

    run = play({"by a function": cirt, "compiled": pmb.CIRT(epsilon=0.25)}, 300, 2)
    assert same(run, "by a function", "compiled")


# ---- mistakes --------------------------------------------------------------------------------------------
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "an object": (InTurn(3), TypeError, r"every trial needs a new InTurn.*lambda n_arms, seed: InTurn\("),
    "an unknown wish": (lambda n_arms, size: InTurn(n_arms), TypeError, r"lambda asks for 'size'.*functools\.partial"),
    "by position only": (lambda n_arms, /: InTurn(n_arms), TypeError, "asks for 'n_arms'"),
    "no signature": (dict.fromkeys, TypeError, r"does not say what it takes|asks for"),
    "nothing made": (lambda: None, PolicyError, "lambda made None, which has no method ask"),
    "a class without tell": (type("Half", (), {"ask": lambda self: 0}), PolicyError, "has no method tell"),
    "no mixture": (type("Bare", (), {"ask": lambda self: 0, "tell": lambda self, a, r: None}), PolicyError,
                   "keeps no mixture; give it an attribute or a property"),
    "cannot be made": (lambda n_arms: InTurn(), PolicyError, "lambda could not be made: TypeError: .*n_arms"),
    "needs a support": (UCB1, ValueError, r"UCB1 asks for the support.*Interval\(lo, hi\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_policy_is_refused_before_anything_is_played(name: str) -> None:
    given, error, words = REFUSED[name]
    bandit = pmb.Bandit([st.gamma(2.0), st.norm()]) if name == "needs a support" else BANDIT
    with pytest.raises(error, match=f"(?s){words}") as caught:
        play(given, bandit=bandit)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


WRONG = {
    "ask": r"ask\(\) raised ZeroDivisionError: division by zero\.$",
    "tell": r"tell\(\) raised ValueError: no such key\.$",
    "mixture": r"mixture raised IndexError: list index out of range\.$",
    "arm 3": r"ask\(\) returned 3; the arms are 0 to 2\.$",
    "arm -1": r"ask\(\) returned -1; the arms",
    "arm 1.0": r"ask\(\) returned 1\.0; the arms",
    "arm True": r"ask\(\) returned True; the arms",
    "arm None": r"ask\(\) returned None; the arms",
    "arm 'arm 1'": r"ask\(\) returned 'arm 1'; the arms",
    "arm np.int64(7)": r"ask\(\) returned .*7.*; the arms",
    "arm np.array([1])": r"ask\(\) returned array\(\[1\]\); the arms",
    "mixture [0.5, 0.5, 0.1]": r"mixture must add up to 1, but add up to 1\.1",
    "mixture [1.5, -0.5, 0.0]": r"mixture must not be negative",
    "mixture [0.5, 0.5]": r"mixture has 2 entries for 3 arms",
    "mixture [0.5, 0.5, float('nan')]": r"mixture must be finite",
    "mixture None": r"mixture must be",
    "mixture 'equal'": r"mixture must be an array of numbers",
    "mixture (lambda: [1.0, 0.0, 0.0])": r"mixture is a method; make it a property\.$",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_goes_wrong_is_said_with_policy_trial_and_round(wrong: str) -> None:
    with pytest.raises(PolicyError, match=WRONG[wrong]) as caught:
        play({"mine": functools.partial(InTurn, wrong=wrong)}, checkpoints=[10, 25], trials=[6], n_jobs=1)
    assert str(caught.value).startswith("mine failed in trial 6, round 25: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("backend", "n_jobs"), [("threads", 1), ("threads", 2), pytest.param("processes", 2, marks=pytest.mark.slow)]
)
def test_the_lines_of_the_user_are_in_the_traceback(backend: str, n_jobs: int) -> None:
    with pytest.raises(PolicyError, match=r"round 25: ask\(\) raised ZeroDivisionError") as caught:
        play(functools.partial(InTurn, wrong="ask"), trials=6, backend=backend, n_jobs=n_jobs)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'raise ZeroDivisionError("division by zero")' in shown


def test_an_arm_that_pays_no_number_is_not_blamed_on_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **more: Any) -> Any:
        raise ValueError("pays rewards that are NaN")

    monkeypatch.setattr(Rewards, "next", broken)
    with pytest.raises(ValueError, match=r"^pays rewards that are NaN$"):
        play(InTurn, n_jobs=1)


def test_a_policy_that_cannot_be_made_for_a_later_trial_is_said_with_the_trial() -> None:
    def picky(n_arms: int, seed: int) -> InTurn:
        if seed == policy_seed(0, 2):
            raise ValueError("this seed brings bad luck.")
        return InTurn(n_arms)

    with pytest.raises(PolicyError, match=r"^picky .* trial 2: ValueError: this seed brings bad luck\.$"):
        play(picky, n_jobs=1)


def test_ctrl_c_is_no_mistake_of_the_policy() -> None:
    class Stopped(InTurn):
        def ask(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(Stopped, n_jobs=1)


# ---- the journal -----------------------------------------------------------------------------------------
class Network:
    """What is outside of the policy's code: a private name of a class is state, not code."""

    _error: BaseException | None = None


def down_in_trial_5(n_arms: int, seed: int) -> InTurn:
    policy = InTurn(n_arms, seed)
    ask = policy.ask

    def unless_down() -> Any:
        if Network._error is not None and seed == policy_seed(1, 5) and policy.t == 40:
            raise Network._error
        return ask()

    policy.ask = unless_down  # type: ignore[method-assign]
    return policy


@pytest.mark.parametrize(("backend", "n_jobs"), [("threads", 1), ("threads", 2)])
def test_finished_trials_are_kept_and_the_run_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, n_jobs: int
) -> None:
    given: dict[str, Any] = {"policies": {"mine": down_in_trial_5, "uniform": "uniform"}, "trials": 12, "seed": 1}
    given |= {"backend": backend, "n_jobs": n_jobs}
    play(**given, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Network, "_error", RuntimeError("the network is down"))
        with pytest.raises(PolicyError, match=r"mine .* trial 5, round 41: ask\(\) .*RuntimeError"):
            play(**given, out=tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "run.parquet").exists()
    played: list[tuple[int, int]] = []
    real = workers.play_trials_of_task

    def perform(task: workers.Task) -> Any:
        played.extend((task.number, trial) for trial in task.trials)
        return real(task)

    monkeypatch.setattr(workers, "play_trials_of_task", perform)
    play(**given, out=tmp_path / "stopped")
    assert (0, 5) in played
    kept = {(0, trial) for trial in range(5)}
    assert not kept & set(played) if n_jobs == 1 else len(played) < 24
    whole, stopped = (tmp_path / name / "run.parquet" for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()
    played.clear()
    play(**given, out=tmp_path / "stopped")
    assert played == []


def test_stopped_by_ctrl_c_in_a_trial_it_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"policies": {"uniform": "uniform", "mine": down_in_trial_5}, "trials": 8, "seed": 1}
    play(**given, n_jobs=1, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Network, "_error", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            play(**given, n_jobs=1, out=tmp_path / "stopped")
    play(**given, n_jobs=2, out=tmp_path / "stopped")
    whole, stopped = (tmp_path / name / "run.parquet" for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()


class FailsInTrial3(InTurn):
    def tell(self, arm: int, reward: float) -> None:
        if self.seed == policy_seed(0, 3):
            raise OSError("the disk is full")


@pytest.mark.parametrize("backend", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_the_trials_before_a_failure_in_the_same_task_are_kept(tmp_path: Path, backend: str) -> None:
    with pytest.raises(PolicyError, match=r"FailsInTrial3 .* trial 3, round 1: tell\(\) .*OSError") as caught:
        play(FailsInTrial3, trials=40, backend=backend, n_jobs=2, out=tmp_path)
    assert 'raise OSError("the disk is full")' in "".join(traceback.format_exception(caught.value))
    identity = json.loads((tmp_path / "spec.json").read_text())["identity"]
    with Journal(tmp_path, identity) as journal:
        kept = {trial for record in journal.records() for trial in decode_trials(record).trials.tolist()}
    assert {0, 1, 2} <= kept
    assert 3 not in kept


def make_stepping(step: int) -> Any:
    def stepping(n_arms: int) -> InTurn:
        return InTurn(n_arms, seed=step)

    return stepping


def test_changed_code_does_not_go_on_with_an_old_journal(tmp_path: Path) -> None:
    play({"mine": make_stepping(1)}, out=tmp_path)
    play({"mine": make_stepping(1)}, trials=6, out=tmp_path)
    with pytest.raises(ValueError, match="another specification"):
        play({"mine": make_stepping(2)}, out=tmp_path)


# ---- backends --------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_threads_and_processes_give_the_same() -> None:
    policies = {"ucb1": UCB1, "uniform": Uniform, "lambda": lambda n_arms: InTurn(n_arms), "compiled": pmb.CIRT()}
    alone = play(policies, 400, 8, n_jobs=1)
    for backend in ("threads", "processes"):
        assert play(policies, 400, 8, backend=backend, n_jobs=2).equals(alone)


def test_what_cannot_be_sent_is_said_in_a_sentence() -> None:
    lock = threading.Lock()

    def locked(n_arms: int) -> InTurn:
        with lock:
            return InTurn(n_arms)

    play({"mine": locked}, n_jobs=2)
    with pytest.raises(ValueError, match=r"mine cannot be sent .*lock.*backend='threads'"):
        play({"mine": locked}, backend="processes", n_jobs=2)


@pytest.mark.slow
def test_a_cluster_gives_the_same() -> None:
    distributed = pytest.importorskip("distributed")
    policies = {"ucb1": UCB1, "uniform": Uniform, "lambda": lambda n_arms: InTurn(n_arms)}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        assert play(policies, 400, 8, backend="dask").equals(play(policies, 400, 8, n_jobs=1))
        with pytest.raises(PolicyError, match="failed in trial"):
            play(functools.partial(InTurn, wrong="ask"), backend="dask")
