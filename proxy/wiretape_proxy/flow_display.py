"""Show recorded flows in mitmweb and the mitmproxy console: bodies, and findings as markers and comments.

The contentview `SSE` shows an event stream, one line per event.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from shlex import quote
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from mitmproxy import contentviews
from mitmproxy.flow import Flow
from mitmproxy.hooks import UpdateHook
from mitmproxy.http import HTTPFlow, Message
from mitmproxy.master import Master

from wiretape.content_encoding import decode_beginning, is_identity
from wiretape.contract.contract_facts import detected_contracts
from wiretape.event import make_event
from wiretape.event_format import PLAIN, EventFormat
from wiretape.labels import count_of
from wiretape.observations import Side
from wiretape.safe_text import printable, shorten
from wiretape.sse import Frame, FrameKind, Parser, is_event_stream
from wiretape_proxy.ipc_codec import BodyTap
from wiretape_proxy.recorder_messages import FindingCount, RecorderStatus

NAME = "SSE"
START_KEY = "wiretape_start"
"""Flow metadata: offset in the stream of the first byte of the body that is attached to the flow."""
RECORDING_KEY = "wiretape_recording"
"""Flow metadata: path of the recording."""
EXCHANGE_KEY = "wiretape_exchange"
"""Flow metadata: number of the exchange in the recording."""
KEPT_BYTES = 1 << 20
"""Bytes of a body that are kept."""
_MARKERS = {"error": ":red_circle:", "warning": ":warning:", "note": ":large_blue_circle:"}
"""Markers by severity, worst first."""

_PRIORITY = 2.0
"""Above that of mitmproxy's view for plain text."""
_SHOWN_EVENTS = 200
"""mitmproxy shows about 500 lines of a body before it asks."""
_PARSED_BYTES = 128 * 1024
"""Bytes of a stream that are parsed, from its end."""
_DECODED_BYTES = 4 * 1024 * 1024
"""Bytes of an encoded stream that are decoded: a few encoded bytes can stand for many."""
_HEADING = f"{'event':>7}  {'seq':>6}  type"
_LONGEST = 300
_LONGEST_NAME = 60
_SKIPPED = frozenset({FrameKind.BLANK, FrameKind.BOM, FrameKind.TAIL})


def install() -> None:
    """Register the contentview."""
    api: Any = contentviews
    if not hasattr(api, "Contentview"):  # mitmproxy 11 refuses a second view of the same name; 12 replaces the first
        previous = api.get(NAME)
        if previous is not None:
            api.remove(previous)
    api.add(EventStreamView())


class EventStreamView:
    """The view, for mitmproxy 11 (which calls it) and 12 (which calls `prettify`)."""

    name = NAME
    syntax_highlight = "none"

    def __call__(
        self, data: bytes, *, flow: Flow | None = None, http_message: Message | None = None, **_: object
    ) -> tuple[str, Iterator[list[tuple[str, str]]]]:
        """Return the description and lines of styled text (mitmproxy 11)."""
        return NAME, ([("text", line)] for line in render_stream(data, flow, http_message))

    def prettify(self, data: bytes, metadata: Any) -> str:
        """Return the text (mitmproxy 12)."""
        return "\n".join(render_stream(data, metadata.flow, metadata.http_message))

    def render_priority(
        self, data: bytes, metadata: Any = None, *, content_type: str | None = None, **_: object
    ) -> float:
        """Prefer this view for event streams only."""
        type_ = metadata.content_type if metadata is not None else content_type
        return _PRIORITY if data and is_event_stream(type_) else -1.0


