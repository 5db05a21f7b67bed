"""Thompson sampling for the mean: Beta for 0/1 rewards, Gaussian for all others."""

from __future__ import annotations

import math

import numpy as np

from pmbandits._random import POSTERIOR, POSTERIOR_B, gamma_variate, open_uniform_from_word, philox_random_words
from pmbandits.engine.index_policy import set_mixture_to_largest_mean
from pmbandits.engine.plan import Setup
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.normal import normal_quantile
from pmbandits.mixtures._tracking import largest, pull
from pmbandits.policies._draws import random_key_of_round
from pmbandits.policies.baselines import MeanPolicy, unpack_scale
from pmbandits.state.compile import kernel
from pmbandits.supports import Support


@kernel
def choose(memory: int) -> int:
    """The arm with the largest mean drawn from its posterior."""
    s = unpack_scale(memory)
    key = random_key_of_round(s)
    for i in range(s.n_arms):
        n = s.n_rewards[i]
        if s.storage_mode == BINARY:
            ones = gamma_variate(key, 0, i, 1.0 + s.counts[i, 1], POSTERIOR)
            s.index[i] = ones / (ones + gamma_variate(key, 0, i, 1.0 + s.counts[i, 0], POSTERIOR_B))
        elif n == 0:
            s.index[i] = np.inf
        else:
            zero = np.uint64(0)
            w, _, _, _ = philox_random_words(key[0], key[1], zero, np.uint64(i), zero, np.uint64(POSTERIOR))
            s.index[i] = s.sums[i] / n + s.scale / math.sqrt(n) * normal_quantile(open_uniform_from_word(w))
    return pull(s, largest(s))


class Thompson(MeanPolicy, name="thompson", choose=choose, update=set_mixture_to_largest_mean, unpack=unpack_scale):
    """Thompson sampling for the mean: draw a plausible mean of each arm, and pull the arm with the largest one.

    It is here for comparison, as the usual choice of those who look at the mean only.

    **What it looks for:** the arm with the largest mean, whatever the metric is. It settles on one arm.

    **What it assumes:** nothing beyond the support. ``Binary`` rewards have the Beta(1, 1) prior. All others have the
    normal posterior N(mean, σ²/n), where n is the number of rewards, and σ is that of ``Real(sigma)`` or half the width
    of a bounded support.

    In each round:

    1. Draw a mean for each arm from its posterior, that is from what its rewards so far leave plausible.
    2. Pull the arm with the largest draw.

    ``mixture`` gives everything to the arm with the largest mean so far. A round costs O(K) for K arms.

    Parameters
    ----------
    metric, n_arms, support, names, seed, shares, cost, budget, detect : see :class:`Policy`; the metric is not used,
        and the seed draws the means.

    References
    ----------
    W. R. Thompson (1933), *On the likelihood that one unknown probability exceeds another*, Biometrika 25.

    S. Agrawal and N. Goyal (2013), *Further optimal regret bounds for Thompson sampling*, AISTATS.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Thompson(pmb.Mean(), n_arms=2, support=pmb.Binary(), seed=1)
    >>> for _ in range(200):
    ...     arm = policy.ask()
    ...     policy.tell(arm, float(arm))
    >>> policy.mixture.tolist(), int(policy.pulls[1]) > 150
    ([0.0, 1.0], True)
    """

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        return Setup(grid=np.eye(n_arms), numbers={"scale": support.scale})
