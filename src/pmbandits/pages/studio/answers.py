"""From a request of the studio's page to numbers and sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.advice.metric_phrases import describe_metric
from pmbandits.advice.repro_call import python_call, shell_command
from pmbandits.constraints import Limits
from pmbandits.logs import Finding
from pmbandits.metrics import as_metric
from pmbandits.metrics.catalogue import as_preference
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.distortion_function import distortion_curve
from pmbandits.pages.studio import examples, sentences, ties
from pmbandits.pages.studio.sliders import metric_text
from pmbandits.pages.studio.table import Table, without_option_names
from pmbandits.palette import arm_colour
from pmbandits.supports import Binary

_MOST_ARMS_DRAWN = 10  # arms in a chart
_MOST_ARMS_LISTED = 60  # arms in a table
_MOST_METRICS = 8  # side by side
_STEPS = 21  # of a slider whose whole way is shown
_MOST_BISECTIONS = 48  # more steps where shares jump
_SMALLEST_STEP = 0.004  # how close these come
_JUMP = 0.2  # a change of a share that is a jump
_GUESSED = ("arm", "reward", "wide", "arms", "decimal", "thousands", "currency", "sure")
_BUTTONS = {  # by the kind of a finding: the option, what it is set to (None: the column that is named), and the words
    "spelling": ("same_names", True, "Count them as one"),
    "duplicates": ("distinct", True, "Count each once"),
    "sentinels": ("missing", "none", "Count them as rewards"),
    "units": ("unit", None, "Allow for that"),
    "times": ("time", None, "Look at the time"),
}


def table_overview(table: Table) -> dict[str, Any]:
    """What the page shows of a table before any question."""
    first = table.sniff
    out: dict[str, Any] = {
        "name": table.name,
        "columns": first.columns,
        "numeric": first.numeric,
        "dates": first.dates,
        "rows": first.rows,
        "guess": {name: getattr(first, name) for name in _GUESSED} | {"loss": table.guessed_loss},
        "why": table.read_error or table.question_on_columns,
        "own": bool(table.example),
        "begin": examples.INITIAL_STATE.get(table.example, {}).get("say", ""),
        "when": table.date_column,
        "read": None,
    }
    if not table.is_read:
        return out
    log, support = table.problem.log, table.params["support"]
    out["asked"] = {
        **{name: value for name, value in table.params.items() if name != "support"},
        "range": "unknown" if support is None else "binary" if isinstance(support, Binary) else "between",
        "ends": None if support is None else [support.lo, support.hi],
    }
    out["read"] = {
        "rows": log.rows,
        "used": log.used,
        "outcomes": log.n_outcomes,
        "per": log.per,
        "outcome": sentences.note_on_what_one_reward_is(table),
        "outcomes_can_be": sentences.period_choices_of_one_reward(table),
        "account": without_option_names(log.unused_rows_sentence()),
        "findings": [
            *([{"said": "The numbers are taken as losses: smaller is better."}] if table.params["loss"] else []),
            *(_finding_with_button(f) for f in log.findings if f.kind != "columns"),
        ],
        "examples": [str(bad) for bad in log.examples],
        "arms": [
            {"name": a.name, "n": a.n, "mean": float(a.x @ a.p), "colour": arm_colour(k)}
            for k, a in enumerate(log.arms[:_MOST_ARMS_LISTED])
        ],
        "count": len(log.arms),
        "bend": table.curves.linear_width,
        "undrawn": table.curves.undrawn_rewards_sentence,
        "support": [table.problem.support.lo, table.problem.support.hi],
        "declared": table.problem.declared,
    }
    return out


def _finding_with_button(finding: Finding) -> dict[str, Any]:
    """What was noticed about a table, and a button that changes what was done about it, if one choice does."""
    said = {"said": f"{finding.seen} {finding.done}".strip()}
    column = re.search("“(.+?)”", finding.seen)
    option, value, words = _BUTTONS.get(finding.kind, ("", None, ""))
    value = column[1] if value is None and column else value
    if not option or value is None:
        return said
    return {**said, "option": option, "value": value, "button": words}


def best_mixture(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """A preview of the best mixture for a metric, with its curves and sentences, for somebody who moves a slider."""
    start = perf_counter()
    metric, limits = _parse_metric(table, params.get("metric")), table.limits(params.get("limits"))
    seen = table.preview.best_mixture(metric, limits)
    names = table.names
    same = ties.tied_arms(seen, limits)
    order = sorted(range(len(names)), key=lambda k: (-seen.weights[k], -seen.arm_utilities[k]))
    drawn = sorted(order[:_MOST_ARMS_DRAWN])
    mixed = seen.weights @ table.curves.survival_of_arms
    curves = np.vstack((table.curves.survival_of_arms[drawn], mixed[None]))
    grid, loss = table.curves.grid, bool(table.params["loss"])
    if loss:  # losses grow to the right, too: the share of them below each number
        grid, curves = -grid[::-1], curves[:, ::-1]
    if (seen.weights > 0.0).sum() == 1:  # a mixture of one arm has the curve of that arm
        curves = curves[:-1]
    with np.errstate(all="ignore"):
        bent = np.asarray(metric._h(curves.ravel())).reshape(-1, table.curves.grid.size)
    u, h = distortion_curve(metric)
    few = np.unique(np.concatenate((np.linspace(0, u.size - 1, 120).astype(np.intp), np.flatnonzero(np.isnan(h)))))
    rank = np.linspace(1.0, 0.0, 101)
    at = np.asarray(metric(rank), dtype=np.float64)
    return {
        "text": metric_text(metric),
        "words": describe_metric(metric, bool(table.params["loss"])),
        "bends": sentences.CURVATURE_TEXT[metric.shape],
        "curve": {"u": u[few], "h": h[few]},
        "attention": {"q": np.linspace(0.5, 99.5, 100), "w": (at[:-1] - at[1:]) * 100.0},
        "tie": ties.explain_tie(table, metric, seen, same) if same else None,
        "arms": [
            {
                "place": k,
                "name": names[k],
                "colour": arm_colour(k),
                "share": None if same else seen.weights[k],
                "worth": seen.in_sign_of_data(float(seen.arm_utilities[k])),
                "mean": seen.in_sign_of_data(float(table.means[k])),
                "score": sentences.format_number(float(seen.arm_utilities[k]), seen),
                "average": sentences.format_number(float(table.means[k]), seen, means=table.means),
                "n": table.problem.log.arms[k].n,
            }
            for k in order[:_MOST_ARMS_LISTED]
        ],
        "more": max(len(names) - _MOST_ARMS_LISTED, 0),
        "worth": seen.in_sign_of_data(seen.value),
        "average": seen.in_sign_of_data(float(seen.weights @ table.means)),
        "best": {
            "name": names[seen.best_arm],
            "place": seen.best_arm,
            "worth": seen.in_sign_of_data(float(seen.arm_utilities.max())),
        },
        "gain": seen.gain,
        "sentence": sentences.what_to_play_text(names, seen.weights),
        "gives": sentences.utility_text(names, seen, table.means, metric),
        "price": sentences.gain_text(names, seen, limits, metric),
        "limits": None
        if limits is None
        else {
            "text": str(limits),
            "cost": seen.cost_of_limits,
            "unlimited": seen.unconstrained_value,
            "sentence": sentences.limits_cost_text(seen),
        },
        "drawn": drawn,
        "grid": grid,
        "above": curves,
        "bent": bent,
        "again": shell_and_python_calls(
            table, _kept_and_current_metrics(table, metric, params.get("kept")), limits, params
        ),
        "ms": 1e3 * (perf_counter() - start),
    }


def explain_mixture(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """Why a mixture is best, in sentences; requested when the sliders rest."""
    metric, limits = _parse_metric(table, params.get("metric")), table.limits(params.get("limits"))
    return {"why": sentences.explain_mixture(table, table.preview.best_mixture(metric, limits), metric, limits)}


def shares_along_slider(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """The best shares along a slider, from one preference (``from``) to another (``to``), and where they jump."""
    one, two = _parse_metric(table, params.get("from")), _parse_metric(table, params.get("to"))
    limits = table.limits(params.get("limits"))

    def at(place: float) -> FloatArray | None:
        seen = table.preview.best_mixture(_interpolate_metrics(one, two, place), limits)
        return None if ties.tied_arms(seen, limits) else seen.weights

    found = [(float(v), at(float(v))) for v in np.linspace(0.0, 1.0, _STEPS)]
    steps, shares = [v for v, w in found if w is not None], [w for _, w in found if w is not None]
    if not steps:  # nowhere along this slider the arms can be told apart
        return {"steps": [], "arms": [], "changes": ""}
    left, k = _MOST_BISECTIONS, 0
    while k < len(steps) - 1:  # where the choice changes much, it is looked at more closely
        if left and steps[k + 1] - steps[k] > _SMALLEST_STEP and float(np.abs(shares[k + 1] - shares[k]).max()) > _JUMP:
            left -= 1
            middle = round(0.5 * (steps[k] + steps[k + 1]), 6)
            between = at(middle)
            steps.insert(k + 1, middle)
            shares.insert(k + 1, shares[k] if between is None else between)
        else:
            k += 1
    every = np.array(shares)
    used = [int(k) for k in np.argsort(-every.max(axis=0), kind="stable")[:_MOST_ARMS_DRAWN] if every[:, k].max() > 0.0]
    return {
        "steps": 100.0 * np.array(steps),
        "arms": [
            {"name": table.names[k], "colour": arm_colour(k), "shares": 100.0 * every[:, k]} for k in sorted(used)
        ],
        "changes": _jumps_text(table.names, steps, every),
    }


def _jumps_text(names: Sequence[str], steps: Sequence[float], shares: FloatArray) -> str:
    """Where the choice jumps, in a sentence."""
    said = []
    for k in np.flatnonzero(np.abs(np.diff(shares, axis=0)).max(axis=1) > _JUMP).tolist():
        one, two = (sentences.mixture_text(names, shares[j]) for j in (k, k + 1))
        said.append(f"at {100.0 * steps[k + 1]:.3g} % from {one} to {two}")
    if not said:
        same = float(np.ptp(shares, axis=0).max()) == 0.0
        return "The choice is the same everywhere." if same else "The choice changes little by little, without a jump."
    return f"The choice jumps {', '.join(said[:6])}{' and so on' if len(said) > 6 else ''}."


def _interpolate_metrics(one: Distortion, two: Distortion, share: float) -> Distortion:
    if share in (0.0, 1.0):
        return two if share else one
    return round(1.0 - share, 6) * one + round(share, 6) * two


def compare_preferences(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """Several preferences side by side, each within its limits: what each would play, and what others think of it."""
    rows = params.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("give the preferences to compare as rows, each with its limits.")
    metrics = _parse_metrics(table, [row.get("metric") for row in rows])
    limits = [table.limits(row.get("limits")) for row in rows]
    seen = [table.preview.best_mixture(metric, kept) for metric, kept in zip(metrics, limits, strict=True)]
    utility = [[table.preview.utility(metric, other.weights) for other in seen] for metric in metrics]
    used = [k for k in range(len(table.names)) if any(s.weights[k] > 0.0 for s in seen)]
    return {
        "arms": [{"name": table.names[k], "colour": arm_colour(k)} for k in used],
        "rows": [
            {
                "text": metric_text(metric),
                "words": describe_metric(metric, bool(table.params["loss"])),
                "limits": "" if kept is None else str(kept),
                "shares": [float(s.weights[k]) for k in used],
                "plays": sentences.mixture_text(table.names, s.weights)
                if not ties.tied_arms(s, kept)
                else "it cannot choose",
                "worth": s.in_sign_of_data(s.value),
                "average": s.in_sign_of_data(float(s.weights @ table.means)),
                "best": table.names[s.best_arm],
                "best_worth": s.in_sign_of_data(float(s.arm_utilities.max())),
                "gain": s.gain,
                "others": row,
                "lost": [_percent_lost_text(s.value - other, s.value) for other in row],
            }
            for metric, kept, s, row in zip(metrics, limits, seen, utility, strict=True)
        ],
    }


def _percent_lost_text(part: float, whole: float) -> str:
    """What is lost, in percent; under other limits something may be gained."""
    said = sentences.format_percent(abs(part), whole)
    return f"gains {said}" if part < 0.0 and said not in ("", "0 %") else said


def shell_and_python_calls(
    table: Table, metrics: Sequence[Distortion], limits: Limits | None, params: Mapping[str, Any]
) -> Any:
    """How to reproduce the answer: as a shell command and as lines of Python."""
    texts = [metric_text(metric) for metric in metrics]
    options = {**table.params, "decimal": None} if table.params.get("decimal") == table.sniff.decimal else table.params
    options = {**options, "shares": None if limits is None else str(limits), "level": _confidence_level(params)}
    said = texts[0] if len(texts) == 1 else texts
    return {
        "command": shell_command(table.name_in_commands, texts, options, "report.html"),
        "python": python_call(table.name_in_commands, said, options),
    }


def verdict_request(table: Table, params: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a verdict, as the verdict worker takes it."""
    metrics = _parse_metrics(table, params.get("metrics") or [params.get("metric")])
    limits = table.limits(params.get("limits"))
    return {
        "metrics": [metric_text(metric) for metric in metrics],
        "shares": None if limits is None else str(limits),
        "level": _confidence_level(params),
        "loss": table.params["loss"],
        "matters": table.params["matters"],
        **{name: table.params[name] for name in ("by", "segment")},
        "path": str(table.path),
        "options": {k: v for k, v in table.params.items() if k not in ("by", "segment", "matters", "loss")},
        "repeat": shell_and_python_calls(table, metrics, limits, params)["python"],
        "source": table.name,
    }


def _kept_and_current_metrics(table: Table, metric: Distortion, kept: Any) -> list[Distortion]:
    """The preferences that were kept, and the present one, each once."""
    listed = [*(_parse_metrics(table, kept) if kept else []), metric]
    return list(dict.fromkeys(listed))[:_MOST_METRICS]


def _confidence_level(params: Mapping[str, Any]) -> float:
    return _validation.check_within("level", params.get("level", 0.95), 0.5, 1.0, open_hi=True)


def _parse_metric(table: Table, text: Any) -> Distortion:
    if not isinstance(text, str) or len(text) > 2_000:
        raise ValueError("a preference must be text, such as '0.7*mean + 0.3*upper_cvar(0.9)'.")
    return as_preference(text).of_losses() if table.params["loss"] else as_metric(text)


def _parse_metrics(table: Table, texts: Any) -> list[Distortion]:
    if not isinstance(texts, list) or not 0 < len(texts) <= _MOST_METRICS:
        raise ValueError(f"give one to {_MOST_METRICS} preferences to compare.")
    return [_parse_metric(table, text) for text in texts]
