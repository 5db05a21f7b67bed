"""``python -m research``: the paper's figures and tables, each with its claims and whether they hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from research.afterwards import SEED
from research.page import put_page
from research.produce import Order, produce_all
from research.registry import chosen
from research.store import open_folder, put_time

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
out = Console()
err = Console(stderr=True)


def main() -> None:
    """Run the command. Bad input gives one sentence on standard error, and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except SystemExit as end:
        if end.code == 130:  # Ctrl-C, which typer turns into this without a word
            err.print("interrupted; what was finished is kept, and the same command goes on from there", soft_wrap=True)
        raise


@app.command()
def reproduce(
    names: Annotated[
        list[str], typer.Argument(help="What: fig1 … fig8, table1 … table4, solitary, risk, all; or family.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, in seconds; verdicts are only indicative.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder for results; by default reproduction, or reproduction-quick."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything random.", min=0)] = SEED,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="How many workers; by default one for each core.", min=1)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
    arms: Annotated[
        str | None, typer.Option(help="For fig3 only: pairs of chances of your own, such as '0.2,0.7; 0.3,0.8'.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="For fig3 only: how many trials of each pair.", min=2)] = None,
) -> None:
    """Repeat the paper's figures and tables: what each claims, what was measured, and whether it holds.

    All results go into a folder, with a page to read. If you stop it, the same command goes on where it was.

    Examples:

        python -m research all --quick

        python -m research fig3 table2 --out FOLDER

        python -m research fig3 --arms "0.2,0.7; 0.3,0.8" --trials 50
    """
    wanted = chosen(names)
    own = arms is not None or trials is not None
    if own and [entry.name for entry in wanted] != ["fig3"]:
        raise ValueError("--arms and --trials are for fig3 alone: python -m research fig3 --arms '0.2,0.7'.")
    pairs = () if arms is None else _parse_pairs(arms)
    if folder is None:
        folder = Path(f"reproduction{'-own' if own else ''}{'-quick' if quick else ''}")
    open_folder(folder, seed=seed, quick=quick)
    path = folder / "index.html"
    weights = {entry.name: entry.quick_seconds if quick else entry.seconds for entry in wanted}
    with _ReproductionBar(weights, shown=not quiet and sys.stderr.isatty()) as bar:
        for done in produce_all(wanted, Order(folder, quick, seed, jobs, pairs, trials), bar.set_share_done):
            put_time(folder, done.name, done.seconds, done.table)
            path = put_page(folder, seed=seed, quick=quick)
            counts = ", ".join(f"{done.verdicts.count(v)} {v}" for v in dict.fromkeys(done.verdicts)) or "no claims"
            bar.set_share_done(done.name, 1.0)
            bar.print_line(f"{done.name:<9} {done.seconds:7.1f} s   {counts}")
    out.print(f"Page: {escape(str(path))}", highlight=False, soft_wrap=True)


def _parse_pairs(text: str) -> tuple[tuple[float, float], ...]:
    """Parse pairs of probabilities, written as ``0.2,0.7; 0.3,0.8``."""
    pairs = []
    for piece in text.split(";"):
        try:
            first, second = (float(part) for part in piece.split(","))
            if not (0.0 <= first <= 1.0 and 0.0 <= second <= 1.0):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--arms needs pairs of chances between 0 and 1, such as '0.2,0.7; 0.3,0.8', got {text!r}."
            ) from None
        pairs.append((first, second))
    return tuple(pairs)


class _ReproductionBar:
    """Progress over the whole set, in seconds that are expected; lines above it say what is finished."""

    def __init__(self, weights: dict[str, float], *, shown: bool) -> None:
        self.weights, self.shares = weights, dict.fromkeys(weights, 0.0)
        self._bar: Any = None
        if shown:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description:<18}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("", total=sum(weights.values()))

    def __enter__(self) -> _ReproductionBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def set_share_done(self, name: str, share: float) -> None:
        """Set which share of an experiment is done."""
        self.shares[name] = share
        if self._bar is not None:
            done = sum(share == 1.0 for share in self.shares.values())
            completed = sum(weight * self.shares[name] for name, weight in self.weights.items())
            self._bar.update(self._task, description=f"{done} of {len(self.shares)} done", completed=completed)

    def print_line(self, line: str) -> None:
        """Print a line above the progress bar."""
        console = self._bar.console if self._bar is not None else out
        console.print(escape(line), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
