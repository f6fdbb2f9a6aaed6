"""Classification of endings; each row was measured with mitmproxy 11 and 12."""

import pytest

from wiretape.observations import Ending
from wiretape_proxy.endings import ErrorSide, Facts, classify

CUT = "HTTP/1 protocol error: peer closed connection without sending complete message body (incomplete chunked read)"
RST = "stream reset by client (CANCEL)"
CLIENT, SERVICE = ErrorSide.CLIENT, ErrorSide.SERVICE

ROWS = [
    (Facts(None), Ending.COMPLETE),
    (Facts(None, delimited_by_close=True), Ending.COMPLETE),
    (Facts(None, service_fault="ConnectionResetError"), Ending.COMPLETE),  # complete according to its framing
    (Facts(None, delimited_by_close=True, service_fault="ConnectionResetError"), Ending.SERVICE_RESET),
    (Facts(None, stopping=True), Ending.COMPLETE),
    (Facts(CUT, SERVICE), Ending.SERVICE_CLOSED),
    (Facts(CUT, SERVICE, service_fault="ConnectionResetError"), Ending.SERVICE_RESET),
    (Facts(CUT, CLIENT), Ending.CLIENT_CLOSED),
    (Facts(CUT, SERVICE, stopping=True), Ending.PROXY_STOPPED),
    (Facts("Client disconnected.", CLIENT), Ending.CLIENT_CLOSED),
    (Facts("Client disconnected.", CLIENT, stopping=True), Ending.PROXY_STOPPED),
    (Facts("Client disconnected.", CLIENT, timed_out=True), Ending.TIMED_OUT),
    (Facts(RST, CLIENT), Ending.CLIENT_CLOSED),
    (Facts(RST, SERVICE), Ending.SERVICE_RESET),
    (Facts("peer closed connection", CLIENT), Ending.CLIENT_CLOSED),
    (Facts("peer closed connection", SERVICE), Ending.SERVICE_CLOSED),
    (Facts("server closed connection", SERVICE), Ending.SERVICE_CLOSED),
    (Facts("[Errno 111] Connect call failed", SERVICE, connecting=True), Ending.SERVICE_UNREACHABLE),
    (Facts("Certificate verify failed: x", SERVICE, connecting=True), Ending.SERVICE_UNREACHABLE),
    (Facts("Client disconnected.", CLIENT, connecting=True), Ending.CLIENT_CLOSED),
    (Facts("Cannot parse HTTP response: x", SERVICE), Ending.SERVICE_INVALID),
    (Facts("unexpected server response: b'HTTP/1.1 20'", SERVICE), Ending.SERVICE_CLOSED),
    (Facts("unexpected server response: b'SSH-2.0'", SERVICE), Ending.SERVICE_INVALID),
    (Facts("HTTP/2 protocol error: x", SERVICE), Ending.SERVICE_INVALID),
    (Facts("HTTP/2 protocol error: x", CLIENT), Ending.CLIENT_CLOSED),
    (Facts("Connection killed."), Ending.PROXY_STOPPED),
    (Facts("Response body exceeds mitmproxy's body_size_limit."), Ending.PROXY_STOPPED),
    (Facts("Received invalid header name: b'x' from client, refusing to prevent x."), Ending.CLIENT_CLOSED),
    (Facts("Received invalid header name: b'x' from server, refusing to prevent x."), Ending.SERVICE_INVALID),
    (Facts("mitmproxy received an HTTP CONNECT request even though it is not running in x"), Ending.CLIENT_CLOSED),
]


@pytest.mark.parametrize(("facts", "ending"), ROWS)
def test_an_ending_is_classified(facts, ending):
    found, detail = classify(facts)

    assert found is ending
    assert (detail == "") == (ending is Ending.COMPLETE)


@pytest.mark.parametrize(
    "error",
    [
        "unexpected server response: b'Bearer sk-1'",
        "Cannot parse HTTP response: Invalid header line: b'Bearer sk-1'",
        "HTTP/1 protocol error: illegal chunk header: bytearray(b'sk-1')",
        "HTTP/1 protocol error: malformed chunk footer: b'sk-1' (expected b'\\r\\n')",
        "Received invalid header name: b'sk-1' from server, refusing to prevent request smuggling attacks.",
        "Received invalid header name: b'sk-1' from client, refusing to prevent request smuggling attacks.",
        "Received unexpected HTTP transfer-encoding b'sk-1' for HTTP/1.0 from server, refusing to prevent.",
        "Received b'sk-1' from server, refusing to prevent.",
        "HTTP/2 connection closed: <ConnectionTerminated error_code:0, last_stream_id:1, additional_data:sk-1>",
    ],
)
@pytest.mark.parametrize("side", ErrorSide)
def test_a_detail_quotes_nothing_of_the_traffic(error, side):
    assert "sk-1" not in classify(Facts(error, side))[1]


def test_a_detail_contains_how_many_bytes_arrived():
    counted = "HTTP/1 protocol error: peer closed connection without sending complete message body "
    counted += "(received 17 bytes, expected 1000)"

    assert classify(Facts(counted, SERVICE))[1] == (
        "The service closed the connection (received 17 bytes, expected 1000)."
    )
