"""Asking, telling and reading: names, batches, late and missing rewards, and what a user can look at."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0, 1)
HORIZON = {"horizon": 2000, "epsilon": 1 / 8}
ALL: dict[str, dict[str, Any]] = {
    "PMETC": {"horizon": 1200, "epsilon": 0.1},
    "PMUCB": HORIZON,
    "CEUCB": HORIZON,
    "CIRT": {"epsilon": 0.25},
    "FixedGrid": {"epsilon": 0.5},
    "Uniform": {},
    "SolitaryArm": {"arm": 1},
    "UCB1": {},
}
WITH_SETS = ("PMUCB", "CEUCB", "CIRT", "FixedGrid")


def make(name: str, support: Any = None, n_arms: int = 2, metric: Any = GINI, **options: Any) -> Any:
    given = {**ALL[name], **options}
    return getattr(pmb, name)(metric, n_arms=n_arms, support=support or pmb.Binary(), **given)


def play(policy: Any, rounds: int, means: tuple[float, ...] = (0.2, 0.9, 0.5), seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < means[arm]))


# ---- asking ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALL)
def test_one_ask_is_an_int_and_many_are_an_array(name: str) -> None:
    one, many = make(name), make(name)
    assert type(one.ask()) is int
    asked = many.ask(9)
    assert asked.dtype == np.int64
    assert asked.shape == (9,)
    assert many.t == 9


@pytest.mark.parametrize("name", ALL)
def test_asking_many_is_asking_one_by_one(name: str) -> None:
    one, many = make(name), make(name)
    play(one, 120)
    play(many, 120)
    assert many.ask(50).tolist() == [one.ask() for _ in range(50)]
    assert many.ask(1).shape == (1,)


@pytest.mark.parametrize("n", [0, -3])
def test_fewer_than_one_ask_is_refused(n: int) -> None:
    policy = make("PMUCB")
    with pytest.raises(ValueError, match="n must be at least 1"):
        policy.ask(n)
    assert policy.t == 0


def test_a_fractional_number_of_asks_is_refused() -> None:
    with pytest.raises(TypeError, match="whole"):
        make("PMUCB").ask(2.5)


# ---- names -----------------------------------------------------------------------------------------------
def test_arms_are_told_by_name_or_position() -> None:
    by_name = make("PMUCB", n_arms=3, names=["red", "green", "blue"])
    by_place = make("PMUCB", n_arms=3)
    for arm, reward in ((0, 1.0), (1, 0.0), (2, 1.0), (1, 1.0)):
        by_name.tell(["red", "green", "blue"][arm], reward)
        by_place.tell(arm, reward)
    assert [e.n for e in by_name.estimates] == [1, 2, 1]
    assert [e.name for e in by_name.estimates] == ["red", "green", "blue"]
    assert by_name.mixture.tolist() == by_place.mixture.tolist()
    by_name.tell(["red", "blue", "red"], [0, 1, 1])
    assert [e.n for e in by_name.estimates] == [3, 2, 2]


def test_names_set_the_number_of_arms() -> None:
    policy = pmb.CIRT(GINI, names=["a", "b", "c"], support=pmb.Binary())
    assert policy.n_arms == 3
    assert policy.names == ("a", "b", "c")


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed() -> None:
    policy = make("PMUCB", names=["left", "right"])
    with pytest.raises(ValueError, match="lift") as caught:
        policy.tell("lift", 1.0)
    assert "left" in str(caught.value)
    assert [e.n for e in policy.estimates] == [0, 0]


# ---- telling ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "reward",
    [1, 1.0, True, np.float64(1.0), np.float32(1.0), np.int64(1), np.bool_(True), np.array(1.0)],
    ids=lambda r: type(r).__name__,
)
@pytest.mark.parametrize("arm", [1, np.int64(1), np.int32(1), "b"], ids=lambda a: type(a).__name__)
def test_a_reward_may_be_any_kind_of_number(arm: Any, reward: Any) -> None:
    policy = make("CIRT", names=["a", "b"])
    policy.tell(arm, reward)
    estimate = policy.estimates[1]
    assert (estimate.n, estimate.x.tolist(), estimate.p.tolist()) == (1, [1.0], [1.0])


@pytest.mark.parametrize(
    ("arms", "rewards"),
    [
        ([0, 1, 1], [1, 0, 1]),
        ((0, 1, 1), (1.0, 0.0, 1.0)),
        (np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0])),
        (np.array([0, 1, 1], dtype=np.int32), np.array([True, False, True])),
        (["a", "b", "b"], [True, 0, np.float64(1)]),
        (np.array(["a", "b", "b"]), [1, 0, 1]),
    ],
    ids=["lists", "tuples", "arrays", "bools", "names", "array of names"],
)
def test_batches_may_be_lists_tuples_or_arrays(arms: Any, rewards: Any) -> None:
    policy = make("PMUCB", names=["a", "b"])
    policy.tell(arms, rewards)
    assert [e.n for e in policy.estimates] == [1, 2]
    assert [e.mean for e in policy.estimates] == [1.0, 0.5]


def test_several_rewards_of_one_arm() -> None:
    policy = make("PMUCB", support=UNIT, names=["a", "b"])
    policy.tell("b", [0.25, 0.5, 0.75])
    policy.tell(0, np.array([0.125]))
    assert [e.n for e in policy.estimates] == [1, 3]
    assert policy.estimates[1].mean == 0.5


def test_an_empty_batch_is_nothing() -> None:
    policy = make("PMUCB")
    policy.tell([], [])
    assert [e.n for e in policy.estimates] == [0, 0]


@pytest.mark.parametrize(
    ("arms", "rewards"), [([0, 1], [1.0]), ([0], [1.0, 0.0]), ([0, 1, 0], np.array([1.0, 1.0]))], ids=str
)
def test_as_many_rewards_as_arms(arms: Any, rewards: Any) -> None:
    policy = make("PMUCB")
    with pytest.raises(ValueError, match="one reward for each arm"):
        policy.tell(arms, rewards)
    assert [e.n for e in policy.estimates] == [0, 0]


@pytest.mark.parametrize("support", [pmb.Binary(), pmb.Finite([0, 0.5, 1]), UNIT], ids=repr)
@pytest.mark.parametrize("name", WITH_SETS)
def test_a_reward_outside_the_support_is_named_and_the_whole_batch_left_out(name: str, support: Any) -> None:
    policy = make(name, support)
    with pytest.raises(ValueError, match=r"1\.7") as caught:
        policy.tell([0, 1, 0], [1.0, 0.0, 1.7])
    assert repr(support) in str(caught.value)
    assert [e.n for e in policy.estimates] == [0, 0]


def test_more_rewards_than_room_at_once() -> None:
    policy = make("PMUCB", support=pmb.Real(1))
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=1000)
    arms = rng.integers(0, 2, 1000)
    policy.tell(arms, rewards)
    for arm in (0, 1):
        assert policy.estimates[arm].n == (arms == arm).sum()
        assert policy.estimates[arm].x.tolist() == np.sort(rewards[arms == arm]).tolist()
    assert policy.ask() in (0, 1)


def test_rewards_as_text_are_refused_and_numpy_rewards_are_taken() -> None:
    policy = pmb.UCB1(n_arms=2, support=pmb.Binary())
    for bad in ("1", None):
        with pytest.raises(TypeError, match="must be numbers"):
            policy.tell(0, bad)
    for arm, reward in ((0, 1), (np.int64(0), np.float64(1)), (0, True), (0, np.float32(0)), (np.int32(0), np.int8(1))):
        policy.tell(arm, reward)
    assert policy.estimates[0].n == 5


# ---- late, out of order, never, unsolicited --------------------------------------------------------------
@pytest.mark.parametrize("name", ALL)
def test_pending_counts_asks_without_a_reward(name: str) -> None:
    policy = make(name)
    arms = policy.ask(10)
    assert policy.pending.tolist() == np.bincount(arms, minlength=2).tolist() == policy.pulls.tolist()
    policy.tell(arms[:4], [1.0, 0.0, 1.0, 0.0])
    assert policy.pending.sum() == 6
    policy.tell(arms[:3:-1], np.ones(6))
    assert policy.pending.tolist() == [0, 0]
    assert policy.pulls.sum() == 10


@pytest.mark.parametrize("name", ["PMUCB", "CEUCB", "CIRT", "FixedGrid"])
def test_late_and_shuffled_rewards_end_in_the_same_estimates(name: str) -> None:
    policy = make(name)
    rng = np.random.default_rng(1)
    waiting: list[tuple[int, float]] = []
    told: list[list[float]] = [[], []]
    for t in range(600):
        arm = policy.ask()
        waiting.append((arm, float(rng.random() < (0.2, 0.9)[arm])))
        while waiting and rng.random() < 0.5 + 0.5 * (t % 7 == 0):
            which = int(rng.integers(len(waiting)))
            arm, reward = waiting.pop(which)
            policy.tell(arm, reward)
            told[arm].append(reward)
    assert [e.n for e in policy.estimates] == [len(r) for r in told]
    assert [e.mean for e in policy.estimates] == pytest.approx([np.mean(r) for r in told])
    assert policy.pending.sum() == len(waiting)
    assert policy.pulls.sum() == 600


@pytest.mark.parametrize("name", ["PMETC", "PMUCB", "CEUCB", "CIRT", "FixedGrid"])
@pytest.mark.parametrize("support", [pmb.Binary(), UNIT], ids=repr)
def test_a_thousand_unanswered_asks_still_steer_to_the_mixture(name: str, support: Any) -> None:
    policy = make(name, support)
    play(policy, 200)
    wanted = policy.mixture
    policy.ask(1000)
    assert policy.pending.sum() == 1000
    assert policy.mixture.tolist() == wanted.tolist()
    assert np.abs(policy.pulls / 1200 - wanted).max() < 0.01 + 30 / 1200 * (name in ("CIRT", "FixedGrid"))


@pytest.mark.parametrize("name", ALL)
def test_no_reward_at_all_does_not_stop_a_policy(name: str) -> None:
    policy = make(name)
    arms = policy.ask(400)
    assert policy.pending.sum() == 400
    if name != "SolitaryArm":
        assert (np.bincount(arms, minlength=2) > 0).all()
    assert policy.mixture.sum() == pytest.approx(1.0)


def test_etc_waits_for_late_rewards_before_it_commits() -> None:
    policy = pmb.PMETC(GINI, n_arms=2, support=pmb.Binary(), horizon=1000, epsilon=0.1)
    assert policy.mixture.tolist() == [0.5, 0.5]
    arms = policy.ask(300)
    rng = np.random.default_rng(0)
    policy.tell(arms, (rng.random(300) < np.array([0.4, 0.9])[arms]).astype(float))
    policy.ask(700)
    assert policy.pulls[0] / 1000 == pytest.approx(0.8, abs=0.11)


def test_history_informs_without_being_pulls() -> None:
    policy = make("PMUCB")
    cold = make("PMUCB")
    policy.tell(0, [0, 0, 0, 0, 1] * 40)
    policy.tell(1, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0] * 20)
    assert policy.pulls.tolist() == [0, 0]
    assert policy.pending.tolist() == [0, 0]
    assert policy.t == 0
    assert [e.n for e in policy.estimates] == [200, 200]
    assert cold.mixture.tolist() == [0.5, 0.5]
    # the middle of (.2, .9) by Gini is weight 4/7 on the first arm
    assert abs(policy.mixture[0] - 4 / 7) < 0.15
    assert policy.utility_bounds()[2] - policy.utility_bounds()[0] < 0.25


def test_a_reward_too_many_does_not_make_pending_negative() -> None:
    policy = make("CIRT")
    arm = policy.ask()
    policy.tell(arm, [1.0, 0.0, 1.0])
    assert policy.pending.tolist() == [0, 0]
    policy.ask()
    assert policy.pending.sum() == 1


# ---- recipes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALL)
def test_a_recipe_is_bound_with_its_options_and_stays_a_recipe(name: str) -> None:
    recipe = getattr(pmb, name)(seed=4, **ALL[name])
    policy = recipe.bind(GINI, 2, pmb.Binary(), names=["x", "y"])
    assert type(policy) is type(recipe)
    assert policy.names == ("x", "y")
    assert policy.seed == 4
    assert recipe.bind(GINI, 2, pmb.Binary(), seed=9).seed == 9
    direct = make(name, seed=4)
    play(policy, 150)
    play(direct, 150)
    assert policy.pulls.tolist() == direct.pulls.tolist()
    with pytest.raises(ValueError, match="recipe"):
        recipe.ask()


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p.ask(),
        lambda p: p.ask(3),
        lambda p: p.tell(0, 1.0),
        lambda p: p.tell([0], [1.0]),
        lambda p: p.mixture,
        lambda p: p.pulls,
        lambda p: p.pending,
        lambda p: p.t,
        lambda p: p.explain(),
        lambda p: p.estimates,
        lambda p: p.phase,
        lambda p: p.phase_ends,
    ],
)
@pytest.mark.parametrize("recipe", [pmb.CIRT(), pmb.CIRT(GINI), pmb.CIRT(GINI, n_arms=2)], ids=repr)
def test_an_unbound_recipe_says_what_it_needs(recipe: Any, use: Any) -> None:
    with pytest.raises(ValueError, match="recipe") as caught:
        use(recipe)
    assert "bind" in str(caught.value)


def test_a_recipe_can_be_bound_to_different_problems() -> None:
    recipe = pmb.PMUCB(horizon=500)
    assert recipe.bind(GINI, 2, pmb.Binary()).n_arms == 2
    assert recipe.bind(pmb.UpperCVaR(0.9), 4, pmb.Real(1)).n_arms == 4


def test_a_recipe_keeps_its_names_when_it_is_bound() -> None:
    recipe = pmb.SolitaryArm(names=["a", "b"], arm="b")
    assert recipe.bind(GINI, 2, pmb.Binary()).names == ("a", "b")
    assert recipe.bind(GINI, 2, pmb.Binary()).ask() == 1


# ---- reading ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", WITH_SETS)
def test_the_interval_of_a_bernoulli_mean_contains_it(name: str) -> None:
    policy = make(name)
    assert [(e.low, e.high) for e in policy.estimates] == [(0.0, 1.0)] * 2
    play(policy, 500)
    for estimate, mean in zip(policy.estimates, (0.2, 0.9), strict=True):
        assert estimate.kind == "interval"
        assert 0.0 < estimate.low < estimate.mean < estimate.high < 1.0
        assert estimate.low < mean < estimate.high
        low, high = estimate.band(0.5)
        assert low == pytest.approx(1 - estimate.high)
        assert high == pytest.approx(1 - estimate.low)
        assert low <= 1 - mean <= high


@pytest.mark.parametrize("name", WITH_SETS)
@pytest.mark.parametrize("support", [UNIT, pmb.Finite(np.arange(11) / 10)], ids=repr)
def test_the_band_of_a_cdf_contains_the_true_one(name: str, support: Any) -> None:
    kinds = {"auto": "kl_band", "dkw": "band"}
    policies = [make(name, support, confidence=confidence) for confidence in kinds]
    rng = np.random.default_rng(5)
    few, many = rng.integers(0, 6, 200) / 10, rng.integers(0, 11, 300) / 10
    for policy in policies:
        policy.tell(0, few)
        policy.tell(1, many)
    x = np.linspace(-0.05, 1.05, 23)
    shown = [(estimate, top) for policy in policies for estimate, top in zip(policy.estimates, (6, 11), strict=True)]
    assert [estimate.kind for estimate, _ in shown] == ["kl_band", "kl_band", "band", "band"]
    for estimate, top in shown:
        truth = np.clip((np.floor(x * 10 + 1e-9) + 1) / top, 0, 1)
        low, high = estimate.band(x)
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()
        assert (low <= estimate.cdf(x)).all()
        assert (estimate.cdf(x) <= high).all()
        assert (high - low).max() < 1.0
        assert estimate.p.sum() == pytest.approx(1.0)
        assert estimate.cdf([-1.0, 2.0]).tolist() == pytest.approx([0.0, 1.0])


def test_estimates_before_the_first_reward_say_nothing() -> None:
    for support in (pmb.Binary(), UNIT, pmb.Real(1), pmb.Finite([0, 1, 5])):
        for estimate in make("PMUCB", support).estimates:
            assert estimate.n == 0
            assert np.isnan(estimate.mean)
            assert estimate.radius == float("inf")
            low, high = estimate.band([0.3])
            assert low.tolist() == [0.0]
            assert high.tolist() == [1.0]


@pytest.mark.parametrize("name", WITH_SETS)
@pytest.mark.parametrize("support", [pmb.Binary(), pmb.Finite([0, 0.5, 1]), UNIT, pmb.Real(1)], ids=repr)
@pytest.mark.parametrize("metric", [GINI, pmb.LowerCVaR(0.3), pmb.UpperCVaR(0.8)], ids=repr)
def test_bounds_of_utility_are_in_order_and_contain_the_truth(name: str, support: Any, metric: Any) -> None:
    policy = make(name, support, metric=metric)
    play(policy, 120)
    bandit = pmb.Bandit.bernoulli([0.2, 0.9])
    for weights in (None, [1.0, 0.0], [0.3, 0.7], np.array([0.0, 1.0])):
        low, middle, high = policy.utility_bounds(weights)
        assert low <= middle <= high
        shares = policy.mixture if weights is None else weights
        assert low <= pmb.utility(metric, bandit, shares) <= high


def test_bounds_tighten_with_rewards() -> None:
    policy = make("FixedGrid")
    widths = []
    for _ in range(4):
        play(policy, 150)
        low, _, high = policy.utility_bounds([0.5, 0.5])
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.0], [-0.5, 1.5], [float("nan"), 1.0]], ids=str)
def test_bounds_of_what_is_no_mixture_are_refused(weights: Any) -> None:
    with pytest.raises(ValueError, match="weights"):
        make("PMUCB").utility_bounds(weights)


@pytest.mark.parametrize("name", ["PMETC", "Uniform", "SolitaryArm", "UCB1"])
def test_policies_without_confidence_sets_say_so(name: str) -> None:
    policy = make(name)
    assert policy.confidence is None
    with pytest.raises(ValueError, match="no confidence sets"):
        policy.utility_bounds()
    with pytest.raises(ValueError, match="no confidence sets"):
        policy.certainty()
    assert all(e.kind == "none" for e in policy.estimates)


@pytest.mark.parametrize("name", ALL)
def test_explain_names_the_next_arm_and_gives_numbers(name: str) -> None:
    policy = make(name, names=["tea", "coffee"])
    for rounds in (0, 1, 3, 200):
        play(policy, rounds)
        text = policy.explain()
        assert text == policy.explain()
        coming = re.search(r"Round (\d+): (\w+) is next", text)
        assert coming is not None
        assert int(coming[1]) == policy.t + 1
        assert "tea" in text
        assert "coffee" in text
        assert "%" in text
        assert "\n" not in text
        arm = policy.ask()
        assert policy.names[arm] == coming[2]
        policy.tell(arm, 1.0)


def test_explain_reports_bounds_and_what_is_awaited() -> None:
    policy = make("CIRT")
    play(policy, 100)
    policy.ask(3)
    text = policy.explain()
    low, middle, high = policy.utility_bounds()
    assert f"is estimated at {middle:.4g}, and it lies between {low:.4g} and {high:.4g}" in text
    assert "3 rewards" in text
    policy.tell(policy.ask(), 1.0)
    assert "3 rewards" in policy.explain()


def test_reading_after_many_rewards_at_once_needs_no_ask_before() -> None:
    for name in WITH_SETS:
        policy = make(name)
        policy.tell(0, np.zeros(600))
        policy.tell(1, np.ones(600))
        assert policy.mixture.sum() == pytest.approx(1.0)
        low, middle, high = policy.utility_bounds()
        assert low <= middle <= high
        assert policy.t == 0
        assert "Round 1" in policy.explain()
        assert policy.ask() in (0, 1)


def test_what_is_read_can_be_changed_without_harm() -> None:
    policy = make("CIRT")
    play(policy, 50)
    before = (policy.mixture.tolist(), policy.pulls.tolist(), policy.pending.tolist())
    policy.mixture[:] = 7.0
    policy.pulls[:] = 7
    policy.pending[:] = 7
    policy.estimates[0].x[:] = 7.0
    assert (policy.mixture.tolist(), policy.pulls.tolist(), policy.pending.tolist()) == before
    assert 7.0 not in policy.estimates[0].x


def test_phases_are_visible() -> None:
    etc = make("PMETC")
    assert etc.phase == "explore"
    play(etc, 120)
    assert etc.phase == "commit"
    ucb = make("PMUCB")  # ⌈0.1·2000/8/4⌉ = 7 pulls of each arm
    play(ucb, 13)
    assert ucb.phase == "explore"
    play(ucb, 1)
    assert ucb.phase == "track"
    cirt = make("CIRT")
    assert (cirt.phase, cirt.phases, cirt.phase_ends) == (1, 2, ())
    play(cirt, 1500, means=(0.02, 0.98))
    cirt.ask()
    assert cirt.phase == "track"
    assert len(cirt.phase_ends) == 2
    assert 0 < cirt.phase_ends[0] < cirt.phase_ends[1] <= 1500


def test_phase_and_mixture_tell_the_same_story_right_after_a_reward() -> None:
    """Both are reads with all rewards told so far: the mixture must not be of a phase later than the one shown."""
    policy = make("CIRT")
    rng = np.random.default_rng(0)
    for _ in range(1500):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.02, 0.98)[arm]))
        shown, mixture = policy.phase, policy.mixture
        spacing = {1: 1 / 4, 2: 1 / 8, "track": 1 / 32}[shown]
        assert abs(mixture[0] / spacing - round(mixture[0] / spacing)) < 1e-9, (policy.t, shown, mixture)
        if shown == "track":
            break
    assert policy.phase == "track"


@pytest.mark.parametrize("name", ALL)
def test_repr_shows_the_kind_the_options_and_where_it_stands(name: str) -> None:
    policy = make(name)
    play(policy, 20)
    text = repr(policy)
    assert text.startswith(f"{name}(GiniDeviation()")
    assert "t=20" in text
    assert "mixture=[" in text
    for option, value in ALL[name].items():
        assert f"{option}={value!r}" in text
    recipe = getattr(pmb, name)(**ALL[name])
    assert repr(recipe).startswith(f"{name}(")
    assert "; t=" not in repr(recipe)


def test_repr_of_a_policy_without_options_has_no_empty_brackets() -> None:
    assert "(), ;" not in repr(pmb.Uniform(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary()))


# ---- ties and determinism --------------------------------------------------------------------------------
def test_uniform_plays_every_arm_once_in_k_rounds_in_an_order_of_its_seed() -> None:
    policies = [make("Uniform", n_arms=4, seed=seed) for seed in range(6)]
    asked = [p.ask(40).reshape(10, 4) for p in policies]
    for rounds in asked:
        assert (np.sort(rounds, axis=1) == np.arange(4)).all()
    assert len({tuple(rounds.ravel().tolist()) for rounds in asked}) == 6


def test_a_solitary_arm_is_played_by_name() -> None:
    policy = pmb.SolitaryArm(GINI, names=["x", "y"], support=pmb.Binary(), arm="y")
    assert policy.ask(5).tolist() == [1] * 5
    assert policy.mixture.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", ["PMUCB", "CEUCB", "CIRT", "FixedGrid", "PMETC"])
def test_the_mixture_stays_uniform_until_every_arm_has_paid(name: str) -> None:
    policy = make(name, n_arms=3, epsilon=0.2)
    if name == "PMETC":
        assert policy.mixture.sum() == pytest.approx(1.0)
        return
    assert policy.mixture.tolist() == [1 / 3] * 3
    policy.tell([0, 2], [1.0, 0.0])
    assert policy.mixture.tolist() == [1 / 3] * 3
    policy.tell(1, 1.0)
    assert policy.mixture.tolist() != [1 / 3] * 3


@pytest.mark.parametrize(
    "support",
    [pmb.Binary(), pmb.Finite([0, 0.5, 1]), UNIT, pmb.Real(1.0), pmb.Heavy(2.0, 3.0)],
    ids=lambda s: repr(s)[:6],
)
@pytest.mark.parametrize("options", [{}, {"estimates": "binned:64"}, {"estimates": "window:40"}, {"detect": "warn"}])
def test_arrays_are_told_as_lists_are(support: Any, options: Any) -> None:
    if "estimates" in options and not np.isfinite(support.width):
        options = {}
    rng = np.random.default_rng(4)
    quick, slow = (pmb.Track("mean", n_arms=3, support=support, **options) for _ in range(2))
    for size in (0, 1, 100, 3, 400):
        arms, rewards = rng.integers(3, size=size), (rng.random(size) < 0.4).astype(float)
        quick.tell(arms, rewards)
        slow.tell(arms.tolist(), rewards.tolist())
        assert quick.ask() == slow.ask()
    assert np.array_equal(quick._memory.sums, slow._memory.sums) and quick._memory.rewards == slow._memory.rewards
    assert [arm.n for arm in quick.estimates] == [arm.n for arm in slow.estimates]
    assert np.array_equal(quick.mixture, slow.mixture)


@pytest.mark.parametrize(
    ("arms", "rewards", "error"),
    [
        ([0, 1, 2], [0.0, 1.0, 0.5], ValueError),
        ([0, 1, 3], [0.0, 1.0, 1.0], IndexError),
        ([0, -1, 1], [0.0, 1.0, 1.0], IndexError),
        ([0, 1, 1], [0.0, 1.0, np.nan], ValueError),
        ([0, 1, 1], [0.0, 1.0], ValueError),
    ],
)
def test_of_arrays_with_something_wrong_nothing_counts(arms: Any, rewards: Any, error: type[Exception]) -> None:
    policy = pmb.Track("mean", n_arms=3, support=pmb.Binary())
    before = policy._memory.words.copy()
    with pytest.raises(error):
        policy.tell(np.array(arms), np.array(rewards))
    assert np.array_equal(before, policy._memory.words)


def test_arrays_are_told_to_paused_arms_and_when_not_in_one_piece() -> None:
    policy = pmb.Track("mean", names=["A", "B", "C"], support=pmb.Binary())
    policy.tell(np.array([0, 1, 2, 0])[::2], np.array([[1.0, 0.0], [1.0, 1.0]])[:, 0])
    policy.tell(np.array([0, 1], dtype=np.int32), np.array([True, False]))
    policy.pause("B")
    policy.tell(np.array([1, 1, 0]), np.array([1.0, 1.0, 0.0]))
    assert [arm.n for arm in policy.estimates] == [3, 3, 1]
