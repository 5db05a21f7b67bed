"""Limits on shares in policies: targets against cvxpy and the oracle, files, availability, and what is refused."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmbandits as pmb
from pmbandits.constraints import limits
from pmbandits.engine.share_constraints import project_grid, single_arm_bounds, worst_case_excess
from tests.helpers import one_sentence
from tests.reference import convex

NAMES = ["A", "B", "C", "D"]
BOX = "A >= 10%; C <= 0.3; D >= 0.2"
GROUP = "B + C <= 0.3; A == 2 * D"
SUPPORTS = {
    "binary": (pmb.Binary(), lambda arm, rng: float(rng.random() < (0.2, 0.5, 0.9, 0.7)[arm])),
    "finite": (pmb.Finite((0.0, 0.5, 1.0, 2.0)), lambda arm, rng: rng.choice((0.0, 0.5, 1.0, 2.0), p=_LAWS[arm])),
    "interval": (pmb.Interval(0.0, 1.0), lambda arm, rng: rng.beta(1 + arm, 3 - 0.5 * arm)),
}
_LAWS = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.4, 0.1], [0.05, 0.05, 0.1, 0.8], [0.5, 0.0, 0.0, 0.5])


def data_of(support: str, n: int, seed: int = 0) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    return {name: [float(SUPPORTS[support][1](arm, rng)) for _ in range(n)] for arm, name in enumerate(NAMES)}


def told(recipe: pmb.Policy, metric: Any, support: str, data: dict[str, list[float]]) -> pmb.Policy:
    policy = recipe.bind(metric, 4, SUPPORTS[support][0], names=NAMES)
    for name, rewards in data.items():
        policy.tell(name, rewards)
    return policy


def excess(policy: pmb.Policy) -> np.ndarray:
    """By how many pulls each limit is exceeded now."""
    assert policy.limits is not None
    polytope = policy.limits.polytope
    over = polytope.matrix @ policy.pulls - policy.t * polytope.bound
    return np.where(polytope.equal, np.abs(over), over)


# ---- targets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [BOX, GROUP])
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("recipe", [pmb.Track, pmb.Vet])
def test_the_mixture_is_the_best_of_those_that_keep_the_limits_by_cvxpy(recipe: Any, support: str, shares: str) -> None:
    data = data_of(support, 60)
    found = limits(shares, NAMES)
    rules = [(row, "==" if e else "<=", b) for row, b, e in zip(found.matrix, found.bound, found.equal, strict=True)]
    points, above = convex.survival([(np.array(x), np.full(len(x), 1 / len(x))) for x in data.values()])
    for metric, h in ((pmb.GiniDeviation(), convex.gini()), (pmb.UpperCVaR(0.7), convex.upper_cvar(0.7))):
        policy = told(recipe(shares=shares), metric, support, data)
        assert policy.limits is not None and policy.limits.keeps(policy.mixture)
        best = convex.best_mixture(h, points, above, rules)[1]
        got = convex.utility(h, points, above, policy.mixture)
        tolerance = 0.01 * (points[-1] - points[0]) / math.sqrt(240) + 0.1 * (points[-1] - points[0]) / 240
        assert best - tolerance <= got <= best + 1e-7
        free = convex.best_mixture(h, points, above)[1]
        assert got < free + 1e-7


@pytest.mark.parametrize("shares", [BOX, GROUP])
@pytest.mark.parametrize("metric", [pmb.LowerCVaR(0.3), pmb.InterQuantileRange(0.2), pmb.Mean()], ids=repr)
def test_the_mixture_of_other_metrics_is_as_good_as_the_oracles(metric: pmb.Distortion, shares: str) -> None:
    for support in ("binary", "interval"):
        data = data_of(support, 60, seed=1)
        arms = pmb.Bandit.from_samples(data)
        best = pmb.oracle(metric, arms, shares=shares)
        for recipe in (pmb.Track(shares=shares), pmb.Vet(shares=shares)):
            policy = told(recipe, metric, support, data)
            assert policy.limits is not None and policy.limits.keeps(policy.mixture)
            got = pmb.utility(metric, arms, policy.mixture)
            assert got <= best.value + max(best.gap, 0.0) + 1e-9 if math.isfinite(best.gap) else True
            assert got >= best.value - 0.02 * (1.0 if metric.shape == "neither" else 0.1)


def test_a_grid_within_limits_covers_what_keeps_them() -> None:
    grid = np.array([[a / 10, b / 10, (10 - a - b) / 10] for a in range(11) for b in range(11 - a)])
    rng = np.random.default_rng(0)
    for text in ("A >= 0.13; B <= 0.41", "A == 2 * B", "A + B <= 0.31; C <= 0.72", "A == 0.237"):
        found = limits(text, "ABC")
        points = project_grid(found, grid)
        assert all(found.keeps(point) for point in points)
        corners = found.polytope.corners(100)
        assert corners is not None
        for _ in range(200):
            inside = rng.dirichlet(np.ones(len(corners))) @ corners
            before = np.linalg.norm(grid - inside, axis=1).min()
            assert np.linalg.norm(points - inside, axis=1).min() <= before + 1e-6
        kept = [g for g in grid if found.keeps(g)]
        assert all(np.abs(points - g).max(axis=1).min() < 1e-12 for g in kept)


# ---- at all times ------------------------------------------------------------------------------------------

RECIPES: list[pmb.Policy] = [
    pmb.Track(),
    pmb.Vet(),
    pmb.PMETC(horizon=400, epsilon=0.2),
    pmb.PMUCB(horizon=400, epsilon=0.25),
    pmb.UCFW(bonus="variance"),
    pmb.UCB1(),
    pmb.Uniform(),
]


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_limits_are_kept_with_late_rewards_in_batches(data: st.DataObject) -> None:
    """And when some arms are not available, except for the rounds in which these could not keep them."""
    recipe = data.draw(st.sampled_from(RECIPES))
    shares = data.draw(st.sampled_from([BOX, GROUP, "A >= 30%; B >= 30%; C >= 20%", "A + B >= 0.5; C <= 0.2"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    some = data.draw(st.booleans())
    policy = type(recipe)("gini", names=NAMES, support=pmb.Binary(), **{**recipe.options, "shares": shares})
    assert policy.limits is not None
    promise = worst_case_excess(policy.limits)
    late: list[int] = []
    forced = 0
    for _ in range(60):
        if some and rng.random() < 0.1:
            among = sorted(rng.choice(4, size=int(rng.integers(1, 4)), replace=False).tolist())
            arm = policy.ask(among=among)
            assert arm in among
            late.append(arm)
            forced += 1
        else:
            late += policy.ask(int(rng.integers(1, 6))).tolist()
        assert (excess(policy) <= promise + forced + 1e-6).all()
        rng.shuffle(late)
        back = late[: len(late) // 2]
        late = late[len(back) :]
        policy.tell(back, [float(rng.random() < 0.5) for _ in back])
    for _ in range(200 if some else 0):  # what was owed is paid back
        policy.ask()
    if single_arm_bounds(policy.limits) is not None:
        assert (excess(policy) <= 1.0 + 1e-6).all()


def test_with_floors_that_bind_exploration_still_happens() -> None:
    policy = pmb.Track("gini", names=NAMES, support=pmb.Binary(), shares="A == 60%; B + C <= 5%")
    rng = np.random.default_rng(0)
    for _ in range(4000):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.2, 0.5, 0.9, 0.7)[arm]))
    assert policy.pulls.min() >= 20  # about √(t/K) of those that the mixture has no use for
    assert (excess(policy) <= 1.0 + 1e-6).all()


# ---- certainty -----------------------------------------------------------------------------------------------


def test_certainty_is_about_mixtures_within_the_limits() -> None:
    for support, metric, shares in (
        ("binary", "gini", "C <= 5%; D <= 5%"),
        ("interval", "gini", BOX),
        ("interval", "gini", GROUP),
        ("finite", "lower_cvar(0.3)", BOX),
        ("finite", "lower_cvar(0.3)", GROUP),
    ):
        data = data_of(support, 400, seed=2)
        free, bound = told(pmb.Track(), metric, support, data), told(pmb.Track(shares=shares), metric, support, data)
        best = pmb.oracle(metric, pmb.Bandit.from_samples(data), shares=shares)
        sure = bound.certainty()
        assert sure.rival >= best.value - 1e-9  # the empirical laws are in their sets
        assert sure.rival <= free.certainty(bound.mixture).rival + 1e-3  # to a hundredth of what chance does
        assert sure.lower <= best.value and sure.regret >= 0.0


@pytest.mark.slow
def test_certified_regret_within_limits_is_at_least_the_true_one() -> None:
    """95 % promised at once for all times; looked at four times in each of 200 experiments."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        means = rng.uniform(0.05, 0.95, 4)
        shares = (BOX, GROUP)[seed % 2]
        best = pmb.oracle("gini", pmb.Bandit.bernoulli(means, NAMES), shares=shares).value
        policy = pmb.Track("gini", names=NAMES, support=pmb.Binary(), shares=shares)
        bad = False
        for _ in range(4):
            arms = policy.ask(200)
            policy.tell(arms, (rng.random(200) < means[arms]).astype(float))
            mean = float(policy.mixture @ means)
            bad |= best - mean * (1.0 - mean) > policy.certainty().regret + 1e-12
        wrong += bad
    assert wrong <= 10


