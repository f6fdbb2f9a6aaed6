"""What the event loop notes comes out of the pipe as it went in, wherever the pipe cuts it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape_proxy.notes import Notes, volume, without_chunks
from wiretape_proxy.wire import Assembler, Unpacker, pack, put, put_stop, subject

EVERY_BYTE = "".join(map(chr, range(256)))
REQUEST = RequestStarted(1, 0, "::1", "GET", "http", "a:1", "/?ü", "HTTP/1.1", (("X", EVERY_BYTE), ("X", "")))
RESPONSE = ResponseStarted(1, 0, 200, "Ökay", "HTTP/2.0", (("content-type", "text/event-stream"),))


def assemble(data, *, step=None, base_ns=0, last_ns=0, first_exchange=1):
    """All observations in the bytes of a pipe that gives so many at once."""
    unpacker, seen = Unpacker(), []
    assembler = Assembler(base_ns=base_ns, last_ns=last_ns, first_exchange=first_exchange)
    for start in range(0, len(data), step or len(data) or 1):
        for batch in unpacker.feed(data[start : start + (step or len(data))]):
            seen += assembler.feed(batch)
    return seen, assembler


def note(time_ns, observation):
    return [time_ns, 0, put(observation)]


def chunk(time_ns, exchange, data, side=Side.RESPONSE):
    return [time_ns, subject(exchange, side), data]


def test_observations_come_back_with_the_time_of_their_note():
    lost = BytesLost(1, 0, Side.RESPONSE, 0, 5, "why")
    ended = ExchangeEnded(1, 0, Ending.SERVICE_RESET, "detail")
    observations = [REQUEST, RequestEnded(1, 0), RESPONSE, lost, ended]
    notes = [value for number, seen in enumerate(observations, 1) for value in note(number * 10, seen)]

    seen, _ = assemble(pack(notes))

    assert [one.time_ns for one in seen] == [10, 20, 30, 40, 50]
    assert [type(one) for one in seen] == [type(one) for one in observations]
    assert (seen[0].headers, seen[0].target, seen[2].reason) == (REQUEST.headers, REQUEST.target, RESPONSE.reason)
    assert (seen[3].side, seen[3].why, seen[4].ending) == (Side.RESPONSE, "why", Ending.SERVICE_RESET)


def test_consecutive_chunks_of_a_body_are_one_run():
    notes = [*chunk(1, 1, b"ab"), *chunk(2, 1, b"c"), *chunk(3, 2, b"x"), *chunk(4, 1, b"d")]
    notes += chunk(5, 1, b"up", Side.REQUEST)

    seen, _ = assemble(pack(notes))

    assert seen == [
        BytesArrived(1, Side.RESPONSE, 0, b"abc", [2, 3], [1, 2]),
        BytesArrived(2, Side.RESPONSE, 0, b"x", [1], [3]),
        BytesArrived(1, Side.RESPONSE, 3, b"d", [4], [4]),
        BytesArrived(1, Side.REQUEST, 0, b"up", [2], [5]),
    ]


def test_times_count_from_the_base_and_strictly_increase():
    notes = [*chunk(1000, 1, b"a"), *chunk(1000, 1, b"b"), *chunk(1500, 1, b"c"), *chunk(1400, 1, b"d")]

    (seen,), assembler = assemble(pack(notes), base_ns=900, last_ns=150)

    assert seen.times == [151, 152, 600, 601]
    assert assembler.now(0) == 602


def test_exchanges_are_numbered_on():
    seen, _ = assemble(pack([*note(1, REQUEST), *chunk(2, 1, b"a")]), first_exchange=41)

    assert [one.exchange for one in seen] == [41, 41]


def test_bytes_behind_a_loss_stand_where_they_stood():
    notes = [*chunk(1, 1, b"ab"), *note(2, BytesLost(1, 0, Side.RESPONSE, 0, 5, "why")), *chunk(3, 1, b"c")]

    seen, assembler = assemble(pack(notes))

    assert [(one.start, getattr(one, "count", None)) for one in seen] == [(0, None), (2, 5), (7, None)]
    assert assembler.lost_bytes == 5


def test_the_word_that_the_proxy_ends_is_no_observation():
    seen, assembler = assemble(pack([*chunk(1, 1, b"a"), 2, 0, put_stop()]))

    assert len(seen) == 1
    assert assembler.stopped


notes_lists = st.lists(
    st.builds(chunk, st.integers(1, 10**18), st.integers(1, 4), st.binary(max_size=40), st.sampled_from(Side)),
    max_size=20,
).map(lambda chunks: [value for one in chunks for value in one])


@given(st.lists(notes_lists, max_size=4), st.integers(1, 64))
def test_wherever_the_pipe_cuts_the_same_comes_out(batches, step):
    data = b"".join(map(pack, batches))

    assert assemble(data, step=step)[0] == assemble(data)[0]
    bodies = {}
    for notes in batches:
        for about, content in zip(notes[1::3], notes[2::3], strict=True):
            bodies[about] = bodies.get(about, b"") + content
    found = {}
    for run in assemble(data)[0]:
        about = subject(run.exchange, run.side)
        found[about] = found.get(about, b"") + run.data
        assert run.start == len(found[about]) - len(run.data)
        assert run.ends[-1] == run.end
    assert found == bodies


def test_a_batch_that_is_cut_off_is_not_given_out():
    data = pack(chunk(1, 1, b"abc"))

    assert [assemble(data[:size])[0] for size in range(len(data))] == [[]] * len(data)


def test_a_batch_too_large_for_its_columns_is_refused():
    with pytest.raises((OverflowError, struct.error)):
        pack(chunk(2**63, 1, b""))


def test_a_tap_notes_and_hands_on():
    notes = Notes()
    tap = notes.tap(3, Side.REQUEST)
    data = b"abc"

    assert tap(data) is data
    assert list(tap(b"")) == []

    time_ns, about, content = notes.take()
    assert (about, content) == (subject(3, Side.REQUEST), b"abc")
    assert time_ns > 0
    assert notes.take() == []


def test_leaving_chunks_out_leaves_one_loss_a_body_before_its_end():
    ended = ExchangeEnded(1, 0, Ending.COMPLETE)
    notes = [*chunk(10, 1, b"ab"), *chunk(20, 2, b"x"), *chunk(30, 1, b"c"), *note(40, ended), *chunk(50, 2, b"y")]

    kept = without_chunks(notes, "why")

    seen, _ = assemble(pack(kept))
    assert seen == [
        BytesLost(1, 10, Side.RESPONSE, 0, 3, "why"),
        BytesLost(2, 20, Side.RESPONSE, 0, 2, "why"),
        ExchangeEnded(1, 40, Ending.COMPLETE),
    ]
    assert volume(notes) == 5


def test_before_an_end_there_is_room_for_what_the_writer_held_back():
    """However coarse the clock, an end comes 3 ns after what came before it (see `Writer.feed`)."""
    notes = [*chunk(10, 1, b"ab"), *note(10, ExchangeEnded(1, 0, Ending.COMPLETE))]

    (run, ended), _ = assemble(pack(notes))

    assert ended.time_ns - run.times[-1] >= 3