def render_stream(data: bytes, flow: Flow | None, message: Message | None) -> Iterator[str]:
    """Yield lines about the last events of a body.  Recorded text is escaped."""
    metadata = flow.metadata if flow is not None else {}
    start, problem = metadata.get(START_KEY, 0), ""
    if message is not None and message.raw_content is not None:
        # mitmproxy itself decodes complete bodies only.
        data, problem = _decode(message.raw_content, message.headers.get("content-encoding"))
    skipped = max(0, len(data) - _PARSED_BYTES)
    is_partial = start + skipped > 0
    frames = Parser(midstream=is_partial).feed(data[skipped:])
    unfinished = len(data) - skipped - sum(len(frame.raw) for frame in frames)
    events = sum(frame.kind is FrameKind.MESSAGE for frame in frames)
    shown = deque((frame for frame in frames if frame.kind not in _SKIPPED), maxlen=_SHOWN_EVENTS)
    if is_partial or events > len(shown):
        yield f"The last events of {count_of(start + len(data), 'byte')}{_hint(metadata)}"
    else:
        yield f"{count_of(events, 'event')}, {count_of(len(data), 'byte')}"
    yield _HEADING
    hidden = events - sum(frame.kind is FrameKind.MESSAGE for frame in shown)
    yield from _lines(shown, None if is_partial else hidden, _format_of(flow))
    if unfinished:
        yield f"{'…':>7}  {count_of(unfinished, 'byte')} of an unfinished event"
    if problem:
        yield f"Not decoded further: {shorten(problem)}."


def _decode(body: bytes, encoding: str | None) -> tuple[bytes, str]:
    """Decode a body as far as possible; return why the rest is not decoded."""
    if not encoding:
        return body, ""
    decoded, problem = decode_beginning(encoding, [body], _DECODED_BYTES + 1)
    if len(decoded) > _DECODED_BYTES:
        return decoded[:_DECODED_BYTES], f"more than {_DECODED_BYTES >> 20} MiB"
    return decoded, problem


def _hint(metadata: dict[str, Any]) -> str:
    """Return how to show the whole stream, if it was recorded."""
    recording, exchange = metadata.get(RECORDING_KEY), metadata.get(EXCHANGE_KEY)
    return f"; show all with: wiretape show {quote(printable(recording))} --exchange {exchange}" if recording else ""


def _format_of(flow: Flow | None) -> EventFormat:
    """Return how the events of a flow are read."""
    request = flow.request if isinstance(flow, HTTPFlow) else None
    return PLAIN if request is None else detected_contracts().find_format(request.method, request.path)


def _lines(frames: Iterable[Frame], number: int | None, event_format: EventFormat) -> Iterator[str]:
    """Yield a line for each event, and one for consecutive comments; `number` counts the events before."""
    for kind, group in groupby(frames, lambda frame: frame.kind):
        if kind is FrameKind.COMMENT:
            *others, last = group
            yield f"{'':17}╌╌ {count_of(len(others) + 1, 'comment')} ╌╌  {_begin(last.raw)}"
            continue
        for frame in group:
            label = "large"
            if kind is FrameKind.MESSAGE:
                number = None if number is None else number + 1
                label = "" if number is None else str(number)
            yield f"{label:>7}  {_cells(frame, event_format)}".rstrip()


def _cells(frame: Frame, event_format: EventFormat) -> str:
    event = make_event(0, frame, 0, 0, event_format)
    cells = (
        f"{'·' if event.sequence is None else shorten(str(event.sequence), _LONGEST_NAME):>6}",
        f"{shorten(event.type or event.name, _LONGEST_NAME):<22}",
        shorten(event.id or "", _LONGEST_NAME),
        _begin(event.data) if event.has_data else event.note,
    )
    return "  ".join(filter(None, cells))


def _begin(data: bytes) -> str:
    """Return the beginning of some text; a character has at most four bytes."""
    return shorten(data[: 4 * _LONGEST + 4].decode("utf-8", "replace").rstrip("\r\n"), _LONGEST)


class KeptBody:
    """The part of a body that is shown: the end of an event stream, the beginning of any other body."""

    def __init__(self, *, keep_end: bool) -> None:
        self.size = 0
        """Bytes so far."""
        self.attached_size = 0
        """Bytes so far when the body was last attached to the flow."""
        self._keep_end = keep_end
        self._data = bytearray()

    @property
    def start(self) -> int:
        """Offset in the body of the first byte that is kept."""
        return self.size - len(self._data) if self._keep_end else 0

    def add(self, data: bytes) -> None:
        """Append a chunk."""
        self.size += len(data)
        if self._keep_end:
            self._data += data
            del self._data[:-KEPT_BYTES]  # takes no time: bytes at the beginning are not moved
        else:
            self._data += data[: KEPT_BYTES - len(self._data)]

    def content(self) -> bytes:
        """Return the kept bytes."""
        return bytes(self._data)