# ---- only some arms --------------------------------------------------------------------------------------------


def test_arms_that_were_not_available_are_paid_back() -> None:
    policy, free = (pmb.Track("gini", names=NAMES, support=pmb.Binary()) for _ in range(2))
    for p in (policy, free):
        p.tell([0, 1, 2, 3] * 100, ([0, 0, 1, 1] * 50 + [0, 1, 1, 0] * 50))
    assert set(policy.ask(300, among=["A", 1]).tolist()) <= {0, 1}
    policy.ask(3000)
    free.ask(3300)
    assert np.abs(policy.pulls - free.pulls).max() <= 3


def test_among_is_checked_and_changes_nothing() -> None:
    policy = pmb.Track("gini", names=NAMES, support=pmb.Binary())
    policy.ask(5)
    for bad in ([], ["Z"], [7], "A", 3, [-1], [True]):
        with pytest.raises((ValueError, TypeError, IndexError)) as error:
            policy.ask(among=bad)  # type: ignore[arg-type]
        one_sentence(error.value)
    assert policy.t == 5
    assert policy.ask(2, among={"A", "B"}).size == 2 and policy.ask(among=np.array([3])) == 3  # type: ignore[arg-type]
    assert policy._memory.constraint_kind == 0


def test_threads_ask_among_their_own_arms() -> None:
    policy = pmb.Track("gini", names=NAMES, support=pmb.Binary(), shares=BOX)
    wrong: list[int] = []

    def work(arms: list[int] | None) -> None:
        for _ in range(300):
            arm = policy.ask(among=arms)
            if arms is not None and arm not in arms:
                wrong.append(arm)

    threads = [threading.Thread(target=work, args=(arms,)) for arms in ([0, 1], [2, 3], [0, 3], None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and policy.t == 1200 and policy.pulls.sum() == 1200


# ---- files, recipes, words -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [BOX, GROUP])
@pytest.mark.parametrize("recipe", [pmb.Track(), pmb.Vet(), pmb.PMUCB(horizon=2000, epsilon=0.2)], ids=repr)
def test_a_saved_policy_goes_on_as_if_nothing_had_happened(recipe: pmb.Policy, shares: str, tmp_path: Path) -> None:
    policy = type(recipe)("gini", names=NAMES, support=pmb.Binary(), **{**recipe.options, "shares": shares})
    rng = np.random.default_rng(3)
    for _ in range(150):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < 0.5))
    policy.save(tmp_path / "p.pmb")
    again = pmb.load(tmp_path / "p.pmb")
    assert again.limits == policy.limits and str(again.limits) == shares
    for _ in range(150):
        arm = policy.ask()
        assert again.ask() == arm
        reward = float(rng.random() < 0.5)
        policy.tell(arm, reward)
        again.tell(arm, reward)
    other = type(recipe)("gini", names=NAMES, support=pmb.Binary(), **{**recipe.options, "shares": shares})
    other.ask(100)
    policy.merge(other)
    policy.ask(200)
    assert (excess(policy) <= 1.0 + 1e-6).all()


