"""The operations of the service: finds the operation of a request, reads its fields, and responds."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson

from wiretape.contract import (
    CANCEL,
    CURSOR_HEADER,
    EVENT_DELTAS,
    IDEMPOTENCY_CONFLICT,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RESUME,
    STREAM,
    is_preflight,
)
from wiretape.safe_text import shorten
from wiretape_replay.access.access_settings import ANY_KEY, ApiKey
from wiretape_replay.access.auth_and_rate_limits import AccessControl, session_not_found
from wiretape_replay.access.error_envelope import ErrorDetail, error_response
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, HttpResponse, read_body
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.service.assumptions import Assumptions
from wiretape_replay.service.engine.event_emitter import format_time
from wiretape_replay.service.engine.run_commands import CommandKind, Refusal
from wiretape_replay.service.engine.run_interpreter import ResumePoint, RunSnapshot
from wiretape_replay.service.live_sessions import LiveSession, LiveSessions, StoredResponse
from wiretape_replay.service.service_routes import RouteMatch, find_route
from wiretape_replay.session.session_streams import SessionStreams


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request with its route and its key."""

    http: HttpRequest
    match: RouteMatch
    key: ApiKey

    def digest(self, *more: str) -> bytes:
        """Equal for requests that are the same to an idempotency key."""
        parts = (self.http.method, self.http.target.partition("?")[0], *more)
        return hashlib.sha256("\0".join(parts).encode() + b"\0" + body_digest(self.http)).digest()


