"""Policies that forget: what is kept is what a slow reference keeps; files, merges, batches and simulations agree."""

from __future__ import annotations

import copy
import math
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as stats

import pmbandits as pmb
from pmbandits.engine.validate import why_memory_is_inconsistent
from pmbandits.simulation import Rewards, policy_seed
from pmbandits.simulation.trial import Player
from tests.helpers import one_sentence

GINI = pmb.GiniDeviation()
SUPPORTS: dict[str, Any] = {
    "binary": pmb.Binary(),
    "finite": pmb.Finite([0.0, 0.3, 1.0]),
    "interval": pmb.Interval(0.0, 1.0),
    "real": pmb.Real(1.0),
    "heavy": pmb.Heavy(2.0, 3.0),
}


def reward(support: Any, rng: np.random.Generator, arm: int) -> float:
    x = float(rng.beta(1 + arm, 2))
    if isinstance(support, pmb.Finite):
        return float(support.atoms[int(x * 3)])
    if isinstance(support, pmb.Binary):
        return float(x > 0.5)
    return round(x, 1) if rng.random() < 0.5 else x  # some are equal


def saved(policy: pmb.Policy) -> dict[str, Any]:
    """All that a file of the policy would hold."""
    memory = policy._memory
    out = {f.name: np.array(memory.field(f.name)) for f in memory.fields if "saved" in f.lifecycle}
    for name in ("x", "pool_arm", "window_rewards", "window_arms"):
        out[name] = out[name][: memory.rewards] if out[name].size else out[name]
    return {**out, **memory.own}


def same(a: pmb.Policy, b: pmb.Policy) -> None:
    mine, theirs = saved(a), saved(b)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert np.array_equal(mine[name], theirs[name]), name


def kept_counts(policy: pmb.Policy) -> list[tuple[list[float], list[int]]]:
    return [(arm.x.tolist(), np.rint(arm.p * arm.n).astype(int).tolist()) for arm in policy.estimates]


# ---- what is kept ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", SUPPORTS)
def test_a_window_keeps_the_last_rewards_of_all_arms(kind: str) -> None:
    support, rng = SUPPORTS[kind], np.random.default_rng(3)
    policy = pmb.Track("mean", n_arms=3, support=support, estimates="window:120")
    told: list[tuple[int, float]] = []
    sizes = set()
    for t in range(700):
        arm = policy.ask()
        told.append((arm, reward(support, rng, arm)))
        policy.tell(*told[-1])
        if len(told) > 130:  # 120, and ten more before some are forgotten
            told = told[-121:]
        if t % 60 == 0 or t > 690:
            for i, (x, counts) in enumerate(kept_counts(policy)):
                values, many = np.unique([r for a, r in told if a == i], return_counts=True)
                assert x == values.tolist() and counts == many.tolist()
            assert why_memory_is_inconsistent(policy, policy._memory) is None
        sizes.add(policy._memory.words.size)
    assert policy.t == 700 and policy.pulls.sum() == 700
    assert len(sizes) == 1  # from the beginning, because the window is short


def test_what_a_window_keeps_decides_like_a_policy_that_saw_nothing_else() -> None:
    rng = np.random.default_rng(0)
    old = pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1), estimates="window:200")
    fresh = pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1))
    for t in range(1500):
        arm = old.ask()
        old.tell(arm, float(rng.beta(5, 1) if (arm == 0) == (t < 700) else rng.beta(1, 5)))
    m = old._memory
    fresh.tell(m.window_arms[: m.rewards], m.window_rewards[: m.rewards])
    tolerance = 0.02 * 1.0 / math.sqrt(m.rewards)  # twice what Track's solver may miss
    assert fresh.utility_bounds(old.mixture)[1] == pytest.approx(fresh.utility_bounds(fresh.mixture)[1], abs=tolerance)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_a_discount_keeps_each_reward_with_the_probability_it_says(kind: str) -> None:
    # 0/1 rewards whose ones are the last 300: their share is known. Real rewards that are their own number.
    gamma, rounds, ages = 0.99, 1500, []
    for seed in range(30):
        policy = pmb.Track("mean", n_arms=2, support=SUPPORTS[kind], estimates=f"discount:{gamma}", seed=seed)
        numbers = np.arange(rounds, dtype=float)
        policy.tell(np.arange(rounds) % 2, (numbers >= rounds - 300).astype(float) if kind == "binary" else numbers)
        assert 95 <= policy._memory.rewards <= 110
        assert why_memory_is_inconsistent(policy, policy._memory) is None
        if kind == "binary":
            ages.append(sum(arm.mean * arm.n for arm in policy.estimates) / policy._memory.rewards)
        else:
            ages.extend(rounds - 1 - np.concatenate([arm.x for arm in policy.estimates]))
    if kind == "binary":
        share = 1.0 - gamma**300
        assert np.mean(ages) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 3000))
        return
    for age in (25, 100, 250):  # geometric; rewards go in tens, so up to ten more are kept
        share = float(np.mean(np.array(ages) < age))
        assert 1.0 - gamma ** (age - 10) - 0.03 <= share <= 1.0 - gamma**age + 0.03


