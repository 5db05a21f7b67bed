"""From logged rewards to a recommendation, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from pmbandits import _validation
from pmbandits.advice import checks
from pmbandits.advice.bands import Bands, estimate_with_band
from pmbandits.advice.clusters import n_rewards_or_units
from pmbandits.advice.direction import is_loss_and_whether_assumed
from pmbandits.advice.groups import AdviceByGroup, read_groups
from pmbandits.advice.inference import Evidence, compute_evidence, holm_rejections, pairs_told_apart
from pmbandits.advice.intervals import clip_to_metric_range, finite_or_nan, signed_interval
from pmbandits.advice.problem import FEWEST_UNITS, Problem, make_problem, negated_support
from pmbandits.advice.repro_call import call_to_repeat
from pmbandits.advice.result import Advice, AdviceTable, ArmAdvice, Sure, Verdict
from pmbandits.advice.sample_size import n_more_rewards_needed
from pmbandits.advice.segments import AdviceBySegment, advise_by_segment
from pmbandits.advice.share_constraints import compute_evidence_constrained
from pmbandits.advice.standard_errors import unit_vector
from pmbandits.constraints import Limits, Shares, limits
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import ReadSettings, read_log
from pmbandits.metrics import Preference, as_preference
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.shadow_prices import ShadowPrice
from pmbandits.supports import Heavy, Support

_PROGRESS_BAR_BYTES = 1 << 25  # bytes of a file from which on a progress bar is shown
_MOST_ARMS_ESTIMATED = 200  # arms up to which plots can show them


Metric = Distortion | Preference | str


class AdviseOptions(TypedDict, total=False):
    """The keyword arguments of :func:`advise`, for type checkers."""

    arm: str | None
    reward: str | None
    unit: str | None
    time: str | None
    per: str | None
    wide: bool | Sequence[str]
    sheet: str | None
    where: str | Sequence[str]
    since: str | None
    missing: float | Sequence[float] | None
    same_names: bool
    distinct: bool
    measured_in: str
    decimal: str | None
    thousands: str
    currency: str
    support: Support | None
    shares: Shares
    level: float
    splits: int
    progress: bool | None
    strict: bool
    loss: bool | None
    matters: float
    weight: str | None
    propensity: str | None


@overload
def advise(data: Any, metric: Metric = ..., *, by: str, **options: Unpack[AdviseOptions]) -> AdviceByGroup: ...
@overload
def advise(data: Any, metric: Metric = ..., **options: Unpack[AdviseOptions]) -> Advice: ...
@overload
def advise(data: Any, metric: Metric = ..., *, segment: str, **options: Unpack[AdviseOptions]) -> AdviceBySegment: ...
@overload
def advise(
    data: Any, metric: list[Metric] | list[str] | tuple[Metric, ...], **options: Unpack[AdviseOptions]
) -> AdviceTable: ...
def advise(
    data: Any,
    metric: Metric | Sequence[Metric] | Sequence[str] = "mean",
    *,
    arm: str | None = None,
    reward: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    per: str | None = None,
    wide: bool | Sequence[str] = False,
    sheet: str | None = None,
    where: str | Sequence[str] = (),
    since: str | None = None,
    missing: float | Sequence[float] | None = None,
    same_names: bool = False,
    distinct: bool = False,
    measured_in: str = "",
    decimal: str | None = None,
    thousands: str = "",
    currency: str = "",
    support: Support | None = None,
    shares: Shares = None,
    level: float = 0.95,
    splits: int = 16,
    progress: bool | None = None,
    strict: bool = False,
    loss: bool | None = None,
    matters: float = 0.0,
    weight: str | None = None,
    propensity: str | None = None,
    by: str | None = None,
    segment: str | None = None,
) -> Advice | AdviceTable | AdviceByGroup | AdviceBySegment:
    """Find the mixture of arms that is best for what you value, from logged rewards, and say if it could be chance.

    Parameters
    ----------
    data : the rewards. They can be a dict of rewards by arm, or a frame (pandas, polars, pyarrow, or the result of a
        query in DuckDB and other tools that speak Arrow). They can also be the path of a CSV, Parquet, JSON lines or
        Excel file, or of a folder of Parquet files. Files are read in pieces. Of an arm with very many different
        rewards only a summary is kept, and the error of the summary is allowed for.
    metric : what you value: a metric, its name, words such as ``"avoid the worst 10 %"``, ``"steady"`` or ``"p95"``, or
        an entry of :func:`preferences`. The default is the mean. If you give several, you get a table of how the advice
        changes with the preference, and the verdicts allow for their number.
    arm, reward : the names of the two columns of a frame or a file. If they are not given, they are those called "arm"
        and "reward", or the likeliest ones; the result says which were taken.
    unit : the column that says whose reward it is (a user, a patient, a shop). Rewards of one unit are not independent;
        with this column, errors are worked out between units. All rows are kept in memory.
    time : the column that says when the reward came. Arms whose rewards changed over time are named, and then nothing
        is called sure. If arms were not tried at the same time, nothing is concluded. Without ``unit``, errors are
        worked out between blocks of time, because rewards may depend on those before them. All rows are kept in memory.
    per : ``"day"``, ``"week"`` or ``"month"``: one outcome is then not a row, but such a period, and it is worth the
        average of the arm's rewards in it. A mixture then means that in each period one arm is played. It needs
        ``time``. ``"time"`` takes each value of that column as a period, such as the number of a week.
    wide : whether the table has one column for each arm, and no arm column: ``True``, or a list of the columns that are
        arms.
    sheet : the sheet of a workbook; by default the first that has a table.
    where : which rows are meant, such as ``"country == DE"`` or ``["age >= 18", "site != test"]``.
    since : leave out rows before this time, such as ``"2026-03-01"``.
    missing : numbers that stand for "not known". By default, numbers such as 999999 that repeat far away from all other
        rewards are taken for this; ``()`` counts every number.
    same_names : whether names that differ only in capital letters, spaces or signs are one arm.
    distinct : whether rows of a file that are exact copies of others are counted once.
    measured_in : the unit of the rewards, for sentences and tables, such as ``"minutes"``; ``currency`` is one,
        too, and so is a known one in brackets in the name of the column, such as "wait (min)".
    decimal, thousands, currency : how numbers are written in text, such as ``decimal=","``, ``thousands="."`` and
        ``currency="€"``. They are found by themselves where they can mean nothing else.
    support : where rewards can lie, if you know it. "Surely" is said only if you declare it, or if all rewards are 0 or
        1. Without it, a rare and huge reward that nobody has seen yet could change any verdict.
    shares : limits on the shares, such as ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1, 1)}``. The advice is then the
        best mixture that keeps them, with what each limit costs.
    level : a verdict is wrong with probability at most 1 − level. The default is 0.95.
    splits : how often the rewards are divided at random into those that choose and those that measure, in eights.
    progress : whether to show a progress bar. By default it is shown for large files on a terminal.
    strict : whether to refuse malformed rows, instead of counting and showing them.
    loss : whether the numbers are losses: smaller is better, and ``support`` is that of the losses. By default this
        follows from words such as ``"minimise cost"``, or from a reward column that is called cost, delay, wait, loss,
        price and the like; the result says first what was assumed.
    matters : the smallest difference that matters, in the unit of the rewards. "Choose" then says that no other arm is
        better by more than that, and a mixture must gain more than that.
    weight : the column with the weight of each row. Numbers of rewards are then numbers of rewards with equal weight.
    propensity : the column with the probability with which the arm of the row was chosen, in logs of bandits and of our
        service. Rows are weighted by its inverse, so which arm was tried when may depend on earlier rewards.
    by : a column of groups: the result is then one advice for each group, and whether the groups differ.
    segment : a column that is known before one chooses, such as new or returning. The result is then the choice for
        each segment that is best for the whole population, and what knowing the segment gains.

    The rewards of an arm (or its units) must be independent and have the same distribution. Which arm was logged when
    must not depend on the rewards, unless propensities are given.

    ``advice.decision`` is the answer: "choose" (a lead beyond chance, if rewards go on as they were seen), "leads" or
    "cannot tell", with the size of the difference, the next step and caveats. "Surely" is said if a lead is beyond
    chance whatever the distributions in the declared range are. An arm that was picked for looking best is likely to
    look better than it is; that is taken off its value. A mixture is recommended if mixtures that were chosen on some
    of the rewards are better than single arms on the others. How often verdicts are wrong was measured: see
    :doc:`/reference/advice`.

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
    level = _validation.check_within("level", level, 0.5, 1.0, open_hi=True)
    splits = _validation.check_whole_number("splits", splits, 1, 56)
    several = not isinstance(metric, (str, Distortion, Preference)) and isinstance(metric, Sequence)
    wishes = [as_preference(m) for m in metric] if several else [as_preference(metric)]  # type: ignore[union-attr]
    matters = _validation.check_within("matters", matters, 0.0, inf, open_hi=True)
    if not wishes:
        raise ValueError("metric is an empty list; give at least one, such as 'gini'.")
    if support is not None and not isinstance(support, Support):
        raise TypeError(
            "support must be Binary(), Finite(...), Interval(lo, hi), Real(sigma) or Heavy(order, bound), "
            f"got {_validation.short_repr(support)}."
        )
    read_options: dict[str, Any] = {
        "arm": arm, "reward": reward, "unit": unit, "time": time, "per": per, "wide": wide, "sheet": sheet,
        "where": where, "since": since, "missing": missing, "same_names": same_names, "distinct": distinct,
        "measured_in": measured_in, "decimal": decimal, "thousands": thousands, "currency": currency,
        "weight": weight, "propensity": propensity,
    }  # fmt: skip
    settings = ReadSettings(**read_options)
    log = read_log(data, settings=settings, strict=strict, watch=_progress_bar_factory(progress))
    losses, assumed, conflict = is_loss_and_whether_assumed(loss, wishes, log)
    log = replace(log, findings=(*conflict, *log.findings))
    if losses:
        log = log.negated()
    problem = make_problem(log, support, loss=losses, splits=splits)
    chosen = [wish.of_losses() if losses else wish.metric for wish in wishes]
    call_options = {
        **read_options, "support": support, "shares": shares, "level": level, "splits": splits,
        "loss": loss, "matters": matters,
    }  # fmt: skip
    if (by is not None or segment is not None) and several:
        raise ValueError("give one metric for each question with groups or segments, not several.")
    if segment is not None and (by is not None or shares is not None):
        raise ValueError("a choice for each segment cannot have limits on shares or groups; give segment alone.")
    repeat = call_to_repeat(data, metric, {**call_options, "by": by, "segment": segment})
    out = advise_on_problem(
        problem, chosen, level=level, shares=shares, loss=losses, matters=matters, assumed=assumed, repeat=repeat
    )
    if segment is not None:
        return advise_by_segment(data, segment, out[0], settings, support, splits)
    if by is None:
        return AdviceTable(out) if several else out[0]
    options: AdviseOptions = {**call_options, "progress": False, "strict": strict}  # type: ignore[typeddict-item]
    options |= {"arm": log.arm_column or None, "reward": log.reward_column or None, "loss": losses}
    conditions = [where] if isinstance(where, str) else list(where)
    groups = {}
    for name in (arm.name for arm in read_groups(data, by, out[0], settings).arms):
        options["where"] = [*conditions, f"{by} == {name}"]
        groups[name] = advise(data, wishes[0], **options)
    return AdviceByGroup(by, out[0], groups)


