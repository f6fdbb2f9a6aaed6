"""The clients: what each was told about its requests."""

from dataclasses import dataclass

from wiretape.bounded_dict import put_bounded
from wiretape.observations import RequestStarted, header
from wiretape.rules.readers import MOST_CLIENTS
from wiretape.rules.work import ClientKey

RequestKey = tuple[str, str, str]
"""Method, authority and target: the path with its query, for another page of a list is another request."""

MOST_REQUESTS = 1000
"""Of how many requests a client is remembered what it was told about them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A client was told to wait before it sends a request again."""

    until_ns: int
    exchange: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A client was told to send a request again, with the same idempotency key."""

    exchange: int
    code: str
    key: str | None
    custom_uses: int
    """How many application tools the run had wanted executed by then."""


class Client:
    """What one client was told about its requests."""

    __slots__ = ("key", "refusals", "waits")

    def __init__(self, key: ClientKey) -> None:
        self.key = key
        self.waits: dict[RequestKey, Wait] = {}
        self.refusals: dict[RequestKey, Refusal] = {}

    def wait(self, request: RequestKey, wait: Wait, now_ns: int) -> None:
        """It was told to wait."""
        for key in [key for key, old in self.waits.items() if old.until_ns < now_ns]:
            del self.waits[key]
        put_bounded(self.waits, request, wait, MOST_REQUESTS)

    def refuse(self, request: RequestKey, refusal: Refusal) -> None:
        """It was told to repeat the request."""
        put_bounded(self.refusals, request, refusal, MOST_REQUESTS)


class Clients:
    """All clients, those that were seen last at the end; of very many the oldest are forgotten."""

    def __init__(self) -> None:
        self._clients: dict[ClientKey, Client] = {}

    def of(self, request: RequestStarted) -> Client:
        """The client that sent the request."""
        value = header(request.headers, "authorization")
        key = (request.client, None if value is None else value.partition(" ")[2].strip() or value)
        client = self._clients.pop(key, None) or Client(key)
        put_bounded(self._clients, key, client, MOST_CLIENTS)
        return client
