"""From logged rewards to a recommendation, with an account of how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from math import ceil, isfinite, nan
from typing import Any, overload

import numpy as np

from pmbandits import _check
from pmbandits.advice import checks, words
from pmbandits.advice.again import in_python
from pmbandits.advice.bands import Bands, estimate
from pmbandits.advice.evidence import Evidence, Problem, gather, holm
from pmbandits.advice.limited import gather_limited
from pmbandits.advice.result import Advice, AdviceTable, ArmAdvice, Sure, Verdict
from pmbandits.best.prices import Price
from pmbandits.limits import Limits, Shares, limits
from pmbandits.logs import ArmLog, Log, Reading, read
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Binary, Finite, Heavy, Interval, Real, Support

_LARGE = 1 << 25  # bytes of a file from which on a progress bar is shown


Metric = Distortion | str


@overload
def advise(
    data: Any,
    metric: Metric = ...,
    *,
    arm: str = ...,
    reward: str = ...,
    unit: str | None = ...,
    time: str | None = ...,
    per: str | None = ...,
    wide: bool | Sequence[str] = ...,
    decimal: str = ...,
    thousands: str = ...,
    currency: str = ...,
    support: Support | None = ...,
    shares: Shares = ...,
    level: float = ...,
    splits: int = ...,
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
    unit: str | None = ...,
    time: str | None = ...,
    per: str | None = ...,
    wide: bool | Sequence[str] = ...,
    decimal: str = ...,
    thousands: str = ...,
    currency: str = ...,
    support: Support | None = ...,
    shares: Shares = ...,
    level: float = ...,
    splits: int = ...,
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
    unit: str | None = None,
    time: str | None = None,
    per: str | None = None,
    wide: bool | Sequence[str] = False,
    decimal: str = ".",
    thousands: str = "",
    currency: str = "",
    support: Support | None = None,
    shares: Shares = None,
    level: float = 0.95,
    splits: int = 16,
    seed: int = 0,
    progress: bool | None = None,
    strict: bool = False,
    loss: bool = False,
) -> Advice | AdviceTable:
    """Find the mixture of arms that is best for what you value, from logged rewards, and say if it could be chance.

    Parameters
    ----------
    data : the rewards. They can be a dict of rewards by arm, or a frame (pandas, polars, pyarrow, or the result of a
        query in DuckDB and other tools that speak Arrow). They can also be the path of a CSV, Parquet, JSON lines or
        Excel file, or of a folder of Parquet files. Files are read in pieces. Of an arm with very many different
        rewards only a summary is kept, and the error of the summary is allowed for.
    metric : what you value, by name or as an object. If you give several, you get a table of how the advice changes
        with the preference, and the verdicts allow for their number.
    arm, reward : the names of the two columns of a frame or a file.
    unit : the column that says whose reward it is (a user, a patient, a shop). Rewards of one unit are not independent;
        with this column, errors are worked out between units. All rows are kept in memory.
    time : the column that says when the reward came. Arms whose rewards changed over time are named, and then nothing
        is called sure. All rows are kept in memory.
    per : ``"day"``, ``"week"`` or ``"month"``: one outcome is then not a row, but such a period, and it is worth the
        average of the arm's rewards in it. A mixture then means that in each period one arm is played. It needs
        ``time``. ``"time"`` takes each value of that column as a period, such as the number of a week.
    wide : whether the table has one column for each arm, and no arm column: ``True``, or a list of the columns that are
        arms.
    decimal, thousands, currency : how numbers are written in text, such as ``decimal=","``, ``thousands="."`` and
        ``currency="€"``. They are never guessed.
    support : where rewards can lie, if you know it. "Surely" is said only if you declare it, or if all rewards are 0 or
        1. Without it, a rare and huge reward that nobody has seen yet could change any verdict.
    shares : limits on the shares, such as ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1, 1)}``. The advice is then the
        best mixture that keeps them, with what each limit costs.
    level : a verdict is wrong with probability at most 1 − level. The default is 0.95.
    splits : how often the rewards are divided at random into those that choose and those that measure, in eights.
    seed : the seed of these divisions.
    progress : whether to show a progress bar. By default it is shown for large files on a terminal.
    strict : whether to refuse malformed rows, instead of counting and showing them.
    loss : whether the numbers are losses. Then they are negated, and ``support`` is that of the losses.

    The rewards of an arm (or its units) must be independent and have the same distribution. Which arm was logged when
    must not depend on the rewards.

    The best mixture in the data looks better than it is, because it was picked for looking good. So its value is
    cross-fitted: mixtures are chosen on some of the rewards and measured on the others. A single arm is called surely
    better if its lead over every other arm is beyond chance. A mixture is called surely better if mixtures that were
    chosen on some rewards beat every single arm on the others by more than chance allows, in most divisions. How often
    such verdicts are wrong was measured: see :doc:`/reference/advice`.

    Examples
    --------
    >>> import numpy as np
    >>> import pmbandits as pmb
    >>> rng = np.random.default_rng(0)
    >>> data = {"a": rng.normal(1, 1, 400), "b": rng.normal(5, 1, 400)}
    >>> advice = pmb.advise(data, "gini", support=pmb.Interval(-10, 20))
    >>> advice.verdict, {name: round(share, 1) for name, share in advice.mixture.items()}
    ('real', {'a': 0.5, 'b': 0.5})
    """
    level = _check.within("level", level, 0.5, 1.0, open_hi=True)
    splits = _check.whole("splits", splits, 1, 56)
    seed = _check.whole("seed", seed, 0, 2**40)
    several = not isinstance(metric, (str, Distortion)) and isinstance(metric, Sequence)
    chosen = [as_metric(m) for m in metric] if several else [as_metric(metric)]  # type: ignore[union-attr]
    if not chosen:
        raise ValueError("metric is an empty list; give at least one, such as 'gini'.")
    if support is not None and not isinstance(support, Support):
        raise TypeError(
            "support must be Binary(), Finite(...), Interval(lo, hi), Real(sigma) or Heavy(order, bound), "
            f"got {_check.short(support)}."
        )
    how = Reading(arm, reward, unit, time, wide, decimal, thousands, currency, per)
    log = read(data, how=how, strict=strict, loss=loss, seed=seed, watch=_watch(progress))
    problem = problem_of(log, support, loss=loss, seed=seed, splits=splits)
    asked = {
        "arm": arm, "reward": reward, "unit": unit, "time": time, "per": per, "wide": wide, "decimal": decimal,
        "thousands": thousands, "currency": currency, "support": support, "shares": shares, "level": level,
        "splits": splits, "seed": seed, "loss": loss,
    }  # fmt: skip
    out = judge(problem, chosen, level=level, shares=shares, loss=loss, repeat=in_python(data, metric, asked))
    return AdviceTable(out) if several else out[0]


def problem_of(
    log: Log, support: Support | None = None, *, loss: bool = False, seed: int = 0, splits: int = 16
) -> Problem:
    """Put rewards that were read together with where they can lie, so that several preferences can be asked about them.

    The parameters are those of :func:`advise`.
    """
    assumed = support is None
    if support is None:
        support = _range(log.arms)
        assumed = not isinstance(support, Binary)
    else:
        if log.per is not None and isinstance(support, (Binary, Finite)):  # averages lie between them
            support = Interval(support.lo, support.hi)
        support = _declared(support, log.arms, loss)
    return Problem(log, support, not assumed, seed, splits)


def judge(
    problem: Problem,
    metrics: Sequence[Distortion],
    *,
    level: float = 0.95,
    shares: Shares = None,
    loss: bool = False,
    repeat: str = "",
) -> list[Advice]:
    """What the rewards say of each preference; the verdicts allow for their number."""
    log = problem.log
    alpha = 1.0 - level
    kept = None if shares is None else limits(shares, [a.name for a in log.arms])
    costs: list[dict[str, Price]] = [{} for _ in metrics]
    if kept is None:
        found = [gather(m, problem, alpha / len(metrics)) for m in metrics]
    else:
        found, costs = (list(part) for part in zip(*(gather_limited(m, problem, kept) for m in metrics), strict=True))
    passed = holm([e.p for e in found], alpha)
    tails = [] if problem.declared else checks.heavy_tails(problem.samples)
    drift = checks.drifts(log)
    return [
        _advice(m, problem, e, bool(ok), level, tails, drift, loss, len(metrics), kept, cost, repeat)
        for m, e, ok, cost in zip(metrics, found, passed, costs, strict=True)
    ]


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
    if lo >= 0.0 and hi <= 1.0 and all(np.isin(a.x, (0.0, 1.0)).all() for a in arms):
        return Binary()
    return Interval(lo, hi) if lo < hi else Interval(lo, lo + 1.0)


def _declared(support: Support, arms: Sequence[ArmLog], loss: bool) -> Support:
    """The declared support, turned for losses; an error if a reward lies outside."""
    if loss:
        least, most = -max(float(a.x[-1]) for a in arms), -min(float(a.x[0]) for a in arms)
        if isinstance(support, Interval) and not support.lo <= least <= most <= support.hi:
            raise ValueError(
                f"losses from {least:g} to {most:g} do not lie within the declared {support!r}; declare a wider one."
            )
        support = _negated(support)
    for arm in arms:
        points = arm.x if arm.error == 0.0 else arm.x[[0, -1]]
        if not isinstance(support, Finite) or arm.error == 0.0:
            support.check(points)
    return support


def _negated(support: Support) -> Support:
    if isinstance(support, Real):
        return support
    if isinstance(support, Heavy):
        return Heavy(support.order, support.bound)
    if isinstance(support, (Binary, Finite)):
        return Finite(-support.atoms)
    return Interval(-support.hi, -support.lo)


def _advice(
    metric: Distortion,
    problem: Problem,
    found: Evidence,
    passed: bool,
    level: float,
    tails: Sequence[checks.Tail],
    drift: Sequence[checks.Drift],
    loss: bool,
    family: int,
    kept: Limits | None,
    costs: dict[str, Price],
    repeat: str,
) -> Advice:
    """Decide what may be said, and put it together."""
    log, support = problem.log, problem.support
    names = tuple(arm.name for arm in log.arms)
    minded = tuple(t for t in tails if checks.minds(metric, t.upper))
    changed = tuple(drift)
    limited = problem.declared and not isinstance(support, (Real, Heavy))
    sure: Sure = "unclear"
    if passed and not minded:
        known = limited or (
            problem.declared and not checks.vertical(metric) and not checks.broken(support, problem.samples)
        )
        sure = "surely" if known and not changed else "looks"
    verdict: Verdict = "single arm"
    if found.is_mixture or kept is not None:
        verdict = "real" if sure == "surely" else "looks real" if sure == "looks" else "could be noise"
    best = int(np.argmax(found.singles)) if found.is_mixture else int(np.argmax(found.weights))
    value, _ = _within((found.value, found.value), metric, problem)
    unknown = bool(minded) or (not limited and checks.vertical(metric))
    interval = (nan, nan) if unknown else _within(found.interval(level), metric, problem)
    inside = Bands(metric, problem.samples, support, level)
    independent = problem.declared and problem.clusters is None and not changed
    bounds = inside.value(found.weights) if independent else (nan, nan)
    if not all(map(isfinite, bounds)):
        bounds = nan, nan
    if isfinite(interval[0]) and isfinite(bounds[0]):  # no wider than what always holds
        interval = min(max(interval[0], bounds[0]), value), max(min(interval[1], bounds[1]), value)
    if metric.jumps and not minded and not isinstance(support, Heavy):  # a standard error says little there
        interval = inside.value(found.weights)
    factor = found.more((1.0 - level) / family) if not passed and found.margins and not found.few else float("inf")
    negative = max(float(s.x[-1]) for s in problem.samples) <= 0.0
    advice = Advice(
        metric=metric,
        names=names,
        weights=found.weights,
        value=value,
        apparent=found.apparent,
        interval=interval,
        bounds=bounds,
        best_arm=names[best],
        best_arm_value=float(found.singles[best]),
        gain=found.gain,
        apparent_gain=found.apparent_gain,
        evidence=found,
        sure=sure,
        verdict=verdict,
        more={a.name: _round(a.n * (factor - 1.0)) for a in log.arms} if isfinite(factor) else {},
        arms=_arms(
            metric,
            problem,
            found,
            set(range(len(names))) if unknown else set(),
            level,
            inside if metric.jumps else None,
        ),
        level=level,
        support=support,
        support_assumed=not problem.declared,
        loss=loss,
        family=family,
        limits=kept,
        costs=costs,
        tails=minded,
        drift=changed,
        warnings=(),
        notes=(),
        repeat=repeat,
        log=log,
        estimates=tuple(
            estimate(a.name, s, support, inside.failure) for a, s in zip(log.arms, problem.samples, strict=True)
        )
        if len(names) <= 200
        else (),
    )
    trap = checks.wrong_tail(metric, loss, negative and not loss)
    warnings = (*([trap] if trap else []), *words.warnings(advice))
    return replace(advice, warnings=warnings, notes=tuple(words.notes(advice, problem)))


def _arms(
    metric: Distortion, problem: Problem, found: Evidence, unstable: set[int], level: float, inside: Bands | None
) -> tuple[ArmAdvice, ...]:
    from scipy.special import stdtrit

    sizes = np.array([s.n for s in problem.samples], dtype=np.float64)
    times = stdtrit(np.maximum(sizes - 1.0, 1.0), 0.5 + 0.5 * level)
    away = np.hypot(times * found.errors, times**2 * found.bends)
    out = []
    for k, (arm, sample) in enumerate(zip(problem.log.arms, problem.samples, strict=True)):
        utility = float(found.singles[k])
        known = sample.n >= 5 and k not in unstable
        interval = (utility - float(away[k]), utility + float(away[k])) if known else (nan, nan)
        if known and inside is not None:  # the preference jumps, so that a standard error says little
            interval = inside.alone(k)
        mean, within = float(sample.x @ sample.p), _within(interval, metric, problem)
        out.append(ArmAdvice(arm.name, arm.n, float(found.weights[k]), mean, utility, within))
    return tuple(out)


def _within(interval: tuple[float, float], metric: Distortion, problem: Problem) -> tuple[float, float]:
    """Cut an interval to what the metric can be on the support, which standard errors do not know."""
    support = problem.support
    if words.stops_at_zero(not problem.declared, support, metric) and isfinite(interval[0]):
        return max(interval[0], 0.0), interval[1]
    if isinstance(support, (Real, Heavy)) or not problem.declared or not isfinite(interval[0]):
        return interval
    base = support.lo * float(metric(1.0))
    low, high = (base + support.width * end.value for end in (metric.minimum(), metric.maximum()))
    return min(max(interval[0], low), high), min(max(interval[1], low), high)


def _round(count: float) -> int:
    """Two digits are enough, because it is an estimate."""
    if count < 10:
        return max(ceil(count), 1)
    size = 10 ** (len(str(int(count))) - 2)
    return ceil(count / size) * size
