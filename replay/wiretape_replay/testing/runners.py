"""Replays for tests of any runner, and for scripts."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wiretape.config import find_config
from wiretape_replay.testing.bench import Bench
from wiretape_replay.testing.judged import JudgedReplay


class ClientError(AssertionError):
    """The client did something wrong: the report of it, as `wiretape report` words it."""


@contextmanager
def replay(recording: Path | str, **given: Any) -> Iterator[JudgedReplay]:
    """Play a recording as an offline service until the block is left, and judge the client.

    Takes the fields of ReplayOptions, and `fail_on`, `allow` and `allow_misses`.  Paths are relative to the working
    directory.  Raises InputError for options and files that cannot be used, and ClientError at the end if the client
    broke a rule or a request had no match.  To an exception of the block's own, what the
    client did is added as a note.  What passed stays recorded in a temporary folder if something went wrong.
    """
    config = find_config(Path.cwd())
    folder = Path(tempfile.mkdtemp(prefix="wiretape-"))
    bench = Bench(folder, config)
    try:
        try:
            yield bench.start(recording, dict(given))
        finally:
            bench.stop()
        _judge(bench)
        bench.tidy()
    except Exception as error:
        if text := bench.account():
            error.add_note(text)
        raise
    finally:
        with suppress(OSError):  # it holds recordings
            folder.rmdir()


def _judge(bench: Bench) -> None:
    if (text := bench.wrong()) is not None:
        raise ClientError(text)
