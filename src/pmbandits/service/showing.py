"""An experiment as the board shows it: worked out once for all who look, in parts, each as often as it is cheap."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from pmbandits import _check
from pmbandits.pages import web
from pmbandits.pages.board import view
from pmbandits.policies.shown import why
from pmbandits.service import history, reading
from pmbandits.service.fold import Fold
from pmbandits.service.live import Live, Refused
from pmbandits.service.service import Service
from pmbandits.service.trail import Trail, clock
from pmbandits.service.watch import Acts, Watch

log = logging.getLogger("pmbandits.service")
EVERY = 1.0  # seconds between two looks at what moved
REST = 100  # a part is worked out anew after so many times as long as it took: it takes 1 % of a processor at most
PATIENCE = 0.25  # seconds for which an answer waits for parts that take long
QUIET = 60.0  # seconds after which a part that could not be made is tried again
GOAL = "5%"  # the regret of the forecast


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
            "decisions": self._decisions,
            "happened": self._happened,
            "alone": self._alone,
            "forecast": self._forecast,
        }
        self.parts = {part: Part() for part in self._make}
        self._count = secrets.randbelow(1 << 40)  # so that versions of different processes are not mistaken
        self._trail, self._watch, self._acts, self._watched = Trail(), Watch(), Acts(), True
        self._points: list[tuple[int, int, bytes]] = []  # event, round and row of each point of the past
        self._ripe = 0.0  # the past is not read again before
        self._row: dict[str, Any] = {}
        self._present = b"null"
        self._work: asyncio.Task[None] | None = None
        self._run: asyncio.Task[None] | None = None

    # ---- who looks ----------------------------------------------------------------------------------------
    async def stream(self) -> AsyncIterator[bytes]:
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
        options = (f"{name}={value}" for name, value in (spec.get("options") or {}).items())
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
            ],
            "arms": arms,
            "limits": None if policy.limits is None else str(policy.limits),
            "next": "Next is {}. {}".format(*why(policy)) if live.status == "running" else None,
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
        self._points = self._points + [(p["seq"], p["t"], web.encoded(_row(p, names))) for p in found]

    def _known(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy, metric = fold.policy, fold.policy.metric
        assert metric is not None
        found = policy.estimates
        return {
            "metric": view.preference(metric),
            "curves": view.estimated(metric, found, view.most_played(np.asarray(policy.pulls, dtype=float))),
            "known": [{"rewards": arm.n, "mean": arm.mean} for arm in found],
        }

    def _sure(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy = fold.policy
        if policy.confidence is None:
            return {"sure": None}
        sure = policy.certainty()
        ends = {name: _finite(getattr(sure, name)) for name in ("utility", "lower", "upper", "rival")}
        self._row |= ends
        self._present = (
            web.encoded({"x": policy.t, "row": self._row}) if policy.t and "played" in self._row else b"null"
        )
        about, low, high = (f"{ends[k]:.4g}" if ends[k] is not None else "?" for k in ("utility", "lower", "upper"))
        worth = f" The mixture is worth about {about}, between {low} and {high}." if np.isfinite(sure.regret) else ""
        return {"sure": f"{sure}{worth}"}

    def _alone(self, live: Live, fold: Fold) -> dict[str, Any]:
        return {"alone": reading.alone(fold.policy)}

    def _forecast(self, live: Live, fold: Fold) -> dict[str, Any]:
        policy = fold.policy
        if policy.confidence is None or policy.t == 0:
            return {"forecast": None}
        try:
            return {"forecast": str(policy.forecast(GOAL))}
        except (ValueError, TypeError, ArithmeticError):  # not for this policy, or nothing is worth anything yet
            return {"forecast": None}

    def _decisions(self, live: Live, fold: Fold) -> dict[str, Any]:
        self._trail.follow(self.service.store, live.record, fold)
        return {"decisions": self._trail.found[::-1]}

    def _happened(self, live: Live, fold: Fold) -> dict[str, Any]:
        """Acts of administration and changes of arms, by the round in which they were; and warnings.

        Changes are those that the policy found itself, if it watches its arms; else those that the board found.
        """
        policy, store, exp = fold.policy, self.service.store, live.record.id
        own = policy.changes
        self._watched = bool(own) or self._watch.follow(store, exp, policy.names, fold.seen)
        self._acts.follow(store, exp, fold.seen)
        seqs = [0, *(seq for seq, *_ in self._points if seq < fold.seen), fold.seen]
        rounds = [0, *(t for seq, t, _ in self._points if seq < fold.seen), policy.t]

        def about(seq: int) -> int:
            """The round in which an event was, about."""
            return max(1, round(float(np.interp(seq, seqs, rounds))))

        marks = [
            {"x": about(seq), "text": f"{when}, about round {about(seq):,}: {what}"}
            for seq, when, what in self._acts.found
        ]
        found = [(max(change.round, 1), change) for change in own]
        found = found or [(about(seq), change) for seq, change in self._watch.found]
        marks += [{"x": at, "text": f"About round {at:,}: {change}"} for at, change in found]
        checked = None if self._watched else f"{100.0 * self._watch.seen / max(fold.seen, 1):.0f} %"
        return {
            "marks": sorted(marks, key=lambda mark: mark["x"]),
            "warnings": [f"{change} Found about round {at:,}." for at, change in found[-3:]],
            "checked": checked,
        }


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
