"""Read-only view of a folder of :func:`simulate`, while the simulation runs or afterwards.

Nothing is locked and nothing is written. A record that is not whole yet is read the next time.
"""

from __future__ import annotations

import hashlib
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
from pmbandits.simulation.journal import MAGIC, RECORD_HEADER, decode
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

    trial: int
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
    finished_trials : the finished trials of each line.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        spec, journal = folder / "spec.json", folder / "journal.bin"
        if not spec.is_file() or not journal.is_file():
            raise ValueError(
                f"{str(folder)!r} is not a folder of a simulation: it has no spec.json and journal.bin. Give the "
                "folder that was given to simulate(out=…), or to pmbandits run --out."
            )
        self._journal = journal
        self._offset = 0
        self._spec_stat: tuple[int, int] | None = None
        self._read_spec(spec)

    def _read_spec(self, file: Path) -> None:
        try:
            if file.stat().st_size > _MAX_SPEC_BYTES:
                raise ValueError("size")
            text = file.read_bytes()
            self.spec: dict[str, Any] = json.loads(text)
            horizons = [int(h) for h in self.spec["horizons"]]
            self.moment_ends = _moment_ends(self.spec, max(horizons))
            wanted = Checkpoints(self.spec["checkpoints"], horizons, self.moment_ends)
            self.names = [str(name) for name in self.spec["bandit"]["names"]]
            self.trials = [int(trial) for trial in self.spec["trials"]]
            self.metric_text = str(self.spec["metric_text"])
            self.lines = [
                PolicyLine(str(policy["label"]), int(h), wanted.up_to(int(h)))
                for policy in self.spec["policies"]
                for h in policy["horizons"]
            ]
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"spec.json of {str(self.folder)!r} cannot be read ({type(error).__name__}).") from None
        self._spec_hash = hashlib.sha256(text).digest()
        self.finished_trials: list[dict[int, FinishedTrial]] = [{} for _ in self.lines]
        self._offset = 0
        self.__dict__.pop("_known", None)
        self._arm_utilities: FloatArray | None = None
        self._run: Run | None = None

    def refresh(self) -> bool:
        """Read what was added to the folder; return whether there was something."""
        spec = self.folder / "spec.json"
        now = (spec.stat().st_mtime_ns, spec.stat().st_size)
        if now != self._spec_stat:  # the same call may have been repeated with more trials
            if self._spec_stat is not None and hashlib.sha256(spec.read_bytes()).digest() != self._spec_hash:
                self._read_spec(spec)
            self._spec_stat = now
        size = self._journal.stat().st_size
        if size < self._offset:  # its damaged end was cut off
            self._offset, self.finished_trials = 0, [{} for _ in self.lines]
        if size == self._offset:
            return False
        before = sum(map(len, self.finished_trials))
        with self._journal.open("rb") as file:
            if self._offset == 0:
                first = file.readline(200)
                if first != MAGIC:
                    raise ValueError(f"{self._journal.name} is not the journal of a simulation.")
                file.readline(200)
                self._offset = file.tell()
            file.seek(self._offset)
            while self._read_record(file, size):
                self._offset = file.tell()
        return sum(map(len, self.finished_trials)) > before

    def _read_record(self, file: Any, size: int) -> bool:
        head = file.read(RECORD_HEADER.size)
        if len(head) < RECORD_HEADER.size:
            return False
        length, digest = RECORD_HEADER.unpack(head)
        if length > size - file.tell():
            return False
        payload = file.read(length)
        if hashlib.sha256(payload).digest() != digest:
            return False
        k, known = len(self.names), set(self.trials)
        for row in decode(payload):
            if not 0 <= row["entry"] < len(self.lines) or row["trial"] not in known:
                continue
            t = self.lines[row["entry"]].checkpoints
            pulls = np.asarray(row["pulls"], dtype=np.float64).reshape(-1, k)[: t.size]
            wanted = np.asarray(row["mixture"], dtype=np.float64).reshape(-1, k)[: t.size]
            if pulls.shape[0] != t.size or wanted.shape[0] != t.size:
                raise ValueError(f"{self._journal.name} does not belong to its spec.json.")
            ends = tuple(sorted({int(end) for end in row["ends"]}))
            finished_trial = FinishedTrial(row["trial"], pulls / t[:, None], wanted, ends, float(row["seconds"]))
            self.finished_trials[row["entry"]][row["trial"]] = finished_trial
        return True

    # ---- regret and counts -----------------------------------------------------------------------------------
    @property
    def done(self) -> int:
        """How many trials of all policies are finished."""
        return sum(map(len, self.finished_trials))

    @property
    def total(self) -> int:
        """How many trials of all policies there will be."""
        return len(self.lines) * len(self.trials)

    @property
    def finished(self) -> bool:
        """Whether everything is played."""
        return self.done >= self.total

    def known(self) -> tuple[Distortion, Bandit, OracleResult] | None:
        """Return metric, true arms and best mixture; ``None`` if arms change or cannot be restored from the file."""
        if "_known" not in self.__dict__:
            try:
                bandit = Bandit.from_dict(self.spec["bandit"])
                metric = Distortion.from_dict(self.spec["metric"])
                best = None if self.moment_ends else oracle(metric, bandit, shares=self.spec.get("shares"))
                self._known = None if best is None else (metric, bandit, best)
            except (ValueError, TypeError, LookupError):  # a metric or an arm of somebody's own, or a changing world
                self._known = None
        return self._known

    def arm_utilities(self) -> FloatArray | None:
        """Return the utility of each arm alone; ``None`` where it is not known."""
        known = self.known()
        if known is None:
            return None
        if self._arm_utilities is None:
            self._arm_utilities = utilities(known[0], known[1], np.eye(len(self.names)))
        return self._arm_utilities

    def regret(self, line: int) -> tuple[FloatArray, FloatArray] | None:
        """The mean regret of a line at its checkpoints, and its standard error; ``None`` where it is not known."""
        known = self.known()
        finished_trials = list(self.finished_trials[line].values())
        if known is None or not finished_trials:
            return self._regret_from_run_file(line) if finished_trials and self.finished else None
        metric, bandit, best = known
        score = utility_function(metric, bandit)
        shares = [trial.played for trial in finished_trials[:_MAX_SCORED_TRIALS]]
        return _mean_and_error(best.value - score(np.concatenate(shares)).reshape(len(shares), -1))

    def _regret_from_run_file(self, line: int) -> tuple[FloatArray, FloatArray] | None:
        """Return mean regret and standard error from the finished ``run.parquet``, for arms that change."""
        try:
            if self._run is None:
                self._run = Run.load(self.folder / "run.parquet")
            regret = self._run.regret(self.lines[line].label, self.lines[line].horizon)[1]
        except (ValueError, OSError):
            return None
        return _mean_and_error(regret)

    def line_index(self, policy: str | None) -> int:
        """Return the index of a policy's line, by its label (and horizon, where it has several)."""
        if not policy:
            return next((k for k, finished_trials in enumerate(self.finished_trials) if finished_trials), 0)
        policy_names = self.policy_names()
        return policy_names.index(_validation.choice("policy", policy, policy_names))

    def policy_names(self) -> list[str]:
        """Return a unique display name of each line: its label, with the horizon where labels repeat."""
        labels = [line.label for line in self.lines]
        return [
            line.label if labels.count(line.label) == 1 else f"{line.label}, {line.horizon:,} rounds"
            for line in self.lines
        ]


def _mean_and_error(regret: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over trials (rows) and its standard error, which is 0 for a single trial."""
    count = len(regret)
    return regret.mean(axis=0), regret.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else 0.0 * regret[0]


def _moment_ends(spec: dict[str, Any], horizon: int) -> list[int]:
    """Return the rounds after which moments end; empty if the arms are stationary."""
    starts = {int(event[0]) for event in spec.get("schedule", []) if 0 < int(event[0]) < horizon}
    if "changing" in spec["bandit"]:
        starts |= {piece.start for piece in Changing.from_dict(spec["bandit"]).pieces(horizon)} - {0}
    elif "schedule" not in spec:
        return []
    return [*sorted(starts), horizon]
