"""Places in JSON values that a comparison leaves out: a small part of JSONPath (RFC 9535).

`$` is the whole value; then any number of `.name`, `['name']`, `[0]`, `.*` or `[*]`, each with a second dot before
it (`$..name`, `$..[0]`) where it is meant at any depth.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wiretape.errors import InputError

_STEP = re.compile(
    r"""(?P<deep>\.\.(?=\[)|\.(?=\.))?
    (?: \.(?P<name>[^\W\d][\w-]*) | (?P<all>\.\*|\[\*\]) | \[(?P<index>[0-9]{1,9})\]
      | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\] )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Step:
    key: str | int | None
    """A name, an index, or None for all."""
    deep: bool
    """Whether it is meant at any depth below."""

    def keys(self, value: Any) -> list[Any]:
        """Which keys or indices of `value` it means."""
        keys: Iterable[Any] = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
        return [key for key in keys if self.key is None or (key == self.key and type(key) is type(self.key))]


@dataclass(frozen=True, slots=True)
class JsonPath:
    """What a path means, ready to be left out of JSON values."""

    text: str
    steps: tuple[_Step, ...]

    @classmethod
    def of(cls, text: str) -> "JsonPath":
        """Read a path.  Raises InputError."""
        steps, at = [], 1
        while text.startswith("$") and (match := _STEP.match(text, at)):
            steps.append(_Step(_key(match), match["deep"] is not None))
            at = match.end()
        if not text.startswith("$") or at != len(text):
            raise InputError(f"{text!r} is no path in a body: write $.name, $.list[0].name, $.list[*].name or $..name.")
        return cls(text, tuple(steps))

    def drop(self, value: Any) -> None:
        """Take what is meant out of a JSON object or list.

        An element of a list becomes null: how many there are still counts.
        """
        _drop(value, self.steps)

    def means(self, keys: Sequence[str | int]) -> bool:
        """Whether what stands at `keys`, from the outermost on, is meant, or something that it is in."""
        return _means(tuple(keys), self.steps)


def _means(keys: tuple[str | int, ...], steps: tuple[_Step, ...]) -> bool:
    if not steps:
        return True
    step, rest = steps[0], steps[1:]
    for at, key in enumerate(keys if step.deep else keys[:1]):
        fits = step.key is None or (step.key == key and type(step.key) is type(key))
        if fits and _means(keys[at + 1 :], rest):
            return True
    return False


def _drop(value: Any, steps: tuple[_Step, ...]) -> None:
    step, rest = steps[0], steps[1:]
    for key in step.keys(value):
        if rest:
            _drop(value[key], rest)
        elif isinstance(value, dict):
            del value[key]
        else:
            value[key] = None
    for child in _children(value) if step.deep else ():
        _drop(child, steps)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _key(match: re.Match[str]) -> str | int | None:
    if match["all"]:
        return None
    if match["index"]:
        return int(match["index"])
    return next(match[name] for name in ("name", "single", "double") if match[name] is not None)
