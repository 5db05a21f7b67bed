"""Two policies become one that knows and counts what both did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.helpers import play_rewards

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0.0, 1.0)


@pytest.mark.parametrize(
    ("support", "estimates"),
    [(pmb.Binary(), "exact"), (UNIT, "exact"), (UNIT, "binned:32"), (UNIT, "sketch:8"), (pmb.Real(1), "sketch:8")],
    ids=str,
)
def test_merged_policies_know_and_count_what_both_did(support: Any, estimates: str) -> None:
    rng = np.random.default_rng(8)
    binary = isinstance(support, pmb.Binary)
    data = rng.random((2, 2, 1500)).round(0 if binary else 9) ** np.array([[[1.0]], [[2.0]]])
    options = {"n_arms": 2, "support": support, "horizon": 10_000, "epsilon": 0.25, "estimates": estimates}
    here, there, alone = (pmb.PMUCB(GINI, **options) for _ in range(3))
    for server, policy in enumerate((here, there)):
        arms = play_rewards(policy, data[:, server], 400)
        policy.ask(3)  # still awaited
        used = np.bincount(arms, minlength=2)
        for arm in range(2):
            policy.tell(arm, data[arm, server, used[arm] :])
            alone.tell(arm, data[arm, server])
    _ = here.mixture
    theirs, pulls, waiting = there.estimates, here.pulls + there.pulls, here.pending + there.pending
    here.merge(there)
    assert here.t == 806
    assert here.pulls.tolist() == pulls.tolist()
    assert here.pending.tolist() == waiting.tolist()
    assert [arm.n for arm in here.estimates] == [3000, 3000]
    assert repr(there.estimates) == repr(theirs)
    for weights in ([0.5, 0.5], [0.0, 1.0]):
        mine, wanted = here.utility_bounds(weights), alone.utility_bounds(weights)
        if estimates.startswith("sketch"):
            assert mine[0] <= wanted[1] <= mine[2]
            assert abs(mine[1] - wanted[1]) < 0.1
        else:
            assert mine == pytest.approx(wanted, abs=1e-12)
    if not estimates.startswith("sketch"):
        best = [policy.utility_bounds(policy.mixture)[2] for policy in (here, alone)]  # tied mixtures may differ
        assert best[0] == pytest.approx(best[1], abs=1e-9)
    here.ask()


def test_policies_that_differ_are_not_merged_and_nothing_changes() -> None:
    def made(metric: Any = GINI, support: Any = UNIT, names: Any = ("a", "b"), estimates: str = "exact") -> Any:
        return fed_names(pmb.CIRT(metric, support=support, names=names, estimates=estimates))

    def fed_names(policy: Any) -> Any:
        policy.tell([0, 1, 1], [0.0, 1.0, 1.0])
        return policy

    policy = made()
    before = repr((policy.estimates, policy.pulls, policy.mixture))
    for what, other in {
        "metric": made(metric=pmb.Mean()),
        "support": made(support=pmb.Interval(0, 2)),
        "names": made(names=("a", "c")),
        "estimates": made(estimates="binned"),
        "itself": policy,
        "recipe": pmb.CIRT(),
    }.items():
        with pytest.raises(ValueError, match=what):
            policy.merge(other)
    with pytest.raises(TypeError, match="another policy"):
        policy.merge("policy.pmb")  # type: ignore[arg-type]
    assert repr((policy.estimates, policy.pulls, policy.mixture)) == before
    policy.merge(made())
    assert [arm.n for arm in policy.estimates] == [2, 4]
