"""The whole state of a policy as two flat arrays, and what every algorithm does with it, compiled.

Two arrays cross from Python to compiled code at the price of one call; inside, :func:`unpack` gives the parts their
names back. They are also what is saved: nothing a policy knows lives anywhere else.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite.ir import Constant
from numba import types
from numba.core.cgutils import create_struct_proxy, pack_array
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from pmbandits._check import FloatArray
from pmbandits.state.compile import inlined, kernel
from pmbandits.state.shared import shared
from pmbandits.confidence._kernels import CONCAVE, NEITHER, ball_value, kl_lower, kl_upper
from pmbandits.estimates import _kernels as sketching
from pmbandits.metrics._kernels import h_max, h_min, h_value
from pmbandits.supports import ATOM_TOLERANCE

# sizes: constants of the layout
ARMS, ATOMS, GRID, ROOM, RADII, PACKED, TABLE, MODE, KIND, SHAPE, BOUNDED, COLUMNS = range(12)
COARSE, SKETCH, BUFFER, SKETCHES = range(12, 16)
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
    ("squares", "f", "K"),
    ("path", "f", "K+1"),
    ("snap", "f", "G, C"),
    ("held", "f", "G, C"),
    ("safe", "f", "2*K+3"),
    ("items", "f", "S, U"),
    ("marks", "f", "S, 5"),
)
# Made anew from the configuration when a state is loaded.
DERIVED = (
    "radii", "h", "points", "table", "envelope", "index", "value", "curve", "width", "above", "nap",
    "squares", "path", "snap", "held", "safe", "mass",
)  # fmt: skip
# Of sketches also the pool: it is laid out anew from their items.
POOL = ("x", "owner")

IntArray = NDArray[np.int64]


SIZES = {"K": ARMS, "M": ATOMS, "G": GRID, "N": ROOM, "R": RADII, "H": PACKED, "E": TABLE}
SIZES |= {"C": COLUMNS, "S": SKETCHES, "U": BUFFER}


def shape_of(text: str, size: Any) -> tuple[Any, ...]:
    """A field's shape; ``size`` maps a letter to a number, or to one that compiled code will know."""
    shape = eval(text, {}, {name: size(place) for name, place in SIZES.items() if name in text})
    return shape if isinstance(shape, tuple) else (shape,)


@lru_cache(maxsize=1024)
def places(*size: int) -> tuple[dict[str, tuple[str, slice]], dict[str, int]]:
    """Where every field lies for the given sizes, in ints or floats, and the lengths of both."""
    out, total = {}, {"i": 0, "f": 0}
    for name, kind, text in FIELDS:
        end = total[kind] + math.prod(shape_of(text, size.__getitem__))
        out[name], total[kind] = (kind, slice(total[kind], end)), end
    return out, total


def view(ints: IntArray, floats: FloatArray, name: str) -> NDArray[Any]:
    """One field as Python sees it (a flat view, not a copy)."""
    kind, where = places(*ints[:HEAD].tolist())[0][name]
    return ints[where] if kind == "i" else floats[where]


def views(ints: IntArray, floats: FloatArray) -> dict[str, NDArray[Any]]:
    """All fields by name."""
    fields = places(*ints[:HEAD].tolist())[0]
    return {name: ints[where] if kind == "i" else floats[where] for name, (kind, where) in fields.items()}


def allocate(size: IntArray) -> tuple[IntArray, FloatArray]:
    """Two arrays for the given sizes, all zero but the sizes themselves."""
    total = places(*size.tolist())[1]
    ints = np.zeros(total["i"], dtype=np.int64)
    ints[:HEAD] = size
    return ints, np.zeros(total["f"])


# Naming the parts of the state by slices would check bounds and count references up and down in every round, which
# costs more than the round; naming all of them at once would cost seconds to compile in every kernel. So ``s`` is a
# type of its own: the two arrays and the sizes, and ``s.pulls`` makes that view where it stands. The caller holds the
# arrays as long as a kernel runs, and no kernel hands a part out.


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


