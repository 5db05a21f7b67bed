"""Vet takes the decisions of its rule, as a slow reference finds them, and behaves well where little is known."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as stats

import pmbandits as pmb
from benchmarks import vet_theorems as theorems
from tests.helpers import SUPPORTS as DRAWN
from tests.helpers import final_regret, play_rewards
from tests.reference import convex
from tests.reference import vet as slow

METRICS: dict[str, Any] = {
    "gini": pmb.GiniDeviation(),
    "wang": pmb.WangRightTail(),
    "upper_cvar": pmb.UpperCVaR(0.9),
    "mean": pmb.Mean(),
    "pht": pmb.PHT(0.5),
    "lower_cvar": pmb.LowerCVaR(0.5),
    "inverted_s": pmb.InvertedS(0.5),
    "difference": pmb.InvertedS(0.5) - pmb.Mean(),
    "flat": pmb.UpperCVaR(0.35),
}
PROGRAMS = {
    "gini": convex.gini(),
    "wang": convex.wang_right_tail(),
    "upper_cvar": convex.upper_cvar(0.9),
    "mean": convex.mean(),
    "pht": convex.pht(0.5),
    "flat": convex.upper_cvar(0.35),
}
SUPPORTS = ("binary", "finite 5", "finite 11", "interval", "binned", "real")
NEITHER = ("inverted_s", "difference")


def instance(support: str, n_arms: int, rounds: int, seed: int) -> tuple[Any, np.ndarray]:
    """A random support of the kind, and the n-th reward of arm i for all i and n."""
    rng = np.random.default_rng([seed, n_arms])
    if support == "binary":
        means = rng.uniform(0.05, 0.95, (n_arms, 1))
        return pmb.Binary(), (rng.random((n_arms, rounds)) < means).astype(float)
    if support.startswith("finite"):
        atoms = np.round(np.sort(rng.uniform(-1.0, 2.0, int(support.split()[1]))), 3)
        chances = rng.dirichlet(np.full(atoms.size, 0.7), n_arms)
        return pmb.Finite(atoms), np.array([rng.choice(atoms, rounds, p=row) for row in chances])
    if support == "interval 4":  # two values beside the ends: few enough for brute force, and tails may be light
        values, chances = np.array([-0.5, 0.1, 0.8, 1.5]), rng.dirichlet(np.full(4, 2.0), n_arms)
        return pmb.Interval(-0.5, 1.5), np.array([rng.choice(values, rounds, p=row) for row in chances])
    if support in ("interval", "binned"):
        shape = rng.uniform(0.5, 4.0, (2, n_arms, 1))
        return pmb.Interval(-0.5, 1.5), 2.0 * rng.beta(shape[0], shape[1], (n_arms, rounds)) - 0.5
    return pmb.Real(1.0), rng.normal(rng.uniform(-1.0, 3.0, (n_arms, 1)), 1.0, (n_arms, rounds))


@dataclass(frozen=True)
class Case:
    metric: str
    support: str
    n_arms: int
    rounds: int
    seed: int = 0
    batch: int = 1  # rewards are told when so many have gathered
    history: int = 0  # rewards of each arm that are told before the first round

    def __str__(self) -> str:
        late = f"-late{self.batch}" if self.batch > 1 else ""
        return f"{self.metric}-{self.support}-K{self.n_arms}{late}{'-history' if self.history else ''}-{self.seed}"


def story(memory: Any, reference: slow.Vet) -> str:
    """What to print on the first difference: fast / slow."""
    r = reference
    return (
        f"threshold {memory.threshold[0]:.6g} / {r.threshold:.6g}, level {memory.level[0]:.6g} / {r.level:.6g}, worth "
        f"{memory.worth:.6g} / {r.worth:.6g}\nindices {memory.vet_index} / {r.index}\nmixture {memory.mix}, wanted "
        f"{memory.target_shares} / {r.b}, by round {memory.window_end} / {r.window_end}\npulls {r.pulls}, rewards "
        f"{r.told}"
    )


@dataclass
class Tally:
    excused: int = 0  # decisions that differ where the reference compares nearly equal numbers
    tried: int = 0  # rounds in which an arm that is left out was pulled


def play(case: Case) -> tuple[Tally, slow.Vet]:
    """Play with the fast policy, and ask the reference in every round what it would do."""
    support, rewards = instance(case.support, case.n_arms, case.rounds + case.history, case.seed)
    metric, bins = METRICS[case.metric], 64 if case.support == "binned" else None
    given = {"estimates": "binned:64"} if bins else {}
    fast = pmb.Vet(metric, n_arms=case.n_arms, support=support, **given)
    reference = slow.Vet(metric, case.n_arms, support, bins, PROGRAMS.get(case.metric))
    tally, waiting, drawn = Tally(), [], np.full(case.n_arms, case.history)
    for arm in range(case.n_arms):
        for reward in rewards[arm, : case.history]:
            fast.tell(arm, float(reward))
            reference.tell(arm, float(reward))
    for t in range(case.rounds):
        before = int(fast._memory.window_end[0])
        arm = fast.ask()
        memory = fast._memory
        if reference.ready():
            looked = int(memory.window_end[0]) != before
            due, clear = reference.due()
            if due != looked:
                assert not clear, f"round {t}: look {looked} / {due}\n{story(memory, reference)}"
                tally.excused += 1
            if looked:
                reference.look(memory.mix, memory.target_shares)
            tally.tried += int(reference.left_out[arm])
        decision = reference.decide()
        if arm not in decision.allowed:
            assert not decision.sure, f"round {t}: {arm} / {decision.allowed}\n{story(memory, reference)}"
            tally.excused += 1
        reference.pulled(arm)
        waiting.append((arm, float(rewards[arm, drawn[arm]])))
        drawn[arm] += 1
        if len(waiting) >= case.batch or not reference.ready():
            for told in waiting:
                fast.tell(*told)
                reference.tell(*told)
            waiting = []
    return tally, reference


def check(case: Case) -> None:
    tally, reference = play(case)
    assert tally.excused <= 0.02 * case.rounds
    if case.metric not in NEITHER:
        assert max(reference.miss_a) <= 1.001
    assert max(reference.miss_b) <= 1.001


def cases(metrics: tuple[str, ...], supports: tuple[str, ...], rounds: int, every: int) -> list[Case]:
    """Every so-manieth pair of metric and support, with K = 2, 3, 5 in turn."""
    pairs = [(metric, support) for metric in metrics for support in supports]
    return [Case(*pair, (2, 3, 5)[k % 3], rounds) for k, pair in enumerate(pairs) if k % every == 0]


QUICK = [
    *cases(("gini", "wang", "upper_cvar", "mean", "pht"), SUPPORTS, 230, 2),
    *cases(("lower_cvar",), ("binary", "finite 5", "finite 11", "interval"), 110, 1),
    *cases(NEITHER, ("binary",), 200, 1),
    Case("inverted_s", "finite 3", 2, 30),
    Case("difference", "finite 3", 3, 40),
    Case("inverted_s", "interval 4", 3, 60),
    Case("flat", "binary", 5, 200),
    Case("flat", "finite 5", 3, 200),
    Case("gini", "interval", 3, 300, batch=20),
    Case("wang", "finite 5", 3, 300, batch=20, history=2),
    Case("mean", "binary", 5, 300, batch=20, history=5),
]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_it_pulls_what_the_rule_says(case: Case) -> None:
    check(case)


FULL = [
    Case(metric, support, n_arms, 240 if metric == "lower_cvar" else 600, seed=1)
    for metric in (*PROGRAMS, "lower_cvar")
    for support in SUPPORTS
    for n_arms in (2, 3, 5)
]


@pytest.mark.slow
@pytest.mark.parametrize("case", FULL, ids=str)
def test_it_pulls_what_the_rule_says_with_every_metric_on_every_support(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 3])
def test_it_pulls_what_the_rule_says_with_a_metric_of_neither_shape(n_arms: int) -> None:
    check(Case("inverted_s", "finite 5", n_arms, 200, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["gini", "wang", "upper_cvar"])
def test_it_pulls_what_the_rule_says_when_the_table_is_thinned_out(metric: str) -> None:
    """More different rewards than the table has cells: the reference still takes them all one by one.

    Found: 39 excuses for CVaR, where arms are nearly tied and h has a kink.
    """
    tally, _ = play(Case(metric, "interval", 3, 1500))
    assert tally.excused <= 45


# ---- an arm that looked bad ---------------------------------------------------------------------------------
def after_one_bad_reward(metric: Any, estimates: str) -> np.ndarray:
    """Arm 0 paid 0.4 to 0.5, 200 times; arm 1 paid 0 once, and now pays 0.9: the pulls of the next 2,000 rounds."""
    rng = np.random.default_rng(0)
    policy = pmb.Vet(metric, n_arms=2, support=pmb.Interval(0, 1), estimates=estimates)
    policy.tell([0] * 200, rng.uniform(0.4, 0.5, 200).tolist())
    policy.tell(1, 0.0)
    for _ in range(2000):
        arm = policy.ask()
        policy.tell(arm, float(rng.uniform(0.4, 0.5)) if arm == 0 else 0.9)
    return policy.pulls


@pytest.mark.parametrize(
    ("metric", "least"), [(pmb.Mean(), 1900), (pmb.LowerCVaR(0.5), 1900), (pmb.UpperCVaR(0.9), 190)], ids=str
)
@pytest.mark.parametrize("estimates", ["exact", "binned:64", "binned:16"])
def test_an_arm_is_not_given_up_after_one_bad_reward(metric: Any, least: int, estimates: str) -> None:
    """For the mean of the best tenth, a tenth of the rounds is enough."""
    assert after_one_bad_reward(metric, estimates)[1] > least


def test_an_arm_is_not_given_up_after_one_bad_reward_for_the_worst_tenth() -> None:
    assert after_one_bad_reward(pmb.LowerCVaR(0.1), "binned:64")[1] > 1000


# ---- late, missing and early rewards ------------------------------------------------------------------------
def made(support: str, n_arms: int = 3, metric: Any = "gini", **options: Any) -> pmb.Vet:
    return pmb.Vet(metric, n_arms=n_arms, support=DRAWN[support][0], **options)


def draw(support: str, rng: np.random.Generator, arms: Any) -> list[float]:
    return [float(DRAWN[support][1](rng, int(i))) for i in arms]


@pytest.mark.parametrize("support", DRAWN)
def test_rewards_that_come_late_are_enough(support: str) -> None:
    """None before round 1,000, then all of them, then in batches of 100: the shares come near the mixture."""
    policy, rng = made(support), np.random.default_rng(0)
    arms = policy.ask(1000)
    assert np.bincount(arms).tolist() == [334, 333, 333]  # nothing is known: in turn
    policy.tell(arms, draw(support, rng, arms))
    before = policy.pulls
    for _ in range(60):
        arms = policy.ask(100)
        policy.tell(arms, draw(support, rng, arms))
    assert policy.mixture.max() < 1.0  # a mixture is best
    assert np.abs((policy.pulls - before) / 6000 - policy.mixture).max() < 0.1
    assert np.abs(policy.pulls / 7000 - policy.mixture).max() < 0.06


@pytest.mark.parametrize("support", DRAWN)
@pytest.mark.parametrize("told", [0, 1, 5])
def test_asks_without_rewards_go_on(support: str, told: int) -> None:
    policy, rng = made(support), np.random.default_rng(0)
    policy.tell([0, 1, 2] * told, draw(support, rng, [0, 1, 2] * told))
    pulls = np.bincount(policy.ask(5000), minlength=3)
    assert pulls.sum() == 5000
    if told == 0:
        assert pulls.tolist() == [1667, 1667, 1666]
        assert np.isfinite(policy.mixture).all()
    else:  # what is played is the mixture, but for arms that are left out and still possible
        assert np.isfinite(policy.mixture).all() and policy.mixture.sum() == pytest.approx(1.0)
        inside = policy.mixture > 0
        assert pulls[inside].sum() > 0.5 * 5000


def test_history_counts_as_rewards_but_not_as_pulls() -> None:
    policy, rng = made("interval"), np.random.default_rng(0)
    arms = np.repeat([0, 1, 2], 200)
    policy.tell(arms, draw("interval", rng, arms))
    assert policy.pulls.sum() == 0
    mixture = policy.mixture
    pulls = np.bincount(policy.ask(300), minlength=3)
    assert np.abs(pulls / 300 - mixture).max() < 0.05


# ---- odd arms -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", METRICS.values(), ids=str)
@pytest.mark.parametrize("support", DRAWN)
def test_one_arm_alone(metric: Any, support: str) -> None:
    policy, rng = made(support, 1, metric), np.random.default_rng(0)
    for _ in range(150):
        assert policy.ask() == 0
        policy.tell(0, draw(support, rng, [0])[0])
    assert policy.mixture.tolist() == [1.0]
    assert "arm 0" in policy.explain()


@pytest.mark.parametrize("metric", METRICS.values(), ids=str)
def test_arms_that_never_pay_and_arms_that_are_all_equal(metric: Any) -> None:
    """No arm is better than another: every one is played, nothing is NaN."""
    for support, reward in ((pmb.Binary(), 0.0), (pmb.Binary(), 1.0), (pmb.Interval(-1, 1), 0.0), (pmb.Real(1), 2.5)):
        policy = pmb.Vet(metric, n_arms=3, support=support)
        for _ in range(300):
            policy.tell(policy.ask(), reward)
        assert policy.pulls.min() >= 1 and policy.pulls.sum() == 300
        assert np.isfinite(policy.mixture).all() and policy.mixture.sum() == pytest.approx(1.0)


def test_an_arm_that_always_pays_the_same_takes_its_place() -> None:
    """Beside a coin for 0 or 1 an arm that is sure to pay ½ adds nothing to the deviation."""
    rng = np.random.default_rng(0)
    policy = pmb.Vet("gini", n_arms=2, support=pmb.Interval(0, 1))
    for _ in range(2000):
        arm = policy.ask()
        policy.tell(arm, 0.5 if arm == 0 else float(rng.random() < 0.5))
    assert policy.mixture[0] < 0.02
    assert policy.pulls[0] < 50


@pytest.mark.slow
def test_a_thousand_arms() -> None:
    bandit = pmb.Bandit.bernoulli(np.random.default_rng(0).random(1000).tolist())
    run = pmb.simulate(pmb.Mean(), bandit, [pmb.Vet(), pmb.Track()], horizon=5000, trials=3, seed=0, progress=False)
    assert final_regret(run, "Vet") < 0.7 * final_regret(run, "Track")  # 0.18 and 0.39 were found


# ---- merging, saving, reading, threads ------------------------------------------------------------------------
@pytest.mark.parametrize("metric", ["gini", "lower_cvar(0.5)", "inverted_s(0.5)"])
@pytest.mark.parametrize("support", DRAWN)
def test_saved_and_loaded_in_the_middle_it_goes_on_alike(metric: str, support: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rewards = np.array([draw(support, rng, [i] * 800) for i in range(3)])
    policy = made(support, metric=metric)
    play_rewards(policy, rewards, 353)
    policy.save(tmp_path / "vet.pmb")
    other = pmb.load(tmp_path / "vet.pmb")
    assert play_rewards(policy, rewards[:, 400:], 300) == play_rewards(other, rewards[:, 400:], 300)


@pytest.mark.parametrize("support", DRAWN)
def test_two_that_were_merged_go_on_like_their_copy(support: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rewards = np.array([draw(support, rng, [i] * 900) for i in range(3)])
    here, there = made(support), made(support)
    play_rewards(here, rewards, 250)
    play_rewards(there, rewards[:, 300:], 250)
    here.merge(there)
    assert here.t == 500
    here.save(tmp_path / "vet.pmb")
    again = pmb.load(tmp_path / "vet.pmb")
    arms = play_rewards(here, rewards[:, 600:], 300)
    assert arms == play_rewards(again, rewards[:, 600:], 300)
    assert np.abs(here.pulls / 800 - here.mixture).max() < 0.12


@pytest.mark.parametrize("support", ["interval", "real"])
def test_sketches_play_and_merge(support: str) -> None:
    rng = np.random.default_rng(0)
    rewards = np.array([draw(support, rng, [i] * 2500) for i in range(3)])
    exact = made(support)
    here, there = (made(support, estimates="sketch:32") for _ in range(2))
    play_rewards(exact, rewards, 2000)
    play_rewards(here, rewards, 1000)
    play_rewards(there, rewards[:, 1000:], 1000)
    here.merge(there)
    play_rewards(here, rewards, 300)
    assert np.abs(here.mixture - exact.mixture).max() < 0.15


@pytest.mark.parametrize("support", DRAWN)
def test_reading_changes_nothing(support: str) -> None:
    rng = np.random.default_rng(0)
    rewards = np.array([draw(support, rng, [i] * 400) for i in range(3)])
    one, two = made(support), made(support)
    used = np.zeros(3, dtype=int)
    for t in range(300):
        if t % 7 == 3:
            before = two._memory.words.copy()
            two.mixture, two.explain(), two.certainty(), two.estimates, two.utility_bounds(), repr(two)
            assert np.array_equal(before, two._memory.words)
        arm = one.ask()
        assert two.ask() == arm
        for policy in (one, two):
            policy.tell(arm, float(rewards[arm, used[arm]]))
        used[arm] += 1


def test_it_says_when_an_arm_that_is_left_out_is_tried_again() -> None:
    rng, said = np.random.default_rng(0), 0
    policy = made("binary", 4, "mean")
    for _ in range(400):
        text = policy.explain()
        arm = policy.ask()
        memory = policy._memory
        if memory.n_knots and memory.left_out[arm]:
            said += 1
            assert f"arm {arm} is next" in text
            assert (
                f"tried again: its index is {memory.vet_index[arm]:.3g}, below the threshold {memory.threshold[0]:.3g}"
                in text
            )
        else:
            assert "is tried again:" not in text
        policy.tell(arm, draw("binary", rng, [arm])[0])
    assert said > 10


def test_it_names_the_arm_that_is_tried_next_also_if_all_that_are_left_out_have_many_rewards() -> None:
    """Their indices are then not worked out: n rewards alone put an index above the threshold."""
    policy = made("binary", 3, "mean", names=["x", "y", "z"])
    policy.tell(["x"] * 51 + ["y"] * 100 + ["z"] * 95, [1.0, 1.0, 0.0] * 17 + [0.0] * 195)
    text = policy.explain()
    assert "x is next" in text and "inf" not in text
    assert "z will be tried next" in text and f"at least {np.log(95):.3g}" in text


def test_it_says_when_no_arm_is_left_out() -> None:
    policy = made("binary", 2, "gini")
    policy.tell([0, 1] * 100, [0.0, 1.0] * 100)
    text = policy.explain()
    assert "No arm is" in text and "pulls behind the share" in text


@pytest.mark.parametrize("make", [pmb.Vet, pmb.Track])
def test_bins_can_be_played_and_certified_without_a_holder_pair(make: Any) -> None:
    """An inverted S has no Hölder pair; what rounding is worth follows from its total variation instead."""
    policy, rng = (
        make("inverted_s(0.5)", n_arms=3, support=pmb.Interval(0, 1), estimates="binned:32"),
        np.random.default_rng(0),
    )
    for _ in range(200):
        arm = policy.ask()
        policy.tell(arm, float(rng.beta(1 + 2 * arm, 2)))
    assert policy.mixture.sum() == pytest.approx(1.0)
    assert "is next" in policy.explain()
    sure = policy.certainty()  # rounding is worth its size times the total variation of h, at most
    exact = make("inverted_s(0.5)", n_arms=3, support=pmb.Interval(0, 1))
    rng = np.random.default_rng(0)
    for _ in range(200):
        arm = exact.ask()
        exact.tell(arm, float(rng.beta(1 + 2 * arm, 2)))
    low, _, high = exact.utility_bounds(policy.mixture)
    assert sure.lower <= high and sure.upper >= low


def test_threads_can_share_it() -> None:
    policy, rng = made("interval"), np.random.default_rng(0)
    rewards = [draw("interval", rng, [i] * 500) for i in range(3)]

    def work(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(250):
            arm = policy.ask()
            policy.tell(arm, float(rewards[arm][own.integers(500)]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert policy.t == 1000 and policy.pending.sum() == 0
    assert sum(arm.n for arm in policy.estimates) == 1000
    assert np.abs(policy.pulls / 1000 - policy.mixture).max() < 0.1


# ---- regret ---------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_regret_is_below_tracks_on_beta_arms() -> None:
    rng = np.random.default_rng(0)
    bandit = pmb.Bandit([stats.beta(*rng.uniform(0.5, 5.0, 2)) for _ in range(10)])
    run = pmb.simulate(
        pmb.GiniDeviation(), bandit, [pmb.Vet(), pmb.Track()], horizon=3000, trials=20, seed=0, progress=False
    )
    assert final_regret(run, "Vet") < 0.7 * final_regret(run, "Track")  # 0.0050 and 0.0097 were found


def test_regret_is_below_tracks_on_coins() -> None:
    bandit = pmb.Bandit.bernoulli(np.linspace(0.1, 0.8, 10).tolist())
    run = pmb.simulate(pmb.Mean(), bandit, [pmb.Vet(), pmb.Track()], horizon=3000, trials=20, seed=0, progress=False)
    assert final_regret(run, "Vet") < 0.5 * final_regret(run, "Track")  # 0.012 and 0.036 were found


# ---- never stuck ----------------------------------------------------------------------------------------------
def mean_regrets(metric: Any, means: list[float], horizon: int, seed: int = 0, trials: int = 16) -> tuple[float, float]:
    """The mean regret after 1,000 rounds, and at the end."""
    run = pmb.simulate(
        metric, pmb.Bandit.bernoulli(means), pmb.Vet(), horizon, trials, seed, checkpoints=[1000, horizon],
        progress=False, n_jobs=1,
    )  # fmt: skip
    _, regret = run.regret("Vet")
    return float(regret[:, 0].mean()), float(regret[:, 1].mean())


def test_it_is_not_stuck_where_the_slope_points_away_from_the_best_mixture() -> None:
    """h falls between the arms, so that a slope at the shares played pointed to the wrong arms: 4.5e-2 at all times."""
    metric = pmb.InvertedS(0.3531) - 0.421 * pmb.Mean()
    early, late = mean_regrets(metric, [0.9086, 0.0805, 0.1186, 0.0236], 20_000)
    assert late < 0.2 * early and late < 5e-3  # 1.8e-2 and 2.0e-3 were found


def test_arms_that_cannot_help_are_left_alone_where_h_is_flat() -> None:
    """Above a mean of 0.65 every mixture is as good: 3.3e-3 and 1.2e-3 when all arms were tried again and again."""
    early, late = mean_regrets(pmb.UpperCVaR(0.35), [0.1, 0.3, 0.5, 0.7, 0.9], 20_000)
    assert early < 5e-4 and late == 0.0  # 0 and 0 were found


def test_shares_keep_away_from_the_ends_of_a_flat_top() -> None:
    """Means of .2 to .8 are equally good. At .2 or .8, where they were before, each error of the estimates costs."""
    early, late = mean_regrets(pmb.InterESRange(0.8), [0.7, 0.95], 5000, trials=100)
    assert early < 1e-4 and late == 0.0  # 0 and 0 were found; 1.2e-3 and 6.2e-4 before


def test_it_says_that_no_arm_can_help_where_h_is_flat() -> None:
    policy, rng = pmb.Vet(pmb.UpperCVaR(0.35), n_arms=3, support=pmb.Binary()), np.random.default_rng(1)
    for _ in range(100):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.6, 0.7, 0.95)[arm]))
    assert (policy.mixture == 0.0).sum() == 1 and policy.mixture @ [0.6, 0.7, 0.95] > 0.65
    assert "none of the arms that are left out can help" in policy.explain()


@pytest.mark.parametrize("metric", [pmb.Mean(), pmb.DualPower(2), pmb.UpperCVaR(0.8)], ids=str)
def test_an_arm_on_an_unbounded_support_is_not_lost_after_one_very_bad_reward(metric: Any) -> None:
    """Arm 1 pays about 5 but paid −1 once, and 2σ more are less than the 3 of arm 0: it was never tried again."""
    policy, rng = pmb.Vet(metric, n_arms=2, support=pmb.Real(1.0)), np.random.default_rng(0)
    policy.tell([0] * 200 + [1], [*rng.normal(3.0, 1.0, 200).tolist(), -1.0])
    for _ in range(6000):
        arm = policy.ask()
        policy.tell(arm, float(rng.normal((3.0, 5.0)[arm], 1.0)))
    assert policy.pulls[1] > 100


def test_shares_follow_the_mixture_inside_of_a_long_window() -> None:
    """Windows grow with time. Arms were pulled one after the other in them, and at 1e6 rounds regret was 3.6e-7."""
    times = [int(1_000_000 * (1 + k / 1000)) for k in range(11)]
    run = pmb.simulate(
        "gini", pmb.Bandit.bernoulli([0.4, 0.9]), pmb.Vet(), times[-1], 4, seed=0, checkpoints=times, progress=False,
        n_jobs=1,
    )  # fmt: skip
    pulls = run.column("pulls", "Vet")[1][:, :, 1] / np.array(times)
    assert np.abs(pulls - run.column("mixture", "Vet")[1][:, :, 1]).max() < 5e-4  # 1.6e-3 before


# ---- the theorems of docs/vet-regret.md -------------------------------------------------------------------------
def played_on_coins(p: tuple[float, float], horizons: list[int], trials: int, seed: int = 3) -> pmb.Run:
    bandit = pmb.Bandit.bernoulli(list(p))
    return pmb.simulate(
        "gini", bandit, pmb.Vet(), horizons[-1], trials, seed, checkpoints=horizons, progress=False, n_jobs=1
    )


def check_limit_of_regret(p: tuple[float, float], horizon: int, trials: int, low: float, high: float) -> None:
    """Theorem 1: T·regret ÷ σ² (h'' = −2) is the square of a normal variable, so its mean is 1 to 1.01."""
    run, variance = played_on_coins(p, [horizon], trials), theorems.noise(p, 0.5)
    scaled = horizon * run.regret("Vet")[1][:, -1] / variance
    assert low < scaled.mean() < high
    assert stats.kstest(scaled, stats.chi2(1).cdf).statistic < 0.025 + 2.0 / np.sqrt(trials)
    shares, mixture = (run.column(name, "Vet")[1][:, -1, 0] for name in ("pulls", "mixture"))
    off = horizon * (shares / horizon - mixture) ** 2 * (p[1] - p[0]) ** 2 / variance
    assert off.mean() < 0.03  # what steering adds; Lemma 2, and .005 to .015 were found


@pytest.mark.parametrize("p", [(0.4, 0.9), pytest.param((0.2, 0.7), marks=pytest.mark.slow)])
def test_the_regret_of_two_coins_is_that_of_theorem_1(p: tuple[float, float]) -> None:
    check_limit_of_regret(p, 10_000, 2000, 0.88, 1.14)  # standard error .03


@pytest.mark.slow
@pytest.mark.parametrize("p", [(0.4, 0.9), (0.2, 0.7), (0.3, 0.6)])
def test_the_regret_of_two_coins_is_that_of_theorem_1_up_to_5_percent(p: tuple[float, float]) -> None:
    check_limit_of_regret(p, 20_000, 20_000, 0.96, 1.06)  # standard error .01


@pytest.mark.slow
def test_coins_are_locked_out_more_and_more_rarely() -> None:
    """Lemma 1: the chance that a coin has fewer than log²T pulls falls faster than 1/T. Here one is near the other."""
    times = [1000, 10_000]
    pulls = played_on_coins((0.45, 0.55), times, 4000).column("pulls", "Vet")[1].min(axis=2)
    early, late = (pulls < np.log(times) ** 2).sum(axis=0)
    assert early >= 10 and late < 0.35 * early  # 35 and 3 are expected


def test_no_policy_beats_the_bound_of_theorem_3_on_average_over_coins() -> None:
    """The bound is about the mean over θ. Played is the rule that attains it: steer the mean of all rewards to u*.

    It knows which coin is the better one. So it must stay above the bound, and not far above.
    """
    rng, p, delta, horizon, trials = np.random.default_rng(0), (0.4, 0.9), 0.15, 20_000, 3000
    grid = np.linspace(-delta, delta, 4001)
    density = np.cos(0.5 * np.pi * grid / delta) ** 2
    theta = np.interp(rng.random(trials), np.cumsum(density) / density.sum(), grid)
    one, two = (theorems.shifted(q, theta) for q in p)
    total, mean = np.zeros(trials), np.zeros(trials)
    for t in range(horizon):
        chance = np.where(total > 0.5 * t, one, two)
        total += rng.random(trials) < chance
        mean += chance
    found = ((mean / horizon - 0.5) ** 2).mean()
    bound = theorems.lower_bound(p, 0.5, 2.0, horizon, delta)
    assert bound < found < 1.4 * bound


@pytest.mark.parametrize(
    ("good", "bad", "metric"), [(0.6, 0.9, "gini"), pytest.param(0.6, 0.4, "mean", marks=pytest.mark.slow)]
)
def test_pulls_of_the_worse_coin_are_those_of_theorem_2(good: float, bad: float, metric: str) -> None:
    """So many as its index allows, which tends to log T/kl; and fewer than that."""
    horizon, trials = 50_000, 500
    run = pmb.simulate(
        metric, pmb.Bandit.bernoulli([good, bad]), pmb.Vet(), horizon, trials, 3, progress=False, n_jobs=1
    )
    pulls = run.column("pulls", "Vet")[1][:, -1, 1]
    expected = theorems.pulls_by_index(good, bad, horizon, 4000, seed=0).mean()
    assert 0.85 * expected < pulls.mean() < 1.15 * expected
    assert pulls.mean() < np.log(horizon) / theorems.kl(bad, good)
