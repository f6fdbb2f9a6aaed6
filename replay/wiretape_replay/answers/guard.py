"""Who may ask, what for, and how often.  Pure: no I/O, no clock."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from wiretape.contract import (
    AUTHENTICATION_REQUIRED,
    PERMISSION_DENIED,
    RATE_LIMITED,
    RESOURCE_NOT_FOUND,
    Limit,
    bearer_keys,
    is_preflight,
    session_in,
)
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.settings import ANY_KEY, Key, Rows, Service
from wiretape_replay.front.answer import Answer
from wiretape_replay.front.asked import Asked

_SECOND_NS = 1_000_000_000


class Guard:
    """Says which requests are refused, in the order 401, 403, 429, 404.

    Only requests that are served count towards a limit, or those that are refused for the session they name.
    """

    def __init__(
        self,
        service: Service,
        request_id: Callable[[], str],
        workspace_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """`request_id` gives a new id; `workspace_of` the workspace of a session, None where that is not known."""
        self.service = service
        self._request_id = request_id
        self._workspace_of = workspace_of
        self._windows: dict[tuple[str, str], _Window] = {}

    def refusal(self, asked: Asked, now_ns: int) -> Answer | None:
        """What to answer to a request that is refused, or None.  `now_ns` is any monotonic clock."""
        if is_preflight(asked.method, asked.headers):
            return None
        key = self.key(asked)
        if key is None:
            return self._refuse(AUTHENTICATION_REQUIRED, "Send a valid key: Authorization: Bearer <API_KEY>.")
        scope = _first(self.service.scopes, asked)
        if scope is not None and key.scopes is not None and scope not in key.scopes:
            return self._refuse(PERMISSION_DENIED, f"The key lacks the scope {scope}.")
        return self._too_often(key, asked, now_ns) or self._elsewhere(key, asked)

    def rewind(self) -> None:
        """Forget every request that was counted."""
        self._windows.clear()

    def key(self, asked: Asked) -> Key | None:
        """What is known of the request's key; None when it has no good one."""
        keys = bearer_keys(asked.headers)
        if self.service.keys is None:
            return ANY_KEY if keys or not self.service.authentication else None
        # With two keys a request could be anybody's.
        known = self.service.keys.get(keys[0]) if len(keys) == 1 else None
        return known or (None if self.service.authentication else ANY_KEY)

    def _too_often(self, key: Key, asked: Asked, now_ns: int) -> Answer | None:
        name = _first(self.service.counts, asked)
        limits = self.service.tenant_limits.get(key.tenant, self.service.limits)
        if name is None or name not in limits:
            return None
        window = self._windows.setdefault((key.tenant, name), _Window(limits[name]))
        wait = window.ask(now_ns)
        if wait == 0:
            return None
        limit = window.limit
        message = f"More than {limit.requests} requests in {limit.window_seconds} s count towards the limit {name}."
        return envelope(RATE_LIMITED, message, self._request_id(), limit=limit, retry_after=wait)

    def _elsewhere(self, key: Key, asked: Asked) -> Answer | None:
        session = session_in(asked.target)
        if session is None or key.workspace is None:
            return None
        workspace = self.service.workspaces.get(session) or self._workspace_of(session)
        if workspace is None or workspace == key.workspace:
            return None
        # The words are those for a session that does not exist: who may not see it must not learn that it does.
        return self._refuse(RESOURCE_NOT_FOUND, no_session(session))

    def _refuse(self, code: str, message: str) -> Answer:
        return envelope(code, message, self._request_id())


def no_session(session_id: str) -> str:
    """What is said of a session that there is not."""
    return f"There is no session {session_id}."


@dataclass(slots=True)
class _Window:
    """The requests of one tenant that count towards one limit."""

    limit: Limit
    _times: deque[int] = field(default_factory=deque)
    """When those of the last window were served (ns); never more than the limit."""

    def ask(self, now_ns: int) -> int:
        """Count a request and return 0, or leave it out and return the whole seconds after which it would be served."""
        window_ns = self.limit.window_seconds * _SECOND_NS
        while self._times and self._times[0] <= now_ns - window_ns:
            self._times.popleft()
        if len(self._times) < self.limit.requests:
            self._times.append(now_ns)
            return 0
        return -((now_ns - window_ns - self._times[0]) // _SECOND_NS)


def _first(rows: Rows, asked: Asked) -> str | None:
    """What the first row says that holds the request."""
    return next((value for requests, value in rows if requests.holds(asked.method, asked.target)), None)
