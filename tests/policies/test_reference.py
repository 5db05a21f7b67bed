"""The compiled policies make the same pulls as slow references written from the pseudocode, pull by pull."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.metrics.encoding import _BUCKETS, encode_metric
from tests.helpers import covering
from tests.reference import policies as slow


def dampened(u: Any) -> Any:
    return u * (1.0 - u) * (1.3 - 0.6 * u)


METRICS: dict[str, Any] = {
    "gini": pmb.GiniDeviation(),
    "wang": pmb.WangRightTail(),
    "upper_cvar": pmb.UpperCVaR(0.9),
    "lower_cvar": pmb.LowerCVaR(0.2),
    "quadratic": pmb.Quadratic(0.5),
    "inverted_s": pmb.InvertedS(0.5),
    "blend": 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
    "shortfall": pmb.GiniShortfall(0.5, 0.8),
    "function": pmb.Distortion.from_function(dampened, name="dampened", holder=(1.0, 1.3)),
}
PACKED = encode_metric(METRICS["function"])
INDEX_SIZE = _BUCKETS + 1  # stands behind the table
TABLE = PACKED[-2 * int(PACKED[2]) - INDEX_SIZE : -INDEX_SIZE].reshape(-1, 2)


def tabled(u: Any) -> Any:
    """The user's function as compiled code has it: linear between the points of a table."""
    return np.interp(u, TABLE[:, 0], TABLE[:, 1])


TWINS = {"function": pmb.Distortion.from_function(tabled, name="tabled", holder=(1.0, 1.3))}
SUPPORTS = ("binary", "finite", "interval", "real")


def instance(support: str, n_arms: int, rounds: int, seed: int) -> tuple[Any, np.ndarray]:
    """A random support of the kind, and the n-th reward of arm i for all i and n."""
    rng = np.random.default_rng([seed, SUPPORTS.index(support), n_arms])
    if support == "binary":
        means = rng.uniform(0.05, 0.95, (n_arms, 1))
        return pmb.Binary(), (rng.random((n_arms, rounds)) < means).astype(float)
    if support == "finite":
        atoms = np.unique(np.round(rng.uniform(-1.0, 2.0, rng.integers(3, 7)), 3))
        chances = rng.dirichlet(np.full(atoms.size, 0.7), n_arms)
        return pmb.Finite(atoms), np.array([rng.choice(atoms, rounds, p=row) for row in chances])
    if support == "interval":
        shape = rng.uniform(0.5, 4.0, (2, n_arms, 1))
        return pmb.Interval(-0.5, 1.5), 2.0 * rng.beta(shape[0], shape[1], (n_arms, rounds)) - 0.5
    return pmb.Real(1.0), rng.normal(rng.uniform(-1.0, 3.0, (n_arms, 1)), 1.0, (n_arms, rounds))


@dataclass(frozen=True)
class Case:
    policy: str
    metric: str
    support: str
    n_arms: int
    rounds: int
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __str__(self) -> str:
        extra = "-".join(f"{v}" for k, v in self.options.items() if k in ("confidence", "stopping"))
        return "-".join(filter(None, (self.policy, self.support, self.metric, f"K{self.n_arms}", extra)))


