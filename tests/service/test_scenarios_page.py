"""The page about scenarios: its examples run, and it documents every step and key."""

import re
from pathlib import Path

import pytest
from for_each import for_each

from wiretape.errors import InputError
from wiretape_contracts.agent_sessions.stand_in.run_commands import Refusal
from wiretape_contracts.agent_sessions.stand_in.scenario_file import STEP_TYPES, find_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
RESULT = {"celsius": 20}


def play(engine, runs):
    """Create this many runs and resume them as needed.  Returns the entries, and the codes of refusals."""
    found, codes, now_ns = [], [], 0

    def insist(command, *given):
        while True:
            try:
                return command(*given, now_ns)
            except Refusal as refusal:
                codes.append(refusal.code)
                assert len(codes) < 100

    for _ in range(runs):
        insist(engine.create_run, {})
        while engine.active is not None:
            now_ns = max(now_ns, engine.due_ns() or now_ns)
            found += engine.advance(now_ns)
            if engine.active is not None and engine.active.waits:
                call_id = engine.active.waits[0].tool_call_id
                body = {"tool_call_id": call_id, "output": RESULT} if call_id is not None else {"input": 1}
                insist(engine.resume, engine.active.id, body)
    return found + engine.advance(now_ns), set(codes)


def ends(engine):
    return [run.status for run in engine.runs.values()]


@for_each("text", EXAMPLES, ids=[text.partition("\n")[0] for text in EXAMPLES])
def test_every_example_runs_to_its_end(engine, scenario, text):
    played = engine(text)
    found, _ = play(played, len(scenario(text).runs))
    assert found
    failing = '"Trouble"' in text
    assert set(ends(played)) == ({"failed"} if failing else {"completed"})


def test_the_scenario_everything_goes_wrong(engine_of):
    found, codes = play(engine_of(find_scenario("everything")), 3)
    assert codes == {"SANDBOX_PROVISION_FAILED", "tool_input_invalid", "runtime_resume_unavailable"}
    assert {entry.ending for entry in found if entry.ending} == {"service-reset", "service-closed"}


def test_the_example_of_an_error_is_current(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(EXAMPLES[0].replace("say", "sya"), "utf-8")
    with pytest.raises(InputError) as caught:
        find_scenario("mine.toml")
    assert f"\nError: {caught.value!s}\n" in PAGE


def test_the_page_documents_every_step_and_key():
    """In a table, and in an example."""
    examples = "\n".join(EXAMPLES)
    for step in STEP_TYPES.values():
        for key in step.__struct_encode_fields__:
            assert f"`{key}`" in PAGE, key
            assert re.search(rf"\b{key} = ", examples), key
