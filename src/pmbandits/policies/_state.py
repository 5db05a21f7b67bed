"""The whole state of a policy as two flat arrays, and what every algorithm does with it, compiled.

Two arrays cross from Python to compiled code at the price of one call; inside, :func:`unpack` gives the parts their
names back. They are also what is saved: nothing a policy knows lives anywhere else.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
from llvmlite.ir import Constant
from numba import types
from numba.core.cgutils import pack_array
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits._compile import inlined, kernel
from pmbandits.confidence._kernels import CONCAVE, ball_value, kl_lower, kl_upper
from pmbandits.estimates import _kernels as sketching
from pmbandits.metrics._kernels import h_max, h_min, h_value
from pmbandits.supports import ATOM_TOLERANCE

# sizes: constants of the layout
ARMS, ATOMS, GRID, ROOM, RADII, PACKED, TABLE, MODE, KIND, SHAPE, BOUNDED, COARSE, SKETCH, BUFFER, SKETCHES = range(15)
# clock: what moves on
ASKED, REWARDS, CURRENT, DIRTY, PHASE, GRID_USED, TRACKING, COMMITTED, STREAM, SORTED, POOL_SIZE = range(11)
LOOK_AT, WIDE_AT = 14, 15  # at how many rewards a mixture is looked for again
# knobs: hyperparameters and constants of the metric and the support
(
    LOW,
    HIGH,
    LIPSCHITZ,
    HOLDER_Q,
    HOLDER_C,
    HORIZON,
    EXPLORE,
    XI,
    BRANCHING,
    PHASES,
    TOLERANCE,
    LITERAL,
    SIGMA,
    ARM,
    SEED,
    PLAIN,
    PEAK,
    FALLING,
    SHARE,
    FLOOR,
    CONTINUOUS,
    ROUNDING,
    OFFSET,
    RANK_DELTA,
) = range(24)
HEAD = 16
KNOBS = 24
HISTORY = 64

BINARY, FINITE, SAMPLES = range(3)  # mode: how rewards are kept
INTERVAL, BAND, BALL = range(3)  # kind of the confidence set
EMPIRICAL, OPTIMISTIC, PESSIMISTIC = range(3)

TIE = 1e-12  # indices closer than this (relative above 1) are tied
GROW = -1  # a kernel's answer when the table of radii is too short

# Name, whether it holds numbers (floats) or counts (ints), and its shape in terms of the sizes below. The order is that
# in memory; ``observe`` counts on it.
FIELDS: tuple[tuple[str, str, str], ...] = (
    ("size", "i", "16"),
    ("clock", "i", "16"),
    ("pulls", "i", "K"),
    ("pending", "i", "K"),
    ("told", "i", "K"),
    ("seen", "i", "K"),
    ("above", "i", "K"),
    ("kept", "i", "K"),
    ("ends", "i", "64"),
    ("steps", "i", "G, K"),
    ("counts", "i", "K, M"),
    ("owner", "i", "N"),
    ("nap", "i", "K+2"),
    ("mass", "i", "S*U"),
    ("book", "i", "S, 61"),
    ("knobs", "f", "24"),
    ("h", "f", "H"),
    ("points", "f", "M"),
    ("radii", "f", "R"),
    ("table", "f", "E"),
    ("envelope", "f", "E"),
    ("sums", "f", "K"),
    ("lower", "f", "K"),
    ("upper", "f", "K"),
    ("radius", "f", "K"),
    ("mix", "f", "K"),
    ("grid", "f", "G, K"),
    ("index", "f", "G"),
    ("value", "f", "G"),
    ("x", "f", "N"),
    ("curve", "f", "N+M+2"),
    ("width", "f", "N+M+2"),
    ("items", "f", "S, U"),
    ("marks", "f", "S, 5"),
)
State = namedtuple("State", [*(name for name, _, _ in FIELDS), "whole"])  # type: ignore[misc]
# Made anew from the configuration when a state is loaded.
DERIVED = ("radii", "h", "points", "table", "envelope", "index", "value", "curve", "width", "above", "nap", "mass")
# Of sketches also the pool: it is laid out anew from their items.
POOL = ("x", "owner")

IntArray = NDArray[np.int64]


SIZES = {"K": ARMS, "M": ATOMS, "G": GRID, "N": ROOM, "R": RADII, "H": PACKED, "E": TABLE, "S": SKETCHES, "U": BUFFER}


def shape_of(text: str, size: Any) -> tuple[Any, ...]:
    """A field's shape; ``size`` maps a letter to a number, or to one that compiled code will know."""
    shape = eval(text, {}, {name: size(place) for name, place in SIZES.items() if name in text})
    return shape if isinstance(shape, tuple) else (shape,)


