"""What faults do to the bytes of an event's frame.  Pure.

A change that cannot be made (no CRLF to split, data that is long enough already) is None, and its fault does not
hit that event.
"""

import re
from random import Random

import orjson

from wiretape.contract import STREAM_RESYNC
from wiretape_replay.faults.deed import Corrupt, Damage, Oversize, Seam, Split
from wiretape_replay.session.frames import event_frame
from wiretape_replay.session.session_log import LogEntry

_STRING = re.compile(rb':[ ]?"')
_LINE_ENDS = b"\r\n"
_NO_UTF_8 = b"\xff"


def corrupted(frame: bytes, deed: Corrupt, chance: Random) -> bytes | None:
    """The frame, damaged."""
    if deed.how is Damage.REPLACE:
        changed = frame.replace(deed.find, deed.put)
        return changed if changed != frame else None
    places = [place for start, end in _values(frame) for place in range(start, end)]
    if not places:
        return None
    if deed.how is Damage.FLIP:
        return _flipped(frame, chance.sample(places, min(deed.count, len(places))), chance)
    if deed.how is Damage.JSON:
        return frame[: places[-1]] + frame[places[-1] + 1 :]
    place = _in_a_string(frame, places)
    return frame[:place] + _NO_UTF_8 + frame[place:]


def pieces(frame: bytes, deed: Split) -> list[bytes] | None:
    """The frame in two pieces or more; joined they are the frame."""
    wanted = deed.where if isinstance(deed.where, tuple) else _seams(frame, deed.where)
    offsets = sorted({offset for offset in wanted if 0 < offset < len(frame)})
    if not offsets:
        return None
    return [frame[start:end] for start, end in zip([0, *offsets], [*offsets, len(frame)], strict=True)]


def oversized(frame: bytes, deed: Oversize) -> bytes | None:
    """The frame with its data (its lines joined by LF) made as long as told, by spaces, which JSON ignores."""
    size = data_size(frame)
    if size is None or size >= deed.size:
        return None
    end = max(end for start, end in _values(frame) if start < end)
    return frame[:end] + b" " * (deed.size - size) + frame[end:]


def data_size(frame: bytes) -> int | None:
    """The bytes of an event's data, its lines joined by LF; None where they are all empty."""
    sizes = [end - start for start, end in _values(frame)]
    return sum(sizes) + len(sizes) - 1 if any(sizes) else None


def resync(entry: LogEntry, session: str | None, identity: str | None, sequence: int | None) -> bytes:
    """A frame that asks the client to resynchronise, beside an event of the same run."""
    told = {
        "id": identity,
        "sequence": sequence,
        "type": STREAM_RESYNC,
        "session_id": session,
        "run_id": entry.run_id,
    }
    document = orjson.dumps({key: value for key, value in told.items() if value is not None})
    return event_frame(STREAM_RESYNC, document, identity)


def _values(frame: bytes) -> list[tuple[int, int]]:
    """Where the values of the data lines begin and end."""
    found, start = [], 0
    for line in re.split(rb"(\r\n|\r|\n)", frame):
        name, colon, value = line.partition(b":")
        if name == b"data":
            begin = start + len(name) + len(colon) + value.startswith(b" ")
            found.append((begin, start + len(line)))
        start += len(line)
    return found


def _flipped(frame: bytes, places: list[int], chance: Random) -> bytes:
    changed = bytearray(frame)
    for place in places:
        # A line end would change the framing, not the data.
        fit = [bit for bit in range(8) if changed[place] ^ (1 << bit) not in _LINE_ENDS]
        changed[place] ^= 1 << chance.choice(fit)
    return bytes(changed)


def _in_a_string(frame: bytes, places: list[int]) -> int:
    """A place inside the last JSON string that is a value, so that the JSON around it stays whole."""
    found = [match.end() for match in _STRING.finditer(frame) if places[0] <= match.end() <= places[-1]]
    return found[-1] if found else places[len(places) // 2]


def _seams(frame: bytes, seam: Seam) -> list[int]:
    if seam is Seam.EVERY_BYTE:
        return list(range(1, len(frame)))
    if seam is Seam.CRLF:
        return [match.start() + 1 for match in re.finditer(b"\r\n", frame)]
    return [place for place, byte in enumerate(frame) if byte & 0xC0 == 0x80]
