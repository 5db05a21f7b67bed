"""Progress bar with the rate and the time left; by default it is shown on a terminal only."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

from pmbandits._extras import import_optional


class ProgressBar:
    """Rounds done out of all; ``shown=None`` shows it on a terminal only."""

    def __init__(
        self, total: int, done: int = 0, *, shown: bool | None = None, label: str = "simulate", unit: str = "rounds"
    ) -> None:
        self.total, self.done, self._first, self.label, self.unit = total, done, done, label, unit
        self.shown = sys.stderr.isatty() and find_spec("rich") is not None if shown is None else shown
        self._bar: Any = None
        self._task: Any = None
        self._start = time.monotonic()

    def __enter__(self) -> ProgressBar:
        if self.shown and self.done < self.total:
            import_optional("rich", "progress bars")
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.done, rate="")
        return self

    def advance(self, rounds: int) -> None:
        """Note that this many more rounds are done."""
        self.done += rounds
        if self._bar is not None:
            per_second = (self.done - self._first) / max(time.monotonic() - self._start, 1e-9)
            self._bar.update(self._task, completed=self.done, rate=f"{format_si(per_second)} {self.unit}/s")

    def set_progress(self, done: int, total: int) -> None:
        """Note how many rounds are done, and how many there will be in all."""
        self.total = total
        if self._bar is not None:
            self._bar.update(self._task, total=total)
        self.advance(done - self.done)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def format_si(number: float) -> str:
    """Format a number with an SI prefix: 12.0 k, 3.4 M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"
