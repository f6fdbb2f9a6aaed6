"""`wiretape tape normalize`: two recordings of the same traffic become the same tape, or differ in what changed."""

import json
import re
import secrets
import uuid
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import formatdate
from gzip import compress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawn_recordings import conversations, record
from hypothesis import given
from invoke import refusal, succeed

from wiretape.observations import Observation
from wiretape.recording import open_recording
from wiretape.recording.normalization import normalized_tape


class Service:
    """Writes tapes of a service with random ids: what its clients do at once is the same in all of them."""

    def __init__(self, began: float, changed: str = "") -> None:
        self.began = began
        self.changed = changed
        self.exchanges: list[tuple[float, str]] = []

    def tape(self, *clients: tuple[str, float]) -> str:
        """Return the tape of clients that begin at different times."""
        for name, at in clients:
            self.client(name, at)
        head = f"tape: 1\nupstream: http://127.0.0.1:{secrets.randbelow(9999) + 1}\n"
        head += f"started: {datetime.fromtimestamp(self.began, UTC):%Y-%m-%dT%H:%M:%S}Z\n"
        text, before = head, 0.0
        for at, exchange in sorted(self.exchanges):
            text += f"---\n{exchange}".replace("AFTER", f"{at - before:.6f}")
            before = at
        return text

    def client(self, name: str, at: float) -> None:
        """A client makes a job, reads its events with a reconnection, and deletes it."""
        job, owner, key = f"job_{secrets.token_hex(12)}", str(uuid.uuid4()), secrets.token_hex(16)
        ids = [secrets.token_urlsafe(16) for _ in range(4)]
        now = self.began + at
        made = {"id": job, "created": int(now), "owner_id": owner, "plan_id": "basic", "for": name}
        self.add(at, f"POST /jobs\nbody: {json.dumps({'for': name})}", f"body: {json.dumps(made)}", key)
        self.add(at + 0.05, f"GET /jobs/{job}", self.events(job, ids[:2], now + 0.06))
        self.add(at + 0.2, f"GET /jobs/{job}?after={ids[1]}", self.events(job, ids[2:], now + 0.3))
        gone = compress(json.dumps({"deleted": job, "at": f"{datetime.fromtimestamp(now, UTC):%FT%TZ}"}).encode())
        body = f"BODY:\n- base64: {b64encode(gone).decode()}\n"
        body += f"headers:\n- Content-Encoding: gzip\n- Content-Length: {len(gone)}"
        self.add(at + 0.4 + secrets.randbelow(99) / 1e3, f"DELETE /jobs/{job}", body)

    def add(self, at: float, request: str, response: str, key: str = "") -> None:
        """Add an exchange."""
        line, _, body = request.partition("\n")
        response = re.sub(
            r"^(headers|BODY|body):", lambda found: f"response-{found[1].lower()}:", response, flags=re.MULTILINE
        )
        if "response-headers" not in response and "events:" in response:
            date = formatdate(self.began + at, usegmt=True)
            response += f"response-headers:\n- Content-Type: text/event-stream\n- Date: {date}\n"
            response += f"- X-Request-Id: {uuid.uuid4()}\n"
        keys = f'headers:\n- Idempotency-Key: "{key}"\n' if key else ""
        self.exchanges.append((at, f"request: {line}\nafter: AFTER\n{keys}{body}\n{response}\n"))

    def events(self, job: str, ids: list[str], now: float) -> str:
        """Return a stream, whose chunks are cut anywhere."""
        text = ""
        for number, each in enumerate(ids):
            about = f"{number}{self.changed} of {job}"
            data = {"job": job, "stepId": f"step_{secrets.token_hex(8)}", "ms": int(now * 1000), "text": about}
            text += f": ping {datetime.fromtimestamp(now, UTC)}\n\nid: {each}\ndata: {json.dumps(data)}\n\n"
        cut = secrets.randbelow(len(text))
        gap = secrets.randbelow(99) / 1e3
        return f"events:\n- text: {json.dumps(text)}\n  cut: [[{cut}, {gap}]]\n"


def normalized(tmp_path, text: str) -> str:
    path = tmp_path / "run.tape"
    path.write_text(text, "utf-8")
    succeed("tape", "normalize", path)
    return path.read_text("utf-8")