def test_an_arm_of_which_all_is_forgotten_is_explored_again() -> None:
    policy = pmb.Vet("mean", n_arms=3, support=pmb.Binary(), estimates="window:60")
    policy.tell([2] * 3, [0.0] * 3)
    policy.tell([0, 1] * 50, [1.0, 0.0] * 50)
    assert [arm.n for arm in policy.estimates][2] == 0
    arms = [policy.ask() for _ in range(3)]
    assert 2 in arms


@pytest.mark.parametrize("estimates", ["window:90", "discount:0.99"])
@pytest.mark.parametrize("kind", ["binary", "interval"])
def test_pulls_add_up_when_rewards_are_late_or_never_come(kind: str, estimates: str) -> None:
    support, rng = SUPPORTS[kind], np.random.default_rng(8)
    policy = pmb.Vet(GINI, n_arms=3, support=support, estimates=estimates)
    late: list[int] = []
    pulls = np.zeros(3, dtype=int)
    for t in range(900):
        arm = policy.ask()
        pulls[arm] += 1
        if rng.random() < 0.8:
            late.append(arm)
        if len(late) > 20:
            mine = late.pop(int(rng.integers(len(late))))
            policy.tell(mine, reward(support, rng, mine))
        if t % 7 == 0:  # some that nobody asked for
            policy.tell(t % 3, reward(support, rng, 1))
        if t % 50 == 0:
            assert why_memory_is_inconsistent(policy, policy._memory) is None
    assert policy.pulls.tolist() == pulls.tolist() and policy.t == 900
    assert policy._memory.t < 600  # pulls whose reward never came are forgotten, too


