"""A command beside another one cannot end, hang or print without being noticed, and never holds up the other."""

import asyncio
import sys

import pytest

from wiretape import wiretape_subprocess
from wiretape.wiretape_subprocess import WiretapeSubprocess


def run(monkeypatch, tmp_path, script: str, until: str, patience_s: float = 5) -> list[str]:
    """Run a subprocess that is this shell script, until it has printed a line; return all lines."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    lines: list[str] = []

    async def scenario() -> None:
        seen = asyncio.Event()

        def write_line(line: str) -> None:
            lines.append(line)
            if until in line:
                seen.set()

        command = WiretapeSubprocess(write_line, patience_s=patience_s)
        command.start("export")
        async with asyncio.timeout(20):
            await seen.wait()
            await command.stop()

    asyncio.run(scenario())
    return lines


@pytest.mark.parametrize("size", [10, 70_000, 1_000_000])
def test_lines_of_any_length_are_forwarded_and_shortened(monkeypatch, tmp_path, size):
    script = f"(head -c {size} /dev/zero | tr '\\0' x; echo; echo end) >&2; cat > /dev/null"
    first, last = run(monkeypatch, tmp_path, script, "end")
    assert (set(first), last) == ({"x"}, "end")
    assert len(first) == min(size, wiretape_subprocess._LONGEST_LINE)


def test_a_command_that_is_killed_is_reported(monkeypatch, tmp_path):
    lines = run(monkeypatch, tmp_path, "echo begun >&2; kill -9 $$", "`wiretape export`")
    assert lines == ["begun", "`wiretape export` was killed by signal 9."]


def test_a_command_that_hangs_is_killed_and_reported(monkeypatch, tmp_path):
    lines = run(monkeypatch, tmp_path, "echo begun >&2; kill -STOP $$", "begun", patience_s=0.1)
    assert lines == ["begun", "`wiretape export` was killed, because it did not exit within 0.1 s."]


def test_a_line_that_does_not_end_is_forwarded_at_the_end(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, "printf 'no end' >&2", "no end") == ["no end"]
