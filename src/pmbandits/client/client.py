"""A service and its experiments, with the verbs of a policy."""

from __future__ import annotations

import json
import math
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, overload
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmbandits import _validation
from pmbandits._files import write_atomically
from pmbandits._validation import FloatArray
from pmbandits.client.transport import ServiceError, Transport
from pmbandits.constraints import Limits
from pmbandits.engine.certainty import Certainty
from pmbandits.engine.policy import Policy
from pmbandits.metrics.distortion import Distortion
from pmbandits.supports import Support

_LOG_CHUNK = 10_000  # events that are fetched at once
_COMPILE_TIMEOUT = 600.0  # seconds: the service compiles what a new experiment needs before it answers


class Given(NamedTuple):
    """An arm to play now, with the ticket for its reward, and the share that the arm had in the mixture.

    With segments it also has the ``segment`` that was asked for, and ``share`` is the share within it.
    """

    id: int
    arm: str
    share: float | None = None
    segment: str | None = None


class Told(NamedTuple):
    """The answer to a tell: how many rewards were new, how many were known already, and how many replaced another."""

    taken: int
    repeated: int
    corrected: int


class Client:
    """A service, made by :func:`connect`. Its experiments have ``ask`` and ``tell``, like policies."""

    def __init__(self, url: str, *, key: str | None, timeout: float, patience: float) -> None:
        self._transport = Transport(url, key, timeout, patience)

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this thread's connection; it is opened again when it is needed."""
        self._transport.close_thread_connection()

    def close_all(self) -> None:
        """Close the connections of all threads, none of which may use the client at this moment."""
        self._transport.close_all_connections()

    def _call(
        self, method: str, path: str, body: Any = None, *, repeatable: bool = True, min_timeout: float = 0.0
    ) -> Any:
        content = None if body is None else body if isinstance(body, bytes) else _encode_json(body)
        answer = self._transport.send_with_retries(
            method, path, content, repeatable=repeatable, min_timeout=min_timeout
        )
        try:
            return json.loads(answer)
        except ValueError:
            raise ServiceError(
                200, f"the answer of {self._transport.url} is not JSON; is a pmbandits service running there?"
            ) from None

    def ready(self) -> bool:
        """Whether the service runs and is ready to answer."""
        try:
            return bool(self._call("GET", "/ready")["status"] == "ready")
        except ServiceError:
            return False

    def experiments(self) -> list[dict[str, Any]]:
        """A description of each experiment that the key may read."""
        found: list[dict[str, Any]] = self._call("GET", "/v1/experiments")["experiments"]
        return found

    def experiment(self, name: str) -> Experiment:
        """An experiment by its name. Nothing is sent."""
        return Experiment(self, _check_experiment_name(name))

    def __getitem__(self, name: str) -> Experiment:
        return self.experiment(name)

    def create(
        self,
        name: str,
        *,
        metric: Distortion | str,
        arms: Sequence[str],
        support: Support,
        segments: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        policy: Policy | str = "vet",
        shares: Any = None,
        seed: int = 0,
        play: str = "policy",
    ) -> Experiment:
        """Begin an experiment. The key must be for ``admin``.

        Parameters
        ----------
        name : the name of the experiment: letters, digits, dots, dashes and underscores.
        metric : what you value: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``.
        arms : the names of the arms.
        support : where rewards lie, such as ``Interval(0, 1)``.
        segments : if you know who is in front of you: the names of the segments, or the arms of each, ``{"new": ["A",
            "B"], "returning": ["B", "C"]}``. Then ``ask`` needs a ``segment``.
        policy : the policy that plays: a recipe such as ``Vet(certify=0.1)``, or a name such as ``"vet"``.
        shares : limits on the shares of arms, such as ``"A >= 10%"``.
        seed : the seed of the policy's own random choices.
        play : ``"policy"`` gives the arms that the policy chooses. With ``"randomised"`` arms are drawn with known
            probabilities that follow its mixture, so that other policies can be evaluated on the log.
        """
        if not isinstance(support, Support):
            raise TypeError(f"support must be a support such as Interval(0, 1), got {_validation.short_repr(support)}.")
        options = {} if isinstance(policy, str) else {k: v for k, v in policy.options.items() if v is not None}
        body = {
            "name": _check_experiment_name(name),
            "metric": str(metric),
            "arms": [str(arm) for arm in arms],
            "support": support.to_dict(),
            "segments": {k: list(arms) for k, arms in segments.items()} if isinstance(segments, Mapping) else segments,
            "policy": policy if isinstance(policy, str) else policy.name,
            "options": options,
            "seed": seed,
            "shares": str(shares) if isinstance(shares, Limits) else shares,
            "play": play,
        }
        self._call("POST", "/v1/experiments", body, repeatable=False, min_timeout=_COMPILE_TIMEOUT)
        return self.experiment(name)

    def upload(self, name: str, policy: Policy | str | Path) -> Experiment:
        """Begin an experiment with a policy, or with the file of one. It goes on exactly where that policy was."""
        if isinstance(policy, Policy):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "policy.pmb"
                policy.save(file)
                content = file.read_bytes()
        else:
            content = Path(policy).read_bytes()
        self._call(
            "POST",
            f"/v1/import?{urlencode({'name': _check_experiment_name(name)})}",
            content,
            repeatable=False,
            min_timeout=_COMPILE_TIMEOUT,
        )
        return self.experiment(name)


