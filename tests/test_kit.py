"""The kit for authors: its guide uses public names only, and a policy made of it is saved with its own numbers."""

from __future__ import annotations

import ast
import io
import math
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits import kit
from pmbandits.engine.registry import REGISTRY
from pmbandits.kit import (
    Policy,
    Setup,
    cdf_of,
    kernel,
    largest,
    per_arm,
    per_pair,
    pull,
    random_beta,
    random_gamma,
    random_normal,
    rewards_of,
    state,
    utility_interval,
)
from pmbandits.testing import PolicyContract
from tests.helpers import one_sentence

DOCS = Path(__file__).parent.parent / "docs"
GUIDE = (DOCS / "howto" / "custom-policy.md").read_text(encoding="utf-8")

unpack = state(left=int)


@kernel
def choose(memory: int) -> int:
    """Three pulls of arm 0, then three of arm 1, if it plays; the policy counts down in a number of its own."""
    s = unpack(memory)
    s.own.left -= 1
    if s.own.left == 0:
        s.own.left = 6
    return pull(s, 0 if s.own.left > 3 or s.n_arms == 1 else 1)


@kernel
def update(memory: int) -> None:
    """The mixture stays even."""
    s = unpack(memory)
    s.dirty = 0


class InThrees(Policy, name="in_threes", choose=choose, update=update, unpack=unpack):
    """Each arm three times in turn."""

    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(numbers={"left": 6})


class TestInThrees(PolicyContract):
    """Among others: a number of the policy's own that has a first value, and changes, is saved."""

    def make(self, seed: int = 0) -> Policy:
        return InThrees("gini", n_arms=2, support=pmb.Binary(), seed=seed)


def test_without_a_grid_there_is_room_for_one_number_of_each_arm() -> None:
    policy = InThrees("gini", n_arms=3, support=pmb.Binary())
    assert policy._memory.index.size == policy._memory.value.size == 3


def test_the_guide_imports_nothing_private() -> None:
    allowed = {"math", "scipy.stats", "pmbandits", "pmbandits.kit", "pmbandits.testing"}
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom):
                assert node.module in allowed
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            assert not name.startswith("_"), name
    assert "numba" not in GUIDE.lower()


def test_every_name_of_the_kit_is_in_its_reference() -> None:
    text = (DOCS / "reference" / "kit.md").read_text(encoding="utf-8")
    elsewhere = {"Policy", "unpack"}  # under policies, and described in words
    assert [n for n in kit.__all__ if f":: pmbandits.kit.{n}\n" not in text and n not in elsewhere] == []


def test_a_number_that_was_not_declared_is_refused_with_the_way_out() -> None:
    class Forgetful(Policy, name="forgetful_of_test_kit", choose=choose_first, update=leave_as_it_is):
        def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
            return Setup(numbers={"boost": 2.0})

    with pytest.raises(ValueError, match=r"number 'boost' .* unpack = state\(boost=float\)"):
        Forgetful(pmb.Mean(), n_arms=2, support=pmb.Binary())


def test_two_policies_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="'track' already"):

        class Another(Policy, name="track", choose=choose_first, update=leave_as_it_is):
            pass


# ---- state of one's own, random numbers, rewards and sets --------------------------------------------------------
# Names that the library's own state has, too; arrays for each arm and each pair.
open_thompson = state(width=float, x=int, value=per_arm(float), start=per_pair(int))


@kernel
def thompson_choose(memory: int) -> int:
    """The arm whose draw from its Beta posterior is the largest; counts how often each arm came after each other."""
    s = open_thompson(memory)
    for i in range(s.n_arms):
        wins = s.sums[i]
        s.own.value[i] = random_beta(s, 1.0 + wins, 1.0 + s.n_rewards[i] - wins)
        s.index[i] = s.own.value[i]
    arm = largest(s)
    s.own.start[s.own.x, arm] += 1
    s.own.x = arm
    s.own.width += 0.5
    return pull(s, arm)


@kernel
def thompson_update(memory: int) -> None:
    s = open_thompson(memory)
    for i in range(s.n_arms):
        s.mix[i] = s.pulls[i] / s.t if s.t > 0 else 1.0 / s.n_arms
    s.dirty = 0


