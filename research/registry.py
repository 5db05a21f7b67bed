"""Every experiment by name, imported when it is run."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass

from research.outcome import Experiment


@dataclass(frozen=True)
class Entry:
    """Where an experiment is, and about how many seconds it takes on two cores: full size and ``--quick``.

    One that measures time (``alone``) is not run beside others. One that is this library's own comparison (``ours``)
    is not part of ``all`` and has to be named; what it finds is not counted among the paper's claims.
    """

    name: str
    where: str
    seconds: float
    quick_seconds: float
    alone: bool = False
    ours: bool = False

    def load(self) -> Experiment:
        """The function that runs it."""
        module, _, function = self.where.partition(":")
        found: Experiment = getattr(importlib.import_module(module), function)
        return found


_ENTRIES = (
    Entry("fig1", "research.fig1:run", 1, 2),
    Entry("fig2", "research.fig2:run", 30, 2),
    Entry("fig3", "research.fig3:run", 260, 10),
    Entry("fig4", "research.fig4:run", 130, 4),
    Entry("fig5", "research.fig5:run", 3, 3),
    Entry("fig6", "research.fig6:run", 17, 2),
    Entry("fig7", "research.fig7:run", 110, 5),
    Entry("fig8", "research.fig8:run", 90, 5, alone=True),
    Entry("table1", "research.tables:table1", 0.1, 0.1),
    Entry("table2", "research.tables:table2", 0.1, 0.1),
    Entry("table3", "research.tables:table3", 0.1, 0.1),
    Entry("table4", "research.tables:table4", 1, 1),
    Entry("solitary", "research.solitary:run", 40, 2),
    Entry("risk", "research.risk:risk", 370, 12),
    Entry("family", "research.family:run", 1800, 30, ours=True),
)
ALL = "all"


def entries() -> dict[str, Entry]:
    """The experiments that are there, in the order of the page."""
    return {e.name: e for e in _ENTRIES if importlib.util.find_spec(e.where.partition(":")[0]) is not None}


def chosen(names: list[str]) -> list[Entry]:
    """The experiments of these names, in the order of the page; ``all`` for every one that is about the paper.

    >>> [entry.name for entry in chosen(["table2", "fig3"])]
    ['fig3', 'table2']
    >>> chosen(["fig33"])
    Traceback (most recent call last):
        ...
    ValueError: unknown experiment 'fig33'. Did you mean 'fig3'? Known: all, fig1, ...
    """
    known = entries()
    for name in names:
        if name not in (ALL, *known):
            near = difflib.get_close_matches(name, (ALL, *known), n=1)
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown experiment {name!r}.{suggestion} Known: {', '.join((ALL, *known))}.")
    return [entry for name, entry in known.items() if name in names or (ALL in names and not entry.ours)]


def ours(name: str) -> bool:
    """Whether an experiment is this library's own comparison, which says nothing about the paper.

    >>> ours("family"), ours("fig3")
    (True, False)
    """
    found = entries().get(name)
    return found is not None and found.ours