def lengths(size: IntArray) -> dict[str, int]:
    """The length of every field for the given sizes."""
    return {name: int(np.prod(shape_of(text, lambda place: int(size[place])))) for name, _, text in FIELDS}


def views(ints: IntArray, floats: FloatArray) -> dict[str, NDArray[Any]]:
    """The fields by name, as Python sees them (flat views, not copies)."""
    out: dict[str, NDArray[Any]] = {}
    at = {"i": 0, "f": 0}
    sizes = lengths(ints[:HEAD])
    for name, kind, _ in FIELDS:
        length = sizes[name]
        source: NDArray[Any] = ints if kind == "i" else floats
        out[name] = source[at[kind] : at[kind] + length]
        at[kind] += length
    return out


def allocate(size: IntArray) -> tuple[IntArray, FloatArray]:
    """Two arrays for the given sizes, all zero but the sizes themselves."""
    total = {"i": 0, "f": 0}
    sizes = lengths(size)
    for name, kind, _ in FIELDS:
        total[kind] += sizes[name]
    ints = np.zeros(total["i"], dtype=np.int64)
    ints[:HEAD] = size
    return ints, np.zeros(total["f"])


# Naming the parts of the state by slices would check bounds and count references up and down in every round, which
# costs more than the round, and typing them would cost half a second in every kernel that is compiled. So one
# intrinsic makes all views at once. The caller holds the two arrays as long as a kernel runs, and no kernel hands a
# part out.


@intrinsic
def borrowed(typingctx, array):
    """The same array, without its reference count."""
    del typingctx

    def codegen(context, builder, signature, args):
        made = context.make_array(signature.return_type)(context, builder, args[0])
        made.meminfo = Constant(made.meminfo.type, None)
        made.parent = Constant(made.parent.type, None)
        return made._getvalue()

    return array(array), codegen


class _Number:
    """A number that compiled code will know, with the arithmetic that shapes need."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _other(self, other: Any) -> Any:
        return other.value if isinstance(other, _Number) else Constant(self.value.type, other)

    def __add__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.add(self.value, self._other(other)))

    def __mul__(self, other: Any) -> _Number:
        return _Number(self.builder, self.builder.mul(self.value, self._other(other)))

    __radd__, __rmul__ = __add__, __mul__


@intrinsic
def unpack(typingctx, ints, floats):
    """The parts of the state, by name, without a share in the reference counts of the two arrays."""
    del typingctx
    dtypes = {"i": types.int64, "f": types.float64}
    made = [types.Array(dtypes[kind], 2 if "," in text else 1, "C") for _, kind, text in FIELDS]
    result = types.NamedTuple([*made, types.Tuple((ints, floats))], State)

    def codegen(context, builder, signature, args):
        pairs = list(zip(signature.args, args, strict=True))
        sources = {k: context.make_array(t)(context, builder, v) for k, (t, v) in zip("if", pairs, strict=True)}
        word = context.get_constant(types.intp, 8)

        def number(place):
            spot = builder.gep(sources["i"].data, [context.get_constant(types.intp, place)])
            return _Number(builder, builder.load(spot))

        sizes = {place: number(place) for place in SIZES.values()}
        at = {kind: _Number(builder, context.get_constant(types.intp, 0)) for kind in "if"}
        views = []
        for kind_of, (_, kind, text) in zip(made, FIELDS, strict=True):
            shape = [n if isinstance(n, _Number) else _Number(builder, context.get_constant(types.intp, n))
                     for n in shape_of(text, sizes.__getitem__)]  # fmt: skip
            count = shape[0] if len(shape) == 1 else shape[0] * shape[1]
            strides = [word] if len(shape) == 1 else [builder.mul(shape[1].value, word), word]
            view = context.make_array(kind_of)(context, builder)
            populate_array(
                view, builder.gep(sources[kind].data, [at[kind].value]),
                pack_array(builder, [n.value for n in shape]), pack_array(builder, strides), word, None,
            )  # fmt: skip
            view.nitems = count.value
            views.append(view._getvalue())
            at[kind] = at[kind] + count
        for t, v in pairs:
            context.nrt.incref(builder, t, v)
        pair = context.make_tuple(builder, result.types[-1], list(args))
        return context.make_tuple(builder, result, [*views, pair])

    return result(ints, floats), codegen


@inlined
def parts(whole):
    """The parts of the state from the pair of its arrays.

    Small kernels take the named parts ``s`` and are written into their callers. The others take ``s.whole`` and name
    what they need again, which costs nothing: handing over thirty arrays would cost more than most of their work.
    """
    return unpack(whole[0], whole[1])


# ---- reward → estimate ----------------------------------------------------------------------------------

OK, BAD_ARM, BAD_REWARD, OUTSIDE, FULL = range(5)
STALE = -1  # of SORTED: a compaction has changed the sketches, and the pool must be laid out anew


@kernel
def observe_sketched(whole, arm, reward):
    """Take one reward into the arm's sketch, and into the pool as long as that is what the sketches hold."""
    s = parts(whole)
    compactions = sketching.put(
        s.book[arm], s.items[arm], s.marks[arm], s.size[SKETCH], int(s.knobs[SEED]), arm, reward
    )
    if compactions > 0:
        # lazy: a compaction moves the arm's law by (the increase of marks[arm, MOVED]) / told in W1, and its radius may
        # rise. So sketches say that radii do not fall (FALLING), and every look is a full one, over few numbers.
        s.clock[SORTED] = STALE
    if s.clock[SORTED] != STALE:
        at = s.clock[POOL_SIZE]
        s.x[at], s.owner[at], s.mass[at] = reward, arm, 1
        s.clock[POOL_SIZE] = at + 1


