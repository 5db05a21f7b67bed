"""``pmbandits advise``: a recommendation from logged rewards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

out = Console()
_OTHER_QUESTIONS = (
    "Without --metric this is about the plain average. Other questions: --metric 'avoid the worst 10 %', "
    "--metric steady, --metric 'best of 3', --metric median; pmbandits metrics --by-wish lists more."
)


def advise(
    data: Annotated[Path, typer.Argument(help="Logged rewards: CSV, Parquet, JSON lines or Excel, or a folder.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="What you value: 'avoid the worst 10 %', steady, p95, 'upper_cvar(0.9)'; or several. Default: mean.",
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The column that says what was chosen, if it is not clear.")] = None,
    reward: Annotated[str | None, typer.Option(help="The column with the result, if it is not clear.")] = None,
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
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows like this: 'country == DE', 'age >= 18'; give several.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="One more answer for each value of this column.")] = None,
    segment: Annotated[
        str | None, typer.Option(help="A column known before you choose: the best choice for each of its values.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="The column that says how much a row counts.")] = None,
    propensity: Annotated[
        str | None, typer.Option(help="The column with the probability with which the arm was chosen.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only rows from this time on, such as 2026-03-01.")] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of a workbook. Default: the first with a table.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="A number that means 'not known', such as 999999; 'none' if there is none.")
    ] = None,
    same_names: Annotated[
        bool, typer.Option("--same-names", help="Names that differ in capital letters, spaces or signs are the same.")
    ] = False,
    measured_in: Annotated[str, typer.Option(help="The unit of the rewards, such as minutes or €.")] = "",
    distinct: Annotated[bool, typer.Option("--distinct", help="Count rows that are copies of others once.")] = False,
    decimal: Annotated[str | None, typer.Option(help="The decimal sign: '.' or ','. Default: what is clear.")] = None,
    thousands: Annotated[str, typer.Option(help="The sign between thousands, if there is one.")] = "",
    currency: Annotated[str, typer.Option(help="A sign of money to leave out, such as €.")] = "",
    level: Annotated[float, typer.Option(help="A verdict is wrong with probability at most 1 − level.")] = 0.95,
    splits: Annotated[int, typer.Option(help="How often the rewards are divided at random to check the result.")] = 16,
    loss: Annotated[
        bool | None,
        typer.Option("--loss/--no-loss", help="Whether smaller is better. Default: what the column's name says."),
    ] = None,
    matters: Annotated[float, typer.Option(help="The smallest difference that matters, in the rewards' unit.")] = 0.0,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse malformed rows instead of counting them.")] = False,
    report: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a report (.html, .md, .json) or a picture (.png, .svg, .pdf)."),
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the report.")] = "",
    author: Annotated[str, typer.Option(help="Who made the report.")] = "",
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Find the arm or mixture that is best by rewards that you have logged, and say whether that could be chance.

    The file has one row for each reward: CSV, Parquet, JSON lines or Excel.

    Examples:

        pmbandits advise log.csv

        pmbandits advise log.csv --metric 'avoid the worst 10 %' --arm supplier --reward score --out report.html
    """
    import matplotlib as mpl

    from pmbandits.advice import advise as compute_advice

    chosen = metrics or ["mean"]
    options: dict[str, Any] = {
        "arm": arm,
        "reward": reward,
        "support": _parse_support(support),
        "level": level,
        "shares": shares,
        "unit": unit,
        "time": time,
        "per": per,
        "wide": columns or wide,
        "where": where or (),
        "since": since,
        "weight": weight,
        "propensity": propensity,
        "sheet": sheet,
        "missing": _parse_missing(missing),
        "same_names": same_names,
        "distinct": distinct,
        "measured_in": measured_in,
        "decimal": decimal,
        "thousands": thousands,
        "currency": currency,
        "splits": splits,
        "progress": False if quiet or json_output else None,
        "strict": strict,
        "loss": loss,
        "matters": matters,
        **{name: column for name, column in (("by", by), ("segment", segment)) if column is not None},
    }
    _ask_for_columns(data, options)
    result: Any = compute_advice(data, chosen[0] if len(chosen) == 1 else chosen, **options)
    if report is not None:
        mpl.use("Agg")
        report = result.save(report if report.suffix else report.with_suffix(".html"), title=title, author=author)
    if json_output:
        print(json.dumps(result.to_dict(), ensure_ascii=False, indent=1, allow_nan=False))
        return
    several = len(chosen) > 1
    by_column = by is not None or segment is not None
    first = result[0] if several else result.whole if by_column else result
    _print_lines(map(str, first.before), "yellow")
    if segment is not None:
        _print_lines([result.headline], "bold")
        _print_lines([result.comparison])
        out.print(_table_of_rows(result.rows(), result.title))
        _print_lines([f"- {finding}" for finding in result.findings], "yellow")
        _print_lines([f"Without {segment}:"])
    if several:
        out.print(_table_of_rows(result.rows(), f"{data.name}: how the advice changes with what you value"))
    else:
        _print_lines([first.recommendation], "bold")
        _print_lines([first.reason, first.price, first.outlook])
        out.print(_arms_table(first))
    if by is not None:
        out.print(_table_of_rows(result.rows(), result.title))
        _print_lines([result.comparison])
    caveats = first.without_before((result if several else first).caveats)
    _print_lines([f"- {caveat}" for caveat in caveats], "yellow")
    _print_lines([f"  {bad}" for bad in first.log.examples[:3]])
    _print_lines(first.notes if len(chosen) == 1 else first.general, "dim")
    if not metrics:
        _print_lines([_OTHER_QUESTIONS], "dim")
    if report is not None:
        _print_lines([f"Written: {report}"])


