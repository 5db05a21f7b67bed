"""Forgetting: which rewards are kept, what becomes of the others, and for which sets there is a guarantee then.

Rewards are forgotten where memory would grow: when the next one does not fit, about one in a hundred goes. So
counts stay whole numbers, memory is bounded, and no kernel that decides knows anything of it.

- *Window*: the oldest go.
- *Discount*: any go, each with the same probability. So a reward is still kept after m others with probability γ^m.
- *Restart*: all rewards of an arm go in which a change was found (``estimates/change_detector.py``).

**Sets in a window.** Say rewards were forgotten f times so far, c at a time. What is kept of an arm then are its
rewards among all that came after the first f·c. When that moment comes it is known to be one of these, and the rewards
after it are new. So an anytime set that begins there, with the share δ/((f + 1)(f + 2)) of the failure δ, holds for all
of them, however many. The shares of all f = 0, 1, 2, … add up to δ: with probability 1 − δ the sets of all windows
hold, at all times, for every arm that has not changed since the oldest of its rewards that is kept.

**After a restart** the same holds: f counts the restarts of all arms, and a restart is known when it comes.

**A window with restarts** begins after some reward, but which one is only known later. So each reward has a share of
its own, 1/((n + 1)(n + 2)) for the n-th. The shares fall, so that of the last reward so far is small enough for all.

**When two windows are merged,** each pair of a reward here and one there has the product of their shares, and from then
on each further reward has a share of that. What is said of the sets then holds from the merge on. Restarts are counted
in the same way, by their numbers.

With a discount no such set is known to us: which rewards are kept is drawn again and again. There are none then.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.confidence import ConfidenceSet
from pmbandits.engine.options import parse_detect, parse_estimates
from pmbandits.estimates import Change
from pmbandits.estimates import _change_detector as changing
from pmbandits.estimates._forgetting import forget_arm, forget_oldest, forget_random
from pmbandits.estimates._rewards import CHANGES, SAMPLES, SPENT, TIMES
from pmbandits.state.layout import FIRST_ARRAY
from pmbandits.state.memory import Memory
from pmbandits.supports import Binary, Finite, Support

MAX_RECORDED_CHANGES = 64  # changes that are remembered


class Forgetting(NamedTuple):
    """What a policy forgets, and whether it watches its arms."""

    kind: str  # "window" or "discount", or "" if rewards are forgotten only where an arm has changed, or never
    keep: int  # rewards that are left when some were forgotten
    most: int  # rewards that there can be
    on_change: str  # "warn" or "restart", or ""
    level: float  # the probability of a false alarm, for all arms together
    known: FloatArray  # thresholds for watching that are known beforehand
    after: Callable[[Memory], None]  # the policy's own part of forgetting

    @property
    def forgets_rewards(self) -> bool:
        """Whether rewards are ever forgotten."""
        return self.kind != "" or self.on_change == "restart"


def parse_forgetting(
    options: Mapping[str, Any],
    n_arms: int,
    support: Support,
    *,
    name: str,
    can_forget: bool,
    after: Callable[[Memory], None],
) -> Forgetting | None:
    """What the options of a policy say of forgetting and watching; ``None`` if nothing.

    ``name`` is what errors call the policy, ``can_forget`` says whether it can go on when rewards are forgotten, and
    ``after`` is its own part of forgetting.
    """
    given, detect = options.get("estimates", "exact"), options.get("detect")
    way, size = parse_estimates(given)
    kind, keep, most = way if way in ("window", "discount") else "", 0, 0
    if kind == "" and detect is None:
        return None
    on_change, level = ("", 0.0) if detect is None else parse_detect(detect)
    what = f"estimates={given!r}" if kind else f"detect={detect!r}"
    if (kind or on_change == "restart") and not can_forget:
        raise ValueError(
            f"{name} decides by all that it has seen, so it cannot forget, and {what} is not for it; take Vet or Track."
        )
    if (kind or on_change == "restart") and options.get("certify", 0.0) > 0.0:
        raise ValueError(
            f"certify={options['certify']:g} makes confidence sets narrower with all rewards, but with {what} "
            "rewards are forgotten; leave one of the two out."
        )
    if kind == "window":
        keep = int(size)
        most = keep + max(keep // 100, min(10, keep // 10), 1)
    elif kind == "discount":
        about = 1.0 / (1.0 - size)
        chunk = max(int(about) // 100, min(10, int(about) // 10), 1)
        stays = size**chunk
        keep = round(chunk * stays / (1.0 - stays))
        most = keep + chunk
    if kind and keep < 2 * n_arms:
        raise ValueError(
            f"{what} keeps {keep} rewards of {n_arms} arms together, which is too few to know anything of each; "
            f"keep {2 * n_arms} at least."
        )
    known = np.zeros(0)
    if isinstance(support, (Binary, Finite)) and support.atoms.size - 1 <= changing.MAX_THRESHOLDS:
        known = support.atoms[:-1]
    return Forgetting(kind, keep, most, on_change, level, known, after)


def start_detector(memory: Memory, forgetting: Forgetting, arm: int) -> None:
    """Watch an arm from now on."""
    known = np.zeros(changing.N_FIRST)
    known[: forgetting.known.size] = forgetting.known
    parts = memory.detector_header[arm], memory.detector_thresholds[arm], memory.detector_counts[arm]
    changing.init_change_detector(*parts, known, forgetting.known.size)


def arms_with_unhandled_change(memory: Memory) -> NDArray[np.int64]:
    """The arms in which a change was found that nobody has dealt with."""
    return np.flatnonzero(memory.detector_header[:, changing.ALARM])


def restart_detectors_of_changed_arms(memory: Memory, forgetting: Forgetting) -> None:
    """Restart the detectors of changed arms, and forget the rewards of these arms with ``detect="restart"``."""
    for arm in arms_with_unhandled_change(memory).tolist():
        start_detector(memory, forgetting, arm)
        if forgetting.on_change == "restart":
            dropped = int(memory.n_rewards[arm])
            forget_arm(memory.address, memory.words, _word_ranges_of_cleared_fields(memory), arm)
            forgetting.after(memory)
            if _counts_forgotten_rewards(memory, forgetting):
                memory.forgetting_counters[TIMES] += dropped - 1.0


def forget_excess_rewards(memory: Memory, forgetting: Forgetting) -> None:
    """Forget as many rewards as are too many."""
    steps, dropped = {"window": forget_oldest, "discount": forget_random}, memory.rewards - forgetting.keep
    steps[forgetting.kind](memory.address, memory.words, _word_ranges_of_cleared_fields(memory), dropped)
    forgetting.after(memory)
    if _counts_forgotten_rewards(memory, forgetting):
        memory.forgetting_counters[TIMES] += dropped - 1.0


def interleave_windows_in_place(ours: Memory, theirs: Memory) -> None:
    """Interleave the rewards of two windows, as if both had filled at the same pace; both fit into ``ours``.

    The pool is made anew from it: rewards of one size lie in the order in which they came.
    """
    mine, more = ours.rewards, theirs.rewards
    pace = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in (mine, more)])
    order = np.argsort(pace, kind="stable")
    for name in ("window_rewards", "window_arms"):
        both = np.concatenate([getattr(ours, name)[:mine], getattr(theirs, name)[:more]])
        getattr(ours, name)[: mine + more] = both[order]
    if ours.storage_mode == SAMPLES:
        ours.x[: mine + more], ours.pool_arm[: mine + more] = (
            part[: mine + more] for part in (ours.window_rewards, ours.window_arms)
        )
        ours.n_sorted = 0


def set_merged_delta_share(ours: Memory, theirs: Memory, forgetting: Forgetting) -> None:
    """Set the share of δ that is left for the sets of two merged policies: the product of their shares."""
    if not theirs.n_forgetting_counters:
        return
    spent = 0.0
    for memory in (ours, theirs):
        n = float(memory.forgetting_counters[TIMES])
        if forgetting.kind == "window":  # no fewer than all rewards so far
            n = n * (forgetting.most - forgetting.keep) + memory.rewards
        spent += float(memory.forgetting_counters[SPENT]) + math.log((n + 1.0) * (n + 2.0))
    ours.forgetting_counters[TIMES], ours.forgetting_counters[SPENT] = 0.0, spent


def _counts_forgotten_rewards(memory: Memory, forgetting: Forgetting) -> bool:
    """Whether each reward has a share of δ, and ``TIMES`` counts the rewards that were forgotten."""
    return forgetting.kind == "window" and bool(
        forgetting.on_change == "restart" or memory.forgetting_counters[SPENT] > 0.0
    )


def _word_ranges_of_cleared_fields(memory: Memory) -> NDArray[np.int64]:
    """The words of all fields that are cleared when rewards are forgotten."""
    out = [memory.word_range(field.name) for field in memory.fields if "cleared" in field.lifecycle]
    assert all(end <= FIRST_ARRAY or at >= FIRST_ARRAY for at, end in out)
    return np.array(out, dtype=np.int64)


def current_delta_share(memory: Memory, forgetting: Forgetting) -> float:
    """The share of δ for the sets of this moment; while nothing was forgotten, a half."""
    n = float(memory.forgetting_counters[TIMES])
    if n > 0.0 and _counts_forgotten_rewards(memory, forgetting):
        n += memory.rewards
    return math.exp(-float(memory.forgetting_counters[SPENT])) / ((n + 1.0) * (n + 2.0))


def confidence_set_after_forgetting(
    whole: ConfidenceSet | None, forgetting: Forgetting, now: Callable[[], ConfidenceSet]
) -> ConfidenceSet | None:
    """The sets of this moment, which ``now`` makes; ``whole`` are those that nothing would be forgotten with."""
    if whole is None or not forgetting.forgets_rewards:
        return whole
    since = "the oldest of its rewards that is kept" if forgetting.kind else "it was last restarted"
    if math.isnan(whole.failure):
        return replace(now(), meaning=f"nothing is guaranteed: {whole.meaning}, if nothing were forgotten")
    return replace(
        now(),
        failure=whole.failure,
        meaning=f"at all times, each arm's distribution is inside if it stood still since {since}, with probability "
        f"{1.0 - whole.failure:.6g} at least",
    )


# ---- what was found -------------------------------------------------------------------------------------------


class ChangeWarning(UserWarning):
    """The warning that an arm of a policy has changed, with ``detect="warn"``."""


def recorded_changes(memory: Memory, names: tuple[str, ...], after: int = 0) -> tuple[Change, ...]:
    """The changes that a memory has noted, without the first ``after`` of all."""
    if memory.n_found_changes == 0:
        return ()
    total = n_changes_ever_found(memory)
    rows = (
        memory.found_changes[j % memory.n_found_changes]
        for j in range(max(after, total - memory.n_found_changes), total)
    )
    return tuple(Change.from_numbers(row, names[int(row[0])]) for row in rows)


def n_changes_ever_found(memory: Memory) -> int:
    """How many changes were ever found."""
    return int(memory.forgetting_counters[CHANGES]) if memory.n_found_changes else 0


def warn_of_changes(new_changes: tuple[Change, ...]) -> None:
    """Warn of changes."""
    for change in new_changes:
        warnings.warn(
            f"{change} The policy goes on with all rewards; with detect='restart' it would forget those of this arm.",
            ChangeWarning,
            stacklevel=4,
        )
