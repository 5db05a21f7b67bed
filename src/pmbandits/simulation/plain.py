"""Policies in plain Python: any object with ``ask()``, ``tell(arm, reward)`` and ``mixture``, played round by round.

They are paid the same rewards as the compiled policies, in a loop of the interpreter instead of a compiled one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pmbandits import _check
from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.limits import Limits
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.course import METHODS, Course, Event, Moment
from pmbandits.simulation.delays import Coming
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.trial import Outcome
from pmbandits.state.timing import Stopwatch

OFFERED = (
    "n_arms",
    "seed",
    "metric",
    "names",
    "support",
    "horizon",
    "limits",
)  # what a function that makes a policy may ask for
_AT_ONCE = 256  # rewards of an arm that are drawn together


class PolicyError(RuntimeError):
    """The error for a policy in plain Python that did what no policy may do. It says which policy, trial and round."""


@dataclass(frozen=True)
class PlainPolicy:
    """What makes a plain Python policy, and what it is given for it."""

    label: str
    factory: Callable[..., Any] = field(repr=False)
    wanted: frozenset[str] = field(repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, factory: Callable[..., Any], label: str | None = None) -> PlainPolicy:
        """The recipe, if all that the function or class asks for is offered."""
        label = label or _name(factory)
        try:
            parameters = inspect.signature(factory).parameters.values()
        except (TypeError, ValueError):
            raise TypeError(
                f"{label} does not say what it takes; wrap it, as in lambda n_arms, seed: {label}(...)."
            ) from None
        bound = factory.keywords if isinstance(factory, functools.partial) else {}
        wanted = set()
        for parameter in parameters:
            by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if parameter.kind is parameter.VAR_KEYWORD:
                wanted |= set(OFFERED) - set(bound)
            elif by_name and parameter.name in OFFERED:
                if parameter.name not in bound:  # what the user has fixed stays fixed
                    wanted.add(parameter.name)
            elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
                raise TypeError(
                    f"{label} asks for {parameter.name!r}, which simulate does not have; it gives any of "
                    f"{', '.join(OFFERED)} by name. Give {parameter.name!r} a default, or use functools.partial."
                )
        return cls(label, factory, frozenset(wanted))

    @property
    def home(self) -> str:
        """Where the function or class is defined."""
        inner: Any = self.factory
        while isinstance(inner, functools.partial):
            inner = inner.func
        inner = inner if hasattr(inner, "__qualname__") else type(inner)
        return f"{inner.__module__}.{inner.__qualname__}"

    def labelled(self, label: str) -> PlainPolicy:
        """The same by another name."""
        return replace(self, label=label)

    def bind(
        self,
        metric: Distortion,
        bandit: Bandit,
        horizon: int,
        limits: Limits | None = None,
        needed: Iterable[str] = (),
    ) -> PlainPolicy:
        """Ready for a simulation. One object is made at once, so that mistakes are found before anything is played."""
        if "support" in self.wanted and bandit.support is None:
            raise ValueError(
                f"{self.label} asks for the support, but that of {bandit!r} is not known; "
                "say Bandit(..., support=Interval(lo, hi)), or Real(sigma)."
            )
        offered = {
            "n_arms": bandit.n_arms,
            "metric": metric,
            "names": bandit.names,
            "support": bandit.support,
            "horizon": horizon,
            "limits": limits,
        }
        ready = replace(self, given={name: offered[name] for name in sorted(self.wanted - {"seed"})})
        made = ready.make(0)
        for method in needed:
            if not callable(getattr(made, method, None)):
                raise PolicyError(f"{self.label} has no method {method}, which the schedule of arms needs.")
        return ready

    def make(self, seed: int, trial: int | None = None) -> Any:
        """A new policy, for a trial."""
        where = "" if trial is None else f" in trial {trial}"
        try:
            made = self.factory(**self.given, **({"seed": seed} if "seed" in self.wanted else {}))
        except Exception as error:
            raise PolicyError(f"{self.label} could not be made{where}: {_text(error)}.") from error
        for method in ("ask", "tell"):
            if not callable(getattr(made, method, None)):
                raise PolicyError(f"{self.label} made {_check.short(made)}{where}, which has no method {method}.")
        if not hasattr(type(made), "__getattr__") and inspect.getattr_static(made, "mixture", self) is self:
            raise PolicyError(
                f"{self.label} made {_check.short(made)}{where}, which keeps no mixture; give it an attribute or a "
                "property mixture: the shares of the arms that it takes for the best, one for each arm."
            )
        return made


class PlainPlayer:
    """Plays trials of one plain Python policy, one after the other, each with a new object."""

    def __init__(self, policy: PlainPolicy, course: Course, seed: int, checkpoints: NDArray[np.int64]) -> None:
        self.policy, self.course, self.seed, self.checkpoints = policy, course, seed, checkpoints
        self.names, self.moments = course.bandit.names, course.moments(int(checkpoints[-1]))

    def play(self, trial: int) -> Outcome:
        """The trial of this number."""
        watch = Stopwatch()
        course, k = self.course, self.course.bandit.n_arms
        policy = self.policy.make(policy_seed(self.seed, trial), trial)
        rewards = Rewards(course.bandit, seed=self.seed, trial=trial)
        ask, tell, prompt, at_once = policy.ask, policy.tell, course.prompt, _AT_ONCE if course.still else 1
        drawn: list[list[float]] = [[] for _ in range(k)]  # rewards of each arm, the next one last
        pulled = [0] * k
        rows = self.checkpoints.tolist()
        pulls, mixture = np.zeros((len(rows), k), dtype=np.int64), np.zeros((len(rows), k))
        turns = np.zeros((0 if course.still else len(self.moments), k), dtype=np.int64)
        seats = list(course.first)  # which arm of the bandit each arm of the policy is
        coming = Coming(course.delays, course.batch, self.seed, trial)
        row = 0
        for number, moment in enumerate(self.moments):
            for event in moment.events:
                self._let(policy, event, trial, seats)
            for now in range(moment.start + 1, moment.end + 1):
                step = "ask()"
                try:
                    given = ask()
                    step = ""
                    arm = given if type(given) is int else _whole(given)
                    if not (0 <= arm < len(seats) and (course.still or seats[arm] in moment.playing)):
                        self._fail(trial, now, f"ask() returned {_check.short(given)}; {self._known(moment, seats)}")
                    seat = seats[arm]
                    if not drawn[seat]:
                        drawn[seat] = rewards.next(seat, at_once, t=now - 1)[::-1].tolist()
                    pulled[seat] += 1
                    reward = drawn[seat].pop()
                    step = "tell()"
                    if prompt:
                        tell(arm, reward)
                    else:
                        coming.put(now, arm, seat, reward)
                        for late_arm, late_reward in coming.due(now):
                            tell(late_arm, late_reward)
                except Exception as error:
                    if not step:
                        raise
                    self._fail(trial, now, f"{step} raised {_text(error)}", error)
                if now == rows[row]:
                    shares = self._mixture(policy, trial, now, len(seats))
                    if not course.still:
                        self._must_play(shares, moment, seats, trial, now)
                    pulls[row], mixture[row, seats] = pulled, shares
                    row += 1
            turns[number : number + 1] = pulled
        return Outcome(pulls, mixture, np.zeros(0, dtype=np.int64), watch.seconds, turns)

    def _let(self, policy: Any, event: Event, trial: int, seats: list[int]) -> None:
        """Tell the policy that an arm comes or goes."""
        name = METHODS[event.verb]
        method = getattr(policy, name, None)
        if not callable(method):
            self._fail(trial, event.after, f"the schedule has {event.arm} {event.verb}, but it has no method {name}")
        try:
            method(event.arm)
        except Exception as error:
            self._fail(trial, event.after, f"{name}({event.arm!r}) raised {_text(error)}", error)
        if event.verb == "add":
            seats.append(self.names.index(event.arm))

    def _known(self, moment: Moment, seats: list[int]) -> str:
        if self.course.still:
            return f"the arms are 0 to {len(seats) - 1}"
        return f"the arms that play are {', '.join(str(seats.index(i)) for i in moment.playing)}"

    def _must_play(self, shares: FloatArray, moment: Moment, seats: list[int], trial: int, now: int) -> None:
        """Refuse a mixture with arms that do not play."""
        for share, seat in zip(shares, seats, strict=True):
            if share > 1e-9 and seat not in moment.playing:
                self._fail(trial, now, f"its mixture has a share of {self.names[seat]}, which does not play now")

    def _mixture(self, policy: Any, trial: int, now: int, count: int) -> FloatArray:
        try:
            given = policy.mixture
        except Exception as error:
            self._fail(trial, now, f"mixture raised {_text(error)}", error)
        if callable(given):
            self._fail(trial, now, "mixture is a method; make it a property")
        try:
            _check.weights(given, count, name="mixture")
        except (TypeError, ValueError) as error:
            self._fail(trial, now, str(error).rstrip("."))
        return np.array(given, dtype=np.float64)

    def _fail(self, trial: int, now: int, what: str, cause: Exception | None = None) -> NoReturn:
        raise PolicyError(f"{self.policy.label} failed in trial {trial}, round {now:,}: {what}.") from cause


def _whole(given: Any) -> int:
    """An arm that is no plain ``int`` as one; -1 stands for what is no whole number."""
    return int(given) if isinstance(given, np.integer) else -1


def _name(factory: Any) -> str:
    while isinstance(factory, functools.partial):
        factory = factory.func
    return str(getattr(factory, "__name__", type(factory).__name__)).strip("<>")


def _text(error: Exception) -> str:
    words = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}{': ' if words else ''}{words}"
