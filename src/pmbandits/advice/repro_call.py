"""The call that reproduces an advice: as lines of Python, and as a shell command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pmbandits import __version__
from pmbandits.supports import Binary, Interval

ADVISE_DEFAULTS: dict[str, Any] = {
    "arm": None, "reward": None, "unit": None, "time": None, "per": None, "wide": False, "sheet": None, "where": (),
    "since": None, "missing": None, "same_names": False, "distinct": False, "measured_in": "", "decimal": None,
    "thousands": "", "currency": "", "support": None, "shares": None, "level": 0.95, "splits": 16,
    "loss": None, "matters": 0.0, "weight": None, "propensity": None, "by": None,
    "segment": None,
}  # fmt: skip
"""The defaults of :func:`pmbandits.advise`, which the reproduced call leaves out."""


def python_call(data: Any, metric: Any, options: Mapping[str, Any]) -> str:
    """The Python code that reproduces an advice; options that have their default are left out.

    >>> print(python_call("log.csv", "gini", {"loss": True}).splitlines()[1])
    advice = pmb.advise('log.csv', 'gini', loss=True)
    """
    arguments = [repr(str(data)) if isinstance(data, (str, PurePath)) else "data", _python_literal(metric)]
    arguments += [
        f"{name}={_python_literal(value)}" for name, value in options.items() if value != ADVISE_DEFAULTS[name]
    ]
    return f"import pmbandits as pmb  # {__version__}\nadvice = pmb.advise({', '.join(arguments)})\nprint(advice)"


def call_to_repeat(data: Any, metric: Any, options: Mapping[str, Any]) -> str:
    """The Python code that reproduces an advice and, where a shell can say the same, the command as a comment below."""
    code, metrics = python_call(data, metric, options), [metric] if isinstance(metric, str) else metric
    plain = isinstance(metrics, Sequence) and all(isinstance(one, str) for one in metrics)
    support = options["support"] is None or isinstance(options["support"], (Binary, Interval))
    if not (
        plain and support and isinstance(data, (str, PurePath)) and isinstance(options["shares"], (str, type(None)))
    ):
        return code
    return f"{code}\n# In a shell: {shell_command(str(data), metrics, options)}"


def shell_command(data: str, metrics: Sequence[str], options: Mapping[str, Any], report: str = "") -> str:
    """The ``pmbandits advise`` command that reproduces an advice, quoted for a shell.

    >>> shell_command("my log.csv", ["upper_cvar(0.9)"], {"reward": "revenue", "wide": False})
    "pmbandits advise 'my log.csv' --metric 'upper_cvar(0.9)' --reward revenue"
    """
    argv = ["pmbandits", "advise", data]
    for metric in metrics:
        argv += ["--metric", metric]
    for name, value in options.items():
        if value == ADVISE_DEFAULTS[name]:
            continue
        if name in ("wide", "where", "missing") and isinstance(value, Sequence) and not isinstance(value, str):
            option = "--column" if name == "wide" else f"--{name}"
            argv += [word for one in value or ["none"] for word in (option, str(one))]
            continue
        argv.append(f"--{'no-' if value is False else ''}{name.replace('_', '-')}")
        if not isinstance(value, bool):
            argv.append(_shell_value(value))
    return shlex.join([*argv, *(["--out", report] if report else [])])


def _shell_value(value: Any) -> str:
    if isinstance(value, Binary):
        return "binary"
    if isinstance(value, Interval):
        return f"{value.lo:.17g},{value.hi:.17g}"
    return str(value)


def _python_literal(value: Any) -> str:
    """A value as a Python expression; classes of this library get the prefix ``pmb.``."""
    if isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_python_literal, value))}]"
    return re.sub(r"(?<![\w.'\"])([A-Z]\w*)\(", r"pmb.\1(", repr(value))
