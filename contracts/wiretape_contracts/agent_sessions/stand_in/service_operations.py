"""The operations of the service: finds the operation of a request, reads its fields, and responds."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson

from wiretape.contract.service_terms import ErrorWriter
from wiretape.http_headers import LAST_EVENT_ID, is_preflight
from wiretape.safe_text import shorten
from wiretape_contracts.agent_sessions import (
    EVENT_DELTAS,
    IDEMPOTENCY_CONFLICT,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
)
from wiretape_contracts.agent_sessions.stand_in.assumptions import Assumptions
from wiretape_contracts.agent_sessions.stand_in.event_emitter import format_time
from wiretape_contracts.agent_sessions.stand_in.live_sessions import LiveSession, LiveSessions
from wiretape_contracts.agent_sessions.stand_in.run_commands import Refusal, invalid_field, require
from wiretape_contracts.agent_sessions.stand_in.run_interpreter import ResumePoint, RunInterpreter
from wiretape_contracts.agent_sessions.stand_in.service_routes import RouteMatch, find_route
from wiretape_contracts.agent_sessions.stand_in.session_engine import CommandKind
from wiretape_replay.access.access_settings import ANY_KEY, ApiKey
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import error_response
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, HttpResponse, read_body
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.replayed_contracts import channel_not_found


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request with its route and its key."""

    http: HttpRequest
    match: RouteMatch
    key: ApiKey

    @property
    def digest(self) -> bytes:
        """Equal for requests that are the same to an idempotency key: no body equals an empty object."""
        body = self.http.body
        is_empty = body.text is not None and not body.text.strip()
        parts = (self.http.method, self.http.target.partition("?")[0], self.key.workspace or "")
        return hashlib.sha256("\0".join(parts).encode() + (_EMPTY_OBJECT_DIGEST if is_empty else body.digest)).digest()


