"""Rows of a recording's tables: how exchanges, losses, segments and findings are stored, and read back."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import orjson

from wiretape.contract.contract_facts import NO_CONTRACTS, ContractChoice, ContractFacts, RequestFacts
from wiretape.contract.recorded_contracts import RecordedContract, parse_contracts
from wiretape.contract.vocabulary import Vocabulary, vocabulary_of
from wiretape.errors import InputError
from wiretape.frame_reader import STREAM_START, FrameReader, StreamPosition
from wiretape.http_headers import LAST_EVENT_ID, cursor_in
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules import Finding, Party, Severity
from wiretape.sse import is_event_stream

SEGMENT_COLUMNS = "id, exchange_id, response, start, time_ns, chunks, bytes"
_MAX_NS = 2**62
_INVENTED = "null"
"""The request headers of a request that an import invented."""
_NO_CONTRACT = ContractFacts("", ())
_REQUEST = {
    "id": "exchange",
    "client": "client",
    "method": "method",
    "scheme": "scheme",
    "authority": "authority",
    "target": "target",
    "request_version": "http_version",
    "started_ns": "time_ns",
}
_RESPONSE = {"status": "status", "reason": "reason", "response_version": "http_version", "responded_ns": "time_ns"}
"""Columns of `exchange` with the fields of requests and responses that they store as they are."""
_SAME = (
    "request_ended_ns",
    "detail",
    "ended_ns",
    "operation",
    "channel",
    "request_bytes",
    "response_bytes",
    "lost_bytes",
)
"""The same for fields of `Exchange`, which have the same names."""
_WRITE_LOST = (
    "INSERT OR REPLACE INTO lost (id, exchange_id, response, start, count, time_ns, why) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_BODY_END = """
SELECT coalesce(max(until), 0) FROM (
  SELECT start + length(bytes) AS until FROM segment WHERE exchange_id = :number AND response = :response
  UNION ALL SELECT start + count FROM lost WHERE exchange_id = :number AND response = :response
)
"""
_FINDING = {"exchange_id": "exchange"} | {
    name: name for name in ("event", "code", "severity", "side", "sequence", "byte_offset", "time_ns", "message")
}
FINDING_COLUMNS = ", ".join(_FINDING)


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """Description of a recording."""

    format: int
    tool: str
    """Name and version of the program that recorded last."""
    upstream: str
    """The URL of the service that the user named, or several; empty if there may be traffic of any host."""
    started: datetime
    """Wall clock (UTC) at time 0."""
    ended_ns: int | None
    """When recording stopped; None while recording continues, or if the recorder was killed."""
    redacted: int
    """Number of secrets that were replaced by fingerprints."""
    started_unix_ns: int
    """The same as `started`, in nanoseconds since 1970."""
    part: int
    """The number of this file of a rotated recording, from 1."""
    earlier_exchanges: int
    """The last exchange that began in an earlier file of it; 0 if there is none."""
    is_continued: bool
    """Whether the recording continues in another file."""
    contracts: str | None
    """The contracts that it was checked with, as `wiretape.contract.recorded_contracts` dumps them; None for none."""
    probe: str | None
    """The results of the cases of `wiretape probe`, as JSON; None if the recording is not that of a probe."""

    @property
    def contract_names(self) -> list[str]:
        """The names of these contracts."""
        return [each.name for each in self.contract_texts]

    @property
    def contract_texts(self) -> list[RecordedContract]:
        """These contracts; none if they are invalid, because the recording can come from a stranger."""
        with suppress(InputError):
            return parse_contracts(self.contracts, "The recording")
        return []

    def wall_clock(self, time_ns: int) -> datetime:
        """Return the wall clock (UTC) at a time of the recording, to the microsecond."""
        return self.started + timedelta(microseconds=time_ns // 1000)

    def iso_time(self, time_ns: int) -> str:
        """Return the same as ISO 8601."""
        return f"{self.wall_clock(time_ns).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


@dataclass(frozen=True, slots=True)
class Capture:
    """One run of a program that recorded."""

    tool: str
    """Its name and version."""
    began_ns: int
    ended_ns: int | None
    """None if the program was killed, or is still recording."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response, without their bodies."""

    number: int
    request: RequestStarted
    request_ended_ns: int | None
    response: ResponseStarted | None
    ending: Ending
    detail: str
    ended_ns: int | None
    operation: str | None
    channel: str | None
    """The channel that its path names, or else an event."""
    request_bytes: int
    """Recorded bytes of the request body, as they crossed the wire."""
    response_bytes: int
    lost_bytes: int
    """Bytes of both bodies that passed but were not recorded."""
    contracts: ContractChoice = field(compare=False, repr=False)
    """Those of the recording."""

    @property
    def facts(self) -> RequestFacts | None:
        """What the contract that it belongs to says about its request; None if it belongs to none."""
        return self.contracts.find(self.request.method, self.request.target)

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the contract that it belongs to; that of the recording's first if it belongs to none."""
        found = self.facts
        return vocabulary_of(next(iter(self.contracts.contracts), _NO_CONTRACT) if found is None else found.contract)

    @property
    def keys(self) -> Mapping[str, str]:
        """The keys of the entities that the path of its request names, by the names of these."""
        found = self.facts
        return {} if found is None else found.keys

    @property
    def cursor(self) -> str | None:
        """The cursor that its request resumes after; None if it starts from the beginning."""
        found = self.facts
        place = None if found is None else found.operation.cursor
        if place is not None:
            return place.read(self.request)
        return cursor_in(header(self.request.headers, LAST_EVENT_ID))

    @property
    def has_sequences_as_cursors(self) -> bool:
        """Whether clients resume its stream after a sequence, not after an SSE id."""
        return self.facts is not None and self.facts.contract.format.cursor is not None

    def make_reader(self, position: StreamPosition = STREAM_START, *, uses_all: bool = False) -> FrameReader:
        """Return a reader of the frames of its stream, from a position on.  `uses_all` is that of `FrameReader`."""
        event_format = self.contracts.format_of(self.request)
        return FrameReader(
            self.content_encoding, position, exchange=self.number, event_format=event_format, uses_all=uses_all
        )

    @property
    def began_ns(self) -> int:
        """When the response began; if there is none, when the request did."""
        return self.response.time_ns if self.response else self.request.time_ns

    @property
    def content_encoding(self) -> str | None:
        """The Content-Encoding of the response."""
        return self.encoding_of(Side.RESPONSE)

    def encoding_of(self, side: Side) -> str | None:
        """Return the Content-Encoding of a body."""
        head = self.request if side is Side.REQUEST else self.response
        return header(head.headers, "content-encoding") if head else None

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return self.response is not None and is_event_stream(header(self.response.headers, "content-type"))


