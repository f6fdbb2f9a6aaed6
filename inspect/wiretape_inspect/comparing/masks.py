"""What a JSON value says beside its ids and times: events that say the same are found by it.  Pure."""

from typing import Any

import orjson

from wiretape_inspect.comparing.ids import is_id
from wiretape_inspect.comparing.sameness import Sameness, is_time

_BESIDE = frozenset({"id", "sequence"})
"""What events of the same content may differ in, at their top."""


class Mask:
    """The ids and times of a value, and a hash of all else."""

    __slots__ = ("_whole", "ids", "names", "times", "token")

    def __init__(self, document: Any, kind: str) -> None:
        self._whole = True
        self.names: list[str] = []
        """What each of `ids` stands under."""
        self.ids: list[str] = []
        self.times: list[Any] = []
        said = document
        if type(document) is dict:
            said = {key: value for key, value in document.items() if key not in _BESIDE}
            if type(document.get("id")) is str:
                self.names.append("id")
                self.ids.append(document["id"])
        try:
            self.token = hash(orjson.dumps([kind, self._masked(said, "")], option=orjson.OPT_SORT_KEYS))
        except (orjson.JSONEncodeError, RecursionError):
            self.token = hash(kind)
            self._whole = False
        """The same for values that say the same, whatever their ids, times and sequences."""

    def surely_same(self, other: "Mask", sameness: Sameness) -> bool:
        """Whether two values say the same, but for their sequence; False where that cannot be told from masks."""
        if self.token != other.token or self.names != other.names or not self._whole:
            return False
        if not sameness.choices.times and self.times != other.times:
            return False
        return all(sameness.ids(here, there) for here, there in zip(self.ids, other.ids, strict=True))

    def _masked(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is dict:
            return {key: self._masked(item, key) for key, item in value.items()}
        if kind is list:
            return [self._masked(item, name) for item in value]
        if kind is str and is_id(name):
            self.names.append(name)
            self.ids.append(value)
            return None
        if kind is not bool and is_time(value, name):
            self.times.append(value)
            return None
        return value
