"""A HAR file loses what docs/har.md lists, and nothing else."""

import gzip
import re
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.content_encoding import DecodingError, decoder
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.recording import Recording, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.recording.formats.har_writer import write as write_har
from wiretape.sse import Frame, FrameKind, Parser

# Tests are not a package, so it cannot be imported by name.
_spec = spec_from_file_location("wiretape_test_recordings", Path(__file__).with_name("recordings.py"))
recordings = module_from_spec(_spec)
_spec.loader.exec_module(recordings)

PAGE = Path(__file__).parents[2] / "docs" / "har.md"
US = 1000
APART_NS = 4
"""Minimum time between imported chunks."""
KEYS = {"authorization", "cookie", "x-api-key"}
CODING = {"content-encoding", "content-length"}
Summary = dict[str, Any]
"""Contents of a recording or an exchange.  All times are wall clock times."""


def summarize(recording: Recording) -> Summary:
    """Return everything that is compared."""
    info = recording.info
    return {
        "exchanges": [_summarize_exchange(recording, exchange.number) for exchange in recording.exchanges()],
        "upstream": info.upstream,
        "began ns": info.started_unix_ns,
        "captures": (info.ended_ns, recording.captures()),
        "redacted": info.redacted,
        "findings": list(recording.findings()),
    }


def _summarize_exchange(recording: Recording, number: int) -> Summary:
    exchange, start = recording.exchange(number), recording.info.started_unix_ns
    request, response = exchange.request, exchange.response
    events = [seen for seen in recording.frames(number) if exchange.is_stream and seen.frame.is_dispatched]
    return {
        "number": number,
        "client": request.client,
        "request": (request.method, request.scheme, request.authority, request.http_version),
        "target": request.target,
        "request headers": request.headers,
        "sent": _chunks(recording, number, Side.REQUEST),
        "request ended ns": exchange.request_ended_ns and start + exchange.request_ended_ns,
        "response": response and (response.status, response.reason, response.http_version),
        "response headers": response.headers if response else (),
        "stream": exchange.is_stream,
        "received": _chunks(recording, number, Side.RESPONSE),
        "events": [(seen.frame.event, seen.frame.id, seen.frame.data) for seen in events],
        "event times": [start + seen.time_ns for seen in events],
        "observed ends": (exchange.request_ended_ns is not None, exchange.ended_ns is not None),
        "ending": (exchange.ending, exchange.detail),
        "began ns": start + request.time_ns,
        "responded ns": response and start + response.time_ns,
        "ended ns": exchange.ended_ns and start + exchange.ended_ns,
    }


def _chunks(recording: Recording, number: int, side: Side) -> list[tuple[int, bytes | None]]:
    """Return the arrival time and bytes of each chunk that is not empty; None stands for lost bytes."""
    found: list[tuple[int, bytes | None]] = []
    for part in recording.body(number, side):
        chunks = part.chunks() if isinstance(part, BytesArrived) else [(part.time_ns, None)]
        found += [(recording.info.started_unix_ns + time_ns, data) for time_ns, data in chunks if data != b""]
    return found


def _upstream(all_: Summary) -> None:
    all_["upstream"] = ""


def _start(all_: Summary) -> None:
    all_["began ns"] = all_["exchanges"][0]["began ns"] // US * US


def _captures(all_: Summary) -> None:
    del all_["captures"]


def _redacted(all_: Summary) -> None:
    all_["redacted"] = 0


def _findings(all_: Summary) -> None:
    del all_["findings"]


def _numbers(all_: Summary) -> None:
    for index, each in enumerate(all_["exchanges"], 1):
        each["number"] = index


def _clients(all_: Summary) -> None:
    for each in all_["exchanges"]:
        each["client"] = ""


def _url_characters(all_: Summary) -> None:
    for each in all_["exchanges"]:
        target = each["target"]
        target = target if target.startswith("/") else f"/{target}"
        each["target"] = quote(target, safe="%/?=&*:;[]", encoding="latin-1")


def _line_feeds(all_: Summary) -> None:
    def apart(headers: Headers) -> Headers:
        return tuple((name, part) for name, value in headers for part in value.split("\n"))

    _headers(all_, apart)


def _keys(all_: Summary) -> None:
    _headers(all_, lambda headers: tuple(pair for pair in headers if pair[0].lower() not in KEYS))


def _headers(all_: Summary, change: Callable[[Headers], Headers]) -> None:
    for each in all_["exchanges"]:
        for where in ("request headers", "response headers"):
            each[where] = change(each[where])


def _lost_bytes(all_: Summary) -> None:
    for each in all_["exchanges"]:
        for where in ("sent", "received"):
            each[where] = [(at, data) for at, data in each[where] if data is not None]
        body = _decoded(each)
        if each["stream"] and body is not None:
            events = [(frame.event, frame.id, frame.data) for frame in _frames(body) if frame.is_dispatched]
            kept = _as_listed(each["events"], events)
            # From the first event that changed, all arrive at once.
            last = [each["responded ns"], *each["event times"][:kept]][-1]
            each["event times"] = [*each["event times"][:kept], *[last] * (len(events) - kept)]
            each["events"] = events


