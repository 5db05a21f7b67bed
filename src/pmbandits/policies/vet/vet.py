"""Vet: estimate, track, and test the arms that are left out."""

from __future__ import annotations

import numpy as np

from pmbandits.engine.options import option, share
from pmbandits.engine.plan import Setup
from pmbandits.estimates._rewards import SAMPLES
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._certifying import arm_to_certify_if_due
from pmbandits.mixtures._kl_inf import UNREACHABLE_KL
from pmbandits.mixtures._tracking import fewest, pull
from pmbandits.policies.track import TrackingPolicy
from pmbandits.policies.vet._index import unpack
from pmbandits.policies.vet._kernels import (
    arm_to_retry_or_furthest_behind,
    is_a_segment_open,
    is_arriving_segment_open,
    update_decisions_if_due,
    update_mixture_shares_and_indices,
)
from pmbandits.state.compile import kernel
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Real, Support

FEW_ATOMS = 20  # up to so many values of rewards, each is taken to be as likely as the rewards say


@kernel
def choose(memory: int) -> int:
    """Try an arm that is left out and not ruled out yet, else pull the one furthest behind its share."""
    s = unpack(memory)
    if not is_arriving_segment_open(s):
        return pull(s, fewest(s))
    update_decisions_if_due(s)
    return pull(s, arm_to_retry_or_furthest_behind(s))


@kernel
def choose_certifying(memory: int) -> int:
    """As ``choose``, but a share of the pulls is for certifying."""
    s = unpack(memory)
    if not is_arriving_segment_open(s):
        return pull(s, fewest(s))
    update_decisions_if_due(s)
    arm = arm_to_certify_if_due(s)
    return pull(s, arm if arm >= 0 else arm_to_retry_or_furthest_behind(s))


@kernel
def update(memory: int) -> None:
    """Update the mixture with the newest rewards."""
    s = unpack(memory)
    if s.dirty == 1 and s.rewards >= s.next_look and is_a_segment_open(s):
        update_mixture_shares_and_indices(s)


