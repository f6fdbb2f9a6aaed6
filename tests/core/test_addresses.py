"""Addresses that users type."""

import pytest
from for_each import for_each

from wiretape.addresses import parse_address
from wiretape.errors import InputError


@for_each(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8090", "127.0.0.1", 8090),
        ("localhost:0", "localhost", 0),
        ("[::1]:8090", "::1", 8090),
        ("8090", "127.0.0.1", 8090),
        (":8090", "127.0.0.1", 8090),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text, host, port):
    assert parse_address(text) == (host, port)


@for_each("text", ["", ":", ":x", "[]:80", "::80", "a b:1", "808\n"])
def test_other_text_is_not_an_address(text):
    with pytest.raises(InputError, match=r"Invalid address .*: expected HOST:PORT"):
        parse_address(text)


def test_ports_have_an_end():
    assert parse_address("65535") == ("127.0.0.1", 65535)
    with pytest.raises(InputError, match=r"Invalid address 'localhost:65536': ports go up to 65535\."):
        parse_address("localhost:65536")
