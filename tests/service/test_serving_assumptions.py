"""Assumptions: they are settings, documented, and no check depends on them."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from for_each import for_each
from service_contracts import SERVICE
from tables import read_tables

from wiretape.errors import InputError
from wiretape.toml_files import parse_toml
from wiretape_contracts.agent_sessions import KEEP_ALIVE_SECONDS
from wiretape_contracts.agent_sessions.stand_in.assumptions import assumed_settings, decode_settings, fixed_assumptions
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import DEFAULT_DEADLINE
from wiretape_replay.commands.serve import serve as command
from wiretape_replay.http_server.http_messages import LARGEST_BODY
from wiretape_replay.server_options import ReplayOptions

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
OTHER = """
[[keys]]
key = "k"
tenant = "t"
scopes = ["runs:write", "events:read"]

[assumed]
create-session = "PUT /api/threads"
read-session = "GET /api/threads/{session_id}"
create-run = "POST /api/threads/{session_id}/turns"
read-run = "GET /api/threads/{session_id}/turns/{run_id}"
idempotency-header = "X-Once"
workspace = "home"
session-created = 200
run-created = 202
cancelled = 202
session-body = { thread = "id", workspace = "workspace_id" }
run-body = { turn = "id", state = "status" }
"""


@pytest.fixture
def setup():
    return lambda text: decode_settings(parse_toml(text, "service.toml"), "service.toml")


def test_every_setting_is_on_the_page_and_every_assumption_in_the_list():
    rows = [f"| `{name}` | `{default}` | {about} |" for name, default, about in assumed_settings()]
    table = PAGE.read_text("utf-8").partition("| Setting | Default | Assumption |\n| --- | --- | --- |\n")[2]
    assert table.partition("\n\n")[0].splitlines() == rows
    listed = " ".join(CliRunner().invoke(command, ["--assumptions"]).output.split())
    for row in [
        *(f"{name} = {default}" for name, default, _ in assumed_settings()),
        *(one["subject"].replace("`", "") for one in fixed_assumptions()),
    ]:
        assert row in listed
    assert listed.count("Assumed:") == len(rows) + len(fixed_assumptions())


def test_the_documented_numbers_are_the_real_ones():
    assumed = {one["subject"]: one["assumed"] for one in fixed_assumptions()}
    for subject, values in (
        ("scope that requests need", SERVICE.scopes),
        ("limit that requests count towards", {name: SERVICE.counts[name] for name in SERVICE.scopes}),
    ):
        listed = ", ".join(f"`{name}`: `{value}`" for name, value in values.items())
        assert assumed[subject] == f"{listed}, all others: none"
    assert assumed["deadline of application tools"] == f"{DEFAULT_DEADLINE} s"
    assert assumed["largest body"].startswith(f"{LARGEST_BODY // 2**20} MiB; ")
    assert assumed["deepest body"].startswith("1024 levels of nesting; ")
    assert assumed["keep-alive"].endswith(f"for {KEEP_ALIVE_SECONDS} s")


async def test_every_setting_is_used(serve, setup):
    async with serve(virtual=True, settings=setup(OTHER)) as stage:
        refused = await stage.ask("PUT", "/api/threads", key="k")
        assert refused.code == "permission_denied", "the scope follows the request to its new path"
    free = OTHER.replace('scopes = ["runs:write", "events:read"]', "")
    async with serve("application-tool", virtual=True, settings=setup(free)) as stage:
        created = await stage.ask("PUT", "/api/threads", key="k", headers={"X-Once": "1"})
        again = await stage.ask("PUT", "/api/threads", key="k", headers={"X-Once": "1"})
        assert (created.status, created.body) == (200, again.body)
        thread = created.json["thread"]
        assert created.json == {"thread": thread, "workspace": "home"}
        assert (await stage.get(f"/api/threads/{thread}", key="k")).json == created.json
        turn = await stage.post(f"/api/threads/{thread}/turns", key="k")
        assert (turn.status, turn.json["state"]) == (202, "running")
        path = f"/api/threads/{thread}/turns/{turn.json['turn']}"
        assert (await stage.get(path, key="k")).status == 200
        assert (await stage.post("/v1/sessions", key="k")).code == "resource_not_found"
        cancel = f"/v1/sessions/{thread}/runs/{turn.json['turn']}/cancel"
        assert (await stage.post(cancel, key="k")).status == 202, "specified requests keep their path"


async def test_limits_follow_a_request_to_its_new_path(serve, setup):
    async with serve(virtual=True, settings=setup('[assumed]\ncreate-session = "PUT /threads"\n')) as stage:
        for _ in range(30):
            assert (await stage.ask("PUT", "/threads")).status == 201
        assert (await stage.ask("PUT", "/threads")).code == "RATE_LIMITED"


def test_replays_accept_the_same_file(tmp_path):
    path = tmp_path / "service.toml"
    path.write_text(OTHER, "utf-8")
    assert ReplayOptions(service=path).access.file.keys[0].key == "k"


@for_each("wrong", read_tables(__file__)["wrong"], ids=lambda wrong: wrong["error"])
def test_an_invalid_file_is_an_error_that_names_the_key(setup, wrong):
    with pytest.raises(InputError, match=re.escape(wrong["error"])):
        setup(wrong["settings"])


def test_no_check_depends_on_an_assumption():
    """No rule, and no fact of the specification, names an assumed path, scope or field."""
    contract = Path(__file__).parents[2] / "contracts" / "wiretape_contracts" / "agent_sessions"
    paths = [*contract.glob("*.py"), *contract.glob("rules/*.py"), *contract.glob("state/*.py")]
    assert {path.parent.name for path in paths} == {"agent_sessions", "rules", "state"}
    for path in paths:
        code = path.read_text("utf-8")
        assert "wiretape_replay" not in code, path
        assert not re.search(r"events:read|runs:write|sessions:write|waiting_for\b|wks_1", code), path
