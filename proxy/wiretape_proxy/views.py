"""Bodies for the eyes of mitmproxy's own interfaces, which show nothing of a streamed one."""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from mitmproxy.hooks import UpdateHook
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master

from wiretape.observe import Side
from wiretape_proxy.marks import Marks
from wiretape_proxy.notes import Tap
from wiretape_proxy.reports import Progress

MOST_BYTES = 1 << 20
"""How much of a body is shown."""


@dataclass(slots=True, eq=False)
class _Shown:
    flow: HTTPFlow
    bodies: dict[Side, bytearray] = field(default_factory=dict)
    fresh: bool = False
    """Whether bytes came since the body was last attached."""


class Views:
    """Keeps the beginning of each body and attaches it to the flow, while it streams and afterwards."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self._shown: dict[str, _Shown] = {}
        # The master decides how long there is a flow to mark.
        self._flows: WeakValueDictionary[int, HTTPFlow] = WeakValueDictionary()
        self._marks: WeakKeyDictionary[HTTPFlow, Marks] = WeakKeyDictionary()
        self._marked: dict[str, HTTPFlow] = {}

    @classmethod
    def of(cls, master: Master) -> "Views | None":
        """For a master that shows flows to somebody; None for the others, which need no bodies in memory."""
        return cls(master) if master.addons.get("view") is not None else None

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

    def keep(self, flow: HTTPFlow, side: Side, tap: Tap) -> Tap:
        """A tap that keeps what it sees."""
        shown = self._shown.setdefault(flow.id, _Shown(flow))
        body = shown.bodies.setdefault(side, bytearray())

        def keeping(data: bytes) -> bytes | list[bytes]:
            if len(body) < MOST_BYTES:
                body.extend(data[: MOST_BYTES - len(body)])
                shown.fresh = True
            return tap(data)

        return keeping

    def settle(self, flow: HTTPFlow) -> None:
        """The exchange is over: attach what there is."""
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
        if changed:
            await self._master.addons.trigger_event(UpdateHook(list(changed.values())))


def _attach(shown: _Shown) -> None:
    shown.fresh = False
    for side, body in shown.bodies.items():
        message = shown.flow.request if side is Side.REQUEST else shown.flow.response
        if message is not None:
            # Setting `content` would encode it, and change the message's headers.
            message.data.content = bytes(body)
