"""A recording written in another form and read back is the same recording."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.observe import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Recording, Writer, open_recording
from wiretape.recording.formats import named
from wiretape.rules import Checker

FORMATS = ("jsonl", "tape")

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
HEADERS = st.lists(
    st.tuples(st.text("abc-", min_size=1), st.text(st.characters(max_codepoint=255), max_size=20)), max_size=3
).map(tuple)
ODD = (
    *(b"", b"\n", b"\r", b": ping\n\n", b": ping\r\n\r\n", b":\n", b"\xff\xfe", b"\xef\xbb\xbf", b"data: cut \xe2\x82"),
    *(b"\xac\n\n", b"retry: 5\n\n", b"id: 1\nevent: x\ndata: {}\n\n", b"data:{}\n\n", b"data: {}\ndata: {}\n\n"),
    *(b"data: yes\n\n", b"  \n\ndata: 1\n\n", b"- after: 3\n\n", b"---\n", b"event: \xf0\x9f\x98\x80\ndata: null\n\n"),
    *(b"data: long " + b"x" * 3000 + b"\n\n", b"id: a\0b\ndata: {}\n\n", b"data: {}\r\n\n", b"# no comment\n\n"),
    *(b'data: {"a":"\xef\xbf\xbf\xc2\x85\xe2\x80\xae\x7f"}\n\n', b"data: \xef\xbf\xbe\n\n"),
)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """An event as the service writes one, or as services write them that do it in another way."""
    said = draw(st.dictionaries(st.sampled_from(["id", "type", "sequence", "delta", "x y", "é"]), JSON, max_size=4))
    ascii_only, separators = draw(st.booleans()), draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    data = json.dumps(said, ensure_ascii=ascii_only, separators=separators)
    names = draw(st.permutations(["event", "id", "data"]))
    values = {"event": said.get("type"), "id": said.get("id"), "data": data}
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [f"{name}: {values[name]}{end}" for name in names if isinstance(values[name], str)]
    return ("".join(lines) + end).encode("utf-8", "replace")


JSON_BODIES = st.builds(
    lambda value, spaced, end: json.dumps(value, indent=2 if spaced else None).encode() + end,
    st.dictionaries(TEXT, JSON, max_size=3),
    st.booleans(),
    st.sampled_from([b"", b"\n"]),
)
BYTES = st.lists(events() | JSON_BODIES | st.sampled_from(ODD) | st.binary(max_size=5), min_size=1, max_size=4).map(
    b"".join
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Observation]:
    """Several exchanges at once, any step of any of them at any time, some without an answer or an end."""
    now = 0
    open_now: dict[int, Callable[[str, int], Observation | None]] = {}
    seen: list[Observation] = []
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=30)):
        now += draw(st.sampled_from([1, 1_000_000, 20_345_678, 10**16 + 1]))
        if step == "begin" or not open_now:
            number = len({each.exchange for each in seen}) + 1
            seen.append(_request(draw, number, now))
            open_now[number] = _Exchange(draw, number).step
            continue
        number = draw(st.sampled_from(sorted(open_now)))
        happened = open_now[number](step, now)
        seen += [happened] if happened is not None else []
        if isinstance(happened, ExchangeEnded):
            del open_now[number]
    return seen


STEPS = ["begin", *["chunk"] * 6, "answer", "answer", "asked", "end", "lost"]


def _request(draw: st.DrawFn, number: int, now: int) -> RequestStarted:
    target = draw(st.sampled_from(["/v1/sessions/s1/events/stream?event_deltas=true", "/a%20b#é", "*", ""]))
    client, method = draw(st.sampled_from(["127.0.0.1", "::1"])), draw(st.sampled_from(["GET", "POST", "ODD"]))
    authority, version = draw(st.sampled_from(["service:80", "other"])), draw(st.sampled_from(["HTTP/1.1", "HTTP/2.0"]))
    scheme, headers = draw(st.sampled_from(["http", "https"])), draw(HEADERS)
    return RequestStarted(number, now, client, method, scheme, authority, target, version, headers)


class _Exchange:
    """What an exchange has come to."""

    def __init__(self, draw: st.DrawFn, number: int) -> None:
        self._draw, self._number = draw, number
        self._ends = dict.fromkeys(Side, 0)
        self._done: set[str] = set()

    def step(self, step: str, now: int) -> Observation | None:
        if step in {"answer", "asked"}:
            if step in self._done:
                return None
            self._done.add(step)
            return RequestEnded(self._number, now) if step == "asked" else self._answer(now)
        if step == "end":
            return ExchangeEnded(self._number, now, self._draw(st.sampled_from(Ending)), self._draw(TEXT))
        side = self._draw(st.sampled_from(Side)) if "answer" in self._done else Side.REQUEST
        start = self._ends[side]
        if step == "lost":
            self._ends[side] += 7
            return BytesLost(self._number, now, side, start, 7, self._draw(TEXT))
        return self._chunks(side, start, now)

    def _answer(self, now: int) -> ResponseStarted:
        status, reason = self._draw(st.sampled_from([(200, "OK"), (200, ""), (404, "Not: Found"), (999, "#")]))
        kind = self._draw(st.sampled_from(["text/event-stream", "application/json"]))
        headers = (("Content-Type", kind), *self._draw(HEADERS))
        if self._draw(st.integers(0, 9)) == 0:
            headers += (("Content-Encoding", "gzip"),)
        return ResponseStarted(self._number, now, status, reason, "HTTP/1.1", headers)

    def _chunks(self, side: Side, start: int, now: int) -> BytesArrived:
        data = self._draw(BYTES)
        self._ends[side] = start + len(data)
        # As long as time goes on by a nanosecond only, there is no room for a second chunk.
        return BytesArrived(self._number, side, start, data, (start + len(data),), (now,))


def _recorded(path: Path, seen: list[Observation]) -> None:
    writer = Writer.create(path, upstream="http://service:80", started_unix_ns=1_795_262_251_999_999_999)
    writer.feed(seen)
    checker = Checker()
    found = [finding for each in seen for finding in checker.feed(each)]
    writer.add_findings(found)
    writer.close(seen[-1].time_ns + 5)


def single(recording: Recording) -> Iterator[Observation]:
    """The observations, each chunk on its own: how runs are cut means nothing."""
    for seen in recording.observations():
        if not isinstance(seen, BytesArrived):
            yield seen
            continue
        start = seen.start
        for time_ns, data in seen.chunks():
            end = start + len(data)
            yield BytesArrived(seen.exchange, seen.side, start, data, (end,), (time_ns,))
            start = end


def _written(recording: Recording, kind: str, to: Path) -> Path:
    to.write_bytes(b"".join(named(kind).writer().write(recording, None)))
    return to


@pytest.mark.parametrize("kind", FORMATS)
@given(conversations())
@settings(max_examples=30)
def test_what_was_observed_comes_back(kind: str, seen: list[Observation]) -> None:
    """Bytes, boundaries, times, heads, losses and endings, whatever stands in them and however they interleave."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        _recorded(path, seen)
        with (
            open_recording(path) as recording,
            open_recording(_written(recording, kind, Path(folder, "again"))) as again,
        ):
            assert list(single(again)) == list(single(recording))
            assert again.info.upstream == recording.info.upstream
            assert again.info.started_unix_ns == recording.info.started_unix_ns
            assert again.info.ended_ns == recording.info.ended_ns
            if kind == "jsonl":
                assert list(again.findings()) == list(recording.findings())
                assert again.captures() == recording.captures()
            # Written once more, it is the same file.
            first, second = (b"".join(named(kind).writer().write(each, None)) for each in (recording, again))
            assert first == second
