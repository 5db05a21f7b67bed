"""What the board shows, as plain numbers that a script draws."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

import numpy as np

from pmbandits import __version__
from pmbandits._check import FloatArray
from pmbandits.advice.bands import extremes
from pmbandits.advice.drawing import scale_for
from pmbandits.estimates import ArmEstimate
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.pages import web
from pmbandits.palette import colour
from pmbandits.plots import distortion_line

GRID = 120  # places at which curves are drawn
DRAWN = 20  # arms whose curves are sent


def preference(metric: Distortion) -> dict[str, Any]:
    """The preference in words, and its curve."""
    terms = metric.terms
    said = "; ".join(
        str(part.meaning) if weight == 1.0 else f"{weight:.4g} times {part.meaning}" for weight, part in terms
    )
    u, h = distortion_line(metric)
    few = np.unique(np.concatenate((np.linspace(0, u.size - 1, 120).astype(np.intp), np.flatnonzero(np.isnan(h)))))
    return {"text": repr(metric), "words": said, "u": u[few], "h": h[few]}


def estimated(metric: Distortion, estimates: Sequence[ArmEstimate], drawn: Sequence[int]) -> dict[str, Any]:
    """Of some arms: the share of rewards above each place, its band, and what the preference makes of both."""
    seen = [k for k in drawn if estimates[k].n]
    if not seen:
        return {"x": [], "bend": 0.0, "arms": []}
    points = np.unique(np.concatenate([_spread(estimates[k].x, estimates[k].p) for k in seen]))
    x, bend = _places(points)
    arms = []
    for k in seen:
        below, (low, high) = estimates[k].cdf(x), estimates[k].band(x)
        least, most = np.clip(1.0 - high, 0.0, 1.0), np.clip(1.0 - low, 0.0, 1.0)
        worst, best = extremes(metric, least, most)
        arms.append({
            "place": k, "above": 1.0 - below, "low": least, "high": most,
            "bent": _bent(metric, 1.0 - below), "bent_low": worst, "bent_high": best,
        })  # fmt: skip
    return {"x": x, "bend": bend, "arms": arms}


def true(metric: Distortion, laws: Sequence[Law], drawn: Sequence[int]) -> dict[str, Any]:
    """The same for arms that are known, which have no band."""
    points = np.unique(np.concatenate([np.asarray(laws[k].breaks(), dtype=np.float64) for k in drawn]))
    inside = np.array([any(laws[k].cdf(np.array([p]))[0] > 1e-3 for k in drawn) for p in points])
    inside &= np.array([any(laws[k].cdf(np.array([p]))[0] < 1.0 - 1e-3 for k in drawn) for p in points])
    points = points[inside] if inside.sum() > 1 else points
    spread = np.linspace(float(points[0]), float(points[-1]), GRID)
    x, bend = _places(np.unique(np.concatenate((points, spread))))
    arms = []
    for k in drawn:
        above = np.clip(1.0 - np.asarray(laws[k].cdf(x), dtype=np.float64), 0.0, 1.0)
        arms.append({"place": k, "above": above, "bent": _bent(metric, above)})
    return {"x": x, "bend": bend, "arms": arms, "smooth": not all(isinstance(laws[k], Atoms) for k in drawn)}


def most_played(weights: FloatArray, most: int = DRAWN) -> list[int]:
    """The places of the arms with the largest numbers, in their order."""
    return sorted(int(k) for k in np.argsort(-weights, kind="stable")[:most])


def share(number: Any) -> float:
    """A share; what is left of rounding errors is 0."""
    return float(number) if number >= 1e-9 else 0.0


def coloured(names: Sequence[str]) -> list[dict[str, Any]]:
    """The arms with their colours."""
    return [{"name": name, "place": k, "colour": colour(k)} for k, name in enumerate(names)]


def _spread(x: FloatArray, p: FloatArray) -> FloatArray:
    rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, GRID))
    return np.asarray(x[np.minimum(np.searchsorted(np.cumsum(p), rank), x.size - 1)])


def _places(points: FloatArray) -> tuple[FloatArray, float]:
    if points.size > GRID:
        points = np.unique(points[np.linspace(0, points.size - 1, GRID).astype(np.intp)])
    pad = 0.02 * float(points[-1] - points[0]) or 0.5
    bend = scale_for([float(points[0]), float(points[-1])], [float(np.diff(np.quantile(points, (0.25, 0.75)))[0])]).bend
    return np.concatenate((points, [points[-1] + pad])), bend


def _bent(metric: Distortion, above: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(metric._h(np.clip(above, 0.0, 1.0)))


# ---- the page --------------------------------------------------------------------------------------------


def page(title: str, *, kind: str, root: str = "", keys: bool = False) -> str:
    """The board's page; ``kind`` is ``"folder"``, ``"experiment"`` or ``"list"``."""
    body = web.files()["list.html" if kind == "list" else "board.html"].decode()
    for name, value in {"title": title, "kind": kind, "version": __version__, "keys": "yes" if keys else "no"}.items():
        body = body.replace("{" + name + "}", escape(value))
    scripts = ("charts.js", "list.js") if kind == "list" else ("uplot.js", "charts.js", "board.js")
    return web.document(f"{title} – pmbandits board", body, scripts=scripts, root=root)


class Bell:
    """Wakes the streams of a page: when there is news, and when the server is told to stop."""

    def __init__(self) -> None:
        self.closed = False
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There is news."""
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    def close(self) -> None:
        """All streams end now."""
        self.closed = True
        self.ring()

    async def wait(self, seconds: float) -> None:
        """Until it rings, or so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)


async def stream(
    seen: Callable[[], Awaitable[Any]], bell: Bell, every: float = 1.0, beat: float = 15.0
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: a message whenever ``seen`` gives something new, and a sign of life now and then.

    It is looked at when the bell rings, and after so many seconds.
    """
    last: Any = object()
    said = time.monotonic()
    yield b"retry: 2000\n\n"
    while not bell.closed:
        now = await seen()
        if now != last:
            last, said = now, time.monotonic()
            yield f"event: moved\ndata: {json.dumps(now)}\n\n".encode()
        elif time.monotonic() >= said + beat:
            said = time.monotonic()
            yield b": still here\n\n"
        await bell.wait(every)


def as_stream(parts: AsyncIterator[bytes]) -> Any:
    """The answer that stays open."""
    from starlette.responses import StreamingResponse

    headers = {**web.HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type="text/event-stream", headers=headers)
