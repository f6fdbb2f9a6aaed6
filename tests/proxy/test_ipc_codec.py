"""Captured traffic survives the pipe to the recorder, however the pipe splits it."""

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
from wiretape_proxy.ipc_codec import (
    BatchReader,
    CaptureBuffer,
    ObservationDecoder,
    body_key,
    count_body_bytes,
    drop_chunks,
    encode_observation,
    pack_batch,
)

EVERY_BYTE = "".join(map(chr, range(256)))
REQUEST = RequestStarted(1, 0, "::1", "GET", "http", "a:1", "/?ü", "HTTP/1.1", (("X", EVERY_BYTE), ("X", "")))
RESPONSE = ResponseStarted(1, 0, 200, "Ökay", "HTTP/2.0", (("content-type", "text/event-stream"),))


def decode(data, *, step=None, base_ns=0, last_ns=0, first_exchange=1):
    """Decode the bytes of a pipe, `step` bytes at a time."""
    reader, observations = BatchReader(), []
    decoder = ObservationDecoder(base_ns=base_ns, last_ns=last_ns, first_exchange=first_exchange)
    for start in range(0, len(data), step or len(data) or 1):
        observations += decoder.feed(reader.feed(data[start : start + (step or len(data))]))
    return observations, decoder


def entry(time_ns, observation):
    return [time_ns, 0, encode_observation(observation)]


def chunk(time_ns, exchange, data, side=Side.RESPONSE):
    return [time_ns, body_key(exchange, side), data]


def test_an_observation_gets_the_time_of_its_entry():
    lost = BytesLost(1, 0, Side.RESPONSE, 0, 5, "why")
    ended = ExchangeEnded(1, 0, Ending.SERVICE_RESET, "detail")
    observations = [REQUEST, RequestEnded(1, 0), RESPONSE, lost, ended]
    entries = [value for number, seen in enumerate(observations, 1) for value in entry(number * 10, seen)]

    seen, _ = decode(pack_batch(entries))

    assert [one.time_ns for one in seen] == [10, 20, 30, 40, 50]
    assert [type(one) for one in seen] == [type(one) for one in observations]
    assert (seen[0].headers, seen[0].target, seen[2].reason) == (REQUEST.headers, REQUEST.target, RESPONSE.reason)
    assert (seen[3].side, seen[3].why, seen[4].ending) == (Side.RESPONSE, "why", Ending.SERVICE_RESET)


def test_chunks_of_a_body_between_two_messages_become_one_observation():
    batches = [[*chunk(1, 1, b"ab"), *chunk(2, 1, b"c"), *chunk(3, 2, b"x")], [*chunk(4, 1, b"d")]]
    batches[1] += [*chunk(5, 1, b"up", Side.REQUEST), *entry(6, RequestEnded(1, 0)), *chunk(20, 1, b"e")]

    seen, _ = decode(b"".join(map(pack_batch, batches)))

    assert seen == [
        BytesArrived(1, Side.RESPONSE, 0, b"abcd", [2, 3, 4], [1, 2, 4]),
        BytesArrived(2, Side.RESPONSE, 0, b"x", [1], [3]),
        BytesArrived(1, Side.REQUEST, 0, b"up", [2], [5]),
        RequestEnded(1, 10),
        BytesArrived(1, Side.RESPONSE, 4, b"e", [5], [20]),
    ]


def test_times_count_from_the_base_and_strictly_increase():
    entries = [*chunk(1000, 1, b"a"), *chunk(1000, 1, b"b"), *chunk(1500, 1, b"c"), *chunk(1400, 1, b"d")]

    (seen,), decoder = decode(pack_batch(entries), base_ns=900, last_ns=150, first_exchange=41)

    assert (seen.exchange, seen.times) == (41, [151, 152, 600, 601])
    assert decoder.time_at(0) == 602


def test_bytes_after_a_loss_keep_their_offset():
    entries = [*chunk(1, 1, b"ab"), *entry(2, BytesLost(1, 0, Side.RESPONSE, 0, 5, "why")), *chunk(3, 1, b"c")]

    seen, decoder = decode(pack_batch(entries))

    assert [(one.start, getattr(one, "count", None)) for one in seen] == [(0, None), (2, 5), (7, None)]
    assert decoder.lost_bytes == 5


entry_lists = st.lists(
    st.builds(chunk, st.integers(1, 10**18), st.integers(1, 4), st.binary(max_size=40), st.sampled_from(Side)),
    max_size=20,
).map(lambda chunks: [value for one in chunks for value in one])


@given(st.lists(entry_lists, max_size=4), st.integers(1, 64))
def test_no_chunk_is_lost_or_moved_however_the_pipe_splits_the_bytes(batches, step):
    data = b"".join(map(pack_batch, batches))
    whole, divided = (decode(data, step=size)[0] for size in (None, step))

    sent = [value for entries in batches for value in zip(entries[1::3], entries[2::3], strict=True)]
    for seen in (whole, divided):
        found = sorted(
            (time_ns, body_key(run.exchange, run.side), part) for run in seen for time_ns, part in run.chunks()
        )
        assert [(key, part) for _, key, part in found] == sent
        sizes = {}
        for run in seen:
            assert run.start == sizes.get((run.exchange, run.side), 0)
            sizes[run.exchange, run.side] = run.end


def test_a_tap_records_chunks_and_forwards_them():
    buffer = CaptureBuffer()
    tap = buffer.body_tap(3, Side.REQUEST)
    data = b"abc"

    assert tap(data) is data
    assert list(tap(b"")) == []

    time_ns, key, content = buffer.take()
    assert (key, content, time_ns > 0) == (body_key(3, Side.REQUEST), b"abc", True)
    assert buffer.take() == []


def test_an_overdue_buffer_is_flushed_within_the_iteration_of_the_event_loop():
    buffer, taken = CaptureBuffer(), []
    buffer.on_overdue = lambda: taken.append(buffer.take()[2::3])
    tap = buffer.body_tap(1, Side.RESPONSE)
    tap(b"a")
    buffer.due_ns = 0
    tap(b"b")
    assert taken == [[b"a", b"b"]]


def test_dropping_chunks_leaves_one_loss_per_body_before_its_end():
    ended = ExchangeEnded(1, 0, Ending.COMPLETE)
    entries = [*chunk(10, 1, b"ab"), *chunk(20, 2, b"x"), *chunk(30, 1, b"c"), *entry(40, ended), *chunk(50, 2, b"y")]

    kept = drop_chunks(entries, "why")

    seen, _ = decode(pack_batch(kept))
    assert seen == [
        BytesLost(1, 10, Side.RESPONSE, 0, 3, "why"),
        BytesLost(2, 20, Side.RESPONSE, 0, 2, "why"),
        ExchangeEnded(1, 40, Ending.COMPLETE),
    ]
    assert count_body_bytes(entries) == 5


def test_there_is_room_before_an_end_for_bytes_that_the_writer_held_back():
    """However coarse the clock, an end is at least 3 ns later than the chunk before it (see `Writer.feed`)."""
    entries = [*chunk(10, 1, b"ab"), *entry(10, ExchangeEnded(1, 0, Ending.COMPLETE))]

    (run, ended), _ = decode(pack_batch(entries))

    assert ended.time_ns - run.times[-1] >= 3