def test_two_recordings_of_clients_that_run_at_once_become_the_same_tape(tmp_path):
    """Ids, times, chunks, the port and the order in which the clients began differ."""
    first = normalized(tmp_path, Service(1_764_201_600.9).tape(("a", 0.1), ("b", 0.13), ("c", 0.11)))
    second = normalized(tmp_path, Service(1_777_777_777.1).tape(("c", 0.2), ("a", 0.23), ("b", 0.21)))
    assert first == second
    assert normalized(tmp_path, first) == first
    for line in (
        "request: GET /jobs/job_1?after=event_2",
        "request: GET /jobs/job_101\n",
        "upstream: http://service.test",
    ):
        assert line in first
    for line in ('for: "a"', "plan_id: basic", '{"deleted": "job_1", "at": "2025-01-01T00:00:00Z"}', "0 of job_201"):
        assert line.replace('"a"', "a") in first
    assert "ncoding" not in first
    succeed("replay", tmp_path / "run.tape", "--verify")


def test_only_what_changed_is_in_the_difference(tmp_path):
    first = normalized(tmp_path, Service(1_764_201_600).tape(("a", 0.1), ("b", 0.13)))
    second = normalized(tmp_path, Service(1_777_777_777, " of all").tape(("b", 0.1), ("a", 0.13)))
    different = [pair for pair in zip(first.splitlines(), second.splitlines(), strict=True) if len(set(pair)) > 1]
    assert len(different) == 8
    assert all(after == before.replace(" of job", " of all of job") for before, after in different)


@pytest.mark.parametrize(
    ("line", "response", "kept"),
    [
        ("POST /a\nbody: {for: u-7f3a9c2d11}", '{"user_id": "u-7f3a9c2d11"}', '"user_id": "u-7f3a9c2d11"'),
        ("GET /a", '{"id": "gpt-4o-2024-08-06"}', "gpt-4o-2024-08-06"),
        ("GET /a", '{"id": "7", "next": 1764201600}', "1764201600"),
        ("GET /a", '{"run_id": "run_9f3a9c2d11", "text": "run_9f3a9c2d11x"}', "run_9f3a9c2d11x"),
    ],
    ids=["chosen by the client", "name of a model", "time of another year", "another word"],
)
def test_other_values_are_kept(tmp_path, line, response, kept):
    """What a client sends has to stay, because a replay compares it."""
    text = f"tape: 1\nstarted: 2025-06-01T00:00:00Z\n---\nrequest: {line}\nresponse-body:\n- text: '{response}'\n"
    assert kept in normalized(tmp_path, text)


def test_an_id_is_found_in_any_spelling(tmp_path):
    value = '{"id": "a+b/C9d+e/F9g+h/=", "again": "\\\\u0061+b\\\\/C9d+e/F9g+h/="}'
    text = f"tape: 1\n---\nrequest: GET /a\nresponse-body:\n- text: '{value}'\n"
    text += "---\nrequest: GET /b?c=a%2Bb%2FC9d%2be/F9g%2Bh/%3D\n"
    written = normalized(tmp_path, text.replace("\\\\", "\\"))
    assert 'json: {"id": "id_1", "again": "id_1"}' in written
    assert "request: GET /b?c=id_1\n" in written


def test_long_pauses_are_kept_and_short_ones_are_not(tmp_path):
    events = "".join(f"- after: {after}\n  comment: ping\n" for after in (0.4, 15.003, 0.7, 1.49))
    written = normalized(tmp_path, f"tape: 1\n---\nrequest: GET /\nevents:\n{events}")
    assert written.endswith(
        "events:\n- comment: ping\n- after: 15\n  comment: ping\n- comment: ping\n- after: 1\n  comment: ping\n"
    )


@given(conversations())
def test_any_recording_can_be_normalized(seen: list[Observation]):
    with TemporaryDirectory() as folder:
        path, tape = Path(folder, "run.db"), Path(folder, "run.tape")
        record(path, seen)
        with open_recording(path) as recording:
            tape.write_bytes(normalized_tape(recording))
        with open_recording(tape) as normalized:
            assert sum(1 for _ in normalized.exchanges()) == len({each.exchange for each in seen})


def test_what_cannot_be_normalized_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "tape: 1\n---\nrequest: GET /\nresponse-body: abc\n"
    (tmp_path / "run.tape").write_text(text, "utf-8")
    (tmp_path / "run.tape").chmod(0o644)
    succeed("import", "run.tape")
    assert refusal("tape", "normalize", "run.db").endswith(
        "run.db is not a tape: name the tape to write with --output."
    )
    assert "run.db is also an input file" in refusal("tape", "normalize", "run.db", "-o", "run.db", "--force")
    assert "run.tape exists" in refusal("tape", "normalize", "run.db", "-o", "run.tape")
    monkeypatch.setattr("wiretape.recording.normalization.MAX_BYTES", 2)
    assert "too large for a normalized tape" in refusal("tape", "normalize", "run.tape")
    assert (tmp_path / "run.tape").read_text("utf-8") == text
    monkeypatch.undo()
    succeed("tape", "normalize", tmp_path / "run.tape")
    assert (tmp_path / "run.tape").stat().st_mode & 0o777 == 0o644