@kernel
def lay_out(whole):
    """The pool from the items of all sketches, sorted."""
    s = parts(whole)
    count = 0
    for i in range(s.size[ARMS]):
        used = s.book[i, sketching.USED]
        sketching.spread(s.book[i], s.mass[count : count + used])
        s.x[count : count + used] = s.items[i, :used]
        s.owner[count : count + used] = i
        count += used
    order = np.argsort(s.x[:count], kind="mergesort")
    s.x[:count], s.owner[:count], s.mass[:count] = s.x[:count][order], s.owner[:count][order], s.mass[:count][order]
    s.clock[POOL_SIZE], s.clock[SORTED] = count, count


@inlined
def pooled(s):
    """How many numbers the pool holds: all rewards, or the items of the sketches."""
    return s.clock[POOL_SIZE] if s.size[SKETCH] > 0 else s.clock[REWARDS]


@inlined
def stands_for(s, at):
    """For how many rewards a number of the pool stands."""
    return s.mass[at] if s.size[SKETCH] > 0 else 1


@inlined
def observe(ints, floats, arm, reward):
    """Take one reward in, or answer why not and leave everything as it was.

    Reaches into the two arrays by itself (see FIELDS): naming all parts would take longer than the work.
    """
    k, m, g, n = ints[ARMS], ints[ATOMS], ints[GRID], ints[ROOM]
    if arm < 0 or arm >= k:
        return BAD_ARM
    if not (reward > -np.inf and reward < np.inf):
        return BAD_REWARD
    pulls = 2 * HEAD
    pending, told = pulls + k, pulls + 2 * k
    counts = pulls + 6 * k + HISTORY + g * k
    points = KNOBS + ints[PACKED]
    sums = points + m + ints[RADII] + 2 * ints[TABLE]
    if ints[MODE] == SAMPLES:
        if ints[BOUNDED] == 1 and (reward < floats[LOW] or reward > floats[HIGH]):
            return OUTSIDE
        count = ints[HEAD + REWARDS]
        if ints[SKETCH] > 0:
            observe_sketched((ints, floats), arm, reward)
        elif count >= n:
            return FULL
        else:
            floats[sums + 5 * k + g * k + 2 * g + count] = reward  # ``tidy`` brings them into order when one looks
            ints[counts + k * m + count] = arm
    elif ints[MODE] == BINARY:
        one = np.int64(reward == 1.0)  # a coin's result: arithmetic, not a branch to guess
        if reward != one:
            return OUTSIDE
        ints[counts + arm * 2 + one] += 1
    elif floats[ROUNDING] > 0.0:  # bins: the nearest of evenly spaced points
        if reward < floats[LOW] or reward > floats[HIGH]:
            return OUTSIDE
        nearest = min(int((reward - floats[LOW]) / (2.0 * floats[ROUNDING]) + 0.5), m - 1)
        reward = floats[points + nearest]
        ints[counts + arm * m + nearest] += 1
    else:
        lo, hi = 0, m - 1
        while lo < hi:
            middle = (lo + hi) // 2
            if floats[points + middle] < reward:
                lo = middle + 1
            else:
                hi = middle
        close = ATOM_TOLERANCE * (floats[HIGH] - floats[LOW])  # 0.1 + 0.2 is the atom 0.3
        if lo > 0 and reward - floats[points + lo - 1] <= close:
            lo -= 1
        if abs(floats[points + lo] - reward) > close:
            return OUTSIDE
        reward = floats[points + lo]
        ints[counts + arm * m + lo] += 1
    ints[told + arm] += 1
    floats[sums + arm] += reward
    if ints[pending + arm] > 0:
        ints[pending + arm] -= 1
    ints[HEAD + REWARDS] += 1
    ints[HEAD + DIRTY] = 1
    return OK


