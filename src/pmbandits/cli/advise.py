"""``pmbandits advise``: a recommendation from logged rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console()


def advise(
    data: Annotated[Path, typer.Argument(help="Logged rewards: CSV, Parquet, JSON lines or Excel, or a folder.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="What you value: gini, 'cvar(0.9)' or cvar:c=0.9; give several to compare. Default: gini (variety).",
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

    from pmbandits.advice import advise as work_out

    chosen = metrics or ["gini"]
    table = work_out(
        data,
        chosen,
        arm=arm,
        reward=reward,
        support=_support(support),
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
    for warning in table.warnings:
        out.print(f"[bold red]{escape(warning)}[/]", highlight=False)
    if len(chosen) == 1:
        out.print(_arms(first))
        for sentence in (first.recommendation, first.reason, first.outlook):
            if sentence:
                out.print(escape(sentence), highlight=False)
        for note in (*first.notes, *first.checks):
            out.print(f"[dim]{escape(note)}[/]", highlight=False)
    else:
        head, *rows = table.rows()
        drawn = Table(title=f"{escape(data.name)}: how the advice changes with what you value")
        for k, name in enumerate(head):
            drawn.add_column(name, overflow="fold", no_wrap=k == 0)  # what is asked for stays in one piece
        for row in rows:
            drawn.add_row(*(escape(cell) for cell in row))
        out.print(drawn)
        for note in first.general:
            out.print(f"[dim]{escape(note)}[/]", highlight=False)
    if not metrics:
        out.print("[dim]No --metric was given: this is for gini, which values variety.[/]", highlight=False)
    account = first.log.account()
    if account:
        out.print(f"[yellow]{escape(account)}[/]", highlight=False)
        for bad in first.log.examples:
            out.print(f"  {escape(str(bad))}", highlight=False)
    if report is not None:
        out.print(f"Written: {escape(str(report))}", highlight=False)


def _arms(advice: Any) -> Table:
    from pmbandits.advice.words import span

    log = advice.log
    table = Table(title=f"{escape(repr(advice.metric))}, {log.outcomes:,} rewards of {len(advice.names)} arms")
    for k, name in enumerate(("arm", "rewards", "average", "worth", "probably between", "share")):
        table.add_column(name, justify="left" if k == 0 else "right")
    shown = advice._shown()
    for row in advice.rows():
        table.add_row(*(escape(cell) for cell in row))
    if len(advice.arms) > len(shown):
        table.add_row(f"… {len(advice.arms) - len(shown)} more", "", "", "", "", "")
    table.add_section()
    recommended, between = f"[bold]{escape(advice.worth)}[/]", escape(span(advice.interval))
    if not advice.tied:
        table.add_row("[bold]recommended[/]", "", "", recommended, between, "")
    return table


def _support(text: str | None) -> Any:
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
