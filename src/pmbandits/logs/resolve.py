"""What the user did not say about a table: which columns are meant, and how decimals are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pmbandits._validation import escape_control_characters
from pmbandits.logs.columns import ReadSettings
from pmbandits.logs.conditions import parse_condition
from pmbandits.logs.findings import Finding
from pmbandits.logs.sniff import SNIFFED_ROWS, SniffedTable, sniff, sniff_rows


def candidates_for_unclear_columns(found: SniffedTable, settings: ReadSettings) -> dict[str, list[str]]:
    """For the arm and the reward, if it is not clear which column is meant: the candidates, the likeliest first."""
    out = {}
    for name, sure, candidates in (
        ("arm", found.arm_sure, found.arm_candidates),
        ("reward", found.reward_sure, found.reward_candidates),
    ):
        likely = [c for c in candidates if c not in (settings.arm, settings.reward)]
        if getattr(settings, name) is None and not (sure and likely[:1] == list(candidates[:1])):
            out[name] = likely
    return out


class UnclearColumnsError(ValueError):
    """No column looks like what was chosen, or like the result."""

    def __init__(self, source: str, found: SniffedTable, settings: ReadSettings) -> None:
        what = {"arm": "says what was chosen (the arm)", "reward": "has the result (the reward, a number)"}
        none = {
            name: text for name, text in what.items() if candidates_for_unclear_columns(found, settings).get(name) == []
        }
        listed = ", ".join(found.columns[:20]) + (", …" if len(found.columns) > 20 else "")
        wide = "If each column is one of the things to choose from: --wide (wide=True in Python). "
        super().__init__(
            f"{source}: which column {' and which '.join(none.values())}? None looks like it. Say it with "
            f"{' '.join(f'--{name} NAME' for name in none)} ({', '.join(f'{name}=NAME' for name in none)} in Python). "
            f"{wide if found.wide else ''}The columns are: {escape_control_characters(listed)[:500]}."
        )


def _join_with_or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def fill_in_settings(data: Any, settings: ReadSettings) -> tuple[ReadSettings, list[Finding], list[str]]:
    """The settings with what was not said filled in, what was assumed, and the columns with dates.

    Raises an error if no column fits.
    """
    source = Path(data).name if isinstance(data, (str, Path)) else "the table"
    found = _sniff_any(data, settings)
    if found is None:
        return settings, [], []
    findings: list[Finding] = []
    said = settings.decimal, settings.thousands, settings.currency
    if settings.decimal is None and not settings.thousands and (found.decimal, found.thousands) != (".", ""):
        settings = replace(settings, decimal=found.decimal, thousands=found.thousands)
    if not settings.currency and found.currency:
        settings = replace(settings, currency=found.currency)
    if (settings.decimal, settings.thousands, settings.currency) != said:
        findings.append(_number_format_finding(settings))
    if settings.since is not None:
        settings = _since_as_condition(settings, found, source)
    if settings.wide is True:
        used = {settings.unit, settings.time, *(condition.column for condition in settings.conditions)}
        arms = [name for name in found.arms if name not in used]
        if len(arms) > 1:
            settings = replace(settings, wide=arms)
            findings.append(_wide_finding(found, arms, used))
    elif settings.wide is False:
        named = {name.strip().lower(): name for name in found.columns}
        arm, reward = (name and named.get(name.strip().lower(), name) for name in (settings.arm, settings.reward))
        settings = replace(settings, arm=arm, reward=reward)
        if arm is None or reward is None:
            settings, more = _resolve_columns(settings, found, named, source)
            findings += more
        findings += _check_censoring(settings, found)
    return settings, findings, [name for name, is_date in zip(found.columns, found.dates, strict=True) if is_date]


def _sniff_any(data: Any, settings: ReadSettings) -> SniffedTable | None:
    """The first rows of a file or a frame; ``None`` for a dict, and for a stream, which can be read only once."""
    if isinstance(data, (str, Path)):
        return sniff(data, settings.sheet, settings.reward)
    names = getattr(data, "column_names", None)
    names = getattr(data, "columns", None) if names is None else names
    if isinstance(data, Mapping) or names is None or callable(names) or not hasattr(data, "__len__"):
        return None
    columns = [np.asarray(data[name][:SNIFFED_ROWS]).tolist() for name in names]
    return sniff_rows(list(map(str, names)), list(zip(*columns, strict=True)), settings.reward)


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
    """Columns called arm and reward are meant if they are there; else those that look most like it."""
    arm, reward = settings.arm or named.get("arm"), settings.reward or named.get("reward")
    if arm is not None and reward is not None:
        return replace(settings, arm=arm, reward=reward), []
    if arm is None and reward is None and found.wide and found.sure:
        finding = _wide_finding(found, found.arms, {settings.unit, settings.time})
        other = " If rows say what was chosen: --arm NAME --reward NAME (arm=, reward= in Python)."
        assumed = replace(finding, kind="columns assumed", change=finding.change + other)
        return replace(settings, wide=list(found.arms)), [assumed]
    unclear = candidates_for_unclear_columns(found, settings)
    arm = arm or next((c for c in found.arm_candidates if c != reward), None)
    reward = reward or next((c for c in found.reward_candidates if c != arm), None)
    if arm is None or reward is None:
        raise UnclearColumnsError(source, found, settings)
    guessed = []
    for name, taken, what in (("arm", arm, "what was chosen"), ("reward", reward, "the result")):
        if getattr(settings, name) is None:
            others = [c for c in unclear.get(name, ()) if c not in (arm, reward)][:3]
            guessed.append(f"“{taken}” for {what}{f' (or is it {_join_with_or(others)}?)' if others else ''}")
    seen = "It is not clear which columns are meant." if unclear else "Not all columns were named."
    change = "To change it: --arm NAME --reward NAME (arm=, reward= in Python)."
    kind = "columns assumed" if unclear else "columns"
    return replace(settings, arm=arm, reward=reward), [Finding(kind, seen, f"It took {' and '.join(guessed)}.", change)]


def _wide_finding(found: SniffedTable, arms: Sequence[str], used: Collection[str | None]) -> Finding:
    """Which columns of a wide table are arms, and which are not."""
    seen = f"Each column was taken as one of the things to choose from: {', '.join(arms)}."
    left = [f"{name} (it sums up the others)" if name in found.totals else name for name in found.columns]
    left = [text for text, name in zip(left, found.columns, strict=True) if name not in (*arms, *used)]
    done = f"Left out: {', '.join(left)}." if left else ""
    change = "To change it, name each of them: --column NAME (wide=[NAME, …] in Python)."
    return Finding("columns", escape_control_characters(seen), escape_control_characters(done), change)


def _check_censoring(settings: ReadSettings, found: SniffedTable) -> Iterator[Finding]:
    """A finding if the rewards are times, of which another column says that some were still going on."""
    said = [settings.where] if isinstance(settings.where, str) else settings.where
    if not found.event or settings.reward != found.event_time or any(found.event in condition for condition in said):
        return
    yield Finding(
        "censoring",
        f"“{found.event}” seems to say which of the times ended, and which were still going on (censored).",
        "They were taken as if all had ended. So averages are too short, and the arms cannot be compared fairly.",
        f"If all of them have ended, say so: --where '{found.event} >= 0' (where= in Python).",
    )


def _number_format_finding(settings: ReadSettings) -> Finding:
    parts = [f"“{settings.decimal or '.'}” as the decimal sign"]
    parts += [f"“{settings.thousands}” between thousands"] if settings.thousands else []
    parts += [f"all of them in {settings.currency}"] if settings.currency else []
    change = "If that is wrong: --decimal, --thousands, --currency (decimal=, thousands=, currency= in Python)."
    return Finding("decimals", f"Numbers were read with {', '.join(parts)}.", "", change)
