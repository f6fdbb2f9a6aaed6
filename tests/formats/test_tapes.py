"""Tapes that people write: their defaults, exact bytes, edits, and how commands and clients use them."""

import json
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from invoke import invoke, refusal, succeed
from programs import find_program
from tables import read_tables

from wiretape.errors import InputError
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import open_recording
from wiretape.recording.formats import find_format
from wiretape.safe_text import escape_json

TABLES = read_tables(__file__)

DOCS = Path(__file__).parents[2] / "docs" / "tape.md"
HEAD = "tape: 1\nupstream: https://service:1\n"
FIVE_LINES = """\
tape: 1
---
request: GET /v1/sessions/ses_1/events/stream
events:
- data: {"id": "evt_1", "sequence": 1, "type": "session.status_idle"}
"""
EVENT = b'event: session.status_idle\nid: evt_1\ndata: {"id":"evt_1","sequence":1,"type":"session.status_idle"}\n\n'
MS = 1_000_000
S = 1_000_000_000


@pytest.fixture
def tape(tmp_path):
    """Return a function that writes a tape."""

    def write(text: str, name: str = "run.tape") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8", newline="")
        return path

    return write


def observed(path: Path) -> list:
    with open_recording(path) as recording:
        return list(recording.observations())


def chunks(path: Path, side: Side = Side.RESPONSE) -> list[tuple[int, bytes]]:
    """Return the chunks of a body of exchange 1: milliseconds since the request or response began, and bytes."""
    with open_recording(path) as recording:
        exchange = recording.exchange(1)
        began = exchange.response.time_ns if side is Side.RESPONSE else exchange.request.time_ns
        runs = [run for run in recording.body(1, side) if isinstance(run, BytesArrived)]
    return [((time_ns - began) / MS, data) for run in runs for time_ns, data in run.chunks()]


def exported(path: Path) -> str:
    with open_recording(path) as recording:
        return b"".join(find_format("tape").write(recording, None)).decode()


def test_everything_that_a_tape_omits_has_a_default(tape):
    """Five lines are a request and its end, a response, an event in one chunk, and an end, each a millisecond apart."""
    target, stream = "/v1/sessions/ses_1/events/stream", (("Content-Type", "text/event-stream"),)
    assert observed(tape(FIVE_LINES)) == [
        RequestStarted(1, MS, "127.0.0.1", "GET", "http", "service.test", target, "HTTP/1.1", ()),
        RequestEnded(1, 2 * MS),
        ResponseStarted(1, 3 * MS, 200, "OK", "HTTP/1.1", stream),
        BytesArrived(1, Side.RESPONSE, 0, EVENT, (len(EVENT),), (4 * MS,)),
        ExchangeEnded(1, 5 * MS, Ending.COMPLETE, ""),
    ]


def test_exchanges_follow_each_other_unless_they_have_times(tape):
    text = HEAD + "---\nrequest: POST /a\nbody: {x: 1}\nresponse: 204\n"
    text += "---\nrequest: GET /b\n---\nrequest: GET /c\nafter: 0.994\n"
    text += "---\nrequest: GET /d\nafter: 0.000000001\nresponse: null\n"
    seen = observed(tape(text))
    assert [each.time_ns for each in seen if isinstance(each, RequestStarted)] == [MS, 6 * MS, S, S + 1]
    assert [each.exchange for each in seen] == [1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 3, 4, 3, 4, 3]
    assert {(each.scheme, each.authority) for each in seen if isinstance(each, RequestStarted)} == {
        ("https", "service:1")
    }


@pytest.mark.parametrize(("item", "bytes_"), TABLES["elements"])
def test_every_kind_of_element_stands_for_exact_bytes(tape, item, bytes_):
    assert chunks(tape(f"{HEAD}---\nrequest: GET /\nevents:\n- {item}\n- after: 2\n  text: x\n")) == [
        (1.0, bytes_.encode("latin-1")),
        (2001.0, b"x"),
    ]


