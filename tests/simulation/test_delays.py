"""Simulations in which arms change, and rewards are late or come in batches: against a slow loop of plain Python."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.simulation import PolicyError, Rewards
from pmbandits.simulation.delays import DELAY_CHUNK
from pmbandits.tables.distributions import Atoms
from tests.policies.test_contract import TABLE, Row
from tests.reference import worlds as slow
from tests.reference.simulation import reward as reference_reward

GINI = pmb.GiniDeviation()
A, B = pmb.Bandit.bernoulli([0.4, 0.9], ["a", "b"]), pmb.Bandit.bernoulli([0.9, 0.1], ["a", "b"])
STEP = pmb.Changing.steps([(0, A), (60, B)])

# For each kind of rewards: two bandits, and their laws as the reference writes them.
ATOMS = [-1.0, 0.0, 0.5, 2.0]
EVEN, ENDS = [0.1, 0.4, 0.4, 0.1], [0.4, 0.1, 0.1, 0.4]
KINDS: dict[str, tuple[pmb.Support, list[list[tuple[Any, ...]]]]] = {
    "binary": (
        pmb.Binary(),
        [[("bernoulli", 0.25), ("bernoulli", 0.75)], [("bernoulli", 0.8), ("bernoulli", 0.3)]],
    ),
    "finite": (
        pmb.Finite(ATOMS),
        [[("atoms", ATOMS, EVEN), ("atoms", ATOMS, ENDS)], [("atoms", ATOMS, ENDS), ("atoms", ATOMS, EVEN)]],
    ),
    "interval": (
        pmb.Interval(-1.0, 2.0),
        [[("beta", 1, 2, -1, 3), ("uniform", -1, 3)], [("uniform", -1, 2), ("beta", 2, 2, -1, 3)]],
    ),
    "real": (pmb.Real(1.0), [[("normal", 0, 1), ("normal", 2, 1)], [("normal", 2, 1), ("normal", 1, 0.5)]]),
}
FROZEN: dict[str, Any] = {"beta": st.beta, "uniform": st.uniform, "normal": st.norm}


def bandit_of(distributions: list[tuple[Any, ...]], support: pmb.Support) -> pmb.Bandit:
    """The library's arms for the laws of the reference."""
    if distributions[0][0] == "bernoulli":
        return pmb.Bandit.bernoulli([distribution[1] for distribution in distributions])
    if distributions[0][0] == "atoms":
        return pmb.Bandit(
            [Atoms(np.array(points), np.array(chances)) for _, points, chances in distributions], support=support
        )
    return pmb.Bandit([FROZEN[name](*given) for name, *given in distributions], support=support)


# ---- as by hand ------------------------------------------------------------------------------------------
FORGETFUL = [
    Row(pmb.Track(estimates="window:60"), ("binary",)),
    Row(pmb.Track(estimates="discount:0.98"), ("binary",)),
    Row(pmb.Track(detect="restart:0.1"), ("binary",), rounds=900),
    Row(pmb.Vet(estimates="window:100"), ("interval",)),
]
CASES = [*TABLE, *FORGETFUL]


