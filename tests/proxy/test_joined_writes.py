"""Chunks that arrive together are sent in few writes."""

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from late_import import LateModule

mitmproxy = LateModule("mitmproxy.connection")
commands = LateModule("mitmproxy.proxy.commands")
modes = LateModule("mitmproxy.proxy.mode_specs")
internals = LateModule("wiretape_proxy.mitmproxy_internals")


@cache
def connection(name: str) -> Any:
    if name == "client":
        regular = modes.ProxyMode.parse("regular")
        return mitmproxy.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), proxy_mode=regular)
    transport = "udp" if name == "datagrams" else "tcp"
    return mitmproxy.Server(address=("127.0.0.1", 3), transport_protocol=transport)


def run(given: str) -> Iterator[str]:
    """Yield what the handler of a connection receives if its layer returns these commands: `client:a server:close`."""

    def handle_event(_event: object) -> Iterator[Any]:
        for to, _, what in (each.partition(":") for each in given.split()):
            if to == "error":
                raise ValueError("broken layer")
            if what == "close":
                yield commands.CloseConnection(connection(to))
            else:
                yield commands.SendData(connection(to), what.encode())

    handler: Any = SimpleNamespace(layer=SimpleNamespace(handle_event=handle_event))
    internals.join_writes(handler)
    names = {id(connection(name)): name for name in ("client", "server", "datagrams")}
    for command in handler.layer.handle_event(None):
        data = command.data.decode() if isinstance(command, commands.SendData) else "close"
        yield f"{names[id(command.connection)]}:{data}"


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("client:a client:b server:s client:c", "client:ab server:s client:c"),
        ("client:a client:b client:close client:c", "client:ab client:close client:c"),
        ("client:a datagrams:a datagrams:a", "client:a datagrams:a datagrams:a"),
    ],
)
def test_consecutive_data_for_one_connection_is_joined_except_datagrams(sent: str, received: str) -> None:
    assert list(run(sent)) == received.split()


def test_the_first_of_many_chunks_does_not_wait_for_the_last() -> None:
    written = [each.partition(":")[2] for each in run(" ".join(f"client:{number}," for number in range(100)))]
    assert "".join(written) == "".join(f"{number}," for number in range(100))
    assert 2 < len(written) < 20


def test_an_error_does_not_lose_the_data_before_it() -> None:
    received = run("client:a client:b error:")
    assert next(received) == "client:ab"
    with pytest.raises(ValueError, match="broken layer"):
        next(received)
