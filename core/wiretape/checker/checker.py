"""The checker: observations in, findings out, the same for live traffic and recordings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wiretape.checker.default_rules import BUILT_IN, default_contracts
from wiretape.checker.selection import Settings
from wiretape.contract.contract_facts import given_or_detected
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
)
from wiretape.rules.catalogue import (
    AFTER_COMMENT,
    ERROR_RESPONSE,
    EXCHANGE_END,
    REQUEST,
    RESPONSE,
    SILENCE,
    STREAM_END,
    STREAM_RESPONSE,
    SUCCESS_RESPONSE,
    Rule,
    RuleSet,
)
from wiretape.rules.engine import Engine, RuleBook
from wiretape.rules.exchange import EventStream, Exchange, ScopeCount, ScopeReason, Silence, StreamEnd
from wiretape.rules.finding import Finding, Location, Tally, Verdict
from wiretape.rules.traffic import OtherTraffic, Traffic
from wiretape.sse import FrameKind

# Python 3.11 takes 50 ns to look up a member of an enumeration.
_COMMENT, _OVERSIZED, _TAIL = FrameKind.COMMENT, FrameKind.OVERSIZED, FrameKind.TAIL
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
        `feed_read`.  If the settings have contracts, their rules are run instead.  Raises ValueError if two rules have
        the same code.
        """
        self.settings = settings or _DEFAULT
        self.exchanges = 0
        """The number of exchanges seen."""
        self.events = 0
        """The number of events seen on all event streams."""
        given = self.settings.contracts
        # Deltas that repeat the one before need not be read.
        self._readers = readers or StreamReaders(given_or_detected(given).format_of, uses_all=False)
        are_own = bool(given) or rules is BUILT_IN
        rules = tuple(self.settings.catalogue.values() if given else rules)
        self._engine = Engine(rules, self.settings.off, self.settings.severities)
        self._others = OtherTraffic(RuleBook(self._engine, [rule for rule in rules if rule.everywhere]))
        contracts = given or default_contracts()
        self._traffics: list[Traffic[Any, Any]] = [
            contract.follow(
                self._engine,
                contract.rules if are_own else _rules_for(rules, contract, contracts),
                self.settings,
                upstream,
            )
            for contract in contracts
        ]
        # The last default contract is about what is left.
        self._named = self._traffics if given else self._traffics[:-1] or self._traffics
        self._names = " or ".join(contract.name for contract in contracts[: len(self._named)])
        self._other_exchanges = 0
        self._open: dict[int, Exchange] = {}
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
        self._now_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
        if self._engine.due_ns < self._now_ns:
            self._engine.decide_waiting(self._now_ns)
        return self._engine.take_findings()

    def finish(self) -> list[Finding]:
        """Return the findings that the end of the recording makes certain.  Open exchanges stay undecided."""
        for state in list(self._open.values()):
            ended = ExchangeEnded(state.number, self._now_ns, Ending.OPEN)
            self._end_exchange(ended, self._readers.read(ended))
        self._engine.decide_waiting(self._now_ns, finished=True)
        return self._engine.take_findings()

    def check(self, observations: Iterable[Observation]) -> Iterator[Finding]:
        """Yield the findings of a whole recording."""
        for observation in observations:
            yield from self.feed(observation)
        yield from self.finish()

    def sequence_of(self, exchange: int) -> int | None:
        """Return the last sequence on the open stream of an exchange; None if there is none yet."""
        state = self._open.get(exchange)
        return state.stream.sequence if state is not None and state.stream is not None else None

    def tallies(self) -> dict[str, Tally]:
        """Return for each rule how often it was exercised, and with which results."""
        for traffic in (self._others, *self._traffics):
            traffic.rules.update_tallies()
        return dict(self._engine.tallies)

    def verdicts(self) -> dict[str, Verdict]:
        """Return for each rule what the observations so far show about it."""
        return {code: tally.verdict for code, tally in self.tallies().items()}

    def scopes(self) -> list[ScopeCount]:
        """Return how many exchanges were judged by which rules, and why."""
        if len(self._named) == 1:
            return self._named[0].scopes(self._other_exchanges)
        scopes = [scope for traffic in self._named for scope in traffic.scopes(0)]
        if self._other_exchanges:
            reason = ScopeReason.NO_OPERATION
            scopes.append(ScopeCount(reason, self._other_exchanges, reason.value.format(contract=self._names)))
        return scopes

    def _start_request(self, request: RequestStarted) -> None:
        self.exchanges += 1
        started = (traffic.start(request) for traffic in self._traffics)
        exchange = next((each for each in started if each is not None), None) or self._others.start(request)
        self._other_exchanges += exchange.traffic not in self._named
        self._open[request.exchange] = exchange
        if not request.is_invented:
            exchange.traffic.rules.run(REQUEST, (exchange,), Location(request.exchange, request.time_ns))
        exchange.after_request()

    def _start_response(self, response: ResponseStarted) -> None:
        exchange = self._open.get(response.exchange)
        if exchange is None:
            return
        exchange.response = response
        location, traffic = Location(response.exchange, response.time_ns), exchange.traffic
        traffic.rules.run(RESPONSE, (exchange,), location)
        if traffic.claims_stream(exchange) or exchange.has_event_stream:
            owner = traffic if traffic.claims_stream(exchange) else self._others
            owner.rules.run(STREAM_RESPONSE, (exchange,), location)
            exchange.stream = owner.open_stream(exchange, response)
        exchange.body = traffic.open_body(exchange, response)
        exchange.after_response_started()

    def _add_bytes(self, span: BytesArrived, read: ReadObservation) -> None:
        exchange = self._open.get(span.exchange)
        if exchange is None:
            return
        stream = exchange.stream
        if span.side is not Side.RESPONSE:
            exchange.add_request_bytes(span)
        elif stream is None:
            self._add_without_stream(exchange, read, span)
        else:
            frames = read.frames
            for silence in _find_silences(stream, span):
                before = [seen for seen in frames if seen.time_ns < silence.ended_ns]
                frames = frames[len(before) :]
                self._add_frames(stream, before)
                self._add_silence(stream, silence)
            self._add_frames(stream, frames)
            if read.undecodable is not None:
                stream.undecodable = read.undecodable
                if not stream.has_unknown_end:
                    stream.traffic.lose(stream, span.time_ns)

    def _add_without_stream(self, exchange: Exchange, read: ReadObservation, span: BytesArrived | None = None) -> None:
        """Add bytes of a response that is no event stream of success; without a span, some were lost."""
        self.events += sum(isinstance(seen, Event) for seen in read.frames)
        if exchange.body is not None and span is not None:
            exchange.body.feed(span)
        elif exchange.body is not None:
            exchange.body.give_up()

    def _lose_bytes(self, lost: BytesLost, read: ReadObservation) -> None:
        exchange = self._open.get(lost.exchange)
        if exchange is None:
            return
        exchange.lose(lost)
        stream = exchange.stream
        if lost.side is not Side.RESPONSE:
            return
        if stream is None:
            self._add_without_stream(exchange, read)
            return
        for monitor in stream.silences:
            monitor.lose()
        self._add_frames(stream, read.frames)
        stream.undecodable = read.undecodable
        stream.traffic.lose(stream, lost.time_ns)

    def _end_exchange(self, ended: ExchangeEnded, read: ReadObservation) -> None:
        exchange = self._open.pop(ended.exchange, None)
        if exchange is None:
            return
        exchange.ended_ns = ended.time_ns
        location, rules = Location(ended.exchange, ended.time_ns), exchange.traffic.rules
        if exchange.stream is not None:
            self._end_stream(exchange.stream, ended, read.frames, location)
        elif exchange.body is not None:
            exchange.body.close(ended.ending)
            trigger = ERROR_RESPONSE if exchange.body.response.status >= 400 else SUCCESS_RESPONSE
            rules.run(trigger, (exchange.body, exchange), location)
            exchange.after_body(exchange.body)
        rules.run(EXCHANGE_END, (exchange, ended.ending), location)
        exchange.after_end(ended.ending)

    def _end_stream(
        self, stream: EventStream, ended: ExchangeEnded, frames: Sequence[TimedFrame], location: Location
    ) -> None:
        self._add_frames(stream, [seen for seen in frames if seen.frame.kind is not FrameKind.TAIL])
        for monitor in stream.silences:
            if (silence := monitor.end(ended.time_ns)) is not None:
                self._add_silence(stream, silence)
        end = StreamEnd.of(stream, ended, frames)
        if end.tail is not None:
            stream.cut_off(end.tail)
        stream.traffic.rules.run(STREAM_END, (end,), location)
        stream.traffic.after_stream_end(stream, location)

    def _add_frames(self, stream: EventStream, frames: Iterable[TimedFrame]) -> None:
        add_event = stream.traffic.add_event
        for seen in frames:
            if stream.last_comment is not None:
                self._follow_comment(stream, stream.last_comment, seen.frame.kind)
            if isinstance(seen, Event):
                self.events += 1
                add_event(stream, seen)
                stream.last_event = seen
            elif (kind := seen.frame.kind) is _OVERSIZED:
                self.events += stream.add_oversized(seen)
                stream.traffic.lose(stream, seen.time_ns)
                continue
            elif kind is _COMMENT:
                stream.last_comment = seen
            elif kind is _TAIL:
                continue
            stream.has_unknown_end = False

    def _follow_comment(self, stream: EventStream, comment: TimedFrame, kind: FrameKind) -> None:
        location = Location(stream.exchange, comment.time_ns, byte_offset=comment.frame.start)
        stream.traffic.rules.run(AFTER_COMMENT, (stream, kind), location)
        stream.last_comment = None

    def _add_silence(self, stream: EventStream, silence: Silence) -> None:
        """Run the rules on a silence, whose location is the event before it."""
        location = replace(stream.last_location, time_ns=silence.ended_ns)
        stream.traffic.rules.run(SILENCE, (silence, stream), location)


def _rules_for(rules: Iterable[Rule], contract: RuleSet, contracts: Sequence[RuleSet]) -> list[Rule]:
    """Return those of some rules that run on the traffic of a default contract: also those of no contract.

    The latter know the traffic of a service, so they do not run on what is left.
    """
    own, others = contract.catalogue, {code for each in contracts for code in each.catalogue}
    is_last = len(contracts) > 1 and contract is contracts[-1]
    return [rule for rule in rules if rule.code in own or not (is_last or rule.code in others)]


def _find_silences(stream: EventStream, span: BytesArrived) -> list[Silence]:
    """Return the silences before and between the chunks that are too long, in order of time."""
    found = [silence for monitor in stream.silences for silence in monitor.feed(span)]
    return sorted(found, key=lambda silence: silence.ended_ns) if len(found) > 1 else found
