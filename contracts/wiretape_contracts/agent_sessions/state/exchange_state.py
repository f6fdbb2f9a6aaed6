"""State of one open exchange of the service, and what it changes in the state of its client and session."""

from collections.abc import Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, TypeAlias

from wiretape.bounded_dict import put_bounded
from wiretape.contract.contract_operation import Operation
from wiretape.http_headers import LAST_EVENT_ID, RETRY_AFTER, cursor_in
from wiretape.observations import BytesArrived, Ending, RequestStarted, Side, header
from wiretape.rules.exchange import Exchange, SilenceMonitor
from wiretape_contracts.agent_sessions import (
    ERROR_CODES,
    EVENT_ALREADY_RESOLVED,
    INVALID_CURSOR,
    OPERATIONS,
    RATE_LIMITED,
    SAME_KEY_CODES,
    is_session,
    session_in,
)
from wiretape_contracts.agent_sessions.state.client_state import (
    MOST_REQUESTS,
    ClientState,
    RequestKey,
    ResolvedCall,
    RetryWait,
    SameKeyRetry,
    SessionReader,
)
from wiretape_contracts.agent_sessions.state.runs import Run
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody, SuccessBody
from wiretape_contracts.agent_sessions.state.session_state import SessionRegistry, SessionState
from wiretape_contracts.agent_sessions.state.stream_state import StreamState

_SECOND = 1_000_000_000
_TOO_MANY_REQUESTS = ERROR_CODES[RATE_LIMITED]


Place: TypeAlias = tuple[str, str]
"""An authority and a base path."""


