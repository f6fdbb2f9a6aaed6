"""Numbers and times in filters: `7`, `40..60`, `..60`, `>1s`, `<=200ms`.  Pure."""

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["count", "time"]
"""Whole numbers, or times, which are nanoseconds inside and have a unit when they are written."""
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000, "h": 3_600_000_000_000}
_TIME = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?(ns|us|ms|s|min|h)", re.ASCII)
_COUNT = re.compile(r"-?\d{1,25}", re.ASCII)
_COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)


class RangeError(ValueError):
    """What is written is no range; says how one is written."""


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends included; None: no end."""

    low: int | None = None
    high: int | None = None

    def holds(self, number: int) -> bool:
        """Whether a number lies in it."""
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)

    def printed(self, unit: Unit) -> str:
        """The range as it would be written."""
        low, high = self.low, self.high
        if low is None or high is None:
            return f">={_said(low, unit)}" if low is not None else f"<={_said(high or 0, unit)}"
        return _said(low, unit) if low == high and unit == "count" else f"{_said(low, unit)}..{_said(high, unit)}"


def parsed(text: str, unit: Unit) -> Range:
    """The range that `text` says; a time alone means that long or longer.  Raises RangeError."""
    compared = _COMPARED.fullmatch(text)
    if compared is not None:
        sign, number = compared[1], _number(compared[2], unit)
        if unit == "time" and (sign, number) == ("<", 0):
            raise RangeError("no time is shorter than none")
        return {
            ">": Range(low=number + 1),
            ">=": Range(low=number),
            "<": Range(high=number - 1),
            "<=": Range(high=number),
        }[sign]
    if ".." in text:
        return _between(text, unit)
    number = _number(text, unit)
    return Range(number, None if unit == "time" else number)


def nanoseconds(text: str) -> int:
    """A length of time as it is written, with its unit.  Raises RangeError."""
    return _number(text, "time")


def _between(text: str, unit: Unit) -> Range:
    begin, _, end = text.partition("..")
    low = _number(begin, unit) if begin else None
    high = _number(end, unit) if end else None
    if low is None and high is None:
        raise RangeError("write a number before or after the two dots")
    if low is not None and high is not None and low > high:
        raise RangeError("it ends before it begins")
    return Range(low, high)


def _number(text: str, unit: Unit) -> int:
    if unit == "count":
        if _COUNT.fullmatch(text) is None:
            raise RangeError("write a number, a range like 40..60, or >40")
        return int(text)
    match = _TIME.fullmatch(text)
    if match is None:
        raise RangeError("write a time with its unit (ns, us, ms, s, min, h), like >1s or 200ms..2s")
    scale, digits = _UNITS[match[3]], match[2] or ""
    return int(match[1]) * scale + int(digits.ljust(9, "0")) * scale // 1_000_000_000


def _said(number: int, unit: Unit) -> str:
    if unit == "count":
        return str(number)
    name = next((name for name in reversed(_UNITS) if number % _UNITS[name] == 0), "ns") if number else "s"
    return f"{number // _UNITS[name]}{name}"
