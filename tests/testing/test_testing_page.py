"""The examples of docs/testing.md run."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from wiretape.testing import replay

PAGE = (Path(__file__).parents[2] / "docs/testing.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {code.partition("\n")[0].removeprefix("# "): code for kind, code in BLOCKS if code.startswith("# ")}


@pytest.fixture
def page(project):
    """Every file on the page, including its recording."""
    for name, text in FILES.items():
        (project.path / name).write_text(text, "utf-8")
    return project


def test_the_examples_pass(page):
    others = [name for name in FILES if name.startswith("test_")]
    assert len(others) == 6
    with replay(page.path / "run.db", no_auth=True, repeat="last") as service:
        for name in others:
            path = page.path / name
            path.write_text(path.read_text("utf-8").replace("http://127.0.0.1:8000", service.url), "utf-8")
        result = page.pytest(*others, subprocess=True)
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["wiretape: 2 tapes used, 2 written"])
    named = re.search(r"`(tapes/.*)` beside the file of the test", PAGE)[1]
    assert (page.path / named).is_file()


def test_the_example_for_other_runners_passes(page):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unittest", "check"],
        cwd=page.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_every_option_is_on_the_page():
    from wiretape_replay import ReplayOptions  # noqa: PLC0415
    from wiretape_replay.testing.client_criteria import CRITERIA  # noqa: PLC0415

    names = [*(field.name for field in fields(ReplayOptions) if field.init), *CRITERIA]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
