"""What the recording does not show, or what was not checked."""

import gzip
from functools import partial

import pytest
from for_each import for_each
from wire import Wire

from wiretape.rules import Verdict

FAMILIES = {"REC"}
WIRE = partial(Wire, families=FAMILIES)
OTHER = "GET /feed"


def encoded(coding):
    return {"Content-Type": "text/event-stream", "Content-Encoding": coding}


@pytest.mark.parametrize("request_", ["GET /v1/sessions/ses_1/events/stream", OTHER])
def test_an_oversized_event_is_counted_and_reported(wire, event, request_):
    large = [b"data: " + b"x" * (1 << 20) + b"\n"] * 33
    comment = b"\n" + event(3).encode() + b":" + b"x" * (1 << 24) + b"\n"
    wire.stream(event(1), *large, comment, event(4), request=request_)
    (finding,) = wire.findings
    assert (finding.code, finding.event, finding.byte_offset) == ("REC003", None, len(event(1)))
    assert wire.checker.events == 4


@for_each("request_", ["GET /v1/sessions/ses_1/events/stream", OTHER])
@for_each(
    ("coding", "data", "reason"),
    [
        ("gzip", b"not gzip at all", "incorrect header check."),
        ("secret", b"\0\1", "Content-Encoding 'secret' is not known."),
        ("gzip", gzip.compress(b"\n" * 10_000_000), "it decodes to more than 8 MiB and 32 times its size."),
    ],
    ids=["invalid", "unknown", "bomb"],
    wire=WIRE,
)
def test_a_stream_that_cannot_be_decoded_is_reported(wire, request_, coding, data, reason):
    assert wire.stream(data, data, headers=encoded(coding), request=request_) == ["REC003"]
    (finding,) = wire.findings
    assert finding.message.endswith(reason)
    assert finding.time_ns == 3


@pytest.mark.parametrize("parts", [(7, b"x"), (7,), (b"not gzip", 7)])
def test_lost_bytes_of_an_encoded_stream_are_reported_once(wire, parts):
    assert wire.stream(*parts, headers=encoded("gzip")) == ["REC001"]
    assert wire.verdict("REC003") is Verdict.NOT_EXERCISED
