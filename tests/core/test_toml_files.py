"""TOML files that people write: syntax errors are explained in one sentence with their line."""

from fnmatch import fnmatchcase

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.errors import InputError
from wiretape.toml_files import is_toml_text, parse_toml, read_toml

TABLES = read_tables(__file__)


@for_each(("text", "explained"), TABLES["syntax-errors"])
def test_a_syntax_error_is_explained_with_its_position(text, explained):
    with pytest.raises(InputError) as caught:
        parse_toml(text, "file.toml")
    problem = caught.value.message.partition("file.toml is not valid TOML: ")[2]
    assert fnmatchcase(problem.replace("[", "("), explained.replace("[", "(") + ".")


def test_a_file_may_begin_with_a_byte_order_mark_and_have_windows_line_ends(tmp_path):
    path = tmp_path / "file.toml"
    path.write_bytes('\ufeffa = 1\r\nb = "x"\r\n'.encode())
    assert read_toml(path) == {"a": 1, "b": "x"}


def test_files_that_cannot_be_read_are_errors_of_one_sentence(tmp_path):
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'a = "\xfc"')
    with pytest.raises(InputError, match=r"latin\.toml is not valid TOML: it is not UTF-8\.$"):
        read_toml(latin)
    with pytest.raises(InputError, match=r"There is no file .*none\.toml\.$"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="nested too deeply"):
        parse_toml("a = " + "[" * 100_000, "file.toml")
    with pytest.raises(InputError, match="half of a surrogate pair"):
        parse_toml("a = '\ud800'", "file.toml")


@for_each("text", ["a = 1", "[[run]]", "# x", '"a b".c=1', "a\nb", "[x]"])
def test_toml_text_is_recognised(text):
    assert is_toml_text(text)


@for_each("name", ["hello", "mine.toml", "a/b=c/mine.toml", "", "a b", "some/path=1"])
def test_a_name_is_not_toml_text(name):
    assert not is_toml_text(name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\n#" + "x" * 1_000_000, "is larger than 1 MB, the limit for TOML: split or shorten it."),
        (".".join("a" * 5_000) + " = 1", "has a dotted key of more than 100 parts: use fewer."),
        ("[" + " . ".join(['"\\"."'] * 101) + "]", "has a dotted key of more than 100 parts: use fewer."),
        ("x = {" + ".".join(["'a'"] * 101) + " = 1}", "has a dotted key of more than 100 parts: use fewer."),
    ],
    ids=["large", "key", "header", "inline"],
)
def test_toml_that_would_take_minutes_is_refused(text, problem, tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_toml(path)
    assert caught.value.message == f"{path} {problem}"


def test_text_with_many_dots_is_not_a_long_key():
    assert parse_toml('a = "' + "b. " * 1000 + '"', "file.toml") == {"a": "b. " * 1000}
