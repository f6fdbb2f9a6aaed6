"""What a client knew at each message of a stream: what each changed, and every text once."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from wiretape.frame_reader import SeenFrame
from wiretape.recording import Exchange, Recording
from wiretape_inspect import jsonlines
from wiretape_inspect.embedding.near import Near
from wiretape_inspect.facts import Facts
from wiretape_inspect.view.state import Spoken, cursor_after, known_before, named
from wiretape_inspect.view.work import Span, asked_after

_SPAN = tuple(field.name for field in fields(Span))
_RUNS = 50
"""How many runs a page is told of at once, more than it shows."""


def parts(recording: Recording, exchange: Exchange, near: Near | None = None) -> Iterator[bytes]:
    """The document of a stream, in parts: `{exchange, connections, steps, texts}`; with `near` for some events only."""
    course = _Course(recording, exchange, near)
    connections = jsonlines.dump(course.connections)
    yield f'{{"exchange":{exchange.number},"connections":{connections},"steps":['.encode()
    for number, step in enumerate(course.steps()):
        yield f"{',' if number else ''}{jsonlines.dump(step)}".encode()
    yield f'],"texts":{jsonlines.dump(course.texts)}}}'.encode()


class _Course:
    """Goes through a stream, and notes what is not as it was."""

    def __init__(self, recording: Recording, exchange: Exchange, near: Near | None) -> None:
        self._recording = recording
        self._exchange = exchange
        self._near = near
        self._passed: dict[str, dict[str, None]] = {"runs": {}, "calls": {}}
        self._knowledge, self.connections = known_before(recording, exchange)
        self._cursor = asked_after(exchange)
        self._before: dict[str, Any] = {}
        self._spans: dict[str, dict[str, Span]] = {"runs": {}, "calls": {}}
        self._texts = _Texts()

    @property
    def texts(self) -> list[str]:
        """All texts, once the steps were taken."""
        return self._texts.whole()

    def steps(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """What is there before the first message, then what each changes."""
        work = self._knowledge.work
        for call in named(self._recording, (call for call in list(work.calls.values()) if call.open)):
            work.calls[call.id] = call
        yield 0, self._changes(list(work.runs), list(work.calls))
        for seen in self._recording.frames(self._exchange.number):
            if seen.event is None:
                continue
            if self._near is not None and seen.event > self._near.last:
                return
            if changes := self._take(seen):
                yield seen.event, changes

    def _take(self, seen: SeenFrame) -> dict[str, Any]:
        facts = self._knowledge.hear(self._exchange.number, seen)
        self._cursor = cursor_after(seen, self._cursor)
        self._name(facts)
        if self._near is not None and seen.event not in self._near:
            self._pass(facts)
            return {}
        runs, calls = self._since()
        return self._changes([*runs, facts.run_id], [*calls, facts.tool_call_id])

    def _pass(self, facts: Facts) -> None:
        """Note what changes where nobody looks."""
        for passed, id_ in ((self._passed["runs"], facts.run_id), (self._passed["calls"], facts.tool_call_id)):
            if id_ is not None:
                passed.pop(id_, None)
                passed[id_] = None
        self._texts.skip()

    def _since(self) -> tuple[list[str], list[str]]:
        """The runs, the last ones, and the tool calls that changed there: not those that began and ended there."""
        runs, told = list(self._passed["runs"])[-_RUNS:], self._spans["calls"]
        known = self._knowledge.work.calls
        calls = [id_ for id_ in self._passed["calls"] if id_ in told or (id_ in known and known[id_].open)]
        self._passed = {"runs": {}, "calls": {}}
        return runs, calls

    def _name(self, facts: Facts) -> None:
        """Let a tool call that begins with this message be called as it says."""
        calls = self._knowledge.work.calls
        call = calls.get(facts.tool_call_id or "")
        if call is not None and call.began is not None and not call.name and call.id not in self._spans["calls"]:
            calls[call.id] = Span(**{**{name: getattr(call, name) for name in _SPAN}, "name": facts.text})

    def _changes(self, runs: list[str | None], calls: list[str | None]) -> dict[str, Any]:
        """What is not as it was; of runs and calls only these are looked at."""
        knowledge = self._knowledge
        now = {
            "session": knowledge.work.session,
            "last_event_id": self._cursor or None,
            "last_sequence": knowledge.sequence,
            **{what: self._texts.place(what, spoken) for what, spoken in knowledge.spoken.items()},
        }
        changed = {
            name: value for name, value in now.items() if name not in self._before or self._before[name] != value
        }
        self._before = now
        for name, ids, spans in (("runs", runs, knowledge.work.runs), ("calls", calls, knowledge.work.calls)):
            found = [self._changed(name, spans[id_]) for id_ in ids if id_ is not None and id_ in spans]
            if found := [change for change in found if change]:
                changed[name] = found
        return changed

    def _changed(self, name: str, span: Span) -> dict[str, Any]:
        """What of a span is not as it was; nothing where all is."""
        before = self._spans[name].get(span.id)
        self._spans[name][span.id] = span
        if before is None:
            return {field: getattr(span, field) for field in _SPAN}
        if before == span:
            return {}
        new = {field: getattr(span, field) for field in _SPAN if getattr(span, field) != getattr(before, field)}
        return {"id": span.id, **new}


class _Texts:
    """Texts that grow, each kept once."""

    def __init__(self) -> None:
        self._texts: list[list[str]] = []
        self._now: dict[str, tuple[Spoken, list[Any] | None]] = {}

    def whole(self) -> list[str]:
        return ["".join(pieces) for pieces in self._texts]

    def skip(self) -> None:
        """What is placed next does not go on from what was placed last."""
        self._now.clear()

    def place(self, what: str, spoken: Spoken) -> list[Any] | None:
        """`[index, units, characters, final]` of a text as it is now."""
        before, at = self._now.get(what, (Spoken(), None))
        if spoken != before:
            at = self._moved(before, at, spoken)
            self._now[what] = (spoken, at)
        return at

    def _moved(self, before: Spoken, at: list[Any] | None, spoken: Spoken) -> list[Any] | None:
        if not spoken.characters and not spoken.final:
            return None
        added = spoken.characters - before.characters
        if at is not None and spoken.final and spoken.text == before.text and not added:
            return [*at[:3], True]
        if at is None or spoken.final or before.final:
            self._texts.append([spoken.text])
            return [len(self._texts) - 1, _units(spoken.text), spoken.characters, spoken.final]
        piece = spoken.text[-added:]
        self._texts[at[0]].append(piece)
        return [at[0], at[1] + _units(piece), spoken.characters, False]


def _units(text: str) -> int:
    """How long a text is in UTF-16, as JavaScript counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
