"""The state of the client at each message of a stream, as the changes that each message makes."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from wiretape.event_facts import EventFacts
from wiretape.frame_reader import SeenFrame
from wiretape.json_codec import dump_json
from wiretape.recording import Exchange, Recording
from wiretape_inspect.page_export.event_window import EventWindow
from wiretape_inspect.view.client_state_at_event import JoinedText, cursor_after, history_before, with_names
from wiretape_inspect.view.runs_and_calls import Span, request_cursor

_SPAN_FIELDS = tuple(field.name for field in fields(Span))
_MOST_RUNS = 50
"""How many runs are added after a gap in the window: more than the page shows."""


def state_parts(recording: Recording, exchange: Exchange, window: EventWindow | None = None) -> Iterator[bytes]:
    """Yield `{exchange, connections, steps, texts}` of a stream in parts; without a window, of all events."""
    steps = _StateSteps(recording, exchange, window)
    connections = dump_json(steps.connections)
    yield f'{{"exchange":{exchange.number},"connections":{connections},"steps":['.encode()
    for number, step in enumerate(steps.read()):
        yield f"{',' if number else ''}{dump_json(step)}".encode()
    yield f'],"texts":{dump_json(steps.texts.joined())}}}'.encode()


class _StateSteps:
    """Reads a stream and collects what each message changes."""

    def __init__(self, recording: Recording, exchange: Exchange, window: EventWindow | None) -> None:
        self.texts = _Texts()
        self._recording = recording
        self._exchange = exchange
        self._window = window
        self._history, self.connections = history_before(recording, exchange)
        self._cursor = request_cursor(exchange)
        self._before: dict[str, Any] = {}
        self._spans: dict[str, dict[str, Span]] = {"runs": {}, "calls": {}}
        self._outside: dict[str, dict[str, None]] = {"runs": {}, "calls": {}}
        """The ids that changed outside the window since the last step, in order."""

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the state before the first message as step 0, then the number and the changes of each message."""
        work = self._history.activity
        for call in with_names(self._recording, (call for call in list(work.calls.values()) if call.is_open)):
            work.calls[call.id] = call
        yield 0, self._changes(list(work.runs), list(work.calls))
        for seen in self._recording.frames(self._exchange.number):
            if seen.event is None:
                continue
            if self._window is not None and seen.event > self._window.last:
                return
            if changes := self._read_message(seen):
                yield seen.event, changes

    def _read_message(self, seen: SeenFrame) -> dict[str, Any]:
        facts = self._history.add_event(self._exchange.number, seen)
        self._cursor = cursor_after(seen, self._cursor)
        self._name_call(facts)
        if self._window is not None and seen.event not in self._window:
            self._note_outside(facts)
            return {}
        runs, calls = self._changed_outside()
        return self._changes([*runs, facts.run_id], [*calls, facts.tool_call_id])

    def _note_outside(self, facts: EventFacts) -> None:
        for noted, id_ in ((self._outside["runs"], facts.run_id), (self._outside["calls"], facts.tool_call_id)):
            if id_ is not None:
                noted.pop(id_, None)
                noted[id_] = None
        self.texts.skip()

    def _changed_outside(self) -> tuple[list[str], list[str]]:
        """Return the last runs that changed outside the window, and the calls, except those that also ended there."""
        runs, known = list(self._outside["runs"])[-_MOST_RUNS:], self._history.activity.calls
        calls = [
            id_
            for id_ in self._outside["calls"]
            if id_ in self._spans["calls"] or (id_ in known and known[id_].is_open)
        ]
        self._outside = {"runs": {}, "calls": {}}
        return runs, calls

    def _name_call(self, facts: EventFacts) -> None:
        """Set the name of a tool call that begins with this message."""
        calls = self._history.activity.calls
        call = calls.get(facts.tool_call_id or "")
        if call is not None and call.began is not None and not call.name and call.id not in self._spans["calls"]:
            calls[call.id] = replace(call, name=facts.text)

    def _changes(self, runs: list[str | None], calls: list[str | None]) -> dict[str, Any]:
        """Return what has changed since the last step; only these runs and calls may have."""
        history = self._history
        now = {
            "session": history.activity.session,
            "cursor": self._cursor or None,
            "last_sequence": history.sequence,
            **{name: self.texts.locate(name, joined) for name, joined in history.texts.items()},
        }
        changes = {
            name: value for name, value in now.items() if name not in self._before or self._before[name] != value
        }
        self._before = now
        for name, ids, spans in (("runs", runs, history.activity.runs), ("calls", calls, history.activity.calls)):
            changed = [self._changed_fields(name, spans[id_]) for id_ in ids if id_ is not None and id_ in spans]
            if changed := [each for each in changed if each]:
                changes[name] = changed
        return changes

    def _changed_fields(self, name: str, span: Span) -> dict[str, Any]:
        """Return the fields of a run or tool call that have changed; empty if none has."""
        before = self._spans[name].get(span.id)
        self._spans[name][span.id] = span
        if before is None:
            return {field: getattr(span, field) for field in _SPAN_FIELDS}
        if before == span:
            return {}
        changed = {
            field: getattr(span, field) for field in _SPAN_FIELDS if getattr(span, field) != getattr(before, field)
        }
        return {"id": span.id, **changed}


class _Texts:
    """Texts that grow, each stored once."""

    def __init__(self) -> None:
        self._texts: list[list[str]] = []
        self._now: dict[str, tuple[JoinedText, list[Any] | None]] = {}

    def joined(self) -> list[str]:
        """Return all texts, once all messages are read."""
        return ["".join(pieces) for pieces in self._texts]

    def skip(self) -> None:
        """Start new texts: the next ones do not continue the last ones."""
        self._now.clear()

    def locate(self, name: str, joined: JoinedText) -> list[Any] | None:
        """Return `[index, units, characters, final]` of a text as it is now."""
        before, location = self._now.get(name, (JoinedText(), None))
        if joined != before:
            location = self._extended(before, location, joined)
            self._now[name] = (joined, location)
        return location

    def _extended(self, before: JoinedText, location: list[Any] | None, joined: JoinedText) -> list[Any] | None:
        if not joined.characters and not joined.final:
            return None
        added = joined.characters - before.characters
        if location is not None and joined.final and joined.text == before.text and not added:
            return [*location[:3], True]
        if location is None or joined.final or before.final:
            self._texts.append([joined.text])
            return [len(self._texts) - 1, _utf16_length(joined.text), joined.characters, joined.final]
        piece = joined.text[-added:]
        self._texts[location[0]].append(piece)
        return [location[0], location[1] + _utf16_length(piece), joined.characters, False]


def _utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
