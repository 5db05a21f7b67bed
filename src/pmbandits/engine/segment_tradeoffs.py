"""What each segment gives up of its own utility for that of everybody together, by the rewards so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.estimates import ArmEstimate
from pmbandits.metrics.distortion import Distortion
from pmbandits.segments import Segments
from pmbandits.tables.distributions import Atoms, atoms_of_sample
from pmbandits.tables.survival_table import SurvivalTable

_POINTS = 256  # of a distribution with more, so many quantiles are taken
_LEAST = 1e-3  # what is less than this part of the larger utility is not worth a sentence


class Tradeoff(NamedTuple):
    """What a segment would play by itself, what it gives up of its own utility, and what everybody gains by that."""

    own_shares: FloatArray
    gives_up: float
    gain: float
    matters: bool


def segment_tradeoffs(
    metric: Distortion, segments: Segments, arms: tuple[ArmEstimate, ...], rows: FloatArray, frequencies: FloatArray
) -> dict[int, Tradeoff]:
    """The trade-off of each segment that has come and whose arms (of those that are played or were) have rewards.

    ``arms`` are the estimates of all columns, ``rows`` the shares within each segment.
    """
    from pmbandits.optimize.maximise import maximise  # with its solvers, which take a while to load

    known = np.array([arm.n > 0 for arm in arms])
    joint = (frequencies[:, None] * rows)[segments.segment_of, segments.arm_of] * known
    if not joint.sum() > 0.0:
        return {}
    joint /= joint.sum()
    points = [_coarse_atoms(arm) for arm in arms]
    seen = np.flatnonzero(known)
    everybody = SurvivalTable.from_atoms([points[i] for i in seen])
    together = everybody.value(metric, joint[seen])
    found = {}
    for segment in range(len(segments)):
        mine = np.flatnonzero((segments.segment_of == segment) & known)
        weight = float(joint[mine].sum())
        if weight <= 0.0:
            continue
        table = SurvivalTable.from_atoms([points[i] for i in mine])
        best = maximise(metric, table, accuracy=1e-6)
        own, now = best.weights, joint[mine] / weight
        gives_up = table.value(metric, own) - table.value(metric, now)
        other = joint.copy()
        other[mine] = weight * own
        gain = together - everybody.value(metric, other[seen])
        shares = np.zeros(rows.shape[1])
        shares[segments.arm_of[mine]] = own
        least = _LEAST * max(abs(together), abs(best.value), 1e-12)
        found[segment] = Tradeoff(shares, gives_up, gain, gain > least and gives_up > least)
    return found


def _coarse_atoms(arm: ArmEstimate) -> Atoms:
    """The empirical distribution of an arm; where it has many points, at some of its quantiles."""
    if arm.x.size <= _POINTS:
        return Atoms(arm.x, arm.p) if arm.n else atoms_of_sample([0.0])
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    return atoms_of_sample(arm.x[np.minimum(np.searchsorted(np.cumsum(arm.p), levels), arm.x.size - 1)])


def tradeoff_text(found: dict[int, Tradeoff], segment: int | None, segments: Segments) -> str:
    """Which segments make up for what, in sentences: one of them, or all; nothing if little is known."""
    if len(found) < 2:
        return ""
    text, giving = "", [s for s, one in found.items() if one.matters]
    for s in giving if segment is None else [segment]:
        mine, name = found.get(s), segments.names[s]
        if mine is None:
            continue
        if not mine.matters:
            text += f" What {name} plays is also about the best for {name} by itself."
            continue
        top = np.argsort(-mine.own_shares, kind="stable")[:3]
        played = [(segments.arms[k], mine.own_shares[k]) for k in top if mine.own_shares[k] > 0.005]
        own = ", ".join(f"{arm} {100 * share:.0f} %" for arm, share in played)
        text += (
            f" By itself, {name} would play {own}, and have {mine.gives_up:.2g} more utility of its own. It gives that "
            f"up for everybody together, whose utility is {mine.gain:.2g} larger by what it plays now."
        )
    others = [segments.names[s] for s in giving if s != segment]
    if segment is not None and others:
        text += f" {', '.join(others[:5])} make{'s' if len(others) == 1 else ''} up for others in this way, too."
    if segment is None and not giving:
        text += " What each segment plays is also about the best for it by itself."
    return text
