"""The same requests give the same bytes on the wire on every Python: this file contains their digest."""

import hashlib

import pytest

from wiretape.observations import Ending

STREAM = "/v1/sessions/s1/events/stream"
CHUNKED = (("Content-Type", "text/event-stream"), ("X-b", "2"), ("x-A", "1"), ("Transfer-Encoding", "chunked"))
LENGTH = (("Content-Type", "application/json"), ("Content-Length", "28"))
SHORT = (("Content-Type", "application/json"), ("Content-Length", "100"))
UNFRAMED = (("Content-Type", "text/plain; charset=utf-8"), ("Link", "<\xe9>"))
EVENTS = [b"id: 1\r\n", b"data: caf\xc3", b"\xa9\r\n\r\n", b"data: t"]
RECORDED = [
    {"headers": CHUNKED},
    {"headers": CHUNKED, "ending": Ending.SERVICE_CLOSED},
    {"headers": CHUNKED, "ending": Ending.SERVICE_RESET},
    {"headers": LENGTH, "status": 203, "reason": "Fine By Me"},
    {"headers": SHORT, "ending": Ending.SERVICE_CLOSED},
    {"headers": SHORT, "ending": Ending.SERVICE_RESET},
    {"headers": UNFRAMED},
    {"headers": UNFRAMED, "ending": Ending.SERVICE_RESET},
    {"headers": UNFRAMED, "version": "HTTP/1.0"},
    {"headers": UNFRAMED, "version": "HTTP/2.0", "reason": ""},
    {"headers": CHUNKED, "method": "HEAD"},
    {"headers": (), "status": 204, "reason": "No Content"},
    {"headers": LENGTH, "status": 304, "reason": "Not Modified"},
    {"status": None, "ending": Ending.SERVICE_CLOSED},
    {"status": None, "ending": Ending.SERVICE_RESET},
]
DIGEST = "13b1ca8a0070850a5365b7c7b78078b7e2f6502d88ae8e7de353e41de296b53f"
"""SHA-256 of everything that the client below receives.  It changes only when a byte on the wire changes."""


def everything(url, call) -> str:
    """Send every recorded request and others; return the digest of the responses and their endings."""
    digest = hashlib.sha256()
    for number, recorded in enumerate(RECORDED):
        for version in ("HTTP/1.1", "HTTP/1.0"):
            caller = call(url)
            method = recorded.get("method", "GET")
            caller.ask(f"{STREAM}?n={number}", method=method, version=version, extra="Connection: close\r\n")
            seen = caller.read()
            digest.update(b"%d %b %b\n" % (number, seen.how.encode(), seen.data))
    caller = call(url)
    caller.ask(f"{STREAM}?n=0")
    caller.ask("/v1/none?a=1")
    caller.ask("/v1/none", method="HEAD", extra="Connection: close\r\n")
    digest.update(caller.read().data)
    return digest.hexdigest()


@pytest.fixture
def recording(builder):
    for number, recorded in enumerate(RECORDED):
        for _ in range(2):
            builder.exchange(EVENTS, target=f"{STREAM}?n={number}", **recorded)
    return builder.close()


@pytest.mark.parametrize("run", ["first", "second"])
def test_the_bytes_on_the_wire_are_the_same_in_every_run_and_on_every_python(recording, serve, call, run):
    assert everything(serve(recording).url, call) == DIGEST
