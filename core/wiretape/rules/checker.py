"""The checker: observations in, findings out, the same live and afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wiretape.contract import STREAM, is_event_stream, operation_of
from wiretape.observe import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.rules.answer import Answer
from wiretape.rules.catalogue import (
    CATALOGUE,
    ERROR_ANSWER,
    EVERY_MESSAGE,
    HELD,
    MESSAGE,
    RESPONSE,
    STREAM_END,
    Inconclusive,
    Occasion,
    Outcome,
    Rule,
)
from wiretape.rules.finding import Finding, Place, Severity, Tally, Verdict
from wiretape.rules.message import Message, Shape
from wiretape.rules.settings import DEFAULT, Settings
from wiretape.rules.state import ExchangeState, Session, SessionKey, Stream, StreamEnd
from wiretape.sse import Frame, FrameKind
from wiretape.stream import SeenFrame


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule at work."""

    rule: Rule
    check: Callable[..., Outcome]
    tally: Tally
    severity: Severity


class Checker:
    """Folds observations into findings.  Pure: no I/O, no clock, no state but its own.

    Feed it the observations of a recording in order of time.  A finding is given out as soon as it is certain.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or DEFAULT
        self.exchanges = 0
        """How many exchanges were seen."""
        self.events = 0
        """How many messages of the service's streams were seen."""
        self._tallies = {code: Tally() for code in CATALOGUE}
        entries = [
            _Entry(rule, rule.check, self._tallies[code], self.settings.severities.get(code, rule.severity))
            for code, rule in CATALOGUE.items()
            if code not in self.settings.off
        ]
        messages = [entry for entry in entries if entry.rule.occasion is MESSAGE]
        self._of_shape = [[entry for entry in messages if shape in entry.rule.shapes] for shape in Shape]
        self._of_all = [entry for entry in messages if entry.rule.shapes == EVERY_MESSAGE]
        self._at = {
            occasion: [entry for entry in entries if entry.rule.occasion is occasion]
            for occasion in (RESPONSE, STREAM_END, ERROR_ANSWER)
        }
        self._open: dict[int, ExchangeState] = {}
        self._sessions: dict[SessionKey, Session] = {}
        self._found: list[Finding] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            RequestStarted: self._request_started,
            ResponseStarted: self._response_started,
            BytesArrived: self._bytes_arrived,
            BytesLost: self._bytes_lost,
            ExchangeEnded: self._exchange_ended,
        }

    def feed(self, observation: Observation) -> list[Finding]:
        """The findings that the observation makes certain, in the order of the stream."""
        handler = self._handlers.get(type(observation))
        if handler is not None:
            handler(observation)
        return self._take()

    def finish(self) -> list[Finding]:
        """The findings that the end of the recording makes certain.  Exchanges still open stay undecided."""
        for state in list(self._open.values()):
            self._exchange_ended(ExchangeEnded(state.number, 0, Ending.OPEN))
        return self._take()

    def tallies(self) -> dict[str, Tally]:
        """For each rule of the catalogue how often it came up, and what came of it."""
        return dict(self._tallies)

    def verdicts(self) -> dict[str, Verdict]:
        """What the observations so far show about each rule of the catalogue."""
        return {code: tally.verdict for code, tally in self._tallies.items()}

    def _take(self) -> list[Finding]:
        found = self._found
        if found:
            self._found = []
            return found
        return []

    def _request_started(self, request: RequestStarted) -> None:
        self.exchanges += 1
        match = operation_of(request.method, request.target)
        session = None
        if match is not None:
            key = (request.authority, match.base, match.session_id)
            session = self._sessions.setdefault(key, Session())
        self._open[request.exchange] = ExchangeState(request, match, session)

    def _response_started(self, response: ResponseStarted) -> None:
        state = self._open.get(response.exchange)
        if state is None:
            return
        state.response = response
        if response.status >= 400 and state.request.method != "HEAD":
            state.answer = Answer(response)
        elif response.status == 200 and state.match is not None and state.match.operation is STREAM:
            self._ask(RESPONSE, (state,), Place(response.exchange, response.time_ns))
            if state.session is not None and is_event_stream(state.response_header("content-type")):
                state.stream = Stream(state, state.session)

    def _bytes_arrived(self, run: BytesArrived) -> None:
        state = self._open.get(run.exchange)
        if state is None or run.side is not Side.RESPONSE:
            return
        if state.stream is not None:
            self._frames(state.stream, state.stream.reader.feed(run))
            if state.stream.reader.undecodable is not None and not state.stream.unknown_end:
                self._lose(state.stream)
        elif state.answer is not None:
            state.answer.feed(run)

    def _bytes_lost(self, lost: BytesLost) -> None:
        state = self._open.get(lost.exchange)
        if state is None or lost.side is not Side.RESPONSE:
            return
        if state.stream is not None:
            self._frames(state.stream, state.stream.reader.skip(lost))
            self._lose(state.stream)
        elif state.answer is not None:
            state.answer.miss()

    def _exchange_ended(self, ended: ExchangeEnded) -> None:
        state = self._open.pop(ended.exchange, None)
        if state is None:
            return
        if state.stream is not None:
            self._stream_ended(state.stream, ended)
        elif state.answer is not None:
            state.answer.close(ended.ending)
            self._ask(ERROR_ANSWER, (state.answer,), Place(ended.exchange, ended.time_ns))

    def _stream_ended(self, stream: Stream, ended: ExchangeEnded) -> None:
        tail: Frame | None = None
        for seen in stream.reader.close():
            if seen.frame.kind is FrameKind.TAIL:
                tail = seen.frame if seen.frame.fields else None
            else:
                self._frames(stream, [seen])
        end = StreamEnd(stream, ended.ending, ended.time_ns, tail)
        self._ask(STREAM_END, (end,), Place(ended.exchange, ended.time_ns))

    def _frames(self, stream: Stream, frames: list[SeenFrame]) -> None:
        for seen in frames:
            if seen.event is not None:
                self._message(stream, seen)
            if seen.frame.kind is FrameKind.OVERSIZED:
                # A piece of a message that nobody reads.
                self._lose(stream)
            else:
                stream.unknown_end = False

    def _message(self, stream: Stream, seen: SeenFrame) -> None:
        self.events += 1
        message = Message(seen)
        for entry in self._of_shape[message.shape]:
            outcome = entry.check(message, stream)
            if outcome is HELD:
                entry.tally.held += 1
            elif outcome is not None:
                self._settle(entry, outcome, message.place(stream.exchange.number))
        stream.remember(message)

    def _lose(self, stream: Stream) -> None:
        """Messages of a stream passed unseen, and with them what every message brings up."""
        stream.lose()
        for entry in self._of_all:
            entry.tally.doubted += 1

    def _ask(self, occasion: Occasion[Any], given: tuple[Any, ...], place: Place) -> None:
        for entry in self._at[occasion]:
            outcome = entry.check(*given)
            if outcome is not None:
                self._settle(entry, outcome, place)

    def _settle(self, entry: _Entry, outcome: Outcome, place: Place) -> None:
        """Count what a rule said, and make findings of its problems."""
        if isinstance(outcome, Inconclusive):
            entry.tally.doubted += 1
            return
        if not outcome:
            entry.tally.held += 1
            return
        entry.tally.failed += 1
        for problem in outcome:
            entry.tally.findings += 1
            at = problem.place or place
            self._found.append(
                Finding(
                    entry.rule.code,
                    entry.severity,
                    entry.rule.side,
                    at.exchange,
                    at.event,
                    at.sequence,
                    at.byte_offset,
                    at.time_ns,
                    problem.message,
                )
            )
