"""Validation of what users give, in one place: each failure is one sentence that names the way out."""

from __future__ import annotations

import difflib
import functools
import inspect
import numbers as numeric_types
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Weights that come from decimal fractions (0.1 three times and 0.7) miss 1 by rounding only.
WEIGHT_TOLERANCE = 1e-9

# What other libraries call it.
_SYNONYMS = {
    "random_state": "seed",
    "random_seed": "seed",
    "rng": "seed",
    "n_trials": "trials",
    "n_workers": "n_jobs",
    "T": "horizon",
    "k": "n_arms",
}
P = ParamSpec("P")
R = TypeVar("R")


class MissingKey(KeyError):
    """A KeyError whose message is a sentence, and is shown as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


def is_number(value: Any) -> bool:
    """Whether it is one real number: no text, no date, no truth value, not complex, and not masked."""
    if isinstance(value, (bool, np.timedelta64)) or value is np.ma.masked:
        return False
    return isinstance(value, (numeric_types.Real, Decimal))


def check_number(name: str, value: Any) -> float:
    """A finite real number, or an error that names the parameter."""
    if not is_number(value):
        raise TypeError(f"{name} must be a number, got {short_repr(value)}.")
    try:
        result = float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit into a number of 64 bits, got {short_repr(value)}.") from None
    if not np.isfinite(result):
        raise ValueError(f"{name} must be a finite number, got {short_repr(value)}.")
    return result


def check_within(
    name: str,
    value: Any,
    lo: float = -np.inf,
    hi: float = np.inf,
    *,
    open_lo: bool = False,
    open_hi: bool = False,
    hint: str = "",
) -> float:
    """A number in an interval; the message prints the interval as a reader would write it."""
    result = check_number(name, value)
    low_ok = result > lo if open_lo else result >= lo
    high_ok = result < hi if open_hi else result <= hi
    if not (low_ok and high_ok):
        left = "(" if open_lo or lo == -np.inf else "["
        right = ")" if open_hi or hi == np.inf else "]"
        raise ValueError(
            f"{name} must lie in {left}{lo:g}, {hi:g}{right}, got {short_repr(value)}.{' ' + hint if hint else ''}"
        )
    return result


def check_whole_number(name: str, value: Any, lo: int, hi: int | None = None) -> int:
    """A whole number with a lower and maybe an upper limit."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)  # 1e3 is a whole number, too
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {short_repr(value)}.")
    if value < lo or (hi is not None and value > hi):
        limit = f"at least {lo}" if hi is None else f"between {lo} and {hi}"
        raise ValueError(f"{name} must be {limit}, got {short_repr(value)}.")
    return int(value)


def check_seed(name: str, value: Any, most: int = 2**53) -> int:
    """The seed of random numbers; ``None`` is a new one, different in every call."""
    return secrets.randbelow(most) if value is None else check_whole_number(name, value, 0, most)


