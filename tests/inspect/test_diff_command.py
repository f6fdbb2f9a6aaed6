"""`wiretape diff` on whole recordings: pairing, headers, bodies, endings, options and exit status."""

import gzip
import json
from hashlib import sha256

import click
import pytest
from invoke import succeed
from tables import read_tables

from wiretape.recording import open_recording
from wiretape_inspect.diff import diff_output
from wiretape_inspect.diff.recording_diff import RecordingDiff
from wiretape_inspect.terminal import Terminal

JSON = (("content-type", "application/json"),)
EVENT_STREAM = (("content-type", "text/event-stream"),)
CASES = read_tables(__file__)["case"]


@pytest.fixture
def two(new_builder):
    """Two recordings, each made by a function of a builder; without a second function, both are equal."""

    def make(*makers):
        paths = []
        for maker in makers if len(makers) > 1 else makers * 2:
            builder = new_builder()
            maker(builder)
            paths.append(builder.close())
        return paths

    return make


def lines_of(result):
    """The lines between the file names and the summary, with single spaces."""
    return [" ".join(line.split()) for line in result.output.splitlines()][2:-1]


def asking(target, answer, *, method="POST", body=b"", status=200, headers=JSON):
    """Make an exchange that is not a stream."""
    return lambda builder: builder.exchange(
        [answer], target=target, method=method, body=body, status=status, headers=headers
    )


def test_recordings_of_two_sessions_are_equal_if_ids_are_normalized(run, two, message):
    def visit(name):
        def make(builder):
            session, later = f"ses_{name}1", f"ses_{name}2"
            for one in (session, later):
                asking("/v1/sessions", b'{"id": "%s", "request_id": "q_%s"}' % (one.encode(), one.encode()))(builder)
            busy = f"Session {session} has an active run run_{name}: POST /v1/sessions/{session}/runs/run_{name}/cancel"
            error = {"error": {"message": busy, "active_run_id": f"run_{name}", "recovery": [busy]}}
            asking(f"/v1/sessions/{session}/runs", json.dumps(error).encode(), status=409)(builder)
            builder.exchange(
                [message("run.started", id=f"evt_{name}", sequence=1, session_id=session, run_id=f"run_{name}")],
                target=f"/v1/sessions/{session}/events/stream?event_deltas=true",
            )
            builder.exchange(
                target=f"/v1/sessions/{session}/events/stream", request_headers=(("Last-Event-ID", f"evt_{name}"),)
            )
            builder.exchange(target=f"/v1/sessions/{later}/events/stream")
            asking(f"/v1/sessions/{session}/runs/run_{name}/cancel?key=secret-{name}", b"{}")(builder)

        return make

    files = two(visit("a"), visit("b"))
    equal = run("diff", *files, "--normalize", "ids")
    assert (equal.exit_code, lines_of(equal)) == (0, [])
    assert equal.output.splitlines()[-1] == "No difference  (compared: 7 pairs of exchanges, 1 event of A, 1 of B)"
    strict = run("diff", *files)
    assert strict.exit_code == 1
    assert "only in A: #4 GET /v1/sessions/ses_a1/events/stream?event_deltas=true" in lines_of(strict)
    assert "only in B: #7  POST /v1/sessions/ses_b1/runs/run_b/cancel?key=[redacted:" in strict.output
    assert strict.output.splitlines()[-1].startswith("--normalize ids pairs exchanges")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_exactly_the_differences_of_exchanges_are_reported(run, two, case):
    makers = [lambda builder, name=name: builder.record(case[name]) for name in "ab"]
    result = run("diff", *two(*makers), *case.get("options", ()))
    assert lines_of(result) == case["expected"]
    assert result.exit_code == bool(case["expected"])


def test_undecodable_bodies_are_compared_by_hash(run, two):
    packed = (*JSON, ("content-encoding", "gzip"))
    bodies = [gzip.compress(b"{}") + end for end in (b"bad", b"worse")]
    first, second = (asking("/x", body, headers=packed) for body in bodies)
    succeed("diff", *two(first))
    row = json.loads(run("diff", *two(first, second), "--json").output.splitlines()[1])
    (field,) = row["fields"]
    assert field == {
        "path": "response body $",
        **{name: f"SHA-256 {sha256(body).hexdigest()}" for name, body in zip("ab", bodies, strict=True)},
    }


