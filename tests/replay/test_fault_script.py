"""Fault scripts: how they are read, and the errors for scripts that cannot be right."""

from typing import get_args

import pytest
from for_each import for_each
from service_contracts import SERVICE
from tables import read_tables

from wiretape.errors import InputError
from wiretape_replay.faults.fault_script import Delay, Drop, Error, EventFilter, Fault, FaultScript, Hold
from wiretape_replay.server_options import fault_script

BAD = read_tables(__file__)


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def _read(text):
        path = (tmp_path / "faults.toml").relative_to(tmp_path)
        path.write_text(text, "utf-8")
        return fault_script(path, SERVICE)

    return _read


def test_a_script_is_read_as_faults(read):
    script = read("""
seed = 7
[[fault]]
name = "drop-after-12"
do = "drop"
after = { sequence = 12 }
channel = ["s1", "s2"]
connection = 2
skip = 3
times = 1
probability = 0.5
[[fault]]
do = "delay"
operation = ["cancel", "POST /v1/sessions/{id}/runs"]
seconds = 1.5
""")
    drop = Drop(
        name="drop-after-12",
        after=EventFilter(sequence=12),
        channel=("s1", "s2"),
        connection=2,
        skip=3,
        times=1,
        probability=0.5,
    )
    delay = Delay(name="fault-2", operation=("cancel", "POST /v1/sessions/{id}/runs"), seconds=1.5)
    assert script == FaultScript(faults=(drop, delay), seed=7)
    assert drop.requests == ("stream",)
    assert delay.requests == ("cancel", "POST /v1/sessions/{id}/runs")


def test_an_empty_file_is_a_script_without_faults(read):
    assert read("") == FaultScript(faults=(), seed=0)


def test_an_error_takes_the_fields_of_its_code(read):
    script = read("""
[[fault]]
do = "error"
code = "RATE_LIMITED"
limit = "runs"
retry-after = 3
[[fault]]
do = "error"
code = "SESSION_BUSY"
fields = { active_run_id = "run_9", active_run_status = "running" }
[[fault]]
do = "error"
status = 503
message = "Come back later."
""")
    busy = {"active_run_id": "run_9", "active_run_status": "running"}
    assert script.faults == (
        Error(name="fault-1", code="RATE_LIMITED", limit="runs", retry_after=3),
        Error(name="fault-2", code="SESSION_BUSY", fields=busy),
        Error(name="fault-3", status=503, message="Come back later."),
    )


@for_each("bad", BAD.values(), ids=BAD)
def test_an_invalid_script_is_an_error_of_one_sentence(read, bad):
    with pytest.raises(InputError) as refused:
        read(bad["script"])
    start, *others = bad["error"].split("*")
    error = refused.value.message
    assert error.startswith(f"faults.toml: {start}")
    assert all(part in error for part in others)
    assert others or error == f"faults.toml: {bad['error']}"
    assert "\n" not in error


def test_a_syntax_error_is_explained(read):
    with pytest.raises(InputError, match=r"^faults\.toml is not valid TOML: .* \(at the end, line 1\)\.$"):
        read("seed = ")


def test_a_script_can_be_written_in_python():
    script = FaultScript(faults=(Drop(after=EventFilter(type="tool.*")), Hold()))
    assert [fault.name for fault in script.faults] == ["fault-1", "fault-2"]
    with pytest.raises(TypeError):
        Drop("drop")


def test_every_fault_has_its_own_action():
    actions = [fault.__struct_config__.tag for fault in get_args(Fault)]
    assert len(set(actions)) == len(actions) == 12
