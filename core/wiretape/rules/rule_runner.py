"""The rule runner: runs rules on triggers, counts their outcomes, and makes findings.

Most events are ordinary: nothing about their framing and their JSON is remarkable.  A rule with `fast_path=True` has
the same outcome, without a problem, for all ordinary events of one type.  So it runs only on the first ordinary event
of each type, and its outcome is counted for the others.

Most ordinary events are deltas that follow another one of the same type and run.  If all rules that have to run on them
are `steady`, and held for the one before, they hold for this as well: it is only counted.

All rules run at a trigger before their problems are reported, so that one cause is one finding: problems that an
earlier finding has reported (`once_per`), or another rule at the same trigger (`unless`), are dropped.  A rule that is
switched off still runs if another one names it in `unless`.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

import orjson

from wiretape.contract import EVENT_TYPES, RUN_STARTED, TERMINAL_RUN_TYPES
from wiretape.contract.schemas import NO_SCHEMA_ERRORS, is_valid_delta
from wiretape.event import Event, Shape, is_header_safe
from wiretape.json_codec import find_repeated_keys
from wiretape.rules.catalogue import (
    ANY_SHAPE,
    EVENT,
    HELD,
    INCOMPLETE_BODY,
    LOST_EVENTS,
    Check,
    Inconclusive,
    Later,
    Outcome,
    Problem,
    Rule,
    Scope,
    Trigger,
    catalogue_of,
)
from wiretape.rules.finding import Finding, Location, Severity, Tally
from wiretape.rules.selection import Settings
from wiretape.rules.state.session_state import SessionState
from wiretape.rules.state.stream_state import EventStream, StreamState

FOREVER = 1 << 63
"""Later than every time."""
_PLAIN_FIELDS = frozenset({(b"data",), (b"event", b"data"), (b"data", b"event")})
_PLAIN = ""
"""Stands for the type of plain events of streams that are not the service's."""
_TYPES_WITH_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}
_MOST_PROBLEMS = 20
"""Problems of a rule with a `noun` that are reported at once."""
_ENCODED_TYPES = {name: name.encode() for name in EVENT_TYPES}


def is_ordinary(event: Event) -> bool:
    """Whether an event is a delta or a durable event with unremarkable framing and JSON."""
    if event.has_rare_fields or event.event_line != _ENCODED_TYPES.get(event.type, b""):
        return False
    if event.is_delta:
        if event.id_line is not None or event.has_sequence:
            return False
    elif not (event.is_durable and _has_ordinary_id(event)):
        return False
    if event.find_schema_errors() is not NO_SCHEMA_ERRORS or not (event.frame[2].isascii() or event.is_utf8):
        return False
    return _has_unique_keys(event)


def _has_unique_keys(event: Event) -> bool:
    """Whether no key of an object is certainly repeated in its JSON."""
    try:
        # That is so if the JSON is written as usual, which is quick to see.
        if orjson.dumps(event.document) == event.data:
            return True
    except TypeError:
        return False
    return find_repeated_keys(event.data, event.document) == []


def is_plain(event: Event) -> bool:
    """Whether the framing of an event is unremarkable: ASCII, one data line, and at most one other, the name."""
    frame = event.frame
    return tuple([name for name, _ in frame.fields]) in _PLAIN_FIELDS and frame.raw.isascii()


def _has_ordinary_id(event: Event) -> bool:
    identity = event.cursor
    if event.sequence is None or identity is None or not is_header_safe(identity):
        return False
    return bool(event.document.get("id") == identity)


def _with_conditions(check: Check[Any]) -> Callable[..., Outcome]:
    """Return the function of a check, behind its conditions."""
    function, when, needs, codes = check.function, check.when, check.needs, check.codes
    if when is None and needs is None and codes is None:
        return function

    def run(*arguments: Any) -> Outcome:
        if when is not None and not when(*arguments):
            return None
        if (needs is not None or codes is not None) and not arguments[0].is_whole:
            return INCOMPLETE_BODY
        return function(*arguments) if codes is None or arguments[0].code in codes else None

    return run


