"""``pmbandits reproduce``: the paper's figures and tables, each with its claims and whether they hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from pmbandits.paper.afterwards import SEED

out = Console()


def reproduce(
    names: Annotated[list[str], typer.Argument(help="fig1 … fig8, table1 … table4, solitary, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, in seconds; verdicts are only indicative.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where all goes; default reproduction, or reproduction-quick.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.", min=0)] = SEED,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Workers; default all cores.", min=1)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Redo the paper's figures and tables, with claims and a page to read. Stopped, it goes on when called again."""
    from pmbandits.paper.outcome import Context
    from pmbandits.paper.registry import chosen
    from pmbandits.report.page import put_page
    from pmbandits.report.store import open_folder, put

    wanted = chosen(names)
    if folder is None:
        folder = Path("reproduction-quick" if quick else "reproduction")
    open_folder(folder, seed=seed, quick=quick)
    weights = [entry.quick_seconds if quick else entry.seconds for entry in wanted]
    path = folder / "index.html"
    with _Bar(sum(weights), shown=not quiet and sys.stderr.isatty()) as bar:
        for k, (entry, weight) in enumerate(zip(wanted, weights, strict=True)):
            bar.start(f"{entry.name} ({k + 1} of {len(wanted)})", sum(weights[:k]))
            work = folder / "work" / entry.name
            context = Context(work, quick, seed, jobs, progress=False, tick=bar.share_of(weight))
            begin = time.perf_counter()
            outcome = entry.load()(context)
            seconds = time.perf_counter() - begin
            put(folder, outcome, seconds)
            path = put_page(folder, seed=seed, quick=quick)
            verdicts = [claim.verdict for claim in outcome.claims]
            counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)) or "no claims"
            bar.say(f"{entry.name:<9} {seconds:7.1f} s   {counts}")
    out.print(f"Page: {escape(str(path))}", highlight=False, soft_wrap=True)


class _Bar:
    """Progress over the whole set, in seconds that are expected; lines above it say what is finished."""

    def __init__(self, total: float, *, shown: bool) -> None:
        self.total, self.before = total, 0.0
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
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> _Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, text: str, before: float) -> None:
        """The next experiment."""
        self.before = before
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=before)

    def share_of(self, weight: float) -> Callable[[float], None]:
        """What an experiment of this weight reports its progress to."""

        def tick(share: float) -> None:
            if self._bar is not None:
                self._bar.update(self._task, completed=self.before + weight * share)

        return tick

    def say(self, line: str) -> None:
        """A line that stays."""
        console = self._bar.console if self._bar is not None else out
        console.print(escape(line), highlight=False, soft_wrap=True)
