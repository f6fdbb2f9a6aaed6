"""What JSON paths select is overwritten, however the body is cut into chunks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, Headers, ResponseStarted, Side
from wiretape.recording import RedactionPolicy, Redactor, body_redaction
from wiretape.recording.body_redaction import BodyRedactor

STREAM = (("Content-Type", "text/event-stream"),)
JSON = (("Content-Type", "application/json"),)
EVENT = b'id: 1\r\ndata: {"pin": "%b",\r\ndata: "n": 1}\r\n\r\n'
PINS = (("1\u00e9\u20ac9", -1.5), ("****", "0   "))
"""A pin in JSON, and what replaces it."""
BODIES = {
    "JSON": ((), b' {"a": [{"pin": "1234"}, 5], "pin": -1.5e3}', b' {"a": [{"pin": "****"}, 5], "pin": 0     }'),
    "a list": ((), b'[["x"], {"pin": {"b": true, "c": "\\"z"}}]', b'[["x"], {"pin": {"b": null, "c": "***"}}]'),
    "text": ((), b"[draft] the pin is 1234", b"[draft] the pin is 1234"),
    "JSON that is cut off": ((), b'{"pin": "1234', b"*************"),
    "a stream": (STREAM, EVENT % b"12" + b": 1\n\n" + EVENT % b"3", EVENT % b"**" + b": 1\n\n" + EVENT % b"*"),
    "a stream that is cut off": (STREAM, EVENT % b"12" + b'data: {"pin', EVENT % b"**" + b"***********"),
    "an event that cannot be read": (STREAM, b'data: {"pin":\ndata: NaN}\n\n', b"data: *******\ndata: ****\n\n"),
    "JSON after a byte order mark": ((), b'\xef\xbb\xbf{"pin": "12"}', b'\xef\xbb\xbf{"pin": "**"}'),
    **{
        f"JSON in {codec}{' with a byte order mark' * bool(mark)}": (
            (),
            *(
                f'{mark} [{{"\u0448": "\U0001f600", "pin": "{pin}", "a": {{"pin": {number}}}}}]'.encode(codec)
                for pin, number in PINS
            ),
        )
        for codec in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        for mark in ("", "\ufeff")
    },
    "UTF-16 that is cut off": ((), '{"pin": "12'.encode("utf-16"), b"*" * 24),
    "events without their type": ((), EVENT % b"12" + b": 1\n\n", EVENT % b"**" + b": 1\n\n"),
    "events of JSON's type": (JSON, b'\xef\xbb\xbfdata:{"pin":"12"}\n\n', b'\xef\xbb\xbfdata:{"pin":"**"}\n\n'),
    "data lines of every form": (
        STREAM,
        b'database: 1\ndata\ndata:{"pin":\ndata: "12"}\n\n',
        b'database: 1\ndata\ndata:{"pin":\ndata: "**"}\n\n',
    ),
    "JSON of the type of events": (STREAM, b'{"pin": "12"}\n\n', b'{"pin": "**"}\n\n'),
    "text like events": ((), b"date: 1\n", b"date: 1\n"),
    "an encoded body": ((("Content-Encoding", "br"),), b"\x00\x01\x02", b"***"),
}


def begin(headers: Headers = ()) -> BodyRedactor:
    redactor = BodyRedactor(Redactor(b"salt", RedactionPolicy(paths=("$..pin",))))
    redactor.begin(ResponseStarted(1, 1, 200, "OK", "HTTP/1.1", headers))
    return redactor


def run(data: bytes, start: int, ends: list[int], now: int) -> BytesArrived:
    return BytesArrived(1, Side.RESPONSE, start, data, ends, range(now, now + len(ends)))


@pytest.mark.parametrize("kind", BODIES)
@given(data=st.data())
def test_the_result_is_the_same_however_a_body_is_cut(kind: str, data: st.DataObject) -> None:
    """Runs join, and have a time for each chunk."""
    headers, body, expected = BODIES[kind]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=6)))
    runs = sorted(data.draw(st.sets(st.sampled_from([0, *cuts])))) if cuts else []
    redactor = begin(headers)
    stored = []
    for first, last in pairwise([0, *(at for at in runs if at), len(body)]):
        ends = [*(cut for cut in cuts if first < cut < last), last]
        stored.append(redactor.redact(run(body[first:last], first, ends, 10 + first)))
    stored += redactor.end(ExchangeEnded(1, 1000, Ending.COMPLETE), 999)
    found = [each for each in stored if each is not None]
    assert b"".join(each.data for each in found) == expected
    assert [each.start for each in found[1:]] == [each.end for each in found[:-1]]
    assert all(each.ends[-1] == each.end and len(each.ends) == len(each.times) for each in found)


def test_after_lost_bytes_an_event_is_overwritten_up_to_the_next_one() -> None:
    """What is left of it may be a secret."""
    redactor = begin(STREAM)
    event = EVENT % b"1234"
    assert redactor.redact(run(event[:20], 0, [20], 10)) is None
    (rest,) = redactor.end(BytesLost(1, 12, Side.RESPONSE, 20, 5, "why"), 10)
    assert (rest.data, rest.times) == (b"*" * 20, (11,))
    after = redactor.redact(run(event[25:] + event, 25, [25 + len(event) * 2 - 25], 13))
    assert after is not None
    assert (after.start, after.data) == (25, b"*" * (len(event) - 25) + EVENT % b"****")


def test_a_long_body_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take too much memory."""
    monkeypatch.setattr(body_redaction, "DEFAULT_LIMIT", 10)
    redactor = begin()
    body = b'{"pin": 1234, "x": 1}'
    assert redactor.redact(run(body[:5], 0, [5], 10)) is None
    stored = [redactor.redact(run(body[5:15], 5, [15], 11)), redactor.redact(run(body[15:], 15, [21], 12))]
    assert [each.data for each in stored if each is not None] == [b"*" * 15, b"*" * 6]
