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

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.advice.preview import Preview
from pmbandits.advice.problem import Problem
from pmbandits.advice.recommend import make_problem
from pmbandits.advice.svg_charts import choose_scale
from pmbandits.constraints import Limits, limits
from pmbandits.logs import ReadSettings, Sample, SniffedTable, read, sniff
from pmbandits.supports import Binary, Interval, Support

_GRID = 160  # places at which curves are drawn
_OPTIONS = ("arm", "reward", "unit", "time", "per", "decimal", "thousands", "currency")
_UNDRAWN_SHARE = 0.005  # the share of the rewards of an arm at an end that need not be drawn, if they are far away


class Table:
    """A file, and what was read from it.

    Attributes
    ----------
    path, name : the file, and what the user calls it.
    sniff : its first rows, and a guess of its columns.
    params : how it was read, as options of :func:`pmbandits.advise`; empty until it is read.
    """

    def __init__(self, path: Path, name: str, *, is_upload: bool, example: str = "") -> None:
        self.path, self.name, self.is_upload, self.example = path, name, is_upload, example
        self.params: dict[str, Any] = {}
        self.read_error = ""
        with self._errors_name_upload():
            self.sniff: SniffedTable = sniff(path)
        if not self.sniff.rows:
            self.read_error = f"{name} has no rows below its first line."
        elif not any(self.sniff.numeric):
            self.read_error = f"No column of {name} holds numbers, and rewards must be numbers."

    @contextmanager
    def _errors_name_upload(self) -> Iterator[None]:
        """Errors about an uploaded file show the name that the user gave it."""
        try:
            yield
        except ValueError as error:
            raise ValueError(without_option_names(str(error)).replace(self.path.name, self.name)) from None

    @property
    def name_in_commands(self) -> str:
        """The file as it is named in a command: the path that was given, or the name of a file that was dropped in."""
        return self.name if self.is_upload else str(self.path)

    def delete_upload(self) -> None:
        """Remove the copy of a file that was dropped in."""
        if self.is_upload:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    def read(self, options: Mapping[str, Any]) -> None:
        """Read the file as the page says; what was read before stays if that fails."""
        params: dict[str, Any] = {
            name: value
            for name in _OPTIONS
            if (value := _text_option(options, name)) or name in ("thousands", "currency")
        }
        params["wide"] = self._parse_wide(options.get("wide"), params)
        if params["wide"]:
            params.pop("arm", None), params.pop("reward", None)
        loss = bool(options.get("loss"))
        support = _parse_support(options.get("range"))
        with self._errors_name_upload():
            log = read(self.path, settings=ReadSettings(**params), loss=loss)
            problem = make_problem(log, support, loss=loss)
        self.problem: Problem = problem
        self.preview = Preview(problem)
        self.params = {**params, "support": support, "loss": loss}
        self.read_error = ""
        self._limits: dict[Any, Limits | None] = {}
        for name in ("drawn_range", "grid", "survival_curves", "means"):
            self.__dict__.pop(name, None)

    def read_if_unambiguous(self, options: Mapping[str, Any]) -> None:
        """Read the file if it is clear which columns are meant; else keep why that failed."""
        guess = self.sniff
        if guess.sure and not self.read_error:
            wide = list(guess.arms) if guess.wide else False
            try:
                self.read({"arm": guess.arm, "reward": guess.reward, "wide": wide, "decimal": guess.decimal, **options})
            except ValueError as error:
                self.params, self.read_error = {}, str(error)

    def _parse_wide(self, given: Any, params: Mapping[str, Any]) -> bool | list[str]:
        """Whether columns are arms, or which of them."""
        if given is None or isinstance(given, bool):
            return bool(given)
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise ValueError(
                f"wide must be true, or a list of the columns that are arms, got {_validation.short(given)}."
            )
        if not given:
            raise ValueError("tick the columns that are arms.")
        others = {params.get("unit"), params.get("time")}
        chosen = [str(name) for name in given if name not in others]
        return True if set(chosen) == set(self.sniff.columns) - others else chosen

    @property
    def date_column(self) -> str | None:
        """The column of dates, if there is one: that which was said, or the first that looks like it."""
        dates = [name for name, is_date in zip(self.sniff.columns, self.sniff.dates, strict=True) if is_date]
        said = self.params.get("time")
        return said if said in dates else next(iter(dates), None)

    @property
    def is_read(self) -> bool:
        """Whether the table has been read."""
        return bool(self.params)

    @property
    def names(self) -> list[str]:
        """The arms."""
        return self.preview.names

    def limits(self, params: Any) -> Limits | None:
        """Limits as the page says them: the least and the largest share of arms in percent, and more as text."""
        if not isinstance(params, Mapping):
            return None
        ends: dict[str, tuple[float | None, float | None]] = {}
        for name, pair in dict(params.get("arms") or {}).items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise ValueError(f"the limits of {_validation.short(name)} must be the least and the largest share.")
            low, high = (_validation.within(f"a limit of {name}", end, 0.0, 100.0) / 100.0 for end in pair)
            if (low, high) != (0.0, 1.0):
                ends[str(name)] = (low if low > 0.0 else None, high if high < 1.0 else None)
        text = str(params.get("text") or "").strip()
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
    def drawn_range(self) -> tuple[float, float]:
        """From where to where rewards are drawn: a few that are very far away are left out."""
        samples = self.problem.samples
        low, high = min(float(s.x[0]) for s in samples), max(float(s.x[-1]) for s in samples)
        most = (
            min(_quantile(s, _UNDRAWN_SHARE) for s in samples),
            max(_quantile(s, 1.0 - _UNDRAWN_SHARE) for s in samples),
        )
        width = most[1] - most[0]
        if width <= 0.0:
            return low, high
        return (most[0] if most[0] - low > width else low), (most[1] if high - most[1] > width else high)

    @cached_property
    def grid(self) -> FloatArray:
        """Places at which curves are drawn: where the rewards are, closer together towards both ends."""
        rank = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, _GRID))
        places = np.unique(np.concatenate([_quantile(s, rank) for s in self.problem.samples]))
        places = places[(places >= self.drawn_range[0]) & (places <= self.drawn_range[1])]
        if places.size > _GRID:
            places = np.unique(places[np.linspace(0, places.size - 1, _GRID).astype(np.intp)])
        pad = 0.02 * float(places[-1] - places[0]) or 0.5
        return np.concatenate((places, [places[-1] + pad]))

    @cached_property
    def survival_curves(self) -> FloatArray:
        """The survival curve of each arm on the grid: the share of rewards above each point."""
        rows = []
        for s in self.problem.samples:
            below = np.concatenate(([0.0], np.cumsum(s.p)))
            rows.append(np.clip(1.0 - below[np.searchsorted(s.x, self.grid, side="right")], 0.0, 1.0))
        return np.array(rows)

    @property
    def linear_width(self) -> float:
        """0 for a linear scale of rewards; else where a logarithmic one begins, because few rewards are far away."""
        middles = [float(_quantile(s, 0.75) - _quantile(s, 0.25)) for s in self.problem.samples]
        grid = self.grid
        if max(middles) == 0.0:  # more than half of the rewards are the same: the others say the scale
            apart = [np.diff(np.quantile(s.x, (0.25, 0.75)))[0] for s in self.problem.samples if s.x.size > 3]
            middles = [float(max(apart, default=0.0))]
        return choose_scale([float(grid[0]), float(grid[-1])], middles).linear_width


