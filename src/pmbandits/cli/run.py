"""``pmbandits run``: a simulation from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

out = Console()


def run(
    spec: Annotated[Path, typer.Argument(help="A TOML file: metric, bandit, policies, horizon, trials, seed.")],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder for results; by default it is named like the file.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="How many workers; by default one for each core.")
    ] = None,
    backend: Annotated[str, typer.Option(help="How workers run: threads or processes.")] = "threads",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file and say what it would cost.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Write an example to the file instead, and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
) -> None:
    """Play a simulation that is described in a file.

    The run, a picture and a summary go into a folder. If you stop it, the same command goes on where it was.

    Examples:

        pmbandits run --example study.toml

        pmbandits run study.toml --dry-run

        pmbandits run study.toml --out study
    """
    if example:
        _write_example_spec(spec)
    elif dry_run:
        _print_cost_estimate(spec, jobs)
    else:
        _run_simulation_file(spec, folder, jobs, backend, quiet)


def _write_example_spec(path: Path) -> None:
    """Write an example specification; an existing file is not overwritten."""
    from pmbandits.simulation.spec import EXAMPLE

    if path.exists():
        raise ValueError(f"{str(path)!r} exists; give a new name.")
    path.write_text(EXAMPLE, encoding="utf-8")
    out.print(f"Wrote {escape(str(path))}; play it with: pmbandits run {escape(str(path))}")


def _print_cost_estimate(path: Path, jobs: int | None) -> None:
    """Print the estimated cost of a simulation file, from short trials; nothing is written."""
    from pmbandits.simulation.execute import estimate_cost
    from pmbandits.simulation.prepare import prepare_experiment
    from pmbandits.simulation.spec import read_spec
    from pmbandits.simulation.workers import resolve_n_jobs

    experiment = prepare_experiment(**read_spec(path))
    _ = experiment.best_mixtures  # this says so if a utility is infinite
    count = resolve_n_jobs(jobs)
    rows = estimate_cost(experiment, count)
    numbers = (Column(head, justify="right") for head in ("horizon", "trials", "rounds", "rows", "about"))
    table = Table("policy", *numbers, title=f"{escape(path.name)}: what it would cost on {count} workers")
    for row in rows:
        table.add_row(
            escape(str(row["policy"])),
            *(f"{row[name]:,}" for name in ("horizon", "trials", "rounds", "rows")),
            _duration_text(row["seconds"]),
        )
    table.add_section()
    total = [sum(row[name] for row in rows) for name in ("rounds", "rows", "seconds")]
    table.add_row("all", "", "", f"{total[0]:,}", f"{total[1]:,}", f"[bold]{_duration_text(total[2])}[/]")
    out.print(table)
    size = total[1] * (60 + 16 * experiment.bandit.n_arms) / 1e6
    out.print(f"Results take some {max(size, 0.1):.1f} MB of memory. Nothing was written.", highlight=False)


def _run_simulation_file(path: Path, folder: Path | None, jobs: int | None, backend: str, quiet: bool) -> None:
    """Run the simulation of a file, and write run, figure and summary into the folder."""
    import matplotlib as mpl

    mpl.use("Agg")
    from pmbandits.simulation import simulate
    from pmbandits.simulation.spec import read_spec

    arguments = read_spec(path)
    folder = path.with_suffix("") if folder is None else folder
    if folder == path:
        raise ValueError(f"{str(path)!r} has no suffix to drop; give a folder with --out.")
    run = simulate(**arguments, n_jobs=jobs, backend=backend, progress=False if quiet else None, out=folder)
    for suffix in ("png", "svg"):
        run.plot(path=folder / f"regret.{suffix}")
    summary = run.summary()
    (folder / "summary.txt").write_text(str(summary) + "\n", encoding="utf-8")
    for part in summary.parts(narrow=out.width < 130):
        table = Table(title=escape(part.title))
        for k, head in enumerate(part.rows[0]):
            widest = max(len(row[k]) for row in part.rows)
            table.add_column(head, justify="right" if k in part.right else "left", no_wrap=k > 0,
                             min_width=min(widest, 10) if k == 0 else None)  # fmt: skip
        for row in part.rows[1:]:
            table.add_row(*map(escape, row))
        out.print(table)
    for note in summary.notes:
        out.print(note, highlight=False)
    out.print(f"Wrote run.parquet, regret.png, regret.svg and summary.txt to {escape(str(folder))}", highlight=False)


def _duration_text(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.1):.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
