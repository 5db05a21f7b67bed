"""From a question of the studio's page to numbers and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.advice import words
from pmbandits.advice.again import as_command, in_python
from pmbandits.advice.glance import Look
from pmbandits.limits import Limits
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.pages.studio.sliders import aloud, described, in_words, written
from pmbandits.pages.studio.table import Table
from pmbandits.palette import colour
from pmbandits.plots import distortion_line

_DRAWN = 10  # arms in a chart
_LISTED = 60  # arms in a table
_MOST_METRICS = 8  # side by side
_STEPS = 21  # of a slider whose whole way is shown
_MIXTURES = {
    "concave": "For this preference a mixture of arms can be best.",  # and if it is not, see _price
    "convex": "For this preference one arm alone is always best, unless limits forbid it.",
    "linear": "For this preference one arm alone is always best, unless limits forbid it.",
    "neither": "For this preference it depends on the arms whether a mixture is best.",
}


def overview(table: Table) -> dict[str, Any]:
    """What the page shows of a table before any question."""
    first = table.peek
    out: dict[str, Any] = {
        "name": table.name,
        "columns": first.columns,
        "numeric": first.numeric,
        "rows": first.rows,
        "guess": {
            "arm": first.arm,
            "reward": first.reward,
            "wide": first.wide,
            "sure": first.sure,
            "arms": first.arms,
            "decimal": first.decimal,
        },
        "why": table.why,
        "own": table.own,
        "read": None,
    }
    if not table.is_read:
        return out
    log = table.problem.log
    out["read"] = {
        "rows": log.rows,
        "used": log.used,
        "account": log.account(),
        "often": _often(table),
        "cut": _cut(table),
        "examples": [str(bad) for bad in log.examples],
        "arms": [
            {"name": a.name, "n": a.n, "mean": float(a.x @ a.p), "colour": colour(k)}
            for k, a in enumerate(log.arms[:_LISTED])
        ],
        "count": len(log.arms),
        "bend": table.bend,
        "support": [table.problem.support.lo, table.problem.support.hi],
        "declared": table.problem.declared,
    }
    return out


def look(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The quick answer, for somebody who moves a slider."""
    start = perf_counter()
    metric, limits = _metric(asked.get("metric")), table.limits(asked.get("limits"))
    seen = table.glance.look(metric, limits)
    names = table.names
    order = sorted(range(len(names)), key=lambda k: (-seen.weights[k], -seen.singles[k]))
    drawn = sorted(order[:_DRAWN])
    mixed = seen.weights @ table.above
    with np.errstate(all="ignore"):
        bent = np.asarray(metric._h(np.vstack((table.above[drawn], mixed[None])).ravel())).reshape(-1, table.grid.size)
    u, h = distortion_line(metric)
    few = np.unique(np.concatenate((np.linspace(0, u.size - 1, 120).astype(np.intp), np.flatnonzero(np.isnan(h)))))
    tied = _tied(seen, table)
    means = table.means
    rank = np.linspace(1.0, 0.0, 101)
    at = np.asarray(metric(rank), dtype=np.float64)
    return {
        "text": written(metric),
        "words": _said(metric),
        "aloud": aloud(metric),
        "mixtures": _mixtures(metric, seen),
        "tied": tied,
        "instead": _instead(table, metric) if tied else [],
        "curve": {"u": u[few], "h": h[few]},
        "attention": {"q": np.linspace(0.5, 99.5, 100), "w": (at[:-1] - at[1:]) * 100.0},
        "arms": [
            {
                "place": k,
                "name": names[k],
                "colour": colour(k),
                "share": seen.weights[k],
                "worth": seen.singles[k],
                "mean": means[k],
                "n": table.problem.log.arms[k].n,
            }
            for k in order[:_LISTED]
        ],
        "more": max(len(names) - _LISTED, 0),
        "worth": seen.value,
        "best": {"name": names[seen.best_arm], "place": seen.best_arm, "worth": float(seen.singles.max())},
        "gain": seen.gain,
        "sentence": _all_the_same(names, seen) if tied else _sentence(names, seen),
        "price": tied or _price(names, seen, limits is not None),
        "average": "" if tied else _average(metric, means, seen, limits is not None),
        "limits": None
        if limits is None
        else {"text": str(limits), "cost": seen.cost, "unlimited": seen.unlimited, "sentence": _cost(seen)},
        "drawn": drawn,
        "grid": table.grid,
        "above": np.vstack((table.above[drawn], mixed[None])),
        "bent": bent,
        "again": again(table, _with_kept(metric, asked.get("kept")), limits, asked),
        "ms": 1e3 * (perf_counter() - start),
    }


