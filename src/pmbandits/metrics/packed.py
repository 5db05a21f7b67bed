"""TEMPORARY"""

from pmbandits.metrics._kernels import _one_term, h_value
from pmbandits.state.compile import kernel


@kernel
def h_slope(h, u, e):
    """The slope of h between u − e and u + e."""
    lo, hi = max(u - e, 0.0), min(u + e, 1.0)
    if h[0] == 1.0 and h[4] == 8.0:  # the Gini deviation alone
        return h[5] * (1.0 - lo - hi)
    return (h_value(h, hi) - h_value(h, lo)) / (hi - lo)


@kernel
def has_table(h):
    return h[2] > 0.0


@kernel
def single_peak(h):
    return h[3] == 1.0


@kernel
def peak_place(h):
    return h[4 + 4 * int(h[0])]


@kernel
def n_extrema(h):
    return int(h[1])


@kernel
def extremum_place(h, m):
    return h[4 + 4 * int(h[0]) + 2 * m]


@kernel
def extremum_value(h, m):
    return h[4 + 4 * int(h[0]) + 2 * m + 1]


@kernel
def is_one_family(h):
    return h[0] == 1.0 and h[4] >= 0.0


@kernel
def one_family_value(h, u):
    return h[5] * _one_term(int(h[4]), h[6], h[7], min(max(u, 0.0), 1.0))
