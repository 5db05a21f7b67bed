"""What advice is: numbers, intervals and a verdict, with ways to read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pmbandits import _html
from pmbandits._check import FloatArray
from pmbandits.advice import words
from pmbandits.advice.statistics import HeldOut
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import Log
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Support

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["real", "could be noise", "single arm"]


@dataclass(frozen=True)
class ArmAdvice:
    """One arm in the eyes of the metric.

    Attributes
    ----------
    name, n : the arm and how many rewards it has.
    share : its share of the recommended mixture.
    mean : its average reward.
    utility, interval : what the metric makes of its rewards, and a valid interval for that.
    """

    name: str
    n: int
    share: float
    mean: float
    utility: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Advice:
    """What to play, by logged rewards, and how sure that is. Made by :func:`advise`.

    Attributes
    ----------
    metric, names, weights : the preference, the arms and their recommended shares.
    value : the utility of the mixture in the data.
    interval : a valid interval for the mixture's true utility (bands of all arms at once: see ``level``).
    bootstrap_interval : a narrower, approximate one for the best mixture's utility, by resampling; it takes out the
        optimism of having picked the best in hindsight, so it can lie below ``value``.
    best_arm, best_arm_value : the best single arm and its utility.
    gain, gain_interval, gain_bootstrap_interval : what the mixture is worth above the best single arm, the same two
        ways; 0 if a single arm is recommended.
    lead, lead_interval : what the recommendation is worth above the best *other* single arm, with a valid interval.
    held_out : the check on held-out rewards, or ``None`` where it cannot be made.
    verdict : ``"real"`` (mixing beats every single arm), ``"could be noise"`` or ``"single arm"``.
    proven : whether what is said is also beyond chance: the mixture's gain, or the single arm's lead.
    more : how many more rewards of which arms would settle it, an estimate; empty where it is settled or hopeless.
    arms : every arm in the eyes of the metric.
    level : of the intervals; the verdict is wrong with probability at most 1 − level.
    support, support_assumed : where rewards lie, and whether that was assumed from the data.
    notes : what else a reader must know.
    log : an account of the rows.
    """

    metric: Distortion
    names: tuple[str, ...]
    weights: FloatArray
    value: float
    interval: tuple[float, float]
    bootstrap_interval: tuple[float, float]
    optimism: float
    best_arm: str
    best_arm_value: float
    gain: float
    gain_interval: tuple[float, float]
    gain_bootstrap_interval: tuple[float, float]
    lead: float
    lead_interval: tuple[float, float]
    held_out: HeldOut | None
    verdict: Verdict
    proven: bool
    more: dict[str, int]
    arms: tuple[ArmAdvice, ...]
    level: float
    support: Support
    support_assumed: bool
    loss: bool
    notes: tuple[str, ...]
    log: Log = field(repr=False)
    estimates: tuple[ArmEstimate, ...] = field(repr=False)

    @property
    def mixture(self) -> dict[str, float]:
        """The shares to play, by name; arms without a share are left out."""
        return {n: float(w) for n, w in zip(self.names, self.weights, strict=True) if w > 0.0}

    @property
    def general(self) -> tuple[str, ...]:
        """The notes that do not depend on the metric."""
        return words.general_notes(self.log, self.support, self.support_assumed, self.loss)

    @property
    def recommendation(self) -> str:
        """What to play, in a sentence."""
        if len(self.mixture) == 1:
            text = f"Play {next(iter(self.mixture))} alone: it is worth {self.value:.4g}"
        else:
            text = f"Play {words.shares(self.mixture)}: worth {self.value:.4g}"
        text += f" by {self.metric!r}"
        if not all(map(isfinite, self.interval)):
            return f"{text}."
        low, high = self.interval
        return f"{text} (between {low:.4g} and {high:.4g} at {100 * self.level:g} %)."

    @property
    def reason(self) -> str:
        """Whether that is beyond chance, in a sentence or two."""
        return words.reason(self)

    @property
    def outlook(self) -> str:
        """What more data would settle, in a sentence."""
        if self.proven or len(self.names) == 1:
            return ""
        if not self.more:
            return "More rewards of the same kind would hardly settle it: next to nothing seems to be at stake."
        return (
            f"About {words.counts(self.more)} would settle it, if the difference is as large as it looks: "
            "an estimate from how the errors shrink, not a promise."
        )

    def __str__(self) -> str:
        head = ("arm", "rewards", "mean", "utility", f"{100 * self.level:g} % interval", "share")
        rows = self.rows()
        lines = [self.recommendation, self.reason, self.outlook, "", *words.columns([head, *rows])]
        if len(self.arms) > len(rows):
            lines.append(f"… and {len(self.arms) - len(rows)} more arms")
        lines += ["", *self.notes, self.log.account(), *(f"  {bad}" for bad in self.log.examples)]
        text = "\n".join(lines)
        while "\n\n\n" in text:
            text = text.replace("\n\n\n", "\n\n")
        return text.strip()

    def __repr__(self) -> str:
        return (
            f"Advice({self.metric!r}: {words.shares(self.mixture)}, value={self.value:.4g}, gain={self.gain:.3g}, "
            f"{self.verdict})"
        )

    def _repr_html_(self) -> str:
        head = ("arm", "rewards", "mean", "utility", f"{100 * self.level:g} % interval", "share")
        sentences = [self.recommendation, self.reason, self.outlook, *self.notes, self.log.account()]
        return _html.block(repr(self.metric), _html.table(head, self.rows()), _html.paragraphs(sentences))

    def rows(self) -> list[tuple[str, ...]]:
        """The arms as a table: name, rewards, mean, utility, interval, share."""
        return [
            (a.name, f"{a.n:,}", f"{a.mean:.4g}", f"{a.utility:.4g}", words.span(a.interval), words.percent(a.share))
            for a in self._shown()
        ]

    def _shown(self) -> list[ArmAdvice]:
        """The arms that matter: those played, then the best others."""
        order = sorted(self.arms, key=lambda a: (-a.share, -a.utility))
        return order[: max(words.SHOWN, len(self.mixture))] if len(self.arms) > 12 else list(self.arms)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        test = self.held_out
        return {
            "metric": _metric_dict(self.metric),
            "mixture": self.mixture,
            "value": self.value,
            "interval": _finite(self.interval),
            "bootstrap_interval": _finite(self.bootstrap_interval),
            "optimism": _finite((self.optimism,))[0],
            "best_arm": self.best_arm,
            "best_arm_value": self.best_arm_value,
            "gain": self.gain,
            "gain_interval": _finite(self.gain_interval),
            "gain_bootstrap_interval": _finite(self.gain_bootstrap_interval),
            "lead": self.lead,
            "lead_interval": _finite(self.lead_interval),
            "held_out": None
            if test is None
            else {
                "weights": test.weights.tolist(),
                "gain": test.gain,
                "standard_error": test.error,
                "lower": test.lower,
                "rival": self.names[test.rival],
            },
            "verdict": self.verdict,
            "proven": self.proven,
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
                    "interval": _finite(a.interval),
                }
                for a in self.arms
            ],
            "sentences": [s for s in (self.recommendation, self.reason, self.outlook) if s],
            "notes": list(self.notes),
            "rows": {
                "read": self.log.rows,
                "used": self.log.used,
                "empty": self.log.empty,
                "malformed": dict(self.log.malformed),
                "examples": [str(bad) for bad in self.log.examples],
            },
        }

    def plot(self, path: str | Path | None = None) -> Figure:
        """The arms, what the metric makes of them, and what they and the mixture are worth, in one picture.

        >>> import matplotlib; matplotlib.use("Agg")
        >>> import pmbandits as pmb
        >>> figure = pmb.advise({"a": [0, 1, 0, 0, 1], "b": [1, 1, 1, 0, 1]}, bootstrap=20).plot()
        >>> len(figure.axes)
        3
        """
        from pmbandits.advice.pictures import plot_advice

        return plot_advice(self, path)


class AdviceTable(Sequence[Advice]):
    """How the advice changes with the preference: one :class:`Advice` for each metric, and a table of them."""

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

    def rows(self) -> list[tuple[str, ...]]:
        """The table, heads first."""
        out: list[tuple[str, ...]] = [("you value", "play", "utility", "best arm alone", "gain", "verdict")]
        for a in self.advice:
            alone = f"{a.best_arm} {a.best_arm_value:.4g}"
            gain = f"{a.gain:.3g}" if len(a.mixture) > 1 else "–"
            out.append((repr(a.metric), words.shares(a.mixture), f"{a.value:.4g}", alone, gain, words.verdict(a)))
        return out

    def __str__(self) -> str:
        first = self.advice[0]
        lines = [*words.columns(self.rows()), "", *first.general, first.log.account()]
        lines += [f"  {bad}" for bad in first.log.examples]
        return "\n".join(lines).strip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        first = self.advice[0]
        sentences = [*first.general, first.log.account()]
        return _html.block(
            "How the advice changes with what you value", _html.table(head, rows), _html.paragraphs(sentences)
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """A JSON-ready list, one entry for each metric."""
        return [a.to_dict() for a in self.advice]

    def plot(self, path: str | Path | None = None) -> Figure:
        """The recommended shares for each metric, side by side."""
        from pmbandits.advice.pictures import plot_advice_table

        return plot_advice_table(self.advice, path)


def _finite(numbers: Sequence[float]) -> list[float | None]:
    return [float(x) if isfinite(x) else None for x in numbers]


def _metric_dict(metric: Distortion) -> dict[str, Any]:
    try:
        return metric.to_dict()
    except (TypeError, ValueError):
        return {"name": repr(metric)}
