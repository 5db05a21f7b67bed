"""From runs to verdicts: means with standard errors, paired differences, the one rule by which claims are judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import Bandit, Distortion, Policy
from pmbandits.simulation import Run, simulate
from research.outcome import Context, FloatArray, Verdict

if TYPE_CHECKING:
    import pyarrow as pa

ERRORS = 2.0  # how many standard errors a difference must be away from 0 to count


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        if self.error <= 1e-9 * abs(self.value):  # all alike, up to rounding
            return f"{self.value:.3g} each"
        return f"{self.value:.3g} ± {self.error:.1g}"


def mean(values: ArrayLike) -> Mean:
    """Mean and standard error of independent values.

    >>> str(mean([1.0, 2.0, 3.0]))
    '2 ± 0.6'
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    error = float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else float("nan")
    return Mean(float(array.mean()), error)


def positive(found: Mean) -> Verdict:
    """Whether a mean is above 0, by two standard errors.

    A difference of exactly 0 in every run says nothing for or against: nothing was observed.

    >>> positive(Mean(1.0, 0.2)), positive(Mean(-1.0, 0.2)), positive(Mean(0.1, 0.2))
    ('holds', 'does not hold', 'not decidable')
    >>> positive(Mean(0.0, 0.0))
    'not observed'
    """
    if np.isnan(found.error):
        return "not decidable"
    if found.value == found.error == 0.0:
        return "not observed"
    if found.value > ERRORS * found.error:
        return "holds"
    return "does not hold" if found.value < -ERRORS * found.error else "not decidable"


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """All must hold; one that does not is enough.

    >>> every(["holds", "not decidable"]), every(["not decidable", "does not hold"])
    ('not decidable', 'does not hold')
    """
    known = set(verdicts)
    order: tuple[Verdict, ...] = ("does not hold", "depends on a choice", "not decidable", "not observed")
    return next((verdict for verdict in order if verdict in known), "holds")


def whichever(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim that was judged for several values of what the paper leaves open.

    >>> whichever(["holds", "holds"]), whichever(["holds", "not decidable"]), whichever(["holds", "does not hold"])
    ('holds', 'depends on a choice', 'depends on a choice')
    >>> whichever(["does not hold", "not decidable"]), whichever(["does not hold", "does not hold"])
    ('not decidable', 'does not hold')
    """
    known = list(verdicts)
    if len(set(known)) == 1:
        return known[0]
    return "depends on a choice" if "holds" in known else "not decidable"


def yes(truth: bool) -> Verdict:
    """A claim without randomness."""
    return "holds" if truth else "does not hold"


def play(
    context: Context,
    part: str,
    metric: Distortion,
    bandit: Bandit,
    policies: Mapping[str, Policy],
    horizon: int | Sequence[int],
    trials: int | Sequence[int],
    **options: Any,
) -> Run:
    """:func:`simulate` as the context says, journalled under the name of this part."""
    return simulate(
        metric,
        bandit,
        policies,
        horizon,
        trials,
        context.seed,
        n_jobs=context.jobs,
        progress=context.progress,
        out=context.folder / part,
        **options,
    )


def finals(run: Run, policy: str, horizon: int | None = None) -> FloatArray:
    """The regret of each trial at the end of the run."""
    return run.regret(policy, horizon)[1][:, -1]


def flat(run: Run, **extra: str | float) -> pa.Table:
    """The run as a table that CSV can hold: a column for each arm in place of lists; ``extra`` columns first."""
    import pyarrow as pa

    table = run.to_arrow().replace_schema_metadata(None)
    columns: dict[str, Any] = {}
    for name, value in extra.items():
        columns[name] = pa.array([value] * table.num_rows)
    for name in table.column_names:
        column = table.column(name)
        if name in ("pulls", "mixture"):
            width = column.type.list_size
            values = column.combine_chunks().values.to_numpy(zero_copy_only=False).reshape(-1, width)
            for k in range(width):
                columns[f"{name}_{k}"] = pa.array(values[:, k])
        elif name == "phase_ends":
            columns["phases_ended"] = pa.array([len(ends) for ends in column.to_pylist()], pa.int64())
            columns["last_phase_end"] = pa.array([max(ends, default=None) for ends in column.to_pylist()], pa.int64())
        else:
            columns[name] = column
    return pa.table(columns)


def rows(records: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A table from rows."""
    import pyarrow as pa

    return pa.Table.from_pylist([dict(record) for record in records])
