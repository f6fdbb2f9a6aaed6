"""When bytes are sent: planned delays are tested exactly, real ones by their order and lower bounds."""

import math
import time

import pytest
from for_each import for_each

from wiretape.errors import InputError
from wiretape.observations import Ending, Side
from wiretape.recording import open_recording
from wiretape.units import parse_speed
from wiretape_replay.verbatim.verbatim_player import plan_response

MS = 1_000_000


def test_delays_count_from_the_end_of_the_request(builder):
    """A client that uploads faster than the recorded one does not wait."""
    builder.exchange([(5, b"a"), (20, b"b")], body=b"upload", method="POST", wait_ms=7)
    with open_recording(builder.close()) as recording:
        plan = plan_response(recording.exchange(1))
        chunks = list(plan.chunks(recording.body(1, Side.RESPONSE)))

    assert plan.head_ns == 1 * MS
    assert [(delay_ns, len(data)) for delay_ns, data in chunks] == [(6 * MS, 1), (26 * MS, 1)]
    assert plan.end_ns == 33 * MS


def test_delays_after_an_incomplete_request_count_from_its_head(builder):
    builder.exchange([b"a"], body=None, ending=Ending.SERVICE_CLOSED)
    with open_recording(builder.close()) as recording:
        assert plan_response(recording.exchange(1)).head_ns == 1 * MS


def test_at_recorded_speed_nothing_is_early_and_two_streams_keep_their_order(builder, serve, call):
    builder.exchange([(10, b"1"), (140, b"3")], target="/a", wait_ms=60)
    builder.exchange([(80, b"2"), (110, b"4")], target="/b", wait_ms=60)
    url = serve(builder.close(), speed=1).url
    one, other = call(url), call(url)
    began = time.monotonic()
    one.ask("/a", extra="Connection: close\r\n")
    other.ask("/b", extra="Connection: close\r\n")
    moments = []
    for caller, mark in ((one, b"\r\n1\r\n"), (other, b"\r\n2\r\n"), (one, b"\r\n3\r\n"), (other, b"\r\n4\r\n")):
        caller.read_past(mark)
        moments.append(time.monotonic() - began)
    one.read()
    ended = time.monotonic() - began

    assert all(moment >= due / 1000 for moment, due in zip(moments, (11, 81, 151, 191), strict=True))
    assert ended >= 0.211


def test_at_ten_times_the_speed_it_takes_a_tenth_of_the_time(builder, serve, call):
    builder.exchange([(1000, b"1"), (1000, b"2")])
    caller = call(serve(builder.close(), speed=10).url)
    began = time.monotonic()
    caller.ask(extra="Connection: close\r\n")
    caller.read()

    assert 0.2 <= time.monotonic() - began < 1.5


@pytest.mark.parametrize("ending", [Ending.COMPLETE, Ending.SERVICE_RESET])
def test_at_speed_max_nothing_is_delayed(builder, serve, call, ending):
    """The recording has an hour between two chunks, and another before the end."""
    builder.exchange([b"1", (3_600_000, b"2")], ending=ending, wait_ms=3_600_000)
    caller = call(serve(builder.close(), speed="max").url)
    caller.ask(extra="Connection: close\r\n")

    assert b"\r\n2\r\n" in caller.read().body


@for_each(("speed", "number"), [("max", math.inf), ("1", 1), ("2.5", 2.5), (10, 10), ("1e3", 1000)])
def test_a_speed_is_a_number_or_max(speed, number):
    assert parse_speed(speed) == number


@for_each("speed", ["0", "-1", "fast", "", "nan", "inf", "1x", 0, -2.0, math.nan])
def test_an_invalid_speed_is_refused(speed):
    with pytest.raises(InputError, match="expected max or a number greater than 0"):
        parse_speed(speed)
