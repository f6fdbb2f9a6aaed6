"""The engine: runs functions of rules, counts their outcomes, and makes findings.

A rule book has the rules of one contract, and knows which of them run on an event.

Most events are ordinary: nothing about their framing and their JSON is remarkable.  A rule with `fast_path=True` has
the same outcome, without a problem, for all ordinary events of one type.  So it runs only on the first ordinary event
of each type, and its outcome is counted for the others.

All rules run at a trigger before their problems are reported, so that one cause is one finding: problems that an
earlier finding has reported (`once_per`), or another rule at the same trigger (`unless`), are dropped.  A rule that is
switched off still runs if another one names it in `unless`.
"""

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from wiretape.event import Event, Shape
from wiretape.rules.catalogue import (
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
    Trigger,
    catalogue_of,
)
from wiretape.rules.exchange import EventStream
from wiretape.rules.finding import Finding, Location, Severity, Tally

FOREVER = 1 << 63
"""Later than every time."""
_MOST_PROBLEMS = 20
"""Problems of a rule with a `noun` that are reported at once."""
RunRules = Callable[[tuple[Any, ...], Event], object]
"""Runs rules with arguments."""
_PLAIN_FIELDS = frozenset({(b"data",), (b"event", b"data"), (b"data", b"event")})
_PLAIN = ""
"""Stands for the type of events with plain framing, if only the rules about their lines run on them."""


def is_plain(event: Event) -> bool:
    """Whether the framing of an event is unremarkable: ASCII, one data line, and at most one other, the name."""
    frame = event.frame
    return tuple([name for name, _ in frame.fields]) in _PLAIN_FIELDS and frame.raw.isascii()


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


class Entry(Struct, eq=False):
    """A function of a rule, and where its outcomes are counted."""

    rule: Rule
    check: Check[Any]
    function: Callable[..., Outcome]
    """That of the check, behind its conditions."""
    tally: Tally
    severity: Severity | None
    """The severity in the settings, if there is one."""
    is_off: bool
    """Whether it runs only because another rule names it in `unless`."""


class Engine:
    """Runs rules, counts their outcomes, and collects findings."""

    def __init__(self, rules: Iterable[Rule], off: Collection[str], severities: Mapping[str, Severity]) -> None:
        """`rules` are all that are counted; `off` are the codes of those that do not run.

        `severities` by code replace those of the rules.
        """
        self.catalogue = catalogue_of(rules)
        self.due_ns = FOREVER
        """The earliest time for which a rule waits."""
        self.tallies = {code: Tally() for code in self.catalogue}
        """The tally of each rule by its code."""
        self._off, self._severities = off, severities
        self._findings: list[Finding] = []
        self._waiting: list[tuple[int, int, Entry, Later, Location]] = []
        self._numbers = count()
        self._reported: WeakKeyDictionary[object, set[tuple[str, Hashable]]] = WeakKeyDictionary()

    def entries_of(self, rules: Iterable[Rule]) -> list[Entry]:
        """Return the functions of rules that run, in the order of the codes."""
        catalogue = catalogue_of(rules)
        off, severities = self._off, self._severities
        named = {code for rule in catalogue.values() if rule.code not in off for code in rule.all_superseding_codes}
        return [
            Entry(rule, check, _with_conditions(check), tally, severities.get(code), code in off)
            for code, rule in catalogue.items()
            if code not in off or code in named
            for tally in [Tally() if code in off else self.tallies[code]]
            for check in rule.checks
        ]

    def run(self, entries: Iterable[Entry], arguments: tuple[Any, ...], at: Location | Event) -> bool:
        """Run functions, and count and report their outcomes; return whether all rules held."""
        have_held = True
        others: list[tuple[Entry, Outcome]] = []
        for entry in entries:
            outcome = entry.function(*arguments)
            if outcome is HELD:
                entry.tally.held += 1
            elif outcome is None:
                have_held = False
            elif outcome:
                others.append((entry, outcome))
            else:
                entry.tally.held += 1
        if others:
            location = Location.of(at) if isinstance(at, Event) else at
            self._settle_all(others, arguments, location)
        return have_held and not others

    def _settle_all(
        self, outcomes: Sequence[tuple[Entry, Outcome]], arguments: tuple[Any, ...], location: Location
    ) -> None:
        """Settle the outcomes of a trigger, without the problems that are reported already."""
        broken = {
            name
            for entry, outcome in outcomes
            if _is_broken(outcome)
            for code in [entry.rule.code]
            for name in (code, *(f"{code} {each.subject}" for each in outcome))
        }
        for entry, outcome in outcomes:
            rule = entry.rule
            if entry.is_off:
                continue
            if _is_broken(outcome):
                new = [each for each in outcome if broken.isdisjoint(rule.superseding_codes(each.subject))]
                if rule.once_per is not None:
                    new = self._take_unreported(rule, entry.check.trigger, new, arguments)
                if new:
                    self._settle(entry, new if rule.noun is None else _limit(new, rule.noun), location)
            elif broken.isdisjoint(rule.superseding_codes()):
                self._settle(entry, outcome, location)

    def _take_unreported(
        self, rule: Rule, trigger: Trigger[Any], problems: list[Problem], arguments: tuple[Any, ...]
    ) -> list[Problem]:
        """Return the problems whose subjects the rule has not reported yet; it has after this call."""
        index = trigger.holder
        if index is None or rule.once_per is None:
            return problems
        holder = arguments[index].holder(rule.once_per)
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
        findings, self._findings = self._findings, []
        return findings

    def _settle(self, entry: Entry, outcome: Outcome, location: Location) -> None:
        """Count an outcome, and make findings of its problems."""
        if isinstance(outcome, Inconclusive):
            entry.tally.add_inconclusive(outcome.reason)
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
                    entry.rule.message_of(problem),
                )
                for problem in outcome
            ]


