"""The whole family of policies on one set of instances: this library's own comparison, not a claim of the paper.

Plan, goals and instances are in ``family_plan`` and ``family_arms``. A cell (a policy on an instance) is stored
when it is done, so an interrupted run goes on with the next one. A stored cell is known by its arms, metric, policy,
horizons, trials, seed, the library's version and the file that defines the policy; with another of these it is played
anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Event
from typing import Any

import joblib
import numpy as np

from pmbandits import Bandit, __version__
from pmbandits.simulation import Run, simulate
from research import family_plan as plan
from research import family_shown as shown_as
from research.family_arms import UNSEEN, Instance, instances
from research.family_scores import Cell, Scores, goals
from research.outcome import Context, FloatArray, Outcome
from research.store import write

TITLE = "The family: every policy on the same instances"
ROUNDING_TOLERANCE = 1e-9  # by so much a policy may be above the best mixture, for rounding


@dataclass(frozen=True)
class Job:
    """A policy on an instance: to which horizons, how often, and why not further."""

    instance: Instance
    player: plan.Player
    horizons: tuple[int, ...]
    trials: range
    seed: int
    seconds: float
    why: Mapping[int, str]

    @cached_property
    def identity(self) -> str:
        """A hash of everything that the results depend on."""
        recipe = self.player.make(max(self.horizons))
        source = Path(str(inspect.getsourcefile(type(recipe))))
        what = {
            "library": __version__,
            "arms": _arms_hash(self.instance.make, self.instance.count),
            "metric": self.instance.metric.to_dict(),
            "policy": [recipe.name, recipe.seed, recipe.options],
            "code": hashlib.sha256(source.read_bytes()).hexdigest(),
            "plan": [self.horizons, list(self.trials), self.seed],
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @property
    def sets(self) -> list[int]:
        """Which set of arms each trial plays."""
        return [trial % self.instance.count for trial in self.trials]

    def file(self, folder: Path) -> Path:
        """Where its results are stored."""
        return folder / "cells" / self.instance.key / f"{self.player.label}.json"


@cache
def _arms_hash(make: Callable[[int], Bandit], count: int) -> str:
    """Of all sets of arms of an instance; its policies share it."""
    arms = [make(number).to_dict() for number in range(count)]
    return hashlib.sha256(json.dumps(arms, sort_keys=True).encode()).hexdigest()


def run(context: Context) -> Outcome:
    """Play all cells that are not stored yet, and compare."""
    jobs = plan_jobs(quick=context.quick, seed=context.seed)
    found = play_all([job for job in jobs if job.horizons], context)
    return outcome(*gather(jobs, found))


def outcome(scores: Scores, notes: list[str]) -> Outcome:
    """What is said and shown of all cells together."""
    return Outcome(
        name="family",
        title=TITLE,
        text=[*shown_as.paragraphs(scores), *notes, *plan.PLAN],
        claims=goals(scores),
        figures={"family": shown_as.picture(scores)},
        data=shown_as.data(scores),
        shown=shown_as.tables(scores),
    )


def plan_jobs(*, quick: bool, seed: int) -> list[Job]:
    """All cells, in the order of the table."""
    if quick:
        chosen = [one for one in instances() if one.n_arms <= plan.QUICK_ARMS and one.group != UNSEEN]
        return [_job(one, player, plan.QUICK_HORIZONS, (0.0,), seed) for one in chosen for player in plan.players()]
    costs = plan.read_costs()
    return [
        _job(one, player, plan.HORIZONS, costs.get((one.key, player.label)), seed)
        for one in instances()
        for player in plan.players()
    ]


def _job(
    instance: Instance, player: plan.Player, horizons: tuple[int, ...], costs: tuple[float, ...] | None, seed: int
) -> Job:
    why = {t: said for t in horizons if (said := plan.refusal(player, instance, t)) is not None}
    open_to = [t for t in horizons if t not in why]
    if costs is None and open_to:
        raise ValueError(
            f"the pilot has no seconds for {player.label} on {instance.key}, so the number of trials is not known; "
            "run python -m benchmarks.family and commit family_costs.csv first."
        )
    seconds = dict(zip(horizons, costs or (), strict=False))
    slow = {t: shown_as.SLOW for t in open_to if seconds[t] > plan.LIMIT}
    played = tuple(t for t in open_to if t not in slow)
    longest = seconds[played[-1]] if played else 0.0
    if horizons == plan.QUICK_HORIZONS:
        numbers = range(plan.QUICK_TRIALS)
    else:
        numbers = range(plan.FIRST, plan.FIRST + plan.trials(longest))
    return Job(instance, player, played, numbers, seed, longest * len(numbers), {**why, **slow})


# ---- playing ---------------------------------------------------------------------------------------------

Played = dict[str, Any]  # regret by horizon and trial, the best values of each set of arms, and whether they are proved


def play_all(jobs: list[Job], context: Context) -> dict[tuple[str, str], Played]:
    """Stored cells are read, the others played, several at a time; dear ones first."""
    found: dict[tuple[str, str], Played] = {}
    total = sum(job.seconds + 0.1 for job in jobs)
    missing = []
    for job in jobs:
        stored = read_cell(job, context.folder)
        if stored is None:
            missing.append(job)
        else:
            found[job.instance.key, job.player.label] = stored
    done = total - sum(job.seconds + 0.1 for job in missing)
    stop = Event()
    with ThreadPoolExecutor(context.jobs or joblib.cpu_count()) as pool:
        going: dict[Future[Played], Job] = {
            pool.submit(play_cell, job, context.folder, stop): job
            for job in sorted(missing, key=lambda job: -job.seconds)
        }
        try:
            for future, job in _as_completed(going):
                found[job.instance.key, job.player.label] = future.result()
                done += job.seconds + 0.1
                context.done(min(done / total, 0.999))
        except BaseException:
            stop.set()  # those that are playing end with the set of arms they are at
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _as_completed(going: dict[Future[Played], Job]) -> Iterable[tuple[Future[Played], Job]]:
    left = set(going)
    while left:
        ended, left = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in ended:
            yield future, going[future]


class Stopped(Exception):
    """Another cell failed, or the user wants to stop."""


def play_cell(job: Job, folder: Path, stop: Event) -> Played:
    """All trials of a cell, one set of arms after the other, and the file that keeps them."""
    instance, label = job.instance, job.player.label
    regret = {t: np.empty(len(job.trials)) for t in job.horizons}
    best, proved = [], True
    for number in range(instance.count):
        if stop.is_set():
            raise Stopped
        mine = [trial for trial in job.trials if trial % instance.count == number]
        if not mine:
            best.append(float("nan"))
            continue
        places = [job.trials.index(trial) for trial in mine]
        made = simulate(
            instance.metric, instance.arms(number), {label: job.player.make(max(job.horizons))}, list(job.horizons),
            mine, job.seed, checkpoints=list(job.horizons), n_jobs=1, progress=False,
        )  # fmt: skip
        for t in job.horizons:
            regret[t][places] = _regret_at(made, label, t)
        best.append(made.best.value)
        proved = proved and made.best.certified
    played = {"identity": job.identity, "regret": {str(t): r.tolist() for t, r in regret.items()},
              "best": [None if np.isnan(b) else b for b in best], "proved": proved}  # fmt: skip
    text = json.dumps(played, allow_nan=False).encode()
    write(job.file(folder), text)
    return played


def _regret_at(made: Run, label: str, t: int) -> FloatArray:
    """Of the run that was made for this horizon, else of the only one."""
    known = made.horizons(label)
    times, regret = made.regret(label, t if t in known else max(known))
    return regret[:, int(np.flatnonzero(times == t)[0])]


def read_cell(job: Job, folder: Path) -> Played | None:
    """A stored cell, if it is this one."""
    path = job.file(folder)
    try:
        stored: Played = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stored if stored.get("identity") == job.identity else None


# ---- putting it together ---------------------------------------------------------------------------------


def gather(jobs: list[Job], found: Mapping[tuple[str, str], Played]) -> tuple[Scores, list[str]]:
    """Scores against the best mixture; where a search for it was beaten, against what the best policy found."""
    chosen = list({job.instance.key: job.instance for job in jobs}.values())
    labels = list(dict.fromkeys(job.player.label for job in jobs))
    horizons = sorted({t for job in jobs for t in (*job.horizons, *job.why)})
    cells, notes = {}, []
    for instance in chosen:
        mine = {job.player.label: job for job in jobs if job.instance.key == instance.key}
        played = {label: found[instance.key, label] for label in mine if (instance.key, label) in found}
        surplus = {label: _surplus(one["regret"], mine[label].sets, instance.count) for label, one in played.items()}
        most = np.max([*surplus.values(), np.zeros(instance.count)], axis=0)
        who = max(surplus, key=lambda label: float(surplus[label].max()), default="")
        if most.max() > ROUNDING_TOLERANCE:
            if all(one["proved"] for one in played.values()):
                raise RuntimeError(
                    f"{who} beats the certified best mixture of “{instance.title}” ({instance.key}) by "
                    f"{most.max():.2e}: the oracle is wrong there. Nothing was compared."
                )
            notes.append(
                f"{instance.title}: {who} found a mixture that is better by {most.max():.1e} than what the oracle "
                "found; all regrets there are against the better value."
            )
        else:
            most = np.zeros(instance.count)
        for label, job in mine.items():
            regret = {int(t): np.array(r) for t, r in played[label]["regret"].items()} if label in played else {}
            shift = most[job.sets]
            cells[instance.key, label] = Cell({t: r + shift for t, r in regret.items()}, job.why)
    return Scores(chosen, labels, horizons, cells), notes


def _surplus(regret: Mapping[str, list[float]], sets: list[int], count: int) -> FloatArray:
    """By how much a policy was above the best mixture, for each set of arms."""
    out = np.zeros(count)
    for values in regret.values():
        np.maximum.at(out, sets, -np.array(values))
    return out
