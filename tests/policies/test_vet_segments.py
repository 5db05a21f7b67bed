"""Vet with segments takes the decisions of its rule, as a slow reference finds them; with one segment it is Vet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.helpers import SUPPORTS as DRAWN
from tests.policies.test_vet import METRICS, NEITHER, instance
from tests.reference.vet_segments import SegmentVet


@dataclass(frozen=True)
class Case:
    metric: str
    support: str
    sizes: tuple[int, ...]  # the number of arms in each segment
    rounds: int
    seed: int = 0
    batch: int = 1  # rewards are told when so many have gathered
    late: int = 0  # the round from which on the last segment comes

    def __str__(self) -> str:
        more = f"{f'-batch{self.batch}' if self.batch > 1 else ''}{f'-late{self.late}' if self.late else ''}"
        return f"{self.metric}-{self.support}-{'+'.join(map(str, self.sizes))}{more}-{self.seed}"


def story(memory: Any, r: SegmentVet) -> str:
    """What to print on the first difference: fast / slow."""
    return (
        f"thresholds {memory.threshold} / {r.thresholds}, levels {memory.level} / {r.levels}\nworth {memory.worth:.6g} "
        f"/ {r.worth:.6g}\nindices {memory.vet_index} / {r.index}\nmixture {memory.mix}, wanted {memory.target_shares} "
        f"/ {r.b}\nwindows {memory.window_end} / {r.windows}, {r.window_end}\npulls {r.pulls}, rewards {r.told}"
    )


def play(case: Case) -> tuple[int, SegmentVet]:
    """Play with the fast policy, and ask the reference in every round what it would do; returns the excused rounds."""
    columns, size = sum(case.sizes), max(case.sizes)
    support, rewards = instance(case.support, columns, case.rounds, case.seed)
    metric, bins, names = METRICS[case.metric], 64 if case.support == "binned" else None, [f"a{k}" for k in range(size)]
    segments = {f"s{s}": names[:n] for s, n in enumerate(case.sizes)}
    given = {"estimates": "binned:64"} if bins else {}
    fast = pmb.Vet(metric, names=names, support=support, segments=segments, **given)
    reference = SegmentVet(metric, list(case.sizes), support, bins)
    rng, first = np.random.default_rng(case.seed), np.cumsum((0, *case.sizes))
    chances = rng.dirichlet(np.full(len(case.sizes), 2.0))
    excused, waiting, drawn = 0, [], np.zeros(columns, dtype=int)
    for t in range(case.rounds):
        s = int(rng.choice(len(case.sizes), p=chances))
        if case.late:
            s = s if t >= case.late or s < len(case.sizes) - 1 else 0
        before = fast._memory.window_end.copy()
        arm = fast.ask(segment=f"s{s}")
        memory, column = fast._memory, first[s] + arm
        if reference.is_open(s):
            looked = not np.array_equal(memory.window_end, before)
            due, clear = reference.due_for(s)
            if due != looked:
                assert not clear, f"round {t}: look {looked} / {due}\n{story(memory, reference)}"
                excused += 1
            if looked:
                reference.look(memory.mix, memory.target_shares)
        decision = reference.decide_for(s)
        if column not in decision.allowed:
            assert not decision.sure, f"round {t}: {column} / {decision.allowed}\n{story(memory, reference)}"
            excused += 1
        reference.pulled(column)
        waiting.append((s, arm, column, float(rewards[column, drawn[column]])))
        drawn[column] += 1
        if len(waiting) >= case.batch or not reference.is_open(s):
            for segment, arm, column, reward in waiting:
                fast.tell(arm, reward, segment=f"s{segment}")
                reference.tell(column, reward)
            waiting = []
    return excused, reference


def check(case: Case) -> None:
    excused, reference = play(case)
    assert excused <= 0.03 * case.rounds
    if case.metric not in NEITHER:
        assert max(reference.miss_a) <= 1.01
    assert max(reference.miss_b) <= 1.01


CONCAVE, SUPPORTS = ("gini", "wang", "upper_cvar", "mean", "pht"), ("binary", "finite 5", "interval", "binned", "real")
SIZES = ((2, 2), (3, 2, 3), (2, 3, 1, 2), (4, 3))
QUICK = [
    *(
        Case(metric, support, SIZES[(i + j) % 4], 160)
        for i, metric in enumerate(CONCAVE)
        for j, support in enumerate(SUPPORTS)
        if (i + j) % 5 == 0
    ),
    *(Case(metric, "binary", sizes, 160) for metric in ("lower_cvar", *NEITHER) for sizes in ((3, 2), (2, 2, 2))),
    Case("lower_cvar", "finite 5", (3, 3), 120),
    Case("lower_cvar", "finite 11", (2, 2, 3), 120),
    Case("lower_cvar", "interval", (2, 2, 2), 90),
    Case("lower_cvar", "binned", (2, 3), 90),
    Case("lower_cvar", "finite 5", (2, 3, 2), 160, 2, late=80),
    Case("inverted_s", "finite 3", (2, 2), 40),
    Case("gini", "finite 5", (3, 3, 2), 200, batch=15),
    Case("wang", "binary", (2, 3, 3), 120, late=70, batch=5),
    Case("gini", "binary", (2, 2, 3), 120, late=80),  # two arms of the late segment have paid 1 alone
]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_it_pulls_what_the_rule_says(case: Case) -> None:
    check(case)


FULL = [
    Case(metric, support, sizes, 100 if metric == "lower_cvar" else 400, seed)
    for metric in (*CONCAVE, "lower_cvar")
    for support in SUPPORTS
    for seed, sizes in enumerate(SIZES)
] + [Case("gini", "interval", (2, 2, 3), 200, late=120), Case("wang", "binary", (2, 3, 3), 200, late=120, batch=5)]


@pytest.mark.slow
@pytest.mark.parametrize("case", FULL, ids=str)
def test_it_pulls_what_the_rule_says_with_every_metric_on_every_support(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("metric", ["gini", "0.5*mean + gini", "lower_cvar(0.5)", "inverted_s(0.5)"])
@pytest.mark.parametrize("support", DRAWN)
@pytest.mark.parametrize("estimates", ["exact", "sketch:32"])
def test_with_one_segment_it_is_vet_to_the_last_pull(metric: str, support: str, estimates: str) -> None:
    known, draw = DRAWN[support]
    if estimates != "exact" and support not in ("interval", "real"):
        pytest.skip("sketches are for rewards with many values")
    plain = pmb.Vet(metric, n_arms=3, support=known, estimates=estimates)
    one = pmb.Vet(metric, n_arms=3, support=known, estimates=estimates, segments=["all"])
    rng, waiting = np.random.default_rng(0), []
    for t in range(400):
        arm = plain.ask()
        assert one.ask(segment="all") == arm
        waiting.append((arm, float(draw(rng, arm))))
        if t < 200 or len(waiting) > 13:
            for told in waiting:
                plain.tell(*told)
                one.tell(*told, segment="all")
            waiting = []
    assert np.array_equal(one.mixture[0], plain.mixture)


@pytest.mark.parametrize("metric", ["gini", "lower_cvar(0.5)"])
@pytest.mark.parametrize("shares", ["A >= 20%", "A + B <= 50%", "all: A >= 20%; C <= 40%"])
def test_with_one_segment_and_limits_it_is_vet_to_the_last_pull(metric: str, shares: str) -> None:
    given: dict[str, Any] = {"names": ["A", "B", "C"], "support": pmb.Binary()}
    plain = pmb.Vet(metric, shares=shares.replace("all: ", ""), **given)
    one = pmb.Vet(metric, shares=shares, segments=["all"], **given)
    rng = np.random.default_rng(0)
    for _ in range(400):
        arm = plain.ask()
        assert one.ask(segment="all") == arm
        reward = float(rng.random() < (0.2, 0.5, 0.8)[arm])
        plain.tell(arm, reward)
        one.tell(arm, reward, segment="all")


@pytest.mark.parametrize("metric", ["gini", "lower_cvar(0.5)"])
def test_the_mixture_keeps_limits_within_a_segment_and_over_everybody(metric: str) -> None:
    policy = pmb.Vet(
        metric, names=["A", "B", "C"], support=pmb.Binary(), segments=["x", "y"], shares="x: A >= 20%; C <= 30%"
    )
    rng = np.random.default_rng(0)
    for _ in range(300):
        segment = "xy"[int(rng.random() < 0.4)]
        arm = policy.ask(segment=segment)
        policy.tell(arm, float(rng.random() < (0.2, 0.5, 0.8)[arm]), segment=segment)
    weights = policy.mixture * (policy.arrivals / policy.arrivals.sum())[:, None]
    assert policy.mixture.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert policy.mixture[0, 0] >= 0.2 - 0.01 and weights[:, 2].sum() <= 0.3 + 0.01
