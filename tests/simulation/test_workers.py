"""What is left of a task is handed out again, and nothing is played twice."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pmbandits.simulation import workers


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_trial_is_played_once_however_much_a_worker_finishes(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[int, int]] = []

    def perform(task: workers.Task) -> Any:
        done = task.trials[: 1 + task.trials[0] % 3]  # one to three trials of the slice
        played.extend((task.number, trial) for trial in done)
        return SimpleNamespace(entry=task.number, trials=np.array(done), size=len(done))

    monkeypatch.setattr(workers, "play_trials_of_task", perform)
    entry: Any = SimpleNamespace(policy=None)
    tasks = [workers.Task(f"{k}", k, entry, None, 0, tuple(range(7 + k))) for k in range(3)]  # type: ignore[arg-type]
    parts = workers._run_tasks(tasks, jobs, "threads")
    found = [(part.entry, trial) for part in parts for trial in part.trials.tolist()]
    assert sorted(found) == sorted(played) == [(k, trial) for k in range(3) for trial in range(7 + k)]


def test_the_last_task_is_split_so_that_no_worker_is_idle() -> None:
    task = workers.Task("x", 0, None, None, 0, (0, 1, 2, 3, 4))  # type: ignore[arg-type]
    queue: deque[workers.Task] = deque()
    workers._requeue_rest_of_task(queue, task, 1)
    assert [part.trials for part in queue] == [(1, 2), (3, 4)]
    workers._requeue_rest_of_task(queue, task, 2)
    assert [part.trials for part in queue] == [(2, 3, 4), (1, 2), (3, 4)]
