"""Play your own arms until a regret is certain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.policies.certainty import Certainty
from pmbandits.policies.policy import Policy
from pmbandits.policies.stopping import goal_of, met, must_promise, still_valid
from pmbandits.simulation.progress import Bar

OFTEN = 50  # a look when one in so many more rounds was played
MANY = 10**9  # rounds that the bar reckons with where neither ``most`` nor a forecast says how many


class Stop(NamedTuple):
    """The result of :func:`run_until`: why it stopped, and what to play.

    Attributes
    ----------
    certain : whether the regret is certain. If not, ``most`` rounds were played, or the confidence sets hold no longer.
    rounds : how many rounds were played in this call.
    mixture : the mixture to play from now on.
    certainty : how sure that mixture is.
    """

    certain: bool
    rounds: int
    mixture: FloatArray
    certainty: Certainty

    def __str__(self) -> str:
        start = (
            f"Certain after {self.rounds:,} rounds." if self.certain else f"Not certain after {self.rounds:,} rounds."
        )
        return f"{start} {self.certainty}"


def run_until(
    policy: Policy,
    pull: Callable[[int], float],
    regret: float | str,
    *,
    most: int | None = None,
    progress: bool | None = None,
    save: str | Path | None = None,
) -> Stop:
    """Ask, pull and tell until it is certain that the policy's mixture falls short of the best by at most ``regret``.

    Whenever 2 % more rounds were played, it looks with :meth:`Policy.done`. So when it ends, the mixture is that good
    with the probability that :meth:`Policy.certainty` states.

    Ctrl-C, or an error in ``pull``, leaves the policy as it is after the last reward. Call again with the same policy,
    and it goes on. A pull that was interrupted has no reward and counts as pulled, like any ask that is not answered.

    Parameters
    ----------
    policy : any policy that keeps confidence sets, new or with rewards already.
    pull : your function. It is given the position of an arm, pulls that arm, and returns the reward.
    regret : how much may be missing: in units of the utility, such as ``0.02``, or as a share of the best utility, such
        as ``"2%"``.
    most : the largest number of rounds to play in this call; by default as many as it takes.
    progress : whether to show a bar towards the forecast number of rounds. By default it is shown on a terminal only.
    save : a file in which the policy is saved at the end, whatever ended it, also after Ctrl-C.

    Examples
    --------
    >>> import numpy as np, pmbandits as pmb
    >>> rng = np.random.default_rng(1)
    >>> policy = pmb.Vet(pmb.GiniDeviation(), names=["A", "B"], support=pmb.Binary())
    >>> stop = pmb.run_until(policy, lambda arm: float(rng.random() < [0.4, 0.9][arm]), regret=0.02)
    >>> stop.certain, bool(stop.certainty.regret <= 0.02)
    (True, True)
    """
    goal = goal_of(regret)
    must_promise(policy)
    if most is not None:
        most = _check.whole("most", most, 0)
    if not callable(pull):
        raise TypeError(f"pull must be a function that is given an arm and returns its reward, got {pull!r}.")
    rounds, look = 0, 0
    try:
        with Bar(most or MANY, shown=progress, label=f"until the regret is at most {goal}") as bar:
            while True:
                if rounds >= look or rounds == most:
                    mixture, valid = policy.mixture, still_valid(policy)
                    sure = policy.certainty(mixture)
                    certain = valid and met(goal, sure)
                    if certain or not valid or rounds == most:
                        return Stop(certain, rounds, mixture, sure)
                    look = rounds + max(1, policy.t // OFTEN)
                    if bar.shown:
                        bar.expect(rounds, _expected(policy, regret, most, rounds))
                arm = policy.ask()
                policy.tell(arm, pull(arm))
                rounds += 1
    finally:
        if save is not None:
            policy.save(save)


def _expected(policy: Policy, regret: float | str, most: int | None, rounds: int) -> int:
    """How many rounds there will be in all, about."""
    more = policy.forecast(regret).rounds
    return min(int(rounds + more) if more < MANY else MANY, MANY if most is None else most)
