"""TOML files that people write: what is wrong is told with the line where it stands."""

import tomllib
from pathlib import Path

import pytest

from wiretape.errors import InputError
from wiretape.toml import TomlFile

DOCUMENT = '''name = "a"
note = """
name = "not a key"
"""
"a key".inner = 1

[limits]
runs = 2
inline = { window = "x" }

[[keys]]
key = "one"

[[keys]]
key = "two"
[keys.more]
deep = 1
[[keys.parts]]
n = 1
[[keys.parts]]
n = 2
'''


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "file.toml"
        path.write_text(text, "utf-8")
        return TomlFile.load(path).table()

    return write


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("name",), 1),
        (("a key", "inner"), 5),
        (("limits",), 7),
        (("limits", "runs"), 8),
        (("limits", "absent"), 7),
        (("limits", "inline", "window"), 9),
        (("keys", 0, "key"), 12),
        (("keys", 1), 14),
        (("keys", 1, "key"), 15),
        (("keys", 1, "more", "deep"), 17),
        (("keys", 1, "parts", 0, "n"), 19),
        (("keys", 1, "parts", 1, "n"), 21),
        (("keys",), 11),
        (("keys", 1, "parts"), 18),
        (("a key",), 5),
    ],
)
def test_the_line_of_a_place_is_told(toml, place, line):
    keys = ".".join(step for step in place if isinstance(step, str))
    assert toml(DOCUMENT).file.wrong(place, "no").message.endswith(f"file.toml, line {line}: {keys}: no.")


@pytest.mark.parametrize("key", [r'"a\"b"', r'"\u0061\\"', "'a\\'", '"a\'b"'])
@pytest.mark.parametrize("text", ["x = 1\n{} = 2\n", "[t]\nx = {{ {} = 2 }}\n", "[t]\n[x.{}]\n"])
def test_the_line_of_a_key_with_escapes_and_quotes_is_told(toml, key, text):
    """Such a key in an inline table was a traceback, and elsewhere took the lines from all that came after it."""
    table = toml(text.format(key) + "[end]\n")
    (name,) = tomllib.loads(f"{key} = 1")
    place = (name,) if text[0] == "x" else ("x", name) if "[x" in text else ("t", "x", name)
    assert ", line 2: " in table.file.wrong(place, "no").message
    assert ", line 3: " in table.file.wrong(("end",), "no").message


def test_a_file_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(tmp_path):
    path = tmp_path / "file.toml"
    path.write_bytes('\ufeffa = 1\r\nb = "x"\r\n'.encode())
    table = TomlFile.load(path).table()
    assert (table.integer("a"), table.text("b")) == (1, "x")
    assert table.wrong("b", "no").message.endswith("line 2: b: no.")


def test_a_place_that_cannot_be_found_is_told_without_a_line(toml):
    assert toml(DOCUMENT).file.wrong(("zzz",), "no").message.endswith("file.toml: zzz: no.")
    assert toml(DOCUMENT).file.wrong((), "no").message.endswith("file.toml: no.")