@dataclass(slots=True)
class _Annotation:
    """The findings about a flow."""

    counts: Counter[str] = field(default_factory=Counter)
    severities: set[str] = field(default_factory=set)
    comment: str = ""
    marker: str = ""

    def add(self, finding: FindingCount) -> None:
        self.counts[finding.code] += finding.count
        self.severities.add(finding.severity)

    def put_on(self, flow: HTTPFlow) -> None:
        """Set the flow's comment and marker, unless the user did."""
        comment = ", ".join(code if count == 1 else f"{code} ×{count}" for code, count in self.counts.items())  # noqa: RUF001
        if flow.comment in {"", self.comment}:
            flow.comment = self.comment = comment
        marker = next(marker for severity, marker in _MARKERS.items() if severity in self.severities)
        if flow.marked in {"", self.marker}:
            flow.marked = self.marker = marker


class FlowDisplay:
    """Keeps a part of each body, and attaches it to the flow, because mitmproxy keeps nothing of streamed bodies."""

    def __init__(self, master: Master, recording: str) -> None:
        self._master = master
        self._recording = recording
        self._open: dict[str, tuple[HTTPFlow, dict[Side, KeptBody]]] = {}
        # The master decides how long a flow exists.
        self._flows: WeakValueDictionary[int, HTTPFlow] = WeakValueDictionary()
        self._annotations: WeakKeyDictionary[HTTPFlow, _Annotation] = WeakKeyDictionary()
        self._changed: dict[str, HTTPFlow] = {}
        install()

    def begin(self, flow: HTTPFlow, exchange: int) -> None:
        """Show findings about this exchange of the recording on this flow."""
        self._flows[exchange] = flow
        self._open[flow.id] = (flow, {})
        flow.metadata[RECORDING_KEY] = self._recording
        flow.metadata[EXCHANGE_KEY] = exchange

    def body_tap(self, flow: HTTPFlow, side: Side, tap: BodyTap) -> BodyTap:
        """Return a tap that keeps what it forwards to `tap`."""
        headers = flow.response.headers if side is Side.RESPONSE and flow.response is not None else {}
        # Nothing of an encoded stream can be decoded without its beginning.
        keep_end = is_event_stream(headers.get("content-type")) and is_identity(headers.get("content-encoding"))
        body = self._open[flow.id][1][side] = KeptBody(keep_end=keep_end)
        add = body.add

        def keeping_tap(data: bytes) -> bytes | list[bytes]:
            add(data)
            return tap(data)

        return keeping_tap

    def end(self, flow: HTTPFlow) -> None:
        """Attach the rest of the bodies: the exchange ended."""
        for side, body in self._open.pop(flow.id, (flow, {}))[1].items():
            _attach(flow, side, body)

    def add_findings(self, status: RecorderStatus) -> None:
        """Take over new findings; `refresh` shows them."""
        for finding in status.new_findings:
            flow = self._flows.get(finding.exchange)
            if flow is not None:
                annotation = self._annotations.setdefault(flow, _Annotation())
                annotation.add(finding)
                annotation.put_on(flow)
                self._changed[flow.id] = flow

    async def refresh(self) -> None:
        """Update the interface with new bytes and findings."""
        changed, self._changed = self._changed, {}
        for flow, bodies in self._open.values():
            for side, body in bodies.items():
                if body.size > body.attached_size:
                    _attach(flow, side, body)
                    changed[flow.id] = flow
        if changed:
            await self._master.addons.trigger_event(UpdateHook(list(changed.values())))


def _attach(flow: HTTPFlow, side: Side, body: KeptBody) -> None:
    message = flow.request if side is Side.REQUEST else flow.response
    if message is not None:
        # Setting `content` would encode it, and change the message's headers.
        message.raw_content = body.content()
        body.attached_size = body.size
        if side is Side.RESPONSE:
            flow.metadata[START_KEY] = body.start