class MyThompson(Policy, name="my_thompson", choose=thompson_choose, update=thompson_update, unpack=open_thompson):
    """Thompson sampling for 0/1 rewards."""

    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(
            numbers={"width": 2.0, "value": np.arange(n_arms)}, confidence=self.choose_confidence_set(support, n_arms)
        )


class TestMyThompson(PolicyContract):
    def make(self, seed: int = 0) -> Policy:
        return MyThompson("mean", n_arms=2, support=pmb.Binary(), seed=seed)


def test_what_a_policy_remembers_has_names_of_its_own_and_is_saved() -> None:
    policy = MyThompson("mean", n_arms=3, support=pmb.Binary())
    assert policy.own["width"] == 2.0 and policy.own["value"].tolist() == [0.0, 1.0, 2.0]
    for t in range(50):
        policy.tell(policy.ask(), float(t % 3 == 0))
    own = policy.own
    assert own["width"] == 27.0 and own["start"].shape == (3, 3) and own["start"].sum() == 50
    file = io.BytesIO()
    policy.save(file)
    again = pmb.load(file)
    assert again.own["start"].tolist() == own["start"].tolist()
    assert again.ask(20).tolist() == policy.ask(20).tolist()
    run = pmb.simulate("mean", pmb.Bandit.bernoulli([0.2, 0.8]), ["my_thompson"], 400, trials=5)
    assert run.regret("MyThompson")[1][:, -1].mean() < 0.1


@kernel
def reads(memory: int, arm: int, x: float, out: Any, mixture: Any, found: Any) -> int:
    s = kit.unpack(memory)
    found[0] = cdf_of(s, arm, x)
    found[1], found[2] = utility_interval(s, mixture)
    for k in range(3, found.size, 3):
        found[k], found[k + 1], found[k + 2] = random_normal(s), random_beta(s, 2.0, 5.0), random_gamma(s, 0.5)
    return rewards_of(s, arm, out)


@pytest.mark.parametrize(
    ("support", "estimates"),
    [(pmb.Binary(), "exact"), (pmb.Finite([0, 1, 3]), "exact"), (pmb.Interval(0, 3), "exact")],
    ids=str,
)
def test_kernels_read_rewards_and_sets(support: Any, estimates: str) -> None:
    policy = pmb.PMUCB("gini", n_arms=2, support=support, horizon=1000, estimates=estimates)
    rewards = [1.0, 0.0, 1.0, 1.0, 0.0] if support == pmb.Binary() else [3.0, 0.0, 1.0, 1.0, 3.0]
    policy.tell([0] * 5, rewards)
    policy.tell([1] * 3, [0.0, 1.0, 0.0])
    out, found, even = np.full(9, -1.0), np.zeros(3 + 3 * 4000), np.array([0.5, 0.5])
    assert reads(policy._clone()._memory_with_radii().address, 0, 1.0, out, even, found) == 5
    assert out[:5].tolist() == sorted(rewards) and (out[5:] == -1).all()
    assert found[0] == np.mean(np.array(rewards) <= 1.0)
    values = pmb.GiniDeviation().value(rewards + [0.0, 1.0, 0.0], [0.1] * 5 + [0.5 / 3] * 3)
    assert found[1] <= values <= found[2]
    drawn = found[3:].reshape(-1, 3)
    for column, true in enumerate((st.norm(), st.beta(2, 5), st.gamma(0.5))):
        assert st.kstest(drawn[:, column], true.cdf).pvalue > 0.001


# ---- mistakes: one sentence each ---------------------------------------------------------------------------------
@kernel
def half(memory: int) -> int:
    return pull(kit.unpack(memory), 0.5)


@kernel
def swapped(memory: int) -> int:
    return pull(0, kit.unpack(memory))


@kernel
def one_short(memory: int) -> int:
    return pull(kit.unpack(memory))


@kernel
def one_more(memory: int) -> int:
    return pull(kit.unpack(memory), 0, 1)


@kernel
def by_name(memory: int) -> int:
    return pull(kit.unpack(memory), arm=0)


