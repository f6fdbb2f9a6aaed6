"""The parts of the judge: observations from notes, and who is to blame."""

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from wiretape.observations import BytesArrived, Ending, ExchangeEnded, RequestStarted, Side
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.client_verdict.attribution import Attribution
from wiretape_replay.client_verdict.traffic_buffer import (
    BufferListener,
    Injected,
    Mark,
    ObservationBuilder,
    RequestBodyPart,
    TrafficBuffer,
)
from wiretape_replay.http_server.http_messages import NO_BODY, Framing, HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import OWN_RESPONSE

HEAD = ResponseHead(200, "OK", (), Framing.CHUNKED)
content = st.one_of(
    st.binary(min_size=1, max_size=4),
    st.builds(RequestBodyPart, st.binary(min_size=1, max_size=4)),
    st.sampled_from([Mark.REQUEST_WHOLE, HEAD, Injected("f")]),
)


def asked(session):
    return HttpRequest("GET", f"/v1/sessions/{session}/events/stream", NO_BODY)


def bodies(seen, side):
    found = {}
    for part in seen:
        if isinstance(part, BytesArrived) and part.side is side:
            assert part.start == len(found.get(part.exchange, b""))
            assert b"".join(data for _, data in part.chunks()) == part.data
            found[part.exchange] = found.get(part.exchange, b"") + part.data
    return found


@examples(max_examples=50)
@given(
    notes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), content), max_size=40),
    size=st.integers(1, 50),
)
def test_observations_hold_every_byte_in_order_at_times_that_increase(notes, size):
    now, timed = 0, [(0, exchange, asked("s")) for exchange in (1, 2, 3)]
    for pause, exchange, what in notes:
        now += pause
        timed.append((now, exchange, what))
    timed += [(now, exchange, Ending.COMPLETE) for exchange in (1, 2, 3)]
    observer = ObservationBuilder("here:1")
    made = [part for at in range(0, len(timed), size) for part in observer.observations(timed[at : at + size])]
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
    assert sum(isinstance(part, tuple) for part in made) == sum(isinstance(what, Injected) for _, _, what in timed)


def test_what_waits_is_counted_and_taken_in_order():
    taken, clock = [], iter(range(100))
    notes = TrafficBuffer(lambda: next(clock), lambda: taken.append(1))
    ear = BufferListener(notes, 7, asked("s"))
    ear.request_body(b"body")
    ear.request_ended()
    ear.response_started(HEAD)
    ear.response_body(b"x" * 1000)
    ear.fault_injected("f")
    ear.exchange_ended(Ending.COMPLETE)
    assert (len(notes), len(taken), notes.first_ns, notes.last_ns) == (7, 7, 0, 6)
    assert notes.waiting > 1004
    first, rest = notes.take(3), notes.take(100)
    assert [what for _, _, what in first[1:]] == [RequestBodyPart(b"body"), Mark.REQUEST_WHOLE]
    assert [what for _, _, what in rest] == [HEAD, b"x" * 1000, Injected("f"), Ending.COMPLETE]
    assert (len(notes), notes.waiting) == (0, 0)


def blame():
    """Three exchanges of session a, a, b; a fault in the first at 100 ns."""
    it = Attribution()
    for exchange, session in ((1, "a"), (2, "a"), (3, "b")):
        target = asked(session).target
        it.see(RequestStarted(exchange, exchange, "::1", "GET", "http", "h", target, "HTTP/1.1", ()))
    it.inject(1, 100, "first")
    it.inject(1, 200, "second")
    return it


def finding(exchange, time_ns, side=Party.SERVICE):
    return Finding("SEQ001", Severity.ERROR, side, exchange, None, None, None, time_ns, "Expected.")


def test_a_fault_is_blamed_in_its_exchange_and_its_session_from_its_place_on():
    it = blame()
    for exchange, time_ns in ((1, 100), (1, 101), (1, 201), (2, 50), (2, 150), (3, 150)):
        it.sort(finding(exchange, time_ns))
    blamed = [(found.exchange, found.time_ns, fault) for found, fault in it.faults]
    assert blamed == [(1, 101, "first"), (1, 201, "second"), (2, 150, "first")]
    assert [(found.exchange, found.time_ns) for found in it.service.kept] == [(1, 100), (2, 50), (3, 150)]
    assert len(it.injected) == 3


def test_a_client_is_to_blame_for_what_it_does_whatever_was_injected():
    it = blame()
    it.sort(finding(1, 300, Party.CLIENT))
    assert (len(it.client), len(it.service), len(it.injected)) == (1, 0, 0)


def test_an_answer_of_the_replays_own_is_held_against_nobody():
    it = blame()
    it.inject(3, 10, OWN_RESPONSE)
    it.sort(finding(3, 20))
    assert (len(it.client), len(it.service), len(it.injected)) == (0, 0, 0)