def test_a_recipe_reads_its_limits_when_it_is_bound() -> None:
    recipe = pmb.Track(shares={"A": (0.1, None), ("B", "C"): (None, 0.3)}, cost={"D": 2.0}, budget=1.0)
    assert recipe.limits is None and "shares" in repr(recipe)
    policy = recipe.bind("gini", 4, pmb.Binary(), names=NAMES)
    assert str(policy.limits) == "A >= 0.1; B + C <= 0.3; 2 * D <= 1"
    assert policy.options["shares"] == str(policy.limits) and "cost" not in policy.options
    assert "A >= 0.1" in repr(policy)
    assert "limits" in policy.explain()
    assert pmb.Track("gini", n_arms=2, support=pmb.Binary(), shares="arm 0 >= 10%").limits is not None
    assert pmb.Track("gini", n_arms=2, support=pmb.Binary(), shares="arm 0 <= 1").limits is None  # says nothing
    with pytest.raises(ValueError, match="unknown arm"):
        recipe.bind("gini", 4, pmb.Binary())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": "A >= 60%; B >= 60%"}, "add up to 1.2"),
        ({"shares": "Z >= 10%"}, "unknown arm"),
        ({"shares": 0.3}, "text like"),
        ({"shares": "A == 0"}, "plays A"),
        ({"shares": "B + C + D >= 100%"}, "plays A"),
        ({"cost": {"A": 1.0}}, "both"),
        ({"budget": 1.0}, "both"),
        ({"cost": {"A": 3.0, "B": 3.0, "C": 3.0, "D": 3.0}, "budget": 1.0}, "no mixture"),
        ({"cost": [1.0], "budget": 1.0}, "dictionary"),
        ({"cost": {"A": 1.0}, "budget": "much"}, "budget"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        pmb.Track("gini", names=NAMES, support=pmb.Binary(), **options)
    assert words in one_sentence(error.value)


# ---- limits that change ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", [pmb.Track(), pmb.Vet(), pmb.PMUCB(horizon=3000, epsilon=0.2)], ids=repr)
def test_limits_can_change_while_a_policy_runs(recipe: pmb.Policy, tmp_path: Path) -> None:
    policy = type(recipe)("gini", names=NAMES, support=pmb.Binary(), **recipe.options)
    rng = np.random.default_rng(5)

    def play(rounds: int) -> None:
        """Play, and see that limits are kept from the moment on in which they were set."""
        before, t = policy.pulls, policy.t
        for _ in range(rounds):
            arm = policy.ask()
            policy.tell(arm, float(rng.random() < (0.2, 0.5, 0.9, 0.7)[arm]))
            if policy.limits is not None:
                polytope = policy.limits.polytope
                over = polytope.matrix @ (policy.pulls - before) - (policy.t - t) * polytope.bound
                assert (
                    np.where(polytope.equal, np.abs(over), over).max() <= worst_case_excess(policy.limits).max() + 1e-6
                )

    play(200)
    known = [arm.n for arm in policy.estimates]
    for shares in (BOX, GROUP, "A == 50%", None):
        policy.limit(shares)
        assert (None if policy.limits is None else str(policy.limits)) == shares
        assert [arm.n for arm in policy.estimates] == known and policy.t == sum(known)
        assert policy.limits is None or policy.limits.keeps(policy.mixture)
        play(150)
        known = [arm.n for arm in policy.estimates]
        policy.save(tmp_path / "p.pmb")
        again = pmb.load(tmp_path / "p.pmb")
        assert again.limits == policy.limits
        assert again.ask(50).tolist() == policy._clone().ask(50).tolist()
    assert policy.t == 800 and "shares" not in policy.options
    policy.limit(cost={"A": 2.0}, budget=1.0)
    assert str(policy.limits) == "2 * A <= 1"


def test_limits_that_cannot_be_kept_change_nothing() -> None:
    policy = pmb.Track("gini", names=NAMES, support=pmb.Binary(), shares=BOX)
    policy.ask(100)
    policy.pause("B")
    before = policy.pulls
    for bad in ("A >= 60%; C >= 60%", "Z >= 10%", 7, "A == 0", "A + C + D <= 0.5"):
        with pytest.raises((ValueError, TypeError)) as error:
            policy.limit(bad)
        one_sentence(error.value)
        assert str(policy.limits) == BOX and (policy.pulls == before).all()
    with pytest.raises(ValueError, match="both"):
        policy.limit(budget=1.0)
    policy.limit("B >= 50%; A >= 20%")  # that of B is suspended while it is paused
    policy.ask(100)
    assert policy.pulls[1] == before[1]
    policy.tell("B", 1.0)  # an arm that comes takes part, and its floor with it, from its first reward on
    policy.resume("B")
    policy.ask(100)
    assert policy.pulls[1] - before[1] >= 49


def test_policies_that_search_in_boxes_say_which_limits_they_cannot_keep() -> None:
    for make in (
        lambda: pmb.CIRT("gini", names=NAMES, support=pmb.Binary(), shares=GROUP),
        lambda: pmb.CIRT("gini", names=NAMES, support=pmb.Binary(), shares=BOX, search="grid"),
        lambda: pmb.PMUCB("gini", names=NAMES, support=pmb.Binary(), horizon=99, shares=GROUP, search="continuous"),
    ):
        with pytest.raises(ValueError) as error:
            make()
        assert "Track" in one_sentence(error.value)
    policy = pmb.CIRT("gini", names=NAMES, support=pmb.Binary(), shares=BOX)
    policy.ask(50)
    assert (excess(policy) <= 1.0 + 1e-6).all()


# ---- segments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "most"),
    [
        ("new: A >= 10%", 1.0),
        ("new: A >= 60%; old: B <= 5%", 1.0),
        ("new: A == 45%; old: A + B <= 20%", 1.0),
        ("A <= 10%", 1.0),
        ("A >= 60%", 1.0),
        ("A <= 20%; old: A >= 30%", 3.0),
        ({"new": {"A": (0.6, None)}, "B": (0.5, None)}, 3.0),
    ],
)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), chance=st.floats(0.2, 0.8))
def test_limits_within_segments_and_over_everybody_are_kept(shares: Any, most: float, seed: int, chance: float) -> None:
    if most > 1.0:
        chance = 0.5 + 0.2 * (chance - 0.5)  # both together can be kept only if neither segment is rare
    policy = pmb.Uniform(
        "gini", names=["A", "B", "C"], support=pmb.Binary(), segments=["new", "old"], shares=shares, seed=seed
    )
    rng, found = np.random.default_rng(seed), policy.limits
    assert found is not None
    for t in range(1, 301):
        policy.ask(segment=policy.segments[int(rng.random() < chance)])
        over = found.polytope.matrix @ policy._memory.pulls - t * found.polytope.bound
        if t > 50 or most == 1.0:  # who comes first is chance
            assert np.where(found.equal, np.abs(over), over).max() <= most + 1e-6


def test_limits_of_segments_are_suspended_and_stay_with_their_arms() -> None:
    policy = pmb.Uniform(
        "gini", names=["A", "B"], support=pmb.Binary(), segments=["new", "old"], shares="new: A >= 60%; A <= 70%"
    )
    policy.pause("A", segment="new")
    assert policy.limits is not None and policy.limits.texts == ("A <= 70%",)
    policy.resume("A")
    policy.add_segment("staff")
    policy.add_arm("C", segments=["staff"])
    for name in policy.segments:
        policy.tell(policy._segments.to_dict()[name], [1.0] * len(policy._segments.to_dict()[name]), segment=name)
    pulls = np.zeros(2)
    for _ in range(300):
        arm = policy.ask(segment="staff")
        pulls += arm == 0, 1
        assert pulls[0] <= 0.7 * pulls[1] + 3.0  # everybody: the new segment counts, too
    assert str(policy._all_limits) == "new: A >= 60%; A <= 70%"
    with pytest.raises(ValueError, match="new"):
        policy.limit("new: A <= 0")
    policy.limit("old: B >= 90%")
    assert policy.limits is not None and policy.limits.texts == ("old: B >= 90%",)
