"""One table in the studio: how it is read, and what every answer about it needs, worked out once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.advice.drawing import scale_for
from pmbandits.advice.evidence import Problem
from pmbandits.advice.glance import Glance
from pmbandits.advice.recommend import problem_of
from pmbandits.limits import Limits, limits
from pmbandits.logs import Peek, Reading, peek, read
from pmbandits.supports import Binary, Interval, Support

_GRID = 160  # places at which curves are drawn
_DRAWN = 0.995  # the share of the rewards that curves show in any case
_OPTIONS = ("arm", "reward", "unit", "time", "decimal", "thousands", "currency")


class Table:
    """A file, and what was read from it.

    Attributes
    ----------
    path, name : the file, and what the user calls it.
    peek : its first rows.
    asked : how it was read, in the words of :func:`pmbandits.advise`; empty until it is read.
    """

    def __init__(self, path: Path, name: str, *, own: bool) -> None:
        self.path, self.name, self.own = path, name, own
        self.asked: dict[str, Any] = {}
        self.why = ""  # why it is not read yet
        with self._named():
            self.peek: Peek = peek(path)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Sentences name the file as its owner does, not as the copy is called."""
        try:
            yield
        except ValueError as error:
            raise ValueError(str(error).replace(self.path.name, self.name)) from None

    @property
    def said(self) -> str:
        """The file as it is named in a command: the path that was given, or the name of a file that was dropped in."""
        return self.name if self.own else str(self.path)

    def forget(self) -> None:
        """Remove the copy of a file that was dropped in."""
        if self.own:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def read(self, options: Mapping[str, Any]) -> None:
        """Read the file as the page says; what was read before stays if that fails."""
        asked: dict[str, Any] = {
            name: value for name in _OPTIONS if (value := _text(options, name)) or name in ("thousands", "currency")
        }
        wide = options.get("wide") or False
        if not isinstance(wide, bool) and not (isinstance(wide, list) and all(isinstance(w, str) for w in wide)):
            raise ValueError(f"wide must be true, or a list of the columns that are arms, got {_check.short(wide)}.")
        asked["wide"] = wide
        if wide:
            asked.pop("arm", None), asked.pop("reward", None)
        loss = bool(options.get("loss"))
        how = Reading(**asked)
        support = _support(options.get("range"))
        with self._named():
            log = read(self.path, how=how, loss=loss)
            problem = problem_of(log, support, loss=loss)
        self.problem: Problem = problem
        self.glance = Glance(problem)
        self.asked = {**asked, "support": support, "loss": loss}
        self._limits: dict[Any, Limits | None] = {}
        for name in ("grid", "above", "cut", "common"):
            self.__dict__.pop(name, None)

    @property
    def is_read(self) -> bool:
        """Whether there is something to ask about."""
        return bool(self.asked)

    @property
    def names(self) -> list[str]:
        """The arms."""
        return self.glance.names

    @property
    def means(self) -> FloatArray:
        """The plain average of each arm."""
        return np.array([float(s.x @ s.p) for s in self.problem.samples])

    def limits(self, asked: Any) -> Limits | None:
        """Limits as the page says them: the least and the largest share of arms in percent, and more as text."""
        if not isinstance(asked, Mapping):
            return None
        ends: dict[str, tuple[float | None, float | None]] = {}
        for name, pair in dict(asked.get("arms") or {}).items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise ValueError(f"the limits of {_check.short(name)} must be the least and the largest share.")
            low, high = (_check.within(f"a limit of {name}", end, 0.0, 100.0) / 100.0 for end in pair)
            if (low, high) != (0.0, 1.0):
                ends[str(name)] = (low if low > 0.0 else None, high if high < 1.0 else None)
        text = str(asked.get("text") or "").strip()
        if not ends and not text:
            return None
        key = tuple(ends.items()), text
        if key not in self._limits:
            if len(self._limits) > 200:
                self._limits.clear()
            made = limits([*([ends] if ends else []), *([text] if text else [])], self.names)
            self._limits[key] = made if len(made) else None
        return self._limits[key]

    @cached_property
    def grid(self) -> FloatArray:
        """Places at which curves are drawn: where the rewards are, closer together towards both ends."""
        samples = self.problem.samples
        rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _GRID))
        every = np.concatenate([s.x[np.minimum(np.searchsorted(np.cumsum(s.p), rank), s.x.size - 1)] for s in samples])
        places = np.unique(every)
        low, high = self.cut
        places = places[(places >= low) & (places <= high)]
        if places.size > _GRID:
            places = np.unique(places[np.linspace(0, places.size - 1, _GRID).astype(np.intp)])
        pad = 0.02 * float(places[-1] - places[0]) or 0.5
        return np.concatenate((places, [places[-1] + pad]))

    @cached_property
    def cut(self) -> tuple[float, float]:
        """Between which rewards curves are drawn: without the last few, where they would take most of the room."""
        ends = []
        for sign in (-1.0, 1.0):
            last = max(float((sign * s.x).max()) for s in self.problem.samples)
            near = max(_quantile(s.x, s.p, _DRAWN if sign > 0.0 else 1.0 - _DRAWN) * sign for s in self.problem.samples)
            ends.append((sign * last, sign * near))
        (least, low), (most, high) = ends
        room = max(high - low, 1e-300)
        return least if low - least <= room else low, most if most - high <= room else high

    @cached_property
    def common(self) -> list[tuple[float, float]]:
        """Of each arm its most frequent reward, and how frequent it is."""
        return [(float(s.x[k]), float(s.p[k])) for s in self.problem.samples for k in (int(np.argmax(s.p)),)]

    @cached_property
    def above(self) -> FloatArray:
        """Of each arm, the share of rewards above each place."""
        rows = []
        for s in self.problem.samples:
            below = np.concatenate(([0.0], np.cumsum(s.p)))
            rows.append(np.clip(1.0 - below[np.searchsorted(s.x, self.grid, side="right")], 0.0, 1.0))
        return np.array(rows)

    @property
    def bend(self) -> float:
        """0 for a linear scale of rewards; else where a logarithmic one begins, because few rewards are far away."""
        middles = []
        for s in self.problem.samples:
            total = np.cumsum(s.p)
            low, high = (s.x[min(int(np.searchsorted(total, q)), s.x.size - 1)] for q in (0.25, 0.75))
            middles.append(float(high - low))
        grid = self.grid
        if max(middles) == 0.0:  # more than half of the rewards are the same: the others say the scale
            apart = [np.diff(np.quantile(s.x, (0.25, 0.75)))[0] for s in self.problem.samples if s.x.size > 3]
            middles = [float(max(apart, default=0.0))]
        return scale_for([float(grid[0]), float(grid[-1])], middles).bend


