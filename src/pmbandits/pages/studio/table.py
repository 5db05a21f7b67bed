"""One table in the studio: how it is read, and what every answer about it needs, worked out once."""

from __future__ import annotations

import re
import secrets
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
from pmbandits.logs import Peek, Reading, Sample, peek, read
from pmbandits.supports import Binary, Interval, Support

_GRID = 160  # places at which curves are drawn
_OPTIONS = ("arm", "reward", "unit", "time", "per", "decimal", "thousands", "currency")
_FAR = 0.005  # the share of the rewards of an arm at an end that need not be drawn, if they are far away


class Table:
    """A file, and what was read from it.

    Attributes
    ----------
    path, name : the file, and what the user calls it.
    peek : its first rows.
    asked : how it was read, in the words of :func:`pmbandits.advise`; empty until it is read.
    """

    def __init__(self, path: Path, name: str, *, own: bool, example: str = "") -> None:
        self.path, self.name, self.own, self.example = path, name, own, example
        self.asked: dict[str, Any] = {}
        self.trouble = ""
        with self._by_its_name():
            self.peek: Peek = peek(path)
        if not self.peek.rows:
            self.trouble = f"{name} has no rows below its first line."
        elif not any(self.peek.numeric):
            self.trouble = f"No column of {name} holds numbers, and rewards must be numbers."

    @contextmanager
    def _by_its_name(self) -> Iterator[None]:
        """What is said of the file calls it as the user does."""
        try:
            yield
        except ValueError as error:
            raise ValueError(for_people(str(error)).replace(self.path.name, self.name)) from None

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
        asked["wide"] = self._wide(options.get("wide"), asked)
        if asked["wide"]:
            asked.pop("arm", None), asked.pop("reward", None)
        loss = bool(options.get("loss"))
        support = _support(options.get("range"))
        with self._by_its_name():
            log = read(self.path, how=Reading(**asked), loss=loss)
            problem = problem_of(log, support, loss=loss)
        self.problem: Problem = problem
        self.glance = Glance(problem)
        self.asked = {**asked, "support": support, "loss": loss}
        self.trouble = ""
        self._limits: dict[Any, Limits | None] = {}
        for name in ("ends", "grid", "above", "means"):
            self.__dict__.pop(name, None)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Read the file if it is clear which columns are meant; else keep why that failed."""
        guess = self.peek
        if guess.sure and not self.trouble:
            wide = list(guess.arms) if guess.wide else False
            try:
                self.read({"arm": guess.arm, "reward": guess.reward, "wide": wide, "decimal": guess.decimal, **options})
            except ValueError as error:
                self.asked, self.trouble = {}, str(error)

    def _wide(self, given: Any, asked: Mapping[str, Any]) -> bool | list[str]:
        """Whether columns are arms, or which of them."""
        if given is None or isinstance(given, bool):
            return bool(given)
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise ValueError(f"wide must be true, or a list of the columns that are arms, got {_check.short(given)}.")
        if not given:
            raise ValueError("tick the columns that are arms.")
        others = {asked.get("unit"), asked.get("time")}
        chosen = [str(name) for name in given if name not in others]
        return True if set(chosen) == set(self.peek.columns) - others else chosen

    @property
    def when(self) -> str | None:
        """The column of dates, if there is one: that which was said, or the first that looks like it."""
        dates = [name for name, is_date in zip(self.peek.columns, self.peek.dates, strict=True) if is_date]
        said = self.asked.get("time")
        return said if said in dates else next(iter(dates), None)

    @property
    def is_read(self) -> bool:
        """Whether there is something to ask about."""
        return bool(self.asked)

    @property
    def names(self) -> list[str]:
        """The arms."""
        return self.glance.names

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
    def means(self) -> FloatArray:
        """The plain averages of the arms."""
        return np.array([float(s.x @ s.p) for s in self.problem.samples])

    @cached_property
    def ends(self) -> tuple[float, float]:
        """From where to where rewards are drawn: a few that are very far away are left out."""
        samples = self.problem.samples
        low, high = min(float(s.x[0]) for s in samples), max(float(s.x[-1]) for s in samples)
        most = min(_at(s, _FAR) for s in samples), max(_at(s, 1.0 - _FAR) for s in samples)
        width = most[1] - most[0]
        if width <= 0.0:
            return low, high
        return (most[0] if most[0] - low > width else low), (most[1] if high - most[1] > width else high)

    @cached_property
    def grid(self) -> FloatArray:
        """Places at which curves are drawn: where the rewards are, closer together towards both ends."""
        rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _GRID))
        places = np.unique(np.concatenate([_at(s, rank) for s in self.problem.samples]))
        places = places[(places >= self.ends[0]) & (places <= self.ends[1])]
        if places.size > _GRID:
            places = np.unique(places[np.linspace(0, places.size - 1, _GRID).astype(np.intp)])
        pad = 0.02 * float(places[-1] - places[0]) or 0.5
        return np.concatenate((places, [places[-1] + pad]))

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
        middles = [float(_at(s, 0.75) - _at(s, 0.25)) for s in self.problem.samples]
        grid = self.grid
        if max(middles) == 0.0:  # more than half of the rewards are the same: the others say the scale
            apart = [np.diff(np.quantile(s.x, (0.25, 0.75)))[0] for s in self.problem.samples if s.x.size > 3]
            middles = [float(max(apart, default=0.0))]
        return scale_for([float(grid[0]), float(grid[-1])], middles).bend


def for_people(text: str) -> str:
    """A sentence on a table without the options of Python and of the command line.

    >>> for_people("Rewards such as '1,5' look like decimal commas: say so with decimal=',' (--decimal ,).")
    "Rewards such as '1,5' look like decimal commas: say so under “Change how it is read”."
    """
    return re.sub(r": say (?:so|which) with .*$", ": say so under “Change how it is read”.", text)


def keep(name: str) -> tuple[Path, Any]:
    """A place for a file that is dropped in: a folder of its own, and the open file. The name keeps its ending only."""
    folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
    suffix = "".join(Path(name).suffixes[-2:]) if name.lower().endswith(".gz") else Path(name).suffix
    suffix = suffix if suffix.replace(".", "").isalnum() else ""
    path = folder / f"{secrets.token_hex(8)}{suffix.lower()}"
    return path, path.open("wb")


def _at(sample: Sample, rank: Any) -> Any:
    """The reward, or the rewards, below which a share of them lies."""
    return sample.x[np.minimum(np.searchsorted(np.cumsum(sample.p), rank), sample.x.size - 1)]


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
