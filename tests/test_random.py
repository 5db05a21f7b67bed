"""The generator of the simulation: the same as numpy's, uniform, independent, and each law as scipy has it.

All seeds are fixed, and statistical thresholds have a false-alarm probability of about 1e-6: a failure is a defect.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as stats
from hypothesis import given, settings
from hypothesis import strategies as hyp

import pmbandits as pmb
from pmbandits import _random
from pmbandits.simulation import Rewards, _kernels, policy_seed
from pmbandits.simulation.rewards import BLOCK_SIZE, sampler_arrays_of_bandit
from tests.reference import simulation as slow

SMALL = 1e-6
EXTREME = (0, 1, 2, 3, 2**11, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
words = hyp.one_of(hyp.sampled_from(EXTREME), hyp.integers(0, 2**64 - 1))
seeds = hyp.one_of(hyp.sampled_from([n for n in EXTREME if n < 2**63]), hyp.integers(0, 2**63 - 1))


def fast_philox(key: tuple[int, ...], counter: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(w) for w in _random.philox_random_words(*(np.uint64(n) for n in (*key, *counter))))


def uniforms(seed: int = 1, trial: int = 0, arm: int = 0, count: int = 100_000, n_arms: int = 1) -> np.ndarray:
    bandit = pmb.Bandit([stats.uniform(0, 1)] * max(n_arms, arm + 1))
    return Rewards(bandit, seed=seed, trial=trial).next(arm, count)


def chi_square(counts: np.ndarray) -> float:
    """The p-value of equal probabilities."""
    return float(stats.chisquare(np.ravel(counts)).pvalue)


def raw(seed: int, trial: int, blocks: int, arm: int = 0) -> np.ndarray:
    """64-bit words of consecutive blocks."""
    return np.array([fast_philox((seed, trial), (b, arm, 0, 0)) for b in range(blocks)], dtype=np.uint64)


# ---- Philox ----------------------------------------------------------------------------------------------
@settings(max_examples=300, deadline=None)
@given(hyp.tuples(words, words), hyp.tuples(words, words, words, words))
def test_philox_is_numpys(key: tuple[int, int], counter: tuple[int, int, int, int]) -> None:
    theirs = tuple(int(w) for w in slow.numpy_philox(key, counter).random_raw(4))
    assert fast_philox(key, counter) == theirs == slow.philox(key, counter)


def test_philox_has_the_published_test_vectors() -> None:
    """kat_vectors of Random123: philox4x64 10."""
    full, pi = 2**64 - 1, (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
    zeros = (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)
    ones = (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0)
    digits = (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6)
    assert fast_philox((0, 0), (0, 0, 0, 0)) == zeros
    assert fast_philox((full, full), (full,) * 4) == ones
    assert fast_philox((0x452821E638D01377, 0xBE5466CF34E90C6C), pi) == digits


@settings(max_examples=100, deadline=None)
@given(words)
def test_unit_and_inner_are_inside_and_exact(word: int) -> None:
    u, middle = (
        float(_random.uniform_from_word(np.uint64(word))),
        float(_random.open_uniform_from_word(np.uint64(word))),
    )
    assert u == slow.uniform(word)
    assert middle == slow.open_uniform(word)
    assert 0.0 <= u < 1.0
    assert u <= middle < 1.0


@settings(max_examples=60, deadline=None)
@given(seeds, seeds, hyp.integers(0, 3), hyp.integers(1, 50))
def test_uniform_rewards_are_numpys_random(seed: int, trial: int, arm: int, count: int) -> None:
    theirs = np.random.Generator(slow.numpy_philox((seed, trial), (0, arm, 0, 0))).random(count)
    np.testing.assert_array_equal(uniforms(seed, trial, arm, count), theirs)


def test_counters_carry_far_out() -> None:
    """Rewards beyond the 2^32-th: the counter is a 64-bit number, and does not run into the next arm's."""
    rewards = Rewards(pmb.Bandit([stats.uniform(0, 1), stats.beta(2, 3)]), seed=5, trial=9)
    for start in (2**32 - 8, 2**34 + 4, 2**52):
        rewards._stream.used[:] = start
        for arm, distribution in ((0, ("uniform", 0.0, 1.0)), (1, ("beta", 2.0, 3.0, 0.0, 1.0))):
            expected = [slow.reward(distribution, 5, 9, arm, start + j) for j in range(8)]
            np.testing.assert_allclose(rewards.next(arm, 8), expected, rtol=1e-12)


