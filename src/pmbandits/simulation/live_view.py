"""Read-only view of a folder of :func:`simulate`, while the simulation runs or afterwards.

Nothing is locked and nothing is written. A record that is not whole yet is read the next time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.metrics.distortion import Distortion
from pmbandits.optimize import OracleResult, oracle, utilities, utility_function
from pmbandits.simulation.journal import MAGIC, decode_trials, read_journal_records
from pmbandits.simulation.prepare import Checkpoints
from pmbandits.simulation.run import Run

_MAX_SPEC_BYTES = 1 << 28  # bytes of a specification
_MAX_SCORED_TRIALS = 400  # of a policy: enough for a curve of its mean regret


@dataclass(frozen=True)
class PolicyLine:
    """One policy at one horizon, with its checkpoints."""

    label: str
    horizon: int
    checkpoints: NDArray[np.int64]


@dataclass(frozen=True)
class FinishedTrial:
    """One finished trial of one policy: shares played and the policy's mixture at the checkpoints."""

    played: FloatArray
    wanted: FloatArray
    ends: tuple[int, ...]
    seconds: float


class FolderReader:
    """Reads the folder of a simulation incrementally: each :meth:`refresh` adds what is new.

    Attributes
    ----------
    spec : what is played.
    lines : the policies with their horizons.
    finished_trials : the finished trials of each line, by their numbers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._spec_file, self._journal = folder, folder / "spec.json", folder / "journal.bin"
        if not self._spec_file.is_file() or not self._journal.is_file():
            raise ValueError(
                f"{str(folder)!r} is not a folder of a simulation: it has no spec.json and journal.bin. Give the "
                "folder that was given to simulate(out=…), or to pmbandits run --out."
            )
        self._read_spec()

    def _read_spec(self) -> None:
        """Read what is played, and forget all trials."""
        try:
            self._spec_stamp = self._spec_file_stamp()
            if self._spec_stamp[1] > _MAX_SPEC_BYTES:
                raise ValueError("size")
            self.spec: dict[str, Any] = json.loads(self._spec_file.read_bytes())
            horizons = [int(h) for h in self.spec["horizons"]]
            self.period_ends = _stationary_period_ends(self.spec, max(horizons))
            wanted = Checkpoints(self.spec["checkpoints"], horizons, self.period_ends)
            self.names = [str(name) for name in self.spec["bandit"]["names"]]
            self.trials = [int(trial) for trial in self.spec["trials"]]
            self.metric_text = str(self.spec["metric_text"])
            self.lines = [
                PolicyLine(str(policy["label"]), int(h), wanted.checkpoints_of_run(int(h)))
                for policy in self.spec["policies"]
                for h in policy["horizons"]
            ]
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"spec.json of {str(self.folder)!r} cannot be read ({type(error).__name__}).") from None
        self._known: tuple[Distortion, Bandit, OracleResult] | bool | None = False  # False: not looked for yet
        self._arm_utilities: FloatArray | None = None
        self._run: Run | None = None
        self._reset_finished_trials()

    def _spec_file_stamp(self) -> tuple[int, int]:
        found = self._spec_file.stat()
        return found.st_mtime_ns, found.st_size

    def _reset_finished_trials(self) -> None:
        self._offset, self.finished_trials = 0, [dict[int, FinishedTrial]() for _ in self.lines]

    def read_new_records(self) -> bool:
        """Read what was added to the folder; return whether there was something."""
        if self._spec_file_stamp() != self._spec_stamp:  # the same call may have been repeated with more trials
            self._read_spec()
        size, before = self._journal.stat().st_size, self.n_finished_trials
        if size < self._offset:  # its damaged end was cut off
            self._reset_finished_trials()
        with self._journal.open("rb") as file:
            if self._offset == 0:
                if file.readline(200) != MAGIC:
                    raise ValueError(f"{self._journal.name} is not the journal of a simulation.")
                file.readline(200)
                self._offset = file.tell()
            for payload, end in read_journal_records(file, self._offset, size):
                self._add_finished_trials(payload)
                self._offset = end
        return self.n_finished_trials > before

    def _add_finished_trials(self, payload: bytes) -> None:
        k, known, found = len(self.names), set(self.trials), decode_trials(payload)
        if not 0 <= found.entry < len(self.lines):
            return
        t = self.lines[found.entry].checkpoints
        if found.pulls.shape[1] < t.size * k or found.mixture.shape[1] != t.size * k:
            raise ValueError(f"{self._journal.name} does not belong to its spec.json.")
        played = found.pulls[:, : t.size * k].reshape(-1, t.size, k) / t[:, None]
        mixture = found.mixture.reshape(-1, t.size, k)
        for row, trial in enumerate(found.trials.tolist()):
            if trial in known:
                ends = tuple(sorted({int(end) for end in found.ends[row] if end > 0}))
                finished = FinishedTrial(played[row], mixture[row], ends, float(found.seconds[row]))
                self.finished_trials[found.entry][trial] = finished

    # ---- regret and counts -----------------------------------------------------------------------------------
    @property
    def n_finished_trials(self) -> int:
        """How many trials of all policies are finished."""
        return sum(map(len, self.finished_trials))

    @property
    def n_trials_in_all(self) -> int:
        """How many trials of all policies there will be."""
        return len(self.lines) * len(self.trials)

    @property
    def is_finished(self) -> bool:
        """Whether everything is played."""
        return self.n_finished_trials >= self.n_trials_in_all

    def true_instance_and_best_mixture(self) -> tuple[Distortion, Bandit, OracleResult] | None:
        """Return metric, true arms and best mixture; ``None`` if arms change or cannot be restored from the file."""
        if isinstance(self._known, bool):
            self._known = None
            try:
                bandit, metric = Bandit.from_dict(self.spec["bandit"]), Distortion.from_dict(self.spec["metric"])
                if not self.period_ends and "segments" not in self.spec:
                    self._known = metric, bandit, oracle(metric, bandit, shares=self.spec.get("shares"))
            except (ValueError, TypeError, LookupError):
                pass  # a metric or an arm of somebody's own, or a changing world
        return self._known

    def arm_utilities(self) -> FloatArray | None:
        """Return the utility of each arm alone; ``None`` where it is not known."""
        known = self.true_instance_and_best_mixture()
        if self._arm_utilities is None and known is not None:
            self._arm_utilities = utilities(known[0], known[1], np.eye(len(self.names)))
        return self._arm_utilities

    def mean_regret_and_error(self, line: int) -> tuple[FloatArray, FloatArray] | None:
        """The mean regret of a line at its checkpoints, and its standard error; ``None`` where it is not known.

        Where arms change it is known when the run is finished, from ``run.parquet``.
        """
        known, shares = (
            self.true_instance_and_best_mixture(),
            [trial.played for trial in self.finished_trials[line].values()],
        )
        if not shares or (known is None and not self.is_finished):
            return None
        if known is not None:
            played = np.stack(shares[:_MAX_SCORED_TRIALS])
            values = utility_function(known[0], known[1])(played.reshape(-1, played.shape[2]))
            regret = known[2].value - values.reshape(played.shape[:2])
        else:
            try:
                self._run = self._run or Run.load(self.folder / "run.parquet")
                regret = self._run.regret(self.lines[line].label, self.lines[line].horizon)[1]
            except (ValueError, OSError):
                return None
        count = len(regret)
        return regret.mean(axis=0), regret.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else 0.0 * regret[0]

    def line_index(self, policy: str | None) -> int:
        """Return the index of a policy's line, by its label (and horizon, where it has several)."""
        if not policy:
            return next((k for k, finished_trials in enumerate(self.finished_trials) if finished_trials), 0)
        policy_names = self.policy_names()
        return policy_names.index(_validation.check_choice("policy", policy, policy_names))

    def policy_names(self) -> list[str]:
        """Return a unique display name of each line: its label, with the horizon where labels repeat."""
        labels = [line.label for line in self.lines]
        return [
            line.label if labels.count(line.label) == 1 else f"{line.label}, {line.horizon:,} rounds"
            for line in self.lines
        ]


def _stationary_period_ends(spec: dict[str, Any], horizon: int) -> list[int]:
    """Return the rounds after which periods end; empty if the arms are stationary."""
    starts = {int(event[0]) for event in spec.get("schedule", []) if 0 < int(event[0]) < horizon}
    if "changing" in spec["bandit"]:
        starts |= {piece.start for piece in Changing.from_dict(spec["bandit"]).pieces(horizon)} - {0}
    elif "schedule" not in spec:
        return []
    return [*sorted(starts), horizon]
