"""The code on docs/python.md runs as it is."""

import re
from pathlib import Path

import pytest

import wiretape

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
TEXT = PAGE.read_text("utf-8")
SECTIONS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
BLOCKS = [
    pytest.param(code, id=f"{title} {number}")
    for title, section in SECTIONS
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE), 1)
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_snippet_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    traffic = wiretape.TrafficBuilder()
    stream = traffic.request("GET", "/v1/sessions/ses_1/events/stream").respond_stream()
    stream.event("session.status_idle", {"type": "session.status_idle", "sequence": 1}, id="evt_1").end()
    traffic.write("run.db")
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102 - the page is ours
    if "print" in code:
        assert capsys.readouterr().out


def test_every_name_on_the_page_is_public():
    named = set(re.findall(r"wiretape\.([A-Z]\w+|[a-z_]+)\(", "\n".join(code.values[0] for code in BLOCKS)))
    assert named <= set(wiretape.__all__)
    assert {"open_recording", "check", "check_stream", "Parser", "TrafficBuilder", "Checker"} <= named
