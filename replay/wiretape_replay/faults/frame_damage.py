"""What a fault makes of one event: instructions that change, split, repeat or interrupt its frame.  Pure: no I/O.

Where a fault cannot be applied to an event (a frame without a CRLF cannot be split at one), the result is None: the
fault does not hit that event.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from wiretape.contract.service_terms import fill
from wiretape.observations import Ending
from wiretape.patterns import set_value
from wiretape_replay.channel.channel_log import LogEntry, event_frame
from wiretape_replay.faults.fault_script import (
    Corrupt,
    Damage,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultRequest,
    Hold,
    Insert,
    Oversize,
    Reset,
    Split,
    SplitPoint,
    as_tuple,
)
from wiretape_replay.http_server.http_messages import HttpResponse


@dataclass(frozen=True, slots=True)
class LogFault:
    """Note that a fault begins here."""

    fault: str
    """The fault's name."""
    text: str
    """One line for the log."""


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Send bytes at once, in one write."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PauseSending:
    """Send nothing for this many nanoseconds of real time."""

    time_ns: int


@dataclass(frozen=True, slots=True)
class HoldResponse:
    """Send nothing until somebody says how to go on, or the client leaves."""

    fault: Hold


@dataclass(frozen=True, slots=True)
class EndResponse:
    """End the response as the service would: SERVICE_CLOSED or SERVICE_RESET."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class SendError:
    """Send an error instead of the response."""

    response: Callable[[str], HttpResponse]
    """Returns the response with a request id."""


Instruction = LogFault | SendBytes | PauseSending | HoldResponse | EndResponse | SendError


def is_final(instruction: Instruction) -> bool:
    """Whether nothing can follow an instruction."""
    return isinstance(instruction, EndResponse | SendError)


def until_final(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """The instructions up to and including the first final one."""
    for instruction in instructions:
        yield instruction
        if is_final(instruction):
            return


_EVENT_LINE = re.compile(rb"^event:", re.MULTILINE)
_STRING = re.compile(rb':[ ]?"')
_LINE_END_BYTES = b"\r\n"
_INVALID_UTF_8 = b"\xff"


def can_mutate(fault: Fault, instructions: list[Instruction]) -> bool:
    """Whether a fault can be applied to the instructions for an event."""
    if isinstance(fault, Oversize) and isinstance(instructions[0], SendBytes):
        # Known without making a frame that may be very long.
        size = data_size(instructions[0].data)
        return len(instructions) == 1 and size is not None and size < fault.bytes
    return mutate(fault, instructions, Random(0)) is not None  # noqa: S311 - not used for security


def mutate(fault: Fault, instructions: list[Instruction], random: Random) -> list[Instruction] | None:
    """Apply a fault to the instructions for an event."""
    if isinstance(fault, Duplicate):
        return instructions * (fault.copies + 1)
    if isinstance(fault, Drop | Reset | Hold | Delay):
        return _interrupt(instructions, fault.offset, interruption(fault))
    if len(instructions) != 1 or not isinstance(instructions[0], SendBytes):
        return None
    frame = instructions[0].data
    if isinstance(fault, Split):
        return _send_pieces(split_frame(frame, fault), fault.pause)
    changed = corrupt_frame(frame, fault, random) if isinstance(fault, Corrupt) else None
    changed = pad_frame(frame, fault.bytes) if isinstance(fault, Oversize) else changed
    return None if changed is None else [SendBytes(changed)]


def interruption(fault: Drop | Reset | Hold | Delay) -> Instruction:
    """The instruction of a fault that ends or pauses a response."""
    if isinstance(fault, Hold):
        return HoldResponse(fault)
    if isinstance(fault, Delay):
        return PauseSending(round(fault.seconds * 1_000_000_000))
    return EndResponse(Ending.SERVICE_RESET if isinstance(fault, Reset) else Ending.SERVICE_CLOSED)


def corrupt_frame(frame: bytes, fault: Corrupt, random: Random) -> bytes | None:
    """Return the frame with the damage that the fault describes."""
    if fault.how is Damage.REPLACE:
        changed = frame.replace((fault.find or "").encode(), (fault.replacement or "").encode())
        return changed if changed != frame else None
    offsets = [offset for start, end in _data_values(frame) for offset in range(start, end)]
    if not offsets:
        return None
    if fault.how is Damage.FLIP:
        return _flip_bits(frame, random.sample(offsets, min(fault.count or 1, len(offsets))), random)
    if fault.how is Damage.JSON:
        return frame[: offsets[-1]] + frame[offsets[-1] + 1 :]
    offset = _offset_in_string(frame, offsets)
    return frame[:offset] + _INVALID_UTF_8 + frame[offset:]


def split_frame(frame: bytes, fault: Split) -> list[bytes] | None:
    """Return the frame in two pieces or more; joined they are the frame."""
    wanted = as_tuple(fault.offsets) if fault.where is None else _split_offsets(frame, fault.where)
    offsets = sorted({offset for offset in wanted if 0 < offset < len(frame)})
    if not offsets:
        return None
    return [frame[start:end] for start, end in zip([0, *offsets], [*offsets, len(frame)], strict=True)]


def pad_frame(frame: bytes, size: int) -> bytes | None:
    """Pad the event's data (its lines joined by LF) to `size` bytes, with spaces, which JSON ignores."""
    present = data_size(frame)
    if present is None or present >= size:
        return None
    end = max(end for start, end in _data_values(frame) if start < end)
    return frame[:end] + b" " * (size - present) + frame[end:]


