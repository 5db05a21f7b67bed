"""UC-Frank-Wolfe: pull the arm towards which the utility may rise the most."""

from __future__ import annotations

import math
from typing import ClassVar

from pmbandits.engine.options import known_estimates, one_of, option, within
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._constraints import fill_linear_maximiser
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._tracking import fewest, largest, n_elapsed_rounds, pull
from pmbandits.policies.published._checks import require_continuous_distortion
from pmbandits.policies.published._gradient import (
    gradient_is_due,
    growth_between_gradient_updates,
    set_mixture_to_shares_played,
    update_slopes_and_variances,
)
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(wait=float, by_variance=int, reach=float)


@kernel
def choose(memory: int) -> int:
    """The arm with the largest slope plus bonus."""
    s = unpack(memory)
    if not ready(s):
        return pull(s, fewest(s))
    if gradient_is_due(s):
        s.reach = update_slopes_and_variances(s, s.wait)
    depth = math.log(n_elapsed_rounds(s) + 1.0)
    for i in range(s.n_arms):
        n = s.n_rewards[i]
        if s.by_variance == 1:
            bonus = math.sqrt(2.0 * (s.slope_variance[i] + 0.02 * s.reach * s.reach / n) * depth / n)
        else:
            bonus = 2.0 * s.reach * math.sqrt(3.0 * depth / n)
        s.index[i] = s.slope[i] + bonus
    if s.n_limited > 0:  # the step is towards the best mixture within the limits
        fill_linear_maximiser(s, s.index, s.mix)
    return pull(s, largest(s))


class UCFW(Policy, name="ucfw", choose=choose, update=set_mixture_to_shares_played, unpack=unpack):
    """UC-Frank-Wolfe: pull the arm towards which the utility of the shares played so far may rise the most.

    **What it looks for:** the mixture with the largest utility U_h; the shares that were played come near to it.

    **What it assumes:** U_h is concave and smooth in the mixture, that is h is concave with a bounded second
    derivative. The horizon need not be known.

    **What is proved:** regret Õ(√(K/T)) for smooth concave utilities, and O(log²T/T) if the utility is also strongly
    concave and the best mixture gives something to every arm. Other metrics are accepted, without a promise: where h is
    convex, the policy can stay with an arm that is not the best one.

    1. Pull the arms in turn until each has paid.
    2. Then pull the arm with the largest slope plus bonus. The slope of arm i says how fast the utility rises when a
       little more is given to that arm. It is ∂U_h/∂a_i of the mixture of the empirical distributions, at the shares
       played so far. It is the mean of Φ over the rewards of arm i, where Φ(x) = ∫ up to x of h'(S), and S is the
       survival function of that mixture.

    There is no solver and no tracking: each pull is one step of the Frank–Wolfe algorithm, of length 1/t. ``mixture``
    is the shares played so far, because the theory is about these.

    **What differs from the publication:**

    - The published bonus 2·√(3·ln t/n) is for slopes that are means of numbers from a range of width 1. Here it is
      multiplied by the range of Φ over the support at the shares played, which is at most (width of the
      support)·max|h'|. On ``Real`` the range is taken between the smallest and the largest reward so far.
    - h' is the slope of h between u − e and u + e, with e half of one reward's weight (a twentieth where rewards are
      counted). So h needs no derivative.
    - Beyond 0/1 rewards the slopes are worked out again when pulls and rewards have grown by 0.1 %, that is in every
      round of the first thousand. The bonus is new in every round.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    bonus : ``"published"`` (the default) is R·2·√(3·ln t/n), with R the range of Φ. ``"variance"`` is √(2·(v +
        0.02·R²/n)·ln t/n), with v the variance of Φ over the rewards of arm i. This one is not published; it explores
        much less.
    tolerance : the share by which pulls and rewards must grow before the slopes are worked out again. The default is
        0.001. With 0 they are worked out in every round, which costs a pass over all rewards (over all atoms where
        rewards are counted).

    References
    ----------
    Q. Berthet and V. Perchet (2017), *Fast rates for bandit optimization with upper-confidence Frank–Wolfe*, NeurIPS.

    X. Fontaine, Q. Berthet and V. Perchet (2019), *Regularized contextual bandits*, AISTATS.

    X. Fontaine, P. Perrault, M. Valko and V. Perchet (2021), *Online A-optimal design and active linear regression*,
    ICML.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.UCFW(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), bonus="variance")
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(1).tolist()
    [0.8, 0.2]
    """

    bonus: str = option(default="published", check=one_of("published", "variance"))
    tolerance: float = option(default=0.001, check=within(0.0, 1.0))
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    forgets: ClassVar[bool] = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_continuous_distortion("UCFW", metric)
        wait = growth_between_gradient_updates(self.options["tolerance"], support)
        return Setup(numbers={"wait": wait, "by_variance": int(self.options["bonus"] == "variance")}, slopes=True)