@kernel
def by_zero(memory: int) -> int:
    s = kit.unpack(memory)
    return pull(s, 1 // s.rewards)


@kernel
def not_a_number(memory: int) -> int:
    s = kit.unpack(memory)
    return pull(s, int(s.t * math.nan))


@kernel
def beyond(memory: int) -> int:
    s = kit.unpack(memory)
    places = np.zeros(2, np.int64)
    return pull(s, int(places[0] + 7.9))


@kernel
def by_hand(memory: int) -> int:
    return kit.unpack(memory).n_arms + 2


@kernel
def no_shares(memory: int) -> None:
    s = kit.unpack(memory)
    for i in range(s.n_arms):
        s.mix[i] = 0.2
    s.dirty = 0


@kernel
def leave_as_it_is(memory: int) -> None:
    kit.unpack(memory).dirty = 0


def policy_of(name: str, choose: Any, update: Any = leave_as_it_is, unpack: Any = None, **methods: Any) -> Any:
    body = {"setup": lambda self, metric, n_arms, support: Setup(), "__module__": __name__, **methods}
    return types.new_class(
        name, (Policy,), {"name": name, "choose": choose, "update": update, "unpack": unpack}, lambda d: d.update(body)
    )


MADE: dict[str, Any] = {"metric": "gini", "n_arms": 2, "support": pmb.Binary()}


def test_a_forgotten_decorator_a_missing_return_and_wrong_numbers_are_said_in_a_sentence() -> None:
    with pytest.raises(TypeError, match=r"choose of bare is not compiled; write @kernel above def"):
        policy_of("bare", lambda memory: 0)
    with pytest.raises(TypeError, match=r"setup of nothing must end with return Setup\(...\), but it returned None"):
        policy_of("nothing", choose_first, setup=lambda self, metric, n_arms, support: None)(**MADE)
    with pytest.raises(TypeError, match=r"the kernel half cannot be compiled: argument number 2 of pull must be"):
        policy_of("halves", half)(**MADE).ask()


@pytest.mark.parametrize(
    ("choose", "what"),
    [
        (swapped, r"1 of pull must be s = unpack\(memory\)"),
        (one_short, "2 of pull is missing"),
        (one_more, "3 of pull is one too many"),
        (by_name, "2 of pull must be given without its name"),
    ],
)
def test_a_call_of_a_step_with_wrong_arguments_says_how_it_is_written(choose: Any, what: str) -> None:
    with pytest.raises(TypeError, match=rf"argument number {what}; write pull\(s, arm\)"):
        policy_of(f"calls_{choose.__name__}", choose)(**MADE).ask()


@pytest.mark.parametrize(
    ("choose", "gave"), [(not_a_number, "NaN, or one beyond all numbers"), (beyond, "7"), (by_hand, "4")]
)
def test_an_arm_that_does_not_exist_is_refused_and_named(choose: Any, gave: str) -> None:
    """Also NaN that the compiler sees: it used to leave out the check of the arm, and the process died."""
    policy = policy_of(f"gives_{choose.__name__}", choose)(**MADE)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"an arm from 0 to 1; it gave the arm {gave}\."):
            policy.ask()
    assert policy.t == 0
    with pytest.raises(RuntimeError, match=rf"in trial 0, after 0 pulls: .* it gave the arm {gave}\."):
        pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), policy, 10, trials=1, n_jobs=1)


def test_a_setup_with_other_arguments_and_a_random_seed_are_said_in_a_sentence() -> None:
    with pytest.raises(TypeError, match=r"write def setup\(self, metric, n_arms, support\)") as said:
        policy_of("short", choose_first, setup=lambda self, metric: Setup())
    one_sentence(said.value)
    with pytest.raises(TypeError, match="seed"):
        pmb.Vet(random_seed=1)


def test_values_in_a_declaration_are_refused_with_the_place_for_them() -> None:
    for declare in (lambda: state(a=np.ones(3)), lambda: per_arm(np.ones(3))):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"declared (as|for) int.*got array") as said:
            declare()
        one_sentence(said.value)


