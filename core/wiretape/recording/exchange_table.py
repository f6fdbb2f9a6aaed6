"""Rows of the tables `exchange` and `lost`: written for open exchanges, and read back as typed objects."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from wiretape.contract import operation_of
from wiretape.observations import (
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.recording_types import Exchange

_COLUMNS = (
    "id, label, client, method, scheme, authority, target, request_version, request_headers, started_ns, "
    "request_ended_ns, status, reason, response_version, response_headers, responded_ns, ending, detail, "
    "ended_ns, operation, session_id, run_id, request_bytes, response_bytes, lost_bytes"
)
_NAMES = _COLUMNS.split(", ")
_UPSERT = (
    f"INSERT INTO exchange ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))}) "  # noqa: S608 - constants
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _NAMES[1:])}"
)
_INSERT_LOST = "INSERT INTO lost (exchange_id, response, start, count, time_ns, why) VALUES (?, ?, ?, ?, ?, ?)"


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

    def row(self) -> tuple[object, ...]:
        """Return the columns of `exchange`."""
        request, response, ended = self.request, self.response, self.ended
        operation = operation_of(request.method, request.target)
        outcome = f"{response.status}" if response else "no response"
        return (
            request.exchange,
            f"{request.method} {request.target} → {outcome}",
            request.client,
            request.method,
            request.scheme,
            request.authority,
            request.target,
            request.http_version,
            orjson.dumps(request.headers).decode(),
            request.time_ns,
            self.request_ended_ns,
            response.status if response else None,
            response.reason if response else None,
            response.http_version if response else None,
            orjson.dumps(response.headers).decode() if response else None,
            response.time_ns if response else None,
            ended.ending if ended else Ending.OPEN,
            ended.detail if ended else "",
            ended.time_ns if ended else None,
            operation.operation.name if operation else None,
            operation.session_id if operation else None,
            operation.run_id if operation else None,
            self.stored[Side.REQUEST],
            self.stored[Side.RESPONSE],
            self.lost,
        )


def write_exchanges(connection: sqlite3.Connection, exchanges: Iterable[OpenExchange]) -> None:
    """Insert or update the rows of `exchanges`."""
    connection.executemany(_UPSERT, [exchange.row() for exchange in exchanges])


def write_losses(connection: sqlite3.Connection, losses: Iterable[BytesLost]) -> None:
    """Insert a row of `lost` for each loss."""
    rows = (
        (lost.exchange, lost.side is Side.RESPONSE, lost.start, lost.count, lost.time_ns, lost.why) for lost in losses
    )
    connection.executemany(_INSERT_LOST, rows)


def read_exchange(row: sqlite3.Row) -> Exchange:
    """Return the exchange in a row of `exchange`."""
    return Exchange(
        number=row["id"],
        request=read_request(row),
        request_ended_ns=row["request_ended_ns"],
        response=read_response(row) if row["status"] is not None else None,
        ending=Ending(row["ending"]),
        detail=row["detail"],
        ended_ns=row["ended_ns"],
        operation=row["operation"],
        session_id=row["session_id"],
        run_id=row["run_id"],
        request_bytes=row["request_bytes"],
        response_bytes=row["response_bytes"],
        lost_bytes=row["lost_bytes"],
    )


def read_request(row: sqlite3.Row) -> RequestStarted:
    """Return the start of the request in a row of `exchange`."""
    return RequestStarted(
        exchange=row["id"],
        time_ns=row["started_ns"],
        client=row["client"],
        method=row["method"],
        scheme=row["scheme"],
        authority=row["authority"],
        target=row["target"],
        http_version=row["request_version"],
        headers=_read_headers(row["request_headers"]),
    )


def read_response(row: sqlite3.Row) -> ResponseStarted:
    """Return the start of the response in a row of `exchange` that has one."""
    return ResponseStarted(
        exchange=row["id"],
        time_ns=row["responded_ns"],
        status=row["status"],
        reason=row["reason"],
        http_version=row["response_version"],
        headers=_read_headers(row["response_headers"]),
    )


def read_lost(row: sqlite3.Row) -> BytesLost:
    """Return the loss in a row of `lost`."""
    side = Side.RESPONSE if row["response"] else Side.REQUEST
    return BytesLost(row["exchange_id"], row["time_ns"], side, row["start"], row["count"], row["why"])


def _read_headers(text: str) -> Headers:
    headers = tuple((name, value) for name, value in orjson.loads(text))
    if not all(isinstance(part, str) for pair in headers for part in pair):
        raise TypeError("a header is not text")
    return headers
