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
from pmbandits.advice.curves import RewardCurves
from pmbandits.advice.preview import Preview
from pmbandits.advice.problem import Problem, make_problem
from pmbandits.constraints import Limits, limits
from pmbandits.logs import ReadSettings, SniffedTable, read_log, sniff, sounds_like_loss
from pmbandits.supports import Binary, Interval, Support

_OPTIONS = (
    "arm", "reward", "unit", "time", "per", "decimal", "thousands", "currency", "sheet", "where", "since",
    "measured_in", "weight", "propensity", "by", "segment",
)  # fmt: skip


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
        with self._errors_with_upload_name():
            self.sniff: SniffedTable = sniff(path)
        if not self.sniff.rows:
            self.read_error = f"{name} has no rows below its first line."
        elif not any(self.sniff.numeric):
            self.read_error = f"No column of {name} holds numbers, and rewards must be numbers."

    @contextmanager
    def _errors_with_upload_name(self) -> Iterator[None]:
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
        params |= {name: True for name in ("same_names", "distinct") if options.get(name)}
        if (missing := _text_option(options, "missing")) != "":
            params["missing"] = _parse_missing(missing)
        by, segment = params.pop("by", None), params.pop("segment", None)
        matters = _text_option(options, "matters").replace(",", ".")
        self._take_sheet(params)
        params["wide"] = self._parse_wide_option(options.get("wide"), params)
        if params["wide"]:
            params.pop("arm", None), params.pop("reward", None)
        loss = bool(options.get("loss"))
        support = _parse_support(options.get("range"))
        with self._errors_with_upload_name():
            log = read_log(self.path, settings=ReadSettings(**params), loss=loss)
            problem = make_problem(log, support, loss=loss)
        self.problem: Problem = problem
        self.preview = Preview(problem, loss)
        if by is not None and segment is not None:
            raise ValueError("choose a column for one more answer each, or for a choice by it, but not both.")
        column = segment if by is None else by
        if column is not None and column in (log.arm_column, log.reward_column):
            raise ValueError(f"groups cannot be those of “{column}”, which is compared itself; choose another column.")
        least = _validation.check_within("the smallest difference that matters", float(matters or 0.0), 0.0, 1e300)
        self.params = {**params, "support": support, "loss": loss, "matters": least, "by": by, "segment": segment}
        self.read_error = ""
        self._limits: dict[Any, Limits | None] = {}
        self.curves = RewardCurves(problem.samples, loss)
        self.__dict__.pop("means", None)

    def read_if_unambiguous(self, options: Mapping[str, Any]) -> None:
        """Read the file if it is clear which columns are meant; else keep why that failed."""
        guess = self.sniff
        if guess.sure and not self.read_error:
            wide = list(guess.arms) if guess.wide else False
            try:
                said = {"arm": guess.arm, "reward": guess.reward, "wide": wide}
                said |= {name: getattr(guess, name) for name in ("decimal", "thousands", "currency")}
                self.read({**said, "loss": self.guessed_loss, **options})
            except ValueError as error:
                self.params, self.read_error = {}, str(error)

    def _take_sheet(self, params: dict[str, Any]) -> None:
        """Look at another sheet of a workbook, if the page names one; columns that it does not have are guessed."""
        if params.get("sheet") == self.params.get("sheet"):
            return
        with self._errors_with_upload_name():
            self.sniff = sniff(self.path, params.get("sheet"))
        for name in ("arm", "reward"):
            if params.get(name) not in self.sniff.columns and getattr(self.sniff, name) is not None:
                params[name] = getattr(self.sniff, name)

    def _parse_wide_option(self, given: Any, params: Mapping[str, Any]) -> bool | list[str]:
        """Whether columns are arms, or which of them."""
        if given is None or isinstance(given, bool):
            return bool(given)
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise ValueError(
                f"wide must be true, or a list of the columns that are arms, got {_validation.short_repr(given)}."
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
    def guessed_loss(self) -> bool:
        """Whether the column of rewards is called as if smaller numbers were better."""
        return sounds_like_loss(self.sniff.reward or "")

    @property
    def question_on_columns(self) -> str:
        """What is asked where it is not clear which columns are meant."""
        found = self.sniff
        if found.sure:
            return ""
        parts = []
        if not found.arm_sure and not found.wide:
            parts.append(
                f"Which column says what was chosen? It could be {' or '.join(found.arm_candidates) or 'any'}."
            )
        if not found.reward_sure and not found.wide:
            parts.append(f"Which one has the result? It could be {' or '.join(found.reward_candidates) or 'any'}.")
        return " ".join(parts) or "Which columns are things to choose from? Tick them."

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
                raise ValueError(
                    f"the limits of {_validation.short_repr(name)} must be the least and the largest share."
                )
            low, high = (_validation.check_within(f"a limit of {name}", end, 0.0, 100.0) / 100.0 for end in pair)
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


def without_option_names(text: str) -> str:
    """A sentence on a table without the options of Python and of the command line.

    >>> without_option_names("Rewards such as '1,5' look like decimal commas: say so with decimal=',' (--decimal ,).")
    "Rewards such as '1,5' look like decimal commas: say so under “Change how it is read”."
    """
    return re.sub(r": say (?:so|which) with .*$", ": say so under “Change how it is read”.", text)


def create_upload_file(name: str) -> tuple[Path, Any]:
    """A place for a file that is dropped in: a folder of its own, and the open file. The name keeps its ending only."""
    folder = Path(tempfile.mkdtemp(prefix="pmbandits-studio-"))
    suffix = "".join(Path(name).suffixes[-2:]) if name.lower().endswith(".gz") else Path(name).suffix
    suffix = suffix if suffix.replace(".", "").isalnum() else ""
    path = folder / f"{secrets.token_hex(8)}{suffix.lower()}"
    return path, path.open("wb")


def _text_option(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_validation.short_repr(value)}.")
    return value if name == "thousands" else value.strip()


def _parse_missing(text: str) -> list[float]:
    """Numbers that stand for "not known"; none for the word none."""
    try:
        return [float(part) for part in text.replace(";", " ").split() if part.lower() != "none"]
    except ValueError:
        raise ValueError(f"numbers for “not known” are such as 999999, or none, got {text!r}.") from None


def _parse_support(given: Any) -> Support | None:
    """Where rewards can lie, as the page says it."""
    if not isinstance(given, Mapping) or given.get("kind") in (None, "", "unknown"):
        return None
    if given["kind"] == "binary":
        return Binary()
    if given["kind"] != "between":
        raise ValueError(f"rewards lie 'unknown', 'binary' or 'between', got {_validation.short_repr(given['kind'])}.")
    lo, hi = given.get("lo"), given.get("hi")
    if lo in (None, "") or hi in (None, ""):
        raise ValueError("give both the least and the largest reward that is possible, or say that it is not known.")
    return Interval(
        _validation.check_number("the least reward", lo), _validation.check_number("the largest reward", hi)
    )
