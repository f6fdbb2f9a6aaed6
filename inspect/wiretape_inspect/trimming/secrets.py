"""What is to be taken out of a recording, as the user says it, and how it is found in text."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape.safe_text import printable

_SHORTEST = 4
"""Of a text in characters: a shorter one stands everywhere, in the names of fields too."""
_SAID = 3
"""So many characters of one are said."""
_LONG_ENOUGH = 8
"""A header's value of this length is looked for elsewhere too."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What is to be taken out."""

    headers: frozenset[str] = frozenset()
    """Names, in lower case."""
    paths: tuple[JsonPath, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Sequence[str]) -> "Secrets":
        """Read `header:NAME`, `json:$.path` and `text:LITERAL`.  Raises InputError."""
        headers, paths, texts = set(), [], []
        for each in given:
            kind, _, what = each.partition(":")
            if kind == "header" and what.strip():
                headers.add(what.strip().lower())
            elif kind == "json" and what:
                paths.append(JsonPath.of(what))
            elif kind == "text":
                texts.append(_text(what))
            else:
                raise InputError("--redact takes header:NAME, json:$.path or text:LITERAL.")
        return cls(frozenset(headers), tuple(paths), tuple(texts))

    def __bool__(self) -> bool:
        return bool(self.headers or self.paths or self.texts)

    def literals(self, header_values: Iterable[str]) -> "Literals":
        """The texts, and the long values of the headers, ready to be looked for."""
        values = [value.encode("latin-1", "replace") for value in header_values if len(value) >= _LONG_ENOUGH]
        written = [form for text in self.texts for form in _forms(text)]
        forms = sorted({*written, *values}, key=len, reverse=True)
        return Literals(re.compile(b"|".join(map(re.escape, forms))) if forms else None)


@dataclass(frozen=True, slots=True)
class Literals:
    """Texts that are looked for in any of the ways in which they are written: as they are, in JSON, in URLs."""

    pattern: re.Pattern[bytes] | None
    seen: set[bytes] = field(default_factory=set)
    """What was found."""

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where they stand."""
        return [self._at(match) for match in self.pattern.finditer(data)] if self.pattern else []

    def has(self, text: str) -> bool:
        """Whether one of the texts was found, by itself or within a longer one."""
        return any(form in seen for form in _forms(text) for seen in self.seen)

    def head(self, text: str) -> tuple[str, int]:
        """A head's text with asterisks in their place, and in how many places."""
        return self._masked(text, "latin-1")

    def words(self, text: str) -> tuple[str, int]:
        """The same for text that is nobody's bytes."""
        return self._masked(text, "utf-8")

    def _masked(self, text: str, charset: str) -> tuple[str, int]:
        data = text.encode(charset, "replace")
        if self.pattern is None or self.pattern.search(data) is None:
            return text, 0
        masked, count = self.pattern.subn(self._asterisks, data)
        return masked.decode(charset, "replace"), count

    def _asterisks(self, match: re.Match[bytes]) -> bytes:
        begin, end = self._at(match)
        return b"*" * (end - begin)

    def _at(self, match: re.Match[bytes]) -> tuple[int, int]:
        self.seen.add(match.group())
        return match.span()


def _text(text: str) -> str:
    if len(text) < _SHORTEST:
        raise InputError(f"The text to redact has fewer than {_SHORTEST} characters, and would be found everywhere.")
    if "\n" in text or "\r" in text:
        raise InputError(f"The text to redact has a line end: give each line by itself ({begun(text)}).")
    return text


def begun(text: str) -> str:
    """A secret as it may be said."""
    return f"{printable(text[:_SAID])}…"


def _forms(text: str) -> Iterable[bytes]:
    escaped = json.dumps(text)[1:-1]
    said = {text, escaped, escaped.replace("/", "\\/"), json.dumps(text, ensure_ascii=False)[1:-1]}
    said |= {quote(text, safe=""), quote(text), quote_plus(text)}
    return [form.encode("utf-8", "surrogateescape") for form in said]
