"""The traffic buffer, the observations built from it, and the attribution of findings."""

from hypothesis import given
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, RequestStarted, Side
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.client_verdict.client_checker import Attribution
from wiretape_replay.client_verdict.traffic_buffer import ObservationBuilder, TrafficBuffer
from wiretape_replay.http_server.http_messages import NO_BODY, BodyFraming, HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import FaultInjected, RequestBodyPart, RequestComplete

HEAD = ResponseHead(200, "OK", (), BodyFraming.CHUNKED)
content = st.one_of(
    st.binary(min_size=1, max_size=4),
    st.builds(RequestBodyPart, st.binary(min_size=1, max_size=4)),
    st.sampled_from([RequestComplete(), HEAD, FaultInjected("f")]),
)


def request(session):
    return HttpRequest("GET", f"/v1/sessions/{session}/events/stream", NO_BODY)


def bodies(seen, side):
    found = {}
    for part in seen:
        if isinstance(part, BytesArrived) and part.side is side:
            assert part.start == len(found.get(part.exchange, b""))
            assert b"".join(data for _, data in part.chunks()) == part.data
            found[part.exchange] = found.get(part.exchange, b"") + part.data
    return found


@given(entries=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), content), max_size=40), size=st.integers(1, 50))
def test_observations_contain_every_byte_in_order_with_increasing_times(entries, size):
    now, timed = 0, [(0, exchange, request("s")) for exchange in (1, 2, 3)]
    for pause, exchange, what in entries:
        now += pause
        timed.append((now, exchange, what))
    timed += [(now, exchange, Ending.COMPLETE) for exchange in (1, 2, 3)]
    observer, times = ObservationBuilder("here:1"), iter([time for time, _, _ in timed])
    buffer = TrafficBuffer(lambda: next(times), 10**6, lambda: None)
    for _, exchange, what in timed:
        buffer.add(exchange, what)
    made = []
    while buffer:
        made.append(observer.observe(buffer.take_run(size)))
    assert buffer.waiting_bytes == 0
    seen = [part for part in made if not isinstance(part, tuple)]
    times = [time for part in seen for time in (part.times if isinstance(part, BytesArrived) else (part.time_ns,))]
    assert times == sorted(set(times))
    for side, kind in ((Side.RESPONSE, bytes), (Side.REQUEST, RequestBodyPart)):
        sent = {}
        for _, exchange, what in timed:
            if isinstance(what, kind):
                sent[exchange] = sent.get(exchange, b"") + (what if kind is bytes else what.data)
        assert bodies(seen, side) == sent
    assert [part.exchange for part in seen if isinstance(part, ExchangeEnded)] == [1, 2, 3]
    assert sum(isinstance(part, tuple) for part in made) == sum(isinstance(what, FaultInjected) for _, _, what in timed)


def test_entries_are_counted_and_taken_in_order():
    waiting, clock = [], iter(range(100))
    buffer = TrafficBuffer(lambda: next(clock), 2700, lambda: waiting.append(len(buffer)))
    parts = [RequestBodyPart(b"body"), RequestComplete(), HEAD, b"x" * 1000, FaultInjected("f"), Ending.COMPLETE]
    for part in [request("s"), *parts]:
        buffer.add(7, part)
    assert (len(buffer), buffer.first_ns, buffer.last_ns) == (7, 0, 6)
    assert waiting == [1, 7]
    assert buffer.waiting_bytes > 1004
    buffer.add(7, b"y")
    runs = [[part for _, _, part in buffer.take_run(4)] for _ in range(len(buffer))]
    assert runs == [[request("s")], *([part] for part in parts), [b"y"]]
    assert (len(buffer), buffer.waiting_bytes) == (0, 0)


def test_consecutive_chunks_of_a_response_are_taken_together():
    buffer = TrafficBuffer(lambda: 0, 10**6, lambda: None)
    for exchange, part in [(1, b"a"), (1, b"b"), (1, b"c"), (2, b"d"), (1, b"e"), (1, Ending.COMPLETE)]:
        buffer.add(exchange, part)
    runs = [[part for _, _, part in buffer.take_run(2)] for _ in range(5)]
    assert runs == [[b"a", b"b"], [b"c"], [b"d"], [b"e"], [Ending.COMPLETE]]


def attribution():
    """Three exchanges of session a, a, b; a fault in the first at 100 ns."""
    found = Attribution()
    found.channel_of = SERVICE.find_channel
    for exchange, session in ((1, "a"), (2, "a"), (3, "b")):
        target = request(session).target
        found.observe(RequestStarted(exchange, exchange, "::1", "GET", "http", "h", target, "HTTP/1.1", ()))
    found.add_fault(1, 100, "first")
    found.add_fault(1, 200, "second")
    return found


def finding(exchange, time_ns, side=Party.SERVICE):
    return Finding("SEQ001", Severity.ERROR, side, exchange, None, None, None, time_ns, "Expected.")


def test_a_fault_causes_later_findings_in_its_exchange_and_its_session():
    found = attribution()
    for exchange, time_ns in ((1, 100), (1, 101), (1, 201), (2, 50), (2, 150), (3, 150)):
        found.add(finding(exchange, time_ns))
    caused = [(each.exchange, each.time_ns, fault) for each, fault in found.faults]
    assert caused == [(1, 101, "first"), (1, 201, "second"), (2, 150, "first")]
    assert [(each.exchange, each.time_ns) for each in found.service.kept] == [(1, 100), (2, 50), (3, 150)]
    assert len(found.injected) == 3
