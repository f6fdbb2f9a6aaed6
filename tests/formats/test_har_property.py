"""What a HAR loses of a recording is what its page says, and nothing else."""

import gzip
import re
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.encoding import DecodingError, decoder
from wiretape.observe import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Recording, Writer, open_recording
from wiretape.recording.formats import named, store
from wiretape.sse import FrameKind, Parser
from wiretape_inspect import archive

PAGE = Path(__file__).parents[2] / "docs" / "har.md"
US = 1000
STREAM = ("content-type", "text/event-stream")
Step = tuple[int, Callable[[int, int], Observation]]
"""How many nanoseconds later what is seen."""
Told = dict[str, Any]
"""An exchange, as far as anybody tells of it."""

PIECES = st.sampled_from(
    [
        *(b"id: 1\nevent: x\ndata: {}\n\n", b"data: a\ndata: b\n\n", b": ping\n\n", b":\n", b"retry: 5\n\n", b"\r\n"),
        *(
            b"data: \xc3\xa9\xe2\x82\xac\r\n\r\n",
            b"id\ndata\n\n",
            b"event: message\ndata: \xff\n\n",
            b"data: \x1b[2J\n\n",
        ),
        *(
            b"event: \xf0\x9f\x98\x80\rdata: null\r\r",
            b"\xef\xbb\xbf",
            b"data: cut",
            b"id: a\0b\ndata: \xc3\x83\xc2\xa9\n\n",
        ),
    ]
)
HEADERS = st.lists(
    st.sampled_from([("Accept", "*/*"), ("x-a", "\xe9 b"), ("Authorization", "Bearer abcdefghij"), ("Cookie", "a=b")]),
    max_size=3,
)
TARGETS = st.sampled_from(["/v1/runs", "/a%20b?x=1&y", "/a b?q=\xe9#f", "*", '/"<\\'])


@st.composite
def exchanges(draw: st.DrawFn) -> list[Step]:
    """An exchange: after how many nanoseconds comes what."""
    headers = tuple(draw(HEADERS))
    target, version = draw(TARGETS), draw(st.sampled_from(["HTTP/1.1", "HTTP/2.0"]))
    # In the order of their numbers, as a proxy gives them.
    steps: list[Step] = [
        (5, lambda n, t: RequestStarted(n, t, "10.0.0.1", "POST", "http", "a:80", target, version, headers))
    ]
    asked = draw(st.sampled_from([b"", b'{"a": 1}', b"\xff{}", b"\xc3\xa9"]))
    steps += _chunks(draw, Side.REQUEST, asked)
    steps += [_step(draw, RequestEnded)] if draw(st.booleans()) else []
    if draw(st.integers(0, 5)):
        steps += _answer(draw)
    how, said = draw(st.sampled_from(Ending)), draw(st.sampled_from(["", "said \u2028 so"]))
    return [*steps, _step(draw, lambda n, t: ExchangeEnded(n, t, how, said))]


def _answer(draw: st.DrawFn) -> list[Step]:
    body = b"".join(draw(st.lists(PIECES, max_size=6)))
    kind = draw(st.sampled_from([STREAM, STREAM, STREAM, ("Content-Type", "application/json"), ("x", "")]))
    headers = (kind, *draw(HEADERS))
    how = draw(st.sampled_from(["", "", "", "gzip", "broken"]))
    if how:
        headers += (("Content-Encoding", "gzip"), ("content-length", "7"))
        body = gzip.compress(body, mtime=0) if how == "gzip" else b"no gzip"
    status, reason = draw(st.sampled_from([(200, "OK"), (404, ""), (204, "n\xe9")]))
    head = _step(draw, lambda n, t: ResponseStarted(n, t, status, reason, "HTTP/1.1", headers))
    return [head, *_chunks(draw, Side.RESPONSE, body)]


def _chunks(draw: st.DrawFn, side: Side, body: bytes) -> list[Step]:
    cuts = sorted({0, len(body), *draw(st.lists(st.integers(0, len(body)), max_size=4))})
    return [_step(draw, _arriving(side, start, body[start:end])) for start, end in pairwise(cuts)]


def _arriving(side: Side, start: int, data: bytes) -> Callable[[int, int], Observation]:
    return lambda n, t: BytesArrived(n, side, start, data, (start + len(data),), (t,))


def _step(draw: st.DrawFn, make: Callable[[int, int], Observation]) -> Step:
    return draw(st.sampled_from([5, 1_500_007, 20_000_000_123])), make


