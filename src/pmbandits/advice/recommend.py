"""From logged rewards to a recommendation, with intervals that say how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import ceil, isfinite
from typing import Any, overload

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.advice import statistics as stats
from pmbandits.advice import words
from pmbandits.advice.result import Advice, AdviceTable, ArmAdvice, Verdict
from pmbandits.advice.statistics import TIE, HeldOut
from pmbandits.arms import Bandit
from pmbandits.best import oracle
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import ArmLog, Log, read
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.metrics.value import value_of_mixture
from pmbandits.supports import Binary, Finite, Interval, Real, Support

_LARGE = 1 << 25  # bytes of a file from which on a progress bar is shown
_ENOUGH = 200  # resamples, to say how much of a gain is optimism
_FURTHEST = 1e7  # times as many rewards, beyond which "more data" is no advice


Metric = Distortion | str


@overload
def advise(
    data: Any,
    metric: Metric = ...,
    *,
    arm: str = ...,
    reward: str = ...,
    support: Support | None = ...,
    level: float = ...,
    bootstrap: int = ...,
    seed: int = ...,
    progress: bool | None = ...,
    strict: bool = ...,
    loss: bool = ...,
) -> Advice: ...
@overload
def advise(
    data: Any,
    metric: list[Metric] | list[str] | tuple[Metric, ...],
    *,
    arm: str = ...,
    reward: str = ...,
    support: Support | None = ...,
    level: float = ...,
    bootstrap: int = ...,
    seed: int = ...,
    progress: bool | None = ...,
    strict: bool = ...,
    loss: bool = ...,
) -> AdviceTable: ...
def advise(
    data: Any,
    metric: Metric | Sequence[Metric] | Sequence[str] = "gini",
    *,
    arm: str = "arm",
    reward: str = "reward",
    support: Support | None = None,
    level: float = 0.95,
    bootstrap: int = 500,
    seed: int = 0,
    progress: bool | None = None,
    strict: bool = False,
    loss: bool = False,
) -> Advice | AdviceTable:
    """Which mixture of arms is best for what you value, by logged rewards; and is its gain real or noise?

    Parameters
    ----------
    data : rewards by arm (a dict), a pandas, polars or pyarrow frame, or the path of a CSV, Parquet or JSON lines file.
        Files are read in pieces: of an arm with very many different rewards a summary is kept, whose error is added
        to the intervals.
    metric : what you value, by name or as an object; several give a table of how the advice changes.
    arm, reward : the columns of a frame or a file.
    support : where rewards can lie. Default: 0 and 1 if there are no others, else the range seen in the data, which is
        an assumption: the intervals are valid if no reward can fall outside.
    level : of the intervals.
    bootstrap : how often rewards are resampled.
    seed : of resampling and of the random halves.
    progress : whether to show a progress bar; default for large files on a terminal.
    strict : refuse malformed rows instead of counting and showing them.
    loss : the numbers are losses: they are negated, and ``support`` is that of the losses.

    Rewards of an arm must be independent and alike, and which arm was logged when must not depend on them.

    The best mixture in the data looks better than it is, because it was picked for looking good. So ``verdict`` calls
    a gain real only if one of two checks says so, each with half of the error probability 1 − level: the least
    possible gain of the mixture inside the confidence bands of all arms is above 0 (valid for any mixture, however it
    was picked), or a mixture picked on one random half of the rewards beats every single arm on the other half by
    more than its standard errors. Both are measured in the tests, on arms that are equal or of which one is best.

    Examples
    --------
    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> rng = np.random.default_rng(0)
    >>> data = {"a": rng.normal(1, 1, 400), "b": rng.normal(5, 1, 400)}
    >>> advice = pmb.advise(data, "gini", bootstrap=50)
    >>> advice.verdict, {name: round(share, 1) for name, share in advice.mixture.items()}
    ('real', {'a': 0.5, 'b': 0.5})
    """
    level = _check.within("level", level, 0.5, 1.0, open_hi=True)
    bootstrap = _check.whole("bootstrap", bootstrap, 0)
    seed = _check.whole("seed", seed, 0, 2**40)
    several = not isinstance(metric, (str, Distortion)) and isinstance(metric, Sequence)
    chosen = [as_metric(m) for m in metric] if several else [as_metric(metric)]  # type: ignore[union-attr]
    if not chosen:
        raise ValueError("metric is an empty list; give at least one, such as 'gini'.")
    if support is not None and not isinstance(support, Support):
        raise TypeError(
            f"support must be Binary(), Finite(...), Interval(lo, hi) or Real(sigma), got {_check.short(support)}."
        )
    log = read(data, arm=arm, reward=reward, strict=strict, loss=loss, seed=seed, watch=_watch(progress))
    assumed = support is None
    if support is None:
        support = _range(log.arms)
    elif loss:
        least, most = -max(float(a.x[-1]) for a in log.arms), -min(float(a.x[0]) for a in log.arms)
        if isinstance(support, Interval) and not support.lo <= least <= most <= support.hi:
            raise ValueError(
                f"losses from {least:g} to {most:g} do not lie within the declared {support!r}; declare a wider one."
            )
        support = _negated(support)
    out = [_advise(m, log, support, assumed, level, bootstrap, seed, loss) for m in chosen]
    return AdviceTable(out) if several else out[0]


def _watch(progress: bool | None) -> Callable[[str, int], AbstractContextManager[Callable[[int], None]]]:
    """A progress bar for reading a file; without being asked for, only for large files."""

    @contextmanager
    def watch(name: str, size: int) -> Iterator[Callable[[int], None]]:
        if progress is False or (progress is None and size < _LARGE):
            yield lambda done: None
            return
        from pmbandits.simulation.progress import Bar

        with Bar(size, shown=progress, label=f"read {name}", unit="bytes") as bar:
            yield lambda done: bar.advance(done - bar.done)

    return watch


def _range(arms: Sequence[ArmLog]) -> Support:
    lo, hi = min(float(a.x[0]) for a in arms), max(float(a.x[-1]) for a in arms)
    if all(np.isin(a.x, (0.0, 1.0)).all() for a in arms):
        return Binary()
    return Interval(lo, hi) if lo < hi else Interval(lo, lo + 1.0)


def _negated(support: Support) -> Support:
    if isinstance(support, Real):
        return support
    if isinstance(support, (Binary, Finite)):
        return Finite(-support.atoms)
    return Interval(-support.hi, -support.lo)


def _advise(
    metric: Distortion,
    log: Log,
    support: Support,
    assumed: bool,
    level: float,
    bootstrap: int,
    seed: int,
    loss: bool,
) -> Advice:
    arms = log.arms
    names = tuple(arm.name for arm in arms)
    bandit = Bandit([Atoms(arm.x, arm.p) for arm in arms], names, support=support)
    weights, value = _best(metric, bandit)
    eye = np.eye(len(arms))
    inside = stats.Bands(metric, arms, support, level)
    singles = np.array([metric.value(arm.x, arm.p) for arm in arms])
    is_mixture = int((weights > 0.0).sum()) > 1
    rivals = [j for j in range(len(arms)) if weights[j] < 1.0]
    best_arm = int(np.argmax(singles)) if is_mixture else int(np.argmax(weights))
    lead = value - float(max((singles[j] for j in rivals), default=value))
    lead_interval = inside.gain(weights, rivals) if rivals else (0.0, 0.0)
    gain = lead if is_mixture else 0.0
    share = 0.5 * (1.0 - level)  # of the error, for each of the two checks
    least = stats.Bands(metric, arms, support, 1.0 - share).gain(weights, rivals)[0] if rivals else 0.0
    test = _test(metric, log, support, 1.0 - share, is_mixture)
    drawn = None
    if bootstrap:
        drawn = stats.resample(metric, arms, weights, bootstrap, np.random.default_rng([seed, 1]))
    proven = bool(rivals) and (least > 0.0 or (test is not None and test.lower > 0.0))
    verdict: Verdict = "single arm" if not is_mixture else "real" if proven else "could be noise"
    nothing = (float("nan"), float("nan"))
    advice = Advice(
        metric=metric,
        names=names,
        weights=weights,
        value=value,
        interval=inside.value(weights),
        bootstrap_interval=_within(drawn.interval(value, drawn.best, level), metric, support) if drawn else nothing,
        optimism=drawn.optimism if drawn else float("nan"),
        best_arm=names[best_arm],
        best_arm_value=float(singles[best_arm]),
        gain=gain,
        gain_interval=lead_interval if is_mixture else (0.0, 0.0),
        gain_bootstrap_interval=drawn.interval(gain, drawn.gain, level) if drawn and is_mixture else nothing,
        lead=lead,
        lead_interval=lead_interval,
        held_out=test,
        verdict=verdict,
        proven=proven,
        more={},
        arms=tuple(
            ArmAdvice(a.name, a.n, float(w), float(a.x @ a.p), float(u), inside.value(row))
            for a, w, u, row in zip(arms, weights, singles, eye, strict=True)
        ),
        level=level,
        support=support,
        support_assumed=assumed,
        loss=loss,
        notes=(
            *words.general_notes(log, support, assumed, loss),
            *words.notes_on(metric, log, support, isfinite(inside.steepness), drawn),
        ),
        log=log,
        estimates=_estimates(arms, inside, support),
    )
    if not proven and rivals:
        honest = lead
        if is_mixture:  # how much of the gain is owed to having chosen the best: some resamples must tell
            if drawn is None or drawn.best.size < _ENOUGH:
                drawn = stats.resample(metric, arms, weights, _ENOUGH, np.random.default_rng([seed, 2]))
            honest -= float(drawn.gain.mean())
        factor = _factor(metric, arms, support, share, weights, rivals, test, honest)
        involved = [i for i in range(len(arms)) if weights[i] > 0.0 or singles[i] >= value - lead - TIE * abs(value)]
        if isfinite(factor):
            more = {names[i]: _round(arms[i].n * (factor - 1.0)) for i in involved}
            object.__setattr__(advice, "more", more)
    return advice


def _within(interval: tuple[float, float], metric: Distortion, support: Support) -> tuple[float, float]:
    """Resampling does not know what the metric can be at all on the support."""
    if isinstance(support, Real):
        return interval
    base = support.lo * float(metric(1.0))
    low, high = (base + support.width * end.value for end in (metric.minimum(), metric.maximum()))
    return min(max(interval[0], low), high), min(max(interval[1], low), high)


def _best(metric: Distortion, bandit: Bandit) -> tuple[FloatArray, float]:
    best = oracle(metric, bandit)
    weights = np.where(best.weights < 1e-6, 0.0, best.weights)
    weights /= weights.sum()
    if best.gain <= TIE * max(abs(best.value), abs(best.best_arm_value)):
        weights = np.eye(bandit.n_arms)[best.best_arm]
    return weights, value_of_mixture(metric, list(bandit.laws), weights)


def _test(metric: Distortion, log: Log, support: Support, confidence: float, mixture: bool) -> HeldOut | None:
    """Choose on one half, compare on the other."""
    first = [arm.halves[0] for arm in log.arms]
    if min(n for n, *_ in first) == 0 or len(first) == 1:
        return None
    laws = [Atoms(x, p) for _, x, p, _ in first]
    weights, _ = _best(metric, Bandit(laws, [arm.name for arm in log.arms], support=support))
    if mixture and int((weights > 0.0).sum()) == 1:
        return None  # the half does not even suggest a mixture
    if not mixture:
        weights = np.eye(len(first))[int(np.argmax(weights))]
    return stats.held_out(metric, weights, [arm.halves[1] for arm in log.arms], support, confidence)


def _factor(
    metric: Distortion,
    arms: Sequence[ArmLog],
    support: Support,
    share: float,
    weights: FloatArray,
    rivals: Sequence[int],
    test: HeldOut | None,
    gain: float,
) -> float:
    """How many times as many rewards it takes, if all stays as it looks: by the halves, or else by the bands."""
    if gain <= 0.0:
        return float("inf")
    found = []
    if test is not None and test.error > 0.0:
        width = max(test.gain - test.lower, 0.0)
        found.append((width / gain) ** 2)
    low, high = 1.0, 2.0

    def settled(times: float) -> bool:
        return stats.Bands(metric, arms, support, 1.0 - share, times).gain(weights, rivals)[0] > 0.0

    while not found and high < _FURTHEST and not settled(high):
        low, high = high, 4.0 * high
    if not found and high < _FURTHEST:
        while high > 1.05 * low:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if settled(middle) else (middle, high)
        found.append(high)
    factor = max(min(found, default=float("inf")), 1.1)
    return factor if factor < _FURTHEST else float("inf")


def _round(count: float) -> int:
    """Two digits: it is an estimate."""
    if count < 10:
        return max(ceil(count), 1)
    size = 10 ** (len(str(int(count))) - 2)
    return ceil(count / size) * size


def _estimates(arms: Sequence[ArmLog], inside: stats.Bands, support: Support) -> tuple[ArmEstimate, ...]:
    out = []
    for k, arm in enumerate(arms):
        if isinstance(support, Binary):
            laid, _ = inside.laid(np.eye(len(arms))[k])
            low, high = float(laid.low[0, 0]), float(laid.high[0, 0])
            out.append(ArmEstimate(arm.name, arm.n, arm.x, arm.p, max(high - low, 0.0), "interval", low, high))
        else:
            kind = "ball" if isinstance(support, Real) else "band"
            out.append(ArmEstimate(arm.name, arm.n, arm.x, arm.p, float(inside.radii[k]), kind))
    return tuple(out)