class Vet(TrackingPolicy, name="vet", choose=choose, choose_certifying=choose_certifying, update=update, unpack=unpack):
    """Play the best mixture of what was seen so far, and test the arms that it leaves out. The policy to start with.

    It does not need to know how many rounds there will be, and it has no grid and nothing that must be tuned.

    Like :class:`Track`, it plays the proportions of the best mixture of what was seen so far. But no exploration is
    forced. An arm that has no place in that mixture is tried again only while its rewards do not yet rule out that it
    should have one. So it is good where a mixture is best, and where one arm is.

    The test is that of IMED (Honda and Takemura 2015), with the slope of the utility in place of the mean. Take an arm
    that is left out, with n rewards. D says how little its distribution must change, measured as relative entropy, for
    the arm to deserve a place. The index of the arm is n·D + log n. In round t it is tried while the index is below
    log(t/(m·K)), where K is the number of arms and m how many of them are in the mixture. So the less plausible it is
    that the arm deserves a place, the more rarely it is tried.

    The policy looks at the data again when rewards have grown by 1 %, when those of one arm have grown by 10 %, or when
    an arm that was left out now deserves a place. In each look:

    1. a is the best mixture of the empirical distributions. Shares of less than one pull are dropped. On 0/1 rewards
       a concave h may be largest on a whole interval of means. Then the mean of a keeps a quarter of the interval away
       from its ends (but for 0 and 1) if it can, because errors of the estimates cost nothing there.
    2. b are the shares to have when the window of this look ends, after 1 % more rounds. No share can be less than what
       was pulled already. For concave h, b is the best mixture that is still possible. Otherwise the rounds that are
       left are divided in the proportions of a.
    3. Φ is the integral of h' of the survival function that belongs to b. Its mean over the rewards of an arm is the
       slope of the utility towards that arm. λ is the slope towards the arm that is furthest behind b.
    4. D is worked out for each arm that is left out. For concave h it is the least relative entropy from its
       distribution to one whose mean of Φ is λ. If nothing on the support has a mean of Φ above λ, because h is flat
       there, the arm cannot help, and is left alone. For convex h, D is the least relative entropy to a distribution
       with the utility of a.

    For h that is neither concave nor convex, the slope at a mixture says nothing about mixtures that are far away.
    There D is the least relative entropy to a distribution with which some mixture of a and the arm has more
    utility than a. These mixtures lie on the straight line, the *chord*, from a to the arm. On 0/1 rewards D is
    exact, for all shares of the arm: it belongs to the nearest mean at or beyond which h is above h(mean of a). On
    other rewards two shares are tried. One is the share that the arm has had so far, with Φ and λ at that mixture,
    so that a little more of the arm makes it better than a. The other is 1: the arm by itself. Because this can
    miss the nearest change, D counts at most 1 there, and so no arm is left alone. The best mixture of such h is
    also searched along the chords to all arms, with the shares ½, ⅛, ….

    A change of an arm's distribution may put rewards where the arm has not been seen to reach: further than s·(√(2·log
    n) + 2/√n) from its mean, with s its standard deviation. Such a change is taken to be less plausible, and its D
    counts 1/``caution`` times. A change within reach counts up to two thirds more: D is then max(D, min(5/3·D, N)),
    where N = ½·d²/v is what D would be for a normal distribution. Here d is the distance of the mean of Φ from λ, and
    v the variance of Φ over the rewards. For a change to a distribution with the utility of a, D counts up to two
    thirds more in the same way. Then Φ is that of the arm's own distribution, and d is the utility that it lacks. On
    0/1 rewards, on 20 atoms or fewer, and on ``Real`` rewards nothing of this kind is assumed; with several segments,
    only for concave h.

    In each round the arm with the smallest index is pulled if that index is below the threshold. Otherwise the arm
    is pulled that is furthest behind b at the end of the window, or 100 rounds from now if that is sooner.

    On ``Real`` rewards the support has no ends; there an arm is taken to reach σ·(√(2·log n) + 2/√n) beyond its
    mean on either side. For concave h, D is also at least ½·(d/σ)². Here d is how far a normal distribution, with
    the mean of the arm and the standard deviation σ, must move to reach λ. Where nothing within reach is enough, D
    is that number alone.

    **With segments** it knows who is in front of it, and the metric is that of the rewards of everybody together. A
    pair of a segment and an arm takes the part of an arm. Let p be how often each segment came so far.

    - While an arm of the segment that arrives has no reward, the arm of the segment with the fewest pulls is pulled.
      Until then the segment counts with the shares that it has played.
    - a and b are mixtures of all pairs, and are found for all segments together: the weights of a segment add up to its
      p. So one segment may make up for what another lacks. For b, each segment has a window of 1 % more arrivals.
    - Each segment has its own λ: the slope towards its arm that is furthest behind. It also has its own threshold,
      log(n/(m·K)), where n are its arrivals, K its arms, and m those in a. Φ is common to all.
    - The policy also looks when the window of the segment that arrives is over. New rewards and windows are a reason
      only after S/4 more rewards, for S segments.
    - For convex h, a is a plan: one arm for each segment. A plan is judged by the utility of everybody after three
      times the rounds so far, if it is played from now on. For half of one plan and half of another are worth less
      than either, so a change must pay for what was played before. The price is that a plan may be kept although
      another is a little better. D is the least relative entropy to a distribution with which everybody together
      would by then have the utility of a, if the other segments do as in some plan. That is a or one of twelve
      rivals: the best plans for a lower CVaR, each with another threshold. Of these it is the plan in which the arm
      does best. So an arm is also tried if it would deserve a place only when other segments change as well. For h
      of neither shape the others do as in a. On 0/1 rewards the others have their least or their largest mean.
    - In each round only arms of the segment that arrives are compared.

    With one segment this is the same policy as without. Nothing is proved about it with segments. For
    concave h, optimistic Frank-Wolfe methods (Agrawal and Devanur 2014; Berthet and Perchet 2017) have vanishing
    regret, also with contexts (Do et al. 2023). They pull the arm with the largest optimistic slope at what was played
    so far.

    This policy is our own. The page "How fast Vet learns" proves its rate for two arms that pay 0 or 1, and says when
    no arm that deserves a place is left out. The page "All policies, on the same problems" compares it with the others,
    and says where it loses.

    Parameters
    ----------
    metric, n_arms, support, names, segments, seed, shares, cost, budget, detect, estimates : see :class:`Policy`.
    caution : a number above 0 and at most 1; the default is 1/3. With 1 an arm is ruled out only if its rewards speak
        even against rare, very large rewards that were never seen. Smaller values take these as less plausible. Then
        arms that are left out get fewer pulls, but an arm that pays rarely and much may be found late.
    certify : the share of pulls that serves to be certain sooner; the default is 0. See :class:`Track`.
    confidence, delta : the confidence sets behind :meth:`Policy.certainty`, and the probability (by default 5 %) that
        one of them ever fails. Without ``certify`` they do not change what is played.

    References
    ----------
    S. Agrawal and N. R. Devanur (2014), *Bandits with concave rewards and convex knapsacks*, EC.

    Q. Berthet and V. Perchet (2017), *Fast rates for bandit optimization with upper-confidence Frank-Wolfe*, NeurIPS.

    V. Do, E. Dohmatob, M. Pirotta, A. Lazaric and N. Usunier (2023), *Contextual bandits with concave rewards, and an
    application to fair ranking*, ICLR.

    J. Honda and A. Takemura (2015), *Non-asymptotic analysis of a new bandit algorithm for semi-bounded rewards*, JMLR
    16.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Vet(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    >>> for t in range(2000):
    ...     arm = policy.ask()
    ...     policy.tell(arm, reward=float(arm == 1 or t % 5 < 2))
    >>> policy.mixture.round(2).tolist()
    [0.82, 0.18]
    """

    takes_segments = True
    caution: float = option(default=1 / 3, check=share)

    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        known = isinstance(support, Binary) or (isinstance(support, Finite) and support.atoms.size <= FEW_ATOMS)
        numbers = {
            "pad": 0.0 if np.isfinite(support.width) else support.typical,
            "sigma": support.sigma if isinstance(support, Real) else 0.0,
            "caution": 1.0 if known else self.options["caution"],
            "certify": self.options["certify"],
        }
        chosen = self.confidence_set_if_bounds_hold(metric, n_arms, support)
        return Setup(grid=np.zeros((0, n_arms)), numbers=numbers, confidence=chosen, table=True)

    @staticmethod
    def adjust_after_forgetting(memory: Memory) -> None:
        memory.n_knots = memory.next_look = memory.looked = 0  # it looks anew
        memory.window_end[:] = memory.left_out[:] = memory.vetted_pulls[:] = memory.vetted_n_rewards[:] = 0

    def holds_together(self, memory: Memory) -> bool:
        m, n = memory, memory.n_knots
        counted = (m.window_end, m.next_look, m.looked, m.left_out, m.vetted_n_rewards, m.kl_inf_bound_n_rewards)
        if n == 0:  # it has not looked yet
            return not any(np.any(count) for count in counted)
        knots, ends = m.knots[: max(n, 0)], [m.low, m.high]
        if m.storage_mode != SAMPLES:
            ends = m.points
        return bool(
            2 <= n <= m.knot_capacity
            and (m.n_rewards.min() > 0 or m.n_segments > 1)
            and (np.diff(knots) >= 0.0).all()
            and (m.bounded == 0 or np.array_equal(knots if m.storage_mode != SAMPLES else knots[[0, -1]], ends))
            and m.window_end.min() >= 0
            and m.window_end.max() <= m.t + max(1, m.t // 100)
            and 0 <= m.next_look <= m.rewards + max(1, m.rewards // 100)
            and 0 <= m.looked <= m.rewards
            and abs(float(m.target_shares.sum()) - 1.0) < 1e-6
            and not m.left_out.all()
        )

    def _reason(self, arm: int) -> str:
        memory = self._memory
        if not memory.n_knots:
            return "" if memory.n_rewards.all() else "Not every arm has a reward yet, so the arms are pulled in turn."
        segment = int(memory.segment_of[arm]) if memory.n_segments else 0
        same = memory.segment_of == segment if memory.n_segments else np.ones(memory.n_arms, bool)
        index, threshold, left = (
            memory.vet_index,
            float(memory.threshold[segment]),
            np.flatnonzero(memory.left_out * same),
        )
        if memory.left_out[arm] == 1:
            return (
                f"It is left out of the mixture, and is tried again: its index is {index[arm]:.3g}, below the "
                f"threshold {threshold:.3g}. So its rewards do not show clearly enough yet that it should be left out."
            )
        if not memory.n_rewards[same].all():
            return "Not every arm of this segment has a reward yet, so they are pulled in turn."
        share = memory.target_shares[arm] / (memory.target_shares[same].sum() if memory.n_segments > 1 else 1.0)
        behind = share * memory.window_end[segment] - (memory.pulls[arm] - 1)
        end = self._clock_start_round + int(memory.window_end[-1])
        text = f"It is {round(behind, 1) + 0.0:.1f} pulls behind the share that it should have by round {end:,}."
        if not left.size:
            return f"{text} No arm is left out of the mixture."
        n = np.maximum(memory.pulls, memory.n_rewards)[left]
        least = np.where(np.isfinite(index[left]), index[left], np.log(n))  # one that has n rewards is at least log n
        first = int(np.argmin(least))
        if least[first] >= UNREACHABLE_KL:
            return f"{text} As things look now, none of the arms that are left out can help."
        column = self._active_arms[left[first]]
        name = self.names[column if self._segments is None else self._segments.arm_list[column]]
        return (
            f"{text} Of the arms that are left out, {name} will be tried next: its index is "
            f"{'' if np.isfinite(index[left[first]]) else 'at least '}{least[first]:.3g}, and that happens when the "
            f"threshold, which is {threshold:.3g} now, rises above it."
        )
