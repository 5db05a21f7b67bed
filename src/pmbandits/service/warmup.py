"""Compiled code in memory before the first request needs it."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np

from pmbandits.constraints.parser import quote_name
from pmbandits.engine.policy import Policy
from pmbandits.estimates.change_detector import ChangeDetector
from pmbandits.service.experiment import MAX_LIMITS_SECONDS
from pmbandits.service.reading import experiment_state
from pmbandits.service.replay import policy_from_spec

ROUNDS = 600
COMPILE_TIMEOUT = 600.0  # seconds of compiling
PLAY_SECONDS = 1.0  # that playing may take, when nothing is left to compile
TRY_SECONDS = 5.0  # of computing in which limits are set twice, and in which code for them may be compiled
_POLL_SECONDS = 0.02  # between two looks whether that process has ended
_COMMAND = (sys.executable, "-m", "pmbandits.service.warmup")
_warmed: set[str] = set()


def warm_up_new_policy(policy: Policy) -> None:
    """Play and read a new policy of the same kind once, so that all that requests need is compiled and in memory."""
    kind = json.dumps(
        [policy.name, repr(policy.metric), repr(policy.support), policy.options, policy.n_arms], default=repr
    )
    if kind in _warmed:
        return
    assert policy.metric is not None and policy.support is not None
    fresh: Any = policy.bind(policy.metric, policy.n_arms, policy.support, names=policy.names)
    rewards, (arms, people) = _possible_example_rewards(fresh), _arms_and_segments(fresh)
    with suppress(ValueError, RuntimeError):
        who = {"segment": people[0]} if people else {}
        fresh.asked([int(arm) for arm in fresh.ask(2, **who)], **who)
        fresh.tell(arms, rewards[np.arange(len(arms)) % rewards.size], **({"segment": people} if people else {}))
        began = time.monotonic()
        for k in range(ROUNDS):
            who = {"segment": people[k % len(people)]} if people else {}
            fresh.tell(fresh.ask(**who), float(rewards[k % rewards.size]), **who)
            if time.monotonic() - began > PLAY_SECONDS:
                break
        events = {"segments": [people[0]] * 2} if people else {}
        fresh.replay([arms[0]] * 2, [np.nan, float(rewards[0])], check=True, **events)
        experiment_state(fresh)
        ChangeDetector().extend(np.linspace(0.0, 1.0, 100))
    _warmed.add(kind)


def warm_up_copy_of_policy(policy: Policy) -> None:
    """Ask and tell once on a copy of a policy as it is now, with its limits and arms, so that its code is in memory."""
    trial: Any = copy.copy(policy)
    who = {"segment": policy.segments[0]} if policy.segments else {}
    with suppress(ValueError, RuntimeError):
        arm, reward = trial.ask(**who), float(_possible_example_rewards(trial)[0])
        trial.tell(arm, reward, **who)
        trial.tell([arm, arm], [reward, reward], **who)
        trial.ask(among=[arm], **who)
        trial.asked(arm, **who)


def _arms_and_segments(policy: Policy) -> tuple[list[int], list[str]]:
    """All arms, and with segments all pairs: the arm of each, and its segment."""
    known = policy._segments
    if known is None:
        return list(range(policy.n_arms)), []
    return known.arm_list, [known.names[s] for s in known.segment_of]


def _possible_example_rewards(policy: Policy) -> np.ndarray:
    """Rewards that may occur, in no order."""
    support = policy.support
    assert support is not None
    atoms = getattr(support, "atoms", None)
    points = np.random.default_rng(0).random(101)
    if atoms is not None:
        return np.asarray(atoms)[(points * len(atoms)).astype(int)]
    low = support.lo if np.isfinite(support.lo) else -0.5 * support.typical
    high = support.hi if np.isfinite(support.hi) else low + support.typical
    return np.asarray(low + (high - low) * points)


def exit_if_limits_are_slow(spec: dict[str, Any]) -> None:
    """End this process if the limits of a specification take too long to set; no other thread could stop that."""
    arms, limits = [quote_name(arm) for arm in spec["arms"]], spec["shares"]
    policy: Any = policy_from_spec({**spec, "shares": None})
    policy.limit(f"{' + '.join(arms[:2])} <= 1")  # most of what must be compiled
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, TRY_SECONDS)  # by whose signal a process ends
    policy.limit(limits)
    began = time.thread_time()
    policy.limit(limits)
    if time.thread_time() - began > MAX_LIMITS_SECONDS:
        os.kill(os.getpid(), signal.SIGPROF)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0.0)


async def warm_in_subprocess(spec: dict[str, Any], seconds: float = COMPILE_TIMEOUT) -> int | None:
    """Compile in another process, into the cache on disk: compiling here would keep all requests waiting.

    Returns how that process ended: ``-SIGPROF`` if limits take too long to set, and None if it took more than some
    seconds. Then it is killed, and also if whoever wanted it goes away.

    It is started by ``subprocess``, not by the event loop, which forks: to fork, a system copies the table of the whole
    memory, and while a disk is stuck under a page of it that a thread writes to (SQLite's -shm file), all threads wait.
    """
    no_longer_wanted = threading.Event()
    try:
        return await asyncio.to_thread(_warm_in_subprocess, spec, seconds, no_longer_wanted)
    finally:
        no_longer_wanted.set()


def _warm_in_subprocess(spec: dict[str, Any], seconds: float, no_longer_wanted: threading.Event) -> int | None:
    until, no = time.monotonic() + seconds, subprocess.DEVNULL
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=no, stderr=no) as process:
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(spec).encode() + b"\n")
            process.stdin.flush()
        while process.poll() is None:
            if time.monotonic() > until or no_longer_wanted.wait(_POLL_SECONDS):
                process.kill()
                return None
        return process.returncode


def end_with_parent() -> None:
    """End this process when the one that started it is gone, which closes its side of the standard input."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    wanted = json.loads(sys.stdin.readline())
    end_with_parent()
    if wanted.get("shares") is not None:
        exit_if_limits_are_slow(wanted)
    warm_up_new_policy(policy_from_spec(wanted))
