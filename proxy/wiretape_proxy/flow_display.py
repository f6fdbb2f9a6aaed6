"""Show recorded flows in mitmweb and the mitmproxy console: bodies, and findings as markers and comments."""

from collections import Counter
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from mitmproxy.hooks import UpdateHook
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master

from wiretape.content_encoding import is_identity
from wiretape.observations import Side
from wiretape.sse import is_event_stream
from wiretape_proxy import contentview
from wiretape_proxy.ipc_codec import BodyTap
from wiretape_proxy.recorder_messages import FindingCount, RecorderStatus

KEPT_BYTES = 1 << 20
"""Bytes of a body that are kept."""
_MARKERS = {"error": ":red_circle:", "warning": ":warning:", "note": ":large_blue_circle:"}
"""Markers by severity, worst first."""


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
        contentview.install()

    def begin(self, flow: HTTPFlow, exchange: int) -> None:
        """Show findings about this exchange of the recording on this flow."""
        self._flows[exchange] = flow
        self._open[flow.id] = (flow, {})
        flow.metadata[contentview.RECORDING_KEY] = self._recording
        flow.metadata[contentview.EXCHANGE_KEY] = exchange

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
            flow.metadata[contentview.START_KEY] = body.start
