r"""Find secrets in bytes: as they are, as JSON escapes them, and as URLs encode them.

The escapes of the searched bytes are decoded, so that it does not matter which characters a writer escapes, in which
case, and how often: `S`, `\u0053`, `\\u0053`, `%53`, `%2553` and `%5Cu0053` are the same letter.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from heapq import merge
from itertools import accumulate, chain
from urllib.parse import unquote_to_bytes

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from wiretape.bounded_dict import cache_short

Span = tuple[int, int]
"""Start and end offset."""

SHORTEST = 8
"""Shorter secrets are not remembered: they would be found within words."""
LONGEST = 128
"""Longer secrets are remembered in pieces of this length, so that little has to be held back at the end of a chunk."""
KEPT = 5_000
"""Number of pieces that are always remembered: those that were used last.  At most twice as many are."""
_FEW = 64
"""An automaton of so few patterns is built fast, and searches faster than one of many."""
_VERY_FEW = 8
"""In data without secrets, so few patterns are searched for one by one faster than by an automaton."""

_HEX = "[0-9a-fA-F]"
_ENCODED_BACKSLASH = r"(?:%(?:25){0,2}5[cC]|\\{1,2}u005[cC])"
_BACKSLASH = rf"(?:{_ENCODED_BACKSLASH}{{1,4}}|\\{{1,8}})"
"""The beginning of a JSON escape, in up to four texts within each other, the outermost of which may be a URL."""
_PERCENT = r"(?:%|\\{1,8}u0025)(?:25){0,4}"
"""The beginning of a URL escape, in up to five texts within each other, the outermost of which may be JSON."""
_HIGH = rf"{_BACKSLASH}u[dD][89abAB]{_HEX}{{2}}"
"""The first half of a character."""
_PERCENT_CODE = re.compile(rf"{_PERCENT}{_HEX}{{2}}".encode())
_ESCAPE = re.compile(
    rf"""(
    %(?:25){{0,4}}+(?!5[cC]){_HEX}{{2}}  # the most frequent one
    |\\{{1,8}}u0025(?:25){{0,4}}{_HEX}{{2}}
    |{_HIGH}{_BACKSLASH}u[dD][c-fC-F]{_HEX}{{2}}
    |{_BACKSLASH}u{_HEX}{{4}}
    |{_BACKSLASH}(?:[bfnrt"/]|%(?:25)?2[2fF])
    |{_ENCODED_BACKSLASH}{{2,8}}(?!{_ENCODED_BACKSLASH})
    |{_PERCENT}{_HEX}{{2}}
    |\\{{2,8}}(?!\\)
    )""".encode(),
    re.VERBOSE,
)
_INCOMPLETE_ESCAPE = re.compile(
    rf"(?:(?:{_HIGH})?{_BACKSLASH}(?:u{_HEX}{{0,3}})?|{_HIGH}|{_BACKSLASH}?{_PERCENT}{_HEX}?)\Z".encode()
)
_LONGEST_ESCAPE = 68
_LONGEST_SPELLING = LONGEST * 34
"""Most bytes that spell a text."""
_BACKSLASH_CODE = re.compile(_ENCODED_BACKSLASH.encode())
_JSON_CODE = re.compile(rb"u([0-9a-fA-F]{4})")
_SHORT_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_IN_ESCAPES = b"\\%u0123456789abcdefABCDEFnrt"
"""What escapes consist of, apart from characters that stand for themselves after a backslash."""
_NEAR = 256
"""It is faster to decode so many bytes than another span."""
_WINDOW = 1 << 16
"""So many bytes are decoded at a time: the parts of a text full of escapes take fifty times its memory."""


@cache_short
def spellings(secret: bytes) -> frozenset[bytes]:
    """Return what a finder has to search for: the secret, as services read it, without its escapes."""
    found = {secret, DecodedText(secret).text}
    found |= {each.replace(b" ", b"+") for each in found}
    found |= {each.replace(b"\\", b"") for each in found}  # in `\\\u003c`, the escape takes the backslash before it
    if not secret.isascii():  # most services read headers as Latin-1
        found |= {each.decode("latin-1").encode() for each in found}
    return frozenset(found)


class SecretFinder:
    """Finds secrets at a cost that hardly depends on how many there are.

    The first bytes of the secrets are the patterns of an Aho-Corasick automaton, which finds them all in one pass.
    Those of the newest secrets have a small automaton, until there are enough of them to build the large one again.
    """

    def __init__(self, shortest: int = SHORTEST, kept: int = KEPT, *, as_words: bool = False) -> None:
        """`shortest` is the length of the shortest secret; `kept` is how many are always remembered.

        With `as_words`, letters and digits before or after a secret hide it.
        """
        self._shortest = shortest
        self._kept = kept
        self._as_words = as_words
        self._pieces: dict[bytes, None] = {}
        """What is searched for: secrets, or pieces of them, the one that was used last at the end."""
        self._forget()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, newest_first: Iterable[bytes]) -> None:
        """Remember secrets, or note that they were used again.  Ignores those that are too short.

        Of thousands, the oldest are ignored as well, as the others would make them forgotten at once.
        """
        added: dict[bytes, None] = {}
        for piece in (piece for secret in newest_first for piece in self._last_pieces(secret)):
            added[piece] = None
            if len(added) == self._kept:
                break
        for piece in reversed(added):
            if piece in self._pieces:
                del self._pieces[piece]
            else:
                self._index(piece)
            self._pieces[piece] = None
        if len(self._pieces) > 2 * self._kept:
            self._pieces = dict.fromkeys([*self._pieces][-self._kept :])
            self._forget()
            for piece in self._pieces:
                self._index(piece)

    def find(self, data: bytes) -> list[Span]:
        """Return where secrets are in `data`, in order, in any spelling; those that overlap or touch as one span."""
        escaped = self._find_escaped(data) if b"%" in data or b"\\" in data else ()
        return join_spans(chain(self._find_plain(data), escaped))

    def partial(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` are the beginning of a secret, in any spelling, but not all.

        The beginning of an escape may be that of a secret, too.
        """
        data = self._known_escapes().end(data)
        if not data:
            return 0
        reading = DecodedText(data, is_cut=True)
        text = reading.text
        starts = [len(data) - self._partial_plain(data), reading.start(len(text) - self._partial_plain(text))]
        for start, head, rest in reading.heads(self._begins_piece):
            if len(text) - rest < LONGEST and self._begins_piece(head + text[rest:]):
                starts.append(start)
        return len(data) - min(starts)

    def _forget(self) -> None:
        self._sorted: list[bytes] = []
        """The pieces."""
        self._nested: dict[bytes, list[int]] = {}
        """For some pieces, the lengths of their beginnings that are pieces, too."""
        self._firsts: set[bytes] = set()
        """The first bytes of all pieces."""
        self._newest: list[bytes] = []
        """First bytes that are in no automaton but the small one."""
        self._large: BytesAhoCorasick | None = None
        self._small: BytesAhoCorasick | None = None
        """None if it has to be built."""
        self._run = b"\1" * LONGEST
        """As many of these as the shortest piece has bytes."""
        self._is_in_secrets = bytearray(256)
        """For each byte, 1 if it occurs in pieces."""
        self._escapes: _Escapes | None = None
        """None if new bytes occur in pieces."""

    def _last_pieces(self, secret: bytes) -> Iterator[bytes]:
        """Yield the pieces of a secret, the last one first; it overlaps the one before it, so that none is short."""
        if len(secret) >= self._shortest:
            for end in (len(secret), *reversed(range(LONGEST, len(secret), LONGEST))):
                yield secret[max(0, end - LONGEST) : end]

    def _index(self, piece: bytes) -> None:
        insort(self._sorted, piece)
        first = piece[: self._shortest]
        if first not in self._firsts:
            self._firsts.add(first)
            self._newest.append(first)
            self._small = None
        self._nested.clear()
        self._run = self._run[: len(piece)]
        for byte in set(piece):
            if not self._is_in_secrets[byte]:
                self._is_in_secrets[byte] = 1
                self._escapes = None

    def _automatons(self) -> Iterator[BytesAhoCorasick]:
        if len(self._newest) > max(_FEW, len(self._firsts) // _FEW):
            self._large, self._newest, self._small = _automaton(self._firsts), [], None
        if self._small is None and self._newest:
            self._small = _automaton(self._newest)
        return (each for each in (self._large, self._small) if each is not None)

    def _find_plain(self, data: bytes) -> list[Span]:
        """Return where secrets are in `data`, as they are."""
        if len(self._firsts) <= _VERY_FEW:
            if not any(first in data for first in self._firsts):
                return []
        # Most data has no run of bytes of secrets that is as long as one.
        elif len(self._firsts) > _FEW and self._run not in data.translate(self._is_in_secrets):
            return []
        found: list[Span] = []
        for automaton in self._automatons():
            spans, until = list[Span](), 0
            for _, first, last in automaton.find_matches_as_indexes(data):
                for start in range(first, last):  # matches that overlap this one are not reported
                    if (end := self._end(data, start)) > until:
                        begin = spans.pop()[0] if spans and start <= until else start
                        spans.append((begin, end))
                        until = end
            found += spans
        return found

    def _end(self, data: bytes, start: int) -> int:
        """Return the end of the longest secret that begins at `start`; 0 if none does."""
        if data[start : start + self._shortest] not in self._firsts:
            return 0
        # A piece that begins here is this one, or its beginning.
        piece = self._sorted[bisect_right(self._sorted, data[start : start + LONGEST]) - 1]
        lengths = self._nested.get(piece)
        if lengths is None:
            every = range(self._shortest, len(piece) + 1)
            lengths = self._nested[piece] = [size for size in every if piece[:size] in self._pieces]
        count = bisect_left(lengths, True, key=lambda size: not data.startswith(piece[:size], start))
        for size in reversed(lengths[:count]):
            end = start + size
            if not (self._as_words and (data[start - 1 : start].isalnum() or data[end : end + 1].isalnum())):
                return end
        return 0

    def _find_escaped(self, data: bytes) -> Iterator[Span]:
        """Yield where secrets are in other spellings.

        Only bytes around an escape of one of their characters are decoded; other escapes are frequent.
        """
        for begin, until in self._known_escapes().spans(data):
            reading = DecodedText(data[begin:until])
            for start, end in self._find_plain(reading.text):
                yield begin + reading.start(start), begin + reading.end(end)
            for offset, head, rest in reading.heads(self._begins_piece):
                if end := self._end(head + reading.text[rest : rest + LONGEST], 0):
                    yield begin + offset, begin + reading.end(rest + end - len(head))

    def _partial_plain(self, data: bytes) -> int:
        end = data[1 - LONGEST :]
        end = end[len(end.rstrip(self._known_escapes().characters)) :]
        return next((len(end) - start for start in range(len(end)) if self._begins_piece(end[start:])), 0)

    def _begins_piece(self, data: bytes) -> bool:
        """Whether `data` is the beginning of a piece, but not all of it."""
        index = bisect_left(self._sorted, data + b"\0")
        return index < len(self._sorted) and self._sorted[index].startswith(data)

    def _known_escapes(self) -> "_Escapes":
        if self._escapes is None:
            self._escapes = _Escapes(bytes(byte for byte, is_in in enumerate(self._is_in_secrets) if is_in))
        return self._escapes


def _automaton(patterns: Iterable[bytes]) -> BytesAhoCorasick:
    # The fastest implementation takes too long to build, and too much memory.
    return BytesAhoCorasick(patterns, MatchKind.LeftmostFirst, Implementation.ContiguousNFA)


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


class _Escapes:
    """Finds the spans of bytes that may spell texts of some characters with at least one escape."""

    def __init__(self, characters: bytes) -> None:
        self.characters = characters
        self._run_bytes = bytes({*characters, *_IN_ESCAPES})
        codes = _hex_codes(characters + rb"\%")  # both may begin an escape within an escape
        # With `(?=u)`, `re` searches for the backslash alone, which is faster.
        json_code = rb"\\(?=u)u" + (b"00" + codes if characters.isascii() else b"")
        escapes = [(b"%", rb"%(?:25){0,4}" + codes), (b"\\", json_code)]
        short = [code for code, character in _SHORT_ESCAPES.items() if character in characters]
        if short := [*short, *(re.escape(bytes([each])) for each in b'"/\\' if each in characters)]:
            escapes.append((b"\\", rb"\\(?:%b)" % b"|".join(short)))
        run = rb"[%b]{0,%d}+" % (b"".join(rb"\x%02x" % each for each in self._run_bytes), _WINDOW)
        self._patterns = [(first, re.compile(escape + run)) for first, escape in escapes]
        """Each with the byte that it begins with, whose absence is found much faster."""

    def end(self, data: bytes) -> bytes:
        """Return the bytes at the end of `data` that may spell the beginning of a text."""
        data = data[-_LONGEST_SPELLING:]
        return data[len(data.rstrip(self._run_bytes)) :]

    def spans(self, data: bytes) -> Iterator[Span]:
        """Yield where texts with such escapes may be.  Spans that are near are one; a long one overlaps the next."""
        span: Span | None = None
        for start, end in merge(*(self._runs(data, pattern) for first, pattern in self._patterns if first in data)):
            if span and start < span[1] + _NEAR and end < span[0] + _WINDOW:
                span = (span[0], max(span[1], end))
                continue
            if span:
                yield span
            span = (start, end)
        if span:
            yield span

    def _runs(self, data: bytes, pattern: re.Pattern[bytes]) -> Iterator[Span]:
        at = 0
        while match := pattern.search(data, at):
            start, end = match.span()
            yield start - len(self.end(data[max(at, start - _LONGEST_SPELLING) : start])), end
            at = end if end - start < _WINDOW else end - _LONGEST_SPELLING


def _hex_codes(characters: bytes) -> bytes:
    """Return a pattern of the codes of characters."""
    digits: dict[str, str] = {}
    for code in sorted({f"{each:02x}" for each in characters}):
        digits[code[0]] = digits.get(code[0], "") + code[1] + code[1].upper()
    return "(?:{})".format("|".join(f"[{a}{a.upper()}][{b}]" for a, b in digits.items())).encode()


def count_characters(data: bytes) -> int:
    """Return how many bytes are left after decoding, without an escape that is not complete."""
    return len(DecodedText(data, is_cut=True).text)


class DecodedText:
    """Bytes whose escapes are decoded."""

    def __init__(self, data: bytes, *, is_cut: bool = False) -> None:
        """With `is_cut`, the text ends before an escape that is not complete."""
        # Both patterns try each byte, which takes longer than this search.
        has_escapes = b"%" in data or b"\\" in data
        is_cut = is_cut and has_escapes
        cut = _INCOMPLETE_ESCAPE.search(data, max(0, len(data) - _LONGEST_ESCAPE)) if is_cut else None
        end = cut.start() if cut else len(data)
        self._parts = [*(_ESCAPE.split(data[:end]) if has_escapes else [data]), data[end:]]
        """Every second one is an escape, or the beginning of one."""
        self._decoded = self._parts.copy()
        self._decoded[1::2] = [*map(_decode, self._parts[1:-1:2]), b""]
        self.text = b"".join(self._decoded)

    def start(self, offset: int) -> int:
        """Return the offset in the original bytes of what begins at `offset`."""
        index, rest = self._part(offset)
        return self._ends[index] - len(self._parts[index]) + (0 if index % 2 else rest)

    def end(self, offset: int) -> int:
        """Return the offset in the original bytes of what ends at `offset`."""
        index, rest = self._part(offset - 1)
        return self._ends[index] if index % 2 else self._ends[index] - len(self._parts[index]) + rest + 1

    def heads(self, is_wanted: Callable[[bytes], bool]) -> Iterator[tuple[int, bytes, int]]:
        """Yield the last bytes of escapes that are wanted, read as they are: in `%2e%66`, `ef` may be meant.

        Each with its offset in the original bytes, and before the offset in the decoded text of what follows.
        """
        tails = {each: [tail for tail in _tails(each) if is_wanted(tail[1])] for each in {*self._parts[1::2]}}
        for index in range(1, len(self._parts), 2) if any(tails.values()) else ():
            for length, text in tails[self._parts[index]]:
                yield self._ends[index] - length, text, self._decoded_ends[index]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self._parts)))

    @cached_property
    def _decoded_ends(self) -> list[int]:
        return list(accumulate(map(len, self._decoded)))

    def _part(self, offset: int) -> tuple[int, int]:
        """Return the index of the part with the byte at an offset of the text, and the byte's offset in it."""
        index = min(bisect_right(self._decoded_ends, offset), len(self._decoded) - 1)
        return index, offset - (self._decoded_ends[index - 1] if index else 0)


@lru_cache(4096)
def _tails(escape: bytes) -> list[tuple[int, bytes]]:
    """Return the length and the text of what an escape ends with, without its first bytes."""
    starts = (at for at in range(1, len(escape)) if escape[at - 1 : at + 1] != rb"\\")
    return [(len(escape) - at, DecodedText(escape[at:]).text) for at in starts]


@lru_cache(4096)
def _decode(escape: bytes) -> bytes:
    if _PERCENT_CODE.fullmatch(escape):
        return unquote_to_bytes(b"%" + escape[-2:])
    escape = _BACKSLASH_CODE.sub(rb"\\", escape)
    if codes := _JSON_CODE.findall(escape):
        character = bytes.fromhex(b"".join(codes).decode()).decode("utf-16-be", "surrogatepass")
        try:
            return character.encode("utf-8", "surrogateescape")  # how Python reads bytes that are not UTF-8
        except UnicodeEncodeError:
            return escape
    last = unquote_to_bytes(escape.replace(b"%25", b"%"))[-1:]
    return _SHORT_ESCAPES.get(last, last)