@pytest.mark.parametrize("shares", ["a >= 20%; b <= 0.5", "a + b <= 0.6; c >= 0.1"])
@pytest.mark.parametrize("options", [{"estimates": "window:200"}, {"detect": "restart:0.1"}], ids=str)
def test_limits_hold_for_the_pulls_that_are_kept(shares: str, options: dict[str, str]) -> None:
    rng, worlds = np.random.default_rng(0), [[0.1, 0.9, 0.3], [0.9, 0.1, 0.3], [0.2, 0.2, 0.9]]
    policy = pmb.Track("mean", names=list("abc"), support=pmb.Binary(), shares=shares, **options)
    slack = 1.0 + 1e-6 + (10 if "estimates" in options else 0)  # one pull, and those that were forgotten last
    for t in range(1500):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < worlds[t // 500][arm]))
        a, b, c = policy._memory.pulls
        now = int(a + b + c)
        if "20%" in shares:
            assert a >= 0.2 * now - slack and b <= 0.5 * now + slack
        else:
            assert a + b <= 0.6 * now + slack and c >= 0.1 * now - slack
    assert policy.changes or "estimates" in options


# ---- the same however it is done ----------------------------------------------------------------------------
OPTIONS = [
    {"estimates": "window:80"},
    {"estimates": "discount:0.98"},
    {"detect": "restart:0.5"},
    {"estimates": "window:400", "detect": "restart:0.5"},
]


def events(policy: pmb.Policy, rounds: int, seed: int = 1) -> tuple[list[int], list[Any]]:
    """Play on a world that turns around at a third, and return what was asked and told."""
    rng, arms, rewards = np.random.default_rng(seed), [], []
    for t in range(rounds):
        arm = policy.ask()
        x = float(rng.random() < (0.9 if (arm == 0) == (t < rounds // 3) else 0.1))
        policy.tell(arm, x)
        arms += [arm, arm]
        rewards += [None, x]
    return arms, rewards


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("recipe", [pmb.Vet, pmb.Track])
def test_one_by_one_and_replayed_and_loaded_are_the_same(recipe: Any, options: dict[str, str], tmp_path: Path) -> None:
    policy = recipe(GINI, n_arms=2, support=pmb.Binary(), seed=4, **options)
    half = recipe(GINI, n_arms=2, support=pmb.Binary(), seed=4, **options)
    arms, rewards = events(policy, 450)
    if "detect" in options:
        assert policy.changes
    half.replay(arms[:500], rewards[:500])
    half.save(tmp_path / "half.pmb")
    loaded = pmb.load(tmp_path / "half.pmb")
    for other in (half, loaded, copy.deepcopy(half)):
        assert other.replay(arms[500:], rewards[500:], check=True) is None
        same(policy, other)
        assert other.changes == policy.changes


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_a_batch_is_told_like_one_by_one(options: dict[str, str]) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate((rng.beta(1, 4, 600), rng.beta(4, 1, 600)))
    arms = rng.integers(0, 2, x.size)
    batch, single = (pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1), **options) for _ in range(2))
    batch.tell(arms, x)
    for arm, one in zip(arms.tolist(), x.tolist(), strict=True):
        single.tell(arm, one)
    batch._update(batch._memory.address), single._update(single._memory.address)
    assert kept_counts(batch) == kept_counts(single)
    assert batch.changes == single.changes
    assert (
        np.array_equal(batch._memory.n_rewards, single._memory.n_rewards)
        and batch._memory.rng_counter == single._memory.rng_counter
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_simulate_plays_what_asking_by_hand_plays(options: dict[str, str]) -> None:
    bandit = pmb.Bandit([stats.beta(2, 5), stats.beta(0.5, 0.5)])
    recipe, rounds = pmb.Track(**options), 700
    looks = [100, 350, 700]
    run = pmb.simulate(GINI, bandit, {"mine": recipe}, rounds, trials=[0, 2], seed=5, checkpoints=looks, n_jobs=1)
    _, pulls = run.column("pulls", "mine")
    for row, trial in enumerate([0, 2]):
        policy = recipe.bind(GINI, 2, bandit.support, seed=policy_seed(5, trial, recipe.seed))
        rewards = Rewards(bandit, seed=5, trial=trial)
        for t in range(1, rounds + 1):
            arm = policy.ask()
            policy.tell(arm, rewards.next(arm)[0])
            if t in looks:
                assert policy.pulls.tolist() == pulls[row, looks.index(t)].tolist()


def test_simulate_restarts_an_arm_as_asking_by_hand_does() -> None:
    bandit, recipe = pmb.Bandit.bernoulli([0.2, 0.5]), pmb.Track(detect="restart:0.1")
    policy = recipe.bind("mean", 2, pmb.Binary(), seed=policy_seed(3, 0, 0))
    policy.tell([0] * 200, [1.0] * 200)  # what was told before the run is another world
    policy.seed = 0
    pulls = Player(policy, bandit, 3, np.array([150, 300])).play(0).pulls
    rewards = Rewards(bandit, seed=3, trial=0)
    for t in range(1, 301):
        arm = policy.ask()
        policy.tell(arm, rewards.next(arm)[0])
        if t in (150, 300):
            assert policy.pulls.tolist() == pulls[[150, 300].index(t)].tolist()
    assert policy.changes and policy.changes[0].arm == policy.names[0]


@pytest.mark.parametrize("kind", ["binary", "finite", "interval"])
@pytest.mark.parametrize("estimates", ["window:60", "discount:0.98"])
def test_a_reward_that_is_kept_can_be_corrected(kind: str, estimates: str) -> None:
    support, rng = SUPPORTS[kind], np.random.default_rng(4)
    policy = pmb.Vet(GINI, n_arms=2, support=support, estimates=estimates)
    for _ in range(100):
        ticket = policy.ask_ticket()
        told = reward(support, rng, 1)
        policy.tell(ticket=ticket.id, reward=told)
    before = policy.estimates[ticket.arm]
    other = 1.0 - told if kind != "finite" else (0.3 if told != 0.3 else 1.0)
    policy.retell(ticket=ticket.id, reward=other)
    after = policy.estimates[ticket.arm]
    assert after.mean * after.n == pytest.approx(before.mean * before.n + other - told)
    assert why_memory_is_inconsistent(policy, policy._memory) is None
    for _ in range(100):
        policy.tell(policy.ask(), reward(support, rng, 0))
    assert why_memory_is_inconsistent(policy, policy._memory) is None


# ---- merging -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["binary", "interval"])
@pytest.mark.parametrize("estimates", ["window:100", "discount:0.99"])
def test_merged_policies_keep_as_much_as_one(kind: str, estimates: str) -> None:
    support, rng = SUPPORTS[kind], np.random.default_rng(2)
    here, there = (pmb.Vet(GINI, n_arms=2, support=support, estimates=estimates, seed=s) for s in (1, 2))
    for policy in (here, there):
        for _ in range(260):
            arm = policy.ask()
            policy.tell(arm, reward(support, rng, arm))
    size = here._memory.words.size
    last = [(p._memory.window_rewards[: p._memory.rewards], p._memory.rewards) for p in (here, there)]
    here.merge(there)
    memory = here._memory
    assert why_memory_is_inconsistent(here, memory) is None
    assert memory.words.size == size and here.t == 520 and here.pulls.sum() == 520
    assert 95 <= memory.rewards <= 110
    if estimates.startswith("window"):
        mine = memory.window_rewards[: memory.rewards]
        half = memory.rewards // 2
        assert sorted(mine.tolist()) == sorted(np.concatenate([x[n - half : n] for x, n in last]).tolist())
    for _ in range(150):
        arm = here.ask()
        here.tell(arm, reward(support, rng, arm))
    assert why_memory_is_inconsistent(here, here._memory) is None


# ---- watching ----------------------------------------------------------------------------------------------
def test_a_change_is_warned_of_once_and_noted() -> None:
    policy = pmb.PMUCB(GINI, names=["A", "B"], support=pmb.Binary(), horizon=2000, detect="warn")
    with pytest.warns(pmb.ChangeWarning, match="A changed: .* 0 % of 200"):
        policy.tell("A", [0.0] * 200 + [1.0] * 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.tell("A", [1.0] * 100)
    (change,) = policy.changes
    assert (change.arm, change.before, change.share_after) == ("A", 200, 1.0) and change.evidence >= 2 / 0.01
    assert policy.estimates[0].n == 360  # nothing is forgotten
    assert str(change) in policy.explain() and "1 change was found" in policy.explain()


def test_a_single_reward_raises_the_alarm_at_once() -> None:
    policy = pmb.Vet(GINI, n_arms=2, support=pmb.Binary(), detect="restart")
    policy.tell([1] * 30, [0.0, 1.0] * 15)
    for _ in range(240):
        policy.tell(0, 0.0)
    while not policy.changes:
        policy.tell(0, 1.0)
    assert [arm.n for arm in policy.estimates] == [0, 30]
    assert why_memory_is_inconsistent(policy, policy._memory) is None
    assert "were forgotten" in policy.explain()
    asked = policy.ask()
    policy.tell(asked, 1.0)
    assert 0 in {asked, policy.ask(), policy.ask()}


def test_after_a_restart_shares_count_anew_and_pulls_are_not_lost() -> None:
    rng = np.random.default_rng(1)
    policy = pmb.Vet(GINI, n_arms=2, support=pmb.Binary(), detect="restart")
    for t in range(4000):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < ([0.1, 0.9] if t < 2000 else [0.6, 0.9])[arm]))
    (change,) = policy.changes
    assert change.arm == policy.names[0] and 2000 < change.round < 2400
    assert policy.t == 4000 == policy.pulls.sum()
    assert policy._memory.t == 4000 - change.round
    assert np.abs(policy._memory.pulls / policy._memory.t - policy.mixture).max() < 0.05
    plain = pmb.oracle(GINI, pmb.Bandit.bernoulli([0.6, 0.9]))
    assert policy.mixture == pytest.approx(plain.weights, abs=0.1)


def test_threads_share_a_policy_that_forgets_and_watches() -> None:
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), estimates="window:200", detect="restart:0.5")
    rng = np.random.default_rng(0)
    draws = rng.random((4, 800))

    def play(row: np.ndarray) -> None:
        for j, u in enumerate(row.tolist()):
            arm = policy.ask()
            policy.tell(arm, float(u < (0.1 if j < 300 else 0.9)))

    workers = [threading.Thread(target=play, args=(row,)) for row in draws]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert policy.t == 3200 == policy.pulls.sum() and policy.pending.sum() == 0
    assert why_memory_is_inconsistent(policy, policy._memory) is None


