"""The filter grammar: parse a filter text into conditions.  `page/filter_grammar.js` parses the same grammar.

filter    = group { "or" group }
group     = condition { condition }                     all of them must match
condition = ["-"] [field ":"] value { "," value }       one value must match; the default field is `text`
value     = word | "quoted"

`filter_match` applies a filter.  tests/inspect/filters.json holds the cases that both implementations must pass.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, shorten
from wiretape.units import parse_duration

PATTERN_FIELDS = ("type", "id", "rule", "run", "tool", "session")
"""Fields whose values are patterns: `*` matches any text and `?` any character."""
NUMBER_FIELDS = ("seq", "event", "exchange")
FIELDS = ("type", "kind", *PATTERN_FIELDS[1:], *NUMBER_FIELDS, "gap", "text")
KINDS = (
    "message",
    "durable",
    "delta",
    "ephemeral",
    "comment",
    "pause",
    "cut",
    "oversized",
    "lost",
    "end",
    "request",
)
"""The values of `kind`: a `message` is also one of the three kinds after it; a `request` is not a stream."""
_SPACE = " \t\n\r\f\v"
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r'\\(["\\ntr])')
_SPACES = re.compile(rf"[{_SPACE}]*")
_OR = re.compile(rf"or(?=[{_SPACE}]|\Z)")
_MINUS, _COMMA, _QUOTE = re.compile("-"), re.compile(","), re.compile('"')
_FIELD = re.compile(rf'([^{_SPACE},":/]*):')
_WORD = re.compile(rf'[^{_SPACE}",]+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\ntr])*+)')
_NUMBER = re.compile(r"-?\d{1,25}", re.ASCII)
_COMPARISON = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_Unit = Literal["number", "duration"]


@dataclass(frozen=True, slots=True)
class Text:
    """A word or a quoted text.  In quotes, `*` and `?` have no special meaning."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """A range of numbers, or of nanoseconds.  Both ends are included; None is an open end."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, number: int) -> bool:
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


@dataclass(frozen=True, slots=True)
class Condition:
    """Matches if `field` has any of `values`; if `negated`, matches everything else."""

    field: str
    values: tuple[Text | Range, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Matches if all conditions of any group match.  A filter without groups matches everything."""

    groups: tuple[tuple[Condition, ...], ...] = ()


EVERYTHING = Filter()


def parse_filter(text: str) -> Filter:
    """Parse a filter.  Raises InputError with the position of the mistake."""
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> Filter:
        groups: list[list[Condition]] = [[]]
        while self._take(_SPACES) and self._at < len(self._text):
            begin = self._at
            if not self._take(_OR):
                groups[-1].append(self._condition())
            elif groups[-1]:
                groups.append([])
            else:
                raise self._error(begin, "`or` needs a condition before it.")
        if len(groups) > 1 and not groups[-1]:
            raise self._error(len(self._text), "`or` needs a condition after it.")
        return Filter(tuple(tuple(group) for group in groups if group))

    def _condition(self) -> Condition:
        negated = self._take(_MINUS) is not None
        if negated and self._at_space():
            raise self._error(self._at - 1, "`-` needs a condition after it.")
        begin = self._at
        named = self._take(_FIELD)
        field = named[1] if named else "text"
        if field not in FIELDS:
            raise self._error(begin, _unknown("field", field, FIELDS))
        values = [self._value(field)]
        while self._take(_COMMA):
            values.append(self._value(field))
        if not self._at_space():
            raise self._error(self._at, f"expected a space after {shorten(self._text[begin : self._at])}.")
        return Condition(field, tuple(values), negated)

    def _value(self, field: str) -> Text | Range:
        begin = self._at
        found = self._quoted()
        if found is None:
            word = self._take(_WORD)
            if word is None:
                raise self._error(begin, f"missing value for `{field}`.")
            found = Text(word.group())
        if field == "kind" and found.text not in KINDS:
            raise self._error(begin, _unknown("kind", found.text, KINDS))
        if field not in {*NUMBER_FIELDS, "gap"}:
            return found
        try:
            return _range(found.text, "duration" if field == "gap" else "number")
        except ValueError as error:
            raise self._error(begin, f"invalid value '{shorten(found.text)}' for `{field}`: {error}.") from None

    def _quoted(self) -> Text | None:
        begin = self._at
        found = self._take(_QUOTED)
        if found is None:
            return None
        if self._text.startswith("\\", self._at):
            raise self._error(self._at, r"invalid escape: in quotes, use \\, \", \n, \t or \r.")
        if not self._take(_QUOTE):
            raise self._error(begin, "the closing quotation mark is missing.")
        return Text(_ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], found[1]), quoted=True)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move behind the pattern, if it is here."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _at_space(self) -> bool:
        """Whether a space or the end is here."""
        return self._text[self._at : self._at + 1] in _SPACE

    def _error(self, at: int, problem: str) -> InputError:
        return InputError(f"Invalid filter at character {at + 1}: {problem}")


def _unknown(thing: str, name: str, known: Iterable[str]) -> str:
    guess = closest_match(name, known)
    hint = f"did you mean `{guess}`?" if guess else f"expected one of {', '.join(known)}."
    return f"unknown {thing} `{shorten(name)}`; {hint}"


def _range(text: str, unit: _Unit) -> Range:
    """Parse `7`, `40..60`, `..60`, `>1s` or `<=200ms`; a single duration means that long or longer."""
    comparison = _COMPARISON.fullmatch(text)
    if comparison is not None:
        sign, number = comparison[1], _number(comparison[2], unit)
        if unit == "duration" and (sign, number) == ("<", 0):
            raise ValueError("a duration cannot be less than zero")
        low = {">": number + 1, ">=": number}.get(sign)
        high = {"<": number - 1, "<=": number}.get(sign)
        return Range(low, high)
    if ".." not in text:
        number = _number(text, unit)
        return Range(number, None if unit == "duration" else number)
    begin, _, end = text.partition("..")
    low = _number(begin, unit) if begin else None
    high = _number(end, unit) if end else None
    if low is None and high is None:
        raise ValueError("expected a number before or after the two dots")
    if low is not None and high is not None and low > high:
        raise ValueError("the range ends before it begins")
    return Range(low, high)


def _number(text: str, unit: _Unit) -> int:
    if unit == "duration":
        return parse_duration(text)
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("expected a number, a range such as 40..60, or >40")
    return int(text)
