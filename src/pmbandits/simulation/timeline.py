"""The timeline of a simulation: when arms change, when arms are added or paused, and how late rewards come."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pmbandits import _validation
from pmbandits.arms import Bandit, check_bandit
from pmbandits.changing import Changing
from pmbandits.population import Population
from pmbandits.simulation.delays import Delay, Delays
from pmbandits.supports import Support

# the method of a policy that is called for each event
POLICY_METHODS = {"add": "add_arm", "pause": "pause", "resume": "resume", "retire": "retire"}
MAX_PIECES = 100_000


class Event(NamedTuple):
    """An arm comes or goes, after this many rounds."""

    after: int
    verb: str
    arm: str


class StationaryPeriod(NamedTuple):
    """A stationary stretch of rounds: neither the arms change nor which of them play.

    ``start`` and ``end`` count the rounds that were played before. ``events`` happen at its start. ``playing`` are the
    positions of the arms that play.
    """

    start: int
    end: int
    bandit: Bandit
    playing: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def bandit_of_playing_arms(self) -> Bandit:
        """A bandit of only the arms that play."""
        if len(self.playing) == self.bandit.n_arms:
            return self.bandit
        return _bandit_of_arms(self.bandit, self.playing, self.bandit.support)


@dataclass(frozen=True)
class Timeline:
    """The arms, their schedule of changes, and the delays of their rewards.

    With a population, the arms are its columns: pairs of a segment and an arm.
    """

    bandit: Bandit | Changing
    delays: Delays | None = None
    batch: int = 1
    schedule: tuple[Event, ...] = ()
    population: Population | None = None

    @classmethod
    def from_arguments(
        cls, bandit: Any, delay: Delay = 0, batch: Any = 1, schedule: Any = (), horizon: int = 2**53,
        segments: Any = None,
    ) -> Timeline:  # fmt: skip
        """Make a timeline from the arguments of :func:`simulate`, checked."""
        population = None
        if segments is not None:
            population = Population.from_arguments(bandit, segments)
            bandit = population.columns
            if not _validation.is_list(schedule) or len(schedule):
                raise ValueError("with segments no arms can come and go in a simulation; leave the schedule out.")
        if not isinstance(bandit, Changing):
            check_bandit(bandit)
        batch = _validation.check_whole_number("batch", batch, 1, 2**53)
        events = _parse_events(schedule, bandit.names, horizon, batch)
        return cls(bandit, Delays.from_arguments(delay, bandit.names), batch, events, population)

    @property
    def is_stationary(self) -> bool:
        """Whether arms and their schedule are stationary, so that there is a single period."""
        return isinstance(self.bandit, Bandit) and not self.schedule

    @property
    def has_immediate_rewards(self) -> bool:
        """Whether each reward reaches the policy before its next ``ask``: no delays and no batches."""
        return self.delays is None and self.batch == 1

    @property
    def initial_arms(self) -> tuple[int, ...]:
        """The arms that play at the start, before any event: all but those that are added later."""
        added = {event.arm for event in self.schedule if event.verb == "add"}
        return tuple(i for i, name in enumerate(self.bandit.names) if name not in added)

    @property
    def initial_bandit(self) -> Bandit:
        """The bandit of the arms that play in the first round, with the support of all times."""
        now = self.bandit.at(0) if isinstance(self.bandit, Changing) else self.bandit
        if len(self.initial_arms) == now.n_arms and now.support is self.bandit.support:
            return now
        return _bandit_of_arms(now, self.initial_arms, self.bandit.support)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Delays, batches and schedule where they are not the default, as JSON for the specification of a run."""
        out: dict[str, Any] = {}
        if self.delays is not None:
            out["delay"] = self.delays.spec
        if self.batch > 1:
            out["batch"] = self.batch
        if self.schedule:
            out["schedule"] = [list(event) for event in self.schedule]
        if self.population is not None:
            out["segments"] = self.population.to_dict()
        return out

    def periods(self, horizon: int) -> list[StationaryPeriod]:
        """The periods of the first ``horizon`` rounds, in their order."""
        changing = isinstance(self.bandit, Changing)
        pieces = self.bandit.pieces(horizon, most=MAX_PIECES) if isinstance(self.bandit, Changing) else []
        starts = {piece.start for piece in pieces} | {0, *(e.after for e in self.schedule if e.after < horizon)}
        times, found, piece = [*sorted(starts), horizon], [], 0
        playing = list(self.initial_arms)
        for start, end in itertools.pairwise(times):
            events = tuple(event for event in self.schedule if event.after == start)
            for event in events:
                arm = self.bandit.names.index(event.arm)
                playing = sorted({*playing, arm} if event.verb in ("add", "resume") else {*playing} - {arm})
            while changing and pieces[piece].end <= start:
                piece += 1
            bandit = pieces[piece].bandit if changing else self.bandit
            assert isinstance(bandit, Bandit)
            found.append(StationaryPeriod(start, end, bandit, tuple(playing), events))
        return found


def _bandit_of_arms(bandit: Bandit, arms: Sequence[int], support: Support | None) -> Bandit:
    """Return a bandit of only these arms, with this support."""
    return Bandit([bandit.distributions[i] for i in arms], [bandit.names[i] for i in arms], support=support)


def _parse_events(schedule: Any, names: Sequence[str], horizon: int, batch: int) -> tuple[Event, ...]:
    """Return the checked events in order of time; raise an error if one cannot follow another."""
    if not _validation.is_list(schedule):
        raise TypeError(
            f"schedule must be a list such as [(5000, 'add', 'D'), (8000, 'pause', 'B')], got "
            f"{_validation.short_repr(schedule)}."
        )
    events = []
    for given in schedule:
        if not _validation.is_list(given) or len(given) != 3:
            raise ValueError(
                f"an event of the schedule is a round, a word and an arm, such as (5000, 'add', 'D'); got {given!r}."
            )
        after = _validation.check_whole_number("the round of an event", given[0], 0, horizon - 1)
        verb = _validation.check_choice("event", given[1], POLICY_METHODS)
        events.append(Event(after, verb, _validation.check_choice("arm", given[2], names, kind="arm")))
        if after % batch:
            raise ValueError(
                f"{given[2]} is to {verb} after {after:,} rounds, inside a batch of {batch:,}, whose arms are asked "
                f"for at once; take a multiple of {batch:,}."
            )
    events.sort(key=lambda event: event.after)
    added = {event.arm for event in events if event.verb == "add"}
    state = {name: "away" if name in added else "playing" for name in names}
    allowed = {"add": ("away",), "pause": ("playing",), "resume": ("paused",), "retire": ("playing", "paused")}
    words = {"away": "not there yet", "playing": "playing", "paused": "paused", "retired": "retired for good"}
    becomes = {"add": "playing", "pause": "paused", "resume": "playing", "retire": "retired"}
    for after, verb, arm in events:
        if state[arm] not in allowed[verb]:
            raise ValueError(
                f"{arm} cannot {verb} after {after:,} rounds: it is {words[state[arm]]} then."
                if verb != "add"
                else f"{arm} is added twice; an arm that was paused can resume."
            )
        state[arm] = becomes[verb]
        if "playing" not in state.values():
            raise ValueError(f"after {after:,} rounds no arm would play any more; leave one.")
    if "playing" not in {("away" if name in added else "playing") for name in names}:
        raise ValueError("all arms are added later, so there is none to play at first; leave one out of the schedule.")
    return tuple(events)