class _Size:
    """A length in terms of the sizes: 16 + 6·K + G·K is {"": 16, "K": 6, "GK": 1}."""

    def __init__(self, terms: dict[str, int]) -> None:
        self.terms = terms

    def __add__(self, other: _Size | int) -> _Size:
        out, more = dict(self.terms), other.terms if isinstance(other, _Size) else {"": other}
        for key, count in more.items():
            out[key] = out.get(key, 0) + count
        return _Size(out)

    def __mul__(self, other: _Size | int) -> _Size:
        more, out = other.terms if isinstance(other, _Size) else {"": other}, _Size({})
        for one, a in self.terms.items():
            for two, b in more.items():
                out = out + _Size({"".join(sorted(one + two)): a * b})
        return out

    __radd__, __rmul__ = __add__, __mul__


def _layout() -> dict[str, tuple[str, _Size, list[_Size]]]:
    """Of every field: whether ints or floats, where it begins, and its shape."""
    letters = {place: letter for letter, place in SIZES.items()}
    out, at = {}, {"i": _Size({"": 0}), "f": _Size({"": 0})}
    for name, kind, text in FIELDS:
        shape = [_Size({"": 0}) + n for n in shape_of(text, lambda place: _Size({letters[place]: 1}))]
        out[name] = (kind, at[kind], shape)
        at[kind] = at[kind] + (shape[0] if len(shape) == 1 else shape[0] * shape[1])
    return out


LAYOUT = _layout()
_ARRAYS = {"i": types.Array(types.int64, 1, "C"), "f": types.Array(types.float64, 1, "C")}


class _StateType(types.Type):
    """What ``s`` is to numba: the two arrays and the sizes; a part is made when it is named."""

    def __init__(self) -> None:
        super().__init__(name="pmbandits.State")


_STATE = _StateType()


@register_model(_StateType)
class _StateModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [*_ARRAYS.items(), *((letter, types.intp) for letter in SIZES)]
        super().__init__(manager, kind, members)


@infer_getattr
class _StateAttributes(AttributeTemplate):
    key = _StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        del kind
        if name == "whole":
            return types.Tuple((_ARRAYS["i"], _ARRAYS["f"]))
        if name in LAYOUT:
            which, _, shape = LAYOUT[name]
            return types.Array(_ARRAYS[which].dtype, len(shape), "C")
        return None


@lower_getattr_generic(_StateType)
def _part(context, builder, kind, value, name):
    """A part by its name: a view without a share in any reference count."""
    s = create_struct_proxy(kind)(context, builder, value)
    if name == "whole":
        return context.make_tuple(builder, types.Tuple((_ARRAYS["i"], _ARRAYS["f"])), [s.i, s.f])
    which, start, shape = LAYOUT[name]

    def number(size):
        total = context.get_constant(types.intp, size.terms.get("", 0))
        for letters, count in size.terms.items():
            if letters:
                term = context.get_constant(types.intp, count)
                for letter in letters:
                    term = builder.mul(term, getattr(s, letter))
                total = builder.add(total, term)
        return total

    lengths, word = [number(n) for n in shape], context.get_constant(types.intp, 8)
    view = context.make_array(types.Array(_ARRAYS[which].dtype, len(shape), "C"))(context, builder)
    source = context.make_array(_ARRAYS[which])(context, builder, getattr(s, which))
    strides = [word] if len(shape) == 1 else [builder.mul(lengths[1], word), word]
    populate_array(
        view, builder.gep(source.data, [number(start)]), pack_array(builder, lengths), pack_array(builder, strides),
        word, None,
    )  # fmt: skip
    return view._getvalue()


def _unpack(typingctx, ints, floats):
    """The state with its parts by name, without a share in the reference counts of the two arrays."""
    del typingctx, ints, floats

    def codegen(context, builder, signature, args):
        del signature
        s = create_struct_proxy(_STATE)(context, builder)
        for kind, array in zip("if", args, strict=True):
            view = context.make_array(_ARRAYS[kind])(context, builder, array)
            view.meminfo, view.parent = Constant(view.meminfo.type, None), Constant(view.parent.type, None)
            setattr(s, kind, view._getvalue())
        data = context.make_array(_ARRAYS["i"])(context, builder, args[0]).data
        for letter, place in SIZES.items():
            setattr(s, letter, builder.load(builder.gep(data, [context.get_constant(types.intp, place)])))
        return s._getvalue()

    return _STATE(_ARRAYS["i"], _ARRAYS["f"]), codegen