# ---- every reward is the reference's ---------------------------------------------------------------------
POINTS, CHANCES = [-1.0, 0.0, 0.25, 3.0], [0.1, 0.45, 0.4, 0.05]
SAMPLE = [3.0, 1.0, 1.0, 2.5, -4.0, 2.5, 2.5]
LAWS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bernoulli": (pmb.Bandit.bernoulli([0.37]).distributions[0], ("bernoulli", 0.37)),
    "bernoulli 0": (pmb.Bandit.bernoulli([0.0]).distributions[0], ("bernoulli", 0.0)),
    "bernoulli 1": (pmb.Bandit.bernoulli([1.0]).distributions[0], ("bernoulli", 1.0)),
    "atoms": (stats.rv_discrete(values=([-1, 0, 3], [0.2, 0.5, 0.3])), ("atoms", [-1, 0, 3], [0.2, 0.5, 0.3])),
    "sample": (SAMPLE, ("atoms", [-4.0, 1.0, 2.5, 3.0], [1 / 7, 2 / 7, 3 / 7, 1 / 7])),
    "uniform": (stats.uniform(-2, 5), ("uniform", -2.0, 5.0)),
    "normal": (stats.norm(1.5, 0.3), ("normal", 1.5, 0.3)),
    "normal by name": (stats.norm(scale=2.0, loc=-1.0), ("normal", -1.0, 2.0)),
    "exponential": (stats.expon(1.0, 0.5), ("exponential", 1.0, 0.5)),
    "beta": (stats.beta(2.0, 3.0), ("beta", 2.0, 3.0, 0.0, 1.0)),
    "beta below one": (stats.beta(0.05, 0.5, loc=-1.0, scale=4.0), ("beta", 0.05, 0.5, -1.0, 4.0)),
    "beta huge": (stats.beta(500.0, 1.0), ("beta", 500.0, 1.0, 0.0, 1.0)),
    "gamma": (stats.gamma(2.0), ("block", stats.gamma(2.0))),
    "poisson": (stats.poisson(3.0), ("block", stats.poisson(3.0))),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("seed", "trial"), [(0, 0), (12345, 7), (2**63 - 1, 2**63 - 1)])
