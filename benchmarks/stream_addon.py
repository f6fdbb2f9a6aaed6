"""Stock mitmdump's way to let an event stream pass."""

from mitmproxy.http import HTTPFlow


def responseheaders(flow: HTTPFlow) -> None:
    assert flow.response
    flow.response.stream = True
