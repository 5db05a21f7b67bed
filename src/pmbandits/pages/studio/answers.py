"""From a question of the studio's page to numbers and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.advice.again import as_command, in_python
from pmbandits.advice.spoken import spoken
from pmbandits.limits import Limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.pages.studio import examples, sentences, ties
from pmbandits.pages.studio.sliders import described, written
from pmbandits.pages.studio.table import Table, for_people
from pmbandits.palette import colour
from pmbandits.plots import distortion_line
from pmbandits.supports import Binary

_DRAWN = 10  # arms in a chart
_LISTED = 60  # arms in a table
_MOST_METRICS = 8  # side by side
_STEPS = 21  # of a slider whose whole way is shown
_CLOSER, _CLOSE, _JUMP = 48, 0.004, 0.2  # more steps where shares jump; how close they come; a share that is a jump


def overview(table: Table) -> dict[str, Any]:
    """What the page shows of a table before any question."""
    first = table.peek
    out: dict[str, Any] = {
        "name": table.name,
        "columns": first.columns,
        "numeric": first.numeric,
        "dates": first.dates,
        "rows": first.rows,
        "guess": {
            "arm": first.arm,
            "reward": first.reward,
            "wide": first.wide,
            "arms": first.arms,
            "decimal": first.decimal,
            "sure": first.sure,
        },
        "why": table.trouble,
        "own": bool(table.example),
        "begin": examples.BEGIN.get(table.example, {}).get("say", ""),
        "when": table.when,
        "read": None,
    }
    if not table.is_read:
        return out
    log, support = table.problem.log, table.asked["support"]
    out["asked"] = {
        **{name: value for name, value in table.asked.items() if name != "support"},
        "range": "unknown" if support is None else "binary" if isinstance(support, Binary) else "between",
        "ends": None if support is None else [support.lo, support.hi],
    }
    out["read"] = {
        "rows": log.rows,
        "used": log.used,
        "outcomes": log.outcomes,
        "per": log.per,
        "outcome": sentences.outcome(table),
        "outcomes_can_be": sentences.outcomes(table),
        "account": for_people(log.account()),
        "examples": [str(bad) for bad in log.examples],
        "arms": [
            {"name": a.name, "n": a.n, "mean": float(a.x @ a.p), "colour": colour(k)}
            for k, a in enumerate(log.arms[:_LISTED])
        ],
        "count": len(log.arms),
        "bend": table.bend,
        "undrawn": _undrawn(table),
        "support": [table.problem.support.lo, table.problem.support.hi],
        "declared": table.problem.declared,
    }
    return out


def _undrawn(table: Table) -> str:
    """Which rewards are too far away to be drawn."""
    (low, high), samples = table.ends, table.problem.samples
    least, most = min(float(s.x[0]) for s in samples), max(float(s.x[-1]) for s in samples)
    said = [f"down to {least:,.4g}"] if least < low else []
    said += [f"up to {most:,.4g}"] if most > high else []
    return f"A few rewards {' and '.join(said)} are not drawn." if said else ""


def look(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The quick answer, for somebody who moves a slider."""
    start = perf_counter()
    metric, limits = _metric(asked.get("metric")), table.limits(asked.get("limits"))
    seen = table.glance.look(metric, limits)
    names = table.names
    same = ties.tied(seen, limits)
    order = sorted(range(len(names)), key=lambda k: (-seen.weights[k], -seen.singles[k]))
    drawn = sorted(order[:_DRAWN])
    mixed = seen.weights @ table.above
    curves = np.vstack((table.above[drawn], mixed[None]))
    if (seen.weights > 0.0).sum() == 1:  # a mixture of one arm has the curve of that arm
        curves = curves[:-1]
    with np.errstate(all="ignore"):
        bent = np.asarray(metric._h(curves.ravel())).reshape(-1, table.grid.size)
    u, h = distortion_line(metric)
    few = np.unique(np.concatenate((np.linspace(0, u.size - 1, 120).astype(np.intp), np.flatnonzero(np.isnan(h)))))
    rank = np.linspace(1.0, 0.0, 101)
    at = np.asarray(metric(rank), dtype=np.float64)
    return {
        "text": written(metric),
        "words": spoken(metric),
        "bends": sentences.BENDS[metric.shape],
        "curve": {"u": u[few], "h": h[few]},
        "attention": {"q": np.linspace(0.5, 99.5, 100), "w": (at[:-1] - at[1:]) * 100.0},
        "tie": ties.explained(table, metric, seen, same) if same else None,
        "arms": [
            {
                "place": k,
                "name": names[k],
                "colour": colour(k),
                "share": None if same else seen.weights[k],
                "worth": seen.singles[k],
                "mean": table.means[k],
                "n": table.problem.log.arms[k].n,
            }
            for k in order[:_LISTED]
        ],
        "more": max(len(names) - _LISTED, 0),
        "worth": seen.value,
        "average": float(seen.weights @ table.means),
        "best": {"name": names[seen.best_arm], "place": seen.best_arm, "worth": float(seen.singles.max())},
        "gain": seen.gain,
        "sentence": sentences.play(names, seen.weights),
        "gives": sentences.worth(names, seen, table.means, metric),
        "price": sentences.price(names, seen, limits, metric),
        "limits": None
        if limits is None
        else {"text": str(limits), "cost": seen.cost, "unlimited": seen.unlimited, "sentence": sentences.cost(seen)},
        "drawn": drawn,
        "grid": table.grid,
        "above": curves,
        "bent": bent,
        "again": again(table, _with_kept(metric, asked.get("kept")), limits, asked),
        "ms": 1e3 * (perf_counter() - start),
    }


