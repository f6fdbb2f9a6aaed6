"""Operations of a contract: the requests that it applies to, and where these have their cursor."""

from urllib.parse import unquote_plus

from msgspec import Struct

from wiretape.http_headers import cursor_in
from wiretape.observations import RequestStarted, header, is_header_name
from wiretape.patterns import RequestFlag, RequestPattern, query_pairs


class CursorPlace(Struct, frozen=True):
    """Where requests have the cursor."""

    place: str
    """`header` or `query`."""
    name: str

    @classmethod
    def parse(cls, text: str) -> "CursorPlace":
        """Parse `header:NAME` or `query:NAME`.  Raises ValueError."""
        place, _, name = text.partition(":")
        if place not in {"header", "query"} or not is_header_name(name):
            raise ValueError(f"expected header:NAME or query:NAME, for example header:Last-Event-ID, got {text!r}")
        return cls(place, name)

    def read(self, request: RequestStarted) -> str | None:
        """Return the cursor in a request; None without any."""
        if self.place == "header":
            return cursor_in(header(request.headers, self.name))
        return next((value for name, value in query_pairs(request.target) if name == self.name and value), None)

    def remove_from(self, target: str) -> str:
        """Return a request target without the cursor."""
        path, mark, query = target.partition("#")[0].partition("?")
        if self.place == "header" or not mark:
            return target
        kept = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != self.name]
        return f"{path}?{'&'.join(kept)}" if kept else path


class Operation(Struct, frozen=True):
    """Requests that a contract applies to."""

    name: str
    pattern: RequestPattern
    when: RequestFlag | None = None
    """The parameter that requests need to belong to it; None if they need none."""
    cursor: CursorPlace | None = None
    channel: str | None = None
    """The name of the segment of the path that names the channel."""
    begins_at_start: bool = True
    """Whether a stream without a cursor begins with the first event of its channel."""
    deltas: RequestFlag | None = None
    """With what requests ask for deltas; None if streams always have them."""
    is_stream: bool = True
    """Whether a response may be a stream."""
    is_open_ended: bool = False
    """Whether streams go on until somebody closes them, so that a channel has no last event."""
    example: str = ""
    """The target of a request that matches, if the contract has one."""
