"""Confidence sets: how far the distribution of an arm may be from its n rewards.

Every set has a radius for each number n of rewards, and is of one of four kinds:

=============  ==========================================================  ==========================
kind           what holds for the arm's distribution                       for
=============  ==========================================================  ==========================
``interval``   kl(p̂, p) ≤ radius(n), p the probability of a 1              ``Binary``
``band``       sup_x |F̂(x) − F(x)| ≤ radius(n)                           bounded supports
``kl_band``    kl(Ŝ(x), S(x)) ≤ radius(n) for all x                        every support
``ball``       W1(F̂, F) ≤ radius(n)                                        every support
=============  ==========================================================  ==========================

F is the distribution function of the arm, and S = 1 − F its survival function. With a hat they are those of the n
rewards. kl is the relative entropy of two coins, and W1 the Wasserstein distance: the area between two distribution
functions.

A policy looks at its sets at times that depend on the rewards, so a radius must hold for all n at once. *Anytime* sets
hold for every n, however large. Sets with a *fixed horizon* hold for all n ≤ T. Those by relative entropy hold for
every n in either case; with a horizon only their δ is smaller. The others add up the failures of all n ≤ T, as the
paper does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import exp, isfinite, log, nan, sqrt
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _html, _validation
from pmbandits._validation import FloatArray
from pmbandits.confidence import bands, radii
from pmbandits.schedules import arm_failure
from pmbandits.supports import Binary, Finite, Heavy, Real, Support

NAMES = ("auto", "paper", "dkw", "wasserstein", "kl")
KINDS = ("interval", "band", "ball", "kl_band")
_DESCRIPTIONS = {
    "interval": "an interval for the mean of an arm that pays 0 or 1",
    "band": "a band of the same height everywhere around the curve of an arm's rewards",
    "kl_band": "a band around the curve of an arm's rewards that is narrower at its ends",
    "ball": "all distributions within a Wasserstein distance of an arm's rewards",
}
EPOCH_GROWTH = 1.1  # by how much n grows from epoch to epoch
MEAN_DELTA_SHARE = 0.25  # share of δ for the interval of the mean of sub-Gaussian rewards; the rest is for the KL band
MAX_THRESHOLDS = 1100  # up to this many atoms a bound for each is tighter than one for all x


@runtime_checkable
class CustomSet(Protocol):
    """A confidence set of your own: an object with a kind, and a radius for each number of rewards."""

    kind: str

    def radius(self, n: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class ConfidenceSet:
    """A confidence set for one arm: which distributions the arm can still have after n rewards.

    Attributes
    ----------
    name, kind : see the table of :mod:`pmbandits.confidence.sets`.
    meaning : what is guaranteed, in one sentence.
    failure : the probability that the arm's distribution is ever outside, while the set is valid. It is nan where that
        is not known: for the paper's constants without a horizon, and for sets of your own.
    source : who proved it, and when.
    stretched : whether ends that are far from the observed share are moved further out. Sets of kind ``kl_band`` that
        hold for all x at once need this.
    mean_failure : for the kind ``kl_band`` on ``Real`` rewards, the part of ``failure`` for the interval of the arm's
        mean.
    """

    name: str
    kind: str
    meaning: str
    rule: Callable[[FloatArray], FloatArray] = field(repr=False)
    failure: float = nan
    source: str = ""
    stretched: bool = False
    mean_failure: float = 0.0

    def __str__(self) -> str:
        shown = f"Confidence set {self.name!r}, {_DESCRIPTIONS[self.kind]}: {self.meaning}."
        return f"{shown} Shown by: {self.source}." if self.source else shown

    def _repr_html_(self) -> str:
        rows = [
            ("what it is", _DESCRIPTIONS[self.kind]),
            ("what it promises", self.meaning),
            ("shown by", self.source or "–"),
        ]
        radii_shown = [f"{self.radius(n):.3g} after {n:,}" for n in (10, 100, 1_000, 10_000)]
        rows.append(("its radius", ", ".join(radii_shown) + " rewards"))
        return _html.html_titled_block(f"Confidence set {self.name!r}", _html.html_table((), rows))

    def radius(self, n: ArrayLike) -> Any:
        """The radius after n rewards. It is infinite for n = 0.

        >>> import pmbandits as pmb
        >>> from pmbandits.confidence import confidence_set
        >>> chosen = confidence_set("dkw", pmb.Interval(0, 1), n_arms=2, horizon=10_000)
        >>> round(chosen.radius(1), 2)
        3.09
        """
        count = np.atleast_1d(np.asarray(n, dtype=np.float64))
        out = np.full(count.shape, np.inf)
        seen = count > 0
        out[seen] = self.rule(count[seen])
        return float(out[0]) if np.ndim(n) == 0 else out


def confidence_set(
    name: str | CustomSet,
    support: Support,
    n_arms: int,
    *,
    horizon: int | None = None,
    delta: float | None = None,
    cells: int | None = None,
) -> ConfidenceSet:
    """Make the confidence set that a policy keeps for each of its arms.

    Parameters
    ----------
    name : ``"auto"`` takes the tightest set that is valid, which is ``kl`` on every support. ``"paper"`` takes the
        paper's constants: exactly where rewards are 1-sub-Gaussian, as it assumes (σ ≤ 1, width ≤ 2), and σ times as
        large elsewhere. ``"kl"``, ``"dkw"`` and ``"wasserstein"`` name a set. Or give an object of your own with
        ``kind`` and ``radius(n)``.
    support : where rewards lie. It decides which sets are valid.
    n_arms : the number of arms between which ``delta`` is shared.
    horizon : the set is valid for all n up to this number of rewards. With ``None`` (the default) it is valid for all
        n.
    delta : the probability of failure. With a horizon it is that of each arm (default 1/horizon, and 2/horizon for the
        paper's constants). Without one it is that of all arms together (default 0.05). A smaller one is safer, and
        explores longer.
    cells : into how many cells rewards are rounded, if they are.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> confidence_set("auto", pmb.Interval(0, 1), 2, horizon=1000)
    ConfidenceSet(name='kl', kind='kl_band', ...
    """
    if not isinstance(name, str):
        return _confidence_set_from_custom(name)
    _validation.check_choice("confidence", name, NAMES)
    if horizon is not None:
        horizon = _validation.check_whole_number("horizon", horizon, 1)
        each = _validation.check_within("delta", 1.0 / horizon if delta is None else delta, 0.0, 1.0, open_lo=True)
    else:
        total = _validation.check_within(
            "delta", 0.05 if delta is None else delta, 0.0, 1.0, open_lo=True, open_hi=True
        )
        each = total / n_arms
    heavy = isinstance(support, Heavy)
    if name == "auto":
        name = "kl"
    if heavy and name != "kl":
        raise ValueError(f"confidence {name!r} is not valid for heavy tails ({support!r}); take 'auto'.")
    if name == "paper":
        return _paper_confidence_set(support, n_arms, horizon, delta)
    meaning = _guarantee_text(each, horizon)
    # ln(1/δ) at n: the share of each n in the union, or of each n in Σ 1/(n(n+1)) = 1.
    log_term = partial(_anytime_log_term, each=each)
    if horizon is not None:
        log_term = partial(np.full_like, fill_value=log(horizon / each))
    if name == "kl":
        chosen = _kl_confidence_set(support, meaning, each, cells)
    elif name == "dkw":
        chosen = _dkw_confidence_set(support, meaning, horizon, each, log_term)
    else:
        chosen = _wasserstein_confidence_set(support, meaning, horizon, each, log_term)
    return replace(chosen, failure=each)


def _kl_confidence_set(support: Support, meaning: str, each: float, cells: int | None) -> ConfidenceSet:
    of_mean = 0.0
    if isinstance(support, Real):
        of_mean = MEAN_DELTA_SHARE * each
        each -= of_mean
        meaning = f"{meaning}, if every arm is {support.sigma:g}-sub-Gaussian"
    elif isinstance(support, Heavy):
        meaning = f"{meaning}, if every arm keeps its promise E|X|^{support.order:g} ≤ {support.bound:g}"
    thresholds = cells
    if isinstance(support, (Binary, Finite)):
        thresholds = support.atoms.size - 1
    if thresholds is None or thresholds > MAX_THRESHOLDS:
        source = "a mixture of the Krichevsky–Trofimov martingales of all levels (2026; see the page on bands)"
        if of_mean > 0.0:
            source += ", with Robbins's interval of the mean (1970) and Chernoff's inequality (1952) for the tails"
        rule = partial(_simultaneous_kl_radius, each=each)
        return ConfidenceSet("kl", "kl_band", meaning, rule, source=source, stretched=True, mean_failure=of_mean)
    kind = "interval" if isinstance(support, Binary) else "kl_band"
    source = "Krichevsky and Trofimov's estimator (1981) and Ville's inequality (1939), at each threshold"
    return ConfidenceSet("kl", kind, meaning, partial(_pointwise_kl_radius, each=each / thresholds), source=source)


# Radii are functions of this module with their constants bound (partial), so that policies can be pickled.
def _anytime_log_term(n: FloatArray, each: float) -> FloatArray:
    """ln(1/δ) at n, where the failures of all n add up to ``each``."""
    return np.log(n * (n + 1.0) / each)


def _simultaneous_kl_radius(n: FloatArray, each: float) -> FloatArray:
    """Radius in relative entropy that holds for all x at once."""
    return bands.anytime_threshold(n, each) / n


def _pointwise_kl_radius(n: FloatArray, each: float) -> FloatArray:
    """Radius in relative entropy at one threshold that fails with probability ``each``."""
    return np.log(2.0 * np.sqrt(n) / each) / n


def _dkw_radius(n: FloatArray, log_term: Callable[[Any], Any]) -> FloatArray:
    """Height of the band of Dvoretzky, Kiefer and Wolfowitz."""
    return radii.dkw_radius(n, log_term(n) + log(2.0))


def _w1_radius(n: FloatArray, sigma: float, log_term: Callable[[Any], Any]) -> FloatArray:
    """Radius of the Wasserstein ball of sub-Gaussian rewards, at one n."""
    return radii.sub_gaussian_w1_radius(n, sigma, log_term(n))


def _stitched_w1_radius(n: FloatArray, sigma: float, each: float) -> FloatArray:
    """Radius of the Wasserstein ball of sub-Gaussian rewards, at all n: stitched over epochs.

    The distance is a reverse submartingale: from m on, it exceeds what it may at m no more often.
    """
    epoch = np.floor(np.log(n) / log(EPOCH_GROWTH) + 1e-9)
    first = np.minimum(np.ceil(EPOCH_GROWTH**epoch - 1e-9), n)
    return radii.sub_gaussian_w1_radius(first, sigma, np.log((epoch + 1.0) * (epoch + 2.0) / each))


def _w1_radius_of_band(n: FloatArray, width: float, rule: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Radius of the Wasserstein ball around a band of a bounded support."""
    return width * np.minimum(rule(n), 1.0)


def _paper_radius(n: FloatArray, scale: float, log_term: float) -> FloatArray:
    """The paper's radius, for rewards that are ``scale``-sub-Gaussian."""
    return scale * radii.paper_w1_radius(n, log_term)


def _dkw_confidence_set(
    support: Support, meaning: str, horizon: int | None, each: float, log_term: Callable[[Any], Any]
) -> ConfidenceSet:
    if not isfinite(support.width):
        raise ValueError("confidence 'dkw' needs a bounded support, because it does not limit how large rewards are; "
                         "take 'wasserstein' or declare Interval(lo, hi).")  # fmt: skip
    rule, source = _dkw_radius_function_and_source(horizon, each, log_term)
    return ConfidenceSet("dkw", "band", meaning, rule, source=source)


def _dkw_radius_function_and_source(
    horizon: int | None, each: float, log_term: Callable[[Any], Any]
) -> tuple[Callable[[FloatArray], FloatArray], str]:
    if horizon is not None:
        source = "Dvoretzky, Kiefer and Wolfowitz (1956), with Massart's constant (1990)"
        return partial(_dkw_radius, log_term=log_term), source
    return partial(radii.howard_ramdas_radius, constant=howard_ramdas_constant(each)), "Howard and Ramdas (2022)"


def _wasserstein_confidence_set(
    support: Support, meaning: str, horizon: int | None, each: float, log_term: Callable[[Any], Any]
) -> ConfidenceSet:
    if isinstance(support, Real):
        sigma, said = support.sigma, f"{meaning}, if every arm is {support.sigma:g}-sub-Gaussian"
        source = "Kontorovich's inequality (2014)"
        if horizon is not None:
            rule: Callable[[FloatArray], FloatArray] = partial(_w1_radius, sigma=sigma, log_term=log_term)
            return ConfidenceSet("wasserstein", "ball", said, rule, source=f"{source}, and a union over n")
        rule = partial(_stitched_w1_radius, sigma=sigma, each=each)
        return ConfidenceSet("wasserstein", "ball", said, rule, source=f"{source}, stitched over epochs")
    # The ball around the band: that of the mean distance and bounded differences would be wider.
    width, (rule, source) = support.width, _dkw_radius_function_and_source(horizon, each, log_term)
    return ConfidenceSet(
        "wasserstein", "ball", meaning, partial(_w1_radius_of_band, width=width, rule=rule), source=source
    )


def _paper_confidence_set(support: Support, n_arms: int, horizon: int | None, delta: float | None) -> ConfidenceSet:
    """``eq:UCB_confidence_sets`` and ``eq:any_UCB_confidence_sets``: to the letter where the paper's assumption holds.

    The paper assumes 1-sub-Gaussian arms. Where the support only promises σ > 1 the radius is σ times as large: W1 is
    measured in the unit of the rewards, and rewards divided by σ are 1-sub-Gaussian.
    """
    scale = max(1.0, support.scale)
    if horizon is not None:  # δ = 2/T² for each n, so 2/T for all n ≤ T: ln(2/δ) is 2·ln T
        failure = min(1.0, 2.0 / horizon if delta is None else delta)
        log_term = 2.0 * log(horizon) if delta is None else log(2.0 * horizon / delta)
        meaning = f"the paper's radius for a known horizon: {_guarantee_text(failure, horizon)}"
    else:
        failure = nan  # there is no union over time
        log_term = log(2.0 / arm_failure(0.05 if delta is None else delta, n_arms))
        meaning = "the paper's radius for CIRT, which is valid only for a number of rewards that was fixed beforehand"
    if scale > 1.0:
        meaning += f", times {scale:g} because the arms are {scale:g}-sub-Gaussian, not 1-sub-Gaussian"
    return ConfidenceSet("paper", "ball", meaning, partial(_paper_radius, scale=scale, log_term=log_term), failure)


def _guarantee_text(failure: float, horizon: int | None) -> str:
    """What a set promises, in words."""
    when = "however many rewards come" if horizon is None else f"for its first {horizon:,} rewards"
    share = f"{100 * (1.0 - failure):.6g} %"
    return f"with probability at least {share}, the true distribution of an arm stays inside its set, {when}"


def _confidence_set_from_custom(given: CustomSet) -> ConfidenceSet:
    if not isinstance(given, CustomSet):
        raise TypeError(f"confidence must be one of {', '.join(NAMES)} or an object with kind and radius(n), "
                        f"got {given!r}.")  # fmt: skip
    _validation.check_choice("confidence kind", given.kind, KINDS)
    try:
        tried = np.asarray(given.radius(np.array([1.0, 2.0, 1000.0])), dtype=np.float64)
    except TypeError as error:
        raise TypeError(f"radius(n) of the confidence set {given!r} must take an array of counts: {error}.") from None
    if tried.shape != (3,) or np.isnan(tried).any() or (tried < 0.0).any():
        raise ValueError(f"radius(n) must give one number ≥ 0 for each n, but gave {tried!r} for n = 1, 2, 1000.")
    return ConfidenceSet(type(given).__name__, given.kind, "as its author says", given.radius)


@lru_cache(maxsize=256)
def howard_ramdas_constant(delta: float) -> float:
    """C of Howard and Ramdas's band 0.85·√((ln(1 + ln n) + C)/n), valid for all n ≥ 1 with probability 1 − δ.

    The smallest C with inf_η 4·exp(−γ²C)·(1 + 1/((γ² − 1)·ln η)) ≤ δ, γ = √(2/η)·(0.85 − √(2(η − 1)/C)).

    >>> round(howard_ramdas_constant(0.05), 3)
    8.123
    """
    lo, hi = 1.0, 800.0
    for _ in range(100):
        middle = 0.5 * (lo + hi)
        lo, hi = (lo, middle) if _band_crossing_probability(middle) <= delta else (middle, hi)
    return hi


def _band_crossing_probability(constant: float, slope: float = 0.85) -> float:
    """The bound on the probability of ever leaving the band, at the best η."""

    def bound(eta: float) -> float:
        gamma2 = 2.0 / eta * max(slope - sqrt(2.0 * (eta - 1.0) / constant), 0.0) ** 2
        if gamma2 <= 1.0:
            return np.inf
        return 4.0 * exp(-gamma2 * constant) * (1.0 + 1.0 / ((gamma2 - 1.0) * log(eta)))

    etas = 1.0 + np.logspace(-6, np.log10(2.0 * slope**2 - 1.0), 4000)
    values = [bound(float(x)) for x in etas]
    k = int(np.argmin(values))
    fine = np.linspace(etas[max(k - 1, 0)], etas[min(k + 1, etas.size - 1)], 400)
    return min(bound(float(x)) for x in fine)
