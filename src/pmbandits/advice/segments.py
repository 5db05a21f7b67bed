"""A choice for each segment: the plan that is best for the whole population, and what knowing the segment gains.

*The plan.* A pair of a segment and an arm is a column. The plan is the mixture of the columns with the largest utility
of all rewards together, where the weights of a segment's columns add up to how often it comes. What is best for the
population need not be best in each segment alone.

*What knowing the segment gains* is measured beside the best mixture that is the same in all segments. Both are compared
within segments, so it does not matter if some arms were tried more often in some segments. The plan is chosen on three
random eighths of the rewards and measured on the others, for several divisions. Twice the median of the p-values is a
valid one (Rüger 1978). The mixture for all is chosen on all rewards, so it has an advantage, if anything.

*Frequencies* are those in the data, and are taken as known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from pmbandits._text_tables import aligned_columns
from pmbandits._validation import FloatArray
from pmbandits.advice import sentences
from pmbandits.advice.groups import AnswersByColumn, read_groups
from pmbandits.advice.inference import TIE_TOLERANCE, atoms_of_thinned_sample, utility_of_mixture
from pmbandits.advice.numbers import NumberFormat, share_in_percent
from pmbandits.advice.problem import N_CHOOSING_PARTS, Problem, make_problem
from pmbandits.advice.result import Advice
from pmbandits.advice.standard_errors import Margin, margin_between_mixtures
from pmbandits.logs import N_PARTS, PAIR_SIGN, Finding, ReadSettings, Sample, read_log
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.maximise import maximise
from pmbandits.supports import Support
from pmbandits.tables.survival_table import SurvivalTable

_POINTS = {"neither": 64}  # points of a column on which a plan is chosen; 256 for other shapes
_SMALLEST_SHARE = 1e-3  # of an arm in its segment
_MOST_NAMED = 4  # segments in a sentence
_NOT_MEASURED = (nan, (nan, nan), 1.0)  # a gain, its interval and its p-value
_SURE_CONFOUNDING, _STRONG_CONFOUNDING = 1e-3, 0.1  # p-value, and Cramér's V: how much arms depend on segments


@dataclass(frozen=True)
class _Columns:
    """The columns that can be planned with: their problem, places of segments and arms, and frequencies of segments."""

    problem: Problem
    segment: NDArray[np.intp]
    arm: NDArray[np.intp]
    frequencies: FloatArray

    def plan_and_same_for_all(self, metric: Distortion, samples: Sequence[Sample]) -> tuple[FloatArray, FloatArray]:
        """The joint weights of the best plan, and those of the best mixture that is the same for all."""
        most = _POINTS.get(metric.shape, 256)
        table = SurvivalTable.from_atoms([atoms_of_thinned_sample(sample, most) for sample in samples])
        found = maximise(metric, table, segments=self.segment, frequencies=self.frequencies, accuracy=1e-6)
        plan = self._without_tiny_shares(found.weights)
        each = np.where(self.arm == np.unique(self.arm)[:, None], self.frequencies[self.segment], 0.0)
        shares = maximise(metric, table.table_of_mixtures(each), accuracy=1e-6).weights
        shares = np.where(shares < _SMALLEST_SHARE, 0.0, shares)
        candidates = [*each, shares / shares.sum() @ each, plan]  # in case of a tie, the simplest
        values = np.array([utility_of_mixture(metric, samples, weights) for weights in candidates])
        slack = TIE_TOLERANCE * float(np.abs(values).max())
        same = candidates[int(np.argmax(values[:-1] >= values[:-1].max() - slack))]
        return (plan if values[-1] > values[:-1].max() + slack else same), same

    def _without_tiny_shares(self, weights: FloatArray) -> FloatArray:
        kept = np.where(weights < _SMALLEST_SHARE * self.frequencies[self.segment], 0.0, weights)
        totals = np.bincount(self.segment, kept)
        return np.asarray(kept * (self.frequencies / totals)[self.segment])

    def held_out_gain(
        self, metric: Distortion, same: FloatArray, level: float, matters: float
    ) -> tuple[float, tuple[float, float], float]:
        """The held-out gain of plans, its interval, and the p-value of a gain of more than ``matters``."""
        guard = self.problem.guard.guard_of_reward_share((N_PARTS - N_CHOOSING_PARTS) / N_PARTS)
        guard = replace(guard, zeros_are_rewards=False)
        margins: list[Margin] = []
        for one, two in self.problem.cross_fitting_splits():
            choosing, (samples, clusters) = self.problem.select_parts(one)[0], self.problem.select_parts(two)
            if min(sample.n for sample in (*choosing, *samples)) < 2:
                continue
            plan, _ = self.plan_and_same_for_all(metric, choosing)
            if np.abs(plan - same).max() <= TIE_TOLERANCE:
                margins.append(Margin(0, 0.0, 0.0, 0.0, inf))
            else:
                margins.append(margin_between_mixtures(metric, plan, same, samples, guard, clusters, rival=0))
        if not margins:
            return _NOT_MEASURED
        low, high = np.median([margin.interval(level) for margin in margins], axis=0).tolist()
        gains = [margin.gain for margin in margins]
        gain = float(np.mean(gains)) if np.median(gains) > 0.0 else min(float(np.mean(gains)), 0.0)
        p_value = 2.0 * float(np.median([margin.p_value_of_lead_beyond(matters) for margin in margins]))
        known = low < high  # else most of the plans are the same for all
        return gain, (low, high) if known else (nan, nan), min(p_value, 1.0)


class AdviceBySegment(AnswersByColumn[dict[str, float]]):
    """A choice for each segment, which is best for the whole population: the result of :func:`advise` with ``segment``.

    It is a mapping from segments to shares of arms.

    Attributes
    ----------
    column : the column that says to which segment a row belongs.
    whole : the advice on all rows, which does not look at the segments.
    frequencies : how often each segment comes.
    same_for_all : the best shares if everybody gets the same; ``None`` if nothing can be compared.
    gain, interval : by how much the plan is better than that, on rewards that did not choose it, with an interval. NaN
        where it cannot be measured.
    p_value : of the claim that knowing the segment gains something.
    findings : arms that were hardly tried in some segments, and whether arms and segments go together in the data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pmbandits as pmb
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"page": ["a", "b"] * 200, "who": ["new"] * 200 + ["known"] * 200})
    >>> best = np.where(rows["who"] == "new", "a", "b")
    >>> plan = pmb.advise(rows.assign(sold=rng.normal(rows["page"] == best)), arm="page", reward="sold", segment="who")
    >>> dict(plan), plan.pays
    ({'new': {'a': 1.0}, 'known': {'b': 1.0}}, True)
    """

    def __init__(
        self,
        column: str,
        whole: Advice,
        plan: Mapping[str, dict[str, float]],
        frequencies: Mapping[str, float],
        same_for_all: dict[str, float] | None,
        gain: tuple[float, tuple[float, float], float],
        findings: Sequence[Finding],
    ) -> None:
        super().__init__(column, whole, plan)
        self.frequencies, self.same_for_all = dict(frequencies), same_for_all
        self.gain, self.interval, self.p_value = gain
        self.findings = tuple(findings)

    @property
    def pays(self) -> bool:
        """Whether knowing the segment gains something (more than what matters), beyond chance."""
        whole = self.whole
        doubtful = whole.tails or whole.inconclusive or whole.censored or whole.drift or whole.doubt
        return bool(self.p_value <= 1.0 - self.whole.level and self.gain > self.whole.matters and not doubtful)

    @property
    def title(self) -> str:
        """What stands above the table."""
        return f"The best choice for each {self.column}, in the data"

    @property
    def headline(self) -> str:
        """What to do, as far as the evidence allows."""
        if self.same_for_all is None:
            return f"What knowing {self.column} gains cannot be said: too little was tried in more than one of them."
        if self.pays:
            listed = "; ".join(f"{name}: {self._text(mixture)}" for name, mixture in self.items())
            return f"Choose by {self.column}{f': {listed}' if len(self) <= _MOST_NAMED else ', as the table says'}."
        if self.gain > self.whole.matters:
            return f"A choice by {self.column} leads, but the data do not settle whether it pays."
        return f"Knowing {self.column} gains nothing that these data show: take the same for all."

    @property
    def comparison(self) -> str:
        """What knowing the segment gains, with an interval."""
        if self.same_for_all is None:
            return f"This needs {sentences.min_sample_size_text(self.whole)} of the same two in two of them."
        same, score = self._text(self.same_for_all), sentences.score_name(self.whole)
        if not np.isfinite(self.gain):
            return f"Beside {same} for all, too few rows are left to measure the gain."
        if all(mixture == self.same_for_all for mixture in self.values()):
            return f"By the {score}, {same} is best for each of them, in the data."
        half = 0.5 * (self.interval[1] - self.interval[0])
        written = NumberFormat.for_resolution([half if np.isfinite(half) else self.gain], self.whole.log.measured_in)
        between = f" ({100 * self.whole.level:g} % interval: {written.interval_text(self.interval)})"
        better = "better" if self.gain >= 0.0 else "worse"
        size = f"{written.text_with_unit(abs(self.gain))} {better} than {same} for all"
        said = (
            f"By the {score}, a choice by {self.column} is {size}{between if np.isfinite(half) else ''}, on rows that "
            "were not used to choose."
        )
        if self.pays:
            return f"{said} That is beyond chance, if values go on as they were."
        if self.whole.doubt is not None:
            return f"{said} {sentences.doubt_text(self.whole.doubt)}"
        by_chance = self.gain > 0.0 and not self.p_value <= 1.0 - self.whole.level
        return f"{said} A difference like this is often seen by chance alone." if by_chance else said

    def _text(self, mixture: dict[str, float]) -> str:
        return sentences.mixture_text(mixture, self.whole.log.arm_column)

    def rows(self) -> list[tuple[str, ...]]:
        """The plan as a table; the first row has the names of the columns."""
        out: list[tuple[str, ...]] = [(self.column, "how often it comes", "best for all together")]
        for name, share in self.frequencies.items():
            best = self._text(self[name]) if name in self else "left out: too few rows"
            out.append((name, share_in_percent(share), best))
        return out

    def __str__(self) -> str:
        lines = [self.headline, self.comparison, "", *aligned_columns(self.rows()), ""]
        lines += [f"- {finding}" for finding in self.findings]
        return "\n".join([*lines, "", f"Without {self.column}:", str(self.whole)])

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON."""
        known = bool(np.isfinite(self.interval).all())
        return {
            **self.whole.to_dict(),
            "segment": self.column,
            "plan": dict(self),
            "frequencies": self.frequencies,
            "same_for_all": self.same_for_all,
            "gain_of_knowing": self.gain if np.isfinite(self.gain) else None,
            "interval_of_gain_of_knowing": list(self.interval) if known else None,
            "p_value": self.p_value,
            "pays": self.pays,
            "sentences_by_segment": [self.headline, self.comparison],
            "findings_by_segment": [vars(finding) for finding in self.findings],
        }


