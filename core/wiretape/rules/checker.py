"""The checker: observations in, findings out, the same live and afterwards."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wiretape.contract import KEEP_ALIVE_SECONDS, is_event_stream, operation_of
from wiretape.frame_reader import ReadObservation, SeenFrame, StreamReaders
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules import conduct
from wiretape.rules.answer import Answer, GoodAnswer
from wiretape.rules.asking import Asking
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    ANY_RESPONSE,
    ERROR_ANSWER,
    EXCHANGE_END,
    GOOD_ANSWER,
    PAUSE,
    REPLAYED,
    REQUEST,
    RESPONSE,
    STREAM_END,
)
from wiretape.rules.clients import Clients
from wiretape.rules.finding import Finding, Place, Tally, Verdict
from wiretape.rules.message import Message
from wiretape.rules.pauses import Hearing, Pause
from wiretape.rules.request_ids import RequestIds
from wiretape.rules.resumption import Resumption
from wiretape.rules.sessions import Sessions
from wiretape.rules.settings import DEFAULT, Settings
from wiretape.rules.state import ExchangeState, Stream, StreamEnd
from wiretape.sse import Frame, FrameKind

# Python 3.11 takes 50 ns to look up the member of an enumeration.
_COMMENT, _OVERSIZED = FrameKind.COMMENT, FrameKind.OVERSIZED


class Checker:
    """Folds observations into findings.  Pure: no I/O, no clock, no state but its own.

    Feed it the observations of a recording in order of time.  A finding is given out as soon as it is certain.
    """

    def __init__(self, settings: Settings | None = None, readers: StreamReaders | None = None) -> None:
        """`readers`: those that read what `take` is given."""
        self.settings = settings or DEFAULT
        self._readers = readers or StreamReaders()
        self.exchanges = 0
        """How many exchanges were seen."""
        self.events = 0
        """How many messages of the service's streams were seen."""
        self._asking = Asking(self.settings)
        self._open: dict[int, ExchangeState] = {}
        self._sessions = Sessions()
        self._clients = Clients()
        self._request_ids = RequestIds()
        self._pause_ns = round((KEEP_ALIVE_SECONDS + self.settings.keep_alive_tolerance_s) * 1e9)
        self._now_ns = 0

    def feed(self, observation: Observation) -> list[Finding]:
        """The findings that the observation makes certain, in the order of the stream."""
        return self.take(self._readers.read(observation))

    def take(self, read: ReadObservation) -> list[Finding]:
        """The same, for an observation that was read already, by the readers that the checker was made with."""
        seen = read.seen
        if isinstance(seen, BytesArrived):
            self._bytes_arrived(seen, read)
        elif isinstance(seen, RequestStarted):
            self._request_started(seen)
        elif isinstance(seen, ResponseStarted):
            self._response_started(seen)
        elif isinstance(seen, BytesLost):
            self._bytes_lost(seen, read)
        elif isinstance(seen, ExchangeEnded):
            self._exchange_ended(seen, read)
        self._now_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        if self._asking.due_ns < self._now_ns:
            self._asking.decide(self._now_ns)
        return self._asking.take()

    def finish(self) -> list[Finding]:
        """The findings that the end of the recording makes certain.  Exchanges still open stay undecided."""
        for state in list(self._open.values()):
            ended = ExchangeEnded(state.number, self._now_ns, Ending.OPEN)
            self._exchange_ended(ended, self._readers.read(ended))
        self._asking.decide(self._now_ns, finished=True)
        return self._asking.take()

    def sequence_of(self, exchange: int) -> int | None:
        """The last sequence on the open stream of an exchange; None where there is none yet."""
        state = self._open.get(exchange)
        return state.stream.sequence if state is not None and state.stream is not None else None

    def tallies(self) -> dict[str, Tally]:
        """For each rule of the catalogue how often it came up, and what came of it."""
        return dict(self._asking.tallies)

    def verdicts(self) -> dict[str, Verdict]:
        """What the observations so far show about each rule of the catalogue."""
        return {code: tally.verdict for code, tally in self._asking.tallies.items()}

    def _request_started(self, request: RequestStarted) -> None:
        self.exchanges += 1
        match = operation_of(request.method, request.target)
        client = self._clients.of(request)
        session = reader = None
        if match is not None:
            session = self._sessions.open((request.authority, match.base, match.session_id))
            reader = session.reader(client.key)
        key = header(request.headers, self.settings.idempotency_header)
        state = ExchangeState(request, match, session, self._request_ids, self._sessions, client, reader, key)
        self._open[request.exchange] = state
        self._asking.ask(REQUEST, (state,), Place(request.exchange, request.time_ns))
        conduct.asked(state)

    def _response_started(self, response: ResponseStarted) -> None:
        state = self._open.get(response.exchange)
        if state is None:
            return
        state.response = response
        place = Place(response.exchange, response.time_ns)
        self._asking.ask(ANY_RESPONSE, (state,), place)
        if response.status >= 400 and state.request.method != "HEAD":
            state.answer = Answer(response)
        elif response.status == 200 and conduct.is_stream_request(state):
            self._stream_answered(state, place)
        if response.status // 100 == 2 and state.stream is None and _has_document(state):
            state.answer = GoodAnswer(response)
        conduct.answered(state)

    def _stream_answered(self, state: ExchangeState, place: Place) -> None:
        self._asking.ask(RESPONSE, (state,), place)
        session, reader = state.session, state.reader
        if session is not None and reader is not None and conduct.opened(state):
            state.stream = Stream(state, session, reader, Hearing(place.time_ns, self._pause_ns))
            session.courses.append(state.stream.course)

    def _bytes_arrived(self, run: BytesArrived, read: ReadObservation) -> None:
        state = self._open.get(run.exchange)
        if state is None or run.side is not Side.RESPONSE:
            return
        if state.stream is not None:
            self._heard(state.stream, state.stream.hearing.hear(run), read.frames)
            if read.undecodable and not state.stream.unknown_end:
                self._lose(state.stream)
        elif state.answer is not None:
            state.answer.feed(run)

    def _bytes_lost(self, lost: BytesLost, read: ReadObservation) -> None:
        state = self._open.get(lost.exchange)
        if state is None:
            return
        conduct.lost(state, lost)
        if lost.side is not Side.RESPONSE:
            return
        if state.stream is not None:
            state.stream.hearing.miss()
            self._frames(state.stream, read.frames)
            self._lose(state.stream)
        elif state.answer is not None:
            state.answer.miss()

    def _exchange_ended(self, ended: ExchangeEnded, read: ReadObservation) -> None:
        state = self._open.pop(ended.exchange, None)
        if state is None:
            return
        state.last_ns = ended.time_ns
        place = Place(ended.exchange, ended.time_ns)
        if state.stream is not None:
            self._stream_ended(state.stream, ended, read.frames)
        elif state.answer is not None:
            state.answer.close(ended.ending)
            occasion = GOOD_ANSWER if isinstance(state.answer, GoodAnswer) else ERROR_ANSWER
            self._asking.ask(occasion, (state.answer, state), place)
            state.remember_request_id()
            conduct.refused(state, state.answer)
        self._asking.ask(EXCHANGE_END, (state, ended.ending), place)
        conduct.ended(state, ended.ending, ended.time_ns)

    def _stream_ended(self, stream: Stream, ended: ExchangeEnded, frames: Iterable[SeenFrame]) -> None:
        tail: Frame | None = None
        for seen in frames:
            if seen.frame.kind is FrameKind.TAIL:
                tail = seen.frame if seen.frame.fields else None
            else:
                self._frames(stream, [seen])
        self._pause(stream, stream.hearing.end(ended.time_ns))
        end = StreamEnd(stream, ended.ending, ended.time_ns, tail)
        self._asking.ask(STREAM_END, (end,), Place(ended.exchange, ended.time_ns))
        resumption = stream.course.resumption
        if resumption is not None and not resumption.asked:
            self._replayed(resumption, Place(ended.exchange, ended.time_ns))

    def _heard(self, stream: Stream, pauses: list[Pause], frames: Sequence[SeenFrame]) -> None:
        """Frames, and pauses that ended meanwhile, in order of time."""
        for pause in pauses:
            before = [seen for seen in frames if seen.time_ns < pause.ended_ns]
            frames = frames[len(before) :]
            self._frames(stream, before)
            self._pause(stream, pause)
        self._frames(stream, frames)

    def _frames(self, stream: Stream, frames: Iterable[SeenFrame]) -> None:
        for seen in frames:
            kind = seen.frame.kind
            if stream.comment is not None:
                self._commented(stream, stream.comment, kind)
            if seen.event is not None:
                self._message(stream, seen)
            elif kind is _COMMENT:
                stream.comment = seen
            if kind is _OVERSIZED:
                # A piece of a message that nobody reads.
                self._lose(stream)
            else:
                stream.unknown_end = False

    def _commented(self, stream: Stream, comment: SeenFrame, kind: FrameKind) -> None:
        """Something followed a comment."""
        place = Place(stream.exchange.number, comment.time_ns, byte_offset=comment.frame.start)
        self._asking.ask(AFTER_COMMENT, (stream, kind), place)
        stream.comment = None
        stream.blank_comment |= kind is FrameKind.BLANK

    def _pause(self, stream: Stream, pause: Pause | None) -> None:
        """A pause ended; its place is the message before it."""
        if pause is not None:
            number, last = stream.exchange.number, stream.last
            place = Place(number, 0) if last is None else last.place(number)
            place = replace(place, time_ns=pause.ended_ns)
            self._asking.ask(PAUSE, (pause,), place)

    def _message(self, stream: Stream, seen: SeenFrame) -> None:
        self.events += 1
        message = Message(seen)
        past = stream.session.past
        if past.first_message is None and message.is_durable:
            past.begin(message)
        self._asking.message(message, stream)
        stream.remember(message)
        resumption = stream.course.resumption
        if resumption is not None and resumption.over and not resumption.asked:
            self._replayed(resumption, message.place(stream.exchange.number))

    def _replayed(self, resumption: Resumption, place: Place) -> None:
        """The replay on a stream is over."""
        resumption.asked = True
        self._asking.ask(REPLAYED, (resumption,), resumption.place or place)

    def _lose(self, stream: Stream) -> None:
        """Messages of a stream passed unseen."""
        stream.lose()
        self._asking.doubt()


def _has_document(state: ExchangeState) -> bool:
    """Whether a body follows, and is no event stream."""
    return state.request.method != "HEAD" and not is_event_stream(state.response_header("content-type"))
