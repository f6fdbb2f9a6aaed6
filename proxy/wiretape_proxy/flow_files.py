"""Read mitmproxy flow files (`mitmdump -w`).  mitmproxy is imported when a file is read."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wiretape.errors import InputError, missing_package_error
from wiretape.files import read_error
from wiretape.observations import Ending, ExchangeEnded, Observation, RequestEnded, Side, header
from wiretape.recording import (
    MAX_STATUS,
    RecordingMetadata,
    RecordingSource,
    list_exchanges,
    observe_body,
    order_observations,
)
from wiretape.recording.formats import FormatReader
from wiretape.sse import is_event_stream
from wiretape_proxy.flow_heads import request_started, response_started

if TYPE_CHECKING:
    from mitmproxy.http import HTTPFlow, Message

_BEGINNING = re.compile(rb"\d{1,12}:\d{1,2}:[a-z_]+[;,]")
_MOST_BYTES = 1 << 30
"""Flows are stored in the order in which they ended, so all of them have to be in memory."""
_LATEST_S = 7_000_000_000
"""Nanoseconds since 1970 fit into 64 bits until 2262."""
_ALWAYS_MISSING = (
    "A flow file contains neither the chunks of bodies nor the times of events: docs/import.md explains "
    "what replaces them."
)
_STREAMED = "The body of {} is not in the file: mitmproxy streamed it (stream_large_bodies) without keeping it."
_TIMELESS = "The events of {} have no times in the file: all of them get the time of the response headers."
_FAILED = "The ending of {} is not known, only mitmproxy's error message."


def is_flow_file(data: bytes) -> bool:
    """Whether a file that begins with `data` is a flow file."""
    return _BEGINNING.match(data) is not None


def read_flows(path: Path) -> RecordingSource:
    """Begin to read a flow file.  Raises InputError if it is invalid, or mitmproxy is not installed."""
    loaded = list(_load(path))
    flows = [flow for flow in loaded if flow is not None]
    if not flows:
        raise InputError(f"{path} contains no HTTP flows.")
    flows.sort(key=lambda flow: flow.request.timestamp_start)
    metadata = RecordingMetadata("", _ns(path, flows[0].request.timestamp_start))
    source = RecordingSource(metadata, iter(()), notes=[_ALWAYS_MISSING])
    if skipped := len(loaded) - len(flows):
        reason = "it is not an HTTP exchange" if skipped == 1 else "they are not HTTP exchanges"
        source.notes.append(f"Skipped {skipped} of {len(loaded)} flows, because {reason}.")
    source.observations = _observations(path, flows, source)
    return source


def _load(path: Path) -> "Iterator[HTTPFlow | None]":
    """Yield the flows of a file, and None for each that is not an HTTP exchange."""
    try:
        from mitmproxy.http import HTTPFlow  # noqa: PLC0415 - optional, and slow to import
        from mitmproxy.io import FlowReader  # noqa: PLC0415
    except ModuleNotFoundError:
        raise missing_package_error("mitmproxy", "Reading flow files") from None
    try:
        with path.open("rb") as file:
            _check(path, file.peek(64))
            for flow in FlowReader(file).stream():
                is_http = isinstance(flow, HTTPFlow) and flow.websocket is None and flow.request.method != "CONNECT"
                yield _checked(flow) if is_http and isinstance(flow, HTTPFlow) else None
    except InputError:
        raise
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    except Exception as error:  # noqa: BLE001 - mitmproxy raises many types of exceptions for damaged files
        problem = str(error)[:200].rstrip(".")
        raise InputError(f"{path} is damaged, truncated, or from another mitmproxy version: {problem}.") from None


def _check(path: Path, beginning: bytes) -> None:
    if not is_flow_file(beginning):
        raise InputError(f"{path} is not a mitmproxy flow file.")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, too large to be read into memory.")


def _checked(flow: "HTTPFlow") -> "HTTPFlow":
    """Return the flow; raise TypeError if its error is not one, which mitmproxy does not check."""
    if flow.error is not None and not hasattr(flow.error, "timestamp"):
        raise TypeError("an error without a time")
    return flow


def _observations(path: Path, flows: "Sequence[HTTPFlow]", source: RecordingSource) -> Iterator[Observation]:
    missing: dict[str, list[int]] = defaultdict(list)
    exchanges = (_exchange(path, number, flow, missing) for number, flow in enumerate(flows, 1))
    yield from order_observations(exchanges, source.metadata.started_unix_ns)
    for sentence in (_STREAMED, _TIMELESS, _FAILED):
        if sentence in missing:
            source.notes.append(sentence.format(list_exchanges(missing[sentence])))


def _exchange(path: Path, number: int, flow: "HTTPFlow", missing: dict[str, list[int]]) -> Iterator[Observation]:
    """Yield the observations of a flow in order, with times of the wall clock; note what is `missing`."""
    request, response, error = flow.request, flow.response, flow.error
    started_ns = _ns(path, request.timestamp_start)
    sent_ns = max(started_ns, _ns(path, request.timestamp_end or request.timestamp_start))
    yield request_started(flow, number, started_ns)
    yield from _body(number, Side.REQUEST, request, sent_ns, missing)
    yield RequestEnded(number, sent_ns)
    ended_ns = sent_ns
    if response is not None:
        if not 0 <= response.status_code <= MAX_STATUS:
            raise InputError(f"{path} is damaged: invalid status {response.status_code}.")
        responded_ns = max(sent_ns, _ns(path, response.timestamp_start))
        ended_ns = max(responded_ns, _ns(path, response.timestamp_end or response.timestamp_start))
        head = response_started(response, number, responded_ns)
        yield head
        is_stream = is_event_stream(header(head.headers, "content-type"))
        yield from _body(number, Side.RESPONSE, response, responded_ns if is_stream else ended_ns, missing)
        if is_stream and response.raw_content:
            missing[_TIMELESS].append(number)
    if error is not None:
        missing[_FAILED].append(number)
        ended_ns = max(ended_ns, _ns(path, error.timestamp))
    is_complete = response is not None and response.timestamp_end is not None and error is None
    ending = Ending.COMPLETE if is_complete else Ending.OPEN
    yield ExchangeEnded(number, ended_ns, ending, error.msg if error is not None else "")


def _body(
    number: int, side: Side, message: "Message", time_ns: int, missing: dict[str, list[int]]
) -> Iterator[Observation]:
    data = message.raw_content
    if data is None:
        missing[_STREAMED].append(number)
    elif data:
        yield from observe_body(number, side, [(time_ns, data)])


def _ns(path: Path, seconds: float) -> int:
    if not 0 <= seconds <= _LATEST_S:
        raise InputError(f"{path} is damaged: it contains invalid timestamps.")
    return round(seconds * 1_000_000) * 1000


READER = FormatReader(is_flow_file, read_flows)
