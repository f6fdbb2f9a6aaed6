"""Rules of Open Responses that no primitive expresses: items and texts of a stream, and what clients continue."""

from dataclasses import dataclass, field
from typing import Any

from wiretape.bounded_dict import put_bounded
from wiretape.contract import HELD, Event, Inconclusive, Outcome, Problem, problem
from wiretape.contract.contract_stream import ContractStream as Stream
from wiretape.event_format import shorten_value
from wiretape.rules.finding import quote

_MOST = 10_000
"""Items and texts of a stream, and responses of a recording, that are remembered."""
_PARTIAL = Inconclusive("the recording does not show the stream from its beginning, without losses")
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_INDEXES = ("output_index", "content_index", "summary_index")
_CLOSED = {
    "response.content_part.done": ("output_index", "content_index"),
    "response.reasoning_summary_part.done": ("output_index", "summary_index"),
    _DONE: ("output_index",),
}
"""The indexes of the texts that an event closes."""


@dataclass(slots=True)
class _Items:
    """The items of a stream by their `output_index`, as one rule has seen them."""

    ids: dict[int, Any] = field(default_factory=dict)
    done: dict[int, Any] = field(default_factory=dict)
    """Their status when they were done."""
    has_all: bool = True
    """Whether every item had its index."""

    def add(self, event: Event) -> bool:
        """Add an item that begins or ends; return whether the event is about one."""
        index, item = event.document.get("output_index"), event.document.get("item")
        if event.type not in {_ADDED, _DONE}:
            return False
        self.has_all &= type(index) is int and type(item) is dict
        if type(index) is int and type(item) is dict:
            key, items = ("id", self.ids) if event.type == _ADDED else ("status", self.done)
            put_bounded(items, index, item.get(key), _MOST)
        return True


def other_item_id(event: Event, stream: Stream) -> Outcome:
    """The item id of an event differs from the id in the `response.output_item.added` with the same `output_index`."""
    items: _Items = stream.memory.get(other_item_id, _Items)
    index, item = event.document.get("output_index"), event.document.get("item")
    found = item.get("id") if type(item) is dict else event.document.get("item_id")
    added = items.ids.get(index) if type(index) is int else None
    if (items.add(event) and event.type == _ADDED) or type(found) is not str or type(added) is not str:
        return None
    problems = [Problem(f"Expected the id {quote(added)} of item {index}, got {quote(found)}.", subject=index)]
    return HELD if found == added else problems


def item_not_done(event: Event, stream: Stream) -> Outcome:
    """A response ends as completed or incomplete, although one of its items is still open."""
    items: _Items = stream.memory.get(item_not_done, _Items)
    if items.add(event):
        return None
    if not stream.is_complete:
        return _PARTIAL
    open_items = [index for index in items.ids if index not in items.done][:10]
    return [Problem(f"Expected {_DONE} of item {index} before {event.type}, got none.") for index in open_items]


def output_differs(event: Event, stream: Stream) -> Outcome:
    """The `output` of a finished response is not the list of its stream's items, ordered by `output_index`."""
    items: _Items = stream.memory.get(output_differs, _Items)
    response = event.document.get("response")
    output = response.get("output") if type(response) is dict else None
    if items.add(event) or type(output) is not list or not items.has_all:
        return None
    if not stream.is_complete:
        return _PARTIAL
    streamed = [identity for _, identity in sorted(items.ids.items())]
    final = [item.get("id") if type(item) is dict else None for item in output]
    if streamed == final:
        return HELD
    expected, got = (", ".join(quote(str(each)) for each in ids[:5]) or "no item" for ids in (streamed, final))
    return problem(f"Expected {expected} in the output, as on the stream, got {got}.")


def after_incomplete_item(event: Event, stream: Stream) -> Outcome:
    """After an item ended as incomplete, another item follows, or the response does not end as incomplete."""
    items: _Items = stream.memory.get(after_incomplete_item, _Items)
    index = next((index for index, status in items.done.items() if status == "incomplete"), None)
    items.add(event)
    if index is None or event.type == _DONE:
        return None
    if event.type in {"response.incomplete", "response.failed"}:
        return HELD
    return problem(f"Expected response.incomplete after item {index}, which is incomplete, got {event.type}.")


def error_without_failure(event: Event, stream: Stream) -> Outcome:
    """A response that reported an error does not end with `response.failed`."""
    if event.type == "error":
        stream.memory[error_without_failure] = True
    elif stream.memory.get(error_without_failure):
        is_failed = event.type == "response.failed"
        return HELD if is_failed else problem(f"Expected response.failed after the error, got {event.type}.")
    return None


def text_not_done(event: Event, stream: Stream) -> Outcome:
    """The deltas of a text are not followed by exactly one `.done` event before the part or the item is closed."""
    texts: dict[tuple[Any, ...], bool] = stream.memory.get(text_not_done, dict)
    at = {name: shorten_value(event.document.get(name)) for name in _INDEXES}
    if (names := _CLOSED.get(event.type)) is not None:
        closed = [key for key in texts if all(dict(key[1:])[name] == at[name] for name in names)]
        is_done = {key: texts.pop(key) for key in closed}
        if not stream.is_complete:
            return _PARTIAL
        lacking = [key for key in closed if not is_done[key]]
        return [Problem(f"Expected {key[0]}.done before {event.type}, got none.", subject=key) for key in lacking]
    kind, _, step = event.type.rpartition(".")
    key = (kind, *at.items())
    if texts.get(key):
        return [Problem(f"Expected no {event.type} after {kind}.done, got one.", subject=key)]
    put_bounded(texts, key, step == "done", _MOST)
    return None


def continues_unfinished(event: Event, stream: Stream) -> Outcome:
    """A client answers a function call that is incomplete, or continues from a failed response."""
    failed: dict[Any, None] = stream.traffic.memory.get("failed", dict)
    response, item = event.document.get("response"), event.document.get("item")
    if event.type == "response.failed" and type(response) is dict:
        put_bounded(failed, shorten_value(response.get("id")), None, _MOST)
    if event.type == _DONE and type(item) is dict and item.get("status") == "incomplete":
        put_bounded(failed, shorten_value(item.get("call_id")), None, _MOST)
    if event.type != "response.created" or type(stream.request_json) is not dict:
        return None
    before, given = stream.request_json.get("previous_response_id"), stream.request_json.get("input")
    answers = [each for each in given if type(each) is dict] if type(given) is list else []
    named = [each.get("call_id") for each in answers if each.get("type") == "function_call_output"]
    used = [each for each in [before, *named] if type(each) is str]
    wrong = [
        f"Expected no use of {quote(each)}, which failed or is incomplete, got one." for each in used if each in failed
    ]
    return problem(wrong[0]) if wrong else HELD if used else None
