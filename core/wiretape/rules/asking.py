"""The rules put to work: who is asked when, and what becomes of the answers."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from wiretape.contract import EVENT_TYPES
from wiretape.rules.catalogue import (
    CATALOGUE,
    EVERY_MESSAGE,
    HELD,
    MESSAGE,
    Later,
    Occasion,
    Outcome,
    Rule,
)
from wiretape.rules.doubts import UNSEEN, Inconclusive
from wiretape.rules.finding import Finding, Place, Severity, Tally
from wiretape.rules.message import Message, Shape
from wiretape.rules.plain import is_plain
from wiretape.rules.settings import Settings
from wiretape.rules.state import Stream

_NEVER = 1 << 63


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule at work."""

    rule: Rule
    check: Callable[..., Outcome]
    tally: Tally
    severity: Severity | None
    """The one that was set for this rule, if one was."""


@dataclass(slots=True)
class _Plain:
    """What is known about the plain messages of one type."""

    asked: list[_Entry]
    """The rules that have to look at each."""
    kept: list[_Entry]
    """The rules that all of them keep."""
    count: int = 0
    """How many there were since this was last added to the tallies."""


class Asking:
    """Asks the rules, counts what they say, and makes findings of it."""

    def __init__(self, settings: Settings) -> None:
        self._tallies = {code: Tally() for code in CATALOGUE}
        self.due_ns = _NEVER
        """When the first of the rules that wait has to be asked again."""
        self._found: list[Finding] = []
        self._waiting: list[tuple[int, int, _Entry, Later, Place]] = []
        self._numbers = count()
        asks = [
            (ask, _Entry(rule, ask.check, self._tallies[code], settings.severities.get(code)))
            for code, rule in CATALOGUE.items()
            if code not in settings.off
            for ask in rule.asks
        ]
        messages = [(ask, entry) for ask, entry in asks if ask.occasion is MESSAGE]
        self._of_type = [
            {
                name: [e for ask, e in messages if shape in ask.shapes and (ask.types is None or name in ask.types)]
                for name in EVENT_TYPES
            }
            for shape in Shape
        ]
        self._of_shape = [[e for ask, e in messages if shape in ask.shapes and ask.types is None] for shape in Shape]
        self._settled = {id(entry) for ask, entry in messages if ask.plain}
        self._plain: dict[str, _Plain] = {}
        self._of_all = [e for ask, e in messages if ask.shapes == EVERY_MESSAGE and ask.types is None]
        self._at: dict[str, list[_Entry]] = {}
        for ask, entry in asks:
            self._at.setdefault(ask.occasion.name, []).append(entry)

    @property
    def tallies(self) -> dict[str, Tally]:
        """For each rule of the catalogue how often it came up, and what came of it."""
        for plain in self._plain.values():
            for entry in plain.kept:
                entry.tally.held += plain.count
            plain.count = 0
        return self._tallies

    def message(self, message: Message, stream: Stream) -> None:
        """Ask about a message of a stream."""
        if not is_plain(message):
            self._ask_about(message, stream, self._entries(message))
            return
        name = message.type or ""
        plain = self._plain.get(name)
        if plain is None:
            plain = self._plain[name] = self._first_plain(message, stream)
        plain.count += 1
        self._ask_about(message, stream, plain.asked)

    def _entries(self, message: Message) -> list[_Entry]:
        shape = message.shape
        return self._of_type[shape].get(message.type or "", self._of_shape[shape])

    def _first_plain(self, message: Message, stream: Stream) -> _Plain:
        """Ask about the first plain message of a type what need not be asked about the others."""
        plain = _Plain([], [])
        for entry in self._entries(message):
            outcome = entry.check(message, stream) if id(entry) in self._settled else UNSEEN
            if outcome is HELD or outcome == []:
                plain.kept.append(entry)
            elif outcome is not None:
                plain.asked.append(entry)
        return plain

    def _ask_about(self, message: Message, stream: Stream, entries: list[_Entry]) -> None:
        for entry in entries:
            outcome = entry.check(message, stream)
            if outcome is HELD:
                entry.tally.held += 1
            elif outcome is not None:
                self._settle(entry, outcome, message.place(stream.exchange.number))

    def doubt(self) -> None:
        """Messages of a stream passed unseen, and with them what every message brings up."""
        for entry in self._of_all:
            entry.tally.doubt(UNSEEN.reason)

    def ask(self, occasion: Occasion[Any], given: tuple[Any, ...], place: Place) -> None:
        """Ask the rules of an occasion."""
        for entry in self._at.get(occasion.name, ()):
            outcome = entry.check(*given)
            if outcome is not None:
                self._settle(entry, outcome, place)

    def decide(self, now_ns: int, *, finished: bool = False) -> None:
        """Ask those rules again that waited for a time before `now_ns`, or all when the recording is finished."""
        while self._waiting and (finished or self.due_ns < now_ns):
            _, _, entry, later, place = heapq.heappop(self._waiting)
            self.due_ns = self._waiting[0][0] if self._waiting else _NEVER
            outcome = later.decide(now_ns)
            if outcome is not None:
                self._settle(entry, outcome, place)

    def take(self) -> list[Finding]:
        """The findings since the last time."""
        found = self._found
        if found:
            self._found = []
            return found
        return []

    def _settle(self, entry: _Entry, outcome: Outcome, place: Place) -> None:
        """Count what a rule said, and make findings of its problems."""
        if isinstance(outcome, Inconclusive):
            entry.tally.doubt(outcome.reason)
        elif isinstance(outcome, Later):
            heapq.heappush(self._waiting, (outcome.due_ns, next(self._numbers), entry, outcome, place))
            self.due_ns = self._waiting[0][0]
        elif not outcome:
            entry.tally.held += 1
        else:
            entry.tally.failed += 1
            entry.tally.findings += len(outcome)
            self._found += [
                Finding(
                    entry.rule.code,
                    entry.severity or problem.severity or entry.rule.severity,
                    entry.rule.side,
                    (at := problem.place or place).exchange,
                    at.event,
                    at.sequence,
                    at.byte_offset,
                    at.time_ns,
                    problem.message,
                )
                for problem in outcome
            ]
