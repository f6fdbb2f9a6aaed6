"""Flow files of mitmproxy (`mitmdump -w`), read.  mitmproxy is imported when one is read, not before."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wiretape.contract import is_event_stream
from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.observations import (
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.recording import (
    MAX_STATUS,
    RecordingMetadata,
    RecordingSource,
    list_exchanges,
    observe_body,
    order_observations,
)
from wiretape.recording.formats import FormatReader
from wiretape.safe_text import printable
from wiretape.toml import said

if TYPE_CHECKING:
    from mitmproxy.http import HTTPFlow, Message, ResponseData

_BEGINS = re.compile(rb"\d{1,12}:\d{1,2}:[a-z_]+[;,]")
_MOST_BYTES = 1 << 30
"""Flows stand in the order in which they ended, so that all have to be held."""
_LATEST_S = 7_000_000_000
"""Nanoseconds since 1970 fit into 64 bits until 2262."""
_ALWAYS = (
    "A flow file does not hold the chunks that bodies came in, nor when the events of a stream came: "
    "docs/import.md says what stands in their place."
)
_SENTENCES = {
    "streamed": "The body of {} is not in the file: mitmproxy streamed it (stream_large_bodies) and kept nothing",
    "timeless": "The events of {} have no times in the file: all come with the head of the answer",
    "failed": "How {} ended is not known, only what mitmproxy said of it",
}


def begins(data: bytes) -> bool:
    """Whether a flow file begins so."""
    return _BEGINS.match(data) is not None


def read(path: Path) -> RecordingSource:
    """Begin to read a flow file.  Raises InputError where it is wrong, or mitmproxy is not installed."""
    about: dict[str, list[int]] = defaultdict(list)
    every = list(_flows(path))
    flows = [flow for flow in every if flow is not None]
    if not flows:
        raise InputError(f"{said(path)} holds no flow of HTTP.")
    flows.sort(key=lambda flow: flow.request.timestamp_start)
    request = flows[0].request
    head = RecordingMetadata(
        f"{_latin(request.data.scheme)}://{_authority(flows[0])}", _ns(path, request.timestamp_start)
    )
    incoming = RecordingSource(head, iter(()), notes=[_ALWAYS])
    if skipped := len(every) - len(flows):
        incoming.notes.append(f"{skipped} of {len(every)} flows are no HTTP exchange, and left out.")
    incoming.observations = _observations(path, flows, about, incoming)
    return incoming


def _flows(path: Path) -> "Iterator[HTTPFlow | None]":
    """The flows of a file, None for each that is no exchange over HTTP."""
    try:
        from mitmproxy.http import HTTPFlow  # noqa: PLC0415 - it is not there without the extra, and slow
        from mitmproxy.io import FlowReader  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError(
            "Reading flow files needs mitmproxy, which is not installed: pip install 'wiretape[proxy]'"
        ) from None
    try:
        with path.open("rb") as file:
            _check(path, file.peek(64))
            for flow in FlowReader(file).stream():
                http = isinstance(flow, HTTPFlow) and flow.websocket is None and flow.request.method != "CONNECT"
                yield _sound(flow) if http and isinstance(flow, HTTPFlow) else None
    except InputError:
        raise
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    except Exception as error:  # noqa: BLE001 - mitmproxy raises many kinds of them where a file is damaged
        raise InputError(
            f"{said(path)} is damaged, cut short, or of another version of mitmproxy: "
            f"{printable(str(error)[:200]).rstrip('.')}."
        ) from None


def _sound(flow: "HTTPFlow") -> "HTTPFlow":
    """The same flow.  mitmproxy takes anything for an error; raises TypeError where it is none."""
    if flow.error is not None and not hasattr(flow.error, "timestamp"):
        raise TypeError("an error without a time")
    return flow


def _check(path: Path, beginning: bytes) -> None:
    if not begins(beginning):
        raise InputError(f"{said(path)} is no flow file of mitmproxy.")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{said(path)} is larger than {_MOST_BYTES >> 20} MiB: that is too much to be held.")


def _observations(
    path: Path, flows: "Sequence[HTTPFlow]", about: dict[str, list[int]], incoming: RecordingSource
) -> Iterator[Observation]:
    each = (_Exchange(path, number, flow, about).observations() for number, flow in enumerate(flows, 1))
    yield from order_observations(each, incoming.metadata.started_unix_ns)
    for what, sentence in _SENTENCES.items():
        if what in about:
            incoming.notes.append(sentence.format(list_exchanges(about[what])) + ".")


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A flow as observations, in order of time."""

    path: Path
    number: int
    flow: "HTTPFlow"
    about: dict[str, list[int]]

    def observations(self) -> Iterator[Observation]:
        """Times are those on the wall clock.  Raises InputError where they are none."""
        request, response, error = self.flow.request, self.flow.response, self.flow.error
        began_ns = _ns(self.path, request.timestamp_start)
        sent_ns = max(began_ns, _ns(self.path, request.timestamp_end or request.timestamp_start))
        yield self._asked(began_ns)
        yield from self._body(Side.REQUEST, request, sent_ns)
        yield RequestEnded(self.number, sent_ns)
        ended_ns = sent_ns
        if response is not None:
            answered_ns = max(sent_ns, _ns(self.path, response.timestamp_start))
            ended_ns = max(answered_ns, _ns(self.path, response.timestamp_end or response.timestamp_start))
            head = _headers(response)
            yield self._answered(response.data, answered_ns, head)
            stream = is_event_stream(header(head, "content-type"))
            yield from self._body(Side.RESPONSE, response, answered_ns if stream else ended_ns)
            if stream and response.raw_content:
                self.about["timeless"].append(self.number)
        if error is not None:
            self.about["failed"].append(self.number)
            ended_ns = max(ended_ns, _ns(self.path, error.timestamp))
        whole = response is not None and response.timestamp_end is not None and error is None
        ending = Ending.COMPLETE if whole else Ending.OPEN
        yield ExchangeEnded(self.number, ended_ns, ending, error.msg if error is not None else "")

    def _asked(self, began_ns: int) -> RequestStarted:
        request = self.flow.request
        # What stands in a file need not be what the types say.
        peer = getattr(self.flow.client_conn, "peername", None)
        return RequestStarted(
            exchange=self.number,
            time_ns=began_ns,
            client=str(peer[0]) if peer else "",
            method=_latin(request.data.method),
            scheme=_latin(request.data.scheme),
            authority=_authority(self.flow),
            target=_latin(request.data.path),
            http_version=_latin(request.data.http_version),
            headers=_headers(request),
        )

    def _answered(self, response: "ResponseData", time_ns: int, head: Headers) -> ResponseStarted:
        if not 0 <= response.status_code <= MAX_STATUS:
            raise InputError(f"{said(self.path)} is damaged: {response.status_code} is no status.")
        reason, version = _latin(response.reason), _latin(response.http_version)
        return ResponseStarted(self.number, time_ns, response.status_code, reason, version, head)

    def _body(self, side: Side, message: "Message", time_ns: int) -> Iterator[Observation]:
        data = message.raw_content
        if data is None:
            self.about["streamed"].append(self.number)
        elif data:
            yield from observe_body(self.number, side, [(time_ns, data)])


def _ns(path: Path, seconds: float) -> int:
    if not 0 <= seconds <= _LATEST_S:
        raise InputError(f"{said(path)} is damaged: it has times that are none.")
    return round(seconds * 1_000_000) * 1000


def _authority(flow: "HTTPFlow") -> str:
    request = flow.request
    usual = {"http": 80, "https": 443}.get(_latin(request.data.scheme))
    host = f"[{request.host}]" if ":" in request.host else request.host
    return host if request.port == usual else f"{host}:{request.port}"


def _headers(message: "Message") -> Headers:
    return tuple((_latin(name), _latin(value)) for name, value in message.headers.fields)


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


READER = FormatReader(begins, read)
