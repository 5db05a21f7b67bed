"""From logged rewards to a recommendation in words, with intervals that say how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from pmbandits import _check, _html
from pmbandits._check import FloatArray
from pmbandits.advice import statistics as stats
from pmbandits.advice.statistics import HeldOut
from pmbandits.arms import Bandit
from pmbandits.best import oracle
from pmbandits.estimates import ArmEstimate
from pmbandits.logs import ArmLog, Log, read
from pmbandits.metrics import metric as named_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms
from pmbandits.metrics.value import value_of_mixture
from pmbandits.supports import Binary, Finite, Interval, Real, Support

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["real", "could be noise", "single arm"]
_TIE = 1e-9  # a mixture that gains less than this share is not one
_SHOWN = 8  # arms in words
_LARGE = 1 << 25  # bytes of a file from which on a progress bar is shown
_ENOUGH = 200  # resamples, to say how much of a gain is optimism
_FURTHEST = 1e7  # times as many rewards, beyond which "more data" is no advice


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
        return _general_notes(self.log, self.support, self.support_assumed, self.loss)

    @property
    def recommendation(self) -> str:
        """What to play, in a sentence."""
        if len(self.mixture) == 1:
            text = f"Play {next(iter(self.mixture))} alone: it is worth {self.value:.4g}"
        else:
            text = f"Play {_shares(self.mixture)}: worth {self.value:.4g}"
        text += f" by {self.metric!r}"
        if not all(map(isfinite, self.interval)):
            return f"{text}."
        low, high = self.interval
        return f"{text} (between {low:.4g} and {high:.4g} at {100 * self.level:g} %)."

    @property
    def reason(self) -> str:
        """Whether that is beyond chance, in a sentence or two."""
        return _reason(self)

    @property
    def outlook(self) -> str:
        """What more data would settle, in a sentence."""
        if self.proven or len(self.names) == 1:
            return ""
        if not self.more:
            return "More rewards of the same kind would hardly settle it: next to nothing seems to be at stake."
        return (
            f"About {_counts(self.more)} would settle it, if the difference is as large as it looks: "
            "an estimate from how the errors shrink, not a promise."
        )

    def __str__(self) -> str:
        head = ("arm", "rewards", "mean", "utility", f"{100 * self.level:g} % interval", "share")
        rows = self.rows()
        lines = [self.recommendation, self.reason, self.outlook, "", *_columns([head, *rows])]
        if len(self.arms) > len(rows):
            lines.append(f"… and {len(self.arms) - len(rows)} more arms")
        lines += ["", *self.notes, self.log.account(), *(f"  {bad}" for bad in self.log.examples)]
        text = "\n".join(lines)
        while "\n\n\n" in text:
            text = text.replace("\n\n\n", "\n\n")
        return text.strip()

    def __repr__(self) -> str:
        return (
            f"Advice({self.metric!r}: {_shares(self.mixture)}, value={self.value:.4g}, gain={self.gain:.3g}, "
            f"{self.verdict})"
        )

    def _repr_html_(self) -> str:
        head = ("arm", "rewards", "mean", "utility", f"{100 * self.level:g} % interval", "share")
        words = [self.recommendation, self.reason, self.outlook, *self.notes, self.log.account()]
        return _html.block(repr(self.metric), _html.table(head, self.rows()), _html.paragraphs(words))

    def rows(self) -> list[tuple[str, ...]]:
        """The arms as a table: name, rewards, mean, utility, interval, share."""
        return [
            (a.name, f"{a.n:,}", f"{a.mean:.4g}", f"{a.utility:.4g}", _span(a.interval), _percent(a.share))
            for a in self._shown()
        ]

    def _shown(self) -> list[ArmAdvice]:
        """The arms that matter: those played, then the best others."""
        order = sorted(self.arms, key=lambda a: (-a.share, -a.utility))
        return order[: max(_SHOWN, len(self.mixture))] if len(self.arms) > 12 else list(self.arms)

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
        from pmbandits.plots import plot_advice

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
            out.append((repr(a.metric), _shares(a.mixture), f"{a.value:.4g}", alone, gain, _verdict(a)))
        return out

    def __str__(self) -> str:
        first = self.advice[0]
        lines = [*_columns(self.rows()), "", *first.general, first.log.account()]
        lines += [f"  {bad}" for bad in first.log.examples]
        return "\n".join(lines).strip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        first = self.advice[0]
        words = [*first.general, first.log.account()]
        return _html.block(
            "How the advice changes with what you value", _html.table(head, rows), _html.paragraphs(words)
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """A JSON-ready list, one entry for each metric."""
        return [a.to_dict() for a in self.advice]

    def plot(self, path: str | Path | None = None) -> Figure:
        """The recommended shares for each metric, side by side."""
        from pmbandits.plots import plot_advice_table

        return plot_advice_table(self.advice, path)


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
    chosen = [_metric(m) for m in metric] if several else [_metric(metric)]  # type: ignore[union-attr]
    if not chosen:
        raise ValueError("metric is an empty list; give at least one, such as 'gini'.")
    if support is not None and not isinstance(support, Support):
        raise TypeError(f"support must be Binary(), Finite(...), Interval(lo, hi) or Real(sigma), got {support!r}.")
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


def _metric(given: Any) -> Distortion:
    if isinstance(given, Distortion):
        return given
    if isinstance(given, str):
        return named_metric(given)
    raise TypeError(f"metric must be a preference metric such as GiniDeviation(), or its name, got {given!r}.")


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
            *_general_notes(log, support, assumed, loss),
            *_notes(metric, log, support, isfinite(inside.steepness), drawn),
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
        involved = [i for i in range(len(arms)) if weights[i] > 0.0 or singles[i] >= value - lead - _TIE * abs(value)]
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
    if best.gain <= _TIE * max(abs(best.value), abs(best.best_arm_value)):
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


def _general_notes(log: Log, support: Support, assumed: bool, loss: bool) -> tuple[str, ...]:
    notes = []
    if loss:
        notes.append("The numbers are losses: they were negated, so that larger is better.")
    if assumed and isinstance(support, Interval):
        notes.append(
            f"Rewards are taken to lie between {support.lo:g} and {support.hi:g}, the range seen; the valid intervals "
            "hold if none can fall outside: declare the support if you know it."
        )
    summarised = [arm for arm in log.arms if arm.error > 0.0]
    if summarised:
        worst = max(arm.error for arm in summarised)
        notes.append(
            f"{len(summarised)} of {len(log.arms)} arms have so many different rewards that they were summarised; "
            f"shares are off by at most {worst:.2g}, which the intervals include."
        )
    return tuple(notes)


def _notes(metric: Distortion, log: Log, support: Support, bounded: bool, drawn: stats.Resampled | None) -> list[str]:
    notes = []
    if isinstance(support, Real) and not bounded:
        notes.append(f"{metric!r} has no valid interval for rewards without limits: declare a range, Interval(lo, hi).")
    if metric.shape in ("convex", "linear") and len(log.arms) > 1:
        notes.append(f"h is {metric.shape}: for this preference no mixture can be better than the best single arm.")
    if metric.jumps:
        notes.append("h has jumps, where standard errors say little: only the bands can call a gain real.")
    if metric.shape == "neither":
        notes.append("h is neither convex nor concave: the best mixture was searched for, without a certificate.")
    if drawn is not None:
        notes.append(f"Resampling: {drawn.best.size} times within each arm; {drawn.how}.")
    return notes


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


# ---- words -----------------------------------------------------------------------------------------------
def _reason(advice: Advice) -> str:
    surely = f"at {100 * advice.level:g} %"
    if len(advice.names) == 1:
        return "There is only one arm."
    if advice.verdict == "single arm":
        others = [a for a in advice.arms if a.share == 0.0]
        next_best = max(others, key=lambda a: a.utility)
        lead = f"{next_best.name} with {next_best.utility:.4g}"
        if advice.lead <= _TIE * abs(advice.value):
            return f"A single arm is enough; {next_best.name} is worth the same in the data."
        if advice.proven:
            how = (
                "wherever the arms lie in their bands"
                if advice.lead_interval[0] > 0.0
                else "chosen on one half of the rewards, it was ahead on the other half by more than chance allows"
            )
            return f"A single arm is best, and surely ahead of every other ({surely}: {how}); next is {lead}."
        return f"A single arm is best in the data, but its lead over {lead} could be noise."
    gained = f"The gain of {advice.gain:.3g} over {advice.best_arm} alone ({advice.best_arm_value:.4g})"
    if advice.verdict == "could be noise":
        return (
            f"{gained} could be noise ({surely}): the arms' bands allow for none, and a mixture chosen on one half of "
            "the rewards is not surely ahead on the other half."
        )
    if advice.gain_interval[0] > 0.0:
        return f"{gained} is real: it is at least {advice.gain_interval[0]:.3g} wherever the arms lie in their bands."
    test = advice.held_out
    if test is not None and test.lower > 0.0:
        return (
            f"{gained} is real: a mixture chosen on one half of the rewards beat every single arm on the other half "
            f"by {test.gain:.3g}, and by at least {test.lower:.3g} beyond chance."
        )
    return f"{gained} is real ({surely})."


def _verdict(advice: Advice) -> str:
    if advice.verdict == "single arm":
        return "one arm" if advice.proven or len(advice.names) == 1 else "one arm, close"
    return advice.verdict


def _shares(mixture: dict[str, float]) -> str:
    if len(mixture) == 1:
        return next(iter(mixture))
    ordered = sorted(mixture.items(), key=lambda pair: -pair[1])
    text = " + ".join(f"{_percent(share)} {name}" for name, share in ordered[:_SHOWN])
    return text + (f" + {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else "")


def _percent(share: float) -> str:
    if share == 0.0:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def _counts(more: dict[str, int]) -> str:
    counts = set(more.values())
    names = list(more)
    if len(counts) == 1:
        count = counts.pop()
        listed = " and ".join(names) if len(names) < 3 else f"{', '.join(names[:4])}{' …' if len(names) > 4 else ''}"
        return f"{count:,} more rewards of {'each of ' if len(names) > 1 else ''}{listed}"
    parts = [f"{count:,} of {name}" for name, count in list(more.items())[:4]]
    return f"{', '.join(parts)}{' …' if len(more) > 4 else ''} more rewards"


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} … {interval[1]:.4g}" if all(map(isfinite, interval)) else "no bounds"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _finite(numbers: Sequence[float]) -> list[float | None]:
    return [float(x) if isfinite(x) else None for x in numbers]


def _metric_dict(metric: Distortion) -> dict[str, Any]:
    try:
        return metric.to_dict()
    except (TypeError, ValueError):
        return {"name": repr(metric)}
