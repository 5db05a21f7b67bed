"""How to get the same advice again: as lines of Python, and as a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pmbandits import __version__
from pmbandits.supports import Binary, Interval

DEFAULTS: dict[str, Any] = {
    "arm": "arm", "reward": "reward", "unit": None, "time": None, "per": None, "wide": False, "decimal": ".",
    "thousands": "", "currency": "", "support": None, "shares": None, "level": 0.95, "splits": 16, "seed": 0,
    "loss": False,
}  # fmt: skip
"""The defaults of :func:`pmbandits.advise`, which need not be said."""


def in_python(data: Any, metric: Any, asked: Mapping[str, Any]) -> str:
    """The call that gives the same advice again; what has its default is left out.

    >>> print(in_python("log.csv", "gini", {"loss": True}).splitlines()[1])
    advice = pmb.advise('log.csv', 'gini', loss=True)
    """
    said = [repr(str(data)) if isinstance(data, (str, PurePath)) else "data", _written(metric)]
    said += [f"{name}={_written(value)}" for name, value in asked.items() if value != DEFAULTS[name]]
    return f"import pmbandits as pmb  # {__version__}\nadvice = pmb.advise({', '.join(said)})\nprint(advice)"


def as_command(data: str, metrics: Sequence[str], asked: Mapping[str, Any], report: str = "") -> str:
    """The command that gives the same advice again, as a shell takes it.

    >>> as_command("my log.csv", ["cvar(0.9)"], {"reward": "revenue", "wide": False})
    "pmbandits advise 'my log.csv' --metric 'cvar(0.9)' --reward revenue"
    """
    words = ["pmbandits", "advise", data]
    for metric in metrics:
        words += ["--metric", metric]
    for name, value in asked.items():
        if value == DEFAULTS[name]:
            continue
        if name == "wide" and value is not True:
            words += [word for column in value for word in ("--column", column)]
            continue
        words.append(f"--{name}")
        if value is not True:
            words.append(_option(value))
    return shlex.join([*words, *(["--out", report] if report else [])])


def _option(value: Any) -> str:
    if isinstance(value, Binary):
        return "binary"
    if isinstance(value, Interval):
        return f"{value.lo:.17g},{value.hi:.17g}"
    return str(value)


def _written(value: Any) -> str:
    """As it is written in Python, with the names of the library."""
    if isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_written, value))}]"
    return re.sub(r"(?<![\w.'\"])([A-Z]\w*)\(", r"pmb.\1(", repr(value))
