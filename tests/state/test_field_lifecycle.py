"""What is declared to become of a field (``state/fields.py``) is what becomes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats as laws

import pmbandits as pmb
from pmbandits.estimates._rewards import STALE
from pmbandits.simulation.trial import Player
from pmbandits.state.fields import Field
from pmbandits.state.memory import Memory
from tests.helpers import same_outcome

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0.0, 1.0)
THREE = pmb.Finite([0.0, 0.5, 1.0])
RECIPES: dict[str, tuple[pmb.Policy, pmb.Support]] = {
    "cirt-binary": (pmb.CIRT(GINI, epsilon=0.2, delta=0.5), pmb.Binary()),
    "cirt-interval": (pmb.CIRT(GINI, epsilon=0.3, delta=0.5), UNIT),
    "cirt-sketch": (pmb.CIRT(GINI, epsilon=0.3, estimates="sketch:16"), UNIT),
    "cirt-continuous": (pmb.CIRT(GINI, search="continuous"), UNIT),
    "pmucb-finite": (pmb.PMUCB(GINI, horizon=2000, epsilon=0.25, rho=0.02), THREE),
    "pmucb-chords": (pmb.PMUCB(pmb.WangRightTail(), horizon=2000, epsilon=0.25, rho=0.02), UNIT),
    "ceucb-binned": (pmb.CEUCB(GINI, horizon=2000, epsilon=0.25, rho=0.02, estimates="binned:32"), UNIT),
    "pmetc-interval": (pmb.PMETC(GINI, horizon=2000, epsilon=0.25, n_explore=100), UNIT),
    "fixed-grid-binary": (pmb.FixedGrid(GINI, epsilon=0.3), pmb.Binary()),
    "track-interval": (pmb.Track(GINI), UNIT),
    "track-neither": (pmb.Track(pmb.InvertedS(0.5)), UNIT),
    "thompson-binary": (pmb.Thompson(), pmb.Binary()),
    "b-cvts-interval": (pmb.BCVTS(pmb.LowerCVaR(0.3)), UNIT),
    "ucfw-interval": (pmb.UCFW(GINI, tolerance=0.05), UNIT),
    "mixture-ucb-cab-finite": (pmb.MixtureUCB(GINI, form="cab"), THREE),
    "solitary-finite": (pmb.SolitaryUCB(GINI, horizon=2000), THREE),
}
BANDITS = {
    "binary": pmb.Bandit.bernoulli([0.3, 0.6, 0.9]),
    "finite": pmb.Bandit.from_samples({"a": [0, 0, 0.5, 1], "b": [0.5, 1], "c": [0, 1]}),
    "interval": pmb.Bandit([laws.beta(2, 5), laws.beta(3, 3), laws.beta(5, 2)]),
}
every_recipe = pytest.mark.parametrize("name", RECIPES)


def bandit_of(name: str) -> pmb.Bandit:
    support = RECIPES[name][1]
    return BANDITS["binary" if support == pmb.Binary() else "finite" if support == THREE else "interval"]


def make(name: str, seed: int = 0) -> pmb.Policy:
    recipe, support = RECIPES[name]
    assert recipe.metric is not None
    return recipe.bind(recipe.metric, 3, support, seed=seed)


def reward(policy: pmb.Policy, rng: np.random.Generator, arm: int) -> float:
    x = float(rng.beta(2 + arm, 3))
    return float(x > 0.5) if policy.support == pmb.Binary() else round(2 * x) / 2 if policy.support == THREE else x


def played(name: str, rounds: int = 400, seed: int = 0) -> pmb.Policy:
    policy, rng = make(name), np.random.default_rng(seed)
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, reward(policy, rng, arm))
    policy.ask(3)
    return policy


def scramble(memory: Memory, fields: list[Field], rng: np.random.Generator) -> None:
    """Numbers that no field has by itself."""
    for field in fields:
        part = memory.field(field.name)
        part[...] = rng.integers(3, 1000, part.shape) + (0.25 if field.type is float else 0)


def those(memory: Memory, *words: str, but: tuple[str, ...] = ()) -> list[Field]:
    return [field for field in memory.fields if field.lifecycle & set(words) and field.name not in but]


# ---- saved and fixed -------------------------------------------------------------------------------------
@every_recipe
@pytest.mark.parametrize("rounds", [0, 1, 7, 400])
def test_saved_fields_come_back(name: str, rounds: int, tmp_path: Path) -> None:
    policy = played(name, rounds)
    sketched = policy._memory.sketch_size > 0
    policy.save(tmp_path / "policy.pmb")
    before, after = policy._memory, pmb.load(tmp_path / "policy.pmb")._memory
    for field in those(before, "saved"):
        one, two = before.field(field.name), after.field(field.name)
        if field.name in ("x", "pool_arm"):
            one, two = one[: before.rewards], two[: before.rewards]
        if sketched and field.name in ("x", "pool_arm", "n_sorted", "n_pooled"):
            continue
        np.testing.assert_array_equal(two, one, err_msg=field.name)
    if sketched:  # the pool is laid out anew from the sketches
        assert after.n_sorted == STALE
    assert after.own == before.own


@every_recipe
def test_saved_fields_that_cannot_be_are_refused(name: str, tmp_path: Path) -> None:
    """Each field in turn gets numbers of another kind; those that fit by chance are what they were."""
    policy = played(name)
    fields = [field for field in those(policy._memory, "saved") if policy._memory.field(field.name).size]
    fields = [field for field in fields if field.name not in policy._memory.own]  # numbers without a range of their own
    free = {
        "rng_counter",
        "n_pooled",
        "next_update_at",
        "next_multistart_at",
        "slope",
        "slope_variance",
        "sketch_items",
        "dirty",
        "n_grid_used",
        "tail_multipliers",
    }
    for field in fields:
        memory = policy._memory.copy()
        part = memory.field(field.name)[..., :1] if field.name in ("x", "pool_arm") else memory.field(field.name)
        part[...] = -3 if field.type is int else np.nan
        if field.name == "n_pooled" or (memory.sketch_size > 0 and field.name in ("x", "pool_arm", "n_sorted")):
            continue  # the pool is laid out anew
        twin = policy._clone()
        twin._memory = memory
        twin.save(tmp_path / "policy.pmb")
        if field.name in ("n_grid_used", "grid", "grid_steps", "kept_mixture", "phase_ends") and policy.name != "cirt":
            assert (
                pmb.load(tmp_path / "policy.pmb")._memory.field(field.name) == policy._memory.field(field.name)
            ).all()
            continue  # it is not read
        with pytest.raises(ValueError, match="nothing was loaded"):
            pmb.load(tmp_path / "policy.pmb")
        if field.name in free:
            continue
        memory = policy._memory.copy()
        memory.field(field.name)[...] = 2**53 if field.type is int else 1e300
        twin._memory = memory
        twin.save(tmp_path / "policy.pmb")
        with pytest.raises(ValueError, match=r"nothing was loaded|memory"):
            pmb.load(tmp_path / "policy.pmb")


@every_recipe
def test_fixed_fields_are_made_anew_when_a_file_is_loaded(name: str, tmp_path: Path) -> None:
    policy = played(name)
    policy.save(tmp_path / "policy.pmb")
    before, after = policy._memory, pmb.load(tmp_path / "policy.pmb")._memory
    for field in those(
        policy._memory, "fixed", but=("max_rewards", "max_arm_rewards")
    ):  # these two follow from the sizes
        one, two = before.field(field.name), after.field(field.name)
        n = min(one.size, two.size) if field.name == "radii" else one.size
        np.testing.assert_array_equal(two[:n], one[:n], err_msg=field.name)
    for memory in (before, after):
        exact = memory.storage_mode == 2 and memory.sketch_size == 0
        assert memory.max_rewards == (memory.reward_capacity if exact else 1 << 62)
        assert memory.max_arm_rewards == (
            memory.n_radii - 1 if memory.n_radii and memory.coarse_radii == 0 else 1 << 62
        )


# ---- added and cleared -----------------------------------------------------------------------------------
@every_recipe
def test_a_merge_adds_clears_and_leaves_alone_what_the_table_says(name: str) -> None:
    ours, theirs = played(name), played(name, 250, seed=1)
    scramble(ours._memory, those(ours._memory, "cleared"), np.random.default_rng(1))
    before, other = ours._memory.copy(), theirs._memory.copy()
    ours.merge(theirs)
    after = ours._memory
    assert theirs._memory.words.tolist() == other.words.tolist()
    worked_out = {"sums_of_squares", "max_abs_reward", "dirty", "x", "pool_arm", "n_sorted", "n_pooled", "pool_weight"}
    worked_out |= {"sketch_header", "sketch_stats", "sketch_items", "max_rewards", "max_arm_rewards", "radii"}
    for field in after.fields:
        now, mine, his = (memory.field(field.name) for memory in (after, before, other))
        if "added" in field.lifecycle:
            np.testing.assert_array_equal(now, mine + his, err_msg=field.name)
        elif "cleared" in field.lifecycle:
            assert not now.any(), field.name
            assert mine.all(), field.name
        elif "scratch" not in field.lifecycle and field.name not in worked_out:
            np.testing.assert_array_equal(now, mine, err_msg=field.name)
    assert after.own == before.own
    assert after.dirty == 1


# ---- what is set back between trials ---------------------------------------------------------------------
@every_recipe
def test_a_trial_is_the_same_alone_and_after_others(name: str) -> None:
    checkpoints = np.array([1, 50, 333, 700])
    alone, after = (Player(make(name), bandit_of(name), 3, checkpoints) for _ in range(2))
    for trial in range(5):
        after.play(trial)
    same_outcome(alone.play(5), after.play(5), name)
    one = after.policy._memory.copy()
    after.play(3)
    after.play(5)
    two = after.policy._memory
    assert one.sizes == two.sizes
    for field in one.fields:
        if not field.lifecycle & {"fixed", "scratch"}:
            np.testing.assert_array_equal(one.field(field.name), two.field(field.name), err_msg=field.name)
    assert one.own == two.own


@every_recipe
def test_nothing_that_a_trial_leaves_behind_reaches_the_next(name: str) -> None:
    """Whatever is neither fixed nor working space holds nonsense before the trial begins; so does working space."""
    player = Player(make(name), bandit_of(name), 3, np.array([1, 50, 333, 700]))
    first = player.play(2)
    memory = player.policy._memory
    scramble(memory, [field for field in memory.fields if "fixed" not in field.lifecycle], np.random.default_rng(1))
    for own in memory.own:
        setattr(memory, own, 77)
    same_outcome(first, player.play(2), name)


# ---- scratch and arranged --------------------------------------------------------------------------------
@every_recipe
def test_working_space_means_nothing_between_calls(name: str) -> None:
    plain, spoiled = make(name), make(name)
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    for t in range(300):
        scramble(spoiled._memory, those(spoiled._memory, "scratch"), noise)
        arm = plain.ask()
        assert spoiled.ask() == arm, t
        scramble(spoiled._memory, those(spoiled._memory, "scratch"), noise)
        x = reward(plain, rng, arm)
        plain.tell(arm, x)
        spoiled.tell(arm, x)
    scramble(spoiled._memory, those(spoiled._memory, "scratch"), noise)
    np.testing.assert_array_equal(plain.mixture, spoiled.mixture)
    if plain.confidence is not None:
        assert plain.utility_bounds() == spoiled.utility_bounds()


@every_recipe
def test_looks_at_the_mixture_may_arrange_the_pool_but_change_no_decision(name: str) -> None:
    often, seldom = (
        Player(make(name), bandit_of(name), 3, np.array(checkpoints)).play(1) for checkpoints in (range(1, 501), [500])
    )
    assert often.pulls[-1].tolist() == seldom.pulls[-1].tolist()
    assert often.mixture[-1].tolist() == seldom.mixture[-1].tolist()
    assert often.ends.tolist() == seldom.ends.tolist()