def test_deeply_nested_json_is_compared_as_a_whole(run, two):
    deep = [asking("/x", b'{"a":' * 900 + data + b"}" * 900) for data in (b"1", b"2")]
    assert run("diff", *two(*deep), "--ignore-path", "$..b", "--normalize", "ids").exit_code == 1
    succeed("diff", *two(deep[0]), "--ignore-path", "$..b", "--normalize", "ids")


def test_encoded_streams_are_compared_decoded(run, two, message):
    events = b"".join(message("run.started", id=f"e{n}", sequence=n) for n in range(3))
    packed = (*EVENT_STREAM, ("content-encoding", "gzip"))

    def compressed(builder):
        builder.exchange([gzip.compress(events)], headers=packed)

    def broken(builder):
        builder.exchange([gzip.compress(events), b"no gzip"], headers=packed)

    plain = two(lambda builder: builder.exchange([events]), compressed)
    succeed("diff", *plain)
    assert "response body cannot be decoded: null" in "\n".join(lines_of(run("diff", *two(compressed, broken))))


def test_two_connections_of_one_recording_are_compared(run, builder, message):
    started = message("run.started", id="e1", sequence=1)
    builder.exchange([started, message("run.completed", id="e2", sequence=2)])
    builder.exchange(target="/v1/x", headers=())
    builder.exchange([started, message("run.failed", id="e2", sequence=2)])
    path = builder.close()
    result = run("diff", path, "--exchange", "1:3")
    assert lines_of(result) == [
        "A#1 B#3 GET /v1/sessions/s1/events/stream?event_deltas=true",
        "changed 1:2 3:2 run.completed e2 seq 2",
        'SSE event: "run.completed" → "run.failed"',
        '$.type: "run.completed" → "run.failed"',
    ]
    succeed("diff", path, path, "--exchange", "3")


def test_slower_responses_are_reported(run, new_builder):
    files = []
    for wait in (1, 400):
        builder = new_builder()
        number = builder.exchange(target="/v1/x", status=None, ending=None, method="POST")
        builder.after(wait)
        builder.answer(number)
        files.append(builder.close())
    succeed("diff", *files)
    assert lines_of(run("diff", *files, "--timing", "50ms"))[1:] == ["time #1 #1 the exchange 399 ms later"]


def test_json_has_a_row_for_each_difference_and_a_summary(run, two, message):
    def make(*ids, text):
        return lambda builder: builder.exchange(
            [message("run.started", id=one, sequence=n, text=text) for n, one in enumerate(ids, 1)]
        )

    files = two(make("e1", "e2", "e3", text="x"), make("e1", "e3", text="\ud800"))
    result = run("diff", *files, "--json", "--limit", "1")
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert result.exit_code == 1
    assert rows[0] == {"row": "diff", "format": 1, "a": str(files[0]), "b": str(files[1]), "normalized": []}
    assert [(row["kind"], row["id"]) for row in rows[1:-1]] == [("changed", "e1"), ("missing", "e2")]
    changed, missing = rows[1:-1]
    assert changed["fields"] == [{"path": "$.text", "a": "x", "b": "\ud800"}]
    assert (changed["a"]["exchange"], changed["a"]["event"], changed["b"]["event"]) == (1, 1, 1)
    assert (missing["a"]["event"], missing["b"], missing["what"], missing["type"]) == (2, None, "event", "run.started")
    counts = {"missing": 1, "added": 0, "changed": 2, "moved": 0, "time": 0}
    assert rows[-1] == {
        "row": "summary",
        "equal": False,
        "exchanges": 1,
        "events": {"a": 3, "b": 2},
        "differences": counts,
        "omitted": 1,
    }
    assert "… and 1 more; --limit 0 shows all" in run("diff", *files, "--limit", "1").output


def test_on_a_terminal_lines_are_coloured_and_never_cut(two, message):
    files = two(*(lambda builder, n=n: builder.exchange([message("x", id="e1", said="y" * 50 + n)]) for n in "ab"))
    with open_recording(files[0]) as first, open_recording(files[1]) as second:
        (found,) = RecordingDiff(first, second).compare_all()
    text = "\n".join(map(Terminal(40, has_colour=True).render, diff_output.diff_lines(found)))
    assert click.unstyle(text) != text
    assert f'$.said:"{"y" * 50}a"→"{"y" * 50}b"' in "".join(click.unstyle(text).split())
