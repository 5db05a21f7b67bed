"""What all policies share: ask and tell, reading without side effects, save and load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from pmbandits.metrics._kernels import h_max, pack
from pmbandits.metrics.distortion import JUMP_TOLERANCE, Distortion, warped_grid
from pmbandits.policies import _state as st
from pmbandits.simplex import grid_size
from pmbandits.supports import Binary, Finite, Real, Support
from pmbandits.theory.schedules import epsilon_etc, epsilon_ucb

REGISTRY: dict[str, type[Policy]] = {}
_LARGEST_DEFAULT_GRID = 20_000
_observe = st.observe
_PIECE = 1 << 16
_FIRST_ROOM = 256  # rewards and radii that a new policy has room for; doubled when full


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
        self.options = options
        self.seed = _check.whole("seed", seed, 0, 2**53)
        self.metric, self.support = metric, support
        self.confidence = None
        if metric is not None and not isinstance(metric, Distortion):
            raise TypeError(f"metric must be a preference metric such as GiniDeviation(), got {metric!r}.")
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
        chosen = confidence_set(
            self.options["confidence"],
            support,
            n_arms,
            horizon=self.options.get("horizon"),
            delta=self.options["delta"],
        )
        if chosen.kind == "interval" and not isinstance(support, Binary):
            raise ValueError(f"a confidence set of kind 'interval' is for Binary rewards, not {support!r}.")
        return chosen

    def _allocate(self, metric: Distortion, n_arms: int, support: Support) -> None:
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
        finite = isinstance(support, (Binary, Finite))
        packed = pack(metric)
        table = np.zeros(1)
        if metric.shape == "neither" and kind == "ball":
            steps = [side for u, _ in metric.jumps for side in (u, u + 2.0 * JUMP_TOLERANCE)]
            table = np.unique(np.concatenate((warped_grid(4097), [*metric._critical(), *steps])))
        size = np.zeros(st.HEAD, dtype=np.int64)
        size[st.ARMS] = n_arms
        size[st.ATOMS] = support.atoms.size if isinstance(support, (Binary, Finite)) else 0
        size[st.GRID] = setup.grid.shape[0]
        size[st.ROOM] = 0 if finite else _FIRST_ROOM
        size[st.RADII] = _FIRST_ROOM if setup.confidence is not None else 0
        size[st.PACKED] = packed.size
        size[st.TABLE] = table.size
        size[st.MODE] = st.BINARY if isinstance(support, Binary) else st.FINITE if finite else st.SAMPLES
        size[st.KIND] = KINDS.index(kind)
        size[st.SHAPE] = SHAPES[metric.shape]
        size[st.BOUNDED] = int(np.isfinite(support.width))
        self._ints, self._floats = st.allocate(size)
        self._derived = {"h": packed, "table": table}
        self._steady = _is_steady(metric)
        if isinstance(support, (Binary, Finite)):
            self._derived["points"] = support.atoms
        self._fill_derived()
        fields = st.views(self._ints, self._floats)
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
            st.PLAIN: float(setup.confidence is not None and setup.confidence.name == "paper"),
            **setup.knobs,
        }
        for knob, number in knobs.items():
            fields["knobs"][knob] = number
        if setup.begin is not None:
            setup.begin(self._ints, self._floats)
        fields["clock"][st.DIRTY] = 1

    def _fill_derived(self) -> None:
        fields = st.views(self._ints, self._floats)
        for name, content in self._derived.items():
            fields[name][:] = content
        if self.confidence is not None:
            radii = fields["radii"]
            self._falling = True
            for at in range(0, radii.size, _PIECE):  # in pieces: the table can be long, and its temporaries longer
                piece = self.confidence.radius(np.arange(at, min(at + _PIECE, radii.size)))
                radii[at : at + _PIECE] = piece
                before = radii[max(at, 2) - 1 : at + piece.size - 1]
                self._falling &= bool(np.all(radii[max(at, 2) : at + piece.size] <= before))
            self._note_radii()

    def _note_radii(self) -> None:
        """Whether the policy may look ahead: see ``nap`` in the state."""
        self._view("knobs")[st.FALLING] = float(self._steady and self._falling)

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
        return st.views(self._ints, self._floats)[name]

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
        room = int(self._ints[st.ROOM])
        if self._ints[st.MODE] == st.SAMPLES and int(self._view("clock")[st.REWARDS]) + len(places) > room:
            self._grow_room(len(places))
        for place, value in zip(places, values, strict=True):
            code = st.observe(self._ints, self._floats, place, float(value))
            assert code == st.OK, code

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
        out = []
        for i, name in enumerate(self.names):
            n = int(fields["told"][i])
            if self._ints[st.MODE] == st.SAMPLES:
                count = int(fields["clock"][st.REWARDS])
                x, counts = np.unique(fields["x"][:count][fields["owner"][:count] == i], return_counts=True)
            else:
                points = fields["points"]
                counts = fields["counts"].reshape(self.n_arms, points.size)[i]
                x, counts = points[counts > 0], counts[counts > 0]
            radius = float(self.confidence.radius(n)) if self.confidence is not None else float("nan")
            kind = self.confidence.kind if self.confidence is not None else "none"
            low, high = float("nan"), float("nan")
            if kind == "interval":
                low, high = _interval(float(x @ counts) / n if n else 0.5, radius)
            out.append(ArmEstimate(name, n, x.copy(), counts / max(n, 1), radius, kind, low, high))
        return tuple(out)

    def utility_bounds(self, weights: ArrayLike | None = None) -> tuple[float, float, float]:
        """Pessimistic, empirical and optimistic utility of a mixture (default: the current one).

        The outer two hold for all mixtures at once if every arm's law is in its set: where a set holds with
        probability p, with probability 1 − K(1 − p) at least.
        """
        if self.confidence is None:
            raise ValueError(f"{type(self).__name__} keeps no confidence sets; it has no bounds to report.")
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
        if self.confidence is not None and int(self._view("told").max()) >= int(self._ints[st.RADII]):
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
        return f"{type(self).__name__}({self.metric!r}, {given}; t={self.t}, mixture=[{mix}])"


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
    options: dict[str, Any], metric: Distortion, n_arms: int, support: Support, kind: Literal["etc", "ucb"]
) -> float:
    """ε as given, or by the paper's schedule; where that gives no usable grid, whole steps that do.

    Usable: two steps or more (one with very many arms), and at most 20,000 points.
    """
    if options["epsilon"] is not None:
        return float(options["epsilon"])
    try:
        q = metric.holder(support).q
    except ValueError:
        q = 1.0
    schedule = epsilon_etc if kind == "etc" else epsilon_ucb
    offset = 0.0 if kind == "etc" else n_arms / 2.0  # the UCB grid has steps + K/2 spacings
    wanted = schedule(options["horizon"], n_arms, q, constant=options["epsilon_constant"])
    coarsest = 0.5 if kind == "etc" else 1.0 / n_arms
    if wanted <= coarsest and n_arms <= grid_size(n_arms, wanted, kind) <= _LARGEST_DEFAULT_GRID:
        return wanted
    steps = max(int(1.0 / wanted - offset), 2)
    while steps > 1 and comb(steps + n_arms - 1, n_arms - 1) > _LARGEST_DEFAULT_GRID:
        steps -= 1
    return 1.0 / (steps + offset)


def spacing(epsilon: float | None) -> float | None:
    """ε as the user gave it, checked."""
    return None if epsilon is None else _check.within("epsilon", epsilon, 0.0, 1.0, open_lo=True)


def probability(delta: float | None) -> float | None:
    """δ as the user gave it, checked."""
    return None if delta is None else _check.within("delta", delta, 0.0, 1.0, open_lo=True, open_hi=True)


def known_set(confidence: Any) -> Any:
    """A confidence set by a name that exists, or an object."""
    return _check.choice("confidence", confidence, NAMES) if isinstance(confidence, str) else confidence


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