def _tied(seen: Look, table: Table) -> str:
    """Why all arms are worth the same, if they are: then the preference does not say what to play."""
    size = max(float(np.abs(seen.singles).max()), 1e-12 * float(np.abs(table.means).max()), 1e-300)
    if seen.singles.size < 2 or float(np.ptp(seen.singles)) > 1e-9 * size or abs(seen.gain) > 1e-9 * size:
        return ""
    values, shares = (np.array(part) for part in zip(*table.common, strict=True))
    if shares.min() < 0.5 or np.unique(values).size > 1:
        return "No arm is better than another by this preference, and no mixture is."
    return (
        f"{_from_to(shares)} of their rewards are {values[0]:g}, and in these data this preference looks at nothing "
        "else. Let it look at more outcomes, or value something else:"
    )


def _from_to(shares: FloatArray) -> str:
    low, high = (f"{100.0 * float(end):.3g}" for end in (shares.min(), shares.max()))
    return f"{low} %" if low == high else f"{low} % to {high} %"


def _instead(table: Table, metric: Distortion) -> list[dict[str, str]]:
    """Preferences like this one that tell the arms apart."""
    often = max(share for _, share in table.common)
    low, high = min(100, int(100.0 * often) + 2), min(100, max(10, int(100.0 * (1.0 - often))))
    likely = {f"avoid the worst {low} %": f"lower_cvar({low / 100:g})", "just the average": "mean",
              f"go for the best {high} %": f"cvar({1 - high / 100:g})"}  # fmt: skip
    if low >= 100:
        likely.pop(f"avoid the worst {low} %")
    out = []
    for said, text in likely.items():
        worth = table.glance.look(as_metric(text)).singles
        if as_metric(text) != metric and float(np.ptp(worth)) > 1e-9 * float(np.abs(worth).max()):
            out.append({"said": said, "text": text})
    return out


def _all_the_same(names: Sequence[str], seen: Look) -> str:
    which = "Both arms" if len(names) == 2 else f"All {len(names)} arms"
    return f"{which} are worth the same ({_number(seen.value, seen)}): this does not say what to play."


def _average(metric: Distortion, means: FloatArray, seen: Look, limited: bool) -> str:
    """What the choice costs by the plain average."""
    mean, best = float(seen.weights @ means), float(means.max())
    if metric.shape == "linear" or best == 0.0:
        return ""
    if mean >= best - 1e-9 * abs(best):
        return f"It has also the best plain average: {mean:.4g}."
    less = _percent(best - mean, best)
    return f"By the plain average it brings {mean:.4g}; the most is {best:.4g}" + (f", {less} more." if not less else
        f": it gives up {less} of that.")  # fmt: skip


def _mixtures(metric: Distortion, seen: Look) -> str:
    if metric.shape == "concave" and int((seen.weights > 0.0).sum()) == 1:
        return "Mixing can pay for this preference, but with these arms it does not."
    return _MIXTURES[metric.shape]


def _often(table: Table) -> str:
    """That most rewards are the same, which charts hardly show."""
    values, shares = (np.array(part) for part in zip(*table.common, strict=True))
    if shares.max() < 0.5 or np.unique(values).size > 1:
        return ""
    return f"Of the rewards of each arm, {_from_to(shares)} are {values[0]:g}."


def _cut(table: Table) -> str:
    (low, high), every = table.cut, [s.x for s in table.problem.samples]
    least, most = min(float(x.min()) for x in every), max(float(x.max()) for x in every)
    sides = [f"up to {most:.4g}"] if most > high else []
    sides += [f"down to {least:.4g}"] if least < low else []
    return f"A few rewards, {' and '.join(sides)}, are not drawn." if sides else ""


