"""Fault scripts: what goes wrong, where and how often.  Declares the types of the file and decodes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, field

from wiretape.bounded_dict import put_bounded
from wiretape.contract.contract_tables import ErrorCase
from wiretape.event_format import EventFormat
from wiretape.input_validation import Problem, Source, choices_hint, validate
from wiretape.safe_text import closest_match, printable, shorten
from wiretape.toml_files import require_table_lists
from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.channel.recorded_connection import read_event
from wiretape_replay.http_server.http_messages import RequestPattern
from wiretape_replay.replayed_contracts import DescribedRequest, ReplayedContracts

_T = TypeVar("_T", str, int)
_LARGEST_INT = 2**63 - 1
STREAMS = "stream"
"""As an operation: any request for a stream."""

Text = Annotated[str, Meta(min_length=1)]
Texts = Text | Annotated[tuple[Text, ...], Meta(min_length=1)]
"""One string or a list of several; an empty tuple, the default, matches any."""
Count = Annotated[int, Meta(ge=0, le=_LARGEST_INT)]
Number = Annotated[int, Meta(ge=1, le=_LARGEST_INT)]
Counts = Count | Annotated[tuple[Count, ...], Meta(min_length=1)]
Numbers = Number | Annotated[tuple[Number, ...], Meta(min_length=1)]
TOO_MANY = 429
_MOST_TEXTS = 1000
"""Texts of one stream in which a text is searched."""
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
    described: DescribedRequest
    """What the contracts say about it."""
    channel: str | None
    stream: str | None
    """What its stream is counted with; None for requests that open no stream."""
    connection: int | None = None
    """Which stream of its channel it is, from 1; None for other requests."""
    cursor: str | None = None


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of a fault script."""


class EventFilter(_Table, frozen=True, kw_only=True):
    """The events that a fault applies to: those that match every field; an empty field matches any event."""

    sequence: Counts = ()
    event: Numbers = ()
    """The number of the event on its connection, from 1; comments are not counted."""
    nth: Numbers = ()
    """The number among the events of its connection that match the other keys, from 1."""
    type: Texts = ()
    """Event types, with `*` for any characters."""
    id: Texts = ()
    keys: dict[str, Texts] = {}
    """Keys of entities, by the names of the entities."""
    text: Texts = ()
    """What the joined texts of deltas contain with this event, or the data of any other event."""
    time: Annotated[float, Meta(ge=0, le=1_000_000_000)] = 0
    """Seconds in the log from which on events match; in verbatim mode, since the request began."""

    def matches(self, entry: LogEntry, number: int) -> bool:
        """Whether an event, the `number`-th of its connection, is one of these, whatever its `text` and `nth`."""
        return (
            _includes(self.sequence, entry.sequence)
            and _includes(self.event, number)
            and entry.time_ns >= self.time * 1_000_000_000
            and (not self.type or any(fnmatchcase(entry.type or "", pattern) for pattern in as_tuple(self.type)))
            and _includes(self.id, entry.id)
            and all(_includes(keys, entry.keys.get(name)) for name, keys in self.keys.items())
        )

    def problems(self, contracts: ReplayedContracts) -> Iterator[Problem]:
        """What cannot be right: types that do not exist, and fields that events of a type never have."""
        types = as_tuple(self.type)
        for name in () if contracts.has_other_types else types:
            if name not in contracts.types and "*" not in name:
                yield ("type",), f"unknown event type {printable(name)!r}{choices_hint(name, contracts.types)}"
        if types and all(map(contracts.is_optional_delta, types)):
            for key, value in (("sequence", self.sequence), ("id", self.id)):
                if value != ():
                    yield (key,), f"{' or '.join(types)} is ephemeral and has no {key}"
        for name in self.keys:
            entity, problem = contracts.entities.get(name), contracts.describe_unknown_entity(name)
            if entity is not None and types and not any("*" in each or entity.concerns(each) for each in types):
                problem = f"{' or '.join(types)} does not belong to a {name}"
            if problem:
                yield ("keys", name), problem


