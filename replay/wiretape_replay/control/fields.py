"""The JSON object that a request of the control interface carries."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, shorten

_LARGEST = 10**9

_Choice = TypeVar("_Choice", bound=StrEnum)


class Fields:
    """Its values.  Every method that reads one raises InputError where it is not what it should be."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def read(cls, body: bytes) -> "Fields":
        """The fields of a body; none where it is empty.  Raises InputError."""
        if not body.strip():
            return cls({})
        try:
            values = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise InputError("The body is no JSON.") from None
        if not isinstance(values, dict):
            raise InputError('The body has to be one JSON object, such as {"session": "ses_1"}.')
        return cls(values)

    def only(self, known: Iterable[str]) -> None:
        """Refuse every other field."""
        names = list(known)
        for name in self._values:
            if name not in names:
                similar = closest_match(name, names)
                told = f"did you mean {similar}?" if similar else f"there is {', '.join(names) or 'none'}."
                raise InputError(f"There is no field {shorten(name)} here; {told}")

    def text(self, name: str) -> str | None:
        """A string, or None."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            self._wrong(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, by default false."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            self._wrong(name, "true or false")
        return value

    def integer(self, name: str) -> int | None:
        """A whole number, or None."""
        value = self._values.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self._wrong(name, "a whole number")
        return value

    def count(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`."""
        value = self.integer(name)
        if value is None:
            return default
        if not 1 <= value <= most:
            self._wrong(name, f"a whole number from 1 to {most}")
        return value

    def number(self, name: str, most: float = _LARGEST) -> float | None:
        """A number from 0 to `most`, or None."""
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            self._wrong(name, f"a number from 0 to {most:.0f}")
        return float(value)

    def unchecked(self, name: str) -> Any:
        """Whatever is there, or None: for those who check it themselves."""
        return self._values.get(name)

    def choice(self, name: str, default: _Choice) -> _Choice:
        """One of the words of the default's kind."""
        value, words = self._values.get(name, default.value), {word.value: word for word in type(default)}
        if not isinstance(value, str) or value not in words:
            self._wrong(name, f"one of {', '.join(words)}")
        return words[value]

    def _wrong(self, name: str, what: str) -> NoReturn:
        raise InputError(f"The field {name} has to be {what}.")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
