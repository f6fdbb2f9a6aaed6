"""The code on README.md, control.md, python.md, recording.md, replay.md and serve.md runs as it is.

Only addresses differ, and what an example leaves to the reader (`...`, a client) is filled in.
The output shown on filter.md, recording.md, report.md, service.md and trim.md is what the commands print, and the
manifests on container.md start the recorder with options that exist.
"""

import ast
import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from itertools import chain
from pathlib import Path
from threading import Thread

import click
import httpx
import pytest
import yaml
from invoke import invoke, succeed
from programs import find_program

import wiretape as public
from wiretape.cli import subcommand, wiretape
from wiretape.recording.formats import FORMATS
from wiretape.rules.vectors import vectors_of
from wiretape_replay.loop_thread import start_scenario
from wiretape_replay.stand_in import ServeOptions

ROOT = Path(__file__).parents[2]
STREAM = "/v1/sessions/s1/events/stream"
TYPES = {1: "run.started", 6: "tool.started", 12: "run.completed"}
VIRTUAL = ServeOptions(clock="virtual")


def shown(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with run.db: twelve events, two of them in the wrong order, and two other responses."""
    events = []
    for number in (1, 2, 3, 5, 4, *range(6, 13)):
        kind = TYPES.get(number, "message.completed")
        events.append(f'- data: {{"id": "e{number}", "sequence": {number}, "type": "{kind}", "run_id": "r1"}}')
    others = ["---\nrequest: GET /v1/other\nresponse-body: {}"] * 2
    tape = "\n".join(["tape: 1", "---", f"request: GET {STREAM}", "events:", *events, *others, ""])
    (tmp_path / "run.tape").write_text(tape, "utf-8")
    monkeypatch.chdir(tmp_path)
    succeed("import", "run.tape", "--output", "run.db")
    return tmp_path


async def my_client(url: str) -> None:
    """Read the stream to its end."""
    with contextlib.suppress(httpx.RemoteProtocolError):
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer k"}) as client:
            await client.get(STREAM)


class MyClient:
    """Requests everything that was recorded."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    async def work(self) -> None:
        async with httpx.AsyncClient(base_url=self.base_url, headers={"Authorization": "Bearer k"}) as client:
            async with client.stream("GET", STREAM) as answer:
                async for line in answer.aiter_lines():
                    if line == "id: e12":
                        break
            for _ in range(2):
                assert (await client.get("/v1/other")).json() == {}


async def run(code: str, **given: object) -> dict[str, object]:
    """Run code that may use `await`; return its variables."""
    scope = dict(given)
    work = eval(compile(code, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope)  # noqa: S307 - the page is ours
    if work is not None:
        await work
    return scope


async def test_control_md_moves_a_playhead_while_a_client_reads(folder, capsys):
    (code,) = [code for code in shown("docs/control.md", "python") if "async with" in code]
    left = await run(code.replace("timeout_s=5", "timeout_s=50"), my_client=my_client)
    await left["task"]
    assert capsys.readouterr().out == "e6 None\n"


def test_control_md_moves_a_playhead_from_another_thread(folder):
    (code,) = [code for code in shown("docs/control.md", "python") if "start_replay" in code]
    scope = {"follow": lambda url: asyncio.run(my_client(url)), "Thread": Thread}
    client = "    client = Thread(target=follow, args=[replay.url])\n    client.start()"
    exec(code.replace("    ...  # let a client connect", client), scope)  # noqa: S102 - the page is ours
    scope["client"].join()


async def test_replay_md_serves_a_client(folder):
    (code,) = shown("docs/replay.md", "python")
    left = await run(code.replace("    ...", "    await client.work()"), MyClient=MyClient)
    assert left["replay"].served


async def test_serve_md_serves_a_scenario(capsys):
    (code,) = shown("docs/serve.md", "python")
    await asyncio.to_thread(exec, code, {})
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+ wiretape-key\n", capsys.readouterr().out)


def test_recording_md_queries_events(folder):
    command, _ = shown("docs/recording.md", "sh")
    query = command.partition('"')[2].rpartition('"')[0].replace("exchange_id = 2", "exchange_id = 1")
    with contextlib.closing(sqlite3.connect("run.db")) as database:
        assert [row[1] for row in database.execute(query)] == [1, 2, 3, 5, 4, *range(6, 13)]


@pytest.mark.parametrize("page", ["README.md", "docs/serve.md"])
def test_curl_creates_a_session_and_a_run_and_reads_the_stream(page):
    """Runs in one terminal until the run ends; the ids are as shown because of the seed."""
    (block,) = [block for block in shown(page, "sh") if "/events/stream" in block]
    (seed,) = re.findall(r"wiretape serve hello --seed (\d+)", (ROOT / page).read_text("utf-8"))
    with start_scenario("hello", ServeOptions(clock="virtual", seed=int(seed))) as service:
        said = until(
            ['"waiting_for":[]', '"type":"session.status_idle"'], re.sub(r"http://127\.0\.0\.1:\d+", service.url, block)
        )
    (session,) = re.findall(r"\bses_\w+", block)[:1]
    assert f'"id":"{session}"' in said
    assert "event: run.completed\n" in said
    assert '"error"' not in said


def until(words: list[str], commands: str) -> str:
    """The output of shell commands, which are stopped once it contains all of `words`."""
    find_program("curl")
    quiet = re.sub(r"^curl ", "curl -s ", commands, flags=re.MULTILINE)
    with subprocess.Popen(
        ["sh", "-c", quiet], stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    ) as shell:
        said = []
        for line in shell.stdout:
            said.append(line)
            words = [word for word in words if word not in line]
            if not words:
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGTERM)
    return "".join(said)


def test_curl_advances_virtual_time():
    find_program("curl")
    (command,) = [block for block in shown("docs/serve.md", "sh") if "advance" in block]
    with start_scenario("hello", VIRTUAL, token="secret") as service:
        env = {**os.environ, "TOKEN": "secret"}
        command = command.replace("http://127.0.0.1:8090", service.url)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env, timeout=30, check=True)
    assert "error" not in done.stdout
    assert done.stdout


