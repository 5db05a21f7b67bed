"""Bounds of CVaR by betting, from the definition: every bet, every q, one reward after the other."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence.betting import BETS, SPREAD
from pmbandits.confidence.cvar_betting import Corner


def money(payments: np.ndarray, mean: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """What the bets against means of at most ``mean`` have won after each payment (rows), for each q (columns)."""
    pots, won = SPREAD[:, None] * shares, []
    for y in payments:
        pots = np.minimum(pots * (1 - BETS[:, None] + BETS[:, None] * y / mean), 1e200)
        won.append(pots.sum(axis=0))
    return np.array(won)


def grid() -> dict[float, float]:
    """All q over which money is spread, down to 2^-20, and their shares."""
    shares: dict[float, float] = {}
    for level, share in ((4, 0.2), (6, 0.3), (8, 0.15), (10, 0.08), (12, 0.07)):
        for k in range(1, 2**level + 1):
            shares[k / 2**level] = shares.get(k / 2**level, 0.0) + share / 2**level
    for octave in range(1, 21):
        for k in range(17, 33):
            q = k / 2**octave / 16
            shares[q] = shares.get(q, 0.0) + 0.2 / (16 * octave * (octave + 1))
    return shares


def refuted_from_below(x: np.ndarray, corner: Corner, m: float, delta: float, shares: dict[float, float]) -> bool:
    """Whether the bets on all q together have refuted that U is at most m."""
    q, slope = np.array(list(shares)), corner.b - corner.a
    y, mean = corner.a * x[:, None] + slope * np.minimum(x[:, None], q), m + slope * corner.place * q
    return bool(money(y, mean, np.array(list(shares.values())))[-1].sum() >= 2 / delta)


def refuted_from_above(x: np.ndarray, corner: Corner, m: float, delta: float, q: np.ndarray) -> bool:
    """Whether the bets against U ≥ m have won for each of these q."""
    slope = corner.b - corner.a
    mean = corner.a + slope * (1 - corner.place) * q - m
    q, mean = q[mean > 0], mean[mean > 0]
    y = corner.a * (1 - x[:, None]) + slope * np.maximum(q - x[:, None], 0.0)
    return bool((money(y, mean, np.ones(q.size))[-1] >= 2 / delta).all())
