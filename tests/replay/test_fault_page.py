"""The page about faults: each of its examples is run."""

import re
import textwrap
from pathlib import Path
from typing import get_args

import httpx
import orjson
import pytest
from service_contracts import SERVICE

from wiretape.errors import InputError
from wiretape.observations import Ending
from wiretape_replay.faults.fault_script import Fault, Hold
from wiretape_replay.server_options import fault_script

PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text("utf-8")
SCRIPTS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TYPES = ["run.started", "message.started", "tool.started", "tool.completed", "message.completed"]
KEY = "Authorization: Bearer k\r\nConnection: close\r\n"
STREAM = "/v1/sessions/s1/events/stream"
OTHERS = ["/v1/sessions/s1/runs/r1/cancel", "/v1/sessions/s1/runs/r1/resume", "/v1/sessions/s1/runs"]


def durable(sequence):
    kind = "message.completed" if sequence == 12 else TYPES[sequence % len(TYPES)]
    told = {"id": f"evt_{sequence}", "sequence": sequence, "type": kind, "run_id": "r1", "content": "Grüße"}
    return b"event: %b\nid: evt_%d\ndata: %b\n\n" % (kind.encode(), sequence, orjson.dumps(told))


@pytest.fixture
def recording(builder):
    builder.exchange([durable(sequence) for sequence in range(1, 15)], ending=Ending.SERVICE_CLOSED)
    for target in OTHERS:
        builder.exchange([b"{}"], method="POST", target=target, headers=(("Content-Length", "2"),))
    return builder.close()


@pytest.mark.parametrize("text", SCRIPTS, ids=[str(number) for number in range(1, len(SCRIPTS) + 1)])
def test_every_example_is_applied(recording, serve, call, tmp_path, text):
    """The requests of one client are enough for every fault without a probability."""
    path = tmp_path / "faults.toml"
    path.write_text(text, "utf-8")
    script = fault_script(path, SERVICE)
    replay = serve(recording, mode="channel", playhead="connection", faults=script)
    for fault in script.faults:
        if isinstance(fault, Hold):
            replay.control.release(fault=fault.name)
    for cursor in ("", "", "Last-Event-ID: evt_12\r\n"):
        client = call(replay.url)
        client.ask(extra=KEY + cursor)
        if cursor:
            client.read_past(b"\r\n\r\n")
        else:
            assert client.read().how != "open"
    for target in OTHERS * 3:  # for `skip`
        client = call(replay.url)
        client.post(target, b"", KEY)
        assert client.read().how == "closed"

    certain = [fault.name for fault in script.faults if fault.probability == 1]
    assert all(replay.faults.counts[name] for name in certain), replay.faults.counts


def test_the_page_has_an_example_of_each_fault():
    actions = {fault.__struct_config__.tag for fault in get_args(Fault)}
    assert actions == set(re.findall(r'^do = "(.*)"', "\n".join(SCRIPTS), re.MULTILINE))


def test_the_example_of_an_error_is_current(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("faults.toml").write_text(SCRIPTS[0] + "\ntimse = 2\n", "utf-8")
    with pytest.raises(InputError) as caught:
        fault_script(Path("faults.toml"), SERVICE)
    assert f"\nError: {caught.value.message}\n" in PAGE


async def test_the_example_in_python_works(recording, tmp_path, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faults.toml").write_text(SCRIPTS[0], "utf-8")
    assert recording == tmp_path / "run.db"

    async def ask(url):
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(url + STREAM, headers={"Authorization": "Bearer k"})

    scope = {"ask": ask}
    body = textwrap.indent(code.replace("    ...", "    await ask(replay.url)"), "    ")
    exec(f"async def example():\n{body}", scope)  # noqa: S102 - the page is ours
    await scope["example"]()