def test_a_division_by_0_names_the_policy_the_kernel_and_the_trial() -> None:
    zeros = policy_of("zeros", by_zero)
    for ask in (lambda policy: policy.ask(), lambda policy: policy.ask(3)):
        with pytest.raises(ZeroDivisionError, match=r"choose of zeros.* 0 pulls"):
            ask(zeros(**MADE))
    with pytest.raises(ZeroDivisionError, match=r"in trial 0: .*zeros"):
        pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), zeros(), 10, trials=1)
    with pytest.raises(ZeroDivisionError, match=r"update of zeros_later"):
        _ = policy_of("zeros_later", choose_first, by_zero)(**MADE).mixture


def plain_helper(s: Any) -> int:
    return 0


@kernel
def calls_plain(memory: int) -> int:
    s = kit.unpack(memory)
    return pull(s, plain_helper(s))


@kernel
def returns_nothing(memory: int) -> None:
    pull(kit.unpack(memory), 0)


@kernel
def returns_0(memory: int) -> int:
    pull(kit.unpack(memory), 0)
    return 0


@kernel
def returns_sometimes(memory: int) -> Any:
    s = kit.unpack(memory)
    if s.t > 3:
        return pull(s, 0)
    return None


@kernel
def has_no_own(memory: int) -> int:
    s = kit.unpack(memory)
    return pull(s, s.own.left)


@kernel
def has_another(memory: int) -> int:
    s = unpack(memory)
    return pull(s, s.own.right)


@kernel
def has_no_such_field(memory: int) -> int:
    s = kit.unpack(memory)
    return pull(s, s.rewrads)


@kernel
def asks_for_sets(memory: int) -> int:
    s = kit.unpack(memory)
    lo, _ = utility_interval(s, s.mix)
    return pull(s, 0 if lo > 0.0 else 1)


@pytest.mark.parametrize(
    ("given", "error", "fact"),
    [
        (calls_plain, TypeError, r"@kernel above def plain_helper"),
        (returns_nothing, TypeError, r"returns nothing; .*return pull\(s, arm\)"),
        (returns_0, TypeError, r"returns 0; .*return pull\(s, arm\)"),
        (returns_sometimes, TypeError, r"nothing in some cases; .*return pull\(s, arm\)"),
        (has_no_own, TypeError, r"s\.own .*unpack = state\("),
        (has_another, TypeError, r"s\.own has no 'right'.*state\(right=float\)"),
        (has_no_such_field, TypeError, r"no field 'rewrads'"),
        (asks_for_sets, ValueError, r"utility_interval needs confidence sets.*Setup\(confidence="),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_mistake_in_a_kernel_is_said_in_one_sentence(given: Any, error: type[Exception], fact: str) -> None:
    name = f"mistake_{given.__name__}"
    cls = policy_of(name, given, unpack=unpack) if given is has_another else policy_of(name, given)
    with pytest.raises(error, match=fact) as said:
        cls(**MADE).ask()
    one_sentence(said.value)
    with pytest.raises(error, match=fact):
        pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), cls(), 10, trials=1)


open_numbers = state(n=int, x=float, w=per_arm(float), c=per_arm(int))


@pytest.mark.parametrize(
    ("numbers", "error", "fact"),
    [
        ({"w": np.ones(5)}, ValueError, r"'w' of Numbers .*\(5,\).*\(2,\)"),
        ({"x": np.ones(2)}, ValueError, r"'x' of Numbers .*one number"),
        ({"n": 1.5}, ValueError, r"'n' of Numbers .*1\.5.*int"),
        ({"c": [1.0, np.nan]}, ValueError, r"'c' of Numbers .*int"),
        ({"n": float("inf")}, ValueError, r"'n' of Numbers .*int"),
        ({"x": "a"}, TypeError, r"'x' of Numbers .*'a'"),
    ],
)
def test_first_values_that_do_not_fit_are_refused(numbers: Any, error: type[Exception], fact: str) -> None:
    cls: Any = types.new_class(
        "Numbers", (Policy,), {"choose": choose_first, "update": leave_as_it_is, "unpack": open_numbers},
        lambda d: d.update(setup=lambda self, metric, n_arms, support: Setup(numbers=numbers)),
    )  # fmt: skip
    with pytest.raises(error, match=fact) as said:
        cls(**MADE)
    one_sentence(said.value)


