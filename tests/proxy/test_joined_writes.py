"""Chunks that arrive together are sent in few writes."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.connection import Client, Server
from mitmproxy.proxy.commands import CloseConnection, Command, SendData
from mitmproxy.proxy.mode_specs import ProxyMode

from wiretape_proxy import mitmproxy_internals

CLIENT = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), proxy_mode=ProxyMode.parse("regular"))
SERVER = Server(address=("127.0.0.1", 3))
DATAGRAMS = Server(address=("127.0.0.1", 4), transport_protocol="udp")


def run(*commands: Command | Exception) -> Iterator[tuple[object, object]]:
    """Yield what the handler of a connection receives if its layer returns these commands."""

    def handle_event(_event: object) -> Iterator[Command]:
        for command in commands:
            if isinstance(command, Exception):
                raise command
            yield command

    handler: Any = SimpleNamespace(layer=SimpleNamespace(handle_event=handle_event))
    mitmproxy_internals.join_writes(handler)
    for command in handler.layer.handle_event(None):
        yield command.connection, command.data if isinstance(command, SendData) else type(command)


A, B, C = (SendData(CLIENT, data) for data in (b"a", b"b", b"c"))
DATAGRAM = SendData(DATAGRAMS, b"a")


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ([A, B, SendData(SERVER, b"s"), C], [(CLIENT, b"ab"), (SERVER, b"s"), (CLIENT, b"c")]),
        ([A, B, CloseConnection(CLIENT), C], [(CLIENT, b"ab"), (CLIENT, CloseConnection), (CLIENT, b"c")]),
        ([A, DATAGRAM, DATAGRAM], [(CLIENT, b"a"), (DATAGRAMS, b"a"), (DATAGRAMS, b"a")]),
    ],
)
def test_consecutive_data_for_one_connection_is_joined_except_datagrams(
    sent: list[Command], received: list[object]
) -> None:
    assert list(run(*sent)) == received


def test_the_first_of_many_chunks_does_not_wait_for_the_last() -> None:
    commands = [SendData(CLIENT, b"%d," % number) for number in range(100)]
    written = [data for _, data in run(*commands) if isinstance(data, bytes)]
    assert b"".join(written) == b"".join(command.data for command in commands)
    assert 2 < len(written) < 20


def test_an_error_does_not_lose_the_data_before_it() -> None:
    received = run(SendData(CLIENT, b"a"), SendData(CLIENT, b"b"), ValueError("broken layer"))
    assert next(received) == (CLIENT, b"ab")
    with pytest.raises(ValueError, match="broken layer"):
        next(received)
