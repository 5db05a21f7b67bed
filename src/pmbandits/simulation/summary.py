"""Summary table of a run: mean regret of each policy with an interval, and paired differences of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pmbandits import _html, _text_tables, _validation
from pmbandits._extras import import_optional
from pmbandits._intervals import CONFIDENCE_LEVEL, mean_interval, standard_error
from pmbandits._validation import FloatArray
from pmbandits.simulation.progress import format_si

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from pmbandits.simulation.run import Run

QUANTILES = (0.05, 0.5, 0.95)
COLUMN_HEADS = (
    "policy", "rounds", "trials", "mean regret", "95 % interval", "median", "1 in 20 above", "played (%)",
    "mixture (%)", "s/trial", "rounds/s", "arm regret",
)  # fmt: skip
# By the keys of ``rows``, the columns of the table that show them.
_HEAD_OF_KEY = {
    "t": "rounds", "regret": "mean regret", "low": "95 % interval", "high": "95 % interval", "q50": "median",
    "q95": "1 in 20 above", "pulls": "played (%)", "mixture": "mixture (%)", "arm_regret": "arm regret",
    "seconds": "s/trial", "rounds_per_second": "rounds/s",
}  # fmt: skip
CHOSEN_ONLY_COLUMNS = frozenset({"arm regret"})  # shown if they are asked for
STUDY_HEADS = ("problem", "metric")  # of a study, before the others
TIME_COLUMNS = frozenset({"s/trial", "rounds/s"})  # these differ from run to run
# left out below 80 columns
WIDE_ONLY_COLUMNS = frozenset({"trials", "1 in 20 above", "mixture (%)", "s/trial", "rounds/s"})


@dataclass(frozen=True)
class Difference:
    """The regret of one policy minus that of another on the same rewards, trial by trial.

    Attributes
    ----------
    policy, other, t : the two policies, and after how many rounds they are compared.
    mean, standard_error : the mean difference, and its standard error.
    better : the share of the trials in which the first policy had less regret.
    low, high : the mean over all trials that could be played lies between these two, with the confidence ``level``.
    level : the confidence level of this interval alone. In a :class:`Summary` the best policy was picked from the same
        trials. There the level is so high that the intervals of all pairs of policies hold together at 95 %.
    """

    policy: str
    other: str
    t: int
    mean: float
    standard_error: float
    better: float
    low: float = float("nan")
    high: float = float("nan")
    level: float = CONFIDENCE_LEVEL

    @property
    def verdict(self) -> str:
        """``"less regret"`` or ``"more regret"``, or ``"cannot tell"`` if the interval contains 0."""
        if self.high < 0.0:
            return "less regret"
        return "more regret" if self.low > 0.0 else "cannot tell"

    def __repr__(self) -> str:
        return (
            f"Difference({self.policy} − {self.other} after {self.t:,} rounds: {self.mean:.3g}, between {self.low:.2g} "
            f"and {self.high:.2g} at {100 * self.level:.4g} %: {self.verdict}; "
            f"less regret in {100 * self.better:.0f} % of the trials)"
        )


def paired_difference(policy: str, other: str, t: int, gap: FloatArray, level: float = CONFIDENCE_LEVEL) -> Difference:
    """Return the mean paired difference of two policies with its interval, from that of each trial."""
    mean, low, high = mean_interval(gap[:, None], level)
    return Difference(
        policy, other, t, float(mean[0]), standard_error(gap), float((gap < 0.0).mean()), float(low[0]), float(high[0]),
        level,
    )  # fmt: skip


class SummaryTable(NamedTuple):
    """One table of a summary: its title, its rows (heads first), and which columns are numbers."""

    title: str
    rows: list[tuple[str, ...]]
    right: tuple[int, ...]


class Summary:
    """The mean regret of each policy with a 95 % interval, quantiles, shares of pulls, time and speed.

    It prints as a table, and can be turned into Markdown, LaTeX, or a pandas or polars data frame. ``rows`` and
    ``differences`` hold the same as plain data. ``low`` and ``high`` of a row are the ends of the interval for the mean
    regret. With few trials the intervals miss the truth more often than in 5 % of cases: with 20 trials in 7 % on
    average, and in up to 15 % where a few trials are much worse than all others. With 100 trials it is 5 %.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> coins = pmb.Bandit.bernoulli([0.4, 0.9])
    >>> summary = pmb.simulate("gini", coins, [pmb.Track(), pmb.Uniform()], 500, trials=10).summary()
    >>> print(summary.markdown().splitlines()[2][:40])
    | policy | rounds | trials | mean regret
    >>> [row["policy"] for row in summary.rows], summary.differences[0].verdict
    (['Track', 'Uniform'], 'more regret')
    """

    def __init__(self, title: str, rows: list[dict[str, Any]], differences: list[Difference]) -> None:
        self.title, self.rows, self.differences = title, rows, differences

    def parts(self, *, narrow: bool = False, columns: Sequence[str] | None = None) -> list[SummaryTable]:
        """The tables as text cells; ``narrow`` leaves out what does not fit into 80 columns."""
        named = STUDY_HEADS if "problem" in self.rows[0] else ()
        heads = (*named, *COLUMN_HEADS)
        if columns is not None:
            wanted = [_validation.check_choice("column", _HEAD_OF_KEY.get(x, x), heads) for x in columns]
            kept = [heads.index(head) for head in dict.fromkeys(wanted)]  # "low" and "high" are one column
        else:
            left_out = CHOSEN_ONLY_COLUMNS | (WIDE_ONLY_COLUMNS if narrow else frozenset())
            kept = [k for k, head in enumerate(heads) if head not in left_out]
        lines = [heads, *((*(row[name] for name in named), *_text_cells_of_row(row)) for row in self.rows)]
        right = tuple(place for place, k in enumerate(kept) if heads[k] not in ("policy", *STUDY_HEADS))
        parts = [SummaryTable(self.title, [tuple(line[k] for k in kept) for line in lines], right)]
        if self.differences:
            head = ("policy", "minus", "rounds", "difference", "interval", "so it has", "less regret in")
            pairs = [
                (d.policy, d.other, f"{d.t:,}", f"{d.mean:.2e}", _interval_text(d.low, d.high), d.verdict,
                 f"{100 * d.better:.0f} % of trials")
                for d in self.differences
            ]  # fmt: skip
            best = {d.other for d in self.differences}
            title = "Regret minus that of the best policy, on the same rewards"
            left: set[str] = set()
            if narrow and len(best) == 1:
                title, left = f"Regret minus that of {best.pop()}, on the same rewards", {"minus", "less regret in"}
            elif narrow:
                left = {"difference", "less regret in"}
            keep = [k for k, name in enumerate(head) if name not in left]
            right = tuple(place for place, k in enumerate(keep) if k in (2, 3, 4, 6))
            parts.append(SummaryTable(title, [tuple(line[k] for k in keep) for line in (head, *pairs)], right))
        return parts

    @property
    def notes(self) -> list[str]:
        """What a reader must know about the intervals."""
        trials = self.rows[0]["trials"]
        if trials < 2:
            return ["One trial says nothing about how much trials differ, so there are no intervals."]
        sentences = [
            "The intervals are for the mean over all trials that could be played, and allow for skewed regrets."
        ]
        if trials < 20:
            sentences.append(f"With {trials} trials they are rough: bad trials that are rare may not have been seen.")
        if self.differences:
            sentences.append(
                "The intervals of differences allow for the fact that the best policy was picked from the same trials."
            )
        return sentences

    def __str__(self) -> str:
        lines: list[str] = []
        for part in self.parts():
            lines += [part.title, *_text_tables.aligned_columns(part.rows, part.right, rule=True), ""]
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(
            _html.html_titled_block(part.title, _html.html_table(part.rows[0], part.rows[1:])) for part in self.parts()
        ) + _html.html_paragraphs(self.notes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, without those of computing time, which differ from run to run."""
        heads = (*(STUDY_HEADS if "problem" in self.rows[0] else ()), *COLUMN_HEADS)
        return tuple(head for head in heads if head not in TIME_COLUMNS | CHOSEN_ONLY_COLUMNS)

    def markdown(self, *, columns: Sequence[str] | None = None) -> str:
        """The tables in Markdown; ``columns`` are those of the first table that you want, by default all."""
        tables = self.parts(columns=columns)
        parts = [f"**{part.title}**\n\n{_text_tables.markdown_table_text(part.rows, part.right)}" for part in tables]
        return "\n\n".join([*parts, *self.notes])

    def latex(self, *, label: str = "", columns: Sequence[str] | None = None) -> str:
        """The tables in LaTeX; they need no package.

        Parameters
        ----------
        label : the label of the first table. The second one gets the same with ``-pairs`` at its end.
        columns : the columns of the first table that you want, in your order: heads of the table such as
            ``"mean regret"``, or keys of ``rows`` such as ``"regret"``. ``"arm_regret"`` is the cumulative regret to
            the best single arm, which is shown only if you ask for it. The default is :attr:`columns`, all but those of
            computing time. So the same run always gives the same table.
        """
        ends = ("", "-pairs") if label else ("", "")
        return "\n\n".join(
            _text_tables.latex_table(part.rows, part.right, caption=part.title, label=label + end)
            for part, end in zip(self.parts(columns=columns or self.columns), ends, strict=False)
        )

    def to_pandas(self) -> pd.DataFrame:
        """``rows`` as a pandas data frame, with one row for each policy and horizon."""
        return import_optional("pandas", "frames of pandas").DataFrame(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """``rows`` as a polars data frame, with one row for each policy and horizon."""
        return import_optional("polars", "frames of polars").DataFrame(self.rows)


def _text_cells_of_row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["policy"],
        f"{row['t']:,}",
        str(row["trials"]),
        f"{row['regret']:.2e}",
        _interval_text(row["low"], row["high"]),
        f"{row['q50']:.1e}",
        f"{row['q95']:.1e}",
        _shares_text(row["pulls"]),
        _shares_text(row["mixture"]),
        "–" if np.isnan(row["seconds"]) else f"{row['seconds']:.3g}",
        "–" if np.isnan(row["seconds"]) else format_si(row["rounds_per_second"]),
        "–" if np.isnan(row["arm_regret"]) else f"{row['arm_regret']:.3g}",
    )


