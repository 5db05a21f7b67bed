"""Play a policy against your own arms until its regret is certainly small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.engine.certainty import Certainty
from pmbandits.engine.policy import Policy
from pmbandits.engine.stopping import is_goal_met, is_within_set_horizon, parse_goal, require_guarantee
from pmbandits.simulation.progress import ProgressBar

CHECK_FRACTION = 50  # certainty is checked again after t // CHECK_FRACTION more rounds
UNKNOWN_TOTAL = 10**9  # total of the progress bar where neither ``most`` nor a forecast gives one


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
    goal = parse_goal(regret)
    require_guarantee(policy)
    if most is not None:
        most = _validation.check_whole_number("most", most, 0)
    if not callable(pull):
        raise TypeError(f"pull must be a function that is given an arm and returns its reward, got {pull!r}.")
    rounds, next_check = 0, 0
    try:
        with ProgressBar(most or UNKNOWN_TOTAL, shown=progress, label=f"until the regret is at most {goal}") as bar:
            while True:
                if rounds >= next_check or rounds == most:
                    mixture, valid = policy.mixture, is_within_set_horizon(policy)
                    found_certainty = policy.certainty(mixture)
                    certain = valid and is_goal_met(goal, found_certainty)
                    if certain or not valid or rounds == most:
                        return Stop(certain, rounds, mixture, found_certainty)
                    next_check = rounds + max(1, policy.t // CHECK_FRACTION)
                    if bar.shown:
                        bar.set_progress(rounds, _estimate_total_rounds(policy, regret, most, rounds))
                arm = policy.ask()
                policy.tell(arm, pull(arm))
                rounds += 1
    finally:
        if save is not None:
            policy.save(save)


def _estimate_total_rounds(policy: Policy, regret: float | str, most: int | None, rounds: int) -> int:
    """Estimate the total number of rounds, for the progress bar."""
    more = policy.forecast(regret).rounds
    return min(int(rounds + more) if more < UNKNOWN_TOTAL else UNKNOWN_TOTAL, UNKNOWN_TOTAL if most is None else most)
