"""Fault scripts: what goes wrong, where and how often.  Declares the types of the file and decodes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, field

from wiretape.agent_sessions import (
    CANCEL,
    DELTA_TYPES,
    ERROR_CODES,
    EVENT_TYPES,
    LIMITS,
    OPERATIONS,
    RATE_LIMITED,
    RESUME,
    SESSION_BUSY,
    STREAM,
    TOOL_TYPES,
    code_in_other_case,
)
from wiretape.agent_sessions.schemas import has_own_details
from wiretape.errors import InputError
from wiretape.input_validation import Problem, Source, choices_hint, validate
from wiretape.safe_text import closest_match, printable, shorten
from wiretape.toml_files import require_table_lists
from wiretape_replay.access.error_envelope import ErrorDetail
from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.http_server.http_messages import RequestPattern

_T = TypeVar("_T", str, int)
_LARGEST_INT = 2**63 - 1

Text = Annotated[str, Meta(min_length=1)]
Texts = Text | Annotated[tuple[Text, ...], Meta(min_length=1)]
"""One string or a list of several; an empty tuple, the default, matches any."""
Count = Annotated[int, Meta(ge=0, le=_LARGEST_INT)]
Number = Annotated[int, Meta(ge=1, le=_LARGEST_INT)]
Counts = Count | Annotated[tuple[Count, ...], Meta(min_length=1)]
Numbers = Number | Annotated[tuple[Number, ...], Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=1_000_000)]


class Position(StrEnum):
    """Where a fault is applied, relative to its event."""

    BEFORE = "before"
    AT = "at"
    """To the event itself."""
    AFTER = "after"


class Damage(StrEnum):
    """How an event is corrupted."""

    FLIP = "flip"
    """Flip single bits of its data, at random positions."""
    REPLACE = "replace"
    """Replace a string in its frame with another."""
    UTF_8 = "utf-8"
    """Insert a byte that is not valid UTF-8 into its data."""
    JSON = "json"
    """Remove the last character of its data."""


class SplitPoint(StrEnum):
    """Where a frame is split."""

    EVERY_BYTE = "every-byte"
    UTF_8 = "utf-8"
    """Inside each multi-byte character."""
    CRLF = "crlf"
    """Between each CR and its LF."""


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """A request, as far as it decides which faults apply."""

    method: str
    target: str
    channel: str | None = None
    run: str | None = None
    stream: str | None = None
    """What its stream is counted with; None for requests that open no stream."""
    connection: int | None = None
    """Which stream of its channel it is, from 1; None for other requests."""
    cursor: str | None = None
    noun: str = "session"
    """What log lines call its channel."""

    @property
    def path(self) -> str:
        """The target without its query, which may hold secrets."""
        return self.target.partition("?")[0]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of a fault script."""


class EventFilter(_Table, frozen=True, kw_only=True):
    """The events that a fault applies to: those that match every field; an empty field matches any event."""

    sequence: Counts = ()
    event: Numbers = ()
    """The number of the event on its connection, from 1; comments are not counted."""
    type: Texts = ()
    """Event types, with `*` for any characters."""
    id: Texts = ()
    run: Texts = ()
    tool_call: Texts = ()

    def matches(self, entry: LogEntry, number: int) -> bool:
        """Whether an event, the `number`-th of its connection, is one of these."""
        return (
            _includes(self.sequence, entry.sequence)
            and _includes(self.event, number)
            and (not self.type or any(fnmatchcase(entry.type or "", pattern) for pattern in as_tuple(self.type)))
            and _includes(self.id, entry.id)
            and _includes(self.run, entry.run_id)
            and _includes(self.tool_call, entry.tool_call_id)
        )

    def problems(self) -> Iterator[Problem]:
        """What cannot be right: types that do not exist, and fields that events of a type never have."""
        types = as_tuple(self.type)
        for name in types:
            if name not in EVENT_TYPES and "*" not in name:
                yield ("type",), f"unknown event type {printable(name)!r}{choices_hint(name, EVENT_TYPES)}"
        names = " or ".join(types)
        if types and all(name in DELTA_TYPES for name in types):
            for key, value in (("sequence", self.sequence), ("id", self.id)):
                if value != ():
                    yield (key,), f"{names} is ephemeral and has no {key}"
        if types and self.tool_call and not any(name in TOOL_TYPES or "*" in name for name in types):
            yield ("tool-call",), f"{names} does not belong to a tool call"