def advise_by_segment(
    data: Any, column: str, whole: Advice, settings: ReadSettings, support: Support | None, splits: int
) -> AdviceBySegment:
    """The best plan by segment, on the same rows as the advice on all of them."""
    if settings.per is not None:
        raise ValueError("give segment or per, not both: the average of a period belongs to no single segment.")
    totals = {arm.name: arm.total for arm in read_groups(data, column, whole, settings).arms}
    frequencies = {name: total / sum(totals.values()) for name, total in totals.items()}
    named = replace(settings, arm=whole.log.arm_column, reward=whole.log.reward_column, segment=column)
    log = read_log(data, settings=named)
    problem = make_problem(log.negated() if whole.loss else log, support, loss=whole.loss, splits=splits)
    problem = replace(problem, alpha=1.0 - whole.level)
    sizes = np.zeros((len(frequencies), len(whole.names)), dtype=np.int64)
    place = np.full(sizes.shape, -1)
    for k, arm in enumerate(log.arms):
        segment, name = arm.name.split(PAIR_SIGN)
        at = list(frequencies).index(segment), whole.names.index(name)
        sizes[at], place[at] = arm.n, -1 if problem.has_too_few_rewards(k) else k
    segments, arms = _complete_part(place >= 0, sizes)
    findings = [*_left_out(whole, frequencies, segments, arms), *_confounding(whole, column, frequencies, sizes)]
    if min(segments.size, arms.size) < 2:
        return AdviceBySegment(column, whole, {}, frequencies, None, _NOT_MEASURED, findings)
    planned = [list(frequencies)[s] for s in segments]
    shares = np.array([frequencies[name] for name in planned])
    columns = _Columns(
        problem.select_arms(place[np.ix_(segments, arms)].ravel().tolist()),
        np.repeat(np.arange(segments.size), arms.size),
        np.tile(arms, segments.size),
        shares / shares.sum(),
    )
    plan, same = columns.plan_and_same_for_all(whole.metric, columns.problem.samples)
    gain = columns.held_out_gain(whole.metric, same, whole.level, whole.matters)
    each = [_shares_by_arm(whole, columns, plan, columns.segment == s) for s in range(len(planned))]
    for_all = _shares_by_arm(whole, columns, same, columns.segment == 0)
    if for_all != whole.mixture and any(f.kind == "confounded" for f in findings):
        best, plain = (sentences.mixture_text(m, whole.log.arm_column) for m in (for_all, whole.mixture))
        seen = f"Compared within each {column}, {best} is the best for all; over all rows, {plain} seems to be."
        findings.append(Finding("reversed", seen, "The first is right, if nothing else went with the choice."))
    return AdviceBySegment(column, whole, dict(zip(planned, each, strict=True)), frequencies, for_all, gain, findings)


