"""What a policy keeps in memory: one table of named fields. Everything else about them is worked out from it.

A policy's memory is one block of 8-byte words. First come the sizes (how many arms, grid points, …) and the places
where the arrays begin, then single numbers, then the policy's own single numbers, then the arrays. Compiled code and
Python find a field by its name; where it lies is known in this file only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

# The sizes on which shapes depend, in the order in which they lie in memory.
SIZES = (
    "n_arms",
    "n_atoms",  # points of a finite support, or of bins; 0 if rewards are kept one by one
    "n_grid",  # mixtures that the grid has room for
    "room",  # rewards that there is room for
    "n_radii",  # entries of the table of radii
    "n_packed",  # length of the packed metric
    "n_table",  # points of the table behind the bounds in Wasserstein balls
    "n_watched",  # n_arms if changes of grid values are bounded (see mixtures/_lazy.py), else 0
    "n_chords",  # n_arms if the bounds by chords are kept too, else 0
    "n_sketches",  # n_arms if rewards are kept in sketches, else 0
    "sketch_room",  # numbers that a sketch has room for
    "n_mass",  # numbers that all sketches together have room for
    "n_vetted",  # n_arms if arms that are left out are vetted (see mixtures/_vetting.py), else 0
    "knot_room",  # knots that the table of laws has room for (see mixtures/_laws.py); 0 without a table
    "n_slopes",  # n_arms if slopes are kept from round to round, else 0
    "n_prices",  # 3 if belts lie on the line (see confidence/_tails.py), else 0
    "n_sure",  # n_arms if a share of pulls is for certifying (see mixtures/_certifying.py), else 0
    "n_belts",  # n_arms if the confidence sets are belts (see confidence/_belts.py), else 0
    "n_line",  # cells that there is room for, of belts on the line (see confidence/_line.py), else 0
    "n_past",  # n_arms if pulls can be taken off the clock, else 0
    "n_recent",  # rewards that are kept in the order in which they came; 0 without a window
    "n_watched_arms",  # n_arms if each arm is watched for changes (see estimates/_changes.py), else 0
    "n_tally",  # 3 if rewards are forgotten or arms are watched, else 0
    "n_noted",  # changes that are remembered; 0 if arms are not watched
    "n_limited",  # n_arms if shares are limited (see mixtures/_gate.py), else 0
    "n_gates",  # 1 if shares are limited, else 0
    "n_rows",  # limits, if one of them is on several arms, else 0
    "n_corners",  # corners of the mixtures that keep the limits, where they are needed
)
N_OWN = 16  # single numbers that a policy may have of its own
MOST = 2**53  # no count is larger
PHASE_ENDS = 64  # phases whose ends are remembered
BELT_EDGE = 64  # ends of belts that are worked out exactly, on each side
BELT_ROW = 2 * BELT_EDGE + 12  # numbers that are kept of a belt (confidence/_belts.py)
SKETCH_BOOK, SKETCH_MARKS = 61, 5  # whole numbers and other numbers of a sketch (estimates/_kernels.py)
WATCH_BOOK, WATCH_VALUES, WATCH_ROWS = 8, 64, 4352  # numbers that are kept to watch an arm (estimates/_changes.py)
POOLS = ("x", "owner", "recent", "recent_arm")  # arrays of which only so many numbers count as there are rewards
CHANGE = 10  # numbers that are kept of a change that was found


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name, whether it holds whole numbers, its shape, and what becomes of it.

    ``becomes`` is one or more of these words:

    - saved: written to the file of a policy, and read from it.
    - added: when two policies are merged, the other's numbers are added.
    - cleared: when two policies are merged, it is set to 0, because it is no longer true.
    - fixed: it follows from the options. It stays as it is between trials, and is made anew when a file is loaded.
    - scratch: a kernel's working space. It has no meaning between two calls.
    - arranged: it tells how the pool of rewards is arranged, which a look at the mixture may change for good.

    Whatever is not fixed and not scratch is set back at the start of each trial of a simulation.

    ``holds`` says, of a saved field, between which numbers its own must lie: ``"0 … told"``, with numbers, sizes and
    other fields as limits. A side that is left out is not limited, but for infinity; ``"any"`` allows that too. Files
    are checked by it when they are loaded. Where nothing is said, whole numbers lie from 0 to 2⁵³, others are finite.
    """

    name: str
    type: type
    shape: str
    becomes: frozenset[str]
    holds: str = ""

    @property
    def single(self) -> bool:
        """Whether it is a single number."""
        return self.shape == ""


