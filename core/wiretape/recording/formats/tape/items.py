"""One observation of a body, as a tape says it: when it came, and the bytes, in one chunk or more."""

from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from wiretape.recording.formats.tape.framing import (
    AS_DATA,
    JSON_STYLES,
    PLAIN,
    AsData,
    Framing,
    one_line_wrong,
)
from wiretape.recording.formats.tape.quick import plain_event
from wiretape.recording.formats.tape.scanning import Piece
from wiretape.recording.formats.tape.values import item
from wiretape.toml import Table

SECOND = 1_000_000_000
STEP_NS = 1_000_000
"""What lies between two things of which a tape does not say how far they are apart."""
_LONGEST_S = 10**9


@dataclass(frozen=True, slots=True)
class Chunks:
    """Bytes that came."""

    parts: tuple[tuple[int, bytes], ...]
    """For each chunk the time since what came before (ns), and its bytes."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Bytes that came and were not recorded."""

    after_ns: int
    count: int
    why: str


def read_items(path: Path, pieces: Iterator[Piece], key: str, framing: Framing) -> Iterator[Chunks | Lost]:
    """What the elements of a list say.  Raises InputError."""
    usual = framing == PLAIN
    for piece in pieces:
        plain = plain_event(piece.text) if usual else None
        yield Chunks((plain,)) if plain is not None else read_item(item(path, piece, (key,)), framing)


def read_item(table: Table, framing: Framing) -> Chunks | Lost:
    """What one element says.  Raises InputError."""
    kind = _kind(table)
    table.only([kind, "after", *_WITH.get(kind, ("cut",))], f"key beside {kind}")
    after_ns = seconds(table, "after", STEP_NS)
    if kind == "lost":
        return Lost(after_ns, table.integer("lost"), text_of(table, "why", ""))
    if kind == "pieces":
        data = b"".join(_part(part, framing) for part in _pieces(table))
    else:
        data = _KINDS[kind](table, framing)
    return Chunks(tuple(_cut(table, after_ns, data)))


def _kind(table: Table) -> str:
    found = [name for name in (*_KINDS, "lost", "pieces") if name in table]
    if len(found) > 1:
        raise table.wrong(found[1], f"{found[0]} and {found[1]} do not go together: write one after the other")
    if not found:
        table.only(["after", "cut", *_KINDS, "lost", "pieces"], "key")
        raise table.wrong(None, f"it needs one of {', '.join(_KINDS)}, lost, pieces")
    return found[0]


def _pieces(table: Table) -> list[Table]:
    listed = table.values["pieces"]
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise table.wrong("pieces", 'it has to be a list of such things as - data: {"type": "run.started"}')
    return table.tables("pieces")


def _part(table: Table, framing: Framing) -> bytes:
    kind = _kind(table)
    if kind not in _KINDS:
        raise table.wrong(kind, "it stands beside pieces, not within them")
    table.only([kind, *(name for name in _WITH.get(kind, ()) if name != "cut")], f"key beside {kind}")
    return _KINDS[kind](table, framing)


def _data(table: Table, framing: Framing) -> bytes:
    try:
        return framing.event(table.values["data"], _line(table, "event"), _line(table, "id"))
    except (ValueError, RecursionError) as error:
        raise table.wrong("data", f"it is nothing that JSON can say: {error}") from None


def _line(table: Table, key: str) -> str | AsData | None:
    """A field of an event that is said; None where it is said that there is none."""
    if key not in table:
        return AS_DATA
    return None if table.values[key] is None else _one_line(table, key)


def _comment(table: Table, framing: Framing) -> bytes:
    blank = framing.end if table.flag("blank", default=False) else b""
    return framing.comment(_one_line(table, "comment")) + blank


def _lines(table: Table, framing: Framing) -> bytes:
    return framing.lines(text_of(table, "lines"))


def _json(table: Table, framing: Framing) -> bytes:
    try:
        written = replace(framing, json=table.one_of("style", list(JSON_STYLES), framing.json))
        return written.document(table.values["json"]) + (b"\n" if table.flag("newline", default=False) else b"")
    except (ValueError, RecursionError) as error:
        raise table.wrong("json", f"it is nothing that JSON can say: {error}") from None


def _text(table: Table, _framing: Framing) -> bytes:
    return text_of(table, "text").encode()


def _base64(table: Table, _framing: Framing) -> bytes:
    try:
        return b64decode("".join(text_of(table, "base64").split()), validate=True)
    except ValueError:
        raise table.wrong("base64", "it is no base64") from None


_KINDS: dict[str, Callable[[Table, Framing], bytes]] = {
    "data": _data,
    "comment": _comment,
    "lines": _lines,
    "json": _json,
    "text": _text,
    "base64": _base64,
}
_WITH = {
    "data": ("event", "id", "cut"),
    "comment": ("blank", "cut"),
    "json": ("style", "newline", "cut"),
    "lost": ("why",),
}


def _cut(table: Table, after_ns: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The chunks: `cut` has the offset at which each but the first begins, and the seconds it came later."""
    cuts = table.values.get("cut", [])
    if not isinstance(cuts, list):
        raise table.wrong("cut", "it has to be a list, like [[10, 0.002]]: cut after 10 bytes, the rest 2 ms later")
    begin = 0
    for at, later_ns in (_one_cut(table, each) for each in cuts):
        if not begin <= at <= len(data):
            raise table.wrong("cut", f"{at} does not lie between {begin} and {len(data)}, where the bytes end")
        yield after_ns, data[begin:at]
        begin, after_ns = at, later_ns
    yield after_ns, data[begin:]


def _one_cut(table: Table, cut: Any) -> tuple[int, int]:
    if not isinstance(cut, list) or len(cut) != 2 or not _is_whole(cut[0]) or (later := nanoseconds(cut[1])) is None:
        raise table.wrong("cut", "each has to be a pair, like [10, 0.002]: cut after 10 bytes, the rest 2 ms later")
    return cut[0], later


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def seconds(table: Table, key: str, default_ns: int) -> int:
    """A time in seconds, exact to the nanosecond, as nanoseconds.  Raises InputError."""
    if key not in table:
        return default_ns
    found = nanoseconds(table.values[key])
    if found is None:
        raise table.wrong(key, "it has to be a number of seconds, 0 or more, with nine digits after the point at most")
    return found


def nanoseconds(value: Any) -> int | None:
    """A number of seconds as nanoseconds; None where it is none, or finer than that."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= _LONGEST_S:
        return None
    exact = Decimal(value).scaleb(9)
    return int(exact) if exact == int(exact) else None


def text_of(table: Table, key: str, default: str | None = None) -> str:
    """A text, which may be empty.  Raises InputError."""
    if key not in table and default is not None:
        return default
    value = table.values.get(key)
    if not isinstance(value, str):
        raise table.wrong(key, "it has to be a text: put it in quotes")
    return value


def _one_line(table: Table, key: str) -> str:
    text = text_of(table, key)
    if one_line_wrong(text):
        raise table.wrong(key, "it has to be one line")
    return text
