"""A slow reference of simulations in which things change: one round at a time, in plain Python, by ask and tell.

Written from the text of ``simulate``: which arms pay in which round, when a reward is told, and what regret is. Rewards
come from ``tests.reference.simulation``; of the library only the policy, and the utility of one mixture, are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pmbandits as pmb
from tests.reference.simulation import policy_seed, reward

DELAY, CHUNK = 11, 4096


def season(first: float, other: float, period: int, every: int, t: int) -> float:
    """A number that swings like a cosine, in pieces, each as it is in its middle."""
    inside = t % period
    begin = inside // every * every
    end = min(begin + every, period)
    middle = (begin + end - 1) // 2
    share = (1.0 - math.cos(2.0 * math.pi * middle / period)) / 2.0
    return (1.0 - share) * first + share * other


def delays(distribution: Any, seed: int, trial: int, rounds: int, column: int = 0) -> list[int]:
    """The delays of all rounds, drawn a chunk at a time."""
    if isinstance(distribution, int):
        return [distribution] * rounds
    out: list[int] = []
    for number in range(rounds // CHUNK + 1):
        bits = np.random.Philox(
            key=np.array([seed, trial], dtype=np.uint64), counter=np.array([0, column, number, DELAY], np.uint64)
        )
        rng = np.random.Generator(bits)
        drawn = (
            distribution.rvs(size=CHUNK, random_state=rng) if hasattr(distribution, "rvs") else distribution(rng, CHUNK)
        )
        out += [round(float(d)) for d in drawn]
    return out[:rounds]


def played(
    recipe: Any,
    metric: Any,
    support: pmb.Support,
    names: list[str],
    distributions: Any,
    rounds: int,
    seed: int,
    trial: int,
    wait: Any = 0,
    batch: int = 1,
    schedule: tuple[tuple[int, str, str], ...] = (),
    looks: Any = (),
) -> dict[str, Any]:
    """The arms of every round, and the mixtures after the rounds in ``looks``.

    ``laws(t, arm)`` is the law of an arm after t rounds, as a tuple; or its next reward itself.
    """
    away = [arm for _, verb, arm in schedule if verb == "add"]
    known = [name for name in names if name not in away]  # the policy's arms, in its order
    policy = recipe.bind(metric, len(known), support, names=known, seed=policy_seed(seed, trial, recipe.seed))
    waits = [delays(one, seed, trial, rounds, c) for c, one in enumerate(wait if isinstance(wait, list) else [wait])]
    used, coming = dict.fromkeys(names, 0), []
    found: dict[str, Any] = {"arms": [], "mixture": []}
    for now in range(1, rounds + 1):
        for after, verb, arm in schedule:
            if after == now - 1:
                getattr(policy, "add_arm" if verb == "add" else verb)(arm)
                known += [arm] if verb == "add" else []
        name = known[policy.ask()]
        place = names.index(name)
        distribution = distributions(now - 1, place)
        paid = reward(distribution, seed, trial, place, used[name]) if isinstance(distribution, tuple) else distribution
        used[name] += 1
        column = waits[place] if len(waits) > 1 else waits[0]
        told = now + column[now - 1]
        told = math.ceil(told / batch) * batch
        coming.append((told, now, name, paid))
        for entry in sorted(entry for entry in coming if entry[0] <= now):
            policy.tell(known.index(entry[2]), entry[3])
        coming = [entry for entry in coming if entry[0] > now]
        found["arms"].append(place)
        if now in looks:
            mixture = np.zeros(len(names))
            mixture[[names.index(n) for n in known]] = policy.mixture
            found["mixture"].append(mixture)
    return found


def regret(
    metric: Any, arms: list[int], bandits: Any, playing: Any, best: Any, mixture: Any = None
) -> tuple[list[float], list[float]]:
    """The regret after every round, and what the mixture of that round falls short of; straight from the definition.

    ``bandits(t)`` are the arms after t rounds and ``playing(t)`` the positions of those that play; a period is
    over when either is another object than before. ``best(t)`` is the utility of the best mixture.
    """
    out, declared, lost, begin = [], [], 0.0, 0
    for t in range(1, len(arms) + 1):
        if t > 1 and (bandits(t - 1) is not bandits(t - 2) or playing(t - 1) is not playing(t - 2)):
            lost += (t - 1 - begin) * _short(metric, arms[begin : t - 1], bandits(t - 2), playing(t - 2), best(t - 2))
            begin = t - 1
        now = (t - begin) * _short(metric, arms[begin:t], bandits(t - 1), playing(t - 1), best(t - 1))
        out.append((lost + now) / t)
        if mixture is not None:
            declared.append(best(t - 1) - pmb.utility(metric, bandits(t - 1), mixture[t - 1]))
    return out, declared


def _short(metric: Any, arms: list[int], bandit: pmb.Bandit, playing: Any, best: float) -> float:
    assert set(arms) <= set(playing)
    shares = np.bincount(arms, minlength=bandit.n_arms) / len(arms)
    return best - pmb.utility(metric, bandit, shares)