@pytest.mark.parametrize("row", CASES, ids=[f"{n} {row}" for n, row in enumerate(CASES)])
def test_every_policy_plays_what_a_loop_by_hand_plays(row: Any) -> None:
    """The arms change in the middle, delays are random, and the arms are asked for in batches."""
    kind, rounds, seed, trial = row.rewards[0].partition(",")[0], row.rounds, 3, 1
    support, two = KINDS[kind]
    two = [(distributions * row.n_arms)[: row.n_arms] for distributions in two]
    turn, wait, looks = rounds // 2 - 13, st.poisson(6), range(1, rounds + 1, 19)
    world = pmb.Changing.steps([(0, bandit_of(two[0], support)), (turn, bandit_of(two[1], support))], support=support)
    run = pmb.simulate(
        row.metric, world, {"it": row.recipe}, rounds, trials=[trial], seed=seed, delay=wait, batch=4, checkpoints=looks
    )
    t, pulls = run.column("pulls", "it")
    rewards = Rewards(world, seed=seed, trial=trial)

    def distribution(now: int, arm: int) -> Any:  # of the reference, where it gives the same bits
        return two[now >= turn][arm] if kind in ("binary", "finite") else float(rewards.next(arm, t=now)[0])

    expected = slow.played(
        row.recipe, row.metric, support, list(world.names), distribution, rounds, seed, trial, wait=wait, batch=4,
        looks=set(t.tolist()),
    )  # fmt: skip
    counts = np.cumsum(np.eye(world.n_arms, dtype=int)[expected["arms"]], axis=0)
    np.testing.assert_array_equal(pulls[0], counts[t - 1])
    np.testing.assert_array_equal(run.column("mixture", "it")[1][0], expected["mixture"])


def test_an_arm_was_found_to_change_in_the_comparison_above() -> None:
    """Else the comparison with a policy that starts over says nothing."""
    recipe = pmb.Track(detect="restart:0.1")
    policy = recipe.bind(GINI, 2, pmb.Binary())
    two, rng = KINDS["binary"][1], np.random.default_rng(0)
    for t in range(900):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < two[t >= 437][arm][1]))
    assert policy.changes


@pytest.mark.parametrize("recipe", [pmb.Track(), pmb.PMUCB(horizon=400, epsilon=0.25), pmb.Uniform()], ids=str)
def test_batches_are_what_ask_n_and_tell_of_lists_do(recipe: Any) -> None:
    run = pmb.simulate(GINI, A, {"it": recipe}, 400, trials=[2], seed=9, batch=50, checkpoints=range(50, 401, 50))
    policy = recipe.bind(GINI, 2, pmb.Binary(), names=A.names, seed=pmb.simulation.policy_seed(9, 2))
    rewards = Rewards(A, seed=9, trial=2)
    for row in range(8):
        arms = policy.ask(50)
        policy.tell(arms, [rewards.next(int(arm))[0] for arm in arms])
        np.testing.assert_array_equal(run.column("pulls", "it")[1][0, row], policy.pulls)
        np.testing.assert_array_equal(run.column("mixture", "it")[1][0, row], policy.mixture)


@pytest.mark.parametrize("wait", [0, 1, 30, st.geom(0.1), st.expon(0, 9), {"a": 20}, {"a": st.poisson(3), "b": 40}])
def test_delays_of_all_kinds_are_those_of_the_reference(wait: Any) -> None:
    rounds = 260
    run = pmb.simulate(GINI, A, "track", rounds, trials=[4], seed=1, delay=wait, checkpoints=range(1, rounds + 1))
    given = [wait.get("a", 0), wait.get("b", 0)] if isinstance(wait, dict) else wait
    distributions = (("bernoulli", 0.4), ("bernoulli", 0.9))
    expected = slow.played(
        pmb.Track(), GINI, pmb.Binary(), ["a", "b"], lambda t, arm: distributions[arm], rounds, 1, 4, wait=given
    )
    arms = np.argmax(np.diff(run.column("pulls", "Track")[1][0], axis=0, prepend=0), axis=1)
    np.testing.assert_array_equal(arms, expected["arms"])


def test_delays_go_on_beyond_a_chunk_and_a_long_queue_grows() -> None:
    wait = lambda rng, n: rng.integers(0, 900, n)  # noqa: E731
    rounds = DELAY_CHUNK + 700
    run = pmb.simulate(GINI, A, "track", rounds, trials=[0], seed=1, delay=wait, checkpoints=[DELAY_CHUNK, rounds])
    distributions = (("bernoulli", 0.4), ("bernoulli", 0.9))
    expected = slow.played(
        pmb.Track(), GINI, pmb.Binary(), ["a", "b"], lambda t, arm: distributions[arm], rounds, 1, 0, wait=wait
    )
    counts = np.cumsum(np.eye(2, dtype=int)[expected["arms"]], axis=0)
    np.testing.assert_array_equal(run.column("pulls", "Track")[1][0], counts[[DELAY_CHUNK - 1, rounds - 1]])