class ServiceOperations:
    """Responds to requests that passed authentication.  Every operation raises Refusal."""

    def __init__(
        self,
        sessions: LiveSessions,
        streams: SessionStreams,
        access: AccessControl,
        assumptions: Assumptions,
        ids: RequestIdCounter,
    ) -> None:
        """`access` knows the tenants of keys."""
        self.routes = assumptions.routes
        self._sessions = sessions
        self._streams = streams
        self._access = access
        self._assumptions = assumptions
        self._ids = ids
        self._operations: Mapping[str, Callable[[ServiceRequest], HttpResponse]] = {
            "create_session": self._create_session,
            "read_session": self._read_session,
            "create_run": partial(self._command, CommandKind.CREATE, assumptions.run_created),
            "read_run": self._read_run,
            CANCEL.name: partial(self._command, CommandKind.CANCEL, assumptions.cancelled),
            RESUME.name: partial(self._command, CommandKind.RESUME, assumptions.resumed),
        }

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Respond to a request."""
        try:
            match = find_route(self.routes, request.method, request.target)
            if match.route is None:
                response = self._no_route(request, match)
            else:
                routed = ServiceRequest(request, match, self._access.key(request) or ANY_KEY)
                if match.route.name == STREAM.name:
                    live = self._find_session(routed)
                    check_stream_parameters(request)
                    await self._streams.serve(request, writer, live.session)
                    return
                response = self._operations[match.route.name](routed)
        except Refusal as refusal:
            response = error_response(
                refusal.code, refusal.message, self._ids.next(), active=refusal.active, reasons=refusal.reasons
            )
        writer.log_outcome(request, str(response.status))
        await writer.respond(response)

    def _no_route(self, request: HttpRequest, match: RouteMatch) -> HttpResponse:
        allowed = ", ".join(match.allowed_methods)
        if allowed and is_preflight(request.method, request.headers):
            return HttpResponse(200, b"", (("Allow", allowed),))
        path = shorten(request.target.partition("?")[0])
        if not allowed:
            return error_response(RESOURCE_NOT_FOUND, f"There is no {path}.", self._ids.next())
        message = f"{path} allows {allowed}."
        return error_response(INVALID_REQUEST, message, self._ids.next(), headers=(("Allow", allowed),))

    def _find_session(self, request: ServiceRequest) -> LiveSession:
        """The session in the path of a request.

        Raises Refusal, with the same message for a session that does not exist and for one that the key cannot access.
        """
        session_id = request.match.ids["session_id"]
        live, key = self._sessions.by_id.get(session_id), request.key
        if live is None or live.tenant != key.tenant or key.workspace not in {None, live.workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, session_not_found(shorten(session_id)))
        return live

    def _create_session(self, request: ServiceRequest) -> HttpResponse:
        key = request.key
        try:
            requested = text_field(read_json_object(request.http), "workspace_id")
        except Refusal:
            self._idempotency(request)  # the conflict of a key comes before an invalid body
            raise
        workspace = requested or key.workspace or self._assumptions.workspace
        if key.workspace not in {None, workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, f"There is no workspace {shorten(workspace)}.")
        idempotency = self._idempotency(request, workspace)
        if idempotency.response is not None:
            return idempotency.response

        live = self._sessions.create(key.tenant, workspace)
        return idempotency.store(HttpResponse.from_json(self._assumptions.session_created, self._session(live)))

    def _read_session(self, request: ServiceRequest) -> HttpResponse:
        live = self._find_session(request)
        self._sessions.catch_up(live)
        return HttpResponse.from_json(200, self._session(live))

    def _read_run(self, request: ServiceRequest) -> HttpResponse:
        live, run_id = self._find_session(request), request.match.ids["run_id"]
        self._sessions.catch_up(live)
        return HttpResponse.from_json(200, self._run(live.engine.run(run_id), live))

    def _command(self, kind: CommandKind, status: int, request: ServiceRequest) -> HttpResponse:
        live, run_id = self._find_session(request), request.match.ids.get("run_id")
        if run_id is not None:
            live.engine.run(run_id)  # a run that does not exist comes before a conflict of the key
        idempotency = self._idempotency(request)
        if idempotency.response is not None:
            return idempotency.response
        try:
            body = read_json_object(request.http)
        except Refusal:
            self._sessions.catch_up(live)
            live.engine.check(kind, run_id)  # the state of session and run comes before an invalid body
            raise

        run = self._sessions.execute(live, kind, run_id, body)
        return idempotency.store(HttpResponse.from_json(status, self._run(run, live)))

    def _idempotency(self, request: ServiceRequest, *more: str) -> "_Idempotency":
        """What is known about the idempotency key of a request.  Raises Refusal if another request used it."""
        name = idempotency_key(request.http, self._assumptions.idempotency_header)
        key = None if name is None else (request.key.tenant, name)
        digest, responses = request.digest(*more), self._sessions.responses
        stored = None if key is None else responses.get(key)
        if stored is not None and stored.request != digest:
            raise Refusal(IDEMPOTENCY_CONFLICT, "The idempotency key was used for another request.")
        return _Idempotency(key, digest, responses, None if stored is None else stored.response)

    # The bodies of responses.  All of this is assumed: the specification shows none of it.

    def _session(self, live: LiveSession) -> Mapping[str, Any]:
        active = live.engine.active
        facts = {
            "id": live.id,
            "workspace_id": live.workspace,
            "status": "idle" if active is None else "active",
            "active_run_id": None if active is None else active.id,
            "created_at": self._time(live.created_ns),
        }
        return {key: facts[fact] for key, fact in self._assumptions.session_body.items()}

    def _run(self, run: RunSnapshot, live: LiveSession) -> Mapping[str, Any]:
        facts = {
            "id": run.id,
            "session_id": live.id,
            "workspace_id": live.workspace,
            "status": run.status.value,
            "created_at": self._time(run.created_ns),
            "ended_at": self._time(run.ended_ns),
            "waiting_for": [self._wait(wait) for wait in run.waiting],
        }
        return {key: facts[fact] for key, fact in self._assumptions.run_body.items()}

    def _wait(self, wait: ResumePoint) -> Mapping[str, Any]:
        call = wait.call
        return {
            "tool_call_id": wait.tool_call_id,
            "name": None if call is None else call.name,
            "input": None if call is None else call.input,
            "deadline": self._time(wait.deadline_ns),
        }

    def _time(self, time_ns: int | None) -> str | None:
        epoch: datetime = self._sessions.clock.epoch
        return None if time_ns is None else format_time(epoch, time_ns)


@dataclass(frozen=True, slots=True)
class _Idempotency:
    """The idempotency key of a request, if it has one, and the response that was sent for it before."""

    key: tuple[str, str] | None
    """The tenant and the key."""
    request: bytes
    """A digest of the request."""
    responses: dict[tuple[str, str], StoredResponse]
    response: HttpResponse | None

    def store(self, response: HttpResponse) -> HttpResponse:
        """Keep a response for requests with the same key, and return it."""
        if self.key is not None:
            self.responses[self.key] = StoredResponse(self.request, response)
        return response


DEEPEST_JSON = 1024
"""How deep orjson reads nested values."""
_LONGEST_TEXT = 255
_GZIP = b"\x1f\x8b"
_ORJSON_LIMITS = {
    "depth recursion": f"nested more than {DEEPEST_JSON} deep",
    "infinity range": "a number is out of the range of a double",
    "surrogate": "a string contains half of a surrogate pair",
    "bom": "it begins with a byte order mark",
}
"""What orjson refuses although it is JSON, or nearly, by words of its messages."""
_EMPTY_OBJECT_DIGEST = read_body([b"{}"]).digest


def read_json_object(request: HttpRequest) -> Mapping[str, Any]:
    """The JSON object in the body of a request; an empty body is an empty object."""
    _check_encoding(request)
    text = request.body.text
    if text is None:
        raise invalid_field("$", f"expected {LARGEST_BODY // 1024 // 1024} MiB or less")
    if not text.strip():
        return {}
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise invalid_field("$", _json_problem(text, error)) from None
    if not isinstance(document, dict):
        raise invalid_field("$", "expected an object")
    return document


def _check_encoding(request: HttpRequest) -> None:
    """Refuse encoded bodies: the service does not decode them."""
    for name, value in request.headers:
        if name.lower() == "content-encoding" and value.strip().lower() not in {"", "identity"}:
            raise invalid_field(name, "expected identity or no Content-Encoding, because bodies are not decoded")


def _json_problem(text: bytes, error: orjson.JSONDecodeError) -> str:
    """Why a body cannot be read."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as bad:
        if text.startswith(_GZIP):
            return "expected JSON, got compressed data"
        return f"expected JSON in UTF-8; the byte at offset {bad.start} is not valid UTF-8"
    position = f"at line {error.lineno}, column {error.colno}"
    message = str(error).lower()  # differs between versions of orjson
    for words, problem in _ORJSON_LIMITS.items():
        if any(word in message for word in words.split()):
            return f"{problem}, {position}"
    return f"expected JSON; it is not valid {position}"