def _recorded(path: Path, each: list[list[Step]]) -> None:
    """Exchanges that run at once, of which those begin later that stand later; their numbers are not the first ones."""
    seen: list[tuple[int, int, int]] = []
    for index, steps in enumerate(each):
        now = index * 1_000_000
        for step, (after, _) in enumerate(steps):
            now += after
            seen.append((now, index, step))
    writer = Writer.create(path, upstream="http://a:80", started_unix_ns=1_795_262_251_298_450_538)
    last = 0
    for now, index, step in sorted(seen):
        last = max(now, last + 10)
        writer.feed([each[index][step][1](2 * index + 3, last)])
    writer.close(last + 5)


def told(recording: Recording) -> list[Told]:
    """Everything, with times on the clock on the wall."""
    return [_told(recording, exchange.number) for exchange in recording.exchanges()]


def _told(recording: Recording, number: int) -> Told:
    exchange, start = recording.exchange(number), recording.info.started_unix_ns
    request, response = exchange.request, exchange.response
    bodies = {
        side: [
            (start + time_ns, data)
            for run in recording.body(number, side)
            if isinstance(run, BytesArrived)
            for time_ns, data in run.chunks()
        ]
        for side in Side
    }
    events = [seen for seen in recording.frames(number) if exchange.is_stream and seen.frame.dispatched]
    return {
        "number": number,
        "client": request.client,
        "request": (request.method, request.scheme, request.authority, request.http_version),
        "target": request.target,
        "request headers": request.headers,
        "sent": bodies[Side.REQUEST],
        "asked": exchange.request_ended_ns is not None,
        "asked ns": exchange.request_ended_ns and start + exchange.request_ended_ns,
        "response": response and (response.status, response.reason, response.http_version),
        "response headers": response.headers if response else (),
        "stream": exchange.is_stream,
        "came": bodies[Side.RESPONSE],
        "events": [(seen.frame.event, seen.frame.id, seen.frame.data) for seen in events],
        "event times": [start + seen.time_ns for seen in events],
        "ending": (exchange.ending, exchange.detail),
        "began ns": start + request.time_ns,
        "answered ns": response and start + response.time_ns,
        "ended ns": exchange.ended_ns and start + exchange.ended_ns,
    }


def _numbers(all_: list[Told]) -> None:
    for index, each in enumerate(all_, 1):
        each["number"] = index


def _clients(all_: list[Told]) -> None:
    for each in all_:
        each["client"] = ""


def _spelling(all_: list[Told]) -> None:
    for each in all_:
        target = each["target"]
        target = target if target.startswith("/") else f"/{target}"
        each["target"] = quote(target, safe="%/?=&*", encoding="latin-1")


def _keys(all_: list[Told]) -> None:
    for each in all_:
        for where in ("request headers", "response headers"):
            each[where] = tuple(pair for pair in each[where] if pair[0] not in {"Authorization", "Cookie"})


def _request_bytes(all_: list[Told]) -> None:
    for each in all_:
        each["sent"] = [(at, data.decode("utf-8", "replace").encode()) for at, data in _joined(each["sent"])]


def _undecodable(all_: list[Told]) -> None:
    for each in all_:
        if _body(each) is None:
            each["came"] = []


def _compression(all_: list[Told]) -> None:
    for each in all_:
        body, headers = _body(each), each["response headers"]
        if body == b"":
            each["came"] = []
        elif body and any(name == "Content-Encoding" for name, _ in headers):
            each["came"] = [(0, body)]
            coding = {"content-encoding", "content-length"}
            each["response headers"] = tuple(pair for pair in headers if pair[0].lower() not in coding)


def _body(each: Told) -> bytes | None:
    """A decoded body; None where it cannot be."""
    data = b"".join(data for _, data in each["came"])
    try:
        return decoder(dict(each["response headers"]).get("Content-Encoding")).feed(data)
    except DecodingError:
        return None


def _chunk_ends(all_: list[Told]) -> None:
    for each in all_:
        each["sent"] = _joined(each["sent"])
        each["came"] = _units(_joined(each["came"])) if each["stream"] else _joined(each["came"])