def pair(name: str, policy: str, n_arms: int, support: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The fast policy and the slow one, alike."""
    metric = TWINS.get(name, METRICS[name])
    if isinstance(support, pmb.Real) and policy in ("PMUCB", "CEUCB", "CIRT", "FixedGrid"):
        options = {"confidence": "wasserstein", **options}  # the slow ones have no belts on the line
    fast = getattr(pmb, policy)(METRICS[name], n_arms=n_arms, support=support, **options)
    if policy == "UCB1":
        return fast, slow.UCB1(metric, n_arms, support)
    given = {k: v for k, v in options.items() if (k, v) != ("confidence", "auto")}
    if policy in ("PMUCB", "CEUCB"):
        given.setdefault("rho", 0.1)
    return fast, getattr(slow, policy)(metric, n_arms, support, **given)


def story(fast: Any, reference: Any, t: int, arm: int, expected: int) -> str:
    """What to print on the first difference: both indices, and whether it is no more than a near-tie."""
    memory = fast._memory
    lines = [f"round {t}: the fast policy pulls {arm}, the reference {expected}"]
    lines += [f"mixtures: {memory.mix.tolist()} and {reference.mixture}", f"pulls: {reference.pulls}"]
    if isinstance(reference, (slow.PMUCB, slow.FixedGrid)):
        ours, theirs = memory.index[: memory.n_grid_used], reference.index()
        top = np.sort(theirs)[-2:]
        near = top.size == 2 and top[1] - top[0] < 1e-10
        lines += [f"index: {ours.tolist()}", f"reference: {theirs.tolist()}"]
        lines += [f"largest difference {np.abs(ours - theirs).max():.3g}; top two {top.tolist()}; near-tie: {near}"]
    return "\n".join(lines)


def play(fast: Any, reference: Any, rewards: np.ndarray, rounds: int, look: int = 40) -> None:
    n_arms = rewards.shape[0]
    told, phase = [0] * n_arms, reference.phase
    for t in range(rounds):
        arm, expected = fast.ask(), reference.ask()
        if arm != expected:
            raise AssertionError(story(fast, reference, t, arm, expected))
        looking = t % look == 0 or t == rounds - 1 or reference.phase != phase
        phase = reference.phase
        if looking and reference.mixture is not None:
            assert np.allclose(fast.mixture, reference.mixture, rtol=0.0, atol=1e-12), t
        if looking and isinstance(reference, slow.CIRT):
            assert fast.phase_ends == tuple(reference.phase_ends), t
            assert fast.phase == (reference.phase if reference.phase <= reference.phases else "track"), t
        reward = float(rewards[arm, told[arm]])
        told[arm] += 1
        fast.tell(arm, reward)
        reference.tell(arm, reward)
    assert fast.pulls.tolist() == reference.pulls


def run(case: Case) -> tuple[Any, Any]:
    support, rewards = instance(case.support, case.n_arms, case.rounds, case.seed)
    fast, reference = pair(case.metric, case.policy, case.n_arms, support, case.options)
    play(fast, reference, rewards, case.rounds)
    return fast, reference


def options_of(policy: str, n_arms: int, rounds: int, coarse: bool = False) -> dict[str, Any]:
    if policy == "UCB1":
        return {}
    if policy == "PMETC":
        return {"horizon": rounds - 50, "epsilon": (1 / 16, 1 / 8, 1 / 6)[n_arms - 2]}
    if policy in ("PMUCB", "CEUCB"):
        spacing = (1 / 8, 1 / 5, 1 / 4) if coarse else (1 / 16, 0.1, 1 / 6)
        return {"horizon": rounds, "epsilon": spacing[n_arms - 2]}
    if policy == "CIRT":
        return {"epsilon": 0.2 if n_arms < 4 else 0.3}
    return {"epsilon": (0.5, 0.8, 1.0)[n_arms - 2] if coarse else (0.25, 0.5, 1.0)[n_arms - 2]}


def suits(policy: str, metric: str, support: str) -> bool:
    """Whether the policy has what it needs: a Hölder pair, and a bounded support for metrics steep at 0."""
    if policy == "UCB1" or (policy == "PMETC" and metric != "wang"):
        return True
    if metric == "inverted_s":
        return policy != "CEUCB" and support != "real"
    return support != "real" or metric != "wang"


def cases(supports: tuple[str, ...], rounds: tuple[int, int, int], coarse: bool = False) -> list[Any]:
    """Every policy with every metric that it can serve, K = 2, 3, 4 in turn; the shortest first.

    In `make test` every policy, every metric and every K occurs on every support, and in `make test-all` all pairs do.
    """
    out = []
    turn = 0
    for support in supports:
        for metric in METRICS:
            for policy in ("PMETC", "PMUCB", "CEUCB", "CIRT", "FixedGrid"):
                if not suits(policy, metric, support):
                    continue
                turn += 1
                n_arms = 2 + turn % 3
                length = rounds[n_arms - 2]
                options = options_of(policy, n_arms, length, coarse)
                out.append(Case(policy, metric, support, n_arms, length, options, seed=1))
    out.sort(key=lambda case: case.rounds)
    return covering(out, lambda case: ((case.support, one) for one in (case.policy, case.metric, case.n_arms)))


@pytest.mark.parametrize("case", cases(("binary", "finite"), (2000, 1200, 700)), ids=str)
def test_same_pulls_on_finite_supports(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", cases(("interval", "real"), (350, 250, 150), coarse=True), ids=str)
def test_same_pulls_on_continuous_rewards(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("n_arms", [2, 3, 4])
def test_ucb1_makes_the_same_pulls(support: str, n_arms: int) -> None:
    run(Case("UCB1", "gini", support, n_arms, 1500))


def with_confidence() -> list[Case]:
    """Sets other than the default. Wasserstein balls on bounded supports are slow in the reference: fewer rounds."""
    out = []
    turn = 0
    for support, names, length in (
        ("binary", ("dkw", "wasserstein", "paper"), 800),
        ("finite", ("wasserstein", "paper"), 100),
        ("interval", ("wasserstein", "paper"), 80),
        ("real", ("paper",), 200),
    ):
        balls = support in ("finite", "interval")
        for confidence in names:
            for policy in ("PMUCB", "CEUCB", "CIRT", "FixedGrid"):
                for metric in ("gini", "lower_cvar", "shortfall", "wang", "inverted_s"):
                    turn += 1
                    if not suits(policy, metric, support) or (policy, support, confidence) == TO_THE_LETTER:
                        continue
                    if balls and policy != "CEUCB" and (turn % 2 or metric == "inverted_s"):
                        continue
                    n_arms = 3 if not balls and turn % 2 else 2
                    options = {**options_of(policy, n_arms, length, True), "confidence": confidence}
                    if policy in ("PMUCB", "CEUCB"):
                        options["delta"] = 0.5
                    out.append(Case(policy, metric, support, n_arms, length, options, seed=2))
    for support in ("finite", "interval"):
        options = {**options_of("PMUCB", 2, 50, True), "confidence": "wasserstein", "delta": 0.5}
        out.append(Case("PMUCB", "inverted_s", support, 2, 50, options, seed=2))
    return out


TO_THE_LETTER = ("CEUCB", "binary", "paper")  # has a test of its own


@pytest.mark.slow
@pytest.mark.parametrize("case", with_confidence(), ids=str)
def test_same_pulls_with_every_confidence_set(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("metric", ["gini", "wang"])
def test_ce_ucb_adds_the_papers_radius_to_the_letter_on_binary_rewards(metric: str) -> None:
    """``eq:UCB_alpha2``: 𝓛·Σ(a(i)·r)^q with r = 16(√(2e·log T) + 32)/√n, which is not cut at the width of [0, 1]."""
    options = {"horizon": 800, "epsilon": 1 / 8, "confidence": "paper"}
    run(Case("CEUCB", metric, "binary", 2, 800, options, seed=2))


def bernoulli(means: tuple[float, ...], rounds: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((len(means), rounds)) < np.array(means)[:, None]).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("means", "metric", "options", "rounds", "tracks"),
    [
        ((0.2, 0.9), "gini", {"epsilon": 0.25}, 4000, True),
        ((0.02, 0.98), "gini", {"epsilon": 0.25, "stopping": "literal"}, 2500, True),
        ((0.1, 0.95), "gini", {"epsilon": 0.3, "stopping": "literal", "branching": 6}, 3000, False),
        ((0.1, 0.7), "wang", {"epsilon": 0.25}, 4000, True),
        ((0.05, 0.95), "lower_cvar", {"epsilon": 0.25, "stopping": "literal"}, 2500, True),
        ((0.1, 0.9), "blend", {"epsilon": 0.25, "stopping": "literal"}, 2500, True),
        ((0.1, 0.9), "quadratic", {"epsilon": 0.12, "branching": 6}, 2500, True),
        ((0.2, 0.5, 0.8), "gini", {"epsilon": 0.5}, 4000, True),
        ((0.05, 0.5, 0.95), "gini", {"epsilon": 0.3}, 4000, True),
        ((0.1, 0.1, 0.9), "blend", {"epsilon": 0.4}, 2500, True),
        ((0.5, 0.5, 0.5, 0.5), "gini", {"epsilon": 0.5, "tolerance": 0.01}, 1500, True),
    ],
)
def test_cirt_makes_the_same_pulls_through_its_phases(
    means: tuple[float, ...],
    metric: str,
    options: dict[str, Any],
    rounds: int,
    tracks: bool,
) -> None:
    fast, reference = pair(metric, "CIRT", len(means), pmb.Binary(), options)
    play(fast, reference, bernoulli(means, rounds), rounds)
    assert len(fast.phase_ends) >= 1
    assert (fast.phase == "track") == tracks, fast.phase_ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "n_arms", "phases_ended"), [("gini", 2, 2), ("lower_cvar", 3, 1), ("blend", 2, 2), ("shortfall", 3, 2)]
)
def test_cirt_makes_the_same_pulls_through_its_phases_on_finite_arms(
    metric: str, n_arms: int, phases_ended: int
) -> None:
    rng = np.random.default_rng(3)
    atoms = np.array([0.0, 0.3, 0.7, 1.0])
    chances = np.array([[0.9, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9], [0.25, 0.25, 0.25, 0.25]])[:n_arms]
    rewards = np.array([rng.choice(atoms, 2500, p=row) for row in chances])
    options = {"epsilon": 0.4, "exploration": 0.5, "tolerance": 0.08}
    fast, reference = pair(metric, "CIRT", n_arms, pmb.Finite(atoms), options)
    play(fast, reference, rewards, 2500)
    assert len(fast.phase_ends) == phases_ended
    assert (fast.phase == "track") == (phases_ended == fast.phases)


class OwnBall:
    """The paper's ball, as a user would write it."""

    kind = "ball"

    def radius(self, n: Any) -> Any:
        return 16 * (np.sqrt(2 * np.e * np.log(800)) + 32) / np.sqrt(n)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_a_ball_of_ones_own_gets_the_same_plain_bonus_as_the_papers(scale: float) -> None:
    """``eq:UCB_alpha2`` on 0/1 rewards: the radius is not cut off where the interval would leave [0, 1]."""
    own = type("Scaled", (OwnBall,), {"radius": lambda self, n: scale * OwnBall.radius(self, n)})()
    options: dict[str, Any] = {"n_arms": 2, "support": pmb.Binary(), "horizon": 800, "epsilon": 1 / 8}
    policy = pmb.CEUCB(pmb.GiniDeviation(), confidence=own, **options)
    like = pmb.CEUCB(pmb.GiniDeviation(), confidence="paper", **options) if scale == 1.0 else None
    grid, rewards = pmb.ucb_grid(2, 1 / 8), bernoulli((0.1, 0.8), 800)
    given: list[list[float]] = [[], []]
    for _ in range(300):
        arm = policy.ask()
        assert like is None or like.ask() == arm
        reward = rewards[arm, len(given[arm])]
        for one in filter(None, (policy, like)):
            one.tell(arm, reward)
        given[arm].append(reward)
        if min(map(len, given)) > 25:  # explored: what is played has the largest index
            mean, n = np.array([np.mean(x) for x in given]), np.array([len(x) for x in given])
            index = (grid @ mean) * (1 - grid @ mean) + grid @ own.radius(n)
            mine = index[np.abs(grid - policy.mixture).sum(axis=1).argmin()]
            assert mine == pytest.approx(index.max(), abs=1e-9)


def test_etc_refuses_to_leave_the_rest_to_an_arm_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="rest_arm=3"):
        pmb.PMETC(pmb.GiniDeviation(), n_arms=3, support=pmb.Binary(), horizon=100, rest_arm=3)


