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
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from pmbandits import _check
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.policies.shown import why
from pmbandits.policies.stopping import Forecast
from pmbandits.service import history, reading
from pmbandits.service.alarms import MOST_ARMS
from pmbandits.service.fold import Fold
from pmbandits.service.live import Live, Refused
from pmbandits.service.service import Service
from pmbandits.service.trail import Trail, clock
from pmbandits.service.watch import Acts, Alarm

log = logging.getLogger("pmbandits.service")
EVERY = 1.0  # seconds between two looks at what moved
REST = 100  # a part is worked out anew after so many times as long as it took: it takes 1 % of a processor at most
PATIENCE = 0.25  # seconds for which an answer waits for parts that take long
QUIET = 60.0  # seconds after which a part that could not be made is tried again
GOAL = "5%"  # the regret of the forecast
_AHEAD = 0.1  # of which share an arm must be ahead to be called the one that is wanted most
_DAY = 86_400_000  # milliseconds


@dataclass
class Part:
    """Some of what the page shows, as JSON without its outer braces, and of which moment it is."""

    text: bytes = b""
    version: int = 0
    seen: int = -1
    shape: Any = None
    ripe: float = 0.0  # not made again before


class Showing:
    """One experiment, for all who look at it.

    Everything is worked out on copies of the policy, in threads beside the one that decides. It is worked out while
    somebody looks, and only what has moved. What takes long is done more rarely, so that looking costs a fixed small
    share of a processor, whatever the size of the experiment and the number of people.
    """

    def __init__(self, service: Service, name: str, pool: ThreadPoolExecutor, crowd: Callable[[], int]) -> None:
        self.service, self.name, self.bell, self.viewers = service, name, view.Bell(), 0
        self._pool, self._crowd = pool, crowd
        self._make = {
            "now": self._now,
            "known": self._known,
            "sure": self._sure,
            "next": self._next,
            "decisions": self._decisions,
            "happened": self._happened,
            "alone": self._alone,
            "forecast": self._forecast,
        }
        self.parts = {part: Part() for part in self._make}
        self._count = secrets.randbelow(1 << 40)  # so that versions of different processes are not mistaken
        self._trail, self._acts, self._watched = Trail(), Acts(), True
        self._points: list[tuple[int, int, bytes]] = []  # event, round and row of each point of the past
        self._leads: list[tuple[int, str]] = []  # from which round on which arm had the largest share by far
        self._pace: list[tuple[int, int]] = []  # milliseconds and rounds of points
        self._ripe = 0.0  # the past is not read again before
        self._row: dict[str, Any] = {}
        self._present = b"null"
        self._work: asyncio.Task[None] | None = None
        self._run: asyncio.Task[None] | None = None

    # ---- who looks ----------------------------------------------------------------------------------------
    async def stream(self) -> AsyncGenerator[bytes, None]:
        """A message whenever there is something new; while somebody listens, it is looked for."""
        self.viewers += 1
        if self._run is None or self._run.done():
            self._run = asyncio.get_running_loop().create_task(self._watch_it())
        try:
            async for message in view.stream(self._moved, self.bell, every=5.0):
                yield message
        finally:
            self.viewers -= 1

    async def _moved(self) -> Any:
        return {"events": max(self.parts["now"].seen, 0), "version": self._versions()}

    async def _watch_it(self) -> None:
        while self.viewers and not self.bell.closed:
            try:
                self._begin(await self.service.newest(self.name))
            except Refused:  # the store is away, or the experiment cannot be read: what was seen last stays
                pass
            except Exception:
                log.exception("%s: the board cannot follow it", self.name)
            await asyncio.sleep(EVERY)

    async def view(self, after: int, have: str) -> bytes:
        """What the page lacks: parts that are newer than those it has, and points of the past after an event."""
        watched = self._run is not None and not self._run.done()  # then it is up to date, but for a second
        work = self._begin(await (self.service.live if watched else self.service.newest)(self.name))
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
        last = new[-1][0] if new else after
        past = b'"history":{"x":[%s],"rows":[%s],"seq":%d,"now":%s}' % (
            b",".join(b"%d" % t for _, t, _ in new), b",".join(row for *_, row in new), last, self._present,
        )  # fmt: skip
        return b"{%s}" % b",".join([*texts, past, b'"version":"%s"' % self._versions().encode()])

    def _versions(self) -> str:
        return ".".join(str(part.version) for part in self.parts.values())

    # ---- working it out -----------------------------------------------------------------------------------
    def _begin(self, live: Live) -> asyncio.Task[None] | None:
        """Begin with what is due, unless it has begun already."""
        if self._work is not None and not self._work.done():
            return self._work
        now, seen = time.monotonic(), live.fold.seen
        shape = (live.status, live.fold.policy.names, live.fold.policy.playing, str(live.fold.policy.limits))
        due = [
            name
            for name, part in self.parts.items()
            if part.shape != shape
            or (now >= part.ripe and (part.seen != seen or (name == "happened" and not self._watched)))
        ]
        if not due and now < self._ripe:
            return None
        fold = Fold(live.fold.twin(), seen) if due else live.fold
        self._work = asyncio.get_running_loop().create_task(self._do(due, live, fold, shape))
        return self._work

    async def _do(self, due: list[str], live: Live, fold: Fold, shape: Any) -> None:
        work, late = asyncio.get_running_loop().run_in_executor, time.monotonic()
        await work(self._pool, self._read_past, live.record.id, fold.policy.names)
        self._ripe = late + EVERY  # the historian goes on also when nothing else moves
        for name in due:
            part = self.parts[name]
            text, spent = await work(self._pool, self._made, name, live, fold)
            part.seen, part.shape = fold.seen, shape
            part.ripe = time.monotonic() + max(0.5 * EVERY, REST * max(1.0, self._crowd() / 4) * spent)
            if text is None:
                part.ripe = max(part.ripe, time.monotonic() + QUIET)
            elif text != part.text:
                self._count += 1
                part.text, part.version = text, self._count
            if time.monotonic() > late + PATIENCE:
                late = time.monotonic()
                self.bell.ring()
            if self.bell.closed:
                return
        self.bell.ring()

    def _made(self, name: str, live: Live, fold: Fold) -> tuple[bytes | None, float]:
        """A part as text, and what it cost; nothing if it cannot be made: the others are shown all the same."""
        began = time.thread_time()
        try:
            text = web.encoded(self._make[name](live, fold))[1:-1]
        except Exception as error:
            log.warning("%s: the board has no %r: %s", live.record.name, name, _check.readable(str(error))[:300])
            return None, time.thread_time() - began
        return text, time.thread_time() - began

    # ---- the parts ----------------------------------------------------------------------------------------
    def _now(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy, spec = fold.policy, live.record.spec
        mixture, pulls, pending, t = policy.mixture, policy.pulls, policy.pending, policy.t
        playing, retired = set(policy.playing), set(getattr(policy, "retired", ()))
        arms = view.coloured(policy.names)
        for arm, share, n, waits in zip(arms, mixture, pulls.tolist(), pending.tolist(), strict=True):
            arm |= {"plays": arm["name"] in playing, "retired": arm["name"] in retired, "pulls": n, "pending": waits,
                    "played": view.share(n / t) if t else None, "wanted": view.share(share)}  # fmt: skip
        played = [round(100.0 * n / max(t, 1), 3) for n in pulls.tolist()]
        self._note(t, {"played": played, "wanted": [round(100.0 * share, 3) for share in mixture.tolist()]})
        given = (spec.get("options") or {}).items()
        options = (f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in given)
        return {
            "kind": "experiment",
            "title": live.record.name,
            "status": live.status,
            "facts": [
                ["preference", str(spec["metric"])],
                ["policy", " ".join([str(spec["policy"]), *options])],
                ["rounds", f"{t:,}"],
                ["rewards awaited", f"{int(pending.sum()):,}"],
                ["began", clock(live.record.created)],
                *(
                    [["imported", "what was before it came here is in the numbers, but not in the charts"]]
                    if "imported" in spec
                    else []
                ),
            ],
            "arms": arms,
            "limits": None if policy.limits is None else str(policy.limits),
            "events": fold.seen,
        }

    def _note(self, t: int, found: dict[str, Any]) -> None:
        """The newest point of the charts, which is not stored yet."""
        self._row |= found
        self._present = web.encoded({"x": t, "row": self._row}) if t and "played" in self._row else b"null"

    def _read_past(self, exp: int, names: tuple[str, ...]) -> None:
        last = self._points[-1][0] if self._points else 0
        try:
            found = history.written(self.service.store, exp, last)
        except SQLAlchemyError:  # the store is away; it is tried again
            return
        for point in found:
            lead = _lead(point["wanted"], self._leads[-1][1] if self._leads else None)
            if lead is not None:
                self._leads.append((point["t"], lead))
        self._pace += [(point["at"], point["t"]) for point in found]
        self._points = self._points + [(p["seq"], p["t"], web.encoded(_row(p, names))) for p in found]

    def _known(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy, metric = fold.policy, fold.policy.metric
        assert metric is not None
        found, playing = policy.estimates, set(policy.playing)
        alone = [metric.value(a.x, a.p) if a.n and a.name not in playing else None for a in found]  # others: ``alone``
        return {
            "metric": view.preference(metric),
            "curves": view.estimated(metric, found, view.most_played(np.asarray(policy.pulls, dtype=float))),
            # Rewards that no pull asked for; the page adds those that pulls brought by now.
            "known": [
                {"mean": a.mean, "worth": w, "unasked": a.n - n}
                for a, w, n in zip(found, alone, (policy.pulls - policy.pending).tolist(), strict=True)
            ],
        }

    def _sure(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy = fold.policy
        if policy.confidence is None:
            return {"sure": None}
        if not (policy.pulls - policy.pending).any() and not any(arm.n for arm in policy.estimates):
            return {"sure": "No reward has come yet, so nothing is known of the arms."}
        sure = policy.certainty()
        ends = {name: _finite(getattr(sure, name)) for name in ("utility", "lower", "upper", "rival")}
        self._note(policy.t, ends)
        if not np.isfinite(sure.regret):
            return {"sure": str(sure)}
        sets = f"With probability {100 * sure.probability:.4g} %" if sure.probability > 0.0 else "If its sets hold,"
        return {
            "sure": f"What it plays is worth about {_plain(sure.utility)} a round. {sets} it is worth at least "
            f"{_plain(sure.lower)} and at most {_plain(sure.upper)}, and no other mixture is better by more than "
            f"{_plain(sure.regret)}."
        }

    def _alone(self, live: Live, fold: Fold) -> dict[str, Any]:
        return {"alone": reading.alone(fold.policy)}

    def _forecast(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy = fold.policy
        if policy.confidence is None or policy.t == 0:
            return {"forecast": None}
        try:
            ahead = policy.forecast(GOAL)
        except (ValueError, TypeError, ArithmeticError):  # not for this policy, or nothing is worth anything yet
            return {"forecast": None}
        return {"forecast": _ahead(ahead, self._rounds_a_day(policy.t))}

    def _rounds_a_day(self, t: int) -> float | None:
        """How quickly rounds came lately: since a point about a day ago, or the first."""
        now = time.time_ns() // 1_000_000
        since = [pair for pair in self._pace if pair[0] >= now - _DAY] or self._pace[-1:]
        if not since or now - since[0][0] < _DAY / 1440 or t <= since[0][1]:
            return None
        return (t - since[0][1]) * _DAY / (now - since[0][0])

    def _next(self, live: Live, fold: Fold) -> dict[str, Any]:
        return {"next": "Next is {}. {}".format(*why(fold.policy)) if live.status == "running" else None}

    def _decisions(self, live: Live, fold: Fold) -> dict[str, Any]:
        self._trail.follow(self.service.store, live.record, fold)
        return {"decisions": self._trail.found[::-1]}

    def _happened(self, live: Live, fold: Fold) -> dict[str, Any]:
        """Acts of administration, changes of what is wanted and of arms, by the round in which they were; warnings."""
        policy, store, exp = fold.policy, self.service.store, live.record.id
        own, seen = policy.options.get("detect") is not None, fold.seen
        found, self._watched = [Alarm(change, None, None) for change in policy.changes], True
        if not own and policy.n_arms <= MOST_ARMS:
            watch, self._watched = self.service.alarms.follow(exp, policy.names, fold.seen)
            found, seen = watch.found, watch.seen
        self._acts.follow(store, exp, min(fold.seen, store.last(exp)))  # not beyond what is on disk
        seqs = [0, *(seq for seq, *_ in self._points if seq < fold.seen), fold.seen]
        rounds = [0, *(t for seq, t, _ in self._points if seq < fold.seen), policy.t]
        before = policy.t - self._acts.pulls  # rounds before an experiment was imported

        def about(alarm: Alarm) -> int:
            """The round in which a change was found, about."""
            at = alarm.change.round if alarm.event is None else round(float(np.interp(alarm.event, seqs, rounds)))
            return max(1, at)

        marks = [
            {"x": max(before + pulls, 1), "text": f"{when}, after round {before + pulls:,}: {what}"}
            for pulls, when, what in self._acts.found
        ]
        marks += [
            {"x": t, "text": f"About round {t:,}: most is now wanted of {lead}; before it was {old}"}
            for (_, old), (t, lead) in zip(self._leads, self._leads[1:], strict=False)
        ]
        playing = set(policy.playing)
        marks += [{"x": about(alarm), "text": f"About round {about(alarm):,}: {alarm}"} for alarm in found]
        checked = None if self._watched else f"{100.0 * seen / max(fold.seen, 1):.0f} %"
        return {
            "marks": sorted(marks, key=lambda mark: mark["x"]),
            "warnings": [{"arm": a.change.arm, "text": str(a)} for a in found[-6:] if a.change.arm in playing],
            "restarts": (live.record.spec.get("options") or {}).get("detect") == "restart",
            "checked": checked,
        }


def _lead(wanted: dict[str, float], before: str | None) -> str | None:
    """The arm of which most is wanted, if it is another one than before and well ahead of it."""
    if not wanted:
        return None
    name = max(wanted, key=lambda arm: wanted[arm])
    return name if name != before and wanted[name] >= wanted.get(before or "", 0.0) + _AHEAD else None


def _plain(value: float) -> str:
    """A number with three digits, without an exponent where people would write none."""
    return f"{float(f'{value:.3g}'):,.10g}" if 1e-4 <= abs(value) < 1e7 else f"{value:.3g}"


def _ahead(found: Forecast, a_day: float | None) -> str:
    """A forecast for people who watch."""
    what = f"that what it plays is within {GOAL.replace('%', ' %')} of the best"
    if found.rounds == 0:
        return f"It is certain now {what}: the experiment can stop."
    if np.isnan(found.rounds):
        return f"When it will be certain {what} cannot be said yet: some arm has no reward."
    if not np.isfinite(found.rounds):
        return f"As things look now, it will never be quite certain {what}. It goes on to learn all the same."
    if found.high > 3.0 * found.low:
        high = f"{_plain(float(f'{found.high:.2g}'))}" if np.isfinite(found.high) else "very many"
        about = f"between {_plain(float(f'{found.low:.2g}'))} and {high}"
    else:
        about = f"about {_plain(float(f'{found.rounds:.2g}'))}"
    days = f" That is {_days(found.rounds / a_day)} at the pace of the last day." if a_day else ""
    return f"After {about} more rounds it may be certain {what}.{days}"


def _days(days: float) -> str:
    for name, size in (("year", 365.0), ("month", 30.0), ("day", 1.0)):
        if days >= 2.0 * size:
            return f"about {days / size:,.0f} {name}s"
    return f"about {max(round(24.0 * days), 1)} hour{'s' if round(24.0 * days) > 1 else ''}"


def _row(point: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    t = max(point["t"], 1)
    row: dict[str, Any] = {
        "played": [round(100.0 * point["pulls"].get(name, 0) / t, 3) for name in names],
        "wanted": [round(100.0 * point["wanted"].get(name, 0.0), 3) for name in names],
    }
    return row | {key: point.get(key) for key in ("utility", "lower", "upper", "rival")}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def listed(names: tuple[str, ...], weights: np.ndarray) -> str:
    """Shares in a few words."""
    used = [k for k in np.argsort(-weights, kind="stable").tolist() if weights[k] >= 0.005]
    text = " + ".join(f"{100 * weights[k]:.0f} % {names[k]}" for k in used[:8])
    return text + (f" + {len(used) - 8} more" if len(used) > 8 else "") if used else "none"
