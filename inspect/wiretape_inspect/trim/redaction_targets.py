"""What to redact, as given on the command line, and how to find it in text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape.recording import Span, SpellingFinder, join_spans, overwrite, spellings
from wiretape.safe_text import printable

_MIN_TEXT_LENGTH = 4
"""Shorter texts occur everywhere, even in field names."""
_EXCERPT_LENGTH = 3
"""How many characters of a secret may be printed."""
_MIN_VALUE_LENGTH = 8
"""Header values of this length are also searched for elsewhere."""


@dataclass(frozen=True, slots=True)
class RedactionTargets:
    """What to redact."""

    headers: frozenset[str] = frozenset()
    """Lower-case names."""
    paths: tuple[JsonPath, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Sequence[str]) -> "RedactionTargets":
        """Parse `header:NAME`, `json:$.path` and `text:LITERAL`.  Raises InputError."""
        headers, paths, texts = set(), [], []
        for option in options:
            kind, _, value = option.partition(":")
            if kind == "header" and value.strip():
                headers.add(value.strip().lower())
            elif kind == "json" and value:
                paths.append(JsonPath.of(value))
            elif kind == "text":
                texts.append(_checked_text(value))
            else:
                # The value may be a secret: it is not printed.
                raise InputError("Invalid --redact value: expected header:NAME, json:$.path or text:LITERAL.")
        return cls(frozenset(headers), tuple(paths), tuple(texts))

    def __bool__(self) -> bool:
        return bool(self.headers or self.paths or self.texts)

    def literals(self, header_values: Iterable[str]) -> "Literals":
        """The texts and the long header values, compiled for searching."""
        values = [value.encode("latin-1", "replace") for value in header_values if len(value) >= _MIN_VALUE_LENGTH]
        spellings = [spelling for text in self.texts for spelling in _spellings(text)]
        longest_first = sorted({*spellings, *values}, key=len, reverse=True)
        return Literals(longest_first)


class Literals:
    """Texts to find in any of their spellings: as they are, in JSON, in URLs."""

    def __init__(self, longest_first: Sequence[bytes]) -> None:
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        self._finder = (
            SpellingFinder(bytes({*b"".join(longest_first)}), len(longest_first[0])) if longest_first else None
        )
        self._found: set[bytes] = set()

    def spans(self, data: bytes) -> list[Span]:
        """Where they are in `data`."""
        return join_spans(list(self._finder.find(data, self._find))) if self._finder else []

    def has_found(self, text: str) -> bool:
        """Whether one of the texts was found, by itself or within a longer one."""
        return any(spelling in found for spelling in _spellings(text) for found in self._found)

    def mask(self, text: str, charset: str) -> tuple[str, int]:
        """The text with asterisks in their place, and how many were replaced.

        `charset` is latin-1 for request lines, status lines and headers, and UTF-8 for what did not cross the wire.
        """
        data = text.encode(charset, "replace")
        spans = self.spans(data)
        return (overwrite(data, spans).decode(charset, "replace"), len(spans)) if spans else (text, 0)

    def _find(self, data: bytes) -> Iterator[Span]:
        for match in self._pattern.finditer(data):
            self._found.add(match.group())
            yield match.span()


def _checked_text(text: str) -> str:
    if len(text) < _MIN_TEXT_LENGTH:
        raise InputError(f"The text to redact is too short: it needs at least {_MIN_TEXT_LENGTH} characters.")
    if "\n" in text or "\r" in text:
        raise InputError(f"The text to redact contains a line break: specify each line separately ({excerpt(text)}).")
    return text


def _spellings(text: str) -> frozenset[bytes]:
    return spellings(text.encode("utf-8", "surrogateescape"))


def excerpt(text: str) -> str:
    """The beginning of a secret, which may be printed."""
    return f"{printable(text[:_EXCERPT_LENGTH])}…"
