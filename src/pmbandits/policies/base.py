"""What all policies share: ask and tell, reading without side effects, save and load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import _names, arm_index
from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.confidence._kernels import SHAPES
from pmbandits.confidence.sets import KINDS, NAMES
from pmbandits.estimates import ArmEstimate
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates.sketch import room as sketch_room
from pmbandits.metrics._kernels import h_max, pack
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, warped_grid
from pmbandits.policies import _state as st
from pmbandits.mixtures import grid_size
from pmbandits.supports import Binary, Finite, Real, Support
from pmbandits.schedules import epsilon_etc, epsilon_ucb

REGISTRY: dict[str, type[Policy]] = {}
LARGEST_GRID_SEARCH = 20_000  # points from which on search="auto" does without a grid
_observe = st.observe
_PIECE = 1 << 16
_FIRST_ROOM = 256  # rewards and radii that a new policy has room for; doubled when full
# How rewards are kept, with the usual size: cells of equal width, and k of a sketch.
ESTIMATES = {"exact": 0, "binned": 1024, "sketch": 1024}


@dataclass
class Setup:
    """What a policy's algorithm needs in its state, worked out once metric, arms and support are known."""

    grid: FloatArray
    epsilon: float | None = None
    knobs: dict[int, float] = field(default_factory=dict)
    confidence: ConfidenceSet | None = None
    begin: Callable[[Any, Any], None] | None = None


