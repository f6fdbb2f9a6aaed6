"""Recorded values are quoted whole up to the limit, and not beyond."""

import pytest

from wiretape.rules.finding import format_number, quote, quote_bytes


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
@pytest.mark.parametrize("count", [59, 60, 61, 200])
def test_bytes_are_quoted_like_their_text(character, count):
    """A character is up to four bytes."""
    text = character * count
    assert quote_bytes(text.encode()) == quote(text)
    assert quote(text).count(character) == min(count, 60)


@pytest.mark.parametrize("number", [10**40, -(10**40), 1e40])
def test_a_number_of_more_than_40_digits_is_not_quoted(number):
    assert format_number(number) == "of more than 40 digits"
    assert format_number(10**40 - 1) == "9" * 40
