"""`wiretape trim`: selecting a part, minimizing, redacting."""

import gzip
import json
import re
import stat
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invoke import succeed

from wiretape.checker import Checker
from wiretape.observations import BytesArrived, Ending, Side
from wiretape.recording import RecordingMetadata, RecordingSource, open_recording
from wiretape.traffic_builder import TrafficBuilder
from wiretape_inspect.atomic_output import write_recording
from wiretape_inspect.minimize import split_streams
from wiretape_inspect.recording_redaction import RedactedBody, Replacement

TEN = ["SEQ004", "SEQ001", "RES003", "RUN002", "TOOL005", "CLI002", "DUR003", "KAL001", "EVT010", "REC001"]


def codes(path):
    checker = Checker()
    with open_recording(path) as recording:
        found = [finding for seen in recording.observations() for finding in checker.feed(seen)]
    return [(finding.code, finding.side) for finding in [*found, *checker.finish()]]


@pytest.mark.parametrize("code", TEN)
def test_the_minimal_recording_shows_the_finding_in_a_tenth_of_the_size(run, failing, tmp_path, code):
    whole, small = failing(code), tmp_path / "small.db"
    first = next(found for found in codes(whole) if found[0] == code)

    result = succeed("trim", whole, "--to-first-finding", code, "--output", small)
    assert code in result.output
    assert first in codes(small)
    with open_recording(small) as recording:
        assert code in {row.code for row in recording.findings()}
        assert recording.info.ended_ns is not None
    assert small.stat().st_size * 10 <= whole.stat().st_size
    assert stat.S_IMODE(small.stat().st_mode) == 0o600


def test_everything_after_the_finding_counts_as_removed(run, builder, message, tmp_path):
    first, third = (message("run.started", id=f"e{number}", sequence=number) for number in (1, 3))
    builder.exchange([first, third, b": b\n", b": c\n"])
    builder.exchange(target="/v1/other")

    result = run("trim", builder.close(), "--to-first-finding", "SEQ004", "-o", tmp_path / "some.db")

    assert "\nRemoved: 1 exchange and 2 frames of streams." in result.output


@pytest.mark.parametrize(("upstream", "kept"), [("http://service.test", 1), ("", 2)])
def test_the_first_finding_is_about_what_the_upstream_makes_the_services(run, parts, tmp_path, upstream, kept):
    traffic = TrafficBuilder()
    traffic.request("POST", "/v1/sessions").respond(500, body=b"<html>")
    traffic.request("POST", "/v1/sessions/s/runs").respond(500, body=b"<html>")
    whole, small = parts.stored(traffic.observations(), tmp_path / "run.db", upstream=upstream), tmp_path / "small.db"
    succeed("trim", whole, "--to-first-finding", "ERR001", "--output", small)
    with open_recording(small) as recording:
        assert [exchange.number for exchange in recording.exchanges()] == [kept]


@given(st.integers(0, 3), st.data())
@settings(max_examples=12)
def test_kept_exchanges_are_unchanged(parts, stored_conversation, seed, data):
    with tempfile.TemporaryDirectory() as folder:
        whole = stored_conversation(seed)
        numbers = sorted({seen.exchange for seen in parts.read(whole)})
        kept = data.draw(st.lists(st.sampled_from(numbers), min_size=1, unique=True))
        options = [word for number in kept for word in ("--exchange", number)]

        succeed("trim", whole, *options, "--output", Path(folder, "some.db"))
        assert parts.read(Path(folder, "some.db")) == [seen for seen in parts.read(whole) if seen.exchange in kept]


def test_until_cuts_a_stream_as_if_the_proxy_had_been_killed(run, builder, parts, tmp_path):
    builder.exchange([(1000, b": a\n"), (1000, b": b\n"), (1000, b": c\n")])
    builder.exchange()
    whole = builder.close()
    succeed("trim", whole, "--until", "2500ms", "-o", tmp_path / "some.db")
    assert parts.read(tmp_path / "some.db") == [seen for seen in parts.read(whole) if seen.time_ns <= 2_500_000_000]
    with open_recording(tmp_path / "some.db") as recording:
        assert [(each.number, each.ending, each.response_bytes) for each in recording.exchanges()] == [
            (1, Ending.OPEN, 8)
        ]