class Policy(ABC):
    """A policy that you ask for an arm and tell the reward.

    Parameters
    ----------
    metric : what is valued.
    n_arms : how many arms there are (or give ``names``).
    support : where rewards lie: ``Binary()``, ``Finite(atoms)``, ``Interval(lo, hi)`` or ``Real(sigma)``. A promise:
        the confidence sets, and so the decisions, are valid for it only, and for rewards of an arm that are
        independent and alike.
    names : names of the arms, to tell by name.
    seed : of the policy's own random choices, if it makes any.

    Many policies also take ``estimates``: how rewards are kept. ``"exact"``: all of them. The others take the same
    memory after any number of rewards, and every confidence set is widened by what is lost, so it stays valid:

    - ``"binned"``: rounded to the nearest of 1025 evenly spaced points of an ``Interval`` (``"binned:4096"``: of 4097).
      Rounding moves a law by half a spacing at most, in W1. It is to the nearest point, not up or down by chance, so
      that nothing is drawn and the order of rewards does not matter.
    - ``"sketch"``: a :class:`~pmbandits.estimates.Sketch` of each arm (``"sketch:4096"``: of k = 4096), on any support.
      Half of ``delta`` goes to its rank error, which does not vanish: sets do not become narrower than about 7/k of
      rank. The order of an arm's rewards can matter, within that error.

    ``Binary`` and ``Finite`` rewards are counted exactly in either; only the table of radii is kept coarse then.

    Without metric, arms and support a policy is a recipe; :meth:`bind` makes it playable.
    """

    name: ClassVar[str]
    _choose: ClassVar[Any]  # compiled: one round's decision
    _update: ClassVar[Any]  # compiled: bring the mixture up to date

    options: dict[str, Any]
    metric: Distortion | None
    support: Support | None
    names: tuple[str, ...]
    seed: int
    confidence: ConfidenceSet | None

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            REGISTRY[cls.name] = cls

    @abstractmethod
    def _setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        """Grid, knobs and confidence set of the algorithm."""

    # ---- making ----------------------------------------------------------------------------------------
    def _start(
        self,
        metric: Distortion | None,
        n_arms: int | None,
        support: Support | None,
        names: Sequence[str] | None,
        seed: int,
        **options: Any,
    ) -> None:
        if options.get("estimates") == "exact":
            del options["estimates"]
        self.options = options
        self.seed = _check.whole("seed", seed, 0, 2**53)
        self.metric, self.support = metric, support
        self.confidence = None
        if metric is not None and not isinstance(metric, Distortion):
            raise TypeError(f"metric must be a preference metric, GiniDeviation() or metric('gini'), got {metric!r}.")
        if support is not None and not isinstance(support, Support):
            raise TypeError(f"support must be Binary(), Finite(...), Interval(lo, hi) or Real(sigma), got {support!r}.")
        if n_arms is None and names is not None:
            n_arms = len(names)
        if n_arms is not None:
            n_arms = _check.whole("n_arms", n_arms, 1)
        self._own_names = names is not None
        self.names = _names(names, n_arms) if n_arms is not None else ()
        if metric is not None and n_arms is not None and support is not None:
            self._allocate(metric, n_arms, support)

    def bind(
        self, metric: Distortion, n_arms: int, support: Support, *, names: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> Policy:  # fmt: skip
        """A playable policy with the same options; the recipe itself stays as it is.

        >>> import pmbandits as pmb
        >>> recipe = pmb.CIRT(epsilon=0.1)
        >>> recipe.bind(pmb.GiniDeviation(), 2, pmb.Binary()).ask()
        0
        """
        return type(self)(  # type: ignore[call-arg]
            metric,
            n_arms=n_arms,
            support=support,
            names=self.names if names is None and self._own_names else names,
            seed=self.seed if seed is None else seed,
            **self.options,
        )

    def _confidence_set(self, support: Support, n_arms: int) -> ConfidenceSet:
        horizon, delta = self.options.get("horizon"), self.options["delta"]
        kept = self._kept(support)[0]
        if kept == "sketch":  # half of δ is for the sketches
            delta = 0.5 * (delta if delta is not None else 0.05 if horizon is None else 1.0 / horizon)
            self._rank_delta = delta if horizon is not None else delta / n_arms
        chosen = confidence_set(self.options["confidence"], support, n_arms, horizon=horizon, delta=delta)
        if kept != "exact":
            lost = f"rounding to bins, at most {self._rounding(support):.2g}," if kept == "binned" else "its sketch"
            chosen = replace(chosen, meaning=f"{chosen.meaning}; and the error of {lost} is added")
        if chosen.kind == "interval" and not isinstance(support, Binary):
            raise ValueError(f"a confidence set of kind 'interval' is for Binary rewards, not {support!r}.")
        return chosen

    def _kept(self, support: Support) -> tuple[str, int]:
        """How rewards of this support are kept: exactly, in bins or in sketches; and the size of these."""
        name, size = how_kept(self.options.get("estimates", "exact"))
        if name == "binned" and isinstance(support, Real):
            raise ValueError(f"estimates='binned' needs a bounded support, but rewards are {support!r}; "
                             "declare Interval(lo, hi), or take estimates='sketch'.")  # fmt: skip
        return ("exact", 0) if isinstance(support, (Binary, Finite)) else (name, size)

    def _rounding(self, support: Support) -> float:
        """How far rounding to bins moves a reward at most."""
        name, size = self._kept(support)
        return 0.5 * support.width / size if name == "binned" else 0.0

    def _allocate(self, metric: Distortion, n_arms: int, support: Support) -> None:
        kept, fineness = self._kept(support)
        self._rank_delta = 0.05 / n_arms
        setup = self._setup(metric, n_arms, support)
        self.epsilon = setup.epsilon
        self.confidence = setup.confidence
        kind = setup.confidence.kind if setup.confidence is not None else "ball"
        lipschitz = 0.0
        if setup.confidence is not None and isinstance(support, Real):
            try:
                lipschitz = metric.holder(support).constant
            except ValueError as error:
                raise ValueError(
                    f"{error} Confidence bounds on Real rewards need it: declare Interval(lo, hi)."
                ) from None
        if setup.confidence is not None and kind == "band" and not np.isfinite(support.width):
            raise ValueError("a band needs a bounded support; take confidence='wasserstein'.")
        rounding, offset = self._rounding(support), 0.0
        if rounding > 0.0 and setup.confidence is not None and kind == "band":
            try:
                pair = metric.holder(support)
            except ValueError as error:
                raise ValueError(f"what rounding to bins is worth follows from the Hölder pair, but {error} "
                                 "Take estimates='sketch', or confidence='wasserstein'.") from None  # fmt: skip
            offset = pair.constant * rounding**pair.q
        points = np.zeros(0)
        if isinstance(support, (Binary, Finite)):
            points = support.atoms
        elif kept == "binned":
            points = np.linspace(support.lo, support.hi, fineness + 1)
        coarse = how_kept(self.options.get("estimates", "exact"))[0] != "exact"
        buffer = sketch_room(fineness) if kept == "sketch" else 0
        packed = pack(metric)
        table = np.zeros(1)
        if metric.shape == "neither" and kind == "ball":
            steps = [side for u, _ in metric.jumps for side in (u, u + 2.0 * JUMP_TOLERANCE)]
            table = np.unique(np.concatenate((warped_grid(4097), [*metric._critical(), *steps])))
        size = np.zeros(st.HEAD, dtype=np.int64)
        size[st.ARMS] = n_arms
        size[st.ATOMS] = points.size
        size[st.GRID] = setup.grid.shape[0]
        size[st.ROOM] = 0 if points.size else n_arms * buffer or _FIRST_ROOM
        size[st.RADII] = 0 if setup.confidence is None else st.COARSE_TABLE if coarse else _FIRST_ROOM
        size[st.PACKED] = packed.size
        size[st.TABLE] = table.size
        size[st.MODE] = st.BINARY if isinstance(support, Binary) else st.FINITE if points.size else st.SAMPLES
        size[st.KIND] = KINDS.index(kind)
        size[st.SHAPE] = SHAPES[metric.shape]
        size[st.BOUNDED] = int(np.isfinite(support.width))
        if setup.confidence is not None and not isinstance(support, Binary) and not buffer:
            size[st.COLUMNS] = _columns(metric, support, packed, n_arms)
        size[st.COARSE] = int(coarse)
        if buffer:
            size[st.SKETCH], size[st.BUFFER], size[st.SKETCHES] = fineness, buffer, n_arms
        self._ints, self._floats = st.allocate(size)
        self._derived = {"h": packed, "table": table}
        self._steady = not isinstance(support, Binary) or _is_steady(metric)
        if points.size:
            self._derived["points"] = points
        self._fill_derived()
        fields = st.views(self._ints, self._floats)
        if buffer:
            for book, marks in zip(*(fields[name].reshape(n_arms, -1) for name in ("book", "marks")), strict=True):
                sketching.begin(book, marks, fineness)
        fields["clock"][st.CURRENT] = -1
        fields["clock"][st.GRID_USED] = setup.grid.shape[0]
        fields["grid"][:] = setup.grid.ravel()
        fields["mix"][:] = 1.0 / n_arms
        knobs = {
            st.LOW: support.lo,
            st.HIGH: support.hi,
            st.LIPSCHITZ: lipschitz,
            st.SEED: self.seed,
            st.PEAK: h_max(packed, 0.0, 1.0),
            **_holder_knobs(metric, support),
            st.ROUNDING: rounding,
            st.OFFSET: offset,
            st.RANK_DELTA: self._rank_delta,
            st.PLAIN: float(setup.confidence is not None and setup.confidence.name == "paper"),
            **setup.knobs,
        }
        for knob, number in knobs.items():
            fields["knobs"][knob] = number
        if setup.begin is not None:
            setup.begin(self._ints, self._floats)
        fields["clock"][st.DIRTY] = 1
        self._remember()

    def _remember(self) -> None:
        """What the bounds on drift need of the rewards so far: it is not saved."""
        fields = st.views(self._ints, self._floats)
        if self._ints[st.SKETCH] > 0:  # sketches have none
            return
        if self._ints[st.MODE] == st.SAMPLES:
            count = int(fields["clock"][st.REWARDS])
            x, owner = fields["x"][:count], fields["owner"][:count]
            fields["squares"][:] = np.bincount(owner, weights=x**2, minlength=self.n_arms)
        elif self._ints[st.MODE] == st.FINITE:
            x = fields["points"]
            fields["squares"][:] = fields["counts"].reshape(self.n_arms, -1) @ x**2
        else:
            return
        ends = fields["knobs"][[st.LOW, st.HIGH]]
        fields["path"][-1] = np.abs(np.append(x, ends[np.isfinite(ends)])).max(initial=0.0)

    def _fill_derived(self) -> None:
        fields = st.views(self._ints, self._floats)
        for name, content in self._derived.items():
            fields[name][:] = content
        if self.confidence is not None:
            radii = fields["radii"]
            if self._ints[st.COARSE] == 1:
                radii[:] = self.confidence.radius(st.coarse_counts())
                self._falling = bool(np.all(radii[2:] <= radii[1:-1]))
                if not self._falling:
                    raise ValueError(
                        f"the radii of {self.confidence.name} do not fall with n, so a table of bounded size cannot "
                        "hold them; take estimates='exact'."
                    )
                self._note_radii()
                return
            self._falling = True
            for at in range(0, radii.size, _PIECE):  # in pieces: the table can be long, and its temporaries longer
                piece = self.confidence.radius(np.arange(at, min(at + _PIECE, radii.size)))
                radii[at : at + _PIECE] = piece
                before = radii[max(at, 2) - 1 : at + piece.size - 1]
                self._falling &= bool(np.all(radii[max(at, 2) : at + piece.size] <= before))
            self._note_radii()

    def _note_radii(self) -> None:
        """Whether the policy may look ahead (``nap``) or only at what may have changed (``lazy_choice``)."""
        falls = self._falling and self._ints[st.SKETCH] == 0  # a compaction can widen a set
        self._view("knobs")[st.FALLING] = float(self._steady and falls)

    def _resize(self, **sizes: int) -> None:
        """Move to larger arrays; everything keeps its value."""
        size = self._ints[: st.HEAD].copy()
        for name, value in sizes.items():
            size[getattr(st, name)] = value
        before = st.views(self._ints, self._floats)
        ints, floats = st.allocate(size)
        after = st.views(ints, floats)
        for name, old in before.items():
            if name != "size":
                after[name][: old.size] = old
        self._ints, self._floats = ints, floats
        self._fill_derived()

    def _grow_radii(self) -> None:
        self._resize(RADII=2 * max(int(self._view("told").max()) + 1, _FIRST_ROOM // 2))

    def _grow_room(self, extra: int = 0) -> None:
        self._resize(ROOM=max(2 * int(self._ints[st.ROOM]), int(self._ints[st.ROOM]) + extra))

    def _view(self, name: str) -> NDArray[Any]:
        self._must_be_bound()
        return st.view(self._ints, self._floats, name)

    def _must_be_bound(self) -> None:
        if not hasattr(self, "_ints"):
            raise ValueError(
                f"this {type(self).__name__} is a recipe: give metric, n_arms and support, or call bind(...)."
            )

    # ---- ask and tell ----------------------------------------------------------------------------------
    @overload
    def ask(self) -> int: ...
    @overload
    def ask(self, n: int) -> NDArray[np.int64]: ...
    def ask(self, n: int | None = None) -> int | NDArray[np.int64]:
        """The arm to pull now (its position), or the next ``n`` arms.

        An ask counts as a pull at once, so nothing waits for rewards that are late or never come.
        """
        if n is not None:
            return np.array([self.ask() for _ in range(_check.whole("n", n, 1))], dtype=np.int64)
        try:
            arm = self._choose(self._ints, self._floats)
        except AttributeError:
            self._must_be_bound()
            raise
        if arm == st.GROW:
            self._grow_radii()
            arm = self._choose(self._ints, self._floats)
        return arm

    def tell(self, arm: int | str | ArrayLike, reward: float | ArrayLike) -> None:
        """The reward of an arm, or arrays of arms and rewards; in any order, late, or not asked for.

        Rewards beyond what was asked (history, a warm start) inform the estimates but are not counted as pulls.
        If anything is wrong with the input nothing is taken in.
        """
        if type(arm) is not int and isinstance(arm, np.integer):
            arm = int(arm)
        if type(reward) is not float and isinstance(reward, (int, float, np.number, np.bool_)):
            reward = float(reward)
        if type(arm) is int and type(reward) is float:
            try:
                code = _observe(self._ints, self._floats, arm, reward)
            except AttributeError:
                self._must_be_bound()
                raise
            if code != st.OK:
                self._tell_carefully([arm], [reward])
            return
        one = np.ndim(reward) == 0
        arms: Any = [arm] if one else arm
        rewards: Any = [reward] if one else reward
        if not one and (isinstance(arms, str) or np.ndim(arms) == 0):
            arms = [arms] * len(rewards)  # several rewards of one arm
        self._tell_carefully(arms, rewards)

    def _tell_carefully(self, arms: Any, rewards: Any) -> None:
        self._must_be_bound()
        assert self.support is not None
        places = [arm_index(_plain(arm), self.names) for arm in arms]
        if len(places) != len(rewards):
            raise ValueError(f"{len(places)} arms were told with {len(rewards)} rewards; give one reward for each arm.")
        if not places:
            return
        values = self.support.check(_numbers(rewards))
        self._make_room(len(places))
        for place, value in zip(places, values, strict=True):
            code = st.observe(self._ints, self._floats, place, float(value))
            assert code == st.OK, code

    def _make_room(self, extra: int) -> None:
        """Grow if so many more rewards do not fit; only exact samples need to."""
        if self._ints[st.MODE] != st.SAMPLES or self._ints[st.SKETCH] > 0:
            return
        if int(self._view("clock")[st.REWARDS]) + extra > int(self._ints[st.ROOM]):
            self._grow_room(extra)

    def merge(self, other: Policy) -> None:
        """Take in what another policy of the same experiment did and saw; the other stays as it is.

        Two servers, one experiment: afterwards this policy knows the rewards of both, and the pulls of both count for
        the proportions, for exploration and for the time t, as if it had played alone. Exact for exact and binned
        estimates; sketches merge within their stated error. What was decided before stays: a mixture that PMETC has
        committed to, and phases of CIRT that are over. Take the same policy in once only: nothing tells rewards that
        were taken in before from new ones.

        Sets that hold for n ≤ horizon hold while the rewards of both together are as many; those of sketches, from the
        merge on. Metric, support, names of arms and ``estimates`` must be the same; the kind of policy need not be.

        >>> import pmbandits as pmb
        >>> here, there = (pmb.CIRT(pmb.Mean(), n_arms=2, support=pmb.Binary()) for _ in range(2))
        >>> here.tell([0, 1], [1, 0]); there.tell([0, 0], [1, 1])
        >>> here.merge(there)
        >>> [arm.n for arm in here.estimates]
        [3, 1]
        """
        self._must_match(other)
        theirs = st.views(other._ints, other._floats)
        extra = int(theirs["clock"][st.REWARDS])
        self._make_room(extra)
        ours = st.views(self._ints, self._floats)
        clock = ours["clock"]
        if self._ints[st.SKETCH] > 0:
            k, seed = int(self._ints[st.SKETCH]), int(ours["knobs"][st.SEED])
            parts = [f[name].reshape(self.n_arms, -1) for f in (ours, theirs) for name in ("book", "items", "marks")]
            for arm in range(self.n_arms):
                book, items, marks, *other_sketch = (part[arm] for part in parts)
                sketching.join(book, items, marks, k, seed, arm, *other_sketch)
            clock[st.SORTED] = st.STALE
        elif self._ints[st.MODE] == st.SAMPLES:
            at = slice(int(clock[st.REWARDS]), int(clock[st.REWARDS]) + extra)
            ours["x"][at], ours["owner"][at] = theirs["x"][:extra], theirs["owner"][:extra]
        for name in ("counts", "told", "sums", "pulls", "pending"):
            ours[name] += theirs[name]
        clock[st.REWARDS] += extra
        clock[st.ASKED] += theirs["clock"][st.ASKED]
        # The laws may have moved by any amount: whatever is remembered of earlier looks is forgotten.
        for name in ("snap", "held", "safe"):
            ours[name][:] = 0.0
        self._remember()
        ours["seen"][:], ours["nap"][:], clock[st.LOOK_AT], clock[st.WIDE_AT] = 0, 0, 0, 0
        clock[st.DIRTY] = 1

    def _must_match(self, other: Policy) -> None:
        if not isinstance(other, Policy):
            raise TypeError(f"a policy can take in another policy, got {other!r}.")
        self._must_be_bound()
        other._must_be_bound()
        if other is self:
            raise ValueError("a policy cannot take in itself: its rewards would count twice.")
        for what, mine, theirs in (
            ("metric", self.metric, other.metric),
            ("support", self.support, other.support),
            ("names of arms", self.names, other.names),
            ("estimates", *(how_kept(p.options.get("estimates", "exact")) for p in (self, other))),
        ):
            if not _same(mine, theirs):
                raise ValueError(f"policies must have the same {what} to be merged, but have {mine!r} and {theirs!r}.")

    # ---- reading ---------------------------------------------------------------------------------------
    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.names)

    @property
    def t(self) -> int:
        """How many pulls were asked for."""
        return int(self._view("clock")[st.ASKED])

    @property
    def pulls(self) -> NDArray[np.int64]:
        """How often each arm was asked for."""
        return self._view("pulls").copy()

    @property
    def pending(self) -> NDArray[np.int64]:
        """How many asks of each arm still wait for their reward."""
        return self._view("pending").copy()

    @property
    def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights, with all rewards told so far."""
        return self._peek()["mix"].copy()

    def _peek(self) -> dict[str, NDArray[Any]]:
        """The state after an update with the newest rewards, on copies: reading changes nothing."""
        twin = self._twin()
        twin._update(twin._ints, twin._floats)
        return st.views(twin._ints, twin._floats)

    @property
    def estimates(self) -> tuple[ArmEstimate, ...]:
        """What is known of each arm: its empirical distribution and confidence band."""
        fields = st.views(self._ints, self._floats) if hasattr(self, "_ints") else self._peek()
        rounding = float(fields["knobs"][st.ROUNDING])
        out = []
        for i, name in enumerate(self.names):
            n = int(fields["told"][i])
            if self._ints[st.SKETCH] > 0:
                book = fields["book"].reshape(self.n_arms, -1)[i]
                items = fields["items"].reshape(self.n_arms, -1)[i, : book[sketching.USED]]
                mass = np.empty(items.size, dtype=np.int64)
                sketching.spread(book, mass)
                x, which = np.unique(items, return_inverse=True)
                counts = np.bincount(which, weights=mass, minlength=x.size)
            elif self._ints[st.MODE] == st.SAMPLES:
                count = int(fields["clock"][st.REWARDS])
                x, counts = np.unique(fields["x"][:count][fields["owner"][:count] == i], return_counts=True)
            else:
                points = fields["points"]
                counts = fields["counts"].reshape(self.n_arms, points.size)[i]
                x, counts = points[counts > 0], counts[counts > 0]
            radius = float("nan")
            if self.confidence is not None:
                coarse = self._ints[st.COARSE] == 1
                radius = float(st.radius_of(self._ints, self._floats, i) if coarse else self.confidence.radius(n))
            kind = self.confidence.kind if self.confidence is not None else "none"
            low, high = float("nan"), float("nan")
            if kind == "interval":
                low, high = _interval(float(x @ counts) / n if n else 0.5, radius)
            out.append(ArmEstimate(name, n, x.copy(), counts / max(n, 1), radius, kind, low, high, rounding))
        return tuple(out)

    def utility_bounds(self, weights: ArrayLike | None = None) -> tuple[float, float, float]:
        """Pessimistic, empirical and optimistic utility of a mixture (default: the current one).

        The outer two hold for all mixtures at once if every arm's law is in its set: where a set holds with
        probability p, with probability 1 − K(1 − p) at least.
        """
        if self.confidence is None:
            assert self.metric is not None
            why = (
                f": no bound holds for {self.metric!r} on {self.support!r}; declare Interval(lo, hi)"
                if isinstance(self.support, Real) and "confidence" in self.options
                else ", so it has no bounds to report"
            )
            raise ValueError(f"{type(self).__name__} keeps no confidence sets here{why}.")
        mix = self.mixture if weights is None else _check.weights(weights, self.n_arms)
        twin = self._twin()
        low, middle, high = st.bounds(twin._ints, twin._floats, mix)
        return float(low), float(middle), float(high)

    def _twin(self) -> Policy:
        """A copy that can be changed, with room in its table of radii."""
        self._must_be_bound()
        twin: Policy = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._ints, twin._floats = self._ints.copy(), self._floats.copy()
        exact = self.confidence is not None and self._ints[st.COARSE] == 0
        if exact and int(self._view("told").max()) >= int(self._ints[st.RADII]):
            twin._grow_radii()
        return twin

    def explain(self) -> str:
        """Why the next arm is the next arm, in a few numbers. Changes nothing."""
        self._must_be_bound()
        twin = self._twin()
        mixture, pulls, t = self.mixture, self.pulls, self.t
        arm = twin.ask()
        shares = ", ".join(f"{n} {100 * p / max(t, 1):.1f} % ({100 * m:.1f} %)"
                           for n, p, m in zip(self.names[:6], pulls, mixture, strict=False))  # fmt: skip
        text = f"Round {t + 1}: {self.names[arm]} is next. Shares played (and wanted): {shares}."
        lag = t * float(mixture[arm]) - int(pulls[arm])
        if pulls[arm] == pulls.min() and lag < max(t * mixture - pulls) - 1e-9:
            text += f" It has the fewest pulls ({int(pulls[arm])}) and is being explored."
        elif lag >= 0.0:
            text += f" It is {lag:.1f} pulls behind its share."
        else:
            text += f" It is next by the rule of {type(self).__name__}."
        if self.confidence is not None:
            low, middle, high = self.utility_bounds(mixture)
            text += (
                f" The mixture's utility is {middle:.4g}, between {low:.4g} and {high:.4g} "
                f"({self.confidence.name}; {self.confidence.meaning})."
            )
        waiting = int(self.pending.sum())
        if waiting:
            text += f" {waiting} reward{'s are' if waiting > 1 else ' is'} still awaited."
        return text

    # ---- save and load ---------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the whole state to a file (versioned, not pickle), all or nothing."""
        from pmbandits.policies.store import save

        save(self, Path(path))

    def _repr_html_(self) -> str:
        return _html_of(self)

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v is not None)
        if not hasattr(self, "_ints"):
            known = "" if self.metric is None else f"{self.metric!r}{', ' if given else ''}"
            return f"{type(self).__name__}({known}{given}; a recipe)"
        mix = ", ".join(f"{m:.3f}" for m in self.mixture[:6]) + (", …" if self.n_arms > 6 else "")
        known = f"{self.metric!r}{', ' if given else ''}"
        return f"{type(self).__name__}({known}{given}; t={self.t}, mixture=[{mix}])"


def _html_of(policy: Policy) -> str:
    from pmbandits import _html

    given = ", ".join(f"{k}={v!r}" for k, v in policy.options.items() if v is not None)
    title = f"{type(policy).__name__}({given})"
    if not hasattr(policy, "_ints"):
        known = repr(policy.metric) if policy.metric is not None else "not given"
        return _html.block(title, _html.table((), [("metric", known), ("state", "a recipe: not bound to arms yet")]))
    t, pulls, told, mixture = policy.t, policy.pulls, policy._view("told"), policy.mixture
    shown = np.argsort(-mixture, kind="stable")[:12]
    rows = [
        (policy.names[i], f"{pulls[i]:,}", f"{100 * pulls[i] / max(t, 1):.1f} %", f"{100 * mixture[i]:.1f} %",
         f"{told[i]:,}")
        for i in (np.sort(shown) if policy.n_arms <= 12 else shown)
    ]  # fmt: skip
    head = ("arm", "pulls", "played", "wanted", "rewards told")
    words = [f"{policy.metric!r}, round {t:,}", f"{policy.n_arms - 12} more arms" if policy.n_arms > 12 else ""]
    return _html.block(title, _html.paragraphs(words), _html.table(head, rows))


def schedule_epsilon(
    options: dict[str, Any],
    metric: Distortion,
    n_arms: int,
    support: Support,
    kind: Literal["etc", "ucb"],
    chosen: ConfidenceSet | None,
) -> tuple[float, bool]:
    """ε as given, or by the paper's schedule, and whether the search is continuous.

    Where the schedule gives no usable grid, whole steps that do: two or more (one with very many arms), and at most
    20,000 points.
    """
    search = options["search"]
    if options["epsilon"] is not None:
        given = float(options["epsilon"])
        return given, continuous_search(search, grid_size(n_arms, given, kind), metric, support, chosen)
    try:
        q = metric.holder(support).q
    except ValueError:
        q = 1.0
    schedule = epsilon_etc if kind == "etc" else epsilon_ucb
    offset = 0.0 if kind == "etc" else n_arms / 2.0  # the UCB grid has steps + K/2 spacings
    wanted = schedule(options["horizon"], n_arms, q, constant=options["epsilon_constant"])
    coarsest = 0.5 if kind == "etc" else 1.0 / n_arms
    finest = min(wanted, coarsest)
    points = grid_size(n_arms, finest, kind)
    if continuous_search(search, points, metric, support, chosen):
        return finest, True
    if wanted <= coarsest and n_arms <= points <= LARGEST_GRID_SEARCH:
        return wanted, False
    steps = max(int(1.0 / wanted - offset), 2)
    while steps > 1 and comb(steps + n_arms - 1, n_arms - 1) > LARGEST_GRID_SEARCH:
        steps -= 1
    return 1.0 / (steps + offset), False


def known_search(search: str) -> str:
    """How mixtures are searched, by a name that exists."""
    return _check.choice("search", search, ["auto", "grid", "continuous"])


def continuous_search(
    search: str, points: int, metric: Distortion, support: Support, chosen: ConfidenceSet | None
) -> bool:
    """Whether to search all mixtures: asked for, or because the grid would pass 20,000 points."""
    if search == "grid" or (search == "auto" and points <= LARGEST_GRID_SEARCH):
        return False
    why = None
    if metric.shape == "neither":
        why = f"{metric!r} is neither concave nor convex, and so has no certified search"
    elif chosen is not None and chosen.kind == "ball" and np.isfinite(support.width):
        why = f"balls of laws on a bounded support ({chosen.name!r}) have none; take confidence='dkw'"
    if why is not None and search == "continuous":
        raise ValueError(f"search='continuous' cannot be had here: {why}. Use search='grid', or Track.")
    return why is None


def search_knobs(continuous: bool, floor: float) -> dict[int, float]:
    """What the compiled search needs to know."""
    return {st.CONTINUOUS: float(continuous), st.FLOOR: floor, st.SHARE: 0.01}


def spacing(epsilon: float | None) -> float | None:
    """ε as the user gave it, checked."""
    return None if epsilon is None else _check.within("epsilon", epsilon, 0.0, 1.0, open_lo=True)


def probability(delta: float | None) -> float | None:
    """δ as the user gave it, checked."""
    return None if delta is None else _check.within("delta", delta, 0.0, 1.0, open_lo=True, open_hi=True)


def known_set(confidence: Any) -> Any:
    """A confidence set by a name that exists, or an object."""
    return _check.choice("confidence", confidence, NAMES) if isinstance(confidence, str) else confidence


def _holder_knobs(metric: Distortion, support: Support) -> dict[int, float]:
    try:
        pair = metric.holder(support)
    except ValueError:
        return {}
    return {st.HOLDER_Q: pair.q, st.HOLDER_C: pair.constant}


def _columns(metric: Distortion, support: Support, packed: FloatArray, n_arms: int) -> int:
    """What the lazy argmax keeps of a value: more for concave h with at most one peak that is not Lipschitz."""
    concave = metric.shape in ("concave", "linear") and bool(np.isfinite(support.width))
    simple = packed[3] == 1.0 or packed[1] == 0.0
    lipschitz = _holder_knobs(metric, support).get(st.HOLDER_Q) == 1.0
    return 5 * n_arms + 3 if concave and simple and not lipschitz else 2 * n_arms + 1


def known_estimates(estimates: str) -> str:
    """How rewards are kept as the user said it, checked."""
    how_kept(estimates)
    return estimates


def how_kept(estimates: str) -> tuple[str, int]:
    """The name and the size in ``"binned"``, ``"binned:4096"`` and the like."""
    name, colon, size = estimates.partition(":") if isinstance(estimates, str) else ("", "", "")
    sized = name != "exact" and size.isdecimal() and 8 <= int(size) <= 1 << 20
    if name not in ESTIMATES or (colon and not sized):
        raise ValueError(
            f"estimates must be 'exact', 'binned' or 'sketch', or one of these with a size from 8 to {1 << 20} such as "
            f"'binned:4096'; got {estimates!r}."
        )
    return name, int(size) if size else ESTIMATES[name]


def _same(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(mine == theirs)
    except ValueError:  # a metric made from a function equals itself only
        return False


def _is_steady(metric: Distortion) -> bool:
    """Whether rounding of a probability cannot move h by more than the policies' margins."""
    modulus = metric._modulus()
    return not isinstance(modulus, str) and modulus[0] >= 0.5


def _interval(mean: float, radius: float) -> tuple[float, float]:
    from pmbandits.confidence._kernels import kl_lower, kl_upper

    return float(kl_lower(mean, radius)), float(kl_upper(mean, radius))


def _plain(arm: Any) -> Any:
    return arm.item() if isinstance(arm, np.generic) else arm


def _numbers(rewards: Any) -> FloatArray:
    for reward in rewards:
        if reward is None or isinstance(reward, (str, bytes)):
            raise TypeError(f"rewards must be numbers, got {reward!r}.")
    return _check.numbers("rewards", [float(r) if isinstance(r, (bool, np.bool_)) else r for r in rewards])