class BaseFault(_Table, frozen=True, kw_only=True, tag_field="do"):
    """What all faults have in common: their name, the requests and events they apply to, and how often."""

    positions: ClassVar[tuple[Position, ...]] = ()
    """Where it can be applied relative to an event."""
    affects_responses: ClassVar[bool] = False
    """Whether it can be applied to a whole response, without naming an event."""
    affects_streams_only: ClassVar[bool] = False

    name: Text = ""
    operation: Texts = ()
    channel: Texts = ()
    keys: dict[str, Texts] = {}
    """Keys of entities in the path of the request, by the names of the entities."""
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
    def requests(self) -> tuple[str, ...]:
        """The requests it applies to; empty: any."""
        return as_tuple(self.operation) or ((STREAMS,) if self.is_for_streams else ())

    def matches(self, request: FaultRequest) -> bool:
        """Whether it applies to a request, or to the events of its response."""
        is_stream = request.stream is not None
        return (
            (is_stream or not self.is_for_streams)
            and (
                not self.operation
                or any(
                    (is_stream and name == STREAMS)
                    or _pattern(name).matches(request.method, request.target, request.described.operation_name)
                    for name in as_tuple(self.operation)
                )
            )
            and _includes(self.channel, request.channel)
            and all(_includes(keys, request.described.keys.get(name)) for name, keys in self.keys.items())
            and _includes(self.connection, request.connection)
        )

    def problems(self) -> Iterator[Problem]:
        """What cannot be right about the fault, whatever the contract."""
        if not _is_one_line(self.name):
            yield ("name",), "expected a string without line ends and NUL"
        yield from self._position_problems()

    def contract_problems(self, contracts: ReplayedContracts) -> Iterator[Problem]:
        """What cannot be right about the fault where a replay or stand-in is of these contracts."""
        yield from self._request_problems(contracts)
        if self.events is not None:
            for path, problem in self.events.problems(contracts):
                yield (str(self.position), *path), problem

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

    def _request_problems(self, contracts: ReplayedContracts) -> Iterator[Problem]:
        operations = dict.fromkeys([STREAMS, *contracts.operations])
        for name in as_tuple(self.operation):
            try:
                pattern = RequestPattern.of(name, operations)
            except ValueError:
                expected = f"{', '.join(operations)}, or a method and a path such as POST /v1/items"
                similar = closest_match(name, operations)
                hint = f"; did you mean {similar}?" if similar else ""
                yield ("operation",), f"expected {expected}, got {shorten(repr(name), 60)}{hint}"
                return
            if self.is_for_streams and name != STREAMS and not contracts.may_be_stream(pattern):
                yield ("operation",), f"{self._reason}: use {STREAMS}, or leave operation out"
        for name in self.keys:
            if problem := contracts.describe_unknown_entity(name) or self._key_problem(name, contracts):
                yield ("keys", name), problem

    def _key_problem(self, entity: str, contracts: ReplayedContracts) -> str:
        """Why no request that the fault applies to has the key of an entity in its path; empty if one may."""
        named_by = contracts.entities[entity].is_named_in
        having = {name: each for name, each in contracts.operations.items() if named_by(each.pattern.parameters)}
        if self.is_for_streams and not any(operation.is_stream for operation in having.values()):
            own = f"; to select events of a {entity}, put keys in their table" if self.events is not None else ""
            return f"{self._reason}, and their paths do not name a {entity}{own}"
        if not having:
            return f"no path names a {entity}"
        named = [name for name in as_tuple(self.operation) if name in (STREAMS, *contracts.operations)]
        return f"only the paths of {' and '.join(having)} name a {entity}" if not having.keys() >= set(named) else ""

    @property
    def _reason(self) -> str:
        """Why it applies to streams only."""
        if self.events is not None:
            return "only streams have events"
        return "only streams take a cursor" if self.affects_streams_only else "only streams are counted as connections"


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


class Hold(_Interruption, frozen=True, kw_only=True, tag="hold"):
    """Send nothing until the stream is released or cut, or the client leaves."""


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


class Insert(BaseFault, frozen=True, kw_only=True, tag="insert"):
    """Insert an event; without an id it is ephemeral."""

    positions: ClassVar[tuple[Position, ...]] = (Position.BEFORE, Position.AFTER)

    type: Text
    id: Text | None = None
    sequence: Count | None = None
    data: dict[str, Any] = {}
    """Members of its JSON."""

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        for name in ("type", "id"):
            if not _is_one_line(getattr(self, name) or ""):
                yield (name,), "expected a string without line ends and NUL"
        if self.sequence is not None and self.id is None:
            yield ("sequence",), "an event without an id is ephemeral and has no sequence"

    def contract_problems(self, contracts: ReplayedContracts) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().contract_problems(contracts)
        if not contracts.has_other_types and self.type not in contracts.types:
            yield ("type",), f"unknown event type {printable(self.type)!r}{choices_hint(self.type, contracts.types)}"


class ExpireCursor(BaseFault, frozen=True, kw_only=True, tag="expire-cursor"):
    """Refuse cursors as unknown."""

    affects_responses: ClassVar[bool] = True
    affects_streams_only: ClassVar[bool] = True

    cursor: Texts = ()