# ---- sets --------------------------------------------------------------------------------------------------
def test_the_sets_of_a_window_say_what_they_hold_for_and_widen_as_windows_go_by() -> None:
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), estimates="window:100")
    assert policy.confidence is not None
    first = policy.confidence.radius(50)
    whole = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), delta=0.025).confidence
    assert whole is not None and first == whole.radius(50)  # 1/((0 + 1)(0 + 2)) of δ
    policy.tell([0, 1] * 400, [0, 1, 1, 1] * 200)
    times = int(policy._memory.forgetting_counters[0])
    assert times == (800 - 101) // 10
    share = 0.05 / ((times + 1) * (times + 2))
    then = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), delta=share).confidence
    assert then is not None and policy.confidence.radius(50) == pytest.approx(then.radius(50), rel=1e-12)
    sure = policy.certainty()
    assert sure.probability == 0.95 and "since the oldest" in sure.meaning
    assert policy.estimates[0].radius == pytest.approx(then.radius(policy.estimates[0].n))
    assert 0.0 < sure.regret < 1.0 and isinstance(policy.done(0.5), bool)


def share_of_delta_of(policy: pmb.Policy) -> float:
    """The share of δ by which the sets of a policy are made, from their radius: for 0/1 rewards ln(2√n·K/δ)/n."""
    assert policy.confidence is not None
    return 2.0 * math.sqrt(100) * policy.n_arms / (0.05 * math.exp(100 * policy.confidence.radius(100)))


