"""The contentview `SSE`, which shows event streams in mitmweb and the mitmproxy console, one line per event."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from shlex import quote
from typing import Any

from mitmproxy import contentviews
from mitmproxy.flow import Flow
from mitmproxy.http import HTTPFlow, Message

from wiretape.content_encoding import decode_beginning
from wiretape.contract.contract_facts import detected_contracts
from wiretape.event import make_event
from wiretape.event_format import PLAIN, EventFormat
from wiretape.labels import count_of
from wiretape.safe_text import printable, shorten
from wiretape.sse import Frame, FrameKind, Parser, is_event_stream

NAME = "SSE"
START_KEY = "wiretape_start"
"""Flow metadata: offset in the stream of the first byte of the body that is attached to the flow."""
RECORDING_KEY = "wiretape_recording"
"""Flow metadata: path of the recording."""
EXCHANGE_KEY = "wiretape_exchange"
"""Flow metadata: number of the exchange in the recording."""

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