def without_option_names(text: str) -> str:
    """A sentence on a table without the options of Python and of the command line.

    >>> without_option_names("Rewards such as '1,5' look like decimal commas: say so with decimal=',' (--decimal ,).")
    "Rewards such as '1,5' look like decimal commas: say so under “Change how it is read”."
    """
    return re.sub(r": say (?:so|which) with .*$", ": say so under “Change how it is read”.", text)


def new_upload_file(name: str) -> tuple[Path, Any]:
    """A place for a file that is dropped in: a folder of its own, and the open file. The name keeps its ending only."""
    folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
    suffix = "".join(Path(name).suffixes[-2:]) if name.lower().endswith(".gz") else Path(name).suffix
    suffix = suffix if suffix.replace(".", "").isalnum() else ""
    path = folder / f"{secrets.token_hex(8)}{suffix.lower()}"
    return path, path.open("wb")


def _quantile(sample: Sample, rank: Any) -> Any:
    """Quantiles of a sample at one or several ranks."""
    return sample.x[np.minimum(np.searchsorted(np.cumsum(sample.p), rank), sample.x.size - 1)]


def _text_option(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_validation.short(value)}.")
    return value if name == "thousands" else value.strip()


def _parse_support(given: Any) -> Support | None:
    """Where rewards can lie, as the page says it."""
    if not isinstance(given, Mapping) or given.get("kind") in (None, "", "unknown"):
        return None
    if given["kind"] == "binary":
        return Binary()
    if given["kind"] != "between":
        raise ValueError(f"rewards lie 'unknown', 'binary' or 'between', got {_validation.short(given['kind'])}.")
    lo, hi = given.get("lo"), given.get("hi")
    if lo in (None, "") or hi in (None, ""):
        raise ValueError("give both the least and the largest reward that is possible, or say that it is not known.")
    return Interval(_validation.number("the least reward", lo), _validation.number("the largest reward", hi))
