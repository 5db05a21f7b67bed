"""A simulation as a file: TOML in, checked arguments of ``simulate`` out."""

from __future__ import annotations

import re
import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pmbandits import _validation
from pmbandits._extras import import_optional
from pmbandits.arm_parser import parse_distribution, read_samples
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.engine.policy import Policy
from pmbandits.engine.registry import REGISTRY, policy_by_name
from pmbandits.metrics.registry import metric as find_metric
from pmbandits.simulation.policy_specs import default_policy_labels
from pmbandits.simulation.timeline import Timeline
from pmbandits.supports import Support

import_optional("pydantic", "simulations from files")
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator  # noqa: E402

EXAMPLE = """\
metric = "gini"                 # a name, or a sum such as "0.7*mean + 0.3*upper_cvar(0.9)"
horizon = [5_000, 20_000]       # one number of rounds, or several
trials = 100
seed = 0
# delay = 50                    # rewards come so many rounds late; or "poisson(50)". batch = 100 asks for 100 at once
# shares = "arm 0 >= 10%"       # limits on the shares, which all policies keep; also cost = {...} and budget = ...

[bandit]
bernoulli = [0.4, 0.9]          # or arms = ["norm(1,1)", "beta(2,3)"], or samples = "rewards.csv"

[[policies]]
policy = "pmucb"                # the horizon is filled in
epsilon = 0.0625

[[policies]]
policy = "cirt"
label = "CIRT, fine"
epsilon = 0.03

[[policies]]
policy = "uniform"
"""


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