unpack: Any = intrinsic(_unpack)


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


@shared("state, int, float -> none")
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


@shared("state -> none")
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
    if ints[MODE] != BINARY:
        # How far in W1 the arm's empirical law moves: mean |X − x| / (n + 1), at most the root of the mean square.
        # The last term is more than what rounding can have taken from the two sums.
        squares = sums + 5 * k + g * k + 2 * g + n + 2 * (n + m + 2)
        before = ints[told + arm]
        if before > 0:
            mean, power = floats[sums + arm] / before, floats[squares + arm] / before
            rounding = 1e-15 * (before + 8.0) * (power + reward * reward)
            spread = max(power - mean * mean, 0.0) + (mean - reward) ** 2 + rounding
            floats[squares + k + arm] += math.sqrt(spread) / (before + 1.0)
        floats[squares + arm] += reward * reward
        floats[squares + 2 * k] = max(floats[squares + 2 * k], abs(reward))
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


@shared("state -> none")
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


@shared("state -> none")
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


@shared("state, floats, int -> float")
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


@shared("state, floats, int -> float")
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


@shared("state -> none")
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


@shared("state, int -> int")
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


@shared("state -> none")
def optimistic_mixture(whole):
    """``eq:UCB_alpha``: the mixture whose best possible utility is the largest."""
    s = parts(whole)
    if not ready(s):
        return
    refresh(s.whole)
    used = s.clock[GRID_USED]
    if s.size[MODE] == BINARY:
        binary_bounds(s.h, s.grid, used, s.lower, s.upper, s.index)
    elif may_be_lazy(s, POOLED if s.size[BOUNDED] == 0 else BOUND):
        take(s, lazy_choice(s.whole, POOLED if s.size[BOUNDED] == 0 else BOUND))
        return
    else:
        for g in range(used):
            s.index[g] = bound(s.whole, s.grid[g], OPTIMISTIC)
    if still_best(s.index, used, s.clock[CURRENT]):
        s.clock[DIRTY] = 0
    else:
        take(s, settle(s.whole, used))
    if may_doze(s.whole):
        doze_off(s.whole, stays_optimistic(s.whole))


# The lazy argmax. On other than 0/1 rewards a value costs a pass over all cells. But few rewards among many move it
# little. Every grid point keeps its last value and what it was made of, and only what may be the largest is worked out
# again: the decisions are those of working out everything in every round.
#   value, snap: the empirical utility, and how many rewards there were then (0: never worked out), the paths or counts
#   of the arms, their radii, and how the value leans (below). index, held: the same of the optimistic value.
#   safe: CIRT's pessimistic value of its leader, the leader + 1, the witness + 1, the paths, the radii.
#
# How far a value can drift. Radii fall, which only lowers optimistic values. For the laws there are two bounds.
# 1. A reward moves an arm's law by a known distance in W1 (``path`` adds them up, and ends with the largest |reward|),
#    and so the mixture's utility by at most 𝓛·(its share of the way)^q. A bound moves no more: in bands the ends of
#    each cell's interval move no more than the curve; of balls around two laws, one covers the other if it is widened
#    by the distance of the laws.
# 2. Weak where q < 1. With m new rewards among n the arm's survival S becomes
#    (1 − θ)S + θ·(that of the new ones), θ = m/n. For concave h each cell then rises and falls at most along chords of
#    h that are known beforehand: ``lean`` adds them up.

UTILITY, POOLED, BONUS, BOUND = range(4)  # what is maximised: U; U + 𝓛·Σ a·r; U + 𝓛·Σ (a·r)^q; the optimistic value


@inlined
def leans(s, kind):
    """Whether the second bound is taken: there are columns for it, and the value is concave."""
    return s.size[COLUMNS] > 2 * s.size[ARMS] + 1 and (kind != BOUND or s.size[KIND] == BAND)