# ---- estimate → confidence ------------------------------------------------------------------------------


@inlined
def short_table(s):
    """Whether some arm has more rewards than the table of radii is long."""
    most = 0
    for i in range(s.size[ARMS]):
        most = max(most, s.told[i])
    return most >= s.size[RADII] and s.size[COARSE] == 0


# Bounded memory: the table of radii has OCTAVE entries for each doubling of n. An entry is the radius at its smallest
# n; radii fall, so it is at least the radius at n: valid, and wider by 1/OCTAVE of itself at most.
OCTAVE = 128
COARSE_TABLE = OCTAVE * 35  # n up to 2⁴¹; beyond, the last radius


@kernel
def slot(n):
    """The entry of the coarse table for n."""
    doublings = 0
    while n >= 2 * OCTAVE:
        n >>= 1
        doublings += 1
    return min(doublings * OCTAVE + n, COARSE_TABLE - 1)


def coarse_counts() -> IntArray:
    """The n of each entry of the coarse table."""
    entry = np.arange(COARSE_TABLE)
    doublings = np.maximum(entry // OCTAVE - 1, 0)
    return (entry - doublings * OCTAVE) << doublings


@inlined
def table_radius(s, n):
    """The radius of the confidence set after n rewards."""
    return s.radii[slot(n)] if s.size[COARSE] == 1 else s.radii[n]


@kernel
def rank_error(whole, i):
    """How far the sketch of arm i may be from its rewards: sup |F_sketch − F̂|, at all times together."""
    s = parts(whole)
    if s.size[SKETCH] == 0:
        return 0.0
    marks, n = s.marks[i], s.told[i]
    return sketching.sketch_error(
        n, marks[sketching.SQUARES], marks[sketching.SUM], s.size[SKETCH], s.knobs[RANK_DELTA], True
    )


@kernel
def arm_radius(whole, i):
    """The radius of arm i's set around what is kept of its rewards: wider by what is not kept."""
    s = parts(whole)
    r = table_radius(s, s.told[i])
    if s.told[i] == 0 or s.size[MODE] == BINARY:
        return r
    if s.size[KIND] == BAND:  # rounding to bins is added to the values instead (OFFSET)
        return r + rank_error(s.whole, i)
    r += s.knobs[ROUNDING]
    if s.size[SKETCH] > 0:  # both laws live between the least and the largest reward
        r += rank_error(s.whole, i) * (s.marks[i, sketching.MOST] - s.marks[i, sketching.LEAST])
    return r


@kernel
def radius_of(ints, floats, i):
    """``arm_radius``, for Python."""
    return arm_radius((ints, floats), i)


@kernel
def share_of_ones(whole, i):
    s = parts(whole)
    return s.counts[i, 1] / s.told[i] if s.told[i] > 0 else 0.0


@kernel
def refresh(whole):
    """Bring the arms' confidence sets up to date; only arms with new rewards cost anything."""
    s = parts(whole)
    for i in range(s.size[ARMS]):
        if s.told[i] == s.seen[i] and s.seen[i] > 0:
            continue
        s.seen[i] = s.told[i]
        r = arm_radius(s.whole, i)
        s.radius[i] = r
        if s.size[MODE] == BINARY:
            if s.told[i] == 0:
                s.lower[i], s.upper[i] = 0.0, 1.0
                continue
            p = share_of_ones(s.whole, i)
            if s.size[KIND] == INTERVAL:
                s.lower[i], s.upper[i] = kl_lower(p, r), kl_upper(p, r)
            else:
                s.lower[i], s.upper[i] = max(p - r, 0.0), min(p + r, 1.0)


# Kernels that run once for every mixture or cell take the few arrays that they use: handing over the whole state
# costs more than their work.


@kernel
def inverses(told):
    """1/n of each arm, 0 for an arm without rewards."""
    out = np.zeros(told.size)
    for i in range(told.size):
        if told[i] > 0:
            out[i] = 1.0 / told[i]
    return out


@kernel
def survival(a, above, told, inverse):
    """The mixture's survival where ``above`` rewards of each arm lie above; exact at 0 and at 1."""
    high, low = 0.0, 0.0
    for i in range(a.size):
        if told[i] > 0:
            high += a[i] * (above[i] * inverse[i])
            low += a[i] * ((told[i] - above[i]) * inverse[i])
        else:
            low += a[i]
    return high if high < low else 1.0 - low


@kernel
def binary_bounds(h, grid, used, lower, upper, out):
    """The optimistic value of every grid point at once."""
    for g in range(used):
        low, high, room = 0.0, 0.0, 0.0
        for i in range(lower.size):
            low += grid[g, i] * lower[i]
            high += grid[g, i] * upper[i]
            room += grid[g, i] * (1.0 - upper[i])
        out[g] = h_max(h, low, high if high < 0.5 else 1.0 - room)


@kernel
def binary_bound(h, a, lower, upper, what):
    """Bernoulli arms: the extreme of h over the means that the mixture can have. Interval arithmetic, exact."""
    low, high, room = 0.0, 0.0, 0.0
    for i in range(a.size):
        low += a[i] * lower[i]
        high += a[i] * upper[i]
        room += a[i] * (1.0 - upper[i])
    high = high if high < 0.5 else 1.0 - room
    return h_max(h, low, high) if what == OPTIMISTIC else h_min(h, low, high)


@kernel
def tidy(whole):
    """Bring the rewards into order: equal ones as they came."""
    s = parts(whole)
    count, done, sketched = pooled(s), s.clock[SORTED], s.size[SKETCH] > 0
    if s.size[MODE] != SAMPLES or done == count:
        return
    if done == STALE:
        lay_out(s.whole)
        return
    x, owner, mass = s.x, s.owner, s.mass
    late, whose = x[done:count].copy(), owner[done:count].copy()
    if count - done > 1:
        order = np.argsort(late, kind="mergesort")
        late, whose = late[order], whose[order]
    at, old, new = count - 1, done - 1, count - done - 1
    while new >= 0:
        if old >= 0 and x[old] > late[new]:
            x[at], owner[at] = x[old], owner[old]
            if sketched:
                mass[at] = mass[old]
            old -= 1
        else:
            x[at], owner[at] = late[new], whose[new]
            if sketched:
                mass[at] = 1  # what came since is not compacted yet
            new -= 1
        at -= 1
    s.clock[SORTED] = count


@kernel
def sweep(whole, a, what):
    """U_h of the mixture of empirical laws, or its largest or smallest value in the bands: one pass over the cells.

    An arm without rewards counts as sure to pay the least; its band is everything.
    """
    s = parts(whole)
    tidy(s.whole)
    k, bounded = s.size[ARMS], s.size[BOUNDED] == 1
    finite = s.size[MODE] == FINITE
    cells = s.size[ATOMS] if finite else pooled(s)
    sketched, mass = s.size[SKETCH] > 0, s.mass
    if cells == 0 and not bounded:
        return 0.0
    # Local names and numbers: the loop below runs once for every reward so far.
    h, points, owner, counts = s.h, s.points if finite else s.x, s.owner, s.counts
    left, each, weight, radius = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    idle = 0.0
    for i in range(k):
        left[i], weight[i], radius[i] = s.told[i], a[i], s.radius[i]
        each[i] = 1.0 / s.told[i] if s.told[i] > 0 else 0.0
        if s.told[i] == 0:
            idle += a[i]
            weight[i] = 0.0
    total_told = left.copy()
    before = s.knobs[LOW] if bounded else points[0]
    total = before * h_value(h, 1.0)
    for cell in range(cells + 1):
        if cell < cells:
            here = points[cell]
        elif bounded:
            here = s.knobs[HIGH]
        else:
            break
        width = here - before
        if width > 0.0:
            if what == EMPIRICAL:
                high, low = 0.0, idle
                for i in range(k):
                    high += weight[i] * (left[i] * each[i])
                    low += weight[i] * ((total_told[i] - left[i]) * each[i])
                total += width * h_value(h, high if high < low else 1.0 - low)
            else:
                low, high, room = 0.0, idle, 0.0
                for i in range(k):
                    share = left[i] * each[i]
                    low += weight[i] * max(share - radius[i], 0.0)
                    high += weight[i] * min(share + radius[i], 1.0)
                    room += weight[i] * max((total_told[i] - left[i]) * each[i] - radius[i], 0.0)
                high = high if high < 0.5 else 1.0 - room
                total += width * (h_max(h, low, high) if what == OPTIMISTIC else h_min(h, low, high))
            before = here
        if cell < cells:
            if finite:
                for i in range(k):
                    left[i] -= counts[i, cell]
            else:
                left[owner[cell]] -= mass[cell] if sketched else 1
    return total


@kernel
def utility(whole, a):
    """U_h of the mixture of the empirical laws: ``eq:ETC_alpha``'s objective."""
    s = parts(whole)
    if s.size[MODE] == BINARY:
        return h_value(s.h, survival(a, s.counts[:, 1], s.told, inverses(s.told)))
    return sweep(s.whole, a, EMPIRICAL)


@kernel
def lay(whole, a):
    """The mixture's survival on its cells, into ``curve`` and ``width``; returns their number."""
    s = parts(whole)
    tidy(s.whole)
    k = s.size[ARMS]
    finite = s.size[MODE] == FINITE
    points = s.size[ATOMS] if finite else pooled(s)
    inverse = inverses(s.told)
    for i in range(k):
        s.above[i] = s.told[i]
    before = s.knobs[LOW]
    cells = 0
    for cell in range(points + 1):
        here = s.knobs[HIGH]
        if cell < points:
            here = s.points[cell] if finite else s.x[cell]
        if here > before:
            s.curve[cells] = survival(a, s.above, s.told, inverse)
            s.width[cells] = here - before
            cells += 1
            before = here
        if cell < points:
            if finite:
                for i in range(k):
                    s.above[i] -= s.counts[i, cell]
            else:
                s.above[s.owner[cell]] -= stands_for(s, cell)
    return cells


@kernel
def bound(whole, a, what):
    """The largest or smallest U_h that the mixture can have while every arm stays in its confidence set.

    Intervals: exact. Bands: exact for one arm; for several a bound (each arm's own curve must fall too, which the
    mixture's cells do not see). Balls: of the pooled radius, a bound within some per cent of the arms' own.
    """
    s = parts(whole)
    k = s.size[ARMS]
    if s.size[MODE] == BINARY:
        return binary_bound(s.h, a, s.lower, s.upper, what)
    sign = 1.0 if what == OPTIMISTIC else -1.0
    if s.size[KIND] == BAND:  # of the rounded rewards' laws, and what rounding is worth at most
        return sweep(s.whole, a, what) + sign * s.knobs[OFFSET]
    far = 0.0
    for i in range(k):
        if a[i] > 0.0:
            far += a[i] * s.radius[i]
    if s.size[BOUNDED] == 0:
        return sweep(s.whole, a, EMPIRICAL) + sign * s.knobs[LIPSCHITZ] * far
    cells = lay(s.whole, a)
    inside = ball_value(s.h, sign, s.size[SHAPE], s.curve, s.width, cells, far, s.table, s.envelope)
    return s.knobs[LOW] * h_value(s.h, 1.0) + sign * inside


@kernel
def bounds(ints, floats, a):
    """Pessimistic, empirical and optimistic value of a mixture."""
    s = unpack(ints, floats)
    refresh(s.whole)
    return bound(s.whole, a, PESSIMISTIC), utility(s.whole, a), bound(s.whole, a, OPTIMISTIC)


@kernel
def wasserstein_radius(whole, i):
    """How far, in W1, arm i's law may be from its rewards."""
    s = parts(whole)
    if s.size[MODE] == BINARY:
        if s.knobs[PLAIN] == 1.0:  # the paper's bonus to the letter: not cut off at the ends of [0, 1]
            return s.radius[i]
        p = share_of_ones(s.whole, i)
        return max(s.upper[i] - p, p - s.lower[i])
    width = s.knobs[HIGH] - s.knobs[LOW]
    if s.told[i] == 0:
        return width
    return width * min(s.radius[i], 1.0) + s.knobs[ROUNDING] if s.size[KIND] == BAND else s.radius[i]


# ---- confidence → mixture -------------------------------------------------------------------------------


@kernel
def utilities(whole):
    """The empirical utility of every grid point, into ``value``."""
    s = parts(whole)
    if s.size[MODE] == BINARY:
        ones, inverse = s.counts[:, 1], inverses(s.told)
        for g in range(s.clock[GRID_USED]):
            s.value[g] = h_value(s.h, survival(s.grid[g], ones, s.told, inverse))
    else:
        for g in range(s.clock[GRID_USED]):
            s.value[g] = sweep(s.whole, s.grid[g], EMPIRICAL)


@kernel
def still_best(index, used, before):
    """Whether the previous grid point is among those with the largest index."""
    top = index[0]
    for g in range(1, used):
        if index[g] > top:
            top = index[g]
    return before >= 0 and index[before] >= top - TIE * max(1.0, abs(top))


@kernel
def settle(whole, used):
    """Which grid point to take: the largest index; tied, the previous one; else the highest utility; else the first."""
    s = parts(whole)
    before = s.clock[CURRENT]
    if still_best(s.index, used, before):
        return before
    top = s.index[0]
    for g in range(1, used):
        top = max(top, s.index[g])
    slack = TIE * max(1.0, abs(top))
    chosen, best = -1, -np.inf
    for g in range(used):
        if s.index[g] >= top - slack:
            value = utility(s.whole, s.grid[g])
            if chosen < 0 or value > best + TIE * max(1.0, abs(best)):
                chosen, best = g, value
    return chosen


@inlined
def take(s, g):
    """Make grid point g the current mixture."""
    s.clock[CURRENT] = g
    for i in range(s.size[ARMS]):
        s.mix[i] = s.grid[g, i]
    s.clock[DIRTY] = 0


@inlined
def forget_choice(s):
    """A look during exploration must not count as a choice: the first one is made when exploration ends."""
    s.clock[CURRENT] = -1
    s.clock[DIRTY] = 1
    s.clock[LOOK_AT] = 0
    for i in range(s.nap.size):
        s.nap[i] = 0


@inlined
def due(s):
    """Whether there are rewards that could change the mixture."""
    return s.clock[DIRTY] == 1 and s.clock[REWARDS] >= s.clock[LOOK_AT] and not asleep(s.told, s.nap)


@inlined
def ready(s):
    """Whether every arm has paid at least once; before that no mixture is better than another."""
    least = s.told[0]
    for i in range(1, s.size[ARMS]):
        least = min(least, s.told[i])
    return least > 0


@kernel
def optimistic_mixture(whole):
    """``eq:UCB_alpha``: the mixture whose best possible utility is the largest."""
    s = parts(whole)
    if not ready(s):
        return
    refresh(s.whole)
    used = s.clock[GRID_USED]
    if s.size[MODE] == BINARY:
        binary_bounds(s.h, s.grid, used, s.lower, s.upper, s.index)
    else:
        for g in range(used):
            s.index[g] = bound(s.whole, s.grid[g], OPTIMISTIC)
    if still_best(s.index, used, s.clock[CURRENT]):
        s.clock[DIRTY] = 0
    else:
        take(s, settle(s.whole, used))
    if may_doze(s.whole):
        doze_off(s.whole, stays_optimistic(s.whole))


# Most rewards change nothing. After a look at 0/1 rewards the policy works out up to how many more rewards of each arm
# the decision is sure to stand, whatever they are, and does not look again before: the same decisions, far less work.
# ``nap`` holds that number for each arm, then how far to look ahead next time, then until when no arm is due to be
# explored. More ones raise both ends of an arm's interval, more rewards narrow it, so the extremes are at the ends.


@inlined
def asleep(told, nap):
    """Whether the decision still stands, whatever came since the last look."""
    stands = True
    for i in range(told.size):
        if told[i] > nap[i]:
            stands = False
    return stands


SHORTEST_NAP = 4  # less than that is not worth the look ahead


@kernel
def may_doze(whole):
    """Whether looking ahead is possible and, after failures, due."""
    s = parts(whole)
    k, room = s.size[ARMS], s.size[RADII]
    if s.size[MODE] != BINARY or s.knobs[FALLING] == 0.0:
        return False
    if s.nap[k] < SHORTEST_NAP:
        s.nap[k] += 1
        return False
    for i in range(k):
        if s.told[i] + s.nap[k] >= room and s.size[COARSE] == 0:
            s.nap[k] = max(SHORTEST_NAP, s.nap[k] // 2)
            return False
    return True


@kernel
def doze_off(whole, stands):
    """Sleep if the decision stands, and look twice as far next time; else half as far, or not for a while."""
    s = parts(whole)
    k = s.size[ARMS]
    ahead = s.nap[k]
    if stands:
        for i in range(k):
            s.nap[i] = s.told[i] + ahead
        s.nap[k] = min(2 * ahead, 1 << 24)
    else:
        s.nap[k] = ahead // 2 if ahead >= 2 * SHORTEST_NAP else SHORTEST_NAP - 32


@kernel
def ends_within(kind, p, r, lower):
    """An end of an arm's interval around the share p of ones."""
    if lower:
        return kl_lower(p, r) if kind == INTERVAL else max(p - r, 0.0)
    return kl_upper(p, r) if kind == INTERVAL else min(p + r, 1.0)


@kernel
def surely_inside(whole, ahead):
    """For each arm the interval that it will cover after each of the next ``ahead`` rewards: highest lower end, lowest
    upper end."""
    s = parts(whole)
    k, kind = s.size[ARMS], s.size[KIND]
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.told[i] + ahead, s.counts[i, 1]
        low[i] = ends_within(kind, (ones + ahead) / n, table_radius(s, n), True)
        high[i] = ends_within(kind, ones / n, table_radius(s, n), False)
    return low, high


@kernel
def maybe_inside(whole, ahead):
    """For each arm the interval that it can cover at most within ``ahead`` rewards."""
    s = parts(whole)
    k, kind = s.size[ARMS], s.size[KIND]
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones, r = s.told[i] + ahead, s.counts[i, 1], table_radius(s, s.told[i])
        low[i] = ends_within(kind, ones / n, r, True)
        high[i] = ends_within(kind, (ones + ahead) / n, r, False)
    return low, high


@kernel
def shares_within(whole, ahead):
    """For each arm the least and largest share of ones that it can have within ``ahead`` rewards."""
    s = parts(whole)
    k = s.size[ARMS]
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.told[i] + ahead, s.counts[i, 1]
        low[i], high[i] = ones / n, (ones + ahead) / n
    return low, high


@kernel
def dot(a, x):
    total = 0.0
    for i in range(x.size):
        total += a[i] * x[i]
    return total


@kernel
def least_lead(h, shape, mine, other, low, high):
    """A lower bound on h(mine·p) − h(other·p) while each p lies between ``low`` and ``high``.

    Concave h: with x = other·p and x + e = mine·p, h(x + e) − h(x) falls in x where e > 0 and rises where e < 0, and
    is concave in e. So it is least at ends; and e varies little between mixtures that are near each other.
    """
    x_low, x_high, e_low, e_high = 0.0, 0.0, 0.0, 0.0
    for i in range(low.size):
        x_low += other[i] * low[i]
        x_high += other[i] * high[i]
        d = mine[i] - other[i]
        e_low += d * (low[i] if d > 0.0 else high[i])
        e_high += d * (high[i] if d > 0.0 else low[i])
    x_high = min(x_high, 1.0)
    if shape == CONCAVE and x_high + e_high <= 1.0 and x_low + e_low >= 0.0:
        least = 0.0 if e_low < 0.0 < e_high else np.inf
        for e in (e_low, e_high):
            x = x_high if e >= 0.0 else x_low
            if x + e >= 0.0 and x + e <= 1.0:
                least = min(least, h_value(h, x + e) - h_value(h, x))
            else:
                return -np.inf
        return least
    return h_min(h, dot(mine, low), min(dot(mine, high), 1.0)) - h_max(h, x_low, x_high)


SURE = 1e-9  # a lead this large cannot be an accident of rounding


@kernel
def stays_optimistic(whole):
    """Whether the current mixture keeps the largest optimistic value while no arm pays more than ``nap`` times."""
    s = parts(whole)
    ahead, current = s.nap[s.size[ARMS]], s.clock[CURRENT]
    mine, peak = s.grid[current], s.knobs[PEAK]
    low, high = surely_inside(s.whole, ahead)
    left, right = dot(mine, low), dot(mine, high)
    if left > right:
        return False
    sure = h_max(s.h, left, right)
    if sure >= peak - 0.5 * TIE * max(1.0, abs(peak)):  # nothing can be better
        return True
    low, high = maybe_inside(s.whole, ahead)
    for g in range(s.clock[GRID_USED]):
        if g != current:
            rival = h_max(s.h, dot(s.grid[g], low), min(dot(s.grid[g], high), 1.0))
            if rival > sure - SURE * max(1.0, abs(peak)):
                return False
    return True


@kernel
def empirical_mixture(whole):
    """``eq:ETC_alpha``: the mixture with the largest empirical utility (the first of equals)."""
    s = parts(whole)
    utilities(s.whole)
    chosen = 0
    for g in range(1, s.clock[GRID_USED]):
        if s.value[g] > s.value[chosen] + TIE * max(1.0, abs(s.value[chosen])):
            chosen = g
    take(s, chosen)


# ---- mixture → arm --------------------------------------------------------------------------------------


@inlined
def fewest(s):
    """The arm with the fewest pulls (the first of equals)."""
    arm = 0
    for i in range(1, s.size[ARMS]):
        if s.pulls[i] < s.pulls[arm]:
            arm = i
    return arm


@inlined
def most_behind(s):
    """``eq:UCB_sampling_rule``: the most under-sampled arm, argmax t·a(i) − τ(i)."""
    t = s.clock[ASKED]
    arm, lag = 0, t * s.mix[0] - s.pulls[0]
    for i in range(1, s.size[ARMS]):
        behind = t * s.mix[i] - s.pulls[i]
        if behind > lag + 1e-9:
            arm, lag = i, behind
    return arm


@inlined
def explore_or_track(s):
    """``eq:any_sampling_rule``: an under-explored arm (the set E_t) if there is one, else the most behind."""
    k, t = s.size[ARMS], s.clock[ASKED]
    if t < s.nap[k + 1]:
        return most_behind(s)
    arm = fewest(s)
    enough = math.ceil((t / k) ** (1.0 / (1.0 + s.knobs[XI])))
    if s.pulls[arm] <= enough:
        return arm
    # Pulls only grow: no arm is due before the root reaches what the fewest have.
    due = k * float(s.pulls[arm] - 1) ** (1.0 + s.knobs[XI]) * (1.0 - 1e-9) - 1.0
    s.nap[k + 1] = int(min(due, 1e15))
    return most_behind(s)


@inlined
def pull(s, arm):
    """Count the pull now, whether or not its reward ever comes."""
    s.pulls[arm] += 1
    s.pending[arm] += 1
    s.clock[ASKED] += 1
    return arm