WORDS = ("saved", "added", "cleared", "fixed", "scratch", "arranged")


def _field(name: str, kind: type, shape: str = "", becomes: str = "", holds: str = "") -> Field:
    words = frozenset(becomes.split())
    assert words <= set(WORDS), f"{name}: {words}"
    return Field(name, kind, shape, words, holds)


FIELDS: tuple[Field, ...] = (
    _field("busy", int, "", "fixed"),  # not 0 while a thread is at work in the memory (state/guard.py)
    _field(
        "gate", int, "", "fixed"
    ),  # what every pull goes through: 0, or some of BOXES, ROWS, SOME (mixtures/_gate.py)
    _field("mix_kept", int, "", "fixed"),  # 1 if ``mix`` is sure to keep the limits; a user's kernel may not see to it
    _field("waiting", int, "", "fixed"),  # 1 while a thread waits for it that must come before single asks and tells
    # What was asked and told.
    _field("asked", int, "", "saved added"),  # pulls so far
    _field("rewards", int, "", "saved added"),  # rewards so far
    _field("seed", int, "", "fixed"),
    _field("stream", int, "", "saved", "0 … 4503599627370496"),  # how many random numbers the policy has drawn
    # How rewards are kept.
    _field("mode", int, "", "fixed"),  # BINARY, FINITE or SAMPLES
    _field("bounded", int, "", "fixed"),  # 1 if the support is bounded
    _field("sketch_size", int, "", "fixed"),  # k of the sketches; 0 without sketches
    _field("most_rewards", int, "", "fixed"),  # when so many rewards are in, memory must grow
    _field("most_told", int, "", "fixed"),  # the same for the rewards of one arm
    _field("ordered", int, "", "saved arranged", "-1 … rewards"),  # how many rewards of the pool are sorted
    _field("pooled", int, "", "saved arranged"),  # how many numbers the pool holds, with sketches
    _field("low", float, "", "fixed"),  # the ends of the support
    _field("high", float, "", "fixed"),
    _field("rounding", float, "", "fixed"),  # how far rounding to bins moves a reward at most
    _field("rank_delta", float, "", "fixed"),  # probability that a sketch's rank error is larger than stated
    _field("largest", float, "", ""),  # the largest absolute value of a reward or of an end of the support
    # The metric.
    _field("metric_shape", int, "", "fixed"),  # CONCAVE, CONVEX or NEITHER
    _field("peak", float, "", "fixed"),  # the largest value of h
    _field("lipschitz", float, "", "fixed"),
    _field("holder_q", float, "", "fixed"),
    _field("holder_c", float, "", "fixed"),  # 0 without a Hölder pair
    # Confidence sets.
    _field("set_kind", int, "", "fixed"),  # INTERVAL, BAND, BALL or BELT
    _field("stretched", int, "", "fixed"),  # 1 if ends of belts that are far from the share are moved further out
    _field("watch_depth", float, "", "fixed"),  # ln(K/level) of watching the arms for changes
    _field("belt_side", int, "", "fixed"),  # for how many rewards above or below the ends of belts are exact
    _field("tail_order", float, "", "fixed"),  # p and B of E|X|^p ≤ B (confidence/_tails.py); 0 without such a promise
    _field("tail_bound", float, "", "fixed"),
    _field("tail_q", float, "", "fixed"),  # |h(u) − h(v)| ≤ C·|u − v|^q
    _field("tail_c", float, "", "fixed"),
    _field("tail_sigma", float, "", "fixed"),  # σ of sub-Gaussian rewards in belts (confidence/_line.py), else 0
    _field("tail_depth", float, "", "fixed"),  # 2·ln(1/δ) of the intervals of their means
    _field("line_at", int, "", "cleared"),  # for how many rewards the cells of the line are laid out; 0: not
    _field("line_used", int, "", "scratch"),  # their number,
    _field("line_begin", float, "", "scratch"),  # where they begin,
    _field("line_rest", float, "", "scratch"),  # and what of a utility lies beyond them at most
    _field("chordal", int, "", "fixed"),  # 1 if changes of utilities are bounded by chords (mixtures/_lazy.py)
    _field("coarse", int, "", "fixed"),  # 1 if the table of radii has an entry for each range of n only
    _field("radii_fall", int, "", "fixed"),  # 1 if radii fall with n, and so looking ahead is possible
    _field("plain_bonus", int, "", "fixed"),  # 1 if the bonus is the paper's, not cut off at the ends of [0, 1]
    _field("offset", float, "", "fixed"),  # what rounding to bins is worth at most
    # The search for a mixture.
    _field("used", int, "", "saved", "0 … n_grid"),  # grid points in use
    _field("current", int, "", "saved", "-1 … "),  # the grid point that is played, or −1
    _field("dirty", int, "", "saved", "0 … 1"),  # 1 if rewards came since the last look
    _field("look_at", int, "", "saved cleared"),  # at how many rewards (or pulls and rewards) it is time to look again
    _field("wide_at", int, "", "saved cleared"),  # at how many rewards it is looked for from many starts again
    _field("continuous", int, "", "fixed"),  # 1 if all mixtures are searched, without a grid
    _field("random_ties", int, "", "fixed"),  # 1 if any of several tied grid points is taken
    _field("fineness", float, "", "fixed"),  # how fine a continuous search is, as a share of what chance does
    _field("floor", float, "", "fixed"),  # the least share of every arm in a continuous search
    _field("exploration", float, "", "fixed"),  # ξ of eq:any_sampling_rule
    _field("certify", float, "", "fixed"),  # the share of pulls that is for certifying
    _field("look_ahead", int, "", "cleared"),  # how many rewards of each arm to look ahead next time
    _field("explored_until", int, "", "cleared"),  # before this round no arm is due to be explored
    # CIRT's last check: the candidate that kept the phase open, and what the leader was worth at least.
    _field("witness", int, "", "cleared"),  # 1 + its grid point; 0: none is known
    _field("checked_leader", int, "", "cleared"),  # 1 + the leader's grid point
    _field("leader_floor", float, "", "cleared"),
    # Arrays: pulls and rewards.
    _field("pulls", int, "n_arms", "saved added", "0 … asked"),
    _field("pending", int, "n_arms", "saved added"),  # pulls whose reward has not come, earlier ones included
    _field("told", int, "n_arms", "saved added", "0 … rewards"),  # rewards of each arm
    # Pulls of each arm that the clock no longer counts: forgotten, or of a time before the clock began anew. Pulls so
    # far in all are ``pulls + earlier``, and ``asked`` and the sum of ``earlier``.
    _field("earlier", int, "n_past", "saved added"),
    _field("sums", float, "n_arms", "saved added", "any"),  # their sum
    _field("squares", float, "n_arms", ""),  # the sum of their squares
    _field("travel", float, "n_arms", ""),  # how far in W1 the arm's empirical law has moved in all
    _field("counts", int, "n_arms, n_atoms", "saved added"),
    _field("points", float, "n_atoms", "fixed"),
    # The metric, packed.
    _field("h", float, "n_packed", "fixed"),
    # Confidence sets.
    _field("radii", float, "n_radii", "fixed"),  # the radius after n rewards
    _field("seen", int, "n_arms", "cleared"),  # rewards of each arm when its set was last worked out
    _field("lower", float, "n_arms"),  # of the mean, for rewards of 0 and 1, and for sub-Gaussian ones in belts
    _field("upper", float, "n_arms"),
    _field("radius", float, "n_arms"),
    # Prices of the moment or mean, for the largest and the smallest utility; at how many rewards they are found anew.
    _field("prices", float, "n_prices", "saved cleared"),
    _field("belt", float, f"n_belts, {BELT_ROW}", ""),  # what is kept of each arm's belt,
    _field("belt_at", int, "n_belts", "cleared"),  # and for how many of its rewards
    # Belts on the line: the widths of cells, the ends of the arms' survivals in them, and how far laws may be in W1.
    _field("line_width", float, "n_line", "scratch"),
    _field("line_floor", float, "n_line, n_arms", "scratch"),
    _field("line_top", float, "n_line, n_arms", "scratch"),
    _field("line_far", float, "n_arms", "scratch"),
    _field("table", float, "n_table", "fixed"),
    _field("envelope", float, "n_table", "scratch"),
    _field("spare", float, "knot_room", "scratch"),
    # The mixture that is played, and the grid.
    _field("mix", float, "n_arms", "saved", "0 … 1"),
    _field("grid", float, "n_grid, n_arms", "saved", "0 … 1"),
    # Limits on shares: of each arm, in rows (rows · shares ≤ bound), and the corners of what keeps them.
    _field("least", float, "n_limited", "fixed"),
    _field("most", float, "n_limited", "fixed"),
    _field("limit_rows", float, "n_rows, n_limited", "fixed"),
    _field("limit_bounds", float, "n_rows", "fixed"),
    _field("over", float, "n_rows", "scratch"),
    _field("corners", float, "n_corners, n_limited", "fixed"),
    _field(
        "lag_bounds", float, "n_limited", "fixed"
    ),  # what the 1, 2, … arms that are furthest behind may lack together
    _field("desk", float, "4, n_limited", "scratch"),
    _field("towards", int, "n_limited", "fixed"),  # for each arm the corner with its largest share; 0 without corners
    _field("corner_shares", float, "n_corners", "saved", "0 … 1"),  # ``mix`` as an average of corners
    _field("owed", float, "n_limited", "saved cleared"),  # by how much an arm is behind what the limits are kept by
    _field("free_until", int, "n_gates", "saved cleared"),  # before this round no floor is in danger
    _field("barred", int, "n_arms", "scratch"),  # 1 for the arms that are not available in this call
    _field("stands_until", int, "n_arms", "cleared"),  # the choice stands while no arm has more rewards than this
    # The empirical utility of each grid point when it was last worked out, and what bounds its change since:
    # at how many rewards (0: never), the arms' travel or counts, their radii; and how much it can rise and fall for
    # each unit of change of each arm, and for each unit that a radius shrinks (see mixtures/_lazy.py).
    _field("value", float, "n_grid", ""),
    _field("value_at", float, "n_grid", "cleared"),
    _field("value_basis", float, "n_grid, n_watched", "cleared"),
    _field("value_radius", float, "n_grid, n_watched", "cleared"),
    _field("value_rise", float, "n_grid, n_chords", "cleared"),
    _field("value_fall", float, "n_grid, n_chords", "cleared"),
    _field("value_narrow", float, "n_grid, n_chords", "cleared"),
    _field("value_ends", float, "n_grid, 2", "cleared"),  # widths of what lies above and below all rewards
    # The same of the largest utility that each grid point can have.
    _field("index", float, "n_grid", ""),
    _field("index_at", float, "n_grid", "cleared"),
    _field("index_basis", float, "n_grid, n_watched", "cleared"),
    _field("index_radius", float, "n_grid, n_watched", "cleared"),
    _field("index_rise", float, "n_grid, n_chords", "cleared"),
    _field("index_fall", float, "n_grid, n_chords", "cleared"),
    _field("index_narrow", float, "n_grid, n_chords", "cleared"),
    _field("index_ends", float, "n_grid, 2", "cleared"),
    # CIRT: the grid in whole steps, the mixture that was kept, when phases ended, and its last check.
    _field("steps", int, "n_grid, n_arms", "saved"),
    _field("kept", int, "n_arms", "saved"),
    _field("ends", int, f"{PHASE_ENDS}", "saved", "0 … asked"),
    _field("leader_travel", float, "n_arms", "cleared"),
    _field("leader_radius", float, "n_arms", "cleared"),
    # Vet: the arms' laws on a table, what is played and Φ at its knots, the shares to reach, and the arms left out.
    _field("knots", float, "knot_room", "saved"),
    _field("played", float, "knot_room", "saved", "0 … 1"),
    _field("phi", float, "knot_room", "saved"),
    _field("laws", float, "n_vetted, knot_room"),
    _field("row_told", int, "n_vetted", "cleared"),  # rewards of each arm when its row was written; 0: not yet
    _field("row_variance", float, "n_vetted"),  # of the law in each row
    _field("row_worth", float, "n_vetted"),  # its utility; not for concave metrics
    _field("row_used", int, "n_vetted"),  # at how many knots it has rewards; which, and the share of them there:
    _field("row_place", int, "n_vetted, knot_room"),
    _field("row_share", float, "n_vetted, knot_room"),
    _field("wanted", float, "n_vetted", "saved", "0 … 1"),
    _field("bar", float, "n_limited", "saved"),  # within limits: the slope that each arm needs to deserve a place,
    _field("bar_worth", float, "n_limited", "saved"),  # and what it must be worth alone
    _field("left_out", int, "n_vetted", "saved", "0 … 1"),
    _field("vet", float, "n_vetted", "saved", "any"),  # the index of an arm that is left out
    _field("vetted_pulls", int, "n_vetted", "saved", "0 … pulls"),  # its pulls and rewards when that was worked out
    _field("vetted_told", int, "n_vetted", "saved", "0 … told"),
    _field("root", float, "n_vetted", "saved"),  # where the divergence was found, to start there next time
    _field("start", int, "n_vetted", "saved", "0 … knot_room"),  # the same for metrics that are not concave
    # The arm is at least ``safe`` from being worth ``safe_worth``,
    _field("safe", float, "n_vetted", "saved cleared", "any"),
    _field("safe_worth", float, "n_vetted", "saved cleared"),
    _field("safe_told", int, "n_vetted", "saved cleared", "0 … told"),  # with so many rewards; 0: not known
    # The slope of the utility towards each arm at the last look, and the variance of what it is the mean of.
    _field("slope", float, "n_slopes", "saved"),
    _field("spread", float, "n_slopes", "saved", "0 … "),
    # Certifying: the pulls for it, the rival mixture, and how much a reward of each arm helps, at so many rewards.
    _field("sure_pulls", int, "n_sure", "saved added", "0 … pulls"),
    _field("sure_told", int, "n_sure", "saved cleared"),
    _field("sure_gain", float, "n_sure", "saved"),
    _field("rival", float, "n_sure", "scratch"),
    # Sketches of the arms' rewards.
    _field("sketch_book", int, f"n_sketches, {SKETCH_BOOK}", "saved"),
    _field("sketch_marks", float, f"n_sketches, {SKETCH_MARKS}", "saved", "any"),
    _field("sketch_items", float, "n_sketches, sketch_room", "saved arranged"),
    # Forgetting: how often; the logarithm of the share of δ that is left for now; and how many changes were found.
    _field("tally", float, "n_tally", "saved", "0 … "),
    # Watching the arms: for each a book, thresholds, and counts; and the changes that were found last.
    _field("watch_book", int, f"n_watched_arms, {WATCH_BOOK}", "saved"),
    _field("watch_values", float, f"n_watched_arms, {WATCH_VALUES}", "saved"),
    _field("watch_rows", int, f"n_watched_arms, {WATCH_ROWS}", "saved"),
    _field("noted", float, f"n_noted, {CHANGE}", "saved"),
    # The rewards of the window in the order in which they came, and the arms that paid them.
    _field("recent", float, "n_recent", "saved arranged"),
    _field("recent_arm", int, "n_recent", "saved arranged", "0 … n_arms - 1"),
    # The pool: all rewards, sorted up to ``ordered``, and the arms that paid them. Large, so it comes last.
    _field("x", float, "room", "saved arranged"),
    _field("owner", int, "room", "saved arranged", "0 … n_arms - 1"),
    _field("mass", int, "n_mass", "arranged"),  # for how many rewards a number stands
    _field("above", int, "n_arms", "scratch"),
    _field("curve", float, "room + n_atoms + 2", "scratch"),
    _field("width", float, "room + n_atoms + 2", "scratch"),
)
BY_NAME = {field.name: field for field in FIELDS}


