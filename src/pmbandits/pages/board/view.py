"""What the board shows, as plain numbers that a script draws."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice.bands import distortion_range
from pmbandits.advice.curves import asinh_linear_width
from pmbandits.estimates import ArmEstimate
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.distortion_function import distortion_curve
from pmbandits.pages import web
from pmbandits.palette import arm_colour
from pmbandits.tables.distributions import Atoms, Distribution

GRID = 120  # places at which curves are drawn
DRAWN = 20  # arms whose curves are sent


def metric_text_and_curve(metric: Distortion) -> dict[str, Any]:
    """The metric in words, and the curve of h."""
    terms = metric.terms
    said = "; ".join(
        str(part.meaning) if weight == 1.0 else f"{weight:.4g} times {part.meaning}" for weight, part in terms
    )
    u, h = distortion_curve(metric)
    few = np.unique(np.concatenate((np.linspace(0, u.size - 1, 120).astype(np.intp), np.flatnonzero(np.isnan(h)))))
    return {"text": repr(metric), "words": said, "u": u[few], "h": h[few]}


def estimated_curves(metric: Distortion, estimates: Sequence[ArmEstimate], drawn: Sequence[int]) -> dict[str, Any]:
    """Survival curves of some estimated arms with their bands, and h of both, on a common grid."""
    seen = [k for k in drawn if estimates[k].n]
    if not seen:
        return {"x": [], "bend": 0.0, "arms": []}
    points = np.unique(np.concatenate([_cosine_spaced_rewards(estimates[k].x, estimates[k].p) for k in seen]))
    x, linear_width = _grid_and_linear_width(points)
    arms = []
    for k in seen:
        below, (low, high) = estimates[k].cdf(x), estimates[k].band(x)
        least, most = np.clip(1.0 - high, 0.0, 1.0), np.clip(1.0 - low, 0.0, 1.0)
        worst, best = distortion_range(metric, least, most)
        arms.append({
            "place": k, "above": 1.0 - below, "low": least, "high": most,
            "bent": _h_of_survival(metric, 1.0 - below), "bent_low": worst, "bent_high": best,
        })  # fmt: skip
    return {"x": x, "bend": linear_width, "arms": arms}


def true_curves(metric: Distortion, distributions: Sequence[Distribution], drawn: Sequence[int]) -> dict[str, Any]:
    """Survival curves of arms with known distributions, and h of them, on a common grid."""
    points = np.unique(np.concatenate([np.asarray(distributions[k].breakpoints(), dtype=np.float64) for k in drawn]))
    inside = np.array([any(distributions[k].cdf(np.array([p]))[0] > 1e-3 for k in drawn) for p in points])
    inside &= np.array([any(distributions[k].cdf(np.array([p]))[0] < 1.0 - 1e-3 for k in drawn) for p in points])
    points = points[inside] if inside.sum() > 1 else points
    spread = np.linspace(float(points[0]), float(points[-1]), GRID)
    x, linear_width = _grid_and_linear_width(np.unique(np.concatenate((points, spread))))
    arms = []
    for k in drawn:
        above = np.clip(1.0 - np.asarray(distributions[k].cdf(x), dtype=np.float64), 0.0, 1.0)
        arms.append({"place": k, "above": above, "bent": _h_of_survival(metric, above)})
    return {
        "x": x,
        "bend": linear_width,
        "arms": arms,
        "smooth": not all(isinstance(distributions[k], Atoms) for k in drawn),
    }


def most_played_arms(weights: FloatArray, most: int = DRAWN) -> list[int]:
    """The places of the arms with the largest numbers, in their order."""
    return sorted(int(k) for k in np.argsort(-weights, kind="stable")[:most])


def clean_share(number: Any) -> float:
    """A share; what is left of rounding errors is 0."""
    return float(number) if number >= 1e-9 else 0.0


def arms_with_colours(names: Sequence[str]) -> list[dict[str, Any]]:
    """The arms with their colours."""
    return [{"name": name, "place": k, "colour": arm_colour(k)} for k, name in enumerate(names)]


def _cosine_spaced_rewards(x: FloatArray, p: FloatArray) -> FloatArray:
    rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, GRID))
    return np.asarray(x[np.minimum(np.searchsorted(np.cumsum(p), rank), x.size - 1)])


def _grid_and_linear_width(points: FloatArray) -> tuple[FloatArray, float]:
    if points.size > GRID:
        points = np.unique(points[np.linspace(0, points.size - 1, GRID).astype(np.intp)])
    pad = 0.02 * float(points[-1] - points[0]) or 0.5
    linear = asinh_linear_width(float(points[-1] - points[0]), float(np.diff(np.quantile(points, (0.25, 0.75)))[0]))
    return np.concatenate((points, [points[-1] + pad])), linear


def _h_of_survival(metric: Distortion, above: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(metric._h(np.clip(above, 0.0, 1.0)))


# ---- the page --------------------------------------------------------------------------------------------


def board_page(title: str, *, kind: str, root: str = "", keys: bool = False, change: bool = False) -> str:
    """The board's page; ``kind`` is ``"folder"``, ``"experiment"`` or ``"list"``; with ``change`` it has controls."""
    template = "list.html" if kind == "list" else "board.html"
    said = {name: "yes" if given else "no" for name, given in (("keys", keys), ("change", change))}
    return web.html_page(template, title=title, kind=kind, root=root, **said)


class Notifier:
    """Wakes the event streams of a page: when there is news, and when the server shuts down."""

    def __init__(self) -> None:
        self.closed = False
        self._event = asyncio.Event()

    def wake_streams(self) -> None:
        """Wake all streams, because there is news."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self.wake_streams()

    async def wait_for_notification(self, seconds: float) -> None:
        """Wait for the next notification, at most this many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)


async def server_sent_events(
    seen: Callable[[], Awaitable[Any]], notifier: Notifier, every: float = 1.0, heartbeat: float = 15.0
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: a message whenever ``seen`` gives something new, and a sign of life now and then.

    ``seen`` is called at each notification, and after ``every`` seconds.
    """
    last: Any = object()
    said = time.monotonic()
    yield b"retry: 2000\n\n"
    while not notifier.closed:
        now = await seen()
        if now != last:
            last, said = now, time.monotonic()
            yield f"event: moved\ndata: {json.dumps(now)}\n\n".encode()
        elif time.monotonic() >= said + heartbeat:
            said = time.monotonic()
            yield b": still here\n\n"
        await notifier.wait_for_notification(every)


def server_sent_events_response(parts: AsyncIterator[bytes]) -> Any:
    """The streaming response of server-sent events."""
    from starlette.responses import StreamingResponse

    headers = {**web.HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type="text/event-stream", headers=headers)
