"""Watching a stream for a change: the evidence against a slow reference, the level, and the delay."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.estimates import _change_detector as steps
from pmbandits.estimates.change_detector import is_valid_detector
from tests.helpers import one_sentence
from tests.reference.changes import alarm, early_evidence, evidence, sets_of

Draw = Callable[[np.random.Generator, int], Any]
LAWS: dict[str, Draw] = {
    "skewed": lambda rng, n: rng.lognormal(0.0, 1.5, n),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.03, rng.exponential(1.0, n), 0.0),
    "bernoulli": lambda rng, n: (rng.random(n) < 0.1).astype(float),
    "beta": lambda rng, n: rng.beta(0.5, 0.5, n),
    "normal": lambda rng, n: rng.normal(0.0, 1.0, n),
}


# ---- the proof's parts -------------------------------------------------------------------------------------
def test_the_weights_of_all_moments_add_up_to_one() -> None:
    whole = sum(math.exp(-steps.change_point_log_weight(j)) for j in range(1, 1 << 12))
    assert whole == pytest.approx(1.0 - 1.0 / 13.0)  # 1/((u + 1)(u + 2)) for u = 0, …, 11


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 5000])
def test_the_mixture_of_coins_is_no_less_than_the_proof_says(n: int) -> None:
    for k in {0, 1, n // 3, n // 2, n - 1, n}:
        mixture = math.lgamma(k + 0.5) + math.lgamma(n - k + 0.5) - math.lgamma(n + 1) - 2 * math.lgamma(0.5)
        p = k / n
        best = sum(m * math.log(q) for m, q in ((k, p), (n - k, 1 - p)) if m)
        assert mixture >= best - math.log(2.0 * math.sqrt(n)) - 1e-9


# ---- against the reference ---------------------------------------------------------------------------------
@pytest.mark.parametrize("law", ["normal", "zero-inflated", "beta"])
def test_the_alarm_is_one_that_the_reference_raises_too(law: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate((LAWS[law](rng, 304), 1.5 + 1.5 * LAWS[law](rng, 150)))
    detector = pmb.ChangeDetector(level=0.05)
    found = detector.extend(x)
    first = alarm(x, 0.05)
    assert found and first is not None
    change = detector.changes[0]
    assert first <= change.round == found[0] + 1  # the reference keeps all moments
    assert change.round - 304 <= 1.4 * (first - 304) + 16
    start = change.round - change.after
    least, price = evidence(x[: change.round], start)
    assert math.log(change.evidence) == pytest.approx(least - price, abs=1e-9)
    assert change.before == start - steps.N_FIRST


def test_the_shares_are_those_of_the_rewards() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate((rng.normal(0.0, 1.0, 2000), rng.normal(0.0, 2.5, 200)))
    detector = pmb.ChangeDetector()
    detector.extend(x)
    change = detector.changes[0]
    words = change.what.split()
    low, high = float(words[3]), float(words[5])
    before, after = x[steps.N_FIRST : change.round - change.after], x[change.round - change.after : change.round]
    for part, share in ((before, change.share_before), (after, change.share_after)):
        assert np.mean((part < low) | (part > high)) == pytest.approx(share, abs=0.01)  # the words are rounded


def test_known_thresholds_count_from_the_first_reward() -> None:
    x = np.concatenate((np.zeros(40), np.ones(40)))
    found = pmb.ChangeDetector(values=[0.0]).extend(x)
    assert found and found[0] < 80
    assert pmb.ChangeDetector().extend(x[:72]) == []  # 8 more are not enough
    assert alarm(x, 0.01, known=[0.0]) == found[0] + 1


@pytest.mark.parametrize("law", ["normal", "zero-inflated", "bernoulli"])
@pytest.mark.parametrize("before", [16, 30, 64])
def test_a_change_among_the_first_rewards_is_found(law: str, before: int) -> None:
    rng = np.random.default_rng([before, 3])
    x = np.concatenate((LAWS[law](rng, before), 4.0 + LAWS[law](rng, 2000)))
    detector = pmb.ChangeDetector(level=0.05)
    found = detector.extend(x)
    assert found and found[0] < 600
    change = detector.changes[0]
    assert change.round == alarm(x[:600], 0.05)
    assert math.log(change.evidence) == pytest.approx(early_evidence(x[: change.round]), abs=1e-8)
    first, later = x[: steps.N_FIRST], x[steps.N_FIRST : change.round]
    assert (change.before, change.after) == (first.size, later.size)
    low = detector_threshold(first, change)
    sets = {"above": lambda part: part > low, "from": lambda part: part >= low}
    member = sets[change.what.split()[1]]
    assert np.mean(member(first)) == pytest.approx(change.share_before)
    assert np.mean(member(later)) == pytest.approx(change.share_after)


def detector_threshold(first: np.ndarray, change: pmb.Change) -> float:
    """The reward among the first that the words of a change name, which are rounded."""
    return float(min(first, key=lambda v: abs(v - float(change.what.split()[2]))))


def test_every_kind_of_set_is_looked_at() -> None:
    thresholds = np.array([0.0, 1.0, 2.0])
    assert len(sets_of(thresholds)) == 9
    rng = np.random.default_rng(2)
    base = rng.choice([-1.0, 0.0, 0.5, 1.0, 3.0], 1000)
    for other, word in (([3.0], "above"), ([2.0, 3.0], "from"), ([-1.0, 3.0], "outside")):
        detector = pmb.ChangeDetector(values=[0.0, 1.0, 2.0] if word == "from" else [0.0, 2.0])
        stream = np.minimum(base, 1.0) if word == "from" else base
        detector.extend(np.concatenate((stream, rng.choice(other, 100))))
        assert detector.changes and word in detector.changes[0].what


# ---- the level ---------------------------------------------------------------------------------------------
def false_alarms(law: str, level: float, runs: int, rounds: int) -> int:
    known = [0.0] if law == "bernoulli" else None
    count = 0
    for seed in range(runs):
        detector = pmb.ChangeDetector(level, values=known)
        count += bool(detector.extend(LAWS[law](np.random.default_rng(seed), rounds)))
    return count


@pytest.mark.parametrize("law", LAWS)
def test_false_alarms_are_no_more_than_the_level_says(law: str) -> None:
    assert false_alarms(law, 0.5, 40, 5000) <= 32  # P(Binomial(40, 0.5) > 32) < 1e-4


@pytest.mark.parametrize("law", LAWS)
def test_early_looks_raise_no_more_false_alarms_than_their_part_of_the_level(law: str) -> None:
    found = 0
    for seed in range(300):
        detector = pmb.ChangeDetector(1e-300)  # it finds nothing by itself; thresholds of coins are tied, and not known
        x = LAWS[law](np.random.default_rng([seed, 9]), 512)
        for start in range(0, x.size, 32):
            assert detector.extend(x[start : start + 32]) == []
            parts = detector._header, detector._values, detector._rows
            if steps.detect_early_change(*parts, 0.0, detector._found):  # at level 1, of which a tenth is theirs
                found += 1
                break
    assert found <= 48, found  # P(Binomial(300, 0.1) > 48) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_false_alarms_over_a_hundred_thousand_rounds(law: str) -> None:
    found = false_alarms(law, 0.1, 200, 100_000)
    assert found <= 36, found  # P(Binomial(200, 0.1) > 36) < 2e-4


def test_a_change_to_compare_with_is_found_soon() -> None:
    delays = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        detector = pmb.ChangeDetector(0.01)
        detector.extend(rng.normal(0.0, 1.0, 2000))
        found = detector.extend(rng.normal(1.0, 1.0, 1000))
        delays.append(found[0] + 1 if found else 1000)
    assert np.median(delays) < 100  # measured: 64


# ---- as an object ------------------------------------------------------------------------------------------
def test_one_by_one_is_the_same_as_at_once() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate((rng.random(700), rng.random(300) ** 3))
    together, single = pmb.ChangeDetector(0.05), pmb.ChangeDetector(0.05)
    found = together.extend(x)
    assert [j for j, reward in enumerate(x) if single.update(float(reward))] == found
    assert single.changes == together.changes
    assert pickle.loads(pickle.dumps(single)).extend(x) == together.extend(x)


def test_memory_is_bounded_and_the_moments_kept_reach_back() -> None:
    detector = pmb.ChangeDetector(1e-6)
    detector.extend(np.random.default_rng(0).random(200_000))
    assert detector._rows.size * 8 < 36_000
    used = int(detector._header[steps.USED])
    starts = detector._rows.reshape(-1, steps.ROW)[1 : used + 1, -1]
    age = detector._header[steps.STARTS] - starts
    assert 40 < used < 100
    old = age[:-1] > 64
    gaps = np.diff(starts)[old] / age[1:][old]
    assert gaps.max() < 0.3 and starts[0] < 0.3 * age[0]
    assert is_valid_detector(detector._header, detector._values, detector._rows)


def test_a_watch_that_cannot_be_is_recognised() -> None:
    detector = pmb.ChangeDetector(0.01)
    detector.extend(np.random.default_rng(1).random(500))
    for part in ("_header", "_rows"):
        whole = getattr(detector, part)
        for place in range(6 if part == "_header" else 3 * steps.ROW):
            if part == "_rows" and 32 <= place % steps.ROW < 33:
                continue
            for number in (-1, 10**6):
                kept = whole[place]
                whole[place] = number
                mine = is_valid_detector(detector._header, detector._values, detector._rows)
                whole[place] = kept
                assert not mine or (part, place) in {("_header", 0), ("_rows", steps.ROW - 1)}, (part, place, number)


@pytest.mark.parametrize(
    ("options", "rewards"),
    [
        ({"level": 0.0}, None),
        ({"level": 1.0}, None),
        ({"level": "x"}, None),
        ({"values": []}, None),
        ({"values": range(17)}, None),
        ({}, [0.0, math.nan]),
        ({}, [[1.0]]),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, Any], rewards: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        detector = pmb.ChangeDetector(**options)
        assert detector.n == 0
        detector.extend(rewards)
    one_sentence(caught.value)
