"""Every vector gives its frames, in whatever pieces its stream is fed."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from for_each import for_each

from wiretape.sse import Frame, FrameKind, Parser

_VECTORS = Path(__file__).parent / "vectors"
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
_OPTIONS = {"limit", "start", "midstream"}


def _unescape(text: str) -> bytes:
    return _ESCAPE.sub(
        lambda match: bytes.fromhex(match[1].decode()) if match[1] else _ESCAPED[match[2]], text.encode()
    )


@dataclass(frozen=True)
class Vector:
    name: str
    stream: bytes
    frames: list[tuple[str, bytes]]
    events: list[list[bytes]]
    fields: list[list[list[bytes]]] | None
    last_event_id: bytes
    options: dict[str, Any]


def _vector(table: dict[str, Any]) -> Vector:
    options = {key: table[key] for key in _OPTIONS & table.keys()}
    if "id_before" in table:
        options["last_event_id"] = _unescape(table["id_before"])
    events = [[_unescape(text) for text in event] for event in table.get("events", [])]
    fields = [[[_unescape(part) for part in line] for line in block] for block in table.get("fields", [])]
    last_event_id = _unescape(table["last_event_id"]) if "last_event_id" in table else events[-1][2] if events else b""
    frames = [(kind, _unescape(raw)) for kind, _, raw in (frame.partition(" ") for frame in table["frames"])]
    stream = _unescape(table["stream"])
    return Vector(table["name"], stream, frames, events, fields if "fields" in table else None, last_event_id, options)


def _vectors() -> list[Vector]:
    return [
        _vector(table)
        for path in sorted(_VECTORS.glob("*.toml"))
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["vector"]
    ]


every_vector = for_each("vector", _vectors(), ids=lambda vector: vector.name)


def _fed(vector: Vector, pieces: Iterable[bytes]) -> list[Frame]:
    parser = Parser(**vector.options)
    frames = [frame for piece in pieces for frame in parser.feed(piece)]
    return frames + parser.close()


def _pairs(frames: Iterable[Frame]) -> list[tuple[str, bytes]]:
    return [(frame.kind.value, frame.raw) for frame in frames]


def _settled(frames: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The frames that no byte behind them can change."""
    left_over = frames[-1:] == [("blank", b"\n")] and frames[-2:-1] and frames[-2][1].endswith(b"\r")
    return frames[:-1] if left_over or (frames and frames[-1][0] in {"tail", "oversized"}) else frames


def test_there_are_enough_vectors_with_unique_names():
    names = [vector.name for vector in _vectors()]
    assert len(names) == len(set(names)) >= 130


@every_vector
def test_fed_whole(vector):
    frames = _fed(vector, [vector.stream])
    assert _pairs(frames) == vector.frames
    dispatched = [frame for frame in frames if frame.is_dispatched]
    assert [
        [(frame.values(b"event") or [b""])[-1] or b"message", frame.data, frame.last_event_id] for frame in dispatched
    ] == vector.events
    assert (frames[-1].last_event_id if frames else b"") == vector.last_event_id
    if vector.fields is not None:
        blocks = [frame.fields for frame in frames if frame.kind in {FrameKind.MESSAGE, FrameKind.TAIL}]
        assert [[list(line) for line in block] for block in blocks] == vector.fields


@every_vector
def test_the_frames_are_the_stream(vector):
    frames = _fed(vector, [vector.stream])
    assert b"".join(frame.raw for frame in frames) == vector.stream
    ends = [vector.options.get("start", 0), *(frame.end for frame in frames)]
    assert [frame.start for frame in frames] == ends[:-1]


@every_vector
def test_only_blocks_have_fields(vector):
    for frame in _fed(vector, [vector.stream]):
        assert frame.kind in {FrameKind.MESSAGE, FrameKind.TAIL} or frame.fields == ()


@every_vector
def test_fed_byte_by_byte(vector):
    pieces = [vector.stream[at : at + 1] for at in range(len(vector.stream))]
    assert _fed(vector, pieces) == _fed(vector, [vector.stream])


@every_vector
def test_fed_in_two_pieces_cut_at_every_point(vector):
    whole = _fed(vector, [vector.stream])
    for at in range(len(vector.stream) + 1):
        assert _fed(vector, [vector.stream[:at], vector.stream[at:]]) == whole, at


@every_vector
def test_fed_with_trailing_bytes(vector):
    parser = Parser(**vector.options)
    frames = _pairs(parser.feed(vector.stream + b"event: more\ndata: more\n\n"))
    settled = _settled(vector.frames)
    assert frames[: len(settled)] == settled
