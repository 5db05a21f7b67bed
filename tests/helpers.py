"""What several test files use."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.estimates import Sketch


def python(code: str, **env: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def covering(cases: Iterable[Any], features: Callable[[Any], Iterable[Hashable]]) -> list[Any]:
    """The cases, of which `make test` takes enough for every feature to occur: the others are marked as slow."""
    seen: set[Hashable] = set()
    chosen = []
    for case in cases:
        new = set(features(case)) - seen
        chosen.append(case if new else pytest.param(case, marks=pytest.mark.slow))
        seen |= new
    return chosen


def allow_interrupts() -> None:
    """Make Ctrl-C work in a child (``preexec_fn``), which inherits that a job in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def one_sentence(error: BaseException) -> str:
    """The message of an error, which is one line that ends like a sentence."""
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def final_regret(run: Any, policy: str) -> float:
    """Mean regret at the end."""
    return float(run.regret(policy)[1][:, -1].mean())


def same_outcome(a: Any, b: Any, message: str) -> None:
    """Two outcomes of a trial are the same at every checkpoint."""
    apart = np.flatnonzero((a.pulls != b.pulls).any(axis=1) | (a.mixture != b.mixture).any(axis=1))
    if apart.size or not np.array_equal(a.ends, b.ends):
        c = int(apart[0]) if apart.size else -1
        raise AssertionError(
            f"{message}: checkpoint {c} is the first that differs\n{a.pulls[c]} {a.mixture[c]} {a.ends}\n"
            f"{b.pulls[c]} {b.mixture[c]} {b.ends}"
        )


def look_at_everything(policy: Any) -> None:
    """Make a policy work out every value at every look, as if nothing were known of how radii change."""
    policy._plan = dataclasses.replace(policy._plan, rounding_safe=False)
    policy._memory.radii_decrease = 0


def play_rewards(policy: Any, rewards: np.ndarray, rounds: int) -> list[int]:
    """Ask and tell in turn with given rewards, ``rewards[arm, n]`` for the n-th pull of an arm; the arms played."""
    arms, used = [], np.zeros(policy.n_arms, dtype=int)
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, rewards[arm, used[arm]])
        used[arm] += 1
        arms.append(arm)
    return arms


def sketch_of(data: np.ndarray, k: int, seed: int = 0) -> Sketch:
    """A sketch that holds all these numbers."""
    sketch = Sketch(k=k, seed=seed)
    sketch.extend(data)
    return sketch


# A support of each kind, and how arm i draws a reward of it.
LAWS = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]]
SHAPES = [(1, 3), (3, 1), (2, 2), (0.5, 0.5), (5, 2)]
SUPPORTS: dict[str, tuple[pmb.Support, Any]] = {
    "binary": (pmb.Binary(), lambda rng, i: float(rng.random() < 0.15 + 0.3 * (i % 3))),
    "finite": (pmb.Finite([0.0, 0.5, 2.0]), lambda rng, i: float(rng.choice([0.0, 0.5, 2.0], p=LAWS[i % 3]))),
    "interval": (pmb.Interval(0, 1), lambda rng, i: float(rng.beta(*SHAPES[i % 5]))),
    "real": (pmb.Real(1.0), lambda rng, i: float(rng.normal(2.0 * (i % 3), 1.0 + 0.3 * i))),
}


def taught(metric: Any, support: str, n_arms: int, n: int, seed: int = 0, cls: Any = pmb.Track, **options: Any) -> Any:
    """A policy that was told n rewards, and the rewards by arm."""
    rng = np.random.default_rng(seed)
    declared, distribution = SUPPORTS[support]
    policy = cls(metric, n_arms=n_arms, support=declared, **options)
    arms = np.concatenate((np.arange(n_arms), rng.integers(0, n_arms, n - n_arms)))
    rewards = np.array([distribution(rng, i) for i in arms])
    policy.tell(arms.tolist(), rewards.tolist())
    return policy, {str(i): rewards[arms == i] for i in range(n_arms)}
