"""The configuration of a project."""

import pytest

from wiretape.config import Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.rules import Severity

FULL = """
select = ["SEQ", "ERR001"]
ignore = ["SEQ004"]
fail-on = "warning"
baseline = "known.json"
docs-url = "https://docs.example/rules/"
idempotency-header = "X-Idempotency-Key"
keep-alive-tolerance = 5

[severity]
SEQ = "note"
SEQ001 = "error"
SSE003 = "off"
"""


@pytest.fixture
def config(tmp_path):
    """Writes a configuration and reads it."""

    def read(text, name="wiretape.toml"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        return load_config(tmp_path / name)

    return read


def test_everything_that_can_be_set_is_read(config, tmp_path):
    read = config(FULL)
    assert read.file == tmp_path / "wiretape.toml"
    assert read.select == ("SEQ", "ERR001")
    assert read.ignore == ("SEQ004",)
    assert read.fail_on == "warning"
    assert read.baseline == tmp_path / "known.json"
    assert read.docs_url == "https://docs.example/rules/"
    assert read.settings.idempotency_header == "X-Idempotency-Key"
    assert read.settings.keep_alive_tolerance_s == 5.0
    assert read.settings.severities["SEQ002"] is Severity.NOTE
    assert read.settings.off == {"SSE003"}


def test_the_longest_prefix_decides_about_a_severity(config):
    severities = config('[severity]\nSEQ001 = "error"\nSEQ = "note"\nALL = "warning"\n').settings.severities
    assert (severities["SEQ001"], severities["SEQ002"], severities["SSE001"]) == ("error", "note", "warning")


def test_a_table_of_a_pyproject_is_read_too(config):
    text = "[tool.wiretape]" + FULL.replace("[severity]", "[tool.wiretape.severity]")
    assert config(text, "pyproject.toml").settings == config(FULL).settings


def test_the_nearest_file_at_or_above_a_folder_counts(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_config(inner) == Config()
    (tmp_path / "pyproject.toml").write_text('[tool.wiretape]\nfail-on = "note"\n')
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert find_config(inner).fail_on == "note"
    (tmp_path / "wiretape.toml").write_text('fail-on = "error"\n')
    assert find_config(inner).fail_on == "error"
    (inner / "wiretape.toml").write_text("")
    assert find_config(inner) == Config(file=inner / "wiretape.toml")


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("nowhere")])
def test_a_name_that_is_no_file_is_not_passed_over(tmp_path, make):
    (tmp_path / "pyproject.toml").write_text("[tool.wiretape]\n")
    make(tmp_path / "wiretape.toml")
    with pytest.raises(InputError, match=r"wiretape\.toml is no file, so no configuration can be read from it"):
        find_config(tmp_path)


def test_rules_to_ask_are_those_of_the_command_line_or_else_of_the_file(config):
    set_ = config('select = ["SEQ"]\nignore = ["SEQ004"]\n[severity]\nSEQ003 = "off"\n')
    assert set_.asked() == {"SEQ001", "SEQ002", "SEQ005"}
    assert set_.asked(["SEQ", "RES001"], ["SEQ001"]) == {"SEQ002", "SEQ004", "SEQ005", "RES001"}


@pytest.mark.parametrize(
    "text", ['ignore = ["ALL"]', 'select = ["SEQ"]\nignore = ["SEQ"]', '[severity]\nALL = "off"'], ids=repr
)
def test_to_ask_no_rule_at_all_is_a_mistake(config, text):
    with pytest.raises(InputError, match=r"No rule is left: what is selected is ignored, or off \(.*wiretape.toml\)\."):
        config(text).asked()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\nslect = []", "wiretape.toml, line 3: slect: there is no such setting, did you mean select?"),
        ("zzz = 1", "line 1: zzz: there is no such setting; there are select, ignore,"),
        ('select = "SEQ"', "line 1: select: it has to be a list of codes"),
        ('select = ["SEQQ"]', "line 1: select: No rule's code begins with 'SEQQ'; did you mean SEQ?"),
        ('fail-on = "worst"', "line 1: fail-on: it has to be one of error, warning, note, never, not 'worst'."),
        ("baseline = 3", "line 1: baseline: it has to be a text."),
        ('docs-url = ""', "line 1: docs-url: it has to be a text, not an empty one."),
        (
            'idempotency-header = "a b"',
            "line 1: idempotency-header: it has to be the name of a header, like Idempotency-Key, not 'a b'.",
        ),
        ('idempotency-header = ""', "the name of a header, like Idempotency-Key, not an empty text."),
        ("idempotency-header = 3", "the name of a header, like Idempotency-Key, not 3."),
        ('select = [""]', "line 1: select: No rule's code begins with ''; the families are"),
        ("keep-alive-tolerance = -1", "line 1: keep-alive-tolerance: it has to be a number of seconds"),
        ("keep-alive-tolerance = inf", "it has to be a number of seconds"),
        ("keep-alive-tolerance = true", "it has to be a number of seconds"),
        ("severity = 3", "line 1: severity: it has to be a table"),
        (
            '[severity]\nSEQ004 = "bad"',
            "line 2: severity.SEQ004: it has to be one of error, warning, note, off, not 'bad'.",
        ),
        (
            'severity = { SEQ04 = "off" }',
            "line 1: severity.SEQ04: No rule's code begins with 'SEQ04'; did you mean SEQ004?",
        ),
        ("select = [", "wiretape.toml is not valid TOML: "),
        ("\udcff", "is not UTF-8"),
        ("a=" + "[" * 100_000, "wiretape.toml is"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(config, text, said):
    with pytest.raises(InputError) as caught:
        config(text)
    assert said in caught.value.message
    assert caught.value.message.count("\n") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.other]", "has no table [tool.wiretape]"),
        ("[tool]\nwiretape = 3", "line 2: tool.wiretape: it has to be a table"),
    ],
)
def test_a_pyproject_that_is_named_has_to_speak_of_wiretape(config, text, said):
    with pytest.raises(InputError, match=r"pyproject\.toml") as caught:
        config(text, "pyproject.toml")
    assert said in caught.value.message


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        load_config(tmp_path / "nowhere.toml")