class Error(BaseFault, frozen=True, kw_only=True, tag="error"):
    """Send an error instead of the response: one of the contract's codes, or a status with a plain text."""

    affects_responses: ClassVar[bool] = True

    code: Text | None = None
    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    message: Text | None = None
    fields: dict[str, Any] = {}
    """What the error has besides its message, in place of what the contract says."""
    retry_after: Count | None = None
    limit: str | None = None

    def problems(self) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().problems()
        if (self.code is None) == (self.status is None):
            yield (), "error needs either code or status"
        if self.status is not None and self.fields:
            yield ("fields",), "fields are for an error with a code"

    def contract_problems(self, contracts: ReplayedContracts) -> Iterator[Problem]:
        """See BaseFault."""
        yield from super().contract_problems(contracts)
        codes = {code: each.when for errors in contracts.errors for code, each in errors.codes.items()}
        if self.code is not None and self.code not in codes:
            same = [code for code in codes if code.casefold() == self.code.casefold()]
            hint = f"; codes are case-sensitive: use {same[0]}" if same else choices_hint(self.code, codes)
            hint = hint if codes else f": {contracts.names} has no codes; use status"
            yield ("code",), f"unknown error code {shorten(self.code, 60)}{hint}"
            return
        is_limit = self.status == TOO_MANY or codes.get(self.code or "") is ErrorCase.LIMIT
        owner = next((code for code, when in codes.items() if when is ErrorCase.LIMIT), f"the status {TOO_MANY}")
        for key, value in (("retry-after", self.retry_after), ("limit", self.limit)):
            if value is not None and not is_limit:
                yield (key,), f"{key} belongs to {owner}, not to {self.code or self.status}"
        if self.limit is not None and self.limit not in contracts.limits:
            yield ("limit",), f"unknown limit {shorten(self.limit, 60)}{choices_hint(self.limit, contracts.limits)}"


Fault = Drop | Reset | Hold | Delay | Duplicate | Reorder | Corrupt | Split | Oversize | Insert | ExpireCursor | Error


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

    def check_contracts(self, source: Source, contracts: ReplayedContracts) -> None:
        """Raises InputError for what cannot be right for these contracts."""
        for index, fault in enumerate(self.faults):
            for path, problem in fault.contract_problems(contracts):
                raise source.error(("fault", index, *path), problem)


def decode_fault_script(document: Any, source: Source) -> FaultScript:
    """Decode the document of a fault script, which may be for any contract.  Raises InputError."""
    require_table_lists(document, ("fault",), source)
    script = validate(document, FaultScript, source)
    for path, problem in script.problems():
        raise source.error(path, problem)
    return script


def decode_fault(document: Any, contracts: ReplayedContracts) -> Fault:
    """Decode a single fault, which applies once unless it says how often.  Raises InputError."""
    source = Source("fault")
    fault: Fault = validate({"times": 1} | document, Fault, source)  # type: ignore[arg-type]
    for path, problem in chain(fault.problems(), fault.contract_problems(contracts)):
        raise source.error(path, problem)
    return fault


class EventSelector:
    """Finds the events of one stream that a filter selects.  Feed it all events, in order."""

    def __init__(self, events: EventFilter, event_format: EventFormat) -> None:
        self._events = events
        self._format = event_format
        self._matches = 0
        self._ends: dict[tuple[object, ...], str] = {}
        """The ends of the texts so far, which the searched text may begin with, by the type and the keys of deltas."""

    def selects(self, entry: LogEntry, number: int) -> bool:
        """Whether an event, the `number`-th of its connection, is one of these."""
        if not self._events.matches(entry, number) or (self._events.text and not self._completes_text(entry)):
            return False
        self._matches += 1
        return _includes(self._events.nth, self._matches)

    def _completes_text(self, entry: LogEntry) -> bool:
        event = read_event(entry.data, self._format)
        texts = as_tuple(self._events.text)
        if event.text is None:
            data = event.data.decode("utf-8", "replace")
            return any(text in data for text in texts)
        key = (entry.type, *entry.keys.items())
        joined = self._ends.get(key, "") + event.text
        found = any(text in joined for text in texts)
        longest = max(map(len, texts)) - 1
        put_bounded(self._ends, key, "" if found or not longest else joined[-longest:], _MOST_TEXTS)
        return found


def as_tuple(wanted: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """The values of a field that holds one value or several."""
    return wanted if isinstance(wanted, tuple) else (wanted,)


def _includes(wanted: _T | tuple[_T, ...], value: object) -> bool:
    return wanted == () or value in as_tuple(wanted)


def _is_one_line(text: str) -> bool:
    return not any(character in text for character in "\r\n\0")


@cache
def _pattern(name: str) -> RequestPattern:
    return RequestPattern.of(name, () if " " in name else (name,))
