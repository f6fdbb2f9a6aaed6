"""Remembered secrets, found in bytes at a cost that hardly depends on how many there are.

Most bytes contain none.  Two filters, which learn a secret at once, decide in one pass whether there may be any.

If there may be, the secrets are the patterns of a few Aho-Corasick automatons; each finds all of its patterns in one
pass.  To build an automaton takes time in proportion to its patterns.  So the newest few secrets are searched for one
by one, and then move to a small automaton; large ones are built seldom.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from wiretape.recording.secret_spellings import Span, SpellingFinder

SHORTEST = 8
"""Shorter secrets are not remembered: they would be found within words."""
LONGEST = 128
"""Longer secrets are remembered in pieces of this length, so that little has to be held back at the end of a chunk."""
KEPT = 5_000
"""Number of pieces that are always remembered: those that were used last."""
MOST = 2 * KEPT
"""Most pieces that are remembered."""
_TIERS = (16, 128, 1024, MOST)
"""Most patterns in each tier; beyond, they move to the next one.  Each but the first has an automaton."""

_FEW = 8
"""So many secrets are searched for one by one: it is faster than a filter."""


class RememberedSecrets:
    """Secrets in two generations: when the newer one is full, the older one is forgotten."""

    def __init__(self) -> None:
        self._newer = _Generation()
        self._older = _Generation()
        self._newest: list[bytes] = []
        """Secrets that are in no automaton."""
        self._automatons: list[BytesAhoCorasick] = []
        self._is_current = True
        """Whether `_newest` and `_automatons` are those of the generations."""
        self._filters = _filters()
        self._bytes = b""
        """The bytes that occur in secrets."""
        self._spellings: SpellingFinder | None = None
        """None if there are new ones of these bytes."""

    def __bool__(self) -> bool:
        return bool(self._newer.patterns)

    def add(self, newest_first: Iterable[bytes]) -> None:
        """Remember secrets, or note that they were used again.  Ignores those that are too short.

        Of thousands, the oldest are ignored as well, as the others would make them forgotten at once.
        """
        pieces: dict[bytes, None] = {}
        for piece in (piece for secret in newest_first if len(secret) >= SHORTEST for piece in _last_pieces(secret)):
            pieces[piece] = None
            if len(pieces) == KEPT:
                break
        for piece in reversed(pieces):
            if self._newer.has(piece):
                continue
            if len(self._newer.patterns) >= KEPT:
                self._older, self._newer = self._newer, _Generation()
                self._older.join_tiers()
                self._filters = _filters(self._older.patterns)
                self._bytes = bytes(set().union(*self._older.patterns))
                self._spellings = None
            self._newer.add(piece)
            _add_to(self._filters, piece)
            if new := piece.translate(None, self._bytes):
                self._bytes += bytes(set(new))
                self._spellings = None
            self._is_current = False

    def find(self, data: bytes) -> list[Span]:
        """Return where secrets are in `data`, in order, in any spelling; those that overlap or touch as one span."""
        return join_spans(list(self._spelling_finder().find(data, self._find_plain)))

    def _find_plain(self, data: bytes) -> list[Span]:
        if not any(each.may_match(data) for each in self._filters):
            return []
        if not self._is_current:
            self._update()
        found: list[Span] = []
        for secret in self._newest:
            if secret in data:
                found += _find_one(secret, data)
        for automaton in self._automatons:
            if matches := automaton.find_matches_as_indexes(data):
                found += _with_overlapping(automaton, data, matches)
        return found

    def partial(self, data: bytes) -> int:
        """Return how many bytes at the end of `data` are the beginning of a secret, in any spelling, but not all."""
        return self._spelling_finder().find_beginning(data, self._partial_plain)

    def _spelling_finder(self) -> SpellingFinder:
        if self._spellings is None:
            self._spellings = SpellingFinder(self._bytes, LONGEST)
        return self._spellings

    def _partial_plain(self, data: bytes) -> int:
        end = data[1 - LONGEST :]
        end = end[len(end.rstrip(self._bytes)) :]
        for start in range(len(end)):
            if self._newer.has_beginning(end[start:]) or self._older.has_beginning(end[start:]):
                return len(end) - start
        return 0

    def _update(self) -> None:
        self._newest = self._newer.newest
        self._automatons = [*self._newer.automatons(), *self._older.automatons()]
        self._is_current = True


def _last_pieces(secret: bytes) -> Iterator[bytes]:
    """Yield the pieces of a secret, the last one first; it overlaps the one before it, so that none is short."""
    for end in (len(secret), *reversed(range(LONGEST, len(secret), LONGEST))):
        yield secret[max(0, end - LONGEST) : end]


class _Filter:
    """Tells whether secrets may be in bytes, and is sometimes wrong if it says yes.

    A secret is a run of bytes that occur in secrets; most data has no run that is as long as one.

    Otherwise, the bytes are cut into words, of which every `step`-th byte begins one.  Wherever a long enough secret
    is, one of these words is within its end, so the filter knows the words at each offset of the ends of its secrets.
    """

    def __init__(self, typecode: str, step: int) -> None:
        self._typecode = typecode
        self._width = array(typecode).itemsize
        self._step = step
        self.shortest = step + self._width - 1
        """Length of the shortest secret that it finds."""
        self._few: list[bytes] = []
        """The first secrets."""
        self._count = 0
        self._run = b"\1" * LONGEST
        """As many of these as the shortest secret has bytes."""
        self._is_in_secrets = bytearray(256)
        """For each byte, 1 if it occurs in secrets."""
        self._words: set[int] = set()

    def add(self, secret: bytes) -> None:
        self._count += 1
        self._run = self._run[: len(secret)]
        for byte in secret:
            self._is_in_secrets[byte] = 1
        if self._count <= _FEW:
            self._few.append(secret)
        end = secret[-self.shortest :]
        words = b"".join(end[at : at + self._step] for at in range(self._width))
        self._words.update(array(self._typecode, words))

    def may_match(self, data: bytes) -> bool:
        if self._count <= _FEW:
            return any(secret in data for secret in self._few)
        if self._run not in data.translate(self._is_in_secrets):
            return False
        words = array(self._typecode, data[: len(data) // self._width * self._width])
        return not self._words.isdisjoint(words[:: self._step // self._width])


def _filters(secrets: Iterable[bytes] = ()) -> tuple[_Filter, ...]:
    """Return filters for secrets of all lengths, the one for the longest first."""
    filters = (_Filter("Q", 16), _Filter("I", 4))
    for secret in secrets:
        _add_to(filters, secret)
    return filters


def _add_to(filters: tuple[_Filter, ...], secret: bytes) -> None:
    next(each for each in filters if len(secret) >= each.shortest).add(secret)


class _Generation:
    def __init__(self) -> None:
        self.patterns: list[bytes] = []
        """Sorted."""
        self._tiers: list[list[bytes]] = [[] for _ in _TIERS]
        self._automatons: list[BytesAhoCorasick | None] = [None for _ in _TIERS]
        """One for each tier but the first; None if it has to be built."""

    @property
    def newest(self) -> list[bytes]:
        """The patterns that are in no automaton."""
        return self._tiers[0]

    def has(self, pattern: bytes) -> bool:
        index = bisect_left(self.patterns, pattern)
        return index < len(self.patterns) and self.patterns[index] == pattern

    def has_beginning(self, data: bytes) -> bool:
        """Whether a pattern begins with `data` and is longer."""
        index = bisect_left(self.patterns, data + b"\0")
        return index < len(self.patterns) and self.patterns[index].startswith(data)

    def add(self, pattern: bytes) -> None:
        insort(self.patterns, pattern)
        self._tiers[0].append(pattern)
        for index, limit in enumerate(_TIERS):
            if len(self._tiers[index]) > limit:
                self._move_up(index)

    def join_tiers(self) -> None:
        """Move all patterns into one automaton."""
        for index in range(len(_TIERS) - 1):
            self._move_up(index)

    def automatons(self) -> Iterator[BytesAhoCorasick]:
        for index, tier in enumerate(self._tiers[1:], 1):
            automaton = self._automatons[index]
            if automaton is None and tier:
                # The fastest implementation takes too long to build, and too much memory.
                automaton = BytesAhoCorasick(tier, MatchKind.LeftmostLongest, Implementation.ContiguousNFA)
                self._automatons[index] = automaton
            if automaton is not None:
                yield automaton

    def _move_up(self, index: int) -> None:
        self._tiers[index + 1] += self._tiers[index]
        self._tiers[index] = []
        self._automatons[index] = self._automatons[index + 1] = None


def _find_one(secret: bytes, data: bytes) -> Iterator[Span]:
    start = data.find(secret)
    while start >= 0:
        end = start + len(secret)
        yield start, end
        # Of those that overlap this one, the last covers the others.
        last = data.rfind(secret, start + 1, end + len(secret))
        start = last if last >= 0 else data.find(secret, end)


def _with_overlapping(automaton: BytesAhoCorasick, data: bytes, matches: list[tuple[int, int, int]]) -> Iterator[Span]:
    """Yield the spans of matches and of those that overlap them: the end of one secret may be the beginning of another.

    Each search is one of the few bytes in which another match can overlap, and at most one begins at each byte.
    """
    until = 0
    for _, start, end in matches:
        if start < until:  # it was found below, after the match before it
            continue
        until = end
        yield start, end
        # Where a match that overlaps may begin.  The last such place is searched first: its matches end late, and then
        # those that begin long before their end need no search.  Secrets of dashes match at every byte.
        unsearched = [(start + 1, end)]
        while unsearched:
            first, last = unsearched.pop()
            first = max(first, until + 1 - LONGEST)
            if first >= last:
                continue
            following = automaton.find_matches_as_indexes(data[first : last + LONGEST - 1])
            if not following or (start := first + following[0][1]) >= last:
                continue
            unsearched.append((start + 1, last))
            if (farther := first + following[0][2]) > until:
                yield start, farther
                unsearched.append((until, farther))
                until = farther


def join_spans(spans: list[Span]) -> list[Span]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
