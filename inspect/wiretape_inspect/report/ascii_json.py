"""JSON as reports have it: ASCII, so that what is recorded can hold nothing that a terminal or an encoding minds."""

import json
from collections.abc import Iterable, Iterator
from typing import Any


def dump(value: Any) -> str:
    """The value in one line."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def listed(values: Iterable[Any]) -> Iterator[str]:
    """The items of an array, each on a line of its own."""
    last = None
    for value in values:
        if last is not None:
            yield f"{last},"
        last = dump(value)
    if last is not None:
        yield last