def data_size(frame: bytes) -> int | None:
    """The number of bytes of an event's data, its lines joined by LF; None if all of them are empty."""
    sizes = [end - start for start, end in _data_values(frame)]
    return sum(sizes) + len(sizes) - 1 if any(sizes) else None


def insert_frame(fault: Insert, entry: LogEntry, request: FaultRequest) -> bytes:
    """The frame of an event that is inserted next to another, whose entities it belongs to."""
    document: dict[str, Any] = {}
    contract = request.described.facts.contract
    form, table = contract.format, contract.types.get(fault.type)
    # The sequence last: it may be the cursor, and is not a string.
    for pointer, value in ((form.cursor, fault.id), (form.sequence, fault.sequence), (form.type, fault.type)):
        if pointer is not None and value is not None:
            set_value(document, pointer.steps, value)
    values = {"id": fault.id, "channel": request.channel, **entry.keys}
    document |= fill((table and table.template) or {}, values)
    # Clients may dispatch events by their names, so it has one if the others do.
    name = fault.type if form.type is None or _EVENT_LINE.search(entry.data) else ""
    identity = fault.id if form.cursor is None else None
    return event_frame(name, orjson.dumps(document | fault.data), identity)


def _data_values(frame: bytes) -> list[tuple[int, int]]:
    """The start and end offsets of the values of the data lines."""
    found, start = [], 0
    for line in re.split(rb"(\r\n|\r|\n)", frame):
        name, colon, value = line.partition(b":")
        if name == b"data":
            begin = start + len(name) + len(colon) + value.startswith(b" ")
            found.append((begin, start + len(line)))
        start += len(line)
    return found


def _flip_bits(frame: bytes, offsets: list[int], random: Random) -> bytes:
    changed = bytearray(frame)
    for offset in offsets:
        # A line end would change the framing, not the data.
        bits = [bit for bit in range(8) if changed[offset] ^ (1 << bit) not in _LINE_END_BYTES]
        changed[offset] ^= 1 << random.choice(bits)
    return bytes(changed)


def _offset_in_string(frame: bytes, offsets: list[int]) -> int:
    """An offset inside the last JSON string that is a value, so that the JSON around it stays valid."""
    found = [match.end() for match in _STRING.finditer(frame) if offsets[0] <= match.end() <= offsets[-1]]
    return found[-1] if found else offsets[len(offsets) // 2]


def _split_offsets(frame: bytes, where: SplitPoint) -> list[int]:
    if where is SplitPoint.EVERY_BYTE:
        return list(range(1, len(frame)))
    if where is SplitPoint.CRLF:
        return [match.start() + 1 for match in re.finditer(b"\r\n", frame)]
    return [offset for offset, byte in enumerate(frame) if byte & 0xC0 == 0x80]


def _send_pieces(pieces: list[bytes] | None, pause: float | None) -> list[Instruction] | None:
    if pieces is None:
        return None
    instructions: list[Instruction] = []
    for piece in pieces:
        if pause is not None and instructions:
            instructions.append(PauseSending(round(pause * 1_000_000_000)))
        instructions.append(SendBytes(piece))
    return instructions


def _interrupt(instructions: list[Instruction], offset: int | None, by: Instruction) -> list[Instruction] | None:
    """Insert an instruction after `offset` bytes of what is sent, half of them by default."""
    size = sum(len(instruction.data) for instruction in instructions if isinstance(instruction, SendBytes))
    left = size // 2 if offset is None else offset
    if not 0 < left < size:
        return None
    done: list[Instruction] = []
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, SendBytes) and left < len(instruction.data):
            start, rest = instruction.data[:left], instruction.data[left:]
            return [*done, *_send(start), by, *_send(rest), *instructions[index + 1 :]]
        if isinstance(instruction, SendBytes):
            left -= len(instruction.data)
        done.append(instruction)
    return None


def _send(data: bytes) -> list[Instruction]:
    return [SendBytes(data)] if data else []
