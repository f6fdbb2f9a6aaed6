"""Authentication and rate limits: which requests are refused, with 401, 403, 429 or 404."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from wiretape.agent_sessions import (
    AUTHENTICATION_REQUIRED,
    PERMISSION_DENIED,
    RATE_LIMITED,
    RESOURCE_NOT_FOUND,
    Limit,
    session_in,
)
from wiretape.bounded_dict import cache_short
from wiretape.http_headers import bearer_keys, is_preflight
from wiretape_replay.access.access_settings import ANY_KEY, AccessPolicy, ApiKey, PatternTable
from wiretape_replay.access.error_envelope import error_response
from wiretape_replay.http_server.aiohttp_server import Handler
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse
from wiretape_replay.http_server.response_writer import OWN_RESPONSE, ResponseWriter

_SECOND_NS = 1_000_000_000


class AccessControl:
    """Refuses requests, checking in the order 401, 403, 429, 404.

    A request counts towards a limit if it is served, or refused because of the session it names.
    """

    def __init__(
        self,
        policy: AccessPolicy,
        request_id: Callable[[], str],
        workspace_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """`request_id` returns a new id; `workspace_of` the workspace of a session, None if it is not known."""
        self.policy = policy
        self._request_id = request_id
        self._workspace_of = workspace_of
        self._windows: dict[tuple[str, str], _RateWindow] = {}
        self._scope_of = cache_short(partial(_first_match, policy.scopes))
        self._limit_of = cache_short(partial(_first_match, policy.counts))

    def refusal(self, request: HttpRequest, now_ns: int) -> HttpResponse | None:
        """Return the error response if the request is refused.  `now_ns` is the time of any monotonic clock."""
        if is_preflight(request.method, request.headers):
            return None
        key = self.key(request)
        if key is None:
            return self._error(AUTHENTICATION_REQUIRED, "Send a valid key: Authorization: Bearer <API_KEY>.")
        scope = self._scope_of(request.method, request.target)
        if scope is not None and key.scopes is not None and scope not in key.scopes:
            return self._error(PERMISSION_DENIED, f"The key lacks the scope {scope}.")
        return self._check_rate(key, request, now_ns) or self._check_workspace(key, request)

    def wrap(self, handler: Handler, clock_ns: Callable[[], int]) -> Handler:
        """Return a handler that refuses requests before they reach `handler`; `clock_ns` measures rate limits."""

        async def respond(request: HttpRequest, writer: ResponseWriter) -> None:
            refusal = self.refusal(request, clock_ns())
            if refusal is None:
                await handler(request, writer)
                return
            writer.log_outcome(request, f"{refusal.status}, access refused")
            writer.mark_fault(OWN_RESPONSE)
            await writer.respond(refusal)

        return respond

    def key(self, request: HttpRequest) -> ApiKey | None:
        """Return the request's key; None without a valid one."""
        keys = bearer_keys(request.headers)
        if self.policy.keys is None:
            return ANY_KEY if keys or not self.policy.authentication else None
        # A request with two keys is ambiguous.
        known = self.policy.keys.get(keys[0]) if len(keys) == 1 else None
        return known or (None if self.policy.authentication else ANY_KEY)

    def reset(self) -> None:
        """Forget all counted requests."""
        self._windows.clear()

    def _check_rate(self, key: ApiKey, request: HttpRequest, now_ns: int) -> HttpResponse | None:
        name = self._limit_of(request.method, request.target)
        limits = self.policy.tenant_limits.get(key.tenant, self.policy.limits)
        if name is None or name not in limits:
            return None
        window = self._windows.setdefault((key.tenant, name), _RateWindow(limits[name]))
        wait = window.count(now_ns)
        if wait == 0:
            return None
        limit = window.limit
        message = f"More than {limit.requests} requests in {limit.window_seconds} s count towards the limit {name}."
        return error_response(RATE_LIMITED, message, self._request_id(), limit=limit, retry_after=wait)

    def _check_workspace(self, key: ApiKey, request: HttpRequest) -> HttpResponse | None:
        session = None if key.workspace is None else session_in(request.target)
        if session is None:
            return None
        workspace = self.policy.workspaces.get(session) or self._workspace_of(session)
        if workspace is None or workspace == key.workspace:
            return None
        # The same message as for a session that does not exist, so it does not reveal that this one does.
        return self._error(RESOURCE_NOT_FOUND, session_not_found(session))

    def _error(self, code: str, message: str) -> HttpResponse:
        return error_response(code, message, self._request_id())


def session_not_found(session_id: str) -> str:
    """The message about a session that does not exist."""
    return f"There is no session {session_id}."


@dataclass(slots=True)
class _RateWindow:
    """The requests of one tenant that count towards one limit."""

    limit: Limit
    _times: deque[int] = field(default_factory=deque)
    """When the requests of the last window were served (ns); never more than the limit."""

    def count(self, now_ns: int) -> int:
        """Count a request and return 0, or return the whole seconds after which it would be served."""
        window_ns = self.limit.window_seconds * _SECOND_NS
        while self._times and self._times[0] <= now_ns - window_ns:
            self._times.popleft()
        if len(self._times) < self.limit.requests:
            self._times.append(now_ns)
            return 0
        return -((now_ns - window_ns - self._times[0]) // _SECOND_NS)


def _first_match(table: PatternTable, method: str, target: str) -> str | None:
    """The value of the first row whose pattern matches the request."""
    return next((value for pattern, value in table if pattern.matches(method, target)), None)
