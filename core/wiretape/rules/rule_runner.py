"""The rule runner: runs rules on triggers, counts their outcomes, and makes findings.

Most events are ordinary: nothing about their framing and their JSON is remarkable.  A rule with `fast_path=True` has
the same outcome, without a problem, for all ordinary events of one type.  So it runs only on the first ordinary event
of each type, and its outcome is counted for the others.

Most ordinary events are deltas that follow another one of the same type and run.  If all rules that have to run on them
are `steady`, and held for the one before, they hold for this as well: it is only counted.
"""

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

from wiretape.contract import EVENT_TYPES
from wiretape.contract.schemas import is_valid_delta
from wiretape.frame_reader import SeenFrame
from wiretape.json_codec import find_repeated_keys
from wiretape.rules.catalogue import (
    ANY_SHAPE,
    EVENT,
    HELD,
    LOST_EVENTS,
    Inconclusive,
    Later,
    Outcome,
    Rule,
    Scope,
    Trigger,
    catalogue_of,
)
from wiretape.rules.finding import Finding, Location, Severity, Tally
from wiretape.rules.parsed_event import NO_SCHEMA_ERRORS, FramedEvent, ParsedEvent, Shape, is_header_safe
from wiretape.rules.selection import Settings
from wiretape.rules.state.stream_state import EventStream, StreamState

FOREVER = 1 << 63
"""Later than every time."""
ReasonOrder = tuple[int, int, int]
"""When a rule was first inconclusive for a reason: the time, the phase at that time, and the order within that."""
_OBSERVED, _WAITED = range(2)
_PLAIN = ""
"""Stands for the type of plain events of streams that are not the service's."""
_ENCODED_TYPES = {name: name.encode() for name in EVENT_TYPES}


def is_ordinary(event: ParsedEvent) -> bool:
    """Whether an event is a delta or a durable event with unremarkable framing and JSON."""
    name = event.type
    if event.has_rare_fields or name is None or event.event_line != _ENCODED_TYPES.get(name, b""):
        return False
    if event.is_delta:
        if event.id_line is not None or event.has_sequence:
            return False
    elif not (event.is_durable and _has_ordinary_id(event)):
        return False
    if event.find_schema_errors() is not NO_SCHEMA_ERRORS or not (event.frame[2].isascii() or event.is_utf8):
        return False
    return _has_unique_keys(event.data or b"", event.document)


def _has_unique_keys(data: bytes, document: dict[str, Any]) -> bool:
    """Whether no key of an object is certainly repeated in its JSON."""
    try:
        # That is so if the JSON is written as usual, which is quick to see.
        if orjson.dumps(document) == data:
            return True
    except TypeError:
        return False
    return find_repeated_keys(data, document) == []


def is_plain(event: FramedEvent) -> bool:
    """Whether the framing of an event is unremarkable: ASCII, with data, without an id."""
    return not (event.has_rare_fields or event.data is None or event.id_line is not None) and event.frame.raw.isascii()


def _has_ordinary_id(event: ParsedEvent) -> bool:
    identity = event.id
    if event.sequence is None or identity is None or not is_header_safe(identity):
        return False
    return bool(event.document.get("id") == identity)


def _is_reported(rule: Rule, outcome: Outcome, stream: StreamState) -> bool:
    """Whether a rule that reports one finding for a stream or a session has reported it; it has after this call."""
    if rule.once_per is None or not outcome or isinstance(outcome, Inconclusive | Later):
        return False
    reported = stream.reported if rule.once_per is Scope.STREAM else stream.session.reported
    is_reported = rule.code in reported
    reported.add(rule.code)
    return is_reported


@dataclass(slots=True)
class _Entry:
    """A function of a rule, and where its outcomes are counted."""

    rule: Rule
    function: Callable[..., Outcome]
    tally: Tally
    severity: Severity | None
    """The severity in the settings, if there is one."""
    held: int = 0
    """How often the rule held for an event since the tally was last updated."""


@dataclass(slots=True)
class _OrdinaryEvents:
    """What is known about the ordinary events of one type."""

    run: list[_Entry]
    """The functions that have to run on each of them."""
    held: list[_Entry]
    """The functions whose rules hold for all of them."""
    is_steady: bool
    """Whether all functions in `run` are steady."""
    count: int = 0
    """Events since the tallies were last updated."""
    repeated: int = 0
    """Those of them for which the functions in `run` hold without having run."""