class _OrdinaryEvents(Struct, eq=False):
    """What is known about the ordinary events of one type."""

    run: list[Entry] = field(default_factory=list)
    """The functions that have to run on each of them."""
    held: list[Entry] = field(default_factory=list)
    """The functions whose rules hold for all of them."""
    count: int = 0
    """Events since the tallies were last updated."""
    repeated: int = 0
    """Those of them for which the functions in `run` hold without having run."""

    @property
    def is_steady(self) -> bool:
        """Whether all functions in `run` are steady."""
        return all(entry.check.steady for entry in self.run)


class RuleBook:
    """The rules of one contract, by trigger; an engine counts and reports what they find."""

    def __init__(self, engine: Engine, rules: Iterable[Rule]) -> None:
        self._engine = engine
        self._ordinary: dict[str, _OrdinaryEvents] = {}
        self._on: dict[str, list[Entry]] = {EVENT.name: []}
        for entry in engine.entries_of(rules):
            self._on.setdefault(entry.check.trigger.name, []).append(entry)
        self._on_event = self._on[EVENT.name]
        self._on_any_event = [entry for entry in self._on_event if entry.check.reads_lines]
        self._types = {name for entry in self._on_event for name in entry.check.types or ()}
        self._of_kind: dict[tuple[Shape, str | None], list[Entry]] = {}

    def update_tallies(self) -> None:
        """Add the rules that held without having run to their tallies."""
        for ordinary in self._ordinary.values():
            for entry in ordinary.held:
                entry.tally.held += ordinary.count
            for entry in ordinary.run:
                entry.tally.held += ordinary.repeated
            ordinary.count = ordinary.repeated = 0

    def run_common(self, event: Event, stream: EventStream) -> None:
        """Run the rules about its lines on an event."""
        entries = self._count_ordinary(_PLAIN, event, stream).run if is_plain(event) else self._on_any_event
        self._engine.run(entries, (event, stream), event)

    def _entries(self, event: Event) -> list[Entry]:
        """Return the functions that run on events like this one, unless it is ordinary."""
        shape, name = kind = event.shape, event.type if event.type in self._types else None
        if kind not in self._of_kind:
            self._of_kind[kind] = [
                entry
                for entry in self._on_event
                if shape in entry.check.shapes and (entry.check.types is None or name in entry.check.types)
            ]
        return self._of_kind[kind]

    def _count_ordinary(self, name: str, event: Event, stream: EventStream) -> _OrdinaryEvents:
        """Count an ordinary event, and return what is known about such events; fast-path rules run on the first."""
        ordinary = self._ordinary.get(name)
        if ordinary is None:
            ordinary = self._ordinary[name] = _OrdinaryEvents()
            for entry in self._on_any_event if name is _PLAIN else self._entries(event):
                outcome = entry.function(event, stream) if entry.check.fast_path else LOST_EVENTS
                if outcome:
                    ordinary.run.append(entry)
                elif outcome is not None:
                    ordinary.held.append(entry)
        ordinary.count += 1
        return ordinary

    def run(self, trigger: Trigger[Any], arguments: tuple[Any, ...], location: Location) -> None:
        """Run the rules of a trigger."""
        entries = self._on.get(trigger.name)
        if entries:
            self._engine.run(entries, arguments, location)

    def select(self, name: str, kinds: Collection[str]) -> RunRules:
        """Return what runs the rules that concern events of a type and of these kinds.

        Those that `run_common` runs are not among them.
        """
        own = [entry for entry in self._on_event if not entry.check.reads_lines]
        found = [entry for entry in own if entry.check.concerns is None or entry.check.concerns(name, kinds)]
        return partial(self._engine.run, found)