def limits_of(field: Field) -> tuple[str, str]:
    """The two sides of what a saved field holds, as they stand in the table; an empty side is not limited."""
    if field.holds in ("", "any"):
        return ("0", str(MOST)) if field.type is int else ("", "")
    low, _, high = field.holds.partition("…")
    return low.strip(), high.strip() or (str(MOST) if field.type is int else "")


def _group(field: Field) -> int:
    """In memory, arrays that change come first, then those of the pool, then constants and working space."""
    return 2 if field.becomes & {"fixed", "scratch"} else int("arranged" in field.becomes)


ARRAY_FIELDS = tuple(sorted((field for field in FIELDS if not field.single), key=_group))
STARTS = {field.name: len(SIZES) + k for k, field in enumerate(ARRAY_FIELDS)}  # the words that say where arrays begin
FIRST_SINGLE = len(SIZES) + len(STARTS)
FIRST_OWN = FIRST_SINGLE + sum(field.single for field in FIELDS)
FIRST_ARRAY = FIRST_OWN + N_OWN


def _singles() -> dict[str, tuple[type, int]]:
    sizes = {name: (int, place) for place, name in enumerate(SIZES)}
    names = (field for field in FIELDS if field.single)
    return {**sizes, **{field.name: (field.type, FIRST_SINGLE + k) for k, field in enumerate(names)}}


