"""The open exchanges of a recording being written, and their rows."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from wiretape.contract import operation_of
from wiretape.observations import (
    Ending,
    ExchangeEnded,
    Headers,
    RequestStarted,
    ResponseStarted,
    Side,
)

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


@dataclass(slots=True)
class OpenExchange:
    """What is known so far of an exchange; written again whenever that changes."""

    request: RequestStarted
    request_ended_ns: int | None = None
    response: ResponseStarted | None = None
    ended: ExchangeEnded | None = None
    stored: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(Side, 0))
    """Bytes of each body that are in the file."""
    lost: int = 0

    def row(self) -> tuple[object, ...]:
        """The columns of `exchange`."""
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
            _json(request.headers),
            request.time_ns,
            self.request_ended_ns,
            response.status if response else None,
            response.reason if response else None,
            response.http_version if response else None,
            _json(response.headers) if response else None,
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


def store(connection: sqlite3.Connection, exchanges: Iterable[OpenExchange]) -> None:
    """Insert or update the rows of `exchanges`."""
    connection.executemany(_UPSERT, [exchange.row() for exchange in exchanges])


def _json(headers: Headers) -> str:
    return orjson.dumps(headers).decode()
