"""Where two JSON bodies differ, in words."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson

from wiretape.text import shown
from wiretape_replay.front.asked import Body, plain_json
from wiretape_replay.tape.kind import same_text

_NAMED = 3
_LONGEST = 40
Difference = tuple[str, str]


def body_differences(recorded: Body, asked: Body) -> str | None:
    """The first places at which the asked body is not the recorded one; None where no place can be named."""
    try:
        known, given = plain_json(recorded.text or b""), plain_json(asked.text or b"")
        if known is None or given is None:
            return None
        found = list(islice(_differences(known, given, "$"), _NAMED + 1))
    except RecursionError:
        return None
    named = [f"{shown(path, 2 * _LONGEST)}: {what}" for path, what in found[:_NAMED]]
    return ", ".join(named + ["…"] * (len(found) > _NAMED)) or None


def _differences(recorded: Any, asked: Any, path: str) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in (*recorded, *(key for key in asked if key not in recorded)):
            yield from _at(recorded, asked, key, _member(path, key), dict.__contains__)
    elif isinstance(recorded, list) and isinstance(asked, list):
        for index in range(max(len(recorded), len(asked))):
            yield from _at(recorded, asked, index, f"{path}[{index}]", lambda held, at: at < len(held))
    elif not _same(recorded, asked):
        yield path, f"{_json(asked)} instead of {_json(recorded)}"


def _at(recorded: Any, asked: Any, key: Any, path: str, has: Callable[[Any, Any], bool]) -> Iterator[Difference]:
    if not has(asked, key):
        yield path, "missing"
    elif not has(recorded, key):
        yield path, "not recorded"
    else:
        yield from _differences(recorded[key], asked[key], path)


def _same(recorded: Any, asked: Any) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return same_text(recorded, asked)
    return type(recorded) is type(asked) and bool(recorded == asked)


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if key.replace("-", "_").isidentifier() else f"{path}[{_json(key)}]"


def _json(value: Any) -> str:
    return shown(orjson.dumps(value).decode(), _LONGEST)