def advise_on_problem(
    problem: Problem,
    metrics: Sequence[Distortion],
    *,
    level: float = 0.95,
    shares: Shares = None,
    loss: bool = False,
    matters: float = 0.0,
    assumed: bool = False,
    repeat: str = "",
) -> list[Advice]:
    """Advice on a problem for each of several metrics; the verdicts are corrected for their number."""
    log, alpha = problem.log, 1.0 - level
    problem = replace(problem, alpha=alpha / len(metrics))
    constraints = None if shares is None else limits(shares, [a.name for a in log.arms])
    tails = () if problem.declared else tuple(checks.find_heavy_tails(problem.samples))
    apart = tuple(checks.arms_apart_in_time(log))
    found: list[tuple[Evidence, dict[str, ShadowPrice]]]
    if constraints is None:
        heavy = [[tail.arm for tail in _heavy_tails_that_matter(tails, m)] for m in metrics]
        found = [
            (compute_evidence(m, problem, problem.alpha, matters, arms, apart), {})
            for m, arms in zip(metrics, heavy, strict=True)
        ]
    else:
        found = [compute_evidence_constrained(m, problem, constraints) for m in metrics]
    passed = holm_rejections([evidence.p for evidence, _ in found], alpha)
    proven = holm_rejections([evidence.guarded_p for evidence, _ in found], alpha)
    shared = _Shared(
        problem=problem,
        level=level,
        loss=loss,
        matters=matters,
        assumed=assumed,
        family=len(metrics),
        constraints=constraints,
        tails=tails,
        drift=tuple(checks.find_drifts(log)),
        apart=apart,
        serial=log.kept_rows is not None and log.kept_rows.serial,
        repeat=repeat,
    )
    return [
        _build_advice(shared, metric, evidence, bool(ok), bool(ok and sure), costs)
        for metric, (evidence, costs), ok, sure in zip(metrics, found, passed, proven, strict=True)
    ]


