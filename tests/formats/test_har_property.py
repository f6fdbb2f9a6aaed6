"""A HAR file loses what docs/import.md lists, and nothing else."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from drawn_recordings import conversations, record
from hypothesis import given
from hypothesis import strategies as st

from wiretape.content_encoding import DecodingError, decoder
from wiretape.event import Event
from wiretape.observations import BytesArrived, Ending, Headers, Observation, Side
from wiretape.recording import Exchange, Recording, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.recording.formats.har_writer import write as write_har
from wiretape.sse import FrameKind, Parser

PAGE = Path(__file__).parents[2] / "docs" / "import.md"
US = 1000
APART_NS = 4
"""Minimum time between imported chunks."""
KEYS = {"authorization", "cookie", "x-api-key"}
CODING = {"content-encoding", "content-length"}


@contextmanager
def round_trip(folder: Path, seen: list[Observation], *, sensitive: bool = False) -> Iterator[tuple[Recording, ...]]:
    """Record observations, export them as HAR, and import that; yield both recordings."""
    path, har, back = folder / "run.db", folder / "run.har", folder / "back.db"
    record(path, seen)
    with open_recording(path) as recording:
        har.write_bytes(b"".join(write_har(recording, sensitive=sensitive)))
        build_recording(find_format("har").reader().read(har), back)
        with open_recording(back) as again:
            yield recording, again


def chunks(recording: Recording, exchange: Exchange, side: Side = Side.RESPONSE) -> list[tuple[int, bytes]]:
    runs = (part for part in recording.body(exchange.number, side) if isinstance(part, BytesArrived))
    return [(time_ns, data) for run in runs for time_ns, data in run.chunks() if data]


def body(recording: Recording, exchange: Exchange, side: Side = Side.RESPONSE) -> bytes:
    return b"".join(data for _, data in chunks(recording, exchange, side))


def decoded(recording: Recording, exchange: Exchange) -> bytes | None:
    """Return the body of a response; None if it cannot be decoded."""
    try:
        return decoder(exchange.content_encoding).feed(body(recording, exchange))
    except DecodingError:
        return None


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def events_of(recording: Recording, exchange: Exchange) -> list[Event]:
    """Return the events that a HAR file lists."""
    return [seen for seen in recording.events(exchange.number) if seen.has_data] if exchange.is_stream else []


def with_changed_ids(events: list[Event]) -> Iterator[tuple[str, str | None, str]]:
    """Yield the name, the id if it changes, and the data of events."""
    last = None
    for event in events:
        yield event.name or "message", event.id if event.id and event.id != last else None, text(event.data)
        last = event.id or last


def kept_headers(headers: Headers, dropped: set[str]) -> list[tuple[str, str]]:
    pairs = ((name, part) for name, value in headers for part in value.split("\n"))
    return [pair for pair in pairs if pair[0].lower() not in dropped]


def kept(recording: Recording, exchange: Exchange, dropped: set[str]) -> dict[str, Any]:
    """Return what a HAR file keeps of the heads and the sent bytes; `dropped` are names of headers."""
    request, response = exchange.request, exchange.response
    target = quote(request.target.encode("latin-1"), safe="%/?=&*:;[]")
    return {
        "request": (request.method, request.scheme, request.authority, request.http_version),
        "target": target if target.startswith("/") else f"/{target}",
        "request headers": kept_headers(request.headers, dropped),
        "sent": text(body(recording, exchange, Side.REQUEST)),
        "response": response and (response.status, response.reason, response.http_version),
        "response headers": kept_headers(response.headers, dropped) if response else [],
    }


def frames_with_blank_lines(data: bytes) -> list[bytes]:
    """Return the bytes of each frame, with the blank lines after it unless it is an event."""
    parser, found, joins = Parser(), list[bytes](), False
    for frame in (*parser.feed(data), *parser.close()):
        if joins and frame.kind in {FrameKind.BLANK, FrameKind.BOM}:
            found[-1] += frame.raw
        else:
            found.append(frame.raw)
            joins = not frame.is_dispatched
    return found


def ending(exchange: Exchange) -> tuple[Ending, str]:
    """Return the ending, and the detail, that the import of a HAR file gives an exchange."""
    detail = f"{exchange.ending}: {exchange.detail}" if exchange.detail else str(exchange.ending)
    is_known = exchange.response is not None and not exchange.is_stream
    return Ending.COMPLETE if is_known else Ending.OPEN, "" if exchange.ending is Ending.COMPLETE else detail


@given(conversations(), st.booleans())
def test_a_har_file_keeps_everything_but_the_listed_losses(seen: list[Observation], sensitive: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, round_trip(Path(folder), seen, sensitive=sensitive) as (one, other):
        pairs = list(zip(one.exchanges(), other.exchanges(), strict=True))
        starts = one.info.started_unix_ns, other.info.started_unix_ns
        assert starts[1] == (starts[0] + pairs[0][0].request.time_ns) // US * US
        assert (other.info.upstream, other.info.redacted) == ("", 0)
        # Some bodies decode to thousands of frames that arrived at once.
        apart = APART_NS * sum(len(chunks(other, after)) for _, after in pairs)
        for number, (before, after) in enumerate(pairs, 1):
            assert (after.number, after.request.client) == (number, "")
            is_decoded = before.content_encoding and body(other, after)
            dropped = (set() if sensitive else KEYS) | (CODING if is_decoded else set())
            assert kept(other, after, dropped) == kept(one, before, dropped)
            assert (after.ending, after.detail) == ending(before)
            assert_body_is_kept(one, before, other, after)
            assert_times_are_kept(one, before, other, after, starts, within=3 * US + apart)


def assert_body_is_kept(one: Recording, before: Exchange, other: Recording, after: Exchange) -> None:
    whole, received = decoded(one, before), body(other, after)
    parts = [data for _, data in chunks(other, after)]
    assert parts == (frames_with_blank_lines(received) if before.is_stream else [received] if received else [])
    if whole is not None or not before.is_stream:
        assert received == (whole or b"")
    if whole is None or not before.lost_bytes:
        listed, found = events_of(one, before), events_of(other, after)
        assert list(with_changed_ids(found)) == list(with_changed_ids(listed))


def assert_times_are_kept(
    one: Recording, before: Exchange, other: Recording, after: Exchange, starts: tuple[int, int], *, within: int
) -> None:
    listed, found = events_of(one, before), events_of(other, after)
    same = takewhile(
        lambda pair: len({(event.name or "message", text(event.data)) for event in pair}) == 1,
        zip(listed, found, strict=False),
    )
    responded = before.response.time_ns if before.response else None
    times = [event.time_ns for event, _ in same]
    # From the first event that changed, all arrive at once.
    times += [[responded or 0, *times][-1]] * (len(found) - len(times))
    sent = before.request_ended_ns or before.request.time_ns
    ended = before.ended_ns or max(sent, responded or 0, *times[-1:])
    expected = [before.request.time_ns, min(sent, responded or sent), responded or 0, ended, *times]
    ends = [after.request_ended_ns or 0, after.response.time_ns if after.response else 0, after.ended_ns or 0]
    actual = [after.request.time_ns, *ends, *(event.time_ns for event in found)]
    moved = [each and each + starts[1] - starts[0] for each in actual]
    moved[0] = actual[0] + starts[1] - starts[0]
    assert moved == pytest.approx(expected, abs=within, rel=0)


LOSSES: dict[str, Callable[[Recording, Exchange], object]] = {
    "upstream": lambda run, _: run.info.upstream,
    "start of the recording": lambda run, _: run.info.started_unix_ns,
    "end of the recording, and the recorder": lambda run, _: (run.info.ended_ns, run.captures()),
    "number of redacted keys": lambda run, _: run.info.redacted,
    "findings": lambda run, _: list(run.findings()),
    "exchange numbers": lambda _, each: each.number,
    "client addresses": lambda _, each: each.request.client,
    "characters that a URL cannot contain": lambda _, each: each.request.target,
    "line feeds in headers": lambda _, each: any("\n" in value for _, value in each.request.headers),
    "keys and cookies": lambda _, each: any(name.lower() in KEYS for name, _ in each.request.headers),
    "lost bytes": lambda _, each: each.lost_bytes,
    "bodies that cannot be decoded": lambda run, each: decoded(run, each) is None,
    "compression": lambda _, each: each.content_encoding,
    "request bodies that are not UTF-8": lambda run, each: body(run, each, Side.REQUEST),
    "chunks": lambda run, each: [len(data) for _, data in chunks(run, each)],
    "arrival times of comments and other bytes": lambda run, each: [time_ns for time_ns, _ in chunks(run, each)],
    "ends that were not observed": lambda _, each: (each.request_ended_ns is None, each.ended_ns is None),
    "endings": lambda _, each: each.ending,
    "nanoseconds": lambda run, each: run.info.started_unix_ns + each.request.time_ns,
}
"""What is lost, as something that is different afterwards."""


@pytest.mark.parametrize("loss", LOSSES)
def test_each_listed_loss_happens(loss: str, tmp_path: Path) -> None:
    seen = list(find_format("tape").reader().read(Path(__file__).with_name("data") / "losses.tape").observations)
    with round_trip(tmp_path, seen) as (one, other):
        before, after = ([LOSSES[loss](run, each) for each in run.exchanges()] for run in (one, other))
    assert after != before


def test_the_page_lists_the_losses() -> None:
    assert re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text("utf-8"), re.MULTILINE) == list(LOSSES)
