r"""Spellings of secrets: a secret is found as it is, as JSON escapes it, and as URLs encode it.

The escapes of the searched bytes are decoded, so that it does not matter which characters a writer escapes, in which
case, and how often: `S`, `\u0053`, `\\u0053`, `%53` and `%2553` are the same letter.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from heapq import merge
from itertools import accumulate, groupby
from urllib.parse import unquote_to_bytes

from wiretape.bounded_dict import cache_short

Span = tuple[int, int]
"""Start and end offset."""

_ESCAPE = re.compile(
    rb"""(
    \\{1,8}u[dD][89abAB][0-9a-fA-F]{2}\\{1,8}u[dD][c-fC-F][0-9a-fA-F]{2}  # two halves of a character
    |\\{1,8}u[0-9a-fA-F]{4}
    |\\{1,8}[bfnrt"/]
    |\\{2,8}
    |%(?:25){0,4}[0-9a-fA-F]{2}
    )""",
    re.VERBOSE,
)
"""An escape of JSON, in up to four texts within each other, or of URLs, in up to five."""
_INCOMPLETE_ESCAPE = re.compile(
    rb"""(?:
    (?:\\{1,8}u[dD][89abAB][0-9a-fA-F]{2})?\\{1,8}(?:u[0-9a-fA-F]{0,3})?
    |\\{1,8}u[dD][89abAB][0-9a-fA-F]{2}
    |%(?:25){0,4}[0-9a-fA-F]?
    )\Z""",
    re.VERBOSE,
)
_LONGEST_ESCAPE = 26
LONGEST_CHARACTER = 13
"""Most bytes that spell one byte of a secret."""
_HEX = re.compile(rb"u([0-9a-fA-F]{4})")
_SHORT_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_IN_ESCAPES = b"\\%u0123456789abcdefABCDEFnrt"
"""What escapes consist of, apart from characters that stand for themselves after a backslash."""
_MOST_LEVELS = 2
"""JSON in URLs, and URLs in JSON."""
_WINDOW = 1 << 16
"""So many bytes are decoded at a time: the parts of a text full of escapes take fifty times its memory."""


@cache_short
def spellings(secret: bytes) -> frozenset[bytes]:
    """Return what `SpellingFinder` has to search for: the secret, as services read it, without its escapes."""
    found = {secret, DecodedText(secret).text}
    found |= {each.replace(b" ", b"+") for each in found}
    if not secret.isascii():  # most services read headers as Latin-1
        found |= {each.decode("latin-1").encode() for each in found}
    return frozenset(found)


class SpellingFinder:
    """Finds texts in any spelling, by what finds them as they are.

    Only bytes around an escape of one of their characters are decoded; other escapes are frequent.
    """

    def __init__(self, characters: bytes, longest: int) -> None:
        """`characters` are those of the texts; `longest` is the length of the longest text."""
        self._run_bytes = bytes({*characters, *_IN_ESCAPES})
        self._separator = bytes(set(range(256)).difference(self._run_bytes))[:1]
        """A byte that is in no text; empty if there is none."""
        self._longest = longest * LONGEST_CHARACTER
        codes = _hex_codes(characters + rb"\%")  # both may begin an escape within an escape
        # With `(?=u)`, `re` searches for the backslash alone, which is faster.
        json_code = rb"\\(?=u)u" + (b"00" + codes if characters.isascii() else b"")
        escapes = [(b"%", rb"%(?:25){0,4}" + codes), (b"\\", json_code)]
        short = [code for code, character in _SHORT_ESCAPES.items() if character in characters]
        if short := [*short, *(re.escape(bytes([each])) for each in b'"/\\' if each in characters)]:
            escapes.append((b"\\", rb"\\(?:%b)" % b"|".join(short)))
        self._window = max(_WINDOW, 2 * self._longest)
        run = rb"[%b]{0,%d}+" % (b"".join(rb"\x%02x" % each for each in self._run_bytes), self._window)
        self._escapes_in_runs = [(first, re.compile(escape + run)) for first, escape in escapes]
        """Each with the byte that it begins with, whose absence is found much faster."""

    def find(self, data: bytes, find: Callable[[bytes], Iterable[Span]], levels: int = _MOST_LEVELS) -> Iterator[Span]:
        """Yield where `find` finds something in `data`, and what is there in other spellings."""
        yield from find(data)
        for runs in self._batches(data) if levels else ():
            decoded = DecodedText(self._separator.join(data[start:end] for start, end in runs))
            starts = [0, *accumulate(len(self._separator) + end - start for start, end in runs)]
            for found in self.find(decoded.text, find, levels - 1):
                start, end = decoded.start(found[0]), decoded.end(found[1])
                index = bisect_right(starts, start) - 1
                offset = runs[index][0] - starts[index]
                yield start + offset, end + offset

    def find_beginning(self, data: bytes, find: Callable[[bytes], int], levels: int = _MOST_LEVELS) -> int:
        """Return how many bytes at the end of `data` are a beginning that `find` finds, in any spelling.

        The beginning of an escape may be that of a text, too.
        """
        data = data[-self._longest :]
        data = data[len(data.rstrip(self._run_bytes)) :]
        if not data:
            return 0
        longest = find(data)
        complete = _without_incomplete_escape(data)
        longest = max(longest, len(data) - len(complete))
        decoded = DecodedText(complete)
        if levels and decoded.text != data and (count := self.find_beginning(decoded.text, find, levels - 1)):
            longest = max(longest, len(data) - decoded.start(len(decoded.text) - count))
        return longest

    def _batches(self, data: bytes) -> Iterator[list[Span]]:
        """Yield the runs, many of which are decoded at once."""
        patterns = [pattern for first, pattern in self._escapes_in_runs if first in data]
        batch, size = list[Span](), 0
        for run, _ in groupby(merge(*(self._runs(data, pattern) for pattern in patterns))) if patterns else ():
            batch.append(run)
            size += run[1] - run[0]
            if size >= _WINDOW or not self._separator:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _runs(self, data: bytes, pattern: re.Pattern[bytes]) -> Iterator[Span]:
        """Yield where texts with such escapes may be."""
        at = 0
        while match := pattern.search(data, at):
            start, end = match.span()
            before = data[max(at, start - self._longest) : start]
            yield start - len(before) + len(before.rstrip(self._run_bytes)), end
            at = end if end - start < self._window else end - self._longest


def _hex_codes(characters: bytes) -> bytes:
    """Return a pattern of the codes of characters."""
    digits: dict[str, str] = {}
    for code in sorted({f"{each:02x}" for each in characters}):
        digits[code[0]] = digits.get(code[0], "") + code[1] + code[1].upper()
    return "(?:{})".format("|".join(f"[{a}{a.upper()}][{b}]" for a, b in digits.items())).encode()


def count_characters(data: bytes) -> int:
    """Return how many bytes are left after decoding, without an escape that is not complete."""
    return len(DecodedText(_without_incomplete_escape(data)).text)


def _without_incomplete_escape(data: bytes) -> bytes:
    """Return the bytes before an escape that is not complete."""
    end = data[-_LONGEST_ESCAPE:]
    found = _INCOMPLETE_ESCAPE.search(end)
    return data[: len(data) - len(end) + found.start()] if found else data


class DecodedText:
    """Bytes whose escapes are decoded, once."""

    def __init__(self, data: bytes) -> None:
        self._parts = _ESCAPE.split(data)
        """Every second one is an escape."""
        self._decoded = self._parts.copy()
        self._decoded[1::2] = map(_decode, self._parts[1::2])
        self.text = b"".join(self._decoded)
        self._ends: list[int] = []
        self._decoded_ends: list[int] = []

    def start(self, offset: int) -> int:
        """Return the offset in the original bytes of what begins at `offset`."""
        index, rest = self._part(offset)
        return self._ends[index] - len(self._parts[index]) + (0 if index % 2 else rest)

    def end(self, offset: int) -> int:
        """Return the offset in the original bytes of what ends at `offset`."""
        index, rest = self._part(offset - 1)
        return self._ends[index] - (0 if index % 2 else len(self._parts[index]) - rest - 1)

    def _part(self, offset: int) -> tuple[int, int]:
        """Return the index of the part with the byte at `offset`, and the byte's offset in it."""
        if not self._ends:
            self._ends = list(accumulate(map(len, self._parts)))
            self._decoded_ends = list(accumulate(map(len, self._decoded)))
        index = bisect_right(self._decoded_ends, offset)
        return index, offset - self._decoded_ends[index] + len(self._decoded[index])


@lru_cache(4096)
def _decode(escape: bytes) -> bytes:
    if escape.startswith(b"%"):
        return unquote_to_bytes(b"%" + escape[-2:])
    if codes := _HEX.findall(escape):
        character = bytes.fromhex(b"".join(codes).decode()).decode("utf-16-be", "surrogatepass")
        try:
            return character.encode("utf-8", "surrogateescape")  # how Python reads bytes that are not UTF-8
        except UnicodeEncodeError:
            return escape
    return _SHORT_ESCAPES.get(escape[-1:], escape[-1:])
