"""Looking at a simulation from outside: a folder of :func:`simulate`, while it is filled or afterwards.

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

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.best import Best, oracle, scorer, utilities
from pmbandits.changing import Changing
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.journal import HEAD, MAGIC, decode
from pmbandits.simulation.prepare import Checkpoints
from pmbandits.simulation.run import Run

_LARGEST = 1 << 28  # bytes of a specification


@dataclass(frozen=True)
class Line:
    """One policy with one horizon."""

    label: str
    horizon: int
    checkpoints: NDArray[np.int64]


@dataclass(frozen=True)
class Life:
    """One finished trial of one policy: shares played and shares wanted at the checkpoints."""

    trial: int
    played: FloatArray
    wanted: FloatArray
    ends: tuple[int, ...]
    seconds: float


class Onlooker:
    """Reads a folder again and again.

    Attributes
    ----------
    spec : what is played.
    lines : the policies with their horizons.
    lives : the finished trials of each line.
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
        self._at = 0
        self._marked: tuple[int, int] | None = None
        self._start(spec)

    def _start(self, file: Path) -> None:
        try:
            if file.stat().st_size > _LARGEST:
                raise ValueError("size")
            text = file.read_bytes()
            self.spec: dict[str, Any] = json.loads(text)
            horizons = [int(h) for h in self.spec["horizons"]]
            self.turns = _turns(self.spec, max(horizons))
            wanted = Checkpoints(self.spec["checkpoints"], horizons, self.turns)
            self.names = [str(name) for name in self.spec["bandit"]["names"]]
            self.trials = [int(trial) for trial in self.spec["trials"]]
            self.metric_text = str(self.spec["metric_text"])
            self.lines = [
                Line(str(policy["label"]), int(h), wanted.up_to(int(h)))
                for policy in self.spec["policies"]
                for h in policy["horizons"]
            ]
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"spec.json of {str(self.folder)!r} cannot be read ({type(error).__name__}).") from None
        self._said = hashlib.sha256(text).digest()
        self.lives: list[dict[int, Life]] = [{} for _ in self.lines]
        self._at = 0
        self.__dict__.pop("_known", None)
        self._singles: FloatArray | None = None
        self._run: Run | None = None

    def refresh(self) -> bool:
        """Read what is new; whether there was something."""
        spec = self.folder / "spec.json"
        now = (spec.stat().st_mtime_ns, spec.stat().st_size)
        if now != self._marked:  # more trials may have been asked for
            if self._marked is not None and hashlib.sha256(spec.read_bytes()).digest() != self._said:
                self._start(spec)
            self._marked = now
        size = self._journal.stat().st_size
        if size < self._at:  # its damaged end was cut off
            self._at, self.lives = 0, [{} for _ in self.lines]
        if size == self._at:
            return False
        before = sum(map(len, self.lives))
        with self._journal.open("rb") as file:
            if self._at == 0:
                first = file.readline(200)
                if first != MAGIC:
                    raise ValueError(f"{self._journal.name} is not the journal of a simulation.")
                file.readline(200)
                self._at = file.tell()
            file.seek(self._at)
            while self._record(file, size):
                self._at = file.tell()
        return sum(map(len, self.lives)) > before

    def _record(self, file: Any, size: int) -> bool:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return False
        length, digest = HEAD.unpack(head)
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
            life = Life(row["trial"], pulls / t[:, None], wanted, ends, float(row["seconds"]))
            self.lives[row["entry"]][row["trial"]] = life
        return True

    # ---- what it means -----------------------------------------------------------------------------------
    @property
    def done(self) -> int:
        """How many trials of all policies are finished."""
        return sum(map(len, self.lives))

    @property
    def total(self) -> int:
        """How many there will be."""
        return len(self.lines) * len(self.trials)

    @property
    def finished(self) -> bool:
        """Whether everything is played."""
        return self.done >= self.total

    def known(self) -> tuple[Distortion, Bandit, Best] | None:
        """The preference, the true arms and the best mixture, where they do not change and can be made again."""
        if "_known" not in self.__dict__:
            try:
                bandit = Bandit.from_dict(self.spec["bandit"])
                metric = Distortion.from_dict(self.spec["metric"])
                best = None if self.turns else oracle(metric, bandit, shares=self.spec.get("shares"))
                self._known = None if best is None else (metric, bandit, best)
            except (ValueError, TypeError, LookupError):  # a metric or an arm of somebody's own, or a changing world
                self._known = None
        return self._known

    def singles(self) -> FloatArray | None:
        """What each arm alone is worth; ``None`` where it is not known."""
        known = self.known()
        if known is None:
            return None
        if self._singles is None:
            self._singles = utilities(known[0], known[1], np.eye(len(self.names)))
        return self._singles

    def regret(self, line: int) -> tuple[FloatArray, FloatArray] | None:
        """The mean regret of a line at its checkpoints, and its standard error; ``None`` where it is not known."""
        known = self.known()
        lives = list(self.lives[line].values())
        if known is None or not lives:
            return self._written(line) if lives and self.finished else None
        metric, bandit, best = known
        score = scorer(metric, bandit)
        lives = lives[:400]
        values = score(np.concatenate([life.played for life in lives])).reshape(len(lives), -1)
        regret = best.value - values
        error = regret.std(axis=0, ddof=1) / np.sqrt(len(lives)) if len(lives) > 1 else np.zeros(regret.shape[1])
        return regret.mean(axis=0), error

    def _written(self, line: int) -> tuple[FloatArray, FloatArray] | None:
        """The regret as the finished run holds it, for arms that change."""
        try:
            if self._run is None:
                self._run = Run.load(self.folder / "run.parquet")
            regret = self._run.regret(self.lines[line].label, self.lines[line].horizon)[1]
        except (ValueError, OSError):
            return None
        error = regret.std(axis=0, ddof=1) / np.sqrt(regret.shape[0]) if regret.shape[0] > 1 else 0.0 * regret[0]
        return regret.mean(axis=0), error

    def place(self, policy: str | None) -> int:
        """Which line a policy is, by its label (and horizon, where it has several)."""
        if not policy:
            return next((k for k, lives in enumerate(self.lives) if lives), 0)
        said = self.said()
        return said.index(_check.choice("policy", policy, said))

    def said(self) -> list[str]:
        """A name for each line."""
        labels = [line.label for line in self.lines]
        return [
            line.label if labels.count(line.label) == 1 else f"{line.label}, {line.horizon:,} rounds"
            for line in self.lines
        ]


def _turns(spec: dict[str, Any], horizon: int) -> list[int]:
    """When the moments of arms that change end; empty if nothing changes."""
    starts = {int(event[0]) for event in spec.get("schedule", []) if 0 < int(event[0]) < horizon}
    if "changing" in spec["bandit"]:
        starts |= {piece.start for piece in Changing.from_dict(spec["bandit"]).pieces(horizon)} - {0}
    elif "schedule" not in spec:
        return []
    return [*sorted(starts), horizon]