def _interval_text(low: float, high: float) -> str:
    return "–" if np.isnan(low) else f"{low:.1e} … {high:.1e}"


def _shares_text(shares: Sequence[float]) -> str:
    text = " ".join(f"{100 * share:.1f}" for share in shares[:6])
    return text + (" …" if len(shares) > 6 else "")


def _mean_arm_regret(run: Run, policy: str, horizon: int, c: int) -> float:
    """The mean of the cumulative regret to the best single arm at a checkpoint; NaN where arms change."""
    return float(run.column("arm_regret", policy, horizon)[1][:, c].mean()) if run.is_stationary else float("nan")


def summarise_run(run: Run, t: int | None) -> Summary:
    """Build the summary of a run at checkpoint t (``None``: at the end), as :meth:`Run.summary` documents."""
    rows = []
    for label in run.policies:
        for horizon in run.horizons(label):
            times, regret = run.regret(label, horizon)
            if t is not None and t not in times:
                continue
            c = -1 if t is None else int(np.flatnonzero(times == t)[0])
            at = int(times[c])
            quantiles = np.quantile(regret[:, c], QUANTILES)
            seconds = float(np.mean(run.seconds(label, horizon)))
            mean, low, high = mean_interval(regret[:, [c]])
            rows.append(
                {
                    "policy": label,
                    "horizon": horizon,
                    "t": at,
                    "trials": len(run.trials),
                    "regret": float(mean[0]),
                    "low": max(float(low[0]), 0.0) if regret[:, c].min() >= 0.0 else float(low[0]),
                    "high": float(high[0]),
                    "standard_error": standard_error(regret[:, c]),
                    **{f"q{round(100 * q):02d}": float(x) for q, x in zip(QUANTILES, quantiles, strict=True)},
                    "pulls": (run.column("pulls", label, horizon)[1][:, c] / at).mean(axis=0).tolist(),
                    "arm_regret": _mean_arm_regret(run, label, horizon, c),
                    "mixture": run.column("mixture", label, horizon)[1][:, c].mean(axis=0).tolist(),
                    "seconds": seconds,
                    "rounds_per_second": horizon / max(seconds, 1e-9),  # NaN if the time was not kept
                }
            )
    if not rows:
        raise ValueError(f"no policy has a checkpoint at {t}; leave t out for the end of each run.")
    differences = []
    last = max(row["t"] for row in rows)
    finals: dict[str, dict[str, Any]] = {}
    for row in rows:  # if a policy has several runs: the one made for this horizon, else the longest
        if row["t"] == last and finals.get(row["policy"], {"horizon": -1})["horizon"] != last:
            finals[row["policy"]] = row
    if len(finals) > 1:
        leader = min(finals, key=lambda label: finals[label]["regret"])
        pairs = len(finals) * (len(finals) - 1) // 2  # which of them are shown depends on the same trials
        level = 1.0 - (1.0 - CONFIDENCE_LEVEL) / pairs
        differences = [run.difference(label, leader, last, level=level) for label in finals if label != leader]
    weights = ", ".join(f"{n} {100 * w:.1f} %" for n, w in zip(run.names, run.best.weights, strict=True) if w)
    title = f"{run.spec['metric_text']}: best utility {run.best.value:.6g} ({weights})"
    if not run.is_stationary:
        title = (
            f"{run.spec['metric_text']}: best utility {run.best.value:.6g} on average over {len(run.changes) + 1} "
            "periods in which nothing changes.\nRegret: utility of the best mixture of each period less that of shares "
            "played in it, averaged over the rounds."
        )
    return Summary(title, rows, differences)
