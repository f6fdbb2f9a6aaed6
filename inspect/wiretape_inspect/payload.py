"""The data of an event as lines of text: JSON set out, anything else as it came.  Pure."""

import json
import re
from collections.abc import Iterator

from wiretape.json_reader import UnreadableJson, read_json
from wiretape_inspect.humanize import amount
from wiretape_inspect.spans import Span

SIZE = 4096
"""How many characters of the data are shown."""
_DEEPEST = 30
"""From this depth on lines are indented no further."""
_TOKEN = re.compile(r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")|(?P<sign>[{}\[\],:])|[^\s{}\[\],:"]++')
_OPENING, _CLOSING = "{[", "}]"

_Line = tuple[int, list[Span]]
"""How deep it stands, and what it says."""


def lines(data: bytes) -> Iterator[list[Span]]:
    """The lines of some data, the first of them named; none where there are none."""
    text = data.decode("utf-8", "replace")
    is_json = not isinstance(read_json(data), UnreadableJson)
    shown = _json(text) if is_json else ((0, [(line, "")]) for line in _text(data))
    name = "data"
    for depth, spans in shown:
        # Like a finding it is never cut, but goes on in a further line.
        yield [(f"{name:>8}  {'  ' * min(depth, _DEEPEST)}", "dim"), *spans, ("", "finding")]
        name = ""
    if len(text) > SIZE:
        yield [(f"{'':>8}  ", "dim"), (f"… {amount(len(data))} in all; --json has them", "dim")]


def _text(data: bytes) -> list[str]:
    """The lines of what is no JSON; bytes that are no UTF-8 with their values."""
    return data[:SIZE].decode("utf-8", "backslashreplace").split("\n") if data else []


def _json(text: str) -> Iterator[_Line]:
    """A line for each key and each item; an object or array that holds nothing is part of one.

    Numbers and repeated keys stand as they were, strings without their escapes.
    """
    depth, line, opened = 0, list[Span](), False
    for match in _TOKEN.finditer(text):
        if match.start() >= SIZE:
            break
        sign = match["sign"] or ""
        closing = sign != "" and sign in _CLOSING
        if opened != closing:
            yield depth, line
            depth, line = depth + (-1 if closing else 1), []
        if sign == ":":
            line[-1] = (line[-1][0], "key")
        line.append((": " if sign == ":" else sign, "") if sign else _value(match))
        if sign == ",":
            yield depth, line
            line = []
        opened = sign != "" and sign in _OPENING
    yield depth, line


def _value(match: re.Match[str]) -> Span:
    token = match.group()
    if match["string"] is None:
        return token, "number"
    said = json.loads(token, strict=False).replace("\\", "\\\\").replace('"', '\\"')
    room = max(SIZE - match.start(), 80)
    return (f'"{said}"' if len(said) <= room else f'"{said[:room]}…'), "string"