class RuleRunner:
    """Runs rules, counts their outcomes, and collects findings."""

    def __init__(self, rules: Iterable[Rule], settings: Settings, only: Collection[int] | None = None) -> None:
        """With `only`, the rules run only on the exchanges with these numbers."""
        self.catalogue = catalogue_of(rules)
        self.due_ns = FOREVER
        """The earliest time for which a rule waits."""
        self.now_ns = 0
        """The time of the current observation."""
        self.reason_order: dict[tuple[str, str], ReasonOrder] = {}
        """When each rule, by code, was first inconclusive for each reason."""
        self._only = only
        self._phase, self._phase_order = _OBSERVED, 0
        self._tallies = {code: Tally() for code in self.catalogue}
        self._findings: list[Finding] = []
        self._waiting: list[tuple[int, int, _Entry, Later, Location]] = []
        self._numbers = count()
        checks = [
            (check, _Entry(rule, check.function, self._tallies[code], settings.severities.get(code)))
            for code, rule in self.catalogue.items()
            if code not in settings.off
            for check in rule.checks
        ]
        on_event = [(check, entry) for check, entry in checks if check.trigger.name == EVENT.name]
        names = set(EVENT_TYPES).union(*(check.types for check, _ in on_event if check.types is not None))
        of_shape = [[(check.types, entry) for check, entry in on_event if shape in check.shapes] for shape in Shape]
        self._of_type = [
            {name: [entry for types, entry in entries if types is None or name in types] for name in names}
            for entries in of_shape
        ]
        self._of_shape = [[entry for types, entry in entries if types is None] for entries in of_shape]
        self._fast = {id(entry) for check, entry in on_event if check.fast_path}
        self._steady = {id(entry) for check, entry in on_event if check.steady}
        self._ordinary: dict[str, _OrdinaryEvents] = {}
        self._on_other_event = [entry for _, entry in on_event if entry.rule.everywhere]
        self._of_all = [e for check, e in on_event if check.shapes == ANY_SHAPE and check.types is None]
        self._on: dict[str, list[_Entry]] = {}
        for check, entry in checks:
            self._on.setdefault(check.trigger.name, []).append(entry)
        self._on_other = {name: [e for e in entries if e.rule.everywhere] for name, entries in self._on.items()}

    @property
    def tallies(self) -> dict[str, Tally]:
        """The tally of each rule by its code."""
        for ordinary in self._ordinary.values():
            for entry in ordinary.held:
                entry.held += ordinary.count
            for entry in ordinary.run:
                entry.held += ordinary.repeated
            ordinary.count = ordinary.repeated = 0
        for entry in self._on.get(EVENT.name, ()):
            entry.tally.held += entry.held
            entry.held = 0
        return self._tallies

    def run_event(self, event: ParsedEvent, stream: StreamState) -> None:
        """Run the rules on an event of a stream."""
        is_steady = False
        if is_ordinary(event):
            name = event.type or ""
            ordinary = self._ordinary.get(name)
            if ordinary is None:
                ordinary = self._ordinary[name] = self._run_first_ordinary(self._entries(event), event, stream)
            ordinary.count += 1
            entries, is_steady = ordinary.run, event.is_delta and ordinary.is_steady
        else:
            entries = self._entries(event)
        for entry in entries:
            outcome = entry.function(event, stream)
            if outcome is HELD:
                entry.held += 1
                continue
            is_steady = False
            if outcome is not None and not _is_reported(entry.rule, outcome, stream):
                self._settle(entry, outcome, event.location(stream.exchange))
        if is_steady:
            stream.steady_delta = event

    def repeat_delta(self, seen: SeenFrame, before: ParsedEvent) -> bool:
        """Count an ordinary delta with the type and the run of `before`, the `steady_delta` of its stream.

        Returns False for any other event: the rules have to run.
        """
        _, _, raw, fields, _ = seen[0]
        if len(fields) != 2:
            return False
        (first, name), (second, data) = fields
        if name != before.event_line or first != b"event" or second != b"data":
            return False
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        if type(document) is not dict or document.get("type") != before.type or document.get("run_id") != before.run_id:
            return False
        if not is_valid_delta(document) or not _has_unique_keys(data, document):
            return False
        if not raw.isascii() and FramedEvent(seen).invalid_utf8_at is not None:
            return False
        ordinary = self._ordinary[before.type or ""]
        ordinary.count += 1
        ordinary.repeated += 1
        return True

    def run_other_event(self, event: FramedEvent, stream: EventStream) -> None:
        """Run the rules that apply everywhere on an event of a stream that is not the service's."""
        entries = self._on_other_event
        if is_plain(event):
            ordinary = self._ordinary.get(_PLAIN)
            if ordinary is None:
                ordinary = self._ordinary[_PLAIN] = self._run_first_ordinary(entries, event, stream)
            ordinary.count += 1
            entries = ordinary.run
        for entry in entries:
            outcome = entry.function(event, stream)
            if outcome is not None:
                self._settle(entry, outcome, event.location(stream.exchange))

    def _entries(self, event: ParsedEvent) -> list[_Entry]:
        shape = event.shape
        return self._of_type[shape].get(event.type or "", self._of_shape[shape])

    def _run_first_ordinary(self, entries: list[_Entry], event: FramedEvent, stream: EventStream) -> _OrdinaryEvents:
        """Run the fast-path rules on the first ordinary event of a type."""
        run: list[_Entry] = []
        held: list[_Entry] = []
        for entry in entries:
            outcome = entry.function(event, stream) if id(entry) in self._fast else LOST_EVENTS
            if outcome is HELD or outcome == []:
                held.append(entry)
            elif outcome is not None:
                run.append(entry)
        return _OrdinaryEvents(run, held, is_steady=all(id(entry) in self._steady for entry in run))

    def count_lost_events(self, exchange: int) -> None:
        """Count the rules about every event as inconclusive, because events of a stream were lost."""
        if self._only is None or exchange in self._only:
            for entry in self._of_all:
                self._add_inconclusive(entry.rule.code, LOST_EVENTS.reason, exchange)

    def run(
        self, trigger: Trigger[Any], arguments: tuple[Any, ...], location: Location, *, is_service: bool = True
    ) -> None:
        """Run the rules of a trigger: all of them if the exchange is the service's, or those that apply everywhere."""
        if self._only is not None and location.exchange not in self._only:
            return
        entries = self._on if is_service else self._on_other
        for entry in entries.get(trigger.name, ()):
            outcome = entry.function(*arguments)
            if outcome is not None and not _is_reported(entry.rule, outcome, arguments[0]):
                self._settle(entry, outcome, location)

    def decide_waiting(self, now_ns: int, *, finished: bool = False) -> None:
        """Decide the rules that waited for a time before `now_ns`, or all if the recording is finished."""
        self._phase = _WAITED
        while self._waiting and (finished or self.due_ns < now_ns):
            self._phase_order, _, entry, later, location = heapq.heappop(self._waiting)
            self.due_ns = self._waiting[0][0] if self._waiting else FOREVER
            outcome = later.decide(now_ns)
            if outcome is not None:
                self._settle(entry, outcome, location)
        self._phase = _OBSERVED

    def take_findings(self) -> list[Finding]:
        """Return the findings since the last call."""
        findings = self._findings
        if findings:
            self._findings = []
            return findings
        return []

    def _add_inconclusive(self, code: str, reason: str, exchange: int) -> None:
        self._tallies[code].add_inconclusive(reason)
        order = self._phase_order if self._phase == _WAITED else exchange
        self.reason_order.setdefault((code, reason), (self.now_ns, self._phase, order))

    def _settle(self, entry: _Entry, outcome: Outcome, location: Location) -> None:
        """Count an outcome, and make findings of its problems."""
        if isinstance(outcome, Inconclusive):
            self._add_inconclusive(entry.rule.code, outcome.reason, location.exchange)
        elif isinstance(outcome, Later):
            heapq.heappush(self._waiting, (outcome.due_ns, next(self._numbers), entry, outcome, location))
            self.due_ns = self._waiting[0][0]
        elif not outcome:
            entry.tally.held += 1
        else:
            entry.tally.failed += 1
            entry.tally.findings += len(outcome)
            self._findings += [
                Finding(
                    entry.rule.code,
                    entry.severity or problem.severity or entry.rule.severity,
                    entry.rule.side,
                    (at := problem.location or location).exchange,
                    at.event,
                    at.sequence,
                    at.byte_offset,
                    at.time_ns,
                    problem.message,
                )
                for problem in outcome
            ]
