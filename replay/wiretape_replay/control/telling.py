"""The state of a replay, as lines for people.  What comes from the recording is made printable."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wiretape.safe_text import shorten

Document = Mapping[str, Any]


def lines(state: Document) -> Iterator[str]:
    """All of it."""
    for session in state["sessions"]:
        yield from session_lines(session)
    asked = state["requests"]
    is_replay = asked["recorded"] is not None
    if not state["sessions"]:
        yield "no playhead: verbatim mode, or no recorded streams" if is_replay else "no playhead: no session so far"
    refused = f" and {asked['refused']} refused" if asked["refused"] else ""
    others = f", {_many(asked['recorded'], 'other request')}" if is_replay else ""
    yield f"served: {_many(asked['streams'], 'stream')}{refused}{others}"
    for miss in asked["misses"]:
        yield f"no match: {shorten(miss['method'])} {shorten(miss['path'])}: {shorten(miss['message'], 600)}"


def session_lines(session: Document) -> Iterator[str]:
    """One session."""
    where = f"{session['place']} of {session['length']}, {session['position_ms'] / 1000:.3f} s"
    yield f"{shorten(session['session'])}: {_STATUS.get(session['status'], session['status'])}, at {where}"
    if session["next"] is not None:
        yield f"  next: {entry(session['next'])}"
    for point in session["breakpoints"]:
        yield f"  breakpoint: {breakpoint_words(point)}" + ("  (here)" if point == session["stopped_by"] else "")
    for stream in session["streams"]:
        since = "from the beginning" if not stream["cursor"] else f"after {shorten(stream['cursor'])}"
        yield f"  stream: {since}, {'with' if stream['deltas'] else 'without'} deltas, at {stream['place']}"


def entry(told: Document) -> str:
    """An entry of the log: `tool.started, sequence 3, id e3, tool call t1, recorded at 2:3`."""
    what = told["type"] or ("ending " + told["ending"] if told["ending"] else told["kind"])
    words = [what] + [f"{word} {told[name]}" for name, word in _WORDS.items() if told[name] is not None]
    return shorten(", ".join([*words, *_findings(told["findings"])]), 400)


def breakpoint_words(point: Document) -> str:
    """`type tool.*, tool call t1`."""
    said = [f"{word} {point[name] or '(any)'}" for name, word in _POINT.items() if point[name] is not None]
    return shorten(", ".join(said), 400)


def _findings(codes: Sequence[str]) -> list[str]:
    return [f"findings {' '.join(codes)}"] if codes else []


def _many(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


_STATUS = {
    "waiting": "waits for its first stream",
    "moving": "moves",
    "paused": "paused",
    "breakpoint": "stopped at a breakpoint",
    "end": "at the end",
}
_WORDS = {"sequence": "sequence", "id": "id", "tool_call_id": "tool call", "source": "recorded at"}
_POINT = {"type": "type", "sequence": "sequence", "tool_call_id": "tool call", "finding": "finding"}
