"""What the user did not say about a table: which columns are meant, and how decimals are written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits._validation import escape_control_characters
from pmbandits.logs.columns import ReadSettings
from pmbandits.logs.conditions import parse_condition
from pmbandits.logs.findings import Finding
from pmbandits.logs.sniff import SNIFFED_ROWS, SniffedTable, sniff, sniff_rows


class UnclearColumnsError(ValueError):
    """Several columns could be meant; ``unclear`` has the candidates for the arm, the reward, or both."""

    def __init__(self, source: str, found: SniffedTable, settings: ReadSettings) -> None:
        self.columns, self.unclear = found.columns, dict[str, list[str]]()
        parts, words, code = [], [], []
        for name, what, sure, candidates in (
            ("arm", "says what was chosen (the arm)", found.arm_sure, found.arm_candidates),
            ("reward", "has the result (the reward, a number)", found.reward_sure, found.reward_candidates),
        ):
            likely = [c for c in candidates if c not in (settings.arm, settings.reward)]
            if getattr(settings, name) is not None or (sure and likely[:1] == list(candidates[:1])):
                continue
            self.unclear[name] = likely
            parts.append(f"{what}: {_join_with_or(likely) or 'none looks like it'}")
            first = likely[0] if likely else "NAME"
            words.append(f"--{name} {shlex.quote(first)}")
            code.append(f"{name}={first!r}")
        listed = ", ".join(found.columns[:20]) + (", …" if len(found.columns) > 20 else "")
        super().__init__(
            f"{source}: which column {'; and which '.join(parts)}? Say it, for example with {' '.join(words)} "
            f"({', '.join(code)} in Python). The columns are: {escape_control_characters(listed)[:500]}."
        )


def _join_with_or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def fill_in_settings(data: Any, settings: ReadSettings) -> tuple[ReadSettings, list[Finding]]:
    """The settings with what was not said filled in, and what was assumed; an error if columns are not clear."""
    source = Path(data).name if isinstance(data, (str, Path)) else "the table"
    found = _sniff_any(data, settings)
    if found is None:
        return settings, []
    findings: list[Finding] = []
    if settings.decimal is None and found.decimal == "," and not settings.thousands:
        settings = replace(settings, decimal=",")
        change = "If commas stand between thousands: --thousands , (thousands=',' in Python)."
        findings.append(Finding("decimals", "Numbers are written with commas.", "They were read as decimals.", change))
    if settings.since is not None:
        settings = _since_as_condition(settings, found, source)
    if settings.wide is False:
        named = {name.strip().lower(): name for name in found.columns}
        arm, reward = (name and named.get(name.strip().lower(), name) for name in (settings.arm, settings.reward))
        settings = replace(settings, arm=arm, reward=reward)
        if arm is None or reward is None:
            settings, more = _resolve_columns(settings, found, named, source)
            findings += more
    return settings, findings


def _sniff_any(data: Any, settings: ReadSettings) -> SniffedTable | None:
    """The first rows of a file or a frame; ``None`` for a dict, and for a stream, which can be read only once."""
    if isinstance(data, (str, Path)):
        return sniff(data, settings.sheet)
    names = getattr(data, "column_names", None)
    names = getattr(data, "columns", None) if names is None else names
    if isinstance(data, Mapping) or names is None or callable(names) or not hasattr(data, "__len__"):
        return None
    columns = [np.asarray(data[name][:SNIFFED_ROWS]).tolist() for name in names]
    return sniff_rows(list(map(str, names)), list(zip(*columns, strict=True)))


def _since_as_condition(settings: ReadSettings, found: SniffedTable, source: str) -> ReadSettings:
    dates = [name for name, is_date in zip(found.columns, found.dates, strict=True) if is_date]
    column = settings.time or (dates[0] if len(dates) == 1 else None)
    if column is None:
        could = f"it could be {_join_with_or(dates)}" if dates else "no column has dates"
        raise ValueError(f"{source}: since={settings.since!r} needs the column that says when: --time NAME; {could}.")
    condition = f"{column} >= {settings.since}"
    parse_condition(condition)
    said = [settings.where] if isinstance(settings.where, str) else settings.where
    return replace(settings, where=(*said, condition), since=None)


def _resolve_columns(
    settings: ReadSettings, found: SniffedTable, named: Mapping[str, str], source: str
) -> tuple[ReadSettings, list[Finding]]:
    """Columns called arm and reward are meant if they are there; else those that look like it, if that is clear."""
    arm, reward = settings.arm or named.get("arm"), settings.reward or named.get("reward")
    if arm is not None and reward is not None:
        return replace(settings, arm=arm, reward=reward), []
    if arm is None and reward is None and found.wide and found.sure:
        done = f"Each column was taken as one of the things to choose from: {', '.join(found.arms)}."
        change = "If rows say what was chosen: --arm NAME --reward NAME (arm=, reward= in Python)."
        return replace(settings, wide=list(found.arms)), [Finding("columns", "No columns were named.", done, change)]
    guessed = []
    if arm is None:
        if not found.arm_sure or found.arm == reward:
            raise UnclearColumnsError(source, found, settings)
        arm = str(found.arm)
        guessed.append(f"“{arm}” for what was chosen")
    if reward is None:
        if not found.reward_sure or found.reward in (arm, None):
            raise UnclearColumnsError(source, found, settings)
        reward = str(found.reward)
        guessed.append(f"“{reward}” for the result")
    seen = f"The table has {len(found.columns)} columns, and not all were named."
    change = "To change it: --arm NAME --reward NAME (arm=, reward= in Python)."
    return replace(settings, arm=arm, reward=reward), [
        Finding("columns", seen, f"It took {' and '.join(guessed)}.", change)
    ]