class BaseFault(_Table, frozen=True, kw_only=True, tag_field="do"):
    """What all faults have in common: their name, the requests and events they apply to, and how often."""

    positions: ClassVar[tuple[Position, ...]] = ()
    """Where it can be applied relative to an event."""
    affects_responses: ClassVar[bool] = False
    """Whether it can be applied to a whole response, without naming an event."""
    affects_streams_only: ClassVar[bool] = False
    affects_service_only: ClassVar[bool] = False

    name: Text = ""
    operation: Texts = ()
    channel: Texts = ()
    run: Texts = ()
    connection: Numbers = ()
    """Which stream of its channel, from 1."""
    before: EventFilter | None = None
    at: EventFilter | None = None
    after: EventFilter | None = None
    skip: Count = 0
    """How many matches to let pass first."""
    times: Number | None = None
    """How often it is applied at most; None: always."""
    probability: Annotated[float, Meta(gt=0, le=1)] = 1.0

    @property
    def action(self) -> str:
        """The value of its `do`."""
        return str(self.__struct_config__.tag)

    @property
    def position(self) -> Position | None:
        """Where it is applied relative to an event; None: before a response, or in its place."""
        return next((position for position in Position if getattr(self, position) is not None), None)

    @property
    def events(self) -> EventFilter | None:
        """The events it applies to; None if it applies to whole responses."""
        return self.before or self.at or self.after

    @property
    def is_for_streams(self) -> bool:
        """Whether it applies to requests for streams only."""
        return self.events is not None or bool(self.connection) or self.affects_streams_only

    @property
    def operations(self) -> tuple[RequestPattern, ...]:
        """The requests it applies to; empty: any."""
        return _requests(as_tuple(self.operation) or ((STREAM.name,) if self.is_for_streams else ()))

    def matches(self, request: FaultRequest) -> bool:
        """Whether it applies to a request, or to the events of its response."""
        operations, is_stream = self.operations, request.stream is not None
        return (
            (is_stream or not self.is_for_streams)
            and (
                not operations
                or any(
                    (is_stream and operation.name == STREAM.name) or operation.matches(request.method, request.target)
                    for operation in operations
                )
            )
            and _includes(self.channel, request.channel)
            and _includes(self.run, request.run)
            and _includes(self.connection, request.connection)
        )

    def problems(self) -> Iterator[Problem]:
        """What cannot be right about the fault."""
        if not _is_one_line(self.name):
            yield ("name",), "expected a string without line ends and NUL"
        yield from self._position_problems()
        yield from self._request_problems()

    def service_problems(self) -> Iterator[Problem]:
        """What cannot be right about the fault where a replay or stand-in is of the Agent Session Service."""
        if self.is_for_streams and any(name != STREAM.name for name in as_tuple(self.operation)):
            yield ("operation",), f"{self._reason}: use {STREAM.name}, or leave operation out"
        if self.events is not None:
            for path, problem in self.events.problems():
                yield (str(self.position), *path), problem

    def contract_problems(self) -> Iterator[Problem]:
        """What cannot be right about the fault where a replay is of another contract."""
        if self.affects_service_only:
            yield ("do",), f"{self.action} sends an event of the Agent Session Service, not of another contract"
        if self.run:
            yield ("run",), "only the Agent Session Service has runs"
        if self.events is not None:
            for key, value in (("run", self.events.run), ("tool-call", self.events.tool_call)):
                if value != ():
                    yield (str(self.position), key), f"only events of the Agent Session Service have a {key}"

    def _position_problems(self) -> Iterator[Problem]:
        used = [position for position in Position if getattr(self, position) is not None]
        for position in used:
            if position not in self.positions:
                instead = f"use {' or '.join(self.positions)}" if self.positions else "it happens before any event"
                yield (position,), f"{self.action} cannot be applied here: {instead}"
        if len(used) > 1:
            yield (used[1],), f"{used[0]} is also given; use only one of them"
        if not used and not self.affects_responses:
            example = f"{' or '.join(self.positions)} = {{ sequence = 12 }}"
            yield ("do",), f"{self.action} applies to events; name them, for example {example}"

    def _request_problems(self) -> Iterator[Problem]:
        for name in as_tuple(self.operation):
            try:
                RequestPattern.of(name)
            except ValueError:
                expected = f"{', '.join(OPERATIONS)}, or a method and a path such as POST /v1/sessions"
                similar = closest_match(name, OPERATIONS)
                hint = f"; did you mean {similar}?" if similar else ""
                yield ("operation",), f"expected {expected}, got {shorten(repr(name), 60)}{hint}"
                return
        if self.is_for_streams:
            yield from self._stream_problems(self._reason)
        elif self.run and any(operation.name not in {CANCEL.name, RESUME.name} for operation in self.operations):
            yield ("run",), f"only the paths of {CANCEL.name} and {RESUME.name} name a run"

    @property
    def _reason(self) -> str:
        """Why it applies to streams only."""
        if self.events is not None:
            return "only streams have events"
        return "only streams take a cursor" if self.affects_streams_only else "only streams are counted as connections"

    def _stream_problems(self, why: str) -> Iterator[Problem]:
        if any(name in OPERATIONS and name != STREAM.name for name in as_tuple(self.operation)):
            yield ("operation",), f"{why}: use {STREAM.name}, or leave operation out"
        if self.run:
            yield (
                ("run",),
                f"{why}, and their paths do not name a run; to select events of a run, put run in their table",
            )