@dataclass(frozen=True)
class _Shared:
    """What the advice on several metrics has in common; the fields are those of ``Advice``."""

    problem: Problem
    level: float
    loss: bool
    matters: float
    assumed: bool
    family: int
    constraints: Limits | None
    tails: tuple[checks.HeavyTail, ...]
    drift: tuple[checks.Drift, ...]
    apart: tuple[int, ...]
    serial: bool
    repeat: str


def _heavy_tails_that_matter(tails: Sequence[checks.HeavyTail], metric: Distortion) -> tuple[checks.HeavyTail, ...]:
    """The heavy tails on which a metric depends."""
    return tuple(tail for tail in tails if checks.depends_on_tail(metric, tail.upper))


def _progress_bar_factory(progress: bool | None) -> Callable[[str, int], AbstractContextManager[Callable[[int], None]]]:
    """A factory of progress bars for reading a file; by default only large files get one."""

    @contextmanager
    def watch(name: str, size: int) -> Iterator[Callable[[int], None]]:
        if progress is False or (progress is None and size < _PROGRESS_BAR_BYTES):
            yield lambda done: None
            return
        from pmbandits.simulation.progress import ProgressBar

        with ProgressBar(size, shown=progress, label=f"read {name}", unit="bytes") as bar:
            yield lambda done: bar.advance(done - bar.done)

    return watch