def test_own_numbers_are_read_as_numbers_and_arrays() -> None:
    assert InThrees(**MADE).own == {"left": 6}
    assert type(InThrees(**MADE).own["left"]) is int
    own = MyThompson(**MADE).own
    assert own["width"] == 2.0 and own["value"].tolist() == [0.0, 1.0] and own["start"].shape == (2, 2)


def test_an_option_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(KeyError, match="'caution'") as said:
        pmb.Vet("gini").options["cation"]
    assert "Did you mean 'caution'" in one_sentence(said.value)
    assert pmb.Vet("gini").options.get("cation") is None


@kernel
def choose_with_update(memory: int) -> int:
    no_shares(memory)
    return pull(kit.unpack(memory), 0)


def test_a_mixture_that_is_none_is_said_where_it_is_read() -> None:
    for ask in (lambda policy: policy.ask(), lambda policy: policy.ask(3), lambda policy: policy.ask(among=[0])):
        with pytest.raises(RuntimeError, match=r"of asks_none .* \[0.2, 0.2\], which adds up to 0.4"):
            ask(policy_of("asks_none", choose_with_update)(**MADE))
    cls = policy_of("no_shares", choose_first, no_shares)
    with pytest.raises(RuntimeError, match=r"of no_shares .* \[0.2, 0.2\], which adds up to 0.4"):
        _ = cls(**MADE).mixture
    with pytest.raises(RuntimeError, match=r"in trial 0, after 10 rounds: .*adds up to 0.4"):
        pmb.simulate("gini", pmb.Bandit.bernoulli([0.4, 0.9]), cls(), 10, trials=1)


@kernel
def choose_first(memory: int) -> int:
    return pull(kit.unpack(memory), 0)


def test_a_recipe_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match=r"recipe: n_arms \(or names\) and support are missing"):
        pmb.Vet("gini").ask()
    with pytest.raises(ValueError, match=r"recipe: support is missing. Give it"):
        pmb.Vet("gini", n_arms=2).ask()


def test_a_misspelt_keyword_of_the_class_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="choose"):

        class Misspelt(Policy, chose=None):
            pass


@kernel
def opens_through_helper(memory: int) -> int:
    return choose(memory)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            {"choose": choose},
            r"choose of Wrong opens the memory with unpack, .* has no unpack=; .*unpack=unpack\)",
        ),
        ({"choose": opens_through_helper}, "choose of Wrong opens the memory with unpack"),
        ({"update": update}, "update of Wrong opens the memory with unpack"),
        ({"unpack": state(right=int), "choose": choose}, "names other numbers than the unpack= of the class does"),
        ({"update": None}, "Wrong has choose, but no update; give its class update="),
        ({"choose": None}, "Wrong does not say which arm is pulled; give its class choose= and update=, or index="),
    ],
)
def test_a_class_whose_kernels_do_not_fit_it_is_refused(given: Any, what: str) -> None:
    with pytest.raises(TypeError, match=what) as caught:
        policy_of("Wrong", **{"choose": half, **given})
    assert one_sentence(caught.value)
    assert "Wrong" not in REGISTRY


def test_a_nameless_class_without_kernels_says_what_is_missing() -> None:
    class Nameless(Policy):
        def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
            return Setup()

    with pytest.raises(TypeError, match="Nameless does not say which arm is pulled"):
        Nameless(**MADE)


def test_a_subclass_keeps_the_unpack_that_it_inherits() -> None:
    made = types.new_class("InThreesAgain", (InThrees,), {"update": update})
    assert made(**MADE).ask(4).tolist() == InThrees(**MADE).ask(4).tolist()


def test_random_numbers_of_numpy_are_refused_in_kernels() -> None:
    @kernel
    def choose(memory: int) -> int:
        return pull(unpack(memory), np.random.randint(2))  # noqa: NPY002

    with pytest.raises(TypeError, match=r"np\.random") as caught:

        class Unseeded(Policy, choose=choose):
            pass

    assert "random_below" in str(caught.value)