def test_rewards_that_come_after_the_end_are_never_told() -> None:
    run = pmb.simulate(GINI, A, ["track", "uniform"], 300, trials=3, delay=300)
    mixture = run.column("mixture", "Track")[1]
    np.testing.assert_array_equal(mixture, 0.5)  # nothing was learned


# ---- plain Python ----------------------------------------------------------------------------------------
class Follower:
    """A policy in plain Python that remembers what it was told, and when."""

    told: list[tuple[int, int, float]] = []  # noqa: RUF012 (read by the test)

    def __init__(self, n_arms: int) -> None:
        self.t, self.mixture = 0, [1.0 / n_arms] * n_arms
        Follower.told = []

    def ask(self) -> int:
        self.t += 1
        return (self.t * self.t) % 2

    def tell(self, arm: int, reward: float) -> None:
        Follower.told.append((self.t, arm, reward))


def test_a_plain_policy_is_told_late_and_in_order() -> None:
    pmb.simulate(GINI, STEP, {"mine": Follower}, 100, trials=1, seed=5, delay=st.poisson(8), batch=3, n_jobs=1)
    distributions = ((("bernoulli", 0.4), ("bernoulli", 0.9)), (("bernoulli", 0.9), ("bernoulli", 0.1)))
    waits = slow.delays(st.poisson(8), 5, 0, 100)
    used, expected = [0, 0], []
    for t in range(1, 101):
        arm = (t * t) % 2
        paid = reference_reward(distributions[t > 60][arm], 5, 0, arm, used[arm])
        used[arm] += 1
        expected.append((-(-(t + waits[t - 1]) // 3) * 3, t, arm, paid))
    expected = [(told, arm, paid) for told, _, arm, paid in sorted(expected) if told <= 100]
    assert [(t, arm, reward) for t, arm, reward in Follower.told] == expected


# ---- regret ----------------------------------------------------------------------------------------------
WORLDS = {
    "steps": pmb.Changing.steps([(0, A), (60, B), (61, A), (150, B)]),
    "steps again": pmb.Changing.steps([(0, A), (30, B)], repeat=47),
    "drift": pmb.Changing.drift(A, B, 40, 170, every=25),
    "season": pmb.Changing.season(A, B, 90, every=20),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("metric", [GINI, pmb.UpperCVaR(0.7)], ids=repr)
def test_regret_is_that_of_its_definition(name: str, metric: Any) -> None:
    world, rounds = WORLDS[name], 200
    run = pmb.simulate(metric, world, ["track", "uniform"], rounds, trials=2, seed=2, checkpoints=range(1, rounds + 1))
    known: dict[int, float] = {}

    def best(t: int) -> float:  # of two Bernoulli arms: h at the best mean that can be reached
        bandit = world.at(t)
        if id(bandit) not in known:
            means = [float(distribution.p[1]) for distribution in bandit.distributions]
            known[id(bandit)] = float(np.max(metric(np.linspace(min(means), max(means), 200_001))))
        return known[id(bandit)]

    everyone = (0, 1)
    for trial, label in enumerate(run.policies):
        pulls, mixture = (run.column(name, label)[1][trial] for name in ("pulls", "mixture"))
        arms = np.argmax(np.diff(pulls, axis=0, prepend=0), axis=1).tolist()
        regret, declared = slow.regret(metric, arms, world.at, lambda t: everyone, best, mixture)
        np.testing.assert_allclose(run.regret(label)[1][trial], regret, atol=1e-9)
        np.testing.assert_allclose(run.column("declared", label)[1][trial], declared, atol=1e-9)
    weights = run.periods[0]["weights"]
    assert run.is_stationary is False and run.changes == tuple(p.start for p in world.pieces(rounds)[1:])
    assert pmb.utility(metric, world.at(0), weights) == pytest.approx(best(0), abs=1e-9)


def test_a_world_that_never_changes_has_the_regret_of_the_paper() -> None:
    is_stationary = pmb.simulate(GINI, A, "track", 500, trials=3, seed=2, checkpoints=[10, 200, 500])
    moving = pmb.simulate(
        GINI, pmb.Changing.steps([(0, A)]), "track", 500, trials=3, seed=2, checkpoints=[10, 200, 500]
    )
    for column in ("pulls", "mixture"):
        np.testing.assert_array_equal(is_stationary.column(column, "Track")[1], moving.column(column, "Track")[1])
    np.testing.assert_allclose(is_stationary.regret("Track")[1], moving.regret("Track")[1], atol=1e-14)


def test_regret_with_limits_is_against_the_best_mixture_of_each_moment_that_keeps_them() -> None:
    run = pmb.simulate(GINI, STEP, "track", 120, trials=2, shares="b <= 10%")
    best_mixtures = [pmb.oracle(GINI, bandit, shares="b <= 10%").value for bandit in (A, B)]
    assert [period["value"] for period in run.periods] == pytest.approx(best_mixtures)
    assert run.best.value == pytest.approx(np.mean(best_mixtures))
    assert (run.column("pulls", "Track")[1][:, -1, 1] <= 13).all()


# ---- rewards ---------------------------------------------------------------------------------------------
def test_the_nth_reward_of_an_arm_depends_on_its_number_and_on_the_law_of_the_round() -> None:
    """Also where an arm goes from one way of making rewards to another in the middle of four random words."""
    kinds = [
        (st.beta(2, 3), ("beta", 2, 3, 0, 1)),
        (st.uniform(0, 1), ("uniform", 0, 1)),
        (st.triang(0.3), ("block", st.triang(0.3))),
        (st.uniform(0.2, 0.5), ("uniform", 0.2, 0.5)),
    ]
    starts = [0, 5, 11, 17]
    bandits = [pmb.Bandit([distribution, st.uniform(0, 1)], support=pmb.Interval(0, 1)) for distribution, _ in kinds]
    world = pmb.Changing.steps(list(zip(starts, bandits, strict=True)))
    rewards = Rewards(world, seed=6, trial=7)
    for t in range(23):
        distribution = kinds[sum(t >= s for s in starts) - 1][1]
        assert float(rewards.next(0, t=t)[0]) == pytest.approx(reference_reward(distribution, 6, 7, 0, t), abs=1e-12)
    run = pmb.simulate(GINI, world, {"one": pmb.SolitaryArm(arm=0), "mine": Alone}, 23, trials=[7], seed=6)
    assert run.column("pulls", "one")[1][0, -1].tolist() == run.column("pulls", "mine")[1][0, -1].tolist() == [23, 0]


class Alone:
    """Always the first arm."""

    def __init__(self, n_arms: int) -> None:
        self.mixture = [1.0, *[0.0] * (n_arms - 1)]

    def ask(self) -> int:
        return 0

    def tell(self, arm: int, reward: float) -> None:
        pass


def test_a_drift_by_parameters_moves_them_and_one_by_mixture_mixes_the_laws() -> None:
    a, b = (pmb.Bandit([st.norm(m, s)], support=pmb.Real(3)) for m, s in ((0, 1), (4, 3)))
    moved, mixed = (pmb.Changing.drift(a, b, 0, 100, every=10, by=by) for by in ("parameters", "mixture"))
    x = np.linspace(-5, 9, 50)
    for t in (0, 37, 99):
        share = (t // 10 * 10 + 4) / 100
        np.testing.assert_allclose(
            moved.at(t).distributions[0].cdf(x), st.norm(4 * share, 1 + 2 * share).cdf(x), atol=1e-14
        )
        both = (1 - share) * st.norm(0, 1).cdf(x) + share * st.norm(4, 3).cdf(x)
        np.testing.assert_allclose(mixed.at(t).distributions[0].cdf(x), both, atol=1e-14)
    draws = mixed.at(50).sample(0, 4000, rng=1)
    assert st.kstest(draws, mixed.at(50).distributions[0].cdf).pvalue > 0.001
    assert mixed.at(100) is b and moved.at(100) is b


def test_a_season_swings_like_a_cosine_and_comes_again() -> None:
    world = pmb.Changing.season(A, B, 90, every=20)
    for t in range(200):
        assert world.at(t).distributions[0].p[1] == pytest.approx(slow.season(0.4, 0.9, 90, 20, t), abs=1e-14)
    assert world.at(13) is world.at(103)


# ---- again and again -------------------------------------------------------------------------------------
FULL: dict[str, Any] = {
    "bandit": WORLDS["season"], "metric": GINI, "policies": {"track": pmb.Track(), "mine": Follower}, "horizon": 230,
    "trials": 4, "seed": 3, "delay": {"a": st.poisson(4), "b": 2}, "batch": 2,
}  # fmt: skip


def test_results_depend_neither_on_workers_nor_on_stopping(tmp_path: Path) -> None:
    one = pmb.simulate(**FULL, n_jobs=1)
    assert one.equals(pmb.simulate(**FULL, n_jobs=2))
    pmb.simulate(**{**FULL, "trials": 2}, out=tmp_path)
    went_on = pmb.simulate(**FULL, out=tmp_path)
    assert one.equals(went_on) and one.equals(pmb.Run.load(tmp_path / "run.parquet"))
    for change in ({"delay": 3}, {"batch": 1}, {"bandit": WORLDS["drift"]}, {"delay": {"a": st.poisson(5), "b": 2}}):
        with pytest.raises(ValueError, match="another specification"):
            pmb.simulate(**{**FULL, **change}, out=tmp_path)


@pytest.mark.slow
def test_worlds_and_delays_travel_to_other_processes() -> None:
    one, other = (pmb.simulate(**FULL, n_jobs=2, backend=backend) for backend in ("threads", "processes"))
    assert one.equals(other)


def test_a_function_is_known_by_the_arms_it_gives(tmp_path: Path) -> None:
    def world(top: float) -> pmb.Changing:
        return pmb.Changing.function(lambda t: pmb.Bandit.bernoulli([0.4, top / (1 + t / 500)]), every=40)

    run = pmb.simulate(GINI, world(0.9), "track", 200, trials=2, out=tmp_path)
    assert run.equals(
        pmb.simulate(GINI, world(0.9), "track", 200, trials=2, out=tmp_path, n_jobs=2, backend="processes")
    )
    with pytest.raises(ValueError, match="another specification"):
        pmb.simulate(GINI, world(0.8), "track", 200, trials=2, out=tmp_path)
    run.save(tmp_path / "run.parquet")
    with pytest.raises(ValueError, match="code is never stored"):
        _ = pmb.Run.load(tmp_path / "run.parquet").bandit


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_are_made_again_from_their_description_and_travel(name: str) -> None:
    world = WORLDS[name]
    for again in (pmb.Changing.from_dict(world.to_dict()), pickle.loads(pickle.dumps(world))):
        assert again.to_dict() == world.to_dict() and repr(again) == repr(world)
        assert all(again.at(t).to_dict() == world.at(t).to_dict() for t in range(0, 200, 7))
        assert again.support == world.support


@pytest.mark.parametrize("name", WORLDS)
def test_an_edited_description_is_refused_with_a_sentence(name: str) -> None:
    data = WORLDS[name].to_dict()
    for key in data:
        for value in (None, "x", -1, 1.5, [], {}, [1, 2], [{}], "gone"):
            edited = {**data, key: value}
            if value == "gone":
                del edited[key]
            try:
                pmb.Changing.from_dict(edited)
            except (ValueError, TypeError) as error:
                assert str(error).endswith(".") and len(str(error)) > 12


def test_a_run_file_whose_moments_cannot_be_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from pmbandits.simulation import files

    run = pmb.simulate(GINI, STEP, "track", 120, trials=2)
    for change in (
        {"periods": []},
        {"periods": run.periods[::-1]},
        {"periods": [{**run.periods[0], "value": "x"}, run.periods[1]]},
        {"periods": [{**run.periods[0], "weights": [1.0]}, run.periods[1]]},
    ):
        said = {**run.provenance, "best": {**run.provenance["best"], **change}}
        pq.write_table(
            files.table_with_provenance(run.to_arrow().replace_schema_metadata(None), said), tmp_path / "bad.parquet"
        )
        with pytest.raises(ValueError, match="not a run file"):
            pmb.Run.load(tmp_path / "bad.parquet")
    without = {**run.provenance, "best": {k: v for k, v in run.provenance["best"].items() if k != "periods"}}
    pq.write_table(
        files.table_with_provenance(run.to_arrow().replace_schema_metadata(None), without), tmp_path / "bad.parquet"
    )
    with pytest.raises(ValueError, match="not a run file"):
        pmb.Run.load(tmp_path / "bad.parquet")


# ---- words and pictures ----------------------------------------------------------------------------------
def test_the_summary_says_what_regret_means_and_the_picture_marks_changes() -> None:
    import matplotlib

    matplotlib.use("Agg")
    run = pmb.simulate(GINI, STEP, ["track", "uniform"], 120, trials=3)
    assert "best mixture of each period" in str(run.summary()) and "2 periods" in str(run.summary())
    axes = run.plot()
    assert [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1] == [60]
    assert axes.get_xscale() == "linear" and "each period" in axes.get_ylabel()
    with pytest.raises(ValueError, match="no such parts"):
        run.decomposition("Track")


BAD: list[tuple[Any, str]] = [
    (lambda: pmb.Changing.steps([]), r"needs pairs of a round and a Bandit"),
    (lambda: pmb.Changing.steps([(5, A)]), r"must begin at 0, not at 5"),
    (lambda: pmb.Changing.steps([(0, A), (9, B), (9, A)]), r"one after the other, but begin at 0, 9, 9"),
    (lambda: pmb.Changing.steps([(0, A), (9, B)], repeat=9), r"repeat must be .* got 9"),
    (lambda: pmb.Changing.steps([(0, A), 7]), r"a step is a pair"),
    (lambda: pmb.Changing.steps([(0, A), (3, pmb.Bandit.bernoulli([0.1, 0.2]))]), r"the same arms, but one has a, b"),
    (lambda: pmb.Changing.drift(A, B, 10, 10), r"end must be"),
    (lambda: pmb.Changing.drift(A, B, 0, 10, by="magic"), r"by='magic'|magic"),
    (lambda: pmb.Changing.drift(pmb.Bandit([st.norm()]), pmb.Bandit([st.expon()]), 0, 9), r"take by='mixture'"),
    (lambda: pmb.Changing.season(A, B, 1), r"period must be"),
    (lambda: pmb.Changing.function(3, 10), r"needs a function of the round"),
    (lambda: pmb.Changing.function(lambda t: None, 10), r"must return a Bandit, but returned None for 4"),
    (lambda: STEP.at(-1), r"t must be"),
    (lambda: play(bandit=pmb.Changing.season(A, B, 9, every=1), horizon=200_000), r"more than 100,000 pieces"),
    (lambda: play(delay=-1), r"delay must be"),
    (lambda: play(delay="soon"), r"delay must be a number of rounds such as 50"),
    (lambda: play(delay={"c": 3}), r"there is no arm 'c'|unknown|c"),
    (lambda: play(delay=st.norm(0, 1)), r"delays must be 0 or more"),
    (lambda: play(delay=lambda rng, n: 3), r"returned an array of shape \(\)"),
    (lambda: play(batch=0), r"batch must be"),
    (lambda: play(schedule=5), r"schedule must be a list"),
    (lambda: play(schedule=[(5, "add")]), r"a round, a word and an arm"),
    (lambda: play(schedule=[(5, "fly", "a")]), r"fly"),
    (lambda: play(schedule=[(5, "pause", "x")]), r"x"),
    (lambda: play(schedule=[(500, "pause", "a")]), r"the round of an event must be"),
    (lambda: play(schedule=[(5, "resume", "a")]), r"a cannot resume after 5 rounds: it is playing then"),
    (lambda: play(schedule=[(5, "pause", "a"), (9, "pause", "b")]), r"no arm would play any more"),
    (lambda: play(schedule=[(5, "pause", "a")], batch=3), r"inside a batch of 3.*take a multiple of 3"),
    (lambda: play(schedule=[(5, "add", "a"), (6, "add", "b")]), r"there is none to play at first"),
    (lambda: play(schedule=[(5, "pause", "a")], policies={"mine": Follower}), r"mine has no method pause"),
]  # fmt: skip


def play(**given: Any) -> pmb.Run:
    return pmb.simulate(**{"bandit": A, "metric": GINI, "policies": "track", "horizon": 50, "trials": 1, **given})


@pytest.mark.parametrize(("make", "said"), BAD, ids=[said for _, said in BAD])
def test_a_mistake_gets_one_sentence(make: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError, PolicyError), match=said) as error:
        make()
    assert "\n" not in str(error.value)


SPEC = """\
metric = "gini"
horizon = 300
trials = 2
delay = "poisson(20)"
batch = 10
[bandit]
bernoulli = [0.4, 0.9]
names = ["a", "b"]
[world]
{world}
[[policies]]
policy = "track"
"""
STEPS = "[[world.steps]]\nafter = 60\nbernoulli = [0.9, 0.1]"


def test_a_specification_can_say_all_of_this(tmp_path: Path) -> None:
    from pmbandits.simulation.spec import read_spec

    path = tmp_path / "world.toml"
    for text, world in (
        (f"repeat = 100\n{STEPS}", pmb.Changing.steps([(0, A), (60, B)], repeat=100)),
        ("start = 40\nend = 170\nevery = 25\ndrift = {bernoulli = [0.9, 0.1]}", WORLDS["drift"]),
        ('period = 90\nevery = 20\nby = "mixture"\nseason = {bernoulli = [0.9, 0.1]}', None),
    ):
        path.write_text(SPEC.format(world=text), encoding="utf-8")
        read = read_spec(path)
        assert world is None or read["bandit"].to_dict() == world.to_dict()
        assert read["batch"] == 10 and read["delay"].dist.name == "poisson"
        assert pmb.simulate(**read).changes
    for text, said in (
        ("period = 5", r"one of steps, drift and season"),
        ("season = {bernoulli = [0.9, 0.1]}", r"season needs period"),
        ("start = 4\nperiod = 9\nseason = {bernoulli = [0.9, 0.1]}", r"season does not take start"),
        ("wind = 4", r"world.wind \(line 10\): this key is not known; known are steps, repeat"),
        (STEPS.replace("0.9, 0.1", "0.9"), r"names were given for 1 arm;"),
    ):
        path.write_text(SPEC.format(world=text), encoding="utf-8")
        with pytest.raises(ValueError, match=said):
            read_spec(path)
    path.write_text(SPEC.format(world=STEPS).replace("poisson(20)", "soon"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"world.toml, delay \(line 4\)"):
        read_spec(path)
