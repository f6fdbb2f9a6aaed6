"""What is assumed is a setting, stands in the docs and in the help, and no check leans on it."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.contract import KEEP_ALIVE_SECONDS
from wiretape.errors import InputError
from wiretape_replay.http_server.http_messages import LARGEST_BODY
from wiretape_replay.responses.access_settings import load_access_policy
from wiretape_replay.service.assumptions import load_setup, settings
from wiretape_replay.service.cli import serve as command
from wiretape_replay.service.operations.reading import DEEPEST
from wiretape_replay.service.scenario.scenario_steps import DEFAULT_DEADLINE
from wiretape_replay.service.unsaid import FIXED

PAGE = Path(__file__).parents[2] / "docs" / "assumptions.md"
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
def setup(tmp_path):
    def make(text):
        path = tmp_path / "service.toml"
        path.write_text(text, "utf-8")
        return load_setup(path)

    return make


def test_every_assumption_stands_in_the_docs_and_in_the_help():
    page = PAGE.read_text("utf-8")
    rows = [f"| `{name}` | `{default}` | {about} |" for name, default, about in settings()]
    rows += [f"| {one.subject} | {one.assumed} | {one.instead} |" for one in FIXED]
    assert [line for line in page.splitlines() if line.startswith("| ") and "---" not in line] == [
        "| Setting | Default | What is assumed |",
        *rows[: len(settings())],
        "| About | Assumed | Where else it can be said |",
        *rows[len(settings()) :],
    ]
    told = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    for row in [
        *(f"{name} = {default}" for name, default, _ in settings()),
        *(one.subject.replace("`", "") for one in FIXED),
    ]:
        assert row in told
    assert told.count("Assumed:") == len(rows)


def test_the_figures_that_are_told_are_those_that_hold():
    told = {one.subject: one.assumed for one in FIXED}
    assert told["deadline of application tools"] == f"{DEFAULT_DEADLINE} s"
    assert told["largest body"].startswith(f"{LARGEST_BODY // 2**20} MiB,")
    assert told["deepest body"].startswith(f"nested {DEEPEST} deep,")
    assert told["keep-alive"].endswith(f"for {KEEP_ALIVE_SECONDS} s")


async def test_every_setting_is_used(serve, setup):
    async with serve(virtual=True, setup=setup(OTHER)) as stage:
        refused = await stage.ask("PUT", "/api/threads", key="k")
        assert refused.code == "permission_denied", "the scope goes with the request, wherever that is"
    free = OTHER.replace('scopes = ["runs:write", "events:read"]', "")
    async with serve("application-tool", virtual=True, setup=setup(free)) as stage:
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
        assert (await stage.post(cancel, key="k")).status == 202, "what is specified stays where it is"


async def test_limits_go_with_the_requests_that_are_moved(serve, setup):
    async with serve(virtual=True, setup=setup('[assumed]\ncreate-session = "PUT /threads"\n')) as stage:
        for _ in range(30):
            assert (await stage.ask("PUT", "/threads")).status == 201
        assert (await stage.ask("PUT", "/threads")).code == "RATE_LIMITED"


def test_the_same_file_serves_replays(tmp_path):
    path = tmp_path / "service.toml"
    path.write_text(OTHER, "utf-8")
    assert load_access_policy(path).keys.keys() == {"k"}


WRONG = {
    '[assumed]\ncreate-sesion = "POST /x"': "assumed.create-sesion: there is no such setting, did you mean",
    '[assumed]\ncreate-session = "x"': "assumed.create-session: it has to be a METHOD and a /path",
    '[assumed]\ncreate-session = "POST /a b"': "it has to be a METHOD and a /path",
    '[assumed]\nread-run = "GET /runs/{run_id}"': "its path has to hold {session_id} and {run_id}",
    '[assumed]\ncreate-session = "POST /{x}"': "its path has to hold no {…}",
    '[assumed]\nread-session = "POST /v1/sessions/{session_id}/runs"': "another request has the same method and path",
    '[assumed]\nidempotency-header = "A B"': "it has to be the name of a header",
    '[assumed]\nidempotency-header = "Authorization"': "assumed.idempotency-header: this header means",
    '[assumed]\nidempotency-header = "last-event-ID"': "this header means something else",
    '[assumed]\nidempotency-header = "content-length"': "this header means something else",
    '[assumed]\nidempotency-header = "X-Wiretape-Token"': "this header means something else",
    '[assumed]\ncreate-session = "POTS /v1/sessions"': "create-session: there is no method POTS for it, did you mean",
    '[assumed]\ncreate-session = "FOO /v1/sessions"': "there is no method FOO for it; there are GET, POST,",
    '[assumed]\nread-session = "HEAD /s/{session_id}"': "there is no method HEAD for it",
    '[assumed]\ncreate-session = "POST /_wiretape/sessions"': "what begins with /_wiretape/ is the control interface's",
    '[assumed]\ncreate-session = "POST /_wiretape"': "what begins with /_wiretape/ is the control interface's",
    '[assumed]\nsession-body = { state = "status" }': "clients need the id",
    '[[keys]]\nkey = "k"\nscopes = ["event:read"]': "keys[0].scopes: unknown scope event:read; did you",
    '[scopes]\nstream = "own"\n[[keys]]\nkey = "k"\nscopes = ["x"]': "choose one of events:read, own, runs:write, ",
    "[assumed]\nrun-created = 404": "it has to be a status from 200 to 299",
    "[assumed]\nrun-created = 204": "whose answer has a body",
    '[assumed]\nrun-body = { x = "stats" }': "did you mean status?",
    "[assumed]\nworkspace = 1": "it has to be a text",
    "assumed = 1": "it has to be a table",
    "[asumed]": "did you mean assumed?",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_used_is_told_with_its_line_and_key(setup, text):
    with pytest.raises(InputError, match=re.escape(WRONG[text])):
        setup(text)


def test_nothing_in_the_checker_leans_on_an_assumption():
    """No rule, and no fact of the contract, names a path, a scope or a field that is assumed."""
    core = Path(__file__).parents[2] / "core" / "wiretape"
    for path in [*core.glob("rules/**/*.py"), *core.glob("contract/**/*.py")]:
        code = path.read_text("utf-8")
        assert "wiretape_replay" not in code, path
        assert not re.search(r"events:read|runs:write|sessions:write|waiting_for\b|wks_1", code), path