def _ask_for_columns(data: Path, options: dict[str, Any]) -> None:
    """On a terminal, ask for columns that are not clear, and put the answers into ``options``."""
    from pmbandits.logs import ReadSettings, candidates_for_unclear_columns, sniff

    if options["wide"] or (options["arm"] and options["reward"]) or not (sys.stdin.isatty() and out.is_terminal):
        return
    found = sniff(data, options["sheet"])
    if {"arm", "reward"} <= {name.strip().lower() for name in found.columns} or (found.wide and found.sure):
        return
    questions = {"arm": "says what was chosen", "reward": "has the result"}
    for name, likely in candidates_for_unclear_columns(found, ReadSettings(options["arm"], options["reward"])).items():
        offered = [column for column in likely or found.columns if column != options["arm"]]
        _print_lines([f"{data.name}: which column {questions[name]}?"])
        for number, column in enumerate(offered, 1):
            at = found.columns.index(column)
            seen = ", ".join(list(dict.fromkeys(row[at] for row in found.rows if row[at]))[:3])
            _print_lines([f"  {number}  {column}  ({seen}, …)"])
        said = typer.prompt("Its number or name", default="1", type=str).strip()
        options[name] = offered[int(said) - 1] if said.isdigit() and 0 < int(said) <= len(offered) else said


def _print_lines(lines: Iterable[str], style: str = "") -> None:
    """Print lines in one style; empty ones are left out."""
    for line in lines:
        if line:
            out.print(escape(line), style=style, highlight=False)


def _table_of_rows(rows: list[tuple[str, ...]], title: str) -> Table:
    """A table whose first row has the names of the columns; the verdict stays on one line."""
    heads = (Column(head, overflow="fold", no_wrap=head == "verdict") for head in rows[0])
    table = Table(*heads, title=escape(title))
    for row in rows[1:]:
        table.add_row(*map(escape, row))
    return table


def _arms_table(advice: Any) -> Table:
    from pmbandits.advice.sentences import arm_table_header

    head = arm_table_header(advice)
    table = Table(head[0], *(Column(name, justify="right") for name in head[1:]))
    for row in advice.rows():
        table.add_row(*map(escape, row))
    if advice.hidden:
        table.add_row(f"… {advice.hidden} more", *[""] * (len(head) - 1))
    return table


def _parse_missing(texts: list[str] | None) -> list[float] | None:
    """Numbers that stand for a missing reward; ``None`` if nothing was said."""
    if texts is None:
        return None
    try:
        return [float(text) for text in texts if text.strip().lower() != "none"]
    except ValueError:
        raise ValueError(f"--missing takes numbers such as 999999, or 'none', got {', '.join(texts)}.") from None


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
