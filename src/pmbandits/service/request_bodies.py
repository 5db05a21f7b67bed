"""The bodies of requests other than ask and tell, as pydantic checks them and OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from pmbandits import _validation


def require_visible(name: str) -> str:
    """The name, if every character of it can be seen; else a ValueError."""
    shown = _validation.escape_invisible_characters(name)
    if shown != name:
        raise ValueError(f'"{shown}" has control or invisible characters in it; take them out.')
    return name


ArmName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(require_visible)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _require_object(given: Any) -> Any:
    if not isinstance(given, dict):
        raise ValueError(
            f'must be an object such as {{"kind": "interval", "lo": 0, "hi": 1}}, got {_validation.short_repr(given)}'
        )
    return given


class NewExperiment(_Body):
    """An experiment: what is valued, what can be played, and which policy learns."""

    name: Annotated[str, Field(description="Letters, digits, dots, dashes and underscores.", max_length=100)]
    metric: Annotated[
        str,
        Field(
            max_length=2000,
            description="What is valued: mean, gini, upper_cvar(0.9), lower_cvar(0.1), or a sum of them.",
        ),
    ]
    arms: Annotated[list[ArmName], Field(min_length=1, max_length=10_000, description="The names of the arms.")]
    support: Annotated[
        dict[str, Any],
        BeforeValidator(_require_object),
        Field(
            description='Where rewards can lie. It cannot be changed later: {"kind": "interval", "lo": 0, "hi": 100}, '
            '{"kind": "binary"} for 0 and 1, {"kind": "finite", "atoms": [0, 1, 5]} for a few values.'
        ),
    ]
    segments: Annotated[
        list[ArmName] | dict[ArmName, list[ArmName]] | None,
        Field(
            min_length=1,
            max_length=1_000,
            description='If you know who is in front of you, the names of the segments: ["new", "returning"]. Or the '
            'arms of each: {"new": ["A", "B"], "returning": ["B", "C"]}.',
        ),
    ] = None
    policy: Annotated[str, Field(max_length=100, description="The policy that plays, such as vet or track.")] = "vet"
    options: Annotated[dict[str, Any], Field(description='Options of the policy, such as {"detect": "restart"}.')] = {}
    seed: Annotated[int, Field(ge=0, le=2**53, description="The seed of the policy's own random choices.")] = 0
    shares: Annotated[Any, Field(description='Limits on shares, such as "A >= 10%; B + C <= 0.3".')] = None
    play: Annotated[
        Literal["policy", "randomised"],
        Field(
            description="policy: each ask gets the arm that the policy chooses. randomised: arms are drawn with "
            "probabilities that follow its mixture, so that other policies can be evaluated on the log."
        ),
    ] = "policy"


class ArmAct(_Body):
    """An arm, and what to do with it."""

    do: Literal["add", "pause", "resume", "retire"]
    arm: ArmName


class NewLimits(_Body):
    """Limits on the shares of arms."""

    shares: Annotated[Any, Field(description='Text such as "A >= 10%", or {"A": [0.1, 1.0]}; null removes all limits.')]


class Expire(_Body):
    """A default reward for tickets whose own reward never came."""

    seconds: Annotated[float, Field(ge=0, le=1e11, description="Tickets that are older than this and have no reward.")]
    reward: Annotated[float, Field(description="The reward that each of them gets.", examples=[0.0])]


class NewKey(_Body):
    """A key: what it allows, in which experiments, and for how long."""

    scopes: Annotated[list[Literal["read", "ask", "tell", "admin"]], Field(min_length=1)]
    experiments: Annotated[
        list[Annotated[str, Field(max_length=100)]] | None, Field(min_length=1, description="Null for all.")
    ] = None
    label: Annotated[
        str, Field(max_length=200, description="A note on what it is for."), AfterValidator(require_visible)
    ] = ""
    days: Annotated[float | None, Field(gt=0, le=36_500, description="After so many days it expires.")] = None


class Rotation(_Body):
    """Which key is replaced, and for how long it stays good."""

    id: Annotated[str, Field(max_length=100, description="The twelve characters that the list of keys shows.")]
    grace_days: Annotated[float, Field(ge=0, le=3650)] = 1.0


class Retention(_Body):
    """How long it is kept which arm a unit was given, and what the keys of requests led to."""

    seconds: Annotated[float, Field(ge=0, le=1e11, description="What is older than this is deleted.")]


class NewStatus(_Body):
    """Whether an experiment runs, pauses, or is archived."""

    status: Literal["running", "paused", "archived"]
