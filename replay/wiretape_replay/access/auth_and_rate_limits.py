"""Authentication and rate limits: which requests are refused, with 401, 403, 429 or 404."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from wiretape.bounded_dict import cache_short
from wiretape.contract.contract_tables import ErrorCase
from wiretape.contract.service_terms import Limit
from wiretape.http_headers import bearer_keys, is_preflight
from wiretape_replay.access.access_settings import ANY_KEY, AccessPolicy, ApiKey, PatternTable
from wiretape_replay.access.contract_errors import refuse
from wiretape_replay.http_server.aiohttp_server import Handler
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse
from wiretape_replay.http_server.response_writer import OWN_RESPONSE, ResponseWriter
from wiretape_replay.replayed_contracts import ReplayedContracts, channel_not_found

_SECOND_NS = 1_000_000_000


class AccessControl:
    """Refuses requests, checking in the order 401, 403, 429, 404.

    A request counts towards a limit if it is served, or refused because of the channel it names.
    """

    def __init__(
        self,
        policy: AccessPolicy,
        contracts: ReplayedContracts,
        request_id: Callable[[], str],
        workspace_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """`request_id` returns a new id; `workspace_of` the workspace of a channel, None if it is not known."""
        self.policy = policy = policy.completed(contracts)
        self._contracts = contracts
        self._request_id = request_id
        self._workspace_of = workspace_of
        self._windows: dict[tuple[str, str], _RateWindow] = {}
        self._scope_of = cache_short(partial(self._first_match, policy.scopes or ()))
        self._limit_of = cache_short(partial(self._first_match, policy.counts or ()))

    def refusal(self, request: HttpRequest, now_ns: int) -> HttpResponse | None:
        """Return the error response if the request is refused.  `now_ns` is the time of any monotonic clock."""
        if is_preflight(request.method, request.headers):
            return None
        key = self.key(request)
        if key is None:
            return self._refuse(request, ErrorCase.NO_KEY, "Send a valid key: Authorization: Bearer <API_KEY>.")
        scope = self._scope_of(request.method, request.target)
        if scope is not None and key.scopes is not None and scope not in key.scopes:
            return self._refuse(request, ErrorCase.NO_SCOPE, f"The key lacks the scope {scope}.")
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
        return self._refuse(request, ErrorCase.LIMIT, message, limit_values(limit, wait))

    def _check_workspace(self, key: ApiKey, request: HttpRequest) -> HttpResponse | None:
        described = self._contracts.describe(request.method, request.target)
        channel = described.channel
        if key.workspace is None or channel is None:
            return None
        workspace = self.policy.workspaces.get(channel) or self._workspace_of(channel)
        if workspace is None or workspace == key.workspace:
            return None
        # The same message as for a channel that does not exist, so it does not reveal that this one does.
        return self._refuse(request, ErrorCase.UNKNOWN_CHANNEL, channel_not_found(described.facts.noun, channel))

    def _refuse(
        self, request: HttpRequest, case: ErrorCase, message: str, values: Mapping[str, object] | None = None
    ) -> HttpResponse:
        described = self._contracts.describe(request.method, request.target)
        values = {**described.parameters, **(values or {})}
        return refuse(described.facts.errors, case, message, self._request_id(), values=values)

    def _first_match(self, table: PatternTable, method: str, target: str) -> str | None:
        """The value of the first row whose pattern matches the request."""
        operation = self._contracts.describe(method, target).operation_name
        return next((value for pattern, value in table if pattern.matches(method, target, operation)), None)


def limit_values(limit: Limit, wait_s: int) -> Mapping[str, object]:
    """Return what errors about a limit say; see `ErrorWriter`."""
    return {"limit": limit.requests, "window_seconds": limit.window_seconds, "retry_after": wait_s}


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