def _quantile(x: FloatArray, p: FloatArray, share: float) -> float:
    return float(x[min(int(np.searchsorted(np.cumsum(p), share)), x.size - 1)])


def keep(name: str) -> tuple[Path, Any]:
    """A place for a file that is dropped in: a folder of its own, and the open file. The name keeps its ending only."""
    folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
    suffix = "".join(Path(name).suffixes[-2:]) if name.lower().endswith(".gz") else Path(name).suffix
    suffix = suffix if suffix.replace(".", "").isalnum() else ""
    path = folder / f"table{suffix.lower()}"
    return path, path.open("wb")


def _text(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_check.short(value)}.")
    return value if name == "thousands" else value.strip()


def _support(given: Any) -> Support | None:
    """Where rewards can lie, as the page says it."""
    if not isinstance(given, Mapping) or given.get("kind") in (None, "", "unknown"):
        return None
    if given["kind"] == "binary":
        return Binary()
    if given["kind"] != "between":
        raise ValueError(f"rewards lie 'unknown', 'binary' or 'between', got {_check.short(given['kind'])}.")
    lo, hi = given.get("lo"), given.get("hi")
    if lo in (None, "") or hi in (None, ""):
        raise ValueError("give both the least and the largest reward that is possible, or say that it is not known.")
    return Interval(_check.number("the least reward", lo), _check.number("the largest reward", hi))
