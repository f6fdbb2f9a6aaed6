"""`wiretape report --format html`: the debugger's page with the report.  In a browser: tests/inspect/page."""

import base64
import gzip
import json
import re

import pytest
from invoke import succeed
from vector_text import vector_text

from wiretape.checker import CATALOGUE
from wiretape_inspect.page import exported_page
from wiretape_inspect.report import html_format

BROKEN = vector_text("SEQ001", "breaks")
KEPT = vector_text("SEQ001", "keeps")
SAID = '{"type":"message.delta","run_id":"r","delta":{"text":"a"}}'.replace('"', '\\"')
EVENT = f"event: message.delta\\ndata: {SAID}\\n\\n"
"""As it stands in TOML."""


@pytest.fixture
def page(run, tmp_path):
    """The documents in the page that a report about some recordings is, by their names."""

    def write(*paths, more=()):
        configured = more if "--config" in more else ["--no-config", *more]
        succeed("report", *paths, "--format", "html", "--exit-zero", "-o", tmp_path / "r.html", *configured)
        return documents((tmp_path / "r.html").read_text())

    return write


def documents(text):
    found = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', text, re.DOTALL)
    return {name: json.loads(held) for name, held in found if name != "contract"}


def codes(document):
    return [found["code"] for found in document["answers"]["/api/recording"]["findings"]]


def test_html_is_the_debugger_page_opened_at_the_findings(run, record):
    result = run("report", record(BROKEN), "--format", "html", "--no-config")
    assert result.exit_code == 1
    page = exported_page()
    assert result.stdout.startswith(page.before)
    assert result.stdout.endswith(page.after)
    assert documents(result.stdout)["report"]["start"] == "findings=1"


def test_html_contains_findings_with_evidence_and_command(page, record):
    path = record(BROKEN)
    document = page(path)["data"]
    (found,) = document["answers"]["/api/recording"]["findings"]
    assert (found["expected"], found["actual"]) == ("a sequence above 1", "0")
    assert found["see"] == f"wiretape show {path} --at 1:2"
    assert [line for _, line in found["evidence"]][1:3] == ["event: message.completed", "id: evt_0"]
    assert [
        row["findings"][0]["code"] for row in document["answers"]["/api/rows?exchange=1"] if row.get("findings")
    ] == ["SEQ001"]


def test_every_rule_has_its_verdict(page, all_vectors_file):
    rules = page(all_vectors_file, more=["--all"])["data"]["answers"]["/api/recording"]["rules"]
    assert set(rules) == set(CATALOGUE)
    assert {rule["verdict"] for rule in rules.values()} == {"fail"}
    assert all(rule["clause"] and rule["basis"] and rule["findings"] for rule in rules.values())


def test_html_shows_findings_of_the_report_not_stored_ones(page, record, tmp_path):
    path = record(BROKEN)
    config = tmp_path / "c.toml"
    config.write_text('[severity]\nSEQ001 = "note"\n')
    document = page(path, more=["--config", config])["data"]["answers"]["/api/recording"]
    assert [found["severity"] for found in document["findings"]] == ["note"]
    assert document["rules"]["SEQ001"]["severity"] == "note"
    ignored = page(path, more=["--ignore", "SEQ"])["data"]
    assert codes(ignored) == []
    assert ignored["answers"]["/api/recording"]["rules"]["SEQ001"]["selected"] is False
    assert not any(row.get("findings") for row in ignored["answers"]["/api/rows?exchange=1"])


def test_suppressed_findings_are_counted_and_not_listed(page, record, run, tmp_path):
    path = record(BROKEN)
    run("report", path, "--no-config", "--write-baseline", tmp_path / "known.json")
    held = page(path, more=["--baseline", tmp_path / "known.json"])
    recording = held["data"]["answers"]["/api/recording"]
    assert (recording["findings"], recording["report"]["suppressed"], recording["rules"]["SEQ001"]["suppressed"]) == (
        [],
        1,
        1,
    )
    assert "1 in the baseline" in recording["report"]["summary"]
    assert held["report"]["start"] == "findings=1&verdicts=1"


def test_of_many_findings_of_one_rule_the_first_are_listed_and_the_others_counted(page, record, monkeypatch):
    body = "".join(f'id: e{number}\\ndata: {{\\"type\\":\\"x\\"}}\\n\\n' for number in range(60))
    path = record(f'[[exchange]]\nrequest = "GET /v1/sessions/s/events/stream"\nbody = "{body}"\n')
    some, all_ = (
        page(path)["data"]["answers"]["/api/recording"],
        page(path, more=["--all"])["data"]["answers"]["/api/recording"],
    )
    listed = [found["code"] for found in some["findings"]].count("EVT002")
    assert (listed, some["report"]["more"]["EVT002"]) == (50, 10)
    assert ([found["code"] for found in all_["findings"]].count("EVT002"), all_["report"]["more"]) == (60, {})
    monkeypatch.setattr(html_format, "MAX_FINDINGS", 7)
    assert len(page(path, more=["--all"])["data"]["answers"]["/api/recording"]["findings"]) == 7


def test_several_recordings_share_a_page_that_opens_with_the_worst(page, record):
    one, two = record(KEPT, name="one.db"), record(BROKEN, name="two.db")
    held = page(one, two)
    assert list(held) == ["report", "data", "data-2"]
    assert held["report"]["start"] == "f=2&findings=1"
    assert [file["severities"]["error"] for file in held["report"]["files"]] == [0, 1]
    assert [held[name]["answers"]["/api/recording"]["file"] for name in ("data", "data-2")] == ["one.db", "two.db"]


@pytest.fixture
def large(record, monkeypatch):
    """A recording over the limit: 900 deltas, of which numbers 300 and 304 are wrong, then another exchange."""
    monkeypatch.setattr(html_format, "MAX_EVENTS", 40)
    wrong = EVENT.replace("event:", "id: x\\nevent:")
    body = "".join(wrong if number in {300, 304} else EVENT for number in range(1, 901))
    stream = f'[[exchange]]\nrequest = "GET /v1/sessions/s/events/stream?event_deltas=true"\nbody = "{body}"\n'
    return record(stream + '[[exchange]]\nrequest = "GET /v1/sessions/s"\nbody = "{}"\n')


def test_a_large_recording_keeps_only_events_near_findings(page, large):
    held = page(large, more=["--select", "DUR004"])["data"]
    report, rows = held["answers"]["/api/recording"]["report"], held["answers"]["/api/rows?exchange=1"]
    assert (report["radius"], report["events"]) == (10, 900)
    assert [head["exchange"] for head in held["answers"]["/api/recording"]["exchanges"]] == [1]
    shown = [
        (row["row"], row.get("event", row.get("first")), row.get("last_event", row.get("last"))) for row in rows[1:]
    ]
    assert shown[:3] == [("omitted", 1, 289), ("deltas", 290, 299), ("event", 300, None)]
    assert shown[-3:] == [("deltas", 305, 314), ("omitted", 315, 900), ("end", None, None)]
    (block,) = held["events"]["1"]
    assert (block["first"], block["last"]) == (290, 314)
    assert [one["event"] for one in unpacked(block["gzip"])] == list(range(290, 315))


def test_a_large_recording_keeps_the_client_state(page, large):
    (block,) = page(large, more=["--select", "DUR004"])["data"]["states"]["1"]
    assert (block["first"], block["last"]) == (290, 314)
    [state], *changes = unpacked(block["gzip"])
    assert state["texts"]["text"] == {"text": "a" * 290, "characters": 290, "final": False}
    assert [change["texts"]["text"]["characters"] for change in changes][-1] == [314]


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))