def _as_listed(listed: Sequence[tuple[str, str | None, bytes]], events: Sequence[tuple[str, str | None, bytes]]) -> int:
    """Return how many events at the beginning are those that the HAR file lists."""
    pairs = zip(listed, events, strict=False)
    others = (at for at, pair in enumerate(pairs) if len({(name, _text(data)) for name, _, data in pair}) > 1)
    return next(others, min(len(listed), len(events)))


def _undecodable(all_: Summary) -> None:
    for each in all_["exchanges"]:
        if each["response"] and _decoded(each) is None:
            each["events"] = _as_rebuilt(each["events"])
            each["received"] = [
                (at, _lines(*event)) for at, event in zip(each["event times"], each["events"], strict=True)
            ]
            if each["received"]:
                _without_coding(each)


def _as_rebuilt(events: Sequence[tuple[str, str | None, bytes]]) -> list[tuple[str, str | None, bytes]]:
    """Return events with only the ids that change, and without the default name."""
    rebuilt, last = [], None
    for name, id_, data in events:
        rebuilt.append((name if name != "message" else "", id_ if id_ and id_ != last else None, _text(data).encode()))
        last = id_ or last
    return rebuilt


def _lines(name: str, id_: str | None, data: bytes) -> bytes:
    lines = [f"event: {name}"] if name else []
    lines += [f"id: {id_}"] if id_ else []
    lines += [f"data: {line}" for line in _text(data).split("\n")]
    return "".join(f"{line}\n" for line in [*lines, ""]).encode()


def _compression(all_: Summary) -> None:
    for each in all_["exchanges"]:
        body = _decoded(each)
        if body is not None and header(each["response headers"], "content-encoding"):
            each["received"] = [(0, body)] if body else []
            if body:
                _without_coding(each)


def _without_coding(each: Summary) -> None:
    each["response headers"] = tuple(pair for pair in each["response headers"] if pair[0].lower() not in CODING)


def _decoded(each: Summary) -> bytes | None:
    """Return a decoded body without its lost bytes; None if it cannot be decoded."""
    data = b"".join(data or b"" for _, data in each["received"])
    try:
        return decoder(header(each["response headers"], "content-encoding")).feed(data)
    except DecodingError:
        return None


def _request_bytes(all_: Summary) -> None:
    for each in all_["exchanges"]:
        each["sent"] = [(at, _text(data).encode()) for at, data in _joined(each["sent"])]


def _chunk_ends(all_: Summary) -> None:
    for each in all_["exchanges"]:
        each["sent"] = _joined(each["sent"])
        each["received"] = _units(_joined(each["received"])) if each["stream"] else _joined(each["received"])


def _joined(chunks: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes]]:
    data = b"".join(data or b"" for _, data in chunks)
    return [(0, data)] if data else []


