"""The source of tape mode: recorded answers in recorded order, and a book of what was asked."""

from collections.abc import Callable
from dataclasses import dataclass

from wiretape.contract import ENVELOPE_KEY
from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import shorten
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.front.answer import Answer
from wiretape_replay.front.asked import NO_BODY, Asked, Body, BodyReader
from wiretape_replay.front.line import PIECES_BETWEEN_BREAKS, Line
from wiretape_replay.playback_speed import PlaybackClock, PlaybackSpeed
from wiretape_replay.tape.matching import Matching
from wiretape_replay.tape.nearest import explain
from wiretape_replay.tape.plan import End, Plan, plan_of
from wiretape_replay.tape.tape import Entry, Tape

NO_MATCH = "wiretape_no_match"
"""The error code of the answer to a request that was not recorded.  The service has no such code."""


@dataclass(frozen=True, slots=True)
class Served:
    """A request that was given a recorded answer."""

    method: str
    target: str
    exchange: int
    status: int | None
    """None when no response was recorded."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A request that was not recorded, or asked for too often."""

    method: str
    target: str
    message: str


class TapePlayer:
    """Answers each request with the next recorded exchange of its kind."""

    def __init__(
        self,
        recording: Recording,
        pace: PlaybackSpeed,
        log: Callable[[str], None],
        *,
        matching: Matching | None = None,
        holds: Callable[[Exchange], bool] = lambda _: True,
        request_ids: RequestIds | None = None,
    ) -> None:
        """Raises RecordingError when the recording is damaged.

        `log` takes a line for each request; `holds` says which exchanges are on the tape.
        `request_ids` are those of answers that were not recorded.
        """
        self.served: list[Served] = []
        self.missed: list[Missed] = []
        entries = (_entry(recording, exchange) for exchange in recording.exchanges() if holds(exchange))
        self.tape = Tape(entries, matching)
        self._recording = recording
        self._pace = pace
        self._log = log
        self._request_ids = request_ids or RequestIds()

    async def answer(self, asked: Asked, line: Line) -> None:
        """See Source."""
        entry = self.tape.take(asked)
        if entry is None:
            await self._refuse(asked, line)
            return
        exchange = self._recording.exchange(entry.number)
        status = exchange.response.status if exchange.response else None
        self.served.append(Served(asked.method, asked.target, entry.number, status))
        self._log(f"{_request(asked)} → exchange {entry.number}, {_outcome(exchange)}")
        await self._play(exchange, plan_of(exchange), line)

    async def _play(self, exchange: Exchange, plan: Plan, line: Line) -> None:
        clock = self._pace.start()
        sent = 0
        if plan.head is not None:
            await clock.reach(plan.head_ns)
            await line.begin(plan.head)
            sent = await self._play_body(exchange, plan, line, clock)
        await clock.reach(plan.end_ns)
        await _end(plan.end_after(sent), line)

    async def _play_body(self, exchange: Exchange, plan: Plan, line: Line, clock: PlaybackClock) -> int:
        """Returns how many bytes of body were sent."""
        sent = 0
        due: list[bytes] = []
        for delay_ns, data in plan.writes(self._recording.body(exchange.number, Side.RESPONSE)):
            waits = clock.left(delay_ns) > 0
            if waits or len(due) == PIECES_BETWEEN_BREAKS:
                await line.send_all(due)
                due = []
            if waits:
                await clock.reach(delay_ns)
            due.append(data)
            sent += len(data)
        await line.send_all(due)
        return sent

    async def _refuse(self, asked: Asked, line: Line) -> None:
        message = explain(self.tape, asked, lambda number: _body_of(self._recording, number))
        self.missed.append(Missed(asked.method, asked.target, message))
        self._log(f"{_request(asked)} → no match, 501")
        await _refusal(message, self._request_ids.next()).send(line, with_body=asked.method != "HEAD")


async def _end(end: End, line: Line) -> None:
    if end is End.FINISH:
        await line.finish()
    elif end is End.CLOSE:
        line.close()
    elif end is End.RESET:
        await line.reset()
    else:
        await line.hold()


def _refusal(message: str, request_id: str) -> Answer:
    """An answer in the service's own envelope."""
    error = {"code": NO_MATCH, "message": message, "request_id": request_id}
    return Answer.of(501, {ENVELOPE_KEY: error}, (("X-Wiretape", "no-match"),))


def _request(asked: Asked) -> str:
    """Method and path; the query may hold secrets."""
    return shorten(f"{asked.method} {asked.target.partition('?')[0]}")


def _outcome(exchange: Exchange) -> str:
    outcome = str(exchange.response.status) if exchange.response else "no response"
    if exchange.ending is not Ending.COMPLETE:
        outcome += f", {exchange.ending}"
    if exchange.lost_bytes:
        outcome += f" (warning: {exchange.lost_bytes} bytes of it were not recorded and are left out)"
    return outcome


def _entry(recording: Recording, exchange: Exchange) -> Entry:
    request = exchange.request
    body = _request_body(recording, exchange)
    return Entry(exchange.number, request.method, request.target, body, request.headers)


def _body_of(recording: Recording, number: int) -> Body | None:
    """The recorded request body of an exchange; None when a part of it is missing.  Raises RecordingError."""
    return _request_body(recording, recording.exchange(number))


def _request_body(recording: Recording, exchange: Exchange) -> Body | None:
    if exchange.request_ended_ns is None:
        return None
    if not exchange.request_bytes and not exchange.lost_bytes:
        return NO_BODY
    reader = BodyReader()
    for run in recording.body(exchange.number, Side.REQUEST):
        if isinstance(run, BytesLost):
            return None
        reader.feed(run.data)
    return reader.finish()