class _Interruption(BaseFault, frozen=True, kw_only=True):
    positions: ClassVar[tuple[Position, ...]] = tuple(Position)
    affects_responses: ClassVar[bool] = True

    offset: Number | None = None
    """Inside an event: how many bytes of its frame are sent first; None: half of them."""

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        if self.offset is not None and self.at is None:
            yield ("offset",), "offset counts bytes of an event, so it needs at = { … }"


class Drop(_Interruption, frozen=True, kw_only=True, tag="drop"):
    """Close the connection in an orderly way."""


class Reset(_Interruption, frozen=True, kw_only=True, tag="reset"):
    """Reset the connection."""


class Stall(_Interruption, frozen=True, kw_only=True, tag="stall"):
    """Send nothing for a while; without `seconds`, until the client leaves."""

    seconds: Seconds | None = None


class Delay(_Interruption, frozen=True, kw_only=True, tag="delay"):
    """Send nothing for a while."""

    seconds: Seconds


class _EventMutation(BaseFault, frozen=True, kw_only=True):
    positions: ClassVar[tuple[Position, ...]] = (Position.AT,)


class Duplicate(_EventMutation, frozen=True, kw_only=True, tag="duplicate"):
    """Send the event again."""

    copies: Annotated[int, Meta(ge=1, le=10_000)] = 1


class Reorder(_EventMutation, frozen=True, kw_only=True, tag="reorder"):
    """Send the event after the `by` events that follow it."""

    by: Number = 1


class Corrupt(_EventMutation, frozen=True, kw_only=True, tag="corrupt"):
    """Change bytes of the event."""

    how: Damage = Damage.FLIP
    count: Number | None = None
    """For `flip`: how many bytes; 1 by default."""
    find: Text | None = None
    replacement: str | None = field(default=None, name="with")
    """For `replace`: what replaces `find` wherever it occurs in the frame; nothing by default."""

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        for key, value, how in (
            ("count", self.count, Damage.FLIP),
            ("find", self.find, Damage.REPLACE),
            ("with", self.replacement, Damage.REPLACE),
        ):
            if value is not None and self.how is not how:
                yield (key,), f'{key} requires how = "{how}"'
        if self.how is Damage.REPLACE and self.find is None:
            yield (), "find is missing"


class Split(_EventMutation, frozen=True, kw_only=True, tag="split"):
    """Send the frame in pieces."""

    where: SplitPoint | None = None
    offsets: Numbers = ()
    """The offsets in the frame at which pieces begin, instead of `where`."""
    pause: Seconds | None = None
    """Between two pieces."""

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        if (self.where is None) == (self.offsets == ()):
            yield (), f"split needs either where ({', '.join(SplitPoint)}) or offsets, for example [10, 20]"


class Oversize(_EventMutation, frozen=True, kw_only=True, tag="oversize"):
    """Pad the event's data with spaces at its end until it has this many bytes."""

    bytes: Annotated[int, Meta(ge=1, le=256 * 1024 * 1024)]


class InsertResync(BaseFault, frozen=True, kw_only=True, tag="resync"):
    """Insert a `stream.resync` event; without an id it is ephemeral."""

    positions: ClassVar[tuple[Position, ...]] = (Position.BEFORE, Position.AFTER)
    affects_service_only: ClassVar[bool] = True

    id: Text | None = None
    sequence: Count | None = None

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        if self.id is not None and not _is_one_line(self.id):
            yield ("id",), "expected a string without line ends and NUL"
        if self.sequence is not None and self.id is None:
            yield ("sequence",), "an event without an id is ephemeral and has no sequence"


