"""Options of a policy, each declared once in its class: name, type, default, and what is allowed.

A class attribute ``horizon: int = option(check=whole(2))`` is an option. From these lines come the signature of the
class (also the one that type checkers see), the checks, and the sentences for missing and unknown options.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from pmbandits import _validation
from pmbandits.confidence.sets import NAMES

MAX_ARMS = 1_000_000
Check = Callable[[str, Any], Any]  # given the name and the value, returns the value to keep or raises
_REQUIRED: Any = inspect.Parameter.empty


class OptionValues(dict[str, Any]):
    """The options of a policy by name; a name that it does not have is answered with those that it has."""

    def __missing__(self, key: Any) -> Any:
        raise _validation.MissingKey(_validation.unknown_name_message("there is no option", key, list(self)))


class Option:
    """One option: its default (``REQUIRED`` if there is none), its check, and the name under which it is given."""

    def __init__(self, default: Any, check: Check, alias: str | None, kw_only: bool) -> None:
        self.default, self.check, self.alias, self.kw_only = default, check, alias, kw_only
        self.annotation: Any = Any


def anything(name: str, value: Any) -> Any:
    """The check that allows every value."""
    del name
    return value


def option(*, default: Any = _REQUIRED, check: Check = anything, alias: str | None = None, kw_only: bool = True) -> Any:
    """Declare an option. Without a default it must be given. With the default ``None``, ``None`` is allowed.

    Parameters
    ----------
    default : its value if it is not given.
    check : a function that checks it: it gets the name and the value, and returns the value to keep or raises an error.
    alias : the name under which it is given, if that is not the name of the attribute.
    kw_only : whether it must be given by name, as all options but the metric must.
    """
    return Option(default, check, alias, kw_only)


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class DeclaredOptions:
    """A class whose options are declared with :func:`option`; see there."""

    _declared: ClassVar[dict[str, Option]] = {}
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = {}
        for key, value in [(key, value) for key, value in vars(cls).items() if isinstance(value, Option)]:
            delattr(cls, key)
            value.annotation = inspect.get_annotations(cls).get(key, Any)
            declared[value.alias or key] = value
        cls._declared = {**declared, **{k: v for k, v in cls._declared.items() if k not in declared}}
        by_name, anywhere = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [
            inspect.Parameter(name, by_name if o.kw_only else anywhere, default=o.default, annotation=o.annotation)
            for name, o in cls._declared.items()
        ]
        cls.__signature__ = inspect.Signature(sorted(parameters, key=lambda p: p.kind))

    def _read_options(self, positional: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        """Every option with its value, checked; each mistake is one sentence that names the option."""
        name, declared = type(self).__name__, self._declared
        leading = [key for key, o in declared.items() if not o.kw_only]
        if len(positional) > len(leading):
            raise TypeError(
                f"{name} takes {' and '.join(leading)} by position and everything else by name, "
                f"but {len(positional)} values were given by position."
            )
        given = {**dict(zip(leading, positional, strict=False)), **given}
        for key in given:
            if key not in declared:
                raise TypeError(_validation.unknown_name_message(f"{name} has no option", key, list(declared)))
        out = OptionValues()
        for key, o in declared.items():
            value = given.get(key, o.default)
            if value is _REQUIRED:
                raise TypeError(f"{name} needs the option {key}: give {key}=...")
            out[key] = None if value is None and o.default is None else o.check(key, value)
        return out


# ---- checks that options share --------------------------------------------------------------------------


def whole(lo: int, hi: int = 2**53) -> Check:
    """A check for a whole number from ``lo`` to ``hi``."""
    return lambda name, value: _validation.check_whole_number(name, value, lo, hi)


def within(lo: float = float("-inf"), hi: float = float("inf"), *, hint: str = "") -> Check:
    """A check for a number from ``lo`` to ``hi``."""
    return lambda name, value: _validation.check_within(name, value, lo, hi, hint=hint)


def above(lo: float, *, hint: str = "") -> Check:
    """A check for a number greater than ``lo``."""
    return lambda name, value: _validation.check_within(name, value, lo, open_lo=True, hint=hint)


def one_of(*words: str) -> Check:
    """A check for one of a few words."""
    return lambda name, value: _validation.check_choice(name, value, words)


def share(name: str, value: Any) -> float:
    """Check that a value is a number greater than 0, and at most 1."""
    return _validation.check_within(name, value, 0.0, 1.0, open_lo=True)


def fraction_below_1(name: str, value: Any) -> float:
    """Check that a value is a number of at least 0, and below 1."""
    return _validation.check_within(name, value, 0.0, 1.0, open_hi=True)


def probability(name: str, value: Any) -> float:
    """Check that a value is a number between 0 and 1, neither included."""
    return _validation.check_within(name, value, 0.0, 1.0, open_lo=True, open_hi=True)


def check_confidence(name: str, value: Any) -> Any:
    """Check that a value is the name of a confidence set, or an object."""
    return _validation.check_choice(name, value, NAMES) if isinstance(value, str) else value


check_search = one_of("auto", "grid", "continuous")


# How rewards are kept, with the usual size: cells of equal width, and k of a sketch.
DEFAULT_SIZES = {"exact": 0, "binned": 1024, "sketch": 1024}
MAX_KEPT_REWARDS = 1 << 30  # rewards of a window, and 1/(1 − γ) of a discount


def parse_estimates(estimates: str) -> tuple[str, float]:
    """The name and the size in ``"binned"``, ``"binned:4096"`` and the like; the size of a discount is γ."""
    name, colon, size = estimates.partition(":") if isinstance(estimates, str) else ("", "", "")
    if name == "window" and size.isdecimal() and len(size) <= 10 and 8 <= int(size) <= MAX_KEPT_REWARDS:
        return name, int(size)
    if (
        name == "discount"
        and re.fullmatch(r"0?\.[0-9]{1,17}", size)
        and 8.0 <= 1.0 / (1.0 - float(size)) <= MAX_KEPT_REWARDS
    ):
        return name, float(size)
    if name in ("window", "discount"):
        example = f"a number of rewards from 8 to {MAX_KEPT_REWARDS}, such as 'window:10000'"
        if name == "discount":
            example = "a number from 0.875 to below 1 (by 1e-9 or more), such as 'discount:0.999'"
        raise ValueError(f"estimates={name!r} needs {example}; got {_validation.short_repr(estimates)}.")
    sized = name != "exact" and size.isdecimal() and len(size) <= 7 and 8 <= int(size) <= 1 << 20
    if name not in DEFAULT_SIZES or (colon and not sized):
        raise ValueError(
            f"estimates must be 'exact', 'binned' or 'sketch', or one of these with a size from 8 to {1 << 20} such as "
            f"'binned:4096', or, to forget, 'window:10000' or 'discount:0.999'; "
            f"got {_validation.short_repr(estimates)}."
        )
    return name, int(size) if size else DEFAULT_SIZES[name]


def known_estimates(name: str, value: str) -> str:
    """Check that a value says how rewards are kept, such as ``"exact"`` or ``"binned:4096"``."""
    del name
    parse_estimates(value)
    return value


DEFAULT_FALSE_ALARM = 0.01  # the usual probability of a false alarm


def parse_detect(detect: str) -> tuple[str, float]:
    """What follows on a change, and the level, in ``"warn"``, ``"restart:0.001"`` and the like."""
    name, colon, text = detect.partition(":") if isinstance(detect, str) else ("", "", "")
    level = float(text) if re.fullmatch(r"0?\.[0-9]{1,17}", text) else 0.0
    if name not in ("warn", "restart") or (colon and not level > 0.0):
        raise ValueError(
            "detect must be 'warn' or 'restart', or one of these with the probability of a false alarm, between 0 and "
            f"1, such as 'restart:0.001'; got {_validation.short_repr(detect)}."
        )
    return name, level if colon else DEFAULT_FALSE_ALARM


def check_detect(name: str, value: str) -> str:
    """Check that a value says what follows on a change, such as ``"warn"`` or ``"restart:0.001"``."""
    del name
    parse_detect(value)
    return value
