"""What the command says about faults: before a replay, and after it."""

from collections.abc import Iterator
from pathlib import Path

from wiretape.labels import count_of
from wiretape.recording import open_recording
from wiretape.safe_text import shorten
from wiretape_replay.faults.injector import Faults
from wiretape_replay.faults.rehearsal import listing
from wiretape_replay.faults.script import Script
from wiretape_replay.session.recorded.log_builder import build_sessions, find_session_ids


def dry_run(recording_path: Path, script: Script) -> Iterator[str]:
    """The lines of a dry run.  Raises RecordingError."""
    with open_recording(recording_path) as recording:
        # What is odd about the recording is said when it is played.
        sessions = build_sessions(recording, lambda _: None)
        logs = {name: session.log for name, session in sessions.items()}
        yield from listing(script, logs, find_session_ids(recording))


def summary(faults: Faults) -> Iterator[str]:
    """How often each fault was done, if there are any."""
    if faults.script.faults:
        told = (f"{shorten(name, 60)} {count_of(count, 'time')}" for name, count in faults.done.items())
        yield f"Faults done: {', '.join(told)}."
