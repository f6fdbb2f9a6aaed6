"""The operations of the service, except streams."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wiretape.contract import CANCEL, IDEMPOTENCY_CONFLICT, RESOURCE_NOT_FOUND, RESUME
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpRequest, Response
from wiretape_replay.responses.access_settings import ApiKey
from wiretape_replay.responses.auth_and_rate_limits import session_not_found
from wiretape_replay.service.assumptions import Assumptions
from wiretape_replay.service.engine.commands import CommandKind, Refusal
from wiretape_replay.service.engine.event_emitter import format_time
from wiretape_replay.service.engine.run_state import RunSnapshot, WaitSnapshot
from wiretape_replay.service.live_sessions import LiveSession, LiveSessions
from wiretape_replay.service.request_fields import body_digest, idempotency_key, read_json_object, text_field
from wiretape_replay.service.service_data import StoredResponse
from wiretape_replay.service.service_routes import RouteMatch


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
    """Executes requests.  Every operation raises Refusal, and InputError if its result cannot be stored."""

    def __init__(self, sessions: LiveSessions, assumptions: Assumptions) -> None:
        self._sessions = sessions
        self._assumptions = assumptions
        self._operations: Mapping[str, Callable[[ServiceRequest], Response]] = {
            "create_session": self._create_session,
            "read_session": self._read_session,
            "create_run": self._create_run,
            "read_run": self._read_run,
            CANCEL.name: self._cancel,
            RESUME.name: self._resume,
        }

    def execute(self, request: ServiceRequest) -> Response:
        """Execute the operation of a request."""
        route = request.match.route
        if route is None:
            raise ValueError("The request does not match a route.")
        return self._operations[route.name](request)

    def find_session(self, request: ServiceRequest) -> LiveSession:
        """The session in the path of a request.

        Raises Refusal, with the same message for a session that does not exist and for one that the key cannot access.
        """
        session_id = request.match.ids["session_id"]
        live, key = self._sessions.by_id.get(session_id), request.key
        if live is None or live.stored.tenant != key.tenant or key.workspace not in {None, live.stored.workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, session_not_found(shorten(session_id)))
        return live

    def _create_session(self, request: ServiceRequest) -> Response:
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

        def respond(live: LiveSession) -> tuple[Response, StoredResponse | None]:
            return idempotency.store(Response.from_json(self._assumptions.session_created, self._session(live)))

        return self._sessions.create(key.tenant, workspace, respond)

    def _read_session(self, request: ServiceRequest) -> Response:
        live = self.find_session(request)
        self._sessions.catch_up(live)
        return Response.from_json(200, self._session(live))

    def _read_run(self, request: ServiceRequest) -> Response:
        live, run_id = self.find_session(request), request.match.ids["run_id"]
        self._sessions.catch_up(live)
        run = live.engine.run(run_id)
        if run is None:
            raise _run_not_found(run_id, live)
        return Response.from_json(200, self._run(run, live))

    def _create_run(self, request: ServiceRequest) -> Response:
        return self._command(request, CommandKind.CREATE, self._assumptions.run_created, None)

    def _cancel(self, request: ServiceRequest) -> Response:
        return self._command(request, CommandKind.CANCEL, self._assumptions.cancelled, request.match.ids["run_id"])

    def _resume(self, request: ServiceRequest) -> Response:
        return self._command(request, CommandKind.RESUME, self._assumptions.resumed, request.match.ids["run_id"])

    def _command(self, request: ServiceRequest, kind: CommandKind, status: int, run_id: str | None) -> Response:
        live = self.find_session(request)
        if run_id is not None and live.engine.run(run_id) is None:
            raise _run_not_found(run_id, live)
        idempotency = self._idempotency(request)
        if idempotency.response is not None:
            return idempotency.response
        try:
            body: Mapping[str, Any] | None = read_json_object(request.http)
        except Refusal:
            self._sessions.catch_up(live)
            live.engine.check(kind, run_id)  # the state of session and run comes before an invalid body
            raise

        def respond(run: RunSnapshot) -> tuple[Response, StoredResponse | None]:
            return idempotency.store(Response.from_json(status, self._run(run, live)))

        return self._sessions.execute(live, kind, run_id, None if kind is CommandKind.CANCEL else body, respond)

    def _idempotency(self, request: ServiceRequest, *more: str) -> "_Idempotency":
        """What is known about the idempotency key of a request.  Raises Refusal if another request used it."""
        key = idempotency_key(request.http, self._assumptions.idempotency_header)
        digest = request.digest(*more)
        stored = self._sessions.data.response(request.key.tenant, key) if key is not None else None
        if stored is None:
            return _Idempotency(request.key.tenant, key, digest, None)
        if stored.request != digest:
            raise Refusal(IDEMPOTENCY_CONFLICT, "The idempotency key was used for another request.")
        return _Idempotency(request.key.tenant, key, digest, Response(stored.status, stored.body))

    # The bodies of responses.  All of this is assumed: the specification shows none of it.

    def _session(self, live: LiveSession) -> Mapping[str, Any]:
        active = live.engine.active
        facts = {
            "id": live.id,
            "workspace_id": live.stored.workspace,
            "status": "idle" if active is None else "active",
            "active_run_id": None if active is None else active.id,
            "created_at": self._time(live.stored.created_ns),
        }
        return {key: facts[fact] for key, fact in self._assumptions.session_body.items()}

    def _run(self, run: RunSnapshot, live: LiveSession) -> Mapping[str, Any]:
        facts = {
            "id": run.id,
            "session_id": live.id,
            "workspace_id": live.stored.workspace,
            "status": run.status.value,
            "created_at": self._time(run.created_ns),
            "ended_at": self._time(run.ended_ns),
            "waiting_for": [self._wait(wait) for wait in run.waiting],
        }
        return {key: facts[fact] for key, fact in self._assumptions.run_body.items()}

    def _wait(self, wait: WaitSnapshot) -> Mapping[str, Any]:
        return {
            "tool_call_id": wait.tool_call_id,
            "name": wait.name,
            "input": wait.input,
            "deadline": self._time(wait.deadline_ns),
        }

    def _time(self, time_ns: int | None) -> str | None:
        epoch: datetime = self._sessions.clock.epoch
        return None if time_ns is None else format_time(epoch, time_ns)


def _run_not_found(run_id: str, live: LiveSession) -> Refusal:
    return Refusal(RESOURCE_NOT_FOUND, f"Session {live.id} has no run {shorten(run_id)}.")


@dataclass(frozen=True, slots=True)
class _Idempotency:
    """The idempotency key of a request, if it has one, and the response that was sent for it before."""

    tenant: str
    key: str | None
    request: bytes
    response: Response | None

    def store(self, response: Response) -> tuple[Response, StoredResponse | None]:
        """Return a response, and what of it has to be stored."""
        if self.key is None:
            return response, None
        return response, StoredResponse(self.tenant, self.key, self.request, response.status, response.body)
