"""Structured input: errors name the source, the key path and the value, and suggest the closest known name."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from wiretape.errors import InputError
from wiretape.input_validation import Source, validate

TABLES = read_tables(__file__)

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Drop(msgspec.Struct, tag_field="do", tag="drop", forbid_unknown_fields=True, rename="kebab"):
    offset: Positive | None = None
    colour: Colour = Colour.RED


class Delay(msgspec.Struct, tag_field="do", tag="delay", forbid_unknown_fields=True, rename="kebab"):
    retry_after: Annotated[float, msgspec.Meta(gt=0, le=1_000)]
    how: Literal["slow", "slower"] = "slow"

    def __post_init__(self):
        if self.retry_after == 13:
            raise ValueError("13 seconds bring bad luck; choose 12 or 14")


class Key(msgspec.Struct, forbid_unknown_fields=True):
    scopes: Annotated[list[str], msgspec.Meta(min_length=1)]


class Node(msgspec.Struct):
    inner: "Node | None" = None


class Script(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    name: Annotated[str, msgspec.Meta(min_length=1)] = "script"
    flag: bool = False
    fault: list[Drop | Delay] = []
    by_count: dict[str, Positive] = {}
    by_key: dict[str, Key] = {}
    either: Positive | str | None = None


@for_each(
    ("value", "problem"),
    [
        *TABLES["invalid"],
        (
            {"fault": [{"do": "delay", "retry-after": float("inf")}]},
            "fault[0].retry-after: expected a number of at most 1000, got inf.",
        ),
        (
            {"fault": [{"do": "delay", "retry-after": float("nan")}]},
            "fault[0].retry-after: expected a number greater than 0, got nan.",
        ),
    ],
)
def test_an_error_names_the_key_path_and_the_value(value, problem):
    with pytest.raises(InputError) as caught:
        validate(value, Script, Source("script.toml"))
    assert caught.value.message == f"script.toml: {problem}"


def test_an_error_names_the_line_and_the_outer_path():
    with pytest.raises(InputError) as caught:
        validate({"do": "drop", "offset": "1"}, Drop, Source("a\nb.yaml", lambda path: 7 + len(path)), ("steps", 2))
    assert caught.value.message == "a\\nb.yaml, line 10: steps[2].offset: expected a whole number, got '1'."


def test_valid_input_becomes_the_type():
    value = {"fault": [{"do": "drop", "offset": 3}, {"do": "delay", "retry-after": 2}], "either": "x"}
    script = validate(value, Script, Source("script.toml"))
    assert script == Script(fault=[Drop(offset=3), Delay(retry_after=2)], either="x")


def test_input_that_is_nested_too_deeply_is_refused():
    value = {}
    for _ in range(100_000):
        value = {"inner": value}
    with pytest.raises(InputError, match=r"^deep\.json: nested too deeply\.$"):
        validate(value, Node, Source("deep.json"))


_LEAVES = st.none() | st.booleans() | st.integers(-1, 14) | st.floats() | st.sampled_from(["", "x", "drop", "red", "1"])
_KEYS = st.sampled_from(
    ["do", "offset", "colour", "retry-after", "how", "name", "flag", "fault", "by-count", "by-key", "either", "scopes"]
)
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_the_explanation_agrees_with_what_is_accepted(value):
    """What a value lacks is found by comparing it with the declaration; whether it fits, by msgspec."""
    try:
        msgspec.convert(value, Script)
    except msgspec.ValidationError:
        with pytest.raises(InputError) as caught:
            validate(value, Script, Source("script.toml"))
        assert "Expected `" not in caught.value.message
        assert "Object " not in caught.value.message
    else:
        assert validate(value, Script, Source("script.toml")) == msgspec.convert(value, Script)
