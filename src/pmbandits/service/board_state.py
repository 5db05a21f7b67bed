"""An experiment as the board shows it: worked out once for all who look, in parts, each as often as it is cheap."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from pmbandits.engine.explanation import MAX_SHOWN_SEGMENTS, next_arm_and_reason
from pmbandits.engine.stopping import Forecast
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.palette import arm_colour
from pmbandits.service import history, reading
from pmbandits.service.alarms import MOST_ARMS
from pmbandits.service.change_log import AdminActions, ChangeAlarm
from pmbandits.service.columns import columns_of_policy
from pmbandits.service.decision_log import DecisionLog, utc_text
from pmbandits.service.experiment import CommittedExperiment, LiveExperiment, Refused
from pmbandits.service.service import Service

log = logging.getLogger("pmbandits.service")
EVERY = 1.0  # seconds between two looks at what moved
REST = 100  # a part is worked out anew after so many times as long as it took: it takes 1 % of a processor at most
PATIENCE = 0.25  # seconds for which an answer waits for parts that take long
RETRY_SECONDS = 60.0  # seconds after which a part that could not be made is tried again
GOAL = "5%"  # the regret of the forecast
_LEAD_MARGIN = 0.1  # of which share an arm must be ahead to be called the one that is wanted most
_DAY = 86_400_000  # milliseconds


@dataclass
class Part:
    """Some of what the page shows, as JSON without its outer braces, and of which moment it is."""

    text: bytes = b""
    version: int = 0
    seen: int = -1
    setup: Any = None
    next_run_at: float = 0.0  # not made again before


class DueWork(NamedTuple):
    """Parts that are due, the experiment that they are worked out from, and how that is set up."""

    due: list[str]
    now: CommittedExperiment
    setup: Any


class BoardState:
    """One experiment, for all who look at it.

    Everything is worked out on copies of the policy, in threads beside the one that decides. It is worked out while
    somebody looks, and only what has moved. What takes long is done more rarely, so that looking costs a fixed small
    share of a processor, whatever the size of the experiment and the number of people.
    """

    def __init__(self, service: Service, name: str, pool: ThreadPoolExecutor, count_watched: Callable[[], int]) -> None:
        self.service, self.name, self.notifier, self.viewers = service, name, view.Notifier(), 0
        self._pool, self._count_watched, self._exp = pool, count_watched, 0
        self._part_functions = {
            "now": self._summary_part,
            "known": self._estimates_part,
            "sure": self._certainty_part,
            "next": self._next_arm_part,
            "decisions": self._decisions_part,
            "happened": self._events_part,
            "alone": self._single_arm_utilities_part,
            "forecast": self._forecast_part,
        }
        self._count = secrets.randbelow(1 << 40)  # so that versions of different processes are not mistaken
        self._reset_parts()
        self._work: asyncio.Task[None] | None = None
        self._run: asyncio.Task[None] | None = None

    def _reset_parts(self) -> None:
        self.parts = {part: Part() for part in self._part_functions}
        self._decision_log, self._admin_actions, self._all_watched = DecisionLog(), AdminActions(), True
        self._points: list[tuple[int, int, bytes]] = []  # event, round and row of each point of the past
        self._leaders: list[tuple[int, str]] = []  # from which round on which arm had the largest share by far
        self._pace: list[tuple[int, int]] = []  # milliseconds and rounds of points
        self._next_run_at = 0.0  # the past is not read again before
        self._chart_row: dict[str, Any] = {}
        self._present_point = b"null"

    def forget_experiment(self, exp: int) -> None:
        """Begin anew, if it is of this experiment: the store went back in time."""
        if exp == self._exp:
            self._reset_parts()

    # ---- who looks ----------------------------------------------------------------------------------------
    async def event_stream(self) -> AsyncGenerator[bytes, None]:
        """A message whenever there is something new; while somebody listens, it is looked for."""
        self.viewers += 1
        if self._run is None or self._run.done():
            self._run = asyncio.get_running_loop().create_task(self._refresh_while_watched())
        try:
            async for message in view.server_sent_events(self._current_version, self.notifier, every=5.0):
                yield message
        finally:
            self.viewers -= 1

    async def _current_version(self) -> Any:
        return {"events": max(self.parts["now"].seen, 0), "version": self._versions_of_parts()}

    async def _refresh_while_watched(self) -> None:
        while self.viewers and not self.notifier.closed:
            try:
                self._start_due_work(await self.service.read(self.name, self._find_due_parts))
            except Refused:  # the store is away, or the experiment cannot be read: what was seen last stays
                pass
            except Exception:
                log.exception("%s: the board cannot follow it", self.name)
            await asyncio.sleep(EVERY)

    async def newer_parts_as_json(self, after: int, have: str) -> bytes:
        """What the page lacks: parts that are newer than those it has, and points of the past after an event."""
        watched = self._run is not None and not self._run.done()  # then it is up to date, but for a second
        work = self._start_due_work(
            await (self.service.view_without_catching_up if watched else self.service.read)(
                self.name, self._find_due_parts
            )
        )
        if work is not None:
            await asyncio.wait({work}, timeout=PATIENCE)
            while not self.parts["now"].text and not work.done():
                await asyncio.sleep(0.01)
        if not self.parts["now"].text:
            raise Refused(503, "this experiment cannot be shown now; the log of the service says why.")
        had = have.split(".")
        had += [""] * (len(self.parts) - len(had))
        texts = [p.text for p, old in zip(self.parts.values(), had, strict=False) if p.text and str(p.version) != old]
        first = bisect_right(self._points, after, key=lambda point: point[0])
        new = self._points[first:]
        last_seq = new[-1][0] if new else after
        past = b'"history":{"x":[%s],"rows":[%s],"seq":%d,"now":%s}' % (
            b",".join(b"%d" % t for _, t, _ in new), b",".join(row for *_, row in new), last_seq, self._present_point,
        )  # fmt: skip
        return b"{%s}" % b",".join([*texts, past, b'"version":"%s"' % self._versions_of_parts().encode()])

    def _versions_of_parts(self) -> str:
        return ".".join(str(part.version) for part in self.parts.values())

    # ---- working it out -----------------------------------------------------------------------------------
    def _find_due_parts(self, live: LiveExperiment) -> DueWork | None:
        """Which parts are due, with a copy of the experiment to work them out from; None if there is nothing to do."""
        if self._work is not None and not self._work.done():
            return None
        now, seen, self._exp = time.monotonic(), live.replay.seen, live.record.id
        setup = (live.status, live.replay.policy.names, live.replay.policy.playing, str(live.replay.policy.limits))
        due = [
            name
            for name, part in self.parts.items()
            if part.setup != setup
            or (now >= part.next_run_at and (part.seen != seen or (name == "happened" and not self._all_watched)))
        ]
        if due:
            return DueWork(due, live.copy(), setup)
        if now >= self._next_run_at:
            return DueWork([], CommittedExperiment(live.record, live.status, live.replay), setup)
        return None

    def _start_due_work(self, found: DueWork | None) -> asyncio.Task[None] | None:
        """Begin with what is due, unless something has begun already."""
        if found is not None and (self._work is None or self._work.done()):
            self._work = asyncio.get_running_loop().create_task(self._compute_parts(found))
        return self._work if self._work is not None and not self._work.done() else None

    async def _compute_parts(self, found: DueWork) -> None:
        work, late, now = asyncio.get_running_loop().run_in_executor, time.monotonic(), found.now
        await work(self._pool, self._read_history, now.record.id, now.replay.policy._columns)
        self._next_run_at = late + EVERY  # the historian goes on also when nothing else moves
        for name in found.due:
            part = self.parts[name]
            text, spent = await work(self._pool, self._compute_part, name, now)
            part.seen, part.setup = now.replay.seen, found.setup
            part.next_run_at = time.monotonic() + max(0.5 * EVERY, REST * max(1.0, self._count_watched() / 4) * spent)
            if text is None:
                part.next_run_at = max(part.next_run_at, time.monotonic() + RETRY_SECONDS)
            elif text != part.text:
                self._count += 1
                part.text, part.version = text, self._count
            if time.monotonic() > late + PATIENCE:
                late = time.monotonic()
                self.notifier.wake_streams()
            if self.notifier.closed:
                return
        self.notifier.wake_streams()

    def _compute_part(self, name: str, now: CommittedExperiment) -> tuple[bytes | None, float]:
        """A part as text, and what it cost; nothing if it cannot be made: the others are shown all the same."""
        began = time.thread_time()
        try:
            text = web.json_bytes(self._part_functions[name](now))[1:-1]
        except Exception as error:
            log.warning(
                "%s: the board has no %r: %s",
                now.record.name,
                name,
                str(error)[:300],
            )
            return None, time.thread_time() - began
        return text, time.thread_time() - began

    # ---- the parts ----------------------------------------------------------------------------------------
    def _summary_part(self, now: CommittedExperiment) -> dict[str, Any]:
        policy, spec = now.replay.policy, now.record.spec
        columns, t = columns_of_policy(policy), policy.t
        arms = view.arms_with_colours([column.name for column in columns])
        for arm, one in zip(arms, columns, strict=True):
            arm |= {"plays": one.plays, "retired": one.retired, "pulls": one.pulls, "pending": one.pending,
                    "played": None if one.played is None else view.clean_share(one.played),
                    "wanted": view.clean_share(one.wanted)}  # fmt: skip
            if one.segment is not None:
                arm |= {"segment": one.segment, "arm": one.arm, "colour": arm_colour(policy.names.index(one.arm))}
        played = [round(100.0 * one.pulls / max(t, 1), 3) for one in columns]
        self._set_present_point(
            t, {"played": played, "wanted": [round(100.0 * one.wanted_of_all, 3) for one in columns]}
        )
        given = (spec.get("options") or {}).items()
        options = (f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in given)
        return {
            "kind": "experiment",
            "title": now.record.name,
            "status": now.status,
            "facts": [
                ["preference", str(spec["metric"])],
                ["policy", " ".join([str(spec["policy"]), *options])],
                *([["arms are", "drawn, with known probabilities"]] if now.replay.draws is not None else []),
                ["rounds", f"{t:,}"],
                ["rewards awaited", f"{sum(one.pending for one in columns):,}"],
                ["began", utc_text(now.record.created)],
                *(
                    [["imported", "what was before it came here is in the numbers, but not in the charts"]]
                    if "imported" in spec
                    else []
                ),
            ],
            "arms": arms,
            "segments": reading.arrivals_by_segment(policy),
            "limits": None if policy.limits is None else str(policy.limits),
            "events": now.replay.seen,
        }

    def _set_present_point(self, t: int, found: dict[str, Any]) -> None:
        """The newest point of the charts, which is not stored yet."""
        self._chart_row |= found
        self._present_point = (
            web.json_bytes({"x": t, "row": self._chart_row}) if t and "played" in self._chart_row else b"null"
        )

    def _read_history(self, exp: int, names: tuple[str, ...]) -> None:
        last_seq = self._points[-1][0] if self._points else 0
        try:
            found = history.stored_points(self.service.store, exp, last_seq)
        except SQLAlchemyError:  # the store is away; it is tried again
            return
        for point in found:
            lead = _arm_that_took_the_lead(point["wanted"], self._leaders[-1][1] if self._leaders else None)
            if lead is not None:
                self._leaders.append((point["t"], lead))
        self._pace += [(point["at"], point["t"]) for point in found]
        self._points = self._points + [(p["seq"], p["t"], web.json_bytes(_chart_row_of_point(p, names))) for p in found]

    def _estimates_part(self, now: CommittedExperiment) -> dict[str, Any]:
        policy, metric = now.replay.policy, now.replay.policy.metric
        assert metric is not None
        found, columns = policy.estimates, columns_of_policy(policy)
        known = [  # of others: ``alone``, though with segments there is none
            metric.value(a.x, a.p) if a.n and (policy.segments or not one.plays) else None
            for a, one in zip(found, columns, strict=True)
        ]
        return {
            "metric": view.metric_text_and_curve(metric),
            "curves": view.estimated_curves(
                metric, found, view.most_played_arms(np.array([float(one.pulls) for one in columns]))
            ),
            # Rewards that no pull asked for; the page adds those that pulls brought by now.
            "known": [
                {"mean": a.mean, "worth": w, "unasked": a.n - one.pulls + one.pending}
                for a, w, one in zip(found, known, columns, strict=True)
            ],
        }

    def _certainty_part(self, now: CommittedExperiment) -> dict[str, Any]:
        policy = now.replay.policy
        if policy.confidence is None:
            return {"sure": None}
        if not (policy.pulls - policy.pending).any() and not any(arm.n for arm in policy.estimates):
            return {"sure": "No reward has come yet, so nothing is known of the arms."}
        sure = policy.certainty()
        ends = {name: _finite_or_none(getattr(sure, name)) for name in ("utility", "lower", "upper", "rival")}
        self._set_present_point(policy.t, ends)
        if not np.isfinite(sure.regret):
            return {"sure": str(sure)}
        sets = f"With probability {100 * sure.probability:.4g} %" if sure.probability > 0.0 else "If its sets hold,"
        return {
            "sure": f"What it plays is worth about {_format_number(sure.utility)} a round. {sets} it is worth at least "
            f"{_format_number(sure.lower)} and at most {_format_number(sure.upper)}, and no other mixture is "
            f"better by more than "
            f"{_format_number(sure.regret)}."
        }

    def _single_arm_utilities_part(self, now: CommittedExperiment) -> dict[str, Any]:
        return {"alone": reading.single_arm_utilities(now.replay.policy)}

    def _forecast_part(self, now: CommittedExperiment) -> dict[str, Any]:
        policy = now.replay.policy
        if policy.confidence is None or policy.t == 0 or policy.n_arms > reading.MAX_ARMS_FORECAST:
            return {"forecast": None}
        try:
            ahead = policy.forecast(GOAL)
        except (ValueError, TypeError, ArithmeticError):  # not for this policy, or nothing is worth anything yet
            return {"forecast": None}
        return {"forecast": _forecast_sentence(ahead, self._recent_rounds_a_day(policy.t))}

    def _recent_rounds_a_day(self, t: int) -> float | None:
        """How quickly rounds came lately: since a point about a day ago, or the first."""
        at = time.time_ns() // 1_000_000
        since = [pair for pair in self._pace if pair[0] >= at - _DAY] or self._pace[-1:]
        if not since or at - since[0][0] < _DAY / 1440 or t <= since[0][1]:
            return None
        return (t - since[0][1]) * _DAY / (at - since[0][0])

    def _next_arm_part(self, now: CommittedExperiment) -> dict[str, Any]:
        policy, draws = now.replay.policy, now.replay.draws
        if now.status != "running":
            return {"next": None}
        if draws is not None:
            return {"next": draws.explain(policy.names)}
        said = [
            "Next for somebody of {} is {}. {}".format(name, *next_arm_and_reason(policy, name))
            for name in policy.segments[:MAX_SHOWN_SEGMENTS]
        ]
        return {"next": " ".join(said) or "Next is {}. {}".format(*next_arm_and_reason(policy))}

    def _decisions_part(self, now: CommittedExperiment) -> dict[str, Any]:
        self._decision_log.catch_up_to(self.service.store, now.record, now.replay)
        return {"decisions": self._decision_log.found[::-1]}

    def _events_part(self, now: CommittedExperiment) -> dict[str, Any]:
        """Acts of administration, changes of what is wanted and of arms, by the round in which they were; warnings."""
        policy, store, exp = now.replay.policy, self.service.store, now.record.id
        own, seen = policy.options.get("detect") is not None, now.replay.seen
        found, self._all_watched = [ChangeAlarm(change, None, None) for change in policy.changes], True
        if not own and policy.n_arms <= MOST_ARMS:
            names = now.replay.column_names
            watch, self._all_watched = self.service.alarms.catch_up_to(exp, names, now.replay.seen)
            found, seen = watch.found, watch.seen
        self._admin_actions.catch_up_to(
            store, exp, min(now.replay.seen, store.last_seq(exp))
        )  # not beyond what is on disk
        seqs = [0, *(seq for seq, *_ in self._points if seq < now.replay.seen), now.replay.seen]
        rounds = [0, *(t for seq, t, _ in self._points if seq < now.replay.seen), policy.t]
        before = policy.t - self._admin_actions.pulls  # rounds before an experiment was imported

        def about(alarm: ChangeAlarm) -> int:
            """The round in which a change was found, about."""
            at = alarm.change.round if alarm.event is None else round(float(np.interp(alarm.event, seqs, rounds)))
            return max(1, at)

        marks = [
            {"x": max(before + pulls, 1), "text": f"{when}, after round {before + pulls:,}: {what}"}
            for pulls, when, what in self._admin_actions.found
        ]
        marks += [
            {"x": t, "text": f"About round {t:,}: most is now wanted of {lead}; before it was {old}"}
            for (_, old), (t, lead) in zip(self._leaders, self._leaders[1:], strict=False)
        ]
        playing = {one.name for one in columns_of_policy(policy) if one.plays}
        marks += [{"x": about(alarm), "text": f"About round {about(alarm):,}: {alarm}"} for alarm in found]
        checked = None if self._all_watched else f"{100.0 * seen / max(now.replay.seen, 1):.0f} %"
        return {
            "marks": sorted(marks, key=lambda mark: mark["x"]),
            "warnings": [{"arm": a.change.arm, "text": str(a)} for a in found[-6:] if a.change.arm in playing],
            "restarts": (now.record.spec.get("options") or {}).get("detect") == "restart",
            "checked": checked,
            "ratio": self.service.sample_ratios.sample_ratio_of(now),
        }


def _arm_that_took_the_lead(wanted: dict[str, float], before: str | None) -> str | None:
    """The arm of which most is wanted, if it is another one than before and well ahead of it."""
    if not wanted:
        return None
    name = max(wanted, key=lambda arm: wanted[arm])
    return name if name != before and wanted[name] >= wanted.get(before or "", 0.0) + _LEAD_MARGIN else None


def _format_number(value: float) -> str:
    """A number with three digits, without an exponent where people would write none."""
    return f"{float(f'{value:.3g}'):,.10g}" if 1e-4 <= abs(value) < 1e7 else f"{value:.3g}"


def _forecast_sentence(found: Forecast, a_day: float | None) -> str:
    """A forecast for people who watch."""
    what = f"that what it plays is within {GOAL.replace('%', ' %')} of the best"
    if found.rounds == 0:
        return f"It is certain now {what}: the experiment can stop."
    if np.isnan(found.rounds):
        return f"When it will be certain {what} cannot be said yet: some arm has no reward."
    if not np.isfinite(found.rounds):
        return f"As things look now, it will never be quite certain {what}. It goes on to learn all the same."
    if found.high > 3.0 * found.low:
        high = f"{_format_number(float(f'{found.high:.2g}'))}" if np.isfinite(found.high) else "very many"
        about = f"between {_format_number(float(f'{found.low:.2g}'))} and {high}"
    else:
        about = f"about {_format_number(float(f'{found.rounds:.2g}'))}"
    days = f" That is {_format_days(found.rounds / a_day)} at the pace of the last day." if a_day else ""
    return f"After {about} more rounds it may be certain {what}.{days}"


def _format_days(days: float) -> str:
    for name, size in (("year", 365.0), ("month", 30.0), ("day", 1.0)):
        if days >= 2.0 * size:
            return f"about {days / size:,.0f} {name}s"
    return f"about {max(round(24.0 * days), 1)} hour{'s' if round(24.0 * days) > 1 else ''}"


def _chart_row_of_point(point: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    t = max(point["t"], 1)
    row: dict[str, Any] = {
        "played": [round(100.0 * point["pulls"].get(name, 0) / t, 3) for name in names],
        "wanted": [round(100.0 * point["wanted"].get(name, 0.0), 3) for name in names],
    }
    return row | {key: point.get(key) for key in ("utility", "lower", "upper", "rival")}


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
