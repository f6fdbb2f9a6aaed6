"""Buffer captured traffic: the work that the event loop does for each chunk."""

from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from wiretape.observations import BytesLost, Observation, Side
from wiretape_proxy.ipc_codec import MESSAGE_KEY, body_key, body_of, encode_observation, is_request

BodyTap = Callable[[bytes], bytes | list[bytes]]
"""The function that mitmproxy calls with each chunk of a streamed body; it forwards what the tap returns."""
_NEVER = 1 << 63


class CaptureBuffer:
    """A flat list of times, body keys and bytes, in order of arrival (see `wiretape_proxy.ipc_codec`)."""

    def __init__(self) -> None:
        self.due_ns = _NEVER
        """When the buffer should have been flushed."""
        self.on_overdue: Callable[[], None] = lambda: None
        """Called for each chunk that arrives later than that."""
        self._entries: list[Any] = []

    def add_observation(self, observation: Observation) -> None:
        """Append an observation that is not a chunk, with the current time."""
        self.add_message(encode_observation(observation))

    def add_message(self, content: bytes) -> None:
        """Append an encoded message."""
        self._entries += (monotonic_ns(), MESSAGE_KEY, content)

    def add_chunk(self, exchange: int, side: Side, data: bytes) -> None:
        """Append a chunk."""
        self._entries += (monotonic_ns(), body_key(exchange, side), data)

    def body_tap(self, exchange: int, side: Side) -> BodyTap:
        """Return a tap that appends each chunk and forwards it unchanged."""
        # Three appends are faster than one of a tuple, and create nothing for the garbage collector.
        append, now, key = self._entries.append, monotonic_ns, body_key(exchange, side)

        def tap(data: bytes) -> bytes | list[bytes]:
            if not data:
                # The end, or an empty HTTP/2 frame within the body: b"" would end the body of an HTTP/1 client.
                return []
            moment = now()
            append(moment)
            append(key)
            append(data)
            if moment > self.due_ns:
                self.on_overdue()
            return data

        return tap

    def take(self) -> list[Any]:
        """Remove and return all entries."""
        taken = self._entries[:]
        self._entries.clear()
        return taken


def drop_chunks(entries: list[Any], why: str) -> list[Any]:
    """Replace all chunks of each body by one loss."""
    sizes = _body_sizes(entries)
    kept: list[Any] = []
    for index in range(0, len(entries), 3):
        time_ns, key, content = entries[index : index + 3]
        if key == MESSAGE_KEY:
            kept += (time_ns, key, content)
        elif count := sizes.pop(key, 0):
            exchange, side = body_of(key)
            kept += (time_ns, MESSAGE_KEY, encode_observation(BytesLost(exchange, 0, side, 0, count, why)))
    return kept


def count_body_bytes(entries: list[Any]) -> int:
    """Count the bytes of bodies in entries."""
    return sum(_body_sizes(entries).values())


def count_requests(entries: list[Any]) -> int:
    """Count the requests that begin in entries."""
    contents = zip(entries[1::3], entries[2::3], strict=True)
    return sum(key == MESSAGE_KEY and is_request(content) for key, content in contents)


def _body_sizes(entries: list[Any]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for key, content in zip(entries[1::3], entries[2::3], strict=True):
        if key != MESSAGE_KEY:
            sizes[key] = sizes.get(key, 0) + len(content)
    return sizes
