"""``pmbandits advise``: a recommendation from logged rewards."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

out = Console()


def advise(
    data: Annotated[Path, typer.Argument(help="Logged rewards: CSV, Parquet, JSON lines or Excel, or a folder.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="What you value: gini, 'upper_cvar(0.9)' or upper_cvar:c=0.9; or several. Default: gini (variety).",
        ),
    ] = None,
    arm: Annotated[str, typer.Option(help="The name of the column with the arms.")] = "arm",
    reward: Annotated[str, typer.Option(help="The name of the column with the rewards.")] = "reward",
    support: Annotated[
        str | None, typer.Option(help="Where rewards can lie: binary, or 'lo,hi'. Default: what the data show.")
    ] = None,
    shares: Annotated[str | None, typer.Option(help="Limits on shares, such as 'A >= 10%; B + C <= 0.3'.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that says whose reward it is (a user, a shop), if some have several.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="The column that says when; arms whose rewards changed over time are named.")
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(help="One reward is the average of an arm in a day, week or month (or 'time': in each time)."),
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="One column for each arm, and no arm column.")] = False,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="A column that is an arm, of a wide table; give all of them.")
    ] = None,
    decimal: Annotated[str, typer.Option(help="The decimal sign: '.' or ','.")] = ".",
    thousands: Annotated[str, typer.Option(help="The sign between thousands, if there is one.")] = "",
    currency: Annotated[str, typer.Option(help="A sign of money to leave out, such as €.")] = "",
    level: Annotated[float, typer.Option(help="A verdict is wrong with probability at most 1 − level.")] = 0.95,
    splits: Annotated[int, typer.Option(help="How often the rewards are divided at random to check the result.")] = 16,
    seed: Annotated[int, typer.Option(help="The seed of these random divisions.")] = 0,
    loss: Annotated[bool, typer.Option("--loss", help="The numbers are losses: smaller is better.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse malformed rows instead of counting them.")] = False,
    report: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a report (.html, .md, .json) or a picture (.png, .svg, .pdf)."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Find the arm or mixture that is best by rewards that you have logged, and say whether that could be chance.

    The file has one row for each reward: CSV, Parquet, JSON lines or Excel.

    Examples:

        pmbandits advise log.csv --metric gini

        pmbandits advise log.csv --metric 'mean+0.5*gini' --arm supplier --reward score --support 0,10 --out report.html
    """
    import matplotlib as mpl

    from pmbandits.advice import advise as compute_advice

    chosen = metrics or ["gini"]
    table = compute_advice(
        data,
        chosen,
        arm=arm,
        reward=reward,
        support=_parse_support(support),
        level=level,
        shares=shares,
        unit=unit,
        time=time,
        per=per,
        wide=columns or wide,
        decimal=decimal,
        thousands=thousands,
        currency=currency,
        splits=splits,
        seed=seed,
        progress=False if quiet or json_output else None,
        strict=strict,
        loss=loss,
    )
    result = table[0] if len(chosen) == 1 else table
    if report is not None:
        mpl.use("Agg")
        report = result.save(report if report.suffix else report.with_suffix(".html"))
    if json_output:
        print(json.dumps(result.to_dict(), ensure_ascii=False, indent=1, allow_nan=False))
        return
    first = table[0]
    _print_lines(table.warnings, "bold red")
    if len(chosen) == 1:
        out.print(_arms_table(first))
        _print_lines([first.recommendation, first.reason, first.outlook])
        _print_lines([*first.notes, *first.checks], "dim")
    else:
        out.print(_comparison_table(table.rows(), data.name))
        _print_lines(first.general, "dim")
    if not metrics:
        _print_lines(["No --metric was given: this is for gini, which values variety."], "dim")
    if row_report := first.log.row_report():
        _print_lines([row_report], "yellow")
        _print_lines([f"  {bad}" for bad in first.log.examples])
    if report is not None:
        _print_lines([f"Written: {report}"])


def _print_lines(lines: Iterable[str], style: str = "") -> None:
    """Print lines in one style; empty ones are left out."""
    for line in lines:
        if line:
            out.print(escape(line), style=style, highlight=False)


def _comparison_table(rows: list[Any], name: str) -> Table:
    """How the advice changes with the metric; the metric stays on one line."""
    heads = (Column(head, overflow="fold", no_wrap=k == 0) for k, head in enumerate(rows[0]))
    table = Table(*heads, title=f"{escape(name)}: how the advice changes with what you value")
    for row in rows[1:]:
        table.add_row(*map(escape, row))
    return table


def _arms_table(advice: Any) -> Table:
    from pmbandits.advice.sentences import interval_text

    log = advice.log
    numbers = (Column(name, justify="right") for name in ("rewards", "average", "worth", "probably between", "share"))
    title = f"{escape(repr(advice.metric))}, {log.outcomes:,} rewards of {len(advice.names)} arms"
    table = Table("arm", *numbers, title=title)
    shown = advice._shown()
    for row in advice.rows():
        table.add_row(*map(escape, row))
    if len(advice.arms) > len(shown):
        table.add_row(f"… {len(advice.arms) - len(shown)} more", "", "", "", "", "")
    table.add_section()
    recommended, between = f"[bold]{escape(advice.worth)}[/]", escape(interval_text(advice.interval))
    if not advice.tied:
        table.add_row("[bold]recommended[/]", "", "", recommended, between, "")
    return table


def _parse_support(text: str | None) -> Any:
    from pmbandits.supports import Binary, Interval

    if text is None:
        return None
    if text.strip().lower() == "binary":
        return Binary()
    try:
        lo, hi = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--support must be 'binary' or two numbers 'lo,hi', got {text!r}.") from None
    return Interval(lo, hi)
