"""The class that all policies share: their common options, how one is made, and how it prints.

What a policy can do comes from the classes below it, one for each task, from ``locking`` and ``algorithm`` up to
``policy_file``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pmbandits import _validation
from pmbandits.arms import check_arm_names
from pmbandits.engine import share_constraints
from pmbandits.engine.index_policy import kernels_of_index, set_mixture_to_largest_mean
from pmbandits.engine.kernel_checks import other_opener_of, reaches_numpy_random
from pmbandits.engine.options import MAX_ARMS, DeclaredOptions, check_detect, option, whole
from pmbandits.engine.policy_file import Saving
from pmbandits.engine.registry import REGISTRY
from pmbandits.engine.tickets import Tickets
from pmbandits.metrics import as_metric
from pmbandits.metrics.distortion import Distortion
from pmbandits.segments import Segments
from pmbandits.supports import Support

_CLASS_KEYWORDS = ("name", "choose", "index", "update", "unpack", "choose_certifying", "uses_sets")


class Policy(Saving, DeclaredOptions):
    """A policy: you ask it which arm to pull, and tell it the reward.

    Every policy of this library is a subclass, such as :class:`Vet` or :class:`Track`, and has the options and methods
    that are described here.

    Parameters
    ----------
    metric : what you value: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``.
    n_arms : how many arms there are. It can be left out if ``names`` is given.
    support : where rewards can lie: ``Binary()``, ``Finite(atoms)``, ``Interval(lo, hi)``, ``Real(sigma)`` or
        ``Heavy(order, bound)``. This is a promise. The confidence sets are valid only if it is kept, and if the rewards
        of an arm are independent and have the same distribution.
    names : the names of the arms. With them you can tell rewards by name.
    segments : if you know who is in front of you, and the policy may choose differently for each: the names of the
        segments, such as ``["new", "returning"]``, or the arms of each, ``{"new": ["A", "B"], "returning": ["B",
        "C"]}``. The metric is then that of the rewards of everybody together. :class:`Vet` and :class:`Uniform` take
        segments.
    seed : a whole number from which the policy's own random choices follow, if it makes any. The default is 0.
    most_arms : how many arms there will ever be, if some may come later (:meth:`add_arm`). The confidence sets share
        their ``delta`` between that many arms. By default it is the number of arms at the start. More arms can come all
        the same, but then the sets become wider. With segments, pairs of a segment and an arm count.
    shares, cost, budget : limits on the shares of the arms, such as ``"A >= 10%; B + C <= 0.3"`` or ``{"A": (0.1,
        1.0)}``, and on what a round costs on average. They are kept at all times; the page "Limits on shares" says how
        closely.

    Many policies also take ``estimates``, which says how rewards are kept. ``"exact"``, the default, keeps all of them.
    The other ways need the same memory however many rewards come. What they lose is added to every confidence set, so
    the sets stay valid:

    - ``"binned"`` rounds each reward to the nearest of 1025 evenly spaced points of an ``Interval`` (``"binned:4096"``:
      of 4097 points). So every reward is moved by at most half the distance between two points. The order of the
      rewards does not matter, and no random numbers are needed.
    - ``"sketch"`` keeps a :class:`~pmbandits.estimates.Sketch` of each arm, which is a random summary of its rewards,
      on any support (``"sketch:4096"``: with k = 4096). Half of ``delta`` goes to the error of its ranks. That error
      does not vanish: sets do not become narrower than about 7/k of rank. The order of an arm's rewards can matter,
      within that error.

    ``Binary`` and ``Finite`` rewards are counted exactly in either way. Only the table of radii is coarser then.

    For arms that change, some policies (Vet and Track among them) can forget. The guide "When the world changes" says
    which way to take when.

    - ``"window:10000"`` keeps the last 10,000 rewards of all arms together, and up to 1 % more. Confidence sets hold
      for arms that have not changed since the oldest of their rewards that is kept.
    - ``"discount:0.999"`` still keeps a reward after m other rewards with probability 0.999^m, so about 1,000 rewards
      are kept. There are no confidence sets.

    Every policy can watch its arms for changes. With ``detect="warn"`` a change is noted in :attr:`changes`, and a
    warning is given. With ``detect="restart"``, for policies that can forget, the rewards of that arm are also
    forgotten. The probability that there is ever a false alarm is 1 %, or what you write: ``"restart:0.001"`` makes it
    0.1 %.

    A policy that was made without a metric, arms and a support is a recipe. :meth:`bind` makes a policy of it that can
    be played.

    One policy object can be shared between threads. A batch of rewards, or of asks, is one step: it counts as a whole
    or not at all, even if Ctrl-C comes in between.

    A policy of your own is a subclass, ``class Mine(Policy, name="mine", choose=choose, update=update)``, with two
    kernels, options, and :meth:`setup`. If it has numbers of its own, it also gives the ``unpack`` that names them. The
    guide "A policy of your own" has complete examples, and :mod:`pmbandits.kit` has what they are made of.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
    >>> arm = policy.ask()
    >>> policy.tell(arm, 1.0)
    >>> policy.pulls.tolist()
    [1, 0]
    """

    _given_metric: Distortion | str | None = option(default=None, alias="metric", kw_only=False)
    _given_arms: int | None = option(default=None, alias="n_arms", check=whole(1, MAX_ARMS))
    _given_support: Support | None = option(default=None, alias="support")
    _given_names: Sequence[str] | None = option(default=None, alias="names")
    _given_segments: Sequence[str] | Mapping[str, Sequence[str]] | None = option(default=None, alias="segments")
    _given_seed: int | None = option(default=0, alias="seed", check=_validation.check_seed)
    _most_arms: int | None = option(default=None, alias="most_arms", check=whole(1, MAX_ARMS))
    _given_shares: Any = option(default=None, alias="shares", check=share_constraints.check_shares)
    _given_cost: Mapping[str, float] | None = option(default=None, alias="cost", check=share_constraints.check_cost)
    _given_budget: float | None = option(default=None, alias="budget", check=share_constraints.check_budget)
    _watch: str | None = option(default=None, alias="detect", check=check_detect)

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        choose: Any = None,
        choose_certifying: Any = None,
        index: Any = None,
        update: Any = None,
        unpack: Any = None,
        uses_sets: bool | None = None,
        **strange: Any,
    ) -> None:
        super().__init_subclass__()
        for word in strange:
            _validation.check_choice(f"keyword of class {cls.__name__}", word, _CLASS_KEYWORDS)
        roles = {"choose": choose, "choose_certifying": choose_certifying, "index": index, "update": update}
        for role, given in roles.items():
            if given is not None and not hasattr(given, "py_func"):
                arguments = "s, i" if role == "index" else "memory"
                raise TypeError(
                    f"{role} of {cls.__name__} is not compiled; write @kernel above def "
                    f"{getattr(given, '__name__', role)}({arguments})."
                )
            if given is not None and reaches_numpy_random(given.py_func):
                raise TypeError(
                    f"{role} of {cls.__name__} uses np.random, which does not follow the policy's seed. To repeat runs "
                    "take random_share(s), random_below(s, n), random_normal(s) and others of pmbandits.kit."
                )
        if choose is not None and index is not None:
            raise TypeError(f"{cls.__name__} has choose and index; give one of them: each says which arm is pulled.")
        if index is not None:
            choose, cls._choose_in_lanes = kernels_of_index(index, unpack)
            update = update or getattr(cls, "_update", set_mixture_to_largest_mean)
        elif choose is not None:
            cls._choose_in_lanes = None
        if choose is not None:
            cls._choose = staticmethod(choose)
            cls._choose_certifying = staticmethod(choose_certifying or choose)
        if update is not None:
            cls._update = staticmethod(update)
        if unpack is not None:
            cls._own = unpack.own
        if uses_sets is not None:
            cls._uses_sets = uses_sets
        if "setup" in cls.__dict__:
            cls._check_setup()
        cls._check_kernels(playable=name is not None or choose is not None)
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

    @classmethod
    def _check_setup(cls) -> None:
        """Refuse a ``setup`` that cannot be called with what it is given."""
        try:
            inspect.signature(cls.setup).bind(None, None, None, None)
        except TypeError:
            raise TypeError(
                f"setup of {cls.__name__} is given the metric, the number of arms and the support; write "
                "def setup(self, metric, n_arms, support)."
            ) from None

    @classmethod
    def _check_kernels(cls, playable: bool = True) -> None:
        """Refuse a class that lacks a kernel, or whose kernels open the memory with numbers that it does not have."""
        if playable and not hasattr(cls, "_choose"):
            raise TypeError(
                f"{cls.__name__} does not say which arm is pulled; give its class choose= and update=, or index=: "
                f"class {cls.__name__}(Policy, name=..., choose=choose, update=update)."
            )
        if playable and not hasattr(cls, "_update"):
            raise TypeError(
                f"{cls.__name__} has choose, but no update; give its class update=, a kernel that writes the mixture "
                "into s.mix, and sets s.dirty = 0."
            )
        for role in ("choose", "choose_certifying", "update"):
            opener = other_opener_of(getattr(cls, f"_{role}", None), cls._own)
            if opener is not None:
                raise TypeError(
                    f"{role} of {cls.__name__} opens the memory with {opener}, which names other numbers than "
                    f"{'the unpack= of the class does' if cls._own else 'the class has, because it has no unpack='}; "
                    f"write class {cls.__name__}(Policy, ..., unpack={opener}), with the same in all its kernels."
                )

    def __init__(self, *positional: Any, **given: Any) -> None:
        if not hasattr(self, "_choose"):
            self._check_kernels()
        options = self._read_options(positional, given)
        metric, support, names, n_arms = (options.pop(key) for key in ("metric", "support", "names", "n_arms"))
        self.seed = options.pop("seed")
        for name, usual in (("estimates", "exact"), ("detect", None), ("most_arms", None), ("segments", None)):
            value = options.get(name, "")
            if value is usual or (isinstance(value, str) and value == usual):
                del options[name]
        self.options = options
        self.check_options()
        if support is not None and not isinstance(support, Support):
            known = "Binary(), Finite(...), Interval(lo, hi), Real(sigma) or Heavy(order, bound)"
            raise TypeError(f"support must be {known}, got {_validation.short_repr(support)}.")
        self.metric = self.default_metric() if metric is None else as_metric(metric)
        self.support, self.epsilon = support, options.get("epsilon")
        segments = options.get("segments")
        if segments is not None and not self.takes_segments:
            raise ValueError(
                f"{type(self).__name__} has no rule for segments (grids of mixtures would grow like a power of their "
                "number); take Vet, or Uniform to compare with."
            )
        if segments is not None and options.get("certify", 0.0) > 0.0:
            raise ValueError("certify and segments do not go together: leave certify out.")
        if isinstance(segments, Mapping) and names is None and n_arms is None:
            names = Segments.from_arguments(segments).arms
        if n_arms is None and names is not None:
            n_arms = len(names)
        self._own_names = names is not None
        self.names = check_arm_names(names, n_arms) if n_arms is not None else ()
        self._segments = None
        if segments is not None and self.names:
            self._segments = Segments.from_arguments(segments, self.names)
            options["segments"] = self._segments.to_argument()
        self._all_limits = share_constraints.limits_from_options(options, self.names, self._segments)
        self.limits = self._all_limits  # those on the arms that play
        if self._all_limits is not None and self._roster is not None:
            self.limits = self._all_limits.among([self._columns[arm] for arm in self._active_arms])
        self._tickets = Tickets()
        self._create_policy_lock()
        count = len(self._columns)
        if options.get("most_arms", count) < count:
            what = f"{count} {'arms' if self._segments is None else 'pairs of a segment and an arm'}"
            raise ValueError(f"most_arms is {options['most_arms']}, but there are {what}; give at least as many.")
        if self.metric is not None and n_arms is not None and support is not None:
            memory, self._plan = self._build(self.metric, len(self._active_arms), support)
            self._memory = memory
            self.epsilon = self._plan.setup.epsilon

    # ---- making ----------------------------------------------------------------------------------------
    def bind(
        self, metric: Distortion | str, n_arms: int, support: Support, *, names: Sequence[str] | None = None,
        seed: int | None = None, segments: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ) -> Policy:  # fmt: skip
        """Make a policy that can be played, with the options of this recipe. The recipe itself does not change.

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
            **(self.options if segments is None else {**self.options, "segments": segments}),
        )

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if v is not None)
        known = "" if self.metric is None else f"{self.metric!r}{', ' if given else ''}"
        if "_now" not in self.__dict__:
            return f"{type(self).__name__}({known}{given}; a recipe)"
        mix = ", ".join(f"{m:.3f}" for m in self.mixture.ravel()[:6]) + (", …" if self.mixture.size > 6 else "")
        return f"{type(self).__name__}({known}{given}; t={self.t}, mixture=[{mix}])"