class ServiceOperations:
    """Responds to requests that passed authentication.  Every operation raises Refusal."""

    def __init__(
        self,
        sessions: LiveSessions,
        streams: ChannelStreams,
        access: AccessControl,
        assumptions: Assumptions,
        *,
        errors: ErrorWriter,
        ids: Callable[[], str],
    ) -> None:
        """`access` knows the tenants of keys."""
        self.routes = assumptions.routes
        self._sessions = sessions
        self._streams = streams
        self._access = access
        self._assumptions = assumptions
        self._errors = errors
        self._ids = ids
        self._stored: dict[tuple[str, str], tuple[bytes, HttpResponse]] = {}
        """The responses to requests with an idempotency key, by tenant and key, and the digests of the requests."""
        self._operations: Mapping[str, Callable[[ServiceRequest], HttpResponse]] = {
            "create_session": self._create_session,
            "read_session": self._read_session,
            "create_run": partial(self._command, CommandKind.CREATE, assumptions.run_created),
            "read_run": self._read_run,
            "cancel": partial(self._command, CommandKind.CANCEL, assumptions.cancelled),
            "resume": partial(self._command, CommandKind.RESUME, assumptions.resumed),
        }

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Respond to a request."""
        try:
            match = find_route(self.routes, request.method, request.target)
            if match.route is None:
                response = self._no_route(request, match)
            else:
                routed = ServiceRequest(request, match, self._access.key(request) or ANY_KEY)
                if match.route.name == "stream":
                    live = self._find_session(routed)
                    check_stream_parameters(request)
                    await self._streams.serve(request, writer, live.session)
                    return
                response = self._operations[match.route.name](routed)
        except Refusal as refusal:
            response = refusal.respond(self._errors, self._ids())
        writer.log_outcome(request, str(response.status))
        await writer.respond(response)

    def _no_route(self, request: HttpRequest, match: RouteMatch) -> HttpResponse:
        allowed = ", ".join(match.allowed_methods)
        if allowed and is_preflight(request.method, request.headers):
            return HttpResponse(200, b"", (("Allow", allowed),))
        path = shorten(request.target.partition("?")[0])
        if not allowed:
            return error_response(self._errors, RESOURCE_NOT_FOUND, f"There is no {path}.", self._ids())
        message, headers = f"{path} allows {allowed}.", (("Allow", allowed),)
        return error_response(self._errors, INVALID_REQUEST, message, self._ids(), headers=headers)

    def _find_session(self, request: ServiceRequest) -> LiveSession:
        """The session in the path of a request.

        Raises Refusal, with the same message for a session that does not exist and for one that the key cannot access.
        """
        session_id = request.match.ids["session_id"]
        live, key = self._sessions.by_id.get(session_id), request.key
        if live is None or live.tenant != key.tenant or key.workspace not in {None, live.workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, channel_not_found("session", shorten(session_id)))
        return live

    def _create_session(self, request: ServiceRequest) -> HttpResponse:
        def create() -> HttpResponse:
            key = request.key
            requested = text_field(read_json_object(request.http), "workspace_id")
            workspace = requested or key.workspace or self._assumptions.workspace
            if key.workspace not in {None, workspace}:
                raise Refusal(RESOURCE_NOT_FOUND, f"There is no workspace {shorten(workspace)}.")
            live = self._sessions.create(key.tenant, workspace)
            return HttpResponse.from_json(self._assumptions.session_created, self._session(live))

        return self._once(request, create)

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

        def execute() -> HttpResponse:
            try:
                now_ns = self._sessions.clock.now_ns()
                run = live.engine.execute(kind, run_id, lambda: read_json_object(request.http), now_ns)
            finally:
                self._sessions.catch_up(live)
            return HttpResponse.from_json(status, self._run(run, live))

        return self._once(request, execute)

    def _once(self, request: ServiceRequest, respond: Callable[[], HttpResponse]) -> HttpResponse:
        """Respond, or repeat the response to an earlier request with the same idempotency key.

        Raises Refusal if another request used the key.
        """
        name = idempotency_key(request.http, self._assumptions.idempotency_header)
        if name is None:
            return respond()
        key, digest = (request.key.tenant, name), request.digest
        if key not in self._stored:
            self._stored[key] = digest, respond()
        stored_digest, response = self._stored[key]
        if stored_digest != digest:
            raise Refusal(IDEMPOTENCY_CONFLICT, "The idempotency key was used for another request.")
        return response

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

    def _run(self, run: RunInterpreter, live: LiveSession) -> Mapping[str, Any]:
        facts = {
            "id": run.id,
            "session_id": live.id,
            "workspace_id": live.workspace,
            "status": run.status.value,
            "created_at": self._time(run.created_ns),
            "ended_at": self._time(run.ended_ns),
            "waiting_for": [self._wait(wait) for wait in run.waits],
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


_LONGEST_TEXT = 255
_EMPTY_OBJECT_DIGEST = read_body([b"{}"]).digest


def read_json_object(request: HttpRequest) -> Mapping[str, Any]:
    """The JSON object in the body of a request; an empty body is an empty object."""
    encoding = (request.header("Content-Encoding") or "").strip().lower()
    reason = "expected identity or no Content-Encoding, because bodies are not decoded"
    require(encoding in {"", "identity"}, "Content-Encoding", reason)
    text = request.body.text
    if text is None:
        raise invalid_field("$", f"expected {LARGEST_BODY // 1024 // 1024} MiB or less")
    if not text.strip():
        return {}
    try:
        document: Mapping[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise invalid_field("$", f"expected JSON: {error}") from None
    require(isinstance(document, dict), "$", "expected an object")
    return document


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """A string of the body; None if it is missing."""
    if name not in body:
        return None
    value = body[name]
    is_text = isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT
    require(is_text, name, f"expected a string of 1 to {_LONGEST_TEXT} characters")
    return str(value)


def idempotency_key(request: HttpRequest, header: str) -> str | None:
    """The idempotency key of a request; None if it has none."""
    values = [value for name, value in request.headers if name.lower() == header.lower()]
    if not values:
        return None
    is_text = len(values) == 1 and 0 < len(values[0]) <= _LONGEST_TEXT
    require(is_text, header, f"expected one value of 1 to {_LONGEST_TEXT} characters")
    return values[0]


def check_stream_parameters(request: HttpRequest) -> None:
    """Check the parameters of a stream."""
    pairs = parse_qsl(request.target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    deltas = [value.lower() for name, value in pairs if name == EVENT_DELTAS]
    require(set(deltas) <= {"true", "false"}, EVENT_DELTAS, "expected true or false")
    require(len(deltas) <= 1, EVENT_DELTAS, "expected one value")
    cursors = sum(name.lower() == LAST_EVENT_ID.lower() for name, _ in request.headers)
    require(cursors <= 1, LAST_EVENT_ID, "expected one value")