def test_a_stream_has_one_framing(tape):
    framing = "framing: {fields: [id, event, data], line-end: crlf, json: spaced-escaped, space: false}"
    text = f"{HEAD}---\nrequest: GET /\n{framing}\nevents:\n" + '- data: {"type": "a", "id": "é"}\n- comment: x\n'
    assert chunks(tape(text)) == [
        (1.0, 'id:é\r\nevent:a\r\ndata:{"type": "a", "id": "\\u00e9"}\r\n\r\n'.encode()),
        (2.0, b":x\r\n"),
    ]


def test_cut_splits_an_element_into_chunks(tape):
    text = f"{HEAD}---\nrequest: POST /\nbody:\n- text: abcdef\n  cut: [[2, 0.5], [2, 0.25], [5, 1]]\n"
    assert chunks(tape(text), Side.REQUEST) == [(1.0, b"ab"), (501.0, b""), (751.0, b"cde"), (1751.0, b"f")]


JOINED = """\
- deltas: {"type": "message.delta", "run_id": "run_1", "sequence": 9, "delta": {"text": ""}}
  at: /delta/text
  counts: [/sequence, id]
  id: "4"
  texts:
  - text: 'Hi, you. '
    sizes: [2, 2, 5]
    after: [0.5, 0.25, 0.25]
  - text: |
      a b
    sizes: [[1, 4]]
"""


def test_joined_deltas_are_events_of_their_own(tape):
    """An export joins them as well."""
    first = tape(f"{HEAD}---\nrequest: GET /v1/sessions/s/events/stream?event_deltas=true\nevents:\n{JOINED}")
    data = '{{"type":"message.delta","run_id":"run_1","sequence":{},"delta":{{"text":"{}"}}}}'
    form = f"event: message.delta\nid: {{}}\ndata: {data}\n\n"
    texts = ["Hi", ", ", "you. ", "a", " ", "b", "\\n"]
    times = [500, 750, 1000, 1001, 1002, 1003, 1004]
    assert chunks(first) == [
        (time, form.format(4 + index, 9 + index, text).encode())
        for index, (time, text) in enumerate(zip(times, texts, strict=True))
    ]
    assert JOINED in exported(first)


def test_deltas_are_joined_only_if_they_are_exact(tape):
    """One has another run, one half of a character, and one arrived in two chunks."""
    deltas = [f'- data: {{"type": "message.delta", "run_id": "r", "delta": {{"text": "{text}"}}}}\n' for text in "abcd"]
    half = '{"type":"message.delta","run_id":"r","delta":{"text":"\\ud83d"}}'
    odd = [
        deltas[0].replace('"r"', '"s"'),
        "- text: " + json.dumps(f"event: message.delta\ndata: {half}\n\n") + "\n",
        deltas[0] + "  cut: [[1, 0.1]]\n",
    ]
    head = f"{HEAD}---\nrequest: GET /v1/sessions/s/events/stream?event_deltas=true\nevents:\n"
    for each in odd:
        first = tape(f"{head}{''.join([*deltas, each, *deltas])}")
        assert exported(first).count("  - text: abcd\n    sizes: [[1, 4]]\n") == 2
        assert observed(tape(exported(first), "again")) == observed(first)


def test_long_base64_is_folded(tape):
    data = b64encode(bytes(range(256)) * 2).decode()
    value = f'{{"image": "{data}", "url": "data:image/png;base64,{data}"}}'
    first = tape(f"{HEAD}---\nrequest: POST /\nbody:\n- json: {value}\n- base64: {data}\n")
    written = exported(first)
    assert max(map(len, written.splitlines())) < 120
    assert observed(tape(written, "again")) == observed(first)


def test_lost_bytes_are_an_element(tape):
    seen = observed(tape(f"{HEAD}---\nrequest: GET /\nevents:\n- text: ab\n- lost: 7\n  why: overload\n- text: c\n"))
    assert BytesLost(1, 5 * MS, Side.RESPONSE, 2, 7, "overload") in seen
    assert BytesArrived(1, Side.RESPONSE, 9, b"c", (10,), (6 * MS,)) in seen