def _complete_part(tried: NDArray[np.bool_], sizes: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places of segments and arms of which all pairs were tried: the smallest with gaps are left out in turn.

    >>> _complete_part(np.array([[True, True], [True, False]]), np.array([[90, 90], [20, 2]]))
    (array([0]), array([0, 1]))
    """
    segments, arms = (np.arange(count) for count in tried.shape)
    while not (inside := tried[np.ix_(segments, arms)]).all():
        rows = sizes[np.ix_(segments, arms)]
        by_segment = np.where(inside.all(axis=1), inf, rows.sum(axis=1))
        by_arm = np.where(inside.all(axis=0), inf, rows.sum(axis=0))
        if by_segment.min() <= by_arm.min():
            segments = np.delete(segments, np.argmin(by_segment))
        else:
            arms = np.delete(arms, np.argmin(by_arm))
    return segments, arms


def _shares_by_arm(whole: Advice, columns: _Columns, weights: FloatArray, mine: NDArray[np.bool_]) -> dict[str, float]:
    """The shares of the arms in a segment, without those that have none."""
    shares = weights[mine] / weights[mine].sum()
    return {whole.names[k]: float(w) for k, w in zip(columns.arm[mine].tolist(), shares, strict=True) if w > 0.0}


def _left_out(
    whole: Advice, frequencies: Mapping[str, float], segments: NDArray[np.intp], arms: NDArray[np.intp]
) -> Iterator[Finding]:
    """Segments and arms that the plan leaves out, because of some pairs there are too few rows."""
    fewest = sentences.min_sample_size_text(whole)
    names = [name for k, name in enumerate(frequencies) if k not in segments]
    if names:
        share, have = share_in_percent(sum(frequencies[n] for n in names)), "have" if len(names) > 1 else "has"
        seen = f"{_first_names(names)} ({share} of the rows) {have} fewer than {fewest} of something that others have."
        yield Finding("few in segment", seen, f"The plan leaves {'them' if len(names) > 1 else 'it'} out.")
    bare = [sentences.arm_label(n, whole.log.arm_column) for k, n in enumerate(whole.names) if k not in arms]
    if bare:
        were = "were" if len(bare) > 1 else "was"
        seen = f"{_first_names(bare)} {were} hardly ever tried in some of them (fewer than {fewest})."
        yield Finding("few in segment", seen, f"The plan leaves {'them' if len(bare) > 1 else 'it'} out.")


def _confounding(
    whole: Advice, column: str, frequencies: Mapping[str, float], counts: NDArray[np.int64]
) -> Iterator[Finding]:
    """A finding if arms and segments go together, by Pearson's test and Cramér's V."""
    names, total, rows, columns = list(frequencies), counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    smaller = min((rows > 0.0).sum(), (columns > 0.0).sum()) - 1
    if smaller < 1 or whole.log.by_propensity:  # propensities allow for it
        return
    expected = np.outer(rows, columns) / total
    square = float(((counts - expected) ** 2 / np.maximum(expected, 1e-300)).sum())
    freedom = float(((rows > 0.0).sum() - 1) * ((columns > 0.0).sum() - 1))
    if chdtrc(freedom, square) > _SURE_CONFOUNDING or square / (total * smaller) < _STRONG_CONFOUNDING**2:
        return
    shares = counts / np.maximum(rows, 1.0)[:, None]
    known = np.flatnonzero(rows >= min(20.0, rows.max()))
    k = int(np.argmax(np.ptp(shares[known], axis=0)))
    most, least = (int(known[place(shares[known, k])]) for place in (np.argmax, np.argmin))
    arm = sentences.arm_label(whole.names[k], whole.log.arm_column)
    yield Finding(
        "confounded",
        f"What was chosen goes together with {column}: {arm} has {_share(shares[most, k])} of the rows of "
        f"{names[most]}, but {_share(shares[least, k])} of those of {names[least]}.",
        f"The plan compares within each {column}, so it allows for that. The answer without {column} does not.",
    )


def _share(share: float) -> str:
    return share_in_percent(share) if share > 0.0 else "none"


def _first_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