def test_rewards_are_the_references(name: str, seed: int, trial: int) -> None:
    distribution, described = LAWS[name]
    bandit = pmb.Bandit([stats.norm(), distribution])  # the arm's number counts too
    rewards = Rewards(bandit, seed=seed, trial=trial)
    expected = [slow.reward(described, seed, trial, 1, n) for n in range(60)]
    np.testing.assert_allclose(rewards.next(1, 60), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(rewards.used, [0, 60])


@pytest.mark.parametrize("name", ["bernoulli", "atoms", "sample", "uniform", "poisson"])
def test_exact_distributions_are_exact(name: str) -> None:
    distribution, described = LAWS[name]
    found = Rewards(pmb.Bandit([distribution]), seed=8, trial=3).next(0, 200)
    assert found.tolist() == [slow.reward(described, 8, 3, 0, n) for n in range(200)]


# ---- uniform and independent -----------------------------------------------------------------------------
@pytest.mark.parametrize(("seed", "trial", "arm"), [(0, 0, 0), (1, 0, 0), (0, 1, 1), (2**63 - 1, 2**40, 2)])
def test_uniformity(seed: int, trial: int, arm: int) -> None:
    u = uniforms(seed, trial, arm, 200_000)
    for buckets in (16, 1000):
        assert chi_square(np.bincount((u * buckets).astype(int), minlength=buckets)) > SMALL
    assert stats.kstest(u, "uniform").pvalue > SMALL
    low = (u * 2**53).astype(np.int64) % 256  # the lowest bits that reach a reward
    assert chi_square(np.bincount(low, minlength=256)) > SMALL
    for place in range(4):  # each word of a block
        assert stats.kstest(u[place::4], "uniform").pvalue > SMALL


def test_every_bit_is_fair_and_unlike_the_others() -> None:
    found = raw(3, 5, 5000).ravel()
    bits = ((found[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(float)
    n = bits.shape[0]
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6.5 * 0.5 / np.sqrt(n)
    together = np.corrcoef(bits.T) - np.eye(64)
    assert np.abs(together).max() < 6.5 / np.sqrt(n)


def test_serial_correlation_and_pairs() -> None:
    u = uniforms(7, 2, 1, 200_000)
    for lag in (1, 2, 3, 4, 5, 8, 64, 1000):
        r = np.corrcoef(u[:-lag], u[lag:])[0, 1]
        assert abs(r) < 6.0 / np.sqrt(u.size - lag), lag
        cells = (u[:-lag:2] * 16).astype(int) * 16 + (u[lag::2] * 16).astype(int)[: u[:-lag:2].size]
        if lag % 2:  # disjoint pairs
            assert chi_square(np.bincount(cells, minlength=256)) > SMALL, lag
    runs = np.diff(u) > 0  # ups and downs: their number is normal with known moments
    count, n = 1 + np.count_nonzero(runs[1:] != runs[:-1]), u.size
    assert abs(count - (2 * n - 1) / 3) < 6.0 * np.sqrt((16 * n - 29) / 90)


NEIGHBOURS = {
    "arms": [(0, 0, arm) for arm in range(6)],
    "trials": [(0, trial, 0) for trial in range(6)],
    "seeds": [(seed, 0, 0) for seed in range(6)],
    "seed and trial swapped": [(1, 2, 0), (2, 1, 0)],
    "arm and trial swapped": [(0, 1, 2), (0, 2, 1)],
    "high bits": [(0, 0, 0), (2**62, 0, 0), (0, 2**62, 0), (2**62, 2**62, 0)],
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_are_independent(name: str) -> None:
    n = 30_000
    streams = np.array([uniforms(*where, count=n) for where in NEIGHBOURS[name]])
    together = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(together).max() < 6.0 / np.sqrt(n)
    for i in range(len(streams)):
        for j in range(i):
            assert not np.isin(streams[i], streams[j]).any()
            for shift in (0, 1, 4):
                a, b = streams[i][: n - shift], streams[j][shift:]
                cells = (a * 12).astype(int) * 12 + (b * 12).astype(int)
                assert chi_square(np.bincount(cells, minlength=144)) > SMALL
    joint = np.sort(streams.T, axis=1)  # the largest of independent numbers
    assert stats.kstest(joint[:, -1] ** len(streams), "uniform").pvalue > SMALL


def test_across_many_trials_and_arms() -> None:
    """One number each of many trials (and of many arms) is uniform too: what a trial's average depends on."""
    bandit = pmb.Bandit([stats.uniform(0, 1)] * 2)
    first = np.array([Rewards(bandit, seed=4, trial=k).next(1, 2) for k in range(4000)])
    assert stats.kstest(first[:, 0], "uniform").pvalue > SMALL
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) < 6.0 / np.sqrt(4000)
    assert abs(np.corrcoef(first.T)[0, 1]) < 6.0 / np.sqrt(4000)
    crowd = Rewards(pmb.Bandit([stats.uniform(0, 1)] * 3000), seed=4)
    found = np.array([crowd.next(arm)[0] for arm in range(3000)])
    assert stats.kstest(found, "uniform").pvalue > SMALL
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 6.0 / np.sqrt(3000)


@pytest.mark.parametrize("place", range(6))
def test_avalanche(place: int) -> None:
    """One flipped bit of seed, trial or counter flips each bit of the result with probability one half."""
    rng, flips = np.random.default_rng(place), []
    for _ in range(40):
        start = [int(n) for n in rng.integers(0, 2**63, 6)]
        before = fast_philox((start[0], start[1]), tuple(start[2:]))
        for bit in range(64):
            changed = list(start)
            changed[place] ^= 1 << bit
            after = fast_philox((changed[0], changed[1]), tuple(changed[2:]))
            flips.append([(a ^ b).bit_count() for a, b in zip(before, after, strict=True)])
    share = np.array(flips) / 64
    assert share.min() > 0.1
    assert abs(share.mean() - 0.5) < 6.0 * 0.5 / np.sqrt(share.size * 64)


# ---- the laws --------------------------------------------------------------------------------------------
BETAS = [(1, 1), (2, 3), (0.5, 0.5), (0.3, 4.0), (5.0, 0.7), (1.0, 0.2), (0.05, 0.05), (0.05, 2.0), (500, 500),
         (500, 0.5), (1, 500), (30.0, 2.0)]  # fmt: skip
CONTINUOUS = {
    "uniform": stats.uniform(0, 1),
    "uniform moved": stats.uniform(-3, 0.01),
    "norm": stats.norm(),
    "norm moved": stats.norm(-2, 7),
    "expon": stats.expon(),
    "expon moved": stats.expon(4, 0.2),
    **{f"beta {a} {b}": stats.beta(a, b) for a, b in BETAS},
    "beta moved": stats.beta(0.6, 1.4, loc=-5, scale=3),
    "gamma": stats.gamma(0.7, scale=2),
    "lognorm": stats.lognorm(0.8),
    "truncnorm": stats.truncnorm(-1, 2),
    "t": stats.t(5),
    "triang": stats.triang(0.3),
}
LATTICE = {
    "bernoulli": stats.bernoulli(0.03),
    "binom": stats.binom(6, 0.4),
    "randint": stats.randint(-2, 9),
    "poisson": stats.poisson(2.5),
    "geom": stats.geom(0.4),
    "nbinom": stats.nbinom(3, 0.5),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    distribution = CONTINUOUS[name]
    found = Rewards(pmb.Bandit([stats.norm(), distribution]), seed=11, trial=2).next(1, 20_000)
    lo, hi = distribution.support()
    assert np.isfinite(found).all()
    assert found.min() >= lo
    assert found.max() <= hi
    # Tiny beta shapes pile up at 1 in floating point, where cdf and ranks only agree up to the steps there.
    steps = np.unique(found)
    below = np.searchsorted(np.sort(found), steps, side="right") / found.size
    distance = np.abs(below - distribution.cdf(steps)).max()
    assert distance < stats.kstwo.isf(SMALL, found.size), distance
    if not name.endswith("t"):
        far = np.abs(found.mean() - distribution.mean()) / (distribution.std() / np.sqrt(found.size))
        assert far < 6.0


@pytest.mark.parametrize("name", LATTICE)
def test_lattice_distributions(name: str) -> None:
    distribution = LATTICE[name]
    found = Rewards(pmb.Bandit([distribution, distribution]), seed=12, trial=1).next(1, 20_000)
    values, counts = np.unique(found, return_counts=True)
    np.testing.assert_array_equal(values, np.round(values))
    expected = distribution.pmf(values) * found.size
    often = expected >= 5
    rest = max(found.size - expected[often].sum(), 1e-9)
    tail = counts[~often].sum()
    got, want = counts[often].astype(float), expected[often]
    if rest > 1:
        got, want = np.append(got, tail), np.append(want, rest)
    assert stats.chisquare(got, want * got.sum() / want.sum()).pvalue > SMALL


@pytest.mark.parametrize(("a", "b"), BETAS)
def test_beta_moments(a: float, b: float) -> None:
    distribution, n = stats.beta(a, b), 20_000
    x = Rewards(pmb.Bandit([distribution]), seed=21).next(0, n)
    assert abs(x.mean() - distribution.mean()) < 6.0 * distribution.std() / np.sqrt(n)
    spread = (x - distribution.mean()) ** 2
    error = np.sqrt(
        max(
            distribution.moment(4)
            - 4 * distribution.moment(3) * distribution.mean()
            + 6 * distribution.moment(2) * distribution.mean() ** 2
            - 3 * distribution.mean() ** 4
            - distribution.var() ** 2,
            1e-30,
        )
        / n
    )
    assert abs(spread.mean() - distribution.var()) < 6.5 * error + 1e-12
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 6.5 / np.sqrt(n)


def test_finite_and_sampled_arms_pay_their_points_as_often_as_they_should() -> None:
    weights = np.array([0.01, 0.2, 0.39, 0.4])
    distribution = stats.rv_discrete(name="mine", values=(np.arange(4), weights))
    logged = np.repeat([0.1, 0.2, 0.7], [1, 5, 4])
    rewards = Rewards(pmb.Bandit([distribution, logged]), seed=3)
    for arm, points, chances in ((0, np.arange(4.0), weights), (1, [0.1, 0.2, 0.7], [0.1, 0.5, 0.4])):
        found = rewards.next(arm, 40_000)
        values, counts = np.unique(found, return_counts=True)
        np.testing.assert_array_equal(values, points)
        assert stats.chisquare(counts, np.array(chances) * found.size).pvalue > SMALL


def test_a_familys_namesake_is_not_mistaken_for_it() -> None:
    """A user's own distribution that is called "norm" draws its own numbers, not those of scipy's."""

    class Mine(stats.rv_continuous):
        def _cdf(self, x: Any) -> Any:
            return np.clip(x, 0.0, 1.0) ** 2

        def _ppf(self, q: Any) -> Any:
            return np.sqrt(q)

    bandit = pmb.Bandit([Mine(name="norm", a=0.0, b=1.0)()])
    assert sampler_arrays_of_bandit(bandit).kinds.tolist() == [_kernels.PREDRAWN]
    found = Rewards(bandit, seed=1).next(0, 5000)
    assert stats.kstest(found, lambda x: np.clip(x, 0, 1) ** 2).pvalue > SMALL


# ---- (seed, trial, arm, n) and nothing else --------------------------------------------------------------
MANY = [LAWS[name][0] for name in ("bernoulli", "atoms", "sample", "uniform", "normal", "exponential", "beta", "gamma")]


@settings(max_examples=40, deadline=None)
@given(hyp.data())
def test_any_split_gives_the_same_numbers(data: Any) -> None:
    bandit = pmb.Bandit(MANY)
    whole = [Rewards(bandit, seed=9, trial=4).next(arm, 2200) for arm in range(len(MANY))]
    rewards, used = Rewards(bandit, seed=9, trial=4), [0] * len(MANY)
    sizes = hyp.one_of(hyp.integers(0, 9), hyp.sampled_from([BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1]))
    for arm, size in data.draw(hyp.lists(hyp.tuples(hyp.integers(0, len(MANY) - 1), sizes), max_size=25)):
        size = min(size, 2200 - used[arm])
        np.testing.assert_array_equal(rewards.next(arm, size), whole[arm][used[arm] : used[arm] + size])
        used[arm] += size
    assert rewards.used.tolist() == used


def test_other_arms_do_not_matter() -> None:
    """Neither what they are nor how often they were drawn; the same law in another place is another stream."""
    for distribution in MANY:
        alone = Rewards(pmb.Bandit([stats.norm(), distribution]), seed=2, trial=6).next(1, 50)
        crowd = Rewards(pmb.Bandit([stats.gamma(2.0), distribution, stats.beta(1, 2), [0.0, 1.0]]), seed=2, trial=6)
        for arm in (0, 2, 3):
            crowd.next(arm, 1500)
        np.testing.assert_array_equal(crowd.next(1, 50), alone)
    for where in ({"seed": 3, "trial": 6}, {"seed": 2, "trial": 7}):
        assert not np.array_equal(Rewards(pmb.Bandit(MANY), **where).next(3, 20), uniforms(2, 6, 3, 20))


def test_arms_by_name_and_bad_input() -> None:
    bandit = pmb.Bandit.bernoulli([0.2, 0.8], names=["a", "b"])
    np.testing.assert_array_equal(Rewards(bandit, seed=1).next("b", 9), Rewards(bandit, seed=1).next(1, 9))
    assert Rewards(bandit).next(0, 0).size == 0
    for wrong in ({"seed": -1}, {"seed": 2**63}, {"trial": -1}, {"trial": 2**63}):
        with pytest.raises(ValueError, match="between 0 and"):
            Rewards(bandit, **wrong)
    with pytest.raises(TypeError, match="whole number"):
        Rewards(bandit, seed=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 0"):
        Rewards(bandit).next(0, -1)
    with pytest.raises(IndexError, match="no arm 2"):
        Rewards(bandit).next(2)
    with pytest.raises(TypeError, match="must be a Bandit"):
        Rewards([0.2, 0.8])  # type: ignore[arg-type]


# ---- the policies' own seeds -----------------------------------------------------------------------------
@settings(max_examples=100, deadline=None)
@given(seeds, seeds, hyp.one_of(hyp.integers(0, 2**53), hyp.sampled_from([0, 1, 2**53])))
def test_policy_seed_is_the_references_and_a_whole_float(seed: int, trial: int, own: int) -> None:
    found = policy_seed(seed, trial, own)
    assert found == slow.policy_seed(seed, trial, own)
    assert 0 <= found < 2**53
    assert int(float(found)) == found


def test_policy_seeds_differ() -> None:
    found = {policy_seed(s, k, own) for s in range(12) for k in range(12) for own in range(12)}
    assert len(found) == 12**3
    rewards = {slow.word(s, k, a, n) >> 11 for s in range(12) for k in range(12) for a in range(3) for n in range(12)}
    assert not found & rewards  # nor is a policy's seed what an arm draws


def test_uniform_uses_the_seed() -> None:
    bandit = pmb.Bandit.bernoulli([0.5] * 4)
    orders = set()
    for trial in range(5):
        for own in range(3):
            policy = pmb.Uniform(seed=own).bind(pmb.Mean(), 4, bandit.support, seed=policy_seed(0, trial, own))
            orders.add(tuple(policy.ask(40).tolist()))
    assert len(orders) == 15


@pytest.mark.parametrize("shape", [0.2, 1.0, 1.7, 40.0, 1e5])
def test_the_quick_test_of_gamma_variates_accepts_nothing_that_the_exact_one_refuses(shape: float) -> None:
    key = np.array([3, 8], dtype=np.uint64)
    found = [_random.log_gamma_variate(key, n, 2, shape, _random.GAMMA_A) for n in range(300)]
    expected = [slow.log_gamma(3, 8, 2, n, shape, _random.GAMMA_A) for n in range(300)]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    if shape >= 1.0:
        direct = [math.log(_random.gamma_variate(key, n, 2, shape, _random.GAMMA_A)) for n in range(300)]
        assert direct == found