def _joined(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    data = b"".join(data for _, data in chunks)
    return [(0, data)] if data else []


def _units(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """A chunk for each frame, with the blank lines behind it, but for those behind an event."""
    parser = Parser()
    units: list[bytes] = []
    apart = True
    for frame in (frame for _, data in chunks for frame in [*parser.feed(data), *parser.close()]):
        if not apart and frame.kind in {FrameKind.BLANK, FrameKind.BOM}:
            units[-1] += frame.raw
        else:
            units.append(frame.raw)
        apart = frame.dispatched
    return [(0, unit) for unit in units]


def _other_times(all_: list[Told]) -> None:
    for each in all_:
        for where in ("sent", "came"):
            each[where] = [data for _, data in each[where]]


def _request_ends(all_: list[Told]) -> None:
    for each in all_:
        each["asked"] = True
        asked = each["asked ns"] or each["began ns"]
        each["asked ns"] = min(asked, each["answered ns"] or asked)


def _endings(all_: list[Told]) -> None:
    for each in all_:
        ending, detail = each["ending"]
        complete = ending is Ending.COMPLETE
        spoken = "" if complete else f"{ending}: {detail}" if detail else str(ending)
        known = each["response"] is not None and not each["stream"]
        each["ending"] = (Ending.COMPLETE if known else Ending.OPEN, spoken)


def _nanoseconds(all_: list[Told]) -> None:
    """Times are taken out: they are compared on their own."""
    for each in all_:
        for where in TIMES:
            del each[where]


TIMES = ("began ns", "asked ns", "answered ns", "ended ns", "event times")
FORGETS: dict[str, Callable[[list[Told]], None]] = {
    "numbers of exchanges": _numbers,
    "addresses of clients": _clients,
    "what no URL can hold": _spelling,
    "keys and cookies": _keys,
    "request bodies that are no UTF-8": _request_bytes,
    "bodies that cannot be decoded": _undecodable,
    "compression": _compression,
    "chunks": _chunk_ends,
    "when comments and other bytes came": _other_times,
    "requests that had not ended": _request_ends,
    "endings": _endings,
    "nanoseconds": _nanoseconds,
}


def _there_and_back(folder: str, each: list[Any], *, sensitive: bool = False) -> tuple[list[Told], list[Told]]:
    path, har, back = Path(folder, "run.db"), Path(folder, "run.har"), Path(folder, "back.db")
    _recorded(path, each)
    with open_recording(path) as recording:
        har.write_bytes(b"".join(archive.write(recording, sensitive=sensitive)))
        before = told(recording)
    store(named("har").reader().read(har), back)
    with open_recording(back) as again:
        return before, told(again)


def _forget(before: list[Told], after: list[Told], steps: list[str]) -> None:
    for name in steps:
        FORGETS[name](before)
        # What is made up anew is looked at in neither.
        if name in {"when comments and other bytes came", "nanoseconds"}:
            FORGETS[name](after)


@given(st.lists(exchanges(), min_size=1, max_size=3), st.booleans())
@settings(max_examples=25)
def test_a_recording_comes_back_from_a_har_without_what_the_page_names(each: list[Any], sensitive: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before, after = _there_and_back(folder, each, sensitive=sensitive)
    steps = [name for name in FORGETS if name not in {"nanoseconds", *(["keys and cookies"] if sensitive else [])}]
    _forget(before, after, steps)
    for one, other in zip(before, after, strict=True):
        assert _times(one) == pytest.approx(_times(other), abs=3 * US, rel=0)
    _forget(before, after, ["nanoseconds"])

    assert after == before


def _times(each: Told) -> list[int]:
    return [*(each[where] or 0 for where in TIMES[:-1]), *each["event times"]]


RICH: list[Any] = [
    [
        (5, lambda n, t: RequestStarted(n, t, "::1", "GET", "http", "a", "/a b", "HTTP/1.1", (("Cookie", "a=b"),))),
        (9, _arriving(Side.REQUEST, 0, b"\xff")),
        (9, lambda n, t: ResponseStarted(n, t, 200, "", "HTTP/1.1", (STREAM,))),
        (9, _arriving(Side.RESPONSE, 0, b"data: 1\n")),
        (9, _arriving(Side.RESPONSE, 8, b"\n: ping\n\n")),
        (9, lambda n, t: ExchangeEnded(n, t, Ending.SERVICE_RESET, "")),
    ],
    [
        (5, lambda n, t: RequestStarted(n, t, "::1", "GET", "http", "a", "/", "HTTP/1.1", ())),
        (9, lambda n, t: ResponseStarted(n, t, 200, "", "HTTP/1.1", (("Content-Encoding", "gzip"),))),
        (9, _arriving(Side.RESPONSE, 0, gzip.compress(b"x", mtime=0))),
        (9, lambda n, t: ExchangeEnded(n, t, Ending.COMPLETE, "")),
    ],
    [
        (5, lambda n, t: RequestStarted(n, t, "::1", "GET", "http", "a", "/", "HTTP/1.1", ())),
        (9, lambda n, t: ResponseStarted(n, t, 200, "", "HTTP/1.1", (("Content-Encoding", "gzip"),))),
        (9, _arriving(Side.RESPONSE, 0, b"no gzip")),
        (9, lambda n, t: ExchangeEnded(n, t, Ending.COMPLETE, "")),
    ],
]


@pytest.mark.parametrize("left_out", FORGETS)
def test_what_the_page_names_is_lost_indeed(left_out: str, tmp_path: Path) -> None:
    before, after = _there_and_back(str(tmp_path), RICH)
    _forget(before, after, [name for name in FORGETS if name != left_out])

    assert after != before


def test_the_page_names_what_is_lost() -> None:
    """The first column of its table."""
    assert re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(), re.MULTILINE) == list(FORGETS)