@pytest.mark.parametrize("change", ["\r\n", "\ufeff"], ids=["CR LF", "byte order mark"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(tape, change):
    text = FIVE_LINES.replace("\n", change) if change == "\r\n" else change + FIVE_LINES
    assert observed(tape(text, "other.tape")) == observed(tape(FIVE_LINES))


def test_comments_and_blank_lines_are_ignored(tape):
    text = "# first\n\n" + FIVE_LINES.replace("\n---\n", "\n# of the head\n\n---  # begins\n# a\n")
    text = text.replace("events:\n", "events:  # all\n\n  # one\n") + "# last\n\n---\n# nothing\n"
    assert observed(tape(text)) == observed(tape(FIVE_LINES))


@pytest.mark.parametrize("text", TABLES["texts"])
def test_any_text_is_exported_exactly_and_without_unsafe_characters(tape, text):
    """No control or direction character is written unescaped; other characters are written as they are."""
    data = json.dumps({f"k{text}": [text] * 9}, ensure_ascii=False)
    parts = (b64encode(part.encode()).decode() for part in (f"data: {data}\n\n", text))
    first = tape(f'{HEAD}---\nrequest: GET /\nevents:\n- base64: {next(parts)}\n- base64: "{next(parts)}"\n')
    written = exported(first)
    assert observed(tape(written, "again.tape")) == observed(first)
    assert escape_json(written) == written
    assert written.count("😀") == 11 * text.count("😀")


def test_git_merges_the_edits_of_two_people(tape, tmp_path):
    """One changes an event and adds an exchange, the other adds an event and removes another."""
    events = "".join(f'- after: 0.0{n}\n  data: {{"type": "a", "n": {n}}}\n' for n in range(1, 9))
    base = f"{HEAD}---\nrequest: GET /a\nevents:\n{events}"
    one = base.replace('"n": 2}', '"n": 2, "more": true}') + "---\nrequest: GET /b\n"
    other = base.replace("- after: 0.05\n", '- data: {"type": "new"}\n- after: 0.05\n')
    other = other.replace('- after: 0.07\n  data: {"type": "a", "n": 7}\n', "")
    paths = [tape(text, name) for text, name in ((one, "one"), (base, "base"), (other, "other"))]
    merged = subprocess.run(
        [find_program("git"), "merge-file", "-p", *paths], capture_output=True, text=True, check=True
    )
    sent = [data.decode() for _, data in chunks(tape(merged.stdout, "merged"))]
    assert [re.findall('"n":(.)|"(more|new)"', data) for data in sent] == [
        [("1", "")],
        [("2", ""), ("", "more")],
        [("3", "")],
        [("4", "")],
        [("", "new")],
        [("5", "")],
        [("6", "")],
        [("8", "")],
    ]
    with open_recording(tmp_path / "merged") as recording:
        assert [exchange.request.target for exchange in recording.exchanges()] == ["/a", "/b"]


def test_an_export_is_readable(tape):
    """Short data is on one line, long data is on several, and everything else is exact."""
    written = DOCS.read_text("utf-8").split("```yaml\n")[2].split("```")[0]
    text = exported(tape(written.replace("you there", "you there, " * 12 + "all")))
    assert '- data: {"type": "message.delta", "run_id": "run_1", "delta": {"text": "Hi"}}\n' in text
    assert "- after: 15\n  comment: keep-alive\n- after: 0.5\n  data:\n    id: evt_2\n    sequence: 2\n" in text
    assert f"    - type: text\n      text: |-\n        Hi,\n        {'you there, ' * 12}all\n" in text
    assert "- text: 'event: run.comp'\nending: service-reset\n" in text


@pytest.mark.parametrize(("item", "more"), TABLES["forms"])
def test_an_export_has_the_form_that_people_write(tape, item, more):
    first = 'data: {"id": "x", "type": "y", "n": [1, 2]}' if more else "data: {}"
    text = f"---\nrequest: GET /\n{more}response: 200\nevents:\n- {first}\n- {item}\n"
    written = exported(tape(f"tape: 1\n{text}"))
    assert written.partition("---\n")[2] == text.partition("---\n")[2]


def test_the_style_of_a_json_body_is_exported_only_if_it_is_unusual(tape):
    first = tape(f"{HEAD}---\nrequest: POST /\nbody:\n- json: {{a: 1}}\n- json: {{a: 1}}\n  style: spaced\n")
    written = exported(first)
    assert written.count('- json: {"a": 1}\n') == 2
    assert written.count("style: spaced") == written.count("style") == 1


def test_a_replayed_tape_is_the_same_to_the_byte(tape):
    """`wiretape replay --verify` compares every byte, chunk and ending."""
    assert succeed("replay", tape(FIVE_LINES), "--verify").stderr == (
        "1 exchange came back as recorded: 101 bytes of body in 1 chunk, with their heads and endings.\n"
    )


@pytest.mark.parametrize(
    ("command", "status", "line"),
    [
        ("report --no-config", 1, "6  error    EVT004"),
        ("channels", 0, "ses_1"),
        ("show", 0, "session.status_idle"),
        ("show --at 1:1", 0, "session.status_idle"),
        ("export --format sse", 0, '"type":"session.status_idle"'),
    ],
)
def test_commands_accept_a_tape(tape, command, status, line):
    path = tape(FIVE_LINES)
    result = invoke(*command.split(), path)
    assert (result.exit_code, line in result.stdout) == (status, True), result.output
    assert str(path.parent / "tmp") not in result.output


def test_a_report_does_not_replace_its_tape(tape):
    path = tape(FIVE_LINES)
    assert "is also an input file" in refusal("report", path, "--output", path)
    assert path.read_text("utf-8") == FIVE_LINES


@pytest.mark.parametrize("lines", ["request: GET\ntarget: v1/sessions\n", 'request: GET /\nresponse: "99 "\n'])
def test_invalid_http_that_was_recorded_is_kept(tape, lines):
    """A client may send a target without a slash, and a service may respond with any status."""
    first = tape(f"{HEAD}---\n{lines}")
    text = exported(first)
    assert lines.splitlines()[1] in text
    assert observed(tape(text, "again.tape")) == observed(first)


NOT_OPENED = "not a recording: convert it with `wiretape import` first."
BEGINNINGS = {
    "tpe: 1\n": "is not a wiretape recording. If it is meant to be a tape, begin it with the line `tape: 1`.",
    "tape:\n": "is not a wiretape recording. If it is meant to be a tape, begin it with the line `tape: 1`.",
    'tape: "1"\n': "is not a wiretape recording. If it is meant to be a tape, begin it with the line `tape: 1`.",
    "\ufefftape: 1\n".encode("utf-16-le"): "looks like UTF-16 text: save it as UTF-8.",
    "tape: 1\n".encode("utf-16-be"): "looks like UTF-16 text: save it as UTF-8.",
    b"\x7fELF\x02\0": "is not a wiretape recording.",
    '{"log": {"version": "1.2", "entries": []}}': f"is a HAR file, {NOT_OPENED}",
    "data: 1\n\n": f"is a raw event stream, {NOT_OPENED}",
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_file_that_is_not_a_recording_is_refused_with_a_hint(tmp_path, beginning):
    path = tmp_path / "run.tape"
    path.write_bytes(beginning if isinstance(beginning, bytes) else beginning.encode())
    with pytest.raises(InputError) as caught:
        open_recording(path)
    assert str(caught.value) == f"{path} {BEGINNINGS[beginning]}"


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(tape.*?)```", DOCS.read_text("utf-8"), re.DOTALL))
def test_the_tapes_of_the_page_are_valid(tape, text):
    assert observed(tape(text))


def test_the_error_message_of_the_page_is_current(tape, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tape(FIVE_LINES.replace("- data", "- afer: 2\n  data"))
    assert refusal("show", "run.tape") in DOCS.read_text("utf-8")


def test_opening_a_recording_does_not_load_the_yaml_parser():
    code = "import sys, wiretape.recording; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
