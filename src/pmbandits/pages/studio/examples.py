"""Tables to try the studio with: made up, the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

EXAMPLES = {
    "scouts": "A club: how good (0 to 100) the players were that scouts found in 3 kinds of places. Only the best "
    "10 % are taken on. Here a mixture is best.",
    "shop": "A shop: what 4 offers earned with each of 8,000 visitors. Most visitors buy nothing.",
    "savings": "Savings: what 4 ways to invest brought in each of 600 months, in percent.",
}
INITIAL_STATE = {"scouts": {"say": "go for the best 10 %", "range": {"kind": "between", "lo": 0.0, "hi": 100.0}}}
"""With what an example begins: a preference, and where rewards can lie."""


def write_example_csv(name: str, folder: Path) -> Path:
    """Write one of the examples as a CSV file."""
    if name not in EXAMPLES:
        raise ValueError(f"there is no example {name!r}; there are: {', '.join(EXAMPLES)}.")
    path = folder / f"{name}.csv"
    path.write_text(
        {"scouts": _scouts_example_csv, "shop": _shop_example_csv, "savings": _savings_example_csv}[name](),
        encoding="utf-8",
    )
    return path


def _scouts_example_csv() -> str:
    """Schools have many good players, streets few, but these are brilliant; camps lie between."""
    rng = np.random.default_rng(3)
    places = {
        "schools": ((0.25, 66.0, 3.0), (0.75, 42.0, 8.0)),
        "streets": ((0.06, 92.0, 3.0), (0.94, 25.0, 9.0)),
        "camps": ((0.30, 60.0, 4.0), (0.70, 45.0, 6.0)),
    }
    names = list(places)
    lines = ["trip,place,score"]
    for trip in range(9_000):
        name = names[int(rng.integers(len(names)))]
        kinds = places[name]
        _, middle, spread = kinds[int(rng.random() >= kinds[0][0])]
        lines.append(f"{trip},{name},{min(max(rng.normal(middle, spread), 0.0), 100.0):.1f}")
    return "\n".join(lines) + "\n"


def _shop_example_csv() -> str:
    rng = np.random.default_rng(7)
    offers = {"no offer": (0.11, 2.8, 0.5), "free shipping": (0.15, 2.75, 0.45), "ten off": (0.21, 2.45, 0.5),
              "bundle": (0.028, 4.45, 0.35)}  # fmt: skip
    lines = ["visitor,day,offer,revenue"]
    names, first = list(offers), np.datetime64("2026-03-02")  # a Monday
    for visitor in range(8_000):
        name = names[int(rng.integers(len(names)))]
        chance, size, spread = offers[name]
        paid = float(rng.lognormal(size, spread)) if rng.random() < chance else 0.0
        lines.append(f"{visitor},{first + np.timedelta64(visitor // 100, 'D')},{name},{paid:.2f}")
    return "\n".join(lines) + "\n"


def _savings_example_csv() -> str:
    rng = np.random.default_rng(11)
    months = 600

    table = {
        "deposit": rng.normal(0.20, 0.03, months),
        "bonds": rng.normal(0.34, 0.14, months),
        "shares": rng.normal(0.50, 0.37, months),
        "start-ups": rng.normal(0.63, 0.83, months),
    }
    lines = ["month,way,gain"]
    for month in range(months):
        lines += [f"{month + 1},{name},{values[month]:.3f}" for name, values in table.items()]
    return "\n".join(lines) + "\n"
