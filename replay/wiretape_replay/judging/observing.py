"""From notes to observations, as a recording proxy in front of the replay would have made them.  Pure."""

from collections.abc import Iterable, Iterator

from wiretape.observations import (
    BytesArrived,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.head import Head
from wiretape_replay.judging.notes import Asking, Content, Injected, Mark, Note

_BEFORE_AN_END_NS = 4
"""A recording needs some time before an end, for what it held back."""


class Observer:
    """Turns notes into observations with times that strictly increase."""

    def __init__(self, authority: str) -> None:
        """`authority` is `host[:port]` of the replay."""
        self.last_ns = 0
        """The time of the last observation."""
        self._authority = authority
        self._sizes: dict[tuple[int, Side], int] = {}

    def observations(self, notes: Iterable[Note]) -> "Iterator[Observation | tuple[int, Injected]]":
        """What was seen, and between it where faults changed an answer: the exchange and the fault."""
        run: list[Note] = []
        for note in notes:
            if isinstance(note[2], bytes) and (not run or run[0][1] == note[1]):
                run.append(note)
                continue
            if run:
                yield self._arrived(run)
                run = []
            if isinstance(note[2], bytes):
                run.append(note)
            else:
                yield self._one(*note)
        if run:
            yield self._arrived(run)

    def _one(self, time_ns: int, exchange: int, content: Content) -> "Observation | tuple[int, Injected]":
        if isinstance(content, Injected):
            return exchange, content
        if isinstance(content, Asked):
            return self._request(self._time(time_ns), exchange, content)
        if isinstance(content, Asking):
            (end,) = self._ends(exchange, Side.REQUEST, [content.data])
            start = end - len(content.data)
            return BytesArrived(exchange, Side.REQUEST, start, content.data, (end,), (self._time(time_ns),))
        if content is Mark.REQUEST_WHOLE:
            return RequestEnded(exchange, self._time(time_ns))
        if isinstance(content, Head):
            version = content.http_version
            time_ns = self._time(time_ns)
            return ResponseStarted(exchange, time_ns, content.status, content.reason, version, content.headers)
        if isinstance(content, bytes):
            return self._arrived([(time_ns, exchange, content)])
        for side in Side:
            self._sizes.pop((exchange, side), None)
        return ExchangeEnded(exchange, self._time(time_ns, _BEFORE_AN_END_NS), content)

    def _request(self, time_ns: int, exchange: int, asked: Asked) -> RequestStarted:
        return RequestStarted(
            exchange=exchange,
            time_ns=time_ns,
            client=asked.client,
            method=asked.method,
            scheme="http",
            authority=self._authority,
            target=asked.target,
            http_version=asked.http_version,
            headers=asked.headers,
        )

    def _arrived(self, run: list[Note]) -> BytesArrived:
        exchange = run[0][1]
        chunks = [content for _, _, content in run if isinstance(content, bytes)]
        start = self._sizes.get((exchange, Side.RESPONSE), 0)
        ends = self._ends(exchange, Side.RESPONSE, chunks)
        times = tuple(self._time(time_ns) for time_ns, _, _ in run)
        return BytesArrived(exchange, Side.RESPONSE, start, b"".join(chunks), ends, times)

    def _ends(self, exchange: int, side: Side, chunks: list[bytes]) -> tuple[int, ...]:
        end, ends = self._sizes.get((exchange, side), 0), []
        for chunk in chunks:
            end += len(chunk)
            ends.append(end)
        self._sizes[exchange, side] = end
        return tuple(ends)

    def _time(self, time_ns: int, least: int = 1) -> int:
        self.last_ns = max(time_ns, self.last_ns + least)
        return self.last_ns
