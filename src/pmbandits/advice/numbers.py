"""Numbers as people write them: as many digits as the data can tell apart, commas between thousands, no exponents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10

_MOST_DECIMALS = 6
_CURRENCIES = ("€", "$", "£", "¥", "₹", "EUR", "USD", "GBP", "CHF")


@dataclass(frozen=True)
class NumberFormat:
    """How numbers of one answer are written: the same number of decimals in all of them, and their unit.

    >>> written = NumberFormat.for_resolution([0.4], "€")
    >>> written(10_250.0), written(-0.004), written.text_with_unit(-3.137)
    ('10,250.00', '0', '−3.14 €')
    """

    decimals: int
    unit: str = ""

    @classmethod
    def for_resolution(cls, sizes: Iterable[float], unit: str = "") -> NumberFormat:
        """Two digits of the smallest size that matters, such as the width of an interval; money has 0 or 2 decimals."""
        known = [abs(size) for size in sizes if isfinite(size) and size != 0.0]
        decimals = min(max(1 - floor(log10(min(known))), 0), _MOST_DECIMALS) if known else 2
        if unit in _CURRENCIES and decimals == 1:
            decimals = 2
        return cls(decimals, unit)

    def __call__(self, value: float) -> str:
        """The number without its unit; what rounds to zero is 0, without a sign."""
        if not isfinite(value):
            return "not known"
        if 0.0 < abs(value) < 0.5 * 10.0**-_MOST_DECIMALS or abs(value) >= 1e15:
            return f"{value:.3g}".replace("-", "−")
        text = f"{float(f'{value:.12g}'):,.{self.decimals}f}".replace("-", "−")  # rounding errors decide no digit
        return text if any(digit in text for digit in "123456789") else "0"

    def text_with_unit(self, value: float) -> str:
        """The number and its unit, if there is one."""
        return f"{self(value)} {self.unit}".rstrip() if isfinite(value) else self(value)

    def interval_text(self, ends: tuple[float, float]) -> str:
        """Two numbers with "to" between them."""
        return f"{self(min(ends))} to {self(max(ends))}" if all(map(isfinite, ends)) else "not known"


def plain_number(value: float) -> str:
    """A number that stands in the data: all its digits, commas between thousands, and no -0.

    >>> plain_number(-1272.50), plain_number(-0.0), plain_number(5.0)
    ('−1,272.5', '0', '5')
    """
    return f"{value + 0.0:,.10g}".replace("-", "−")


def share_in_percent(share: float) -> str:
    """A share in percent; a dash for none.

    >>> share_in_percent(0.604), share_in_percent(0.0012), share_in_percent(0.0)
    ('60 %', '0.12 %', '–')
    """
    if share == 0.0:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def format_two_digits(value: float) -> str:
    """A number with two significant digits.

    >>> format_two_digits(34.4), format_two_digits(0.6174), format_two_digits(100.0)
    ('34', '0.62', '100')
    """
    return f"{value:.0f}" if abs(value) >= 10.0 else f"{value:.2g}"
