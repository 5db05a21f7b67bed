"""Mixture-UCB: optimism about a quadratic utility of the mixture."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pmbandits.engine.options import above, known_estimates, one_of, option, within
from pmbandits.engine.plan import Setup
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._constraints import fill_linear_maximiser
from pmbandits.mixtures._index import ready
from pmbandits.mixtures._optimistic_objectives import utility_plus_lipschitz_bonus
from pmbandits.mixtures._pairwise_ascent import maximise_objective_in_place
from pmbandits.mixtures._tracking import fewest, fill_shares_played, largest, n_elapsed_rounds, pull
from pmbandits.policies._draws import random_share
from pmbandits.policies.published._checks import quadratic_metric_coefficients, require_upper_end_of_support
from pmbandits.policies.published._gradient import (
    gradient_is_due,
    growth_between_gradient_updates,
    schedule_next_gradient,
    update_slopes_and_variances,
)
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import state
from pmbandits.supports import Support

unpack = state(wait=float, solves=int, beta=float, sensitivity=float, diagonal=float)


@step("state, int -> float", unpack)
def arm_bonus(s: Any, i: int) -> float:
    """Δ_L·√(β·ln t/(2n)) + Δ_κ/n."""
    n = s.n_rewards[i]
    chance: float = s.sensitivity * math.sqrt(0.5 * s.beta * math.log(n_elapsed_rounds(s) + 1.0) / n)
    return chance + s.diagonal / n


@shared("state -> none", unpack)
def update_bonus_mixture_if_due(s: Any) -> None:
    """Make ``s.mix`` the mixture with the largest empirical utility plus bonus, if it is time to look."""
    if ready(s) and gradient_is_due(s):
        bonuses = np.empty(s.n_arms)
        for i in range(s.n_arms):
            bonuses[i] = arm_bonus(s, i)
        maximise_objective_in_place(
            s, utility_plus_lipschitz_bonus(), s.mix, np.zeros(s.n_arms), np.ones(s.n_arms), bonuses
        )
        schedule_next_gradient(s, s.wait)


@step("state -> int")
def draw_arm_from_mix(s: Any) -> int:
    """An arm, drawn with the probabilities ``s.mix``."""
    rest, arm = random_share(s), 0
    for i in range(s.n_arms):
        if s.mix[i] > 0.0:
            arm = i
            rest -= s.mix[i]
            if rest < 0.0:
                break
    return arm


@kernel
def choose(memory: int) -> int:
    """Step towards the arm with the largest slope plus bonus, or draw an arm from the optimistic mixture."""
    s = unpack(memory)
    if not ready(s):
        return pull(s, fewest(s))
    if s.solves == 1:
        update_bonus_mixture_if_due(s)
        return pull(s, draw_arm_from_mix(s))
    if gradient_is_due(s):
        update_slopes_and_variances(s, s.wait)
    for i in range(s.n_arms):
        s.index[i] = s.slope[i] + arm_bonus(s, i)
    if s.n_limited > 0:  # the step is towards the best mixture within the limits
        fill_linear_maximiser(s, s.index, s.mix)
    return pull(s, largest(s))


@kernel
def update(memory: int) -> None:
    """The mixture is the shares played so far, or the optimistic one."""
    s = unpack(memory)
    if s.solves == 1:
        update_bonus_mixture_if_due(s)
    else:
        fill_shares_played(s, s.mix)
    s.dirty = 0


class MixtureUCB(Policy, name="mixture_ucb", choose=choose, update=update, unpack=unpack):
    """Mixture-UCB: learn the best mixture for utilities that are quadratic in the mixture, such as the Gini deviation.

    **What it looks for:** the mixture a with the smallest L(a) = aᵀKa + fᵀa. K_ij is the mean of a kernel κ over pairs
    of rewards of the arms i and j, and f_i is the mean of a function over the rewards of arm i. For h(u) = m·u + g·u(1
    − u) the utility U_h is m·mean + (g/2)·E|X − X'|. So L = −U_h, with κ(x, y) = −(g/2)·|x − y| and the function −m·x.

    **What it assumes:** such an h with g ≥ 0 (``Mean``, ``GiniDeviation``, ``Quadratic``, ``DualPower(2)``, and
    weighted sums of them), and a bounded support. The horizon need not be known.

    **What is proved:** regret Õ(1/√T) for the form ``"cab"``. Nothing is proved for ``"ogd"``, which was the better one
    in its authors' experiments.

    1. Pull the arms in turn until each has paid.
    2. Work out the bonus ε_i = Δ_L·√(β·ln t/(2n_i)) + Δ_κ/n_i, where n_i is the number of rewards of arm i. The first
       part is what chance can do to the estimate of L, with probability 1 − t^(−β). The second part is what the pairs
       of a reward with itself do to it.
    3. With ``"ogd"`` (online gradient descent), pull the arm with the smallest slope of the estimated L, minus ε_i, at
       the shares played so far. With ``"cab"`` (continuum-armed bandit), find the mixture with the smallest estimated L
       minus Σ a_i·ε_i, and draw the arm from it.

    Δ_κ is the range of κ, and Δ_L = 2Δ_κ + (range of the function) is that of the slope. On a support of width W they
    are g·W/2 and (g + |m|)·W, and the latter is W·max|h'|. ``mixture`` is the shares played so far for ``"ogd"``, and
    the mixture that was found for ``"cab"``.

    **What differs from the publication:**

    - The publication plays generative models, scored by a kernel on images or texts. Here rewards take their place, and
      the kernel is the one that gives U_h.
    - ε_i was worked out here with McDiarmid's inequality, and its constants may differ from those in the publication.
      The authors' program has √(β·ln t/n_i) times a number that is tuned by hand, and begins with five pulls of each
      arm.
    - The quadratic program is solved until the mixture is proved to be best up to a hundredth of (range of the
      rewards)·(range of h)/√t, or after some hundred passes.
    - Programs, and slopes beyond 0/1 rewards, are not worked out again in every round: see ``tolerance``.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect, estimates : see :class:`Policy`; the seed draws
        the arms of ``"cab"``.
    form : ``"ogd"`` (the default) or ``"cab"``, as above.
    beta : β. A larger one explores more. The default 1 is that of the authors' program.
    tolerance : the share by which pulls and rewards must grow before slopes or the mixture are worked out again; 0
        works them out in every round. The default is 0.001 for ``"ogd"``, that is every round of the first thousand,
        and 0.01 for ``"cab"``, where it costs several passes over the rewards.

    References
    ----------
    P. Rezaei, F. Farnia and C. T. Li (2025), *Be more diverse than the most diverse: optimal mixtures of generative
    models via Mixture-UCB bandit algorithms*, ICLR.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.MixtureUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(1).tolist()
    [0.8, 0.2]
    """

    form: str = option(default="ogd", check=one_of("ogd", "cab"))
    beta: float = option(default=1.0, check=above(0.0))
    tolerance: float | None = option(default=None, check=within(0.0, 1.0))
    keep: str = option(default="exact", alias="estimates", check=known_estimates)
    forgets: ClassVar[bool] = True

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        require_upper_end_of_support("MixtureUCB", support)
        mean, gini = quadratic_metric_coefficients("MixtureUCB", metric)
        solves, wait = self.options["form"] == "cab", self.options["tolerance"]
        if wait is None:
            wait = 0.01 if solves else 0.001
        numbers = {
            "wait": wait if solves else growth_between_gradient_updates(wait, support),
            "solves": int(solves),
            "beta": self.options["beta"],
            "sensitivity": (gini + abs(mean)) * support.width,
            "diagonal": 0.5 * gini * support.width,
            "lipschitz": 1.0,  # the bonus of the search is Σ a·ε itself
        }
        return Setup(numbers=numbers, slopes=not solves)