def test_a_window_with_restarts_and_merged_windows_share_delta_by_rewards() -> None:
    both = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), estimates="window:100", detect="restart")
    assert share_of_delta_of(both) == pytest.approx(1 / 2)
    both.tell([0, 1] * 300, [0, 1, 1, 0] * 150)  # 600 rewards, of which the first were forgotten
    assert share_of_delta_of(both) == pytest.approx(1 / (601 * 602))
    here, there = (pmb.Track(GINI, n_arms=2, support=pmb.Binary(), estimates="window:100") for _ in range(2))
    here.tell([0, 1] * 80, [0, 1] * 80)
    there.tell([0, 1] * 60, [0, 1] * 60)
    assert share_of_delta_of(here) == pytest.approx(1 / (6 * 7))  # 160 rewards: five times ten were forgotten
    here.merge(there)
    kept = [5 * 10 + 220, 1 * 10 + 110]  # rewards so far, no fewer than there were: here those of both are in
    least = 1.0 / math.prod((n + 1) * (n + 2) for n in kept)
    assert share_of_delta_of(here) <= least
    assert here.certainty().probability == 0.95


def test_policies_that_restart_are_merged_with_their_like_only() -> None:
    restart, warn, plain = (
        pmb.Track(GINI, n_arms=2, support=pmb.Binary(), detect=d) for d in ("restart", "warn", None)
    )
    warn.merge(plain)
    with pytest.raises(ValueError, match="detect") as caught:
        plain.merge(restart)
    one_sentence(caught.value)


def test_a_discount_has_no_sets_and_says_so() -> None:
    policy = pmb.Vet(GINI, n_arms=2, support=pmb.Binary(), estimates="discount:0.99")
    policy.tell([0, 1] * 10, [0, 1] * 10)
    assert policy.confidence is None and "next" in policy.explain()
    for ask in (policy.certainty, policy.utility_bounds, lambda: policy.done(0.1)):
        with pytest.raises(ValueError, match="discounted") as caught:
            ask()
        one_sentence(caught.value)