@pytest.mark.parametrize(("options", "kept"), [(("--since", "2s"), (2, 8)), (("--channel", "s2"), (3, 4))])
def test_a_session_or_exchanges_in_progress_are_kept_from_their_beginning(run, builder, tmp_path, options, kept):
    builder.exchange([(100, b": a\n")])
    builder.exchange([(100, b": a\n"), (5000, b": b\n")])
    if "s2" in options:
        builder.exchange([b": a\n"], target="/v1/sessions/s2/events/stream")
    succeed("trim", builder.close(killed=True), *options, "-o", tmp_path / "some.db")
    with open_recording(tmp_path / "some.db") as recording:
        assert [(each.number, each.response_bytes) for each in recording.exchanges()] == [kept]
        assert recording.info.ended_ns is not None


SECRET = 'open "sesame"/42'


def secretive(builder, message, *, compressed=False):
    """A recording with a secret in a path, headers, a JSON body, a plain body and a stream, in odd chunks."""
    body = message("tool.started", id="e1", sequence=1, content={"token": "t0ken-1", "n": 12, "text": f"say {SECRET}!"})
    cut = body.index(b"sesame") + 3
    builder.exchange(
        [body[:cut], body[cut:]],
        target="/v1/sessions/s1/events/stream?q=open%20%22sesame%22%2F42",
        request_headers=(("X-Tenant", "tenant-1234"), ("X-Other", f"is {SECRET}"), ("Authorization", "Bearer k")),
    )
    answer = json.dumps(
        {"list": [{"token": "t0ken-2"}, {"token": True}], "text": SECRET, "who": "tenant-1234"}
    ).encode()
    headers = (("content-type", "application/json"),)
    if compressed:
        answer = gzip.compress(answer, mtime=0)
        headers = (*headers, ("Content-Encoding", "gzip"), ("Content-Length", str(len(answer))))
    builder.exchange([answer[:20], answer[20:]], target="/v1/runs", headers=headers, body=SECRET.encode())
    return builder.close()


def body_of(recording, number):
    return b"".join(run.data for run in recording.body(number, Side.RESPONSE))


def redacted(run, whole, to, *what):
    options = [word for each in what for word in ("--redact", each)]
    return run("trim", whole, *options, "-o", to)


def test_texts_headers_and_json_values_are_redacted_without_changing_lengths(run, builder, message, parts, tmp_path):
    whole, clean = secretive(builder, message), tmp_path / "clean.db"

    result = redacted(run, whole, clean, f"text:{SECRET}", "header:x-tenant", "json:$..token")

    assert result.exit_code == 0, result.output
    raw = clean.read_bytes()
    for gone in (b"sesame", b"t0ken-", b"tenant-1234"):
        assert gone in whole.read_bytes()
        assert gone not in raw
    shape = [(type(s), s.time_ns, getattr(s, "ends", None)) for s in parts.read(whole)]
    assert [(type(s), s.time_ns, getattr(s, "ends", None)) for s in parts.read(clean)] == shape
    with open_recording(clean) as recording:
        (seen,) = recording.frames(1)
        document = json.loads(seen.frame.data)
        assert seen.frame.id == "e1"
        assert document["content"]["token"] == "*" * 7
        assert document["content"]["n"] == 12
        answer = json.loads(body_of(recording, 2))
        assert [each["token"] for each in answer["list"]] == ["*" * 7, None]
        tenant = dict(recording.exchange(1).request.headers)["X-Tenant"]
        assert tenant.startswith("[redacted:")
        with open_recording(whole) as before:
            assert recording.info.redacted > before.info.redacted


def test_a_compressed_body_with_a_secret_is_stored_decoded(run, builder, message, tmp_path):
    whole, clean = secretive(builder, message, compressed=True), tmp_path / "clean.db"

    result = redacted(run, whole, clean, f"text:{SECRET}")

    assert "The response body of exchange 2 was compressed: it is stored decoded" in result.output
    with open_recording(clean) as recording:
        exchange = recording.exchange(2)
        body = body_of(recording, 2)
    assert {name.lower() for name, _ in exchange.response.headers} == {"content-type"}
    assert b"sesame" not in body
    assert json.loads(body)["who"] == "tenant-1234"


