"""A recording in datasette, and `wiretape datasette`.

WIRETAPE_DATASETTE names another datasette than the one that is installed here, say of another version.
"""

import html
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml
from invoke import succeed
from wiretape_process import run_wiretape

from wiretape.contract.contract_facts import detected_contracts
from wiretape.recording import Writer, open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect.commands.datasette import read_columns, read_descriptions

WORDS = read_descriptions(detected_contracts().contracts)
QUERIES = {query["name"]: query for query in WORDS["queries"]}
HOSTILE = "<script>alert('x')</script><b>bold</b>"
STREAM = "/v1/sessions/s1/events/stream"
DATASETTE = shlex.split(os.environ.get("WIRETAPE_DATASETTE", "")) or [sys.executable, "-m", "datasette"]


class Site:
    """A running datasette."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open = build_opener(ProxyHandler({})).open

    def page(self, path: str) -> str:
        with self._open(f"{self._address}{path}", timeout=30) as response:
            return response.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.page(path))

    def rows(self, name: str, query: str = "") -> list[dict[str, Any]]:
        return self.json(f"/run/{name}.json?_shape=array{query}")


@pytest.fixture(scope="module")
def recorded(new_builder: Callable[..., Any], recordings: dict[str, Any]) -> Path:
    """A slow tool call, a cut stream, a stream that repeats and loses an event, and a finding."""
    builder = new_builder()
    *most, last = recordings["html"]
    builder.record(most)
    at = builder.now - 11_000_000  # 10 ms and the end of the exchange before
    builder.record([last])
    builder.find(Finding("SEQ001", Severity.ERROR, Party.SERVICE, 2, 4, 4, 0, at, f"is {HOSTILE}"))
    return builder.close()


@pytest.fixture(scope="module")
def site(recorded: Path) -> Iterator[Site]:
    """datasette, started as the command prints."""
    output = _wiretape("datasette", "run.db", cwd=recorded.parent)
    first, second = re.findall(r"^    datasette (.*)$", output, re.MULTILINE)
    opens = shlex.split(first if _datasette_version().startswith("0.") else second)
    command, silent = [*DATASETTE, *opens, "--port", "0"], subprocess.DEVNULL
    with subprocess.Popen(command, cwd=recorded.parent, stdout=silent, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "running on" in line)
            yield Site(re.search(r"http://[\d.:]+", line)[0])
        finally:
            process.terminate()
            process.communicate()


def _datasette_version() -> str:
    if "WIRETAPE_DATASETTE" not in os.environ:
        return version("datasette")
    printed = subprocess.run([*DATASETTE, "--version"], capture_output=True, text=True, check=True).stdout
    return printed.split()[-1]


def _wiretape(*args: str, cwd: Path) -> str:
    return run_wiretape(*args, cwd=cwd).stdout


def test_the_descriptions_cover_exactly_all_tables_views_and_columns(tmp_path: Path) -> None:
    Writer.create(tmp_path / "new.db", upstream="http://service").close()
    there = read_columns(tmp_path / "new.db")
    assert set(WORDS["tables"]) == set(there)
    for name, columns in there.items():
        described = WORDS["tables"][name]
        own = described.get("columns", {})
        used = [
            *own,
            *described.get("facets", []),
            *(described[key] for key in ("label", "sort", "sort_desc") if key in described),
        ]
        assert [column for column in used if column not in columns] == [], name
        assert [column for column in columns if column not in own | WORDS["columns"]] == [], name


def test_every_table_and_view_shows_its_descriptions(site: Site) -> None:
    for name, described in WORDS["tables"].items():
        page = html.unescape(site.page(f"/run/{name}"))
        assert described["description"] in page, name
        assert all(meaning in page for meaning in described.get("columns", {}).values()), name


def test_the_pages_hide_bytes_label_exchanges_and_count_types(site: Site) -> None:
    hidden = {table["name"] for table in site.json("/run.json")["tables"] if table["hidden"]}
    assert hidden == {"frame", "segment", "word"}
    front = site.page("/run")
    assert all(f'href="/run/{name}"' in front for name in ("events", "tool_calls", "longest_silences"))
    assert re.search(rf'<a href="/run/exchange/2">GET {STREAM} → 200</a>', site.page("/run/finding"))
    facet = r'<a[^>]*type=tool\.started"[^>]*>tool\.started</a>\s*(?:<span[^>]*>)?2\b'
    assert re.search(facet, site.page("/run/events"))


def test_views_show_what_happened(site: Site) -> None:
    (call,) = site.rows("tool_calls")
    assert (call["name"], call["duration_ms"], call["outcome"], call["run_id"]) == ("f", 2500, "tool.completed", "r1")
    (gap,) = site.rows("gaps")
    assert (gap["gap_ms"], gap["ended_by"], gap["event"]) == (2500, "tool.completed", 3)
    (resume,) = site.rows("resumes")
    assert (resume["last_event_id"], resume["repeated_events"], resume["lost_events"]) == ("e2", 1, 2)
    (run,) = site.rows("runs")
    assert (run["outcome"], run["events"], run["connections"]) == ("run.completed", 5, 2)
    (session,) = site.rows("sessions")
    assert (session["streams"], session["events"], session["findings"]) == (2, 7, 1)
    (found,) = site.rows("findings_with_events")
    assert (found["code"], found["sse_id"]) == ("SEQ001", "e4")
    assert [row["gap_ms"] for row in site.rows("events", "&exchange_id=2")] == [None, 10, 2500, 10, 10]
    assert len(site.rows("exchanges")) == 3


def test_event_times_equal_those_of_other_exports(site: Site, recorded: Path) -> None:
    lines = _wiretape("export", "run.db", "--format", "events", cwd=recorded.parent).splitlines()
    times = [_unix(each["time"]) for each in map(json.loads, lines) if each.get("event")]
    # Where the others begin to count is rounded to a microsecond.
    assert [_unix(row["time"]) for row in site.rows("events")] == pytest.approx(times, rel=0, abs=2e-6)


def test_ready_made_queries_run(site: Site) -> None:
    answers = {name: site.rows(name, "&text=alert") for name in QUERIES}
    assert [row["event"] for row in answers["before_the_first_finding"]] == [4, 3, 2, 1]
    assert answers["before_the_first_finding"][0]["finding"] == f"SEQ001: is {HOSTILE}"
    assert [row["tool_call_id"] for row in answers["slowest_tool_calls"]] == ["t1"]
    assert [row["gap_ms"] for row in answers["longest_silences"]] == [2500]
    assert [row["lost_events"] for row in answers["lost_or_repeated_on_resume"]] == [2]
    assert {row["type"]: row["events"] for row in answers["events_by_type_and_connection"]}["tool.started"] == 1
    assert [row["sequence"] for row in answers["events_with_text"]] == [4]
    assert answers["unfinished_runs"] == []


@pytest.mark.parametrize(
    "path",
    ["/run/events", "/run/exchange", "/run/exchange/1", "/run/findings_with_events", "/run/before_the_first_finding"],
)
def test_recorded_html_is_escaped(path: str, site: Site) -> None:
    page = site.page(path)
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold" in page


def test_the_recording_is_unchanged_and_both_files_are_private(session: Path, run) -> None:
    before = session.read_bytes()
    succeed("datasette", session)
    made = [session.with_name(name) for name in ("run.metadata.json", "run.datasette.yaml")]
    assert session.read_bytes() == before
    assert [path.stat().st_mode & 0o777 for path in made] == [0o600, 0o600]
    queries = json.loads(made[0].read_text())["databases"]["run"]["queries"]
    assert yaml.safe_load(made[1].read_text())["databases"]["run"]["queries"] == queries
    assert set(queries) == set(QUERIES)
    made[0].unlink()
    refused = run("datasette", session)
    assert (refused.exit_code, "run.datasette.yaml exists" in refused.output) == (2, True)
    assert not made[0].exists()
    succeed("datasette", session, "--force")


def _of_another_version(path: Path) -> None:
    """Give a recording the views of an older version: fewer views, fewer columns, and a broken one."""
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
            connection.execute(f'DROP VIEW "{name}"')
        connection.execute("CREATE VIEW gaps AS SELECT exchange_id, time_ns FROM frame")
        connection.execute("CREATE VIEW runs AS SELECT run FROM what_is_not_there")


def test_views_missing_from_an_older_recording_are_left_out(session: Path, run) -> None:
    _of_another_version(session)
    before = session.read_bytes()
    result = succeed("datasette", session)
    assert "--update-views" in result.stderr
    assert session.read_bytes() == before
    described = json.loads(session.with_name("run.metadata.json").read_text())["databases"]["run"]
    assert set(described["tables"]) == {"gaps", *(name for name in WORDS["tables"] if name in _tables(session))}
    assert "sort_desc" not in described["tables"]["gaps"]
    assert described["tables"]["gaps"]["facets"] == ["exchange_id"]
    assert described["queries"] == {}


def test_update_views_changes_only_the_views(session: Path, run) -> None:
    with open_recording(session) as recording:
        before = list(recording.observations())
    wanted, tables = _views(session), _tables(session)
    _of_another_version(session)
    result = succeed("datasette", session, "--update-views")
    assert "views of this version" in result.stdout
    assert (_views(session), _tables(session)) == (wanted, tables)
    with open_recording(session) as recording:
        assert list(recording.observations()) == before
    assert "views of this version" not in run("datasette", session, "--update-views", "--force").stdout


def test_a_recording_in_progress_is_not_changed(tmp_path: Path, run) -> None:
    writer = Writer.create(tmp_path / "run.db", upstream="http://service.test")
    try:
        _of_another_version(tmp_path / "run.db")
        result = run("datasette", tmp_path / "run.db", "--update-views")
        assert result.exit_code == 2
        assert "Another process is recording to" in result.stderr
        assert set(_views(tmp_path / "run.db")) == {"gaps", "runs"}
        assert run("datasette", tmp_path / "run.db").exit_code == 0, "to look at it meanwhile is fine"
    finally:
        writer.close()


def test_other_formats_and_names_that_are_not_utf_8_are_refused(session: Path, run) -> None:
    """File names may be any bytes; the files for datasette have to be UTF-8."""
    tape, odd = session.with_name("run.tape"), session.with_name(os.fsdecode(b"r\xffn.db"))
    succeed("export", session, "--format", "tape", "--output", tape)
    session.rename(odd)
    for path, message in ((tape, "wiretape import"), (session, "There is no file"), (odd, "is not UTF-8")):
        result = run("datasette", path)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert message in result.stderr
    assert {path.name for path in odd.parent.iterdir()} == {odd.name, tape.name}


def _unix(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _views(path: Path) -> dict[str, str]:
    return _sql(path, "view")


def _tables(path: Path) -> dict[str, str]:
    return _sql(path, "table")


def _sql(path: Path, kind: str) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = ?", (kind,)).fetchall())