def join_with_and(words: Sequence[str]) -> str:
    """Words as they stand in a sentence: ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def suggest_nearest_argument_name(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function answer an argument that it does not have with the nearest name that it has."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        for key in named:
            if key not in known:
                raise TypeError(unknown_name_message(f"{function.__name__} has no argument", key, known))
        return function(*given, **named)

    return call


def check_finite_width(name: str, lo: float, hi: float) -> None:
    """Refuse a range whose width is no number of 64 bits: widths are what every utility is made of."""
    if np.isfinite(lo) and np.isfinite(hi) and 0.5 * hi - 0.5 * lo > 0.49 * np.finfo(np.float64).max:
        raise ValueError(
            f"{name} reaches from {lo:g} to {hi:g}, which is too wide for numbers of 64 bits; "
            "measure rewards in a larger unit."
        )


def is_list(value: Any) -> bool:
    """Whether it is several values: a list or an array of them, also one of lists of different lengths."""
    return isinstance(value, (list, tuple, range)) or bool(np.ndim(value))


def to_float_array(name: str, values: Any, *, what: str = "an array of numbers") -> FloatArray:
    """Numbers of any shape as numbers of 64 bits; text, dates, complex and masked ones are refused, not converted."""
    if isinstance(values, np.ma.MaskedArray):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(values)))
        if hidden:
            raise ValueError(
                f"{name} has {hidden} masked value{'s' if hidden > 1 else ''}; take out what is masked, for example "
                "with .compressed(), or fill it."
            )
        values = values.data
    if isinstance(values, (list, tuple)) and any(value is np.ma.masked for value in values):
        raise ValueError(f"{name} has a masked value; take out what is masked.")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and all(is_number(x) or isinstance(x, (bool, np.bool_)) for x in array.flat):
            array = array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must fit into numbers of 64 bits, got {short_repr(values)}.") from None
    except (TypeError, ValueError):
        array = np.zeros(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be {what}, got {type(values).__name__} {short_repr(values)}.")
    return array.astype(np.float64, copy=False)


def check_number_array(name: str, values: ArrayLike, *, minimum: int = 1) -> FloatArray:
    """A one-dimensional array of finite numbers; says where the first bad one is."""
    array = to_float_array(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {array.shape}.")
    if array.size < minimum:
        if array.size == 0:
            raise ValueError(f"{name} is empty; give at least {minimum} value{'s' if minimum > 1 else ''}.")
        raise ValueError(f"{name} must have at least {minimum} values, got {short_repr(values)}.")
    finite = np.isfinite(array)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ValueError(
            f"{name} must be finite, but has {np.count_nonzero(~finite)} NaN or infinite "
            f"value(s), the first at position {bad} ({array[bad]}); remove or repair them."
        )
    return array


def check_weights(values: ArrayLike, size: int, *, name: str = "weights", of: str = "arms") -> FloatArray:
    """Mixing weights: as many as arms, none negative, adding up to 1."""
    array = check_number_array(name, values)
    if array.size != size:
        raise ValueError(f"{name} has {array.size} entries for {size} {of}; give one weight each.")
    if (array < 0).any():
        bad = int(np.argmax(array < 0))
        raise ValueError(f"{name} must not be negative, but entry {bad} is {array[bad]:g}.")
    total = float(array.sum())
    if abs(total - 1.0) > WEIGHT_TOLERANCE:
        raise ValueError(f"{name} must add up to 1, but add up to {total:.12g}; divide them by their sum.")
    return array / total


def check_choice(name: str, value: Any, options: Iterable[str], *, kind: str = "") -> str:
    """One of a few words; an unknown one gets the nearest as a suggestion."""
    known: Sequence[str] = list(options)
    if isinstance(value, str) and value in known:
        return str(value)
    raise ValueError(unknown_name_message(f"unknown {kind or name}", value, known))


_LONG_LIST = 250  # letters of a list of names that is left out where one of them is suggested


def unknown_name_message(what: str, value: Any, known: Sequence[str]) -> str:
    """The sentence for a word that does not exist, with the nearest one as a suggestion."""
    near = difflib.get_close_matches(value.lower()[:100], known, n=1, cutoff=0.55) if isinstance(value, str) else []
    near = [_SYNONYMS[value]] if isinstance(value, str) and _SYNONYMS.get(value) in known else near
    listed = ", ".join(known) or "none"
    if near and len(listed) > _LONG_LIST:
        return f"{what} {short_repr(value)}. Did you mean {near[0]!r}? There are {len(known)} in all."
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    return f"{what} {short_repr(value)}.{suggestion} Known: {listed}."


def short_repr(value: Any, limit: int = 60) -> str:
    """A value as Python writes it, cut where it is long; control characters are written out."""
    try:
        text = escape_control_characters(" ".join(repr(value).split()))
    except Exception:  # whole numbers of thousands of digits, and objects that cannot show themselves
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


# What a terminal would obey instead of showing it: control characters, and those that turn the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # Unicode's categories: control, format, half characters, lines


def escape_invisible_characters(text: str) -> str:
    """Text of one line in which every character is seen: line breaks, tabs, and those without width are written out.

    >>> escape_invisible_characters("a\\nERROR \u200b")
    'a\\\\nERROR \\\\u200b'
    """
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in _INVISIBLE else c for c in text)


def escape_control_characters(text: str) -> str:
    """Text with control characters written out: names in files of strangers must not reach the terminal as they are.

    >>> escape_control_characters("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def check_reward_array(rewards: Any) -> FloatArray:
    """Rewards that a user told, as an array of floats; they may be numbers of Python and numpy, and bools."""
    if isinstance(rewards, np.ndarray):
        return check_number_array("rewards", rewards)
    rewards = [r[()] if isinstance(r, np.ndarray) and r.ndim == 0 else r for r in rewards]
    for reward in rewards:
        if not (is_number(reward) or isinstance(reward, (bool, np.bool_)) or np.ndim(reward)):
            raise TypeError(f"rewards must be numbers, got {short_repr(reward)}.")
    return check_number_array("rewards", [float(r) if isinstance(r, (bool, np.bool_)) else r for r in rewards])
