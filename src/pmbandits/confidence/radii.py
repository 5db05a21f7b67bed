"""The formulas of the radii: how far an arm's distribution may be from n of its rewards, if δ is how often it may fail.

``log_term`` is the logarithm in a formula: ln(1/δ), or ln(2/δ) where both sides can fail. The paper's has ln(2/δ), too.
"""

from __future__ import annotations

from math import e, sqrt
from typing import Any

import numpy as np


def dkw_radius(n: Any, log_term: Any) -> Any:
    """The height of a band around the distribution function (CDF): √(ln(2/δ)/2n).

    By Dvoretzky, Kiefer and Wolfowitz, with Massart's constant.

    >>> round(float(dkw_radius(100, np.log(2 / 0.05))), 4)
    0.1358
    """
    return np.sqrt(log_term / (2.0 * n))


def howard_ramdas_radius(n: Any, constant: float) -> Any:
    """The height of a band around the CDF for all n at once: 0.85·√((ln(1 + ln n) + C)/n) (Howard and Ramdas)."""
    return 0.85 * np.sqrt((np.log1p(np.log(np.maximum(n, 1.0))) + constant) / n)


def bounded_w1_radius(n: Any, width: float, log_term: Any) -> Any:
    """In Wasserstein distance, for rewards in an interval of this width: width·(½ + √(ln(1/δ)/2))/√n."""
    return width * (0.5 + np.sqrt(log_term / 2.0)) / np.sqrt(n)


def sub_gaussian_w1_radius(n: Any, sigma: float, log_term: Any) -> Any:
    """In Wasserstein distance, for σ-sub-Gaussian rewards: σ·(2.5125 + 2√ln(1/δ))/√n."""
    return sigma * (2.5125 + 2.0 * np.sqrt(log_term)) / np.sqrt(n)


def paper_w1_radius(n: Any, log_term: float) -> Any:
    """In Wasserstein distance, as the paper has it (``lemma: concentration``): 16(√(e·ln(2/δ)) + 32)/√n.

    For 1-sub-Gaussian rewards and one n.

    >>> round(float(paper_w1_radius(10_000, np.log(10_000**2))), 2)
    6.25
    """
    return 16.0 * (sqrt(e * log_term) + 32.0) / np.sqrt(n)
