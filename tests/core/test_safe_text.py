"""Recorded text is made safe for terminals."""

import unicodedata

from for_each import for_each

from wiretape.safe_text import printable

_BREAKS = {"Cc", "Cs", "Zl", "Zp"}
_REORDERS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
_MARKS = {"\u061c", "\u200e", "\u200f"}


@for_each(
    ("text", "shown"),
    [
        ("plain text, ünïcode, 漢字, 😀", "plain text, ünïcode, 漢字, 😀"),
        ("", ""),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("\x00\x7f\x85", r"\x00\x7f\x85"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("\ufeffa", r"\ufeffa"),
        ("\ud800", r"\ud800"),
    ],
)
def test_unsafe_characters_are_escaped(text, shown):
    assert printable(text) == shown


def test_no_unicode_character_moves_the_cursor_or_reorders_text():
    everything = printable("".join(map(chr, range(0x110000))))
    for character in set(everything):
        assert unicodedata.category(character) not in _BREAKS
        assert unicodedata.bidirectional(character) not in _REORDERS
        assert character not in _MARKS
    everything.encode()


def test_letters_of_every_script_stay_readable():
    letters = "".join(char for char in map(chr, range(0x110000)) if unicodedata.category(char)[0] in "LMNPS")
    assert printable(letters) == letters
