"""The request ids of a recording, as many as are worth remembering."""

from hashlib import blake2b

_MOST = 1 << 16
_LONGEST = 64


class RequestIds:
    """Knows which exchange first carried a request id; of very many it forgets the oldest."""

    def __init__(self, most: int = _MOST) -> None:
        self.forgotten = False
        """Whether there were more ids than are remembered."""
        self._most = most
        self._exchanges: dict[str | bytes, int] = {}

    def __len__(self) -> int:
        return len(self._exchanges)

    def owner(self, request_id: str) -> int | None:
        """The number of the exchange that carried it first, as far as known."""
        return self._exchanges.get(_key(request_id))

    def remember(self, request_id: str, exchange: int) -> None:
        """An answer carried it."""
        self._exchanges.setdefault(_key(request_id), exchange)
        if len(self._exchanges) > self._most:
            del self._exchanges[next(iter(self._exchanges))]
            self.forgotten = True


def _key(request_id: str) -> str | bytes:
    """What stands for the id: itself, unless it is long."""
    if len(request_id) <= _LONGEST:
        return request_id
    return blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
