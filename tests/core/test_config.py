"""Configuration files: `wiretape.toml` and `[tool.wiretape]` in `pyproject.toml`."""

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.config import Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.rules import ServiceBase, Severity

TABLES = read_tables(__file__)

FULL = """
select = ["SEQ", "ERR001"]
ignore = ["SEQ004"]
fail-on = "warning"
baseline = "known.json"
docs-url = "https://docs.example/rules/"
base = "/api/agents/"
idempotency-header = "X-Idempotency-Key"
keep-alive-tolerance = 5

[severity]
SEQ = "note"
SEQ001 = "error"
SSE003 = "off"
"""


@pytest.fixture
def config(tmp_path):
    """Write a configuration file and load it."""

    def load(text, name="wiretape.toml"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        return load_config(tmp_path / name)

    return load


def test_every_setting_is_read(config, tmp_path):
    loaded = config(FULL)
    assert loaded.file == tmp_path / "wiretape.toml"
    assert loaded.select == ("SEQ", "ERR001")
    assert loaded.ignore == ("SEQ004",)
    assert loaded.fail_on == "warning"
    assert loaded.baseline == tmp_path / "known.json"
    assert loaded.docs_url == "https://docs.example/rules/"
    assert loaded.settings.base == ServiceBase("/api/agents")
    assert loaded.settings.idempotency_header == "X-Idempotency-Key"
    assert loaded.settings.keep_alive_tolerance_s == 5.0
    assert loaded.settings.severities["SEQ002"] is Severity.NOTE
    assert loaded.settings.off == {"SSE003"}


def test_the_most_specific_prefix_sets_the_severity(config):
    severities = config('[severity]\nSEQ001 = "error"\nSEQ = "note"\nALL = "warning"\n').settings.severities
    assert (severities["SEQ001"], severities["SEQ002"], severities["SSE001"]) == ("error", "note", "warning")


def test_a_table_in_pyproject_toml_is_read(config):
    text = "[tool.wiretape]" + FULL.replace("[severity]", "[tool.wiretape.severity]")
    assert config(text, "pyproject.toml").settings == config(FULL).settings


def test_the_nearest_file_in_the_folder_or_its_parents_is_used(tmp_path):
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
def test_a_wiretape_toml_that_is_not_a_file_is_refused(tmp_path, make):
    (tmp_path / "pyproject.toml").write_text("[tool.wiretape]\n")
    make(tmp_path / "wiretape.toml")
    with pytest.raises(InputError, match=r"wiretape\.toml is not a file, so no configuration can be read from it"):
        find_config(tmp_path)


def test_rules_of_the_command_line_override_those_of_the_file(config):
    loaded = config('select = ["SEQ"]\nignore = ["SEQ004"]\n[severity]\nSEQ003 = "off"\n')
    assert loaded.rule_codes() == {"SEQ001", "SEQ002", "SEQ005"}
    assert loaded.rule_codes(["SEQ", "RES001"], ["SEQ001"]) == {"SEQ002", "SEQ004", "SEQ005", "RES001"}


@pytest.mark.parametrize(
    "text", ['ignore = ["ALL"]', 'select = ["SEQ"]\nignore = ["SEQ"]', '[severity]\nALL = "off"'], ids=repr
)
def test_at_least_one_rule_has_to_be_left(config, text):
    message = r"No rules left to check: every selected rule is ignored or turned off \(.*wiretape.toml\)\."
    with pytest.raises(InputError, match=message):
        config(text).rule_codes()


@for_each(
    ("text", "message"), [*TABLES["invalid"], ("\udcff", "is not UTF-8"), ("a=" + "[" * 100_000, "wiretape.toml is")]
)
def test_an_invalid_setting_is_reported_with_its_key_in_one_line(config, text, message):
    with pytest.raises(InputError) as caught:
        config(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@for_each(
    ("text", "message"),
    [
        ("[tool.other]", "has no table [tool.wiretape]"),
        ("tool = 3", "has no table [tool.wiretape]"),
        ("[tool]\nwiretape = 3", "tool.wiretape: expected a table, got 3."),
        ("[tool.wiretape]\nzzz = 1", "tool.wiretape.zzz: unknown key; "),
    ],
)
def test_a_pyproject_toml_needs_a_valid_table_if_it_is_loaded_by_name(config, text, message):
    with pytest.raises(InputError, match=r"pyproject\.toml") as caught:
        config(text, "pyproject.toml")
    assert message in str(caught.value)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        load_config(tmp_path / "nowhere.toml")