def test_an_undecodable_body_is_removed(run, builder, tmp_path):
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    builder.exchange([b"no gzip: a secret"], target="/a", headers=headers)

    result = redacted(run, builder.close(), tmp_path / "clean.db", "text:a secret")

    assert "Part of the response body of exchange 1 cannot be decoded and searched" in result.output
    assert "kept decoded" not in result.output
    with open_recording(tmp_path / "clean.db") as recording:
        assert recording.exchange(1).lost_bytes == 17
    assert b"a secret" not in (tmp_path / "clean.db").read_bytes()


@given(
    places=st.lists(st.tuples(st.integers(0, 39), st.integers(1, 20)), max_size=8),
    cuts=st.lists(st.integers(1, 39), unique=True).map(sorted),
)
def test_every_replacement_is_applied_whatever_the_chunk_boundaries(places, cuts):
    """Also if replacements overlap, and if a long one begins many runs earlier."""
    data = bytes(range(100, 140))
    hidden = {at for start, length in places for at in range(start, min(start + length, 40))}
    body = RedactedBody([Replacement(at, b"*") for at in sorted(hidden)])
    made = b""
    for start, end in pairwise([0, *cuts, 40]):
        made += body.overwrite(BytesArrived(1, Side.RESPONSE, start, data[start:end], (end,), (1,))).data
    assert made == bytes(ord("*") if at in hidden else byte for at, byte in enumerate(data))


def test_targets_that_were_not_found_are_reported(run, builder, message, tmp_path):
    """Only the beginning of a text is printed, because it is a secret."""
    whole = secretive(builder, message)
    gone = [f"text:{SECRET}", "header:x-tenant", "header:authorization", "json:$..token", "json:$..n"]
    missed = ["header:x-tenat", "query:tickt", "json:$.tokn", "text:sesam street"]

    result = redacted(run, whole, tmp_path / "clean.db", *gone, *missed)

    assert result.exit_code == 0
    names = "header:x-tenat, query:tickt, json:$.tokn, text:ses…"
    assert result.stderr == f"Not found, and therefore not redacted: {names}.\n"


def test_a_fingerprint_keeps_its_scheme(run, builder, message, tmp_path):
    """Without `Bearer`, the rules would report the client."""
    whole = secretive(builder, message)

    result = redacted(run, whole, tmp_path / "clean.db", "header:authorization")

    assert (result.exit_code, result.stderr) == (0, "")
    with open_recording(whole) as before, open_recording(tmp_path / "clean.db") as after:
        assert after.exchange(1).request.headers == before.exchange(1).request.headers


def test_parameters_and_details_of_endings_are_redacted_with_repetitions(run, builder, tmp_path):
    builder.exchange(
        [b'{"seen": "ticket-1234"}'], target="/v1?Tic-ket=ticket-1234&page=2", detail="sesame, and it was open"
    )
    result = redacted(run, builder.close(), tmp_path / "clean.db", "query:ticket", "text:sesame")
    assert (result.exit_code, result.stderr) == (0, "")
    assert b"sesame" not in (tmp_path / "clean.db").read_bytes()
    with open_recording(tmp_path / "clean.db") as recording:
        assert re.fullmatch(r"/v1\?Tic-ket=\[redacted:\w{16}\]&page=2", recording.exchange(1).request.target)
        assert body_of(recording, 1) == b'{"seen": "***********"}'


def test_an_error_about_a_removed_exchange_does_not_claim_that_it_exists(run, builder, tmp_path):
    for _ in range(3):
        builder.exchange()
    run("trim", builder.close(), "--exchange", 1, "--exchange", 3, "--output", tmp_path / "small.db")

    error = run("show", tmp_path / "small.db", "--exchange", 2).stderr
    assert "has no exchange 2: its 2 exchanges have numbers from 1 to 3." in error


def test_an_interruption_leaves_existing_files_unchanged(before, tmp_path):
    def interrupted():
        yield from before[:50]
        raise KeyboardInterrupt

    to = tmp_path / "run.db"
    to.write_text("mine")

    with pytest.raises(KeyboardInterrupt):
        write_recording(RecordingSource(RecordingMetadata("http://a", 1), interrupted()), to)

    assert to.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [to]