@dataclass(slots=True)
class OpenExchange:
    """The current state of an exchange; its row is written again whenever the state changes."""

    request: RequestStarted
    request_ended_ns: int | None = None
    response: ResponseStarted | None = None
    ended: ExchangeEnded | None = None
    stored: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(Side, 0))
    """Bytes of each body that are in the file."""
    lost: int = 0
    ends: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(Side, 0))
    """How far each body was seen."""
    dropped: dict[Side, tuple[int, BytesLost]] = field(default_factory=dict)
    """For each body the last row of `lost` about bytes that could not be stored, with its number."""

    def row(self, contracts: ContractChoice) -> dict[str, object]:
        """Return the columns of `exchange`, by name."""
        request, response, ended = self.request, self.response, self.ended
        found = contracts.find(request.method, request.target)
        return {
            **{column: getattr(request, name) for column, name in _REQUEST.items()},
            **{column: getattr(response, name, None) for column, name in _RESPONSE.items()},
            "label": f"{request.method} {request.target} → {response.status if response else 'no response'}",
            "request_headers": orjson.dumps(None if request.is_invented else request.headers).decode(),
            "request_ended_ns": self.request_ended_ns,
            "response_headers": orjson.dumps(response.headers).decode() if response else None,
            "ending": ended.ending if ended else Ending.OPEN,
            "detail": ended.detail if ended else "",
            "ended_ns": ended.time_ns if ended else None,
            "contract": found.contract.name if found else None,
            "operation": found.operation.name if found else None,
            "channel": found.channel if found else contracts.channel_in(request.target),
            "cursor": found.operation.cursor.read(request) if found and found.operation.cursor else None,
            "keys": dump_keys(found.keys) if found and found.keys else None,
            "request_bytes": self.stored[Side.REQUEST],
            "response_bytes": self.stored[Side.RESPONSE],
            "lost_bytes": self.lost,
        }


def write_exchanges(
    connection: sqlite3.Connection, exchanges: Iterable[OpenExchange], contracts: ContractChoice
) -> None:
    """Insert or update the rows of `exchanges`."""
    rows = [exchange.row(contracts) for exchange in exchanges]
    if rows:
        id_, *others = rows[0]
        update = ", ".join(f"{name} = excluded.{name}" for name in others if name != "channel")
        statement = (
            f"INSERT INTO exchange ({id_}, {', '.join(others)}) VALUES (?{', ?' * len(others)}) "  # noqa: S608 - columns
            f"ON CONFLICT (id) DO UPDATE SET {update}"
        )
        # Binding values by name would take half as long again.
        connection.executemany(statement, [tuple(row.values()) for row in rows])


