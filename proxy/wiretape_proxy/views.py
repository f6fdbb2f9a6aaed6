"""Bodies for the eyes of mitmproxy's own interfaces, which show nothing of a streamed one."""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from mitmproxy.flow import Flow
from mitmproxy.hooks import UpdateHook
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master

from wiretape.contract import is_event_stream
from wiretape.observations import Ending, Side
from wiretape_proxy import contentview, internals
from wiretape_proxy.marks import Marks
from wiretape_proxy.notes import Tap
from wiretape_proxy.reports import Progress
from wiretape_proxy.streams import Stream
from wiretape_proxy.tail import Beginning, Tail


@dataclass(slots=True, eq=False)
class _Shown:
    flow: HTTPFlow
    bodies: dict[Side, Beginning | Tail] = field(default_factory=dict)
    fresh: bool = False
    """Whether bytes came since the body was last attached."""


class Views:
    """Keeps some of each body and attaches it to the flow, while it streams and afterwards.

    Of event streams it is the end of the body that is kept, otherwise the beginning.
    """

    def __init__(self, master: Master, recording: str) -> None:
        self._master = master
        self._recording = recording
        self._shown: dict[str, _Shown] = {}
        # The master decides how long there is a flow to mark.
        self._flows: WeakValueDictionary[int, HTTPFlow] = WeakValueDictionary()
        self._marks: WeakKeyDictionary[HTTPFlow, Marks] = WeakKeyDictionary()
        self._marked: dict[str, HTTPFlow] = {}
        self._renewed: dict[str, HTTPFlow] = {}
        self._streams: WeakKeyDictionary[HTTPFlow, Stream] = WeakKeyDictionary()
        contentview.install(self._lines)

    @classmethod
    def of(cls, master: Master, recording: str) -> "Views | None":
        """For a master that shows flows to somebody; None for the others, which need no bodies in memory."""
        return cls(master, recording) if master.addons.get("view") is not None else None

    def watch(self, number: int, flow: HTTPFlow) -> None:
        """Findings about this exchange of the recording are about this flow."""
        self._flows[number] = flow

    def mark(self, progress: Progress) -> None:
        """Take new findings in; `refresh` has them shown."""
        for mark in progress.marks:
            flow = self._flows.get(mark.exchange)
            if flow is not None:
                self._marks.setdefault(flow, Marks()).add(mark)
                self._marked[flow.id] = flow
                self._renew(flow)
        for found in progress.latest:
            flow = self._flows.get(found.exchange)
            if flow is not None:
                self._marks[flow].latest.append(found)

    def keep(self, number: int, flow: HTTPFlow, side: Side, tap: Tap) -> Tap:
        """A tap that keeps what it sees."""
        shown = self._shown.setdefault(flow.id, _Shown(flow))
        body = shown.bodies[side] = self._body(number, flow, side)
        keep = body.keep

        def keeping(data: bytes) -> bytes | list[bytes]:
            if data and keep(data):
                shown.fresh = True
            return tap(data)

        return keeping

    def settle(self, flow: HTTPFlow, ending: Ending) -> None:
        """The exchange is over: attach what there is."""
        if flow in self._streams:
            self._streams[flow].ending = ending
            self._renew(flow)
        shown = self._shown.pop(flow.id, None)
        if shown is not None:
            _attach(shown)

    async def refresh(self) -> None:
        """Attach what came since the last time, and have it shown."""
        changed, self._marked = self._marked, {}
        for flow in changed.values():
            self._marks[flow].put_on(flow)
        for shown in self._shown.values():
            if shown.fresh:
                _attach(shown)
                changed[shown.flow.id] = shown.flow
        renewed, self._renewed = self._renewed, {}
        for flow in renewed.values():
            internals.show_anew(self._master, flow)
        if changed := renewed | changed:
            await self._master.addons.trigger_event(UpdateHook(list(changed.values())))

    def _renew(self, flow: HTTPFlow) -> None:
        """What is shown of a stream is no longer the same, although its body may be."""
        if flow in self._streams:
            self._renewed[flow.id] = flow

    def _body(self, number: int, flow: HTTPFlow, side: Side) -> Beginning | Tail:
        response = flow.response if side is Side.RESPONSE else None
        if response is None or not is_event_stream(response.headers.get("content-type")):
            return Beginning()
        encoding = response.headers.get("content-encoding")
        stream = self._streams[flow] = Stream(self._recording, number, encoding)
        return stream.tail

    def _lines(self, flow: Flow) -> list[str] | None:
        if not isinstance(flow, HTTPFlow) or flow not in self._streams:
            return None
        marks = self._marks.get(flow)
        return self._streams[flow].lines(marks.latest if marks is not None else ())


def _attach(shown: _Shown) -> None:
    shown.fresh = False
    for side, body in shown.bodies.items():
        message = shown.flow.request if side is Side.REQUEST else shown.flow.response
        if message is not None:
            # Setting `content` would encode it, and change the message's headers.
            message.data.content = body.content()
