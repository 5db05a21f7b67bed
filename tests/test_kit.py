"""The kit for authors: its guide uses public names only, and a policy made of it is saved with its own numbers."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import pmbandits as pmb
from pmbandits import kit
from pmbandits.kit import Policy, Setup, kernel, pull, state
from pmbandits.testing import PolicyContract

DOCS = Path(__file__).parent.parent / "docs"
GUIDE = (DOCS / "howto" / "custom-policy.md").read_text(encoding="utf-8")

unpack = state(left=int)


@kernel
def choose(memory: int) -> int:
    """Three pulls of arm 0, then three of arm 1, if it plays; the policy counts down in a number of its own."""
    s = unpack(memory)
    s.left -= 1
    if s.left == 0:
        s.left = 6
    return pull(s, 0 if s.left > 3 or s.n_arms == 1 else 1)


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
    class Forgetful(Policy, name="forgetful_of_test_kit", choose=choose, update=update):
        def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
            return Setup(numbers={"boost": 2.0})

    with pytest.raises(ValueError, match=r"number 'boost' .* unpack = state\(boost=float\)"):
        Forgetful(pmb.Mean(), n_arms=2, support=pmb.Binary())


def test_two_policies_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="'track' already"):

        class Another(Policy, name="track", choose=choose, update=update):
            pass
