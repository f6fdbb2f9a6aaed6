"""When two values are the same, by choice: ids by their partners, times by being times.  Pure but for the partners."""

import re
from functools import lru_cache
from typing import Any

from wiretape.contract import RETRY_AFTER
from wiretape.json_diff import Difference, differences
from wiretape.recording import REDACTED_PATTERN
from wiretape_inspect.comparing.choices import Choices
from wiretape_inspect.comparing.ids import Partners, is_id

_REPLACED = re.compile(REDACTED_PATTERN)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
_WAIT = RETRY_AFTER.lower()
_TIMES = frozenset({"time", "timestamp", "date", _WAIT, _WAIT.replace("-", "_")})


class Sameness:
    """Compares values of two recordings; remembers which ids stand for each other."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.partners = Partners()

    def documents(self, first: Any, second: Any) -> list[Difference]:
        """Where two JSON values differ; as a whole where they are nested too deep to say where."""
        try:
            found = list(differences(first, second, self._same))
        except RecursionError:
            return [] if _equal(first, second) else [Difference("$", first, second)]
        # A text may name ids that came only after it.
        return [place for place in found if not self._now_same(place)] if self.choices.ids else found

    def ids(self, first: str | None, second: str | None) -> bool:
        """Whether two ids are the same."""
        if self.choices.ids and first and second:
            return self.partners.same(first, second)
        return first == second

    def texts(self, first: str | None, second: str | None, name: str = "") -> bool:
        """Whether two texts are the same; `name` is the member or header whose value they are."""
        if first is None or second is None or first == second:
            return first == second
        if self.choices.times and (is_time(first, name) and is_time(second, name)):
            return True
        if self.choices.ids and self.partners.same_text(first, second):
            return True
        return unsecret(first) == unsecret(second)

    def _same(self, first: Any, second: Any, name: str) -> bool:
        if isinstance(first, str) and isinstance(second, str):
            return self.ids(first, second) if is_id(name) else self.texts(first, second, name)
        if self.choices.times and is_time(first, name) and is_time(second, name):
            return True
        return _kind(first) is _kind(second) and bool(first == second)

    def _now_same(self, place: Difference) -> bool:
        texts = isinstance(place.first, str) and isinstance(place.second, str)
        return texts and self.partners.same_text(place.first, place.second)


def is_time(value: Any, name: str) -> bool:
    """Whether a JSON value is a point in time, or a wait until one: by what it says, or a number by its name."""
    if isinstance(value, str):
        if not "0" <= value[:1] <= "9":
            return False
        return bool(_TIMESTAMP.fullmatch(value)) or (name == _WAIT and value.isdecimal())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _is_time_name(name)


@lru_cache(4096)
def _is_time_name(name: str) -> bool:
    return name in _TIMES or name.endswith("_at")


def unsecret(text: str) -> str:
    """`text` with one word in place of each secret that was replaced: a secret is another one in every recording."""
    return _REPLACED.sub("[redacted]", text)


def _kind(value: Any) -> Any:
    """JSON has one kind of number, and truth is none."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except RecursionError:
        return False


def parting(first: str, second: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first.startswith(second[:middle]):
            low = middle
        else:
            high = middle - 1
    return low