SINGLES = _singles()  # of every size and every single number: its type, and the word in which it lies


def own_singles(own: Mapping[str, type]) -> dict[str, tuple[type, int]]:
    """The single numbers that a policy has of its own; a name that is taken, or one too many, is refused."""
    for name, kind in own.items():
        if name in SINGLES or name in BY_NAME:
            raise ValueError(f"the state has a field {name!r} already; give your number another name.")
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"{name!r} cannot be the name of a number of the state.")
        if kind not in (int, float):
            raise TypeError(f"{name} must be declared as int or float, got {kind!r}.")
    if len(own) > N_OWN:
        raise ValueError(f"a policy can have {N_OWN} single numbers of its own, but {len(own)} are declared.")
    return {name: (kind, FIRST_OWN + k) for k, (name, kind) in enumerate(own.items())}


def shape_of(name: str) -> tuple[tuple[str | int, ...], ...]:
    """The shape of an array: for each dimension the terms that are added up, sizes by name, and numbers."""
    out = []
    for length in BY_NAME[name].shape.split(", "):
        terms = (term.strip() for term in length.split("+"))
        out.append(tuple(int(term) if term.isdecimal() else term for term in terms))
    return tuple(out)


def _length(terms: tuple[str | int, ...], sizes: Mapping[str, int]) -> int:
    return sum(term if isinstance(term, int) else sizes[term] for term in terms)


@dataclass(frozen=True)
class Places:
    """Where everything lies for given sizes."""

    arrays: dict[str, tuple[type, slice, tuple[int, ...]]]  # of every array: its type, its words, and its shape
    changing: int  # the words before this hold the single numbers, and the arrays that change from round to round
    moving: int  # and the words before this also the pool of rewards; all others are constants or working space
    end: int  # how many words there are
    starts: tuple[int, ...]  # where the arrays begin, in the order of STARTS


@lru_cache(maxsize=1024)
def places(*sizes: int) -> Places:
    """Where everything lies for the given sizes."""
    known = dict(zip(SIZES, sizes, strict=True))
    out, at, ends = {}, FIRST_ARRAY, [FIRST_ARRAY] * 3
    for field in ARRAY_FIELDS:
        shape = tuple(_length(terms, known) for terms in shape_of(field.name))
        end = at + math.prod(shape)
        out[field.name], at = (field.type, slice(at, end), shape), end
        for group in range(_group(field), 3):
            ends[group] = end
    return Places(out, ends[0], ends[1], at, tuple(where.start for _, where, _ in out.values()))
