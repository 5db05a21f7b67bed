"""What all policies share: ask and tell, merge, and reading without side effects."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import arm_index, arm_names
from pmbandits.estimates import ArmEstimate
from pmbandits.estimates import _kernels as sketching
from pmbandits.estimates._rewards import OK, SAMPLES, STALE
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.policies import certainty as sureness
from pmbandits.policies import limited, shown, stopping
from pmbandits.policies._steps import CHOOSE, WRONG, ask_one, choose_many, tell_many, tell_one, wrong_choice
from pmbandits.policies.build import Setup, build, recall, roomier, with_radii
from pmbandits.policies.options import Declared, how_kept, option, whole
from pmbandits.state.guard import BUSY, claim_memory, prepare, release_memory
from pmbandits.state.layout import FIELDS, MOST
from pmbandits.state.memory import Memory
from pmbandits.state.shared import address
from pmbandits.supports import Support

REGISTRY: dict[str, type[Policy]] = {}
MOST_ARMS = 1_000_000
_ask, _tell = ask_one, tell_one
_TOKENS = count(2)  # of threads that are alone with a memory (state/guard.py)
T = TypeVar("T")


class Policy(Declared):
    """A policy that you ask for an arm and tell the reward.

    Parameters
    ----------
    metric : what is valued: a metric, its name, or text such as ``"0.7*mean + 0.3*cvar(0.9)"``.
    n_arms : how many arms there are (or give ``names``).
    support : where rewards lie: ``Binary()``, ``Finite(atoms)``, ``Interval(lo, hi)``, ``Real(sigma)`` or
        ``Heavy(order, bound)``. A promise: the confidence sets, and so the decisions, are valid for it only, and for
        rewards of an arm that are independent and alike.
    names : names of the arms, to tell by name.
    seed : of the policy's own random choices, if it makes any.
    shares, cost, budget : limits on the shares of the arms, ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1, 1.0)}``, and on
        what a round costs on average; see the page "Limits on shares". They are kept at all times, up to one pull.

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

    One policy object can be shared between threads. A batch of rewards, or of asks, is one step: it is taken in whole
    or not at all, also when Ctrl-C comes in between.

    A policy of your own is a subclass, ``class Mine(Policy, name="mine", choose=choose, update=update)``, with two
    kernels, options, and :meth:`setup`. If it has numbers of its own, it also gives the ``unpack`` that names them. The
    guide "A policy of your own" has complete examples, and :mod:`pmbandits.kit` has what they are made of.
    """

    name: ClassVar[str]
    _choose: ClassVar[Any]  # compiled: one round's decision
    _update: ClassVar[Any]  # compiled: bring the mixture up to date
    _own: ClassVar[dict[str, type]] = {}  # the numbers that it has of its own
    as_before: ClassVar[Mapping[str, Any]] = {}  # options that older files lack, with what was played then
    _most_bytes: int | None = None  # of the memory; for policies from files, which must not take more
    _uses_sets: ClassVar[bool] = True  # whether the kernels look at the confidence sets, or only readers do

    _given_metric: Distortion | str | None = option(default=None, alias="metric", kw_only=False)
    _given_arms: int | None = option(default=None, alias="n_arms", check=whole(1, MOST_ARMS))
    _given_support: Support | None = option(default=None, alias="support")
    _given_names: Sequence[str] | None = option(default=None, alias="names")
    _given_seed: int = option(default=0, alias="seed", check=whole(0, 2**53))
    _given_shares: Any = option(default=None, alias="shares", check=limited.known_shares)
    _given_cost: Mapping[str, float] | None = option(default=None, alias="cost", check=limited.known_cost)
    _given_budget: float | None = option(default=None, alias="budget", check=limited.known_budget)

    def __init_subclass__(
        cls, *, name: str | None = None, choose: Any = None, update: Any = None, unpack: Any = None,
        uses_sets: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init_subclass__()
        if choose is not None:
            cls._choose = staticmethod(choose)
        if update is not None:
            cls._update = staticmethod(update)
        if unpack is not None:
            cls._own = dict(unpack.own)
        if uses_sets is not None:
            cls._uses_sets = uses_sets
        if name is not None:
            cls.name = name
        if "name" in cls.__dict__:
            other = REGISTRY.get(cls.name)
            if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(
                    f"there is a policy with the name {cls.name!r} already, {other.__module__}.{other.__qualname__}; "
                    "files are loaded by this name, so give yours another one."
                )
            REGISTRY[cls.name] = cls

    def __init__(self, *positional: Any, **given: Any) -> None:
        options = self._read_options(positional, given)
        metric, support, names, n_arms = (options.pop(key) for key in ("metric", "support", "names", "n_arms"))
        self.seed = options.pop("seed")
        if options.get("estimates") == "exact":
            del options["estimates"]
        self.options = options
        self.check_options()
        if support is not None and not isinstance(support, Support):
            known = "Binary(), Finite(...), Interval(lo, hi), Real(sigma) or Heavy(order, bound)"
            raise TypeError(f"support must be {known}, got {_check.short(support)}.")
        self.metric = self.default_metric() if metric is None else as_metric(metric)
        self.support, self.confidence, self.epsilon = support, None, options.get("epsilon")
        if n_arms is None and names is not None:
            n_arms = len(names)
        self._own_names = names is not None
        self.names = arm_names(names, n_arms) if n_arms is not None else ()
        self.limits = limited.read_limits(options, self.names)
        self._lock, self._owner = threading.Lock(), 0  # and the thread that has it
        if self.metric is not None and n_arms is not None and support is not None:
            memory, self._plan = build(self, self.metric, n_arms, support)
            self._memory = memory
            self.confidence, self.epsilon = self._plan.confidence, self._plan.setup.epsilon

    # ---- what an algorithm gives -----------------------------------------------------------------------
    @abstractmethod
    def setup(self, metric: Distortion, n_arms: int, support: Support) -> Setup:
        """Grid, numbers and confidence set of the algorithm."""

    def check_options(self) -> None:
        """Refuse options that do not go together; each by itself was checked already."""

    def default_metric(self) -> Distortion | None:
        """The metric where none is given."""
        return None

    def holds_together(self, memory: Memory) -> bool:
        """Whether the policy's own numbers can be so, in a memory that was read from a file and is sound otherwise.

        A policy whose kernels use numbers of its own as positions in arrays checks them here: files can come from
        strangers, and kernels do not look where they read and write.
        """
        del memory
        return True

    # ---- making ----------------------------------------------------------------------------------------
    def bind(
        self, metric: Distortion | str, n_arms: int, support: Support, *, names: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> Policy:  # fmt: skip
        """A playable policy with the same options; the recipe itself stays as it is.

        >>> import pmbandits as pmb
        >>> recipe = pmb.CIRT(epsilon=0.1)
        >>> recipe.bind("gini", 2, pmb.Binary()).ask()
        0
        """
        return type(self)(
            metric,
            n_arms=n_arms,
            support=support,
            names=self.names if names is None and self._own_names else names,
            seed=self.seed if seed is None else seed,
            **self.options,
        )

    def _must_be_bound(self) -> None:
        if "_held" not in self.__dict__:
            raise ValueError(
                f"this {type(self).__name__} is a recipe: give metric, n_arms and support, or call bind(...)."
            )

    @property
    def _memory(self) -> Memory:
        """The policy's memory; what every ask and tell needs of it is kept beside it."""
        return self._held

    @_memory.setter
    def _memory(self, memory: Memory) -> None:
        # The memory is part of what asks and tells look up: so it is not freed before their kernels have returned,
        # even if another thread replaces it meanwhile.
        now = _address(self._choose), memory.address, memory
        self._held, self._now = memory, now

    def _twin(self) -> Policy:
        """A copy that can be changed."""
        self._must_be_bound()
        twin: Policy = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        out = {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_owner", "_now")}
        if "_held" in out:
            out["_held"] = self._alone(lambda: self._held.copy())
        return out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._owner = threading.Lock(), 0
        if "_held" in state:
            self._memory = state["_held"]

    def _alone(self, work: Callable[[], T]) -> T:
        """Do some work while no other thread asks, tells or copies.

        If the work replaces the memory, the old one stays taken: whoever still has its address is sent away by the
        kernels, and comes here. Ctrl-C at any moment leaves the memory free: it is given back by its token, whether or
        not Python still learned that it was taken.
        """
        prepare()
        token, me = next(_TOKENS), threading.get_ident()
        if self._owner == me:
            raise RuntimeError(
                "this policy is at work in this very thread, so a signal handler cannot use it now; "
                "let the handler only take a note, and use the policy afterwards."
            )
        with self._lock:
            try:
                self._owner = me
                while not claim_memory(self._now[1], token):  # somebody asks or tells right now
                    time.sleep(1e-5)
                return work()
            finally:
                self._owner = 0
                release_memory(self._now[1], token)

    # ---- ask and tell ----------------------------------------------------------------------------------
    @overload
    def ask(self) -> int: ...
    @overload
    def ask(self, n: int) -> NDArray[np.int64]: ...
    def ask(self, n: int | None = None) -> int | NDArray[np.int64]:
        """The arm to pull now (its position), or the next ``n`` arms.

        An ask counts as a pull at once, so nothing waits for rewards that are late or never come.
        """
        if n is None:
            try:
                where, address, _held = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            arm: int = _ask(where, address)
            if arm == WRONG:
                self._wrong_choice()
            return arm if arm != BUSY else int(self._ask_many(1)[0])
        return self._ask_many(_check.whole("n", n, 1))

    def _ask_many(self, n: int) -> NDArray[np.int64]:
        """The next arms, with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        out = np.empty(n, dtype=np.int64)
        if self._alone(lambda: choose_many(*self._now[:2], out)) == WRONG:
            self._wrong_choice()
        return out

    def _wrong_choice(self) -> NoReturn:
        raise wrong_choice(type(self).__name__, self.n_arms)

    def tell(self, arm: int | str | ArrayLike, reward: float | ArrayLike) -> None:
        """The reward of an arm, or arrays of arms and rewards; in any order, late, or not asked for.

        Rewards beyond what was asked (history, a warm start) inform the estimates but are not counted as pulls.
        If anything is wrong with the input nothing is taken in.
        """
        if not (type(arm) is int and type(reward) is float):  # rarely; the rest is quick
            if isinstance(arm, np.integer):
                arm = int(arm)
            if isinstance(reward, (float, np.floating, np.bool_)):
                reward = float(reward)
            elif isinstance(reward, (int, np.integer)) and not isinstance(reward, np.timedelta64):
                reward = float(reward) if -MOST < reward < MOST else reward
        if type(arm) is int and type(reward) is float and -MOST < arm < MOST:  # beyond there is no arm
            try:
                _, address, _held = self._now
            except AttributeError:
                self._must_be_bound()
                raise
            if _tell(address, arm, reward) != OK:
                self._tell_carefully([arm], [reward])
            return
        one = not _check.is_list(reward)
        arms: Any = [arm] if one else arm
        rewards: Any = [reward] if one else reward
        if not one and not _check.is_list(arms):
            arms = [arms] * len(rewards)  # several rewards of one arm
        self._tell_carefully(arms, rewards)

    def _tell_carefully(self, arms: Any, rewards: Any) -> None:
        """Check everything, make room, and take all in with one call of compiled code, which Ctrl-C cannot cut."""
        self._must_be_bound()
        assert self.support is not None
        places = [arm_index(_plain(arm), self.names) for arm in arms]
        if len(places) != len(rewards):
            raise ValueError(f"{len(places)} arms were told with {len(rewards)} rewards; give one reward for each arm.")
        if not places:
            return
        values, where = self.support.check(_numbers(rewards)), np.array(places, dtype=np.int64)

        def take_in() -> int:
            self._memory = roomier(self._memory, self._plan, where.size)
            return tell_many(self._now[1], where, values)

        code = self._alone(take_in)
        assert code == OK, code

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
        theirs = other._twin()._memory
        self._alone(lambda: self._take_in(theirs))

    def _take_in(self, theirs: Memory) -> None:
        ours = roomier(self._memory.copy(), self._plan, theirs.rewards)
        before, after = ours.rewards, ours.rewards + theirs.rewards
        if ours.sketch_size > 0:
            for arm in range(self.n_arms):
                mine, his = ((m.sketch_book[arm], m.sketch_items[arm], m.sketch_marks[arm]) for m in (ours, theirs))
                sketching.join(*mine, ours.sketch_size, ours.seed, arm, *his)
            ours.ordered = STALE
        elif ours.mode == SAMPLES:
            ours.x[before:after] = theirs.x[: theirs.rewards]
            ours.owner[before:after] = theirs.owner[: theirs.rewards]
        for field in FIELDS:
            if "added" in field.becomes:
                part, more = ours.field(field.name), theirs.field(field.name)
                if more.shape == part.shape:  # else only one of the two has it
                    part += more
            elif "cleared" in field.becomes:  # the laws may have moved by any amount
                ours.field(field.name)[...] = 0
        recall(ours)
        ours.dirty = 1
        ours.busy = self._memory.busy  # it is still at work
        self._memory = ours

    def _must_match(self, other: Policy) -> None:
        if not isinstance(other, Policy):
            raise TypeError(f"a policy can take in another policy, got {_check.short(other)}.")
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
        self._must_be_bound()
        return self._memory.asked

    @property
    def explore_rounds(self) -> int:
        """For how many rounds the policy only explores at first; 0 if it has no such phase."""
        self._must_be_bound()
        explore: int = self._memory.explore if "explore" in self._own else 0
        return explore * self.n_arms

    @property
    def pulls(self) -> NDArray[np.int64]:
        """How often each arm was asked for."""
        return self._copy_of("pulls")

    @property
    def pending(self) -> NDArray[np.int64]:
        """How many asks of each arm still wait for their reward."""
        return self._copy_of("pending")

    def _copy_of(self, name: str) -> NDArray[Any]:
        self._must_be_bound()
        return self._alone(lambda: self._memory.field(name).copy())

    @property
    def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights, with all rewards told so far."""
        return self._look().mix.copy()

    def _look(self) -> Memory:
        """The state after an update with the newest rewards, on a copy: reading changes nothing."""
        twin = self._twin()
        twin._update(twin._memory.address)
        return twin._memory

    def _with_sets(self) -> Memory:
        """A copy of the state in which confidence sets can be worked out."""
        return with_radii(self._twin()._memory, self._plan)

    @property
    def estimates(self) -> tuple[ArmEstimate, ...]:
        """What is known of each arm: its empirical distribution and confidence band."""
        return shown.estimates(self)

    utility_bounds = sureness.utility_bounds
    certainty = sureness.certainty
    done = stopping.done
    forecast = stopping.forecast

    def _reason(self, arm: int) -> str:
        """Why this arm was just chosen, in the policy's own words; if it has none, :meth:`explain` finds some."""
        return ""

    def explain(self, regret: float | str | None = None) -> str:
        """Why the next arm is the next arm, in a few numbers. Changes nothing.

        With a ``regret`` such as ``0.02`` or ``"2%"`` it also says whether that is certain, or when it may be.
        """
        return shown.explain(self, regret)

    # ---- save and load ---------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the whole state to a file (versioned, not pickle), all or nothing."""
        from pmbandits.policies.store import save

        save(self, Path(path))

    def _repr_html_(self) -> str:
        return shown.html(self)

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v is not None)
        known = "" if self.metric is None else f"{self.metric!r}{', ' if given else ''}"
        if "_held" not in self.__dict__:
            return f"{type(self).__name__}({known}{given}; a recipe)"
        mix = ", ".join(f"{m:.3f}" for m in self.mixture[:6]) + (", …" if self.n_arms > 6 else "")
        return f"{type(self).__name__}({known}{given}; t={self.t}, mixture=[{mix}])"


@cache
def _address(choose: Any) -> int:
    """Where the kernel is that chooses the arm."""
    return address(choose, CHOOSE)


def _same(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(mine == theirs)
    except ValueError:  # a metric made from a function equals itself only
        return False


def _plain(arm: Any) -> Any:
    return arm.item() if isinstance(arm, np.generic) else arm


def _numbers(rewards: Any) -> FloatArray:
    if isinstance(rewards, np.ndarray):
        return _check.numbers("rewards", rewards)
    rewards = [r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for r in rewards]
    for reward in rewards:
        if not (_check.is_number(reward) or isinstance(reward, (bool, np.bool_)) or np.ndim(reward)):
            raise TypeError(f"rewards must be numbers, got {_check.short(reward)}.")
    return _check.numbers("rewards", [float(r) if isinstance(r, (bool, np.bool_)) else r for r in rewards])
