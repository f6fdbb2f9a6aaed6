"""Imports of files that other programs wrote."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from invoke import succeed

from wiretape.recording import open_recording


@pytest.fixture
def imported(tmp_path):
    """Return a function that imports a file, or the content of a HAR file, and returns the notes and the recording."""

    def import_(source, *options):
        if not isinstance(source, Path):
            content = source if isinstance(source, bytes) else json.dumps(source).encode()
            source = tmp_path / "in.har"
            source.write_bytes(content)
        result = succeed("import", source, "-o", tmp_path / "out.db", *options)
        return result.stderr, opened.enter_context(open_recording(tmp_path / "out.db"))

    with ExitStack() as opened:
        yield import_
