"""Words of findings: a rule can say itself what it expects and what it got, in templates with placeholders.

`{name}` stands for a value, `{name:quoted}` for it in backquotes, and `{name:described}` for it with its JSON type.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wiretape.rules.finding import describe, format_number, shorten_text

Values = Mapping[str, Any]
"""What the message of a problem can name; `expected` and `got` are its usual words."""
Reader = Callable[[Values], Any]
"""Returns one of them; None if it has no value."""
_PART = re.compile(r"\{\{|\}\}|\{([^{}:]+)(?::([a-z]+))?\}|[{}]")


def _plain(value: Any) -> str:
    if type(value) is str:
        return shorten_text(value)
    return format_number(value) if type(value) in {int, float} else describe(value)


_FORMS: dict[str | None, Callable[[Any], str]] = {
    None: _plain,
    "quoted": lambda value: "none" if value in (None, ...) else f"`{_plain(value)}`",
    "described": describe,
}


class Template:
    """A text with placeholders."""

    def __init__(self, text: str, reader_of: Callable[[str], Reader]) -> None:
        """Raises ValueError."""
        self._parts: list[str | tuple[Reader, str | None]] = []
        end = 0
        for found in _PART.finditer(text):
            self._parts.append(text[end : found.start()])
            end = found.end()
            name, form = found.groups()
            if name is not None and form in _FORMS:
                self._parts.append((reader_of(name), form))
            elif found.group() in {"{{", "}}"}:
                self._parts.append(found.group()[0])
            else:
                raise ValueError(f"expected {{NAME}}, {{NAME:quoted}} or {{NAME:described}}, got {found.group()!r}")
        self._parts.append(text[end:])

    def fill(self, values: Values) -> str | None:
        """Return the text with values; None if a plain placeholder has none."""
        texts = []
        for part in self._parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            reader, form = part
            value = reader(values)
            if form is None and value in (None, ..., ""):
                return None
            texts.append(_FORMS[form](value))
        return "".join(texts)


class Wording:
    """How the problems of a rule are worded."""

    def __init__(self, expected: Sequence[Template], got: Sequence[Template]) -> None:
        """Of the templates for each part, the first counts whose placeholders have values."""
        self._expected, self._got = expected, got

    def message_of(self, values: Values) -> str:
        """Return the message of a problem; a part without a template has the usual words."""
        return f"Expected {_fill(self._expected, values, 'expected')}, got {_fill(self._got, values, 'got')}."


def _fill(templates: Sequence[Template], values: Values, part: str) -> str:
    filled = (template.fill(values) for template in templates)
    usual: str = values[part]
    return next((text for text in filled if text is not None), usual)
