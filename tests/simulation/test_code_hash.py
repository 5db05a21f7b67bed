"""The hash of Python code: equal for equal code in every process, another one for whatever changes results."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.simulation.code_hash import code_hash

SOURCE = '''
import math
import numpy as np
import helpers
from pmbandits import GiniDeviation

SHARE = 0.25
TABLE = np.array([1.0, 2.0])
WORDS = {"one", "two", "three", "four", "five"}
METRIC = GiniDeviation()


def helper(x):
    """Help."""
    return math.sqrt(x) * SHARE + helpers.twice(x)


class Base:
    factor = 2

    def ask(self):
        return int(helper(self.factor)) if "one" in {"one", "two", "three", "four"} else len(WORDS)


class Mine(Base):
    """A policy."""

    def __init__(self, n_arms, seed=0, *, wide=False):
        self.rest = [x for x in range(n_arms) if x > 1]

    def tell(self, arm, reward):  # nothing
        self.last = (lambda r: r + TABLE[0])(reward)

    @property
    def mixture(self):
        return METRIC.value(np.array([0.0, 1.0]))

    @staticmethod
    def unused():
        return 1
'''
HELPERS = "def twice(x):\n    return 2 * x\n"


def hash_of(folder: Path, source: str = SOURCE, helpers: str = HELPERS) -> str:
    """Of the class in a process of its own."""
    (folder / "mine.py").write_text(source)
    (folder / "helpers.py").write_text(helpers)
    code = "import mine; from pmbandits.simulation.code_hash import code_hash; print(code_hash(mine.Mine))"
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_it_is_the_same_in_every_process_and_without_comments(tmp_path: Path) -> None:
    first = hash_of(tmp_path)
    assert len(first) == 64
    assert hash_of(tmp_path) == first  # another seed of hashes, another order of sets
    assert hash_of(tmp_path, "# a comment\n\n" + SOURCE.replace("# nothing", "# nothing at all")) == first
    assert hash_of(tmp_path, SOURCE.replace("Help.", "Helps.").replace("A policy.", "My policy.")) == first
    assert hash_of(tmp_path, SOURCE + "\n\ndef other():\n    return 3\n") == first


def load(source: str) -> Any:
    """The class, from a module that has just been made."""
    names: dict[str, Any] = {"__name__": "mine_of_test_identity"}
    exec(compile(source.replace("import helpers\n", "").replace(" + helpers.twice(x)", ""), "mine", "exec"), names)
    return names["Mine"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SHARE = 0.25", "SHARE = 0.26"),
        ("[1.0, 2.0])\nWORDS", "[1.0, 2.5])\nWORDS"),
        ('"five"}', '"six"}'),
        ("math.sqrt(x)", "math.log(x)"),
        ("factor = 2", "factor = 3"),
        ("x > 1]", "x > 2]"),
        ("x > 1]", "x >= 1]"),
        ("seed=0", "seed=1"),
        ("wide=False", "wide=True"),
        ("r + TABLE[0]", "r - TABLE[0]"),
        ("np.array([0.0, 1.0])", "np.array([0.0, 2.0])"),
        ("return 1", "return 2"),
        ("METRIC = GiniDeviation()", "METRIC = 2 * GiniDeviation()"),
        ("class Mine(Base)", "class Mine"),
        ('in {"one", "two", "three", "four"}', 'in {"one", "two", "three"}'),
    ],
)
def test_what_changes_results_changes_it(old: str, new: str) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert code_hash(load(changed)) != code_hash(load(SOURCE))
    assert code_hash(load(SOURCE)) == code_hash(load(SOURCE))


def make(share: float) -> Any:
    return lambda n_arms: share


@numba.njit
def kernel(x: float) -> float:
    return x + 1.0


@numba.njit
def other_kernel(x: float) -> float:
    return x + 2.0


class Holder:
    """An object that is called."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, n_arms: int) -> Any:
        return self.value

    def method(self, n_arms: int) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (make(0.1), make(0.2)),
        (functools.partial(make, 0.1), functools.partial(make, 0.2)),
        (functools.partial(make, share=0.1), functools.partial(make, share=0.2)),
        (Holder(1), Holder(2)),
        (Holder(1).method, Holder(2).method),
        (Holder(1), Holder(True)),
        (Holder(pmb.UpperCVaR(0.9)), Holder(pmb.UpperCVaR(0.8))),
        (Holder(np.zeros(2)), Holder(np.zeros(3))),
        (Holder(np.zeros(2)), Holder(np.zeros(2, dtype=np.float32))),
        (Holder({"a": 1}), Holder({"a": 2})),
        (Holder(kernel), Holder(other_kernel)),
        (Holder(functools.lru_cache(make)), Holder(make)),
        (Holder(np), Holder(pmb)),
        (Holder(np.sin), Holder(np.cos)),
        (Holder(sum), Holder(max)),
    ],
)
def test_what_is_held_counts(one: Any, other: Any) -> None:
    assert code_hash(one) != code_hash(other)
    assert code_hash(one) == code_hash(one)


def test_circles_come_to_an_end() -> None:
    first, second = Holder(None), Holder(None)
    first.value, second.value = second, first
    assert code_hash(first) == code_hash(second)
