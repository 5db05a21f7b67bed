r"""Watching a stream of rewards for a change of its distribution, whatever the distribution is.

**What is tested.** Take a set A of rewards, such as all rewards above some x, and a moment k. Before k a share p₁ of n₁
rewards lay in A. Since then a share p₂ of n₂ rewards did. Of all of them together it was a share p. The evidence for a
change at k is

    G = n₁·kl(p₁, p) + n₂·kl(p₂, p),

where kl is the relative entropy of two coins. This is the logarithm of the largest likelihood with two shares, divided
by the largest with one. The alarm is raised when, for one of the sets and one of the moments, G reaches ln(1/(level·w))
+ ½·ln(n₁·n₂) + ln 4. Here w is the weight of this set and this moment; all weights add up to 0.9.

**The sets** are given by at most 16 thresholds. For each threshold v there are two sets: all rewards above v, and all
from v on. For pairs of thresholds from both ends there is the set of all rewards outside. These are m sets of the last
kind and 2m others, with equal weights. So a change of the mean, of the spread, or of how often something rare happens
is seen. The thresholds are known beforehand (0/1 rewards, few atoms), or they are order statistics of the first 64
rewards, which then do not count here.

**The moments** are every eighth reward. Number j = 2^u, …, 2^(u+1) − 1 has the weight 0.9/((u + 1)(u + 2)2^u).

**Early changes.** A change among the first 64 rewards, or right after them, leaves nothing to compare with. But the
ranks say something. Let v be the r-th smallest of the first 64. If nothing changes and no two rewards are equal, then
the share of all later rewards below v is drawn from Beta(r, 65 − r). So whether each later reward lies below v follows
Pólya's urn, which begins with r balls of one kind and 65 − r of the other. Say k of n later rewards lie below v. The
evidence for a change is the probability of this by an urn with s·r balls of the first kind, divided by the probability
by the true urn. It is taken for s = 4 and s = 64, and the larger of both is halved. The alarm is raised when it reaches
128/(0.1·level). The same is done with the rewards above v.

**False alarms.** If nothing changes, whether each reward lies in A is decided by independent coins with one probability
q. Give those before k and those since k each the probability of Krichevsky and Trofimov's mixture of coins. The
product, divided by the true probability of all of them, is a nonnegative martingale that starts at 1. So by Ville's
inequality the probability that it ever reaches 1/a is at most a. The true probability is no more than that with q = p,
the most likely one, and the mixture's of n coins is at least 1/(2√n) of the most likely one's. So G ≥ ln(1/a) +
½·ln(n₁·n₂) + ln 4 has a probability of at most a to happen ever. Take a = level·w, and add up over all sets and
moments: **if nothing changes, the probability that an alarm is ever raised is at most the level, however long it
runs.** (A tenth of the level is for early changes: by the true urn their evidence is a nonnegative martingale, too, for
each of 64 ranks and two sides. If rewards can be equal, think of each as made from a uniform number by the quantile
function. Rewards below v are then fewer than those whose number is below the r-th smallest number, which follow the
urn. The evidence grows with k, so it is only made smaller.) This stays true however often one looks, and however few of
the moments one looks at. So only some 60 moments are kept, the closer together the more recent they are.

**Memory and time** are bounded: about 35 kB for a stream, and half a microsecond for a reward.

**Where it comes from.** The parts are not new. Dividing by the largest likelihood is universal inference (Wasserman,
Ramdas and Balakrishnan 2020). The mixture is that of Krichevsky and Trofimov (1981), and its bound that of Willems,
Shtarkov and Tjalkens (1995). Alarms by e-values over moments of change are e-detectors (Shin, Ramdas and Rinaldo 2024),
there with a bound on the time between false alarms instead of the probability of any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.estimates import _change_detector as steps
from pmbandits.state.fields import CHANGE_ROW, DETECTOR_COUNTS, DETECTOR_HEADER


@dataclass(frozen=True)
class Change:
    """A change that was found in the rewards of an arm. When printed, it is one sentence.

    Attributes
    ----------
    arm : the name of the arm; empty for a stream that has no name.
    round : the round in which the change was found; for a stream, after how many rewards.
    before, after : how many rewards were compared: those before (about) the moment of the change, and those since.
    what : which rewards became more or less frequent, in words.
    share_before, share_after : the share of these rewards before, and since.
    evidence : how many times more likely the rewards are with a change than without one, after the cost of the search
        is taken off. An alarm is raised when it reaches 1/level (with several arms, their number times that).
    """

    arm: str
    round: int
    before: int
    after: int
    what: str
    share_before: float
    share_after: float
    evidence: float

    @classmethod
    def from_numbers(cls, numbers: FloatArray, arm: str) -> Change:
        """Make it from the numbers that the kernels keep of a change."""
        low, high = float(numbers[steps.LOW]), float(numbers[steps.HIGH])
        words = {
            steps.ABOVE: f"rewards above {low:.4g}",
            steps.FROM: f"rewards from {low:.4g} on",
            steps.OUTSIDE: f"rewards outside of {low:.4g} to {high:.4g}",
        }
        return cls(
            arm,
            int(numbers[1]),
            int(numbers[steps.BEFORE]),
            int(numbers[steps.AFTER]),
            words[int(numbers[steps.KIND])],
            float(numbers[steps.SHARE]),
            float(numbers[steps.NOW]),
            math.exp(min(float(numbers[steps.EVIDENCE]), 700.0)),
        )

    def __str__(self) -> str:
        head = f"{self.arm} changed: {self.what}" if self.arm else f"{self.what[0].upper()}{self.what[1:]}"
        return (
            f"{head} were {100 * self.share_before:.3g} % of {self.before:,} rewards, "
            f"and are {100 * self.share_after:.3g} % of the last {self.after:,}."
        )


class ChangeDetector:
    """Watch a stream of rewards, and raise an alarm when their distribution has changed: mean, spread, tails, anything.

    If nothing changes, it ever raises an alarm with probability ``level`` at most, however long it runs, and whatever
    the distribution is. No support, no moments and no model are assumed; only that rewards are independent and have the
    same distribution. After an alarm it begins anew. The text at the top of this module says how it works,
    with a proof.

    Parameters
    ----------
    level : the probability of a false alarm, over all time. The default is 1 %.
    values : thresholds, at most 16, if they are known beforehand: ``[0]`` for 0/1 rewards. By default they are taken
        from the first 64 rewards. A change among these is found, too, but later than it would be with known ones.

    Attributes
    ----------
    n : how many rewards came since it began, or began anew.
    changes : a :class:`Change` for each alarm.

    Examples
    --------
    >>> import numpy as np, pmbandits as pmb
    >>> rng, detector = np.random.default_rng(1), pmb.ChangeDetector(level=0.01)
    >>> detector.extend(rng.normal(0.0, 1.0, 5000))
    []
    >>> detector.extend(rng.normal(0.0, 2.0, 5000))
    [47]
    >>> print(detector.changes[0])
    Rewards outside of -2.711 to 2.118 were 2.18 % of 4,944 rewards, and are 35 % of the last 40.
    >>> detector.update(0.3)
    False
    """

    def __init__(self, level: float = 0.01, *, values: ArrayLike | None = None) -> None:
        self.level = _validation.check_within("level", level, 0.0, 1.0, open_lo=True, open_hi=True)
        known = (
            np.unique(_validation.check_number_array("values", values, minimum=1))
            if values is not None
            else np.zeros(0)
        )
        if known.size > steps.MAX_THRESHOLDS:
            raise ValueError(
                f"values can be at most {steps.MAX_THRESHOLDS} different numbers, got {known.size}; leave them out, "
                "and they are taken from the first rewards."
            )
        self.changes: list[Change] = []
        self._seen = 0
        self._known = np.zeros(steps.N_FIRST)
        self._known[: known.size] = known
        self._n_known = known.size
        self._header, self._rows = np.zeros(DETECTOR_HEADER, np.int64), np.zeros(DETECTOR_COUNTS, np.int64)
        self._values, self._found = np.zeros(steps.N_FIRST), np.zeros(CHANGE_ROW)
        self._init_detector()

    def _init_detector(self) -> None:
        steps.init_change_detector(self._header, self._values, self._rows, self._known, self._n_known)

    @property
    def n(self) -> int:
        """How many rewards came since it began, or began anew."""
        return int(self._header[steps.SEEN])

    def update(self, reward: float) -> bool:
        """Take one reward in, and say whether there is an alarm."""
        return bool(self.extend([reward]))

    def extend(self, rewards: ArrayLike) -> list[int]:
        """Take several rewards in, and return the positions of those that raised an alarm.

        If one of them is not a finite number, none of them counts.
        """
        x = _validation.check_number_array("rewards", rewards, minimum=0)
        at, out, log_inverse_level = 0, [], math.log(1.0 / self.level)
        while at < x.size:
            at = int(
                steps.detector_update_until_alarm(
                    self._header, self._values, self._rows, log_inverse_level, x, at, self._found
                )
            )
            if self._header[steps.ALARM]:
                out.append(at - 1)
                self._found[1] = self._seen + at
                self.changes.append(Change.from_numbers(self._found, ""))
                self._init_detector()
        self._seen += x.size
        return out

    def __repr__(self) -> str:
        return f"ChangeDetector(level={self.level:g}; n={self.n:,}, {len(self.changes)} changes found)"


def is_valid_detector(header: NDArray[np.int64], values: FloatArray, rows: NDArray[np.int64]) -> bool:
    """Whether these arrays can be the state of a change detector.

    >>> detector = ChangeDetector()
    >>> _ = detector.extend(range(300))
    >>> parts = detector._header, detector._values, detector._rows
    >>> is_valid_detector(*parts), is_valid_detector(-parts[0], *parts[1:])
    (True, False)
    """
    seen, thresholds, counted, used, starts, alarm = (int(number) for number in header[: steps.ALARM + 1])
    table: NDArray[Any] = rows.reshape(-1, steps.ROW)
    if not (0 <= alarm <= 1 and 0 <= thresholds <= steps.MAX_THRESHOLDS and 0 <= used < table.shape[0]):
        return False
    if not 0 <= counted <= seen or not 0 <= used <= starts <= counted // steps.LOOK_EVERY:
        return False
    if thresholds == 0:
        return bool(counted == 0 and seen < steps.N_FIRST)
    if (np.diff(values[:thresholds]) <= 0.0).any():
        return False
    counts, numbers = table[: used + 1, : steps.ROW - 1], table[1 : used + 1, steps.ROW - 1]
    return bool(
        (counts >= 0).all()
        and counts[:, 2 * thresholds + 1 :].sum() == 0
        and counts[0].sum() == counted
        and (counts[1:] <= counts[0]).all()
        and (np.diff(counts[1:], axis=0) >= 0).all()
        and (np.diff(numbers) > 0).all()
        and (used == 0 or (numbers[0] > 0 and numbers[-1] <= starts))
        and np.array_equal(counts[1:].sum(axis=1), steps.LOOK_EVERY * numbers)
    )