def _build_advice(
    shared: _Shared, metric: Distortion, evidence: Evidence, passed: bool, proven: bool, costs: dict[str, ShadowPrice]
) -> Advice:
    """The advice on one metric, from the evidence.

    ``passed`` says whether the recommendation is beyond chance if rewards go on as they were seen, ``proven`` whether
    it is, whatever the distributions in the declared range are.
    """
    problem, log, support = shared.problem, shared.problem.log, shared.problem.support
    names = tuple(arm.name for arm in log.arms)
    all_tails = _heavy_tails_that_matter(shared.tails, metric)
    tails = tuple(tail for tail in all_tails if tail.arm not in evidence.left_out)
    inconclusive = shared.serial or not set(shared.apart) <= set(evidence.left_out)
    passed = passed and not inconclusive
    sure: Sure = "unclear"
    if passed and not tails:
        sure = _certainty_of_recommendation(shared, metric) if proven and not evidence.left_out else "looks"
    verdict: Verdict = "single arm"
    if evidence.is_mixture or shared.constraints is not None:
        verdict = _VERDICTS[sure]
    best = int(np.argmax(evidence.arm_utilities if evidence.is_mixture else evidence.weights))
    bands = Bands(metric, problem.samples, support, shared.level, problem.clusters)
    value, _ = clip_to_metric_range((evidence.value, evidence.value), metric, problem)
    bounds = _guaranteed_utility_bounds(shared, evidence, bands)
    known = not tails and (problem.is_bounded or not checks.has_infinite_slope_at_ends(metric))
    interval = _approximate_utility_interval(shared, evidence, bands, value, bounds) if known else (nan, nan)
    if metric.jumps and not tails and not isinstance(support, Heavy):  # a standard error says little there
        estimate = problem.utility_estimate(metric, evidence.weights)
        interval = finite_or_nan(estimate.limits_from_order_statistics(1.0 - shared.level))
    sign = _score_sign(shared, metric)
    pairs: list[tuple[int, int]] = []
    doubtful = tails or inconclusive or shared.drift or _is_table_doubtful(problem)
    if sure == "unclear" and shared.constraints is None and not doubtful:
        pairs = pairs_told_apart(metric, problem, evidence, (1.0 - shared.level) / shared.family)
    return Advice(
        metric=metric,
        names=names,
        weights=evidence.weights,
        value=sign * value,
        apparent=sign * evidence.apparent,
        interval=signed_interval(sign, interval),
        bounds=signed_interval(sign, bounds),
        best_arm=names[best],
        best_arm_value=sign * float(evidence.arm_utilities[best]),
        gain=evidence.gain,
        apparent_gain=evidence.apparent_gain,
        evidence=evidence,
        sure=sure,
        verdict=verdict,
        more={} if passed or inconclusive else _more_rewards_needed_by_arm(shared, evidence),
        arms=_arm_advice(shared, metric, evidence, bands, known, {tail.arm for tail in all_tails}),
        level=shared.level,
        support=negated_support(support) if shared.loss else support,
        support_assumed=not problem.declared,
        loss=shared.loss,
        matters=shared.matters,
        direction_assumed=shared.assumed,
        family=shared.family,
        limits=shared.constraints,
        costs=costs,
        tails=tails,
        tails_left_out=tuple(tail for tail in all_tails if tail not in tails),
        drift=shared.drift,
        apart=shared.apart,
        serial=shared.serial,
        told_apart=tuple((names[k], names[j]) for k, j in pairs),
        repeat=shared.repeat,
        log=log,
        estimates=_arm_estimates_with_bands(problem, bands.failure),
    )


