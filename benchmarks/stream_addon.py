"""Stream all responses in stock mitmdump."""

from mitmproxy.http import HTTPFlow


def responseheaders(flow: HTTPFlow) -> None:
    assert flow.response
    flow.response.stream = True
