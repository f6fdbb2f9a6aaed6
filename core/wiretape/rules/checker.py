"""The checker: observations in, findings out, the same for live traffic and recordings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wiretape.agent_sessions import KEEP_ALIVE_SECONDS, is_event_stream, may_create_session
from wiretape.event import Event, TimedFrame
from wiretape.frame_reader import ReadObservation, StreamReaders
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
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    ERROR_RESPONSE,
    EXCHANGE_END,
    OVERLAP,
    REPLAY_END,
    REQUEST,
    RESPONSE,
    SILENCE,
    STREAM_END,
    STREAM_RESPONSE,
    SUCCESS_RESPONSE,
    Rule,
)
from wiretape.rules.engine import Engine
from wiretape.rules.families import BUILT_IN
from wiretape.rules.finding import Finding, Location, Tally, Verdict
from wiretape.rules.selection import Settings
from wiretape.rules.state.client_state import ClientRegistry
from wiretape.rules.state.exchange_state import ExchangeState, RequestIds
from wiretape.rules.state.response_body import ErrorBody, SuccessBody
from wiretape.rules.state.service_traffic import ScopeCount, ServiceTraffic
from wiretape.rules.state.session_state import SessionRegistry
from wiretape.rules.state.stream_state import EventStream, ResumeState, Silence, SilenceMonitor, StreamEnd, StreamState
from wiretape.sse import FrameKind

# Python 3.11 takes 50 ns to look up a member of an enumeration.
_COMMENT, _OVERSIZED = FrameKind.COMMENT, FrameKind.OVERSIZED
_DEFAULT = Settings()


class Checker:
    """Checks observations.  Pure: no I/O, no clock, no shared state.

    Feed it the observations of a recording in order of time, and call `finish` at the end.  It returns a finding as
    soon as that is certain.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        rules: Iterable[Rule] = BUILT_IN,
        readers: StreamReaders | None = None,
        upstream: str | None = None,
    ) -> None:
        """`rules` are the rules to run, for example `[*BUILT_IN, my_rule]`.

        `upstream` is that of the recording: it decides which exchanges are the service's, if the settings have no base.
        None stands for traffic of the service alone, on any origin.  `readers` are those that read the observations for
        `feed_read`.  If the settings have a contract, its rules are run instead.  Raises ValueError if two rules have
        the same code or name.
        """
        self.settings = settings or _DEFAULT
        self.exchanges = 0
        """The number of exchanges seen."""
        self.events = 0
        """The number of events seen on all event streams."""
        self._readers = readers or StreamReaders()
        contract = self.settings.contract
        self._engine = Engine(rules if contract is None else contract.rules, self.settings)
        self._follower = None if contract is None else contract.follow(self._engine)
        self._open: dict[int, ExchangeState] = {}
        self._sessions = SessionRegistry()
        self._clients = ClientRegistry()
        self._traffic = ServiceTraffic(self.settings.base, upstream)
        self._request_ids = RequestIds()
        self._silence_ns = round((KEEP_ALIVE_SECONDS + self.settings.keep_alive_tolerance_s) * 1e9)
        self._now_ns = 0

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules by code."""
        return self._engine.catalogue

    def feed(self, observation: Observation) -> list[Finding]:
        """Return the findings that the observation makes certain, in the order of the stream."""
        return self.feed_read(self._readers.read(observation))

    def feed_read(self, read: ReadObservation) -> list[Finding]:
        """Return the findings as `feed` does, for an observation that the given `readers` have read."""
        seen = read.observation
        if isinstance(seen, BytesArrived):
            self._add_bytes(seen, read)
        elif isinstance(seen, RequestStarted):
            self._start_request(seen)
        elif isinstance(seen, ResponseStarted):
            self._start_response(seen)
        elif isinstance(seen, BytesLost):
            self._lose_bytes(seen, read)
        elif isinstance(seen, ExchangeEnded):
            self._end_exchange(seen, read)
        if self._follower is not None:
            self._follower.observe(read)
        self._now_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        if self._engine.due_ns < self._now_ns:
            self._engine.decide_waiting(self._now_ns)
        return self._engine.take_findings()

    def finish(self) -> list[Finding]:
        """Return the findings that the end of the recording makes certain.  Open exchanges stay undecided."""
        for state in list(self._open.values()):
            ended = ExchangeEnded(state.number, self._now_ns, Ending.OPEN)
            read = self._readers.read(ended)
            self._end_exchange(ended, read)
            if self._follower is not None:
                self._follower.observe(read)
        self._engine.decide_waiting(self._now_ns, finished=True)
        return self._engine.take_findings()

    def sequence_of(self, exchange: int) -> int | None:
        """Return the last sequence on the open stream of an exchange; None if there is none yet."""
        state = self._open.get(exchange)
        return state.stream.sequence if state is not None and state.stream is not None else None

    def tallies(self) -> dict[str, Tally]:
        """Return for each rule how often it was exercised, and with which results."""
        return dict(self._engine.tallies)

    def verdicts(self) -> dict[str, Verdict]:
        """Return for each rule what the observations so far show about it."""
        return {code: tally.verdict for code, tally in self._engine.tallies.items()}

    def scopes(self) -> list[ScopeCount]:
        """Return how many exchanges were judged by which rules, and why."""
        return self._traffic.counts() if self._follower is None else self._follower.scopes()

    def _start_request(self, request: RequestStarted) -> None:
        self.exchanges += 1
        # With a contract, nothing is the service's.
        base, match = self._traffic.add(request) if self._follower is None else (None, None)
        client = self._clients.client_of(request)
        session = reader = None
        if match is not None:
            session = self._sessions.open((request.authority, match.base, match.session_id))
            reader = session.reader(client.key)
        key = header(request.headers, self.settings.idempotency_header)
        state = ExchangeState(request, match, session, self._request_ids, self._sessions, client, reader, base, key)
        self._open[request.exchange] = state
        if not request.is_invented:
            self._engine.run(
                REQUEST, (state,), Location(request.exchange, request.time_ns), is_service=state.is_service
            )
        state.after_request()

    def _start_response(self, response: ResponseStarted) -> None:
        state = self._open.get(response.exchange)
        if state is None:
            return
        state.response = response
        location = Location(response.exchange, response.time_ns)
        is_success = response.status // 100 == 2
        is_stream = is_event_stream(state.response_header("content-type"))
        self._engine.run(RESPONSE, (state,), location, is_service=state.is_service)
        if response.status == 200 and state.is_stream_request:
            self._engine.run(STREAM_RESPONSE, (state,), location)
            state.open_stream(SilenceMonitor(response.time_ns, self._silence_ns))
        elif is_success and is_stream:
            self._engine.run(STREAM_RESPONSE, (state,), location, is_service=False)
            state.other_stream = EventStream(state.number)
        if state.is_service and state.request.method != "HEAD":
            if response.status >= 400:
                state.body = ErrorBody(response)
            elif is_success and not is_stream:
                may_name_session = may_create_session(state.request.method, state.request.target)
                state.body = SuccessBody(response, may_name_session=may_name_session)
        state.after_response_started()

    def _add_bytes(self, span: BytesArrived, read: ReadObservation) -> None:
        state = self._open.get(span.exchange)
        if state is None:
            return
        if span.side is not Side.RESPONSE:
            state.add_request_bytes(span)
        elif state.stream is not None:
            self._add_frames_and_silences(state.stream, state.stream.silence.feed(span), read.frames)
            if read.undecodable is not None and state.stream.undecodable is None:
                state.stream.undecodable = read.undecodable
                if not state.stream.has_unknown_end:
                    self._lose_events(state.stream)
        else:
            self._add_other_frames(state.other_stream, read)
            if state.body is not None:
                state.body.feed(span)

    def _lose_bytes(self, lost: BytesLost, read: ReadObservation) -> None:
        state = self._open.get(lost.exchange)
        if state is None:
            return
        state.lose(lost)
        if lost.side is not Side.RESPONSE:
            return
        if state.stream is not None:
            state.stream.silence.lose()
            self._add_frames(state.stream, read.frames)
            self._lose_events(state.stream)
        else:
            self._add_other_frames(state.other_stream, read)
            if state.other_stream is not None:
                state.other_stream.has_unknown_end = True
            if state.body is not None:
                state.body.give_up()

    def _end_exchange(self, ended: ExchangeEnded, read: ReadObservation) -> None:
        state = self._open.pop(ended.exchange, None)
        if state is None:
            return
        state.ended_ns = ended.time_ns
        location = Location(ended.exchange, ended.time_ns)
        if state.stream is not None:
            self._end_stream(state.stream, ended, read.frames)
        elif state.other_stream is not None:
            self._add_other_frames(state.other_stream, read)
            end = StreamEnd.of(state.other_stream, ended, read.frames)
            self._engine.run(STREAM_END, (end,), location, is_service=False)
        elif state.body is not None:
            state.body.close(ended.ending)
            trigger = SUCCESS_RESPONSE if isinstance(state.body, SuccessBody) else ERROR_RESPONSE
            self._engine.run(trigger, (state.body, state), location)
            state.after_body(state.body)
        self._engine.run(EXCHANGE_END, (state, ended.ending), location, is_service=state.is_service)
        state.after_end(ended.ending)

    def _end_stream(self, stream: StreamState, ended: ExchangeEnded, frames: Sequence[TimedFrame]) -> None:
        self._add_frames(stream, [seen for seen in frames if seen.frame.kind is not FrameKind.TAIL])
        self._add_silence(stream, stream.silence.end(ended.time_ns))
        location = Location(ended.exchange, ended.time_ns)
        end = StreamEnd.of(stream, ended, frames)
        if end.tail is not None:
            stream.cut_off(end.tail)
        self._engine.end_stream(stream.exchange)
        self._engine.run(STREAM_END, (end,), location)
        if stream.resume is not None and not stream.resume.is_checked:
            self._end_replay(stream.resume, location)

    def _add_frames_and_silences(
        self, stream: StreamState, silences: list[Silence], frames: Sequence[TimedFrame]
    ) -> None:
        """Add frames, and the silences that ended between them, in order of time."""
        for silence in silences:
            before = [seen for seen in frames if seen.time_ns < silence.ended_ns]
            frames = frames[len(before) :]
            self._add_frames(stream, before)
            self._add_silence(stream, silence)
        self._add_frames(stream, frames)

    def _add_frames(self, stream: StreamState, frames: Iterable[TimedFrame]) -> None:
        repeat_delta = self._engine.repeat_delta
        for seen in frames:
            if stream.last_comment is not None:
                self._follow_comment(stream, stream.last_comment, seen.frame.kind)
            if isinstance(seen, Event):
                if not repeat_delta(seen):
                    self._add_event(stream, seen)
                stream.last_event = seen
                self.events += 1
            elif seen.frame.kind is _OVERSIZED:
                self.events += stream.add_oversized(seen)
                self._lose_events(stream)
                continue
            elif seen.frame.kind is _COMMENT:
                stream.last_comment = seen
            stream.has_unknown_end = False

    def _follow_comment(self, stream: StreamState, comment: TimedFrame, kind: FrameKind) -> None:
        location = Location(stream.exchange, comment.time_ns, byte_offset=comment.frame.start)
        self._engine.run(AFTER_COMMENT, (stream, kind), location)
        stream.last_comment = None

    def _add_silence(self, stream: StreamState, silence: Silence | None) -> None:
        """Run the rules on a silence, whose location is the event before it."""
        if silence is not None:
            last = stream.last_event
            location = Location(stream.exchange, 0) if last is None else Location.of(last)
            self._engine.run(SILENCE, (silence,), replace(location, time_ns=silence.ended_ns))

    def _add_other_frames(self, stream: EventStream | None, read: ReadObservation) -> None:
        """Add frames of a stream that is not the service's; None for a response that is not a success."""
        if stream is None:
            self.events += sum(isinstance(seen, Event) for seen in read.frames)
            return
        for seen in read.frames:
            if isinstance(seen, Event):
                self.events += 1
                self._engine.run_other_event(seen, stream)
            elif seen.frame.kind is _OVERSIZED:
                self.events += stream.add_oversized(seen)
            if seen.frame.kind is not FrameKind.TAIL:
                stream.has_unknown_end = seen.frame.kind is _OVERSIZED
        if read.undecodable is not None:
            stream.undecodable = stream.undecodable or read.undecodable
            stream.has_unknown_end = True

    def _add_event(self, stream: StreamState, event: Event) -> None:
        session = stream.session
        stream.receive(event)
        self._engine.run_event(event, stream)
        stream.add(event)
        overlaps = session.runs.overlaps
        while overlaps:
            overlap = overlaps.pop(0)
            self._engine.run(OVERLAP, (overlap, session), overlap.location)
        resume = stream.resume
        if resume is not None and resume.is_over and not resume.is_checked:
            self._end_replay(resume, Location.of(event))

    def _end_replay(self, resume: ResumeState, location: Location) -> None:
        resume.is_checked = True
        self._engine.run(REPLAY_END, (resume,), resume.location or location)

    def _lose_events(self, stream: StreamState) -> None:
        stream.lose()
        self._engine.count_lost_events(stream.exchange)
