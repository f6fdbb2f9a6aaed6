"""Rules of AG-UI that no primitive expresses.  What they remember of a stream or a thread is bounded."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wiretape.bounded_dict import put_bounded
from wiretape.contract import HELD, Event, Inconclusive, Outcome, Problem
from wiretape.contract.contract_stream import ContractStream as Stream
from wiretape.event_format import shorten_value

_MOST = 10_000
"""Chunks, spans, messages or calls that are remembered for a stream."""
_UNKNOWN = Inconclusive("the recording does not show the whole stream, or it has very many messages or calls")
_KEYS = {"TEXT_MESSAGE": "messageId", "TOOL_CALL": "toolCallId", "REASONING_MESSAGE": "messageId"}
"""The identifier of each family of events that has chunks."""
_ENTITIES = {"TEXT_MESSAGE": "message", "TOOL_CALL": "tool_call", "REASONING_MESSAGE": "reasoning"}
_RUN_LEVEL = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"}
_STAND_ASIDE = ("RAW", "ACTIVITY_", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED")
"""The beginnings of the types that end no chunks."""


def _read(json: Mapping[str, Any], name: str | None) -> str | int | None:
    """Return an identifier, or a hash of something else; None if there is none."""
    value = json.get(name or "")
    return None if value is None else shorten_value(value)


def _mismatch(expected: str, got: str, subject: Hashable = None) -> Problem:
    return Problem(f"Expected {expected}, got {got}.", subject=subject)


@dataclass(slots=True)
class _Chunks:
    """The items that chunks are assembling: for each owner its family of events and its identifier."""

    lanes: dict[Any, tuple[str, Any]] = field(default_factory=dict)
    event: int = 0
    """The number of the event that was added last."""
    breach: tuple[str, str, str] | None = None
    """What this event breaks, what was expected and what it has."""
    has_owners: bool = False
    """Whether an event names a subagent, so that one without may continue what that has opened."""

    def add(self, event: Event, stream: Stream) -> None:
        """Follow an event."""
        self.event, self.breach = event.number, None
        json, (family, _, part) = event.document, event.type.rpartition("_")
        owner = _read(json, "subagentRunId")
        self.has_owners |= owner is not None
        if event.type in _RUN_LEVEL or len(self.lanes) > _MOST:
            self.lanes.clear()
        elif part == "CHUNK" and family in _KEYS:
            self._add_chunk(family, json, owner, stream)
        elif not event.type.startswith(_STAND_ASIDE):
            if part == "START" and self.lanes.get(owner) == (family, _read(json, _KEYS.get(family))):
                self.breach = "mixed", "chunks after the first chunk of an item", f"`{event.type}`"
            self.lanes.pop(owner, None)

    def _add_chunk(self, family: str, json: Mapping[str, Any], owner: Any, stream: Stream) -> None:
        key = _read(json, _KEYS[family])
        if key is None and owner is None and self.lanes.get(None, ("",))[0] != family:
            owner = next((lane for lane, (of, _) in self.lanes.items() if of == family), None)
        before = self.lanes.get(owner)
        if (key,) in stream.trackers[_ENTITIES[family]].open:
            self.breach = "mixed", f"no chunk of an item that `{family}_START` opened", "one"
        elif before is None or before[0] != family or key not in {None, before[1]}:
            required = (_KEYS[family], *(["toolCallName"] if family == "TOOL_CALL" else []))
            if missing := [f"`{name}`" for name in required if name not in json]:
                self.breach = "first", f"{' and '.join(missing)} in the first chunk", "none"
            self.lanes[owner] = family, key


def _breach_of(rule: str, event: Event, stream: Stream) -> Outcome:
    chunks = stream.memory.get(_Chunks, _Chunks)
    if chunks.event != event.number:
        chunks.add(event, stream)
    breach = chunks.breach
    if breach is None or breach[0] != rule:
        return HELD if event.type.endswith("_CHUNK") else None
    # Without an owner, a chunk may continue what an event without one has ended.
    is_sure = stream.is_complete and (not chunks.has_owners or "subagentRunId" in event.document)
    return [_mismatch(*breach[1:])] if is_sure else _UNKNOWN


def first_chunk(event: Event, stream: Stream) -> Outcome:
    """The first chunk of a message has no `messageId`, or the first chunk of a tool call lacks its id or name."""
    return _breach_of("first", event, stream)


def mixed_forms(event: Event, stream: Stream) -> Outcome:
    """A chunk continues an item that a START event opened, or a START event opens an item that chunks have begun."""
    return _breach_of("mixed", event, stream)


def span_order(event: Event, stream: Stream) -> Outcome:
    """A reasoning span starts twice, ends without having started, or is still open when the run finishes."""
    spans: dict[Any, None] = stream.memory.get(span_order, dict)
    if event.type in _RUN_LEVEL:
        left = list(spans) if event.type == "RUN_FINISHED" else []
        spans.clear()
        return [
            _mismatch(f"the span `{key}` to be closed before the run finishes", "it still open", key) for key in left
        ] or None
    if not stream.is_complete or len(spans) > _MOST:
        return _UNKNOWN
    key, is_start = _read(event.document, "messageId"), event.type == "REASONING_START"
    is_open = key in spans
    _ = spans.setdefault(key) if is_start else spans.pop(key, None)
    if is_start is not is_open:
        return HELD
    return [_mismatch(f"the span `{key}` to {'open once' if is_start else 'be open'}", f"`{event.type}`", key)]


def shared_id(event: Event, stream: Stream) -> Outcome:
    """Two messages have the same `messageId`.

    Messages are texts, reasoning, activities and the results of tool calls.
    """
    seen: dict[Any, str] = stream.memory.get(shared_id, dict)
    key, kind = _read(event.document, "messageId"), event.type.partition("_")[0]
    if key is None or (key not in seen and len(seen) > _MOST):
        return None
    is_new = key not in seen
    # A result is the only event of its message.
    if seen.setdefault(key, event.type if kind == "TOOL" else kind) == kind or is_new:
        return HELD
    return [_mismatch("a new `messageId`", f"`{key}`, which another message already has", key)]


def _calls(event: Event, stream: Stream) -> dict[Any, list[Any]]:
    """Return the name of each call of the run and whether it has a result, after an event."""
    calls: dict[Any, list[Any]] = stream.memory.get(_calls, dict)
    key, name = _read(event.document, "toolCallId"), _read(event.document, "toolCallName")
    if event.type == "RUN_STARTED":
        calls.clear()
    elif event.type == "TOOL_CALL_RESULT" and key in calls:
        calls[key][1] = True
    elif name is not None and len(calls) < _MOST:
        calls.setdefault(key, [name, False])
    return calls


def _values(value: Any, *keys: str) -> list[Any]:
    """Return what the objects in a list have under the last of the keys; the others lead to the list."""
    for key in keys[:-1]:
        value = value.get(key) if isinstance(value, Mapping) else None
    items = value if isinstance(value, list) else []
    return [_read(each, keys[-1]) for each in items if isinstance(each, Mapping)]


def pending_calls(event: Event, stream: Stream) -> Outcome:
    """The `pendingToolCallIds` of a run do not match its tool calls without a result."""
    calls, outcome = _calls(event, stream), event.document.get("outcome")
    named = outcome.get("pendingToolCallIds") if isinstance(outcome, Mapping) else None
    if event.type != "RUN_FINISHED" or not named or not isinstance(named, list):
        return None
    if not stream.is_complete or len(calls) >= _MOST:
        return _UNKNOWN
    left = [key for key, (_, is_answered) in calls.items() if not is_answered]
    return HELD if left == [*map(shorten_value, named)] else [_mismatch(f"the pending calls {left}", f"{named}")]


def frontend_result(event: Event, stream: Stream) -> Outcome:
    """The service sends the result of a tool call that the application has to execute."""
    name = _calls(event, stream).get(_read(event.document, "toolCallId"), [None])[0]
    if event.type != "TOOL_CALL_RESULT" or name is None:
        return None
    is_frontend = name in _values(stream.request_json, "tools", "name")
    return [_mismatch(f"no result for the frontend tool `{name}`", "`TOOL_CALL_RESULT`")] if is_frontend else HELD


def repeated_interrupt(event: Event, _stream: Stream) -> Outcome:
    """Two interrupts of a run have the same `id`."""
    ids = _values(event.document, "outcome", "interrupts", "id")
    repeated = [key for key, count in Counter(ids).items() if count > 1]
    return [_mismatch("a new `id` for each interrupt", f"`{key}` again", key) for key in repeated] if ids else None


def _thread(event: Event, stream: Stream) -> dict[str, Any]:
    """Return what is known about the thread of a request: its `runs`, and the `calls` and `interrupts` that are open.

    It is that of the client, because a replay answers with another thread and other runs.
    """
    request = stream.request_json if isinstance(stream.request_json, Mapping) else {}
    threads: dict[Any, dict[str, Any]] = stream.traffic.memory.get(_thread, dict)
    key = stream.request.authority, stream.request.target, _read(request, "threadId")
    thread = threads.get(key) or {"calls": [], "interrupts": [], "runs": {}}
    put_bounded(threads, key, thread, _MOST)
    calls, tools = _calls(event, stream), _values(request, "tools", "name")
    if event.type in {"RUN_FINISHED", "RUN_ERROR"}:
        is_known = event.type == "RUN_FINISHED" and stream.is_complete
        left = [key for key, (name, is_answered) in calls.items() if name in tools and not is_answered]
        thread["calls"] = left if is_known else []
        thread["interrupts"] = _values(event.document, "outcome", "interrupts", "id") if is_known else []
    begins = event.type == "RUN_STARTED" and stream.memory.get(_thread, lambda: event.number) == event.number
    return thread if begins and request.get("messages") else {}


def unanswered_call(event: Event, stream: Stream) -> Outcome:
    """A run starts although the client has not answered a frontend tool call of the previous run."""
    calls, answered = _thread(event, stream).get("calls", ()), _values(stream.request_json, "messages", "toolCallId")
    return [_mismatch(f"an answer to `{key}`", "none", key) for key in calls if key not in answered] if calls else None


def uncovered_interrupt(event: Event, stream: Stream) -> Outcome:
    """A run starts although the client has neither answered nor abandoned an interrupt of the previous run."""
    left, covered = _thread(event, stream).get("interrupts", ()), _values(stream.request_json, "resume", "interruptId")
    return [_mismatch(f"an answer to `{key}`", "none", key) for key in left if key not in covered] if left else None


def reused_run_id(event: Event, stream: Stream) -> Outcome:
    """A client requests two runs of a thread with the same `runId`."""
    runs = _thread(event, stream).get("runs")
    if runs is None or len(runs) > _MOST:
        return None
    key = _read(stream.request_json, "runId")
    before = runs.setdefault(key, stream.exchange)
    return HELD if before == stream.exchange else [_mismatch("a new `runId`", f"`{key}` as in exchange {before}", key)]
