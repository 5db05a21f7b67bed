"""Files ``spec.json`` beside a journal: what is played, readable, and the best mixtures, which are worked out once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits import __version__
from pmbandits._files import write_atomically
from pmbandits._validation import escape_control_characters, join_with_and, short_repr
from pmbandits.optimize import OracleResult
from pmbandits.simulation.prepare import Experiment

_MOST_DIFFERENCES = 3
_FOLLOWS = ("identity", "metric_text", "best", "trials")  # what follows from the rest of a specification, or may differ


Experiments = Mapping[
    tuple[str, str], Experiment
]  # by the names of problem and metric, which are empty for a single run


def spec_files(folder: Path, experiments: Experiments) -> list[Path]:
    """The files with the specifications; those of a study have numbers."""
    several = ("", "") not in experiments
    return [folder / (f"spec-{number}.json" if several else "spec.json") for number in range(len(experiments))]


def with_best_mixtures(path: Path, key: tuple[str, str], experiment: Experiment) -> Experiment:
    """The experiment with its best mixtures: those in the file, or else they are worked out and written to it.

    So a run that is killed again and again does not begin with the same work every time.
    """
    identity = experiment.identity_hash
    known = _read_spec_file(path)
    if known.get("identity") == identity:
        try:
            found = tuple(_oracle_result(one, experiment) for one in known["best"])
            if len(found) == len(experiment.periods):
                experiment = replace(experiment, find_best_mixtures=lambda: found)
        except (LookupError, TypeError, ValueError):  # damaged
            pass
    best = [{"value": float(one.value), "gap": float(one.gap) if one.certified else None, "best_arm": int(one.best_arm),
             "best_arm_value": float(one.best_arm_value), "method": one.method, "weights": one.weights.tolist()}
            for one in experiment.best_mixtures]  # fmt: skip
    content = {**_described(key, experiment), "best": best}
    if known != content:
        text = json.dumps(content, indent=1)
        write_atomically(path, lambda file: file.write(f"{text}\n".encode()))
    return experiment


def differences_from_files(folder: Path, experiments: Experiments) -> str:
    """What differs between experiments and the specifications in a folder, in a few words; empty if nothing is seen."""
    found: list[str] = []
    for path, (key, experiment) in zip(spec_files(folder, experiments), experiments.items(), strict=True):
        if known := _read_spec_file(path):
            before, now = ({name: value for name, value in spec.items() if name not in _FOLLOWS}
                           for spec in (known, _described(key, experiment)))  # fmt: skip
            found += _differences(before, now)
    distinct = list(dict.fromkeys(found))
    more = [f"{len(distinct) - _MOST_DIFFERENCES} more"] if len(distinct) > _MOST_DIFFERENCES else []
    return escape_control_characters(join_with_and([*distinct[:_MOST_DIFFERENCES], *more]) if distinct else "")


def _described(key: tuple[str, str], experiment: Experiment) -> dict[str, Any]:
    what = {"library": __version__, "identity": experiment.identity_hash}
    names = {} if key == ("", "") else {"problem": key[0], "name_of_metric": key[1]}
    return dict(json.loads(json.dumps({**what, **names, **experiment.spec})))  # as it is read again


def _read_spec_file(path: Path) -> dict[str, Any]:
    """The content of a file; nothing if it is not there, or damaged."""
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _oracle_result(kept: dict[str, Any], experiment: Experiment) -> OracleResult:
    weights = np.array(kept["weights"], dtype=np.float64)
    if not (np.isfinite(weights).all() and np.isfinite(float(kept["value"]))):
        raise ValueError("numbers")
    gap = kept["gap"]
    return OracleResult(
        weights=weights, value=float(kept["value"]), gap=np.nan if gap is None else float(gap),
        certified=gap is not None, best_arm=int(kept["best_arm"]), best_arm_value=float(kept["best_arm_value"]),
        unique=None, alternative=None, method=str(kept["method"]), names=experiment.bandit.names,
    )  # fmt: skip


def _differences(known: Any, given: Any, path: str = "") -> Iterator[str]:
    """Where two specifications differ, in words, with the path to it in the file."""
    if isinstance(known, dict) and isinstance(given, dict):
        for name in dict.fromkeys([*known, *given]):
            if name != "code":
                yield from _differences(known.get(name), given.get(name), f"{path}.{name}" if path else name)
            elif known.get(name) != given.get(name):
                yield f"the code of {given.get('label', path)}, or something of yours that it uses, has changed"
    elif _are_tables(known) and _are_tables(given) and len(known) == len(given):
        for number, (one, other) in enumerate(zip(known, given, strict=True)):
            yield from _differences(one, other, f"{path}[{other.get('label', number)}]")
    elif known != given:
        yield f"{path} was {short_repr(known)} and is now {short_repr(given)}"


def _are_tables(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, dict) for one in given)