@pytest.mark.parametrize(
    ("text", "read", "said"),
    [
        ("a = 1", lambda table: table.text("a"), "line 1: a: it has to be a text."),
        ('a = ""', lambda table: table.text("a"), "line 1: a: it has to be a text, not an empty one."),
        ("", lambda table: table.text("a"), "file.toml: a is missing."),
        ("[[t]]\n", lambda table: table.tables("t")[0].text("a"), "file.toml, line 1: t: a is missing."),
        ('a = "reds"', lambda table: table.one_of("a", ["red", "blue"]), "red, blue, not 'reds'; did you mean red?"),
        ("a = 3", lambda table: table.one_of("a", ["red", "blue"]), "it has to be one of red, blue, not 3."),
        ("a = 1", lambda table: table.flag("a"), "it has to be true or false."),
        ("a = true", lambda table: table.integer("a"), "it has to be a whole number, 0 or more."),
        ("a = 0", lambda table: table.integer("a", least=1), "it has to be a whole number, 1 or more."),
        ("a = nan", lambda table: table.number("a"), "it has to be a number, 0 or more."),
        ('a = ["x", 1]', lambda table: table.texts("a"), "it has to be a list of texts."),
        ("a = 1", lambda table: table.table("a"), "it has to be a table."),
        ("a = 1", lambda table: table.tables("a"), "it has to be an array of tables, each under [[a]]."),
        ("colour = 1", lambda table: table.only(["color"]), "colour: there is no such setting, did you mean color?"),
        ("zzz = 1", lambda table: table.only(["a", "b"], "fault"), "there is no such fault; there are a, b."),
    ],
)
def test_a_value_of_another_kind_is_told_in_one_sentence(toml, text, read, said):
    with pytest.raises(InputError) as caught:
        read(toml(text))
    assert said in caught.value.message


def test_values_are_read_and_defaults_stand_in(toml):
    table = toml('a = "x"\nn = 2\nf = true\nl = ["p"]\n')
    assert (table.text("a"), table.integer("n"), table.number("n"), table.flag("f")) == ("x", 2, 2.0, True)
    assert table.texts("l") == ("p",)
    assert (table.text("z", "d"), table.integer("z", 3), table.number("z", 0.5)) == ("d", 3, 0.5)
    assert (table.flag("z", default=False), table.texts("z", default=["q"]), list(table.table("z"))) == (
        False,
        ("q",),
        [],
    )
    assert table.one_of("z", ["r"], "r") == "r"
    assert table.tables("z") == []


LISTS = """steps = [
  # a comment ] with , brackets {
  { say = "x # ], }" }, { say = 'y' },
  { tool = "t", input = { a = [1,
     2], b.c = 1979-05-27 07:32:00 } },
  [[1], [
    2]],
]
after = 1
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("steps", 0, "say"), 3),
        (("steps", 1), 3),
        (("steps", 2, "input", "a", 1), 5),
        (("steps", 2, "input", "b", "c"), 5),
        (("steps", 3, 1), 6),
        (("steps", 3, 1, 0), 7),
        (("steps", 4), 1),
        (("after",), 9),
    ],
)
def test_the_line_of_what_stands_within_lists_and_inline_tables_is_told(toml, place, line):
    assert toml(LISTS).file.wrong(place, "wrong").message.partition("line ")[2].startswith(f"{line}: ")


QUOTES = r'''a = """x
[no]\""""""
b = "\""
c = 'it\'
d = 1
'''


def test_texts_end_where_they_end_whatever_stands_in_them(toml):
    assert toml(QUOTES).wrong("d", "wrong").message.endswith("line 5: d: wrong.")
    literal = QUOTES.replace('"""x', "'''x").replace('\\""""""', "it''s'''''")
    assert toml(literal).wrong("d", "wrong").message.endswith("line 5: d: wrong.")


ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "core", ROOT / "replay"]
OF_THE_HOUSE = [ROOT / "pyproject.toml", *(file for folder in FOLDERS for file in folder.rglob("*.toml"))]


def leaves(value, place=()):
    """Every place at which something stands that holds nothing else, and the last key that leads there."""
    if not isinstance(value, dict | list) or not value:
        yield place, next((step for step in reversed(place) if isinstance(step, str)), "")
        return
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(item, (*place, step))


def test_every_value_of_the_files_of_the_house_has_its_line():
    """The line is that of its key, or for an element of a list that or one below it."""
    assert len(OF_THE_HOUSE) > 100
    for path in OF_THE_HOUSE:
        file, lines = TomlFile.load(path), path.read_text("utf-8").splitlines()
        for place, key in leaves(file.document):
            line = file._lines[place]
            if isinstance(place[-1], str):
                assert key in lines[line - 1], (path, place, line)
            else:
                assert file._lines.get(place[:-1], 0) <= line, (path, place, line)