def _score_sign(shared: _Shared, metric: Distortion) -> float:
    """The sign that gives a score the sign of the data: losses are negated, but a spread (h(1) = 0) has no sign."""
    return -1.0 if shared.loss and float(metric(1.0)) != 0.0 else 1.0


_VERDICTS: dict[Sure, Verdict] = {"surely": "real", "looks": "looks real", "unclear": "could be noise"}


def _certainty_of_recommendation(shared: _Shared, metric: Distortion) -> Sure:
    """How sure a recommendation is that is beyond chance: not "surely" if something that it rests on is not known."""
    problem = shared.problem
    known = problem.is_bounded or (
        problem.declared
        and not checks.has_infinite_slope_at_ends(metric)
        and not checks.violates_moment_bound(problem.support, problem.samples)
    )
    return "surely" if known and not shared.drift and not _is_table_doubtful(problem) else "looks"


def _is_table_doubtful(problem: Problem) -> bool:
    """Whether something was noticed about the table that is not allowed for."""
    kinds = ("unreadable", "units", "part of the time", "censoring")
    return any(finding.kind in kinds for finding in problem.log.findings)


def _guaranteed_utility_bounds(shared: _Shared, evidence: Evidence, bands: Bands) -> tuple[float, float]:
    """Bounds of the utility that always hold; NaN where rewards are not independent, or where there are none."""
    problem = shared.problem
    weighted = any(s.squares is not None for s in problem.samples)
    if not problem.declared or problem.clusters is not None or weighted or shared.drift:
        return nan, nan
    return finite_or_nan(bands.mixture_utility_bounds(evidence.weights))


def _approximate_utility_interval(
    shared: _Shared, evidence: Evidence, bands: Bands, value: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """An approximate interval of the utility, no wider than the bounds that always hold."""
    low, high = clip_to_metric_range(evidence.utility_interval_at(shared.level), bands.metric, shared.problem)
    if isfinite(low) and isfinite(bounds[0]):
        return min(max(low, bounds[0]), value), max(min(high, bounds[1]), value)
    return low, high


def _more_rewards_needed_by_arm(shared: _Shared, evidence: Evidence) -> dict[str, int]:
    """How many more rewards of each arm would settle the question; empty if nothing can be said."""
    arms = shared.problem.log.arms
    if not evidence.margins or shared.constraints is not None:
        return {}
    more = n_more_rewards_needed(evidence, [a.n for a in arms], (1.0 - shared.level) / shared.family, shared.matters)
    return {arms[k].name: count for k, count in more.items()}


def _arm_estimates_with_bands(problem: Problem, failure: float) -> tuple[ArmEstimate, ...]:
    """The arms with their bands, for plots; none if there are very many."""
    if len(problem.samples) > _MOST_ARMS_ESTIMATED:
        return ()
    arms = zip(problem.log.arms, problem.samples, strict=True)
    return tuple(estimate_with_band(arm.name, sample, problem.support, failure) for arm, sample in arms)


def _arm_advice(
    shared: _Shared, metric: Distortion, evidence: Evidence, bands: Bands, known: bool, heavy: set[int]
) -> tuple[ArmAdvice, ...]:
    """Utility and interval of each single arm; ``known`` says whether intervals can be given at all."""
    from scipy.special import stdtrit

    problem, sign = shared.problem, _score_sign(shared, metric)
    times = stdtrit(np.maximum(evidence.arm_dfs, 1.0), 0.5 + 0.5 * shared.level)
    half_widths = np.hypot(times * evidence.errors, times**2 * evidence.curvature_errors)
    out = []
    for k, (arm, sample) in enumerate(zip(problem.log.arms, problem.samples, strict=True)):
        utility = float(evidence.arm_utilities[k])
        interval = nan, nan
        if (
            known
            and k not in heavy
            and n_rewards_or_units(problem.samples, k, problem.clusters) >= FEWEST_UNITS
            and sample.n >= 5
        ):
            near = utility - float(half_widths[k]), utility + float(half_widths[k])
            if metric.jumps:  # a standard error says little there
                estimate = problem.utility_estimate(metric, unit_vector(len(problem.samples), k))
                near = finite_or_nan(estimate.limits_from_order_statistics(1.0 - shared.level))
            interval = clip_to_metric_range(near, metric, problem)
        mean = (-1.0 if shared.loss else 1.0) * float(sample.x @ sample.p) + 0.0
        between = signed_interval(sign, interval)
        out.append(ArmAdvice(arm.name, arm.n, float(evidence.weights[k]), mean, sign * utility + 0.0, between))
    return tuple(out)
