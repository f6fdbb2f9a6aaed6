"""Strategies that draw arbitrary recordings, with which the file and every format are tested."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from hypothesis import strategies as st

from wiretape.checker import Checker
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RELEASE_NS = 3
"""Time that the writer needs before an end and before a loss, for bytes that it held back (see `Writer.feed`)."""
KEYS = st.sampled_from([("Authorization", "Bearer \xff\xfe-secret-key"), ("Cookie", "a=b"), ("x-api-key", "k")])
PLAIN = st.tuples(st.text("abc-", min_size=1), st.text(st.characters(max_codepoint=255), max_size=20))
TARGETS = (
    *("/v1/sessions/s1/events/stream?event_deltas=true", "/a%20b#é", "*", "", "/a b?q=\xe9&key=abc#f", '/"<\\'),
    *("//b/[c];d?[e]&&=", "/v1/runs"),
)
WHOLE = (
    *(b"id: 1\nevent: x\ndata: {}\n\n", b"data:{}\n\n", b"data: {}\ndata: {}\n\n", b"data: yes\n\n", b"id\ndata\n\n"),
    *(b"  \n\ndata: 1\n\n", b"event: \xf0\x9f\x98\x80\ndata: null\n\n", b"data: long " + b"x" * 3000 + b"\n\n"),
    *(b"id: a\0b\ndata: {}\n\n", b"data: {}\r\n\n", b'data: {"a":"\xef\xbf\xbf\xc2\x85\xe2\x80\xae\x7f"}\n\n'),
    *(
        b"data: \xef\xbf\xbe\n\n",
        b"id: 1\ndata: \xff\n\n",
        b"event: \xc2\x85 \x1e\ndata: 1\r\r",
        b"data: \xc3\x83\xc2\xa9\n\n",
    ),
)
ODD = (
    *(b"", b"\n", b"\r", b": ping\n\n", b": ping\r\n\r\n", b":\n", b"\xff\xfe", b"\xef\xbb\xbf", b"data: cut \xe2\x82"),
    *(b"\xac\n\n", b"retry: 5\n\n", b"- after: 3\n\n", b"---\n", b"# no comment\n\n"),
)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """Draw an event in the form of the specification, or in another valid form."""
    document = draw(st.dictionaries(st.sampled_from(["id", "type", "sequence", "delta", "x y", "é"]), JSON, max_size=4))
    ascii_only, separators = draw(st.booleans()), draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    data = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
    names = draw(st.permutations(["event", "id", "data"]))
    values = {"event": document.get("type"), "id": document.get("id"), "data": data}
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [f"{name}: {values[name]}{end}" for name in names if isinstance(values[name], str)]
    return ("".join(lines) + end).encode("utf-8", "replace")


JSON_BODIES = st.builds(
    lambda value, spaced, end: json.dumps(value, indent=2 if spaced else None).encode() + end,
    st.dictionaries(TEXT, JSON, max_size=3),
    st.booleans(),
    st.sampled_from([b"", b"\n"]),
)
PIECES = st.sampled_from(WHOLE) | events() | st.sampled_from(ODD) | st.binary(max_size=5)
STREAM = st.lists(PIECES, min_size=1, max_size=5).map(b"".join)
BYTES = st.lists(PIECES | JSON_BODIES, min_size=1, max_size=3).map(b"".join)
STEPS = ("begin", *["chunk"] * 5, "respond", "end request", "end", "lost")
SIDES = (Side.RESPONSE, Side.RESPONSE, Side.RESPONSE, Side.REQUEST)
FIRST_STEPS = (("end request", "respond"), ("respond",), ())


@st.composite
def conversations(draw: st.DrawFn, *, has_secrets: bool = True) -> list[Observation]:
    """Draw concurrent exchanges with their steps in almost any order, some without a response or an end.

    They take less than a year.
    """
    headers = st.lists(PLAIN | KEYS if has_secrets else PLAIN, max_size=3).map(tuple)
    targets = [target for target in TARGETS if has_secrets or "key=" not in target]
    now = number = 0
    open_now: dict[int, _Exchange] = {}
    seen: list[Observation | None] = []
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=25)):
        now += draw(st.sampled_from([1, 1_000_000, 20_345_678, 10**15 + 1]))
        now += RELEASE_NS if step in {"end", "lost"} else 0
        if step == "begin" or not open_now:
            number += 1
            begun = open_now[number] = _Exchange(draw, number, headers)
            seen.append(_request(draw, number, now, draw(st.sampled_from(targets)), draw(headers)))
            firsts = draw(st.sampled_from(FIRST_STEPS))
            seen += [begun.step(first, now + after) for after, first in enumerate(firsts, 1)]
            now += len(firsts)
            continue
        chosen = draw(st.sampled_from(sorted(open_now)))
        seen.append(open_now[chosen].step(step, now))
        if step == "end":
            del open_now[chosen]
    return [each for each in seen if each is not None]


def _request(draw: st.DrawFn, number: int, now: int, target: str, headers: Headers) -> RequestStarted:
    client, method = draw(st.sampled_from(["127.0.0.1", "::1"])), draw(st.sampled_from(["GET", "POST", "ODD"]))
    authority, version = draw(st.sampled_from(["service:80", "other"])), draw(st.sampled_from(["HTTP/1.1", "HTTP/2.0"]))
    scheme = draw(st.sampled_from(["http", "https"]))
    return RequestStarted(number, now, client, method, scheme, authority, target, version, headers)


class _Exchange:
    """The state of an exchange."""

    def __init__(self, draw: st.DrawFn, number: int, headers: st.SearchStrategy[Headers]) -> None:
        self._draw, self._number, self._headers = draw, number, headers
        self._ends = dict.fromkeys(Side, 0)
        self._done: set[str] = set()
        self._encode: Callable[[bytes], bytes] = bytes
        self._stream = False

    def step(self, step: str, now: int) -> Observation | None:
        if step in {"respond", "end request"}:
            if step in self._done:
                return None
            self._done.add(step)
            return RequestEnded(self._number, now) if step == "end request" else self._respond(now)
        if step == "end":
            return ExchangeEnded(self._number, now, self._draw(st.sampled_from(Ending)), self._draw(TEXT))
        side = self._draw(st.sampled_from(SIDES)) if "respond" in self._done else Side.REQUEST
        streams = side is Side.RESPONSE and self._stream
        data, start = self._draw(STREAM if streams else BYTES), self._ends[side]
        if side is Side.RESPONSE:
            data = self._encode(data)
        self._ends[side] = end = start + max(len(data), step == "lost")
        if step == "lost":
            return BytesLost(self._number, now, side, start, end - start, self._draw(TEXT))
        # Times may be a nanosecond apart, which leaves no room for a second chunk.
        return BytesArrived(self._number, side, start, data, (end,), (now,))

    def _respond(self, now: int) -> ResponseStarted:
        status, reason = self._draw(st.sampled_from([(200, "OK"), (200, ""), (404, "Not: Found"), (999, "#\xe9")]))
        stream = "text/event-stream"
        kind = self._draw(st.sampled_from([stream, stream, f"{stream}; charset=utf-8", "application/json", None]))
        self._stream = kind is not None and kind.startswith(stream)
        headers = self._draw(self._headers) if kind is None else (("Content-Type", kind), *self._draw(self._headers))
        return ResponseStarted(self._number, now, status, reason, "HTTP/1.1", (*headers, *self._encoding()))

    def _encoding(self) -> Headers:
        """Draw an encoding: usually none; otherwise some bodies match their header and some do not."""
        name, until = self._draw(st.sampled_from([*[("", 0)] * 4, ("gzip", 99), ("gzip", 1), ("gzip", 0), ("odd", 0)]))
        compressor, chunks = zlib.compressobj(wbits=zlib.MAX_WBITS | 16), count(1)

        def encode(data: bytes) -> bytes:
            encoded = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
            return encoded if next(chunks) <= until else data

        self._encode = encode
        return (("Content-Encoding", name), ("content-length", "7")) if name else ()


def split_runs(observations: Iterable[Observation]) -> Iterator[Observation]:
    """Yield the observations with one chunk per run, because the grouping of chunks has no meaning."""
    for seen in observations:
        if not isinstance(seen, BytesArrived):
            yield seen
            continue
        start = seen.start
        for time_ns, data in seen.chunks():
            end = start + len(data)
            yield BytesArrived(seen.exchange, seen.side, start, data, (end,), (time_ns,))
            start = end


def record(path: Path, seen: list[Observation]) -> None:
    """Record observations, with the findings of the rules."""
    writer = Writer.create(path, upstream="http://service:80", started_unix_ns=1_795_262_251_999_999_999)
    writer.feed(seen)
    checker = Checker()
    found = [finding for each in seen for finding in checker.feed(each)]
    writer.add_findings(found)
    writer.close(seen[-1].time_ns + 5)
