"""The result of advice: numbers, intervals and a verdict, with ways to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pmbandits import _html
from pmbandits._text_tables import aligned_columns
from pmbandits._validation import FloatArray
from pmbandits.advice import next_steps, notes, sentences
from pmbandits.advice.caveats import caveat_findings
from pmbandits.advice.checks import Drift, HeavyTail
from pmbandits.advice.decision import Decision, decide
from pmbandits.advice.inference import TIE_TOLERANCE, Evidence
from pmbandits.constraints import Limits
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import Finding, Log
from pmbandits.metrics.catalogue import as_written
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize.shadow_prices import ShadowPrice
from pmbandits.supports import Support

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["real", "looks real", "could be noise", "single arm"]
Sure = Literal["surely", "looks", "unclear"]


@dataclass(frozen=True)
class ArmAdvice:
    """One arm, as the metric sees it.

    Attributes
    ----------
    name, n : the name of the arm, and how many rewards it has.
    share : its share of the recommended mixture.
    mean : its average reward.
    utility, interval : the value of the metric for its rewards, and an approximate interval for that (NaN where none is
        known).
    """

    name: str
    n: int
    share: float
    mean: float
    utility: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Advice:
    """What to play, according to logged rewards, and how sure that is: the result of :func:`advise`.

    All numbers have the sign and the unit of the data: for losses, ``value`` is a loss. A gain or a lead is positive if
    it is good, for losses, too. Only ``evidence`` has losses negated, because there larger is always better.

    Attributes
    ----------
    metric, names, weights : the preference, the arms and their recommended shares.
    value, interval : what the recommendation is worth, with an approximate interval (NaN where none is known). The
        value is cross-fitted: it is measured on rewards that did not choose the recommendation. How often the interval
        covers the truth was measured.
    apparent : the utility measured on the rewards that chose the recommendation. It is too high.
    bounds : what the recommendation is worth at least and at most, whatever the distributions of the arms are, from
        confidence bands of all arms at once. NaN unless the support was declared.
    best_arm, best_arm_value : the best single arm, and its utility in the data.
    gain, apparent_gain : how much more the mixture is worth than the best single arm, cross-fitted and in the data; 0
        if a single arm is recommended.
    sure : ``"surely"`` (beyond chance), ``"looks"`` (beyond chance if no reward can lie outside of what was seen, or if
        rewards do not change over time) or ``"unclear"``.
    verdict : ``"real"`` (mixing beats every single arm), ``"looks real"``, ``"could be noise"`` or ``"single arm"``.
    more : how many more rewards of each arm may settle the question (rough), at most about 20 times as many as there
        are. Empty if it is settled, or if nothing can be said.
    arms : one :class:`~pmbandits.advice.result.ArmAdvice` for every arm: name, rewards, share, mean, utility.
    level : a verdict "surely" or "real" is wrong with probability at most 1 − level.
    family : how many preferences were tested at once; the verdicts allow for that.
    support, support_assumed : where rewards lie, and whether that was only assumed from the data.
    limits, costs : the limits on the shares, if there are any, and what each of them costs in the data.
    tails, drift : tails that are too heavy for this metric, and arms whose rewards changed over time.
    tails_left_out : the same tails of arms that were left out of the comparison for it.
    matters : the smallest difference that matters; 0 if none was named.
    loss, direction_assumed : whether the numbers are losses, and whether that was assumed, from the column's name.
    apart, serial : arms that were not tried at the same time as the others, and whether rewards depend on those before
        them for too long. In both cases nothing can be concluded.
    told_apart : if nothing is settled, the pairs of arms (better, worse) that differ beyond chance all the same.
    evidence : all numbers behind the verdict, with losses negated.
    repeat : how to get the same advice again.
    log : the rewards by arm, and what became of every row.
    """

    metric: Distortion
    names: tuple[str, ...]
    weights: FloatArray
    value: float
    apparent: float
    interval: tuple[float, float]
    bounds: tuple[float, float]
    best_arm: str
    best_arm_value: float
    gain: float
    apparent_gain: float
    evidence: Evidence = field(repr=False)
    sure: Sure
    verdict: Verdict
    more: dict[str, int]
    arms: tuple[ArmAdvice, ...]
    level: float
    support: Support
    support_assumed: bool
    loss: bool
    matters: float
    direction_assumed: bool
    family: int
    limits: Limits | None
    costs: dict[str, ShadowPrice]
    tails: tuple[HeavyTail, ...]
    tails_left_out: tuple[HeavyTail, ...]
    drift: tuple[Drift, ...]
    apart: tuple[int, ...]
    serial: bool
    told_apart: tuple[tuple[str, str], ...]
    repeat: str
    log: Log = field(repr=False)
    estimates: tuple[ArmEstimate, ...] = field(repr=False)

    @property
    def proven(self) -> bool:
        """Whether the recommendation is beyond chance: the gain of a mixture, or the lead of a single arm."""
        return self.sure == "surely"

    @property
    def inconclusive(self) -> bool:
        """Whether nothing can be concluded, because of when the rewards came."""
        return self.serial or not set(self.apart) <= set(self.evidence.left_out)

    @property
    def censored(self) -> bool:
        """Whether the rewards seem to be times of which some were still going on; then nothing is settled."""
        return any(finding.kind == "censoring" for finding in self.log.findings)

    @cached_property
    def decision(self) -> Decision:
        """What the evidence allows to say: the decision, the size of the difference, the next step, and caveats."""
        return decide(self)

    def shown(self, reward: float) -> float:
        """A reward of the log (losses are negated there) in the sign of the data, and the other way round."""
        return (-reward if self.loss else reward) + 0.0  # never -0

    def shown_score(self, score: float) -> float:
        """A score (losses are negated) in the sign of the data; a spread has none."""
        return self.shown(score) if float(self.metric(1.0)) != 0.0 else score

    @property
    def lead(self) -> float:
        """How much more the recommendation is worth than the best *other* single arm, in the data."""
        found = self.evidence
        others = [u for k, u in enumerate(found.arm_utilities) if found.weights[k] < 1.0 and k not in found.left_out]
        return found.apparent - float(max(others)) if others else 0.0

    @property
    def tied(self) -> bool:
        """Whether all arms are worth the same in the data, so that there is nothing to recommend but to keep limits."""
        worth = [a.utility for a in self.arms]
        return (
            self.limits is None
            and len(worth) > 1
            and max(worth) - min(worth) <= TIE_TOLERANCE * max(map(abs, worth))
            and not self.gain > 0.0
        )

    @property
    def mixture(self) -> dict[str, float]:
        """The shares to play, by the names of the arms. Arms without a share are left out."""
        return {n: float(w) for n, w in zip(self.names, self.weights, strict=True) if w > 0.0}

    @cached_property
    def caveats(self) -> tuple[Finding, ...]:
        """What a reader must know beside the answer: what it rests on, and what is strange in the data."""
        return tuple(caveat_findings(self))

    @property
    def assumption(self) -> Finding | None:
        """Which columns were taken, if others could be meant as well; ``None`` if that is clear."""
        return next((finding for finding in self.log.findings if finding.kind == "columns assumed"), None)

    @cached_property
    def doubt(self) -> Finding | None:
        """What was noticed about the table that keeps the answer from being settled; ``None`` if there is nothing."""
        rows = self.log.kept_rows
        kinds = ["unreadable", "units", *(["part of the time"] if rows is None or rows.time is None else [])]
        return next((finding for finding in self.log.findings if finding.kind in kinds), None)

    @property
    def before(self) -> tuple[Finding, ...]:
        """What must be read before the answer: what was assumed of the columns, and arms in a part of the time."""
        times = (f for f in self.log.findings if f.kind == "part of the time")
        same = sentences.same_period_sentence(self)
        said = (replace(f, done=f"{f.done} {same}".strip()) for f in times)
        return (*(f for f in self.log.findings if f.comes_first), *said)

    def without_before(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings without those that stand before the answer."""
        kinds = {finding.kind for finding in self.before}
        return [finding for finding in findings if finding.kind not in kinds]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """How it was worked out, and what could not be checked."""
        return tuple(notes.method_notes(self))

    @property
    def general(self) -> tuple[str, ...]:
        """The notes that do not depend on the metric."""
        return tuple(notes.general_notes(self))

    @property
    def recommendation(self) -> str:
        """The headline: what to choose, or that the data do not settle it, or cannot tell."""
        return sentences.recommendation_sentence(self)

    @property
    def reason(self) -> str:
        """How large the difference is, with its interval, and how sure that is."""
        return sentences.reason_sentences(self)

    @property
    def price(self) -> str:
        """What the recommendation gives by the plain average, beside the arm with the best average, in a sentence."""
        return sentences.price_sentence(self)

    @property
    def outlook(self) -> str:
        """What to do next, such as how much more data would settle it."""
        return next_steps.next_step_sentences(self)

    @property
    def score(self) -> float:
        """What the recommendation scores, in the sign of the data: the number that sentences and tables show."""
        if any(tail.may_lack_mean for tail in self.tails):
            return nan
        return self.apparent if len(self.mixture) == 1 else self.value

    def save(self, path: str | Path, *, title: str = "", author: str = "") -> Path:
        """Write a report (``.html``, ``.md``, ``.json``) or a picture (``.png``, ``.svg``, ``.pdf``) that you can send.

        The HTML report is one file that needs no other, and prints well to PDF from any browser.

        >>> import pmbandits as pmb, tempfile
        >>> advice = pmb.advise({"a": [0, 1, 0, 0, 1], "b": [1, 1, 1, 0, 1]})
        >>> advice.save(tempfile.mkdtemp() + "/report.md").name
        'report.md'
        """
        from pmbandits.advice import report

        return report.save_report(self, path, title=title, author=author)

    def __str__(self) -> str:
        lines, caveats = [f"{finding}\n" for finding in self.before], self.without_before(self.caveats)
        lines += [self.recommendation, self.reason, self.price, self.outlook, ""]
        lines += aligned_columns([sentences.arm_table_header(self), *self.rows()])
        if self.hidden:
            lines.append(f"… and {self.hidden} more arms")
        lines += ["", *(["Mind:"] if caveats else []), *(f"- {caveat}" for caveat in caveats)]
        lines += [*(f"  {bad}" for bad in self.log.example_lines()), "", *self.notes]
        text = "\n".join(lines)
        while "\n\n\n" in text:
            text = text.replace("\n\n\n", "\n\n")
        return text.strip()

    def __repr__(self) -> str:
        what = f"{as_written(self.metric)!r}: {sentences.mixture_text(self.mixture)}"
        return f"Advice({what}, value={self.value:.4g}, gain={self.gain:.3g}, {self.decision.kind})"

    def _repr_html_(self) -> str:
        from pmbandits.advice import report

        return _html.html_titled_block(repr(as_written(self.metric)), report.html_body(self))

    def rows(self) -> list[tuple[str, ...]]:
        """The mixture, if one is best, and the arms: name, rewards, average, score (if it differs), interval, share."""
        written, averages = sentences.number_format(self), sentences.average_format(self)
        shown = list(self._arms_to_show())
        if len(self.mixture) > 1:
            mean = sum(a.share * a.mean for a in self.arms)
            shown.insert(0, ArmAdvice("the mixture", 0, 1.0, mean, self.value, self.interval))
        return [
            (
                a.name,
                sentences.n_rows_text(self, a.name) if a.n else "",
                averages(a.mean),
                *([] if self.metric.name == "mean" else [written(a.utility)]),
                written.interval_text(a.interval),
                sentences.share_text(self, a.share) if a.n else "",
            )
            for a in shown
        ]

    def by_share(self) -> list[int]:
        """The places of the arms: the largest share first, then the largest utility; those left out last."""
        return sorted(range(len(self.arms)), key=self._place_in_tables)

    def _place_in_tables(self, k: int) -> tuple[float, bool, float]:
        return -self.arms[k].share, k in self.evidence.left_out, -float(self.evidence.arm_utilities[k])

    def _arms_to_show(self) -> list[ArmAdvice]:
        """The arms that matter: those recommended, then the best others."""
        most = 12 if len(self.arms) <= 12 else max(sentences.MOST_ARMS_NAMED, len(self.mixture))
        return [self.arms[k] for k in self.by_share()[:most]]

    @property
    def hidden(self) -> int:
        """How many arms the table of :meth:`rows` leaves out."""
        return len(self.arms) - len(self._arms_to_show())

    def to_dict(self) -> dict[str, Any]:
        """A description that can be written as JSON; losses are in their own sign, and a gain or a lead is positive."""
        found = self.evidence
        return {
            "metric": _metric_to_dict_or_repr(self.metric),
            "decision": self.decision.to_dict(),
            "mixture": self.mixture,
            "value": _replace_infinite_by_none((self.value,))[0],
            "interval": _replace_infinite_by_none(self.interval),
            "bounds": _replace_infinite_by_none(self.bounds),
            "value_in_the_data": self.apparent,
            "best_arm": self.best_arm,
            "best_arm_value": self.best_arm_value,
            "gain": self.gain,
            "gain_in_the_data": self.apparent_gain,
            "lead": self.lead,
            "chance": found.p,
            "divisions": found.divisions,
            "compared_by_bands": [self.names[j] for j in found.by_bands],
            "sure": self.sure,
            "verdict": self.verdict,
            "proven": self.proven,
            "preferences_tested": self.family,
            "limits": None if self.limits is None else list(self.limits.texts),
            "costs_of_limits": {text: price.gain for text, price in self.costs.items()},
            "more_rewards": dict(self.more),
            "level": self.level,
            "support": self.support.to_dict(),
            "support_assumed": self.support_assumed,
            "loss": self.loss,
            "arms": [
                {
                    "name": a.name,
                    "rewards": a.n,
                    "share": a.share,
                    "mean": a.mean,
                    "utility": a.utility,
                    "interval": _replace_infinite_by_none(a.interval),
                }
                for a in self.arms
            ],
            "sentences": [s for s in (self.recommendation, self.reason, self.price, self.outlook) if s],
            "assumption": str(self.assumption or ""),
            "caveats": [vars(caveat) for caveat in self.caveats],
            "notes": list(self.notes),
            "repeat": self.repeat,
            "rows": {
                "read": self.log.rows,
                "used": self.log.used,
                "empty": self.log.empty,
                "malformed": dict(self.log.malformed),
                "examples": [str(bad) for bad in self.log.examples],
            },
        }

    def plot(self, axes: Sequence[Axes] | None = None, *, path: str | Path | None = None) -> tuple[Axes, Axes, Axes]:
        """Draw the arms, what the metric makes of them, and what they and the mixture are worth, in one picture.

        It returns the three parts of the picture. The attribute ``.figure`` of any of them is the whole.

        Parameters
        ----------
        axes : three axes to draw on; by default those of a new figure.
        path : if given, the picture is also written to this file.

        Examples
        --------
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import pmbandits as pmb
        >>> arms, bent, worth = pmb.advise({"a": [0, 1, 0, 0, 1], "b": [1, 1, 1, 0, 1]}).plot()
        >>> arms.get_xlabel()
        'reward x'
        """
        from pmbandits.advice.plots import plot_advice

        return plot_advice(self, axes, path=path)