KEY = "headers:\n- Authorization: Bearer any-key\n"


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Run a command in a folder of its own; return its stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: invoke(*words).output


def tape_of(name: str, *exchanges: str, head: str = "") -> None:
    Path(name).write_text("\n---\n".join([f"tape: 1\n{head}", *exchanges, ""]).removesuffix("---\n"), "utf-8")


def test_recording_md_shows_the_printed_commands(say):
    tape_of("run.tape", "request: GET /a")
    say("import", "run.tape", "--output", "run.db")
    assert [say("datasette", "run.db")] == shown("docs/recording.md", "text")


def test_filter_md_shows_an_error(say):
    tape_of("run.tape", "request: GET /a")
    assert [say("show", "run.tape", "tpe:x")] == shown("docs/filter.md", "text")


def test_service_md_shows_an_error(say):
    tape_of("run.tape", "request: GET /a")
    Path("service.toml").write_text('[[keys]]\nkey = "k"\n\nscope = ["events:read"]\n', "utf-8")
    assert [say("replay", "run.tape", "--service", "service.toml")] == shown("docs/service.md", "text")


def test_trim_md_shows_the_new_numbers(say):
    for name, began in (("eu.db", 0), ("us.db", 1)):
        exchanges = [f"request: GET /v1/{name}/{number}\nafter: {2 if number else began}\n{KEY}" for number in range(2)]
        tape_of(name, *exchanges)
    example = shown("docs/trim.md", "text")[1]
    assert say("merge", "eu.db", "us.db", "--output", "both.db").startswith(example)


def test_report_md_shows_a_finding(say):
    """The traffic is the vector that breaks the rule."""
    (body,) = (exchange.body for exchange in vectors_of("SEQ001")[0].exchange)
    head = f"request: GET /v1/sessions/ses_1/events/stream\nafter: 1\n{KEY}"
    tape_of("run.db", f"{head}events:\n- text: {json.dumps(body)}\n")
    assert say("report", "run.db") == shown("docs/report.md", "text")[0]


def test_import_md_lists_every_format():
    text = (ROOT / "docs" / "import.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)`:[^|]*\| (yes)? *\| (yes)? *\| (yes)? *\|$", text, re.MULTILINE)
    told = {name: tuple(bool(cell) for cell in cells) for name, *cells in rows}
    (choice,) = [option.type for option in subcommand("export").params if "--format" in option.opts]
    there = {form.name: (form.name in choice.choices, True, form.opens_directly) for form in FORMATS}
    assert told == {**dict.fromkeys(choice.choices, (True, False, False)), **there}


def test_the_recorders_are_started_with_options_that_exist():
    manifests = [yaml.safe_load_all(block) for block in shown("docs/container.md", "yaml")]
    compose, deployment, service = chain.from_iterable(manifests)
    pod = deployment["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    for words in (compose["services"]["recorder"]["command"], sidecar["args"]):
        assert words[0] == "proxy"
        proxy = subcommand("proxy")
        values, rest, _ = proxy.make_parser(click.Context(proxy, **wiretape.context_settings)).parse_args(words[1:])
        assert values["rotate"]
        assert values["rotate_command"]
        assert not rest
    assert service["spec"]["ports"][0]["targetPort"] == sidecar["ports"][0]["containerPort"]
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("code", shown("docs/python.md", "python"))
def test_python_md_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    traffic = public.TrafficBuilder()
    stream = traffic.request("GET", "/v1/sessions/ses_1/events/stream").respond_stream()
    stream.event("session.status_idle", {"type": "session.status_idle", "sequence": 1}, id="evt_1").end()
    traffic.write("run.db")
    exec(compile(code, "python.md", "exec"), {})  # noqa: S102 - the page is ours
    assert capsys.readouterr().out or "print" not in code


def test_every_name_on_python_md_is_public():
    code = "\n".join(shown("docs/python.md", "python"))
    named = set(re.findall(r"wiretape\.([A-Z]\w+|[a-z_]+)\(", code))
    assert named <= set(public.__all__)
    assert {"open_recording", "check", "check_stream", "Parser", "TrafficBuilder", "Checker"} <= named
