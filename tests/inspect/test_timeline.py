"""Previews of ordinary bodies, which may be large, broken or bombs."""

import gzip

from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape_inspect.timeline import _body_preview


def part(data, start=0):
    return BytesArrived(1, Side.RESPONSE, start, data, (start + len(data),), (5,))


def test_no_more_of_a_body_is_read_than_is_shown():
    def body():
        yield part(b"x" * 5000)
        raise AssertionError("read on")

    assert _body_preview(body(), None) == "x" * 399 + "…"


def test_a_small_body_that_decodes_to_a_huge_one_is_decoded_no_further_than_is_shown():
    """20 MB of zeros are 20 kB of gzip; one more slice than needed would already be 4 MB."""
    bomb = gzip.compress(b"a" * 600 + b"\n" * 20_000_000)
    calls = []

    class Data(bytes):
        def __getitem__(self, place):
            calls.append(place)
            return bytes.__getitem__(self, place)

    run = BytesArrived(1, Side.RESPONSE, 0, Data(bomb), (len(bomb),), (5,))

    assert _body_preview([run], "gzip").startswith("a" * 300)
    assert len(calls) == 1


def test_what_cannot_be_decoded_says_so():
    assert _body_preview([part(b"no gzip")], "gzip").startswith("(cannot be decoded: ")
    assert _body_preview([part(b"x")], "rot13").startswith("(cannot be decoded: ")


def test_a_hole_ends_the_preview():
    lost = BytesLost(1, 6, Side.RESPONSE, 2, 3, "disk full")

    assert _body_preview([part(b"ab"), lost, part(b"cd", 5)], None) == "ab"