class ExpireCursor(BaseFault, frozen=True, kw_only=True, tag="expire-cursor"):
    """Refuse cursors as unknown."""

    affects_responses: ClassVar[bool] = True
    affects_streams_only: ClassVar[bool] = True

    cursor: Texts = ()


class Error(BaseFault, frozen=True, kw_only=True, tag="error"):
    """Send an error of the service instead of the response."""

    affects_responses: ClassVar[bool] = True

    code: str
    message: Text | None = None
    retry_after: Count | None = None
    limit: str | None = None
    active_run: Text | None = None
    active_run_status: Text | None = None
    reasons: tuple[ErrorDetail, ...] = ()

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        if self.code not in ERROR_CODES:
            meant = code_in_other_case(self.code)
            hint = f"; codes are case-sensitive: use {meant.code}" if meant else choices_hint(self.code, ERROR_CODES)
            yield ("code",), f"unknown error code {shorten(self.code, 60)}{hint}"
            return
        for key, value, code in (
            ("retry-after", self.retry_after, RATE_LIMITED),
            ("limit", self.limit, RATE_LIMITED),
            ("active-run", self.active_run, SESSION_BUSY),
            ("active-run-status", self.active_run_status, SESSION_BUSY),
        ):
            if value is not None and self.code != code:
                yield (key,), f"{key} belongs to {code}, not to {self.code}"
        if self.limit is not None and self.limit not in LIMITS:
            yield ("limit",), f"unknown limit {shorten(self.limit, 60)}{choices_hint(self.limit, LIMITS)}"
        if self.reasons and has_own_details(self.code):
            yield ("reasons",), f"{self.code} does not take reasons"


Fault = (
    Drop
    | Reset
    | Stall
    | Delay
    | Duplicate
    | Reorder
    | Corrupt
    | Split
    | Oversize
    | InsertResync
    | ExpireCursor
    | Error
)


class FaultScript(_Table, frozen=True, kw_only=True):
    """All faults, in the order of the file; a fault without a name becomes `fault-1`, `fault-2`, and so on."""

    seed: Count = 0
    faults: tuple[Fault, ...] = field(default=(), name="fault")

    def __post_init__(self) -> None:
        named = tuple(
            fault if fault.name else msgspec.structs.replace(fault, name=f"fault-{number}")
            for number, fault in enumerate(self.faults, 1)
        )
        msgspec.structs.force_setattr(self, "faults", named)

    def problems(self) -> Iterator[Problem]:
        """What cannot be right, in the order of the file."""
        names: set[str] = set()
        for index, fault in enumerate(self.faults):
            for path, problem in fault.problems():
                yield ("fault", index, *path), problem
            if fault.name in names:
                yield ("fault", index, "name"), f"two faults have the name {printable(fault.name)}"
            names.add(fault.name)

    def check_contract(self, source: Source, *, is_service: bool) -> None:
        """Raises InputError for what cannot be right for the Agent Session Service, or for any other contract."""
        for index, fault in enumerate(self.faults):
            for path, problem in fault.service_problems() if is_service else fault.contract_problems():
                raise source.error(("fault", index, *path), problem)

    def check_mode(self, mode: str) -> None:
        """Raises InputError if a fault cannot be applied in this mode of replay."""
        if mode != "verbatim":
            return
        for fault in self.faults:
            if fault.events is not None:
                raise InputError(
                    f"The fault {shorten(fault.name, 60)} applies to stream events, but verbatim mode sends "
                    "recorded responses unchanged: choose --mode channel."
                )


def decode_fault_script(document: Any, source: Source) -> FaultScript:
    """Decode the document of a fault script, which may be for any contract.  Raises InputError."""
    require_table_lists(document, ("fault",), source)
    script = validate(document, FaultScript, source)
    for path, problem in script.problems():
        raise source.error(path, problem)
    return script


def as_tuple(wanted: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """The values of a field that holds one value or several."""
    return wanted if isinstance(wanted, tuple) else (wanted,)


def _includes(wanted: _T | tuple[_T, ...], value: object) -> bool:
    return wanted == () or value in as_tuple(wanted)


def _is_one_line(text: str) -> bool:
    return not any(character in text for character in "\r\n\0")


@cache
def _requests(names: tuple[str, ...]) -> tuple[RequestPattern, ...]:
    return tuple(RequestPattern.of(name) for name in names)
