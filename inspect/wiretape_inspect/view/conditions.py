"""What a filter is: conditions as data, as text and as JSON.  `filters` reads the text.  Pure."""

from dataclasses import dataclass
from typing import Any

from wiretape_inspect.view.ranges import Range, Unit

GLOBS = ("type", "id", "rule", "run", "tool", "session")
"""Fields whose values are patterns in which `*` stands for any text and `?` for any character."""
NUMBERS: dict[str, Unit] = {"seq": "count", "event": "count", "exchange": "count", "gap": "time"}
"""Fields whose values are numbers and ranges of them, or of times."""
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
"""What `kind` may be: `message` is any of the three after it, `request` an exchange that is no stream."""
FIELDS = (*GLOBS[:1], "kind", *GLOBS[1:], *NUMBERS, "text")
ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
"""What stands for which character in quotes, after a backslash."""
_ESCAPED = {value: key for key, value in ESCAPES.items()}


@dataclass(frozen=True, slots=True)
class Text:
    """A word: a pattern in fields that take patterns, otherwise text to be found.  `literal` was quoted: no pattern."""

    text: str
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression, to be found anywhere."""

    pattern: str


Value = Text | Regex | Range


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: any of `values` of `field`; `negated` takes what it would not."""

    field: str
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Any of `groups`, all terms of a group.  One without groups takes everything."""

    groups: tuple[tuple[Term, ...], ...] = ()

    def __str__(self) -> str:
        """The filter as it would be written: parsing it gives an equal one."""
        return " or ".join(" ".join(map(_term, group)) for group in self.groups)


EVERYTHING = Filter()


def document(whole: Filter) -> dict[str, Any]:
    """The filter as JSON, for a page that matches by itself.

    `{"text": str, "groups": [[{"field": str, "negated": bool, "values": [VALUE]}]]}`, where VALUE is
    `{"text": str, "literal": bool}`, `{"regex": str}` or `{"low": int | null, "high": int | null}` (both included;
    nanoseconds for `gap`).
    """
    return {"text": str(whole), "groups": [[_condition(term) for term in group] for group in whole.groups]}


def _condition(term: Term) -> dict[str, Any]:
    return {"field": term.field, "negated": term.negated, "values": [_value(value) for value in term.values]}


def _value(value: Value) -> dict[str, Any]:
    match value:
        case Text(text, literal):
            return {"text": text, "literal": literal}
        case Regex(pattern):
            return {"regex": pattern}
        case Range(low, high):
            return {"low": low, "high": high}


def _term(term: Term) -> str:
    bare = term.field == "text" and len(term.values) == 1
    said = ",".join(_printed(term, value) for value in term.values)
    named = said if bare and said[0] in '"/' else f"{term.field}:{said}"
    return f"-{named}" if term.negated else named


def _printed(term: Term, value: Value) -> str:
    match value:
        case Regex(pattern):
            return f"/{_slashed(pattern)}/"
        case Range():
            return value.printed(NUMBERS[term.field])
        case Text(text, literal) if literal:
            return f'"{"".join(_in_quotes(char) for char in text)}"'
        case Text(text):
            return text


def _in_quotes(char: str) -> str:
    return f"\\{_ESCAPED[char]}" if char in _ESCAPED else char


def _slashed(pattern: str) -> str:
    """The pattern with every slash escaped that is not."""
    said, chars = "", iter(pattern)
    for char in chars:
        said += f"\\{next(chars, '')}" if char == "\\" else "\\/" if char == "/" else char
    return said