def _units(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return a chunk for each frame, with the blank lines after it unless it is an event."""
    units: list[bytes] = []
    apart = True
    for frame in (frame for _, data in chunks for frame in _frames(data)):
        if not apart and frame.kind in {FrameKind.BLANK, FrameKind.BOM}:
            units[-1] += frame.raw
        else:
            units.append(frame.raw)
            apart = frame.is_dispatched
    return [(0, unit) for unit in units]


def _frames(data: bytes) -> list[Frame]:
    parser = Parser()
    return [*parser.feed(data), *parser.close()]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _other_times(all_: Summary) -> None:
    for each in all_["exchanges"]:
        for where in ("sent", "received"):
            each[where] = [data for _, data in each[where]]


def _unobserved_ends(all_: Summary) -> None:
    for each in all_["exchanges"]:
        sent = each["request ended ns"] or each["began ns"]
        each["request ended ns"] = min(sent, each["responded ns"] or sent)
        last = max(sent, each["responded ns"] or 0, *each["event times"][-1:], 0)
        each["ended ns"] = each["ended ns"] or last
        each["observed ends"] = (True, True)


def _endings(all_: Summary) -> None:
    for each in all_["exchanges"]:
        ending, detail = each["ending"]
        complete = ending is Ending.COMPLETE
        error = "" if complete else f"{ending}: {detail}" if detail else str(ending)
        known = each["response"] is not None and not each["stream"]
        each["ending"] = (Ending.COMPLETE if known else Ending.OPEN, error)


def _nanoseconds(all_: Summary) -> None:
    """Remove times, which are compared separately."""
    for each in all_["exchanges"]:
        for where in TIMES:
            del each[where]


TIMES = ("began ns", "request ended ns", "responded ns", "ended ns", "event times")
LOSSES: dict[str, Callable[[Summary], None]] = {
    "upstream": _upstream,
    "start of the recording": _start,
    "end of the recording, and the recorder": _captures,
    "number of redacted keys": _redacted,
    "findings": _findings,
    "exchange numbers": _numbers,
    "client addresses": _clients,
    "characters that a URL cannot contain": _url_characters,
    "line feeds in headers": _line_feeds,
    "keys and cookies": _keys,
    "lost bytes": _lost_bytes,
    "bodies that cannot be decoded": _undecodable,
    "compression": _compression,
    "request bodies that are not UTF-8": _request_bytes,
    "chunks": _chunk_ends,
    "arrival times of comments and other bytes": _other_times,
    "ends that were not observed": _unobserved_ends,
    "endings": _endings,
    "nanoseconds": _nanoseconds,
}
"""What is lost, in an order in which the losses can be applied one after the other."""
INVENTED = {
    "end of the recording, and the recorder",
    "findings",
    "arrival times of comments and other bytes",
    "nanoseconds",
}
"""What is compared in neither recording."""


def _round_trip(folder: str, seen: list[Observation], *, sensitive: bool = False) -> tuple[Summary, Summary]:
    path, har, back = Path(folder, "run.db"), Path(folder, "run.har"), Path(folder, "back.db")
    recordings.record(path, seen)
    with open_recording(path) as recording:
        har.write_bytes(b"".join(write_har(recording, sensitive=sensitive)))
        before = summarize(recording)
    build_recording(find_format("har").reader().read(har), back)
    with open_recording(back) as again:
        return before, summarize(again)


def _remove(before: Summary, after: Summary, steps: list[str]) -> None:
    for name in steps:
        LOSSES[name](before)
        if name in INVENTED:
            LOSSES[name](after)


@given(recordings.conversations(), st.booleans())
def test_a_har_file_keeps_everything_but_the_listed_losses(seen: list[Observation], sensitive: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before, after = _round_trip(folder, seen, sensitive=sensitive)
    kept = {"nanoseconds", *(["keys and cookies"] if sensitive else [])}
    _remove(before, after, [name for name in LOSSES if name not in kept])
    # Some bodies decode to thousands of frames that arrived at once.
    apart = APART_NS * sum(len(each["received"]) for each in after["exchanges"])
    for one, other in zip(before["exchanges"], after["exchanges"], strict=True):
        assert _times(one) == pytest.approx(_times(other), abs=3 * US + apart, rel=0)
    _remove(before, after, ["nanoseconds"])

    assert after == before


def _times(each: Summary) -> list[int]:
    return [*(each[where] or 0 for where in TIMES[:-1]), *each["event times"]]


def _chunk(number: int, side: Side, start: int, data: bytes, now: int) -> BytesArrived:
    return BytesArrived(number, side, start, data, (start + len(data),), (now,))


def _request(number: int, now: int, *headers: tuple[str, str]) -> RequestStarted:
    return RequestStarted(number, now, "::1", "GET", "http", "a", "/a b", "HTTP/1.1", headers)


def _response(number: int, now: int, *headers: tuple[str, str]) -> ResponseStarted:
    return ResponseStarted(number, now, 200, "", "HTTP/1.1", headers)


STREAM, GZIP = ("content-type", "text/event-stream"), ("Content-Encoding", "gzip")
PACKED = gzip.compress(b"data: 1\n\n", mtime=0)
RICH: list[Observation] = [
    _request(3, 5_000_005, ("Cookie", "a=b"), ("x", "1\n2")),
    _chunk(3, Side.REQUEST, 0, b"\xff", 5_000_015),
    _response(3, 5_000_025, STREAM),
    _chunk(3, Side.RESPONSE, 0, b"data: 1\n", 5_000_035),
    _chunk(3, Side.RESPONSE, 8, b"\n: ping\n\n", 5_000_045),
    ExchangeEnded(3, 5_000_055, Ending.SERVICE_RESET, ""),
    _request(5, 5_000_105),
    _response(5, 5_000_115, GZIP),
    _chunk(5, Side.RESPONSE, 0, PACKED, 5_000_125),
    ExchangeEnded(5, 5_000_135, Ending.COMPLETE, ""),
    _request(6, 5_000_205),
    _response(6, 5_000_215, GZIP, STREAM),
    _chunk(6, Side.RESPONSE, 0, PACKED + b"not gzip", 5_000_225),
    ExchangeEnded(6, 5_000_235, Ending.COMPLETE, ""),
    _request(7, 5_000_305),
    _response(7, 5_000_315, STREAM),
    _chunk(7, Side.RESPONSE, 0, b"data: 1\n\ndata: a", 5_000_325),
    BytesLost(7, 5_000_335, Side.RESPONSE, 16, 70, "disk full"),
    _chunk(7, Side.RESPONSE, 86, b"b\n\ndata: 2\n\n", 5_000_345),
]


@pytest.mark.parametrize("left_out", LOSSES)
def test_each_listed_loss_happens(left_out: str, tmp_path: Path) -> None:
    before, after = _round_trip(str(tmp_path), RICH)
    _remove(before, after, [name for name in LOSSES if name != left_out])

    assert after != before


def test_the_page_lists_the_losses() -> None:
    assert re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text("utf-8"), re.MULTILINE) == list(LOSSES)