@inlined
def may_be_lazy(s, kind):
    """Whether drift is bounded: radii that fall, none infinite, and one of the two bounds.

    A table of h keeps only the exponent 1. Balls for h neither concave nor convex have values from a table, too.
    """
    lazy = s.size[COLUMNS] > 0 and s.knobs[FALLING] == 1.0
    if not leans(s, kind):
        lazy = lazy and s.knobs[HOLDER_C] > 0.0 and (s.knobs[HOLDER_Q] == 1.0 or s.h[2] == 0.0)
        if kind == BOUND and s.size[KIND] == BALL and s.size[BOUNDED] == 1 and s.size[SHAPE] == NEITHER:
            lazy = False
    for i in range(s.size[ARMS]):
        if not s.radius[i] < np.inf:
            lazy = False
    return lazy


@inlined
def forget_values(s):
    """After a change of the grid nothing that is kept about its points is true."""
    if s.size[COLUMNS] > 0:
        for g in range(s.size[GRID]):
            s.snap[g, 0] = 0.0
            s.held[g, 0] = 0.0
    s.safe[2] = 0.0


@kernel
def holder_change(knobs, way):
    """By how much U_h can change along a way in W1."""
    return knobs[HOLDER_C] * (way if knobs[HOLDER_Q] == 1.0 else way ** knobs[HOLDER_Q])


@kernel
def rounding(whole):
    """What rounding can do to a value, and how much more for each unit of the value itself.

    A pass adds up n terms, each partial sum rounded to 1.2e-16 of itself; they are at most |value| and the range of
    the rewards times max|h|. A survival is off by less than (k + 2)·1e-15, and the curve by that times the range in W1;
    where h is concave without exponent 1, its slope at a survival of 1/n is at most n·max|h|. A ball's dual is
    minimised to 1e-12 of its price, which is at most range/radius: far less than the factor for balls.
    """
    s = parts(whole)
    reach = 2.0 * s.path[s.size[ARMS]]
    each = SURE + 1e-15 * (s.size[ARMS] + 2.0) * s.clock[REWARDS]
    if s.size[KIND] == BALL and s.size[BOUNDED] == 1:
        each *= 100.0
    most = max(holder_change(s.knobs, reach), reach * max(abs(s.knobs[PEAK]), abs(h_value(s.h, 1.0))))
    return each * max(1.0, most) + holder_change(s.knobs, 1e-15 * (s.size[ARMS] + 2.0) * reach), each


@kernel
def way(a, path, then):
    """How far in W1 a mixture can have moved since the paths were ``then``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * (path[i] - then[i])
    return total


@inlined
def radius_unit(s):
    """Bands are in probability: one unit of them is the support's width in W1."""
    return s.knobs[HIGH] - s.knobs[LOW] if s.size[KIND] == BAND else 1.0


NEARBY = 0.0625  # the chords are valid while no survival has moved further


@kernel
def chords(h, a, radius, width, start, end, out):
    """Add to ``out`` (see ``lean``) neighbouring cells whose survivals of the arms fall from ``start`` to ``end``.

    Let [l, u] be the interval of a cell and s where h is largest in it (without radii all three are the survival).
    The value rises only where u grows or l falls: at most by the slope of a chord that ends in u, or begins in l. It
    falls only where u or l passes s: at most by the slope of the chord from s to what is nearby. For concave h all four
    are steepest at one end of the run.
    """
    k = a.size
    l0, u0, l1, u1 = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        l0 += a[i] * max(start[i] - radius[i], 0.0)
        u0 += a[i] * min(start[i] + radius[i], 1.0)
        l1 += a[i] * max(end[i] - radius[i], 0.0)
        u1 += a[i] * min(end[i] + radius[i], 1.0)
    rise, fall, to_zero, to_one = 0.0, 0.0, 0.0, 0.0
    if u1 <= 1e-14:
        out[3 * k] += width
    elif u1 < 1.0 - 1e-14:
        beyond = (1.0 - NEARBY) * u1
        rise = max((h_value(h, u1) - h_value(h, beyond)) / (u1 - beyond), 0.0)
    if l0 >= 1.0 - 1e-14:
        out[3 * k + 1] += width
    elif l0 > 1e-14:
        beyond = l0 + NEARBY * (1.0 - l0)
        fall = max((h_value(h, l0) - h_value(h, beyond)) / (beyond - l0), 0.0)
    peak = 1.0
    if h[3] == 1.0:
        peak = h[4 + 4 * int(h[0])]
    elif h_value(h, 1.0) < 0.0:
        peak = 0.0
    s0, s1 = min(max(peak, l0), u0), min(max(peak, l1), u1)
    if s1 > 1e-14 and u1 - NEARBY < peak:
        beyond = max(s1 - NEARBY, 0.0)
        to_zero = max((h_value(h, s1) - h_value(h, beyond)) / (s1 - beyond), 0.0)
    if s0 < 1.0 - 1e-14 and l0 + NEARBY > peak:
        beyond = min(s0 + NEARBY, 1.0)
        to_one = max((h_value(h, s0) - h_value(h, beyond)) / (beyond - s0), 0.0)
    for i in range(k):
        up = rise * (1.0 - end[i]) if end[i] + radius[i] < 1.0 else 0.0
        down = fall * start[i] if start[i] > radius[i] else 0.0
        out[i] += width * a[i] * max(up, down)
        out[k + i] += width * a[i] * max(to_zero * start[i], to_one * (1.0 - end[i]))
        out[2 * k + i] += width * a[i] * max(to_zero, to_one)