PositiveInt = Annotated[int, Field(ge=1)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    def keys_that_are_given(self, *names: str) -> list[str]:
        """Which of these keys are given."""
        return [name for name in names if getattr(self, name) is not None]

    def only_given_key(self, *names: str) -> str:
        """The one of these keys that is given; raises if there are several, or none."""
        given = self.keys_that_are_given(*names)
        if len(given) != 1:
            all_names = f"{', '.join(names[:-1])} and {names[-1]}"
            raise ValueError(f"give exactly one of {all_names}; found {' and '.join(given) or 'none of them'}")
        return given[0]


class BanditSection(_StrictModel):
    """The arms: means of Bernoulli arms, or distributions of scipy.stats, or a file of logged rewards."""

    bernoulli: list[float] | None = None
    arms: list[str] | None = None
    samples: str | None = None
    names: list[str] | None = None
    support: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> BanditSection:
        self.only_given_key("bernoulli", "arms", "samples")
        return self

    def make_bandit(self, folder: Path) -> Bandit:
        """The arms; a file of rewards is looked for beside the specification."""
        support = None if self.support is None else Support.from_dict(self.support)
        if self.bernoulli is not None:
            if support is not None:
                raise ValueError("bandit.support: Bernoulli arms are Binary; leave support out.")
            return Bandit.bernoulli(self.bernoulli, self.names)
        if self.samples is not None:
            logged = read_samples(folder / self.samples)
            return Bandit(list(logged.distributions), self.names or logged.names, support=support or logged.support)
        assert self.arms is not None
        names = self.names or [
            text if self.arms.count(text) == 1 else f"{text} #{k + 1}" for k, text in enumerate(self.arms)
        ]
        return Bandit([parse_distribution(text) for text in self.arms], names, support=support)


class StepSection(BanditSection):
    """A step of a changing bandit: the arms from round ``after`` on."""

    after: Annotated[int, Field(ge=1)]


class WorldSection(_StrictModel):
    """How the arms of ``[bandit]`` change: by steps, by a drift, or with the seasons."""

    steps: list[StepSection] | None = None
    repeat: PositiveInt | None = None
    drift: BanditSection | None = None
    season: BanditSection | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    end: PositiveInt | None = None
    period: PositiveInt | None = None
    every: PositiveInt | None = None
    by: str | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> WorldSection:
        kind = self.only_given_key("steps", "drift", "season")
        needs = {"steps": (), "drift": ("start", "end"), "season": ("period",)}[kind]
        allowed = {"steps": ("repeat",), "drift": ("start", "end", "every", "by"), "season": ("period", "every", "by")}
        given = self.keys_that_are_given("repeat", "start", "end", "period", "every", "by")
        missing = [name for name in needs if name not in given]
        if missing:
            raise ValueError(f"{kind} needs {' and '.join(missing)}")
        strange = sorted(set(given) - set(allowed[kind]))
        if strange:
            raise ValueError(f"{kind} does not take {' and '.join(strange)}")
        return self

    def make_changing_bandit(self, first: Bandit, folder: Path) -> Changing:
        """Build the changing bandit that begins with these arms; the later arms have the same names."""

        def arms(part: BanditSection) -> Bandit:
            return part.model_copy(update={"names": part.names or list(first.names)}).make_bandit(folder)

        if self.steps is not None:
            return Changing.steps([(0, first), *((p.after, arms(p)) for p in self.steps)], repeat=self.repeat)
        how: dict[str, Any] = {"every": self.every, "by": self.by or "parameters"}
        if self.drift is not None:
            assert self.start is not None and self.end is not None
            return Changing.drift(first, arms(self.drift), self.start, self.end, **how)
        assert self.season is not None and self.period is not None
        return Changing.season(first, arms(self.season), self.period, **how)


class SimulationFile(_StrictModel):
    """Schema of the TOML file that ``pmbandits run`` reads."""

    metric: str
    horizon: Annotated[list[PositiveInt], BeforeValidator(_as_list), Field(min_length=1)]
    trials: PositiveInt = 100
    seed: Annotated[int, Field(ge=0)] = 0
    checkpoints: PositiveInt | list[PositiveInt] | None = None
    shares: str | list[str] | dict[str, list[float]] | None = None
    cost: dict[str, float] | None = None
    budget: float | None = None
    bandit: BanditSection
    world: WorldSection | None = None
    delay: Annotated[int, Field(ge=0)] | str | dict[str, int | str] = 0
    batch: PositiveInt = 1
    schedule: list[list[int | str]] = []
    policies: Annotated[list[dict[str, Any]], Field(min_length=1)]


def read_spec(path: Path) -> dict[str, Any]:
    """The arguments of :func:`simulate` from a TOML file; every complaint names the file and the key or the line."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}; write one like this:\n\n{EXAMPLE}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text in UTF-8.") from None
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also whole numbers of thousands of digits
        raise ValueError(
            f"{path.name} is not TOML: {_validation.escape_control_characters(str(error))[:300]}."
        ) from None
    try:
        spec = SimulationFile.model_validate(data)
    except ValidationError as error:
        raise ValueError(_first_validation_error_message(path, text, error)) from None
    at, world = partial(_errors_with_file_location, path, text), spec.world
    bandit = at("bandit", lambda: spec.bandit.make_bandit(path.parent))
    at("schedule", lambda: Timeline.from_arguments(bandit, schedule=spec.schedule))  # errors name the file
    plain = ("horizon", "trials", "seed", "checkpoints", "batch", "schedule", "shares", "cost", "budget")
    return {
        "bandit": bandit if world is None else at("world", lambda: world.make_changing_bandit(bandit, path.parent)),
        "metric": at("metric", lambda: find_metric(spec.metric)),
        "policies": _make_policies(path, text, spec),
        "delay": at("delay", lambda: _parse_delay(spec.delay)),
        **{name: getattr(spec, name) for name in plain},
    }


def _parse_delay(given: Any) -> Any:
    """Parse a delay: a number is kept, text such as ``poisson(20)`` becomes a scipy.stats distribution."""
    if isinstance(given, dict):
        return {name: _parse_delay(one) for name, one in given.items()}
    return parse_distribution(given) if isinstance(given, str) else given


def _make_policies(path: Path, text: str, spec: SimulationFile) -> dict[str, Policy]:
    recipes, given_labels = [], []
    for k, given in enumerate(spec.policies):
        where = f"policies[{k}]"
        options = dict(given)
        if "policy" not in options:
            raise ValueError(f'{path.name}, {where}: it needs policy = "...", one of {", ".join(sorted(REGISTRY))}.')
        label = options.pop("label", None)
        recipe = _errors_with_file_location(path, text, where, lambda o=options: _make_policy(o, max(spec.horizon)))
        recipes.append(recipe)
        given_labels.append(None if label is None else str(label))
    named = [given or made for given, made in zip(given_labels, default_policy_labels(recipes), strict=True)]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path.name}: two policies are labelled {twice!r}; give each its own label.")
    return dict(zip(named, recipes, strict=True))


def _make_policy(options: dict[str, Any], horizon: int) -> Policy:
    name = options.pop("policy")
    if "metric" in options:
        options["metric"] = find_metric(options["metric"])
    return policy_by_name(name, horizon, options)


def _errors_with_file_location(path: Path, text: str, key: str, make: Any) -> Any:
    try:
        return make()
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{path.name}, {_key_location(text, key)}: {error}") from None


def _first_validation_error_message(path: Path, text: str, error: ValidationError) -> str:
    """Format the first validation error with its key and line, and the number of further ones."""
    found = error.errors()
    first = found[0]
    key = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("list[", "function", "constrained", "int"))
    )
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        parts: dict[Any, type[_StrictModel]] = {"bandit": BanditSection, "world": WorldSection}
        near = parts.get(first["loc"][0], SimulationFile) if len(first["loc"]) > 1 else SimulationFile
        message = f"this key is not known; known are {', '.join(near.model_fields)}"
    elif first["type"] == "missing":
        message = "this key is missing"
    more = f" ({len(found) - 1} more like this.)" if len(found) > 1 else ""
    return f"{path.name}, {_key_location(text, key)}: {message}; got {_validation.short_repr(first['input'])}.{more}"


def _key_location(text: str, key: str) -> str:
    """Return the key with its line number in the file, where it can be found."""
    words = [part for part in key.split(".") if part and not part.isdigit()]
    if not words:
        return "the whole file"
    leaf = words[-1]
    number = re.fullmatch(r"policies\[(\d+)\]", key)
    lines = text.splitlines()
    if number is not None:
        heads = [n for n, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*policies\s*\]\]", line)]
        place = int(number[1])
        return f"{key} (line {heads[place]})" if place < len(heads) else key
    pattern = re.compile(rf"\s*(\[+\s*)?{re.escape(leaf)}\b\s*[=\]]")
    for n, line in enumerate(lines, 1):
        if pattern.match(line):
            return f"{key} (line {n})"
    return key