def _limit(problems: Sequence[Problem], noun: str) -> Sequence[Problem]:
    """Return the first problems; if there are very many, the rest is only counted as a `noun`."""
    if len(problems) <= _MOST_PROBLEMS:
        return problems
    more = Problem(f"Expected no more problems, got {len(problems) - _MOST_PROBLEMS} more {noun} like these.")
    return [*problems[:_MOST_PROBLEMS], more]


def _is_broken(outcome: Outcome) -> TypeGuard[Sequence[Problem]]:
    return bool(outcome) and not isinstance(outcome, Inconclusive | Later)


@dataclass(slots=True)
class _Entry:
    """A function of a rule, and where its outcomes are counted."""

    rule: Rule
    function: Callable[..., Outcome]
    tally: Tally
    severity: Severity | None
    """The severity in the settings, if there is one."""
    is_off: bool
    """Whether it runs only because another rule names it in `unless`."""
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

    def __init__(self, rules: Iterable[Rule], settings: Settings) -> None:
        self.catalogue = catalogue_of(rules)
        self.due_ns = FOREVER
        """The earliest time for which a rule waits."""
        self.now_ns = 0
        """The time of the current observation."""
        self._tallies = {code: Tally() for code in self.catalogue}
        self._findings: list[Finding] = []
        self._waiting: list[tuple[int, int, _Entry, Later, Location]] = []
        self._numbers = count()
        self._reported: WeakKeyDictionary[StreamState | SessionState, set[tuple[str, Hashable]]] = WeakKeyDictionary()
        self._steady_deltas: dict[int, Event] = {}
        checks = self._make_entries(settings)
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

    def _make_entries(self, settings: Settings) -> list[tuple[Check[Any], _Entry]]:
        """Return the functions that run, in the order of the codes."""
        off = settings.off
        running = [rule for rule in self.catalogue.values() if rule.code not in off]
        named = {code for rule in running for code in rule.all_superseding_codes}
        return [
            (check, _Entry(rule, _with_conditions(check), tally, settings.severities.get(code), code in off))
            for code, rule in self.catalogue.items()
            if code not in off or code in named
            for tally in [Tally() if code in off else self._tallies[code]]
            for check in rule.checks
        ]

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

    def run_event(self, event: Event, stream: StreamState) -> None:
        """Run the rules on an event of a stream."""
        is_steady = False
        others: list[tuple[_Entry, Outcome]] = []
        if is_ordinary(event):
            name = event.type
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
            if outcome is not None:
                others.append((entry, outcome))
        if others:
            self._settle_all(others, (event, stream), Location.of(event))
        if is_steady:
            self._steady_deltas[stream.exchange] = event
        elif (delta := self._steady_deltas.get(stream.exchange)) is not None and (
            event.run_id != delta.run_id or event.type in _TYPES_WITH_RUN
        ):
            del self._steady_deltas[stream.exchange]

    def repeat_delta(self, event: Event) -> bool:
        """Count an ordinary delta with the type and the run of the one before for which all rules held.

        Returns False for any other event: the rules have to run.
        """
        before = self._steady_deltas.get(event.exchange)
        if before is None:
            return False
        if not event.is_delta or event.type != before.type or event.run_id != before.run_id:
            return False
        if event.event_line != before.event_line or event.id_line is not None or event.has_rare_fields:
            return False
        if event.has_unusual_json or not is_valid_delta(event.document) or not _has_unique_keys(event):
            return False
        if not (event.frame[2].isascii() or event.is_utf8):
            return False
        ordinary = self._ordinary[before.type]
        ordinary.count += 1
        ordinary.repeated += 1
        return True

    def run_other_event(self, event: Event, stream: EventStream) -> None:
        """Run the rules that apply everywhere on an event of a stream that is not the service's."""
        entries = self._on_other_event
        if is_plain(event):
            ordinary = self._ordinary.get(_PLAIN)
            if ordinary is None:
                ordinary = self._ordinary[_PLAIN] = self._run_first_ordinary(entries, event, stream)
            ordinary.count += 1
            entries = ordinary.run
        outcomes = [(entry, outcome) for entry in entries if (outcome := entry.function(event, stream)) is not None]
        if outcomes:
            self._settle_all(outcomes, (event, stream), Location.of(event))

    def _entries(self, event: Event) -> list[_Entry]:
        shape = event.shape
        return self._of_type[shape].get(event.type, self._of_shape[shape])

    def _run_first_ordinary(self, entries: list[_Entry], event: Event, stream: EventStream) -> _OrdinaryEvents:
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

    def end_stream(self, exchange: int) -> None:
        """Forget a stream that has ended."""
        self._steady_deltas.pop(exchange, None)

    def count_lost_events(self, exchange: int) -> None:
        """Count the rules about every event as inconclusive, because events of a stream were lost."""
        self._steady_deltas.pop(exchange, None)
        for entry in self._of_all:
            self._tallies[entry.rule.code].add_inconclusive(LOST_EVENTS.reason)

    def run(
        self, trigger: Trigger[Any], arguments: tuple[Any, ...], location: Location, *, is_service: bool = True
    ) -> None:
        """Run the rules of a trigger: all of them if the exchange is the service's, or those that apply everywhere."""
        entries = (self._on if is_service else self._on_other).get(trigger.name, ())
        outcomes = [(entry, outcome) for entry in entries if (outcome := entry.function(*arguments)) is not None]
        if outcomes:
            self._settle_all(outcomes, arguments, location)

    def _settle_all(
        self, outcomes: Sequence[tuple[_Entry, Outcome]], arguments: tuple[Any, ...], location: Location
    ) -> None:
        """Settle the outcomes of a trigger, without the problems that are reported already."""
        broken = {entry.rule.code for entry, outcome in outcomes if _is_broken(outcome)}
        for entry, outcome in outcomes:
            rule = entry.rule
            if entry.is_off:
                continue
            if _is_broken(outcome):
                new = [each for each in outcome if broken.isdisjoint(rule.superseding_codes(each.subject))]
                if rule.once_per is not None:
                    new = self._take_unreported(rule, new, arguments)
                if new:
                    self._settle(entry, new if rule.noun is None else _limit(new, rule.noun), location)
            elif not outcome or broken.isdisjoint(rule.superseding_codes()):
                self._settle(entry, outcome, location)

    def _take_unreported(self, rule: Rule, problems: list[Problem], arguments: tuple[Any, ...]) -> list[Problem]:
        """Return the problems whose subjects the rule has not reported yet; it has after this call."""
        holder = next((each for each in arguments if isinstance(each, StreamState | SessionState)), None)
        if holder is None:
            return problems
        if rule.once_per is Scope.SESSION and isinstance(holder, StreamState):
            holder = holder.session
        reported = self._reported.setdefault(holder, set())
        new = [each for each in problems if (rule.code, each.subject) not in reported]
        reported.update((rule.code, each.subject) for each in new)
        return new

    def decide_waiting(self, now_ns: int, *, finished: bool = False) -> None:
        """Decide the rules that waited for a time before `now_ns`, or all if the recording is finished."""
        while self._waiting and (finished or self.due_ns < now_ns):
            _, _, entry, later, location = heapq.heappop(self._waiting)
            self.due_ns = self._waiting[0][0] if self._waiting else FOREVER
            outcome = later.decide(now_ns)
            if outcome is not None:
                self._settle(entry, outcome, location)

    def take_findings(self) -> list[Finding]:
        """Return the findings since the last call."""
        findings = self._findings
        if findings:
            self._findings = []
            return findings
        return []

    def _settle(self, entry: _Entry, outcome: Outcome, location: Location) -> None:
        """Count an outcome, and make findings of its problems."""
        if isinstance(outcome, Inconclusive):
            self._tallies[entry.rule.code].add_inconclusive(outcome.reason)
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