def why(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Why a mixture is best; it is asked for when nobody moves a slider any more."""
    metric, limits = _metric(asked.get("metric")), table.limits(asked.get("limits"))
    return {"why": sentences.why(table, table.glance.look(metric, limits), metric, limits)}


def way(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The best shares along a slider, from one preference (``from``) to another (``to``), and where they jump."""
    one, two = _metric(asked.get("from")), _metric(asked.get("to"))
    limits = table.limits(asked.get("limits"))

    def at(place: float) -> FloatArray | None:
        seen = table.glance.look(_between(one, two, place), limits)
        return None if ties.tied(seen, limits) else seen.weights

    found = [(float(v), at(float(v))) for v in np.linspace(0.0, 1.0, _STEPS)]
    steps, shares = [v for v, w in found if w is not None], [w for _, w in found if w is not None]
    if not steps:  # nowhere along this slider the arms can be told apart
        return {"steps": [], "arms": [], "changes": ""}
    left, k = _CLOSER, 0
    while k < len(steps) - 1:  # where the choice changes much, it is looked at more closely
        if left and steps[k + 1] - steps[k] > _CLOSE and float(np.abs(shares[k + 1] - shares[k]).max()) > _JUMP:
            left -= 1
            middle = round(0.5 * (steps[k] + steps[k + 1]), 6)
            between = at(middle)
            steps.insert(k + 1, middle)
            shares.insert(k + 1, shares[k] if between is None else between)
        else:
            k += 1
    every = np.array(shares)
    used = [int(k) for k in np.argsort(-every.max(axis=0), kind="stable")[:_DRAWN] if every[:, k].max() > 0.0]
    return {
        "steps": 100.0 * np.array(steps),
        "arms": [{"name": table.names[k], "colour": colour(k), "shares": 100.0 * every[:, k]} for k in sorted(used)],
        "changes": _changes(table.names, steps, every),
    }


def _changes(names: Sequence[str], steps: Sequence[float], shares: FloatArray) -> str:
    """Where the choice jumps, in a sentence."""
    said = []
    for k in np.flatnonzero(np.abs(np.diff(shares, axis=0)).max(axis=1) > _JUMP).tolist():
        one, two = (sentences.mixed(names, shares[j]) for j in (k, k + 1))
        said.append(f"at {100.0 * steps[k + 1]:.3g} % from {one} to {two}")
    if not said:
        same = float(np.ptp(shares, axis=0).max()) == 0.0
        return "The choice is the same everywhere." if same else "The choice changes little by little, without a jump."
    return f"The choice jumps {', '.join(said[:6])}{' and so on' if len(said) > 6 else ''}."


def _between(one: Distortion, two: Distortion, share: float) -> Distortion:
    if share in (0.0, 1.0):
        return two if share else one
    return round(1.0 - share, 6) * one + round(share, 6) * two


def compare(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Several preferences side by side, each within its limits: what each would play, and what others think of it."""
    rows = asked.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("give the preferences to compare as rows, each with its limits.")
    metrics = _metrics([row.get("metric") for row in rows])
    limits = [table.limits(row.get("limits")) for row in rows]
    seen = [table.glance.look(metric, kept) for metric, kept in zip(metrics, limits, strict=True)]
    worth = [[table.glance.worth(metric, other.weights) for other in seen] for metric in metrics]
    used = [k for k in range(len(table.names)) if any(s.weights[k] > 0.0 for s in seen)]
    return {
        "arms": [{"name": table.names[k], "colour": colour(k)} for k in used],
        "rows": [
            {
                "text": written(metric),
                "words": spoken(metric),
                "limits": "" if kept is None else str(kept),
                "shares": [float(s.weights[k]) for k in used],
                "plays": sentences.mixed(table.names, s.weights) if not ties.tied(s, kept) else "it cannot choose",
                "worth": s.value,
                "average": float(s.weights @ table.means),
                "best": table.names[s.best_arm],
                "best_worth": float(s.singles.max()),
                "gain": s.gain,
                "others": row,
                "lost": [_lost(s.value - other, s.value) for other in row],
            }
            for metric, kept, s, row in zip(metrics, limits, seen, worth, strict=True)
        ],
    }


def _lost(part: float, whole: float) -> str:
    """What is lost, in percent; under other limits something may be gained."""
    said = sentences.percent(abs(part), whole)
    return f"gains {said}" if part < 0.0 and said not in ("", "0 %") else said


def again(table: Table, metrics: Sequence[Distortion], limits: Limits | None, asked: Mapping[str, Any]) -> Any:
    """The same as a command and as lines of Python."""
    texts = [written(metric) for metric in metrics]
    options = {**table.asked, "shares": None if limits is None else str(limits), "level": _level(asked)}
    said = texts[0] if len(texts) == 1 else texts
    return {
        "command": as_command(table.said, texts, options, "report.html"),
        "python": in_python(table.said, said, options),
    }


def careful(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The question of a careful verdict, as the process that answers it takes it."""
    metrics = _metrics(asked.get("metrics") or [asked.get("metric")])
    limits = table.limits(asked.get("limits"))
    return {
        "metrics": [written(metric) for metric in metrics],
        "shares": None if limits is None else str(limits),
        "level": _level(asked),
        "loss": table.asked["loss"],
        "repeat": again(table, metrics, limits, asked)["python"],
        "source": table.name,
    }


def _with_kept(metric: Distortion, kept: Any) -> list[Distortion]:
    """The preferences that were kept, and the present one, each once."""
    listed = [*(_metrics(kept) if kept else []), metric]
    return list(dict.fromkeys(listed))[:_MOST_METRICS]


def _level(asked: Mapping[str, Any]) -> float:
    return _check.within("level", asked.get("level", 0.95), 0.5, 1.0, open_hi=True)


def _metric(text: Any) -> Distortion:
    if not isinstance(text, str) or len(text) > 2_000:
        raise ValueError("a preference must be text, such as '0.7*mean + 0.3*cvar(0.9)'.")
    return as_metric(text)


def _metrics(texts: Any) -> list[Distortion]:
    if not isinstance(texts, list) or not 0 < len(texts) <= _MOST_METRICS:
        raise ValueError(f"give one to {_MOST_METRICS} preferences to compare.")
    return [_metric(text) for text in texts]


__all__ = ["again", "careful", "compare", "described", "look", "overview", "way", "why"]