class Experiment:
    """One experiment of a service, with the verbs of a policy."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name, self._path = client, name, f"/v1/experiments/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"Experiment({self.name!r} at {self.client._transport.url!r})"

    def _call(self, method: str, what: str, body: Any = None, *, repeatable: bool = True) -> Any:
        return self.client._call(method, self._path + what, body, repeatable=repeatable)

    # ---- ask and tell ------------------------------------------------------------------------------------
    @overload
    def ask(
        self, *, segment: str | None = None, among: Sequence[str] | None = None, unit: str | None = None,
        key: str | None = None,
    ) -> Given: ...  # fmt: skip
    @overload
    def ask(
        self, n: int, *, segment: str | Sequence[str] | None = None, among: Sequence[str] | None = None,
        unit: str | None = None, key: str | None = None,
    ) -> list[Given]: ...  # fmt: skip
    @overload
    def ask(
        self, *, segment: list[str] | tuple[str, ...], among: Sequence[str] | None = None, key: str | None = None
    ) -> list[Given]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        segment: str | Sequence[str] | None = None,
        among: Sequence[str] | None = None,
        unit: str | None = None,
        key: str | None = None,
    ) -> Given | list[Given]:
        """The arm to play now, with the ticket for its reward; or a list of the next ``n``.

        Parameters
        ----------
        n : how many arms to ask for at once; without it, one.
        segment : the segment of the person in front of you, if there are segments. A list is several people, in the
            order in which they come; then the answer is a list, too.
        among : the arms that are available now, if not all are.
        unit : who or what is served, as a text. The same unit gets the same arm again.
        key : a text of your own, if you may have to send this ask again from another process. By default it is a new
            one.
        """
        body: dict[str, Any] = {"key": uuid.uuid4().hex if key is None else key}
        if n is not None:
            body["n"] = _validation.check_whole_number("n", n, 1)
        if among is not None:
            body["among"] = [among] if isinstance(among, str) else list(among)
        if unit is not None:
            body["unit"] = unit
        if segment is not None:
            body["segment"] = segment if isinstance(segment, str) else [str(one) for one in segment]
        found = self._call("POST", "/ask", body)
        people = body.get("segment")
        if "ticket" in found:
            return Given(found["ticket"], found["arm"], found.get("share"), people)
        shares = found.get("shares") or [None] * len(found["arms"])
        people = people if isinstance(people, list) else [people] * len(found["arms"])
        return [Given(*one) for one in zip(found["tickets"], found["arms"], shares, people, strict=True)]

    def tell(
        self,
        ticket: int | Given | Sequence[int | Given] | None = None,
        reward: float | ArrayLike | None = None,
        *,
        arm: str | Sequence[str] | None = None,
        segment: str | Sequence[str] | None = None,
        correct: bool = False,
        key: str | None = None,
    ) -> Told:
        """Tell the reward of a ticket, or rewards of several. A reward that is sent twice counts once.

        Parameters
        ----------
        ticket : the ticket or its number, or a list of them.
        reward : its reward, or a list of as many.
        arm : the arm, instead of a ticket, for rewards that were not asked for (older data). They inform, but do not
            count as pulls.
        segment : the segment of a reward by ``arm``, for an experiment with segments; or a list with one for each. A
            ticket knows it.
        correct : whether to replace a reward that was told before.
        key : for rewards by ``arm``, and for corrections: a text of your own, if you may have to send it again from
            another process.
        """
        if reward is None or (ticket is None) == (arm is None):
            raise ValueError("give a reward and its ticket; if it has no ticket, give a reward and its arm.")
        body: dict[str, Any] = {}
        many = _validation.is_list(reward)
        if many:
            body["rewards"] = [_check_reward(one) for one in np.asarray(reward).tolist()]
        else:
            body["reward"] = _check_reward(reward)
        if arm is not None or correct:  # a reward and its ticket are known again without
            body["key"] = uuid.uuid4().hex if key is None else key
        if arm is not None:
            if many:
                body["arms"] = [arm] * len(body["rewards"]) if isinstance(arm, str) else list(arm)
            else:
                body["arm"] = arm
        elif many:
            if not _validation.is_list(ticket):
                raise ValueError(f"{len(body['rewards'])} rewards were given with one ticket; give a ticket for each.")
            body["tickets"] = [_ticket_number(one) for one in ticket]  # type: ignore[union-attr]
        else:
            body["ticket"] = _ticket_number(ticket)
        if segment is not None:
            body["segment"] = segment if isinstance(segment, str) else [str(one) for one in segment]
        if correct:
            body["correct"] = True
        return Told(**self._call("POST", "/tell", body))

    def expire(self, *, older_than: timedelta, reward: float) -> list[int]:
        """Give a default reward to all tickets that have been open for too long, and return their numbers.

        Parameters
        ----------
        older_than : how long is too long.
        reward : the reward that they get, such as 0.0 for customers who never came back. If the true reward comes
            later, it is refused like any second reward; ``tell(..., correct=True)`` puts it in place.
        """
        if not isinstance(older_than, timedelta):
            raise TypeError(
                "older_than is a length of time, because a service counts no rounds for its tickets: "
                f"give timedelta(days=1), not {_validation.short_repr(older_than)}."
            )
        body = {
            "seconds": _validation.check_within("older_than", older_than.total_seconds(), 0.0),
            "reward": _check_reward(reward),
        }
        gone: list[int] = []
        more = True
        while more:
            found = self._call("POST", "/expire", body)
            gone += found["tickets"]
            more = found["more"]
        return gone

    # ---- reading -----------------------------------------------------------------------------------------
    def state(self, regret: float | str | None = None) -> dict[str, Any]:
        """Everything that is known now: shares, estimates, certainty, reasons, and with ``regret`` a forecast."""
        query = "" if regret is None else "?" + urlencode({"regret": regret})
        found: dict[str, Any] = self._call("GET", f"/state{query}")
        return found

    @property
    def info(self) -> dict[str, Any]:
        """What the experiment is: metric, arms, support, policy, and its status."""
        found: dict[str, Any] = self._call("GET", "")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arms that there ever were, in their order."""
        return tuple(self.info["arms"])

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the segments; none if the experiment was begun without ``segments``."""
        return tuple(self.info["segments"] or ())

    @property
    def mixture(self) -> FloatArray:
        """The current estimate of the best mixing weights; with segments a row for each, which adds up to 1."""
        return np.asarray(self._numbers_of_arms("wanted"))

    @property
    def pulls(self) -> NDArray[np.int64]:
        """How often each arm was asked for; with segments a row for each segment."""
        return self._numbers_of_arms("pulls").astype(np.int64)

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """How many people of each segment have come."""
        return np.array([one["arrivals"] for one in self.state()["segments"] or ()], dtype=np.int64)

    def _numbers_of_arms(self, what: str) -> NDArray[Any]:
        found = self.state()
        if found["segments"] is None:
            return np.array([arm[what] for arm in found["arms"]])
        names, segments = self.names, [one["segment"] for one in found["segments"]]
        out = np.zeros((len(segments), len(names)))
        for arm in found["arms"]:
            out[segments.index(arm["segment"]), names.index(arm["arm"])] = arm[what]
        return out

    @property
    def t(self) -> int:
        """How many pulls were asked for so far."""
        return int(self.state()["t"])

    def explain(self, regret: float | str | None = None) -> str:
        """Why the next arm is the next one; for a ``regret`` such as "2%" also when that is certain."""
        found = self.state(regret)
        return str(found["explanation"]) + (f" {found['forecast']['sentence']}" if found["forecast"] else "")

    def certainty(self) -> Certainty:
        """By how much the mixture can fall short of the best one at most, and with which probability."""
        found = self.state()["certainty"]
        if found is None:
            raise ServiceError(200, "the policy of this experiment keeps no confidence sets, so nothing is certain.")
        numbers = {name: found.get(name) for name in Certainty._fields if name not in ("meaning", "frequencies")}
        # JSON has no infinite numbers, and none that are not known: both come as null.
        unknown = {"lower": -math.inf, "probability": math.nan}
        known = {k: unknown.get(k, math.inf) if v is None else float(v) for k, v in numbers.items()}
        return Certainty(**known, meaning=str(found["meaning"]), frequencies=tuple(found.get("frequencies") or ()))

    def history(self, after: int = 0) -> list[dict[str, Any]]:
        """How the experiment went: shares wanted and played, and how sure the mixture was, over time."""
        found: list[dict[str, Any]] = self._call(
            "GET", f"/history?after={_validation.check_whole_number('after', after, 0)}"
        )["points"]
        return found

    def log(self, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """Every event, the oldest first: all of them, or at most ``limit`` after the event ``after``.

        Each is a dictionary with ``seq`` (its number), ``time``, ``kind``, ``ticket``, ``arm``, ``share`` (of an ask),
        ``reward`` (of a tell) and ``data``. Long logs are fetched in pieces.
        """
        after, left = (
            _validation.check_whole_number("after", after, 0),
            None if limit is None else _validation.check_whole_number("limit", limit, 1),
        )
        out: list[dict[str, Any]] = []
        while left is None or len(out) < left:
            n = _LOG_CHUNK if left is None else min(_LOG_CHUNK, left - len(out))
            found: list[dict[str, Any]] = self._call("GET", f"/log?after={after}&limit={n}")["events"]
            out += found
            if len(found) < n:
                break
            after = found[-1]["seq"]
        return out

    def save(self, path: str | Path) -> None:
        """Write the policy to a file that ``pmbandits.load`` reads. It goes on exactly where this one is."""
        content = self.client._transport.send_with_retries("GET", f"{self._path}/export", None, repeatable=True)
        write_atomically(Path(path), lambda file: file.write(content))

    # ---- control -----------------------------------------------------------------------------------------
    def add_arm(self, arm: str) -> None:
        """Let a new arm play from now on. The key must be for ``admin``, here and below."""
        self._change_arm("add", arm)

    def pause(self, arm: str | None = None) -> None:
        """Let an arm pause. Without an arm, the whole experiment pauses: it gives no arms, but takes rewards."""
        self._set_status("paused") if arm is None else self._change_arm("pause", arm)

    def resume(self, arm: str | None = None) -> None:
        """Let an arm, or the whole experiment, go on."""
        self._set_status("running") if arm is None else self._change_arm("resume", arm)

    def retire(self, arm: str) -> None:
        """Take an arm out for good. What is known of it stays known."""
        self._change_arm("retire", arm)

    def archive(self) -> None:
        """End the experiment: it gives no arms and takes no rewards, but can be read."""
        self._set_status("archived")

    def limit(self, shares: Any) -> None:
        """Set new limits on the shares of arms, such as ``"A >= 10%"``; ``None`` removes all limits."""
        self._call("PUT", "/limits", {"shares": str(shares) if isinstance(shares, Limits) else shares})

    def _change_arm(self, do: str, arm: str) -> None:
        self._call("POST", "/arms", {"do": do, "arm": arm}, repeatable=False)

    def _set_status(self, status: str) -> None:
        self._call("POST", "/status", {"status": status})


def _encode_json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"this cannot be sent as JSON ({error}); give plain numbers, texts and lists.") from None


def _check_experiment_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError(f"an experiment is given by its name, got {_validation.short_repr(name)}.")
    return name


def _ticket_number(ticket: Any) -> int:
    return _validation.check_whole_number("ticket", ticket.id if isinstance(ticket, Given) else ticket, 1)


def _check_reward(reward: Any) -> float:
    return float(reward) if isinstance(reward, (bool, np.bool_)) else _validation.check_number("reward", reward)