def body_digest(request: HttpRequest) -> bytes:
    """Equal for bodies that are equal as JSON; no body equals an empty object."""
    body = request.body
    return body.digest if body.text is None or body.text.strip() else _EMPTY_OBJECT_DIGEST


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """A string of the body; None if it is missing."""
    if name not in body:
        return None
    value = body[name]
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        raise invalid_field(name, f"expected a string of 1 to {_LONGEST_TEXT} characters")
    return value


def idempotency_key(request: HttpRequest, header: str) -> str | None:
    """The idempotency key of a request; None if it has none."""
    values = [value for name, value in request.headers if name.lower() == header.lower()]
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= _LONGEST_TEXT:
        raise invalid_field(header, f"expected one value of 1 to {_LONGEST_TEXT} characters")
    return values[0]


def check_stream_parameters(request: HttpRequest) -> None:
    """Check the parameters of a stream."""
    pairs = parse_qsl(request.target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    deltas = [value.lower() for name, value in pairs if name == EVENT_DELTAS]
    if any(value not in {"true", "false"} for value in deltas):
        raise invalid_field(EVENT_DELTAS, "expected true or false")
    if len(deltas) > 1:
        raise invalid_field(EVENT_DELTAS, "expected one value")
    if sum(name.lower() == CURSOR_HEADER.lower() for name, _ in request.headers) > 1:
        raise invalid_field(CURSOR_HEADER, "expected one value")


def invalid_field(path: str, reason: str) -> Refusal:
    """The refusal of a request because of one field."""
    field = "The body" if path == "$" else path
    return Refusal(INVALID_REQUEST, f"{field} is invalid: {reason}.", reasons=[ErrorDetail(path, reason)])
