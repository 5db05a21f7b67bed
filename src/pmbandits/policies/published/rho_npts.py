"""ρ-NPTS: non-parametric Thompson sampling for any continuous risk functional."""

from __future__ import annotations

import numpy as np

from pmbandits.engine.options import one_of, option, whole
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._tracking import fewest, pull
from pmbandits.policies._draws import TIES, pick_largest
from pmbandits.policies.published._checks import require_continuous_distortion, require_upper_end_of_support
from pmbandits.policies.published._functionals import (
    allocate_reward_weights,
    fill_dirichlet_weights_on_rewards,
    fill_utilities_of_arms,
    set_mixture_to_largest_utility,
)
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(n_ends=int, first_pulls=int, ties=int)


@kernel
def choose(memory: int) -> int:
    """The arm whose utility is the largest under weights drawn from the posterior."""
    s = unpack(memory)
    if s.n_ends == 0:  # without an anchor, nothing can be drawn for an arm that has not paid
        arm = fewest(s)
        if s.pulls[arm] < s.first_pulls or not ready(s):
            return pull(s, arm)
    weight, anchor, total = allocate_reward_weights(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    fill_dirichlet_weights_on_rewards(s, s.n_ends, weight, anchor, total)
    fill_utilities_of_arms(s, weight, anchor, total, s.index)
    return pull(s, pick_largest(s, s.ties))


class RhoNPTS(Policy, name="rho_npts", choose=choose, update=set_mixture_to_largest_utility, unpack=unpack):
    """ρ-NPTS: draw random weights for the rewards of each arm, and pull the arm whose utility is then the largest.

    **What it looks for:** the single arm with the largest utility U_h, whatever the metric is.

    **What it assumes:** a bounded support, and a metric whose h is continuous. The horizon need not be known.

    In each round:

    1. For each arm draw Dirichlet(1, …, 1) weights for all its rewards and for the upper end of the support, which is
       called the anchor. The weights add up to 1, with all choices of such weights equally likely.
    2. Pull the arm whose weighted rewards have the largest U_h.

    The anchor makes the draws hopeful only where h is increasing. Deviations, for example, are 0 for an arm that always
    pays the most, and the published rule would give up an arm after one reward. For such metrics the lower end of the
    support is a second anchor here; this is our addition. With ``LowerCVaR`` the policy is the same as :class:`BCVTS`.

    **Unbounded rewards:** with ``anchor="none"`` only the rewards themselves get weights, so the support needs no end.
    This is ρ-NPTS_SG (Chang 2026), for sub-Gaussian rewards with a density. We know its abstract, not its pseudocode.
    How often each arm is pulled first is our choice. Without an anchor, a draw never leaves the range of what the arm
    has paid, so an arm that is unlucky in its first pulls can be lost.

    ``mixture`` gives everything to one arm: the one whose rewards so far have the largest U_h. **The cost of a round
    grows with the number of rewards**: it is one pass over all of them, for all arms together, so T rounds cost O(T²).
    On a finite support a round costs O(K × atoms) for K arms.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`.
    anchor : ``"ends"`` (the default), or ``"none"``, as above.
    first_pulls : how often each arm is pulled before the first draw, with ``anchor="none"``; the default is 3.
    ties : which of several arms with the same index is pulled: the one with the fewest pulls (``"fewest"``), any
        (``"random"``), or the first (``"first"``). The paper does not say.

    References
    ----------
    J. Q. L. Chang and V. Y. F. Tan (2022), *A unifying theory of Thompson sampling for continuous risk-averse bandits*,
    AAAI.

    J. Q. L. Chang (2026), *Asymptotic optimality of Thompson sampling for risk-averse bandits with sub-Gaussian
    rewards*, arXiv 2606.09191.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.RhoNPTS(pmb.DualPower(2), n_arms=2, support=pmb.Interval(0, 1))
    >>> for _ in range(200):
    ...     arm = policy.ask()
    ...     policy.tell(arm, 0.2 + 0.5 * arm)
    >>> policy.mixture.tolist()
    [0.0, 1.0]
    """

    anchor: str = option(default="ends", check=one_of("ends", "none"))
    first_pulls: int = option(default=3, check=whole(1))
    ties: str = option(default="fewest", check=one_of(*TIES))

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_continuous_distortion("RhoNPTS", metric)
        n_ends = 0
        if self.options["anchor"] == "ends":
            require_upper_end_of_support("RhoNPTS", support)
            n_ends = 1 if metric.monotonicity == "increasing" else 2
        numbers = {"ties": TIES[self.options["ties"]], "n_ends": n_ends, "first_pulls": self.options["first_pulls"]}
        return Setup(grid=np.eye(n_arms), numbers=numbers)
