"""Policies in plain Python: any object with ``ask()``, ``tell(arm, reward)`` and ``mixture``, played round by round.

They get the same rewards as the compiled policies, in an interpreted loop instead of a compiled one.
"""

from __future__ import annotations

import functools
import heapq
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pmbandits import _validation
from pmbandits._validation import FloatArray
from pmbandits.arms import Bandit
from pmbandits.constraints import Limits
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.delays import DelayTable
from pmbandits.simulation.rewards import Rewards, policy_seed
from pmbandits.simulation.timeline import POLICY_METHODS, Event, StationaryPeriod, Timeline
from pmbandits.simulation.trial import Outcome
from pmbandits.state.timing import Stopwatch

# names of parameters that the maker of a policy may have
FACTORY_ARGUMENTS = ("n_arms", "seed", "metric", "names", "support", "horizon", "limits")
_REWARDS_PER_DRAW = 256  # rewards of an arm that are drawn together


class PolicyError(RuntimeError):
    """The error for a policy in plain Python that did what no policy may do. It says which policy, trial and round."""


@dataclass(frozen=True)
class PythonPolicy:
    """Factory of a policy in plain Python, with the arguments that it is called with."""

    label: str
    factory: Callable[..., Any] = field(repr=False)
    wanted: frozenset[str] = field(repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_arguments(cls, factory: Callable[..., Any], label: str | None = None) -> PythonPolicy:
        """Wrap a function or class; raise an error if it needs parameters that ``simulate`` does not have."""
        label = label or _factory_name(factory)
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
                wanted |= set(FACTORY_ARGUMENTS) - set(bound)
            elif by_name and parameter.name in FACTORY_ARGUMENTS:
                if parameter.name not in bound:  # what the user has fixed stays fixed
                    wanted.add(parameter.name)
            elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
                raise TypeError(
                    f"{label} asks for {parameter.name!r}, which simulate does not have; it gives any of "
                    f"{', '.join(FACTORY_ARGUMENTS)} by name. Give {parameter.name!r} a default, or use "
                    f"functools.partial."
                )
        return cls(label, factory, frozenset(wanted))

    @property
    def qualified_name(self) -> str:
        """Module and qualified name of the factory."""
        inner = _unwrap_partial(self.factory)
        inner = inner if hasattr(inner, "__qualname__") else type(inner)
        return f"{inner.__module__}.{inner.__qualname__}"

    def bind(
        self, metric: Distortion, bandit: Bandit, horizon: int, limits: Limits | None, needed: Iterable[str]
    ) -> PythonPolicy:
        """Return a copy with its arguments filled in; makes one object at once, to find mistakes before playing."""
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
        """Call the factory: return a new policy object for a trial."""
        where = "" if trial is None else f" in trial {trial}"
        try:
            made = self.factory(**self.given, **({"seed": seed} if "seed" in self.wanted else {}))
        except Exception as error:
            raise PolicyError(f"{self.label} could not be made{where}: {_error_text(error)}.") from error
        for method in ("ask", "tell"):
            if not callable(getattr(made, method, None)):
                raise PolicyError(
                    f"{self.label} made {_validation.short_repr(made)}{where}, which has no method {method}."
                )
        if not hasattr(type(made), "__getattr__") and inspect.getattr_static(made, "mixture", self) is self:
            raise PolicyError(
                f"{self.label} made {_validation.short_repr(made)}{where}, which keeps no mixture; give it an "
                "attribute or a property mixture: the shares of the arms that it takes for the best, one for each arm."
            )
        return made


class PythonPlayer:
    """Plays trials of one plain Python policy, one after the other, each with a new object."""

    def __init__(self, policy: PythonPolicy, timeline: Timeline, seed: int, checkpoints: NDArray[np.int64]) -> None:
        self.policy, self.timeline, self.seed, self.checkpoints = policy, timeline, seed, checkpoints
        self.names, self.periods = timeline.bandit.names, timeline.periods(int(checkpoints[-1]))

    def play(self, trial: int) -> Outcome:
        """Play the trial of this number and return what it left behind."""
        watch = Stopwatch()
        timeline, k = self.timeline, self.timeline.bandit.n_arms
        policy = self.policy.make(policy_seed(self.seed, trial), trial)
        rewards = Rewards(timeline.bandit, seed=self.seed, trial=trial)
        ask, tell, has_immediate_rewards = policy.ask, policy.tell, timeline.has_immediate_rewards
        at_once = _REWARDS_PER_DRAW if timeline.is_stationary else 1
        drawn: list[list[float]] = [[] for _ in range(k)]  # rewards of each arm, the next one last
        pulled = [0] * k
        rows = self.checkpoints.tolist()
        pulls, mixture = np.zeros((len(rows), k), dtype=np.int64), np.zeros((len(rows), k))
        period_ends = np.zeros((0 if timeline.is_stationary else len(self.periods), k), dtype=np.int64)
        bandit_arms = list(timeline.initial_arms)  # position in the bandit of each arm of the policy
        delays = DelayTable(timeline.delays, timeline.batch, self.seed, trial)
        late: list[tuple[int, int, int, float]] = []  # heap: round after which it comes, round of its pull, arm, reward
        row = 0
        for number, period in enumerate(self.periods):
            for event in period.events:
                self._apply_event(policy, event, trial, bandit_arms)
            for now in range(period.start + 1, period.end + 1):
                step = "ask()"
                try:
                    given = ask()
                    step = ""
                    arm = given if type(given) is int else int(given) if isinstance(given, np.integer) else -1
                    known = 0 <= arm < len(bandit_arms)
                    if not known or not (timeline.is_stationary or bandit_arms[arm] in period.playing):
                        arms = self._playing_arms_text(period, bandit_arms)
                        self._raise_policy_error(trial, now, f"ask() returned {_validation.short_repr(given)}; {arms}")
                    bandit_arm = bandit_arms[arm]
                    if not drawn[bandit_arm]:
                        drawn[bandit_arm] = rewards.next(bandit_arm, at_once, t=now - 1)[::-1].tolist()
                    pulled[bandit_arm] += 1
                    reward = drawn[bandit_arm].pop()
                    step = "tell()"
                    if has_immediate_rewards:
                        tell(arm, reward)
                    else:
                        heapq.heappush(late, (delays.round_in_which_reward_comes(now, bandit_arm), now, arm, reward))
                        while late and late[0][0] <= now:
                            tell(*heapq.heappop(late)[2:])
                except Exception as error:
                    if not step:
                        raise
                    self._raise_policy_error(trial, now, f"{step} raised {_error_text(error)}", error)
                if now == rows[row]:
                    shares = self._checked_mixture_of_policy(policy, trial, now, len(bandit_arms))
                    if not timeline.is_stationary:
                        self._check_only_active_arms(shares, period, bandit_arms, trial, now)
                    pulls[row], mixture[row, bandit_arms] = pulled, shares
                    row += 1
            period_ends[number : number + 1] = pulled
        return Outcome(pulls, mixture, np.zeros(0, dtype=np.int64), watch.seconds, period_ends)

    def _apply_event(self, policy: Any, event: Event, trial: int, bandit_arms: list[int]) -> None:
        """Call the policy's method for an event of the schedule: an arm is added, paused, resumed or retired."""
        name = POLICY_METHODS[event.verb]
        method = getattr(policy, name, None)
        if not callable(method):
            self._raise_policy_error(
                trial, event.after, f"the schedule has {event.arm} {event.verb}, but it has no method {name}"
            )
        try:
            method(event.arm)
        except Exception as error:
            self._raise_policy_error(trial, event.after, f"{name}({event.arm!r}) raised {_error_text(error)}", error)
        if event.verb == "add":
            bandit_arms.append(self.names.index(event.arm))

    def _playing_arms_text(self, period: StationaryPeriod, bandit_arms: list[int]) -> str:
        if self.timeline.is_stationary:
            return f"the arms are 0 to {len(bandit_arms) - 1}"
        return f"the arms that play are {', '.join(str(bandit_arms.index(i)) for i in period.playing)}"

    def _check_only_active_arms(
        self, shares: FloatArray, period: StationaryPeriod, bandit_arms: list[int], trial: int, now: int
    ) -> None:
        """Refuse a mixture with arms that do not play."""
        for share, bandit_arm in zip(shares, bandit_arms, strict=True):
            if share > 1e-9 and bandit_arm not in period.playing:
                self._raise_policy_error(
                    trial, now, f"its mixture has a share of {self.names[bandit_arm]}, which does not play now"
                )

    def _checked_mixture_of_policy(self, policy: Any, trial: int, now: int, count: int) -> FloatArray:
        try:
            given = policy.mixture
        except Exception as error:
            self._raise_policy_error(trial, now, f"mixture raised {_error_text(error)}", error)
        if callable(given):
            self._raise_policy_error(trial, now, "mixture is a method; make it a property")
        try:
            _validation.check_weights(given, count, name="mixture")
        except (TypeError, ValueError) as error:
            self._raise_policy_error(trial, now, str(error).rstrip("."))
        return np.array(given, dtype=np.float64)

    def _raise_policy_error(self, trial: int, now: int, what: str, cause: Exception | None = None) -> NoReturn:
        raise PolicyError(f"{self.policy.label} failed in trial {trial}, round {now:,}: {what}.") from cause


def _unwrap_partial(factory: Any) -> Any:
    """Return the function or class inside of ``functools.partial``."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory


def _factory_name(factory: Any) -> str:
    inner = _unwrap_partial(factory)
    return str(getattr(inner, "__name__", type(inner).__name__)).strip("<>")


def _error_text(error: Exception) -> str:
    words = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}{': ' if words else ''}{words}"