class ExchangeState(Exchange):
    """One exchange of the service that has not ended."""

    def __init__(
        self,
        request: RequestStarted,
        traffic: Any,
        base: str,
        operation: Operation | None,
        parameters: Mapping[str, str],
    ) -> None:
        super().__init__(request, traffic)
        name = "" if operation is None else operation.name
        self.is_stream_request, self.is_cancel, self.is_resume = (name == each for each in OPERATIONS)
        self.run_id = parameters.get("run_id")
        """The run in the path of the request."""
        self.base = base
        """The base path of the service."""
        self.client: ClientState = traffic.clients.client_of(request)
        self.sessions: SessionRegistry = traffic.sessions
        """Those of the whole recording."""
        self.session: SessionState | None = None
        self.reader: SessionReader | None = None
        """The client as a reader of the session."""
        if operation is not None:
            self.session = self.sessions.open((*self.place, parameters["session_id"]))
            self.reader = self.session.reader(self.client.key)
        self.idempotency_key = header(request.headers, traffic.idempotency_header)
        self.must_resume = False
        """Whether it requested a stream and had to resume where the client stopped reading."""
        self.other_call: ResolvedCall | None = None
        """The call that was already resolved, if this request resumes the same run but may be about another call."""
        self.key: RequestKey = (request.method, request.authority, request.target.partition("#")[0])
        """What the request and its repetitions have in common."""
        self._request_hash: blake2b | None = None
        """A hash of the request body, if it is a resume with one."""

    @property
    def place(self) -> Place:
        """Where the service is."""
        return self.request.authority, self.base

    @property
    def cursor(self) -> str | None:
        """The cursor of the request; None if it is empty."""
        return cursor_in(header(self.request.headers, LAST_EVENT_ID))

    @property
    def run(self) -> Run | None:
        """The run in the path of the request, if it is known."""
        return None if self.session is None else self.session.runs.runs.get(self.run_id or "")

    @property
    def resolved_call(self) -> ResolvedCall | None:
        """The call of the same run that was already resolved when the client last resumed it, if this is a resume."""
        reader = self.reader if self.is_resume else None
        return None if reader is None else reader.resolved_calls.get(self.run_id or "")

    @property
    def body_hash(self) -> bytes | None:
        """A hash of the request body of a resume; None if it is unknown or empty."""
        return None if self._request_hash is None or Side.REQUEST in self.lost else self._request_hash.digest()

    def may_be_about_other_call(self, resolved: ResolvedCall) -> bool:
        """Whether this resume may be about another call than the one that was already resolved."""
        run, session, reader = self.run, self.session, self.reader
        if run is None or run.started_ns is None or session is None or not session.is_understood:
            # The run may have requested more application tools than the recording shows.
            return True
        return run.custom_tool_uses > 1 or (reader is not None and reader.losses > resolved.losses)

    def add_request_bytes(self, span: BytesArrived) -> None:
        """Add bytes of the request body."""
        if span.data and self.is_resume:
            self._request_hash = self._request_hash or blake2b(digest_size=16)
            self._request_hash.update(span.data)

    def after_request(self) -> None:
        """Update the client, after the rules about the request have run."""
        resolved, run = self.resolved_call, self.run
        if resolved is not None and (run is None or run.custom_tool_uses <= resolved.custom_tool_uses):
            self.other_call = resolved if self.may_be_about_other_call(resolved) else None
        if self.is_stream_request and self.reader is not None:
            self.must_resume = self.reader.must_resume(self.cursor)
            self.reader.request_stream(self.cursor, self.request.time_ns)
        wait = self.client.waits.get(self.key)
        if wait is not None and wait.until_ns <= self.request.time_ns:
            del self.client.waits[self.key]
        self.client.retries.pop(self.key, None)

    def after_response_started(self) -> None:
        """Update the client, after the rules about the response headers have run."""
        response = self.response
        if response is not None and response.status == _TOO_MANY_REQUESTS:
            seconds = (self.response_header(RETRY_AFTER) or "").strip()
            if seconds.isascii() and seconds.isdigit() and len(seconds) < 8:
                wait = RetryWait(response.time_ns + int(seconds) * _SECOND, self.number, int(seconds))
                self.client.add_wait(self.key, wait, response.time_ns)

    def open_stream(self, silence: SilenceMonitor) -> StreamState | None:
        """Return the stream, if the response is one of a session."""
        session, reader = self.session, self.reader
        if session is None or reader is None or not self.has_event_stream:
            return None
        session.open_stream(self.cursor, self.number)
        reader.open_stream(self.cursor, parallel=any(self._is_parallel(stream) for stream in session.streams))
        stream = StreamState(self, session, reader, silence)
        session.streams.append(stream)
        return stream

    def _is_parallel(self, stream: StreamState) -> bool:
        """Whether the same client reads an open stream that this one does not resume."""
        last = stream.delivered.last or stream.cursor
        return stream.reader is self.reader and (last is None or self.cursor != last)

    def after_body(self, body: ErrorBody) -> None:
        """Update the client, after the rules about the response body have run."""
        if isinstance(body, SuccessBody):
            self._add_created_sessions(body)
        if not body.is_whole or body.is_empty:
            return
        code, cursor = body.code, self.cursor
        uses = 0 if self.run is None else self.run.custom_tool_uses
        if code in SAME_KEY_CODES:
            retry = SameKeyRetry(self.number, code or "", self.idempotency_key, uses)
            put_bounded(self.client.retries, self.key, retry, MOST_REQUESTS)
        if self.reader is None:
            return
        if code == INVALID_CURSOR and cursor is not None and self.is_stream_request:
            self.reader.refuse_cursor(cursor)
        elif code == EVENT_ALREADY_RESOLVED and self.run_id is not None:
            call = ResolvedCall(self.number, uses, self.reader.losses, self.body_hash)
            self.reader.resolve_call(self.run_id, call)

    def _add_created_sessions(self, body: SuccessBody) -> None:
        """Add the sessions that the request may have created, by the body or by the headers of the response."""
        created = body.session_ids
        if body.response.status == HTTPStatus.CREATED:
            resource = self.response_header("location") or self.request.target
            session_id = session_in(resource)
            if session_id is not None and is_session(resource):
                created.append(session_id)
        for session_id in created:
            self.sessions.create((*self.place, session_id))

    def after_end(self, ending: Ending) -> None:
        """Update the client and the session, after the rules about the end have run."""
        if isinstance(self.stream, StreamState):
            self.stream.end(ending, self.ended_ns)
            self.stream.session.streams.remove(self.stream)
        if self.is_stream_request and self.reader is not None:
            self.reader.open_requests -= 1
        if self.session is not None:
            self.session.open_exchanges -= 1
        wait = self.client.waits.get(self.key)
        if ending is not Ending.COMPLETE and wait is not None and wait.exchange == self.number:
            # The client may not have read it.
            del self.client.waits[self.key]
