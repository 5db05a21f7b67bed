"""The quick answer in sentences: what to play, what that gives and costs, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.advice import sentences
from pmbandits.advice.numbers import NumberFormat
from pmbandits.advice.preview import PreviewResult
from pmbandits.constraints import Limits
from pmbandits.metrics.distortion import Distortion
from pmbandits.pages.studio.table import Table
from pmbandits.pages.studio.ties import most_common_reward, percent_range

_PERIODS = ("day", "week", "month")
_TRIED = 0.1  # the share of another arm that is tried beside a mixture
CURVATURE_TEXT = {
    "concave": "This curve bends like a hill. So a mixture scores at least the average of its arms, "
    "and can score higher than the best of them.",
    "convex": "This curve bends like a bowl. So a mixture scores at most the average of its arms, and "
    "never more than the best of them.",
    "linear": "This curve is straight. So a mixture scores exactly the average of its arms, and never "
    "more than the best of them.",
    "neither": "This curve bends both ways, here like a hill, there like a bowl. So it depends on the arms whether a "
    "mixture can score higher than the best of them.",
}


def period_choices_of_one_reward(table: Table) -> dict[str, str]:
    """What one reward can be, by period (``""``: what it is in the table), for a list to choose from."""
    params = table.params
    what = "" if params["wide"] else f" “{params['reward']}”"
    out = {"": "a cell of the table" if params["wide"] else f"a row: its{what}"}
    periods: Sequence[str] = _PERIODS if table.date_column is not None else ["time"] if params.get("time") else []
    return out | {period: f"a {_period_name(table, period)}: the average{what} of an arm in it" for period in periods}


def note_on_what_one_reward_is(table: Table) -> str:
    """A note on what one reward is: periods that were averaged, and a reward that is very common."""
    log, said = table.problem.log, []
    if log.per is not None:
        period = _period_name(table, log.per)
        said.append(
            f"{log.used:,} rows became {log.n_outcomes:,} rewards. A mixture means here that in each {period} one arm "
            f"is played alone: if two arms took turns within one {period}, its average would be another one."
        )
    common = most_common_reward(table)
    if common is not None and len(table.names) > 1:
        said.append(f"{percent_range(common[1])} of the rewards of each arm are {common[0]:g}.")
    return " ".join(said)


def _period_name(table: Table, per: str) -> str:
    return per if per in _PERIODS else f"value of “{table.params['time']}”"


def what_to_play_text(names: Sequence[str], weights: FloatArray) -> str:
    """What is best in the data, before it is known whether that could be chance."""
    return f"Best in these data: {mixture_text(names, weights)}."


def mixture_text(names: Sequence[str], weights: FloatArray) -> str:
    """The shares that are not 0, with their arms."""
    return sentences.mixture_text({names[k]: float(weights[k]) for k in np.flatnonzero(weights > 0.0).tolist()})


def utility_text(names: Sequence[str], seen: PreviewResult, means: FloatArray, metric: Distortion) -> str:
    """The utility of the mixture, and what it gives and costs by the plain average, in sentences."""
    if metric.name == "mean":
        return f"Its average is {format_number(seen.value, seen)} in these data."
    given, best = float(seen.weights @ means), int(np.argmax(means))
    said = (
        f"By this preference it scores {format_number(seen.value, seen)} in these data. By the plain average it gives "
    )
    said += format_number(given, seen, means=means)
    size = float(np.abs(means).max())
    if float(means[best]) - given <= 1e-9 * size:
        return f"{said}, and no arm gives more."
    instead = f"{names[best]} alone gives {format_number(float(means[best]), seen, means=means)}"
    less = format_percent(float(means[best]) - given, float(means[best])) if means[best] > 0.0 else ""
    return f"{said}{f': {less} less, because' if less else ', while'} {instead}."


def gain_text(names: Sequence[str], seen: PreviewResult, limits: Limits | None, metric: Distortion) -> str:
    """What mixing gains over the best single arm, and whether it can."""
    if len(names) == 1:
        return "There is only one arm."
    name, best = names[seen.best_arm], float(seen.arm_utilities.max())
    if seen.weights[seen.best_arm] == 1.0:
        second = int(np.argsort(-seen.arm_utilities, kind="stable")[1])
        said = f"Next is {names[second]} with {format_number(float(seen.arm_utilities[second]), seen)}."
        if limits is None:
            said += {
                "concave": " Mixing can pay for this preference, but not with these arms.",
                "neither": " Mixing can pay for this preference, but no better mixture was found with these arms.",
            }.get(metric.shape, " Mixing never pays for this preference: the curve h below says why.")
        return said
    if seen.gain >= 0.0:
        share = format_percent(seen.gain, best)
        share = f" ({share})" if share else ""
        alone = f"{name} alone, the best single arm, scores {format_number(best, seen)}"
        return f"{alone}: mixing gains {_number_text(seen.gain, best)}{share} in these data."
    forbidden = "the limits forbid to play it alone" if limits is not None else "it is not what is played"
    return f"{name} alone scores {format_number(best, seen)}, but {forbidden}."


def limits_cost_text(seen: PreviewResult) -> str:
    """What the limits cost, as a sentence."""
    if seen.cost_of_limits <= 1e-9 * max(abs(seen.unconstrained_value), abs(seen.value)):
        return "The limits cost nothing."
    share = format_percent(seen.cost_of_limits, seen.unconstrained_value)
    share = f" ({share})" if share else ""
    without = f"without them {format_number(seen.unconstrained_value, seen)} could be reached"
    return f"The limits cost {_number_text(seen.cost_of_limits, abs(seen.value), 3)}{share}: {without}."


def explain_mixture(table: Table, seen: PreviewResult, metric: Distortion, limits: Limits | None) -> str:
    """Why these arms are mixed: what each of them brings, and why a better single arm is left out."""
    played = [int(k) for k in np.argsort(-seen.weights, kind="stable") if seen.weights[k] > 0.0]
    if not 1 < len(played) <= 3 or limits is not None or metric.shape != "concave":
        return ""
    said = _arm_contributions(table, seen, metric, played)
    least = min(played, key=lambda k: seen.arm_utilities[k])
    others = [
        k for k in range(len(table.names)) if k not in played and seen.arm_utilities[k] > seen.arm_utilities[least]
    ]
    if others:
        other = max(others, key=lambda k: seen.arm_utilities[k])
        weights = (1.0 - _TRIED) * seen.weights
        weights[other] += _TRIED
        then = table.preview.utility(metric, weights)
        if then < seen.value:
            said += (
                f" {table.names[other]} alone scores higher than {table.names[least]} alone, but not beside the "
                f"others: with {100 * _TRIED:.0f} % of it the mixture would score {format_number(then, seen)} "
                f"instead of {format_number(seen.value, seen)} in these data."
            )
    return said.strip()


def _arm_contributions(table: Table, seen: PreviewResult, metric: Distortion, played: list[int]) -> str:
    """How often, and how large, the rewards of each arm are among the outcomes that count most."""
    total = float(metric(1.0))
    if metric.monotonicity != "increasing" or total <= 0.0:
        return ""
    rank = np.linspace(0.0, 1.0, 1001)
    counted = np.diff(np.asarray(metric(rank))) * 1000.0 > total * (1.0 + 1e-6)  # more than in the average
    top = float(rank[1:][counted].max(initial=0.0))
    samples = table.problem.samples
    x = np.concatenate([samples[k].x for k in played])
    p = np.concatenate([seen.weights[k] * samples[k].p for k in played])
    order = np.argsort(-x, kind="stable")
    least = float(x[order][min(int(np.searchsorted(np.cumsum(p[order]), top)), x.size - 1)])
    parts = []
    for k in played:
        there = samples[k].x > least
        share = float(samples[k].p[there].sum())
        if not 0.0 < top < 1.0 or share == 0.0:
            return ""
        average = float(samples[k].x[there] @ samples[k].p[there]) / share
        parts.append(
            f"{table.names[k]} brings {average:.3g} on average with {format_percent(share, 1.0)} of its rewards"
        )
    most = f"Why a mixture: the best {100 * top:.2g} % of the outcomes count most, those above {least:.3g}."
    return f"{most} There {'; '.join(parts)}."


def format_number(value: float, seen: PreviewResult, digits: int = 4, means: FloatArray | None = None) -> str:
    """A score or an average in the sign of the data, with about so many digits; a rounding error is 0."""
    size = float(np.abs(seen.arm_utilities if means is None else means).max())
    return _number_text(seen.in_sign_of_data(value), size, digits)


def _number_text(value: float, size: float, digits: int = 4) -> str:
    return "0" if abs(value) < 1e-9 * size else NumberFormat.for_resolution([10.0 ** (2 - digits) * size])(value)


def format_percent(part: float, whole: float) -> str:
    """A part in percent of the whole; empty where that says nothing."""
    if abs(whole) < 1e-12 * max(abs(part), 1e-300) or whole == 0.0:
        return ""
    share = 100.0 * part / abs(whole)
    if abs(share) < 1e-6:
        return "0 %"
    return f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %" if share < 10_000 else ""