@pytest.mark.parametrize(
    "options", [{"n_explore": 7}, {"n_explore": 300}, {}, {"rest_arm": 0}, {"rest_arm": 1}], ids=str
)
def test_etc_makes_the_same_pulls_past_its_horizon(options: dict[str, Any]) -> None:
    fast, reference = pair("gini", "PMETC", 3, pmb.Binary(), {"horizon": 1000, "epsilon": 1 / 8, **options})
    play(fast, reference, bernoulli((0.1, 0.6, 0.9), 1500), 1500)


@pytest.mark.parametrize(
    ("policy", "support", "metric", "rounds", "options"),
    [
        ("PMUCB", "binary", "gini", 900, {"horizon": 900, "epsilon": 1 / 8}),
        ("PMUCB", "finite", "gini", 250, {"horizon": 250, "epsilon": 1 / 4}),
        ("CEUCB", "binary", "gini", 600, {"horizon": 600, "epsilon": 1 / 8}),
        ("PMETC", "binary", "upper_cvar", 300, {"horizon": 300, "epsilon": 1 / 8}),
    ],
)
@pytest.mark.parametrize("seed", [0, 11])
def test_ties_broken_at_random_are_those_of_the_reference(
    policy: str, support: str, metric: str, rounds: int, options: dict[str, Any], seed: int
) -> None:
    """Many mixtures tie at first, when every interval covers the peak of h: any may be taken, by the policy's seed."""
    kind, rewards = instance(support, 3, rounds, seed=2)
    if policy == "CEUCB":  # its index ties for arms that look alike
        rewards[:] = rewards[0]
    fast = getattr(pmb, policy)(METRICS[metric], n_arms=3, support=kind, ties="random", seed=seed, **options)
    more = {} if policy == "PMETC" else {"rho": 0.1}
    reference = getattr(slow, policy)(METRICS[metric], 3, kind, **more, **options)
    reference.ties, reference.seed = "random", seed
    play(fast, reference, rewards, rounds)
    assert reference.drawn > 0, "nothing was tied"
    other = getattr(pmb, policy)(METRICS[metric], n_arms=3, support=kind, ties="random", seed=seed + 1, **options)
    again = getattr(pmb, policy)(METRICS[metric], n_arms=3, support=kind, ties="random", seed=seed, **options)
    for _ in range(rounds):
        for each in (other, again):
            arm = each.ask()
            each.tell(arm, float(rewards[arm][each.pulls[arm] - 1]))
    assert again.pulls.tolist() == fast.pulls.tolist()
    assert other._memory.rng_counter > 0


def test_ties_at_random_need_a_grid() -> None:
    with pytest.raises(ValueError, match=r"ties='random'.*search='grid'"):
        pmb.PMUCB(METRICS["gini"], n_arms=3, support=pmb.Binary(), horizon=100, ties="random", search="continuous")
    with pytest.raises(ValueError, match="ties"):
        pmb.PMUCB(horizon=100, ties="any")