def read_open_exchanges(connection: sqlite3.Connection) -> dict[int, OpenExchange]:
    """Return the exchanges that have not ended, by number."""
    found: dict[int, OpenExchange] = {}
    for row in connection.execute("SELECT * FROM exchange WHERE ended_ns IS NULL").fetchall():
        seen = read_exchange(row, NO_CONTRACTS)
        exchange = OpenExchange(seen.request, seen.request_ended_ns, seen.response, lost=seen.lost_bytes)
        exchange.stored = {Side.REQUEST: seen.request_bytes, Side.RESPONSE: seen.response_bytes}
        for side in Side:
            body = {"number": seen.number, "response": side is Side.RESPONSE}
            exchange.ends[side] = connection.execute(_BODY_END, body).fetchone()[0]
        found[seen.number] = exchange
    return found


def dump_keys(keys: Mapping[str, str]) -> str:
    """Return the text of `keys` in `exchange`, and of the word that `keys` in `frame` refers to."""
    try:
        return orjson.dumps(keys).decode()
    except orjson.JSONEncodeError:
        # A lone surrogate, which JSON of a service can contain.
        return json.dumps(keys, ensure_ascii=False, separators=(",", ":"))


def write_losses(connection: sqlite3.Connection, losses: Mapping[int, BytesLost]) -> None:
    """Insert or update the rows of `lost` with these ids."""
    rows = (
        (number, lost.exchange, lost.side is Side.RESPONSE, lost.start, lost.count, lost.time_ns, lost.why)
        for number, lost in losses.items()
    )
    connection.executemany(_WRITE_LOST, rows)


def read_exchange(row: sqlite3.Row, contracts: ContractChoice) -> Exchange:
    """Return the exchange in a row of `exchange` of a recording with these contracts."""
    return Exchange(
        number=row["id"],
        request=read_request(row),
        response=read_response(row) if row["status"] is not None else None,
        ending=Ending(row["ending"]),
        contracts=contracts,
        **{name: row[name] for name in _SAME},
    )


def read_request(row: sqlite3.Row) -> RequestStarted:
    """Return the start of the request in a row of `exchange`."""
    is_invented = row["request_headers"] == _INVENTED
    headers = () if is_invented else _read_headers(row["request_headers"])
    values = {name: row[column] for column, name in _REQUEST.items()}
    return RequestStarted(**values, headers=headers, is_invented=is_invented)


def read_response(row: sqlite3.Row) -> ResponseStarted:
    """Return the start of the response in a row of `exchange` that has one."""
    values = {name: row[column] for column, name in _RESPONSE.items()}
    return ResponseStarted(exchange=row["id"], **values, headers=_read_headers(row["response_headers"]))


def read_lost(row: sqlite3.Row) -> BytesLost:
    """Return the loss in a row of `lost`."""
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    return BytesLost(row["exchange_id"], row["time_ns"], side, row["start"], row["count"], row["why"])


def _read_headers(text: str) -> Headers:
    headers = tuple((name, value) for name, value in orjson.loads(text))
    if not all(isinstance(part, str) for pair in headers for part in pair):
        raise TypeError("a header is not text")
    return headers


def pack_run(run: BytesArrived) -> tuple[int, int, int, int, str | None, bytes]:
    """Return the columns of `segment` after `id`."""
    chunks = None
    if len(run.ends) > 1:
        flat: list[int] = []
        before, first = run.start, run.times[0]
        for end, time_ns in zip(run.ends, run.times, strict=True):
            flat += (end - before, time_ns - first)
            before = end
        chunks = orjson.dumps(flat).decode()
    return (run.exchange, int(run.side is Side.RESPONSE), run.start, run.times[0], chunks, run.data)


def unpack_run(row: sqlite3.Row) -> BytesArrived:
    """Return the run in a row of `segment`.  Raises ValueError if the row contradicts itself."""
    data: bytes = row["bytes"]
    start, time_ns, exchange = row["start"], row["time_ns"], row["exchange_id"]
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    if row["chunks"] is None:
        return BytesArrived(exchange, side, start, data, (start + len(data),), (time_ns,))
    flat: list[int] = orjson.loads(row["chunks"])
    ends = list(accumulate(flat[::2], initial=start))[1:]
    times = [time_ns + delta for delta in flat[1::2]]
    if not times or len(times) != len(ends) or ends[-1] != start + len(data) or min(flat) < 0 or max(flat) > _MAX_NS:
        raise ValueError(f"the chunks of segment {row['id']} do not match its bytes")
    return BytesArrived(exchange, side, start, data, ends, times)


def finding_row(finding: Finding) -> tuple[object, ...]:
    """Return the `FINDING_COLUMNS` of a finding."""
    return tuple(getattr(finding, name) for name in _FINDING.values())


def read_finding(row: sqlite3.Row) -> Finding:
    """Return the finding in a row of `finding`."""
    values = {name: row[column] for column, name in _FINDING.items()}
    return Finding(**values | {"severity": Severity(row["severity"]), "side": Party(row["side"])})
