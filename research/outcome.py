"""What an experiment is given and what it leaves: the one shape that every figure, table and comparison has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
Verdict = Literal["holds", "does not hold", "depends on a choice", "not decidable", "not observed"]
VERDICTS: dict[Verdict, str] = {  # in the order of tables, with what they mean
    "holds": "what was measured agrees with the claim",
    "does not hold": "what was measured contradicts it",
    "depends on a choice": "it holds for some values of what the paper leaves open (a constant, a horizon), and not "
    "for others; which is shown",
    "not decidable": "chance is still too large for a verdict",
    "not observed": "what the claim is about did not happen in any run",
}

TWO_ERRORS = "a difference counts when it is two standard errors away from 0"
EXACT = "exact, nothing here is random"


@dataclass(frozen=True)
class Context:
    """How an experiment is to be run.

    Attributes
    ----------
    folder : where simulations keep their journals; an interrupted experiment goes on from there.
    quick : small sizes; claims are then only indicative.
    seed : of everything random.
    jobs : workers; ``None`` for all cores.
    progress : show bars; ``None`` on a terminal only.
    tick : called now and then with the share of the experiment that is done.
    arms, trials : of your own, in place of those of the experiment (figure 3 only).
    """

    folder: Path
    quick: bool = False
    seed: int = 0
    jobs: int | None = None
    progress: bool | None = None
    tick: Callable[[float], None] | None = None
    arms: tuple[tuple[float, float], ...] = ()
    trials: int | None = None

    def done(self, share: float) -> None:
        """Say that this share of the experiment is done."""
        if self.tick is not None:
            self.tick(share)


@dataclass(frozen=True)
class Claim:
    """A claim, and what our runs say about it.

    Attributes
    ----------
    name, says : a short name, and the claim in words.
    verdict, evidence, numbers : what was found.
    source : where the paper says so, by the labels of its source; empty for a question of our own.
    rule : by what it was judged.
    timed : whether it is about seconds, which differ from run to run.
    """

    name: str
    says: str
    verdict: Verdict
    evidence: str
    numbers: dict[str, float] = field(default_factory=dict)
    source: str = ""
    rule: str = TWO_ERRORS
    timed: bool = False


@dataclass(frozen=True)
class Shown:
    """A table for readers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass
class Outcome:
    """What an experiment leaves: text, claims, figures, data and tables for readers."""

    name: str
    title: str
    text: list[str]
    claims: list[Claim]
    figures: dict[str, Figure] = field(default_factory=dict)
    data: dict[str, pa.Table] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


Experiment = Callable[[Context], Outcome]
