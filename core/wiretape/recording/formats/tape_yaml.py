"""YAML of tapes, read and written through PyYAML.

Values follow the rules of YAML 1.2 and JSON: `yes` and `2025-01-01` are strings, and numbers with a fraction are
decimals, so that nanoseconds are exact.  Short values are written on one line, as JSON, and long ones over several.
"""

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson
import yaml

from wiretape.errors import InputError
from wiretape.files import read_limited
from wiretape.input_validation import KeyPath, Source
from wiretape.recording.formats.tape_schema import BASE64_WIDTH, MAX_TAPE_BYTES
from wiretape.safe_text import escape_json, shorten

MAX_DEPTH = 100
_WORDS: Mapping[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_DIGITS = 1000

_WIDTH = 120
"""Longer mappings and lists are written over several lines."""
_NO_FOLDING = 2**31 - 1
_LOOKS_DIFFERENT = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Strings that are read as something else unless they are quoted, here or by other YAML parsers."""
_LONG_BASE64 = re.compile(r"(?:data:[\w/+.;=-]{1,100},)?[A-Za-z0-9+/_-]{200,}={0,2}")
_FOLD = r"\x01"
"""How the mark U+0001 is written.  If a document contains it, nothing is folded."""
_ESCAPED_ASTRAL = re.compile(r"(?<!\\)((?:\\\\)*)\\U000([0-9A-F]{5})")

# libyaml's parser is ten times as fast; PyYAML's wheels contain it.
_Parser: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_Positions = dict[KeyPath, tuple[int, int]]
"""The line and the column of values, by key path."""
_NOTED_DEPTH = 2
"""The positions of values at longer key paths are not remembered: the document is read again to find one."""


class _RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that a tape must not contain."""


class YamlDocument:
    """One of the documents of a tape."""

    def __init__(self, path: Path, text: str, index: int, value: dict[str, Any], positions: _Positions) -> None:
        self.value = value
        self.source = Source(str(path), lambda keys: self.position(keys)[0])
        self._path = path
        self._text = text
        self._index = index
        self._positions = positions

    def position(self, path: KeyPath) -> tuple[int, int]:
        """Return the line and the column of the value at a key path, or else of the innermost value around it."""
        positions = self._positions
        if len(path) > _NOTED_DEPTH:
            documents = _Reader(self._path, self._text, path).documents()
            _, positions = next(islice(documents, self._index, None))
        while path not in positions:
            path = path[:-1]
        return positions[path]


class _Reader:
    """Reads the values of documents.  PyYAML's own constructors would need ten times as much memory, and no depth.

    Raises InputError and yaml.YAMLError.
    """

    def __init__(self, path: Path, text: str, wanted: KeyPath = ()) -> None:
        """`wanted` is a key path; the positions of the values around it are noted."""
        self._file = path
        self._parser = _Parser(text)
        self._wanted = wanted
        self._positions: _Positions = {}

    def documents(self) -> Iterator[tuple[Any, _Positions]]:
        """Yield the value of each document, and the positions in it."""
        self._parser.get_event()
        while not self._parser.check_event(yaml.StreamEndEvent):
            self._parser.get_event()
            self._positions = {}
            with _paused_garbage_collection():
                value = self._value((), self._parser.peek_event())
            yield value, self._positions
            self._parser.get_event()

    def _value(self, path: KeyPath, place: Any) -> Any:
        """Read the value at a key path; what `place` begins with stands for its position."""
        event = self._parser.get_event()
        if len(path) <= _NOTED_DEPTH or path == self._wanted[: len(path)]:
            self._positions[path] = (_line_of(place), int(place.start_mark.column) + 1)
        if getattr(event, "anchor", None) is not None:
            problem = "anchors and aliases are not allowed; write out the value"
            raise _RefusedError(problem=problem, problem_mark=event.start_mark)
        if len(path) > MAX_DEPTH:
            raise _RefusedError(problem="nested too deeply", problem_mark=event.start_mark)
        if event.tag not in {None, "!"}:
            raise self._error(place, path, f"tags such as {shorten(event.tag)} are not allowed")
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else _plain_value(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not self._parser.check_event(yaml.SequenceEndEvent):
                items.append(self._value((*path, len(items)), self._parser.peek_event()))
            self._parser.get_event()
            return items
        return self._mapping(path)

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not self._parser.check_event(yaml.MappingEndEvent):
            key = self._parser.get_event()
            if not isinstance(key, yaml.ScalarEvent):
                raise self._error(key, path, "every key must be a string")
            if key.value in mapping:
                raise self._error(key, (*path, key.value), "the key appears twice")
            mapping[key.value] = self._value((*path, key.value), key)
        self._parser.get_event()
        return mapping

    def _error(self, event: Any, path: KeyPath, problem: str) -> InputError:
        return _error(self._file, _line_of(event), problem, path)


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1


def load_documents(path: Path) -> Iterator[YamlDocument]:
    """Read the documents of a tape, one at a time.  Raises InputError."""
    text = _read_text(path)
    try:
        for index, (value, positions) in enumerate(_Reader(path, text).documents()):
            if isinstance(value, dict):
                yield YamlDocument(path, text, index, value, positions)
            elif value:
                hint = "; write a space after the colon" if ":" in str(value) else ""
                raise _error(path, positions[()][0], f"expected keys and values, for example request: GET /{hint}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        kind = "" if isinstance(error, _RefusedError) else "invalid YAML: "
        problem = shorten(error.problem or str(error))
        raise _error(path, mark.line + 1 if mark else 1, kind + problem) from None
    except yaml.YAMLError as error:
        raise InputError(f"{path} contains invalid YAML: {shorten(str(error).partition(chr(10))[0])}.") from None


def _read_text(path: Path) -> str:
    data = read_limited(path, "a tape", MAX_TAPE_BYTES, " Split it into several tapes.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None


def _error(path: Path, line: int, problem: str, keys: KeyPath = ()) -> InputError:
    return Source(str(path), lambda _: line).error(keys, problem)


@contextmanager
def _paused_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: with a million new nodes and no garbage, it takes more than half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Decimal(text)
    return text


class Plain(str):
    """Text that is written without quotes, such as a number."""

    __slots__ = ()


def format_seconds(ns: int) -> Plain:
    """Return nanoseconds as seconds, exact and as short as possible."""
    text = f"{Decimal(ns).scaleb(-9):f}"
    return Plain(text.rstrip("0").rstrip(".") if "." in text else text)


class OneLine(list[Any]):
    """List that is written on one line, however long."""

    __slots__ = ()


class Items(list[dict[str, Any]]):
    """List that is written with each item, and each of its keys, on a line of its own."""

    __slots__ = ()


def dump_document(document: dict[str, Any], *, explicit: bool = True) -> str:
    """Return a document of keys and values as YAML, after a line `---` if `explicit`."""
    text = _dump(document, explicit=explicit)
    if _FOLD in text or not _LONG_BASE64.search(text):
        return text
    lines = _dump(_mark_folds(document), explicit=explicit).split("\n")
    return "\n".join(line.replace(_FOLD, "\\\n" + " " * (len(line) - len(line.lstrip()) + 4)) for line in lines)


def _mark_folds(value: Any) -> Any:
    """Return a value with marks in long base64, at which double-quoted text can be continued on the next line."""
    if isinstance(value, dict):
        return {key: _mark_folds(item) for key, item in value.items()}
    if isinstance(value, list):
        return type(value)(map(_mark_folds, value))
    if isinstance(value, str) and _LONG_BASE64.fullmatch(value):
        return "\1".join(value[at : at + BASE64_WIDTH] for at in range(0, len(value), BASE64_WIDTH))
    return value


def _dump(document: dict[str, Any], *, explicit: bool) -> str:
    buffer = StringIO()
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)(buffer, allow_unicode=True, width=_NO_FOLDING)
    begin = (yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=explicit))
    end = (yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent())
    for event in chain(begin, _block(document, 0), end):
        dumper.emit(event)
    # Unsafe characters and backslashes occur only in double quotes, see `_scalar`.
    return _ESCAPED_ASTRAL.sub(lambda found: found[1] + chr(int(found[2], 16)), escape_json(buffer.getvalue()))


def _scalar(text: str) -> yaml.ScalarEvent:
    """Return a string in the simplest style that is read as this string; PyYAML refines it if it is not enough."""
    style = None
    if not isinstance(text, Plain):
        if "\\" in text or escape_json(text) != text:
            style = '"'
        elif "\n" in text:
            style = "|"
        elif text.lower() in _LOOKS_DIFFERENT or text[0] in "0123456789+-.":
            style = "'" if '"' in text else '"'
    return yaml.ScalarEvent(None, None, (True, True), str(text), style=style)


def _block(mapping: dict[str, Any], indent: int) -> Iterator[yaml.Event]:
    """Return the events of a mapping with each key on a line of its own."""
    yield yaml.MappingStartEvent(None, None, True, flow_style=False)
    for key, value in mapping.items():
        yield _scalar(key)
        yield from _value(value, indent + len(key) + 2, indent)
    yield yaml.MappingEndEvent()


def _value(value: Any, column: int, indent: int) -> Iterator[yaml.Event]:
    """Return the events of a value that begins at a column, in a block with this indent."""
    if isinstance(value, str):
        yield _scalar(value)
    elif not isinstance(value, dict | list):
        yield _plain(value)
    elif (
        not value
        or isinstance(value, OneLine)
        or (
            not isinstance(value, Items) and column + len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)) <= _WIDTH
        )
    ):
        yield from _inline(value)
    elif isinstance(value, dict):
        yield from _block(value, indent + 2)
    else:
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for item in value:
            yield from _block(item, indent + 2) if isinstance(value, Items) else _value(item, indent + 2, indent + 2)
        yield yaml.SequenceEndEvent()


def _inline(value: Any) -> Iterator[yaml.Event]:
    """Return the events of a value on one line, as JSON."""
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=True)
        for key, item in value.items():
            yield _quoted(key)
            yield from _inline(item)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list | tuple):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=True)
        for item in value:
            yield from _inline(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _quoted(value) if isinstance(value, str) else _plain(value)


def _quoted(text: str) -> yaml.ScalarEvent:
    return yaml.ScalarEvent(None, None, (True, True), str(text), style=None if isinstance(text, Plain) else '"')


def _plain(value: Any) -> yaml.ScalarEvent:
    """Return null, a boolean or a number, as in JSON."""
    return yaml.ScalarEvent(None, None, (True, True), orjson.dumps(value).decode())