@given(st.integers(0, 6))
@settings(max_examples=7)
def test_split_and_joined_streams_are_unchanged(parts, seed):
    """Also with lost bytes, and with frames that span chunks."""
    with tempfile.TemporaryDirectory() as folder:
        seen = parts.buried(parts.vector("REC001"), parts.conversation(seed, 15), 5)
        whole = parts.stored(seen, Path(folder, "whole.db"))
        observations = parts.read(whole)
    taken = split_streams(observations)

    assert taken.join(taken.pieces) == observations
    assert len(taken.pieces) > 5


@pytest.mark.parametrize("template", ["\\u%04x", "\\\\u%04X", "%%%02x", "%%25%02X"])
def test_a_text_is_redacted_if_its_characters_are_escaped(run, builder, tmp_path, template):
    """In any way in which the recorder finds secrets."""
    escaped = "".join(template % ord(letter) for letter in SECRET)
    mixed = SECRET[:6].replace('"', '\\"') + escaped[len(template % 65) * 6 :]
    body = f'{{"a": "{escaped}", "b": "{mixed}"}}'.encode()
    builder.exchange([body], target=f"/v1/{escaped}", headers=(("content-type", "application/json"),))

    result = redacted(run, builder.close(), tmp_path / "clean.db", f"text:{SECRET}")

    assert (result.exit_code, result.stderr) == (0, "")
    with open_recording(tmp_path / "clean.db") as recording:
        assert re.fullmatch(r"/v1/\[redacted:[0-9a-f]{16}\]", recording.exchange(1).request.target)
        stored = body_of(recording, 1)
    assert stored == body.replace(escaped.encode(), b"*" * len(escaped)).replace(mixed.encode(), b"*" * len(mixed))


JSON = (("content-type", "application/json"),)
STREAM = (("content-type", "text/event-stream"),)
BROKEN = b'data: {"pin": 1, broken}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("what", "headers", "body", "expected"),
    [
        ("json:$..token", (), '{"token": "abc"}'.encode("utf-16"), '{"token": "***"}'.encode("utf-16")),
        ("json:$..token", JSON, b'data: {"token": "abc"}\n\n', b'data: {"token": "***"}\n\n'),
        ("json:$..pin", STREAM, BROKEN, b"data: ******************\n\ndata: [DONE]\n\n"),
        ("text:4711", STREAM, b'data: {"a": 4711, "b": "4711 x"}\n\n', b'data: {"a": 1111, "b": "1111 x"}\n\n'),
        ("text:data", STREAM, b'data: {"data": "data"}\n\n', b'data: {"****": "****"}\n\n'),
    ],
    ids=["UTF-16", "a stream named JSON", "unreadable JSON", "digits", "field names"],
)
def test_bodies_are_redacted_as_the_recorder_redacts_them(run, builder, tmp_path, what, headers, body, expected):
    builder.exchange([body], target="/v1", headers=headers)

    result = redacted(run, builder.close(), tmp_path / "clean.db", what)

    assert result.exit_code == 0
    unreadable = "1 JSON text could not be read, and all of it is overwritten."
    assert (unreadable in result.output) is (body is BROKEN)
    with open_recording(tmp_path / "clean.db") as recording:
        assert body_of(recording, 1) == expected


def test_a_secret_is_redacted_as_the_recorder_would_have_redacted_it(run, builder, tmp_path):
    """In bodies before its head as well."""
    builder.exchange([b"data: tenant-1, key-12345678 or key-1234\n\n"])
    builder.exchange(
        request_headers=(("X-Tenant", 'Bearer tenant-1, api-key="key-12345678"'), ("X-Other", "is key-12345678"))
    )
    whole = builder.close()

    assert redacted(run, whole, tmp_path / "clean.db", "header:x-tenant").exit_code == 0

    with open_recording(tmp_path / "clean.db") as recording:
        stored = body_of(recording, 1)
        headers = dict(recording.exchange(2).request.headers)
    assert stored == b"data: ********, ************ or key-1234\n\n"
    assert re.fullmatch(r"Bearer \[redacted:\w{16}\]", headers["X-Tenant"])
    assert re.fullmatch(r"is \[redacted:\w{16}\]", headers["X-Other"])
