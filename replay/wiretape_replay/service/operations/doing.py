"""The operations of a service, but for its streams."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wiretape.contract import CANCEL, IDEMPOTENCY_CONFLICT, RESOURCE_NOT_FOUND, RESUME
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpRequest, Response
from wiretape_replay.responses.access_settings import ApiKey
from wiretape_replay.responses.auth_and_rate_limits import session_not_found
from wiretape_replay.service.assumptions import Assumptions
from wiretape_replay.service.engine.commands import CommandKind, Refusal
from wiretape_replay.service.engine.run_state import RunSnapshot
from wiretape_replay.service.operations.documents import run_document, session_document
from wiretape_replay.service.operations.reading import idempotency_key, payload, read_body, text_in
from wiretape_replay.service.operations.routing import Found
from wiretape_replay.service.sessions import LiveSession, Sessions
from wiretape_replay.service.store import Kept


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose operation is known."""

    asked: HttpRequest
    found: Found
    key: ApiKey

    def digest(self, *more: str) -> bytes:
        """The same for requests that ask for the same."""
        parts = (self.asked.method, self.asked.target.partition("?")[0], *more)
        return hashlib.sha256("\0".join(parts).encode() + b"\0" + payload(self.asked)).digest()


class Doing:
    """Does what requests ask for.  Every operation raises Refusal, and InputError when nothing can be stored."""

    def __init__(self, sessions: Sessions, assumed: Assumptions) -> None:
        self._sessions = sessions
        self._assumed = assumed
        self._operations: Mapping[str, Callable[[Request], Response]] = {
            "create_session": self._create_session,
            "read_session": self._read_session,
            "create_run": self._create_run,
            "read_run": self._read_run,
            CANCEL.name: self._cancel,
            RESUME.name: self._resume,
        }

    def do(self, request: Request) -> Response:
        """Do it."""
        route = request.found.route
        if route is None:
            raise ValueError("The request asks for nothing that there is.")
        return self._operations[route.name](request)

    def session(self, request: Request) -> LiveSession:
        """The session that a request names.

        Raises Refusal in the same words for one that does not exist and for one that is somebody else's.
        """
        named = request.found.ids["session_id"]
        live, key = self._sessions.by_id.get(named), request.key
        if live is None or live.stored.tenant != key.tenant or key.workspace not in {None, live.stored.workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, session_not_found(shorten(named)))
        return live

    def _create_session(self, request: Request) -> Response:
        key = request.key
        try:
            named = text_in(read_body(request.asked), "workspace_id")
        except Refusal:
            self._kept(request)  # a key of another request comes before what is wrong with this one
            raise
        workspace = named or key.workspace or self._assumed.workspace
        if key.workspace not in {None, workspace}:
            raise Refusal(RESOURCE_NOT_FOUND, f"There is no workspace {shorten(workspace)}.")
        kept = self._kept(request, workspace)
        if kept.answer is not None:
            return kept.answer

        def answering(live: LiveSession) -> tuple[Response, Kept | None]:
            document = session_document(live, self._sessions.clock.epoch, self._assumed)
            return kept.of(Response.from_json(self._assumed.session_created, document))

        return self._sessions.create(key.tenant, workspace, answering)

    def _read_session(self, request: Request) -> Response:
        live = self.session(request)
        self._sessions.catch_up(live)
        return Response.from_json(200, session_document(live, self._sessions.clock.epoch, self._assumed))

    def _read_run(self, request: Request) -> Response:
        live, named = self.session(request), request.found.ids["run_id"]
        self._sessions.catch_up(live)
        run = live.engine.run(named)
        if run is None:
            raise Refusal(RESOURCE_NOT_FOUND, f"There is no run {shorten(named)} in session {live.id}.")
        return Response.from_json(200, run_document(run, live, self._sessions.clock.epoch, self._assumed))

    def _create_run(self, request: Request) -> Response:
        return self._ask(request, CommandKind.CREATE, self._assumed.run_created, None)

    def _cancel(self, request: Request) -> Response:
        return self._ask(request, CommandKind.CANCEL, self._assumed.cancelled, request.found.ids["run_id"])

    def _resume(self, request: Request) -> Response:
        return self._ask(request, CommandKind.RESUME, self._assumed.resumed, request.found.ids["run_id"])

    def _ask(self, request: Request, do: CommandKind, status: int, run_id: str | None) -> Response:
        live = self.session(request)
        if run_id is not None and live.engine.run(run_id) is None:
            raise Refusal(RESOURCE_NOT_FOUND, f"There is no run {shorten(run_id)} in session {live.id}.")
        kept = self._kept(request)
        if kept.answer is not None:
            return kept.answer
        try:
            body: Mapping[str, Any] | None = read_body(request.asked)
        except Refusal:
            self._sessions.catch_up(live)
            live.engine.check(do, run_id)  # what cannot be done comes before what is wrong with the request
            raise

        def answering(run: RunSnapshot) -> tuple[Response, Kept | None]:
            document = run_document(run, live, self._sessions.clock.epoch, self._assumed)
            return kept.of(Response.from_json(status, document))

        return self._sessions.ask(live, do, run_id, None if do is CommandKind.CANCEL else body, answering)

    def _kept(self, request: Request, *more: str) -> "_Keeping":
        """What is known of the request's idempotency key.  Raises Refusal for one of another request."""
        key = idempotency_key(request.asked, self._assumed.idempotency_header)
        digest = request.digest(*more)
        known = self._sessions.store.answer(request.key.tenant, key) if key is not None else None
        if known is None:
            return _Keeping(request.key.tenant, key, digest, None)
        if known.request != digest:
            raise Refusal(IDEMPOTENCY_CONFLICT, "The idempotency key was used for another request.")
        return _Keeping(request.key.tenant, key, digest, Response(known.status, known.body))


@dataclass(frozen=True, slots=True)
class _Keeping:
    """An idempotency key, if a request has one, and what was answered with it before."""

    tenant: str
    key: str | None
    request: bytes
    answer: Response | None

    def of(self, answer: Response) -> tuple[Response, Kept | None]:
        """An answer, and what of it is to be stored."""
        if self.key is None:
            return answer, None
        return answer, Kept(self.tenant, self.key, self.request, answer.status, answer.body)