@kernel
def lean(whole, a, kind, out):
    """How much a value rises and falls at most for each unit of each arm's θ, and falls for each unit that its radius
    shrinks; then the widths of what lies above all rewards (survival 0) and below (1), where h can be vertical.

    Cells whose survivals S and 1 − S differ by less than a fifth are taken together.
    """
    s = parts(whole)
    k, finite = s.size[ARMS], s.size[MODE] == FINITE
    cells = s.size[ATOMS] if finite else s.clock[REWARDS]
    points, owner = s.points if finite else s.x, s.owner
    left, each, radius, start, end = np.empty(k), np.empty(k), np.zeros(k), np.ones(k), np.ones(k)
    for i in range(k):
        left[i], each[i] = s.told[i], a[i] / s.told[i]
        if kind == BOUND:
            radius[i] = s.radius[i]
    for j in range(3 * k + 2):
        out[j] = 0.0
    before, here, mixed, first = s.knobs[LOW], s.knobs[LOW], 1.0, 1.0
    for cell in range(cells + 1):
        mine = points[cell] if cell < cells else s.knobs[HIGH]
        if mine > here:  # a cell from here to mine; does it belong to the run that began at ``before``?
            if mixed < 0.8 * first or 1.0 - mixed > 1.2 * (1.0 - first):
                if here > before:
                    chords(s.h, a, radius, here - before, start, end, out)
                before, first = here, mixed
                for i in range(k):
                    start[i] = left[i] / s.told[i]
            for i in range(k):
                end[i] = left[i] / s.told[i]
            here = mine
        if cell < cells:
            if finite:
                for i in range(k):
                    left[i] -= s.counts[i, cell]
                    mixed -= each[i] * s.counts[i, cell]
            else:
                left[owner[cell]] -= 1.0
                mixed -= each[owner[cell]]
            if cell == cells - 1:
                mixed = 0.0
    if here > before:
        chords(s.h, a, radius, here - before, start, end, out)


@shared("state, int, int -> none")
def evaluate(whole, g, kind):
    """Work out grid point g now, and keep what bounds its drift."""
    s = parts(whole)
    k = s.size[ARMS]
    kept = s.held[g] if kind == BOUND else s.snap[g]
    if kind == BOUND:
        s.index[g] = bound(s.whole, s.grid[g], OPTIMISTIC)
    else:
        s.value[g] = sweep(s.whole, s.grid[g], EMPIRICAL)
    if s.size[COLUMNS] == 0:  # nothing bounds it
        return
    kept[0] = s.clock[REWARDS]
    leaning = leans(s, kind)
    for i in range(k):
        kept[1 + i] = s.told[i] if leaning else s.path[i]
        kept[1 + k + i] = s.radius[i]
    if leaning:
        lean(s.whole, s.grid[g], kind, kept[1 + 2 * k :])


