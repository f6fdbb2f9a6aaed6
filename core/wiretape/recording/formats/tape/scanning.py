"""A tape cut into the pieces that are read one at a time, so that memory does not grow with it.

What YAML means by a piece is left to the YAML parser; where pieces begin is told by the beginnings of lines alone:
`---` begins an exchange, a key in the first column an entry, and within a list of observations, a dash in the column
of its first one the next.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.errors import InputError
from wiretape.recording.recording_source import MAX_HELD_BYTES
from wiretape.toml import wrong_at

LISTS = ("events", "body", "answer-body")
"""Entries that may hold a list of observations."""
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t\n]|$)")
_UNSPACED = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:\S")
_LIST = re.compile(r"[a-z-]+[ \t]*:[ \t]*(?:#.*)?\n?$")
_DASH = re.compile(r"( *)-(?:[ \t\n]|$)")
_IDLE = re.compile(r"[ \t]*(?:#.*)?\n?$")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a tape."""

    line: int
    """The number of the first, from 1."""
    text: str


@dataclass(slots=True)
class Listed:
    """A list of observations that is still to be read."""

    line: int
    begin: int
    """Offset in the file of the line after its key."""
    end: int = 0


@dataclass(slots=True)
class Document:
    """What stands between two `---`."""

    line: int
    entries: dict[str, Piece | Listed] = field(default_factory=dict)
    """By key, in order."""


class Scanner:
    """Goes through a tape.  Everything raises InputError where it is wrong, and OSError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        self._at = 0

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def wrong(self, line: int, what: str) -> InputError:
        """An error that names the line."""
        return wrong_at(self.path, line, (), what)

    def documents(self) -> Iterator[Document]:
        """The head of the tape, and its exchanges.  Lists may be read later, in any order."""
        offset, number = 0, 0
        document = Document(1)
        scan = _Entries(self)
        while raw := self._line(offset):
            number += 1
            text = self._decoded(raw, number)
            if text.startswith("---") and not text[3:4].strip():
                if document.entries or scan.begun:
                    yield scan.finished(document, offset)
                document, scan = Document(number), _Entries(self)
            else:
                scan.take(document, Piece(number, text), offset, offset + len(raw))
            offset += len(raw)
        if document.entries or scan.begun:
            yield scan.finished(document, offset)

    def items(self, listed: Listed) -> Iterator[Piece]:
        """The observations of a list."""
        offset, number = listed.begin, listed.line
        dash, first, lines = "", 0, list[str]()
        while offset < listed.end:
            raw = self._line(offset)
            number += 1
            offset += len(raw)
            text = self._decoded(raw, number)
            if not first and _IDLE.match(text):
                continue
            if not first and (found := _DASH.match(text)) is not None:
                dash = f"{found[1]}-"
            if text.startswith(dash) and not text[len(dash) : len(dash) + 1].strip():
                if first:
                    yield Piece(first, "".join(lines))
                first, lines = number, [text]
            else:
                lines.append(text)
        if first:
            yield Piece(first, "".join(lines))

    def _line(self, offset: int) -> bytes:
        if offset != self._at:
            self._file.seek(offset)
        line = self._file.readline(MAX_HELD_BYTES + 1)
        self._at = offset + len(line)
        return line

    def _decoded(self, raw: bytes, number: int) -> str:
        if len(raw) > MAX_HELD_BYTES:
            raise self.wrong(number, f"it is longer than {MAX_HELD_BYTES >> 20} MiB")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise self.wrong(number, "it is no UTF-8") from None
        return text[:-2] + "\n" if text.endswith("\r\n") else text


class _Entries:
    """Puts the lines of one document together."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._key = ""
        self._line = 0
        self._lines: list[str] = []
        self._listed: Listed | None = None

    @property
    def begun(self) -> bool:
        """Whether a key was seen."""
        return bool(self._key)

    def take(self, document: Document, line: Piece, offset: int, after: int) -> None:
        """Take a line, which stands at `offset`; `after` is where the next one does."""
        text = line.text
        found = _KEY.match(text)
        if found is not None:
            self._close(document, offset)
            self._key, self._line, self._lines = found[1], line.line, [text]
            self._listed = Listed(line.line, after) if found[1] in LISTS and _LIST.match(text) else None
        elif self._key:
            self._go_on(text)
        elif not _IDLE.match(text):
            what = "here a key has to stand, at the beginning of the line, as in request: GET /"
            if _UNSPACED.match(text):
                what = "a space has to stand behind the colon"
            raise self._scanner.wrong(line.line, what)

    def finished(self, document: Document, offset: int) -> Document:
        """The document, whole; `offset` is where it ends."""
        self._close(document, offset)
        return document

    def _go_on(self, text: str) -> None:
        if self._listed is not None and not _IDLE.match(text) and len(self._lines) == 1 and not _DASH.match(text):
            self._listed = None  # it is no list, but a value that begins on the line after its key
        if self._listed is None:
            self._lines.append(text)
        elif len(self._lines) == 1 and not _IDLE.match(text):
            self._lines.append("")  # the first of the list was seen: the rest is read when its turn comes

    def _close(self, document: Document, end: int) -> None:
        if not self._key:
            return
        if self._key in document.entries:
            raise self._scanner.wrong(self._line, f"{self._key} stands here a second time")
        if self._listed is not None and len(self._lines) > 1:
            self._listed.end = end
            document.entries[self._key] = self._listed
        else:
            document.entries[self._key] = Piece(self._line, "".join(self._lines))
        self._key = ""
