"""TOML files: syntax errors are in plain English, with line and column."""

from fnmatch import fnmatchcase

import msgspec
import pytest

from wiretape.errors import InputError
from wiretape.toml_file import decode_toml, is_toml_text, load_toml, parse_toml

SYNTAX = {
    "a = b": "invalid value; strings need quotes, * (at line 1, column 5)",
    "a = True": "invalid value; *and true and false are lower case (at line 1, column 5)",
    "a = 1\na = 2": "a key is given twice, or is both a table and a value (at the end, line 2)",
    "a = 1\na = 2\nb = 3": "a key is given twice, or is both a table and a value (at line 2, column 6)",
    "[[a]]\nb = [{ c = 1,\n d = 2 }]": "an inline table { } has to stay on one line, up to its } * line 2, column 14)",
    "a = { # why\n b = 1 }": "an inline table { } has to stay on one line, up to its } (at line 1, column 7)",
    "a = { b = 1\n }": "an inline table { } has to stay on one line, up to its } (at line 1, column 12)",
    "a = { b = 1 c = 2 }": "a comma or } is missing (at line 1, column 13)",
    "a = [1 2]": "a comma or ] is missing (at line 1, column 8)",
    "[a]\n[a]": "a is declared twice; to repeat a table, write [[a]] each time (at line 2, column 3)",
    "[a.b]\n[a.b]": "a.b is declared twice; *write [[a.b]] each time (at line 2, column 5)",
    "a = [": "the file ends in the middle of a value; *is missing (at the end, line 1)",
    "a = [1,\n\n": "the file ends in the middle of a value; *is missing (at the end, line 2)",
    'a = "b\nc = 1': "a string has to end on its line; a quote is missing, * (at line 1, column 7)",
    "a": "Expected '=' after a key in a key/value pair (at the end, line 1)",
}


@pytest.mark.parametrize("text", SYNTAX)
def test_a_syntax_error_is_explained_with_its_position(text):
    with pytest.raises(InputError) as caught:
        parse_toml(text, "file.toml")
    problem = caught.value.message.removeprefix("file.toml is not valid TOML: ")
    assert fnmatchcase(problem.replace("[", "("), SYNTAX[text].replace("[", "(") + ".")


def test_a_file_may_begin_with_a_byte_order_mark_and_use_windows_line_endings(tmp_path):
    path = tmp_path / "file.toml"
    path.write_bytes('\ufeffa = 1\r\nb = "x"\r\n'.encode())
    assert load_toml(path) == {"a": 1, "b": "x"}


def test_a_missing_file_and_a_file_in_another_encoding_are_refused(tmp_path):
    path = tmp_path / "file.toml"
    with pytest.raises(InputError, match=r"file\.toml"):
        load_toml(path)
    path.write_bytes(b'a = "\xff"')
    with pytest.raises(InputError, match=r"file\.toml is not valid TOML: it is not UTF-8\.$"):
        load_toml(path)


def test_deep_nesting_is_refused():
    with pytest.raises(InputError, match=r"^deep is nested too deeply\.$"):
        parse_toml("a = " + "[" * 100_000 + "]" * 100_000, "deep")


def test_a_file_is_decoded_into_its_type(tmp_path):
    class Limits(msgspec.Struct):
        runs: int

    path = tmp_path / "file.toml"
    path.write_text("runs = 3")
    assert decode_toml(path, Limits) == Limits(runs=3)
    path.write_text("runs = '3'")
    with pytest.raises(InputError, match=r"file\.toml: runs: expected a whole number, got '3'\.$"):
        decode_toml(path, Limits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a = 1", True), ("[a]", True), ("# x", True), ("a\nb", True), ("a.toml", False), ("hello", False), ("", False)],
)
def test_toml_text_is_told_apart_from_a_file_name(text, expected):
    assert is_toml_text(text) is expected