class AdviceTable(Sequence[Advice]):
    """How the advice changes with the preference: one :class:`Advice` for each metric, and a table of them.

    It is the result of :func:`advise` with several metrics.
    """

    def __init__(self, advice: Sequence[Advice]) -> None:
        self.advice = tuple(advice)

    def __len__(self) -> int:
        return len(self.advice)

    @overload
    def __getitem__(self, at: int) -> Advice: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Advice]: ...
    def __getitem__(self, at: int | slice) -> Advice | Sequence[Advice]:
        return self.advice[at]

    def __iter__(self) -> Iterator[Advice]:
        return iter(self.advice)

    @property
    def caveats(self) -> tuple[Finding, ...]:
        """What a reader must know beside the answers, each once."""
        return tuple(dict.fromkeys(caveat for advice in self.advice for caveat in advice.caveats))

    def rows(self) -> list[tuple[str, ...]]:
        """The table as rows of text; the first row has the names of the columns."""
        out: list[tuple[str, ...]] = [("you value", "best in the data", "score", "better than", "by", "verdict")]
        for a in self.advice:
            best, *rest = sentences.comparison_cells(a)
            score = sentences.number_format(a).text_with_unit(a.score)
            out.append((sentences.metric_title(a.metric, a.loss), best, score, *rest))
        return out

    def __str__(self) -> str:
        first = self.advice[0]
        lines = [f"{finding}\n" for finding in first.before]
        caveats = first.without_before(self.caveats)
        lines += [*aligned_columns(self.rows()), "", *(f"- {caveat}" for caveat in caveats)]
        lines += [*(f"  {bad}" for bad in first.log.example_lines()), "", *first.general]
        return "\n".join(lines).strip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from pmbandits.advice import report

        return _html.html_titled_block("How the advice changes with what you value", report.html_body(self))

    def save(self, path: str | Path, *, title: str = "", author: str = "") -> Path:
        """Write a report or a picture, as :meth:`Advice.save` does."""
        from pmbandits.advice import report

        return report.save_report(self, path, title=title, author=author)

    def to_dict(self) -> list[dict[str, Any]]:
        """A list that can be written as JSON, with one entry for each metric."""
        return [a.to_dict() for a in self.advice]

    def plot(self, ax: Axes | None = None, *, path: str | Path | None = None) -> Axes:
        """Draw the recommended shares for each metric, side by side, on ``ax`` if it is given."""
        from pmbandits.advice.plots import plot_advice_table

        return plot_advice_table(self.advice, ax, path=path)


def _replace_infinite_by_none(numbers: Sequence[float]) -> list[float | None]:
    return [float(x) if isfinite(x) else None for x in numbers]


def _metric_to_dict_or_repr(metric: Distortion) -> dict[str, Any]:
    try:
        return as_written(metric).to_dict()
    except (TypeError, ValueError):
        return {"name": repr(metric)}
