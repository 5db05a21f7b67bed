"""What a run comes to, in a table: means, standard errors and quantiles of the regret, and pairs of policies."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.simulation.progress import people

if TYPE_CHECKING:
    from pmbandits.simulation.run import Run

QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Difference:
    """Regret of one policy minus that of another on the same rewards, trial by trial."""

    policy: str
    other: str
    t: int
    mean: float
    standard_error: float
    better: float

    def __repr__(self) -> str:
        return (
            f"Difference({self.policy} − {self.other} at t={self.t:,}: {self.mean:.3g} ± {self.standard_error:.1g}, "
            f"less regret in {100 * self.better:.0f} % of the trials)"
        )


class Summary:
    """Means, standard errors and quantiles of the regret, shares of pulls, time and speed; prints as a table.

    ``rows`` and ``differences`` hold the same as plain data.
    """

    def __init__(self, title: str, rows: list[dict[str, Any]], differences: list[Difference]) -> None:
        self.title, self.rows, self.differences = title, rows, differences

    def tables(self, *, narrow: bool = False) -> list[Any]:
        """As rich tables; ``narrow`` leaves out what does not fit into 80 columns."""
        from rich.table import Table

        main = Table(title=self.title)
        left_out = {"trials", "5 %", "95 %", "mixture (%)", "s/trial", "rounds/s"} if narrow else set()
        heads = (
            "policy",
            "t",
            "trials",
            "regret",
            "± s.e.",
            "5 %",
            "median",
            "95 %",
            "pulls (%)",
            "mixture (%)",
            "s/trial",
            "rounds/s",
        )
        for head in heads:
            if head not in left_out:
                main.add_column(head, justify="left" if head == "policy" else "right", no_wrap=head != "policy")
        for row in self.rows:
            seconds = row["seconds"]
            cells = (
                row["policy"],
                f"{row['t']:,}",
                str(row["trials"]),
                f"{row['regret']:.2e}",
                f"{row['standard_error']:.0e}",
                *(f"{row[f'q{round(100 * q):02d}']:.1e}" for q in QUANTILES),
                _shares(row["pulls"]),
                _shares(row["mixture"]),
                "–" if np.isnan(seconds) else f"{seconds:.3g}",
                _speed(row["rounds_per_second"]),
            )
            main.add_row(*(cell for head, cell in zip(heads, cells, strict=True) if head not in left_out))
        if not self.differences:
            return [main]
        pairs = Table(title="Regret minus that of the best policy, on the same rewards")
        for head in ("policy", "best", "t", "difference", "± s.e.", "less regret in"):
            pairs.add_column(head, justify="left" if head in ("policy", "best") else "right")
        for d in self.differences:
            pairs.add_row(
                d.policy, d.other, f"{d.t:,}", f"{d.mean:.2e}", f"{d.standard_error:.0e}", f"{100 * d.better:.0f} %"
            )
        return [main, pairs]

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=150, file=io.StringIO(), color_system=None)
        for table in self.tables():
            console.print(table)
        return console.file.getvalue().rstrip()  # type: ignore[attr-defined]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from pmbandits import _html

        head = ("policy", "t", "regret", "± s.e.", "median", "95 %", "pulls (%)", "mixture (%)", "rounds/s")
        rows = [
            (r["policy"], f"{r['t']:,}", f"{r['regret']:.2e}", f"{r['standard_error']:.0e}", f"{r['q50']:.1e}",
             f"{r['q95']:.1e}", _shares(r["pulls"]), _shares(r["mixture"]), _speed(r["rounds_per_second"]))
            for r in self.rows
        ]  # fmt: skip
        return _html.block(self.title, _html.table(head, rows))


def _shares(shares: Sequence[float]) -> str:
    text = " ".join(f"{100 * share:.1f}" for share in shares[:6])
    return text + (" …" if len(shares) > 6 else "")


def _speed(rounds_per_second: float) -> str:
    return "–" if np.isnan(rounds_per_second) else people(rounds_per_second)


def summarise(run: Run, t: int | None) -> Summary:
    """See :meth:`Run.summary`."""
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
            rows.append(
                {
                    "policy": label,
                    "horizon": horizon,
                    "t": at,
                    "trials": len(run.trials),
                    "regret": float(regret[:, c].mean()),
                    "standard_error": standard_error(regret[:, c]),
                    **{f"q{round(100 * q):02d}": float(x) for q, x in zip(QUANTILES, quantiles, strict=True)},
                    "pulls": (run.column("pulls", label, horizon)[1][:, c] / at).mean(axis=0).tolist(),
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
    for row in rows:  # of several runs of a policy the one made for this horizon, else the longest
        if row["t"] == last and finals.get(row["policy"], {"horizon": -1})["horizon"] != last:
            finals[row["policy"]] = row
    if len(finals) > 1:
        leader = min(finals, key=lambda label: finals[label]["regret"])
        differences = [run.difference(label, leader, last) for label in finals if label != leader]
    weights = ", ".join(
        f"{n} {100 * w:.1f} %" for n, w in zip(run.spec["bandit"]["names"], run.best["weights"], strict=True) if w
    )
    title = f"{run.spec['metric_text']}: best utility {run.best['value']:.6g} ({weights})"
    return Summary(title, rows, differences)


def standard_error(values: FloatArray) -> float:
    """Of a mean of independent numbers; NaN for a single one."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