@kernel
def drift(whole, g, kind):
    """How much the kept value of grid point g can have fallen, and risen, since; without rounding."""
    s = parts(whole)
    k, a = s.size[ARMS], s.grid[g]
    kept = s.held[g] if kind == BOUND else s.snap[g]
    if not leans(s, kind):
        change, less = holder_change(s.knobs, way(a, s.path, kept[1:])), 0.0
        if kind == BOUND:
            for i in range(k):
                less += a[i] * (kept[1 + k + i] - s.radius[i])
            less = holder_change(s.knobs, radius_unit(s) * less)
        return change + less, change
    rise, fall, moved = 0.0, 0.0, 0.0
    for i in range(k):
        theta = 1.0 - kept[1 + i] / s.told[i]
        moved += theta * a[i]
        rise += theta * kept[1 + 2 * k + i]
        fall += theta * kept[1 + 3 * k + i]
        if kind == BOUND:
            less = kept[1 + k + i] - s.radius[i]
            moved += less * a[i]
            fall += less * kept[1 + 4 * k + i]
    if kept[1 + 5 * k] > 0.0:
        rise += kept[1 + 5 * k] * h_max(s.h, 0.0, moved)
    if kept[2 + 5 * k] > 0.0:
        rise += kept[2 + 5 * k] * (h_max(s.h, 1.0 - moved, 1.0) - h_value(s.h, 1.0))
    return fall if moved < NEARBY else np.inf, rise


@kernel
def extra(knobs, a, radius, kind):
    """What is added to the empirical utility; ``radius`` of each arm, in W1."""
    total = 0.0
    if kind == POOLED:
        for i in range(a.size):
            if a[i] > 0.0:
                total += a[i] * radius[i]
        return knobs[LIPSCHITZ] * total
    if kind == BONUS:
        q = knobs[HOLDER_Q]
        for i in range(a.size):
            far = a[i] * radius[i]
            total += far if q == 1.0 else far**q
        return knobs[HOLDER_C] * total
    return 0.0


@shared("state, int -> int")
def lazy_choice(whole, kind):
    """The grid point that working out all of them would choose: the largest; tied, the previous one; else the one with
    the highest utility, else the first.

    ``low`` and ``high`` enclose what a point's value would be; equal where it was worked out at this look. Every turn
    of the loop works out one more point, so it ends.
    """
    s = parts(whole)
    used, k, before, now = s.clock[GRID_USED], s.size[ARMS], s.clock[CURRENT], float(s.clock[REWARDS])
    kept, last = s.held if kind == BOUND else s.snap, s.index if kind == BOUND else s.value
    radius = np.zeros(k)
    for i in range(k):
        radius[i] = wasserstein_radius(s.whole, i) if kind == BONUS else s.radius[i]
    off, each = rounding(s.whole)
    low, high = np.empty(used), np.empty(used)
    best = -np.inf
    for g in range(used):
        if kept[g, 0] == 0.0:
            low[g], high[g] = -np.inf, np.inf
            continue
        low[g] = high[g] = last[g] + extra(s.knobs, s.grid[g], radius, kind)
        if kept[g, 0] != now:
            fall, rise = drift(s.whole, g, kind)
            low[g] -= fall + off + each * abs(low[g])
            high[g] += rise + off + each * abs(high[g])
        best = max(best, low[g])
    while True:
        least = best - TIE * max(1.0, abs(best)) if best > -np.inf else best
        rivals, widest, top = 0, -1, -1
        for g in range(used):
            if high[g] >= least:  # may be as good as the best
                rivals += 1
                top = g
                if high[g] > low[g] and (widest < 0 or high[g] - low[g] > high[widest] - low[widest]):
                    widest = g
        if rivals == 1:
            return top
        if widest < 0:
            break
        evaluate(s.whole, widest, kind)
        low[widest] = high[widest] = last[widest] + extra(s.knobs, s.grid[widest], radius, kind)
        best = max(best, low[widest])
    if before >= 0 and high[before] >= least:
        return before
    chosen, most = -1, -np.inf
    for g in range(used):
        if high[g] >= least:
            if kind == UTILITY:
                return g
            value = utility(s.whole, s.grid[g])
            if chosen < 0 or value > most + TIE * max(1.0, abs(most)):
                chosen, most = g, value
    return chosen


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


@shared("state -> bool")
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


@shared("state -> none")
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