@pytest.mark.slow
def test_the_sets_of_all_windows_hold_together() -> None:
    """The law is outside the set of some window, ever, in no more than a share δ of runs."""
    failed, runs, delta = 0, 60, 0.5
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        policy = pmb.Track("mean", n_arms=1, support=pmb.Binary(), estimates="window:40", delta=delta)
        outside = False
        for five in (rng.random((300, 5)) < 0.3).astype(float):
            policy.tell(0, five)
            m = policy._memory
            low, high = _interval(policy, float(m.sums[0] / m.n_rewards[0]), int(m.n_rewards[0]))
            outside |= not low <= 0.3 <= high
        failed += outside
    assert failed <= 42, failed  # P(Binomial(60, 0.5) > 42) < 1e-3


def _interval(policy: pmb.Policy, mean: float, n: int) -> tuple[float, float]:
    from pmbandits.confidence.bands import kl_interval

    assert policy.confidence is not None
    low, high = kl_interval([mean * n], n, n * policy.confidence.radius(n))
    return float(low[0]), float(high[0])


# ---- mistakes ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("recipe", "options", "words"),
    [
        (pmb.Track, {"estimates": "window"}, "window:10000"),
        (pmb.Track, {"estimates": "window:7"}, "from 8"),
        (pmb.Track, {"estimates": "window:1e4"}, "from 8"),
        (pmb.Track, {"estimates": "window:99999999999"}, "from 8"),
        (pmb.Track, {"estimates": "discount:1.0"}, "below 1"),
        (pmb.Track, {"estimates": "discount:0.5"}, "0.875"),
        (pmb.Track, {"estimates": "discount"}, "discount:0.999"),
        (pmb.Track, {"estimates": "widnow:100"}, "window:10000"),
        (pmb.Track, {"estimates": "window:8"}, "too few"),
        (pmb.Track, {"estimates": "window:100", "certify": 0.1}, "certify"),
        (pmb.Vet, {"detect": "restart", "certify": 0.1}, "certify"),
        (pmb.Vet, {"estimates": "discount:0.99", "confidence": 1.5}, "leave confidence out"),
        (pmb.CIRT, {"estimates": "window:100"}, "Vet or Track"),
        (pmb.CIRT, {"detect": "restart"}, "Vet or Track"),
        (pmb.Track, {"detect": "stop"}, "'warn' or 'restart'"),
        (pmb.Track, {"detect": "warn:0"}, "between 0 and 1"),
        (pmb.Track, {"detect": "warn:2"}, "between 0 and 1"),
        (pmb.Track, {"detect": 3}, "'warn' or 'restart'"),
    ],
)
def test_bad_options_are_one_sentence(recipe: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        recipe(GINI, n_arms=6, support=pmb.Binary(), **options)
    one_sentence(caught.value)


def test_a_batch_with_a_bad_reward_forgets_nothing() -> None:
    policy = pmb.Track(GINI, n_arms=2, support=pmb.Binary(), estimates="window:20")
    policy.tell([0, 1] * 10, [0, 1] * 10)
    before = saved(policy)
    with pytest.raises(ValueError):
        policy.tell([0] * 50, [1.0] * 49 + [2.0])
    after = saved(policy)
    assert all(np.array_equal(before[name], after[name]) for name in before)


KEPT = [{"estimates": "window:300"}, {"estimates": "discount:0.997"}]
FOLLOWERS: list[Any] = [
    *((partial(pmb.UCFW, bonus="variance"), kept) for kept in KEPT),  # after a restart it takes few rewards for all
    *((recipe, options) for recipe in (pmb.MixtureUCB, pmb.Vet, pmb.Track) for options in [*KEPT, OPTIONS[2]]),
]


@pytest.mark.parametrize(("recipe", "options"), FOLLOWERS)
def test_every_policy_that_forgets_follows_a_change(recipe: Any, options: dict[str, str]) -> None:
    rng, policy = np.random.default_rng(6), recipe(GINI, n_arms=3, support=pmb.Binary(), **options)
    for t in range(2400):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < ([0.5, 0.9, 0.95] if t < 1200 else [0.9, 0.5, 0.95])[arm]))
    assert why_memory_is_inconsistent(policy, policy._memory) is None
    now = policy._memory.pulls / policy._memory.t  # before the change it was the other way round
    assert now[1] > 0.5 > now[0]
    assert policy.t == 2400 == policy.pulls.sum()