def way(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The best shares along a slider, from one preference (``from``) to another (``to``)."""
    one, two = _metric(asked.get("from")), _metric(asked.get("to"))
    limits = table.limits(asked.get("limits"))
    steps = np.linspace(0.0, 1.0, _STEPS)
    seen = [table.glance.look(_between(one, two, float(v)), limits) for v in steps]
    shares = np.array([s.weights for s in seen])
    used = [int(k) for k in np.argsort(-shares.max(axis=0), kind="stable")[:_DRAWN] if shares[:, k].max() > 0.0]
    return {
        "steps": 100.0 * steps,
        "arms": [{"name": table.names[k], "colour": colour(k), "shares": 100.0 * shares[:, k]} for k in sorted(used)],
    }


def _between(one: Distortion, two: Distortion, share: float) -> Distortion:
    if share in (0.0, 1.0):
        return two if share else one
    return round(1.0 - share, 6) * one + round(share, 6) * two


def compare(table: Table, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Several preferences side by side: what each would play, and what the others think of that."""
    metrics = _metrics(asked.get("metrics"))
    limits = table.limits(asked.get("limits"))
    seen = [table.glance.look(metric, limits) for metric in metrics]
    worth = [[table.glance.worth(metric, other.weights) for other in seen] for metric in metrics]
    used = [k for k in range(len(table.names)) if any(s.weights[k] > 0.0 for s in seen)]
    return {
        "arms": [{"name": table.names[k], "colour": colour(k)} for k in used],
        "rows": [
            {
                "text": written(metric),
                "words": _said(metric),
                "shares": [float(s.weights[k]) for k in used],
                "plays": words.shares(_mixture(table.names, s.weights)),
                "worth": s.value,
                "best": table.names[s.best_arm],
                "best_worth": float(s.singles.max()),
                "gain": s.gain,
                "others": row,
                "lost": [_percent(s.value - other, s.value) for other in row],
            }
            for metric, s, row in zip(metrics, seen, worth, strict=True)
        ],
        "again": again(table, metrics, limits, asked),
    }


def again(table: Table, metrics: Sequence[Distortion], limits: Limits | None, asked: Mapping[str, Any]) -> Any:
    """The same as a command and as lines of Python."""
    texts = [written(metric) for metric in metrics]
    options = {**table.asked, "shares": None if limits is None else str(limits), "level": _level(asked)}
    said = texts[0] if len(texts) == 1 else texts
    lines = in_python(table.said, said, options)
    first, _, call = lines.rpartition("\n")
    return {
        "command": as_command(table.said, texts, options, "report.html"),
        "python": f"{first}\nprint({call})",  # in a file nothing else would be seen
        "call": lines,
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
        "repeat": again(table, metrics, limits, asked)["call"],
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


def _said(metric: Distortion) -> str:
    """A preference in words."""
    terms = metric.terms
    if len(terms) == 1 and terms[0][0] == 1.0:
        return in_words(terms[0][1])
    return "; ".join(f"{weight:.4g} times {in_words(part)}" for weight, part in terms)


def _mixture(names: Sequence[str], weights: FloatArray) -> dict[str, float]:
    return {names[k]: float(weights[k]) for k in np.flatnonzero(weights > 0.0).tolist()}


def _sentence(names: Sequence[str], seen: Look) -> str:
    played = _mixture(names, seen.weights)
    alone = " alone" if len(played) == 1 else ""
    return f"Play {words.shares(played)}{alone}: worth {_number(seen.value, seen)} in these data."


def _price(names: Sequence[str], seen: Look, limited: bool) -> str:
    """What mixing gains, or what limits cost beside the best arm alone."""
    name, worth = names[seen.best_arm], float(seen.singles.max())
    single = int((seen.weights > 0.0).sum()) == 1
    if single and seen.weights[seen.best_arm] == 1.0:
        others = np.delete(seen.singles, seen.best_arm)
        if not others.size:
            return "There is only one arm."
        second = int(np.argsort(-seen.singles, kind="stable")[1])
        same = [
            names[k] for k in np.flatnonzero(seen.singles >= worth - 1e-9 * abs(worth)).tolist() if k != seen.best_arm
        ]
        if same:
            listed = ", ".join(same[:5]) + (f" and {len(same) - 5} more" if len(same) > 5 else "")
            return f"Worth the same in these data, and so just as good: {listed}."
        return f"Next is {names[second]} with {_number(float(others.max()), seen)}."
    size = _number(abs(seen.gain), seen, 3)
    share = _percent(abs(seen.gain), worth)
    share = f" ({share})" if share else ""
    if seen.gain >= 0.0:
        return f"{name} alone, the best single arm, is worth {_number(worth, seen)}: mixing gains {size}{share}."
    why = "the limits forbid to play it alone" if limited else "it is not what is played"
    return f"{name} alone is worth {_number(worth, seen)}, {size} more, but {why}."


def _cost(seen: Look) -> str:
    if seen.cost <= 1e-9 * max(abs(seen.unlimited), abs(seen.value)):
        return "The limits cost nothing."
    share = _percent(seen.cost, seen.unlimited)
    share = f" ({share})" if share else ""
    return (
        f"The limits cost {_number(seen.cost, seen, 3)}{share}: without them {_number(seen.unlimited, seen)} "
        "could be reached."
    )


def _number(value: float, seen: Look, digits: int = 4) -> str:
    size = float(np.abs(seen.singles).max())
    return "0" if abs(value) < 1e-9 * size else f"{value:.{digits}g}"


def _percent(part: float, whole: float) -> str:
    if abs(whole) < 1e-12 * max(abs(part), 1e-300) or whole == 0.0:
        return ""
    share = 100.0 * part / abs(whole)
    if abs(share) < 1e-6:  # what is left of rounding
        return "0 %"
    return f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %" if share < 10_000 else ""


__all__ = ["again", "careful", "compare", "described", "look", "overview", "way"]
