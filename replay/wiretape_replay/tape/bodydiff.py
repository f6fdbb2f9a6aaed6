"""Where two JSON bodies differ, in words."""

from itertools import islice
from typing import Any

import orjson

from wiretape.json_diff import MISSING, Difference, differences
from wiretape.safe_text import shorten
from wiretape_replay.front.asked import Body, plain_json
from wiretape_replay.tape.kind import same_text

_NAMED = 3
_LONGEST = 40


def body_differences(recorded: Body, asked: Body) -> str | None:
    """The first places at which the asked body is not the recorded one; None where no place can be named."""
    try:
        known, given = plain_json(recorded.text or b""), plain_json(asked.text or b"")
        if known is None or given is None:
            return None
        found = list(islice(differences(known, given, _same), _NAMED + 1))
    except RecursionError:
        return None
    named = [f"{shorten(place.path, 2 * _LONGEST)}: {_what(place)}" for place in found[:_NAMED]]
    return ", ".join(named + ["…"] * (len(found) > _NAMED)) or None


def _what(place: Difference) -> str:
    if place.second is MISSING:
        return "missing"
    if place.first is MISSING:
        return "not recorded"
    return f"{_json(place.second)} instead of {_json(place.first)}"


def _same(recorded: Any, asked: Any, _: str) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return same_text(recorded, asked)
    return type(recorded) is type(asked) and bool(recorded == asked)


def _json(value: Any) -> str:
    return shorten(orjson.dumps(value).decode(), _LONGEST)
